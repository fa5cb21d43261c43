"""Folds over one Gram against folds solved from nothing, for every formulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import datasets, folds, kernels, problems
from maxmargin.solvers import SMO, solve


def data(n=160, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def makers(y):
    z = y + 0.1 * np.arange(len(y))
    weight = 0.5 + np.arange(len(y)) % 3
    return {
        "soft_margin": lambda g, r: problems.soft_margin(g, y[r], C=3.0),
        "weighted": lambda g, r: problems.soft_margin(g, y[r], C=3.0, sample_weight=weight[r]),
        "squared_hinge": lambda g, r: problems.squared_hinge(g, y[r], C=2.0),
        "no_bias": lambda g, r: problems.soft_margin(g, y[r], C=3.0, bias=False),
        "nu_svc": lambda g, r: problems.nu_svc(g, y[r], nu=0.4),
        "svr": lambda g, r: problems.svr(g, z[r], C=2.0, epsilon=0.2),
        "nu_svr": lambda g, r: problems.nu_svr(g, z[r], C=2.0, nu=0.3),
        "one_class": lambda g, r: problems.one_class(g, nu=0.3),
    }


def by_hand(gram, make, fold, tol):
    """Every fold from nothing, on its own rows."""
    scores = np.empty(gram.n)
    for f in range(fold.max() + 1):
        train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        found = solve(make(gram.subset(train), train), tol=tol)
        assert found.status == "optimal"
        p = found.parameters
        sums = gram.tile(test, train) @ found.problem.by_row(found.beta)
        scores[test] = (sums + p.get("b", -p.get("rho", 0.0))) / p.get("eta", 1.0)
    return scores


@pytest.mark.parametrize("name", sorted(makers(np.ones(1))))
@pytest.mark.parametrize("stored", [False, True])
def test_equal_to_folds_from_nothing(name, stored):
    X, y = data()
    gram = kernels.RBF(gamma=0.5).gram(X)
    gram = gram.stored() if stored else gram
    make, fold = makers(y)[name], folds.stratified(y)
    whole = solve(make(gram, np.arange(len(y))), tol=1e-7)
    found = folds.out_of_fold(whole, fold, tol=1e-7)
    expected = by_hand(gram, make, fold, 1e-7)
    # The bias of a fold may be any of an interval; the differences within it may not.
    for f in range(fold.max() + 1):
        off = (found - expected)[fold == f]
        np.testing.assert_allclose(off, off[0], atol=2e-5)
        assert abs(off[0]) < 2e-2


@pytest.mark.parametrize("name", sorted(makers(np.ones(1))))
def test_what_stays_at_its_bound_is_left_out(monkeypatch, name):
    """The same folds from the samples near the margin alone, for every formulation."""
    X, y = data(300)
    gram, fold = kernels.RBF(gamma=0.5).gram(X), folds.stratified(y)
    whole = solve(makers(y)[name](gram, np.arange(len(y))), tol=1e-7)
    expected = folds.out_of_fold(whole, fold, tol=1e-7)
    monkeypatch.setattr(folds, "_SMALL", 0)
    monkeypatch.setattr(folds, "_TINY", 0)
    found = folds.out_of_fold(whole, fold, tol=1e-7)
    for f in range(fold.max() + 1):
        off = (found - expected)[fold == f]
        np.testing.assert_allclose(off, off[0], atol=1e-5)
        assert abs(off[0]) < 2e-2


@pytest.mark.parametrize("C", [1e-6, 1e-2])
def test_no_sample_need_be_near_the_margin(monkeypatch, C):
    """At a tiny C every sample is at its bound, far inside the margin."""
    X, y = data(300)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=C)
    whole, fold = solve(problem, tol=1e-6), folds.stratified(y)
    expected = folds.out_of_fold(whole, fold, tol=1e-6)
    monkeypatch.setattr(folds, "_SMALL", 0)
    found = folds.out_of_fold(whole, fold, tol=1e-6)
    for f in range(fold.max() + 1):
        off = (found - expected)[fold == f]
        np.testing.assert_allclose(off, off[0], atol=1e-5)


@pytest.mark.parametrize("near", [-1.0, 0.05, 0.3])
def test_part_of_the_rows_is_enough(monkeypatch, near):
    """Rows beyond the support vectors come in as they are needed."""
    X, y = data(400)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=10.0)
    whole, fold = solve(problem, tol=1e-6), folds.stratified(y)
    expected = folds.out_of_fold(whole, fold, tol=1e-6)
    monkeypatch.setattr(folds, "_SMALL", 0)
    monkeypatch.setattr(folds, "_NEAR", near)
    np.testing.assert_allclose(folds.out_of_fold(whole, fold, tol=1e-6), expected, atol=1e-4)


def test_small_cache_solves_one_by_one(monkeypatch):
    X, y = data(300)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=10.0)
    whole, fold = solve(problem, tol=1e-6), folds.stratified(y)
    expected = folds.out_of_fold(whole, fold, tol=1e-6)
    monkeypatch.setattr(folds, "_SMALL", 0)
    found = folds.out_of_fold(whole, fold, tol=1e-6, solver=SMO(cache_size=0.1))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_hard_folds_are_solved_in_full():
    """Pair steps give up on a chessboard at a large C; Newton's method does not."""
    X, y = datasets.chessboard(200, random_state=0)
    gram = kernels.RBF(gamma=50.0).gram(X)
    signs = 1.0 * y
    make = lambda g, r: problems.soft_margin(g, signs[r], C=1e5)  # noqa: E731
    fold = folds.stratified(signs)
    found = folds.out_of_fold(solve(make(gram, np.arange(200)), tol=1e-4), fold, tol=1e-4)
    np.testing.assert_allclose(found, by_hand(gram, make, fold, 1e-4), atol=5e-3)


def test_a_small_margin_of_a_nu_machine_is_not_divided_by_blindly():
    """eta is 3e-6: with a violation of 1e-3 nothing of b / eta is known, not even its sign."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0, 1.0, -1.0)
    problem = problems.nu_svc(kernels.RBF(gamma=0.5).gram(X), y, nu=0.1)
    fold = folds.stratified(y)
    rough, exact = (
        folds.out_of_fold(solve(problem, tol=tol), fold, tol=tol) for tol in (1e-3, 1e-9)
    )
    np.testing.assert_array_equal(np.sign(rough), np.sign(exact))


def test_any_number_of_threads_gives_the_same_bits():
    X, y = data(300)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=10.0)
    whole, fold = solve(problem), folds.stratified(y)
    one, two = (
        folds.out_of_fold(whole, fold, tol=1e-3, solver=SMO(n_threads=k)).tobytes() for k in (1, 2)
    )
    assert one == two


def test_a_start_off_balance_is_put_right():
    """What is taken out goes to the free variables, then to those at a bound; Kβ follows."""
    from maxmargin import _core
    from maxmargin.grams import as_rows

    rng = np.random.default_rng(0)
    for seed in range(200):
        X, y = data(17, seed=seed)
        gram = kernels.RBF(gamma=1.0).gram(X).stored()
        problem = problems.soft_margin(gram, y, C=rng.choice([0.3, 1.0]))
        whole = solve(problem, tol=1e-9)
        fold = problem.without(rng.permutation(17)[:4])
        none = np.zeros(1, dtype=np.int64)
        chains = _core.Chains(
            np.array([0, 17]), fold.s, fold.l, fold.u, fold.D, fold.row, fold.group, fold.m[None],
            none, np.array([0, 17]), np.arange(17), none,
        )  # fmt: skip
        family = _core.Family(
            as_rows(gram.matrix), chains, gram.diag, np.ones((1, 3)), whole.beta,
            gram.matvec(whole.beta)[None], none[:0], tol=1e9, steps=1000,
        )  # fmt: skip
        assert family.run(10.0, 1)
        beta = family.beta[:, 0]
        assert (fold.l <= beta).all()
        assert (beta <= fold.u).all()
        assert abs(beta.sum()) < 1e-12
        np.testing.assert_allclose(family.held[0], gram.matvec(beta), atol=1e-12)


def test_stop_is_obeyed():
    X, y = datasets.chessboard(3000, random_state=0)
    problem = problems.soft_margin(kernels.RBF(gamma=30.0).gram(X), 1.0 * y, C=1e6)
    rough = solve(problem, max_iter=2000)
    fold = folds.stratified(y)
    assert folds.out_of_fold(rough, fold, tol=1e-9, stop=lambda: True) is None


def test_ctrl_c_ends_all_folds(monkeypatch):
    X, y = data(300)
    whole = solve(problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=10.0), tol=1e-6)
    calls = []

    def pressed(self, *given):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(folds, "_SMALL", 0)
    monkeypatch.setattr(SMO, "step", pressed)
    with pytest.raises(KeyboardInterrupt):
        folds.out_of_fold(whole, folds.stratified(y), tol=1e-6, solver=SMO(cache_size=0.001))
    assert len(calls) == 1


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(2, 6))
def test_stratified_is_even(labels, most):
    labels = np.array(labels)
    fold = folds.stratified(labels, most)
    counts = np.unique(labels, return_counts=True)[1]
    k = max(2, min(most, counts.min()))
    assert fold.min() >= 0
    assert fold.max() < k
    for label in np.unique(labels):
        sizes = np.bincount(fold[labels == label], minlength=k)
        assert sizes.max() - sizes.min() <= 1


def test_without_is_the_problem_of_the_others():
    X, y = data(60)
    gram = kernels.RBF(gamma=0.5).gram(X)
    out, rest = np.arange(0, 60, 4), np.setdiff1d(np.arange(60), np.arange(0, 60, 4))
    kinds = makers(y) | {"svdd": lambda g, r: problems.svdd(g, nu=0.3)}
    for name, make in kinds.items():
        fold = solve(make(gram, np.arange(60)).without(out), tol=1e-9)
        own = solve(make(gram.subset(rest), rest), tol=1e-9)
        assert not fold.problem.by_row(fold.beta)[out].any()
        assert fold.certificate.dual == pytest.approx(own.certificate.dual, rel=1e-7), name


def test_bad_families_are_refused():
    from maxmargin import _core
    from maxmargin.grams import as_rows

    one, zero = np.ones(2), np.zeros(2, dtype=np.int64)
    laid = {
        "first": np.array([0, 2]),
        "s": np.array([1.0, -1.0]),
        "l": np.array([0.0, -1.0]),
        "u": np.array([1.0, 0.0]),
        "D": 0 * one,
        "row": np.arange(2),
        "group": zero,
        "m": np.zeros((1, 1)),
        "fold": np.array([0]),
        "first_held": np.array([0, 1]),
        "held": np.array([1]),
        "patch": zero[:1],
    }
    good = {
        "square": as_rows(np.eye(2)),
        "chains": _core.Chains(**laid),
        "diagonal": one,
        "members": np.ones((2, 3)),
        "beta": np.zeros(0),
        "kbeta": np.zeros((0, 0)),
        "skip": np.zeros(0, dtype=np.int64),
        "tol": 1e-3,
        "steps": 1000,
    }
    family = _core.Family(**good)
    assert family.run(1.0, 1)
    np.testing.assert_allclose(family.beta.T, [[1.0, -1.0]] * 2)
    np.testing.assert_allclose(family.held, [[-1.0]] * 2)
    askew = {
        "first": np.array([0, 3]),
        "l": np.zeros(3),
        "row": np.array([0, -1]),
        "group": np.array([0, 1]),
        "m": np.zeros((2, 1)),
        "fold": np.array([1]),
        "first_held": np.array([0, 2]),
        "held": np.array([-1]),
        "patch": zero[:1] + 1,
    }
    for name, value in askew.items():
        with pytest.raises(ValueError, match="chains of problems"):
            _core.Chains(**laid | {name: value})
    bad = {
        "square": as_rows(np.ones((2, 3))),
        "chains": _core.Chains(**laid | {"row": np.array([0, 2])}),
        "diagonal": np.ones(3),
        "members": np.ones((2, 2)),
        "beta": np.zeros(3),
        "kbeta": np.zeros((1, 3)),
        "skip": zero[:1],
    }
    for name, value in bad.items():
        with pytest.raises(ValueError, match="square of K"):
            _core.Family(**good | {name: value})
    with pytest.raises(ValueError, match="square of K"):
        _core.Family(**good | {"chains": _core.Chains(**laid | {"held": np.array([2])})})


def test_samples_left_out_of_the_square_cost_no_other_solver(monkeypatch):
    """What they add to Kβ is not taken for rounding, which would have every fold solved again."""
    X, y = data(300)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=1.0)
    whole = solve(problem, tol=1e-6)
    monkeypatch.setattr(folds, "_SMALL", 0)
    monkeypatch.setattr(folds, "_TINY", 0)
    monkeypatch.setattr(folds, "solve", None)
    assert np.isfinite(folds.out_of_fold(whole, folds.stratified(y), tol=1e-3)).all()


def test_without_bias_no_step_leaves_the_bounds():
    """Where all variables are at bounds, none that stands well may be pushed on."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(6, 40))
        X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
        gram = kernels.RBF(gamma=10 ** rng.uniform(-3, 1)).gram(X)
        problem = problems.soft_margin(gram, y, C=10 ** rng.uniform(-3, 0), bias=False)
        fold, expected = np.arange(n) % 3, np.empty(n)
        for f in range(3):
            rows = np.flatnonzero(fold == f)
            part = problem.without(rows)
            expected[rows] = gram.matvec(part.by_row(solve(part, tol=1e-9).beta))[rows]
        found = folds.out_of_fold(solve(problem, tol=1e-6), fold, tol=1e-6)
        np.testing.assert_allclose(found, expected, atol=1e-4)
