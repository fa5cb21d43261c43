"""Newton's method on the face of a point: its free variables, the others held at their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from maxmargin.problems import Problem
from maxmargin.threads import one_blas_thread

__all__ = ["minimise_on_face"]

Floats = NDArray[np.float64]

_LARGEST = 2048  # free variables: one factorisation stays near a tenth of a second
_ROUNDS = 20
_FLAT = 1e-11  # eigenvalues below this share of max K_ii are rounding


def minimise_on_face(problem: Problem, beta: Floats, *, shortest: bool = False) -> Floats | None:
    r"""Lower the objective over the free variables of β, as far as they stay within bounds.

    Parameters
    ----------
    problem : Problem
    beta : ndarray of shape (n_variables,)
        A feasible point.
    shortest : bool, default=False
        Where K is singular on the free variables, take the shortest direction, so that rounding
        does not choose among the minima; otherwise the one that also falls along what is flat.

    Returns
    -------
    ndarray of shape (n_variables,) or None
        A feasible point that is no worse. None where this does not apply: fewer than two free
        variables, too many of them, or blocks (whose many small groups pairs solve well).

    Notes
    -----
    On the free variables F the direction δ solves

    .. math:: (K_{FF} + D_F)\,\delta + A^\top \mu = -g_F, \quad A \delta = 0,

    with one row of A per group. The step is the best of the points β + tδ, projected back onto the
    feasible set, with t = 1 or up to where the first variable meets its bound and doublings of
    that. Variables that end at a bound leave F, and the next round begins.
    """
    free = np.flatnonzero((problem.l < beta) & (beta < problem.u))
    if problem.block is not None or not 2 <= len(free) <= _LARGEST:
        return None
    rows = problem.row[free]
    H = problem.gram.tile(rows, rows)
    H.flat[:: len(free) + 1] += problem.D[free]
    face = _Face(
        H,
        (problem.kbeta(beta) + problem.D * beta - problem.s)[free],
        beta[free],
        problem.l[free],
        problem.u[free],
        problem.group[free],
        shortest,
    )
    found = np.array(beta)
    with one_blas_thread():  # whatever the number of threads, the same bits
        for _ in range(_ROUNDS):
            point = face.step()
            if point is None:
                break
            found[free] = point
            stay = (face.l < point) & (point < face.u)
            if stay.sum() < 2 or face.finished:
                break
            free, face = free[stay], face.restricted(point, stay)
    return problem.project(found)


@dataclass
class _Face:
    """A quadratic ½ xᵀHx + … around ``point`` with its bounds and groups."""

    H: Floats
    gradient: Floats
    point: Floats
    l: Floats  # noqa: E741
    u: Floats
    group: NDArray[np.int64]
    prefer_shortest: bool
    finished: bool = False  # the last step was Newton's whole one

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.bincount(self.group[self.group >= 0]))

    def restricted(self, point: Floats, stay: NDArray[np.bool_]) -> _Face:
        gradient = self.gradient + self.H @ (point - self.point)
        H, l, u = self.H[np.ix_(stay, stay)], self.l[stay], self.u[stay]  # noqa: E741
        return _Face(H, gradient[stay], point[stay], l, u, self.group[stay], self.prefer_shortest)

    def step(self) -> Floats | None:
        """The best point on the projected arc of Newton's direction; None if none is better."""
        direction = self.newton()
        if direction is None:
            return None
        end = np.where(direction > 0, self.u, self.l)
        room = np.full(len(end), np.inf)
        np.divide(end - self.point, direction, out=room, where=direction != 0)
        first = float(room.min())
        if first >= 1:
            self.finished = True
            return self.point + direction
        best, value = None, 0.0
        for t in first * 2.0 ** np.arange(60):
            trial = self.project(self.point + min(t, 1.0) * direction)
            shift = trial - self.point
            change = float(shift @ (self.gradient + 0.5 * (self.H @ shift)))
            if change < value:
                best, value = trial, change
            elif best is not None or t >= 1:
                break
        return best

    def newton(self) -> Floats | None:
        """Solve the equality-constrained Newton system; None if H is not semi-definite."""
        ridge = 1e-11 * float(np.abs(self.H.diagonal()).max())  # a low-rank H is singular
        if ridge == 0:
            return None
        ridged = self.H.copy(order="F")
        ridged.flat[:: len(ridged) + 1] += ridge
        factor, failed = dpotrf(ridged, overwrite_a=True, clean=False)
        if failed:
            return None
        if self.prefer_shortest and float(factor.diagonal().min()) ** 2 < 100 * ridge:
            return self.shortest()
        A = (self.group[:, None] == self.groups).astype(np.float64)
        direction: Floats = -dpotrs(factor, self.gradient)[0]
        if A.shape[1]:
            inverse = dpotrs(factor, A)[0]
            direction -= inverse @ np.linalg.solve(A.T @ inverse, A.T @ direction)
            direction -= A @ ((A.T @ direction) / A.sum(axis=0))  # what rounding left of A δ
        downhill = np.isfinite(direction).all() and self.gradient @ direction < 0
        return direction if downhill else None

    def shortest(self) -> Floats | None:
        """The shortest of Newton's directions, where H is singular: rounding chooses none."""
        H, g = self.H.copy(), -self.gradient
        for k in (self.group == group for group in self.groups):
            H[k] -= H[k].mean(axis=0)
            H[:, k] -= H[:, k].mean(axis=1, keepdims=True)
            g[k] -= g[k].mean()
        values, vectors = eigh(0.5 * (H + H.T), check_finite=False)
        kept = values > _FLAT * float(np.abs(self.H.diagonal()).max())
        direction: Floats = vectors[:, kept] @ ((vectors[:, kept].T @ g) / values[kept])
        return direction if self.gradient @ direction < 0 else None

    def project(self, x: Floats) -> Floats:
        """Clip x into the box, shifted per group so that the group's sum stays."""
        out = np.clip(x, self.l, self.u)
        for g in self.groups:
            k = self.group == g
            out[k] = _shifted_clip(x[k], self.l[k], self.u[k], float(self.point[k].sum()))
        return out


def _shifted_clip(x: Floats, lower: Floats, upper: Floats, total: float) -> Floats:
    """clip(x − λ) with the λ that makes its sum ``total``, by bisection."""
    reach = float(np.abs(x).max()) + float(np.abs(total))
    finite = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
    reach += float(np.abs(finite).max(initial=0.0))
    low, high = -reach, reach
    for _ in range(80):
        middle = 0.5 * (low + high)
        if np.clip(x - middle, lower, upper).sum() > total:
            low = middle
        else:
            high = middle
    clipped = np.clip(x - 0.5 * (low + high), lower, upper)
    inside = (lower < clipped) & (clipped < upper)
    clipped[inside] += (total - clipped.sum()) / max(int(inside.sum()), 1)
    settled: Floats = np.clip(clipped, lower, upper)
    return settled
