"""Tables and plots from the JSON lines of a run: `python benchmarks/report.py results/x.jsonl`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

import matplotlib as mpl
import numpy as np
from solvers import OURS

mpl.use("Agg")
import matplotlib.pyplot as plt

WHAT = {"seconds": "fit", "predict": "predict"}
RATIO = (
    "Time of the peer divided by ours: above 1× we are faster. Best peer: whoever is the fastest "
    "of them on each workload."
)
FLAG = 1.1  # times tol: a KKT violation above this is marked


@dataclass(frozen=True)
class Row:
    """One solver on one workload, all rounds together."""

    about: dict  # the first round, with the certificate
    seconds: float | None
    predict: float | None
    memory: float | None

    @property
    def error(self):
        return self.about.get("error")


@dataclass(frozen=True)
class Results:
    machine: dict
    rows: dict  # workload: solver: Row

    @property
    def solvers(self):
        return [name for name, version in self.machine["solvers"].items() if version]

    @property
    def peers(self):
        return [name for name in self.solvers if name != OURS]

    @property
    def sections(self):
        """The workloads of each section."""
        found = {}
        for name, row in self.rows.items():
            section = next(iter(row.values())).about["section"]
            found.setdefault(section, []).append(name)
        return found


def read(path):
    machine, *runs = (json.loads(line) for line in path.read_text().splitlines())
    grouped = {}
    for one in runs:
        grouped.setdefault(one["workload"], {}).setdefault(one["solver"], []).append(one)
    rows = {
        workload: {solver: gather(rounds) for solver, rounds in by_solver.items()}
        for workload, by_solver in grouped.items()
    }
    return Results(machine, rows)


def gather(rounds):
    good = [one for one in rounds if "error" not in one]
    if not good:
        return Row(rounds[0], None, None, None)
    return Row(
        rounds[0],
        median(t for one in good for t in one["seconds"]),
        median(t for one in good for t in one["predict_seconds"]),
        median(one["memory"] for one in good),
    )


# ---- ratios -------------------------------------------------------------------------------------


def ratio(rows, what, peers):
    """How many times as long the best of the peers takes as we do; None if nobody did it."""
    theirs = [getattr(rows[p], what) for p in peers if p in rows and not rows[p].error]
    if not theirs or OURS not in rows or rows[OURS].error:
        return None
    return min(theirs) / getattr(rows[OURS], what)


def means(results):
    """Geometric means of the ratios per section, and the worst workload."""
    against = against_whom(results)
    lines = [["section", "of", *against, "worst against the best peer"]]
    sections = results.sections
    if len(sections) > 1:
        sections = sections | {"all": list(results.rows)}
    for section, names in sections.items():
        for what, title in WHAT.items():
            found = {
                who: {n: r for n in names if (r := ratio(results.rows[n], what, peers))}
                for who, peers in against.items()
            }
            best = found["best peer"]
            worst = min(best, key=best.get, default=None)
            cells = [times(geometric_mean(r.values()) if r else None) for r in found.values()]
            last = f"{worst} {times(best[worst])}" if worst else "–"
            lines.append([section, title, *cells, last])
    return table(lines)


def against_whom(results):
    return {"best peer": results.peers} | {peer: [peer] for peer in results.peers}


# ---- Markdown -----------------------------------------------------------------------------------


def write_bench(path):
    results = read(path)
    parts = ["# All solvers side by side", head(results), "## Ratios, geometric means", RATIO]
    parts.append(means(results))
    for section, names in results.sections.items():
        for what, title in WHAT.items():
            parts += [f"## {section}: seconds of {title}", overview(results, names, what)]
        parts += [f"## {section}: what was reached", details(results, names)]
    plot_bench(results, path.with_suffix(".png"))
    parts.append(f"![seconds]({path.stem}.png)")
    return save(path, parts)


def head(results):
    """The machine, the versions and the settings, with every table."""
    m, s = results.machine, results.machine["settings"]
    where = (
        f"{m['machine']}, {m['instruction_set']}; {s['threads']} threads; load {m['load']:.1f} "
        f"before the run; {m['date']}, commit {m['commit']}."
    )
    how = (
        f"tol {s['tol']:g}, cache {s['cache']:g} MB, float64, the same for all. Each fit in a "
        f"process of its own, interleaved; median of {s['repeats']} rounds (one, where a run takes "
        "10 s), in each round of up to three fits that take 2 s together. Prediction of the first "
        "5000 rows. Conversion to LIBSVM's nodes is not counted."
    )
    versions = ", ".join(version for version in m["solvers"].values() if version)
    lines = [where, how, f"Python {m['python']}, NumPy {m['numpy']}, {versions}."]
    return "\n\n".join(lines + absent(results))


def absent(results):
    """Who is not measured, where and why: a missing peer flatters the others."""
    reasons = {}
    for name, version in results.machine["solvers"].items():
        if not version:
            reasons[f"{name}: not installed"] = ["all"]
    for workload, rows in results.rows.items():
        for solver, row in rows.items():
            if row.error:
                reasons.setdefault(f"{solver}: {row.error}", []).append(workload)
    listed = "; ".join(f"{reason} ({', '.join(where)})" for reason, where in reasons.items())
    return [f"Not measured: {listed}."] if listed else []


def overview(results, names, what):
    """One line per workload: seconds of all, and how many times ours the peers take."""
    against = against_whom(results)
    lines = [["workload", "n × d", *results.solvers, *(f"{who} / ours" for who in against)]]
    for name in names:
        rows = results.rows[name]
        cells = [seconds(getattr(rows[s], what)) if s in rows else "–" for s in results.solvers]
        ratios = [times(ratio(rows, what, peers)) for peers in against.values()]
        lines.append([name, shape(rows), *cells, *ratios])
    return table(lines)


def details(results, names):
    """One line per model: its certificate, its size, and what it took to find it."""
    limit = FLAG * results.machine["settings"]["tol"]
    heads = "workload, solver, fit s, primal, dual, gap, relative gap, KKT violation, nSV, "
    lines = [(heads + "predict s, peak MB").split(", ")]
    for name in names:
        for solver, row in results.rows[name].items():
            if not row.error:
                lines.append([name, solver, *certified(row, limit)])
    note = f"**!**: the violation, computed by `maxmargin.certify`, exceeds {limit:g}."
    return f"{table(lines)}\n\n{note}"


def certified(row, limit):
    found = row.about
    return [
        seconds(row.seconds),
        f"{found['primal']:.8g}",
        f"{found['dual']:.8g}",
        f"{found['gap']:.1e}",
        f"{found['relative_gap']:.1e}",
        f"{found['kkt_violation']:.1e}" + (" **!**" if found["kkt_violation"] > limit else ""),
        str(found["n_support"]),
        seconds(row.predict),
        f"{row.memory:.0f}",
    ]


def table(lines):
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body])


def shape(rows):
    about = next(iter(rows.values())).about
    n, d = about["shape"]
    return f"{n} × {d}{', sparse' if about['sparse'] else ''}"


def seconds(value):
    return "–" if value is None else f"{value:.3g}"


def times(value):
    return "–" if value is None else f"{value:.2f}×"


def save(path, parts):
    text = "\n\n".join(parts) + "\n"
    path.with_suffix(".md").write_text(text)
    return text


# ---- growth -------------------------------------------------------------------------------------


def write_growth(path):
    results = read(path)
    parts = ["# Growth with n", head(results)]
    for section, names in results.sections.items():
        for what, unit in (("seconds", "seconds of fit"), ("memory", "peak MB")):
            parts += [f"## {section}: {unit}", growth_table(results, names, what)]
    parts += ["The last line is the p of n^p, by least squares over the larger half of the sizes."]
    plot_growth(results, path.with_suffix(".png"))
    parts.append(f"![growth]({path.stem}.png)")
    return save(path, parts)


def growth_table(results, names, what):
    lines = [["n", *results.solvers]]
    curves = {solver: curve(results, names, what, solver) for solver in results.solvers}
    for name in names:
        n = size(results.rows[name])
        lines.append(
            [str(n), *(seconds(dict(zip(*c, strict=True)).get(n)) for c in curves.values())]
        )
    lines.append(["p", *(exponent(*c) for c in curves.values())])
    return table(lines)


def size(rows):
    return next(iter(rows.values())).about["shape"][0]


def curve(results, names, what, solver):
    """n and the value there, where the solver got there."""
    rows = (results.rows[name] for name in names)
    points = [
        (size(r), getattr(r[solver], what)) for r in rows if solver in r and not r[solver].error
    ]
    return tuple(zip(*points, strict=True)) if points else ((), ())


def exponent(n, values):
    n, values = n[len(n) // 2 :], values[len(n) // 2 :]
    if len(n) < 2 or min(values) <= 0:
        return "–"
    return f"{np.polyfit(np.log(n), np.log(values), 1)[0]:.2f}"


# ---- plots --------------------------------------------------------------------------------------


def plot_bench(results, path):
    """Bars of seconds, one panel for fit and one for predict."""
    names, width = list(results.rows), 0.8 / len(results.solvers)
    figure, axes = plt.subplots(1, 2, figsize=(11, 1.5 + 0.45 * len(names)), sharey=True)
    for axis, (what, title) in zip(axes, WHAT.items(), strict=True):
        for k, solver in enumerate(results.solvers):
            rows = [results.rows[name].get(solver) for name in names]
            values = [np.nan if row is None or row.error else getattr(row, what) for row in rows]
            axis.barh(np.arange(len(names)) + k * width, values, width, label=solver)
        axis.set(xscale="log", xlabel="seconds", title=title)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(np.arange(len(names)) + 0.4 - width / 2, names)
    axes[0].invert_yaxis()
    axes[1].legend(loc="lower right")
    finish(figure, results, path)


def plot_growth(results, path):
    """Time above, memory below, one column per data set."""
    sections = results.sections
    shape = (2, len(sections))
    figure, axes = plt.subplots(*shape, figsize=(5 * len(sections), 7), squeeze=False, sharex="col")
    for column, (section, names) in zip(axes.T, sections.items(), strict=True):
        for axis, what, unit in zip(column, ("seconds", "memory"), ("seconds", "MB"), strict=True):
            for solver in results.solvers:
                axis.plot(*curve(results, names, what, solver), "o-", label=solver)
            axis.set(xscale="log", yscale="log", ylabel=unit)
            axis.grid(alpha=0.3)
        column[0].set_title(section)
        column[1].set_xlabel("n")
    axes[0, 0].legend()
    finish(figure, results, path)


def finish(figure, results, path):
    m, s = results.machine, results.machine["settings"]
    versions = ", ".join(version for version in m["solvers"].values() if version)
    note = f"{m['machine']}, {s['threads']} threads, tol {s['tol']:g}, cache {s['cache']:g} MB"
    figure.supxlabel(f"{note}\n{versions}", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    print((write_growth if given.stem.startswith("growth") else write_bench)(given))
