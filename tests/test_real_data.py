"""Slow: real data beside the repository, against LIBSVM; skipped where there are none."""

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp
from libsvm.svmutil import svm_parameter, svm_problem, svm_train

from maxmargin import certify, kernels, problems
from maxmargin.solvers import SMO, solve

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def load(shared):
    spec = importlib.util.spec_from_file_location("load", shared / "data" / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load


def libsvm_beta(X, y, C, gamma, tol):
    X = sp.csr_matrix(X)
    model = svm_train(
        svm_problem(y, X), svm_parameter(f"-s 0 -t 2 -c {C} -g {gamma} -e {tol} -q -m 2000")
    )
    beta = np.zeros(len(y))
    coef = np.array([c[0] for c in model.get_sv_coef()])
    beta[np.array(model.get_sv_indices()) - 1] = coef if model.get_labels()[0] == 1 else -coef
    return beta


SETS = ["heart", "diabetes", "german.numer", "fourclass", "splice", "svmguide1", "reuters"]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_at_least_as_good_as_libsvm(load, name, C, tol):
    X, y, *_ = load(name, scale=True)
    y = np.where(y > 0, 1.0, -1.0)
    gamma = 1.0 / X.shape[1] if name != "reuters" else 1.0
    problem = problems.soft_margin(kernels.RBF(gamma=gamma).gram(X), y, C=C)
    theirs = certify(problem, libsvm_beta(X, y, C, gamma, tol))
    ours = solve(problem, tol=tol).certificate
    assert ours.status == "optimal"
    assert ours.kkt_violation <= tol
    if tol == 1e-6:
        assert ours.dual >= theirs.dual - 1e-6 * abs(theirs.dual)
    assert ours.relative_gap <= max(theirs.relative_gap, 1e-3)


@pytest.mark.parametrize("name", ["a9a", "ijcnn1", "cod-rna"])
def test_large_sets_are_certified_in_a_small_cache(load, name):
    X, y, *_ = load(name)
    X, y = X[:20000], np.where(y[:20000] > 0, 1.0, -1.0)
    problem = problems.soft_margin(kernels.RBF(gamma=0.05).gram(X), y, C=1.0)
    solution = solve(problem, SMO(cache_size=50))
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("name", ["heart", "diabetes", "german.numer", "svmguide1"])
@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.RBF()], ids=repr)
def test_raw_features_give_the_honest_gap_in_time(load, name, kernel):
    X, y, *_ = load(name)
    y = np.where(y > 0, 1.0, -1.0)
    problem = problems.soft_margin(kernel.gram(X), y, C=1000.0)
    solution = solve(problem, gap_tol=1e-6, max_time=5.0)
    assert solution.status in ("optimal", "time_limit", "precision_limit")
    assert solution.seconds < 7
    assert certify(problem, solution.beta).gap == solution.certificate.gap
