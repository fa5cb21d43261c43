"""warm_start: another starting point, never another optimum; what does not fit starts cold."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from maxmargin import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, kernels

TOL = 1e-6
FAMILY = {
    "SVC": SVC(tol=TOL),
    "SVC-ovr": SVC(multi_class="ovr", tol=TOL),
    "SVC-crammer_singer": SVC(multi_class="crammer_singer", tol=TOL),
    "NuSVC": NuSVC(nu=0.2, tol=TOL),
    "SVR": SVR(tol=TOL),
    "NuSVR": NuSVR(nu=0.3, tol=TOL),
    "OneClassSVM": OneClassSVM(nu=0.2, tol=TOL),
    "SVDD": SVDD(nu=0.2, tol=TOL),
}
EACH = pytest.mark.parametrize("name", FAMILY)
FORMS = pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def data(name):
    """Iris, shuffled, or diabetes: the first rows hold every class."""
    if name in ("SVR", "NuSVR"):
        X, y = load_diabetes(return_X_y=True)
        return scale(X)[:200], scale(y)[:200]
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return scale(X)[order], y[order]


def machine(name, **settings):
    return clone(FAMILY[name]).set_params(warm_start=True, gamma=0.3, **settings)


def check_same_optimum(warm, X, y, *, weight=None):
    """The certified optimum of a cold fit, problem by problem; return that fit."""
    cold = clone(warm).set_params(warm_start=False).fit(X, y, sample_weight=weight)
    assert cold.n_reused_ == 0
    assert warm.certificate_.status == cold.certificate_.status == "optimal"
    for one, other in zip(warm.certificates_, cold.certificates_, strict=True):
        assert one.kkt_violation <= TOL
        assert one.dual == pytest.approx(other.dual, rel=1e-6)
    again = warm.certify(X, y, sample_weight=weight)  # the certificate is of this model
    assert again.status == "optimal"
    assert again.dual == pytest.approx(cold.certificate_.dual, rel=1e-6)
    return cold


def work(model):
    return int(np.sum(model.n_iter_))


# ---- what is reused ---------------------------------------------------------------------------


@FORMS
@EACH
def test_more_rows(name, make):
    X, y = data(name)
    few = len(y) * 4 // 5
    model = machine(name).fit(make(X[:few]), y[:few])
    held = len(model.support_)
    model.fit(make(X), y)
    assert model.n_reused_ == held > 0
    check_same_optimum(model, make(X), y)


@FORMS
@EACH
def test_the_same_again_is_done_at_once(name, make):
    X, y = data(name)
    model = machine(name).fit(make(X), y)
    held, first = len(model.support_), work(model)
    model.fit(make(X), y)
    assert model.n_reused_ == held
    assert work(model) <= 0.1 * first
    check_same_optimum(model, make(X), y)


CHANGES = {
    "SVC": ({"C": 3.0}, {"C": 0.1}, {"gamma": 0.5}, {"kernel": "linear"}, {"C": 1e3}),
    "SVC-ovr": ({"C": 3.0}, {"C": 0.1}, {"gamma": 0.5}),
    "SVC-crammer_singer": ({"C": 3.0}, {"C": 0.1}, {"gamma": 0.5}),
    "NuSVC": ({"nu": 0.3}, {"nu": 0.1}, {"gamma": 0.5}),
    "SVR": ({"C": 3.0}, {"C": 0.1}, {"gamma": 0.5}, {"epsilon": 0.5}, {"epsilon": 0.0}),
    "NuSVR": ({"C": 3.0}, {"C": 0.1}, {"gamma": 0.5}, {"nu": 0.6}),
    "OneClassSVM": ({"nu": 0.3}, {"nu": 0.1}, {"gamma": 0.5}, {"nu": 1.0}),
    "SVDD": ({"nu": 0.3}, {"nu": 0.1}, {"gamma": 0.5}, {"C": 0.02}),
}


@pytest.mark.parametrize(("name", "change"), [(n, c) for n in CHANGES for c in CHANGES[n]], ids=str)
def test_other_settings(name, change):
    X, y = data(name)
    model = machine(name).fit(X, y)
    held = len(model.support_)
    model.set_params(**change).fit(X, y)
    assert model.n_reused_ == held
    check_same_optimum(model, X, y)


@EACH
def test_other_weights(name):
    X, y = data(name)
    model = machine(name).fit(X, y)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    weight[::7] = 0.0  # support vectors among them
    held = len(model.support_)
    assert (weight[model.support_] == 0).any()
    model.fit(X, y, sample_weight=weight)
    assert model.n_reused_ <= held
    check_same_optimum(model, X, y, weight=weight)


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "SVR", "OneClassSVM"])
def test_precomputed_and_callable_kernels(name):
    X, y = data(name)
    few = len(y) * 4 // 5
    K = rbf_kernel(X, gamma=0.3)
    model = machine(name, kernel="precomputed").fit(K[:few, :few], y[:few])
    held = len(model.support_)
    model.fit(K, y)
    assert model.n_reused_ == held
    cold = check_same_optimum(model, K, y)
    model = machine(name, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)).fit(X[:few], y[:few])
    held = len(model.support_)
    model.fit(X, y)
    assert model.n_reused_ == held
    assert model.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=1e-6)


@pytest.mark.parametrize("name", ["SVC", "SVR"])
def test_other_targets_only_cost_time(name):
    X, y = data(name)
    model = machine(name).fit(X, y)
    other = 2 - y if name == "SVC" else -y  # every coefficient has the wrong sign
    check_same_optimum(model.fit(X, other), X, other)


# ---- what it saves ----------------------------------------------------------------------------


def test_fewer_iterations_than_cold():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    cases = {  # before, its rows, after, and at most this share of the iterations of a cold fit
        "more rows": ({"C": 100.0, "gamma": 0.03}, 560, {}, 0.1),
        "no bound moves": ({"C": 100.0}, len(y), {"C": 110.0}, 0.1),
        "bounds move": ({"C": 1.0, "gamma": 0.03}, len(y), {"C": 1.1}, 0.9),
        "another gamma": ({"C": 10.0, "gamma": 0.03}, len(y), {"gamma": 0.031}, 0.8),
    }
    for case, (before, rows, after, share) in cases.items():
        model = SVC(tol=TOL, warm_start=True, **before).fit(X[:rows], y[:rows])
        model.set_params(**after).fit(X, y)
        assert model.n_reused_ > 0, case
        cold = check_same_optimum(model, X, y)
        assert work(model) < share * work(cold), case


def test_growth_is_the_documented_recipe():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model, reused = SVC(tol=TOL, warm_start=True), []
    for rows in (200, 300, 400, 500, len(y)):
        model.fit(X[:rows], y[:rows])
        reused.append(model.n_reused_)
    assert reused[0] == 0
    assert np.all(np.diff(reused) > 0)
    check_same_optimum(model, X, y)


# ---- what starts cold -------------------------------------------------------------------------


def same_bits_as_cold(model, X, y):
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    assert model.n_reused_ == 0
    np.testing.assert_array_equal(model.support_, cold.support_)
    np.testing.assert_array_equal(model.intercept_, cold.intercept_)
    np.testing.assert_array_equal(model.n_iter_, cold.n_iter_)


@EACH
def test_other_data_start_cold(name):
    X, y = data(name)
    few = len(y) * 4 // 5
    model = machine(name).fit(X, y)
    others = {
        "other values": (X + 1.0, y),
        "another order": (X[::-1].copy(), y[::-1]),
        "fewer rows": (X[:few], y[:few]),
        "fewer columns": (X[:, :3].copy(), y),
        "sparse": (sp.csr_array(X), y),
    }
    for Z, z in others.values():
        same_bits_as_cold(clone(model).fit(X, y).fit(Z, z), Z, z)


@pytest.mark.parametrize("name", ["SVC", "SVC-ovr", "SVC-crammer_singer", "NuSVC"])
def test_other_classes_start_cold(name):
    X, y = data(name)
    for other in (y + 1, np.minimum(y, 1), np.where(np.arange(len(y)) % 4 == 0, 3, y)):
        settings = {"nu": 0.4} if name == "NuSVC" and other.max() == 3 and other.min() == 0 else {}
        model = machine(name, **settings)
        same_bits_as_cold(model.fit(X, y).fit(X, other), X, other)


def test_without_warm_start_nothing_is_reused():
    X, y = data("SVC")
    model = SVC(tol=TOL).fit(X, y)
    first = work(model)
    model.fit(X, y)
    assert model.n_reused_ == 0
    assert work(model) == first


# ---- between two fits -------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["ovo", "ovr", "crammer_singer"])
@pytest.mark.parametrize("after", ["ovo", "ovr", "crammer_singer"])
def test_another_multi_class(before, after):
    X, y = data("SVC")
    model = SVC(multi_class=before, tol=TOL, warm_start=True).fit(X, y)
    model.set_params(multi_class=after).fit(X, y)
    check_same_optimum(model, X, y)


@pytest.mark.parametrize("before", ["rbf", "linear", "precomputed", "callable", "object"])
@pytest.mark.parametrize("after", ["rbf", "linear", "precomputed", "callable", "object"])
def test_another_kind_of_kernel(before, after):
    X, y = data("SVC")
    kinds = {
        "rbf": ("rbf", X),
        "linear": ("linear", X),
        "precomputed": ("precomputed", rbf_kernel(X)),
        "callable": (rbf_kernel, X),
        "object": (kernels.RBF(gamma=0.5) + kernels.Linear(), X),
    }
    model = SVC(kernel=kinds[before][0], tol=TOL, warm_start=True).fit(kinds[before][1], y)
    model.set_params(kernel=kinds[after][0]).fit(kinds[after][1], y)
    check_same_optimum(model, kinds[after][1], y)


def test_a_refused_fit_leaves_the_model_usable():
    X, y = data("NuSVC")
    model = machine("NuSVC").fit(X, y)
    expected = model.predict(X)
    with pytest.raises(ValueError, match="infeasible"):
        model.set_params(nu=0.9).fit(X, np.where(np.arange(len(y)) == 0, 3, y))
    np.testing.assert_array_equal(model.predict(X), expected)
    model.set_params(nu=0.2).fit(X, y)
    check_same_optimum(model, X, y)


def test_the_hard_margin_starts_from_a_soft_one():
    X, y = data("SVC")
    y = (y == 0).astype(int)
    model = SVC(kernel="linear", C=1.0, tol=TOL, warm_start=True).fit(X, y)
    model.set_params(C=np.inf).fit(X, y)
    check_same_optimum(model, X, y)
    check_same_optimum(model.set_params(C=0.1).fit(X, y), X, y)


def test_a_stopped_fit_goes_on():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = SVC(C=100.0, tol=TOL, warm_start=True, max_iter=100)
    with pytest.warns(UserWarning, match="max_iter=100"):
        model.fit(X, y)
    model.set_params(max_iter=-1).fit(X, y)
    assert model.n_reused_ > 0
    check_same_optimum(model, X, y)
