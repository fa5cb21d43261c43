"""Choosing the penalty of kernel ridge regression: every score against refitting, or RidgeCV."""

from functools import cache

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import RidgeCV
from sklearn.metrics import make_scorer, mean_absolute_error, r2_score
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import KFold, cross_val_predict

from maxmargin import KernelRidge, KernelRidgeCV, kernels


@cache
def data(n=60, d=5, targets=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n, d))
    return (
        X,
        X @ rng.normal(size=(d, targets)) + rng.normal(size=(n, targets)),
        rng.uniform(0, 2, n),
    )


def close(mine, other, tol=1e-8):
    np.testing.assert_allclose(mine, other, rtol=0, atol=tol * np.abs(other).max())


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_cross_validation_is_leave_one_out(kernel):
    X, Y, w = data(25)
    X = kernels.RBF(gamma=1.0)(X) if kernel == "precomputed" else X
    w = np.where(np.arange(25) % 7 == 0, 0.0, w)
    alphas = [0.01, 0.1, 1.0, 10.0]
    model = KernelRidgeCV(alphas, kernel=kernel, store_cv_results=True).fit(X, Y, w)
    inside = w > 0
    for k, alpha in enumerate(alphas):
        single = KernelRidge(alpha, kernel=kernel).fit(X, Y, w)
        errors = (Y - single.loo_predictions()) ** 2
        close(model.cv_results_[inside, :, k], errors[inside])
        score = -np.average(errors.mean(axis=1), weights=w)
        assert model.scores_[k] == pytest.approx(score, rel=1e-9)
        close(model.regularisation_path([alpha])[0], single.dual_coef_)
    best = alphas[int(np.argmax(model.scores_))]
    assert model.alpha_ == best
    assert model.best_score_ == model.scores_.max()
    single = KernelRidge(best, kernel=kernel).fit(X, Y, w)
    close(model.dual_coef_, single.dual_coef_)
    close(model.predict(X), single.predict(X))
    close(model.loo_predictions(), single.loo_predictions())
    assert model.certificate_.status == "optimal"
    assert model.certify(X, Y, w).status == "optimal"


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("scoring", [None, "r2", "neg_mean_absolute_error", "neg_max_error"])
@pytest.mark.parametrize("shape", [(40, 5), (20, 30)])
def test_agrees_with_ridge_cv(shape, scoring, each):
    X, Y, _ = data(*shape)
    alphas = [0.01, 0.1, 1.0, 10.0, 100.0]
    settings = {"scoring": scoring, "alpha_per_target": each, "store_cv_results": True}
    if scoring == "neg_max_error" and not each:
        settings["scoring"] = make_scorer(mean_absolute_error, greater_is_better=False)
    ours = KernelRidgeCV(alphas, **settings).fit(X, Y)
    other = RidgeCV(alphas, fit_intercept=False, **settings).fit(X, Y)
    np.testing.assert_allclose(ours.alpha_, other.alpha_)
    np.testing.assert_allclose(ours.best_score_, other.best_score_, rtol=1e-8)
    close(ours.cv_results_, other.cv_results_)
    close(ours.coef_, other.coef_)
    assert ours.scores_.shape == ((5, 3) if each else (5,))
    single = KernelRidgeCV(alphas, **settings).fit(X, Y[:, 0])
    assert single.cv_results_.shape == (shape[0], 5)
    assert isinstance(single.alpha_, float)
    assert isinstance(single.best_score_, float)


def test_generalised_cross_validation():
    X, Y, w = data(30)
    y = Y[:, 0]
    alphas = np.array([0.01, 1.0, 30.0])
    model = KernelRidgeCV(alphas, kernel="rbf", cv="gcv").fit(X, y, 10 * w)
    K, total = pairwise_kernels(X, metric="rbf"), 10 * w.sum()
    for score, alpha in zip(model.scores_, alphas, strict=True):
        H = K @ np.linalg.inv(K + np.diag(alpha / (10 * w)))
        rss = 10 * w @ (y - H @ y) ** 2
        assert score == pytest.approx(-rss * total / (total - np.trace(H)) ** 2, rel=1e-9)
    with pytest.raises(ValueError, match=r"counts rows by their weight.*use cv=None"):
        model.fit(X, y, 1e-3 * w)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("cv", [4, KFold(3, shuffle=True, random_state=0)])
def test_folds_are_left_out_exactly(cv, kernel):
    X, Y, w = data(30)
    w = np.where(np.arange(30) % 5 == 0, 0.0, w)
    alphas = [0.01, 1.0, 100.0]
    model = KernelRidgeCV(alphas, kernel=kernel, cv=cv, scoring="r2", store_cv_results=True)
    model.fit(X, Y, w)
    for k, alpha in enumerate(alphas):
        single, params = KernelRidge(alpha, kernel=kernel), {"sample_weight": w}
        held_out = cross_val_predict(single, X, Y, cv=cv, params=params)
        close(model.cv_results_[w > 0, :, k], held_out[w > 0])
        assert model.scores_[k] == pytest.approx(r2_score(Y, held_out, sample_weight=w), rel=1e-8)


def test_an_iterator_of_folds_is_used_once():
    X, Y, _ = data()
    model = KernelRidgeCV(kernel="rbf", cv=KFold(5).split(X)).fit(X, Y)
    assert model.certify(X, Y).status == "optimal"
    with pytest.raises(ValueError, match="cv has no splits"):
        model.fit(X, Y)


def test_scorers_get_the_weights():
    X, Y, w = data()
    model = KernelRidgeCV(kernel="rbf", scoring="neg_mean_squared_error").fit(X, Y, w)
    close(model.scores_, KernelRidgeCV(kernel="rbf").fit(X, Y, w).scores_)


def test_indefinite_kernel_in_cross_validation():
    X, Y, _ = data()
    with pytest.warns(LinAlgWarning, match="not positive definite"):
        KernelRidgeCV([1e-6], kernel="additive_chi2").fit(X, Y)
