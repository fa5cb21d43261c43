"""SMO on every formulation: certificates, oracles, edges, limits, determinism."""

import itertools
import signal
import sys
import threading
from fractions import Fraction

import numpy as np
import oracles
import pytest
import sklearn.svm
from hypothesis import given, settings
from hypothesis import strategies as st
from libsvm.svmutil import svm_parameter, svm_problem, svm_train
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

from maxmargin import certify, datasets, kernels, problems
from maxmargin.solvers import ADMM, QP, SMO, Pegasos, PlattSMO, TextbookSMO, solve, steps
from maxmargin.solvers.face import minimise_on_face


def blobs(n, d=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def formulations(gram, y, z, w):
    return {
        "soft": problems.soft_margin(gram, y, C=10.0, sample_weight=w),
        "mean": problems.soft_margin(gram, y, C=100.0, scaling="mean", sample_weight=w),
        "no bias": problems.soft_margin(gram, y, C=10.0, bias=False),
        "squared": problems.squared_hinge(gram, y, C=1.0, sample_weight=w),
        "nu": problems.nu_svc(gram, y, nu=0.3, sample_weight=w),
        "svr": problems.svr(gram, z, C=10.0, epsilon=0.1, sample_weight=w),
        "nu svr": problems.nu_svr(gram, z, C=10.0, nu=0.4, sample_weight=w),
        "one class": problems.one_class(gram, nu=0.2, sample_weight=w),
        "svdd": problems.svdd(gram, nu=0.2, sample_weight=w),
    }


NAMES = list(
    formulations(
        kernels.Linear().gram(np.eye(40)), np.tile([1.0, -1.0], 20), np.ones(40), np.ones(40)
    )
)
KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(2, coef0=1.0),
    kernels.RBF(gamma=0.5),
    kernels.Laplacian(gamma=0.5) + 0.5 * kernels.Linear(),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_reaches_the_oracle(name, kernel, seed):
    X, y = blobs(40, seed=seed)
    rng = np.random.default_rng(seed)
    w = np.where(rng.random(40) < 0.1, 0.0, rng.random(40) + 0.2)
    problem = formulations(kernel.gram(X), y, X[:, 0] + 0.1 * rng.normal(size=40), w)[name]
    solution = solve(problem, tol=1e-8)
    best = certify(problem, oracles.solve(problem))
    assert solution.status == "optimal"
    assert solution.certificate.kkt_violation <= 1e-8
    assert solution.certificate.distance == 0.0
    box = (problem.u - problem.l)[np.isfinite(problem.u - problem.l)].sum()
    slack = max(1e-6 * abs(best.dual), 1e-8 * problem.scale * box)  # gap <= kkt_violation * box
    assert solution.certificate.dual >= best.dual - slack
    assert solution.certificate.primal <= best.primal + slack


@pytest.mark.parametrize(("n", "single"), [(1500, False), (2500, True)])
def test_large_enough_to_shrink_and_evict(n, single):
    X, y = blobs(n, d=5, noise=1.0)
    problem = problems.soft_margin(kernels.RBF(gamma=0.3).gram(X), y, C=1.0)
    plenty = solve(problem, SMO())
    scarce = solve(problem, SMO(cache_size=0.05, shrinking=False))
    shrunk = solve(problem, SMO(cache_size=0.05))
    for solution in (plenty, scarce, shrunk):
        c = solution.certificate
        assert c.status == "optimal"
        assert c.kkt_violation <= 1e-3
    duals = [s.certificate.dual for s in (plenty, scarce, shrunk)]
    np.testing.assert_allclose(duals, duals[0], rtol=1e-5)
    assert scarce.counters["rows_computed"] > plenty.counters["rows_computed"]


SETS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.1, 1000.0])
def test_small_gap_on_bundled_sets(name, kernel, C):
    X, y = SETS[name](return_X_y=True)
    X = scale(X)
    gram = kernels.as_kernel(kernel).gram(X)
    for c in np.unique(y)[1:3]:
        problem = problems.soft_margin(gram, np.where(y == c, 1.0, -1.0), C=C)
        certificate = solve(problem, gap_tol=1e-6).certificate
        assert certificate.status == "optimal"
        assert certificate.relative_gap <= 1e-6


def test_small_gap_on_the_chessboard():
    X, y = datasets.chessboard(2500, noise=0.02, random_state=0)
    for C in (1.0, 1000.0):
        problem = problems.soft_margin(kernels.RBF(gamma=2.0).gram(X), y, C=C)
        certificate = solve(problem, gap_tol=1e-6).certificate
        assert certificate.status == "optimal"
        assert certificate.relative_gap <= 1e-6


def libsvm_beta(X, y, C, gamma, tol):
    order = svm_train(
        svm_problem(y.tolist(), X.tolist()),
        svm_parameter(f"-s 0 -t 2 -c {C} -g {gamma} -e {tol} -q -m 200"),
    )
    beta = np.zeros(len(y))
    indices = np.array(order.get_sv_indices()) - 1
    coef = np.array([c[0] for c in order.get_sv_coef()])
    beta[indices] = coef if order.get_labels()[0] == 1 else -coef
    return beta


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0, 1000.0])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_at_least_as_good_as_libsvm(C, tol):
    X, y = blobs(400, d=4, noise=0.7)
    problem = problems.soft_margin(kernels.RBF(gamma=0.4).gram(X), y, C=C)
    theirs = certify(problem, libsvm_beta(X, y, C, 0.4, tol))
    ours = solve(problem, tol=tol).certificate
    assert ours.status == "optimal"
    if tol == 1e-6:
        assert ours.dual >= theirs.dual - 1e-6 * abs(theirs.dual)
    assert ours.relative_gap <= max(theirs.relative_gap, 1e-3)


def cuts(y):
    """Each class against the rest, and the first pairs of classes."""
    labels = np.unique(y)
    for a in labels[: 3 if len(labels) > 2 else 1]:
        yield np.ones(len(y), dtype=bool), y == a
    for a, b in [*itertools.pairwise(labels), (labels[0], labels[-1])][:4]:
        yield (y == a) | (y == b), y == b


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1.0, 100.0, 1000.0])
def test_gap_at_the_default_tolerance_is_libsvms_or_small(name, kernel, C):
    X, y = SETS[name](return_X_y=True)
    X = scale(X)
    for rows, positive in cuts(y):
        sides = np.where(positive[rows], 1.0, -1.0)
        theirs = sklearn.svm.SVC(C=C, kernel=kernel).fit(X[rows], sides)
        beta = np.zeros(len(sides))
        beta[theirs.support_] = theirs.dual_coef_[0]
        problem = problems.soft_margin(kernels.as_kernel(kernel).gram(X[rows]), sides, C=C)
        ours = solve(problem).certificate
        assert ours.status == "optimal"
        assert ours.relative_gap <= max(certify(problem, beta).relative_gap, 1e-3)


# ---- hard margin ------------------------------------------------------------------------------


def test_hard_margin_of_setosa_has_two_support_vectors():
    X, y = load_iris(return_X_y=True)
    problem = problems.hard_margin(kernels.Linear().gram(X[:, 2:]), np.where(y == 0, 1, -1))
    solution = solve(problem, tol=1e-8)
    assert solution.status == "optimal"
    assert np.count_nonzero(solution.alpha) == 2
    assert solution.certificate.relative_gap < 1e-8


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.Polynomial(2, coef0=1.0)], ids=repr)
def test_inseparable_hard_margin_ends_with_a_proof(kernel, seed):
    X, y = blobs(80, d=2, noise=1.0, seed=seed)
    solution = solve(problems.hard_margin(kernel.gram(X), y))
    assert solution.status == "infeasible"
    assert "no hyperplane has geometric margin above" in solution.certificate.proof
    assert solution.certificate.primal == np.inf


def test_points_that_coincide_are_named():
    X, y = blobs(30, noise=0.0)
    X[20] = X[7]
    y[20] = -y[7]
    for kernel in (kernels.RBF(gamma=5.0), kernels.Linear()):
        solution = solve(problems.hard_margin(kernel.gram(X), y))
        assert solution.status == "infeasible"
    assert (
        "coincide in feature space (rows 7, 20)"
        in solve(problems.hard_margin(kernels.RBF(gamma=5.0).gram(X), y)).certificate.proof
    )


def test_some_points_without_slack():
    X, y = blobs(60, d=2, noise=1.0)
    hard = np.where(np.arange(60) < 3, np.inf, 1.0)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=hard)
    solution = solve(problem, tol=1e-6)
    assert solution.status == "optimal"
    f = problem.kbeta(solution.beta) + solution.b
    assert (y * f)[:3].min() >= 1 - 1e-5
    every = problems.soft_margin(kernels.Linear().gram(X), y, C=np.where(hard < 2, np.inf, 1.0))
    assert solve(every).status == "infeasible"


# ---- edges ------------------------------------------------------------------------------------


def test_duplicates_with_opposite_labels_and_zero_columns():
    X = np.repeat([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]], 4, axis=0)
    y = np.tile([1.0, 1.0, -1.0, -1.0], 3)
    for kernel in KERNELS:
        certificate = solve(problems.soft_margin(kernel.gram(X), y), tol=1e-9).certificate
        assert certificate.status == "optimal"
        assert certificate.relative_gap <= 1e-8


@pytest.mark.parametrize("C", [1e-300, 1e-12, 1e9, 1e15])
def test_tiny_and_huge_C(C):
    X, y = blobs(60)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=C)
    solution = solve(problem, max_time=20)
    assert solution.status in ("optimal", "precision_limit")
    assert solution.certificate.kkt_violation <= 1e-3 or solution.status == "precision_limit"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_almost_no_points(n):
    X = np.arange(n, dtype=float)[:, None]
    gram = kernels.RBF(gamma=1.0).gram(X)
    assert solve(problems.one_class(gram, nu=0.5)).status == "optimal"
    assert solve(problems.svr(gram, np.arange(n), C=1.0, epsilon=0.1)).status == "optimal"
    if n > 1:
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        assert solve(problems.soft_margin(gram, y)).status == "optimal"


def test_constant_kernel_is_flat_everywhere():
    gram = kernels.Precomputed().gram(np.ones((6, 6)))
    solution = solve(problems.soft_margin(gram, [1, -1, 1, -1, 1, -1], C=2.0))
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.alpha, 2.0)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_indefinite_gram_is_never_optimal(gamma, C):
    X, y = blobs(200)
    problem = problems.soft_margin(kernels.Sigmoid(gamma, coef0=-1.0).gram(X), y, C=C)
    assert problem.gram.convex is False
    assert solve(problem, max_time=20).status == "stationary"
    assert solve(problems.hard_margin(problem.gram, y)).status == "unbounded"


def test_unreachable_tolerance_ends_as_precision_limit():
    X, y = blobs(300)
    for kernel in (kernels.RBF(gamma=1.0), kernels.Linear()):
        solution = solve(problems.soft_margin(kernel.gram(X), y, C=100.0), tol=1e-15)
        reached = solution.certificate.kkt_violation <= 1e-15  # by luck, on some CPUs
        assert solution.status == ("optimal" if reached else "precision_limit")
        assert solution.certificate.relative_gap < 1e-11


def test_unscaled_data_gives_the_honest_gap_in_time():
    X, y = load_breast_cancer(return_X_y=True)
    problem = problems.soft_margin(kernels.Linear().gram(X), np.where(y, 1.0, -1.0), C=1000.0)
    solution = solve(problem, max_time=0.3)
    assert solution.status in ("optimal", "time_limit", "precision_limit")
    again = certify(problem, solution.beta)
    assert again.gap == solution.certificate.gap


# ---- the loop ---------------------------------------------------------------------------------


def test_limits_and_history():
    X, y = blobs(300)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=100.0)
    solution = solve(problem, SMO(record_every=20), max_iter=100)
    assert solution.status == "iteration_limit"
    assert solution.n_iter == 100
    assert solution.history.iteration.tolist() == [0, 20, 40, 60, 80, 100]
    assert (np.diff(solution.history.dual) > 0).all()
    assert solution.history.dual[-1] == solution.certificate.dual
    assert len(solution.betas) == len(solution.history)
    assert certify(problem, solution.betas[2]).dual == solution.history.dual[2]
    assert (solution.history.primal >= solution.history.dual).all()
    assert solve(problem, max_time=0.0).status == "time_limit"
    assert solve(problem, max_iter=0).n_iter == 0


def test_recording_does_not_change_the_answer():
    X, y = blobs(400)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=10.0)
    assert (solve(problem).beta == solve(problem, SMO(record_every=7)).beta).all()


def test_a_gap_that_cannot_close_ends():
    """One-class with w = 0: the optimum is 0, so the relative gap never falls below 1."""
    gram = kernels.Linear().gram([[1.0], [-1.0], [2.0], [-2.0]])
    solution = solve(problems.one_class(gram, nu=0.5), gap_tol=1e-6, max_time=20)
    assert solution.status in ("optimal", "precision_limit")


def test_warm_start_from_any_point():
    X, y = blobs(200)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=10.0)
    cold = solve(problem, tol=1e-8)
    warm = solve(problem, tol=1e-8, beta=cold.beta)
    assert warm.n_iter == 0
    wild = solve(problem, tol=1e-8, beta=np.random.default_rng(0).normal(size=200) * 100)
    np.testing.assert_allclose(wild.certificate.dual, cold.certificate.dual, rtol=1e-7)


def test_callback_sees_progress_and_can_stop():
    X, y = blobs(500)
    problem = problems.soft_margin(kernels.Linear().gram(X), y, C=1000.0)
    seen = []
    solution = solve(
        problem, SMO(record_every=50), callback=lambda p: seen.append(p) or len(seen) == 3
    )
    assert solution.status == "interrupted"
    assert [p.iteration for p in seen] == [50, 100, 150]
    assert all(p.kkt_violation > 0 and p.relative_gap > 0 for p in seen)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals")
def test_ctrl_c_returns_the_best_so_far():
    X, y = blobs(300)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=100.0)

    def press(progress):
        if progress.iteration >= 100:
            signal.raise_signal(signal.SIGINT)

    solution = solve(problem, SMO(record_every=50), callback=press, tol=1e-12)
    assert solution.status == "interrupted"
    assert solution.n_iter == 100
    assert np.isfinite(solution.certificate.gap)


def test_ctrl_c_while_certifying_keeps_the_point(monkeypatch):
    X, y = blobs(100)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y)
    expected = solve(problem)

    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["maxmargin.solvers.solve"], "certify", press)
    solution = solve(problem)
    assert solution.status == "interrupted"
    assert solution.certificate.gap == np.inf
    np.testing.assert_array_equal(solution.beta, expected.beta)
    assert abs(solution.b - expected.b) < 1e-2


def test_recorded_steps_obey_the_clock():
    X, y = blobs(200, noise=2.0)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=1e4)
    seen = []
    solver = SMO(record_steps=True)
    solve(problem, solver, tol=1e-9, max_iter=20000, max_time=0.5, callback=seen.append)
    assert len(seen) > 1


def test_squared_hinge_on_an_indefinite_matrix_ends():
    K = np.array([[0.0, 10.0, 0.0], [10.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    problem = problems.squared_hinge(kernels.Precomputed().gram(K), [1, -1, 1], C=100.0)
    assert solve(problem, max_time=20).status == "unbounded"


@pytest.mark.parametrize("n", [400, 3000])
@pytest.mark.parametrize("name", ["soft", "nu", "svr"])
def test_any_number_of_threads_gives_the_same_bits(n, name):
    X, y = blobs(n, d=40, noise=1.0)
    problem = formulations(kernels.RBF(gamma=0.02).gram(X), y, X[:, 0], np.ones(n))[name]
    one, two = (solve(problem, SMO(n_threads=t)) for t in (1, 2))
    assert one.status == "optimal"
    assert (one.beta == two.beta).all()
    assert one.n_iter == two.n_iter


def test_threads_at_once_give_what_one_gives():
    X, y = blobs(600)
    expected = solve(problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y)).beta
    found = [None] * 4

    def work(i):
        found[i] = solve(problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y)).beta

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((beta == expected).all() for beta in found)


def test_what_is_no_solver_or_gram_is_refused():
    problem = problems.soft_margin(kernels.Linear().gram([[0.0], [1.0]]), [1, -1])
    for wrong in (SMO, "smo"):
        with pytest.raises(TypeError, match=r"such as SMO\(\)"):
            solve(problem, wrong)
    with pytest.raises(TypeError, match=r"kernels.Precomputed\(\).gram\(K\)"):
        problems.soft_margin(np.eye(2), [1, -1])
    with pytest.raises(TypeError, match="Gram"):
        problems.one_class(np.eye(2), nu=0.5)


def test_history_prints_its_numbers():
    X, y = blobs(100)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y)
    history = solve(problem, SMO(record_every=1)).history
    lines = str(history).splitlines()
    assert lines[0].split() == list(history)
    assert lines[-1] == f"... {len(history) - 20} more rows"
    with pytest.raises(KeyError, match="there are iteration, seconds"):
        history["time"]


@pytest.mark.parametrize("every", [0, -1, 2.5, True])
def test_record_every_is_a_positive_integer(every):
    problem = problems.soft_margin(kernels.Linear().gram([[0.0], [1.0]]), [1, -1])
    for solver in (SMO, TextbookSMO, PlattSMO, ADMM, QP):
        with pytest.raises(ValueError, match="record_every"):
            solve(problem, solver(record_every=every))
        with pytest.raises(ValueError, match="record_every"):
            steps(problem, solver(record_every=every, record_steps=True))


@pytest.mark.parametrize("value", [0, -3, 2.5, True])
def test_counts_are_whole_numbers(value):
    problem = problems.soft_margin(kernels.Linear().gram([[0.0], [1.0]]), [1, -1])
    free = problems.soft_margin(problem.gram, [1, -1], bias=False)
    wrong = (
        (problem, TextbookSMO(T=value), "T="),
        (problem, TextbookSMO(max_passes=value), "max_passes="),
        (problem, PlattSMO(T=value), "T="),
        (free, Pegasos(batch=value), "batch="),
        (free, Pegasos(n_steps=value), "n_steps="),
    )
    for asked, solver, name in wrong:
        with pytest.raises(ValueError, match=name):
            solve(asked, solver)


def test_algorithm_1_returns_its_parameters():
    X, y = blobs(30)
    problem = problems.soft_margin(kernels.Linear().gram(X), y)
    solution = solve(problem, TextbookSMO(record_every=1, record_steps=True), tol=1e-4)
    assert len(solution.betas) == len(solution.biases) == len(solution.history)
    assert solution.biases[-1] == solution.steps[-1].b  # its own b, not the certificate's
    with pytest.raises(AttributeError, match="svdd has no bias; it has R2"):
        _ = solve(problems.svdd(problem.gram, nu=0.5)).b


BAD = [{"tol": 0.0}, {"tol": -1.0}, {"gap_tol": 0.0}, {"max_iter": -2}, {"max_time": -1.0}]


@pytest.mark.parametrize("setting", BAD, ids=str)
def test_bad_settings(setting):
    problem = problems.soft_margin(kernels.Linear().gram([[0.0], [1.0]]), [1, -1])
    with pytest.raises(ValueError, match=next(iter(setting))):
        solve(problem, **setting)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(4, 30), st.floats(0.05, 50.0))
def test_invariances(seed, n, C):
    """Order of rows, sign of labels, a shift under RBF, scale of K and C: the same optimum."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    kernel = kernels.RBF(gamma=0.5)

    def value(gram, labels, price):
        return solve(problems.soft_margin(gram, labels, C=price), tol=1e-9).certificate.dual

    base = value(kernel.gram(X), y, C)
    order = rng.permutation(n)
    np.testing.assert_allclose(value(kernel.gram(X[order]), y[order], C), base, rtol=1e-6)
    np.testing.assert_allclose(value(kernel.gram(X), -y, C), base, rtol=1e-6)
    np.testing.assert_allclose(value(kernel.gram(X + 5.0), y, C), base, rtol=1e-6)
    np.testing.assert_allclose(value((4.0 * kernel).gram(X), y, C / 4) * 4, base, rtol=1e-6)


# ---- steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_steps_tell_the_whole_story(name):
    X, y = blobs(40)
    problem = formulations(kernels.RBF(gamma=0.5).gram(X), y, X[:, 0], np.ones(40))[name]
    plain = solve(problem, SMO(), tol=1e-6)
    watched = solve(problem, SMO(record_steps=True), tol=1e-6)
    # Whoever watches sees pair steps alone; otherwise Newton's method finishes so small a problem.
    assert watched.certificate.kkt_violation <= 1e-6
    assert plain.certificate.kkt_violation <= 1e-9
    np.testing.assert_allclose(watched.certificate.dual, plain.certificate.dual, rtol=1e-6)
    assert len(watched.steps) == watched.n_iter > 0
    start = certify(problem, problem.start())
    gained = sum(step.change for step in watched.steps) * problem.scale
    np.testing.assert_allclose(start.dual + gained, watched.certificate.dual, rtol=1e-7, atol=1e-9)
    for step in watched.steps:
        assert step.change >= 0
        if step.j is None:
            continue
        low, high = step.L - 1e-9, step.H + 1e-9
        assert low <= step.alpha_j_new <= high
        # N0 eq. (97): clip the unclipped optimum to [L, H].
        clipped = np.clip(step.alpha_j_unclipped, step.L, step.H)
        np.testing.assert_allclose(step.alpha_j_new, clipped, rtol=1e-7, atol=1e-9)
    if problem.n_groups == 1:  # E are the errors at the bias before, b is the one after
        np.testing.assert_allclose(watched.steps[-1].b, watched.certificate.lam[0], atol=1e-5)
    again = list(steps(problem, SMO(record_steps=True), tol=1e-6))
    assert again == watched.steps


def test_steps_must_be_asked_for():
    problem = problems.soft_margin(kernels.Linear().gram([[0.0], [1.0]]), [1, -1])
    with pytest.raises(ValueError, match="record_steps=True"):
        next(steps(problem, SMO()))


# ---- Newton on a face -------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.sampled_from(["soft", "nu", "svr", "nu svr", "no bias", "squared"])
)
def test_face_never_gets_worse_and_stays_feasible(seed, name):
    rng = np.random.default_rng(seed)
    X, y = blobs(30, seed=seed % 7)
    kernel = kernels.Linear() if seed % 2 else kernels.RBF(gamma=0.5)
    problem = formulations(kernel.gram(X), y, X[:, 0], np.ones(30))[name]
    upper = np.where(np.isfinite(problem.u), problem.u, 5.0)
    lower = np.where(np.isfinite(problem.l), problem.l, -5.0)
    inside = lower + (upper - lower) * rng.choice([0.0, 0.3, 0.5, 1.0], size=problem.n_variables)
    beta = problem.project(inside)
    found = minimise_on_face(problem, beta)
    if found is None:
        assert ((problem.l < beta) & (beta < problem.u)).sum() < 2
        return
    assert ((problem.l <= found) & (found <= problem.u)).all()
    assert np.abs(problem.project(found) - found).max() <= 1e-9 * (1 + np.abs(found).max())
    fixed = (beta == problem.l) | (beta == problem.u)
    np.testing.assert_array_equal(found[fixed], beta[fixed])
    before, after = certify(problem, beta).dual, certify(problem, found).dual
    assert after >= before - 1e-9 * abs(before)


def test_face_does_not_apply_to_indefinite_matrices():
    gram = kernels.Precomputed().gram(-np.eye(6))
    problem = problems.soft_margin(gram, [1, -1, 1, -1, 1, -1])
    np.testing.assert_array_equal(minimise_on_face(problem, 0.5 * problem.y), 0.5 * problem.y)


def test_newton_helps_where_pairs_run_out_of_digits():
    X, y = load_wine(return_X_y=True)  # raw features, up to 1680: K has entries of 3e6
    problem = problems.soft_margin(kernels.Linear().gram(X), np.where(y == 1, 1.0, -1.0), C=1000.0)
    # Rounding of K is 2e-6 of the value here, and counts as gap.
    certificate = solve(problem, gap_tol=1e-5, max_iter=2_000_000).certificate
    assert certificate.status == "optimal"
    assert solve(problem, gap_tol=1e-6, max_iter=2_000_000).status == "precision_limit"


@pytest.mark.parametrize(("seed", "C"), [(22, 1e6), (40, 1e4), (3, 1e5)])
def test_the_gap_is_no_smaller_than_in_exact_arithmetic(seed, C):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(18, 2)) * [20, 1e4]
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=18) > np.median(X[:, 0]), 1, -1)
    solution = solve(problems.soft_margin(kernels.Linear().gram(X), y, C=C), gap_tol=1e-6)
    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    beta = [Fraction(v) for v in solution.beta.tolist()]
    w = [sum(b * row[k] for b, row in zip(beta, rows, strict=True)) for k in (0, 1)]
    f = [w[0] * row[0] + w[1] * row[1] for row in rows]
    norm2, sides = w[0] ** 2 + w[1] ** 2, y.tolist()
    primal = min(
        norm2 / 2
        + Fraction(C) * sum(max(0, 1 - t * (g + s - h)) for g, t in zip(f, sides, strict=True))
        for s, h in zip(sides, f, strict=True)
    )
    dual = sum(t * b for t, b in zip(sides, beta, strict=True)) - norm2 / 2
    assert solution.certificate.relative_gap >= 0.5 * float((primal - dual) / abs(primal)) - 1e-9


# ---- what a review broke ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "primal"), [([0.0, 0.0, 5.0], [1, -1, 1], 2.0), ([-1.0, 1.0, 0.0], [-1, -1, 1], 4.0)]
)
def test_w_zero_with_some_points_without_slack_is_not_infeasible(x, y, primal):
    C = np.where(np.array(y) > 0, np.inf, 1.0)
    gram = kernels.Linear().gram(np.array(x)[:, None])
    certificate = solve(problems.soft_margin(gram, y, C=C)).certificate
    assert certificate.status == "optimal"
    np.testing.assert_allclose(certificate.primal, primal)


@pytest.mark.parametrize("seed", range(15))
def test_indefinite_regression_keeps_its_sum(seed):
    rng = np.random.default_rng(seed)
    X, z = rng.normal(size=(20, 2)), rng.normal(size=20)
    gram = kernels.Sigmoid(1.0, coef0=-1.0).gram(X)
    solution = solve(problems.svr(gram, z, C=1.0, epsilon=0.1))
    assert abs(solution.beta.sum()) < 1e-9
    assert solution.certificate.kkt_violation <= 1e-3


def test_a_cycle_of_rounding_ends():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 2)) * 1e3
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    problem = problems.soft_margin(kernels.Linear().gram(X), y, C=1e4)
    solution = solve(problem, tol=1e-8, max_iter=10_000_000)
    assert solution.status == "precision_limit"
    assert solution.certificate.relative_gap < 1e-5
