"""Tell sklearn.callback about a fit; that module is experimental, so it is known here alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sklearn.callback import CallbackSupportMixin, with_callbacks

if TYPE_CHECKING:
    from maxmargin.solvers import Progress

__all__ = ["CallbackSupportMixin", "fit_task", "with_callbacks"]


def fit_task(
    estimator: Any, X: Any, y: Any
) -> tuple[Callable[[Progress], bool], Callable[[], None], bool]:
    """Open a fit's task; return what to call after each chunk of the solver and at the end.

    And whether anybody listens. Every chunk is a subtask; a callback that asks to stop there ends
    the solver as ``interrupted``.
    """
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def chunk(progress: Progress) -> bool:
        if not context._callbacks:
            return False
        sub = context.subcontext(task_name=f"iteration {progress.iteration}")
        sub.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        return bool(sub.call_on_fit_task_end(estimator=estimator, X=X, y=y))

    def end() -> None:
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y)

    return chunk, end, bool(context._callbacks)
