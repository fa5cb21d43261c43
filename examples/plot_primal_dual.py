r"""
Primal or dual? When features outnumber points
==============================================

The primal has one variable per feature, the dual one per point (N3). With n = 50 points the dual
stays small whatever the number of features d is: they enter once, when the 50 × 50 inner products
are computed, and never again. Here the same machine is trained both ways for d from 10 to 10000,
and the two objectives meet at the optimum as strong duality says, N0 eq. (46).
"""

import timeit

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import kernels, problems
from maxmargin.solvers import SMO, solve

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"
n, C = 50, 1.0
y = np.repeat([-1.0, 1.0], n // 2)


def draw(d):
    """Draw n points in d dimensions, their two classes a distance 2 apart."""
    X = np.random.default_rng(d).normal(size=(n, d))
    X[:, 0] += y
    return X


# %%
# The primal, by Newton's method
# ------------------------------
#
# With squared slacks the primal :math:`\frac12 \lVert w \rVert^2 + C \sum \xi_i^2` is smooth, and
# Newton's method is short: minimise exactly for the points that now lie inside the margin, and
# repeat until these no longer change. Each round solves a linear system in the d + 1 unknowns
# :math:`(w, b)`.


def newton(X):
    """Return (w, b) and the value of the primal."""
    Z = np.hstack([X, np.ones((n, 1))])
    penalty = np.diag(np.append(np.ones(X.shape[1]), 0.0))
    inside = np.ones(n, dtype=bool)
    while True:
        A = Z[inside]
        v = np.linalg.solve(penalty + 2 * C * A.T @ A, 2 * C * A.T @ y[inside])
        before, inside = inside, y * (Z @ v) < 1
        if (inside == before).all():
            break
    slack = np.maximum(0, 1 - y * (Z @ v))
    return v, 0.5 * v[:-1] @ v[:-1] + C * slack @ slack


# %%
# The dual, by SMO
# ----------------
#
# The dual knows the points only through their inner products. The Gram matrix costs about
# :math:`n^2 d / 2` multiplications, once; afterwards nothing depends on d. Both ways lead to the
# same number and the same plane :math:`w = \sum_i \alpha_i y_i x_i`, N0 eq. (49).

sizes = [10, 30, 100, 300, 1000, 3000, 10000]
seconds = {"primal": [], "gram": [], "dual": []}


def best(job, repeat=5):
    """Return the shortest of a few times."""
    return min(timeit.repeat(job, number=1, repeat=repeat))


for d in sizes:
    X = draw(d)
    K = X @ X.T
    problem = problems.squared_hinge(kernels.Precomputed().gram(K), y, C=C)
    solution = solve(problem, tol=1e-9)
    assert problem.n_variables == n
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap < 1e-9
    seconds["gram"].append(best(lambda X=X: X @ X.T))
    seconds["dual"].append(best(lambda problem=problem: solve(problem, tol=1e-9)))
    if d <= 1000:  # at d = 10000 each round would solve for 10001 unknowns, with an 800 MB matrix
        v, value = newton(X)
        assert np.isclose(value, solution.certificate.dual, rtol=1e-8)
        assert np.allclose(v[:-1], (solution.alpha * y) @ X, atol=1e-6)
        assert np.isclose(v[-1], solution.b, atol=1e-6)
        seconds["primal"].append(best(lambda X=X: newton(X)))

fig, axes = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
axes[0].loglog(sizes, [d + 1 for d in sizes], color=ORANGE, marker="^", label="primal: d + 1")
axes[0].loglog(sizes, np.full(len(sizes), n), color=BLUE, marker="o", label="dual: n = 50")
axes[0].axvline(n, color=GREY, lw=1, ls=":")
axes[0].set(xlabel="number of features d", title="Variables of the quadratic program")
for name, colour, marker, text in (
    ("primal", ORANGE, "^", "primal, Newton"),
    ("dual", BLUE, "o", "dual, SMO on a given Gram matrix"),
    ("gram", GREEN, "s", "the Gram matrix, once"),
):
    measured = seconds[name]
    axes[1].loglog(sizes[: len(measured)], measured, color=colour, marker=marker, label=text)
axes[1].set(xlabel="number of features d", ylabel="seconds", ylim=(None, 1))
axes[1].set_title("Time, best of five")
for ax in axes:
    ax.legend(frameon=False)
plt.show()

# %%
# One Gram matrix for every C
# ---------------------------
#
# The soft margin of N0 eq. (62) with 10000 features, for many prices of slack: the inner products
# are computed once and serve all of them. The primal and dual objectives enclose the optimum at
# every step of the solver; at its end nothing is left between them. Beyond some C the machine no
# longer changes: these points are separable, and it has become the hard margin (N3).

gram = kernels.Precomputed().gram(draw(10000) @ draw(10000).T)
hard = solve(problems.hard_margin(gram, y), tol=1e-12)
prices = np.logspace(-6, -2, 9)
runs = [
    solve(problems.soft_margin(gram, y, C=price), SMO(record_every=1), tol=1e-12)
    for price in prices
]
for run in runs:
    assert run.certificate.relative_gap < 1e-6
    assert (run.history.primal >= run.certificate.dual * (1 - 1e-9)).all()
    assert (np.diff(run.history.dual) >= -1e-12 * run.certificate.dual).all()
values = [run.certificate.primal for run in runs]
assert (np.diff(values) >= -1e-9 * hard.certificate.primal).all()
assert np.isclose(values[-1], hard.certificate.primal)
assert (runs[-1].alpha < prices[-1]).all()  # no point is held by its price any more

fig, axes = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
history = runs[-1].history
axes[0].plot(history.iteration, history.primal, color=ORANGE, lw=2, label="primal")
axes[0].plot(history.iteration, history.dual, color=BLUE, lw=2, label="dual")
axes[0].fill_between(history.iteration, history.dual, history.primal, color=GREEN, alpha=0.12, lw=0)
axes[0].axhline(hard.certificate.primal, color="black", lw=1, ls="--", label="the optimum")
axes[0].set(xlabel="pair steps of SMO", ylim=(0, 3 * hard.certificate.primal), xlim=(0, 150))
axes[0].set_title(f"The optimum lies between the two, C = {prices[-1]:g}")
axes[1].semilogx(prices, values, color=RED, marker="D", label="soft margin")
axes[1].axhline(hard.certificate.primal, color="black", lw=1, ls="--", label="hard margin")
axes[1].set(xlabel="price of slack C", ylabel="primal = dual", ylim=(0, None))
axes[1].set_title("Ten answers from one Gram matrix")
for ax in axes:
    ax.legend(frameon=False)
plt.show()
