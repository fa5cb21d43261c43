"""Support vector regression."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils._param_validation import Interval

from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._docs import documented
from maxmargin.estimators._parts import Part, Piece
from maxmargin.grams import Gram
from maxmargin.problems import Problem, nu_svr, svr

__all__ = ["SVR", "NuSVR", "targets"]

Floats = NDArray[np.float64]


def targets(y: NDArray[Any]) -> Floats:
    """Targets as numbers."""
    try:
        return np.asarray(y.astype(np.float64, copy=False))
    except ValueError as error:
        raise ValueError(f"y must hold numbers ({error}); for classes take a classifier.") from None


class _SupportVectorRegressor(RegressorMixin, SupportVectorMachine):
    """Targets to a problem, kernel sums to predictions."""

    if TYPE_CHECKING:  # scikit-learn has no types

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="right")],
    }

    def _problem(self, gram: Gram, z: Floats, weight: Floats | None) -> Problem:
        raise NotImplementedError

    def _parts(self, X: Any, y: Any, weight: Floats | None) -> list[Part]:
        z = targets(column_or_1d(y, warn=True))
        assert_all_finite(z, input_name="y")
        kept, X, weight = self._keep(X, weight)
        gram = self._gram(X, weight)
        return [Part(kept, partial(self._problem, gram, z[kept], weight))]

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        super()._store(X, y, pieces)
        self.intercept_ = np.array([pieces[0].found["b"]])

    def predict(self, X: Any) -> Floats:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._validate_predict(X)
        sums: Floats = self._kernel_sums(X)[:, 0] + self.intercept_[0]
        return sums


@documented
class SVR(_SupportVectorRegressor):
    r"""Fit targets within a tube of half-width ε, each excess at a price.

    A drop-in for :class:`sklearn.svm.SVR` that proves how good its answer is.

    Parameters
    ----------
    <kernel>
    C : float, default=1.0
        Price of what lies outside the tube; infinity forbids it.
    epsilon : float, default=0.1
        Half-width of the tube.
    <solver>

    Attributes
    ----------
    <fitted_one>
    <fitted>

    Notes
    -----
    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + \sum_i C_i \max(0, |z_i - w \cdot \phi(x_i) - b| - \varepsilon)

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVR
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = SVR(C=10, epsilon=0.05).fit(x, np.sin(x[:, 0]))
    >>> model.certificate_.status == "optimal", model.score(x, np.sin(x[:, 0])) > 0.99
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SupportVectorRegressor._parameter_constraints,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
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
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start

    def _problem(self, gram: Gram, z: Floats, weight: Floats | None) -> Problem:
        return svr(gram, z, C=self.C, epsilon=self.epsilon, sample_weight=weight)


@documented
class NuSVR(_SupportVectorRegressor):
    r"""Fit targets within the tube that leaves at most a fraction ν outside.

    A drop-in for :class:`sklearn.svm.NuSVR` that proves how good its answer is.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound of the fraction outside the tube, lower bound of that of support vectors.
    C : float, default=1.0
        Price of what lies outside the tube.
    <kernel>
    <solver>

    Attributes
    ----------
    epsilon_ : float
        The half-width of the tube that was found.
    <fitted_one>
    <fitted>

    Notes
    -----
    .. math:: \min_{w, b, \varepsilon} \tfrac12 \|w\|^2 + \sum_i C_i
              [\nu \varepsilon + \max(0, |z_i - w \cdot \phi(x_i) - b| - \varepsilon)]

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import NuSVR
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = NuSVR(C=10, nu=0.2).fit(x, np.sin(x[:, 0]))
    >>> outside = np.abs(np.sin(x[:, 0]) - model.predict(x)) > model.epsilon_ + 1e-3
    >>> bool(outside.mean() <= 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SupportVectorRegressor._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float | None = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start

    def _problem(self, gram: Gram, z: Floats, weight: Floats | None) -> Problem:
        return nu_svr(gram, z, C=self.C, nu=self.nu, sample_weight=weight)

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        super()._store(X, y, pieces)
        self.epsilon_ = pieces[0].found["epsilon"]
