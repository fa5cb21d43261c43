r"""
What changes along C
====================

With a small C every point is a bound support vector: the sum of all of them is the cheapest plane.
As slack gets dearer one point after the other leaves its bound, is free for a while, and ends with
:math:`\alpha = 0` beyond the margin; what is left at the end holds the plane alone. The path shows
this for all points at once, and the ledger is a cut through it at one C.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import SVC
from maxmargin.displays import LedgerDisplay, PathDisplay

X, y = make_moons(80, noise=0.25, random_state=3)
machine = SVC(kernel="rbf", gamma=1.0, tol=1e-6)

# %%
# The path
# --------
#
# Each line is a training point, with its coefficient :math:`\beta_i = y_i \alpha_i` as a share of
# C: at :math:`\pm 1` the point is a bound support vector, at 0 none. Every C starts from the
# solution of the one before, and every one is certified: below stand the relative gaps.

path = PathDisplay.from_estimator(machine, X, y, Cs=np.geomspace(1e-2, 1e4, 49))
share = np.abs(path.betas) / path.Cs[:, None]
assert (share <= 1 + 1e-9).all()
assert path.n_support[0] == len(y)  # all of them are bound
assert path.n_support[-1] < len(y) / 2
assert max(path.gaps) < 1e-6
assert np.allclose(path.betas.sum(axis=1), 0, atol=1e-6 * path.Cs)  # N0 eq. (66)
plt.show()

# %%
# Three cuts
# ----------
#
# On the left :math:`\alpha`, on the right the margin, both by KKT case. What is outside has
# :math:`\alpha = 0`, what is inside or misclassified :math:`\alpha = C`, and only on the margin
# there is anything between (N0 section 3.4.1). With C the middle of the picture empties: fewer
# points are inside the margin, and their slack costs more.

inside = []
figure, grid = plt.subplots(3, 2, figsize=(10, 9), layout="constrained")
for C, axes in zip((0.1, 10.0, 1000.0), grid, strict=True):
    machine.set_params(C=C).fit(X, y)
    ledger = machine.ledger(X, y)
    LedgerDisplay.from_ledger(ledger, ax=axes)
    inside.append(int((ledger.case == "inside margin").sum()))
    assert (ledger.alpha[ledger.margin < 1 - 1e-3] == C).all()
    assert (ledger.alpha[ledger.margin > 1 + 1e-3] == 0).all()
figure.suptitle("The ledger at C = 0.1, 10 and 1000")
assert inside == sorted(inside, reverse=True)
plt.show()
