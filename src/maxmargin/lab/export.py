"""Take what the lab shows along: as a Python program, or as a trace that replays."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from typing import Any

import numpy as np

from maxmargin.lab.document import ALONE, Document, effective_kernel
from maxmargin.lab.protocol import MAX_STEPS, MAX_TRACE_BYTES
from maxmargin.lab.run import Record, Run

__all__ = ["python", "trace"]

_PROBLEMS = {
    "hard": "problems.hard_margin(gram, y{bias})",
    "soft": "problems.soft_margin(gram, y, C={C!r}, scaling={scaling!r}{bias})",
    "nu": "problems.nu_svc(gram, y, K_m={K_m!r}, K_s={K_s!r})",
    "squared": "problems.squared_hinge(gram, y, C={C!r}{bias})",
    "svr": "problems.svr(gram, z, C={C!r}, epsilon={epsilon!r}{bias})",
    "one_class": "problems.one_class(gram, nu={nu!r})",
}
_PROGRAM = '''\
"""Made by the lab of maxmargin: the same points, problem, kernel and solver."""

import numpy as np

from maxmargin import problems, solvers
from maxmargin.kernels import {names}

{data}

kernel = {kernel}
gram = kernel.gram(X)
problem = {problem}
solution = solvers.solve(problem, solvers.{solver}(), tol={tol!r}, max_time=60)

print(solution.certificate)
print("parameters   ", solution.parameters)
print("support      ", np.count_nonzero(solution.alpha), "of", len(X), "points")


def decide(Z):
    """Return f(x) + b (for one-class f(x) - rho) at new points."""
    found = solution.parameters
    shift = -found["rho"] if "rho" in found else found["b"]
    return kernel(Z, X) @ problem.by_row(solution.beta) + shift


print("first values ", decide(X[:3]).round(4))
'''


def python(document: Document) -> str:
    """Write a program that solves what the page shows, with the public names only.

    Examples
    --------
    >>> "problems.soft_margin(gram, y, C=1.0" in python(Document())
    True
    """
    s = document.settings
    kernel = repr(effective_kernel(s, s.solver))
    names = sorted(set(re.findall(r"[A-Z]\w+(?=\()", kernel)))
    bias = ", bias=False" if s.solver in ALONE else ""
    values = asdict(s) | {"bias": bias, "K_m": s.nu * len(document.labels) * s.K_s}
    return _PROGRAM.format(
        names=", ".join(names),
        data=_data(document),
        kernel=kernel,
        problem=_PROBLEMS[s.problem].format(**values),
        solver=s.solver,
        tol=s.tol,
    )


def _data(document: Document) -> str:
    """The points as arrays, five to a line."""
    points = document.X.tolist()
    entries = [", ".join(map(str, points[k : k + 5])) for k in range(0, len(points), 5)]
    X = f"X = np.array([\n    {_lines(entries)}]).reshape(-1, {document.X.shape[1]})"
    if document.settings.problem == "one_class":
        return X
    regression = document.settings.problem == "svr"
    values = document.points[:, 1] if regression else document.labels.astype(int)
    cells = [", ".join(map(str, values[k : k + 20].tolist())) for k in range(0, len(values), 20)]
    return f"{X}\n{'z' if regression else 'y'} = np.array([\n    {_lines(cells)}], dtype=float)"


def _lines(entries: list[str]) -> str:
    return ",\n    ".join(entries)


def trace(document: Document, run: Run) -> dict[str, Any]:
    """Write down a run: the document, then what each record changed.

    As many records as a message may carry.
    """
    steps: list[dict[str, Any]] = []
    size, before = 0, run.records[0].beta
    for record in run.records[1 : MAX_STEPS + 1]:
        entry = _entry(before, record)
        size += len(json.dumps(entry)) + 2
        if size > 0.9 * MAX_TRACE_BYTES or len(entry["changes"]) > MAX_STEPS:
            break
        steps.append(entry)
        before = record.beta
    return {"maxmargin_trace": 1, "document": document.as_json(), "steps": steps}


def _entry(before: Any, record: Record) -> dict[str, Any]:
    changed = np.flatnonzero(record.beta != before)
    step = None if record.step is None else asdict(record.step)
    if step is not None:
        step = {k: v for k, v in step.items() if not (isinstance(v, float) and math.isinf(v))}
    return {
        "iteration": record.iteration,
        "updates": record.updates,
        "changes": [[int(k), float(record.beta[k])] for k in changed],
        "step": step,
    }
