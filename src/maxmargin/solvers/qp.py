"""The one QP as an explicit matrix, and an off-the-shelf interior-point solver for it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.certificate import Status, certify, margin_bound, margin_resolution
from maxmargin.problems import Problem
from maxmargin.solvers.face import minimise_on_face
from maxmargin.solvers.steps import Step
from maxmargin.threads import one_blas_thread

__all__ = ["QP", "Ridge", "check_dense", "feasible", "largest_move", "matrix", "polish", "ray"]

Floats = NDArray[np.float64]

_LARGEST = 10000  # variables: half an hour
_RIDGE, _REFINEMENTS = 1e-6, 8

# Clarabel stops early now and then. Rung by rung: the unit of β, between max|s| / mean K_ii (0)
# and its largest bound (1), and what to set.
_LADDER: tuple[tuple[float, dict[str, Any]], ...] = (
    (1.0, {}),
    (0.5, {}),
    (1.0, {"max_step_fraction": 0.9, "equilibrate_enable": False}),
)
_TOLERANCES = ("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_infeas_abs", "tol_infeas_rel")
_SETTINGS: dict[str, Any] = {"verbose": False, **dict.fromkeys(_TOLERANCES, 1e-12)}


@dataclass(frozen=True, kw_only=True)
class QP:
    r"""The dual handed to Clarabel, an interior-point solver: the off-the-shelf reference.

    Parameters
    ----------
    polish : bool, default=True
        Finish on the free variables, see `polish`; an interior point is off every bound.
    record_every : int or None, default=None
        Certify and record every so many calls; None records the end alone.
    record_steps : bool, default=False
        Keep every call as a :class:`~maxmargin.solvers.Step` whose ``why`` tells how it ended.

    Notes
    -----
    One iteration is one call; its time grows with the cube of the number of variables. With
    x = β / c for a c of the size of β it solves

    .. math:: \min \tfrac{c}{2} x^\top (K + D) x - s^\top x \quad\text{s.t.}\quad
              A x = m / c,\ l / c \le x \le u / c.

    Where Clarabel stops early, the next iteration asks again with another c or more careful
    settings; after the last the status is ``precision_limit``. A starting point is the answer if
    it is good enough; otherwise an interior-point method has no use for it. Needs
    ``pip install maxmargin[qp]``.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> solve(problems.hard_margin(gram, [-1, -1, 1, 1]), QP(), tol=1e-9).alpha.round(6)
    array([0., 2., 2., 0.])
    """

    polish: bool = True
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Certify the starting point; no matrix is made yet."""
        check_dense("QP", problem, _LARGEST)
        _clarabel()
        return _State(self, problem, tol, problem.start() if beta is None else beta)

    def step(self, state: _State, chunk: int) -> None:
        """Make up to ``chunk`` calls, as long as the answer is not good enough."""
        end = state.iteration + chunk
        if state.tol < state.judged:  # the gap is still too large: ask again
            state.judge(ask=True)
        while state.status is None and state.iteration < end:
            state.call()

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State:
    """The best point so far, and how far down the ladder it came."""

    def __init__(self, solver: QP, problem: Problem, tol: float, beta: Floats) -> None:
        self.solver, self.problem, self.tol = solver, problem, tol
        self.iteration = 0
        self.counters: dict[str, float] = {"interior_steps": 0}
        self.steps: list[Step] = []
        self._P: Floats | None = None
        self._take(np.array(beta))
        self.judge()

    def _take(self, point: Floats) -> None:
        certificate = certify(self.problem, point)
        self.point = point
        self.violation, self.relative_gap = certificate.kkt_violation, certificate.relative_gap

    @property
    def beta(self) -> Floats:
        return self.point.copy()

    def judge(self, *, ask: bool = False) -> None:
        self.judged = self.tol
        self.status: Status | None = None
        if self.violation <= self.tol and not ask:
            self.status = Status.OPTIMAL
        elif self.iteration >= len(_LADDER):
            self.status = Status.PRECISION_LIMIT

    def call(self) -> None:
        """Ask Clarabel, and keep its answer if it is better than the last one."""
        p, before = self.problem, self.point
        P = self._P = matrix(p) if self._P is None else self._P
        x, mu, b, ended = self._interior_point(P, *_LADDER[self.iteration])
        self.iteration += 1
        proof = ray(p, x, P)
        if not np.isfinite(x + mu).all():
            self.judge()
        elif proof is not None:
            self._take(proof)
            self.status = Status.INFEASIBLE if p.gram.convex is True else Status.UNBOUNDED
        else:
            # As in ADMM, the proximal map of the bounds: what is pressed against one is at it.
            point = feasible(p, x + mu / (float(P.diagonal().mean()) or 1.0))
            point = polish(p, P, point) if self.solver.polish else point
            if certify(p, point).kkt_violation < self.violation:
                self._take(point)
            self.judge()
        if self.solver.record_steps:
            facts = {"iteration": self.iteration, "b": b}
            self.steps.append(largest_move(p, before, self.point, f"Clarabel: {ended}", **facts))

    def _interior_point(
        self, P: Floats, unit: float, options: dict[str, Any]
    ) -> tuple[Floats, Floats, float, str]:
        """Return β as it comes, the multipliers of its bounds, the bias and how Clarabel ended."""
        p, clarabel = self.problem, _clarabel()
        free = p.l < p.u  # a fixed variable has no interior
        x, mu = np.where(free, 0.0, p.l), np.zeros_like(p.s)
        A = (p.group == np.arange(p.n_groups)[:, None]).astype(np.float64)
        below, above = free & np.isfinite(p.l), free & np.isfinite(p.u)
        eye = sparse.identity(len(x), format="csr")
        G = sparse.vstack([sparse.csr_matrix(A), -eye[below], eye[above]]).tocsc()[:, free]
        h = np.concatenate([p.m - A @ x, -p.l[below], p.u[above]])
        cones = [clarabel.ZeroConeT(p.n_groups), clarabel.NonnegativeConeT(len(h) - p.n_groups)]
        q = (P @ x - p.s)[free]
        c = _unit(float(np.abs(h).max(initial=0.0)), float(np.abs(q).max(initial=0.0)), P, unit)
        settings = clarabel.DefaultSettings()
        for name, value in (_SETTINGS | options).items():
            setattr(settings, name, value)
        upper = sparse.csc_matrix(np.triu(c * P[np.ix_(free, free)]))
        found = _ask(clarabel.DefaultSolver(upper, q, G, h / c, cones, settings))
        self.counters["interior_steps"] += found.iterations
        x[free] = c * np.array(found.x)
        lam, pressed = np.split(np.array(found.z), [p.n_groups])
        mu[below] -= pressed[: below.sum()]
        mu[above] += pressed[below.sum() :]
        return x, mu, float(lam.mean()) if len(lam) else 0.0, str(found.status)


def _clarabel() -> Any:
    try:
        return importlib.import_module("clarabel")
    except ImportError:
        raise ImportError(
            "QP needs the package clarabel: pip install maxmargin[qp]. "
            "SMO and ADMM solve the same problems without it."
        ) from None


def _unit(bound: float, slope: float, P: Floats, power: float) -> float:
    """Mix the largest bound and max|s| / mean K_ii; whichever there is, or 1."""
    natural = slope / (float(P.diagonal().mean()) or 1.0)
    bound, natural = bound or natural or 1.0, natural or bound or 1.0
    return float(bound**power * natural ** (1 - power))


def _ask(interior_point: Any) -> Any:
    """Run Clarabel; Ctrl-C ends it after its current iteration."""
    pressed = _until_ctrl_c()
    next(pressed)
    interior_point.set_termination_callback(pressed.send)
    found = interior_point.solve()
    if pressed.send(None):
        raise KeyboardInterrupt
    return found


def _until_ctrl_c() -> Generator[bool, Any, None]:
    """Answer False, and True once Ctrl-C was pressed.

    A generator, since Clarabel swallows what a callback raises, and a function would raise
    KeyboardInterrupt where it begins, before any ``try``; this one resumes inside of it.
    """
    pressed = False
    while True:
        try:
            yield pressed
        except KeyboardInterrupt:
            pressed = True


# ---- what ADMM shares -------------------------------------------------------------------------


def check_dense(solver: str, problem: Problem, largest: int) -> None:
    """Refuse, before any kernel entry is computed, what a dense convex solver cannot do."""
    n = problem.n_variables
    if n > largest:
        raise ValueError(
            f"{solver} holds and factors a dense {n} x {n} matrix ({8e-9 * n * n:.1f} GB each); "
            f"it takes at most {largest} variables. Use SMO."
        )
    if problem.gram.convex is False:
        raise ValueError(
            f"{solver} needs a positive semi-definite kernel; got {problem.gram.kernel!r}. "
            "Use SMO, which finds a stationary point."
        )


def matrix(problem: Problem) -> Floats:
    """Return P = K + D over the variables, K mapped through their rows."""
    P = problem.gram.tile(problem.row, problem.row)
    P[np.diag_indices_from(P)] += problem.D
    return P


class Ridge:
    r"""Factor P + ρI once, to solve min ½xᵀPx + ½ρ‖x‖² − cᵀx s.t. Ax = m for many c.

    Parameters
    ----------
    P : ndarray of shape (n, n)
    group : ndarray of shape (n,)
        A has a row per group, 1 for its members.
    n_groups : int
    rho : float

    Notes
    -----
    The Schur complement of P + ρI gives the multipliers of Ax = m:

    .. math:: A (P + \rho I)^{-1} A^\top \lambda = A (P + \rho I)^{-1} c - m

    Examples
    --------
    >>> Ridge(np.eye(2), np.zeros(2), 1, 1.0).solve(np.zeros(2), np.ones(1))
    (array([0.5, 0.5]), array([-1.]))
    """

    def __init__(self, P: Floats, group: NDArray[Any], n_groups: int, rho: float) -> None:
        shifted = np.array(P, order="F")
        shifted[np.diag_indices_from(shifted)] += rho
        try:
            self.factor = cho_factor(shifted, overwrite_a=True, check_finite=False)
        except LinAlgError:
            raise ValueError(
                f"K + rho I with rho={rho:.3g} cannot be factored: the kernel is not positive "
                "semi-definite, or rho is lost in rounding. Use SMO."
            ) from None
        self.A = (group == np.arange(n_groups)[:, None]).astype(np.float64)
        self.inverse = cho_solve(self.factor, self.A.T, check_finite=False)
        self.schur = np.linalg.pinv(self.A @ self.inverse)  # a group may have no member here

    def solve(self, c: Floats, m: Floats) -> tuple[Floats, Floats]:
        """Return x and λ."""
        x = cho_solve(self.factor, c, check_finite=False)
        lam = self.schur @ (self.A @ x - m)
        return x - self.inverse @ lam, lam


def feasible(problem: Problem, point: Floats) -> Floats:
    """Round to a feasible point: what is at or beyond a bound stays at it, the others shift.

    ``problem.project`` shifts all of them, and the KKT violation of a variable a hair off its
    bound is as large as if it were far from it.
    """
    near = np.clip(point, problem.l, problem.u)
    free = (problem.l < near) & (near < problem.u)
    held = replace(problem, l=np.where(free, problem.l, near), u=np.where(free, problem.u, near))
    return problem.project(held.project(near))


def polish(problem: Problem, P: Floats, beta: Floats) -> Floats:
    r"""Minimise over the free variables F of β, the others B held, to the last digits.

    Parameters
    ----------
    problem : Problem
    P : ndarray of shape (n_variables, n_variables)
        K + D.
    beta : ndarray of shape (n_variables,)
        A feasible point.

    Returns
    -------
    ndarray of shape (n_variables,)
        A feasible point whose KKT violation is no larger.

    Notes
    -----
    Newton's steps within the bounds come first; they settle which variables are free. Then, as in
    OSQP (Stellato et al. 2020, §4), the equations of these are solved. Duplicates or a low rank
    make them singular: a small ridge δ makes them regular, and repeating makes it harmless.

    .. math:: (P_{FF} + \delta I) x + A_F^\top \lambda = s_F - P_{FB} \beta_B + \delta x_{old},
              \quad A_F x = m - A_B \beta_B
    """
    with one_blas_thread():  # whatever the number of threads, the same bits
        at = minimise_on_face(problem, beta)
        at = beta if at is None else problem.project(at)
        free = (problem.l < at) & (at < problem.u)
        refined = at.copy()
        if free.any():
            face = P[np.ix_(free, free)]
            delta = _RIDGE * (float(face.diagonal().mean()) or 1.0)
            ridge = Ridge(face, problem.group[free], problem.n_groups, delta)
            c, m = problem.s[free] - P[np.ix_(free, ~free)] @ at[~free], ridge.A @ at[free]
            for _ in range(_REFINEMENTS):
                refined[free] = ridge.solve(c + delta * refined[free], m)[0]
    points = beta, at, feasible(problem, refined)
    return min(points, key=lambda point: certify(problem, point).kkt_violation)


def ray(problem: Problem, direction: Floats, P: Floats | None = None) -> Floats | None:
    """Turn a direction in which β grows into a proof that a hard margin has no solution, or None.

    The proof is a point that the hulls of both classes share: weights of sum 1 in each class
    (without a bias: in all) whose ``margin_bound`` cannot be told from 0. With P a direction that
    is only close is polished: the nearest points of the hulls are a QP like any other.
    """
    straight = problem.D == 0
    low = np.where(np.isneginf(problem.l) & straight, -np.inf, 0.0)
    high = np.where(np.isposinf(problem.u) & straight, np.inf, 0.0)
    d = np.clip(direction, low, high)
    d[np.abs(d) <= 1e-9 * np.abs(d).max()] = 0.0
    if math.isinf(margin_bound(problem, d)):
        return None
    up, down = np.maximum(d, 0.0), np.maximum(-d, 0.0)
    d = up / up.sum() - down / down.sum() if problem.n_groups else d / np.abs(d).sum()
    low, high = np.where(d < 0, -np.inf, 0.0), np.where(d > 0, np.inf, 0.0)
    side = np.unique(np.sign(d), return_inverse=True)[1]
    sums = np.asarray(np.bincount(side, weights=d), dtype=np.float64)
    hulls = replace(problem, s=np.zeros_like(d), l=low, u=high, group=side, m=sums)
    for weights in (d,) if P is None else (d, polish(hulls, P, d)):
        if margin_bound(problem, weights) <= margin_resolution(problem, weights):
            return np.asarray(weights)
    return None


def largest_move(problem: Problem, before: Floats, after: Floats, why: str, **facts: Any) -> Step:
    """Describe an update of all variables by the one that moved most and the objective's rise."""
    k = int(np.argmax(np.abs(after - before)))
    old, new = (
        float((beta * (problem.s - 0.5 * problem.kbeta(beta) - 0.5 * problem.D * beta)).sum())
        for beta in (before, after)
    )
    alpha: dict[str, Any] = {"alpha_i": float(abs(before[k])), "alpha_i_new": float(abs(after[k]))}
    return Step(i=int(problem.row[k]), why=why, change=new - old, **alpha, **facts)
