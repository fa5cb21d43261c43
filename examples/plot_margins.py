r"""
Margins: which of the separating lines?
=======================================

Two classes that a line can separate are separated by many lines. The support vector machine takes
the one that is farthest from the nearest point (N0 section 2). This script draws N0's Figures 1
and 2 from a trained machine, and then shows over one axis that N0's problems (2) to (5), which
look different, ask for the same line.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import geometry, kernels, problems
from maxmargin.solvers import solve

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"

rng = np.random.default_rng(11)
X = np.vstack([rng.normal((-0.2, -0.7), 0.6, (20, 2)), rng.normal((2.0, 0.8), 0.6, (20, 2))])
y = np.repeat([-1, 1], 20)

solution = solve(problems.hard_margin(kernels.Linear().gram(X), y), tol=1e-9)
w, b = plane = geometry.hyperplane(solution)
norm = np.linalg.norm(w)

# %%
# Functional and geometric margins
# --------------------------------
#
# The functional margin of a point is :math:`y (w \cdot x + b)`; its geometric margin is that
# divided by :math:`\lVert w \rVert`, a distance. :mod:`maxmargin.geometry` has both. A hard
# margin scales :math:`(w, b)` so that the smallest functional margin is 1, and then the smallest
# geometric margin is :math:`\gamma = 1 / \lVert w \rVert`.

functional = geometry.functional_margin(plane, X, y)
geometric = geometry.geometric_margin(plane, X, y)
support, gamma = solution.alpha > 0, geometric.min()
assert np.allclose(functional, y * (X @ w + b))
assert np.allclose(geometric, functional / norm)
assert np.isclose(functional.min(), 1)
assert np.allclose(functional[support], 1)
assert np.isclose(gamma, 1 / norm)

# %%
# Figure 1: many lines, one widest street
# ---------------------------------------
#
# For a direction :math:`u(\theta)` of length 1 the best line runs in the middle between the
# classes, with geometric margin
#
# .. math:: \gamma(\theta) = \tfrac12 \bigl(\min_{y=+1} u(\theta) \cdot x
#           - \max_{y=-1} u(\theta) \cdot x\bigr).
#
# Every direction with :math:`\gamma(\theta) > 0` separates the training data, N0 eq. (1). Trying
# them all is problem (3) by brute force: none does better than the machine.

degrees = np.linspace(-45, 135, 18001)
u = np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
above, below = (X[y > 0] @ u.T).min(axis=0), (X[y < 0] @ u.T).max(axis=0)
margins, offsets = (above - below) / 2, -(above + below) / 2
best = margins.argmax()
assert np.isclose(margins[best], gamma, rtol=1e-3)
assert margins[best] <= gamma * (1 + 1e-9)
assert np.allclose(u[best], w / norm, atol=1e-3)

xx, yy = np.meshgrid(np.linspace(-2.1, 4.1, 300), np.linspace(-2.5, 2.7, 300))
f = w[0] * xx + w[1] * yy + b

fig, ax = plt.subplots(figsize=(6.6, 5.6), layout="constrained")
ax.contourf(xx, yy, f, levels=[-1, 1], colors=[GREEN], alpha=0.14)
separating = np.flatnonzero(margins > 0)
for k in np.linspace(separating[0], separating[-1], 7).astype(int)[1:-1]:
    assert (y * (X @ u[k] + offsets[k]) > 0).all()
    foot = -offsets[k] * u[k]
    ax.axline(foot, foot + u[k] @ [[0, 1], [-1, 0]], color=GREY, lw=1, ls=(0, (6, 3)))
ax.contour(xx, yy, f, [-1, 0, 1], colors="black", linestyles=[":", "-", ":"], linewidths=[1, 2, 1])
ax.scatter(*X[y < 0].T, color=BLUE, marker="o", s=38, ec="white", lw=0.6, zorder=3)
ax.scatter(*X[y > 0].T, color=ORANGE, marker="^", s=46, ec="white", lw=0.6, zorder=3)
ax.scatter(*X[support].T, s=150, fc="none", ec="black", lw=1.4, zorder=4)
ax.set(xlim=(-2.1, 4.1), ylim=(-2.5, 2.7), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
ax.set_title(f"Every line separates; the solid one keeps the largest distance, γ = {gamma:.3f}")
plt.show()

# %%
# Figure 2: a point and its projection
# ------------------------------------
#
# The projection of :math:`x` onto the hyperplane is
# :math:`x - \frac{w \cdot x + b}{\lVert w \rVert} \frac{w}{\lVert w \rVert}`. Walking from it along
# the unit vector :math:`w / \lVert w \rVert` for the length of the geometric margin leads back to
# :math:`x` (against it, if :math:`y = -1`). The origin is
# :math:`\lvert b \rvert / \lVert w \rVert` away; N0 forgets the absolute value.

unit = w / norm
feet = geometry.projection(plane, X)
assert np.allclose(feet @ w + b, 0)
assert np.allclose(feet, X - np.outer((X @ w + b) / norm, unit))
assert np.allclose(feet + (y * geometric)[:, None] * unit, X)
assert np.allclose(np.linalg.norm(X - feet, axis=1), geometric)
assert np.allclose(geometry.distance(plane, [[0, 0]]), abs(b) / norm)

i = (y * geometric).argsort()[-3]
far, at, foot = X[i], feet[i], geometry.projection(plane, [[0, 0]])[0]

fig, ax = plt.subplots(figsize=(6.6, 5.0), layout="constrained")
ax.contour(xx, yy, f, levels=[0], colors="black", linewidths=2.4)
ax.scatter(*X.T, color=GREY, s=12, alpha=0.35, lw=0)
label = {"textcoords": "offset points", "fontsize": 13}
arrow = {"arrowstyle": "-|>", "mutation_scale": 16, "shrinkA": 0, "shrinkB": 0}
ax.annotate("", foot, (0, 0), arrowprops={**arrow, "arrowstyle": "<|-|>", "color": RED, "lw": 1.6})
ax.annotate(r"$|b|\,/\,\|w\|$", foot / 2, (-58, 10), color=RED, **label)
ax.plot(0, 0, "o", color=RED, ms=6)
ax.annotate("origin", (0, 0), (-50, -4), color=RED, **label)
ax.annotate("", far, at, arrowprops={**arrow, "color": GREEN, "lw": 2.6})
start = foot + 1.3 * unit @ [[0, 1], [-1, 0]]
ax.annotate("", start + unit, start, arrowprops={**arrow, "color": BLUE, "lw": 2})
ax.annotate(r"$w\,/\,\|w\|$", start + unit / 2, (-52, 6), color=BLUE, **label)
ax.annotate(r"$\gamma^{(i)}$", (far + at) / 2, (10, -14), color=GREEN, **label)
ax.plot(*far, "^", color=ORANGE, ms=10, mec="white")
ax.plot(*at, "s", color="black", ms=7)
ax.annotate(r"$x^{(i)}$", far, (8, 4), **label)
ax.annotate(r"$\mathrm{proj}(x^{(i)})$", at, (12, -6), **label)
ax.set(xlim=(-1.6, 4.0), ylim=(-2.0, 2.5), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
ax.set_title("The geometric margin is the length of the green arrow")
plt.show()

# %%
# Problems (2) to (5) have one answer
# -----------------------------------
#
# Problem (2), the largest functional margin, has no solution as it stands: :math:`\kappa (w, b)`
# is the same line with a functional margin :math:`\kappa` times larger. There are two ways out.
# Problem (3) fixes the length of :math:`w` to 1; problems (4) and (5) fix the functional margin to
# 1 and make :math:`w` short.

for kappa in (2.0, 10.0, 1000.0):
    scaled = kappa * w, kappa * b
    assert np.isclose(geometry.functional_margin(scaled, X, y).min(), kappa)
    assert np.isclose(geometry.geometric_margin(scaled, X, y).min(), gamma)

# %%
# In the direction :math:`u(\theta)` the shortest feasible vector of (4) and (5) is
# :math:`w = u(\theta) / \gamma(\theta)`. So :math:`1 / \lVert w \rVert` is :math:`\gamma(\theta)`
# itself, and :math:`\frac12 \lVert w \rVert^2` is :math:`1 / 2 \gamma(\theta)^2`: a falling
# function of it, lowest where that is highest. That value is the machine's certified primal.

angles, gammas = degrees[separating], margins[separating]
lengths = np.linalg.norm(u[separating] / gammas[:, None], axis=1)
assert np.allclose(1 / lengths, gammas)
assert gammas.argmax() == (1 / lengths).argmax() == (0.5 * lengths**2).argmin()
assert np.isclose(0.5 * lengths.min() ** 2, solution.certificate.primal, rtol=1e-3)

answer = np.degrees(np.arctan2(w[1], w[0]))
fig, axes = plt.subplots(2, 1, figsize=(6.6, 5.6), sharex=True, layout="constrained")
axes[0].plot(angles, gammas, color=BLUE, lw=2.2)
axes[0].plot(answer, gamma, "o", color=RED, ms=9, zorder=3)
axes[0].set(ylabel=r"$\gamma$  or  $1\,/\,\|w\|$", ylim=(0, None))
axes[0].set_title("(3) and (4) are maximised, (5) is minimised, by one direction")
axes[0].text(0.09, 0.85, "(3), (4)", transform=axes[0].transAxes, fontsize=13, color=BLUE)
axes[1].semilogy(angles, 0.5 * lengths**2, color=ORANGE, lw=2.2)
axes[1].plot(answer, solution.certificate.primal, "o", color=RED, ms=9, zorder=3)
axes[1].set(ylabel=r"$\frac{1}{2}\,\|w\|^2$", xlabel=r"direction $\theta$ of $w$ in degrees")
axes[1].set(ylim=(0.7 * solution.certificate.primal, 1e4))
axes[1].text(0.09, 0.85, "(5)", transform=axes[1].transAxes, fontsize=13, color=ORANGE)
for ax in axes:
    ax.axvline(answer, color=RED, lw=1, ls="--", label="the machine")
axes[0].legend(frameon=False, loc="upper right")
plt.show()
