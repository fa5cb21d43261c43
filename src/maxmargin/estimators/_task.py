"""One search under way: problems over shared matrices, threads, time, scores."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxmargin import _core
from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._cells import Cells, Split, Work
from maxmargin.estimators._chains import Layout, Members, refine, solve_chains
from maxmargin.estimators._matrices import Matrices, Room
from maxmargin.estimators._narrowing import around, fineness, losers, spacing
from maxmargin.estimators._parts import passed
from maxmargin.estimators._scoring import Scoring, Solved, fitted
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
_GRACE = 1.1  # times the limit: for scores of what is solved
_AMPLE = 2.0  # times what is left would take: it may be done in any order
_LOGGER = logging.getLogger("maxmargin")


class Task(Scoring):
    """One search under way."""

    bar: CellBar | None = None
    cause: Exception | None = None  # of the first failure
    _show: Callable[[], None]

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
        self.overdue = None if limit is None else began + _GRACE * limit
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
        self.candidates: list[dict[str, Any]] = []
        self.cells = Cells.empty(0, len(splits))  # what is known of them
        self._layouts: dict[Any, tuple[list[int], Any]] = {}
        self._many = False  # portions of splits
        self.blocked = self._stopped = False
        self.planned = 0  # bytes
        self._lock, self._laying = threading.Lock(), threading.Lock()
        self._kept = _core.KeptMemory()  # what one kernel took, the next takes again
        self._busy, self._alone = 0, True  # matrices at work; nobody beside this thread
        self._left: list[tuple[int, int, dict[str, Any]]] = []  # cells for the ordinary solver
        self._work: list[Work] = []  # at hand
        self._ahead = 0  # fits of work that has not begun

    def _first_tests(self) -> Ints:
        """Of each row, the first split that holds it out: what is read together lies together."""
        first = np.full(self.n, len(self.splits))
        for f in reversed(range(len(self.splits))):
            first[self.splits[f].test] = f
        return first

    # ---- what is left -------------------------------------------------------------------------

    def late(self) -> bool:
        """Whether to stop: time is up, or Ctrl-C."""
        return self._stopped or passed(self.until)

    def report(self) -> dict[str, Any]:
        """What was done and what was avoided."""
        cells = self.cells
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

    def run(self, candidates: list[dict[str, Any]]) -> None:
        """Score these candidates on all splits; what is known when Ctrl-C ends it stays."""
        before, cells = self.cells, Cells.empty(len(candidates), len(self.splits))
        self._show = functools.partial(self._shown, before, cells)
        try:
            self._run(candidates, cells)
            self._show()
        finally:
            self.candidates = self.candidates + candidates
            self.cells = before.joined(cells)

    def _run(self, candidates: list[dict[str, Any]], cells: Cells) -> None:
        rounds = [list(range(len(self.splits)))]
        if self.search.discard and len(self.splits) > 2:
            first = max(2, len(self.splits) // 2)
            rounds = [rounds[0][:first], rounds[0][first:]]
        for chosen in self._in_order(candidates):
            for folds in rounds:
                alive = [c for c in chosen if (cells.status[c] != "discarded").all()]
                self._ahead = int((cells.status == "not reached").sum())
                self._solve_all(self._work_on(candidates, alive, folds), cells)
                if self.until is None:
                    self._finish(cells)
                if folds is not rounds[-1] and not self.late():
                    self._discard(cells, folds, alive)
        self._finish(cells)

    def _in_order(self, candidates: list[dict[str, Any]]) -> Iterator[list[int]]:
        """All at once; where time is limited a coarse grid first, then finer ones."""
        fine = fineness(candidates, (self.search._along, "gamma", "epsilon"))
        level, began, left = 0, time.perf_counter(), list(range(len(candidates)))
        while left and self.until is not None and not self.late():
            chosen = [c for c in left if fine[c] <= level]
            yield chosen
            left = [c for c in left if fine[c] > level]
            level, now = level + 1, time.perf_counter()
            each = (now - began) / max(len(candidates) - len(left), 1)
            if self.until - now > _AMPLE * each * len(left):
                break
        if left and not self.late():
            yield left

    def _work_on(
        self, candidates: list[dict[str, Any]], chosen: list[int], folds: list[int]
    ) -> list[Work]:
        """What each matrix serves."""
        jobs: dict[Any, list[int]] = {}
        along = self.search._along
        for c in chosen:
            rest = tuple(
                (name, id(value) if isinstance(value, Kernel) else value)
                for name, value in sorted(candidates[c].items())
                if name not in (along, "epsilon")
            )
            jobs.setdefault(rest, []).append(c)
        return [
            Work([candidates[c] for c in some], some, kernel, rows)
            for some in jobs.values()
            for kernel, rows in self._groups(candidates[some[0]], folds)
            for rows in self._portions(rows, len(some))
        ]

    def _solve_all(self, work: list[Work], cells: Cells) -> None:
        self._work = work
        together: list[Work] = []
        in_turn: list[Work] = []
        alone: list[Work] = []
        for w in work:  # a Python function may hold what only one thread may touch, one at a time
            part = alone if not self._shared(w) else together if w.kernel.compiled else in_turn
            part.append(w)
        if self.threads < 2 or len(together) < 2:
            in_turn, together = in_turn + together, []
        room = Room(self.n)
        for w in in_turn:
            if self.late():
                break
            self._solve(w, cells, room)()
            self._show()
        if together:
            self._solve_together(together, cells)
        for w in alone:
            self._one_by_one(w, cells)

    def _finish(self, cells: Cells) -> None:
        """Cells that shared matrices leave to the ordinary solver, the least C first."""
        along = self.search._along
        for c, f, setting in sorted(self._left, key=lambda cell: float(cell[2].get(along, 0.0))):
            if self.late():
                break
            self._fit_one(setting, c, f, cells)
            self._show()
        self._left.clear()

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

    def _solve_together(self, work: list[Work], cells: Cells) -> None:
        """Solve over shared matrices, as many at a time as memory allows, and score meanwhile."""
        left = at_once = min([len(work)] + [self.matrices.at_once(self._single(w)) for w in work])
        queue = iter(work)
        solved: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        ahead: SimpleQueue[None] = SimpleQueue()  # of the scores, by so many matrices
        for _ in range(at_once):
            ahead.put(None)

        def serve() -> None:
            room = Room(self.n)
            try:
                while (item := self._next(queue)) is not None:
                    solved.put(self._solve(item, cells, room, at_once))
                    ahead.get()
            except BaseException:
                self._stopped = True
                raise
            finally:
                solved.put(None)

        self._alone = False
        with one_blas_thread(), ThreadPoolExecutor(at_once) as pool:  # once for all inside
            try:
                servers = [pool.submit(serve) for _ in range(at_once)]
                self._laid_out(work[0].settings[0], work[0].folds)  # meanwhile
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

    def _next(self, queue: Iterator[Work]) -> Work | None:
        with self._lock:
            return None if self.late() else next(queue, None)

    def _threads_now(self) -> int:
        """How many threads one matrix may have."""
        return max(1, self.threads // max(self._busy, 1))

    def _shown(self, before: Cells, cells: Cells) -> None:
        if self.bar is None:
            return
        noted = sum(int((each.status != "not reached").sum()) for each in (before, cells))
        under_way = sum(w.share * w.size for w in self._work)
        self.bar.update(noted + under_way, before.status.size + cells.status.size)

    def _tell(self, work: Work, end: float | None, share: float) -> bool:
        """Take the news of what is solved over a matrix; whether to stop there."""
        work.share = max(work.share, share)
        if self._alone:
            self._show()
        return self.late() or passed(end)

    def _end_of(self, work: Work, at_once: int = 1) -> float | None:
        """When work that begins now must end, for all that is ahead to have its turn."""
        with self._lock:
            share = min(1.0, at_once * work.size / max(self._ahead, 1))
            self._ahead -= work.size
        if self.until is None:
            return None
        now = time.perf_counter()
        return now + share * max(float(self.until) - now, 0.0)

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
            try:
                resolved = self._resolved(kernel, self.splits[f].train)
            except ValueError as error:  # it can have no machine, whatever the kernel
                self.splits[f].error, resolved = str(error), kernel
            known.setdefault(repr(resolved), (resolved, []))[1].append(f)
        yield from known.values()

    def _resolved(self, kernel: Any, train: Ints) -> Any:
        """The kernel with the numbers of these rows."""
        own = None if self.weight is None else self.weight[train]
        own = None if own is None or not (own > 0).any() else own  # refused with its split
        rows = self.X[train] if own is None else self.X[train[own > 0]]
        return kernel.resolve(rows, None if own is None else own[own > 0])

    def _single(self, work: Work) -> bool:
        return self.matrices.single(work.kernel, self.search._largest(work.settings, self.weight))

    def _shared(self, work: Work) -> bool:
        """Whether cells share a matrix; else each is a fit of its own."""
        single = self._single(work)
        fits, planned = self.matrices.fits(single), self.matrices.planned(single)
        if not fits and not self.blocked:
            _LOGGER.warning(
                "%s: the Gram matrices of %d rows need %.0f MB, %.0f may be used; solving cell "
                "by cell with cached rows, each from the solution before it.",
                type(self.search).__name__, self.n, planned / 2**20, self.matrices.budget / 2**20,
            )  # fmt: skip
        self.blocked = self.blocked or not fits
        self.planned = max(self.planned, planned if fits else 0)
        usual = self.search._in_one(self.machine, work.settings)
        return fits and usual and not (work.kernel.compiled and _cold(work.kernel))

    def _solve(self, work: Work, cells: Cells, room: Room, at_once: int = 1) -> Callable[[], None]:
        """Solve over one matrix; what is left to do is for the caller's thread."""
        found = []
        tell = functools.partial(self._tell, work, self._end_of(work, at_once))
        with self._at_work():
            try:
                store = self.matrices.products(work.kernel)
                matrix = self.matrices.matrix(
                    work.kernel, store, self._single(work), room, self._threads_now()
                )
            except MemoryError:
                raise
            except Exception as error:  # as GridSearchCV: it is of the cells of this kernel
                return functools.partial(self._failed, work.chosen, work.folds, error, cells)
            convex = _convex(work.kernel, matrix)
            if convex is False:  # where a solver starts decides where it ends
                cases = zip(work.chosen, work.settings, strict=True)
                left = [(c, f, setting) for c, setting in cases for f in work.folds]
                return functools.partial(self._left.extend, left)
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
            work.share = 0.0

        return score

    def _failed(
        self, chosen: Iterable[int], folds: Iterable[int], error: Exception, cells: Cells
    ) -> None:
        self.cause = self.cause or error
        at = np.ix_(np.array(chosen), np.array(folds))
        cells.errors += [_told_of(error)] * cells.status[at].size
        cells.status[at] = "failed"

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
            skip=skip, stop=tell, abreast=self.until is not None,
        )  # fmt: skip
        if matrix.dtype == np.float32:
            refine(
                found, matrix, diagonal, self.matrices.exact(kernel, store, threads), layout,
                members, tol=tol, threads=threads, stop=tell,
            )  # fmt: skip
        return Solved(found, work, layout, refused, time.perf_counter() - began)

    # ---- cell by cell -------------------------------------------------------------------------

    def _one_by_one(self, work: Work, cells: Cells) -> None:
        """Ordinary fits, each from the solution before it."""
        along, settings, share = self.search._along, work.settings, self._end_of(work)
        order = sorted(range(len(settings)), key=lambda k: settings[k].get(along, 0.0))
        # With a limit of iterations the start decides too.
        cold = _cold(work.kernel) or self.machine.max_iter != -1
        turns = [(f, k) for f in work.folds for k in order]
        if self.until is not None:
            turns = [(f, k) for k in order for f in work.folds]
        last: dict[int, Any] = {}  # machine of each fold
        end = share
        for f, k in turns:
            if self.late():
                return
            if f == work.folds[0]:  # until a candidate has all its scores, shares do not count
                end = share if _complete(cells) else self.until
            if passed(end):
                self._left.append((work.chosen[k], f, settings[k]))
                continue
            if self.until is None and f not in last:
                last.clear()
            machine = self._fit_one(settings[k], work.chosen[k], f, cells, last.get(f), end)
            last[f] = None if cold else machine
            self._show()

    def _fit_one(
        self, setting: dict[str, Any], c: int, f: int, cells: Cells, machine: Any = None,
        end: float | None = None,
    ) -> Any:  # fmt: skip
        split, began = self.splits[f], time.perf_counter()
        end = self.until if end is None else end
        limit = None if end is None else max(end - began, 0.0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # told by its status
                fresh = fitted(
                    self.machine, setting, *self.given, self.weight, split, machine, limit
                )
        except Exception as error:  # as GridSearchCV: whatever it is, it is of this cell
            self._failed([c], [f], error, cells)
            return None
        proof, middle = fresh.certificate_, time.perf_counter()
        if limit is not None and (proof.status == "time_limit" or _uncalibrated(fresh)):
            if not self.late():  # it was the share of its kernel that ran out
                self._left.append((c, f, setting))
            return fresh
        cells.scores[c][f] = self.score(fresh, split)  # first: Ctrl-C may end it
        cells.status[c, f] = str(proof.status or "no margin")  # None: reduced hulls meet
        cells.violation[c, f], cells.gap[c, f] = proof.kkt_violation, proof.relative_gap
        cells.n_support[c, f] = len(fresh.support_)
        cells.n_iter[c, f] = np.sum(fresh.n_iter_)
        cells.fit_time[c, f] = middle - began
        cells.score_time[c, f] = time.perf_counter() - middle
        return fresh

    # ---- fewer cells --------------------------------------------------------------------------

    def _discard(self, cells: Cells, folds: list[int], alive: list[int]) -> None:
        """Leave out cells that the best one beats by more than chance, fold by fold."""
        scores = np.array([[self._number(row[f]) for f in folds] for row in cells.scores])
        rest = [f for f in range(len(self.splits)) if f not in folds]
        for c in set(losers(scores)).intersection(alive):
            cells.status[c, rest] = "discarded"

    def refine(self) -> None:
        """Half the spacing about the best cell, twice."""
        along = self.search._along
        factor = spacing(self.candidates, (along, "gamma"))
        for _ in range(2):
            means = [np.mean([self._number(s) for s in row]) for row in self.cells.scores]
            if self.late() or not factor or not np.isfinite(means).any():
                break
            factor = {name: math.sqrt(value) for name, value in factor.items()}
            near = around(self.candidates[int(np.nanargmax(means))], factor, self.candidates)
            near = [c for c in near if along != "nu" or c["nu"] <= 1]
            if not near:
                break
            self.run(near)

    def _number(self, score: Any) -> float:
        """A score as one number: of several metrics that of `refit`."""
        if isinstance(score, dict):
            refit = self.search.refit
            if not isinstance(refit, str):
                return float(next(iter(score.values())))
            return float(score.get(refit, np.nan))
        return np.nan if score is None else float(score)


def _told_of(error: Exception) -> str:
    """What an error says; of one that is not ours, what it is and where."""
    if isinstance(error, ValueError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"


def _complete(cells: Cells) -> bool:
    """Whether a candidate has been tried on every split."""
    return bool((cells.status != "not reached").all(axis=1).any())


def _uncalibrated(machine: Any) -> bool:
    """Whether time ran out before its probabilities were found."""
    return getattr(machine, "probability", False) is True and not hasattr(machine, "probA_")


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
