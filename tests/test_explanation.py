"""Explanations add up to the score, and the nearest change changes the decision."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from maxmargin import (
    LSSVM,
    SVC,
    SVDD,
    SVR,
    KernelLogisticRegression,
    KernelRidge,
    NuSVC,
    OneClassSVM,
    explain,
)

IRIS = load_iris(return_X_y=True)
MACHINES = {
    "SVC": SVC(C=10),
    "linear": SVC(kernel="linear"),
    "poly": SVC(kernel="poly", degree=2, coef0=1.0),
    "ovr": SVC(multi_class="ovr"),
    "ovo scores": SVC(decision_function_shape="ovo"),
    "crammer_singer": SVC(multi_class="crammer_singer"),
    "NuSVC": NuSVC(nu=0.1),
    "logistic": KernelLogisticRegression(),
    "LSSVM": LSSVM(),
    "theirs": sklearn.svm.SVC(),
    "their NuSVC": sklearn.svm.NuSVC(nu=0.1),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("classes", [2, 3])
def test_votes_add_up_and_the_change_is_one(name, classes):
    X, y = IRIS
    X, y = (X[50:], y[50:]) if classes == 2 else (X, y)
    model = make_pipeline(StandardScaler(), clone(MACHINES[name])).fit(X, y)
    for row in (0, 30, 77):
        found = explain(model, X[row])
        assert found.prediction == model.predict(X[[row]])[0]
        assert found.votes.vote.sum() + found.bias == pytest.approx(found.score, abs=1e-9)
        np.testing.assert_allclose(found.votes.coefficient * found.votes.kernel, found.votes.vote)
        if classes == 2:
            score = float(model.decision_function(X[[row]])[0])
            assert found.score == pytest.approx(abs(score), rel=1e-6, abs=1e-9)
        change = found.change
        assert model.predict(change.row[None])[0] == change.prediction != found.prediction
        step = model[:-1].transform(change.row[None]) - model[:-1].transform(X[[row]])
        assert np.linalg.norm(step) == pytest.approx(change.distance, rel=1e-6)
        # The decision turns there and not before.
        before = X[row] + (1 - 1e-6) * (change.row - X[row])
        assert model.predict(before[None])[0] == found.prediction


def test_linear_machines_exactly():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC(kernel="linear")).fit(X, y)
    w = np.linalg.norm(model[-1].coef_)
    for row in (0, 20, 300):
        found = explain(model, X[row])
        f = abs(float(model.decision_function(X[[row]])[0]))
        assert found.change.exact
        assert found.change.distance == pytest.approx(f / w, rel=1e-4)
        assert found.distance == pytest.approx(f / w, rel=1e-6)
        assert found.margin_distance == pytest.approx((f - 1) / w, rel=1e-6, abs=1e-9)


def test_the_change_is_the_nearest_on_a_grid():
    """In the plane a fine grid knows the answer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.sign(np.hypot(*X.T) - 1.1 + 0.1 * rng.normal(size=80)).astype(int)
    model = SVC(C=10, gamma=1.0).fit(X, y)
    for x in X[:12]:
        found = explain(model, x).change
        grid = np.stack(np.meshgrid(*[np.linspace(-1.2, 1.2, 241)] * 2), -1).reshape(-1, 2) + x
        other = model.predict(grid) != model.predict(x[None])[0]
        if other.any():
            nearest = np.sqrt(np.square(grid[other] - x).sum(axis=1).min())
            assert found.distance <= nearest + 1e-6


def test_regression_one_class_and_texts():
    X, z = load_diabetes(return_X_y=True)
    for machine in (SVR(C=100), KernelRidge(kernel="rbf"), sklearn.svm.SVR()):
        model = make_pipeline(StandardScaler(), machine).fit(X, z)
        found = explain(model, X[3])
        assert found.rival is None
        assert found.score == pytest.approx(float(model.predict(X[[3]])[0]))
        assert (found.change, found.unchanged) == (None, "a regression decides nothing")
    model = OneClassSVM(nu=0.2).fit(IRIS[0])
    for row in (0, 41):
        found = explain(model, IRIS[0][row])
        assert found.prediction == model.predict(IRIS[0][[row]])[0]
        assert model.predict(found.change.row[None])[0] == -found.prediction
    texts = np.array([["u"], ["v"], ["u"], ["w"]], dtype=object)
    coded = make_pipeline(OneHotEncoder(sparse_output=False), SVC()).fit(texts, [0, 1, 0, 1])
    found = explain(coded, texts[1])
    assert found.change is None
    assert "not numbers" in found.unchanged
    with pytest.raises(TypeError, match="SVDD"):
        explain(SVDD().fit(X), X[0])


def test_rows_of_the_training_data_are_named():
    X, y = IRIS
    model = SVC().fit(X, y)
    found = explain(model, X[60], top=3, names=("a", "b", "c", "d"))
    np.testing.assert_allclose(found.votes.kernel, model.kernel_(X[found.votes.row], X[[60]])[:, 0])
    assert (np.diff(np.abs(found.votes.vote)) <= 0).all()
    assert f"{len(found.votes) - 3} more vote" in str(found)
    told = found.as_dict()
    assert len(told["votes"]) == 3
    assert told["votes"][0]["training_row"] == found.votes.row[0] + 1
    assert set(told["nearest_change"]["features"]) <= {"a", "b", "c", "d"}
    assert "<pre>" in found._repr_html_()


def test_sparse_rows_and_wrong_use():
    X, y = IRIS
    S = sp.csr_array(np.where(X > 1, X, 0.0))
    model = SVC().fit(S, y)
    found = explain(model, S[[70]])
    assert found.prediction == model.predict(S[[70]])[0]
    assert model.predict(sp.csr_array(found.change.row[None]))[0] != found.prediction
    with pytest.raises(ValueError, match="takes one row; got 150"):
        explain(model, S)
    with pytest.raises(TypeError, match="Python function"):
        explain(SVC(kernel=lambda A, B: A @ B.T).fit(X, y), X[0])
    matrix = SVC(kernel="precomputed").fit(X @ X.T, y)
    found = explain(matrix, (X @ X.T)[3])
    assert found.change is None
    assert found.votes.vote.sum() + found.bias == pytest.approx(found.score)


def test_models_of_data_frames_are_explained_by_their_names():
    """Warnings are errors: the rows inside have no names, and nobody is to blame for that."""
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = SVC().fit(X, y)
    told = [explain(model, row) for row in (X.iloc[70], X.iloc[[70]], X.iloc[70].to_numpy())]
    assert len({str(one) for one in told}) == 1
    assert told[0].names == tuple(X.columns)
    table = pandas.DataFrame({"size": X.iloc[:, 0], "kind": ["a", "b"] * 75})
    columns = ColumnTransformer(
        [("s", StandardScaler(), ["size"]), ("k", OneHotEncoder(), ["kind"])]
    )
    mixed = make_pipeline(columns, SVC()).fit(table, y)
    assert explain(mixed, table.iloc[0]).score == explain(mixed, table.iloc[[0]]).score


def test_an_imputer_does_not_hide_the_nearest_change():
    X, y = load_iris(return_X_y=True)
    X = X[y > 0].copy()
    X[3, 1] = np.nan
    model = make_pipeline(SimpleImputer(), StandardScaler(), SVC()).fit(X, y[y > 0])
    told = explain(model, X[5])
    assert model.predict([told.change.row])[0] != told.prediction
