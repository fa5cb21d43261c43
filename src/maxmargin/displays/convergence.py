"""How solvers close the duality gap: their recorded histories as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.displays._style import Pen, add_legend, pyplot, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ConvergenceDisplay"]

Floats = NDArray[np.float64]

QUANTITIES = {  # name in words, and the scale it is read on unless told otherwise
    "primal": ("primal", "linear"),
    "dual": ("dual", "linear"),
    "gap": ("duality gap", "log"),
    "relative_gap": ("relative duality gap", "log"),
    "kkt_violation": ("KKT violation", "log"),
    "n_support": ("support vectors", "linear"),
}
OBJECTIVES = ("primal", "dual")
FEW = 12  # records: each wears a marker


class _Curve(NamedTuple):
    run: str
    quantity: str
    x: Floats
    y: Floats  # NaN where there is nothing to draw
    infinite: int  # how many records are left out for that


def _machine(estimator: Any) -> Any:
    """Return what a search found best, and the last step of a pipeline."""
    machine = getattr(estimator, "best_estimator_", estimator)
    return machine[-1] if hasattr(machine, "named_steps") else machine


def _history(run: Any) -> dict[str, Floats]:
    """Return the columns recorded by a Solution, a fitted estimator, or a table itself.

    Of several problems (pairs of classes) the one that took the most iterations.
    """
    machine = _machine(run)
    table = getattr(machine, "history", getattr(machine, "history_", machine))
    try:
        columns = {str(name): np.asarray(table[name], dtype=np.float64) for name in table}
        if "problem" not in columns or not len(columns["problem"]):
            return columns
        longest = columns["problem"][int(np.argmax(columns["iteration"]))]
        return {name: values[columns["problem"] == longest] for name, values in columns.items()}
    except (IndexError, KeyError, TypeError, ValueError):
        got = type(machine).__name__
        got += " without history_: is it fitted?" if hasattr(machine, "fit") else "."
        wanted = "a Solution, a fitted estimator of maxmargin, or a table of columns"
        raise TypeError(f"ConvergenceDisplay needs {wanted}; got {got}") from None


def _check(x: str, quantities: Sequence[str], xscale: str, yscale: str | None) -> None:
    if x not in ("iteration", "seconds"):
        raise ValueError(f"x={x!r} must be 'iteration' or 'seconds'.")
    for name in quantities or [""]:
        if name not in QUANTITIES:
            raise ValueError(f"y={name!r} is not recorded; choose from {', '.join(QUANTITIES)}.")
    for name, scale in (("xscale", xscale), ("yscale", yscale or "linear")):
        if scale not in ("linear", "log"):
            raise ValueError(f"{name}={scale!r} must be 'linear' or 'log'.")


def _axis_label(quantity: str, scale: str) -> str:
    if quantity in OBJECTIVES:
        return "objective" if scale == "linear" else "distance to the best known dual value"
    return QUANTITIES[quantity][0]


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay:
    """Primal, dual, gap and KKT violation of one or several solvers while they run.

    Make it with :meth:`from_estimator`, or with :meth:`from_solutions` to compare solvers. Every
    record of a history is certified, so the optimum lies between the primal and the dual curve; for
    a single run that space is shaded. Runs differ by colour and marker, and by line style where
    that does not already tell one quantity from another.

    Where the primal is infinite (a hard margin before it separates the classes) nothing is drawn,
    and on a linear scale a primal that begins far above the optimum is cut off, so that one sees
    the two curves meet; an exact 0 sits on the lower edge of a logarithmic axis. The label of the
    x-axis says each of these.

    Attributes
    ----------
    histories : dict of str to dict of str to ndarray
        The columns of each run, by its name.
    best_dual : float
        The largest dual value of all runs; no primal value of the same problem lies below it.
    note : str
        What the last drawing left out.
    ax_, figure_, legend_ : matplotlib Axes, Figure, and Legend or None
        Where it was drawn.
    lines_ : list of Line2D
        The curves, run by run, those of a run in the order of the quantities.
    band_ : FillBetweenPolyCollection or None
        The shaded gap of a single run.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> from maxmargin.datasets import chessboard
    >>> from maxmargin.displays import ConvergenceDisplay
    >>> X, y = chessboard(200, random_state=0)
    >>> problem = problems.soft_margin(kernels.RBF(gamma=2.0).gram(X), y, C=10.0)
    >>> runs = {
    ...     f"tol = {tol:g}": solvers.solve(problem, solvers.SMO(record_every=20), tol=tol)
    ...     for tol in (0.1, 1e-3)
    ... }
    >>> display = ConvergenceDisplay.from_solutions(runs, y="relative gap")
    >>> [line.get_label() for line in display.lines_], display.ax_.get_yscale()
    (['tol = 0.1', 'tol = 0.001'], 'log')
    """

    histories: dict[str, dict[str, Floats]]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with `history_`
            Also a pipeline that ends in one, or a search over such. Fit it with ``record_every``,
            else the history holds only its end. Of several pairs of classes the longest is drawn.
        name : str, default=None
            What to call it; None takes the name of its class.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : ConvergenceDisplay
            The display, drawn.

        Examples
        --------
        >>> from maxmargin import SVC
        >>> from maxmargin.displays import ConvergenceDisplay
        >>> from sklearn.datasets import make_moons
        >>> clf = SVC(C=10, record_every=10).fit(*make_moons(200, noise=0.2, random_state=0))
        >>> display = ConvergenceDisplay.from_estimator(clf)
        >>> [line.get_label() for line in display.lines_]
        ['primal', 'dual']
        """
        name = name or type(_machine(estimator)).__name__
        return cls.from_solutions({name: estimator}, ax=ax, **options)

    @classmethod
    def from_solutions(
        cls,
        solutions: Mapping[str, Any] | Sequence[Any],
        *,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the histories of several runs.

        Parameters
        ----------
        solutions : mapping of str to run, or sequence of runs
            A run is a Solution, a fitted estimator, or its history: a Table or anything else with
            columns by name. Those of a sequence are called "run 1", "run 2" and so on.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : ConvergenceDisplay
            The display, drawn.
        """
        pyplot("ConvergenceDisplay.from_solutions")
        runs = solutions
        if not isinstance(runs, Mapping):
            runs = {f"run {k}": run for k, run in enumerate(runs, start=1)}
        if not runs:
            raise ValueError("ConvergenceDisplay needs at least one run; got none.")
        histories = {str(name): _history(run) for name, run in runs.items()}
        for name, history in histories.items():
            if not all(map(len, history.values())):
                raise ValueError(f"{name} has nothing recorded: was it stopped before it began?")
        return cls(histories=histories).plot(ax, **options)

    @property
    def best_dual(self) -> float:
        """The largest dual value of all runs."""
        return max(float(np.nanmax(self._column(run, "dual"))) for run in self.histories)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: str = "iteration",
        y: str | Sequence[str] = OBJECTIVES,
        xscale: str = "linear",
        yscale: str | None = None,
        legend: bool = True,
        colors: Sequence[Any] | None = None,
    ) -> Self:
        """Draw the stored histories.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        x : {"iteration", "seconds"}, default="iteration"
            What to draw over. An iteration is a pair for one solver and a sweep for another:
            compare different solvers by seconds.
        y : str or sequence of str, default=("primal", "dual")
            What to draw: "primal", "dual", "gap", "relative gap", "kkt_violation", "n_support".
        xscale : {"linear", "log"}, default="linear"
            A logarithmic axis still shows 0, at its left end.
        yscale : {"linear", "log"}, default=None
            None is "log" for the gaps and the KKT violation, else "linear". On a logarithmic scale
            primal and dual are drawn as their distance to the best known dual value; that of the
            primal bounds from above how far the point is from optimal.
        legend : bool, default=True
            Add a legend: beside the axes of a new figure if there are several runs, else inside.
        colors : sequence of matplotlib colors, default=None
            One for each run, or of a single run for each quantity; None takes Okabe and Ito's.

        Returns
        -------
        display : ConvergenceDisplay
            This object.
        """
        plt = pyplot("ConvergenceDisplay.plot")
        quantities = [name.replace(" ", "_") for name in ([y] if isinstance(y, str) else y)]
        _check(x, quantities, xscale, yscale)
        usual = "log" if all(QUANTITIES[q][1] == "log" for q in quantities) else "linear"
        scale = yscale or usual
        curves = [self._curve(run, q, x, scale) for run in self.histories for q in quantities]
        several = len(self.histories) > 1
        beside = ax is None and several
        if ax is None:
            width = 6.2 + 1.4 * (beside and legend)
            _, ax = plt.subplots(figsize=(width, 4.0), layout="constrained")
        self.ax_: Any = ax
        self.figure_ = self.ax_.figure
        pen = Pen(ax, max(len(self.histories), len(quantities)), colors, lines=True)
        self._set_scales(pen, x, xscale, scale)
        self._draw_curves(pen, curves, len(quantities))
        self._draw_band(pen, curves)
        limits = self._zoom(curves) if scale == "linear" else self._floor(curves)
        self.note = "; ".join(self._notes(curves) + limits)
        labels = dict.fromkeys(_axis_label(q, scale) for q in quantities)
        write(ax, xlabel=x, ylabel=", ".join(labels))
        if self.note:
            ax.set_xlabel(f"{ax.get_xlabel()}\n{self.note}")
        self.legend_ = self._draw_legend(pen, quantities, beside) if legend else None
        return self

    # ---- numbers ----------------------------------------------------------------------------

    def _column(self, run: str, name: str) -> Floats:
        history = self.histories[run]
        if name not in history:
            raise ValueError(f"{run} has no column {name!r}; it has {', '.join(history)}.")
        return history[name]

    def _values(self, run: str, quantity: str, scale: str) -> Floats:
        if quantity == "relative_gap":
            gap, primal, dual = (self._column(run, name) for name in ("gap", *OBJECTIVES))
            size = np.maximum(np.abs(primal), np.abs(dual))
            with np.errstate(invalid="ignore"):  # infinite / infinite
                ratio = np.divide(gap, size, out=np.zeros_like(gap), where=gap != 0)
            return np.where(np.isinf(gap), np.inf, ratio)
        values = self._column(run, quantity)
        if scale == "linear" or quantity not in OBJECTIVES:
            return values
        best = self.best_dual
        distance = values - best if quantity == "primal" else best - values
        if np.nanmin(distance) < -1e-9 * abs(best):  # weak duality
            raise ValueError(
                f"the primal of {run}, {np.nanmin(values):.6g}, lies below the best dual, "
                f"{best:.6g}: not runs on one problem with a positive semi-definite kernel. "
                'Use yscale="linear", or y="gap".'
            )
        return np.where(distance > 0, distance, np.nan)  # not the best dual itself

    def _curve(self, run: str, quantity: str, x: str, scale: str) -> _Curve:
        at, values = self._column(run, x), self._values(run, quantity, scale)
        infinite = np.isinf(values)
        return _Curve(run, quantity, at, np.where(infinite, np.nan, values), int(infinite.sum()))

    def _notes(self, curves: Sequence[_Curve]) -> list[str]:
        """Say what the histories do not hold."""
        several = len(self.histories) > 1
        infinite = dict.fromkeys(self.histories, 0)
        for curve in curves:
            infinite[curve.run] = max(infinite[curve.run], curve.infinite)
        notes = []
        if total := sum(infinite.values()):
            of = ", ".join(f"{n} of {run}" for run, n in infinite.items() if n)
            plural, whose = "s" * (total > 1), f" ({of})" * several
            notes.append(f"{total} record{plural} with infinite primal left out{whose}")
        if short := list(dict.fromkeys(curve.run for curve in curves if len(curve.x) < 3)):
            whose = f" of {', '.join(short)}" * several
            notes.append(f"only the ends{whose} are recorded: set record_every")
        return notes

    # ---- drawing ----------------------------------------------------------------------------

    def _set_scales(self, pen: Pen, x: str, xscale: str, yscale: str) -> None:
        if xscale == "log":  # but 0 stays in the picture
            first = min(h[x].min(initial=1.0, where=h[x] > 0) for h in self.histories.values())
            decade = 10.0 ** np.floor(np.log10(first))
            self.ax_.set_xscale("symlog", linthresh=decade, linscale=0.4)
        self.ax_.set_yscale(yscale)
        self.ax_.grid(color=pen.faint, linewidth=0.4)
        self.ax_.set_axisbelow(True)

    def _draw_curves(self, pen: Pen, curves: Sequence[_Curve], n_quantities: int) -> None:
        several = len(self.histories) > 1
        self.lines_ = []
        for position, (run, quantity, x, y, _) in enumerate(curves):
            k, q = divmod(position, n_quantities)
            hue, style = (k if several else q), (q if n_quantities > 1 else k)
            words = [run] * (several or n_quantities == 1)
            words += [QUANTITIES[quantity][0]] * (n_quantities > 1)
            (line,) = self.ax_.plot(
                x,
                y,
                color=pen.colors[hue],
                linestyle=pen.styles[style],
                linewidth=1.6,
                marker=pen.markers[hue],
                markersize=5,
                markerfacecolor=pen.paper if q else pen.colors[hue],
                markevery=None if len(x) <= FEW else (0.04 * (1 + position % 4), 0.16),
                label=", ".join(words),
            )
            self.lines_.append(line)

    def _draw_band(self, pen: Pen, curves: Sequence[_Curve]) -> None:
        self.band_ = None
        both = len(curves) == 2 and {curve.quantity for curve in curves} == set(OBJECTIVES)
        if both and self.ax_.get_yscale() == "linear":
            one, other = curves
            look = {"color": pen.ink, "lw": 0, "alpha": 0.12}
            self.band_ = self.ax_.fill_between(one.x, one.y, other.y, **look)

    def _zoom(self, curves: Sequence[_Curve]) -> list[str]:
        """Let a linear axis show the usual rise of a dual; return what that cuts off."""
        duals = [curve.y for curve in curves if curve.quantity == "dual"]
        primals = [curve.y for curve in curves if curve.quantity == "primal"]
        if not (duals and primals and self.ax_.get_autoscaley_on()):
            return []
        low, best = min(map(np.nanmin, duals)), max(map(np.nanmax, duals))
        high = np.nanmax([best, *np.concatenate(primals)])
        rise = np.median([np.nanmax(y) - np.nanmin(y) for y in duals]) or np.inf
        bottom, top = max(low, best - 2 * rise), min(high, best + 2 * rise)
        if (bottom, top) == (low, high):
            return []
        pad = 0.05 * (top - bottom)
        self.ax_.set_ylim(bottom - pad, top + pad)
        below, above = f"below {bottom - pad:.4g}", f"above {top + pad:.4g}"
        cuts = [cut for cut, made in ((below, low < bottom), (above, top < high)) if made]
        return [f"values {' and '.join(cuts)} cut off"]

    def _floor(self, curves: Sequence[_Curve]) -> list[str]:
        """Put exact zeros, which a logarithmic axis does not have, at its lower edge."""
        values = np.concatenate([curve.y for curve in curves])
        if not np.any(values == 0):
            return []
        edge = min(values[values > 0], default=1.0) / 10
        for line, curve in zip(self.lines_, curves, strict=True):
            line.set_ydata(np.where(curve.y == 0, edge, curve.y))
        self.ax_.relim()
        self.ax_.set_ylim(bottom=edge)
        return ["0 drawn at the lower edge"]

    def _draw_legend(self, pen: Pen, quantities: Sequence[str], beside: bool) -> Any:
        from matplotlib.lines import Line2D

        entries: list[tuple[Any, str]] = [(line, line.get_label()) for line in self.lines_]
        if len(self.histories) > 1 and len(quantities) > 1:
            look = zip(self.histories, pen.colors, pen.markers, strict=False)
            entries = [(Line2D([], [], color=c, marker=m, ms=5), run) for run, c, m in look]
            for q, name in enumerate(quantities):
                line = Line2D([], [], color=pen.ink, linestyle=pen.styles[q])
                entries.append((line, QUANTITIES[name][0]))
        if self.band_ is not None:
            entries.append((self.band_, "duality gap"))
        return add_legend(self.ax_, entries, loc="outside right upper" if beside else "best")
