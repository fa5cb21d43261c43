"""Probabilities of SVC and NuSVC: sigmoids, coupling, agreement with predict, and their price."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, _sigmoid_calibration
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.preprocessing import scale
from sklearn.svm import SVC as SklearnSVC

from maxmargin import SVC, NuSVC
from maxmargin.calibration import LEAST, clipped, couple, fit_sigmoids


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


# ---- the sigmoid ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3), st.booleans())
def test_sigmoids_are_those_of_scikit_learn(seed, size, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 60))
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    f = size * (signs + rng.normal(size=n))
    w = rng.random(n) + 0.1 if weighted else np.ones(n)
    (A,), (B,) = fit_sigmoids(f, signs, w, np.zeros(n, dtype=int), 1)
    slope, offset = _sigmoid_calibration(f / size, signs, w)
    np.testing.assert_allclose([A * size, B], [slope, offset], atol=2e-3 * (1 + abs(slope)))


def test_sigmoids_minimise_the_loss():
    rng = np.random.default_rng(0)
    machine = np.repeat([0, 1, 2], [40, 25, 90])
    signs = np.where(rng.random(155) < 0.4, 1.0, -1.0)
    f, w = signs + 1.5 * rng.normal(size=155), rng.random(155)
    A, B = fit_sigmoids(f, signs, w, machine, 3)
    for k in range(3):
        own = machine == k
        plus, minus = w[own & (signs > 0)].sum(), w[own & (signs < 0)].sum()
        t = np.where(signs[own] > 0, (plus + 1) / (plus + 2), 1 / (minus + 2))

        def loss(at, own=own, t=t):
            z = at[0] * f[own] + at[1]
            return (w[own] * (t * z + np.logaddexp(0, -z))).sum()

        best = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-10})
        assert loss([A[k], B[k]]) <= best.fun + 1e-12


@pytest.mark.parametrize("f", [np.zeros(6), np.array([-1e300, -1, -1e-300, 1e-300, 1, 1e300])])
def test_sigmoids_of_strange_scores_are_finite(f):
    signs = np.array([-1.0, -1, -1, 1, 1, 1])
    A, B = fit_sigmoids(f, signs, np.ones(6), np.zeros(6, dtype=int), 1)
    assert np.isfinite(A).all()
    assert np.isfinite(B).all()


# ---- coupling ---------------------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 1.0), min_size=3, max_size=8))
def test_consistent_pairs_give_their_distribution_back(p):
    p = np.array(p) / np.sum(p)
    i, j = np.triu_indices(len(p), 1)
    found = couple(i, j, (p[i] / (p[i] + p[j]))[None], len(p))
    np.testing.assert_allclose(found[0], p, atol=1e-9)


@given(st.integers(3, 7), st.integers(0, 10**6))
def test_coupling_minimises_its_objective(k, seed):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(k, 1)
    r = np.zeros((k, k))
    r[i, j] = rng.random(len(i))
    r[j, i] = 1 - r[i, j]
    p = couple(i, j, r[i, j][None], k)[0]
    assert p.min() > -1e-9
    assert p.sum() == pytest.approx(1)

    def objective(p):
        return sum((r[b, a] * p[a] - r[a, b] * p[b]) ** 2 for a in range(k) for b in range(k))

    others = rng.dirichlet(np.ones(k), size=50)
    assert all(objective(p) <= objective(q) + 1e-12 for q in others)


# ---- estimators -------------------------------------------------------------------------------

KINDS = [SVC(probability=True), NuSVC(nu=0.2, probability=True)]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("shape", ["two", "ovo", "ovr"])
def test_a_distribution_that_agrees_with_predict(iris, kind, shape):
    X, y = iris
    if shape == "two":
        X, y = X[50:], y[50:]
    names = np.array(["a", "b", "c"])
    clf = clone(kind).set_params(multi_class="ovr" if shape == "ovr" else "ovo")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.fit(X, names[y])
    P = clf.predict_proba(X)
    assert P.shape == (len(X), len(clf.classes_))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert P.min() >= 0.99 * LEAST
    assert P.max() <= 1 - LEAST
    assert (clf.classes_[P.argmax(axis=1)] == clf.predict(X)).all()
    np.testing.assert_array_equal(np.log(P), clf.predict_log_proba(X))
    assert clf.score(X, names[y]) > 0.9
    again = clone(clf).fit(X, names[y]).predict_proba(X)
    assert again.tobytes() == P.tobytes()
    plain = clone(clf).set_params(probability=False).fit(X, names[y])
    np.testing.assert_array_equal(plain.decision_function(X), clf.decision_function(X))
    np.testing.assert_array_equal(plain.dual_coef_, clf.dual_coef_)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_log_loss_is_not_worse_than_that_of_scikit_learn(load):
    X, y = load(return_X_y=True)
    X = scale(X)
    ours = cross_val_predict(SVC(probability=True), X, y, method="predict_proba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        theirs = cross_val_predict(
            SklearnSVC(probability=True, random_state=0), X, y, method="predict_proba"
        )
    assert log_loss(y, ours) <= 1.05 * log_loss(y, theirs)


def test_far_away_points_are_never_certain(cancer):
    X, y = cancer
    clf = SVC(kernel="linear", probability=True).fit(X, y)
    P = clf.predict_proba(1e6 * X[:5])
    assert np.isfinite(P).all()
    assert P.min() >= 0.99 * LEAST


def test_sample_weights_count(cancer):
    X, y = cancer
    heavy = np.where(y == 1, 5.0, 1.0)
    plain, weighted = SVC(probability=True).fit(X, y), SVC(probability=True)
    weighted.fit(X, y, sample_weight=heavy)
    assert weighted.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    # Rows without weight are as good as absent.
    w = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    zero = SVC(probability=True, gamma=0.03).fit(X, y, sample_weight=w)
    absent = SVC(probability=True, gamma=0.03).fit(X[w > 0], y[w > 0])
    np.testing.assert_allclose(zero.predict_proba(X), absent.predict_proba(X), atol=1e-12)


def test_class_weight_moves_the_machine_and_not_the_base_rate(cancer):
    """The sigmoid counts samples as they are."""
    X, y = cancer
    some = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:40]]
    clf = SVC(probability=True, class_weight="balanced").fit(X[some], y[some])
    assert clf.predict_proba(X[some])[:, 0].mean() == pytest.approx(40 / len(some), abs=0.03)


@pytest.mark.parametrize("counts", [(1, 1), (1, 2), (1, 20), (2, 20), (3, 4)])
def test_tiny_classes(counts):
    X = np.arange(sum(counts), dtype=float)[:, None]
    y = np.repeat([0, 1], counts)
    P = SVC(probability=True).fit(X, y).predict_proba(X)
    assert np.isfinite(P).all()


def test_sparse_precomputed_and_functions_agree_with_dense(cancer):
    X, y = cancer
    expected = SVC(kernel="linear", probability=True).fit(X, y).predict_proba(X)
    K = X @ X.T
    found = {
        "sparse": SVC(kernel="linear", probability=True)
        .fit(sp.csr_array(X), y)
        .predict_proba(sp.csr_array(X)),
        "precomputed": SVC(kernel="precomputed", probability=True).fit(K, y).predict_proba(K),
        "function": SVC(kernel=lambda A, B: A @ B.T, probability=True).fit(X, y).predict_proba(X),
    }
    for P in found.values():
        np.testing.assert_allclose(P, expected, atol=2e-3)


def test_only_where_asked_for(iris):
    X, y = iris
    clf = SVC().fit(X, y)
    assert not hasattr(clf, "predict_proba")
    assert not hasattr(clf, "predict_log_proba")
    clf.probability = True
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        clf.predict_proba(X)
    assert (clf.predict(X) == SVC().fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="CalibratedClassifierCV"):
        SVC(multi_class="crammer_singer", probability=True).fit(X, y)


def test_a_fit_out_of_time_has_no_probabilities(iris):
    X, y = iris
    with pytest.warns(UserWarning, match="max_time"):
        clf = SVC(probability=True, max_time=0.0).fit(X, y)
    with pytest.raises(NotFittedError, match="stopped before"):
        clf.predict_proba(X)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_classifier_cv_works(iris, method):
    X, y = iris
    P = CalibratedClassifierCV(SVC(), method=method).fit(X, y).predict_proba(X)
    assert log_loss(y, P) < 0.3


def test_scoring_by_log_loss(iris):
    X, y = iris
    search = GridSearchCV(SVC(probability=True), {"C": [0.01, 1.0]}, scoring="neg_log_loss")
    assert search.fit(X, y).best_params_ == {"C": 1.0}


def test_ten_classes():
    X, y = load_digits(return_X_y=True)
    train, test = slice(0, None, 2), slice(1, None, 2)
    ours = SVC(probability=True).fit(X[train], y[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        theirs = SklearnSVC(probability=True, random_state=0).fit(X[train], y[train])
    assert ours.score(X[test], y[test]) > 0.97
    loss, reference = (log_loss(y[test], clf.predict_proba(X[test])) for clf in (ours, theirs))
    assert loss <= 1.05 * reference


@given(st.integers(0, 1000))
def test_clipping_keeps_order_and_sum(seed):
    P = np.random.default_rng(seed).dirichlet(np.full(4, 0.01), size=5)
    C = clipped(P.copy())
    np.testing.assert_allclose(C.sum(axis=1), 1.0, rtol=1e-15)
    assert (C.argmax(axis=1) == P.argmax(axis=1)).all()


# ---- squared hinge ----------------------------------------------------------------------------


def test_squared_hinge_is_a_margin_with_a_ridge(cancer):
    """Its dual is that of the hard margin with 1 / (2 C) on the diagonal of K."""
    X, y = cancer
    C, K = 0.7, X @ X.T / 30
    soft = SVC(C=C, kernel="precomputed", loss="squared_hinge", tol=1e-8).fit(K, y)
    hard = SVC(C=np.inf, kernel="precomputed", tol=1e-8).fit(K + np.eye(len(y)) / (2 * C), y)
    assert soft.certificate_.status == "optimal"
    assert soft.certificate_.dual == pytest.approx(hard.certificate_.dual, rel=1e-6)
    np.testing.assert_allclose(soft.intercept_, hard.intercept_, atol=1e-5)


def test_squared_hinge_of_several_classes_and_with_probabilities(iris):
    X, y = iris
    clf = SVC(loss="squared_hinge", probability=True).fit(X, y)
    assert clf.certify(X, y).status == "optimal"
    assert log_loss(y, clf.predict_proba(X)) < 0.2
    with pytest.raises(ValueError, match="hinge"):
        SVC(loss="squared_hinge", multi_class="crammer_singer").fit(X, y)


def test_an_indefinite_kernel_has_probabilities():
    """Steps on negative curvature stay in the box."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120) > 0
    machine = SVC(C=1.0, kernel="precomputed", probability=True).fit(-X @ X.T, y)
    proba = machine.predict_proba(-X @ X.T)
    assert np.isfinite(proba).all()
    assert machine.certificate_.status == "stationary"
