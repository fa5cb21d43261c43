"""Support of a distribution: a plane that leaves the origin behind, or the smallest ball."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval

from maxmargin.certificate import EPS
from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._docs import documented
from maxmargin.estimators._parts import Part, Piece
from maxmargin.grams import Gram, as_rows, evaluate
from maxmargin.problems import ROUNDING, Problem, one_class, svdd
from maxmargin.screening import products
from maxmargin.solvers import Solution

__all__ = ["SVDD", "OneClassSVM"]

Floats = NDArray[np.float64]


class _OutlierDetector(OutlierMixin, SupportVectorMachine):
    """No targets; decision values are scores minus an offset."""

    def _problem(self, gram: Gram, weight: Floats | None) -> Problem:
        raise NotImplementedError

    def _parts(self, X: Any, y: Any, weight: Floats | None) -> list[Part]:
        kept, X, weight = self._keep(X, weight)
        return [Part(kept, partial(self._problem, self._gram(X, weight), weight))]

    def _outside(
        self, problem: Problem, kbeta: Floats, found: dict[str, float]
    ) -> NDArray[np.bool_]:
        """Which training points lie outside by more than tol."""
        raise NotImplementedError

    def _piece(self, part: Part, solution: Solution) -> Piece:
        problem, found = solution.problem, dict(solution.parameters)
        kbeta = problem.by_variable(products(problem, solution.beta, tol=self.tol)[0])
        found["norm2"] = float((solution.beta * kbeta).sum())
        found["largest"] = float(np.abs(problem.gram.diag).max())
        outside = self._outside(problem, kbeta, found)
        fraction = float(problem.C[outside].sum() / problem.C.sum())
        found["outside"] = round(fraction, 12)  # counts of rows, whatever C they were multiplied by
        return self._made(part, solution, problem.by_row(solution.beta), found)

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        super()._store(X, y, pieces)
        self._largest = pieces[0].found["largest"]
        self.outlier_fraction_ = pieces[0].found["outside"]

    def decision_function(self, X: Any) -> Floats:
        """Evaluate the signed distance to the boundary: positive inside.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        raise NotImplementedError

    def score_samples(self, X: Any) -> Floats:
        """Score points: the decision function plus ``offset_``, higher further inside.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores: Floats = self.decision_function(X) + self.offset_
        return scores

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Tell inliers (+1) from outliers (-1).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1).astype(np.intp)

    def _snapped(self, values: Floats, diagonal: Floats | float = 0.0) -> Floats:
        """Call 0 what is 0 up to rounding, or to a KKT violation that is hardly more than that."""
        if "certificate_" not in vars(self):  # from a LIBSVM file: as svm-predict has it
            return values
        size = np.abs(self._columns()).sum() * self._largest + np.abs(diagonal)
        violation = self.certificate_.kkt_violation
        edge = np.maximum(16 * EPS * size, 4 * violation * (violation <= 1e-10 * size))
        snapped: Floats = np.where(np.abs(values) <= edge, 0.0, values)
        return snapped


@documented
class OneClassSVM(_OutlierDetector):
    r"""Separate the data from the origin, at most a fraction ν left behind.

    A drop-in for :class:`sklearn.svm.OneClassSVM` that proves how good its answer is.

    Parameters
    ----------
    <kernel>
    nu : float in (0, 1], default=0.5
        Upper bound of the fraction of outliers, lower bound of that of support vectors.
    <solver>

    Attributes
    ----------
    offset_ : ndarray of shape (1,)
        ρ; ``intercept_`` is -ρ.
    outlier_fraction_ : float
        Weight of the training points behind the plane (by more than ``tol``); at most ν.
    <fitted_one>
    <fitted>

    Notes
    -----
    .. math:: \min_{w, \rho} \tfrac12 \|w\|^2 - \nu \textstyle\sum_i w_i \rho
              + \sum_i w_i \max(0, \rho - w \cdot \phi(x_i))

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> clf = OneClassSVM(nu=0.1).fit(X)
    >>> clf.certificate_.status == "optimal", clf.outlier_fraction_ <= 0.1
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | None = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start

    def _problem(self, gram: Gram, weight: Floats | None) -> Problem:
        return one_class(gram, nu=self.nu, sample_weight=weight)

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        super()._store(X, y, pieces)
        self.offset_ = np.array([pieces[0].found["rho"]])
        self.intercept_ = -self.offset_

    def _outside(
        self, problem: Problem, kbeta: Floats, found: dict[str, float]
    ) -> NDArray[np.bool_]:
        return np.asarray(kbeta < found["rho"] - self.tol)

    def decision_function(self, X: Any) -> Floats:
        """Evaluate w·φ(x) − ρ: positive for inliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._validate_predict(X)
        return self._snapped(self._kernel_sums(X)[:, 0] + self.intercept_[0])


@documented
class SVDD(_OutlierDetector):
    r"""Enclose the data in the smallest ball in feature space, a fraction ν left outside.

    Parameters
    ----------
    <kernel>
        Not "precomputed": the distance of a new x to the centre needs k(x, x).
    nu : float in (0, 1], default=0.5
        Upper bound of the fraction outside; C is 1 / (ν Σw).
    C : float or None, default=None
        Price of squared distance outside, in place of ``nu``.
    <solver>

    Attributes
    ----------
    radius_ : float
        R.
    offset_ : ndarray of shape (1,)
        -R²; scores are minus the squared distance to the centre.
    outlier_fraction_ : float
        Weight of the training points outside the ball (by more than ``tol``); at most ν.
    <fitted_one>
    <fitted>

    Notes
    -----
    The centre is Σ β_i φ(x_i). For a kernel with constant k(x, x), such as RBF, the boundary is
    that of :class:`OneClassSVM` with the same ν (Tax & Duin 2004).

    .. math:: \min_{a, R^2} R^2 + \sum_i C_i \max(0, \|\phi(x_i) - a\|^2 - R^2)

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVDD
    >>> clf = SVDD(kernel="linear", nu=0.01).fit([[0.0], [1.0], [4.0]])
    >>> round(clf.radius_, 6), clf.center_distance([[2.0], [5.0]]).round(6)
    (2.0, array([0., 3.]))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
        "C": [None, Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        C: float | None = None,
        shrinking: bool = True,
        cache_size: float | None = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.C = C
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start

    def _problem(self, gram: Gram, weight: Floats | None) -> Problem:
        price = {"nu": self.nu} if self.C is None else {"C": self.C}
        return svdd(gram, **price, sample_weight=weight)

    def _parts(self, X: Any, y: Any, weight: Floats | None) -> list[Part]:
        if self._mode() == "precomputed":
            raise ValueError(
                "SVDD does not take kernel='precomputed': the distance of a new point x to the "
                "centre needs k(x, x). Pass the kernel itself, or use OneClassSVM."
            )
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        total = float(n if weight is None else weight[weight > 0].sum())
        if self.C is not None and self.C * total < 1 - ROUNDING:
            raise ValueError(
                f"C={self.C:g} is infeasible: the prices C w_i must sum to at least 1; with "
                f"{total:g} samples C must be at least {1 / total:.6g}."
            )
        return super()._parts(X, y, weight)

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        super()._store(X, y, pieces)
        found = pieces[0].found
        self.radius_ = float(np.sqrt(max(found["R2"], 0.0)))
        self.offset_ = np.array([-found["R2"]])
        self.intercept_ = np.array([found["R2"] - found["norm2"]])

    def _outside(
        self, problem: Problem, kbeta: Floats, found: dict[str, float]
    ) -> NDArray[np.bool_]:
        distance2 = problem.gram.diag - 2 * kbeta + found["norm2"]
        return np.asarray(distance2 > found["R2"] + self.tol)

    def _multipliers(self, problem: Problem, k: int) -> Floats:
        return 0.5 * self.intercept_

    def center_distance(self, X: Any) -> Floats:
        """Measure the distance to the centre of the ball, in feature space.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.sqrt(np.maximum(-self.score_samples(X), 0.0))

    def decision_function(self, X: Any) -> Floats:
        """Evaluate R² minus the squared distance to the centre: positive inside the ball.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._validate_predict(X)
        diagonal = self._diagonal(X)
        values = 2 * self._kernel_sums(X)[:, 0] + self.intercept_[0] - diagonal
        return self._snapped(values, diagonal)

    def _diagonal(self, X: Any) -> Floats:
        """k(x, x) of new points."""
        if self._mode() == "compiled":
            return as_rows(X).diagonal(self.kernel_.program())
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        points = (X[i : i + 1] for i in range(n))
        return np.array([evaluate(self.kernel_, x, x)[0, 0] for x in points])
