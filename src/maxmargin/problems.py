"""Every SVM dual of the notes as one quadratic program in signed variables β_i = y_i α_i.

    minimise   ½ βᵀKβ + ½ Σ D_k β_k² − sᵀβ
    subject to l ≤ β ≤ u,   Σ_{k in group g} β_k = m_g   for each group g

A formulation is only data for it: the functions below are DESIGN's table, one row each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core

if TYPE_CHECKING:
    from maxmargin.grams import Gram

__all__ = [
    "Problem",
    "crammer_singer",
    "hard_margin",
    "least_squares",
    "nu_svc",
    "nu_svr",
    "one_class",
    "soft_margin",
    "squared_hinge",
    "svdd",
    "svr",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Weights = ArrayLike | None

# Two sums that agree to this, relative to their terms, are equal; to this, they have drifted.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
DRIFT = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem:
    """One QP over a Gram: what solvers solve and certificates prove.

    Parameters
    ----------
    name : str
        The formulation, for example ``"soft_margin"``.
    gram : Gram
        The kernel matrix of the samples, entries on demand.
    s, l, u, D : ndarray of shape (n_variables,)
        Linear term, bounds (may be infinite) and added diagonal.
    row : ndarray of int64 of shape (n_variables,)
        The sample of each variable; SVR has two variables on one row.
    group : ndarray of int64 of shape (n_variables,)
        The group of each variable, -1 for none. No group is empty.
    m : ndarray of shape (n_groups,)
        The sum each group must have.
    C : ndarray of shape (n_samples,)
        The price of each sample's slack, weights included; 0 takes the sample out.
    y, z : ndarray of shape (n_samples,), optional
        Labels ±1, or regression targets.
    epsilon, nu : float, optional
        As given, where the formulation has them.
    scale : float
        Primal and dual are reported times this (2 for SVDD and for N3's w·w + C Σξ).
    block : ndarray of int64 of shape (n_variables,), optional
        K counts only between variables of one block: each block has its own w = Σ β_i φ(x_i). None
        is a single block.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> problem = soft_margin(Linear().gram([[0.0], [1.0], [2.0]]), [-1, 1, 1], C=2.0)
    >>> problem
    <soft_margin: 3 samples, 3 variables>
    >>> problem.l, problem.u
    (array([-2.,  0.,  0.]), array([0., 2., 2.]))
    >>> problem.project([-3.0, 1.0, 1.0])  # the nearest point with Σβ = 0 in the box
    array([-2.,  1.,  1.])
    """

    name: str
    gram: Gram
    s: Floats
    l: Floats  # noqa: E741
    u: Floats
    D: Floats
    row: Ints
    group: Ints
    m: Floats
    C: Floats
    y: Floats | None = None
    z: Floats | None = None
    epsilon: float | None = None
    nu: float | None = None
    scale: float = 1.0
    block: Ints | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.gram.n} samples, {self.n_variables} variables>"

    @property
    def n_variables(self) -> int:
        """Number of variables β_k."""
        return len(self.s)

    @property
    def n_groups(self) -> int:
        """Number of equality constraints."""
        return len(self.m)

    @cached_property
    def n_blocks(self) -> int:
        """Number of blocks, 1 where no variable has one."""
        return 1 if self.block is None else int(self.block.max()) + 1

    @cached_property
    def _one_each(self) -> bool:
        """Whether variable k is that of sample k, as in classification."""
        each = self.block is None and len(self.row) == self.gram.n
        return each and np.array_equal(self.row, np.arange(self.gram.n))

    @cached_property
    def constraints(self) -> _core.Constraints:
        """All but the Gram, as the core reads it."""
        return _core.Constraints(self.s, self.l, self.u, self.D, self.group, self.m, ROUNDING)

    @cached_property
    def bounded(self) -> bool:
        """Whether every bound is finite."""
        return bool(np.isfinite(self.l).all() and np.isfinite(self.u).all())

    @cached_property
    def _members(self) -> tuple[Ints, Ints]:
        """The grouped variables sorted by group, and where each group starts among them."""
        order = np.argsort(self.group, kind="stable")
        order = order[np.searchsorted(self.group[order], 0) :]
        return order, np.searchsorted(self.group[order], np.arange(self.n_groups))

    def by_row(self, beta: Floats) -> Floats:
        """Sum the variables of each sample: its coefficient in w = Σ β_i φ(x_i).

        With blocks in that of each block, shape (n_samples, n_blocks).
        """
        if self._one_each:
            return beta
        if self.block is None:
            sums = np.bincount(self.row, weights=beta, minlength=self.gram.n)
            return np.asarray(sums, dtype=np.float64)
        cells = self.row * self.n_blocks + self.block
        sums = np.bincount(cells, weights=beta, minlength=self.gram.n * self.n_blocks)
        return np.asarray(sums, dtype=np.float64).reshape(self.gram.n, self.n_blocks)

    def by_variable(self, values: Floats) -> Floats:
        """Give each variable the value of its sample, and of its block: the transpose of by_row."""
        if self._one_each:
            return values
        at = self.row if self.block is None else (self.row, self.block)
        picked: Floats = values[at]
        return picked

    def kbeta(self, beta: Floats) -> Floats:
        """Compute (Kβ)_k, without the diagonal D, for each variable."""
        return self.by_variable(self.gram.matvec(self.by_row(beta)))

    def lift(self, coef: ArrayLike) -> Floats:
        """Find the β whose variables sum to these coefficients per sample: `by_row` undone.

        In regression a positive coefficient belongs to the variable that pushes up.
        """
        shape = (self.gram.n,) if self.block is None else (self.gram.n, -1)
        values = self.by_variable(np.asarray(coef, dtype=np.float64).reshape(shape))
        if self.z is not None and self.n_variables > self.gram.n:  # two variables on each row
            values = np.where(self.u > 0, np.maximum(values, 0.0), np.minimum(values, 0.0))
        if self.name == "nu_svr":
            values[: self.gram.n] += (both := self.common(values))
            values[self.gram.n :] -= both
        return self.settle(values)

    def common(self, beta: Floats) -> Floats:
        """Find what the α and α* of a ν-regression have in common: β holds their difference.

        The sums of both halves are known; what is missing goes where there is room, in order.
        """
        rise, fall = np.split(np.abs(beta), 2)
        missing = float(self.m[0]) - max(float(rise.sum()), float(fall.sum()))
        room = np.maximum(self.C - np.maximum(rise, fall), 0.0)
        if missing <= DRIFT * float(self.m[0]):
            return np.zeros_like(room)
        hidden: Floats = np.clip(missing - (np.cumsum(room) - room), 0.0, room)
        return hidden

    def without(self, rows: Ints) -> Problem:
        """Return the same problem with these samples of no weight: one fold of several."""
        out = np.zeros(self.gram.n, dtype=bool)
        out[rows] = True
        gone = out[self.row]
        C, lower, upper = (
            np.where(out, 0.0, self.C),
            np.where(gone, 0.0, self.l),
            np.where(gone, 0.0, self.u),
        )
        m = self.m
        if m.any():  # shares of the whole weight, as far as the bounds allow
            share = float(C.sum() / self.C.sum())
            if self.name == "svdd" and self.nu is not None:
                C, lower, upper = C / share, lower / share, upper / share
            else:
                order, starts = self._members
                least, most = (np.add.reduceat(ends[order], starts) for ends in (lower, upper))
                m = np.clip(m * share, least, most)
                m = np.copysign(np.abs(m).min(), m) if self.name == "nu_svc" else m
        return replace(self, l=lower, u=upper, C=C, m=m)

    def rescaled(self, beta: Floats) -> Floats:
        """Multiply each group so that its sum is m, where that is not 0; the box may be left."""
        order, starts = self._members
        if not self.m.any():
            return beta
        sums = np.add.reduceat(beta[order], starts)
        factors = np.divide(self.m, sums, out=np.ones_like(sums), where=self.m * sums > 0)
        scaled: Floats = beta * np.append(factors, 1.0)[self.group]
        return scaled

    def settle(self, beta: Floats, near: float = 1e-9) -> Floats:
        """Put what arithmetic has moved off a bound, relatively by at most ``near``, back on it."""
        for bound in (self.l, self.u):
            close = np.isfinite(bound) & (np.abs(beta - bound) <= near * np.abs(bound))
            beta = np.where(close, bound, beta)
        return beta

    def swept(self, beta: Floats) -> Floats:
        """Put on its bound what rounding alone holds off it.

        A speck of 1e-16 is no free variable: it would bind the multiplier of its group, which
        without it may be anywhere in an interval.
        """
        size = np.abs(beta)
        speck = ROUNDING * float(size.max(initial=0.0))
        off = np.minimum(beta - self.l, self.u - beta)
        specks = (off > 0) & (off <= speck)
        if not specks.any():
            return beta
        root = np.sqrt(np.abs(self.gram.diag[self.row]))
        specks &= speck * root <= ROUNDING * float((size * root).max())
        near = np.where(beta - self.l <= self.u - beta, self.l, self.u)
        clean: Floats = np.where(specks, near, beta)
        return beta if self._imbalance(clean).any() else clean

    def length(self, beta: Floats) -> float:
        """Sum the lengths of the β_k φ(x_k): at least ‖w‖, and what the rounding of w goes by."""
        return float((np.abs(beta) * self.lengths).sum())

    @cached_property
    def lengths(self) -> Floats:
        """The length of each variable's φ(x_k)."""
        return np.asarray(np.sqrt(np.abs(self.gram.diag[self.row])))

    @cached_property
    def longest(self) -> float:
        """The largest |K_ii|."""
        return float(np.abs(self.gram.diag).max(initial=0.0))

    def spread(self, lam: Floats) -> Floats:
        """Give each variable its group's multiplier, 0 where it has no group."""
        return np.append(lam, 0.0)[self.group]

    def multipliers(self, c: Floats) -> Floats:
        """Minimise m_g λ_g + Σ_k φ_k(c_k − λ_g) exactly over the λ_g of each group.

        φ_k(r) is the maximum over l_k ≤ t ≤ u_k of r t − ½ D_k t². A flat interval gives its
        midpoint, a half-line its finite end. Where D = 0 and a bound is infinite, λ keeps
        c − λ off that side; contradicting demands of one group give the middle between them.
        """
        return self.constraints.multipliers(c)

    def _imbalance(self, beta: Floats) -> Floats:
        """How far each group sum is from m, 0 where that is rounding."""
        order, starts = self._members
        if not len(starts):
            return np.zeros(0)
        off = self.m - np.add.reduceat(beta[order], starts)
        size = np.add.reduceat(np.abs(beta[order]), starts) + np.abs(self.m)
        return np.where(np.abs(off) <= ROUNDING * size, 0.0, off)

    def _of(self, g: int) -> Ints:
        """The variables of one group."""
        order, starts = self._members
        return order[starts[g] : starts[g + 1] if g + 1 < len(starts) else None]

    def start(self) -> Floats:
        """Make a sparse feasible point: 0 moved into the box, then filled in index order."""
        beta = np.minimum(np.maximum(0.0, self.l), self.u)
        if self.constraints.feasible(beta):
            return beta
        missing = self._imbalance(beta)
        for g in np.flatnonzero(missing).tolist():
            k, end = self._of(g), self.u if missing[g] > 0 else self.l
            room = np.minimum(np.abs(end[k] - beta[k]), abs(missing[g]))
            short = np.cumsum(room) < (1 - ROUNDING) * abs(missing[g])
            last = min(int(short.sum()), len(k) - 1)
            beta[k[:last]] = end[k[:last]]
            beta[k[last]] += self.m[g] - beta[k].sum()
        feasible: Floats = np.clip(beta, self.l, self.u)
        return feasible

    def project(self, beta: ArrayLike) -> Floats:
        """Find the nearest feasible point in the Euclidean norm.

        A point that is feasible, its group sums to rounding, comes back unchanged. One that has
        only drifted (relative 1e-9) is put right in one free variable per group, so that what
        stands at a bound stays there.
        """
        point = np.array(beta, dtype=np.float64)
        if point.shape != self.s.shape or not np.isfinite(point).all():
            raise ValueError(
                f"beta must be {self.n_variables} finite numbers; got shape {point.shape}"
                + ("." if np.isfinite(point).all() else " with NaN or infinity.")
            )
        if self.constraints.feasible(point):
            return point
        near = np.clip(point, self.l, self.u)
        if np.abs(near - point).max() <= DRIFT * np.abs(point).max():
            missing = self._imbalance(near)
            if not missing.any():
                return near
            self._rebalance(near, missing)
            if not self._imbalance(near).any():
                return near
        ones = np.ones_like(point)
        for _ in range(4):  # the first pass is exact; the others clear the rounding it leaves
            low, high = self.constraints.best_multipliers(point, ones)
            # On a half-line all variables are at their bounds; far out, exactly so.
            lam = np.where(np.isinf(low), low, high)
            lam = np.where(np.isinf(lam), lam, 0.5 * (low + lam))
            point = np.clip(point - self.spread(lam), self.l, self.u)
            if not self._imbalance(point).any():
                break
        return point

    def _rebalance(self, beta: Floats, missing: Floats) -> None:
        """Put each small imbalance on the variable of its group with the most room.

        In a small group that may be none: all variables are a hair off their bounds, by the
        rounding of the larger values they had before. Then they go back to these one by one.
        """
        for g in np.flatnonzero(missing).tolist():
            k, off = self._of(g), float(missing[g])
            room = np.minimum(self.u[k] - beta[k], beta[k] - self.l[k])
            if abs(off) <= min(DRIFT * float(np.abs(beta[k]).sum()), float(room.max())):
                beta[k[np.argmax(room)]] += off
            elif abs(off) <= self._rounding(k):
                for j in k[np.argsort(-room)][: np.count_nonzero(room)].tolist():
                    old, new = float(beta[j]), float(self.u[j] if off > 0 else self.l[j])
                    beta[j] = new if abs(new - old) <= abs(off) else old + off
                    off -= float(beta[j]) - old

    def _rounding(self, k: Ints) -> float:
        """What the rounding of many steps may add up to in these variables."""
        ends = np.concatenate([self.l[k], self.u[k]])
        return 1e-3 * DRIFT * float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0))

    def parameters(self, lam: Floats, beta: Floats) -> dict[str, float]:
        """Name what the multipliers mean: b; b, eta; b, epsilon; rho; R2; or nothing."""
        if self.name == "crammer_singer":  # one per sample
            return {}
        first, *others = map(float, lam) if len(lam) else (0.0,)
        if self.name == "nu_svc":  # N4, with b = minus its b: w·u + b = η, w·v + b = −η
            return {"b": (first + others[0]) / 2, "eta": (others[0] - first) / 2}
        if self.name == "nu_svr":
            return {"b": (first + others[0]) / 2, "epsilon": (first - others[0]) / 2}
        if self.name == "one_class":
            return {"rho": -first}
        if self.name == "svdd":
            return {"R2": float((beta * self.kbeta(beta)).sum()) + 2 * first}
        return {"b": first}

    def has_margin(self, beta: Floats, primal: float) -> bool:
        """Tell whether a ν-SVC's certified primal value proves that the optimum has w ≠ 0, η > 0.

        w = 0, η = 0 has primal value 0, so a value below 0 is a proof; where the reduced hulls
        of the classes meet there is none.
        """
        return primal < -ROUNDING * self.length(beta) ** 2

    def unit_margin(self, beta: Floats, lam: Floats, primal: float) -> tuple[Floats, float]:
        """Divide a ν-SVC by η: coefficients and intercept as scikit-learn has them.

        Raises
        ------
        ValueError
            If no positive margin is proven (see `has_margin`): β/η would mean nothing.
        """
        if not self.has_margin(beta, primal):
            raise ValueError(
                f"nu={self.nu:g} is too small for these data: w = 0, eta = 0 is as good as the "
                "solution found, so there is no margin to divide by (the reduced convex hulls of "
                "the classes meet, N4); raise nu, or lower tol if the solver stopped early."
            )
        found = self.parameters(lam, beta)
        return beta / found["eta"], found["b"] / found["eta"]

    def margin_divided_by(self, coef: Floats) -> float:
        """Find the η by which a ν-SVC was divided, if by any: Σα is ν Σw again."""
        total = float(np.abs(coef).sum())
        return float(np.abs(self.m).sum()) / total if total > 0 else 1.0


def hard_margin(
    gram: Gram, y: ArrayLike, *, sample_weight: Weights = None, bias: bool = True
) -> Problem:
    r"""Separate two classes without error.

    Parameters
    ----------
    gram : Gram
    y : array-like of shape (n_samples,), each -1 or +1
    sample_weight : array-like of shape (n_samples,), optional
        Only zero or not matters: a row of weight 0 is left out.
    bias : bool
        Whether the hyperplane may miss the origin.

    Notes
    -----
    N0 eq. (5) and its dual (56); without a solution unless the classes are separable.

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 \quad\text{s.t.}\quad y_i (w \cdot \phi(x_i) + b) \ge 1

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> hard_margin(RBF(gamma=1.0).gram([[0.0], [1.0], [3.0]]), [1, 1, -1]).u
    array([inf, inf, 0.])
    """
    y, w = _labels(gram, y, sample_weight, both=bias)
    C = np.where(w > 0, np.inf, 0.0)
    return _assemble("hard_margin", gram, y, *_signed(y, C), C=C, bias=bias, y=y)


def soft_margin(
    gram: Gram,
    y: ArrayLike,
    *,
    C: ArrayLike = 1.0,
    scaling: str = "sum",
    sample_weight: Weights = None,
    bias: bool = True,
) -> Problem:
    r"""Separate two classes, each error at a price.

    Parameters
    ----------
    gram : Gram
    y : array-like of shape (n_samples,), each -1 or +1
    C : float or array-like of shape (n_samples,)
        Price of slack; infinity forbids it.
    scaling : {"sum", "mean", "doubled"}
        What C multiplies: Σξ (N0 eq. (62)); the mean of ξ (N2, C/n); or Σξ beside w·w without
        its ½ (N3: the same machine as "sum" with C/2, all values doubled).
    sample_weight : array-like of shape (n_samples,), optional
        Multiplies C per sample; in "mean" it is divided by its sum.
    bias : bool
        Whether the hyperplane may miss the origin.

    Notes
    -----
    N0 eq. (62) and its dual (70), with :math:`C_i = C w_i`:

    .. math:: \min_{w, b, \xi} \tfrac12 \|w\|^2 + \sum_i C_i \xi_i \quad\text{s.t.}\quad
              y_i (w \cdot \phi(x_i) + b) \ge 1 - \xi_i,\ \xi_i \ge 0

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> p = soft_margin(RBF(gamma=1.0).gram([[0.0], [1.0], [3.0]]), [1, 1, -1], C=10.0)
    >>> p.l, p.u
    (array([ 0., 0., -10.]), array([10., 10., 0.]))
    """
    if scaling not in ("sum", "mean", "doubled"):
        raise ValueError(f"scaling={scaling!r} is not one of 'sum', 'mean', 'doubled'.")
    y, w = _labels(gram, y, sample_weight, both=bias)
    price = _price(gram, C, infinite=True)
    if scaling == "mean":
        w = w / w.sum()
    C = np.multiply(price, w if scaling != "doubled" else w / 2, out=np.zeros(len(w)), where=w > 0)
    scale = 2.0 if scaling == "doubled" else 1.0
    return _assemble("soft_margin", gram, y, *_signed(y, C), C=C, bias=bias, y=y, scale=scale)


def squared_hinge(
    gram: Gram,
    y: ArrayLike,
    *,
    C: ArrayLike = 1.0,
    sample_weight: Weights = None,
    bias: bool = True,
) -> Problem:
    r"""Separate two classes, the square of each error at a price.

    Parameters
    ----------
    gram : Gram
    y : array-like of shape (n_samples,), each -1 or +1
    C : float or array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), optional
    bias : bool

    Notes
    -----
    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + \sum_i C_i \max(0, 1 - y_i (w \cdot \phi(x_i) + b))^2

    Its dual has no upper bound and :math:`D_i = 1 / (2 C_i)` on the diagonal.

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> squared_hinge(RBF(gamma=1.0).gram([[0.0], [1.0], [3.0]]), [1, 1, -1], C=2.0).D
    array([0.25, 0.25, 0.25])
    """
    y, w = _labels(gram, y, sample_weight, both=bias)
    C = _price(gram, C) * w
    D = np.divide(0.5, C, out=np.zeros_like(C), where=C > 0)
    bounds = _signed(y, np.where(C > 0, np.inf, 0.0))
    return _assemble("squared_hinge", gram, y, *bounds, C=C, bias=bias, y=y, D=D)


def nu_svc(
    gram: Gram,
    y: ArrayLike,
    *,
    nu: float | None = None,
    K_m: float | None = None,
    K_s: float | None = None,
    sample_weight: Weights = None,
) -> Problem:
    r"""Separate two classes with at most a fraction ν of margin failures.

    Parameters
    ----------
    gram : Gram
    y : array-like of shape (n_samples,), each -1 or +1
    nu : float in (0, 1]
        Means K_s = 1 and K_m = ν Σw (LIBSVM's scaling).
    K_m, K_s : float
        N4's prices of the margin η and of slack, in place of ``nu``.
    sample_weight : array-like of shape (n_samples,), optional

    Notes
    -----
    N4's (SVM_s2'); its b is minus ours. It exists if K_m ≤ 2 K_s min(Σ₊w, Σ₋w).

    .. math:: \min \tfrac12 \|w\|^2 - K_m \eta + K_s \sum_i w_i \xi_i \quad\text{s.t.}\quad
              y_i (w \cdot \phi(x_i) + b) \ge \eta - \xi_i,\ \xi_i \ge 0,\ \eta \ge 0

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> nu_svc(RBF(gamma=1.0).gram([[0.0], [1.0], [2.0], [3.0]]), [1, 1, -1, -1], nu=0.5).m
    array([ 1., -1.])
    """
    y, w = _labels(gram, y, sample_weight, both=True)
    if (nu is None) == (K_m is None) or (K_m is None) != (K_s is None):
        raise ValueError("nu_svc needs either nu, or both K_m and K_s.")
    if K_m is not None and K_s is not None:
        K_m, K_s = _positive("K_m", K_m), _positive("K_s", K_s)
        asked, name, unit = K_m, "K_m", K_s
        nu = K_m / (K_s * w.sum())
    else:
        asked, name, unit, K_s = _fraction(nu), "nu", 1 / w.sum(), 1.0
        K_m = asked * w.sum()
    weights = float(w[y > 0].sum()), float(w[y < 0].sum())
    most, largest = 2 * min(weights) * unit, largest_nu(*weights)
    if asked > most * (1 + ROUNDING):
        counts = [f"{v:g}" for v in weights]
        kind = "samples" if (w == 1).all() else "weight"
        raise ValueError(
            f"{name}={asked:g} is infeasible: with {counts[0]} positive and {counts[1]} negative "
            f"{kind} {name} must be at most {round_down(most)} (N4, existence condition)"
            + ("." if name == "nu" else f": nu = K_m / (K_s n) at most {round_down(largest)}.")
        )
    C, half = K_s * w, min(K_m / 2, K_s * min(weights))
    group = (y < 0).astype(np.int64)
    return _assemble(
        "nu_svc", gram, 0 * y, *_signed(y, C), C=C, y=y, group=group, m=[half, -half], nu=nu
    )


def largest_nu(a: float, b: float) -> float:
    """Return the largest ν for which a ν-SVC exists, from the weights of its two classes (N4)."""
    return 2 * min(a, b) / (a + b)


def svr(
    gram: Gram,
    z: ArrayLike,
    *,
    C: ArrayLike = 1.0,
    epsilon: float = 0.1,
    sample_weight: Weights = None,
    bias: bool = True,
) -> Problem:
    r"""Fit targets within a tube of half-width ε, each excess at a price.

    Parameters
    ----------
    gram : Gram
    z : array-like of shape (n_samples,)
    C : float or array-like of shape (n_samples,)
        Price of what lies outside the tube; infinity forbids it.
    epsilon : float
    sample_weight : array-like of shape (n_samples,), optional
    bias : bool

    Notes
    -----
    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + \sum_i C_i \max(0, |z_i - w \cdot \phi(x_i) - b| - \varepsilon)

    The first n variables push up, the last n push down.

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> svr(RBF(gamma=1.0).gram([[0.0], [1.0]]), [1.0, 3.0], C=1.0, epsilon=0.5).s
    array([0.5, 2.5, 1.5, 3.5])
    """
    z, w = _vector(gram, "z", z), _weights(gram, sample_weight)
    C = np.multiply(_price(gram, C, infinite=True), w, out=np.zeros(len(w)), where=w > 0)
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon={epsilon} must be finite and at least 0.")
    s, zero = np.concatenate([z - epsilon, z + epsilon]), np.zeros_like(C)
    lower, upper = np.concatenate([zero, 0.0 - C]), np.concatenate([C, zero])
    return _assemble("svr", gram, s, lower, upper, C=C, bias=bias, z=z, epsilon=float(epsilon))


def nu_svr(
    gram: Gram, z: ArrayLike, *, C: ArrayLike = 1.0, nu: float = 0.5, sample_weight: Weights = None
) -> Problem:
    r"""Fit targets within the tube that leaves at most a fraction ν outside.

    Parameters
    ----------
    gram : Gram
    z : array-like of shape (n_samples,)
    C : float or array-like of shape (n_samples,)
    nu : float in (0, 1]
    sample_weight : array-like of shape (n_samples,), optional

    Notes
    -----
    .. math:: \min_{w, b, \varepsilon} \tfrac12 \|w\|^2 + \sum_i C_i
              [\nu \varepsilon + \max(0, |z_i - w \cdot \phi(x_i) - b| - \varepsilon)]

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> nu_svr(RBF(gamma=1.0).gram([[0.0], [1.0]]), [1.0, 3.0], C=1.0, nu=0.5).m
    array([ 0.5, -0.5])
    """
    z, C = _vector(gram, "z", z), _price(gram, C) * _weights(gram, sample_weight)
    half, zero = _fraction(nu) * float(C.sum()) / 2, np.zeros_like(C)
    lower, upper = np.concatenate([zero, 0.0 - C]), np.concatenate([C, zero])
    group = np.repeat(np.arange(2), len(z))
    return _assemble(
        "nu_svr", gram, np.tile(z, 2), lower, upper, C=C, z=z, group=group, m=[half, -half], nu=nu
    )


def least_squares(
    gram: Gram,
    z: ArrayLike,
    *,
    C: ArrayLike = 1.0,
    sample_weight: Weights = None,
    bias: bool = True,
    scale: float = 1.0,
) -> Problem:
    r"""Fit targets, the square of each error at a price.

    Parameters
    ----------
    gram : Gram
    z : array-like of shape (n_samples,)
    C : float or array-like of shape (n_samples,)
        Infinity interpolates.
    sample_weight : array-like of shape (n_samples,), optional
    bias : bool
        With it this is the least-squares SVM (Suykens & Vandewalle 1999), without it kernel ridge
        regression with λ = 1 / C (N3).
    scale : float
        Primal and dual are reported times this; 2 / C gives the values of N3.

    Notes
    -----
    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + \tfrac12 \sum_i C_i (z_i - w \cdot \phi(x_i) - b)^2

    Its dual has no bounds and :math:`D_i = 1 / C_i` on the diagonal: a linear system.

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> least_squares(RBF(gamma=1.0).gram([[0.0], [1.0], [3.0]]), [1.0, 2.0, 0.5], C=2.0).D
    array([0.5, 0.5, 0.5])
    """
    z, w = _vector(gram, "z", z), _weights(gram, sample_weight)
    C = np.multiply(_price(gram, C, infinite=True), w, out=np.zeros(len(w)), where=w > 0)
    D = np.divide(1.0, C, out=np.zeros_like(C), where=C > 0)
    free = np.where(C > 0, np.inf, 0.0)
    return _assemble(
        "least_squares",
        gram,
        z,
        0.0 - free,
        free,
        C=C,
        bias=bias,
        z=z,
        epsilon=0.0,
        D=D,
        scale=scale,
    )


def one_class(gram: Gram, *, nu: float = 0.5, sample_weight: Weights = None) -> Problem:
    r"""Separate the data from the origin, at most a fraction ν left behind.

    Parameters
    ----------
    gram : Gram
    nu : float in (0, 1]
    sample_weight : array-like of shape (n_samples,), optional

    Notes
    -----
    .. math:: \min_{w, \rho} \tfrac12 \|w\|^2 - \nu \textstyle\sum_i w_i \rho
              + \sum_i w_i \max(0, \rho - w \cdot \phi(x_i))

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> one_class(RBF(gamma=1.0).gram([[0.0], [1.0], [2.0], [3.0]]), nu=0.25).start()
    array([1., 0., 0., 0.])
    """
    w = _weights(gram, sample_weight)
    m = [_fraction(nu) * float(w.sum())]
    return _assemble("one_class", gram, 0 * w, 0 * w, w, C=w, m=m, nu=nu)


def svdd(
    gram: Gram,
    *,
    nu: float | None = None,
    C: ArrayLike | None = None,
    sample_weight: Weights = None,
) -> Problem:
    r"""Enclose the data in the smallest ball, each point outside at a price.

    Parameters
    ----------
    gram : Gram
    nu : float in (0, 1]
        Means C = 1 / (ν Σw): at most a fraction ν is outside.
    C : float or array-like of shape (n_samples,)
        Price of squared distance outside, in place of ``nu``.
    sample_weight : array-like of shape (n_samples,), optional

    Notes
    -----
    The ball exists if :math:`\sum_i C_i \ge 1`. All values are twice those of the one QP.

    .. math:: \min_{a, R^2} R^2 + \sum_i C_i \max(0, \|\phi(x_i) - a\|^2 - R^2)

    Examples
    --------
    >>> from maxmargin.kernels import RBF
    >>> svdd(RBF(gamma=1.0).gram([[0.0], [1.0], [2.0], [3.0]]), nu=0.5).u
    array([0.5, 0.5, 0.5, 0.5])
    """
    w = _weights(gram, sample_weight)
    if (nu is None) == (C is None):
        raise ValueError("svdd needs either nu or C.")
    price = _price(gram, C) * w if C is not None else w / (_fraction(nu) * w.sum())
    if price.sum() < 1 - ROUNDING:
        raise ValueError(
            f"svdd is infeasible: the sum of C_i is {price.sum():g} and must be at least 1; "
            f"multiply C by {1 / price.sum():g} or more."
        )
    s = 0.5 * np.asarray(gram.diag, dtype=np.float64)
    m = [min(1.0, float(price.sum()))]
    return _assemble("svdd", gram, s, 0 * w, price, C=price, m=m, nu=nu, scale=2.0)


def crammer_singer(
    gram: Gram, y: ArrayLike, *, C: ArrayLike = 1.0, sample_weight: Weights = None
) -> Problem:
    r"""Separate several classes by one machine: the true class must win by a margin of 1.

    Parameters
    ----------
    gram : Gram
    y : array-like of shape (n_samples,), integers 0 .. n_classes - 1
        Every class needs a sample of positive weight.
    C : float or array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,), optional

    Notes
    -----
    Crammer & Singer (2001), without a bias:

    .. math:: \min_w \tfrac12 \sum_k \|w_k\|^2 + \sum_i C_i \max_k
              (1 - \delta_{k y_i} + w_k \cdot \phi(x_i) - w_{y_i} \cdot \phi(x_i))

    With :math:`w_k = \sum_i \beta_{ik} \phi(x_i)` its dual has a block for each class and a group
    for each sample:

    .. math:: \min_\beta \tfrac12 \sum_k \beta_k^\top K \beta_k - \sum_i \beta_{i y_i}
              \quad\text{s.t.}\quad \textstyle\sum_k \beta_{ik} = 0,\
              0 \le \beta_{i y_i} \le C_i,\ -C_i \le \beta_{ik} \le 0\ (k \ne y_i)

    Only :math:`\beta_{ik} \le C_i \delta_{k y_i}` need be said, the other bounds follow with the
    sum. So the multiplier of a sample is any number between the smallest and the second smallest
    of the :math:`\delta_{k y_i} - w_k \cdot \phi(x_i)`. Variables are ordered by class, then by
    sample. For two classes :math:`w_1 - w_0` is the ``soft_margin`` without bias and with 2C, and
    all values are half of its.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.solvers import solve
    >>> problem = crammer_singer(Linear().gram(np.eye(3)), [0, 1, 2])
    >>> solve(problem, tol=1e-9).alpha.round(3)
    array([[ 0.667, -0.333, -0.333],
           [-0.333,  0.667, -0.333],
           [-0.333, -0.333,  0.667]])
    """
    codes, w = _vector(gram, "y", y), _weights(gram, sample_weight)
    present = np.unique(codes[w > 0])
    if not np.array_equal(present, np.arange(len(present))) or not np.isin(codes, present).all():
        raise ValueError(
            "y must be integers 0, 1, .., n_classes - 1, each with a sample of positive weight; "
            f"got {np.unique(codes)[:5]}."
        )
    if len(present) < 2:
        raise ValueError(f"two classes are needed; all {int((w > 0).sum())} samples are of one.")
    C, own, n = _price(gram, C) * w, codes == present[:, None], len(codes)
    return _assemble(
        "crammer_singer",
        gram,
        own.astype(np.float64).ravel(),
        np.where(own, 0.0, 0.0 - C).ravel(),
        np.where(own, C, 0.0).ravel(),
        C=C,
        group=np.tile(np.arange(n), len(present)),
        m=[0.0] * n,
        block=np.repeat(np.arange(len(present)), n),
    )


def _assemble(
    name: str,
    gram: Gram,
    s: Floats,
    lower: Floats,
    upper: Floats,
    *,
    C: Floats,
    bias: bool = True,
    D: Floats | None = None,
    group: Ints | None = None,
    m: list[float] | None = None,
    **rest: Any,
) -> Problem:
    if group is None:
        group = np.zeros(len(s), dtype=np.int64) if bias else np.full(len(s), -1)
    if m is None:
        m = [0.0] if bias else []
    return Problem(
        name=name,
        gram=gram,
        s=s,
        l=lower,
        u=upper,
        D=np.zeros(len(s)) if D is None else D,
        row=np.arange(gram.n) if len(s) == gram.n else np.arange(len(s)) % gram.n,
        group=group,
        m=np.array(m, dtype=np.float64),
        C=C,
        **rest,
    )


def _signed(y: Floats, C: Floats) -> tuple[Floats, Floats]:
    """0 ≤ y_i β_i ≤ C_i as bounds of β."""
    positive = y > 0
    return np.where(positive, 0.0, 0.0 - C), np.where(positive, C, 0.0)


def _check_gram(gram: Gram) -> None:
    if not hasattr(gram, "matvec"):
        raise TypeError(
            f"gram must be a Gram such as kernels.RBF().gram(X), or kernels.Precomputed().gram(K) "
            f"for a matrix K; got {type(gram).__name__}."
        )
    if gram.n == 0:
        raise ValueError("the Gram is empty: at least one sample is needed.")


def _vector(gram: Gram, name: str, values: ArrayLike) -> Floats:
    _check_gram(gram)
    array = np.array(values, dtype=np.float64)
    if array.shape != (gram.n,):
        raise ValueError(f"{name} has shape {array.shape}; expected ({gram.n},), one per sample.")
    if not np.isfinite(array).all():
        at = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; got {array[at]} at row {at}.")
    return array


def _weights(gram: Gram, sample_weight: Weights) -> Floats:
    _check_gram(gram)
    if sample_weight is None:
        return np.ones(gram.n)
    w = _vector(gram, "sample_weight", sample_weight)
    if (w < 0).any() or not (w > 0).any():
        raise ValueError("sample_weight must be at least 0, and positive for some sample.")
    return w


def _labels(
    gram: Gram, y: ArrayLike, sample_weight: Weights, *, both: bool
) -> tuple[Floats, Floats]:
    y, w = _vector(gram, "y", y), _weights(gram, sample_weight)
    if not (np.abs(y) == 1).all():
        raise ValueError(f"labels must be -1 or +1; got {np.unique(y)[:5]}.")
    counted = y if sample_weight is None else y[w > 0]
    if both and (counted == counted[0]).all():
        raise ValueError(
            f"two classes are needed; all {len(counted)} samples of positive weight have label "
            f"{counted[0]:+g}."
        )
    return y, w


def _price(gram: Gram, C: ArrayLike, *, infinite: bool = False) -> Floats:
    price = np.asarray(C, dtype=np.float64)
    if price.shape not in ((), (gram.n,)):
        raise ValueError(f"C has shape {price.shape}; expected a number or ({gram.n},).")
    if not ((price > 0) & (infinite | np.isfinite(price))).all():
        bad = price[~((price > 0) & (infinite | np.isfinite(price)))].flat[0]
        raise ValueError(f"C must be positive{'' if infinite else ' and finite'}; got {bad:g}.")
    return np.full(gram.n, price)


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value} must be positive and finite.")
    return float(value)


def _fraction(nu: float | None) -> float:
    if nu is None or not 0 < nu <= 1:
        raise ValueError(f"nu={nu} must be in (0, 1].")
    return float(nu)


def round_down(value: float) -> str:
    """Six digits that a reader may copy: never above the value."""
    text = f"{value:.6g}"
    if float(text) <= value * (1 + ROUNDING):
        return text
    step = 10.0 ** (math.floor(math.log10(value)) - 5)
    return f"{math.floor(value / step) * step:.6g}"
