"""What is asked of everyone, and what is proven of everyone's answer, all by the same code."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn import svm

import maxmargin


@dataclass(frozen=True, kw_only=True)
class Task:
    """One problem as a solver sees it."""

    estimator: str  # its name in sklearn.svm
    params: dict  # of the constructor: C, gamma, nu, epsilon, kernel, tol, cache_size
    threads: int


def certificate(task, model, X, y):
    """What maxmargin.certify proves of a model: of its coefficients and its intercept alone."""
    tol = task.params["tol"]
    proof = maxmargin.certify(as_scikit_learn(task, model, X, y), X, y, tol=tol)
    return {
        "primal": proof.primal,
        "dual": proof.dual,
        "gap": proof.gap,
        "relative_gap": proof.relative_gap,
        "kkt_violation": proof.kkt_violation,
        "distance": proof.distance,
    }


def as_scikit_learn(task, model, X, y):
    """Dress any model as scikit-learn's, ours too, so that none is proven by a code of its own."""
    estimator = getattr(svm, task.estimator)(**task.params)
    classes = np.unique(y) if "SVC" in task.estimator else np.zeros(1)
    codes = np.searchsorted(classes, y) if len(classes) > 1 else np.zeros(len(y), dtype=np.int64)
    support = np.asarray(model.support_)
    by_class = np.argsort(codes[support], kind="stable")
    coef = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    estimator.support_ = support[by_class]
    estimator.support_vectors_ = X[estimator.support_]
    estimator.dual_coef_ = np.atleast_2d(coef)[:, by_class]
    estimator.intercept_ = np.atleast_1d(model.intercept_)
    estimator._n_support = np.bincount(codes[support], minlength=len(classes)).astype(np.int32)
    estimator._gamma = task.params.get("gamma", 0.0)
    estimator.shape_fit_ = X.shape
    if len(classes) > 1:
        estimator.classes_, estimator.class_weight_ = classes, np.ones(len(classes))
    return estimator
