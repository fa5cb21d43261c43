r"""
From the soft margin to the hard one
====================================

"If :math:`C \to \infty`, recover hard-margin SVM" (N3). On data that a line separates this happens
long before infinity: at the largest multiplier of the hard margin, from where on slack never pays.
The notes write the price of slack in three ways; they are one machine with three rulers. And on
data that overlap there is no hard margin to arrive at, which the solver proves instead of running
for ever.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

from maxmargin import geometry, kernels, problems
from maxmargin.solvers import solve

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"

rng = np.random.default_rng(5)
n = 40
y = np.repeat([-1, 1], n // 2)
X = rng.normal(scale=0.8, size=(n, 2)) + np.outer(y, [1.5, 1.0])
gram = kernels.Linear().gram(X)

# %%
# Where infinity begins
# ---------------------
#
# The dual of the soft margin, N0 eq. (70), is the dual of the hard margin (56) with one constraint
# more, :math:`\alpha_i \le C`. Once C is as large as the largest multiplier of the hard margin,
# this constraint asks for nothing, and both have the same solution: not nearly, exactly.

hard = solve(problems.hard_margin(gram, y), tol=1e-10)
w_hard = geometry.hyperplane(hard).w
enough = hard.alpha.max()
print(f"hard margin: {hard.certificate!r}, largest multiplier {enough:.4f}")

prices = np.geomspace(1e-3, 1e3, 121) * enough
soft = [solve(problems.soft_margin(gram, y, C=C), tol=1e-10) for C in prices]
for C, run in zip(prices, soft, strict=True):
    same = np.allclose(geometry.hyperplane(run).w, w_hard, rtol=1e-6)
    assert same == (enough * (1 - 1e-9) <= C)
    if same:
        assert np.isclose(run.b, hard.b, atol=1e-6)
        assert np.isclose(run.certificate.dual, hard.certificate.dual)

# %%
# On the way there the margin :math:`2 / \lVert w \rVert` narrows, the slack is used up, and by and
# large fewer points hold the plane. More slack at a lower price, never the other way round: the
# optimal value as a function of C is concave, and its slope is the sum of the slacks.

width = np.array([2 / geometry.norm(run) for run in soft])
support = np.array([np.count_nonzero(run.alpha) for run in soft])
slack = np.array([np.maximum(0, 1 - geometry.functional_margin(run)).sum() for run in soft])
value = np.array([run.certificate.primal for run in soft])
assert (np.diff(width) <= 1e-6 * width[:-1]).all()
assert (np.diff(slack) <= 1e-6 * slack[:-1] + 1e-6).all()
assert slack[prices >= enough].max() < 1e-6
assert support[0] == n
assert support[-1] == np.count_nonzero(hard.alpha) == 3
slope = np.diff(value) / np.diff(prices)
assert (slope <= slack[:-1] + 1e-6).all()
assert (slope >= slack[1:] - 1e-6).all()

fig, axes = plt.subplots(1, 4, figsize=(13, 3.7), sharey=True, layout="constrained")
xx, yy = np.meshgrid(np.linspace(-4, 4, 200), np.linspace(-3.4, 3.4, 200))
for ax, factor in zip(axes, (0.003, 0.03, 0.3, 1.0), strict=True):
    run = solve(problems.soft_margin(gram, y, C=factor * enough), tol=1e-10)
    w, b = geometry.hyperplane(run)
    f = w[0] * xx + w[1] * yy + b
    ax.contourf(xx, yy, f, [-1, 1], colors=[GREEN], alpha=0.14)
    ax.contour(
        xx, yy, f, [-1, 0, 1], colors="black", linestyles=["--", "-", "--"], linewidths=[1, 2, 1]
    )
    held = run.alpha > 0
    ax.scatter(*X[y < 0].T, color=BLUE, marker="o", s=26, ec="white", lw=0.5, zorder=3)
    ax.scatter(*X[y > 0].T, color=ORANGE, marker="^", s=32, ec="white", lw=0.5, zorder=3)
    ax.scatter(*X[held].T, s=90, fc="none", ec="black", lw=0.9, zorder=4)
    ax.set(xlim=(-4, 4), ylim=(-3.4, 3.4), aspect="equal", xlabel="$x_1$")
    ax.set_title(rf"$C = {factor:g}\,C_0$: {held.sum()} support vectors")
axes[0].set_ylabel("$x_2$")
fig.suptitle(rf"$C_0 = {enough:.2f}$, the largest multiplier of the hard margin")
plt.show()

fig, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
for ax, curve, colour, title, end in (
    (axes[0], width, GREEN, r"Width of the margin, $2\,/\,\|w\|$", 2 / geometry.norm(hard)),
    (axes[1], slack, RED, r"Total slack $\sum_i \xi_i$", 0),
    (axes[2], support, BLUE, "Support vectors", np.count_nonzero(hard.alpha)),
):
    ax.semilogx(prices, curve, color=colour, lw=2.4)
    ax.axhline(end, color="black", lw=1, ls="--", label="hard margin")
    ax.axvline(enough, color=GREY, lw=1, ls=":", label="$C_0$")
    ax.set(xlabel="price of slack C", ylim=(0, None), title=title)
    ax.legend(frameon=False)
plt.show()

# %%
# Three rulers for one price
# --------------------------
#
# N0 and N1 write :math:`\frac12 \lVert w \rVert^2 + C \sum \xi_i`, N2 divides the sum by n, and N3
# on one slide leaves out the ½. ``problems.soft_margin`` knows all three as its ``scaling``, and
# ``geometry.convert_C`` goes from any one to any other, also to the λ of Pegasos. With the
# converted price the multipliers and the plane are the same; N3's objective is twice the others.

C = 0.1
base = solve(problems.soft_margin(gram, y, C=C), tol=1e-10)
print(f"{'scaling':<10}{'C':>8}{'objective':>12}{'w_1':>9}{'w_2':>9}{'b':>9}")
for scaling in ("sum", "mean", "doubled"):  # N0, N2, N3
    converted = geometry.convert_C(C, from_="sum", to=scaling, n=n)
    run = solve(problems.soft_margin(gram, y, C=converted, scaling=scaling), tol=1e-10)
    (w1, w2), b = geometry.hyperplane(run)
    print(
        f"{scaling:<10}{converted:>8.3g}{run.certificate.primal:>12.6f}"
        f"{w1:>9.4f}{w2:>9.4f}{b:>9.4f}"
    )
    assert np.allclose(run.alpha, base.alpha, atol=1e-7)
    factor = 2 if scaling == "doubled" else 1
    assert np.isclose(run.certificate.primal, factor * base.certificate.primal)
assert np.isclose(geometry.convert_C(C, from_="sum", to="mean", n=n), n * C)
assert np.isclose(geometry.convert_C(C, from_="sum", to="doubled"), 2 * C)
assert np.isclose(geometry.convert_C(C, from_="sum", to="lambda", n=n), 1 / (n * C))

# %%
# Over their own C the three give the same curve at three places, apart by the factors 2 and n.
# Whoever reads "C = 1" in a book must ask which one.

rulers = np.geomspace(1e-3, 1e3, 61)
fig, ax = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
widths = {}
for scaling, colour, style, text in (
    ("sum", BLUE, "-", r"N0: $\frac{1}{2}\|w\|^2 + C \sum \xi_i$"),
    ("doubled", ORANGE, "--", r"N3: $w \cdot w + C \sum \xi_i$"),
    ("mean", GREEN, "-.", r"N2: $\frac{1}{2}\|w\|^2 + \frac{C}{n} \sum \xi_i$"),
):
    runs = [solve(problems.soft_margin(gram, y, C=C, scaling=scaling), tol=1e-10) for C in rulers]
    widths[scaling] = np.array([2 / geometry.norm(run) for run in runs])
    ax.semilogx(rulers, widths[scaling], color=colour, ls=style, lw=2.2, label=text)
at_one = {name: np.interp(0, np.log(rulers), curve) for name, curve in widths.items()}
assert at_one["sum"] < at_one["doubled"] < at_one["mean"]
ax.plot(np.ones(3), list(at_one.values()), "o", color="black", ms=7, zorder=4)
ax.axhline(2 / geometry.norm(hard), color="black", lw=1, ls=":", label="hard margin")
ax.axvline(1, color=GREY, lw=1, ls=":")
ax.set(xlabel="C, as each of them writes it", ylabel=r"width of the margin, $2\,/\,\|w\|$")
ax.set(ylim=(0, 12), title="C = 1 is three different machines")
ax.legend(frameon=False)
plt.show()

# %%
# No hard margin to arrive at
# ---------------------------
#
# Move the classes together until they overlap. The dual of the hard margin then grows without end,
# and the growing multipliers are a proof: scaled to sum 1 in each class, they are the weights of a
# point in the hull of the one class and of a point in the hull of the other, and the two coincide.
# A hyperplane would have to leave the same point on both sides.

Z = X - 0.62 * np.outer(y, [1.5, 1.0])
crowded = kernels.Linear().gram(Z)
refused = solve(problems.hard_margin(crowded, y))
assert refused.status == "infeasible"
print(refused.certificate.proof)

weights = refused.alpha / refused.alpha[y > 0].sum()
common = {label: weights[y == label] @ Z[y == label] for label in (-1, 1)}
assert np.isclose(weights[y > 0].sum(), 1)
assert np.isclose(weights[y < 0].sum(), 1)
assert np.allclose(common[-1], common[1], atol=1e-6)
assert "has no solution" in refused.certificate.proof

# %%
# A soft margin exists for every C, but its slack never vanishes: the objective keeps growing with
# C, and its plane settles where the total slack is smallest.

crowds = np.geomspace(1e-2, 1e4, 25)
runs = [solve(problems.soft_margin(crowded, y, C=C), tol=1e-8) for C in crowds]
left = [np.maximum(0, 1 - geometry.functional_margin(run)).sum() for run in runs]
assert left[-1] > 1
assert np.isclose(left[-1], left[-2], rtol=1e-3)
assert runs[-1].certificate.primal > 1e4

fig, axes = plt.subplots(1, 2, figsize=(11.4, 4.7), layout="constrained")
for label, colour, marker in ((-1, BLUE, "o"), (1, ORANGE, "^")):
    own, used = y == label, (y == label) & (weights > 0)
    corners = Z[own][ConvexHull(Z[own]).vertices]
    axes[0].fill(*corners.T, fc=colour, ec=colour, alpha=0.12, lw=0)
    axes[0].fill(*corners.T, fc="none", ec=colour, lw=1.2)
    axes[0].scatter(*Z[own].T, color=colour, marker=marker, s=34, ec="white", lw=0.5, zorder=3)
    for point, weight in zip(Z[used], weights[used], strict=True):
        axes[0].plot(*np.transpose([point, common[1]]), color=colour, lw=1 + 4 * weight, alpha=0.6)
axes[0].plot(*common[1], "*", color="black", ms=16, mec="white", zorder=5, label="in both hulls")
axes[0].set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$", title="Infeasible, and why")
axes[0].legend(loc="lower right")
axes[1].loglog(crowds, [run.certificate.primal for run in runs], color=RED, lw=2.2,
               label="overlapping: grows like C times the slack left")  # fmt: skip
axes[1].loglog(prices, value, color=GREEN, lw=2.2, label="separable: stops at the hard margin")
axes[1].axhline(hard.certificate.primal, color="black", lw=1, ls="--")
axes[1].set(xlabel="price of slack C", title="Optimal value of the soft margin", xlim=(1e-2, 1e4))
axes[1].legend(frameon=False)
plt.show()
