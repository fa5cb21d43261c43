"""Say how a solver ended, and what of that is proven."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Status", "verdict"]


class Status(StrEnum):
    """How a solver ended; the value is the message, ``status == "optimal"`` works.

    Examples
    --------
    >>> Status.OPTIMAL == "optimal", str(Status.TIME_LIMIT)
    (True, 'time_limit')
    """

    OPTIMAL = "optimal"
    STATIONARY = "stationary"
    PRECISION_LIMIT = "precision_limit"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"


def verdict(
    status: Status | str | None, *, solved: bool, precise: bool, convex: bool | None
) -> Status | None:
    """Turn how a solver says it ended into what is proven.

    ``solved``: the tolerances hold; ``precise``: rounding of Kβ is below them.
    """
    if solved and (status is None or status == Status.PRECISION_LIMIT):
        status = Status.OPTIMAL
    status = None if status is None else Status(status)
    if status is Status.OPTIMAL and not (solved and precise):
        status = Status.PRECISION_LIMIT  # K itself is known no better: nothing is proven at tol
    if status is Status.OPTIMAL and convex is not True:
        status = Status.STATIONARY
    return status
