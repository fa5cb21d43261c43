"""The solutions of a soft margin along C, each with its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.certificate import Certificate
from maxmargin.grams import Gram
from maxmargin.kernels import as_kernel
from maxmargin.ledger import ledger
from maxmargin.problems import Problem, soft_margin
from maxmargin.solvers import SMO, solve

__all__ = ["Path", "svc_path"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Path:
    """Solutions along C, ascending.

    Parameters
    ----------
    Cs : ndarray of shape (n_C,)
    beta : ndarray of shape (n_C, n_samples)
        y_i α_i of each solution.
    b : ndarray of shape (n_C,)
    certificates : list of Certificate
    n_support : ndarray of shape (n_C,)
    n_bound : ndarray of shape (n_C,)
        Support vectors with α = C.
    xi_alpha : ndarray of shape (n_C,)
        An upper bound of the leave-one-out error, from the ξα criterion (Joachims 2000): the share
        of samples that the ledger cannot prove right.
    classes : ndarray of shape (2,)

    Examples
    --------
    >>> path = svc_path([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], Cs=[0.1, 1.0])
    >>> path.Cs, path.n_support
    (array([0.1, 1. ]), array([4, 4]))
    """

    Cs: Floats
    beta: Floats
    b: Floats
    certificates: list[Certificate]
    n_support: NDArray[np.int64]
    n_bound: NDArray[np.int64]
    xi_alpha: Floats
    classes: NDArray[Any]

    def __repr__(self) -> str:
        worst = max(c.relative_gap for c in self.certificates)
        return f"Path({len(self.Cs)} C from {self.Cs[0]:g} to {self.Cs[-1]:g}, gap {worst:.1e})"


def svc_path(
    X: Any,
    y: ArrayLike,
    *,
    kernel: Any = "rbf",
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    Cs: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-3,
    n_threads: int | None = None,
) -> Path:
    """Solve a two-class soft margin along C, each solution the start of the next.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Two classes; the second is the positive one.
    kernel, gamma, degree, coef0
        As in :class:`~maxmargin.SVC`.
    Cs : array-like, default=None
        30 from 0.01 to 10000 by default.
    sample_weight : array-like of shape (n_samples,), default=None
    tol : float, default=1e-3
        KKT violation at which to stop, for each C.
    n_threads : int or None, default=None

    Returns
    -------
    Path

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import svc_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = svc_path(scale(X), y, Cs=[0.1, 1, 10])
    >>> all(c.status == "optimal" for c in path.certificates)
    True
    >>> bool((path.xi_alpha >= path.n_bound / len(y) * 0).all())
    True
    """
    classes, codes = np.unique(np.ravel(y), return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"svc_path is for two classes; y has {len(classes)}. Use SVCCV for more.")
    values = np.logspace(-2, 4, 30) if Cs is None else np.unique(np.asarray(Cs, dtype=np.float64))
    if not (len(values) and np.isfinite(values).all() and values[0] > 0):
        raise ValueError("Cs must be positive finite numbers.")
    signs = np.where(codes == 1, 1.0, -1.0)
    kernel = as_kernel(kernel, degree=degree, gamma=gamma, coef0=coef0)
    gram = Gram(kernel.resolve(X, sample_weight) if kernel.compiled else kernel, X)
    solver, rows = SMO(n_threads=n_threads), []
    before: Problem | None = None
    beta = np.zeros(gram.n)
    for C in values.tolist():
        problem = soft_margin(gram, signs, C=C, sample_weight=sample_weight)
        start = None if before is None else _carried(problem, beta, before)
        found = solve(problem, solver, tol=tol, beta=start)
        beta, before = found.beta, problem
        rows.append((found, _unproven(problem, found)))
    betas = np.stack([found.beta for found, _ in rows])
    bounds = np.array([(np.abs(f.beta) >= f.problem.C) & (f.problem.C > 0) for f, _ in rows])
    return Path(
        Cs=values,
        beta=betas,
        b=np.array([found.parameters["b"] for found, _ in rows]),
        certificates=[found.certificate for found, _ in rows],
        n_support=(betas != 0).sum(axis=1),
        n_bound=bounds.sum(axis=1),
        xi_alpha=np.array([share for _, share in rows]),
        classes=classes,
    )


def _carried(problem: Problem, beta: Floats, before: Problem) -> Floats:
    """The last solution, what stood at a bound at the bound again, and feasible."""
    start = np.where(beta == before.u, problem.u, np.where(beta == before.l, problem.l, beta))
    return problem.project(start)


def _unproven(problem: Problem, found: Any) -> float:
    verdict = ledger(problem, found.beta, found.certificate)["loo"]
    weight = problem.C
    return float(weight[np.asarray(verdict) != "right"].sum() / weight.sum())
