"""ADMM on every formulation: oracles, residuals, proofs of infeasibility, edges, the loop."""

import signal
import threading
from dataclasses import dataclass

import numpy as np
import oracles
import pytest
from threadpoolctl import threadpool_limits

from maxmargin import certify, kernels, problems
from maxmargin.certificate import margin_bound, margin_resolution
from maxmargin.solvers import SMO, admm, solve, steps
from maxmargin.solvers.admm import ADMM
from maxmargin.solvers.dense import Ridge, feasible, matrix, polish, ray


def blobs(n, d=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def soft(n=60, C=10.0, kernel=None, **kw):
    X, y = blobs(n, **kw)
    return problems.soft_margin((kernel or kernels.RBF(gamma=1.0)).gram(X), y, C=C)


def formulations(gram, y, z, w):
    given = {"sample_weight": w}
    return {
        "hard": problems.hard_margin(gram, y, **given),
        "soft": problems.soft_margin(gram, y, C=10.0, **given),
        "mean": problems.soft_margin(gram, y, C=100.0, scaling="mean", **given),
        "doubled": problems.soft_margin(gram, y, C=1.0, scaling="doubled", **given),
        "no bias": problems.soft_margin(gram, y, C=10.0, bias=False, **given),
        "squared": problems.squared_hinge(gram, y, C=1.0, **given),
        "nu": problems.nu_svc(gram, y, nu=0.3, **given),
        "svr": problems.svr(gram, z, C=10.0, epsilon=0.1, **given),
        "nu svr": problems.nu_svr(gram, z, C=10.0, nu=0.4, **given),
        "one class": problems.one_class(gram, nu=0.2, **given),
        "svdd": problems.svdd(gram, nu=0.2, **given),
    }


NAMES = list(
    formulations(
        kernels.Linear().gram(np.eye(40)), np.tile([1.0, -1.0], 20), np.ones(40), np.ones(40)
    )
)
KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(2, coef0=1.0),
    kernels.RBF(gamma=0.5),
    kernels.Laplacian(gamma=0.5) + 0.5 * kernels.Linear(),
]


def assert_same_optimum(solution, problem, rtol=1e-4):
    best = certify(problem, oracles.solve(problem))
    found = solution.certificate
    noise = 1e-13 * (np.abs(solution.beta) * np.sqrt(problem.gram.diag[problem.row])).sum() ** 2
    assert solution.status == "optimal"
    np.testing.assert_allclose(found.dual, best.dual, rtol=rtol, atol=noise)
    assert found.primal >= found.dual - noise


# ---- against the oracle -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", oracles.FORMULATIONS)
@pytest.mark.parametrize("seed", range(8))
def test_reaches_the_oracle_on_random_problems(kind, seed):
    problem = oracles.random_problem(kind, np.random.default_rng(seed))
    solution = solve(problem, ADMM(), tol=1e-6)
    assert_same_optimum(solution, problem)
    assert solution.certificate.kkt_violation <= 1e-6
    assert solution.certificate.distance == 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_reaches_the_oracle_with_every_kernel(name, kernel):
    X, y = blobs(40, noise=0.0 if name == "hard" else 0.5, seed=1)
    rng = np.random.default_rng(1)
    w = np.where(rng.random(40) < 0.1, 0.0, rng.random(40) + 0.2)
    problem = formulations(kernel.gram(X), y, X[:, 0] + 0.1 * rng.normal(size=40), w)[name]
    assert_same_optimum(solve(problem, ADMM(), tol=1e-6), problem)


VARIANTS = {
    "relaxed": ADMM(over_relaxation=1.8),
    "under-relaxed": ADMM(over_relaxation=0.7),
    "fixed rho": ADMM(adapt_rho=False),
    "small rho": ADMM(rho=1e-3),
    "large rho": ADMM(rho=1e3),
    "not polished": ADMM(polish=False),
    "plain": ADMM(polish=False, adapt_rho=False, rho=0.2),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["soft", "no bias", "nu", "svr", "one class"])
def test_every_setting_reaches_the_same_optimum(variant, name):
    X, y = blobs(40)
    problem = formulations(kernels.RBF(gamma=0.5).gram(X), y, X[:, 0], np.ones(40))[name]
    best = solve(problem, SMO(), tol=1e-9).certificate
    solution = solve(problem, VARIANTS[variant], tol=1e-6)
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.certificate.dual, best.dual, rtol=1e-6)
    assert (solution.counters["polishes"] == 0) >= (not VARIANTS[variant].polish)


def test_n4_inequality_is_tight():
    """N4's dual as printed, Σλ + Σμ ≥ K_m, has the optimum of problems.nu_svc."""
    X, y = blobs(24, noise=0.3)
    gram, K_m, K_s = kernels.RBF(gamma=0.5).gram(X), 3.0, 0.4
    solution = solve(problems.nu_svc(gram, y, K_m=K_m, K_s=K_s), ADMM(), tol=1e-9)
    Q = gram.rows(np.arange(24)) * np.outer(y, y)
    # The slack γ = Σλ + Σμ − K_m ≥ 0 of N4's last line is one more variable.
    wide = np.zeros((25, 25))
    wide[:24, :24] = Q
    A = np.vstack([np.append(y, 0.0), np.append(np.ones(24), -1.0)])
    upper = np.append(np.full(24, K_s), np.inf)
    found = oracles.clarabel_qp(wide, np.zeros(25), A, np.array([0.0, K_m]), np.zeros(25), upper)
    alpha, gamma = found[:24], found[24]
    assert abs(gamma) < 1e-8
    np.testing.assert_allclose(-0.5 * alpha @ Q @ alpha, solution.certificate.dual, rtol=1e-8)
    np.testing.assert_allclose(solution.alpha, alpha, atol=1e-6)


# ---- residuals and the factor -----------------------------------------------------------------


def run(solver, problem, chunk, tol=1e-6):
    state = solver.init(problem, tol=tol, beta=None)
    while solver.done(state) is None:
        solver.step(state, chunk)
    return state


@pytest.mark.parametrize("name", NAMES[1:])
def test_residuals_fall_and_are_all_kept(name):
    X, y = blobs(40)
    problem = formulations(kernels.RBF(gamma=0.5).gram(X), y, X[:, 0], np.ones(40))[name]
    state = run(ADMM(polish=False, adapt_rho=False), problem, 1000, tol=1e-4)
    primal, dual = np.array(state.residuals).T
    assert len(primal) == state.iteration
    # He & Yuan 2015: ‖Δz‖² + ‖Δμ / ρ‖² never grows while ρ stays.
    size = (state.rho * primal) ** 2 + dual**2
    assert (size[1:] <= size[:-1] * (1 + 1e-9) + 1e-20).all()
    assert size[-1] < 1e-4 * size[0]
    assert state.counters["primal_residual"] == primal[-1]
    assert state.counters["dual_residual"] == dual[-1]


def test_dual_residual_is_what_stationarity_lacks():
    problem = soft(30)
    P = matrix(problem)
    for theta in (1.0, 1.7):
        solver = ADMM(over_relaxation=theta, adapt_rho=False)
        state = solver.init(problem, tol=1e-12, beta=None)
        for _ in range(5):
            z, mu = state.z, state.mu
            solver.step(state, 1)
            ridge = Ridge(P, problem.group, 1, state.rho)
            x, lam = ridge.solve(problem.s + state.rho * z - mu, problem.m)
            missing = P @ x - problem.s + lam[0] + state.mu
            residuals = np.linalg.norm(x - state.z), np.linalg.norm(missing)
            np.testing.assert_allclose(state.residuals[-1], residuals, rtol=1e-9)


def test_factors_once_and_again_only_for_a_new_rho(monkeypatch):
    made = []

    class Counting(Ridge):
        def __init__(self, P, group, n_groups, rho):
            made.append(rho)
            super().__init__(P, group, n_groups, rho)

    monkeypatch.setattr(admm, "Ridge", Counting)
    problem = soft(C=100.0)
    fixed = solve(problem, ADMM(adapt_rho=False, rho=0.5), tol=1e-6)
    assert made == [0.5]
    assert fixed.n_iter > 10
    made.clear()
    adapted = solve(problem, ADMM(rho=1e3), tol=1e-6)
    assert 1 < len(made) <= 1 + np.log2(adapted.n_iter / 5)
    assert len(set(made)) == len(made) == adapted.counters["factorisations"]
    assert adapted.counters["rho"] == made[-1]


def test_ridge_solves_its_kkt_system():
    rng = np.random.default_rng(0)
    B, group = rng.normal(size=(9, 4)), np.array([0, 0, 1, 1, 1, 0, -1, -1, 1])
    P, c, m = B @ B.T, rng.normal(size=9), np.array([0.5, -2.0])
    ridge = Ridge(P, group, 2, 0.3)
    x, lam = ridge.solve(c, m)
    np.testing.assert_allclose(ridge.A @ x, m)
    np.testing.assert_allclose((P + 0.3 * np.eye(9)) @ x + ridge.A.T @ lam, c)


# ---- rounding and polishing -------------------------------------------------------------------


@pytest.mark.parametrize("kind", oracles.FORMULATIONS)
def test_rounding_keeps_bounds_and_sums(kind):
    rng = np.random.default_rng(3)
    problem = oracles.random_problem(kind, rng)
    inside = oracles.random_feasible(problem, rng)
    np.testing.assert_array_equal(feasible(problem, inside), inside)
    point = feasible(problem, inside + 1e-3 * rng.normal(size=len(inside)))
    np.testing.assert_array_equal(problem.project(point), point)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_polishing_finds_the_last_digits(name, kernel):
    X, y = blobs(40, noise=0.0)
    problem = formulations(kernel.gram(X), y, X[:, 0] ** 2, np.ones(40))[name]
    rough = solve(problem, SMO(), tol=1e-4)
    polished = polish(problem, matrix(problem), rough.beta)
    found = certify(problem, polished)
    assert found.distance == 0.0
    assert found.kkt_violation <= min(rough.certificate.kkt_violation, 1e-6)


# ---- hard margin ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", KERNELS[:2], ids=repr)
@pytest.mark.parametrize("bias", [True, False])
def test_inseparable_hard_margin_ends_with_a_proof(kernel, seed, bias):
    X, y = blobs(60, d=2, noise=1.0, seed=seed)
    problem = problems.hard_margin(kernel.gram(X), y, bias=bias)
    for solver in (ADMM(), ADMM(adapt_rho=False, over_relaxation=1.5)):
        solution = solve(problem, solver)
        assert solution.status == "infeasible"
        assert "no hyperplane has geometric margin above" in solution.certificate.proof
        assert solution.certificate.primal == np.inf
        bound = margin_bound(problem, solution.beta)
        assert bound <= margin_resolution(problem, solution.beta)
        assert solution.n_iter < 1000


def test_points_that_coincide_are_named():
    X, y = blobs(30, noise=0.0)
    X[20], y[20] = X[7], -y[7]
    solution = solve(problems.hard_margin(kernels.RBF(gamma=5.0).gram(X), y), ADMM())
    assert solution.status == "infeasible"
    assert "coincide in feature space (rows 7, 20)" in solution.certificate.proof


def test_some_points_without_slack():
    X, y = blobs(60, d=2, noise=1.0)
    hard = np.where(np.arange(60) < 3, np.inf, 1.0)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=hard)
    solution = solve(problem, ADMM(), tol=1e-6)
    assert solution.status == "optimal"
    f = problem.kbeta(solution.beta) + solution.b
    assert (y * f)[:3].min() >= 1 - 1e-5
    every = problems.soft_margin(kernels.Linear().gram(X), y, C=np.where(hard < 2, np.inf, 1.0))
    assert solve(every, ADMM()).status == "infeasible"


def test_no_proof_for_what_can_be_separated():
    X, y = blobs(40, noise=0.0)
    problem = problems.hard_margin(kernels.RBF(gamma=1.0).gram(X), y)
    rng, P = np.random.default_rng(0), matrix(problem)
    assert all(ray(problem, rng.normal(size=40), P=P) is None for _ in range(20))
    assert ray(problem, np.zeros(40), P=P) is None
    assert ray(soft(40), rng.normal(size=40)) is None
    assert solve(problem, ADMM()).status == "optimal"


# ---- edges ------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-300, 1e-12, 1e-4, 1e9])
@pytest.mark.parametrize("kernel", [kernels.RBF(gamma=1.0), kernels.Linear()], ids=repr)
def test_tiny_and_huge_C(C, kernel):
    solution = solve(soft(C=C, kernel=kernel, d=2, noise=1.0), ADMM(), max_iter=5000)
    assert solution.status == "optimal"
    assert solution.certificate.kkt_violation <= 1e-3


def test_duplicates_with_opposite_labels_and_zero_columns():
    X = np.repeat([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]], 4, axis=0)
    y = np.tile([1.0, 1.0, -1.0, -1.0], 3)
    for kernel in KERNELS:
        found = solve(problems.soft_margin(kernel.gram(X), y), ADMM(), tol=1e-9).certificate
        assert found.status == "optimal"
        assert found.relative_gap <= 1e-8


@pytest.mark.parametrize("n", [1, 2, 3])
def test_almost_no_points(n):
    gram = kernels.RBF(gamma=1.0).gram(np.arange(n, dtype=float)[:, None])
    assert solve(problems.one_class(gram, nu=0.5), ADMM()).status == "optimal"
    assert solve(problems.svr(gram, np.arange(n), C=1.0), ADMM()).status == "optimal"
    if n > 1:
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        assert solve(problems.soft_margin(gram, y), ADMM()).status == "optimal"
        assert solve(problems.hard_margin(gram, y), ADMM(), tol=1e-9).status == "optimal"


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_kernel_is_flat_everywhere(value):
    gram = kernels.Precomputed().gram(np.full((6, 6), value))
    solution = solve(problems.soft_margin(gram, [1, -1, 1, -1, 1, -1], C=2.0), ADMM())
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.alpha, 2.0)
    assert solve(problems.hard_margin(gram, [1, -1] * 3), ADMM()).status == "infeasible"


def test_unreachable_tolerance_ends_as_precision_limit():
    for kernel in (kernels.RBF(gamma=1.0), kernels.Linear()):
        solution = solve(soft(20, C=100.0, kernel=kernel), ADMM(), tol=1e-15)
        assert solution.status in ("precision_limit", "optimal")
        assert solution.certificate.relative_gap < 1e-11


# ---- the loop ---------------------------------------------------------------------------------


def test_limits_and_history():
    problem = soft(100, C=100.0)
    solution = solve(problem, ADMM(record_every=5, polish=False), max_iter=22, tol=1e-9)
    assert solution.status == "iteration_limit"
    assert solution.n_iter == 22
    assert solution.history.iteration.tolist() == [0, 5, 10, 15, 20, 22]
    assert solution.history.gap[-1] < solution.history.gap[0]
    assert (solution.history.primal >= solution.history.dual).all()
    assert solution.certificate.distance == 0.0
    assert solve(problem, ADMM(), max_time=0.0).status == "time_limit"
    nothing = solve(problem, ADMM(), max_iter=0)
    assert nothing.n_iter == nothing.counters["factorisations"] == 0


@pytest.mark.parametrize("name", ["soft", "nu", "svr", "hard"])
def test_chunks_do_not_change_a_bit(name):
    X, y = blobs(40)
    problem = formulations(kernels.Linear().gram(X), y, X[:, 0], np.ones(40))[name]
    whole, *others = (run(ADMM(), problem, chunk) for chunk in (10**6, 1, 7))
    for state in others:
        assert (state.beta == whole.beta).all()
        assert state.residuals == whole.residuals
        assert state.status is whole.status
    recorded = solve(problem, ADMM(record_every=3), tol=1e-6)
    assert (recorded.beta == whole.beta).all()


def test_any_number_of_blas_threads_gives_the_same_bits():
    problem = soft(300, C=10.0)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(solve(problem, ADMM(), tol=1e-6))
    assert (found[0].beta == found[1].beta).all()


def test_warm_start_from_any_point():
    problem = soft(100)
    cold = solve(problem, ADMM(), tol=1e-8)
    warm = solve(problem, ADMM(), tol=1e-8, beta=cold.beta)
    assert warm.n_iter == warm.counters["factorisations"] == 0
    nearly = solve(problem, ADMM(polish=False), tol=1e-8, beta=solve(problem).beta)
    assert nearly.n_iter < solve(problem, ADMM(polish=False), tol=1e-8).n_iter
    wild = solve(problem, ADMM(), tol=1e-8, beta=np.random.default_rng(0).normal(size=100) * 100)
    np.testing.assert_allclose(wild.certificate.dual, cold.certificate.dual, rtol=1e-7)


def test_gap_tolerance_tightens_tol():
    problem = soft(100, C=100.0)
    solution = solve(problem, ADMM(polish=False), tol=1.0, gap_tol=1e-6)
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap <= 1e-6
    assert solve(problem, ADMM(), gap_tol=1e-18).status == "precision_limit"


def test_callback_sees_progress_and_can_stop():
    seen = []
    solution = solve(
        soft(100, C=100.0),
        ADMM(record_every=10, polish=False),
        callback=lambda p: seen.append(p) or len(seen) == 3,
        tol=1e-9,
    )
    assert solution.status == "interrupted"
    assert [p.iteration for p in seen] == [10, 20, 30]
    assert all(p.kkt_violation > 0 and p.relative_gap > 0 for p in seen)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals")
def test_ctrl_c_returns_the_best_so_far():
    def press(progress):
        if progress.iteration >= 20:
            signal.raise_signal(signal.SIGINT)

    solver = ADMM(record_every=10, polish=False)
    solution = solve(soft(100, C=100.0), solver, callback=press, tol=1e-12)
    assert solution.status == "interrupted"
    assert solution.n_iter == 20
    assert np.isfinite(solution.certificate.gap)


@pytest.mark.parametrize("name", NAMES)
def test_steps_tell_the_residuals(name):
    X, y = blobs(40, noise=0.0)
    problem = formulations(kernels.RBF(gamma=0.5).gram(X), y, X[:, 0], np.ones(40))[name]
    plain = solve(problem, ADMM(), tol=1e-6)
    watched = solve(problem, ADMM(record_steps=True), tol=1e-6)
    assert (plain.beta == watched.beta).all()
    assert [step.iteration for step in watched.steps] == list(range(1, watched.n_iter + 1))
    gained = sum(step.change for step in watched.steps) * problem.scale
    start = certify(problem, problem.start())
    np.testing.assert_allclose(start.dual + gained, watched.certificate.dual, rtol=1e-7)
    last = watched.steps[-1]
    assert f"primal residual {watched.counters['primal_residual']:.1e}" in last.why
    assert list(steps(problem, ADMM(record_steps=True), tol=1e-6)) == watched.steps


def test_the_multiplier_of_the_sums_tends_to_the_bias():
    problem = soft(40)
    watched = solve(problem, ADMM(record_steps=True, polish=False), tol=1e-8)
    np.testing.assert_allclose(watched.steps[-1].b, watched.b, atol=1e-6)


# ---- refusals ---------------------------------------------------------------------------------


@dataclass
class Huge:
    """A Gram that must not be asked for anything but its size."""

    n: int
    kernel: object = None
    convex: bool = True

    def matvec(self, beta):
        raise AssertionError("asked for kernel values")


def test_refuses_by_name_before_any_work():
    n = 20001
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    with pytest.raises(ValueError, match=r"ADMM .* 20001 x 20001 matrix \(3.2 GB each\).* 20000"):
        solve(problems.hard_margin(Huge(n), y), ADMM())
    with pytest.raises(ValueError, match="20002 x 20002"):
        solve(problems.svr(Huge(10001), y[:10001]), ADMM())


def test_refuses_an_indefinite_kernel():
    X, y = blobs(50)
    gram = kernels.Sigmoid(1.0, coef0=-1.0).gram(X)
    with pytest.raises(ValueError, match="ADMM needs a positive semi-definite kernel; got Sigmoid"):
        solve(problems.soft_margin(gram, y), ADMM())
    unknown = oracles.MatrixGram(np.array([[0.0, 2.0], [2.0, 0.0]]), convex=None)
    with pytest.raises(ValueError, match="rho=1 cannot be factored"):
        solve(problems.soft_margin(unknown, [1, -1]), ADMM())


@pytest.mark.parametrize(
    "setting", [{"rho": 0.0}, {"rho": -1.0}, {"rho": np.inf}, {"over_relaxation": 2.0}], ids=str
)
def test_bad_settings(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        solve(soft(10), ADMM(**setting))
