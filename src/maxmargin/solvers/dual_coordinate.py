"""Dual coordinate descent: one variable at a time, in random order, each minimised exactly."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import EPS, Status, certify
from maxmargin.problems import Problem
from maxmargin.solvers.rows import SECONDS, row_reader
from maxmargin.solvers.steps import Step, single_step

__all__ = ["DualCoordinate"]

Floats = NDArray[np.float64]

_IDLE = 100  # passes that may gain less than rounding while the violation is not halved


@dataclass(frozen=True, kw_only=True)
class DualCoordinate:
    r"""Minimise the dual over one variable after the other, for problems made with ``bias=False``.

    Parameters
    ----------
    shuffle : bool, default=True
        Visit the variables of every pass in a new random order; False keeps the order of the data.
    random_state : int, default=0
        Seed of the orders.
    record_every : int or None, default=None
        Certify and record every so many passes; None records the end alone.
    record_steps : bool, default=False
        Keep every update, for :func:`maxmargin.solvers.steps`.

    Notes
    -----
    The stochastic way to the dual that N2 names at its end, "closely related to SMO": without the
    sum constraint of a bias no partner is needed, and one variable moves alone. Along β_k the one
    QP is a parabola with slope :math:`g_k = (K\beta)_k + D_k \beta_k - s_k` and curvature
    :math:`K_{kk} + D_k`, so its minimum in the box is

    .. math:: \beta_k \leftarrow
              \min\Bigl(\max\Bigl(\beta_k - \frac{g_k}{K_{kk} + D_k},\ l_k\Bigr),\ u_k\Bigr)

    (Hsieh et al. 2008, Algorithm 1; Shalev-Shwartz & Zhang 2013, SDCA, option I: the same step in
    mean scaling). The dual objective never falls. One iteration is a pass over all variables; SVR
    has two on each row. For a linear kernel Hsieh et al. keep w in place of Kβ, the same numbers
    at another price.

    It runs soft margin, squared hinge and SVR, slowly where C is large. A bias can be had as a
    constant feature: ``kernel + Polynomial(0)``. It stops when a gradient computed afresh satisfies
    ``tol``, or as ``precision_limit`` when passes that gain less than rounding do not get there.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.Linear().gram([[1.0], [2.0], [-1.0]])
    >>> problem = problems.soft_margin(gram, [1, 1, -1], C=1.0, bias=False)
    >>> solution = solvers.solve(problem, DualCoordinate(), tol=1e-9)
    >>> solution.status == "optimal", round(solution.certificate.primal, 6)
    (True, 0.5)
    """

    shuffle: bool = True
    random_state: int = 0
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Start at ``beta``, or at 0."""
        refuse_groups("DualCoordinate", problem)
        endless = np.isinf(problem.l) | np.isinf(problem.u)
        if (endless & (problem.D == 0)).any():
            raise ValueError(f"DualCoordinate needs finite C; got {problem.name}, C=inf. Use SMO.")
        if endless.any() and problem.gram.convex is False:
            raise ValueError("squared_hinge needs a positive semi-definite kernel here. Use SMO.")
        return _State(self, problem, tol, problem.start() if beta is None else beta)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` passes; a long one is parted and goes on in the next call."""
        end, last = perf_counter() + SECONDS, state.iteration + chunk
        if state.status is Status.OPTIMAL:  # asked to go on: tol was tightened
            state.status = None
        while state.status is None and state.iteration < last and perf_counter() < end:
            state.visit()

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State:
    """β and f = Kβ, kept up to date with every step; plain lists, for they are read one by one."""

    def __init__(self, solver: DualCoordinate, problem: Problem, tol: float, beta: Floats) -> None:
        self.solver, self.problem, self.tol = solver, problem, tol
        self.iteration, self.violation = 0, np.inf
        self.status: Status | None = None
        self.steps: list[Step] = []
        self._beta: list[float] = beta.tolist()
        self._f = problem.gram.matvec(problem.by_row(beta))
        self._row, self._s, self._D = problem.row.tolist(), problem.s.tolist(), problem.D.tolist()
        self._l, self._u = problem.l.tolist(), problem.u.tolist()
        self._curvature = (problem.gram.diag[problem.row] + problem.D).tolist()
        self._K = row_reader(problem.gram)
        self._rng = np.random.default_rng(solver.random_state)
        self._order: list[int] = []  # what is left of this pass, the next one last
        self._worst = self._gain = 0.0  # of this pass
        self._best, self._idle = np.inf, 0  # violation at a fresh f; idle passes since then

    @property
    def beta(self) -> Floats:
        return np.array(self._beta)

    @property
    def relative_gap(self) -> float:
        return certify(self.problem, self.beta).relative_gap

    def visit(self) -> None:
        """Minimise over the next variable; the last one ends the pass."""
        if not self._order:
            n = self.problem.n_variables
            order = self._rng.permutation(n) if self.solver.shuffle else np.arange(n)
            self._order = order[::-1].tolist()
            self._worst = self._gain = 0.0
        k = self._order.pop()
        old, c = self._beta[k], self._curvature[k]
        g = self._f.item(self._row[k]) + self._D[k] * old - self._s[k]
        if (old > self._l[k] and g > 0) or (old < self._u[k] and g < 0):
            self._worst = max(self._worst, abs(g))  # Hsieh et al. 2008: the projected gradient
            self._move(k, g, c, _lowest(old, g, c, self._l[k], self._u[k]))
        if not self._order:
            self._end_pass()

    def _move(self, k: int, g: float, c: float, new: float) -> None:
        before = self.beta if self.solver.record_steps else None
        delta = new - self._beta[k]
        gain = -delta * (g + 0.5 * c * delta)
        self._beta[k] = new
        self._f += delta * self._K(self._row[k])
        self._gain += gain
        if before is not None:
            why = "next in a random order" if self.solver.shuffle else "next in order"
            L, H = sorted((abs(self._l[k]), abs(self._u[k])))
            facts = {"E": g, "eta": c, "L": L, "H": H, "b": 0.0, "change": gain}
            facts["iteration"] = self.iteration + 1
            self.steps.append(single_step(self.problem, before, self.beta, k, why, **facts))

    def _end_pass(self) -> None:
        self.iteration += 1
        self.violation = self._worst
        p, beta = self.problem, self.beta
        size = float((np.abs(beta) * (np.abs(p.s) + np.abs(self._f[p.row]))).sum())
        idle = self._gain <= EPS * size
        if not idle and self._worst > self.tol:
            return
        self._f = p.gram.matvec(p.by_row(beta))  # judge on this, never on the drifted one
        self.violation = certify(p, beta).kkt_violation
        if self.violation < 0.5 * self._best:
            self._best, self._idle = self.violation, 0
        self._idle += idle
        if self.violation <= self.tol:
            self.status = Status.OPTIMAL
        elif self._idle > _IDLE:
            self.status = Status.PRECISION_LIMIT


def _lowest(beta: float, g: float, c: float, lower: float, upper: float) -> float:
    """Minimise g (t − β) + ½ c (t − β)² within the bounds; c = 0 goes to the better end."""
    if c > 0:
        return min(max(beta - g / c, lower), upper)
    return min((beta, lower, upper), key=lambda t: (t - beta) * (g + 0.5 * c * (t - beta)))


def refuse_groups(solver: str, problem: Problem) -> None:
    """Raise ValueError if a sum of variables is fixed: one variable alone could not move."""
    if problem.block is not None:
        raise ValueError(f"{solver} has one w, {problem.name} one for each class. Use SMO.")
    if problem.n_groups:
        groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
        raise ValueError(
            f"{solver} has no bias: make the problem with bias=False, or add a constant feature "
            f"(kernel + Polynomial(0)); got {problem.name} with {groups}."
        )
