"""The whole family: every promise of scikit-learn's, and those its own machines break."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM

TIGHT = 1e-10  # the sample-weight checks compare decision values at 1e-7

CHECKED = [
    SVC(tol=TIGHT),
    SVC(kernel="precomputed", tol=TIGHT),
    SVC(multi_class="ovr", tol=TIGHT),
    SVC(multi_class="crammer_singer", tol=TIGHT),
    NuSVC(nu=0.2, tol=TIGHT),
    NuSVC(nu=0.2, multi_class="ovr", tol=TIGHT),
    SVR(tol=TIGHT),
    SVR(kernel="precomputed", tol=TIGHT),
    NuSVR(tol=TIGHT),
    OneClassSVM(tol=TIGHT),
    SVDD(tol=TIGHT),
]


def may_fail(estimator):
    reason = "its weights (1000 : 1e-4) make every usual nu infeasible"
    return {"check_class_weight_classifiers": reason} if isinstance(estimator, NuSVC) else {}


@pytest.mark.filterwarnings("ignore:nu=0.2 is too small for the classes")
@parametrize_with_checks(CHECKED, expected_failed_checks=may_fail)
def test_sklearn_contract(estimator, check):
    check(estimator)
