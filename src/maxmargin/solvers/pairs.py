"""What the notes' two SMO solvers share: α, b, the errors E, and the step on one pair (i, j)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import EPS, Status, certify
from maxmargin.problems import Problem
from maxmargin.solvers.rows import SECONDS, row_reader
from maxmargin.solvers.steps import Step, pair_step

__all__ = ["Move", "Pairs", "refuse_others"]

Floats = NDArray[np.float64]


def refuse_others(solver: str, problem: Problem) -> None:
    """Raise a ValueError unless the problem is N0 eq. (56) or (70), before any kernel entry."""
    binary = problem.name in ("soft_margin", "hard_margin") and problem.block is None
    if not binary or problem.n_groups != 1:
        got = problem.name + ("" if problem.n_groups else " without bias")
        known = "classification with one bias (soft_margin, hard_margin)"
        raise ValueError(f"{solver} solves {known}; got {got}. Use SMO.")


class Move(NamedTuple):
    """A step on the pair (i, j) to new α_i, α_j, which raises the dual objective by ``gain``."""

    i: int
    j: int
    alpha_i: float
    alpha_j: float
    gain: float
    facts: dict[str, float]  # E_i, E_j, eta


class Pairs:
    """α, b and E of one problem, in the notes' letters; β_i = y_i α_i only at the edges.

    E_i = Σ_k α_k y_k K_ik + b − y_i, N0 eq. (81) minus y_i, is kept up to date with every step.
    """

    def __init__(
        self, problem: Problem, tol: float, beta: Floats | None, T: int | None, record: bool
    ) -> None:
        assert problem.y is not None
        self.problem, self.tol, self.T, self.record = problem, tol, T, record
        self.y, self.C, self.diag = problem.y, problem.C, problem.gram.diag
        self.points = np.flatnonzero(self.C > 0)  # weight 0 takes a sample out
        self.row = row_reader(problem.gram)
        self.iteration, self._root = 0, np.sqrt(np.abs(self.diag))
        self.status: Status | None = None
        self.steps: list[Step] = []
        self.counters: dict[str, float] = {"pairs_tried": 0, "pairs_changed": 0}
        # Algorithm 1 starts at α = 0, b = 0; a given point brings its own b.
        self.alpha, self.b = np.zeros_like(self.C) if beta is None else np.abs(beta), 0.0
        self.refresh()
        self.shift(self.margin_b())

    @property
    def beta(self) -> Floats:
        """The signed variables."""
        return self.y * self.alpha + 0.0  # no -0

    @property
    def violation(self) -> float:
        """The KKT violation, computed afresh."""
        return certify(self.problem, self.beta).kkt_violation

    @property
    def relative_gap(self) -> float:
        """The relative duality gap, computed afresh."""
        return certify(self.problem, self.beta).relative_gap

    @property
    def free(self) -> NDArray[np.bool_]:
        """The support vectors on the margin, 0 < α_i < C_i."""
        return (self.alpha > 0) & (self.alpha < self.C)

    @property
    def noise(self) -> float:
        """How far rounding alone may put the difference of two errors off."""
        norms = float((self.alpha * self._root).sum()) * float(self._root.max())
        return 4 * EPS * (1.0 + abs(self.b) + norms)

    def run(self, act: Callable[[], None], chunk: int) -> None:
        """Act for ``chunk`` iterations or a tenth of a second; what is unfinished waits."""
        if self.status is Status.OPTIMAL:  # asked to go on: the gap is too large, tol was lowered
            limit = Status.ITERATION_LIMIT if self.iteration == self.T else None
            self.status = Status.PRECISION_LIMIT if self.violation <= self.noise else limit
        end, deadline = self.iteration + chunk, time.perf_counter() + SECONDS
        while self.status is None and self.iteration < end:
            act()
            if time.perf_counter() >= deadline:
                return

    def verdict(self) -> Status:
        """Say what a fresh certificate says, whatever made the solver stop."""
        violation = self.violation
        rest = Status.PRECISION_LIMIT if violation <= self.noise else Status.ITERATION_LIMIT
        return self.status or (Status.OPTIMAL if violation <= self.tol else rest)

    def refresh(self) -> None:
        """Compute the errors from scratch, and take back what rounding added to Σ α_i y_i = 0."""
        beta = self.problem.project(self.beta)
        self.alpha = np.abs(beta)
        self.E = self.problem.kbeta(beta) + self.b - self.y

    def shift(self, b: float) -> None:
        """Set the bias, in all errors as well."""
        self.E += b - self.b
        self.b = b

    def violates(self, i: Any) -> Any:
        """Tell whether α_i breaks the KKT conditions N0 (71)-(76); i is an index or a slice.

        y_i E_i = y_i h(x_i) − 1 must be ≥ 0 where α_i < C_i and ≤ 0 where α_i > 0. Each may be
        off by tol/2, two points together by tol: that is the certificate's ``kkt_violation``.
        """
        r, slack = self.y[i] * self.E[i], self.tol / 2
        return ((r < -slack) & (self.alpha[i] < self.C[i])) | ((r > slack) & (self.alpha[i] > 0))

    def margin_b(self) -> float:
        """Average b over the support vectors on the margin, where E_i = 0 (N1; N0 eq. (77)).

        Without any, the α of an optimum leave b an interval: its midpoint.
        """
        each = self.b - self.E  # the b that makes E_i = 0
        if self.free.any():
            return float(each[self.free].mean())
        low = np.where(self.y > 0, self.alpha < self.C, self.alpha > 0)  # b at least this
        high = np.where(self.y > 0, self.alpha > 0, self.alpha < self.C)  # b at most this
        return float(each[low].max() + each[high].min()) / 2

    def move(self, i: int, j: int) -> Move | None:
        """Find the best α_i, α_j with all others held fixed; None if that gains nothing."""
        self.counters["pairs_tried"] += 1
        values = (self.alpha, self.C, self.y, self.E, self.diag)
        a_i, C_i, y_i, E_i, K_ii = (float(v[i]) for v in values)
        a_j, C_j, y_j, E_j, K_jj = (float(v[j]) for v in values)
        # N0 §3.5.1, Figure 7: the ends of the feasible segment, each point with its own C.
        if y_i == y_j:
            L, H = max(0.0, a_i + a_j - C_i), min(C_j, a_i + a_j)
        else:
            L, H = max(0.0, a_j - a_i), min(C_j, C_i + a_j - a_i)
        if L >= H:
            return None
        eta = K_ii + K_jj - 2 * float(self.row(i)[j])
        if abs(eta) <= 4 * EPS * (abs(K_ii) + abs(K_jj)):
            eta = 0.0  # nothing but rounding: the two points coincide
        slope, facts = y_j * (E_i - E_j), {"E_i": E_i, "E_j": E_j, "eta": eta}
        if eta > 0:
            new_j = min(max(a_j + slope / eta, L), H)  # N0 eqs. (96), (97)
        else:  # no maximum inside: the better end, by the objective at H minus that at L
            rise = slope - 0.5 * eta * (L + H - 2 * a_j) if eta < 0 else slope
            new_j = H if rise > 0 else L
        if math.isinf(new_j):
            return Move(i, j, math.inf, math.inf, math.inf, facts)
        new_i = a_i + y_i * y_j * (a_j - new_j)  # N0 eq. (98)
        change, tiny = new_j - a_j, 4 * EPS * max(a_i, a_j, new_i, new_j)
        gain = change * slope - 0.5 * eta * change**2  # exact: N0 eqs. (83)-(84) are quadratic
        if abs(change) <= tiny or 2 * gain <= self.noise * abs(change):
            return None
        return Move(i, j, _snap(new_i, C_i, tiny), _snap(new_j, C_j, tiny), gain, facts)

    def commit(self, move: Move, why: str) -> None:
        """Make the step: the two α, the errors, then the bias."""
        i, j, before = move.i, move.j, self.beta
        if math.isinf(move.gain):  # H = ∞, η ≤ 0: the dual has no maximum; this ray is the proof
            convex = self.problem.gram.convex is True
            self.status = Status.INFEASIBLE if convex else Status.UNBOUNDED
            self.alpha = np.where(np.isin(np.arange(len(self.y)), (i, j)), 1.0, 0.0)
            return
        self.counters["pairs_changed"] += 1
        step_i, step_j = move.alpha_i - self.alpha[i], move.alpha_j - self.alpha[j]
        self.alpha[i], self.alpha[j] = move.alpha_i, move.alpha_j
        self.E += self.y[i] * step_i * self.row(i) + self.y[j] * step_j * self.row(j)
        self.shift(self.new_b(i, j))
        if self.record:
            facts = move.facts | {"b": self.b, "change": move.gain, "iteration": self.iteration + 1}
            self.steps.append(pair_step(self.problem, before, self.beta, i, j, why, **facts))

    def new_b(self, i: int, j: int) -> float:
        """Give the bias after a step on i and j."""
        return self.margin_b()


def _snap(alpha: float, C: float, tiny: float) -> float:
    """Put α on the bound that only rounding keeps it from."""
    return 0.0 if alpha <= tiny else C if alpha >= C - tiny else alpha
