"""The documentation keeps its word: formulas, reference and import order are what it says."""

import ast
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest
from test_notes import functions, resolve

import maxmargin

ROOT = Path(__file__).parents[1]
THEORY = sorted((ROOT / "docs" / "theory").glob("*.md"))
SOURCE = ROOT / "src" / "maxmargin"

pytestmark = pytest.mark.skipif(not THEORY, reason="the docs are not part of this checkout")


# ---- theory: every formula has its code, its test and its picture -------------------------------


# What the lab cannot show, by page or formula; docs/theory/index.md says so.
NOT_IN_THE_LAB = {
    "precision",  # rounding
    "other-machines",  # the lab has the machines of the one QP
    "eq-hyperbola", "eq-stationary", "eq-half-plane",  # two problems of two variables
    "eq-confidence", "eq-xi-alpha",  # no column of its table
}  # fmt: skip


def paragraphs(page):
    """The blocks of a page between blank lines; a proof counts as one."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"```\{admonition\}.*?\n```", "(proof)", text, flags=re.DOTALL)
    return [block for block in text.split("\n\n") if block.strip()]


@pytest.mark.parametrize("page", THEORY, ids=lambda path: path.stem)
def test_every_formula_is_realised(page):
    open_formula = None
    for block in paragraphs(page):
        if block.startswith(("#", "$$")):
            assert open_formula is None, f"nothing realises {open_formula}"
        if block.startswith("$$"):
            label = re.search(r"\$\$ \((eq-[\w-]+)\)$", block)
            assert label, f"{page.name}: a formula without a label:\n{block}"
            open_formula = label[1]
        elif block.startswith("→") and open_formula:
            assert re.search(r"`(maxmargin\.|cpp/)", block), f"{open_formula}: no code"
            assert "`tests/" in block, f"{open_formula}: no test"
            here = page.stem not in NOT_IN_THE_LAB and open_formula not in NOT_IN_THE_LAB
            assert here == ("`lab/" in block), f"{open_formula}: in the lab or not?"
            if page.stem != "precision":  # rounding is not to be seen
                assert re.search(r"`(examples|lab)/", block), f"{open_formula}: no picture"
            open_formula = None
    assert open_formula is None, f"nothing realises {open_formula}"


@pytest.mark.parametrize(
    "page", [*THEORY, ROOT / "docs" / "architecture.md"], ids=lambda path: path.stem
)
def test_what_a_page_names_is_there(page):
    for text in set(re.findall(r"`([^`\s]+)`", page.read_text(encoding="utf-8"))):
        if text.startswith("maxmargin."):
            resolve(text)
        elif "::" in text:
            path, name = text.split("::")
            assert name in functions(path), text
        elif re.match(r"(tests|examples|cpp|src|docs|tools)/\w", text):
            assert (ROOT / text).exists(), text


def lab_links():
    """Every link to the lab, once: preset and settings."""
    pages = "".join(page.read_text("utf-8") for page in THEORY)
    return sorted(set(re.findall(r"`lab/([^`]+)`", pages)))


def message(link):
    """What the lab's page sends when it opens a link (fromHash in lab.js)."""
    preset, _, query = link.partition("?")
    settings = dict(pair.split("=", 1) for pair in query.split("&") if pair)
    for name in {"C", "nu"} & set(settings):
        settings[name] = float(settings[name])
    terms = re.findall(r"[*]?[a-z][^*]*", settings.get("kernel", "rbf"))
    settings["kernel"] = []
    for term in terms:
        kind, *rest = term.lstrip("*").split(",")
        numbers = {name: float(value) for name, value in (pair.split("=") for pair in rest)}
        numbers |= {"degree": int(numbers["degree"])} if "degree" in numbers else {}
        settings["kernel"].append({"kind": kind, "op": "*" if "*" in term else "+", **numbers})
    return {"type": "open", "document": {"preset": preset, "settings": settings}}


@pytest.mark.parametrize("link", lab_links())
def test_lab_links_open(link):
    pytest.importorskip("starlette")
    from maxmargin.lab import Session, protocol

    sent = protocol.parse(json.dumps(message(link)))
    replies = [reply.header for reply in Session().handle(sent)]
    assert any(header["type"] == "document" for header in replies), replies
    assert not [header for header in replies if header["type"] == "error"], replies


# ---- reference: every public name, with an example ----------------------------------------------


def public_names():
    """Dotted names of everything public; what a module and the package share is the module's."""
    modules = {n: v for n in maxmargin.__all__ if inspect.ismodule(v := getattr(maxmargin, n))}
    del modules["estimators"]  # its names are those of the package
    inside = {n: getattr(v, "__all__", None) or defined(v) for n, v in modules.items()}
    for module, names in inside.items():
        yield from (f"maxmargin.{module}.{name}" for name in names if loads(modules[module], name))
    for name in set(maxmargin.__all__) - {"estimators", *modules}:
        shared = any(
            name in names and getattr(modules[module], name) is getattr(maxmargin, name)
            for module, names in inside.items()
        )
        if loads(maxmargin, name) and not shared:
            yield f"maxmargin.{name}"


def loads(module, name):
    """Whether a name is a function or a class; what needs an extra that is not here counts."""
    try:
        return callable(getattr(module, name))
    except ImportError:
        return True


def defined(module):
    own = vars(module).items()
    return [k for k, v in own if k[0] != "_" and getattr(v, "__module__", "") == module.__name__]


NAMES = sorted(set(public_names()))


def referenced():
    text = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    module, found = "", set()
    for line in text.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   (\w+)", line):
            found.add(f"{module}.{match[1]}")
    return found


def test_the_reference_lists_every_public_name():
    assert sorted(referenced()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name):
    module, _, attribute = name.rpartition(".")
    try:
        value = getattr(importlib.import_module(module), attribute)
    except ImportError as missing:
        pytest.skip(str(missing))
    assert ">>> " in (inspect.getdoc(value) or "")


# ---- architecture: imports go one way -----------------------------------------------------------

# The order of CONTRIBUTING.md and docs/architecture.md; a package counts as one, but for what
# `certify` reads LIBSVM files with.
ORDER = [
    "versions", "_core", "threads", "tables", "kernels", "grams", "problems", "screening",
    "status", "certificate", "ledger", "losses", "logistic", "inverses", "linear_systems",
    "solvers", "progress", "geometry", "nu_svm", "duality", "folds", "calibration", "breakpoints",
    "path", "datasets", "sharing", "io.streams", "io.libsvm", "estimators", "io",
    "diagnosis", "explanation", "displays", "lab", "cli",
]  # fmt: skip


def place(module):
    """The place in the order of a module, or of the package it is in."""
    parts = module.split(".")
    for name in (".".join(parts[:2]), parts[0]):
        if name in ORDER:
            return ORDER.index(name)
    raise AssertionError(f"{module} has no place in ORDER")


def imported(path):
    """The modules of the package that a file imports when it is loaded."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maxmargin."):
            yield node.module.removeprefix("maxmargin.")
        elif isinstance(node, ast.ImportFrom) and node.module == "maxmargin":
            yield from (alias.name for alias in node.names)


def test_imports_go_one_way():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        own = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if own != "__init__":
            later = (other for other in imported(path) if place(other) > place(own))
            wrong += [f"{own} imports {other}" for other in later]
    assert not wrong


# ---- all pages ----------------------------------------------------------------------------------


def test_no_page_has_a_name_that_sphinx_takes():
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem not in {"search", "genindex", "py-modindex"}, page.name


def test_no_page_names_a_machine():
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "start").glob("*.md"), *THEORY]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(work|home|tmp|usr|root)\b", text), page.name
