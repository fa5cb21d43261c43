r"""Give entries of the Gram matrix :math:`K_{ij} = k(x_i, x_j)` on demand.

Whatever needs kernel values speaks to a :class:`Gram` through ``diag``, ``rows``, ``tile`` and
``matvec``, never to ``X``.
"""

from __future__ import annotations

import copy
import functools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maxmargin import _core
from maxmargin.kernels import Callable, Kernel, Precomputed
from maxmargin.threads import one_blas_thread, thread_count

__all__ = ["Gram", "as_rows", "default_cache_size", "evaluate", "expand"]

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

_COLUMN_CHUNK = 4096  # of a product with the Gram: bounds the memory for packed rows
_CHUNK_WORK = 1 << 30  # multiplications between two moments at which Python can answer Ctrl-C
_CHOLESKY_LIMIT = 2048  # up to here an unknown matrix is tested for being positive semi-definite


def default_cache_size() -> int:
    """Return the default budget for cached Gram rows in MB: a quarter of the free memory.

    At least 200 (scikit-learn's default). Free memory is what the system calls available, bounded
    by the limit of the cgroup.

    Examples
    --------
    >>> default_cache_size() >= 200
    True
    """
    return max(200, _available_bytes() // 4 >> 20)


def _available_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        try:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        except (ValueError, OSError, AttributeError):
            return 0
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(free, max(limit - used, 0))
    except (OSError, ValueError):
        return free


def as_rows(X: Any) -> _core.Rows:
    """View a matrix as rows for the core, without copying float32 or float64 data.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)

    Returns
    -------
    _core.Rows
        Keeps ``X`` alive.

    Examples
    --------
    >>> as_rows([[0.0, 1.0], [2.0, 3.0]]).shape
    (2, 2)
    """
    if sparse.issparse(X):
        X = X.tocsr()
        X.check_format(full_check=True)  # compiled code reads memory by these numbers
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values, indices, offsets = map(np.ascontiguousarray, (X.data, X.indices, X.indptr))
        return _core.Rows.csr(values, indices, offsets, X.shape[1])
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions (n_samples, n_features); got {X.ndim}.")
    if not X.flags.aligned or not X.dtype.isnative:
        X = np.array(X, dtype=X.dtype.newbyteorder("="))
    return _core.Rows.dense(X)


def _check_data(kernel: Kernel, X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions (n_samples, n_features); got {X.ndim}.")
    if min(X.shape) < 1:
        raise ValueError(f"X must have at least one row and one column; got shape {X.shape}.")
    cells = X.data if sparse.issparse(X) else X
    if not np.isfinite(cells).all():
        raise ValueError("X has NaN or infinite cells; impute or drop them first.")
    if kernel.needs_nonnegative and cells.size and cells.min() < 0:
        raise ValueError(f"{kernel!r} needs non-negative data; the smallest cell is {cells.min()}.")


def _symmetric(K: NDArray[Any]) -> NDArray[Any]:
    """Check a Gram matrix; a difference of rounding between K and its transpose is averaged."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        shape = "x".join(map(str, K.shape))
        raise ValueError(f"Precomputed matrix must be a square matrix. Input is a {shape} matrix.")
    if not np.isfinite(K).all():
        raise ValueError("The Gram matrix has NaN or infinite entries.")
    slack = math.sqrt(np.finfo(K.dtype).eps) * float(np.abs(K).max(initial=0.0))
    worst = 0.0
    for start in range(0, len(K), 1024):  # blocks: a transposed copy of all of K is not needed
        block = np.abs(K[start : start + 1024] - K[:, start : start + 1024].T)
        worst = max(worst, float(block.max(initial=0.0)))
        if worst > slack:
            i, j = (int(k) for k in np.unravel_index(int(block.argmax()), block.shape))
            i += start
            raise ValueError(
                f"The Gram matrix must be symmetric; entries ({i}, {j}) and ({j}, {i}) are "
                f"{K[i, j]} and {K[j, i]}. Use (K + K.T) / 2 if that is what you mean."
            )
    return (K + K.T) / 2 if worst > 0 else K  # pairwise functions leave rounding there


def evaluate(kernel: Kernel, X: Any, Z: Any = None, *, n_threads: int | None = None) -> Vector:
    """Return the matrix of ``k(x_i, z_j)`` in float64.

    Parameters
    ----------
    kernel : Kernel
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
    Z : {array-like, sparse matrix} of shape (n_samples_Z, n_features), default=None
        None means ``X``.
    n_threads : int or None, default=None

    Returns
    -------
    ndarray of shape (n_samples_X, n_samples_Z)

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> evaluate(Linear(), [[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]])
    array([[11.,  2.]])
    """
    Z = X if Z is None else Z
    if isinstance(kernel, Precomputed):
        raise ValueError("Precomputed has no formula: pass the Gram matrix itself.")
    if not kernel.compiled:
        return _in_python(kernel.resolve(X), X, Z)
    X, Z = (_matrix_of(X),) * 2 if Z is X else (_matrix_of(X), _matrix_of(Z))
    _check_data(kernel, X)
    _check_data(kernel, Z)
    kernel = kernel.resolve(X)
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features but Z has {Z.shape[1]}.")
    rows, threads = as_rows(Z), thread_count(n_threads)
    basis = _core.Basis(rows, None, kernel.program())
    with one_blas_thread():
        if Z is X:
            return basis.symmetric_matrix(rows, threads)
        return basis.matrix(as_rows(X), 0, X.shape[0], threads)


def _in_python(kernel: Kernel, X: Any, Z: Any) -> Vector:
    """Evaluate a Python function, or a composition that holds one: only that part is not C++."""
    if isinstance(kernel, Callable):
        K = kernel.function(X, Z, **kernel.kw)
        K = np.asarray(K.toarray() if sparse.issparse(K) else K, dtype=np.float64)
        shape = tuple(A.shape[0] if hasattr(A, "shape") else len(A) for A in (X, Z))
        if K.shape != shape:
            raise ValueError(
                f"{kernel!r} must return a matrix of shape {shape} for that many rows of X and Z; "
                f"it returned shape {K.shape}. It is called with whole matrices, not with two rows."
            )
        return K
    if kernel.compiled or not kernel.parts:
        return evaluate(kernel, X, Z)
    return kernel.combine(*(_in_python(part, X, Z) for part in kernel.parts))


def _matrix_of(X: Any) -> Any:
    return X if sparse.issparse(X) else np.asarray(X)


def expand(
    basis: _core.Basis, rows: _core.Rows, coef: Vector, *, n_threads: int | None = None
) -> Vector:
    r"""Return :math:`\sum_j c_{jq} k(x_j, z)` for each row z, in blocks that Ctrl-C can part.

    Parameters
    ----------
    basis : _core.Basis
        The functions :math:`k(x_j, \cdot)`.
    rows : _core.Rows
        The rows z.
    coef : ndarray of shape (n_basis, n_outputs)
    n_threads : int or None, default=None

    Returns
    -------
    ndarray of shape (n_rows, n_outputs)

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> basis = _core.Basis(as_rows([[1.0], [2.0]]), None, Linear().program())
    >>> expand(basis, as_rows([[10.0]]), np.array([[1.0], [1.0]]))
    array([[30.]])
    """
    n, d = rows.shape
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    threads = thread_count(n_threads)
    out = np.empty((n, coef.shape[1]))
    chunk = max(_CHUNK_WORK // max(len(coef) * d, 1) // 64, 1) * 64  # whole bands of the core's
    with one_blas_thread():
        for first in range(0, n, chunk):
            count = min(chunk, n - first)
            out[first : first + count] = basis.combine(rows, first, count, coef, threads)
    return out


class Gram:
    """Hold a kernel over rows; compute entries of its Gram matrix when asked.

    Parameters
    ----------
    kernel : Kernel
        ``gamma="scale"`` and ``"auto"`` are resolved on ``X``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        For :class:`~maxmargin.kernels.Precomputed` the symmetric matrix itself. float32 and float64
        are used where they lie. For a Python callable the whole matrix is computed at once.
    n_threads : int or None, default=None

    Attributes
    ----------
    n : int
        Number of samples.
    kernel : Kernel
        With all parameters numbers.

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> gram = RBF(gamma=0.5).gram([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> gram.diag
    array([1., 1., 1.])
    >>> gram.matvec(np.array([1.0, 0.0, -1.0])).round(4)
    array([ 0.8647,  0.    , -0.8647])
    """

    def __init__(self, kernel: Kernel, X: Any, *, n_threads: int | None = None) -> None:
        self.n_threads = n_threads
        self.matrix: NDArray[Any] | None = None
        if kernel.compiled:
            self.X = X = _matrix_of(X)
            _check_data(kernel, X)
            self.kernel = kernel.resolve(X)
            self.program: Any = self.kernel.program()
        else:
            self.kernel = kernel if isinstance(kernel, Precomputed) else kernel.resolve(X)
            self.program = None
            if not isinstance(kernel, Precomputed):
                X = _in_python(self.kernel, X, X)
            if sparse.issparse(X):
                raise TypeError("Sparse precomputed kernels are not supported.")
            X = np.asarray(X)
            X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
            self.X = self.matrix = _symmetric(X)
        self.core_rows = as_rows(self.X)
        self.n = int(self.core_rows.shape[0])
        self._last: tuple[Vector, Vector] | None = None
        if not np.isfinite(self.diag).all():
            raise ValueError(f"{self.kernel!r} overflows on these data; scale the features first.")

    def __repr__(self) -> str:
        return f"Gram({self.kernel!r}, n={self.n})"

    @functools.cached_property
    def diag(self) -> Vector:
        """The diagonal, in float64."""
        if self.matrix is not None:
            return np.ascontiguousarray(np.diag(self.matrix), dtype=np.float64)
        return self.core_rows.diagonal(self.program)

    @property
    def nonnegative(self) -> bool:
        """Whether every entry is known to be at least 0."""
        if self.matrix is not None:
            return bool(self.matrix.min(initial=0.0) >= 0)
        return self.kernel.nonnegative

    @functools.cached_property
    def convex(self) -> bool | None:
        """Whether the matrix is positive semi-definite: True, False, or None for unknown.

        Known from the kernel's formula where that settles it; otherwise tested by a Cholesky
        factorisation up to 2048 samples.
        """
        if self.kernel.mercer is not None:
            return self.kernel.mercer
        if self.n > _CHOLESKY_LIMIT:
            return None
        K = self.rows(np.arange(self.n))
        K = (K + K.T) / 2
        eps = np.finfo(np.float64 if self.matrix is None else self.matrix.dtype).eps
        K.flat[:: self.n + 1] += 10 * self.n * eps * max(np.abs(self.diag).max(), 1e-300)
        try:
            np.linalg.cholesky(K)
        except np.linalg.LinAlgError:
            return False
        return True

    def subset(self, rows: ArrayLike) -> Gram:
        """Return the Gram of some of the samples, with the same kernel."""
        chosen = _indices(rows, self.n)
        matrix = None if self.matrix is None else self.matrix[np.ix_(chosen, chosen)]
        return self._with(self.X[chosen] if matrix is None else matrix, matrix, chosen)

    def stored(self) -> Gram:
        """Return the same Gram with all its entries computed and kept."""
        everything = np.arange(self.n)
        matrix = self.rows(everything) if self.matrix is None else self.matrix
        return self._with(matrix, matrix, everything)

    def _with(self, X: Any, matrix: NDArray[Any] | None, rows: Indices) -> Gram:
        other = copy.copy(self)
        other.X, other.matrix, other.core_rows = X, matrix, as_rows(X)
        other.program = None if matrix is not None else self.program
        other.n, other._last = len(rows), None
        vars(other).pop("convex", None)  # of a part it may be better known
        vars(other)["diag"] = self.diag[rows]
        return other

    def tile(self, I: ArrayLike, J: ArrayLike) -> Vector:  # noqa: E741  (the set of rows i)
        """Return ``K[I][:, J]`` in float64."""
        rows, columns = _indices(I, self.n), _indices(J, self.n)
        if self.matrix is not None:
            return self.matrix[np.ix_(rows, columns)].astype(np.float64)
        basis = _core.Basis(self.core_rows, columns, self.program)
        threads = thread_count(self.n_threads)
        with one_blas_thread():
            if len(rows) == self.n and np.array_equal(rows, columns):  # each pair once
                return basis.symmetric_matrix(as_rows(self.X[rows]), threads)
            return basis.matrix(as_rows(self.X[rows]), 0, len(rows), threads)

    def rows(self, indices: ArrayLike) -> Vector:
        """Return whole rows of the matrix in float64, shape (len(indices), n)."""
        return self.tile(indices, np.arange(self.n))

    def matvec(self, beta: ArrayLike) -> Vector:
        """Return ``K @ beta`` in float64, for one vector or several as columns.

        Zero rows of ``beta`` cost nothing. The last product is remembered: a solver that has just
        confirmed its answer and the certificate that proves it ask for the same one.
        """
        beta = np.array(beta, dtype=np.float64)
        if beta.shape[:1] != (self.n,) or beta.ndim > 2:
            raise ValueError(f"beta must have {self.n} rows; got shape {beta.shape}.")
        if self._last is not None and np.array_equal(self._last[0], beta):
            return self._last[1].copy()
        coef = beta.reshape(self.n, -1)
        out = np.zeros_like(coef)
        support = np.flatnonzero(coef.any(axis=1)).astype(np.int64)
        for start in range(0, len(support), _COLUMN_CHUNK):
            columns = support[start : start + _COLUMN_CHUNK]
            out += self._product(columns, coef[columns])
        result = out.reshape(beta.shape)
        self._last = (beta, result)
        return result.copy()

    def _product(self, columns: Indices, coef: Vector) -> Vector:
        if self.matrix is None:
            basis = _core.Basis(self.core_rows, columns, self.program)
            return expand(basis, self.core_rows, coef, n_threads=self.n_threads)
        blocks = range(0, self.n, 1024)  # in float64 whatever the matrix is, a block at a time
        return np.concatenate(
            [self.matrix[a : a + 1024][:, columns].astype(np.float64) @ coef for a in blocks]
        )


def _indices(values: ArrayLike, n: int) -> Indices:
    indices = np.ascontiguousarray(np.atleast_1d(values), dtype=np.int64)
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise IndexError(f"row numbers must lie in 0 .. {n - 1}.")
    return indices
