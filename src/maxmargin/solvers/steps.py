"""Watch a solver think: every update with the numbers of the notes' equations filled in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from maxmargin.problems import Problem
    from maxmargin.solvers.solve import Solver

__all__ = ["Step", "check_solver", "pair_step", "single_step", "steps", "whole_number"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One update, in the notes' letters (N0 §3.5.1).

    Pair solvers fill in everything. Where one variable moves alone (DualCoordinate, Pegasos, SMO
    without a bias) j is None, L and H are the box of α_i, η is its curvature K_ii + D_ii and E_i
    the slope of the objective in it: f(x) − y for a soft margin. ADMM and QP move all variables at
    once: the record names the one that moved most, and ``why`` tells the residuals.

    Parameters
    ----------
    iteration : int
        The solver's own count: pair steps, sweeps or passes.
    i, j : int or None
        Rows of the two variables; j is None where one moves alone.
    why : str
        Why this pair was chosen, in a few words.
    E_i, E_j : float or None
        Errors f(x) + b − y before the step.
    eta : float or None
        K_ii + K_jj − 2 K_ij, N0 eq. (96)'s denominator.
    L, H : float or None
        The ends of the feasible segment for α_j.
    alpha_i, alpha_j : float or None
        Before the step.
    alpha_j_unclipped : float or None
        N0 eq. (96).
    alpha_i_new, alpha_j_new : float or None
        N0 eqs. (97) and (98).
    b : float
        The bias after the step.
    alpha_i_unclipped : float or None
        Where one variable moves alone: its optimum without the box.
    change : float
        By how much the dual objective rose; a batch of Pegasos shares it evenly.

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.Linear().gram([[1.0], [-1.0]])
    >>> problem = problems.soft_margin(gram, [1, -1], C=1.0)
    >>> step = next(solvers.steps(problem, solvers.TextbookSMO(record_steps=True)))
    >>> step.alpha_j_unclipped, step.L, step.H, step.alpha_j_new
    (0.5, 0.0, 1.0, 0.5)
    """

    iteration: int
    i: int
    why: str
    b: float
    change: float
    j: int | None = None
    E_i: float | None = None
    E_j: float | None = None
    eta: float | None = None
    L: float | None = None
    H: float | None = None
    alpha_i: float | None = None
    alpha_i_unclipped: float | None = None
    alpha_j: float | None = None
    alpha_j_unclipped: float | None = None
    alpha_i_new: float | None = None
    alpha_j_new: float | None = None


def pair_step(
    problem: Problem,
    before: Floats,
    after: Floats,
    i: int,
    j: int,
    why: str,
    *,
    E_i: float,
    E_j: float,
    eta: float,
    **facts: Any,
) -> Step:
    """Describe a step on the variables i and j from the points before and after it.

    L, H and the unclipped α_j follow from the bounds and N0 eq. (96) in signed form:
    β_j − β_j^old = (E_i − E_j) / η.
    """
    total = before[i] + before[j]  # β_i follows β_j, their sum kept
    ends = (
        max(problem.l[j], total - problem.u[i]),
        min(problem.u[j], total - problem.l[i]),
    )
    sign = -1.0 if problem.l[j] + problem.u[j] < 0 else 1.0  # α_j = ±β_j
    target = before[j] + (E_i - E_j) / eta if eta > 0 else (E_i - E_j) * math.inf
    L, H = sorted(float(sign * end) + 0.0 for end in ends)
    return Step(
        i=int(problem.row[i]),
        j=int(problem.row[j]),
        why=why,
        E_i=E_i,
        E_j=E_j,
        eta=eta,
        L=L,
        H=H,
        alpha_i=float(abs(before[i])),
        alpha_j=float(abs(before[j])),
        alpha_j_unclipped=float(sign * target),
        alpha_i_new=float(abs(after[i])),
        alpha_j_new=float(abs(after[j])),
        **facts,
    )


def single_step(
    problem: Problem,
    before: Floats,
    after: Floats,
    i: int,
    why: str,
    *,
    E: float,
    eta: float,
    **facts: Any,
) -> Step:
    """Describe a step of the variable i alone."""
    sign = -1.0 if problem.l[i] + problem.u[i] < 0 else 1.0  # α_i = ±β_i
    return Step(
        i=int(problem.row[i]),
        why=why,
        E_i=E,
        eta=eta,
        alpha_i=float(abs(before[i])),
        alpha_i_unclipped=float(sign * (before[i] - E / eta)) if eta > 0 else None,
        alpha_i_new=float(abs(after[i])),
        **facts,
    )


def check_solver(solver: Any) -> None:
    """Refuse what is no solver, and settings that no solver can have, before any work."""
    if isinstance(solver, type) or not hasattr(solver, "init"):
        raise TypeError(f"solver must be a solver such as SMO(); got {solver!r}.")
    every = solver.record_every
    if every is not None and (isinstance(every, bool) or every != int(every) or every < 1):
        raise ValueError(f"record_every={every!r} must be a positive integer or None.")


def whole_number(name: str, value: Any, *, none: bool = False) -> None:
    """Refuse a setting that is not an integer of at least 1 (or None, where that is allowed)."""
    if value is None and none:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        allowed = "an integer of at least 1" + (", or None" if none else "")
        raise ValueError(f"{name}={value!r} must be {allowed}.")


def steps(
    problem: Problem,
    solver: Solver,
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    beta: ArrayLike | None = None,
) -> Iterator[Step]:
    """Yield every update of a solver as it happens.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        Made with ``record_steps=True``.
    tol : float, default=1e-3
    max_iter : int, default=-1
        Limit of the solver's iterations; -1 for none.
    beta : array-like of shape (n_variables,), default=None
        Where to start.

    Yields
    ------
    Step

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> gram = kernels.Linear().gram([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = problems.soft_margin(gram, [-1, -1, 1, 1], C=10.0)
    >>> first = next(steps(problem, solvers.SMO(record_steps=True)))
    >>> first.i, first.j, first.E_i - first.E_j, first.eta
    (2, 1, -2.0, 1.0)
    """
    check_solver(solver)
    if not getattr(solver, "record_steps", False):
        raise ValueError(f"{solver!r} keeps no steps; make it with record_steps=True.")
    if not tol > 0:
        raise ValueError(f"tol={tol!r} must be positive.")
    start = None if beta is None else problem.project(beta)
    return _follow(solver, solver.init(problem, tol=tol, beta=start), max_iter)


def _follow(solver: Any, state: Any, max_iter: int) -> Iterator[Step]:
    while solver.done(state) is None and (max_iter == -1 or state.iteration < max_iter):
        solver.step(state, 1)
        yield from state.steps
        state.steps.clear()
