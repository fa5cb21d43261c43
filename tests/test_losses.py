"""Losses of the margin: closed forms, derivatives, N3's comparison, the objectives they make."""

import numpy as np
import pytest

from maxmargin import kernels, losses, problems
from maxmargin.geometry import decision, functional_margin, norm
from maxmargin.solvers import solve

GRID = np.linspace(-4.0, 4.0, 1601)
CONVEX = ["hinge", "squared hinge", "log", "log / log 2"]


def test_closed_forms():
    m = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    np.testing.assert_array_equal(losses.zero_one(m), [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(losses.hinge(m), [2, 1, 0.5, 0, 0])
    np.testing.assert_array_equal(losses.squared_hinge(m), [4, 1, 0.25, 0, 0])
    np.testing.assert_allclose(losses.log_loss(m), np.log(1 + np.exp(-m)))
    r = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
    np.testing.assert_array_equal(losses.epsilon_insensitive(r, epsilon=0.5), [1.5, 0, 0, 0, 1.5])
    np.testing.assert_array_equal(
        losses.epsilon_insensitive_derivative(r, epsilon=0.5), [-1, 0, 0, 0, 1]
    )


def test_huge_margins_do_not_overflow():
    far = np.array([-1e4, 1e4])
    np.testing.assert_array_equal(losses.log_loss(far), [1e4, 0.0])
    np.testing.assert_array_equal(losses.log_loss_derivative(far), [-1.0, 0.0])


@pytest.mark.parametrize("name", losses.LOSSES)
def test_scalars_and_shapes(name):
    for function in (losses.LOSSES[name], losses.DERIVATIVES[name]):
        assert function(0.3).shape == ()
        assert function(np.ones((2, 3), dtype=np.float32)).shape == (2, 3)
        assert function([1, 2]).dtype == np.float64


def test_the_comparison_of_n3():
    """All but the natural log pass through 1 at 0 and lie above the 0-1 loss."""
    for name, loss in losses.LOSSES.items():
        if name == "log":
            assert loss(0.0) == pytest.approx(np.log(2))
            continue
        assert loss(0.0) == 1.0
        assert (loss(GRID) >= losses.zero_one(GRID)).all()
        assert (np.diff(loss(GRID)) <= 0).all()


@pytest.mark.parametrize("name", CONVEX)
def test_derivatives_are_subgradients(name):
    loss, slope = losses.LOSSES[name], losses.DERIVATIVES[name]
    at = GRID[::20]
    tangents = loss(at)[:, None] + slope(at)[:, None] * (GRID[None] - at[:, None])
    assert (loss(GRID)[None] >= tangents - 1e-12).all()
    smooth = at[np.abs(at - 1) > 1e-3]  # the kink of the hinge, and of the squared hinge's slope
    central = (loss(smooth + 1e-5) - loss(smooth - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope(smooth), central, atol=1e-8)


def test_the_objectives_are_regularised_losses():
    """½‖w‖² + Σ C loss is what the certificate calls primal: N0 eqs. (62)-(64)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + 0.6 * rng.normal(size=40) > 0, 1.0, -1.0)
    gram = kernels.RBF(gamma=0.5).gram(X)
    for make, loss in [
        (problems.soft_margin, losses.hinge),
        (problems.squared_hinge, losses.squared_hinge),
    ]:
        solution = solve(make(gram, y, C=2.0), tol=1e-8)
        value = 0.5 * norm(solution) ** 2 + 2.0 * loss(functional_margin(solution)).sum()
        assert value == pytest.approx(solution.certificate.primal, rel=1e-12)
    z = X[:, 0] + 0.1 * rng.normal(size=40)
    solution = solve(problems.svr(gram, z, C=2.0, epsilon=0.1), tol=1e-8)
    missed = losses.epsilon_insensitive(z - decision(solution), epsilon=0.1)
    value = 0.5 * norm(solution) ** 2 + 2.0 * missed.sum()
    assert value == pytest.approx(solution.certificate.primal, rel=1e-12)
