r"""
SVM against logistic regression
===============================

N3 ends its comparison with a table of four rows: the loss, whether kernels apply, whether the
solution is sparse, and what the output means. Here are the numbers behind it, for
:class:`maxmargin.SVC` and :class:`maxmargin.KernelLogisticRegression` with the same kernel and the
same C on the same points, drawn so that the true probability of a class is known everywhere. Two
more machines stand between: an SVM whose decision values are turned into probabilities afterwards,
and a logistic regression that is made sparse by import vectors.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import calibration_curve

from maxmargin import SVC, KernelLogisticRegression, losses
from maxmargin.displays import LossDisplay

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6e6e6e"


def draw(n, rng):
    """Points of the square, their probability of class +1, and labels drawn with it."""
    X = rng.uniform(-2, 2, size=(n, 2))
    truth = expit(3 * np.sin(2 * X[:, 0]) + 2 * X[:, 1])
    return X, truth, np.where(rng.random(n) < truth, 1, -1)


rng = np.random.default_rng(3)
X, truth, y = draw(800, rng)
X_new, truth_new, y_new = draw(20_000, rng)

# %%
# Row 1: the loss
# ---------------
#
# The hinge loss stops charging at margin 1, the log loss never does. That is the only difference
# between the two problems; the other rows follow from it.

LossDisplay.from_losses(("0-1", "hinge", "log / log 2"))
plt.show()

# %%
# Row 2: kernels
# --------------
#
# Both normals are combinations of the images of the training points, so both are found from the
# Gram matrix alone; and of both answers it is proven how good they are. Training costs more without
# sparsity: a Newton step involves all points. Times are of this machine.

options = {"C": 1.0, "gamma": 1.0, "gap_tol": 1e-6}
machines = {
    "SVM": SVC(**options),
    "SVM, calibrated": SVC(**options, probability=True),
    "logistic regression": KernelLogisticRegression(**options),
    "import vectors": KernelLogisticRegression(**options, n_import_vectors=20),
}
SVC(**options).fit(X[:100], y[:100])  # the first fit of a process also loads libraries
seconds = {}
for name, machine in machines.items():
    start = perf_counter()
    machine.fit(X, y)
    seconds[name] = perf_counter() - start
svm, calibrated, logistic, few = machines.values()
assert svm.certificate_.relative_gap <= 1e-6
assert logistic.certificate_.relative_gap <= 1e-6
for name, machine in machines.items():
    print(f"{name:<20} {1e3 * seconds[name]:6.1f} ms   {machine.certificate_!r}")

# %%
# Row 3: sparsity
# ---------------
#
# A point's multiplier is C times the slope of the loss at its margin. That of the hinge is 0 beyond
# the margin: those points leave no trace. That of the log loss is 0 nowhere ("almost always no").
# Twenty import vectors, chosen so that their images span as much as possible of those of all
# points, give nearly the same model; the certificate says what they cost: its gap is the distance
# to the best of all models, not of the short ones.

short = {name: len(machine.support_) for name, machine in machines.items()}
assert short["SVM"] < 0.6 * len(X)
assert short["logistic regression"] == len(X)
assert short["import vectors"] == 20
assert few.certificate_.primal < 1.05 * logistic.certificate_.primal
margin = y * logistic.decision_function(X)
alpha = np.zeros(len(X))
alpha[logistic.support_] = np.abs(logistic.dual_coef_[0])
assert np.allclose(alpha, -losses.log_loss_derivative(margin), atol=1e-3)

fig, ax = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
for name, colour, style in (
    ("SVM", RED, "-"),
    ("logistic regression", BLUE, "--"),
):
    sizes = np.zeros(len(X))
    sizes[machines[name].support_] = np.abs(machines[name].dual_coef_[0])
    label = f"{name}: {short[name]} of {len(X)} are not 0"
    ax.plot(np.sort(sizes)[::-1], color=colour, ls=style, lw=2.2, label=label)
ax.set(xlabel="training points, the largest first", ylabel=r"$\alpha$", ylim=(-0.03, 1.08))
ax.set_title("Multipliers: an SVM has zeros and ones")
ax.legend(frameon=False)
plt.show()

# %%
# The same in the plane. White points leave no trace in the model.

xx, yy = np.meshgrid(np.linspace(-2, 2, 120), np.linspace(-2, 2, 120))
grid = np.column_stack([xx.ravel(), yy.ravel()])
true = expit(3 * np.sin(2 * xx) + 2 * yy)

fig, axes = plt.subplots(1, 3, figsize=(13, 4.6), sharey=True, layout="constrained")
for ax, name in zip(axes, ("SVM", "logistic regression", "import vectors"), strict=True):
    machine, used = machines[name], np.zeros(len(X), dtype=bool)
    used[machine.support_] = True
    f = machine.decision_function(grid).reshape(xx.shape)
    shade = ax.contourf(xx, yy, expit(f), np.linspace(0, 1, 11), cmap="cividis", alpha=0.85)
    ax.contour(xx, yy, f, [-1, 0, 1], colors="white", linewidths=[1.2, 2.4, 1.2])
    ax.contour(xx, yy, true, [0.5], colors="black", linestyles=":", linewidths=2)
    for label, marker in ((-1, "o"), (1, "^")):
        ax.scatter(*X[(y == label) & ~used].T, s=9, marker=marker, fc="white", ec=GREY, lw=0.4)
        ax.scatter(*X[(y == label) & used].T, s=20, marker=marker, fc=ORANGE, ec="black", lw=0.5)
    ax.set(aspect="equal", xlabel="$x_1$", title=f"{name}: {short[name]} points")
axes[0].set_ylabel("$x_2$")
fig.colorbar(shade, ax=axes, label=r"$\sigma(f(x))$")
fig.suptitle(
    "Decision line and f = ±1 (white), where the classes are truly equally likely (dotted)"
)
plt.show()

# %%
# Row 4: what the output means
# ----------------------------
#
# The logistic of an SVM's decision value is a number between 0 and 1, but no probability: the hinge
# fixes the scale of f by the margin, not by how often it is right. A sigmoid fitted to decision
# values of points left out of training, ``SVC(probability=True)``, mends the scale. Logistic
# regression needs no repair: the log loss is least for the true probabilities.

guesses = {
    r"SVM, $\sigma(f)$": expit(svm.decision_function(X_new)),
    "SVM, calibrated": calibrated.predict_proba(X_new)[:, 1],
    "logistic regression": logistic.predict_proba(X_new)[:, 1],
    "import vectors": few.predict_proba(X_new)[:, 1],
}
looks = zip((RED, GREEN, BLUE, ORANGE), "osD^", ("-", "-.", "-", ":"), strict=True)
fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
for (name, guess), (colour, marker, style) in zip(guesses.items(), looks, strict=True):
    look = {"color": colour, "ls": style, "lw": 1.8}
    happened, told = calibration_curve(y_new, guess, n_bins=10, strategy="quantile")
    axes[0].plot(told, happened, marker=marker, ms=7, label=name, **look)
    error = np.sort(np.abs(guess - truth_new))
    axes[1].plot(error, np.linspace(0, 1, len(error)), label=name, **look)
axes[0].plot([0, 1], [0, 1], color="black", lw=1, ls="--", label="as often as it says")
axes[0].set(xlabel="told probability of class +1", ylabel="how often it was class +1")
axes[0].set(aspect="equal", title="Calibration on 20000 new points")
axes[1].set(
    xlabel="distance from the true probability", ylabel="share of new points", xlim=(0, 0.4)
)
axes[1].set_title("How far off a single probability is")
axes[0].legend(frameon=False)
plt.show()

# %%
# The table
# ---------
#
# N3's table in numbers, on the new points. Each machine is best in what it minimises; the
# logarithm of the truth itself is what no machine can beat. For the calibrated SVM the hinge loss
# is that of the same decision values.


def log_loss(guess):
    return -np.log(np.where(y_new > 0, guess, 1 - guess)).mean()


print(f"{'':<20} {'points':>7} {'errors':>7} {'hinge':>7} {'log':>7} {'off truth':>10} {'ms':>7}")
costs, errors = {}, {}
for (name, machine), guess in zip(machines.items(), guesses.values(), strict=True):
    m = y_new * machine.decision_function(X_new)
    wrong = (machine.predict(X_new) != y_new).mean()
    costs[name], errors[name] = log_loss(guess), np.abs(guess - truth_new).mean()
    print(f"{name:<20} {short[name]:>7} {wrong:>7.2%} {losses.hinge(m).mean():>7.4f} "
          f"{costs[name]:>7.4f} {errors[name]:>10.4f} {1e3 * seconds[name]:>7.1f}")  # fmt: skip
best = log_loss(truth_new)
wrong = (np.where(truth_new > 0.5, 1, -1) != y_new).mean()
print(f"{'the truth':<20} {'':>7} {wrong:>7.2%} {'':>7} {best:>7.4f}")
assert best < costs["logistic regression"] < costs["SVM, calibrated"] < costs["SVM"]
assert errors["logistic regression"] < errors["SVM"]
