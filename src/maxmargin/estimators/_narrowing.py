"""Which cells of a search cannot win, and which lie near the one that does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

__all__ = ["around", "losers", "spacing"]

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
