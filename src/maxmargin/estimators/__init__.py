"""Estimators with scikit-learn's interface; the only place that knows scikit-learn."""

from maxmargin.estimators.svc import SVC

__all__ = ["SVC"]
