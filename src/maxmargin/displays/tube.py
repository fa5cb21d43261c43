"""A support vector regression and its tube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.displays._style import Pen, add_legend, pyplot, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RegressionTubeDisplay"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

INSIDE = 1e-3  # of the tube's half-width: what sticks out less counts as inside


@dataclass(kw_only=True, eq=False, repr=False)
class RegressionTubeDisplay:
    """The prediction of a support vector regression, its tube, and the points it rests on.

    Make it with :meth:`from_estimator`, or from plain numbers with :meth:`from_predictions`.

    The line is the prediction f(x), the band around it the tube f(x) ± ε in which nothing is
    charged. Free support vectors (0 < abs(β) < C) lie on the edge and wear a ring, bound ones
    (abs(β) = C) lie outside and wear a square; a dotted slack line leads from each point outside
    to the tube.

    **More than one feature** do not fit a picture, and title and labels say so: it shows target
    over prediction, where f is the diagonal. Every distance to the tube is exact there.

    Attributes
    ----------
    x, y : ndarray of shape (n_samples,)
        The feature, or with several features the prediction; and the target.
    prediction : ndarray of shape (n_samples,)
        What the machine says of the points.
    epsilon : float
        Half the width of the tube.
    curve : tuple of two ndarray
        Where the line is drawn: values of x, and the prediction there.
    free, bound : ndarray of bool of shape (n_samples,)
        Which points are free, which bound support vectors.
    xlabel, ylabel, title : str
        Labels; they never replace what is already written on the axes.
    ax_, figure_, legend_ : matplotlib Axes, Figure, and Legend or None
        Where it was drawn.
    line_ : Line2D
        The prediction.
    tube_ : FillBetweenPolyCollection
        The tube.
    edges_ : list of Line2D
        Its lower and its upper edge.
    points_, free_, bound_ : PathCollection
        The points, and the marks on support vectors.
    slack_ : LineCollection or None
        The slack lines.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVR
    >>> from maxmargin.displays import RegressionTubeDisplay
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> model = SVR(C=10, epsilon=0.2).fit(x, np.sin(x[:, 0]))
    >>> display = RegressionTubeDisplay.from_estimator(model, x, np.sin(x[:, 0]))
    >>> display.epsilon, bool(display.bound.any())
    (0.2, False)
    """

    x: Floats
    y: Floats
    prediction: Floats
    epsilon: float
    curve: tuple[Floats, Floats]
    free: Mask
    bound: Mask
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
        grid_resolution: int = 400,
        padding: float = 0.04,
        **options: Any,
    ) -> Self:
        """Draw a fitted regression and the data it was fitted on.

        Parameters
        ----------
        estimator : regressor with a tube
            ``SVR``, ``NuSVR`` or ``LinearSVR`` of maxmargin or scikit-learn, a pipeline that ends
            in one, or a search over such.
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            The training data; a column name becomes the axis label.
        y : array-like of shape (n_samples,)
            The targets.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights given to `fit`: they scale C, so they decide which vectors are bound.
        support : bool, default=True
            Mark support vectors; only with False may other data than the training data be shown.
        grid_resolution : int, default=400
            Points of the line.
        padding : float, default=0.04
            Room left and right of the points, as a fraction of their range.
        **options
            `slack`, `legend` and `colors`, as in :meth:`plot`.

        Returns
        -------
        display : RegressionTubeDisplay
            The display, drawn.
        """
        pyplot("RegressionTubeDisplay.from_estimator")
        from maxmargin.displays._machine import of_regressor

        fields = of_regressor(
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
        y: ArrayLike,
        prediction: ArrayLike,
        *,
        epsilon: float,
        x: ArrayLike | None = None,
        beta: ArrayLike | None = None,
        C: ArrayLike = np.inf,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw numbers: a solver's answer, or a foreign model.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            The targets.
        prediction : array-like of shape (n_samples,)
            What the machine says.
        epsilon : float
            Half the width of the tube.
        x : array-like of shape (n_samples,), default=None
            The feature; None draws the target over the prediction. Between the points the line is
            straight.
        beta : array-like of shape (n_samples,), default=None
            The signed coefficients; None marks no support vectors.
        C : float or array-like of shape (n_samples,), default=inf
            Their bound.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : RegressionTubeDisplay
            The display, drawn.

        Examples
        --------
        >>> from maxmargin.displays import RegressionTubeDisplay
        >>> display = RegressionTubeDisplay.from_predictions(
        ...     [0.0, 1.3, 2.0], [0.1, 1.0, 1.9], epsilon=0.1, x=[0, 1, 2], beta=[-0.5, 1, 0.5], C=1
        ... )
        >>> display.bound
        array([False,  True, False])
        """
        pyplot("RegressionTubeDisplay.from_predictions")
        from maxmargin.displays._machine import of_targets

        return cls(**of_targets(y, prediction, epsilon, x, beta, C)).plot(ax, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        slack: bool = True,
        legend: bool = True,
        colors: Any = None,
    ) -> Self:
        """Draw the stored arrays.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        slack : bool, default=True
            Draw slack lines.
        legend : bool, default=True
            Add a legend: beside the axes of a new figure, inside axes that were given.
        colors : sequence of 2 matplotlib colors, default=None
            Of the line and of the points; None takes Okabe and Ito's.

        Returns
        -------
        display : RegressionTubeDisplay
            This object.
        """
        plt = pyplot("RegressionTubeDisplay.plot")
        beside = ax is None
        if ax is None:
            _, ax = plt.subplots(figsize=(5.6 + 2.0 * legend, 4.2), layout="constrained")
        self.ax_: Any = ax
        self.figure_ = self.ax_.figure
        pen = Pen(ax, 2, colors, lines=True)
        self._draw_tube(pen)
        self._draw_slack(pen, slack)
        self._draw_points(pen)
        self.ax_.margins(x=0)
        write(ax, xlabel=self.xlabel, ylabel=self.ylabel, title=self.title)
        self.legend_ = self._draw_legend(beside) if legend else None
        return self

    def _draw_tube(self, pen: Pen) -> None:
        at, f = self.curve
        low, high = f - self.epsilon, f + self.epsilon
        color = pen.colors[0]
        self.tube_ = self.ax_.fill_between(at, low, high, color=pen.tint(0, 0.16), lw=0, zorder=0)
        edge = {"color": color, "linewidth": 1.0, "linestyle": "dashed", "zorder": 2}
        self.edges_ = [self.ax_.plot(at, side, **edge)[0] for side in (low, high)]
        (self.line_,) = self.ax_.plot(at, f, color=color, linewidth=2, zorder=2)

    def _draw_slack(self, pen: Pen, slack: bool) -> None:
        from matplotlib.collections import LineCollection

        self.slack_ = None
        over = np.abs(self.y - self.prediction) - self.epsilon
        scale = self.epsilon or float(np.ptp(self.y))
        out = over > INSIDE * scale
        if slack and out.any():
            edge = self.prediction + np.sign(self.y - self.prediction) * self.epsilon
            lines = np.stack([np.stack([self.x, end], axis=1) for end in (self.y, edge)], axis=1)
            self.slack_ = LineCollection(list(lines[out]), colors=pen.ink, zorder=1)
            self.slack_.set(linewidth=0.8, linestyle="dotted")
            self.ax_.add_collection(self.slack_, autolim=False)

    def _draw_points(self, pen: Pen) -> None:
        size = float(np.clip(420 / np.sqrt(max(len(self.y), 1)), 9, 30))
        thick = float(np.sqrt(size / 30))

        def mark(rows: Any, marker: str, area: float, **look: Any) -> Any:
            return self.ax_.scatter(
                self.x[rows], self.y[rows], s=area * size, marker=marker, **look
            )

        outline = {"facecolors": "none", "edgecolors": pen.ink, "zorder": 4}
        look = {"color": [pen.colors[1]], "ec": pen.paper, "lw": 0.4, "zorder": 3}
        self.points_ = mark(slice(None), "o", 1, **look)
        self.bound_ = mark(self.bound, "s", 3, linewidths=0.8 * thick, **outline)
        self.free_ = mark(self.free, "o", 4.5, linewidths=1.5 * thick, **outline)

    def _draw_legend(self, beside: bool) -> Any:
        entries: list[tuple[Any, str]] = [
            (self.points_, "training points"),
            (self.line_, "prediction f(x)"),
            ((self.tube_, self.edges_[0]), f"tube f(x) ± ε, ε = {self.epsilon:.3g}"),
        ]
        if self.slack_ is not None:
            entries.append((self.slack_, "slack"))
        for marks, rows, what in (
            (self.free_, self.free, "free support vectors"),
            (self.bound_, self.bound, "bound support vectors"),
        ):
            if rows.any():
                entries.append((marks, f"{what} ({rows.sum()})"))
        return add_legend(self.ax_, entries, loc="outside right upper" if beside else "best")
