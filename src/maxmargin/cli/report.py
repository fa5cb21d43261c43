"""What a command says: notes on stderr, results on stdout, for people or for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from maxmargin.cli._app import Common

__all__ = ["Reporter", "plain"]


class Reporter:
    """Print for one command.

    Parameters
    ----------
    common : Common

    Examples
    --------
    >>> Reporter(Common(json=True)).result({"accuracy": 0.5, "gap": float("inf")})
    {"accuracy": 0.5, "gap": null}
    """

    def __init__(self, common: Common) -> None:
        self.common = common

    def note(self, *texts: str) -> None:
        """Say on stderr what was assumed or done."""
        if not self.common.quiet:
            for text in texts:
                sys.stderr.write(f"maxmargin: {text}\n")

    def result(self, facts: Mapping[str, Any], text: str | None = None) -> None:
        """Print the result: an object for machines, else lines of names and values."""
        if self.common.json:
            print(json.dumps(plain(facts), allow_nan=False))
        elif text is not None:
            print(text)
        else:
            print("\n".join(_lines(facts)))
        sys.stdout.flush()

    def table(self, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
        """Lay out a table in columns.

        >>> print(Reporter(Common()).table(["name", "n"], [["iris", 150]]))
        name   n
        iris 150
        """
        cells = [list(head), *([_cell(value) for value in row] for row in rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        left = [not any(_is_number(row[k]) for row in cells[1:]) for k in range(len(widths))]
        lines = (
            " ".join(
                cell.ljust(width) if side else cell.rjust(width)
                for cell, width, side in zip(row, widths, left, strict=True)
            ).rstrip()
            for row in cells
        )
        return "\n".join(lines)

    @property
    def bar(self) -> bool:
        """Whether to show a progress bar: somebody is looking at stderr."""
        return not self.common.quiet and not self.common.json and sys.stderr.isatty()


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("%x×s* "))
    except ValueError:
        return cell.strip() == "-"
    return True


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _lines(facts: Mapping[str, Any]) -> Iterable[str]:
    for name, value in facts.items():
        shown: Any = value
        if isinstance(value, Mapping):
            shown = ", ".join(f"{k} {_cell(v)}" for k, v in value.items())
        elif isinstance(value, list | tuple):
            shown = ", ".join(map(_cell, value))
        yield f"{name.replace('_', ' '):<20}{_cell(shown)}"


def plain(value: Any) -> Any:
    """Return a value as JSON has it: NumPy's scalars as Python's, infinite numbers as null.

    >>> import numpy as np
    >>> plain({"a": np.float64(1.5), "b": [np.int64(2), float("nan")]})
    {'a': 1.5, 'b': [2, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
