"""What every search shares: candidates in, one computation, results as GridSearchCV has them."""

from __future__ import annotations

import functools
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics._scorer import _MultimetricScorer, get_scorer_names
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._cells import Split, worst
from maxmargin.estimators._chains import Chain
from maxmargin.estimators._task import Task
from maxmargin.estimators._typed import typed
from maxmargin.kernels import Precomputed, as_kernel
from maxmargin.progress import CellBar

__all__ = ["Search", "pieces_of"]

Floats = NDArray[np.float64]

_FOUND = {"best_index_", "best_score_", "best_params_", "best_estimator_", "refit_time_"}
_NEEDS_GAMMA = ("rbf", "poly", "sigmoid")


class Search(BaseSearchCV):
    """Base of the searches; their parameters are documented there."""

    error_score = np.nan
    return_train_score = False
    n_jobs = None
    pre_dispatch = "2*n_jobs"

    best_index_: int
    best_score_: float
    best_params_: dict[str, Any]
    cv_results_: dict[str, Any]
    report_: dict[str, Any]
    refit_time_: float
    n_splits_: int

    if TYPE_CHECKING:  # scikit-learn has no types

        def predict(self, X: Any) -> NDArray[Any]: ...

        def score(self, X: Any, y: Any = None, **params: Any) -> float: ...

    _machine: ClassVar[type[SupportVectorMachine]]
    _along: ClassVar[str] = "C"
    _refuses: ClassVar[bool] = False  # members of a chain, for their counts
    _closer: ClassVar[float] = 1.0  # of tol: what chains are solved to
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "gammas": ["array-like", Interval(Integral, 2, None, closed="left")],
        "kernels": [list, tuple, None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, list, tuple, set, dict, None],
        "refit": ["boolean", str, callable],
        "refine": ["boolean"],
        "discard": ["boolean"],
        "max_time": [None, Interval(Real, 0.0, None, closed="left")],
        "verbose": ["verbose"],
    }

    @classmethod
    @functools.cache
    def _get_param_names(cls) -> list[str]:
        names: list[str] = super()._get_param_names()
        return names

    @property
    def estimator(self) -> SupportVectorMachine:
        """The machine whose parameters are searched."""
        names = set(self._machine._get_param_names()) & set(type(self)._get_param_names())
        given = {name: getattr(self, name) for name in names - {"max_time", "verbose"}}
        machine = self._machine(**given)
        if get_config()["enable_metadata_routing"]:  # weights given to a search are for its fits
            machine.set_fit_request(sample_weight=True)
            machine.set_score_request(sample_weight=True)
        return machine

    @property
    def n_iter_(self) -> Any:
        """Iterations of the refit."""
        return self.best_estimator_.n_iter_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a search came to its end; one that did not may have results all the same."""
        return hasattr(self, "best_estimator_" if self.refit else "cv_results_")

    # ---- the grid -----------------------------------------------------------------------------

    def _values(self, X: Any, y: Any, weight: Floats | None) -> dict[str, list[Any]]:
        """The values along C (or ν), and others beside it."""
        raise NotImplementedError

    def _gamma_values(self, X: Any, weight: Floats | None) -> list[Any]:
        if not isinstance(self.gammas, Integral):
            return list(self.gammas)
        if self.estimator._mode() != "compiled" and self.kernels is None:
            return ["scale"]
        scale = float(as_kernel("rbf").resolve(X, weight).get_params()["gamma"])
        return [float(g) for g in scale * np.logspace(-3, 1, int(self.gammas))]

    def _grids(self, X: Any, y: Any, weight: Floats | None) -> list[dict[str, list[Any]]]:
        along, grids = self._values(X, y, weight), []
        for kernel in [self.kernel] if self.kernels is None else list(self.kernels):
            grid = dict(along)
            if isinstance(kernel, str) and kernel in _NEEDS_GAMMA:
                grid["gamma"] = self._gamma_values(X, weight)
            if self.kernels is not None:
                grid["kernel"] = [kernel]
            grids.append(grid)
        return grids

    def _refused(self, chain: Chain, settings: list[dict[str, Any]]) -> list[str]:
        """Why members of a chain have no solution; empty where they have."""
        return [""] * len(settings)

    def _copies(self, task: Task) -> int:
        """In how many problems of a split a row is, or how often."""
        return 2

    def _clear(self, lam: Floats, primal: Floats, tol: float) -> NDArray[np.bool_]:
        """Where a violation up to ``tol`` leaves digits in the decision values."""
        return np.ones(primal.shape, dtype=bool)

    # ---- fitting ------------------------------------------------------------------------------

    @typed(_fit_context(prefer_skip_nested_validation=False))
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Search, and fit the best machine to all data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The symmetric matrix of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            For fits, and for scorers that take it, as in GridSearchCV.
        groups : array-like of shape (n_samples,), default=None
            For the splitter.

        Returns
        -------
        self : object
        """
        began, machine = time.perf_counter(), self.estimator
        scorers, refit_metric = self._get_scorers()
        self._check_kernels()
        machine._check_settings()
        checked, labels = machine._validate_fit(X, y)
        precomputed = machine._mode() == "precomputed"
        X_given, y_given = indexable(checked if precomputed else X, y)
        given = {"sample_weight": sample_weight, "groups": groups}
        routed = self._get_routed_params_for_fit({k: v for k, v in given.items() if v is not None})
        weight = machine._weights(routed.estimator.fit.get("sample_weight"), checked)
        cv = check_cv(self.cv, y, classifier=is_classifier(machine))
        rows = np.arange(len(labels))
        splits = [
            Split(rows[_places(train)], rows[_places(test)])
            for train, test in cv.split(X_given, y_given, **routed.splitter.split)
        ]
        if not splits:
            raise ValueError("cv has no splits (left); an iterator can be used once only.")
        candidates = list(ParameterGrid(self._grids(checked, labels, weight)))
        task = Task(self, machine, checked, labels, weight, splits, scorers, began)
        task.given = X_given, y_given
        task.passed = {name: np.asarray(v) for name, v in routed.scorer.score.items()}
        self.n_splits_ = len(splits)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        for name in _FOUND.intersection(vars(self)):  # a search that ends early has none
            delattr(self, name)
        with CellBar(type(self).__name__) if self.verbose else nullcontext() as task.bar:
            try:
                task.run(candidates)
                if self.refine:
                    task.refine()
            except KeyboardInterrupt as pressed:
                self._keep(task, refit_metric)
                raise KeyboardInterrupt(self._stopped(task)) from pressed
        self._raise_failures(task)
        self._store_results(task, refit_metric)
        self._warn_of_time(task)
        del task  # and its matrices
        if self.refit:
            self._refit(X, y, routed.estimator.fit)
        return self

    def _check_kernels(self) -> None:
        if self.kernels is None:
            return
        if not len(self.kernels):
            raise ValueError("kernels is empty; pass kernels to try, or None.")
        if self.estimator._mode() == "precomputed":
            raise ValueError('kernels must be None with kernel="precomputed".')
        if any(isinstance(k, Precomputed) or str(k) == "precomputed" for k in self.kernels):
            raise ValueError('kernels cannot hold "precomputed"; pass kernel="precomputed".')

    def _keep(self, task: Task, refit_metric: str) -> None:
        """Store what Ctrl-C has left."""
        with suppress(Exception):  # no candidate is finished, or `refit` is not made for NaN
            self._store_results(task, refit_metric)

    @staticmethod
    def _stopped(task: Task) -> str:
        fits = task.report()
        done = fits["n_fits"] - fits["n_not_reached"]
        return (
            f"search stopped after {done} of {fits['n_fits']} fits; cv_results_ has their scores, "
            "and nothing was refitted."
        )

    def _warn_of_time(self, task: Task) -> None:
        missing, fits = task.report()["n_not_reached"], task.cells.status.size
        if missing:
            warnings.warn(
                f"max_time={self.max_time:g} ended the search: {missing} of {fits} fits were not "
                "reached, and their scores are NaN. The best is that of the candidates reached on "
                "every split.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _raise_failures(self, task: Task) -> None:
        cells = task.cells
        if not cells.errors:
            return
        counts = Counter(cells.errors)
        told = "\n".join(f"{count} fits failed: {text}" for text, count in counts.items())
        if all(score is None for row in cells.scores for score in row):
            raise ValueError(next(iter(counts)) if len(counts) == 1 else told) from task.cause
        warnings.warn(f"{told}\nTheir scores are NaN.", FitFailedWarning, stacklevel=4)

    def _store_results(self, task: Task, refit_metric: str) -> None:
        candidates, cells = task.candidates, task.cells
        scores = [score for row in cells.scores for score in row]
        named = isinstance(task.scorers, _MultimetricScorer)
        none = dict.fromkeys(task.scorers._scorers, np.nan) if named else np.nan
        some: Any = next((s for s in scores if isinstance(s, dict)), none)
        many = isinstance(some, dict)  # as a function of scores may say too
        missing = dict.fromkeys(some, np.nan) if many else np.nan
        shape = cells.fit_time.shape
        out = [
            {
                "fit_time": cells.fit_time[c, f],
                "score_time": cells.score_time[c, f],
                "test_scores": missing if s is None or (many and not isinstance(s, dict)) else s,
            }
            for (c, f), s in zip(np.ndindex(*shape), scores, strict=True)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cells without a score are told of elsewhere
            more = {
                "mean_n_support": np.nanmean(cells.n_support, axis=1),
                "max_kkt_violation": np.nanmax(cells.violation, axis=1),
                "max_relative_gap": np.nanmax(cells.gap, axis=1),
                "mean_n_iter": np.nanmean(cells.n_iter, axis=1),
                "status": worst(cells.status).astype(str),
            }
            results = self._format_results(candidates, self.n_splits_, out, more)
        self.multimetric_ = many
        self.cv_results_, self.report_ = results, task.report()
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(some)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            chosen = callable(self.refit)  # which may look at any metric
            known = chosen or np.isfinite(results[f"mean_test_{refit_metric}"]).any()
            short = (cells.status == "not reached").any()
            if short and not known:
                raise ValueError(
                    "no candidate was finished on every split; allow more max_time, or pass fewer "
                    "candidates. cv_results_ has the scores of the others."
                )
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]

    def _refit(self, X: Any, y: Any, given: dict[str, Any]) -> None:
        began = time.perf_counter()
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        try:
            best.fit(X, y, **given)
        finally:
            if hasattr(best, "support_"):  # of a fit that Ctrl-C ends the best model so far
                self.best_estimator_ = best
        self.refit_time_ = time.perf_counter() - began
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


def _places(part: Any) -> NDArray[Any]:
    """Indices or a mask, as a splitter gives them; a list may be empty."""
    return np.asarray(part) if len(part) else np.zeros(0, dtype=np.int64)


def pieces_of(values: Sequence[Any]) -> list[Any]:
    """A list of what a search tries."""
    return [v.item() if isinstance(v, np.generic) else v for v in values]
