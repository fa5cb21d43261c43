r"""Solve :math:`(K + D)\beta + b = y`, what least squares come down to, and know how well.

Each method is an approximate inverse of K + D. One loop applies it to the true residual, computed
in float64 from K itself, until that is small: no method is trusted about its own answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.grams import default_cache_size
from maxmargin.inverses import Dense, Inverse, System

__all__ = ["Answer", "fits", "loo_residuals", "refine", "solve"]

Floats = NDArray[np.float64]

_ENOUGH = 1e-12  # relative residual below which nobody can use more
_PASSES = 4


def fits(n: int) -> bool:
    """Tell whether a matrix of n x n numbers takes at most three quarters of the free memory.

    Examples
    --------
    >>> fits(1000), fits(10**7)
    (True, False)
    """
    return 8 * n * n <= 3 * default_cache_size() << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What was found, and how well it solves the system.

    Parameters
    ----------
    beta : ndarray of shape (n, n_targets)
    b : ndarray of shape (n_targets,)
        0 where none was asked for.
    kbeta : ndarray of shape (n, n_targets)
        K beta, computed from K.
    residual : float
        The largest ‖(K + D)β + b − y‖ / ‖y‖ of all targets. On a positive semi-definite K the
        training values Kβ + b are no further than that, relative to ‖y‖, from the exact ones
        (twice that where there is a bias).
    method : str
        "cholesky", "eigen" or "primal".
    definite : bool
        Whether K + D was found positive definite.
    """

    beta: Floats
    b: Floats
    kbeta: Floats
    residual: float
    method: str
    definite: bool = True


def solve(system: System, D: Floats, Y: Floats, *, bias: bool = False, tol: float = 1e-8) -> Answer:
    r"""Solve :math:`(K + D)\beta + b = y` for each column of Y, with Σβ = 0 where there is a bias.

    Parameters
    ----------
    system : System
        K: :class:`Dense`, :class:`Features` or :class:`Decomposed`.
    D : ndarray of shape (n,)
    Y : ndarray of shape (n, n_targets)
    bias : bool, default=False
    tol : float, default=1e-8
        Relative residual above which an answer from a Cholesky factor is compared with one from
        eigenvalues; the better one is returned.

    Returns
    -------
    Answer
        ``residual`` says how good it is, also where it is above ``tol``.

    Raises
    ------
    LinAlgError
        If the system's method does not apply.

    Examples
    --------
    >>> from maxmargin.inverses import Dense
    >>> from maxmargin.kernels import Linear
    >>> system = Dense(Linear().gram([[1.0], [2.0]]))
    >>> answer = solve(system, np.ones(2), np.array([[1.0], [2.0]]))
    >>> answer.beta[:, 0].round(4), answer.residual < 1e-14
    (array([0.1667, 0.3333]), True)
    """
    enough = min(tol, _ENOUGH)
    found = refine(system.product, system.inverse(D), D, Y, bias=bias, enough=enough)
    if found.residual > tol and found.method == "cholesky" and isinstance(system, Dense):
        other = refine(system.product, system.by_eigenvalues(D), D, Y, bias=bias, enough=enough)
        return other if other.residual < found.residual else found
    return found


def refine(
    product: Callable[[Floats], Floats],
    inverse: Inverse,
    D: Floats,
    Y: Floats,
    *,
    bias: bool = False,
    enough: float = _ENOUGH,
) -> Answer:
    """Apply an inverse to what is left of Y until that is small, or grows no smaller.

    Parameters
    ----------
    product : callable
        B to K B.
    inverse : Inverse
    D : ndarray of shape (n,)
    Y : ndarray of shape (n, n_targets)
    bias : bool, default=False
    enough : float
        Relative residual at which to stop.

    Returns
    -------
    Answer
    """
    n, q = Y.shape
    size = np.linalg.norm(Y, axis=0)
    size[size == 0] = 1.0
    beta, b, left, best = np.zeros((n, q)), np.zeros(q), Y, math.inf
    ones = np.zeros((n, 1))
    answer = None
    for k in range(_PASSES):
        with_ones = bias and k == 0
        step = inverse(np.hstack([left, np.ones((n, 1))]) if with_ones else left)
        if with_ones:
            step, ones = step[:, :q], step[:, q:]
        new = beta + step
        shift = new.sum(axis=0) / ones.sum() if bias else np.zeros(q)
        new, new_b = new - ones * shift, b + shift
        kbeta = product(new)
        rest = Y - kbeta - D[:, None] * new - new_b
        residual = float((np.linalg.norm(rest, axis=0) / size).max())
        if answer is None or residual < best:
            answer = Answer(
                beta=new,
                b=new_b,
                kbeta=kbeta,
                residual=residual,
                method=inverse.name,
                definite=inverse.definite,
            )
        if not enough < residual <= 0.5 * best:
            break
        beta, b, left, best = new, new_b, rest, residual
    assert answer is not None
    return answer


def loo_residuals(inverse: Inverse, beta: Floats, *, bias: bool = False) -> Floats:
    r"""Return :math:`y_i - f^{(-i)}(x_i)`: each row predicted by the model without it.

    Parameters
    ----------
    inverse : Inverse
        Of K + D; used up.
    beta : ndarray of shape (n, n_targets)
    bias : bool, default=False

    Returns
    -------
    ndarray of shape (n, n_targets)
        NaN where nothing is left to predict from.

    Notes
    -----
    :math:`\beta_i / (A^{-1})_{ii}` with A the matrix of the whole system, bordered by ones where
    there is a bias (Cawley & Talbot 2004).
    """
    border = inverse(np.ones((len(beta), 1)))[:, 0] if bias else None
    diagonal = inverse.diagonal()
    if border is not None:
        diagonal = diagonal - np.square(border) / border.sum()
    diagonal = np.where(diagonal > 0, diagonal, np.nan)[:, None] if bias else diagonal[:, None]
    out: Floats = beta / diagonal
    return out
