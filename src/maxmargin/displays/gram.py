"""The kernel matrix as a picture: who is similar to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.displays._style import Pen, pyplot, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GramDisplay"]

Floats = NDArray[np.float64]

MOST_CLASSES = 20  # more different values are a target, not classes
LONG = 60  # characters of a formula that fit above the picture


@dataclass(kw_only=True, eq=False, repr=False)
class GramDisplay:
    """A kernel matrix as a heat map, its points sorted by class or by target.

    Make it with :meth:`from_estimator`, with :meth:`from_kernel`, or of a matrix you have with
    :meth:`from_matrix`. A kernel that suits the labels shows as bright squares along the diagonal;
    one whose bandwidth is too small as a bright diagonal alone, one whose bandwidth is too large as
    one even field. The colours rise evenly in lightness, so a grey print keeps their order; where
    values have both signs, a line on the colour bar marks 0.

    Attributes
    ----------
    K : ndarray of shape (n_shown, n_shown)
        The kernel matrix of the points that are shown, in the order of the picture.
    rows : ndarray of shape (n_shown,)
        Which points those are.
    classes : ndarray or None
        The labels, if there are at most 20 different ones.
    edges : ndarray of shape (n_classes + 1,) or None
        Where the classes begin and end in the picture.
    n_samples : int
        How many points there were.
    xlabel, title : str
        Labels; they never replace what is already written on the axes.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    image_ : AxesImage
        The heat map.
    colorbar_ : Colorbar or None
        Its scale.
    borders_ : list of Line2D
        The lines between classes.

    Examples
    --------
    >>> from maxmargin import kernels
    >>> from maxmargin.displays import GramDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> display = GramDisplay.from_kernel(kernels.RBF(sigma=1.0), X, y)
    >>> display.edges, display.ax_.get_title()
    (array([  0,  50, 100, 150]), 'k(u, v) = exp(-0.5 ||u - v||^2)')
    """

    K: Floats
    rows: NDArray[np.intp]
    classes: NDArray[Any] | None
    edges: NDArray[np.intp] | None
    n_samples: int
    xlabel: str = ""
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        max_points: int = 1000,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the kernel matrix that a fitted estimator sees.

        Parameters
        ----------
        estimator : kernel machine
            Of maxmargin or of scikit-learn, a pipeline that ends in one, or a search over such.
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            The data; the kernel matrix itself for ``kernel="precomputed"``.
        y, max_points, ax, **options
            As in :meth:`from_kernel`.

        Returns
        -------
        display : GramDisplay
            The display, drawn.
        """
        pyplot("GramDisplay.from_estimator")
        from sklearn.utils import get_tags

        from maxmargin.displays._machine import unwrap

        transform, machine = unwrap(estimator)
        data = transform(X)
        if get_tags(machine).input_tags.pairwise:
            return cls.from_matrix(data, y, max_points=max_points, ax=ax, **options)
        kernel = _kernel(machine)
        return cls.from_kernel(kernel, data, y, max_points=max_points, ax=ax, **options)

    @classmethod
    def from_kernel(
        cls,
        kernel: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        max_points: int = 1000,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the matrix of a kernel on data.

        Parameters
        ----------
        kernel : Kernel, kernel name or callable
            What ``SVC(kernel=)`` takes, but "precomputed".
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            The data.
        y : array-like of shape (n_samples,), default=None
            Classes or targets, to sort the points by; None keeps their order.
        max_points : int, default=1000
            Of more points, these many evenly among the sorted ones are shown, and the label of the
            axis says so.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : GramDisplay
            The display, drawn.
        """
        pyplot("GramDisplay.from_kernel")
        from sklearn.utils import check_array

        from maxmargin.kernels import Precomputed, as_kernel

        formula = as_kernel(kernel)
        if isinstance(formula, Precomputed):
            raise ValueError("a precomputed kernel is its matrix: use GramDisplay.from_matrix(K).")
        data: Any = X
        if formula.compiled:
            data = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
            formula = formula.resolve(data)
        fields = _sorted(len(data) if isinstance(data, list) else data.shape[0], y, max_points)
        words = f"k(u, v) = {formula.formula()}"
        title = words if len(words) <= LONG else repr(formula)
        K = formula(data[fields["rows"]])
        return cls(K=K, title=title if len(title) <= LONG else "", **fields).plot(ax, **options)

    @classmethod
    def from_matrix(
        cls,
        K: ArrayLike,
        y: ArrayLike | None = None,
        *,
        max_points: int = 1000,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw a kernel matrix.

        Parameters
        ----------
        K : array-like of shape (n_samples, n_samples)
            The matrix.
        y, max_points, ax, **options
            As in :meth:`from_kernel`.

        Returns
        -------
        display : GramDisplay
            The display, drawn.
        """
        pyplot("GramDisplay.from_matrix")
        matrix = np.asarray(K, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"a kernel matrix is square; got shape {matrix.shape}.")
        if not np.isfinite(matrix).all():
            raise ValueError("a kernel matrix is finite; got NaN or infinity.")
        fields = _sorted(len(matrix), y, max_points)
        rows = fields["rows"]
        return cls(K=matrix[np.ix_(rows, rows)], **fields).plot(ax, **options)

    def plot(self, ax: Axes | None = None, *, cmap: Any = "cividis", colorbar: bool = True) -> Self:
        """Draw the stored matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        cmap : str or Colormap, default="cividis"
            The colours. The default can be read by the colour-blind and in a grey print.
        colorbar : bool, default=True
            Add the scale of the colours.

        Returns
        -------
        display : GramDisplay
            This object.
        """
        plt = pyplot("GramDisplay.plot")
        if ax is None:
            _, ax = plt.subplots(figsize=(4.6 + 0.9 * colorbar, 4.8), layout="compressed")
        self.ax_: Any = ax
        self.figure_ = self.ax_.figure
        n, pen = len(self.K), Pen(self.ax_, 1)
        self.image_ = ax.imshow(self.K, cmap=cmap, interpolation="nearest", extent=(0, n, n, 0))
        self._draw_borders()
        self.colorbar_ = self._draw_colorbar(pen) if colorbar else None
        write(self.ax_, xlabel=self.xlabel, title=self.title)
        return self

    def _draw_borders(self) -> None:
        self.borders_: list[Any] = []
        if self.edges is None or self.classes is None:
            return
        look = {"color": "white", "linewidth": 1.0}
        for edge in self.edges[1:-1]:
            self.borders_ += [self.ax_.axvline(edge, **look), self.ax_.axhline(edge, **look)]
        middles, names = (self.edges[1:] + self.edges[:-1]) / 2, [str(c) for c in self.classes]
        long = sum(map(len, names)) > 40
        self.ax_.set_xticks(middles, names, rotation=90 if long else 0)
        self.ax_.set_yticks(middles, names)
        self.ax_.tick_params(length=0)

    def _draw_colorbar(self, pen: Pen) -> Any:
        bar = self.figure_.colorbar(self.image_, ax=self.ax_, shrink=0.85)
        if self.K.min() < 0 < self.K.max():
            bar.ax.axhline(0, color="white", linewidth=2.5)
            bar.ax.axhline(0, color="black", linewidth=1)
        bar.outline.set_edgecolor(pen.faint)
        return bar


def _kernel(machine: Any) -> Any:
    """The kernel of a fitted machine, with the number that fit has made of gamma."""
    from maxmargin.estimators._pairwise import compiled
    from maxmargin.estimators.models import fitted_kernel

    known = getattr(machine, "kernel_", None)
    if isinstance(known, str) and known != "precomputed":  # KernelPCA's
        numbers = {"gamma": machine.gamma_, "degree": machine.degree, "coef0": machine.coef0}
        known = None if known == "cosine" else compiled(known, **numbers)
    if known is not None:
        return known
    if not hasattr(machine, "_gamma"):  # of scikit-learn only sklearn.svm tells it
        got = type(machine).__name__
        raise TypeError(
            f"GramDisplay does not know the kernel of {got}: use GramDisplay.from_kernel(kernel, "
            "X, y)."
        )
    return fitted_kernel(machine)


def _sorted(n: int, y: ArrayLike | None, max_points: int) -> dict[str, Any]:
    """Sort points by class or target and choose those to show."""
    if max_points < 1:
        raise ValueError(f"max_points={max_points} must be at least 1.")
    order, what = np.arange(n), "points"
    classes = edges = None
    if y is not None:
        labels = np.asarray(y)
        if labels.shape != (n,):
            raise ValueError(f"y must hold one label for each of {n} points; got {labels.shape}.")
        order = np.argsort(labels, kind="stable")
        classes = np.unique(labels)
        what = "points, sorted by class"
    shown = order
    if n > max_points:
        shown = order[np.linspace(0, n - 1, max_points).round().astype(np.intp)]
        what = f"{max_points} of {n} {what}"
    if classes is not None and _are_targets(classes):
        classes, what = None, what.replace("class", "target")
    elif classes is not None:
        edges = np.append(np.searchsorted(np.asarray(y)[shown], classes), len(shown))
    return {"rows": shown, "classes": classes, "edges": edges, "n_samples": n, "xlabel": what}


def _are_targets(values: NDArray[Any]) -> bool:
    fractions = values.dtype.kind == "f" and bool((values != np.round(values)).any())
    return fractions or len(values) > MOST_CLASSES
