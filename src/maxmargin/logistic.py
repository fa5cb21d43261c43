r"""State kernel logistic regression and prove how good an answer to it is (N3); knows no solver.

With w in the kernel's feature space, a bias b that is not penalised and one price per sample,

.. math:: \min_{w, b} \tfrac12 \|w\|^2 + \sum_i C_i \log(1 + e^{-y_i (w \cdot \phi(x_i) + b)}),

and for more than two classes one w and b per class, :math:`\tfrac12 \sum_k \|w_k\|^2` and the loss
:math:`-\log p_{i y_i}` with :math:`p_i` the softmax of the scores. N3 puts
:math:`w = \sum_i \alpha_i y_i \phi(x_i)` and drops the :math:`y_i` one line later; here
:math:`\beta_i = y_i \alpha_i`, so that the score is :math:`f = K\beta + b`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from maxmargin.certificate import EPS, Certificate, relative
from maxmargin.grams import Gram
from maxmargin.losses import log_loss
from maxmargin.status import Status, verdict

__all__ = ["Curvature", "LogisticProblem", "logistic"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NOISE = 1e-9  # of the value: rounding that counts as gap
_MOST = 1e100  # price: squares of it must be numbers
_REACH = 8.0  # of the first step to a bias whose bracket is still open
_STEPS = 200  # to the best bias; halving an interval alone takes fewer


@dataclass(frozen=True, eq=False)
class Curvature:
    r"""A square root S of the loss's second derivative, :math:`W = S S^\top`, sample by sample.

    For two classes :math:`S = h = \sqrt{C p (1 - p)}`. For more, sample i has
    :math:`W = C (\operatorname{diag} p - p p^\top)` and, with u = √p, h = √C u and the projection
    Π = 1 − u uᵀ, :math:`S = \operatorname{diag}(h) \Pi` (Rasmussen & Williams 2006, section 3.5).

    Parameters
    ----------
    h : ndarray of shape (n_samples, n_outputs)
    u : ndarray of shape (n_samples, n_outputs) or None
        None for two classes.

    Examples
    --------
    >>> S = Curvature(h=np.array([[0.5], [0.5]]), u=None)
    >>> S.keep(np.ones((2, 1))).ravel()
    array([1., 1.])
    """

    h: Floats
    u: Floats | None

    def keep(self, v: Floats) -> Floats:
        """Return Π v."""
        if self.u is None:
            return v
        return np.asarray(v - self.u * (self.u * v).sum(axis=1, keepdims=True))

    def root(self, v: Floats) -> Floats:
        """Return S v."""
        return self.h * self.keep(v)

    def transposed(self, g: Floats) -> Floats:
        """Return Sᵀ g."""
        return self.keep(self.h * g)


@dataclass(frozen=True, eq=False, kw_only=True)
class LogisticProblem:
    """Kernel logistic regression over a Gram; what :func:`logistic` makes.

    Its variables are the coefficients β, of shape (n_samples, n_outputs): one column for two
    classes, else one for each. Every β is a model, so nothing bounds them (l, u).

    Parameters
    ----------
    gram : Gram
    codes : ndarray of shape (n_samples,)
        The class of each sample, counted from 0.
    C : ndarray of shape (n_samples,)
        The price of each sample's loss.
    n_outputs : int
        1 for two classes with the score of class 1 alone, else the number of classes. Two outputs
        for two classes have w = ±v/2, hence half the penalty: they are one output at twice the C.

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> problem = logistic(Linear().gram([[0.0], [1.0], [2.0]]), [0, 1, 1], C=2.0)
    >>> problem.n_outputs, problem.y.ravel()
    (1, array([-1.,  1.,  1.]))
    """

    gram: Gram
    codes: Ints
    C: Floats
    n_outputs: int
    name: str = "logistic"
    l: float = -math.inf  # noqa: E741  (the one QP's letter)
    u: float = math.inf

    @property
    def n_groups(self) -> int:
        """How many biases there are."""
        return self.n_outputs

    @functools.cached_property
    def y(self) -> Floats | None:
        """The labels ±1 as a column, where there is one output."""
        return np.where(self.codes == 1, 1.0, -1.0)[:, None] if self.n_outputs == 1 else None

    @functools.cached_property
    def _own(self) -> tuple[Ints, Ints]:
        return np.arange(len(self.codes)), self.codes

    # ---- what `solve` asks of any problem -----------------------------------------------------

    def project(self, beta: ArrayLike) -> Floats:
        """Return β as an array of shape (n_samples, n_outputs); every finite one is feasible."""
        point = np.array(beta, dtype=np.float64)
        if point.size != self.gram.n * self.n_outputs or not np.isfinite(point).all():
            raise ValueError(
                f"beta must be {self.gram.n} x {self.n_outputs} finite numbers; got shape "
                f"{point.shape}" + ("." if np.isfinite(point).all() else " with NaN or infinity.")
            )
        return point.reshape(self.gram.n, self.n_outputs)

    lift = project

    def rescaled(self, beta: Floats) -> Floats:
        """Return β: no group asks for a sum."""
        return beta

    def swept(self, beta: Floats) -> Floats:
        """Return β: there are no bounds."""
        return beta

    def by_row(self, beta: Floats) -> Floats:
        """Return β: each sample has its own variables."""
        return beta

    def parameters(self, lam: Floats, _beta: Floats) -> dict[str, float]:
        """Name the bias, where there is a single one."""
        return {"b": float(lam[0])} if len(lam) == 1 else {}

    # ---- the loss -----------------------------------------------------------------------------

    def product(self, beta: Floats) -> Floats:
        """Return Kβ in float64; the last one is remembered on the Gram."""
        gram = self.gram
        if gram.known is not None and np.array_equal(gram.known[0], beta):
            return gram.known[1].copy()
        hurried = gram.deadline < math.inf  # after Ctrl-C only `matvec` can be given up
        if self.n_outputs == 1 and gram.matrix is None and not hurried:
            rows = np.arange(gram.n)
            values = gram.product(rows, rows, beta[:, 0])[:, None]
        else:
            values = gram.matvec(beta)
        gram.known = (beta.copy(), values, np.zeros(0))
        return values.copy()

    def loss(self, f: Floats) -> float:
        """Return Σ C_i (log-loss of the scores f)."""
        if self.y is not None:
            return float((self.C * log_loss(self.y * f)[:, 0]).sum())
        ahead = f - f[self._own][:, None]
        top = ahead.argmax(axis=1)
        best = ahead[np.arange(len(f)), top]
        rest = np.exp(ahead - best[:, None])
        rest[np.arange(len(f)), top] = 0.0
        return float((self.C * (best + np.log1p(rest.sum(axis=1)))).sum())

    def probabilities(self, f: Floats) -> Floats:
        """Return the softmax of the scores, or σ(f) where there is one."""
        if self.n_outputs == 1:
            return np.asarray(expit(f), dtype=np.float64)
        e = np.exp(f - f.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)

    def pull(self, f: Floats) -> Floats:
        """Return minus the loss's gradient, C (t − p): the dual point that belongs to scores f.

        The true class's 1 − p is summed from the other classes, so that it keeps its digits.
        """
        if self.y is not None:
            return np.asarray(self.C[:, None] * self.y * expit(-self.y * f))
        pull = -self.C[:, None] * self.probabilities(f)
        pull[self._own] = 0.0
        pull[self._own] = -pull.sum(axis=1)
        return pull

    def curvature(self, f: Floats) -> Curvature:
        """Return the second derivative of the loss."""
        C = self.C[:, None]
        if self.n_outputs == 1:
            return Curvature(np.sqrt(C * expit(f) * expit(-f)), None)
        u = np.sqrt(self.probabilities(f))
        return Curvature(np.sqrt(C) * u, u)

    # ---- the bias -----------------------------------------------------------------------------

    def best_bias(self, kbeta: Floats, start: Floats | None = None) -> Floats:
        """Find the b that is best for w: there the pulls of each class sum to 0, to rounding.

        Of several classes' biases, which are free up to a common number, the sum is 0.
        """
        if self.n_outputs > 1:
            return self._best_biases(kbeta, np.zeros(self.n_outputs) if start is None else start)
        b = 0.0 if start is None else float(start[0])
        low, high, reach = -math.inf, math.inf, _REACH
        for _ in range(_STEPS):
            pull = self.pull(kbeta + b)
            slope = -float(pull.sum())
            if abs(slope) <= 2 * EPS * float(np.abs(pull).sum()):
                break
            low, high = (low, b) if slope > 0 else (b, high)
            bend = float(np.square(self.curvature(kbeta + b).h).sum())
            step = -slope / bend if bend > 0 else math.copysign(math.inf, -slope)
            if abs(step) > reach:  # far away Newton's step is far too long
                step, reach = math.copysign(reach, step), 2 * reach
            new = b + step
            if not low < new < high:
                new = 0.5 * (low + high)
            if new in (b, low, high):
                break
            b = new
        return np.array([b])

    def _best_biases(self, kbeta: Floats, b: Floats) -> Floats:
        """Damped Newton in as many dimensions as classes; generalised iterative scaling, which
        always ascends (Darroch & Ratcliff 1972), where a Newton step does not.
        """
        C = self.C[:, None]
        pull = self.pull(kbeta + b)
        for _ in range(_STEPS):
            slope = -pull.sum(axis=0)
            size = np.abs(pull).sum(axis=0)
            if (np.abs(slope) <= 4 * EPS * size).all():
                break
            p = self.probabilities(kbeta + b)
            mass = (C * p).sum(axis=0)
            bend = np.diag(mass) - p.T @ (C * p)
            most = max(float(np.abs(bend).max()), 1e-250)  # nothing bends where all p are 0 or 1
            with np.errstate(over="ignore", invalid="ignore"):
                step = -np.linalg.pinv(bend / most, hermitian=True) @ (slope / most)
            far = not np.abs(step).max() <= _REACH
            new = b if far else b + step - step.mean()
            after = pull if far else self.pull(kbeta + new)
            worse = np.abs(after.sum(axis=0)).max() >= 0.9 * np.abs(slope).max()
            if worse:
                totals = np.bincount(self.codes, weights=self.C, minlength=self.n_outputs)
                ratio = np.log(totals / np.maximum(mass, 1e-300))
                if np.abs(ratio).max() <= 1e-12:  # rounding is all that is left
                    break
                new = b + ratio - ratio.mean()
                after = self.pull(kbeta + new)
            b, pull = new, after
        return b

    # ---- the proof ----------------------------------------------------------------------------

    def certificate(
        self,
        beta: ArrayLike,
        *,
        tol: float = 1e-3,
        gap_tol: float | None = None,
        status: Status | str | None = None,
    ) -> Certificate:
        r"""Prove how good the model with coefficients β is; :func:`certificate.certify` calls it.

        Parameters
        ----------
        beta : array-like of shape (n_samples, n_outputs)
        tol, gap_tol, status
            As in :func:`maxmargin.certificate.certify`.

        Returns
        -------
        Certificate
            ``lam`` is the bias that is best for β.

        Notes
        -----
        For two classes, with :math:`a = y \gamma / C` and the negative entropy
        :math:`h(a) = a \log a + (1 - a) \log(1 - a)`, the dual is

        .. math:: \max_\gamma\ -\tfrac12 \gamma^\top K \gamma - \sum_i C_i h(a_i)
                  \quad\text{s.t.}\quad 0 \le a_i \le 1,\ \sum_i \gamma_i = 0,

        because log-loss and h are conjugate: :math:`\log(1 + e^{-m}) + h(a) + a m \ge 0`, with
        equality exactly at :math:`a = \sigma(-m)`. Take the scores :math:`f = K\beta + b` of any β,
        with b the best one for it: then :math:`\gamma_i = C_i (t_i - p_i)` has
        :math:`a_i = \sigma(-m_i)`, lies in the open box, and sums to 0, for that is what "best b"
        means. So it is feasible, all of those inequalities are equalities, and

        .. math:: P(\beta, b) - D(\gamma) = \tfrac12 \beta^\top K \beta
                  + \tfrac12 \gamma^\top K \gamma - \gamma^\top (f - b)
                  = \tfrac12 (\beta - \gamma)^\top K (\beta - \gamma) \ge 0,

        computed from the difference, without cancellation. For more classes h is
        :math:`\sum_k p_k \log p_k` on the simplex of each sample and the same lines hold.

        :math:`K(\beta - \gamma)` is the primal's gradient in β and, up to multipliers, the dual's
        in γ: ``kkt_violation`` is its range (largest minus least, the worst class), as LIBSVM
        measures the soft margin.
        """
        given = self.project(beta)
        kbeta = self.product(given)
        b = self.best_bias(kbeta)
        f = kbeta + b
        pull = self.pull(f)
        d = given - pull
        kd = self.product(d)
        self.gram.known = (given, kbeta, np.zeros(0))
        primal = 0.5 * float((given * kbeta).sum()) + self.loss(f)
        gap = max(0.5 * float((d * kd).sum()), 0.0)
        noise = self._noise(given, f, kd) + self._unbalanced(pull, f)
        if noise > _NOISE * abs(primal):
            gap += noise
        share, violation = relative(gap, primal, primal - gap), self.violation(kd)
        return Certificate(
            primal=primal,
            dual=primal - gap,
            gap=gap,
            relative_gap=share,
            kkt_violation=violation,
            lam=b,
            convex=self.gram.convex,
            distance=0.0,
            status=verdict(
                status,
                solved=violation <= tol and (gap_tol is None or share <= gap_tol),
                precise=self._rounding(given) <= max(tol, 1e-6),
                convex=self.gram.convex,
            ),
        )

    def violation(self, kd: Floats) -> float:
        """Return the KKT violation from the gradient K (β − γ)."""
        if not np.isfinite(kd).all():
            return math.inf
        return float(np.ptp(kd, axis=0).max())

    def _rounding(self, beta: Floats) -> float:
        """How far rounding likely puts a score off: errors of independent signs."""
        diag = np.abs(self.gram.diag)
        size = math.sqrt(float((np.square(beta).max(axis=1) * diag).sum()))
        return EPS * size * math.sqrt(float(diag.max(initial=0.0)))

    def _noise(self, beta: Floats, f: Floats, kd: Floats) -> float:
        """By how much rounding of Kβ may put the gap off: γ moves by W times that."""
        moved = np.square(self.curvature(f).h) * self._rounding(beta)
        diag = np.abs(self.gram.diag)[:, None]
        return float((np.abs(kd) * moved + 0.5 * np.square(moved) * diag).sum())

    def _unbalanced(self, pull: Floats, f: Floats) -> float:
        """What it costs to put right sums that are 0 only to rounding."""
        return float((np.abs(pull.sum(axis=0)) * np.abs(f).max(axis=0)).sum())


def logistic(
    gram: Gram,
    codes: ArrayLike,
    *,
    C: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> LogisticProblem:
    """State kernel logistic regression (N3).

    Parameters
    ----------
    gram : Gram
    codes : array-like of shape (n_samples,)
        The class of each sample: whole numbers 0, 1, ..., each at least once.
    C : float, default=1.0
        Price of the loss; finite.
    sample_weight : array-like of shape (n_samples,), default=None
        Multiplies C; a weight of 2 is the same as the sample twice. Positive.

    Returns
    -------
    LogisticProblem

    Examples
    --------
    >>> from maxmargin.certificate import certify
    >>> from maxmargin.kernels import Linear
    >>> problem = logistic(Linear().gram([[-1.0], [1.0]]), [0, 1])
    >>> round(certify(problem, [[0.0], [0.0]]).primal, 6)  # 2 log 2
    1.386294
    """
    labels: Any = np.asarray(codes)
    if labels.shape != (gram.n,):
        raise ValueError(f"codes must have shape ({gram.n},); got {labels.shape}.")
    labels = labels.astype(np.int64)
    counts = np.bincount(labels - min(labels.min(), 0))
    if labels.min() < 0 or len(counts) < 2 or not counts.all():
        raise ValueError("codes must be 0, 1, ..., with at least two classes and none left out.")
    if not (math.isfinite(C) and C > 0):
        raise ValueError(
            f"C={C} must be positive and finite: without a penalty on w, log-loss has no minimum "
            "on separable data. Use SVC(C=inf) for the hard margin."
        )
    if C > _MOST:
        raise ValueError(f"C={C:g} is beyond float64: at most {_MOST:g}. Use SVC(C=inf).")
    weight = np.ones(gram.n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weight.shape != (gram.n,) or not ((weight > 0) & np.isfinite(weight)).all():
        raise ValueError(f"sample_weight must be {gram.n} positive finite numbers.")
    outputs = 1 if len(counts) == 2 else len(counts)
    return LogisticProblem(gram=gram, codes=labels, C=C * weight, n_outputs=outputs)
