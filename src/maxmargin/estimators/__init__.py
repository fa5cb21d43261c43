"""Estimators with scikit-learn's interface; the only place that knows scikit-learn."""

from maxmargin.estimators.one_class import SVDD, OneClassSVM
from maxmargin.estimators.ridge import KernelRidge, KernelRidgeCV
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR

__all__ = [
    "SVC",
    "SVDD",
    "SVR",
    "KernelRidge",
    "KernelRidgeCV",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
]
