"""Keep the dot products of all rows, for the Gram matrices of many kernels on parts of them."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.grams import Gram, as_rows, default_cache_size, steepness, symmetric
from maxmargin.kernels import Kernel, Linear
from maxmargin.threads import one_blas_thread, thread_count

__all__ = ["Products", "lookup", "shared_gram"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STATIONARY = ("rbf", "matern", "add", "mul", "scale", "pow")
_WORTH = 200.0  # multiplications an entry costs: below, it is computed as fast as it is loaded
_EXACT = 1e-11  # how far rounding of dot products may put a kernel value off


class Products:
    """Dot products of rows, of which every kernel of dot products or distances is a function.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    centred : bool, default=True
        Of the rows minus their mean: for distances alone, which lose fewer digits so.
    n_threads : int or None, default=None

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> store = Products(np.array([[0.0], [1.0], [3.0]]))
    >>> store.gram(RBF(gamma=1.0)).round(4)
    array([[1.000e+00, 3.679e-01, 1.000e-04],
           [3.679e-01, 1.000e+00, 1.830e-02],
           [1.000e-04, 1.830e-02, 1.000e+00]])
    >>> store.times(RBF(gamma=1.0), np.ones((3, 1))).round(4)
    array([[1.368 ],
           [1.3862],
           [1.0184]])
    """

    def __init__(self, X: Any, *, centred: bool = True, n_threads: int | None = None) -> None:
        self.X, self.n_threads = X, n_threads
        self.centred = centred and not sp.issparse(X)
        self.rows = as_rows(X)
        Z = X - np.mean(X, axis=0, dtype=np.float64) if self.centred else X
        self.norms = (
            np.asarray(Z.multiply(Z).sum(axis=1), dtype=np.float64).ravel()
            if sp.issparse(Z)
            else np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        )
        self.largest = float(self.norms.max(initial=0.0))
        with one_blas_thread():
            rows = as_rows(Z)
            basis = _core.Basis(rows, None, Linear().program())
            self.dots = symmetric(basis, rows, thread_count(n_threads))

    @property
    def nbytes(self) -> int:
        """Memory of the store."""
        return int(self.dots.nbytes)

    def serves(self, kernel: Kernel) -> bool:
        """Whether this kernel's values come out of these products as precise as a fit's own."""
        program = kernel.program() if kernel.compiled else None
        if program is None or not _core.of_dots(program):
            return False
        if self.centred and any(op not in _STATIONARY for op, *_ in program):
            return False
        eps = float(np.finfo(np.float64).eps)
        return 8 * eps * steepness(program) * self.largest <= _EXACT

    def gram(
        self,
        kernel: Kernel,
        rows: Ints | None = None,
        out: NDArray[Any] | None = None,
        *,
        n_threads: int | None = None,
    ) -> NDArray[Any]:
        """Return the matrix of a kernel whose parameters are numbers, on all rows or some.

        ``out`` gives memory, and the type.
        """
        chosen = np.arange(len(self.dots)) if rows is None else rows
        filled: Any = np.empty((len(chosen), len(chosen))) if out is None else out
        threads = thread_count(n_threads or self.n_threads)
        _core.from_dots(*self._of(kernel, chosen), filled, threads)
        return np.asarray(filled)

    def times(
        self, kernel: Kernel, coef: Floats, rows: Ints | None = None, n_threads: int | None = None
    ) -> Floats:
        """Return the product of that matrix and coefficients, without the matrix."""
        chosen = np.arange(len(self.dots)) if rows is None else rows
        with one_blas_thread():
            threads = thread_count(n_threads or self.n_threads)
            return np.asarray(_core.combine_dots(*self._of(kernel, chosen), coef, threads))

    def _of(self, kernel: Kernel, rows: Ints) -> tuple[Any, Floats, Floats, Ints, Floats]:
        program = kernel.program()
        return program, self.dots, self.norms, rows, self.rows.diagonal(program)[rows]


class _Shared:
    """Products of all rows of one X, found again by the content of rows."""

    def __init__(self, X: Any, n_threads: int | None) -> None:
        self.X = X.copy()  # the products come later: of what the keys are of, whatever X becomes
        self.lock = threading.Lock()
        self.n_threads = n_threads
        self.stores: dict[bool, Products] = {}
        self.worth = _worth(X)
        self.place: dict[int, int] = {}
        for i, key in enumerate(_keys(X) if self.worth else []):
            self.place.setdefault(key, i)
        self.reused = 0

    def find(self, X: Any) -> Ints | None:
        """Where these rows are in X, None if one is not: keys are only a hint, cells decide."""
        same = sp.issparse(X) == sp.issparse(self.X) and X.shape[1] == self.X.shape[1]
        if not self.worth or not same or X.dtype != self.X.dtype:
            return None
        try:
            rows = np.array([self.place[key] for key in _keys(X)], dtype=np.int64)
        except KeyError:
            return None
        there = self.X[rows]
        if sp.issparse(X):
            return None if (there != X).nnz else rows
        return rows if np.array_equal(there, X) else None

    def matrix(self, kernel: Kernel, rows: Ints) -> NDArray[Any] | None:
        centred = all(op in _STATIONARY for op, *_ in kernel.program())
        with self.lock:  # the first who asks computes them, the others wait
            if centred not in self.stores:
                self.stores[centred] = Products(self.X, centred=centred, n_threads=self.n_threads)
            store = self.stores[centred]
        if not store.serves(kernel):
            return None
        self.reused += 1
        return store.gram(kernel, rows)


def _worth(X: Any) -> bool:
    """Whether products of these rows cost more to compute than to load."""
    return bool(as_rows(X).work >= _WORTH * max(1.0, X.shape[0] / 1600))


def _keys(X: Any) -> list[int]:
    """A number for the content of each row."""
    if sp.issparse(X):
        ends = X.indptr
        return [
            hash((X.indices[a:b].tobytes(), X.data[a:b].tobytes()))
            for a, b in itertools.pairwise(ends)
        ]
    cells = np.ascontiguousarray(X)
    return [hash(row.tobytes()) for row in cells]


_active: list[_Shared] = []
_guard = threading.Lock()


def _unlock() -> None:
    """In a forked child no other thread is inside, whatever the parent's were doing."""
    global _guard
    _guard = threading.Lock()
    for shared in _active:
        shared.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


@contextmanager
def shared_gram(X: Any, *, n_threads: int | None = None) -> Iterator[None]:
    """Let fits on rows of X share their dot products, while inside.

    For ``GridSearchCV``, ``HalvingGridSearchCV``, ``cross_val_score``, Optuna and plain loops over
    the estimators of this package. A fit recognises its rows by their content (a hash, and then
    every cell), wherever they were copied to, so nothing can be stale: rows that are not in X, or
    were changed, are computed as always. The products are computed when first asked for, in
    float64, and released at the end. Where computing them takes no longer than loading them (dense
    rows of fewer than 200 columns, 500 for 4000 rows; sparse ones that store few cells), nothing is
    shared. Safe from any number of threads; worker *processes* (``n_jobs`` above 1 with joblib's
    default) do not see it: they compute the same results as without. Use ``n_jobs=None`` or
    ``joblib.parallel_backend("threading")``.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        float64 or float32, as given to the search.
    n_threads : int or None, default=None

    Raises
    ------
    MemoryError
        If the products of all rows exceed a quarter of the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from maxmargin import SVC, shared_gram
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(SVC(), {"C": [1, 10], "gamma": [0.1, 1.0]})
    >>> with shared_gram(X):
    ...     search = search.fit(X, y)
    >>> bool(search.best_score_ > 0.97)
    True
    """
    thread_count(n_threads)  # refuses what is no number of them
    X = X if sp.issparse(X) else np.asarray(X)
    X = X.tocsr() if sp.issparse(X) else X
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    need, budget = 8 * X.shape[0] ** 2, default_cache_size() << 20
    if need > budget and _worth(X):
        raise MemoryError(
            f"shared_gram needs {need / 2**20:.0f} MB for the products of {X.shape[0]} rows; "
            f"{budget / 2**20:.0f} may be used. Fit without it: the results are the same."
        )
    shared = _Shared(X, n_threads)
    with _guard:
        _active.append(shared)
    try:
        yield
    finally:
        with _guard:
            _active.remove(shared)
        with shared.lock:  # a fit that outlives the body may be computing them
            shared.stores.clear()


def lookup(kernel: Kernel, X: Any, *, n_threads: int | None = None) -> Gram | None:
    """Return the Gram of X with all entries, if a surrounding `shared_gram` has its products.

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> X = np.zeros((3, 300))
    >>> X[:, 0] = [0.0, 1.0, 3.0]
    >>> lookup(RBF(gamma=1.0), X) is None
    True
    >>> with shared_gram(X):
    ...     found = lookup(RBF(gamma=1.0), X[[2, 0]])
    >>> found.matrix.round(4)
    array([[1.e+00, 1.e-04],
           [1.e-04, 1.e+00]])
    """
    with _guard:
        active = _active[::-1]
    for shared in active:
        if kernel.compiled and (rows := shared.find(X)) is not None:
            kernel = kernel.resolve(X)
            matrix = shared.matrix(kernel, rows)
            if matrix is not None:
                return Gram(kernel, X, n_threads=n_threads).holding(matrix)
    return None
