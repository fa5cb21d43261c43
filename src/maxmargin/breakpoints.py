"""Follow a soft margin along C, one breakpoint to the next: Hastie, Rosset, Tibshirani & Zhu 2004.

Between two C at which a sample changes its place, the samples on the margin stay on it and those at
a bound stay there, so β and b are linear in C. With E the samples on the margin, L those at their
bound and w the weights,

    K_EE β_E + b 1 = y_E − C K_EL (w y)_L        1ᵀβ_E = −C 1ᵀ(w y)_L
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DegenerateError", "Place", "follow"]

Floats = NDArray[np.float64]

_OUT, _MARGIN, _BOUND = 0, 1, 2  # α = 0, 0 < α < C w, α = C w
_SAME = 1e-12  # of C: two samples change their place together
_WAITS = 50  # changes without a step, more than samples that coincide could need


class DegenerateError(ArithmeticError):
    """Rounding hides which sample comes next."""


@dataclass(frozen=True)
class Place:
    """A point of the path: β and b at this C."""

    C: float
    beta: Floats
    b: float


def follow(K: Floats, y: Floats, w: Floats, beta: Floats, C: float, end: float) -> Iterator[Place]:
    """Yield the solutions at C, at every breakpoint after it, and at ``end``.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive definite.
    y : ndarray of shape (n,)
        -1 and 1.
    w : ndarray of shape (n,)
        Positive weights: 0 <= α <= C w.
    beta : ndarray of shape (n,)
        y α, the solution at C.
    C, end : float

    Examples
    --------
    >>> y = np.array([1.0, -1.0])
    >>> places = list(follow(np.eye(2), y, np.ones(2), 0.5 * y, 0.5, 2.0))
    >>> [(p.C, p.beta.tolist()) for p in places]
    [(0.5, [0.5, -0.5]), (1.0, [1.0, -1.0]), (2.0, [1.0, -1.0])]
    """
    alpha, hair = y * beta, 1e-9 * C * w
    state = np.where(alpha <= hair, _OUT, np.where(alpha >= C * w - hair, _BOUND, _MARGIN))
    walk = _Walk(K, y, w, state, C)
    walk.settle()
    yield walk.place()
    if not end > C:
        return
    waits = 0
    while end > C:
        change, step = walk.next_change(end - C)
        waits = waits + 1 if step <= _SAME * C else 0
        if waits > _WAITS:
            raise DegenerateError(f"at C={C:g} samples keep changing their places")
        C = walk.C = min(C + step, end)
        walk.apply(change)
        if change and end > C and waits == 0:
            yield walk.place()
    yield walk.place()


class _Walk:
    """Where the path stands: who is on the margin, who at a bound."""

    def __init__(self, K: Floats, y: Floats, w: Floats, state: NDArray[np.int64], C: float) -> None:
        self.K, self.y, self.w, self.state, self.C = K, y, w, state, C
        self.beta, self.b = np.zeros_like(y), 0.0
        self.last: tuple[int, ...] = ()  # who has just changed

    def place(self) -> Place:
        return Place(float(self.C), self.beta.copy(), float(self.b))

    def _solve(self, right: Floats, total: float) -> tuple[Floats, float]:
        """Solve for x and b of K_EE x + b = right, with the sum of x."""
        E = np.flatnonzero(self.state == _MARGIN)
        size = len(E)
        A = np.ones((size + 1, size + 1))
        A[:size, :size] = self.K[np.ix_(E, E)]
        A[size, size] = 0.0
        x = np.linalg.solve(A, np.append(right[E], total))
        return x[:size], float(x[size])

    def settle(self) -> None:
        """β and b at this C, from the places alone: nothing adds up along the path."""
        bound = self.C * np.where(self.state == _BOUND, self.w * self.y, 0.0)
        self.beta = bound
        if (self.state == _MARGIN).any():
            x, self.b = self._solve(self.y - self.K @ bound, -float(bound.sum()))
            self.beta = bound.copy()
            self.beta[self.state == _MARGIN] = x
        else:
            low, high = self._interval()
            wishes = (self.y - self.K @ bound)[low], (self.y - self.K @ bound)[high]
            self.b = 0.5 * (float(wishes[0].max()) + float(wishes[1].min()))

    def _interval(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Who holds b from below, and who from above."""
        rising = (self.state == _OUT) == (self.y > 0)
        return np.flatnonzero(rising), np.flatnonzero(~rising)

    def next_change(self, most: float) -> tuple[list[tuple[int, int]], float]:
        """Which samples change their places next (and to what), and how far on."""
        on = self.state == _MARGIN
        drive = np.where(self.state == _BOUND, self.w * self.y, 0.0)
        if not on.any():
            return self._closing(drive, most)
        slope, db = self._solve(-(self.K @ drive), -float(drive.sum()))
        drive[on] = slope
        f, df = self.K @ self.beta + self.b, self.K @ drive + db
        alpha, dalpha = self.y * self.beta, self.y * drive
        steps, target = np.full(len(f), np.inf), np.full(len(f), _MARGIN)
        self._leaving(alpha, dalpha, on, steps, target)
        m, dm = self.y * f, self.y * df
        for place, sign in ((_OUT, 1.0), (_BOUND, -1.0)):
            closer = (self.state == place) & (sign * dm < -1e-14 * (1 + np.abs(dm)))
            far = np.maximum(sign * (m - 1.0), 0.0)
            steps[closer] = far[closer] / np.abs(dm[closer])
        for k in self.last:  # it stands at its change: going back at once is rounding
            if steps[k] <= _SAME * self.C:
                steps[k] = np.inf
        step = float(steps.min())
        if not step < most:
            return [], most
        k = int(steps.argmin())
        return [(k, int(target[k]))], step

    def _leaving(
        self, alpha: Floats, dalpha: Floats, on: NDArray[np.bool_], steps: Floats,
        target: NDArray[np.int64],
    ) -> None:  # fmt: skip
        room = np.maximum(self.C * self.w - alpha, 0.0)
        falls, rises = on & (dalpha < 0), on & (dalpha > self.w)
        steps[falls] = np.maximum(alpha[falls], 0.0) / -dalpha[falls]
        steps[rises] = room[rises] / (dalpha - self.w)[rises]
        target[falls], target[rises] = _OUT, _BOUND

    def _closing(self, drive: Floats, most: float) -> tuple[list[tuple[int, int]], float]:
        """Nobody is on the margin: b is free in an interval, until its two ends meet."""
        wish, change = self.y - self.K @ self.beta, -(self.K @ drive)
        low, high = self._interval()
        apart = wish[high][None, :] - wish[low][:, None]
        closing = change[low][:, None] - change[high][None, :]
        steps = np.full(apart.shape, np.inf)
        np.divide(np.maximum(apart, 0.0), closing, out=steps, where=closing > 0)
        i, j = np.unravel_index(int(steps.argmin()), steps.shape)
        if not steps[i, j] < most:
            return [], most
        return [(int(low[i]), _MARGIN), (int(high[j]), _MARGIN)], float(steps[i, j])

    def apply(self, change: list[tuple[int, int]]) -> None:
        for k, place in change:
            self.state[k] = place
        self.last = tuple(k for k, _ in change)
        self.settle()
