"""Kernel values by name: scikit-learn's, whoever computes them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin.estimators._pairwise import combine, pairwise

KERNELS = {
    "linear": {},
    "cosine": {},
    "rbf": {"gamma": 2.0},
    "poly": {"degree": 2, "gamma": 0.3, "coef0": 0.5},
    "polynomial": {"degree": 2.5},
    "sigmoid": {"gamma": 0.1, "coef0": 0.0},
    "laplacian": {"gamma": 0.7},
    "chi2": {"gamma": 0.7},
    "additive_chi2": {},
}


@pytest.mark.parametrize("given", [True, False], ids=["given", "default"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_values_are_sklearns(make, name, given):
    if make is sp.csr_array and name == "additive_chi2":
        pytest.skip("dense only in scikit-learn")
    rng = np.random.default_rng(0)
    X, Z, coef = rng.uniform(0.1, 1, (30, 6)), rng.uniform(0.1, 1, (7, 6)), rng.normal(size=(30, 3))
    parameters = KERNELS[name] if given else {}
    K, L = (pairwise_kernels(A, X, metric=name, **parameters) for A in (X, Z))
    np.testing.assert_allclose(pairwise(make(X), kernel=name, **parameters), K, rtol=1e-12)
    np.testing.assert_allclose(pairwise(make(Z), make(X), kernel=name, **parameters), L, rtol=1e-12)
    for C in (coef, np.repeat(coef, 40, axis=1)):  # fused, and by BLAS
        found = combine(make(Z), make(X), C, kernel=name, **parameters)
        np.testing.assert_allclose(found, L @ C, atol=1e-11)
