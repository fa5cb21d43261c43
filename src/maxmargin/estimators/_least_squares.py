"""What the estimators share whose training is a linear system: kernel ridge and LS-SVM."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, LinAlgWarning, norm
from sklearn.base import MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from maxmargin import _core
from maxmargin.certificate import Certificate, combine, prove
from maxmargin.estimators._machine import WIDE, KernelMachine, take
from maxmargin.estimators._typed import typed
from maxmargin.grams import Gram, as_rows, evaluate, expand
from maxmargin.inverses import Dense, Features, Inverse, System
from maxmargin.kernels import Kernel, Linear, Precomputed
from maxmargin.linear_systems import Answer, fits, loo_residuals, solve
from maxmargin.problems import least_squares

__all__ = ["KernelLeastSquares", "LeastSquaresRegressor"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LARGE = 1e153  # norm of the targets: its square is still a number


class KernelLeastSquares(KernelMachine):
    """Base of the estimators whose training is ``(K + D) β + b = y``; they document parameters."""

    _bias: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "solver": [StrOptions({"auto", "primal", "dual"})],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
    }

    # ---- what an estimator says ---------------------------------------------------------------

    def _kernel_object(self) -> Kernel | None:
        """The kernel; None for one that only scikit-learn's ``pairwise_kernels`` knows."""
        raise NotImplementedError

    def _pairwise(self, X: Any, Z: Any = None) -> Floats:
        """Such a kernel's matrix."""
        raise NotImplementedError

    def _encode(self, X: Any, y: Any, weight: Floats | None) -> tuple[Floats, Floats | None]:
        """The targets as columns, and what each row's squared error weighs."""
        raise NotImplementedError

    def _ridge(self, n_targets: int) -> Floats:
        """The λ of each target: K + λ / weight is the matrix of its system."""
        raise NotImplementedError

    def _scale(self, ridge: float) -> float:
        """By what the values of ½‖w‖² + ½ Σ (weight / λ) error² are reported multiplied."""
        return 1.0

    def _store(self, beta: Floats, b: Floats) -> None:
        raise NotImplementedError

    def _columns(self) -> Floats:
        """The fitted coefficients, (n_samples, n_targets)."""
        raise NotImplementedError

    def _offsets(self) -> Floats:
        return np.zeros(self._columns().shape[1])

    # ---- data ---------------------------------------------------------------------------------

    def _mode(self) -> str:
        """How kernel values are made: "compiled", "precomputed", "function" or "pairwise"."""
        kernel = self._kernel_object()
        if kernel is None:
            return "pairwise"
        if isinstance(kernel, Precomputed):
            return "precomputed"
        return "compiled" if kernel.compiled else "function"

    def _validate(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        if self._mode() == "precomputed" and sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported.")
        checked: tuple[Any, Any] = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options
        )
        return checked

    def _validate_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if sp.issparse(X) and self._mode() == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        return X

    def _weights(self, sample_weight: ArrayLike | None, X: Any) -> Floats | None:
        if sample_weight is None:
            return None
        weight: Floats = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        return weight

    def _gram(self, X: Any, weight: Floats | None) -> Gram:
        kernel = self._kernel_object()
        if kernel is None:
            gram = Gram(Precomputed(), self._pairwise(X), n_threads=self.n_threads)
            if isinstance(self.kernel, str) and self.kernel == "cosine":
                gram.convex = True  # the linear kernel of rows of length 1
            return gram
        if weight is not None and not isinstance(kernel, Precomputed):
            kernel = kernel.resolve(X, weight)
        return Gram(kernel, X, n_threads=self.n_threads)

    # ---- fitting ------------------------------------------------------------------------------

    @typed(_fit_context(prefer_skip_nested_validation=True))
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The symmetric matrix of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Class labels or targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            At least 0. A weight of 2 is the same as the row twice.

        Returns
        -------
        self : object
        """
        X, y = self._validate_fit(X, y)
        given = self._weights(sample_weight, X)
        Y, weight = self._encode(X, y, given)
        if not norm(Y.ravel()) < _LARGE:
            raise ValueError(
                f"the squares of y overflow (largest value {np.abs(Y).max():.3g}); scale the "
                "targets first."
            )
        ridge = self._ridge(Y.shape[1])
        kept, gram, w = self._training(X, weight, given)
        answer, ridge = self._solve(gram, Y[kept], ridge, w)
        proofs = self._proofs(gram, Y[kept], ridge, w, answer.beta, answer.b, answer.kbeta)
        self._keep(X, Y, kept, w, ridge, gram)
        beta = np.zeros_like(Y)
        beta[kept] = answer.beta
        self._store(beta, answer.b)
        self._store_proof(answer, proofs)
        self._warn(answer)
        return self

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def _training(
        self, X: Any, weight: Floats | None, given: Floats | None
    ) -> tuple[Ints, Gram, Floats]:
        """The rows with weight, their Gram and their weights; ``given`` are those of γ."""
        n = X.shape[0]
        if weight is None or (weight > 0).all():
            return np.arange(n), self._gram(X, given), np.ones(n) if weight is None else weight
        kept = np.flatnonzero(weight > 0)
        part = take(X, kept, square=self._mode() == "precomputed")
        return kept, self._gram(part, None if given is None else given[kept]), weight[kept]

    def _keep(
        self, X: Any, Y: Floats, kept: Ints, weight: Floats, ridge: Floats, gram: Gram
    ) -> None:
        """Remember what prediction and leave-one-out need."""
        self.X_fit_ = X
        self._training_set = (Y, kept, weight, ridge)
        self.__dict__.pop("kernel_", None)  # of an earlier fit
        if self._mode() != "pairwise":
            self.kernel_ = gram.kernel

    def _solve(self, gram: Gram, Y: Floats, ridge: Floats, weight: Floats) -> tuple[Answer, Floats]:
        """Solve for all targets; return also the λ of each."""
        found = None
        for system in self._systems(gram, ridge):
            try:
                found = self._solve_with(system, Y, ridge, weight)
            except LinAlgError as reason:
                if self.solver == "primal":
                    raise ValueError(
                        f"solver='primal' does not apply: {reason}. Use solver='dual'."
                    ) from reason
                continue
            if found.residual <= self.tol:
                break
        assert found is not None
        return found, ridge

    def _systems(self, gram: Gram, ridge: Floats) -> Iterator[System]:
        """The ways to solve, the cheapest first: N3's primal and dual solutions are the same."""
        linear = isinstance(gram.kernel, Linear)
        if self.solver == "primal":
            if not linear:
                raise ValueError(
                    f"solver='primal' needs the linear kernel; got kernel={self.kernel!r}. Use "
                    "solver='dual'."
                )
            yield Features(gram.X)
            return
        few = linear and gram.X.shape[1] < gram.n and fits(gram.X.shape[1])
        if self.solver == "auto" and few and (ridge > 0).all():
            yield Features(gram.X)
        yield self._whole(gram)

    def _solve_with(self, system: System, Y: Floats, ridge: Floats, weight: Floats) -> Answer:
        first = float(ridge[0])
        if (ridge == first).all():
            return solve(system, first / weight, Y, bias=self._bias, tol=self.tol)
        beta, kbeta, b, answers = np.empty_like(Y), np.empty_like(Y), np.empty(len(ridge)), []
        for value in np.unique(ridge):
            at = ridge == value
            answer = solve(system, value / weight, Y[:, at], bias=self._bias, tol=self.tol)
            beta[:, at], kbeta[:, at], b[at] = answer.beta, answer.kbeta, answer.b
            answers.append(answer)
        return replace(
            max(answers, key=lambda answer: answer.residual),
            beta=beta,
            kbeta=kbeta,
            b=b,
            definite=all(answer.definite for answer in answers),
        )

    def _proofs(
        self,
        gram: Gram,
        Y: Floats,
        ridge: Floats,
        weight: Floats,
        beta: Floats,
        b: Floats,
        kbeta: Floats | None = None,
    ) -> list[Certificate]:
        proofs = []
        for k, (y, value) in enumerate(zip(Y.T, ridge.tolist(), strict=True)):
            C = 1.0 / value if value > 0 else np.inf
            problem = least_squares(
                gram, y, C=C, sample_weight=weight, bias=self._bias, scale=self._scale(value)
            )
            point = problem.project(beta[:, k])
            if kbeta is not None and np.array_equal(point, beta[:, k]):
                gram.remember(point, kbeta[:, k])
            # The violation is a difference of two components of a residual below tol ‖y‖.
            tol = 2 * self.tol * float(norm(y))  # LAPACK's, which neither over- nor underflows
            proofs.append(prove(problem, point, b[k : k + 1] if self._bias else b[:0], tol=tol))
        return proofs

    def _store_proof(self, answer: Answer, proofs: list[Certificate]) -> None:
        self.certificates_, self.certificate_ = proofs, combine(proofs)
        self.residual_, self.solver_ = answer.residual, answer.method

    def _warn(self, answer: Answer) -> None:
        said = f"relative residual {answer.residual:.1e}"
        if not answer.definite:
            warnings.warn(
                "K with its regularised diagonal is singular or not positive definite: this is the "
                f"least-squares solution by eigenvalues, {said}. Regularise more, or use a Mercer "
                "kernel.",
                LinAlgWarning,
                stacklevel=4,
            )
        elif answer.residual > self.tol:
            warnings.warn(
                f"the system is ill-conditioned: float64 solves it to {said} only (asked "
                f"{self.tol:g}). Regularise more, or scale the features.",
                LinAlgWarning,
                stacklevel=4,
            )

    # ---- prediction ---------------------------------------------------------------------------

    def _values(self, X: Any) -> Floats:
        """f(x) of each target, (n_samples, n_targets)."""
        mode, coef = self._mode(), self._columns()
        if mode == "precomputed":
            sums: Any = _times(X.astype(np.float64, copy=False), coef)
        elif mode == "pairwise":
            sums = _times(self._pairwise(X, self.X_fit_), coef)
        elif mode == "function":
            sums = _times(evaluate(self.kernel_, X, self.X_fit_), coef)
        elif isinstance(self.kernel_, Linear) and X.shape[1] <= WIDE:
            sums = X.astype(np.float64, copy=False) @ self._weights_of_features()
        else:
            basis = _core.Basis(as_rows(self.X_fit_), None, self.kernel_.program())
            sums = expand(basis, as_rows(X), coef, n_threads=self.n_threads)
        values: Floats = np.asarray(sums) + self._offsets()
        return values

    def _weights_of_features(self) -> Floats:
        """W of each target, for the linear kernel: (n_features, n_targets)."""
        return np.asarray(self.X_fit_.T.astype(np.float64, copy=False) @ self._columns())

    def _loo_values(self) -> Floats:
        """f(x_i) of the model without row i, for each target."""
        check_is_fitted(self)
        Y, kept, weight, ridge = self._training_set
        values = np.full_like(Y, np.nan)
        if len(kept) < len(Y):  # rows without weight take no part: the model is without them
            values[:] = self._values(self.X_fit_)
        inverse, beta = self._inverses(weight), self._columns()[kept]
        for value in np.unique(ridge).tolist():
            at = np.flatnonzero(ridge == value)
            off = loo_residuals(inverse(value), beta[:, at], bias=self._bias)
            values[np.ix_(kept, at)] = Y[np.ix_(kept, at)] - off
        return values

    def _inverses(self, weight: Floats) -> Callable[[float], Inverse]:
        """The inverse of K + λ / weight on the rows with weight, for each λ."""
        kept, kernel = self._training_set[1], vars(self).get("kernel_")
        part = take(self.X_fit_, kept, square=self._mode() == "precomputed")
        gram = self._gram(part, None) if kernel is None else Gram(kernel, part)
        system = Features(gram.X) if self.solver_ == "primal" else self._whole(gram)
        return lambda value: system.inverse(value / weight)

    def _whole(self, gram: Gram) -> Dense:
        if gram.matrix is None and not fits(gram.n):
            raise MemoryError(
                f"the {gram.n} x {gram.n} Gram matrix does not fit in memory; use fewer rows, or "
                "approximate the kernel by features (sklearn.kernel_approximation.Nystroem)."
            )
        return Dense(gram)

    # ---- proof --------------------------------------------------------------------------------

    def certify(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Certificate:
        """Prove the fitted model again from its training data.

        Parameters
        ----------
        X, y, sample_weight
            As given to ``fit``.

        Returns
        -------
        Certificate
            Its status is None if the model does not keep what ``tol`` promises.
        """
        check_is_fitted(self)
        twin = type(self)(**self.get_params(deep=False))
        X, y = twin._validate_fit(X, y)
        same = X.shape == self.X_fit_.shape and abs(X - self.X_fit_).max() == 0
        if not same:
            raise ValueError(f"pass the training data: X of shape {self.X_fit_.shape} at fit.")
        given = twin._weights(sample_weight, X)
        Y, weight = twin._encode(X, y, given)
        beta, b = self._columns(), self._offsets()
        if Y.shape[1] != beta.shape[1]:
            raise ValueError("pass the training data: y has other targets than at fit.")
        kept, gram, w = twin._training(X, weight, given)
        ridge = self._training_set[3]
        return combine(self._proofs(gram, Y[kept], ridge, w, beta[kept], b))


class LeastSquaresRegressor(MultiOutputMixin, RegressorMixin, KernelLeastSquares):
    """Targets to columns, kernel sums to predictions."""

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        return self._validate(X, y, multi_output=True, y_numeric=True)

    def _encode(self, X: Any, y: Any, weight: Floats | None) -> tuple[Floats, Floats | None]:
        self._flat = y.ndim == 1
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1), weight

    def _shaped(self, values: Floats) -> Floats:
        return values[:, 0] if self._flat else values

    def predict(self, X: Any) -> Floats:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        return self._shaped(self._values(self._validate_predict(X)))

    def loo_predictions(self) -> Floats:
        """Predict each training row by the model without it, in closed form.

        The kernel and the weights of the other rows stay as they are; the row is left out with all
        its weight.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        return self._shaped(self._loo_values())


def _times(K: Floats, coef: Floats) -> Floats:
    """K @ coef; BLAS is much faster if it knows that there is one column."""
    out: Floats = K @ coef if coef.shape[1] > 1 else (K @ np.ascontiguousarray(coef[:, 0]))[:, None]
    return out
