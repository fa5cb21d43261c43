#!/bin/sh
# Look for what the set-up needs: Python >= 3.11 with venv and headers, and a C++20 compiler.
# Prints the interpreter's path on stdout, or one line per missing thing on stderr.
# PYTHON names the interpreter to use, CXX the compiler.
set -u

# An active virtual environment is not ours: look past it.
if [ -n "${VIRTUAL_ENV:-}" ]; then
    PATH=$(printf %s ":$PATH:" | sed "s|:$VIRTUAL_ENV/bin:|:|g; s|^:||; s|:$||")
    export PATH
fi
unset PYTHONHOME PYTHONPATH

failed=0
missing() { # what, apt packages, macOS command
    if [ "$(uname -s)" = Darwin ]; then how=$3; else how="sudo apt install $2"; fi
    echo "missing: $1; try: $how" >&2
    failed=1
}

# Print what this interpreter lacks, or "nothing"; print nothing at all if it does not even run
# (a pyenv shim may exist without the version behind it).
probe() {
    "$1" - 2>/dev/null <<'PROBE'
import os, sys, sysconfig
lacks = []
if sys.version_info < (3, 11):
    lacks.append("version")
try:
    import ensurepip, venv
except ImportError:
    lacks.append("venv")
if not os.path.exists(os.path.join(sysconfig.get_config_var("INCLUDEPY"), "Python.h")):
    lacks.append("headers")
print(" ".join(lacks) or "nothing")
PROBE
}

# The first candidate with everything; failing that, the first of a good version, to name its lack.
find_python() {
    python='' lacks=''
    for candidate in "$@"; do
        verdict=$(probe "$candidate")
        case $verdict in
        nothing) python=$candidate lacks='' && return ;;
        '' | version*) ;;
        *) [ -n "$python" ] || { python=$candidate lacks=$verdict; } ;;
        esac
    done
}

if [ -n "${PYTHON:-}" ]; then
    find_python "$PYTHON"
else
    find_python python3.14 python3.13 python3.12 python3.11 python3 python
fi

if [ -z "$python" ]; then
    if [ -n "${PYTHON:-}" ]; then
        what="Python >= 3.11 (PYTHON=$PYTHON does not run, or is older)"
    else
        what="Python >= 3.11 (tried python3.14 ... python3.11, python3, python; or say PYTHON=/path/to/python)"
    fi
    missing "$what" "python3 python3-venv python3-dev" "brew install python@3.13"
else
    name=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    brew="brew install python@${name#python}"
    for lack in $lacks; do
        case $lack in
        venv) missing "venv and ensurepip of $python" "$name-venv" "$brew" ;;
        headers) missing "Python.h of $python" "$name-dev" "$brew" ;;
        esac
    done
fi

# Does this compiler build and link a C++20 program?
compiles() {
    dir=$(mktemp -d) || return 1
    cat >"$dir/probe.cpp" <<'PROBE'
#include <concepts>
#include <span>
template <std::floating_point T> T first(std::span<const T> x) { return x.front(); }
int main() { const double x[] = {0.0}; return int(first(std::span<const double>(x))); }
PROBE
    # $1 unquoted: CXX may be two words, such as "ccache g++".
    $1 -std=c++20 "$dir/probe.cpp" -o "$dir/probe" >/dev/null 2>&1
    verdict=$?
    rm -rf "$dir"
    return $verdict
}

# Without CXX take what CMake would take: the first of these that exists.
compiler=${CXX:-}
for candidate in c++ g++ clang++; do
    [ -n "$compiler" ] || { command -v $candidate >/dev/null 2>&1 && compiler=$candidate; }
done
# Apple's c++ exists before the tools behind it do, and calling it opens a dialogue.
if [ "$(uname -s)" = Darwin ] && [ -z "${CXX:-}" ] && ! xcode-select -p >/dev/null 2>&1; then
    compiler=''
fi
if [ -z "$compiler" ]; then
    missing "a C++20 compiler (none found; or say CXX=/path/to/compiler)" g++ "xcode-select --install"
elif ! compiles "$compiler"; then
    missing "a C++20 compiler ($compiler does not compile C++20: g++ >= 11 or clang++ >= 14 does; or say CXX=/path/to/compiler)" \
        g++ "xcode-select --install"
fi

[ $failed -eq 0 ] || exit 1
# The interpreter itself, not a shim or a virtual environment around it.
"$python" -c 'import sys; print(getattr(sys, "_base_executable", None) or sys.executable)'
