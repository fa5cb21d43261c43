"""Kernel ridge regression: scikit-learn's answers, with proofs; paths and leave-one-out."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.kernel_ridge
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF as GaussianProcessRBF
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import KernelRidge, KernelRidgeCV, kernels, solvers
from maxmargin.problems import least_squares

CHECKED = [
    KernelRidge(),
    KernelRidge(kernel="rbf"),
    KernelRidge(kernel="precomputed"),
    KernelRidgeCV(kernel="rbf"),
    KernelRidgeCV(cv="gcv"),
]


@pytest.mark.filterwarnings("ignore:K with its regularised diagonal")  # a check makes K indefinite
@parametrize_with_checks(CHECKED)
def test_sklearn_contract(estimator, check):
    check(estimator)


@cache
def data(n=60, d=5, targets=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, d))
    return (
        X,
        X @ rng.normal(size=(d, targets)) + rng.normal(size=(n, targets)),
        rng.uniform(0, 2, n),
    )


def theirs(**settings):
    return sklearn.kernel_ridge.KernelRidge(**settings)


def close(mine, other, tol=1e-8):
    np.testing.assert_allclose(mine, other, rtol=0, atol=tol * np.abs(other).max())


# ---- against scikit-learn ---------------------------------------------------------------------

SETTINGS = {
    "linear": {},
    "rbf": {"kernel": "rbf"},
    "gamma": {"kernel": "rbf", "gamma": 0.7, "alpha": 1e-3},
    "poly": {"kernel": "poly", "degree": 2},
    "polynomial": {"kernel": "polynomial", "gamma": 2.0, "coef0": 0.5},
    "degree": {"kernel": "poly", "degree": 1.5},
    "sigmoid": {"kernel": "sigmoid"},
    "laplacian": {"kernel": "laplacian"},
    "chi2": {"kernel": "chi2", "gamma": 0.3},
    "cosine": {"kernel": "cosine"},
    "function": {"kernel": lambda u, v, p: float(u @ v) ** p, "kernel_params": {"p": 2}},
    "process": {"kernel": GaussianProcessRBF(0.5)},
    "per_target": {"kernel": "rbf", "alpha": [0.1, 1.0, 0.1]},
    "per_target_linear": {"alpha": np.array([0.1, 1.0, 10.0])},
}
EACH = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


@EACH
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_sklearn(settings, weighted):
    X, Y, w = data()
    weight = w if weighted else None
    ours = KernelRidge(**settings).fit(X, Y, sample_weight=weight)
    other = theirs(**settings).fit(X, Y, sample_weight=weight)
    close(ours.dual_coef_, other.dual_coef_)
    close(ours.predict(X[:7]), other.predict(X[:7]))
    assert ours.residual_ < 1e-12
    assert ours.certificate_.relative_gap < 1e-20
    mercer = settings.get("kernel") != "sigmoid" and settings.get("degree") != 1.5
    assert ours.certificate_.status == ("optimal" if mercer else "stationary")
    assert ours.certify(X, Y, weight).status == ours.certificate_.status


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "cosine", "sigmoid", "laplacian"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_matrix])
def test_sparse_rows(name, container):
    X, Y, _ = data()
    X = np.where(X > 0.4, X, 0.0)
    ours = KernelRidge(kernel=name).fit(container(X), Y[:, 0])
    other = theirs(kernel=name).fit(X, Y[:, 0])
    close(ours.dual_coef_, other.dual_coef_)
    for rows in (container(X), X):
        close(ours.predict(rows), other.predict(X))
    close(KernelRidge(kernel=name).fit(X, Y[:, 0]).predict(container(X)), other.predict(X))


@pytest.mark.parametrize("name", ["linear", "rbf", "cosine"])
def test_float32_is_solved_in_float64(name):
    X, Y, _ = data()
    X = X.astype(np.float32)
    ours = KernelRidge(kernel=name, alpha=1e-3).fit(X, Y[:, 0])
    close(ours.dual_coef_, theirs(kernel=name, alpha=1e-3).fit(X.astype(float), Y[:, 0]).dual_coef_)
    assert ours.X_fit_.dtype == np.float32
    assert ours.residual_ < 1e-11


def test_additive_chi2_is_not_positive_definite():
    X, Y, _ = data()
    with pytest.warns(LinAlgWarning, match="not positive definite"):
        ours = KernelRidge(kernel="additive_chi2").fit(X, Y)
    with warnings.catch_warnings(action="ignore"):
        other = theirs(kernel="additive_chi2").fit(X, Y)
    close(ours.dual_coef_, other.dual_coef_)
    assert ours.certificate_.status == "stationary"
    assert ours.solver_ == "eigen"


def test_precomputed():
    X, Y, w = data()
    K = pairwise_kernels(X, metric="rbf")
    before = K.copy()
    ours = KernelRidge(kernel="precomputed").fit(K, Y, w)
    close(ours.dual_coef_, theirs(kernel="precomputed").fit(K, Y, w).dual_coef_)
    np.testing.assert_array_equal(K, before)
    close(ours.predict(K[:4]), KernelRidge(kernel="rbf").fit(X, Y, w).predict(X[:4]))
    with pytest.raises(TypeError, match="Sparse precomputed"):
        ours.fit(sp.csr_array(K), Y)
    with pytest.raises(ValueError, match="symmetric"):
        ours.fit(K + np.triu(K), Y)


def test_our_kernels():
    X, Y, w = data()
    kernel = kernels.RBF(sigma=0.5) + 0.1 * kernels.Linear()
    ours = KernelRidge(kernel=kernel).fit(X, Y)
    close(ours.dual_coef_, np.linalg.solve(kernel(X) + np.eye(len(X)), Y))
    assert ours.kernel_ == kernel
    mixed = kernel + kernels.Callable(lambda A, B: A @ B.T)
    close(
        KernelRidge(kernel=mixed).fit(X, Y).predict(X),
        mixed(X) @ np.linalg.solve(mixed(X) + np.eye(len(X)), Y),
    )
    scale = KernelRidge(kernel=kernels.RBF()).fit(X, Y, w).kernel_
    assert scale == kernels.RBF().resolve(X, w)


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_clones_pickles_and_searches(name):
    X, Y, _ = data()
    model = KernelRidge(kernel=name).fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    grid = {"alpha": [0.1, 1.0], "kernel": ["rbf", "linear"]}
    ours, other = (GridSearchCV(m, grid, cv=3).fit(X, Y) for m in (clone(model), theirs()))
    close(ours.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
    assert ours.best_params_ == other.best_params_
    assert "certificate_" in vars(model)
    assert "optimal" in model._repr_html_()


# ---- primal and dual ---------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e6, [1e-2, 1.0, 3.0]])
@pytest.mark.parametrize("shape", [(60, 5), (20, 50)])
def test_primal_and_dual_solutions_are_equal(alpha, shape):
    X, Y, w = data(*shape)
    fits = {
        solver: KernelRidge(alpha, solver=solver).fit(X, Y, w)
        for solver in ("auto", "primal", "dual")
    }
    assert fits["auto"].solver_ == ("primal" if shape[0] > shape[1] else "cholesky")
    assert fits["dual"].solver_ == "cholesky"
    for name, model in fits.items():
        assert model.residual_ < 1e-8, name
        assert model.certificate_.status == "optimal"
        close(model.predict(X), fits["dual"].predict(X))
    close(fits["primal"].dual_coef_, fits["dual"].dual_coef_)
    close(fits["primal"].coef_, fits["dual"].coef_)
    A, a = np.sqrt(w)[:, None] * X, np.broadcast_to(alpha, 3)
    for k in range(3):  # N3: (AᵀA + λI)⁻¹ Aᵀy
        w_k = np.linalg.solve(A.T @ A + a[k] * np.eye(A.shape[1]), A.T @ (np.sqrt(w) * Y[:, k]))
        close(fits["primal"].coef_[k], w_k, 1e-7)


def test_sparse_primal():
    X, Y, w = data()
    close(
        KernelRidge(solver="primal").fit(sp.csr_array(X), Y, w).dual_coef_,
        KernelRidge(solver="dual").fit(X, Y, w).dual_coef_,
    )


def test_a_primal_that_loses_its_digits_is_solved_in_the_dual():
    X, Y, _ = data(40, 3)
    y = Y[:, 0] * 1.0
    with pytest.warns(LinAlgWarning):
        auto = KernelRidge(1e-17).fit(X, y)
    assert auto.solver_ in ("cholesky", "eigen")


def test_solver_that_does_not_apply():
    X, Y, _ = data()
    with pytest.raises(ValueError, match="needs the linear kernel; got kernel='rbf'"):
        KernelRidge(kernel="rbf", solver="primal").fit(X, Y)
    with pytest.raises(ValueError, match=r"solver='primal' does not apply.*positive diagonal"):
        KernelRidge(alpha=0, solver="primal").fit(X, Y)


def test_a_gram_that_does_not_fit(monkeypatch):
    monkeypatch.setattr("maxmargin.estimators._least_squares.fits", lambda n: n < 50)
    X, Y, _ = data()
    assert KernelRidge().fit(X, Y).solver_ == "primal"
    for model in (KernelRidge(kernel="rbf"), KernelRidgeCV(kernel="rbf")):
        with pytest.raises(MemoryError, match="60 x 60 Gram matrix"):
            model.fit(X, Y)


# ---- the limits of float64 --------------------------------------------------------------------


def test_singular_kernel_gives_least_squares_and_says_so():
    X, Y, _ = data()
    with pytest.warns(LinAlgWarning, match=r"singular.*least-squares.*Regularise more"):
        model = KernelRidge(alpha=0).fit(X, Y)
    close(model.predict(X), X @ np.linalg.lstsq(X, Y)[0])
    assert model.certificate_.status is None  # these targets have no interpolant


def test_interpolation():
    X, Y, _ = data()
    model = KernelRidge(alpha=0, kernel="laplacian").fit(X, Y)
    close(model.predict(X), Y)
    assert model.certificate_.status == "optimal"
    assert model.certificate_.relative_gap < 1e-9


def test_duplicates_without_ridge():
    X, Y, _ = data()
    X, Y = np.vstack([X, X]), np.vstack([Y, Y])
    with pytest.warns(LinAlgWarning):
        model = KernelRidge(alpha=0, kernel="laplacian").fit(X, Y)
    close(model.predict(X), Y)


def test_a_residual_above_tol_is_said():
    X, Y, _ = data()
    with pytest.warns(LinAlgWarning, match=r"ill-conditioned.*residual .*\(asked 1e-18\)"):
        model = KernelRidge(1e-3, kernel="rbf", tol=1e-18).fit(X, Y)
    assert 1e-18 < model.residual_ < 1e-12


def test_ill_conditioned_fit_warns_and_tells_its_residual():
    X = np.linspace(0, 1, 200)[:, None]
    y = np.random.default_rng(0).normal(size=200)
    with pytest.warns(LinAlgWarning, match=r"relative residual \d"):
        model = KernelRidge(alpha=1e-15, kernel="rbf").fit(X, np.column_stack([0 * y, y]))
    K = pairwise_kernels(X, metric="rbf") + 1e-15 * np.eye(200)
    measured = np.linalg.norm(K @ model.dual_coef_[:, 1] - y) / np.linalg.norm(y)
    assert model.residual_ > 1e-8
    assert abs(measured - model.residual_) < 0.1 * model.residual_


# ---- the one QP -------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
def test_solvers_solve_it_as_a_problem(bias):
    X, Y, w = data()
    gram = kernels.RBF(gamma=1.0).gram(X)
    problem = least_squares(gram, Y[:, 0], C=10.0, sample_weight=w, bias=bias)
    solution = solvers.solve(problem, tol=1e-9)
    D, ones = np.diag(1 / (10 * w)), np.full((60, 1), float(bias))
    A = np.block([[np.full((1, 1), 1.0 - bias), ones.T], [ones, gram.rows(np.arange(60)) + D]])
    close(solution.beta, np.linalg.solve(A, np.append(0.0, Y[:, 0]))[1:], 1e-7)
    assert solution.status == "optimal"


def test_certificate_has_the_values_of_the_notes():
    X, Y, w = data()
    model = KernelRidge(0.3, kernel="rbf").fit(X, Y[:, 0], w)
    f, a = model.predict(X), model.dual_coef_
    objective = w @ (Y[:, 0] - f) ** 2 + 0.3 * f @ a
    assert model.certificate_.primal == pytest.approx(objective, rel=1e-12)
    assert model.certificate_.dual == pytest.approx(objective, rel=1e-12)
    wrong = clone(model).fit(X, Y[:, 0], w)
    wrong.dual_coef_ = a + 1e-3
    assert wrong.certify(X, Y[:, 0], w).status is None
    with pytest.raises(ValueError, match="pass the training data"):
        model.certify(X[1:], Y[1:, 0], w[1:])
    with pytest.raises(ValueError, match="other targets"):
        model.certify(X, Y, w)


# ---- weights, order and scale -----------------------------------------------------------------

MODELS = {
    "dual": KernelRidge(0.5, kernel="rbf"),
    "primal": KernelRidge(0.5),
    "gcv": KernelRidgeCV([0.1, 1.0, 10.0], kernel="rbf", cv="gcv"),
}
SEEDS = st.integers(0, 2**31)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@given(seed=SEEDS)
@settings(max_examples=10)
def test_weight_is_repetition(model, seed):
    rng = np.random.default_rng(seed)
    X, Y, _ = data()
    counts = rng.integers(0, 4, len(X))
    counts[0] = 1
    weighted = clone(model).fit(X, Y, counts.astype(float))
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    close(weighted.predict(X), repeated.predict(X))
    assert not weighted.dual_coef_[counts == 0].any()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@given(seed=SEEDS, scale=st.floats(1e-6, 1e6))
@settings(max_examples=10)
def test_order_and_units_do_not_matter(model, seed, scale):
    X, Y, w = data()
    order = np.random.default_rng(seed).permutation(len(X))
    straight = clone(model).fit(X, Y, w)
    other = clone(model).fit(X[order], scale * Y[order], w[order])
    close(other.dual_coef_, scale * straight.dual_coef_[order])
    assert other.certificate_.status == "optimal"


# ---- leave-one-out ----------------------------------------------------------------------------


def left_out(model, X, Y, w):
    """Each row predicted by a model that was fitted without it."""
    square = model.kernel == "precomputed"
    rows = []
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        part, row = (
            (X[np.ix_(rest, rest)], X[i : i + 1, rest]) if square else (X[rest], X[i : i + 1])
        )
        rows.append(clone(model).fit(part, Y[rest], w[rest]).predict(row))
    return np.concatenate(rows)


@pytest.mark.parametrize(
    "settings",
    [SETTINGS[k] for k in ("linear", "rbf", "cosine", "per_target", "per_target_linear")],
)
def test_leave_one_out_is_refitting(settings):
    X, Y, w = data(25)
    w = np.where(np.arange(25) % 7 == 0, 0.0, w)
    model = KernelRidge(**settings)
    close(model.fit(X, Y, w).loo_predictions(), left_out(model, X, Y, w))
    K = kernels.RBF(gamma=1.0)(X)
    model = KernelRidge(0.1, kernel="precomputed")
    close(model.fit(K, Y[:, 0], w).loo_predictions(), left_out(model, K, Y[:, 0], w))


def test_leave_one_out_uses_the_kernel_of_the_last_fit():
    X, Y, w = data(25)
    model = KernelRidge(kernel="rbf").fit(X, Y, w).set_params(kernel="cosine").fit(X, Y, w)
    close(model.loo_predictions(), left_out(model, X, Y, w))


# ---- what is refused, and small things --------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (KernelRidge([1.0, 2.0]), "one for each of the 3 targets"),
        (KernelRidge([1.0, -2.0, 1.0]), "alpha must be finite numbers at least 0; got -2"),
        (KernelRidge(-1.0), "alpha"),
        (KernelRidge(kernel="nothing"), "kernel"),
        (KernelRidge(solver="fast"), "solver"),
        (KernelRidge(tol=0.0), "tol"),
        (KernelRidgeCV([1.0, 0.0]), "alphas must be finite numbers above 0; got 0"),
        (KernelRidgeCV([]), "alphas must be"),
        (KernelRidgeCV(cv="loo"), "cv"),
        (KernelRidgeCV(cv=ShuffleSplit(2)), "leave out each row once; row"),
        (
            KernelRidgeCV(cv=ShuffleSplit(2, train_size=0.1, test_size=0.1)),
            "exactly the rows it tests on",
        ),
        (KernelRidge(kernel="chi2"), "non-negative"),
    ],
)
def test_refuses(model, said):
    X, Y, _ = data()
    with pytest.raises(ValueError, match=said):
        model.fit(X - 0.5, Y)


@pytest.mark.parametrize("weight", [-1.0, np.nan, "all zero"])
@pytest.mark.parametrize("model", [KernelRidge(), KernelRidgeCV()])
def test_refuses_weights(model, weight):
    X, Y, w = data()
    w = 0 * w if weight == "all zero" else np.append(w[1:], weight)
    with pytest.raises(ValueError, match=r"(?i)weight"):
        model.fit(X, Y, w)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_edges(model):
    X, Y, w = data()
    model = clone(model)
    base = clone(model).fit(X, Y[:, 0])
    readonly = X.copy()
    readonly.flags.writeable = False
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for same in (np.asfortranarray(X), readonly, wide, X[::-1][::-1], X.tolist()):
        close(model.fit(same, Y[:, 0]).dual_coef_, base.dual_coef_)
    close(model.fit(X, Y[:, 0], 1.0).dual_coef_, base.dual_coef_)
    assert model.fit(X, 0 * Y).residual_ == 0
    assert not model.predict(X).any()
    assert model.fit(np.column_stack([X, 0 * w, 0 * w + 3]), Y).residual_ < 1e-10
    assert model.fit(X, Y[:, :1]).predict(X).shape == (60, 1)
    for n in (1, 2):
        small = model.fit(X[:n], Y[:n])
        assert small.certificate_.status == "optimal"
        assert np.isfinite(small.loo_predictions()).all()
    assert np.abs(model.fit(X[:1], Y[:1]).loo_predictions()).max() < 1e-14  # nothing left: f = 0


def test_one_row_at_a_time():
    X, Y, _ = data()
    for model in (KernelRidge(), KernelRidge(kernel="rbf"), KernelRidge(kernel="cosine")):
        model.fit(X, Y)
        rows = np.concatenate([model.predict(X[i : i + 1]) for i in range(len(X))])
        np.testing.assert_allclose(rows, model.predict(X), rtol=1e-12, atol=1e-14)


def test_threads_change_nothing():
    X, Y, _ = data(300)
    one, two = (KernelRidge(kernel="rbf", n_threads=k).fit(X, Y) for k in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


def test_coef_only_for_the_linear_kernel():
    assert not hasattr(KernelRidge(kernel="rbf"), "coef_")


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_targets_of_any_size_are_proven_or_refused(size, kernel):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), size * rng.normal(size=20)
    model = KernelRidge(kernel=kernel)
    if size == 1e300:
        with pytest.raises(ValueError, match="squares of y overflow"):
            model.fit(X, y)
    else:
        assert model.fit(X, y).certificate_.status == "optimal"
