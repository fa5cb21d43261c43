import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import (
    SVC,
    SVR,
    KernelPCA,
    NuSVC,
    NuSVR,
    OneClassSVM,
    kernels,
    problems,
    solvers,
    svc_path,
)
from maxmargin.displays import (
    ConvergenceDisplay,
    GramDisplay,
    LedgerDisplay,
    MarginDisplay,
    PathDisplay,
    RegressionTubeDisplay,
    plot_model,
)
from maxmargin.solvers.solve import HISTORY


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


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 60))
    return x[:, None], np.sin(x) + rng.normal(scale=0.2, size=60)


@pytest.fixture(scope="module")
def svr(wave):
    return SVR(C=2.0, epsilon=0.2, tol=1e-6).fit(*wave)


def words(legend):
    return [text.get_text() for text in legend.get_texts()]


def offsets(collection):
    return np.asarray(collection.get_offsets()).reshape(-1, 2)


def heights(bars):
    return [bar.get_height() for bar in bars]


# ---- ledger -----------------------------------------------------------------------------------


def drawn_counts(display):
    """The points in the bars of each axes, by case."""
    return [
        {case: sum(heights(bars)) for case, bars in each.items() if len(bars)}
        for each in display.bars_
    ]


@pytest.mark.parametrize("C", [0.5, 5.0, np.inf])
def test_every_point_is_in_one_bar(moons, C):
    X, y = moons
    clf = SVC(C=C, kernel=kernels.RBF(gamma=20.0)).fit(X, y)
    display = LedgerDisplay.from_estimator(clf, X, y)
    summary = clf.ledger(X, y).summary()
    assert drawn_counts(display) == [summary, summary]
    assert sorted(words(display.legend_)) == sorted(f"{k} ({n})" for k, n in summary.items())
    assert len({bars[0].get_hatch() for bars in display.bars_[0].values()}) == len(summary)
    assert len({bars[0].get_facecolor() for bars in display.bars_[0].values()}) == len(summary)


def test_bars_stand_where_their_points_are(moons):
    X, y = moons
    clf = SVC(C=2.0, gamma=1.0, tol=1e-6).fit(X, y)
    ledger = clf.ledger(X, y)
    display = LedgerDisplay.from_ledger(ledger)
    alphas, margins = display.bars_
    assert [bar.get_x() + bar.get_width() < 0 for bar in alphas["outside"]] == [True]
    for case in ("inside margin", "misclassified"):
        assert all(bar.get_x() > 2.0 for bar in alphas[case])
    assert all(0 <= bar.get_x() < 2.0 for bar in alphas["on margin"])
    for case, bars in margins.items():
        low = min(bar.get_x() for bar in bars) - 0.1
        high = max(bar.get_x() + bar.get_width() for bar in bars) + 0.1
        own = ledger.margin[ledger.case == case]
        assert low < own.min() <= own.max() < high
    wrong = [bar.get_x() + bar.get_width() for bar in margins["misclassified"]]
    assert max(wrong) <= 1e-12  # the decision line is an edge
    around = {
        case: [b.get_x() for b in bars if abs(b.get_x() - 1) < 0.2]
        for case, bars in margins.items()
    }
    assert max(around["inside margin"]) < max(around["on margin"]) < max(around["outside"])
    assert [t.get_text() for t in display.ax_.get_xticklabels()][-1] == "C = 2"
    assert "zero" in display.ax_.get_title()


def test_weights_draw_shares_of_their_bound(moons):
    X, y = moons
    weight = np.linspace(0.5, 2, len(y))
    clf = SVC(C=2.0, gamma=1.0).fit(X, y, sample_weight=weight)
    display = LedgerDisplay.from_estimator(clf, X, y, sample_weight=weight)
    assert display.ax_.get_xlabel() == "multiplier α / C"
    assert all(bar.get_x() > 1 for bar in display.bars_[0]["misclassified"])


def test_pairs_are_counted_together(iris):
    X, y = iris
    display = LedgerDisplay.from_estimator(SVC().fit(X, y), X, y)
    assert display.n_problems == 3
    assert len(display.alpha) == 300
    assert "3 problems together" in display.ax_.get_title()


@pytest.mark.parametrize(
    ("model", "cases", "label"),
    [
        (SVR(epsilon=0.1), {"inside tube", "on tube", "outside tube"}, "tube"),
        (SVR(epsilon=9.0), {"inside tube"}, "tube"),  # no support vectors
        (NuSVR(), {"inside tube", "on tube", "outside tube"}, "tube"),
        (OneClassSVM(nu=0.3), {"inside", "on boundary", "outlier"}, "boundary"),
    ],
)
def test_other_cases(wave, model, cases, label):
    x, z = wave
    display = LedgerDisplay.from_estimator(model.fit(x, z), x, z)
    assert set(display.bars_[0]) <= cases
    assert drawn_counts(display)[0] == drawn_counts(display)[1]
    assert label in display.axes_[1].get_xlabel()
    assert display.axes_[1].get_xlim()[1] > 0


def test_margins_without_a_unit_are_left_out_and_said():
    columns = {
        "alpha": np.array([1.0, 1.0]),
        "C": np.array([1.0, 1.0]),
        "state": np.array(["bound", "bound"]),
        "margin": np.array([np.nan, np.nan]),
        "case": np.array(["undefined", "undefined"]),
    }
    display = LedgerDisplay.from_ledger(columns)
    assert drawn_counts(display) == [{"undefined": 2}, {}]
    assert "2 without a defined margin left out" in display.axes_[1].get_xlabel()


def test_tall_bars_take_a_logarithmic_scale(moons):
    X, y = make_moons(1000, noise=0.3, random_state=0)
    clf = SVC().fit(X, y)
    display = LedgerDisplay.from_estimator(clf, X, y)
    assert display.ax_.get_yscale() == "log"
    assert display.plot(yscale="linear").ax_.get_yscale() == "linear"
    few = LedgerDisplay.from_estimator(SVC().fit(*moons), *moons)
    assert few.ax_.get_yscale() == "linear"
    with pytest.raises(ValueError, match="yscale='sqrt'"):
        display.plot(yscale="sqrt")


@pytest.mark.parametrize("margin", [[1e-3], [1.0, 1e6], [-5e3, 4e3], [-1e-9, 1e-9, 0.0]])
def test_any_range_of_margins_has_bars(margin):
    m = np.array(margin)
    columns = {"alpha": 0 * m, "C": 1 + 0 * m, "state": np.full(len(m), "zero"), "margin": m}
    case = np.where(m < 0, "misclassified", np.where(m < 1, "inside margin", "outside"))
    display = LedgerDisplay.from_ledger({**columns, "case": case})
    assert sum(drawn_counts(display)[1].values()) == len(m)
    assert len(display._margin_boxes()) <= 35


def test_a_solution_a_frame_and_an_estimator_draw_the_same(moons):
    X, y = moons
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), 2 * y - 1, C=1.0)
    solution = solvers.solve(problem, tol=1e-3)
    clf = SVC(gamma=1.0).fit(X, y)
    frame = clf.ledger(X, y, as_frame=True)
    shown = [
        drawn_counts(display)
        for display in (
            LedgerDisplay.from_solution(solution),
            LedgerDisplay.from_ledger(frame),
            LedgerDisplay.from_estimator(clf, X, y),
        )
    ]
    assert shown[0] == shown[1] == shown[2]


def test_ledger_on_given_axes(moons):
    X, y = moons
    clf = SVC().fit(X, y)
    figure, (left, right) = plt.subplots(1, 2)
    display = LedgerDisplay.from_estimator(clf, X, y, ax=[left, right], legend=False)
    assert list(display.axes_) == [left, right]
    assert display.legend_ is None
    display.plot(left)
    assert len(figure.axes) == 4
    assert not left.axison
    with pytest.raises(ValueError, match="one axes or 2; got 3"):
        display.plot([left, right, right])
    free = plt.figure().add_axes((0, 0, 1, 1))
    with pytest.raises(ValueError, match="outside a grid"):
        display.plot(free)


def test_ledger_refusals(moons):
    X, y = moons
    with pytest.raises(NotFittedError):
        LedgerDisplay.from_estimator(SVC(), X, y)
    with pytest.raises(TypeError, match=r"got SVC, which has no ledger"):
        LedgerDisplay.from_estimator(sklearn.svm.SVC().fit(X, y), X, y)
    with pytest.raises(ValueError, match="a ledger with C, state"):
        LedgerDisplay.from_ledger({"alpha": [0.0], "margin": [1.0], "case": ["outside"]})


# ---- gram -------------------------------------------------------------------------------------


def test_points_are_sorted_by_class(iris):
    X, y = iris
    names = np.array(["rose", "lily", "iris"])[y]
    display = GramDisplay.from_kernel(kernels.RBF(sigma=1.0), X, names)
    assert display.edges.tolist() == [0, 50, 100, 150]
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["iris", "lily", "rose"]
    assert np.array_equal(names[display.rows], np.sort(names))
    assert np.allclose(
        display.image_.get_array(), kernels.RBF(sigma=1.0)(X.to_numpy()[display.rows])
    )
    assert len(display.borders_) == 4


@pytest.mark.parametrize("how", ["ours", "theirs", "pipeline", "search", "precomputed"])
def test_what_the_estimator_sees(moons, how):
    X, y = moons
    K = kernels.RBF().resolve(X)(X)
    models = {
        "ours": lambda: SVC().fit(X, y),
        "theirs": lambda: sklearn.svm.SVC().fit(X, y),
        "pipeline": lambda: make_pipeline(StandardScaler(), SVC()).fit(X, y),
        "search": lambda: GridSearchCV(SVC(), {"C": [1]}, cv=2).fit(X, y),
        "precomputed": lambda: SVC(kernel="precomputed").fit(K, y),
    }
    display = GramDisplay.from_estimator(models[how](), K if how == "precomputed" else X, y)
    if how == "pipeline":
        Z = StandardScaler().fit_transform(X)
        K = kernels.RBF().resolve(Z)(Z)
    assert np.allclose(display.K, K[np.ix_(display.rows, display.rows)])


def test_too_many_points_are_thinned_and_it_says_so(moons):
    X, y = moons
    display = GramDisplay.from_kernel("linear", sparse.csr_array(X), y, max_points=50)
    assert display.K.shape == (50, 50)
    assert display.ax_.get_xlabel() == "50 of 120 points, sorted by class"
    assert abs(int(np.diff(display.edges)[0]) - 25) <= 1
    assert np.allclose(display.K, X[display.rows] @ X[display.rows].T)
    assert display.colorbar_.ax.lines  # both signs: where 0 is


def test_targets_and_no_labels(wave):
    x, z = wave
    display = GramDisplay.from_kernel("rbf", x, z)
    assert display.ax_.get_xlabel() == "points, sorted by target"
    assert np.array_equal(display.rows, np.argsort(z))
    assert display.classes is None
    assert not display.colorbar_.ax.lines
    plain = GramDisplay.from_kernel(lambda A, B: A @ B.T, x)
    assert np.array_equal(plain.rows, np.arange(len(x)))
    one = GramDisplay.from_kernel("rbf", x, np.ones(len(x)))
    assert one.edges.tolist() == [0, len(x)]
    assert GramDisplay.from_matrix([[1.0]], ["a"]).edges.tolist() == [0, 1]


def test_gram_refusals(moons):
    X, y = moons
    with pytest.raises(ValueError, match=r"square; got shape \(120, 2\)"):
        GramDisplay.from_matrix(X)
    with pytest.raises(ValueError, match="finite"):
        GramDisplay.from_matrix([[np.nan]])
    with pytest.raises(ValueError, match=r"use GramDisplay\.from_matrix"):
        GramDisplay.from_kernel("precomputed", X)
    with pytest.raises(ValueError, match="one label for each of 120 points"):
        GramDisplay.from_kernel("rbf", X, y[:-1])
    with pytest.raises(ValueError, match="max_points=0"):
        GramDisplay.from_kernel("rbf", X, max_points=0)
    with pytest.raises(TypeError, match="does not know the kernel of KernelRidge"):
        GramDisplay.from_estimator(KernelRidge().fit(X, y), X)


# ---- path -------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVC, sklearn.svm.SVC])
def test_a_path_is_the_fits_along_it(moons, machine):
    X, y = moons
    Cs = np.array([10.0, 0.1, 1.0])
    clf = machine(gamma=1.0, tol=1e-6)
    display = PathDisplay.from_estimator(clf, X, y, Cs=Cs)
    assert not hasattr(clf, "support_")
    assert display.Cs.tolist() == [0.1, 1.0, 10.0]
    last = sklearn.svm.SVC(gamma=1.0, C=10.0, tol=1e-6).fit(X, y)
    beta = np.zeros(len(y))
    beta[last.support_] = last.dual_coef_[0]
    assert np.allclose(display.betas[-1], beta, atol=1e-3)
    assert display.n_support[-1] == pytest.approx(len(last.support_), abs=1)
    names = ["β / C", "support vectors", "relative gap"][: 3 if machine is SVC else 2]
    assert [axes.get_ylabel() for axes in display.axes_] == names
    positive, negative = display.lines_
    moved = display.betas.any(axis=0)
    assert len(positive.get_paths()) == (moved & (y == 1)).sum()
    assert len(negative.get_paths()) == (moved & (y == 0)).sum()
    assert positive.get_linestyle() != negative.get_linestyle()
    ends = [path.vertices[-1, 1] for path in positive.get_paths()]
    assert np.allclose(np.sort(ends), np.sort(beta[moved & (y == 1)] / 10), atol=1e-3)
    assert np.abs([path.vertices[:, 1] for path in negative.get_paths()]).max() <= 1 + 1e-9


def test_a_path_through_a_pipeline_and_a_regression(moons, wave):
    X, y = moons
    piped = make_pipeline(StandardScaler(), SVC())
    display = PathDisplay.from_estimator(piped, X, y, Cs=[1.0, 2.0])
    assert display.betas.shape == (2, len(y))
    x, z = wave
    display = PathDisplay.from_estimator(SVR(epsilon=9.0), x, z, Cs=[1.0])  # no support vectors
    assert not display.betas.any()
    assert display.legend_ is None


def test_arrays_in_any_order():
    display = PathDisplay.from_arrays([1.0, 0.1], [[0.5, -0.5, 0], [0.1, -0.1, 0]], gaps=[0, 1e-3])
    assert display.Cs.tolist() == [0.1, 1.0]
    assert len(display.axes_) == 2
    gap = display.gap_.get_ydata()
    assert gap[0] == 1e-3
    assert gap[1] == display.axes_[1].get_ylim()[0]
    assert "exact gap of 0" in display.axes_[1].get_xlabel()
    assert display.support_ is None
    assert words(display.legend_) == ["positive (β > 0): 1", "negative (β < 0): 1"]
    raw = PathDisplay.from_arrays([0.1, 1.0], [[1.0], [2.0]], gaps=[np.inf, np.nan]).plot(
        share=False
    )
    assert raw.lines_[0].get_paths()[0].vertices[:, 1].tolist() == [1.0, 2.0]
    assert raw.ax_.get_ylabel() == "coefficient"


@pytest.mark.parametrize("exact", [True, False])
def test_a_path_of_svc_path(exact):
    X, y = load_iris(return_X_y=True)
    path = svc_path(X[::4][:30], y[::4][:30] > 0, gamma=0.5, Cs=[0.01, 0.1, 1.0, 10.0], exact=exact)
    display = PathDisplay.from_path(path)
    known = ~np.isnan(display.gaps)
    assert display.Cs[known].tolist() == path.Cs.tolist()
    assert (display.betas[known] == path.beta).all()
    assert display.n_support[known].tolist() == path.n_support.tolist()
    assert display.gaps[known].tolist() == [c.relative_gap for c in path.certificates]
    assert known.all() is not exact
    assert display.gap_.get_xdata().tolist() == path.Cs.tolist()
    assert np.isfinite(display.gap_.get_ydata()).all()


def test_an_exact_path_is_curved_between_breakpoints():
    path = svc_path(
        [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], gamma=1.0, Cs=[0.1, 100.0], exact=True
    )
    display = PathDisplay.from_path(path)
    assert len(path.Cs) == 4
    assert (display.Cs[1:] / display.Cs[:-1]).max() <= 1.15 + 1e-12
    last = path.beta[-1]  # where all are free they stay: β / C is a hyperbola
    after = display.Cs >= path.Cs[2]
    assert after.sum() > 30
    np.testing.assert_allclose(display.betas[after], np.tile(last, (after.sum(), 1)), rtol=1e-9)
    drawn = {tuple(line.vertices[after, 1]) for line in display.lines_[0].get_paths()}
    assert drawn == {tuple(b / display.Cs[after]) for b in display.betas[after].T if b[0] > 0}
    assert (display.n_support == 4).all()
    one = PathDisplay.from_path(svc_path([[0.0], [1.0]], [0, 1], Cs=[1.0], exact=True))
    assert one.Cs.tolist() == [1.0]


def test_the_gram_of_kernel_pca_has_its_parameters(moons):
    X, _ = moons
    for name, given in (
        ("rbf", {"gamma": 7.0}),
        ("poly", {"degree": 2, "coef0": 3.0, "gamma": 0.1}),
    ):
        machine = KernelPCA(kernel=name, **given).fit(X)
        display = GramDisplay.from_estimator(machine, X)
        expected = pairwise_kernels(X, metric=name, **given)
        np.testing.assert_allclose(np.sort(display.K.ravel()), np.sort(expected.ravel()))
    with pytest.raises(TypeError, match="does not know the kernel"):
        GramDisplay.from_estimator(KernelPCA(kernel="cosine").fit(X), X)


def test_path_refusals(moons, iris):
    X, y = moons
    with pytest.raises(TypeError, match="path of svc_path; got int"):
        PathDisplay.from_path(3)
    for Cs in ([], [0.0], [-1.0], [np.inf], 1.0):
        with pytest.raises(ValueError, match="a list of C > 0"):
            PathDisplay.from_arrays(Cs, [[1.0]])
    with pytest.raises(ValueError, match=r"betas needs a row for each of 2 C; got shape \(1, 1\)"):
        PathDisplay.from_arrays([1.0, 2.0], [[1.0]])
    with pytest.raises(ValueError, match=r"gaps needs a row for each of 1 C; got shape \(2,\)"):
        PathDisplay.from_arrays([1.0], [[1.0]], gaps=[1, 2])
    with pytest.raises(TypeError, match="NuSVC has none"):
        PathDisplay.from_estimator(NuSVC(), X, y)
    with pytest.raises(ValueError, match="2 classes; got 3"):
        PathDisplay.from_estimator(SVC(), *iris)


# ---- tube -------------------------------------------------------------------------------------


def test_tube_and_marks(wave, svr):
    x, z = wave
    display = RegressionTubeDisplay.from_estimator(svr, x, z)
    state = svr.ledger(x, z).state
    assert np.array_equal(display.free, state == "free")
    assert np.array_equal(display.bound, state == "bound")
    at, f = display.line_.get_data()
    assert np.allclose(f, svr.predict(np.asarray(at)[:, None]))
    low, high = (edge.get_ydata() for edge in display.edges_)
    assert np.allclose(high - f, 0.2)
    assert np.allclose(f - low, 0.2)
    assert display.edges_[0].get_linestyle() != display.line_.get_linestyle()
    assert np.array_equal(offsets(display.points_), np.column_stack([x[:, 0], z]))
    residual = z - svr.predict(x)
    outside = np.abs(residual) > 0.2 * (1 + 1e-3)
    lines = np.array([path.vertices for path in display.slack_.get_paths()])
    assert np.allclose(lines[:, 0], np.column_stack([x[:, 0], z])[outside])
    assert np.allclose(np.abs(lines[:, 1, 1] - svr.predict(x)[outside]), 0.2)
    assert f"bound support vectors ({(state == 'bound').sum()})" in words(display.legend_)


@pytest.mark.parametrize("machine", [sklearn.svm.NuSVR, NuSVR])
def test_width_that_was_found(wave, machine):
    x, z = wave
    ours = NuSVR(C=2.0, nu=0.4, tol=1e-6).fit(x, z)
    model = machine(C=2.0, nu=0.4, tol=1e-6).fit(x, z)
    display = RegressionTubeDisplay.from_estimator(model, x, z)
    assert display.epsilon == pytest.approx(ours.epsilon_, abs=1e-4)


def test_frames_and_pipelines(wave):
    x, z = wave
    X, height = pd.DataFrame({"age": x[:, 0]}), pd.Series(z, name="height")
    model = make_pipeline(StandardScaler(), sklearn.svm.SVR()).fit(X, height)
    display = RegressionTubeDisplay.from_estimator(model, X, height)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("age", "height")
    assert np.array_equal(np.flatnonzero(display.free | display.bound), model[-1].support_)
    S = sparse.csr_array(x)
    flat = RegressionTubeDisplay.from_estimator(SVR().fit(S, z), S, z)
    assert np.array_equal(flat.x, x[:, 0])


def test_several_features_are_drawn_over_the_prediction(wave):
    x, z = wave
    X = np.hstack([x, x**2])
    weight = np.linspace(0.5, 2, len(z))
    model = SVR(C=2.0).fit(X, z, sample_weight=weight)
    display = RegressionTubeDisplay.from_estimator(model, X, z, sample_weight=weight)
    assert "2 features do not fit a picture" in display.ax_.get_title()
    assert display.ax_.get_xlabel() == "prediction f(x)"
    assert np.allclose(display.x, model.predict(X))
    assert np.array_equal(*display.line_.get_data())
    assert np.array_equal(display.bound, model.ledger(X, z, weight).state == "bound")
    K = X @ X.T
    display = RegressionTubeDisplay.from_estimator(SVR(kernel="precomputed").fit(K, z), K, z)
    assert "a kernel matrix does not fit a picture" in display.ax_.get_title()


def test_no_support_vectors(wave):
    x, z = wave
    display = RegressionTubeDisplay.from_estimator(SVR(epsilon=9.0).fit(x, z), x, z)
    assert not (display.free | display.bound).any()
    assert display.slack_ is None
    assert len(words(display.legend_)) == 3
    linear = sklearn.svm.LinearSVR(epsilon=0.1, max_iter=10**5, random_state=0).fit(x, z)
    assert not RegressionTubeDisplay.from_estimator(linear, x, z).free.any()


def test_tube_of_numbers(wave, svr):
    x, z = wave
    one = RegressionTubeDisplay.from_estimator(svr, x, z)
    beta = np.zeros(len(z))
    beta[svr.support_] = svr.dual_coef_[0]
    two = RegressionTubeDisplay.from_predictions(
        z, svr.predict(x), epsilon=0.2, x=x[:, 0], beta=beta, C=2.0
    )
    assert np.array_equal(one.free, two.free)
    assert np.array_equal(one.bound, two.bound)
    over = RegressionTubeDisplay.from_predictions(z, svr.predict(x), epsilon=0.0)
    assert over.ax_.get_xlabel() == "prediction f(x)"
    assert over.ax_.get_title() == ""


def test_tube_refusals(wave, svr):
    x, z = wave
    with pytest.raises(ValueError, match="a regression with a tube; got KernelRidge"):
        RegressionTubeDisplay.from_estimator(KernelRidge().fit(x, z), x, z)
    with pytest.raises(ValueError, match="a regression with a tube; got SVC"):
        RegressionTubeDisplay.from_estimator(SVC().fit(x, z > 0), x, z)
    with pytest.raises(ValueError, match="support=False"):
        RegressionTubeDisplay.from_estimator(svr, x[::-1], z[::-1])
    shown = RegressionTubeDisplay.from_estimator(svr, x[::-1], z[::-1], support=False)
    assert not (shown.free | shown.bound).any()
    with pytest.raises(ValueError, match="epsilon=-1 must be"):
        RegressionTubeDisplay.from_predictions(z, z, epsilon=-1)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        RegressionTubeDisplay.from_predictions(z, z[1:], epsilon=1)


# ---- all of them ------------------------------------------------------------------------------


def test_the_picture_that_suits_a_model(moons, wave):
    X, y = moons
    x, z = wave
    K = X @ X.T
    for model, data, kind in (
        (SVC().fit(X, y), (X, y), MarginDisplay),
        (OneClassSVM().fit(X), (X,), MarginDisplay),
        (SVC(kernel="precomputed").fit(K, y), (K, y), LedgerDisplay),
        (SVC().fit(X[:, :1], y), (X[:, :1].tolist(), y), LedgerDisplay),
        (make_pipeline(StandardScaler(), SVR()).fit(x, z), (x, z), RegressionTubeDisplay),
        (SVC().fit(X, y), (), ConvergenceDisplay),
        (maxmargin.LSSVM().fit(X, y), (X, y), MarginDisplay),
        (maxmargin.KernelRidge(kernel="rbf").fit(x, z), (x, z), GramDisplay),
    ):
        assert type(plot_model(model, *data)) is kind
    for kind in ("ledger", "gram", "convergence"):
        display = plot_model(SVC().fit(X, y), X, y, kind=kind)
        assert type(display).__name__.lower().startswith(kind)
    assert plot_model(SVC(), X, y, kind="path", Cs=[1.0]).Cs.tolist() == [1.0]


@pytest.mark.parametrize("kind", ["margin", "ledger", "gram", "convergence"])
@pytest.mark.parametrize("dark", [False, True])
def test_pictures_are_written(moons, tmp_path, kind, dark):
    X, y = moons
    before = dict(mpl.rcParams)
    path = tmp_path / "picture.PNG"
    display = plot_model(SVC().fit(X, y), X, y, kind=kind, path=path, dark=dark, dpi=50)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert not plt.get_fignums()
    assert (sum(display.figure_.get_facecolor()[:3]) == 0) is dark
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("suffix", ["pdf", "svg"])
def test_other_files(wave, svr, tmp_path, suffix):
    plot_model(svr, *wave, path=str(tmp_path / f"picture.{suffix}"))
    assert (tmp_path / f"picture.{suffix}").stat().st_size > 1000


def test_plot_refusals(moons, tmp_path):
    X, y = moons
    clf = SVC().fit(X, y)
    with pytest.raises(ValueError, match="kind='pie' must be auto, margin, tube"):
        plot_model(clf, X, y, kind="pie")
    with pytest.raises(ValueError, match="kind='gram' needs the training data"):
        plot_model(clf, kind="gram")
    with pytest.raises(ValueError, match=r"picture\.doc' must end in .*\.pdf"):
        plot_model(clf, X, y, path=tmp_path / "picture.doc")
    assert not plt.get_fignums()


def test_an_interrupted_fit_has_pictures(moons):
    X, y = moons
    with pytest.warns(Warning, match="max_iter=1"):
        clf = SVC(C=100.0, max_iter=1).fit(X, y)
    for kind in ("margin", "ledger", "gram", "convergence"):
        assert plot_model(clf, X, y, kind=kind).figure_ is not None


def test_an_empty_history_is_said():
    empty = {name: [] for name in HISTORY}
    for table in (empty, {**empty, "problem": []}):
        with pytest.raises(ValueError, match="SVC has nothing recorded"):
            ConvergenceDisplay.from_solutions({"SVC": table})


def test_displays_are_public():
    assert set(maxmargin.displays.__all__) <= set(dir(maxmargin.displays))
