import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, SVRCV, NuSVCCV, kernels, one_standard_error
from maxmargin.displays import SearchDisplay

mpl.use("agg")
CS, GAMMAS = [0.1, 1.0, 10.0], [0.01, 0.1]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def told(ax):
    (text,) = ax.get_legend().get_texts()
    return " ".join(text.get_text().split())


def rings(ax):
    """Where the best is marked."""
    return {
        tuple(map(float, line.get_xydata()[0])) for line in ax.lines if line.get_markersize() == 11
    }


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


def test_the_best_is_ringed_and_told(iris):
    search = SVCCV(Cs=CS, gammas=GAMMAS).fit(*iris)
    display = SearchDisplay.from_estimator(search)
    C, gamma = search.best_params_["C"], search.best_params_["gamma"]
    for ax in display.axes_:
        assert rings(ax) == {(C, gamma)}
        assert told(ax) == f"best: C = {C:g}, gamma = {gamma:g} ({search.best_score_:.3g})"


def test_a_best_without_numbers_is_told(iris):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    z = x @ [1.0, 2.0]
    kernel = 2.0 * kernels.Linear() + 0.5 * kernels.RBF(gamma=0.123) + 1e-9 * kernels.RBF(gamma=7.0)
    searches = [
        (SVCCV(kernels=["rbf", "linear"], Cs=CS, gammas=[50.0, 500.0]), iris, None, "linear"),
        (SVCCV(gammas=["scale", 50.0], Cs=CS), iris, "gamma", "gamma = scale"),
        (
            SVCCV(kernels=["rbf", kernel], Cs=CS, gammas=[50.0, 500.0]),
            iris,
            None,
            "kernel = 2.0 * Linear() + 0.5 * RBF(",
        ),
        (SVRCV(kernel="linear", Cs=CS, epsilons=[0.0, 1.0, 2.0]), (x, z), "epsilon", "epsilon = 0"),
        (SVRCV(kernel="linear", Cs=[1e-4, np.inf], epsilon=0.0), (x, z), None, "C = inf"),
    ]
    for search, data, y, word in searches:
        display = SearchDisplay.from_estimator(search.fit(*data), y=y)
        assert display.best is None
        for ax in display.axes_:
            assert not rings(ax)
            assert word in told(ax)
            assert told(ax).endswith(f"({search.best_score_:.3g}), not on these axes")
            assert len(told(ax)) < 110


def mine(A, B):
    return A @ B.T


def test_further_parameters_are_told(iris):
    search = SVCCV(kernels=[mine], Cs=CS).fit(*iris)
    display = SearchDisplay.from_estimator(search)
    C = search.best_params_["C"]
    assert display.text == f"best: C = {C:g}, kernel = mine ({search.best_score_:.3g})"
    assert display.best == (C,)


@pytest.mark.parametrize(
    ("search", "x"),
    [
        (SVCCV(kernel="linear", Cs=5), "C"),
        (SVCCV(kernel="linear", Cs=[1.0]), "C"),
        (SVCCV(kernel="linear", Cs=50), "C"),
        (SVCCV(Cs=CS, gammas=["scale"]), "C"),
        (SVCCV(Cs=CS, gammas=[0.1]), "C"),
        (SVCCV(Cs=[1.0], gammas=GAMMAS), "gamma"),
        (NuSVCCV(kernel="linear", nus=[0.2, 0.4, 0.6]), "nu"),
        (GridSearchCV(SVC(), {"C": [*CS, np.inf]}), "C"),
        (GridSearchCV(SVC(), {"gamma": GAMMAS}), "gamma"),
    ],
)
def test_one_parameter_is_a_curve(iris, search, x):
    results = search.fit(*iris).cv_results_
    display = SearchDisplay.from_estimator(search)
    assert display.names == (x,)
    assert display.y is None
    at = np.asarray(results[f"param_{x}"], dtype=np.float64)
    finite = np.isfinite(at)
    assert display.x.tolist() == at[finite].tolist()
    assert display.values["score"].tolist() == results["mean_test_score"][finite].tolist()
    np.testing.assert_allclose(display.errors, results["std_test_score"][finite] / 2)  # five folds
    score = display.axes_[0]
    line, _, bars = score.containers[0]
    assert np.array_equal(line.get_xydata(), np.column_stack([display.x, display.values["score"]]))
    ends = np.array([path.vertices[:, 1] for path in bars[0].get_paths()])
    np.testing.assert_allclose(np.ptp(ends, axis=1), 2 * display.errors)
    assert rings(score) == {(search.best_params_[x], search.best_score_)}
    assert [ax.get_ylabel() for ax in display.axes_] == [
        "mean test score",
        "mean number of support vectors",
    ][: 1 + ("mean_n_support" in results)]
    for ax in display.axes_[1:]:
        assert ax.get_ylim()[0] == 0
        assert ax.get_ylim()[1] > results["mean_n_support"].max()
        assert rings(ax) == {
            (search.best_params_[x], results["mean_n_support"][search.best_index_])
        }


def test_of_what_is_not_shown_the_best_value_is(iris):
    search = SVCCV(Cs=CS, gammas=GAMMAS, refit=one_standard_error).fit(*iris)
    display = SearchDisplay.from_estimator(search, x="gamma")
    results, k = search.cv_results_, search.best_index_
    best = [max(results["mean_test_score"][results["param_gamma"] == gamma]) for gamma in display.x]
    assert display.values["score"].tolist() == best
    assert rings(display.axes_[0]) == {(results["param_gamma"][k], results["mean_test_score"][k])}


@pytest.mark.parametrize(
    ("refit", "metric", "drawn"),
    [
        ("f1_macro", None, "f1_macro"),
        ("f1_macro", "accuracy", "accuracy"),
        (False, None, "accuracy"),
    ],
)
def test_several_metrics(iris, refit, metric, drawn):
    search = SVCCV(Cs=CS, gammas=GAMMAS, scoring=["accuracy", "f1_macro"], refit=refit).fit(*iris)
    display = SearchDisplay.from_estimator(search, metric=metric)
    column = search.cv_results_[f"mean_test_{drawn}"]
    assert display.metric == drawn
    assert display.axes_[0].get_title() == f"mean test {drawn}"
    assert np.array_equal(display.values["score"], column.reshape(3, 2).T)
    assert display.best_values["score"] == column[getattr(search, "best_index_", column.argmax())]
    with pytest.raises(ValueError, match="no metric 'score'; it has accuracy, f1_macro"):
        SearchDisplay.from_estimator(search, metric="score")


def test_a_pipeline_is_taken(iris):
    search = SVCCV(Cs=CS, gammas=GAMMAS)
    with pytest.raises(NotFittedError, match="fit the search before it is drawn"):
        SearchDisplay.from_estimator(search)
    model = make_pipeline(StandardScaler(), search)
    with pytest.raises(NotFittedError, match="fit the search before it is drawn"):
        SearchDisplay.from_estimator(model)
    display = SearchDisplay.from_estimator(model.fit(*iris))
    assert display.best_values["score"] == model[-1].best_score_


@pytest.mark.parametrize("other", [SVC(), make_pipeline(SVC()), 3, None, RidgeCV()])
def test_what_is_no_search(other):
    got = "SVC" if hasattr(other, "steps") else type(other).__name__
    with pytest.raises(TypeError, match=f"needs a search, such as SVCCV.*got {got}"):
        SearchDisplay.from_estimator(other)


def test_what_cannot_be_drawn(iris):
    search = SVCCV(Cs=CS, gammas=["scale"]).fit(*iris)
    with pytest.raises(ValueError, match="'gamma' has no positive numbers"):
        SearchDisplay.from_estimator(search, y="gamma")
    with pytest.raises(ValueError, match="no parameter 'degree'; it has C, gamma"):
        SearchDisplay.from_estimator(search, y="degree")
    with pytest.raises(ValueError, match="x and y are both 'C'"):
        SearchDisplay.from_estimator(search, y="C")
    apart = GridSearchCV(SVC(), [{"C": CS}, {"gamma": GAMMAS}]).fit(*iris)
    assert SearchDisplay.from_estimator(apart).names == ("C",)
    with pytest.raises(ValueError, match="numbers of both 'C' and 'gamma'"):
        SearchDisplay.from_estimator(apart, y="gamma")
    nothing = GridSearchCV(SVC(), {"kernel": ["linear", "rbf"]}).fit(*iris)
    with pytest.raises(ValueError, match="no parameter 'C'; it has kernel"):
        SearchDisplay.from_estimator(nothing)


def test_a_search_without_scores_says_so():
    X, y = load_iris(return_X_y=True)
    search = SVCCV(Cs=CS, gammas=GAMMAS, max_time=0)
    with pytest.raises(ValueError, match="allow more max_time"):
        search.fit(X, y)
    display = SearchDisplay.from_estimator(search)
    assert display.text == "no candidate has a score"
    assert display.best is None
