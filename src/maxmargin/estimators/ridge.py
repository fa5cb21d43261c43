"""Kernel ridge regression (N3), for one λ and for a whole path of them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._docs import documented
from maxmargin.estimators._least_squares import LeastSquaresRegressor
from maxmargin.estimators._pairwise import NAMES, compiled, pairwise
from maxmargin.grams import Gram
from maxmargin.inverses import Decomposed, Features, Inverse
from maxmargin.kernels import Kernel, Linear, Precomputed
from maxmargin.linear_systems import Answer

__all__ = ["KernelRidge", "KernelRidgeCV"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _KernelRidge(LeastSquaresRegressor):
    """Scikit-learn's kernel names to formulas."""

    dual_coef_: Floats
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LeastSquaresRegressor._parameter_constraints,
        "kernel": [StrOptions({*NAMES, "precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
    }

    def _kernel_object(self) -> Kernel | None:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if not isinstance(self.kernel, str) or self.kernel == "cosine":  # not of the rows alone
            return None
        if self.kernel == "precomputed":
            return Precomputed()
        return compiled(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _pairwise(self, X: Any, Z: Any = None) -> Floats:
        rows = (A if A is None else A.astype(np.float64, copy=False) for A in (X, Z))
        return pairwise(
            *rows,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _scale(self, ridge: float) -> float:
        return 2 * ridge if ridge > 0 else 1.0  # N3's values

    def _store(self, beta: Floats, b: Floats) -> None:
        self.dual_coef_ = beta[:, 0].copy() if self._flat else beta

    def _columns(self) -> Floats:
        return self.dual_coef_.reshape(len(self.dual_coef_), -1)

    @property
    def coef_(self) -> Floats:
        """The primal solution w, for the linear kernel only: (n_features,), or one row a target."""
        if not isinstance(self._kernel_object(), Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        w = self._weights_of_features().T
        return w[0] if self._flat else w


@documented
class KernelRidge(_KernelRidge):
    r"""Fit targets by least squares with a penalty on the norm, in the space of a kernel.

    A drop-in for :class:`sklearn.kernel_ridge.KernelRidge` that proves how good its answer is.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1
        N3's λ, at least 0; an array has one for each target. 0 interpolates.
    <ridge_kernel>
    <system>

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        For the linear kernel.
    <fitted_system>

    Notes
    -----
    .. math:: \min_w \sum_i w_i (y_i - w \cdot \phi(x_i))^2 + \alpha \|w\|^2

    The primal solution :math:`w = (A^\top A + \alpha I)^{-1} A^\top y` and the dual one,
    :math:`w = A^\top a` with :math:`(A A^\top + \alpha I) a = y`, are the same (N3).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import KernelRidge
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = KernelRidge(alpha=1e-3, kernel="rbf").fit(x, np.sin(x[:, 0]))
    >>> model.certificate_.status == "optimal", model.residual_ < 1e-12
    (True, True)
    >>> bool(np.abs(model.loo_predictions() - np.sin(x[:, 0])).mean() < 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        **_KernelRidge._parameter_constraints,
    }

    def __init__(
        self,
        alpha: float | ArrayLike = 1,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: str = "auto",
        tol: float = 1e-8,
        n_threads: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.solver = solver
        self.tol = tol
        self.n_threads = n_threads

    def _ridge(self, n_targets: int) -> Floats:
        alpha = np.atleast_1d(np.asarray(self.alpha, dtype=np.float64))
        if alpha.shape not in ((1,), (n_targets,)):
            raise ValueError(
                f"alpha has shape {alpha.shape}; expected a number, or one for each of the "
                f"{n_targets} targets."
            )
        return np.broadcast_to(_finite(alpha, "alpha"), (n_targets,))


@documented
class KernelRidgeCV(_KernelRidge):
    r"""Choose the penalty of kernel ridge regression by leave-one-out, all from one decomposition.

    For :class:`KernelRidge` what :class:`sklearn.linear_model.RidgeCV` is for ridge regression.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1, 10)
        The penalties to try, each above 0. Of equally good ones the first is taken.
    <ridge_kernel>
    cv : None, "gcv", int, splitter or iterable of (train, test), default=None
        None is exact leave-one-out: every row is predicted by the model without it, the kernel and
        the other weights unchanged. A row is left out with all its weight. Folds (an int is their
        number, as in scikit-learn) are left out whole, each row once; that is exact too, and needs
        no fit of its own. "gcv" is generalised cross-validation, which takes one mean leverage for
        all rows and for which a weight of 2 is the same as the row twice.
    scoring : str, callable or None, default=None
        A scorer of the left-out predictions, larger being better; None is minus their mean squared
        error, weighted by ``sample_weight``.
    store_cv_results : bool, default=False
    alpha_per_target : bool, default=False
        Choose for each target on its own.
    tol : float, default=1e-8
        Relative residual above which the fit warns.
    n_threads : int or None, default=None
        For kernel values; see :class:`~maxmargin.SVC`.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_targets,)
        The best of ``alphas``.
    best_score_ : float or ndarray of shape (n_targets,)
    scores_ : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
        The score of each of ``alphas``, over all left-out rows together.
    cv_results_ : ndarray of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        If ``store_cv_results``: the squared error of each left-out row, or with ``scoring`` its
        prediction.
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        For the linear kernel.
    <fitted_system>

    Notes
    -----
    With :math:`K = Q \Lambda Q^\top` and :math:`G = Q (\Lambda + \alpha)^{-1} Q^\top`:
    :math:`a = G y`, and the residuals of a left-out set S of rows are
    :math:`G_{SS}^{-1} a_S`, for one row :math:`a_i / G_{ii}`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import KernelRidgeCV
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.cos(40 * x[:, 0])
    >>> model = KernelRidgeCV(alphas=[1e-4, 1e-2, 1, 100], kernel="rbf").fit(x, y)
    >>> model.alpha_, model.certificate_.status == "optimal"
    (0.01, True)
    >>> model.regularisation_path([0.1, 1, 10]).shape
    (3, 50)
    """

    solver = "auto"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alphas": ["array-like", Interval(Real, 0, None, closed="neither")],
        "cv": [StrOptions({"gcv"}), "cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "store_cv_results": ["boolean"],
        "alpha_per_target": ["boolean"],
        **{
            name: allowed
            for name, allowed in _KernelRidge._parameter_constraints.items()
            if name != "solver"
        },
    }

    def __init__(
        self,
        alphas: ArrayLike = (0.1, 1, 10),
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        cv: Any = None,
        scoring: Any = None,
        store_cv_results: bool = False,
        alpha_per_target: bool = False,
        tol: float = 1e-8,
        n_threads: int | None = None,
    ) -> None:
        self.alphas = alphas
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.cv = cv
        self.scoring = scoring
        self.store_cv_results = store_cv_results
        self.alpha_per_target = alpha_per_target
        self.tol = tol
        self.n_threads = n_threads

    # ---- choosing -----------------------------------------------------------------------------

    def _ridge(self, n_targets: int) -> Floats:
        """All candidates; the one of each target is chosen in `_solve`."""
        return _finite(np.atleast_1d(np.asarray(self.alphas, np.float64)), "alphas", above=True)

    def _solve(self, gram: Gram, Y: Floats, ridge: Floats, weight: Floats) -> tuple[Answer, Floats]:
        few = isinstance(gram.kernel, Linear) and gram.X.shape[1] < gram.n
        system = Features(gram.X) if few else self._whole(gram)
        self._spectrum = system.spectrum(np.sqrt(weight))
        with np.errstate(divide="ignore", invalid="ignore"):  # an indefinite K: its score is NaN
            off = self._left_out(ridge, Y, weight)
        chosen = self._choose(ridge, off, Y, weight)
        return self._solve_with(Decomposed(system, self._spectrum), Y, chosen, weight), chosen

    def _left_out(self, alphas: Floats, Y: Floats, weight: Floats) -> Floats:
        """y_i minus what is predicted without row i, (n_alphas, n_samples, n_targets)."""
        spectrum, out = self._spectrum, self._spectrum.path(alphas, Y)
        if self.cv is None:
            out /= spectrum.diagonals(alphas)[:, :, None]
        elif isinstance(self.cv, str):
            degrees, rows = spectrum.degrees(alphas), float(weight.sum())
            if rows <= degrees.max():
                raise ValueError(
                    f"cv='gcv' counts rows by their weight: {rows:g} rows for {degrees.max():.3g} "
                    "degrees of freedom leave none for errors. Scale sample_weight, or use cv=None."
                )
            out *= (alphas / (1.0 - degrees / rows))[:, None, None] / weight[:, None]
        elif not self._folds:
            raise ValueError("cv has no splits (left); an iterator can be used once only.")
        else:
            for fold, (k, alpha) in itertools.product(self._folds, enumerate(alphas.tolist())):
                out[k, fold] = np.linalg.solve(spectrum.block(alpha, fold), out[k, fold])
        return out

    def _encode(self, X: Any, y: Any, weight: Floats | None) -> tuple[Floats, Floats | None]:
        self._folds: list[Ints] = []
        if not (self.cv is None or isinstance(self.cv, str)):
            self._folds = _folds(check_cv(self.cv).split(X, y), len(y))
            if weight is not None:  # in numbers of the rows with weight
                place = np.cumsum(weight > 0) - 1
                parts = (place[fold[weight[fold] > 0]] for fold in self._folds)
                self._folds = [fold for fold in parts if len(fold)]
        return super()._encode(X, y, weight)

    def _choose(self, alphas: Floats, off: Floats, Y: Floats, weight: Floats) -> Floats:
        """The best α of each target; sets what is known about all of them."""
        each = self.alpha_per_target and Y.shape[1] > 1
        if self.scoring is None:
            told = np.square(off)
            errors = np.einsum("ijk,j->ik", told, weight) / weight.sum()
            scores = -errors if each else -errors.mean(axis=1)
        else:
            told = Y - off
            scores = self._scored(told, Y, weight, each=each)
        best = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=0)
        self.scores_, self.alpha_ = scores, alphas[best] if each else float(alphas[best])
        self.best_score_ = scores[best, np.arange(len(best))] if each else float(scores[best])
        self._told = told.transpose(1, 2, 0) if self.store_cv_results else None
        return np.broadcast_to(alphas[best], (Y.shape[1],))

    def _scored(self, told: Floats, Y: Floats, weight: Floats, *, each: bool) -> Floats:
        scorer = check_scoring(_Given(), scoring=self.scoring)
        function = getattr(scorer, "_score_func", scorer)
        takes = "sample_weight" in inspect.signature(function).parameters
        options = {"sample_weight": weight} if takes and (weight != 1).any() else {}

        def score(values: Floats, y: Floats) -> float:
            return float(scorer(_Given(), values, y, **options))

        if each:
            pairs = [list(zip(values.T, Y.T, strict=True)) for values in told]
            return np.array([[score(v, y) for v, y in row] for row in pairs])
        y = Y[:, 0] if self._flat else Y
        return np.array([score(values.reshape(y.shape), y) for values in told])

    def _keep(
        self, X: Any, Y: Floats, kept: Ints, weight: Floats, ridge: Floats, gram: Gram
    ) -> None:
        super()._keep(X, Y, kept, weight, ridge, gram)
        self.__dict__.pop("cv_results_", None)
        if (told := self.__dict__.pop("_told")) is not None:
            results = np.full((len(Y), *told.shape[1:]), np.nan)
            results[kept] = told
            self.cv_results_ = results[:, 0] if self._flat else results

    # ---- the path -----------------------------------------------------------------------------

    def regularisation_path(self, alphas: ArrayLike) -> Floats:
        """Return the dual coefficients for other penalties, from the decomposition of ``fit``.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Each above 0.

        Returns
        -------
        ndarray of shape (n_alphas, n_samples) or (n_alphas, n_samples, n_targets)
        """
        check_is_fitted(self)
        values = _finite(np.atleast_1d(np.asarray(alphas, np.float64)), "alphas", above=True)
        Y, kept, _, _ = self._training_set
        path = np.zeros((len(values), *Y.shape))
        path[:, kept] = self._spectrum.path(values, Y[kept])
        return path[:, :, 0] if self._flat else path

    def _inverses(self, weight: Floats) -> Callable[[float], Inverse]:
        return self._spectrum.inverse


class _Given(RegressorMixin, BaseEstimator):
    """Predicts what it is given: for scorers that want an estimator."""

    def predict(self, X: Floats) -> Floats:
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _folds(splits: Iterable[tuple[Any, Any]], n: int) -> list[Ints]:
    """The test sets, if they part all rows and each is what its training set leaves."""
    folds, rows = [], np.arange(n)
    for train, test in splits:
        train, fold = (np.asarray(rows[part], dtype=np.int64) for part in (train, test))
        if not np.array_equal(np.setdiff1d(rows, train), np.unique(fold)):
            raise ValueError(
                "cv must leave out exactly the rows it tests on; its training and test sets "
                "overlap, or miss some rows."
            )
        folds.append(fold)
    counts = np.bincount(np.concatenate([rows[:0], *folds]), minlength=n)
    if folds and not (counts == 1).all():
        i = int(np.flatnonzero(counts != 1)[0])
        raise ValueError(
            f"cv must leave out each row once; row {i} is left out {counts[i]} times. Use a "
            "splitter such as KFold, or GridSearchCV over KernelRidge."
        )
    return folds


def _finite(values: Floats, name: str, *, above: bool = False) -> Floats:
    """Check penalties; ``above`` 0, or at least."""
    good = np.isfinite(values) & ((values > 0) if above else (values >= 0))
    if values.ndim != 1 or not len(values) or not good.all():
        bad = values[~good].flat[0] if not good.all() else f"shape {values.shape}"
        limit = "above 0" if above else "at least 0"
        raise ValueError(f"{name} must be finite numbers {limit}; got {bad}.")
    return values
