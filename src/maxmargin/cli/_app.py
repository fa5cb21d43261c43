"""The commands and the options that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

__all__ = ["Common", "Flag", "Input", "Machine", "Output", "app"]

app = App(
    name="maxmargin",
    help=(
        "Support vector machines whose every answer comes with a proof of how good it is.\n\n"
        "DATA is CSV, TSV, Parquet, Arrow, NPZ or LIBSVM's text (.libsvm .svm .svmlight), also "
        "with .gz .bz2 .xz; '-' is standard input. Results go to stdout, everything else to "
        "stderr. Exit codes: 0 done, 1 the answer is no (verify), 2 wrong use or unreadable files, "
        "130 Ctrl-C."
    ),
    help_format="rst",
    version_flags=["--version"],
    group_arguments="Arguments",
)

_Repeated = Parameter(negative="", show_default=False)
Flag = Parameter(negative="", show_default=False)


@Parameter(name="*", group="General")
@dataclass(frozen=True)
class Common:
    """What every command knows.

    Parameters
    ----------
    json
        Print one JSON object, for machines.
    quiet
        Say nothing on stderr but errors.
    debug
        Show the traceback of an error.
    """

    json: Annotated[bool, Flag] = False
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = (
        False
    )
    debug: Annotated[bool, Flag] = False


@Parameter(name="*", group="Data")
@dataclass(frozen=True)
class Input:
    """How to read DATA.

    Parameters
    ----------
    format
        csv, tsv, parquet, arrow, npz or libsvm; by default the extension tells.
    target
        The column to learn: its name, or its position (1 is the first, -1 the last).
    drop
        A column to leave out; may be given several times.
    categorical
        A column of categories that look like numbers; may be given several times.
    header
        Whether a CSV begins with names; by default it does unless its first line is numbers.
    """

    format: str | None = None
    target: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    drop: Annotated[tuple[str, ...], _Repeated] = ()
    categorical: Annotated[tuple[str, ...], _Repeated] = ()
    header: bool | None = None


@Parameter(name="*", group="Machine")
@dataclass(frozen=True)
class Machine:
    """The machine and its parameters.

    Parameters
    ----------
    estimator
        auto (svc for classes, svr for numbers), svc, nusvc, svr, nusvr, oneclass, svdd, krr
        (kernel ridge), klr (kernel logistic regression), lssvm or lssvr.
    kernel
        linear, poly, rbf or sigmoid.
    C
        Price of slack; inf is the hard margin.
    gamma
        Of the kernel: a number, scale or auto.
    degree
        Of kernel poly.
    coef0
        Of kernels poly and sigmoid.
    nu
        Of nusvc, nusvr, oneclass and svdd.
    epsilon
        Half-width of svr's tube.
    alpha
        Penalty of krr.
    probability
        Learn probabilities too.
    balanced
        Weigh classes by the inverse of their frequency.
    multi_class
        ovo (pairs that vote), ovr (one against the rest) or crammer_singer.
    tol
        KKT violation to stop at.
    gap_tol
        Relative duality gap to reach as well.
    max_time
        Seconds after which the best model so far is kept.
    max_iter
        Steps after which it is kept.
    cache_size
        MB for rows of the Gram matrix.
    threads
        Threads to use; by default all that this process may.
    """

    estimator: str = "auto"
    kernel: str | None = None
    C: Annotated[float | None, Parameter(name=["-C", "--C"])] = None
    gamma: str | None = None
    degree: int | None = None
    coef0: float | None = None
    nu: float | None = None
    epsilon: float | None = None
    alpha: float | None = None
    probability: Annotated[bool, Flag] = False
    balanced: Annotated[bool, Flag] = False
    multi_class: str | None = None
    tol: float | None = None
    gap_tol: float | None = None
    max_time: float | None = None
    max_iter: int | None = None
    cache_size: float | None = None
    threads: int | None = None


@Parameter(name="*", group="Output")
@dataclass(frozen=True)
class Output:
    """Where results go.

    Parameters
    ----------
    output
        File to write, whole or not at all.
    force
        Replace a file that is there.
    """

    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None
    force: Annotated[bool, Flag] = False


def _register() -> None:
    from maxmargin.cli import files, fitting, judging, showing, using

    commands = (
        fitting.fit,
        using.predict,
        using.score,
        fitting.search,
        judging.verify,
        judging.doctor,
        judging.explain,
        files.convert,
        showing.demo,
        showing.bench,
        showing.plot,
        showing.lab,
    )
    for command in commands:
        app.command(command)


_register()
