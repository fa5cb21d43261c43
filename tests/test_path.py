"""Solutions along C against solutions from nothing."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from maxmargin import SVC, breakpoints, certify, kernels, problems, svc_path
from maxmargin.solvers import SMO, solve


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


@pytest.mark.parametrize("exact", [False, True])
def test_ctrl_c_ends_the_whole_path(monkeypatch, exact):
    X, y = load_breast_cancer(return_X_y=True)
    step, calls = SMO.step, []

    def pressed(self, *given):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return step(self, *given)

    monkeypatch.setattr(SMO, "step", pressed)
    with pytest.raises(KeyboardInterrupt):
        svc_path(scale(X)[:60], y[:60], gamma=0.05, exact=exact)
    assert len(calls) == 1


def test_the_kernel_may_follow_the_labels():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:60], y[:60]
    path, other = (svc_path(X, y, k, gamma=0.05, Cs=[1.0]) for k in ("rbf", kernels.RBF(0.05)))
    np.testing.assert_array_equal(path.beta, other.beta)


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


def cancer(n):
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:n], y[:n]


def doubled():
    """Samples twice, some of them in both classes."""
    X, y = cancer(40)
    return np.vstack([X, X[:10], X[:5]]), np.concatenate([y, y[:10], 1 - y[:5]])


def even():
    """As many of each class: at a small C nobody is on the margin."""
    X, y = cancer(200)
    own = np.concatenate([np.flatnonzero(y == 0)[:25], np.flatnonzero(y == 1)[:25]])
    return X[own], y[own]


PATHS = {
    "plain": (*cancer(80), {}),
    "weighted": (*cancer(60), {"sample_weight": np.random.default_rng(0).uniform(0.2, 3.0, 60)}),
    "some without weight": (*cancer(60), {"sample_weight": np.arange(60) % 3}),
    "doubled": (*doubled(), {}),
    "even": (*even(), {}),
    "narrow": (*cancer(50), {"gamma": 5.0}),
    "laplacian": (*cancer(50), {"kernel": kernels.Laplacian(gamma=0.05)}),
}


@pytest.mark.parametrize("name", PATHS)
def test_exact_path(name):
    X, y, given = PATHS[name]
    kernel = given.get("kernel", kernels.RBF(gamma=given.get("gamma", 0.05)))
    weight = given.get("sample_weight")
    path = svc_path(X, y, kernel=kernel, sample_weight=weight, Cs=[0.01, 300.0], exact=True)
    assert path.exact
    assert path.Cs[0] == 0.01
    assert path.Cs[-1] == 300.0
    assert (np.diff(path.Cs) > 0).all()
    gram, signs = kernel.gram(X), np.where(y == 1, 1.0, -1.0)
    for proof in path.certificates:
        assert proof.status == "optimal"
        assert proof.relative_gap <= 1e-8
        assert proof.kkt_violation <= 1e-6
    between = np.sqrt(path.Cs[1:] * path.Cs[:-1])
    for C in between[:: max(1, len(between) // 25)]:
        problem = problems.soft_margin(gram, signs, C=C, sample_weight=weight)
        beta, b = path.at(C)
        proof = certify(problem, beta)
        assert proof.distance <= 1e-9
        assert proof.relative_gap <= 1e-8
        found = solve(problem, tol=1e-9)
        assert proof.dual == pytest.approx(found.certificate.dual, rel=1e-8)
        decisions = gram.matvec(problem.by_row(beta)) + b
        expected = gram.matvec(problem.by_row(found.beta)) + found.parameters["b"]
        off = decisions - expected
        np.testing.assert_allclose(off, off[0], atol=1e-4)


def test_a_breakpoint_is_where_a_sample_changes_its_place():
    X, y = cancer(60)
    path = svc_path(X, y, gamma=0.05, Cs=[0.01, 300.0], exact=True)

    def places(C):
        alpha = np.abs(path.at(C)[0])
        return np.where(alpha < 1e-9 * C, 0, np.where(alpha > (1 - 1e-9) * C, 2, 1))

    middles = [places(0.5 * (a + b)) for a, b in itertools.pairwise(path.Cs)]
    assert len(middles) > 30
    assert all((a != b).any() for a, b in itertools.pairwise(middles))


def test_when_a_path_is_exact():
    X, y = cancer(50)
    assert svc_path(X, y, gamma=0.05).exact
    assert not svc_path(X, y, gamma=0.05, Cs=[1.0, 2.0]).exact
    assert not svc_path(X, y, gamma=0.05, exact=False).exact
    assert not svc_path(X, y, kernel="linear").exact
    with pytest.raises(ValueError, match="not positive definite"):
        svc_path(X, y, kernel="linear", exact=True)
    path = svc_path(X, y, gamma=0.05, Cs=[1.0, 2.0])
    np.testing.assert_array_equal(path.at(2.0)[0], path.beta[1])
    with pytest.raises(ValueError, match="none of the C"):
        path.at(1.5)
    with pytest.raises(ValueError, match="is not on"):
        path.at(3.0)


def test_an_indefinite_gram_has_no_exact_path():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="not positive definite"):
        svc_path(K, [1, 1, 0], kernel="precomputed", exact=True)
    assert not svc_path(K, [1, 1, 0], kernel="precomputed").exact


def test_a_path_of_one_C():
    path = svc_path([[0.0], [1.0]], [0, 1], gamma=1.0, Cs=[0.5], exact=True)
    np.testing.assert_array_equal(path.Cs, [0.5])
    np.testing.assert_allclose(path.at(0.5)[0], [-0.5, 0.5])


@pytest.mark.parametrize("most", [1e6, 1e10])
def test_rounding_times_a_large_C_ends_no_path(most):
    """The gap grows with C even where b and the margin are right to the last digit."""
    X, y = cancer(80)
    path = svc_path(X, y, gamma=0.05, Cs=[1.0, most], exact=True)
    assert path.Cs[-1] == most
    assert max(c.kkt_violation for c in path.certificates) < 1e-12
    with pytest.raises(ValueError, match="ask for a narrower range"):
        svc_path(X, y, gamma=0.05, Cs=[1e-10, 1.0], exact=True)


def test_what_cannot_be_followed_is_told(monkeypatch):
    X, y = cancer(50)
    monkeypatch.setattr(breakpoints, "_WAITS", -1)
    assert not svc_path(X, y, gamma=0.05).exact
    with pytest.raises(ValueError, match="keep changing"):
        svc_path(X, y, gamma=0.05, exact=True)


def test_samples_that_coincide_with_a_follower_alone():
    X = np.array([0, 2e-7, 4e-7, 6e-7, 1, 1 + 2e-7, 1 + 4e-7, 3])[:, None]
    y = [0, 0, 0, 0, 1, 1, 1, 1]
    path = svc_path(X, y)
    assert max(c.relative_gap for c in path.certificates) < 1e-3
    with pytest.raises(ValueError, match="not positive definite"):
        svc_path(X, y, exact=True)
