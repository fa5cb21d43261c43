"""Read and write LIBSVM's model files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["CLASSIFIERS", "LibsvmModel", "load_libsvm_model", "save_libsvm_model"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLASSIFIERS = ("c_svc", "nu_svc")
SVM_TYPES = (*CLASSIFIERS, "one_class", "epsilon_svr", "nu_svr")

# The numbers that each kernel is made of; LIBSVM writes no others.
KERNEL_TYPES: dict[str, tuple[str, ...]] = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}

_LARGEST = 2**31 - 1  # LIBSVM's numbers are C ints


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LibsvmModel:
    r"""Hold what a LIBSVM model file says.

    Parameters
    ----------
    svm_type : {"c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr"}
    kernel_type : {"linear", "polynomial", "rbf", "sigmoid", "precomputed"}
    degree : int, optional
    gamma, coef0 : float, optional
        Numbers of the kernel, where it has them.
    nr_class : int
        2 for regression and one-class.
    rho : ndarray of shape (nr_class * (nr_class - 1) / 2,)
        Minus the bias of each pair of classes: (0, 1), (0, 2), ..., (1, 2), ...
    label : ndarray of shape (nr_class,), optional
        The classes in the order of the file; the first of a pair is the positive one.
    nr_sv : ndarray of shape (nr_class,), optional
        Support vectors per class.
    probA, probB, prob_density_marks : ndarray, optional
        Of probability models.
    coef : ndarray of shape (n_SV, nr_class - 1)
        Signed dual coefficients. For a pair of classes i < j those of class i are in column
        j - 1, those of class j in column i.
    support_vectors : csr_array of shape (n_SV, n_features), optional
        None for a precomputed kernel. The file does not tell n_features: it is the largest index.
    serial : ndarray of shape (n_SV,), optional
        For a precomputed kernel: the serial numbers of the support vectors, from 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> text = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.model"
    ...     _ = path.write_text(f"{text}nr_sv 1 1\nSV\n0.5 1:1\n-0.5 1:-1\n")
    ...     model = load_libsvm_model(path)
    >>> model.svm_type, model.coef.ravel(), model.label
    ('c_svc', array([ 0.5, -0.5]), array([ 1, -1]))
    """

    svm_type: str
    kernel_type: str
    degree: int | None = None
    gamma: float | None = None
    coef0: float | None = None
    nr_class: int
    rho: Floats
    label: Ints | None = None
    nr_sv: Ints | None = None
    probA: Floats | None = None
    probB: Floats | None = None
    prob_density_marks: Floats | None = None
    coef: Floats
    support_vectors: Any = None
    serial: Ints | None = None

    def __repr__(self) -> str:
        return f"<LIBSVM {self.svm_type}, {self.kernel_type}: {len(self.coef)} support vectors>"

    @property
    def kernel_settings(self) -> dict[str, Any]:
        """The kernel's name and numbers, as the parameters of an ``SVC``."""
        numbers = {"degree": self.degree, "gamma": self.gamma, "coef0": self.coef0}
        given = {name: value for name, value in numbers.items() if value is not None}
        return {"kernel": "poly" if self.kernel_type == "polynomial" else self.kernel_type, **given}


def load_libsvm_model(source: str | os.PathLike[str] | IO[Any]) -> LibsvmModel:
    """Read a model file that LIBSVM wrote.

    Parameters
    ----------
    source : path or file object
        Text as ``svm-train`` and ``svm_save_model`` write it.

    Returns
    -------
    LibsvmModel

    Raises
    ------
    ValueError
        If the file is damaged; the message names the line.

    Examples
    --------
    >>> from io import StringIO
    >>> text = '''svm_type c_svc
    ... kernel_type linear
    ... nr_class 2
    ... total_sv 2
    ... rho 0
    ... label 1 -1
    ... nr_sv 1 1
    ... SV
    ... 0.5 1:1
    ... -0.5 1:-1 3:2
    ... '''
    >>> model = load_libsvm_model(StringIO(text))
    >>> model
    <LIBSVM c_svc, linear: 2 support vectors>
    >>> model.support_vectors.toarray()
    array([[ 1.,  0.,  0.],
           [-1.,  0.,  2.]])
    """
    lines = _text(source).splitlines()
    fields: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        name, *values = line.split() or ("",)
        if name == "SV":
            return _assemble(fields, lines, number)
        if name not in _FIELDS:
            raise _damaged(number, f"unknown field {_short(name)}")
        if name in fields:
            raise _damaged(number, f"{name} is given twice")
        try:
            fields[name] = _FIELDS[name](values)
        except ValueError as error:
            raise _damaged(number, f"{name} {error}") from None
    raise _damaged(len(lines), "the file ends before the line 'SV'")


def _text(source: str | os.PathLike[str] | IO[Any]) -> str:
    if isinstance(source, str | os.PathLike):
        content: Any = Path(source).read_bytes()
    else:
        content = source.read()
    if isinstance(content, str):
        return content
    try:
        return str(content, "ascii")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _damaged(line, "not a text file") from None


def _damaged(line: int, what: str) -> ValueError:
    return ValueError(f"not a LIBSVM model, line {line}: {what}.")


def _short(token: str) -> str:
    """The token as it may stand in a message, however long it is."""
    return repr(token if len(token) <= 20 else token[:20] + "...")


# ---- the header -------------------------------------------------------------------------------


def _floats(tokens: list[str]) -> Floats:
    values = np.array([_number(token) for token in tokens], dtype=np.float64)
    if not np.isfinite(values).all():
        wrong = tokens[int(np.isfinite(values).argmin())]
        raise ValueError(f"must be finite numbers; got {_short(wrong)}")
    return values


def _number(token: str) -> float:
    try:
        return float(token) if "_" not in token else np.nan  # Python's own 1_000
    except ValueError:
        return np.nan


def _integers(tokens: list[str]) -> Ints:
    values = []
    for token in tokens:
        digits = token[1:] if token[:1] in ("-", "+") else token
        if not (digits.isdecimal() and digits.isascii() and len(digits) <= 10):
            raise ValueError(f"must be integers; got {_short(token)}")
        values.append(int(token))
    return np.array(values, dtype=np.int64)


def _single(read: Callable[[list[str]], NDArray[Any]]) -> Callable[[list[str]], Any]:
    def one(tokens: list[str]) -> Any:
        if len(tokens) != 1:
            raise ValueError(f"must be one value; got {len(tokens)}")
        return read(tokens)[0].item()

    return one


def _one_of(allowed: Iterable[str]) -> Callable[[list[str]], str]:
    def word(tokens: list[str]) -> str:
        if len(tokens) != 1 or tokens[0] not in allowed:
            raise ValueError(
                f"must be one of {', '.join(allowed)}; got {_short(' '.join(tokens[:3]))}"
            )
        return tokens[0]

    return word


_FIELDS: dict[str, Callable[[list[str]], Any]] = {
    "svm_type": _one_of(SVM_TYPES),
    "kernel_type": _one_of(KERNEL_TYPES),
    "degree": _single(_integers),
    "gamma": _single(_floats),
    "coef0": _single(_floats),
    "nr_class": _single(_integers),
    "total_sv": _single(_integers),
    "rho": _floats,
    "label": _integers,
    "probA": _floats,
    "probB": _floats,
    "prob_density_marks": _floats,
    "nr_sv": _integers,
}


def _check(fields: dict[str, Any], line: int) -> None:
    """Check that the header is whole and agrees with itself, before anything is made of it."""
    needed = ["svm_type", "kernel_type", "nr_class", "total_sv", "rho"]
    needed += KERNEL_TYPES.get(fields.get("kernel_type", ""), ())
    classifier = fields.get("svm_type") in CLASSIFIERS
    needed += ["label", "nr_sv"] if classifier else []
    missing = [name for name in needed if name not in fields]
    if missing:
        raise _damaged(line, f"the header has no {', '.join(missing)}")
    k = fields["nr_class"]
    if k < 2 or (k > 2 and not classifier):
        allowed = "at least 2" if classifier else f"2 for {fields['svm_type']}"
        raise _damaged(line, f"nr_class={k} must be {allowed}")
    pairs = k * (k - 1) // 2 if classifier else 1
    counts = {"rho": pairs, "label": k, "nr_sv": k}
    counts |= {"probA": pairs, "probB": pairs} if classifier else {"probA": 1}
    for name, count in counts.items():
        if name in fields and len(fields[name]) != count:
            raise _damaged(line, f"{name} must be {count} numbers; got {len(fields[name])}")
    if classifier and len(set(fields["label"].tolist())) < k:
        raise _damaged(line, "label names a class twice")
    if fields["total_sv"] < 0 or (classifier and fields["nr_sv"].min() < 0):
        raise _damaged(line, "a number of support vectors is negative")
    if classifier and fields["nr_sv"].sum() != fields["total_sv"]:
        total, each = fields["total_sv"], fields["nr_sv"].sum()
        raise _damaged(line, f"total_sv is {total}, but nr_sv sums to {each}")


# ---- the support vectors ----------------------------------------------------------------------


def _assemble(fields: dict[str, Any], lines: list[str], start: int) -> LibsvmModel:
    _check(fields, start)
    total, width = fields.pop("total_sv"), fields["nr_class"] - 1
    while len(lines) > start and not lines[-1].strip():
        lines.pop()
    if len(lines) - start < total:
        raise _damaged(len(lines), f"the file ends after {len(lines) - start} of {total} SV")
    if len(lines) - start > total:
        raise _damaged(start + total + 1, f"more than the {total} SV that total_sv announces")
    precomputed = fields["kernel_type"] == "precomputed"
    coef, values, indices, offsets = [], [np.zeros(0)], [np.zeros(0, dtype=np.int64)], [0]
    for number, line in enumerate(lines[start:], start=start + 1):
        tokens = line.replace(":", " : ").split()
        cells = len(tokens) - width
        try:
            if cells < 0 or cells % 3 or any(t != ":" for t in tokens[width + 1 :: 3]):
                raise ValueError(f"must have {width} coefficients, then index:value pairs")
            coef.append(_floats(tokens[:width]))
            values.append(_floats(tokens[width + 2 :: 3]))
            indices.append(_columns(tokens[width::3], precomputed))
        except ValueError as error:
            raise _damaged(number, f"a support vector {error}") from None
        offsets.append(offsets[-1] + len(indices[-1]))
        if precomputed and not _is_serial(values[-1], indices[-1]):
            raise _damaged(number, "a support vector of a precomputed kernel must be 0:serial")
    fields["coef"] = np.array(coef, dtype=np.float64).reshape(total, width)
    if precomputed:
        return LibsvmModel(**fields, serial=np.concatenate(values).astype(np.int64))
    columns = np.concatenate(indices)
    shape = (total, int(columns.max(initial=0)))
    rows = sparse.csr_array((np.concatenate(values), columns - 1, np.array(offsets)), shape=shape)
    return LibsvmModel(**fields, support_vectors=rows)


def _is_serial(values: Floats, columns: Ints) -> bool:
    if len(values) != 1 or columns[0] != 0:
        return False
    return bool(1 <= values[0] <= _LARGEST and values[0] == np.floor(values[0]))


def _columns(tokens: list[str], precomputed: bool) -> Ints:
    columns = _integers(tokens)
    first = 0 if precomputed else 1
    if len(columns) and not (columns[0] >= first and columns[-1] <= _LARGEST):
        raise ValueError(f"must have indices from {first} to {_LARGEST}")
    if (np.diff(columns) <= 0).any():
        raise ValueError("must have ascending indices")
    return columns


# ---- writing ----------------------------------------------------------------------------------


def save_libsvm_model(model: LibsvmModel, target: str | os.PathLike[str] | IO[str]) -> None:
    """Write a model file that LIBSVM reads; numbers with all their digits.

    Parameters
    ----------
    model : LibsvmModel
    target : path or text file object

    Examples
    --------
    >>> from io import StringIO
    >>> one = LibsvmModel(
    ...     svm_type="one_class",
    ...     kernel_type="rbf",
    ...     gamma=0.5,
    ...     nr_class=2,
    ...     rho=np.array([0.25]),
    ...     coef=np.array([[1.0]]),
    ...     support_vectors=sparse.csr_array([[0.0, 3.0]]),
    ... )
    >>> file = StringIO()
    >>> save_libsvm_model(one, file)
    >>> print(file.getvalue())
    svm_type one_class
    kernel_type rbf
    gamma 0.5
    nr_class 2
    total_sv 1
    rho 0.25
    SV
    1 2:3
    <BLANKLINE>
    """
    text = "".join(_written(model))
    if isinstance(target, str | os.PathLike):
        Path(target).write_text(text, encoding="ascii")
    else:
        target.write(text)


def _written(model: LibsvmModel) -> Iterable[str]:
    header = {
        "svm_type": model.svm_type,
        "kernel_type": model.kernel_type,
        **{name: getattr(model, name) for name in KERNEL_TYPES[model.kernel_type]},
        "nr_class": model.nr_class,
        "total_sv": len(model.coef),
        "rho": model.rho,
        **{n: getattr(model, n) for n in ("label", "probA", "probB", "nr_sv")},
    }
    for name, value in header.items():
        if value is not None:
            yield f"{name} {_digits(value)}\n"
    yield "SV\n"
    rows = model.support_vectors
    for k, coef in enumerate(model.coef):
        if model.serial is not None:
            yield f"{_digits(coef)} 0:{model.serial[k]}\n"
            continue
        a, b = rows.indptr[k], rows.indptr[k + 1]
        cells = zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True)
        yield f"{_digits(coef)} {' '.join(f'{j + 1}:{_digits(v)}' for j, v in cells if v != 0)}\n"


def _digits(value: Any) -> str:
    if isinstance(value, str):
        return value
    return " ".join(repr(number).removesuffix(".0") for number in np.atleast_1d(value).tolist())
