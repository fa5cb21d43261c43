"""Newton's method for kernel logistic regression, its systems solved by conjugate gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import EPS, relative
from maxmargin.logistic import Curvature, LogisticProblem
from maxmargin.solvers.products import (
    Factor,
    LowRank,
    Preconditioner,
    Products,
    coarse,
    greedy,
    low_rank,
    products,
)
from maxmargin.solvers.steps import whole_number
from maxmargin.status import Status
from maxmargin.threads import thread_count

__all__ = ["NewtonLogistic"]

Floats = NDArray[np.float64]

_MOST = 300  # conjugate gradients in one Newton step
_STALE = 3  # steps without a smaller gap, after which rounding is all that is left
_ARMIJO = 1e-4
_HALVINGS = 40
_TAME = 10.0  # C K_ii up to which Newton needs no path
_GROWTH = 10.0  # of C from stage to stage
_LOOSE = 0.3  # relative gap at which a stage ends
_ROUGH = 1e-2  # relative gap up to which a low rank stands in for K


@dataclass(frozen=True, kw_only=True)
class NewtonLogistic:
    r"""Minimise a :class:`~maxmargin.logistic.LogisticProblem` by Newton steps.

    Parameters
    ----------
    gap_tol : float or None, default=None
        Relative gap to reach besides the KKT violation.
    n_import : int or None, default=None
        Let w be a combination of so many rows only, chosen greedily: import vectors.
    cache_size : float or None, default=None
        MB for the Gram; if it does not fit, its products are computed again each time.
    n_threads : int or None, default=None
    record_every : int or None, default=None
        Certify and record every so many steps; None records the end alone.

    Notes
    -----
    With γ = C(t − p), d = β − γ and the loss's second derivative W = S Sᵀ at the current scores,
    Newton's equations :math:`(1 + W K)\,\delta + W \delta_b = -d` are solved by

    .. math:: \delta = -d + S v, \qquad (1 + S^\top K S)\, v + S^\top 1\, \delta_b = S^\top K d,
              \qquad 1^\top S v = 0,

    the form of Rasmussen & Williams (2006), algorithms 3.1 and 3.3, in which nothing is divided by
    W. The last equation keeps Σβ = 0. The matrix has no eigenvalue below 1; conjugate gradients in
    the subspace of the constraint (Gould, Hribar & Nocedal 2001) have :class:`Preconditioner`. They
    also yield K δ, so that a line search, which finds the best b at each trial, costs no product
    with K. With float32 products the scores are computed anew, in float64, before the end.

    Where C is large, log-loss looks like a hinge on the scale of the scores and Newton's model is
    right only nearby: C grows tenfold at a time, each stage starting from the last one's scores.
    Where C is small, the first steps are those of the preconditioner's low-rank Gram.

    Examples
    --------
    >>> from maxmargin import kernels, logistic, solvers
    >>> gram = kernels.RBF(sigma=1.0).gram([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = logistic.logistic(gram, [0, 1, 0, 1], C=10.0)
    >>> solvers.solve(problem, NewtonLogistic(), tol=1e-8).status == "optimal"
    True
    """

    gap_tol: float | None = None
    n_import: int | None = None
    cache_size: float | None = None
    n_threads: int | None = None
    record_every: int | None = None

    def init(self, problem: LogisticProblem, *, tol: float, beta: Floats | None) -> State:
        """Start at ``beta``, or at w = 0."""
        if not isinstance(problem, LogisticProblem):
            raise TypeError(f"NewtonLogistic is for logistic; got {problem.name}. Use SMO.")
        whole_number("n_import", self.n_import, none=True)
        start = np.zeros((problem.gram.n, problem.n_outputs)) if beta is None else beta
        return State(self, problem, tol, start)

    def step(self, state: State, chunk: int) -> None:
        """Take one Newton step, or find that there is none to take."""
        del chunk  # one may take long enough
        state.advance()

    def done(self, state: State) -> Status | None:
        """Return how it ended, on scores computed in float64."""
        if state.ended is not None:
            return state.ended
        if not state.solved():
            return None
        if not state.fresh:
            state.refresh()
            if not state.solved():
                return None
        # On a subspace the certificate of the whole problem is not expected to be tight.
        return Status.OPTIMAL if self.n_import is None else Status.STATIONARY


@dataclass(frozen=True, eq=False)
class _Point:
    """A model, its scores and what is left of its gradient; never changed."""

    beta: Floats
    kbeta: Floats
    b: Floats
    d: Floats  # β − γ
    primal: float

    @classmethod
    def at(cls, problem: LogisticProblem, beta: Floats, kbeta: Floats, b: Floats) -> _Point:
        b = problem.best_bias(kbeta, b)
        f = kbeta + b
        primal = 0.5 * float((beta * kbeta).sum()) + problem.loss(f)
        return cls(beta, kbeta, b, beta - problem.pull(f), primal)

    def under(self, problem: LogisticProblem) -> _Point:
        """Return the same model under other prices."""
        return self.at(problem, self.beta, self.kbeta, self.b)


class State:
    """Where the method is, and K d there."""

    def __init__(
        self, solver: NewtonLogistic, problem: LogisticProblem, tol: float, start: Floats
    ) -> None:
        self.solver, self.tol = solver, tol
        steep = float((problem.C * np.abs(problem.gram.diag)).max())
        self._whole, self._share = problem, min(1.0, _TAME / steep) if steep > 0 else 1.0
        self.problem = replace(problem, C=problem.C * self._share)
        self.iteration, self.fresh, self._fresh_starts = 0, True, 2
        self.stale, self._least = 0, math.inf
        self.ended: Status | None = None
        self.counters = {"products": 0.0, "conjugate_gradients": 0.0}
        self._rough = False
        self._multiply: Products | None = None
        self._factor: Factor | None = None
        self._imports: Factor | None = None
        if start.any():
            self._share, self.problem = 1.0, problem
        zero = np.zeros_like(start)
        self.point = _Point.at(problem, zero, zero, np.zeros(problem.n_outputs))
        self._start = start if start.any() else None
        self.kd: Floats | None = None

    # ---- what `solve` reads -------------------------------------------------------------------

    @property
    def beta(self) -> Floats:
        if self._imports is None:
            return self.point.beta.copy()
        beta = np.zeros_like(self.point.beta)
        beta[self._imports.J] = self._imports.coefficients(self.point.beta)
        return beta

    @property
    def lam(self) -> Floats:
        return self.point.b

    @property
    def gap(self) -> float:
        return math.inf if self.kd is None else 0.5 * float((self.point.d * self.kd).sum())

    @property
    def relative_gap(self) -> float:
        primal = self.point.primal
        return relative(max(self.gap, 0.0), primal, primal - self.gap)

    @property
    def violation(self) -> float:
        return math.inf if self.kd is None else self.problem.violation(self.kd)

    def solved(self) -> bool:
        """Whether the tolerances hold, as far as the products are to be believed."""
        if self._rough or self._share < 1:
            return False
        wanted = self.solver.gap_tol
        return self.violation <= self.tol and (wanted is None or self.relative_gap <= wanted)

    # ---- products -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        problem, solver = self._whole, self.solver
        gram = problem.gram
        if solver.n_import is not None:
            self._imports = self._factor = Factor(gram, greedy(gram, solver.n_import))
            self._factor.rest = np.zeros(gram.n)
            self._multiply = LowRank(self._factor.Z)
        else:
            self._factor = low_rank(gram, single=coarse(gram, self._largest))
            self._rough = self._share == 1 and self._start is None and self._factor.partial
            if self._rough:
                self._multiply = LowRank(self._factor.Z)
            else:
                self._multiply = self._whole_gram()
        if self._start is not None:
            self._move(self._start)
        self.kd = self.multiply(self.point.d)

    @property
    def _largest(self) -> float:
        return float(self._whole.C.max())

    def _whole_gram(self) -> Products:
        gram = self._whole.gram
        return products(gram, cache_size=self.solver.cache_size, largest=self._largest)

    def _to_whole_gram(self) -> None:
        """Go on with K itself, from the model of low rank."""
        self._rough, self._multiply = False, self._whole_gram()
        beta = self.point.beta
        self.point = _Point.at(self.problem, beta, self.multiply(beta), self.point.b)
        self.kd, self.fresh = self.multiply(self.point.d), False
        self.stale, self._least = 0, math.inf

    def multiply(self, V: Floats) -> Floats:
        assert self._multiply is not None
        self.counters["products"] += 1
        return self._multiply(V)

    def _move(self, beta: Floats) -> None:
        """Go to β, with its scores computed in full precision."""
        exact = self._imports is None
        kbeta = self.problem.product(beta) if exact else self.multiply(beta)
        self.point = _Point.at(self.problem, beta, kbeta, self.point.b)
        self.fresh = True

    def refresh(self) -> None:
        """Compute the scores anew: those carried along have the rounding of all steps."""
        self._move(self.point.beta)
        self.kd = self.multiply(self.point.d)

    # ---- one step -----------------------------------------------------------------------------

    def advance(self) -> None:
        """Take a Newton step; first go on to the next stage if this one is done."""
        if self.kd is None:
            self._prepare()
        while self._share < 1 and self.relative_gap <= _LOOSE:
            self._next_stage()
        if self._rough and self.relative_gap <= _ROUGH:
            self._to_whole_gram()
        if self.solved():
            return
        delta, kdelta = self._direction()
        if self.ended is not None:
            return
        point = self._search(delta, kdelta)
        if point is not None:
            kd = self.multiply(point.d)
            self.point, self.kd, self.fresh = point, kd, False
            self.iteration += 1
        self.stale += 1
        if self.gap < 0.9 * self._least:
            self._least, self.stale = self.gap, 0
        if point is None or self.stale >= _STALE:
            self._stuck()

    def _next_stage(self) -> None:
        self._share = min(1.0, _GROWTH * self._share)
        self.problem = replace(self._whole, C=self._whole.C * self._share)
        self.point = self.point.under(self.problem)
        self.kd = self.multiply(self.point.d)
        self.stale, self._least = 0, math.inf

    def _stuck(self) -> None:
        """Go on from fresh scores, once, or to the next stage; else float64 allows no more."""
        if self._rough:
            self._to_whole_gram()
        elif self._share < 1:
            self._next_stage()
        elif self._fresh_starts:
            self._fresh_starts -= 1
            self.refresh()
            self.stale, self._least = 0, self.gap
        else:
            self.ended = Status.PRECISION_LIMIT

    def _direction(self) -> tuple[Floats, Floats]:
        """Return δ and K δ."""
        problem, point, kd = self.problem, self.point, self.kd
        assert kd is not None
        curvature = problem.curvature(point.kbeta + point.b)
        assert self._factor is not None
        threads = thread_count(self.solver.n_threads)
        solver = _Projected(problem, curvature, Preconditioner(self._factor, curvature.h, threads))
        v, ksv = self._conjugate_gradients(solver, kd)
        return curvature.root(v) - point.d, ksv - kd

    def _conjugate_gradients(self, solver: _Projected, kd: Floats) -> tuple[Floats, Floats]:
        r"""Solve (1 + SᵀKS) v = SᵀKd under the constraint; return v and K S v.

        A residual ρ leaves Newton's quadratic model above its minimum by
        :math:`\tfrac12 \rho^\top (1 + A)^{-1} A \rho \le \tfrac12 \|\rho\|^2`, A = SᵀKS, and so far
        it has fallen by :math:`-\tfrac12 d^\top K \delta`: the first shall be small to the second.
        """
        curvature, d = solver.curvature, self.point.d
        r = curvature.transposed(kd)
        v, ksv = np.zeros_like(r), np.zeros_like(r)
        z = solver.precondition(r)
        p, rz, fallen = z, float((r * z).sum()), 0.0
        for _ in range(_MOST):
            if not rz > 0 or (fallen > 0 and solver.squared(r) <= self._rest(fallen)):
                break
            sp = curvature.root(p)
            ksp = self.multiply(sp)
            if self._unbounded(sp, float((sp * ksp).sum())):
                break
            bp = p + curvature.transposed(ksp)
            step = rz / float((p * bp).sum())
            v, ksv, r = v + step * p, ksv + step * ksp, r - step * bp
            z = solver.precondition(r)
            rz, last = float((r * z).sum()), rz
            p = z + (rz / last) * p
            fallen = float((d * (kd - ksv)).sum())
            self.counters["conjugate_gradients"] += 1
        return v, ksv

    def _rest(self, fallen: float) -> float:
        r"""How large a squared residual may be: for superlinear convergence ever smaller against
        what is gained, but not below what leaves a gap that is asked for.

        A gap g leaves no gradient above :math:`\sqrt{2 g K_{ii}}` (Cauchy and Schwarz).
        """
        primal, top = abs(self.point.primal), float(np.abs(self.problem.gram.diag).max())
        goal = self.tol**2 / (8 * top) if top > 0 else math.inf
        if self.solver.gap_tol is not None:
            goal = min(goal, self.solver.gap_tol * primal)
        return max(min(0.05, fallen / primal) * fallen, goal)

    def _unbounded(self, x: Floats, energy: float) -> bool:
        """Whether xᵀKx < 0 beyond rounding: along x the objective falls for ever."""
        if energy >= 0 or self.problem.gram.convex is True:
            return False
        diag = float(np.abs(self.problem.gram.diag).max(initial=0.0))
        if energy < -1e-6 * diag * float(np.square(x).sum()):
            self.ended = Status.UNBOUNDED
        return True

    def _search(self, delta: Floats, kdelta: Floats) -> _Point | None:
        """Halve the step until the objective falls enough; None if no step lowers it."""
        problem, now = self.problem, self.point
        slope = float((now.d * kdelta).sum())
        if not slope < 0:
            return None
        slack = 8 * EPS * abs(now.primal)
        s = 1.0
        for _ in range(_HALVINGS):
            new = _Point.at(problem, now.beta + s * delta, now.kbeta + s * kdelta, now.b)
            if new.primal <= now.primal + _ARMIJO * s * slope + slack:
                return new
            # The minimum of the parabola through what is known, but within [0.1, 0.5] of s.
            bend = new.primal - now.primal - s * slope
            s *= min(max(-0.5 * s * slope / bend, 0.1), 0.5) if bend > 0 else 0.5
        return None


class _Projected:
    """The preconditioner within the subspace 1ᵀ S v = 0, one equation for each bias."""

    def __init__(self, problem: LogisticProblem, curvature: Curvature, M: Preconditioner) -> None:
        self.curvature, self._M = curvature, M
        units = np.eye(problem.n_outputs)
        rows = [np.tile(unit, (problem.gram.n, 1)) for unit in units]
        self._q = np.array([curvature.transposed(row) for row in rows])
        self._mq = np.array([self._solve(q) for q in self._q])
        self._inverse = np.linalg.pinv(np.einsum("aij,bij->ab", self._q, self._mq), hermitian=True)
        self._qq = np.linalg.pinv(np.einsum("aij,bij->ab", self._q, self._q), hermitian=True)

    def _solve(self, r: Floats) -> Floats:
        return self.curvature.keep(self._M.solve(self.curvature.keep(r)))

    def squared(self, r: Floats) -> float:
        """Return the squared norm of a residual, less what the multipliers account for."""
        off = self._qq @ np.einsum("aij,ij->a", self._q, r)
        return float(np.square(r - np.einsum("a,aij->ij", off, self._q)).sum())

    def precondition(self, r: Floats) -> Floats:
        """Return the z nearest to M⁻¹ r, in M's norm, that satisfies the constraint."""
        z = self._solve(r)
        off = self._inverse @ np.einsum("aij,ij->a", self._q, z)
        return np.asarray(z - np.einsum("a,aij->ij", off, self._mq))
