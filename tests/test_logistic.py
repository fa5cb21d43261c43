"""Kernel logistic regression: an oracle in long double, scikit-learn, invariances, edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, xlogy
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import KernelLogisticRegression, kernels, solvers
from maxmargin.certificate import certify
from maxmargin.logistic import logistic
from maxmargin.problems import soft_margin
from maxmargin.solvers import GradientLogistic, NewtonLogistic, solve

Long = np.longdouble


def blobs(n, classes, seed=0, d=2):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(classes, d))[codes], codes


def oracle(K, codes, C, outputs):
    """Solve β = C (t − p), Σβ = 0 by Newton with long double residuals; return primal, β, b.

    The slow reference: every output has its column, a single one is that of class 1.
    """
    n = len(codes)
    K, C = K.astype(Long), np.broadcast_to(np.asarray(C, dtype=Long), n)
    T = (codes[:, None] == (np.arange(outputs) if outputs > 1 else [1])).astype(Long)
    beta, b = np.zeros((n, outputs), Long), np.zeros(outputs, Long)

    def probabilities(beta, b):
        f = K @ beta + b
        f = f if outputs > 1 else np.hstack([np.zeros_like(f), f])
        e = np.exp(f - f.max(axis=1, keepdims=True))
        return (e / e.sum(axis=1, keepdims=True))[:, -outputs:]

    def residual(beta, b):
        F = beta - C[:, None] * (T - probabilities(beta, b))
        return np.concatenate([F.T.ravel(), beta.sum(axis=0), [b.sum()] if outputs > 1 else []])

    for _ in range(100):
        p, F = probabilities(beta, b), residual(beta, b)
        W = np.zeros((outputs * n, outputs * n))
        for k in range(outputs):
            for m in range(outputs):
                block = C * p[:, k] * ((k == m) - p[:, m])
                at = np.arange(n)
                W[k * n + at, m * n + at] = block
        ones = np.kron(np.eye(outputs), np.ones((n, 1)))
        J = np.zeros((len(F), outputs * (n + 1)))
        J[: outputs * n, : outputs * n] = np.eye(outputs * n) + W @ np.kron(np.eye(outputs), K)
        J[: outputs * n, outputs * n :] = W @ ones
        J[outputs * n : outputs * (n + 1), : outputs * n] = ones.T
        if outputs > 1:
            J[-1, outputs * n :] = 1.0
        step = -np.linalg.lstsq(J, F.astype(float), rcond=None)[0].astype(Long)
        s = Long(1)
        while s > 1e-6:
            new = beta + s * step[: outputs * n].reshape(outputs, n).T, b + s * step[outputs * n :]
            if np.linalg.norm(residual(*new).astype(float)) < np.linalg.norm(F.astype(float)):
                break
            s /= 2
        else:
            break
        beta, b = new
    assert np.abs(residual(beta, b)).max() < 1e-13
    f = K @ beta + b
    f = f if outputs > 1 else np.hstack([np.zeros_like(f), f])
    top = f.max(axis=1)
    losses = top + np.log(np.exp(f - top[:, None]).sum(axis=1)) - f[np.arange(n), codes]
    return float((beta * (K @ beta)).sum() / 2 + (C * losses).sum()), beta, b


def dual_value(problem, gamma):
    """The dual objective, from its definition."""
    share = gamma / problem.C[:, None]
    if problem.n_outputs == 1:
        a = share[:, 0] * np.where(problem.codes == 1, 1, -1)
        entropy = xlogy(a, a) + xlogy(1 - a, 1 - a)
    else:
        p = np.eye(problem.n_outputs)[problem.codes] - share
        entropy = xlogy(p, p).sum(axis=1)
    return -0.5 * (gamma * (problem.gram.matvec(gamma))).sum() - (problem.C * entropy).sum()


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [NewtonLogistic(), GradientLogistic()], ids=["newton", "grad"])
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 20.0])
def test_reaches_the_optimum_of_a_long_double_oracle(solver, classes, C):
    X, codes = blobs(24, classes)
    gram = kernels.RBF(gamma=0.5).gram(X)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    problem = logistic(gram, codes, C=C, sample_weight=weight)
    best, beta, b = oracle(gram.rows(range(24)), codes, C * weight, problem.n_outputs)
    solution = solve(problem, solver, tol=1e-10)
    proof = solution.certificate
    assert proof.status == "optimal"
    assert proof.primal == pytest.approx(best, rel=1e-12)
    assert proof.relative_gap <= 1e-12
    np.testing.assert_allclose(solution.beta, beta.astype(float), rtol=0, atol=1e-8 * C)
    np.testing.assert_allclose(proof.lam, b.astype(float), rtol=0, atol=1e-8)


@pytest.mark.parametrize("C", [1e3, 1e6])
def test_newton_follows_the_path_to_a_large_C(C):
    X, codes = blobs(60, 2, seed=3)
    problem = logistic(kernels.RBF(gamma=0.5).gram(X), codes, C=C)
    proof = solve(problem, NewtonLogistic(), tol=1e-4).certificate
    assert proof.status == "optimal"
    assert proof.relative_gap <= 1e-6


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ten_separable_classes_at_a_large_C(seed):
    """On the way all probabilities are 0 or 1 in float64, and nothing bends the loss."""
    X, y = load_digits(return_X_y=True)
    part = np.random.default_rng(seed).permutation(len(X))[:300]
    clf = KernelLogisticRegression(C=1e4, gamma=3 / 64).fit(scale(X)[part], y[part])
    assert clf.certificate_.status == "optimal"
    assert clf.certificate_.relative_gap <= 1e-6


@pytest.mark.parametrize("far", [1e3, 1e6, 1e300])
def test_the_best_biases_of_far_scores_are_numbers(far):
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 4
    problem = logistic(kernels.Linear().gram(rng.normal(size=(40, 2))), codes, C=1e6)
    for kbeta in (far * rng.normal(size=(40, 4)), far * np.eye(4)[codes]):
        b = problem.best_bias(kbeta)
        assert np.isfinite(b).all()
        assert problem.loss(kbeta + b) <= problem.loss(kbeta)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_certificate_of_any_point_encloses_the_optimum(classes):
    X, codes = blobs(20, classes, seed=5)
    problem = logistic(kernels.RBF(gamma=0.5).gram(X), codes, C=2.0)
    best, *_ = oracle(problem.gram.rows(range(20)), codes, 2.0, problem.n_outputs)
    rng = np.random.default_rng(0)
    for size in (0.0, 0.1, 3.0):
        beta = size * rng.normal(size=(20, problem.n_outputs))
        proof = certify(problem, beta)
        assert proof.dual <= best <= proof.primal
        assert proof.status is None
        gamma = problem.pull(problem.gram.matvec(beta) + proof.lam)
        np.testing.assert_allclose(gamma.sum(axis=0), 0.0, atol=1e-12)
        assert proof.dual == pytest.approx(dual_value(problem, gamma), rel=1e-10)


def test_the_optimum_lies_in_the_open_box_and_sums_to_zero():
    X, codes = blobs(30, 2)
    solution = solve(logistic(kernels.RBF(gamma=1.0).gram(X), codes), NewtonLogistic(), tol=1e-10)
    alpha = solution.alpha[:, 0]
    assert ((alpha > 0) & (alpha < 1)).all()
    assert abs(solution.beta.sum()) < 1e-12


def test_one_output_is_two_at_half_the_price():
    X, codes = blobs(30, 2)
    gram = kernels.RBF(gamma=1.0).gram(X)
    one = solve(logistic(gram, codes, C=2.0), NewtonLogistic(), tol=1e-10)
    softmax = replace(logistic(gram, codes, C=1.0), n_outputs=2)
    two = solve(softmax, NewtonLogistic(), tol=1e-10)
    assert two.certificate.primal == pytest.approx(one.certificate.primal / 2, rel=1e-12)
    np.testing.assert_allclose(two.beta[:, 1] - two.beta[:, 0], one.beta[:, 0], atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_linear_kernel_is_sklearns_logistic_regression(classes, C):
    X, y = load_iris(return_X_y=True)
    X, y = scale(X)[50 * (3 - classes) :], y[50 * (3 - classes) :]
    theirs = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(X, y)
    ours = KernelLogisticRegression(C=C, kernel="linear", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    b = theirs.intercept_ - (theirs.intercept_.mean() if classes > 2 else 0)
    np.testing.assert_allclose(ours.intercept_, b, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_digits_in_ten_classes():
    X, y = load_digits(return_X_y=True)
    clf = KernelLogisticRegression(gap_tol=1e-6).fit(X, y)
    assert clf.certificate_.status == "optimal"
    assert clf.certificate_.relative_gap <= 1e-6
    assert clf.score(X, y) > 0.98


def test_float32_and_on_demand_products_reach_the_same_model():
    X, y = make_classification(n_samples=2100, n_features=6, random_state=0)
    kept = KernelLogisticRegression(tol=1e-6).fit(X, y)  # float32 entries
    anew = KernelLogisticRegression(tol=1e-6, cache_size=1).fit(X, y)
    for clf in (kept, anew):
        assert clf.certificate_.status == "optimal"
        assert clf.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(
        kept.decision_function(X), anew.decision_function(X), rtol=0, atol=1e-6
    )


def test_multinomial_on_demand():
    X, y = blobs(600, 3, seed=2)  # more than the rows whose preconditioner is exact
    clf = KernelLogisticRegression(tol=1e-6, cache_size=0.1).fit(X, y)
    assert clf.certificate_.status == "optimal"
    assert clf.certificate_.relative_gap <= 1e-9


def test_any_number_of_threads_gives_the_same_bits():
    X, y = make_classification(n_samples=2100, n_features=6, random_state=0)
    one, two = (KernelLogisticRegression(n_threads=k).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


# ---- invariances ------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 4), C=st.sampled_from([0.1, 1.0, 30.0]))
def test_order_of_rows_and_names_of_classes_do_not_matter(seed, classes, C):
    X, codes = blobs(25, classes, seed=seed)
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(25), rng.permutation(classes)
    model = KernelLogisticRegression(C=C, gamma=0.5, tol=1e-9)
    one = clone(model).fit(X, codes)
    other = clone(model).fit(X[order], names[codes][order])
    assert one.certificate_.status == other.certificate_.status == "optimal"
    # Column of class c in the first model: names[c] in the second.
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X)[:, names], rtol=0, atol=1e-8
    )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 3))
def test_weights_are_repetition(seed, classes):
    X, y = blobs(20, classes, seed=seed)
    weight = np.random.default_rng(seed).integers(0, 4, 20)
    weight[:classes] += 1
    model = KernelLogisticRegression(tol=1e-9)  # gamma="scale" is weighted too
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    primal = weighted.certificate_.primal
    assert primal == pytest.approx(repeated.certificate_.primal, rel=1e-10)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-8)


def test_class_weight_multiplies_the_price():
    X, y = blobs(40, 2)
    model = KernelLogisticRegression(gamma=0.5, tol=1e-9)
    by_class = clone(model).set_params(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    by_sample = clone(model).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_class.predict_proba(X), by_sample.predict_proba(X), atol=1e-9)
    assert by_class.predict_proba(X)[:, 1].mean() > 0.55  # 0.75 of the weight is class 1


# ---- the estimator ----------------------------------------------------------------------------


@parametrize_with_checks(
    [KernelLogisticRegression(), KernelLogisticRegression(kernel="linear", tol=1e-8)]
)
def test_sklearns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_labels_and_scores_agree(classes):
    X, y = blobs(60, classes)
    names = np.array(["b", "a", "c"])[y]
    clf = KernelLogisticRegression(C=5.0).fit(X, names)
    Z = np.vstack([X, 1e3 * X])
    p, f = clf.predict_proba(Z), clf.decision_function(Z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(Z)), p, rtol=1e-12)
    np.testing.assert_array_equal(clf.predict(Z), clf.classes_[p.argmax(axis=1)])
    if classes == 2:
        np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), f, atol=1e-10)
    else:
        np.testing.assert_allclose(f - logsumexp(f, axis=1)[:, None], np.log(p), atol=1e-10)
    # The bias makes the mean probability of a class its frequency: its optimality condition.
    frequency = np.unique(names, return_counts=True)[1] / 60
    np.testing.assert_allclose(clf.predict_proba(X).mean(axis=0), frequency, atol=1e-12)


def test_log_probabilities_do_not_underflow():
    clf = KernelLogisticRegression(kernel="linear").fit([[-1.0], [1.0]], [0, 1])
    assert np.isfinite(clf.predict_log_proba([[1e6]])).all()
    assert clf.predict_proba([[1e6]])[0, 0] == 0.0


@pytest.mark.parametrize("classes", [2, 3])
def test_sparse_precomputed_and_callable_kernels_are_the_same_model(classes):
    X, y = blobs(50, classes, d=3)
    X[np.abs(X) < 0.5] = 0.0
    rbf = kernels.RBF(gamma=0.5)
    model = KernelLogisticRegression(kernel=rbf, tol=1e-8)
    p = clone(model).fit(X, y).predict_proba(X)
    S = sp.csr_array(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    np.testing.assert_allclose(clone(model).fit(S, y).predict_proba(S), p, atol=1e-8)
    named = KernelLogisticRegression(gamma=0.5, tol=1e-8)
    np.testing.assert_allclose(named.fit(X, y).predict_proba(X), p, atol=1e-12)
    K = rbf(X, X)
    pre = clone(model).set_params(kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(pre.predict_proba(K), p, atol=1e-8)
    function = clone(model).set_params(kernel=lambda A, B: rbf(A, B)).fit(X, y)
    np.testing.assert_allclose(function.predict_proba(X), p, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_descent_ends_where_newton_does(classes):
    X, y = blobs(40, classes)
    slow = KernelLogisticRegression(solver="gradient", tol=1e-7, record_every=50).fit(X, y)
    fast = KernelLogisticRegression(tol=1e-7).fit(X, y)
    assert slow.certificate_.status == "optimal"
    assert slow.n_iter_[0] > 5 * fast.n_iter_[0]
    assert (np.diff(slow.history_["primal"]) <= 0).all()  # 1/L: every step descends
    np.testing.assert_allclose(slow.predict_proba(X), fast.predict_proba(X), atol=1e-6)


def test_gradient_descent_takes_the_step_of_the_notes():
    X, codes = blobs(10, 2)
    problem = logistic(kernels.RBF(gamma=0.5).gram(X), codes, C=3.0)
    one = solve(problem, GradientLogistic(learning_rate=0.1), max_iter=1)
    # From β = 0 the best b is that of the frequencies, ½ each: C (t − p) = ±3/2.
    np.testing.assert_allclose(one.beta[:, 0], 0.1 * 1.5 * np.where(codes == 1, 1, -1), rtol=1e-12)


def test_certify_proves_the_stored_model_and_notices_another_one():
    X, y = blobs(40, 3)
    clf = KernelLogisticRegression(tol=1e-6).fit(X, y)
    proof = clf.certify(X, y)
    assert proof.status == "optimal"
    assert proof.primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
    clf.intercept_ = clf.intercept_ + np.array([0.1, 0.0, -0.1])
    assert clf.certify(X, y).status is None
    assert not hasattr(clf, "ledger")


def test_warm_start_at_the_optimum_takes_no_step():
    X, y = blobs(40, 3)
    clf = KernelLogisticRegression(warm_start=True, tol=1e-6).fit(X, y)
    first = clf.n_iter_[0]
    assert first > 1
    assert clf.fit(X, y).n_iter_[0] == 0
    assert clf.set_params(C=1.1).fit(X, y).n_iter_[0] < first
    assert clf.certificate_.status == "optimal"


def test_import_vectors_are_honest_about_what_they_cost():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    best = KernelLogisticRegression(tol=1e-8).fit(X, y).certificate_.primal
    last = np.inf
    for count in (5, 20, 80):
        clf = KernelLogisticRegression(tol=1e-6, n_import_vectors=count).fit(X, y)
        proof = clf.certificate_
        assert clf.dual_coef_.shape == (1, count)
        assert proof.status == "stationary"
        assert f"{count} import vectors" in str(proof)
        assert proof.dual <= best <= proof.primal < last
        last = proof.primal
        # Stationary in the span: K(β − γ) is 0 at the import vectors, up to the bias.
        f = clf.decision_function(X)
        gamma = y - 1 / (1 + np.exp(-f))
        K = clf.kernel_(X[clf.support_], X)
        assert np.abs(K[:, clf.support_] @ clf.dual_coef_[0] - K @ gamma).max() < 1e-4
    assert last < 1.2 * best
    whole = KernelLogisticRegression(tol=1e-8, n_import_vectors=len(X)).fit(X, y)
    assert whole.certificate_.primal == pytest.approx(best, rel=1e-8)


def test_ctrl_c_keeps_the_model_so_far(monkeypatch):
    X, y = blobs(40, 3)
    step, taken = NewtonLogistic.step, []

    def interrupted(self, state, chunk):
        taken.append(1)
        if len(taken) == 3:
            raise KeyboardInterrupt
        step(self, state, chunk)

    monkeypatch.setattr(NewtonLogistic, "step", interrupted)
    clf = KernelLogisticRegression(tol=1e-10)
    with pytest.raises(KeyboardInterrupt, match="relative gap"):
        clf.fit(X, y)
    assert clf.certificate_.status == "interrupted"
    assert 0 < clf.certificate_.gap < np.inf
    assert clf.predict_proba(X).shape == (40, 3)


# ---- edges ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["newton", "gradient"])
def test_two_points(solver):
    clf = KernelLogisticRegression(kernel="linear", solver=solver, tol=1e-9)
    clf.fit([[-1.0], [1.0]], [0, 1])
    w = clf.coef_[0, 0]
    assert w == pytest.approx(2 / (1 + np.exp(w)), abs=1e-8)  # w = 2 σ(−w)
    assert clf.intercept_[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("X", [np.zeros((6, 1)), np.ones((6, 2))], ids=["zero", "constant"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_features_that_say_nothing_leave_the_frequencies(X, kernel):
    clf = KernelLogisticRegression(kernel=kernel).fit(X, [0, 0, 0, 0, 1, 1])
    np.testing.assert_allclose(clf.predict_proba(X), np.tile([2 / 3, 1 / 3], (6, 1)), rtol=1e-6)
    assert clf.certificate_.status == "optimal"


def test_duplicates_with_opposite_labels():
    clf = KernelLogisticRegression(C=1e4, tol=1e-6).fit([[0.0], [0.0], [1.0]], [0, 1, 1])
    assert clf.certificate_.status == "optimal"
    assert clf.predict_proba([[0.0]])[0, 1] == pytest.approx(0.5, abs=1e-3)


def test_tiny_C_leaves_the_frequencies():
    X, y = blobs(30, 3)
    clf = KernelLogisticRegression(C=1e-9).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), 1 / 3, rtol=1e-6)


@pytest.mark.parametrize(
    ("X", "y", "params", "message"),
    [
        ([[0.0], [1.0]], [0, 0], {}, "greater than one"),
        ([[0.0]], [0], {}, "greater than one"),
        ([[0.0], [1.0]], [0, 1], {"C": np.inf}, "'C' parameter"),
        ([[0.0], [1.0]], [0, 1], {"C": 0.0}, "'C' parameter"),
        ([[0.0], [1.0]], [0, 1], {"C": 1e300}, "beyond float64"),
        ([[np.nan], [1.0]], [0, 1], {}, "NaN"),
        ([[np.inf], [1.0]], [0, 1], {}, "infinity"),
        (np.empty((0, 1)), [], {}, "0 sample"),
        ([[0.0], [1.0]], [0, 1, 1], {}, "inconsistent"),
        ([[0.0], [1.0]], [0, 1], {"solver": "smo"}, "'solver' parameter"),
        ([[0.0], [1.0]], [0, 1], {"solver": "gradient", "n_import_vectors": 1}, "newton"),
        ([[0.0, 2.0], [2.0, 0.0]], [0, 1], {"kernel": "precomputed"}, "not positive"),
    ],
)
def test_refuses(X, y, params, message):
    with pytest.raises(ValueError, match=message):
        KernelLogisticRegression(**params).fit(X, y)


def test_refuses_problems_of_the_other_kind():
    gram = kernels.Linear().gram([[0.0], [1.0]])
    for solver in (NewtonLogistic(), GradientLogistic()):
        with pytest.raises(TypeError, match="logistic"):
            solve(soft_margin(gram, [-1, 1]), solver)
    for codes in ([0, 2], [0, 0], [-1, 1]):
        with pytest.raises(ValueError, match="codes"):
            logistic(gram, codes)
    with pytest.raises(ValueError, match="finite"):
        logistic(gram, [0, 1], C=np.inf)
    with pytest.raises(ValueError, match="positive"):
        logistic(gram, [0, 1], sample_weight=[1.0, 0.0])
    with pytest.raises(ValueError, match="learning_rate"):
        solve(logistic(gram, [0, 1]), GradientLogistic(learning_rate=2.0))
    assert "NewtonLogistic" in dir(solvers)


def test_layout_and_precision_of_the_data_do_not_matter():
    X, y = blobs(40, 2)
    X = X.astype(np.float32).astype(np.float64)
    p = KernelLogisticRegression(gamma=0.5, tol=1e-8).fit(X, y).predict_proba(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(X), X.astype(np.float32), frozen):
        clf = KernelLogisticRegression(gamma=0.5, tol=1e-8).fit(same, y)
        np.testing.assert_allclose(clf.predict_proba(same), p, atol=1e-6)


@pytest.mark.parametrize("solver", ["newton", "gradient"])
def test_an_iteration_limit_is_said(solver):
    X, y = blobs(40, 2)
    clf = KernelLogisticRegression(solver=solver, max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        clf.fit(X, y)
    assert clf.certificate_.status == "iteration_limit"
    assert clf.certificate_.gap > 0


@pytest.mark.parametrize("solver", ["newton", "gradient"])
def test_an_unreachable_tolerance_ends(solver):
    X, y = blobs(30, 3)
    clf = KernelLogisticRegression(solver=solver, tol=1e-300)
    with pytest.warns(ConvergenceWarning, match="precision"):
        clf.fit(X, y)
    assert clf.certificate_.status == "precision_limit"
    assert clf.certificate_.relative_gap < 1e-12
