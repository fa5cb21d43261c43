"""Models that travel: skops, joblib and LIBSVM's text, whole, checked, and safe to open."""

import io
import itertools
import json
import time
import zipfile

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.datasets
import sklearn.svm
import skops.io
from libsvm import svm, svmutil
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, scale
from threadpoolctl import threadpool_limits

import maxmargin
from maxmargin import (
    LSSVM,
    SVC,
    SVDD,
    SVR,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    LSSVMRegressor,
    NuSVC,
    NuSVR,
    OneClassSVM,
    certify,
    kernels,
    load,
    save,
)
from maxmargin.certificate import Status
from maxmargin.io import LibsvmModel, load_libsvm_model, open_model, save_libsvm_model
from maxmargin.io.exchange import from_libsvm, to_libsvm
from maxmargin.io.models import describe, fingerprint
from maxmargin.io.safe import ALLOWED

IRIS = sklearn.datasets.load_iris(return_X_y=True)
DIABETES = sklearn.datasets.load_diabetes(return_X_y=True)
CLASSES = ("iris", "digits", "wine", "breast_cancer")

MACHINES = {
    "SVC": SVC(kernel=kernels.RBF(1.0) + 0.1 * kernels.Linear() * kernels.Matern() ** 2),
    "probability": SVC(probability=True, class_weight={0: 1.0, 1: 2.0, 2: 1.0}),
    "crammer_singer": SVC(multi_class="crammer_singer", kernel="poly"),
    "NuSVC": NuSVC(nu=0.2),
    "other kernels": SVC(kernel=kernels.Laplacian() + kernels.Chi2() * kernels.Sigmoid(0.1)),
    "histogram": SVC(kernel=kernels.HistogramIntersection()),
    "OneClassSVM": OneClassSVM(nu=0.2),
    "SVDD": SVDD(nu=0.2),
    "LSSVM": LSSVM(),
    "logistic": KernelLogisticRegression(),
    "SVR": SVR(),
    "NuSVR": NuSVR(),
    "KernelRidge": KernelRidge(kernel="rbf"),
    "KernelRidgeCV": KernelRidgeCV(kernel="laplacian"),
    "LSSVMRegressor": LSSVMRegressor(),
    "pipeline": make_pipeline(StandardScaler(), SVC(C=np.float64(3.0), gap_tol=1e-6)),
    "float32": SVC(record_every=5),
    "sparse": NuSVC(nu=0.3),
    "theirs": sklearn.svm.SVC(),
    "their regressor": make_pipeline(StandardScaler(), sklearn.svm.NuSVR()),
}
NUMBERS = ("SVR", "NuSVR", "KernelRidge", "KernelRidgeCV", "LSSVMRegressor", "their regressor")


def fitted(name):
    X, y = (A[:120] for A in DIABETES) if name in NUMBERS else IRIS
    X = X.astype(np.float32) if name == "float32" else sp.csr_array(X) if name == "sparse" else X
    return sklearn.base.clone(MACHINES[name]).fit(X, y), X, y


@pytest.mark.parametrize("ending", ["skops", "joblib"])
@pytest.mark.parametrize("name", MACHINES)
def test_a_saved_model_is_the_same(name, ending, tmp_path):
    model, X, y = fitted(name)
    path = tmp_path / f"m.{ending}"
    save(model, path, X, y)
    held = open_model(path, trust_pickle=ending == "joblib")
    np.testing.assert_array_equal(held.model.predict(X), model.predict(X))
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(held.model.decision_function(X), model.decision_function(X))
    assert held.about["data"] == fingerprint(X, y)
    if not name.startswith("their"):
        before = model[-1] if hasattr(model, "steps") else model
        assert type(held.machine.certificate_.status) is Status
        assert repr(held.machine.certificate_) == repr(before.certificate_)
        assert held.about["certificate"]["status"] == before.certificate_.status
        again = held.machine.certify(held.prepared(X), y)
        assert again.status == before.certificate_.status
    saved_again = tmp_path / f"n.{ending}"
    save(held.model, saved_again)
    np.testing.assert_array_equal(
        load(saved_again, trust_pickle=ending == "joblib").predict(X), model.predict(X)
    )


def test_a_transformer_and_a_pipeline_with_texts(tmp_path):
    X, y = IRIS
    pca = KernelPCA(2, kernel="rbf").fit(X)
    save(pca, tmp_path / "p.skops")
    np.testing.assert_array_equal(load(tmp_path / "p.skops").transform(X), pca.transform(X))
    table = X[:, :3].astype(object)
    table[:, 2] = [("u", "v", None)[k % 3] for k in range(150)]
    numbers = Pipeline([("fill", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    codes = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    prepare = ColumnTransformer([("n", numbers, [0, 1]), ("c", codes, [2])])
    names = np.array(["a", "bb", "ccc"])[y]
    model = make_pipeline(prepare, SVC()).fit(table, names)
    save(model, tmp_path / "m.skops", table, names)
    held = open_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(held.model.predict(table), model.predict(table))
    assert held.about["data"]["labels"] == {"a": 50, "bb": 50, "ccc": 50}


def test_a_pipeline_of_texts(tmp_path):
    texts = ["the team won the match", "a goal in the last match", "the price of a stock",
             "the bank sold its stock"] * 3  # fmt: skip
    topics = ["sport", "sport", "money", "money"] * 3
    for words in (TfidfVectorizer(ngram_range=(1, 2)), CountVectorizer(stop_words="english")):
        model = make_pipeline(words, SVC(kernel="linear")).fit(texts, topics)
        save(model, tmp_path / "m.skops", texts, topics)
        again = load(tmp_path / "m.skops")
        new = ["a match", "stock of the bank", "nothing known"]
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
        np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
    words = TfidfVectorizer(tokenizer=str.split, token_pattern=None)  # a function travels not
    with pytest.raises(ValueError, match="holds no"):
        save(make_pipeline(words, SVC()).fit(texts, topics), tmp_path / "n.skops")


def test_the_fingerprint_tells_data_apart():
    X, y = IRIS
    same = fingerprint(np.asfortranarray(X), y.astype(float))["hash"]
    assert same == fingerprint(X, y)["hash"]
    changed = X.copy()
    changed[149, 3] = np.nextafter(changed[149, 3], 9)
    hashes = {
        fingerprint(A, b)["hash"] for A, b in ((X, y), (changed, y), (X, 1 - y), (X[::-1], y))
    }
    assert len(hashes) == 4
    S = sp.csr_array(X)
    wide = sp.csr_array((S.data, S.indices.astype(np.int64), S.indptr.astype(np.int64)), (150, 9))
    assert fingerprint(S, y)["hash"] == fingerprint(wide, y)["hash"]


def test_what_a_file_says_is_plain_json():
    X, y = IRIS
    about = describe(make_pipeline(StandardScaler(), SVC()).fit(X, y), X, y)
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    assert {"maxmargin", "scikit-learn", "numpy", "scipy", "python"} <= set(about["versions"])


# ---- refused ----------------------------------------------------------------------------------


class Evil:
    """Would leave a trace if anything in the file were executed."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_pickles_are_opened_only_when_trusted(tmp_path):
    trace = tmp_path / "trace"
    joblib.dump(Evil(trace), tmp_path / "m.joblib")
    with pytest.raises(ValueError, match=r"can execute any code.*--trust-pickle"):
        load(tmp_path / "m.joblib")
    assert not trace.exists()
    joblib.dump({"a": 1}, tmp_path / "n.joblib")
    with pytest.raises(ValueError, match="holds no model, but a dict"):
        load(tmp_path / "n.joblib", trust_pickle=True)
    joblib.dump(sklearn.svm.SVC().fit(*IRIS), tmp_path / "s.pkl")
    assert load(tmp_path / "s.pkl", trust_pickle=True).score(*IRIS) > 0.9


def test_foreign_classes_are_refused_by_name(tmp_path):
    X, y = IRIS
    path = tmp_path / "m.skops"
    skops.io.dump(LogisticRegression(max_iter=500).fit(X, y), path)
    with pytest.raises(ValueError, match=r"refused: it holds sklearn\.linear_model\._logistic"):
        load(path)
    skops.io.dump(make_pipeline(FunctionTransformer(np.log1p), SVC()).fit(X, y), path)
    with pytest.raises(ValueError, match="which is not on the list"):
        load(path)
    with pytest.raises(ValueError, match="holds no"):
        save(make_pipeline(FunctionTransformer(np.log1p), SVC()).fit(X, y), tmp_path / "n.skops")
    with pytest.raises(ValueError, match="skops"):
        save(SVC(kernel=lambda A, B: A @ B.T).fit(X, y), tmp_path / "n.skops")
    assert not (tmp_path / "n.skops").exists()
    skops.io.dump({"a": 1}, path)
    with pytest.raises(ValueError, match="it holds no model, but a dict"):
        load(path)


def schema_changed(source, target, old, new):
    with zipfile.ZipFile(source) as a, zipfile.ZipFile(target, "w") as b:
        for name in a.namelist():
            content = a.read(name)
            if name == "schema.json":
                assert old in content
                content = content.replace(old, new, 1)
            b.writestr(name, content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"maxmargin.estimators.svc"', b'"maxmargin.estimators.svc.evil"'),
        (b'"__class__": "SVC"', b'"__class__": "_SupportVectorClassifier"'),
        (b'"__class__": "RBF"', b'"__class__": "Callable"'),
        (b'"maxmargin.kernels"', b'"os"'),
        (b'"ObjectNode"', b'"FunctionNode"'),
        (b'"ObjectNode"', b'"MethodNode"'),
        (b'"ObjectNode"', b'"ConstructorFromReduceNode"'),
        (b'"__class__": "str",', b'"__class__": "eval",'),
        (b'"numpy"', b'"numpy.testing"'),
    ],
)
def test_the_list_is_exact(tmp_path, old, new):
    save(SVC().fit(*IRIS), tmp_path / "m.skops")
    schema_changed(tmp_path / "m.skops", tmp_path / "n.skops", old, new)
    with pytest.raises(ValueError, match=r"is refused: it holds .* not on the list"):
        load(tmp_path / "n.skops")


def test_the_list_names_what_exists():
    for name in sorted(set().union(*ALLOWED.values())):
        module, _, cls = name.rpartition(".")
        __import__(module)
        assert hasattr(__import__(module, fromlist=[cls]), cls), name
        assert not callable(getattr(__import__(module, fromlist=[cls]), cls)) or isinstance(
            getattr(__import__(module, fromlist=[cls]), cls), type
        )


def test_arrays_that_do_not_fit_together_are_refused(tmp_path):
    """What a crafted file could make C++ read beyond its arrays."""
    X, y = IRIS

    def cut(model):
        model.support_vectors_ = model.support_vectors_[:-1]

    def narrow(model):
        model.support_vectors_ = np.ascontiguousarray(model.support_vectors_[:, :2])

    def far(model):
        model.support_vectors_.indices[3] = 10**6

    for change, data in ((cut, X), (narrow, X), (far, sp.csr_array(X))):
        model = SVC().fit(data, y)
        change(model)
        skops.io.dump(model, tmp_path / "m.skops")
        with pytest.raises(ValueError, match=r"refused|damaged"):
            load(tmp_path / "m.skops")


def test_a_file_that_would_unpack_to_much_more_is_refused(tmp_path):
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 10**8)
    with pytest.raises(ValueError, match="would unpack to 100000000 bytes"):
        load(path)


def crafted(source, target, change):
    """A file with another schema, and some members more or other."""
    with zipfile.ZipFile(source) as a, zipfile.ZipFile(target, "w") as b:
        found = {name: a.read(name) for name in a.namelist()}
        schema = json.loads(found["schema.json"])
        change(schema, found)
        found["schema.json"] = json.dumps(schema).encode()
        for name, content in found.items():
            b.writestr(name, content)


def test_a_member_is_read_once(tmp_path):
    """One megabyte named a thousand times would be a gigabyte."""
    save(SVC().fit(*IRIS), tmp_path / "m.skops")

    def repeat(schema, members):
        state = schema["content"]["content"]
        state["more_"] = {**state["support_"], "__id__": 7}

    crafted(tmp_path / "m.skops", tmp_path / "n.skops", repeat)
    with pytest.raises(ValueError, match=r"is refused: it reads .*npy more than once"):
        load(tmp_path / "n.skops")


def test_archives_within_an_archive_are_counted(tmp_path):
    X, y = IRIS
    save(SVC().fit(sp.csr_array(X), y), tmp_path / "m.skops")
    assert load(tmp_path / "m.skops").predict(sp.csr_array(X)).tolist()

    def swell(schema, members):
        inner = io.BytesIO()
        sp.save_npz(inner, sp.csr_array((3 * 10**6, 1)))
        name = next(name for name in members if name.endswith(".npz"))
        members[name] = inner.getvalue()

    crafted(tmp_path / "m.skops", tmp_path / "n.skops", swell)
    with pytest.raises(ValueError, match=r"it would unpack to \d{8} bytes"):
        load(tmp_path / "n.skops")


def test_nested_lists_make_no_large_array(tmp_path):
    """Ten lists of ten references each would be 10^10 cells."""
    path = tmp_path / "m.skops"
    model = SVC().fit(*IRIS)
    model.classes_ = np.array([["a"], ["b"], ["c"]], dtype=object)
    skops.io.dump(model, path)
    with pytest.raises(ValueError, match="more than one axis"):
        load(path)


def damaged(content, rng):
    cells = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(0, len(cells)))
        if rng.random() < 0.8:
            cells[at] = int(rng.integers(0, 256))
        elif rng.random() < 0.5:
            del cells[at : at + int(rng.integers(1, 50))]
        else:
            del cells[max(at, 1) :]
    return bytes(cells)


def test_any_damage_to_a_skops_file_is_an_error_or_none(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "m.skops"
    X, y = IRIS[0][40:60], IRIS[1][40:60]
    save(SVC().fit(X, y), path, X, y)
    whole, schema = path.read_bytes(), None
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        schema = members.pop("schema.json")
    limit, refused = time.monotonic() + 60, 0
    for k in range(1000):
        if k % 2:
            path.write_bytes(damaged(whole, rng))
        else:  # with sums that are right, as somebody who means harm would write it
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, damaged(content, rng) if rng.random() < 0.2 else content)
                archive.writestr("schema.json", damaged(schema, rng))
            path.write_bytes(buffer.getvalue())
        try:
            load(path).predict(X)
        except (ValueError, AttributeError, TypeError) as error:
            refused += 1
            if not isinstance(error, ValueError):  # from predict: the file itself was sound
                assert k % 2 == 0
        assert time.monotonic() < limit
    assert refused > 800


# ---- LIBSVM's text ----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def one_thread_of_libsvm():
    """Its threads wait for each other at every row, milliseconds on a machine that is busy."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def predicted(path, X):
    """LIBSVM's own predictions. (svmutil.svm_predict keeps too little room for NuSVC's scores.)"""
    model = svmutil.svm_load_model(str(path))
    return np.array([svm.libsvm.svm_predict(model, svm.gen_svm_nodearray(x)[0]) for x in X])


def split(name):
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:200]  # LIBSVM takes its time
    X, y = scale(X)[order], y[order]
    return X, y.astype(np.int64) if name != "diabetes" else y


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(
    "machine",
    [SVC(C=10), SVC(kernel="linear"), SVC(kernel="poly", degree=2, coef0=1),
     SVC(kernel="sigmoid", gamma=0.01), NuSVC(nu=0.05), OneClassSVM(nu=0.1)],
    ids=["rbf", "linear", "poly", "sigmoid", "nu", "one-class"],
)  # fmt: skip
def test_libsvm_predicts_with_our_files_as_we_do(name, machine, tmp_path):
    X, y = split(name)
    half = len(y) // 2
    model = sklearn.base.clone(machine).fit(X[:half], y[:half])
    path = tmp_path / "m.model"
    save(model, path)
    np.testing.assert_array_equal(predicted(path, X), model.predict(X))
    again = load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-10)


@pytest.mark.parametrize("machine", [SVR(C=10), NuSVR(C=10, kernel="linear")])
def test_libsvm_predicts_numbers_with_our_files(machine, tmp_path):
    X, y = split("diabetes")
    model = sklearn.base.clone(machine).fit(X, y)
    save(model, tmp_path / "m.model")
    np.testing.assert_allclose(predicted(tmp_path / "m.model", X), model.predict(X), rtol=1e-10)
    np.testing.assert_allclose(load(tmp_path / "m.model").predict(X), model.predict(X), rtol=1e-10)


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
@pytest.mark.parametrize("options", ["-s 0 -c 10", "-s 0 -t 1 -d 2 -r 1", "-s 2 -n 0.1", "-s 3"])
def test_we_predict_with_libsvms_files_as_svm_predict_does(name, options, tmp_path):
    X, y = split(name)
    if name == "diabetes":
        options = options.replace("-s 0", "-s 4")
    parameter = svm.svm_parameter(f"{options} -q")
    problem = svm.svm_problem(y.astype(float), X)
    theirs = svmutil.svm_train(problem, parameter)
    path = tmp_path / "m.model"
    svmutil.svm_save_model(str(path), theirs)
    classify = "-s 0" in options or "-s 2" in options
    expected = predicted(path, X)
    for data in (X, sp.csr_array(X)):
        ours = load(path).predict(data)
        if classify:
            np.testing.assert_array_equal(ours, expected)
        else:
            np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
    save(load(path), tmp_path / "n.model")
    first, second = load_libsvm_model(path), load_libsvm_model(tmp_path / "n.model")
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_array_equal(first.rho, second.rho)
    assert abs(first.support_vectors - second.support_vectors).max() == 0


def test_probabilities_have_libsvms_form(tmp_path):
    X, y = split("breast_cancer")
    model = SVC(probability=True).fit(X, y)
    save(model, tmp_path / "m.model")
    theirs = svmutil.svm_load_model(str(tmp_path / "m.model"))
    _, _, values = svmutil.svm_predict(y.astype(float), X, theirs, "-q -b 1")
    labels = theirs.get_labels()
    order = [labels.index(c) for c in model.classes_]
    np.testing.assert_allclose(np.array(values)[:, order], model.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(
        load(tmp_path / "m.model").predict_proba(X)[:, ::1], model.predict_proba(X), atol=1e-9
    )


def test_models_of_scikit_learn_become_libsvms(tmp_path):
    for name, machine in (("iris", sklearn.svm.SVC()), ("breast_cancer", sklearn.svm.NuSVC())):
        X, y = split(name)
        model = machine.fit(X, y)
        save(model, tmp_path / "m.model")
        np.testing.assert_array_equal(predicted(tmp_path / "m.model", X), model.predict(X))


def test_a_converted_model_is_proven(tmp_path):
    X, y = split("iris")
    save(SVC(C=10).fit(X, y), tmp_path / "m.model")
    assert certify(str(tmp_path / "m.model"), X, y, C=10).status == "optimal"
    assert certify(str(tmp_path / "m.model"), X, y, C=5).status is None


def test_what_libsvms_file_has_no_place_for(tmp_path):
    X, y = IRIS
    names = np.array(["a", "b", "c"])[y]
    cases = {
        "labels are integers": SVC().fit(X, names),
        "kernels linear, polynomial": SVC(kernel=kernels.Matern()).fit(X, y),
        "decides by pairs": SVC(multi_class="ovr").fit(X, y),
        "holds a fitted SVC": KernelRidge().fit(X, y),
        "not a pipeline": make_pipeline(StandardScaler(), SVC()).fit(X, y),
    }
    for said, model in cases.items():
        with pytest.raises(ValueError, match=said):
            save(model, tmp_path / "m.model")
    assert not (tmp_path / "m.model").exists()
    matrix = to_libsvm(SVC(kernel="precomputed").fit(X @ X.T, y))
    assert matrix.serial.min() >= 1
    with pytest.raises(ValueError, match="precomputed kernel"):
        from_libsvm(matrix)


def test_ties_go_as_in_libsvm(tmp_path):
    """Three machines that each class wins once: the first label of the file wins."""
    rows = sp.csr_array(np.array([[1.0], [1.0], [1.0]]))
    for labels in itertools.permutations((3, 7, 9)):
        file = LibsvmModel(
            svm_type="c_svc", kernel_type="linear", nr_class=3, label=np.array(labels),
            rho=np.array([-1.0, 1.0, -1.0]), nr_sv=np.array([1, 1, 1]), coef=np.zeros((3, 2)),
            support_vectors=rows,
        )  # fmt: skip
        save_libsvm_model(file, tmp_path / "m.model")
        model = from_libsvm(file)
        model.dual_coef_.data[:] = 0
        assert predicted(tmp_path / "m.model", [[1.0]]).tolist() == [labels[0]]


def test_numbers_are_written_in_full(tmp_path):
    value = np.nextafter(0.1, 1)
    model = LibsvmModel(svm_type="epsilon_svr", kernel_type="rbf", gamma=value, nr_class=2,
                        rho=np.array([value]), coef=np.array([[value]]),
                        support_vectors=sp.csr_array([[value, 0.0]]))  # fmt: skip
    save_libsvm_model(model, tmp_path / "m")
    read = load_libsvm_model(tmp_path / "m")
    assert (read.gamma, read.rho[0], read.coef[0, 0]) == (value, value, value)
    assert read.support_vectors.data.tolist() == [value]


def test_errors_of_use(tmp_path):
    with pytest.raises(ValueError, match=r"the extension does not tell the format"):
        save(SVC(), tmp_path / "m.txt")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "m.skops")
    with pytest.raises(ValueError, match="save takes an estimator"):
        save("x", tmp_path / "m.skops")
    (tmp_path / "m.skops").write_text("not a zip")
    with pytest.raises(ValueError, match="damaged or no skops file"):
        load(tmp_path / "m.skops")
    with pytest.raises(FileExistsError, match="--force"):
        save(SVC().fit(*IRIS), tmp_path / "m.skops", overwrite=False)
    assert maxmargin.load is load


@pytest.mark.parametrize("model", [SVC(), make_pipeline(StandardScaler(), SVC())])
def test_what_is_not_fitted_is_not_saved(model, tmp_path):
    with pytest.raises(NotFittedError):
        maxmargin.save(model, tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())
