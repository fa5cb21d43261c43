r"""
Seven solvers, one optimum
==========================

Every solver of the library gets the same soft margin, and every point it passes through is
certified: its dual value lies below the optimum, its primal value above (N0 eq. (28)), and the two
meet there, eq. (46). N0's Algorithm 1, N1's heuristics and the SMO of production move two variables
at a time; ADMM (N4) and an interior-point method move all of them; without the bias, dual
coordinate descent moves one, and Pegasos does not look at the dual at all (N2's alternatives).
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import kernels, problems
from maxmargin.displays import ConvergenceDisplay
from maxmargin.solvers import SMO, DualCoordinate, Pegasos, PlattSMO, TextbookSMO, solve
from maxmargin.solvers.admm import ADMM
from maxmargin.solvers.qp import QP

rng = np.random.default_rng(0)
n, C = 100, 1.0
y = np.repeat([-1.0, 1.0], n // 2)
X = rng.normal(size=(n, 2)) + 0.7 * np.outer(y, [1.0, 0.6]) + [0.4, 0.0]
gram = kernels.RBF(sigma=1.0).gram(X)
with_bias = problems.soft_margin(gram, y, C=C)
without = problems.soft_margin(gram, y, C=C, bias=False)

# %%
# Two problems, because a bias ties the variables together
# --------------------------------------------------------
#
# The bias b brings the constraint :math:`\sum_i \alpha_i y_i = 0`, N0 eq. (50), and with it the
# need for a partner: a single :math:`\alpha_i` cannot move alone. Solvers that move one variable
# therefore solve the problem without b, which stands beside the other one. Its optimum is a little
# higher, since b = 0 is only one of the choices.

runs = {
    "with bias": {
        "SMO": solve(with_bias, SMO(record_every=2, record_steps=True), tol=1e-4),
        "PlattSMO": solve(with_bias, PlattSMO(record_every=10, record_steps=True), tol=1e-4),
        "TextbookSMO": solve(
            with_bias, TextbookSMO(max_passes=20, record_every=1, record_steps=True), tol=1e-4
        ),
        "ADMM": solve(with_bias, ADMM(record_every=1, polish=False), tol=1e-4),
        "QP": solve(with_bias, QP(record_every=1), tol=1e-4),
    },
    "without bias": {
        "SMO": solve(without, SMO(record_every=5, record_steps=True), tol=1e-4),
        "DualCoordinate": solve(
            without, DualCoordinate(record_every=1, record_steps=True), tol=1e-4
        ),
        "Pegasos": solve(without, Pegasos(record_every=100), tol=1e-4),
        "ADMM": solve(without, ADMM(record_every=1, polish=False), tol=1e-4),
        "QP": solve(without, QP(record_every=1), tol=1e-4),
    },
}
best = {kind: solutions["QP"].certificate.dual for kind, solutions in runs.items()}
assert best["with bias"] < best["without bias"]

# %%
# One currency
# ------------
#
# An iteration is a pair for one solver, a sweep for the next and a call of Clarabel for another.
# What all of them do is multiply with rows of the Gram matrix, n products each, so we count those:
# one row for every variable that a step moves, and for every sample that Pegasos draws; n rows for
# an iteration of ADMM, which solves with a triangular factor twice; and n²/3 rows for a
# factorisation, of which ADMM needs one for each penalty it tries and the interior-point method one
# in each of its steps. That is the count on the axes below, the same on every machine.

factorisation = n * n / 3


def rows_of_K(solution):
    """How many rows of K were multiplied with at each record of the history."""
    at, count = solution.history.iteration, solution.counters
    if "factorisations" in count:  # ADMM
        return (n * at + factorisation * count["factorisations"]) * (at > 0)
    if "interior_steps" in count:  # QP
        return factorisation * count["interior_steps"] * (at > 0)
    if not solution.steps:  # Pegasos
        return at
    when = np.array([step.iteration for step in solution.steps])
    rows = np.array([1 if step.j is None else 2 for step in solution.steps])
    return np.array([rows[when <= t].sum() for t in at])


histories = {
    kind: {
        name: {**dict(run.history), "iteration": rows_of_K(run)}
        for name, run in solutions.items()
        if name != "QP"  # it has no curve: one call, one answer
    }
    for kind, solutions in runs.items()
}
for tables in histories.values():  # what ADMM shows begins with its first iteration
    tables["ADMM"] = {name: column[1:] for name, column in tables["ADMM"].items()}

# %%
# What each of them reached
# -------------------------
#
# The gap is what is proven, not what is hoped. TextbookSMO stops when nothing has changed for
# ``max_passes`` sweeps, which proves nothing: a partner that helps may not have been drawn, or
# helps by less than ``tol``. So it does not call itself optimal unless the KKT violation says so.
# Pegasos stops after the number of steps it was given.

print(f"{'':<14}{'':<16}{'iterations':>10}{'rows of K':>11}{'relative gap':>14}{'SVs':>5}  status")
for kind, solutions in runs.items():
    for name, run in solutions.items():
        c, rows = run.certificate, rows_of_K(run)[-1]
        print(
            f"{kind:<14}{name:<16}{run.n_iter:>10}{rows:>11.0f}{c.relative_gap:>14.1e}"
            f"{np.count_nonzero(run.alpha):>5}  {run.status}"
        )

# %%
# Everything that the notes promise is checked. Weak duality holds at every record of every run:
# no dual value above the optimum, no primal value below it. The dual of those that take exact steps
# never falls. The exact solvers agree with the interior-point method, and Pegasos, by its own
# primal, comes within a hundredth.

for kind, solutions in runs.items():
    slack = 1e-9 * best[kind]
    for name, run in solutions.items():
        assert (run.history.dual <= best[kind] + slack).all()
        assert (run.history.primal >= best[kind] - slack).all()
        assert np.allclose(run.history.gap, run.history.primal - run.history.dual, atol=slack)
        if name in ("SMO", "PlattSMO", "TextbookSMO", "DualCoordinate"):
            assert (np.diff(run.history.dual) >= -1e-12 * best[kind]).all()
        if name != "Pegasos":
            assert np.isclose(run.certificate.dual, best[kind], rtol=1e-6)
            assert np.isclose(run.certificate.primal, best[kind], rtol=1e-5)
            assert run.certificate.kkt_violation <= 1e-4 or name == "TextbookSMO"

pegasos = runs["without bias"]["Pegasos"]
assert pegasos.status == "iteration_limit"
assert best["without bias"] < pegasos.counters["primal"] < 1.01 * best["without bias"]
pairs = {name: len(runs["with bias"][name].steps) for name in ("SMO", "PlattSMO", "TextbookSMO")}
assert pairs["SMO"] < min(pairs["PlattSMO"], pairs["TextbookSMO"]) / 4  # the choice of pairs pays

# %%
# The curves
# ----------
#
# ``ConvergenceDisplay`` draws them, primal values solid and dual values dashed. SMO with the pairs
# of production is done before ADMM has factored its matrix. N0's random partners and N1's
# heuristics need about ten times its work here. The primal value of a point on the way need not
# fall with every step. ADMM keeps its constraints only in the limit, so its first iterates, rounded
# to feasible points, are far off; the interior-point method is a single star.

assert rows_of_K(runs["with bias"]["SMO"])[-1] < factorisation
assert runs["with bias"]["ADMM"].history.dual.min() < 0  # worse than doing nothing
COLOURS = {
    "SMO": "#0072B2",
    "PlattSMO": "#D55E00",
    "TextbookSMO": "#009E73",
    "DualCoordinate": "#E69F00",
    "Pegasos": "#56B4E9",
    "ADMM": "#CC79A7",
}
fig, axes = plt.subplots(1, 2, figsize=(12.4, 5.2), layout="constrained")
for ax, (kind, tables) in zip(axes, histories.items(), strict=True):
    ax.set(xlabel="rows of the Gram matrix multiplied with", title=kind.capitalize())
    ax.set(ylim=(-5, 1.3 * n * C))  # at α = 0 the dual is 0 and the primal nC
    display = ConvergenceDisplay.from_solutions(
        tables, ax=ax, xscale="log", colors=[COLOURS[name] for name in tables]
    )
    display.legend_.set_loc("upper right")
    ax.axhline(best[kind], color="black", lw=0.8, ls=":", zorder=1)
    star = rows_of_K(runs[kind]["QP"])[-1], best[kind]
    ax.plot(*star, "*", color="black", ms=14, zorder=5)
    ax.annotate("QP", star, (0, -18), textcoords="offset points", ha="center")
    ax.annotate("optimum", (0, best[kind]), (4, 4), textcoords="offset points", fontsize="small")
plt.show()

# %%
# How fast, on a logarithmic scale
# --------------------------------
#
# The relative gap of the same runs. Where a curve falls steeply, every further row brings digits.
# Pegasos has little more than one when the others are done. Its gap is that of the nearest point in
# the box :math:`0 \le \alpha \le C`, since only such a point proves anything; the primal of its
# own w is closer to the optimum.

assert 1e-2 < pegasos.certificate.relative_gap < 1e-1
assert pegasos.counters["primal"] < pegasos.certificate.primal
fig, axes = plt.subplots(1, 2, figsize=(12.4, 4.6), sharey=True, layout="constrained")
for ax, (kind, tables) in zip(axes, histories.items(), strict=True):
    ax.set(xlabel="rows of the Gram matrix multiplied with", title=kind.capitalize())
    display = ConvergenceDisplay.from_solutions(
        tables,
        ax=ax,
        y="relative gap",
        xscale="log",
        colors=[COLOURS[name] for name in tables],
    )
    display.legend_.set_loc("lower left")
axes[1].set_ylabel("")
plt.show()
