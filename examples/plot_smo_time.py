r"""
How the work of SMO grows with n
================================

"The running time is :math:`O(n^3)` in the worst case, but tends to be more like :math:`O(n^2)` in
practice" (N2). Two things make the time: how many pairs are updated, and that every update touches
the errors of all n points. Both can be counted. The count also shows what the choice of the pair is
worth: the solver of production, N1's heuristics and N0's random partner do the same kind of step.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import kernels, problems
from maxmargin.solvers import SMO, PlattSMO, TextbookSMO, solve


def overlapping(n):
    """Make a soft margin of n points from two classes that overlap."""
    rng = np.random.default_rng(n)
    y = np.repeat([-1, 1], n // 2)
    X = rng.normal(size=(n, 2)) + 0.5 * y[:, None]
    return problems.soft_margin(kernels.RBF(sigma=1.0).gram(X), y, C=10.0)


def slope(n, counts):
    """Return the exponent p of the power n^p that fits the counts."""
    return np.polyfit(np.log(n), np.log(counts), 1)[0]


# %%
# Counting
# --------
#
# The classes keep overlapping, so about half of the points are support vectors however many there
# are. Each of them has to be moved to its place at least once: the number of steps cannot grow more
# slowly than n. Without shrinking each step costs n, and a row of the Gram matrix is computed the
# first time it is needed.

few, many = np.array([20, 40, 80, 160]), 160 * 2 ** np.arange(6)
solve(overlapping(20))  # the first call loads what the others find loaded
runs = {
    "SMO, second-order pairs": (many, [solve(overlapping(n), SMO(shrinking=False)) for n in many]),
    "N1's heuristics": (few, [solve(overlapping(n), PlattSMO()) for n in few]),
    "N0's Algorithm 1": (few, [solve(overlapping(n), TextbookSMO(max_passes=20)) for n in few]),
}
production = runs["SMO, second-order pairs"][1]
for n, run in zip(many, production, strict=True):
    support = np.count_nonzero(run.beta)
    assert run.status == "optimal"
    assert 0.3 * n < support < 0.8 * n
    assert run.n_iter >= support / 2  # a step moves two points

pairs, work = {}, {}
for name, (sizes, solutions) in runs.items():
    counts = [run.counters.get("pairs_changed", run.n_iter) for run in solutions]
    pairs[name], work[name] = np.array(counts), np.array(counts) * sizes
    assert 1.5 < slope(sizes, work[name]) < 3  # N2: from O(n²) to O(n³)

rows = np.array([run.counters["rows_computed"] for run in production])
assert 1.7 < slope(many, work["SMO, second-order pairs"]) < 2.3
assert 0.8 < slope(many, rows) < 1.2
assert pairs["N1's heuristics"][-1] > 2 * pairs["SMO, second-order pairs"][0]  # n = 160, both
assert pairs["N0's Algorithm 1"][-1] > 2 * pairs["SMO, second-order pairs"][0]

# %%
# The picture
# -----------
#
# On logarithmic axes a power is a line, and its exponent the slope. The seconds depend on the
# machine that built this page; the counts do not.

LOOKS = (("#0072B2", "o"), ("#E69F00", "^"), ("#CC79A7", "s"))
fig, axes = plt.subplots(1, 3, figsize=(13, 4.5), layout="constrained", sharex=True)
for (name, (sizes, _)), (colour, marker) in zip(runs.items(), LOOKS, strict=True):
    look = {"color": colour, "marker": marker, "lw": 1.8}
    steps = f"{name}: $n^{{{slope(sizes, pairs[name]):.2f}}}$"
    axes[0].loglog(sizes, pairs[name], label=steps, **look)
    axes[1].loglog(
        sizes, work[name], label=f"{name}: $n^{{{slope(sizes, work[name]):.2f}}}$", **look
    )
seconds = [run.seconds for run in production]
axes[2].loglog(many, rows * many, color="#009E73", marker="D", label="entries of the Gram matrix")
axes[2].loglog(many, 1e9 * np.array(seconds), color="#D55E00", marker="v", label="nanoseconds")
for ax, start in ((axes[1], (20, 3e3)), (axes[2], (160, 1.2e4))):
    n = np.array([start[0], many[-1]])
    for power, style in ((2, "--"), (3, ":")):
        guide = start[1] * (n / n[0]) ** power
        ax.loglog(n, guide, color="#6e6e6e", lw=1, ls=style, label=f"$n^{power}$")
axes[0].set_title("Pairs updated")
axes[1].set_title("Work: pairs times n")
axes[2].set_title("Production: entries computed, and time")
for ax in axes:
    ax.set_xlabel("number of points n")
    ax.legend(frameon=False, fontsize="small")
plt.show()
