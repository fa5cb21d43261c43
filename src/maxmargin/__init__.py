"""Support vector machines whose every answer comes with a proof of how good it is.

Importing this package imports nothing else: each public name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin import (
        certificate,
        datasets,
        displays,
        duality,
        geometry,
        grams,
        kernels,
        ledger,
        losses,
        nu_svm,
        problems,
        solvers,
    )
    from maxmargin import estimators as estimators
    from maxmargin.certificate import certify
    from maxmargin.estimators.svc import SVC

    __version__: str

__all__ = [
    "SVC",
    "__version__",
    "certificate",
    "certify",
    "datasets",
    "displays",
    "duality",
    "estimators",
    "geometry",
    "grams",
    "kernels",
    "ledger",
    "losses",
    "nu_svm",
    "problems",
    "solvers",
]

# Where a public name lives; a name of __all__ that is not listed is a submodule.
_HOMES = {"SVC": "maxmargin.estimators.svc", "certify": "maxmargin.certificate"}


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("maxmargin")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = import_module(f"maxmargin.{name}")
    else:
        raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
