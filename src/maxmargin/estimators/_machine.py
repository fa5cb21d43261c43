"""What every kernel machine shares, whatever its training: its kernel's parameters, its proof."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, estimator_html_repr
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.kernels import Kernel

__all__ = ["KERNEL", "WIDE", "KernelMachine", "take"]

Ints = NDArray[np.int64]

WIDE = 1 << 22  # features: for more of them, w costs more than the rows with a coefficient
# What the parameters of a kernel with sklearn.svm's names may be.
KERNEL: dict[str, list[Any]] = {
    "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), Kernel, callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}


class KernelMachine(BaseEstimator):
    """Base of the estimators that are fitted over a Gram matrix and prove their answer."""

    def _mode(self) -> str:
        """How kernel values are made: "precomputed", or in a way that takes rows."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self._mode() == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = not precomputed
        return tags

    def _html_repr(self) -> str:
        html: str = estimator_html_repr(self)
        fitted = "certificate_" in vars(self)
        return html + self.certificate_._repr_html_() if fitted else html


def take(X: Any, rows: Ints, *, square: bool) -> Any:
    """Some rows of whatever was given as data, and the same columns of a Gram matrix."""
    return X[np.ix_(rows, rows)] if square else _safe_indexing(X, rows)
