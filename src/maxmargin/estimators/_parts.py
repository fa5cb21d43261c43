"""The problems a machine consists of: to be solved, solved, and where an earlier fit left them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.certificate import Certificate, Status, uncertified
from maxmargin.problems import Problem
from maxmargin.solvers.solve import HISTORY
from maxmargin.tables import Table

if TYPE_CHECKING:
    from maxmargin.estimators._base import SupportVectorMachine

__all__ = [
    "Before",
    "HeldOut",
    "Part",
    "Piece",
    "columns_of",
    "passed",
    "placed",
    "results",
    "share_of",
    "support_of",
    "untouched",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One of the problems of a machine: all its data, a pair of classes, a class and the rest."""

    rows: Ints  # of X, in the order of the problem's Gram
    make: Callable[[], Problem]
    name: str = ""
    weight: Floats | None = None  # of the samples, without that of their class


@dataclass(frozen=True)
class HeldOut:
    """Decision values of a part's samples by machines that have not seen them."""

    scores: Floats
    signs: Floats
    weight: Floats


@dataclass(frozen=True)
class Piece:
    """What a machine keeps of a part once it is solved."""

    rows: Ints  # of X, with a coefficient
    coef: Floats  # (n_rows, n_outputs), in the model's units
    found: dict[str, float]  # b and its relatives, in the model's units
    certificate: Certificate
    history: Table
    n_iter: int
    held_out: HeldOut | None = None


@dataclass(frozen=True)
class Before:
    """The model of an earlier fit, as a starting point."""

    support: Ints
    columns: Floats
    vectors: Any
    n: int
    classes: Any
    scheme: Any  # how classes become problems

    @classmethod
    def of(cls, machine: SupportVectorMachine) -> Before | None:
        if "support_" not in vars(machine):
            return None
        return cls(
            machine.support_.astype(np.int64),
            machine._columns(),
            machine.support_vectors_,
            machine.shape_fit_[0],
            getattr(machine, "classes_", 0),
            machine.__dict__.get("_scheme"),
        )

    def applies(self, machine: SupportVectorMachine, X: Any) -> bool:
        """Whether the first rows of X hold the last support vectors, and the classes are those."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        same = n >= self.n and np.array_equal(self.classes, getattr(machine, "classes_", 0))
        same = same and self.scheme == getattr(machine, "multi_class", None)
        if same and machine._mode() == "compiled":
            same = X.shape[1] == self.vectors.shape[1] and sp.issparse(X) == sp.issparse(
                self.vectors
            )
            same = same and not (len(self.support) and abs(X[self.support] - self.vectors).max())
        if not same:
            logging.getLogger("maxmargin").info(
                "warm_start: X, or the classes, are not those of the last fit; starting anew."
            )
        return bool(same)

    def start(
        self, machine: SupportVectorMachine, part: Part, problem: Problem, k: int
    ) -> Floats | None:
        """The last coefficients in the part's problem."""
        outputs = self.columns if len(part.name) == 0 else self.columns[:, k : k + 1]
        coef = np.zeros((max(self.n, int(part.rows.max()) + 1), outputs.shape[1]))
        coef[self.support] = outputs
        own = coef[part.rows]
        return problem.rescaled(machine._variables(problem, own)) if own.any() else None


def results(
    pool: Executor, run: Callable[[int], Any], count: int, halt: threading.Event
) -> list[Any]:
    """Run all; on Ctrl-C what is under way ends within a chunk, and the rest at once."""
    futures: list[Future[Any]] = []
    while True:
        try:
            while len(futures) < count:
                futures.append(pool.submit(run, len(futures)))
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            halt.set()


def share_of(until: float | None, parts: int) -> float | None:
    """When the next of so many parts must end, for all of them to have their turn."""
    now = time.perf_counter()
    return None if until is None else now + max(until - now, 0.0) / parts


def passed(until: float | None) -> bool:
    """Whether that time is over."""
    return until is not None and time.perf_counter() > until


def support_of(pieces: Sequence[Piece]) -> Ints:
    """Rows with a coefficient in any piece, ascending."""
    return np.unique(np.concatenate([piece.rows for piece in pieces]))


def placed(pieces: Sequence[Piece], support: Ints) -> Iterator[tuple[Ints, Floats]]:
    """For each piece, where in ``support`` its coefficients belong, and these."""
    rows = max(int(piece.rows.max(initial=-1)) for piece in pieces) + 1
    place = np.full(rows, -1, dtype=np.int64)
    place[support] = np.arange(len(support))
    for piece in pieces:
        yield place[piece.rows], piece.coef


def columns_of(pieces: Sequence[Piece], support: Ints) -> Floats:
    """Coefficients of the rows in ``support``, (n_SV, n_outputs)."""
    columns = []
    for piece, (at, values) in zip(pieces, placed(pieces, support), strict=True):
        column = np.zeros((len(support), piece.coef.shape[1]))
        column[at] = values
        columns.append(column)
    return np.hstack(columns)


def untouched(part: Part) -> Piece:
    """What is known of a part that an interrupted fit never came to: nothing."""
    nothing = Table({name: np.zeros(0) for name in HISTORY})
    certificate = uncertified(np.zeros(0), Status.INTERRUPTED)
    return Piece(part.rows[:0], np.zeros((0, 1)), {"b": 0.0}, certificate, nothing, 0)
