r"""Give entries of the Gram matrix :math:`K_{ij} = k(x_i, x_j)` on demand.

Whatever needs kernel values speaks to a :class:`Gram` through ``diag``, ``rows``, ``tile`` and
``matvec``, never to ``X``.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import lapack

from maxmargin import _core
from maxmargin.kernels import (
    Callable,
    Chi2,
    HistogramIntersection,
    Kernel,
    Laplacian,
    Precomputed,
    Program,
)
from maxmargin.threads import cpu_count, in_worker, one_blas_thread, thread_count

__all__ = [
    "Gram",
    "as_rows",
    "check_data",
    "default_cache_size",
    "evaluate",
    "expand",
    "kept_memory",
]

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

_PACKED_BYTES = 1 << 24  # for packed rows in a product with the Gram, or a quarter of X
_ONE_CALL = 1 << 35  # likewise, where both cores together take half a second
_CHUNK_WORK = 1 << 30  # multiplications between two moments at which Python can answer Ctrl-C
_MOST_COLUMNS = 2**31 - 1  # of sparse data: the core keeps column numbers in 32 bits
_LARGEST, _EPS = float(np.finfo(np.float64).max), float(np.finfo(np.float64).eps)
_TILE = 128  # rows and columns of a tile that is compared with its mirror image, in the cache
_CHOLESKY_LIMIT = 2048  # up to here an unknown matrix is tested for being positive semi-definite


def default_cache_size() -> int:
    """Return the default budget for cached Gram rows in MB: a quarter of the free memory.

    At least 200 (scikit-learn's default). Free memory is what the system calls available, bounded
    by the limit of the cgroup. Inside a worker process it is shared with the others, one per CPU.

    Examples
    --------
    >>> default_cache_size() >= 200
    True
    """
    sharers = cpu_count() if in_worker() else 1
    return max(200, (_available_bytes() // 4 >> 20) // sharers)


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let one problem after the other use the same memory: touching new pages costs more.

    Examples
    --------
    >>> with kept_memory():
    ...     pass
    """
    holder = _core.KeptMemory()
    try:
        yield
    finally:
        del holder


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
    X = _matrix_of(X)
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions (n_samples, n_features); got {X.ndim}.")
    if sparse.issparse(X):
        return _sparse_rows(X)
    if not X.flags.aligned or not X.dtype.isnative:
        X = np.array(X, dtype=X.dtype.newbyteorder("="))
    return _core.Rows.dense(X)


def _sparse_rows(X: Any) -> _core.Rows:
    if X.shape[1] > _MOST_COLUMNS:
        raise ValueError(
            f"Sparse X has {X.shape[1]} columns; at most 2**31 - 1 are possible. Hash the features "
            "into fewer columns."
        )
    # The same memory, but not the caller's word that it is in order. SciPy would widen the column
    # numbers to the type of the offsets; narrowing those instead copies less.
    narrow = X.indices.dtype.itemsize < X.indptr.dtype.itemsize and X.indices.size < _MOST_COLUMNS
    view = sparse.csr_array(X.shape, dtype=X.dtype)
    view.data, view.indices = X.data, X.indices
    view.indptr = X.indptr.astype(X.indices.dtype) if narrow else X.indptr
    view.check_format(full_check=True)  # compiled code reads memory by these numbers
    if not view.has_canonical_format:
        view = view.copy()
        view.sum_duplicates()
    wide = view.indices.dtype.itemsize == 8
    values = np.ascontiguousarray(view.data, dtype=view.dtype.newbyteorder("="))
    indices: Any = np.ascontiguousarray(view.indices, dtype=np.int64 if wide else np.int32)
    offsets = np.ascontiguousarray(view.indptr, dtype=np.int64)
    return _core.Rows.csr(values, indices, offsets, X.shape[1])


def _matrix_of(X: Any) -> Any:
    """Return an array or a CSR matrix of float32 or float64, X itself if it is one."""
    is_sparse = sparse.issparse(X)
    X = X if is_sparse else np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return X.tocsr() if is_sparse and X.format != "csr" else X


def check_data(kernel: Kernel, X: Any) -> None:
    """Raise a ValueError if a kernel cannot be computed on these rows.

    For rows to fit on and rows to predict on alike.

    Parameters
    ----------
    kernel : Kernel
    X : {array-like, sparse matrix} of shape (n_samples, n_features)

    Examples
    --------
    >>> from maxmargin.kernels import Chi2
    >>> check_data(Chi2(), [[-1.0]])
    Traceback (most recent call last):
    ValueError: Chi2() needs non-negative data; the smallest cell is -1.0.
    """
    X = _matrix_of(X)
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions (n_samples, n_features); got {X.ndim}.")
    if min(X.shape) < 1:
        raise ValueError(f"X must have at least one row and one column; got shape {X.shape}.")
    low, high = _range(X.data if sparse.issparse(X) else X)
    if not math.isfinite(low + high):
        raise ValueError("X has NaN or infinite cells; impute or drop them first.")
    if kernel.needs_nonnegative and low < 0:
        raise ValueError(f"{kernel!r} needs non-negative data; the smallest cell is {low}.")
    # 4: centred rows are at most twice as long. Where no norm is taken, there is none to overflow.
    if _takes_norms(kernel) and max(-low, high) > math.sqrt(_LARGEST / (4 * X.shape[1])):
        raise ValueError(f"{kernel!r} overflows on these data; scale the features first.")


def _storage(X: Any) -> tuple[int, int]:
    """Return the number of stored cells and their bytes."""
    arrays = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    return int(arrays[0].size), sum(int(a.nbytes) for a in arrays)


def _range(cells: NDArray[Any]) -> tuple[float, float]:
    """Return the smallest and largest cell, NaN if one is; needs no memory, unlike isfinite."""
    return float(cells.min(initial=0.0)), float(cells.max(initial=0.0))


def _takes_norms(kernel: Kernel) -> bool:
    if kernel.parts:
        return any(map(_takes_norms, kernel.parts))
    return not isinstance(kernel, Laplacian | Chi2 | HistogramIntersection)


def _symmetric(K: NDArray[Any]) -> NDArray[Any]:
    """Check a Gram matrix; a difference of rounding between K and its transpose is averaged."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        shape = "x".join(map(str, K.shape))
        raise ValueError(f"Precomputed matrix must be a square matrix. Input is a {shape} matrix.")
    low, high = _range(K)
    if not math.isfinite(low + high):
        raise ValueError("The Gram matrix has NaN or infinite entries.")
    # Pairwise functions leave a few ulps; products of n terms, as in H K H, some sqrt(n) / 3.
    slack = (16 + math.sqrt(len(K))) * float(np.finfo(K.dtype).eps) * max(-low, high)
    worst = 0.0
    corners = range(0, len(K), _TILE)
    for i, j in itertools.combinations_with_replacement(corners, 2):
        tile, mirrored = K[i : i + _TILE, j : j + _TILE], K[j : j + _TILE, i : i + _TILE].T
        if np.array_equal(tile, mirrored):
            continue
        off = np.abs(tile - mirrored)
        worst = max(worst, float(off.max()))
        if worst > slack:
            k, m = (int(at) for at in np.unravel_index(int(off.argmax()), off.shape))
            i, j = i + k, j + m
            raise ValueError(
                f"The Gram matrix must be symmetric; entries ({i}, {j}) and ({j}, {i}) are "
                f"{K[i, j]} and {K[j, i]}. Use (K + K.T) / 2 if that is what you mean."
            )
    if worst == 0:
        return K
    half: NDArray[Any] = K + K.T
    half /= 2
    return half


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
        return _in_python(kernel.resolve(X), X, Z).astype(np.float64, copy=False)
    X, Z = (_matrix_of(X),) * 2 if Z is X else (_matrix_of(X), _matrix_of(Z))
    check_data(kernel, X)
    check_data(kernel, Z)
    kernel = kernel.resolve(X)
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features but Z has {Z.shape[1]}.")
    rows, threads = as_rows(Z), thread_count(n_threads)
    basis = _core.Basis(rows, None, kernel.program())
    with one_blas_thread():
        if Z is X:
            return symmetric(basis, rows, threads)
        return basis.matrix(as_rows(X), 0, X.shape[0], threads)


def symmetric(
    basis: _core.Basis | _core.SingleBasis, rows: _core.Rows, threads: int
) -> NDArray[Any]:
    """Return the matrix of a basis on its own rows, each pair once, in the type of its products.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> rows = as_rows([[1.0], [2.0]])
    >>> symmetric(_core.Basis(rows, None, Linear().program()), rows, 1)
    array([[1., 2.],
           [2., 4.]])
    """
    dtype = np.float64 if isinstance(basis, _core.Basis) else np.float32
    out = np.empty((rows.shape[0], rows.shape[0]), dtype)  # NumPy asks for huge pages, and reuses
    basis.fill(rows, out, threads)
    return out


def _in_python(kernel: Kernel, X: Any, Z: Any) -> NDArray[Any]:
    """Evaluate a Python function, or a composition that holds one: only that part is not C++.

    A function's float32 stays float32, because that says how precise its numbers are.
    """
    if isinstance(kernel, Callable):
        K = kernel.function(X, Z, **kernel.kw)
        K = np.asarray(K.toarray() if sparse.issparse(K) else K)
        K = K if K.dtype == np.float32 else K.astype(np.float64, copy=False)
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


def expand(
    basis: _core.Basis | _core.SingleBasis,
    rows: _core.Rows,
    coef: Vector,
    *,
    n_threads: int | None = None,
    deadline: float = math.inf,
    single: bool = False,
) -> Vector:
    r"""Return :math:`\sum_j c_{jq} k(x_j, z)` for each row z, in blocks that Ctrl-C can part.

    Parameters
    ----------
    basis : _core.Basis or _core.SingleBasis
        The functions :math:`k(x_j, \cdot)`.
    rows : _core.Rows
        The rows z.
    coef : ndarray of shape (n_basis, n_outputs)
    n_threads : int or None, default=None
    deadline : float, default=inf
        ``time.perf_counter()`` after which TimeoutError is raised.
    single : bool, default=False
        Let the kernel values be float32; their sums are float64.

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
    n = rows.shape[0]
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    threads = thread_count(n_threads)
    out = np.empty((n, coef.shape[1]))
    work = max(len(coef) * rows.work, 1)
    chunk = max(int(_CHUNK_WORK / work) // 64, 1) * 64  # whole bands of the core's
    with one_blas_thread():
        for first in range(0, n, chunk):
            if time.perf_counter() > deadline:
                raise TimeoutError
            count = min(chunk, n - first)
            out[first : first + count] = basis.combine(rows, first, count, coef, threads, single)
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
        self._stored: NDArray[Any] | None = None
        self.chosen: Indices | None = None  # these rows and columns of what is stored
        self.deadline = math.inf  # of `matvec`: who is in a hurry gets TimeoutError after it
        if kernel.compiled:
            self._X = X = _matrix_of(X)
            check_data(kernel, X)
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
            self._X = self._stored = _by_rows(_symmetric(X))
        self.core_rows = as_rows(self._X)
        self.n = int(self.core_rows.shape[0])
        self._last: tuple[Vector, Vector] | None = None
        self.known: tuple[Vector, Vector, Vector] | None = None  # of `screening.products`
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
    def matrix(self) -> NDArray[Any] | None:
        """All entries where they are stored; those of a subset are copied when asked for."""
        return self._stored if self.chosen is None else self._copied

    @functools.cached_property
    def _copied(self) -> NDArray[Any]:
        """The entries of a subset; its products still go to where these lie, for the same bits."""
        stored: Any = self._stored
        return _square(stored, self._at(np.arange(self.n)))

    @property
    def X(self) -> Any:
        """The rows, or what is stored in place of them."""
        return self._X if self.program is not None else self.matrix

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
        coarse = self.matrix is not None and self.matrix.dtype == np.float32
        eps = np.finfo(np.float32 if coarse else np.float64).eps
        return _is_semidefinite(self.rows(np.arange(self.n)), float(eps))

    def subset(self, rows: ArrayLike) -> Gram:
        """Return the Gram of some of the samples, with the same kernel."""
        chosen = _indices(rows, self.n)
        other = self._like(chosen)
        if self.program is None:
            other.chosen = chosen if self.chosen is None else self.chosen[chosen]
        else:
            other._X = self._X[chosen]
            other.core_rows = as_rows(other._X)
        return other

    def stored(self) -> Gram:
        """Return the same Gram with all its entries computed and kept."""
        matrix = self.matrix
        if matrix is None:
            basis = _core.Basis(self.core_rows, None, self.program)
            matrix = self._everything(basis)
        return self.holding(matrix)

    def into(self, out: NDArray[Any]) -> None:
        """Compute all entries, in float64, into this square, rounded to its type."""
        basis = _core.Basis(self.core_rows, None, self.program)
        with one_blas_thread():
            basis.fill(self.core_rows, out, thread_count(self.n_threads))

    def holding(self, matrix: NDArray[Any]) -> Gram:
        """Return the same Gram with its entries as they were computed elsewhere."""
        other = self._like(slice(None))
        other._X = other._stored = matrix
        other.core_rows, other.program, other.chosen = as_rows(matrix), None, None
        return other

    def _everything(self, basis: _core.Basis) -> Vector:
        with one_blas_thread():
            return symmetric(basis, self.core_rows, thread_count(self.n_threads))

    def _like(self, rows: Indices | slice) -> Gram:
        """A copy to be made the Gram of these rows."""
        other = copy.copy(self)
        diag = self.diag[rows]
        other.n, other._last, other.known = len(diag), None, None
        for name in ("convex", "single_products", "_squared_radius", "_copied"):  # may differ
            vars(other).pop(name, None)
        vars(other)["diag"] = diag
        return other

    def _at(self, rows: Indices) -> Indices:
        """Where these rows are in what is stored."""
        return rows if self.chosen is None else self.chosen[rows]

    @functools.cached_property
    def single_products(self) -> bool:
        """Whether float32 products are precise enough: γ max‖x − mean‖² 2⁻²³ ≤ 1e-6."""
        if self.program is None:
            return False
        steep = steepness(self.program)
        return steep == 0 or steep * self._squared_radius * 2.0**-23 <= 1e-6

    @functools.cached_property
    def _squared_radius(self) -> float:
        return self.core_rows.squared_radius()

    def tile(self, I: ArrayLike, J: ArrayLike) -> Vector:  # noqa: E741  (the set of rows i)
        """Return ``K[I][:, J]`` in float64."""
        rows, columns = _indices(I, self.n), _indices(J, self.n)
        whole = len(rows) == self.n and np.array_equal(rows, np.arange(self.n))
        everything = whole and np.array_equal(rows, columns)
        if self._stored is not None:
            part = self.matrix if everything else self._part_of(rows, columns)
            return np.array(part, dtype=np.float64, order="C", copy=everything or None)
        basis = _core.Basis(self.core_rows, columns, self.program)
        if everything:  # each pair once
            return self._everything(basis)
        chosen = self.core_rows if whole else as_rows(self.X[rows])
        with one_blas_thread():
            return basis.matrix(chosen, 0, len(rows), thread_count(self.n_threads))

    def _part_of(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        stored: Any = self._stored
        return np.asarray(stored[self._at(rows)[:, None], self._at(columns)])

    def square(self, rows: Indices) -> NDArray[Any]:
        """Return ``K[rows][:, rows]``, in float32 where that is how its products are made."""
        whole = len(rows) == self.n
        if self._stored is not None:
            part = self.matrix if whole else _square(self._stored, self._at(rows))
            return np.ascontiguousarray(part)
        chosen = self.core_rows if whole else as_rows(self.X[rows])
        kind = _core.SingleBasis if self.single_products else _core.Basis
        with one_blas_thread():
            basis = kind(chosen, None, self.program)
            return symmetric(basis, chosen, thread_count(self.n_threads))

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
        if self._stored is not None and beta.ndim == 1:
            support = np.flatnonzero(beta)
            result = self.core_rows.product(self.chosen, support, beta[support])
            self._last = (beta, result)
            return result.copy()
        coef = beta.reshape(self.n, -1)
        out = np.zeros_like(coef)
        support = np.flatnonzero(coef.any(axis=1)).astype(np.int64)
        chunk = self._column_chunk()
        for start in range(0, len(support), chunk):
            columns = support[start : start + chunk]
            out += self._product(columns, coef[columns])
        result = out.reshape(beta.shape)
        self._last = (beta, result)
        return result.copy()

    def remember(self, beta: Vector, product: Vector) -> None:
        """Let the next `matvec` with this ``beta`` return a product that was computed elsewhere."""
        self._last = (beta.copy(), product.copy())

    def product(self, rows: Indices, columns: Indices, coef: Vector) -> Vector:
        """Return ``K[rows][:, columns] @ coef`` in float64, each pair once where the two agree."""
        if len(rows) == 0:
            return np.zeros(0)
        same = rows is columns and len(rows) ** 2 * (self.core_rows.work + 16) < _ONE_CALL
        if self._stored is not None or not same:
            return self._part(rows, columns, coef)
        basis = _core.Basis(self.core_rows, rows, self.program)
        coef = np.ascontiguousarray(coef)
        with one_blas_thread():
            return basis.symmetric_combine(self.core_rows, rows, coef, thread_count(self.n_threads))

    def coarse_product(self, rows: Indices, columns: Indices, coef: Vector) -> tuple[Vector, float]:
        """Return ``K[rows][:, columns] @ coef`` from float32 values, and its likely error."""
        return self._part(rows, columns, coef, coarse=True), self.coarse_error(coef)

    def coarse_error(self, coef: Vector) -> float:
        """Return how far a product with these coefficients is off if its entries are float32.

        Each value is off by its own rounding and, where products are float32 too, by that of a sum
        of d of them, times how steeply the kernel answers. Errors have independent signs: four
        standard deviations of their sum are allowed for.
        """
        d = self.core_rows.shape[1]
        entry = 4 * float(np.abs(self.diag).max(initial=0.0))
        if self.single_products:
            spread = steepness(self.program) * self._squared_radius * (2 * math.sqrt(d) + 2)
            entry += spread + 0.25 * entry * math.sqrt(d)
        return 4 * 2.0**-24 * entry * math.sqrt(float(np.square(coef).sum()))

    def _part(
        self, rows: Indices, columns: Indices, coef: Vector, *, coarse: bool = False
    ) -> Vector:
        if self._stored is not None:
            return np.asarray(self.tile(rows, columns) @ coef)
        kind = _core.SingleBasis if coarse and self.single_products else _core.Basis
        basis = kind(self.core_rows, columns, self.program)
        out = np.empty(len(rows))
        chunk = max(int(_PACKED_BYTES / (8 * max(self.core_rows.work, 1))) // 64, 1) * 64
        for a in range(0, len(rows), chunk):
            out[a : a + chunk] = expand(
                basis,
                as_rows(self.X[rows[a : a + chunk]]),
                coef[:, None],
                n_threads=self.n_threads,
                deadline=self.deadline,
                single=coarse,
            )[:, 0]
        return out

    def _column_chunk(self) -> int:
        """Columns of a product at a time: their rows, packed in float64, stay small against X."""
        cells, given = _storage(self.X)
        return max(64, min(4096, max(_PACKED_BYTES, given // 4) * self.n // (12 * cells + 1)))

    def _product(self, columns: Indices, coef: Vector) -> Vector:
        if self.matrix is None:
            basis = _core.Basis(self.core_rows, columns, self.program)
            return expand(
                basis, self.core_rows, coef, n_threads=self.n_threads, deadline=self.deadline
            )
        if self.matrix.dtype == np.float64 and 4 * len(columns) > self.n:
            whole = np.zeros((self.n, coef.shape[1]))
            whole[columns] = coef
            with one_blas_thread():
                return np.asarray(self.matrix @ whole)
        blocks = range(0, self.n, 1024)  # in float64 whatever the matrix is, a block at a time
        return np.concatenate(
            [self.matrix[a : a + 1024][:, columns].astype(np.float64) @ coef for a in blocks]
        )


def _is_semidefinite(K: Vector, eps: float) -> bool:
    """Test a symmetric matrix whose entries are rounded to a relative eps."""
    diagonal = np.diag(K)
    kept = diagonal > 0
    if (diagonal < 0).any() or K[~kept].any():  # a zero on the diagonal needs a row of zeros
        return False
    if not kept.any():
        return True
    # To unit diagonal: large entries elsewhere must not hide a small indefinite block.
    scale = 1.0 / np.sqrt(diagonal[kept])
    S = K.copy() if kept.all() else K[np.ix_(kept, kept)]
    with np.errstate(over="ignore"):
        S *= scale
        S *= scale[:, None]
        norm = math.sqrt(np.einsum("ij,ij->", S, S))  # not NumPy's BLAS: its threads stay awake
    if not math.isfinite(norm):
        return False
    # Rounding moves no eigenvalue by more than eps/2 ‖|S|‖ <= eps/2 ‖S‖_F, a sum of products by
    # about twice that; the factorisation itself adds a little, in float64.
    S.flat[:: len(S) + 1] += (eps + 4 * _EPS) * norm
    _, info = lapack.dpotrf(S.T, clean=0, overwrite_a=1)
    return bool(info == 0)


def _by_rows(K: NDArray[Any]) -> NDArray[Any]:
    """The same symmetric matrix with the entries of a row side by side."""
    if K.strides[1] == K.itemsize:
        return K
    return K.T if K.strides[0] == K.itemsize else np.ascontiguousarray(K)


def _square(matrix: NDArray[Any], rows: Indices) -> NDArray[Any]:
    """matrix[rows][:, rows]; a few runs of consecutive rows are copied as blocks."""
    ends = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    if len(ends) > 8:
        return np.asarray(matrix[np.ix_(rows, rows)])
    runs = [slice(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, ends[1:])]
    stops = np.cumsum([run.stop - run.start for run in runs])
    places = [slice(int(e) - (r.stop - r.start), int(e)) for r, e in zip(runs, stops, strict=True)]
    out = np.empty((len(rows), len(rows)), dtype=matrix.dtype)
    for a, to_a in zip(runs, places, strict=True):
        for b, to_b in zip(runs, places, strict=True):
            out[to_a, to_b] = matrix[a, b]
    return out


def steepness(program: Program) -> float:
    """Return how steeply the leaves of a kernel program answer to an error in ‖u − v‖², in sum.

    Examples
    --------
    >>> from maxmargin.kernels import RBF, Linear
    >>> steepness((RBF(gamma=2.0) + RBF(gamma=0.5) + Linear()).program())
    2.5
    """
    total = 0.0
    for op, a, b, _ in program:
        if op == "rbf":
            total += a
        elif op == "matern":  # a Lipschitz bound exists only for nu > 1/2: else exact products
            total += math.inf if a < 1 else 5.0 / b**2
    return total


def _indices(values: ArrayLike, n: int) -> Indices:
    indices = np.ascontiguousarray(np.atleast_1d(values), dtype=np.int64)
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise IndexError(f"row numbers must lie in 0 .. {n - 1}.")
    return indices
