"""The solvers of KernelPCA by themselves."""

import numpy as np

from maxmargin.estimators._eigen import SOLVERS, Task, centred, krylov
from maxmargin.estimators._pairwise import pairwise


def test_krylov_restarts_to_machine_precision():
    """A spectrum without gaps: dozens of restarts, and no loss of orthogonality."""
    X = np.random.default_rng(0).normal(size=(500, 20))
    A = centred(pairwise(X, kernel="rbf"), dtype=np.float64, symmetric=True, own=True)
    values, V = krylov(A, Task(30, tol=1e-13, random_state=0))
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-12)
    assert A.judge(values, V)[0].max() <= 2e-13 * values[0]
    np.testing.assert_allclose(values, np.sort(SOLVERS["dense"](A, Task(30))[0])[::-1], rtol=1e-10)
