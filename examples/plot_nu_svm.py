r"""
The ν-SVM: a budget for margin failures
=======================================

N4's soft margin (SVM_s2') does not ask for a price of slack but for a fraction ν: in each class, at
most :math:`\nu (p + q) / 2` points may fail to reach the margin and at least as many are support
vectors. Here is the situation of N4's Figure 1, two sets of six points at ν = 0.6, then all other
values of ν, and what happens where they end: a ν too small for the data, a ν too large for any
data, and the values at which b and η are not determined.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import geometry, kernels, problems
from maxmargin.datasets import two_sets_of_six
from maxmargin.nu_svm import nu_margin, signed_points
from maxmargin.solvers import solve

BLUE, RED, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#6e6e6e"
X, y = two_sets_of_six()  # the notes print no coordinates: these show the same counts
gram = kernels.Linear().gram(X)


def nu_svm(nu):
    """Solve (SVM_s2') with K_s = 1 and K_m = ν (p + q), and read N4's quantities off it."""
    solution = solve(problems.nu_svc(gram, y, nu=nu), tol=1e-10)
    return solution, nu_margin(solution)


# %%
# Figure 1: the counts
# --------------------
#
# Of the blue points two fail to reach their margin, both on the wrong side of the plane, and two
# are on it. Of the red points three fail, two of them on the wrong side, and one is on the margin.

solution, found = nu_svm(0.6)
case = found.points.case
for own, wrong, failures, on_margin in ((y > 0, 2, 2, 2), (y < 0, 2, 3, 1)):
    assert (case[own] == "misclassified").sum() == wrong
    assert np.isin(case[own], ["misclassified", "inside margin"]).sum() == failures
    assert (case[own] == "on margin").sum() == on_margin
print(found.message)

# %%
# So N4's inequality reads :math:`2 \le 3.6 \le 4` for the blue class and :math:`3 \le 3.6 \le 4`
# for the red one. The bound holds in each class; :math:`\nu (p + q)` bounds both together.

assert np.allclose(found.positive, (2, 3.6, 4))
assert np.allclose(found.negative, (3, 3.6, 4))

# %%
# The multipliers λ of the blue and μ of the red points explain the counts: a failure has the full
# price :math:`K_s = 1`, a point beyond its margin 0, one on it something between (N4, by
# complementary slackness). Each class sums to :math:`K_m / 2 = 3.6`, hence the inequality. They
# also give the normal, :math:`w = -X (\lambda; \mu)`, N4 :math:`(*_w)`, and the points between the
# bounds, :math:`I_\lambda` and :math:`I_\mu`, give b and η. Our plane is :math:`w \cdot x + b = 0`,
# so our b is minus N4's.

lam, mu = found.dual.lam, found.dual.mu
w = geometry.hyperplane(solution).w
assert np.isclose(lam.sum(), 3.6)
assert np.isclose(mu.sum(), 3.6)
assert found.gamma == 0  # the multiplier of η ≥ 0: the budget is used up
assert np.allclose(w, -signed_points(solution) @ np.concatenate([lam, mu]))
u, v = X[found.I_lam].mean(axis=0), X[found.I_mu].mean(axis=0)
assert np.isclose(found.eta, w @ (u - v) / 2)
assert np.isclose(found.notes_b, w @ (u + v) / 2)
assert np.isclose(found.delta, found.eta / np.linalg.norm(w))
assert (found.points.multiplier[np.isin(case, ["misclassified", "inside margin"])] == 1).all()
assert (found.points.multiplier[case == "outside"] == 0).all()

fig, ax = plt.subplots(figsize=(9.4, 6.0), layout="constrained")
for level, colour, style, name in (
    (0, "black", "-", r"$w \cdot x + b = 0$"),
    (found.eta, BLUE, "--", r"$w \cdot x + b = \eta$"),
    (-found.eta, RED, "--", r"$w \cdot x + b = -\eta$"),
):
    foot = (level - found.b) * w / (w @ w)
    ax.axline(foot, foot + np.array([-w[1], w[0]]), color=colour, ls=style, lw=2, label=name)
marks = {"outside": "o", "on margin": "o", "inside margin": "s", "misclassified": "X"}
for i, (point, name) in enumerate(zip(X, case, strict=True)):
    colour = BLUE if y[i] > 0 else RED
    ax.plot(*point, marks[name], color=colour, ms=11, mec="white", zorder=3)
    if name == "on margin":
        ax.plot(*point, "o", color="black", ms=18, mfc="none", mew=1.4, zorder=4)
    text = rf"${'λ' if y[i] > 0 else 'μ'} = {found.points.multiplier[i]:.3g}$"
    look = {"textcoords": "offset points", "color": colour, "fontsize": 12}
    aside = (-52, 6) if name == "misclassified" and y[i] > 0 else (11, 9)  # off the plane
    ax.annotate(text, point, aside, **look)
arrow = {"arrowstyle": "<|-|>", "color": GREEN, "lw": 1.8, "shrinkA": 0, "shrinkB": 0}
start, unit = np.array([-2.4, 2.4]), w / np.linalg.norm(w)
ax.annotate("", start + found.delta * unit, start, arrowprops=arrow)
ax.text(*start + found.delta * unit / 2 + np.array([-0.35, 0.2]), "δ", color=GREEN, fontsize=15)
ax.plot([], [], color=GREEN, lw=1.8, label=rf"margin $\delta = \eta\,/\,\|w\| = {found.delta:.2f}$")
for marker, name in (("o", "beyond the margin"), ("s", "inside it"), ("X", "misclassified")):
    ax.plot([], [], marker, color=GREY, ms=10, mec="white", label=name)
ax.plot([], [], "o", color="black", ms=14, mfc="none", label="on the margin")
ax.set(xlim=(-5, 5.4), ylim=(-4, 5), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
ax.set_title("ν = 0.6: two blue and three red points fail to reach their margin")
fig.legend(loc="outside right upper")
plt.show()

# %%
# All other ν
# -----------
#
# A larger ν buys a wider margin with more failures, up to the largest ν with a solution,
# :math:`\min(2p, 2q) / (p + q)`, here 1: then every point is a support vector. For small ν the
# *reduced hulls* of the classes (hulls with no weight above :math:`2 / \nu (p + q)`) meet, and the
# best there is is w = 0, η = 0: no plane at all. :math:`\nu \ge 2 / (p + q)` is necessary for more
# where the classes overlap, not sufficient.

nus = np.linspace(0.01, 1, 199)
sweep = [nu_svm(nu)[1] for nu in nus]
exists = np.array([one.has_margin for one in sweep])
smallest = nus[exists].min()
assert exists[nus >= smallest].all()
assert smallest > 2 / len(y)
for one in sweep:
    for count in (one.positive, one.negative):
        assert count.failures <= count.bound * (1 + 1e-9)
        assert count.support_vectors >= count.bound * (1 - 1e-9)
print(nu_svm(0.4)[1].message)

delta = np.array([np.nan if one.delta is None else one.delta for one in sweep])
known = np.isfinite(delta)
assert (np.diff(delta[known]) >= -1e-6).all()  # the margin never shrinks

fig, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
for ax, colour, side in ((axes[0], BLUE, "positive"), (axes[1], RED, "negative")):
    counts = np.array([getattr(one, side) for one in sweep])
    ax.step(nus[exists], counts[exists, 2], color=colour, lw=2.2, label="support vectors")
    ax.plot(nus, counts[:, 1], color="black", lw=1.2, label=r"$\nu (p + q)\,/\,2$")
    ax.step(nus[exists], counts[exists, 0], color=colour, lw=2.2, ls="--", label="failures")
    ax.set(ylabel="points", ylim=(0, 6.5), title=f"{'Blue' if side == 'positive' else 'Red'} class")
    ax.plot([0.6, 0.6], getattr(found, side)[::2], "o", color=colour, ms=8, mec="white", zorder=4)
axes[2].plot(nus, delta, color=GREEN, lw=2.2, label=r"$\delta$")
axes[2].plot(0.6, found.delta, "o", color=GREEN, ms=8, mec="white", zorder=4)
axes[2].set(ylim=(0, None), title=r"Margin $\delta = \eta\,/\,\|w\|$")
for ax in axes:
    ax.axvspan(0, smallest, color=GREY, alpha=0.18, lw=0, label=f"w = 0: ν below {smallest:.2f}")
    ax.axvline(2 / len(y), color=GREY, lw=1, ls=":", label=r"$2\,/\,(p + q)$")
    ax.set(xlabel="ν", xlim=(0, 1))
    ax.legend(loc="upper left", fontsize="small")
plt.show()

# %%
# Too large a ν
# -------------
#
# Without the last four blue points p = 2 and q = 6. A class of two cannot pay more than
# :math:`2 K_s`, so K_m must be at most :math:`4 K_s`; beyond it the primal falls without end. That
# is known before any kernel entry is computed, and the error names the largest ν.

kept = np.r_[0:2, 6:12]
few = kernels.Linear().gram(X[kept])
message = "accepted"
try:
    problems.nu_svc(few, y[kept], nu=0.6)
except ValueError as error:
    message = str(error)
print(message)
assert "nu must be at most 0.5 (N4, existence condition)" in message
assert np.isclose(nu_margin(solve(problems.nu_svc(few, y[kept], nu=0.5))).largest_nu, 0.5)

# %%
# Where the Standard Margin Hypothesis fails
# ------------------------------------------
#
# N4 finds b and η from a blue and a red point with a multiplier strictly between 0 and
# :math:`K_s`. At ν = 2/3 there is none: four points of each class have the full price and sum to
# :math:`K_m / 2` exactly. The plane's direction is determined, its place and η are not: every
# :math:`\eta - b` in one interval and every :math:`\eta + b` in another is optimal.

solution, found = nu_svm(2 / 3)
assert not found.standard_margin_hypothesis
assert found.b is None
assert found.eta is None
assert set(np.round(found.points.multiplier, 9)) == {0, 1}
assert np.allclose(found.eta_minus_b, (11, 17))
assert np.allclose(found.eta_plus_b, (12, 16))
print(found.message)

# %%
# Left, where the margins :math:`w \cdot x = \eta - b` and :math:`w \cdot x = -(\eta + b)` may lie:
# from the last failure of their class to the first point beyond. Right, the primal objective of
# (SVM_s2') for this w over the two thresholds. It is flat on the whole rectangle, so no number can
# be *the* b; the library reports the rectangle instead.

w = geometry.hyperplane(solution).w
plus, minus = np.meshgrid(np.linspace(5, 24, 191), np.linspace(5, 24, 191))  # η − b and η + b


def primal(plus, minus):
    """N4's objective at this w with the smallest slacks."""
    short = np.where(y > 0, plus[..., None], minus[..., None]) - y * (X @ w)
    slack = np.maximum(0, short).sum(axis=-1)
    return 0.5 * w @ w - found.dual.K_m * (plus + minus) / 2 + slack


value = primal(plus, minus)
(low, high), (below, above) = found.eta_minus_b, found.eta_plus_b
inside = (plus >= low) & (plus <= high) & (minus >= below) & (minus <= above)
assert np.allclose(value[inside], solution.certificate.primal)
assert (value[~inside] > solution.certificate.primal + 1e-6).all()

fig, axes = plt.subplots(1, 2, figsize=(12, 5.4), layout="constrained")
xx, yy = np.meshgrid(np.linspace(-5, 5.4, 200), np.linspace(-4, 6, 200))
f = w[0] * xx + w[1] * yy
axes[0].contourf(xx, yy, f, [low, high], colors=[BLUE], alpha=0.25)
axes[0].contourf(xx, yy, f, [-above, -below], colors=[RED], alpha=0.25)
axes[0].contour(xx, yy, f, [low, high], colors=BLUE, linewidths=1.2, linestyles="--")
axes[0].contour(xx, yy, f, [-above, -below], colors=RED, linewidths=1.2, linestyles="--")
full = found.points.state == "bound"
for own, colour in ((y > 0, BLUE), (y < 0, RED)):
    axes[0].scatter(*X[own & full].T, color=colour, marker="s", s=90, ec="white", zorder=3)
    axes[0].scatter(*X[own & ~full].T, color=colour, marker="o", s=90, ec="white", zorder=3)
axes[0].scatter([], [], color=GREY, marker="s", s=80, label="full price: on the margin or short")
axes[0].scatter([], [], color=GREY, marker="o", s=80, label="multiplier 0: on the margin or beyond")
axes[0].set(xlim=(-5, 5.4), ylim=(-4, 6), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
axes[0].set_title("ν = 2/3: each margin may lie anywhere in its band")
axes[0].legend(loc="upper right", fontsize="small")
best = solution.certificate.primal
lines = axes[1].contour(plus, minus, value - best, [1, 3, 6, 10, 15, 20], colors=GREY)
axes[1].clabel(lines, fmt="+%g", fontsize=9)
rectangle = plt.Rectangle((low, below), high - low, above - below, fc=GREEN, alpha=0.35, lw=0)
axes[1].add_patch(rectangle)
axes[1].text(14, 14, "all optimal", ha="center", va="center", color="black", fontsize=13)
axes[1].set(xlabel=r"$\eta - b$", ylabel=r"$\eta + b$", aspect="equal")
axes[1].set_title("The primal objective above its minimum")
plt.show()

# %%
# The same machine with a price
# -----------------------------
#
# Divided by η, a ν-SVM is a soft margin with :math:`C = K_s / \eta`: the same plane, with margin 1
# instead of η. So ν is another way to choose C, one whose meaning can be read off the counts.

solution, found = nu_svm(0.6)
soft = solve(problems.soft_margin(gram, y, C=found.K_s / found.eta), tol=1e-10)
assert np.allclose(geometry.decision(soft), geometry.decision(solution) / found.eta)
assert np.isclose(geometry.norm(soft), 1 / found.delta)
