"""Commands that show: ``demo``, ``bench``, ``plot`` and ``lab``."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

from maxmargin.cli._app import Common, Flag, Input, Output

__all__ = ["bench", "demo", "lab", "plot"]

_PICTURES = ("png", "pdf", "svg", "jpg", "tif", "webp")
_SETS = ("iris", "digits", "wine", "breast_cancer", "diabetes")


def demo(
    name: str = "all",
    /,
    *,
    write: str | None = None,
    force: Annotated[bool, Flag] = False,
    common: Common = Common(),
) -> int:
    """Train on scikit-learn's small data sets and prove each answer.

    maxmargin demo iris --write iris.csv

    Parameters
    ----------
    name
        iris, digits, wine, breast_cancer, diabetes or all.
    write
        Write the data set to this CSV, to try the other commands on; the target is called target.
    force
        Replace a file that is there.
    """
    from maxmargin.cli.report import Reporter

    say = Reporter(common)
    if name != "all" and name not in _SETS:
        raise ValueError(f"{name}: there are {', '.join(_SETS)}, or all.")
    if write is not None:
        if name == "all":
            raise ValueError("--write needs the name of one data set.")
        _write(name, write, force)
        say.note(f"{name} is in {write}; try: maxmargin fit {write} --target target -o m.skops")
    chosen = _SETS if name == "all" else (name,)
    facts = {one: _shown(one) for one in chosen}
    head = ["data", "rows", "features", "estimator", "score", "SV", "status", "gap", "seconds"]
    text = say.table(head, ([one, *found.values()] for one, found in facts.items()))
    say.result(
        facts,
        text + "\nscore: of five folds; gap: what the optimum can still be better, "
        "relative, proven",
    )
    return 0


def _loaded(name: str) -> Any:
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")()


def _shown(name: str) -> dict[str, Any]:
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from maxmargin import SVC, SVR

    X, y = (_loaded(name)[key] for key in ("data", "target"))
    machine = SVR(C=10, epsilon=10) if name == "diabetes" else SVC(C=10)
    model = make_pipeline(StandardScaler(), machine)
    score = float(cross_val_score(model, X, y).mean())
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    proof = model[-1].certificate_
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "estimator": type(model[-1]).__name__,
        "score": score,
        "support_vectors": len(model[-1].support_),
        "status": str(proof.status),
        "relative_gap": proof.relative_gap,
        "seconds": seconds,
    }


def _write(name: str, path: str, force: bool) -> None:
    import csv

    from maxmargin.io.streams import atomic

    held = _loaded(name)
    names = [str(n).replace(" ", "_").removesuffix("_(cm)") for n in held["feature_names"]]
    target = held["target"]
    if "target_names" in held:
        target = [str(held["target_names"][k]) for k in target]
    with atomic(path, force=force) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "target"])
        rows = zip(held["data"].tolist(), target, strict=True)
        writer.writerows([*cells, label] for cells, label in rows)


def bench(
    data: str | None = None,
    /,
    *,
    C: Annotated[float, Parameter(name=["-C", "--C"])] = 1.0,
    kernel: str = "rbf",
    gamma: str = "scale",
    tol: float = 1e-3,
    repeats: int = 3,
    rows: int = 4000,
    input: Input = Input(),
    common: Common = Common(),
) -> int:
    """Time fit and predict beside scikit-learn's on this machine, both models certified.

    maxmargin bench train.csv --target label -C 10

    Parameters
    ----------
    data
        Classes or numbers to learn; by default a synthetic set of two classes.
    C
        Price of slack.
    kernel
        linear, poly, rbf or sigmoid.
    gamma
        Of the kernel: a number, scale or auto.
    tol
        KKT violation to stop at, the same for both.
    repeats
        The best of so many runs counts.
    rows
        Of the synthetic set.
    """
    import sklearn.svm

    import maxmargin
    from maxmargin.cli import prepare
    from maxmargin.cli.report import Reporter

    say = Reporter(common)
    if repeats < 1 or rows < 10:
        raise ValueError("--repeats must be at least 1 and --rows at least 10.")
    X, y, name = _workload(data, rows, input, say)
    kind = "SVC" if prepare.has_few_values(y) else "SVR"
    settings = {"C": C, "kernel": kernel, "gamma": prepare.gamma_of(gamma), "tol": tol}
    contenders = {
        "maxmargin": getattr(maxmargin, kind)(**settings),
        "scikit-learn": getattr(sklearn.svm, kind)(**settings, cache_size=2000),
    }
    facts: dict[str, Any] = {}
    for who, machine in contenders.items():
        facts[who] = _timed(machine, X, y, repeats)
    ours, theirs = facts["maxmargin"], facts["scikit-learn"]
    ratio = {k: theirs[k] / ours[k] for k in ("fit_seconds", "predict_seconds")}
    head = ["", "fit s", "predict s", "SV", "relative gap", "KKT violation"]
    text = say.table(head, ([who, *found.values()] for who, found in facts.items()))
    title = (
        f"{name}: {kind}, {X.shape[0]} rows, {X.shape[1]} features, tol {tol:g}, best of {repeats}"
    )
    said = (
        f"fit {ratio['fit_seconds']:.1f} times, predict {ratio['predict_seconds']:.1f} times "
        "as fast as scikit-learn"
    )
    say.result(
        {"workload": name, "rows": X.shape[0], "features": X.shape[1], **facts, "ratio": ratio},
        f"{title}\n{text}\n{said}",
    )
    return 0


def _workload(data: str | None, rows: int, input: Input, say: Any) -> tuple[Any, Any, str]:
    from sklearn.preprocessing import StandardScaler

    if data is None:
        from sklearn.datasets import make_classification

        X, y = make_classification(
            rows, 40, n_informative=20, n_redundant=5, class_sep=0.8, flip_y=0.05, random_state=0
        )
        return X, y, "synthetic"
    import scipy.sparse as sp

    from maxmargin.cli import prepare
    from maxmargin.io.data import read_data

    held = read_data(data, format=input.format, columns=prepare.columns_for(input))
    say.note(*held.notes)
    if held.categorical:
        name = held.categorical[0]
        raise ValueError(f"bench needs numbers; column {name!r} holds texts: --drop {name}.")
    if held.y is None:
        raise ValueError("bench needs targets: say --target.")
    scaler = StandardScaler(with_mean=not sp.issparse(held.X))
    return scaler.fit_transform(held.X), held.y, data


def _timed(machine: Any, X: Any, y: Any, repeats: int) -> dict[str, Any]:
    from maxmargin import certify

    fits, predictions = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        machine.fit(X, y)
        fits.append(time.perf_counter() - start)
        start = time.perf_counter()
        machine.predict(X)
        predictions.append(time.perf_counter() - start)
    proof = certify(machine, X, y)
    return {
        "fit_seconds": min(fits),
        "predict_seconds": min(predictions),
        "support_vectors": len(machine.support_),
        "relative_gap": proof.relative_gap,
        "kkt_violation": proof.kkt_violation,
    }


def plot(
    model: str,
    data: str | None = None,
    /,
    *,
    kind: str = "auto",
    dark: Annotated[bool, Flag] = False,
    dpi: int = 150,
    trust_pickle: Annotated[bool, Flag] = False,
    input: Input = Input(),
    output: Output = Output(),
    common: Common = Common(),
) -> int:
    """Draw a fitted model: regions and margin, tube, multipliers, kernel matrix, path, convergence.

    maxmargin plot m.skops train.csv -o m.png

    Parameters
    ----------
    model
        A model file.
    data
        The data it was trained on; only --kind convergence does without.
    kind
        margin, tube, ledger, gram, path, convergence, or auto, which chooses by the model.
    dark
        Draw on a dark background.
    dpi
        Pixels per inch.
    trust_pickle
        Load .joblib and .pkl files, which can execute any code.
    """
    from maxmargin.cli.report import Reporter
    from maxmargin.cli.using import opened_model
    from maxmargin.displays.plot import KINDS, plot_model
    from maxmargin.io.streams import atomic, refuse_existing

    say = Reporter(common)
    path = output.output or "plot.png"
    suffix = path.rpartition(".")[2].lower()
    if suffix not in _PICTURES:
        raise ValueError(
            f"{path}: the extension tells the kind of picture; allowed are {', '.join(_PICTURES)}."
        )
    refuse_existing(path, output.force)
    if kind not in ("auto", *KINDS):
        raise ValueError(f"--kind {kind} must be auto, {', '.join(KINDS)}.")
    if dpi < 1:
        raise ValueError(f"--dpi {dpi}: at least 1 is needed.")
    if data is None and kind != "convergence":
        raise ValueError(
            f"--kind {kind} needs DATA, what the model was trained on; without, --kind convergence "
            "draws what record_every of a fit in Python has recorded."
        )
    opened = opened_model(model, data or "", input, trust_pickle, say)
    X, y = (None, None) if data is None else _training_data(opened, data, input, say)
    try:
        shown = plot_model(opened.machine, X, y, kind=kind, dark=dark)
    except ValueError as error:
        if "pass the training data" not in str(error):
            raise
        raise ValueError(
            f"{data} are not the data it was trained on: the support vectors are not among them in "
            "their order."
        ) from error
    with atomic(path, force=output.force) as temporary:
        shown.figure_.savefig(temporary, dpi=dpi, format=suffix)
    called = type(shown).__name__
    say.result({"picture": path, "display": called}, f"{path} ({called})")
    return 0


def _training_data(opened: Any, data: str, input: Input, say: Any) -> tuple[Any, Any]:
    """The rows as the machine saw them, and their targets."""
    from maxmargin.cli.using import columns_of, fitting_rows
    from maxmargin.io.data import read_data

    rows = read_data(data, format=input.format, columns=columns_of(opened, input, needed=False))
    say.note(*rows.notes)
    rows = fitting_rows(opened, rows)
    return opened.prepared(rows.X), rows.y


def lab(
    *,
    port: int = 8765,
    no_browser: Annotated[bool, Flag] = False,
    common: Common = Common(),
) -> int:
    """Open the lab in the browser: points to edit, six solvers to watch step by step, a tour.

    maxmargin lab

    Parameters
    ----------
    port
        On this machine only; 0 takes a free one.
    no_browser
        Print the address and open nothing.
    """
    from maxmargin.lab import serve

    if not 0 <= port < 1 << 16:
        raise ValueError(f"--port {port}: allowed are 1 to 65535, and 0 for a free one.")
    serve(port=port, open_browser=not no_browser)
    return 0
