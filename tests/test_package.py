import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin

HEAVY = {"joblib", "matplotlib", "numpy", "pandas", "rich", "scipy", "sklearn", "threadpoolctl"}


def imported_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running the code."""
    report = f"import sys\n{code}\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    command = [sys.executable, "-c", report]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("code", ["import maxmargin", "from maxmargin import __version__"])
def test_import_is_lazy(code):
    assert "maxmargin" in imported_by(code)
    assert not imported_by(code) & HEAVY


def test_version_is_the_metadata_version():
    assert maxmargin.__version__ == importlib.metadata.version("maxmargin")


def test_dir_lists_the_public_names():
    assert set(dir(maxmargin)) == set(maxmargin.__all__)
    assert {"SVC", "certify", "kernels", "problems", "solvers"} <= set(dir(maxmargin))


@pytest.mark.parametrize("name", maxmargin.__all__)
def test_public_names_load(name):
    assert getattr(maxmargin, name) is not None


def test_names_resolve_to_their_homes():
    for name, home in maxmargin._HOMES.items():
        assert getattr(maxmargin, name) is getattr(sys.modules[home], name)


def test_type_checkers_see_every_public_name():
    source = ast.parse(Path(maxmargin.__file__).read_text(encoding="utf-8"))
    block = next(node for node in source.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    assert names | {"__version__"} == set(maxmargin.__all__)


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no attribute 'SVCC'"):
        _ = maxmargin.SVCC


def test_runtime_dependencies_are_exactly_five():
    requires = importlib.metadata.requires("maxmargin") or []
    runtime = {re.match(r"[\w.-]+", r).group() for r in requires if "extra ==" not in r}
    assert runtime == {"joblib", "numpy", "scikit-learn", "scipy", "threadpoolctl"}


def test_extras_are_named():
    extras = set(importlib.metadata.metadata("maxmargin").get_all("Provides-Extra"))
    assert {"bench", "cli", "docs", "lab", "plot", "test"} <= extras


def test_package_is_typed():
    package = Path(maxmargin.__file__).parent
    assert (package / "py.typed").is_file()
    assert (package / "_core.pyi").is_file()
