"""One measurement in a process of its own: `python worker.py task.json` prints one JSON object."""

import ctypes
import json
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import solvers
from objective import Task, certificate

PREDICTED = 5000  # rows of X
SHORT = 2.0  # seconds: what takes less is done again, up to three times in all


def measure(given):
    solver = solvers.load(given["solver"])
    rows = getattr(solver, "rows", lambda X: X)
    task = Task(**given["task"])
    X, y = load_data(Path(given["folder"]))
    warm_up(solver, task, rows, X, y)
    data, new = rows(X), rows(X[:PREDICTED])
    before = peak_memory(reset=True)
    model, first = clock(lambda: solver.fit(task, data, y))
    memory = peak_memory() - before
    found = {
        "seconds": [first, *repeat(lambda: solver.fit(task, data, y), first)],
        "memory": memory / 1e6,
        "n_support": len(model.support_),
    }
    _, first = clock(lambda: model.predict(new))
    found["predict_seconds"] = [first, *repeat(lambda: model.predict(new), first)]
    return found | (certificate(task, model, X, y) if given["certify"] else {})


def warm_up(solver, task, rows, X, y):
    """Load what is loaded at the first call, on a few hundred rows."""
    few = slice(None, None, max(X.shape[0] // 300, 1))
    sample = rows(X[few])
    solver.fit(task, sample, y[few]).predict(sample)


def clock(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def repeat(work, first):
    times = []
    while len(times) < 2 and first + sum(times) < SHORT:
        times.append(clock(work)[1])
    return times


def peak_memory(*, reset=False):
    """Bytes. ru_maxrss starts from the parent's on Linux, VmHWM does not and can be reset."""
    if not sys.platform.startswith("linux"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if reset:
        free_heap()
        with suppress(OSError):  # forbidden in some containers; the peak so far is the base then
            Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def free_heap():
    """Give back what converting the data has left on glibc's heap, or fit would reuse it unseen."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def save_data(folder, X, y):
    if sp.issparse(X):
        sp.save_npz(folder / "X.npz", X, compressed=False)
    else:
        np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)


def load_data(folder):
    dense = folder / "X.npy"
    X = np.load(dense) if dense.exists() else sp.load_npz(folder / "X.npz")
    return X, np.load(folder / "y.npy")


if __name__ == "__main__":
    try:
        answer = measure(json.loads(Path(sys.argv[1]).read_text()))
    except NotImplementedError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))
