"""Add a formulation: it is data for the one QP. Here: kernel quantile regression.

    minimise ½ ‖w‖² + C Σ_i max(q r_i, (q − 1) r_i)   with r_i = z_i − w·φ(x_i) − b

Its dual has s = z, −C (1 − q) ≤ β_i ≤ C q and Σ β_i = 0; the multiplier of the sum is b.
"""

import numpy as np
import pytest

from maxmargin import kernels, problems, solvers


def quantile(gram, z, *, C=1.0, q=0.5):
    n = gram.n
    price, zeros, which = np.full(n, C), np.zeros(n), np.arange(n)
    return problems.Problem(
        name="quantile", gram=gram, C=price, z=z, s=z, l=(q - 1) * price, u=q * price, D=zeros,
        row=which, group=np.zeros(n, dtype=np.int64), m=np.zeros(1),
    )  # fmt: skip


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_solver_and_certificate_take_it_as_it_is(q):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 1))
    z = np.sin(X[:, 0]) + rng.normal(scale=0.2, size=200)
    p = quantile(kernels.RBF(gamma=1.0).gram(X), z, q=q)
    s = solvers.solve(p, tol=1e-8)
    r = z - p.kbeta(s.beta) - s.b
    loss = np.maximum(q * r, (q - 1) * r).sum()
    assert s.status == "optimal"
    assert s.certificate.primal == pytest.approx(0.5 * s.beta @ p.kbeta(s.beta) + loss)
    assert abs((r < -1e-6).mean() - q) < 0.05  # the share of targets below the curve
