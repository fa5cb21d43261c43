"""Look at data before any fitting: what will go wrong, what to do, how long it will take."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.utils import column_or_1d

from maxmargin.grams import default_cache_size
from maxmargin.problems import largest_nu, round_down

__all__ = ["Diagnosis", "Finding", "doctor"]

Ints = NDArray[np.int64]

_SPREAD = 100.0  # ratio of deviations above which a kernel sees only some of the features
_IMBALANCE = 10.0
_FEW = 5  # rows of a class: fewer than the usual number of folds
_ENOUGH = 0.15  # seconds of a sample's fit that can be told from noise
_SAMPLE = 4000  # rows of the largest sample
_SCALERS = (
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "Ranges",
    "Normalizer",
)


@dataclass(frozen=True)
class Finding:
    """Something about the data, and what to do about it.

    Parameters
    ----------
    level : {"error", "warning", "note"}
        An error makes the fit fail, a warning makes it worse.
    name : str
    what : str
    advice : str
    """

    level: str
    name: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.level:<8} {self.what}" + (
            f"\n         -> {self.advice}" if self.advice else ""
        )


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What :func:`doctor` found.

    Parameters
    ----------
    facts : dict
        ``rows``, ``features``, ``classes``, ``largest_nu``, ``seconds`` and ``megabytes`` of an
        exact fit, ...
    findings : tuple of Finding
        Errors first.
    """

    facts: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing stands in the way of a fit."""
        return not any(finding.level == "error" for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(
            f"no finding {name!r}; there are {', '.join(f.name for f in self.findings)}."
        )

    def __contains__(self, name: object) -> bool:
        return any(finding.name == name for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**self.facts, "ok": self.ok, "findings": [vars(f) for f in self.findings]}

    def __repr__(self) -> str:
        counts = dict.fromkeys(("error", "warning", "note"), 0)
        for finding in self.findings:
            counts[finding.level] += 1
        said = ", ".join(f"{n} {level}{'s' * (n != 1)}" for level, n in counts.items() if n)
        return f"<Diagnosis: {said or 'nothing to say'}>"

    def __str__(self) -> str:
        lines = [f"{name.replace('_', ' '):<20}{_shown(v)}" for name, v in self.facts.items()]
        return "\n".join([*lines, *map(str, self.findings)])

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th>{name.replace('_', ' ')}</th><td>{escape(_shown(v))}</td></tr>"
            for name, v in self.facts.items()
        )
        found = "".join(
            f"<tr><th>{f.level}</th><td>{escape(f.what)}</td><td>{escape(f.advice)}</td></tr>"
            for f in self.findings
        )
        return f"<table>{facts}</table><table>{found}</table>"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        parts = [f"{k}: {v}" for k, v in itertools.islice(value.items(), 8)]
        return ", ".join(parts) + (f", ... ({len(value)})" if len(value) > 8 else "")
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def doctor(
    X: Any, y: Any = None, estimator: Any = None, *, names: Sequence[str] | None = None
) -> Diagnosis:
    """Examine data before any fitting.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        May hold missing and infinite cells, or texts.
    y : array-like of shape (n_samples,), optional
        Classes or numbers; None for one-class machines.
    estimator : estimator or Pipeline, optional
        What is going to be fitted; None is an ``SVC``, an ``SVR`` where y holds numbers that
        are not whole, or a ``OneClassSVM`` without y. It is not changed: copies of it are fitted to
        small samples, to estimate how long all rows would take.
    names : sequence of str, optional
        Of the features.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import doctor
    >>> X = np.array([[0.0, 5e4], [1.0, 1e4], [0.0, 5e4], [2.0, 3e4]])
    >>> found = doctor(X, ["a", "b", "b", "a"])
    >>> found
    <Diagnosis: 3 warnings, 1 note>
    >>> print(found["opposite labels"].what)
    2 rows equal another one of a different class (rows 1 and 3, say)
    >>> found.facts["largest_nu"]
    1.0
    """
    X = X if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X needs rows and features; got shape {X.shape}.")
    if y is not None:
        y = column_or_1d(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows, y has {len(y)}.")
    estimator = _default(y) if estimator is None else estimator
    machine = estimator[-1] if hasattr(estimator, "steps") else estimator
    labels = [f"column {k + 1}" for k in range(X.shape[1])] if names is None else list(names)
    facts: dict[str, Any] = {"rows": X.shape[0], "features": X.shape[1]}
    if sp.issparse(X):
        facts["stored_cells"] = f"{X.nnz / (X.shape[0] * X.shape[1]):.2%}"
    numbers, places = _numbers(X)
    named = [labels[k] for k in places]
    found = [*_cells(numbers, named, estimator), *_columns(numbers, named, estimator)]
    if y is not None and not is_outlier_detector(machine):
        about_y = _target(y, machine, facts)
        found += [*about_y, *_duplicates(X, y, is_regressor(machine))]
    elif is_outlier_detector(machine):
        found += _one_class(X.shape[0], machine)
    if not any(finding.level == "error" for finding in found):
        found += _cost(X, y, estimator, facts)
    order = ("error", "warning", "note")
    return Diagnosis(facts, tuple(sorted(found, key=lambda f: order.index(f.level))))


def _default(y: Any) -> Any:
    from maxmargin import SVC, SVR, OneClassSVM

    if y is None:
        return OneClassSVM()
    many = y.dtype.kind == "f" and not (y == np.floor(y)).all()
    return SVR() if many else SVC()


def _numbers(X: Any) -> tuple[Any, Ints]:
    """The columns that hold numbers, as float64, and which they are."""
    if sp.issparse(X):
        return sp.csc_array(X).astype(np.float64), np.arange(X.shape[1])
    if X.dtype.kind in "biuf":
        return X.astype(np.float64, copy=False), np.arange(X.shape[1])
    columns, places = [], []
    for k in range(X.shape[1]):
        try:
            columns.append(X[:, k].astype(np.float64))
            places.append(k)
        except (TypeError, ValueError):
            continue
    numbers = np.column_stack(columns) if columns else np.zeros((X.shape[0], 0))
    return numbers, np.array(places, dtype=np.int64)


# ---- cells and columns ------------------------------------------------------------------------


def _cells(X: Any, names: list[str], estimator: Any) -> Iterator[Finding]:
    cells = X.data if sp.issparse(X) else X
    infinite = int(np.isinf(cells).sum())
    missing = int(np.isnan(cells).sum())
    if infinite:
        where = "" if sp.issparse(X) else f", the first in {_first(np.isinf(X), names)}"
        yield Finding(
            "error",
            "infinite cells",
            f"{infinite} infinite cells{where}",
            "no machine takes them: mend the data, or clip these columns",
        )
    if missing:
        where = "" if sp.issparse(X) else f", the first in {_first(np.isnan(X), names)}"
        fills = any(name in _parts(estimator) for name in ("SimpleImputer", "KNNImputer"))
        yield Finding(
            "note" if fills else "error",
            "missing cells",
            f"{missing} missing cells{where}",
            "the pipeline fills them"
            if fills
            else "put sklearn.impute.SimpleImputer before the machine (`maxmargin fit` does), "
            "or drop these rows",
        )


def _first(wrong: NDArray[np.bool_], names: list[str]) -> str:
    row, column = np.argwhere(wrong)[0]
    return f"row {row + 1}, {names[column]}"


def _parts(estimator: Any) -> set[str]:
    """Names of the classes in a pipeline."""
    params = estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ()
    return {type(part).__name__ for part in (estimator, *params)}


def _columns(X: Any, names: list[str], estimator: Any) -> Iterator[Finding]:
    if not X.shape[1]:
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns of nothing but NaN
        mean, deviation = _moments(X)
    known = np.isfinite(deviation)
    size = np.maximum(np.abs(mean), deviation)
    constant = known & (deviation <= 1e-12 * np.maximum(size, 1e-300))
    if constant.any():
        listed = _listed([names[k] for k in np.flatnonzero(constant)])
        yield Finding(
            "note", "constant columns", f"constant: {listed}", "they tell nothing; leave them out"
        )
    live = np.flatnonzero(known & ~constant)
    scaled = any(name in _SCALERS for name in _parts(estimator))
    if len(live) < 1:
        return
    low, high = live[deviation[live].argmin()], live[deviation[live].argmax()]
    ratio = float(deviation[high] / deviation[low])
    far = float((np.abs(mean[live]) / deviation[live]).max())
    if ratio > _SPREAD or deviation[high] > 1e3:
        what = (
            f"features are on different scales: deviation {deviation[high]:.3g} of "
            f"{names[high]}, {deviation[low]:.3g} of {names[low]}"
        )
        if len(live) == 1:
            what = f"{names[high]} has deviation {deviation[high]:.3g}"
        if scaled:
            yield Finding("note", "unscaled columns", what, "the pipeline scales them")
        else:
            yield Finding(
                "warning",
                "unscaled columns",
                what,
                "a kernel sees only the largest, and the fit is slow: put "
                "StandardScaler before the machine (`maxmargin fit` does)",
            )
    elif far > 1e4 and not scaled:
        yield Finding(
            "warning",
            "far from zero",
            f"a column's mean is {far:.1g} of its deviations away from 0",
            "put StandardScaler before the machine",
        )


def _moments(X: Any) -> tuple[Any, Any]:
    if sp.issparse(X):
        n = X.shape[0]
        mean = np.asarray(X.sum(axis=0)).ravel() / n
        squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() / n
        return mean, np.sqrt(np.maximum(squares - mean**2, 0.0))
    finite = np.where(np.isfinite(X), X, np.nan)
    return np.nanmean(finite, axis=0), np.nanstd(finite, axis=0)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f", ... ({len(names)})" if len(names) > 6 else "")


# ---- the target -------------------------------------------------------------------------------


def _target(y: Any, machine: Any, facts: dict[str, Any]) -> list[Finding]:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.isfinite(y).argmin()) + 1
        return [
            Finding(
                "error",
                "target",
                f"the target of row {row} is missing or infinite",
                "drop such rows",
            )
        ]
    if is_regressor(machine):
        return list(_numbers_to_learn(y, machine, facts))
    return list(_classes(y, machine, facts))


def _classes(y: Any, machine: Any, facts: dict[str, Any]) -> Iterator[Finding]:
    classes, counts = np.unique(y, return_counts=True)
    facts["classes"] = dict(zip(map(str, classes.tolist()), counts.tolist(), strict=True))
    if len(classes) < 2:
        yield Finding(
            "error",
            "one class",
            f"all rows are of class {classes[0]}",
            "a classifier needs two; for one class there is OneClassSVM",
        )
        return
    if len(classes) > 50 and len(classes) > len(y) / 5:
        yield Finding(
            "warning",
            "many classes",
            f"{len(classes)} classes in {len(y)} rows: is the target a number?",
            "for numbers take SVR",
        )
    pairs = itertools.combinations(counts.tolist(), 2) if len(classes) <= 500 else ()
    most = min((largest_nu(float(a), float(b)) for a, b in pairs), default=math.nan)
    facts["largest_nu"] = most
    nu = getattr(machine, "nu", None)
    if nu is not None and most < nu and is_classifier(machine):
        yield Finding(
            "error",
            "nu",
            f"nu={nu:g} is infeasible for these classes",
            f"at most nu={round_down(most)}",
        )
    rare = classes[counts < _FEW]
    if len(rare):
        yield Finding(
            "warning",
            "rare classes",
            f"{len(rare)} classes have fewer than {_FEW} rows: {_listed([str(c) for c in rare])}",
            "five folds cannot hold them all; merge or drop them",
        )
    ratio = counts.max() / counts.min()
    if ratio > _IMBALANCE and getattr(machine, "class_weight", None) is None:
        yield Finding(
            "warning",
            "imbalance",
            f"the largest class has {ratio:.0f} times the rows of the smallest",
            'class_weight="balanced" (--balanced), and look at each class\'s accuracy',
        )


def _numbers_to_learn(y: Any, machine: Any, facts: dict[str, Any]) -> Iterator[Finding]:
    if y.dtype.kind not in "biuf":
        yield Finding(
            "error",
            "target",
            f"a regressor needs numbers; y holds {y.dtype}",
            "take a classifier such as SVC",
        )
        return
    spread = float(np.std(y.astype(np.float64)))
    facts["target_deviation"] = spread
    if spread == 0:
        yield Finding("error", "target", "the target is constant", "there is nothing to learn")
        return
    epsilon = getattr(machine, "epsilon", None)
    if epsilon is not None and epsilon >= spread:
        yield Finding(
            "warning",
            "epsilon",
            f"epsilon={epsilon:g} is wider than the target's deviation {spread:.3g}",
            f"almost all rows lie in the tube; try epsilon={0.1 * spread:.1g}",
        )
    C = getattr(machine, "C", None)
    if C is not None and spread > 20 * C:
        yield Finding(
            "warning",
            "price",
            f"C={C:g} is small for a target with deviation {spread:.3g}",
            f"coefficients are at most C; try C={spread:.1g}, or standardise the target "
            "(TransformedTargetRegressor)",
        )


def _one_class(n: int, machine: Any) -> Iterator[Finding]:
    nu = getattr(machine, "nu", None)
    if nu is not None and nu * n < 1:
        yield Finding(
            "warning",
            "nu",
            f"nu={nu:g} is less than one of {n} rows",
            "no row may be an outlier; raise nu",
        )


def _duplicates(X: Any, y: Any, regression: bool) -> Iterator[Finding]:
    first: dict[bytes, int] = {}
    same = np.array([first.setdefault(key, k) for k, key in enumerate(_keys(X))], dtype=np.int64)
    repeated = np.flatnonzero(same != np.arange(len(same)))
    if not len(repeated):
        return
    opposite = repeated[y[repeated] != y[same[repeated]]]
    groups = np.unique(same[opposite])
    if len(opposite):
        count = int(np.isin(same, groups).sum())
        a, b = int(same[opposite[0]]) + 1, int(opposite[0]) + 1
        what, remedy = (
            ("target", "a smooth function errs there at least half their difference")
            if regression
            else (
                "class",
                (
                    "no machine gets both right, a hard margin does not exist; look "
                    "at how they came about"
                ),
            )
        )
        yield Finding(
            "warning",
            "opposite labels",
            f"{count} rows equal another one of a different {what} (rows {a} and {b}, say)",
            remedy,
        )
    if len(repeated) > len(opposite):
        count = len(repeated) - len(opposite)
        yield Finding(
            "note",
            "duplicates",
            f"{count} row{'s' * (count != 1)} of the same target as an equal earlier one",
            "one row with sample_weight says the same in less time; keep copies out of "
            "the test set",
        )


def _keys(X: Any) -> Iterator[bytes]:
    """What tells one row from another."""
    if sp.issparse(X):
        X = sp.csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = itertools.pairwise(X.indptr.tolist())
        yield from (X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in ends)
    elif X.dtype.kind in "biuf":
        rows = np.ascontiguousarray(X) + 0.0  # no minus zeros
        yield from (row.tobytes() for row in rows)
    else:
        yield from ("\x1f".join(map(str, row)).encode() for row in X.tolist())


# ---- time and memory --------------------------------------------------------------------------


def _cost(X: Any, y: Any, estimator: Any, facts: dict[str, Any]) -> list[Finding]:
    n = X.shape[0]
    width = 12 * X.nnz / n if sp.issparse(X) else 8 * X.shape[1]
    cache = min(4 * n * n, default_cache_size() * 2**20)
    if _is_dense(estimator):
        cache = 8 * n * n
    facts["megabytes"] = round((3 * n * width + cache) / 2**20, 1)
    try:
        seconds, measured, reason = _extrapolated(X, y, estimator)
    except (ValueError, MemoryError) as error:
        return [
            Finding("warning", "sample", f"a fit of a sample failed: {error}", "mend that first")
        ]
    facts["seconds"] = seconds
    found = []
    if reason:
        found.append(
            Finding(
                "warning", "slow", reason, "scale the features, lower C or gamma, or set max_time"
            )
        )
    elif seconds > 600:
        found.append(
            Finding(
                "warning",
                "long fit",
                f"an exact fit may take {seconds / 60:.0f} min",
                "start with fewer rows; set max_time (--max-time) to keep the best "
                "model of that time, with its gap",
            )
        )
    how = "measured" if measured == n else f"extrapolated from {measured} rows"
    memory = facts["megabytes"]
    room = f"up to {memory:g} MB" if memory >= 1 else "less than 1 MB"
    found.append(
        Finding(
            "note",
            "cost",
            f"an exact fit takes about {seconds:.2g} s ({how}) and {room}",
            "",
        )
    )
    return found


def _is_dense(estimator: Any) -> bool:
    """Whether it holds and factors the whole kernel matrix."""
    return bool({"KernelRidge", "KernelRidgeCV", "LSSVM", "LSSVMRegressor"} & _parts(estimator))


def _extrapolated(X: Any, y: Any, estimator: Any) -> tuple[float, int, str]:
    """Seconds of a fit of all rows, from samples that double until they can be measured."""
    rng, n = np.random.default_rng(0), X.shape[0]
    order = _mixed(y, estimator, rng.permutation(n))
    sizes, times = [], []
    size = min(n, 250)
    while True:
        rows = np.sort(order[:size])
        seconds, stopped = _timed(X[rows], None if y is None else y[rows], estimator)
        sizes.append(size)
        times.append(max(seconds, 1e-4))
        if stopped:
            power = (n / size) ** 2
            return times[-1] * power, size, f"a sample of {size} rows was not solved in 2 s"
        if size == n or seconds > _ENOUGH or size >= _SAMPLE:
            break
        size = min(n, 2 * size)
    if size == n:
        return times[-1], n, ""
    growth = 3.0 if _is_dense(estimator) else 2.0
    if len(sizes) > 1 and times[-2] > 0.01:
        slope = math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])
        growth = min(max(slope, 1.2), 3.0)
    return times[-1] * (n / size) ** growth, size, ""


def _mixed(y: Any, estimator: Any, order: Ints) -> Ints:
    """The rows in an order whose beginning has rows of every class."""
    machine = estimator[-1] if hasattr(estimator, "steps") else estimator
    if y is None or not is_classifier(machine):
        return order
    _, codes = np.unique(y[order], return_inverse=True)
    counts = np.bincount(codes)
    rank = np.empty(len(order), dtype=np.int64)
    for code in range(len(counts)):
        at = np.flatnonzero(codes == code)
        rank[at] = np.arange(len(at))
    # Evenly: the k-th of a class with c rows comes at k / c.
    return order[np.lexsort((rank, np.where(rank < 2, -1.0, rank / counts[codes])))]


def _timed(X: Any, y: Any, estimator: Any) -> tuple[float, bool]:
    copy = clone(estimator)
    machine = copy[-1] if hasattr(copy, "steps") else copy
    known = machine.get_params(deep=False)
    limits = {"max_time": 2.0, "verbose": 0}
    machine.set_params(**{name: value for name, value in limits.items() if name in known})
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copy.fit(X, y)
    seconds = time.perf_counter() - start
    proof = getattr(machine, "certificate_", None)
    return seconds, proof is not None and str(proof.status) == "time_limit"
