"""N1's SMO: two alternating choices of i, four stages in the choice of j, an error cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import Status, certify
from maxmargin.problems import Problem
from maxmargin.solvers.pairs import Pairs, refuse_others
from maxmargin.solvers.steps import whole_number

__all__ = ["PlattSMO"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PlattSMO:
    r"""SMO with Platt's choice of pairs as N1 tells it, for soft and hard margin with a bias.

    Parameters
    ----------
    T : int or None, default=1_000_000
        N1's maximum number of iterations, one for each pair that changes. None: no limit, then
        a hard margin that does not exist runs until ``max_iter``, ``max_time`` or Ctrl-C.
    random_state : int or None, default=0
        Seed of the choices of i; None is a new one every time.
    record_every : int or None, default=None
        Certify and record every so many iterations; None records the end alone.
    record_steps : bool, default=False
        Keep every update of a pair, for :func:`maxmargin.solvers.steps`.

    Notes
    -----
    i is drawn from all points that violate the KKT conditions, next time from those of them on
    the margin, 0 < α_i < C_i (all, if there are none), and so on in turn. For this i, j is

    1. the point with the largest :math:`|E_i - E_j|`,
    2. then each point with 0 < α_j < C_j in turn, from a random one on,
    3. then every point,
    4. then another i is drawn,

    until the pair raises the dual objective by more than rounding. That rise is exact, with
    :math:`\eta = K_{ii} + K_{jj} - 2 K_{ij}` and :math:`\delta` the change of :math:`y_j\alpha_j`:

    .. math:: \Delta \tilde L = \delta (E_i - E_j) - \tfrac12 \eta \delta^2

    The errors are updated with every step, b is averaged over the points on the margin, or the
    midpoint of its interval if there are none. i violates with slack tol/2 on either side, so
    that no violator means ``kkt_violation`` ≤ tol: ``optimal``, if errors computed from scratch
    agree. If violators are left but no pair gains, the status is ``precision_limit``.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = problems.soft_margin(gram, [-1, -1, 1, 1], C=10.0)
    >>> solution = solvers.solve(problem, PlattSMO(), tol=1e-6)
    >>> solution.status == "optimal", solution.alpha.round(4), round(solution.b, 4)
    (True, array([0., 2., 2., 0.]), -3.0)
    """

    T: int | None = 1_000_000
    random_state: int | None = 0
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Check settings and problem; start at α = 0 or at ``beta``."""
        refuse_others("PlattSMO", problem)
        whole_number("T", self.T, none=True)
        return _State(self, problem, tol, beta)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` pair updates; a long search is taken up again where it was."""
        state.run(state.attempt, chunk)

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State(Pairs):
    """The pairs still to try at the current α, and whose turn it is."""

    def __init__(self, solver: PlattSMO, problem: Problem, tol: float, beta: Floats | None) -> None:
        super().__init__(problem, tol, beta, solver.T, solver.record_steps)
        self.rng = np.random.default_rng(solver.random_state)
        self.margin_turn = False
        self.dual = -math.inf  # at the last refresh
        self.pairs = self.choose_pairs()

    def choose_pairs(self) -> Iterator[tuple[int, int, str]]:
        """N1's order of pairs, each with its reason."""
        violators = np.flatnonzero(self.violates(slice(None)))
        strategies = [("all violators", violators)]
        if self.margin_turn:
            strategies.insert(0, ("margin violators", violators[self.free[violators]]))
        for name, choice in strategies:
            for i in self.rng.permutation(choice).tolist():
                for j, why in self.partners(i):
                    yield i, j, f"i among {name}; {why}"

    def partners(self, i: int) -> Iterator[tuple[int, str]]:
        """The first three stages of the choice of j."""
        farthest = np.abs(self.E[i] - self.E[self.points]).argmax()
        yield int(self.points[farthest]), "j has the largest |E_i - E_j|"
        everyone = np.roll(self.points, -int(self.rng.integers(len(self.points))))
        for j in everyone[self.free[everyone]].tolist():
            yield j, "j: next non-bound point"
        for j in everyone.tolist():
            yield j, "j: any point"

    def attempt(self) -> None:
        """Try the next pair; a step, or the end of all pairs, begins the choice anew."""
        pair = next(self.pairs, None)
        if pair is None:
            self.no_pair_left()
            return
        i, j, why = pair
        move = self.move(i, j)
        if move is None:
            return
        self.commit(move, why)
        self.iteration += 1
        self.margin_turn = not self.margin_turn
        self.pairs = self.choose_pairs()
        if self.iteration == self.T:
            self.status = self.verdict()

    def no_pair_left(self) -> None:
        """Judge on errors from scratch: solved, at the end of the digits, or go on with them."""
        self.refresh()
        self.shift(self.margin_b())
        certificate = certify(self.problem, self.beta)
        if certificate.kkt_violation <= self.tol:
            self.status = Status.OPTIMAL
        elif certificate.dual <= self.dual:  # nothing gained since the last refresh
            self.status = Status.PRECISION_LIMIT
        self.dual = certificate.dual
        self.pairs = self.choose_pairs()
