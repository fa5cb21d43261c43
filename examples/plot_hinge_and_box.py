r"""
The hinge, and one step of SMO in its box
=========================================

What the soft margin charges for a point is the hinge loss of its functional margin, N0 eq. (64)
and Figure 6. What its dual does about it is a long series of small problems in two variables, each
on a segment in the box :math:`[0, C]^2`, N0 Figure 7. Both pictures are drawn here from a machine
at work: the points on the hinge are training points, the box shows steps the solver has taken.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import kernels, problems
from maxmargin.ledger import ledger
from maxmargin.losses import hinge, zero_one
from maxmargin.solvers import TextbookSMO, solve, steps

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"
PINK = "#CC79A7"

rng = np.random.default_rng(21)
X = np.vstack([rng.normal(-0.9, 1, (40, 2)), rng.normal(0.9, 1, (40, 2))])
y = np.repeat([-1, 1], 40)
C = 1.0
problem = problems.soft_margin(kernels.RBF(sigma=1.5).gram(X), y, C=C)
solution = solve(problem, tol=1e-6)
points = ledger(problem, solution.beta, solution.certificate)

# %%
# Figure 6: the hinge loss
# ------------------------
#
# The axis is :math:`y \cdot z` with :math:`z = w \cdot x + b`, so that right means right (N0 labels
# it z). A point pays nothing beyond the margin 1, less than 1 inside it, more than 1 on the wrong
# side. The slacks of a trained machine are just these losses, N0 eq. (63), and their sum is what it
# pays.

assert np.allclose(points.slack, hinge(points.margin))
assert (points.slack[points.case == "misclassified"] > 1).all()
assert (points.slack[points.case == "inside margin"] <= 1).all()
assert (points.slack[points.case == "outside"] == 0).all()
w_squared = solution.beta @ problem.kbeta(solution.beta)
assert np.isclose(solution.certificate.primal, w_squared / 2 + C * points.slack.sum())

m = np.linspace(-2.4, 2.9, 400)
assert (zero_one(m) <= hinge(m)).all()
fig, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
for left, right, colour, text in (
    (-2.4, 0, RED, "misclassified\n$\\xi > 1$"),
    (0, 1, PINK, "inside the margin\n$0 < \\xi \\leq 1$"),
    (1, 2.9, GREEN, "outside\n$\\xi = 0$"),
):
    ax.axvspan(left, right, color=colour, alpha=0.1, lw=0)
    ax.text((left + right) / 2, 3.15, text, ha="center", va="top", color=colour, fontsize=11)
ax.plot(m, hinge(m), color="black", lw=2.4, label=r"hinge loss $\max\{0,\ 1 - y z\}$")
ax.plot(m, zero_one(m), color=GREY, lw=1.4, ls="--", label="0-1 loss, never above it")
for label, colour, marker in ((-1, BLUE, "o"), (1, ORANGE, "^")):
    own = y == label
    ax.scatter(points.margin[own], points.slack[own], color=colour, marker=marker, s=44, ec="white",
               lw=0.5, zorder=3, label=f"training points, y = {label:+d}")  # fmt: skip
ax.set(
    xlabel=r"$y \cdot z = y\,(w \cdot x + b)$",
    ylabel=r"slack $\xi$",
    xlim=(-2.4, 2.9),
    ylim=(-0.15, 3.3),
)
ax.legend(frameon=False, loc="center right", fontsize="small")
plt.show()

# %%
# The steps of the solver
# -----------------------
#
# ``steps`` yields every update of N0's Algorithm 1 with all its numbers filled in. With the errors
# :math:`E_i = h(x_i) - y_i` the unconstrained optimum for :math:`\alpha_j` is eq. (96); it is then
# clipped to the ends L and H of the feasible segment, eq. (97), and :math:`\alpha_i` follows,
# eq. (98). L and H are N0's in terms of the old :math:`\alpha`; in terms of :math:`\rho` they hold
# for :math:`y_i = +1` only. Replaying all steps confirms every number.

taken = list(steps(problem, TextbookSMO(record_steps=True)))
K = problem.gram.rows(range(len(y)))
alpha, before = np.zeros(len(y)), []
for s in taken:
    before.append(alpha.copy())
    i, j = s.i, s.j
    assert np.isclose(s.alpha_i, alpha[i])
    assert np.isclose(s.alpha_j, alpha[j])
    g = K @ (alpha * y)  # without b: only the difference of two errors matters
    assert np.isclose(s.E_i - s.E_j, g[i] - y[i] - (g[j] - y[j]), atol=1e-6)
    assert np.isclose(s.eta, K[i, i] + K[j, j] - 2 * K[i, j])
    if y[i] == y[j]:
        L, H = max(0, alpha[i] + alpha[j] - C), min(C, alpha[i] + alpha[j])
    else:
        L, H = max(0, alpha[j] - alpha[i]), min(C, C + alpha[j] - alpha[i])
    assert np.allclose([s.L, s.H], [L, H])
    assert np.isclose(s.alpha_j_unclipped, alpha[j] + y[j] * (s.E_i - s.E_j) / s.eta)  # (96)
    assert np.isclose(s.alpha_j_new, np.clip(s.alpha_j_unclipped, L, H))  # (97)
    assert np.isclose(s.alpha_i_new, alpha[i] + y[i] * y[j] * (alpha[j] - s.alpha_j_new))  # (98)
    assert s.change > 0
    alpha[i], alpha[j] = s.alpha_i_new, s.alpha_j_new
assert np.isclose(sum(s.change for s in taken), solution.certificate.dual, rtol=1e-3)
assert abs(alpha @ y) < 1e-9

# %%
# Figure 7: the box
# -----------------
#
# For one step of each kind: labels that differ keep :math:`\alpha_i - \alpha_j`, equal labels keep
# :math:`\alpha_i + \alpha_j`. The ellipses are contours of N0's objective (79) in the two. On the
# line the best point is where it touches an ellipse; in these two steps that point lies outside the
# box, and the step ends where the segment does.


def worth_drawing(s):
    """Prefer a long step from inside a short segment, cut by less than half a box."""
    cut, moved = abs(s.alpha_j_unclipped - s.alpha_j_new), abs(s.alpha_j_new - s.alpha_j)
    inside = min(s.alpha_j - s.L, s.H - s.alpha_j)
    return inside * moved * cut * (cut < 0.5 * C) * (s.H - s.L < 0.9 * C)


axis = np.linspace(-0.65 * C, 1.65 * C, 201)
a_i, a_j = np.meshgrid(axis, axis)
fig, axes = plt.subplots(1, 2, figsize=(10.4, 5.6), layout="compressed")
for ax, sign in zip(axes, (-1, 1), strict=True):
    kind = [k for k, s in enumerate(taken) if y[s.i] * y[s.j] == sign]
    k = max(kind, key=lambda k: worth_drawing(taken[k]))
    s, i, j = taken[k], taken[k].i, taken[k].j
    assert worth_drawing(s) > 0
    slope = y * (K @ (before[k] * y)) - 1  # of the objective (78), at the point before the step
    d_i, d_j = a_i - s.alpha_i, a_j - s.alpha_j
    W = slope[i] * d_i + slope[j] * d_j + sign * K[i, j] * d_i * d_j
    W += 0.5 * K[i, i] * d_i**2 + 0.5 * K[j, j] * d_j**2
    ax.contour(a_i, a_j, W, levels=25, colors=GREY, linewidths=0.6, alpha=0.7, linestyles="-")
    ax.add_patch(plt.Rectangle((0, 0), C, C, fc=BLUE, alpha=0.1, lw=0))
    ax.add_patch(plt.Rectangle((0, 0), C, C, fc="none", ec=BLUE, lw=2))
    kept = s.alpha_i + sign * s.alpha_j  # what the step may not change
    ax.axline((kept, 0), (kept - sign, 1), color="black", lw=1, ls="--")
    ax.plot([kept - sign * s.L, kept - sign * s.H], [s.L, s.H], color="black", lw=4)
    for end, name in ((s.L, "L"), (s.H, "H")):
        ax.plot([axis[0], kept - sign * end], [end, end], color=GREEN, lw=1.2, ls=":")
        ax.text(axis[3], end + 0.02 * C, f"${name} = {end:.2f}$", color=GREEN, fontsize=12)
    target = kept - sign * s.alpha_j_unclipped, s.alpha_j_unclipped
    touching = W[np.abs(axis - target[1]).argmin(), np.abs(axis - target[0]).argmin()]
    ax.contour(a_i, a_j, W, levels=[touching], colors=RED, linewidths=1.3, linestyles="-")
    ax.plot(s.alpha_i, s.alpha_j, "o", color=BLUE, ms=11, mec="white", zorder=5, label="before")
    ax.plot(*target, "X", color=RED, ms=12, mec="white", zorder=5, label="unclipped, (96)")
    ax.plot(s.alpha_i_new, s.alpha_j_new, "D", color=ORANGE, ms=10, mec="white", zorder=6,
            label="clipped, (97) and (98)")  # fmt: skip
    ax.set(xlim=(axis[0], axis[-1]), ylim=(axis[0], axis[-1]), aspect="equal")
    ax.set(xlabel=r"$\alpha_i$", ylabel=r"$\alpha_j$")
    ax.set_xticks([0, C], ["0", "C"])
    ax.set_yticks([0, C], ["0", "C"])
    ax.set_title(rf"$y_i y_j = {sign:+d}$, step {k + 1} of {len(taken)}")
axes[0].legend(loc="lower right", fontsize="small")
plt.show()
