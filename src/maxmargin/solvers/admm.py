"""The one QP by the alternating direction method of multipliers, N4's way to solve its dual."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import EPS, Certificate, Status, certify
from maxmargin.problems import Problem
from maxmargin.solvers.dense import (
    Ridge,
    check_dense,
    feasible,
    largest_move,
    matrix,
    polish,
    ray,
)
from maxmargin.solvers.rows import SECONDS
from maxmargin.solvers.steps import Step
from maxmargin.threads import one_blas_thread

__all__ = ["ADMM"]

Floats = NDArray[np.float64]

_LARGEST = 20000  # variables
_CHECK = 10  # iterations between two certificates
_UNBALANCED, _MOST = 10.0, 1e4  # ratios of the residuals: when ρ changes, and what counts at most
_LEAST = 1e-8  # of the mean diagonal: a smaller ρ loses too many digits


@dataclass(frozen=True, kw_only=True)
class ADMM:
    r"""The alternating direction method of multipliers, for every formulation.

    Parameters
    ----------
    rho : float or None, default=None
        Weight of the penalty, at first; None is the mean of the diagonal of K + D, that is the
        mean eigenvalue, or max|s| over the widest box if that is larger.
    over_relaxation : float, default=1.0
        Boyd et al. (2011) §3.4.3: in (0, 2), 1 is none; 1.5 to 1.8 can be faster.
    adapt_rho : bool, default=True
        Balance the residuals (§3.4.1) at iterations 10, 20, 40, ...: ever more rarely, because
        convergence is proved for a ρ that settles. Each change is one more factorisation.
    polish : bool, default=True
        Finish on the free variables as soon as these seem known, see Notes.
    record_every : int or None, default=None
        Certify and record every so many iterations; None records the end alone.
    record_steps : bool, default=False
        Keep every iteration as a :class:`~maxmargin.solvers.Step` whose ``why`` tells the
        residuals; i is the row of the variable that moved most.

    Notes
    -----
    With P = K + D, one copy x of β keeps the group sums Ax = m, another one, z, the bounds:

    .. math:: \min \tfrac12 x^\top P x - s^\top x \quad\text{s.t.}\quad
              A x = m,\ l \le z \le u,\ x = z

    Each iteration minimises the augmented Lagrangian over x, then over z, then moves the
    multiplier μ of x = z up its gradient (Boyd et al. 2011, §3.1, §5.2), θ over-relaxing:

    .. math::
        (P + \rho I)\, x + A^\top \lambda &= s + \rho z - \mu, \quad A x = m \\
        \hat x &= \theta x + (1 - \theta) z \\
        z &\leftarrow \min(\max(\hat x + \mu / \rho,\, l),\, u) \\
        \mu &\leftarrow \mu + \rho (\hat x - z)

    P + ρI is factored once; an iteration is two triangular solves. λ tends to the bias. The
    residuals ‖x − z‖ (primal) and ρ‖z − z_old‖ (dual) tend to 0; ``counters`` has the last ones,
    the state's ``residuals`` all of them, to be plotted (Examples).

    N4 states its dual with Σλ + Σμ ≥ K_m. Some optimum has equality there, since scaling a
    feasible point down lowers the objective; so it is ``problems.nu_svc``, K_m, K_s or ν as given,
    whose classes sum to ±K_m/2.

    Residuals prove nothing: every 10th iteration z, made `feasible`, is certified. The KKT
    violation counts a variable a hair off its bound in full, and ADMM creeps up on the last
    digits. So once two such points have the same free variables, `polish` solves for these. Below
    the rounding error of the residuals the end is ``precision_limit``.

    Where points without slack cannot be separated z runs away, and its differences, and z itself,
    tend to the direction that proves it (Banjac et al. 2019; `ray`).

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = problems.nu_svc(gram, [-1, -1, 1, 1], K_m=1.0, K_s=0.5)
    >>> solve(problem, ADMM(), tol=1e-9).alpha.round(6)
    array([0. , 0.5, 0.5, 0. ])

    All residuals, by the three verbs of a solver:

    >>> solver = ADMM(polish=False)
    >>> state = solver.init(problem, tol=1e-9, beta=None)
    >>> while solver.done(state) is None:
    ...     solver.step(state, 100)
    >>> primal, dual = np.array(state.residuals).T
    >>> len(dual) == state.iteration, bool(dual[-1] < 1e-6 * dual[0])
    (True, True)
    """

    rho: float | None = None
    over_relaxation: float = 1.0
    adapt_rho: bool = True
    polish: bool = True
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Start at ``beta``, or at a sparse feasible point; nothing is factored yet."""
        if self.rho is not None and not 0 < self.rho < math.inf:
            raise ValueError(f"rho={self.rho!r} must be positive and finite, or None.")
        if not 0 < self.over_relaxation < 2:
            raise ValueError(f"over_relaxation={self.over_relaxation!r} must be in (0, 2).")
        check_dense("ADMM", problem, _LARGEST)
        return _State(self, problem, tol, problem.start() if beta is None else beta)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` iterations; what they decide depends on their number alone."""
        end, pause = state.iteration + chunk, time.perf_counter() + SECONDS
        if state.status is Status.OPTIMAL and state.tol < state.judged:  # the gap is too large
            state.status = Status.PRECISION_LIMIT if state.settled() else None
        with one_blas_thread():  # whatever the number of threads, the same bits
            while state.status is None and state.iteration < end and time.perf_counter() < pause:
                state.iterate()

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State:
    """x, z, the multipliers, and what is known of them."""

    def __init__(self, solver: ADMM, problem: Problem, tol: float, beta: Floats) -> None:
        self.solver, self.problem, self.tol = solver, problem, tol
        self.iteration = self.factorisations = self.polishes = 0
        self.residuals: list[tuple[float, float]] = []
        self.steps: list[Step] = []
        self.status: Status | None = None
        self.rho = math.nan
        self._factor: Ridge | None = None
        self._free = self._polished = np.zeros(0, dtype=bool)  # sets of free variables
        self._polished_at, self._balanced_at = 0, _CHECK
        self._smallest, self._smallest_at = math.inf, 0
        self.z = self._old = np.array(beta)
        self._answer: Floats | None = self.z  # what to return in place of z
        slope = problem.s - problem.kbeta(beta)
        self.mu = slope - problem.D * beta - problem.spread(problem.multipliers(slope))
        self._judge(certify(problem, beta))

    @property
    def beta(self) -> Floats:
        return feasible(self.problem, self.z) if self._answer is None else self._answer.copy()

    @property
    def counters(self) -> dict[str, float]:
        primal, dual = self.residuals[-1] if self.residuals else (math.inf, math.inf)
        return {
            "primal_residual": primal,
            "dual_residual": dual,
            "rho": self.rho,
            "factorisations": self.factorisations,
            "polishes": self.polishes,
        }

    def iterate(self) -> None:
        """Update x, z and μ; every 10th time look where that led."""
        p, theta = self.problem, self.solver.over_relaxation
        before = self.beta if self.solver.record_steps else self.z
        if self._factor is None:
            self._factor = self._begin()
        # Boyd et al. 2011: §5.2, a QP with equality constraints; §3.4.3; projection onto the box.
        x, lam = self._factor.solve(p.s + self.rho * self.z - self.mu, p.m)
        mixed = theta * x + (1 - theta) * self.z
        self._old = self.z
        self.z = np.clip(mixed + self.mu / self.rho, p.l, p.u)
        self.mu = self.mu + self.rho * (mixed - self.z)
        primal = float(np.linalg.norm(x - self.z))
        # §3.3: what is missing in Px − s + Aᵀλ + μ = 0; ρ‖z − z_old‖ without over-relaxation.
        missing = self._old - self.z + (1 - theta) * (self._old - x)
        dual = self.rho * float(np.linalg.norm(missing))
        self.residuals.append((primal, dual))
        self.iteration += 1
        self._answer = None
        if self.iteration % _CHECK == 0:
            self._check()
        if self.solver.record_steps:
            facts = {"iteration": self.iteration, "b": float(lam.mean()) if len(lam) else 0.0}
            why = f"primal residual {primal:.1e}, dual residual {dual:.1e}"
            self.steps.append(largest_move(p, before, self.beta, why, **facts))

    def _begin(self) -> Ridge:
        """Make P, choose ρ, factor."""
        p = self.problem
        self.P = matrix(p)
        mean = float(self.P.diagonal().mean()) or 1.0
        widest = float((p.u - p.l)[np.isfinite(p.u - p.l)].max(initial=0.0))
        slope = float(np.abs(p.s).max()) / widest if widest > 0 else 0.0
        self.rho = self.solver.rho or max(mean, min(slope, 1e300))
        return self._refactor()

    def _refactor(self) -> Ridge:
        self.factorisations += 1
        return Ridge(self.P, self.problem.group, self.problem.n_groups, self.rho)

    def _check(self) -> None:
        """Certify z, or what polishing makes of it; notice that there is no end; adapt ρ."""
        p, point = self.problem, feasible(self.problem, self.z)
        self._judge(certify(p, point))
        polishing = self.solver.polish and (self._worth_polishing() or self.settled())
        if self.status is None and polishing:
            self.polishes += 1
            point = polish(p, self.P, point)
            self._judge(certify(p, point))
        if self.status is None:
            proof = ray(p, self.z - self._old, self.z, P=self.P if polishing else None)
            if proof is not None:
                point = proof
                self.status = Status.INFEASIBLE if p.gram.convex is True else Status.UNBOUNDED
            elif self.settled():
                self.status = Status.PRECISION_LIMIT
        if self.status is not None:
            self._answer = point
        elif self.solver.adapt_rho and self.iteration >= self._balanced_at:
            self._balanced_at *= 2
            self._balance()

    def _judge(self, certificate: Certificate) -> None:
        self.violation, self.relative_gap = certificate.kkt_violation, certificate.relative_gap
        self.judged = self.tol
        if self.violation <= self.tol:
            self.status = Status.OPTIMAL

    def _worth_polishing(self) -> bool:
        """Whether the free variables are those of 10 iterations ago, and not just polished."""
        known, self._free = self._free, (self.problem.l < self.z) & (self.z < self.problem.u)
        if not np.array_equal(known, self._free):
            return False
        again = self.iteration >= 2 * self._polished_at
        if np.array_equal(self._polished, self._free) and not again:
            return False
        self._polished, self._polished_at = self._free, self.iteration
        return True

    def _relative(self) -> tuple[float, float]:
        """The residuals in terms of what they are differences of."""
        primal, dual = self.residuals[-1]
        size = float(np.linalg.norm(self.z)) or 1.0
        slope = max(float(np.linalg.norm(v)) for v in (self.mu, self.problem.s)) or 1.0
        return primal / size, dual / slope

    def settled(self) -> bool:
        """Whether only rounding is left: in the gradient, or in residuals that fall no more."""
        if not self.residuals:
            return False
        root, size = np.sqrt(np.abs(self.P.diagonal())), np.abs(self.z)
        if self.violation <= EPS * float(root.max()) * float((root * size).sum()):
            return True
        largest, (primal, dual) = max(self._relative()), self.residuals[-1]
        if largest < 0.5 * self._smallest:
            self._smallest, self._smallest_at = largest, self.iteration
        # What rounding P leaves of (P + ρI)x, with trace P for its norm.
        noise = 10 * EPS * float(self.P.trace()) * float(np.linalg.norm(size))
        small = self._smallest < 1e-9 or max(primal * self.rho, dual) <= noise
        waited = self.iteration - self._smallest_at  # as long as they took to fall
        return largest == 0 or (small and waited >= max(self._smallest_at, 100))

    def _balance(self) -> None:
        """Boyd et al. (2011) §3.4.1, by the root of the ratio as in OSQP: few factorisations."""
        primal, dual = self._relative()
        ratio = min(max(primal / max(dual, 1e-300), 1 / _MOST), _MOST)
        if not 1 / _UNBALANCED <= ratio <= _UNBALANCED:
            n = len(self.z)
            least = max(_LEAST, 10 * n * n * EPS) * float(self.P.diagonal().mean())
            rho, self.rho = self.rho, max(self.rho * math.sqrt(ratio), least)
            self._factor = self._factor if rho == self.rho else self._refactor()
