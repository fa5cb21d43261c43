"""Dual coordinate descent: the oracle's optimum, a dual that never falls, records, refusals."""

import itertools
import signal

import numpy as np
import oracles
import pytest

from maxmargin import certify, kernels, problems
from maxmargin.solvers import SMO, solve, steps
from maxmargin.solvers.dual_coordinate import DualCoordinate

NAMES = ("soft", "mean", "doubled", "squared", "svr", "svr without tube")
KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(2, coef0=1.0),
    kernels.RBF(gamma=0.5),
    kernels.Laplacian(gamma=0.5) + 0.5 * kernels.Linear(),
    kernels.RBF(gamma=0.5) + kernels.Polynomial(0),  # the bias as a feature
]


def blobs(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def make(name, kernel, n=30, seed=0, C=3.0):
    rng = np.random.default_rng(seed)
    X, y = blobs(n, seed)
    gram, z = kernel.gram(X), X[:, 0] + 0.1 * rng.normal(size=n)
    w = np.where(rng.random(n) < 0.1, 0.0, rng.random(n) + 0.2)
    given = {"C": C, "sample_weight": w, "bias": False}
    if name.startswith("svr"):
        return problems.svr(gram, z, epsilon=0.1 if name == "svr" else 0.0, **given)
    if name == "squared":
        return problems.squared_hinge(gram, y, **given)
    if name == "mean":
        given["C"] = n * C
    scaling = "sum" if name == "soft" else name
    return problems.soft_margin(gram, y, scaling=scaling, **given)


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_reaches_the_oracle(name, kernel):
    problem = make(name, kernel)
    best = certify(problem, oracles.solve(problem))
    solution = solve(problem, DualCoordinate(), tol=1e-7)
    c = solution.certificate
    assert solution.status == "optimal"
    assert c.kkt_violation <= 1e-7
    assert c.distance == 0.0
    assert c.dual >= best.dual - 1e-6 * abs(best.dual)
    assert c.primal <= best.primal + 1e-6 * abs(best.primal)


@pytest.mark.parametrize("kind", ["soft_margin", "squared_hinge", "svr"])
def test_random_problems(kind):
    """Low rank, duplicate rows, weights with zeros; a large C only needs more passes."""
    rng, tried = np.random.default_rng(0), 0
    while tried < 30:
        problem = oracles.random_problem(f"{kind} without bias", rng)
        if problem.C.max() > 100:
            continue
        tried += 1
        best = certify(problem, oracles.solve(problem))
        c = solve(problem, DualCoordinate(), tol=1e-7).certificate
        assert c.status in ("optimal", "precision_limit")
        assert abs(c.dual - best.dual) <= 1e-6 * abs(best.dual)
        assert abs(c.primal - best.primal) <= 1e-6 * abs(best.primal)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_the_dual_never_falls(name, shuffle):
    problem = make(name, kernels.RBF(gamma=0.5))
    solver = DualCoordinate(shuffle=shuffle, record_every=1)
    solution = solve(problem, solver, tol=1e-7)
    dual = solution.history.dual
    assert (np.diff(dual) >= -1e-12 * np.abs(dual[1:])).all()
    assert (solution.history.primal >= dual[-1] * (1 - 1e-12)).all()
    assert solution.history.iteration.tolist() == list(range(solution.n_iter + 1))


def test_agrees_with_smo_on_more_rows():
    X, y = blobs(400)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, bias=False)
    ours, smo = (solve(problem, solver, tol=1e-6) for solver in (DualCoordinate(), SMO()))
    assert ours.status == smo.status == "optimal"
    np.testing.assert_allclose(ours.certificate.dual, smo.certificate.dual, rtol=1e-8)


# ---- reproducible, in chunks, on record -------------------------------------------------------


def test_a_seed_gives_its_bits():
    problem = make("soft", kernels.RBF(gamma=0.5))
    one, two, other = (solve(problem, DualCoordinate(random_state=s)) for s in (3, 3, 4))
    assert (one.beta == two.beta).all()
    assert (one.beta != other.beta).any()
    np.testing.assert_allclose(one.certificate.dual, other.certificate.dual, rtol=1e-4)


@pytest.mark.parametrize("name", ["soft", "squared", "svr"])
def test_chunks_do_not_change_a_bit(name, monkeypatch):
    problem = make(name, kernels.RBF(gamma=0.5))
    whole = solve(problem, DualCoordinate(), tol=1e-6)
    for solver in (DualCoordinate(record_every=1), DualCoordinate(record_steps=True)):
        parts = solve(problem, solver, tol=1e-6)
        assert (parts.beta == whole.beta).all()
        assert parts.n_iter == whole.n_iter
    # A clock that lets one variable through per chunk: passes are parted everywhere.
    ticks = itertools.count(0.0, 0.06)
    monkeypatch.setattr("maxmargin.solvers.dual_coordinate.perf_counter", lambda: next(ticks))
    parted = solve(problem, DualCoordinate(), tol=1e-6)
    assert (parted.beta == whole.beta).all()
    assert parted.n_iter == whole.n_iter


def test_rows_of_a_large_gram_are_read_one_by_one():
    X, y = blobs(2100)
    problem = problems.soft_margin(
        kernels.RBF(gamma=0.5).gram(X), y, sample_weight=np.arange(2100) % 40 == 0, bias=False
    )
    solution = solve(problem, DualCoordinate())
    assert solution.status == "optimal"
    assert (solution.beta[np.arange(2100) % 40 > 0] == 0).all()


def test_warm_start():
    problem = make("svr", kernels.RBF(gamma=0.5))
    cold = solve(problem, DualCoordinate(), tol=1e-7)
    warm = solve(problem, DualCoordinate(), tol=1e-6, beta=cold.beta)
    assert warm.n_iter == 1
    wild = np.random.default_rng(0).normal(size=problem.n_variables) * 100
    again = solve(problem, DualCoordinate(), tol=1e-7, beta=wild)
    np.testing.assert_allclose(again.certificate.dual, cold.certificate.dual, rtol=1e-7)


def test_a_gap_can_be_asked_for():
    problem = make("soft", kernels.RBF(gamma=0.5))
    solution = solve(problem, DualCoordinate(), gap_tol=1e-8)
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap <= 1e-8


def test_an_unreachable_tolerance_ends():
    for name in ("soft", "squared", "svr"):
        solution = solve(make(name, kernels.Linear()), DualCoordinate(), tol=1e-300)
        assert solution.status in ("precision_limit", "optimal")
        assert solution.certificate.relative_gap < 1e-9


def test_limits_and_interruption():
    problem = make("soft", kernels.Linear())
    solution = solve(problem, DualCoordinate(), max_iter=3, tol=1e-12)
    assert (solution.status, solution.n_iter) == ("iteration_limit", 3)
    assert solve(problem, DualCoordinate(), max_time=0.0).status == "time_limit"
    seen = []
    solver = DualCoordinate(record_every=2)
    stop = solve(problem, solver, tol=1e-12, callback=lambda p: seen.append(p) or p.iteration == 6)
    assert stop.status == "interrupted"
    assert seen[-1].iteration == 6
    assert all(p.kkt_violation > 0 and p.relative_gap > 0 for p in seen)

    def press(progress):
        if progress.iteration >= 4:
            signal.raise_signal(signal.SIGINT)

    solution = solve(problem, solver, tol=1e-12, callback=press)
    assert (solution.status, solution.n_iter) == ("interrupted", 4)
    assert np.isfinite(solution.certificate.gap)


@pytest.mark.parametrize("name", NAMES)
def test_steps_tell_the_whole_story(name):
    problem = make(name, kernels.RBF(gamma=0.5), n=20)
    solver = DualCoordinate(record_steps=True)
    solution = solve(problem, solver, tol=1e-6)
    gained = sum(step.change for step in solution.steps) * problem.scale
    np.testing.assert_allclose(gained, solution.certificate.dual, rtol=1e-9)
    for step in solution.steps:
        assert step.change >= 0
        assert step.L == 0
        assert step.L <= step.alpha_i_new <= step.H
        # Hsieh et al. 2008: the unclipped step is |E| / (K_kk + D_k), up or down.
        reach = {
            np.clip(step.alpha_i + sign * abs(step.E_i) / step.eta, step.L, step.H)
            for sign in (-1, 1)
        }
        assert any(abs(step.alpha_i_new - end) <= 1e-9 for end in reach)
    assert solution.steps[-1].iteration <= solution.n_iter
    assert list(steps(problem, solver, tol=1e-6)) == solution.steps


# ---- edges and refusals -----------------------------------------------------------------------


def test_no_curvature_goes_to_the_better_end():
    K = np.diag([0.0, 1.0])
    soft = problems.soft_margin(oracles.MatrixGram(K), [1, -1], C=0.7, bias=False)
    solution = solve(soft, DualCoordinate(), tol=1e-9)
    assert solution.status == "optimal"
    assert solution.beta.tolist() == [0.7, -0.7]
    squared = problems.squared_hinge(oracles.MatrixGram(K), [1, -1], C=0.5, bias=False)
    np.testing.assert_allclose(solve(squared, DualCoordinate()).beta, [1.0, -0.5])
    svr = problems.svr(oracles.MatrixGram(0 * K), [2.0, -0.05], C=3.0, epsilon=0.1, bias=False)
    solution = solve(svr, DualCoordinate())
    assert solution.status == "optimal"
    assert solution.beta.tolist() == [3.0, 0.0, 0.0, 0.0]


def test_an_indefinite_gram_is_stationary_and_never_optimal():
    K = np.array([[-0.5, 1.0, 0.0], [1.0, 0.2, 0.3], [0.0, 0.3, 0.4]])
    gram = oracles.MatrixGram(K, convex=False)
    solution = solve(problems.soft_margin(gram, [1, -1, 1], bias=False), DualCoordinate())
    assert solution.status == "stationary"
    with pytest.raises(ValueError, match="squared_hinge needs a positive semi-definite"):
        solve(problems.squared_hinge(gram, [1, -1, 1], bias=False), DualCoordinate())


def test_one_sample_one_class_and_nothing_left_to_move():
    gram = kernels.Linear().gram([[2.0]])
    solution = solve(problems.soft_margin(gram, [1], C=1.0, bias=False), DualCoordinate())
    assert solution.beta.tolist() == [0.25]
    tiny = problems.soft_margin(gram, [1], C=1e-300, sample_weight=[1e-300], bias=False)
    assert solve(tiny, DualCoordinate()).beta.tolist() == [0.0]


GRAM = oracles.MatrixGram(np.eye(3))
Y = [1.0, -1.0, 1.0]
REFUSED = [
    (problems.soft_margin(GRAM, Y), "got soft_margin with one group"),
    (problems.svr(GRAM, Y), "got svr with one group"),
    (problems.nu_svc(GRAM, Y, nu=0.5), "got nu_svc with 2 groups"),
    (problems.one_class(GRAM), "got one_class with one group"),
    (problems.hard_margin(GRAM, Y, bias=False), "finite C; got hard_margin"),
    (problems.soft_margin(GRAM, Y, C=np.inf, bias=False), "finite C; got soft_margin"),
]


@pytest.mark.parametrize(("problem", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_refusals_come_before_work(problem, message):
    before = problem.gram.touched
    with pytest.raises(ValueError, match=message):
        solve(problem, DualCoordinate())
    assert problem.gram.touched == before
