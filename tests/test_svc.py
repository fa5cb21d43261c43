"""The binary SVC: scikit-learn's contract, honesty under limits, bad input, determinism."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC

TIGHT = 1e-10  # the sample-weight checks compare decision values at 1e-7


@parametrize_with_checks([SVC(tol=TIGHT), SVC(kernel="precomputed", tol=TIGHT)])
def test_sklearn_contract(estimator, check):
    check(estimator)
