"""Commands that use a model: ``predict`` and ``score``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from maxmargin.cli._app import Common, Flag, Input, Output

if TYPE_CHECKING:
    from maxmargin.io.data import Columns, Data
    from maxmargin.io.models import Model

__all__ = [
    "columns_of",
    "fitting_rows",
    "model_batches",
    "opened_model",
    "predict",
    "refuse_missing",
    "score",
    "wider",
]

_OUTPUTS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
    ".json": "json",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
}


def predict(
    model: str,
    data: str,
    /,
    *,
    scores: Annotated[bool, Flag] = False,
    probabilities: Annotated[bool, Flag] = False,
    output_format: str | None = None,
    trust_pickle: Annotated[bool, Flag] = False,
    input: Input = Input(),
    out: Output = Output(),
    common: Common = Common(),
) -> int:
    """Predict, a batch at a time: memory stays bounded however long DATA is.

    maxmargin predict m.skops new.csv -o predictions.csv

    Parameters
    ----------
    model
        A file that fit wrote; .onnx, LIBSVM's .model and scikit-learn's machines in .skops too.
    data
        The rows; columns are found by name, others are ignored.
    scores
        Add the decision values.
    probabilities
        Add the probability of each class.
    output_format
        csv, tsv, txt (one prediction a line, as svm-predict), json, jsonl or parquet; by default
        the extension tells, csv on stdout.
    trust_pickle
        Load .joblib and .pkl files, which can execute any code.
    """
    from maxmargin.cli.report import Reporter
    from maxmargin.io.streams import atomic, formatted, refuse_existing

    say = Reporter(common)
    to_file = out.output is not None and out.output != "-"
    kind = "json" if common.json and not to_file else output_format or "csv"
    if to_file:
        assert out.output is not None
        kind = formatted(out.output, _OUTPUTS, output_format, option="--output-format")
        refuse_existing(out.output, out.force)
    elif kind not in _OUTPUTS.values():
        raise ValueError(f"--output-format {kind}: allowed are {', '.join(_OUTPUTS.values())}.")
    opened = opened_model(model, data, input, trust_pickle, say)
    if probabilities and not hasattr(opened.model, "predict_proba"):
        raise ValueError(
            "this model has no probabilities: fit it with --probability, or --estimator klr."
        )
    count = 0
    with ExitStack() as stack:
        target: Any = None
        if to_file:
            assert out.output is not None
            target = stack.enter_context(atomic(out.output, force=out.force))
        writer = stack.enter_context(_Writer(kind, target))
        for rows in model_batches(opened, data, input, needed=False, say=say):
            table = _predicted(opened, rows, scores, probabilities)
            writer.write(table)
            count += len(table["prediction"])
        if not count:
            raise ValueError(f"{data} holds no rows.")
    if to_file:
        say.note(f"{count} predictions in {out.output}")
        if common.json:
            say.result({"predictions": count, "output": out.output})
    return 0


def score(
    model: str,
    data: str,
    /,
    *,
    trust_pickle: Annotated[bool, Flag] = False,
    input: Input = Input(),
    common: Common = Common(),
) -> int:
    """Tell how well a model predicts the targets in DATA: accuracy, or r2 for numbers.

    maxmargin score m.skops test.csv --json

    Parameters
    ----------
    model
        As for predict.
    data
        Rows with their targets.
    trust_pickle
        Load .joblib and .pkl files, which can execute any code.
    """
    import numpy as np

    from maxmargin.cli.report import Reporter

    say = Reporter(common)
    opened = opened_model(model, data, input, trust_pickle, say)
    truth, found = [], []
    for rows in model_batches(opened, data, input, needed=True, say=say):
        if rows.y is None:
            raise ValueError("the data have no target to compare with: say --target.")
        truth.append(rows.y)
        found.append(np.asarray(opened.model.predict(rows.X)))
    if not truth:
        raise ValueError(f"{data} holds no rows.")
    y, p = np.concatenate(truth), np.concatenate(found)
    if not _classifies(opened):
        say.result(_number_scores(y, p))
        return 0
    facts = _class_scores(opened, y, p, say)
    each = say.table(
        ["class", "rows", "right"], ([name, *c.values()] for name, c in facts["classes"].items())
    )
    say.result(facts, f"accuracy {facts['accuracy']:.6g} ({facts['right']}/{len(y)})\n{each}")
    return 0


def _classifies(opened: Model) -> bool:
    machine = opened.machine
    return hasattr(machine, "classes_") or hasattr(machine, "offset_") or hasattr(machine, "R2_")


def _class_scores(opened: Model, y: Any, p: Any, say: Any) -> dict[str, Any]:
    import numpy as np

    classes = getattr(opened.machine, "classes_", np.array([-1, 1]))
    foreign = np.setdiff1d(y, classes)
    if len(foreign):
        say.note(f"the model has no class {foreign[0].item()!r}: such rows count as wrong")
    counts = {
        str(c): {"rows": int((y == c).sum()), "right": int(((y == c) & (p == c)).sum())}
        for c in np.unique(y)
    }
    right = int((y == p).sum())
    return {"accuracy": right / len(y), "right": right, "rows": len(y), "classes": counts}


def _number_scores(y: Any, p: Any) -> dict[str, Any]:
    import numpy as np

    if y.dtype.kind in "UO":
        raise ValueError(f"the model predicts numbers; the target holds texts like '{y[0]}'.")
    error = y.astype(np.float64) - p
    spread = float(((y - y.mean()) ** 2).sum())
    return {
        "r2": 1 - float((error**2).sum()) / spread if spread > 0 else float("nan"),
        "mean_squared_error": float((error**2).mean()),
        "mean_absolute_error": float(np.abs(error).mean()),
        "rows": len(y),
    }


# ---- a model meets data -----------------------------------------------------------------------


def opened_model(path: str, data: str, input: Input, trust_pickle: bool, say: Any) -> Model:
    """Load the model of a command, and say what is to be said about it."""
    from maxmargin.io.models import EXTENSIONS, open_model, warn_of_versions
    from maxmargin.io.streams import formatted

    if path == "-":
        raise ValueError("only DATA can be '-'.")
    try:
        formatted(path, EXTENSIONS, option="")
    except ValueError as error:
        raise ValueError(f"{error} The model comes before the data.") from None
    opened = open_model(path, trust_pickle=trust_pickle)
    if opened.libsvm is not None and input.format in (None, "libsvm"):
        say.note("a LIBSVM model: nothing is scaled")
    say.note(*warn_of_versions(opened))
    return opened


def columns_of(opened: Model, input: Input, *, needed: bool) -> Columns:
    """What to read for a model: the columns that it was trained on."""
    import numpy as np

    from maxmargin.io.data import Columns

    about, model = opened.about, opened.model
    features = about.get("features")
    if features is None and hasattr(model, "feature_names_in_"):
        features = [str(name) for name in model.feature_names_in_]
    # Classes are read as they were learned; truth values are found by themselves.
    kind = getattr(opened.machine, "classes_", np.zeros(0)).dtype.kind
    text = None if kind == "b" or not needed else kind in "UO"
    width = about.get("width", getattr(model, "n_features_in_", None))
    return Columns(
        features=None if features is None else tuple(features),
        categorical=tuple(about.get("categorical", ())),
        target=input.target if input.target is not None else about.get("target"),
        text_target=text,
        # Features that no support vector of a LIBSVM model has may still come.
        width=None if width is None or opened.libsvm is not None else int(width),
        drop=input.drop,
        header=input.header,
        needed=needed,
    )


def model_batches(
    opened: Model, path: str, input: Input, *, needed: bool, say: Any, complete: bool = True
) -> Iterator[Data]:
    """The rows of a data file as the model takes them, a batch at a time."""
    from maxmargin.io.data import batches

    zero = bool(opened.about.get("precomputed"))
    columns = columns_of(opened, input, needed=needed)
    if zero and columns.width is not None:
        columns = wider(columns)
    for rows in batches(path, format=input.format, columns=columns, zero=zero):
        say.note(*rows.notes)
        yield fitting_rows(opened, rows, complete=complete)


def wider(columns: Columns) -> Columns:
    """One column more: the serial numbers of a precomputed kernel."""
    from dataclasses import replace

    assert columns.width is not None
    return replace(columns, width=columns.width + 1)


def fitting_rows(opened: Model, rows: Data, *, complete: bool = True) -> Data:
    """The rows in the form that the model was trained on: as wide, dense or sparse, complete."""
    from dataclasses import replace

    import scipy.sparse as sp

    X, about = rows.X, opened.about
    if about.get("precomputed") and sp.issparse(X):
        X = X.toarray()[:, 1:]
    elif about.get("categorical") and not rows.names:
        raise ValueError("the model needs a table with named columns, for it has categories.")
    machine = opened.machine
    sparse = bool(getattr(machine, "_sparse", False)) or opened.libsvm is not None
    if sp.issparse(X) and not sparse:
        X = X.toarray()
    elif not sp.issparse(X) and sparse:
        X = sp.csr_array(X)
    width = about.get("width", getattr(opened.model, "n_features_in_", X.shape[1]))
    if opened.libsvm is not None and X.shape[1] > width:
        # Features that no support vector has still count in a kernel of distances.
        opened.model.n_features_in_ = width = X.shape[1]
        vectors = machine.support_vectors_
        machine.support_vectors_ = type(vectors)(
            (vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], width)
        )
    if X.shape[1] < width and sp.issparse(X):
        X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    if X.shape[1] != width:
        raise ValueError(f"the data have {X.shape[1]} features, the model has {width}.")
    if complete:
        refuse_missing(opened, X, rows.names)
    return replace(rows, X=X)


def refuse_missing(opened: Model, X: Any, names: Sequence[str]) -> None:
    """Refuse missing numbers that nothing before the machine fills in."""
    import numpy as np
    import scipy.sparse as sp

    if sp.issparse(X) or not (missing := X != X).any():  # only NaN differs from itself
        return
    row, column = (int(k) for k in np.argwhere(missing)[0])
    ready = opened.prepared(X[row : row + 1])
    ready = ready.toarray() if sp.issparse(ready) else np.asarray(ready)
    if (ready != ready).any():
        name = repr(names[column]) if names else str(column + 1)
        raise ValueError(
            f"column {name} has a missing number, and the model knows no median to fill in: there "
            "was none missing in its training data. Fill it, or leave the row out."
        )


def _predicted(opened: Model, rows: Data, scores: bool, probabilities: bool) -> dict[str, Any]:
    import numpy as np

    model = opened.model
    table: dict[str, Any] = {"prediction": np.asarray(model.predict(rows.X))}
    if scores:
        if not hasattr(model, "decision_function"):
            raise ValueError("this model predicts numbers: its predictions are its scores.")
        values = np.asarray(model.decision_function(rows.X))
        if values.ndim == 1:
            table["score"] = values
        else:
            named = _classes(opened, values.shape[1])
            table |= {f"score {c}": values[:, k] for k, c in enumerate(named)}
    if probabilities:
        values = np.asarray(model.predict_proba(rows.X))
        named = _classes(opened, values.shape[1])
        table |= {f"P({c})": values[:, k] for k, c in enumerate(named)}
    return table


def _classes(opened: Model, count: int) -> list[Any]:
    classes: Any = getattr(opened.machine, "classes_", None)
    named = classes is not None and len(classes) == count
    return list(classes.tolist()) if named else list(range(count))


class _Writer:
    """Write tables one below the other in one of the formats."""

    def __init__(self, kind: str, path: Any) -> None:
        self.kind, self.path = kind, path
        self.first = True
        self.file: Any = None
        self.parquet: Any = None

    def __enter__(self) -> _Writer:
        if self.kind == "parquet":
            if self.path is None:
                raise ValueError("Parquet needs a file: say --output.")
        elif self.path is None:
            self.file = sys.stdout
        else:
            self.file = self.path.open("w", encoding="utf-8", newline="")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.parquet is not None:
            self.parquet.close()
        if self.kind == "json" and not self.first and kind is None:
            self.file.write("]}\n")
        if self.file is not None and self.path is not None:
            self.file.close()
        elif self.file is not None:
            self.file.flush()

    def write(self, table: dict[str, Any]) -> None:
        """Append rows; the first ones bring the names."""
        if self.kind == "parquet":
            self._parquet(table)
        elif self.kind == "txt":
            self.file.write("".join(f"{v}\n" for v in table["prediction"].tolist()))
        elif self.kind in ("json", "jsonl"):
            self._json(table)
        else:
            self._text(table, "\t" if self.kind == "tsv" else ",")
        self.first = False

    def _text(self, table: dict[str, Any], delimiter: str) -> None:
        import csv

        writer = csv.writer(self.file, delimiter=delimiter, lineterminator="\n")
        if self.first:
            writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))

    def _json(self, table: dict[str, Any]) -> None:
        columns: Sequence[Any] = [column.tolist() for column in table.values()]
        alone = len(columns) == 1
        rows = (
            json.dumps(
                row[0] if alone and self.kind == "json" else dict(zip(table, row, strict=True))
            )
            for row in zip(*columns, strict=True)
        )
        if self.kind == "jsonl":
            self.file.write("".join(f"{row}\n" for row in rows))
            return
        self.file.write('{"predictions": [' if self.first else ", ")
        self.file.write(", ".join(rows))

    def _parquet(self, table: dict[str, Any]) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        arrow = pa.table({name: pa.array(c.tolist()) for name, c in table.items()})
        if self.parquet is None:
            self.parquet = ParquetWriter(self.path, arrow.schema)
        self.parquet.write_table(arrow)
