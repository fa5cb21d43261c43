"""A table of arrays: columns by name, one row per point, iteration or setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "facts_html", "stack"]

Column = NDArray[Any]
TableT = TypeVar("TableT", bound="Table")

_SHOWN = 20  # rows of the HTML table


class Table:
    """Hold named columns of equal length: ``table["gap"]`` or ``table.gap``.

    ``len`` counts the rows; iteration and ``keys`` give the names of the columns.

    Parameters
    ----------
    columns : mapping of str to ndarray

    Examples
    --------
    >>> table = Table({"iteration": np.array([0, 10]), "gap": np.array([1.0, 0.1])})
    >>> table.gap, len(table)
    (array([1. , 0.1]), 2)
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}.")
        return self._columns[name]

    def __getattr__(self, name: str) -> Column:
        # Looked up in __dict__: copy and pickle ask before __init__ has run.
        columns = self.__dict__.get("_columns", {})
        if name in columns:
            column: Column = columns[name]
            return column
        raise AttributeError(f"no column {name!r}; there are {', '.join(columns)}.")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def keys(self) -> list[str]:
        """Return the names of the columns; ``dict(table)`` works."""
        return list(self._columns)

    def as_frame(self) -> Any:
        """Return the table as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self._columns)

    def __repr__(self) -> str:
        rows = "1 row" if len(self) == 1 else f"{len(self)} rows"
        return f"<{type(self).__name__} of {rows}: {', '.join(self)}>"

    def __str__(self) -> str:
        shown = [*range(min(len(self), _SHOWN))]
        lines = [
            [name, *(_text(column[i]) for i in shown)] for name, column in self._columns.items()
        ]
        widths = [max(map(len, line)) for line in lines]
        rows = zip(*lines, strict=True)
        text = "\n".join(
            "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            for row in rows
        )
        return text + (f"\n... {len(self) - _SHOWN} more rows" if len(self) > _SHOWN else "")

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in self)
        lines = []
        for i in range(min(len(self), _SHOWN)):
            cells = (column[i] for column in self._columns.values())
            texts = (escape(_text(v)) for v in cells)
            cells_html = "".join(f"<td>{text}</td>" for text in texts)
            lines.append(f'<tr><th scope="row">{i}</th>{cells_html}</tr>')
        more = f"<p>... {len(self) - _SHOWN} more rows</p>" if len(self) > _SHOWN else ""
        body = f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
        # A wide table scrolls by itself, not the page.
        table = f'<table style="text-align:right;white-space:nowrap">{body}</table>'
        scrolled = f'<div style="overflow-x:auto">{table}</div>'
        return f"<div>{_caption(repr(self)[1:-1])}{scrolled}{more}</div>"


def stack(tables: Sequence[TableT], number: str | None = None) -> TableT:
    """Put tables of the same columns below each other.

    Parameters
    ----------
    tables : sequence of Table
    number : str, optional
        Name of a first column that counts the tables.

    Returns
    -------
    Table
        Of the class of the first.

    Examples
    --------
    >>> table = Table({"gap": np.array([1.0, 0.1])})
    >>> stack([table, table], "problem").problem
    array([0, 0, 1, 1])
    """
    counts = [np.full(len(table), k) for k, table in enumerate(tables)]
    columns = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    numbered = {} if number is None else {number: np.concatenate(counts)}
    return type(tables[0])({**numbered, **columns})


def facts_html(title: str, facts: Mapping[str, str]) -> str:
    """Return a small HTML table of names and texts, for notebooks.

    All texts are escaped, and it has no colours of its own: it takes those of the page, dark or
    light.

    Examples
    --------
    >>> "<p>A title</p>" in facts_html("A title", {"a < b": "yes"})
    True
    """
    left = "text-align:left;vertical-align:top"
    rows = (
        f'<tr><th scope="row" style="{left};white-space:nowrap">{escape(name)}</th>'
        f'<td style="{left}">{escape(text)}</td></tr>'
        for name, text in facts.items()
    )
    return f"<div>{_caption(title)}<table><tbody>{''.join(rows)}</tbody></table></div>"


def _caption(title: str) -> str:
    return f"<p>{escape(title)}</p>" if title else ""


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
