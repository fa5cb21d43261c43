"""How a machine changes with C: coefficients, gap and support vectors along the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.displays._style import Pen, add_legend, panels, pyplot, write

__all__ = ["PathDisplay"]

Floats = NDArray[np.float64]

MANY = 200  # lines: thinner and paler from here on
STEP = 1.15  # largest ratio of neighbouring C of an exact path: arcs that look smooth


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay:
    """Coefficients, support vectors and duality gap of one machine at many C.

    Make it with :meth:`from_path` of a path that was computed, with :meth:`from_estimator`, which
    computes one, or with :meth:`from_arrays`.

    Each training point has a line: its signed coefficient β = yα as a share of its bound C, solid
    where it is positive, dashed where it is negative. A line at ±1 is a bound support vector, at 0
    none, between a free one. Below it stand, where they are known, the number of support vectors
    and the certified relative gap at each C; an exact 0 sits on the lower edge.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
        The values of C, increasing.
    betas : ndarray of shape (n_Cs, n_variables)
        The signed coefficients at each C.
    n_support : ndarray of shape (n_Cs,) or None
        The number of support vectors.
    gaps : ndarray of shape (n_Cs,) or None
        The relative duality gaps; NaN where none was certified.
    axes_ : ndarray of Axes
        The coefficients, then what else there is.
    ax_, figure_, legend_ : matplotlib Axes, Figure, and Legend or None
        The first of the axes, and where it was drawn.
    lines_ : list of LineCollection
        The positive and the negative coefficients.
    support_, gap_ : Line2D or None
        The other curves.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVC
    >>> from maxmargin.displays import PathDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> display = PathDisplay.from_estimator(SVC(gamma=1.0), X, y, Cs=np.geomspace(0.1, 100, 9))
    >>> display.betas.shape, [axes.get_ylabel() for axes in display.axes_]
    ((9, 60), ['β / C', 'support vectors', 'relative gap'])
    """

    Cs: Floats
    betas: Floats
    n_support: Floats | None = None
    gaps: Floats | None = None

    @classmethod
    def from_path(cls, path: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw a path that was computed.

        Parameters
        ----------
        path : Path
            Of :func:`~maxmargin.svc_path`. An exact one is drawn between its breakpoints too.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : PathDisplay
            The display, drawn.

        Examples
        --------
        >>> from maxmargin import svc_path
        >>> from maxmargin.displays import PathDisplay
        >>> path = svc_path([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], Cs=[0.1, 1.0])
        >>> PathDisplay.from_path(path).n_support.tolist()
        [4.0, 4.0]
        """
        if not (hasattr(path, "Cs") and hasattr(path, "certificates")):
            got = type(path).__name__
            raise TypeError(f"PathDisplay.from_path needs a path of svc_path; got {got}.")
        Cs = _between(path.Cs) if path.exact else path.Cs
        betas = np.stack([path.at(C)[0] for C in Cs])
        gaps = np.full(len(Cs), np.nan)
        gaps[np.searchsorted(Cs, path.Cs)] = [proof.relative_gap for proof in path.certificates]
        more = {"n_support": (betas != 0).sum(axis=1), "gaps": gaps}
        return cls.from_arrays(Cs, betas, **more, ax=ax, **options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        Cs: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Fit a machine at each C, and draw what changes.

        Parameters
        ----------
        estimator : support vector machine with a parameter C
            Or a pipeline that ends in one. It is cloned, not fitted itself; where it has
            `warm_start`, each fit starts from the one before.
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            The training data.
        y : array-like of shape (n_samples,)
            Labels of two classes, or targets.
        Cs : array-like of shape (n_Cs,), default=None
            The values of C; None takes 31 from 0.001 to 1000.
        sample_weight : array-like of shape (n_samples,), default=None
            As given to `fit`.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : PathDisplay
            The display, drawn.
        """
        pyplot("PathDisplay.from_estimator")
        from sklearn.base import clone, is_classifier
        from sklearn.pipeline import Pipeline

        machine = clone(getattr(estimator, "best_estimator_", estimator))
        if isinstance(machine, Pipeline):
            X = machine[:-1].fit_transform(X, y) if len(machine) > 1 else X
            machine = machine[-1]
        known = machine.get_params()
        if "C" not in known:
            raise TypeError(f"PathDisplay needs a parameter C; {type(machine).__name__} has none.")
        if is_classifier(machine) and (n := len(np.unique(np.asarray(y)))) > 2:
            raise ValueError(f"PathDisplay draws one problem, so 2 classes; got {n}.")
        if known.get("warm_start") is False:
            machine.set_params(warm_start=True)
        rows: list[tuple[Floats, int, float]] = []
        prices = np.geomspace(1e-3, 1e3, 31) if Cs is None else np.asarray(Cs, dtype=np.float64)
        for C in np.sort(prices.ravel()):
            machine.set_params(C=float(C)).fit(X, y, sample_weight)
            rows.append(_fitted(machine, len(np.asarray(y))))
        betas, n_support, gaps = zip(*rows, strict=True) if rows else ((), (), ())
        proven = {"gaps": gaps} if not np.isnan(gaps).any() else {}
        return cls.from_arrays(
            np.sort(prices.ravel()), betas, n_support=n_support, **proven, ax=ax, **options
        )

    @classmethod
    def from_arrays(
        cls,
        Cs: ArrayLike,
        betas: ArrayLike,
        *,
        n_support: ArrayLike | None = None,
        gaps: ArrayLike | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw numbers.

        Parameters
        ----------
        Cs : array-like of shape (n_Cs,)
            The values of C, in any order.
        betas : array-like of shape (n_Cs, n_variables)
            The signed coefficients at each C.
        n_support : array-like of shape (n_Cs,), default=None
            The number of support vectors.
        gaps : array-like of shape (n_Cs,), default=None
            The relative duality gaps.
        ax, **options
            As in :meth:`plot`.

        Returns
        -------
        display : PathDisplay
            The display, drawn.

        Examples
        --------
        >>> from maxmargin.displays import PathDisplay
        >>> display = PathDisplay.from_arrays([0.1, 1.0], [[0.1, -0.1], [0.5, -0.5]])
        >>> display.ax_.get_xscale(), len(display.axes_)
        ('log', 1)
        """
        pyplot("PathDisplay.from_arrays")
        price = np.asarray(Cs, dtype=np.float64)
        if price.ndim != 1 or not len(price) or not (np.isfinite(price) & (price > 0)).all():
            raise ValueError("PathDisplay needs a list of C > 0, none infinite.")
        order = np.argsort(price, kind="stable")
        fields: dict[str, Any] = {"betas": betas, "n_support": n_support, "gaps": gaps}
        for name, values in fields.items():
            if values is not None:
                column = np.asarray(values, dtype=np.float64)
                if len(column) != len(price) or column.ndim != 1 + (name == "betas"):
                    raise ValueError(
                        f"{name} needs a row for each of {len(price)} C; got shape {column.shape}."
                    )
                fields[name] = column[order]
        return cls(Cs=price[order], **fields).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, share: bool = True, legend: bool = True, colors: Any = None
    ) -> Self:
        """Draw the stored arrays.

        Parameters
        ----------
        ax : matplotlib Axes, or as many as there are panels, default=None
            Where to draw; a single one is split. None makes a new figure.
        share : bool, default=True
            Draw coefficients as shares of C; else as they are, which suits linear weights.
        legend : bool, default=True
            Add a legend: above the axes of a new figure, inside axes that were given.
        colors : sequence of 2 matplotlib colors, default=None
            For positive and negative coefficients; None takes Okabe and Ito's.

        Returns
        -------
        display : PathDisplay
            This object.
        """
        pyplot("PathDisplay.plot")
        beside = ax is None
        more = [name for name in ("n_support", "gaps") if getattr(self, name) is not None]
        heights = (2.2, *[1.0] * len(more))
        self.axes_ = panels(ax, len(heights), rows=heights, figsize=(6.4, 3.3 + 1.55 * len(more)))
        self.ax_: Any = self.axes_[0]
        self.figure_ = self.ax_.figure
        pen = Pen(self.ax_, 2, colors, lines=True)
        self._draw_coefficients(pen, share)
        self.support_ = self.gap_ = None
        for name, axes in zip(more, self.axes_[1:], strict=True):
            if name == "n_support":
                self.support_ = self._draw_curve(
                    axes, pen, self.Cs, self.n_support, "support vectors"
                )
                axes.set_ylim(bottom=0)
                axes.yaxis.get_major_locator().set_params(integer=True)
            else:
                self.gap_ = self._draw_gap(axes, pen)
        for axes in self.axes_:
            axes.set_xscale("log")
            axes.grid(color=pen.faint, linewidth=0.4)
            axes.set_axisbelow(True)
        write(self.axes_[-1], xlabel="C")
        self.figure_.align_ylabels(list(self.axes_))
        self.legend_ = self._draw_legend(beside) if legend else None
        return self

    def _draw_coefficients(self, pen: Pen, share: bool) -> None:
        from matplotlib.collections import LineCollection

        values = self.betas / self.Cs[:, None] if share else self.betas
        lean = values.sum(axis=0)
        few = len(lean) <= MANY
        self.lines_ = []
        for own, color, style in zip((lean > 0, lean < 0), pen.colors, pen.styles, strict=True):
            curves = [np.column_stack([self.Cs, column]) for column in values[:, own].T]
            look = {"linewidths": 1.1 if few else 0.7, "alpha": 0.9 if few else 0.6}
            lines = LineCollection(curves, colors=[color], linestyles=[style], **look)
            self.lines_.append(self.ax_.add_collection(lines))
        self.ax_.axhline(0, color=pen.faint, linewidth=0.8, zorder=0)
        self.ax_.margins(x=0.02)
        self.ax_.autoscale_view()
        write(self.ax_, ylabel="β / C" if share else "coefficient")

    def _draw_curve(self, axes: Any, pen: Pen, Cs: Floats, values: Any, words: str) -> Any:
        few = len(Cs) <= 40
        look = {"color": pen.ink, "linewidth": 1.4, "marker": "o" if few else "", "markersize": 3}
        (line,) = axes.plot(Cs, values, **look)
        write(axes, ylabel=words)
        return line

    def _draw_gap(self, axes: Any, pen: Pen) -> Any:
        known = ~np.isnan(np.asarray(self.gaps))
        gaps = np.asarray(self.gaps)[known]
        finite = np.where(np.isfinite(gaps), gaps, np.nan)
        edge = float(np.min(finite[finite > 0], initial=1.0)) / 10
        axes.set_yscale("log")
        shown = np.where(finite == 0, edge, finite)
        line = self._draw_curve(axes, pen, self.Cs[known], shown, "relative gap")
        if (finite == 0).any():
            axes.set_ylim(bottom=edge)
            axes.set_xlabel("C\nan exact gap of 0 is drawn at the lower edge")
        return line

    def _draw_legend(self, beside: bool) -> Any:
        names = ("positive (β > 0)", "negative (β < 0)")
        entries = [
            (lines, f"{name}: {len(lines.get_paths())}")
            for lines, name in zip(self.lines_, names, strict=True)
            if lines.get_paths()
        ]
        loc = "outside upper center" if beside else "upper right"
        return add_legend(self.ax_, entries, loc=loc, ncols=2) if entries else None


def _between(Cs: Floats) -> Floats:
    """These C and more between: β is linear in C, so β / C over log C is not."""
    counts = np.ceil(np.log(Cs[1:] / Cs[:-1]) / np.log(STEP)).astype(int)
    parts = [
        np.geomspace(low, high, max(count, 1), endpoint=False)
        for low, high, count in zip(Cs[:-1], Cs[1:], counts, strict=True)
    ]
    return np.concatenate([*parts, Cs[-1:]])


def _fitted(machine: Any, n: int) -> tuple[Floats, int, float]:
    """The coefficients of all n points, how many support vectors, and the relative gap."""
    from scipy import sparse

    coef, beta = machine.dual_coef_, np.zeros(n)
    beta[machine.support_] = (coef.toarray() if sparse.issparse(coef) else coef)[0]
    proof = getattr(machine, "certificate_", None)
    return beta, len(machine.support_), np.nan if proof is None else proof.relative_gap
