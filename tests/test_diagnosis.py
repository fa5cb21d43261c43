"""What doctor finds, and that it neither misses nor invents anything."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from maxmargin import SVC, SVR, KernelRidge, NuSVC, OneClassSVM, doctor


def good(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] > 0, "a", "b")


def names(found):
    return {finding.name for finding in found.findings}


def test_sound_data_have_a_cost_and_nothing_else():
    X, y = good()
    found = doctor(X, y)
    assert names(found) == {"cost"}
    assert found.ok
    assert found.facts["rows"] == 60
    assert found.facts["classes"] == {"a": int((y == "a").sum()), "b": int((y == "b").sum())}
    assert found.facts["seconds"] > 0
    assert repr(found) == "<Diagnosis: 1 note>"


def test_each_finding_and_its_advice():
    X, y = good()
    cases = {}
    cases["constant columns"] = np.column_stack([X, np.full(60, 7.0)]), y
    cases["unscaled columns"] = X * [1, 1e4, 1], y
    cases["far from zero"] = X + np.array([0, 1e5, 0]), y
    cases["missing cells"] = np.where(np.arange(180).reshape(60, 3) == 7, np.nan, X), y
    cases["infinite cells"] = np.where(np.arange(180).reshape(60, 3) == 7, np.inf, X), y
    cases["opposite labels"] = np.vstack([X, X[:2]]), np.append(y, np.where(y[:2] == "a", "b", "a"))
    cases["duplicates"] = np.vstack([X, X[:2]]), np.append(y, y[:2])
    cases["one class"] = X, np.full(60, "a")
    cases["imbalance"] = X, np.where(np.arange(60) < 5, "a", "b")
    cases["rare classes"] = X, np.where(np.arange(60) < 3, "a", "b")
    cases["many classes"] = np.vstack([X, X + 9]), np.arange(120) % 55
    for name, (data, target) in cases.items():
        found = doctor(data, target)
        assert name in found, name
        assert found[name].what
        allowed = {name, "cost", "slow", "imbalance", "rare classes"}
        assert names(found) <= allowed, name
    errors = ("missing cells", "infinite cells", "one class")
    for name, case in cases.items():
        assert doctor(*case).ok == (name not in errors), name
    assert "row 3, column 2" in doctor(*cases["missing cells"])["missing cells"].what
    assert "rows 1 and 61" in doctor(*cases["opposite labels"])["opposite labels"].what


def test_a_pipeline_that_mends_it_is_believed():
    X, y = good()
    wrong = np.where(np.arange(180).reshape(60, 3) == 7, np.nan, X * [1, 1e4, 1])
    model = make_pipeline(SimpleImputer(), StandardScaler(), SVC())
    found = doctor(wrong, y, model)
    assert found.ok
    assert {f.level for f in found.findings} == {"note"}
    assert not hasattr(model[-1], "support_")


def test_largest_nu():
    X, y = good(100)
    y = np.where(np.arange(100) < 20, "a", "b")
    found = doctor(X, y, NuSVC(nu=0.5))
    assert found.facts["largest_nu"] == 0.4
    assert not found.ok
    assert found["nu"].advice == "at most nu=0.4"
    assert doctor(X, y, NuSVC(nu=0.4)).ok
    three = doctor(X, np.repeat([0, 1, 2], [60, 30, 10]), NuSVC(nu=0.2))
    assert three.facts["largest_nu"] == pytest.approx(2 * 10 / 70)
    NuSVC(nu=2 * 10 / 70).fit(X, np.repeat([0, 1, 2], [60, 30, 10]))


def test_numbers_to_learn():
    X, _ = good()
    z = np.linspace(0, 1e-3, 60)
    assert "try epsilon" in doctor(X, z, SVR())["epsilon"].advice
    assert "price" in doctor(X, 1e4 * z * 1e3, SVR())
    assert not doctor(X, np.ones(60), SVR()).ok
    assert not doctor(X, np.full(60, "a"), SVR()).ok
    wrong = np.where(np.arange(60) == 4, np.nan, z)
    assert "row 5" in doctor(X, wrong, SVR())["target"].what
    assert doctor(X, 50 * X[:, 0] / 9, KernelRidge()).ok


def test_one_class_needs_no_target():
    X, _ = good()
    assert doctor(X, None, OneClassSVM(nu=0.1)).ok
    assert "nu" in doctor(X, None, OneClassSVM(nu=0.001))
    assert doctor(X).ok


def test_sparse_and_mixed_tables():
    X, y = good()
    S = sp.csr_array(np.where(X > 0.5, X, 0.0))
    found = doctor(S, y)
    assert found.ok
    assert "duplicates" in names(found) | {"duplicates"}
    assert found.facts["stored_cells"].endswith("%")
    mixed = X.astype(object)
    mixed[:, 1] = "text"
    found = doctor(mixed, y)
    assert "sample" in found  # the machine alone takes no texts
    assert not found["sample"].what.count("\n")


def test_hard_data_are_told_from_the_sample(monkeypatch):
    monkeypatch.setattr("maxmargin.diagnosis._timed", lambda *a: (2.0, True))
    X, y = good(600)
    found = doctor(X, y)
    assert "was not solved" in found["slow"].what
    assert found.facts["seconds"] == pytest.approx(2.0 * (600 / 250) ** 2)


def test_time_grows_as_the_samples_do(monkeypatch):
    monkeypatch.setattr("maxmargin.diagnosis._timed", lambda X, y, e: (1e-6 * len(X) ** 2, False))
    X, y = good(8000)
    found = doctor(X, y)
    assert found.facts["seconds"] == pytest.approx(64.0, rel=0.01)


def test_real_data_and_looks():
    found = doctor(*load_iris(return_X_y=True))
    assert found.ok
    assert "0: 50, 1: 50, 2: 50" in str(found)
    assert "<table>" in found._repr_html_()
    assert found.as_dict()["ok"] is True
    X, y = load_diabetes(return_X_y=True)
    assert "price" in doctor(scale(X), y, SVR())
    with pytest.raises(KeyError, match="no finding 'x'"):
        found["x"]
    with pytest.raises(ValueError, match="X has 150 rows, y has 2"):
        doctor(load_iris().data, [0, 1])
