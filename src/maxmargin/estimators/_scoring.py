"""Scores of rows that a fold holds out: what scorers say of the machine of a cell."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics._scorer import _PassthroughScorer
from sklearn.model_selection._validation import _score
from sklearn.utils.metaestimators import _safe_split

from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._cells import Split
from maxmargin.estimators._standing_in import standing_in

if TYPE_CHECKING:
    from maxmargin.estimators._search import Search

__all__ = ["Scoring", "fitted"]

Floats = NDArray[np.float64]


class Scoring:
    """Scores of machines on the rows that they have not seen."""

    search: Search
    machine: SupportVectorMachine
    scorers: Any
    weight: Floats | None
    given: tuple[Any, Any]  # X and y as the caller has them: what splitters and scorers see
    passed: dict[str, NDArray[Any]]  # to the scorers

    def held_out(self, split: Split) -> tuple[Any, Any]:
        """The rows that it has not seen, new at each call: a scorer may write on them."""
        X, y = _safe_split(self.machine, *self.given, split.test, split.train)
        return X, y

    def score(self, machine: Any, split: Split) -> Any:
        """What the scorers say of a machine on the rows that it has not seen: NaN if they fail."""
        passed = {name: values[split.test] for name, values in self.passed.items()}
        return _score(machine, *self.held_out(split), self.scorers, passed, error_score=np.nan)

    def score_values(
        self, split: Split, settings: list[dict[str, Any]], values: Sequence[Floats]
    ) -> list[Any]:
        """What the scorers say of machines of known decision values on those rows, in turn."""
        X, _ = self.held_out(split)
        scores = []
        for setting, in_turn in zip(settings, values, strict=True):
            known = np.empty_like(in_turn)
            known[split.turn] = in_turn
            machine = copy.copy(split.machine).set_params(**clone(setting, safe=False))
            fit = functools.partial(fitted, self.machine, setting, *self.given, self.weight, split)
            scores.append(self.score(standing_in(machine, X, known, fit), split))
        return scores

    def plain(self, split: Split) -> bool:
        """Whether the score is the machine's own, which needs no scorer's checks."""
        weight = self.passed.get("sample_weight")
        if not len(split.test) or (weight is not None and not weight[split.test].sum()):
            return False  # whatever scikit-learn makes of it
        passed = isinstance(self.scorers, _PassthroughScorer)
        return passed or self.search.scoring == "accuracy"


def fitted(
    machine: Any,
    setting: dict[str, Any],
    X: Any,
    y: Any,
    weight: Floats | None,
    split: Split,
    start: Any = None,
    max_time: float | None = None,
) -> Any:
    """The machine of a cell as GridSearchCV has it; it may start from the solution of another."""
    fresh = clone(machine) if start is None else copy.copy(start)
    fresh.set_params(**clone(setting, safe=False), warm_start=True, max_time=max_time)
    given = {} if weight is None else {"sample_weight": weight[split.train]}
    fresh.fit(*_safe_split(machine, X, y, split.train), **given)
    return fresh.set_params(warm_start=False, max_time=None)
