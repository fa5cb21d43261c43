"""Fits that share dot products: the same models, nothing stale, released at the end."""

import os
import signal

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.preprocessing import scale

from maxmargin import SVC, SVR, kernels, shared_gram, sharing


@pytest.fixture(autouse=True)
def _any_rows(monkeypatch):
    monkeypatch.setattr(sharing, "_WORTH", 0.0)  # the data here are narrow


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sum"])
def test_same_results_in_a_grid_search(kernel, make):
    X, y = iris()
    X = make(X)
    if kernel == "sum":
        kernel = kernels.RBF(sigma=2.0) + 0.5 * kernels.Matern(nu=1.5)
    search = GridSearchCV(SVC(kernel=kernel, tol=1e-6), {"C": [0.1, 1, 10], "gamma": [0.05, 0.5]})
    expected = search.fit(X, y).cv_results_["mean_test_score"]
    with shared_gram(X):
        (shared,) = sharing._active
        found = search.fit(X, y)
    assert shared.reused == 31
    assert not shared.stores
    assert not sharing._active
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected)
    assert found.best_estimator_.certify(X, y).status == "optimal"


def test_halving_and_what_an_optuna_study_does():
    X, y = iris()
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.05, 0.5]}
    halving = HalvingGridSearchCV(SVC(tol=1e-6), grid, random_state=0, cv=3)
    expected = halving.fit(X, y).cv_results_["mean_test_score"]
    with shared_gram(X):
        (shared,) = sharing._active
        np.testing.assert_allclose(halving.fit(X, y).cv_results_["mean_test_score"], expected)
        fits = shared.reused
        assert fits > 18
        scores = [cross_val_score(SVC(C=C, gamma=0.1), X, y).mean() for C in (0.3, 3.0)]
        assert shared.reused == fits + 10
    assert min(scores) > 0.9


def test_other_rows_are_computed():
    X, y = iris()
    changed = X.copy()
    changed[3, 2] += 1e-12
    with shared_gram(X) as _:
        (shared,) = sharing._active
        SVC().fit(changed, y)
        SVC().fit(X[:, :3], y)
        SVC().fit(X.astype(np.float32), y)
        SVC(kernel=kernels.Laplacian(gamma=0.1)).fit(X, y)
        assert shared.reused == 0
        SVC().fit(np.asfortranarray(X[::-1]), y[::-1])
        assert shared.reused == 1
        X[0, 0] = 7.0  # the store was made of other cells: they are compared
        SVC().fit(X, y)
    assert shared.reused <= 2


def test_changing_the_data_in_place_is_noticed():
    X, y = iris()
    with shared_gram(X):
        SVC(gamma=0.5).fit(X, y)
        X[5] += 1.0
        found = SVC(gamma=0.5).fit(X, y)
    expected = SVC(gamma=0.5).fit(X, y)
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, atol=1e-6)


def test_changing_the_data_in_place_and_back_is_noticed():
    """The products are computed at the first fit that asks, while a row is another one."""
    X, y = iris()
    expected = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    with shared_gram(X):
        X[5] += 3.0
        SVC(gamma=0.5).fit(X[10:], y[10:])
        X[5] = iris()[0][5]
        found = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-6)


def test_threads_and_nesting():
    X, y = iris()
    rows = [np.random.default_rng(k).permutation(150)[:100] for k in range(12)]
    expected = [SVC(tol=1e-8).fit(X[r], y[r]).intercept_ for r in rows]
    with shared_gram(X[:50]), shared_gram(X):
        found = joblib.Parallel(n_jobs=4, backend="threading")(
            joblib.delayed(lambda r: SVC(tol=1e-8).fit(X[r], y[r]).intercept_)(r) for r in rows
        )
        assert sharing._active[1].reused == 12
        assert SVR().fit(X, X[:, 0]).certificate_.status == "optimal"
    np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(RuntimeError, match="inside"), shared_gram(X):
        raise RuntimeError("inside")
    assert not sharing._active


def test_memory_is_asked_for_first(monkeypatch):
    monkeypatch.setattr(sharing, "default_cache_size", lambda: 0)
    with pytest.raises(MemoryError, match="may be used"), shared_gram(np.zeros((100, 2))):
        pass


def test_what_is_computed_as_fast_is_not_shared(monkeypatch):
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    for width, used in ((50, 0), (400, 1)):
        X = rng.normal(size=(60, width))
        with shared_gram(X):
            (shared,) = sharing._active
            SVC().fit(X[:40], X[:40, 0] > 0)
            assert shared.reused == used


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_while_another_thread_computes_is_not_held_up():
    X = np.random.default_rng(0).normal(size=(60, 300))
    with shared_gram(X):
        shared = sharing._active[-1]
        with sharing._guard, shared.lock:  # as another thread may hold them
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(0 if sharing.lookup(kernels.RBF(gamma=1e-3), X[:9]) is not None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
