"""Heat maps of a search over C and γ: score, and number of support vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.displays._style import pyplot, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SearchDisplay"]

Floats = NDArray[np.float64]

_WORDS = {"score": "mean test score", "n_support": "mean number of support vectors"}


@dataclass
class SearchDisplay:
    """Draw what a search found over two of its parameters.

    Use :meth:`from_estimator`.

    Parameters
    ----------
    x, y : ndarray
        The values tried, ascending.
    values : dict of ndarray of shape (len(y), len(x))
        Of each quantity; NaN where nothing is known.
    best : tuple of float
        Where the best cell is, if the search chose one.
    names : tuple of str
        The parameters on the axes.

    Attributes
    ----------
    axes_ : ndarray of Axes
    figure_ : Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVCCV
    >>> from maxmargin.displays import SearchDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = SearchDisplay.from_estimator(SVCCV(Cs=4, gammas=3).fit(X, y))
    >>> display.values["score"].shape
    (3, 4)
    """

    x: Floats
    y: Floats
    values: dict[str, Floats]
    best: tuple[float, float] | None = None
    names: tuple[str, str] = ("C", "gamma")
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        *,
        x: str | None = None,
        y: str = "gamma",
        metric: str = "score",
        axes: Any = None,
    ) -> Self:
        """Draw the results of a fitted search: of this package, or scikit-learn's.

        Parameters
        ----------
        search : SVCCV, NuSVCCV, SVRCV, GridSearchCV or alike
        x : str, default=None
            A parameter of positive numbers; None means C, or ν where there is no C.
        y : str, default="gamma"
            Another one. Of parameters that are not shown, the best value is.
        metric : str, default="score"
            Of several, the one to draw.
        axes : array-like of Axes, default=None

        Returns
        -------
        SearchDisplay
        """
        results = search.cv_results_
        x = x or ("C" if "param_C" in results or "param_nu" not in results else "nu")
        for name in (x, y):
            if f"param_{name}" not in results:
                known = sorted(k[6:] for k in results if k.startswith("param_"))
                raise ValueError(
                    f"the search has no parameter {name!r}; it has {', '.join(known)}."
                )
        points = [_numbers(results[f"param_{name}"]) for name in (x, y)]
        xs, ys = (np.unique(p[np.isfinite(p)]) for p in points)
        for name, axis in ((x, xs), (y, ys)):
            if not len(axis):
                raise ValueError(f"{name!r} has no positive numbers to draw over; pass another.")
        told = {"score": results[f"mean_test_{metric}"], "n_support": results.get("mean_n_support")}
        order = np.argsort(np.nan_to_num(told["score"], nan=-np.inf), kind="stable")
        # Where a search was refined, most places of the grid hold no cell: show the nearest one.
        order = order[np.isfinite(points[0][order]) & np.isfinite(points[1][order])][::-1]
        nearest = order[_nearest(xs, ys, points[0][order], points[1][order])]
        values = {name: column[nearest] for name, column in told.items() if column is not None}
        best = getattr(search, "best_index_", None)
        where = None if best is None else (float(points[0][best]), float(points[1][best]))
        return cls(xs, ys, values, where, (x, y)).plot(axes=axes)

    def plot(self, *, axes: Any = None, cmap: str = "cividis") -> Self:
        """Draw one heat map for each quantity.

        Parameters
        ----------
        axes : array-like of Axes, default=None
        cmap : str, default="cividis"

        Returns
        -------
        SearchDisplay
        """
        plt = pyplot("SearchDisplay")
        if axes is None:
            size = (4.6 * len(self.values), 3.6)
            _, axes = plt.subplots(1, len(self.values), figsize=size, layout="constrained")
        self.axes_ = np.atleast_1d(axes)
        self.figure_ = self.axes_[0].figure
        for ax, (name, grid) in zip(self.axes_, self.values.items(), strict=False):
            self._map(ax, name, grid, cmap)
        return self

    def _map(self, ax: Axes, name: str, grid: Floats, cmap: str) -> None:
        image = ax.pcolormesh(_edges(self.x), _edges(self.y), grid, cmap=cmap, shading="flat")
        ax.set_xscale("log")
        ax.set_yscale("log")
        _few_ticks(ax.xaxis, self.x)
        _few_ticks(ax.yaxis, self.y)
        ax.figure.colorbar(image, ax=ax)
        if self.best is not None and np.isfinite(self.best).all():
            text = (
                f"best: {self.names[0]} = {self.best[0]:.3g}, {self.names[1]} = {self.best[1]:.3g}"
            )
            ax.plot(*self.best, "o", ms=11, mfc="none", mec="white", mew=3.5)
            ax.plot(*self.best, "o", ms=11, mfc="none", mec="black", mew=1.5, label=text)
            ax.legend(
                loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize="small", frameon=False
            )
        label = {"gamma": "γ", "nu": "ν", "epsilon": "ε"}
        x, y = (label.get(n, n) for n in self.names)
        write(ax, xlabel=x, ylabel=y, title=_WORDS[name])


def _numbers(column: Any) -> Floats:
    """A column of parameters; NaN for what is no positive number."""
    values: Any = np.ma.filled(np.ma.asarray(column, dtype=object), np.nan)
    numbers = [
        float(v) if isinstance(v, int | float | np.number) and not isinstance(v, bool) and v > 0
        else np.nan
        for v in values
    ]  # fmt: skip
    return np.array(numbers)


def _few_ticks(axis: Any, values: Floats) -> None:
    """Numbers at powers of ten, and at 2 and 5 of each where these are few."""
    from matplotlib import ticker

    axis.set_minor_formatter(ticker.NullFormatter())
    if values[-1] < 100 * values[0]:
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))


def _nearest(xs: Floats, ys: Floats, x: Floats, y: Floats) -> NDArray[np.intp]:
    """For each place of a grid the nearest of these points, on log scales; of equals the first."""
    across = (np.log(xs)[:, None] - np.log(x)) ** 2
    up = (np.log(ys)[:, None] - np.log(y)) ** 2
    return np.asarray((up[:, None] + across).argmin(axis=2))


def _edges(values: Floats) -> Floats:
    """Borders of the cells about these values, in the middle on a log scale."""
    logs = np.log(values)
    if len(logs) == 1:
        return np.asarray(np.exp(logs[0] + np.array([-0.5, 0.5])))
    middle = (logs[1:] + logs[:-1]) / 2
    ends = [2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]]
    return np.asarray(np.exp(np.array(ends)))
