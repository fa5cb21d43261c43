"""Lagrange's machinery on problems with closed forms: N0 (7), (13), (47) and N2's soft margin."""

import numpy as np
import pytest

from maxmargin import kernels, problems
from maxmargin.duality import ConstrainedProblem, alice_bob, half_plane, hyperbola
from maxmargin.solvers import solve

LEVELS = [-3.0, -0.5, 0.0, 1.0, 4.0]


def without_help(problem):
    """The same problem with nothing but its functions: numerical gradients and minimiser."""
    return ConstrainedProblem(n=problem.n, f=problem.f, g=problem.g, h=problem.h)


# ---- N0 (13) ----------------------------------------------------------------------------------


@pytest.mark.parametrize("c", LEVELS)
@pytest.mark.parametrize("change", [lambda p: p, without_help], ids=["closed", "numerical"])
def test_half_plane(c, change):
    problem = change(half_plane(c))
    lam = max(0.0, c / 2)
    w = [lam, lam]
    kkt = problem.kkt(w, [lam])
    assert kkt.worst < 1e-9
    (g,), _ = problem.constraints(w)
    assert (g > 0) == (c < 0)  # inactive, else active: g = 0
    assert problem.saddle_violation(w, [lam]) < 1e-9
    grid = np.linspace(0.0, 3.0, 7)
    np.testing.assert_allclose(problem.dual_function(grid), -(grid**2) + c * grid, atol=1e-8)
    best = problem.dual_function([lam])[0]
    assert best == pytest.approx(problem.primal_function(w), abs=1e-9)  # strong duality (29)
    assert (problem.dual_function(grid) <= best + 1e-8).all()


def test_half_plane_points_that_are_not_optimal():
    problem = half_plane(1.0)
    inside = problem.kkt([2.0, 2.0], [0.5])
    assert inside.primal_feasibility == 0.0
    assert inside.stationarity == 1.5
    assert inside.complementary_slackness == 1.5
    assert problem.kkt([0.0, 0.0], [0.0]).primal_feasibility == 1.0
    assert problem.kkt([-0.5, -0.5], [-0.5]).dual_feasibility == 0.5
    assert problem.saddle_violation([1.0, 1.0], [0.5]) > 0.1
    assert problem.primal_function([0.0, 0.0]) == np.inf
    assert str(inside).splitlines()[0].split() == ["N0", "(31)", "stationarity", "1.5e+00"]


@pytest.mark.parametrize("c", LEVELS)
def test_weak_duality(c):
    rng = np.random.default_rng(0)
    points, lam = rng.normal(size=(200, 2)) * 5, rng.exponential(size=50)
    assert half_plane(c).weak_duality(points, lam) >= 0
    top = max(0.0, c / 2)
    assert half_plane(c).weak_duality([[top, top]], [top]) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="at least 0"):
        half_plane(c).weak_duality(points, [-1.0])


# ---- N0 (7) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("w", [[1.0, 1.0], [-1.0, -1.0]])
@pytest.mark.parametrize("change", [lambda p: p, without_help], ids=["closed", "numerical"])
def test_hyperbola(w, change):
    problem = change(hyperbola())
    assert problem.kkt(w, nu=[1.0]).worst < 1e-9
    assert np.linalg.norm(w) == pytest.approx(np.sqrt(2))
    assert problem.primal_function(w) == pytest.approx(1.0)
    assert problem.saddle_violation(w, nu=[1.0]) < 1e-9
    values = problem.dual_function(nu=[-2.0, -0.5, 0.0, 0.5, 1.0, 1.5])
    np.testing.assert_allclose(values, [-np.inf, -0.5, 0.0, 0.5, 1.0, -np.inf], atol=1e-7)
    assert problem.weak_duality([w], nu=[1.0]) == pytest.approx(0.0, abs=1e-7)


def test_hyperbola_elsewhere():
    """On the hyperbola but not nearest: no multiplier makes ∇f parallel to ∇h, N0 (12)."""
    nus = np.linspace(-3, 3, 61)
    assert min(hyperbola().kkt([2.0, 0.5], nu=[v]).stationarity for v in nus) > 0.5
    assert hyperbola().primal_function([2.0, 1.0]) == np.inf


# ---- N0 (47) ----------------------------------------------------------------------------------


def separable(seed=0, n=12):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return rng.normal(size=(n, 2)) + 3.0 * y[:, None], y


@pytest.mark.parametrize("seed", range(5))
def test_alice_and_bob_meet_at_the_hard_margin(seed):
    X, y = separable(seed)
    solution = solve(problems.hard_margin(kernels.Linear().gram(X), y), tol=1e-10)
    game, alpha = alice_bob(X, y), solution.alpha
    played = [*(solution.beta @ X), solution.b]
    assert game.kkt(played, alpha).worst < 1e-7
    assert game.saddle_violation(played, alpha) < 1e-6
    value = solution.certificate.dual
    assert game.primal_function(played, tol=1e-8) == pytest.approx(value, rel=1e-8)
    assert game.dual_function(alpha)[0] == pytest.approx(value, rel=1e-8)  # (46)
    # Alice: any failing margin lets Bob go to infinity; a larger w than needed costs more.
    assert game.primal_function(np.multiply(played, 0.9)) == np.inf
    assert game.primal_function(np.multiply(played, 1.1)) > value
    # Bob: an unbalanced α lets Alice go to −infinity; no balanced one gets more.
    assert game.dual_function(alpha + np.eye(len(y))[0])[0] == -np.inf
    rng = np.random.default_rng(seed)
    for _ in range(50):
        other = rng.exponential(size=len(y))
        other[y > 0] *= other[y < 0].sum() / other[y > 0].sum()
        assert game.dual_function(other)[0] <= value + 1e-9


# ---- N2 ---------------------------------------------------------------------------------------


def test_n2_form_has_the_same_multipliers():
    """g ≤ 0 and L = f + λg + νh: the soft margin with C/n, written out in (w, b, ξ)."""
    rng = np.random.default_rng(3)
    n, C = 10, 20.0
    X, y = rng.normal(size=(n, 2)), np.where(np.arange(n) < 5, 1.0, -1.0)
    gram = kernels.Linear().gram(X)
    solution = solve(problems.soft_margin(gram, y, C=C, scaling="mean"), tol=1e-10)
    w, b = solution.beta @ X, solution.b
    xi = np.maximum(0.0, 1 - y * (X @ w + b))

    def g(v):
        slack = v[3:]
        return np.concatenate([1 - slack - y * (X @ v[:2] + v[2]), -slack])

    problem = ConstrainedProblem.at_most(
        n=3 + n, f=lambda v: 0.5 * (v[:2] @ v[:2]) + C / n * v[3:].sum(), g=g
    )
    point, lam = (
        np.concatenate([w, [b], xi]),
        np.concatenate([solution.alpha, C / n - solution.alpha]),
    )
    assert problem.kkt(point, lam).worst < 1e-6
    expected = problem.f(point) + lam @ g(point)
    assert problem.lagrangian(point, lam) == pytest.approx(expected)
    assert problem.lagrangian(point, lam) == pytest.approx(solution.certificate.dual, rel=1e-7)
    assert problem.saddle_violation(point, lam) < 1e-6


def test_n2_form_turns_gradients_and_equalities():
    turned = ConstrainedProblem.at_most(
        n=2,
        f=lambda w: 0.5 * (w @ w),
        g=lambda w: 1 - w[0] - w[1],
        h=lambda w: w[0] - w[1],
        grad_f=lambda w: w,
        grad_g=lambda w: np.array([[-1.0, -1.0]]),
        grad_h=lambda w: np.array([[1.0, -1.0]]),
    )
    assert turned.kkt([0.5, 0.5], [0.5], [0.0]).worst == 0.0
    assert turned.lagrangian([1.0, 3.0], [2.0], [5.0]) == 5.0 + 2.0 * -3.0 + 5.0 * -2.0
    np.testing.assert_allclose(turned.dual_function([[0.5], [0.2]], [0.0]), [0.25, 0.16], atol=1e-8)


def test_without_constraints_and_with_wrong_multipliers():
    free = ConstrainedProblem(n=1, f=lambda w: (w[0] - 2.0) ** 2)
    np.testing.assert_allclose(free.dual_function(), [0.0], atol=1e-10)
    assert free.kkt([2.0]).worst < 1e-9
    falling = ConstrainedProblem(n=1, f=lambda w: w[0])
    assert falling.dual_function()[0] == -np.inf
    with pytest.raises(ValueError, match="lam needs 1 numbers"):
        half_plane(1.0).lagrangian([0.0, 0.0])
    with pytest.raises(ValueError, match="nu needs 0 numbers"):
        half_plane(1.0).kkt([0.0, 0.0], [1.0], [1.0])
    with pytest.raises(ValueError, match="rows of 3 numbers"):
        alice_bob(np.eye(3), [1, -1, 1]).dual_function([1.0, 2.0])
