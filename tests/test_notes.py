"""docs/notes.md keeps its word: every name imports, every test and example is there."""

import ast
import functools
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "notes.md"
HEAD = ["item", "what it says", "code", "test", "example"]
SLIPS = ["where", "what is printed", "what is meant", "handled in"]

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the docs are not part of this checkout")


def tables():
    """The rows of each table, by the heading above it; the first row is the head."""
    found, heading = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|") and not set(line) <= set("|-: "):
            found.setdefault(heading, []).append([cell.strip() for cell in line.split("|")[1:-1]])
    return found


TABLES = tables()
NOTES = {name[:2]: rows[1:] for name, rows in TABLES.items() if rows[0] == HEAD}
SLIPPED = {name: rows[1:] for name, rows in TABLES.items() if rows[0] == SLIPS}
QUOTED = sorted(set(re.findall("`([^`]+)`", PAGE.read_text(encoding="utf-8")))) if NOTES else []
NAMES = [text for text in QUOTED if text.startswith("maxmargin.")]
TESTS = [text for text in QUOTED if "::" in text]
FILES = [text for text in QUOTED if text.endswith(".py")]


def resolve(dotted):
    """Walk from the package to the name; a field of a dataclass counts as well."""
    at, path = importlib.import_module("maxmargin"), "maxmargin"
    for part in dotted.split(".")[1:]:
        path += f".{part}"
        if part in getattr(at, "__dataclass_fields__", ()):
            return
        if not hasattr(at, part):
            importlib.import_module(path)
        at = getattr(at, part)


@functools.cache
def functions(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_tables_are_whole():
    assert list(NOTES) == ["N0", "N1", "N2", "N3", "N4"]
    assert list(SLIPPED) == ["N0", "N1", "N2", "N3", "N4"]
    for rows in [*NOTES.values(), *SLIPPED.values()]:
        assert len({len(row) for row in rows}) == 1
        items = [row[0] for row in rows]
        assert len(set(items)) == len(items)
    assert len(NAMES) > 50
    assert len(TESTS) > 50
    assert len(FILES) > 15


@pytest.mark.parametrize("name", NAMES)
def test_name_resolves(name):
    assert not any(part.startswith("_") for part in name.split("."))
    resolve(name)


def test_a_wrong_name_does_not():
    with pytest.raises(ImportError):
        resolve("maxmargin.geometry.no_such_thing")


def test_tests_exist():
    for text in TESTS:
        path, name = text.split("::")
        assert name in functions(path), text


def test_examples_exist():
    assert [path for path in FILES if not (ROOT / path).is_file()] == []
    scripts = {f"examples/{path.name}" for path in (ROOT / "examples").glob("plot_*.py")}
    assert scripts <= set(FILES)


def test_columns_hold_what_their_heads_say():
    kinds = ("maxmargin.", "tests/", "examples/plot_")
    for rows in NOTES.values():
        for row in rows:
            for cell, kind in zip(row[2:], kinds, strict=True):
                assert all(text.startswith(kind) for text in re.findall("`([^`]+)`", cell)), row


@pytest.mark.parametrize("tag", NOTES)
def test_every_row_is_realised_and_shown(tag):
    """Code, and a test or an example that holds it; else the row says that it has none."""
    for item, _, code, test, example in NOTES[tag]:
        if code in ("not yet", "background"):
            assert not test + example, item
        else:
            assert code.startswith("`maxmargin."), item
            assert test.startswith("`tests/"), item
    for where, *_, handled in SLIPPED[tag]:
        assert handled.startswith("`maxmargin.") or handled in ("not yet", "background"), where


def test_n0_is_complete():
    items = ", ".join(row[0] for row in NOTES["N0"])
    numbers = []
    for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", items):
        numbers += range(int(first), int(last or first) + 1)
    assert sorted(numbers) == list(range(1, 99))  # each of them once
    named = [f"Figure {k}" for k in range(1, 8)] + [f"Example 3.{k}" for k in (7, 8, 9)]
    named += [f"Definition 3.{k}" for k in (1, 2, 3, 4, 5, 10)] + ["Theorem 3.6", "Theorem 3.11"]
    for name in [*named, "Algorithm 1"]:
        assert re.search(rf"\b{re.escape(name)}\b", items), name


def test_no_path_of_a_machine():
    text = PAGE.read_text(encoding="utf-8")
    assert not re.search(r"/(work|home|tmp|shared|usr)\b|\.\./", text)
