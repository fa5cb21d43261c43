"""One search under way: problems over shared matrices, threads, time, scores."""

from __future__ import annotations

import copy
import functools
import logging
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics._scorer import _PassthroughScorer
from sklearn.model_selection._validation import _score
from sklearn.utils.metaestimators import _safe_split

from maxmargin import _core
from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._cells import Cells, Split, Work
from maxmargin.estimators._chains import Found, Layout, Members, refine, solve_chains
from maxmargin.estimators._matrices import Matrices, Room
from maxmargin.estimators._narrowing import around, losers, spacing
from maxmargin.estimators._standing_in import standing_in
from maxmargin.kernels import Kernel, Precomputed, as_kernel
from maxmargin.progress import CellBar
from maxmargin.sharing import Products
from maxmargin.threads import one_blas_thread, thread_count

if TYPE_CHECKING:
    from maxmargin.estimators._search import Search

__all__ = ["Task"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LOOK = 0.1  # seconds between two looks at Ctrl-C and the bar
_PORTION = 1 << 26  # bytes: 64 MB
_LOGGER = logging.getLogger("maxmargin")


@dataclass(frozen=True)
class Solved:
    """Solutions over one matrix, before they are scored."""

    found: Found
    folds: list[int]
    layout: Layout
    refused: NDArray[np.object_] | None  # why, of each chain and member; "" where it is not
    seconds: float


class Task:
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
        classes = int(codes.max()) + 1
        self.matrices = Matrices(
            machine, X, self.order, threads=self.threads,
            chains=len(splits) * max(1, classes * (classes - 1) // 2),
        )  # fmt: skip
        self._layouts: dict[Any, tuple[list[int], Any]] = {}
        self._many = False  # portions of splits
        self.blocked = self._stopped = False
        self.planned = 0  # bytes
        self._lock, self._laying = threading.Lock(), threading.Lock()
        self._kept = _core.KeptMemory()  # what one kernel took, the next takes again
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
            Work([candidates[c] for c in chosen], chosen, kernel, rows)
            for chosen in jobs.values()
            for kernel, rows in self._groups(candidates[chosen[0]], folds)
            for rows in self._portions(rows, len(chosen))
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

    def _portions(self, folds: list[int], members: int) -> Iterator[list[int]]:
        """Splits whose problems and solutions take half a Gram matrix, or little, at a time."""
        each = 8 * self.search._copies(self) * (4 * members + 16)
        most = max(4 * self.n**2, _PORTION)
        portion: list[int] = []
        size = 0
        for f in folds:
            own = each * len(self.splits[f].train)
            if portion and size + own > most:
                self._many = True
                yield portion
                portion, size = [], 0
            portion.append(f)
            size += own
        yield portion

    def _solve_together(self, work: list[tuple[int, Work]], cells: Cells) -> None:
        """Solve over shared matrices, as many at a time as memory allows, and score meanwhile."""
        at_once = min([len(work)] + [self.matrices.at_once(self._single(w)) for _, w in work])
        if self.threads < 2 or len(work) < 2:
            room = Room(self.n)
            for k, w in work:
                self._solve(k, w, cells, room)()
            return
        queue, left = iter(work), at_once
        solved: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        ahead: SimpleQueue[None] = SimpleQueue()  # of the scores, by so many matrices
        for _ in range(at_once):
            ahead.put(None)

        def serve() -> None:
            room = Room(self.n)
            try:
                while (item := self._next(queue)) is not None:
                    solved.put(self._solve(*item, cells, room))
                    ahead.get()
            except BaseException:
                self._stopped = True
                raise
            finally:
                solved.put(None)

        self._alone = False
        ours = all(w.kernel.compiled for _, w in work)  # not a Python function
        held = one_blas_thread() if ours else nullcontext()  # once for all that is inside
        with held, ThreadPoolExecutor(at_once) as pool:
            try:
                servers = [pool.submit(serve) for _ in range(at_once)]
                self._laid_out(work[0][1].settings[0], work[0][1].folds)  # meanwhile
                while left and not self._stopped:
                    self._show()
                    with suppress(Empty):
                        rest = solved.get(timeout=_LOOK)
                        if rest is None:
                            left -= 1
                        else:
                            rest()
                            ahead.put(None)
                    rest = None  # its memory is for the next kernel
            finally:  # on Ctrl-C too: they look at it between two chunks of work
                self._stopped = left > 0
                for _ in range(at_once):
                    ahead.put(None)
        self._alone = True
        for server in servers:
            server.result()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def _next(self, queue: Iterator[tuple[int, Work]]) -> tuple[int, Work] | None:
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
        if _has_numbers(kernel):
            yield kernel.resolve(self.X[:1]), folds
            return
        known: dict[str, tuple[Any, list[int]]] = {}
        for f in folds:
            train = self.splits[f].train
            own = None if self.weight is None else self.weight[train]
            own = None if own is None or not (own > 0).any() else own  # refused with its split
            rows = self.X[train] if own is None else self.X[train[own > 0]]
            resolved = kernel.resolve(rows, None if own is None else own[own > 0])
            known.setdefault(repr(resolved), (resolved, []))[1].append(f)
        yield from known.values()

    def _single(self, work: Work) -> bool:
        return self.matrices.single(work.kernel, self.search._largest(work.settings, self.weight))

    def _shared(self, work: Work) -> bool:
        """Whether cells share a matrix; else each is a fit of its own."""
        single = self._single(work)
        fits, planned = self.matrices.fits(single), self.matrices.planned(single)
        if not fits and not self.blocked:
            _LOGGER.warning(
                "%s: the Gram matrices of %d rows need %.1f GB, %.1f may be used; solving cell "
                "by cell with cached rows, each from the solution before it.",
                type(self.search).__name__, self.n, planned / 2**30, self.matrices.budget / 2**30,
            )  # fmt: skip
        self.blocked = self.blocked or not fits
        self.planned = max(self.planned, planned if fits else 0)
        usual = self.search._in_one(self.machine, work.settings)
        return fits and usual and not (work.kernel.compiled and _cold(work.kernel))

    def _solve(self, k: int, work: Work, cells: Cells, room: Room) -> Callable[[], None]:
        """Solve over one matrix; what is left to do is for the caller's thread."""
        found = []
        with self._at_work():
            try:
                store = self.matrices.products(work.kernel)
                matrix = self.matrices.matrix(
                    work.kernel, store, self._single(work), room, self._threads_now()
                )
            except MemoryError:
                raise
            except Exception as error:  # as GridSearchCV: it is of the cells of this kernel
                return functools.partial(self._failed, work, str(error), cells)
            convex = _convex(work.kernel, matrix)
            if convex is False:  # where a solver starts decides where it ends
                cases = zip(work.chosen, work.settings, strict=True)
                hard = [(c, f, setting) for c, setting in cases for f in work.folds]
                return functools.partial(self._hard.extend, hard)
            tell = functools.partial(self._tell, k)
            for part, members in self.search._members(work.settings):
                settings = [work.settings[i] for i in part]
                solved = self._solve_along(
                    settings, members, matrix, work.folds, tell, work.kernel, store
                )
                found.append((part, settings, solved))

        def score() -> None:
            for part, settings, solved in found:
                chosen = [work.chosen[i] for i in part]
                self._noted(solved, work.folds, settings, chosen, cells, convex is True)
            self._shares[k] = 1.0

        return score

    def _failed(self, work: Work, error: str, cells: Cells) -> None:
        cells.errors += [error] * (len(work.chosen) * len(work.folds))
        cells.status[np.ix_(work.chosen, work.folds)] = "failed"

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
                    if not split.error and not split.chains:
                        search._prepare(self, split)
                except ValueError as error:
                    split.error = str(error)
                if not split.error:
                    chains = search._chains(self, split, setting)
                    flat += chains
                    fold += [len(work)] * len(chains)
                    work.append(f)
            held = [np.sort(self.place[self.splits[f].test]) for f in work]
            layout = work, Layout.of(flat, held, fold) if work else None
            if self._many:  # one portion in memory
                self._layouts.clear()
                for f in folds:
                    self.splits[f].chains = []
            self._layouts[key] = layout
            return layout

    def _solve_along(
        self, settings: list[dict[str, Any]], members: Members, matrix: Any, folds: list[int],
        tell: Any, kernel: Any, store: Products | None,
    ) -> Solved | None:  # fmt: skip
        began = time.perf_counter()
        work, layout = self._laid_out(settings[0], folds)
        if not work:
            return None
        refused = skip = None
        if self.search._refuses:
            texts = [self.search._refused(c, settings) for c in layout.chains]
            refused = np.array(texts, dtype=object)
            skip = refused != ""
        tol, threads = self.search._closer * self.machine.tol, self._threads_now
        diagonal = np.ascontiguousarray(np.diag(matrix), dtype=np.float64)
        found = solve_chains(
            matrix, diagonal, layout, members, tol=tol, threads=threads,
            skip=skip, stop=tell,
        )  # fmt: skip
        if matrix.dtype == np.float32:
            refine(
                found, matrix, diagonal, self.matrices.exact(kernel, store, threads), layout,
                members, tol=tol, threads=threads, stop=tell,
            )  # fmt: skip
        return Solved(found, work, layout, refused, time.perf_counter() - began)

    def _noted(
        self, solved: Solved | None, folds: list[int], settings: list[dict[str, Any]],
        chosen: list[int], cells: Cells, convex: bool,
    ) -> None:  # fmt: skip
        work = [] if solved is None else solved.folds
        for f in set(folds) - set(work):
            for c in chosen:
                cells.errors.append(self.splits[f].error)
                cells.status[c, f] = "failed"
        if solved is None:
            return
        found, ends = solved.found, np.searchsorted(solved.layout.fold, np.arange(len(work) + 1))
        ready = self._told(solved, ends[:-1], settings, chosen, cells, convex)
        for k, f in enumerate(work):
            if not ready[k].any():
                continue
            began, at = time.perf_counter(), slice(ends[k], ends[k + 1])
            some = slice(None) if ready[k].all() else ready[k]  # most often all: without a copy
            own = np.arange(len(settings))[some].tolist()
            scores = self.search._scored(
                self, self.splits[f], [settings[q] for q in own], found.of_fold(at)[some],
                found.lam[at][:, some],
            )  # fmt: skip
            each = (time.perf_counter() - began) / len(own)
            for q, score in zip(own, scores, strict=True):
                cells.scores[chosen[q]][f], cells.score_time[chosen[q], f] = score, each

    def _told(
        self, solved: Solved, starts: Ints, settings: list[dict[str, Any]], chosen: list[int],
        cells: Cells, convex: bool,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Note all but scores; of which folds and members these are to be counted."""
        found, search, work = solved.found, self.search, solved.folds
        tol = search._closer * self.machine.tol
        violation = np.maximum.reduceat(found.violation, starts)
        dual, gap, steps = (
            np.add.reduceat(each, starts) for each in (found.dual, found.gap, found.steps)
        )
        clear = search._clear(found.lam, found.dual + found.gap, tol)
        ready = np.isfinite(violation)  # else time ran out
        if solved.refused is not None:
            never = np.maximum.reduceat(solved.refused, starts)
            for k, q in np.argwhere(never != ""):
                cells.errors.append(never[k, q])
                cells.status[chosen[q], work[k]] = "failed"
            ready &= never == ""
        hard = ready & ((violation > tol) | ~np.logical_and.reduceat(clear, starts))
        self._hard += [(chosen[q], work[k], settings[q]) for k, q in np.argwhere(hard)]
        ready &= ~hard
        size = np.maximum(np.abs(dual), np.abs(dual + gap))
        share = np.full(ready.shape, solved.seconds / max(ready.size, 1))
        relative = np.divide(gap, size, out=np.zeros_like(gap), where=ready & (size > 0))
        status = np.full(ready.shape, "optimal" if convex else "stationary", dtype=object)
        at = np.ix_(chosen, work)
        for to, values in (
            (cells.status, status), (cells.violation, violation), (cells.gap, relative),
            (cells.n_iter, steps), (cells.n_support, found.n_support), (cells.fit_time, share),
        ):  # fmt: skip
            to[at] = np.where(ready.T, values.T, to[at])
        return ready

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

    # ---- cell by cell -------------------------------------------------------------------------

    def _one_by_one(self, work: Work, cells: Cells, tell: Any) -> None:
        """Ordinary fits, each from the solution before it."""
        along, settings, folds = self.search._along, work.settings, work.folds
        order = sorted(range(len(settings)), key=lambda k: settings[k].get(along, 0.0))
        # With a limit of iterations the start decides too.
        cold = _cold(work.kernel) or self.machine.max_iter != -1
        for i, f in enumerate(folds):
            machine: Any = None
            for j, k in enumerate(order):
                if tell((i * len(order) + j) / (len(folds) * len(order))):
                    return
                last = self._fit_one(settings[k], work.chosen[k], f, cells, machine)
                machine = None if cold else last
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
        scores = np.array([[self._number(row[f]) for f in folds] for row in cells.scores])
        rest = [f for f in range(len(self.splits)) if f not in folds]
        for c in losers(scores):
            cells.status[c, rest] = "discarded"

    def refined(
        self, candidates: list[dict[str, Any]], cells: Cells
    ) -> tuple[list[dict[str, Any]], Cells]:
        """Half the spacing about the best cell, twice."""
        along = self.search._along
        factor = spacing(candidates, (along, "gamma"))
        for _ in range(2):
            means = [np.mean([self._number(s) for s in row]) for row in cells.scores]
            if self.late() or not factor or not np.isfinite(means).any():
                break
            factor = {name: math.sqrt(value) for name, value in factor.items()}
            near = around(candidates[int(np.nanargmax(means))], factor, candidates)
            near = [c for c in near if along != "nu" or c["nu"] <= 1]
            if not near:
                break
            candidates, cells = candidates + near, cells.joined(self.run(near))
        return candidates, cells

    def _number(self, score: Any) -> float:
        """A score as one number: of several metrics that of `refit`."""
        if isinstance(score, dict):
            refit = self.search.refit
            return float(score[refit] if isinstance(refit, str) else next(iter(score.values())))
        return np.nan if score is None else float(score)


def _cold(kernel: Any) -> bool:
    """Whether where a solver starts decides where it ends."""
    return kernel.mercer is not True


def _convex(kernel: Any, matrix: NDArray[Any]) -> bool | None:
    """Whether K is positive semi-definite; None for unknown."""
    known: bool | None = kernel.mercer
    return Precomputed().gram(matrix).convex if known is None else known


def _has_numbers(kernel: Kernel) -> bool:
    """Whether no parameter waits for data."""
    return not any(isinstance(v, str) for v in kernel.get_params(deep=True).values())


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
