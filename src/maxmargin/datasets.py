"""Synthetic data of the notes' demonstrations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["chessboard", "two_sets_of_six"]


def chessboard(
    n_samples: int = 2000,
    *,
    squares: int = 8,
    noise: float = 0.0,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw points uniformly from a chessboard, labelled by the colour of their square.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of points.
    squares : int, default=8
        Squares along each side, each of side 1.
    noise : float, default=0.0
        Fraction of the labels to flip, between 0 and 1; rounded to a whole number of points.
    random_state : int, Generator, RandomState or None, default=None
        Seed or generator; the global generator is never used.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points in [0, squares)².
    y : ndarray of shape (n_samples,)
        Labels ±1; the square at the origin is +1.

    Notes
    -----
    N3 shows a Gaussian and a polynomial kernel on this board.

    Examples
    --------
    >>> from maxmargin.datasets import chessboard
    >>> X, y = chessboard(1000, squares=4, noise=0.1, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 2), [-1, 1])
    >>> int((y != (-1) ** X.astype(int).sum(axis=1)).sum())
    100
    """
    if n_samples < 1 or squares < 1:
        raise ValueError(f"n_samples={n_samples} and squares={squares} must be at least 1.")
    if not 0 <= noise <= 1:
        raise ValueError(f"noise={noise} must be between 0 and 1: a fraction of the labels.")
    rng = np.random.default_rng(random_state)
    X = rng.random((n_samples, 2)) * squares
    y = 1 - 2 * (np.floor(X).sum(axis=1).astype(np.int64) % 2)
    flipped = rng.choice(n_samples, round(noise * n_samples), replace=False)
    y[flipped] *= -1
    return X, y


def two_sets_of_six() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two sets of six points that show the situation of N4's Figure 1 at ν = 0.6.

    The notes give no coordinates. With a linear kernel and ν = 0.6 these have the same counts: two
    blue and two red points on the wrong side of the plane; two blue and three red failures of the
    margin, the former among them; two blue points and one red on the margin.

    Returns
    -------
    X : ndarray of shape (12, 2)
        First the blue points, then the red ones.
    y : ndarray of shape (12,)
        +1 for blue, -1 for red.

    Examples
    --------
    >>> X, y = two_sets_of_six()
    >>> X.shape, int(y.sum())
    ((12, 2), 0)
    """
    blue = [[1, 2], [3, 0], [1, -2], [-1, 0], [3, 2], [2, 4]]
    red = [[2, -1], [0, 1], [-1, -1], [0, -3], [-4, -1], [-2, -3]]
    return np.array(blue + red, dtype=np.float64), np.repeat([1, -1], 6)
