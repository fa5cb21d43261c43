r"""
Squares and kernels
===================

Where the loss is a square there is nothing to search: a linear system gives the answer. This script
shows the two kernel methods of that kind which the notes name (N2, N3): ridge regression, whose
penalty is chosen by leaving every sample out once at the price of a single fit, and principal
components, which straighten circles out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles

from maxmargin import KernelPCA, KernelRidge, KernelRidgeCV

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#6e6e6e"

# %%
# The step from features to rows
# ------------------------------
#
# In :math:`(A^\top A + \lambda I)^{-1} A^\top z = A^\top (A A^\top + \lambda I)^{-1} z` one system
# has a row for each feature, the other one for each sample. They give the same prediction.

rng = np.random.default_rng(0)
A, z = rng.normal(size=(30, 5)), rng.normal(size=30)
primal, dual = (KernelRidge(alpha=0.5, solver=s).fit(A, z).predict(A) for s in ("primal", "dual"))
assert np.allclose(primal, dual)

# %%
# Every sample left out once
# --------------------------
#
# With :math:`G = (K + \lambda I)^{-1}` the prediction without sample i is off by
# :math:`(Gz)_i / G_{ii}`, so one eigendecomposition gives the leave-one-out error for every
# :math:`\lambda`. Here it is checked against thirty fits.

x = np.sort(rng.uniform(0, 6, 30))
z = np.sin(2 * x) + rng.normal(scale=0.2, size=30)
X, alphas = x[:, None], np.logspace(-5, 2, 22)
machine = KernelRidgeCV(kernel="rbf", gamma=1.0, alphas=alphas).fit(X, z)


def left_out(alpha):
    """The mean squared error over samples that were not there."""
    fit = KernelRidge(kernel="rbf", gamma=1.0, alpha=alpha).fit
    keep = [np.arange(30) != i for i in range(30)]
    return np.mean([(z[~k] - fit(X[k], z[k]).predict(X[~k])) ** 2 for k in keep])


errors = [left_out(alpha) for alpha in alphas]
assert np.isclose(machine.alpha_, alphas[np.argmin(errors)])

line = np.linspace(-0.3, 6.3, 300)[:, None]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.loglog(alphas, errors, "o-", color=BLUE, markersize=4)
left.axvline(machine.alpha_, color=GREY, linestyle="--")
left.set(xlabel="λ", ylabel="mean squared error of what is left out", title="Too rough, too stiff")
for alpha, color in ((alphas[0], ORANGE), (machine.alpha_, BLUE), (alphas[-1], GREEN)):
    curve = KernelRidge(kernel="rbf", gamma=1.0, alpha=alpha).fit(X, z).predict(line)
    right.plot(line[:, 0], curve, color=color, label=f"λ = {alpha:.2g}")
right.plot(x, z, ".", color=GREY)
right.set(xlabel="x", ylim=(-2, 2), title="The three of them")
right.legend()
plt.show()

# %%
# Principal components in feature space
# -------------------------------------
#
# The leading eigenvectors of the centred Gram matrix are the directions in which the mapped samples
# vary most. With a Gaussian kernel the first one tells the rings apart.

C, ring = make_circles(300, factor=0.35, noise=0.06, random_state=0)
T = KernelPCA(n_components=2, kernel="rbf", gamma=4.0).fit_transform(C)

fig, panes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for pane, points, title in zip(panes, (C, T), ("Samples", "Components"), strict=True):
    for k, (color, marker) in enumerate(((BLUE, "o"), (ORANGE, "^"))):
        pane.scatter(*points[ring == k].T, color=color, marker=marker, s=14)
    pane.set(title=title, aspect="equal")
panes[1].set(xlabel="first component", ylabel="second component")
plt.show()
