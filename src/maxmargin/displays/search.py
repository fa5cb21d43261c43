"""What a search found: maps over two of its parameters, or curves over one."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.displays._style import Pen, pyplot, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SearchDisplay"]

Floats = NDArray[np.float64]

_LETTERS = {"gamma": "γ", "nu": "ν", "epsilon": "ε"}
_LONGEST = 40  # characters of a kernel's text
_LINE = 58  # characters below a picture


@dataclass
class SearchDisplay:
    """Draw what a search found, over two of its parameters or one.

    Use :meth:`from_estimator`.

    Parameters
    ----------
    x, y : ndarray
        The values tried, ascending; y is None for curves over x.
    values : dict of ndarray of shape (len(y), len(x)) or (len(x),)
        Of each quantity; NaN where nothing is known.
    best : tuple of float
        Where the best candidate is; None where it is not on these axes.
    names : tuple of str
        The parameters on the axes.
    errors : ndarray
        Standard errors of the scores, drawn about a curve.
    best_values : dict of float
        The quantities of the best candidate.
    text : str
        What is said of the best candidate.
    metric : str
        What the score is.

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
    >>> SearchDisplay.from_estimator(SVCCV(kernel="linear", Cs=[0.1, 1, 10]).fit(X, y)).text
    'best: C = 1 (0.98)'
    """

    x: Floats
    y: Floats | None
    values: dict[str, Floats]
    best: tuple[float, ...] | None = None
    names: tuple[str, ...] = ("C", "gamma")
    errors: Floats | None = None
    best_values: dict[str, float] = field(default_factory=dict)
    text: str = ""
    metric: str = "score"
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        metric: str | None = None,
        axes: Any = None,
    ) -> Self:
        """Draw the results of a fitted search: of this package, or scikit-learn's.

        Parameters
        ----------
        search : SVCCV, NuSVCCV, SVRCV, GridSearchCV or alike
            Or a pipeline that ends in one.
        x : str, default=None
            A parameter of positive numbers; None means the first of C, ν and γ that was varied.
        y : str, default=None
            Another one; None means γ where it has several numbers, else curves over x. Of
            parameters that are not shown, the best value is.
        metric : str, default=None
            Of several, the one to draw; None means the one of ``refit``, else the first.
        axes : array-like of Axes, default=None
            What is best is said below them: a figure with ``layout="constrained"`` has the room.

        Returns
        -------
        SearchDisplay
        """
        search = _fitted(search)
        results = search.cv_results_
        metric = _metric(search, metric)
        points = {k[6:]: _numbers(v) for k, v in results.items() if k.startswith("param_")}
        names = _names(points, x, y)
        known = _known(points, names)
        grid = [np.unique(points[name][np.isfinite(points[name])]) for name in names]
        told = {"score": results[f"mean_test_{metric}"], "n_support": results.get("mean_n_support")}
        told = {name: column for name, column in told.items() if column is not None}
        order = np.argsort(-told["score"], kind="stable")  # NaN comes last
        best = getattr(search, "best_index_", order[0])
        # Where a search was refined, most places of the grid hold no cell: show the nearest one.
        order = order[known[order]]
        nearest = order[_nearest(grid, [points[name][order] for name in names])]
        errors = results[f"std_test_{metric}"] / np.sqrt(max(search.n_splits_ - 1, 1))
        text = _text(results["params"][best], names, told["score"][best])
        if not np.isfinite(told["score"][best]):
            text, known = "no candidate has a score", np.zeros_like(known)
        elif not known[best]:
            text += ", not on these axes"
        return cls(
            x=grid[0],
            y=grid[1] if len(grid) > 1 else None,
            values={name: column[nearest] for name, column in told.items()},
            best=tuple(float(points[name][best]) for name in names) if known[best] else None,
            names=names,
            errors=errors[nearest],
            best_values={name: float(column[best]) for name, column in told.items()},
            text=text,
            metric=metric,
        ).plot(axes=axes)

    def plot(self, *, axes: Any = None, cmap: str = "cividis") -> Self:
        """Draw one map, or curve, for each quantity.

        Parameters
        ----------
        axes : array-like of Axes, default=None
        cmap : str, default="cividis"
            Of maps.

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
        words = {"score": f"mean test {self.metric}", "n_support": "mean number of support vectors"}
        for ax, (name, values) in zip(self.axes_, self.values.items(), strict=False):
            self._mark(ax, name)
            if self.y is None:
                self._curve(ax, name, words[name])
            else:
                self._map(ax, self.y, values, cmap, words[name])
            ax.set_xscale("log")
            _few_ticks(ax.xaxis, self.x)
            write(ax, xlabel=_LETTERS.get(self.names[0], self.names[0]))
        return self

    def _map(self, ax: Axes, y: Floats, grid: Floats, cmap: str, words: str) -> None:
        image = ax.pcolormesh(_edges(self.x), _edges(y), grid, cmap=cmap, shading="flat")
        ax.set_yscale("log")
        _few_ticks(ax.yaxis, y)
        ax.figure.colorbar(image, ax=ax)
        write(ax, ylabel=_LETTERS.get(self.names[1], self.names[1]), title=words)

    def _curve(self, ax: Axes, name: str, words: str) -> None:
        pen = Pen(ax, 1, lines=True)
        errors = self.errors if name == "score" else None
        look: dict[str, Any] = {"color": pen.colors[0], "linewidth": 1.4, "elinewidth": 0.8}
        if len(self.x) <= 40:
            look |= {"marker": "o", "markersize": 3, "capsize": 2}
        ax.errorbar(self.x, self.values[name], errors, **look)
        ax.set_xlim(*_edges(self.x)[[0, -1]])
        if name == "n_support":
            ax.update_datalim([(self.x[0], 0)])
            ax.autoscale_view(scalex=False)
            ax.set_ylim(bottom=0)
        write(ax, ylabel=words, title="" if errors is None else "bars: ± one standard error")

    def _mark(self, ax: Axes, name: str) -> None:
        """Ring the best candidate where it is on the axes, and say below which it is."""
        rings = ax.plot([], [], " ")
        if self.best is not None:
            height = () if self.y is not None else (self.best_values.get(name, np.nan),)
            look: dict[str, Any] = {"markersize": 11, "markerfacecolor": "none"}
            halo = ax.plot(*self.best, *height, "o", mec="white", mew=3.5, **look)
            rings = halo + ax.plot(*self.best, *height, "o", mec="black", mew=1.5, **look)
        if self.text:
            words = textwrap.fill(self.text, _LINE)
            # The distance is in letters: below the label of x, however tall the axes are.
            below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 4.2}
            ax.legend([tuple(rings)], [words], **below, fontsize="small", frameon=False)


def _fitted(search: Any) -> Any:
    """The search itself, with results."""
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline

    while isinstance(search, Pipeline):
        search = search[-1]
    if isinstance(getattr(search, "cv_results_", None), dict):
        return search
    if isinstance(search, BaseSearchCV):
        raise NotFittedError("fit the search before it is drawn.")
    got = type(search).__name__
    raise TypeError(f"SearchDisplay needs a search, such as SVCCV or GridSearchCV; got {got}.")


def _metric(search: Any, metric: str | None) -> str:
    """The metric to draw, of those there are."""
    metrics: list[str] = [k[10:] for k in search.cv_results_ if k.startswith("mean_test_")]
    if metric is None:
        return next((m for m in metrics if m == search.refit), metrics[0])
    if metric not in metrics:
        raise ValueError(f"the search has no metric {metric!r}; it has {', '.join(metrics)}.")
    return metric


def _names(points: dict[str, Floats], x: str | None, y: str | None) -> tuple[str, ...]:
    """The parameters on the axes, of which there are numbers."""
    # The first of several numbers, else the first of one.
    x = x or max(("C", "nu", "gamma"), key=lambda name: min(_count(points, name), 2))
    if y is None and x != "gamma" and _count(points, x, "gamma") > 1:
        y = "gamma"
    names = (x,) if y is None else (x, y)
    for name in names:
        if name not in points:
            known = ", ".join(sorted(points))
            raise ValueError(f"the search has no parameter {name!r}; it has {known}.")
        if not _count(points, name):
            raise ValueError(f"{name!r} has no positive numbers to draw over; pass another.")
    if x == y:
        raise ValueError(f"x and y are both {x!r}; pass another y, or none.")
    if not _count(points, *names):
        raise ValueError(f"no candidate has numbers of both {x!r} and {y!r}; pass others.")
    return names


def _count(points: dict[str, Floats], *names: str) -> int:
    """How many numbers the last of these has, where the others have one."""
    if any(name not in points for name in names):
        return 0
    return len(np.unique(points[names[-1]][_known(points, names)]))


def _known(points: dict[str, Floats], names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which candidates have numbers for all of these."""
    return np.asarray(np.isfinite([points[name] for name in names]).all(axis=0))


def _numbers(column: Any) -> Floats:
    """A column of parameters; NaN for what is no positive finite number."""
    values: Any = np.ma.filled(np.ma.asarray(column, dtype=object), np.nan)
    numbers = [
        float(v) if isinstance(v, int | float | np.number) and not isinstance(v, bool)
        and 0 < v < np.inf else np.nan
        for v in values
    ]  # fmt: skip
    return np.array(numbers)


def _text(params: dict[str, Any], names: tuple[str, ...], score: float) -> str:
    """Say which candidate this is: the parameters on the axes first."""
    first = {name: params[name] for name in names if name in params}
    told = ", ".join(f"{name} = {_short(value)}" for name, value in {**first, **params}.items())
    return f"best: {told} ({score:.3g})"


def _short(value: Any) -> str:
    """A number in three digits, a function by its name, the rest as text that is not too long."""
    if isinstance(value, float | np.floating):
        return f"{value:.3g}"
    text = str(getattr(value, "__name__", value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _few_ticks(axis: Any, values: Floats) -> None:
    """Numbers at powers of ten, and at 2 and 5 of each where these are few."""
    from matplotlib import ticker

    axis.set_minor_formatter(ticker.NullFormatter())
    if values[-1] < 100 * values[0]:
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))


def _nearest(grid: list[Floats], points: list[Floats]) -> NDArray[np.intp]:
    """For each place of a grid the nearest of these points, on log scales; of equals the first."""
    far = [(np.log(axis)[:, None] - np.log(p)) ** 2 for axis, p in zip(grid, points, strict=True)]
    total = far[0] if len(far) == 1 else far[1][:, None] + far[0]
    return np.asarray(total.argmin(axis=-1))


def _edges(values: Floats) -> Floats:
    """Borders of the cells about these values, in the middle on a log scale."""
    logs = np.log(values)
    if len(logs) == 1:
        return np.asarray(np.exp(logs[0] + np.array([-0.5, 0.5])))
    middle = (logs[1:] + logs[:-1]) / 2
    ends = [2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]]
    return np.asarray(np.exp(np.array(ends)))
