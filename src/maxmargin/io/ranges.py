"""svm-scale's range files: what each feature's smallest and largest value become."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["Ranges", "load_ranges", "save_ranges"]

Floats = NDArray[np.float64]

_WIDEST = 10**7  # features; a damaged index must not ask for all memory


class Ranges(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale features as svm-scale does: its smallest value to ``lower``, its largest to ``upper``.

    Parameters
    ----------
    lower, upper : float, default=-1, 1
    data_min, data_max : array-like of shape (n_features,), optional
        Smallest and largest values, from a file, say; ``fit`` then finds none.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (n_features,)
        Equal where a feature has a single value; it becomes 0.

    Examples
    --------
    >>> Ranges(lower=0, upper=1).fit([[2.0, 7.0], [4.0, 7.0]]).transform([[3.0, 9.0]])
    array([[0.5, 0. ]])
    """

    def __init__(
        self,
        *,
        lower: float = -1.0,
        upper: float = 1.0,
        data_min: ArrayLike | None = None,
        data_max: ArrayLike | None = None,
    ) -> None:
        self.lower = lower
        self.upper = upper
        self.data_min = data_min
        self.data_max = data_max

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the smallest and largest value of each feature.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : object
        """
        if not self.lower < self.upper:
            raise ValueError(f"lower={self.lower} must be below upper={self.upper}.")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        if self.data_min is not None and self.data_max is not None:
            self.data_min_ = np.asarray(self.data_min, dtype=np.float64)
            self.data_max_ = np.asarray(self.data_max, dtype=np.float64)
            if not self.data_min_.shape == self.data_max_.shape == (X.shape[1],):
                raise ValueError(
                    f"data_min and data_max must have one value for each of {X.shape[1]} features."
                )
            return self
        low, high = X.min(axis=0), X.max(axis=0)
        self.data_min_ = np.asarray(low.todense() if sp.issparse(low) else low).ravel()
        self.data_max_ = np.asarray(high.todense() if sp.issparse(high) else high).ravel()
        return self

    def transform(self, X: Any) -> Any:
        """Scale; sparse data stay sparse where zeros stay zeros.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        {ndarray, csr_array} of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        slope, offset = self._line()
        if sp.issparse(X):
            if not offset.any():
                return sp.csr_array(X @ sp.diags_array(slope))
            X = X.toarray()
        return X * slope + offset

    def _line(self) -> tuple[Floats, Floats]:
        width = self.data_max_ - self.data_min_
        live = width > 0
        slope = np.divide(self.upper - self.lower, width, out=np.zeros_like(width), where=live)
        return slope, np.where(live, self.lower - self.data_min_ * slope, 0.0)


def load_ranges(path: str | os.PathLike[str], *, n_features: int | None = None) -> Ranges:
    r"""Read a file that ``svm-scale -s`` wrote.

    Parameters
    ----------
    path : path
    n_features : int, optional
        The file names only features with several values; None: the largest of them.

    Returns
    -------
    Ranges

    Raises
    ------
    ValueError
        If the file is damaged, or scales the target too; the message names the line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "range"
    >>> _ = path.write_text("x\n-1 1\n1 0 10\n3 5 6\n")
    >>> load_ranges(path).transform([[5.0, 1.0, 6.0]])
    array([[0., 0., 1.]])
    """
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except UnicodeDecodeError:
        raise _damaged(1, "not a text file") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if lines and lines[0].strip() == "y":
        raise _damaged(1, "it scales the target too; run svm-scale without -y")
    if not lines or lines[0].strip() != "x":
        raise _damaged(1, "it must begin with 'x'")
    lower, upper = _numbers(lines, 2, 2)
    if not lower < upper:
        raise _damaged(2, f"{lower:g} must be below {upper:g}")
    found: dict[int, tuple[float, float]] = {}
    for number in range(3, len(lines) + 1):
        index, low, high = _numbers(lines, number, 3)
        if index != int(index) or not 1 <= index <= _WIDEST:
            raise _damaged(number, f"{index:g} is no index from 1 to {_WIDEST}")
        if int(index) in found or low > high:
            raise _damaged(number, "an index comes twice, or its smallest value is the larger")
        found[int(index)] = (low, high)
    width = max(max(found, default=0), n_features or 0)
    if n_features is not None and width > n_features:
        raise ValueError(f"the range file has index {width}, the data {n_features} features.")
    smallest, largest = np.zeros(width), np.zeros(width)
    for index, (low, high) in found.items():
        smallest[index - 1], largest[index - 1] = low, high
    ranges = Ranges(lower=lower, upper=upper, data_min=smallest, data_max=largest)
    ranges.n_features_in_, ranges.data_min_, ranges.data_max_ = width, smallest, largest
    return ranges


def _numbers(lines: list[str], number: int, count: int) -> tuple[float, ...]:
    tokens = lines[number - 1].split() if number <= len(lines) else []
    try:
        values = tuple(float(token) for token in tokens)
    except ValueError:
        raise _damaged(number, f"{lines[number - 1][:20]!r} are no numbers") from None
    if len(values) != count or not np.isfinite(values).all():
        raise _damaged(number, f"expected {count} finite numbers")
    return values


def _damaged(line: int, what: str) -> ValueError:
    return ValueError(f"not a range file of svm-scale, line {line}: {what}.")


def save_ranges(scaler: Any, path: str | os.PathLike[str]) -> None:
    """Write a range file for ``svm-scale -r`` from a scaler that maps each feature by a line.

    Parameters
    ----------
    scaler : Ranges, StandardScaler, MinMaxScaler or MaxAbsScaler
        Fitted. A StandardScaler takes mean - deviation to -1 and mean + deviation to 1.
    path : path

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.preprocessing import StandardScaler
    >>> path = Path(tempfile.mkdtemp()) / "range"
    >>> save_ranges(StandardScaler().fit([[1.0], [3.0]]), path)
    >>> print(path.read_text())
    x
    -1 1
    1 1 3
    <BLANKLINE>
    """
    slope, offset, alone = _line_of(scaler)
    text = ["x\n-1 1\n"]
    for k in np.flatnonzero(~alone):
        low, high = (-1 - offset[k]) / slope[k], (1 - offset[k]) / slope[k]
        text.append(f"{k + 1} {low:.17g} {high:.17g}\n")
    Path(path).write_text("".join(text), encoding="ascii")


def _line_of(scaler: Any) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Slope and offset of each feature, and which of them become 0 whatever they are."""
    name = type(scaler).__name__
    width = scaler.n_features_in_
    ones, zeros = np.ones(width), np.zeros(width)
    if isinstance(scaler, Ranges):
        slope, offset = scaler._line()
    elif name == "StandardScaler":
        slope = 1 / (scaler.scale_ if scaler.scale_ is not None else ones)
        offset = -slope * (scaler.mean_ if scaler.with_mean else zeros)
        constant = scaler.var_ == 0 if scaler.var_ is not None else zeros > 0
        if constant.any() and not scaler.with_mean:
            raise ValueError("svm-scale drops constant features; this scaler keeps them.")
        return slope, offset, np.asarray(constant)
    elif name == "MinMaxScaler" and not scaler.clip:
        slope, offset = scaler.scale_, scaler.min_
    elif name == "MaxAbsScaler":
        slope, offset = 1 / scaler.scale_, zeros
    else:
        raise ValueError(f"svm-scale's files have a place for straight lines only; got {name}.")
    return slope, offset, slope == 0
