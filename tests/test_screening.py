"""The sums that end a solve: kept through shrinking, float64 where it counts, nothing on trust."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin import certify, datasets, kernels, problems
from maxmargin.screening import products
from maxmargin.solvers import SMO, solve


def chessboard(n, *, kind="soft", gamma=4.0, C=10.0):
    X, y = datasets.chessboard(n, noise=0.05, random_state=0)
    gram, y = kernels.RBF(gamma=gamma).gram(X), np.where(y == 1, 1.0, -1.0)
    if kind == "soft":
        return problems.soft_margin(gram, y, C=C)
    if kind == "nu":
        return problems.nu_svc(gram, y, nu=0.3)
    return problems.svr(gram, np.sin(3 * X[:, 0]) + 0.1 * y, C=C, epsilon=0.05)


def go(state, steps):
    """So many steps, however many chunks the clock makes of them."""
    end = state.iteration + steps
    while state.status is None and state.iteration < end:
        state.solver.step(state, end - state.iteration)


def advanced(problem, *, beta=None, until=None, **settings):
    """A state of SMO some steps later, and the same with the rows set aside brought up to date."""
    solver = SMO(n_threads=2, **settings)
    state = solver.init(problem, tol=1e-3, beta=beta)
    for _ in range(200):
        if state.status is not None or (until is not None and until(state)):
            break
        go(state, 400)
    while not state.core.catch_up(0.0, 1):
        pass
    return state


@pytest.mark.parametrize("kind", ["soft", "nu", "svr"])
@pytest.mark.parametrize("n", [700, 3000])  # whole Grams at once, and rounds
def test_what_the_core_sums_up_is_the_product(kind, n):
    problem = chessboard(n, kind=kind)
    state = advanced(problem, until=lambda state: state.core.active < 0.9 * n)
    beta = problem.by_row(state.core.beta)
    bound = problem.gram.coarse_error(beta)
    assert np.abs(state.core.kbeta() - problem.gram.matvec(beta)).max() <= bound
    assert bound < 0.1 * np.abs(problem.gram.matvec(beta)).max()


def test_rows_set_aside_catch_up():
    problem = chessboard(3000)
    state = advanced(problem, until=lambda state: state.core.active < 1500)
    assert state.core.active < 1500, "nothing was set aside: this test shows nothing"
    before = state.iteration
    go(state, 2000)
    assert state.iteration > before
    test = problem.gram.matvec(state.core.beta)
    while not state.core.catch_up(0.0, 2):  # no time: one block after the other
        pass
    assert np.abs(state.core.kbeta() - test).max() <= problem.gram.coarse_error(state.core.beta)


@pytest.mark.parametrize("kind", ["soft", "nu", "svr"])
def test_shrinking_changes_nothing(kind):
    problem = chessboard(2500, kind=kind)
    found = [solve(problem, SMO(shrinking=s), tol=1e-4) for s in (True, False)]
    assert [s.status.value for s in found] == ["optimal", "optimal"]
    assert found[0].certificate.dual == pytest.approx(found[1].certificate.dual, rel=1e-5)


def test_a_start_is_summed_up_from_rows():
    problem = chessboard(3000)
    start = solve(problem, max_iter=2000).beta
    state = SMO(n_threads=2).init(problem, tol=1e-3, beta=start)
    assert not state.core.current  # nothing is summed up before the first step
    while not state.core.current:  # a chunk ends by the clock
        SMO().step(state, 1)
    moved = problem.by_row(state.core.beta)
    error = problem.gram.coarse_error(moved)
    assert np.abs(state.core.kbeta() - problem.gram.matvec(moved)).max() <= error
    assert solve(problem, beta=start).status == "optimal"


def test_sums_that_are_wrong_are_found_out():
    problem = chessboard(1500)
    solution = solve(problem)
    exact = problem.gram.matvec(solution.beta)
    problem.gram.known = None

    def rough():  # on the right side everywhere, so that nothing looks doubtful
        return exact + np.where(solution.beta == 0, 5.0 * np.sign(exact), 0.0), 1e-6

    values, error = products(problem, solution.beta, tol=1e-3, rough=rough)
    assert np.abs(values - exact).max() < 1e-9
    assert not error.any()


def test_what_is_close_is_computed_in_float64():
    problem = chessboard(1500)
    beta = solve(problem).beta
    exact = problem.gram.matvec(beta)
    problem.gram.known = None
    noise = 1e-4 * np.random.default_rng(0).uniform(-1, 1, len(beta))
    values, error = products(problem, beta, tol=1e-3, rough=lambda: (exact + noise, 1e-4))
    assert np.abs(values - exact)[error == 0].max() < 1e-9
    assert np.abs(values - exact).max() <= 1e-4
    assert (error > 0).any(), "all rows were close: this test shows nothing"
    proof = certify(problem, beta)
    problem.gram.known = None
    afresh = certify(problem, beta)
    assert proof.kkt_violation == pytest.approx(afresh.kkt_violation, abs=1e-9)
    assert proof.dual == pytest.approx(afresh.dual, rel=1e-12)
    assert proof.gap == pytest.approx(afresh.gap, rel=1e-6, abs=1e-9)


def test_rows_without_weight_are_computed_too():
    problem = chessboard(1500)
    gram, y = problem.gram, problem.y
    weight = np.where(np.arange(1500) % 500 == 7, 0.0, 1.0)  # few: a sample would miss them
    beta = solve(problems.soft_margin(gram, y, C=10.0, sample_weight=weight)).beta
    proof = certify(problem, beta)  # on the same Gram, which knows K beta
    gram.known = None
    afresh = certify(problem, beta)
    assert proof.kkt_violation == pytest.approx(afresh.kkt_violation, abs=1e-9)
    assert proof.gap == pytest.approx(afresh.gap, rel=1e-9)


def test_progress_does_not_change_the_answer():
    problem = chessboard(3000, kind="nu")
    seen = []
    watched = solve(problem, callback=lambda progress: seen.append(progress.relative_gap))
    assert seen
    assert np.array_equal(watched.beta, solve(problem).beta)


def test_interrupted_catching_up_gives_the_same_bits():
    found = []
    for seconds in (0.0, 100.0):
        state = advanced(chessboard(3000), until=lambda state: state.core.active < 1500)
        go(state, 2000)
        while not state.core.catch_up(seconds, 2):
            pass
        found.append(state.core.kbeta())
    assert np.array_equal(*found)


def test_a_small_sparse_gram_is_the_same_with_any_number_of_threads():
    X, y = datasets.chessboard(700, random_state=0)
    wide = sparse.csr_array(np.where(np.abs(np.tile(X, 20)) > 0.3, np.tile(X, 20), 0.0))
    kernel = kernels.RBF(gamma=0.05) + kernels.Laplacian(gamma=0.05)
    problem = problems.soft_margin(kernel.gram(wide), np.where(y == 1, 1.0, -1.0))
    found = [solve(problem, SMO(n_threads=t)).beta for t in (1, 2, 4)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_alpha_is_a_copy():
    X = np.random.default_rng(0).normal(size=(50, 2))
    solution = solve(problems.one_class(kernels.RBF(gamma=1.0).gram(X), nu=0.5))
    alpha = solution.alpha
    alpha[:] = 0
    assert solution.beta.any()


@pytest.mark.parametrize("n", [600, 2500])
def test_the_same_bits_with_any_number_of_threads(n):
    found = [solve(chessboard(n, kind="nu"), SMO(n_threads=t)).beta for t in (1, 2, 5)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_counters_tell_where_time_goes():
    counters = solve(chessboard(2500)).counters
    assert counters["pair_steps"] > 0
    assert counters["rows_computed"] > 0
    assert counters["rows_cached"] > 0
    for what in ("kernel", "solve", "update"):
        assert counters[f"seconds_{what}"] >= 0


@pytest.mark.parametrize("cache_size", [0.1, 1.0, 10.0])
def test_a_small_cache_costs_time_only(cache_size):
    problem = chessboard(2500, C=1.0)
    small, large = (solve(problem, SMO(cache_size=size)) for size in (cache_size, 500.0))
    assert small.status == "optimal"
    assert small.certificate.dual == pytest.approx(large.certificate.dual, rel=1e-5)
