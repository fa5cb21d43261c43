r"""
Constraints and the Lagrangian
==============================

Before the support vector machine has a dual, N0 section 3.1 solves two tiny problems by looking at
them: the points of a hyperbola that are nearest to the origin, and the point of a half-plane that
is. Gradients that are parallel, a multiplier that is zero or not, and a saddle: everything the
machine will need is already here. The pictures are N0's Figures 3, 4 and 5.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin.duality import half_plane, hyperbola

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"
ARROW = {"arrowstyle": "-|>", "mutation_scale": 15, "shrinkA": 0, "shrinkB": 0, "lw": 2.2}

PALE = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
LABEL = {"textcoords": "offset points", "fontsize": 13, "bbox": PALE}

grid = np.linspace(-3.4, 3.4, 401)
xx, yy = np.meshgrid(grid, grid)
radii = np.array([0.5, 1, np.sqrt(2), 2, 2.5, 3, 3.5, 4])  # contours of f, by the norm of w

# %%
# An equality: the hyperbola of problem (7)
# -----------------------------------------
#
# Minimise :math:`f(w) = \frac12 \lVert w \rVert^2` on :math:`w_1 w_2 = 1`. Where :math:`\nabla f`
# is not parallel to :math:`\nabla g`, what remains of :math:`-\nabla f` along the curve shows where
# to walk, N0 eqs. (10) and (11). Where it is parallel there is nowhere to go, eq. (12). The library
# calls an equality h, as N2 does, and keeps g for inequalities.

problem = hyperbola()


def along_the_curve(w):
    """The part of −∇f that is tangent to the curve, N0 eq. (11)."""
    normal = problem.grad_h(w)
    tangent = np.array([-normal[1], normal[0]])
    return -(problem.grad_f(w) @ tangent) / (tangent @ tangent) * tangent


stationary, moving = np.array([-1.0, -1.0]), np.array([1.9, 1 / 1.9])
step = along_the_curve(moving)
assert np.allclose(along_the_curve(stationary), 0)
assert np.linalg.norm(step) > 1
assert problem.f(moving + 0.01 * step) < problem.f(moving)  # downhill, to first order on the curve
assert abs(problem.h(moving + 0.01 * step)) < 0.01 * np.linalg.norm(step)

# %%
# The multiplier is 1 and the norm at the optimum is :math:`\sqrt 2` (N0 says 1). The problem is
# not convex, and yet nothing is lost by going to the dual: its value is 1 as well, N0 eq. (29).

assert problem.kkt(stationary, nu=[1.0]).worst == 0
assert problem.kkt(-stationary, nu=[1.0]).worst == 0
assert problem.kkt(moving, nu=[1.0]).worst > 1
assert np.isclose(np.linalg.norm(stationary), np.sqrt(2))
values = problem.dual_function(nu=np.linspace(-2, 2, 401)[:, None])
assert np.isclose(values.max(), problem.f(stationary))
assert np.isneginf(values).any()  # for a multiplier above 1 the Lagrangian falls without end

fig, ax = plt.subplots(figsize=(6.2, 6), layout="constrained")
ax.contour(xx, yy, np.hypot(xx, yy), levels=radii, colors=GREY, linewidths=0.7)
ax.contour(xx, yy, np.hypot(xx, yy), levels=[np.sqrt(2)], colors="black", linewidths=1.4)
for branch in (grid[grid > 0.28], -grid[grid > 0.28]):
    ax.plot(branch, 1 / branch, color=BLUE, lw=2.6)
for w, colour in ((stationary, "black"), (moving, RED)):
    for gradient, tint, name, width, place in (
        (problem.grad_f(w), ORANGE, r"$\nabla f$", 5, (-22, 8)),
        (0.7 * problem.grad_h(w), GREEN, r"$\nabla g$", 2.2, (8, -8)),
    ):
        tip = w + 0.7 * gradient
        ax.annotate("", tip, w, arrowprops={**ARROW, "color": tint, "lw": width})
        ax.annotate(name, tip, place, color=tint, **LABEL)
    ax.plot(*w, "o", color=colour, ms=9, zorder=4)
ax.axline(moving, moving + step, color=RED, lw=0.8, ls=":")
ax.annotate("", moving + 0.7 * step, moving, arrowprops={**ARROW, "color": RED})
ax.annotate("walk this way", moving + 0.7 * step, (-84, -16), color=RED, **LABEL)
ax.annotate(r"$w^*$", stationary, (8, 4), **LABEL)
ax.text(-3.2, 2.9, r"$g(w) = w_1 w_2 - 1 = 0$", color=BLUE, fontsize=13)
ax.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), aspect="equal", xlabel="$w_1$", ylabel="$w_2$")
ax.set_title(r"Problem (7): the contour $\|w\| = \sqrt{2}$ touches the hyperbola")
plt.show()

# %%
# An inequality: the half-planes of problem (13)
# ----------------------------------------------
#
# Minimise the same :math:`f` on :math:`g(w) = w_1 + w_2 - c \ge 0`. For :math:`c = -3` the origin
# is feasible and the constraint might as well not be there: :math:`\lambda = 0`. For :math:`c = 1`
# it binds: :math:`w^* = (\frac12, \frac12)`, :math:`\lambda = \frac12` and :math:`g(w^*) = 0` (N0
# says :math:`c`). In both cases :math:`\lambda g(w^*) = 0`: complementary slackness, N0 eq. (15).

optima = {c: np.full(2, max(0.0, c / 2)) for c in (-3.0, 1.0)}
for c, w in optima.items():
    problem, lam = half_plane(c), [max(0.0, c / 2)]
    assert problem.kkt(w, lam).worst == 0  # N0 eqs. (22)-(25)
    assert problem.saddle_violation(w, lam) <= 1e-12
    assert lam[0] * problem.g(w) == 0
assert half_plane(-3.0).g(optima[-3.0]) == 3  # inactive
assert half_plane(1.0).g(optima[1.0]) == 0  # active
assert half_plane(1.0).kkt([0, 0], [0]).primal_feasibility == 1  # the free minimum is forbidden

fig, ax = plt.subplots(figsize=(6.2, 6), layout="constrained")
ax.contour(xx, yy, np.hypot(xx, yy), levels=radii, colors=GREY, linewidths=0.7)
for c, colour in ((-3.0, BLUE), (1.0, RED)):
    ax.fill_between(grid, c - grid, 8, color=colour, alpha=0.09, lw=0)
    ax.plot(grid, c - grid, color=colour, lw=2.4)
    start = np.array([c / 2 - 1.3, c / 2 + 1.3])
    ax.annotate("", start + 0.75, start, arrowprops={**ARROW, "color": colour})
    ax.annotate(r"$\nabla g$", start + 0.75, (4, 2), color=colour, **LABEL)
    ax.plot(*optima[c], "o", color=colour, ms=10, zorder=4)
ax.annotate(r"$c = -3$: free, $\lambda = 0$", (0, 0), (12, -18), color=BLUE, **LABEL)
ax.annotate(r"$c = 1$: held, $\lambda = \frac{1}{2}$", (0.5, 0.5), (10, 2), color=RED, **LABEL)
ax.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), aspect="equal", xlabel="$w_1$", ylabel="$w_2$")
ax.set_title("Problem (13): the constraint matters only if it is in the way")
plt.show()

# %%
# The saddle
# ----------
#
# The Lagrangian :math:`L(w, \lambda) = f(w) - \lambda g(w)` of the second half-plane, on the
# diagonal :math:`w_1 = w_2` where the first-order condition puts the optimum. Whoever minimises
# over :math:`w` for every :math:`\lambda` walks along the valley: that is the dual function
# :math:`\tilde L(\lambda) = \min_w L(w, \lambda)`, N0 eq. (27) (a *min*; Figure 5's caption prints
# max). The valley's highest point is the saddle, and it is as high as the constrained minimum.

problem = half_plane(1.0)
w_axis, lam_axis = np.linspace(-0.2, 1.2, 85), np.linspace(0, 1, 81)
L = np.array([[problem.lagrangian([w, w], [lam]) for w in w_axis] for lam in lam_axis])
dual = problem.dual_function(lam_axis[:, None])
assert np.allclose(dual, lam_axis - lam_axis**2)
assert (dual <= L.min(axis=1) + 1e-12).all()
assert np.isclose(dual.max(), problem.f(optima[1.0]))  # strong duality, N0 eq. (29)
feasible = [[w, w] for w in w_axis if w >= 0.5]
assert problem.weak_duality(feasible, lam_axis[:, None]) >= -1e-12  # N0 eq. (28)

fig = plt.figure(figsize=(10.4, 4.9), layout="constrained")
ax = fig.add_subplot(1, 2, 1, projection="3d", computed_zorder=False)
ww, ll = np.meshgrid(w_axis, lam_axis)
ax.plot_surface(ww, ll, L, cmap="cividis", alpha=0.85, lw=0, rcount=81, ccount=85)
ax.plot(lam_axis, lam_axis, dual, color=ORANGE, lw=3, zorder=5)
at = lam_axis.searchsorted(0.5)
ax.plot(w_axis, np.full_like(w_axis, 0.5), L[at], color="white", lw=2, zorder=5)
ax.scatter(0.5, 0.5, 0.25, color=RED, s=80, zorder=6, depthshade=False)
ax.set(xlabel="$w_1 = w_2$", ylabel=r"$\lambda$", zlabel="$L$")
ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1], zticks=[0, 0.5, 1])
ax.view_init(elev=24, azim=-60)
ax.set_title(r"$L(w, \lambda)$ and the valley $\tilde{L}(\lambda)$ in it")

ax = fig.add_subplot(1, 2, 2)
for k in range(0, len(w_axis), 6):
    feasible = w_axis[k] > 0.5
    ax.plot(
        lam_axis, L[:, k], color=BLUE if feasible else GREY, lw=0.9, ls="-" if feasible else ":"
    )
ax.plot(
    lam_axis, dual, color=ORANGE, lw=3.5, label=r"$\tilde{L}(\lambda)$, the lowest of all lines"
)
ax.plot([], color=BLUE, lw=1, label=r"$L(w, \cdot)$ for feasible $w$: falling")
ax.plot([], color=GREY, lw=1, ls=":", label=r"$L(w, \cdot)$ for infeasible $w$: rising")
ax.axhline(0.25, color=RED, lw=1.6, label=r"$L(w^*, \cdot) = f(w^*)$")
ax.plot(0.5, 0.25, "o", color=RED, ms=10, zorder=4)
ax.set(xlabel=r"$\lambda$", ylabel="$L$", xlim=(0, 1), ylim=(-0.45, 0.9))
ax.set_title("No value of the dual exceeds a feasible value of the primal")
ax.legend(frameon=False, loc="lower center", fontsize="small")
plt.show()
