"""Read N4's quantities off a solved ν-SVM: b, η, δ, the classes of its points, its dual program.

Our plane is w·x + b = 0; N4 writes w·x − b, so its b is minus ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.geometry import described, interval, norm, states
from maxmargin.problems import ROUNDING, largest_nu
from maxmargin.tables import Table

if TYPE_CHECKING:
    from maxmargin.problems import Problem
    from maxmargin.solvers.solve import Solution

__all__ = ["ClassCount", "NuDual", "NuMargin", "nu_dual", "nu_margin", "signed_points"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Strings = NDArray[np.str_]
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class NuDual:
    r"""N4's dual program of (SVM_s2') at a point (λ, μ): what `nu_dual` returns.

    Parameters
    ----------
    lam, mu : ndarray
        Multipliers of the positive points u and of the negative points v, in their order.
    balance : float
        Σλ − Σμ, to be 0.
    total : float
        Σλ + Σμ, to be at least K_m.
    K_m : float
        The price of the margin η.
    gamma : float
        N4's γ, the multiplier of η ≥ 0: Σλ + Σμ − K_m.
    outside : float
        By how much the box 0 ≤ λ, μ ≤ K_s is left.
    value : float
        ½ (λ; μ)ᵀ XᵀX (λ; μ) = ½‖w‖², to be minimised.

    Examples
    --------
    >>> from maxmargin.datasets import two_sets_of_six
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import nu_svc
    >>> from maxmargin.solvers import solve
    >>> X, y = two_sets_of_six()
    >>> problem = nu_svc(Linear().gram(X), y, nu=0.6)
    >>> dual = nu_dual(problem, solve(problem).alpha)
    >>> round(dual.total, 6), dual.violation < 1e-9
    (7.2, True)
    """

    lam: Floats
    mu: Floats
    balance: float
    total: float
    K_m: float
    gamma: float
    outside: float
    value: float

    @property
    def violation(self) -> float:
        """By how much the constraints are violated at worst."""
        return max(abs(self.balance), -self.gamma, self.outside, 0.0)


class ClassCount(NamedTuple):
    """One class of a ν-SVM: failures ≤ ν(p+q)/2 ≤ support vectors; weights where there are any.

    Examples
    --------
    >>> count = ClassCount(failures=2, bound=3.6, support_vectors=4)
    >>> count.failures <= count.bound <= count.support_vectors
    True
    """

    failures: float
    bound: float
    support_vectors: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NuMargin:
    """N4's quantities of a solved ν-SVM: what `nu_margin` returns.

    Parameters
    ----------
    nu, largest_nu : float
        ν, and the largest ν with a solution: min(2p, 2q) / (p+q).
    K_s : float
        The price of slack; 1 where weights make the prices differ.
    has_margin : bool
        Whether w ≠ 0 and η > 0 are proven. If not, ν is too small for these data.
    b, eta, delta : float or None
        Our b (minus N4's), η and δ = η/‖w‖, averaged over I_λ and I_μ; None without a margin,
        and where the Standard Margin Hypothesis fails.
    eta_minus_b, eta_plus_b : (float, float)
        The intervals of optimal η − b and η + b, with our b (with N4's they change places): what
        w·u and −w·v must reach. Equal ends: determined. An infinite end: a half-line.
    positive, negative : ClassCount
        Margin failures, ν(p+q)/2 and support vectors of each class.
    dual : NuDual
        λ, μ, γ and N4's inequality dual at this point.
    points : Table
        Per training point y, its multiplier (λ or μ), its state (zero, free, bound), its slack (ε
        or ξ; NaN where that is not determined) and its case.

    Examples
    --------
    >>> from maxmargin.datasets import two_sets_of_six
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import nu_svc
    >>> from maxmargin.solvers import solve
    >>> X, y = two_sets_of_six()
    >>> margin = nu_margin(solve(nu_svc(Linear().gram(X), y, nu=0.6)))
    >>> margin.has_margin, margin.largest_nu, margin.positive.failures
    (True, 1.0, 2.0)
    """

    nu: float
    largest_nu: float
    K_s: float
    has_margin: bool
    b: float | None
    eta: float | None
    delta: float | None
    eta_minus_b: Interval
    eta_plus_b: Interval
    positive: ClassCount
    negative: ClassCount
    dual: NuDual
    points: Table

    @property
    def notes_b(self) -> float | None:
        """N4's b: minus ours."""
        return None if self.b is None else 0.0 - self.b

    @property
    def gamma(self) -> float:
        """N4's γ, the multiplier of η ≥ 0."""
        return self.dual.gamma

    @property
    def I_lam(self) -> NDArray[np.int64]:
        """N4's I_λ, as rows of the training data: 0 < λ < K_s."""
        return np.flatnonzero((self.points.state == "free") & (self.points.y > 0))

    @property
    def I_mu(self) -> NDArray[np.int64]:
        """N4's I_μ, as rows of the training data: 0 < μ < K_s."""
        return np.flatnonzero((self.points.state == "free") & (self.points.y < 0))

    @property
    def standard_margin_hypothesis(self) -> bool:
        """Whether neither I_λ nor I_μ is empty."""
        return bool(len(self.I_lam) and len(self.I_mu))

    @property
    def message(self) -> str:
        """The outcome in words."""
        if not self.has_margin:
            return (
                f"nu={self.nu:g} is too small for these data: w = 0, eta = 0 is as good as the "
                "solution found, so there is no margin (the reduced convex hulls of the classes "
                "meet; nu >= 2/(p+q) is necessary for more, not sufficient). Raise nu, at most to "
                f"{self.largest_nu:g}, or lower tol if the solver stopped early."
            )
        counts = " and ".join(
            f"{c.failures:g} <= {c.bound:g} <= {c.support_vectors:g}"
            for c in (self.positive, self.negative)
        )
        counted = f"failures <= nu(p+q)/2 <= support vectors: {counts}"
        if self.b is None or self.eta is None or self.delta is None:
            empty = [
                text
                for text, rows in (("0 < lambda < K_s", self.I_lam), ("0 < mu < K_s", self.I_mu))
                if not len(rows)
            ]
            return (
                f"the Standard Margin Hypothesis fails: no point has {' and none '.join(empty)}, "
                f"so b and eta are not determined: {described('eta - b', self.eta_minus_b)}, "
                f"{described('eta + b', self.eta_plus_b)} (N4's b is minus this b). This is so "
                "whenever nu(p+q)/2 is a whole number; a slightly different nu determines both. "
                f"In the middle of the intervals, {counted}."
            )
        return (
            f"eta={self.eta:g}, b={self.b:g} (N4's b={self.notes_b:g}), delta={self.delta:g}; "
            f"{counted}."
        )

    def __repr__(self) -> str:
        return f"<NuMargin: {self.message}>"


def nu_dual(problem: Problem, alpha: ArrayLike) -> NuDual:
    r"""Evaluate N4's dual program at a point: its constraints, γ and value.

    Parameters
    ----------
    problem : Problem
        Made by `maxmargin.problems.nu_svc`.
    alpha : array-like of shape (n_samples,)
        λ at the positive rows, μ at the negative ones.

    Notes
    -----
    .. math:: \min \tfrac12 (\lambda; \mu)^\top X^\top X (\lambda; \mu) \quad\text{s.t.}\quad
              \textstyle\sum \lambda = \sum \mu,\ \sum \lambda + \sum \mu \ge K_m,\
              0 \le \lambda, \mu \le K_s

    The problem that is solved has Σλ + Σμ = K_m: scaling a feasible point down to that lowers
    the value, so the inequality is tight at some optimum, and at every one if w ≠ 0.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> gram = kernels.Linear().gram([[1.0], [3.0], [-1.0], [-3.0]])
    >>> dual = nu_dual(problems.nu_svc(gram, [1, 1, -1, -1], nu=0.5), [1.0, 0.5, 1.0, 0.5])
    >>> dual.gamma, dual.violation, dual.value
    (1.0, 0.0, 12.5)
    """
    y = _nu_labels(problem)
    point = np.asarray(alpha, dtype=np.float64)
    if point.shape != y.shape:
        raise ValueError(f"alpha has shape {point.shape}; expected {y.shape}, one per sample.")
    lam, mu = point[y > 0], point[y < 0]
    K_m, total = 2 * float(problem.m[0]), float(point.sum())
    gamma = total - K_m
    signed = y * point
    return NuDual(
        lam=lam,
        mu=mu,
        balance=float(lam.sum() - mu.sum()),
        total=total,
        K_m=K_m,
        gamma=0.0 if abs(gamma) <= ROUNDING * len(y) * K_m else gamma,
        outside=float(np.maximum(-point, point - problem.C).max(initial=0.0)) + 0.0,
        value=0.5 * float(signed @ problem.gram.matvec(signed)),
    )


def signed_points(solution: Solution) -> Floats:
    r"""Return N4's matrix X, whose columns are −φ(u_i) and then φ(v_j): :math:`w = -X (λ; μ)`.

    Parameters
    ----------
    solution : Solution
        Of `maxmargin.problems.nu_svc` with a Linear or Polynomial kernel.

    Returns
    -------
    ndarray of shape (n_features_of_w, p + q)

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[1.0], [-3.0], [2.0]])
    >>> signed_points(solve(problems.nu_svc(gram, [1, -1, 1], nu=0.5)))
    array([[-1., -2., -3.]])
    """
    y, gram = _nu_labels(solution.problem), solution.problem.gram
    features = gram.kernel.feature_map(gram.X)
    return np.concatenate([-features[y > 0], features[y < 0]]).T


def nu_margin(solution: Solution, *, tau: float = 1e-3, tol: float = 1e-6) -> NuMargin:
    r"""Compute N4's b, η and δ of a ν-SVM, or say why they are not determined.

    Parameters
    ----------
    solution : Solution
        Of `maxmargin.problems.nu_svc`.
    tau : float
        Slack, in units of η, up to which a point is on its margin; as in the ledger.
    tol : float
        A multiplier this close to a bound, relative to it, is at the bound.

    Returns
    -------
    NuMargin

    Notes
    -----
    With :math:`I_\lambda = \{i : 0 < \lambda_i < K_s\}`, :math:`I_\mu` likewise, and our b:

    .. math:: b = -\tfrac12 w \cdot \Bigl(\operatorname{mean}_{I_\lambda} u_i
              + \operatorname{mean}_{I_\mu} v_j\Bigr), \qquad
              \eta = \tfrac12 w \cdot \Bigl(\operatorname{mean}_{I_\lambda} u_i
              - \operatorname{mean}_{I_\mu} v_j\Bigr)

    Where one of them is empty N4's Standard Margin Hypothesis fails, and KKT only says

    .. math:: \max_{\lambda_i = K_s} w \cdot u_i \le \eta - b \le \min_{\lambda_i = 0} w \cdot u_i,
              \qquad \max_{\mu_j = K_s} -w \cdot v_j \le \eta + b \le \min_{\mu_j = 0} -w \cdot v_j

    The cases by multiplier and slack are those of the ledger: λ = 0 is `outside` (or on the
    margin), 0 < λ < K_s `on margin`, λ = K_s `on margin`, `inside margin` (0 < ε ≤ η) or
    `misclassified` (ε > η); without b a failure is only a `margin failure`.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[1.0], [3.0], [-1.0], [-3.0]])
    >>> found = nu_margin(solve(problems.nu_svc(gram, [1, 1, -1, -1], nu=0.6), tol=1e-9))
    >>> round(found.eta, 6), round(found.delta, 6), found.positive
    (9.6, 3.0, ClassCount(failures=1.0, bound=1.2, support_vectors=2.0))
    """
    problem, y = solution.problem, _nu_labels(solution.problem)
    zero, bound = states(solution, tol)
    state = np.select([zero, bound], ["zero", "bound"], "free")
    free = state == "free"
    height = y * problem.kbeta(solution.beta)  # must reach η − b (points u) or η + b (points v)
    plus, minus = (_threshold(problem, height, state, own) for own in (y > 0, y < 0))
    proven = problem.has_margin(solution.beta, solution.certificate.primal)
    b = eta = delta = None
    if proven and free[y > 0].any() and free[y < 0].any():
        b, eta = (minus[0] - plus[0]) / 2, (minus[0] + plus[0]) / 2
        delta = eta / norm(solution)
    depth = np.where(y > 0, sum(plus) / 2, sum(minus) / 2) - height
    touch = tau * abs(solution.parameters["eta"])
    failed = proven & bound & (depth > touch)
    # Slack is what one threshold leaves; in an interval of them it is not determined.
    known = proven & np.where(y > 0, free[y > 0].any(), free[y < 0].any())
    depth = np.where(known, depth, math.nan)
    K_s, C = _common_price(problem), problem.C
    positive, negative = (
        ClassCount(
            failures=float(C[failed & own].sum()) / K_s,
            bound=abs(float(m)) / K_s,
            support_vectors=float(C[~zero & own].sum()) / K_s,
        )
        for own, m in zip((y > 0, y < 0), problem.m, strict=True)
    )
    columns = {
        "y": y,
        "multiplier": solution.alpha,
        "state": state,
        "slack": np.maximum(0.0, depth),
        "case": _cases(state, depth, eta, touch) if proven else np.full(len(y), "undefined"),
    }
    return NuMargin(
        nu=float(problem.nu or math.nan),
        largest_nu=largest_nu(float(C[y > 0].sum()), float(C[y < 0].sum())),
        K_s=K_s,
        has_margin=proven,
        b=b,
        eta=eta,
        delta=delta,
        eta_minus_b=plus,
        eta_plus_b=minus,
        positive=positive,
        negative=negative,
        dual=nu_dual(problem, solution.alpha),
        points=Table(columns),
    )


def _threshold(problem: Problem, height: Floats, state: Strings, own: Bools) -> Interval:
    """The optimal thresholds of one class: the mean over its free points, else an interval."""
    free = own & (state == "free")
    if free.any():
        mean = float(height[free].mean())
        return mean, mean
    return interval(height, own & (state == "bound"), own & (state == "zero") & (problem.C > 0))


def _cases(state: Strings, depth: Floats, eta: float | None, touch: float) -> Strings:
    """Name each point's class by its multiplier and its depth below the margin (N4)."""
    zero, free, unknown = state == "zero", state == "free", np.isnan(depth)
    names = {
        "outside or on margin": unknown & zero,
        "margin failure or on margin": unknown & ~free,
        "on margin": free | (np.abs(depth) <= touch),
        "outside": depth < 0,
        "margin failure": np.full(len(depth), eta is None),
        "misclassified": depth > (eta or 0.0),
    }
    return np.select(list(names.values()), list(names), "inside margin")


def _common_price(problem: Problem) -> float:
    """K_s; where weights make the prices K_s w_i differ, 1, and sums count prices."""
    paid = problem.C[problem.C > 0]
    return float(paid[0]) if (paid == paid[0]).all() else 1.0


def _nu_labels(problem: Problem) -> Floats:
    if problem.name != "nu_svc" or problem.y is None:
        raise ValueError(f"N4's quantities are those of a nu_svc; got {problem.name}.")
    return problem.y
