"""Gradient descent for kernel logistic regression: N3's "simple rule on α", to be watched."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import relative
from maxmargin.grams import Gram
from maxmargin.logistic import LogisticProblem
from maxmargin.solvers.rows import SECONDS
from maxmargin.status import Status

__all__ = ["GradientLogistic"]

Floats = NDArray[np.float64]

_SMALL = 2048  # rows: up to here K is kept
_BLOCK = 512
_STALE = 10  # steps without a smaller gap: gradients only shrink, so rounding is all that is left


@dataclass(frozen=True, kw_only=True)
class GradientLogistic:
    r"""Minimise a :class:`~maxmargin.logistic.LogisticProblem` by plain gradient descent.

    Parameters
    ----------
    learning_rate : float or None, default=None
        Length η of a step; None is 1/L, with which every step lowers the objective.
    record_every : int or None, default=None
        Certify and record every so many steps; None records the end alone.

    Notes
    -----
    With w = Σ β_i φ(x_i), t the true class and p its probability, the gradient in w is
    :math:`w - \sum_i C_i (t_i - p_i) \phi(x_i)`, so a step in w is the step

    .. math:: \beta_i \leftarrow (1 - \eta)\, \beta_i + \eta\, C_i (t_i - p_i)

    in the coefficients: each sample is pulled by the error on it, and b is the best one for w. The
    loss curves by at most C/4 along a score (C/2 for more than two classes), so
    :math:`L = 1 + \tfrac14 \max_i \sum_j |K_{ij}| C_j` bounds the curvature of the whole, and every
    step leaves at most 1 − 1/L of the error: n C steps and more, where Newton takes ten.

    Examples
    --------
    >>> from maxmargin import kernels, logistic, solvers
    >>> gram = kernels.RBF(sigma=1.0).gram([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = logistic.logistic(gram, [0, 1, 0, 1], C=10.0)
    >>> solvers.solve(problem, GradientLogistic(), tol=1e-6).status == "optimal"
    True
    """

    learning_rate: float | None = None
    record_every: int | None = None

    def init(self, problem: LogisticProblem, *, tol: float, beta: Floats | None) -> _State:
        """Start at ``beta``, or at w = 0."""
        if not isinstance(problem, LogisticProblem):
            raise TypeError(f"GradientLogistic is for logistic; got {problem.name}. Use SMO.")
        rate = self.learning_rate
        if rate is not None and not 0 < rate <= 1:
            raise ValueError(f"learning_rate={rate!r} must lie in (0, 1], or be None for 1/L.")
        if problem.gram.n <= _SMALL:
            problem = replace(problem, gram=problem.gram.stored())
        start = np.zeros((problem.gram.n, problem.n_outputs)) if beta is None else beta
        return _State(problem, tol, start, _safe_rate(problem) if rate is None else rate)

    def step(self, state: _State, chunk: int) -> None:
        """Take up to ``chunk`` steps, for about a tenth of a second."""
        end, last = perf_counter() + SECONDS, state.iteration + chunk
        while self.done(state) is None and state.iteration < last:
            state.advance()
            if perf_counter() > end:
                break

    def done(self, state: _State) -> Status | None:
        """Return how it ended, or None."""
        if state.violation <= state.tol:
            return Status.OPTIMAL
        return Status.PRECISION_LIMIT if state.stale >= _STALE else None


def _safe_rate(problem: LogisticProblem) -> float:
    """Return 1/L."""
    gram, weight = problem.gram, problem.C * (0.25 if problem.n_outputs == 1 else 0.5)
    return 1.0 / (1.0 + max(_row_sums(gram, weight)))


def _row_sums(gram: Gram, weight: Floats) -> list[float]:
    blocks = (np.arange(a, min(a + _BLOCK, gram.n)) for a in range(0, gram.n, _BLOCK))
    return [float((np.abs(gram.rows(block)) @ weight).max()) for block in blocks]


class _State:
    """The coefficients, and the gradient there."""

    def __init__(self, problem: LogisticProblem, tol: float, beta: Floats, rate: float) -> None:
        self.problem, self.tol, self._rate = problem, tol, rate
        self.iteration, self.stale, self._gap = 0, 0, math.inf
        self.lam = np.zeros(problem.n_outputs)
        self._look(beta)

    def _look(self, beta: Floats) -> None:
        problem = self.problem
        kbeta = problem.product(beta)
        b = problem.best_bias(kbeta, self.lam)
        d = beta - problem.pull(kbeta + b)
        kd = problem.product(d)
        gap = 0.5 * float((d * kd).sum())
        primal = 0.5 * float((beta * kbeta).sum()) + problem.loss(kbeta + b)
        self.stale = 0 if gap < self._gap else self.stale + 1
        self._beta, self._d, self.lam, self._gap = beta, d, b, min(gap, self._gap)
        self.violation = problem.violation(kd)
        self.relative_gap = relative(max(gap, 0.0), primal, primal - gap)

    @property
    def beta(self) -> Floats:
        return self._beta.copy()

    def advance(self) -> None:
        """Take one step down the gradient d of β − C (t − p)."""
        self._look(self._beta - self._rate * self._d)
        self.iteration += 1
