"""Commands that train: ``fit`` and ``search``."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from maxmargin.cli._app import Common, Flag, Input, Machine, Output

if TYPE_CHECKING:
    from maxmargin.cli.report import Reporter
    from maxmargin.io.data import Data

__all__ = ["fit", "search"]

_KERNELS = "linear", "poly", "rbf", "sigmoid"  # that a search may try


def fit(
    data: str,
    /,
    *,
    machine: Machine = Machine(),
    input: Input = Input(),
    out: Output = Output(),
    scale: bool = True,
    ranges: str | None = None,
    libsvm: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    common: Common = Common(),
) -> int:
    """Train a machine and save it with its certificate.

    Numbers are standardised, missing ones filled with the median, categories encoded; all of that
    is saved with the model. Ctrl-C saves the model so far, with its certificate, and exits 130.

    maxmargin fit train.csv --target label --kernel rbf -C 10 -o m.skops

    Parameters
    ----------
    data
        The training data.
    scale
        Standardise numbers (the default).
    ranges
        A range file of svm-scale to scale by instead.
    libsvm
        svm-train's options in quotes, with svm-train's meaning and defaults: no scaling, sparse
        data kept. In place of the machine's options.
    """
    from maxmargin.cli.report import Reporter
    from maxmargin.io.models import EXTENSIONS, save
    from maxmargin.io.streams import formatted, refuse_existing

    say = Reporter(common)
    if out.output is not None:
        formatted(out.output, EXTENSIONS, option="")
        refuse_existing(out.output, out.force)
    if libsvm is not None and machine != Machine():
        raise ValueError(
            "--libsvm takes the place of the machine's options: give one or the other."
        )
    training, model, folds = _prepared(data, machine, input, scale, ranges, libsvm, say)
    if folds:
        return _cross_validate(model, training, folds, say)
    if out.output is None:
        say.note("no --output: the model will not be saved")
    stopped, seconds = _fit(model, training, say)
    about = _about(training, model) | {"seconds": seconds}
    if out.output is not None:
        save(model, out.output, training.X, training.y, about=about, overwrite=out.force)
    say.result(_summary(model, training, seconds, out.output))
    if stopped:
        say.note("stopped: " + (f"the model so far is in {out.output}" if out.output else ""))
        return 130
    return 0


def _prepared(
    path: str,
    machine: Machine,
    input: Input,
    scale: bool,
    ranges: str | None,
    libsvm: str | None,
    say: Reporter,
) -> tuple[Data, Any, int]:
    """Read the data and make the unfitted model; the number of folds for svm-train's -v."""
    from maxmargin.cli import prepare
    from maxmargin.io.data import read_data

    unsupervised = machine.estimator in prepare.UNSUPERVISED
    columns = prepare.columns_for(input, needed=not unsupervised)
    kernel_matrix = libsvm is not None and _is_precomputed(libsvm)
    training = read_data(path, format=input.format, columns=columns, zero=kernel_matrix)
    say.note(*training.notes)
    if libsvm is None:
        training = prepare.settled(training)
        built, notes = prepare.machine_for(machine, training.y, verbose=say.bar)
        if unsupervised:
            training = replace(training, y=None)
        _refuse_one_class(built, training)
        model, more = prepare.pipeline_for(training, built, scale=scale, ranges=ranges)
        say.note(*notes, *more)
        return training, model, 0
    if training.categorical:
        raise ValueError(f"--libsvm needs numbers; column {training.categorical[0]!r} has texts.")
    if kernel_matrix:
        training = _kernel_matrix(training)
    options = prepare.libsvm_options(libsvm, training.X.shape[1])
    model = _libsvm_machine(options, say)
    if ranges is not None:
        model, more = prepare.pipeline_for(training, model, scale=False, ranges=ranges)
        say.note(*more)
    if options.estimator == "OneClassSVM":
        training = replace(training, y=None)
    return training, model, options.folds


def _refuse_one_class(machine: Any, training: Data) -> None:
    from sklearn.base import is_classifier

    if is_classifier(machine) and training.y is not None and len(set(training.y.tolist())) == 1:
        raise ValueError(
            f"the target has only one class, {training.y[0]}; a classifier needs two. For one "
            "class there is --estimator oneclass."
        )


def _is_precomputed(options: str) -> bool:
    tokens = options.split()
    return any(a == "-t" and b == "4" for a, b in itertools.pairwise(tokens))


def _kernel_matrix(data: Data) -> Data:
    """LIBSVM's format for a precomputed kernel: column 0 holds the rows' own numbers."""
    import numpy as np

    X = data.X.toarray()
    n = len(X)
    if X.shape[1] != n + 1 or not np.array_equal(X[:, 0], np.arange(1, n + 1)):
        raise ValueError(
            f"-t 4 needs lines 'target 0:i 1:K(i,1) ... {n}:K(i,{n})' for i = 1 to {n}, in order; "
            f"got {n} lines with indices up to {X.shape[1] - 1}."
        )
    return replace(data, X=np.ascontiguousarray(X[:, 1:]))


def _libsvm_machine(options: Any, say: Reporter) -> Any:
    import maxmargin

    machine = getattr(maxmargin, options.estimator)(**options.parameters)
    if say.bar and not options.quiet:
        machine.set_params(verbose=1)
    shown = ", ".join(f"{k}={v}" for k, v in options.parameters.items() if k != "cache_size")
    if not options.quiet:
        say.note(f"{options.estimator} with {shown}; nothing is scaled")
    return machine


def _fit(
    model: Any, training: Data, say: Reporter, *, done: str = "certificate_"
) -> tuple[bool, float]:
    """Fit; tell whether Ctrl-C ended it, with something ``done``, and how long it took."""
    import warnings

    machine = _last(model)
    start, stopped = time.perf_counter(), False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(training.X, training.y)
        except KeyboardInterrupt:
            if not hasattr(machine, done):
                raise KeyboardInterrupt("stopped before there was a model") from None
            stopped = True
    said = dict.fromkeys(_brief(str(w.message)) for w in caught)
    say.note(*(f"warning: {text}" for text in said))
    return stopped, time.perf_counter() - start


def _brief(warning: str) -> str:
    """A warning on one line; of a traceback in it only how it ends."""
    lines = [" ".join(line.split()) for line in warning.strip().splitlines()]
    traced = [k for k, line in enumerate(lines) if line.startswith("Traceback")]
    return " ".join([*lines[: traced[0]], lines[-1]] if traced else lines)


def _about(training: Data, model: Any) -> dict[str, Any]:
    machine = _last(model)
    about: dict[str, Any] = {
        "width": int(training.X.shape[1]),
        "categorical": list(training.categorical),
        "target": training.target,
        "precomputed": getattr(machine, "kernel", None) == "precomputed",
    }
    if training.names:
        about["features"] = list(training.names)
    return about


def _summary(model: Any, training: Data, seconds: float, path: str | None) -> dict[str, Any]:
    from maxmargin.io.models import plain

    machine = _last(model)
    facts: dict[str, Any] = {"model": path, "estimator": type(machine).__name__}
    kernel = getattr(machine, "kernel_", None)
    facts["kernel"] = kernel.formula() if kernel is not None else str(machine.kernel)
    facts["rows"], facts["features"] = training.X.shape
    if hasattr(machine, "classes_"):
        facts["classes"] = machine.classes_.tolist()
    if hasattr(machine, "support_"):
        facts["support_vectors"] = len(machine.support_)
    proof = plain(machine.certificate_)
    facts["status"] = proof["status"] or "tolerance not met"
    facts |= {name: proof[name] for name in ("primal", "dual", "relative_gap", "kkt_violation")}
    return facts | {"seconds": round(seconds, 4)}


def _cross_validate(model: Any, training: Data, folds: int, say: Reporter) -> int:
    """svm-train's -v: predictions of all rows by models that have not seen them."""
    import numpy as np
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

    if training.y is None:
        raise ValueError("--libsvm: -v needs targets.")
    classify = hasattr(model, "decision_function")
    splitter: Any = StratifiedKFold if classify else KFold
    cv = splitter(folds, shuffle=True, random_state=0)
    found = cross_val_predict(model, training.X, training.y, cv=cv)
    if classify:
        accuracy = float(np.mean(found == training.y))
        say.result(
            {"accuracy": accuracy, "folds": folds},
            f"Cross Validation Accuracy = {100 * accuracy:g}%",
        )
        return 0
    y = training.y.astype(np.float64)
    mse, r = float(np.mean((found - y) ** 2)), float(np.corrcoef(found, y)[0, 1])
    text = f"Cross Validation Mean squared error = {mse:g}\n"
    text += f"Cross Validation Squared correlation coefficient = {r * r:g}"
    say.result(
        {
            "r2": 1 - mse / float(y.var()),
            "mean_squared_error": mse,
            "squared_correlation": r * r,
            "folds": folds,
        },
        text,
    )
    return 0


def search(
    data: str,
    /,
    *,
    Cs: Annotated[str | None, Parameter(name=["--Cs"])] = None,
    gammas: Annotated[str | None, Parameter(name=["--gammas"])] = None,
    cv: int = 5,
    scoring: str | None = None,
    estimator: str = "auto",
    kernel: str = "rbf",
    refine: Annotated[bool, Flag] = False,
    max_time: float | None = None,
    input: Input = Input(),
    out: Output = Output(),
    scale: bool = True,
    common: Common = Common(),
) -> int:
    """Cross-validate a grid of C and gamma, and train the best on all data.

    maxmargin search train.csv --target label --Cs 1,10,100 --gammas 0.01,0.1 -o best.skops

    Parameters
    ----------
    data
        The training data.
    Cs
        Prices of slack, separated by commas; by default ten from 0.01 to 10000.
    gammas
        Numbers, scale or auto, separated by commas; by default ten about scale.
    cv
        Folds.
    scoring
        A scorer of scikit-learn's; accuracy or r2 by default.
    estimator
        auto, svc or svr.
    kernel
        linear, poly, rbf or sigmoid.
    refine
        Search again about the best.
    max_time
        Seconds after which the best so far is taken.
    scale
        Standardise numbers (the default); on all data, before they are split into folds.
    """
    from maxmargin.cli.report import Reporter
    from maxmargin.io.models import EXTENSIONS, save
    from maxmargin.io.streams import formatted, refuse_existing

    say = Reporter(common)
    if out.output is not None:
        formatted(out.output, EXTENSIONS, option="")
        refuse_existing(out.output, out.force)
    allowed = {"--estimator": ("auto", "svc", "svr"), "--kernel": _KERNELS}
    for option, value in (("--estimator", estimator), ("--kernel", kernel)):
        if value not in allowed[option]:
            raise ValueError(f"{option} {value}: allowed are {', '.join(allowed[option])}.")
    if cv < 2:
        raise ValueError(f"--cv {cv}: at least 2 folds are needed.")
    asked = Machine(estimator=estimator, kernel=kernel)
    training, template, _ = _prepared(data, asked, input, scale, None, None, say)
    settings: dict[str, Any] = {
        "kernel": kernel,
        "cv": cv,
        "scoring": scoring,
        "refine": refine,
        "max_time": max_time,
    }
    if out.output is None:
        say.note("no --output: the model will not be saved")
    searcher = _searcher(_last(template), settings | _grid(Cs, gammas))
    model = _with_last(template, searcher)
    stopped, seconds = _fit(model, training, say, done="best_params_")
    if not math.isfinite(searcher.best_score_):
        raise ValueError(f"--scoring {scoring}: no cell has a score (see the warnings).")
    done = hasattr(searcher, "best_estimator_")
    if not done:
        say.note("stopped before the best was trained on all data: no model")
    facts = _found(searcher) | {"seconds": round(seconds, 4), "model": out.output if done else None}
    if done and out.output is not None:
        model = _with_last(model, searcher.best_estimator_)
        about = _about(training, model)
        about["search"] = {name: facts[name] for name in ("best_params", "best_score")}
        save(model, out.output, training.X, training.y, about=about, overwrite=out.force)
    say.result(facts, _told(facts, say))
    return 130 if stopped else 0


def _last(model: Any) -> Any:
    """The machine of a pipeline, or the model itself."""
    return model[-1] if hasattr(model, "steps") else model


def _with_last(model: Any, machine: Any) -> Any:
    """The same preparation with another machine."""
    if not hasattr(model, "steps"):
        return machine
    return type(model)([*model.steps[:-1], (model.steps[-1][0], machine)])


def _grid(Cs: str | None, gammas: str | None) -> dict[str, Any]:
    from maxmargin.cli import prepare

    grid: dict[str, Any] = {}
    if Cs is not None:
        try:
            grid["Cs"] = [float(token) for token in Cs.split(",")]
        except ValueError:
            raise ValueError(f"--Cs needs numbers separated by commas; got {Cs!r}.") from None
    if gammas is not None:
        grid["gammas"] = [prepare.gamma_of(text) for text in gammas.split(",")]
    return grid


def _searcher(machine: Any, settings: dict[str, Any]) -> Any:
    import maxmargin

    return getattr(maxmargin, f"{type(machine).__name__}CV")(**settings)


def _found(searcher: Any) -> dict[str, Any]:
    """What a search found, as plain values; cells that it did not reach have no numbers."""
    from maxmargin.cli.report import plain

    results = searcher.cv_results_
    cells = zip(
        results["params"], results["mean_test_score"], results["std_test_score"], strict=True
    )
    return {
        "best_score": float(searcher.best_score_),
        "best_params": _shown(searcher.best_params_),
        "grid": [
            {"params": _shown(p), "mean": plain(m), "deviation": plain(d)} for p, m, d in cells
        ],
    }


_BEST = 10  # cells that are shown of a search that is no grid


def _told(facts: dict[str, Any], say: Reporter) -> str:
    """The scores of a grid of C and gamma as a table, of any other search the best cells."""
    grid, best = facts["grid"], facts["best_params"]
    names = list(dict.fromkeys(name for cell in grid for name in cell["params"]))
    axes = {name: list(dict.fromkeys(c["params"].get(name) for c in grid)) for name in names}
    found = ", ".join(f"{name} = {_short(value)}" for name, value in best.items())
    last = f"best {found}: {facts['best_score']:.4g}"
    beyond = "".join(f"\n{line}" for line in _edges(axes, best))
    whole = len(grid) == len(axes.get("C", ())) * len(axes.get("gamma", ()))
    if set(names) == {"C", "gamma"} and len(axes["gamma"]) > 1 and whole:
        cells = {(c["params"]["C"], c["params"]["gamma"]): c for c in grid}
        rows = [
            [_short(C), *(_mark(cells[C, gamma], best) for gamma in axes["gamma"])]
            for C in axes["C"]
        ]
        return "\n".join(
            [say.table(["C \\ gamma", *map(_short, axes["gamma"])], rows), f"{last} (*){beyond}"]
        )
    known = [cell for cell in grid if cell["mean"] is not None]
    known.sort(key=lambda cell: -cell["mean"])
    rows = [
        [*(_short(c["params"].get(name)) for name in names), _mark(c, best), c["deviation"]]
        for c in known[:_BEST]
    ]
    if len(grid) > _BEST:
        last = f"the best {len(rows)} of {len(grid)} cells; --json tells all\n{last}"
    return f"{say.table([*names, 'mean', 'deviation'], rows)}\n{last} (*){beyond}"


def _edges(axes: dict[str, list[Any]], best: dict[str, Any]) -> list[str]:
    """Say where the grid ends too early, as far as it tells."""
    lines = []
    for name, values in axes.items():
        numbers = sorted(v for v in values if isinstance(v, int | float))
        if len(numbers) > 2 and best.get(name) in (numbers[0], numbers[-1]):
            side = "smaller" if best[name] == numbers[0] else "larger"
            lines.append(f"{name} = {_short(best[name])} is an edge of the grid: try {side} ones.")
    return lines


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)


def _mark(cell: dict[str, Any], best: dict[str, Any]) -> str:
    return _short(cell["mean"]) + ("*" if cell["params"] == best else " ")


def _shown(params: dict[str, Any]) -> dict[str, Any]:
    from maxmargin.cli.report import plain

    return {
        name: str(v) if isinstance(v, str) or v == math.inf else plain(v)
        for name, v in params.items()
    }
