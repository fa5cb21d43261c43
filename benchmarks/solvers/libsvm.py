"""LIBSVM with OpenMP: libsvm-official is compiled with -fopenmp; threads by OMP_NUM_THREADS."""

from ctypes import POINTER, c_uint64, cast
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from libsvm.svm import libsvm, svm_parameter, svm_problem, toPyModel

PACKAGE = "libsvm-official"

KINDS = {"SVC": 0, "NuSVC": 1, "OneClassSVM": 2, "SVR": 3, "NuSVR": 4}
KERNELS = {"linear": 0, "poly": 1, "rbf": 2, "sigmoid": 3}
OPTIONS = {
    "C": "-c",
    "nu": "-n",
    "epsilon": "-p",
    "gamma": "-g",
    "degree": "-d",
    "coef0": "-r",
    "tol": "-e",
    "cache_size": "-m",
}


def rows(X):
    """LIBSVM's nodes; its own conversion of dense arrays would take longer than training."""
    return svm_problem(np.zeros(X.shape[0]), sp.csr_matrix(X))


def fit(task, X, y):
    classes, y = np.unique(y, return_inverse=True) if "SVC" in task.estimator else (None, y)
    # As scikit-learn does inside: rows by class, so that LIBSVM numbers the classes in order.
    order = np.arange(X.l) if classes is None else np.argsort(y, kind="stable")
    pointers(X)[:] = pointers(X)[order]
    array(X.y, X.l)[:] = y[order]
    model = toPyModel(libsvm.svm_train(X, svm_parameter(options(task))))
    pointers(X)[order] = pointers(X).copy()
    return Model.of(model, order, classes, X)


def options(task):
    params = {name: value for name, value in task.params.items() if name != "kernel"}
    flags = [f"{OPTIONS[name]} {value!r}" for name, value in params.items()]
    kernel = KERNELS[task.params.get("kernel", "rbf")]
    return f"-q -s {KINDS[task.estimator]} -t {kernel} {' '.join(flags)}"


def pointers(X):
    return array(cast(X.x, POINTER(c_uint64)), X.l)


def array(pointer, length):
    """A view of C's memory."""
    return np.ctypeslib.as_array(pointer, (length,))


@dataclass
class Model:
    support_: Any
    dual_coef_: Any
    intercept_: Any
    classes: Any
    inside: Any
    data: Any  # the nodes that the support vectors point to

    @classmethod
    def of(cls, model, order, classes, X):
        pairs = model.nr_class * (model.nr_class - 1) // 2
        coef = [array(model.sv_coef[k], model.l) for k in range(model.nr_class - 1)]
        # scikit-learn turns the sign of a binary classifier.
        sign = -1.0 if classes is not None and len(classes) == 2 else 1.0
        return cls(
            support_=order[array(model.sv_indices, model.l) - 1],
            dual_coef_=sign * np.array(coef),
            intercept_=-sign * array(model.rho, pairs),
            classes=classes,
            inside=model,
            data=X,
        )

    def predict(self, X):
        found = (libsvm.svm_predict(self.inside, X.x[i]) for i in range(X.l))
        values = np.fromiter(found, dtype=np.float64, count=X.l)
        return values if self.classes is None else self.classes[values.astype(np.int64)]
