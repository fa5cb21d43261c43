"""Tell what a bug report needs: versions, the machine, and what maxmargin found on it."""

from __future__ import annotations

import sys

__all__ = ["show_versions"]


def show_versions() -> None:
    """Print versions and settings that matter for a bug report.

    First maxmargin's own: its version, the instruction set its kernels run on, how many threads
    a call may use and the default budget for cached Gram rows; then what
    :func:`sklearn.show_versions` prints.

    Examples
    --------
    >>> from maxmargin.versions import show_versions
    >>> show_versions()
    <BLANKLINE>
    maxmargin:
    ...
    System:
    ...
    """
    from importlib.metadata import version

    from sklearn import show_versions as show_the_rest

    from maxmargin import _core
    from maxmargin.grams import default_cache_size
    from maxmargin.threads import thread_count

    facts = {
        "version": version("maxmargin"),
        "instruction set": _core.instruction_set(),
        "threads": thread_count(),
        "default cache": f"{default_cache_size()} MB",
    }
    lines = (f"{name:>15}: {value}\n" for name, value in facts.items())
    sys.stdout.write("\nmaxmargin:\n" + "".join(lines))
    show_the_rest()
