"""From decision values to probabilities: Platt's sigmoid, and many pairs to one distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST", "clipped", "couple", "fit_sigmoids"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST = 1e-7  # no probability is nearer to 0 or 1 than this
_STEPS, _HALVINGS = 100, 40
_CELLS = 1 << 22  # of linear systems at a time: 32 MB


def fit_sigmoids(
    scores: Floats, signs: Floats, weight: Floats, machine: Ints, count: int
) -> tuple[Floats, Floats]:
    r"""Fit :math:`P(+1 | f) = 1 / (1 + e^{A f + B})` to the decision values of each machine.

    Parameters
    ----------
    scores, signs, weight : ndarray of shape (n_values,)
        Decision values of samples a machine has not been trained on, their labels ±1 and weights.
        Infinity and NaN, of a machine that had no samples left to train on, count as 0.
    machine : ndarray of int of shape (n_values,)
        Whose value it is, 0 .. count - 1.
    count : int

    Returns
    -------
    A, B : ndarray of shape (count,)

    Notes
    -----
    Platt (1999) with the targets :math:`(N_+ + 1) / (N_+ + 2)` and :math:`1 / (N_- + 2)`, N the
    weights of the classes; the convex problem is solved by the guarded Newton method of Lin, Lin
    & Weng (2007), for all machines at once.

    Examples
    --------
    >>> f = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> A, B = fit_sigmoids(f, np.sign(f), np.ones(4), np.zeros(4, int), 1)
    >>> bool(A[0] < 0), bool(abs(B[0]) < 1e-9)
    (True, True)
    """
    order = np.argsort(machine, kind="stable")
    scores, signs, weight = scores[order], signs[order], weight[order]
    sizes = np.bincount(machine, minlength=count)
    total = _sums(sizes)
    plus, minus = total(weight * (signs > 0)), total(weight * (signs < 0))
    target = np.where(
        signs > 0, np.repeat((plus + 1) / (plus + 2), sizes), np.repeat(1 / (minus + 2), sizes)
    )
    scores = np.where(np.isfinite(scores), scores, 0.0)
    unit = np.maximum(total(np.abs(scores) * weight), 1e-300) / np.maximum(plus + minus, 1e-300)
    f = scores / np.repeat(unit, sizes)  # machines of any scale are alike

    def loss(A: Floats, B: Floats) -> tuple[Floats, Floats]:
        """The loss of each machine, and P(+1 | f) of each value: both need one exponential."""
        z = np.repeat(A, sizes) * f + np.repeat(B, sizes)
        small = np.exp(-np.abs(z))
        losses = target * z + np.log1p(small) - np.minimum(z, 0.0)
        return total(weight * losses), np.where(z > 0, small, 1.0) / (1.0 + small)

    A, B = np.zeros(count), np.log((minus + 1) / (plus + 1))
    size = 1e-10 * (1 + plus + minus)
    value, p = loss(A, B)
    for _ in range(_STEPS):
        off, bent = weight * (target - p), weight * p * (1 - p)
        g_A, g_B = total(f * off), total(off)
        active = np.maximum(np.abs(g_A), np.abs(g_B)) > size
        if not active.any():
            break
        tilt = f * bent
        h_AA, h_AB, h_BB = total(f * tilt) + 1e-12, total(tilt), total(bent) + 1e-12
        det = np.maximum(h_AA * h_BB - h_AB**2, 1e-300)
        d_A, d_B = -(h_BB * g_A - h_AB * g_B) / det, -(h_AA * g_B - h_AB * g_A) / det
        slope = g_A * d_A + g_B * d_B
        step = np.where(active, 1.0, 0.0)
        for _ in range(_HALVINGS):
            new, p = loss(A + step * d_A, B + step * d_B)
            worse = (step > 0) & ~(new <= value + 1e-4 * step * slope + 1e-13 * np.abs(value))
            if not worse.any():
                break
            step[worse] /= 2
        if worse.any():  # no step of theirs is small enough
            step[worse] = 0.0
            new, p = loss(A + step * d_A, B + step * d_B)
        A, B, value = A + step * d_A, B + step * d_B, new
        if not step.any():
            break
    return A / unit, B


def _sums(sizes: Ints) -> Callable[[Floats], Floats]:
    """How to add up values that lie machine after machine, so many of each."""
    filled = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[filled]

    def total(values: Floats) -> Floats:
        sums = np.zeros(len(sizes))
        sums[filled] = np.add.reduceat(values, starts)
        return sums

    return total


def clipped(P: Floats) -> Floats:
    """Keep probabilities off 0 and 1 by 1e-7, and their sums at 1.

    Examples
    --------
    >>> clipped(np.array([[0.0, 1.0]])).round(7)
    array([[1.000000e-07, 9.999999e-01]])
    """
    P = np.clip(P, LEAST, 1 - LEAST)
    P /= P.sum(axis=1, keepdims=True)
    return P


def couple(first: Ints, second: Ints, wins: Floats, count: int) -> Floats:
    r"""Find the distribution that agrees best with the probabilities of all pairs of classes.

    Parameters
    ----------
    first, second : ndarray of int of shape (n_pairs,)
        The classes of each pair.
    wins : ndarray of shape (n_samples, n_pairs)
        The probability r that it is the first one, given that it is one of the two.
    count : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)

    Notes
    -----
    The second method of Wu, Lin & Weng (2004), which is a linear system, here solved as one:

    .. math:: \min_p \sum_i \sum_{j \ne i} (r_{ji} p_i - r_{ij} p_j)^2 \quad\text{s.t.}\quad
              \textstyle\sum_i p_i = 1

    Examples
    --------
    >>> p = np.array([0.5, 0.3, 0.2])
    >>> i, j = np.array([0, 0, 1]), np.array([1, 2, 2])
    >>> couple(i, j, (p[i] / (p[i] + p[j]))[None], 3).round(6)
    array([[0.5, 0.3, 0.2]])
    """
    wins = np.clip(wins, LEAST, 1 - LEAST)
    P = np.empty((len(wins), count))
    chunk = max(_CELLS // (count + 1) ** 2, 1)
    for start in range(0, len(wins), chunk):
        r = wins[start : start + chunk]
        system = np.zeros((len(r), count + 1, count + 1))
        system[:, first, second] = system[:, second, first] = -r * (1 - r)
        for c in range(count):
            lost = np.hstack([1 - r[:, first == c], r[:, second == c]])
            system[:, c, c] = np.square(lost).sum(axis=1)
        system[:, :count, count] = system[:, count, :count] = 1.0
        right = np.zeros((len(r), count + 1, 1))
        right[:, count] = 1.0
        P[start : start + chunk] = np.linalg.solve(system, right)[:, :count, 0]
    return P
