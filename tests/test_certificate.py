import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    FORMULATIONS,
    MatrixGram,
    fixed_w_primal,
    matrix,
    random_feasible,
    random_problem,
    solve,
)

from maxmargin import problems
from maxmargin.certificate import Certificate, Status, certify, infeasibility_proof, margin_bound
from maxmargin.problems import hard_margin, nu_svc, one_class, soft_margin, squared_hinge

ONE_LAMBDA = [k for k in FORMULATIONS if not k.startswith(("hard", "nu_"))]


def objective(problem, beta):
    """The one QP as DESIGN writes it, with its sign and scale turned to the dual value."""
    K = matrix(problem)
    value = 0.5 * beta @ K @ beta + 0.5 * (problem.D * beta**2).sum() - problem.s @ beta
    return -problem.scale * value


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_primal_is_the_notes_primal_at_this_w(kind):
    rng = np.random.default_rng(10)
    for _ in range(12):
        problem = random_problem(kind, rng, n=int(rng.integers(4, 16)))
        theirs = problem.project(solve(problem))
        for beta in (random_feasible(problem, rng), problem.start(), theirs):
            slow = fixed_w_primal(problem, beta)
            if kind == "soft_margin, doubled":
                slow *= 2
            ours = certify(problem, beta).primal
            size = 1e-7 * (1 + abs(slow) + np.abs(problem.C[np.isfinite(problem.C)]).sum())
            if kind == "nu_svc":  # the notes ask η ≥ 0; ours needs no such constraint
                assert ours <= slow + size
                lam = certify(problem, beta).lam
                if lam[1] - lam[0] <= 0:
                    continue
            assert ours == slow or abs(ours - slow) <= size


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_clarabel_optimum_is_certified(kind):
    rng = np.random.default_rng(11)
    for _ in range(100):
        problem = random_problem(kind, rng)
        raw = solve(problem)
        certificate = certify(problem, raw)
        optimum = objective(problem, raw)
        size = abs(optimum) + 0.01
        assert 0 <= certificate.gap <= 2e-7 * size
        assert certificate.distance <= 1e-6 * (1 + np.abs(raw).sum())
        assert certificate.primal == pytest.approx(optimum, abs=3e-7 * size)
        assert certificate.dual == pytest.approx(optimum, abs=3e-7 * size)
        assert certificate.convex is True


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_weak_duality_and_the_gap_at_random_points(kind):
    rng = np.random.default_rng(12)
    for _ in range(25):
        problem = random_problem(kind, rng)
        optimum = certify(problem, solve(problem))
        for scale in (1.0, 1e-3):
            beta = problem.project(scale * random_feasible(problem, rng))
            certificate = certify(problem, beta)
            assert certificate.dual == pytest.approx(objective(problem, beta), rel=1e-9, abs=1e-9)
            slack = 1e-6 * (1 + abs(optimum.primal))
            assert certificate.dual <= optimum.primal + slack
            assert certificate.primal >= optimum.dual - slack
            assert certificate.gap >= 0
            if np.isfinite(certificate.gap):
                size = abs(certificate.primal) + abs(certificate.dual) + 1
                difference = certificate.primal - certificate.dual
                assert difference == pytest.approx(certificate.gap, abs=1e-11 * size)
                size = max(abs(certificate.primal), abs(certificate.dual))
                assert certificate.relative_gap == certificate.gap / size


@pytest.mark.parametrize("kind", ONE_LAMBDA)
def test_lambda_is_the_best(kind):
    """Brute force over λ alone, with φ written out; hard margin and ν have their own LPs above."""
    rng = np.random.default_rng(13)
    for _ in range(15):
        problem = random_problem(kind, rng)
        beta = random_feasible(problem, rng)
        kbeta = problem.kbeta(beta)

        def primal(lam, problem=problem, beta=beta, kbeta=kbeta):
            r = problem.s - kbeta - lam
            u, lower = (np.where(np.isfinite(v), v, 0.0) for v in (problem.u, problem.l))
            phi = np.maximum(r * u, r * lower)
            curved = problem.D > 0
            D = np.where(curved, problem.D, 1.0)
            sign = np.where(np.isinf(problem.u), np.maximum(r, 0), np.minimum(r, 0))
            phi = np.where(curved, sign**2 / (2 * D), phi)
            extra = problem.m.sum() * lam if problem.n_groups else 0.0
            return problem.scale * (0.5 * beta @ kbeta + extra + phi.sum())

        certificate = certify(problem, beta)
        lam = certificate.lam[0] if problem.n_groups else 0.0
        size = 1e-10 * (1 + abs(certificate.primal))
        assert primal(lam) == pytest.approx(certificate.primal, abs=size)
        if problem.n_groups:
            reach = 1 + np.abs(problem.s - kbeta).max()
            for other in (*(problem.s - kbeta), *np.linspace(-reach, reach, 101)):
                assert certificate.primal <= primal(other) + size


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_kkt_violation_is_the_slow_one(kind):
    rng = np.random.default_rng(14)
    for _ in range(20):
        problem = random_problem(kind, rng)
        beta = random_feasible(problem, rng)
        g = problem.s - matrix(problem) @ beta - problem.D * beta
        worst = 0.0
        for i in range(problem.n_variables):
            if problem.group[i] < 0:
                worst = max(worst, g[i] if beta[i] < problem.u[i] else 0)
                worst = max(worst, -g[i] if beta[i] > problem.l[i] else 0)
                continue
            for j in np.flatnonzero(problem.group == problem.group[i]):
                if beta[i] < problem.u[i] and beta[j] > problem.l[j]:
                    worst = max(worst, g[i] - g[j])
        assert certify(problem, beta).kkt_violation == pytest.approx(worst, rel=1e-12, abs=1e-12)


# ---- closed forms and edges -------------------------------------------------------------------


def two_points(distance=2.0):
    x = np.array([[distance / 2], [-distance / 2]])
    return MatrixGram(x @ x.T)


def test_exact_optimum_has_gap_zero():
    certificate = certify(hard_margin(two_points(), [1, -1]), [0.5, -0.5])
    assert (certificate.primal, certificate.dual, certificate.gap) == (0.5, 0.5, 0.0)
    assert certificate.relative_gap == certificate.kkt_violation == certificate.distance == 0
    assert certificate.lam.tolist() == [0.0]
    assert certificate.status == "optimal"


def test_hard_margin_rescales_w_by_its_margin():
    problem = hard_margin(two_points(), [1, -1])
    for size in (1e-6, 0.1, 0.5, 3.0, 1e6):  # any multiple of the optimal w is the optimal plane
        certificate = certify(problem, [size / 2, -size / 2])
        assert certificate.primal == pytest.approx(0.5)
        assert certificate.lam[0] == 0.0
    certificate = certify(problem, [0.0, 0.0])
    assert certificate.primal == certificate.gap == certificate.relative_gap == np.inf
    assert certificate.dual == 0.0
    assert certificate.status is None


def test_lambda_of_an_unfinished_hard_margin_belongs_to_its_own_w():
    x = np.array([[3.0], [1.0]])
    problem = hard_margin(MatrixGram(x @ x.T), [1, -1])
    certificate = certify(problem, [0.1, -0.1])  # w = 0.2: the plane x = 2 is w x − 0.4 = 0
    assert certificate.lam[0] == pytest.approx(-0.4)
    assert certificate.primal == pytest.approx(0.5)


def test_inseparable_hard_margin_stays_infinite():
    x = np.array([[1.0], [1.0], [-1.0]])
    problem = hard_margin(MatrixGram(x @ x.T), [1, -1, -1])
    for size in (1.0, 1e3, 1e9):
        certificate = certify(problem, [2 * size, -size, -size])
        assert certificate.primal == np.inf
        assert certificate.kkt_violation > 0
        assert np.isfinite(certificate.lam).all()


def test_rounding_is_no_margin():
    """Coinciding points whose kernel rows differ in the last bit must not look separable."""
    x = np.array([[1.0, 1.0], [1.0, 1.0], [5.0, 0.0], [-5.0, 0.0]])
    K = x @ x.T
    K[0, 0] *= 1 + 4 * np.finfo(float).eps
    problem = hard_margin(MatrixGram(K), [1, -1, 1, -1])
    certificate = certify(problem, [1e3, -1e3, 1.0, -1.0])
    assert certificate.primal == np.inf


def test_some_prices_infinite_some_not():
    rng = np.random.default_rng(15)
    finite = 0
    for _ in range(40):
        n = int(rng.integers(6, 15))
        X = rng.normal(size=(n, 2))
        y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1, -1)
        y[:2] = 1, -1
        C = np.where(rng.random(n) < 0.3, np.inf, 1.0)
        K = X @ X.T + 0.2 * np.eye(n)
        for bias in (True, False):
            problem = soft_margin(MatrixGram(K), y, C=C, bias=bias)
            raw = solve(problem)
            certificate = certify(problem, raw)
            assert certificate.gap <= 1e-4 * (1 + objective(problem, raw))
            point = certify(problem, problem.project(rng.normal(size=n)))
            assert point.primal >= certificate.dual - 1e-6
            assert point.gap >= 0
            finite += np.isfinite(point.primal)
    assert finite > 5


def test_duplicates_with_opposite_labels():
    x = np.ones((2, 1))
    problem = soft_margin(MatrixGram(x @ x.T), [1, -1], C=5.0)
    certificate = certify(problem, [5.0, -5.0])
    assert certificate.primal == certificate.dual == 10.0
    assert certificate.gap == 0
    assert certificate.status == "optimal"


def test_all_points_bound_and_tiny_C():
    K = np.eye(4)
    problem = soft_margin(MatrixGram(K), [1, 1, -1, -1], C=1e-9)
    certificate = certify(problem, problem.u + problem.l)
    assert certificate.status == "optimal"
    assert certificate.gap <= 1e-20
    assert certificate.lam[0] == pytest.approx(0.0, abs=1e-8)


def test_largest_nu_and_nu_one():
    K = np.eye(4)
    problem = nu_svc(MatrixGram(K), [1, -1, -1, -1], nu=0.5)
    certificate = certify(problem, solve(problem))
    assert certificate.gap <= 1e-9
    problem = one_class(MatrixGram(K), nu=1.0)
    certificate = certify(problem, np.ones(4))
    assert certificate.gap <= 1e-15
    assert problem.parameters(certificate.lam, np.ones(4)) == {"rho": 1.0}


def test_distance_is_reported():
    problem = hard_margin(two_points(), [1, -1])
    certificate = certify(problem, [0.8, -0.4])
    assert certificate.distance == pytest.approx(np.hypot(0.2, 0.2))
    assert certificate.dual == pytest.approx(2 * 0.6 - 0.5 * 1.2**2)
    with pytest.raises(ValueError, match="finite"):
        certify(problem, [np.nan, 0.0])


# ---- status -----------------------------------------------------------------------------------


def test_status_is_its_own_message():
    assert Status.OPTIMAL == "optimal"
    assert f"{Status.TIME_LIMIT}" == str(Status.TIME_LIMIT) == "time_limit"
    assert [str(s) for s in Status] == [
        *("optimal", "stationary", "precision_limit", "iteration_limit"),
        *("time_limit", "interrupted", "infeasible", "unbounded"),
    ]


@pytest.mark.parametrize(
    ("convex", "given", "expected"),
    [
        (True, None, "optimal"),
        (False, None, "stationary"),
        (None, None, "stationary"),
        (True, "optimal", "optimal"),
        (False, "optimal", "stationary"),
        (None, Status.OPTIMAL, "stationary"),
        (False, "time_limit", "time_limit"),
        (True, Status.PRECISION_LIMIT, "optimal"),
        (True, "interrupted", "interrupted"),
    ],
)
def test_status(convex, given, expected):
    gram = two_points()
    gram.convex = convex
    certificate = certify(soft_margin(gram, [1, -1]), [0.5, -0.5], status=given)
    assert certificate.status == expected
    assert certificate.convex is convex
    assert len(repr(certificate)) < 30
    assert repr(certificate) == f"gap 0.0e+00 {expected}"


def test_tolerances_decide():
    problem = soft_margin(two_points(), [1, -1])
    beta = [0.4995, -0.4995]
    assert certify(problem, beta).status is None
    assert certify(problem, beta, tol=0.01).status == "optimal"
    assert certify(problem, beta, tol=0.01, gap_tol=1e-9).status is None
    assert certify(problem, beta, tol=0.01, gap_tol=1.5e-3).status is None  # relative: 0.002
    assert certify(problem, beta, tol=0.01, gap_tol=1e-2).status == "optimal"
    for limit in ("time_limit", "iteration_limit", "precision_limit", "interrupted"):
        assert certify(problem, beta, status=limit).status == limit
    assert certify(problem, beta, status="optimal").status == "precision_limit"  # it is not
    assert repr(certify(problem, beta)).startswith("gap 2.0e-03")  # the relative one
    with pytest.raises(ValueError, match="done"):
        certify(problem, beta, status="done")


@pytest.mark.parametrize("status", [None, *Status])
@pytest.mark.parametrize("gap", [0.0, 3.1e-7, 1e-300, np.inf])
def test_text(status, gap):
    certificate = Certificate(
        primal=1.0,
        dual=1.0,
        gap=gap,
        relative_gap=gap,
        kkt_violation=0.0,
        lam=np.zeros(7),
        convex=True,
        distance=0.0,
        status=status,
        proof="a < b",
    )
    assert len(repr(certificate)) < 30
    assert "KKT violation" in str(certificate)
    assert "\n" in str(certificate)
    assert "a &lt; b" in certificate._repr_html_()
    with pytest.raises(AttributeError):
        certificate.gap = 1.0


# ---- infeasible -------------------------------------------------------------------------------


def test_margin_bound_is_never_beaten():
    """Against the true largest margin, from Clarabel's hard margin: 1/‖w‖."""
    rng = np.random.default_rng(16)
    for bias in (True, False):
        for _ in range(20):
            n = int(rng.integers(4, 12))
            X = rng.normal(size=(n, n))
            y = np.where(rng.random(n) < 0.5, 1, -1)
            y[:2] = 1, -1
            problem = hard_margin(MatrixGram(X @ X.T), y, bias=bias)
            best = solve(problem)
            margin = 1 / np.sqrt(best @ X @ X.T @ best)
            assert margin_bound(problem, best) == pytest.approx(margin, rel=1e-5)
            assert margin_bound(problem, random_feasible(problem, rng)) >= margin * (1 - 1e-6)


def test_infeasible_carries_its_proof():
    x = np.array([[1.0], [2.0], [1.0]])
    problem = hard_margin(MatrixGram(x @ x.T), [1, 1, -1])
    certificate = certify(problem, [7.0, 0.0, -7.0], status="infeasible")
    assert certificate.status == "infeasible"
    assert certificate.proof == (
        "hard_margin has no solution: these 2 points of different classes coincide in feature "
        "space (rows 0, 2); no hyperplane has geometric margin above 0.0e+00. "
        "Use a finite C or another kernel."
    )
    assert certify(problem, [7.0, 0.0, -7.0]).proof == ""
    x = np.array([[0.0], [2.0], [1.0]])
    problem = hard_margin(MatrixGram(x @ x.T), [1, 1, -1])
    text = infeasibility_proof(problem, [1e9, 1e9, -2e9])
    assert text == (
        "hard_margin has no solution: no hyperplane has geometric margin above 0.0e+00 "
        "(shown by rows 0, 1, 2). Use a finite C or another kernel."
    )
    assert margin_bound(problem, [0.0, 0.0, 0.0]) == np.inf
    text = "hard_margin has no solution. Use a finite C or another kernel."
    assert infeasibility_proof(problem, [0.0, 0.0, 0.0]) == text


def test_proof_uses_only_points_without_slack():
    x = np.array([[0.0], [0.0], [3.0], [-3.0]])
    C = [1.0, 1.0, np.inf, np.inf]
    problem = soft_margin(MatrixGram(x @ x.T), [1, -1, 1, -1], C=C)
    assert margin_bound(problem, [1.0, -1.0, 5.0, -5.0]) == pytest.approx(3.0)


# ---- invariances ------------------------------------------------------------------------------

CLASSIFIERS = {"soft": soft_margin, "squared": squared_hinge, "hard": hard_margin}


def drawn(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    X = rng.normal(size=(n, 3))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1, -1
    return rng, X @ X.T + 0.1 * np.eye(n), y


def same(a, b, factor=1.0):
    for name in ("primal", "dual", "gap", "kkt_violation"):
        expected = getattr(a, name) * (1.0 if name == "kkt_violation" else factor)
        if np.isfinite(expected):
            size = 1e-9 * (1 + abs(a.primal * factor) if np.isfinite(a.primal) else 1.0)
            assert getattr(b, name) == pytest.approx(expected, rel=1e-9, abs=size)
        else:
            assert getattr(b, name) == expected


@given(st.integers(0, 10**6), st.sampled_from(sorted(CLASSIFIERS)))
@settings(max_examples=60)
def test_permutation(seed, kind):
    rng, K, y = drawn(seed)
    order = rng.permutation(len(y))
    a = CLASSIFIERS[kind](MatrixGram(K), y)
    b = CLASSIFIERS[kind](MatrixGram(K[np.ix_(order, order)]), y[order])
    beta = random_feasible(a, rng)
    one, other = certify(a, beta), certify(b, beta[order])
    same(one, other)
    assert other.lam[0] == pytest.approx(one.lam[0], abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(sorted(CLASSIFIERS)))
@settings(max_examples=60)
def test_label_flip(seed, kind):
    rng, K, y = drawn(seed)
    a, b = CLASSIFIERS[kind](MatrixGram(K), y), CLASSIFIERS[kind](MatrixGram(K), -y)
    beta = random_feasible(a, rng)
    one, other = certify(a, beta), certify(b, -beta)
    same(one, other)
    assert other.lam[0] == pytest.approx(-one.lam[0], abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(["soft", "squared", "nu", "one", "ball", "svr"]))
@settings(max_examples=60)
def test_weight_two_is_a_duplicated_row(seed, kind):
    rng, K, y = drawn(seed)
    n = len(y)
    twice = np.append(np.arange(n), 0)
    w, z = np.ones(n), K[twice, 0]
    w[0] = 2.0
    nu = 1.9 * min((w * (y > 0)).sum(), (w * (y < 0)).sum()) / w.sum()
    make = {
        "soft": lambda g, y, w: soft_margin(g, y, C=2.0, sample_weight=w),
        "squared": lambda g, y, w: squared_hinge(g, y, C=2.0, sample_weight=w),
        "nu": lambda g, y, w: nu_svc(g, y, nu=nu, sample_weight=w),
        "one": lambda g, y, w: one_class(g, nu=0.6, sample_weight=w),
        "ball": lambda g, y, w: problems.svdd(g, nu=0.6, sample_weight=w),
        "svr": lambda g, y, w: problems.svr(g, z[: g.n], C=2.0, sample_weight=w),
    }[kind]
    a = make(MatrixGram(K), y, w)
    b = make(MatrixGram(K[np.ix_(twice, twice)]), y[twice], np.ones(n + 1))
    beta = random_feasible(a, rng)
    blocks = np.split(beta, len(beta) // n)
    shared = [np.append(block, block[0] / 2) for block in blocks]
    for block in shared:
        block[0] /= 2
    one, other = certify(a, beta), certify(b, np.concatenate(shared))
    assert other.distance <= 1e-12
    same(one, other)
    np.testing.assert_allclose(other.lam, one.lam, atol=1e-9)


@given(st.integers(0, 10**6), st.floats(-3, 3))
@settings(max_examples=60)
def test_scaling_of_K_and_C(seed, exponent):
    """K → cK, C → C/c: β → β/c, f unchanged, all values divided by c."""
    rng, K, y = drawn(seed)
    c = 10.0**exponent
    for kind, given_C in (("soft", True), ("squared", True), ("hard", False)):
        make = CLASSIFIERS[kind]
        a = make(MatrixGram(K), y, **({"C": 2.0} if given_C else {}))
        b = make(MatrixGram(c * K), y, **({"C": 2.0 / c} if given_C else {}))
        beta = random_feasible(a, rng)
        one, other = certify(a, beta), certify(b, beta / c)
        same(one, other, 1 / c)
        assert other.lam[0] == pytest.approx(one.lam[0], rel=1e-9, abs=1e-9)


def test_many_groups():
    """Groups that K does not couple are certified as their sum."""
    rng = np.random.default_rng(17)
    parts = [random_problem("one_class", rng, n=6) for _ in range(12)]
    n = 6 * len(parts)
    K = np.zeros((n, n))
    for g, part in enumerate(parts):
        K[6 * g : 6 * g + 6, 6 * g : 6 * g + 6] = part.gram.K
    whole = problems.Problem(
        name="many",
        gram=MatrixGram(K),
        row=np.arange(n),
        group=np.repeat(np.arange(len(parts)), 6),
        **{
            k: np.concatenate([getattr(p, k) for p in parts])
            for k in ("s", "l", "u", "D", "m", "C")
        },
    )
    beta = np.concatenate([random_feasible(p, rng) for p in parts])
    each = [certify(p, b) for p, b in zip(parts, np.split(beta, len(parts)), strict=True)]
    certificate = certify(whole, beta)
    for name in ("primal", "dual", "gap"):
        assert getattr(certificate, name) == pytest.approx(sum(getattr(c, name) for c in each))
    assert certificate.kkt_violation == pytest.approx(max(c.kkt_violation for c in each))
    np.testing.assert_allclose(certificate.lam, [c.lam[0] for c in each])
