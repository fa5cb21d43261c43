"""Kernel values between two sets of rows: by the core where it knows the formula, else by sklearn.

Names, parameters and defaults are those of :func:`sklearn.metrics.pairwise.pairwise_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.preprocessing import normalize

from maxmargin import _core
from maxmargin.grams import as_rows, check_data, evaluate, expand
from maxmargin.kernels import RBF, Chi2, Kernel, Laplacian, Linear, Polynomial, Sigmoid
from maxmargin.threads import one_blas_thread, thread_count

__all__ = ["NAMES", "combine", "compiled", "pairwise", "prepare", "threads_of"]

_FUSED = 96  # outputs: for more, a product by BLAS outweighs that the values are held
_BAND = 1024  # rows whose values are held then
# What scikit-learn has a function for; "precomputed" is not a formula.
NAMES = frozenset(PAIRWISE_KERNEL_FUNCTIONS)


def compiled(
    kernel: Any, *, gamma: float | None = None, degree: float = 3, coef0: float = 1
) -> Kernel | None:
    """Return the kernel that the core evaluates, or None where there is none.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name of scikit-learn's; "cosine" is Linear over the rows that ``prepare`` returns.
    gamma : float or None, default=None
        None is 1 / n_features, and 1 for "chi2".
    degree : float, default=3
    coef0 : float, default=1

    Returns
    -------
    Kernel or None
        With ``gamma="auto"`` where that depends on the data.

    Examples
    --------
    >>> compiled("poly", degree=2)
    Polynomial(degree=2, gamma='auto', coef0=1)
    >>> compiled("poly", degree=2.5) is None
    True
    """
    if isinstance(kernel, Kernel):
        return kernel if kernel.compiled else None
    if not isinstance(kernel, str) or (gamma is not None and not 0 <= gamma < np.inf):
        return None
    slope = "auto" if gamma is None else float(gamma)
    if kernel in ("poly", "polynomial"):
        whole = degree == int(degree) and 0 <= degree < 2**31
        return Polynomial(int(degree), gamma=slope, coef0=coef0) if whole else None
    named: dict[str, Kernel] = {
        "linear": Linear(),
        "cosine": Linear(),
        "rbf": RBF(gamma=slope),
        "sigmoid": Sigmoid(slope, coef0=coef0),
        "laplacian": Laplacian(slope),
        "chi2": Chi2(1.0 if gamma is None else slope),
    }
    return named.get(kernel)


def prepare(X: Any, kernel: Any) -> Any:
    """Return the rows over which ``compiled`` is the kernel: of unit length for "cosine"."""
    return normalize(X) if isinstance(kernel, str) and kernel == "cosine" else X


def threads_of(n_jobs: int | None) -> int | None:
    """Return how many threads the core may use; None is its own rule, all CPUs.

    >>> threads_of(-1), threads_of(3)
    (None, 3)
    """
    return None if n_jobs in (None, -1) else int(effective_n_jobs(n_jobs))


def pairwise(
    X: Any,
    Z: Any = None,
    *,
    kernel: Any,
    gamma: float | None = None,
    degree: float = 3,
    coef0: float = 1,
    kernel_params: dict[str, Any] | None = None,
    n_threads: int | None = None,
) -> NDArray[Any]:
    """Return the matrix of k(x_i, z_j), as scikit-learn's ``pairwise_kernels`` with names filtered.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
    Z : {array-like, sparse matrix} of shape (n_samples_Z, n_features), default=None
        None means ``X``.
    kernel : str, Kernel or callable
        A callable takes two rows, as in scikit-learn; ``kernels.Callable`` takes two matrices.
    gamma, degree, coef0 : float
        Of a kernel given by name.
    kernel_params : dict or None, default=None
        Keywords of a callable.
    n_threads : int or None, default=None

    Returns
    -------
    ndarray of shape (n_samples_X, n_samples_Z)
        Of the caller's own; float64, or float32 where scikit-learn computes in float32.

    Examples
    --------
    >>> pairwise(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), kernel="poly", degree=2)
    array([[42.25]])
    """
    known = compiled(kernel, gamma=gamma, degree=degree, coef0=coef0)
    if known is None and not isinstance(kernel, Kernel):
        keywords = {"gamma": gamma, "degree": degree, "coef0": coef0}
        keywords = (kernel_params or {}) if callable(kernel) else keywords
        K = pairwise_kernels(X, Z, metric=kernel, filter_params=True, n_jobs=n_threads, **keywords)
        return np.asarray(K)
    X, Z = prepare(X, kernel), None if Z is None else prepare(Z, kernel)
    if isinstance(known, Linear) and not sp.issparse(X) and not sp.issparse(Z):
        return _inner_products(X, Z)
    return evaluate(kernel if known is None else known, X, Z, n_threads=n_threads)


def _inner_products(X: Any, Z: Any) -> NDArray[np.float64]:
    """X Zᵀ by BLAS alone: with no formula to apply, its own threads on the whole are faster."""
    check_data(Linear(), X)
    U = np.asarray(X, dtype=np.float64)
    if Z is None:
        return np.asarray(U @ U.T)
    check_data(Linear(), Z)
    return np.asarray(U @ np.asarray(Z, dtype=np.float64).T)


def combine(X: Any, Z: Any, coef: NDArray[Any], *, kernel: Any, **settings: Any) -> NDArray[Any]:
    """Return k(X, Z) @ coef in float64; for a compiled kernel its matrix is never held.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
    Z : {array-like, sparse matrix} of shape (n_samples_Z, n_features)
    coef : ndarray of shape (n_samples_Z, n_outputs)
    kernel : str, Kernel or callable
    **settings
        The other keywords of ``pairwise``.

    Returns
    -------
    ndarray of shape (n_samples_X, n_outputs)

    Examples
    --------
    >>> rows = np.array([[1.0], [2.0]])
    >>> combine(np.array([[10.0]]), rows, np.ones((2, 1)), kernel="linear")
    array([[30.]])
    """
    parameters = {name: settings[name] for name in ("gamma", "degree", "coef0") if name in settings}
    known = compiled(kernel, **parameters)
    if known is None or coef.shape[1] == 0:
        return np.asarray(pairwise(X, Z, kernel=kernel, **settings) @ coef, dtype=np.float64)
    X, Z = prepare(X, kernel), prepare(Z, kernel)
    check_data(known, X)
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but {Z.shape[1]} were expected.")
    if isinstance(known, Linear):
        return np.asarray(X @ (Z.T @ np.asarray(coef, dtype=np.float64)))
    threads = settings.get("n_threads")
    basis, rows = _core.Basis(as_rows(Z), None, known.resolve(Z).program()), as_rows(X)
    if coef.shape[1] <= _FUSED:
        return expand(basis, rows, coef, n_threads=threads)
    n, out = X.shape[0], np.empty((X.shape[0], coef.shape[1]))
    for a in range(0, n, _BAND):
        count = min(_BAND, n - a)
        with one_blas_thread():
            K = basis.matrix(rows, a, count, thread_count(threads))
        np.matmul(K, coef, out=out[a : a + count])
    return out
