"""The command ``convert``: models from one format to another."""

from __future__ import annotations

from typing import Annotated, Any

from maxmargin.cli._app import Common, Flag

__all__ = ["convert"]


def convert(
    model: str,
    output: str,
    /,
    *,
    data: str | None = None,
    trust_pickle: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    common: Common = Common(),
) -> int:
    """Write a model in another format: .skops, .joblib, .onnx, or LIBSVM's .model.

    A model with scaled features becomes two LIBSVM files: OUTPUT, and OUTPUT.range for svm-scale.

    maxmargin convert m.skops m.onnx

    Parameters
    ----------
    model
        The model to read; its extension tells the format.
    output
        The file to write.
    data
        Not needed; the rows with which to compare the predictions of both files.
    trust_pickle
        Load .joblib and .pkl files, which can execute any code.
    force
        Replace files that are there.
    """
    from maxmargin.cli.report import Reporter
    from maxmargin.io.exchange import to_libsvm
    from maxmargin.io.models import EXTENSIONS, open_model, save
    from maxmargin.io.streams import formatted, refuse_existing

    say = Reporter(common)
    kind = formatted(output, EXTENSIONS, option="")
    refuse_existing(output, force)
    opened = open_model(model, trust_pickle=trust_pickle)
    written = [output]
    if kind == "libsvm" and hasattr(opened.model, "steps"):
        to_libsvm(opened.machine)  # what has no place there is refused before a file is written
        written += _with_ranges(opened.model, output, force)
        save(opened.machine, output, overwrite=force)
        say.note(
            f"scale with `svm-scale -r {written[-1]} DATA` before svm-predict"
            if len(written) > 1
            else "nothing is scaled"
        )
    else:
        save(opened, output, overwrite=force)
    facts: dict[str, Any] = {"written": written}
    if data is not None:
        facts["largest_difference"] = _difference(opened, output, data)
    say.result(facts)
    return 0


def _with_ranges(pipeline: Any, output: str, force: bool) -> list[str]:
    """Write what comes before the machine as a range file, where it has that form."""
    from maxmargin.io.ranges import save_ranges
    from maxmargin.io.streams import atomic, refuse_existing

    before = pipeline[:-1]
    if len(before) > 1 or not hasattr(before[0], "n_features_in_"):
        names = ", ".join(type(step).__name__ for _, step in before.steps)
        raise ValueError(
            f"LIBSVM's files have a place for one scaling of numbers; here are {names}."
        )
    path = f"{output}.range"
    refuse_existing(path, force)
    with atomic(path, force=force) as temporary:
        save_ranges(before[0], temporary)
    return [path]


def _difference(opened: Any, output: str, data: str) -> float:
    """The largest difference between the scores, or predictions, of two files."""
    import numpy as np

    from maxmargin.cli._app import Input
    from maxmargin.cli.using import columns_of, fitting_rows
    from maxmargin.io.data import read_data
    from maxmargin.io.models import open_model

    again = open_model(output, trust_pickle=True)
    rows = read_data(data, columns=columns_of(opened, Input(), needed=False))
    rows = fitting_rows(opened, rows)
    name = "decision_function" if hasattr(again.model, "decision_function") else "predict"
    if again.libsvm is not None:
        machine = opened.machine
        first = getattr(machine, name)(opened.prepared(rows.X))
        second = getattr(again.model, name)(opened.prepared(rows.X))
    else:
        first, second = (getattr(m, name)(rows.X) for m in (opened.model, again.model))
    return float(np.abs(np.asarray(first) - np.asarray(second)).max(initial=0.0))
