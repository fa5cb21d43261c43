"""Decide how many threads a call may use, and keep BLAS to one thread inside each of ours."""

import functools
import multiprocessing
import os
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["cpu_count", "in_worker", "one_blas_thread", "thread_count"]

_MOST = 256  # threads: more gain nothing, and the core counts them in 32 bits


def thread_count(n_threads: int | None = None) -> int:
    """Return the number of threads to use.

    Parameters
    ----------
    n_threads : int or None, default=None
        A positive number is taken as it is, up to 256. None means ``OMP_NUM_THREADS`` if it is
        set, 1 inside a joblib worker, else all CPUs of the affinity mask and the cgroup.

    Returns
    -------
    int
        At least 1. Results are bitwise the same for any number.

    Examples
    --------
    >>> thread_count(3)
    3
    """
    if n_threads is not None:
        if isinstance(n_threads, bool) or int(n_threads) != n_threads or n_threads < 1:
            raise ValueError(f"n_threads={n_threads!r} must be a positive integer or None.")
        return min(int(n_threads), _MOST)
    if _inside_joblib():
        return 1
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return min(int(asked), _MOST)
    return min(cpu_count(), _MOST)


def in_worker() -> bool:
    """Tell whether this process, or this task of joblib's, is likely one of several at work.

    Examples
    --------
    >>> in_worker()
    False
    """
    return _inside_joblib() or multiprocessing.parent_process() is not None


def _inside_joblib() -> bool:
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    return bool(backend.nesting_level)


def cpu_count() -> int:
    """Return the number of CPUs this process may use, by its affinity mask and cgroup.

    Examples
    --------
    >>> cpu_count() >= 1
    True
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return _cpus(len(affinity(0)) if affinity else 0)


@functools.cache
def _cpus(_affinity: int) -> int:
    """Ask joblib, which knows cgroups; asking costs as much as a small fit, so once per mask."""
    import joblib

    return int(joblib.cpu_count())


_lock = threading.Lock()
_libraries: list[Any] | None = None  # those of BLAS
_before: list[tuple[Any, int]] = []  # the threads that each had, while the limit holds


def one_blas_thread() -> AbstractContextManager[None]:
    """Hold BLAS to one thread while any caller is inside; the limit is process-wide.

    Looking for the libraries costs 5 ms and a small fit 1 ms, so it is done once; the limit is set
    by the first caller to enter and lifted by the last to leave. Ctrl-C may come between any two
    steps of that: who was inside is known by whether it still lives, and a limit that was left
    behind is lifted by the next caller.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    return _Inside()


class _Inside:
    """A caller; a generator would cost as much as the rest of a short call."""

    def __enter__(self) -> None:
        global _libraries, _before  # the limit itself is a global of the process
        with _lock:
            if not _inside:
                if _libraries is None:
                    import scipy.linalg.cython_blas  # noqa: F401  (loads the BLAS to be limited)
                    from threadpoolctl import ThreadpoolController

                    _libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                _lift()
                _disown()
                _before = [(library, library.get_num_threads()) for library in _libraries]
                for library in _libraries:
                    library.set_num_threads(1)
            _inside.add(self)

    def __exit__(self, *_: object) -> None:
        with _lock:
            _inside.discard(self)
            if not _inside:
                _lift()


_inside: weakref.WeakSet[_Inside] = weakref.WeakSet()


def _lift() -> None:
    """Put the limit back as it was, if there is one."""
    global _before
    if _before:
        _disown()
        for library, count in _before:
            library.set_num_threads(count)
        _disown()
        _before = []


def _disown() -> None:
    """Let any thread set the limit: threadpoolctl has the first one own OpenBLAS for good."""
    import threadpoolctl

    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


def _forget() -> None:
    """In a forked child no caller is inside, whatever the parent's threads were doing."""
    global _lock
    _lock = threading.Lock()
    _inside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
