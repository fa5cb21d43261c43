"""Run any solver in chunks, so that Python can interrupt, limit, record and report between two."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.certificate import Certificate, Status, certify, uncertified
from maxmargin.problems import Problem
from maxmargin.solvers.steps import Step, check_solver
from maxmargin.tables import Table, facts_html
from maxmargin.threads import one_blas_thread

__all__ = ["Progress", "Solution", "Solver", "State", "solve", "uninterrupted"]

Floats = NDArray[np.float64]

_PATIENCE = 0.6  # seconds
_LEAST = 1e-100  # no smaller tol can help a gap that it has not closed
HISTORY = ("iteration", "seconds", "primal", "dual", "gap", "kkt_violation", "n_support")


class State(Protocol):
    """What a solver keeps between two chunks."""

    iteration: int
    tol: float

    @property
    def beta(self) -> Floats:
        """The current point, a copy."""
        ...

    @property
    def violation(self) -> float:
        """The KKT violation as far as the solver knows it; shown as progress, proves nothing."""
        ...

    @property
    def relative_gap(self) -> float:
        """The relative duality gap, likewise."""
        ...


class Solver(Protocol):
    """The settings of an algorithm and its three verbs; everything that changes is in the state.

    Examples
    --------
    >>> from maxmargin.solvers import SMO, TextbookSMO
    >>> def needs_a_solver(solver: Solver) -> None: ...
    >>> needs_a_solver(SMO()), needs_a_solver(TextbookSMO(max_passes=5))
    (None, None)
    """

    @property
    def record_every(self) -> int | None:
        """How many iterations lie between two records; None records the end alone."""
        ...

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> Any:
        """Check that the problem is supported and return a State at a feasible point."""
        ...

    def step(self, state: Any, chunk: int) -> None:
        """Take at most ``chunk`` iterations, and not much more than a tenth of a second."""
        ...

    def done(self, state: Any) -> Status | None:
        """Return how the solver ended, or None while it goes on."""
        ...


@dataclass(frozen=True)
class Progress:
    """What a callback of :func:`solve` is told after every chunk: estimates, proving nothing.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> problem = problems.soft_margin(kernels.Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> told = []
    >>> solution = solve(problem, callback=told.append)
    >>> isinstance(told[-1], Progress), told[-1].tol
    (True, 0.001)
    """

    iteration: int
    seconds: float
    kkt_violation: float
    relative_gap: float
    tol: float
    gap_tol: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """A point of a problem with the proof of its quality.

    Parameters
    ----------
    problem : Problem
    beta : ndarray of shape (n_variables,)
        The signed variables.
    status : Status
        How the solver ended; ``status == "optimal"`` works.
    certificate : Certificate
        Primal, dual, gap and KKT violation at ``beta``, recomputed in float64.
    history : Table
        iteration, seconds, primal, dual, gap, kkt_violation, n_support; each row certified.
    n_iter : int
    seconds : float
    counters : dict
        What the solver counted on its way.
    steps : list of Step
        Every update, where the solver was made with ``record_steps=True``.
    betas, biases : list of ndarray, list of float
        The variables and the solver's own b at every row of the history, where it has
        ``record_every``: what N0's Algorithm 1 returns beside the objectives. The objectives are
        certified: the primal one is at the best b for w, which ``Solution.b`` is too.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> solution = solve(problems.soft_margin(kernels.Linear().gram([[1.0], [-1.0]]), [1, -1]))
    >>> solution.alpha, solution.b, solution.status == "optimal"
    (array([0.5, 0.5]), 0.0, True)
    """

    problem: Problem
    beta: Floats
    status: Status
    certificate: Certificate
    history: Table
    n_iter: int
    seconds: float
    counters: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    betas: list[Floats] = field(default_factory=list)
    biases: list[float] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Solution of {self.problem.name}: {self.certificate!r}, {self.n_iter} iterations>"

    def _repr_html_(self) -> str:
        found = {} if self.status is Status.INFEASIBLE else self.parameters
        own = {
            **{name: f"{value:.8g}" for name, value in found.items()},
            "support vectors": str(int(self.history["n_support"][-1])),
            "iterations": f"{self.n_iter}, in {self.seconds:.3g} s",
        }
        facts = {k: v for k, v in self.certificate._facts().items() if k != "multipliers"}
        title = f"Solution of {self.problem.name}, {len(self.beta)} variables"
        return facts_html(title, {**facts, **own})

    @property
    def alpha(self) -> Floats:
        """The notes' dual variable per sample, α_i = y_i β_i; in regression the signed β."""
        sums = self.problem.by_row(self.beta)
        return sums.copy() if self.problem.y is None else sums * self.problem.y + 0.0  # no -0

    @property
    def parameters(self) -> dict[str, float]:
        """What the multipliers mean: b; b and eta; b and epsilon; rho; or R2.

        Where the optimum leaves them an interval these are its middle, or the finite end of a
        half-line; for ν-SVC :func:`maxmargin.nu_svm.nu_margin` tells.
        """
        return self.problem.parameters(self.certificate.lam, self.beta)

    @property
    def b(self) -> float:
        """The bias."""
        found = self.parameters
        if "b" not in found:
            has = f"; it has {', '.join(found)}" if found else ""
            raise AttributeError(f"{self.problem.name} has no bias{has}.")
        return found["b"]


def solve(
    problem: Problem,
    solver: Solver | None = None,
    *,
    tol: float = 1e-3,
    gap_tol: float | None = None,
    max_iter: int = -1,
    max_time: float | None = None,
    beta: ArrayLike | None = None,
    callback: Callable[[Progress], bool | None] | None = None,
) -> Solution:
    """Solve a problem and certify the answer.

    Parameters
    ----------
    problem : Problem
    solver : Solver, default=SMO()
    tol : float, default=1e-3
        KKT violation at which to stop, LIBSVM's quantity.
    gap_tol : float or None, default=None
        Relative duality gap to reach as well; ``tol`` is then tightened as far as needed.
    max_iter : int, default=-1
        Limit of iterations; -1 for none.
    max_time : float or None, default=None
        Limit of seconds.
    beta : array-like of shape (n_variables,), default=None
        Where to start; projected onto the feasible set.
    callback : callable, default=None
        Called with a :class:`Progress` after every chunk; returning True ends the run as
        ``interrupted``.

    Returns
    -------
    Solution
        Whatever stopped the solver (``max_iter``, ``max_time``, Ctrl-C), the best point so far
        with its true status and gap.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> solution = solve(problems.soft_margin(gram, [-1, -1, 1, 1], C=10.0), tol=1e-6)
    >>> solution.status == "optimal", solution.alpha.round(6), round(solution.b, 6)
    (True, array([0., 2., 2., 0.]), -3.0)
    """
    from maxmargin.solvers.smo import SMO

    _check(tol, gap_tol, max_iter, max_time)
    chosen: Any = SMO() if solver is None else solver
    check_solver(chosen)
    start = None if beta is None else problem.project(beta)
    run = _Run(problem, chosen, tol, gap_tol, max_iter, max_time, callback)
    with one_blas_thread():  # once for all that is inside
        return run.finish(run.loop(start))


def uninterrupted(solution: Solution) -> Solution:
    """Return one of several solutions, unless Ctrl-C cut it short: it was meant for all of them."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution


def _check(tol: float, gap_tol: float | None, max_iter: int, max_time: float | None) -> None:
    if not tol > 0:
        raise ValueError(f"tol={tol!r} must be positive.")
    if gap_tol is not None and not gap_tol > 0:
        raise ValueError(f"gap_tol={gap_tol!r} must be positive or None.")
    if max_iter < -1:
        raise ValueError(f"max_iter={max_iter!r} must be at least 0, or -1 for no limit.")
    if max_time is not None and not max_time >= 0:
        raise ValueError(f"max_time={max_time!r} must be a number of seconds or None.")


class _Run:
    """One call of solve: the loop, its clock and its records."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        tol: float,
        gap_tol: float | None,
        max_iter: int,
        max_time: float | None,
        callback: Callable[[Progress], bool | None] | None,
    ) -> None:
        self.problem, self.solver, self.tol, self.gap_tol = problem, solver, tol, gap_tol
        self.max_iter = math.inf if max_iter == -1 else max_iter
        self.max_time = math.inf if max_time is None else max_time
        self.callback = callback
        self.state: Any = None
        self.began = time.perf_counter()
        self.records: list[tuple[float, ...]] = []
        self.betas: list[Floats] = []
        self.biases: list[float] = []

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def certify(self, status: Status | None = None) -> Certificate:
        return certify(
            self.problem, self.state.beta, tol=self.tol, gap_tol=self.gap_tol, status=status
        )

    def record(self, certificate: Certificate, beta: Floats) -> None:
        iteration = self.state.iteration
        if self.records and self.records[-1][0] == iteration:
            self.records.pop()
        held = self.problem.by_row(beta)
        c = certificate
        support = int(np.count_nonzero(held if held.ndim == 1 else held.any(axis=1)))
        row = (iteration, self.seconds(), c.primal, c.dual, c.gap, c.kkt_violation, support)
        self.records.append(row)
        if self.solver.record_every:
            at = slice(len(self.records) - 1, None)
            b = getattr(self.state, "b", c.lam[0] if len(c.lam) == 1 else math.nan)
            self.betas[at], self.biases[at] = [beta], [float(b)]

    def loop(self, start: Floats | None) -> Status:
        try:
            self.state = self.solver.init(self.problem, tol=self.tol, beta=start)
            if self.solver.record_every:
                self.record(self.certify(), self.state.beta)
            while True:
                status = self.limit()
                if status is None:
                    self.solver.step(self.state, self.chunk())
                    status = self.enough(self.solver.done(self.state))
                stop = self.report(status)
                if status is not None:
                    return status
                if stop:
                    return Status.INTERRUPTED
        except KeyboardInterrupt:
            if self.state is None:
                raise
            return Status.INTERRUPTED

    def chunk(self) -> int:
        until = min(self.max_iter - self.state.iteration, float(1 << 40))
        every = self.solver.record_every
        if every:
            until = min(until, every - self.state.iteration % every)
        return int(until)

    def limit(self) -> Status | None:
        if self.state.iteration >= self.max_iter:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.seconds() >= self.max_time else None

    def enough(self, status: Status | None) -> Status | None:
        """A small KKT violation alone can leave a gap: go on with a smaller tolerance."""
        if status is Status.OPTIMAL and self.gap_tol is not None:
            certificate = self.certify(status)
            if certificate.relative_gap > self.gap_tol:
                if self.state.tol < _LEAST:
                    return Status.PRECISION_LIMIT
                self.state.tol /= 10
                return None
        return status

    def report(self, status: Status | None) -> bool:
        every, state = self.solver.record_every, self.state
        due = every and status is None and state.iteration % every == 0
        if due and state.iteration > self.records[-1][0]:  # a chunk may end inside an iteration
            self.record(self.certify(), self.state.beta)
        if self.callback is None:
            return False
        gap, seconds = state.relative_gap, self.seconds()
        told = Progress(state.iteration, seconds, state.violation, gap, state.tol, self.gap_tol)
        return bool(self.callback(told))

    def prove(self, status: Status) -> Certificate:
        """Certify the end; after Ctrl-C only if that takes no second, and another one gives it up.

        The model is never lost: what is left out can be computed later.
        """
        gram = self.problem.gram
        if status is Status.INTERRUPTED:
            gram.deadline = time.perf_counter() + _PATIENCE
        try:
            return self.certify(status)
        except (KeyboardInterrupt, TimeoutError):
            lam = getattr(self.state, "lam", np.zeros(self.problem.n_groups))
            return uncertified(lam, Status.INTERRUPTED)
        finally:
            gram.deadline = math.inf

    def finish(self, status: Status) -> Solution:
        beta = self.problem.swept(self.state.beta)
        certificate = self.prove(status)
        self.record(certificate, beta)
        columns = zip(*self.records, strict=True)
        return Solution(
            problem=self.problem,
            beta=beta,
            status=certificate.status or status,
            certificate=certificate,
            history=Table(dict(zip(HISTORY, map(np.array, columns), strict=True))),
            n_iter=int(self.state.iteration),
            seconds=self.seconds(),
            counters=dict(getattr(self.state, "counters", {})),
            steps=list(getattr(self.state, "steps", [])),
            betas=self.betas,
            biases=self.biases,
        )
