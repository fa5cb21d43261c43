#!/bin/sh
# Build sdist and wheel, and see that both are whole: the sdist builds a wheel in a place of its own,
# that wheel goes into an empty environment, and there the code of the README and of the page on the
# first model runs and a user's typed script is checked. Usage: tools/check_wheel.sh [PYTHON]; what
# is built stays in dist/.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-$here/.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip() { "$1/bin/python" -m pip --quiet --disable-pip-version-check install "$2" "$3"; }

"$python" -m venv "$work/build"
pip "$work/build" --upgrade build
rm -f "$here"/dist/maxmargin-*
"$work/build/bin/python" -m build --outdir "$here/dist" "$here" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
ls -l "$here"/dist/maxmargin-*

# `python -m build` makes the wheel from the unpacked sdist, so this one proves both.
"$python" -m venv "$work/empty"
"$work/empty/bin/python" -m pip --quiet --disable-pip-version-check install \
    "$here"/dist/maxmargin-*.whl mypy
cp "$here/tests/typed_user.py" "$work"
cd "$work"
"$work/empty/bin/python" - "$here/README.md" "$here/docs/start/first-model.md" <<'QUICK_START'
import re
import sys
from pathlib import Path

import maxmargin

print(maxmargin.__version__, maxmargin.__file__)
for page in sys.argv[1:]:
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", Path(page).read_text("utf-8"), re.M | re.S):
        exec(block, names)
    print(Path(page).name, repr(names["clf"].certificate_))
    assert names["clf"].certificate_.status == "optimal"
QUICK_START
"$work/empty/bin/python" -m mypy --strict typed_user.py
