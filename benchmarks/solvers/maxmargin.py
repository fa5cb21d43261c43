"""Ours."""

import maxmargin

PACKAGE = "maxmargin"


def fit(task, X, y):
    estimator = getattr(maxmargin, task.estimator)
    return estimator(n_threads=task.threads, **task.params).fit(X, y)
