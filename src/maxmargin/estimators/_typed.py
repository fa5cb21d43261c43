"""Keep the types of methods that are wrapped by scikit-learn, which ships none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["typed"]

Method = TypeVar("Method", bound=Callable[..., Any])


def typed(decorator: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Return the decorator as one that, for a type checker, leaves its method as it is.

    Without it ``SVC().fit(X, y)`` would be ``Any``, and all that follows from it.
    """
    return decorator
