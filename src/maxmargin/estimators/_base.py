"""What every support vector machine shares: data in, a solved problem, kernel sums out."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from maxmargin import _core
from maxmargin.certificate import Status
from maxmargin.estimators._callbacks import CallbackSupportMixin, fit_task
from maxmargin.grams import Gram, as_rows, evaluate, expand
from maxmargin.kernels import Kernel, Linear, Precomputed, as_kernel
from maxmargin.problems import Problem
from maxmargin.progress import ProgressBar
from maxmargin.solvers import SMO, Progress, Solution, solve

__all__ = ["SupportVectorMachine"]

Floats = NDArray[np.float64]

_FINE = (Status.OPTIMAL, Status.STATIONARY)


class SupportVectorMachine(CallbackSupportMixin, BaseEstimator):
    """Base of the estimators that solve the one QP; their parameters are documented there."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [
            StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}),
            Kernel,
            callable,
        ],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "shrinking": ["boolean"],
        "cache_size": [None, Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "gap_tol": [None, Interval(Real, 0.0, None, closed="neither")],
        "max_time": [None, Interval(Real, 0.0, None, closed="left")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
        "record_every": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self._mode() == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        return tags

    def _mode(self) -> str:
        """How kernel values are made: "compiled" in C++, "precomputed", or by a "function"."""
        if isinstance(self.kernel, str):
            return "precomputed" if self.kernel == "precomputed" else "compiled"
        if isinstance(self.kernel, Precomputed):
            return "precomputed"
        return "compiled" if getattr(self.kernel, "compiled", False) else "function"

    def _kernel_object(self) -> Kernel:
        return as_kernel(self.kernel, degree=self.degree, gamma=self.gamma, coef0=self.coef0)

    # ---- fitting ----------------------------------------------------------------------------

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check X and y as scikit-learn does; a Python function's X may be anything."""
        mode = self._mode()
        if mode == "precomputed" and sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported.")
        if mode == "function":
            check_consistent_length(X, y)
            return X, y
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], accept_sparse="csr")
        return X, y

    def _gram(self, X: Any, sample_weight: Floats | None) -> Gram:
        kernel = self._kernel_object()
        if sample_weight is not None and self._mode() != "precomputed":
            kernel = kernel.resolve(X, sample_weight)
        return Gram(kernel, X, n_threads=self.n_threads)

    def _solver(self) -> SMO:
        return SMO(
            shrinking=self.shrinking,
            cache_size=self.cache_size,
            n_threads=self.n_threads,
            record_every=self.record_every,
        )

    def _solve(self, problem: Problem, X: Any, y: Any) -> tuple[Solution, bool]:
        """Solve with progress and callbacks; also tell whether Ctrl-C ended it."""
        told, end = fit_task(self, X, y)
        stopped = False

        def callback(progress: Progress) -> bool:
            nonlocal stopped
            if bar is not None:
                bar(progress)
            stopped = told(progress)
            return stopped

        with ProgressBar(type(self).__name__) if self.verbose else nullcontext() as bar:
            solution = solve(
                problem,
                self._solver(),
                tol=self.tol,
                gap_tol=self.gap_tol,
                max_iter=self.max_iter,
                max_time=self.max_time,
                callback=callback,
            )
        end()
        if solution.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            raise ValueError(solution.certificate.proof or f"{problem.name} is unbounded.")
        return solution, solution.status is Status.INTERRUPTED and not stopped

    def _store_solution(self, solution: Solution) -> None:
        self.certificate_ = solution.certificate
        self.history_ = solution.history
        self.fit_status_ = 0 if solution.status in _FINE else 1
        self._warn(solution)

    def _warn(self, solution: Solution) -> None:
        limits = {
            Status.ITERATION_LIMIT: (f"max_iter={self.max_iter}", "raise max_iter"),
            Status.TIME_LIMIT: (f"max_time={self.max_time}", "raise max_time"),
            Status.PRECISION_LIMIT: ("the limit of float64 precision", "raise tol"),
        }
        if solution.status not in limits:
            return
        c = solution.certificate
        limit, remedy = limits[solution.status]
        asked = f"kkt_violation <= {self.tol:g}"
        if self.gap_tol is not None:
            asked += f" and relative gap <= {self.gap_tol:g}"
        warnings.warn(
            f"stopped at {limit} with relative gap {c.relative_gap:.1e} (asked {asked}, got "
            f"kkt_violation {c.kkt_violation:.2g}); {remedy}, or scale the features.",
            ConvergenceWarning,
            stacklevel=7,
        )

    # ---- prediction -------------------------------------------------------------------------

    def _validate_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        mode = self._mode()
        if mode == "function":
            return X
        X = validate_data(self, X, dtype=[np.float64, np.float32], accept_sparse="csr", reset=False)
        if mode == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                "the number of samples at training time"
            )
        return X

    def _kernel_sums(self, X: Any, coef: Floats) -> Floats:
        """Return Σ_j coef_jq k(x_j, x) over the support vectors, shape (n_samples, n_outputs)."""
        mode = self._mode()
        if mode == "precomputed":
            sums: Floats = X[:, self.support_].astype(np.float64) @ coef
            return sums
        if mode == "function":
            K = evaluate(self.kernel_, X, self._X_fit)
            return np.asarray(K)[:, self.support_] @ coef
        return expand(self._basis(), as_rows(X), coef, n_threads=self.n_threads)

    def _dense_coef(self) -> Floats:
        """``dual_coef_``, which is sparse for sparse data, as an array."""
        coef: Any = self.dual_coef_
        dense: Floats = coef.toarray() if sp.issparse(coef) else coef
        return dense

    def _basis(self) -> _core.Basis:
        """The support vectors packed for the core; made once per set of support vectors."""
        made = self.__dict__.get("_packed")
        if made is None or made[0] is not self.support_vectors_:
            rows = as_rows(self.support_vectors_)
            made = (self.support_vectors_, _core.Basis(rows, None, self.kernel_.program()))
            self._packed = made
        basis: _core.Basis = made[1]
        return basis

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_packed"}

    @property
    def coef_(self) -> Any:
        """Weights of the features, for a linear kernel only; read-only, (1, n_features)."""
        if not isinstance(self._kernel_object(), Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        coef = safe_sparse_dot(self.dual_coef_, self.support_vectors_)
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False
        return coef
