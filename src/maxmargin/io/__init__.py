"""Files: data of many formats, models that travel, LIBSVM's own.

Importing this package imports NumPy and SciPy only; the rest is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxmargin.io.libsvm import (
    CLASSIFIERS,
    LibsvmModel,
    load_libsvm_model,
    save_libsvm_model,
)

if TYPE_CHECKING:
    from maxmargin.io.data import Columns, Data, batches, read_data
    from maxmargin.io.models import Model, load, open_model, save
    from maxmargin.io.ranges import Ranges, load_ranges, save_ranges

__all__ = [
    "CLASSIFIERS",
    "Columns",
    "Data",
    "LibsvmModel",
    "Model",
    "Ranges",
    "batches",
    "load",
    "load_libsvm_model",
    "load_ranges",
    "open_model",
    "read_data",
    "save",
    "save_libsvm_model",
    "save_ranges",
]

_HOMES = {
    "Columns": "data",
    "Data": "data",
    "Model": "models",
    "Ranges": "ranges",
    "batches": "data",
    "load": "models",
    "load_ranges": "ranges",
    "open_model": "models",
    "read_data": "data",
    "save": "models",
    "save_ranges": "ranges",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maxmargin.io' has no attribute {name!r}")
    value = getattr(import_module(f"maxmargin.io.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
