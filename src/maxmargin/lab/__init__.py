"""Watch an SVM think: a page in the browser, and the same page as a notebook widget.

``maxmargin lab`` in a terminal, or ``python -m maxmargin.lab``, opens the page; it needs
``pip install maxmargin[lab]``. ``Lab(X, y)`` is the widget; it needs ``maxmargin[notebook]``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin.lab.server import serve
    from maxmargin.lab.session import Session
    from maxmargin.lab.widget import Lab

__all__ = ["Lab", "Session", "serve"]

_HOMES = {"Lab": "widget", "Session": "session", "serve": "server"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
