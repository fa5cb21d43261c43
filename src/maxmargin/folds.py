"""Solve a problem again without some of its samples, over one Gram, from one solution.

A fold is the same problem with some bounds closed. Its solution differs from that of all samples in
few places, and mostly has the same variables at the same bounds: the square of K over the samples
near the margin serves all folds, and starts each near its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.grams import as_rows, expand
from maxmargin.problems import Problem
from maxmargin.screening import products
from maxmargin.solvers import SMO, Solution, solve
from maxmargin.solvers.rows import SECONDS
from maxmargin.solvers.solve import uninterrupted
from maxmargin.threads import thread_count

__all__ = ["out_of_fold", "stratified"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SMALL = 2048  # rows: the whole square costs less than choosing among them
_NEAR = 0.1  # of the margin: samples within this distance may come to another bound
_ROUNDS = 8
_TINY, _CLOSER = 256, 1e-7  # where the same digits, whatever the path was, cost little
_MOST, _PATIENCE = 20_000, 200  # steps, and steps per variable, before a fold is given up
_CLEAR = 10.0  # times tol: what is divided by a smaller margin is known to no digit


def stratified(labels: NDArray[np.generic], most: int = 5) -> Ints:
    """Deal the samples of each label out to folds, in turn.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
    most : int, default=5
        Folds; fewer if a label has fewer samples, and two at least.

    Returns
    -------
    ndarray of shape (n_samples,)
        The fold of each sample.

    Examples
    --------
    >>> stratified(np.array([1, 1, 1, 1, -1, -1, -1]))
    array([0, 1, 2, 0, 0, 1, 2])
    """
    order = np.argsort(labels, kind="stable")
    ordered, n = labels[order], len(labels)
    ends = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, [n]])
    counts = ends[1:] - ends[:-1]
    folds = max(2, min(most, int(counts.min())))
    rank = np.arange(n) - np.repeat(ends[:-1], counts)
    fold = np.empty(n, dtype=np.int64)
    fold[order] = rank % folds
    return fold


def out_of_fold(
    solution: Solution,
    fold: Ints,
    *,
    tol: float,
    solver: SMO | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Floats | None:
    """Compute the decision value of every sample by a machine that has not seen its fold.

    Parameters
    ----------
    solution : Solution
        Of all samples, one block.
    fold : ndarray of shape (n_samples,)
    tol : float
        KKT violation at which to stop.
    solver : SMO, optional
        Its threads and its cache, in which the square of K must fit; else every fold is solved
        by itself, from the same start.
    stop : callable
        Asked every tenth of a second whether to give up.

    Returns
    -------
    ndarray of shape (n_samples,) or None
        None if ``stop`` said so.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [3.0], [4.0]])
    >>> all_of_them = solve(problems.soft_margin(gram, [-1, -1, 1, 1], C=10.0))
    >>> out_of_fold(all_of_them, np.array([0, 1, 0, 1]), tol=1e-6).round(3)
    array([-1.667, -0.333,  0.333,  1.667])
    """
    solver = SMO() if solver is None else solver
    if stop():
        return None
    problem = solution.problem
    work = _Folds(solution, fold, tol, solver)
    if not work.fits():
        return _one_by_one(solution, fold, tol, solver, stop)
    for _ in range(_ROUNDS):
        if not work.run(stop):
            return None
        if not work.grow():
            break
    found = [_offset(problem, lam, beta) for lam, beta in zip(work.lam, work.beta, strict=True)]
    offset, unit = (np.array(part)[fold] for part in zip(*found, strict=True))
    scores: Floats = (work.kbeta[fold, np.arange(problem.gram.n)] + offset) / unit
    for f in range(work.count):
        if work.clear(f):
            continue
        rows = np.flatnonzero(fold == f)  # too hard for pair steps: the solver sees the gap too
        better = solve(
            problem.without(rows),
            solver,
            tol=tol,
            beta=work.beta[f],
            callback=lambda _: stop() or None,
        )
        if stop():
            return None
        scores[rows] = _decision(uninterrupted(better), rows)
    return scores


def _offset(problem: Problem, lam: Floats, beta: Floats) -> tuple[float, float]:
    """What is added to Kβ for a decision value, and then divides it: the margin of a ν-SVC."""
    found = problem.parameters(lam, beta)
    eta = found.get("eta", 1.0)
    return found.get("b", -found.get("rho", 0.0)), eta if eta > 0 else 1.0


def _decision(solution: Solution, rows: Ints) -> Floats:
    """Decision values of some rows."""
    offset, unit = _offset(solution.problem, solution.certificate.lam, solution.beta)
    return (_sums(solution, rows) + offset) / unit


def _sums(solution: Solution, rows: Ints) -> Floats:
    problem = solution.problem
    coef = problem.by_row(solution.beta)
    support = np.flatnonzero(coef)
    return problem.gram.product(rows, support, coef[support])


def _one_by_one(
    solution: Solution, fold: Ints, tol: float, solver: SMO, stop: Callable[[], bool]
) -> Floats | None:
    scores = np.empty(solution.problem.gram.n)
    for f in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold == f)
        member = solution.problem.without(rows)
        start = member.rescaled(np.clip(solution.beta, member.l, member.u))
        found = solve(member, solver, tol=tol, beta=start, callback=lambda _: stop() or None)
        if stop():
            return None
        scores[rows] = _decision(uninterrupted(found), rows)
    return scores


def _bounds(problem: Problem, fold: Ints) -> tuple[Floats, Floats, Floats]:
    """Lower and upper bounds and sums of all folds: what `Problem.without` changes, a row each."""
    folds = np.arange(int(fold.max()) + 1)
    if problem.m.any():  # shares of the whole weight
        members = [problem.without(np.flatnonzero(fold == f)) for f in folds]
        lower, upper, m = (
            np.stack([getattr(q, name) for q in members]) for name in ("l", "u", "m")
        )
        return lower, upper, m
    gone = fold[problem.row] == folds[:, None]
    m = np.zeros((len(folds), problem.n_groups))
    return np.where(gone, 0.0, problem.l), np.where(gone, 0.0, problem.u), m


@dataclass
class _Place:
    """Some rows of a problem, and the variables on them."""

    rows: Ints
    variables: Ints

    @classmethod
    def of(cls, problem: Problem, rows: Ints) -> _Place:
        inside = np.zeros(problem.gram.n, dtype=bool)
        inside[rows] = True
        return cls(rows, np.flatnonzero(inside[problem.row]))


class _Folds:
    """The folds on a part of the rows; elsewhere β stays at its bound, which `grow` checks."""

    def __init__(self, solution: Solution, fold: Ints, tol: float, solver: SMO) -> None:
        self.problem = solution.problem
        self.lower, self.upper, self.m = _bounds(self.problem, fold)
        self.count = len(self.m)
        self.tol, self.solver = tol, solver
        self.threads = thread_count(solver.n_threads)
        self.start = solution.beta
        kbeta, _ = products(self.problem, solution.beta, tol=tol)  # known to the certificate
        self.beta = np.repeat(solution.beta[None], self.count, axis=0)
        self.kbeta = np.repeat(kbeta[None], self.count, axis=0)
        self.followed = self.beta.copy()  # up to where Kβ outside the place is right
        self.lam = np.zeros_like(self.m)
        self.violations = np.full(self.count, np.inf)
        self.going = np.arange(self.count)
        n = self.problem.gram.n
        if n <= _SMALL or self.problem.gram.matrix is not None:
            self.place = _Place(np.arange(n), np.arange(self.problem.n_variables))
        else:
            self.place = self._near(solution)
            self._leave()

    def _near(self, solution: Solution) -> _Place:
        """The samples that may come to another bound, or leave theirs.

        Together with all support vectors if those alone could not keep the sums of the groups.
        """
        p, beta = self.problem, solution.beta
        gradient = p.s - p.by_variable(self.kbeta[0]) - p.D * beta
        gradient -= p.spread(solution.certificate.lam)
        rising = (beta < p.u) & (gradient > -_NEAR)
        falling = (beta > p.l) & (gradient < _NEAR)
        place = _Place.of(p, np.unique(p.row[rising | falling]))
        if all(self._balanced(f, place) for f in range(self.count)):
            return place
        return _Place.of(p, np.unique(p.row[rising | falling | (beta != 0)]))

    def _balanced(self, f: int, place: _Place) -> bool:
        """Whether the variables there can make up for those that a fold takes away elsewhere."""
        group, here = self.problem.group, place.variables
        m = self._missing(f, self._at_bounds(f), here)
        ends = self.lower[f], self.upper[f]
        low, high = (_by_group(group[here], end[here], len(m)) for end in ends)
        return len(here) > 0 and bool(((low <= m) & (m <= high) & (low < high)).all())

    def _at_bounds(self, f: int) -> Floats:
        """The start, each variable that is at a bound at the same one of the fold's."""
        p, start, lower, upper = self.problem, self.start, self.lower[f], self.upper[f]
        inside = np.clip(start, lower, upper)
        return np.where(start == p.u, upper, np.where(start == p.l, lower, inside))

    def _missing(self, f: int, beta: Floats, here: Ints) -> Floats:
        """What the variables of a place must sum to in each group."""
        m: Floats = self.m[f]
        if len(here) == len(beta):
            return m
        elsewhere = beta.copy()
        elsewhere[here] = 0.0
        return np.asarray(m - _by_group(self.problem.group, elsewhere, len(m)))

    def _leave(self) -> None:
        """Let β elsewhere be what it is in each fold, and tell the place."""
        for f in self.going.tolist():
            self.beta[f] = self._at_bounds(f)
        self.beta[:, self.place.variables] = self.start[self.place.variables]
        self._follow(self.place.rows)

    def _follow(self, rows: Ints) -> None:
        """Let Kβ on these rows be that of the folds that have moved."""
        p, moves = self.problem, self.beta[self.going] - self.followed[self.going]
        moved = np.stack([p.by_row(by) for by in moves], axis=1)
        support = np.flatnonzero(moved.any(axis=1))
        kind = _core.SingleBasis if p.gram.single_products else _core.Basis
        basis = kind(p.gram.core_rows, support, p.gram.program)
        values = expand(
            basis, as_rows(p.gram.X[rows]), moved[support], n_threads=self.threads, single=True
        )
        self.kbeta[np.ix_(self.going, rows)] += values.T

    def fits(self) -> bool:
        """Whether the square is small, or within the cache."""
        if self.problem.block is not None:
            return False
        size, limit = len(self.place.rows), self.solver.cache_size
        return size <= _SMALL or 8 * size**2 <= (2000.0 if limit is None else limit) * 2**20

    def run(self, stop: Callable[[], bool]) -> bool:
        """Solve the folds that are not done on the rows chosen; False if told to stop."""
        p, (rows, variables) = self.problem, (self.place.rows, self.place.variables)
        at = np.zeros(p.gram.n, dtype=np.int64)
        at[rows] = np.arange(len(rows))
        whole, count = len(rows) == p.gram.n, len(self.going)
        row_cells = (self.going,) if whole else np.ix_(self.going, rows)
        cells = (self.going,) if whole else np.ix_(self.going, variables)
        closer = _CLOSER if len(rows) <= _TINY else 0.9

        def alike(values: NDArray[Any]) -> NDArray[Any]:
            return np.broadcast_to(values[variables], (count, len(variables))).ravel()

        none = np.zeros(count, dtype=np.int64)
        chains = _core.Chains(
            len(variables) * np.arange(count + 1), alike(p.s), self.lower[cells].ravel(),
            self.upper[cells].ravel(), alike(p.D), alike(at[p.row]), alike(p.group),
            np.array([self._missing(f, self.beta[f], variables) for f in self.going.tolist()]),
            none, np.array([0, len(rows)]), np.arange(len(rows)), none,
        )  # fmt: skip
        family = _core.Family(
            as_rows(p.gram.square(rows)), chains, p.gram.diag[rows], np.ones((1, 3)),
            self.beta[cells].ravel(), self.kbeta[row_cells], none[:0],
            tol=closer * self.tol, steps=_MOST + _PATIENCE * len(variables),
        )  # fmt: skip
        while not family.run(SECONDS, self.threads):
            if stop():
                return False
        self.beta[cells] = family.beta.reshape(count, -1)
        self.kbeta[row_cells] = family.held.reshape(count, -1)
        self.lam[self.going] = family.multipliers
        self.violations[self.going] = family.violations[:, 0]
        return True

    def solved(self, f: int) -> bool:
        return bool(self.violations[f] <= self.tol)

    def clear(self, f: int) -> bool:
        """Whether it is solved, and a ν-machine so that dividing by its margin leaves digits."""
        if self.problem.name != "nu_svc":
            return self.solved(f)
        eta = self.problem.parameters(self.lam[f], self.beta[f])["eta"]
        return self.solved(f) and eta > _CLEAR * self.tol

    def grow(self) -> bool:
        """Compute Kβ elsewhere; take in the samples that should have been there, if any."""
        p, n = self.problem, self.problem.gram.n
        if len(self.place.rows) == n:
            return False
        inside = np.zeros(n, dtype=bool)
        inside[self.place.rows] = True
        self._follow(np.flatnonzero(~inside))
        self.followed[self.going] = self.beta[self.going]
        new = np.zeros(n, dtype=bool)
        outside = np.flatnonzero(~inside[p.row])
        wrong = {f: self._wrong(f, outside) for f in self.going.tolist()}
        self.going = np.array([f for f, some in wrong.items() if len(some)], dtype=np.int64)
        if not len(self.going):
            return False
        for variables in wrong.values():
            new[p.row[variables]] = True
        self.place = _Place.of(p, np.flatnonzero(inside | new))
        return True

    def _wrong(self, f: int, variables: Ints) -> Ints:
        """Those of the variables that are at the wrong bound."""
        p, beta = self.problem, self.beta[f]
        wish = p.s - self.kbeta[f, p.row] - p.D * beta - p.spread(self.lam[f])
        rising, falling = beta < self.upper[f], beta > self.lower[f]
        wrong: Ints = np.flatnonzero(rising & (wish > self.tol) | falling & (wish < -self.tol))
        return np.intersect1d(variables, wrong, assume_unique=True)


def _by_group(group: Ints, values: Floats, count: int) -> Floats:
    """Sum values by group; those of no group are left out."""
    inside = group >= 0
    sums = np.bincount(group[inside], weights=values[inside], minlength=count)
    return np.asarray(sums, dtype=np.float64)
