"""K of all rows for the kernels of a search: planned before it is made, in memory used again."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._chains import Exact
from maxmargin.estimators._machine import take
from maxmargin.grams import Gram, default_cache_size
from maxmargin.kernels import RBF
from maxmargin.sharing import Products

__all__ = ["Matrices", "Room"]

_DOUBLE = 2048  # rows: the whole Gram in float64 is 32 MB, about what caches hold
_ALWAYS = 2048  # rows: two Gram matrices are 64 MB, whatever the cache is
_LITTLE = 512  # rows: a Gram more or less is 2 MB
_SHORT = 64  # features


class Room:
    """Memory for the matrix of a kernel, used again for the next."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.cells: NDArray[Any] | None = None

    def square(self, dtype: type) -> NDArray[Any]:
        if self.cells is None or self.cells.dtype != dtype:
            self.cells = np.empty((self.n, self.n), dtype)
        return self.cells


class Matrices:
    """K of all rows, in the order in which classes are runs, kernel after kernel."""

    def __init__(
        self,
        machine: SupportVectorMachine,
        X: Any,
        order: NDArray[np.int64],
        *,
        threads: int,
        chains: int,
    ) -> None:
        self.machine, self.X, self.order, self.threads = machine, X, order, threads
        self.chains = chains  # of each matrix: so many threads find work there
        self.n = len(order)
        self._stores: dict[bool, Products] = {}
        self._lock = threading.Lock()

    # ---- the plan -----------------------------------------------------------------------------

    def single(self, kernel: Any, largest: float) -> bool:
        """Whether K is float32 for this C: as for a fit, beyond what float64 costs little."""
        precise = 2.0**-24 * largest <= self.machine.tol
        return self.n > _DOUBLE and precise and isinstance(kernel, RBF)

    @property
    def stores(self) -> bool:
        """Whether products are kept: short rows are multiplied anew in the time products load."""
        shape: Any = getattr(self.X, "shape", ())  # a Python function's rows may be anything
        return bool(sp.issparse(self.X) or (len(shape) > 1 and shape[1] > _SHORT))

    def at_once(self, single: bool) -> int:
        """Kernels to solve for at a time: one, unless threads lack work and two Grams hold more."""
        wanted = -(-self.threads // self.chains)
        room = (2 * 8 - 8 * self.stores) // self._bytes(single)
        if self.n <= _LITTLE:
            wanted, room = max(2, wanted), self.threads
        else:  # within the budget: whether one fits is asked of `fits`
            left = self.budget // self.n**2 - 8 * self.stores
            room = min(room, left // self._bytes(single))
        return max(1, min(self.threads, wanted, room))

    def planned(self, single: bool) -> int:
        """Bytes of the products, and of the matrices of the kernels at work."""
        return (8 * self.stores + self._bytes(single) * self.at_once(single)) * self.n**2

    @staticmethod
    def _bytes(single: bool) -> int:
        return 4 if single else 8

    @functools.cached_property
    def budget(self) -> int:
        """Bytes that may be used."""
        size = self.machine.cache_size
        return int((default_cache_size() if size is None else size) * 2**20)

    def fits(self, single: bool) -> bool:
        """Whether one matrix does: how many there are must not depend on the threads."""
        need = (8 * self.stores + self._bytes(single)) * self.n**2
        return need <= self.budget or self.n <= _ALWAYS

    # ---- K ------------------------------------------------------------------------------------

    @functools.cached_property
    def rows(self) -> Any:
        """Those of X, in that order."""
        return self.X[self.order]

    def products(self, kernel: Any) -> Products | None:
        """Dot products of all rows, once for all kernels they serve."""
        if self.machine._mode() == "precomputed" or not kernel.compiled or not self.stores:
            return None
        names = {op for op, *_ in kernel.program()}
        if names & {"laplacian", "chi2", "intersection"}:
            return None
        centred = names <= {"rbf", "matern", "add", "mul", "scale", "pow"}
        with self._lock:
            if centred not in self._stores:
                Gram(kernel, self.X)  # checks the data
                self._stores.clear()
                self._stores[centred] = Products(self.rows, centred=centred, n_threads=self.threads)
            store = self._stores[centred]
        return store if store.serves(kernel) else None

    def matrix(
        self, kernel: Any, store: Products | None, single: bool, room: Room, threads: int
    ) -> NDArray[Any]:
        """All entries."""
        if self.machine._mode() == "precomputed":
            gram = Gram(kernel, self.X)
            return np.ascontiguousarray(np.asarray(gram.matrix)[np.ix_(self.order, self.order)])
        if not kernel.compiled:
            gram = Gram(kernel, take(self.X, self.order, square=False))
            return np.ascontiguousarray(gram.matrix)
        square = room.square(np.float32 if single else np.float64)
        if store is not None:
            return store.gram(kernel, out=square, n_threads=threads)
        Gram(kernel, self.rows, n_threads=threads).into(square)
        return square

    def exact(self, kernel: Any, store: Products | None, threads: Callable[[], int]) -> Exact:
        """K of some rows times coefficients, in float64."""
        if store is not None:
            return lambda coef, rows: store.times(kernel, coef, rows, threads())
        gram = Gram(kernel, self.rows, n_threads=threads())
        return lambda coef, rows: gram.subset(rows).matvec(coef)
