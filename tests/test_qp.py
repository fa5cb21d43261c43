"""The interior-point reference: every formulation, tight certificates, the ladder, refusals."""

import importlib

import numpy as np
import oracles
import pytest
from test_admm import (
    KERNELS,
    NAMES,
    Huge,
    assert_same_optimum,
    blobs,
    formulations,
    run,
    soft,
)

from maxmargin import certify, kernels, problems
from maxmargin.certificate import margin_bound, margin_resolution
from maxmargin.solvers import qp, solve, steps
from maxmargin.solvers.qp import QP


@pytest.mark.parametrize("kind", oracles.FORMULATIONS)
@pytest.mark.parametrize("seed", range(8))
def test_random_problems(kind, seed):
    problem = oracles.random_problem(kind, np.random.default_rng(100 + seed))
    solution = solve(problem, QP(), tol=1e-6)
    assert_same_optimum(solution, problem, rtol=1e-7)
    assert solution.certificate.kkt_violation <= 1e-6
    assert solution.certificate.distance == 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel(name, kernel):
    X, y = blobs(40, noise=0.0 if name == "hard" else 0.5, seed=1)
    rng = np.random.default_rng(1)
    w = np.where(rng.random(40) < 0.1, 0.0, rng.random(40) + 0.2)
    problem = formulations(kernel.gram(X), y, X[:, 0] + 0.1 * rng.normal(size=40), w)[name]
    solution = solve(problem, QP(), tol=1e-6)
    assert_same_optimum(solution, problem, rtol=1e-7)
    assert solution.n_iter == 1
    assert solution.counters["interior_steps"] > 1


def test_polishing_makes_the_certificate_tight():
    problem = soft(C=100.0)
    raw, polished = (solve(problem, QP(polish=p), tol=1e-12).certificate for p in (False, True))
    assert polished.relative_gap <= min(raw.relative_gap, 1e-12)


# ---- hard margin ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", KERNELS[:2], ids=repr)
@pytest.mark.parametrize("bias", [True, False])
def test_inseparable_hard_margin_ends_with_a_proof(kernel, seed, bias):
    X, y = blobs(60, d=2, noise=1.0, seed=seed)
    problem = problems.hard_margin(kernel.gram(X), y, bias=bias)
    solution = solve(problem, QP())
    assert solution.status == "infeasible"
    assert "no hyperplane has geometric margin above" in solution.certificate.proof
    assert solution.certificate.primal == np.inf
    assert margin_bound(problem, solution.beta) <= margin_resolution(problem, solution.beta)


def test_points_that_coincide_are_named():
    X, y = blobs(30, noise=0.0)
    X[20], y[20] = X[7], -y[7]
    solution = solve(problems.hard_margin(kernels.RBF(gamma=5.0).gram(X), y), QP())
    assert "coincide in feature space (rows 7, 20)" in solution.certificate.proof


def test_some_points_without_slack():
    X, y = blobs(60, d=2, noise=1.0)
    hard = np.where(np.arange(60) < 3, np.inf, 1.0)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=hard)
    assert_same_optimum(solve(problem, QP(), tol=1e-6), problem)
    every = problems.soft_margin(kernels.Linear().gram(X), y, C=np.where(hard < 2, np.inf, 1.0))
    assert solve(every, QP()).status == "infeasible"


# ---- edges ------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-300, 1e-12, 1e-4, 1e9])
@pytest.mark.parametrize("kernel", [kernels.RBF(gamma=1.0), kernels.Linear()], ids=repr)
def test_tiny_and_huge_C(C, kernel):
    solution = solve(soft(C=C, kernel=kernel, d=2, noise=1.0), QP())
    assert solution.status == "optimal"
    assert solution.certificate.kkt_violation <= 1e-3


def test_duplicates_with_opposite_labels_and_zero_columns():
    X = np.repeat([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]], 4, axis=0)
    y = np.tile([1.0, 1.0, -1.0, -1.0], 3)
    for kernel in KERNELS:
        found = solve(problems.soft_margin(kernel.gram(X), y), QP(), tol=1e-9).certificate
        assert found.status == "optimal"
        assert found.relative_gap <= 1e-8


@pytest.mark.parametrize("n", [1, 2, 3])
def test_almost_no_points(n):
    gram = kernels.RBF(gamma=1.0).gram(np.arange(n, dtype=float)[:, None])
    assert solve(problems.one_class(gram, nu=0.5), QP()).status == "optimal"
    assert solve(problems.svr(gram, np.arange(n), C=1.0), QP()).status == "optimal"
    if n > 1:
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        assert solve(problems.soft_margin(gram, y), QP()).status == "optimal"
        assert solve(problems.hard_margin(gram, y), QP(), tol=1e-9).status == "optimal"


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_kernel_is_flat_everywhere(value):
    gram = kernels.Precomputed().gram(np.full((6, 6), value))
    solution = solve(problems.soft_margin(gram, [1, -1, 1, -1, 1, -1], C=2.0), QP())
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.alpha, 2.0)
    assert solve(problems.hard_margin(gram, [1, -1] * 3), QP()).status == "infeasible"


# ---- the loop ---------------------------------------------------------------------------------


def test_the_ladder_ends_as_precision_limit():
    problem = soft(C=100.0)
    solution = solve(problem, QP(record_every=1), tol=1e-17)
    assert solution.status == "precision_limit"
    assert solution.n_iter == len(qp._LADDER)
    assert solution.history.iteration.tolist() == [0, 1, 2, 3]
    assert solution.certificate.relative_gap < 1e-11
    assert (np.diff(solution.history.kkt_violation) <= 0).all()
    assert solve(problem, QP(), gap_tol=1e-18).status == "precision_limit"
    assert solve(problem, QP(), tol=1.0, gap_tol=1e-9).certificate.relative_gap <= 1e-9
    assert solve(problem, QP(), max_iter=0).status == "iteration_limit"
    assert solve(problem, QP(), tol=1e-17, max_iter=1).status == "iteration_limit"


def test_an_answer_without_numbers_is_passed_over(monkeypatch):
    def nothing(self, P, unit, options):
        return np.full(60, np.nan), np.zeros(60), 0.0, "NumericalError"

    monkeypatch.setattr(qp._State, "_interior_point", nothing)
    problem = soft()
    solution = solve(problem, QP())
    assert solution.status == "precision_limit"
    assert (solution.beta == problem.start()).all()


def test_chunks_and_repetition_do_not_change_a_bit():
    problem = soft(C=100.0)
    first, second = (run(QP(), problem, chunk, tol=1e-17) for chunk in (1, 100))
    assert (first.beta == second.beta).all()
    assert first.counters == second.counters


def test_a_good_starting_point_is_the_answer():
    problem = soft()
    cold = solve(problem, QP(), tol=1e-8)
    warm = solve(problem, QP(), tol=1e-8, beta=cold.beta)
    assert warm.n_iter == 0
    assert (warm.beta == cold.beta).all()


def test_steps_tell_how_clarabel_ended():
    problem = soft(C=100.0)
    watched = solve(problem, QP(record_steps=True), tol=1e-9)
    (step,) = watched.steps
    assert step.why.startswith("Clarabel: ")
    np.testing.assert_allclose(step.b, watched.b, atol=1e-6)
    start = certify(problem, problem.start())
    np.testing.assert_allclose(start.dual + step.change, watched.certificate.dual, rtol=1e-12)
    assert list(steps(problem, QP(record_steps=True), tol=1e-9)) == watched.steps


def test_ctrl_c_ends_an_iteration_of_clarabel(monkeypatch):
    # Ctrl-C while Clarabel runs is raised in the callback: at the yield.
    pressed = qp._until_ctrl_c()
    assert next(pressed) is pressed.send(None) is False
    assert pressed.throw(KeyboardInterrupt) is pressed.send(None) is True

    def third_time():
        for _ in range(3):
            yield False
        while True:
            yield True

    monkeypatch.setattr(qp, "_until_ctrl_c", third_time)
    problem = soft(C=100.0)
    solution = solve(problem, QP())
    assert solution.status == "interrupted"
    assert solution.n_iter == 0
    assert (solution.beta == problem.start()).all()


# ---- refusals ---------------------------------------------------------------------------------


def test_refuses_by_name_before_any_work():
    n = 10001
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    with pytest.raises(ValueError, match=r"QP .* 10001 x 10001 matrix \(0.8 GB each\).* 10000"):
        solve(problems.hard_margin(Huge(n), y), QP())


def test_refuses_an_indefinite_kernel():
    X, y = blobs(50)
    gram = kernels.Sigmoid(1.0, coef0=-1.0).gram(X)
    with pytest.raises(ValueError, match="QP needs a positive semi-definite kernel; got Sigmoid"):
        solve(problems.soft_margin(gram, y), QP())


def test_names_the_missing_package(monkeypatch):
    def missing(name, *args):
        raise ImportError(name)

    problem = soft(10)
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"clarabel: pip install maxmargin\[qp\]"):
        solve(problem, QP())
