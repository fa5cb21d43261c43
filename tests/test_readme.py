"""Every Python block of the README runs, in order, in one namespace."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="the README is not part of this checkout")
def test_readme_blocks_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    # The digits differ between CPUs; what they say must not.
    claimed = re.search(r"certificate_ +# (.*)", blocks[0]).group(1)
    got = repr(namespace["clf"].certificate_)
    assert claimed.split()[::2] == got.split()[::2] == ["gap", "optimal"]
    assert 0.1 < float(claimed.split()[1]) / float(got.split()[1]) < 10


FILES = Path(__file__).parents[1] / "docs" / "files.md"


@pytest.mark.skipif(not FILES.exists(), reason="docs/files.md is not part of this checkout")
def test_blocks_about_files_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", FILES.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    namespace = {}
    for block in blocks:
        exec(compile(block, str(FILES), "exec"), namespace)
    held = namespace["held"].about
    assert (held["certificate"]["status"], held["data"]["shape"]) == ("optimal", [150, 4])
    assert (namespace["found"].ok, namespace["found"].facts["largest_nu"]) == (True, 1.0)


@pytest.mark.skipif(not FILES.exists(), reason="docs/files.md is not part of this checkout")
def test_commands_about_files_run(tmp_path, monkeypatch):
    import maxmargin
    from maxmargin.cli import main

    monkeypatch.chdir(tmp_path)
    block = FILES.read_text().split("```")[3]
    commands = [line.partition("#")[0].split() for line in block.splitlines() if line.strip()]
    assert len(commands) == 10
    for command in commands:
        if command[1] == "search" and "SVCCV" not in maxmargin.__all__:
            continue
        if command[1] == "predict":
            (tmp_path / "new.csv").write_text((tmp_path / "iris.csv").read_text())
        assert main([*command[1:], "-q"]) == 0, command
