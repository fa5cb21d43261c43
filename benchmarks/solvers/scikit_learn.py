"""scikit-learn: LIBSVM 3.10 with dense rows; one thread, it has no more."""

from sklearn import svm

PACKAGE = "scikit-learn"


def fit(task, X, y):
    return getattr(svm, task.estimator)(**task.params).fit(X, y)
