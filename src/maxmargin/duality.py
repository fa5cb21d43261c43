"""Duality by hand: Lagrangian, KKT residuals, dual function, saddle points (N0 §3.1, N2).

    minimise f(w)   subject to   g(w) ≥ 0,   h(w) = 0
    L(w, λ, ν) = f(w) − λᵀg(w) − νᵀh(w),   λ ≥ 0

These are N0's signs; for N2's, with the same λ and ν, see `ConstrainedProblem.at_most`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

__all__ = ["KKT", "ConstrainedProblem", "alice_bob", "half_plane", "hyperbola"]

Floats = NDArray[np.float64]
Function = Callable[[Floats], Any]

_FAR = 1e6  # a minimiser of L this far out is none: L is unbounded below


@dataclass(frozen=True)
class KKT:
    """By how much a point violates the KKT conditions N0 (31)-(34); N2 has them with h.

    Examples
    --------
    >>> residuals = half_plane(1.0).kkt([0.5, 0.5], [0.5])  # N0 (22)-(25): w = λ (1, 1)
    >>> residuals.worst
    0.0
    """

    stationarity: float  # N0 (31): ∇f = Σ λ_i ∇g_i + Σ ν_j ∇h_j
    dual_feasibility: float  # N0 (32): λ ≥ 0
    primal_feasibility: float  # N0 (33): g ≥ 0, and h = 0
    complementary_slackness: float  # N0 (34): λ_i g_i = 0

    @property
    def worst(self) -> float:
        """The largest of the four residuals."""
        return float(max(asdict(self).values()))

    def __str__(self) -> str:
        lines = zip((31, 32, 33, 34), asdict(self).items(), strict=True)
        return "\n".join(f"N0 ({tag})  {name:<24}{value:.1e}" for tag, (name, value) in lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedProblem:
    """Minimise f(w) subject to g(w) ≥ 0 and h(w) = 0.

    Parameters
    ----------
    n : int
        Number of variables w.
    f, g, h : callable
        w to a number; to the values of the inequalities; of the equalities (both optional).
    grad_f, grad_g, grad_h : callable, optional
        w to the gradients, one per row; central differences if not given.
    minimiser : callable, optional
        (λ, ν) to the w that minimises L, or to None where L is unbounded below.

    Examples
    --------
    >>> problem = ConstrainedProblem(n=2, f=lambda w: w @ w / 2, g=lambda w: w[0] + w[1] - 1)
    >>> problem.kkt([0.5, 0.5], lam=[0.5]).worst < 1e-9
    True
    """

    n: int
    f: Function
    g: Function = lambda w: np.zeros(0)
    h: Function = lambda w: np.zeros(0)
    grad_f: Function | None = None
    grad_g: Function | None = None
    grad_h: Function | None = None
    minimiser: Callable[[Floats, Floats], Floats | None] | None = None

    @classmethod
    def at_most(cls, **given: Any) -> ConstrainedProblem:
        """Make the problem from N2's form g(w) ≤ 0, h(w) = 0, L = f + λᵀg + νᵀh."""
        turned = {name: given[name] for name in ("g", "h", "grad_g", "grad_h") if given.get(name)}
        return cls(**(given | {name: _minus(part) for name, part in turned.items()}))

    def constraints(self, w: ArrayLike) -> tuple[Floats, Floats]:
        """Return the values of g and of h."""
        return _vector(self.g(_vector(w))), _vector(self.h(_vector(w)))

    def lagrangian(self, w: ArrayLike, lam: ArrayLike = (), nu: ArrayLike = ()) -> float:
        """Return L(w, λ, ν) = f − λᵀg − νᵀh, N0 (26)."""
        g, h = self.constraints(w)
        return float(self.f(_vector(w)) - _row("lam", lam, g) @ g - _row("nu", nu, h) @ h)

    def kkt(self, w: ArrayLike, lam: ArrayLike = (), nu: ArrayLike = ()) -> KKT:
        """Measure the KKT conditions at a point."""
        w, (g, h) = _vector(w), self.constraints(w)
        lam, nu = _row("lam", lam, g), _row("nu", nu, h)
        gradient = _jacobian(self.f, self.grad_f, w)[0] - lam @ _jacobian(self.g, self.grad_g, w)
        gradient = gradient - nu @ _jacobian(self.h, self.grad_h, w)
        primal = max(_largest(-g), _largest(np.abs(h)))
        return KKT(_largest(np.abs(gradient)), _largest(-lam), primal, _largest(np.abs(lam * g)))

    def primal_function(self, w: ArrayLike, *, tol: float = 1e-9) -> float:
        """Return max over λ ≥ 0, ν of L(w, λ, ν): f(w), or ∞ where a constraint fails by > tol."""
        g, h = self.constraints(w)
        fails = max(_largest(-g), _largest(np.abs(h))) > tol
        return np.inf if fails else float(self.f(_vector(w)))

    def dual_function(self, lam: ArrayLike = (), nu: ArrayLike = ()) -> Floats:
        """Return min over w (N0's Figure 5 says max) of L(w, λ, ν) for each row (λ, ν), N0 (27).

        By ``minimiser`` if given, else numerically from nine starts, −∞ where they run away; that
        can miss a slow descent, so give ``minimiser`` where the answer matters.
        """
        g, h = self.constraints(np.ones(self.n))
        lams, nus = _rows("lam", lam, len(g)), _rows("nu", nu, len(h))
        count = max(len(lams), len(nus))
        pairs = zip(*(np.broadcast_to(a, (count, a.shape[1])) for a in (lams, nus)), strict=True)
        return np.array([self._lowest(*pair) for pair in pairs])

    def _lowest(self, lam: Floats, nu: Floats) -> float:
        if self.minimiser is not None:
            w = self.minimiser(lam, nu)
            return -np.inf if w is None else self.lagrangian(w, lam, nu)
        starts = [np.zeros(self.n), *np.random.default_rng(0).normal(size=(8, self.n))]
        box = [(-_FAR, _FAR)] * self.n
        found = [minimize(self.lagrangian, w, (lam, nu), bounds=box) for w in starts]
        best = min(found, key=lambda result: float(result.fun))
        return -np.inf if np.abs(best.x).max() > 0.99 * _FAR else float(best.fun)

    def saddle_violation(self, w: ArrayLike, lam: ArrayLike = (), nu: ArrayLike = ()) -> float:
        """Return by how much L(w, λ', ν') ≤ L(w, λ, ν) ≤ L(w', λ, ν) fails; 0 at a saddle point.

        The worst over 2000 random w' and (λ' ≥ 0, ν'), near and far (N2, saddle point property).
        """
        rng, w, lam, nu = np.random.default_rng(0), _vector(w), _vector(lam), _vector(nu)
        value, worst = self.lagrangian(w, lam, nu), 0.0
        for size in 10.0 ** rng.uniform(-3, 2, size=2000):
            w_, lam_, nu_ = (part + size * rng.normal(size=part.shape) for part in (w, lam, nu))
            left = self.lagrangian(w, np.maximum(lam_, 0.0), nu_) - value
            worst = max(worst, left, value - self.lagrangian(w_, lam, nu))
        return worst

    def weak_duality(self, points: ArrayLike, lam: ArrayLike = (), nu: ArrayLike = ()) -> float:
        """Return the least f(w) − L̃(λ, ν) ≥ 0 over feasible rows w and rows (λ, ν), N0 (28)."""
        if (np.asarray(lam) < 0).any():
            raise ValueError("lam must be at least 0: otherwise L̃ bounds nothing.")
        primal = min(self.primal_function(w) for w in _rows("points", points, self.n))
        return primal - float(self.dual_function(lam, nu).max())


def hyperbola() -> ConstrainedProblem:
    """Make N0's problem (7): the points of w₁ w₂ = 1 nearest to the origin.

    They are ±(1, 1), of norm √2 (N0 says 1), with multiplier 1: N0's λ, here ν. The problem is
    not convex, yet the gap is 0: the dual function is ν for abs(ν) ≤ 1, else −∞.

    >>> hyperbola().kkt([-1, -1], nu=[1]).worst
    0.0
    """
    return _nearest(
        h=lambda w: w[0] * w[1] - 1.0,
        grad_h=lambda w: w[::-1],
        minimiser=lambda lam, nu: np.zeros(2) if abs(nu[0]) <= 1 else None,
    )


def half_plane(c: float) -> ConstrainedProblem:
    """Make N0's problem (13): the point of w₁ + w₂ ≥ c nearest to the origin.

    It is λ (1, 1) with λ = max(0, c/2); the constraint is active for c ≥ 0, which means g = 0 (N0
    says c). The dual function is −λ² + cλ.

    >>> half_plane(1.0).dual_function([0.0, 0.5, 1.0])
    array([0.  , 0.25, 0.  ])
    """
    return _nearest(
        g=lambda w: w[0] + w[1] - c,
        grad_g=lambda w: np.ones((1, 2)),
        minimiser=lambda lam, nu: np.repeat(lam, 2),
    )


def _nearest(**rest: Any) -> ConstrainedProblem:
    return ConstrainedProblem(n=2, f=lambda w: 0.5 * (w @ w), grad_f=lambda w: w, **rest)


def alice_bob(X: ArrayLike, y: ArrayLike) -> ConstrainedProblem:
    r"""Make the game of N0 (47): Alice plays the hyperplane (w, b), Bob the multipliers α ≥ 0.

    ``primal_function([*w, b])`` is L after Bob's best answer: ½‖w‖², or ∞ where a margin is below
    1 (N0 (48): a margin failure, not only a misclassification). ``dual_function(alpha)`` is L
    after Alice's best answer: N0 (55), or −∞ where Σ α_i y_i ≠ 0, since b is free.

    Notes
    -----
    .. math:: \min_{w, b} \max_{\alpha \ge 0}
              \tfrac12 \|w\|^2 - \sum_i \alpha_i (y_i (w \cdot x_i + b) - 1)

    >>> game = alice_bob([[1.0], [-1.0]], [1, -1])
    >>> game.primal_function([0.9, 0.0]), game.primal_function([1.0, 0.0])
    (inf, 0.5)
    """
    points, labels = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    signed = labels[:, None] * np.column_stack([points, np.ones(len(points))])  # rows y (x, 1)

    def alice(alpha: Floats, nu: Floats) -> Floats | None:
        *w, balance = alpha @ signed  # N0 (49), (50)
        return np.array([*w, 0.0]) if abs(balance) <= 1e-9 * np.abs(alpha).sum() else None

    return ConstrainedProblem(
        n=signed.shape[1],
        f=lambda v: 0.5 * (v[:-1] @ v[:-1]),
        g=lambda v: signed @ v - 1.0,
        grad_f=lambda v: np.append(v[:-1], 0.0),
        grad_g=lambda v: signed,
        minimiser=alice,
    )


def _minus(part: Function) -> Function:
    return lambda w: -np.asarray(part(w), dtype=np.float64)


def _vector(values: ArrayLike) -> Floats:
    return np.atleast_1d(np.asarray(values, dtype=np.float64))


def _largest(values: Floats) -> float:
    return float(values.max(initial=0.0))


def _row(name: str, multipliers: ArrayLike, constraints: Floats) -> Floats:
    if (given := _vector(multipliers)).shape != constraints.shape:
        raise ValueError(f"{name} needs {constraints.size} numbers; got shape {given.shape}.")
    return given


def _rows(name: str, values: ArrayLike, width: int) -> Floats:
    given = np.asarray(values, dtype=np.float64)
    if given.size % width if width else given.size:
        raise ValueError(f"{name} needs rows of {width} numbers; got shape {given.shape}.")
    return given.reshape(-1, width) if width else np.zeros((1, 0))


def _jacobian(part: Function, gradient: Function | None, w: Floats) -> Floats:
    """One gradient per row: the given one, or central differences."""
    if gradient is not None:
        return np.atleast_2d(np.asarray(gradient(w), dtype=np.float64))
    steps = np.diag(6e-6 * np.maximum(1.0, np.abs(w)))  # the cube root of the rounding unit
    slopes = [(_vector(part(w + s)) - _vector(part(w - s))) / (2 * s.max()) for s in steps]
    return np.column_stack(slopes)
