"""What the page may say and how it is answered: checked JSON in, a header and arrays out."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from maxmargin.lab.presets import TITLES

__all__ = [
    "MAX_BYTES",
    "MAX_POINTS",
    "MAX_STEPS",
    "MAX_TRACE_BYTES",
    "RANGES",
    "Refusal",
    "Reply",
    "encode",
    "packed",
    "parse",
]

MAX_POINTS = 2000
MAX_STEPS = 5000  # of a trace
MAX_BYTES = 1 << 18  # of a message
MAX_TRACE_BYTES = 1 << 22  # of a message that carries a trace
_LARGEST = 1e6  # coordinate
_TERMS = 4

# What a slider may reach; the page asks for them, so there is one copy.
RANGES: dict[str, tuple[float, float]] = {
    "C": (1e-3, 1e5),
    "nu": (1e-3, 1.0),
    "K_s": (1e-3, 1e3),
    "epsilon": (1e-3, 10.0),
    "tol": (1e-8, 1e-1),
    "sigma": (1e-2, 1e2),
    "gamma": (1e-3, 1e2),
    "coef0": (0.0, 10.0),
    "weight": (1e-3, 1e3),
    "degree": (1, 10),
}

Check = Callable[[Any, str], Any]


class Refusal(ValueError):
    """A message that cannot be followed; its text is shown on the page."""


@dataclass(frozen=True)
class Reply:
    """One answer: a header that is JSON and named arrays of float32."""

    header: dict[str, Any]
    arrays: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


def encode(reply: Reply) -> bytes:
    r"""Pack a reply: length of the header, the header, then the arrays one after the other.

    Examples
    --------
    >>> encode(Reply({"type": "frame"}, {"alpha": np.zeros(2, dtype=np.float32)}))[:4]
    b',\x00\x00\x00'
    """
    header, arrays = packed(reply)
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)  # a Float32Array begins at a multiple of 4
    return struct.pack("<I", len(text)) + text + arrays


def packed(reply: Reply) -> tuple[dict[str, Any], bytes]:
    """Return the header, which tells the shapes of the arrays, and these one after the other."""
    shapes = {name: list(array.shape) for name, array in reply.arrays.items()}
    parts = (np.ascontiguousarray(a, dtype="<f4").tobytes() for a in reply.arrays.values())
    return {**reply.header, "arrays": shapes}, b"".join(parts)


def parse(text: str | bytes) -> dict[str, Any]:
    """Read and check one message.

    Examples
    --------
    >>> parse('{"type": "step", "n": 3}')
    {'type': 'step', 'n': 3}
    >>> parse('{"type": "step", "n": NaN}')
    Traceback (most recent call last):
    maxmargin.lab.protocol.Refusal: NaN is not a number the lab can use.
    """
    if len(text) > MAX_TRACE_BYTES:
        raise Refusal(f"the message has {len(text)} bytes; at most {MAX_TRACE_BYTES} are read.")
    try:
        message = json.loads(text, parse_constant=_constant, object_pairs_hook=_unique)
    except Refusal:
        raise
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the message is not JSON: {str(error)[:100]}") from None
    if len(text) > MAX_BYTES and not _has_trace(message):
        raise Refusal(f"the message has {len(text)} bytes; at most {MAX_BYTES} are read.")
    return check(message)


def check(message: Any) -> dict[str, Any]:
    """Check the fields of a message, which came as JSON or from a notebook."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise Refusal('a message is an object with a "type".')
    kind = message["type"]
    if kind not in MESSAGES:
        raise Refusal(f"unknown type {kind[:40]!r}; there are {', '.join(MESSAGES)}.")
    fields = MESSAGES[kind] | {"id?": whole(0, 2**53)}
    rest = {name: value for name, value in message.items() if name != "type"}
    return {"type": kind, **record(fields)(rest, kind)}


def _constant(name: str) -> NoReturn:
    raise Refusal(f"{name} is not a number the lab can use.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal("a field is given twice.")
    return found


def _has_trace(message: Any) -> bool:
    return isinstance(message, dict) and message.get("type") == "replay"


# ---- checks: each takes a value and its name, and returns the value or refuses -----------------


def _wrong(name: str, value: Any, allowed: str) -> NoReturn:
    raise Refusal(f"{name} must be {allowed}; got {repr(value)[:60]}.")


def number(low: float, high: float) -> Check:
    """A finite real number from low to high."""

    def test(value: Any, name: str) -> float:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not low <= value <= high:  # also refuses NaN, and infinity
            _wrong(name, value, f"a number from {low:g} to {high:g}")
        return float(value)

    return test


def whole(low: int, high: int) -> Check:
    """An integer from low to high."""

    def test(value: Any, name: str) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            _wrong(name, value, f"an integer from {low} to {high}")
        return int(value)

    return test


def choice(*allowed: Any) -> Check:
    """One of these values."""

    def test(value: Any, name: str) -> Any:
        if isinstance(value, bool | list | dict) or value not in allowed:
            _wrong(name, value, "one of " + ", ".join(map(str, allowed)))
        return value

    return test


def flag(value: Any, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        _wrong(name, value, "true or false")
    return bool(value)


def text(most: int) -> Check:
    """A string of at most so many characters."""

    def test(value: Any, name: str) -> str:
        if not isinstance(value, str) or len(value) > most:
            _wrong(name, value, f"text of at most {most} characters")
        return str(value)

    return test


def many(inner: Check, most: int, least: int = 0) -> Check:
    """A list of things that each pass."""

    def test(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            _wrong(name, value, f"a list of {least} to {most} entries")
        return [inner(entry, f"{name}[{k}]") for k, entry in enumerate(value)]

    return test


def row(*columns: Check) -> Check:
    """A list of exactly these columns."""

    def test(value: Any, name: str) -> list[Any]:
        if not isinstance(value, list) or len(value) != len(columns):
            _wrong(name, value, f"a list of {len(columns)} values")
        pairs = zip(columns, value, strict=True)
        return [column(entry, f"{name}[{k}]") for k, (column, entry) in enumerate(pairs)]

    return test


def record(fields: Mapping[str, Check]) -> Check:
    """An object with these fields and no others; a name that ends in ? may be missing."""
    known = {name.rstrip("?"): (inner, name.endswith("?")) for name, inner in fields.items()}

    def test(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _wrong(name, value, "an object")
        for key in value:
            if key not in known:
                has = ", ".join(known) or "none"
                raise Refusal(f"{name} has no field {key[:40]!r}; its fields are: {has}.")
        for key, (_, optional) in known.items():
            if not optional and key not in value:
                raise Refusal(f"{name} needs the field {key!r}.")
        return {key: known[key][0](entry, f"{name}.{key}") for key, entry in value.items()}

    return test


def maybe(inner: Check) -> Check:
    """None, or what passes."""

    def test(value: Any, name: str) -> Any:
        return None if value is None else inner(value, name)

    return test


def _ranged(name: str) -> Check:
    low, high = RANGES[name]
    return whole(int(low), int(high)) if name == "degree" else number(low, high)


SOLVERS = ("TextbookSMO", "PlattSMO", "SMO", "ADMM", "Pegasos", "DualCoordinate")
PROBLEMS = ("hard", "soft", "nu", "squared", "svr", "one_class")
KERNELS = ("linear", "poly", "rbf", "laplacian", "matern", "sigmoid")
SCALINGS = ("sum", "mean", "doubled")
PRESETS = tuple(TITLES)

coordinate, sign = number(-_LARGEST, _LARGEST), choice(-1, 1)
_TERM = {
    "kind": choice(*KERNELS),
    "op?": choice("+", "*"),
    **{f"{name}?": _ranged(name) for name in ("sigma", "gamma", "coef0", "weight", "degree")},
}
_SETTINGS: dict[str, Check] = {
    "problem?": choice(*PROBLEMS),
    "scaling?": choice(*SCALINGS),
    "kernel?": many(record(_TERM), _TERMS, 1),
    "solver?": choice(*SOLVERS),
    "rival?": choice(None, *SOLVERS),
    **{f"{name}?": _ranged(name) for name in ("C", "nu", "K_s", "epsilon", "tol")},
}
_POINTS = many(row(coordinate, coordinate, sign), MAX_POINTS)
_DOCUMENT = record(
    {"preset?": choice(None, *PRESETS), "points?": _POINTS, "settings?": record(_SETTINGS)}
)
_finite = number(-1e300, 1e300)
_CHANGES = many(row(whole(0, 2 * MAX_POINTS), _finite), 2 * MAX_POINTS)
_STEP = {
    "i": whole(0, MAX_POINTS),
    "why": text(200),
    "b": _finite,
    "change": _finite,
    "iteration": whole(0, 2**53),
    **{
        f"{name}?": maybe(_finite)
        for name in (
            "E_i", "E_j", "eta", "L", "H", "alpha_i", "alpha_i_unclipped", "alpha_j",
            "alpha_j_unclipped", "alpha_i_new", "alpha_j_new",
        )
    },
    "j?": maybe(whole(0, MAX_POINTS)),
}  # fmt: skip
_TRACE = record(
    {
        "maxmargin_trace": choice(1),
        "document": _DOCUMENT,
        "steps": many(
            record(
                {
                    "iteration": whole(0, 2**53),
                    "updates": whole(0, 2**53),
                    "changes": _CHANGES,
                    "step?": maybe(record(_STEP)),
                }
            ),
            MAX_STEPS,
        ),
    }
)

MESSAGES: dict[str, dict[str, Check]] = {
    "hello": {"document?": _DOCUMENT},
    "open": {"document": _DOCUMENT},
    "preset": {"name": choice(*PRESETS)},
    "add": {"x": coordinate, "y": coordinate, "label": sign},
    "move": {"index": whole(0, MAX_POINTS), "x": coordinate, "y": coordinate, "live?": flag},
    "label": {"index": whole(0, MAX_POINTS), "label": sign},
    "remove": {"index": whole(0, MAX_POINTS)},
    "clear": {},
    "csv": {"text": text(1 << 17)},
    "set": {"settings": record(_SETTINGS), "live?": flag},
    "undo": {},
    "redo": {},
    "view": {
        "x0": coordinate,
        "x1": coordinate,
        "y0": coordinate,
        "y1": coordinate,
        "columns": whole(2, 400),
        "rows": whole(2, 400),
    },
    "refine": {},
    "train": {},
    "step": {"n": whole(1, 1000)},
    "back": {"n": whole(1, 1000)},
    "seek": {"cursor": whole(0, 10**6)},
    "reset": {},
    "export": {"kind": choice("python", "trace")},
    "replay": {"trace": _TRACE},
}
