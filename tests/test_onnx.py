"""ONNX: what onnxruntime computes is what we compute, on every bundled set."""

import numpy as np
import onnx
import pytest
import scipy.sparse as sp
import sklearn.datasets
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from maxmargin import (
    SVC,
    SVDD,
    SVR,
    KernelLogisticRegression,
    KernelRidge,
    NuSVC,
    NuSVR,
    OneClassSVM,
    kernels,
    load,
    save,
)
from maxmargin.io.onnx import to_onnx
from maxmargin.io.ranges import Ranges

onnxruntime = pytest.importorskip("onnxruntime", reason="no wheels for Intel Macs")

CLASSES = ("iris", "digits", "wine", "breast_cancer")
CLASSIFIERS = {
    "SVC": SVC(C=10),
    "linear": SVC(kernel="linear"),
    "poly": SVC(kernel="poly", degree=2, coef0=1.0),
    "sigmoid": SVC(kernel="sigmoid", gamma=0.01),
    "ovr": SVC(multi_class="ovr"),
    "ovo scores": SVC(decision_function_shape="ovo"),
    "break_ties": SVC(break_ties=True),
    "crammer_singer": SVC(multi_class="crammer_singer"),
    "NuSVC": NuSVC(nu=0.1),
    "logistic": KernelLogisticRegression(),
}
REGRESSORS = {
    "SVR": SVR(C=100),
    "NuSVR": NuSVR(C=100, kernel="linear"),
    "KernelRidge": KernelRidge(kernel="rbf"),
    "linear ridge": KernelRidge(),
    "laplacian ridge": KernelRidge(kernel="laplacian", gamma=0.1),
}


def data(name):
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X, y


def bound(model):
    """The promise: 1e-5 (1 + sum |beta|)."""
    machine = model[-1] if hasattr(model, "steps") else model
    return 1e-5 * (1 + np.abs(machine._columns()).sum())


def there_and_back(model, tmp_path):
    path = tmp_path / "m.onnx"
    save(model, path)
    onnx.checker.check_model(str(path))
    return load(path)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("machine", CLASSIFIERS)
def test_classifiers_on_the_bundled_sets(name, machine, tmp_path):
    X, y = data(name)
    model = make_pipeline(StandardScaler(), clone(CLASSIFIERS[machine])).fit(X, y)
    found = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    if machine == "logistic":
        off = np.abs(found.predict_proba(X) - model.predict_proba(X)).max()
    else:
        off = np.abs(found.decision_function(X) - model.decision_function(X)).max()
    assert off <= bound(model)


@pytest.mark.parametrize("machine", REGRESSORS)
def test_regressors(machine, tmp_path):
    X, y = data("diabetes")
    model = make_pipeline(StandardScaler(), clone(REGRESSORS[machine])).fit(X, y)
    found = there_and_back(model, tmp_path)
    assert np.abs(found.predict(X) - model.predict(X)).max() <= bound(model)


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_one_class(name, tmp_path):
    X, _ = data(name)
    model = make_pipeline(StandardScaler(), OneClassSVM(nu=0.2)).fit(X)
    found, scores = there_and_back(model, tmp_path), model.decision_function(X)
    off = np.abs(found.decision_function(X) - scores).max()
    assert off <= bound(model)
    on = scores == 0  # support vectors on the boundary: inside for both
    assert on.any()
    assert (found.predict(X)[on] == 1).all()
    clear = np.abs(scores) > bound(model)
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(found.predict(X)[clear], model.predict(X)[clear])


ATOMS = {
    "matern": kernels.Matern(0.5) + kernels.Matern(1.5) + kernels.Matern(2.5, length_scale=2.0),
    "laplacian": kernels.Laplacian(0.2),
    "chi2": kernels.Chi2(0.3),
    "histogram": kernels.HistogramIntersection(),
    "algebra": 2.0 * (kernels.RBF(0.3) + 0.1 * kernels.Linear()) ** 2 * kernels.Polynomial(2),
    "sigmoid": kernels.Sigmoid(0.01, coef0=0.1) + kernels.RBF(1.0),
}


@pytest.mark.parametrize("name", ATOMS)
def test_every_kernel_object(name, tmp_path):
    X, y = data("iris")
    model = SVC(kernel=ATOMS[name]).fit(X, y)
    found = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    off = np.abs(found.decision_function(X) - model.decision_function(X)).max()
    assert off <= bound(model)


def test_labels_of_any_type(tmp_path):
    X, y = data("iris")
    for labels in (np.array(["a", "bb", "é"])[y], y - 1, y == 1, y.astype(float)):
        model = SVC().fit(X, labels)
        found = there_and_back(model, tmp_path).predict(X)
        np.testing.assert_array_equal(found, model.predict(X))
        assert found.dtype.kind == labels.dtype.kind


def test_probabilities(tmp_path):
    X, y = data("breast_cancer")
    model = make_pipeline(StandardScaler(), SVC(probability=True)).fit(X, y)
    found = there_and_back(model, tmp_path)
    np.testing.assert_allclose(found.predict_proba(X), model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert not hasattr(found, "decision_function")
    X, y = data("iris")
    with pytest.raises(ValueError, match="couples the probabilities of pairs"):
        save(SVC(probability=True).fit(X, y), tmp_path / "m.onnx")
    each = SVC(probability=True, multi_class="ovr").fit(X, y)
    np.testing.assert_allclose(
        there_and_back(each, tmp_path).predict_proba(X), each.predict_proba(X), atol=1e-5
    )


def test_several_targets_sparse_rows_and_other_scalers(tmp_path):
    X, y = data("diabetes")
    Y = np.column_stack([y, -y])
    ridge = make_pipeline(MinMaxScaler(), KernelRidge(kernel="rbf", alpha=[1.0, 2.0])).fit(X, Y)
    assert np.abs(there_and_back(ridge, tmp_path).predict(X) - ridge.predict(X)).max() < 1e-2
    X, y = data("iris")
    S = sp.csr_array(np.where(X > 3, X, 0.0))
    model = SVC().fit(S, y)
    np.testing.assert_array_equal(there_and_back(model, tmp_path).predict(S), model.predict(S))
    scaled = make_pipeline(Ranges(lower=0, upper=1), SVC()).fit(X, y)
    np.testing.assert_array_equal(there_and_back(scaled, tmp_path).predict(X), scaled.predict(X))


def test_float64_graphs_agree_to_rounding():
    X, y = data("wine")  # unscaled: float32 rows would not do
    model = SVC(C=100).fit(X, y)
    graph = to_onnx(model, double=True).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    label, scores = session.run(None, {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-9)


def test_a_silent_pair_does_not_vote(tmp_path):
    X, y = data("iris")
    with pytest.warns(UserWarning, match="too small for the classes"):
        model = NuSVC(nu=0.001, kernel="linear").fit(np.round(X), y)
    assert model._silent().any()
    found = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    np.testing.assert_allclose(found.decision_function(X), model.decision_function(X), atol=1e-4)


def test_what_onnx_cannot_say(tmp_path):
    X, y = data("iris")
    for said, model in {
        "ONNX files hold a SVC": SVDD().fit(X),
        "no operators for kernel": SVC(kernel="precomputed").fit(X @ X.T, y),
    }.items():
        with pytest.raises(ValueError, match=said):
            save(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_damaged_files_are_refused(tmp_path):
    save(SVC().fit(*data("iris")), tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    for cut in (0, 1, len(content) // 2):
        (tmp_path / "n.onnx").write_bytes(content[:cut] + b"\xff" * 5)
        with pytest.raises(ValueError, match="damaged or no ONNX file"):
            load(tmp_path / "n.onnx")
    with pytest.raises(ValueError, match="save takes an estimator"):
        save(load(tmp_path / "m.onnx"), tmp_path / "m.skops")
