"""Bytes in and out: compressed files, standard input, whole lines at a time, atomic writing."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["DAMAGE", "atomic", "formatted", "lines", "opened", "refuse_existing"]

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# What a damaged compressed file raises while it is read.
DAMAGE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def formatted(
    path: str, known: dict[str, str], given: str | None = None, *, option: str = "--format"
) -> str:
    """Return the format of a file: what was given, or what its extension says.

    Parameters
    ----------
    path : str
        "-" is standard input or output.
    known : dict of str to str
        From extensions, with the dot, to formats.
    given : str, optional
    option : str
        What says the format where the extension does not; "" where nothing can.

    Examples
    --------
    >>> formatted("a.csv.gz", {".csv": "csv", ".tsv": "tsv"})
    'csv'
    """
    formats = list(dict.fromkeys(known.values()))
    if given is not None:
        if given not in formats:
            raise ValueError(f"format {given!r} is not known; it is one of {', '.join(formats)}.")
        return given
    if path == "-":
        raise ValueError(
            f"'-' has no extension: say {option}, one of {', '.join(formats)}."
            if option
            else f"'-' has no extension; allowed are files, {', '.join(known)}."
        )
    suffixes = [s.lower() for s in Path(path).suffixes]
    while suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    if suffixes and suffixes[-1] in known:
        return known[suffixes[-1]]
    raise ValueError(
        f"{path}: the extension does not tell the format; allowed are {', '.join(known)}"
        + (f", or say {option}, one of {', '.join(formats)}." if option else ".")
    )


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, decompressed; "-" is standard input.

    A damaged compressed file ends as ValueError.
    """
    if path == "-":
        yield sys.stdin.buffer
        return
    opener: Any = _OPENERS.get(Path(path).suffix.lower(), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except DAMAGE as error:
        raise ValueError(f"{path} is damaged: {error}.") from error


def lines(file: IO[bytes], size: int | None) -> Iterator[tuple[int, bytes]]:
    r"""Read whole lines, about ``size`` bytes at a time; None reads all at once.

    Yields
    ------
    line : int
        The number of the first line of the block, from 1.
    block : bytes

    Examples
    --------
    >>> from io import BytesIO
    >>> list(lines(BytesIO(b"one\ntwo\nthree"), 5))
    [(1, b'one\n'), (2, b'two\n'), (3, b'three')]
    """
    line, rest = 1, b""
    while True:
        block = file.read() if size is None else file.read(size)
        if not block or size is None:
            if rest + block:
                yield line, rest + block
            return
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            continue
        whole, rest = rest + block[:cut], block[cut:]
        yield line, whole
        line += whole.count(b"\n")


def refuse_existing(path: str, force: bool) -> None:
    """Refuse to write over a file, before any work is done; also where it cannot be written.

    >>> refuse_existing("-", force=False)
    """
    if path == "-":
        return
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file.")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}.")
    if target.exists() and not force:
        raise FileExistsError(f"{path} exists; say --force to replace it.")


def _beside(target: Path) -> Path:
    """Make an empty file with a name that nobody can foresee, as readable as the target."""
    name = f".{target.name[:200]}.{secrets.token_hex(8)}.part"
    temporary = target.with_name(name)
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    if target.exists():
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))
    return temporary


@contextmanager
def atomic(path: str | os.PathLike[str], *, force: bool = True) -> Iterator[Path]:
    """Write a file whole or not at all: a temporary file beside it, then renamed.

    Yields
    ------
    Path
        Where to write. What raises inside leaves nothing behind and the old file as it was.
    """
    target = Path(path)
    refuse_existing(str(target), force)
    if target.exists() and not target.is_file():  # a pipe, a device
        yield target
        return
    target = target.resolve()
    temporary = _beside(target)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        refuse_existing(str(target), force)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
