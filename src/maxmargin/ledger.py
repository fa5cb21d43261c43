"""The ledger: what the solution says about every training point (N0 §3.4.1)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.tables import Table

if TYPE_CHECKING:
    from maxmargin.certificate import Certificate
    from maxmargin.problems import Problem

__all__ = ["Ledger", "ledger"]

Floats = NDArray[np.float64]
Column = NDArray[Any]


class Ledger(Table):
    """A table of arrays, one row per training point: ``led["alpha"]`` or ``led.alpha``.

    Examples
    --------
    >>> led = Ledger({"case": np.array(["outside", "on margin", "outside"])})
    >>> led.summary()
    {'outside': 2, 'on margin': 1}
    """

    def summary(self) -> dict[str, int]:
        """Count the points of each case."""
        return dict(Counter(self["case"].tolist()))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {case}" for case, count in self.summary().items())
        return f"<Ledger of {len(self)} points: {counts}>"


def ledger(
    problem: Problem, beta: ArrayLike, certificate: Certificate, *, tau: float = 1e-3
) -> Ledger:
    r"""Tabulate what a solution says about every training point.

    Parameters
    ----------
    problem : Problem
    beta : array-like of shape (n_variables,)
        The point that was certified.
    certificate : Certificate
        Of this β: its multipliers and gap are used.
    tau : float in [0, 1)
        Slack in telling the cases apart; the default is the solvers' default ``tol``.

    Returns
    -------
    Ledger
        With the columns

        - ``alpha``: the size of the point's coefficient; ``state``: zero, free or bound;
          ``C``: its bound;
        - ``margin``: y (f + b), in units of η for ν-SVC (NaN if η ≤ 0); ε − abs(z − f − b) for
          regression; f − ρ for one-class; R² − ‖φ(x) − a‖² for SVDD; for Crammer-Singer, where α
          is that of the point's own class, how far this class beats the best other one;
        - ``geometric_margin``: the same as a distance (NaN if w = 0);
        - ``slack``: ξ; ``case``: where the point lies;
        - ``kkt_residual``: by how much it violates the KKT conditions;
        - ``loo``, soft margin only: right, wrong or undecided, whatever is proven about the
          prediction for this point after training without it, every other C_i unchanged.

    Notes
    -----
    The cases by the margin m are `outside` (m > 1 + τ), `on margin`, `inside margin` (0 ≤ m <
    1 − τ) and `misclassified` (m < 0), N0 §3.4.1; `inside tube`, `on tube`, `outside tube`; or
    `inside`, `on boundary`, `outlier`, τ relative to ρ or R².

    The leave-one-out verdict is the ξα bound of Joachims (2000): :math:`2 \alpha R^2 + \xi < 1`
    is right, ξ > 1 wrong, with the terms that make it hold for an inexact solution and where b
    is not unique; see `_leave_one_out`.

    Examples
    --------
    >>> from maxmargin.certificate import certify
    >>> from maxmargin.kernels import Linear
    >>> from maxmargin.problems import soft_margin
    >>> problem = soft_margin(Linear().gram([[1.0], [-1.0], [4.0]]), [1, -1, 1], C=1.0)
    >>> beta = [0.5, -0.5, 0.0]
    >>> ledger(problem, beta, certify(problem, beta))
    <Ledger of 3 points: 2 on margin, 1 outside>
    """
    if not 0 <= tau < 1:
        raise ValueError(f"tau={tau} must be in [0, 1).")
    point = problem.project(beta)
    kbeta = problem.kbeta(point)
    coefficients = problem.by_row(point)
    f = np.zeros_like(coefficients)
    f[problem.row if problem.block is None else (problem.row, problem.block)] = kbeta
    if problem.name == "crammer_singer":
        alpha = (problem.by_row(problem.s) * coefficients).sum(axis=1)
        margin, geometric = _class_margins(problem, coefficients, f)
        slack, case = np.maximum(0.0, 1 - margin), _cases(margin, tau)
    else:
        alpha, w2 = np.abs(coefficients), max(0.0, float((coefficients * f).sum()))
        found = problem.parameters(certificate.lam, point)
        margin, geometric, slack, case = _position(problem, found, f, w2, tau)
    states = np.where(alpha == 0, "zero", np.where(alpha < problem.C, "free", "bound"))
    columns: dict[str, Column] = {
        "alpha": alpha,
        "state": states if problem.name != "squared_hinge" else np.where(alpha, "free", "zero"),
        "C": problem.C,
        "margin": margin,
        "geometric_margin": geometric,
        "slack": slack,
        "case": case,
        "kkt_residual": _kkt_residual(problem, point, kbeta, certificate.lam),
    }
    if problem.name == "soft_margin":
        columns["loo"] = _leave_one_out(problem, point, kbeta, certificate, margin, tau)
    return Ledger(columns)


def _cases(m: Floats, tau: float) -> Column:
    """N0 §3.4.1."""
    names = ["outside", "on margin", "inside margin", "misclassified"]
    return np.select([m > 1 + tau, m >= 1 - tau, m >= 0, m < 0], names, "undefined")


def _class_margins(problem: Problem, coefficients: Floats, f: Floats) -> tuple[Floats, Floats]:
    """By how much f of the own class beats each other one; the least, and the least distance."""
    own = problem.by_row(problem.s) > 0
    gram = coefficients.T @ f  # of the w_k
    squares = np.diag(gram) + np.diag(gram)[:, None] - gram - gram.T
    lengths = np.sqrt(np.maximum(squares, 0.0))[own.argmax(axis=1)]
    margins = np.where(own, np.inf, f[own][:, None] - f)
    distances = np.divide(margins, lengths, out=np.full_like(f, np.nan), where=lengths > 0)
    distances[own] = np.inf
    return margins.min(axis=1), distances.min(axis=1)


def _position(
    problem: Problem, found: dict[str, float], f: Floats, w2: float, tau: float
) -> tuple[Floats, Floats, Floats, Column]:
    """Margin, geometric margin, slack and case of each point."""
    norm = np.sqrt(w2) if w2 > 0 else np.nan
    if problem.y is not None:
        unit = found.get("eta", 1.0)
        value = problem.y * (f + found["b"])
        m = value / unit if unit > 0 else np.full_like(f, np.nan)
        return m, value / norm, np.maximum(0.0, 1 - m), _cases(m, tau)
    if problem.z is not None:
        epsilon = found.get("epsilon", problem.epsilon)
        m = epsilon - np.abs(problem.z - f - found["b"])
        # The tube lies in the space of (φ(x), z), where its normal is (w, −1).
        geometric, unit = m / np.sqrt(1 + w2), 1.0
        names = ["inside tube", "on tube", "outside tube"]
    else:
        names = ["inside", "on boundary", "outlier"]
        if problem.name == "svdd":
            unit = found["R2"]
            distance2 = np.maximum(0.0, problem.gram.diag - 2 * f + w2)
            m, geometric = unit - distance2, np.sqrt(max(unit, 0.0)) - np.sqrt(distance2)
        else:
            unit = found["rho"]
            m = f - unit
            geometric = m / norm
    edge = tau * (unit if unit > 0 else 1.0)
    case = np.select([m > edge, m >= -edge], names[:2], names[2])
    return m, geometric, np.maximum(0.0, -m), case


def _kkt_residual(problem: Problem, beta: Floats, kbeta: Floats, lam: Floats) -> Floats:
    """By how much each point violates the KKT conditions at λ, N0 eqs. (71)-(76)."""
    r = problem.s - kbeta - problem.D * beta - problem.spread(lam)
    rise, fall = np.where(beta < problem.u, r, 0.0), np.where(beta > problem.l, -r, 0.0)
    worst = np.zeros(problem.gram.n)
    np.maximum.at(worst, problem.row, np.maximum(rise, fall))
    return worst + 0.0  # no minus zeros


def _leave_one_out(
    problem: Problem,
    beta: Floats,
    kbeta: Floats,
    certificate: Certificate,
    margin: Floats,
    tau: float,
) -> Column:
    """Decide what is proven about each point's prediction by a machine trained without it.

    Let h be the change of the decision function and g the gap. Monotonicity gives
    ‖Δw‖² ≤ g − α y h(x) at the point left out. Unless every other point moves the same way by
    more than τ, some other point anchors it: −y h(x) ≤ τ + ‖Δw‖ √B with B ≥ ‖φ(x) − φ(x')‖².
    That exception would put every other point with r ≥ −τ at its upper bound (mirrored for y =
    −1), and is excluded if the room there exceeds α: without a free vector b may jump, and α = 0
    proves nothing. Without a bias the point anchors itself, B = K(x, x).
    """
    undecided = np.full(len(beta), "undecided", dtype="<U9")
    gap = certificate.gap / problem.scale
    if certificate.convex is not True or not np.isfinite(problem.C).all() or problem.y is None:
        return undecided
    alpha, diag = np.abs(beta), problem.gram.diag
    if problem.n_groups:
        R2 = diag.max() if problem.gram.nonnegative else 2 * diag.max()
        B, jump = np.full(len(beta), 2 * R2), tau
        r = problem.s - kbeta - problem.spread(certificate.lam)
        up, down = problem.u - beta, beta - problem.l
        rising = np.where(r >= -tau, up, -down)
        falling = np.where(r <= tau, down, -up)
        room = np.where(problem.y > 0, rising.sum() - rising, falling.sum() - falling)
        anchored = room > alpha + 1e-12 * problem.C.sum()
    else:
        B, jump, anchored = diag, 0.0, np.ones(len(beta), dtype=bool)
    # −y h = jump + v with v² ≤ B (g + α jump + α v)
    linear = alpha * B
    v = 0.5 * (linear + np.sqrt(linear**2 + 4 * B * (gap + alpha * jump)))
    right = anchored & (margin - jump - v > 0)
    # Training with the point cannot raise its loss: ξ' ≥ ξ − g / C.
    wrong = -margin * problem.C > gap
    return np.select([right, wrong], ["right", "wrong"], undecided)
