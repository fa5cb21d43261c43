"""Prove how good an answer is: primal, dual, gap and KKT violation from the problem alone.

No solver code runs here. For any feasible β and any λ, with r = s − Kβ − λ,

    primal = ½ βᵀKβ + Σ_g m_g λ_g + Σ_k φ_k(r_k)
    dual   = sᵀβ − ½ βᵀKβ − ½ Σ D_k β_k²
    gap    = Σ_k [φ_k(r_k) − r_k β_k + ½ D_k β_k²]

and λ is the best one for this β. On a positive semi-definite K the optimum lies between the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.problems import Problem
from maxmargin.screening import products
from maxmargin.status import Status, verdict
from maxmargin.tables import facts_html

__all__ = [
    "Certificate",
    "Status",
    "certify",
    "combine",
    "infeasibility_proof",
    "margin_bound",
    "margin_resolution",
    "prove",
    "relative",
    "rounding",
    "uncertified",
]

Floats = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
_NOISE = 1e-9  # of the value: rounding that counts as gap


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Certificate:
    """What is proven about a point β of a problem.

    Parameters
    ----------
    primal, dual : float
        Values that enclose the optimum if ``convex`` is True.
    gap : float
        primal − dual, summed from terms that are each at least 0.
    relative_gap : float
        gap / max(abs(primal), abs(dual)); 0 where the gap is 0.
    kkt_violation : float
        LIBSVM's stopping quantity, in units of the gradient of the one QP.
    lam : ndarray of shape (n_groups,)
        The multipliers: the bias and its relatives (see ``Problem.parameters``).
    convex : bool or None
        Whether K is positive semi-definite; None if unknown. Otherwise the gap proves nothing.
    distance : float
        How far β was from the feasible point that is certified.
    status : Status or None
        None: the tolerances asked for do not hold.
    proof : str
        For ``infeasible``: why there is no solution.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> proof = certify(problem, [0.5, -0.5])
    >>> proof
    gap 0.0e+00 optimal
    >>> proof.primal, proof.dual, proof.status == "optimal"
    (0.5, 0.5, True)
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt_violation: float
    lam: Floats
    convex: bool | None
    distance: float
    status: Status | None
    proof: str = ""

    def __repr__(self) -> str:
        return f"gap {self.relative_gap:.1e} {self.status or 'not met'}"  # relative

    def _facts(self) -> dict[str, str]:
        convex = {True: "yes", False: "no: the gap proves nothing", None: "unknown"}
        facts = {
            "status": str(self.status or "tolerance not met"),
            "primal": f"{self.primal:.12g}",
            "dual": f"{self.dual:.12g}",
            "gap": f"{self.gap:.3g}",
            "relative gap": f"{self.relative_gap:.3g}",
            "KKT violation": f"{self.kkt_violation:.4g}",
            "multipliers": ", ".join(f"{v:.8g}" for v in self.lam[:4])
            + (", ..." if len(self.lam) > 4 else ""),
            "convex": convex[self.convex],
            "distance": f"{self.distance:.3g}",
            "proof": self.proof,
        }
        return {name: text for name, text in facts.items() if text}

    def __str__(self) -> str:
        return "\n".join(f"{name:<14}{text}" for name, text in self._facts().items())

    def _repr_html_(self) -> str:
        return facts_html("", self._facts())


def certify(
    problem: Problem,
    beta: ArrayLike,
    *,
    tol: float = 1e-3,
    gap_tol: float | None = None,
    status: Status | str | None = None,
) -> Certificate:
    """Compute the certificate of β in float64, from the problem alone.

    Parameters
    ----------
    problem : Problem
    beta : array-like of shape (n_variables,)
        Projected onto the feasible set first, if it is not in it.
    tol : float
        The KKT violation up to which the point counts as solved.
    gap_tol : float, optional
        The relative gap that is asked for as well.
    status : Status or str, optional
        How the solver ended. None: decided by the tolerances. ``optimal`` becomes
        ``stationary`` where K is not known to be positive semi-definite, and
        ``precision_limit`` where the tolerances do not hold or rounding of Kβ alone exceeds
        ``tol`` (and 1e-6); ``precision_limit`` becomes ``optimal`` where they do hold.

    Returns
    -------
    Certificate

    Examples
    --------
    Two points at distance 2: w = 1, b = 0, both α = ½ (N0 eq. (56)).

    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> certify(problem, [0.5, -0.5])
    gap 0.0e+00 optimal
    """
    own = getattr(problem, "certificate", None)
    if own is not None:  # not the one QP
        proof: Certificate = own(beta, tol=tol, gap_tol=gap_tol, status=status)
        return proof
    given = np.asarray(beta, dtype=np.float64)
    nearest = problem.project(given)
    point = problem.swept(nearest)
    kbeta, error = map(problem.by_variable, products(problem, point, tol=tol))
    t = _stretch(problem, point, kbeta)
    likely = _likely_rounding(problem, point)
    primal, dual, gap, noise, violation, lam = problem.constraints.worth(
        point, kbeta, error, likely, t or 1.0
    )
    if t is None:
        primal, gap, noise = math.inf, math.inf, 0.0
    scale = problem.scale
    primal, dual, gap, noise = scale * primal, scale * dual, scale * gap, scale * noise
    if noise > _NOISE * max(abs(primal), abs(dual)):
        gap += noise  # what Kβ is not known to is not proven either
    share = relative(gap, primal, dual)
    convex = problem.gram.convex
    status = verdict(
        status,
        solved=violation <= tol and (gap_tol is None or share <= gap_tol),
        precise=rounding(problem, point) <= max(tol, 1e-6),
        convex=convex,
    )
    return Certificate(
        primal=primal,
        dual=dual,
        gap=gap,
        relative_gap=share,
        kkt_violation=violation,
        lam=lam if t in (None, 1.0) else lam / t,
        convex=convex,
        distance=float(np.sqrt(np.square(nearest - given).sum())),
        status=status,
        proof=infeasibility_proof(problem, point) if status is Status.INFEASIBLE else "",
    )


def prove(
    problem: Problem,
    beta: Floats,
    lam: Floats,
    *,
    tol: float = 1e-3,
    gap_tol: float | None = None,
) -> Certificate:
    """Certify a model: not only its β but also the multipliers it predicts with.

    Parameters
    ----------
    problem : Problem
    beta : ndarray of shape (n_variables,)
    lam : ndarray of shape (n_groups,) or (1,)
        The model's own multipliers, such as its intercept; one number is the mean of all groups.
    tol, gap_tol
        As in :func:`certify`.

    Returns
    -------
    Certificate
        Its status is None also if β is not nearly feasible, or if λ violates the KKT conditions by
        more than ``tol``; the violation counts in ``kkt_violation``.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> beta = np.array([0.5, -0.5])
    >>> prove(problem, beta, np.array([0.0])).status, prove(problem, beta, np.array([0.3])).status
    (<Status.OPTIMAL: 'optimal'>, None)
    """
    proof = certify(problem, beta, tol=tol, gap_tol=gap_tol)
    own = _multiplier_violation(problem, beta, lam) if len(lam) else 0.0
    faithful = proof.distance <= min(tol, 1e-3) * math.sqrt(float(np.square(beta).sum()))
    return replace(
        proof,
        kkt_violation=max(proof.kkt_violation, own),
        status=proof.status if faithful and own <= tol else None,
    )


def _multiplier_violation(problem: Problem, beta: Floats, lam: Floats) -> float:
    """By how much given multipliers lie outside what the KKT conditions allow."""
    point = problem.swept(problem.project(beta))
    gradient = problem.s - problem.kbeta(point) - problem.D * point
    rise, fall = problem.constraints.ends(point, gradient)
    rise, fall = (ends.reshape(len(lam), -1).mean(axis=1) for ends in (rise, fall))
    return max(0.0, float((rise - lam).max()), float((lam - fall).max()))


_WORST_FIRST = (
    Status.INFEASIBLE,
    Status.UNBOUNDED,
    Status.INTERRUPTED,
    Status.TIME_LIMIT,
    Status.ITERATION_LIMIT,
    Status.PRECISION_LIMIT,
    Status.STATIONARY,
    Status.OPTIMAL,
)


def combine(certificates: Sequence[Certificate]) -> Certificate:
    """Sum up the certificates of problems that were solved side by side.

    Parameters
    ----------
    certificates : sequence of Certificate

    Returns
    -------
    Certificate
        Primal, dual and gap are sums, the violation is the largest, the multipliers stand one
        after the other and the status is the worst; None if one is None.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> combine([certify(problem, [0.5, -0.5])] * 3).primal
    1.5
    """
    if len(certificates) == 1:
        return certificates[0]
    primal, dual, gap = (
        float(sum(getattr(c, v) for c in certificates)) for v in ("primal", "dual", "gap")
    )
    convex = [c.convex for c in certificates]
    statuses = {c.status for c in certificates}
    return Certificate(
        primal=primal,
        dual=dual,
        gap=gap,
        relative_gap=relative(gap, primal, dual),
        kkt_violation=max(c.kkt_violation for c in certificates),
        lam=np.concatenate([c.lam for c in certificates]),
        convex=False if False in convex else None if None in convex else True,
        distance=math.hypot(*(c.distance for c in certificates)),
        status=None if None in statuses else next(s for s in _WORST_FIRST if s in statuses),
        proof=next((c.proof for c in certificates if c.proof), ""),
    )


def relative(gap: float, primal: float, dual: float) -> float:
    """Divide a gap by the size of the values it lies between.

    Examples
    --------
    >>> relative(0.5, 2.0, 1.5), relative(0.0, 0.0, 0.0)
    (0.25, 0.0)
    """
    size = max(abs(primal), abs(dual))
    return gap if gap in (0.0, math.inf) else gap / size if size > 0 else math.inf


def uncertified(lam: Floats, status: Status) -> Certificate:
    """Stand in for a certificate that was given up: nothing is proven.

    Examples
    --------
    >>> uncertified(np.zeros(1), Status.INTERRUPTED)
    gap inf interrupted
    """
    return Certificate(
        primal=math.inf,
        dual=-math.inf,
        gap=math.inf,
        relative_gap=math.inf,
        kkt_violation=math.inf,
        lam=lam,
        convex=None,
        distance=0.0,
        status=status,
    )


def rounding(problem: Problem, beta: Floats) -> float:
    """How far rounding of kernel values alone may put a component of Kβ off.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> rounding(problem, np.array([0.5, -0.5]))
    2.220446049250313e-16
    """
    return EPS * problem.length(beta) * math.sqrt(problem.longest)


def _likely_rounding(problem: Problem, beta: Floats) -> float:
    """How far rounding likely puts a component of Kβ off: errors of independent signs."""
    size = math.sqrt(float(np.square(beta * problem.lengths).sum()))
    return EPS * size * math.sqrt(problem.longest)


def _stretch(problem: Problem, beta: Floats, kbeta: Floats) -> float | None:
    """Scale w so that it satisfies what has infinite price: 1 / γ for the hard margin.

    1 where no price is infinite; None where no scale is enough.
    """
    if problem.bounded:
        return 1.0
    s, straight = problem.s, problem.D == 0
    up, down = straight & np.isposinf(problem.u), straight & np.isneginf(problem.l)
    if not (up | down).any():
        return 1.0
    if problem.z is not None:  # a scaled w fits no better: the targets lie in the tube, or not
        r = s - kbeta - problem.spread(problem.multipliers(s - kbeta))
        excess = max(float(r[up].max(initial=0.0)), float((-r[down]).max(initial=0.0)))
        return (
            1.0 if excess <= 8 * (rounding(problem, beta) + EPS * float(np.abs(s).max())) else None
        )
    # One more group for the variables without one: there λ = 0 stands on both sides.
    g = np.where(problem.group < 0, problem.n_groups, problem.group)
    f_up, f_down = (np.full(problem.n_groups + 1, np.inf) for _ in range(2))
    s_up, s_down = (np.full(problem.n_groups + 1, -np.inf) for _ in range(2))
    np.minimum.at(f_up, g[up], kbeta[up])
    np.minimum.at(f_down, g[down], -kbeta[down])
    np.maximum.at(s_up, g[up], s[up])
    np.maximum.at(s_down, g[down], -s[down])
    paired = slice(None, -1)
    margin = np.concatenate([f_up[paired] + f_down[paired], [f_up[-1], f_down[-1]]])
    needed = np.concatenate([s_up[paired] + s_down[paired], [s_up[-1], s_down[-1]]])
    bound = np.isfinite(margin) & (needed > 0)
    noise = 8 * rounding(problem, beta)
    if (margin[bound] <= noise).any():
        return None
    t = float((needed[bound] / margin[bound]).max(initial=0.0))
    everything_hard = bool((up | down | (problem.l == problem.u)).all())
    return t if everything_hard and t > 0 else max(1.0, t)


def margin_bound(problem: Problem, beta: ArrayLike) -> float:
    r"""Bound the geometric margin any hyperplane can have on the points that allow no slack.

    Parameters
    ----------
    problem : Problem
        A hard margin, or a soft margin with some C = ∞.
    beta : array-like of shape (n_variables,)
        Any point of the problem.

    Returns
    -------
    float
        Infinity where β says nothing (a class without a positive α).

    Notes
    -----
    Scale α to :math:`\sum_+ \alpha = \sum_- \alpha = 1`. A hyperplane of margin γ has
    :math:`2\gamma \|w\| \le \sum_i \alpha_i y_i\, w \cdot \phi(x_i)
    \le \|w\| \|\sum_i \beta_i \phi(x_i)\|`: no margin is above
    :math:`\tfrac12 \|\sum_i \beta_i \phi(x_i)\|`. Without a bias Σα = 1 and there is no ½.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> margin_bound(problem, [0.5, -0.5])  # the points are 2 apart, and b = 0 reaches it
    1.0
    """
    beta = _hull_weights(problem, beta)
    if not beta.any():
        return math.inf
    norm = math.sqrt(max(0.0, float((beta * problem.kbeta(beta)).sum())))
    return norm / 2 if problem.n_groups else norm


def margin_resolution(problem: Problem, beta: ArrayLike) -> float:
    """Return the rounding error of `margin_bound`: a smaller bound cannot be told from 0.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[1.0], [-1.0]]), [1, -1])
    >>> margin_resolution(problem, [0.5, -0.5]) < 1e-7
    True
    """
    return math.sqrt(EPS) * problem.length(_hull_weights(problem, beta))


def infeasibility_proof(
    problem: Problem, beta: ArrayLike, names: NDArray[np.int64] | None = None
) -> str:
    """Say in words why a hard margin has no solution, from a β that grew without end.

    ``names`` are the numbers to call the rows by; None counts those of the problem.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import hard_margin
    >>> problem = hard_margin(Linear().gram([[0.0], [1.0], [2.0]]), [1, -1, 1])
    >>> print(infeasibility_proof(problem, [1.0, -2.0, 1.0]))
    hard_margin has no solution: no hyperplane has geometric margin above 0.0e+00 (shown by rows 0,
    1, 2). Use a finite C or another kernel.
    """
    bound = margin_bound(problem, beta)
    remedy = "Use a finite C or another kernel."
    if problem.z is not None:
        reason = "no function of this kernel keeps every target in the tube"
        return f"{problem.name} has no solution: {reason}. {remedy}"
    if math.isinf(bound):
        return f"{problem.name} has no solution. {remedy}"
    rows = np.unique(problem.row[np.flatnonzero(_hull_weights(problem, beta))])
    rows = rows if names is None else np.sort(names[rows])
    reason = f"no hyperplane has geometric margin above {bound:.1e}"
    named = ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
    if len(rows) == 2 and problem.n_groups and bound <= margin_resolution(problem, beta):
        return (
            f"{problem.name} has no solution: these 2 points of different classes coincide in "
            f"feature space (rows {named}); {reason}. {remedy}"
        )
    if bound > 0:
        reason += ", which float64 cannot tell from 0"
    return f"{problem.name} has no solution: {reason} (shown by rows {named}). {remedy}"


def _hull_weights(problem: Problem, beta: ArrayLike) -> Floats:
    """β on the points without slack, scaled to sum 1 per class; 0 if a class has none."""
    hard = np.isinf(problem.u) | np.isinf(problem.l)
    kept: Floats = np.where(hard & (problem.D == 0), np.asarray(beta, dtype=np.float64), 0.0)
    if not problem.n_groups:
        return kept / (float(np.abs(kept).sum()) or 1.0)
    up, down = np.maximum(kept, 0.0), np.maximum(-kept, 0.0)
    if not (up.any() and down.any()):
        return np.zeros_like(kept)
    return up / float(up.sum()) - down / float(down.sum())
