"""Least-squares SVMs: numpy's solution of Suykens' system, with proofs and leave-one-out."""

import pickle
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LSSVM, SVC, LSSVMRegressor, kernels, solvers
from maxmargin.problems import least_squares

CHECKED = [
    LSSVM(),
    LSSVM(kernel="linear"),
    LSSVM(kernel="precomputed"),
    LSSVM(class_weight="balanced"),
    LSSVMRegressor(),
    LSSVMRegressor(kernel="linear"),
    LSSVMRegressor(kernel="precomputed"),
]


@pytest.mark.filterwarnings("ignore:K with its regularised diagonal")  # a check makes K indefinite
@parametrize_with_checks(CHECKED)
def test_sklearn_contract(estimator, check):
    check(estimator)


@cache
def data(n=60, d=4, classes=3):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    y = np.array(["a", "b", "c", "d"])[(np.arange(n) % classes)]
    X = X + 0.8 * (np.arange(n) % classes)[:, None]
    return X, y, X @ rng.normal(size=(d, 2)) + 3 + rng.normal(size=(n, 2)), rng.uniform(0.1, 2, n)


def close(mine, other, tol=1e-8):
    np.testing.assert_allclose(mine, other, rtol=0, atol=tol * np.abs(other).max())


def system(K, Y, C):
    """β and b by numpy, from the whole bordered system; C of each row."""
    n = len(K)
    A = np.block([[np.zeros((1, 1)), np.ones((1, n))], [np.ones((n, 1)), K + np.diag(1 / C)]])
    solution = np.linalg.solve(A, np.vstack([np.zeros((1, Y.shape[1])), Y]))
    return solution[1:], solution[0]


def signs(y, classes):
    ours = classes[1:] if len(classes) == 2 else classes
    return np.where(y[:, None] == ours, 1.0, -1.0)


# ---- the system of the definition -------------------------------------------------------------

KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"gamma": 0.3},
    "scale": {},
    "auto": {"gamma": "auto"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
    "object": {"kernel": kernels.RBF(sigma=2.0) + 0.1 * kernels.Linear()},
    "function": {"kernel": lambda A, B: np.asarray(A @ B.T) ** 2},
}
EACH = pytest.mark.parametrize("options", KERNELS.values(), ids=KERNELS)


@EACH
@pytest.mark.parametrize("weighted", [False, True])
def test_regressor_solves_the_system(options, weighted):
    X, _, Z, w = data()
    weight = w if weighted else None
    model = LSSVMRegressor(C=5.0, **options).fit(X, Z, weight)
    K = model.kernel_(X)
    beta, b = system(K, Z, 5.0 * w if weighted else np.full(60, 5.0))
    close(model.dual_coef_, beta.T)
    close(model.intercept_, b)
    close(model.predict(X), K @ beta + b)
    assert model.residual_ < 1e-12
    assert model.certificate_.status == "optimal"
    assert model.certificate_.relative_gap < 1e-20
    assert model.certify(X, Z, weight).status == "optimal"


@EACH
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_classifier_solves_the_system(options, classes):
    X, y, _, w = data(classes=classes)
    model = LSSVM(C=5.0, **options).fit(X, y, w)
    K = model.kernel_(X)
    beta, b = system(K, signs(y, model.classes_), 5.0 * w)
    close(model.dual_coef_, beta.T)
    close(model.intercept_, b)
    values = K @ beta + b
    close(model.decision_function(X), values[:, 0] if classes == 2 else values)
    best = (values[:, 0] > 0).astype(int) if classes == 2 else values.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[best])
    assert model.certificate_.status == "optimal"
    assert len(model.certificates_) == (1 if classes == 2 else classes)
    assert model.certify(X, y, w).status == "optimal"


def test_kernel_parameters_are_those_of_svc():
    X, y, _, w = data()
    for name in ("kernel", "degree", "gamma", "coef0", "class_weight", "C"):
        assert LSSVM().get_params()[name] == SVC().get_params()[name]
    for options in KERNELS.values():
        if not callable(options.get("kernel")):
            svc = SVC(**options).fit(X, y, w)
            assert LSSVM(**options).fit(X, y, w).kernel_ == svc.kernel_


@pytest.mark.parametrize("solver", ["auto", "primal", "dual"])
def test_linear_regressor_is_ridge_with_an_intercept(solver):
    X, _, Z, w = data()
    model = LSSVMRegressor(C=4.0, kernel="linear", solver=solver).fit(X, Z, w)
    ridge = Ridge(0.25, solver="cholesky").fit(X, Z, w)
    assert model.solver_ == ("cholesky" if solver == "dual" else "primal")
    close(model.coef_, ridge.coef_)
    close(model.intercept_, ridge.intercept_)
    close(model.predict(X), ridge.predict(X))


def test_linear_classifier_is_ridge_on_signs():
    X, y, _, w = data(classes=2)
    model = LSSVM(C=4.0, kernel="linear").fit(X, y, w)
    ridge = Ridge(0.25, solver="cholesky").fit(X, np.where(y == "b", 1.0, -1.0), w)
    close(model.coef_[0], ridge.coef_)
    close(model.decision_function(X), ridge.predict(X))


def test_two_points_by_hand():
    # K = [[1, -1], [-1, 1]], D = 1/C: β = ±t with 2t + t/C = 1, b = 0.
    model = LSSVM(C=2.0, kernel="linear").fit([[1.0], [-1.0]], [1, 0])
    np.testing.assert_allclose(model.dual_coef_, [[0.4, -0.4]], rtol=1e-14)
    np.testing.assert_allclose(model.coef_, [[0.8]], rtol=1e-14)
    np.testing.assert_allclose(model.intercept_, 0, atol=1e-15)
    # ½ w² + ½ C Σ (1 - 0.8)² = 0.32 + 0.08
    assert model.certificate_.primal == pytest.approx(0.4, rel=1e-13)


def test_class_weight_multiplies_sample_weight():
    X, y, _, w = data()
    model = LSSVM(class_weight={"a": 3.0, "c": 0.5}).fit(X, y, w)
    factor = np.select([y == "a", y == "c"], [3.0, 0.5], 1.0)
    beta, b = system(model.kernel_(X), signs(y, model.classes_), factor * w)
    close(model.dual_coef_, beta.T)
    close(model.intercept_, b)
    assert model.kernel_ == LSSVM().fit(X, y, w).kernel_  # without influence on gamma
    uneven = np.flatnonzero((y != "a") | (np.arange(60) < 15))
    balanced = LSSVM(class_weight="balanced").fit(X[uneven], y[uneven])
    counts = np.array([(y[uneven] == c).sum() for c in "abc"])
    np.testing.assert_allclose(balanced.class_weight_, len(uneven) / (3 * counts))


def test_precomputed_and_sparse_rows():
    X, y, Z, w = data()
    K = rbf_kernel(X, gamma=0.3)
    for model, target in ((LSSVM(gamma=0.3), y), (LSSVMRegressor(gamma=0.3), Z)):
        base = clone(model).fit(X, target, w)
        given = clone(model).set_params(kernel="precomputed").fit(K, target, w)
        close(given.dual_coef_, base.dual_coef_)
        close(values_of(given, K[:9]), values_of(base, X[:9]))
        rows = clone(model).fit(sp.csr_array(X), target, w)
        close(rows.dual_coef_, base.dual_coef_)
        close(values_of(rows, sp.csr_array(X[:9])), values_of(base, X[:9]))


# ---- proof ------------------------------------------------------------------------------------


def test_certificate_has_the_values_of_the_definition():
    X, _, Z, w = data()
    model = LSSVMRegressor(C=3.0).fit(X, Z[:, 0], w)
    beta = model.dual_coef_[0]
    off = Z[:, 0] - model.predict(X)
    objective = 0.5 * beta @ model.kernel_(X) @ beta + 1.5 * w @ off**2
    assert model.certificate_.primal == pytest.approx(objective, rel=1e-12)
    assert model.certificate_.dual == pytest.approx(objective, rel=1e-12)


@pytest.mark.parametrize("change", ["dual_coef_", "intercept_"])
def test_a_changed_model_is_not_proved(change):
    X, y, Z, w = data()
    for model, target in ((LSSVM(), y), (LSSVMRegressor(), Z)):
        model.fit(X, target, w)
        value = getattr(model, change)
        setattr(model, change, value + 1e-3 * np.arange(value.size).reshape(value.shape))
        assert model.certify(X, target, w).status is None


def test_the_solvers_of_the_one_program_agree():
    X, _, Z, w = data()
    model = LSSVMRegressor(C=3.0, gamma=0.3).fit(X, Z[:, 0], w)
    problem = least_squares(kernels.RBF(gamma=0.3).gram(X), Z[:, 0], C=3.0, sample_weight=w)
    solution = solvers.solve(problem, tol=1e-9)
    assert solution.status == "optimal"
    close(model.dual_coef_[0], solution.beta, 1e-7)


def test_indefinite_kernel_is_said():
    X, _, Z, _ = data()
    with pytest.warns(LinAlgWarning, match="not positive definite"):
        model = LSSVMRegressor(C=1e6, kernel="sigmoid", gamma=1.0).fit(X, Z)
    assert model.solver_ == "eigen"
    assert model.certificate_.status != "optimal"


# ---- leave-one-out ----------------------------------------------------------------------------


def refitted(model, X, y, w, act):
    """Each row judged by a model that was fitted without it, the kernel unchanged."""
    rest = [np.delete(np.arange(len(X)), i) for i in range(len(X))]
    return np.concatenate(
        [act(clone(model).fit(X[r], y[r], w[r]), X[[i]]) for i, r in enumerate(rest)]
    )


@pytest.mark.parametrize("options", [{"gamma": 0.3}, {"kernel": "linear"}], ids=["rbf", "linear"])
@pytest.mark.parametrize("classes", [2, 3])
def test_leave_one_out_is_refitting(options, classes):
    X, y, Z, w = data(24, 4, classes)
    w = np.where(np.arange(24) % 7 == 0, 0.0, w)
    model = LSSVM(C=3.0, **options).fit(X, y, w)
    values = refitted(model, X, y, w, lambda m, rows: m.decision_function(rows))
    close(model.loo_decision_function(), values)
    labels = refitted(model, X, y, w, lambda m, rows: m.predict(rows))
    np.testing.assert_array_equal(model.loo_predictions(), labels)
    model = LSSVMRegressor(C=3.0, **options).fit(X, Z, w)
    close(model.loo_predictions(), refitted(model, X, Z, w, lambda m, rows: m.predict(rows)))


def test_leave_one_out_of_one_row_has_nothing_left():
    assert np.isnan(LSSVMRegressor(gamma=1.0).fit([[1.0]], [2.0]).loo_predictions()).all()


# ---- invariances ------------------------------------------------------------------------------

SEEDS = st.integers(0, 2**31)
PAIRS = [(LSSVM(C=3.0), False), (LSSVMRegressor(C=3.0), True)]
MODELS = pytest.mark.parametrize(("model", "targets"), PAIRS, ids=["classes", "targets"])


def values_of(model, X):
    act = getattr(model, "decision_function", model.predict)
    return act(X)


@MODELS
@given(seed=SEEDS)
@settings(max_examples=10)
def test_weight_is_repetition(model, targets, seed):
    X, y, Z, _ = data()
    T = Z if targets else y
    counts = np.random.default_rng(seed).integers(0, 4, len(X))
    counts[:3] = 1  # every class
    weighted = clone(model).fit(X, T, counts.astype(float))
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(T, counts, axis=0))
    close(values_of(weighted, X), values_of(repeated, X))
    assert not weighted.dual_coef_[:, counts == 0].any()


@MODELS
@given(seed=SEEDS, shift=st.floats(-10, 10))
@settings(max_examples=10)
def test_order_and_a_shift_of_the_rows_do_not_matter(model, targets, seed, shift):
    X, y, Z, w = data()
    T = Z if targets else y
    order = np.random.default_rng(seed).permutation(len(X))
    straight = clone(model).fit(X, T, w)
    other = clone(model).fit(X[order] + shift, T[order], w[order])
    close(other.dual_coef_, straight.dual_coef_[:, order])
    close(other.intercept_, straight.intercept_)


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
@settings(max_examples=10)
def test_targets_scale_and_shift(scale, shift):
    X, _, Z, w = data()
    base = LSSVMRegressor(C=3.0).fit(X, Z, w)
    other = LSSVMRegressor(C=3.0).fit(X, scale * Z + shift, w)
    size = scale * np.abs(Z).max() + abs(shift)  # rounding is relative to the larger of both
    np.testing.assert_allclose(other.predict(X), scale * base.predict(X) + shift, atol=1e-9 * size)
    np.testing.assert_allclose(other.dual_coef_, scale * base.dual_coef_, atol=1e-9 * size)


@given(scale=st.floats(1e-3, 1e3))
@settings(max_examples=10)
def test_scaling_the_kernel_is_scaling_the_price(scale):
    X, y, _, w = data()
    K = rbf_kernel(X)
    base = LSSVM(C=3.0, kernel="precomputed").fit(K, y, w)
    other = LSSVM(C=3.0 / scale, kernel="precomputed").fit(scale * K, y, w)
    close(other.decision_function(scale * K), base.decision_function(K))


def test_flipped_labels_flip_the_decision():
    X, y, _, w = data(classes=2)
    base, other = LSSVM().fit(X, y, w), LSSVM().fit(X, np.where(y == "a", "b", "a"), w)
    close(other.decision_function(X), -base.decision_function(X))


# ---- edges ------------------------------------------------------------------------------------


@MODELS
def test_layouts_and_types(model, targets):
    X, y, Z, _ = data()
    T = Z if targets else y
    base = clone(model).fit(X, T)
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for same in (np.asfortranarray(X), frozen, wide, X[::-1][::-1], X.tolist()):
        close(clone(model).fit(same, T).dual_coef_, base.dual_coef_)
    single, double = (clone(model).fit(X.astype(np.float32).astype(t), T) for t in ("f4", "f8"))
    close(single.dual_coef_, double.dual_coef_)
    again = pickle.loads(pickle.dumps(base))
    np.testing.assert_array_equal(again.predict(X), base.predict(X))


@MODELS
def test_small_and_degenerate_data(model, targets):
    X, y, Z, _ = data()
    T = Z if targets else y
    assert clone(model).fit(X[:2], T[:2]).certificate_.status == "optimal"
    padded = np.column_stack([X, np.zeros(60), np.full(60, 3.0)])
    assert clone(model).fit(padded, T).certificate_.status == "optimal"
    for C in (1e-10, 1e8):
        extreme = clone(model).set_params(C=C, gamma=2.0).fit(X, T)
        assert extreme.certificate_.status == "optimal"
    mean = np.mean(Z if targets else signs(y, np.unique(y)), axis=0)
    flat = clone(model).set_params(C=1e-10).fit(X, T)
    close(values_of(flat, X), np.tile(mean, (60, 1)), 1e-7)


def test_duplicates_with_opposite_labels():
    X, y, _, _ = data(classes=2)
    model = LSSVM(C=1e3).fit(np.vstack([X, X]), np.append(y, np.where(y == "a", "b", "a")))
    assert np.abs(model.decision_function(X)).max() < 1e-9
    assert model.certificate_.status == "optimal"


def test_one_row_is_its_own_mean():
    model = LSSVMRegressor().fit([[1.0]], [2.0])
    np.testing.assert_allclose(model.predict([[1.0], [5.0]]), 2.0)


def test_price_without_limit_interpolates():
    X, _, Z, _ = data()
    model = LSSVMRegressor(C=np.inf, gamma=2.0).fit(X, Z)
    close(model.predict(X), Z)
    assert model.certificate_.status == "optimal"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (LSSVM(C=0.0), "C"),
        (LSSVM(gamma=-1.0), "gamma"),
        (LSSVM(kernel="cosine"), "kernel"),
        (LSSVM(solver="primal"), "needs the linear kernel"),
        (LSSVM(class_weight={"a": -1.0}), "class_weight must be at least 0"),
        (LSSVM(class_weight={"a": 0.0, "b": 0.0}), "same class"),
    ],
)
def test_refuses(model, said):
    X, y, _, _ = data()
    with pytest.raises(ValueError, match=said):
        model.fit(X, y)


def test_refuses_data():
    X, y, Z, w = data()
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        LSSVM().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="same class"):
        LSSVM().fit(X, y, (y == "a").astype(float))
    with pytest.raises(ValueError, match=r"(?i)unknown label type"):
        LSSVM().fit(X, Z[:, 0])
    with pytest.raises(ValueError, match=r"(?i)weight"):
        LSSVMRegressor().fit(X, Z, 0 * w)
    with pytest.raises(ValueError, match="pass the training data"):
        LSSVM().fit(X, y).certify(X[1:], y[1:])
    assert not hasattr(LSSVM(), "coef_")


def test_a_class_without_weight_is_left_out():
    X, y, _, _ = data()
    model = LSSVM(class_weight={"c": 0.0}, gamma=0.3).fit(X, y)
    other = LSSVM(gamma=0.3).fit(X[y != "c"], y[y != "c"])
    assert list(model.classes_) == ["a", "b"]
    close(model.decision_function(X), other.decision_function(X))


def test_searches():
    X, y, _, _ = data()
    kernel = kernels.RBF(gamma=0.1)
    search = GridSearchCV(LSSVM(kernel=kernel), {"C": [0.1, 10.0], "kernel__gamma": [0.1, 1.0]})
    assert search.fit(X, y).best_estimator_.certificate_.status == "optimal"
