"""Solutions along C against solutions from nothing."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from maxmargin import SVC, svc_path


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_solution_is_proven(kernel, weighted):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:150], y[:150]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 150) if weighted else None
    path = svc_path(
        X, y, kernel=kernel, gamma=0.05, Cs=[10, 0.1, 1], sample_weight=weight, tol=1e-8
    )
    np.testing.assert_array_equal(path.Cs, [0.1, 1, 10])
    for k, C in enumerate(path.Cs):
        assert path.certificates[k].status == "optimal"
        model = SVC(C=C, kernel=kernel, gamma=0.05, tol=1e-8).fit(X, y, sample_weight=weight)
        dual = model.certificate_.dual
        assert path.certificates[k].dual == pytest.approx(dual, rel=1e-7)
        assert path.n_support[k] == np.count_nonzero(path.beta[k])
        assert 0 <= path.n_bound[k] <= path.n_support[k]
    assert "Path(3 C from 0.1 to 10" in repr(path)


def test_bound_of_the_leave_one_out_error():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:60], y[:60]
    path = svc_path(X, y, gamma=0.05, Cs=[1.0], tol=1e-8)
    wrong = 0
    for i in range(60):
        rest = np.arange(60) != i
        model = SVC(C=1.0, gamma=0.05, tol=1e-8).fit(X[rest], y[rest])
        wrong += int(model.predict(X[[i]])[0] != y[i])
    assert wrong / 60 <= path.xi_alpha[0]


def test_bad_input():
    with pytest.raises(ValueError, match="two classes"):
        svc_path([[0.0], [1.0], [2.0]], [0, 1, 2])
    with pytest.raises(ValueError, match="positive finite"):
        svc_path([[0.0], [1.0]], [0, 1], Cs=[0.0, 1.0])
