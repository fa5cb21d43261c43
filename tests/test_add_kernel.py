"""Add a kernel: any symmetric function of two sets of rows. Here: one that repeats itself."""

import numpy as np
from sklearn.model_selection import GridSearchCV

from maxmargin import SVR, kernels


def periodic(X, Z, period=1.0):
    """k(u, v) = exp(-2 Σ_k sin²(π (u_k − v_k) / period))."""
    apart = X[:, None, :] - Z[None, :, :]
    return np.exp(-2.0 * (np.sin(np.pi * apart / period) ** 2).sum(axis=2))


X = np.linspace(0.0, 6.0, 91)[:, None]
z = np.sin(2 * np.pi * X[:, 0] / 1.5)
kernel = kernels.Callable(periodic, period=1.0)


def test_it_is_a_kernel():
    assert kernels.mercer(kernel, X).psd


def test_its_parameter_is_searched_and_the_model_is_proven():
    model = SVR(kernel=kernel, C=10, epsilon=0.01)
    search = GridSearchCV(model, {"kernel__period": [0.7, 1.5, 2.0]}, cv=3).fit(X, z)
    assert search.best_params_ == {"kernel__period": 1.5}
    assert search.best_estimator_.certificate_.status == "optimal"
    assert np.abs(search.predict(X + 15.0) - z).max() < 0.1  # far beyond the training rows


def test_it_composes():
    assert (0.5 * kernel + kernels.Linear()).gram(X).convex
