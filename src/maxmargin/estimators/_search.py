"""What every search shares: candidates in, one computation, results as GridSearchCV has them."""

from __future__ import annotations

import copy
import functools
import itertools
import logging
import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from numbers import Integral, Real
from queue import SimpleQueue
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics._scorer import _MultimetricScorer, _PassthroughScorer, get_scorer_names
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _score
from sklearn.utils import indexable
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split

from maxmargin import _core
from maxmargin.estimators._base import SupportVectorMachine, take
from maxmargin.estimators._chains import (
    Chain,
    Exact,
    Found,
    Layout,
    Members,
    refine,
    solve_chains,
)
from maxmargin.estimators._standing_in import standing_in
from maxmargin.estimators._typed import typed
from maxmargin.grams import Gram, default_cache_size
from maxmargin.kernels import RBF, Kernel, Precomputed, as_kernel
from maxmargin.progress import CellBar
from maxmargin.sharing import Products
from maxmargin.threads import thread_count

__all__ = ["Search"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DOUBLE = 2048  # rows: the whole Gram in float64 is 32 MB, about what caches hold
_ALWAYS = 2048  # rows: two Gram matrices are 64 MB, whatever the cache is
_LITTLE = 1024  # rows: a Gram more or less is 8 MB
_SHORT = 64  # features
_LOOK = 0.1  # seconds between two looks at Ctrl-C and the bar
_NEEDS_GAMMA = ("rbf", "poly", "sigmoid")
_LOGGER = logging.getLogger("maxmargin")


@dataclass
class Split:
    """A training set and a test set, and what a machine makes of the former."""

    train: Ints
    test: Ints
    turn: Any = None  # the order of `test` in which its rows lie in K
    machine: Any = None
    chains: list[Chain] = field(default_factory=list)
    error: str = ""  # why nothing can be fitted


@dataclass
class Cells:
    """What is known of every candidate (rows) on every split (columns)."""

    scores: list[list[Any]]  # None where there is none
    n_support: Floats
    violation: Floats
    gap: Floats
    n_iter: Floats
    fit_time: Floats
    score_time: Floats
    errors: list[str]
    status: NDArray[Any]

    @classmethod
    def empty(cls, candidates: int, splits: int) -> Cells:
        shape = (candidates, splits)
        nothing = [np.full(shape, np.nan) for _ in range(4)]
        times = [np.zeros(shape) for _ in range(2)]
        scores: list[list[Any]] = [[None] * splits for _ in range(candidates)]
        status = np.full(shape, "not reached", dtype=object)
        return cls(
            scores, nothing[0], nothing[1], nothing[2], nothing[3], times[0], times[1], [], status
        )

    def joined(self, other: Cells) -> Cells:
        def both(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(self, name), getattr(other, name)])

        return Cells(
            scores=self.scores + other.scores,
            n_support=both("n_support"),
            violation=both("violation"),
            gap=both("gap"),
            n_iter=both("n_iter"),
            fit_time=both("fit_time"),
            score_time=both("score_time"),
            errors=self.errors + other.errors,
            status=both("status"),
        )


@dataclass
class _Work:
    """What one matrix serves: settings that differ in C, ν or ε, and the candidates they are."""

    settings: list[dict[str, Any]]
    chosen: list[int]
    kernel: Any
    folds: list[int]


class Search(BaseSearchCV):
    """Base of the searches; their parameters are documented there."""

    error_score = np.nan
    return_train_score = False
    n_jobs = None
    pre_dispatch = "2*n_jobs"

    _machine: ClassVar[type[SupportVectorMachine]]
    _along: ClassVar[str] = "C"
    _closer: ClassVar[float] = 1.0  # of tol: what chains are solved to
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "gammas": ["array-like", Interval(Integral, 1, None, closed="left")],
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
        return machine

    @property
    def n_iter_(self) -> Any:
        """Iterations of the refit."""
        return self.best_estimator_.n_iter_

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

    def _clear(self, lam: Floats, primal: Floats, tol: float) -> NDArray[np.bool_]:
        """Of which members a violation up to ``tol`` leaves digits in the decision values."""
        return np.ones(primal.shape[1], dtype=bool)

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
        checked, labels = machine._validate_fit(X, y)
        precomputed = machine._mode() == "precomputed"
        X_given, y_given = indexable(checked if precomputed else X, y)
        given = {"sample_weight": sample_weight, "groups": groups}
        routed = self._get_routed_params_for_fit({k: v for k, v in given.items() if v is not None})
        weight = machine._weights(routed.estimator.fit.get("sample_weight"), checked)
        cv = check_cv(self.cv, y, classifier=is_classifier(machine))
        rows = np.arange(len(labels))
        splits = [
            Split(rows[np.asarray(train)], rows[np.asarray(test)])
            for train, test in cv.split(X_given, y_given, **routed.splitter.split)
        ]
        if not splits:
            raise ValueError("cv has no splits (left); an iterator can be used once only.")
        candidates = list(ParameterGrid(self._grids(checked, labels, weight)))
        task = _Task(self, machine, checked, labels, weight, splits, scorers, began)
        task.given = X_given, y_given
        task.passed = {name: np.asarray(v) for name, v in routed.scorer.score.items()}
        with CellBar(type(self).__name__) if self.verbose else nullcontext() as task.bar:
            cells = task.run(candidates)
            if self.refine:
                candidates, cells = task.refined(candidates, cells)
        self._raise_failures(cells, candidates)
        self.n_splits_ = len(splits)
        self._store_results(task, candidates, cells, refit_metric)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
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

    def _raise_failures(self, cells: Cells, candidates: list[dict[str, Any]]) -> None:
        if not cells.errors:
            return
        counts = Counter(cells.errors)
        told = "\n".join(f"{count} fits failed: {text}" for text, count in counts.items())
        if all(score is None for row in cells.scores for score in row):
            raise ValueError(next(iter(counts)) if len(counts) == 1 else told)
        warnings.warn(f"{told}\nTheir scores are NaN.", FitFailedWarning, stacklevel=4)

    def _store_results(
        self, task: _Task, candidates: list[dict[str, Any]], cells: Cells, refit_metric: str
    ) -> None:
        scores = [score for row in cells.scores for score in row]
        some: Any = next((s for s in scores if isinstance(s, dict)), np.nan)
        many = isinstance(some, dict)
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
                "status": np.array([_worst(row) for row in cells.status]),
            }
            results = self._format_results(candidates, self.n_splits_, out, more)
        self.multimetric_ = many
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(some)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            known = np.isfinite(results[f"mean_test_{refit_metric}"]).any()
            short = (cells.status == "not reached").any()
            if short and not known and not callable(self.refit):
                raise ValueError(
                    "no candidate was finished on every split; allow more max_time, or pass fewer "
                    "candidates."
                )
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        self.cv_results_ = results
        self.report_ = task.report(cells)

    def _refit(self, X: Any, y: Any, given: dict[str, Any]) -> None:
        began = time.perf_counter()
        self.best_estimator_ = clone(self.estimator).set_params(
            **clone(self.best_params_, safe=False)
        )
        self.best_estimator_.fit(X, y, **given)
        self.refit_time_ = time.perf_counter() - began
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


def _worst(statuses: NDArray[Any]) -> str:
    order = ("failed", "not reached", "discarded", "iteration_limit", "no margin", "stationary")
    return next((name for name in order if name in statuses), "optimal")


@dataclass(frozen=True)
class _Solved:
    """Solutions over one matrix, before they are scored."""

    found: Found
    folds: list[int]
    layout: Layout
    refused: NDArray[np.str_]
    seconds: float


class _Room:
    """Memory for the matrix of a kernel, used again for the next."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.cells: NDArray[Any] | None = None

    def square(self, dtype: type) -> NDArray[Any]:
        if self.cells is None or self.cells.dtype != dtype:
            self.cells = np.empty((self.n, self.n), dtype)
        return self.cells


class _Task:
    """One search under way."""

    bar: CellBar | None
    given: tuple[Any, Any]  # X and y as the caller has them: what splitters and scorers see
    passed: dict[str, NDArray[Any]]  # to the scorers

    def __init__(
        self,
        search: Search,
        machine: SupportVectorMachine,
        X: Any,
        y: Any,
        weight: Floats | None,
        splits: list[Split],
        scorers: Any,
        began: float,
    ) -> None:
        self.search, self.machine, self.X, self.weight = search, machine, X, weight
        self.splits, self.scorers, self.began = splits, scorers, began
        limit = search.max_time
        self.until = None if limit is None else began + limit
        self.threads = thread_count(machine.n_threads)
        self.n = len(y)
        codes, self.labels = search._codes(machine, y)
        self.order = np.lexsort((self._first_tests(), codes))
        self.place = np.empty(self.n, dtype=np.int64)
        self.place[self.order] = np.arange(self.n)
        for split in splits:
            split.turn = np.argsort(self.place[split.test], kind="stable")
        self._stores: dict[bool, Products] = {}
        self._layouts: dict[Any, tuple[list[int], Any]] = {}
        self.blocked = self._stopped = False
        self.planned = 0  # bytes
        self._lock, self._laying = threading.Lock(), threading.Lock()
        self._rooms: SimpleQueue[_Room] = SimpleQueue()
        self._kept = _core.KeptMemory()  # what one kernel took, the next takes again
        self._scoring = threading.Lock()  # a scorer may be anybody's
        self._busy, self._alone = 0, True  # matrices at work; nobody beside this thread
        self._hard: list[tuple[int, int, dict[str, Any]]] = []  # for the ordinary solver
        self._shares: list[float] = []
        self._sizes: list[int] = []

    def _first_tests(self) -> Ints:
        """Of each row, the first split that holds it out: what is read together lies together."""
        first = np.full(self.n, len(self.splits))
        for f in reversed(range(len(self.splits))):
            first[self.splits[f].test] = f
        return first

    # ---- what is left -------------------------------------------------------------------------

    def late(self) -> bool:
        """Whether to stop: time is up, or Ctrl-C."""
        return self._stopped or (self.until is not None and time.perf_counter() > self.until)

    def report(self, cells: Cells) -> dict[str, Any]:
        """What was done and what was avoided."""
        flat = cells.status.ravel().tolist()
        solved = np.isfinite(cells.violation)
        return {
            "n_cells": len(cells.scores),
            "n_fits": cells.status.size,
            "n_solved": int(solved.sum()),
            "n_carried_over": int((solved & (cells.n_iter == 0)).sum()),
            "n_discarded": flat.count("discarded"),
            "n_not_reached": flat.count("not reached"),
            "n_failed": flat.count("failed"),
            "memory_bytes": self.planned,
            "in_blocks": self.blocked,
            "seconds": time.perf_counter() - self.began,
        }

    # ---- memory -------------------------------------------------------------------------------

    def single(self, work: _Work) -> bool:
        """Whether the Gram is float32: as for a fit, beyond what float64 costs little."""
        largest = self.search._largest(work.settings, self.weight)
        precise = 2.0**-24 * largest <= self.machine.tol
        return self.n > _DOUBLE and precise and isinstance(work.kernel, RBF)

    def stores(self) -> bool:
        """Whether products are kept: short rows are multiplied anew in the time products load."""
        return bool(sp.issparse(self.X) or self.X.shape[1] > _SHORT)

    def at_once(self) -> int:
        """Kernels to solve for at a time: the memory of another is touched at a price."""
        return min(self.threads, 2 if self.n <= _LITTLE else 1)

    def memory(self, single: bool) -> int:
        """Bytes of the products, and of the matrices of the kernels at work."""
        return (8 * self.stores() + (4 if single else 8) * self.at_once()) * self.n**2

    def budget(self) -> int:
        size = self.machine.cache_size
        return int((default_cache_size() if size is None else size) * 2**20)

    # ---- running ------------------------------------------------------------------------------

    def run(self, candidates: list[dict[str, Any]]) -> Cells:
        """Score these candidates on all splits."""
        cells = Cells.empty(len(candidates), len(self.splits))
        rounds = [list(range(len(self.splits)))]
        if self.search.discard and len(self.splits) > 2:
            first = max(2, len(self.splits) // 2)
            rounds = [rounds[0][:first], rounds[0][first:]]
        for k, folds in enumerate(rounds):
            alive = [c for c in range(len(candidates)) if (cells.status[c] != "discarded").all()]
            self._run(candidates, alive, folds, cells)
            if k + 1 < len(rounds) and not self.late():
                self._discard(cells, folds)
        return cells

    def _run(
        self, candidates: list[dict[str, Any]], alive: list[int], folds: list[int], cells: Cells
    ) -> None:
        jobs: dict[Any, list[int]] = {}
        along = self.search._along
        for c in alive:
            rest = tuple(
                (name, id(value) if isinstance(value, Kernel) else value)
                for name, value in sorted(candidates[c].items())
                if name not in (along, "epsilon")
            )
            jobs.setdefault(rest, []).append(c)
        work = [
            _Work([candidates[c] for c in chosen], chosen, kernel, rows)
            for chosen in jobs.values()
            for kernel, rows in self._groups(candidates[chosen[0]], folds)
        ]
        self._shares = [0.0] * len(work)
        self._sizes = [len(w.chosen) * len(w.folds) for w in work]
        together = [k for k, w in enumerate(work) if self._shared(w)]
        self._solve_together([(k, work[k]) for k in together], cells)
        self._show()
        for c, f, setting in self._hard:
            if not self.late():
                self._fit_one(setting, c, f, cells)
        self._hard.clear()
        for k, w in enumerate(work):
            if k not in together and not self.late():
                self._one_by_one(w, cells, functools.partial(self._tell, k))

    def _solve_together(self, work: list[tuple[int, _Work]], cells: Cells) -> None:
        """Solve over shared matrices, as many at a time as memory allows, and score meanwhile."""
        at_once = min(len(work), self.at_once())
        self._rooms = SimpleQueue()
        for _ in range(at_once):
            self._rooms.put(_Room(self.n))
        count = min(len(work), self.threads, at_once + 1)
        if count < 2:
            for k, w in work:
                self._solve(k, w, cells)
            return
        queue = iter(work)

        def serve() -> None:
            while (item := self._next(queue)) is not None:
                self._solve(*item, cells)

        self._alone = False
        with ThreadPoolExecutor(count) as pool:
            try:
                servers = [pool.submit(serve) for _ in range(count)]
                while wait(servers, timeout=_LOOK, return_when=FIRST_EXCEPTION).not_done:
                    if any(s.done() and s.exception() for s in servers):
                        break
                    if self.bar is not None:
                        self._show()
            finally:  # on Ctrl-C too: they look at it between two chunks of work
                self._stopped = any(not s.done() for s in servers)
        self._alone = True
        for server in servers:
            server.result()

    @contextmanager
    def _room(self) -> Iterator[_Room]:
        """Memory for a matrix, once there is some."""
        room = self._rooms.get()
        with self._lock:
            self._busy += 1
        try:
            yield room
        finally:
            with self._lock:
                self._busy -= 1
            self._rooms.put(room)

    def _next(self, queue: Iterator[tuple[int, _Work]]) -> tuple[int, _Work] | None:
        with self._lock:
            return None if self.late() else next(queue, None)

    def _threads_now(self) -> int:
        """How many threads one matrix may have."""
        return max(1, self.threads // max(self._busy, 1))

    def _show(self) -> None:
        if self.bar is not None:
            done = sum(share * size for share, size in zip(self._shares, self._sizes, strict=True))
            self.bar.update(done, sum(self._sizes))

    def _tell(self, k: int, share: float) -> bool:
        self._shares[k] = share
        if self._alone:
            self._show()
        return self.late()

    def _kernel(self, setting: dict[str, Any]) -> Any:
        m = self.machine
        kernel = setting.get("kernel", m.kernel)
        gamma: Any = setting.get("gamma", m.gamma)
        return as_kernel(kernel, degree=m.degree, gamma=gamma, coef0=m.coef0)

    def _groups(self, setting: dict[str, Any], folds: list[int]) -> Iterator[tuple[Any, list[int]]]:
        """Kernels with numbers, and the splits that share them: gamma="scale" is of each split."""
        kernel = self._kernel(setting)
        if not kernel.compiled or self.machine._mode() == "precomputed":
            yield kernel, folds
            return
        known: dict[str, tuple[Any, list[int]]] = {}
        for f in folds:
            train = self.splits[f].train
            own = None if self.weight is None else self.weight[train]
            plain = kernel.resolve(self.X[:1]) if _has_numbers(kernel) else None
            if plain is not None:
                yield plain, folds
                return
            rows = self.X[train] if own is None else self.X[train[own > 0]]
            resolved = kernel.resolve(rows, None if own is None else own[own > 0])
            known.setdefault(repr(resolved), (resolved, []))[1].append(f)
        yield from known.values()

    def _shared(self, work: _Work) -> bool:
        """Whether cells share a matrix; else each is a fit of its own."""
        kernel, single = work.kernel, self.single(work)
        fits = self.memory(single) <= self.budget() or self.n <= _ALWAYS
        if not fits and not self.blocked:
            _LOGGER.info(
                "%s: the Gram matrices of %d rows need %.1f GB, %.1f may be used; solving cell "
                "by cell with cached rows, each from the solution before it.",
                type(self.search).__name__, self.n, self.memory(single) / 2**30,
                self.budget() / 2**30,
            )  # fmt: skip
        self.blocked = self.blocked or not fits
        self.planned = max(self.planned, self.memory(single) if fits else 0)
        usual = self.search._in_one(self.machine, work.settings)
        return fits and usual and not _cold(kernel)

    def _solve(self, k: int, work: _Work, cells: Cells) -> None:
        single, found = self.single(work), []
        if self._rooms.empty():  # meanwhile
            self._laid_out(work.settings[0], work.folds)
        with self._room() as room:
            with self._lock:
                store = self._store_for(work.kernel)
            matrix = self._matrix(work.kernel, store, np.float32 if single else np.float64, room)
            tell = functools.partial(self._tell, k)
            for part, members in self.search._members(work.settings):
                settings = [work.settings[i] for i in part]
                solved = self._solve_along(
                    settings, members, matrix, work.folds, tell, work.kernel, store
                )
                found.append((part, settings, solved))
        for part, settings, solved in found:
            with self._scoring:
                self._noted(solved, work.folds, settings, [work.chosen[i] for i in part], cells)
        self._shares[k] = 1.0

    def _laid_out(self, setting: dict[str, Any], folds: list[int]) -> tuple[list[int], Any]:
        """Splits that can be fitted, and their chains; those that cannot say so."""
        search, flat = self.search, []
        work: list[int] = []
        fold: list[int] = []  # of each chain, in that list
        key = (setting.get("epsilon"), tuple(folds))
        with self._laying:
            if key in self._layouts:
                return self._layouts[key]
            for f in folds:
                split = self.splits[f]
                try:
                    if not split.error and split.machine is None:
                        search._prepare(self, split)
                except ValueError as error:
                    split.error = str(error)
                if not split.error:
                    chains = search._chains(self, split, setting)
                    flat += chains
                    fold += [len(work)] * len(chains)
                    work.append(f)
            held = [np.sort(self.place[self.splits[f].test]) for f in work]
            self._layouts[key] = work, Layout.of(flat, held, fold) if work else None
            return self._layouts[key]

    def _solve_along(
        self, settings: list[dict[str, Any]], members: Members, matrix: Any, folds: list[int],
        tell: Any, kernel: Any, store: Products | None,
    ) -> _Solved | None:  # fmt: skip
        began = time.perf_counter()
        work, layout = self._laid_out(settings[0], folds)
        if not work:
            return None
        refused = np.array([self.search._refused(chain, settings) for chain in layout.chains])
        skip = refused != ""
        tol, threads = self.search._closer * self.machine.tol, self._threads_now
        diagonal = np.ascontiguousarray(np.diag(matrix), dtype=np.float64)
        found = solve_chains(
            matrix, diagonal, layout, members, tol=tol, threads=threads,
            skip=skip if skip.any() else None, stop=tell,
        )  # fmt: skip
        if matrix.dtype == np.float32:
            refine(
                found, matrix, diagonal, self._exact(kernel, store), layout, members, tol=tol,
                threads=threads, stop=tell,
            )  # fmt: skip
        return _Solved(found, work, layout, refused, time.perf_counter() - began)

    def _noted(
        self, solved: _Solved | None, folds: list[int], settings: list[dict[str, Any]],
        chosen: list[int], cells: Cells,
    ) -> None:  # fmt: skip
        work = [] if solved is None else solved.folds
        for f in set(folds) - set(work):
            for c in chosen:
                cells.errors.append(self.splits[f].error)
                cells.status[c, f] = "failed"
        if solved is None:
            return
        share = solved.seconds / max(len(work) * len(chosen), 1)
        ends = np.searchsorted(solved.layout.fold, np.arange(len(work) + 1))
        for k, f in enumerate(work):
            at = slice(ends[k], ends[k + 1])
            self._note(solved.found, at, solved.refused[at], k, f, settings, chosen, cells, share)

    def _note(
        self, found: Found, at: slice, refused: NDArray[np.str_], k: int, f: int,
        settings: list[dict[str, Any]], chosen: list[int], cells: Cells, share: float,
    ) -> None:  # fmt: skip
        search, split = self.search, self.splits[f]
        tol = search._closer * self.machine.tol
        violation, steps = found.violation[at].max(axis=0), found.steps[at].sum(axis=0)
        dual, gap = found.dual[at].sum(axis=0), found.gap[at].sum(axis=0)
        size = np.maximum(np.abs(dual), np.abs(dual + gap))
        clear = search._clear(found.lam[at], (found.dual + found.gap)[at], tol)
        never, ready = (refused != "").any(axis=0), []
        for q, (c, setting) in enumerate(zip(chosen, settings, strict=True)):
            if never[q]:
                cells.errors.append(str(max(refused[:, q])))
                cells.status[c, f] = "failed"
                continue
            if not np.isfinite(violation[q]):
                continue  # time ran out
            if violation[q] > tol or not clear[q]:  # for the ordinary solver
                self._hard.append((c, f, setting))
                continue
            cells.status[c, f] = "optimal"
            cells.violation[c, f], cells.n_iter[c, f] = violation[q], steps[q]
            cells.gap[c, f] = gap[q] / size[q] if size[q] > 0 else 0.0
            cells.n_support[c, f], cells.fit_time[c, f] = found.n_support[k, q], share
            ready.append(q)
        if not ready:
            return
        began = time.perf_counter()
        held = found.of_fold(at)[ready]
        lam = found.lam[at][:, ready]
        scores = search._scored(self, split, [settings[q] for q in ready], held, lam)
        each = (time.perf_counter() - began) / len(ready)
        for q, score in zip(ready, scores, strict=True):
            cells.scores[chosen[q]][f], cells.score_time[chosen[q], f] = score, each

    def held_out(self, split: Split) -> tuple[Any, Any]:
        """The rows that it has not seen, new at each call: a scorer may write on them."""
        X, y = _safe_split(self.machine, *self.given, split.test, split.train)
        return X, y

    def score(self, machine: Any, split: Split) -> Any:
        """What the scorers say of a machine on the rows that it has not seen: NaN if they fail."""
        passed = {name: values[split.test] for name, values in self.passed.items()}
        return _score(machine, *self.held_out(split), self.scorers, passed, error_score=np.nan)

    def score_values(
        self, split: Split, settings: list[dict[str, Any]], values: Sequence[Floats]
    ) -> list[Any]:
        """What the scorers say of machines of known decision values on those rows, in turn."""
        X, _ = self.held_out(split)
        scores = []
        for setting, in_turn in zip(settings, values, strict=True):
            known = np.empty_like(in_turn)
            known[split.turn] = in_turn
            machine = copy.copy(split.machine).set_params(**clone(setting, safe=False))
            fit = functools.partial(_fitted, self.machine, setting, *self.given, self.weight, split)
            scores.append(self.score(standing_in(machine, X, known, fit), split))
        return scores

    def plain(self, split: Split) -> bool:
        """Whether the score is the machine's own, which needs no scorer's checks."""
        weight = self.passed.get("sample_weight")
        if weight is not None and not weight[split.test].sum():
            return False  # whatever scikit-learn makes of it
        passed = isinstance(self.scorers, _PassthroughScorer)
        return passed or self.search.scoring == "accuracy"

    # ---- K ------------------------------------------------------------------------------------

    def _matrix(
        self, kernel: Any, store: Products | None, dtype: type, room: _Room
    ) -> NDArray[Any]:
        """K of all rows, in the order in which classes are runs."""
        if store is not None:
            return store.gram(kernel, out=room.square(dtype), n_threads=self._threads_now())
        if self.machine._mode() == "precomputed":
            gram = Gram(kernel, self.X)
            return np.ascontiguousarray(np.asarray(gram.matrix)[np.ix_(self.order, self.order)])
        if not kernel.compiled:
            gram = Gram(kernel, take(self.X, self.order, square=False))
            return np.ascontiguousarray(gram.matrix)
        matrix = room.square(dtype)
        Gram(kernel, self.X[self.order], n_threads=self._threads_now()).into(matrix)
        return matrix

    def _exact(self, kernel: Any, store: Products | None) -> Exact:
        """K of some rows times coefficients, in float64."""
        if store is not None:
            return lambda coef, rows: store.times(kernel, coef, rows, self._threads_now())
        gram = Gram(kernel, self.X[self.order], n_threads=self._threads_now())
        return lambda coef, rows: gram.subset(rows).matvec(coef)

    def _store_for(self, kernel: Any) -> Products | None:
        """Dot products of all rows, once for all kernels they serve."""
        if self.machine._mode() == "precomputed" or not kernel.compiled or not self.stores():
            return None
        names = {op for op, *_ in kernel.program()}
        if names & {"laplacian", "chi2", "intersection"}:
            return None
        centred = names <= {"rbf", "matern", "add", "mul", "scale", "pow"}
        if centred not in self._stores:
            Gram(kernel, self.X)  # checks the data
            self._stores.clear()
            self._stores[centred] = Products(
                self.X[self.order], centred=centred, n_threads=self.threads
            )
        store = self._stores[centred]
        return store if store.serves(kernel) else None

    # ---- cell by cell -------------------------------------------------------------------------

    def _one_by_one(self, work: _Work, cells: Cells, tell: Any) -> None:
        """Ordinary fits, each from the solution before it."""
        along, settings, folds = self.search._along, work.settings, work.folds
        order = sorted(range(len(settings)), key=lambda k: settings[k].get(along, 0.0))
        for i, f in enumerate(folds):
            machine: Any = None
            for j, k in enumerate(order):
                if tell((i * len(order) + j) / (len(folds) * len(order))):
                    return
                last = self._fit_one(settings[k], work.chosen[k], f, cells, machine)
                machine = None if _cold(work.kernel) else last
        tell(1.0)

    def _fit_one(
        self, setting: dict[str, Any], c: int, f: int, cells: Cells, machine: Any = None
    ) -> Any:
        split, began = self.splits[f], time.perf_counter()
        limit = None if self.until is None else max(self.until - began, 0.0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # told by its status
                fresh = _fitted(
                    self.machine, setting, *self.given, self.weight, split, machine, limit
                )
        except Exception as error:  # as GridSearchCV: whatever it is, it is of this cell
            cells.errors.append(str(error))
            cells.status[c, f] = "failed"
            return None
        if self.late() and fresh.certificate_.status == "time_limit":
            return fresh
        middle = time.perf_counter()
        proof = fresh.certificate_
        told = ("optimal", "stationary", None)  # None: classes whose reduced hulls meet
        cells.status[c, f] = (
            str(proof.status or "no margin") if proof.status in told else "iteration_limit"
        )
        cells.violation[c, f], cells.gap[c, f] = proof.kkt_violation, proof.relative_gap
        cells.n_support[c, f] = len(fresh.support_)
        cells.n_iter[c, f] = np.sum(fresh.n_iter_)
        cells.scores[c][f] = self.score(fresh, split)
        cells.fit_time[c, f] = middle - began
        cells.score_time[c, f] = time.perf_counter() - middle
        return fresh

    # ---- fewer cells --------------------------------------------------------------------------

    def _discard(self, cells: Cells, folds: list[int]) -> None:
        """Leave out cells that the best one beats by more than chance, fold by fold."""
        scores = np.array([[_number(self, row[f]) for f in folds] for row in cells.scores])
        if not np.isfinite(scores).all(axis=1).any():
            return
        means = scores.mean(axis=1)
        best = int(np.nanargmax(means))
        ahead = scores[best] - scores
        spread = ahead.std(axis=1, ddof=1) / np.sqrt(len(folds))
        floor = scores.std(axis=1, ddof=1)[best] / np.sqrt(len(folds))
        behind = ahead.mean(axis=1) > 4 * np.maximum(spread, floor)
        rest = [f for f in range(len(self.splits)) if f not in folds]
        for c in np.flatnonzero(behind):
            cells.status[c, rest] = "discarded"

    def refined(
        self, candidates: list[dict[str, Any]], cells: Cells
    ) -> tuple[list[dict[str, Any]], Cells]:
        """Half the spacing about the best cell, twice."""
        factor: dict[str, float] = {}
        names = [n for n in (self.search._along, "gamma") if n in candidates[0]]
        for name in names:
            values = sorted({c[name] for c in candidates if isinstance(c.get(name), Real)})
            steps = [b / a for a, b in itertools.pairwise(values) if a > 0]
            if steps:
                factor[name] = float(np.exp(np.median(np.log(steps))))
        for _ in range(2):
            if self.late() or not factor:
                break
            factor = {name: math.sqrt(value) for name, value in factor.items()}
            means = [np.mean([_number(self, s) for s in row]) for row in cells.scores]
            if not np.isfinite(means).any():
                break
            best = candidates[int(np.nanargmax(means))]
            grid = {
                name: [best[name] * f**e for e in (-1, 0, 1)]
                if (f := factor.get(name)) and isinstance(best[name], Real)
                else [best[name]]
                for name in best
            }
            near = [c for c in ParameterGrid(grid) if not any(_close(c, d) for d in candidates)]
            near = [c for c in near if self.search._along != "nu" or c["nu"] <= 1]
            if not near:
                break
            candidates, cells = candidates + near, cells.joined(self.run(near))
        return candidates, cells


def _number(task: _Task, score: Any) -> float:
    """A score as one number: of several metrics that of `refit`."""
    if isinstance(score, dict):
        refit = task.search.refit
        return float(score[refit] if isinstance(refit, str) else next(iter(score.values())))
    return np.nan if score is None else float(score)


def _close(a: dict[str, Any], b: dict[str, Any]) -> bool:
    def same(x: Any, y: Any) -> bool:
        both = isinstance(x, Real) and isinstance(y, Real)
        return bool(np.isclose(x, y, rtol=1e-9)) if both else x is y or x == y

    return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)


def _cold(kernel: Any) -> bool:
    """Whether where a solver starts decides where it ends."""
    return bool(kernel.compiled and kernel.mercer is not True)


def _has_numbers(kernel: Kernel) -> bool:
    """Whether no parameter waits for data."""
    return not any(isinstance(v, str) for v in kernel.get_params(deep=True).values())


def pieces_of(values: Sequence[Any]) -> list[Any]:
    """A list of what a search tries."""
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def _fitted(
    machine: Any,
    setting: dict[str, Any],
    X: Any,
    y: Any,
    weight: Floats | None,
    split: Split,
    start: Any = None,
    max_time: float | None = None,
) -> Any:
    """The machine of a cell as GridSearchCV has it; it may start from the solution of another."""
    fresh = clone(machine) if start is None else copy.copy(start)
    fresh.set_params(**clone(setting, safe=False), warm_start=True, max_time=max_time)
    given = {} if weight is None else {"sample_weight": weight[split.train]}
    fresh.fit(*_safe_split(machine, X, y, split.train), **given)
    return fresh.set_params(warm_start=False, max_time=None)
