"""The reader of LIBSVM model files: what LIBSVM itself writes, and every kind of damage."""

import io
import re

import numpy as np
import pytest
from libsvm import svm, svmutil

from maxmargin.io import LibsvmModel, load_libsvm_model

SVM_TYPES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
KERNELS = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")


def data(n=40, d=4, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.4, 0.0, rng.normal(size=(n, d)))
    X[0] = 0.0
    y = np.arange(n) % n_classes
    X[:, 0] += y
    return X, y


def train(svm_type, kernel, X, y, options="-n 0.3"):
    if kernel == "precomputed":
        X = np.hstack([np.arange(1, len(X) + 1)[:, None], X @ X.T])
    kind, k = SVM_TYPES.index(svm_type), KERNELS.index(kernel)
    given = f"-s {kind} -t {k} -g 0.5 -r 0.25 -d 2 -q {options}"
    problem = svm.svm_problem(y.astype(float), X, isKernel=kernel == "precomputed")
    return svmutil.svm_train(problem, svm.svm_parameter(given))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("svm_type", SVM_TYPES)
def test_reads_what_libsvm_writes(svm_type, kernel, tmp_path):
    X, y = data()
    model = train(svm_type, kernel, X, y)
    path = str(tmp_path / "model")
    svmutil.svm_save_model(path, model)
    read = load_libsvm_model(path)
    assert (read.svm_type, read.kernel_type) == (svm_type, kernel)
    assert read.nr_class == model.nr_class
    pairs = 3 if svm_type in ("c_svc", "nu_svc") else 1
    np.testing.assert_array_equal(read.rho, [model.rho[p] for p in range(pairs)])
    np.testing.assert_array_equal(read.coef, model.get_sv_coef())
    if svm_type in ("c_svc", "nu_svc"):
        np.testing.assert_array_equal(read.label, model.get_labels())
        np.testing.assert_array_equal(read.nr_sv, [model.nSV[c] for c in range(3)])
    else:
        assert read.label is None
        assert read.nr_sv is None
    used = {"polynomial": (2, 0.5, 0.25), "rbf": (None, 0.5, None), "sigmoid": (None, 0.5, 0.25)}
    assert (read.degree, read.gamma, read.coef0) == used.get(kernel, (None, None, None))
    rows = np.array(model.get_sv_indices()) - 1
    if kernel == "precomputed":
        assert read.support_vectors is None
        np.testing.assert_array_equal(read.serial, rows + 1)
    else:
        assert read.serial is None
        width = read.support_vectors.shape[1]
        written = np.array([float(f"{value:.8g}") for value in X.ravel()]).reshape(X.shape)
        np.testing.assert_array_equal(read.support_vectors.toarray(), written[rows, :width])
        assert not X[rows, width:].any()


def test_probability_models(tmp_path):
    X, y = data()
    names = {"c_svc": ("probA", "probB"), "epsilon_svr": ("probA",)}
    for svm_type, expected in names.items():
        path = str(tmp_path / svm_type)
        svmutil.svm_save_model(path, train(svm_type, "rbf", X, y, "-b 1"))
        read = load_libsvm_model(path)
        for name in expected:
            assert len(getattr(read, name)) == (3 if svm_type == "c_svc" else 1)
    X, y = data(n=200)
    path = str(tmp_path / "one")
    svmutil.svm_save_model(path, train("one_class", "rbf", X, y, "-b 1"))
    assert len(load_libsvm_model(path).prob_density_marks) == 10


GOOD = """svm_type c_svc
kernel_type rbf
gamma 0.25
nr_class 2
total_sv 3
rho -1.5e-3
label 1 -1
nr_sv 2 1
SV
0.5 1:1 3:-2.5E-1
.5
-1 2:3 
"""  # noqa: W291  (LIBSVM leaves a space there)


def read(text):
    return load_libsvm_model(io.StringIO(text))


def test_any_order_of_the_header_and_any_line_ending(tmp_path):
    expected = np.array([[1, 0, -0.25], [0, 0, 0], [0, 3, 0]])
    head, tail = GOOD.split("SV\n")
    turned = "\n".join(reversed(head.splitlines())) + "\nSV\n" + tail
    file = tmp_path / "model"
    file.write_bytes(GOOD.replace("\n", "\r\n").encode())
    sources = (io.StringIO(GOOD), io.StringIO(turned + "\n \n"), io.BytesIO(GOOD.encode()), file)
    for source in (*sources, str(file)):
        model = load_libsvm_model(source)
        assert isinstance(model, LibsvmModel)
        np.testing.assert_array_equal(model.support_vectors.toarray(), expected)
        np.testing.assert_array_equal(model.coef, [[0.5], [0.5], [-1]])
        np.testing.assert_array_equal(model.rho, [-0.0015])
        assert repr(model) == "<LIBSVM c_svc, rbf: 3 support vectors>"


DAMAGE = {
    "no such formulation": ("c_svc", "c_svm", 1, "svm_type must be one of"),
    "no such kernel": ("rbf", "rbf linear", 2, "kernel_type must be one of"),
    "unknown field": ("gamma", "gama", 3, "unknown field 'gama'"),
    "field twice": ("gamma 0.25", "svm_type c_svc", 3, "svm_type is given twice"),
    "gamma missing": ("gamma 0.25\n", "", 8, "the header has no gamma"),
    "label missing": ("label 1 -1\n", "", 8, "the header has no label"),
    "two values": ("gamma 0.25", "gamma 0.25 1", 3, "gamma must be one value; got 2"),
    "no number": ("gamma 0.25", "gamma x", 3, "gamma must be finite numbers; got 'x'"),
    "not finite": ("rho -1.5e-3", "rho nan", 6, "rho must be finite numbers; got 'nan'"),
    "Python's number": ("gamma 0.25", "gamma 1_0", 3, "gamma must be finite numbers"),
    "no integer": ("nr_class 2", "nr_class 2.5", 4, "nr_class must be integers; got '2.5'"),
    "one class": ("nr_class 2", "nr_class 1", 9, "nr_class=1 must be at least 2"),
    "absurd count": ("nr_class 2", "nr_class 999999999", 9, "rho must be"),
    "huge count": ("nr_class 2", "nr_class " + "9" * 5000, 4, "nr_class must be integers"),
    "rho for 3 classes": ("rho -1.5e-3", "rho 1 2 3", 6 + 3, "rho must be 1 numbers; got 3"),
    "label twice": ("label 1 -1", "label 1 1", 9, "label names a class twice"),
    "negative count": ("nr_sv 2 1", "nr_sv 4 -1", 9, "negative"),
    "counts disagree": ("nr_sv 2 1", "nr_sv 2 2", 9, "total_sv is 3, but nr_sv sums to 4"),
    "no SV line": ("SV\n", "", 9, "unknown field '0.5'"),
    "nothing after the header": (GOOD[GOOD.index("SV\n") :], "", 8, "ends before the line 'SV'"),
    "truncated": ("-1 2:3 \n", "", 11, "the file ends after 2 of 3 SV"),
    "too many": ("-1 2:3 \n", "-1 2:3\n-1 2:3\n", 13, "more than the 3 SV"),
    "no coefficient": (".5\n", "1:2\n", 11, "must have 1 coefficients"),
    "two coefficients": (".5\n", ".5 .5\n", 11, "must have 1 coefficients"),
    "cut pair": ("2:3", "2:", 12, "must have 1 coefficients, then index:value pairs"),
    "two colons": ("2:3", "2::3", 12, "index:value pairs"),
    "bad value": ("2:3", "2:three", 12, "must be finite numbers; got 'three'"),
    "bad index": ("2:3", "x:3", 12, "must be integers; got 'x'"),
    "index 0": ("2:3", "0:3", 12, "must have indices from 1"),
    "index too large": ("2:3", "3000000000:3", 12, "must have indices from 1"),
    "descending": ("1:1 3:", "3:1 1:", 10, "ascending"),
    "repeated": ("1:1 3:", "3:1 3:", 10, "ascending"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_with_its_line(name):
    old, new, line, what = DAMAGE[name]
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(
        ValueError, match=rf"^not a LIBSVM model, line {line}: .*{re.escape(what)}"
    ) as e:
        read(text)
    assert "\n" not in str(e.value)
    assert len(str(e.value)) < 200


def test_other_files():
    with pytest.raises(ValueError, match="line 1: not a text file"):
        load_libsvm_model(io.BytesIO(b"\x80\x04\x95pickle"))
    with pytest.raises(ValueError, match="line 0: the file ends before the line 'SV'"):
        read("")
    with pytest.raises(ValueError, match="line 1: unknown field 'solver_type'"):
        read("solver_type L2R_LR\n")
    with pytest.raises(FileNotFoundError):
        load_libsvm_model("/no/such/file")


def test_every_truncation_is_noticed():
    whole = GOOD.rstrip()
    for length in range(len(whole)):
        text = whole[:length]
        if text.endswith("2:") or not text.endswith(("-1", "-1 2", "-1 ")):
            with pytest.raises(ValueError, match="not a LIBSVM model, line"):
                read(text)


def test_any_damage_is_a_value_error_or_none():
    rng = np.random.default_rng(0)
    noise = np.frombuffer(b"0159-+.eE: \n\rxN_\x00\x85\xff", dtype=np.uint8)
    for _ in range(2000):
        text = np.frombuffer(GOOD.encode(), dtype=np.uint8).copy()
        at = rng.integers(0, len(text), rng.integers(1, 4))
        text[at] = rng.choice(noise, len(at))
        try:
            model = load_libsvm_model(io.BytesIO(text.tobytes()))
        except ValueError as error:
            assert str(error).startswith("not a LIBSVM model, line ")  # noqa: PT017
        else:
            assert np.isfinite(model.coef).all()


@pytest.mark.parametrize("cell", ["0:0", "0:1.5", "0:-1", "1:1", "0:1 1:2", "0:1e300", ""])
def test_precomputed_wants_serial_numbers(cell):
    text = GOOD.replace("rbf", "precomputed").replace("1:1 3:-2.5E-1", "0:1").replace("2:3", "0:2")
    with pytest.raises(ValueError, match=r"line 11: a support vector .*0"):
        read(text.replace(".5\n", f".5 {cell}\n"))


def test_a_machine_without_support_vectors():
    text = "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 0\nrho -1\nSV\n"
    model = read(text)
    assert model.coef.shape == (0, 1)
    assert model.support_vectors.shape == (0, 0)
    with pytest.raises(ValueError, match="nr_class=3 must be 2 for epsilon_svr"):
        read(text.replace("nr_class 2", "nr_class 3"))
