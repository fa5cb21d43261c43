import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import kernels, problems, solvers
from maxmargin.displays import ConvergenceDisplay, LossDisplay
from maxmargin.losses import LOSSES
from maxmargin.tables import Table


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def solution(moons):
    X, y = moons
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), 2 * y - 1, C=10.0)
    return solvers.solve(problem, solvers.SMO(record_every=2), tol=1e-4)


@pytest.fixture(scope="module")
def hard(moons):
    X, y = moons
    problem = problems.hard_margin(kernels.RBF(gamma=50.0).gram(X), 2 * y - 1)
    return solvers.solve(problem, solvers.SMO(record_every=5), tol=1e-4)


def history(primal, dual):
    primal, dual = np.array(primal, dtype=float), np.array(dual, dtype=float)
    n, gap = np.arange(len(primal)), primal - dual
    columns = {"primal": primal, "dual": dual, "gap": gap, "kkt_violation": gap}
    return Table({"iteration": n, "seconds": n / 10, **columns, "n_support": n})


def words(legend):
    return [text.get_text() for text in legend.get_texts()]


def styles(lines):
    return {str(line._dash_pattern) for line in lines}


def test_importing_displays_imports_nothing_heavy():
    code = "import sys, maxmargin.displays as d\n"
    code += "[getattr(d, name) for name in d.__all__ if name != 'MarginDisplay']\n"
    code += "print({m.partition('.')[0] for m in sys.modules} & {'matplotlib', 'sklearn'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_unknown_display():
    with pytest.raises(AttributeError, match="no attribute 'MarginDisplays'"):
        _ = maxmargin.displays.MarginDisplays


# ---- convergence -----------------------------------------------------------------------------


def test_primal_and_dual_close(solution):
    display = ConvergenceDisplay.from_solutions({"SMO": solution})
    primal, dual = display.lines_
    assert np.array_equal(primal.get_xdata(), solution.history["iteration"])
    assert np.array_equal(primal.get_ydata(), solution.history["primal"])
    assert np.array_equal(dual.get_ydata(), solution.history["dual"])
    assert (primal.get_label(), dual.get_label()) == ("primal", "dual")
    assert primal.get_linestyle() != dual.get_linestyle()
    assert primal.get_marker() != dual.get_marker()
    assert words(display.legend_) == ["primal", "dual", "duality gap"]
    assert (display.ax_.get_yscale(), display.ax_.get_ylabel()) == ("linear", "objective")
    assert display.figure_ is display.ax_.figure
    assert display.best_dual == solution.history["dual"].max()


def test_far_primal_is_cut_and_said(solution):
    display = ConvergenceDisplay.from_solutions([solution])
    top = display.ax_.get_ylim()[1]
    assert solution.history["primal"][0] > top > display.best_dual
    assert display.note == f"values above {top:.4g} cut off"
    assert display.ax_.get_xlabel() == f"iteration\n{display.note}"
    display = ConvergenceDisplay.from_solutions([history([3, 2, 2], [0, 1, 2])])
    assert display.note == ""
    _, ax = plt.subplots()
    ax.set_ylim(0, 1)
    assert ConvergenceDisplay.from_solutions([solution], ax=ax).note == ""
    assert ax.get_ylim() == (0, 1)


def test_far_dual_of_one_run_is_cut():
    near, far = history([9, 4, 4], [0, 3, 4]), history([9, 4, 4], [-1e6, 3, 4])
    display = ConvergenceDisplay.from_solutions({"a": near, "b": near, "c": far})
    assert "values below" in display.note
    assert "above" not in display.note


def test_distance_to_the_best_dual(solution):
    other = history([400, 350, 345], [0, 100, 150])
    best = solution.certificate.dual
    display = ConvergenceDisplay.from_solutions({"SMO": solution, "x": other}, yscale="log")
    assert display.best_dual == pytest.approx(best)
    primal, dual = (line.get_ydata() for line in display.lines_[:2])
    assert np.nanmin(primal) == pytest.approx(solution.history["primal"].min() - best)
    assert np.isnan(dual[-1])  # the best one itself
    assert np.allclose(dual[:-1], best - solution.history["dual"][:-1])
    assert display.ax_.get_ylabel() == "distance to the best known dual value"
    assert display.band_ is None


def test_distance_needs_one_problem():
    runs = {"a": history([9, 5], [0, 4]), "b": history([3, 2], [0, 1])}
    with pytest.raises(ValueError, match="the primal of b, 2, lies below the best dual, 4"):
        ConvergenceDisplay.from_solutions(runs, yscale="log")
    ConvergenceDisplay.from_solutions(runs)


def test_infinite_primal_is_left_out_and_said(hard):
    primal = hard.history["primal"]
    n = int(np.isinf(primal).sum())
    assert n > 1
    display = ConvergenceDisplay.from_solutions([hard])
    assert f"{n} records with infinite primal left out" in display.ax_.get_xlabel()
    drawn = display.lines_[0].get_ydata()
    assert np.array_equal(np.isnan(drawn), np.isinf(primal))
    for y in ("gap", "relative gap"):
        assert f"{n} records" in display.plot(y=y).note
        assert np.isfinite(display.ax_.get_ylim()).all()
    for y in ("dual", "kkt_violation"):
        assert "infinite" not in display.plot(y=y).note
    runs = {"hard": hard, "once": history([np.inf, 5], [0, 4])}
    note = ConvergenceDisplay.from_solutions(runs).note
    assert f"{n + 1} records with infinite primal left out ({n} of hard, 1 of once)" in note


def test_never_a_finite_primal():
    display = ConvergenceDisplay.from_solutions([history([np.inf] * 3, [0, 1, 2])])
    for options in ({}, {"y": "gap"}, {"y": "relative gap"}, {"yscale": "log"}):
        display.plot(**options).figure_.draw_without_rendering()
        assert "3 records" in display.note


def test_relative_gap_is_the_certificate_s(solution):
    display = ConvergenceDisplay.from_solutions([solution], y="relative gap")
    assert display.ax_.get_yscale() == "log"
    drawn = display.lines_[0].get_ydata()
    assert drawn[-1] == pytest.approx(solution.certificate.relative_gap)
    zero = ConvergenceDisplay.from_solutions([history([2, 0], [1, 0])], y="relative_gap")
    assert zero.lines_[0].get_ydata().tolist() == [0.5, zero.ax_.get_ylim()[0]]


def test_exact_zero_on_a_log_axis():
    display = ConvergenceDisplay.from_solutions([history([9, 5, 4], [0, 1, 4])], y="gap")
    assert np.allclose(display.lines_[0].get_ydata(), [9, 4, 0.4])
    assert display.ax_.get_ylim()[0] == pytest.approx(0.4)
    assert display.note == "0 drawn at the lower edge"
    all_zero = ConvergenceDisplay.from_solutions([history([4, 4, 4], [4, 4, 4])], y="gap")
    assert (all_zero.lines_[0].get_ydata() > 0).all()


def test_two_records_ask_for_more(solution):
    ends = solvers.solve(solution.problem)
    note = ConvergenceDisplay.from_solutions({"SMO": ends}).note
    assert "only the ends are recorded: set record_every" in note
    runs = {"all": solution, "few": ends}
    assert "only the ends of few" in ConvergenceDisplay.from_solutions(runs).note


def test_several_solvers_stay_apart(solution):
    runs = {f"solver {k}": solution.history for k in range(8)}
    display = ConvergenceDisplay.from_solutions(runs, x="seconds", y="kkt_violation")
    assert [line.get_label() for line in display.lines_] == list(runs)
    assert words(display.legend_) == list(runs)
    looks = [(line.get_color(), line.get_marker()) for line in display.lines_]
    assert len(set(looks)) == 8
    assert len(styles(display.lines_)) == 5
    assert display.ax_.get_xlabel() == "seconds"
    assert display.ax_.get_ylabel() == "KKT violation"


def test_several_solvers_and_quantities(solution):
    runs = {"SMO": solution, "table": solution.history}
    quantities = ("gap", "kkt_violation", "n_support")
    display = ConvergenceDisplay.from_solutions(runs, y=quantities, yscale="log")
    names = ["duality gap", "KKT violation", "support vectors"]
    assert words(display.legend_) == ["SMO", "table", *names]
    assert display.lines_[4].get_label() == "table, KKT violation"
    assert [line.get_color() for line in display.lines_[:3]] == [display.lines_[0].get_color()] * 3
    assert len(styles(display.lines_)) == 3
    assert display.ax_.get_ylabel() == ", ".join(names)


def test_logarithmic_x_keeps_zero(solution):
    display = ConvergenceDisplay.from_solutions([solution], xscale="log")
    assert display.ax_.get_xscale() == "symlog"
    assert display.ax_.get_xlim()[0] <= 0
    display.plot(x="seconds", xscale="log")
    assert display.ax_.get_xlim()[1] > solution.history["seconds"][-1]


def test_convergence_on_given_axes(solution):
    _, (left, right) = plt.subplots(1, 2)
    left.set(xlabel="mine")
    display = ConvergenceDisplay.from_solutions([solution], ax=left, y="gap", legend=False)
    assert (left.get_xlabel(), left.get_ylabel()) == ("mine", "duality gap")
    assert display.legend_ is None
    assert display.plot(right, colors=["red", "k"]) is display
    assert display.ax_ is right
    assert display.legend_ in right.get_children()
    assert mpl.colors.to_hex(display.lines_[0].get_color()) == "#ff0000"


@pytest.mark.parametrize("how", ["itself", "pipeline", "search"])
def test_history_of_an_estimator(moons, how):
    X, y = moons
    clf = maxmargin.SVC(C=10, record_every=5)
    clf = {
        "itself": clf,
        "pipeline": make_pipeline(StandardScaler(), clf),
        "search": GridSearchCV(make_pipeline(clf), {"svc__C": [10]}, cv=2),
    }[how].fit(X, y)
    display = ConvergenceDisplay.from_estimator(clf, y="gap")
    assert words(display.legend_) == ["SVC"]
    assert len(display.histories["SVC"]["gap"]) > 3
    assert words(ConvergenceDisplay.from_estimator(clf, name="me", y="gap").legend_) == ["me"]


def test_history_as_a_frame(solution):
    frames = [solution.history.as_frame(), dict(solution.history)]
    display = ConvergenceDisplay.from_solutions(frames, y="gap")
    assert words(display.legend_) == ["run 1", "run 2"]


def test_convergence_refusals(solution):
    with pytest.raises(TypeError, match="got SVC without history_: is it fitted"):
        ConvergenceDisplay.from_estimator(maxmargin.SVC())
    with pytest.raises(TypeError, match=r"got int\."):
        ConvergenceDisplay.from_solutions([3])
    with pytest.raises(ValueError, match="at least one run"):
        ConvergenceDisplay.from_solutions({})
    with pytest.raises(ValueError, match="y='loss' is not recorded; choose from primal, dual"):
        ConvergenceDisplay.from_solutions([solution], y="loss")
    with pytest.raises(ValueError, match="y='' is not recorded"):
        ConvergenceDisplay.from_solutions([solution], y=())
    with pytest.raises(ValueError, match="x='time' must be"):
        ConvergenceDisplay.from_solutions([solution], x="time")
    with pytest.raises(ValueError, match="yscale='cubic' must be"):
        ConvergenceDisplay.from_solutions([solution], yscale="cubic")
    with pytest.raises(ValueError, match="run 1 has no column 'gap'; it has iteration"):
        ConvergenceDisplay.from_solutions([{"iteration": [0], "primal": [1]}], y="gap")


# ---- losses ----------------------------------------------------------------------------------


def test_losses_of_the_notes():
    display = LossDisplay.from_losses()
    assert list(display.losses) == ["0-1", "hinge", "log / log 2"]
    m = display.margins
    for line, (name, values) in zip(display.lines_, display.losses.items(), strict=True):
        assert np.array_equal(line.get_ydata(), LOSSES[name](m))
        assert values[m == 0] == pytest.approx(1)  # all three meet on the decision line
    above = np.minimum(display.losses["hinge"], display.losses["log / log 2"])
    assert np.all(above >= display.losses["0-1"] - 1e-12)
    assert "y·z" in display.ax_.get_xlabel()
    assert words(display.legend_)[1] == "hinge:  max(0, 1 − y·z)"
    assert [t.get_text() for t in display.ax_.texts] == [
        "misclassified",
        "inside margin",
        "outside",
    ]
    assert len(styles(display.lines_)) == 3


def test_zero_one_falls_upright():
    display = LossDisplay.from_losses("0-1")
    at = np.flatnonzero(np.diff(display.losses["0-1"]))
    assert len(at) == 1
    assert abs(display.margins[at[0] + 1] - display.margins[at[0]]) < 1e-300


def test_steep_losses_leave_the_picture():
    display = LossDisplay.from_losses(["squared hinge", "hinge"], low=-4, high=0.5)
    assert display.losses["squared hinge"].max() == 25
    assert display.ax_.get_ylim()[1] < 6
    assert [t.get_text() for t in display.ax_.texts] == ["misclassified", "inside margin"]


def test_own_loss_on_given_axes():
    _, ax = plt.subplots()
    ax.set_ylabel("mine")
    display = LossDisplay.from_losses({"exp": lambda m: np.exp(-m)}, ax=ax, colors=["k"])
    assert display.ax_ is ax
    assert words(display.legend_) == ["exp"]
    assert ax.get_ylabel() == "mine"
    assert display.plot(legend=False).legend_ is None


def test_loss_refusals():
    with pytest.raises(ValueError, match="'huber' is not a loss; choose from 0-1, hinge"):
        LossDisplay.from_losses(["huber"])
    with pytest.raises(ValueError, match="needs a loss and low < high; got 1 and 0"):
        LossDisplay.from_losses(low=1, high=0)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_line_pictures_render(solution, tmp_path, style):
    before = dict(mpl.rcParams)
    with plt.style.context(style):
        ink = mpl.colors.to_hex("#f2f2f2" if style == "dark_background" else "#1a1a1a")
        many = ConvergenceDisplay.from_solutions([solution, solution])
        assert many.legend_.legend_handles[-1].get_color() == ink
        for k, display in enumerate([many, LossDisplay.from_losses(list(LOSSES))]):
            for kind in ("png", "pdf"):
                display.figure_.savefig(tmp_path / f"{k}.{kind}")
    assert dict(mpl.rcParams) == before


def test_of_several_classes_one_curve_is_drawn():
    X, y = load_iris(return_X_y=True)
    model = maxmargin.SVC(record_every=5).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    drawn = display.ax_.lines[0].get_xdata()
    assert (np.diff(drawn) > 0).all()
    assert max(drawn) == model.n_iter_.max()
