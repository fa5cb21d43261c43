"""Decision regions, margin and support vectors of a fitted classifier or outlier detector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.displays._machine import Floats, Mask, Positions, of_estimator, of_predictions
from maxmargin.displays._style import Pen, add_legend, pyplot, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MarginDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class MarginDisplay:
    """Decision regions, margin and support vectors of a fitted classifier.

    Make it with :meth:`from_estimator`, or from plain numbers with :meth:`from_predictions`.

    Both sides of the decision line f(x) = 0 carry the colour of their class, paler between the
    margin lines f(x) = ±1. Free support vectors (0 < alpha < C) wear a ring, bound ones (alpha = C)
    a square, misclassified points a cross; a dotted slack line leads from a point that violates its
    margin to the margin line of its class. With more than two classes the regions are those of
    `predict`, lines are drawn where classes meet, and a support vector is bound if it is so in at
    least one pair of classes. An outlier detector has a boundary and no margin: its points are
    coloured by what it says of them, and slack is the way back to the boundary.

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
    levels : tuple of float
        Decision values of two classes at which there is a line: 0 and the margin, or 0 alone.
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
    levels: tuple[float, ...] = (-1, 0, 1)
    xlabel: str = ""
    ylabel: str = ""
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
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
        estimator : classifier or outlier detector with `decision_function`
            A support vector classifier, a pipeline that ends in one, or a search over such; a
            machine without `support_` is drawn without support vectors.
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            The training data; column names become axis labels.
        y : array-like of shape (n_samples,), default=None
            The labels; None takes those that are predicted, an outlier detector always does.
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
        pyplot("MarginDisplay.from_estimator")
        fields = of_estimator(
            estimator,
            X,
            y,
            sample_weight=sample_weight,
            support=support,
            grid_resolution=grid_resolution,
            padding=padding,
        )
        return cls(**fields).plot(ax, **options)

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
        pyplot("MarginDisplay.from_predictions")
        return cls(**of_predictions(X, y, decision, grid, alpha, C)).plot(ax, **options)

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
        plt = pyplot("MarginDisplay.plot")
        beside = ax is None
        if ax is None:
            ratio = float(np.ptp(self.xx1) / np.ptp(self.xx0))
            equal = 1 / 3 < ratio < 3
            height = 0.7 + 4.6 * float(np.clip(ratio, 0.5, 1.0) if equal else 0.8)
            _, ax = plt.subplots(figsize=(5.2 + 2.0 * legend, height), layout="compressed")
            ax.set_aspect("equal" if equal else "auto")
        self.ax_ = cast("Any", ax)
        self.figure_ = self.ax_.figure
        pen = Pen(ax, len(self.classes), colors)
        self._draw_regions(pen)
        self._draw_lines(pen)
        self._draw_slack(pen, slack)
        self._draw_points(pen)
        ax.set(xlim=(self.xx0.min(), self.xx0.max()), ylim=(self.xx1.min(), self.xx1.max()))
        write(ax, xlabel=self.xlabel, ylabel=self.ylabel, title=self.title)
        self.legend_ = self._draw_legend(pen, beside) if legend else None
        if beside:  # the layout of a box with equal scales settles at the second drawing
            self.figure_.draw_without_rendering()
        return self

    def _draw_regions(self, pen: Pen) -> None:
        def fill(values: Floats, levels: Sequence[float], owners: Sequence[int], tints: Any) -> Any:
            look = {"colors": tints, "hatches": [pen.hatches[k] for k in owners], "zorder": 0}
            return self.ax_.contourf(self.xx0, self.xx1, values, levels, **look)

        far = np.abs(self.response).max() + 2
        with pen.hatching():
            if self.response.ndim == 2:
                tints = [pen.tint(0), pen.tint(0, 0.18), pen.tint(1, 0.18), pen.tint(1)]
                owners: Sequence[int] = (0, 0, 1, 1)
                if len(self.levels) == 1:
                    owners, tints = (0, 1), tints[1:3]
                self.surface_ = [fill(self.response, (-far, *self.levels, far), owners, tints)]
            else:
                layers = enumerate(np.moveaxis(self.response, -1, 0))
                self.surface_ = [fill(v, (0, far), (k,), [pen.tint(k)]) for k, v in layers]

    def _draw_lines(self, pen: Pen) -> None:
        fields, levels = [self.response], [*self.levels]
        look: dict[str, Any] = {
            "linewidths": [1.0 if level else 1.8 for level in levels],
            "linestyles": ["dashed" if level else "solid" for level in levels],
        }
        if self.response.ndim == 3:
            fields, levels = list(np.moveaxis(self.response, -1, 0)), [0]
            look = {"linewidths": [1.8], "linestyles": ["solid"]}
        self.lines_ = [
            self.ax_.contour(self.xx0, self.xx1, values, levels, colors=pen.ink, zorder=2, **look)
            for values in fields
            if any(values.min() < level < values.max() for level in levels)
        ]

    def _draw_slack(self, pen: Pen, slack: bool) -> None:
        from matplotlib.collections import LineCollection

        self.slack_ = None
        if slack and self.slack_ends is not None:
            lines = np.stack([self.points, self.slack_ends], axis=1)
            lines = lines[np.isfinite(self.slack_ends).all(axis=1)]
            self.slack_ = LineCollection(list(lines), colors=pen.ink, zorder=2.5)
            self.slack_.set(linewidth=0.8, linestyle="dotted")
            self.ax_.add_collection(self.slack_, autolim=False)

    def _draw_points(self, pen: Pen) -> None:
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

    def _draw_legend(self, pen: Pen, beside: bool) -> Any:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        def line(**look: Any) -> Line2D:
            return Line2D([], [], **{"color": pen.ink, "mfc": "none", **look})

        entries: list[tuple[Any, str]] = []
        for k, label in enumerate(self.classes):
            with pen.hatching():
                patch = Patch(facecolor=pen.tint(k), hatch=pen.hatches[k], linewidth=0)
            point = line(ls="", marker=pen.markers[k], ms=6, mfc=pen.colors[k], mec=pen.colors[k])
            named = f"class {label}" if 1 in self.levels else str(label)
            entries.append(((patch, point), named))
        if len(self.levels) == 1:
            entries.append((line(lw=1.8), "boundary, f(x) = 0"))
        elif len(self.classes) == 2:
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
        return add_legend(self.ax_, entries, loc="outside right upper" if beside else "upper right")
