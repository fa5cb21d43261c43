"""The decision function on a grid, kept up to date as the coefficients change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.kernels import Kernel

__all__ = ["Surface", "View"]

Floats = NDArray[np.float64]

_KEPT = 4_000_000  # kernel values between the grid and the points that are held: 32 MB
_COARSEST = 24


@dataclass(frozen=True)
class View:
    """The rectangle that the canvas shows, and how fine the grid over it is."""

    x0: float = -3.0
    x1: float = 3.0
    y0: float = -2.25
    y1: float = 2.25
    columns: int = 96
    rows: int = 72

    def scaled(self, factor: float) -> View:
        """Return the same rectangle with another number of cells."""
        columns, rows = (max(_COARSEST, round(v * factor)) for v in (self.columns, self.rows))
        return View(self.x0, self.x1, self.y0, self.y1, columns, rows)

    def ends(self) -> dict[str, float]:
        """Return the rectangle."""
        return {"x0": self.x0, "x1": self.x1, "y0": self.y0, "y1": self.y1}

    def grid(self, features: int) -> Floats:
        """Return the grid's points: for two features row by row, for one along x."""
        x = np.linspace(self.x0, self.x1, self.columns)
        if features == 1:
            return x[:, None]
        y = np.linspace(self.y0, self.y1, self.rows)
        return np.column_stack([np.tile(x, self.rows), np.repeat(y, self.columns)])


class Surface:
    """Σ_i β_i k(x_i, ·) on the grid: k is computed once, a step of two β costs two columns.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, 1) or (n, 2)
    view : View
        Coarser than asked where the points are many.
    """

    def __init__(self, kernel: Kernel, X: Floats, view: View) -> None:
        cells = view.columns * (view.rows if X.shape[1] == 2 else 1)
        coarser = min(1.0, (_KEPT / (cells * max(len(X), 1))) ** 0.5)
        self.view = view if coarser == 1 else view.scaled(coarser)
        grid = self.view.grid(X.shape[1])
        self.K = np.asfortranarray(kernel(grid, X)) if len(X) else np.zeros((len(grid), 0))
        self.shape = (self.view.rows, self.view.columns)[2 - X.shape[1] :]
        self._beta, self._f = np.zeros(len(X)), np.zeros(len(grid))

    def values(self, beta: Floats) -> Floats:
        """Return Σ_i β_i k(x_i, ·), shape (rows, columns) or (columns,)."""
        changed = np.flatnonzero(beta != self._beta)
        if 4 * len(changed) < len(beta):
            self._f = self._f + self.K[:, changed] @ (beta - self._beta)[changed]
        else:
            self._f = self.K @ beta
        self._beta = beta.copy()
        return self._f.reshape(self.shape)
