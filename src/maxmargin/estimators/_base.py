"""What every support vector machine shares: data in, solved problems, kernel sums out."""

from __future__ import annotations

import functools
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from maxmargin import _core
from maxmargin.certificate import (
    Certificate,
    Status,
    certify,
    combine,
    infeasibility_proof,
    prove,
)
from maxmargin.estimators._callbacks import CallbackSupportMixin, fit_task, with_callbacks
from maxmargin.estimators._machine import KERNEL, WIDE, KernelMachine, take
from maxmargin.estimators._parts import (
    Before,
    HeldOut,
    Part,
    Piece,
    columns_of,
    passed,
    results,
    share_of,
    support_of,
    untouched,
)
from maxmargin.estimators._typed import typed
from maxmargin.grams import Gram, as_rows, default_cache_size, evaluate, expand, kept_memory
from maxmargin.kernels import Kernel, Linear, Precomputed, as_kernel
from maxmargin.ledger import Ledger, ledger
from maxmargin.problems import Problem
from maxmargin.progress import ProgressBar
from maxmargin.sharing import lookup
from maxmargin.solvers import SMO, Progress, Solution, solve
from maxmargin.tables import stack
from maxmargin.threads import one_blas_thread, thread_count

__all__ = ["FINE", "SupportVectorMachine"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FINE = (Status.OPTIMAL, Status.STATIONARY)
_TINY = 256  # rows: all entries at once cost less than asking for some of them several times
_SMALL = 2048  # rows: the whole Gram is 32 MB
_WORTH_THREADS = 20_000  # rows of all problems together: else Python's own work is most of it
_KEPT = 1 << 23  # cells: 64 MB
_HUGE = 1e150  # squares of larger cells overflow
_LIMITS = (Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.PRECISION_LIMIT)


class SupportVectorMachine(CallbackSupportMixin, KernelMachine):
    """Base of the estimators that solve the one QP; their parameters are documented there."""

    n_iter_: Any
    intercept_: Floats

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KERNEL,
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "shrinking": ["boolean"],
        "cache_size": [None, Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "gap_tol": [None, Interval(Real, 0.0, None, closed="neither")],
        "max_time": [None, Interval(Real, 0.0, None, closed="left")],
        "n_threads": [None, Interval(Integral, 1, None, closed="left")],
        "record_every": [None, Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
    }

    @classmethod
    @functools.cache  # asking for the signature takes longer than solving a small problem
    def _get_param_names(cls) -> list[str]:
        names: list[str] = super()._get_param_names()
        return names

    def _mode(self) -> str:
        """How kernel values are made: "compiled" in C++, "precomputed", or by a "function"."""
        if isinstance(self.kernel, str):
            return "precomputed" if self.kernel == "precomputed" else "compiled"
        if isinstance(self.kernel, Precomputed):
            return "precomputed"
        return "compiled" if getattr(self.kernel, "compiled", False) else "function"

    def _kernel_object(self) -> Kernel:
        return as_kernel(self.kernel, degree=self.degree, gamma=self.gamma, coef0=self.coef0)

    # ---- what a formulation says --------------------------------------------------------------

    def _parts(self, X: Any, y: Any, weight: Floats | None) -> list[Part]:
        """The problems to solve; everything that counts alone can refuse is refused here."""
        raise NotImplementedError

    def _piece(self, part: Part, solution: Solution) -> Piece:
        """A solution in the model's units."""
        coef = solution.problem.by_row(solution.beta)
        return self._made(part, solution, coef, solution.parameters)

    def _made(self, part: Part, solution: Solution, coef: Floats, found: dict[str, float]) -> Piece:
        s = solution
        coef = coef.reshape(len(part.rows), -1)
        support = np.flatnonzero(coef if coef.shape[1] == 1 else coef.any(axis=1))
        return Piece(part.rows[support], coef[support], found, s.certificate, s.history, s.n_iter)

    def _held_out(
        self, part: Part, solution: Solution, solver: SMO, stop: Callable[[], bool]
    ) -> HeldOut | None:
        """What probabilities are learned from, for a machine that has them."""
        return None

    def _variables(self, problem: Problem, coef: Floats) -> Floats:
        """The β of coefficients in the model's units."""
        return problem.lift(coef)

    def _multipliers(self, problem: Problem, k: int) -> Floats:
        """What the fitted model says about λ in its k-th problem."""
        return np.asarray(self.intercept_[k : k + 1], dtype=np.float64)

    def _columns(self) -> Floats:
        """The fitted coefficients, (n_SV, n_outputs)."""
        return self._dense_coef().T

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        """Set the fitted attributes of a machine with one problem."""
        support = support_of(pieces)
        self._store_support(X, support, columns_of(pieces, support).T)
        self.n_support_ = np.array([len(support)], dtype=np.int32)
        self.n_iter_ = pieces[0].n_iter

    # ---- fitting ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse parameters that do not go together."""

    @typed(with_callbacks)
    @typed(_fit_context(prefer_skip_nested_validation=True))
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the machine to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The symmetric matrix of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels or targets; ignored where there are none to learn.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of 2 is the same as the row twice. Rows of weight 0 or less are left out.

        Returns
        -------
        self : object
            On Ctrl-C the best model so far is stored with its certificate, and KeyboardInterrupt
            goes on, so that a surrounding search stops too.
        """
        before = dict(vars(self))
        try:
            # Once for all that is inside; a user's own function may use all threads.
            with nullcontext() if self._mode() == "function" else one_blas_thread():
                interrupted = self._fit(X, y, sample_weight)
        except BaseException:  # what was fitted before stays as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self._warn()
        if interrupted:
            gap = self.certificate_.relative_gap
            known = f"at relative gap {gap:.1e}" if gap < np.inf else "before its gap was computed"
            raise KeyboardInterrupt(
                f"fit stopped {known}; the estimator keeps the model so far, and certify(X, y) "
                "proves how good it is."
            )
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> bool:
        """Fit; tell whether Ctrl-C ended it."""
        before = Before.of(self) if self.warm_start else None
        X, y = self._validate_fit(X, y)
        parts = self._parts(X, y, self._weights(sample_weight, X))
        reused = before if before is not None and before.applies(self, X) else None
        self.n_reused_ = 0 if reused is None else len(reused.support)
        with kept_memory():
            pieces, interrupted = self._solve(parts, reused, X, y)
        self._store(X, y, pieces)
        self._store_proof(pieces)
        return interrupted

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check X and y as scikit-learn does; a Python function's X may be anything."""
        mode = self._mode()
        if mode == "precomputed" and sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported.")
        required = self.__sklearn_tags__().target_tags.required
        if mode == "function":
            if required:
                check_consistent_length(X, y)
            return X, y
        given = {"y": y} if required else {}
        checked = validate_data(
            self, X, **given, dtype=[np.float64, np.float32], accept_sparse="csr"
        )
        return checked if required else (checked, None)

    def _weights(self, sample_weight: ArrayLike | None, X: Any) -> Floats | None:
        if sample_weight is None:
            return None
        weight: Floats = _check_sample_weight(
            sample_weight, X, dtype=np.float64, allow_all_zero_weights=True
        )
        if not (weight > 0).any():
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        return weight

    def _keep(self, X: Any, weight: Floats | None) -> tuple[Ints, Any, Floats | None]:
        """Leave out the rows without weight."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if weight is None or (weight > 0).all():
            return np.arange(n), X, weight
        kept = np.flatnonzero(weight > 0)
        return kept, take(X, kept, square=self._mode() == "precomputed"), weight[kept]

    def _gram(self, X: Any, sample_weight: Floats | None) -> Gram:
        kernel, mode = self._kernel_object(), self._mode()
        if mode == "compiled":
            cells = X.data if sp.issparse(X) else X
            largest = max(float(cells.max(initial=0)), -float(cells.min(initial=0)))
            if largest > _HUGE:
                raise ValueError(
                    "The dual coefficients or intercepts are not finite: squares of cells like "
                    f"{largest:g} overflow. Scale the features first."
                )
        if sample_weight is not None and mode != "precomputed":
            kernel = kernel.resolve(X, sample_weight)
        if mode == "compiled" and (shared := lookup(kernel, X, n_threads=self.n_threads)):
            return shared
        gram = Gram(kernel, X, n_threads=thread_count(self.n_threads))
        return gram.stored() if mode == "compiled" and gram.n <= _TINY else gram

    def _fits(self, gram: Gram) -> bool:
        """Whether the whole Gram in float64 is small, and within the cache."""
        size = 8 * gram.n**2
        return gram.n <= _SMALL and (self.cache_size is None or size <= self.cache_size * 2**20)

    def _solver(self) -> SMO:
        return SMO(
            shrinking=self.shrinking,
            cache_size=self.cache_size,
            n_threads=thread_count(self.n_threads),
            record_every=self.record_every,
        )

    def _solve(
        self, parts: Sequence[Part], before: Before | None, X: Any, y: Any
    ) -> tuple[list[Piece], bool]:
        """Solve one part after the other; also tell whether Ctrl-C ended it."""
        told, end, watched = fit_task(self, X, y)
        until = None if self.max_time is None else time.perf_counter() + self.max_time
        worth = len(parts) > 1 and sum(len(part.rows) for part in parts) > _WORTH_THREADS
        threads = thread_count(self.n_threads) if worth else 1
        if threads > 1 and not (watched or self.verbose):
            found = self._solve_in_threads(parts, before, until, min(threads, len(parts)))
            end()
            return found
        pieces: list[Piece] = []
        stopped = interrupted = False
        solver = self._solver()

        def callback(progress: Progress) -> bool:
            nonlocal stopped
            if bar is not None:
                bar(progress)
            stopped = told(progress) or stopped
            return stopped

        told_of = callback if watched or self.verbose else None
        with ProgressBar(type(self).__name__) if self.verbose else nullcontext() as bar:
            try:
                for k, part in enumerate(parts):
                    if bar is not None and len(parts) > 1:
                        bar.begin(f"{type(self).__name__} {k + 1}/{len(parts)}")
                    problem = part.make()
                    self.kernel_ = problem.gram.kernel
                    start = None if before is None else before.start(self, part, problem, k)
                    end_of_part = share_of(until, len(parts) - k)
                    solution = self._solve_one(part, problem, solver, start, end_of_part, told_of)
                    pieces.append(self._piece(part, solution))
                    interrupted = solution.status is Status.INTERRUPTED
                    if interrupted or stopped:
                        break
                    held = self._held_out(part, solution, solver, partial(passed, until))
                    if held is not None:
                        pieces[-1] = replace(pieces[-1], held_out=held)
            except KeyboardInterrupt:  # between two problems
                if not pieces:
                    raise
                interrupted = True
        pieces += [untouched(part) for part in parts[len(pieces) :]]
        end()
        return pieces, interrupted and not stopped

    def _solve_in_threads(
        self, parts: Sequence[Part], before: Before | None, until: float | None, threads: int
    ) -> tuple[list[Piece], bool]:
        """Solve several parts at a time, each with one thread: the same results, bit for bit."""
        halt = threading.Event()
        whole = self._solver()
        size = default_cache_size() if whole.cache_size is None else whole.cache_size
        solver = replace(whole, n_threads=1, cache_size=size / threads)

        def run(k: int) -> tuple[Solution, HeldOut | None] | None:
            if halt.is_set():
                return None
            problem = parts[k].make()
            problem.gram.n_threads = 1
            start = None if before is None else before.start(self, parts[k], problem, k)
            end = share_of(until, -(-(len(parts) - k) // threads))
            stop = lambda *_: halt.is_set() or passed(until)  # noqa: E731
            solution = self._solve_one(parts[k], problem, solver, start, end, stop)
            return solution, self._held_out(parts[k], solution, solver, stop)

        found: list[tuple[Solution, HeldOut | None] | None] = []
        with ThreadPoolExecutor(threads) as pool, one_blas_thread():
            try:
                found = results(pool, run, len(parts), halt)
            finally:
                halt.set()
        solved = [one[0] for one in found if one is not None]
        if not solved:
            raise KeyboardInterrupt  # before the first step
        self.kernel_ = solved[0].problem.gram.kernel
        pieces = [
            untouched(part) if one is None else replace(self._piece(part, one[0]), held_out=one[1])
            for part, one in zip(parts, found, strict=True)
        ]
        ended = any(s.status is Status.INTERRUPTED for s in solved)
        return pieces, ended or len(solved) < len(parts)

    def _solve_one(
        self,
        part: Part,
        problem: Problem,
        solver: SMO,
        start: Floats | None,
        until: float | None,
        callback: Callable[[Progress], bool] | None,
    ) -> Solution:
        solution = solve(
            problem,
            solver,
            tol=self.tol,
            gap_tol=self.gap_tol,
            max_iter=self.max_iter,
            max_time=None if until is None else max(until - time.perf_counter(), 0.0),
            beta=start,
            callback=callback,
        )
        if solution.status is Status.UNBOUNDED:
            raise ValueError(f"{problem.name} is unbounded: the kernel is not positive definite.")
        if solution.status is Status.INFEASIBLE:
            where = f"classes {part.name}: " if part.name else ""
            raise ValueError(where + infeasibility_proof(problem, solution.beta, part.rows))
        return solution

    def _store_support(self, X: Any, support: Ints, coef: Floats) -> None:
        """Set what prediction needs; ``support`` in the order of the columns of ``coef``."""
        mode = self._mode()
        self._sparse = sp.issparse(X) and mode == "compiled"
        self.support_ = support.astype(np.int32 if len(support) < 2**31 else np.int64)
        self.dual_coef_ = type(X)(coef) if self._sparse else np.ascontiguousarray(coef)
        self.support_vectors_ = X[self.support_] if mode == "compiled" else np.empty((0, 0))
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (len(X),)
        if mode == "function":
            self._X_fit = X

    def _store_proof(self, pieces: list[Piece]) -> None:
        self.certificates_ = [piece.certificate for piece in pieces]
        self.certificate_ = combine(self.certificates_)
        histories = [piece.history for piece in pieces]
        self.history_ = histories[0] if len(histories) == 1 else stack(histories, "problem")
        self.fit_status_ = 0 if self.certificate_.status in FINE else 1
        if self._mode() == "compiled" and self.support_vectors_.size <= _KEPT:
            self._basis()  # packed now, so that predicting changes nothing

    def _warn(self) -> None:
        limited = [c for c in self.certificates_ if c.status in _LIMITS]
        if not limited:
            return
        worst = max(limited, key=lambda c: c.relative_gap)
        limits = {
            Status.ITERATION_LIMIT: f"Solver terminated early (max_iter={self.max_iter})."
            "  Consider pre-processing your data with StandardScaler or MinMaxScaler.",
            Status.TIME_LIMIT: f"Solver stopped at max_time={self.max_time}.",
            Status.PRECISION_LIMIT: "Solver stopped at the limit of float64 precision: with such "
            "features and such a C, rounding proves no more. Scale the features, lower C, or raise "
            "tol.",
        }
        asked = f"kkt_violation <= {self.tol:g}"
        if self.gap_tol is not None:
            asked += f" and relative gap <= {self.gap_tol:g}"
        count = len(self.certificates_)
        where = f" in {len(limited)} of {count} problems, at worst" if count > 1 else ""
        warnings.warn(
            f"{limits[worst.status or Status.TIME_LIMIT]} It stopped{where} with relative gap "
            f"{worst.relative_gap:.1e} (asked {asked}, got kkt_violation "
            f"{worst.kkt_violation:.2g}).",
            ConvergenceWarning,
            stacklevel=5,
        )

    # ---- prediction ---------------------------------------------------------------------------

    def _validate_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        mode = self._mode()
        if mode == "function":
            return X
        X = validate_data(self, X, dtype=[np.float64, np.float32], accept_sparse="csr", reset=False)
        if sp.issparse(X) and not self._sparse:
            raise ValueError(
                f"cannot use sparse input in {type(self).__name__!r} trained on dense data"
            )
        if mode == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                "the number of samples at training time"
            )
        return X

    def _kernel_sums(self, X: Any) -> Floats:
        """Return Σ_j c_jq k(x_j, x) over the support vectors, shape (n_samples, n_outputs)."""
        mode, coef = self._mode(), self._columns()
        if mode == "precomputed":
            sums: Floats = X[:, self.support_].astype(np.float64) @ coef
            return sums
        if mode == "function":
            K = evaluate(self.kernel_, X, self._X_fit)
            return np.asarray(K)[:, self.support_] @ coef
        vectors = self.support_vectors_
        few = coef.size <= vectors.size and vectors.shape[1] <= WIDE
        if isinstance(self.kernel_, Linear) and few:
            return evaluate(self.kernel_, X, self._weights_of_features(), n_threads=self.n_threads)
        return expand(self._basis(), as_rows(X), coef, n_threads=self.n_threads)

    def _weights_of_features(self) -> Any:
        """W of each output, for the linear kernel: (n_outputs, n_features)."""
        vectors = self.support_vectors_
        if sp.issparse(vectors):
            return type(vectors)(self._columns().T) @ vectors
        return self._columns().T @ vectors.astype(np.float64)

    def _dense_coef(self) -> Floats:
        """``dual_coef_``, which is sparse for sparse data, as an array."""
        coef: Any = self.dual_coef_
        dense: Floats = coef.toarray() if sp.issparse(coef) else coef
        return dense

    def _basis(self) -> _core.Basis:
        """The support vectors packed for the core; kept, once made, unless they are many."""
        made = self.__dict__.get("_packed")
        if made is not None and made[0] is self.support_vectors_:
            kept: _core.Basis = made[1]
            return kept
        basis = _core.Basis(as_rows(self.support_vectors_), None, self.kernel_.program())
        if self.support_vectors_.size <= _KEPT:
            self._packed = (self.support_vectors_, basis)
        return basis

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_packed"}

    @property
    def coef_(self) -> Any:
        """Weights of the features, for a linear kernel only: (n_problems, n_features)."""
        if not isinstance(self._kernel_object(), Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        coef = self._weights_of_features()
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False
        return coef

    # ---- proof --------------------------------------------------------------------------------

    def certify(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Certificate:
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
        return combine(self._proofs(X, y, sample_weight))

    def _proofs(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> list[Certificate]:
        points = enumerate(self._fitted_points(X, y, sample_weight))
        promised = {"tol": self.tol, "gap_tol": self.gap_tol}
        return [prove(p, beta, self._multipliers(p, k), **promised) for k, (_, p, beta) in points]

    def ledger(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        as_frame: bool = False,
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
            See :func:`maxmargin.ledger.ledger`; one row per row of positive weight. Where several
            problems were solved, one below the other, with a column ``problem`` (the pair of
            classes); where a row of X is missing or comes twice, with a column ``row``.
        """
        tau, tables = min(self.tol, 0.5), []
        for part, problem, beta in self._fitted_points(X, y, sample_weight):
            table = ledger(problem, beta, certify(problem, beta, tol=self.tol), tau=tau)
            named: dict[str, Any] = {"problem": np.full(len(table), part.name)}
            rows = {} if len(table) == self.shape_fit_[0] else {"row": part.rows}
            several = {**named, "row": part.rows} if part.name else rows
            tables.append(Ledger({**several, **table}))
        whole = tables[0] if len(tables) == 1 else stack(tables)
        return whole.as_frame() if as_frame else whole

    def _fitted_points(
        self, X: Any, y: Any, sample_weight: Any
    ) -> Iterator[tuple[Part, Problem, Floats]]:
        """The training problems, and the β of this model in each."""
        check_is_fitted(self)
        twin = type(self)(**self.get_params(deep=False))
        X, y = twin._validate_fit(X, y)
        if (X.shape if hasattr(X, "shape") else (len(X),)) != self.shape_fit_:
            raise ValueError(f"pass the training data: X had shape {self.shape_fit_} at fit.")
        support, compiled = self.support_, self._mode() == "compiled"
        if compiled and len(support) and abs(X[support] - self.support_vectors_).max() > 0:
            raise ValueError("pass the training data: X differs at the support vectors.")
        parts = twin._parts(X, y, self._weights(sample_weight, X))
        outputs = self._columns()
        coef = np.zeros((self.shape_fit_[0], outputs.shape[1]))
        coef[support] = outputs
        if not np.array_equal(getattr(twin, "classes_", 0), getattr(self, "classes_", 0)):
            raise ValueError("pass the training data: y or sample_weight differs from that of fit.")
        for k, part in enumerate(parts):
            problem = part.make()
            own = coef[part.rows] if len(parts) == 1 else coef[part.rows, k : k + 1]
            beta = self._variables(problem, own)
            _check_bounds(problem, beta)
            yield part, problem, beta


def _check_bounds(problem: Problem, beta: Floats) -> None:
    slack = 1e-9 * np.abs(beta)
    if (beta < problem.l - slack).any() or (beta > problem.u + slack).any():
        raise ValueError("pass the training data: y, C or sample_weight differs from that of fit.")
