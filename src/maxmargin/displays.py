"""Pictures of fitted machines in scikit-learn's Display style: matplotlib's only home.

A display is made in two halves: a ``from_...`` constructor computes plain arrays and stores them,
``plot`` draws them and keeps every artist in an attribute that ends in ``_``. The colours are Okabe
and Ito's, which stay apart under colour blindness; classes differ by marker and hatch as well, so a
grey print can be read, and lines take the ink that suits a light or a dark background.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import cKDTree
from sklearn.base import is_classifier
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, get_tags
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MarginDisplay"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
OKABE_ITO_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2")
MARKERS = ("o", "^", "s", "D", "v", "P", "h", "<", "p", ">")
HATCHES = ("", "////", "\\\\\\\\", "....", "||||", "----", "++++", "xxxx")
ON_MARGIN = 1e-3  # a functional margin this close to 1 counts as kept (the default tol)
AT_BOUND = 1e-6  # a multiplier relatively this close to C counts as C


def _pyplot(caller: str) -> Any:
    """Import matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = f"{caller} needs matplotlib. Install it with: pip install maxmargin[plot]"
        raise ImportError(message) from error
    return plt


class _Pen:
    """The look of a picture: colours that suit its background, markers and hatches by class."""

    def __init__(self, ax: Axes, n_classes: int, colors: Sequence[Any] | None = None) -> None:
        from matplotlib.colors import to_hex, to_rgba

        around = [to_rgba(ax.get_facecolor()), to_rgba(ax.figure.get_facecolor())]
        paper = next((rgba for rgba in around if rgba[3] > 0.5), (1.0, 1.0, 1.0, 1.0))
        dark = np.dot(paper[:3], (0.2126, 0.7152, 0.0722)) < 0.5  # relative luminance
        palette = (OKABE_ITO_ON_DARK if dark else OKABE_ITO) if colors is None else colors
        self.paper, self.ink = to_hex(paper), "#f2f2f2" if dark else "#1a1a1a"
        self.faint = to_rgba(self.ink, 0.25)
        self.colors = [to_rgba(palette[k % len(palette)]) for k in range(n_classes)]
        self.markers = [MARKERS[k % len(MARKERS)] for k in range(n_classes)]
        self.hatches = [HATCHES[k % len(HATCHES)] for k in range(n_classes)]

    def tint(self, k: int, alpha: float = 0.38) -> Any:
        return (*self.colors[k][:3], alpha)

    def hatching(self) -> AbstractContextManager[None]:
        """Make hatches thin and faint; matplotlib takes both only from its settings."""
        import matplotlib as mpl

        return mpl.rc_context({"hatch.linewidth": 0.4, "hatch.color": self.faint})


class _Plane(NamedTuple):
    """Where the points lie in the picture, and which rows the machine sees in their place."""

    points: Floats
    rows: Any
    lift: Callable[[Floats], Any]  # from spots of the picture to rows
    labels: dict[str, str]


def _unwrap(estimator: Any) -> tuple[Callable[[Any], Any], Any]:
    """Split a fitted classifier into what happens before its last step, and that last step."""
    check_is_fitted(estimator)
    if not (is_classifier(estimator) and hasattr(estimator, "decision_function")):
        kind = type(estimator).__name__
        raise ValueError(f"MarginDisplay needs a classifier with decision_function; got {kind}.")
    machine = getattr(estimator, "best_estimator_", estimator)
    steps: Any = machine if isinstance(machine, Pipeline) else [machine]
    machine = steps[-1]
    if get_tags(machine).input_tags.pairwise:
        raise ValueError("MarginDisplay cannot draw a precomputed kernel: it has no input space.")
    return (steps[:-1].transform if len(steps) > 1 else lambda X: X), machine


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
        points = check_array(X, dtype=np.float64)
        return _Plane(points, Z, lambda P: transform(_like(X, P)), _names(X))
    rows = check_array(Z, dtype=np.float64)
    if rows.shape[1] == 2:
        return _Plane(rows, Z, lambda P: _like(Z, P), _names(Z))
    if rows.shape[1] < 2:
        raise ValueError("MarginDisplay needs at least 2 features; got 1.")
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


def _margins(decision: Floats, y: Positions, n_classes: int) -> Floats:
    """Return functional margins of shape (n_classes - 1, n_samples): row r is the r-th rival."""
    if n_classes == 2:
        return np.atleast_2d(np.where(y == 1, decision, -decision))
    rival = np.arange(n_classes - 1)[:, None]
    rival = rival + (rival >= y)
    a, b = np.minimum(rival, y), np.maximum(rival, y)
    pair = a * (2 * n_classes - a - 1) // 2 + b - a - 1
    values: Floats = decision[np.arange(len(y)), pair]
    return np.where(a == y, values, -values)


def _territories(machine: Any, rows: Any) -> Floats:
    """Return a column for each class: positive where it is predicted, zero on its border.

    Votes change only where the decision value of a pair is zero. So the size of a column is the
    least value among the pairs whose turn would give the row to the class, or take it away; that
    interpolates to smooth borders, where the predicted classes alone would draw stairs.
    """
    one = np.eye(len(machine.classes_))
    own = one[_positions(machine.predict(rows), machine.classes_)] > 0
    if getattr(machine, "break_ties", True):  # no votes: the greatest of one score per class wins
        scores = np.asarray(machine.decision_function(rows), dtype=np.float64)
        second, first = np.partition(scores, -2, axis=1)[:, -2:].T[:, :, None]
        lead: Floats = np.abs(scores - np.where(scores == first, second, first))
        return np.where(own, lead, -lead)
    values = _decide(machine, rows)
    a, b = np.triu_indices(len(one), 1)
    votes = (values > 0) @ one[a] + (values <= 0) @ one[b]
    winner, size = votes.argmax(axis=1), np.full(votes.shape, np.abs(values).max())
    for value, turn in zip(values.T, one[b] - one[a], strict=True):
        heir = (votes + np.where(value > 0, 1, -1)[:, None] * turn).argmax(axis=1)
        moved = np.flatnonzero(heir != winner)
        for k in (winner[moved], heir[moved]):
            size[moved, k] = np.minimum(size[moved, k], np.abs(value[moved]))
    return np.where(own, size, -size)


def _support(machine: Any, y: Positions, X: Any, sample_weight: Any) -> tuple[Mask, Mask]:
    """Return which samples are free (0 < alpha < C) and which bound (alpha = C) support vectors.

    With several classes a vector is bound if it is so in at least one pair. A machine without C
    (NuSVC) does not tell its bound; there alpha is at it wherever the margin is violated.
    """
    rows, coef = machine.support_, machine.dual_coef_
    alpha = np.abs(coef.toarray() if sparse.issparse(coef) else coef)
    C = machine.get_params().get("C")
    if C is None:
        margins = _margins(_decide(machine, X), y, len(machine.classes_))
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
    rows, vectors = check_array(rows), machine.support_vectors_
    known = len(rows) > machine.support_.max(initial=-1)
    # A callable kernel leaves scikit-learn without stored vectors: nothing to compare.
    if known and vectors.shape == (len(machine.support_), rows.shape[1]):
        off = np.abs(np.asarray(rows[machine.support_] - vectors)).max(initial=0)
        known = off <= 1e-5 * np.abs(rows).max()
    if not known:
        raise ValueError(
            f"the support vectors are not where support_ says among these {len(rows)} rows: pass "
            "the training data in its order, or support=False to show other data."
        )


def _slope(xx0: Floats, xx1: Floats, response: Floats) -> Floats | None:
    """Return the gradient of a response that is affine on the grid, else None."""
    corner = response[0, 0]
    rise = np.array([response[0, -1] - corner, response[-1, 0] - corner])
    slope = rise / [xx0[0, -1] - xx0[0, 0], xx1[-1, 0] - xx1[0, 0]]
    off = response - corner - slope[0] * (xx0 - xx0[0, 0]) - slope[1] * (xx1 - xx1[0, 0])
    return slope if np.abs(off).max() < 1e-5 * np.ptp(response) else None


def _slack_ends(
    points: Floats, y: Positions, decision: Floats, grid: Sequence[Floats], unit: Floats
) -> Floats:
    """Return the nearest spot of its margin line for each point short of it, NaN for the others.

    That is the foot of the perpendicular if the decision function is affine, else the nearest
    vertex of the contour line. `unit` is the length of a unit of each axis for the machine.
    """
    from contourpy import contour_generator

    slope, contours = _slope(*grid), contour_generator(*grid)
    ends = np.full_like(points, np.nan)
    for level in (-1, 1):
        short = (2 * y - 1 == level) & (level * decision < 1 - ON_MARGIN)
        if slope is not None:
            w = slope / unit**2
            ends[short] = points[short] + np.outer(level - decision[short], w / (slope @ w))
        elif lines := contours.lines(level):
            spots = np.concatenate(lines)  # type: ignore[arg-type]  # lists for the default type
            ends[short] = spots[cKDTree(spots * unit).query(points[short] * unit)[1]]
    return ends


def _unit_lengths(plane: _Plane, xx0: Floats, xx1: Floats) -> Floats:
    """Return how long a unit of each axis is where the machine lives (behind a scaler)."""
    (left, right), (bottom, top) = xx0[0, [0, -1]], xx1[[0, -1], 0]
    corners = np.array([[left, bottom], [right, bottom], [left, top]])
    origin, east, north = check_array(plane.lift(corners), dtype=np.float64)
    lengths = np.linalg.norm([east - origin, north - origin], axis=1)
    unit: Floats = np.where(lengths > 0, lengths, 1.0) / [right - left, top - bottom]
    return unit


@dataclass(kw_only=True, eq=False, repr=False)
class MarginDisplay:
    """Decision regions, margin and support vectors of a fitted classifier.

    Make it with :meth:`from_estimator`, or from plain numbers with :meth:`from_predictions`.

    Both sides of the decision line f(x) = 0 carry the colour of their class, paler between the
    margin lines f(x) = ±1. Free support vectors (0 < alpha < C) wear a ring, bound ones (alpha = C)
    a square, misclassified points a cross; a dotted slack line leads from a point that violates its
    margin to the margin line of its class. With more than two classes the regions are those of
    `predict`, lines are drawn where classes meet, and a support vector is bound if it is so in at
    least one pair of classes.

    **More than two features** do not fit a picture, and title and labels say so: it shows the plane
    through the mean along the first two principal components of what the machine sees (after the
    transformations of a pipeline). Regions and lines are exact on that plane. Points are projected
    onto it and may appear on a side that is not theirs; the marks on them are always their own.

    Attributes
    ----------
    xx0, xx1 : ndarray of shape (n_rows, n_columns)
        The grid, as made by :func:`numpy.meshgrid`.
    response : ndarray of shape (n_rows, n_columns) or (n_rows, n_columns, n_classes)
        Decision values on the grid; with more than two classes a layer for each class that is
        positive where the class is predicted, and zero on its border.
    points, y : ndarray of shape (n_samples, 2) and (n_samples,)
        The points in the plane, and their classes as positions in `classes`.
    classes : ndarray of shape (n_classes,)
        The class labels.
    free, bound, misclassified : ndarray of bool of shape (n_samples,)
        Which points carry that mark.
    slack_ends : ndarray of shape (n_samples, 2) or None
        Where the slack line of a point ends; NaN for a point that keeps its margin.
    xlabel, ylabel, title : str
        Labels; they never replace what is already written on the axes.
    ax_, figure_, legend_ : matplotlib Axes, Figure, and Legend or None
        Where it was drawn.
    surface_ : list of QuadContourSet
        The regions: one set of four bands for two classes, else one set for each class.
    lines_ : list of QuadContourSet
        One set with levels -1, 0, 1 for two classes, else the border of each class.
    points_ : list of PathCollection
        The points, class by class.
    free_, bound_, misclassified_, slack_ : PathCollection, and LineCollection or None
        The marks on points, and the slack lines.

    Examples
    --------
    >>> from maxmargin.displays import MarginDisplay
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> X = X[["petal length (cm)", "petal width (cm)"]]
    >>> clf = SVC(kernel="linear", C=1e6).fit(X, y == 0)
    >>> display = MarginDisplay.from_estimator(clf, X, y == 0)
    >>> int(display.free.sum()), display.ax_.get_xlabel()
    (2, 'petal length (cm)')
    """

    xx0: Floats
    xx1: Floats
    response: Floats
    points: Floats
    y: Positions
    classes: NDArray[Any]
    free: Mask
    bound: Mask
    misclassified: Mask
    slack_ends: Floats | None = None
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        ax: Axes | None = None,
        sample_weight: ArrayLike | None = None,
        support: bool = True,
        grid_resolution: int = 200,
        padding: float = 0.06,
        **options: Any,
    ) -> Self:
        """Draw a fitted classifier and the data it was fitted on.

        Parameters
        ----------
        estimator : classifier with `decision_function`
            A support vector classifier, a pipeline that ends in one, or a search over such; a
            machine without `support_` is drawn without support vectors.
        X : {array-like, dataframe} of shape (n_samples, n_features)
            The training data; column names become axis labels.
        y : array-like of shape (n_samples,)
            The labels.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights given to `fit`: they scale C, so they decide which vectors are bound.
        support : bool, default=True
            Mark support vectors; only with False may other data than the training data be shown.
        grid_resolution : int, default=200
            Grid points along each axis.
        padding : float, default=0.06
            Room around the points, as a fraction of their range.
        **options
            `slack`, `legend` and `colors`, as in :meth:`plot`.

        Returns
        -------
        display : MarginDisplay
            The display, drawn.
        """
        _pyplot("MarginDisplay.from_estimator")
        transform, machine = _unwrap(estimator)
        X = X if hasattr(X, "columns") else check_array(X, accept_sparse=True)
        check_consistent_length(X, y, sample_weight)
        classes = machine.classes_
        labels = _positions(y, classes)

        plane = _plane(X, transform)
        xx0, xx1 = _grid(plane.points, grid_resolution, padding)
        spots = np.column_stack([xx0.ravel(), xx1.ravel()])
        parts = np.array_split(spots, 1 + len(spots) * plane.rows.shape[1] // 2**24)  # 128 MB each
        answer = _decide if len(classes) == 2 else _territories
        response = np.concatenate([answer(machine, plane.lift(part)) for part in parts])
        response = response.reshape(*xx0.shape, *response.shape[1:])
        free, bound = np.zeros((2, len(labels)), dtype=bool)
        if support and hasattr(machine, "support_"):
            _check_training_data(machine, plane.rows)
            free, bound = _support(machine, labels, plane.rows, sample_weight)
        ends = None
        if response.ndim == 2 and "title" not in plane.labels:
            decision, unit = _decide(machine, plane.rows), _unit_lengths(plane, xx0, xx1)
            ends = _slack_ends(plane.points, labels, decision, (xx0, xx1, response), unit)
        return cls(
            xx0=xx0,
            xx1=xx1,
            response=response,
            points=plane.points,
            y=labels,
            classes=classes,
            free=free,
            bound=bound,
            misclassified=_positions(machine.predict(plane.rows), classes) != labels,
            slack_ends=ends,
            **plane.labels,
        ).plot(ax, **options)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        y: ArrayLike,
        decision: ArrayLike,
        *,
        grid: tuple[ArrayLike, ArrayLike, ArrayLike],
        alpha: ArrayLike | None = None,
        C: ArrayLike = np.inf,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw a binary machine from numbers alone: a solver's answer, or a foreign model.

        Parameters
        ----------
        X : {array-like, dataframe} of shape (n_samples, 2)
            The points.
        y : array-like of shape (n_samples,)
            Their labels, of two classes; the greater one is positive.
        decision : array-like of shape (n_samples,)
            Decision values at the points.
        grid : tuple (xx0, xx1, response) of array-like of shape (n_rows, n_columns)
            A grid made by :func:`numpy.meshgrid`, and the decision values there.
        alpha : array-like of shape (n_samples,), default=None
            The multipliers, not negative; None marks no support vectors.
        C : float or array-like of shape (n_samples,), default=inf
            Their upper bound.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : MarginDisplay
            The display, drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin.displays import MarginDisplay
        >>> X, y = np.array([[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]]), np.array([-1, 1, 1])
        >>> xx0, xx1 = np.meshgrid(np.linspace(-1, 4, 50), np.linspace(-1, 2, 50))
        >>> display = MarginDisplay.from_predictions(
        ...     X, y, X[:, 0] - 1, grid=(xx0, xx1, xx0 - 1), alpha=[0.5, 0.5, 0.0]
        ... )
        >>> display.free
        array([ True,  True, False])
        """
        _pyplot("MarginDisplay.from_predictions")
        check_consistent_length(X, y, decision, alpha)
        points, classes = check_array(X, dtype=np.float64), np.unique(np.asarray(y))
        if points.shape[1] != 2 or len(classes) != 2:
            got = f"{points.shape[1]} features and {len(classes)} classes"
            raise ValueError(f"from_predictions draws 2 features and 2 classes; got {got}.")
        labels, values = _positions(y, classes), np.asarray(decision, dtype=np.float64)
        xx0, xx1, response = (check_array(a, dtype=np.float64) for a in grid)
        multiplier = np.zeros(len(points)) if alpha is None else np.asarray(alpha)
        bound = (multiplier > 0) & (multiplier >= np.asarray(C) * (1 - AT_BOUND))
        return cls(
            xx0=xx0,
            xx1=xx1,
            response=response,
            points=points,
            y=labels,
            classes=classes,
            free=(multiplier > 0) & ~bound,
            bound=bound,
            misclassified=(values > 0) != (labels == 1),
            slack_ends=_slack_ends(points, labels, values, (xx0, xx1, response), np.ones(2)),
            **_names(X),
        ).plot(ax, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        slack: bool = True,
        legend: bool = True,
        colors: Sequence[Any] | None = None,
    ) -> Self:
        """Draw the stored arrays.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure, with equal scales if the box is not too long.
        slack : bool, default=True
            Draw slack lines; with more classes or projected points there are none.
        legend : bool, default=True
            Add a legend: beside the axes of a new figure, inside axes that were given.
        colors : sequence of matplotlib colors, default=None
            One for each class; None takes Okabe and Ito's.

        Returns
        -------
        display : MarginDisplay
            This object.
        """
        plt = _pyplot("MarginDisplay.plot")
        beside = ax is None
        if ax is None:
            ratio = float(np.ptp(self.xx1) / np.ptp(self.xx0))
            equal = 1 / 3 < ratio < 3
            height = 0.7 + 4.6 * float(np.clip(ratio, 0.5, 1.0) if equal else 0.8)
            _, ax = plt.subplots(figsize=(5.2 + 2.0 * legend, height), layout="compressed")
            ax.set_aspect("equal" if equal else "auto")
        self.ax_ = cast("Any", ax)
        self.figure_ = self.ax_.figure
        pen = _Pen(ax, len(self.classes), colors)
        self._draw_regions(pen)
        self._draw_lines(pen)
        self._draw_slack(pen, slack)
        self._draw_points(pen)
        ax.set(xlim=(self.xx0.min(), self.xx0.max()), ylim=(self.xx1.min(), self.xx1.max()))
        ax.set_xlabel(ax.get_xlabel() or self.xlabel)
        ax.set_ylabel(ax.get_ylabel() or self.ylabel)
        if self.title and not ax.get_title():
            ax.set_title(self.title, fontsize="small")
        self.legend_ = self._draw_legend(pen, beside) if legend else None
        if beside:  # the layout of a box with equal scales settles at the second drawing
            self.figure_.draw_without_rendering()
        return self

    def _draw_regions(self, pen: _Pen) -> None:
        def fill(values: Floats, levels: Sequence[float], owners: Sequence[int], tints: Any) -> Any:
            look = {"colors": tints, "hatches": [pen.hatches[k] for k in owners], "zorder": 0}
            return self.ax_.contourf(self.xx0, self.xx1, values, levels, **look)

        far = np.abs(self.response).max() + 2
        with pen.hatching():
            if self.response.ndim == 2:
                tints = [pen.tint(0), pen.tint(0, 0.18), pen.tint(1, 0.18), pen.tint(1)]
                self.surface_ = [fill(self.response, (-far, -1, 0, 1, far), (0, 0, 1, 1), tints)]
            else:
                layers = enumerate(np.moveaxis(self.response, -1, 0))
                self.surface_ = [fill(v, (0, far), (k,), [pen.tint(k)]) for k, v in layers]

    def _draw_lines(self, pen: _Pen) -> None:
        fields, levels = [self.response], [-1, 0, 1]
        look = {"linewidths": [1.0, 1.8, 1.0], "linestyles": ["dashed", "solid", "dashed"]}
        if self.response.ndim == 3:
            fields, levels = list(np.moveaxis(self.response, -1, 0)), [0]
            look = {"linewidths": [1.8], "linestyles": ["solid"]}
        self.lines_ = [
            self.ax_.contour(self.xx0, self.xx1, values, levels, colors=pen.ink, zorder=2, **look)
            for values in fields
            if any(values.min() < level < values.max() for level in levels)
        ]

    def _draw_slack(self, pen: _Pen, slack: bool) -> None:
        from matplotlib.collections import LineCollection

        self.slack_ = None
        if slack and self.slack_ends is not None:
            lines = np.stack([self.points, self.slack_ends], axis=1)
            lines = lines[np.isfinite(self.slack_ends).all(axis=1)]
            self.slack_ = LineCollection(list(lines), colors=pen.ink, zorder=2.5)
            self.slack_.set(linewidth=0.8, linestyle="dotted")
            self.ax_.add_collection(self.slack_, autolim=False)

    def _draw_points(self, pen: _Pen) -> None:
        size = float(np.clip(420 / np.sqrt(len(self.points)), 9, 36))
        thick = float(np.sqrt(size / 36))

        def mark(rows: Mask, marker: str, area: float, **look: Any) -> Any:
            return self.ax_.scatter(*self.points[rows].T, s=area * size, marker=marker, **look)

        cross = {"color": pen.ink, "linewidths": 1.3 * thick, "zorder": 2.8}
        outline = {"facecolors": "none", "edgecolors": pen.ink, "zorder": 4}
        self.misclassified_ = mark(self.misclassified, "x", 3.2, **cross)
        self.points_ = [
            mark(self.y == k, pen.markers[k], 1, color=color, ec=pen.paper, lw=0.5, zorder=3)
            for k, color in enumerate(pen.colors)
        ]
        self.bound_ = mark(self.bound, "s", 3, linewidths=0.8 * thick, **outline)
        self.free_ = mark(self.free, "o", 4.5, linewidths=1.5 * thick, **outline)

    def _draw_legend(self, pen: _Pen, beside: bool) -> Any:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        def line(**look: Any) -> Line2D:
            return Line2D([], [], **{"color": pen.ink, "mfc": "none", **look})

        entries: list[tuple[Any, str]] = []
        for k, label in enumerate(self.classes):
            with pen.hatching():
                patch = Patch(facecolor=pen.tint(k), hatch=pen.hatches[k], linewidth=0)
            point = line(ls="", marker=pen.markers[k], ms=6, mfc=pen.colors[k], mec=pen.colors[k])
            entries.append(((patch, point), f"class {label}"))
        if len(self.classes) == 2:
            entries.append((line(lw=1.8), "f(x) = 0"))
            entries.append((line(lw=1.0, ls="dashed"), "margin, f(x) = ±1"))
        else:
            entries.append((line(lw=1.8), "classes meet"))
        if self.slack_ is not None and self.slack_.get_paths():
            entries.append((line(lw=0.8, ls="dotted"), "slack"))
        for rows, marker, size, what in (
            (self.free, "o", 9, "free support vectors"),
            (self.bound, "s", 8, "bound support vectors"),
            (self.misclassified, "x", 7, "misclassified"),
        ):
            if rows.any():
                entries.append((line(ls="", marker=marker, ms=size), f"{what} ({rows.sum()})"))
        handles, names = zip(*entries, strict=True)
        if beside:
            return self.figure_.legend(handles, names, fontsize="small", loc="outside right upper")
        return self.ax_.legend(handles, names, fontsize="small", loc="upper right")
