r"""
What a kernel sees
==================

A support vector machine knows its data by the kernel matrix alone: :math:`K_{ij} = k(x_i, x_j)` is
how similar it finds two points. Sorted by class, the matrix shows before any training whether the
kernel suits the labels: then there are bright squares along the diagonal. The bandwidth of a
Gaussian kernel decides how far a point sees, and it can be wrong on both sides.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

from maxmargin import SVC, kernels
from maxmargin.displays import GramDisplay

X, y = load_wine(return_X_y=True)
X = scale(X)

# %%
# Too near, right, too far
# ------------------------
#
# With a small :math:`\sigma` every wine resembles only itself and nothing can be learned for
# another one; with a large one all resemble each other. Between the two the three sorts show.

figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
score = {}
for sigma, ax in zip((0.5, 2.5, 100.0), axes, strict=True):
    kernel = kernels.RBF(sigma=sigma)
    display = GramDisplay.from_kernel(kernel, X, y, ax=ax, colorbar=sigma == 100.0)
    display.image_.set_clim(0, 1)
    score[sigma] = cross_val_score(SVC(C=1.0, kernel=kernel), X, y, cv=5).mean()
    ax.set_title(rf"$\sigma = {sigma:g}$: accuracy {score[sigma]:.0%}")
assert score[2.5] > max(score[0.5], score[100.0]) + 0.2
plt.show()

# %%
# How well a kernel suits the labels, in one number
# -------------------------------------------------
#
# The contrast of the squares with the rest is what the eye looks for. It is best where a machine
# predicts well, long before one is trained.

same = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)
sigmas = np.geomspace(0.3, 100, 25)
contrast = []
for sigma in sigmas:
    K = kernels.RBF(sigma=sigma)(X)
    contrast.append(K[same].mean() - K[y[:, None] != y].mean())
best = sigmas[np.argmax(contrast)]
print(f"largest contrast at sigma = {best:.2f}")
assert 1 < best < 10

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.semilogx(sigmas, contrast, color="#0072B2", lw=2.2)
ax.axvline(best, color="black", lw=1, ls="--", label=rf"best, $\sigma = {best:.1f}$")
ax.set(xlabel=r"bandwidth $\sigma$", ylabel="mean within classes − between", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
