r"""
Feature maps and the kernels that replace them
==============================================

Points that no line separates can become separable after a map :math:`\psi` into a larger space,
and a machine that only needs inner products never has to go there: a kernel gives
:math:`k(x, z) = \psi(x) \cdot \psi(z)`, N0 eq. (58). This script works N0's Examples 3.7, 3.8 and
3.9, counts the terms that N3 counts, and takes the Gaussian kernel apart into polynomials of all
orders.
"""

import math
import timeit

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SVC, geometry, kernels, problems
from maxmargin.solvers import solve

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"
rng = np.random.default_rng(0)

# %%
# Example 3.7: three points on a line
# -----------------------------------
#
# The labels of -1, 0, 1 are +, -, +. No threshold separates them, and the solver proves it: there
# is no hyperplane with a positive margin. On the parabola :math:`\psi(x) = (x, x^2)` the line with
# :math:`w = (0, 1)`, :math:`b = -\frac12` does.

x = np.array([[-1.0], [0.0], [1.0]])
y = np.array([1, -1, 1])
refused = solve(problems.hard_margin(kernels.Linear().gram(x), y))
assert refused.status == "infeasible"
print(refused.certificate.proof)

psi = np.hstack([x, x**2])
assert np.allclose(geometry.functional_margin(([0, 1], -0.5), psi, y), 0.5)

# %%
# That line is in fact the one of largest margin. The hard margin only writes it differently, with a
# functional margin of 1 instead of ½: :math:`w = (0, 2)`, :math:`b = -1`. And it finds it without
# :math:`\psi`, from the kernel :math:`k(x, z) = xz + (xz)^2`.

explicit = solve(problems.hard_margin(kernels.Linear().gram(psi), y), tol=1e-9)
w, b = geometry.hyperplane(explicit)
assert np.allclose(w, [0, 2])
assert np.isclose(b, -1)
assert np.allclose(geometry.geometric_margin(explicit), 0.5)
assert np.allclose(geometry.geometric_margin(([0, 1], -0.5), psi, y), 0.5)

kernel = kernels.Linear() + kernels.Linear() ** 2
assert np.allclose(kernel(x), psi @ psi.T)
implicit = solve(problems.hard_margin(kernel.gram(x), y), tol=1e-9)
assert np.allclose(implicit.alpha, [1, 2, 1])
assert np.allclose(implicit.alpha, explicit.alpha)
assert np.allclose(geometry.decision(implicit), geometry.decision(explicit))

t = np.linspace(-1.5, 1.5, 201)[:, None]
assert np.allclose(geometry.decision(implicit, t), 2 * t[:, 0] ** 2 - 1)
fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
axes[0].axhline(0, color=GREY, lw=1)
axes[0].plot(t, geometry.decision(implicit, t), color=GREEN, lw=2, label="$h(x) = 2x^2 - 1$")
axes[0].set(xlabel="$x$", ylim=(-1.4, 2.4), title="In the input space: a parabola decides")
axes[1].plot(t, t**2, color=GREY, lw=1.2, label=r"$\psi(x) = (x, x^2)$")
axes[1].axhline(0.5, color="black", lw=2, label=r"$w \cdot \psi(x) + b = 0$")
axes[1].axhspan(0, 1, color=GREEN, alpha=0.14, lw=0)
axes[1].set(xlabel="$x$", ylabel="$x^2$", ylim=(-0.4, 2.2), title="In the feature space: a line")
for ax, height in zip(axes, (0 * x[:, 0], psi[:, 1]), strict=True):
    ax.scatter(x[y < 0], height[y < 0], color=BLUE, s=90, zorder=3, ec="white")
    ax.scatter(x[y > 0], height[y > 0], color=ORANGE, s=110, marker="^", zorder=3, ec="white")
    ax.legend(frameon=False, loc="upper center")
plt.show()

# %%
# Example 3.8: the square of the inner product
# --------------------------------------------
#
# :math:`(x \cdot z)^2` in the plane is the inner product of the four products :math:`x_i x_j`, N0
# eq. (59) (which prints w for x). Two of them are equal, so three coordinates are enough, with a
# :math:`\sqrt 2` (N3). In them a circle becomes a plane: :math:`x_1^2 + x_2^2` is linear.

X = rng.normal(size=(60, 2))
square = kernels.Polynomial(degree=2)
four = np.column_stack([X[:, i] * X[:, j] for i in (0, 1) for j in (0, 1)])
three = square.feature_map(X)
assert np.allclose(four @ four.T, square(X))
assert np.allclose(
    three, np.column_stack([X[:, 0] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1], X[:, 1] ** 2])
)
assert np.allclose(three @ three.T, square(X))

angle = rng.uniform(0, 2 * np.pi, 160)
radius = np.concatenate([rng.uniform(0, 0.95, 80), rng.uniform(1.45, 2.0, 80)])
rings = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
inside = np.repeat([-1, 1], 80)
assert solve(problems.hard_margin(kernels.Linear().gram(rings), inside)).status == "infeasible"
solution = solve(problems.hard_margin(square.gram(rings), inside), tol=1e-9)
w, b = geometry.hyperplane(solution)
lifted = square.feature_map(rings)
assert (inside * (lifted @ w + b) >= 1 - 1e-6).all()
assert np.allclose(lifted @ w + b, geometry.decision(solution, rings))

xx, yy = np.meshgrid(np.linspace(-2.1, 2.1, 201), np.linspace(-2.1, 2.1, 201))
h = geometry.decision(solution, np.column_stack([xx.ravel(), yy.ravel()])).reshape(xx.shape)
fig = plt.figure(figsize=(10, 4.7), layout="constrained")
ax = fig.add_subplot(1, 2, 1, aspect="equal")
ax.contourf(xx, yy, h, [-1, 1], colors=[GREEN], alpha=0.14)
ax.contour(xx, yy, h, [0], colors="black", linewidths=2)
ax.set(xlabel="$x_1$", ylabel="$x_2$", title=r"The machine with $k(x, z) = (x \cdot z)^2$")
lift = fig.add_subplot(1, 2, 2, projection="3d")
for label, colour, marker in ((-1, BLUE, "o"), (1, ORANGE, "^")):
    ax.scatter(*rings[inside == label].T, color=colour, marker=marker, s=26, ec="white", lw=0.4)
    lift.scatter(*lifted[inside == label].T, color=colour, marker=marker, s=26, ec="white", lw=0.3)
p, q = np.meshgrid([0, -b / w[0]], [-2.6, 2.6])
lift.plot_surface(p, q, -(w[0] * p + b) / w[2], color=GREEN, alpha=0.35, lw=0)  # w[1] is almost 0
lift.set(xlabel="$x_1^2$", ylabel=r"$\sqrt{2}\,x_1 x_2$", zlabel="$x_2^2$", zlim=(0, 4))
lift.set(xticks=[0, 2, 4], yticks=[-2, 0, 2], zticks=[0, 2, 4])
lift.set_title("The same machine where it is a plane")
lift.view_init(elev=9, azim=-74)
lift.set_box_aspect(None, zoom=1.12)
plt.show()

# %%
# Example 3.9: the Gaussian kernel
# --------------------------------
#
# With bandwidth :math:`\sigma = 1`, :math:`x = (1, 1)` and :math:`z = (2, -3)` are similar by
# :math:`e^{-17/2}`, about 0.0002: the distance is :math:`\sqrt{17}`, four times the bandwidth. The
# larger :math:`\sigma`, the less the distance matters.

pair = [[1.0, 1.0]], [[2.0, -3.0]]
assert np.isclose(kernels.RBF(sigma=1)(*pair).item(), math.exp(-17 / 2))
values = [kernels.RBF(sigma=sigma)(*pair).item() for sigma in (0.5, 1, 2, 4, 8)]
assert values == sorted(values)
assert np.isclose(values[-1], math.exp(-17 / 128))

# %%
# How many features?
# ------------------
#
# Of m features there are :math:`\binom{d + m - 1}{d}` monomials of degree d: for m = 100 and d = 6
# about 1.6 billion (N3). The library refuses to write them down; the kernel, the d-th power of one
# inner product, costs 100 multiplications and a power whatever d is. Both give the same numbers.

assert kernels.Polynomial(6).n_features(100) == math.comb(6 + 100 - 1, 6) == 1_609_344_100
try:
    kernels.Polynomial(6).feature_map(np.ones((1, 100)))
except ValueError as refusal:
    print(refusal)
else:
    raise AssertionError("1.6 billion columns were made")

rows, degrees = rng.normal(size=(100, 12)) / 4, range(1, 7)
seconds = {"explicit features": [], "kernel": []}
for d in degrees:
    power = kernels.Polynomial(d)
    features = power.feature_map(rows)
    assert features.shape == (100, power.n_features(12))
    assert np.allclose(features @ features.T, power(rows))
    explicit = timeit.repeat(lambda k=power: k.feature_map(rows), number=1, repeat=3)
    seconds["explicit features"].append(min(explicit))
    seconds["kernel"].append(min(timeit.repeat(lambda k=power: k(rows), number=1, repeat=30)))

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for m, colour, marker in ((2, BLUE, "o"), (10, GREEN, "s"), (100, RED, "^")):
    counts = [kernels.Polynomial(d).n_features(m) for d in range(1, 9)]
    axes[0].semilogy(range(1, 9), counts, color=colour, marker=marker, label=f"m = {m}")
axes[0].annotate("N3: 1.6 billion terms", (6, 1.609e9), (2.2, 2e10),
                 arrowprops={"arrowstyle": "->", "color": GREY})  # fmt: skip
axes[0].set(
    xlabel="degree d", ylabel="monomials of degree d", title="What the kernel does not write down"
)
axes[0].legend(frameon=False)
for (name, measured), colour, marker in zip(seconds.items(), (ORANGE, BLUE), "^o", strict=True):
    axes[1].semilogy(degrees, measured, color=colour, marker=marker, label=name)
axes[1].set(xlabel="degree d", ylabel="seconds", title="Measured: 100 points with m = 12 features")
axes[1].legend(frameon=False)
plt.show()

# %%
# The Gaussian is a polynomial of every order
# -------------------------------------------
#
# From :math:`\lVert u - v \rVert^2 = \lVert u \rVert^2 + \lVert v \rVert^2 - 2 u \cdot v` and the
# exponential series (N3):
#
# .. math:: e^{-\lVert u - v \rVert^2 / 2} = e^{-\lVert u \rVert^2 / 2}\, e^{-\lVert v \rVert^2 / 2}
#           \sum_{d=0}^{\infty} \frac{(u \cdot v)^d}{d!}.
#
# Kernels add and multiply, so the partial sums are kernels themselves and can be written as they
# stand. Each term adds one order; what is left after order D is at most the tail of the series.

fading = kernels.Callable(
    lambda U, V: np.outer(*(np.exp(-0.5 * np.square(Z).sum(axis=1)) for Z in (U, V)))
)
axis = np.linspace(-3, 3, 121)[:, None]
gaussian = kernels.RBF(sigma=1)(axis)
series, partial = kernels.Polynomial(0), {}
for d in range(1, 41):
    partial[d - 1] = (fading * series)(axis)
    series = series + (1 / math.factorial(d)) * kernels.Polynomial(d)
errors = [np.abs(gaussian - K).max() for K in partial.values()]
assert np.allclose(partial[0], fading(axis, axis))
assert errors[-1] < 1e-12
tails = [sum(9.0**k / math.factorial(k) for k in range(D + 1, 100)) for D in partial]
assert (np.abs(errors) <= np.exp(-9) * np.array(tails) + 1e-12).all()  # |u·v| is at most 9 here

# %%
# A machine does not notice the difference.

machines = [
    SVC(C=10, kernel=kernel).fit(rings, inside)
    for kernel in (kernels.RBF(sigma=1), fading * series)
]
assert np.allclose(*(machine.decision_function(X) for machine in machines), atol=1e-2)

fig, axes = plt.subplots(2, 3, figsize=(9.4, 6.2), layout="constrained", sharex=True, sharey=True)
look = {"extent": (-3, 3, -3, 3), "origin": "lower", "vmin": 0, "vmax": 1, "cmap": "cividis"}
for ax, D in zip(axes.flat, (0, 1, 3, 6, 12, None), strict=True):
    image = ax.imshow(gaussian if D is None else partial[D], **look)
    ax.set_title("the Gaussian itself" if D is None else f"orders up to {D}: error {errors[D]:.2g}")
fig.supxlabel("$u$")
fig.supylabel("$v$")
fig.colorbar(image, ax=axes, shrink=0.8, label="$k(u, v)$")
plt.show()
