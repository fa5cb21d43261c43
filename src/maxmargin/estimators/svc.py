"""Support vector classification."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from maxmargin.certificate import Certificate, certify
from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._callbacks import with_callbacks
from maxmargin.ledger import Ledger, ledger
from maxmargin.problems import Problem, hard_margin, soft_margin
from maxmargin.solvers import Solution

__all__ = ["SVC"]

Floats = NDArray[np.float64]


class SVC(ClassifierMixin, SupportVectorMachine):
    r"""Classify with a maximal margin; two classes.

    A drop-in for :class:`sklearn.svm.SVC` that proves how good its answer is.

    Parameters
    ----------
    C : float, default=1.0
        Price of slack; infinity is the hard margin.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        A name, a kernel of :mod:`maxmargin.kernels`, or a function ``f(X, Z)`` that returns a
        matrix.
    degree : int, default=3
        Of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", "poly" and "sigmoid"; "scale" is 1 / (n_features * X.var()), weighted by
        ``sample_weight``.
    coef0 : float, default=0.0
        Of "poly" and "sigmoid".
    shrinking : bool, default=True
        Whether settled variables are set aside.
    probability : bool, default=False
        Only False for now; use :class:`sklearn.calibration.CalibratedClassifierCV`.
    tol : float, default=1e-3
        KKT violation at which to stop: LIBSVM's quantity.
    cache_size : float or None, default=None
        MB of Gram rows to keep. None (scikit-learn: 200) is a quarter of the free memory, at least
        200: what is not needed is not touched.
    class_weight : dict, "balanced" or None, default=None
        Multiplies C per class.
    verbose : bool or int, default=False
        Show a progress bar on stderr whose quantity is the gap.
    max_iter : int, default=-1
        Limit of iterations; -1 for none.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Without effect for two classes.
    break_ties : bool, default=False
        Without effect for two classes.
    random_state : int, RandomState instance or None, default=None
        Ignored: the solver is exact and deterministic.
    gap_tol : float or None, default=None
        Relative duality gap to reach besides ``tol``.
    max_time : float or None, default=None
        Limit of seconds.
    n_threads : int or None, default=None
        None: all CPUs of the affinity mask and cgroup, ``OMP_NUM_THREADS`` if set, 1 inside a
        joblib worker. The model is bitwise the same for any number.
    record_every : int or None, default=None
        Record a certified row of ``history_`` every so many iterations.

    Attributes
    ----------
    certificate_ : Certificate
        Primal, dual, gap and KKT violation, recomputed in float64 from the data.
    history_ : Table
        iteration, seconds, primal, dual, gap, kkt_violation, n_support.
    classes_ : ndarray of shape (2,)
    class_weight_ : ndarray of shape (2,)
    coef_ : ndarray of shape (1, n_features)
        For the linear kernel.
    dual_coef_ : {ndarray, sparse array} of shape (1, n_SV)
        y_i α_i of the support vectors, positive for ``classes_[1]``.
    fit_status_ : int
        0 if the tolerances were reached, else 1.
    intercept_ : ndarray of shape (1,)
    kernel_ : Kernel
        The kernel with all parameters numbers.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
    n_iter_ : ndarray of shape (1,)
    n_support_ : ndarray of shape (2,)
    support_ : ndarray of shape (n_SV,)
        Rows of the support vectors, by class.
    support_vectors_ : {ndarray, sparse array} of shape (n_SV, n_features)
    shape_fit_ : tuple of int

    Notes
    -----
    N0 eq. (62), with :math:`C_i` the product of C, the sample's and the class's weight:

    .. math:: \min_{w, b, \xi} \tfrac12 \|w\|^2 + \sum_i C_i \xi_i \quad\text{s.t.}\quad
              y_i (w \cdot \phi(x_i) + b) \ge 1 - \xi_i,\ \xi_i \ge 0

    On Ctrl-C the best model so far is stored with its certificate, and KeyboardInterrupt goes on,
    so that a surrounding search stops too.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SVC(C=10, gap_tol=1e-6).fit(scale(X), y)
    >>> clf.certificate_.status == "optimal", clf.certificate_.relative_gap <= 1e-6
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "probability": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> SVC:
        """Fit the machine to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The symmetric matrix of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Multiplies C per row; a weight of 2 is the same as the row twice. Rows of weight 0 or
            less are left out.

        Returns
        -------
        SVC
            Itself.
        """
        if self.probability:
            raise ValueError(
                "probability=True is not available yet; wrap the SVC in "
                "sklearn.calibration.CalibratedClassifierCV instead."
            )
        X, y = self._validate_fit(X, y)
        problem, kept = self._problem(X, y, sample_weight)
        solution, interrupted = self._solve(problem, X, y)
        self._store(solution, kept, X)
        if interrupted:
            raise KeyboardInterrupt(
                f"fit stopped at relative gap {self.certificate_.relative_gap:.1e}; "
                "the estimator keeps the model so far."
            )
        return self

    def _problem(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Problem, Any]:
        """Labels to ±1, weights to per-sample C, rows without weight left out."""
        labels = column_or_1d(y, warn=True)
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind != "binary":
            check_classification_targets(labels)
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. "
                "For more classes wrap it: sklearn.multiclass.OneVsOneClassifier(SVC())."
            )
        weight = _weights(sample_weight, X)
        kept = np.arange(len(labels)) if weight is None else np.flatnonzero(weight > 0)
        whole = len(kept) == len(labels)
        if weight is not None and not whole:
            X, labels, weight = _take(X, kept, self._mode()), labels[kept], weight[kept]
        self.classes_ = _two_classes(labels, whole)
        self.class_weight_ = compute_class_weight(
            self.class_weight, classes=self.classes_, y=labels, sample_weight=weight
        )
        side = (labels == self.classes_[1]).astype(np.int64)
        C = self.C * self.class_weight_[side] * (1.0 if weight is None else weight)
        gram, signs = self._gram(X, weight), np.where(side, 1.0, -1.0)
        hard = np.isinf(self.C)
        return hard_margin(gram, signs) if hard else soft_margin(gram, signs, C=C), kept

    def _store(self, solution: Solution, kept: Any, X: Any) -> None:
        problem, beta = solution.problem, solution.problem.by_row(solution.beta)
        y, support = np.asarray(problem.y), np.flatnonzero(beta)
        support = support[np.argsort(y[support], kind="stable")]  # by class
        coef = beta[support][None, :]
        mode = self._mode()
        self.kernel_ = problem.gram.kernel
        self.support_ = kept[support].astype(np.int32)
        self.n_support_ = np.array([(y[support] == c).sum() for c in (-1, 1)], dtype=np.int32)
        self.dual_coef_ = type(X)(coef) if sp.issparse(X) else coef
        self.support_vectors_ = X[self.support_] if mode == "compiled" else np.empty((0, 0))
        if mode == "function":
            self._X_fit = X
        elif mode == "compiled":
            self._basis()  # packed now, so that predicting changes nothing
        self.intercept_ = np.array([solution.b])
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (len(X),)
        self.n_iter_ = np.array([solution.n_iter], dtype=np.int32)
        self._store_solution(solution)

    def decision_function(self, X: Any) -> Floats:
        """Evaluate the decision function, positive for ``classes_[1]``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._validate_predict(X)
        sums: Floats = self._kernel_sums(X, self._dense_coef().T)[:, 0] + self.intercept_[0]
        return sums

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
        check_is_fitted(self)
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(np.intp)])

    def certify(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Certificate:
        """Prove the fitted model again from its training data.

        Parameters
        ----------
        X, y, sample_weight
            As given to ``fit``.

        Returns
        -------
        Certificate
            Its status is None if the model does not keep what ``tol`` and ``gap_tol`` promise.
        """
        problem, beta = self._fitted_point(X, y, sample_weight)
        return certify(problem, beta, tol=self.tol, gap_tol=self.gap_tol)

    def ledger(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, as_frame: bool = False
    ) -> Ledger | Any:
        """Tabulate what the model says about every training point.

        Parameters
        ----------
        X, y, sample_weight
            As given to ``fit``.
        as_frame : bool, default=False
            Return a pandas DataFrame.

        Returns
        -------
        Ledger or DataFrame
            See :func:`maxmargin.ledger.ledger`; one row per row of positive weight.
        """
        problem, beta = self._fitted_point(X, y, sample_weight)
        table = ledger(problem, beta, certify(problem, beta, tol=self.tol), tau=min(self.tol, 0.5))
        return table.as_frame() if as_frame else table

    def _fitted_point(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, Floats]:
        """The training problem and the β of this model in it."""
        check_is_fitted(self)
        clone = type(self)(**self.get_params(deep=False))
        X, y = clone._validate_fit(X, y)
        if (X.shape if hasattr(X, "shape") else (len(X),)) != self.shape_fit_:
            raise ValueError(f"pass the training data: X had shape {self.shape_fit_} at fit.")
        if self._mode() == "compiled" and abs(X[self.support_] - self.support_vectors_).max() > 0:
            raise ValueError("pass the training data: X differs from it at the support vectors.")
        problem, kept = clone._problem(X, y, sample_weight)
        beta = np.zeros(self.shape_fit_[0])
        beta[self.support_] = coef = self._dense_coef()[0]
        signs, limit = np.zeros((2, len(beta)))
        signs[kept], limit[kept] = np.asarray(problem.y), problem.C
        same = np.array_equal(clone.classes_, self.classes_)
        if not same or (coef * signs[self.support_] <= 0).any():
            raise ValueError("pass the training data: y or sample_weight differs from that of fit.")
        if (np.abs(coef) > limit[self.support_] * (1 + 1e-9)).any():
            raise ValueError("pass the training data: C or sample_weight differs from that of fit.")
        return problem, beta[kept]


def _weights(sample_weight: ArrayLike | None, X: Any) -> Floats | None:
    if sample_weight is None:
        return None
    weight: Floats = _check_sample_weight(
        sample_weight, X, dtype=np.float64, allow_all_zero_weights=True
    )
    if not (weight > 0).any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    return weight


def _two_classes(labels: NDArray[Any], whole: bool) -> NDArray[Any]:
    classes = np.unique(labels)
    if len(classes) < 2 and not whole:
        raise ValueError(
            "Invalid input - all samples with positive weights belong to the same class."
        )
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
        )
    return classes


def _take(X: Any, rows: NDArray[np.int64], mode: str) -> Any:
    if mode == "precomputed":
        return X[np.ix_(rows, rows)]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]
