"""The solutions of a soft margin along C, each with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.breakpoints import DegenerateError, Place, follow
from maxmargin.certificate import Certificate, certify
from maxmargin.grams import Gram
from maxmargin.kernels import Precomputed, as_kernel
from maxmargin.ledger import ledger
from maxmargin.problems import Problem, soft_margin
from maxmargin.solvers import SMO, solve
from maxmargin.solvers.solve import uninterrupted

__all__ = ["Path", "svc_path"]

Floats = NDArray[np.float64]
_Row = tuple[Floats, float, Certificate, int, float]  # β, b, proof, at the bound, unproven

_SMALL = 200  # samples: the exact path without being asked for
_POSITIVE = 1e-10  # least eigenvalue, of the largest
_COINCIDE = 1e-13  # of the norms: squared distance of samples that count as equal
_EXACT = 1e-9  # relative gap, and KKT violation, where the exact path starts and at breakpoints


@dataclass(frozen=True, repr=False)
class Path:
    """Solutions along C, ascending.

    Parameters
    ----------
    Cs : ndarray of shape (n_C,)
        The breakpoints and both ends where the path is exact.
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
    exact : bool
        Whether β and b are linear between these C: :meth:`at` then answers for every C.

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
    exact: bool = False

    def __repr__(self) -> str:
        worst = max(c.relative_gap for c in self.certificates)
        kind = "breakpoints" if self.exact else "C"
        ends = f"from {self.Cs[0]:g} to {self.Cs[-1]:g}"
        return f"Path({len(self.Cs)} {kind} {ends}, gap {worst:.1e})"

    def at(self, C: float) -> tuple[Floats, float]:
        """Return β and b at this C.

        Parameters
        ----------
        C : float
            Within the path; where it is not exact, one of its C.

        Examples
        --------
        >>> from maxmargin import svc_path
        >>> path = svc_path([[0.0], [1.0]], [0, 1], gamma=1.0)
        >>> path.at(0.125)[0]
        array([-0.125,  0.125])
        """
        if not self.Cs[0] <= C <= self.Cs[-1]:
            raise ValueError(f"C={C:g} is not on {self!r}.")
        k = int(np.searchsorted(self.Cs, C))
        if self.Cs[k] == C:
            return self.beta[k].copy(), float(self.b[k])
        if not self.exact:
            raise ValueError(f"C={C:g} is none of the C of {self!r}; exact=True has them all.")
        share = (C - self.Cs[k - 1]) / (self.Cs[k] - self.Cs[k - 1])
        beta = (1 - share) * self.beta[k - 1] + share * self.beta[k]
        return beta, float((1 - share) * self.b[k - 1] + share * self.b[k])


def svc_path(
    X: Any,
    y: ArrayLike,
    kernel: Any = "rbf",
    *,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    Cs: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-3,
    n_threads: int | None = None,
    exact: bool | None = None,
) -> Path:
    """Solve a two-class soft margin along C, each solution the start of the next.

    Along C the solution is piecewise linear. With ``exact=True`` the path has every breakpoint
    (Hastie, Rosset, Tibshirani & Zhu 2004), each with its certificate, and ``path.at(C)`` is the
    solution at any C between.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Two classes; the second is the positive one.
    kernel, gamma, degree, coef0
        As in :class:`~maxmargin.SVC`.
    Cs : array-like, default=None
        30 from 0.01 to 10000 by default. Of an exact path they are the ends.
    sample_weight : array-like of shape (n_samples,), default=None
    tol : float, default=1e-3
        KKT violation at which to stop, for each C.
    n_threads : int or None, default=None
    exact : bool or None, default=None
        Follow the path from breakpoint to breakpoint; for a positive definite Gram matrix of the
        distinct samples (equal ones of one class count as one with their weights added). None:
        where that is so, there are at most 200 samples and no ``Cs`` are given.

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
    >>> bool((path.n_bound <= path.n_support).all())
    True
    """
    classes, codes = np.unique(np.ravel(y), return_inverse=True)
    if len(classes) != 2:
        more = " Use SVCCV for more." if len(classes) > 2 else ""
        raise ValueError(f"svc_path is for two classes; y has {len(classes)}.{more}")
    values = np.logspace(-2, 4, 30) if Cs is None else np.unique(np.asarray(Cs, dtype=np.float64))
    if not (len(values) and np.isfinite(values).all() and values[0] > 0):
        raise ValueError("Cs must be positive finite numbers.")
    signs = np.where(codes == 1, 1.0, -1.0)
    kernel = as_kernel(kernel, degree=degree, gamma=gamma, coef0=coef0)
    gram = Gram(kernel.resolve(X, sample_weight) if kernel.compiled else kernel, X)
    if exact or (exact is None and Cs is None and gram.n <= _SMALL):
        places = _breakpoints(gram, signs, sample_weight, values, must=exact is True)
        if places is not None:
            return _told(gram, signs, sample_weight, places, classes)
    solver, rows = SMO(n_threads=n_threads), list[_Row]()
    before: Problem | None = None
    beta = np.zeros(gram.n)
    for C in values.tolist():
        problem = soft_margin(gram, signs, C=C, sample_weight=sample_weight)
        start = None if before is None else _carried(problem, beta, before)
        found = uninterrupted(solve(problem, solver, tol=tol, beta=start))
        beta, before = found.beta, problem
        rows.append(_row(problem, beta, found.b, found.certificate))
    return _path(values, rows, classes)


def _carried(problem: Problem, beta: Floats, before: Problem) -> Floats:
    """The last solution, what stood at a bound at the bound again, and feasible."""
    start = np.where(beta == before.u, problem.u, np.where(beta == before.l, problem.l, beta))
    return problem.project(start)


def _row(problem: Problem, beta: Floats, b: float, proof: Certificate, near: float = 0.0) -> _Row:
    """What the path says of a solution; α relatively so near its bound counts as at it."""
    bound = (np.abs(beta) >= (1 - near) * problem.C) & (problem.C > 0)
    verdict = np.asarray(ledger(problem, beta, proof)["loo"])
    unproven = float(problem.C[verdict != "right"].sum() / problem.C.sum())
    return beta, b, proof, int(bound.sum()), unproven


def _path(Cs: Floats, rows: list[_Row], classes: NDArray[Any], *, exact: bool = False) -> Path:
    beta, b, certificates, n_bound, xi_alpha = zip(*rows, strict=True)
    betas = np.stack(beta)
    return Path(
        Cs=Cs,
        beta=betas,
        b=np.array(b),
        certificates=list(certificates),
        n_support=(betas != 0).sum(axis=1),
        n_bound=np.array(n_bound),
        xi_alpha=np.array(xi_alpha),
        classes=classes,
        exact=exact,
    )


def _breakpoints(
    gram: Gram, y: Floats, sample_weight: ArrayLike | None, Cs: Floats, *, must: bool
) -> list[Place] | None:
    """The exact path over all samples; None (or an error) where it cannot be followed."""
    problem = soft_margin(gram, y, C=1.0, sample_weight=sample_weight)
    K, w = np.asarray(gram.stored().matrix, dtype=np.float64), problem.C
    points, _ = _distinct(K, np.ones(gram.n), w)  # of two that coincide one is on the margin
    values = np.linalg.eigvalsh(K[np.ix_(points, points)])
    first, of = _distinct(K, y, w)
    small, sizes = K[np.ix_(first, first)], _sums(of, w)
    refusal = ""
    if not values[0] > _POSITIVE * values[-1]:
        refusal = (
            "the Gram matrix of the distinct samples is not positive definite (eigenvalues from "
            f"{values[0]:.1e} to {values[-1]:.1e})"
        )
    else:
        try:
            places = list(_followed(small, y[first], sizes, Cs))
        except (DegenerateError, np.linalg.LinAlgError) as error:
            refusal = str(error)
    if refusal:
        if must:
            raise ValueError(f"exact=True: {refusal}. Use exact=False, a grid of C.")
        return None
    share = np.where(of >= 0, w / sizes[of], 0.0)
    return [Place(p.C, np.where(of >= 0, p.beta[of] * share, 0.0), p.b) for p in places]


def _followed(K: Floats, y: Floats, w: Floats, Cs: Floats) -> list[Place]:
    """The path from a solution at the least C, proven at every breakpoint."""
    gram = Precomputed().gram(K)
    places: list[Place] = []
    start, end = float(Cs[0]), float(Cs[-1])
    first = soft_margin(gram, y, C=start, sample_weight=w)
    beta = uninterrupted(solve(first, tol=1e-3 * _EXACT)).beta
    for place in follow(K, y, w, beta, start, end):
        proof = certify(soft_margin(gram, y, C=place.C, sample_weight=w), place.beta)
        proven = proof.relative_gap <= _EXACT or proof.kkt_violation <= _EXACT  # C times rounding
        if not proven or proof.distance > _EXACT * place.C:
            raise DegenerateError(
                f"at C={place.C:g} rounding leaves a relative gap of {proof.relative_gap:.1e} and "
                f"a sum of beta {proof.distance / place.C:.1e} C off 0; ask for a narrower range"
            )
        places.append(place)
    return places


def _distinct(K: Floats, y: Floats, w: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of equal samples of one class, and of each sample which it is; -1: no weight."""
    size = np.diag(K)
    apart = size[:, None] + size - 2 * K
    near = np.abs(apart) <= _COINCIDE * (size[:, None] + size)  # below 0 where K is indefinite
    same = near & (y[:, None] == y) & (w > 0)
    leader = np.full(len(y), -1)
    for k in range(len(y)):  # one that is equal to a follower need not be equal to its leader
        if leader[k] < 0 and w[k] > 0:
            leader[same[k] & (leader < 0)] = k
    first = np.flatnonzero((leader == np.arange(len(y))) & (w > 0))
    return first, np.where(w > 0, np.searchsorted(first, leader), -1)


def _sums(of: NDArray[np.int64], w: Floats) -> Floats:
    return np.bincount(of[of >= 0], weights=w[of >= 0]).astype(np.float64)


def _told(
    gram: Gram,
    y: Floats,
    sample_weight: ArrayLike | None,
    places: Sequence[Place],
    classes: NDArray[Any],
) -> Path:
    """The path with all that is said about each of its solutions."""
    stored, rows = gram.stored(), list[_Row]()
    for place in places:
        problem = soft_margin(stored, y, C=place.C, sample_weight=sample_weight)
        beta = problem.project(place.beta)
        proof = certify(problem, beta, tol=1e-6)
        rows.append(_row(problem, beta, place.b, proof, near=1e-12))
    return _path(np.array([place.C for place in places]), rows, classes, exact=True)
