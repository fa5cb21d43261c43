"""Pegasos: the primal it promises, its two forms, weights, records, refusals."""

import signal

import numpy as np
import oracles
import pytest

from maxmargin import certify, kernels, problems
from maxmargin.solvers import solve, steps
from maxmargin.solvers.pegasos import Pegasos

SEEDS = range(5)


def blobs(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.4 + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def soft_margin(kernel, n=30, **given):
    X, y = blobs(n)
    return problems.soft_margin(kernel.gram(X), y, bias=False, **given)


def explicit_primal(problem, beta):
    """N0 eq. (62) without b, row by row."""
    K = problem.gram.rows(np.arange(problem.gram.n))
    f = K @ beta
    hinge = sum(c * max(0.0, 1 - y * v) for c, y, v in zip(problem.C, problem.y, f, strict=True))
    return problem.scale * (beta @ f / 2 + hinge)


def mean_primal(problem, **given):
    found = [solve(problem, Pegasos(random_state=seed, **given)) for seed in SEEDS]
    return np.mean([s.counters["primal"] for s in found])


def optimum(problem):
    best = certify(problem, oracles.solve(problem))
    assert best.relative_gap < 1e-6
    return best.primal


# ---- the primal it promises -------------------------------------------------------------------

NO_BIAS = [kernels.Linear(), kernels.RBF(gamma=0.5), kernels.Polynomial(2, gamma=0.5)]
BIAS_AS_FEATURE = [
    kernels.Polynomial(1, coef0=1.0),  # Linear + 1
    kernels.RBF(gamma=0.5) + kernels.Polynomial(0),
]


@pytest.mark.parametrize("C", [0.03, 1.0])
@pytest.mark.parametrize("kernel", NO_BIAS + BIAS_AS_FEATURE, ids=repr)
def test_mean_of_five_seeds_is_within_a_hundredth_of_the_oracle(kernel, C):
    problem = soft_margin(kernel, C=C)
    best = optimum(problem)
    assert best * (1 - 1e-9) <= mean_primal(problem) <= best * 1.01


def test_random_problems():
    """Weights with zeros, low rank, duplicate rows; C as far as 300 nC steps are quickly done."""
    rng, tried = np.random.default_rng(0), 0
    while tried < 12:
        problem = oracles.random_problem("soft_margin without bias", rng)
        if problem.C.sum() * problem.gram.diag.max() > 60:
            continue
        tried += 1
        best = optimum(problem)
        assert best * (1 - 1e-9) <= mean_primal(problem) <= best * 1.01


@pytest.mark.parametrize("given", [{"average": False}, {"batch": 4}, {"n_steps": 30_000}], ids=str)
def test_other_settings_get_there_too(given):
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    assert mean_primal(problem, **given) <= 1.01 * optimum(problem)


@pytest.mark.parametrize("scaling", ["mean", "doubled"])
def test_scalings(scaling):
    problem = soft_margin(kernels.RBF(gamma=0.5), C=2.0, scaling=scaling)
    assert mean_primal(problem) <= 1.01 * optimum(problem)


def test_a_constant_feature_is_a_bias_in_the_norm():
    X, y = blobs(30)
    kernel = kernels.RBF(gamma=0.5)
    K = kernel(X) + 1.0
    one = problems.soft_margin((kernel + kernels.Polynomial(0)).gram(X), y, bias=False)
    two = problems.soft_margin(oracles.MatrixGram(K), y, bias=False)
    np.testing.assert_allclose(optimum(one), optimum(two), rtol=1e-7)
    linear = kernels.Linear() + kernels.Polynomial(0)
    np.testing.assert_allclose(linear(X), kernels.Polynomial(1, coef0=1.0)(X), rtol=1e-12)


def test_the_steps_needed_grow_with_n_C_and_the_scale_of_K():
    def n_steps(kernel, **given):
        return Pegasos().init(soft_margin(kernel, **given), tol=1e-3, beta=None).n_steps

    base = n_steps(kernels.RBF(gamma=0.5), C=1.0)
    assert base == pytest.approx(300 * 30, abs=1)
    assert n_steps(kernels.RBF(gamma=0.5), C=7.0) == pytest.approx(7 * base, rel=1e-3)
    assert n_steps(kernels.RBF(gamma=0.5), n=60, C=1.0) == pytest.approx(2 * base, rel=1e-3)
    assert n_steps(4.0 * kernels.RBF(gamma=0.5), C=0.25) == pytest.approx(base, abs=1)


# ---- the algorithm ----------------------------------------------------------------------------


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch", [1, 3])
def test_counts_are_the_same_thing_as_w(average, batch):
    """Replay the draws with an explicit w: Shalev-Shwartz et al. 2011, Fig. 1 and 2."""
    X, y = blobs(20)
    problem = problems.soft_margin(kernels.Linear().gram(X), y, C=0.5, bias=False)
    solver = Pegasos(n_steps=200, average=average, batch=batch, record_steps=True)
    solution = solve(problem, solver)
    drawn = np.array([step.i for step in solution.steps]).reshape(200, batch)
    lam, w, total = 1 / (20 * 0.5), np.zeros(2), np.zeros(2)
    for t, A in enumerate(drawn, start=1):
        inside = A[y[A] * (X[A] @ w) < 1]
        w = (1 - 1 / t) * w + (y[inside] @ X[inside]) / (lam * t * batch)
        total += t * w
    expected = total / (200 * 201 / 2) if average else w
    np.testing.assert_allclose(X.T @ solution.beta, expected, rtol=1e-9)


def test_primal_is_that_of_its_own_w_and_the_certificate_that_of_the_box():
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    solution = solve(problem, Pegasos(n_steps=500))
    primal = explicit_primal(problem, solution.beta)
    assert solution.counters["primal"] == pytest.approx(primal, rel=1e-12)
    inside = problem.project(solution.beta)
    assert solution.certificate.distance == pytest.approx(np.linalg.norm(inside - solution.beta))
    assert solution.certificate.distance > 0
    assert solution.certificate.primal == pytest.approx(explicit_primal(problem, inside))
    assert solution.status == "iteration_limit"


def test_optimal_only_if_the_certificate_says_so():
    K = np.eye(1)  # one sample: β = min(C, 1 / K), reached at the first step
    problem = problems.soft_margin(oracles.MatrixGram(K), [1.0], C=0.5, bias=False)
    assert solve(problem, Pegasos(n_steps=10)).status == "optimal"
    problem = soft_margin(kernels.Linear(), C=1.0)
    assert solve(problem, Pegasos(n_steps=100)).status == "iteration_limit"
    assert solve(problem, Pegasos(n_steps=100), tol=1e3).status == "optimal"
    assert solve(problem, Pegasos(n_steps=100), tol=1e3, gap_tol=1e-9).status == "iteration_limit"


def test_a_start_is_forgotten_with_the_first_step():
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    start = 0.5 * problem.u + 0.5 * problem.l
    assert (solve(problem, Pegasos(), beta=start, max_iter=0).beta == start).all()
    far = solve(problem, Pegasos(), beta=1e-3 * start)  # all margins below 1, as at w = 0
    assert (far.beta == solve(problem, Pegasos()).beta).all()


# ---- weights ----------------------------------------------------------------------------------


def test_weights_are_repetition():
    X, y = blobs(20)
    w = np.tile([1, 2, 0, 3], 5)
    kernel = kernels.RBF(gamma=0.5)
    weighted = problems.soft_margin(kernel.gram(X), y, C=0.5, sample_weight=w, bias=False)
    X, y = np.repeat(X, w, axis=0), np.repeat(y, w)
    repeated = problems.soft_margin(kernel.gram(X), y, C=0.5, bias=False)
    best = optimum(repeated)
    np.testing.assert_allclose(optimum(weighted), best, rtol=1e-7)
    for problem in (weighted, repeated):
        assert best * (1 - 1e-9) <= mean_primal(problem) <= best * 1.01


def test_draws_follow_the_weights_and_never_meet_a_zero():
    w = np.tile([1.0, 2.0, 0.0, 3.0, 0.0], 4)
    problem = soft_margin(kernels.RBF(gamma=0.5), n=20, sample_weight=w)
    solution = solve(problem, Pegasos(n_steps=6000, record_steps=True))
    drawn = np.bincount([step.i for step in solution.steps], minlength=20)
    assert (drawn[w == 0] == 0).all()
    assert (solution.beta[w == 0] == 0).all()
    np.testing.assert_allclose(drawn / 6000, w / w.sum(), atol=0.02)


# ---- reproducible, in chunks, on record -------------------------------------------------------


def test_a_seed_gives_its_bits():
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    one, two, other = (solve(problem, Pegasos(random_state=seed)).beta for seed in (3, 3, 4))
    assert (one == two).all()
    assert (one != other).any()


@pytest.mark.parametrize("batch", [1, 5])
def test_chunks_do_not_change_a_bit(batch):
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    whole = solve(problem, Pegasos(n_steps=1500, batch=batch))
    for every in (3, 1024):
        parts = solve(problem, Pegasos(n_steps=1500, batch=batch, record_every=every))
        assert (parts.beta == whole.beta).all()
    watched = solve(problem, Pegasos(n_steps=1500, batch=batch, record_steps=True))
    assert (watched.beta == whole.beta).all()


def test_rows_of_a_large_gram_are_read_one_by_one():
    X, y = blobs(2100)
    problem = problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, bias=False)
    whole = solve(problem, Pegasos(n_steps=60))
    assert (solve(problem, Pegasos(n_steps=60, record_every=11)).beta == whole.beta).all()
    assert whole.counters["primal"] == pytest.approx(explicit_primal(problem, whole.beta))


def test_history_is_certified_and_comes_down():
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    solution = solve(problem, Pegasos(record_every=1000))
    history, best = solution.history, optimum(problem)
    assert history.iteration.tolist() == [*range(0, 9001, 1000), 9001]
    assert (history.primal >= best * (1 - 1e-9)).all()
    assert (history.dual <= best * (1 + 1e-9)).all()
    assert history.primal[-1] < history.primal[1] < history.primal[0]


def test_the_curve_of_its_own_primal():
    problem, solver = soft_margin(kernels.RBF(gamma=0.5), C=1.0), Pegasos()
    state = solver.init(problem, tol=1e-3, beta=None)
    curve = [state.primal]
    while solver.done(state) is None:
        solver.step(state, 1000)
        curve.append(state.primal)
    assert curve[0] == pytest.approx(30.0)  # w = 0: every slack is 1
    assert curve[-1] == solve(problem, solver).counters["primal"]
    assert curve[-1] < curve[1] < curve[0]
    assert state.relative_gap == certify(problem, state.beta).relative_gap


def test_limits_and_interruption():
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    assert solve(problem, Pegasos(), max_iter=50).n_iter == 50
    assert solve(problem, Pegasos(), max_time=0.0).status == "time_limit"
    seen = []
    solution = solve(
        problem, Pegasos(record_every=50), callback=lambda p: seen.append(p) or len(seen) == 3
    )
    assert solution.status == "interrupted"
    assert [p.iteration for p in seen] == [50, 100, 150]
    assert all(p.kkt_violation > 0 and p.relative_gap > 0 for p in seen)

    def press(progress):
        signal.raise_signal(signal.SIGINT)

    solution = solve(problem, Pegasos(record_every=50), callback=press)
    assert (solution.status, solution.n_iter) == ("interrupted", 50)
    assert np.isfinite(solution.certificate.gap)


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_tell_the_whole_story(batch):
    problem = soft_margin(kernels.RBF(gamma=0.5), C=1.0)
    solver = Pegasos(n_steps=40, average=False, batch=batch, record_steps=True)
    solution = solve(problem, solver)
    assert [s.iteration for s in solution.steps] == np.repeat(np.arange(1, 41), batch).tolist()
    beta = solution.beta
    dual = problem.s @ beta - beta @ problem.gram.matvec(beta) / 2  # at β itself
    np.testing.assert_allclose(sum(s.change for s in solution.steps), dual, rtol=1e-9)
    for step in solution.steps:
        y = problem.y[step.i]
        margin = y * step.E_i + 1  # E = f − y
        assert ("added" in step.why) == (margin < 1)
        assert step.alpha_i >= 0
        if margin >= 1 and batch == 1:
            shrunk = (1 - 1 / step.iteration) * step.alpha_i
            np.testing.assert_allclose(step.alpha_i_new, shrunk, rtol=1e-12)
    assert list(steps(problem, solver)) == solution.steps


# ---- edges and refusals -----------------------------------------------------------------------


def test_edges():
    gram = oracles.MatrixGram(np.zeros((3, 3)))
    solution = solve(problems.soft_margin(gram, [1, -1, 1], C=2.0, bias=False), Pegasos())
    assert solution.counters["primal"] == 6.0  # w = 0 is all there is
    K = np.diag([0.0, 1.0])  # a zero row among others
    problem = problems.soft_margin(oracles.MatrixGram(K), [1, 1], C=1.0, bias=False)
    assert solve(problem, Pegasos()).counters["primal"] == pytest.approx(1.5, rel=1e-2)
    one_class = problems.soft_margin(kernels.Linear().gram([[1.0], [2.0]]), [1, 1], bias=False)
    assert mean_primal(one_class) <= 1.01 * optimum(one_class)


GRAM = oracles.MatrixGram(np.eye(3))
Y = [1.0, -1.0, 1.0]
REFUSED = [
    (problems.soft_margin(GRAM, Y), "Pegasos has no bias: .* got soft_margin with one group"),
    (problems.svr(GRAM, Y, bias=False), "Pegasos is for soft_margin; got svr"),
    (problems.squared_hinge(GRAM, Y, bias=False), "got squared_hinge"),
    (problems.hard_margin(GRAM, Y), "got hard_margin"),
    (problems.soft_margin(GRAM, Y, C=np.inf, bias=False), "finite C"),
]


@pytest.mark.parametrize(("problem", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_refusals_come_before_work(problem, message):
    before = problem.gram.touched
    with pytest.raises(ValueError, match=message):
        solve(problem, Pegasos())
    assert problem.gram.touched == before


@pytest.mark.parametrize("setting", [{"n_steps": 0}, {"batch": 0}], ids=str)
def test_bad_settings(setting):
    problem = problems.soft_margin(GRAM, Y, bias=False)
    with pytest.raises(ValueError, match=next(iter(setting))):
        solve(problem, Pegasos(**setting))
