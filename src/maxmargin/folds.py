"""Solve a problem again without some of its samples, over one Gram, from one solution.

A fold is the same problem with some bounds closed. Its solution differs from that of all samples in
few places, and mostly has the same variables at the same bounds: the square of K over the samples
near the margin serves all folds, and starts each near its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.grams import as_rows, expand
from maxmargin.problems import Problem
from maxmargin.screening import products
from maxmargin.solvers import SMO, Solution, solve
from maxmargin.threads import thread_count

__all__ = ["out_of_fold", "stratified"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SECONDS = 0.1  # between two looks at `stop`
_SMALL = 2048  # rows: the whole square costs less than choosing among them
_NEAR = 0.1  # of the margin: samples within this distance may come to another bound
_ROUNDS = 8
_TINY, _CLOSER = 256, 1e-7  # where the same digits, whatever the path was, cost little
_MOST, _PATIENCE = 20_000, 200  # steps, and steps per variable, before a fold is given up
_CLEAR = 10.0  # times tol: what is divided by a smaller margin is known to no digit
_WORKING_SETS = 256, 512  # slots of a round: up to 4096 rows, and beyond


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
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    folds = max(2, min(most, int(counts.min())))
    order = np.argsort(codes, kind="stable")
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    fold = np.empty(len(codes), dtype=np.int64)
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
    held = [np.flatnonzero(fold == f) for f in range(int(fold.max()) + 1)]
    members = [problem.without(rows) for rows in held]
    work = _Folds(solution, members, tol, solver)
    if not work.fits():
        return _one_by_one(solution, members, held, tol, solver, stop)
    for _ in range(_ROUNDS):
        if not work.run(stop):
            return None
        if not work.grow():
            break
    scores = np.empty(problem.gram.n)
    for f, (member, rows) in enumerate(zip(members, held, strict=True)):
        if work.clear(f):
            sums, beta, lam = work.kbeta[f, rows], work.beta[f], work.lam[f]
        else:  # too hard for pair steps alone: the solver looks at the gap as well
            better = solve(
                member, solver, tol=tol, beta=work.beta[f], callback=lambda _: stop() or None
            )
            if stop():
                return None
            sums, beta, lam = _sums(better, rows), better.beta, better.certificate.lam
        scores[rows] = _decision(member, sums, beta, lam)
    return scores


def _decision(problem: Problem, sums: Floats, beta: Floats, lam: Floats) -> Floats:
    """Decision values from Kβ: a ν-classifier is divided by its margin."""
    found = problem.parameters(lam, beta)
    eta = found.get("eta", 1.0)
    return (sums + found.get("b", -found.get("rho", 0.0))) / (eta if eta > 0 else 1.0)


def _sums(solution: Solution, rows: Ints) -> Floats:
    problem = solution.problem
    coef = problem.by_row(solution.beta)
    support = np.flatnonzero(coef)
    return problem.gram.product(rows, support, coef[support])


def _one_by_one(
    solution: Solution,
    members: Sequence[Problem],
    held: Sequence[Ints],
    tol: float,
    solver: SMO,
    stop: Callable[[], bool],
) -> Floats | None:
    scores = np.empty(solution.problem.gram.n)
    for member, rows in zip(members, held, strict=True):
        start = member.rescaled(np.clip(solution.beta, member.l, member.u))
        found = solve(member, solver, tol=tol, beta=start, callback=lambda _: stop() or None)
        if stop():
            return None
        scores[rows] = _decision(member, _sums(found, rows), found.beta, found.certificate.lam)
    return scores


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

    def __init__(
        self, solution: Solution, members: Sequence[Problem], tol: float, solver: SMO
    ) -> None:
        self.problem, self.members = solution.problem, members
        self.tol, self.solver = tol, solver
        self.threads = thread_count(solver.n_threads)
        self.start = solution.beta
        kbeta, _ = products(self.problem, solution.beta, tol=tol)  # known to the certificate
        self.beta = np.tile(solution.beta, (len(members), 1))
        self.kbeta = np.tile(kbeta, (len(members), 1))
        self.followed = self.beta.copy()  # up to where Kβ outside the place is right
        self.lam = np.zeros((len(members), self.problem.n_groups))
        self.violations = np.full(len(members), np.inf)
        self.going = np.arange(len(members))
        n = self.problem.gram.n
        if n <= _SMALL or self.problem.gram.matrix is not None:
            self.place = _Place.of(self.problem, np.arange(n))
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
        if all(self._balanced(f, place) for f in range(len(self.members))):
            return place
        return _Place.of(p, np.unique(p.row[rising | falling | (beta != 0)]))

    def _balanced(self, f: int, place: _Place) -> bool:
        """Whether the variables there can make up for those that a fold takes away elsewhere."""
        q, here = self.members[f], place.variables
        m = self._missing(f, self._at_bounds(f), here)
        low, high = (_by_group(q.group[here], end[here], len(m)) for end in (q.l, q.u))
        return len(here) > 0 and bool(((low <= m) & (m <= high) & (low < high)).all())

    def _at_bounds(self, f: int) -> Floats:
        """The start, each variable that is at a bound at the same one of the fold's."""
        p, q = self.problem, self.members[f]
        return np.where(
            self.start == p.u, q.u, np.where(self.start == p.l, q.l, np.clip(self.start, q.l, q.u))
        )

    def _missing(self, f: int, beta: Floats, here: Ints) -> Floats:
        """What the variables of a place must sum to in each group."""
        q = self.members[f]
        elsewhere = beta.copy()
        elsewhere[here] = 0.0
        return np.asarray(q.m - _by_group(q.group, elsewhere, len(q.m)))

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
        lower, upper, D = (
            np.stack([getattr(self.members[f], name)[variables] for f in self.going.tolist()])
            for name in ("l", "u", "D")
        )
        sums = np.stack([self._missing(f, self.beta[f], variables) for f in self.going.tolist()])
        closer = _CLOSER if len(rows) <= _TINY else 0.9
        count, variable = len(self.going), at[p.row[variables]]
        family = _core.Family(
            as_rows(p.gram.square(rows)), len(variables) * np.arange(count + 1),
            np.tile(p.s[variables], count), lower.ravel(), upper.ravel(), D.ravel(),
            np.tile(variable, count), np.tile(p.group[variables], count), sums,
            p.gram.diag[rows], np.ones((1, 3)), np.zeros(count, dtype=np.int64),
            np.array([0, len(rows)]), np.arange(len(rows)),
            self.beta[np.ix_(self.going, variables)].ravel(),
            self.kbeta[np.ix_(self.going, rows)], np.zeros(0, dtype=np.int64),
            tol=closer * self.tol, working_set=_WORKING_SETS[len(rows) > 4096],
            steps=_MOST + _PATIENCE * len(variables),
        )  # fmt: skip
        while not family.run(_SECONDS, self.threads):
            if stop():
                return False
        self.beta[np.ix_(self.going, variables)] = family.beta.reshape(count, -1)
        self.kbeta[np.ix_(self.going, rows)] = family.held.reshape(count, -1)
        self.lam[self.going] = family.multipliers
        self.violations[self.going] = family.violations[:, 0]
        return True

    def solved(self, f: int) -> bool:
        return bool(self.violations[f] <= self.tol)

    def clear(self, f: int) -> bool:
        """Whether it is solved, and a ν-machine so that dividing by its margin leaves digits."""
        eta = self.members[f].parameters(self.lam[f], self.beta[f]).get("eta", np.inf)
        return self.solved(f) and bool(eta > _CLEAR * self.tol)

    def grow(self) -> bool:
        """Compute Kβ elsewhere; take in the samples that should have been there, if any."""
        p, inside = self.problem, np.zeros(self.problem.gram.n, dtype=bool)
        inside[self.place.rows] = True
        rest = np.flatnonzero(~inside)
        if not len(rest):
            return False
        self._follow(rest)
        self.followed[self.going] = self.beta[self.going]
        new = np.zeros(p.gram.n, dtype=bool)
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
        q, beta = self.members[f], self.beta[f]
        wish = q.s - self.kbeta[f, q.row] - q.D * beta - q.spread(self.lam[f])
        wrong: Ints = np.flatnonzero(
            (beta < q.u) & (wish > self.tol) | (beta > q.l) & (wish < -self.tol)
        )
        return np.intersect1d(variables, wrong, assume_unique=True)


def _by_group(group: Ints, values: Floats, count: int) -> Floats:
    """Sum values by group; those of no group are left out."""
    inside = group >= 0
    sums = np.bincount(group[inside], weights=values[inside], minlength=count)
    return np.asarray(sums, dtype=np.float64)
