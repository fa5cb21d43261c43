"""A pytest plugin: scikit-learn's own tests, with maxmargin's classes in place of its own.

The classes are swapped before any test module is imported. A test that still holds one of
scikit-learn's is an error: what was collected is searched for them, and fitting one fails.
The outcome of every test is written to the file named by ``SKLEARN_SUITE_REPORT``.
"""

import importlib
import json
import os
import types
from pathlib import Path

import pytest

SVM = ("sklearn.svm", "sklearn.svm._classes")
HOMES = dict.fromkeys(("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"), SVM)
HOMES["KernelRidge"] = ("sklearn.kernel_ridge",)
HOMES["KernelPCA"] = ("sklearn.decomposition", "sklearn.decomposition._kernel_pca")
NAMES = tuple(HOMES)

originals = {}
outcomes = {}


def pytest_configure():
    ours = importlib.import_module("maxmargin")
    missing = [name for name in NAMES if not hasattr(ours, name)]
    if missing:
        raise pytest.UsageError(f"not swapped: maxmargin has no {', '.join(missing)}")
    for name in NAMES:
        homes = [importlib.import_module(home) for home in HOMES[name]]
        originals[name] = getattr(homes[0], name)
        originals[name].fit = _refuse(name)
        for home in homes:
            setattr(home, name, getattr(ours, name))


def _refuse(name):
    def fit(self, *args, **kwargs):
        raise AssertionError(f"not swapped: scikit-learn's own {name} is being fitted")

    return fit


def _is_original(value):
    return any(value is old or type(value) is old for old in originals.values())


def _left_over(item):
    """Names under which a collected test still reaches one of scikit-learn's classes."""
    for name, value in vars(item.module).items():
        if _is_original(value):
            yield f"{item.module.__name__}.{name}"
        if isinstance(value, types.ModuleType):
            found = (inner for inner in NAMES if _is_original(getattr(value, inner, None)))
            yield from (f"{item.module.__name__}.{name}.{inner}" for inner in found)
    params = item.callspec.params if hasattr(item, "callspec") else {}
    yield from (f"{item.name}: {name}" for name, value in params.items() if _is_original(value))


def pytest_collection_finish(session):
    left = sorted({place for item in session.items for place in _left_over(item)})
    if left:
        raise pytest.UsageError(f"not swapped: {', '.join(left)}")


def pytest_runtest_logreport(report):
    file, _, test = report.nodeid.partition("::")
    name = f"{Path(file).name}::{test}"  # their files have different names in all directories
    if report.failed:  # in setup, call or teardown: the last one counts
        outcomes[name] = (report.outcome, report.longreprtext)
    elif report.when != "teardown":
        outcomes[name] = (report.outcome, "")


def pytest_sessionfinish():
    Path(os.environ["SKLEARN_SUITE_REPORT"]).write_text(json.dumps(outcomes))
