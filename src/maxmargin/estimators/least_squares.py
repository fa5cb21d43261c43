"""The least-squares SVM of Suykens & Vandewalle (1999), for classes and for targets."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._classes import ClassWeights
from maxmargin.estimators._docs import documented
from maxmargin.estimators._least_squares import KernelLeastSquares, LeastSquaresRegressor
from maxmargin.estimators._machine import KERNEL
from maxmargin.kernels import Kernel, Linear, as_kernel

__all__ = ["LSSVM", "LSSVMRegressor"]

Floats = NDArray[np.float64]


class _LeastSquaresMachine(KernelLeastSquares):
    """A price C and a bias."""

    _bias = True
    dual_coef_: Floats
    intercept_: Floats
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0.0, None, closed="right")],
        **KERNEL,
        **KernelLeastSquares._parameter_constraints,
    }

    def _kernel_object(self) -> Kernel:
        return as_kernel(self.kernel, degree=self.degree, gamma=self.gamma, coef0=self.coef0)

    def _ridge(self, n_targets: int) -> Floats:
        return np.full(n_targets, 1.0 / self.C)

    def _store(self, beta: Floats, b: Floats) -> None:
        self.dual_coef_, self.intercept_ = np.ascontiguousarray(beta.T), b

    def _columns(self) -> Floats:
        return self.dual_coef_.T

    def _offsets(self) -> Floats:
        return self.intercept_

    @property
    def coef_(self) -> Floats:
        """Weights of the features, for a linear kernel only: (n_outputs, n_features)."""
        if not isinstance(self._kernel_object(), Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        return self._weights_of_features().T


@documented
class LSSVM(ClassWeights, ClassifierMixin, _LeastSquaresMachine):
    r"""Classify by least squares on labels ±1: one linear system in place of a program.

    Parameters
    ----------
    C : float, default=1.0
        Price of squared errors; infinity interpolates.
    <kernel>
    class_weight : dict, "balanced" or None, default=None
        Multiplies the sample weights per class; without influence on ``gamma="scale"``.
    <system>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_outputs, n_samples)
        One output for two classes, else one for each class against the rest: as many right-hand
        sides of the same system.
    intercept_ : ndarray of shape (n_outputs,)
    coef_ : ndarray of shape (n_outputs, n_features)
        For the linear kernel.
    <fitted_system>

    Notes
    -----
    With :math:`C_i` the product of C, the sample's and the class's weight:

    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + \tfrac12 \sum_i C_i (y_i - w \cdot \phi(x_i) - b)^2
              \quad\Longleftrightarrow\quad
              \begin{pmatrix} 0 & 1^\top \\ 1 & K + D \end{pmatrix}
              \begin{pmatrix} b \\ \beta \end{pmatrix} = \begin{pmatrix} 0 \\ y \end{pmatrix},
              \quad D_i = 1 / C_i

    Every training row has a coefficient: there is no sparsity.

    Examples
    --------
    >>> from maxmargin import LSSVM
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LSSVM(C=10).fit(X, y)
    >>> clf.certificate_.status == "optimal", clf.score(X, y) > 0.95
    (True, True)
    >>> bool((clf.loo_predictions() == y).mean() > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_LeastSquaresMachine._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-8,
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.n_threads = n_threads

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = self._validate(X, y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        return X, labels

    def _encode(self, X: Any, y: Any, weight: Floats | None) -> tuple[Floats, Floats | None]:
        self._classes(y, weight)
        codes, both = self._codes(y, weight)
        ours = np.arange(1, 2) if len(self.classes_) == 2 else np.arange(len(self.classes_))
        return np.where(codes[:, None] == ours, 1.0, -1.0), both

    def decision_function(self, X: Any) -> Floats:
        """Evaluate the decision function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes positive for ``classes_[1]``.
        """
        return self._shaped(self._values(self._validate_predict(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._labels(self.decision_function(X))

    def loo_decision_function(self) -> Floats:
        """Evaluate the decision function on each training row, of the model without it.

        The kernel, the classes and the weights of the other rows stay as they are; the row is left
        out with all its weight.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._shaped(self._loo_values())

    def loo_predictions(self) -> NDArray[Any]:
        """Predict the label of each training row by the model without it, in closed form.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._labels(self.loo_decision_function())

    def _shaped(self, values: Floats) -> Floats:
        return values[:, 0] if len(self.classes_) == 2 else values

    def _labels(self, values: Floats) -> NDArray[Any]:
        winners = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[winners])


@documented
class LSSVMRegressor(LeastSquaresRegressor, _LeastSquaresMachine):
    r"""Fit targets by least squares with a bias, in the space of a kernel.

    :class:`~maxmargin.KernelRidge` with a bias that is not penalised, and C = 1 / alpha.

    Parameters
    ----------
    C : float, default=1.0
        Price of squared errors; infinity interpolates.
    <kernel>
    <system>

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_targets, n_samples)
    intercept_ : ndarray of shape (n_targets,)
    coef_ : ndarray of shape (n_targets, n_features)
        For the linear kernel.
    <fitted_system>

    Notes
    -----
    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + \tfrac12 \sum_i C_i (y_i - w \cdot \phi(x_i) - b)^2

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LSSVMRegressor
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = LSSVMRegressor(C=1000).fit(x, 5 + np.sin(x[:, 0]))
    >>> model.certificate_.status == "optimal", model.score(x, 5 + np.sin(x[:, 0])) > 0.999
    (True, True)
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-8,
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.n_threads = n_threads
