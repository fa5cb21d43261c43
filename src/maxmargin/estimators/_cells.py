"""What is known of every candidate of a search on every split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.estimators._chains import Chain

__all__ = ["Cells", "Split", "Work", "worst"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STATUSES = (
    "stationary", "no margin", "precision_limit", "iteration_limit", "discarded", "not reached",
    "failed",
)  # fmt: skip


@dataclass
class Split:
    """A training set and a test set, and what a machine makes of the former."""

    train: Ints
    test: Ints
    turn: Any = None  # the order of `test` in which its rows lie in K
    machine: Any = None
    chains: list[Chain] = field(default_factory=list)
    truth: Any = None  # classes of `test` in that order, by their place among those of the machine
    error: str = ""  # why nothing can be fitted


@dataclass
class Cells:
    """What is known of every candidate (rows) on every split (columns)."""

    scores: list[list[Any]]  # None where there is none
    n_support: Floats
    violation: Floats
    gap: Floats
    n_iter: Floats
    fit_time: Floats
    score_time: Floats
    errors: list[str]
    status: NDArray[Any]

    @classmethod
    def empty(cls, candidates: int, splits: int) -> Cells:
        shape = (candidates, splits)
        nothing = [np.full(shape, np.nan) for _ in range(4)]
        times = [np.zeros(shape) for _ in range(2)]
        scores: list[list[Any]] = [[None] * splits for _ in range(candidates)]
        status = np.full(shape, "not reached", dtype=object)
        return cls(
            scores, nothing[0], nothing[1], nothing[2], nothing[3], times[0], times[1], [], status
        )

    def joined(self, other: Cells) -> Cells:
        def both(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(self, name), getattr(other, name)])

        return Cells(
            scores=self.scores + other.scores,
            n_support=both("n_support"),
            violation=both("violation"),
            gap=both("gap"),
            n_iter=both("n_iter"),
            fit_time=both("fit_time"),
            score_time=both("score_time"),
            errors=self.errors + other.errors,
            status=both("status"),
        )


@dataclass
class Work:
    """What one matrix serves: settings that differ in C, ν or ε, and the candidates they are."""

    settings: list[dict[str, Any]]
    chosen: list[int]
    kernel: Any
    folds: list[int]
    share: float = 0.0  # of it that is solved, and not noted yet

    @property
    def size(self) -> int:
        """In fits."""
        return len(self.chosen) * len(self.folds)


def worst(status: NDArray[Any]) -> NDArray[Any]:
    """The least welcome status of each row."""
    out = np.full(len(status), "optimal", dtype=object)
    for name in _STATUSES:
        out[(status == name).any(axis=1)] = name
    return out
