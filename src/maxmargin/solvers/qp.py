"""The one QP handed to an off-the-shelf interior-point solver."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxmargin.certificate import Status, certify
from maxmargin.problems import Problem
from maxmargin.solvers.dense import (
    check_dense,
    feasible,
    largest_move,
    matrix,
    polish,
    ray,
)
from maxmargin.solvers.steps import Step

__all__ = ["QP"]

Floats = NDArray[np.float64]

_LARGEST = 10000  # variables: half an hour

# Clarabel stops early now and then. Rung by rung: the unit of β, between max|s| / mean K_ii (0)
# and its largest bound (1), and what to set.
_LADDER: tuple[tuple[float, dict[str, Any]], ...] = (
    (1.0, {}),
    (0.5, {}),
    (1.0, {"max_step_fraction": 0.9, "equilibrate_enable": False}),
)
_TOLERANCES = ("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_infeas_abs", "tol_infeas_rel")
_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(_TOLERANCES, 1e-12),
    "max_threads": 1,
    "verbose": False,
}


@dataclass(frozen=True, kw_only=True)
class QP:
    r"""The dual handed to Clarabel, an interior-point solver: the off-the-shelf reference.

    Parameters
    ----------
    polish : bool, default=True
        Finish on the free variables, see `polish`; an interior point is off every bound.
    record_every : int or None, default=None
        Certify and record every so many calls; None records the end alone.
    record_steps : bool, default=False
        Keep every call as a :class:`~maxmargin.solvers.Step` whose ``why`` tells how it ended.

    Notes
    -----
    One iteration is one call; its time grows with the cube of the number of variables. With
    x = β / c for a c of the size of β it solves

    .. math:: \min \tfrac{c}{2} x^\top (K + D) x - s^\top x \quad\text{s.t.}\quad
              A x = m / c,\ l / c \le x \le u / c.

    Where Clarabel stops early, the next iteration asks again with another c or more careful
    settings; after the last the status is ``precision_limit``. A starting point is the answer if
    it is good enough; otherwise an interior-point method has no use for it. Needs
    ``pip install maxmargin[qp]``.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> solve(problems.hard_margin(gram, [-1, -1, 1, 1]), QP(), tol=1e-9).alpha.round(6)
    array([0., 2., 2., 0.])
    """

    polish: bool = True
    record_every: int | None = None
    record_steps: bool = False

    def init(self, problem: Problem, *, tol: float, beta: Floats | None) -> _State:
        """Certify the starting point; no matrix is made yet."""
        check_dense("QP", problem, _LARGEST)
        _clarabel()
        return _State(self, problem, tol, problem.start() if beta is None else beta)

    def step(self, state: _State, chunk: int) -> None:
        """Make up to ``chunk`` calls, as long as the answer is not good enough."""
        end = state.iteration + chunk
        if state.tol < state.judged:  # the gap is still too large: ask again
            state.judge(ask=True)
        while state.status is None and state.iteration < end:
            state.call()

    def done(self, state: _State) -> Status | None:
        """Return the status once there is one."""
        return state.status


class _State:
    """The best point so far, and how far down the ladder it came."""

    def __init__(self, solver: QP, problem: Problem, tol: float, beta: Floats) -> None:
        self.solver, self.problem, self.tol = solver, problem, tol
        self.iteration = 0
        self.counters: dict[str, float] = {"interior_steps": 0}
        self.steps: list[Step] = []
        self._P: Floats | None = None
        self._take(np.array(beta))
        self.judge()

    def _take(self, point: Floats) -> None:
        certificate = certify(self.problem, point)
        self.point = point
        self.violation, self.relative_gap = certificate.kkt_violation, certificate.relative_gap

    @property
    def beta(self) -> Floats:
        return self.point.copy()

    def judge(self, *, ask: bool = False) -> None:
        self.judged = self.tol
        self.status: Status | None = None
        if self.violation <= self.tol and not ask:
            self.status = Status.OPTIMAL
        elif self.iteration >= len(_LADDER):
            self.status = Status.PRECISION_LIMIT

    def call(self) -> None:
        """Ask Clarabel, and keep its answer if it is better than the last one."""
        p, before = self.problem, self.point
        P = self._P = matrix(p) if self._P is None else self._P
        x, mu, b, ended = self._interior_point(P, *_LADDER[self.iteration])
        self.iteration += 1
        proof = ray(p, x, P=P)
        if not np.isfinite(x + mu).all():
            self.judge()
        elif proof is not None:
            self._take(proof)
            self.status = Status.INFEASIBLE if p.gram.convex is True else Status.UNBOUNDED
        else:
            # As in ADMM, the proximal map of the bounds: what is pressed against one is at it.
            point = feasible(p, x + mu / (float(P.diagonal().mean()) or 1.0))
            point = polish(p, P, point) if self.solver.polish else point
            if certify(p, point).kkt_violation < self.violation:
                self._take(point)
            self.judge()
        if self.solver.record_steps:
            facts = {"iteration": self.iteration, "b": b}
            self.steps.append(largest_move(p, before, self.point, f"Clarabel: {ended}", **facts))

    def _interior_point(
        self, P: Floats, unit: float, options: dict[str, Any]
    ) -> tuple[Floats, Floats, float, str]:
        """Return β as it comes, the multipliers of its bounds, the bias and how Clarabel ended."""
        p, clarabel = self.problem, _clarabel()
        free = p.l < p.u  # a fixed variable has no interior
        x, mu = np.where(free, 0.0, p.l), np.zeros_like(p.s)
        A = (p.group == np.arange(p.n_groups)[:, None]).astype(np.float64)
        below, above = free & np.isfinite(p.l), free & np.isfinite(p.u)
        eye = sparse.identity(len(x), format="csr")
        G = sparse.vstack([sparse.csr_matrix(A), -eye[below], eye[above]]).tocsc()[:, free]
        h = np.concatenate([p.m - A @ x, -p.l[below], p.u[above]])
        cones = [clarabel.ZeroConeT(p.n_groups), clarabel.NonnegativeConeT(len(h) - p.n_groups)]
        q = (P @ x - p.s)[free]
        c = _unit(float(np.abs(h).max(initial=0.0)), float(np.abs(q).max(initial=0.0)), P, unit)
        settings = clarabel.DefaultSettings()
        for name, value in (_SETTINGS | options).items():
            setattr(settings, name, value)
        upper = sparse.csc_matrix(np.triu(c * P[np.ix_(free, free)]))
        found = _ask(clarabel.DefaultSolver(upper, q, G, h / c, cones, settings))
        self.counters["interior_steps"] += found.iterations
        x[free] = c * np.array(found.x)
        lam, pressed = np.split(np.array(found.z), [p.n_groups])
        mu[below] -= pressed[: below.sum()]
        mu[above] += pressed[below.sum() :]
        return x, mu, float(lam.mean()) if len(lam) else 0.0, str(found.status)


def _clarabel() -> Any:
    try:
        return importlib.import_module("clarabel")
    except ImportError:
        raise ImportError(
            "QP needs the package clarabel: pip install maxmargin[qp]. "
            "SMO and ADMM solve the same problems without it."
        ) from None


def _unit(bound: float, slope: float, P: Floats, power: float) -> float:
    """Mix the largest bound and max|s| / mean K_ii; whichever there is, or 1."""
    natural = slope / (float(P.diagonal().mean()) or 1.0)
    bound, natural = bound or natural or 1.0, natural or bound or 1.0
    return float(bound**power * natural ** (1 - power))


def _ask(interior_point: Any) -> Any:
    """Run Clarabel; Ctrl-C ends it after its current iteration."""
    pressed = _until_ctrl_c()
    next(pressed)
    interior_point.set_termination_callback(pressed.send)
    found = interior_point.solve()
    if pressed.send(None):
        raise KeyboardInterrupt
    return found


def _until_ctrl_c() -> Generator[bool, Any, None]:
    """Answer False, and True once Ctrl-C was pressed.

    A generator, since Clarabel swallows what a callback raises, and a function would raise
    KeyboardInterrupt where it begins, before any ``try``; this one resumes inside of it.
    """
    pressed = False
    while True:
        try:
            yield pressed
        except KeyboardInterrupt:
            pressed = True
