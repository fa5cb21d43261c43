"""Commands that judge: ``verify``, ``doctor`` and ``explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from maxmargin.cli._app import Common, Flag, Input, Machine

if TYPE_CHECKING:
    from maxmargin.certificate import Certificate
    from maxmargin.io.data import Data
    from maxmargin.io.models import Model

__all__ = ["doctor", "explain", "verify"]


def verify(
    model: str,
    data: str,
    /,
    *,
    C: Annotated[float | None, Parameter(name=["-C", "--C"])] = None,
    nu: float | None = None,
    epsilon: float | None = None,
    tol: float | None = None,
    gap_tol: float | None = None,
    trust_pickle: Annotated[bool, Flag] = False,
    input: Input = Input(),
    common: Common = Common(),
) -> int:
    """Prove a model again from its training data; exit 1 if its claim does not hold.

    The claim is the certificate in the file. Where there is none (a model of scikit-learn or
    LIBSVM) it is that the KKT conditions hold up to the tolerance.

    maxmargin verify m.skops train.csv

    Parameters
    ----------
    model
        A model file. LIBSVM's hold no C, nu or epsilon: give them.
    data
        The data it was trained on.
    C
        Of a LIBSVM model.
    nu
        Of a LIBSVM model.
    epsilon
        Of a LIBSVM model.
    tol
        KKT violation that is asked for; by default the model's own tolerance, 1e-3 for LIBSVM's.
    gap_tol
        Relative duality gap that is asked for as well.
    trust_pickle
        Load .joblib and .pkl files, which can execute any code.
    """
    from maxmargin.cli.report import Reporter
    from maxmargin.cli.using import columns_of, fitting_rows, opened_model
    from maxmargin.io.data import read_data
    from maxmargin.io.models import fingerprint, plain

    say = Reporter(common)
    opened = opened_model(model, data, input, trust_pickle, say)
    supervised = not (hasattr(opened.machine, "offset_") or hasattr(opened.machine, "R2_"))
    columns = columns_of(opened, input, needed=supervised)
    zero = bool(opened.about.get("precomputed"))
    if zero:
        from maxmargin.cli.using import wider

        columns = wider(columns)
    rows = read_data(data, format=input.format, columns=columns, zero=zero)
    say.note(*rows.notes)
    rows = fitting_rows(opened, rows)
    if supervised and rows.y is None:
        raise ValueError("the data have no target: say --target.")
    y = rows.y if supervised else None
    claim = opened.about.get("certificate")
    then = opened.about.get("data", {}).get("hash")
    same = None if then is None else then == fingerprint(rows.X, y)["hash"]
    given = {"C": C, "nu": nu, "epsilon": epsilon}
    try:
        proof = _proven(opened, rows, y, given, tol, gap_tol)
    except ValueError as error:
        if not str(error).startswith("pass the"):
            raise
        facts = {
            "holds": False,
            "reason": f"these are not the data it was trained on: {error}",
            "same_data": same,
            "claim": claim,
        }
        say.result(facts, f"NO: {facts['reason']}")
        return 1
    holds, reason = _judge(proof, claim, tol, gap_tol)
    facts = {
        "holds": holds,
        "reason": reason,
        "same_data": same,
        "proof": plain(proof),
        "claim": claim,
    }
    if same is False and not holds:
        facts["reason"] = reason = f"these are not the data it was trained on: {reason}"
    known = {None: "the file does not tell", True: "yes", False: "NO"}[same]
    text = f"{'holds' if holds else 'NO'}: {reason}\n{proof}\nsame data     {known}"
    say.result(facts, text)
    return 0 if holds else 1


def _proven(
    opened: Model,
    rows: Data,
    y: Any,
    given: dict[str, float | None],
    tol: float | None,
    gap_tol: float | None,
) -> Certificate:
    from maxmargin import certify

    machine, X = opened.machine, opened.prepared(rows.X)
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    proof: Certificate
    if opened.libsvm is not None:
        proof = certify(opened.libsvm, X, y, tol=tol or 1e-3, gap_tol=gap_tol, **wanted)
    elif wanted:
        raise ValueError(f"the model has its own {next(iter(wanted))}; leave it out.")
    elif hasattr(machine, "certify"):
        proof = machine.certify(X, y)
    elif not hasattr(machine, "dual_coef_"):
        raise ValueError(
            f"{type(machine).__name__} holds no coefficients to prove; verify the model that it "
            "was made from."
        )
    else:
        proof = certify(machine, X, y, tol=tol or machine.tol, gap_tol=gap_tol)
    return proof


def _judge(
    proof: Certificate, claim: dict[str, Any] | None, tol: float | None, gap_tol: float | None
) -> tuple[bool, str]:
    """Whether what was found bears out what was said, and in which words."""
    found = proof.relative_gap
    if tol is not None and not proof.kkt_violation <= tol:
        return False, f"KKT violation {proof.kkt_violation:.2g} is above {tol:g}"
    if gap_tol is not None and not found <= gap_tol:
        return False, f"relative gap {found:.2g} is above {gap_tol:g}"
    if claim is None:
        if proof.status is None:
            return False, f"the tolerance is not met: KKT violation {proof.kkt_violation:.2g}"
        return True, f"{proof.status}, relative gap {found:.2g}, KKT {proof.kkt_violation:.2g}"
    said, status = claim.get("relative_gap"), claim.get("status")
    if status in ("optimal", "stationary") and proof.status is None:
        return False, (
            f"the file says {status}, but the KKT violation is {proof.kkt_violation:.2g}"
        )
    if proof.distance > 1e-6 * (1 + abs(proof.primal)):
        return False, f"the coefficients are not feasible: off by {proof.distance:.2g}"
    if said is not None and found > said * (1 + 1e-3) + 1e-9:
        return False, f"the file says relative gap {said:.2g}, but it is {found:.2g}"
    ended = status or "stopped early"
    if proof.status is None:
        ended += " and no optimum, as the file says"
    return True, f"{ended}, relative gap {found:.2g}" + (
        f" (claimed {said:.2g})" if said is not None else " (none was claimed)"
    )


def doctor(
    data: str,
    /,
    *,
    machine: Machine = Machine(),
    input: Input = Input(),
    scale: bool = True,
    common: Common = Common(),
) -> int:
    """Look at data before any fitting: what will go wrong, what to do, how long it will take.

    maxmargin doctor train.csv --target label

    Parameters
    ----------
    data
        The training data.
    scale
        Standardise numbers, as fit does.
    """
    from maxmargin import doctor as examine
    from maxmargin.cli import prepare
    from maxmargin.cli.report import Reporter
    from maxmargin.io.data import read_data

    say = Reporter(common)
    unsupervised = machine.estimator in prepare.UNSUPERVISED
    columns = prepare.columns_for(input, needed=not unsupervised)
    rows = prepare.settled(read_data(data, format=input.format, columns=columns))
    say.note(*rows.notes)
    built, notes = prepare.machine_for(machine, rows.y, verbose=False)
    model, _ = prepare.pipeline_for(rows, built, scale=scale)
    say.note(*notes)
    diagnosis = examine(rows.X, None if unsupervised else rows.y, model, names=rows.names or None)
    say.result(diagnosis.as_dict(), str(diagnosis))
    return 0


def explain(
    model: str,
    row: str,
    /,
    *,
    number: Annotated[int, Parameter(name=["--row", "-n"])] = 1,
    top: int = 8,
    trust_pickle: Annotated[bool, Flag] = False,
    input: Input = Input(),
    common: Common = Common(),
) -> int:
    """Tell why a model decides as it does for one row, and how little would change it.

    maxmargin explain m.skops test.csv --row 3

    maxmargin explain m.skops 5.1,3.5,1.4,0.2

    Parameters
    ----------
    model
        A model file.
    row
        A data file, or the row itself: numbers separated by commas, or LIBSVM's index:value.
    number
        Which row of the file, from 1.
    top
        How many support vectors to show.
    trust_pickle
        Load .joblib and .pkl files, which can execute any code.
    """
    from maxmargin import explain as tell
    from maxmargin.cli.report import Reporter
    from maxmargin.cli.using import opened_model

    say = Reporter(common)
    opened = opened_model(model, row, input, trust_pickle, say)
    rows = _one_row(opened, row, number, input, say)
    names = rows.names or None
    try:
        explanation = tell(opened.model, rows.X, top=top, names=names)
    except TypeError as error:  # what it does not know
        raise ValueError(str(error)) from error
    say.result(explanation.as_dict(), str(explanation))
    return 0


def _one_row(opened: Model, text: str, number: int, input: Input, say: Any) -> Data:
    """The row: from a file, or as it was typed."""
    from dataclasses import replace
    from pathlib import Path

    from maxmargin.cli.using import model_batches, refuse_missing

    if text == "-" or Path(text).exists():
        if number < 1:
            raise ValueError(f"--row {number}: rows are counted from 1.")
        before = 0
        for rows in model_batches(opened, text, input, needed=False, say=say, complete=False):
            if number <= before + rows.X.shape[0]:
                X = rows.X[number - 1 - before : number - before]
                refuse_missing(opened, X, rows.names)
                return replace(rows, X=X, y=None)
            before += rows.X.shape[0]
        raise ValueError(f"--row {number}: {text} has {before} rows.")
    return _typed(opened, text)


def _typed(opened: Model, text: str) -> Data:
    from maxmargin import _core
    from maxmargin.cli.using import fitting_rows
    from maxmargin.io.data import MISSING, Data, is_number

    features = tuple(opened.about.get("features", ()))
    if ":" in text:
        import scipy.sparse as sp

        _, offsets, indices, values = _core.read_libsvm(f"0 {text}".encode())
        shape = (1, int(indices.max(initial=-1)) + 1)
        return fitting_rows(
            opened, Data(X=sp.csr_array((values, indices, offsets), shape=shape), y=None)
        )
    cells = [cell.strip() for cell in text.split(",")]
    import numpy as np

    categorical = opened.about.get("categorical", [])
    if not categorical and not any(map(is_number, cells)):
        raise ValueError(f"{text!r} is neither a file nor a row of numbers.")
    if features and len(cells) != len(features):
        raise ValueError(
            f"the row has {len(cells)} cells; the model has {len(features)} features: "
            f"{', '.join(features[:8])}{', ...' if len(features) > 8 else ''}."
        )
    typed: list[Any] = []
    for cell, name in zip(cells, features or cells, strict=True):
        if cell in MISSING:
            typed.append(np.nan)
        elif name in categorical:
            typed.append(cell)
        elif is_number(cell):
            typed.append(float(cell))
        else:
            raise ValueError(f"{cell!r} in column {name!r} is not a number.")
    X = np.array([typed], dtype=object if categorical else np.float64)
    return fitting_rows(opened, Data(X=X, y=None, names=features))
