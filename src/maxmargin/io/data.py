"""Read data: CSV, TSV, Parquet, Arrow, NPZ and LIBSVM's text, whole or in batches.

A table's columns are known by name, a matrix's by number. What is wrong with a cell is said with
its line (of a text file) or row.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.io.streams import formatted, lines, opened

__all__ = ["EXTENSIONS", "Columns", "Data", "batches", "is_number", "read_data"]

EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npz": "npz",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}

_BLOCK = 1 << 23  # bytes of text in a batch
_CELLS = 1 << 20  # cells in a batch
_USUAL = ("target", "label", "class", "y")
MISSING = ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none"]
_MANY = 100  # texts in one column: with one in every second row, they are names, not categories


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What to read: what a model was trained on, or nothing yet.

    Parameters
    ----------
    features : tuple of str, optional
        Names in the order of the model; None takes all that are not the target.
    categorical : tuple of str
        Those that hold categories, not numbers.
    target : str or int, optional
        Name, or position from 1; negative positions count from the end.
    text_target : bool, optional
        Whether classes are texts; None finds out.
    width : int, optional
        Number of columns of a matrix; narrower ones are padded.
    drop : tuple of str
        Columns to leave out.
    header : bool, optional
        Whether a CSV begins with names; None finds out.
    needed : bool
        Whether a table must have the target.

    Examples
    --------
    >>> Columns(target="price", drop=("id",)).needed
    True
    """

    features: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()
    target: str | int | None = None
    text_target: bool | None = None
    width: int | None = None
    drop: tuple[str, ...] = ()
    header: bool | None = None
    needed: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """Rows of a data file.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        float64; object where some columns hold categories.
    y : ndarray of shape (n_samples,), optional
    names : tuple of str
        Of the columns; empty for a matrix.
    categorical : tuple of str
    target : str, optional
        Name of the target's column.
    notes : tuple of str
        What was assumed, to be said aloud.

    Examples
    --------
    >>> data = Data(X=np.zeros((2, 1)), y=np.array(["a", "b"]), names=("width",), target="kind")
    >>> data.names, data.y.tolist()
    (('width',), ['a', 'b'])
    """

    X: Any
    y: NDArray[Any] | None
    names: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    target: str | None = None
    notes: tuple[str, ...] = ()


def read_data(
    path: str, *, format: str | None = None, columns: Columns | None = None, zero: bool = False
) -> Data:
    r"""Read a whole data file.

    Parameters
    ----------
    path : str
        "-" is standard input; .gz, .bz2 and .xz are decompressed.
    format : {"csv", "tsv", "parquet", "arrow", "npz", "libsvm"}, optional
        None: by extension.
    columns : Columns, optional
    zero : bool, default=False
        Whether LIBSVM's text has an index 0: the serial numbers of a precomputed kernel.

    Returns
    -------
    Data

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = path.write_text("width,label\n1.5,a\n2.5,b\n")
    >>> data = read_data(str(path))
    >>> data.X.tolist(), data.y.tolist(), data.names
    ([[1.5], [2.5]], ['a', 'b'], ('width',))
    """
    found = list(_batches(path, format, columns or Columns(), None, zero))
    if len(found) != 1:
        raise ValueError(f"{path} holds no rows.")
    return found[0]


def batches(
    path: str, *, format: str | None = None, columns: Columns, zero: bool = False
) -> Iterator[Data]:
    r"""Read a data file a bounded part at a time, for a model whose columns are known.

    Parameters
    ----------
    path, format, columns, zero
        As in :func:`read_data`.

    Yields
    ------
    Data
        Empty files yield nothing. NPZ files of sparse matrices are read whole.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "new.csv"
    ...     _ = path.write_text("width,colour\n1.5,red\n2.5,blue\n")
    ...     parts = list(batches(str(path), columns=Columns(features=("width",), needed=False)))
    >>> parts[0].X.ravel()
    array([1.5, 2.5])
    """
    yield from _batches(path, format, columns, _BLOCK, zero)


def _batches(
    path: str, format: str | None, columns: Columns, size: int | None, zero: bool
) -> Iterator[Data]:
    kind = formatted(path, EXTENSIONS, format)
    with opened(path) as file:
        if kind == "libsvm":
            yield from _libsvm(file, columns, size, zero)
        elif kind in ("csv", "tsv"):
            yield from _text_table(file, kind, columns, size)
        elif kind == "npz":
            yield from _npz(file, columns, size)
        else:
            yield from _binary_table(file, kind, columns, size)


# ---- LIBSVM's text ----------------------------------------------------------------------------


def _libsvm(file: IO[bytes], columns: Columns, size: int | None, zero: bool) -> Iterator[Data]:
    for line, block in lines(file, size):
        target, offsets, indices, values = _core.read_libsvm(block, line, zero)
        if not len(target):
            continue
        width = int(indices.max(initial=-1)) + 1
        if columns.width is not None and width > columns.width:
            row = int(np.searchsorted(offsets, int(indices.argmax()), side="right"))
            raise ValueError(
                f"line {_nth_line(block, row, line, b'#')}: index {width} is beyond the model's "
                f"{columns.width} features."
            )
        if len(values) < 2**31:
            offsets = offsets.astype(np.int32)
        shape = (len(target), columns.width or width)
        yield Data(X=sp.csr_array((values, indices, offsets), shape=shape), y=_whole(target))


def _nth_line(block: bytes, row: int, first: int, comment: bytes = b"") -> int:
    """The number of the line that holds the row, counted from 1 without empty ones."""
    for number, text in enumerate(block.split(b"\n"), start=first):
        row -= bool((text.split(comment)[0] if comment else text).strip())
        if not row:
            return number
    return first


def _whole(target: NDArray[np.float64]) -> NDArray[Any]:
    """Integers where all are: classes are 1 and -1, not 1.0."""
    whole = (target == np.floor(target)).all() and (np.abs(target) < 2**53).all()
    return target.astype(np.int64) if whole else target


# ---- tables -----------------------------------------------------------------------------------


def _arrow(name: str = "") -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            "CSV, Parquet and Arrow files need pyarrow: pip install 'maxmargin[cli]'."
        ) from error
    if name:
        from importlib import import_module

        return import_module(f"pyarrow.{name}")
    return pa


@dataclass(frozen=True)
class _Plan:
    """Which columns of a table become what."""

    features: tuple[str, ...]
    categorical: tuple[str, ...]
    target: str | None
    notes: tuple[str, ...] = ()


def _plan(names: Sequence[str], columns: Columns, named: bool) -> _Plan:
    """Find the columns that are wanted among those of a table."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"line 1: two columns have the name {twice[0]!r}.")
    for name in (*columns.drop, *(columns.categorical if columns.features is None else ())):
        if name not in names:
            raise ValueError(f"there is no column {name!r}; there are {_listed(names)}.")
    target, notes = _target(names, columns)
    rest = [name for name in names if name != target and name not in columns.drop]
    if columns.features is None:
        if not rest:
            raise ValueError("there is no column beside the target.")
        return _Plan(tuple(rest), columns.categorical, target, notes)
    if target in columns.features:
        raise ValueError(f"the target {target!r} is a feature of the model.")
    if not named and len(rest) == len(columns.features):  # by position
        return _Plan(tuple(rest), (), target, notes)
    missing = [name for name in columns.features if name not in names]
    if missing:
        raise ValueError(
            f"there is no column {missing[0]!r}, which the model needs; there are {_listed(names)}."
        )
    extra = [name for name in rest if name not in columns.features]
    said = (f"ignored columns that the model does not know: {_listed(extra)}",) if extra else ()
    return _Plan(columns.features, columns.categorical, target, (*notes, *said))


def _target(names: Sequence[str], columns: Columns) -> tuple[str | None, tuple[str, ...]]:
    wanted = columns.target
    if isinstance(wanted, str) and wanted not in names:
        wanted = _position(wanted)
    if isinstance(wanted, int):
        if wanted == 0 or abs(wanted) > len(names):
            raise ValueError(
                f"--target {wanted}: positions are 1 to {len(names)}, or -1 for the last column."
            )
        return names[wanted - 1 if wanted > 0 else wanted], ()
    if wanted is not None:
        if wanted in names or not columns.needed:
            return (wanted if wanted in names else None), ()
        raise ValueError(f"there is no column {wanted!r}; there are {_listed(names)}.")
    if not columns.needed or columns.features is not None:
        return None, ()
    usual = [name for name in names if name.lower() in _USUAL]
    if len(usual) != 1:
        raise ValueError(f"say --target, a column's name or position; there are {_listed(names)}.")
    return usual[0], (f"the target is the column {usual[0]!r}",)


def _position(wanted: str) -> str | int:
    """A position, if the text is one."""
    return int(wanted) if wanted.removeprefix("-").isdecimal() else wanted


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown + (f", ... ({len(names)} columns)" if len(names) > 10 else "")


def _text_table(file: IO[bytes], kind: str, columns: Columns, size: int | None) -> Iterator[Data]:
    arrow, reader = _arrow(), _arrow("csv")
    head: tuple[list[str], str, bool] | None = None
    plan = None
    for line, block in lines(file, size):
        if head is None:
            head, skipped = _head(block, kind, columns)
            block, line = block[skipped:], line + block.count(b"\n", 0, skipped)
            plan = _plan(head[0], columns, head[2])
            if not head[2]:
                plan = replace(plan, notes=(*plan.notes, _unnamed(head[0])))
        if not block.strip():
            continue
        assert plan is not None
        place = _TextPlace(block, line, head[0], head[1])
        table = _parse_text(arrow, reader, place, plan, columns)
        yield _assembled(table, plan, columns, place)
        plan = replace(plan, notes=())


def _unnamed(names: list[str]) -> str:
    return f"the first line holds numbers: columns are called {names[0]} ... {names[-1]}"


def _head(block: bytes, kind: str, columns: Columns) -> tuple[tuple[list[str], str, bool], int]:
    """Names, delimiter and whether the names were given; and the bytes that they take."""
    start = 3 if block.startswith(b"\xef\xbb\xbf") else 0
    while block[start : start + 1] in (b"\r", b"\n"):
        start += 1
    end = block.find(b"\n", start)
    end = len(block) if end < 0 else end + 1
    try:
        text = block[start:end].decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError("line 1: not a text in UTF-8.") from None
    delimiter = "\t" if kind == "tsv" else ";" if ";" in text and "," not in text else ","
    try:
        cells = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"line 1: {error}.") from None
    cells = [cell.strip() for cell in cells]
    named = columns.header
    if named is None:
        named = not all(is_number(cell) or cell in MISSING for cell in cells)
    names = cells if named else [f"x{k}" for k in range(1, len(cells) + 1)]
    if not names:
        raise ValueError("the file is empty.")
    return (names, delimiter, named), end if named else start


def is_number(cell: str) -> bool:
    """Whether a cell of a text is a number.

    >>> is_number("1e3"), is_number("x"), is_number("1_000")
    (True, False, False)
    """
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


@dataclass(frozen=True)
class _TextPlace:
    """A block of a text file, and where in the file it is."""

    block: bytes
    line: int
    names: list[str]
    delimiter: str

    def of(self, row: int) -> str:
        """Name a row, counted from 0, for a message."""
        return f"line {_nth_line(self.block, row + 1, self.line)}"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line and cells, as far as they can be told apart."""
        text = io.StringIO(self.block.decode("utf-8", "replace"), newline="")
        rows = csv.reader(text, delimiter=self.delimiter)
        try:
            for cells in rows:
                yield self.line + rows.line_num - 1, cells
        except csv.Error:
            return

    def wrong_number(self, name: str) -> tuple[str, str] | None:
        """The first cell of a column that is no number, and its line."""
        at = self.names.index(name)
        for line, cells in self._rows():
            cell = cells[at].strip() if at < len(cells) else ""
            if cell not in MISSING and not is_number(cell):
                return f"line {line}", cell
        return None

    def wrong_length(self) -> str | None:
        """The first line that has not as many cells as there are names."""
        for line, cells in self._rows():
            if cells and len(cells) != len(self.names):
                return f"line {line}: {len(cells)} cells, but there are {len(self.names)} columns."
        return None


def _parse_text(arrow: Any, reader: Any, place: _TextPlace, plan: _Plan, columns: Columns) -> Any:
    types = {name: arrow.string() for name in plan.categorical}
    if columns.features is not None:
        types |= {n: arrow.float64() for n in plan.features if n not in plan.categorical}
    if plan.target is not None and columns.text_target is not None:
        types[plan.target] = arrow.string() if columns.text_target else arrow.float64()
    wanted = [*plan.features, *([plan.target] if plan.target is not None else [])]
    try:
        return reader.read_csv(
            io.BytesIO(place.block),
            read_options=reader.ReadOptions(
                column_names=place.names, block_size=max(len(place.block), 1) + 1
            ),
            parse_options=reader.ParseOptions(delimiter=place.delimiter),
            convert_options=reader.ConvertOptions(
                column_types=types,
                include_columns=wanted,
                null_values=MISSING,
                strings_can_be_null=True,
            ),
        )
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        length = place.wrong_length()
        if length is not None:
            raise ValueError(length) from None
        for name in (n for n in wanted if types.get(n) == arrow.float64()):
            if (wrong := place.wrong_number(name)) is not None:
                raise ValueError(_no_number(*wrong, name)) from None
        raise ValueError(f"from line {place.line}: {str(error).splitlines()[0]}") from None


def _has_comma(text: str) -> bool:
    """Whether it is a number but for a decimal comma."""
    return "," in text and is_number(text.replace(",", ".", 1))


def _refuse_commas(given: list[str], values: NDArray[Any], name: str, place: Any) -> None:
    """Refuse a column most of whose texts are numbers with a decimal comma."""
    if 2 * sum(map(_has_comma, given)) > len(given):
        row = next(k for k, v in enumerate(values) if v is not None and _has_comma(v))
        raise ValueError(
            f"{_no_number(place.of(row), values[row], name)} Write decimal points, or say "
            f"--categorical {name} if the column holds categories."
        )


def _no_number(where: str, cell: str, name: str) -> str:
    return f"{where}: {cell[:20]!r} in column {name!r} is not a number."


class _RowPlace:
    """Rows of a file that has no lines."""

    def __init__(self, first: int) -> None:
        self.first = first

    def of(self, row: int) -> str:
        return f"row {self.first + row}"

    def wrong_number(self, name: str) -> tuple[str, str] | None:
        return None


def _binary_table(file: IO[bytes], kind: str, columns: Columns, size: int | None) -> Iterator[Data]:
    arrow = _arrow()
    plan, row = None, 1
    try:
        for table in _binary_parts(arrow, file, kind, size):
            plan = _plan(table.column_names, columns, True) if plan is None else plan
            wanted = [*plan.features, *([plan.target] if plan.target is not None else [])]
            if len(table):
                yield _assembled(table.select(wanted), plan, columns, _RowPlace(row))
            row, plan = row + len(table), replace(plan, notes=())
    except (arrow.ArrowException, OSError, EOFError) as error:
        raise ValueError(f"not a {kind} file: {str(error).splitlines()[0]}") from None


def _binary_parts(arrow: Any, file: IO[bytes], kind: str, size: int | None) -> Iterator[Any]:
    seekable = file if file.seekable() else io.BytesIO(file.read())
    if kind == "parquet":
        whole = _arrow("parquet").ParquetFile(seekable)
        if size is None:
            yield whole.read()
            return
        step = max(_CELLS // max(len(whole.schema_arrow), 1), 1)
        for batch in whole.iter_batches(batch_size=step):
            yield arrow.Table.from_batches([batch])
        return
    ipc, start = _arrow("ipc"), seekable.read(6)
    seekable.seek(0)
    if start == b"ARROW1":
        stored = ipc.open_file(seekable)
        parts = (stored.get_batch(k) for k in range(stored.num_record_batches))
        schema = stored.schema
    else:
        stream = ipc.open_stream(seekable)
        parts, schema = iter(stream), stream.schema
    if size is None:
        yield arrow.Table.from_batches(list(parts), schema)
        return
    for batch in parts:
        yield arrow.Table.from_batches([batch])


# ---- from columns to arrays -------------------------------------------------------------------


def _assembled(table: Any, plan: _Plan, columns: Columns, place: Any) -> Data:
    arrow = _arrow()
    known = columns.features is not None
    found, categorical = [], []
    for name in plan.features:
        column = table.column(name)
        if name in plan.categorical or (not known and _is_text(arrow, column.type)):
            categorical.append(name)
            found.append(_texts(arrow, column, name, place, checked=name in plan.categorical))
        else:
            found.append(_numbers(arrow, column, name, place))
    X = np.empty((len(table), len(found)), dtype=object if categorical else np.float64)
    for k, values in enumerate(found):
        X[:, k] = values
    y = None
    if plan.target is not None:
        y = _targets(arrow, table.column(plan.target), plan.target, columns, place)
    return Data(
        X=X,
        y=y,
        names=plan.features if columns.features is None else columns.features,
        categorical=tuple(categorical),
        target=plan.target,
        notes=plan.notes,
    )


def _is_text(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_dictionary(kind)
    )


def _numbers(arrow: Any, column: Any, name: str, place: Any) -> NDArray[np.float64]:
    """A column as float64, missing cells as NaN; refuse what is no number and what is infinite."""
    types = arrow.types
    kind = column.type
    if _is_text(arrow, kind):
        texts = column.to_pylist()
        row = next((k for k, t in enumerate(texts) if t is not None and not is_number(t)), None)
        if row is not None:
            raise ValueError(_no_number(place.of(row), texts[row], name))
        column = arrow.array([None if t is None else float(t) for t in texts], arrow.float64())
    elif types.is_null(kind):
        column = arrow.nulls(len(column), arrow.float64())
    elif not (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
    ):
        if types.is_binary(kind):
            raise ValueError(f"column {name!r} holds bytes that are not UTF-8.")
        what = "dates" if types.is_temporal(kind) else str(kind)
        raise ValueError(f"column {name!r} holds {what}, not numbers; leave it out with --drop.")
    values = np.asarray(
        column.cast(arrow.float64())
        if not types.is_boolean(kind)
        else column.cast(arrow.uint8()).cast(arrow.float64()),
        dtype=np.float64,
    )
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(f"{place.of(int(infinite.argmax()))}: column {name!r} is infinite.")
    return values


def _texts(arrow: Any, column: Any, name: str, place: Any, checked: bool) -> NDArray[Any]:
    """A column of categories; refuse what looks like numbers with a slip, or like names."""
    column = column.cast(arrow.string())
    values = np.array(column.to_pylist(), dtype=object)
    if checked:
        return values
    given = [v for v in values.tolist() if v is not None]
    numbers = sum(map(is_number, given))
    if 2 * numbers > len(given):
        wrong = place.wrong_number(name)
        if wrong is None:
            row = next(k for k, v in enumerate(values) if v is not None and not is_number(v))
            wrong = place.of(row), values[row]
        raise ValueError(
            f"{_no_number(wrong[0], str(wrong[1]), name)} Mend it, or say --categorical {name} if "
            "the column holds categories."
        )
    _refuse_commas(given, values, name, place)
    if len(set(given)) > _MANY and 2 * len(set(given)) > len(values):
        raise ValueError(
            f"column {name!r} has {len(set(given))} different texts in {len(values)} rows; leave "
            f"it out with --drop {name}, or say --categorical {name}."
        )
    return values


def _targets(arrow: Any, column: Any, name: str, columns: Columns, place: Any) -> NDArray[Any]:
    if column.null_count:
        row = int(np.asarray(column.is_null()).argmax())
        raise ValueError(f"{place.of(row)}: the target {name!r} is missing.")
    text = _is_text(arrow, column.type)
    if columns.text_target is True:
        return np.array([str(v) for v in column.to_pylist()], dtype=str)
    if text and columns.text_target is None:
        texts = column.cast(arrow.string()).to_pylist()
        numbers = sum(map(is_number, texts))
        if numbers > 0.9 * len(texts) and len(set(texts)) > _MANY:
            row = next(k for k, t in enumerate(texts) if not is_number(t))
            raise ValueError(_no_number(place.of(row), texts[row], name))
        if len(set(texts)) > _MANY and 2 * sum(map(_has_comma, texts)) > len(texts):
            row = next(k for k, t in enumerate(texts) if _has_comma(t))
            wrong = _no_number(place.of(row), texts[row], name)
            raise ValueError(f"{wrong} Write decimal points.")
        return np.array(texts, dtype=str)
    if arrow.types.is_boolean(column.type) and columns.text_target is None:
        return np.asarray(column, dtype=bool)
    return _whole(_numbers(arrow, column, name, place))


# ---- NPZ --------------------------------------------------------------------------------------


def _npz(file: IO[bytes], columns: Columns, size: int | None) -> Iterator[Data]:
    seekable = file if file.seekable() else io.BytesIO(file.read())
    try:
        with zipfile.ZipFile(seekable) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            if {"indices", "indptr", "format", "shape"} <= names:
                parts = iter([_sparse_npz(seekable, archive, names)])
            else:
                parts = _dense_npz(archive, names, size)
            for X, y in parts:
                yield _checked_matrix(X, y, columns)
    except (
        zipfile.BadZipFile,
        EOFError,
        KeyError,
        OSError,
        NotImplementedError,
        MemoryError,
    ) as error:
        raise ValueError(f"not an NPZ file: {error}.") from None


def _member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _sparse_npz(file: IO[bytes], archive: zipfile.ZipFile, names: set[str]) -> tuple[Any, Any]:
    y = next((_member(archive, n) for n in ("y", "target", "label") if n in names), None)
    file.seek(0)
    return sp.csr_array(sp.load_npz(file)).astype(np.float64), y


def _dense_npz(
    archive: zipfile.ZipFile, names: set[str], size: int | None
) -> Iterator[tuple[Any, Any]]:
    alone = tuple(names) if len(names) == 1 else ()
    key = next((n for n in ("X", "x", "data", *alone) if n in names), None)
    if key is None:
        raise ValueError(f"an NPZ file needs an array X (and y); it has {_listed(sorted(names))}.")
    y = next((_member(archive, n) for n in ("y", "target", "label", "labels") if n in names), None)
    if size is None:
        yield _member(archive, key), y
        return
    with archive.open(f"{key}.npy") as member:
        for first, X in _rows_of(member):
            yield X, y[first : first + len(X)] if y is not None and y.ndim else y


def _rows_of(member: IO[bytes]) -> Iterator[tuple[int, NDArray[Any]]]:
    """The rows of an array in a .npy file, some at a time where they lie one after the other."""
    version = np.lib.format.read_magic(member)
    header = {(1, 0): np.lib.format.read_array_header_1_0}.get(
        version, np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = header(member)
    if dtype.hasobject or len(shape) != 2 or fortran:
        if dtype.hasobject:
            raise ValueError("the array X holds Python objects, not numbers.")
        if len(shape) != 2:
            raise ValueError(f"X must have rows and columns; got shape {shape}.")
        flat = np.frombuffer(member.read(), dtype=dtype)
        yield 0, flat.reshape(shape, order="F")
        return
    step = max(_CELLS // max(shape[1], 1), 1)
    for first in range(0, shape[0], step):
        count = min(step, shape[0] - first)
        block = member.read(count * shape[1] * dtype.itemsize)
        yield first, np.frombuffer(block, dtype=dtype).reshape(count, shape[1])


def _checked_matrix(X: Any, y: Any, columns: Columns) -> Data:
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers; got {X.dtype}.")
    wanted = columns.target
    if isinstance(wanted, str):
        wanted = _position(wanted)
    if y is None and isinstance(wanted, int) and not sp.issparse(X):
        if wanted == 0 or abs(wanted) > X.shape[1]:
            raise ValueError(f"--target {wanted}: positions are 1 to {X.shape[1]}, or -1.")
        at = wanted - 1 if wanted > 0 else X.shape[1] + wanted
        X, y = np.delete(X, at, axis=1), X[:, at]
    cells = X.data if sp.issparse(X) else X
    bad = ~np.isfinite(cells) if cells.dtype.kind == "f" else np.zeros(0, dtype=bool)
    if sp.issparse(X) and bad.any():
        raise ValueError("X has a cell that is not finite.")
    if not sp.issparse(X) and np.isinf(cells).any():
        row, column = np.argwhere(np.isinf(cells))[0] + 1
        raise ValueError(f"row {row}: column {column} is infinite.")
    if y is not None and (y.ndim != 1 or len(y) != X.shape[0]):
        raise ValueError(f"y must have one value per row of X; got shapes {y.shape} and {X.shape}.")
    if y is not None and y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(f"row {int(np.isfinite(y).argmin()) + 1}: the target is not finite.")
        y = _whole(y.astype(np.float64))
    if y is not None and y.dtype.kind not in "biufU":
        raise ValueError(f"y must hold numbers or texts; got {y.dtype}.")
    return Data(X=_padded(X.astype(np.float64), columns.width), y=y)


def _padded(X: Any, width: int | None) -> Any:
    if width is None or X.shape[1] == width:
        return X
    if sp.issparse(X) and X.shape[1] < width:
        return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    raise ValueError(f"the data have {X.shape[1]} features, the model has {width}.")
