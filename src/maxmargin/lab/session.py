"""One visitor's lab: a document, the runs on it, undo, and the answer to every message.

No transport and no thread: a message is followed within a fraction of a second, and what takes
longer (a training) is taken up again by the next message.
"""

from __future__ import annotations

import csv
import json
import logging
import math
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import solvers
from maxmargin.certificate import Status, certify
from maxmargin.lab import export, presets, words
from maxmargin.lab.document import Document, Settings, effective_kernel, exact, make_problem
from maxmargin.lab.protocol import (
    KERNELS,
    MAX_POINTS,
    PROBLEMS,
    RANGES,
    SCALINGS,
    SOLVERS,
    Refusal,
    Reply,
    check,
)
from maxmargin.lab.run import Record, Run
from maxmargin.lab.surface import Surface, View
from maxmargin.lab.tour import STOPS
from maxmargin.ledger import ledger
from maxmargin.problems import Problem
from maxmargin.solvers.steps import Step

__all__ = ["Session"]

Floats = NDArray[np.float64]

_SLICE = 0.2  # seconds of solving per message
_PROOF = 1.0  # seconds for a proof that a hard margin does not exist; it takes milliseconds
_UNDO = 100
_ROUNDING = 1e-12  # decision values that are all smaller stand for 0
_FINE = 2.0  # how much finer the surface is when idle
_VALUES = 20_000_000  # kernel values of one such surface: a fraction of a second
_CASES = {
    "outside": 0, "on margin": 1, "inside margin": 2, "misclassified": 3,
    "inside tube": 0, "on tube": 1, "outside tube": 2,
    "inside": 0, "on boundary": 1, "outlier": 3, "undefined": 0,
}  # fmt: skip
_STATES = {"zero": 0, "free": 1, "bound": 2}

log = logging.getLogger("maxmargin")


class Lane:
    """A run with what is needed to draw it."""

    def __init__(self, document: Document, name: str) -> None:
        self.name, self.X = name, document.X
        self.kernel = effective_kernel(document.settings, name)
        self.run: Run | None = None
        self.note: words.Note | None = None
        self.proof, self.proving = "", np.zeros(0)
        self.surface: Surface | None = None
        self.told = 0  # records the page knows
        try:
            gram = self.kernel.gram(document.X)
            problem = make_problem(document, name, gram)
        except ValueError as error:
            self.note = words.unposed(document, str(error))
            return
        run = Run(problem, name, document.settings.tol)
        try:
            run.train(until=0.0)  # only begins: the solver may refuse the problem
            run.state = None
        except ValueError as error:
            self.note = words.refused(document, name, str(error))
            return
        self.run = run
        if document.settings.problem == "hard":
            self.prove(problem)

    def prove(self, problem: Problem) -> None:
        """Find out whether a hard margin exists, whatever the chosen solver would do about it."""
        found = solvers.solve(problem, solvers.SMO(), max_time=_PROOF)
        if found.status is Status.INFEASIBLE:
            self.proof, self.proving = found.certificate.proof, problem.by_row(found.beta)

    @property
    def unfinished(self) -> bool:
        """Whether training would go on; one that is proven to have no end is not waited for."""
        run = self.run
        if run is None or run.finished is not None:
            return False
        return not self.proof or run.seconds <= _SLICE

    def coefficients(self) -> Floats:
        """Return those of the points, where the run stands."""
        assert self.run is not None
        return self.run.problem.by_row(self.run.record.beta)

    def draw(self, view: View) -> Floats:
        """Return the decision values on the grid, the margins at ±1 (the tube's middle for SVR)."""
        if self.surface is None:
            self.surface = Surface(self.kernel, self.X, view)
        return self.normed(self.surface.values(self.coefficients()))

    def refine(self, view: View) -> Floats:
        """Return them on a finer grid."""
        coefficients, features = self.coefficients(), self.X.shape[1]
        support = np.flatnonzero(coefficients)
        cells = view.columns * (view.rows if features == 2 else 1)
        fine = view.scaled(min(_FINE, (_VALUES / (cells * max(len(support), 1))) ** 0.5))
        grid = fine.grid(features)
        f = np.zeros(len(grid))
        if len(support):
            for rows in np.array_split(np.arange(len(grid)), max(1, len(grid) // 4096)):
                f[rows] = self.kernel(grid[rows], self.X[support]) @ coefficients[support]
        return self.normed(f.reshape((fine.rows, fine.columns)[2 - features :]))

    def normed(self, f: Floats) -> Floats:
        """Add the bias, divide by the margin."""
        found = self.parameters()
        if "rho" in found:
            rho = found["rho"]
            return (f - rho) / (rho if rho > 0 else 1.0)
        eta = found.get("eta", 1.0)
        f = f + found.get("b", 0.0)
        if np.abs(f).max(initial=0.0) < _ROUNDING:
            f = np.zeros_like(f)  # w = 0: the signs of rounding errors are no boundary
        return f / (eta if eta > 0 else 1.0)

    def parameters(self) -> dict[str, float]:
        """Return b, or b and η, or ρ, at the point shown."""
        assert self.run is not None
        record = self.run.record
        return self.run.problem.parameters(record.certificate.lam, record.beta)


class Session:
    """Follow messages and answer them.

    Parameters
    ----------
    document : Document, optional
        What to open; two overlapping clouds by default.

    Examples
    --------
    >>> session = Session()
    >>> replies = session.handle({"type": "preset", "name": "separable"})
    >>> [reply.header["type"] for reply in replies]
    ['document', 'frame']
    >>> replies[-1].header["lanes"][0]["status"]
    'optimal'
    """

    def __init__(self, document: Document | None = None) -> None:
        self.document = presets.load("overlapping") if document is None else document
        self.view = View()
        self.past: list[Document] = []
        self.future: list[Document] = []
        self._untouched = True
        self._gesture: Any = None  # a drag that goes on is one undo
        self.lanes: list[Lane] = []
        self._rebuild()
        self._train()

    # ---- messages ------------------------------------------------------------------------------

    def handle(self, message: Any) -> list[Reply]:
        """Follow one message; whatever is wrong with it becomes an answer, never an exception."""
        ident = message.get("id") if isinstance(message, dict) else None
        try:
            parsed = check(message)
            replies = getattr(self, f"_on_{parsed['type']}")(parsed)
        except Refusal as refusal:
            replies = [Reply({"type": "error", "text": str(refusal)})]
        except Exception as error:  # the page must go on answering
            log.exception("the lab failed on a message")
            text = f"the lab failed on this: {type(error).__name__}: {str(error)[:200]}"
            replies = [Reply({"type": "error", "text": text})]
        known = isinstance(ident, int | float) and math.isfinite(ident)
        facts = {"re": ident if known else None}
        last = len(replies) - 1  # the page asks one thing at a time, and must know when it is told
        return [
            Reply({**r.header, **facts, "last": k == last}, r.arrays) for k, r in enumerate(replies)
        ]

    def _on_hello(self, message: dict[str, Any]) -> list[Reply]:
        if "document" in message:  # what the page's URL says
            self._on_open({"type": "open", "document": message["document"]})
        for lane in self.lanes:
            lane.told = 0
        return [Reply(_welcome()), self._describe(), self._frame()]

    def _on_open(self, message: dict[str, Any]) -> list[Reply]:
        given = message["document"]
        settings = Settings().changed(given.get("settings", {}))
        if given.get("preset") is not None:
            return self._edit(presets.load(given["preset"], settings), None, message)
        rows = np.array(given.get("points", []), dtype=np.float64).reshape(-1, 3)
        document = Document(exact(rows[:, :2]), rows[:, 2].copy(), None, settings)
        return self._edit(document, None, message)

    def _on_preset(self, message: dict[str, Any]) -> list[Reply]:
        settings = self.document.settings
        if message["name"] == "sine":
            settings = replace(settings, problem="svr")
        elif settings.problem == "svr":
            settings = replace(settings, problem="soft")
        if message["name"] == "cloud":
            settings = replace(settings, problem="one_class")
        elif settings.problem == "one_class":
            settings = replace(settings, problem="soft")
        return self._edit(presets.load(message["name"], settings), None)

    def _on_add(self, message: dict[str, Any]) -> list[Reply]:
        d = self.document
        if len(d.labels) >= MAX_POINTS:
            raise Refusal(f"there are {MAX_POINTS} points; no more are taken.")
        points = np.vstack([d.points, exact([message["x"], message["y"]])])
        labels = np.append(d.labels, float(message["label"]))
        return self._edit(replace(d, points=points, labels=labels, preset=None), None)

    def _on_move(self, message: dict[str, Any]) -> list[Reply]:
        index, points = self._index(message), self.document.points.copy()
        points[index] = exact([message["x"], message["y"]])[0]
        document = replace(self.document, points=points, preset=None)
        return self._edit(document, ("move", index) if message.get("live") else None, message)

    def _on_label(self, message: dict[str, Any]) -> list[Reply]:
        labels = self.document.labels.copy()
        labels[self._index(message)] = message["label"]
        return self._edit(replace(self.document, labels=labels, preset=None), None)

    def _on_remove(self, message: dict[str, Any]) -> list[Reply]:
        d, index = self.document, self._index(message)
        points, labels = np.delete(d.points, index, axis=0), np.delete(d.labels, index)
        return self._edit(replace(d, points=points, labels=labels, preset=None), None)

    def _on_clear(self, message: dict[str, Any]) -> list[Reply]:
        return self._edit(Document(settings=self.document.settings), None)

    def _on_csv(self, message: dict[str, Any]) -> list[Reply]:
        points, labels, note = read_csv(message["text"], self.document.settings.problem == "svr")
        document = Document(points, labels, None, self.document.settings)
        return [*self._edit(document, None), Reply({"type": "notice", "text": note})]

    def _on_set(self, message: dict[str, Any]) -> list[Reply]:
        given, before = message["settings"], self.document
        document = replace(before, settings=before.settings.changed(given))
        if before.preset is not None and "problem" in given:
            document = _fitting(document, before.settings.problem)
        gesture = ("set", *sorted(given)) if message.get("live") else None
        return self._edit(document, gesture, message)

    def _on_undo(self, message: dict[str, Any]) -> list[Reply]:
        return self._travel(self.past, self.future, "undo")

    def _on_redo(self, message: dict[str, Any]) -> list[Reply]:
        return self._travel(self.future, self.past, "redo")

    def _on_view(self, message: dict[str, Any]) -> list[Reply]:
        ends = {k: v for k, v in message.items() if k not in ("type", "id")}
        view = View(**ends)
        if not (view.x1 - view.x0 > 1e-9 and view.y1 - view.y0 > 1e-9):
            raise Refusal("a view needs x0 < x1 and y0 < y1.")
        self.view = view
        for lane in self.lanes:
            lane.surface = None
        return [self._frame()]

    def _on_refine(self, message: dict[str, Any]) -> list[Reply]:
        arrays = {
            f"{k}/grid": lane.refine(self.view).astype(np.float32)
            for k, lane in enumerate(self.lanes)
            if lane.run is not None
        }
        return [Reply({"type": "surface", "view": self.view.ends()}, arrays)]

    def _on_train(self, message: dict[str, Any]) -> list[Reply]:
        self._train()
        return [self._frame()]

    def _on_step(self, message: dict[str, Any]) -> list[Reply]:
        ran = [lane for lane in self.lanes if lane.run is not None]
        if all(lane.run.finished and lane.run.at_end for lane in ran if lane.run):
            self._restart()  # solved and shown to the end: begin again at α = 0
        until = time.perf_counter() + _SLICE
        for lane in self.lanes:
            if lane.run is not None:
                lane.run.step(message["n"], until=until)
        return [self._frame()]

    def _on_back(self, message: dict[str, Any]) -> list[Reply]:
        for lane in self.lanes:
            if lane.run is not None:
                lane.run.back(message["n"])
        return [self._frame()]

    def _on_seek(self, message: dict[str, Any]) -> list[Reply]:
        for lane in self.lanes:
            if lane.run is not None:
                lane.run.seek(message["cursor"])
        return [self._frame()]

    def _on_reset(self, message: dict[str, Any]) -> list[Reply]:
        self._restart()
        return [self._frame()]

    def _on_export(self, message: dict[str, Any]) -> list[Reply]:
        kind = message["kind"]
        if kind == "python":
            text, name = export.python(self.document), "maxmargin_lab.py"
        else:
            run = self.lanes[0].run
            if run is None:
                raise Refusal("there is no run to export: " + (self.lanes[0].note or {})["text"])
            text, name = json.dumps(export.trace(self.document, run)), "maxmargin_trace.json"
        return [Reply({"type": "export", "kind": kind, "filename": name, "text": text})]

    def _on_replay(self, message: dict[str, Any]) -> list[Reply]:
        trace = message["trace"]
        replies = self._on_open({"type": "open", "document": trace["document"]})
        run = self.lanes[0].run
        if run is None:
            raise Refusal(
                "the trace's problem cannot be posed: " + (self.lanes[0].note or {})["text"]
            )
        run.replay(_records(run, trace["steps"]))
        self.lanes[0].told = 0
        return [replies[0], self._frame()]

    # ---- the document --------------------------------------------------------------------------

    def _index(self, message: dict[str, Any]) -> int:
        index, n = int(message["index"]), len(self.document.labels)
        if index >= n:
            raise Refusal(f"there is no point {index}; the points are 0 to {n - 1}.")
        return index

    def _edit(
        self, document: Document, gesture: Any, message: dict[str, Any] | None = None
    ) -> list[Reply]:
        """Change the document; a drag is remembered once, where it began."""
        name = None if message is None else message["type"]
        going_on = self._gesture is not None and self._gesture[0] == name
        begins = self._untouched and name == "open"  # the state in the URL, not an edit
        self._untouched = False
        if not (going_on or begins):
            self.past = [*self.past[-_UNDO + 1 :], self.document]
            self.future = []
        self._gesture = gesture
        return self._show(document)

    def _travel(self, source: list[Document], other: list[Document], name: str) -> list[Reply]:
        if not source:
            raise Refusal(f"there is nothing to {name}.")
        other.append(self.document)
        self._gesture = None
        return self._show(source.pop())

    def _show(self, document: Document) -> list[Reply]:
        self.document = document
        self._rebuild()
        self._train()
        return [self._describe(), self._frame()]

    def _rebuild(self) -> None:
        settings = self.document.settings
        names = [settings.solver, *([settings.rival] if settings.rival else [])]
        old = self.lanes
        self.lanes = [Lane(self.document, name) for name in names]
        for lane, before in zip(self.lanes, old, strict=False):
            if before.kernel == lane.kernel and np.array_equal(before.X, lane.X):
                lane.surface = before.surface  # a slider of the problem leaves k as it is

    def _restart(self) -> None:
        for lane in self.lanes:
            if lane.run is not None:
                lane.run = Run(lane.run.problem, lane.name, self.document.settings.tol)
                lane.told = 0

    def _train(self) -> None:
        share = _SLICE / max(len(self.lanes), 1)
        for lane in self.lanes:
            if lane.run is not None and lane.unfinished:
                lane.run.train(until=time.perf_counter() + share)

    # ---- answers -------------------------------------------------------------------------------

    def _describe(self) -> Reply:
        d, s = self.document, self.document.settings
        n, spread = len(d.labels), d.points
        box = [*spread.min(axis=0), *spread.max(axis=0)] if n else [-3.0, -2.0, 3.0, 2.0]
        return Reply(
            {
                "type": "document",
                "document": d.as_json(),
                "points": d.rows(),
                "settings": asdict(s),
                "box": [float(v) for v in box],
                "undo": len(self.past),
                "redo": len(self.future),
                "formula": self.lanes[0].kernel.formula(),
                "K_m": s.nu * n * s.K_s,
            }
        )

    def _frame(self) -> Reply:
        """Tell everything about the point that each lane shows."""
        lanes, arrays = [], {}
        for k, lane in enumerate(self.lanes):
            header, own = self._lane(lane)
            lanes.append(header)
            arrays.update({f"{k}/{name}": a.astype(np.float32) for name, a in own.items()})
        return Reply({"type": "frame", "view": self.view.ends(), "lanes": lanes}, arrays)

    def _lane(self, lane: Lane) -> tuple[dict[str, Any], dict[str, Floats]]:
        run, about = lane.run, words.about_solver(lane.name)
        if run is None:
            return {"solver": lane.name, "about": about, "note": lane.note, "ran": False}, {}
        record, c = run.record, run.record.certificate
        # The proof counts, whatever the chosen solver has found out by itself.
        given_up = bool(lane.proof) and run.at_end and not lane.unfinished
        status = Status.INFEASIBLE if given_up else record.status
        since = max(lane.told, run.forgotten)
        lane.told = run.forgotten + len(run.records)
        header = {
            "solver": lane.name,
            "about": about,
            "ran": True,
            "note": words.explain(self.document, run, lane.proof),
            "cursor": run.forgotten + run.cursor,
            "more": lane.unfinished,
            "status": None if status is None else str(status),
            "verdict": words.verdict(run, status),
            "iteration": record.iteration,
            "updates": record.updates,
            "seconds": record.seconds,
            "n_support": _support(run, record),
            "parameters": {k: _plain(v) for k, v in lane.parameters().items()},
            "certificate": {
                name: _plain(getattr(c, name))
                for name in ("primal", "dual", "gap", "relative_gap", "kkt_violation")
            },
            "convex": c.convex,
            "step": None if record.step is None else _told(run, record.step),
            "since": since,
            "history": [_row(run, r) for r in run.records[since - run.forgotten :]],
            "proving": np.flatnonzero(lane.proving).tolist(),
            "meeting": self._meeting(lane),
        }
        table = ledger(run.problem, record.beta, c)
        arrays = {
            "grid": lane.draw(self.view),
            "alpha": table["alpha"],
            "state": np.array([_STATES[v] for v in table["state"]]),
            "case": np.array([_CASES[v] for v in table["case"]]),
            "C": table["C"],
            "margin": table["margin"],
            "geometric": table["geometric_margin"],
            "slack": table["slack"],
            "residual": table["kkt_residual"],
        }
        return header, arrays

    def _meeting(self, lane: Lane) -> list[float] | None:
        """Find the point that both hulls share, where the kernel is linear."""
        linear = all(term.kind == "linear" for term in self.document.settings.kernel)
        up = np.maximum(lane.proving, 0.0)
        if not (lane.proof and linear and up.any()):
            return None
        return [float(v) for v in up @ self.document.X / up.sum()]


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _support(run: Run, record: Record) -> int:
    return int(np.count_nonzero(run.problem.by_row(record.beta)))


def _row(run: Run, record: Record) -> list[float | None]:
    """One row of the curves."""
    c = record.certificate
    values = (record.updates, c.primal, c.dual, c.gap, c.relative_gap, _support(run, record))
    return [_plain(float(v)) for v in values]


def _told(run: Run, step: Step) -> dict[str, Any]:
    """A step with the kernel values and labels that its equations need."""
    told = {k: _plain(v) if isinstance(v, float) else v for k, v in asdict(step).items()}
    rows = [step.i] if step.j is None else [step.i, step.j]
    K = run.problem.gram.tile(np.array(rows), np.array(rows))
    told["K_ii"] = float(K[0, 0])
    if step.j is not None:
        told["K_jj"], told["K_ij"] = float(K[1, 1]), float(K[0, 1])
    if run.problem.y is not None:
        told["y_i"] = int(run.problem.y[rows[0]])
        told["y_j"] = int(run.problem.y[rows[-1]])
    told["C_i"], told["C_j"] = (_plain(float(run.problem.C[k])) for k in (rows[0], rows[-1]))
    return told


def _records(run: Run, steps: list[dict[str, Any]]) -> list[Record]:
    """Follow a trace's changes; every point is certified here, the file is not believed."""
    first = run.records[0]
    records, beta, p = [first], first.beta.copy(), run.problem
    n = run.problem.gram.n
    for entry in steps:
        for k, value in entry["changes"]:
            inside = k < p.n_variables and (run.name == "Pegasos" or p.l[k] <= value <= p.u[k])
            if not inside:
                raise Refusal(f"the trace leaves the box at variable {k}: {value!r}.")
            beta[k] = value
        step = entry.get("step")
        if step is not None and max(step["i"], step.get("j") or 0) >= n:
            raise Refusal("the trace names a point that it does not have.")
        records.append(
            Record(
                beta=beta.copy(),
                certificate=certify(p, beta, tol=run.tol),
                iteration=entry["iteration"],
                updates=entry["updates"],
                step=None if step is None else Step(**step),
            )
        )
    return records


def _fitting(document: Document, before: str) -> Document:
    """Give an unchanged preset up for one that suits the problem."""
    now, preset = document.settings.problem, document.preset
    special = {"svr": "sine", "one_class": "cloud"}
    if now in special and preset != special[now]:
        return presets.load(special[now], document.settings)
    if now not in special and preset == special.get(before):
        return presets.load("overlapping", document.settings)
    return document


def read_csv(content: str, regression: bool) -> tuple[Floats, Floats, str]:
    r"""Read two coordinates and, if there is one, a class from the last column.

    Examples
    --------
    >>> X, y, note = read_csv("a,b,class\n0,1,cat\n2,3,dog", False)
    >>> X.tolist(), y.tolist()
    ([[0.0, 1.0], [2.0, 3.0]], [-1.0, 1.0])
    """
    lines = content.lstrip("\ufeff").splitlines()
    delimiter = next((d for d in ",;\t" if lines and d in lines[0]), None)
    try:
        split = (
            csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
            if delimiter
            else map(str.split, lines)
        )
        rows = [[cell.strip() for cell in row] for row in split]
    except csv.Error as error:
        raise Refusal(f"this is not a CSV file: {error}.") from None
    rows = [[cell for cell in row if cell] for row in rows if any(row)]
    if rows and _numbers(rows[0][:2]) is None:
        rows = rows[1:]  # a header
    if not 1 <= len(rows) <= MAX_POINTS:
        raise Refusal(f"the file has {len(rows)} rows of data; 1 to {MAX_POINTS} can be shown.")
    points, names = [], []
    for number, row in enumerate(rows, start=1):
        found = _numbers(row[:2])
        if found is None:
            raise Refusal(
                f"row {number} needs two finite numbers first; got {', '.join(row)[:60]}."
            )
        points.append(found)
        names.append(row[-1] if len(row) > 2 else "")
    return exact(points), *_classes(names, max(map(len, rows)), regression)


def _numbers(cells: list[str]) -> list[float] | None:
    try:
        found = [float(cell) for cell in cells]
    except ValueError:
        return None
    good = len(found) == 2 and all(abs(v) <= 1e6 for v in found)
    return found if good else None


def _classes(names: list[str], columns: int, regression: bool) -> tuple[Floats, str]:
    """Turn the last column into labels, and say what became of the columns."""
    if regression or columns == 2:
        read = "x and the target" if regression else "two coordinates, no class: all are +1"
        return np.ones(len(names)), f"Read {len(names)} rows: {read}."
    kinds = sorted(set(names))
    positive = kinds[-1]
    if len(kinds) > 2:
        positive = max(kinds, key=names.count)
    labels = np.where(np.array(names) == positive, 1.0, -1.0)
    rest = " against the rest" if len(kinds) > 2 else ""
    left = f" {columns - 3} further columns are left out." if columns > 3 else ""
    return labels, f"Read {len(names)} rows; class +1 is {positive[:40]!r}{rest}.{left}"


def _welcome() -> dict[str, Any]:
    """What the page must know once."""
    from maxmargin import __version__

    return {
        "type": "hello",
        "version": __version__,
        "ranges": {name: list(ends) for name, ends in RANGES.items()},
        "presets": [[name, title] for name, title in presets.TITLES.items()],
        "solvers": list(SOLVERS),
        "problems": list(PROBLEMS),
        "kernels": list(KERNELS),
        "scalings": list(SCALINGS),
        "max_points": MAX_POINTS,
        "tour": [asdict(stop) for stop in STOPS],
    }
