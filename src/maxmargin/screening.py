"""Compute Kβ in float64 where that can matter, and in float32 where it provably cannot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from maxmargin.problems import Problem

__all__ = ["products"]

Floats = NDArray[np.float64]

_SAMPLE = 64  # rows
_WORTH = 3e7  # multiplications: below, one product in float64 is as fast


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
    of_variables = problem.by_variable(values), problem.by_variable(error)
    # What was computed in float32 and may be at the wrong bound, or near it.
    doubtful = np.unique(problem.row[problem.constraints.doubtful(beta, *of_variables, tol)])
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
    if problem.block is not None or getattr(problem.gram, "program", None) is None:
        return False
    return problem.bounded and 1e-30 < problem.longest < 1e30


def _fixed(problem: Problem) -> NDArray[np.bool_]:
    """The rows whose variables cannot move: they have no weight."""
    fixed = np.ones(problem.gram.n, dtype=bool)
    fixed[problem.row[problem.l < problem.u]] = False
    return fixed
