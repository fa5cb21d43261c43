import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from maxmargin import SVC, SVCCV, NuSVCCV
from maxmargin.displays import SearchDisplay

mpl.use("agg")
CS, GAMMAS = [0.1, 1.0, 10.0], [0.01, 0.1]


def texts(ax):
    ax.figure.canvas.draw()
    return [label.get_text() for label in ax.get_xticklabels() if label.get_text()]


def test_values_are_those_of_the_cells():
    X, y = load_iris(return_X_y=True)
    search = SVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
    display = SearchDisplay.from_estimator(search)
    for name, column in (("score", "mean_test_score"), ("n_support", "mean_n_support")):
        for params, value in zip(
            search.cv_results_["params"], search.cv_results_[column], strict=True
        ):
            at = GAMMAS.index(params["gamma"]), CS.index(params["C"])
            assert display.values[name][at] == value
    assert display.best == (search.best_params_["C"], search.best_params_["gamma"])
    other = SearchDisplay.from_estimator(GridSearchCV(SVC(), {"C": CS, "gamma": GAMMAS}).fit(X, y))
    assert list(other.values) == ["score"]
    np.testing.assert_allclose(other.values["score"], display.values["score"], atol=1e-3)


def test_a_refined_search_leaves_no_gaps():
    X, y = load_iris(return_X_y=True)
    search = SVCCV(Cs=CS, gammas=GAMMAS, refine=True).fit(X, y)
    display = SearchDisplay.from_estimator(search)
    assert display.values["score"].size > len(search.cv_results_["params"])
    assert np.isfinite(display.values["score"]).all()
    known = {(p["C"], p["gamma"]): k for k, p in enumerate(search.cv_results_["params"])}
    for i, gamma in enumerate(display.y):
        for j, C in enumerate(display.x):
            if (k := known.get((C, gamma))) is not None:
                assert display.values["score"][i, j] == search.cv_results_["mean_test_score"][k]


def test_nu_is_found_and_its_ticks_are_numbers():
    X, y = load_iris(return_X_y=True)
    search = NuSVCCV(nus=[0.05, 0.1, 0.2, 0.5], gammas=[0.1, 1.0]).fit(X, y)
    display = SearchDisplay.from_estimator(search)
    assert display.names == ("nu", "gamma")
    assert {"0.05", "0.1", "0.2", "0.5"} <= set(texts(display.axes_[0]))


def test_what_cannot_be_drawn():
    X, y = load_iris(return_X_y=True)
    search = SVCCV(Cs=CS, gammas=["scale"]).fit(X, y)
    with pytest.raises(ValueError, match="'gamma' has no positive numbers"):
        SearchDisplay.from_estimator(search)
    with pytest.raises(ValueError, match="no parameter 'degree'; it has C, gamma"):
        SearchDisplay.from_estimator(search, y="degree")
