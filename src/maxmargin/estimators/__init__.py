"""Estimators with scikit-learn's interface; the only place that knows scikit-learn."""

from maxmargin.estimators.one_class import SVDD, OneClassSVM
from maxmargin.estimators.pca import KernelPCA
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR

__all__ = ["SVC", "SVDD", "SVR", "KernelPCA", "NuSVC", "NuSVR", "OneClassSVM"]
