"""Scores of rows that a fold holds out: what scorers say of the machine of a cell."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics._scorer import _PassthroughScorer
from sklearn.model_selection._validation import _score
from sklearn.utils.metaestimators import _safe_split

from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._cells import Cells, Split
from maxmargin.estimators._chains import Found, Layout
from maxmargin.estimators._parts import passed
from maxmargin.estimators._standing_in import standing_in

if TYPE_CHECKING:
    from maxmargin.estimators._search import Search

__all__ = ["Scoring", "fitted"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Solved:
    """Solutions over one matrix, before they are scored."""

    found: Found
    folds: list[int]
    layout: Layout
    refused: NDArray[np.object_] | None  # why, of each chain and member; "" where it is not
    seconds: float


class Scoring:
    """Scores of machines on the rows that they have not seen."""

    search: Search
    machine: SupportVectorMachine
    scorers: Any
    weight: Floats | None
    given: tuple[Any, Any]  # X and y as the caller has them: what splitters and scorers see
    passed: dict[str, NDArray[Any]]  # to the scorers
    splits: list[Split]
    until: float | None  # when the search ends, ...
    overdue: float | None  # ... and when what is solved is not scored any more
    _left: list[tuple[int, int, dict[str, Any]]]  # cells for the ordinary solver

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

    # ---- what was solved over a matrix --------------------------------------------------------

    def _noted(
        self, solved: Solved | None, folds: list[int], settings: list[dict[str, Any]],
        chosen: list[int], cells: Cells, convex: bool,
    ) -> None:  # fmt: skip
        work = [] if solved is None else solved.folds
        for f in set(folds) - set(work):
            cells.errors += [self.splits[f].error] * len(chosen)
            cells.status[chosen, f] = "failed"
        if solved is None:
            return
        ends = np.searchsorted(solved.layout.fold, np.arange(len(work) + 1))
        ready, facts = self._told(solved, ends[:-1], settings, chosen, cells, convex)
        quick = self.until is None or all(self.plain(self.splits[f]) for f in work)
        every, scored = np.arange(len(settings)), np.zeros_like(ready)
        try:
            for members in [every] if quick else every[:, None]:  # of each C all folds
                for k, f in enumerate(work):
                    own = members[ready[k, members]]
                    if len(own) and (quick or not passed(self.overdue)):
                        at = slice(ends[k], ends[k + 1])
                        self._scored(solved, at, own, settings, chosen, f, cells)
                        scored[k, own] = True
        finally:
            at_hand = np.ix_(chosen, work)
            for to, values in facts:
                to[at_hand] = np.where(scored.T, values.T, to[at_hand])

    def _scored(
        self, solved: Solved, at: slice, own: Ints, settings: list[dict[str, Any]],
        chosen: list[int], f: int, cells: Cells,
    ) -> None:  # fmt: skip
        began, found = time.perf_counter(), solved.found
        some = slice(None) if len(own) == len(settings) else own  # most often all: without a copy
        scores = self.search._scored(
            self, self.splits[f], [settings[q] for q in own], found.of_fold(at)[some],
            found.lam[at][:, some],
        )  # fmt: skip
        each = (time.perf_counter() - began) / len(own)
        for q, score in zip(own.tolist(), scores, strict=True):
            cells.scores[chosen[q]][f], cells.score_time[chosen[q], f] = score, each

    def _told(
        self, solved: Solved, starts: Ints, settings: list[dict[str, Any]], chosen: list[int],
        cells: Cells, convex: bool,
    ) -> tuple[NDArray[np.bool_], list[tuple[NDArray[Any], NDArray[Any]]]]:  # fmt: skip
        """Of which folds and members scores are to be counted, and what to note of these."""
        found, search, work = solved.found, self.search, solved.folds
        tol = search._closer * self.machine.tol
        violation = np.maximum.reduceat(found.violation, starts)
        dual, gap, steps = (
            np.add.reduceat(each, starts) for each in (found.dual, found.gap, found.steps)
        )
        clear = search._clear(found.lam, found.dual + found.gap, tol)
        feasible = np.ones_like(violation, dtype=bool)
        if solved.refused is not None:
            never = np.maximum.reduceat(solved.refused, starts)
            feasible = never == ""
            for k, q in np.argwhere(~feasible):
                cells.errors.append(never[k, q])
                cells.status[chosen[q], work[k]] = "failed"
        # A violation is infinite where time ran out.
        ready = feasible & (violation <= tol) & np.logical_and.reduceat(clear, starts)
        left = np.argwhere(feasible & ~ready)
        self._left += [(chosen[q], work[k], settings[q]) for k, q in left]
        size = np.maximum(np.abs(dual), np.abs(dual + gap))
        share = np.full(ready.shape, solved.seconds / max(ready.size, 1))
        relative = np.divide(gap, size, out=np.zeros_like(gap), where=ready & (size > 0))
        status = np.full(ready.shape, "optimal" if convex else "stationary", dtype=object)
        return ready, [
            (cells.status, status), (cells.violation, violation), (cells.gap, relative),
            (cells.n_iter, steps), (cells.n_support, found.n_support), (cells.fit_time, share),
        ]  # fmt: skip


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
