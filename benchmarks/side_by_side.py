"""Run all solvers on all workloads, interleaved, each fit in a process of its own."""

import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from re import search

import numpy as np
import scipy.sparse as sp
import solvers
from joblib import cpu_count
from objective import Task
from worker import save_data

from maxmargin import _core

HERE = Path(__file__).parent
RESULTS = HERE / "results"
LONG = 10.0  # seconds: such a run is not repeated


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `make bench NAME=value` says; the same for all solvers."""

    quick: bool
    tol: float
    cache: float  # MB
    threads: int
    repeats: int
    limit: float  # seconds for one process
    only: str
    peers: str

    @classmethod
    def from_environment(cls):
        get = os.environ.get
        quick = get("QUICK", "") not in ("", "0")
        return cls(
            quick=quick,
            tol=float(get("TOL", "1e-3")),
            cache=float(get("CACHE", "2000")),
            threads=int(get("THREADS", cpu_count())),
            repeats=int(get("REPEATS", "1" if quick else "3")),
            limit=float(get("LIMIT", "900")),
            only=get("ONLY", ""),
            peers=get("PEERS", ""),
        )

    def path(self, name):
        """The results' own name: a partial or different run overwrites no other."""
        parts = [
            name,
            "quick" if self.quick else "",
            f"tol{self.tol:g}" if self.tol != 1e-3 else "",
            f"cache{self.cache:g}" if self.cache != 2000 else "",
            "part" if self.only or self.peers else "",
        ]
        return RESULTS / ("-".join(part for part in parts if part) + ".jsonl")


def run(name, workloads, settings):
    """Measure, and write each result as it comes; return the file of JSON lines."""
    RESULTS.mkdir(exist_ok=True)
    chosen = [workload for workload in workloads if search(settings.only, workload.name)]
    found = {solver: solvers.installed(solver) for solver in solvers.names(settings.peers)}
    path = settings.path(name)
    with path.open("w") as lines:
        write(lines, machine(settings, found))
        for k, workload in enumerate(chosen):
            say(f"[{k + 1}/{len(chosen)}] {workload.name}")
            for result in compare(workload, [s for s, v in found.items() if v], settings):
                write(lines, result)
    return path


def compare(workload, names, settings):
    """One workload: a round of all solvers, then the next, each round from another one on."""
    with tempfile.TemporaryDirectory() as folder:
        X, y, task = pose(workload, settings)
        save_data(Path(folder), X, y)
        about = {"workload": workload.name, "section": workload.section, "shape": X.shape}
        about |= {"estimator": workload.estimator, "sparse": sp.issparse(X)}
        going = list(names)
        for k in range(settings.repeats):
            for solver in going[k % len(going) :] + going[: k % len(going)]:
                result = measure(solver, task, folder, settings, certify=k == 0)
                yield about | {"solver": solver, "round": k} | result
                if "error" in result or result["seconds"][0] >= LONG:
                    going = [other for other in going if other != solver]
            if not going:
                return


def pose(workload, settings):
    """The data in float64 and the task in numbers."""
    X, y = workload.load()
    X = X.astype(np.float64)
    params = dict(workload.params)
    if params.get("gamma") == "scale":
        mean = X.mean()
        variance = X.multiply(X).mean() - mean**2 if sp.issparse(X) else X.var()
        params["gamma"] = 1.0 / (X.shape[1] * float(variance))
    params |= {"tol": settings.tol, "cache_size": settings.cache}
    return X, y, Task(estimator=workload.estimator, params=params, threads=settings.threads)


def measure(solver, task, folder, settings, *, certify):
    """One process; what goes wrong in it is a result too."""
    given = {"solver": solver, "task": asdict(task), "folder": folder, "certify": certify}
    order = Path(folder) / "task.json"
    order.write_text(json.dumps(given))
    threads = {f"{who}_NUM_THREADS": str(task.threads) for who in ("OMP", "OPENBLAS", "MKL")}
    try:
        child = subprocess.run(
            [sys.executable, HERE / "worker.py", order],
            env=os.environ | threads,
            capture_output=True,
            text=True,
            timeout=settings.limit,
        )
    except subprocess.TimeoutExpired:
        result = {"error": f"more than {settings.limit:g} s"}
    else:
        lines = (child.stderr if child.returncode else child.stdout).strip().splitlines()
        last = lines[-1] if lines else f"exit status {child.returncode}"
        result = {"error": last} if child.returncode else json.loads(last)
    say(f"    {solver:<14}{result.get('error') or summary(result)}")
    return result


def summary(result):
    proof = f", gap {result['relative_gap']:.1e}" if "relative_gap" in result else ""
    return (
        f"fit {min(result['seconds']):.3g} s, predict {min(result['predict_seconds']):.3g} s, "
        f"{result['memory']:.0f} MB{proof}"
    )


def machine(settings, found):
    """What every table says of where it comes from."""
    return {
        "machine": f"{cpu()}, {os.cpu_count()} CPUs, {platform.system()} {platform.machine()}",
        "instruction_set": _core.instruction_set(),
        "load": os.getloadavg()[0],
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "solvers": found,
        "settings": asdict(settings),
    }


def machine_line():
    """The machine and the versions in one line, for tables without settings."""
    who = ("numpy", "scipy", "scikit-learn", "maxmargin")
    return (
        f"{cpu()}, {os.cpu_count()} CPUs, {platform.system()} {platform.machine()}, "
        f"{_core.instruction_set()}; load {os.getloadavg()[0]:.1f} before the run; "
        f"{datetime.now().astimezone().date()}, commit {commit()}. Python "
        f"{platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in who)}."
    )


def cpu():
    info = Path("/proc/cpuinfo")
    models = (
        [s for s in info.read_text().splitlines() if "model name" in s] if info.exists() else []
    )
    return models[0].split(":")[1].strip() if models else platform.processor()


def commit():
    command = ["git", "-C", HERE, "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def write(lines, result):
    lines.write(json.dumps(result) + "\n")
    lines.flush()


def say(text):
    print(text, file=sys.stderr, flush=True)
