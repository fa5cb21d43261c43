"""Show how far a fit has come: a bar whose quantity is the gap, or a plain line without rich."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from maxmargin.solvers import Progress

__all__ = ["CellBar", "ProgressBar"]

_EVERY = 0.2  # seconds between two plain lines on a terminal


class ProgressBar:
    """A callback for :func:`maxmargin.solvers.solve` that reports on stderr.

    The bar runs from the first KKT violation to ``tol`` on a log scale; beside it stand the
    relative duality gap, the violation and the iterations. All are estimates; the certificate
    comes at the end.

    Parameters
    ----------
    title : str

    Examples
    --------
    >>> from maxmargin import kernels, problems, solvers
    >>> problem = problems.soft_margin(kernels.Linear().gram([[0.0], [1.0]]), [-1, 1])
    >>> with ProgressBar("SVC") as bar:
    ...     solution = solvers.solve(problem, callback=bar)
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.first: float | None = None
        self._bar: Any = None
        self._task: Any = None
        self._shown = -math.inf

    def __enter__(self) -> Self:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Rich
        except ImportError:
            return self
        text = TextColumn("{task.fields[facts]}")
        title = TextColumn("{task.fields[title]}")
        columns = (title, BarColumn(), text, TimeElapsedColumn())
        self._bar = Rich(*columns, console=Console(stderr=True, file=None))
        self._task = self._bar.add_task("", total=1.0, facts="", title=self.title)
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self.first is not None:
            sys.stderr.write("\n")

    def begin(self, title: str) -> None:
        """Start again with another title: the next of several problems."""
        self.title, self.first = title, None
        if self._bar is not None:
            self._bar.update(self._task, completed=0.0, title=title)

    def __call__(self, progress: Progress) -> None:
        """Take the news of one chunk."""
        gap = (
            f"gap {progress.relative_gap:.1e}" if math.isfinite(progress.relative_gap) else "gap -"
        )
        facts = f"{gap}  KKT {progress.kkt_violation:.1e}  {progress.iteration} iterations"
        done = self._fraction(progress)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, facts=facts)
        elif time.monotonic() - self._shown > _EVERY or done >= 1:
            self._shown = time.monotonic()
            sys.stderr.write(f"\r{self.title}: {done:4.0%}  {facts}  {progress.seconds:.1f} s ")
            sys.stderr.flush()

    def _fraction(self, progress: Progress) -> float:
        now, goal = progress.kkt_violation, progress.tol
        if progress.gap_tol is not None and math.isfinite(progress.relative_gap):
            now, goal = progress.relative_gap, progress.gap_tol
        if not math.isfinite(now):
            return 0.0
        if self.first is None:
            self.first = max(now, 10 * goal)
        if now <= goal:
            return 1.0
        return min(max(math.log(self.first / now) / math.log(self.first / goal), 0.0), 0.99)


class CellBar:
    """Show how many fits of a search are done, and the time remaining, on stderr.

    Parameters
    ----------
    title : str

    Examples
    --------
    >>> with CellBar("SVCCV") as bar:
    ...     bar.update(1.0, 2)
    """

    def __init__(self, title: str) -> None:
        self.title, self.total, self.done = title, 0, 0.0
        self._began = self._shown = -math.inf
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        try:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Rich
        except ImportError:
            return self
        facts = TextColumn("{task.completed:.0f}/{task.total:.0f} fits, remaining")
        columns = (TextColumn(self.title), BarColumn(), facts, TimeRemainingColumn())
        self._bar = Rich(*columns, TimeElapsedColumn(), console=Console(stderr=True, file=None))
        self._task = self._bar.add_task("", visible=False)
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self.total:
            sys.stderr.write("\n")

    def update(self, done: float, total: int) -> None:
        """Take the news: so many of all are done. It never goes back."""
        done = self.done = max(self.done, done)
        self.total = total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, visible=True)
        elif time.monotonic() - self._shown > _EVERY or done >= total:
            self._shown = time.monotonic()
            left = (self._shown - self._began) * (total - done) / done if done else math.inf
            sys.stderr.write(f"\r{self.title}: {done:.0f}/{total} fits, {left:.0f} s remaining ")
            sys.stderr.flush()
