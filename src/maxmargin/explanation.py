"""Tell why a model decides as it does for one row: who voted, how near the margin is."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.estimators.models import fitted_kernel
from maxmargin.kernels import Callable as PythonKernel
from maxmargin.kernels import Kernel, Linear, Precomputed
from maxmargin.tables import Table

__all__ = ["Change", "Explanation", "explain"]

Floats = NDArray[np.float64]

_BLOCK = 2000  # rows of a Gram matrix at a time
_WIDEST = 1000  # features: for more of them no change is searched
_STEPS = 40
_HALVINGS = 60
_NEAR = 2000  # support vectors that are asked for their class
_RIVALS = 8  # classes towards which a change is searched


@dataclass(frozen=True)
class Change:
    """The nearest row, as far as was found, that the model decides otherwise.

    Parameters
    ----------
    prediction : object
        What the model says there.
    distance : float
        In the space of the machine: of scaled features, where the model scales.
    row : ndarray of shape (n_features,)
        In the units of the data.
    exact : bool
        Whether no row is nearer (a linear machine of two classes); else it is the best that a
        local search found.
    """

    prediction: Any
    distance: float
    row: Floats
    exact: bool


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a model decides as it does for one row.

    Parameters
    ----------
    prediction : object
    rival : object
        The class that comes next; None for regression.
    score : float
        What decides between the two: positive for the prediction, 1 on the margin of an SVM. For
        regression the prediction itself.
    bias : float
        The part of the score that is no support vector's.
    distance : float
        From the boundary in the kernel's feature space: score / ‖w‖. NaN for regression.
    margin_distance : float
        From the margin, positive outside it. NaN where there is none.
    votes : Table
        One row per support vector, the strongest first: ``row`` of the training data,
        ``coefficient``, ``kernel`` value, and ``vote``, their product. All votes and the bias sum
        up to the score.
    shown : int
        How many of them are printed.
    change : Change or None
    unchanged : str
        Why no change was searched.
    names : tuple of str
        Of the features.
    given : ndarray or None
        The row, where it holds numbers.
    """

    prediction: Any
    rival: Any
    score: float
    bias: float
    distance: float
    margin_distance: float
    votes: Table
    shown: int
    change: Change | None
    unchanged: str
    names: tuple[str, ...]
    given: Floats | None

    def __repr__(self) -> str:
        versus = "" if self.rival is None else f" over {self.rival}"
        return f"<Explanation: {self.prediction}{versus}, score {self.score:.3g}>"

    def _moves(self) -> list[tuple[str, float, float]]:
        """The features that change, the largest step first."""
        if self.change is None or self.given is None:
            return []
        step = np.abs(self.change.row - self.given)
        order = np.argsort(-step / (np.abs(self.given) + step.max() + 1e-300), kind="stable")
        moved = [k for k in order if step[k] > 1e-9 * (1 + abs(self.given[k]))]
        return [(self.names[k], float(self.given[k]), float(self.change.row[k])) for k in moved]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, the strongest votes only; rows counted from 1."""
        change = None
        if self.change is not None:
            change = {
                "prediction": _plain(self.change.prediction),
                "distance": self.change.distance,
                "exact": self.change.exact,
                "features": {name: [a, b] for name, a, b in self._moves()},
            }
        votes = [
            {"training_row": int(self.votes["row"][k]) + 1}
            | {name: float(self.votes[name][k]) for name in ("coefficient", "kernel", "vote")}
            for k in range(min(self.shown, len(self.votes)))
        ]
        return {
            "prediction": _plain(self.prediction),
            "rival": _plain(self.rival),
            "score": self.score,
            "bias": self.bias,
            "distance": self.distance,
            "margin_distance": self.margin_distance,
            "support_vectors": len(self.votes),
            "votes": votes,
            "nearest_change": change if change is not None else self.unchanged,
        }

    def __str__(self) -> str:
        versus = "" if self.rival is None else f" (over {self.rival})"
        lines = [f"prediction          {self.prediction}{versus}"]
        lines += [
            (
                f"score               {self.score:.6g} = {self.score - self.bias:.6g} of "
                f"{len(self.votes)} support vectors {self.bias:+.6g} bias"
            )
        ]
        if math.isfinite(self.distance):
            lines.append(f"from the boundary   {self.distance:.4g} in feature space")
        if math.isfinite(self.margin_distance):
            side = "outside" if self.margin_distance >= 0 else "inside"
            lines.append(f"from the margin     {abs(self.margin_distance):.4g} {side}")
        lines += ["", *self._ballot(), ""]
        if self.change is None:
            lines.append(f"nearest change      {self.unchanged}")
        else:
            how = "" if self.change.exact else ", the nearest that was found"
            lines.append(
                f"nearest change      {self.change.prediction} at distance "
                f"{self.change.distance:.4g}{how}"
            )
            moves = self._moves()
            lines += [f"  {name:<18}{a:.6g} -> {b:.6g}" for name, a, b in moves[: self.shown]]
            if len(moves) > self.shown:
                lines.append(f"  and {len(moves) - self.shown} more features")
        return "\n".join(lines)

    def _ballot(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("training row", "coefficient", "kernel", "vote")]
        rows += [
            (str(row + 1), *(f"{value:.4g}" for value in numbers))
            for row, *numbers in zip(
                *(self.votes[c][: self.shown] for c in self.votes), strict=True
            )
        ]
        rest = self.votes["vote"][self.shown :]
        lines = ["".join(f"{cell:>14}" for cell in row) for row in rows]
        if len(rest):
            lines.append(f"{len(rest)} more vote {rest.sum():+.4g} together")
        return lines

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def explain(model: Any, X: Any, *, top: int = 8, names: Sequence[str] | None = None) -> Explanation:
    r"""Explain what a model says about one row.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted machine of ours or of scikit-learn's, a search that has one, or a Pipeline that
        ends in one of these.
    X : array-like of shape (n_features,) or (1, n_features)
    top : int, default=8
        How many support vectors are printed.
    names : sequence of str, optional
        Of the features.

    Returns
    -------
    Explanation

    Notes
    -----
    With :math:`f(x) = \sum_j \beta_j k(x_j, x) + b` the votes are :math:`\beta_j k(x_j, x)` and
    the distance from the boundary is :math:`f(x) / \|w\|`, from the margin :math:`(|f(x)| - 1) /
    \|w\|`. Of several classes it is the prediction against the class that comes next. The nearest
    change solves :math:`\min \|z - x\|` subject to :math:`f(z) = 0` by linearisation, from x and
    from the support vectors nearby that are decided otherwise, and is checked by ``predict``.

    Examples
    --------
    >>> from maxmargin import SVC, explain
    >>> clf = SVC(kernel="linear", C=10).fit([[0.0, 0.0], [2.0, 0.0]], ["left", "right"])
    >>> found = explain(clf, [1.5, 3.0])
    >>> found
    <Explanation: right over left, score 0.5>
    >>> found.change.row.round(3).tolist(), str(found.change.prediction), found.change.exact
    ([1.0, 3.0], 'left', True)
    >>> bool(abs(found.votes.vote.sum() + found.bias - found.score) < 1e-12)
    True
    """
    X = _as_row(X)
    if X.shape[0] != 1:
        raise ValueError(f"explain takes one row; got {X.shape[0]}.")
    with warnings.catch_warnings():  # inside, rows are arrays, also for a model of data frames
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return _explained(model, X, top, names)


def _as_row(X: Any) -> Any:
    """One row of two dimensions: a data frame stays one, for what finds columns by name."""
    if hasattr(X, "to_frame"):  # a Series
        return X.to_frame().T.infer_objects()
    if sp.issparse(X) or hasattr(X, "columns"):
        return X
    X = np.asarray(X)
    return X[None] if X.ndim == 1 else X


def _explained(model: Any, X: Any, top: int, names: Sequence[str] | None) -> Explanation:
    if names is None:
        names = getattr(X, "columns", getattr(model, "feature_names_in_", None))
    steps = hasattr(model, "steps")
    machine = model[-1] if steps else model
    machine = getattr(machine, "best_estimator_", machine)  # of a search
    prepared = model[:-1].transform(X) if steps and len(model) > 1 else X
    prediction = model.predict(X)[0]
    X = X if sp.issparse(X) else np.asarray(X)
    decision = _decision(machine, prepared, prediction)
    values = _kernel_values(decision, prepared)
    votes = decision.coef * values
    score, order = float(votes.sum() + decision.bias), np.argsort(-np.abs(votes), kind="stable")
    w = _norm(decision)
    classify = decision.rival is not None
    svm = classify and type(machine).__name__ in ("SVC", "NuSVC")
    table = Table(
        {
            "row": decision.rows[order],
            "coefficient": decision.coef[order],
            "kernel": values[order],
            "vote": votes[order],
        }
    )
    change, why = _change(model, machine, prepared, prediction, decision)
    number = X.dtype.kind in "biuf"
    width = X.shape[1]
    return Explanation(
        prediction=prediction,
        rival=decision.rival,
        score=score,
        bias=decision.bias,
        distance=score / w if classify and w > 0 else math.nan,
        margin_distance=(abs(score) - 1) / w if svm and w > 0 else math.nan,
        votes=table,
        shown=top,
        change=change,
        unchanged=why,
        names=tuple(f"x{k + 1}" for k in range(width)) if names is None else tuple(map(str, names)),
        given=_dense_row(X) if number and width <= _WIDEST else None,
    )


def _dense_row(X: Any) -> Floats:
    dense: Floats = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    return dense.ravel()


# ---- what decides -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    """A function Σ coef k(basis, x) + bias; for classes positive for the prediction."""

    kernel: Kernel
    basis: Any
    coef: Floats
    bias: float
    rows: NDArray[np.int64]
    rival: Any


def _decision(machine: Any, X: Any, prediction: Any, rival: Any = None) -> _Decision:
    if not hasattr(machine, "dual_coef_"):
        raise TypeError(f"explain needs a fitted kernel machine; got {type(machine).__name__}.")
    kernel = _kernel_of(machine)
    basis = machine.X_fit_ if hasattr(machine, "X_fit_") else machine.support_vectors_
    columns, biases = _columns(machine)
    classes = getattr(machine, "classes_", None)
    if classes is None:
        coef, bias = columns[:, 0], float(biases[0])
        outlier = hasattr(machine, "offset_") or hasattr(machine, "R2_")
        if type(machine).__name__ == "SVDD":
            raise TypeError("explain does not know SVDD, whose score is not a sum over kernels.")
        sign = -1.0 if outlier and prediction == -1 else 1.0
        rival = -prediction if outlier else None
        return _kept(machine, kernel, basis, sign * coef, sign * bias, rival)
    c = int(np.flatnonzero(classes == prediction)[0])
    if len(classes) == 2:
        sign = 1.0 if c == 1 else -1.0
        if columns.shape[1] == 2:  # one machine per class
            columns, biases = columns[:, 1:] - columns[:, :1], biases[1:] - biases[:1]
        return _kept(
            machine, kernel, basis, sign * columns[:, 0], sign * float(biases[0]), classes[1 - c]
        )
    r = _next(machine, X, c) if rival is None else int(np.flatnonzero(classes == rival)[0])
    pairs = type(machine).__name__ in ("SVC", "NuSVC") and (
        getattr(machine, "multi_class", "ovo") == "ovo"
    )
    if pairs:
        i, j = min(c, r), max(c, r)
        k = list(itertools.combinations(range(len(classes)), 2)).index((i, j))
        sign = 1.0 if c == i else -1.0
        coef, bias = sign * columns[:, k], sign * float(biases[k])
    else:
        coef, bias = columns[:, c] - columns[:, r], float(biases[c] - biases[r])
    return _kept(machine, kernel, basis, coef, bias, classes[r])


def _kept(
    machine: Any, kernel: Kernel, basis: Any, coef: Floats, bias: float, rival: Any
) -> _Decision:
    """Leave out the rows that have no say."""
    at = np.flatnonzero(coef)
    support = getattr(machine, "support_", None)
    rows = at if support is None or len(support) != len(coef) else np.asarray(support)[at]
    return _Decision(
        kernel,
        basis[at] if not isinstance(kernel, Precomputed) else basis,
        coef[at],
        bias,
        np.asarray(rows, dtype=np.int64),
        rival,
    )


def _kernel_of(machine: Any) -> Kernel:
    kernel = fitted_kernel(machine)
    if isinstance(kernel, PythonKernel):
        raise TypeError("explain needs a kernel that is a formula; got a Python function.")
    return kernel


def _columns(machine: Any) -> tuple[Floats, Floats]:
    """Coefficients (n_rows, n_functions) and biases, whoever wrote the machine."""
    if hasattr(machine, "_columns"):
        columns = np.asarray(machine._columns(), dtype=np.float64)
        offsets = getattr(machine, "_offsets", None)
        biases = np.ravel(machine.intercept_ if offsets is None else offsets())
        whole = len(biases) == columns.shape[1]  # Crammer and Singer's machine has no bias
        return columns, np.asarray(biases if whole else np.zeros(columns.shape[1]), np.float64)
    coef = machine.dual_coef_
    coef = np.asarray(coef.toarray() if sp.issparse(coef) else coef, dtype=np.float64)
    if not hasattr(machine, "support_"):  # scikit-learn's kernel ridge
        return coef.reshape(len(coef), -1), np.zeros(max(coef.ndim, 1))
    biases = np.asarray(machine.intercept_, dtype=np.float64)
    if len(getattr(machine, "classes_", ())) <= 2:
        return coef.T, biases
    ends = np.concatenate([[0], np.cumsum(machine.n_support_)])
    pairs = list(itertools.combinations(range(len(machine.classes_)), 2))
    columns = np.zeros((coef.shape[1], len(pairs)))
    for k, (i, j) in enumerate(pairs):  # LIBSVM's layout
        own, other = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        columns[own, k], columns[other, k] = coef[j - 1, own], coef[i, other]
    return columns, biases


def _next(machine: Any, X: Any, winner: int) -> int:
    """The class that comes after the winner."""
    if getattr(machine, "decision_function_shape", "ovr") == "ovo":
        votes = np.zeros(len(machine.classes_))
        pairs = itertools.combinations(range(len(votes)), 2)
        for (i, j), value in zip(pairs, machine.decision_function(X)[0], strict=True):
            votes[i if value > 0 else j] += 1 + abs(value) / (3 * (abs(value) + 1))
    else:
        votes = np.array(machine.decision_function(X)[0], dtype=np.float64)
    votes[winner] = -np.inf
    return int(votes.argmax())


def _kernel_values(decision: _Decision, X: Any) -> Floats:
    if isinstance(decision.kernel, Precomputed):
        return _dense_row(X)[decision.rows]
    return np.asarray(decision.kernel(decision.basis, X), dtype=np.float64).ravel()


def _norm(decision: _Decision) -> float:
    if isinstance(decision.kernel, Precomputed):
        return math.nan
    total = 0.0
    for a in range(0, len(decision.coef), _BLOCK):
        K = decision.kernel(decision.basis[a : a + _BLOCK], decision.basis)
        total += float(decision.coef[a : a + _BLOCK] @ K @ decision.coef)
    return math.sqrt(max(total, 0.0))


# ---- the nearest change -----------------------------------------------------------------------


def _change(
    model: Any, machine: Any, prepared: Any, prediction: Any, decision: _Decision
) -> tuple[Change | None, str]:
    """The nearest row that is decided otherwise, and if there is none, why."""
    if decision.rival is None:
        return None, "a regression decides nothing"
    if isinstance(decision.kernel, Precomputed):
        return None, "not searched: the kernel is a matrix"
    if prepared.shape[1] > _WIDEST:
        return None, f"not searched: more than {_WIDEST} features"
    back = _back(model)
    if back is None:
        return None, "not searched: the features are not numbers that can be moved one by one"
    x = _dense_row(prepared)
    sparse = sp.issparse(decision.basis)

    def predict(rows: Floats) -> Any:
        return machine.predict(sp.csr_array(rows) if sparse else rows)

    best: Floats | None = None
    for one in _rivals(machine, prepared, prediction, decision):
        for start in _starts(one, x, predict, prediction):
            for end in (start, _projected(one, x, start)):
                z = _flipped(x, end, predict, prediction)
                if z is not None and (best is None or _length(z - x) < _length(best - x)):
                    best = z
    if best is None:
        return None, "none was found: the model says the same wherever it was searched"
    exact = isinstance(decision.kernel, Linear) and len(getattr(machine, "classes_", (0, 1))) == 2
    for beyond in (0.0, *10.0 ** np.arange(-12.0, -3.0)):  # past the rounding of `back`
        z = x + (1 + beyond) * (best - x)
        row = back(z)
        said = model.predict(sp.csr_array(row[None]) if sparse else row[None])[0]
        if said != prediction:
            return Change(said, _length(z - x), row, exact), ""
    return None, "none was found: what was found is lost in rounding"


def _length(v: Floats) -> float:
    return float(np.sqrt(np.square(v).sum()))


def _back(model: Any) -> Callable[[Floats], Floats] | None:
    """From the machine's features to those of the data."""
    if not hasattr(model, "steps") or len(model) == 1:
        return lambda z: z
    scalers = []
    for _, step in model.steps[:-1]:
        if type(step).__name__ == "SimpleImputer":  # what it filled is a number like the others
            if step.add_indicator or np.isnan(step.statistics_).any():
                return None
        elif not hasattr(step, "inverse_transform") or not hasattr(step, "scale_"):
            return None
        else:
            scalers.append(step)

    def back(z: Floats) -> Floats:
        row = z[None]
        for step in reversed(scalers):
            row = step.inverse_transform(row)
        found: Floats = np.asarray(row, dtype=np.float64)[0]
        return found

    return back


def _rivals(machine: Any, X: Any, prediction: Any, decision: _Decision) -> list[_Decision]:
    """The decision against each other class, those first that come nearest."""
    classes = getattr(machine, "classes_", ())
    if len(classes) <= 2:
        return [decision]
    others = [c for c in classes if c != prediction and c != decision.rival]
    rest = [_decision(machine, X, prediction, c) for c in others[:50]]
    rest.sort(key=lambda d: abs(float(d.coef @ _kernel_values(d, X) + d.bias)))
    return [decision, *rest[: _RIVALS - 1]]


def _starts(
    decision: _Decision, x: Floats, predict: Callable[[Floats], Any], prediction: Any
) -> list[Floats]:
    """The row itself, and points towards support vectors nearby that are decided otherwise."""
    basis = decision.basis
    basis = np.asarray(basis.toarray() if sp.issparse(basis) else basis, dtype=np.float64)
    near = basis[np.argsort(np.square(basis - x).sum(axis=1), kind="stable")[:_NEAR]]
    other = near[np.asarray(predict(near) != prediction)][:3]
    lines = (_flipped(x, z, predict, prediction) for z in other)
    return [x, *(z for z in lines if z is not None)]


def _projected(decision: _Decision, x: Floats, start: Floats) -> Floats:
    """Solve min ‖z − x‖ s.t. f(z) = 0 from a start, the constraint linearised in each step."""
    z = start.copy()
    for _ in range(_STEPS):
        f, g = _slope(decision, z)
        size = float(g @ g)
        if not size > 1e-300:
            break
        step = x + g * ((float(g @ (z - x)) - f) / size) - z
        longest = 1.0 + _length(z - x)
        step *= min(1.0, longest / max(_length(step), 1e-300))
        z = z + step
        if _length(step) <= 1e-10 * (1 + _length(z)):
            break
    return z


def _slope(decision: _Decision, z: Floats) -> tuple[float, Floats]:
    """F and its gradient by central differences."""
    h = 1e-5 * (1.0 + np.abs(z))
    rows = np.vstack([z, z + np.diag(h), z - np.diag(h)])
    basis = decision.basis
    K = decision.kernel(sp.csr_array(rows) if sp.issparse(basis) else rows, basis)
    f = np.asarray(K) @ decision.coef + decision.bias
    d = len(z)
    return float(f[0]), (f[1 : d + 1] - f[d + 1 :]) / (2 * h)


def _flipped(
    x: Floats, z: Floats, predict: Callable[[Floats], Any], prediction: Any
) -> Floats | None:
    """The first point on the way from x to z, or a little beyond, that is decided otherwise."""
    if not np.isfinite(z).all() or not _length(z - x) > 0:
        return None
    ways = np.concatenate(
        [np.linspace(0.05, 1.0, 20), 1 + 10.0 ** np.arange(-8.0, 0.0), [1.2, 1.5]]
    )
    other = np.asarray(predict(x + ways[:, None] * (z - x)) != prediction)
    if not other.any():
        return None
    k = int(other.argmax())
    low, high = (ways[k - 1] if k else 0.0), ways[k]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if predict((x + middle * (z - x))[None])[0] != prediction:
            high = middle
        else:
            low = middle
        if high - low <= 1e-9 * high:
            break
    found: Floats = x + high * (z - x)
    return found
