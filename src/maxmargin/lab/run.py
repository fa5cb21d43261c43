"""One solver on one problem, step by step: every point it passed is kept, so it can go back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import Certificate, Status, certify
from maxmargin.lab.document import make_solver
from maxmargin.problems import Problem
from maxmargin.solvers.steps import Step
from maxmargin.threads import one_blas_thread

__all__ = ["Record", "Run"]

Floats = NDArray[np.float64]

_KEPT_BYTES = 1 << 26  # of all points that are kept
_GROWTH = 1.3  # training records iterations 1, 2, 3, ... ever more rarely
_PATIENCE = 10.0  # seconds that a training may take in all


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """A point the solver passed, with its proof, and the update that led there."""

    beta: Floats
    certificate: Certificate
    iteration: int = 0
    updates: int = 0
    seconds: float = 0.0
    step: Step | None = None
    status: Status | None = None


class Run:
    """The states of one solver from its start, and the one that is shown.

    Parameters
    ----------
    problem : Problem
    name : str
        Of the solver.
    tol : float
    """

    def __init__(self, problem: Problem, name: str, tol: float) -> None:
        self.problem, self.name, self.tol = problem, name, tol
        self.state: Any = None
        self.solver: Any = None
        self.watched = False
        self.seconds = 0.0
        self.forgotten = 0  # records that were dropped
        start = problem.start()
        self.records = [Record(beta=start, certificate=certify(problem, start, tol=tol))]
        self.cursor = 0
        self._chunk = 1.0
        self._updates_before = 0

    @property
    def record(self) -> Record:
        """The record that is shown."""
        return self.records[self.cursor]

    @property
    def finished(self) -> Status | None:
        """How the solver ended, None if it goes on."""
        return self.records[-1].status

    @property
    def at_end(self) -> bool:
        """Whether the newest record is shown."""
        return self.cursor == len(self.records) - 1

    def replay(self, records: list[Record]) -> None:
        """Show records that come from a trace; the solver goes on from the last of them."""
        self.records, self.cursor, self.watched = records, 0, True
        self.state = None

    def step(self, n: int, *, until: float) -> None:
        """Go n updates on: along what is known, then with the solver."""
        for _ in range(n):
            if not self.at_end:
                self.cursor += 1
                continue
            if self.finished is not None:
                return
            self._begin(watched=True)
            self._keep(self._timed(self._update))
            self.cursor = len(self.records) - 1
            if time.perf_counter() >= until:
                return

    def back(self, n: int) -> None:
        """Go n records back."""
        self.cursor = max(0, self.cursor - n)

    def seek(self, cursor: int) -> None:
        """Show one of the records."""
        self.cursor = max(0, min(cursor - self.forgotten, len(self.records) - 1))

    def train(self, *, until: float) -> None:
        """Solve, recording ever more rarely; what is left at ``until`` waits for the next call."""
        self._begin(watched=False)
        while self.finished is None and time.perf_counter() < until:
            if self.seconds >= _PATIENCE:
                self._keep(None, Status.TIME_LIMIT)
                break
            end = self.state.iteration + int(self._chunk)
            while self.solver.done(self.state) is None and self.state.iteration < end:
                self._timed(
                    lambda end=end: self.solver.step(self.state, end - self.state.iteration)
                )
                if time.perf_counter() >= until:
                    break
            getattr(self.state, "steps", []).clear()
            self._keep(None)
            self._chunk *= _GROWTH
        self.cursor = len(self.records) - 1

    def _begin(self, *, watched: bool) -> None:
        """Make the solver, from the last point on; a watched one serves training as well."""
        if self.state is not None and (self.watched or not watched):
            return
        last = self.records[-1]
        self.watched = watched
        self.solver = make_solver(self.name, watched=watched)
        start = None if len(self.records) == 1 else last.beta
        self._updates_before = last.updates
        with one_blas_thread():
            self.state = self.solver.init(self.problem, tol=self.tol, beta=start)

    def _timed(self, act: Any) -> Any:
        began = time.perf_counter()
        with one_blas_thread():
            result = act()
        self.seconds += time.perf_counter() - began
        return result

    def _update(self) -> Step | None:
        """Take one update: a sweep of TextbookSMO or a pass of DualCoordinate has many."""
        state, before = self.state, self.state.iteration
        one = getattr(state, "visit", None)
        state.steps.clear()
        while not state.steps and state.iteration == before and self.solver.done(state) is None:
            if one is None:
                self.solver.step(state, 1)
            else:
                one()
        return state.steps[-1] if state.steps else None

    def _keep(self, step: Step | None, status: Status | None = None) -> None:
        """Certify the point that is reached, and keep it."""
        status = status or self.solver.done(self.state)
        beta, last = np.array(self.state.beta), self.records[-1]
        certificate = certify(self.problem, beta, tol=self.tol, status=status)
        if self.watched and step is not None:
            updates = last.updates + 1
        else:
            updates = max(last.updates, self._updates_before + self._count())
        self.records.append(
            Record(
                beta=beta,
                certificate=certificate,
                iteration=int(self.state.iteration),
                updates=updates,
                seconds=self.seconds,
                step=step,
                status=None if status is None else certificate.status or status,
            )
        )
        if len(self.records) * beta.nbytes > _KEPT_BYTES:
            del self.records[0]
            self.forgotten += 1

    def _count(self) -> int:
        """How many updates the solver has made."""
        counters = getattr(self.state, "counters", {})
        if "pairs_changed" in counters:
            return int(counters["pairs_changed"])
        each = self.problem.n_variables if self.name == "DualCoordinate" else 1
        return int(self.state.iteration) * each
