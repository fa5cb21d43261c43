"""Estimators with scikit-learn's interface; the only place that knows scikit-learn."""

from maxmargin.estimators.logistic import KernelLogisticRegression
from maxmargin.estimators.one_class import SVDD, OneClassSVM
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR

__all__ = ["SVC", "SVDD", "SVR", "KernelLogisticRegression", "NuSVC", "NuSVR", "OneClassSVM"]
