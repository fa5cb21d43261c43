"""The whole family: every promise of scikit-learn's, and those its own machines break."""

import re
from functools import cache
from itertools import combinations

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
import sklearn.svm
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, minmax_scale, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin
from maxmargin import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, certify

TIGHT = 1e-10  # the sample-weight checks compare decision values at 1e-7
TOL = 1e-6

CHECKED = [
    SVC(tol=TIGHT),
    SVC(kernel="precomputed", tol=TIGHT),
    SVC(multi_class="ovr", tol=TIGHT),
    SVC(multi_class="crammer_singer", tol=TIGHT),
    NuSVC(nu=0.2, tol=TIGHT),
    NuSVC(nu=0.2, multi_class="ovr", tol=TIGHT),
    SVR(tol=TIGHT),
    SVR(kernel="precomputed", tol=TIGHT),
    NuSVR(tol=TIGHT),
    OneClassSVM(tol=TIGHT),
    SVDD(tol=TIGHT),
]


def may_fail(estimator):
    reason = "its weights (1000 : 1e-4) make every usual nu infeasible"
    return {"check_class_weight_classifiers": reason} if isinstance(estimator, NuSVC) else {}


@pytest.mark.filterwarnings("ignore:nu=0.2 is too small for the classes")
@parametrize_with_checks(CHECKED, expected_failed_checks=may_fail)
def test_sklearn_contract(estimator, check):
    check(estimator)


# ---- the family on one small problem ----------------------------------------------------------

FAMILY = {
    "SVC": SVC(C=2.0),
    "SVC-ovr": SVC(C=2.0, multi_class="ovr"),
    "SVC-crammer_singer": SVC(C=2.0, multi_class="crammer_singer"),
    "NuSVC": NuSVC(nu=0.2),
    "NuSVC-ovr": NuSVC(nu=0.2, multi_class="ovr"),
    "SVR": SVR(C=2.0),
    "NuSVR": NuSVR(C=2.0, nu=0.3),
    "OneClassSVM": OneClassSVM(nu=0.3),
    "SVDD": SVDD(nu=0.3),
}
PAIRWISE = ("SVC", "NuSVC")
EACH = pytest.mark.parametrize("name", FAMILY)


@cache
def small(name):
    """75 rows of iris with its three classes, or with a target of unit size."""
    X, y = load_iris(return_X_y=True)
    X, y = scale(X)[::2], y[::2]
    return X, y if is_classifier(FAMILY[name]) else scale(X[:, 0] + np.sin(3 * X[:, 1]))


def machine(name, **settings):
    model = clone(FAMILY[name]).set_params(**settings)
    return model.set_params(decision_function_shape="ovo") if name in PAIRWISE else model


def values(model, X):
    """What the model computes of X before it is rounded to labels."""
    return getattr(model, "decision_function", model.predict)(X)


def dense(coef):
    return coef.toarray() if sp.issparse(coef) else coef


def same_bits(one, other):
    np.testing.assert_array_equal(one.support_, other.support_)
    np.testing.assert_array_equal(dense(one.dual_coef_), dense(other.dual_coef_))
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


# ---- against scikit-learn ---------------------------------------------------------------------

LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
}


@cache
def real(name):
    X, y = LOADERS[name](return_X_y=True)
    if name == "digits":
        few = np.isin(y, [3, 5, 8, 9])
        return X[few] / 16, y[few]
    return scale(X), scale(y) if name == "diabetes" else y


def both(name, data, kernel, **settings):
    """Our fit and scikit-learn's, and the data."""
    X, y = real(data)
    if name == "OneClassSVM":  # off the origin: with the origin amidst the data the optimum is 0
        X = minmax_scale(X) + 0.1
    settings |= {"kernel": kernel, "tol": TOL}
    ours = getattr(maxmargin, name)(**settings).fit(X, y)
    theirs = getattr(sklearn.svm, name)(**settings).fit(X, y)
    return ours, theirs, X, y


def check_objective(ours, theirs, X, y):
    """Problem by problem; return the largest KKT violation of theirs."""
    proofs = certify(theirs, X, None if is_outlier_detector(ours) else y, each=True)
    assert ours.certificate_.status == "optimal"
    for mine, other in zip(ours.certificates_, proofs, strict=True):
        assert mine.kkt_violation <= TOL
        assert mine.dual >= other.dual - 1e-6 * abs(other.dual)
        assert mine.dual <= other.primal + 1e-9 * abs(other.primal)  # it is the same problem
    return max(proof.kkt_violation for proof in proofs)


def shape(array, model):
    """Of an attribute; iris has equal rows, which may share a coefficient or not."""
    return tuple("n_SV" if k == len(model.support_) else k for k in array.shape)


def check_attributes(ours, theirs):
    """Everything scikit-learn publishes, of the same type, dtype and shape."""
    names = [n for n in vars(theirs) if n.endswith("_") and not n.startswith("_")]
    assert {"support_", "dual_coef_", "intercept_", "n_iter_", "shape_fit_"} <= set(names)
    for name in [*names, "n_support_"]:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert type(mine) is type(other), name
        if isinstance(other, np.ndarray):
            assert mine.dtype == other.dtype, name
            assert shape(mine, ours) == shape(other, theirs), name
    assert ours.fit_status_ == theirs.fit_status_ == 0
    assert ours.shape_fit_ == theirs.shape_fit_


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("data", ["iris", "wine", "breast_cancer", "digits"])
@pytest.mark.parametrize(("name", "settings"), [("SVC", {}), ("NuSVC", {"nu": 0.1})])
def test_classifiers_agree_with_sklearn(name, settings, data, kernel):
    ours, theirs, X, y = both(name, data, kernel, **settings)
    check_objective(ours, theirs, X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() >= 0.999
    check_attributes(ours, theirs)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("name", ["SVR", "NuSVR"])
def test_regressors_agree_with_sklearn(name, kernel):
    ours, theirs, X, y = both(name, "diabetes", kernel)
    reached = check_objective(ours, theirs, X, y)
    # LIBSVM may end above tol, as the certificate of its model shows; then it is off by that.
    np.testing.assert_allclose(
        ours.predict(X), theirs.predict(X), rtol=0, atol=10 * max(TOL, reached)
    )
    check_attributes(ours, theirs)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("data", LOADERS)
def test_outlier_detectors_agree_with_sklearn(data, kernel):
    ours, theirs, X, y = both("OneClassSVM", data, kernel, nu=0.2)
    reached = check_objective(ours, theirs, X, y)
    # Free support vectors lie on the boundary, where theirs has the sign of a rounding error.
    near = 10 * max(TOL, reached)
    clear = np.abs(theirs.decision_function(X)) > near
    assert clear.mean() > 0.85
    assert (ours.predict(X) == theirs.predict(X))[clear].mean() >= 0.999
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=0, atol=near
    )
    on = ours.support_[ours.dual_coef_[0] < ours.dual_coef_.max()]
    assert np.abs(ours.decision_function(X)[on]).max(initial=0.0) <= TOL
    check_attributes(ours, theirs)
    assert (ours.offset_.dtype, ours.offset_.shape) == (np.float64, (1,))


@pytest.mark.parametrize("name", ["NuSVC", "SVR", "NuSVR", "OneClassSVM"])
def test_signatures_are_sklearns_and_more(name):
    theirs = getattr(sklearn.svm, name)().get_params()
    ours = getattr(maxmargin, name)().get_params()
    differing = {key for key in theirs if theirs[key] != ours[key]}
    assert differing == {"cache_size"} | ({"probability"} & set(theirs))
    more = {"gap_tol", "max_time", "n_threads", "record_every", "warm_start"}
    assert set(ours) - set(theirs) == more | ({"multi_class"} if name == "NuSVC" else set())


# ---- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@EACH
def test_weights_are_repetition(name, make):
    X, y = small(name)
    times = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = machine(name, tol=TIGHT).fit(make(X), y, sample_weight=times)
    repeated = machine(name, tol=TIGHT).fit(make(np.repeat(X, times, axis=0)), np.repeat(y, times))
    np.testing.assert_allclose(values(weighted, X), values(repeated, X), rtol=0, atol=1e-7)
    for one, other in zip(weighted.certificates_, repeated.certificates_, strict=True):
        assert one.status == "optimal"
        np.testing.assert_allclose(one.dual, other.dual, rtol=1e-8)
    unweighted = values(machine(name, tol=TIGHT).fit(X, y), X)
    assert np.abs(values(weighted, X) - unweighted).max() > 1e-3  # weights do matter here


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("weight", ["balanced", {0: 2.0, 2: 0.5}], ids=["balanced", "dict"])
@pytest.mark.parametrize("name", [n for n in FAMILY if is_classifier(FAMILY[n])])
def test_class_weights_are_of_repeated_rows(name, weight, make):
    X, y = small(name)
    times = np.where(y == 1, 1, np.random.default_rng(4).integers(0, 4, len(y)))
    weighted = machine(name, tol=TIGHT, class_weight=weight).fit(make(X), y, sample_weight=times)
    repeated = machine(name, tol=TIGHT, class_weight=weight)
    repeated.fit(make(np.repeat(X, times, axis=0)), np.repeat(y, times))
    np.testing.assert_allclose(weighted.class_weight_, repeated.class_weight_)
    np.testing.assert_allclose(values(weighted, X), values(repeated, X), rtol=0, atol=1e-7)
    plain = machine(name, tol=TIGHT).fit(make(X), y, sample_weight=times)
    assert plain.kernel_ == weighted.kernel_  # class weights never enter gamma
    assert np.abs(values(plain, X) - values(weighted, X)).max() > 1e-3
    alike = machine(name, tol=TIGHT).fit(make(X), y)
    assert alike.kernel_ != plain.kernel_  # sample weights do
    assert plain.kernel_.gamma == pytest.approx(repeated.kernel_.gamma, rel=1e-12)


@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_a_class_weight_is_a_sample_weight_without_gamma(name):
    X, y = small(name)
    of = {0: 2.0, 1: 1.0, 2: 0.5}
    by_class = machine(name, gamma=0.3, tol=TIGHT, class_weight=of).fit(X, y)
    by_row = machine(name, gamma=0.3, tol=TIGHT).fit(X, y, sample_weight=[of[c] for c in y])
    same_bits(by_class, by_row)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("uniform", [True, False], ids=["ones", "weights"])
@EACH
def test_rows_without_weight_vanish_bit_by_bit(name, uniform, make):
    X, y = small(name)
    rng = np.random.default_rng(5)
    weight = np.ones(len(y)) if uniform else rng.uniform(0.5, 2.0, len(y))
    weight[::4] = 0.0
    weight[1::9] = -1.0
    kept = np.flatnonzero(weight > 0)
    X = X.copy()
    X[weight <= 0] = 1e3  # nor in gamma, nor anywhere else
    some = machine(name).fit(make(X), y, sample_weight=weight)
    fewer = machine(name).fit(make(X[kept]), y[kept], None if uniform else weight[kept])
    np.testing.assert_array_equal(some.support_, kept[fewer.support_])
    np.testing.assert_array_equal(dense(some.dual_coef_), dense(fewer.dual_coef_))
    np.testing.assert_array_equal(some.intercept_, fewer.intercept_)
    np.testing.assert_array_equal(values(some, X[kept]), values(fewer, X[kept]))
    assert some.certificate_.gap == fewer.certificate_.gap


# ---- nu ---------------------------------------------------------------------------------------


@cache
def uneven():
    """50, 20 and 10 points of the classes a, b, c, not quite separated."""
    X, codes = make_blobs([50, 20, 10], centers=[[0, 0], [4, 0], [0, 4]], random_state=0)
    return X, np.array(["a", "b", "c"])[codes]


@pytest.fixture
def no_gram(monkeypatch):
    def refuse(self, *args, **kwargs):
        raise AssertionError("a Gram was made")

    monkeypatch.setattr("maxmargin.grams.Gram.__init__", refuse)


PAIRS = {"a b": 40 / 70, "a c": 20 / 60, "b c": 20 / 30}


def test_infeasible_nu_is_refused_before_any_kernel_entry(no_gram):
    X, y = uneven()
    with pytest.raises(AssertionError, match="a Gram was made"):
        NuSVC(nu=0.3).fit(X, y)  # else the fixture proves nothing
    for pair, most in PAIRS.items():
        kept = np.isin(y, pair.split())
        message = r"nu is infeasible.* class {} and .* class {} nu must be".format(*pair.split())
        with pytest.raises(ValueError, match=message) as refused:
            NuSVC(nu=most + 0.01).fit(X[kept], y[kept])
        assert largest(refused) == pytest.approx(most, rel=2e-6)
    with pytest.raises(ValueError, match=r"class a and .* class c") as refused:
        NuSVC(nu=0.5).fit(X, y)  # the other two pairs are feasible
    assert largest(refused) == pytest.approx(PAIRS["a c"], rel=1e-6)


def largest(refused):
    return float(re.search(r"nu must be at most ([\d.e-]+\d)", str(refused.value))[1])


NU_CASES = {
    "two classes": ({}, "b c", None, 2 / 3),
    "pairs": ({}, "a b c", None, 1 / 3),
    "ovr": ({"multi_class": "ovr"}, "a b c", None, 20 / 80),
    "class weights": ({"class_weight": {"c": 3.0}}, "a b c", None, 40 / 70),
    "balanced": ({"class_weight": "balanced"}, "a b c", None, 1.0),
    "sample weights": ({}, "a c", {"a": 0.1, "c": 1.3}, 10 / 18),
}


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("case", NU_CASES)
def test_the_largest_feasible_nu_is_told_and_fits(case, kernel):
    settings, classes, of, most = NU_CASES[case]
    X, y = uneven()
    kept = np.isin(y, classes.split())
    X, y = X[kept], y[kept]
    weight = None if of is None else np.array([of[c] for c in y])
    told = most
    if most < 1:
        with pytest.raises(ValueError, match="nu is infeasible") as refused:
            NuSVC(nu=1.0, kernel=kernel, **settings).fit(X, y, sample_weight=weight)
        told = largest(refused)
        assert told == pytest.approx(most, rel=2e-6)
        assert told <= most * (1 + 1e-12)
        with pytest.raises(ValueError, match="nu is infeasible"):
            NuSVC(nu=told * 1.001, kernel=kernel, **settings).fit(X, y, sample_weight=weight)
    for nu in (told, most):  # as it is written in the message, and to the last bit
        model = NuSVC(nu=nu, kernel=kernel, **settings).fit(X, y, sample_weight=weight)
        assert model.certificate_.status == "optimal"
        assert np.isfinite(model.intercept_).all()
        assert np.isfinite(model.dual_coef_).all()
        assert model.score(X, y) > 0.7


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["OneClassSVM", "SVDD", "NuSVR"])
def test_nu_of_one(name, kernel):
    X, y = small(name)
    X = X + 3.0
    for weight in (None, np.random.default_rng(0).uniform(0.5, 2.0, len(y))):
        model = machine(name, nu=1.0, kernel=kernel).fit(X, y, sample_weight=weight)
        assert model.certificate_.status == "optimal"
        assert model.certificate_.relative_gap <= 1e-6
        assert np.isfinite(model.intercept_).all()
        assert np.isfinite(values(model, X)).all()
        if name != "NuSVR":
            assert len(model.support_) == len(X)
            assert set(model.predict(X)) <= {-1, 1}


# ---- certificates and ledgers -----------------------------------------------------------------


@EACH
def test_certificates_sum_up_and_are_proven_again(name):
    X, y = small(name)
    weight = np.random.default_rng(6).uniform(0.5, 2.0, len(y))
    model = machine(name, gap_tol=1e-6).fit(X, y, sample_weight=weight)
    count = 3 if name in (*PAIRWISE, "SVC-ovr", "NuSVC-ovr") else 1
    assert len(model.certificates_) == count
    for part in ("primal", "dual", "gap"):
        total = sum(getattr(c, part) for c in model.certificates_)
        assert getattr(model.certificate_, part) == pytest.approx(total, rel=1e-14)
    worst = max(c.kkt_violation for c in model.certificates_)
    assert model.certificate_.kkt_violation == worst <= 1e-3
    assert model.certificate_.relative_gap <= 1e-6
    again = model.certify(X, y, sample_weight=weight)
    assert again.status == model.certificate_.status == "optimal"
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    model.intercept_ = model.intercept_ + 0.1  # the certificate is of the whole model
    if name != "SVC-crammer_singer":  # which has no bias
        assert model.certify(X, y, sample_weight=weight).status is None


@pytest.mark.parametrize("name", ["SVR", "NuSVR", "OneClassSVM"])
def test_certify_needs_no_n_support_where_there_are_no_classes(name):
    """scikit-learn leaves it unwritten for sparse data: reuters has 1635 of 8315 there."""
    X, y = small(name)
    theirs = getattr(sklearn.svm, name)().fit(sp.csr_array(X), y)
    theirs._n_support = np.array([8315, 0], dtype=np.int32)
    assert certify(theirs, sp.csr_array(X), y, tol=2e-3).status == "optimal"


@pytest.mark.parametrize("name", ["SVC", "SVC-ovr", "NuSVC", "NuSVC-ovr"])
def test_ledger_names_the_problem(name):
    X, y = small(name)
    names = np.array(["red", "green", "blue"])  # sorted: blue, green, red
    model = machine(name, tol=TOL).fit(X, names[y])
    led = model.ledger(X, names[y])
    pairs = ["blue / green", "blue / red", "green / red"]
    rests = ["blue / rest", "green / rest", "red / rest"]
    assert list(dict.fromkeys(led.problem.tolist())) == (rests if "ovr" in name else pairs)
    scores = model.decision_function(X)
    for k, problem in enumerate(dict.fromkeys(led.problem.tolist())):
        first, second = problem.split(" / ")
        of = led.problem == problem
        rows = led.row[of]
        if second != "rest":
            assert set(names[y][rows]) == {first, second}
        else:
            assert len(rows) == len(y)
        signs = np.where(names[y][rows] == first, 1, -1)
        np.testing.assert_allclose(led.margin[of], signs * scores[rows, k], atol=1e-5)
    assert model.ledger(X, names[y], as_frame=True).problem.nunique() == 3
    two = clone(model).fit(X[y < 2], y[y < 2])
    assert "problem" not in two.ledger(X[y < 2], y[y < 2])  # nothing to tell apart


@pytest.mark.parametrize("name", ["SVR", "NuSVR"])
def test_regression_ledger_tells_the_tube(name):
    X, z = small(name)
    tau = 1e-4
    model = machine(name, tol=tau).fit(X, z)
    epsilon = model.epsilon_ if name == "NuSVR" else model.epsilon
    residual = np.abs(z - model.predict(X))
    led = model.ledger(X, z)
    cases = ["inside tube", "on tube"]
    expected = np.select(
        [residual < epsilon - tau, residual <= epsilon + tau], cases, "outside tube"
    )
    clear = np.abs(np.abs(residual - epsilon) - tau) > 1e-6
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(led.case[clear], expected[clear])
    assert set(led.case) == {*cases, "outside tube"}
    np.testing.assert_allclose(led.margin, epsilon - residual, atol=tau)
    np.testing.assert_allclose(led.slack, np.maximum(0, residual - epsilon), atol=tau)
    assert (led.alpha[led.case == "inside tube"] == 0).all()
    assert (led.state[led.case == "outside tube"] == "bound").all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.1, 0.37, 0.8])
def test_nu_bounds_what_is_outside_the_tube(nu, weighted):
    X, z = small("NuSVR")
    w = np.random.default_rng(7).uniform(0.5, 2.0, len(z)) if weighted else np.ones(len(z))
    model = NuSVR(nu=nu, C=2.0, tol=TOL).fit(X, z, sample_weight=w)
    assert model.epsilon_ > 0
    outside = np.abs(z - model.predict(X)) > model.epsilon_ + 1e-5
    assert w[outside].sum() / w.sum() <= nu <= w[model.support_].sum() / w.sum()
    # and it is the SVR with this epsilon
    twin = SVR(C=2.0, epsilon=model.epsilon_, tol=TOL, gamma=model.kernel_.gamma)
    twin.fit(X, z, sample_weight=w)
    np.testing.assert_allclose(twin.predict(X), model.predict(X), atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.1, 0.37, 0.8])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["OneClassSVM", "SVDD"])
def test_nu_bounds_the_outliers(name, kernel, nu, weighted):
    X, _ = small(name)
    X = X + 3.0
    w = np.random.default_rng(7).uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    model = machine(name, nu=nu, kernel=kernel, tol=TOL).fit(X, sample_weight=w)
    outlier = model.decision_function(X) < -TOL
    assert model.outlier_fraction_ == pytest.approx(w[outlier].sum() / w.sum())
    assert model.outlier_fraction_ <= nu <= w[model.support_].sum() / w.sum()
    assert model.outlier_fraction_ > nu - 0.1  # not by leaving nobody out
    led = model.ledger(X, sample_weight=w)
    assert (led.case[outlier] == "outlier").all()
    assert (led.alpha[led.case == "inside"] == 0).all()


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_svdd_is_a_ball(kernel):
    X, _ = small("SVDD")
    model = SVDD(kernel=kernel, nu=0.2, tol=1e-9).fit(X)
    K = model.kernel_(X)
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    assert beta.sum() == pytest.approx(1.0, rel=1e-12)
    squared = np.diag(K) - 2 * K @ beta + beta @ K @ beta
    distance = model.center_distance(X)
    np.testing.assert_allclose(distance**2, squared, atol=1e-9 * K.max())
    if kernel == "linear":
        center = beta @ X
        np.testing.assert_allclose(distance, np.linalg.norm(X - center, axis=1), atol=1e-9)
    free = (beta > 0) & (beta < beta.max() * (1 - 1e-9))
    assert free.any()
    np.testing.assert_allclose(distance[free], model.radius_, rtol=1e-7)
    np.testing.assert_allclose(
        model.decision_function(X), model.radius_**2 - squared, atol=1e-8 * K.max()
    )
    C = 1 / (0.2 * len(X))
    primal = model.radius_**2 + C * np.maximum(0, squared - model.radius_**2).sum()
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-7)
    np.testing.assert_allclose(
        SVDD(kernel=kernel, C=C, tol=1e-9).fit(X).dual_coef_, model.dual_coef_
    )


@pytest.mark.parametrize("nu", [0.05, 0.3, 1.0])
def test_svdd_is_one_class_for_rbf(nu):
    X, _ = small("SVDD")
    ball = SVDD(nu=nu, tol=TIGHT).fit(X)
    plane = OneClassSVM(nu=nu, tol=TIGHT).fit(X)
    grid = np.random.default_rng(0).normal(size=(200, X.shape[1]))
    for points in (X, grid):
        half = 0.5 * nu * len(X) * ball.decision_function(points)
        np.testing.assert_allclose(half, plane.decision_function(points), atol=1e-8)
        np.testing.assert_array_equal(ball.predict(points), plane.predict(points))
    # With nu = 1 nothing need be inside.
    assert set(plane.predict(grid)) == ({-1, 1} if nu < 1 else {-1})


# ---- prediction -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:nu=0.6 is too small")  # sigmoid, class 1: 0 for every x
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@EACH
def test_batch_single_dense_and_sparse_predictions_agree(name, kernel):
    X, y = small(name)
    settings = {"kernel": kernel, "gamma": 0.05}
    if name == "NuSVC-ovr":  # no smaller nu leaves a margin about the class in the middle
        settings["nu"] = 0.6
    model = machine(name, **settings).fit(sp.csr_array(X), y)
    batch = values(model, sp.csr_array(X))
    near = {"rtol": 0, "atol": 1e-10 * np.abs(dense(model.dual_coef_)).sum()}
    np.testing.assert_allclose(values(model, X), batch, **near)
    rows = range(0, len(y), 5)
    single = np.concatenate([values(model, sp.csr_array(X[[i]])) for i in rows])
    np.testing.assert_allclose(single, batch[rows], **near)
    single = np.concatenate([values(model, X[[i]]) for i in rows])
    np.testing.assert_allclose(single, batch[rows], **near)
    model = machine(name, **settings).fit(X, y)
    single = np.concatenate([values(model, X[[i]]) for i in rows])
    np.testing.assert_allclose(single, values(model, X)[rows], **near)


# ---- the layout of a model --------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", PAIRWISE)
def test_layout_of_dual_coef(name, make):
    X, y = small(name)
    model = machine(name, tol=1e-8).fit(make(X), y)
    codes = y[model.support_]
    assert (np.diff(codes) >= 0).all()
    np.testing.assert_array_equal(np.bincount(codes), model.n_support_)
    for k in range(3):
        assert (np.diff(model.support_[codes == k]) > 0).all()
    np.testing.assert_array_equal(dense(model.support_vectors_), X[model.support_])
    coef, K = dense(model.dual_coef_), model.kernel_(X, X[model.support_])
    columns = []
    for i, j in combinations(range(3), 2):  # LIBSVM's: row j - 1 of i, row i of j
        beta = np.where(codes == i, coef[j - 1], np.where(codes == j, coef[i], 0.0))
        assert beta.sum() == pytest.approx(0.0, abs=1e-9 * np.abs(beta).sum())
        columns.append(K @ beta + model.intercept_[len(columns)])
    np.testing.assert_allclose(model.decision_function(X), np.array(columns).T, atol=1e-9)
    theirs = getattr(sklearn.svm, name)(
        tol=1e-8, decision_function_shape="ovo", **({"C": 2.0} if name == "SVC" else {"nu": 0.2})
    ).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-5)


def test_coef_is_per_problem():
    X, y = small("SVC")
    for name, rows in {"SVC": 3, "NuSVC": 3, "SVC-ovr": 3, "SVC-crammer_singer": 3}.items():
        model = machine(name, kernel="linear").fit(X, y)
        assert model.coef_.shape == (rows, 4)
        assert not model.coef_.flags.writeable
        expected = X @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)
        sparse = machine(name, kernel="linear").fit(sp.csr_array(X), y)
        assert sp.issparse(sparse.coef_)
        np.testing.assert_allclose(sparse.coef_.toarray(), model.coef_, atol=1e-2)
    for name in ("SVR", "OneClassSVM"):
        X, z = small(name)
        model = machine(name, kernel="linear").fit(X + 3.0, z)
        assert model.coef_.shape == (1, 4)
        expected = (X + 3.0) @ model.coef_[0] + model.intercept_
        np.testing.assert_allclose(values(model, X + 3.0), expected, atol=1e-9)
        with pytest.raises(AttributeError, match="linear kernel"):
            _ = machine(name).fit(X, z).coef_


@EACH
def test_counts_and_status(name):
    X, y = small(name)
    model = machine(name).fit(X, y)
    if is_classifier(model):
        assert model.n_iter_.dtype == model.n_support_.dtype == np.int32
        assert model.n_iter_.shape == (len(model.certificates_),)
        assert (model.n_iter_ > 0).all()
    else:
        assert type(model.n_iter_) is int
        assert model.n_iter_ > 0
    assert model.n_support_.sum() == len(model.support_)
    assert model.fit_status_ == 0
    assert model.shape_fit_ == X.shape
    assert model.n_features_in_ == 4
    assert model.n_reused_ == 0


@pytest.mark.parametrize("name", PAIRWISE)
def test_decision_function_shape_and_ties(name):
    X, y = make_blobs(120, centers=4, cluster_std=2.5, random_state=2)
    settings = {"gamma": 0.1, "tol": 1e-9} | ({"nu": 0.5} if name == "NuSVC" else {})
    ours = getattr(maxmargin, name)(**settings).fit(X, y)
    theirs = getattr(sklearn.svm, name)(**settings).fit(X, y)
    grid = np.random.default_rng(0).uniform(-15, 15, (2000, 2))
    assert ours.decision_function(grid).shape == (2000, 4)
    near = {"rtol": 0, "atol": 1e-4}
    np.testing.assert_allclose(ours.decision_function(grid), theirs.decision_function(grid), **near)
    votes, best = ours.predict(grid), ours.decision_function(grid).argmax(axis=1)
    assert (votes != best).any()  # else nothing is tested
    np.testing.assert_array_equal(ours.set_params(break_ties=True).predict(grid), best)
    assert (votes == theirs.predict(grid)).mean() >= 0.999
    ours.set_params(break_ties=False, decision_function_shape="ovo")
    theirs.set_params(decision_function_shape="ovo")
    assert ours.decision_function(grid).shape == (2000, 6)
    np.testing.assert_allclose(ours.decision_function(grid), theirs.decision_function(grid), **near)
    np.testing.assert_array_equal(ours.predict(grid), votes)
    with pytest.raises(ValueError, match="break_ties must be False"):
        ours.set_params(break_ties=True).predict(grid)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["SVC-ovr", "NuSVC-ovr"])
def test_one_vs_rest_is_sklearns_wrapper(name, make):
    X, y = small(name)
    model = machine(name, tol=TIGHT).fit(make(X), y)
    wrapped = OneVsRestClassifier(machine(name, tol=TIGHT)).fit(make(X), y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, wrapped.decision_function(X), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    assert model.dual_coef_.shape == (3, len(model.support_))
    duals = [e.certificate_.dual for e in wrapped.estimators_]
    np.testing.assert_allclose([c.dual for c in model.certificates_], duals, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_crammer_singer(C, kernel):
    X, y = small("SVC")
    model = SVC(C=C, kernel=kernel, multi_class="crammer_singer", tol=TOL).fit(X, y)
    assert model.certificate_.status == "optimal"
    assert model.certificate_.relative_gap <= 1e-5
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    # Its primal, Crammer & Singer (2001), from the scores alone.
    rivals = np.where(np.eye(3, dtype=bool)[y], -np.inf, scores)
    slack = np.maximum(0, 1 + rivals.max(axis=1) - scores[np.arange(len(y)), y])
    coef, K = model.dual_coef_, model.kernel_(model.support_vectors_)
    primal = 0.5 * np.einsum("ki,ij,kj->", coef, K, coef) + C * slack.sum()
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-5)
    np.testing.assert_allclose(coef.sum(axis=0), 0.0, atol=1e-9 * C)
    assert not model.intercept_.any()


# ---- inputs -----------------------------------------------------------------------------------


@EACH
def test_float32_stays_float32(name):
    X, y = small(name)
    for data in (X.astype(np.float32), sp.csr_array(X.astype(np.float32))):
        model = machine(name, tol=TOL).fit(data, y)
        assert model.support_vectors_.dtype == np.float32
        assert values(model, data).dtype == dense(model.dual_coef_).dtype == np.float64
        assert model.certificate_.status == "optimal"
        double = machine(name, tol=TOL).fit(data.astype(np.float64), y)
        np.testing.assert_allclose(values(model, data), values(double, data), atol=1e-3)


@EACH
def test_frames_are_arrays_with_names(name):
    X, y = small(name)
    names = ["w", "x", "y", "z"]
    plain = machine(name, gamma=0.3).fit(X, y)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = machine(name, gamma=0.3).fit(frame, y)
        assert model.feature_names_in_.tolist() == names
        same_bits(model, plain)
        np.testing.assert_array_equal(values(model, frame), values(plain, X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[names[::-1]])
        assert not hasattr(model.fit(X, y), "feature_names_in_")


@EACH
def test_sample_weight_is_routed_through_a_pipeline(name):
    X, y = small(name)
    X = 5 * X + 1
    weight = np.random.default_rng(8).uniform(0.2, 3.0, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        asks = machine(name).set_fit_request(sample_weight=True)
        piped = make_pipeline(scaler, asks).fit(X, y, sample_weight=weight)[-1]
        refuses = machine(name).set_fit_request(sample_weight=False)
        without = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), refuses)
        without.fit(X, y, sample_weight=weight)
    Z = StandardScaler().fit_transform(X)
    same_bits(piped, machine(name).fit(Z, y, sample_weight=weight))
    Z = StandardScaler().fit_transform(X, sample_weight=weight)
    same_bits(without[-1], machine(name).fit(Z, y))


@EACH
def test_html_holds_the_certificate(name):
    X, y = small(name)
    model = machine(name)
    assert "KKT violation" not in model._repr_mimebundle_()["text/html"]
    html = model.fit(X, y)._repr_mimebundle_()["text/html"]
    assert model.certificate_._repr_html_() in html
    assert f"{model.certificate_.primal:.12g}" in html


# ---- limits, threads, the package -------------------------------------------------------------


@EACH
def test_max_iter_warns_with_the_gap(name):
    X, y = small(name)
    several = name in (*PAIRWISE, "SVC-ovr", "NuSVC-ovr")
    where = r" in \d of 3 problems, at worst" if several else ""
    message = (
        rf"max_iter=3\).*stopped{where} with relative gap ([\d.e+-]+|inf) .* got kkt_violation"
    )
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = machine(name, max_iter=3, tol=1e-8).fit(X, y)
    limited = [c for c in model.certificates_ if c.status == "iteration_limit"]
    assert limited
    told = re.search(r"relative gap (\S+)", str(caught[0].message))[1]
    assert told == f"{max(c.relative_gap for c in limited):.1e}"
    assert model.fit_status_ == 1
    assert model.certificate_.status == "iteration_limit"
    assert np.max(model.n_iter_) == 3
    assert np.isfinite(values(model, X)).all()


def fit_bits(name, make):
    X, y = small(name)
    model = machine(name, n_threads=2).fit(make(np.repeat(X, 3, axis=0)), np.repeat(y, 3))
    held = (model.support_, dense(model.dual_coef_), model.intercept_, values(model, make(X)))
    return [a.tobytes() for a in held]


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_parallel_fits_give_the_bits_of_serial_ones(backend):
    jobs = [(n, m) for n in ("SVC", "NuSVR", "OneClassSVM") for m in (np.asarray, sp.csr_array)] * 3
    serial = [fit_bits(*job) for job in jobs]
    workers = {"threading": 4, "loky": 2}[backend]
    parallel = joblib.Parallel(n_jobs=workers, backend=backend)(
        joblib.delayed(fit_bits)(*job) for job in jobs
    )
    assert parallel == serial


def test_one_model_predicts_in_many_threads():
    X, y = small("SVC")
    model = machine("SVC").fit(X, y)
    expected = model.decision_function(X)
    for got in joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(model.decision_function)(X) for _ in range(20)
    ):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR", "l1_min_c"])
def test_what_is_not_ours_points_to_sklearn(name):
    with pytest.raises(ImportError, match=rf"sklearn\.svm\.{name}"):
        getattr(maxmargin, name)
    with pytest.raises(ImportError, match=rf"sklearn\.svm\.{name}"):
        exec(f"from maxmargin import {name}")
    assert name not in dir(maxmargin)


def test_show_versions(capsys):
    maxmargin.show_versions()
    out = capsys.readouterr().out
    assert maxmargin.__version__ in out
    for word in ("instruction set", "threads", "default cache", "System:", "numpy"):
        assert word in out
