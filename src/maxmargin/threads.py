"""Decide how many threads a call may use, and keep BLAS to one thread inside each of ours."""

import functools
import multiprocessing
import os
import threading
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
_holders = 0
_controller: Any = None
_limit: Any = None


def one_blas_thread() -> AbstractContextManager[None]:
    """Hold BLAS to one thread while any caller is inside; the limit is process-wide.

    Making a controller costs 5 ms and a small fit 1 ms, so there is one, and its limit is set by
    the first caller to enter and lifted by the last to leave.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    return _held


class _Held:
    """Enter and leave the limit; a generator would cost as much as the rest of a short call."""

    def __enter__(self) -> None:
        global _holders, _controller, _limit  # the limit itself is a global of the process
        with _lock:
            if _holders == 0:
                if _controller is None:
                    import scipy.linalg.cython_blas  # noqa: F401  (loads the BLAS to be limited)
                    from threadpoolctl import ThreadpoolController

                    _controller = ThreadpoolController()
                _disown()
                _limit = _controller.limit(limits=1, user_api="blas")
            _holders += 1

    def __exit__(self, *_: object) -> None:
        global _holders
        with _lock:
            _holders -= 1
            if _holders == 0:
                _disown()
                _limit.restore_original_limits()
                _disown()


_held = _Held()


def _disown() -> None:
    """Let any thread set the limit: threadpoolctl has the first one own OpenBLAS for good."""
    import threadpoolctl

    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


def _forget() -> None:
    """In a forked child no caller is inside, whatever the parent's threads were doing."""
    global _lock, _holders
    _lock, _holders = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
