"""What the page shows and edits: points, labels, and the settings of problem, kernel and solver."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import kernels, problems, solvers
from maxmargin.grams import Gram
from maxmargin.kernels import Kernel
from maxmargin.problems import Problem

__all__ = ["ALONE", "Document", "Settings", "Term", "make_problem", "make_solver"]

Floats = NDArray[np.float64]

# They move one variable alone, so no sum can be kept: a constant feature stands in for the bias.
ALONE = ("Pegasos", "DualCoordinate")
_DIGITS = 6  # of a coordinate: few enough for a URL, which then restores it exactly


@dataclass(frozen=True)
class Term:
    """One kernel of a composition and how it joins the one before it."""

    kind: str = "rbf"
    op: str = "+"
    weight: float = 1.0
    sigma: float = 1.0
    gamma: float = 1.0
    coef0: float = 1.0
    degree: int = 3

    def kernel(self) -> Kernel:
        """Return the kernel of this term."""
        made: dict[str, Kernel] = {
            "linear": kernels.Linear(),
            "poly": kernels.Polynomial(self.degree, coef0=self.coef0),
            "rbf": kernels.RBF(sigma=self.sigma),
            "laplacian": kernels.Laplacian(1.0 / self.sigma),
            "matern": kernels.Matern(length_scale=self.sigma),
            "sigmoid": kernels.Sigmoid(self.gamma, coef0=self.coef0),
        }
        kernel = made[self.kind]
        return kernel if self.weight == 1 else self.weight * kernel


@dataclass(frozen=True)
class Settings:
    """Everything that is chosen in the panels; the defaults are sklearn.svm's where it has them."""

    problem: str = "soft"
    scaling: str = "sum"
    C: float = 1.0
    nu: float = 0.5
    K_s: float = 1.0
    epsilon: float = 0.1
    kernel: tuple[Term, ...] = (Term(),)
    solver: str = "SMO"
    rival: str | None = None
    tol: float = 1e-3

    def changed(self, values: dict[str, Any]) -> Settings:
        """Return these settings with some replaced, as they come from a message."""
        if "kernel" in values:
            values = {**values, "kernel": tuple(Term(**term) for term in values["kernel"])}
        return replace(self, **values)

    def composed(self) -> Kernel:
        """Return the kernel: × binds more tightly than +.

        >>> Settings(kernel=(Term("linear"), Term(), Term("poly", op="*"))).composed()
        Linear() + RBF(sigma=1.0) * Polynomial(coef0=1.0)
        """
        products: list[Kernel] = []
        for term in self.kernel:
            if term.op == "*" and products:
                products[-1] = products[-1] * term.kernel()
            else:
                products.append(term.kernel())
        return functools.reduce(lambda a, b: a + b, products)


def exact(values: Any) -> Floats:
    """Round to the digits that a URL keeps."""
    array = np.asarray(values, dtype=np.float64).reshape(-1, 2)
    texts = (float(f"{v:.{_DIGITS}g}") for v in array.ravel().tolist())
    return np.array(list(texts), dtype=np.float64).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class Document:
    """What undo and redo go through, a URL restores and a trace begins with.

    Parameters
    ----------
    points : ndarray of shape (n, 2)
        For regression the second column is the target.
    labels : ndarray of shape (n,), each -1 or +1
    preset : str or None
        Where the points come from, as long as they are unchanged.
    settings : Settings
    """

    points: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    labels: Floats = field(default_factory=lambda: np.zeros(0))
    preset: str | None = None
    settings: Settings = field(default_factory=Settings)

    @property
    def X(self) -> Floats:
        """The rows that the kernel sees."""
        return self.points[:, :1] if self.settings.problem == "svr" else self.points

    def as_json(self) -> dict[str, Any]:
        """Return what a message may carry; the points of a preset go by its name."""
        kept = {**asdict(self.settings), "kernel": [asdict(t) for t in self.settings.kernel]}
        if self.preset is not None:
            return {"preset": self.preset, "settings": kept}
        return {"preset": None, "points": self.rows(), "settings": kept}

    def rows(self) -> list[list[float]]:
        """Return x, y, label of each point."""
        columns = (*self.points.T.tolist(), self.labels.astype(int).tolist())
        return [list(row) for row in zip(*columns, strict=True)]


def make_problem(document: Document, solver: str, gram: Gram) -> Problem:
    """Pose the chosen problem; a ValueError says why it cannot be posed."""
    s, y, bias = document.settings, document.labels, solver not in ALONE
    if s.problem == "hard":
        return problems.hard_margin(gram, y, bias=bias)
    if s.problem == "soft":
        return problems.soft_margin(gram, y, C=s.C, scaling=s.scaling, bias=bias)
    if s.problem == "nu":
        return problems.nu_svc(gram, y, K_m=s.nu * len(y) * s.K_s, K_s=s.K_s)
    if s.problem == "squared":
        return problems.squared_hinge(gram, y, C=s.C, bias=bias)
    if s.problem == "svr":
        return problems.svr(gram, document.points[:, 1], C=s.C, epsilon=s.epsilon, bias=bias)
    return problems.one_class(gram, nu=s.nu)


def effective_kernel(settings: Settings, solver: str) -> Kernel:
    """Return the kernel that is used: with a constant feature where there is no bias."""
    kernel = settings.composed()
    free = solver in ALONE and settings.problem in ("soft", "squared", "svr", "hard")
    return kernel + kernels.Polynomial(0) if free else kernel


def make_solver(name: str, *, watched: bool) -> Any:
    """Make a solver; a watched one tells every update."""
    return getattr(solvers, name)(record_steps=watched)
