"""Every script of the gallery runs, keeps the promises it asserts, and draws something."""

import ast
import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))
SLOW = {"plot_digits", "plot_smo_time", "plot_solvers"}  # some seconds each; `make docs` runs all

pytestmark = pytest.mark.skipif(not SCRIPTS, reason="the examples are not part of this checkout")


def scripts():
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in SCRIPTS
    ]


@pytest.fixture
def canvas(monkeypatch):
    """Leave no figure and no setting behind; `show` would warn where there is a display."""
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: None)
    plt.close("all")
    with mpl.rc_context():
        yield
        plt.close("all")


@pytest.mark.parametrize("path", scripts())
def test_runs_and_draws(path, canvas):
    runpy.run_path(str(path), run_name="__main__")
    assert plt.get_fignums()
    for number in plt.get_fignums():
        plt.figure(number).draw_without_rendering()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_reads_as_a_lesson(path):
    """A title over a line of =, a few sentences, cells, and a picture that is shown."""
    text = path.read_text(encoding="utf-8")
    title, line, *rest = ast.get_docstring(ast.parse(text)).splitlines()
    assert line == "=" * len(title)
    assert len("".join(rest)) > 100
    assert "\n# %%\n" in text
    assert "\nplt.show()\n" in text
