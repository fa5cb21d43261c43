"""What the documentation of every support vector machine says alike, written once."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["documented"]

T = TypeVar("T", bound=type)

_KERNEL = """\
kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        A name, a kernel of :mod:`maxmargin.kernels`, or a function ``f(X, Z)`` that returns a
        matrix.
    degree : int, default=3
        Of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Of "rbf", "poly" and "sigmoid"; "scale" is 1 / (n_features * X.var()), weighted by
        ``sample_weight``.
    coef0 : float, default=0.0
        Of "poly" and "sigmoid"."""

_SOLVER = """\
tol : float, default=1e-3
        KKT violation at which to stop: LIBSVM's quantity.
    shrinking : bool, default=True
        Whether settled variables are set aside.
    cache_size : float or None, default=None
        MB of Gram rows to keep. None (scikit-learn: 200) is a quarter of the free memory, at least
        200: what is not needed is not touched.
    verbose : bool or int, default=False
        Show a progress bar on stderr whose quantity is the gap.
    max_iter : int, default=-1
        Limit of iterations, for each problem solved; -1 for none.
    gap_tol : float or None, default=None
        Relative duality gap to reach besides ``tol``.
    max_time : float or None, default=None
        Limit of seconds for the whole fit.
    n_threads : int or None, default=None
        None: all CPUs of the affinity mask and cgroup, ``OMP_NUM_THREADS`` if set, 1 inside a
        joblib worker. The model is bitwise the same for any number.
    record_every : int or None, default=None
        Record a certified row of ``history_`` every so many iterations.
    warm_start : bool, default=False
        Start from the coefficients of the last fit where they still apply: to the first rows of X
        if those hold the last support vectors (``n_reused_`` says how many). More rows, another C,
        ν or kernel only mean another starting point: the certificate decides when it is done."""

_SHRINKING = """
    shrinking : bool, default=True
        Whether settled variables are set aside."""

_CLASSES = """\
probability : bool, default=False
        Learn ``predict_proba``, by Platt's sigmoid of the decision values of five folds, which
        share one Gram and start from the solution: about twice the time of a plain fit,
        and always the same numbers. ``predict`` is then the likeliest class, so that the two
        agree; ``decision_function`` stays as it is. Other ways:
        :class:`sklearn.calibration.CalibratedClassifierCV`.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the sample weights per class; without influence on ``gamma="scale"``.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For more than two classes one value per class, or one per pair of classes.
    break_ties : bool, default=False
        Whether ``predict`` follows the decision values of "ovr" in place of the votes.
    random_state : int, RandomState instance or None, default=None
        Ignored: everything is deterministic."""

_FITTED = """\
certificate_ : Certificate
        Primal, dual, gap and KKT violation, recomputed in float64 from the data; sums (the largest
        violation) where several problems were solved.
    certificates_ : list of Certificate
        One for each problem.
    history_ : Table
        iteration, seconds, primal, dual, gap, kkt_violation, n_support; where several problems
        were solved, with their number as ``problem``.
    coef_ : ndarray of shape (n_problems, n_features)
        For the linear kernel.
    fit_status_ : int
        0 if the tolerances were reached, else 1.
    kernel_ : Kernel
        The kernel with all parameters numbers.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_reused_ : int
        Support vectors of the last fit that this one started from.
    support_ : ndarray of shape (n_SV,)
        Rows of the support vectors.
    support_vectors_ : {ndarray, sparse array} of shape (n_SV, n_features)
    shape_fit_ : tuple of int"""

_FITTED_CLASSES = """\
classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    dual_coef_ : {ndarray, sparse array} of shape (n_classes - 1, n_SV)
        y_i α_i of the support vectors, in scikit-learn's layout; positive for ``classes_[1]`` if
        there are two classes.
    intercept_ : ndarray of shape (n_problems,)
    n_iter_ : ndarray of shape (n_problems,)
    n_support_ : ndarray of shape (n_classes,)
        Support vectors of each class; ``support_`` is in this order.
    probA_, probB_ : ndarray of shape (n_problems,)
        With ``probability=True``: P(+1 | f) = 1 / (1 + exp(A f + B)) of each problem."""

_FITTED_ONE = """\
dual_coef_ : {ndarray, sparse array} of shape (1, n_SV)
    intercept_ : ndarray of shape (1,)
    n_iter_ : int
    n_support_ : ndarray of shape (1,)"""

_RIDGE_KERNEL = """\
kernel : str, Kernel or callable, default="linear"
        One of scikit-learn's pairwise kernels, "precomputed", a kernel of
        :mod:`maxmargin.kernels`, or a function of two rows that returns a number.
    gamma : float or None, default=None
        Of "rbf", "laplacian", "poly", "sigmoid" and "chi2"; None is 1 / n_features (1 for "chi2").
    degree : float, default=3
        Of "poly".
    coef0 : float, default=1
        Of "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further arguments of a function."""

_SYSTEM = """\
solver : {"auto", "primal", "dual"}, default="auto"
        "primal" solves for a weight per feature (the linear kernel only), "dual" for a coefficient
        per row, both by a Cholesky factor; they agree, and "auto" takes the cheaper one.
    tol : float, default=1e-8
        Relative residual above which the fit warns.
    n_threads : int or None, default=None
        For kernel values; see :class:`~maxmargin.SVC`."""

_FITTED_SYSTEM = """\
certificate_ : Certificate
        Primal, dual, gap and KKT violation; sums (the largest violation) over the targets.
    certificates_ : list of Certificate
        One for each target.
    residual_ : float
        The largest relative residual of all targets, ‖(K + D)β + b − y‖ / ‖y‖, computed from K in
        float64. The training predictions are off by no more (twice that with a bias) times ‖y‖.
    solver_ : str
        "primal", "cholesky" or "eigen": what solved it.
    kernel_ : Kernel
        The kernel with all parameters numbers, if it is one of ours.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The training data, which predictions need.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)"""


_KERNEL_OF_SEARCH = """\
kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"}, Kernel or callable, default="rbf"
        A kernel object brings its own parameters.
    degree : int, default=3
        Of the "poly" kernel.
    coef0 : float, default=0.0
        Of "poly" and "sigmoid"."""

_SOLVER_OF_SEARCH = """\
tol : float, default=1e-3
        KKT violation at which each problem of the search, and the refit, stops.
    shrinking, gap_tol, max_iter
        As in :class:`~maxmargin.SVC`; with the last two, cells are solved one by one.
    cache_size : float or None, default=None
        MB for Gram matrices; None is a quarter of the free memory.
    verbose : bool or int, default=False
        Show a progress bar with the time remaining, over the fits: cells times folds.
    n_threads : int or None, default=None
        As in :class:`~maxmargin.SVC`; the results are the same for any number."""

_FOUND = """\
cv_results_ : dict of ndarray
        As of GridSearchCV, with ``mean_n_support``, ``max_kkt_violation``, ``max_relative_gap``,
        ``mean_n_iter`` and ``status`` of each candidate beside; ``mean_fit_time`` is its share.
    best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_, refit_time_, \
multimetric_, classes_, n_features_in_, feature_names_in_
        As of GridSearchCV.
    report_ : dict
        How many fits the grid stands for, were solved, carried over from another C without a step,
        discarded, not reached or failed; memory and seconds."""


_PARTS = {
    "<kernel_of_search>": _KERNEL_OF_SEARCH,
    "<solver_of_search>": _SOLVER_OF_SEARCH,
    "<found>": _FOUND,
    "<kernel>": _KERNEL,
    "<solver>": _SOLVER,
    "<solver_of_newton>": _SOLVER.replace(_SHRINKING, ""),
    "<of_classes>": _CLASSES,
    "<fitted>": _FITTED,
    "<fitted_classes>": _FITTED_CLASSES,
    "<fitted_one>": _FITTED_ONE,
    "<ridge_kernel>": _RIDGE_KERNEL,
    "<system>": _SYSTEM,
    "<fitted_system>": _FITTED_SYSTEM,
}


def documented(cls: T) -> T:
    """Fill the shared parts into a class's docstring."""
    for name, text in _PARTS.items():
        cls.__doc__ = (cls.__doc__ or "").replace(name, text)
    return cls
