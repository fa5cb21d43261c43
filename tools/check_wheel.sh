#!/bin/sh
# Build sdist and wheel, and see that both are whole: the sdist builds a wheel in a place of its own,
# that wheel goes into an empty environment, and there the first model of the README runs and a
# user's typed script is checked. Usage: tools/check_wheel.sh [PYTHON]; what is built stays in dist/.
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
"$work/empty/bin/python" - <<'QUICK_START'
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
import maxmargin
from maxmargin import SVC, kernels

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
clf = SVC(C=10, kernel=kernels.RBF(sigma=5.0) + 0.1 * kernels.Linear(), max_time=60).fit(X, y)
print(maxmargin.__version__, maxmargin.__file__)
print(repr(clf.certificate_), "score", round(clf.score(X, y), 3))
assert clf.certificate_.status == "optimal"
QUICK_START
"$work/empty/bin/python" -m mypy --strict typed_user.py
