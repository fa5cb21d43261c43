r"""
Hinge, log and 0-1 loss, and what they make of a margin
=======================================================

A support vector machine and logistic regression differ in what they charge for a point (N3): the
hinge loss of its margin or the log loss. Both are convex stand-ins for the 0-1 loss, which counts
the errors and which nobody can descend on. From the difference follow the two rows of N3's
comparison: the hinge gives sparse solutions and a margin, the log loss a probability. N0 reads
:math:`\sigma(w \cdot x + b)` as a confidence all the same; the last picture shows what that is
worth.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from maxmargin import geometry, kernels, losses, problems
from maxmargin.displays import LossDisplay
from maxmargin.solvers import solve

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"

# %%
# N3's comparison
# ---------------
#
# All three as functions of the margin :math:`y \cdot z`, :math:`z = w \cdot x + b`. Divided by
# log 2, the log loss passes through 1 at the plane like the hinge, and both lie above the 0-1 loss:
# a small value of either means few errors. The hinge is exactly 0 from margin 1 on; the log loss is
# positive everywhere.

m = np.linspace(-8, 8, 1601)
zero_one, hinge, log = losses.zero_one(m), losses.hinge(m), losses.log_loss_scaled(m)
assert (hinge >= zero_one).all()
assert (log >= zero_one).all()
assert losses.hinge(0.0) == losses.zero_one(0.0) == 1
assert np.isclose(losses.log_loss_scaled(0.0), 1)
assert (hinge[m >= 1] == 0).all()
assert (log > 0).all()
for curve in (hinge, log):  # convex: the slopes rise; the 0-1 loss is not
    assert (np.diff(curve, 2) >= -1e-12).all()
assert (np.diff(zero_one, 2) < 0).any()

LossDisplay.from_losses(("0-1", "hinge", "log / log 2"))
plt.show()

# %%
# The pull of a point
# -------------------
#
# What moves the plane is the slope of the loss. A misclassified point pulls with a force of at most
# 1 under both, so neither is dragged far by an outlier, unlike the squared hinge. A point beyond
# the margin does not pull at all under the hinge: it could be anywhere. Under the log loss every
# point pulls a little, by :math:`\sigma(-m)`, the probability given to the wrong class.

names = {"hinge": RED, "log": BLUE, "squared hinge": GREEN}
pull = {name: -losses.DERIVATIVES[name](m) for name in names}
assert pull["hinge"].max() == 1
assert pull["log"].max() < 1
assert pull["squared hinge"].max() > 10
assert (pull["hinge"][m >= 1] == 0).all()
assert np.allclose(pull["log"], expit(-m))

fig, ax = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
styles = ("-", "--", "-.")
for (name, colour), style in zip(names.items(), styles, strict=True):
    ax.plot(m, pull[name], color=colour, ls=style, lw=2.2, label=name)
ax.axvline(0, color=GREY, lw=0.8, ls=":")
ax.axvline(1, color=GREY, lw=0.8, ls=":")
ax.set(xlim=(-2, 4), ylim=(-0.08, 2.6), xlabel=r"$y \cdot z$", ylabel="minus the slope of the loss")
ax.set_title("How hard a point pulls at the plane")
ax.legend(frameon=False)
plt.show()

# %%
# Sparse, or not
# --------------
#
# Two normal classes, with the probability of class +1 known: :math:`\sigma(2 \mu \cdot x)` for
# means :math:`\pm\mu` and unit covariance. At the optimum of either loss the normal is
# :math:`w = C \sum_i \mathrm{pull}_i\, y_i x_i`: the pull is the multiplier, up to C. That of the
# SVM is 0 for all points beyond the margin. That of logistic regression is 0 for none.

rng = np.random.default_rng(8)
n, C, mu = 400, 1.0, np.array([1.2, 0.6])
y = np.where(rng.random(n) < 0.5, -1, 1)
X = rng.normal(size=(n, 2)) + np.outer(y, mu)
svm = solve(problems.soft_margin(kernels.Linear().gram(X), y, C=C), tol=1e-8)
plane = geometry.hyperplane(svm)
logistic = LogisticRegression(C=C, tol=1e-10).fit(X, y)

margin = geometry.functional_margin(plane, X, y)
off = np.abs(margin - 1) > 1e-6  # on the margin the hinge has a kink, and any pull up to 1
assert np.allclose(svm.alpha[off], -C * losses.hinge_derivative(margin[off]), atol=1e-6)
alpha = -C * losses.log_loss_derivative(y * logistic.decision_function(X))
assert np.allclose(logistic.coef_[0], (alpha * y) @ X, atol=1e-4)
sparse = np.count_nonzero(svm.alpha)
assert sparse < n / 3
assert np.count_nonzero(alpha) == n

fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
lines = {"SVM": (plane, svm.alpha), "Logistic regression": (
    (logistic.coef_[0], logistic.intercept_[0]), alpha)}  # fmt: skip
for ax, (name, ((w, b), weight)) in zip(axes, lines.items(), strict=True):
    foot = -b * w / (w @ w)
    ax.axline(foot, foot + np.array([-w[1], w[0]]), color="black", lw=2)
    for label, colour, marker in ((-1, BLUE, "o"), (1, ORANGE, "^")):
        own = y == label
        ax.scatter(*X[own].T, s=3, color=GREY, zorder=2)
        ax.scatter(*X[own].T, s=90 * weight[own] / C, color=colour, marker=marker, alpha=0.75,
                   lw=0, zorder=3)  # fmt: skip
    ax.set(xlim=(-4.2, 4.2), ylim=(-3.6, 3.6), aspect="equal", xlabel="$x_1$")
    ax.set_title(f"{name}: {np.count_nonzero(weight)} of {n} points pull")
axes[0].set_ylabel("$x_2$")
fig.suptitle("The size of a point is its multiplier")
plt.show()

# %%
# N0's confidence
# ---------------
#
# N0 motivates large margins by confidence: far on the positive side
# :math:`\sigma(w \cdot x + b)` is close to 1, far on the negative side close to 0.
# ``geometry.confidence`` computes it. It is ½ on the plane, orders points as the decision function
# does, and a wider functional margin is a greater confidence.

sure = geometry.confidence(plane, X)
assert np.allclose(geometry.confidence(plane, geometry.projection(plane, X)), 0.5)
assert (np.argsort(sure) == np.argsort(geometry.decision(plane, X))).all()
far = np.array([[12.0, 6.0], [-12.0, -6.0]])
assert geometry.confidence(plane, far)[0] > 0.999
assert geometry.confidence(plane, far)[1] < 0.001

# %%
# A probability it is not. The SVM was asked to put its margin at 1, not to say how often it is
# right, and its scale shows that: on new points it is too timid here, while logistic regression,
# whose loss is the logarithm of the probability, comes close to the truth. That is the last row of
# N3's table: "margin" against "real probabilities".

y_new = np.where(rng.random(20_000) < 0.5, -1, 1)
X_new = rng.normal(size=(len(y_new), 2)) + np.outer(y_new, mu)
truth = expit(2 * X_new @ mu)
guesses = {
    r"SVM, $\sigma(w \cdot x + b)$": (geometry.confidence(plane, X_new), RED, "o"),
    "logistic regression": (logistic.predict_proba(X_new)[:, 1], BLUE, "s"),
}
bins = np.linspace(0, 1, 11)
fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
errors, costs = {}, {}
for name, (guess, colour, marker) in guesses.items():
    errors[name] = np.abs(guess - truth).mean()
    costs[name] = -np.log(np.where(y_new > 0, guess, 1 - guess)).mean()
    box = np.digitize(guess, bins[1:-1])
    told = [guess[box == k].mean() for k in range(10)]
    happened = [(y_new[box == k] > 0).mean() for k in range(10)]
    axes[1].plot(told, happened, color=colour, marker=marker, lw=1.8, ms=7, label=name)
hinge_error, log_error = errors.values()
assert log_error < 0.5 * hinge_error
assert costs["logistic regression"] < max(costs.values())
print({name: f"off by {error:.3f} on average" for name, error in errors.items()})

xx, yy = np.meshgrid(np.linspace(-4.2, 4.2, 200), np.linspace(-3.6, 3.6, 200))
grid = np.column_stack([xx.ravel(), yy.ravel()])
map_ = axes[0].contourf(xx, yy, geometry.confidence(plane, grid).reshape(xx.shape),
                        np.linspace(0, 1, 11), cmap="cividis")  # fmt: skip
axes[0].contour(xx, yy, geometry.decision(plane, grid).reshape(xx.shape), [-1, 0, 1],
                colors="white", linestyles=["--", "-", "--"], linewidths=[1, 2, 1])  # fmt: skip
for label, marker in ((-1, "o"), (1, "^")):
    axes[0].scatter(*X[y == label].T, s=16, marker=marker, fc="white", ec="black", lw=0.6)
fig.colorbar(map_, ax=axes[0], label=r"$\sigma(w \cdot x + b)$")
axes[0].set(xlim=(-4.2, 4.2), ylim=(-3.6, 3.6), aspect="equal")
axes[0].set(xlabel="$x_1$", ylabel="$x_2$", title="N0's confidence in class +1")
axes[1].plot([0, 1], [0, 1], color="black", lw=1, ls="--", label="as often as it says")
axes[1].set(xlabel="confidence in class +1", ylabel="how often it was class +1", aspect="equal")
axes[1].set_title("On 20000 new points")
axes[1].legend(frameon=False, loc="upper left")
plt.show()
