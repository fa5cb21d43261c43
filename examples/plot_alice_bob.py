r"""
Alice and Bob play for a hyperplane
===================================

N0 eq. (47) reads the support vector machine as a game: Alice names a hyperplane :math:`(w, b)` and
wants :math:`L` small, Bob answers with multipliers :math:`\alpha \ge 0` and wants it large. What
Alice can make sure of is the primal, what Bob can make sure of is the dual, and neither can gain by
leaving the saddle point where the two are equal, N0 eq. (46).
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import geometry, kernels, problems
from maxmargin.duality import alice_bob
from maxmargin.solvers import solve

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"

# %%
# The smallest game
# -----------------
#
# Two points, +1 at 1 and -1 at -1. By symmetry Alice plays b = 0 and only chooses w; Bob must play
# the same a on both points, or Alice sends b to infinity and wins everything, N0 eq. (50). Then
# :math:`L(w, a) = \frac12 w^2 - 2a (w - 1)`.

game = alice_bob([[1.0], [-1.0]], [1, -1])
w_axis, a_axis = np.linspace(0, 2, 81), np.linspace(0, 1.2, 73)
L = np.array([[game.lagrangian([w, 0], [a, a]) for w in w_axis] for a in a_axis])
ww, aa = np.meshgrid(w_axis, a_axis)
assert np.allclose(L, ww**2 / 2 - 2 * aa * (ww - 1))
assert game.dual_function([0.5, 0.4]) == -np.inf  # unbalanced: Alice runs away with b

# %%
# If Alice moves first and leaves a margin below 1, Bob raises a without end; she must play w ≥ 1
# and will pay :math:`\frac12 w^2`. If Bob moves first, Alice answers w = 2a and he gets
# :math:`2a - 2a^2`. Both end at w = 1, a = ½, where L = ½.

alice_pays = np.array([game.primal_function([w, 0]) for w in w_axis])
bob_gets = game.dual_function(np.column_stack([a_axis, a_axis]))
assert np.isposinf(alice_pays[w_axis < 1]).all()
assert np.allclose(bob_gets, 2 * a_axis - 2 * a_axis**2)
assert np.isclose(alice_pays.min(), 0.5)
assert np.isclose(bob_gets.max(), 0.5)
assert game.saddle_violation([1, 0], [0.5, 0.5]) <= 1e-12
assert game.kkt([1, 0], [0.5, 0.5]).worst <= 1e-12
assert np.linalg.eigvals([[-1, 2], [-2, 0]]).real.max() < 0  # small steps of both spiral inwards

fig, axes = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
image = axes[0].contourf(ww, aa, L, levels=24, cmap="cividis", alpha=0.85)
fig.colorbar(image, ax=axes[0], label="$L(w, a)$", ticks=[-1, 0, 1, 2])
slope_w, slope_a = np.gradient(L, w_axis, axis=1), np.gradient(L, a_axis, axis=0)
axes[0].streamplot(w_axis, a_axis, -slope_w, slope_a, color="white", linewidth=0.7, density=0.9)
axes[0].plot(2 * a_axis, a_axis, color=ORANGE, lw=2.5, label="Alice's best answer")
axes[0].plot([1, 1], [0, 1.2], color=RED, lw=2.5, label="Bob: up on the left, down on the right")
axes[0].plot(1, 0.5, "o", color="black", ms=11, mec="white", zorder=4)
axes[0].set(xlabel="Alice's $w$", ylabel="Bob's $a$", xlim=(0, 2), ylim=(0, 1.2))
axes[0].set_title("Each follows his own interest, and both reach the saddle")
axes[0].legend(loc="upper left", fontsize="small")
may = w_axis >= 1
axes[1].plot(
    w_axis[may], alice_pays[may], color=ORANGE, lw=2.5, label="primal: Alice's $w$, then Bob"
)
axes[1].axvspan(0, 1, ymin=0, color=ORANGE, alpha=0.12, lw=0)
axes[1].text(0.06, 1.55, "for $w < 1$ Bob\nmakes it infinite", color="#8a5f00")
axes[1].plot(
    2 * a_axis, bob_gets, color=RED, lw=2.5, label="dual: Bob's $a$, then Alice's $w = 2a$"
)
axes[1].plot(1, 0.5, "o", color="black", ms=11, mec="white", zorder=4)
axes[1].axhline(0.5, color="black", lw=1, ls="--")
axes[1].set(xlabel="$w$", ylabel="$L$", xlim=(0, 2), ylim=(-0.1, 2.6))
axes[1].set_title("What each can make sure of: no duality gap")
axes[1].legend(loc="upper right", fontsize="small")
plt.show()

# %%
# A game on data
# --------------
#
# A plane that classifies everything correctly is not yet safe: what Bob punishes is a functional
# margin below 1, N0 eq. (48), not only a misclassification. Shrinking the machine's own plane by
# 10% is the same line, has no error, and loses everything.

rng = np.random.default_rng(12)
X = np.vstack([rng.normal((-1.4, -0.5), 0.7, (9, 2)), rng.normal((1.3, 0.8), 0.7, (9, 2))])
y = np.repeat([-1, 1], 9)
game = alice_bob(X, y)
solution = solve(problems.hard_margin(kernels.Linear().gram(X), y), tol=1e-12)
w, b = plane = geometry.hyperplane(solution)
alpha = solution.alpha
best = game.primal_function([*w, b])

assert (geometry.functional_margin((0.9 * w, 0.9 * b), X, y) > 0).all()
assert game.primal_function(0.9 * np.array([*w, b])) == np.inf
assert np.isclose(best, game.dual_function(alpha).item())  # N0 eq. (46)
assert np.isclose(best, solution.certificate.primal)
assert game.saddle_violation([*w, b], alpha) <= 1e-9
assert game.primal_function(1.1 * np.array([*w, b])) > best  # safe, but dearer

# %%
# The equilibrium is also one of mechanics. Let every point push against the plane with the force
# :math:`\alpha_i` that Bob gives it, each class from its side. The balancing equation (50) says
# that the forces cancel, and :math:`w = \sum_i \alpha_i y_i x_i`, (49), that their torques do: the
# plane stays where it is. Only support vectors push, (45).

unit = w / np.linalg.norm(w)
forces = -np.outer(alpha * y, unit)
torques = X[:, 0] * forces[:, 1] - X[:, 1] * forces[:, 0]
assert np.allclose(forces.sum(axis=0), 0)
assert np.isclose(torques.sum(), 0)
assert np.allclose(alpha * (geometry.functional_margin(plane, X, y) - 1), 0, atol=1e-9)
support = alpha > 0

xx, yy = np.meshgrid(np.linspace(-3.4, 3.4, 200), np.linspace(-2.2, 1.8, 200))
fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
h = w[0] * xx + w[1] * yy + b
ax.contourf(xx, yy, h, [-1, 1], colors=[GREEN], alpha=0.12)
ax.contour(
    xx, yy, h, [-1, 0, 1], colors="black", linestyles=[":", "-", ":"], linewidths=[1, 2.4, 1]
)
ax.scatter(*X[y < 0].T, color=BLUE, s=42, ec="white", lw=0.6, zorder=3)
ax.scatter(*X[y > 0].T, color=ORANGE, marker="^", s=52, ec="white", lw=0.6, zorder=3)
arrow = {"arrowstyle": "-|>", "mutation_scale": 18, "color": RED, "lw": 2.4, "shrinkB": 0}
for x, force, a in zip(X[support], forces[support], alpha[support], strict=True):
    ax.annotate("", x + 0.7 * force / alpha.max(), x, arrowprops=arrow, zorder=4)
    place = -34 * force / a + (-24, -4)
    ax.annotate(rf"$\alpha = {a:.2f}$", x, place, textcoords="offset points", color=RED)
ax.set(xlim=(-3.4, 3.4), ylim=(-2.2, 1.8), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
ax.set_title("Bob's forces on Alice's line: they sum to nothing and turn nothing")
plt.show()
