r"""
Every training point has its KKT case
=====================================

At the optimum of a soft margin the place of a point tells its multiplier (N0 section 3.4.1): beyond
the margin it is 0, inside the margin or on the wrong side it is C, and only on the margin it can be
anything between. The ledger of a fitted machine has the case, the multiplier and the slack of every
point; here they are drawn, first in the plane and then as the staircase they form.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SVC, kernels

COLOURS = {
    "outside": "#56B4E9",
    "on margin": "#000000",
    "inside margin": "#E69F00",
    "misclassified": "#D55E00",
}

rng = np.random.default_rng(3)
turn = rng.uniform(0, np.pi, 75)
moon = np.column_stack([np.cos(turn), np.sin(turn)])
X = np.vstack([moon, [1, 0.45] - moon]) + rng.normal(scale=0.23, size=(150, 2))
y = np.repeat([1, -1], 75)
C = 2.0
machine = SVC(C=C, kernel=kernels.RBF(sigma=0.6), tol=1e-6).fit(X, y)
ledger = machine.ledger(X, y)
alpha, m, xi = ledger.alpha, ledger.margin, ledger.slack
print(ledger.summary())

# %%
# The KKT conditions, point by point
# ----------------------------------
#
# With :math:`\mu_i = C - \alpha_i`, N0 eq. (68), the conditions (71)-(76) hold up to the tolerance
# of the solver. The implications go one way: a point on the margin can have :math:`\alpha = 0` or
# :math:`\alpha = C` by chance (N1 writes "if and only if").

mu = C - alpha
assert set(ledger.case) == set(COLOURS)
assert (alpha >= 0).all()  # (71)
assert (m >= 1 - xi - 1e-9).all()  # (72)
assert np.abs(alpha * (m - 1 + xi)).max() < 1e-5  # (73)
assert (mu >= 0).all()  # (74)
assert (xi >= 0).all()  # (75)
assert np.abs(mu * xi).max() < 1e-5  # (76)
assert ledger.kkt_residual.max() <= 1e-6

case, state = ledger.case, ledger.state
assert (state[case == "outside"] == "zero").all()
assert (state[np.isin(case, ["inside margin", "misclassified"])] == "bound").all()
assert (case[state == "free"] == "on margin").all()
assert (xi[case == "misclassified"] > 1).all()

# %%
# The free support vectors know b, N0 eq. (77) (which forgets the label of the j-th point): each of
# them alone gives it, and so does their mean.

free = state == "free"
K = machine.kernel_(X)
each = y[free] - K[free] @ (alpha * y)
assert np.allclose(each, machine.intercept_[0], atol=1e-5)

# %%
# In the plane
# ------------
#
# Colour is the case, shape the class, and the size of the ring around a support vector its
# multiplier. Between the dashed lines everybody has :math:`\alpha = C`.

assert (alpha[np.abs(y * m) < 1 - 1e-3] == C).all()
xx, yy = np.meshgrid(np.linspace(-1.8, 2.8, 300), np.linspace(-1.4, 1.9, 300))
f = machine.decision_function(np.column_stack([xx.ravel(), yy.ravel()])).reshape(xx.shape)
fig, ax = plt.subplots(figsize=(8.6, 5.8), layout="constrained")
ax.contourf(xx, yy, f, [-1, 1], colors=["#009E73"], alpha=0.07)
ax.contour(
    xx, yy, f, [-1, 0, 1], colors="black", linestyles=["--", "-", "--"], linewidths=[1, 2, 1]
)
ax.scatter(*X[alpha > 0].T, s=60 + 110 * alpha[alpha > 0] / C, fc="none", ec="#6e6e6e", lw=0.8)
for name, colour in COLOURS.items():
    for label, marker in ((-1, "o"), (1, "^")):
        own = (case == name) & (y == label)
        ax.scatter(*X[own].T, color=colour, marker=marker, s=34, ec="white", lw=0.4, zorder=3)
    ax.scatter([], [], color=colour, marker="o", label=f"{name} ({(case == name).sum()})")
ax.set(xlim=(-1.8, 2.8), ylim=(-1.4, 1.9), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
ax.set_title(f"{len(y)} points and their cases, C = {C:g}")
ax.legend(loc="lower left")
plt.show()

# %%
# The staircase
# -------------
#
# All points as pairs of functional margin and multiplier: the KKT conditions leave them only the
# two treads and the riser. The slack is how far a point stands to the left of the riser.

fig, ax = plt.subplots(figsize=(7.4, 4.4), layout="constrained")
ax.plot(
    [m.min() - 1, 1, 1, m.max() + 1], [C, C, 0, 0], color="#b5b5b5", lw=7, solid_joinstyle="round"
)
for name, colour in COLOURS.items():
    own = case == name
    ax.scatter(m[own], alpha[own], color=colour, s=46, ec="white", lw=0.6, zorder=3, label=name)
worst = m.argmin()
ax.annotate(
    "", (1, 0.9 * C), (m[worst], 0.9 * C), arrowprops={"arrowstyle": "<->", "color": "#D55E00"}
)
ax.text(
    (1 + m[worst]) / 2, 0.82 * C, rf"slack $\xi = {xi[worst]:.2f}$", color="#D55E00", ha="center"
)
ax.axvline(0, color="#6e6e6e", lw=0.8, ls=":")
ax.set(
    xlabel=r"functional margin $y\,h(x)$",
    ylabel=r"multiplier $\alpha$",
    xlim=(m.min() - 0.2, m.max() + 0.2),
)
ax.set_yticks([0, C], ["0", "C"])
ax.set_title(r"$\alpha = C$ left of the margin, 0 right of it, anything on it")
ax.legend(loc="center left", frameon=False)
plt.show()
