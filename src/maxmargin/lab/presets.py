"""Small data sets for the canvas; all are made here, but Iris comes with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.datasets import chessboard, two_sets_of_six
from maxmargin.lab.document import Document, Settings, exact

__all__ = ["TITLES", "load"]

Floats = NDArray[np.float64]
Points = tuple[Any, Any]


def load(name: str, settings: Settings | None = None) -> Document:
    """Return a preset as a document.

    Examples
    --------
    >>> load("six").points.shape
    (12, 2)
    """
    X, y = _MAKERS[name]()
    labels = np.asarray(y, dtype=np.float64)
    return Document(exact(X), labels, name, settings or Settings())


def _two(n: int) -> Floats:
    return np.repeat([1.0, -1.0], n)


def _blobs(n: int, centre: tuple[float, float], spread: float, seed: int) -> Points:
    rng = np.random.default_rng(seed)
    half = rng.normal(scale=spread, size=(2 * n, 2))
    half[:n] += centre
    half[n:] -= centre
    return half, _two(n)


def _separable() -> Points:
    return _blobs(20, (1.7, 1.1), 0.62, 3)


def _overlapping() -> Points:
    return _blobs(40, (0.9, 0.7), 0.95, 7)


def _xor() -> Points:
    rng = np.random.default_rng(2)
    corners = np.array([[1.3, 1.3], [-1.3, -1.3], [-1.3, 1.3], [1.3, -1.3]])
    X = np.repeat(corners, 15, axis=0) + rng.normal(scale=0.42, size=(60, 2))
    return X, _two(30)


def _moons() -> Points:
    rng, t = np.random.default_rng(1), np.linspace(0, np.pi, 40)
    upper = np.column_stack([np.cos(t), np.sin(t)])
    lower = np.column_stack([1 - np.cos(t), 0.5 - np.sin(t)])
    X = 1.6 * (np.vstack([upper, lower]) - [0.5, 0.25])
    return X + rng.normal(scale=0.17, size=X.shape), _two(40)


def _circles() -> Points:
    rng, t = np.random.default_rng(4), np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = np.column_stack([np.cos(t), np.sin(t)])
    X = np.vstack([0.8 * ring, 2.0 * ring]) + rng.normal(scale=0.17, size=(80, 2))
    return X, _two(40)


def _outlier() -> Points:
    X, y = _separable()
    return np.vstack([X, [[-0.55, -0.1]]]), np.append(y, 1.0)


def _iris() -> Points:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)  # N3: versicolor against the rest, petals
    return X[:, 2:], np.where(y == 1, 1, -1)


def _sine() -> Points:
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(-3, 3, size=45))
    return np.column_stack([x, np.sin(1.4 * x) + rng.normal(scale=0.16, size=45)]), np.ones(45)


def _cloud() -> Points:
    rng = np.random.default_rng(8)
    X = np.vstack([rng.normal(scale=(0.9, 0.5), size=(55, 2)), rng.uniform(-2.4, 2.4, (7, 2))])
    return X, np.ones(len(X))


_MAKERS: dict[str, Callable[[], Points]] = {
    "overlapping": _overlapping,
    "separable": _separable,
    "xor": _xor,
    "moons": _moons,
    "circles": _circles,
    "chessboard": lambda: chessboard(240, squares=4, random_state=0),
    "six": two_sets_of_six,
    "outlier": _outlier,
    "iris": _iris,
    "sine": _sine,
    "cloud": _cloud,
}

TITLES = {
    "overlapping": "Two overlapping clouds",
    "separable": "Two separable clouds",
    "xor": "XOR",
    "moons": "Two moons",
    "circles": "Two circles",
    "chessboard": "Chessboard (N3)",
    "six": "Two sets of six (N4)",
    "outlier": "One outlier",
    "iris": "Iris, petals (N3)",
    "sine": "A noisy sine (regression)",
    "cloud": "One cloud (one-class)",
}
