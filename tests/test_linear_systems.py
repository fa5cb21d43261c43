"""Inverses of K + D against numpy's, and refinement of what an inverse gets wrong."""

from functools import cache

import numpy as np
import scipy.linalg

from maxmargin import inverses, kernels, linear_systems


@cache
def data(n=60, d=5, targets=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, d))
    return (
        X,
        X @ rng.normal(size=(d, targets)) + rng.normal(size=(n, targets)),
        rng.uniform(0, 2, n),
    )


def test_refinement_improves_a_poor_inverse():
    X, Y, _ = data()
    gram = kernels.RBF(gamma=1.0).gram(X)
    D = np.full(60, 0.1)
    exact = inverses.Dense(gram).inverse(D)

    class Poor:
        name, definite, diagonal = "poor", True, None

        def __call__(self, B):
            return exact(B).astype(np.float32).astype(float)

    answer = linear_systems.refine(gram.matvec, Poor(), D, Y, bias=True)
    assert answer.residual < 1e-12
    once = Poor()(Y)  # without a second pass
    assert np.linalg.norm(gram.matvec(once) + D[:, None] * once - Y) > 1e-9
    np.testing.assert_allclose(answer.beta.sum(axis=0), 0, atol=1e-10)


def test_inverses_agree():
    X, Y, w = data()
    gram, D = kernels.Linear().gram(X), 0.3 / w
    A = np.linalg.inv(X @ X.T + np.diag(D))
    whole, features = inverses.Dense(gram), inverses.Features(X)
    ways = {
        "eigen": whole.by_eigenvalues(D),
        "spectrum": whole.spectrum(np.sqrt(w)).inverse(0.3),
        "thin": features.spectrum(np.sqrt(w)).inverse(0.3),
        "primal": features.inverse(D),
        "cholesky": whole.inverse(D),
    }
    for name, inverse in ways.items():
        np.testing.assert_allclose(inverse(Y), A @ Y, rtol=1e-8, err_msg=name)
        np.testing.assert_allclose(inverse.diagonal(), np.diag(A), rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(whole.product(Y), X @ (X.T @ Y), rtol=1e-10)
    np.testing.assert_allclose(whole.inverse(D)(Y), A @ Y, rtol=1e-8)  # the factor was used up


def test_large_triangles():
    X, Y, _ = data(1100, 4, 1)  # more than two blocks
    gram = kernels.Laplacian(gamma=1.0).gram(X)
    K, D, system = gram.rows(np.arange(1100)), np.full(1100, 0.1), inverses.Dense(gram)
    A = scipy.linalg.inv(K + np.diag(D))  # not NumPy's BLAS: its threads stay awake for a while
    for _ in range(2):
        inverse = system.inverse(D)
        np.testing.assert_allclose(inverse(Y), A @ Y, rtol=1e-7)
        np.testing.assert_allclose(system.product(Y), K @ Y, rtol=1e-9)
        np.testing.assert_allclose(inverse.diagonal(), np.diag(A), rtol=1e-8)
