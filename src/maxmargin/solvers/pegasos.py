"""Pegasos: stochastic subgradient steps on the primal of the soft margin (UML 15.5)."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import Status, certify
from maxmargin.problems import Problem
from maxmargin.solvers.dual_coordinate import refuse_groups
from maxmargin.solvers.rows import SECONDS, row_reader
from maxmargin.solvers.steps import Step, single_step, whole_number

__all__ = ["Pegasos"]

Floats = NDArray[np.float64]

_STEPS = 300  # times max K_ii ΣC: the objective is then within 1e-2 (measured, see the tests)
_DRAWN = 1024  # steps for which samples are drawn at once


@dataclass(frozen=True, kw_only=True)
class Pegasos:
    r"""Follow subgradients of the soft margin's primal, for problems made with ``bias=False``.

    Parameters
    ----------
    n_steps : int or None, default=None
        How many steps to take; None is :math:`300\, \max_i K_{ii}\, nC`.
    average : bool, default=True
        Answer with the average of the iterates; False with the last one.
    batch : int, default=1
        How many samples are drawn for each step.
    random_state : int, default=0
        Seed of the draws.
    record_every : int or None, default=None
        Certify and record every so many steps; None records the end alone.
    record_steps : bool, default=False
        Keep every step, for :func:`maxmargin.solvers.steps`.

    Notes
    -----
    The direct way to the primal that N2 names at its end; N0 points to UML 15.5 for it. With
    :math:`\lambda = 1/\sum_i C_i`, which is 1/(nC) without weights, and :math:`p_i = \lambda C_i`

    .. math:: \tfrac12 \|w\|^2 + \sum_i C_i \xi_i = \frac1\lambda
              \Bigl(\frac\lambda2 \|w\|^2 + \sum_i p_i \max(0, 1 - y_i\, w \cdot \phi(x_i))\Bigr),

    so :math:`\lambda w - [y_i\, w \cdot \phi(x_i) < 1]\, y_i \phi(x_i)`, with i drawn with
    probability :math:`p_i`, is a subgradient of the bracket in expectation. Step t has length
    :math:`1/(\lambda t)`:

    .. math:: w_{t+1} = \Bigl(1 - \frac1t\Bigr) w_t
              + \frac{1}{\lambda t} [y_i\, w_t \cdot \phi(x_i) < 1]\, y_i \phi(x_i)
              = \frac{1}{\lambda t} \sum_j y_j\, \mathrm{count}_j\, \phi(x_j)

    (Shalev-Shwartz et al. 2011, Fig. 1, without its optional projection): w is known by how often
    each sample was drawn inside the margin. That is the kernel form (their Fig. 3, UML 16.3), and
    for a linear kernel the same thing as keeping w. A batch takes the mean over its samples
    (Fig. 2). The factor 1 − 1/t is 0 at t = 1, so a starting point is forgotten at once. The
    average has weights proportional to t (Shamir & Zhang 2013); UML's equal ones pay a factor
    log T for the first iterates, which are as long as 1/λ.

    **What is proven.** :math:`\beta_j = y_j\, \mathrm{count}_j / (\lambda t)` are variables of the
    one QP, but chance can take them out of the box [0, C_j]. The certificate, and so every row of
    the history, is that of the nearest point in the box (``distance`` says how far). The objective
    at its own w, the one Pegasos lowers (not with every step), is the state's ``primal`` and the
    solution's ``counters["primal"]``. A stochastic method has no end of its own: after ``n_steps``
    the status is ``iteration_limit``, ``optimal`` only if the certificate satisfies ``tol``.

    A bias can be had as a constant feature, then part of ‖w‖: ``kernel + Polynomial(0)``, for
    the linear kernel also ``Polynomial(1, coef0=1.0)``.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.Linear().gram([[1.0], [2.0], [-1.0], [-0.5]])
    >>> problem = problems.soft_margin(gram, [1, 1, -1, 1], C=1.0, bias=False)
    >>> solution = solvers.solve(problem, Pegasos(n_steps=20000))
    >>> solution.status == "iteration_limit", round(solution.counters["primal"], 2)
    (True, 2.0)
    """

    n_steps: int | None = None
    average: bool = True
    batch: int = 1
    random_state: int = 0
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Start at ``beta``, or at w = 0."""
        if problem.name != "soft_margin":
            raise ValueError(f"Pegasos is for soft_margin; got {problem.name}. Use SMO.")
        refuse_groups("Pegasos", problem)
        if np.isinf(problem.C).any():
            raise ValueError("Pegasos needs finite C, for λ = 1/ΣC; got C=inf. Use SMO.")
        whole_number("n_steps", self.n_steps, none=True)
        whole_number("batch", self.batch)
        return _State(self, problem, tol, problem.start() if beta is None else beta)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` subgradient steps."""
        end, last = perf_counter() + SECONDS, min(state.iteration + chunk, state.n_steps)
        while state.iteration < last and perf_counter() < end:
            state.advance()

    def done(self, state: _State) -> Status | None:
        """After the last step: ``optimal`` if that is proven, else ``iteration_limit``."""
        if state.iteration < state.n_steps:
            return None
        return Status.OPTIMAL if state.violation <= state.tol else Status.ITERATION_LIMIT


class _State:
    """How often each sample was drawn inside the margin, and what follows from it."""

    def __init__(self, solver: Pegasos, problem: Problem, tol: float, start: Floats) -> None:
        self.solver, self.problem, self.tol, self._start = solver, problem, tol, start
        total = float(problem.C.sum())
        self.n_steps = solver.n_steps or 1 + int(_STEPS * total * problem.gram.diag.max())
        self.iteration, self.steps = 0, list[Step]()
        self._y, self._K = problem.s.tolist(), row_reader(problem.gram)  # s = y
        self._count, self._when = [0] * problem.gram.n, [0] * problem.gram.n  # when: Σ t of counts
        # w = Σ y_j count_j φ(x_j) / unit and f = G / unit, unit = λ batch t; the start has unit 1.
        self._G, self._unit, self._lam = problem.gram.matvec(start), 1.0, 1.0 / total
        self._rows = np.flatnonzero(problem.C)  # weight 0 is never drawn
        self._chances = np.cumsum(problem.C[self._rows])
        self._chances /= self._chances[-1]
        self._rng = np.random.default_rng(solver.random_state)
        self._draws: list[list[int]] = []

    def _draw(self) -> list[int]:
        if not self._draws:
            points = self._rng.random((_DRAWN, self.solver.batch))
            self._draws = self._rows[np.searchsorted(self._chances, points, "right")].tolist()
        return self._draws.pop()

    def advance(self) -> None:
        """Take one step: shrink w by 1 − 1/t, add the samples that are inside the margin."""
        y, drawn = self._y, self._draw()
        before = (self._last, self._G / self._unit) if self.solver.record_steps else None
        inside = [i for i in drawn if y[i] * self._G[i] < self._unit]
        t = self.iteration + 1
        if t == 1:
            self._G = np.zeros_like(self._G)  # 1 − 1/t = 0
        for i in inside:
            self._G += y[i] * self._K(i)
            self._count[i] += 1
            self._when[i] += t
        self._unit, self.iteration = self._lam * self.solver.batch * t, t
        if before is not None:
            self._tell(drawn, *before)

    @property
    def _last(self) -> Floats:
        """β of the last iterate."""
        return self.problem.s * self._count / self._unit if self.iteration else self._start

    @property
    def beta(self) -> Floats:
        if not self.iteration or not self.solver.average:
            return self._last.copy()
        # 2 / (T (T+1)) Σ_t t β_t: what is counted at t is in all of β_t, ..., β_T.
        ahead = self.iteration + 1 - np.array(self._when) / np.maximum(self._count, 1)
        return self._last * (2.0 * ahead / (self.iteration + 1))

    @property
    def primal(self) -> float:
        """N0 eq. (62) at w = Σ β_i φ(x_i) itself, in the box or not."""
        p, beta = self.problem, self.beta
        f = p.gram.matvec(beta)
        return p.scale * float((0.5 * beta * f + p.C * np.maximum(0.0, 1.0 - p.s * f)).sum())

    @property
    def counters(self) -> dict[str, float]:
        return {"primal": self.primal, "inside_margin": float(sum(self._count))}

    @property
    def violation(self) -> float:
        return certify(self.problem, self.beta).kkt_violation

    @property
    def relative_gap(self) -> float:
        return certify(self.problem, self.beta).relative_gap

    def _tell(self, drawn: list[int], before: Floats, f: Floats) -> None:
        """Record the step, of the last iterate also when averaging; its change can be negative."""
        p, y, after = self.problem, self.problem.s, self._last
        change = (after * (y - 0.5 * self._G / self._unit)).sum() - (before * (y - 0.5 * f)).sum()
        facts = {"iteration": self.iteration, "b": 0.0, "change": float(change) / len(drawn)}
        for i in drawn:
            margin = float(y[i] * f[i])
            why = f"drawn, margin {margin:.3g}" + (" < 1: added" if margin < 1 else ": only shrunk")
            facts |= {"E": float(f[i] - y[i]), "eta": float(p.gram.diag[i])}
            self.steps.append(single_step(p, before, after, i, why, **facts))
