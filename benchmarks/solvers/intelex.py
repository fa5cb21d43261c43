"""scikit-learn-intelex: oneDAL behind scikit-learn's names."""

from daal4py import daalinit
from sklearnex import svm

PACKAGE = "scikit-learn-intelex"


def fit(task, X, y):
    if not hasattr(svm, task.estimator):
        raise NotImplementedError(f"oneDAL has no {task.estimator}")
    daalinit(task.threads)
    model = getattr(svm, task.estimator)(**task.params).fit(X, y)
    if not hasattr(model, "_onedal_estimator"):
        raise NotImplementedError("it would hand this problem to scikit-learn")
    return model
