import builtins
import importlib.util
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_blobs, make_classification, make_moons
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM

import maxmargin
from maxmargin import kernels
from maxmargin.displays import OKABE_ITO, OKABE_ITO_ON_DARK, MarginDisplay

# scikit-learn's machines stand in for ours here: displays promise to draw any of this family.
COARSE = {"grid_resolution": 40}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


def offsets(collection):
    return np.asarray(collection.get_offsets()).reshape(-1, 2)


def colors(display):
    return [mpl.colors.to_hex(points.get_facecolor()[0]).upper() for points in display.points_]


# ---- two classes ----------------------------------------------------------------------------


def test_artists_are_counted(moons):
    X, y = moons
    clf = SVC(C=1.0, gamma=1.0).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    alpha = np.abs(clf.dual_coef_[0])
    free, bound = clf.support_[alpha < 1], clf.support_[alpha == 1]
    wrong = clf.predict(X) != y
    assert len(free) > 0
    assert len(bound) > 0
    assert wrong.any()
    assert np.array_equal(offsets(display.free_), X[np.sort(free)])
    assert np.array_equal(offsets(display.bound_), X[np.sort(bound)])
    assert np.array_equal(offsets(display.misclassified_), X[wrong])
    assert [len(offsets(points)) for points in display.points_] == np.bincount(y).tolist()
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert f"free support vectors ({len(free)})" in texts
    assert f"bound support vectors ({len(bound)})" in texts
    assert f"misclassified ({wrong.sum()})" in texts


@pytest.mark.parametrize("C", [1.0, np.inf])
def test_our_machine_agrees_with_its_ledger(moons, C):
    X, y = moons
    weight = np.linspace(0, 2, len(y))
    clf = maxmargin.SVC(C=C, kernel=kernels.RBF(gamma=20.0)).fit(X, y, sample_weight=weight)
    display = MarginDisplay.from_estimator(clf, X, y, sample_weight=weight, **COARSE)
    state = clf.ledger(X, y, weight)["state"]
    assert np.array_equal(display.free[1:], state == "free")  # the first row has no weight
    assert np.array_equal(display.bound[1:], state == "bound")


def test_lines_and_regions(moons):
    X, y = moons
    clf = SVC(C=1.0, gamma=1.0).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    (lines,), (surface,) = display.lines_, display.surface_
    assert lines.levels.tolist() == [-1, 0, 1]
    assert surface.levels[1:-1].tolist() == [-1, 0, 1]
    assert len(set(surface.hatches)) == 2
    for level, paths in zip(lines.levels, lines.get_paths(), strict=True):
        assert np.allclose(clf.decision_function(paths.vertices), level, atol=0.1)
    assert display.response.shape == (40, 40)
    inside = [display.ax_.get_xlim(), display.ax_.get_ylim()]
    for column, (low, high) in zip(X.T, inside, strict=True):
        assert low < column.min()
        assert column.max() < high


def test_hard_margin_has_free_vectors_only(iris):
    X, y = iris
    X = X.iloc[:, 2:]
    display = MarginDisplay.from_estimator(
        SVC(kernel="linear", C=np.inf).fit(X, y == 0), X, y == 0, **COARSE
    )
    assert display.free.sum() == 2
    assert not display.bound.any()
    assert not display.misclassified.any()
    assert len(display.slack_.get_paths()) == 0
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == tuple(X.columns)


def test_weights_decide_who_is_bound(moons):
    X, y = moons
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    clf = SVC(C=0.7, class_weight={0: 3.0}).fit(X, y, sample_weight=weight)
    display = MarginDisplay.from_estimator(clf, X, y, sample_weight=weight, **COARSE)
    slack = 1 - np.where(y == 1, 1, -1) * clf.decision_function(X)
    assert np.array_equal(display.bound[slack > 0.01], np.full((slack > 0.01).sum(), True))
    assert np.all(np.abs(slack[display.free]) < 0.01)


def test_nu_machine_without_C(moons):
    X, y = moons
    clf = NuSVC(nu=0.4, gamma=1.0, tol=1e-6).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    alpha = np.zeros(len(y))
    alpha[clf.support_] = np.abs(clf.dual_coef_[0])
    assert np.allclose(alpha[display.bound], alpha.max())
    assert np.all(alpha[display.free] <= alpha.max())
    assert display.free.any()


def test_machine_without_support_vectors(moons):
    X, y = moons
    display = MarginDisplay.from_estimator(LinearSVC().fit(X, y), X, y, **COARSE)
    assert not (display.free | display.bound).any()


# ---- slack lines ----------------------------------------------------------------------------


def test_linear_slack_runs_along_w():
    X, y = make_blobs(80, centers=2, cluster_std=2.5, random_state=3)
    clf = SVC(kernel="linear").fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    sign, w = 2 * y - 1, clf.coef_[0]
    slack = 1 - sign * clf.decision_function(X)
    short = slack > 1e-3
    assert short.sum() > 3
    assert np.array_equal(np.isfinite(display.slack_ends).all(axis=1), short)
    expected = X + np.outer(sign * slack, w / (w @ w))
    assert np.allclose(display.slack_ends[short], expected[short])
    drawn = np.array([path.vertices for path in display.slack_.get_paths()])
    assert np.allclose(drawn, np.stack([X[short], expected[short]], axis=1))


def test_slack_behind_a_scaler_is_shortest_where_the_machine_lives():
    X, y = make_blobs(80, centers=2, cluster_std=2.5, random_state=3)
    X = X * [1000, 1]
    clf = make_pipeline(StandardScaler(), SVC(kernel="linear")).fit(X, y)
    ends = MarginDisplay.from_estimator(clf, X, y, **COARSE).slack_ends
    short = np.isfinite(ends).all(axis=1)
    step = clf[0].transform(ends[short]) - clf[0].transform(X[short])
    w = clf[-1].coef_[0]
    assert np.allclose(np.abs(step @ w), np.linalg.norm(step, axis=1) * np.linalg.norm(w))


def test_curved_slack_ends_on_the_own_margin(moons):
    X, y = moons
    clf = SVC(C=1.0, gamma=1.0).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, grid_resolution=150)
    rows = np.isfinite(display.slack_ends).all(axis=1)
    reached = clf.decision_function(display.slack_ends[rows])
    assert np.allclose(reached, 2 * y[rows] - 1, atol=0.02)


def test_no_margin_line_no_slack_line():
    X, y = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0, 1])
    display = MarginDisplay.from_estimator(SVC(C=1e-3).fit(X, y), X, y, **COARSE)
    assert display.bound.all()
    assert len(display.slack_.get_paths()) == 0


# ---- several classes, several features -------------------------------------------------------


@pytest.mark.parametrize(
    "clf", [SVC(), SVC(break_ties=True), SVC(decision_function_shape="ovo"), NuSVC(), LinearSVC()]
)
def test_multiclass(iris, clf):
    X, y = iris
    X, names = X.iloc[:, 2:], np.array(["setosa", "versicolor", "virginica"])[y]
    before = clf.fit(X, names).get_params()
    display = MarginDisplay.from_estimator(clf, X, names, **COARSE)
    grid = pd.DataFrame(np.c_[display.xx0.ravel(), display.xx1.ravel()], columns=X.columns)
    predicted = display.classes[display.response.reshape(-1, 3).argmax(axis=1)]
    assert np.array_equal(predicted, clf.predict(grid))
    assert len(display.surface_) == len(display.lines_) == len(display.points_) == 3
    assert np.array_equal(display.misclassified, clf.predict(X) != names)
    assert display.slack_ is None
    assert clf.get_params() == before
    if hasattr(clf, "support_"):
        assert (display.free | display.bound).sum() == len(clf.support_)


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize(
    "clf",
    [
        maxmargin.SVC(multi_class="ovr"),
        maxmargin.SVC(multi_class="crammer_singer"),
        maxmargin.NuSVC(multi_class="ovr", nu=0.3),
        maxmargin.KernelLogisticRegression(),
    ],
)
def test_classes_without_votes(clf, n_classes):
    X, y = make_blobs(80, centers=n_classes, cluster_std=2.0, random_state=0)
    display = MarginDisplay.from_estimator(clf.fit(X, y), X, y, grid_resolution=100)
    grid = np.c_[display.xx0.ravel(), display.xx1.ravel()]
    assert np.array_equal(display.response.reshape(-1, n_classes).argmax(axis=1), clf.predict(grid))
    vertices = display.lines_[0].get_paths()[0].vertices
    first, second = np.sort(clf.decision_function(vertices))[:, :-3:-1].T
    assert np.quantile(first - second, 0.9) < 0.02 * np.ptp(display.response)  # no stairs
    if hasattr(clf, "ledger"):
        led = clf.ledger(X, y)
        rows = led["row"] if "row" in led else np.arange(len(X))
        bound = np.zeros(len(X), dtype=bool)
        bound[rows[led.state == "bound"]] = True
        assert np.array_equal(display.bound, bound)


def test_squared_hinge_has_no_bound(moons):
    X, y = moons
    clf = maxmargin.SVC(loss="squared_hinge").fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    assert np.abs(clf.dual_coef_).max() > 1
    assert not display.bound.any()
    assert display.free.sum() == len(clf.support_)


def test_pairs_that_were_not_reached_do_not_vote(iris, monkeypatch):
    X, y = iris
    X = X.to_numpy()[:, 2:]
    clf, solve, calls = maxmargin.SVC(C=10), maxmargin.solvers.solve, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return solve(*args, **kwargs)

    monkeypatch.setattr("maxmargin.estimators._base.solve", interrupted)
    with pytest.raises(KeyboardInterrupt, match="keeps the model so far"):
        clf.fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    grid = np.c_[display.xx0.ravel(), display.xx1.ravel()]
    assert np.array_equal((display.response > 0).sum(axis=-1), np.ones(display.xx0.shape))
    assert np.array_equal(display.response.reshape(-1, 3).argmax(axis=1), clf.predict(grid))


def test_multiclass_bound_in_a_pair(iris):
    X, y = iris
    X = X.to_numpy()[:, 2:]
    clf = SVC(C=2.0, class_weight="balanced").fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    bound = clf.support_[(np.abs(clf.dual_coef_) == 2.0).any(axis=0)]
    assert np.array_equal(np.flatnonzero(display.bound), np.sort(bound))


def test_nu_and_C_agree_on_the_margins_of_pairs():
    X, y = make_blobs(90, centers=4, cluster_std=2.0, random_state=0)
    clf = SVC(tol=1e-8).fit(X, y)

    class Nameless(SVC):
        def get_params(self, deep=True):
            return {k: v for k, v in super().get_params(deep).items() if k != "C"}

    nameless = Nameless.__new__(Nameless)
    nameless.__dict__.update(clf.__dict__)
    with_C = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    without = MarginDisplay.from_estimator(nameless, X, y, **COARSE)
    assert with_C.bound.any()
    assert np.array_equal(with_C.bound, without.bound)


def test_borders_are_smooth():
    X, y = make_blobs(90, centers=3, cluster_std=2.0, random_state=1)
    clf = SVC(kernel="linear", decision_function_shape="ovo").fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, grid_resolution=100)
    vertices = display.lines_[0].get_paths()[0].vertices
    values = np.abs(clf.decision_function(vertices)).min(axis=1)
    step = np.ptp(display.response) / 100
    assert np.quantile(values, 0.9) < 1e-3 * step * 100
    assert values.max() < 3 * step


def test_five_features_are_cut_and_say_so():
    X, y = make_classification(80, 5, random_state=0)
    clf = SVC().fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    assert "5 features" in display.ax_.get_title()
    assert "projected" in display.ax_.get_title()
    assert "principal component 1" in display.ax_.get_xlabel()
    pca = PCA(2).fit(X)
    assert np.allclose(display.points, pca.transform(X))
    grid = pca.inverse_transform(np.c_[display.xx0.ravel(), display.xx1.ravel()])
    assert np.allclose(display.response.ravel(), clf.decision_function(grid))
    assert (display.free | display.bound).sum() == len(clf.support_)
    assert display.slack_ is None


def test_transformed_plane_is_exact():
    X, y = make_classification(80, 6, random_state=0)
    clf = make_pipeline(StandardScaler(), PCA(2), SVC()).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    assert display.title == ""
    assert np.allclose(display.points, clf[:-1].transform(X))
    assert display.slack_ is not None


# ---- containers and wrappers -----------------------------------------------------------------


def wrapped(machine, how):
    return {
        "pipeline": lambda: make_pipeline(StandardScaler(), machine),
        "single": lambda: make_pipeline(machine),
        "search": lambda: GridSearchCV(machine, {"C": [1.0]}, cv=3),
        "pandas inside": lambda: make_pipeline(StandardScaler(), machine).set_output(
            transform="pandas"
        ),
    }[how]()


@pytest.mark.parametrize("how", ["pipeline", "single", "search", "pandas inside"])
@pytest.mark.parametrize("n_features", [2, 4])
def test_wrappers(iris, how, n_features):
    X, y = iris
    X, y = X.iloc[:, 4 - n_features :], y == 1
    clf = wrapped(SVC(), how).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    machine = getattr(clf, "best_estimator_", clf)
    support = machine[-1].support_ if how != "search" else machine.support_
    assert np.array_equal(np.flatnonzero(display.free | display.bound), np.sort(support))
    if n_features == 2:
        assert display.ax_.get_xlabel() == "petal length (cm)"


def test_polars(iris):
    X, y = iris
    X = pl.DataFrame(X.to_numpy()[:, :2], schema=["long", "wide"])
    display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y, **COARSE)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("long", "wide")


@pytest.mark.parametrize("convert", [np.float32, lambda X: X.tolist(), np.asfortranarray])
def test_input_forms(moons, convert):
    X, y = moons
    rows = convert(X)
    display = MarginDisplay.from_estimator(SVC().fit(rows, y), rows, y.tolist(), **COARSE)
    assert np.allclose(display.points, X)
    assert (display.free | display.bound).any()


@pytest.mark.parametrize("n_features", [2, 6])
@pytest.mark.parametrize("machine", [SVC, maxmargin.SVC])
@pytest.mark.parametrize("few_cells", [0, 1 << 22])
def test_sparse_draws_what_dense_draws(n_features, machine, few_cells, monkeypatch):
    monkeypatch.setattr("maxmargin.displays._machine.FEW_CELLS", few_cells)
    X, y = make_classification(60, 6, random_state=0)
    X = X[:, :n_features]
    dense = MarginDisplay.from_estimator(machine().fit(X, y), X, y, **COARSE)
    S = sparse.csr_array(X)
    display = MarginDisplay.from_estimator(machine().fit(S, y), S, y, **COARSE)
    flip = np.sign((dense.points * display.points).sum(axis=0))
    assert np.allclose(display.points, flip * dense.points)
    assert np.array_equal(display.bound, dense.bound)
    if n_features == 2:
        assert np.allclose(display.response, dense.response)
        assert np.allclose(display.slack_ends, dense.slack_ends, equal_nan=True)


def test_sparse_behind_a_projection():
    X, y = make_classification(60, 6, random_state=0)
    X = sparse.csr_array(X)
    clf = make_pipeline(TruncatedSVD(2, random_state=0), SVC()).fit(X, y)
    assert MarginDisplay.from_estimator(clf, X, y, **COARSE).points.shape == (60, 2)


# ---- one class --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clf",
    [
        OneClassSVM(nu=0.2, gamma=1.0),
        maxmargin.OneClassSVM(nu=0.2, gamma=1.0),
        maxmargin.SVDD(nu=0.2),
        make_pipeline(StandardScaler(), maxmargin.SVDD(nu=0.2, kernel="linear")),
    ],
)
def test_outliers_have_a_boundary_and_no_margin(moons, clf):
    X, _ = moons
    clf.fit(X)
    display = MarginDisplay.from_estimator(clf, X, grid_resolution=150)
    (lines,), (surface,) = display.lines_, display.surface_
    assert lines.levels.tolist() == [0]
    assert len(set(surface.hatches)) == 2
    outside = clf.predict(X) < 0
    assert np.array_equal(display.classes[display.y] == "outlier", outside)
    assert not display.misclassified.any()
    decision = clf.decision_function(X)
    size = np.abs(decision).max()
    assert np.array_equal(display.bound, decision < -1e-3 * size)
    assert display.free.any()
    assert np.all(np.abs(decision[display.free]) < 2e-3 * size)
    ends = np.isfinite(display.slack_ends).all(axis=1)
    assert np.array_equal(ends, display.bound)
    back = clf.decision_function(display.slack_ends[ends])
    assert np.abs(back).max() < 0.05 * size
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts[:3] == ["outlier", "inlier", "boundary, f(x) = 0"]


def test_without_labels_a_classifier_shows_its_own(moons):
    X, y = moons
    clf = SVC().fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, **COARSE)
    assert np.array_equal(display.y, clf.predict(X))


def test_callable_kernel(moons):
    X, y = moons
    clf = SVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    assert (display.free | display.bound).sum() == len(clf.support_)


def test_constant_feature_and_one_point_per_class():
    X, y = np.array([[0.0, 5.0], [1.0, 5.0]]), np.array(["no", "yes"])
    display = MarginDisplay.from_estimator(SVC(kernel="linear").fit(X, y), X, y, **COARSE)
    assert display.points.shape == (2, 2)
    constant = np.ones((4, 3))
    MarginDisplay.from_estimator(SVC().fit(constant, [0, 1, 0, 1]), constant, [0, 1, 0, 1])


# ---- look ------------------------------------------------------------------------------------


def test_given_axes_keep_their_words(moons):
    X, y = moons
    _, (left, right) = plt.subplots(1, 2)
    left.set(xlabel="mine", title="my title")
    clf = SVC().fit(X, y)
    display = MarginDisplay.from_estimator(clf, X, y, ax=left, legend=False, slack=False, **COARSE)
    assert display.ax_ is left
    assert display.figure_ is left.figure
    assert (left.get_xlabel(), left.get_ylabel()) == ("mine", "feature 1")
    assert left.get_title() == "my title"
    assert display.legend_ is None
    assert display.slack_ is None
    assert display.plot(right) is display
    assert display.ax_ is right
    assert display.legend_ in right.get_children()


@pytest.mark.parametrize(
    ("style", "palette", "ink"),
    [("default", OKABE_ITO, "#1A1A1A"), ("dark_background", OKABE_ITO_ON_DARK, "#F2F2F2")],
)
def test_styles_render(moons, tmp_path, style, palette, ink):
    X, y = moons
    with plt.style.context(style):
        display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y, **COARSE)
        for kind in ("png", "pdf"):
            display.figure_.savefig(tmp_path / f"picture.{kind}")
            assert (tmp_path / f"picture.{kind}").stat().st_size > 1000
    assert colors(display) == list(palette[:2])
    assert mpl.colors.to_hex(display.free_.get_edgecolor()[0]).upper() == ink


def test_transparent_axes_take_the_ink_of_the_figure(moons):
    X, y = moons
    _, ax = plt.subplots(facecolor="#222222")
    ax.set_facecolor("none")
    display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y, ax=ax, **COARSE)
    assert mpl.colors.to_hex(display.free_.get_edgecolor()[0]) == "#f2f2f2"


def test_own_colors(moons):
    X, y = moons
    display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y, colors=["red", "k"], **COARSE)
    assert colors(display) == ["#FF0000", "#000000"]


def test_settings_of_matplotlib_are_left_alone(moons):
    X, y = moons
    before = dict(mpl.rcParams)
    MarginDisplay.from_estimator(SVC().fit(X, y), X, y, **COARSE)
    assert dict(mpl.rcParams) == before


# ---- from numbers ----------------------------------------------------------------------------


def test_predictions_draw_what_the_estimator_draws(moons):
    X, y = moons
    clf = SVC(C=1.0, gamma=1.0).fit(X, y)
    one = MarginDisplay.from_estimator(clf, X, y, **COARSE)
    alpha = np.zeros(len(y))
    alpha[clf.support_] = np.abs(clf.dual_coef_[0])
    two = MarginDisplay.from_predictions(
        X, y, clf.decision_function(X), grid=(one.xx0, one.xx1, one.response), alpha=alpha, C=1.0
    )
    for name in ("free", "bound", "misclassified", "points", "y", "classes", "response"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert np.allclose(one.slack_ends, two.slack_ends, equal_nan=True)


def test_predictions_refuse_more_classes():
    X, y = make_blobs(30, centers=3, random_state=0)
    with pytest.raises(ValueError, match="2 features and 3 classes"):
        MarginDisplay.from_predictions(X, y, np.zeros(30), grid=(X, X, X))


# ---- errors ----------------------------------------------------------------------------------


def test_refusals(moons):
    X, y = moons
    clf = SVC().fit(X, y)
    with pytest.raises(NotFittedError):
        MarginDisplay.from_estimator(SVC(), X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MarginDisplay.from_estimator(clf, X, y[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MarginDisplay.from_estimator(clf, X, y, sample_weight=[1.0])
    with pytest.raises(ValueError, match=r"only the estimator's classes, \[0, 1\]"):
        MarginDisplay.from_estimator(clf, X, y + 1)
    with pytest.raises(ValueError, match="needs a classifier with decision_function; got SVR"):
        MarginDisplay.from_estimator(SVR().fit(X, y), X, y)
    K = X @ X.T
    with pytest.raises(ValueError, match="no input space"):
        MarginDisplay.from_estimator(SVC(kernel="precomputed").fit(K, y), K, y)
    with pytest.raises(ValueError, match="at least 2 features"):
        MarginDisplay.from_estimator(SVC().fit(X[:, :1], y), X[:, :1], y)


@pytest.mark.parametrize("rows", [np.s_[:20], np.s_[::-1]])
def test_other_data_only_without_support_vectors(moons, rows):
    X, y = moons
    clf = SVC().fit(X, y)
    with pytest.raises(ValueError, match="support=False"):
        MarginDisplay.from_estimator(clf, X[rows], y[rows])
    display = MarginDisplay.from_estimator(clf, X[rows], y[rows], support=False, **COARSE)
    assert not display.bound.any()


def test_missing_matplotlib_says_what_to_install(moons, monkeypatch):
    X, y = moons
    clf = SVC().fit(X, y)
    original = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=r"pip install maxmargin\[plot\]"):
        MarginDisplay.from_estimator(clf, X, y)


def test_importing_displays_does_not_import_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    spec = importlib.util.find_spec("maxmargin.displays")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert "matplotlib" not in sys.modules
