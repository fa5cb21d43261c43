"""Rows of K for the solvers that are meant to be read."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from maxmargin.grams import Gram

__all__ = ["SECONDS", "row_reader"]

SECONDS = 0.1  # per chunk: Ctrl-C is answered, progress shown and limits checked this often
_SMALL = 2048  # rows: up to here the whole Gram, 32 MB, is at hand
_KEPT = 1 << 25  # entries of rows kept above that: 256 MB


def row_reader(gram: Gram) -> Callable[[int], NDArray[np.float64]]:
    """Return the function i ↦ row i of K; all of K is held where it is small.

    Examples
    --------
    >>> from maxmargin import kernels
    >>> row_reader(kernels.Linear().gram([[1.0], [2.0]]))(1)
    array([2., 4.])
    """
    if gram.n <= _SMALL:
        return list(gram.rows(np.arange(gram.n))).__getitem__
    # One by one, so that the bits of a row do not depend on what was asked before.
    return functools.lru_cache(maxsize=max(_KEPT // gram.n, 2))(lambda i: gram.rows([i])[0])
