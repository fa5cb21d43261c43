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
