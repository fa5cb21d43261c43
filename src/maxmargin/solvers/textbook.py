"""N0's Algorithm 1: sweep over i, draw j at random, solve for the two, update b."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import Status
from maxmargin.problems import Problem
from maxmargin.solvers.pairs import Pairs, refuse_others
from maxmargin.solvers.steps import whole_number

__all__ = ["TextbookSMO"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TextbookSMO:
    r"""SMO as N0's Algorithm 1 has it, for soft and hard margin with a bias.

    Parameters
    ----------
    max_passes : int, default=5
        Stop after so many sweeps in a row that changed nothing.
    T : int or None, default=100_000
        Stop after so many sweeps. None: no limit, then a hard margin that does not exist runs
        until ``max_iter``, ``max_time`` or Ctrl-C.
    literal : bool, default=False
        Keep the nesting that is printed, see Notes.
    random_state : int or None, default=0
        Seed of the draws of j; None is a new one every time.
    record_every : int or None, default=None
        N0's τ: certify and record every so many sweeps; None records the end alone.
    record_steps : bool, default=False
        Keep every update of a pair, for :func:`maxmargin.solvers.steps`.

    Notes
    -----
    N0's ``tol`` is that of :func:`maxmargin.solvers.solve`, as for every solver.

    One iteration t is one sweep. For each i that violates the KKT conditions a j ≠ i is drawn,
    and the dual is solved for these two, N0 eqs. (96)-(98) with
    :math:`\eta = K_{ii} + K_{jj} - 2 K_{ij}`:

    .. math:: \alpha_j \leftarrow \min\Bigl(H, \max\Bigl(L,
              \alpha_j + \frac{y_j (E_i - E_j)}{\eta}\Bigr)\Bigr), \qquad
              \alpha_i \leftarrow \alpha_i + y_i y_j (\alpha_j^{old} - \alpha_j)

    What the notes leave open: i violates with slack tol/2 on either side, so that no violator
    means ``kkt_violation`` ≤ tol; where :math:`\eta \le 0` the better end of [L, H] is taken;
    :math:`|\Delta\alpha_j| \le tol \cdot \min(1, C_i, C_j)` is "not different"; b is Platt's
    (see ``new_b``); while nothing changes, no j is drawn twice for the same i. Samples of weight
    0 are left out.

    "Nothing changed" proves nothing: a j that helps may not have been drawn, or helps by less
    than tol. So the status is ``optimal`` only if a fresh KKT violation is ≤ tol; else it is
    ``precision_limit`` if that is rounding, or ``iteration_limit``, and the certificate has the
    gap: ``counters["unchanged_sweeps"]`` tells whether it was T or ``max_passes`` that ended it.
    With ``max_passes`` ≥ m − 1 every pair has been tried. A hard margin of coinciding points
    ends as ``infeasible``; T stops any other that has no solution (SMO, ADMM and QP prove that at
    once).

    **As printed** (``literal=True``) the sweeps are a `while` inside `for t`: one iteration is
    *all* sweeps up to ``max_passes`` unchanged ones, so T bounds no work (``max_time`` does),
    and the first record comes after convergence; every further t only repeats the idle sweeps.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = problems.soft_margin(gram, [-1, -1, 1, 1], C=10.0)
    >>> solution = solvers.solve(problem, TextbookSMO(max_passes=20, record_every=1), tol=1e-6)
    >>> solution.alpha.round(4), round(solution.b, 4)
    (array([0., 2., 2., 0.]), -3.0)
    >>> bool((np.diff(solution.history.dual) > -1e-12).all())
    True
    """

    max_passes: int = 5
    T: int | None = 100_000
    literal: bool = False
    random_state: int | None = 0
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Check settings and problem; start at α = 0, b = 0 or at ``beta``."""
        refuse_others("TextbookSMO", problem)
        whole_number("max_passes", self.max_passes)
        whole_number("T", self.T, none=not self.literal)
        return _State(self, problem, tol, beta)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` sweeps; a long one is left where it is and taken up again."""
        state.run(state.visit, chunk)

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State(Pairs):
    """Where Algorithm 1 is: the place in the sweep, its changes, and the unchanged sweeps."""

    def __init__(
        self, solver: TextbookSMO, problem: Problem, tol: float, beta: Floats | None
    ) -> None:
        super().__init__(problem, tol, beta, solver.T, solver.record_steps)
        self.max_passes, self.literal = solver.max_passes, solver.literal
        self.rng = np.random.default_rng(solver.random_state)
        self.place = self.num_changes = self.num_passes = 0
        self.drawn_how = ""
        self.drawn = np.zeros(len(self.points), dtype=np.int64)  # the last j of each i

    def visit(self) -> None:
        """The body of the loop over i."""
        place, m = self.place, len(self.points)
        i = int(self.points[place])
        if self.violates(i):
            self.drawn_how = "j drawn at random"
            if self.literal or self.num_passes == 0:
                self.drawn[place] = self.rng.integers(m - 1)
            else:  # nothing has changed since the last draw, which did not help
                self.drawn[place] = (self.drawn[place] + 1) % (m - 1)
                self.drawn_how = "the next j, as the last one drawn did not help"
            other = self.drawn[place]
            self.num_changes += self.update(i, int(self.points[other + (other >= place)]))
        self.place += 1
        if self.place == m:
            self.end_sweep()

    def update(self, i: int, j: int) -> bool:
        """Take the step on (i, j), unless the new α_j is not different from the old."""
        move = self.move(i, j)
        different = self.tol * min(1.0, self.C[i], self.C[j])
        if move is None or abs(move.alpha_j - self.alpha[j]) <= different:
            return False
        self.commit(move, f"i = {i} violates KKT; {self.drawn_how}")
        return True

    def new_b(self, i: int, j: int) -> float:
        """Platt's b₁ makes E_i = 0, his b₂ E_j = 0: the one whose α is inside its box is right.

        If both are, they agree; if neither is, every b between them would do: their mean.
        """
        b_1, b_2 = float(self.b - self.E[i]), float(self.b - self.E[j])
        if 0 < self.alpha[i] < self.C[i]:
            return b_1
        return b_2 if 0 < self.alpha[j] < self.C[j] else (b_1 + b_2) / 2

    def end_sweep(self) -> None:
        """Count the sweep, and stop where Algorithm 1 does."""
        self.num_passes = 0 if self.num_changes else self.num_passes + 1
        if self.num_changes == 0:
            self.refresh()  # never idle, and never stop, on errors that have drifted
        self.place = self.num_changes = 0
        self.counters["unchanged_sweeps"] = self.num_passes
        settled = self.num_passes >= self.max_passes
        if settled:
            self.num_passes = 0
        if settled or not self.literal:
            self.iteration += 1
        if (settled and not self.literal) or self.iteration == self.T:
            self.status = self.verdict()
