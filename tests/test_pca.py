"""KernelPCA: scikit-learn's answers, residuals that prove them, and a matrix that is not held."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.decomposition
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF as GaussianProcessRBF
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from maxmargin import KernelPCA, kernels
from maxmargin.estimators._eigen import SOLVERS, Free
from maxmargin.estimators._pairwise import pairwise

SKLEARN = sklearn.decomposition.KernelPCA
HELD = ("auto", "dense", "arpack", "randomized")


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """Threads that wait for each other on busy cores make small matrices ten times as slow."""
    with threadpool_limits(1, "blas"):
        yield


@parametrize_with_checks(
    [
        KernelPCA(),
        KernelPCA(2, kernel="rbf", fit_inverse_transform=True),
        KernelPCA(2, kernel="precomputed"),
        KernelPCA(2, kernel=kernels.RBF(gamma=0.1), eigen_solver="krylov"),
    ]
)
def test_sklearn_contract(estimator, check):
    check(estimator)


def rows(n=260, d=6, seed=0):
    """Rows whose principal components are well apart."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, (n, d)) * 1.6 ** -np.arange(d) + 0.1


def worst(model):
    """The largest residual, relative to the largest eigenvalue."""
    return model.residuals_.max() / model.eigenvalues_[0]


def compare(ours, theirs, X, *, tol=1e-8):
    """Every number that scikit-learn publishes; vectors of eigenvalue 0 are any of a null space."""
    near, top = np.testing.assert_allclose, theirs.eigenvalues_[0]
    near(ours.eigenvalues_, theirs.eigenvalues_, rtol=0, atol=tol * top)
    used = theirs.eigenvalues_ > 1e-9 * top
    near(ours.eigenvectors_[:, used], theirs.eigenvectors_[:, used], rtol=0, atol=tol)
    near(ours.transform(X)[:, used], theirs.transform(X)[:, used], rtol=0, atol=tol)
    assert ours.eigenvectors_.dtype == theirs.eigenvectors_.dtype
    assert ours.eigenvalues_.dtype == theirs.eigenvalues_.dtype
    assert ours.transform(X).dtype == theirs.transform(X).dtype
    assert ours.gamma_ == theirs.gamma_


KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf"},
    "rbf-gamma": {"kernel": "rbf", "gamma": 2.0},
    "poly": {"kernel": "poly"},
    "poly-params": {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 0.5},
    "poly-root": {"kernel": "poly", "degree": 2.5},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.1, "coef0": 0.0},
    "cosine": {"kernel": "cosine"},
}


# ---- against scikit-learn ---------------------------------------------------------------------


@pytest.mark.parametrize("solver", HELD)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_agrees_with_sklearn(make, name, solver):
    X, Z = make(rows()), make(rows(40, seed=1))
    given = KERNELS[name] | {"n_components": 4, "eigen_solver": solver, "random_state": 0}
    ours, theirs = KernelPCA(**given).fit(X), SKLEARN(**given).fit(X)
    compare(ours, theirs, Z)
    np.testing.assert_allclose(ours.fit_transform(X), theirs.fit_transform(X), rtol=0, atol=1e-8)
    assert worst(ours) < (1e-13 if solver != "randomized" else 1e-2)
    assert type(ours.X_fit_) is type(theirs.X_fit_)


@pytest.mark.parametrize("n", [30, 260])
@pytest.mark.parametrize("k", [None, 1, 12, 29, 30, 1000])
@pytest.mark.parametrize("zero", [True, False])
def test_number_of_components(n, k, zero):
    X = rows(n)
    given = {"n_components": k, "kernel": "rbf", "gamma": 40.0, "remove_zero_eig": zero}
    ours, theirs = KernelPCA(**given).fit(X), SKLEARN(**given).fit(X)
    assert ours.eigenvectors_.shape == theirs.eigenvectors_.shape
    compare(ours, theirs, X)
    assert ours.residuals_.shape == ours.eigenvalues_.shape
    assert worst(ours) < 1e-13
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()


@pytest.mark.parametrize("solver", HELD)
@pytest.mark.parametrize("name", KERNELS)
def test_float32_stays_float32(name, solver):
    X = rows().astype(np.float32)
    given = KERNELS[name] | {"n_components": 3, "eigen_solver": solver, "random_state": 0}
    ours, theirs = KernelPCA(**given).fit(X), SKLEARN(**given).fit(X)
    compare(ours, theirs, X, tol=1e-5)
    assert ours.fit_transform(X).dtype == np.float32
    assert ours.transform(X.astype(np.float64)).dtype == np.float64
    double = KernelPCA(**given).fit(X.astype(np.float64))
    np.testing.assert_allclose(ours.transform(X), double.transform(X), rtol=0, atol=1e-5)


@pytest.mark.parametrize("solver", HELD)
def test_precomputed(solver):
    X, Z = rows(), rows(20, seed=1)
    K, L = pairwise_kernels(X, metric="rbf"), pairwise_kernels(Z, X, metric="rbf")
    kept = K.copy()
    given = {"n_components": 3, "eigen_solver": solver, "random_state": 0}
    ours = KernelPCA(kernel="precomputed", **given).fit(K)
    compare(ours, SKLEARN(kernel="precomputed", **given).fit(K), L)
    for copy in (True, False):  # not even with copy_X=False is a user's matrix overwritten
        object_ = KernelPCA(kernel=kernels.Precomputed(), copy_X=copy, **given).fit(K)
        np.testing.assert_array_equal(object_.transform(L), ours.transform(L))
        np.testing.assert_array_equal(K, kept)
        np.testing.assert_array_equal(object_.X_fit_, kept)
    direct = KernelPCA(kernel="rbf", **given).fit(X)
    np.testing.assert_allclose(direct.transform(Z), ours.transform(L), atol=1e-9)
    K.flags.writeable = False
    KernelPCA(kernel="precomputed", copy_X=False, **given).fit(K)


def overlap(u, v, power=1):
    return np.minimum(u, v).sum() ** power


def test_functions():
    X, Z = rows(40), rows(10, seed=1)
    given = {"n_components": 3, "kernel_params": {"power": 2}}
    ours, theirs = (C(kernel=overlap, **given).fit(X) for C in (KernelPCA, SKLEARN))
    compare(ours, theirs, Z)
    whole = kernels.Callable(lambda A, B: np.minimum(A[:, None], B[None]).sum(axis=2) ** 2)
    compare(KernelPCA(3, kernel=whole).fit(X), theirs, Z)
    compare(KernelPCA(3, kernel=kernels.HistogramIntersection() ** 2).fit(X), theirs, Z)
    process = {"n_components": 3, "kernel": GaussianProcessRBF(0.5)}
    compare(KernelPCA(**process).fit(X), SKLEARN(**process).fit(X), Z)


def test_kernel_objects():
    X = rows()
    model = KernelPCA(3, kernel=kernels.RBF(gamma="scale") + 0.1 * kernels.Linear()).fit(X)
    gamma = model.kernel_.left.gamma
    assert gamma == pytest.approx(1 / (X.shape[1] * X.var()))
    K = np.exp(-gamma * np.square(X[:, None] - X[None]).sum(axis=2)) + 0.1 * X @ X.T
    theirs = SKLEARN(3, kernel="precomputed").fit(K)
    np.testing.assert_allclose(model.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.transform(X), theirs.transform(K), atol=1e-8)
    assert clone(model).kernel == model.kernel


@pytest.mark.parametrize("name", ["laplacian", "chi2", "additive_chi2"])
def test_more_names(name):
    X, Z = rows(60), rows(10, seed=1)
    given = {} if name == "additive_chi2" else {"gamma": 0.7}
    K, L = (pairwise_kernels(A, X, metric=name, **given) for A in (X, Z))
    ours = KernelPCA(3, kernel=name, **given).fit(X)
    theirs = SKLEARN(3, kernel="precomputed").fit(K)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(ours.transform(Z), theirs.transform(L), atol=1e-8)


# ---- pre-images -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "cosine"])
def test_pre_images(name, dtype):
    X = rows(120).astype(dtype)
    given = KERNELS[name] | {"n_components": 3, "fit_inverse_transform": True, "alpha": 0.01}
    ours, theirs = KernelPCA(**given).fit(X), SKLEARN(**given).fit(X)
    near = {"rtol": 0, "atol": 1e-8 if dtype == np.float64 else 5e-4}
    Z, W = ours.transform(X), theirs.transform(X)
    back = ours.inverse_transform(Z)
    np.testing.assert_allclose(back, theirs.inverse_transform(W), **near)
    assert back.dtype == theirs.inverse_transform(W).dtype == ours.dual_coef_.dtype == dtype
    np.testing.assert_allclose(ours.X_transformed_fit_, theirs.X_transformed_fit_, **near)
    if dtype == np.float64:
        np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=0, atol=1e-8)


def test_pre_images_take_away_noise():
    X = load_digits().data[:300] / 16
    noisy = X + np.random.default_rng(0).normal(0, 0.25, X.shape)
    model = KernelPCA(32, kernel="rbf", gamma=0.01, fit_inverse_transform=True, alpha=0.01)
    cleaned = model.fit(noisy).inverse_transform(model.transform(noisy))
    assert np.square(cleaned - X).mean() < 0.6 * np.square(noisy - X).mean()


def test_no_pre_images():
    X = rows(30)
    with pytest.raises(NotFittedError, match="inverse transform is not available"):
        KernelPCA().fit(X).inverse_transform(X)
    with pytest.raises(NotFittedError, match="not fitted"):
        KernelPCA(fit_inverse_transform=True).inverse_transform(X)
    with pytest.raises(ValueError, match="Cannot fit_inverse_transform with a precomputed"):
        KernelPCA(kernel=kernels.Precomputed(), fit_inverse_transform=True).fit(X @ X.T)
    with pytest.raises(NotImplementedError, match="sparse"):
        KernelPCA(fit_inverse_transform=True).fit(sp.csr_array(X))
    with pytest.raises(np.linalg.LinAlgError, match=r"alpha=0 .*raise alpha"):
        KernelPCA(fit_inverse_transform=True, n_components=2, alpha=0).fit(X)


# ---- a matrix that is not held ----------------------------------------------------------------

SMALL = 1e-3  # MB


@pytest.mark.parametrize("solver", ["auto", "arpack", "randomized", "krylov"])
@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid", "cosine"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_without_the_matrix(make, name, solver, monkeypatch):
    monkeypatch.setattr("maxmargin.estimators.pca.pairwise", None)  # nothing may ask for all of K
    X, Z = make(rows()), make(rows(20, seed=1))
    given = KERNELS[name] | {"n_components": 4, "random_state": 0}
    ours = KernelPCA(eigen_solver=solver, cache_size=SMALL, **given).fit(X)
    kind = "dense" if solver in ("auto", "krylov") else solver
    compare(ours, SKLEARN(eigen_solver=kind, **given).fit(X), Z)
    assert worst(ours) <= (1e-10 if solver != "randomized" else 1e-2)


def test_when_the_matrix_is_held(monkeypatch):
    made = []
    monkeypatch.setattr("maxmargin.estimators.pca.Free", lambda g: made.append(g) or Free(g))
    X = rows(100)

    def frees(**given):
        made.clear()
        KernelPCA(**{"kernel": "rbf", "random_state": 0} | given).fit(X)
        return len(made) == 1

    assert frees(n_components=5, cache_size=SMALL)
    assert not frees(n_components=5)
    assert not frees(n_components=5, cache_size=100 * 100 * 8 / 2**20)
    assert not frees(n_components=6, cache_size=SMALL)  # "auto": as large as the matrix
    assert frees(n_components=6, cache_size=SMALL, eigen_solver="krylov")
    assert not frees(n_components=5, cache_size=SMALL, eigen_solver="dense")
    assert not frees(n_components=5, cache_size=SMALL, kernel="poly", degree=1.5)


def test_float32_without_the_matrix():
    X = rows().astype(np.float32)
    model = KernelPCA(3, kernel="rbf", cache_size=SMALL, random_state=0).fit(X)
    compare(model, SKLEARN(3, kernel="rbf").fit(X), X, tol=1e-5)


def test_krylov_says_when_it_stops_early():
    X = rows()
    model = KernelPCA(5, kernel="rbf", gamma=9.0, eigen_solver="krylov", max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 products with residual .* tol=1e-10"):
        model.fit(X)
    assert 1e-10 < worst(model) < 1


@pytest.mark.parametrize("k", [2, 5])
def test_krylov_on_a_low_rank(k):
    X = rows(d=3)
    model = KernelPCA(k, eigen_solver="krylov", random_state=0).fit(X)
    compare(model, SKLEARN(k, eigen_solver="dense").fit(X), X)


def test_auto_falls_back_where_lanczos_stalls():
    """Rank 7 but for eigenvalues of 1e-12: scikit-learn's ARPACK gives up on 9 of them."""
    X = np.random.default_rng(0).normal(size=(300, 7))
    given = {"n_components": 9, "kernel": "sigmoid", "gamma": 1e-3, "coef0": 0.0}
    model = KernelPCA(**given, random_state=0).fit(X)
    np.testing.assert_allclose(
        model.eigenvalues_, SKLEARN(eigen_solver="dense", **given).fit(X).eigenvalues_, atol=1e-12
    )


# ---- what must not matter, and what must ------------------------------------------------------

SEEDS = st.integers(0, 2**32 - 1)
SOLVER = st.sampled_from(["dense", "arpack", "krylov"])


def model_of(solver, **given):
    return KernelPCA(3, kernel="rbf", gamma=1.0, eigen_solver=solver, random_state=0, **given)


@settings(max_examples=25)
@given(seed=SEEDS, solver=SOLVER, free=st.booleans())
def test_order_of_rows(seed, solver, free):
    X, order = rows(50, seed=seed), np.random.default_rng(seed).permutation(50)
    size = SMALL if free else None
    one = model_of(solver, cache_size=size).fit(X)
    other = model_of(solver, cache_size=size).fit(X[order])
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(one.transform(X)), np.abs(other.transform(X)), atol=1e-8)


@settings(max_examples=25)
@given(seed=SEEDS, solver=SOLVER, shift=st.floats(-100, 100))
def test_shift_of_rows(seed, solver, shift):
    X = rows(50, seed=seed)
    one, other = model_of(solver).fit(X), model_of(solver).fit(X + shift)
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(one.transform(X), other.transform(X + shift), atol=1e-8)


@settings(max_examples=25)
@given(seed=SEEDS, solver=SOLVER, scale=st.floats(1e-3, 1e3), constant=st.floats(-10, 10))
def test_scale_and_constant_of_the_kernel(seed, solver, scale, constant):
    K = pairwise(rows(50, seed=seed), kernel="rbf")
    given = {"kernel": "precomputed", "eigen_solver": solver, "random_state": 0}
    one = KernelPCA(2, **given).fit(K)
    other = KernelPCA(2, **given).fit(scale * (K + constant))
    np.testing.assert_allclose(scale * one.eigenvalues_, other.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(
        np.sqrt(scale) * one.transform(K),
        other.transform(scale * (K + constant)),
        atol=1e-8 * np.sqrt(scale),
    )


@settings(max_examples=25)
@given(seed=SEEDS, solver=SOLVER)
def test_projections_have_the_variance_of_the_eigenvalues(seed, solver):
    X = rows(50, seed=seed)
    model = model_of(solver).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, model.fit_transform(X), atol=1e-8)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.T @ Z, np.diag(model.eigenvalues_), atol=1e-11)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_linear_kernel_is_pca(solver, offset):
    """Far from the origin too, where centring inner products would lose ten digits."""
    X, Z = rows() + offset, rows(20, seed=1) + offset
    model = KernelPCA(4, eigen_solver=solver, random_state=0).fit(X)
    plain = PCA(4, svd_solver="full").fit(X)
    variance = model.eigenvalues_ / (len(X) - 1)
    np.testing.assert_allclose(variance, plain.explained_variance_, rtol=1e-8)
    expected = np.abs(plain.transform(Z))
    for new in (Z, sp.csr_array(Z)):
        np.testing.assert_allclose(np.abs(model.transform(new)), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_bits(solver):
    X = rows()
    fits = [KernelPCA(3, kernel="rbf", eigen_solver=solver, random_state=4).fit(X) for _ in "ab"]
    np.testing.assert_array_equal(fits[0].transform(X), fits[1].transform(X))


@pytest.mark.parametrize("power", [0, 1, 3])
@pytest.mark.parametrize("size", [None, SMALL], ids=["held", "free"])
def test_few_powers_are_sklearns_and_residuals_tell(power, size):
    """A random projection that is far from exact: its error is the same, and is told."""
    X = rows(90)
    given = {"n_components": 15, "kernel": "rbf", "gamma": 20.0, "random_state": 0}
    given |= {"eigen_solver": "randomized", "iterated_power": power}
    model = KernelPCA(cache_size=size, **given).fit(X)
    compare(model, SKLEARN(**given).fit(X), X)
    K, H = pairwise_kernels(X, metric="rbf", gamma=20.0), np.eye(90) - 1 / 90
    V, values = model.eigenvectors_, model.eigenvalues_
    told = np.linalg.norm(H @ K @ H @ V - V * values, axis=0)
    assert told.max() > 1e-6
    np.testing.assert_allclose(model.residuals_, told, rtol=1e-6, atol=1e-12)


# ---- the edge list ----------------------------------------------------------------------------


def test_one_and_two_rows():
    one = KernelPCA(kernel="rbf").fit([[1.0, 2.0]])
    assert one.transform([[1.0, 2.0], [3.0, 4.0]]).shape == (2, 0)
    assert KernelPCA(1).fit([[1.0, 2.0]]).transform([[5.0, 5.0]]).tolist() == [[0.0]]
    two = KernelPCA().fit([[0.0], [2.0]])
    np.testing.assert_allclose(np.abs(two.transform([[0.0], [2.0], [4.0]])), [[1], [1], [3]])


@pytest.mark.parametrize("solver", SOLVERS)
def test_equal_rows_have_no_components(solver):
    X = np.full((12, 3), 0.1)
    for kernel in ("linear", "rbf"):
        model = KernelPCA(2, kernel=kernel, eigen_solver=solver, random_state=0).fit(X)
        assert model.transform(X).tolist() == np.zeros((12, 2)).tolist()
        assert model.residuals_.max() < 1e-12
        removed = KernelPCA(
            2, kernel=kernel, eigen_solver=solver, remove_zero_eig=True, random_state=0
        )
        assert removed.fit_transform(X).shape == (12, 0)


def test_zero_and_constant_columns_change_nothing():
    X = rows(80)
    wide = np.hstack([X, np.zeros((80, 1)), np.full((80, 1), 3.0)])
    one, other = (KernelPCA(3, kernel="rbf", gamma=1.0).fit_transform(A) for A in (X, wide))
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_layouts_and_types_of_rows():
    X = (16 * rows(80)).round()
    expected = KernelPCA(3, kernel="rbf").fit(X).transform(X)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    frozen = X.copy()
    frozen.flags.writeable = False
    same = [np.asfortranarray(X), X.astype(int), X.astype(">f8"), wide, sp.csc_matrix(X)]
    for data in (*same, frozen, pd.DataFrame(X), X.tolist(), np.repeat(X, 2, axis=1)[:, ::2]):
        for copy in (True, False):
            model = KernelPCA(3, kernel="rbf", copy_X=copy).fit(data)
            np.testing.assert_allclose(model.transform(data), expected, atol=1e-9)
            np.testing.assert_allclose(model.transform(sp.csr_array(X)), expected, atol=1e-9)


def test_names_of_features():
    frame = load_iris(as_frame=True).data
    model = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit(frame)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.transform(frame).columns.tolist() == ["kernelpca0", "kernelpca1"]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(make, bad):
    X = rows(20)
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        KernelPCA().fit(make(X))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        KernelPCA().fit(rows(20)).transform(make(X))


@pytest.mark.parametrize("solver", SOLVERS)
def test_overflow(solver):
    X = 1e150 * rows(20)
    with pytest.raises(ValueError, match=r"scale the features|infinity"):
        KernelPCA(2, kernel="poly", eigen_solver=solver).fit(X)
    with pytest.raises(ValueError, match="overflows"):
        KernelPCA(2, eigen_solver=solver).fit(1e160 * rows(20))


def test_errors():
    X = rows(20)
    with pytest.raises(ValueError, match="not symmetric, not even once it is centred"):
        KernelPCA(2, kernel="precomputed").fit(np.random.default_rng(0).normal(size=(20, 20)))
    with pytest.raises(ValueError, match=r"must be a square matrix. Input is a 20x6"):
        KernelPCA(kernel="precomputed").fit(X)
    with pytest.raises(TypeError, match="Sparse precomputed"):
        KernelPCA(kernel="precomputed").fit(sp.csr_array(X @ X.T))
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        KernelPCA(kernel="sigmoid", coef0=-1.0, gamma=2.0).fit(X)
    with pytest.raises(ValueError, match="needs non-negative data"):
        KernelPCA(2, kernel="chi2").fit(-X)
    with pytest.raises(ValueError, match="X has 5 features"):
        KernelPCA().fit(X).transform(X[:, :5])
    with pytest.raises(ValueError, match=r"0 sample|minimum of 1"):
        KernelPCA().fit(np.zeros((0, 3)))
    with pytest.raises(NotFittedError):
        KernelPCA().transform(X)
    for wrong in ({"kernel": "gauss"}, {"n_components": 0}, {"eigen_solver": "qr"}, {"gamma": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            KernelPCA(**wrong).fit(X)


@pytest.mark.parametrize("n_jobs", [None, -1, 1, 3])
def test_jobs(n_jobs):
    X = rows()
    expected = KernelPCA(3, kernel="rbf").fit(X).eigenvalues_
    model = KernelPCA(3, kernel="rbf", n_jobs=n_jobs).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-12)
