"""The production solver: SMO in C++ with second-order pairs, shrinking and a cache of Gram rows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.certificate import Status, margin_bound, margin_resolution, rounding
from maxmargin.grams import default_cache_size
from maxmargin.problems import Problem
from maxmargin.screening import products
from maxmargin.solvers.face import minimise_on_face
from maxmargin.solvers.rows import SECONDS
from maxmargin.solvers.steps import Step, pair_step, single_step
from maxmargin.threads import one_blas_thread, thread_count

__all__ = ["SMO"]

Floats = NDArray[np.float64]

_WSS2 = "most violating, with the partner of the largest second-order gain"
_ALONE = "largest second-order gain"
_WORKING_SETS = 256, 512  # slots of a round at first: up to 4096 samples, and beyond
_SMALL = 2048  # rows: the whole Gram in float64 is 32 MB
_TINY, _POLISHES, _EXACT = 256, 3, 1e-6
_CLOSER = 0.05  # of tol: near enough for Newton's method to find the right free variables
_FEW = 256  # free variables: a decomposition costs little
_ENDLESS = 1e50  # as in the core
_DOUBLE = 2.0**-16  # of what float32 rows leave: sums of float64 ones are not exact either
_LIKELY = 0.02  # of the bound on the error of float32 rows: what was seen at most, on large data
_DRIFT, _LARGE_DRIFT = 0.9, 0.5  # steps aim a little below tol: the fresh gradient confirms it
# At a large C a KKT violation of tol can leave most of the gap: then steps go on, within reason.
_GAP = 1e-3
_FURTHEST = 1e-4


@dataclass(frozen=True, kw_only=True)
class SMO:
    """Sequential minimal optimisation, the exact solver for every formulation.

    Parameters
    ----------
    shrinking : bool, default=True
        Set variables aside that are settled at a bound, with their columns of the Gram.
    cache_size : float or None, default=None
        MB of Gram rows to keep; None is a quarter of the free memory, at least 200.
    n_threads : int or None, default=None
        None: all CPUs this process may use. The result is bitwise the same for any number.
    record_every : int or None, default=None
        Certify and record every so many iterations; None records the end alone.
    record_steps : bool, default=False
        Keep every pair step, for :func:`maxmargin.solvers.steps`.

    Notes
    -----
    N0 §3.5: each step moves t between two variables of a group, with N0 eq. (96)-(98) in signed
    form. The pair is the one of Fan, Chen & Lin (2005). Rows are float32 where that is precise
    enough, the gradient is float64, and the solver ends only on a freshly computed one.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.RBF(gamma=1.0).gram([[0.0], [1.0], [2.0]])
    >>> solvers.solve(problems.soft_margin(gram, [1, -1, 1]), SMO(cache_size=10)).status
    <Status.OPTIMAL: 'optimal'>
    """

    shrinking: bool = True
    cache_size: float | None = None
    n_threads: int | None = None
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Start at ``beta``, or at a sparse feasible point."""
        if self.record_steps and problem.block is not None:
            raise ValueError(
                f"SMO tells the steps of one machine; {problem.name} has {problem.n_blocks}, one "
                "for each class. Leave out record_steps; record_every works."
            )
        return _State(self, problem, tol, problem.start() if beta is None else beta)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` pair steps; when they settle, check on a fresh gradient."""
        if not self.record_steps:
            state.step(chunk)
            return
        end, until = state.iteration + chunk, time.perf_counter() + SECONDS
        while state.status is None and state.iteration < end and time.perf_counter() < until:
            state.watch()

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State:
    """The C++ solver, and what is decided between its chunks."""

    def __init__(self, solver: SMO, problem: Problem, tol: float, beta: Floats) -> None:
        self.solver, self.problem = solver, problem
        self.threads = thread_count(solver.n_threads)
        self.status: Status | None = None
        self.steps: list[Step] = []
        self.violation = self._fresh = math.inf  # as shown, and at the last fresh gradient
        self._objective, self._stalls, self._leapt = -math.inf, 0, False
        self._best, self._least = -math.inf, math.inf  # objective and violation, so far
        self._polished = [-1]  # after which iterations
        self._kept: Floats | None = None  # the point of the least violation
        self._before = 0  # iterations of an earlier core, in float32 rows
        self._open = not problem.bounded and _is_open(problem)
        self.single = _single_rows(problem, tol)
        self.tol = tol
        # Whoever watches the steps wants no others.
        self._tiny = problem.gram.n <= _TINY and problem.block is None and not solver.record_steps
        self._aim = _CLOSER * tol if self._tiny else tol
        self._drift = _DRIFT
        self._start(beta)

    def _start(self, beta: Floats) -> None:
        p, gram = self.problem, self.problem.gram
        rows, program = gram.core_rows, gram.program
        size = self.solver.cache_size
        if size is None:  # asking for the free memory costs more than a small problem
            size = 200 if gram.n <= _SMALL else default_cache_size()
        with one_blas_thread():
            kbeta, self._objective = np.zeros(0), -math.inf
            if not beta.any():
                kbeta, self._objective = np.zeros(gram.n * p.n_blocks), 0.0
            elif program is None or p.block is not None or self._open:
                kbeta = gram.matvec(p.by_row(beta))
            self.core = _core.Smo(
                rows, program, p.s, p.l, p.u, p.D, p.row, p.group, p.m,
                gram.diag, beta, kbeta.ravel(), tol=_DRIFT * self.tol,
                shrinking=self.solver.shrinking, single_rows=self.single,
                single_products=self.single and gram.single_products,
                cache_bytes=int(min(size * 2**20, 2.0**62)),
                working_set=self._working_set(), block=p.block, chosen=gram.chosen,
            )  # fmt: skip
            if len(kbeta) and beta.any():
                self._objective = self.core.objective[0]

    def _working_set(self) -> int:
        """Slots of a round; whoever watches the steps wants single pairs."""
        return 0 if self.solver.record_steps else _WORKING_SETS[self.problem.gram.n > 4096]

    @property
    def beta(self) -> Floats:
        given_up = self.status is Status.PRECISION_LIMIT and self._kept is not None
        return np.array(self._kept) if given_up else self.core.beta

    @property
    def lam(self) -> Floats:
        """The multipliers as far as the maintained gradient shows them."""
        found = np.array([self.core.multiplier(g) for g in range(self.problem.n_groups)])
        return np.where(np.isfinite(found), found, 0.0)

    @property
    def iteration(self) -> int:
        return self._before + int(self.core.iterations)

    @property
    def relative_gap(self) -> float:
        known = math.isfinite(self._objective)
        dual = self.core.gained + (self._objective if known else self._value_at_start())
        gap = float(self.core.estimated_gap())
        size = max(abs(dual), abs(dual + gap))
        return gap / size if size else math.inf

    @property
    def counters(self) -> dict[str, float]:
        return dict(self.core.counters)

    def step(self, chunk: int) -> None:
        self._aim = min(self._aim, self.tol)
        self.core.tol = self._drift * self._aim
        if self.status is Status.OPTIMAL:  # asked to go on: tol was tightened
            self.status, self._stalls, self._leapt = None, 0, False
        with one_blas_thread():
            outcome = self.core.step(chunk, SECONDS, self.threads)
        self.violation = float(self.core.violation())
        if outcome is _core.Outcome.running:
            return  # when a chunk ends depends on the clock, so nothing may be decided here
        if outcome is _core.Outcome.unbounded:
            self._unbounded()
        elif outcome is _core.Outcome.converged and self._far_from_here():
            return  # not worth a fresh gradient
        elif not (self._open and self._endless()):
            if not self._polish_first():
                self._refresh()
            if outcome is _core.Outcome.slow and self.status is None:
                self._leap()

    def watch(self) -> None:
        """Take one step and keep it."""
        p, beta, before = self.problem, self.beta, self.iteration
        old = [self.core.multiplier(g) for g in range(p.n_groups)]
        self.step(1)
        if self.iteration == before or self.status is not None:
            return
        up, down, high, low, eta, gain = self.core.last_step
        group = int(p.group[max(up, down)])
        b = old[group] if p.n_groups else 0.0
        now = float(self.core.multiplier(group)) if p.n_groups else 0.0
        facts = {"iteration": self.iteration, "b": now, "change": gain}
        if up < 0 or down < 0:
            k, error = max(up, down), -high if up >= 0 else low
            self.steps.append(single_step(p, beta, self.beta, k, _ALONE, E=error, eta=eta, **facts))
        else:
            errors = {"E_i": b - high, "E_j": b - low}
            step = pair_step(p, beta, self.beta, up, down, _WSS2, eta=eta, **errors, **facts)
            self.steps.append(step)

    def _refresh(self) -> None:
        """Judge on a float64 gradient computed afresh, never on the drifted one."""
        p = self.problem
        self.core.rebalance()
        beta = self.core.beta
        rough = self._rough if self.core.current else None
        kbeta, _ = products(p, beta, tol=self.tol, rough=rough)
        self.core.refresh(kbeta.ravel())
        violation = float(self.core.violation())
        objective, noise = self.core.objective
        # Against the best ever: against the last one a cycle would look like progress.
        improved = objective - self._best > noise or violation < 0.5 * self._least
        if violation <= self._least:
            self._kept = beta
        self._best, self._least = max(self._best, objective), min(self._least, violation)
        self._stalls = 0 if improved else self._stalls + 1
        self._leapt = self._leapt and not improved
        self.violation = self._fresh = violation
        self._objective = objective
        if violation <= self.tol and (self._exact(beta) or not self._far()):
            if not self._polish(beta):
                self.status = Status.OPTIMAL
        elif self._stalls >= 2:
            self._run_out_of_digits()

    def _value_at_start(self) -> float:
        """The objective where the core began, as far as its own sums show it."""
        if not self.core.current or self.problem.block is not None:
            return 0.0
        return float(self.core.objective[0]) - float(self.core.gained)

    def _rough(self) -> tuple[Floats, float]:
        """Kβ as the core has summed it up step by step, and how far it may be off."""
        while not self.core.catch_up(SECONDS, self.threads):
            pass  # Ctrl-C is answered here
        return self.core.kbeta(), self._error() * (1.0 if self.single else _DOUBLE)

    def _error(self) -> float:
        return self.problem.gram.coarse_error(self.problem.by_row(self.core.beta))

    def _far(self) -> bool:
        """Tell whether tol is reached but not the gap, and aim lower then."""
        if self._open:
            return False
        return self._fresh > self._aim or self._lower(self.relative_gap, self._fresh)

    def _far_from_here(self) -> bool:
        """Tell the same on the maintained gradient, which proves nothing but costs nothing."""
        if self._open:
            return False
        if not math.isfinite(self._objective):  # kept from here on, where no clock decides
            self._objective = self._value_at_start()
        return self._lower(self.relative_gap, self._aim) or self._allow_for_rounding()

    def _allow_for_rounding(self) -> bool:
        """Aim as much below tol as float32 rows are likely off, or another pass would follow."""
        if not self.single or self.problem.gram.n <= _SMALL:  # such a pass costs little
            return False
        off = _LIKELY * self._error() / self._aim
        drift, self._drift = self._drift, max(_DRIFT - off, _LARGE_DRIFT)
        return self._drift < 0.95 * drift

    def _lower(self, relative_gap: float, violation: float) -> bool:
        if not relative_gap > _GAP or self._aim <= _FURTHEST * self.tol:
            return False
        self._aim = max(violation * min(0.5, 0.5 * _GAP / relative_gap), _FURTHEST * self.tol)
        return True

    def _polish(self, beta: Floats) -> bool:
        """Finish a small problem with Newton's method: the same digits whatever the path was.

        Where it does not end at the solution, the free variables were not yet the right ones:
        some more pair steps find them.
        """
        p = self.problem
        if not self._tiny or self._exact(beta):
            return False
        if not 2 <= np.count_nonzero((p.l < beta) & (beta < p.u)) <= _FEW:
            return False
        if self.iteration != self._polished[-1]:
            self._polished.append(self.iteration)
            return self._leap(shortest=True)
        self._aim = max(0.1 * self._fresh, _EXACT * self.tol)
        return len(self._polished) <= _POLISHES

    def _polish_first(self) -> bool:
        """Go to Newton at once: a small problem that has converged has its free variables."""
        if not self._tiny or len(self._polished) > 1 or self._open:
            return False
        self._polished.append(self.iteration)
        return self._leap(shortest=True)

    def _exact(self, beta: Floats) -> bool:
        """Whether the last fresh gradient is as good as float64 makes it."""
        least = max(_EXACT * self.tol, 1e-12)
        return self._fresh <= least or self._fresh <= 8 * rounding(self.problem, beta)

    def _leap(self, *, shortest: bool = False) -> bool:
        """Pairs creep where C is large and the free variables have settled: minimise over those."""
        beta = minimise_on_face(self.problem, self.core.beta, shortest=shortest)
        if beta is None:
            return False
        self.core.assign(beta)
        self._refresh()
        return True

    def _run_out_of_digits(self) -> None:
        """Pairs lower the objective no more: try Newton once, then float64 rows, then give up."""
        if not self._leapt:
            before, violation, self._leapt = self.core.beta, self._fresh, True
            self._leap()
            if self.status is Status.PRECISION_LIMIT and self._fresh > violation:
                self.status = None  # worse, by rounding: take it back
                self.core.assign(before)
                self._refresh()
            return
        if not self.single:
            self.status = Status.PRECISION_LIMIT
            return
        self.single, self._drift = False, _DRIFT
        self._stalls, self._before = 0, self.iteration
        self._start(self.core.beta)

    def _endless(self) -> bool:
        """Tell whether points without slack cannot be separated, so that β grows for ever.

        The feasible set of a hard margin is a cone: there also go to the best multiple of β.
        """
        p = self.problem
        beta = self.core.beta
        if not beta.any():
            return False
        curvature = float((beta * p.kbeta(beta)).sum())
        vanishing = margin_bound(p, beta) <= margin_resolution(p, beta)
        cone = _is_cone(p)
        away = np.abs(beta).max() > _ENDLESS / min(max(p.longest, 1e-200), 1.0)
        if vanishing or away or (cone and curvature <= 0):
            self.status = Status.INFEASIBLE if p.gram.convex is True else Status.UNBOUNDED
            return True
        if cone:
            factor = float((p.s * beta).sum()) / curvature
            if factor > 0 and abs(factor - 1) > 1e-3:
                self.core.rescale(factor)
        return False

    def _unbounded(self) -> None:
        """A ray without end: two coinciding points of different classes, if K is a Gram matrix."""
        convex = self.problem.gram.convex is True
        self.status = Status.INFEASIBLE if convex else Status.UNBOUNDED
        ray = np.zeros_like(self.problem.s)
        up, down = self.core.ray
        ray[up] += 1.0
        ray[down] -= 1.0
        self._before = self.iteration
        self._start(ray)


def _is_cone(problem: Problem) -> bool:
    ends = np.concatenate([problem.l, problem.u])
    return bool(
        ((ends == 0) | np.isinf(ends)).all() and not problem.D.any() and not problem.m.any()
    )


def _is_open(problem: Problem) -> bool:
    """Whether β may grow for ever: a bound is infinite, and neither D nor K stops it for sure."""
    endless = np.isinf(problem.l) | np.isinf(problem.u)
    return bool(endless[(problem.D == 0) | (problem.gram.convex is not True)].any())


def _single_rows(problem: Problem, tol: float) -> bool:
    """float32 rows are precise enough if their rounding, times the largest step, is below tol.

    Small problems have float64 rows in any case: they cost nothing there, and a degenerate one
    (w = 0, a low rank) can need them.
    """
    if problem.gram.n <= _TINY or problem.gram.program is None:
        return False
    ends = np.abs(np.concatenate([problem.l, problem.u]))
    return bool(2.0**-24 * problem.longest * ends.max(initial=0.0) <= tol)
