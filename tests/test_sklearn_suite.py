"""scikit-learn's installed tests, with our classes in place of its own (sklearn_suite/swap.py).

They run in a subprocess, without our warning filters. What fails is exactly what is listed here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

SUITE = Path(sklearn.__file__).parent
FILES = {
    "test_svm.py": "svm",
    "test_sparse.py": "svm",
    "test_bounds.py": "svm",
    "test_kernel_ridge.py": "",
    "test_kernel_pca.py": "decomposition",
}

DEPRECATION = "demands scikit-learn's deprecation of `probability`"

# A test, or all parametrisations of one, that may fail and must: its reason. Keep it short.
KNOWN_FAILURES = {
    "test_svm.py::test_tweak_params": "writes the private `_dual_coef_`",
    "test_svm.py::test_gamma_scale": "reads the private `_gamma`",
    "test_svm.py::test_svc_raises_error_internal_representation": "writes the private `_n_support`",
    "test_svm.py::test_probability_raises_futurewarning": DEPRECATION,
    "test_svm.py::test_svc_nusvc_probA_probB_deprecated": DEPRECATION,
    "test_svm.py::test_svr_errors": "trains on a 1x1 kernel matrix of 2 rows: we refuse it at fit",
    "test_svm.py::test_libsvm_convergence_warnings": "solved in 1 step: no warning at max_iter=2",
}


def run(files, folder):
    """pytest's exit code, its text, and {test: [outcome, error]}, with every class swapped."""
    report = folder / "report.json"
    drop = ("PYTEST_ADDOPTS", "PYTHONWARNINGS")
    plugins = str(Path(__file__).parent / "sklearn_suite")
    environment = {k: v for k, v in os.environ.items() if k not in drop and "XDIST" not in k} | {
        "PYTHONPATH": os.pathsep.join(filter(None, [plugins, os.environ.get("PYTHONPATH")])),
        "SKLEARN_SUITE_REPORT": str(report),
        "SKLEARN_TESTS_GLOBAL_RANDOM_SEED": "42",
    }
    rootdir = os.path.commonpath([file.parent for file in files])
    isolated = ["-c", os.devnull, "--rootdir", rootdir, "-p", "no:cacheprovider", "-p", "swap"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *isolated, *map(str, files)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    told = json.loads(report.read_text()) if report.exists() else {}
    return done.returncode, done.stdout + done.stderr, told


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    files = [SUITE / package / "tests" / name for name, package in FILES.items()]
    code, text, told = run(files, tmp_path_factory.mktemp("sklearn_suite"))
    if code not in (0, 1):
        pytest.fail(f"pytest exit code {code}:\n{text[-2000:]}")
    return told


def known(test):
    """The entry of the list that covers a test, or None."""
    return next((k for k in (test, test.partition("[")[0]) if k in KNOWN_FAILURES), None)


def test_every_file_runs(outcomes):
    counts = {name: sum(test.startswith(name) for test in outcomes) for name in FILES}
    assert all(counts.values()), counts
    assert len(outcomes) >= 300


def test_nothing_else_fails(outcomes):
    failed = {t: text for t, (how, text) in outcomes.items() if how == "failed" and not known(t)}
    told = [f"{test}\n{gist(text)}" for test, text in failed.items()]
    assert not failed, f"{len(failed)} of scikit-learn's tests fail:\n\n" + "\n\n".join(told)


def gist(text):
    """The first lines of the error: what is expected and how far off it is, not whole arrays."""
    errors = [line for line in text.splitlines() if line.startswith("E ")]
    return "\n".join(errors[:8] or text.splitlines()[-8:])


def test_what_is_listed_does_fail(outcomes):
    passed = [t for t, (how, _) in outcomes.items() if how != "failed" and known(t)]
    assert not passed, f"take off the list of known failures: {passed}"
    unknown = set(KNOWN_FAILURES) - {known(test) for test in outcomes}
    assert not unknown, f"listed, but scikit-learn has no such test: {unknown}"


def test_a_class_that_is_not_swapped_is_an_error(tmp_path):
    file = tmp_path / "test_old.py"
    lines = ("import pytest, swap", "old = swap.originals['SVR']", "both = [old, old()]")
    lines += ("@pytest.mark.parametrize('e', both)", "def test(e): pass")
    file.write_text("\n".join(lines))
    code, said, _ = run([file], tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR, said
    assert "not swapped: test[SVR]: e, test[e1]: e, test_old.old" in said


def test_their_classes_cannot_be_fitted(tmp_path):
    file = tmp_path / "test_fit.py"
    file.write_text("import swap\ndef test(): swap.originals['SVR']().fit([[0]], [0])\n")
    code, said, told = run([file], tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED, said
    assert "scikit-learn's own SVR is being fitted" in told["test_fit.py::test"][1]
