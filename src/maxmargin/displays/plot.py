"""One picture of a fitted model, shown or written to a file: what `maxmargin plot` calls."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.displays._style import pyplot

__all__ = ["KINDS", "plot_model"]

KINDS = {  # and whether each needs the training data
    "margin": True,  # regions, margin and support vectors of a classifier
    "tube": True,  # prediction and tube of a regression
    "ledger": True,  # histograms of multipliers and margins by KKT case
    "gram": True,  # the kernel matrix, sorted by class
    "path": True,  # coefficients, support vectors and gap along C, fitted anew
    "convergence": False,  # primal and dual over the iterations of the fit
}


def plot_model(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    kind: str = "auto",
    path: str | os.PathLike[str] | None = None,
    dark: bool = False,
    dpi: float = 150,
    **options: Any,
) -> Any:
    """Draw a fitted model, and write the picture if a path is given.

    Parameters
    ----------
    model : fitted estimator
        Also a pipeline that ends in one, or a search over such.
    X, y
        The training data; only ``kind="convergence"`` does without.
    kind : {"auto", "margin", "tube", "ledger", "gram", "path", "convergence"}, default="auto"
        "auto" is "tube" for a regression that has one; "margin" for what has classes or outliers
        and at least 2 features; else "ledger" or, for what is no support vector machine, "gram".
        Without data it is "convergence".
    path : str or path-like, default=None
        Where to write; the suffix (.png, .pdf, .svg, ...) says what. The figure is then closed.
    dark : bool, default=False
        Draw on a dark background.
    dpi : float, default=150
        Pixels per inch of a .png.
    **options
        As in `from_estimator` of the display, such as ``sample_weight``.

    Returns
    -------
    display
        The display, drawn.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> from maxmargin.displays import plot_model
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> type(plot_model(SVC().fit(X, y), X, y)).__name__
    'MarginDisplay'
    """
    plt = pyplot("plot_model")
    chosen = _choose(model, X) if kind == "auto" else kind
    if chosen not in KINDS:
        raise ValueError(f"kind={kind!r} must be auto, {', '.join(KINDS)}.")
    if KINDS[chosen] and X is None:
        raise ValueError(f"kind={chosen!r} needs the training data: X, and y where there is one.")
    _check_suffix(path)
    with plt.style.context("dark_background") if dark else nullcontext():
        display = _draw(chosen, model, X, y, options)
        if path is not None:
            display.figure_.savefig(path, dpi=dpi)
            plt.close(display.figure_)
    return display


def _choose(model: Any, X: Any) -> str:
    from sklearn.base import is_classifier, is_outlier_detector, is_regressor

    from maxmargin.displays._machine import has_input_space, has_tube, unwrap

    if X is None:
        return "convergence"
    if is_regressor(model) and has_tube(model):
        return "tube"
    drawable = is_classifier(model) or is_outlier_detector(model)
    wide = getattr(X, "shape", None) or np.shape(X)
    if drawable and wide[1] > 1 and has_input_space(model):
        return "margin"
    return "ledger" if hasattr(unwrap(model)[1], "ledger") else "gram"


def _draw(kind: str, model: Any, X: Any, y: Any, options: dict[str, Any]) -> Any:
    from maxmargin import displays

    if kind == "convergence":
        return displays.ConvergenceDisplay.from_estimator(model, **options)
    homes: dict[str, Any] = {
        "margin": displays.MarginDisplay,
        "tube": displays.RegressionTubeDisplay,
        "ledger": displays.LedgerDisplay,
        "gram": displays.GramDisplay,
        "path": displays.PathDisplay,
    }
    return homes[kind].from_estimator(model, X, y, **options)


def _check_suffix(path: str | os.PathLike[str] | None) -> None:
    """Refuse a kind of file that cannot be written before anything is computed."""
    from matplotlib.backend_bases import FigureCanvasBase

    if path is None:
        return
    known, suffix = FigureCanvasBase.get_supported_filetypes(), Path(path).suffix.lower()
    if suffix.removeprefix(".") not in known:
        raise ValueError(f"path={os.fspath(path)!r} must end in .{', .'.join(sorted(known))}.")
