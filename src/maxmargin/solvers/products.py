"""Products with a Gram for iterative solvers: stored, on demand or of low rank, preconditioned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

from maxmargin.grams import Gram, default_cache_size
from maxmargin.threads import thread_count

__all__ = [
    "Factor",
    "LowRank",
    "Preconditioner",
    "Products",
    "coarse",
    "greedy",
    "low_rank",
    "products",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMALL = 2048  # rows: up to here K is stored in float64, 32 MB
_BLOCK = 512  # rows of one product: fixed, so that no number of threads changes a bit
_LANDMARKS = 192  # of a preconditioner; see `low_rank`
_EXACT = 512  # rows: up to here all are landmarks and the preconditioner is K itself
_COARSE = 2.0**-24  # of float32 entries
_JITTER = 1e-12
_WORK = 1 << 30  # multiplications between two moments at which Python can answer Ctrl-C


class Products(Protocol):
    """Whatever multiplies by (nearly) K."""

    def __call__(self, V: Floats) -> Floats:
        """Return K V, shape (n_samples, n_outputs)."""
        ...


class _Stored:
    """K in memory, float64 or float32; a block of rows per thread at a time."""

    def __init__(self, K: NDArray[Any], n_threads: int | None) -> None:
        self._K, self._threads = K, thread_count(n_threads)

    def __call__(self, V: Floats) -> Floats:
        K = self._K
        V = np.ascontiguousarray(V, dtype=K.dtype)
        out = np.empty((len(K), V.shape[1]), dtype=K.dtype)

        def block(a: int) -> None:
            np.matmul(K[a : a + _BLOCK], V, out=out[a : a + _BLOCK])

        _each(block, range(0, len(K), _BLOCK), self._threads)
        return out.astype(np.float64, copy=False)


class _OnDemand:
    """K computed again for every product."""

    def __init__(self, gram: Gram) -> None:
        self._gram, self._rows = gram, np.arange(gram.n)

    def __call__(self, V: Floats) -> Floats:
        if V.shape[1] > 1 or self._gram.matrix is not None:
            return self._gram.matvec(V)
        return self._gram.product(self._rows, self._rows, V[:, 0])[:, None]


class LowRank:
    """Z Zᵀ in place of K."""

    def __init__(self, Z: NDArray[Any]) -> None:
        self._Z = Z

    def __call__(self, V: Floats) -> Floats:
        """Return Z Zᵀ V."""
        inner = self._Z.T @ np.ascontiguousarray(V, dtype=self._Z.dtype)
        return np.asarray(self._Z @ inner, dtype=np.float64)


def coarse(gram: Gram, largest: float) -> bool:
    """Whether float32 entries will do: there are many, and their rounding, times C, is small.

    A Newton step only has to be good enough; before the end scores are computed in float64.
    """
    top = float(np.abs(gram.diag).max(initial=0.0))
    small = largest * top * gram.n**0.5 * _COARSE <= 1e-2 and top < 1e30
    return gram.n > _SMALL and small and (gram.matrix is None or gram.matrix.dtype == np.float32)


def products(gram: Gram, *, cache_size: float | None, largest: float) -> Products:
    """Choose how to multiply by K: stored if it fits into the cache, else on demand.

    Parameters
    ----------
    gram : Gram
    cache_size : float or None
        MB; None is the default of the library.
    largest : float
        The largest C: what an entry's error is multiplied by in a Newton system.

    Returns
    -------
    Products
        With float32 entries where there are many and :func:`coarse` says so.
    """
    n, matrix = gram.n, gram.matrix
    budget = (default_cache_size() if cache_size is None else cache_size) * 2**20
    if matrix is not None and matrix.dtype == np.float64:
        return _Stored(matrix, gram.n_threads)  # it lies there already
    if n <= _SMALL and 8 * n * n <= budget:
        return _Stored(gram.rows(np.arange(n)), gram.n_threads)
    kind = np.float32 if coarse(gram, largest) else np.float64
    K = np.empty((n, n), dtype=kind)  # no page of it is touched yet
    if K.nbytes > budget:
        return _OnDemand(gram)
    for a in range(0, n, _BLOCK):  # each pair once; Python can answer Ctrl-C between two blocks
        block = slice(a, min(a + _BLOCK, n))
        K[block, a:] = gram.tile(np.arange(a, block.stop), np.arange(a, n))
        K[block, :a] = K[:a, block].T
    return _Stored(K, gram.n_threads)


def _each(run: Callable[[int], None], items: range, threads: int) -> None:
    if threads == 1 or len(items) == 1:
        for item in items:
            run(item)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        list(pool.map(run, items))


# ---- low rank ---------------------------------------------------------------------------------


class Factor:
    r"""Nyström's :math:`K \approx Z Z^\top`: exact on the rows of the landmarks J.

    Parameters
    ----------
    gram : Gram
    J : ndarray of shape (n_landmarks,)
        Those that add nothing to the others are left out.
    single : bool
        Keep Z in float32.

    Attributes
    ----------
    J : ndarray of shape (rank,)
    Z : ndarray of shape (n_samples, rank)
    rest : ndarray of shape (n_samples,)
        The diagonal of K − Z Zᵀ.
    partial : bool
        Whether there are fewer landmarks than rows.
    """

    def __init__(self, gram: Gram, J: Ints, *, single: bool = False) -> None:
        columns = gram.tile(np.arange(gram.n), J)
        inner = columns[J]
        scale = float(np.abs(np.diag(inner)).max(initial=0.0))
        L, pivots, rank, _ = dpstrf(inner, lower=1, tol=len(J) * 1e-15 * scale)
        rank = int(rank) if scale > 0 else 0
        kept = np.asarray(pivots[:rank] - 1, dtype=np.int64)
        self.partial = len(J) < gram.n
        self.J, self.L = J[kept], np.tril(L)[:rank, :rank]
        kind = np.float32 if single else np.float64
        self.Z: NDArray[Any] = np.zeros((gram.n, rank), dtype=kind)
        root, some = self.L.astype(kind), max(_BLOCK, _WORK // max(rank, 1) ** 2)
        for a in range(0, gram.n if rank else 0, some):  # parts, for Ctrl-C
            part = columns[a : a + some, kept].T.astype(kind)
            self.Z[a : a + some] = solve_triangular(root, part, lower=True).T
        held = np.einsum("ij,ij->i", self.Z, self.Z)
        self.rest: Floats = np.maximum(gram.diag - held, 0.0)

    def coefficients(self, V: Floats) -> Floats:
        """Return c on the landmarks with Σ_J c_j φ(x_j) = the projection of Σ_i V_i φ(x_i)."""
        return np.asarray(solve_triangular(self.L, self.Z.T @ V, lower=True, trans="T"))


def low_rank(gram: Gram, *, single: bool) -> Factor:
    """Factor K roughly, for a preconditioner: by all rows if they are few, else by some.

    192 rows drawn at random: more of them cost more in every Newton step than they save in
    products (measured for n = 5000, RBF).
    """
    n = gram.n
    if n <= _EXACT:
        return Factor(gram, np.arange(n))
    chosen = np.random.default_rng(0).choice(n, size=_LANDMARKS, replace=False)
    return Factor(gram, np.sort(chosen), single=single)


def greedy(gram: Gram, count: int) -> Ints:
    """Choose rows one by one, each the farthest from the span of those before it.

    That is Cholesky's factorisation with pivots, of the Gram on demand: only the columns of the
    chosen rows are computed.
    """
    rest, chosen = gram.diag.copy(), list[int]()
    Z = np.zeros((gram.n, min(count, gram.n)))
    least = 1e-12 * float(rest.max(initial=0.0))
    for k in range(Z.shape[1]):
        j = int(rest.argmax())
        if not rest[j] > least:
            break
        column = gram.tile(np.arange(gram.n), [j])[:, 0] - Z[:, :k] @ Z[j, :k]
        Z[:, k] = column / np.sqrt(rest[j])
        rest = np.maximum(rest - np.square(Z[:, k]), 0.0)
        rest[j] = 0.0
        chosen.append(j)
    return np.array(chosen, dtype=np.int64)


class Preconditioner:
    r"""Solve with :math:`M = 1 + h (Z Z^\top + \operatorname{diag} r) h` for each column h.

    By the matrix inversion lemma a Cholesky factor of the size of the rank is enough; with all
    rows as landmarks M is the B of Rasmussen & Williams (2006), algorithm 3.1. The diagonal r is
    what Z leaves of K's own.

    Parameters
    ----------
    factor : Factor
    h : ndarray of shape (n_samples, n_outputs)
    threads : int
    """

    def __init__(self, factor: Factor, h: Floats, threads: int) -> None:
        self._Z, kind = factor.Z, factor.Z.dtype
        scale = np.sqrt(1.0 + np.square(h) * factor.rest[:, None])
        self._inverse, self._s = 1.0 / scale, (h / scale).astype(kind)
        self._roots: list[Floats] = [np.zeros((0, 0))] * h.shape[1]
        self._threads = threads
        _each(self._factorise, range(h.shape[1]), threads)

    def _factorise(self, k: int) -> None:
        A = self._s[:, k, None] * self._Z
        G = (A.T @ A).astype(np.float64)
        jitter, size = 1.0, float(np.trace(G))
        while True:
            G.flat[:: len(G) + 1] += jitter
            try:
                self._roots[k] = cholesky(G, lower=True)
                return
            except np.linalg.LinAlgError:
                jitter = max(10 * jitter, _JITTER * size)

    def solve(self, r: Floats) -> Floats:
        """Return M⁻¹ r."""
        x = (r * self._inverse).astype(self._Z.dtype)
        inner = (self._Z.T @ (self._s * x)).astype(np.float64)
        for k, root in enumerate(self._roots):
            inner[:, k] = cho_solve((root, True), inner[:, k])
        x = x - self._s * (self._Z @ inner.astype(self._Z.dtype))
        return np.asarray(x * self._inverse, dtype=np.float64)
