"""N1's choice of pairs; what it shares with Algorithm 1 is in test_textbook.py."""

import numpy as np
import pytest

from maxmargin import certify, kernels, problems
from maxmargin.solvers import solve
from maxmargin.solvers.platt import PlattSMO


def problem_of(C, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=C)


def errors(problem, alpha):
    """E and b by N1: b averaged over the margin, or the midpoint of its interval."""
    y, C = problem.y, problem.C
    each = y - problem.kbeta(y * alpha)
    free = (alpha > 0) & (alpha < C)
    low = each[np.where(y > 0, alpha < C, alpha > 0)].max()
    high = each[np.where(y > 0, alpha > 0, alpha < C)].min()
    b = each[free].mean() if free.any() else (low + high) / 2
    return b - each, b


def story(problem, tol, **settings):
    """Each step with α and E before it."""
    solution = solve(problem, PlattSMO(record_steps=True, **settings), tol=tol)
    alpha = np.zeros(problem.gram.n)
    for step in solution.steps:
        E, b = errors(problem, alpha)
        yield step, alpha.copy(), E, b
        alpha[step.i], alpha[step.j] = step.alpha_i_new, step.alpha_j_new


@pytest.mark.parametrize("C", [0.2, 2.0, 50.0])
def test_choice_of_i_and_j(C):
    problem, tol, margin_turn, seen = problem_of(C), 1e-3, False, set()
    y = problem.y
    for step, alpha, E, _ in story(problem, tol):
        r = y * E
        violates = ((r < -tol / 2) & (alpha < C)) | ((r > tol / 2) & (alpha > 0))
        free = (alpha > 0) & (alpha < C)
        assert violates[step.i]
        who, why = step.why.split("; ")
        seen.add(why)
        if margin_turn and (violates & free).any():
            assert who == "i among margin violators"
            assert free[step.i]
        else:
            assert who == "i among all violators"
        distance = np.abs(E[step.i] - E)
        farthest = distance[step.j] >= distance.max() - 1e-9
        if why == "j has the largest |E_i - E_j|":
            assert farthest
        elif why == "j: next non-bound point":
            assert free[step.j]
        else:
            assert why == "j: any point"
        margin_turn = not margin_turn
    assert "j has the largest |E_i - E_j|" in seen
    assert len(seen) >= 2


@pytest.mark.parametrize("C", [0.02, 2.0])
def test_bias_is_the_mean_over_the_margin_or_the_midpoint(C):
    problem, last = problem_of(C), 0.0
    none_free = 0
    for step, alpha, _, b in story(problem, 1e-4):
        np.testing.assert_allclose(last, b, atol=1e-10)
        none_free += not ((alpha > 0) & (alpha < C)).any()
        last = step.b
    assert none_free >= 1


def test_stops_when_nothing_violates():
    for C in (0.01, 1.0, 100.0):
        problem = problem_of(C)
        solution = solve(problem, PlattSMO(), tol=1e-7)
        assert solution.status == "optimal"
        assert solution.certificate.kkt_violation <= 1e-7
        E, _ = errors(problem, solution.alpha)
        r = problem.y * E
        assert r[solution.alpha < C].min() >= -0.6e-7
        assert r[solution.alpha > 0].max() <= 0.6e-7


def test_unreachable_tolerance_ends_as_precision_limit():
    for kernel in (kernels.RBF(gamma=1.0), kernels.Linear()):
        gram = kernel.gram(problem_of(1.0).gram.X)
        problem = problems.soft_margin(gram, problem_of(1.0).y, C=10.0)
        solution = solve(problem, PlattSMO(), tol=1e-16)
        assert solution.status == "precision_limit"
        assert solution.certificate.relative_gap < 1e-11


def test_error_cache_does_not_drift_into_a_wrong_answer():
    """Thousands of incremental updates; the answer is judged on errors from scratch."""
    problem = problem_of(1000.0)
    solution = solve(problem, PlattSMO(), tol=1e-6)
    assert solution.n_iter > 1000
    assert solution.status == "optimal"
    assert certify(problem, solution.beta).kkt_violation <= 1e-6
