"""The binary SVC: scikit-learn's contract, honesty under limits, bad input, determinism."""

import pickle
import signal
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.callback import FitCallback
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC as SklearnSVC

from maxmargin import SVC, kernels


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_agrees_with_sklearn(cancer, kernel, C):
    X, y = cancer
    ours = SVC(C=C, kernel=kernel, tol=1e-6).fit(X, y)
    theirs = SklearnSVC(C=C, kernel=kernel, tol=1e-6).fit(X, y)
    if kernel == "sigmoid":  # not convex: another stationary point is as good
        assert ours.certificate_.status == "stationary"
        return
    assert (ours.predict(X) == theirs.predict(X)).mean() >= 0.999
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), atol=2e-3, rtol=1e-3
    )
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-2 * C)
    assert ours.shape_fit_ == theirs.shape_fit_
    for name in ("support_", "n_support_", "n_iter_", "dual_coef_", "intercept_", "classes_"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape), name
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        assert not ours.coef_.flags.writeable


def test_signature_is_sklearns_and_more():
    theirs = SklearnSVC().get_params()
    ours = SVC().get_params()
    assert set(theirs) <= set(ours)
    differing = {name for name in theirs if theirs[name] != ours[name]}
    assert differing == {"cache_size", "probability"}
    more = {"gap_tol", "max_time", "n_threads", "record_every", "warm_start", "multi_class", "loss"}
    assert set(ours) - set(theirs) == more
    X, y = load_iris(return_X_y=True)
    assert SVC(**theirs).fit(X, y).certificate_.status == "optimal"


def test_every_input_gives_the_same_model(cancer):
    X, y = cancer
    names = [f"f{k}" for k in range(X.shape[1])]
    base = SVC(gap_tol=1e-8).fit(X, y)
    expected = base.decision_function(X)
    for data in (sp.csr_array(X), sp.csc_array(X), sp.coo_array(X), np.asfortranarray(X)):
        other = SVC(gap_tol=1e-8).fit(data, y)
        np.testing.assert_allclose(other.decision_function(data), expected, atol=1e-6)
        np.testing.assert_allclose(other.decision_function(X), expected, atol=1e-6)
    assert sp.issparse(SVC().fit(sp.csr_array(X), y).dual_coef_)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = SVC(gap_tol=1e-8).fit(frame, y)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.decision_function(frame), expected)
    readonly = X.copy()
    readonly.flags.writeable = False
    np.testing.assert_array_equal(SVC(gap_tol=1e-8).fit(readonly, y).dual_coef_, base.dual_coef_)


def test_float32_stays_float32(cancer):
    X, y = cancer
    model = SVC().fit(X.astype(np.float32), y)
    assert model.support_vectors_.dtype == np.float32
    assert model.certificate_.status == "optimal"
    assert model.decision_function(X.astype(np.float32)).dtype == np.float64


def test_precomputed_callable_and_kernel_objects(cancer):
    X, y = cancer
    expected = SVC(kernel="linear", tol=1e-8).fit(X, y).decision_function(X)
    K = X @ X.T
    models = [
        (SVC(kernel="precomputed", tol=1e-8), K),
        (SVC(kernel=kernels.Precomputed(), tol=1e-8), K),
        (SVC(kernel=lambda A, B: A @ B.T, tol=1e-8), X),
        (SVC(kernel=kernels.Linear(), tol=1e-8), X),
        (SVC(kernel=kernels.Callable(np.inner), tol=1e-8), X),
    ]
    for model, data in models:
        got = model.fit(data, y).decision_function(data)
        np.testing.assert_allclose(got, expected, atol=1e-5)
        assert model.certificate_.status == "optimal"
    sparse = sp.csr_array(X)
    product = SVC(kernel=lambda A, B: A @ B.T, tol=1e-8).fit(sparse, y)
    np.testing.assert_allclose(product.decision_function(sparse), expected, atol=1e-5)
    words = ["spam", "ham", "eggs", "spam spam"]
    lengths = SVC(kernel=lambda A, B: np.array([[float(len(a) * len(b)) for b in B] for a in A]))
    assert lengths.fit(words, [1, 0, 0, 1]).predict(words).shape == (4,)


def test_kernel_parameters_can_be_searched(cancer):
    X, y = cancer
    machine = SVC(kernel=kernels.RBF(gamma=0.1) + 0.1 * kernels.Linear())
    search = GridSearchCV(machine, {"kernel__left__gamma": [0.01, 0.1], "C": [1.0]}, cv=3)
    search.fit(X, y)
    assert search.best_params_["kernel__left__gamma"] in (0.01, 0.1)
    assert clone(machine).kernel == machine.kernel
    assert cross_val_score(SVC(kernel="precomputed"), X @ X.T, y, cv=3).min() > 0.9


def test_weights_are_repetition(cancer):
    X, y = cancer
    X, y = X[:120], y[:120]
    rng = np.random.default_rng(0)
    times = rng.integers(0, 4, size=120)
    for data, make in ((X, np.asarray), (X, sp.csr_array)):
        weighted = SVC(tol=1e-10).fit(make(data), y, sample_weight=times)
        repeated = SVC(tol=1e-10).fit(make(np.repeat(data, times, axis=0)), np.repeat(y, times))
        np.testing.assert_allclose(
            weighted.decision_function(data), repeated.decision_function(data), atol=1e-7
        )
        np.testing.assert_allclose(weighted.certificate_.primal, repeated.certificate_.primal)
    for weight in ("balanced", {0: 2.0, 1: 0.5}):
        weighted = SVC(tol=1e-10, class_weight=weight).fit(X, y, sample_weight=times)
        repeated = SVC(tol=1e-10, class_weight=weight)
        repeated.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        np.testing.assert_allclose(
            weighted.decision_function(X), repeated.decision_function(X), atol=1e-7
        )


def test_rows_without_weight_vanish(cancer):
    X, y = cancer
    weight = np.ones(len(y))
    weight[::3] = 0.0
    weight[1::7] = -2.0
    kept = weight > 0
    some = SVC().fit(X, y, sample_weight=weight)
    fewer = SVC().fit(X[kept], y[kept])
    np.testing.assert_array_equal(some.decision_function(X), fewer.decision_function(X))
    np.testing.assert_array_equal(some.support_, np.flatnonzero(kept)[fewer.support_])


def test_hard_margin_of_setosa():
    X, y = load_iris(return_X_y=True)
    model = SVC(C=np.inf, kernel="linear", tol=1e-8).fit(X[:, 2:], y == 0)
    assert model.n_support_.tolist() == [1, 1]
    assert model.score(X[:, 2:], y == 0) == 1.0
    with pytest.raises(ValueError, match=r"hard_margin has no solution: .* Use a finite C"):
        SVC(C=np.inf, kernel="linear").fit(X[:, 2:], y == 2)


@pytest.mark.parametrize("margin", [1e-3, 1e-5, 1e-6, 1e-7])
def test_a_tiny_margin_is_not_called_infeasible(margin):
    rng = np.random.default_rng(0)
    y = np.tile([1.0, -1.0], 20)
    X = np.column_stack([y * margin * (1 + rng.random(40)), rng.normal(size=40)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # float64 may allow no better
        model = SVC(C=np.inf, kernel="linear", max_iter=200_000).fit(X, y)
    assert model.certificate_.status in ("optimal", "precision_limit", "iteration_limit")
    if margin >= 1e-5:
        assert model.score(X, y) == 1.0


# ---- certificates -----------------------------------------------------------------------------


def test_certificate_is_what_the_data_prove(cancer):
    X, y = cancer
    weight = np.random.default_rng(1).random(len(y))
    model = SVC(C=10, gap_tol=1e-6, class_weight="balanced").fit(X, y, sample_weight=weight)
    again = model.certify(X, y, sample_weight=weight)
    assert again.status == model.certificate_.status == "optimal"
    np.testing.assert_allclose(again.primal, model.certificate_.primal, rtol=1e-12)
    np.testing.assert_allclose(again.gap, model.certificate_.gap, rtol=1e-3, atol=1e-9)
    # Independently: N0 eq. (62) with slack from the decision values.
    f = model.decision_function(X)
    C = 10 * model.class_weight_[y] * weight
    K = model.kernel_(X)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    signs = np.where(y == 1, 1, -1)
    primal = 0.5 * beta @ K @ beta + (C * np.maximum(0, 1 - signs * f)).sum()
    np.testing.assert_allclose(primal, model.certificate_.primal, rtol=1e-9)
    np.testing.assert_allclose(
        (signs * beta).sum() - 0.5 * beta @ K @ beta, model.certificate_.dual, rtol=1e-9
    )
    model.dual_coef_ = model.dual_coef_ * 0.9  # a worse model does not pass
    assert model.certify(X, y, sample_weight=weight).status is None


def test_certify_refuses_other_data(cancer):
    X, y = cancer
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="training data"):
        model.certify(X[:-1], y[:-1])
    with pytest.raises(ValueError, match="training data"):
        model.certify(X + 1, y)
    for wrong in (1 - y, np.where(y == 1, "a", "b"), np.roll(y, 1)):
        with pytest.raises(ValueError, match=r"y.* differs"):
            model.ledger(X, wrong)
    with pytest.raises(ValueError, match="C or sample_weight differs"):
        model.certify(X, y, sample_weight=np.full(len(y), 0.1))
    model.intercept_ = model.intercept_ + 0.1
    shifted = model.certify(X, y)
    assert shifted.status is None
    assert shifted.kkt_violation > 0.09


def test_ledger_and_history(cancer):
    X, y = cancer
    model = SVC(record_every=50, gap_tol=1e-6).fit(X, y)
    ledger = model.ledger(X, y)
    assert len(ledger) == len(y)
    signs = np.where(y == 1, 1, -1)
    np.testing.assert_allclose(ledger.margin, signs * model.decision_function(X), atol=1e-9)
    assert np.count_nonzero(ledger.alpha) == len(model.support_)
    assert ledger.kkt_residual.max() <= 1e-3
    assert model.ledger(X, y, as_frame=True).shape[0] == len(y)
    assert list(model.history_) == [
        "iteration", "seconds", "primal", "dual", "gap", "kkt_violation", "n_support",
    ]  # fmt: skip
    assert model.history_.n_support[-1] == len(model.support_)


# ---- limits -----------------------------------------------------------------------------------


def test_limits_warn_with_the_gap_reached(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match=r"max_iter=20.* relative gap .* got kkt"):
        model = SVC(max_iter=20).fit(X, y)
    assert model.fit_status_ == 1
    assert model.n_iter_.tolist() == [20]
    assert model.certificate_.status == "iteration_limit"
    assert model.score(X, y) > 0.5
    with pytest.warns(ConvergenceWarning, match="max_time=0"):
        SVC(max_time=0.0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="float64 precision"):
        SVC(C=100.0, tol=1e-15).fit(X, y)


class Press(FitCallback):
    """A callback of scikit-learn that counts tasks, stops, or presses Ctrl-C."""

    def __init__(self, after=10**9, ctrl_c=False):
        self.after, self.ctrl_c, self.tasks = after, ctrl_c, 0

    def setup(self, estimator, context):
        self.tasks = 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.tasks += 1
        if self.tasks == self.after and self.ctrl_c:
            signal.raise_signal(signal.SIGINT)
        return self.tasks >= self.after

    def teardown(self, estimator, context):
        pass


def test_sklearn_callbacks_see_chunks_and_can_stop(cancer):
    X, y = cancer
    counting = Press()
    SVC(record_every=50).set_callbacks(counting).fit(X, y)
    assert counting.tasks > 3
    model = SVC(record_every=50).set_callbacks(Press(after=2)).fit(X, y)
    assert model.certificate_.status == "interrupted"
    assert model.n_iter_.tolist() == [100]


def test_ctrl_c_keeps_the_model_and_goes_on(cancer):
    X, y = cancer
    model = SVC(record_every=50).set_callbacks(Press(after=2, ctrl_c=True))
    with pytest.raises(KeyboardInterrupt, match="keeps the model so far"):
        model.fit(X, y)
    assert model.certificate_.status == "interrupted"
    assert model.predict(X).shape == y.shape


def test_verbose_shows_the_gap(cancer, capsys, monkeypatch):
    X, y = cancer
    SVC(verbose=1, C=100).fit(X, y)
    assert "gap" in capsys.readouterr().err
    for name in [n for n in sys.modules if n.split(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    SVC(verbose=1, C=100).fit(X, y)
    err = capsys.readouterr().err
    assert "100%  gap" in err
    assert err.endswith("\n")


# ---- bad input --------------------------------------------------------------------------------

GOOD = (np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1])
BAD = [
    ({"C": 0.0}, *GOOD, None, "C"),
    ({"C": -1.0}, *GOOD, None, "C"),
    ({"tol": 0.0}, *GOOD, None, "tol"),
    ({"gap_tol": 0.0}, *GOOD, None, "gap_tol"),
    ({"n_threads": 0}, *GOOD, None, "n_threads"),
    ({"kernel": "rbb"}, *GOOD, None, "kernel"),
    ({"gamma": -1.0}, *GOOD, None, "gamma"),
    ({"probability": True, "multi_class": "crammer_singer"}, *GOOD, None, "CalibratedClassifierCV"),
    ({}, [[np.nan, 0.0], [1.0, 2.0]], [0, 1], None, "NaN"),
    ({}, [[np.inf, 0.0], [1.0, 2.0]], [0, 1], None, "infinity"),
    ({}, np.empty((0, 2)), [], None, "0 sample"),
    ({}, [[1.0], [2.0]], [1, 1], None, "number of classes has to be greater than one"),
    ({}, [[1.0], [2.0]], [0.5, 1.5], None, "Unknown label type"),
    ({}, [[1.0], [2.0]], [[0, 1], [1, 0]], None, "1d array"),
    ({}, [[1.0], [2.0]], [0, 1, 1], None, "inconsistent"),
    ({}, [1.0, 2.0], [0, 1], None, "2D array"),
    ({}, *GOOD, [np.nan] * 6, "NaN"),
    ({}, *GOOD, [np.inf] * 6, "infinity"),
    ({}, *GOOD, [1.0] * 5, "sample_weight"),
    ({}, *GOOD, [0.0] * 6, "zero or negative weights"),
    ({}, *GOOD, [-1.0] * 6, "zero or negative weights"),
    ({}, *GOOD, [1.0, 0.0] * 3, "same class"),
    ({"kernel": "precomputed"}, *GOOD, None, "square"),
    ({"kernel": "precomputed"}, [[1.0, 2.0], [0.0, 1.0]], [0, 1], None, "symmetric"),
    ({"kernel": kernels.Chi2()}, [[-1.0], [2.0]], [0, 1], None, "non-negative"),
    ({"kernel": kernels.RBF(gamma=1.0, sigma=1.0)}, *GOOD, None, "sigma"),
]


@pytest.mark.parametrize(("params", "X", "y", "weight", "message"), BAD)
def test_bad_input_is_refused_before_any_kernel_work(params, X, y, weight, message, monkeypatch):
    monkeypatch.setattr("maxmargin._core.Smo", None)
    monkeypatch.setattr("maxmargin._core.Basis", None)
    with pytest.raises(ValueError, match=message):
        SVC(**params).fit(X, y, sample_weight=weight)


def test_not_fitted_and_wrong_width(cancer):
    X, y = cancer
    with pytest.raises(NotFittedError):
        SVC().predict(X)
    with pytest.raises(ValueError, match="features"):
        SVC().fit(X, y).predict(X[:, :3])
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = SVC().fit(X, y).coef_


# ---- determinism, threads, pickles ------------------------------------------------------------


def test_the_same_bits_in_threads_and_processes():
    X, y = make_classification(2500, 20, random_state=0)
    expected = SVC(n_threads=1).fit(X, y)
    two = SVC(n_threads=2).fit(X, y)
    np.testing.assert_array_equal(two.dual_coef_, expected.dual_coef_)
    np.testing.assert_array_equal(two.decision_function(X), expected.decision_function(X))
    for backend in ("threading", "loky"):
        fits = joblib.Parallel(n_jobs=2, backend=backend)(
            joblib.delayed(SVC().fit)(X, y) for _ in range(3)
        )
        for fit in fits:
            np.testing.assert_array_equal(fit.dual_coef_, expected.dual_coef_)


def test_batch_and_single_rows_agree(cancer):
    X, y = cancer
    model = SVC(C=100).fit(X, y)
    batch = model.decision_function(X)
    single = np.array([model.decision_function(X[[i]])[0] for i in range(50)])
    np.testing.assert_allclose(single, batch[:50], atol=1e-10 * np.abs(model.dual_coef_).sum())


def test_pickle_and_pipeline(cancer):
    X, y = cancer
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy[-1].certificate_.gap == model[-1].certificate_.gap


def test_peak_memory_stays_within_the_cache_and_three_inputs():
    """In a process of its own: what fit adds is at most cache_size + 2 more copies of X."""
    code = """
import resource, numpy as np
from sklearn.datasets import make_classification
from maxmargin import SVC
X, y = make_classification(12000, 200, n_informative=50, flip_y=0.05, random_state=0)
SVC(cache_size=5).fit(X[:400], y[:400])
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
model = SVC(cache_size=30, max_iter=4000)
import warnings; warnings.simplefilter("ignore")
model.fit(X, y)
print(peak() - before, 30 * 2**20 + 2 * X.nbytes)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    used, allowed = map(int, out.stdout.split())
    assert used <= allowed
