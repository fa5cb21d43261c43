"""Compute Kβ in float64 where that can matter, and in float32 where it provably cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from maxmargin.problems import Problem

__all__ = ["ends", "products"]

Floats = NDArray[np.float64]

_SAMPLE = 64  # rows
_WORTH = 3e7  # multiplications: below, one product in float64 is as fast


def ends(problem: Problem, beta: Floats, gradient: Floats) -> tuple[Floats, Floats]:
    """Return per group the largest gradient of what may rise and the least of what may fall."""
    grouped = problem.group >= 0
    up, down = (beta < problem.u) & grouped, (beta > problem.l) & grouped
    rise, fall = np.full(problem.n_groups, -np.inf), np.full(problem.n_groups, np.inf)
    np.maximum.at(rise, problem.group[up], gradient[up])
    np.minimum.at(fall, problem.group[down], gradient[down])
    return rise, fall


def products(
    problem: Problem,
    beta: Floats,
    *,
    tol: float,
    rough: Callable[[], tuple[Floats, float]] | None = None,
) -> tuple[Floats, Floats]:
    r"""Return :math:`K\beta` per sample, and how far each may be off beyond float64's rounding.

    Parameters
    ----------
    problem : Problem
    beta : ndarray of shape (n_variables,)
    tol : float
        The KKT violation that is to be judged.
    rough : callable or None, default=None
        Returns :math:`K\beta` per sample as a solver has summed it up, and how far each may be off:
        the float32 part below for nothing, checked on a sample. None computes it.

    Returns
    -------
    kbeta : ndarray of shape (n_samples,) or (n_samples, n_blocks)
    error : ndarray of the same shape
        0 wherever float64 was used throughout.

    Notes
    -----
    The dual needs :math:`K\beta` on the support vectors. Elsewhere β = 0 is at a bound, and as
    long as the gradient there is clearly of the sign that keeps it at the bound, the variable adds
    nothing to the gap or to the KKT violation, whatever its exact value. So those rows are computed
    in float32, with a bound on the error, and the ones that are not clear again in float64. Should
    these show the bound to be wrong, all rows are.
    """
    coef, gram = problem.by_row(beta), problem.gram
    if not _applies(problem):
        return gram.matvec(coef), np.zeros_like(coef)
    if gram.known is not None and np.array_equal(gram.known[0], coef):
        return gram.known[1], gram.known[2]
    work = gram.n * int(np.count_nonzero(coef)) * (gram.core_rows.work + 16)
    if rough is None and work < _WORTH:
        return gram.matvec(coef), np.zeros_like(coef)
    support, error = np.flatnonzero(coef), np.zeros(gram.n)
    weights = coef[support]
    if rough is None:
        rest = np.flatnonzero(coef == 0)
        values = np.empty(gram.n)
        values[rest], error[rest] = gram.coarse_product(rest, support, weights)
    else:
        values, error[:] = rough()
        error[_fixed(problem)] = np.inf  # no solver looks at them
    values[support], error[support] = gram.product(support, support, weights), 0.0
    doubtful = _doubtful(
        problem, beta, problem.by_variable(values), problem.by_variable(error), tol
    )
    if rough is not None:  # and some that seem clear: nobody's sums are taken on trust alone
        clear = np.flatnonzero(error)
        some = clear[:: len(clear) // _SAMPLE + 1]
        doubtful = np.unique(np.concatenate([doubtful, some, np.flatnonzero(np.isinf(error))]))
    exact = gram.product(doubtful, support, weights)
    if (np.abs(exact - values[doubtful]) > error[doubtful]).any():
        return gram.matvec(coef), np.zeros_like(coef)
    values[doubtful], error[doubtful] = exact, 0.0
    gram.known = (coef.copy(), values, error)
    return values, error


def _applies(problem: Problem) -> bool:
    """Whether the range of float32 is enough, every bound is finite and there is one block."""
    gram = problem.gram
    if problem.block is not None or getattr(gram, "program", None) is None:
        return False
    finite = np.isfinite(problem.l).all() and np.isfinite(problem.u).all()
    tame = 1e-30 < np.abs(gram.diag).max(initial=0.0) < 1e30
    return bool(finite and tame)


def _fixed(problem: Problem) -> NDArray[np.bool_]:
    """The rows whose variables cannot move: they have no weight."""
    fixed = np.ones(problem.gram.n, dtype=bool)
    fixed[problem.row[problem.l < problem.u]] = False
    return fixed


def _doubtful(
    problem: Problem, beta: Floats, kbeta: Floats, error: Floats, tol: float
) -> NDArray[np.int64]:
    """The rows computed in float32 whose variables may be at the wrong bound, or near it."""
    gradient = problem.s - kbeta - problem.D * beta
    rise, fall = ends(problem, beta, gradient)
    low, high = np.minimum(rise, fall), np.maximum(rise, fall)
    reach = np.where(np.isfinite(high - low), high - low, 0.0) + tol
    # Where nothing may rise, or fall, the other end is all there is; without a group λ = 0.
    low, high = (
        np.append(np.where(np.isfinite(low), low, high), 0.0),
        np.append(np.where(np.isfinite(high), high, low), 0.0),
    )
    band = np.append(reach, tol)[problem.group] + error
    rising = (beta < problem.u) & (gradient > low[problem.group] - band)
    falling = (beta > problem.l) & (gradient < high[problem.group] + band)
    return np.unique(problem.row[(error > 0) & (rising | falling)])
