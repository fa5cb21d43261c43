"""Between fitted estimators and what LIBSVM's model files hold."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.estimators.models import fitted_kernel
from maxmargin.estimators.one_class import OneClassSVM
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR
from maxmargin.io.libsvm import CLASSIFIERS, LibsvmModel
from maxmargin.kernels import RBF, Linear, Polynomial, Precomputed, Sigmoid

__all__ = ["from_libsvm", "to_libsvm"]

_CLASSES: dict[str, Any] = {
    "c_svc": SVC,
    "nu_svc": NuSVC,
    "one_class": OneClassSVM,
    "epsilon_svr": SVR,
    "nu_svr": NuSVR,
}
_ROUNDING = 1e-12
_KINDS = {cls.__name__: kind for kind, cls in _CLASSES.items()}


def from_libsvm(model: LibsvmModel, *, n_features: int | None = None) -> Any:
    """Make an estimator that predicts as svm-predict does.

    Parameters
    ----------
    model : LibsvmModel
    n_features : int, optional
        The file does not tell it; None: its largest index.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Its ``classes_`` keep the order of the file (for two classes turned, so that the first of
        the file has positive scores): LIBSVM breaks ties by it. Its ``C`` and relatives are the
        defaults, for a file holds none of them.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> rows = sp.csr_array([[1.0], [-1.0]])
    >>> file = LibsvmModel(
    ...     svm_type="c_svc",
    ...     kernel_type="linear",
    ...     nr_class=2,
    ...     rho=np.zeros(1),
    ...     label=np.array([1, -1]),
    ...     nr_sv=np.array([1, 1]),
    ...     coef=np.array([[0.5], [-0.5]]),
    ...     support_vectors=rows,
    ... )
    >>> from_libsvm(file).predict([[3.0], [-3.0]]).tolist()
    [1, -1]
    """
    if model.serial is not None:
        raise ValueError(
            "this LIBSVM model has a precomputed kernel: it names rows of a matrix that the file "
            "does not hold. certify(model, K, y, ...) can prove it."
        )
    proba = {"probability": True} if model.probA is not None and model.label is not None else {}
    estimator = _CLASSES[model.svm_type](**model.kernel_settings, **proba)
    vectors = sp.csr_array(model.support_vectors)
    width = max(vectors.shape[1], n_features or 1, 1)
    vectors = sp.csr_array(
        (vectors.data, vectors.indices, vectors.indptr), shape=(len(model.coef), width)
    )
    coef = model.coef
    if model.svm_type in CLASSIFIERS and model.nr_class == 2:
        # Our binary scores are positive for classes_[1], LIBSVM's for the first label.
        assert model.nr_sv is not None
        turned = np.roll(np.arange(len(coef)), -int(model.nr_sv[0]))
        vectors, coef = sp.csr_array(vectors[turned]), coef[turned]
    estimator._store_support(vectors, np.arange(len(coef)), coef.T)
    estimator.n_features_in_ = width
    estimator.kernel_ = estimator._kernel_object()
    estimator.intercept_ = -model.rho
    if model.svm_type in CLASSIFIERS:
        assert model.label is not None
        assert model.nr_sv is not None
        order = slice(None, None, -1) if model.nr_class == 2 else slice(None)
        estimator.classes_ = model.label[order].copy()
        estimator.n_support_ = model.nr_sv[order].astype(np.int32)
        estimator.class_weight_ = np.ones(model.nr_class)
        estimator._scheme = "ovo"
        if proba:
            assert model.probB is not None
            estimator.probA_, estimator.probB_ = model.probA, model.probB
    else:
        estimator.n_support_ = np.array([len(model.coef)], dtype=np.int32)
    if model.svm_type == "one_class":
        estimator.offset_ = model.rho
    return estimator


def to_libsvm(estimator: Any) -> LibsvmModel:
    """Say in LIBSVM's terms what a fitted machine is.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Ours or scikit-learn's, fitted.

    Returns
    -------
    LibsvmModel

    Raises
    ------
    ValueError
        Where LIBSVM's file has no place for it: other kernels, labels that are not integers,
        several classes other than by pairs.
    """
    kind = next((_KINDS[c.__name__] for c in type(estimator).__mro__ if c.__name__ in _KINDS), None)
    if kind is None or not hasattr(estimator, "support_"):
        raise ValueError(
            f"a LIBSVM file holds a fitted {', '.join(_KINDS)}; got {type(estimator).__name__}."
        )
    fields = _kernel_fields(estimator)
    fields |= _vectors(estimator, kind, fields["kernel_type"])
    rho = -np.asarray(estimator.intercept_, dtype=np.float64)
    if kind == "one_class" and hasattr(estimator, "_largest"):
        # Support vectors on the boundary are inside here; LIBSVM leaves that to rounding.
        rho = rho - _ROUNDING * float(np.abs(fields["coef"]).sum()) * estimator._largest
    if kind not in CLASSIFIERS:
        return LibsvmModel(svm_type=kind, nr_class=2, rho=rho, **fields)
    labels = _integer_labels(estimator.classes_)
    count, turned = len(labels), len(labels) == 2
    if count > 2 and getattr(estimator, "multi_class", "ovo") != "ovo":
        raise ValueError(
            f"LIBSVM decides by pairs; this has multi_class={estimator.multi_class!r}."
        )
    if getattr(estimator, "multi_class", "ovo") == "crammer_singer":
        raise ValueError("LIBSVM has no machine of Crammer and Singer.")
    silent = getattr(estimator, "_silent", None)
    if silent is not None and silent().any():
        raise ValueError("a pair of classes has no machine (nu is too small); LIBSVM would vote.")
    order = slice(None, None, -1) if turned else slice(None)
    sigmoids = _sigmoids(estimator)
    return LibsvmModel(
        svm_type=kind,
        nr_class=count,
        rho=rho,
        label=labels[order].copy(),
        nr_sv=np.asarray(estimator.n_support_, dtype=np.int64)[order].copy(),
        **sigmoids,
        **fields,
    )


def _kernel_fields(estimator: Any) -> dict[str, Any]:
    kernel = fitted_kernel(estimator)
    names = {Linear: "linear", Polynomial: "polynomial", RBF: "rbf", Sigmoid: "sigmoid"}
    names[Precomputed] = "precomputed"
    if type(kernel) not in names:
        raise ValueError(
            f"LIBSVM has the kernels linear, polynomial, rbf, sigmoid; got {kernel!r}."
        )
    numbers = kernel._values() if not isinstance(kernel, Precomputed) else {}
    return {"kernel_type": names[type(kernel)], **numbers}


def _vectors(estimator: Any, kind: str, kernel_type: str) -> dict[str, Any]:
    coef = estimator.dual_coef_
    coef = np.asarray(coef.toarray() if sp.issparse(coef) else coef, dtype=np.float64).T
    order = np.arange(len(coef))
    if kind in CLASSIFIERS and len(estimator.classes_) == 2:
        first = int(estimator.n_support_[0])
        order = np.concatenate([order[first:], order[:first]])
    if kernel_type == "precomputed":
        return {"coef": coef[order], "serial": np.asarray(estimator.support_)[order] + 1}
    rows = sp.csr_array(estimator.support_vectors_).astype(np.float64)
    rows = sp.csr_array(rows[order])
    rows.sort_indices()
    return {"coef": coef[order], "support_vectors": rows}


def _integer_labels(classes: Any) -> NDArray[np.int64]:
    classes = np.asarray(classes)
    whole = classes.dtype.kind in "biu" or (
        classes.dtype.kind == "f" and bool((classes == np.floor(classes)).all())
    )
    if not whole or np.abs(classes.astype(np.float64)).max() >= 2**31:
        shown = ", ".join(map(repr, classes.tolist()[:5]))
        raise ValueError(
            f"LIBSVM's labels are integers; the classes here are {shown}. Number them in the data, "
            "and fit again."
        )
    labels: NDArray[np.int64] = classes.astype(np.int64)
    return labels


def _sigmoids(estimator: Any) -> dict[str, Any]:
    """Platt's sigmoids, which have LIBSVM's form and sign."""
    if getattr(estimator, "probability", False) is not True:
        return {}
    A, B = (np.asarray(getattr(estimator, n, ()), dtype=np.float64) for n in ("probA_", "probB_"))
    pairs = len(list(itertools.combinations(range(len(estimator.classes_)), 2)))
    return {"probA": A, "probB": B} if len(A) == len(B) == pairs else {}
