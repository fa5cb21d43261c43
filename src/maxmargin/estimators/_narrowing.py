"""Which cells of a search cannot win, and which lie near the one that does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

__all__ = ["around", "fineness", "losers", "spacing"]

_SURE = 4.0  # standard errors

Candidate = dict[str, Any]


def losers(scores: NDArray[np.float64]) -> list[int]:
    """Which cells the best one beats by more than chance; a row of scores is a cell, by folds."""
    if not np.isfinite(scores).all(axis=1).any():
        return []
    best = int(np.nanargmax(scores.mean(axis=1)))
    ahead = scores[best] - scores
    spread, floor = (each.std(axis=-1, ddof=1) for each in (ahead, scores[best]))
    error = np.maximum(spread, floor) / np.sqrt(scores.shape[1])
    return [int(c) for c in np.flatnonzero(ahead.mean(axis=1) > _SURE * error)]


def fineness(candidates: Sequence[Candidate], names: Sequence[str]) -> list[int]:
    """How fine a grid each needs to be on it: 0 for about four values along each axis.

    Examples
    --------
    >>> fineness([{"C": 2.0**k} for k in range(9)], ["C"])
    [0, 2, 1, 2, 0, 2, 1, 2, 0]
    """
    levels = [0] * len(candidates)
    for name in names:
        values = sorted({c[name] for c in candidates if isinstance(c.get(name), Real)})
        place = {value: k for k, value in enumerate(values)}
        finest = max((len(values) - 1).bit_length() - 2, 0)
        for i, candidate in enumerate(candidates):
            if isinstance(candidate.get(name), Real):
                k = place[candidate[name]]
                zeros = (k & -k).bit_length() - 1 if k else finest
                levels[i] = max(levels[i], finest - zeros)
    return levels


def spacing(candidates: Sequence[Candidate], names: Sequence[str]) -> dict[str, float]:
    """By what neighbours differ along each axis that has some."""
    factor = {}
    for name in names:
        values = sorted({c[name] for c in candidates if isinstance(c.get(name), Real)})
        steps = [b / a for a, b in itertools.pairwise(values) if a > 0]
        if steps:
            factor[name] = float(np.exp(np.median(np.log(steps))))
    return factor


def around(
    best: Candidate, factor: dict[str, float], known: Sequence[Candidate]
) -> list[Candidate]:
    """Cells by these factors from the best one that are not known yet."""
    grid = {
        name: [value * factor[name] ** e for e in (-1, 0, 1)]
        if name in factor and isinstance(value, Real)
        else [value]
        for name, value in best.items()
    }
    return [c for c in ParameterGrid(grid) if not any(_close(c, d) for d in known)]


def _close(a: Candidate, b: Candidate) -> bool:
    def same(x: Any, y: Any) -> bool:
        both = isinstance(x, Real) and isinstance(y, Real)
        return bool(np.isclose(x, y, rtol=1e-9)) if both else x is y or x == y

    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
