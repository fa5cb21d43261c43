"""Estimators with scikit-learn's interface; the only place that knows scikit-learn."""

from maxmargin.estimators.least_squares import LSSVM, LSSVMRegressor
from maxmargin.estimators.logistic import KernelLogisticRegression
from maxmargin.estimators.one_class import SVDD, OneClassSVM
from maxmargin.estimators.pca import KernelPCA
from maxmargin.estimators.ridge import KernelRidge, KernelRidgeCV
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR

__all__ = [
    "LSSVM",
    "SVC",
    "SVDD",
    "SVR",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "LSSVMRegressor",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
]
