"""Where the training points stand: histograms of the ledger by KKT case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.displays._style import Pen, add_legend, panels, pyplot, write

if TYPE_CHECKING:
    from maxmargin.solvers import Solution

__all__ = ["LedgerDisplay"]

Floats = NDArray[np.float64]
Words = NDArray[np.str_]
Box = tuple[float, float]

# Cases from the quiet to the costly, a colour and a hatch for each place in that row.
FAMILIES = {
    "functional margin": ("outside", "on margin", "inside margin", "misclassified", "undefined"),
    "distance to the edge of the tube": ("inside tube", "on tube", "", "outside tube"),
    "distance to the boundary": ("inside", "on boundary", "", "outlier"),
}
COLORS = ("#56B4E9", "#0072B2", "#E69F00", "#D55E00", "#999999")
HATCHES = ("", "xxxx", "////", "....", "----")
FREE_BINS = 20
MOST_BINS = 30
TALL = 100  # points in one bar: from here on, single points need a logarithmic scale
COLUMNS = ("alpha", "C", "state", "margin", "case")


@dataclass(kw_only=True, eq=False, repr=False)
class LedgerDisplay:
    """Histograms of the multiplier α and of the margin, by KKT case.

    Make it with :meth:`from_estimator`, with :meth:`from_solution`, or from a ledger you have with
    :meth:`from_ledger`. The KKT conditions leave a picture of few shapes: what is outside the
    margin has α = 0, what is inside it or misclassified has α = C, and only what is on the margin
    lies between (N0 §3.4.1). So α = 0 and α = C have bars of their own beside those of the free
    ones, and one bar of the margins is centred at 1.

    Where a bar would hold several cases they stand side by side, not on each other, so that the
    heights can be read on a logarithmic scale too. Several problems (pairs of classes) are counted
    together, and the title says so.

    Attributes
    ----------
    alpha, C, margin : ndarray of shape (n_points,)
        The multipliers, their bounds, and the margins.
    state, case : ndarray of str of shape (n_points,)
        zero, free or bound; and the KKT case.
    n_problems : int
        How many problems the points are from.
    axes_ : ndarray of Axes of shape (2,)
        The multipliers, and the margins.
    ax_, figure_, legend_ : matplotlib Axes, Figure, and Legend or None
        The first of the axes, and where it was drawn.
    bars_ : list of dict of str to BarContainer
        The bars of each axes by case.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> from maxmargin.displays import LedgerDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> display = LedgerDisplay.from_estimator(SVC(C=10).fit(X, y), X, y)
    >>> display.axes_[1].get_xlabel()
    'functional margin y f(x)'
    """

    alpha: Floats
    C: Floats
    state: Words
    margin: Floats
    case: Words
    n_problems: int = 1

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the ledger of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with `ledger`
            A machine of maxmargin, a pipeline that ends in one, or a search over such.
        X, y, sample_weight
            As given to `fit`.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : LedgerDisplay
            The display, drawn.
        """
        pyplot("LedgerDisplay.from_estimator")
        from maxmargin.displays._machine import unwrap

        transform, machine = unwrap(estimator)
        if not hasattr(machine, "ledger"):
            got = type(machine).__name__
            raise TypeError(
                f"LedgerDisplay needs a support vector machine of maxmargin; got {got}, which has "
                "no ledger(X, y)."
            )
        return cls.from_ledger(machine.ledger(transform(X), y, sample_weight), ax=ax, **options)

    @classmethod
    def from_solution(cls, solution: Solution, *, ax: Any = None, **options: Any) -> Self:
        """Draw the ledger of a solution.

        Parameters
        ----------
        solution : Solution
            What :func:`maxmargin.solvers.solve` returned.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : LedgerDisplay
            The display, drawn.
        """
        from maxmargin.ledger import ledger

        return cls.from_ledger(
            ledger(solution.problem, solution.beta, solution.certificate), ax=ax, **options
        )

    @classmethod
    def from_ledger(cls, ledger: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw a ledger.

        Parameters
        ----------
        ledger : Ledger, DataFrame or mapping of columns
            With the columns alpha, C, state, margin and case, see :func:`maxmargin.ledger.ledger`.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : LedgerDisplay
            The display, drawn.
        """
        pyplot("LedgerDisplay.from_ledger")
        if missing := [name for name in COLUMNS if name not in ledger]:
            raise ValueError(f"LedgerDisplay needs a ledger with {', '.join(missing)}.")
        fields = {name: np.asarray(ledger[name]) for name in COLUMNS}
        n_problems = len(set(ledger["problem"])) if "problem" in ledger else 1
        return cls(**fields, n_problems=n_problems).plot(ax, **options)

    def plot(self, ax: Any = None, *, yscale: str | None = None, legend: bool = True) -> Self:
        """Draw the stored columns.

        Parameters
        ----------
        ax : matplotlib Axes, or two of them, default=None
            Where to draw; a single one is split. None makes a new figure.
        yscale : {"linear", "log"}, default=None
            None is "log" if one bar is taller than 100 points, so that a single point still shows.
        legend : bool, default=True
            Add a legend with the counts: beside the axes of a new figure, else inside.

        Returns
        -------
        display : LedgerDisplay
            This object.
        """
        pyplot("LedgerDisplay.plot")
        if yscale not in (None, "linear", "log"):
            raise ValueError(f"yscale={yscale!r} must be 'linear', 'log' or None.")
        beside = ax is None
        self.axes_ = panels(ax, 2, figsize=(9.6 + 1.4 * legend, 3.9))
        self.ax_: Any = self.axes_[0]
        self.figure_ = self.ax_.figure
        pen = Pen(self.ax_, 1)
        drawn = [self._alpha_boxes(), self._margin_boxes()]
        counts = [[self._counts(box) for box in boxes] for boxes in drawn]
        tallest = max((max(c.values()) for each in counts for c in each if c), default=1)
        scale = yscale or ("log" if tallest > TALL else "linear")
        self.bars_ = [
            self._draw_bars(axes, boxes, each, pen, scale)
            for axes, boxes, each in zip(self.axes_, drawn, counts, strict=True)
        ]
        self._name_alpha()
        self._name_margin(pen)
        self.legend_ = self._draw_legend(beside) if legend else None
        return self

    # ---- numbers ----------------------------------------------------------------------------

    @property
    def _family(self) -> str:
        here = set(self.case)
        return next(
            (name for name, cases in FAMILIES.items() if here & set(cases)), next(iter(FAMILIES))
        )

    @property
    def _cases(self) -> list[str]:
        return [case for case in FAMILIES[self._family] if case and (self.case == case).any()]

    def _unit(self) -> tuple[Floats, float, str]:
        """The multipliers as they are drawn, the right end of the free ones, and their name."""
        finite = np.isfinite(self.C).all() and len(self.C)
        if not finite:
            return self.alpha, float(self.alpha.max(initial=0)) or 1.0, "α"
        if np.ptp(self.C) <= 1e-12 * self.C.max():
            return self.alpha, float(self.C.max()), "α"
        return self.alpha / self.C, 1.0, "α / C"

    def _alpha_boxes(self) -> list[tuple[Box, NDArray[np.bool_]]]:
        """The bars of α: where each stands, and which points it holds."""
        alpha, top, _ = self._unit()
        width = top / FREE_BINS
        bins = np.clip(alpha / width, 0, FREE_BINS - 1).astype(int)
        free = self.state == "free"
        boxes = [((-2 * width, -width), self.state == "zero")]
        boxes += [((k * width, (k + 1) * width), free & (bins == k)) for k in range(FREE_BINS)]
        if np.isfinite(self.C).all():
            boxes.append(((top + width, top + 2 * width), self.state == "bound"))
        return boxes

    def _margin_boxes(self) -> list[tuple[Box, NDArray[np.bool_]]]:
        """The bars of the margins; one begins at 0, and one is centred at the margin itself."""
        finite = self.margin[np.isfinite(self.margin)]
        if not len(finite):
            return []
        low, high = (float(end(np.append(finite, self._marks))) for end in (np.min, np.max))
        width = _bin_width(low, high, centred=self._family == "functional margin")
        first = np.floor(low / width + self._shift)
        place = np.floor(self.margin / width + self._shift) - first
        edges = width * (first - self._shift + np.arange(np.nanmax(place) + 2))
        boxes = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        return [(box, place == k) for k, box in enumerate(boxes)]

    @property
    def _marks(self) -> list[float]:
        """Decision line and margin, or the edge alone."""
        return [0.0, 1.0] if self._family == "functional margin" else [0.0]

    @property
    def _shift(self) -> float:
        """Where a margin is 0 at the optimum of a free point, 0 is the middle of a bar."""
        return 0.0 if self._family == "functional margin" else 0.5

    def _counts(self, box: tuple[Box, NDArray[np.bool_]]) -> dict[str, int]:
        counts = {case: int((self.case[box[1]] == case).sum()) for case in self._cases}
        return {case: count for case, count in counts.items() if count}

    # ---- drawing ----------------------------------------------------------------------------

    def _look(self, case: str) -> dict[str, Any]:
        place = FAMILIES[self._family].index(case)
        return {"facecolor": COLORS[place], "hatch": HATCHES[place], "linewidth": 0.5}

    def _draw_bars(
        self,
        axes: Any,
        boxes: list[tuple[Box, NDArray[np.bool_]]],
        counts: list[dict[str, int]],
        pen: Pen,
        scale: str,
    ) -> dict[str, Any]:
        """Let the cases of a box share its width."""
        import matplotlib as mpl

        bars: dict[str, list[tuple[float, float, int]]] = {case: [] for case in self._cases}
        for ((start, end), _), of in zip(boxes, counts, strict=True):
            width = (end - start) / max(len(of), 1)
            for k, (case, count) in enumerate(reversed(of.items())):  # as their margins rise
                bars[case].append((start + k * width, width, count))
        axes.set_yscale(scale)
        axes.grid(axis="y", color=pen.faint, linewidth=0.4)
        axes.set_axisbelow(True)
        drawn = {}
        with mpl.rc_context({"hatch.linewidth": 0.5, "hatch.color": "#00000080"}):
            for case, each in bars.items():
                left, wide, tall = np.array(each).reshape(-1, 3).T
                look = {"edgecolor": pen.ink, **self._look(case)}
                drawn[case] = axes.bar(left, tall, wide, align="edge", label=case, **look)
        if scale == "log":
            axes.set_ylim(bottom=0.7)
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        else:
            axes.yaxis.get_major_locator().set_params(integer=True)
        return drawn

    def _name_alpha(self) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = self.axes_[0]
        _, top, name = self._unit()
        width = top / FREE_BINS
        bounded = np.isfinite(self.C).all()
        inner = [t for t in MaxNLocator(4).tick_values(0, top) if 0 < t < top * (1 - 1e-9)]
        ticks, words = [-1.5 * width, *inner], ["0", *(f"{t:g}" for t in inner)]
        if bounded:
            ticks.append(top + 1.5 * width)
            words.append("C" if name == "α / C" else f"C = {top:.4g}")
        axes.set_xticks(ticks, words)
        axes.set_xlim(-3 * width, top + (3 if bounded else 1) * width)
        states = [f"{(self.state == s).sum()} {s}" for s in ("zero", "free", "bound")]
        together = f", {self.n_problems} problems together" if self.n_problems > 1 else ""
        write(axes, xlabel=f"multiplier {name}", ylabel="points")
        write(axes, title=", ".join(states[: 2 + bounded]) + together)

    def _name_margin(self, pen: Pen) -> None:
        axes, family = self.axes_[1], self._family
        for at, style in zip(self._marks, ("solid", "dashed"), strict=False):
            axes.axvline(at, color=pen.ink, linewidth=1.2, linestyle=style, zorder=0.7)
        undefined = int(np.isnan(self.margin).sum())
        words = {"functional margin": "functional margin y f(x)"}.get(family, family)
        words += f"\n{undefined} without a defined margin left out" if undefined else ""
        write(axes, xlabel=words, ylabel="points")
        if family == "functional margin":
            write(axes, title="decision line at 0, margin at 1 (dashed)")

    def _draw_legend(self, beside: bool) -> Any:
        entries = [
            (bars, f"{case} ({(self.case == case).sum()})") for case, bars in self.bars_[0].items()
        ]
        if not entries:
            return None
        home = self.axes_[-1]
        return add_legend(home, entries, loc="outside right upper" if beside else "best")


def _bin_width(low: float, high: float, *, centred: bool) -> float:
    """A width that lets at most 30 bars reach from low to high.

    With `centred` it is 1 / (k + ½), so that 0 is an edge and 1 the middle of a bar.
    """
    reach = (high - low) / MOST_BINS
    if not centred:
        return reach or 1.0
    k = np.floor(1 / max(reach, 1 / MOST_BINS) - 0.5)
    return float(1 / (k + 0.5)) if k >= 0 else reach
