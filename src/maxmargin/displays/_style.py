"""The look of every picture, and the way to matplotlib.

The colours are Okabe and Ito's, which stay apart under colour blindness; what differs by colour
differs by marker, line style or hatch as well, so a grey print can be read, and lines take the ink
that suits a light or a dark background.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
OKABE_ITO_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2")
# The same colours for thin lines: on white the pale ones come last, and yellow not at all.
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "^", "s", "D", "v", "P", "h", "<", "p", ">")
HATCHES = ("", "////", "\\\\\\\\", "....", "||||", "----", "++++", "xxxx")
STYLES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.8)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (9, 3)),
)


def pyplot(caller: str) -> Any:
    """Import matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = f"{caller} needs matplotlib. Install it with: pip install maxmargin[plot]"
        raise ImportError(message) from error
    return plt


class Pen:
    """Colours that suit the background of the axes; k-th colours, markers, hatches and styles."""

    def __init__(
        self, ax: Axes, n: int, colors: Sequence[Any] | None = None, *, lines: bool = False
    ) -> None:
        from matplotlib.colors import to_hex, to_rgba

        around = [to_rgba(ax.get_facecolor()), to_rgba(ax.figure.get_facecolor())]
        paper = next((rgba for rgba in around if rgba[3] > 0.5), (1.0, 1.0, 1.0, 1.0))
        dark = np.dot(paper[:3], (0.2126, 0.7152, 0.0722)) < 0.5  # relative luminance
        light = LINES if lines else OKABE_ITO
        palette = (OKABE_ITO_ON_DARK if dark else light) if colors is None else colors
        self.paper, self.ink = to_hex(paper), "#f2f2f2" if dark else "#1a1a1a"
        self.faint = to_rgba(self.ink, 0.25)
        self.colors = [to_rgba(palette[k % len(palette)]) for k in range(n)]
        self.markers = [MARKERS[k % len(MARKERS)] for k in range(n)]
        self.hatches = [HATCHES[k % len(HATCHES)] for k in range(n)]
        self.styles = [STYLES[k % len(STYLES)] for k in range(n)]

    def tint(self, k: int, alpha: float = 0.38) -> Any:
        return (*self.colors[k][:3], alpha)

    def hatching(self) -> AbstractContextManager[None]:
        """Make hatches thin and faint; matplotlib takes both only from its settings."""
        import matplotlib as mpl

        return mpl.rc_context({"hatch.linewidth": 0.4, "hatch.color": self.faint})


def panels(ax: Any, n: int, *, rows: Sequence[float] = (), **size: Any) -> Any:
    """Return n axes: those that were given, a given one split, or a new figure's.

    They stand side by side, or with `rows` below each other in these heights over one x-axis.
    """
    import matplotlib.pyplot as plt

    given: Any = [] if ax is None else np.asarray(ax, dtype=object).ravel()
    if len(given) == n:
        return np.asarray(given)
    if len(given) > 1:
        raise ValueError(f"ax must be one axes or {n}; got {len(given)}.")
    if ax is None:
        cells = plt.figure(layout="constrained", **size).add_gridspec
    elif (place := given[0].get_subplotspec()) is not None:
        given[0].set_axis_off()
        cells = place.subgridspec
    else:
        raise ValueError(f"an axes outside a grid cannot be split: pass {n} axes.")
    grid = cells(n, 1, height_ratios=list(rows)) if rows else cells(1, n)
    return grid.subplots(sharex=bool(rows), squeeze=False).ravel()


def write(ax: Axes, *, xlabel: str = "", ylabel: str = "", title: str = "") -> None:
    """Label the axes; never replace what is already written there."""
    ax.set_xlabel(ax.get_xlabel() or xlabel)
    ax.set_ylabel(ax.get_ylabel() or ylabel)
    if title and not ax.get_title():
        ax.set_title(title, fontsize="small")


def add_legend(ax: Axes, entries: Iterable[tuple[Any, str]], *, loc: str, ncols: int = 1) -> Any:
    """Add a legend of (handle, text) to the axes, or beside them if loc says "outside"."""
    handles, texts = zip(*entries, strict=True)
    home: Any = ax.figure if loc.startswith("outside") else ax
    return home.legend(handles, texts, fontsize="small", loc=loc, ncols=ncols)
