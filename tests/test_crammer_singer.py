"""Crammer-Singer: several classes in one QP, its blocks in every solver."""

from dataclasses import replace

import numpy as np
import oracles
import pytest

from maxmargin import certify, geometry, kernels, problems
from maxmargin.ledger import ledger
from maxmargin.solvers import (
    ADMM,
    QP,
    SMO,
    DualCoordinate,
    Pegasos,
    PlattSMO,
    TextbookSMO,
    solve,
    steps,
)

SOLVERS = {"SMO": SMO(), "ADMM": ADMM(), "QP": QP()}


def make(seed, *, n=None, classes=None):
    """A random problem with weights, some of them 0, its K, its labels and its kernel."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 6)) if classes is None else classes
    n = int(rng.integers(classes, 25)) if n is None else n
    y = rng.permutation(np.arange(n) % classes)
    X = rng.normal(size=(n, 3)) + rng.normal(size=(classes, 3))[y]
    if seed % 3 == 0:
        X[n // 2 :] = X[: n - n // 2]  # duplicates, most of them of another class
    kernel = kernels.Linear() if seed % 2 else kernels.RBF(gamma=rng.uniform(0.1, 2.0))
    w = rng.uniform(0.2, 3.0, n)
    w[classes:] *= rng.random(n - classes) > 0.2
    y[:classes] = rng.permutation(classes)
    C = float(10.0 ** rng.uniform(-1.5, 2))
    problem = problems.crammer_singer(kernel.gram(X), y, C=C, sample_weight=w)
    return problem, kernel(X, X), y


def primal(problem, K, y, beta):
    """The primal as the paper has it."""
    coef = beta.reshape(-1, len(y)).T
    f, value = K @ coef, 0.0
    for i, own in enumerate(y):
        losses = [(k != own) + f[i, k] - f[i, own] for k in range(coef.shape[1])]
        value += problem.C[i] * max(losses)
    return 0.5 * (coef * f).sum() + value


def oracle(problem, K):
    """Clarabel's β, K written out block by block."""
    n, classes = problem.gram.n, problem.n_blocks
    P, A = np.kron(np.eye(classes), K), np.kron(np.ones(classes), np.eye(n))
    return oracles.clarabel_qp(P, -problem.s, A, np.zeros(n), problem.l, problem.u)


@pytest.mark.parametrize("seed", range(60))
def test_the_certificate_has_the_values_of_the_paper(seed):
    problem, K, y = make(seed)
    rng = np.random.default_rng(1000 + seed)
    for _ in range(3):
        beta = oracles.random_feasible(problem, rng)
        found = certify(problem, beta)
        theirs = primal(problem, K, y, beta)
        coef = beta.reshape(-1, len(y)).T
        dual = beta[y * len(y) + np.arange(len(y))].sum() - 0.5 * (coef * (K @ coef)).sum()
        size = 1e-11 * (1 + abs(theirs) + abs(dual))
        assert abs(found.primal - theirs) <= size
        assert abs(found.dual - dual) <= size
        assert abs(found.gap - (theirs - dual)) <= size
        assert found.lam.shape == y.shape
        assert found.distance == 0


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("start", range(0, 60, 10))
def test_solvers_reach_the_oracle(start, name):
    for seed in range(start, start + 10):
        problem, K, y = make(seed)
        best = certify(problem, oracle(problem, K))
        solution = solve(problem, SOLVERS[name], tol=1e-6, max_time=30)
        found = solution.certificate
        assert found.kkt_violation <= 1e-6, (seed, solution)
        assert found.dual >= best.dual * (1 - 1e-5), (seed, solution)
        assert found.dual <= best.primal * (1 + 1e-6) + 1e-9, (seed, solution)
        assert abs(primal(problem, K, y, solution.beta) - found.primal) <= 1e-9 * found.primal


def test_only_the_upper_bounds_count():
    """Without the bounds that follow from the sums, the optimum is the same."""
    for seed in range(10):
        problem, K, _ = make(seed)
        open_below = replace(problem, l=np.where(problem.u > problem.l, -1e3, problem.l))
        values = [certify(problem, oracle(p, K)).dual for p in (problem, open_below)]
        np.testing.assert_allclose(*values, rtol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_two_classes_are_the_machine_without_bias(seed):
    problem, K, y = make(seed, classes=2)
    gram = kernels.Precomputed().gram(K)
    binary = problems.soft_margin(
        gram, np.where(y == 1, 1, -1), C=2 * problem.C.max(),
        sample_weight=problem.C / problem.C.max(), bias=False,
    )  # fmt: skip
    several, one = solve(problem, tol=1e-9), solve(binary, tol=1e-9)
    assert several.certificate.primal == pytest.approx(one.certificate.primal / 2, rel=1e-6)
    assert several.certificate.dual == pytest.approx(one.certificate.dual / 2, rel=1e-6)
    f = K @ several.alpha
    np.testing.assert_allclose(f[:, 1] - f[:, 0], K @ one.beta, atol=2e-4)


def test_the_order_of_classes_and_samples_does_not_matter():
    for seed in range(8):
        problem, K, y = make(seed)
        rng = np.random.default_rng(seed)
        order, names = rng.permutation(len(y)), rng.permutation(problem.n_blocks)
        gram = kernels.Precomputed().gram(K[np.ix_(order, order)])
        w = problem.C[order] / problem.C.max()
        other = problems.crammer_singer(
            gram, names[y][order], C=problem.C.max(), sample_weight=w
        )  # fmt: skip
        values = [solve(p, tol=1e-8).certificate.dual for p in (problem, other)]
        np.testing.assert_allclose(*values, rtol=1e-6)


def test_a_weight_is_a_repetition_and_0_leaves_out():
    rng = np.random.default_rng(0)
    X, y, times = rng.normal(size=(20, 2)), np.arange(20) % 3, rng.integers(0, 4, 20)
    times[:3] = 1
    kernel = kernels.RBF(gamma=0.5)
    weighted = problems.crammer_singer(kernel.gram(X), y, sample_weight=times)
    again = np.repeat(np.arange(20), times)
    repeated = problems.crammer_singer(kernel.gram(X[again]), y[again])
    one, other = solve(weighted, tol=1e-8), solve(repeated, tol=1e-8)
    assert one.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-7)
    assert not one.alpha[times == 0].any()


def test_the_solution():
    problem, _, _ = make(4, n=20, classes=4)
    solution = solve(problem, SMO(record_every=10), tol=1e-6)
    alpha = solution.alpha
    assert alpha.shape == (20, 4)
    np.testing.assert_array_equal(alpha, solution.beta.reshape(4, 20).T)
    np.testing.assert_allclose(alpha.sum(axis=1), 0, atol=1e-12)
    assert solution.parameters == {}
    with pytest.raises(AttributeError, match="crammer_singer has no bias"):
        _ = solution.b
    with pytest.raises(ValueError, match="crammer_singer has a hyperplane for each class"):
        geometry.decision(solution)
    assert len(solution.history) > 2
    assert solution.certificate.lam.shape == (20,)
    again = solve(problem, beta=solution.beta, tol=1e-6)
    assert again.n_iter == 0
    tight = solve(problem, tol=1e-2, gap_tol=1e-9)
    assert tight.certificate.relative_gap <= 1e-9


@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("cache_size", [None, 1e-4])
def test_more_samples_than_the_cache_holds(shrinking, cache_size):
    problem, _, _ = make(6, n=400, classes=5)
    solution = solve(problem, SMO(shrinking=shrinking, cache_size=cache_size), tol=1e-5)
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap < 1e-4


def test_float32_rows():
    rng = np.random.default_rng(0)
    y = np.arange(2100) % 3
    X = rng.normal(size=(2100, 2)) + 2 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    problem = problems.crammer_singer(kernels.RBF(gamma=0.5).gram(X), y)
    solution = solve(problem)
    assert solution.status == "optimal"
    again = solve(problem, SMO(n_threads=1))
    np.testing.assert_array_equal(solution.beta, again.beta)


def stacked(parts):
    """Independent problems over one Gram as the blocks of one problem."""
    n_groups = np.cumsum([0, *(p.n_groups for p in parts)])
    group = [np.where(p.group < 0, -1, p.group + g) for p, g in zip(parts, n_groups, strict=False)]
    arrays = {
        f: np.concatenate([getattr(p, f) for p in parts]) for f in ["s", "l", "u", "D", "row", "m"]
    }
    block = np.repeat(np.arange(len(parts)), [p.n_variables for p in parts])
    return replace(parts[0], **arrays, group=np.concatenate(group), block=block)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("make", ["soft_margin", "squared_hinge", "svr"])
def test_blocks_are_problems_of_their_own(make, bias):
    rng = np.random.default_rng(0)
    for n in (8, 40, 300):
        X = rng.normal(size=(n, 2))
        gram = kernels.RBF(gamma=0.7).gram(X)
        targets = [X[:, 0] + 0.3 * rng.normal(size=n) for _ in range(3)]
        labels = targets if make == "svr" else [np.where(z > 0, 1.0, -1.0) for z in targets]
        parts = [getattr(problems, make)(gram, v, C=3.0, bias=bias) for v in labels]
        whole = stacked(parts)
        values = sum(solve(p, tol=1e-7).certificate.dual for p in parts)
        for solver in SOLVERS.values() if n < 10 else (SMO(), SMO(shrinking=False)):
            solution = solve(whole, solver, tol=1e-7)
            assert solution.certificate.kkt_violation <= 1e-7
            assert solution.certificate.dual == pytest.approx(values, rel=1e-7)


def test_groups_across_rows_and_blocks():
    """Nothing is assumed of how groups and blocks lie: random ones, many variables on one row."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = rng.normal(size=(12, 2))
        problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), np.resize([1, -1], 12))
        n, groups = 50, 4
        group, row = rng.permutation(np.arange(n) % groups), rng.integers(0, 12, n)
        D = (rng.random(12) * (rng.random(12) < 0.5))[row]
        problem = replace(
            problem, s=rng.normal(size=n), l=-rng.random(n), u=rng.random(n),
            D=D, row=row, group=group, block=rng.integers(0, 3, n), m=np.zeros(groups),
        )  # fmt: skip
        K = oracles.matrix(problem) * (problem.block[:, None] == problem.block)
        A = (group == np.arange(groups)[:, None]).astype(float)
        best = certify(problem, oracles.clarabel_qp(
            K + np.diag(problem.D), -problem.s, A, problem.m, problem.l, problem.u
        ))  # fmt: skip
        found = solve(problem, tol=1e-8).certificate
        assert found.kkt_violation <= 1e-8
        assert found.dual == pytest.approx(best.dual, rel=1e-6)


@pytest.mark.parametrize("solver", [DualCoordinate(), Pegasos(), PlattSMO(), TextbookSMO()])
def test_solvers_of_one_machine_refuse(solver):
    problem, _, _ = make(0)
    with pytest.raises(ValueError, match=rf"{type(solver).__name__}.*crammer_singer.*SMO"):
        solve(problem, solver)
    gram = problem.gram
    whole = stacked([problems.soft_margin(gram, np.resize([1, -1], gram.n), bias=False)] * 2)
    with pytest.raises(ValueError, match=type(solver).__name__):
        solve(whole, solver)


def test_steps_are_refused():
    problem, _, _ = make(0)
    with pytest.raises(ValueError, match="Leave out record_steps"):
        next(steps(problem, SMO(record_steps=True)))
    for solver in (ADMM(record_steps=True), QP(record_steps=True)):
        assert solve(problem, solver, tol=1e-6).steps


@pytest.mark.parametrize(
    ("y", "given", "message"),
    [
        ([0, 1, 3, 0], {}, r"integers 0, 1, .., n_classes - 1.*got \[0. 1. 3.\]"),
        ([0, 1, 0.5, 0], {}, "integers"),
        ([-1, 1, 1, -1], {}, "integers"),
        ([1, 2, 1, 2], {}, "integers"),
        ([0, 1, 2, 0], {"sample_weight": [1, 1, 0, 1]}, "each with a sample of positive weight"),
        ([0, 0, 0, 0], {}, "two classes are needed; all 4 samples"),
        ([0, 1, 2], {}, r"y has shape \(3,\); expected \(4,\)"),
        ([0, 1, np.nan, 0], {}, "y must be finite"),
        ([0, 1, 2, 0], {"C": 0.0}, "C must be positive"),
        ([0, 1, 2, 0], {"C": np.inf}, "C must be positive and finite"),
        ([0, 1, 2, 0], {"sample_weight": [1, 1, 1, -1]}, "sample_weight must be at least 0"),
    ],
)
def test_errors_before_any_kernel_entry(y, given, message):
    gram = oracles.MatrixGram(np.eye(4))
    with pytest.raises(ValueError, match=message):
        problems.crammer_singer(gram, y, **given)
    assert gram.touched == 0
    with pytest.raises(TypeError, match="gram must be a Gram"):
        problems.crammer_singer(np.eye(4), [0, 1, 2, 0])


def test_ledger():
    problem, K, y = make(10, n=24, classes=4)
    solution = solve(problem, tol=1e-8)
    found = ledger(problem, solution.beta, solution.certificate)
    f, rows = K @ solution.alpha, np.arange(24)
    others = np.where(y[:, None] == np.arange(4), -np.inf, f)
    margin = f[rows, y] - others.max(axis=1)
    np.testing.assert_allclose(found["margin"], margin, atol=1e-12)
    np.testing.assert_allclose(found["slack"], np.maximum(0, 1 - margin), atol=1e-12)
    np.testing.assert_array_equal(found["alpha"], solution.alpha[rows, y])
    names = {"outside", "on margin", "inside margin", "misclassified"}
    assert set(found["case"]) <= names
    used = problem.C > 0
    assert (found["case"][used & (found["alpha"] == 0)] != "misclassified").all()
    assert (margin[found["state"] == "free"] <= 1 + 1e-6).all()
    assert (found["margin"][found["case"] == "misclassified"] < 0).all()
    assert found["kkt_residual"].max() <= 1e-8
    loss = (problem.C * found["slack"]).sum() + 0.5 * (solution.alpha * f).sum()
    assert loss == pytest.approx(solution.certificate.primal, rel=1e-9)


def test_ledger_tells_the_distance_to_the_nearest_other_class():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    problem = problems.crammer_singer(kernels.Linear().gram(X), [0, 1, 2], C=10.0)
    solution = solve(problem, tol=1e-10)
    found = ledger(problem, solution.beta, solution.certificate)
    w = solution.alpha.T @ X
    for i in range(3):
        normals = [w[i] - w[k] for k in range(3) if k != i]
        nearest = min(n @ X[i] / np.linalg.norm(n) for n in normals)
        assert found["geometric_margin"][i] == pytest.approx(nearest)
    assert found.summary() == {"on margin": 3}
    nothing = np.zeros(problem.n_variables)
    empty = ledger(problem, nothing, certify(problem, nothing))
    assert np.isnan(empty["geometric_margin"]).all()
    np.testing.assert_array_equal(empty["margin"], 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["soft_margin", "no bias", "crammer_singer"])
def test_a_kernel_value_that_is_no_number_is_never_called_solved(kind, value):
    gram = kernels.Precomputed().gram(np.eye(4) + 0.5)
    makers = {
        "soft_margin": lambda: problems.soft_margin(gram, [1, -1, 1, -1]),
        "no bias": lambda: problems.soft_margin(gram, [1, -1, 1, -1], bias=False),
        "crammer_singer": lambda: problems.crammer_singer(gram, [0, 1, 2, 0]),
    }
    problem = makers[kind]()
    gram.matrix[0, 1] = gram.matrix[1, 0] = value  # behind the back of every check
    with np.errstate(all="ignore"):
        solution = solve(problem, max_time=10)
        again = certify(problem, solution.beta)
    assert solution.status == "precision_limit"
    assert np.isfinite(solution.beta).all()
    assert again.status is None or not np.isnan(value)
