"""Prove other people's models: fitted scikit-learn estimators and LIBSVM model files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
)

from maxmargin import certificate, problems
from maxmargin.certificate import Certificate, Status, combine, prove
from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._machine import take
from maxmargin.grams import Gram
from maxmargin.io.libsvm import CLASSIFIERS, LibsvmModel, load_libsvm_model
from maxmargin.kernels import Kernel, Precomputed, as_kernel
from maxmargin.problems import Problem

__all__ = ["certify", "fitted_kernel"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# scikit-learn's classes under LIBSVM's names, and what defines the problem of each.
_KINDS = {
    "SVC": "c_svc",
    "NuSVC": "nu_svc",
    "OneClassSVM": "one_class",
    "SVR": "epsilon_svr",
    "NuSVR": "nu_svr",
}
_SETTINGS = {
    "c_svc": ("C",),
    "nu_svc": ("nu",),
    "one_class": ("nu",),
    "epsilon_svr": ("C", "epsilon"),
    "nu_svr": ("C", "nu"),
}
_AT_BOUND = {np.float64: 1e-9, np.float32: 1e-6}  # relative: what arithmetic leaves of a bound


@overload
def certify(
    model: Any,
    X: Any,
    y: Any = ...,
    *,
    sample_weight: ArrayLike | None = ...,
    C: float | None = ...,
    nu: float | None = ...,
    epsilon: float | None = ...,
    tol: float = ...,
    gap_tol: float | None = ...,
    status: Status | str | None = ...,
    each: Literal[False] = ...,
) -> Certificate: ...
@overload
def certify(
    model: Any,
    X: Any,
    y: Any = ...,
    *,
    sample_weight: ArrayLike | None = ...,
    C: float | None = ...,
    nu: float | None = ...,
    epsilon: float | None = ...,
    tol: float = ...,
    gap_tol: float | None = ...,
    status: Status | str | None = ...,
    each: Literal[True],
) -> list[Certificate]: ...
def certify(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    C: float | None = None,
    nu: float | None = None,
    epsilon: float | None = None,
    tol: float = 1e-3,
    gap_tol: float | None = None,
    status: Status | str | None = None,
    each: bool = False,
) -> Certificate | list[Certificate]:
    r"""Prove how good a model is, whoever trained it, from its training data.

    Parameters
    ----------
    model : Problem, estimator, LibsvmModel or path
        A fitted ``SVC``, ``NuSVC``, ``SVR``, ``NuSVR`` or ``OneClassSVM`` of scikit-learn or
        scikit-learn-intelex, a LIBSVM model file, one of our own estimators, or a Problem.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The training data; the matrix of shape (n_samples, n_samples) for a precomputed kernel.
        For a Problem: its β, and ``tol``, ``gap_tol`` and ``status`` are what else it takes, see
        :func:`maxmargin.certificate.certify`.
    y : array-like of shape (n_samples,)
        The training targets; not for one-class.
    sample_weight : array-like of shape (n_samples,), optional
        As in training. LIBSVM's class weights (``-wi``) belong here too.
    C, nu, epsilon : float, optional
        A LIBSVM file holds none of them: those its formulation has must be given. None: the
        estimator's own.
    tol : float, default=1e-3
        The KKT violation up to which the model counts as solved. Our own estimators are held to
        their own ``tol`` and ``gap_tol``.
    gap_tol : float, optional
        The relative gap that is asked for as well.
    status : Status or str, optional
        For a Problem only: how the solver ended.
    each : bool, default=False
        Return one certificate per pair of classes.

    Returns
    -------
    Certificate or list of Certificate
        Of the sum over all one-vs-one problems, see :func:`maxmargin.certificate.combine`.

    Notes
    -----
    The model is its coefficients and its intercept. The status is None if they are not those of
    a feasible point (``distance``), or if the intercept violates the KKT conditions by more than
    ``tol``; ``kkt_violation`` then says by how much. Rows that are equal count together: any
    split of their coefficients is the same model, and a file does not tell which row is which.

    A ν-classifier is stored divided by its margin; it is multiplied by
    :math:`\eta = \nu \sum_i w_i / \sum_i |\beta_i|` for each pair. ``class_weight`` is taken at its
    word: scikit-learn's NuSVC ignores it, and is not optimal for what it was asked.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> theirs = SVC(tol=1e-5).fit(X, y)
    >>> proof = certify(theirs, X, y)
    >>> proof.status == "optimal", proof.relative_gap < 1e-4
    (True, True)
    >>> len(certify(theirs, X, y, each=True))
    3
    """
    if isinstance(model, Problem):
        found = [certificate.certify(model, X, tol=tol, gap_tol=gap_tol, status=status)]
        return found if each else found[0]
    if status is not None:
        raise ValueError("status is for a Problem; a model's is found out.")
    settings = {"C": C, "nu": nu, "epsilon": epsilon}
    given = {name: value for name, value in settings.items() if value is not None}
    if isinstance(model, SupportVectorMachine):
        proofs = _our_own(model, given, X, y, sample_weight)
        return proofs if each else combine(proofs)
    weight = _weights(sample_weight, _num_samples(X))
    machine = _machine(model, given, X, y, weight)
    proofs = [prove(*one, tol=tol, gap_tol=gap_tol) for one in _binary(machine)]
    return proofs if each else combine(proofs)


def _our_own(
    model: SupportVectorMachine, given: dict[str, float], X: Any, y: Any, sample_weight: Any
) -> list[Certificate]:
    if given:
        raise ValueError(f"{type(model).__name__} has its own {' and '.join(given)}.")
    return model._proofs(X, y, sample_weight)


# ---- what a model says ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _Machine:
    """A model and its training data, whatever it was written by.

    coef is (n_SV, n_classes - 1) in LIBSVM's layout and b one bias per pair, both positive for
    the first class of a pair. A support vector is some row with the same number in sv_place.
    """

    kind: str
    kernel: Kernel
    settings: dict[str, float]
    X: Any
    target: Floats  # the class's number, or z
    n_classes: int
    weight: Floats
    coef: Floats
    b: Floats
    sv_class: Ints
    sv_place: Ints
    row_place: Ints
    at_bound: float


def _machine(model: Any, given: dict[str, float], X: Any, y: Any, weight: Floats) -> _Machine:
    if isinstance(model, str | os.PathLike):
        model = load_libsvm_model(model)
    if isinstance(model, LibsvmModel):
        return _from_file(model, given, X, y, weight)
    names = (cls.__name__ for cls in type(model).__mro__)
    kind = next((_KINDS[name] for name in names if name in _KINDS), None)
    if kind is None or not hasattr(model, "get_params"):
        steps = " Pass its last step: certify(pipe[-1], pipe[:-1].transform(X), y)."
        raise TypeError(
            f"certify knows {', '.join(_KINDS)} as scikit-learn has them, LIBSVM model files and "
            f"problems; got {type(model).__name__}.{steps if hasattr(model, 'steps') else ''}"
        )
    return _from_estimator(model, kind, given, X, y, weight)


def _from_estimator(
    model: Any, kind: str, given: dict[str, float], X: Any, y: Any, weight: Floats
) -> _Machine:
    check_is_fitted(model)
    settings = {name: getattr(model, name) for name in _SETTINGS[kind]}
    kernel = fitted_kernel(model)
    X = _rows(kernel, X)
    kernel = kernel.resolve(X) if kernel.compiled else kernel
    shape = X.shape if hasattr(X, "shape") else (len(X),)
    if shape != tuple(model.shape_fit_):
        raise ValueError(f"pass the training data: X had shape {model.shape_fit_} at fit.")
    classes = getattr(model, "classes_", None) if kind in CLASSIFIERS else None
    n_classes = 1 if classes is None else len(classes)
    target = _target(kind, classes, X, y)
    counts = model.n_support_ if n_classes > 1 else [len(model.support_)]
    sv_class = np.repeat(np.arange(n_classes), counts)
    of_class = target.astype(np.int64) if n_classes > 1 else np.zeros(len(target), dtype=np.int64)
    support = _support_rows(model, X if kernel.compiled else None, of_class, sv_class, weight)
    # scikit-learn turns the sign of a binary classifier: there classes_[1] is positive.
    sign = -1.0 if n_classes == 2 else 1.0
    per_class = getattr(model, "class_weight_", ()) if n_classes > 1 else ()
    return _Machine(
        kind=kind,
        kernel=kernel,
        settings=_settings(kind, settings, given),
        X=X,
        target=target,
        n_classes=n_classes,
        weight=weight * np.asarray(per_class)[of_class] if len(per_class) else weight,
        coef=sign * _dense(model.dual_coef_).T,
        b=sign * np.asarray(model.intercept_, dtype=np.float64),
        sv_class=sv_class,
        sv_place=support,
        row_place=np.arange(len(target)),
        at_bound=_AT_BOUND[np.float32 if model.dual_coef_.dtype == np.float32 else np.float64],
    )


def _support_rows(model: Any, X: Any, of_class: Ints, sv_class: Ints, weight: Floats) -> Ints:
    """The rows of the support vectors; X, where there is one to compare, and y must agree."""
    given = np.asarray(model.support_, dtype=np.int64)
    kept = np.flatnonzero(weight > 0)
    choices = [given]
    if given.max(initial=-1) < len(kept):
        choices.insert(0, kept[given])  # scikit-learn counts only rows of positive weight
    vectors = model.support_vectors_
    same = [X is None or not len(r) or abs(X[r] - vectors).max() == 0 for r in choices]
    if not any(same):
        raise ValueError("pass the training data: X differs from it at the support vectors.")
    for rows in (r for r, s in zip(choices, same, strict=True) if s):
        if np.array_equal(of_class[rows], sv_class):
            if (weight[rows] > 0).all():
                return rows
            lost = rows[int(weight[rows].argmin())]
            raise ValueError(f"pass the sample_weight of fit: row {lost} is a support vector.")
    raise ValueError("pass the training data: y differs from it at the support vectors.")


def _from_file(
    model: LibsvmModel, given: dict[str, float], X: Any, y: Any, weight: Floats
) -> _Machine:
    kind = model.svm_type
    missing = [name for name in _SETTINGS[kind] if name not in given]
    if missing:
        raise ValueError(
            f"a LIBSVM file holds no {' and no '.join(missing)}: pass certify(..., "
            f"{', '.join(f'{name}=...' for name in missing)}) as the {kind} was trained with."
        )
    kernel = as_kernel(**model.kernel_settings)
    X = _rows(kernel, X)
    target = _target(kind, model.label, X, y)
    n_classes = 1 if model.label is None else model.nr_class
    sv_class = np.repeat(
        np.arange(n_classes), len(model.coef) if model.nr_sv is None else model.nr_sv
    )
    row_class = target.astype(np.int64) if model.label is not None else np.zeros(len(target), int)
    row_place, sv_place = _match(model, X, row_class, sv_class)
    most = np.zeros(row_place.max(initial=0) + 1)
    np.maximum.at(most, row_place, weight)
    if not most[sv_place].all():
        lost = int(most[sv_place].argmin())
        raise ValueError(f"pass the sample_weight of training: support vector {lost} has none.")
    return _Machine(
        kind=kind,
        kernel=kernel,
        settings=_settings(kind, {}, given),
        X=X,
        target=target,
        n_classes=n_classes,
        weight=weight,
        coef=model.coef,
        b=-model.rho,
        sv_class=sv_class,
        sv_place=sv_place,
        row_place=row_place,
        at_bound=_AT_BOUND[np.float64],
    )


def _settings(kind: str, own: dict[str, float], given: dict[str, float]) -> dict[str, float]:
    foreign = [name for name in given if name not in _SETTINGS[kind]]
    if foreign:
        raise ValueError(f"{kind} has no {foreign[0]}; it has {' and '.join(_SETTINGS[kind])}.")
    return own | given


def fitted_kernel(machine: Any) -> Kernel:
    """Return the kernel of a fitted machine, of ours or of scikit-learn's, with fit's gamma.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> fitted_kernel(SVC().fit([[0.0], [2.0]], [0, 1]))
    RBF(gamma=1.0)
    """
    known = getattr(machine, "kernel_", None)
    if isinstance(known, Kernel):
        return known
    gamma = getattr(machine, "_gamma", machine.gamma)
    gamma = 1.0 / machine.n_features_in_ if gamma is None else gamma
    return as_kernel(machine.kernel, degree=machine.degree, gamma=gamma, coef0=machine.coef0)


def _dense(coef: Any) -> Floats:
    return np.asarray(coef.toarray() if sp.issparse(coef) else coef, dtype=np.float64)


def _rows(kernel: Kernel, X: Any) -> Any:
    """The data as scikit-learn takes them: float64, or anything for a Python function."""
    if not kernel.compiled and not isinstance(kernel, Precomputed):
        return X
    X = check_array(X, dtype=np.float64, accept_sparse="csr" if kernel.compiled else False)
    if isinstance(kernel, Precomputed) and X.shape[0] != X.shape[1]:
        raise ValueError(f"X must be the square training Gram matrix; got shape {X.shape}.")
    return X


def _target(kind: str, classes: Any, X: Any, y: Any) -> Floats:
    if kind == "one_class":
        return np.zeros(_num_samples(X))
    if y is None:
        raise ValueError(f"a {kind} model needs y, the training targets.")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    if classes is None:
        return np.asarray(y, dtype=np.float64)
    order = np.argsort(classes)
    place = np.searchsorted(np.asarray(classes)[order], y).clip(max=len(order) - 1)
    if not (np.asarray(classes)[order][place] == y).all():
        unknown, known = np.setdiff1d(y, classes)[0].item(), np.asarray(classes).tolist()
        raise ValueError(f"the model has no class {unknown!r}; it has {known}.")
    return np.asarray(order[place], dtype=np.float64)


def _match(model: LibsvmModel, X: Any, row_class: Ints, sv_class: Ints) -> tuple[Ints, Ints]:
    """Number the rows, equal ones alike, and say which number each support vector is."""
    n = len(row_class)
    if model.serial is not None:
        if model.serial.max(initial=0) > n:
            raise ValueError(f"the file names row {model.serial.max()}, but X has {n} rows.")
        if not np.array_equal(row_class[model.serial - 1], sv_class):
            raise ValueError("pass the training data: y differs from it at the support vectors.")
        return np.arange(n), model.serial - 1
    row_place, sv_place = _numbered(X, row_class, model.support_vectors, sv_class)
    if sv_place.min(initial=0) < 0:  # LIBSVM writes features as %.8g, coefficients in full
        X = _eight_digits(X)
        row_place, sv_place = _numbered(
            X, row_class, _eight_digits(model.support_vectors), sv_class
        )
    if sv_place.min(initial=0) < 0:
        lost = int(sv_place.argmin())
        where = "" if model.label is None else f" of class {model.label[sv_class[lost]]}"
        raise ValueError(
            f"pass the training data: support vector {lost} of the file is no row{where} in X."
        )
    return row_place, sv_place


def _numbered(X: Any, row_class: Ints, vectors: Any, sv_class: Ints) -> tuple[Ints, Ints]:
    """A number for each row of X, the same for equal ones, and for each vector; -1: no row."""
    numbers: dict[tuple[int, bytes, bytes], int] = {}
    row_place = [numbers.setdefault(key, len(numbers)) for key in _keys(X, row_class)]
    sv_place = [numbers.get(key, -1) for key in _keys(vectors, sv_class)]
    return np.array(row_place, dtype=np.int64), np.array(sv_place, dtype=np.int64)


def _eight_digits(X: Any) -> Any:
    X = sp.csr_array(X, copy=True)
    X.data = np.array([float(f"{value:.8g}") for value in X.data], dtype=np.float64)
    return X


def _keys(X: Any, classes: Ints) -> Iterator[tuple[int, bytes, bytes]]:
    """What tells one row from another: its class, its nonzero columns and their values."""
    X = sp.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    columns = X.indices.astype(np.int64)
    for c, first, last in zip(classes.tolist(), X.indptr[:-1], X.indptr[1:], strict=True):
        yield c, columns[first:last].tobytes(), X.data[first:last].tobytes()


def _weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    if sample_weight is None:
        return np.ones(n)
    weight: Floats = _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64)
    return np.maximum(weight, 0.0)


# ---- one binary problem after another ---------------------------------------------------------


def _binary(machine: _Machine) -> Iterator[tuple[Problem, Floats, Floats]]:
    """Each problem that the model solves, its β there, and what it says of the multipliers."""
    weight = machine.weight
    if machine.kind not in CLASSIFIERS:
        rows = np.flatnonzero(weight > 0)
        problem = _problem(machine, rows, machine.target[rows], weight[rows])
        yield problem, *_point(machine, problem, rows, machine.coef[:, 0], float(machine.b[0]))
        return
    for p, (i, j) in enumerate(combinations(range(machine.n_classes), 2)):
        rows = np.flatnonzero(((machine.target == i) | (machine.target == j)) & (weight > 0))
        signs = np.where(machine.target[rows] == i, 1.0, -1.0)
        problem = _problem(machine, rows, signs, weight[rows])
        # LIBSVM's layout: column j - 1 for class i, column i for class j.
        coef = np.where(machine.sv_class == i, machine.coef[:, j - 1], machine.coef[:, i])
        coef = np.where((machine.sv_class == i) | (machine.sv_class == j), coef, 0.0)
        yield problem, *_point(machine, problem, rows, coef, float(machine.b[p]))


def _problem(machine: _Machine, rows: Ints, target: Floats, weight: Floats) -> Problem:
    X = machine.X
    if len(rows) < _num_samples(X):
        X = take(X, rows, square=isinstance(machine.kernel, Precomputed))
    gram = Gram(machine.kernel, X)
    make: Any = {
        "c_svc": problems.soft_margin,
        "nu_svc": problems.nu_svc,
        "one_class": problems.one_class,
        "epsilon_svr": problems.svr,
        "nu_svr": problems.nu_svr,
    }[machine.kind]
    targets = () if machine.kind == "one_class" else (target,)
    problem: Problem = make(gram, *targets, sample_weight=weight, **machine.settings)
    return problem


def _point(
    machine: _Machine, problem: Problem, rows: Ints, coef: Floats, b: float
) -> tuple[Floats, Floats]:
    """β in the scale of the problem; λ of each group, or their mean where that is all it says."""
    lam = np.array([b])
    if problem.name == "nu_svc":
        eta = problem.margin_divided_by(coef)
        coef, lam = eta * coef, eta * np.array([b - 1.0, b + 1.0])
    place, count = machine.row_place[rows], int(machine.row_place.max(initial=0)) + 1
    up, down = (
        np.asarray(np.bincount(machine.sv_place, np.maximum(side, 0.0), count)[place], np.float64)
        for side in (coef, -coef)
    )
    if problem.z is None:
        positive = problem.u > 0
        share = _share(np.where(positive, up, down), place, problem.C, 0.0 * up)
        share -= np.where(positive, down, up)  # of the wrong sign for its class: distance tells
        return problem.settle(np.where(positive, share, -share), machine.at_bound), lam
    # Among equal rows the largest target is pushed up first, the smallest down.
    rise = _share(up, place, problem.C, -problem.z)
    fall = _share(down, place, problem.C, problem.z)
    if problem.name == "nu_svr":
        both = problem.common(np.concatenate([rise, -fall]))
        rise, fall = rise + both, fall + both
    return problem.settle(np.concatenate([rise, -fall]), machine.at_bound), lam


def _share(total: Floats, place: Ints, limit: Floats, rank: Floats) -> Floats:
    """Deal the total of each place out to its rows up to their limits, lowest rank first."""
    order = np.lexsort((rank, place))
    place, total = place[order], total[order]
    limit = np.minimum(limit[order], total)
    turn = place[1:] != place[:-1]
    first, last = np.append(True, turn), np.append(turn, True)
    before = np.cumsum(limit) - limit
    before -= np.maximum.accumulate(np.where(first, before, 0.0))
    left = np.where(first, total, np.maximum(total - before, 0.0))
    left = np.where(left <= 1e-12 * total, 0.0, left)  # rounding
    dealt: Floats = np.empty_like(total)
    dealt[order] = np.where(last, left, np.minimum(left, limit))  # too much: the distance tells
    return dealt
