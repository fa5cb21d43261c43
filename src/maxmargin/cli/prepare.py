"""From options and data to a model: which machine, and what prepares its data."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

import maxmargin
from maxmargin.cli._app import Input, Machine
from maxmargin.io.data import Columns, Data
from maxmargin.io.ranges import load_ranges

__all__ = [
    "UNSUPERVISED",
    "Libsvm",
    "columns_for",
    "gamma_of",
    "has_few_values",
    "libsvm_options",
    "machine_for",
    "pipeline_for",
    "settled",
]

ESTIMATORS = {
    "svc": "SVC",
    "nusvc": "NuSVC",
    "svr": "SVR",
    "nusvr": "NuSVR",
    "oneclass": "OneClassSVM",
    "svdd": "SVDD",
    "krr": "KernelRidge",
    "klr": "KernelLogisticRegression",
    "lssvm": "LSSVM",
    "lssvr": "LSSVMRegressor",
}
UNSUPERVISED = ("oneclass", "svdd")
_REGRESSORS = ("svr", "nusvr", "krr", "lssvr")
_FEW = 50  # values of a target of whole numbers that are taken for classes


def columns_for(input: Input, *, needed: bool = True) -> Columns:
    """Say what to read for a model that is not yet trained; ``needed``: a table has the target."""
    return Columns(
        target=input.target,
        drop=input.drop,
        categorical=input.categorical,
        header=input.header,
        needed=needed,
    )


def has_few_values(y: Any) -> bool:
    """Whether a target is taken for classes: texts, or few different whole numbers.

    >>> has_few_values(np.array([1, -1, 1])), has_few_values(np.array([0.5, 1.5]))
    (True, False)
    """
    if y.dtype.kind in "bUO":
        return True
    if y.dtype.kind == "f" and not (y == np.floor(y)).all():
        return False
    count = len(np.unique(y))
    return count <= min(_FEW, max(2, len(y) // 3))


def machine_for(options: Machine, y: Any, *, verbose: bool) -> tuple[Any, tuple[str, ...]]:
    """Make the machine that the options ask for.

    Parameters
    ----------
    options : Machine
    y : ndarray or None
        The target, which decides between classes and numbers where the options do not.
    verbose : bool

    Returns
    -------
    machine : estimator
    notes : tuple of str
    """
    name = options.estimator
    notes: tuple[str, ...] = ()
    if name == "auto":
        name, notes = _guess(y)
    if name not in ESTIMATORS:
        raise ValueError(f"--estimator {name}: allowed are auto, {', '.join(ESTIMATORS)}.")
    if y is None and name not in UNSUPERVISED:
        raise ValueError(f"{name} needs a target, and the data have none: say --target.")
    if y is not None and y.dtype.kind in "UO" and name in _REGRESSORS:
        raise ValueError(f"{name} needs numbers to learn; the target holds texts like '{y[0]}'.")
    cls = getattr(maxmargin, ESTIMATORS[name])
    known = set(cls().get_params(deep=False))
    given = _given(options)
    for option, value in given.items():
        if option not in known:
            has = ", ".join(sorted(known & set(_PARAMETERS.values())))
            raise ValueError(f"{cls.__name__} has no {option}={value}; it has {has}.")
    if name == "krr" and "kernel" not in given:
        given["kernel"] = "rbf"
    if verbose and "verbose" in known:
        given["verbose"] = 1
    return cls(**given), notes


def _guess(y: Any) -> tuple[str, tuple[str, ...]]:
    if y is None:
        raise ValueError(
            "the data have no target: say --target, or --estimator oneclass or svdd, which need "
            "none."
        )
    count = len(np.unique(y))
    if has_few_values(y):
        remark = "; for regression say --estimator svr" if y.dtype.kind in "if" else ""
        return "svc", (f"the target has {count} class{'es' * (count != 1)}{remark}",)
    return "svr", (f"the target is a number with {count} values: regression by svr",)


_PARAMETERS = {
    "kernel": "kernel",
    "C": "C",
    "degree": "degree",
    "coef0": "coef0",
    "nu": "nu",
    "epsilon": "epsilon",
    "alpha": "alpha",
    "multi_class": "multi_class",
    "tol": "tol",
    "gap_tol": "gap_tol",
    "max_time": "max_time",
    "max_iter": "max_iter",
    "cache_size": "cache_size",
    "threads": "n_threads",
    "gamma": "gamma",
    "balanced": "class_weight",
    "probability": "probability",
}


def _given(options: Machine) -> dict[str, Any]:
    """The parameters that were asked for."""
    given = {name: getattr(options, option) for option, name in _PARAMETERS.items()}
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("kernel") in ("precomputed", "callable"):
        raise ValueError("--kernel: allowed are linear, poly, rbf, sigmoid.")
    if "gamma" in given:
        given["gamma"] = gamma_of(given["gamma"])
    for flag, value in (("class_weight", "balanced"), ("probability", True)):
        given = given | {flag: value} if given.pop(flag) else given
    return given


def gamma_of(text: str) -> float | str:
    """Read a gamma: a number, or the name of a rule.

    >>> gamma_of("0.5"), gamma_of("scale")
    (0.5, 'scale')
    """
    try:
        return float(text)
    except ValueError:
        if text in ("scale", "auto"):
            return text
        raise ValueError(f"--gamma {text}: a number, scale or auto.") from None


# ---- what prepares the data -------------------------------------------------------------------


def settled(data: Data) -> Data:
    """Make matrices dense where at least half of their cells are stored.

    >>> sp.issparse(settled(Data(X=sp.csr_array(np.eye(3)), y=None)).X)
    True
    """
    if sp.issparse(data.X) and 2 * data.X.nnz >= data.X.shape[0] * data.X.shape[1]:
        return replace(data, X=data.X.toarray())
    return data


def pipeline_for(
    data: Data, machine: Any, *, scale: bool, ranges: str | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Put before the machine what its data need.

    Parameters
    ----------
    data : Data
    machine : estimator
    scale : bool
        Whether to standardise numbers.
    ranges : str, optional
        A file of svm-scale to scale by instead.

    Returns
    -------
    model : Pipeline or estimator
    notes : tuple of str
    """
    if ranges is not None:
        if data.categorical:
            raise ValueError(f"--ranges is for numbers; {data.categorical[0]!r} holds texts.")
        scaler = load_ranges(ranges, n_features=data.X.shape[1])
        return Pipeline([("scale", scaler), ("machine", machine)]), (f"scaled by {ranges}",)
    sparse = sp.issparse(data.X)
    numbers, notes = _for_numbers(data, sparse, scale)
    if data.categorical:
        at = [data.names.index(name) for name in data.categorical]
        rest = [k for k in range(len(data.names)) if k not in at]
        codes = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        parts = [("categories", codes, at)]
        if rest:
            parts.insert(0, ("numbers", Pipeline(numbers) if numbers else "passthrough", rest))
        numbers = [("prepare", ColumnTransformer(parts))]
        notes += (f"categories: {', '.join(data.categorical)}",)
    if not numbers:
        return machine, notes
    return Pipeline([*numbers, ("machine", machine)]), notes


def _for_numbers(data: Data, sparse: bool, scale: bool) -> tuple[list[Any], tuple[str, ...]]:
    steps: list[Any] = []
    notes: list[str] = []
    cells = data.X.data if sparse else data.X
    if cells.dtype == object:
        rest = [k for k, name in enumerate(data.names) if name not in data.categorical]
        cells = data.X[:, rest].astype(np.float64)
    missing = int(np.isnan(cells).sum())
    if missing:
        steps.append(("fill", SimpleImputer(strategy="median", keep_empty_features=True)))
        notes.append(f"missing numbers ({missing}) are filled with the median of their column")
    if scale and cells.size and sparse:  # zeros stay zeros, and 0/1 data as they are
        steps.append(("scale", MaxAbsScaler()))
        notes.append(
            "sparse features are scaled to at most 1, zeros kept (--no-scale: as they are)"
        )
    elif scale and cells.size:
        steps.append(("scale", StandardScaler()))
        notes.append(
            "features are standardised to mean 0 and deviation 1 (--no-scale: as they are)"
        )
    return steps, tuple(notes)


# ---- svm-train's options ----------------------------------------------------------------------


@dataclass(frozen=True)
class Libsvm:
    """What svm-train would do.

    Parameters
    ----------
    estimator : str
        Name of the class.
    parameters : dict
    folds : int
        Of cross-validation; 0 trains a model.
    quiet : bool
    """

    estimator: str = "SVC"
    parameters: dict[str, Any] = field(default_factory=dict)
    folds: int = 0
    quiet: bool = False


_SVM_TYPES = ("SVC", "NuSVC", "OneClassSVM", "SVR", "NuSVR")
_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
_OWN = {
    "SVC": ("C", "class_weight", "probability"),
    "NuSVC": ("nu", "probability"),
    "OneClassSVM": ("nu",),
    "SVR": ("C", "epsilon"),
    "NuSVR": ("C", "nu"),
}


def libsvm_options(text: str, n_features: int) -> Libsvm:
    """Read svm-train's options, with svm-train's defaults.

    Parameters
    ----------
    text : str
        Such as "-s 0 -t 2 -c 10 -g 0.1".
    n_features : int
        For the default of -g, 1 / n_features.

    Returns
    -------
    Libsvm

    Examples
    --------
    >>> options = libsvm_options("-c 10 -w-1 2 -h 0 -q", 4)
    >>> options.estimator, options.parameters["C"], options.parameters["class_weight"]
    ('SVC', 10.0, {-1: 2.0})
    >>> options.parameters["gamma"], options.parameters["shrinking"], options.quiet
    (0.25, False, True)
    """
    found = Libsvm()
    values: dict[str, Any] = {
        "kernel": "rbf",
        "degree": 3,
        "gamma": 1.0 / max(n_features, 1),
        "coef0": 0.0,
        "C": 1.0,
        "nu": 0.5,
        "epsilon": 0.1,
        "tol": 1e-3,
        "cache_size": 100.0,
        "shrinking": True,
        "probability": False,
    }
    weights: dict[int, float] = {}
    tokens = shlex.split(text)
    while tokens:
        option = tokens.pop(0)
        if not option.startswith("-") or len(option) < 2:
            raise ValueError(f"--libsvm: expected an option of svm-train; got {option!r}.")
        if option == "-q":
            found = replace(found, quiet=True)
            continue
        if not tokens:
            raise ValueError(f"--libsvm: {option} needs a value.")
        value = tokens.pop(0)
        if option[1] == "w":
            weights[_whole(option[2:], "-w")] = _real(value, option)
            continue
        found = _set(found, values, option, value)
    names = ("kernel", "degree", "gamma", "coef0", "tol", "cache_size", "shrinking")
    if weights:
        values["class_weight"] = weights
        if found.estimator != "SVC":
            raise ValueError("--libsvm: -wi is for C-SVC (-s 0) only.")
    if values["probability"] and "probability" not in _OWN[found.estimator]:
        raise ValueError("--libsvm: -b 1 is for -s 0 and -s 1; others learn no probabilities here.")
    chosen = (*names, *(n for n in _OWN[found.estimator] if n in values))
    return replace(found, parameters={name: values[name] for name in chosen})


def _set(found: Libsvm, values: dict[str, Any], option: str, value: str) -> Libsvm:
    numbers = {
        "-g": "gamma",
        "-r": "coef0",
        "-c": "C",
        "-n": "nu",
        "-p": "epsilon",
        "-e": "tol",
        "-m": "cache_size",
    }
    flags = {"-h": "shrinking", "-b": "probability"}
    if option in numbers:
        values[numbers[option]] = _real(value, option)
    elif option in flags:
        values[flags[option]] = bool(_one_of(value, option, 2))
    elif option == "-d":
        values["degree"] = _whole(value, option)
    elif option == "-t":
        values["kernel"] = _KERNELS[_one_of(value, option, len(_KERNELS))]
    elif option == "-s":
        return replace(found, estimator=_SVM_TYPES[_one_of(value, option, len(_SVM_TYPES))])
    elif option == "-v":
        folds = _whole(value, option)
        if folds < 2:
            raise ValueError(f"--libsvm: -v needs at least 2 folds; got {folds}.")
        return replace(found, folds=folds)
    else:
        raise ValueError(f"--libsvm: svm-train has no option {option}.")
    return found


def _real(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--libsvm: {option} needs a number; got {text!r}.") from None


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--libsvm: {option} needs a whole number; got {text!r}.") from None


def _one_of(text: str, option: str, count: int) -> int:
    number = _whole(text, option)
    if not 0 <= number < count:
        raise ValueError(f"--libsvm: {option} is one of 0 to {count - 1}; got {number}.")
    return number
