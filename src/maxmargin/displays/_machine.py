"""The numbers of a MarginDisplay: what a fitted classifier says about a plane and its points."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import cKDTree
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, column_or_1d, get_tags
from sklearn.utils.validation import check_is_fitted

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]

ON_MARGIN = 1e-3  # a functional margin this close to 1 counts as kept (the default tol)
AT_BOUND = 1e-6  # a multiplier relatively this close to C counts as C
FEW_CELLS = 1 << 22  # 32 MB: sparse rows may be made dense


def of_estimator(
    estimator: Any,
    X: Any,
    y: ArrayLike | None,
    *,
    sample_weight: ArrayLike | None,
    support: bool,
    grid_resolution: int,
    padding: float,
) -> dict[str, Any]:
    """Return the fields of a MarginDisplay for a fitted classifier and its training data."""
    transform, machine = unwrap(estimator)
    _check_drawable(machine)
    one_class = is_outlier_detector(machine)
    X = X if hasattr(X, "columns") else check_array(X, accept_sparse=True)
    y = None if one_class else y
    check_consistent_length(X, y, sample_weight)
    classes = np.array([-1, 1]) if one_class else machine.classes_
    known = None if y is None else _positions(y, classes)
    points, rows, lift, words = plane = _plane(X, transform)
    predicted = _positions(machine.predict(rows), classes)
    labels = predicted if known is None else known
    xx0, xx1 = _grid(points, grid_resolution, padding)
    response = _response(machine, len(classes), plane, xx0, xx1)
    free, bound = np.zeros((2, len(labels)), dtype=bool)
    if support and hasattr(machine, "support_"):
        _check_training_data(machine, rows)
        free, bound = _support(machine, labels, rows, sample_weight)
    ends = None
    if response.ndim == 2 and "title" not in words:
        short = _short(_decide(machine, rows), None if one_class else labels)
        ends = _slack_ends(points, short, (xx0, xx1, response), _unit_lengths(lift, xx0, xx1))
    return {
        "xx0": xx0,
        "xx1": xx1,
        "response": response,
        "points": points,
        "y": labels,
        "classes": np.array(["outlier", "inlier"]) if one_class else classes,
        "free": free,
        "bound": bound,
        "misclassified": predicted != labels,
        "slack_ends": ends,
        "levels": (0,) if one_class else (-1, 0, 1),
        **words,
    }


def of_predictions(
    X: Any, y: ArrayLike, decision: ArrayLike, grid: Any, alpha: ArrayLike | None, C: ArrayLike
) -> dict[str, Any]:
    """Return the fields of a MarginDisplay for decision values and multipliers."""
    check_consistent_length(X, y, decision, alpha)
    points, classes = check_array(X, dtype=np.float64), np.unique(np.asarray(y))
    if points.shape[1] != 2 or len(classes) != 2:
        got = f"{points.shape[1]} features and {len(classes)} classes"
        raise ValueError(f"from_predictions draws 2 features and 2 classes; got {got}.")
    labels, values = _positions(y, classes), np.asarray(decision, dtype=np.float64)
    xx0, xx1, response = (check_array(a, dtype=np.float64) for a in grid)
    multiplier = np.zeros(len(points)) if alpha is None else np.asarray(alpha)
    bound = (multiplier > 0) & (multiplier >= np.asarray(C) * (1 - AT_BOUND))
    return {
        "xx0": xx0,
        "xx1": xx1,
        "response": response,
        "points": points,
        "y": labels,
        "classes": classes,
        "free": (multiplier > 0) & ~bound,
        "bound": bound,
        "misclassified": (values > 0) != (labels == 1),
        "slack_ends": _slack_ends(points, _short(values, labels), (xx0, xx1, response), np.ones(2)),
        **_names(X),
    }


class _Plane(NamedTuple):
    """Where the points lie in the picture, and which rows the machine sees in their place."""

    points: Floats
    rows: Any
    lift: Callable[[Floats], Any]  # from spots of the picture to rows
    labels: dict[str, str]


def unwrap(estimator: Any) -> tuple[Callable[[Any], Any], Any]:
    """Split a fitted estimator into what happens before its last step, and that last step."""
    check_is_fitted(estimator)
    machine = getattr(estimator, "best_estimator_", estimator)
    steps: Any = machine if isinstance(machine, Pipeline) else [machine]
    return (steps[:-1].transform if len(steps) > 1 else lambda X: X), steps[-1]


def has_input_space(estimator: Any) -> bool:
    """Whether a fitted estimator sees rows of features, not a kernel matrix."""
    return not get_tags(unwrap(estimator)[1]).input_tags.pairwise


def has_tube(estimator: Any) -> bool:
    """Whether a fitted regression charges nothing up to some epsilon."""
    return bool({"epsilon", "nu"} & set(unwrap(estimator)[1].get_params()))


def _check_drawable(machine: Any) -> None:
    drawable = is_classifier(machine) or is_outlier_detector(machine)
    if not (drawable and hasattr(machine, "decision_function")):
        kind = type(machine).__name__
        raise ValueError(f"MarginDisplay needs a classifier with decision_function; got {kind}.")
    if get_tags(machine).input_tags.pairwise:
        raise ValueError("MarginDisplay cannot draw a precomputed kernel: it has no input space.")


def _like(X: Any, rows: Floats) -> Any:
    """Give rows the container and the column names of X."""
    if not hasattr(X, "columns"):
        return rows
    names = "schema" if hasattr(X, "schema") else "columns"  # polars, pandas
    return type(X)(rows, **{names: list(X.columns)})


def _names(X: Any) -> dict[str, str]:
    first, second = getattr(X, "columns", ("feature 0", "feature 1"))
    return {"xlabel": str(first), "ylabel": str(second)}


def _plane(X: Any, transform: Callable[[Any], Any]) -> _Plane:
    """Choose the plane: the two features themselves, else two principal components."""
    Z = transform(X)
    if X.shape[1] == 2:
        points = _dense(check_array(X, dtype=np.float64, accept_sparse="csr"))
        return _Plane(points, Z, lambda P: transform(_like(X, P)), _names(X))
    rows = check_array(Z, dtype=np.float64, accept_sparse="csr")
    if rows.shape[1] == 2:
        return _Plane(_dense(rows), Z, lambda P: _like(Z, P), _names(Z))
    if rows.shape[1] < 2:
        raise ValueError(
            "MarginDisplay needs at least 2 features; got 1. LedgerDisplay needs none."
        )
    rows = _dense(rows) if np.prod(rows.shape, dtype=float) <= FEW_CELLS else rows
    with np.errstate(invalid="ignore"):  # constant data: a share of 0 / 0
        pca = PCA(2, random_state=0).fit(rows)
    first, second = np.nan_to_num(pca.explained_variance_ratio_)
    labels = {
        "xlabel": f"principal component 1 ({first:.0%} of variance)",
        "ylabel": f"principal component 2 ({second:.0%} of variance)",
        "title": f"{rows.shape[1]} features cut along their first 2 principal components:\n"
        "regions are exact on this plane through the mean, points are projected",
    }
    return _Plane(pca.transform(rows), Z, lambda P: _like(Z, pca.inverse_transform(P)), labels)


def _dense(rows: Any) -> Floats:
    dense: Floats = rows.toarray() if sparse.issparse(rows) else rows
    return dense


def _grid(points: Floats, resolution: int, padding: float) -> tuple[Floats, Floats]:
    low, high = points.min(axis=0), points.max(axis=0)
    pad = padding * np.where(high > low, high - low, 1.0)
    axes = np.linspace(low - pad, high + pad, resolution)
    xx0, xx1 = np.meshgrid(axes[:, 0], axes[:, 1])
    return xx0, xx1


def _positions(y: ArrayLike, classes: NDArray[Any]) -> Positions:
    """Return the position of each label in the sorted class labels."""
    labels = np.asarray(y)
    positions = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    if labels.ndim != 1 or not np.array_equal(classes[positions], labels):
        raise ValueError(f"y must hold only the estimator's classes, {classes.tolist()}.")
    return positions


def _decide(machine: Any, rows: Any) -> Floats:
    """Return decision values: one column, or one for each pair a < b, positive where a wins."""
    if hasattr(machine, "decision_function_shape"):
        machine = copy.copy(machine)
        machine.decision_function_shape = "ovo"
    return np.asarray(machine.decision_function(rows), dtype=np.float64)


def _margins(decision: Floats, y: Positions, n_classes: int, one_vs_rest: bool = False) -> Floats:
    """Return functional margins, a row for each rival, or for each class against the rest."""
    if n_classes == 2:
        return np.atleast_2d(np.where(y == 1, decision, -decision))
    if one_vs_rest:
        return np.where(np.arange(n_classes)[:, None] == y, decision.T, -decision.T)
    rival = np.arange(n_classes - 1)[:, None]
    rival = rival + (rival >= y)
    a, b = np.minimum(rival, y), np.maximum(rival, y)
    pair = a * (2 * n_classes - a - 1) // 2 + b - a - 1
    values: Floats = decision[np.arange(len(y)), pair]
    return np.where(a == y, values, -values)


def _pairs_vote(machine: Any) -> bool:
    one_to_one = getattr(machine, "multi_class", "ovo") == "ovo"
    return one_to_one and not getattr(machine, "break_ties", True)


def _territories(machine: Any, rows: Any) -> Floats:
    """Return a column for each class: positive where it is predicted, zero on its border.

    Votes change only where the decision value of a pair is zero. So the size of a column is the
    least value among the pairs whose turn would give the row to the class, or take it away; that
    interpolates to smooth borders, where the predicted classes alone would draw stairs.
    """
    one = np.eye(len(machine.classes_))
    own = one[_positions(machine.predict(rows), machine.classes_)] > 0
    if not _pairs_vote(machine):  # the greatest of one score per class wins
        scores = np.asarray(machine.decision_function(rows), dtype=np.float64)
        second, first = np.partition(scores, -2, axis=1)[:, -2:].T[:, :, None]
        lead: Floats = np.abs(scores - np.where(scores == first, second, first))
        return np.where(own, lead, -lead)
    values = _decide(machine, rows)
    a, b = np.triu_indices(len(one), 1)
    made = values.any(axis=0)  # a pair that an interrupted fit did not reach says 0, and is no vote
    values, a, b = values[:, made], a[made], b[made]
    votes = (values > 0) @ one[a] + (values <= 0) @ one[b]
    winner, size = votes.argmax(axis=1), np.full(votes.shape, np.abs(values).max(initial=0) or 1.0)
    for value, turn in zip(values.T, one[b] - one[a], strict=True):
        heir = (votes + np.where(value > 0, 1, -1)[:, None] * turn).argmax(axis=1)
        moved = np.flatnonzero(heir != winner)
        for k in (winner[moved], heir[moved]):
            size[moved, k] = np.minimum(size[moved, k], np.abs(value[moved]))
    return np.where(own, size, -size)


def _response(machine: Any, n_classes: int, plane: _Plane, xx0: Floats, xx1: Floats) -> Floats:
    """Return decision values on the grid, or a layer of territory for each of several classes."""
    spots = np.column_stack([xx0.ravel(), xx1.ravel()])
    parts = np.array_split(spots, 1 + len(spots) * plane.rows.shape[1] // 2**24)  # 128 MB each
    answer = _decide if n_classes == 2 else _territories
    response = np.concatenate([answer(machine, plane.lift(part)) for part in parts])
    return response.reshape(*xx0.shape, *response.shape[1:])


def _support(machine: Any, y: Positions, X: Any, sample_weight: Any) -> tuple[Mask, Mask]:
    """Return which samples are free (0 < alpha < C) and which bound (alpha = C) support vectors.

    With several classes a vector is bound if it is so in at least one pair. A machine without C
    (NuSVC) does not tell its bound; there alpha is at it wherever the margin is violated. So it is
    with outliers.
    """
    rows, alpha = machine.support_, np.abs(_dense(machine.dual_coef_))
    C = machine.get_params().get("C")
    if getattr(machine, "loss", "hinge") == "squared_hinge":  # no bound but 0
        at_bound = np.zeros((1, len(rows)), dtype=bool)
    elif is_outlier_detector(machine):
        at_bound = _short(_decide(machine, X), None)[0][rows][None]
    elif C is None:
        rest = getattr(machine, "multi_class", "ovo") == "ovr"
        margins = _margins(_decide(machine, X), y, len(machine.classes_), rest)
        at_bound = (alpha > 0) & (margins[:, rows] < 1 - ON_MARGIN)
    else:
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        upper = C * np.asarray(machine.class_weight_)[y[rows]] * weight[rows]
        at_bound = alpha >= upper * (1 - AT_BOUND)
    free, bound = np.zeros((2, len(y)), dtype=bool)
    bound[rows] = at_bound.any(axis=0)
    free[rows] = ~bound[rows]
    return free, bound


def _check_training_data(machine: Any, rows: Any) -> None:
    """Raise unless the rows machine.support_ are its support vectors."""
    rows, vectors = check_array(rows, accept_sparse="csr"), machine.support_vectors_
    n, support = rows.shape[0], machine.support_
    known = n > support.max(initial=-1)
    # A callable kernel leaves scikit-learn without stored vectors: nothing to compare.
    if known and len(support) and vectors.shape == (len(support), rows.shape[1]):
        known = abs(rows[support] - vectors).max() <= 1e-5 * abs(rows).max()
    if not known:
        raise ValueError(
            f"the support vectors are not where support_ says among these {n} rows: pass "
            "the training data in its order, or support=False to show other data."
        )


def _slope(xx0: Floats, xx1: Floats, response: Floats) -> Floats | None:
    """Return the gradient of a response that is affine on the grid, else None."""
    corner = response[0, 0]
    rise = np.array([response[0, -1] - corner, response[-1, 0] - corner])
    slope = rise / [xx0[0, -1] - xx0[0, 0], xx1[-1, 0] - xx1[0, 0]]
    off = response - corner - slope[0] * (xx0 - xx0[0, 0]) - slope[1] * (xx1 - xx1[0, 0])
    return slope if np.abs(off).max() < 1e-5 * np.ptp(response) else None


def _short(decision: Floats, y: Positions | None) -> dict[float, Mask]:
    """Return which points fall short of which level: their margin, or without y the boundary."""
    if y is None:
        return {0: decision < -ON_MARGIN * np.abs(decision).max()}
    return {level: (2 * y - 1 == level) & (level * decision < 1 - ON_MARGIN) for level in (-1, 1)}


def _slack_ends(
    points: Floats, short: dict[float, Mask], grid: Sequence[Floats], unit: Floats
) -> Floats:
    """Return the nearest spot of its margin line for each point short of it, NaN for the others.

    That is the foot of the perpendicular if the decision function is affine, else the nearest
    vertex of the contour line. `unit` is the length of a unit of each axis for the machine.
    """
    from contourpy import contour_generator

    xx0, xx1, response = grid
    slope, contours = _slope(*grid), contour_generator(*grid)
    ends = np.full_like(points, np.nan)
    for level, rows in short.items():
        if slope is not None:
            w = slope / unit**2
            spot = np.array([xx0[0, 0], xx1[0, 0]])
            decision = response[0, 0] + (points[rows] - spot) @ slope
            ends[rows] = points[rows] + np.outer(level - decision, w / (slope @ w))
        elif lines := contours.lines(level):
            spots = np.concatenate(lines)  # type: ignore[arg-type]  # lists for the default type
            ends[rows] = spots[cKDTree(spots * unit).query(points[rows] * unit)[1]]
    return ends


def _unit_lengths(lift: Callable[[Floats], Any], xx0: Floats, xx1: Floats) -> Floats:
    """Return how long a unit of each axis is where the machine lives (behind a scaler)."""
    (left, right), (bottom, top) = xx0[0, [0, -1]], xx1[[0, -1], 0]
    corners = np.array([[left, bottom], [right, bottom], [left, top]])
    origin, east, north = check_array(lift(corners), dtype=np.float64)
    lengths = np.linalg.norm([east - origin, north - origin], axis=1)
    unit: Floats = np.where(lengths > 0, lengths, 1.0) / [right - left, top - bottom]
    return unit


# ---- regression -------------------------------------------------------------------------------


def of_regressor(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None,
    support: bool,
    grid_resolution: int,
    padding: float,
) -> dict[str, Any]:
    """Return the fields of a RegressionTubeDisplay for a fitted machine and its training data."""
    transform, machine = unwrap(estimator)
    if not (is_regressor(machine) and has_tube(machine)):
        kind = type(machine).__name__
        raise ValueError(f"RegressionTubeDisplay needs a regression with a tube; got {kind}.")
    X = X if hasattr(X, "columns") else check_array(X, accept_sparse=True)
    check_consistent_length(X, y, sample_weight)
    rows, target = transform(X), np.asarray(y, dtype=np.float64)
    prediction = np.asarray(machine.predict(rows), dtype=np.float64)
    free, bound = np.zeros((2, len(target)), dtype=bool)
    if hasattr(machine, "support_"):
        if support:
            _check_training_data(machine, rows)
        free, bound = _support_of_targets(machine, len(target), sample_weight)
    epsilon = _half_width(machine, np.abs(target - prediction), free, bound)
    if not support:
        free, bound = np.zeros((2, len(target)), dtype=bool)
    fields = {"y": target, "prediction": prediction, "epsilon": epsilon}
    fields |= {"free": free, "bound": bound, "ylabel": str(getattr(y, "name", None) or "target")}
    pairwise = get_tags(machine).input_tags.pairwise
    if X.shape[1] != 1 or pairwise:
        what = "a kernel matrix does" if pairwise else f"{X.shape[1]} features do"
        title = f"{what} not fit a picture:\ntarget over prediction, where f is the diagonal"
        return {**fields, **_diagonal(prediction), "title": title}
    x = _dense(check_array(X, dtype=np.float64, accept_sparse="csr"))[:, 0]
    at = _stretch(x, padding, grid_resolution)
    f = np.asarray(machine.predict(transform(_like(X, at[:, None]))), dtype=np.float64)
    return {**fields, "x": x, "curve": (at, f), "xlabel": str(getattr(X, "columns", ["x"])[0])}


def of_targets(
    y: ArrayLike,
    prediction: ArrayLike,
    epsilon: float,
    x: ArrayLike | None,
    beta: ArrayLike | None,
    C: ArrayLike,
) -> dict[str, Any]:
    """Return the fields of a RegressionTubeDisplay for predictions and coefficients."""
    check_consistent_length(y, prediction, x, beta)
    target, f = (column_or_1d(a).astype(np.float64) for a in (y, prediction))
    if not epsilon >= 0:
        raise ValueError(f"epsilon={epsilon} must be at least 0.")
    size = np.zeros(len(f)) if beta is None else np.abs(column_or_1d(beta))
    bound = (size > 0) & (size >= np.asarray(C) * (1 - AT_BOUND))
    fields = {"y": target, "prediction": f, "epsilon": float(epsilon), "ylabel": "target"}
    fields |= {"free": (size > 0) & ~bound, "bound": bound}
    if x is None:
        return {**fields, **_diagonal(f)}
    at = column_or_1d(x).astype(np.float64)
    order = np.argsort(at, kind="stable")
    return {**fields, "x": at, "curve": (at[order], f[order]), "xlabel": "x"}


def _diagonal(prediction: Floats) -> dict[str, Any]:
    """Target over prediction: the line is the diagonal, whatever the features are."""
    at = _stretch(prediction, 0.04, 2)
    return {"x": prediction, "curve": (at, at), "xlabel": "prediction f(x)"}


def _stretch(values: Floats, padding: float, resolution: int) -> Floats:
    low, high = float(values.min()), float(values.max())
    pad = padding * (high - low if high > low else 1.0)
    return np.linspace(low - pad, high + pad, resolution)


def _support_of_targets(machine: Any, n: int, sample_weight: Any) -> tuple[Mask, Mask]:
    """Return which samples are free and which bound support vectors of a regression."""
    rows, size = machine.support_, np.abs(_dense(machine.dual_coef_))[0]
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight)
    free, bound = np.zeros((2, n), dtype=bool)
    bound[rows] = size >= machine.C * weight[rows] * (1 - AT_BOUND)
    free[rows] = ~bound[rows]
    return free, bound


def _half_width(machine: Any, residual: Floats, free: Mask, bound: Mask) -> float:
    """Return ε; scikit-learn's NuSVR does not tell it, but free support vectors lie on the edge."""
    known = getattr(machine, "epsilon_", machine.get_params().get("epsilon"))
    if known is not None:
        return float(known)
    if free.any():
        return float(np.median(residual[free]))
    inside = residual[~bound].max(initial=0.0)
    return float((inside + residual[bound].min(initial=np.inf)) / 2) if bound.any() else inside
