"""What both of the notes' SMO solvers promise, then what is Algorithm 1's own."""

import signal
import threading

import numpy as np
import oracles
import pytest

from maxmargin import certify, kernels, problems
from maxmargin.solvers import pairs, rows, solve, steps
from maxmargin.solvers.platt import PlattSMO
from maxmargin.solvers.textbook import TextbookSMO

SOLVERS = [TextbookSMO, PlattSMO]
both = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.__name__)


def patient(solver, **settings):
    """The solver, with enough passes to try every pair of a small problem."""
    return solver(**({"max_passes": 50} if solver is TextbookSMO else {}), **settings)


def blobs(n=30, d=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def rbf(n=30, C=10.0, seed=0, **given):
    X, y = blobs(n, seed=seed)
    return problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=C, **given)


KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(2, coef0=1.0),
    kernels.RBF(gamma=0.5),
    kernels.Laplacian(gamma=0.5),
]
SOFT = {
    "sum": {"C": 2.0},
    "mean": {"C": 30.0, "scaling": "mean"},
    "doubled": {"C": 3.0, "scaling": "doubled"},
    "each its own C": {"C": 10.0 ** np.linspace(-2, 1, 30)},
    "weights": {"sample_weight": np.arange(30) % 4.0},
}


@both
@pytest.mark.parametrize("name", [*SOFT, "hard"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_reaches_the_oracle(solver, name, kernel):
    X, y = blobs(noise=0.5)
    if name == "hard":
        X[:, 0] += 0.5 * np.sign(X[:, 0])  # a gap between the classes
        problem = problems.hard_margin(kernel.gram(X), np.sign(X[:, 0]))
    else:
        problem = problems.soft_margin(kernel.gram(X), y, **SOFT[name])
    assert_optimal(problem, solver)


@both
@pytest.mark.parametrize(
    "kind", ["hard_margin", "soft_margin", "soft_margin, mean", "soft_margin, doubled"]
)
@pytest.mark.parametrize("seed", [*range(2), *range(3, 13)])  # 2: C = 840, 27 000 sweeps
def test_reaches_the_oracle_on_random_problems(solver, kind, seed):
    problem = oracles.random_problem(kind, np.random.default_rng(seed))
    assert_optimal(problem, solver)


def assert_optimal(problem, solver):
    solution = solve(problem, patient(solver), tol=1e-6)
    statuses = ("optimal", "iteration_limit") if solver is TextbookSMO else ("optimal",)
    best, found = certify(problem, oracles.solve(problem)), solution.certificate
    assert abs(found.dual - best.dual) <= 1e-4 * abs(best.dual)
    assert found.kkt_violation <= 1e-4
    assert found.distance == 0.0
    assert (solution.status == "optimal") == (found.kkt_violation <= 1e-6)
    assert solution.status in statuses


@both
@pytest.mark.parametrize("C", [0.1, 100.0, np.inf])
def test_dual_never_decreases(solver, C):
    problem = rbf(C=C)
    solution = solve(problem, solver(record_every=1, record_steps=True))
    dual = solution.history.dual
    assert len(dual) == solution.n_iter + 1
    assert (np.diff(dual) >= -1e-12 * np.abs(dual[1:])).all()
    assert all(step.change > 0 for step in solution.steps)
    gained = sum(step.change for step in solution.steps)
    np.testing.assert_allclose(gained, solution.certificate.dual, rtol=1e-12)


# ---- the same bits ----------------------------------------------------------------------------


def in_chunks(problem, solver, chunk, tol=1e-4):
    state = solver.init(problem, tol=tol, beta=None)
    while solver.done(state) is None:
        solver.step(state, chunk)
    return state


@both
@pytest.mark.parametrize("C", [0.5, 50.0])
def test_chunks_recording_and_clock_change_nothing(solver, C, monkeypatch):
    problem = rbf(C=C)
    whole = in_chunks(problem, solver(), 1 << 40)
    seen = [in_chunks(problem, solver(record_steps=True), chunk) for chunk in (1, 3, 7)]
    seen.append(in_chunks(problem, solver(), 1 << 40))
    monkeypatch.setattr(pairs, "SECONDS", 0.0)  # every chunk is cut off after one pair
    seen.append(in_chunks(problem, solver(), 5))
    for state in seen:
        assert (state.beta == whole.beta).all()
        assert (state.b, state.iteration, state.status) == (whole.b, whole.iteration, whole.status)
    assert seen[0].steps == seen[1].steps == seen[2].steps
    monkeypatch.undo()
    for settings in ({}, {"record_every": 1}, {"record_every": 13, "record_steps": True}):
        assert (solve(problem, solver(**settings), tol=1e-4).beta == whole.beta).all()


@both
def test_seed(solver):
    problem = rbf()
    same = [list(steps(problem, solver(record_steps=True, random_state=0))) for _ in range(2)]
    other = list(steps(problem, solver(record_steps=True, random_state=1)))
    assert same[0] == same[1] != other
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    solve(problem, solver(random_state=None))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@both
def test_few_rows_kept_give_the_same_bits(solver, monkeypatch):
    X, y = blobs()
    problem = problems.soft_margin(oracles.MatrixGram(X @ X.T), y)
    plenty = solve(problem, solver())
    monkeypatch.setattr(rows, "_SMALL", 0)
    monkeypatch.setattr(rows, "_KEPT", 0)
    assert (solve(problem, solver()).beta == plenty.beta).all()


@both
def test_weight_zero_takes_a_sample_out(solver):
    X, y = blobs()
    w, K = np.where(np.arange(30) % 3, 1.0, 0.0), X @ X.T + np.eye(30)
    kept = w > 0
    all_rows = problems.soft_margin(oracles.MatrixGram(K), y, sample_weight=w)
    fewer = problems.soft_margin(oracles.MatrixGram(K[np.ix_(kept, kept)]), y[kept])
    long, short = (solve(p, solver(), tol=1e-5) for p in (all_rows, fewer))
    assert not long.beta[~kept].any()
    assert long.n_iter == short.n_iter
    np.testing.assert_allclose(long.beta[kept], short.beta, rtol=1e-9, atol=1e-12)


# ---- steps ------------------------------------------------------------------------------------


def replay(problem, solution):
    """Every step with α before it, checked against α after it in the end."""
    alpha = np.zeros(problem.gram.n)
    for step in solution.steps:
        assert (alpha[step.i], alpha[step.j]) == (step.alpha_i, step.alpha_j)
        yield step, alpha.copy()
        alpha[step.i], alpha[step.j] = step.alpha_i_new, step.alpha_j_new
    np.testing.assert_allclose(alpha, solution.alpha, rtol=1e-12, atol=1e-14)


def dual(K, y, alpha):
    """N0 eq. (69)."""
    return alpha.sum() - 0.5 * (alpha * y) @ K @ (alpha * y)


@both
@pytest.mark.parametrize("name", [*SOFT, "hard"])
def test_steps_follow_the_equations(solver, name):
    X, y = blobs()
    gram = kernels.RBF(gamma=0.5).gram(X)
    K = gram.rows(np.arange(30))
    hard = name == "hard"
    make = problems.hard_margin if hard else problems.soft_margin
    problem = make(gram, y, **({} if hard else SOFT[name]))
    solution = solve(problem, solver(record_steps=True), max_iter=400)
    assert solution.steps
    near, C, b = {"rtol": 1e-8, "atol": 1e-10}, problem.C, 0.0
    for step, alpha in replay(problem, solution):
        i, j = step.i, step.j
        E = K @ (alpha * y) + b - y  # N0 eq. (81)
        np.testing.assert_allclose((step.E_i, step.E_j), (E[i], E[j]), **near)
        np.testing.assert_allclose(step.eta, K[i, i] + K[j, j] - 2 * K[i, j], **near)
        if y[i] == y[j]:
            ends = max(0, alpha[i] + alpha[j] - C[i]), min(C[j], alpha[i] + alpha[j])
        else:
            ends = max(0, alpha[j] - alpha[i]), min(C[j], C[i] + alpha[j] - alpha[i])
        np.testing.assert_allclose((step.L, step.H), ends, **near)
        free = alpha[j] + y[j] * (E[i] - E[j]) / step.eta  # (96)
        np.testing.assert_allclose(step.alpha_j_unclipped, free, **near)
        np.testing.assert_allclose(step.alpha_j_new, np.clip(free, *ends), **near)  # (97)
        other = alpha[i] + y[i] * y[j] * (alpha[j] - step.alpha_j_new)  # (98)
        np.testing.assert_allclose(step.alpha_i_new, other, **near)
        assert abs((alpha * y).sum()) <= 1e-12 * alpha.sum()
        assert ((alpha >= 0) & (alpha <= C)).all()
        after = alpha.copy()
        after[[i, j]] = step.alpha_i_new, step.alpha_j_new
        rise = dual(K, y, after) - dual(K, y, alpha)
        np.testing.assert_allclose(step.change, rise, rtol=1e-5, atol=1e-11)
        b = step.b
    assert len(solution.steps) == solution.counters["pairs_changed"]


# ---- the loop ---------------------------------------------------------------------------------


@both
def test_limits_and_history(solver):
    problem = rbf(C=100.0)
    solution = solve(problem, solver(record_every=3), max_iter=8)
    assert solution.status == "iteration_limit"
    assert solution.history.iteration.tolist() == [0, 3, 6, 8]
    assert solution.history.dual[-1] == solution.certificate.dual
    assert solve(problem, solver(), max_time=0.0).status == "time_limit"
    assert solve(problem, solver(T=4)).n_iter == 4
    assert solve(problem, solver(T=4)).status == "iteration_limit"
    assert solve(problem, solver(T=None), max_iter=2).n_iter == 2


@both
def test_callback_and_ctrl_c_return_the_best_so_far(solver):
    seen = []
    solution = solve(
        rbf(C=100.0), solver(record_every=1), callback=lambda p: seen.append(p) or len(seen) == 3
    )
    assert solution.status == "interrupted"
    assert all(p.kkt_violation > 0 and p.relative_gap > 0 for p in seen)
    if threading.current_thread() is threading.main_thread():

        def press(progress):
            if progress.iteration == 2:
                signal.raise_signal(signal.SIGINT)

        solution = solve(rbf(C=100.0), solver(record_every=2), callback=press)
        assert (solution.status, solution.n_iter) == ("interrupted", 2)
        assert 0 < solution.certificate.gap < np.inf


@both
def test_warm_start(solver):
    problem = rbf()
    cold = solve(problem, patient(solver), tol=1e-6)
    warm = solve(problem, patient(solver, record_steps=True), tol=1e-3, beta=cold.beta)
    assert (warm.status, warm.steps) == ("optimal", [])
    assert (warm.beta == cold.beta).all()
    wild = np.random.default_rng(0).normal(size=30) * 100
    again = solve(problem, patient(solver), tol=1e-6, beta=wild)
    np.testing.assert_allclose(again.certificate.dual, cold.certificate.dual, rtol=1e-6)


@both
@pytest.mark.parametrize("gap_tol", [1e-5, 1e-300])
@pytest.mark.parametrize("tol", [1e-2, 1e-14])
def test_gap_tol_ends(solver, gap_tol, tol):
    solution = solve(rbf(n=20), patient(solver), tol=tol, gap_tol=gap_tol)
    assert solution.status in ("optimal", "iteration_limit", "precision_limit")
    assert (solution.status == "optimal") <= (solution.certificate.relative_gap <= gap_tol)
    assert solution.certificate.relative_gap <= 0.1
    few = solve(rbf(n=20), solver(T=30), tol=tol, gap_tol=1e-300)
    assert few.n_iter <= 30


# ---- edges ------------------------------------------------------------------------------------


@both
def test_two_points_in_closed_form(solver):
    problem = problems.hard_margin(kernels.Linear().gram([[3.0], [-1.0]]), [1, -1])
    solution = solve(problem, solver(record_steps=True), gap_tol=1e-300)
    assert solution.status == "optimal"
    np.testing.assert_allclose(solution.alpha, 1 / 8)
    assert len(solution.steps) == 1
    np.testing.assert_allclose((solution.b, solution.steps[0].b), -0.5)


@both
@pytest.mark.parametrize("kernel", [*KERNELS, 0.0 * kernels.Linear()], ids=repr)
def test_duplicates_and_opposite_labels_at_one_point(solver, kernel):
    X = np.repeat([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]], 4, axis=0)  # η = 0 inside each four
    y = np.tile([1.0, 1.0, -1.0, -1.0], 3)
    problem = problems.soft_margin(kernel.gram(X), y)
    solution = solve(problem, patient(solver), tol=1e-8)
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap <= 1e-7
    flat = solve(problem, solver(record_steps=True)).steps
    assert all(np.isinf(s.alpha_j_unclipped) == (s.eta == 0) for s in flat)


@both
@pytest.mark.parametrize("C", [1e-300, 1e-9, 1e-3])
def test_tiny_C(solver, C):
    solution = solve(rbf(C=C), patient(solver))
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap <= 1e-3


@both
def test_coinciding_points_have_no_hard_margin(solver):
    X, y = blobs(noise=0.0)
    X[20], y[20] = X[7], -y[7]
    solution = solve(problems.hard_margin(kernels.RBF(gamma=5.0).gram(X), y), solver())
    assert solution.status == "infeasible"
    assert "coincide in feature space (rows 7, 20)" in solution.certificate.proof


@both
def test_a_hard_margin_that_does_not_exist_is_stopped(solver):
    X, y = blobs(noise=1.0)
    solution = solve(problems.hard_margin(kernels.Linear().gram(X), y), solver(T=200))
    assert solution.status == "iteration_limit"
    assert solution.certificate.primal == np.inf
    assert np.isfinite(solution.beta).all()


@both
def test_indefinite_kernel_is_never_optimal(solver):
    X, y = blobs()
    gram = kernels.Sigmoid(1.0, coef0=-1.0).gram(X)
    solution = solve(problems.soft_margin(gram, y, C=10.0), patient(solver, record_every=1))
    assert solution.status in ("stationary", "iteration_limit")
    assert (np.diff(solution.history.dual) >= -1e-12 * np.abs(solution.history.dual[1:])).all()
    assert solve(problems.hard_margin(gram, y), solver()).status == "unbounded"


@both
def test_some_points_without_slack(solver):
    X, y = blobs(noise=1.0)
    C = np.where(np.arange(30) < 3, np.inf, 1.0)
    problem = problems.soft_margin(kernels.RBF(gamma=1.0).gram(X), y, C=C)
    solution = solve(problem, patient(solver), tol=1e-5)
    f = problem.kbeta(solution.beta) + solution.b
    assert (y * f)[:3].min() >= 1 - 1e-4
    assert solution.certificate.relative_gap <= 1e-4


OTHERS = ["squared_hinge", "nu_svc", "svr", "nu_svr", "one_class", "svdd"]


@both
@pytest.mark.parametrize(
    "kind", [*OTHERS, *(f"{name}_margin without bias" for name in ("soft", "hard"))]
)
def test_other_problems_are_refused_by_name(solver, kind):
    problem = oracles.random_problem(kind, np.random.default_rng(0))
    problem.gram.touched = 0
    with pytest.raises(ValueError, match=rf"{solver.__name__} solves .* got {kind}\. Use SMO\."):
        solve(problem, solver())
    assert problem.gram.touched == 0


@both
def test_bad_settings(solver):
    with pytest.raises(ValueError, match="T=0 must be an integer of at least 1, or None"):
        solve(rbf(), solver(T=0))


# ---- Algorithm 1 ------------------------------------------------------------------------------


def test_bad_settings_of_algorithm_1():
    with pytest.raises(ValueError, match="max_passes=0 must be an integer of at least 1"):
        solve(rbf(), TextbookSMO(max_passes=0))
    with pytest.raises(ValueError, match=r"T=None must be an integer of at least 1\."):
        solve(rbf(), TextbookSMO(literal=True, T=None))


@pytest.mark.parametrize("max_passes", [1, 4])
def test_stops_after_unchanged_sweeps(max_passes):
    solution = solve(rbf(), TextbookSMO(max_passes=max_passes, record_steps=True))
    assert solution.n_iter == solution.steps[-1].iteration + max_passes
    sweeps = {step.iteration for step in solution.steps}
    longest = np.diff(sorted(sweeps)).max(initial=1)
    assert longest <= max_passes


def test_one_sweep_visits_each_i_once_in_order():
    solution = solve(rbf(), TextbookSMO(record_steps=True), max_iter=5)
    for t in range(1, 6):
        visited = [step.i for step in solution.steps if step.iteration == t]
        assert visited == sorted(set(visited))
        assert visited
    assert all(
        step.why == f"i = {step.i} violates KKT; j drawn at random" for step in solution.steps
    )


def test_bias_is_platts():
    problem = rbf(C=1.0)
    K, y = problem.gram.rows(np.arange(30)), problem.y
    inside = set()
    solution = solve(problem, TextbookSMO(record_steps=True), tol=1e-5)
    for step, alpha in replay(problem, solution):
        alpha[[step.i, step.j]] = step.alpha_i_new, step.alpha_j_new
        b_1, b_2 = (y - K @ (alpha * y))[[step.i, step.j]]
        free = 0 < step.alpha_i_new < 1, 0 < step.alpha_j_new < 1
        inside.add(free)
        expected = b_1 if free[0] else b_2 if free[1] else (b_1 + b_2) / 2
        np.testing.assert_allclose(step.b, expected, atol=1e-11)
    assert len(inside) == 4


def test_enough_passes_try_every_pair():
    problem = rbf(n=25, C=0.3)
    state = in_chunks(problem, TextbookSMO(max_passes=24), 1 << 40, tol=1e-6)
    for i in np.flatnonzero(state.violates(slice(None))).tolist():
        for j in set(range(25)) - {i}:
            move = state.move(i, j)
            assert move is None or abs(move.alpha_j - state.alpha[j]) <= 1e-6 * 0.3


def test_step_test_shrinks_with_C():
    """tol itself would call every step of so small a C "not different"."""
    solution = solve(rbf(C=1e-5), TextbookSMO(max_passes=30), tol=1e-3)
    assert solution.status == "optimal"
    assert solution.alpha.max() == 1e-5


def test_literal_records_only_after_convergence():
    problem = rbf()
    meant = solve(problem, TextbookSMO(record_every=1, max_passes=20), tol=1e-4)
    printed = solve(
        problem, TextbookSMO(record_every=1, max_passes=20, literal=True, T=3), tol=1e-4
    )
    assert meant.history.kkt_violation[1] > 0.1
    assert printed.history.kkt_violation[1] < 1e-2
    assert printed.n_iter == 3
    assert printed.history.iteration.tolist()[-3:] == [1, 2, 3]
    assert printed.status == (
        "optimal" if printed.certificate.kkt_violation <= 1e-4 else "iteration_limit"
    )
    duals = printed.history.dual
    np.testing.assert_allclose(duals[1:], meant.certificate.dual, rtol=1e-6)


def test_literal_T_bounds_no_work():
    problem = rbf()
    one = in_chunks(problem, TextbookSMO(literal=True, T=1, record_steps=True), 1)
    assert len(one.steps) > 100
    assert {step.iteration for step in one.steps} == {1}
    assert len(in_chunks(problem, TextbookSMO(T=1, record_steps=True), 1).steps) <= 30
