"""Whoever is measured: one file each, found by being here.

A solver file has

    PACKAGE             the name of its distribution, whose version is printed
    fit(task, X, y)     returns a model with support_, dual_coef_, intercept_ as scikit-learn lays
                        them out, and predict(X); NotImplementedError says what it does not have
    rows(X)             optional: its own form of the data, made outside the clock

and a task has estimator (the name in sklearn.svm), params (of its constructor) and threads.
"""

from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from re import search

OURS = "maxmargin"


def names(pattern=""):
    """All solvers, ours first; of the peers, those whose name matches."""
    peers = (module.name for module in iter_modules(__path__))
    return [OURS, *(name for name in peers if name != OURS and search(pattern, name))]


def load(name):
    return import_module(f"{__name__}.{name}")


def installed(name):
    """What is installed and its version, or None."""
    try:
        package = load(name).PACKAGE
    except ImportError:
        return None
    return f"{package} {version(package)}"
