"""The README and the start pages run: code, what it prints, and the commands they show.

Python blocks of a page share one namespace, in order. A block of text right after one is what it
prints, with ``...`` for what may differ. Commands run where the command line is installed.
"""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
WRITTEN = [
    README,
    DOCS / "index.md",
    DOCS / "architecture.md",
    DOCS / "speed.md",
    *sorted((DOCS / "start").glob("*.md")),
]
PAGES = [path for path in WRITTEN if path.exists()]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$(\n\n?)?", flags=re.DOTALL | re.MULTILINE)
PRINTED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.skipif(not PAGES, reason="the pages are not part of this checkout")


def blocks(page):
    """Language and text of each block, and whether it follows the one before at once."""
    found, end = [], -1
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        found.append((match[1], match[2], match.start() == end))
        end = match.end()
    return found


def run(page):
    """Run the Python blocks of a page and compare what they print; return their namespace."""
    namespace, printed = {}, None
    for language, text, at_once in blocks(page):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(page), "exec"), namespace)
            printed = out.getvalue()
        elif language == "text" and at_once and printed is not None:
            same = doctest.OutputChecker().check_output(text, printed, PRINTED)
            assert same, f"{page.name} says\n{text}\nbut the block prints\n{printed}"
    return namespace


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = run(page)
    if page == README:
        # The digits differ between CPUs; what they say must not.
        claimed = re.search(r"certificate_ +# (.*)", page.read_text(encoding="utf-8")).group(1)
        got = repr(namespace["clf"].certificate_)
        assert claimed.split()[::2] == got.split()[::2] == ["gap", "optimal"]
        assert 0.1 < float(claimed.split()[1]) / float(got.split()[1]) < 10


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_run(page, tmp_path, monkeypatch):
    lines = [
        line.partition("  #")[0]
        for language, text, _ in blocks(page)
        if language == "sh"
        for line in text.splitlines()
        if line.startswith("maxmargin ") and not line.startswith("maxmargin lab")  # stays open
    ]
    if not lines:
        return
    pytest.importorskip("cyclopts")
    from maxmargin.cli import main

    monkeypatch.chdir(tmp_path)
    for line in lines:
        assert main([*shlex.split(line)[1:], "-q"]) == 0, line


FILES = DOCS / "files.md"


@pytest.mark.skipif(not FILES.exists(), reason="docs/files.md is not part of this checkout")
def test_blocks_about_files_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = run(FILES)
    held = namespace["held"].about
    assert (held["certificate"]["status"], held["data"]["shape"]) == ("optimal", [150, 4])
    assert (namespace["found"].ok, namespace["found"].facts["largest_nu"]) == (True, 1.0)


@pytest.mark.skipif(not FILES.exists(), reason="docs/files.md is not part of this checkout")
def test_commands_about_files_run(tmp_path, monkeypatch):
    from maxmargin.cli import main

    monkeypatch.chdir(tmp_path)
    block = FILES.read_text(encoding="utf-8").split("```")[3]
    commands = [line.partition("#")[0].split() for line in block.splitlines() if line.strip()]
    assert len(commands) == 12
    monkeypatch.setattr("maxmargin.lab.serve", lambda **_: None, raising=False)  # it would not end
    for command in commands:
        if command[1] == "predict":
            (tmp_path / "new.csv").write_text((tmp_path / "iris.csv").read_text())
        assert main([*command[1:], "-q"]) == 0, command
