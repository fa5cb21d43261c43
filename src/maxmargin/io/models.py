"""Models that travel: saved whole, with certificate, versions, columns and a fingerprint."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from maxmargin.certificate import Certificate
from maxmargin.io.libsvm import LibsvmModel, load_libsvm_model, save_libsvm_model
from maxmargin.io.streams import atomic, formatted

__all__ = ["EXTENSIONS", "Model", "describe", "fingerprint", "load", "open_model", "save"]

EXTENSIONS = {
    ".skops": "skops",
    ".joblib": "joblib",
    ".pkl": "joblib",
    ".pickle": "joblib",
    ".onnx": "onnx",
    ".model": "libsvm",
}
_MARK = "maxmargin model"


@dataclass(frozen=True)
class Model:
    """A model from a file and what the file says about it.

    Parameters
    ----------
    model : estimator, Pipeline or OnnxModel
    about : dict
        What :func:`describe` wrote; empty for files of others.
    libsvm : LibsvmModel, optional
        What a LIBSVM file held.

    Examples
    --------
    >>> Model("any machine", {"certificate": {"status": "optimal"}}).about["certificate"]["status"]
    'optimal'
    """

    model: Any
    about: dict[str, Any] = field(default_factory=dict)
    libsvm: LibsvmModel | None = None

    @property
    def machine(self) -> Any:
        """The last step: the machine itself."""
        return self.model[-1] if hasattr(self.model, "steps") else self.model

    def prepared(self, X: Any) -> Any:
        """What the machine is given for these rows."""
        if hasattr(self.model, "steps") and len(self.model) > 1:
            return self.model[:-1].transform(X)
        return X


def save(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    format: str | None = None,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = True,
) -> None:
    """Save a fitted model; the file appears whole or not at all.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted; a Pipeline whose last step is one of ours (or of scikit-learn's machines) is saved
        whole. A :class:`Model` keeps what its file said.
    path : path
        .skops (safe to load), .joblib (fast, executes code when loaded), .onnx (predictions for
        other runtimes), .model (LIBSVM's text).
    X, y : array-like, optional
        The training data, for the fingerprint.
    format : {"skops", "joblib", "onnx", "libsvm"}, optional
        None: by extension.
    about : dict, optional
        More to say about the model, such as ``features``, the names of its columns.
    overwrite : bool, default=True

    Raises
    ------
    ValueError
        If the format has no place for this model; the message says what it has.

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin import SVC, load, save
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]
    >>> path = Path(tempfile.mkdtemp()) / "m.skops"
    >>> save(SVC(C=10).fit(X, y), path, X, y)
    >>> load(path).predict([[0.5], [2.5]]).tolist()
    ['a', 'b']
    >>> open_model(path).about["data"]["labels"]
    {'a': 2, 'b': 2}
    """
    kind = formatted(str(path), EXTENSIONS, format, option="format=")
    if isinstance(model, Model):
        model, about = model.model, {**model.about, **(about or {})}
    if not hasattr(model, "get_params"):
        raise ValueError(
            f"save takes an estimator or a Pipeline; got {type(model).__name__}. (An ONNX file can "
            "only be run: save the model that it was made from.)"
        )
    check_is_fitted(model)
    said = describe(model, X, y) | dict(about or {})
    write = {"skops": _write_skops, "joblib": _write_joblib, "onnx": _write_onnx}.get(kind)
    with atomic(path, force=overwrite) as temporary:
        if write is None:
            save_libsvm_model(_as_libsvm(model), temporary)
        else:
            write(model, said, temporary)


def load(
    path: str | os.PathLike[str], *, format: str | None = None, trust_pickle: bool = False
) -> Any:
    """Load a model that :func:`save`, skops, scikit-learn or LIBSVM wrote.

    Parameters
    ----------
    path : path
    format : {"skops", "joblib", "onnx", "libsvm"}, optional
        None: by extension.
    trust_pickle : bool, default=False
        Load .joblib and .pkl files, which can execute any code. The other formats execute none.

    Returns
    -------
    estimator or Pipeline
        For .onnx an :class:`~maxmargin.io.onnx.OnnxModel`, which predicts with onnxruntime.

    Raises
    ------
    ValueError
        If the file is damaged, or holds what is not on the list of classes that are loaded.

    Examples
    --------
    >>> load("model.joblib")
    Traceback (most recent call last):
    ValueError: model.joblib: a joblib file can execute any code when it is loaded; ...
    """
    return open_model(path, format=format, trust_pickle=trust_pickle).model


def open_model(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    trust_pickle: bool = False,
    n_features: int | None = None,
) -> Model:
    """Load a model with what its file says about it.

    Parameters
    ----------
    path, format, trust_pickle
        As in :func:`load`.
    n_features : int, optional
        Number of features of a LIBSVM model, which its file does not tell.

    Returns
    -------
    Model

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin import SVC, save
    >>> X, y = [[0.0], [1.0]], ["low", "high"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(SVC().fit(X, y), Path(folder) / "m.skops", X, y)
    ...     held = open_model(Path(folder) / "m.skops")
    >>> held.about["certificate"]["status"], held.machine.predict([[0.1]])
    ('optimal', array(['low'], dtype='<U4'))
    """
    kind = formatted(str(path), EXTENSIONS, format, option="format=")
    if kind == "joblib" and not trust_pickle:
        raise ValueError(
            f"{path}: a joblib file can execute any code when it is loaded; if you trust who wrote "
            "it, say trust_pickle=True (--trust-pickle)."
        )
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if kind == "libsvm":
        from maxmargin.io.exchange import from_libsvm

        held = load_libsvm_model(path)
        return Model(from_libsvm(held, n_features=n_features), {}, held)
    if kind == "joblib":
        return _read_joblib(path)
    if kind == "onnx":
        from maxmargin.io.onnx import OnnxModel

        loaded = OnnxModel(path)
        return Model(loaded, loaded.about)
    from maxmargin.io.safe import read_skops

    return Model(*read_skops(path))


# ---- each format ------------------------------------------------------------------------------


def _write_skops(model: Any, about: dict[str, Any], path: Path) -> None:
    from maxmargin.io.safe import write_skops

    write_skops(model, about, path)


def _write_joblib(model: Any, about: dict[str, Any], path: Path) -> None:
    import joblib

    joblib.dump({"format": _MARK, "model": model, "about": json.dumps(about)}, path)


def _read_joblib(path: str | os.PathLike[str]) -> Model:
    import joblib

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of another version of scikit-learn: told by `about`
            held = joblib.load(path)
    except Exception as error:
        raise ValueError(f"{path} is damaged or no joblib file: {error!r}.") from error
    if isinstance(held, dict) and held.get("format") == _MARK:
        return Model(held["model"], json.loads(held["about"]))
    if not hasattr(held, "predict"):
        raise ValueError(f"{path} holds no model, but a {type(held).__name__}.")
    return Model(held)


def _write_onnx(model: Any, about: dict[str, Any], path: Path) -> None:
    from maxmargin.io.onnx import to_onnx

    machine = model[-1] if hasattr(model, "steps") else model
    if hasattr(machine, "classes_"):
        classes = machine.classes_
        about = about | {"classes": classes.tolist(), "label_kind": classes.dtype.str}
    proba = hasattr(machine, "predict_proba")
    if proba or hasattr(machine, "decision_function"):
        about = about | {"scores": "probabilities" if proba else "decision"}
    path.write_bytes(to_onnx(model, about=about).SerializeToString())


def _as_libsvm(model: Any) -> LibsvmModel:
    from maxmargin.io.exchange import to_libsvm

    if hasattr(model, "steps"):
        raise ValueError(
            "a LIBSVM file holds a machine, not a pipeline: save(model[-1], ...) saves its last "
            "step, and io.save_ranges(model[0], ...) the scaling for svm-scale."
        )
    return to_libsvm(model)


# ---- what a file says about its model ---------------------------------------------------------


def describe(model: Any, X: Any = None, y: Any = None) -> dict[str, Any]:
    """Say what belongs to a model beside itself, in plain JSON values.

    Parameters
    ----------
    model : estimator or Pipeline
    X, y : array-like, optional
        Its training data.

    Returns
    -------
    dict
        ``estimator``, ``certificate``, ``versions``, ``created``, ``features``, ``data``.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> about = describe(SVC(kernel="linear").fit([[0.0], [1.0]], [0, 1]))
    >>> about["estimator"], about["certificate"]["status"]
    ('SVC', 'optimal')
    """
    machine = model[-1] if hasattr(model, "steps") else model
    names = ("maxmargin", "scikit-learn", "numpy", "scipy")
    about: dict[str, Any] = {
        "format": 1,
        "estimator": type(machine).__name__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {name: version(name) for name in names} | {"python": platform.python_version()},
    }
    if isinstance(getattr(machine, "certificate_", None), Certificate):
        about["certificate"] = plain(machine.certificate_)
    if hasattr(model, "feature_names_in_"):
        about["features"] = [str(name) for name in model.feature_names_in_]
    if X is not None:
        about["data"] = fingerprint(X, y)
    return about


def plain(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values; None for what is infinite or unknown.

    >>> from maxmargin.certificate import uncertified
    >>> plain(uncertified(np.zeros(1), "interrupted"))["status"]
    'interrupted'
    """
    numbers = ("primal", "dual", "gap", "relative_gap", "kkt_violation", "distance")
    values = {name: float(getattr(certificate, name)) for name in numbers}
    shown: dict[str, Any] = {k: v if math.isfinite(v) else None for k, v in values.items()}
    status = None if certificate.status is None else str(certificate.status)
    return {"status": status, "convex": certificate.convex, **shown}


def fingerprint(X: Any, y: Any = None) -> dict[str, Any]:
    """Say which data these are: their shape, type, labels and a hash of all of it.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional

    Returns
    -------
    dict

    Examples
    --------
    >>> fingerprint(np.eye(2), [0, 1])["hash"] == fingerprint(sp.csr_array(np.eye(2)), [0, 1])[
    ...     "hash"
    ... ]
    False
    >>> fingerprint(np.eye(2))["shape"]
    [2, 2]
    """
    digest = hashlib.sha256()
    if sp.issparse(X):
        X = sp.csr_array(X)
        for part, kind in ((X.indptr, "<i8"), (X.indices, "<i8"), (X.data, "<f8")):
            digest.update(np.ascontiguousarray(part, dtype=kind).data)
    else:
        X = np.asarray(X)
        _add(digest, X)
    found: dict[str, Any] = {"shape": list(X.shape), "dtype": str(X.dtype)}
    if y is not None:
        y = np.asarray(y)
        _add(digest, y)
        values, counts = np.unique(y, return_counts=True)
        if len(values) <= 100:
            pairs = zip(values.tolist(), counts.tolist(), strict=True)
            found["labels"] = {str(value): count for value, count in pairs}
    return found | {"hash": f"sha256:{digest.hexdigest()}"}


def _add(digest: Any, values: Any) -> None:
    if values.dtype.kind in "biuf":
        digest.update(np.ascontiguousarray(values, dtype="<f8").data)
    else:
        digest.update("\x1f".join(map(str, values.ravel().tolist())).encode())


def warn_of_versions(model: Model) -> tuple[str, ...]:
    """What to say where a file was written by other versions.

    >>> warn_of_versions(Model(None, {"versions": {"maxmargin": "9.9"}}))[0][:35]
    'the model was written by maxmargin '
    """
    said = []
    for name, then in model.about.get("versions", {}).items():
        now = ".".join(map(str, sys.version_info[:3])) if name == "python" else version(name)
        if name in ("maxmargin", "scikit-learn") and then != now:
            said.append(f"the model was written by {name} {then}; this is {now}")
    return tuple(said)
