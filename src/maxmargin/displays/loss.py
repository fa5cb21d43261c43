"""The losses of the notes over the margin: N0 Figure 6 and N3's comparison."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.displays._style import Pen, add_legend, pyplot, write
from maxmargin.losses import LOSSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LossDisplay"]

Floats = NDArray[np.float64]

FORMULAS = {
    "0-1": "1 if y·z ≤ 0, else 0",
    "hinge": "max(0, 1 − y·z)",
    "squared hinge": "max(0, 1 − y·z)²",
    "log": "ln(1 + exp(−y·z))",
    "log / log 2": "log₂(1 + exp(−y·z))",
}
JUMP = np.nextafter(0, 1) * np.array([-1, 0, 1])  # 0 and its neighbours: 0-1 falls steeply


@dataclass(kw_only=True, eq=False, repr=False)
class LossDisplay:
    """What losses charge for a point, over its functional margin y·z with z = w·x + b.

    Make it with :meth:`from_losses`. The picture names the three cases of N0 §3.4.1: misclassified
    (y·z < 0), inside the margin (up to 1) and outside. N0 labels the axis of its Figure 6 with z;
    y·z is meant.

    Attributes
    ----------
    margins : ndarray of shape (n_margins,)
        Values of y·z, increasing.
    losses : dict of str to ndarray of shape (n_margins,)
        The losses there, by name.
    ax_, figure_, legend_ : matplotlib Axes, Figure, and Legend or None
        Where it was drawn.
    lines_ : list of Line2D
        The curves, in the order of `losses`.

    Examples
    --------
    >>> from maxmargin.displays import LossDisplay
    >>> display = LossDisplay.from_losses()
    >>> display.ax_.get_xlabel(), [line.get_label() for line in display.lines_]
    ('y·z,  z = w·x + b', ['0-1', 'hinge', 'log / log 2'])
    """

    margins: Floats
    losses: dict[str, Floats]

    @classmethod
    def from_losses(
        cls,
        names: Sequence[str] | Mapping[str, Callable[[Floats], Any]] = (
            "0-1",
            "hinge",
            "log / log 2",
        ),
        *,
        low: float = -2.0,
        high: float = 3.0,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw losses of :data:`maxmargin.losses.LOSSES`, or your own.

        Parameters
        ----------
        names : sequence of str, or mapping of str to callable
            The losses, by default N3's comparison; also "squared hinge" and "log". A mapping gives
            functions of the margin that take and return an array.
        low, high : float, default=-2.0 and 3.0
            The margins to draw, from and to.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : LossDisplay
            The display, drawn.
        """
        pyplot("LossDisplay.from_losses")
        names = [names] if isinstance(names, str) else names
        functions = names if isinstance(names, Mapping) else LOSSES
        for name in names:
            if name not in functions:
                raise ValueError(f"{name!r} is not a loss; choose from {', '.join(functions)}.")
        if not (low < high and len(names)):
            raise ValueError(f"LossDisplay needs a loss and low < high; got {low!r} and {high!r}.")
        margins = np.linspace(low, high, 501)
        margins = np.union1d(margins, JUMP) if low < 0 < high else margins
        losses = {name: np.asarray(functions[name](margins), dtype=np.float64) for name in names}
        return cls(margins=margins, losses=losses).plot(ax, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool = True,
        colors: Sequence[Any] | None = None,
    ) -> Self:
        """Draw the stored losses.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure with equal scales.
        legend : bool, default=True
            Add a legend with the formulas.
        colors : sequence of matplotlib colors, default=None
            One for each loss; None takes Okabe and Ito's.

        Returns
        -------
        display : LossDisplay
            This object.
        """
        plt = pyplot("LossDisplay.plot")
        if ax is None:
            _, ax = plt.subplots(figsize=(6.2, 4.7), layout="constrained")
            ax.set_aspect("equal")
        self.ax_: Any = ax
        self.figure_ = self.ax_.figure
        pen = Pen(ax, len(self.losses), colors, lines=True)
        self._draw_cases(pen)
        self.lines_: list[Any] = []
        for k, (name, values) in enumerate(self.losses.items()):
            look: dict[str, Any] = {
                "color": pen.colors[k],
                "linestyle": pen.styles[k],
                "zorder": 3 - 0.01 * k,
            }
            self.lines_ += ax.plot(self.margins, values, label=name, linewidth=2, **look)
        write(ax, xlabel="y·z,  z = w·x + b", ylabel="loss")
        entries = [(line, self._words(line.get_label())) for line in self.lines_]
        self.legend_ = add_legend(ax, entries, loc="upper right") if legend else None
        return self

    def _words(self, name: str) -> str:
        return f"{name}:  {FORMULAS[name]}" if name in FORMULAS else name

    def _draw_cases(self, pen: Pen) -> None:
        """Mark the decision line and the margin, and name the cases between them."""
        low, high = float(self.margins[0]), float(self.margins[-1])
        greatest = max(float(np.nanmax(values)) for values in self.losses.values())
        top = min(greatest, max(1.0, 1 - low))  # where the hinge ends; steeper losses leave
        self.ax_.set(xlim=(low, high), ylim=(-0.12 * top, 1.08 * top))
        edges = [low, *(edge for edge in (0.0, 1.0) if low < edge < high), high]
        for left, right in itertools.pairwise(edges):
            middle = (left + right) / 2
            case = "misclassified" if middle < 0 else "inside margin" if middle < 1 else "outside"
            look = {"ha": "center", "va": "center", "fontsize": "small", "color": pen.ink}
            self.ax_.text(middle, -0.06 * top, case, **look)
            self.ax_.axvline(left, color=pen.faint, linewidth=0.8, zorder=1)
