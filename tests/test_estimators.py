"""What holds for every machine whatever stops it, and what a failed or repeated fit leaves."""

import signal

import numpy as np
import pytest
from sklearn.callback import FitCallback
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, kernels, problems

IRIS = load_iris(return_X_y=True)


class Stop(FitCallback):
    """Stop, or press Ctrl-C, once: when so many chunks of the solver are done."""

    def __init__(self, after=1, ctrl_c=False):
        self.after, self.ctrl_c, self.seen = after, ctrl_c, 0

    def setup(self, estimator, context):
        self.seen = 0

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == self.after and self.ctrl_c:
            signal.raise_signal(signal.SIGINT)
        return self.seen == self.after

    def teardown(self, estimator, context):
        pass


def test_a_callback_that_stops_once_ends_the_whole_fit():
    X, y = IRIS
    model = SVC(record_every=5).set_callbacks(Stop(after=2)).fit(X, y)
    assert model.certificate_.status == "interrupted"
    assert [c.status for c in model.certificates_[1:]] == ["interrupted"] * 2
    assert model.n_iter_.tolist()[1:] == [0, 0]
    assert model.predict(X).shape == y.shape


def test_ctrl_c_in_the_middle_keeps_what_was_solved():
    X, y = IRIS
    model = SVC(tol=1e-6).set_callbacks(Stop(after=2, ctrl_c=True))
    with pytest.raises(KeyboardInterrupt, match="keeps the model so far"):
        model.fit(X, y)
    first = SVC(tol=1e-6).fit(X, y).certificates_[0]
    assert model.certificates_[0].primal == first.primal
    assert model.certificates_[-1].status == "interrupted"
    assert model.certificate_.gap == np.inf
    assert model.predict(X).shape == y.shape
    assert model.decision_function(X).shape == (150, 3)


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_time": 0.0}])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_nu_classifier_that_is_stopped_early_is_not_called_infeasible(limit, classes):
    X, y = IRIS
    kept = y < classes
    with pytest.warns(ConvergenceWarning) as told:
        model = NuSVC(nu=0.3, **limit).fit(X[kept], y[kept])
    assert len(told) == 1
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(model.decision_function(X)).all()


def test_a_failed_fit_leaves_the_last_model():
    X, y = IRIS
    model = NuSVC(nu=0.3).fit(X, y)
    expected = model.decision_function(X)
    with pytest.raises(ValueError, match="infeasible"):
        model.fit(X[30:110, :2], y[30:110] > 1)
    np.testing.assert_array_equal(model.decision_function(X), expected)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((4, 2), np.nan), [0, 1, 0, 1])
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("nu", [0.2, 0.9, 1.0])
def test_a_nu_regression_proves_itself(nu):
    X, y = load_diabetes(return_X_y=True)
    model = NuSVR(nu=nu, C=10.0, tol=1e-6).fit(X[:100], y[:100])
    again = model.certify(X[:100], y[:100])
    assert again.status == model.certificate_.status == "optimal"
    np.testing.assert_allclose(again.dual, model.certificate_.dual, rtol=1e-9)


def test_a_class_without_weight_vanishes():
    X, y = IRIS
    some = SVC(class_weight={0: 0.0, 1: 1.0, 2: 2.0}).fit(X, y)
    fewer = SVC(class_weight={1: 1.0, 2: 2.0}).fit(X[y > 0], y[y > 0])
    np.testing.assert_array_equal(some.classes_, [1, 2])
    np.testing.assert_allclose(
        some.decision_function(X), fewer.set_params(gamma="scale").decision_function(X), rtol=1e-9
    )
    with pytest.raises(ValueError, match="same class"):
        SVC(class_weight={1: 0.0}).fit(X[y < 2], y[y < 2])


def test_a_speck_of_rounding_is_no_support_vector():
    """Row 5 of the first pair ended at 1e-16: free, it bound λ, which is anywhere in an interval.

    The estimator's intercept is the middle of that interval, so its own proof failed.
    """
    X, y = load_iris(return_X_y=True)
    model = NuSVC(nu=0.2, kernel="poly").fit(X, y)
    proof = model.certify(X, y)
    assert proof.status == model.certificate_.status == "optimal"
    assert proof.kkt_violation < 1e-9
    sizes = np.abs(model.dual_coef_[model.dual_coef_ != 0])
    assert sizes.min() > 1e-9 * sizes.max()


def test_swept_moves_nothing_but_specks():
    gram = kernels.Linear().gram(np.eye(4))
    problem = problems.soft_margin(gram, [1, 1, -1, -1], C=[1.0, 1.0, 1.0, 1e-20])
    beta = np.array([1.0 - 1e-16, 1e-17, -1.0, -0.4e-20])
    np.testing.assert_array_equal(problem.swept(beta), [1.0, 0.0, -1.0, 0.0])
    for kept in ([0.5, 0.5, -1.0, 0.0], [0.5, 1e-12, -0.5 - 1e-12, 0.0], [0.0] * 4):
        np.testing.assert_array_equal(problem.swept(np.array(kept)), kept)
    # 1e-17 times a feature of 1e18 is no speck.
    far = problems.soft_margin(kernels.Linear().gram(np.diag([1.0, 1e18, 1, 1])), [1, 1, -1, -1])
    np.testing.assert_array_equal(far.swept(np.array([1.0, 1e-17, -1.0, 0.0]))[1], 1e-17)


def test_the_largest_nu_of_the_message_fits():
    X, y = IRIS
    rows = np.r_[0:50, 50:90, 100:105]
    with pytest.raises(ValueError, match="at most") as told:
        NuSVC(nu=0.95).fit(X[rows], y[rows])
    most = float(str(told.value).split("at most ")[1].split()[0])
    assert NuSVC(nu=most).fit(X[rows], y[rows]).certificate_.status == "optimal"


def forbidden(A, B):
    raise AssertionError("a kernel value was computed")


@pytest.mark.parametrize(
    ("machine", "y", "message"),
    [
        (SVR(kernel=forbidden), [1.0, np.nan, 2.0], "NaN"),
        (NuSVC(kernel=forbidden, nu=0.9), [0, 1, 1], "at most 0.666666"),
        (SVC(kernel=forbidden, multi_class="crammer_singer", C=np.inf), [0, 1, 2], "finite C"),
        (SVDD(kernel=forbidden, C=0.1), None, "at least 0.333333"),
        (SVC(kernel=forbidden), [1, 1, 1], "greater than one"),
    ],
)
def test_refusals_come_before_any_kernel_value(machine, y, message):
    with pytest.raises(ValueError, match=message):
        machine.fit([[0.0], [1.0], [2.0]], y)


def test_a_start_from_another_scheme_is_not_used():
    X, y = IRIS
    model = SVC(warm_start=True).fit(X, y)
    model.set_params(multi_class="crammer_singer").fit(X, y)
    assert model.n_reused_ == 0
    assert model.certificate_.status == "optimal"
    model.set_params(multi_class="ovr").fit(X, y)
    assert model.n_reused_ == 0
    model.set_params(C=2.0).fit(X, y)
    assert model.n_reused_ > 0


def test_one_class_at_nu_one_is_finite():
    X, _ = IRIS
    for machine in (OneClassSVM(nu=1.0), SVDD(nu=1.0)):
        machine.fit(X)
        assert machine.certificate_.status == "optimal"
        assert np.isfinite(machine.decision_function(X)).all()


def test_pairs_in_threads_give_what_one_after_the_other_gives(monkeypatch):
    X, y = load_digits(return_X_y=True)
    expected = SVC(n_threads=1).fit(X, y)
    monkeypatch.setattr("maxmargin.estimators._base._WORTH_THREADS", 0)
    both = SVC(n_threads=2).fit(X, y)
    np.testing.assert_array_equal(both.dual_coef_, expected.dual_coef_)
    np.testing.assert_array_equal(both.intercept_, expected.intercept_)
    with pytest.raises(ValueError, match=r"classes 1 / 2: hard_margin has no solution"):
        SVC(C=np.inf, kernel="linear", n_threads=2).fit(*IRIS)


def test_ctrl_c_stops_pairs_in_threads(monkeypatch):
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr("maxmargin.estimators._base._WORTH_THREADS", 0)
    pressed = []

    def press(self, part, *rest):
        if part.name == "0 / 3":
            pressed.append(part.name)
            signal.raise_signal(signal.SIGINT)
        return original(self, part, *rest)

    original = SVC._solve_one
    monkeypatch.setattr(SVC, "_solve_one", press)
    model = SVC(n_threads=2)
    with pytest.raises(KeyboardInterrupt, match="keeps the model so far"):
        model.fit(X, y)
    assert pressed
    statuses = [c.status for c in model.certificates_]
    assert "interrupted" in statuses
    assert "optimal" in statuses
    assert model.predict(X).shape == y.shape
