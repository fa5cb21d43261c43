"""
Perceptron, logistic regression by SGD, and Pegasos
===================================================

At its end N2 says of the algorithms that optimise the primal directly that some are "very similar
to PLA and stochastic gradient descent version of logistic regression". Here they stand beside each
other. All three draw one sample and add a multiple of :math:`y_i x_i` to w; they differ in one
number, how much the sample counts at its margin :math:`m = y_i\\, w \\cdot x_i`:

- the perceptron adds 1 where m ≤ 0,
- logistic regression adds σ(−m) always,
- Pegasos adds 1 where m < 1, which is all the difference to the perceptron but for its shrinking
  of w and its falling step (UML 15.5).
"""

# %%
# The data, and one constant feature in place of b: then no rule needs a line of its own for it.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from maxmargin import kernels, problems
from maxmargin.solvers import solve
from maxmargin.solvers.pegasos import Pegasos

rng = np.random.default_rng(0)
n, C = 150, 0.2
y = np.where(np.arange(n) % 2, 1.0, -1.0)
X = rng.normal(size=(n, 2)) + np.outer(y, [1.3, 0.8]) + [0.5, 0.0]
X1 = np.column_stack([X, np.ones(n)])
lam = 1 / (n * C)  # ½‖w‖² + C Σξ = nC (λ/2 ‖w‖² + mean ξ)
draws = rng.integers(n, size=30_000)

# %%
# Three update rules
# ------------------
# Each takes w, the sample (x, y) and the count t of steps, and returns the next w.


def perceptron(w, x, y, t):
    """PLA: a sample on the wrong side turns w towards itself; nothing ever shrinks."""
    if y * (w @ x) <= 0:
        w = w + y * x
    return w


def logistic(w, x, y, t):
    """SGD on λ/2 ‖w‖² + mean log(1 + exp(−m)): every sample counts, by σ(−m)."""
    step = 1 / (lam * (t + 100))  # the first 100 steps would be too long for a smooth loss
    pull = expit(-y * (w @ x))
    return (1 - step * lam) * w + step * pull * y * x


def pegasos(w, x, y, t):
    """SGD on λ/2 ‖w‖² + mean max(0, 1 − m): counts while inside the margin."""
    step = 1 / (lam * t)
    pull = 1.0 if y * (w @ x) < 1 else 0.0
    return (1 - step * lam) * w + step * pull * y * x


# %%
# Run them on the same draws. What each one lowers is a different function of w; for all three we
# look at the same one, the soft margin's primal. The exact answer to compare with comes from SMO,
# on the kernel u·v + 1 of the same features.
problem = problems.soft_margin(kernels.Polynomial(1, coef0=1.0).gram(X), y, C=C, bias=False)
exact = solve(problem, tol=1e-8)
w_exact = X1.T @ exact.beta
print(f"SMO: {exact.certificate!r}, primal {exact.certificate.primal:.6f}")


def svm_primal(w):
    return 0.5 * w @ w + C * np.maximum(0, 1 - y * (X1 @ w)).sum()


marks = np.unique(np.geomspace(1, len(draws), 120).astype(int))
found, curves = {}, {}
for rule in (perceptron, logistic, pegasos):
    w, curve = np.zeros(3), []
    for t, i in enumerate(draws, start=1):
        w = rule(w, X1[i], y[i], t)
        if t in marks:
            curve.append(svm_primal(w))
    found[rule.__name__], curves[rule.__name__] = w, np.array(curve)

# %%
# The library's ``Pegasos`` is the last rule over any kernel, averaged and certified. Its own
# objective is ``state.primal``; between two chunks the state can be looked at.
solver = Pegasos(n_steps=len(draws))
state, curve = solver.init(problem, tol=1e-3, beta=None), []
for mark in marks:
    while state.iteration < mark:
        solver.step(state, int(mark) - state.iteration)
    curve.append(state.primal)
found["Pegasos, averaged"], curves["Pegasos, averaged"] = X1.T @ state.beta, np.array(curve)
best = exact.certificate.primal
for name, w in found.items():
    print(f"{name:>18}: primal {svm_primal(w) / best - 1:8.1e} above the optimum")

# %%
# Lines, pulls and curves
# -----------------------
# The perceptron stops caring once a side is right, and jumps for ever on data that cannot be
# separated; logistic regression comes to rest near the SVM's line but at another w (its loss is
# another); Pegasos goes down to the exact optimum, about like 1/t, and its average does so calmly.
excess = {name: curve / best - 1 for name, curve in curves.items()}
assert all((values > -1e-9).all() for values in excess.values())  # nothing is below the optimum
assert excess["Pegasos, averaged"][-1] < 1e-3
assert excess["pegasos"][-1] < 1e-2
assert np.abs(np.diff(excess["perceptron"][-20:])).max() > 1e-2  # still jumping
cosine = found["logistic"] @ w_exact / np.linalg.norm(found["logistic"]) / np.linalg.norm(w_exact)
assert cosine > 0.98  # nearly the same line
assert excess["logistic"][-1] > 10 * excess["Pegasos, averaged"][-1]  # but another w
hues, dashes = ("#009E73", "#E69F00", "#CC79A7", "#D55E00"), ("-", "-.", (0, (1, 1)), "-")
looks = {
    name: {"color": hue, "ls": dash, "lw": 2}
    for name, hue, dash in zip(found, hues, dashes, strict=True)
}
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")

for label, colour, marker in ((-1, "0.55", "o"), (1, "#0072B2", "^")):
    left.scatter(*X[y == label].T, color=colour, marker=marker, s=14)
ends = np.array([X[:, 0].min(), X[:, 0].max()])
for name, w in {**found, "SMO, exact": w_exact}.items():
    look = looks.get(name, {"color": "black", "ls": "--"})
    left.plot(ends, -(w[0] * ends + w[2]) / w[1], label=name, **look)
left.set(
    title="Decision lines", ylim=(X[:, 1].min(), X[:, 1].max()), xlabel="$x_1$", ylabel="$x_2$"
)
left.legend(fontsize=7, loc="lower left")

m = np.linspace(-2.5, 2.5, 501)
pulls = {"perceptron": m <= 0, "logistic": expit(-m), "pegasos": m < 1}
for name, pull in pulls.items():
    middle.plot(m, pull, label=name, **looks[name])
middle.set(title="How much a sample counts", xlabel="margin $m = y\\, w \\cdot x$", ylabel="pull")
middle.legend(fontsize=8)

for name, curve in curves.items():
    right.loglog(marks, curve / best - 1, label=name, **{**looks[name], "lw": 1.3})
right.loglog(marks, 10.0 / marks, color="black", lw=1, ls="--", label="1/t")
right.set(title="The SVM's primal above its optimum", xlabel="step t", ylabel="relative excess")
right.legend(fontsize=8)
plt.show()
