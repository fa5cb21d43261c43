"""The command line: ``maxmargin fit``, ``predict``, ``score``, ``verify`` and more.

Importing this package imports nothing; a command loads what it needs when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import Any

__all__ = ["main"]

_STDIO = "\x00stdio"  # a bare "-", which the parser would take for an option


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        None: those of the process.

    Returns
    -------
    int
        0: done. 1: the answer is no (``verify``). 2: wrong use, or data or a model that cannot be
        read. 130: Ctrl-C.

    Examples
    --------
    >>> main(["--version"])
    maxmargin ...
    0
    """
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if tokens == ["--version"]:
        from maxmargin import __version__

        print(f"maxmargin {__version__}")
        return 0
    debug = "--debug" in tokens
    try:
        return _run([_STDIO if token == "-" else token for token in tokens])
    except KeyboardInterrupt as stop:
        _complain(str(stop) or "stopped", debug)
        return 130
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        return 0
    except Exception as error:
        _complain(_message(error), debug)
        return 2


def _run(tokens: list[str]) -> int:
    try:
        from maxmargin.cli._app import app
    except ImportError as error:
        raise ImportError(
            f"the command line needs {error.name}: pip install 'maxmargin[cli]'."
        ) from error
    if not tokens:
        tokens = ["--help"]
    command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    for name, value in bound.arguments.items():
        bound.arguments[name] = _with_dashes(value)
    result = command(*bound.args, **bound.kwargs)
    return result if isinstance(result, int) else 0


def _with_dashes(value: Any) -> Any:
    if isinstance(value, str):
        return "-" if value == _STDIO else value
    if is_dataclass(value) and not isinstance(value, type):
        changed = {name: _with_dashes(part) for name, part in vars(value).items()}
        return replace(value, **changed)
    return value


def _message(error: Exception) -> str:
    """One line that says what is wrong."""
    text = " ".join(str(error).replace(_STDIO, "-").split())
    known = isinstance(error, ValueError | OSError | ImportError | MemoryError)
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror.lower()}."
    if text.startswith("Unused Tokens"):
        extra = ", ".join(map(repr, getattr(error, "unused_tokens", ())))
        text = f"{extra}: too many arguments; --help shows which there are."
    elif text.startswith("Unknown option: -") and not text.startswith("Unknown option: --"):
        text += ' The price of slack is -C; svm-train\'s options go into quotes: --libsvm "-c 1".'
    if known or type(error).__module__.startswith("cyclopts"):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (--debug shows where)"


def _complain(message: str, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    sys.stderr.write(f"maxmargin: {message}\n")
