"""skops files, which execute nothing: every class in them must be on the list below, by name."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.certificate import Certificate, Status

__all__ = ["ALLOWED", "read_skops", "write_skops"]

_OBJECTS = (
    "maxmargin.certificate.Certificate",
    "maxmargin.estimators.least_squares.LSSVM",
    "maxmargin.estimators.least_squares.LSSVMRegressor",
    "maxmargin.estimators.logistic.KernelLogisticRegression",
    "maxmargin.estimators.one_class.OneClassSVM",
    "maxmargin.estimators.one_class.SVDD",
    "maxmargin.estimators.pca.KernelPCA",
    "maxmargin.estimators.ridge.KernelRidge",
    "maxmargin.estimators.ridge.KernelRidgeCV",
    "maxmargin.estimators.svc.NuSVC",
    "maxmargin.estimators.svc.SVC",
    "maxmargin.estimators.svr.NuSVR",
    "maxmargin.estimators.svr.SVR",
    "maxmargin.inverses.Spectrum",
    "maxmargin.io.ranges.Ranges",
    "maxmargin.kernels.Chi2",
    "maxmargin.kernels.HistogramIntersection",
    "maxmargin.kernels.Laplacian",
    "maxmargin.kernels.Linear",
    "maxmargin.kernels.Matern",
    "maxmargin.kernels.Polynomial",
    "maxmargin.kernels.Power",
    "maxmargin.kernels.Precomputed",
    "maxmargin.kernels.Product",
    "maxmargin.kernels.RBF",
    "maxmargin.kernels.Scaled",
    "maxmargin.kernels.Sigmoid",
    "maxmargin.kernels.Sum",
    "maxmargin.tables.Table",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.feature_extraction.text.CountVectorizer",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.feature_extraction.text.TfidfVectorizer",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.kernel_ridge.KernelRidge",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.MinMaxScaler",
    "sklearn.preprocessing._data.Normalizer",
    "sklearn.preprocessing._data.RobustScaler",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._encoders.OneHotEncoder",
    "sklearn.svm._classes.NuSVC",
    "sklearn.svm._classes.NuSVR",
    "sklearn.svm._classes.OneClassSVM",
    "sklearn.svm._classes.SVC",
    "sklearn.svm._classes.SVR",
)
_NUMBERS = tuple(
    f"numpy.{name}"
    for name in (
        *("bool", "bool_", "str_", "float16", "float32", "float64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)
_TYPES = ("builtins.bool", "builtins.float", "builtins.int", "builtins.str", *_NUMBERS)

# What each kind of node in a skops file may make. A kind that is not here (functions, methods,
# partials, random generators, anything by __reduce__) is refused.
ALLOWED: dict[str, frozenset[str]] = {
    "DTypeNode": frozenset(("numpy.dtype",)),
    "DictNode": frozenset(("builtins.dict",)),
    "JsonNode": frozenset(("builtins.str",)),
    "ListNode": frozenset(("builtins.list",)),
    "NdArrayNode": frozenset(("numpy.ndarray", *_NUMBERS)),
    "ObjectNode": frozenset(_OBJECTS),
    "SliceNode": frozenset(("builtins.slice",)),
    "SparseMatrixNode": frozenset(
        (
            "scipy.sparse._csr.csr_array",
            "scipy.sparse._csr.csr_matrix",
            "scipy.sparse._csc.csc_array",
            "scipy.sparse._csc.csc_matrix",
        )
    ),
    "TupleNode": frozenset(("builtins.tuple",)),
    "TypeNode": frozenset(_TYPES),
}
_ABOUT = "maxmargin.json"
_GROWTH = 100  # times its size that a file may unpack to


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("skops files need skops: pip install 'maxmargin[cli]'.") from error
    return skops.io


def write_skops(model: Any, about: dict[str, Any], path: Path) -> None:
    """Write a model and what is said about it; refuse what could not be loaded again.

    Parameters
    ----------
    model : estimator or Pipeline
    about : dict
        Plain JSON values.
    path : Path
    """
    skops = _skops()
    try:
        skops.dump(model, path)
    except Exception as error:
        raise ValueError(f"skops cannot save this model: {error}. Use .joblib.") from error
    with zipfile.ZipFile(path, "a") as archive:
        foreign = sorted(set(_foreign(json.loads(archive.read("schema.json")))))
        if foreign:
            held = hasattr(model, "best_estimator_")
            instead = "save its best_estimator_" if held else "leave it out of the model"
            raise ValueError(
                f"a skops file of maxmargin holds no {foreign[0]}; save as .joblib, or {instead}."
            )
        archive.writestr(_ABOUT, json.dumps(about, indent=1, allow_nan=False))


def read_skops(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Read a model; nothing is made before all names in the file are found on the list.

    Parameters
    ----------
    path : path

    Returns
    -------
    model : estimator or Pipeline
    about : dict
        Empty for files that skops wrote by itself.

    Raises
    ------
    ValueError
        If the file is damaged or holds anything else.
    """
    skops = _skops()
    try:
        about = _audited(path)
        trusted = sorted(set().union(*ALLOWED.values()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of another version of scikit-learn: told by `about`
            model = skops.load(path, trusted=trusted)
        _revive(model)
    except _Refused as error:
        raise ValueError(f"{path} is refused: {error}.") from None
    except Exception as error:  # whatever a damaged file makes zip, JSON, NumPy and skops raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is damaged or no skops file: {reason}.") from error
    return model, about


class _Refused(Exception):
    pass


def _audited(path: str | os.PathLike[str]) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        limit = _GROWTH * Path(path).stat().st_size + 2**20
        size = sum(member.file_size for member in archive.infolist())
        if size <= limit:
            size += sum(map(_within, map(archive.read, archive.namelist())))
        if size > limit:
            raise _Refused(f"it would unpack to {size} bytes")
        schema = json.loads(archive.read("schema.json"))
        for name in _foreign(schema):
            raise _Refused(f"it holds {name}, which is not on the list of what maxmargin loads")
        _check_growth(schema, {})
        names = archive.namelist()
        about = json.loads(archive.read(_ABOUT)) if _ABOUT in names else {}
    if not isinstance(about, dict):
        raise _Refused(f"{_ABOUT} in it is not an object")
    return about


def _within(content: bytes) -> int:
    """What a member that is an archive itself, as sparse matrices are, would unpack to."""
    if not content.startswith(b"PK"):
        return 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return sum(member.file_size for member in archive.infolist())


def _check_growth(node: Any, owners: dict[str, Any]) -> None:
    """Refuse what makes much of little: a member read many times, an array of nested lists."""
    if isinstance(node, dict):
        if isinstance(file := node.get("file"), str):
            ident = node.get("__id__")  # skops reads it once for all nodes of this number
            if not ident or owners.setdefault(file, ident) != ident:
                raise _Refused(f"it reads {file} more than once")
        if node.get("__loader__") == "NdArrayNode" and node.get("type") == "json":
            shape = node.get("shape")
            if not isinstance(shape, dict) or len(shape.get("content", ())) != 1:
                raise _Refused("it holds an array of objects with more than one axis")
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            _check_growth(part, owners)


def _foreign(node: Any) -> Iterator[str]:
    """Names in a schema that are not allowed where they stand."""
    if isinstance(node, list):
        for part in node:
            yield from _foreign(part)
    elif isinstance(node, dict):
        if any(key in node for key in ("__loader__", "__class__", "__module__")):
            name = f"{node.get('__module__')}.{node.get('__class__')}"
            if name not in ALLOWED.get(str(node.get("__loader__")), ()):
                yield name
        for part in node.values():
            yield from _foreign(part)


def _revive(model: Any) -> None:
    """Mend what JSON has made of a Status, and check that the arrays of a machine fit together."""
    machine = model[-1] if hasattr(model, "steps") else model
    if not (hasattr(machine, "predict") or hasattr(machine, "transform")):
        raise _Refused(f"it holds no model, but a {type(machine).__name__}")
    state = vars(machine)
    for value in state.values():
        if sp.issparse(value):
            value.check_format(full_check=True)
    if "certificates_" in state:
        machine.certificates_ = [_with_status(one) for one in state["certificates_"]]
        machine.certificate_ = _with_status(machine.certificate_)
    if "support_vectors_" in state:
        _check_machine(machine)
    elif "X_fit_" in state and "dual_coef_" in state:
        rows, columns = machine.X_fit_.shape
        if rows not in machine.dual_coef_.shape or columns != machine.n_features_in_:
            raise _Refused("its arrays do not fit together")


def _with_status(certificate: Any) -> Any:
    if not isinstance(certificate, Certificate):
        raise _Refused("its certificate is none")
    status = None if certificate.status is None else Status(certificate.status)
    return replace(certificate, status=status)


def _check_machine(machine: Any) -> None:
    count = len(machine.support_)
    vectors, coef = machine.support_vectors_, machine.dual_coef_
    whole = vectors.shape[0] in (0, count) and coef.ndim == 2 and coef.shape[1] == count
    if vectors.shape[0]:
        whole = whole and vectors.shape[1] == machine.n_features_in_
    if hasattr(machine, "classes_") and np.ndim(machine.classes_) == 1:
        whole = whole and int(np.sum(machine.n_support_)) == count
    if not whole:
        raise _Refused("its arrays do not fit together")
