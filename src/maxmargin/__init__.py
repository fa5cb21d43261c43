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
        io,
        kernels,
        lab,
        ledger,
        logistic,
        losses,
        nu_svm,
        path,
        problems,
        sharing,
        solvers,
    )
    from maxmargin import estimators as estimators
    from maxmargin.diagnosis import doctor
    from maxmargin.estimators.choosing import consistency, one_standard_error
    from maxmargin.estimators.least_squares import LSSVM, LSSVMRegressor
    from maxmargin.estimators.logistic import KernelLogisticRegression
    from maxmargin.estimators.models import certify
    from maxmargin.estimators.one_class import SVDD, OneClassSVM
    from maxmargin.estimators.pca import KernelPCA
    from maxmargin.estimators.ridge import KernelRidge, KernelRidgeCV
    from maxmargin.estimators.search import SVCCV, SVRCV, NuSVCCV
    from maxmargin.estimators.svc import SVC, NuSVC
    from maxmargin.estimators.svr import SVR, NuSVR
    from maxmargin.explanation import explain
    from maxmargin.io.models import load, save
    from maxmargin.path import svc_path
    from maxmargin.sharing import shared_gram
    from maxmargin.versions import show_versions

    __version__: str

__all__ = [
    "LSSVM",
    "SVC",
    "SVCCV",
    "SVDD",
    "SVR",
    "SVRCV",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "LSSVMRegressor",
    "NuSVC",
    "NuSVCCV",
    "NuSVR",
    "OneClassSVM",
    "__version__",
    "certificate",
    "certify",
    "consistency",
    "datasets",
    "displays",
    "doctor",
    "duality",
    "estimators",
    "explain",
    "geometry",
    "grams",
    "io",
    "kernels",
    "lab",
    "ledger",
    "load",
    "logistic",
    "losses",
    "nu_svm",
    "one_standard_error",
    "path",
    "problems",
    "save",
    "shared_gram",
    "sharing",
    "show_versions",
    "solvers",
    "svc_path",
]

# Where a public name lives; a name of __all__ that is not listed is a submodule.
_HOMES = {
    "SVC": "maxmargin.estimators.svc",
    "NuSVC": "maxmargin.estimators.svc",
    "SVR": "maxmargin.estimators.svr",
    "SVCCV": "maxmargin.estimators.search",
    "NuSVCCV": "maxmargin.estimators.search",
    "SVRCV": "maxmargin.estimators.search",
    "consistency": "maxmargin.estimators.choosing",
    "one_standard_error": "maxmargin.estimators.choosing",
    "shared_gram": "maxmargin.sharing",
    "svc_path": "maxmargin.path",
    "NuSVR": "maxmargin.estimators.svr",
    "OneClassSVM": "maxmargin.estimators.one_class",
    "SVDD": "maxmargin.estimators.one_class",
    "KernelPCA": "maxmargin.estimators.pca",
    "KernelRidge": "maxmargin.estimators.ridge",
    "KernelRidgeCV": "maxmargin.estimators.ridge",
    "LSSVM": "maxmargin.estimators.least_squares",
    "LSSVMRegressor": "maxmargin.estimators.least_squares",
    "KernelLogisticRegression": "maxmargin.estimators.logistic",
    "certify": "maxmargin.estimators.models",
    "doctor": "maxmargin.diagnosis",
    "explain": "maxmargin.explanation",
    "load": "maxmargin.io.models",
    "save": "maxmargin.io.models",
    "show_versions": "maxmargin.versions",
}
_ELSEWHERE = ("LinearSVC", "LinearSVR", "l1_min_c")


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("maxmargin")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = import_module(f"maxmargin.{name}")
    elif name in _ELSEWHERE:
        # Not AttributeError: `from maxmargin import LinearSVC` would swallow what it says.
        raise ImportError(f"maxmargin has no {name} yet; use sklearn.svm.{name}.")
    else:
        raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
