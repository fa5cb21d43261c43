import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FORMULATIONS, MatrixGram, nearest, random_feasible, random_problem, solve
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from maxmargin.certificate import certify
from maxmargin.problems import (
    Problem,
    hard_margin,
    nu_svc,
    nu_svr,
    one_class,
    soft_margin,
    squared_hinge,
    svdd,
    svr,
)

EPS = np.finfo(float).eps


def assert_feasible(problem, beta):
    assert beta.dtype == np.float64
    assert (problem.l <= beta).all()
    assert (beta <= problem.u).all()
    for g in range(problem.n_groups):
        mine = beta[problem.group == g]
        assert abs(mine.sum() - problem.m[g]) <= 16 * EPS * (np.abs(mine).sum() + 1)


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_start_is_feasible_and_sparse(kind):
    rng = np.random.default_rng(1)
    for _ in range(60):
        problem = random_problem(kind, rng)
        beta = problem.start()
        assert_feasible(problem, beta)
        inside = (problem.l < beta) & (beta < problem.u) & (beta != 0)
        assert inside.sum() <= problem.n_groups
        assert beta.any() == problem.m.any()


def test_start_fills_in_index_order():
    problem = one_class(MatrixGram(np.eye(5)), nu=0.5)
    np.testing.assert_array_equal(problem.start(), [1, 1, 0.5, 0, 0])
    problem = nu_svc(MatrixGram(np.eye(6)), [1, -1, 1, -1, 1, -1], nu=0.5)
    np.testing.assert_array_equal(problem.start(), [1, -1, 0.5, -0.5, 0, 0])
    everything = one_class(MatrixGram(np.eye(5)), nu=1.0, sample_weight=[0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_array_equal(everything.start(), everything.u)


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_project_finds_the_nearest_point(kind):
    rng = np.random.default_rng(2)
    for trial in range(25):
        problem = random_problem(kind, rng, n=int(rng.integers(4, 15)))
        far = rng.normal(size=problem.n_variables) * 10.0 ** rng.uniform(-2, 2)
        point = problem.project(far)
        assert_feasible(problem, point)
        if trial < 8:  # the oracle's own accuracy bounds this
            theirs = nearest(problem, far)
            size = 1 + np.linalg.norm(far)
            assert np.linalg.norm(far - point) <= np.linalg.norm(far - theirs) + 1e-6 * size
            np.testing.assert_allclose(point, theirs, atol=1e-4 * size)
        for _ in range(5):  # ⟨far − point, other − point⟩ ≤ 0 for every feasible other
            other = random_feasible(problem, rng)
            size = np.linalg.norm(far) * np.linalg.norm(other - point) + 1
            assert (far - point) @ (other - point) <= 1e-12 * size


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_project_leaves_feasible_points_alone(kind):
    rng = np.random.default_rng(3)
    for _ in range(30):
        problem = random_problem(kind, rng)
        point = random_feasible(problem, rng)
        np.testing.assert_array_equal(problem.project(point), point)
        np.testing.assert_array_equal(problem.project(problem.start()), problem.start())
        nudged = point * (1 + 1e-15 * rng.normal(size=len(point)))
        assert np.abs(problem.project(nudged) - point).max() <= 1e-13 * np.abs(point).max()


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_project_survives_huge_input(kind):
    rng = np.random.default_rng(4)
    for _ in range(20):
        problem = random_problem(kind, rng)
        if np.isfinite(problem.u - problem.l).all():
            point = problem.project(rng.normal(size=problem.n_variables) * 1e12)
            assert_feasible(problem, point)


def test_drift_is_repaired_without_leaving_the_bounds():
    """A solver's rounding must not turn bound vectors into free ones: that would ruin the KKT."""
    rng = np.random.default_rng(30)
    y = np.where(rng.random(200) < 0.5, 1, -1)
    problem = soft_margin(MatrixGram(np.eye(200)), y, C=3.0)
    beta = random_feasible(problem, rng)
    drifted = beta.copy()
    bound = (beta == problem.l) | (beta == problem.u)
    drifted[np.argmin(bound)] += 1e-11
    point = problem.project(drifted)
    assert_feasible(problem, point)
    assert 20 < bound.sum() < 200
    np.testing.assert_array_equal(point[bound], beta[bound])
    over = beta * (1 + 1e-14)
    np.testing.assert_array_equal(problem.project(over)[bound], beta[bound])


def test_a_feasible_set_of_one_point():
    rng = np.random.default_rng(31)
    problem = one_class(MatrixGram(np.eye(300)), nu=1.0, sample_weight=rng.random(300))
    np.testing.assert_array_equal(problem.project(rng.normal(size=300)), problem.u)
    y = np.repeat([1, -1], [100, 200])
    problem = nu_svc(MatrixGram(np.eye(300)), y, nu=2 / 3)
    np.testing.assert_array_equal(problem.project(rng.normal(size=300))[:100], np.ones(100))


@pytest.mark.parametrize("bad", [[np.nan, 0, 0], [np.inf, 0, 0], [0, 0], [[0, 0, 0]]])
def test_project_refuses(bad):
    problem = soft_margin(MatrixGram(np.eye(3)), [1, -1, 1])
    with pytest.raises(ValueError, match="beta must be 3 finite numbers"):
        problem.project(bad)


def bare(s, lower, upper, D, group, m):
    n = len(s)
    given = {"s": s, "l": lower, "u": upper, "D": D, "group": group, "m": m}
    gram = MatrixGram(np.eye(n))
    return Problem(name="bare", gram=gram, row=np.arange(n), C=np.ones(n), **given)


def many_groups(rng, n_groups, size):
    """One group per sample, as in Crammer-Singer; variables in scrambled order, some ungrouped."""
    n = n_groups * size
    group = rng.permutation(np.repeat(np.arange(n_groups), size))
    group = np.where(rng.random(n) < 0.1, -1, group)
    lower, upper = -rng.random(n), rng.random(n)
    D = np.where(rng.random(n) < 0.5, rng.random(n), 0.0)
    present = np.unique(group[group >= 0])
    relabel = np.full(n_groups + 1, -1)
    relabel[present] = np.arange(len(present))
    group = relabel[group]
    inside = lower + rng.random(n) * (upper - lower)
    m = np.bincount(group[group >= 0], weights=inside[group >= 0])
    return bare(rng.normal(size=n), lower, upper, D, group, m)


def test_many_groups_are_solved_as_one_by_one():
    rng = np.random.default_rng(5)
    problem = many_groups(rng, 40, 6)
    c = rng.normal(size=problem.n_variables)
    lam, point = problem.multipliers(c), problem.project(3 * c)
    assert_feasible(problem, point)
    for g in range(problem.n_groups):
        k = problem.group == g
        group, m = np.zeros(int(k.sum()), dtype=np.int64), problem.m[g : g + 1]
        alone = bare(problem.s[k], problem.l[k], problem.u[k], problem.D[k], group, m)
        assert alone.multipliers(c[k])[0] == pytest.approx(lam[g], abs=1e-14)
        np.testing.assert_allclose(alone.project(3 * c[k]), point[k], atol=1e-14)
    free = problem.group < 0
    np.testing.assert_array_equal(
        point[free], np.clip(3 * c[free], problem.l[free], problem.u[free])
    )
    assert_feasible(problem, problem.start())


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_multipliers_minimise(seed, n):
    """Against every break point and against a fine search, D mixed with 0, infinite bounds."""
    rng = np.random.default_rng(seed)
    c = np.round(rng.normal(size=n), 1) * 10.0 ** rng.integers(-2, 3)
    D = np.where(rng.random(n) < 0.5, rng.random(n), 0.0)
    lower, upper = -np.round(rng.random(n), 1), np.round(rng.random(n), 1)
    fixed = rng.random(n) < 0.2
    lower[fixed] = upper[fixed] = 0.0
    inside = lower + rng.choice([0.0, 0.3, 1.0]) * (upper - lower)
    upper = np.where((D > 0) & (rng.random(n) < 0.3), np.inf, upper)
    lower = np.where((D > 0) & (rng.random(n) < 0.3), -np.inf, lower)
    group, m = np.zeros(n, dtype=np.int64), np.array([inside.sum()])
    problem = bare(c, lower, upper, D, group, m)

    def h(lam):
        r = c - lam
        step = np.where(r > 0, upper, lower)
        t = np.where(D > 0, np.clip(r / np.where(D > 0, D, 1.0), lower, upper), step)
        t = np.where(np.isfinite(t), t, 0.0)
        return problem.m[0] * lam + (r * t - 0.5 * D * t * t).sum()

    best = problem.multipliers(c)[0]
    size = 1 + np.abs(c).max() * (1 + np.abs(problem.m[0]))
    reach = np.abs(c).max() + 5
    for lam in [*c, *(best + reach * np.linspace(-1, 1, 201) ** 3)]:
        assert h(best) <= h(lam) + 1e-12 * size * (1 + abs(lam))


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_the_interval_of_best_multipliers(seed, n):
    """Against a walk over all break points; few different numbers, so that many sums are m."""
    rng = np.random.default_rng(seed)
    c, zero = rng.integers(-2, 3, n).astype(float), np.zeros(n)
    lower, upper = -rng.integers(0, 3, n).astype(float), rng.integers(0, 3, n).astype(float)
    m = float(rng.integers(lower.sum(), upper.sum() + 1))
    problem = bare(c, lower, upper, zero, np.zeros(n, dtype=np.int64), np.array([m]))
    points = np.unique(c[lower < upper])

    def total(lam):  # where that is no break point
        return np.where(c > lam, upper, lower).sum()

    low = max((p for p in points if total(p - 0.25) > m), default=-np.inf)
    high = min((p for p in points if total(p + 0.25) < m), default=np.inf)
    found = problem.constraints.best_multipliers(c, zero)
    assert (found[0][0], found[1][0]) == (low, high)


def test_flat_interval_gives_its_midpoint_and_a_half_line_its_end():
    gram = MatrixGram(np.zeros((4, 4)))
    tiny = soft_margin(gram, [1, 1, -1, -1], sample_weight=[0.1, 0.2, 0.15, 0.15])
    assert tiny.multipliers(tiny.s)[0] == 0.0  # every b in [-1, 1] is best; 0.1 + 0.2 ≠ 0.3
    one = one_class(gram, nu=1.0)
    assert one.multipliers(np.array([3.0, 1.0, 2.0, 5.0]))[0] == 1.0
    largest = nu_svc(gram, [1, -1, -1, -1], nu=0.5)
    lam = largest.multipliers(np.array([3.0, 1.0, 2.0, 5.0]))
    assert lam[0] == 3.0
    assert 1.0 <= lam[1] <= 5.0


# ---- scikit-learn / LIBSVM --------------------------------------------------------------------


def separable(rng, n=24):
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(-1))
    return K, X, y, rng.uniform(0.3, 2.0, n)


def solved(problem):
    beta = problem.project(solve(problem))
    certificate = certify(problem, beta)
    return beta, certificate, problem.parameters(certificate.lam, beta)


def dense(model, n):
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    return coef


@pytest.mark.parametrize("seed", range(6))
def test_parameters_match_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    K, X, y, w = separable(rng)
    n, gram, z = len(y), MatrixGram(K), X[:, 1] + 0.3 * rng.normal(size=len(y))
    strict = {"kernel": "precomputed", "tol": 1e-10}

    beta, _, found = solved(soft_margin(gram, y, C=3.0, sample_weight=w))
    model = SVC(C=3.0, **strict).fit(K, y, w)
    np.testing.assert_allclose(beta, dense(model, n), atol=1e-4)
    assert found["b"] == pytest.approx(model.intercept_[0], abs=1e-5)

    most = 2 * min(w[y > 0].sum(), w[y < 0].sum()) / w.sum()
    problem = nu_svc(gram, y, nu=0.7 * most, sample_weight=w)
    beta, certificate, found = solved(problem)
    model = NuSVC(nu=0.7 * most, **strict).fit(K, y, w)
    coef, intercept = problem.unit_margin(beta, certificate.lam, certificate.primal)
    assert found["eta"] > 0
    np.testing.assert_allclose(coef, dense(model, n), atol=1e-4 * np.abs(coef).max())
    assert intercept == pytest.approx(model.intercept_[0], abs=1e-4)

    problem = svr(gram, z, C=2.0, epsilon=0.2, sample_weight=w)
    beta, _, found = solved(problem)
    model = SVR(C=2.0, epsilon=0.2, **strict).fit(K, z, w)
    np.testing.assert_allclose(problem.by_row(beta), dense(model, n), atol=1e-4)
    assert found["b"] == pytest.approx(model.intercept_[0], abs=1e-5)

    problem = nu_svr(gram, z, C=2.0, nu=0.4, sample_weight=w)
    beta, _, found = solved(problem)
    model = NuSVR(C=2.0, nu=0.4, **strict).fit(K, z, w)
    np.testing.assert_allclose(problem.by_row(beta), dense(model, n), atol=1e-4)
    assert found["b"] == pytest.approx(model.intercept_[0], abs=1e-5)
    residual = np.abs(z - K @ problem.by_row(beta) - found["b"])
    inside = (np.abs(problem.by_row(beta)) > 1e-5) & (np.abs(problem.by_row(beta)) < 2 * w - 1e-5)
    np.testing.assert_allclose(residual[inside], found["epsilon"], atol=1e-5)

    beta, _, found = solved(one_class(gram, nu=0.3, sample_weight=w))
    model = OneClassSVM(nu=0.3, **strict).fit(K, sample_weight=w)
    np.testing.assert_allclose(beta, dense(model, n), atol=1e-4)
    assert found["rho"] == pytest.approx(model.offset_[0], abs=1e-4)


def test_svdd_with_rbf_is_one_class():
    """K(x, x) = 1: the two duals differ by a constant and the scale ν Σw."""
    K, _, _, w = separable(np.random.default_rng(0))
    ball, _, found = solved(svdd(MatrixGram(K), nu=0.3, sample_weight=w))
    plane, _, other = solved(one_class(MatrixGram(K), nu=0.3, sample_weight=w))
    m = 0.3 * w.sum()
    np.testing.assert_allclose(ball * m, plane, atol=1e-4)
    assert found["R2"] == pytest.approx(1 + ball @ K @ ball - 2 * other["rho"] / m, abs=1e-6)


def test_svdd_of_two_points_is_the_ball_between_them():
    X = np.array([[0.0], [4.0]])
    _, certificate, found = solved(svdd(MatrixGram(X @ X.T), C=10.0))
    assert found["R2"] == pytest.approx(4.0)
    assert certificate.primal == pytest.approx(4.0)


def test_nu_too_small_is_said_in_words():
    X = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [2.0]])
    y = np.array([1, 1, 1, -1, -1, -1])
    problem = nu_svc(MatrixGram(X @ X.T + 1.0), y, nu=0.5)
    beta, certificate, found = solved(problem)
    assert abs(found["eta"]) < 1e-6
    assert not problem.has_margin(beta, certificate.primal)
    with pytest.raises(ValueError, match=r"nu=0\.5 is too small for these data"):
        problem.unit_margin(beta, certificate.lam, certificate.primal)
    last_bit = 1 - np.finfo(float).eps / 2  # coinciding points, up to the rounding of K
    problem = nu_svc(MatrixGram(np.array([[1.0, last_bit], [last_bit, 1.0]])), [1, -1], nu=1.0)
    certificate = certify(problem, [1.0, -1.0])
    assert certificate.primal < 0
    assert not problem.has_margin(np.array([1.0, -1.0]), certificate.primal)


def test_has_margin_is_never_claimed_where_the_hulls_meet():
    rng = np.random.default_rng(6)
    proven = 0
    for _ in range(60):
        problem = random_problem("nu_svc", rng)
        best = certify(problem, solve(problem))
        for beta in (
            random_feasible(problem, rng),
            problem.start(),
            problem.project(solve(problem)),
        ):
            certificate = certify(problem, beta)
            if problem.has_margin(beta, certificate.primal):
                proven += 1
                assert best.dual < 0
    assert proven > 10


# ---- formulations -----------------------------------------------------------------------------


def test_scalings_are_the_same_machine():
    rng = np.random.default_rng(7)
    K, _, y, w = separable(rng)
    gram, n = MatrixGram(K), len(y)
    plain = soft_margin(gram, y, C=3.0)
    np.testing.assert_allclose(soft_margin(gram, y, C=3.0 * n, scaling="mean").u, plain.u)
    doubled = soft_margin(gram, y, C=6.0, scaling="doubled")
    np.testing.assert_array_equal(doubled.u, plain.u)
    beta = random_feasible(plain, rng)
    assert certify(doubled, beta).primal == pytest.approx(2 * certify(plain, beta).primal)
    assert certify(doubled, beta).dual == pytest.approx(2 * certify(plain, beta).dual)
    weighted = soft_margin(gram, y, C=3.0, scaling="mean", sample_weight=w)
    np.testing.assert_allclose(weighted.C, 3.0 * w / w.sum())


def test_infinite_C_is_the_hard_margin():
    gram, y, w = MatrixGram(np.eye(4)), [1, -1, 1, -1], [1, 2, 0, 3]
    hard, soft = (
        hard_margin(gram, y, sample_weight=w),
        soft_margin(gram, y, C=np.inf, sample_weight=w),
    )
    for name in ("s", "l", "u", "D", "row", "group", "m", "C"):
        np.testing.assert_array_equal(getattr(hard, name), getattr(soft, name))
    assert hard.u[2] == hard.l[2] == 0


def test_K_m_K_s_and_nu_agree():
    gram, y = MatrixGram(np.eye(5)), [1, 1, -1, -1, -1]
    a, b = nu_svc(gram, y, nu=0.4), nu_svc(gram, y, K_m=2.0, K_s=1.0)
    np.testing.assert_allclose(a.m, b.m)
    np.testing.assert_array_equal(a.u, b.u)
    assert b.nu == pytest.approx(0.4)


@pytest.mark.parametrize("make", [hard_margin, soft_margin, squared_hinge])
@pytest.mark.parametrize(
    "y",
    [
        np.array([1, -1, 1], dtype=np.float32),
        np.array([1, -1, 1], dtype=np.int8),
        [1, -1, 1],
        np.asfortranarray(np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]))[:, 0],
    ],
)
def test_labels_of_any_kind(make, y):
    if isinstance(y, np.ndarray):
        y.setflags(write=False)
    problem = make(MatrixGram(np.eye(3)), y)
    for name in ("s", "l", "u", "D", "m", "C", "y"):
        assert getattr(problem, name).dtype == np.float64
    assert problem.row.dtype == problem.group.dtype == np.int64
    assert repr(problem) == f"<{make.__name__}: 3 samples, 3 variables>"


def test_input_is_not_aliased():
    y = np.array([1.0, -1.0])
    problem = soft_margin(MatrixGram(np.eye(2)), y)
    y[:] = 7
    np.testing.assert_array_equal(problem.y, [1, -1])
    np.testing.assert_array_equal(problem.s, [1, -1])


def test_smallest_sizes():
    assert_feasible(p := one_class(MatrixGram(np.eye(1)), nu=0.5), p.start())
    assert_feasible(p := svdd(MatrixGram(np.eye(1)), nu=1.0), p.start())
    assert_feasible(p := svr(MatrixGram(np.eye(1)), [2.0]), p.start())
    assert_feasible(p := nu_svr(MatrixGram(np.eye(1)), [2.0]), p.start())
    assert_feasible(p := soft_margin(MatrixGram(np.eye(1)), [1], bias=False), p.start())
    assert_feasible(p := nu_svc(MatrixGram(np.eye(2)), [1, -1], nu=1.0), p.start())


def test_largest_feasible_nu_is_accepted_and_can_be_copied_from_the_message():
    rng = np.random.default_rng(8)
    for _ in range(50):
        n = int(rng.integers(3, 40))
        y, w = np.where(rng.random(n) < 0.3, 1, -1), rng.uniform(0.1, 2, n)
        y[:2] = 1, -1
        w = np.ones(n) if rng.random() < 0.5 else w
        most = 2 * min(w[y > 0].sum(), w[y < 0].sum()) / w.sum()
        gram = MatrixGram(np.eye(n))
        problem = nu_svc(gram, y, nu=most, sample_weight=w)
        assert_feasible(problem, problem.start())
        if most < 0.999:
            with pytest.raises(ValueError, match="must be at most") as caught:
                nu_svc(gram, y, nu=min(1.0, most + 1e-3), sample_weight=w)
            copied = float(str(caught.value).split("at most ")[1].split(" ")[0])
            nu_svc(gram, y, nu=copied, sample_weight=w)
            assert copied > 0.9999 * most


Y = [1, -1, 1, -1]
REFUSED = [
    (lambda g: soft_margin(g, [1, -1, 1]), r"y has shape \(3,\); expected \(4,\)"),
    (lambda g: soft_margin(g, [[1, -1, 1, -1]]), "y has shape"),
    (lambda g: soft_margin(g, [1, -1, 1, 0]), "labels must be -1 or \\+1; got"),
    (lambda g: soft_margin(g, [1, -1, np.nan, 1]), "y must be finite; got nan at row 2"),
    (lambda g: soft_margin(g, [1, 1, 1, 1]), "two classes are needed; all 4 samples"),
    (lambda g: soft_margin(g, Y, sample_weight=[1, 0, 1, 0]), "two classes are needed; all 2"),
    (lambda g: hard_margin(g, [1, 1, 1, 1]), "two classes are needed"),
    (lambda g: squared_hinge(g, [-1, -1, -1, -1]), "two classes are needed"),
    (lambda g: soft_margin(g, Y, C=0), "C must be positive; got 0"),
    (lambda g: soft_margin(g, Y, C=-1), "C must be positive; got -1"),
    (lambda g: soft_margin(g, Y, C=np.nan), "C must be positive; got nan"),
    (lambda g: soft_margin(g, Y, C=[1, 2, 3]), r"C has shape \(3,\); expected a number or \(4,\)"),
    (lambda g: soft_margin(g, Y, C=[1, 2, 0, 1]), "C must be positive; got 0"),
    (lambda g: squared_hinge(g, Y, C=np.inf), "C must be positive and finite; got inf"),
    (lambda g: nu_svr(g, Y, C=np.inf), "C must be positive and finite"),
    (lambda g: soft_margin(g, Y, scaling="median"), "'sum', 'mean', 'doubled'"),
    (lambda g: soft_margin(g, Y, sample_weight=[1, 1, 1, -1]), "sample_weight must be at least 0"),
    (lambda g: soft_margin(g, Y, sample_weight=[0, 0, 0, 0]), "positive for some sample"),
    (lambda g: soft_margin(g, Y, sample_weight=[1, 1, 1, np.inf]), "sample_weight must be finite"),
    (lambda g: soft_margin(g, Y, sample_weight=[1, 1]), "sample_weight has shape"),
    (lambda g: svr(g, [0, 1, np.inf, 2]), "z must be finite; got inf at row 2"),
    (lambda g: svr(g, Y, epsilon=-0.1), "epsilon=-0.1 must be"),
    (lambda g: svr(g, Y, epsilon=np.nan), "epsilon=nan must be"),
    (lambda g: nu_svc(g, Y), "either nu, or both K_m and K_s"),
    (lambda g: nu_svc(g, Y, nu=0.5, K_m=1.0, K_s=1.0), "either nu, or both"),
    (lambda g: nu_svc(g, Y, K_m=1.0), "either nu, or both"),
    (lambda g: nu_svc(g, Y, nu=0.5, K_s=1.0), "either nu, or both"),
    (lambda g: nu_svc(g, Y, K_m=-1.0, K_s=1.0), "K_m=-1.0 must be positive"),
    (lambda g: nu_svc(g, Y, K_m=1.0, K_s=np.inf), "K_s=inf must be positive and finite"),
    (lambda g: nu_svc(g, Y, nu=0.0), r"nu=0.0 must be in \(0, 1\]"),
    (lambda g: nu_svc(g, Y, nu=1.5), r"nu=1.5 must be in \(0, 1\]"),
    (lambda g: nu_svc(g, Y, nu=np.nan), "nu=nan must be in"),
    (lambda g: nu_svr(g, Y, nu=0), "nu=0 must be in"),
    (lambda g: one_class(g, nu=-1), "nu=-1 must be in"),
    (lambda g: svdd(g), "svdd needs either nu or C"),
    (lambda g: svdd(g, nu=0.5, C=1.0), "svdd needs either nu or C"),
    (lambda g: svdd(g, nu=2), "nu=2 must be in"),
    (lambda g: svdd(g, C=0.2), "the sum of C_i is 0.8 and must be at least 1; multiply C by 1.25"),
    (
        lambda g: nu_svc(g, [1, -1, -1, -1], nu=0.9),
        "nu=0.9 is infeasible: with 1 positive and 3 negative samples nu must be at most 0.5 ",
    ),
    (
        lambda g: nu_svc(g, [1, -1, -1, -1], nu=0.9, sample_weight=[1, 2, 0.5, 0.5]),
        r"with 1 positive and 3 negative weight nu must be at most 0.5 ",
    ),
    (
        lambda g: nu_svc(g, [1, -1, -1, -1], K_m=9.0, K_s=2.0),
        "K_m=9 is infeasible: with 1 positive and 3 negative samples K_m must be at most 4 ",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refusals_come_before_any_kernel_work(make, message):
    gram = MatrixGram(np.eye(4))
    with pytest.raises(ValueError, match=message):
        make(gram)
    assert gram.touched == 0


@pytest.mark.parametrize("make", [one_class, lambda g, nu: svdd(g, nu=nu)])
def test_empty_gram_is_refused(make):
    with pytest.raises(ValueError, match="the Gram is empty"):
        make(MatrixGram(np.zeros((0, 0))), nu=0.5)


def test_style_message_to_the_letter():
    y = np.repeat([1, -1], [40, 160])
    with pytest.raises(ValueError, match="infeasible") as caught:
        nu_svc(MatrixGram(np.eye(200)), y, nu=0.9)
    assert str(caught.value) == (
        "nu=0.9 is infeasible: with 40 positive and 160 negative samples nu must be at most 0.4 "
        "(N4, existence condition)."
    )
