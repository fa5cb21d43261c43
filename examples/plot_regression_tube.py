r"""
A tube around the data
======================

Support vector regression charges nothing for an error below :math:`\varepsilon`: the data lie in a
tube around the prediction, and only the points on its edge or outside hold it. A wide tube needs
few support vectors and misses details, a narrow one is held by nearly all of the data. The
:math:`\nu`-regression turns this round: say which share of the points may lie outside, and it finds
the width.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SVR, NuSVR
from maxmargin.displays import RegressionTubeDisplay

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(0, 10, 90))
z = np.sin(x) + 0.3 * x / 10 + rng.normal(scale=0.2, size=len(x))
X = x[:, None]

# %%
# Three widths
# ------------
#
# A ring is a free support vector, on the edge of the tube; a square a bound one, outside it, at
# the end of its slack.

figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), sharey=True, layout="constrained")
support = []
for epsilon, ax in zip((0.05, 0.3, 0.8), axes, strict=True):
    model = SVR(C=10.0, epsilon=epsilon, gamma=0.5, tol=1e-6).fit(X, z)
    display = RegressionTubeDisplay.from_estimator(model, X, z, ax=ax, legend=False)
    error = np.abs(z - model.predict(X))
    assert np.allclose(error[display.free], epsilon, atol=1e-5)
    assert (error[display.bound] > epsilon - 1e-5).all()
    support.append(len(model.support_))
    ax.set_title(rf"$\varepsilon = {epsilon:g}$: {support[-1]} support vectors")
assert support == sorted(support, reverse=True)
plt.show()

# %%
# A share in place of a width
# ---------------------------
#
# At most a share :math:`\nu` of the points lies outside, and at least a share :math:`\nu` are
# support vectors. With the width it found, the other machine gives the same prediction.

nu = 0.25
found = NuSVR(C=10.0, nu=nu, gamma=0.5, tol=1e-8).fit(X, z)
display = RegressionTubeDisplay.from_estimator(found, X, z)
print(f"epsilon {found.epsilon_:.3f}, outside {display.bound.mean():.0%}")
assert display.bound.mean() <= nu <= (display.bound | display.free).mean()
same = SVR(C=10.0, epsilon=found.epsilon_, gamma=0.5, tol=1e-8).fit(X, z)
assert np.allclose(same.predict(X), found.predict(X), atol=1e-4)
plt.show()
