"""The one QP as an explicit matrix: factoring it, rounding and polishing its points, its rays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.certificate import certify, margin_bound, margin_resolution
from maxmargin.problems import Problem
from maxmargin.solvers.face import minimise_on_face
from maxmargin.solvers.steps import Step
from maxmargin.threads import one_blas_thread

__all__ = ["Ridge", "check_dense", "feasible", "largest_move", "matrix", "polish", "ray"]

Floats = NDArray[np.float64]

_RIDGE, _REFINEMENTS = 1e-6, 8


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
    """Return P = K + D over the variables, K mapped through their rows, 0 across blocks."""
    if problem.block is None:
        P = problem.gram.tile(problem.row, problem.row)
    else:
        every = np.arange(problem.gram.n)
        P = problem.gram.tile(every, every)[np.ix_(problem.row, problem.row)]
        P *= problem.block[:, None] == problem.block
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


def ray(problem: Problem, *directions: Floats, P: Floats | None = None) -> Floats | None:
    """Turn a direction in which β grows into a proof that a hard margin has no solution, or None.

    The proof is a point that the hulls of both classes share: weights of sum 1 in each class
    (without a bias: in all) whose ``margin_bound`` cannot be told from 0. With P a direction that
    is only close is polished: the nearest points of the hulls are a QP like any other.
    """
    straight = problem.D == 0
    low = np.where(np.isneginf(problem.l) & straight, -np.inf, 0.0)
    high = np.where(np.isposinf(problem.u) & straight, np.inf, 0.0)
    for direction in directions:
        d = np.clip(direction, low, high)
        d[np.abs(d) <= 1e-9 * np.abs(d).max()] = 0.0
        if math.isinf(margin_bound(problem, d)):
            continue
        up, down = np.maximum(d, 0.0), np.maximum(-d, 0.0)
        d = up / up.sum() - down / down.sum() if problem.n_groups else d / np.abs(d).sum()
        for weights in (d,) if P is None else (d, polish(_hulls(problem, d), P, d)):
            if margin_bound(problem, weights) <= margin_resolution(problem, weights):
                return np.asarray(weights)
    return None


def _hulls(problem: Problem, d: Floats) -> Problem:
    """Pose min ½‖Σ_k d_k φ_k‖² over the weights that are not 0, the sum of each sign held."""
    side = np.unique(np.sign(d), return_inverse=True)[1]
    return replace(
        problem,
        s=np.zeros_like(d),
        l=np.where(d < 0, -np.inf, 0.0),
        u=np.where(d > 0, np.inf, 0.0),
        group=side,
        m=np.asarray(np.bincount(side, weights=d), dtype=np.float64),
    )


def largest_move(problem: Problem, before: Floats, after: Floats, why: str, **facts: Any) -> Step:
    """Describe an update of all variables by the one that moved most and the objective's rise."""
    k = int(np.argmax(np.abs(after - before)))
    old, new = (
        float((beta * (problem.s - 0.5 * problem.kbeta(beta) - 0.5 * problem.D * beta)).sum())
        for beta in (before, after)
    )
    alpha: dict[str, Any] = {"alpha_i": float(abs(before[k])), "alpha_i_new": float(abs(after[k]))}
    return Step(i=int(problem.row[k]), why=why, change=new - old, **alpha, **facts)
