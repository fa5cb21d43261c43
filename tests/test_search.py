"""Searches against GridSearchCV over our own machines, and what only they promise."""

import copy
import itertools
import operator
import pickle
import queue
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context, get_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import (
    SVC,
    SVCCV,
    SVDD,
    SVR,
    SVRCV,
    NuSVC,
    NuSVCCV,
    OneClassSVM,
    certify,
    consistency,
    kernels,
    one_standard_error,
    problems,
    progress,
    shared_gram,
)
from maxmargin.estimators import _chains, _matrices, _scoring, _task

CS, GAMMAS = [0.1, 1, 10, 100], [0.01, 0.1, 1.0]
TIGHT = 1e-6


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:200], y[:200]


def equal(ours, theirs, metric="score", atol=1e-9):
    for name in (f"mean_test_{metric}", f"std_test_{metric}", f"split0_test_{metric}"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=atol)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert ours.best_params_ == theirs.best_params_
    assert set(theirs.cv_results_) <= set(ours.cv_results_)


def proven(search):
    assert (search.cv_results_["status"] == "optimal").all()
    assert (search.cv_results_["max_kkt_violation"] <= search.tol).all()


def may_fail(search):
    reason = "its weights (1000 : 1e-4) make every usual nu infeasible"
    return {"check_class_weight_classifiers": reason} if isinstance(search, NuSVCCV) else {}


@parametrize_with_checks(
    [
        SVCCV(Cs=[1.0, 10.0], gammas=["scale"], cv=2),
        NuSVCCV(nus=[0.4], gammas=["scale"], cv=2),
        SVRCV(Cs=[1.0, 10.0], gammas=["scale"], cv=2),
    ],
    expected_failed_checks=may_fail,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_sklearn_contract(estimator, check):
    check(estimator)


SETTINGS = {
    "plain": {},
    "ovr": {"multi_class": "ovr"},
    "balanced": {"class_weight": "balanced"},
    "squared hinge": {"loss": "squared_hinge"},
    "poly": {"kernel": "poly"},
    "sigmoid": {"kernel": "sigmoid"},
    "ties": {"break_ties": True},
    "crammer singer": {"multi_class": "crammer_singer"},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_same_scores_as_a_grid_search(name, weighted):
    X, y = iris()
    given = {"sample_weight": np.random.default_rng(0).uniform(0.2, 3, 150)} if weighted else {}
    settings = {"tol": TIGHT, **SETTINGS[name]}
    ours = SVCCV(Cs=CS, gammas=GAMMAS, **settings).fit(X, y, **given)
    theirs = GridSearchCV(SVC(**settings), {"C": CS, "gamma": GAMMAS}).fit(X, y, **given)
    equal(ours, theirs)
    if name != "sigmoid":  # indefinite: stationary is all there is
        proven(ours)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)


def test_digits_as_scikit_learn_has_them():
    import sklearn.svm

    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    Cs, gammas = [0.1, 1.0, 10.0, 100.0], [0.005, 0.05, 0.2]
    ours = SVCCV(Cs=Cs, gammas=gammas).fit(X, y)
    theirs = GridSearchCV(sklearn.svm.SVC(), {"C": Cs, "gamma": gammas}).fit(X, y)
    assert ours.best_params_ == theirs.best_params_
    off = ours.cv_results_["mean_test_score"] - theirs.cv_results_["mean_test_score"]
    assert np.abs(off).max() <= 2e-3
    proven(ours)
    assert ours.report_["n_solved"] == ours.report_["n_fits"] == 60


def test_gamma_of_each_training_set():
    X, y = iris()
    gammas = ["scale", "auto", 0.1]
    ours = SVCCV(Cs=CS, gammas=gammas, tol=TIGHT).fit(X, y)
    equal(ours, GridSearchCV(SVC(tol=TIGHT), {"C": CS, "gamma": gammas}).fit(X, y))


@pytest.mark.parametrize(
    "scoring",
    ["roc_auc", "f1", ["accuracy", "roc_auc"], {"a": "precision", "b": "neg_brier_score"}],
    ids=str,
)
def test_any_scorer(scoring):
    X, y = cancer()
    many = not isinstance(scoring, str)
    refit = next(iter(scoring)) if many else True
    given = {"probability": True} if "b" in scoring else {}
    settings = {"scoring": scoring, "refit": refit, "cv": 3}
    ours = SVCCV(Cs=[1, 10], gammas=[0.01, 0.1], tol=TIGHT, **settings, **given).fit(X, y)
    grid = {"C": [1, 10], "gamma": [0.01, 0.1]}
    theirs = GridSearchCV(SVC(tol=TIGHT, **given), grid, **settings).fit(X, y)
    for metric in scoring if many else ["score"]:
        equal(ours, theirs, metric, atol=1e-6)
    assert ours.multimetric_ == theirs.multimetric_ == many
    assert type(ours.scorer_) is type(theirs.scorer_)


def test_a_function_scores():
    X, y = cancer()
    own = lambda machine, X, y: float((machine.decision_function(X) * (2 * y - 1)).mean())  # noqa: E731
    ours = SVCCV(Cs=[1, 10], gammas=[0.1], scoring=own, tol=TIGHT).fit(X, y)
    theirs = GridSearchCV(SVC(tol=TIGHT), {"C": [1, 10], "gamma": [0.1]}, scoring=own).fit(X, y)
    equal(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "cv",
    [
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(3, random_state=1),
    ],
    ids=["repeated", "shuffle"],
)
def test_any_splitter(cv):
    X, y = cancer()
    ours = SVCCV(Cs=CS, gammas=GAMMAS, cv=cv, tol=TIGHT).fit(X, y)
    equal(ours, GridSearchCV(SVC(tol=TIGHT), {"C": CS, "gamma": GAMMAS}, cv=cv).fit(X, y))
    assert ours.n_splits_ == cv.get_n_splits()


def test_groups():
    X, y = iris()
    groups = np.arange(150) % 7
    ours = SVCCV(Cs=CS, gammas=GAMMAS, cv=GroupKFold(4), tol=TIGHT).fit(X, y, groups=groups)
    theirs = GridSearchCV(SVC(tol=TIGHT), {"C": CS, "gamma": GAMMAS}, cv=GroupKFold(4))
    equal(ours, theirs.fit(X, y, groups=groups))


def test_kernels_of_all_kinds():
    X, y = iris()
    others = [
        kernels.RBF(sigma=2.0) + 0.1 * kernels.Linear(),
        kernels.Laplacian(gamma=0.5),
        lambda A, B: A @ B.T,
    ]
    ours = SVCCV(Cs=CS, gammas=GAMMAS, kernels=["linear", "rbf", *others], tol=TIGHT).fit(X, y)
    grids = [{"kernel": ["linear"], "C": CS}, {"kernel": ["rbf"], "C": CS, "gamma": GAMMAS}]
    grids += [{"kernel": [k], "C": CS} for k in others]
    theirs = GridSearchCV(SVC(tol=TIGHT), grids).fit(X, y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


def test_precomputed_and_sparse():
    X, y = iris()
    K = kernels.RBF(gamma=0.1)(X)
    ours = SVCCV(Cs=CS, kernel="precomputed", tol=TIGHT).fit(K, y)
    equal(ours, GridSearchCV(SVC(kernel="precomputed", tol=TIGHT), {"C": CS}).fit(K, y))
    S = sp.csr_array(X)
    ours = SVCCV(Cs=CS, gammas=GAMMAS, tol=TIGHT).fit(S, y)
    equal(ours, GridSearchCV(SVC(tol=TIGHT), {"C": CS, "gamma": GAMMAS}).fit(S, y))


def test_nu():
    X, y = cancer()
    nus = [0.05, 0.2, 0.5, 0.99]
    with pytest.warns(FitFailedWarning, match="nu must be|it must be at most"):
        ours = NuSVCCV(nus=nus, gammas=GAMMAS, tol=1e-7).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GridSearchCV(NuSVC(tol=1e-7), {"nu": nus, "gamma": GAMMAS}).fit(X, y)
    equal(ours, theirs)
    assert ours.report_["n_failed"] == 15
    infeasible = NuSVCCV(nus=3, gammas=[0.01]).fit(X, y).cv_results_["status"]
    assert (infeasible == "optimal").all()


def overlapping(seed=0, n=160):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, (X[:, 0] + 1.5 * random.normal(size=n) > 0).astype(int)


NU_DATA = {
    "cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "overlap": overlapping,
}


@pytest.mark.parametrize("name", NU_DATA)
def test_a_small_margin_is_left_to_the_ordinary_solver(name):
    X, y = NU_DATA[name]()
    nus, gammas = [0.02, 0.1, 0.2], [1e-4, 1e-2, 1.0]
    ours = NuSVCCV(nus=nus, gammas=gammas, cv=3, refit=False)
    theirs = GridSearchCV(NuSVC(), {"nu": nus, "gamma": gammas}, cv=3, refit=False)
    searched(ours, theirs, X, y)
    for f in range(3):
        ours_of, theirs_of = (s.cv_results_[f"split{f}_test_score"] for s in (ours, theirs))
        np.testing.assert_allclose(ours_of, theirs_of, atol=3.1 / len(y))  # one row


def test_classes_whose_hulls_meet_have_no_margin():
    X, y = overlapping(1)
    y = np.where(X[:, 1] > 1, 2, y)
    settings = {"nus": [0.02, 0.3], "gammas": [0.01], "cv": 3}
    with pytest.warns(UserWarning, match="reduced convex hulls meet"):
        ours = NuSVCCV(**settings).fit(X, y)
    assert ours.cv_results_["status"].tolist() == ["no margin", "optimal"]
    with pytest.warns(FitFailedWarning, match="nu=0.02 is too small for these data"):
        two = NuSVCCV(**settings).fit(X, y > 0)
    assert two.cv_results_["status"].tolist() == ["failed", "optimal"]


def test_regression():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150], scale(y[:150])
    cv, gammas = ShuffleSplit(3, random_state=0), [1.0, 10.0]
    ours = SVRCV(Cs=CS, gammas=gammas, epsilons=[0.05, 0.3], cv=cv, tol=TIGHT).fit(X, y)
    grid = {"C": CS, "gamma": gammas, "epsilon": [0.05, 0.3]}
    equal(ours, GridSearchCV(SVR(tol=TIGHT), grid, cv=cv).fit(X, y), atol=1e-5)
    proven(ours)


def test_any_number_of_threads_gives_the_same_scores():
    X, y = iris()
    own = lambda m, X, y: float(m.decision_function(X)[:, 0].sum())  # noqa: E731
    one, two = (
        SVCCV(Cs=CS, gammas=GAMMAS, scoring=own, n_threads=k).fit(X, y).cv_results_ for k in (1, 2)
    )
    np.testing.assert_array_equal(one["mean_test_score"], two["mean_test_score"])


def test_float32_beyond_a_size(monkeypatch):
    X, y = cancer()
    expected = SVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
    monkeypatch.setattr(_matrices, "_DOUBLE", 100)
    found = SVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
    proven(found)
    off = found.cv_results_["mean_test_score"] - expected.cv_results_["mean_test_score"]
    assert np.abs(off).max() <= 5e-3  # one of 200 rows
    cells = len(X) ** 2  # of one or two matrices: products of rows so short are not kept
    assert expected.report_["memory_bytes"] in (8 * cells, 16 * cells)
    assert found.report_["memory_bytes"] in (4 * cells, 8 * cells)
    three = SVCCV(Cs=CS, gammas=[0.1]).fit(*iris())
    proven(three)
    svr = SVRCV(Cs=CS, gammas=[0.1]).fit(X, X[:, 0])
    proven(svr)


def chains_of(X, y, folds=3, weight=None):
    """Soft margins of some folds, as a search lays them out, and the problems they are."""
    rows, weight = np.arange(len(y)), np.ones(len(y)) if weight is None else weight
    chains, kept = [], []
    for f in range(folds):
        train = rows[rows % folds != f]
        chains += _chains.pair_chains(train, y[train], weight[train], [(1, 0)], "soft_margin")
        kept.append((train, np.where(y[train] == 1, 1.0, -1.0), weight[train]))
    return chains, [rows[rows % folds == f] for f in range(folds)], kept


def judged(found, gram, kept, Cs):
    """Violations and gaps of the same points by the certificate, which knows no solver."""
    ends = np.cumsum([0] + [len(train) for train, *_ in kept])
    for k, (train, signs, weight) in enumerate(kept):
        for q, C in enumerate(Cs):
            part = gram.subset(train)
            problem = problems.soft_margin(part, signs, C=C, sample_weight=weight)
            beta = found.beta[q, ends[k] : ends[k + 1]]
            proof = certify(problem, beta)
            assert found.violation[k, q] == pytest.approx(proof.kkt_violation, abs=1e-8)
            assert found.dual[k, q] == pytest.approx(proof.dual, rel=1e-9)
            assert found.gap[k, q] >= proof.gap * (1 - 1e-6) - 1e-9


@pytest.mark.parametrize("rounded", [np.float32, np.float16])
def test_solutions_over_rounded_entries_are_judged_on_exact_ones(rounded):
    X, y = cancer()
    gram, Cs = kernels.RBF(gamma=0.05).gram(X), np.array([0.1, 10.0, 1000.0])
    chains, held, kept = chains_of(X, y, weight=np.linspace(0.5, 2.0, len(y)))
    matrix = gram.stored().matrix.astype(rounded).astype(np.float32)
    members = _chains.Members.along_C(Cs)
    settings = {"tol": 1e-3, "threads": lambda: 1}
    layout = _chains.Layout.of(chains, held, range(len(held)))
    found = _chains.solve_chains(matrix, np.ones(len(y)), layout, members, **settings)
    before = found.violation.copy()
    _chains.refine(
        found, matrix, np.ones(len(y)), lambda coef, rows: gram.subset(rows).matvec(coef), layout,
        members, stop=lambda done: False, **settings,
    )  # fmt: skip
    judged(found, gram, kept, Cs)
    assert (found.violation <= 1e-3).all()
    assert rounded == np.float32 or before.max() <= 1e-3 < 0.1  # it did not know
    for k, rows in enumerate(held):
        coef = np.zeros(len(y))
        start = sum(len(c.rows) for c in chains[:k])
        coef[chains[k].rows] = found.beta[2, start : start + len(chains[k].rows)]
        np.testing.assert_allclose(found.held(k)[2], gram.matvec(coef)[rows], atol=0.05)


def test_a_solution_carried_over_has_its_own_gap():
    X, y = cancer()
    gram, Cs = kernels.RBF(gamma=1.0).gram(X).stored(), np.array([1.0, 1e4, 1e6])
    chains, held, kept = chains_of(X, y)
    members = _chains.Members.along_C(Cs)
    found = _chains.solve_chains(
        gram.matrix,
        gram.diag,
        _chains.Layout.of(chains, held, range(len(held))),
        members,
        tol=1e-3,
        threads=lambda: 1,
    )
    assert (found.steps[:, 2] == 0).all()
    judged(found, gram, kept, Cs)
    assert (found.gap[:, 2] > 10 * found.gap[:, 1]).all()


def test_interrupted(monkeypatch):
    X, y = cancer()
    seen = []

    class Interrupted:
        def __init__(self):
            self.queue = queue.SimpleQueue()
            self.put = self.queue.put

        def get(self, timeout=None):
            if timeout is None:
                return self.queue.get()
            seen.append(timeout)
            raise KeyboardInterrupt

    monkeypatch.setattr(_task, "SimpleQueue", Interrupted)
    before = threading.active_count()
    search = SVCCV(Cs=6, gammas=8, n_threads=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert threading.active_count() == before
    assert not hasattr(search, "best_estimator_")
    assert seen


def searched(ours, theirs, X, y, **given):
    """Both searches, whatever their scorers do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ours.fit(X, y, **given), theirs.fit(X, y, **given)


def failing(machine, X, y):
    if machine.C == 1:
        raise ZeroDivisionError("in the scorer")
    return machine.score(X, y)


@pytest.mark.parametrize("scoring", [failing, {"a": "accuracy", "b": failing}], ids=["one", "two"])
def test_an_error_of_a_scorer_is_a_score_of_nan(scoring):
    X, y = cancer()
    many = isinstance(scoring, dict)
    settings = {"scoring": scoring, "refit": "b" if many else True}
    ours = SVCCV(Cs=CS, gammas=GAMMAS, tol=TIGHT, n_threads=2, **settings)
    theirs = GridSearchCV(SVC(tol=TIGHT), {"C": CS, "gamma": GAMMAS}, **settings)
    with pytest.warns(UserWarning, match="(?s)Scoring failed.*in the scorer"):
        ours.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(X, y)
    for metric in scoring if many else ["score"]:
        equal(ours, theirs, metric)
        np.testing.assert_array_equal(
            ours.cv_results_[f"rank_test_{metric}"], theirs.cv_results_[f"rank_test_{metric}"]
        )
    assert np.isnan(ours.cv_results_["mean_test_b" if many else "mean_test_score"]).sum() == 3
    with pytest.raises(ValueError, match="scoring must return a number"):
        SVCCV(Cs=[1], gammas=[0.1], scoring=lambda m, X, y: "good").fit(X, y)


def turned(machine, X, y):
    return machine.score(X[::-1], y)


def noisy(machine, X, y):
    X += np.random.default_rng(0).normal(size=X.shape)
    return machine.score(X, y)


def other_rows(machine, X, y):
    rows = np.arange(len(y)) // 2
    return machine.score(X[rows], y[rows])


def support(machine, X, y):
    return -float(machine.n_support_.sum()) - len(machine.support_) - machine.dual_coef_.max()


def parameters(machine, X, y):
    given = machine.get_params()
    return machine.C + 10 * machine.gamma + len(machine.kernel) + given["C"] * given["gamma"]


def features(machine, X, y):
    assert isinstance(machine, SVC)
    assert not hasattr(machine, "predict_proba")
    assert not hasattr(machine, "coef_")
    return float(machine.n_features_in_ + len(machine.classes_))


def pickled(machine, X, y):
    again = pickle.loads(pickle.dumps(machine))
    assert type(again) is SVC
    fresh = clone(machine)
    assert type(fresh) is SVC
    assert not hasattr(fresh, "classes_")
    assert copy.deepcopy(machine).score(X, y) == again.score(X, y) == machine.score(X, y)
    return fresh.fit(X, y).score(X, y)


def refitted(machine, X, y):
    return machine.fit(X[::2], y[::2]).score(X, y)


@pytest.mark.parametrize(
    "scoring",
    [turned, noisy, other_rows, support, parameters, features, pickled, refitted],
    ids=lambda scoring: scoring.__name__,
)
def test_a_scorer_meets_the_machine_of_its_cell(scoring):
    X, y = iris()
    settings = {"scoring": scoring, "cv": 3}
    ours = SVCCV(Cs=[1, 10], gammas=[0.01, 0.1], tol=TIGHT, **settings)
    theirs = GridSearchCV(SVC(tol=TIGHT), {"C": [1, 10], "gamma": [0.01, 0.1]}, **settings)
    equal(*searched(ours, theirs, X, y), atol=1e-3 if scoring is support else 1e-9)


def test_a_regressor_for_scorers_too():
    X, y = load_diabetes(return_X_y=True)
    settings = {"scoring": lambda m, X, y: m.score(X[::-1], y) + m.epsilon * m.C, "cv": 3}
    ours = SVRCV(Cs=[1, 10], epsilons=[0.1, 1], gammas=[0.1], tol=TIGHT, **settings)
    grid = {"C": [1, 10], "epsilon": [0.1, 1], "gamma": [0.1]}
    equal(*searched(ours, GridSearchCV(SVR(tol=TIGHT), grid, **settings), X, y), atol=1e-5)


def test_a_scorer_has_its_machine_fitted_once_and_only_if_it_must(monkeypatch):
    X, y = cancer()
    fits, fitted = [], _scoring.fitted
    monkeypatch.setattr(_scoring, "fitted", lambda *given: fits.append(1) or fitted(*given))
    settings = {"Cs": [1, 10], "gammas": [0.1], "cv": 3, "tol": TIGHT}
    SVCCV(scoring=lambda m, X, y: m.score(X.copy(), y) + m.C, **settings).fit(X, y)
    assert not fits
    SVCCV(scoring=lambda m, X, y: turned(m, X, y) + turned(m, X, y), **settings).fit(X, y)
    assert len(fits) == 6


def test_blocks_when_memory_is_short(monkeypatch, caplog):
    X, y = cancer()
    expected = SVCCV(Cs=CS, gammas=GAMMAS, tol=TIGHT).fit(X, y)
    monkeypatch.setattr(_matrices, "_ALWAYS", 0)
    found = SVCCV(Cs=CS, gammas=GAMMAS, tol=TIGHT, cache_size=0.1).fit(X, y)
    assert "solving cell by cell" in caplog.text
    assert len(caplog.records) == 1
    assert found.report_["in_blocks"]
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


def test_limits_and_reports():
    X, y = cancer()
    with pytest.raises(ValueError, match="allow more max_time"):
        SVCCV(Cs=3, gammas=3, max_time=0).fit(X, y)
    whole = SVCCV(Cs=6, gammas=5).fit(X, y)
    some = SVCCV(Cs=6, gammas=5, discard=True).fit(X, y)
    report = some.report_
    assert report["n_discarded"] > 0
    assert report["n_solved"] + report["n_discarded"] == report["n_fits"]
    assert some.best_score_ == pytest.approx(whole.best_score_, abs=0.02)
    lost = np.isnan(some.cv_results_["mean_test_score"])
    assert (some.cv_results_["status"][lost] == "discarded").all()
    fine = SVCCV(Cs=6, gammas=5, refine=True).fit(X, y)
    assert fine.best_score_ >= whole.best_score_
    assert len(fine.cv_results_["params"]) > 30


def test_one_standard_error():
    X, y = cancer()
    best = SVCCV(Cs=6, gammas=5).fit(X, y)
    simple = SVCCV(Cs=6, gammas=5, refit=one_standard_error).fit(X, y)
    r, k = simple.cv_results_, simple.best_index_
    error = r["std_test_score"][best.best_index_] / 2
    assert r["mean_test_score"][k] >= best.best_score_ - error - 1e-9
    assert r["mean_n_support"][k] <= r["mean_n_support"][best.best_index_]
    GridSearchCV(SVC(), {"C": CS}, refit=one_standard_error).fit(X, y)
    with pytest.raises(ValueError, match="for one metric; there are accuracy, f1"):
        SVCCV(Cs=2, gammas=2, scoring=["accuracy", "f1"], refit=one_standard_error).fit(X, y)


def test_nested_and_in_a_pipeline():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVCCV(Cs=CS, gammas=GAMMAS))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9
    assert clone(SVCCV(Cs=3)).Cs == 3


@pytest.mark.parametrize("detector", [OneClassSVM(nu=0.1), SVDD(nu=0.1)])
def test_consistency(detector):
    X = np.random.default_rng(0).normal(size=(300, 2))
    search = GridSearchCV(detector, {"gamma": [0.1, 100.0]}, scoring=consistency).fit(X)
    grid = {f"{type(detector).__name__.lower()}__gamma": [0.1, 100.0]}
    piped = GridSearchCV(make_pipeline(StandardScaler(), detector), grid, scoring=consistency)
    assert list(piped.fit(X).best_params_.values()) == [0.1]
    assert search.best_params_ == {"gamma": 0.1}
    assert -0.1 < search.best_score_ <= 0


def test_consistency_over_a_shared_gram():
    X = np.random.default_rng(0).normal(size=(200, 2))
    grid, cv = {"gamma": [0.1, 1.0, 100.0], "nu": [0.05, 0.3]}, KFold(4)
    alone = GridSearchCV(OneClassSVM(), grid, scoring=consistency, cv=cv).fit(X)
    with shared_gram(X):
        shared = GridSearchCV(OneClassSVM(), grid, scoring=consistency, cv=cv).fit(X)
    for name in ("mean_test_score", "split2_test_score", "rank_test_score"):
        np.testing.assert_array_equal(alone.cv_results_[name], shared.cv_results_[name])
    train, test = list(cv.split(X))[2]
    outside = (OneClassSVM(gamma=1.0, nu=0.3).fit(X[train]).predict(X[test]) < 0).mean()
    assert shared.cv_results_["split2_test_score"][3] == -abs(outside - 0.3)
    with pytest.raises(ValueError, match="nu in place of C"):
        consistency(SVDD(C=0.1).fit(X), X)


def test_bad_input():
    X, y = cancer()
    with pytest.raises(ValueError, match="Cs must be positive"):
        SVCCV(Cs=[1, -1]).fit(X, y)
    with pytest.raises(ValueError, match="no splits"):
        SVCCV(cv=iter(())).fit(X, y)
    with pytest.raises(ValueError, match="refit"):
        SVCCV(scoring=["accuracy", "f1"]).fit(X, y)
    for Cs, told in ((["a"], "'a'"), ([[1, 2]], r"\[1, 2\]"), ([np.nan], "nan")):
        with pytest.raises(ValueError, match=f"Cs must be positive numbers; got {told}"):
            SVCCV(Cs=Cs).fit(X, y)
    with pytest.raises(ValueError, match="got none"):
        SVCCV(Cs=[]).fit(X, y)
    with pytest.raises(ValueError, match="'Cs' parameter of SVCCV must be an array-like or an int"):
        SVCCV(Cs=1.0).fit(X, y)
    with pytest.raises(ValueError, match="kernels is empty"):
        SVCCV(kernels=[]).fit(X, y)
    with pytest.raises(ValueError, match="cannot hold"):
        SVCCV(kernels=["rbf", "precomputed"]).fit(X, y)
    with pytest.raises(ValueError, match="epsilons must be finite and at least 0; got -1"):
        SVRCV(epsilons=[0.1, -1]).fit(X, X[:, 0])


@pytest.mark.parametrize("scoring", [None, "roc_auc", "neg_log_loss", ["f1", "accuracy"]], ids=str)
def test_score_is_what_was_searched_by(scoring):
    X, y = cancer()
    settings = {"scoring": scoring, "refit": scoring[0] if isinstance(scoring, list) else True}
    given = {"probability": True} if scoring == "neg_log_loss" else {}
    ours = SVCCV(Cs=[1, 10], gammas=[0.01, 0.1], cv=3, tol=TIGHT, **settings, **given)
    grid = {"C": [1, 10], "gamma": [0.01, 0.1]}
    theirs = GridSearchCV(SVC(tol=TIGHT, **given), grid, cv=3, **settings)
    searched(ours, theirs, X, y)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-9)
    assert is_classifier(ours)
    assert is_regressor(SVRCV())


@pytest.mark.parametrize("method", ["predict", "score", "decision_function", "classes_"])
def test_without_a_refit_nothing_is_predicted(method):
    X, y = cancer()
    found = []
    asked = (lambda s: s.score(X, y)) if method == "score" else operator.attrgetter(method)
    for search in (SVCCV(Cs=[1], gammas=[0.1]), GridSearchCV(SVC(), {"C": [1]})):
        search.set_params(refit=False).fit(X, y)
        with pytest.raises(AttributeError) as error:
            asked(search)
        cause = error.value.__cause__ or error.value
        found.append(str(cause).replace(type(search).__name__, "Search"))
    assert found[0] == found[1]
    assert "refit=False" in found[0]


def test_results_have_the_types_of_a_grid_search():
    X, y = iris()
    ours = SVCCV(Cs=[10, 1, 10], gammas=[0.1], kernels=["linear", "rbf"]).fit(X, y).cv_results_
    grid = [{"C": [10, 1, 10], "kernel": ["linear"]}]
    grid.append({"C": [10, 1, 10], "gamma": [0.1], "kernel": ["rbf"]})
    theirs = GridSearchCV(SVC(), grid).fit(X, y).cv_results_
    for name, values in theirs.items():
        assert type(ours[name]) is type(values)
        assert getattr(ours[name], "dtype", None) == getattr(values, "dtype", None), name
        if name.startswith("param_"):
            np.testing.assert_array_equal(ours[name].mask, values.mask)
            assert ours[name].tolist() == values.tolist()
    assert ours["params"] == theirs["params"]
    np.testing.assert_array_equal(ours["rank_test_score"], theirs["rank_test_score"])


def test_scorers_and_splitters_see_the_data_as_given():
    pd = pytest.importorskip("pandas")
    X, y = iris()
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(150) + 7)
    labels = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y], index=frame.index)

    class ByColumn:
        def split(self, X, y, groups=None):
            left = (X["a"] > 0).to_numpy()
            return iter([(np.flatnonzero(left), np.flatnonzero(~left))])

        def get_n_splits(self, X=None, y=None, groups=None):
            return 1

    def by_name(machine, X, y):
        assert machine.feature_names_in_.tolist() == list("abcd")
        assert isinstance(y, pd.Series)
        return machine.score(X[X["b"] > 0], y[X["b"] > 0])

    settings = {"scoring": by_name, "cv": ByColumn()}
    ours = SVCCV(Cs=[1, 10], gammas=[0.1], tol=TIGHT, **settings).fit(frame, labels)
    theirs = GridSearchCV(SVC(tol=TIGHT), {"C": [1, 10], "gamma": [0.1]}, **settings)
    theirs.fit(frame, labels)
    equal(ours, theirs)
    assert np.isfinite(ours.best_score_)
    assert ours.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(ours.predict(frame), theirs.predict(frame))


@pytest.mark.parametrize("turn", [sp.csc_array, np.ndarray.tolist, np.float32], ids=str)
def test_scorers_of_any_data(turn):
    X, y = iris()
    ours = SVCCV(Cs=[1, 10], gammas=[0.1], tol=TIGHT, scoring="f1_macro")
    theirs = GridSearchCV(SVC(tol=TIGHT), {"C": [1, 10], "gamma": [0.1]}, scoring="f1_macro")
    equal(ours.fit(turn(X), y), theirs.fit(turn(X), y))


@pytest.mark.parametrize("weighted", [False, True])
def test_metadata_routing(weighted):
    X, y = iris()
    weight = np.random.default_rng(0).uniform(0.2, 3, 150)
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(f1_score, average="macro").set_score_request(sample_weight=weighted)
        settings = {"scoring": scorer, "cv": 3}
        machine = SVC(tol=TIGHT).set_fit_request(sample_weight=True)
        ours = SVCCV(Cs=[1, 10], gammas=[0.1], tol=TIGHT, **settings)
        theirs = GridSearchCV(machine, {"C": [1, 10], "gamma": [0.1]}, **settings)
        equal(*searched(ours, theirs, X, y, sample_weight=weight))


def test_a_fold_of_no_weight():
    X, y = iris()
    weight = np.where(np.arange(150) % 5 == 0, 0.0, 1.0)
    settings = {"cv": PredefinedSplit(np.arange(150) % 5)}
    ours = SVCCV(Cs=[1, 10], gammas=[0.1], **settings)
    theirs = GridSearchCV(SVC(), {"C": [1, 10], "gamma": [0.1]}, **settings)
    equal(*searched(ours, theirs, X, y, sample_weight=weight))


@pytest.mark.parametrize("rich", [True, False])
def test_progress(capsys, monkeypatch, rich):
    if not rich:
        monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    X, y = iris()
    SVCCV(Cs=3, gammas=2, verbose=1).fit(X, y)
    assert "30/30 fits" in capsys.readouterr().err


def bars(monkeypatch):
    """What bars are told, in turn."""
    told, update = [], progress.CellBar.update

    def noting(self, done, total):
        update(self, done, total)
        told.append((self.done, total))

    monkeypatch.setattr(progress.CellBar, "update", noting)
    return told


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.parametrize(
    ("settings", "total"),
    [
        ({"n_threads": 1}, 30),
        ({"refine": True}, None),
        ({"discard": True}, 30),
        ({"probability": True}, 30),
        ({"kernels": ["rbf", "sigmoid", lambda a, b: 1 / 0], "coef0": -1.0}, 75),
        ({"max_time": 1e3}, 30),
    ],
    ids=["one", "refine", "discard", "alone", "failed", "limited"],
)
def test_progress_goes_on_to_the_end(monkeypatch, settings, total):
    X, y = iris()
    told = bars(monkeypatch)
    search = SVCCV(Cs=3, gammas=2, verbose=1, **settings).fit(X, y)
    done = [each[0] for each in told]
    assert done == sorted(done)
    assert told[-1] == (search.report_["n_fits"],) * 2
    assert total in (None, told[-1][1])
    assert len(set(done)) > 1


def test_progress_of_an_indefinite_matrix(monkeypatch):
    X, y = iris()
    told = bars(monkeypatch)
    search = SVCCV(Cs=3, kernel="precomputed", verbose=1).fit(-X @ X.T, y)
    assert (search.cv_results_["status"] == "stationary").all()
    assert told[-1] == (15, 15)
    assert len(told) > 10


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_python_functions_are_called_in_turn_in_the_callers_thread(threads):
    X, y = iris()
    at_work, seen = [], set()

    def kernel_of(gamma):
        def kernel(A, B):
            at_work.append(gamma)
            assert len(at_work) == 1
            seen.add((threading.get_ident(), get_config()["assume_finite"]))
            K = kernels.RBF(gamma=gamma)(A, B)
            at_work.pop()
            return K

        return kernel

    made = [kernel_of(gamma) for gamma in (0.1, 0.2, 0.3, 0.4)]
    with config_context(assume_finite=True):
        search = SVCCV(Cs=[1.0], kernels=[*made, "rbf"], gammas=[0.1], n_threads=threads).fit(X, y)
    assert seen == {(threading.get_ident(), True)}
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == scores[4]
    assert (search.cv_results_["status"] == "optimal").all()


def test_an_error_of_a_python_function_says_what_and_where():
    X, y = iris()

    def broken(A, B):
        return {}["oops"]

    with pytest.raises(ValueError, match=r"KeyError: 'oops' \(.*test_search.py, line") as caught:
        SVCCV(kernel=broken, Cs=[1]).fit(X, y)
    assert isinstance(caught.value.__cause__, KeyError)


def test_cells_that_rounding_stops_say_so():
    X, y = iris()
    search = SVCCV(Cs=[1.0], gammas=[0.05], tol=1e-16, refit=False).fit(X, y)
    assert search.cv_results_["status"][0] == "precision_limit"


def test_a_cell_that_time_leaves_without_probabilities_is_not_reached(monkeypatch):
    X, y = cancer()
    fitted = _scoring.fitted

    def cut_short(*given):
        machine = fitted(*given)
        del machine.probA_
        return machine

    monkeypatch.setattr(_task, "fitted", cut_short)
    search = SVCCV(Cs=[1.0], gammas=[0.1], probability=True, max_time=1e3, refit=False)
    monkeypatch.setattr(_task.Task, "late", lambda self: len(self._left) > 7)
    with pytest.raises(ValueError, match="no candidate"):
        search.fit(X, y)
    assert (search.cv_results_["status"] == "not reached").all()


@pytest.mark.parametrize("empty", [np.zeros(0, dtype=int), [], np.zeros(150, dtype=bool)])
def test_empty_parts_of_a_split_are_of_that_split_alone(empty):
    X, y = iris()
    rows = np.arange(150)
    for gammas in ([0.1], ["scale"]):
        search = SVCCV(Cs=[1.0, 2.0], gammas=gammas, cv=[(empty, rows[:9]), (rows, rows)])
        with pytest.warns(FitFailedWarning):
            search.fit(X, y)
        assert np.isnan(search.cv_results_["split0_test_score"]).all()
        assert (search.cv_results_["split1_test_score"] > 0.9).all()
    search = SVCCV(Cs=[1.0, 2.0], gammas=[0.1], cv=[(rows, empty), (rows, rows)])
    with pytest.warns(UserWarning, match="Scoring failed"):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()


def test_what_does_not_go_together_is_refused_before_the_work(monkeypatch):
    X, y = iris()
    monkeypatch.setattr(_task.Task, "run", None)
    for settings, told in (
        ({"multi_class": "ovr", "decision_function_shape": "ovo"}, "no decision value per pair"),
        ({"multi_class": "crammer_singer", "probability": True}, "no probabilities"),
        ({"Cs": 1}, r"int in the range \[2, inf"),
        ({"gammas": True}, r"int in the range \[2, inf"),
    ):
        with pytest.raises(ValueError, match=told):
            SVCCV(**settings).fit(X, y)
    with pytest.raises(ValueError, match="y must hold numbers"):
        SVRCV().fit(X, np.array(["a", "b"])[y % 2])


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_as_many_kernels_at_a_time_as_threads_and_two_grams_allow(stores, single):
    X, n = np.zeros((5000, 100 if stores else 10)), 5000

    def plan(threads, chains):
        matrices = _matrices.Matrices(SVC(), X, np.arange(n), threads=threads, chains=chains)
        return matrices.at_once(single), matrices.planned(single)

    assert plan(2, 5)[0] == plan(1, 1)[0] == 1  # threads have work enough
    wide, planned = plan(16, 5)
    assert planned <= 16 * n**2
    assert (
        wide
        == {(False, False): 2, (True, False): 1, (False, True): 4, (True, True): 2}[stores, single]
    )


def in_time(monkeypatch, enough):
    """A limit of time that is over when this says so."""
    for module in (_task, _scoring):
        monkeypatch.setattr(module, "passed", lambda until: until is not None and enough())


def ticking(monkeypatch, most):
    """A clock by which so many looks at it are in time."""
    looks = itertools.count()
    in_time(monkeypatch, lambda: next(looks) >= most)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("gammas", [[0.1], [0.01, 0.1, 1.0]])
def test_what_a_time_limit_leaves_has_the_scores_of_the_whole_search(monkeypatch, threads, gammas):
    """Rows held by pairs of classes are summed up at the end: also where that comes early."""
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    whole = SVCCV(Cs=CS, gammas=gammas, tol=TIGHT).fit(X, y).cv_results_
    monkeypatch.setattr(_chains, "_SECONDS", 1e-5)
    partly, looks, known, size = 0, 1, 0, 5 * len(CS) * len(gammas)
    while known < size:  # until it is never stopped
        ticking(monkeypatch, looks)
        some = SVCCV(
            Cs=CS, gammas=gammas, tol=TIGHT, refit=lambda _: 0, n_threads=threads, max_time=1e9
        )
        some._refit = lambda *_: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            some.fit(X, y)
        known = some.report_["n_fits"] - some.report_["n_not_reached"]
        found = some.cv_results_
        place = [whole["params"].index(p) for p in found["params"]]
        scores = np.array([found[f"split{f}_test_score"] for f in range(5)])
        there = np.isfinite(scores)
        assert there.sum() == known
        expected = np.array([whole[f"split{f}_test_score"][place] for f in range(5)])
        np.testing.assert_array_equal(scores[there], expected[there])
        partly += 0 < known < size
        looks += 1 + looks // 4
    assert partly > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_time_limit_holds_for_slow_scorers(monkeypatch, threads):
    X, y = iris()
    calls = []

    def slow(machine, X, y):
        calls.append(1)
        return machine.score(X, y)

    in_time(monkeypatch, lambda: len(calls) >= 20)
    search = SVCCV(Cs=8, gammas=4, scoring=slow, max_time=1e9, n_threads=threads, refit=False)
    with pytest.warns(ConvergenceWarning, match="were not reached"):
        search.fit(X, y)
    assert len(calls) == 20
    scored = np.isfinite(search.cv_results_["mean_test_score"])
    assert scored.sum() == 4  # on all folds
    assert (search.cv_results_["status"][~scored] == "not reached").all()
    assert np.isnan(search.cv_results_["max_kkt_violation"][~scored]).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("gammas", [1, 40])
def test_no_time_solves_nothing(threads, gammas):
    X, y = iris()
    search = SVCCV(Cs=[1.0, 2.0], gammas=np.logspace(-3, 1, gammas), max_time=0, n_threads=threads)
    with pytest.raises(ValueError, match="allow more max_time"):
        search.fit(X, y)
    assert search.report_["n_solved"] == 0
    assert (search.cv_results_["status"] == "not reached").all()


def test_ample_time_gives_the_whole_search():
    X, y = cancer()
    whole = SVCCV(Cs=9, gammas=7, tol=TIGHT).fit(X, y)
    some = SVCCV(Cs=9, gammas=7, tol=TIGHT, max_time=1e3).fit(X, y)
    assert some.best_params_ == whole.best_params_
    assert some.cv_results_["params"] == whole.cv_results_["params"]
    for name, atol in (("mean_test_score", 1e-12), ("mean_n_support", 0.3)):
        np.testing.assert_allclose(some.cv_results_[name], whole.cv_results_[name], atol=atol)


def test_a_limit_with_discarding_finishes_candidates_on_all_folds(monkeypatch):
    X, y = cancer()
    monkeypatch.setattr(_chains, "_SECONDS", 1e-4)
    early, looks = False, 1
    while not early and looks < 10_000:
        ticking(monkeypatch, looks)
        search = SVCCV(
            Cs=8, gammas=8, discard=True, max_time=1e9, refit=lambda _: 0, n_threads=1, tol=TIGHT
        )
        search._refit = lambda *_: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(X, y)
        known = search.report_["n_fits"] - search.report_["n_not_reached"]
        complete = np.isfinite(search.cv_results_["mean_test_score"]).sum()
        early = complete > 0 and known < search.report_["n_fits"] / 4
        looks += 1 + looks // 4
    assert early


def test_an_early_end_leaves_nothing_of_a_fit_before(monkeypatch):
    X, y = iris()
    for settings in ({}, {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}):
        search = SVCCV(Cs=[1.0, 10.0], gammas=[0.1], **settings).fit(X, y)
        with pytest.raises(ValueError, match="allow more max_time"):
            search.set_params(max_time=0).fit(X, y)
        assert search.report_["n_not_reached"] == 10
        assert np.isnan(search.cv_results_[f"mean_test_{settings.get('refit', 'score')}"]).all()
        for name in ("best_params_", "best_score_", "best_index_", "best_estimator_"):
            assert not hasattr(search, name)
        with pytest.raises(NotFittedError):
            search.predict(X)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scoring": ["accuracy", "f1_macro"], "refit": "accuracy"},
        {"refit": lambda r: int(np.flatnonzero(np.isfinite(r["mean_test_score"]))[0])},
    ],
    ids=["one", "two", "function"],
)
def test_ctrl_c_before_any_score_is_still_ctrl_c(monkeypatch, settings):
    def pressed(*given):
        raise KeyboardInterrupt

    X, y = iris()
    monkeypatch.setattr(_task.Task, "_solve", pressed)
    with pytest.raises(KeyboardInterrupt, match="after 0 of 10 fits"):
        SVCCV(Cs=[1.0, 10.0], gammas=[0.1], **settings).fit(X, y)


def test_ctrl_c_in_the_refit_leaves_no_machine_that_is_not_fitted(monkeypatch):
    X, y = iris()
    search = SVCCV(Cs=[1.0, 10.0], gammas=[0.1])
    monkeypatch.setattr(SVC, "fit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert search.best_params_["C"] in (1.0, 10.0)
    assert not hasattr(search, "best_estimator_")


def test_ctrl_c_in_a_scorer_of_a_cell_of_its_own():
    X, y = iris()
    calls = []

    def pressed(machine, X, y):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return machine.score(X, y)

    search = SVCCV(Cs=[1.0, 2.0], gammas=[0.1], probability=True, scoring=pressed)
    with pytest.raises(KeyboardInterrupt, match="after 3 of 10 fits"):
        search.fit(X, y)
    assert sum(np.isfinite(search.cv_results_[f"split{f}_test_score"]).sum() for f in range(5)) == 3


def test_ctrl_c_keeps_what_is_scored():
    X, y = iris()
    calls = []

    def pressed(machine, X, y):
        calls.append(1)
        if len(calls) == 23:
            raise KeyboardInterrupt
        return machine.score(X, y)

    search = SVCCV(Cs=4, gammas=[0.01, 0.1, 1.0], scoring=pressed, n_threads=1)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt, match="stopped after 20 of 60 fits; cv_results_ has"):
            search.fit(X, y)
        assert not hasattr(search, "best_estimator_")  # nor that of a fit before
        scores = search.cv_results_["mean_test_score"]
        assert np.isfinite(scores).sum() == 4  # one matrix
        assert (np.isfinite(scores) == (search.cv_results_["status"] == "optimal")).all()
        assert search.best_score_ == np.nanmax(scores)
        calls[:] = [1] * 100
        search.fit(X, y)
        calls.clear()


def test_a_scorer_may_write_on_what_a_machine_says():
    X, y = iris()
    z = X[:, 0]

    def clipped(estimator, X, y):
        found = estimator.predict(X)
        found[:] = 0
        return -float(np.abs(found - y).mean())

    def flipped(estimator, X, y):
        found = estimator.decision_function(X)
        found *= -1
        return float(found.mean())

    binary, classes = y < 2, {"a": flipped, "b": "accuracy"}
    ours = SVCCV(Cs=CS, gammas=[0.1], scoring=classes, refit=False).fit(X[binary], y[binary])
    assert ours.cv_results_["mean_test_b"].min() > 0.9
    errors = {"a": clipped, "b": "neg_mean_absolute_error"}
    ours = SVRCV(Cs=CS, gammas=[0.1], scoring=errors, refit=False).fit(X, z)
    theirs = GridSearchCV(SVR(gamma=0.1), {"C": CS}, scoring=errors, refit=False).fit(X, z)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_b"], theirs.cv_results_["mean_test_b"], atol=1e-3
    )


@pytest.mark.parametrize("how", ["precomputed", "function"])
def test_an_indefinite_matrix_is_stationary_at_best(how):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)

    def bent(A, B):
        return np.tanh(0.8 * A @ B.T - 1)

    kernel, given = ("precomputed", bent(X, X)) if how == "precomputed" else (bent, X)
    ours = SVCCV(Cs=CS, kernel=kernel).fit(given, y)
    assert (ours.cv_results_["status"] == "stationary").all()
    equal(ours, GridSearchCV(SVC(kernel=kernel), {"C": CS}).fit(given, y))


def test_a_kernel_that_fails_costs_its_own_cells_alone():
    X, y = iris()

    def broken(A, B):
        raise RuntimeError("no such kernel")

    with pytest.warns(FitFailedWarning, match="no such kernel"):
        found = SVCCV(Cs=CS, kernels=[broken, "linear"]).fit(X, y)
    assert (found.cv_results_["status"] == ["failed"] * 4 + ["optimal"] * 4).all()
    assert found.report_["n_failed"] == 20


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_training_set_without_weight_costs_its_own_fold_alone():
    X, y = iris()
    without, rest = np.arange(0, 150, 2), np.arange(1, 150, 2)
    weight = np.ones(150)
    weight[without] = 0
    folds = [(without, rest), (rest, rest)]
    found = SVCCV(Cs=CS, gammas=["scale"], cv=folds, refit=lambda _: 0)
    found.fit(X, y, sample_weight=weight)
    assert np.isnan(found.cv_results_["split0_test_score"]).all()
    assert np.isfinite(found.cv_results_["split1_test_score"]).all()


def test_many_folds_come_in_portions(monkeypatch):
    X, y = iris()
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0)
    settings = {"Cs": CS, "gammas": [0.1], "cv": folds, "tol": TIGHT}
    whole = SVCCV(**settings).fit(X, y)
    seen = []
    solve = _task.Task._solve
    monkeypatch.setattr(_task, "_PORTION", 0)
    monkeypatch.setattr(
        _task.Task,
        "_solve",
        lambda s, k, work, *rest: seen.append(work) or solve(s, k, work, *rest),
    )
    parts = SVCCV(**settings).fit(X, y)
    assert len(seen) > 4
    equal(parts, whole)


def test_a_fit_may_outlive_the_shared_products(monkeypatch):
    from maxmargin import sharing

    monkeypatch.setattr(sharing, "_WORTH", 0.0)
    X, y = iris()
    began, end, errors = threading.Event(), threading.Event(), []

    class Slow(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            began.set()
            end.wait(0.2)

    def work():
        try:
            SVC().fit(X, y)
        except BaseException as error:
            errors.append(error)

    with shared_gram(X):
        sharing._active[0].stores = Slow()
        thread = threading.Thread(target=work)
        thread.start()
        assert began.wait(30)
    thread.join()
    assert not errors


def test_rows_of_a_function_may_be_anything():
    X = ["aa", "bb", "c", "dd", "e", "aa", "c", "bb", "dd", "e"] * 3
    y = [0, 1, 0, 1, 1, 0, 0, 1, 1, 1] * 3

    def alike(A, B):
        return np.array([[float(a == b) + 0.1 * (len(a) == len(b)) for b in B] for a in A])

    for rows in (X, np.array(X), np.array(X, dtype=object)):
        ours = SVCCV(Cs=CS, kernel=alike, tol=TIGHT).fit(rows, y)
        equal(ours, GridSearchCV(SVC(kernel=alike, tol=TIGHT), {"C": CS}).fit(rows, y))


def test_refining_knows_gamma_of_kernels_that_have_it():
    X, y = load_wine(return_X_y=True)
    found = SVCCV(
        Cs=[0.1, 10], kernels=["linear", "rbf"], gammas=[1e-3, 1e-2, 0.1], refine=True,
        scoring="balanced_accuracy",
    ).fit(scale(X), y)  # fmt: skip
    assert found.best_params_["kernel"] == "rbf"
    assert len({p["gamma"] for p in found.cv_results_["params"] if "gamma" in p}) > 3


def test_a_function_may_choose_among_several_metrics():
    X, y = iris()
    metrics = ["accuracy", "f1_macro"]

    def least(results):
        return int(results["mean_test_f1_macro"].argmin())

    ours = SVCCV(Cs=CS, gammas=[0.1], scoring=metrics, refit=least, tol=TIGHT).fit(X, y)
    grid = GridSearchCV(SVC(gamma=0.1, tol=TIGHT), {"C": CS}, scoring=metrics, refit=least)
    assert ours.best_index_ == grid.fit(X, y).best_index_
