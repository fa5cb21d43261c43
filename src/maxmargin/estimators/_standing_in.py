"""A machine that a search hands to scorers: values for the test set, a real fit for the rest."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier

__all__ = ["standing_in"]

_PRIVATE = ("_scheme", "_sparse", "_X_fit")  # set by a fit, as all names that end in "_"


@dataclass(frozen=True)
class _Known:
    """Decision values of some rows, and how to come by the machine that has them."""

    X: Any
    values: NDArray[np.float64]
    fit: Callable[[], Any]


def standing_in(machine: Any, X: Any, values: NDArray[np.float64], fit: Callable[[], Any]) -> Any:
    """Make a machine that knows its decision values on some rows without support vectors.

    Asked for anything else, other rows or what a fit would have set, it becomes the real machine.

    Parameters
    ----------
    machine : SupportVectorMachine
        Its parameters, and what is known of its fit: classes, features.
    X : {array-like, sparse matrix}
        The rows; nobody else may hold them.
    values : ndarray of shape (n_rows, n_problems), or (n_rows,) for a regressor
    fit : callable
        Returns the real machine.

    Returns
    -------
    SupportVectorMachine
    """
    twin = copy.copy(machine)
    kind: Any = type(machine)
    twin.__class__ = _stand_in(kind)
    twin._known = _Known(X, values, fit)
    return twin


def _become(machine: Any) -> Any:
    """Fit, and be an ordinary machine from now on; parameters set since stay."""
    known = vars(machine).pop("_known")
    machine.__class__ = type(machine).__mro__[1]
    real = vars(known.fit())
    vars(machine).update({k: v for k, v in real.items() if k not in vars(machine)})
    return machine


def _same(X: Any, known: Any) -> bool:
    """Whether rows are those that are known: by content, as a scorer may write on its own."""
    if type(X) is not type(known) or getattr(X, "dtype", None) != getattr(known, "dtype", None):
        return False
    if sp.issparse(X):
        return bool(X.shape == known.shape and not (known != X).nnz)
    if hasattr(X, "equals"):  # a data frame
        return bool(X.equals(known))
    if isinstance(X, np.ndarray) and X.dtype != object:
        return np.array_equal(X, known)
    X, known = getattr(X, "flat", X), getattr(known, "flat", known)
    return len(X) == len(known) and all(map(operator.is_, X, known))


@functools.cache
def _stand_in(kind: Any) -> Any:
    """The class of stand-ins for machines of a class."""

    def values(self: Any, X: Any) -> Any:
        if _same(X, self._known.X):
            return self._known.values.copy()  # a scorer may write on it
        return _become(self)._scores(X)

    def predict(self: Any, X: Any) -> Any:
        if _same(X, self._known.X):
            return self._known.values.copy()
        return _become(self).predict(X)

    def missing(self: Any, name: str) -> Any:
        of_fit = (name.endswith("_") and not name.startswith("__")) or name in _PRIVATE
        if of_fit and not hasattr(kind, name):
            return getattr(_become(self), name)
        return object.__getattribute__(self, name)  # which says why there is none

    def fit(self: Any, *args: Any, **given: Any) -> Any:
        del self._known
        self.__class__ = kind
        return self.fit(*args, **given)

    body: dict[str, Any] = {
        "_silent": lambda self: np.zeros(self._known.values.shape[1], dtype=bool),
        "fit": fit,
        "__getattr__": missing,
        "__new__": lambda cls, *args, **given: kind(*args, **given),  # clones are no stand-ins
        "__reduce_ex__": lambda self, protocol: _become(self).__reduce_ex__(protocol),
        "__sklearn_is_fitted__": lambda self: True,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    body |= {"_scores": values} if is_classifier(kind()) else {"predict": predict}
    return type(kind.__name__, (kind,), body)
