"""Margins, w and b, and N4's quantities: closed forms, equivalences, failing hypotheses."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from maxmargin import certify, geometry, kernels, problems
from maxmargin.datasets import two_sets_of_six
from maxmargin.geometry import (
    bias,
    confidence,
    convert_C,
    decision,
    distance,
    functional_margin,
    geometric_margin,
    hyperplane,
    norm,
    projection,
)
from maxmargin.ledger import ledger
from maxmargin.nu_svm import nu_dual, nu_margin, signed_points
from maxmargin.solvers import solve


def blobs(n=40, d=2, shift=0.6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return rng.normal(size=(n, d)) + shift * y[:, None], y


def line(points, labels, nu, **options):
    """A ν-SVM of points on a line, solved."""
    gram = kernels.Linear().gram(np.array(points, dtype=np.float64)[:, None])
    return solve(problems.nu_svc(gram, labels, nu=nu, **options), tol=1e-10)


# ---- margins and distances --------------------------------------------------------------------


def test_margins_of_an_explicit_plane():
    plane, X, y = ([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0], [1.0, 0.5]], [1, 1, -1]
    np.testing.assert_allclose(decision(plane, X), [-5.0, 20.0, 0.0])
    np.testing.assert_allclose(functional_margin(plane, X, y), [-5.0, 20.0, 0.0])
    np.testing.assert_allclose(geometric_margin(plane, X, y), [-1.0, 4.0, 0.0])
    np.testing.assert_allclose(distance(plane, X), [1.0, 4.0, 0.0])  # origin: |b| / ‖w‖
    np.testing.assert_allclose(decision(plane, sparse.csr_array(X)), [-5.0, 20.0, 0.0])
    np.testing.assert_allclose(confidence(plane, X), 1 / (1 + np.exp([5.0, -20.0, 0.0])))


@given(st.integers(0, 10**6))
def test_projection(seed):
    """proj(x) lies on the plane, x − proj(x) along w, as far as `distance` says (N0 Figure 2)."""
    rng = np.random.default_rng(seed)
    w, b, X = rng.normal(size=3) + 0.1, rng.normal(), rng.normal(size=(5, 3)) * 10
    foot = projection((w, b), X)
    np.testing.assert_allclose(decision((w, b), foot), 0.0, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(X - foot, axis=1), distance((w, b), X))
    signed = decision((w, b), X) / np.linalg.norm(w)
    np.testing.assert_allclose(foot + signed[:, None] * w / np.linalg.norm(w), X, atol=1e-10)


KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(2),
    kernels.Polynomial(3, gamma=0.5, coef0=1.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_w_is_explicit(kernel):
    """w = Σβφ(x), N0 eq. (49): its decision, norm and margins are those of the kernel."""
    X, y = blobs()
    solution = solve(problems.soft_margin(kernel.gram(X), y, C=1.0), tol=1e-8)
    plane, new = hyperplane(solution), np.random.default_rng(1).normal(size=(20, 2))
    np.testing.assert_allclose(decision(plane, kernel.feature_map(new)), decision(solution, new))
    assert norm(plane) == pytest.approx(norm(solution))
    features = kernel.feature_map(X)
    np.testing.assert_allclose(geometric_margin(plane, features, y), geometric_margin(solution))
    np.testing.assert_allclose(
        projection(solution, new), projection(plane, kernel.feature_map(new))
    )
    assert projection(solution).shape == features.shape
    book = ledger(solution.problem, solution.beta, solution.certificate)
    np.testing.assert_allclose(functional_margin(solution), book.margin)
    np.testing.assert_allclose(geometric_margin(solution), book.geometric_margin)


def test_w_of_other_machines():
    X, y = blobs()
    gram = kernels.Linear().gram(X)
    for problem in (
        problems.svr(gram, X[:, 0], C=1.0),
        problems.nu_svr(gram, X[:, 0], C=1.0, nu=0.5),
        problems.one_class(gram, nu=0.5),
        problems.nu_svc(gram, y, nu=0.8),
    ):
        solution = solve(problem, tol=1e-8)
        plane = hyperplane(solution)
        np.testing.assert_allclose(decision(plane, X), decision(solution), atol=1e-12)
    flat = solve(problems.svr(gram, np.ones(len(X)), C=1.0))  # no support vector at all
    assert not hyperplane(flat).w.any()
    np.testing.assert_allclose(decision(flat, X), flat.b)
    np.testing.assert_allclose(decision(flat, sparse.csr_array(X)), flat.b)


@pytest.mark.parametrize("kernel", [*KERNELS, kernels.RBF(gamma=0.5)], ids=repr)
def test_support_vectors_alone_predict_the_same(kernel):
    X, y = blobs()
    solution = solve(problems.soft_margin(kernel.gram(X), y, C=1.0))
    assert 0 < np.count_nonzero(solution.alpha) < len(y)
    new = np.random.default_rng(1).normal(size=(30, 2))
    alone, all_ = (decision(solution, new, points=points) for points in ("support", "all"))
    np.testing.assert_allclose(alone, all_, atol=1e-12)
    np.testing.assert_allclose(decision(solution, sparse.csr_array(new)), alone)
    for matrix in (kernels.Precomputed().gram(kernel(X)), kernels.Callable(kernel).gram(X)):
        same = solve(problems.soft_margin(matrix, y, C=1.0), beta=solution.beta)
        np.testing.assert_allclose(decision(same, kernel(new, X)), alone, rtol=1e-6, atol=1e-6)


# ---- N0's examples ----------------------------------------------------------------------------


def test_example_3_7():
    """−1, 0, 1 are separable only after x → (x, x²), by w = (0, 1), b = −½ up to scale."""
    x, y = np.array([[-1.0], [0.0], [1.0]]), [1, -1, 1]
    assert solve(problems.hard_margin(kernels.Linear().gram(x), y)).status == "infeasible"
    mapped = np.column_stack([x, x**2])
    found = solve(problems.hard_margin(kernels.Linear().gram(mapped), y), tol=1e-10)
    plane = hyperplane(found)
    np.testing.assert_allclose(plane.w, [0.0, 2.0], atol=1e-9)
    assert plane.b == pytest.approx(-1.0)
    notes = (np.array([0.0, 1.0]), -0.5)
    np.testing.assert_allclose(geometric_margin(found), geometric_margin(notes, mapped, y))
    np.testing.assert_allclose(projection(found), [[-1.0, 0.5], [0.0, 0.5], [1.0, 0.5]], atol=1e-9)


def test_example_3_8():
    """The polynomial kernel's plane, in the notes' four features and in the merged three."""
    X, y = blobs(20)
    solution = solve(problems.soft_margin(kernels.Polynomial(2).gram(X), y), tol=1e-9)
    four = np.column_stack([X[:, i] * X[:, j] for i in (0, 1) for j in (0, 1)])
    w = solution.beta @ four
    np.testing.assert_allclose(decision((w, solution.b), four), decision(solution), atol=1e-9)
    assert w[1] == pytest.approx(w[2])
    merged = hyperplane(solution).w
    np.testing.assert_allclose(merged, [w[0], np.sqrt(2) * w[1], w[3]], atol=1e-9)


def test_example_3_9():
    """Two points under the Gaussian: ‖φ(x) − φ(z)‖² = 2 − 2 exp(−17/2), half of it on each side."""
    gram = kernels.RBF(sigma=1).gram([[1.0, 1.0], [2.0, -3.0]])
    solution = solve(problems.hard_margin(gram, [1, -1]), tol=1e-12)
    apart = np.sqrt(2 - 2 * np.exp(-17 / 2))
    np.testing.assert_allclose(geometric_margin(solution), apart / 2)
    assert norm(solution) == pytest.approx(2 / apart)
    with pytest.raises(TypeError, match="no finite feature map"):
        hyperplane(solution)


# ---- N0 (2)-(5), C → ∞, scalings --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_problems_2_to_5_are_equivalent(seed):
    X, y = blobs(14, shift=2.5, seed=seed)
    solution = solve(problems.hard_margin(kernels.Linear().gram(X), y), tol=1e-10)
    w, b = plane = hyperplane(solution)
    gamma = geometric_margin(plane, X, y).min()
    # (2) alone has no solution: κ scales the functional margin, not the plane.
    for kappa in (2.0, 10.0):
        scaled = (kappa * w, kappa * b)
        np.testing.assert_allclose(
            functional_margin(scaled, X, y), kappa * functional_margin(plane, X, y)
        )
        np.testing.assert_allclose(geometric_margin(scaled, X, y), geometric_margin(plane, X, y))
        np.testing.assert_allclose(projection(scaled, X), projection(plane, X))
    # (3): over all unit w, by brute force; the best b is halfway.
    angles = np.linspace(0, 2 * np.pi, 40_000, endpoint=False)
    heights = np.column_stack([np.cos(angles), np.sin(angles)]) @ X.T
    margins = (heights[:, y > 0].min(axis=1) - heights[:, y < 0].max(axis=1)) / 2
    assert gamma * (1 - 1e-3) < margins.max() <= gamma * (1 + 1e-9)
    best = angles[margins.argmax()]
    np.testing.assert_allclose(w / norm(plane), [np.cos(best), np.sin(best)], atol=1e-3)
    unit = (w / norm(plane), b / norm(plane))
    assert functional_margin(unit, X, y).min() == pytest.approx(gamma)
    # (4): margins at least 1, then 1/‖w‖ is the geometric margin.
    assert functional_margin(plane, X, y).min() == pytest.approx(1.0)
    assert 1 / norm(plane) == pytest.approx(gamma)
    # (5): ½‖w‖² under the same constraints, by a general solver.
    rows = y[:, None] * np.column_stack([X, np.ones(len(X))])
    found = minimize(
        lambda v: 0.5 * (v[:2] @ v[:2]),
        [*(2 * w), 2 * b],
        jac=lambda v: np.array([*v[:2], 0.0]),
        constraints={"type": "ineq", "fun": lambda v: rows @ v - 1, "jac": lambda v: rows},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found.x, [*w, b], rtol=1e-5, atol=1e-6)
    assert found.fun == pytest.approx(1 / (2 * gamma**2))


def test_large_C_recovers_the_hard_margin():
    X, y = blobs(30, shift=2.0, seed=2)
    gram = kernels.Linear().gram(X)
    hard = solve(problems.hard_margin(gram, y), tol=1e-10)
    assert hard.status == "optimal"
    largest, gaps = hard.alpha.max(), []
    for C in largest * np.array([0.1, 0.5, 1.01, 1e3, 1e6]):
        soft = solve(problems.soft_margin(gram, y, C=C), tol=1e-10)
        gaps.append(np.linalg.norm(hyperplane(soft).w - hyperplane(hard).w))
        if largest < C:  # from here on no slack pays: the very same machine
            np.testing.assert_allclose(hyperplane(soft).w, hyperplane(hard).w, rtol=1e-6)
            assert soft.b == pytest.approx(hard.b, abs=1e-6)
    assert gaps[0] > gaps[1] > 0.1 > 1e-6 > gaps[2]


@pytest.mark.parametrize("weighted", [False, True])
def test_all_scalings_make_the_same_machine(weighted):
    X, y = blobs(30)
    rng = np.random.default_rng(0)
    w = rng.uniform(0.5, 2.0, 30) if weighted else np.ones(30)
    gram, n, C = kernels.RBF(gamma=0.5).gram(X), w.sum(), 3.0
    base = solve(problems.soft_margin(gram, y, C=C, sample_weight=w), tol=1e-9)
    for scaling in ("mean", "doubled"):
        other = convert_C(C, from_="sum", to=scaling, n=n)
        problem = problems.soft_margin(gram, y, C=other, scaling=scaling, sample_weight=w)
        same = solve(problem, tol=1e-9)
        np.testing.assert_allclose(decision(same), decision(base), atol=1e-7)
        factor = 2.0 if scaling == "doubled" else 1.0
        assert same.certificate.dual == pytest.approx(factor * base.certificate.dual)
    lam = convert_C(C, from_="sum", to="lambda", n=n)
    mean_loss = (w * np.maximum(0.0, 1 - functional_margin(base))).sum() / n
    pegasos = lam / 2 * norm(base) ** 2 + mean_loss
    assert pegasos == pytest.approx(base.certificate.primal * lam)


def test_convert_C_there_and_back():
    names = ["sum", "mean", "doubled", "lambda"]
    for a in names:
        for b in names:
            there = convert_C(0.7, from_=a, to=b, n=20)
            assert convert_C(there, from_=b, to=a, n=20) == pytest.approx(0.7, rel=1e-15)
    assert convert_C(4.0, from_="doubled", to="sum") == 2.0
    assert convert_C(np.inf, from_="sum", to="lambda", n=3) == 0.0
    with pytest.raises(ValueError, match="needs n"):
        convert_C(1.0, from_="sum", to="mean")
    with pytest.raises(ValueError, match="not one of"):
        convert_C(1.0, from_="sum", to="max", n=1)
    with pytest.raises(ValueError, match="must be positive"):
        convert_C(0.0, from_="sum", to="doubled")


# ---- b ----------------------------------------------------------------------------------------


def test_bias_of_the_hard_margin_is_the_same_both_ways():
    X, y = blobs(30, shift=2.0, seed=2)
    solution = solve(problems.hard_margin(kernels.Linear().gram(X), y), tol=1e-10)
    for over in ("all", "margin"):
        assert bias(solution, over=over) == pytest.approx(solution.b, abs=1e-8)


def test_bias_over_all_support_vectors_is_wrong_with_slack():
    X, y = blobs(shift=0.4)
    y[::8] = 1.0
    solution = solve(problems.soft_margin(kernels.Linear().gram(X), y, C=0.5), tol=1e-10)
    assert bias(solution, over="margin") == pytest.approx(solution.b, abs=1e-8)
    assert abs(bias(solution, over="all") - solution.b) > 0.01
    # N1's sum, written out.
    f, S = decision(solution) - solution.b, solution.alpha > 0
    M = S & (solution.alpha < 0.5)
    assert bias(solution, over="all") == pytest.approx((y - f)[S].mean())
    assert bias(solution, over="margin") == pytest.approx((y - f)[M].mean())


def test_bias_of_every_formulation():
    X, y = blobs()
    gram, z = kernels.RBF(gamma=0.5).gram(X), X[:, 0]
    for problem in (
        problems.squared_hinge(gram, y, C=1.0),
        problems.soft_margin(gram, y, C=1e9),
        problems.soft_margin(gram, y, C=1.0, sample_weight=np.arange(40.0)),
        problems.nu_svc(gram, y, nu=0.5),
        problems.svr(gram, z, C=1.0),
        problems.nu_svr(gram, z, C=1.0, nu=0.3),
    ):
        solution = solve(problem, tol=1e-9)
        assert bias(solution) == pytest.approx(solution.b, abs=1e-6)
    one = solve(problems.one_class(gram, nu=0.3), tol=1e-9)
    assert bias(one) == pytest.approx(-one.parameters["rho"], abs=1e-6)
    through = solve(problems.soft_margin(gram, y, bias=False))
    assert bias(through) == 0.0


def test_bias_of_an_interior_point_solution():
    """Clarabel leaves 1e-9 where SMO has 0: such points are not averaged over."""
    X, y = blobs()
    problem = problems.soft_margin(oracles.MatrixGram(kernels.RBF(gamma=0.5)(X)), y, C=1.0)
    exact = solve(problems.soft_margin(kernels.RBF(gamma=0.5).gram(X), y, C=1.0), tol=1e-10)
    beta = problem.project(oracles.solve(problem))
    loose = type(exact)(**(vars(exact) | {"problem": problem, "beta": beta}))
    assert np.count_nonzero(beta) > np.count_nonzero(exact.beta)
    assert bias(loose) == pytest.approx(exact.b, abs=1e-6)


def test_bias_without_a_free_support_vector_is_an_interval():
    gram = kernels.Linear().gram([[-1.0], [1.0], [2.0], [-2.0]])
    solution = solve(problems.soft_margin(gram, [-1, 1, 1, -1], C=0.05), tol=1e-10)
    assert set(solution.alpha) == {0.05}  # w = 0.3: all margins stay below 1 for abs(b) ≤ 0.4
    with pytest.raises(ValueError, match=r"no support vector .* -0.4 <= b <= 0.4 "):
        bias(solution)
    assert bias(solution, over="all") == pytest.approx(0.0, abs=1e-12)


# ---- ν-SVM ------------------------------------------------------------------------------------


def test_figure_1_of_n4():
    X, y = two_sets_of_six()
    solution = solve(problems.nu_svc(kernels.Linear().gram(X), y, nu=0.6), tol=1e-10)
    found = nu_margin(solution)
    blue, red = found.points.case[y > 0].tolist(), found.points.case[y < 0].tolist()
    assert blue.count("misclassified") == red.count("misclassified") == 2
    assert blue.count("inside margin") == 0  # two blue failures, three red ones
    assert red.count("inside margin") == 1
    assert blue.count("on margin") == 2
    assert red.count("on margin") == 1
    assert blue.count("outside") == red.count("outside") == 2
    assert found.positive == pytest.approx((2, 3.6, 4))
    assert found.negative == pytest.approx((3, 3.6, 4))
    # The separating line is x₁ + x₂ = 0, the margins x₁ + x₂ = ±3.
    np.testing.assert_allclose(hyperplane(solution).w, [2.3, 2.3])
    assert found.b == pytest.approx(0.0, abs=1e-9)
    assert found.eta == pytest.approx(6.9)
    assert found.delta == pytest.approx(3 / np.sqrt(2))
    np.testing.assert_allclose(found.dual.lam, [0.75, 0.85, 1, 1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.dual.mu, [1, 1, 1, 0.6, 0, 0], atol=1e-9)
    assert found.I_lam.tolist() == [0, 1]
    assert found.I_mu.tolist() == [9]
    assert found.gamma == 0.0
    assert "delta=2.12132" in repr(found)


def test_w_is_minus_X_times_the_multipliers():
    X, y = blobs()
    X += 1.5  # around the origin the classes are mirror images: x² would not tell them apart
    for kernel in KERNELS:
        solution = solve(problems.nu_svc(kernel.gram(X), y, nu=0.73), tol=1e-9)
        found, plane = nu_margin(solution), hyperplane(solution)
        stacked = np.concatenate([found.dual.lam, found.dual.mu])
        signed = signed_points(solution)
        np.testing.assert_allclose(-signed @ stacked, plane.w, atol=1e-12)
        assert found.dual.value == pytest.approx(0.5 * stacked @ signed.T @ signed @ stacked)
        # N4's averages, in its own sign: w·x − b.
        phi = kernel.feature_map(X)
        u, v = phi[found.I_lam].mean(axis=0), phi[found.I_mu].mean(axis=0)
        assert found.notes_b == pytest.approx(plane.w @ (u + v) / 2)
        assert found.eta == pytest.approx(plane.w @ (u - v) / 2)
        assert found.delta == pytest.approx(found.eta / norm(plane))
        assert found.b == pytest.approx(bias(solution))


def nu_primal(solution, eta, b):
    """N4's (SVM_s2') at this w, with the smallest slacks."""
    problem = solution.problem
    f, K_m = decision(solution) - solution.b, 2 * problem.m[0]
    slack = np.maximum(0.0, eta - problem.y * (f + b))
    return 0.5 * norm(solution) ** 2 - K_m * eta + problem.C @ slack


def assert_optimal_inside(solution, found, *, dearer):
    """Every η − b and η + b of the intervals is optimal; outside they cost ``dearer`` more."""
    best, size = solution.certificate.dual, 1.0 + abs(solution.certificate.dual)
    (a, z), (c, q) = found.eta_minus_b, found.eta_plus_b
    for plus in np.linspace(a, min(z, abs(a) + 10), 4):
        for minus in np.linspace(c, min(q, abs(c) + 10), 4):
            value = nu_primal(solution, (plus + minus) / 2, (minus - plus) / 2)
            assert value == pytest.approx(best, abs=1e-7 * size)
    step = 0.01 * size
    outside = [(a - step, c), (a, c - step)]
    outside += [pair for pair in ((z + step, c), (a, q + step)) if np.isfinite(pair).all()]
    for plus, minus in outside:
        assert nu_primal(solution, (plus + minus) / 2, (minus - plus) / 2) >= best + dearer


FAILING = {
    # The nearest point of each class is bound, the other one zero: two intervals.
    "both": ([1, 3, -1, -3], [1, 1, -1, -1], 0.5, (2, 6), (2, 6)),
    # ν at its largest with as many points of each class: all bound, two half-lines.
    "all bound": ([1, 3, -1, -3], [1, 1, -1, -1], 1.0, (24, np.inf), (24, np.inf)),
    # ν at its largest with a smaller class: it is all bound, a half-line.
    "small class": ([1, -1, -2, -4, -7], [1, -1, -1, -1, -1], 0.4, (2, np.inf), (2, 4)),
    # One class fixes its threshold, the other does not: w = 1 + (1 + 3)/2 = 3.
    "one class": ([1, 2, -1, -1, -1], [1, 1, -1, -1, -1], 0.4, (2, 4), (2, 2)),
}


@pytest.mark.parametrize("name", FAILING)
def test_failing_hypothesis_gives_intervals(name):
    points, labels, nu, plus, minus = FAILING[name]
    solution = line(points, labels, nu)
    if name == "one class":  # equal points share their multiplier, so that some are free
        beta = np.array([1.0, 0.0, -1 / 3, -1 / 3, -1 / 3])
        certificate = certify(solution.problem, beta)
        changed = {"beta": beta, "certificate": certificate}
        solution = type(solution)(**(vars(solution) | changed))
    found = nu_margin(solution)
    assert found.has_margin
    assert not found.standard_margin_hypothesis
    assert found.b is found.notes_b is found.eta is found.delta is None
    assert found.eta_minus_b == pytest.approx(plus)
    assert found.eta_plus_b == pytest.approx(minus)
    assert "Standard Margin Hypothesis fails" in found.message
    assert_optimal_inside(solution, found, dearer=1e-3)
    for count in (found.positive, found.negative):
        assert count.failures <= count.bound <= count.support_vectors
    undetermined = np.isnan(found.points.slack)
    assert undetermined[found.points.y > 0].all()
    assert undetermined[found.points.y < 0].all() == (name != "one class")


def test_mixed_classes_keep_their_own_slack():
    """With η + b known and b not, a point below it is a margin failure, not more."""
    solution = line([1, 2, -1, -3, 0, -5], [1, 1, -1, -1, -1, -1], 2 / 6)
    problem, found = solution.problem, nu_margin(solution)
    assert found.positive.bound == found.negative.bound == 1.0
    beta = np.array([1.0, 0, -0.0, -0.0, -1.0, 0])
    np.testing.assert_allclose(solution.beta, beta)
    assert found.points.case.tolist()[0] == "margin failure or on margin"
    moved = np.array([1.0, 0.0, -0.5, 0.0, -0.5, 0.0])  # feasible, not optimal: −1 and 0 are free
    other = type(solution)(**(vars(solution) | {"beta": moved}))
    cases = nu_margin(other).points.case.tolist()
    assert cases[0] == "margin failure or on margin"
    assert cases[2] == cases[4] == "on margin"
    assert cases[3] == "outside"
    assert problem.has_margin(moved, solution.certificate.primal)


@pytest.mark.parametrize("nu", [0.5, 0.8, 1.0])
def test_nu_too_small_is_said_in_words(nu):
    found = nu_margin(line([-1, 1, -1, 1], [1, 1, -1, -1], nu))
    assert not found.has_margin
    assert found.b is found.eta is found.delta is None
    assert found.message.startswith(f"nu={nu:g} is too small for these data: w = 0, eta = 0")
    assert set(found.points.case) == {"undefined"}
    assert found.positive.failures == 0.0  # at η = 0 nothing is missing


def test_two_over_p_plus_q_is_necessary_not_sufficient():
    """Overlapping classes: below 2/(p+q) never a margin; above it, not always."""
    X, y = blobs(20, shift=0.3, seed=4)
    gram = kernels.Linear().gram(X)
    margins = {}
    for nu in (0.05, 0.09, 0.12, 0.5, 0.9):
        margins[nu] = nu_margin(solve(problems.nu_svc(gram, y, nu=nu), tol=1e-10)).has_margin
    assert not margins[0.05]
    assert not margins[0.09]
    assert not margins[0.12]  # 2/(p+q) = 0.1
    assert margins[0.9]


def test_inequality_dual():
    """N4's Σλ + Σμ ≥ K_m, solved by Clarabel, has our value; γ = 0 unless w = 0."""
    for seed, shift in [(0, 0.6), (1, 1.5), (4, 0.0)]:
        X, y = blobs(16, shift=shift, seed=seed)
        problem = problems.nu_svc(oracles.MatrixGram(X @ X.T), y, nu=0.4)
        ours = solve(problems.nu_svc(kernels.Linear().gram(X), y, nu=0.4), tol=1e-10)
        K_m, n = 0.4 * 16, len(y)
        # One more variable γ ≥ 0: Σα − γ = K_m.
        P = np.zeros((n + 1, n + 1))
        P[:n, :n] = (y[:, None] * X) @ (y[:, None] * X).T
        A = np.vstack([[*y, 0.0], [*np.ones(n), -1.0]])
        upper = np.array([1.0] * n + [np.inf])
        found = oracles.clarabel_qp(
            P, np.zeros(n + 1), A, np.array([0.0, K_m]), np.zeros(n + 1), upper
        )
        theirs = nu_dual(problem, found[:n])
        assert theirs.violation < 1e-7
        assert theirs.value == pytest.approx(nu_margin(ours).dual.value, abs=1e-7)
        if nu_margin(ours).has_margin:
            assert theirs.gamma == pytest.approx(0.0, abs=1e-5)
        # Scaling up stays feasible as long as the box allows, and costs the square.
        grown = nu_dual(problem, 1.2 * np.clip(ours.alpha, 0, 1))
        assert grown.gamma == pytest.approx(0.2 * K_m)
        assert grown.outside == pytest.approx(0.2)
        assert grown.value == pytest.approx(1.44 * nu_margin(ours).dual.value, abs=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.booleans())
def test_counts_and_thresholds_of_any_nu_svm(seed, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 25))
    X = rng.normal(size=(n, 2)).round(1)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X[:, 0] += rng.uniform(0, 2) * y
    w = rng.uniform(0.3, 2.0, n) if weighted else np.ones(n)
    w[2:] *= rng.random(n - 2) > 0.1 * weighted
    most = 2 * min(w[y > 0].sum(), w[y < 0].sum()) / w.sum()
    nu = most * rng.choice([1.0, 0.5, rng.uniform(0.1, 1)])
    kernel = kernels.RBF(gamma=0.5) if rng.random() < 0.5 else kernels.Linear()
    problem = problems.nu_svc(kernel.gram(X), y, nu=nu, sample_weight=w)
    solution = solve(problem, tol=1e-10)
    found = nu_margin(solution)
    assert found.largest_nu == pytest.approx(most)
    assert found.gamma == 0.0
    for count, own in ((found.positive, y > 0), (found.negative, y < 0)):
        assert count.bound == pytest.approx(nu * w.sum() / 2)
        assert count.failures <= count.bound * (1 + 1e-5)
        assert count.support_vectors >= count.bound * (1 - 1e-5)
        assert count.support_vectors <= w[own].sum() * (1 + 1e-9)
    if not found.has_margin:
        return
    assert_optimal_inside(solution, found, dearer=-1e-9)  # the slope may be tiny
    if found.standard_margin_hypothesis:
        assert found.eta > 0
        assert found.delta == pytest.approx(found.eta / norm(solution))
        cases = ledger(problem, solution.beta, solution.certificate).case
        if found.eta == pytest.approx(solution.parameters["eta"], rel=1e-6):
            clear = w > 0
            np.testing.assert_array_equal(found.points.case[clear], cases[clear])


def test_prices_without_common_weight():
    """K_m and K_s scale together; with unequal weights sums count prices."""
    X, y = blobs(30)
    gram = kernels.Linear().gram(X)
    plain = nu_margin(solve(problems.nu_svc(gram, y, nu=0.63), tol=1e-10))
    scaled = nu_margin(solve(problems.nu_svc(gram, y, K_m=0.63 * 30 * 4, K_s=4.0), tol=1e-9))
    assert (plain.K_s, scaled.K_s) == (1.0, 4.0)
    assert scaled.dual.K_m == pytest.approx(75.6)
    assert scaled.positive == pytest.approx(plain.positive)
    assert scaled.delta == pytest.approx(plain.delta)
    assert scaled.eta == pytest.approx(4 * plain.eta)
    twice = np.repeat(np.arange(30), 2)
    weighted = problems.nu_svc(gram, y, nu=0.63, sample_weight=np.full(30, 2.0))
    repeated = problems.nu_svc(kernels.Linear().gram(X[twice]), y[twice], nu=0.63)
    a, b = (nu_margin(solve(p, tol=1e-10)) for p in (weighted, repeated))
    assert a.delta == pytest.approx(b.delta)
    rng = np.random.default_rng(0)
    uneven = problems.nu_svc(gram, y, nu=0.6, sample_weight=rng.uniform(0.5, 2, 30))
    assert nu_margin(solve(uneven)).K_s == 1.0


# ---- errors -----------------------------------------------------------------------------------


def test_errors_say_what_to_do():
    X, y = blobs(10)
    gram = kernels.Linear().gram(X)
    soft = solve(problems.soft_margin(gram, y))
    ball = solve(problems.svdd(gram, nu=0.5))
    tube = solve(problems.svr(gram, X[:, 0]))
    matrix = solve(problems.soft_margin(kernels.Precomputed().gram(X @ X.T), y))
    calls = [
        (lambda: decision(([1.0], 0.0)), "give X"),
        (lambda: decision(soft, X, points="some"), "points='some'"),
        (lambda: decision(ball), "a ball"),
        (lambda: decision(matrix, X), "all 10 training points"),
        (lambda: functional_margin(soft, X), "both or neither"),
        (lambda: functional_margin(([1.0, 0.0], 0.0)), "give X"),
        (lambda: functional_margin(tube), "no labels"),
        (lambda: geometric_margin(([0.0, 0.0], 1.0), X, y), "w = 0"),
        (lambda: bias(soft, over="none"), "over='none'"),
        (lambda: nu_margin(soft), "nu_svc; got soft_margin"),
        (lambda: nu_dual(soft.problem, y), "nu_svc; got soft_margin"),
        (lambda: nu_dual(problems.nu_svc(gram, y, nu=0.5), [1.0]), "one per sample"),
    ]
    for call, message in calls:
        with pytest.raises(ValueError, match=message):
            call()
    flat = solve(problems.soft_margin(kernels.Linear().gram(np.ones((2, 1))), [1, -1]))
    with pytest.raises(ValueError, match="no hyperplane"):
        distance(flat)


def test_every_public_name_is_documented():
    for name in geometry.__all__:
        assert getattr(geometry, name).__doc__
