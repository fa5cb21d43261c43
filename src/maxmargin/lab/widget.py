"""The lab in a notebook: the page's own module, on the widget's messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.lab import presets
from maxmargin.lab.document import Document, Settings, exact
from maxmargin.lab.protocol import MAX_POINTS, Refusal, Reply, check, packed
from maxmargin.lab.session import Session

try:
    import anywidget
except ImportError as error:
    raise ImportError(
        f"Lab(X, y) needs {error.name}: pip install 'maxmargin[notebook]'. In a terminal "
        "`maxmargin lab` opens the same page in the browser."
    ) from None

__all__ = ["Lab"]

STATIC = Path(__file__).with_name("static")


class Lab(anywidget.AnyWidget):
    """Show the lab in a notebook.

    Parameters
    ----------
    X : array-like of shape (n_samples, 2) or (n_samples, 1), optional
        One column makes it a regression on ``y``. Coordinates keep six digits.
    y : array-like of shape (n_samples,), optional
        Two classes, the larger one is +1; or targets. Without it the problem is one-class.
    **settings
        As in the page's URL: ``problem``, ``C``, ``nu``, ``kernel=[{"kind": "rbf", "sigma": 1}]``,
        ``solver``, ...

    Attributes
    ----------
    session : Session
        What the widget shows; ``session.document`` has the points as they were edited.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, -1.0], [2.0, -1.0]])
    >>> lab = Lab(X, ["up", "up", "down", "down"], C=10.0)  # in a notebook: the last line shows it
    >>> lab.session.document.labels
    array([ 1.,  1., -1., -1.])
    """

    _esm = STATIC / "lab.js"
    _css = STATIC / "lab.css"

    def __init__(self, X: ArrayLike | None = None, y: ArrayLike | None = None, **settings: Any):
        super().__init__()
        self.session = Session(_document(X, y, settings))
        self.on_msg(self._follow)

    def _follow(self, widget: Any, message: Any, buffers: Any) -> None:
        for reply in self.session.handle(message):
            self._tell(reply)

    def _tell(self, reply: Reply) -> None:
        """Send the header as JSON and all arrays as one buffer."""
        header, arrays = packed(reply)
        self.send(header, [arrays])


def _document(X: ArrayLike | None, y: ArrayLike | None, given: dict[str, Any]) -> Document:
    """Check what the user gave with the page's own rules, and say what is wrong."""
    try:
        checked = check({"type": "set", "settings": given})["settings"]
    except Refusal as refusal:
        raise ValueError(f"Lab: {refusal}") from None
    settings = Settings().changed(checked)
    if X is None:
        return presets.load("overlapping", settings)
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] not in (1, 2) or not 1 <= len(points) <= MAX_POINTS:
        raise ValueError(
            f"Lab shows 1 to {MAX_POINTS} points with one or two features; got X of shape "
            f"{points.shape}. Choose two columns, or some rows."
        )
    if not (np.abs(points) <= 1e6).all():
        raise ValueError("Lab needs finite coordinates between -1e6 and 1e6.")
    regression = points.shape[1] == 1
    if y is None:
        if regression:
            raise ValueError("Lab needs targets y for one feature, or X with two columns.")
        settings = Settings().changed({"problem": "one_class", **checked})
        return Document(exact(points), np.ones(len(points)), None, settings)
    values = np.asarray(y)
    if values.shape != (len(points),):
        raise ValueError(
            f"y has shape {values.shape}; expected ({len(points)},), one per row of X."
        )
    if regression or settings.problem == "svr":
        settings = Settings().changed({**checked, "problem": "svr"})
        both = np.column_stack([points[:, 0], values.astype(np.float64)])
        return Document(exact(both), np.ones(len(points)), None, settings)
    return Document(exact(points), _labels(values), None, settings)


def _labels(y: NDArray[Any]) -> NDArray[np.float64]:
    kinds = np.unique(y)
    if len(kinds) != 2:
        raise ValueError(f"Lab shows two classes; y has {len(kinds)}: {kinds[:5]}.")
    return np.where(y == kinds[1], 1.0, -1.0)
