r"""
The chessboard: Gaussian and polynomial kernels
===============================================

A chessboard (N3) is as far from linear as two features can be. A Gaussian kernel learns it at once
if its width is about that of a square, and a polynomial learns it as soon as its degree allows
enough changes of sign. The pictures show three widths and three degrees on the same 800 points;
the accuracies are those on 4000 new ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from maxmargin import SVC, kernels
from maxmargin.datasets import chessboard
from maxmargin.displays import MarginDisplay

squares = 4
X, y = chessboard(800, squares=squares, random_state=0)
X_new, y_new = chessboard(4000, squares=squares, random_state=1)

# %%
# What degree does a board need?
# ------------------------------
#
# A board of four squares a side changes colour three times along each side. The product of
# :math:`(x_1 - 1)(x_1 - 2)(x_1 - 3)` with the same in :math:`x_2` has just these signs: degree 6 is
# enough, and a machine of lower degree cannot bend that often.

cuts = np.arange(1, squares)
product = np.prod(X_new[:, :1] - cuts, axis=1) * np.prod(X_new[:, 1:] - cuts, axis=1)
assert (np.sign(product) == y_new).all()

# %%
# Six machines
# ------------
#
# The width of a Gaussian is in units of the features: a square has side 1. A high power of a number
# above 1 is huge, so the polynomials see the features scaled to [-1, 1].

machines = {}
for sigma in (5.0, 0.5, 0.05):
    machines[rf"Gaussian, $\sigma = {sigma:g}$"] = SVC(C=100, kernel=kernels.RBF(sigma=sigma))
for degree in (3, 6, 12):
    machine = SVC(C=100, kernel=kernels.Polynomial(degree, coef0=1))
    machines[f"polynomial of degree {degree}"] = make_pipeline(MinMaxScaler((-1, 1)), machine)
accuracy = [m.fit(X, y).score(X_new, y_new) for m in machines.values()]

fig, axes = plt.subplots(2, 3, figsize=(11.4, 8), layout="compressed", sharex=True, sharey=True)
for ax, (name, machine), score in zip(axes.flat, machines.items(), accuracy, strict=True):
    ax.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    ax.set_title(f"{name}: {score:.0%}")
    clear = score > 0.95  # where nearly all points are support vectors, marks would only hide them
    MarginDisplay.from_estimator(machine, X, y, ax=ax, legend=False, slack=False, support=clear)
    ax.label_outer()
plt.show()

# %%
# Too wide a Gaussian or too low a degree sees hardly more than chance; too narrow a Gaussian learns
# its points by heart. The right width and a sufficient degree find the board, and the polynomial
# does not suffer from a degree twice as high as needed: the margin keeps it smooth (N3 on
# overfitting).

wide, right, narrow, low, enough, high = accuracy
print(dict(zip(machines, accuracy, strict=True)))
assert right > 0.94
assert enough > 0.9
assert high > 0.94
assert wide < 0.7
assert low < 0.7
assert narrow < right - 0.02
assert machines[r"Gaussian, $\sigma = 0.05$"].score(X, y) == 1
