import copy
import pickle

import numpy as np
import pytest
from oracles import FORMULATIONS, MatrixGram, random_data, random_feasible, random_problem, solve

from maxmargin.certificate import certify
from maxmargin.ledger import ledger
from maxmargin.problems import hard_margin, nu_svc, one_class, soft_margin, svdd, svr

COLUMNS = [
    *("alpha", "state", "C", "margin", "geometric_margin"),
    *("slack", "case", "kkt_residual"),
]
CASES = {"outside", "on margin", "inside margin", "misclassified"}
TUBE = {"inside tube", "on tube", "outside tube"}
BALL = {"inside", "on boundary", "outlier"}


def snapped(problem):
    """Clarabel's β with what is almost at a bound put there, so that states mean something."""
    beta = problem.project(solve(problem))
    size = 1e-5 * np.where(np.isfinite(problem.u - problem.l), problem.u - problem.l, 1.0)
    beta = np.where(beta - problem.l < size, problem.l, beta)
    beta = np.where(problem.u - beta < size, problem.u, beta)
    room = np.minimum(beta - problem.l, problem.u - beta)
    for g in range(problem.n_groups):
        freest = np.argmax(np.where(problem.group == g, room, -1.0))
        beta[freest] += problem.m[g] - beta[problem.group == g].sum()
    return problem.project(beta)


def kept(problem, beta, **options):
    return ledger(problem, beta, certify(problem, beta), **options)


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_columns_and_cases(kind):
    rng = np.random.default_rng(20)
    for _ in range(25):
        problem = random_problem(kind, rng)
        for beta in (snapped(problem), random_feasible(problem, rng), problem.start()):
            led = kept(problem, beta)
            expected = [*COLUMNS, "loo"] if problem.name == "soft_margin" else COLUMNS
            assert list(led) == led.keys() == expected
            assert len(led) == problem.gram.n
            assert all(len(led[name]) == problem.gram.n for name in led)
            allowed = BALL if problem.y is None and problem.z is None else TUBE
            allowed = CASES | {"undefined"} if problem.y is not None else allowed
            assert set(led.case) <= allowed
            assert set(led.state) <= {"zero", "free", "bound"}
            assert (led.kkt_residual >= 0).all()
            assert (led.slack[~np.isnan(led.slack)] >= 0).all()
            assert sum(led.summary().values()) == len(led)
            assert (led.state[problem.C == 0] == "zero").all()


@pytest.mark.parametrize("kind", [k for k in FORMULATIONS if not k.startswith("hard")])
def test_kkt_ties_states_to_cases(kind):
    """N0 eqs. (71)-(76) at an optimum: zero outside, free on the margin, bound inside."""
    rng = np.random.default_rng(21)
    checked = 0
    for _ in range(40):
        problem = random_problem(kind, rng)
        beta = snapped(problem)
        certificate = certify(problem, beta)
        degenerate = problem.name in ("nu_svc", "one_class") and abs(certificate.dual) < 1e-3
        if certificate.kkt_violation > 1e-4 or degenerate:
            continue
        checked += 1
        led = ledger(problem, beta, certificate)
        good = {"outside", "inside tube", "inside"}
        edge = {"on margin", "on tube", "on boundary"}
        used = problem.C > 0
        assert set(led.case[used & (led.state == "zero")]) <= good | edge
        if problem.name == "squared_hinge":
            np.testing.assert_allclose(2 * problem.C * led.slack, led.alpha, atol=1e-3)
        else:
            assert set(led.case[led.state == "free"]) <= edge
            assert not set(led.case[used & (led.state == "bound")]) & good
        assert led.kkt_residual.max() <= certificate.kkt_violation + 1e-12
    assert checked >= 10


def test_the_soft_margin_table_by_hand():
    """w = 1, b = 0 from x = ±1; the others lie where their margin says."""
    x = np.array([[1.0], [-1.0], [3.0], [0.5], [-0.25], [1.0005]])
    y = np.array([1, -1, 1, 1, 1, 1])
    problem = soft_margin(MatrixGram(x @ x.T), y, C=[1, 1, 1, 1e-9, 1e-9, 1e-9])
    beta = np.array([0.5, -0.5, 0, 0, 0, 0])
    led = kept(problem, beta)
    assert led.case.tolist() == [
        *("on margin", "on margin", "outside", "inside margin", "misclassified", "on margin")
    ]
    assert led.state.tolist() == ["free", "free", "zero", "zero", "zero", "zero"]
    np.testing.assert_allclose(led.margin, y * x[:, 0])
    np.testing.assert_allclose(led["geometric_margin"], led.margin)
    np.testing.assert_allclose(led.slack, [0, 0, 0, 0.5, 1.25, 0])
    np.testing.assert_allclose(led.kkt_residual, [0, 0, 0, 0.5, 1.25, 0])
    assert led.summary() == {"on margin": 3, "outside": 1, "inside margin": 1, "misclassified": 1}
    assert kept(problem, beta, tau=1e-6).case[5] == "outside"
    assert kept(problem, [1.0, -1.0, 0, 0, 0, 0]).state.tolist()[:2] == ["bound", "bound"]
    assert repr(led) == (
        "<Ledger of 6 points: 3 on margin, 1 outside, 1 inside margin, 1 misclassified>"
    )


def test_geometric_margin_is_the_distance_to_the_plane():
    rng = np.random.default_rng(22)
    X = rng.normal(size=(12, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    y[:2] = 1, -1
    problem = soft_margin(MatrixGram(X @ X.T), y, C=3.0)
    beta = random_feasible(problem, rng)
    certificate = certify(problem, beta)
    w, b = X.T @ beta, certificate.lam[0]
    led = ledger(problem, beta, certificate)
    foot = X - np.outer((X @ w + b) / (w @ w), w)
    np.testing.assert_allclose(foot @ w + b, 0, atol=1e-9)
    np.testing.assert_allclose(np.abs(led.geometric_margin), np.linalg.norm(X - foot, axis=1))


def test_hard_margin_has_margin_one_and_one_over_w():
    x = np.array([[3.0], [1.0], [7.0]])
    led = kept(hard_margin(MatrixGram(x @ x.T), [1, -1, 1]), [0.5, -0.5, 0.0])
    np.testing.assert_allclose(led.margin, [1, 1, 5])
    np.testing.assert_allclose(led.geometric_margin, [1, 1, 5])
    assert led.state.tolist() == ["free", "free", "zero"]
    assert "loo" not in led


def test_nu_svc_is_in_units_of_eta():
    x = np.array([[3.0], [1.0], [7.0], [-1.0]])
    problem = nu_svc(MatrixGram(x @ x.T), [1, -1, 1, -1], nu=0.25)
    led = kept(problem, [0.5, -0.5, 0.0, 0.0])
    np.testing.assert_allclose(led.margin, [1, 1, 5, 3])
    np.testing.assert_allclose(led.geometric_margin, [1, 1, 5, 3])
    same = nu_svc(MatrixGram(np.ones((4, 4))), [1, -1, 1, -1], nu=0.5)
    led = kept(same, same.start())
    assert np.isnan(led.margin).all()
    assert set(led.case) == {"undefined"}
    assert np.isnan(led.geometric_margin).all()


def test_regression_one_class_and_ball_by_hand():
    x = np.array([[1.0], [-1.0], [0.0], [0.0]])
    problem = svr(MatrixGram(x @ x.T), [2.0, -2.0, 0.0, 9.0], C=[9, 9, 9, 1e-9], epsilon=1.0)
    beta = problem.project(np.array([0.5, 0, 0, 0, 0, -0.5, 0, 0]))
    led = kept(problem, beta)  # w = 1, b = 0
    np.testing.assert_allclose(led.margin, [0, 0, 1, -8])
    np.testing.assert_allclose(led.geometric_margin, led.margin / np.sqrt(2))
    np.testing.assert_allclose(led.slack, [0, 0, 0, 8])
    assert led.case.tolist() == ["on tube", "on tube", "inside tube", "outside tube"]
    np.testing.assert_allclose(led.alpha, [0.5, 0.5, 0, 0])
    x = np.array([[1.0], [2.0], [0.5]])
    led = kept(one_class(MatrixGram(x @ x.T), nu=0.5), [0.5, 0.0, 1.0])  # w = 1, ρ = 1
    assert led.case.tolist() == ["on boundary", "inside", "outlier"]
    np.testing.assert_allclose(led.margin, [0, 1, -0.5])
    np.testing.assert_allclose(led.geometric_margin, [0, 1, -0.5])
    x = np.array([[0.0], [4.0], [1.0]])
    led = kept(svdd(MatrixGram(x @ x.T), C=10.0), [0.5, 0.5, 0.0])  # a = 2, R = 2
    assert led.case.tolist() == ["on boundary", "on boundary", "inside"]
    np.testing.assert_allclose(led.margin, [0, 0, 3], atol=1e-12)
    np.testing.assert_allclose(led.geometric_margin, [0, 0, 1], atol=1e-12)


def test_w_zero_gives_no_distance():
    problem = soft_margin(MatrixGram(np.eye(2)), [1, -1])
    led = kept(problem, [0.0, 0.0])
    assert np.isnan(led.geometric_margin).all()
    np.testing.assert_allclose(led.margin, [0, 0])


# ---- leave-one-out ----------------------------------------------------------------------------


def retrained_margin(problem, i):
    """The margin of point i under Clarabel's machine trained without it; b from its certificate."""
    C = np.where(problem.C > 0, problem.C, 1.0)
    w = (problem.C > 0) & (np.arange(len(C)) != i)
    bias = bool(problem.n_groups)
    less = soft_margin(problem.gram, problem.y, C=C, sample_weight=w.astype(float), bias=bias)
    beta = less.project(solve(less))
    certificate = certify(less, beta)
    b = certificate.lam[0] if bias else 0.0
    return problem.y[i] * (less.kbeta(beta)[i] + b)


def small(rng, *, bias):
    n = int(rng.integers(5, 10))
    K, X = random_data(rng, n)
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:4] = 1, -1, 1, -1  # every reduced problem keeps both classes
    w = rng.uniform(0.3, 2.0, n) if rng.random() < 0.5 else np.ones(n)
    return soft_margin(MatrixGram(K), y, C=10 ** rng.uniform(-1.5, 1.5), sample_weight=w, bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.02, 0.5])
def test_leave_one_out_verdicts_are_never_wrong(bias, noise):
    """Also at points that are not optimal: the verdict pays for its gap."""
    rng = np.random.default_rng(23)
    verdicts = {"right": 0, "wrong": 0, "undecided": 0}
    for _ in range(80):
        problem = small(rng, bias=bias)
        beta = (1 - noise) * snapped(problem) + noise * random_feasible(problem, rng)
        led = kept(problem, beta)
        for i in np.flatnonzero(led.loo != "undecided"):
            margin = retrained_margin(problem, i)
            assert margin >= -1e-6 if led.loo[i] == "right" else margin <= 1e-6
        for verdict in led.loo:
            verdicts[verdict] += 1
    if noise < 0.01:
        assert verdicts["right"] > 30
        assert verdicts["wrong"] > 30


def test_the_plain_bound_would_be_wrong():
    """2αR² + ξ < 1 alone calls row 2 right; trained without it, b falls and it is wrong."""
    x = np.array([[1.0], [1.0], [-1.5], [-1.0], [-1.0]])
    problem = soft_margin(MatrixGram(x @ x.T), [1, 1, 1, -1, -1], C=0.01)
    led = kept(problem, [0.005, 0.005, 0.01, -0.01, -0.01])
    assert certify(problem, problem.project([0.005, 0.005, 0.01, -0.01, -0.01])).gap < 1e-15
    R2 = 2 * 2.25
    assert 2 * led.alpha[2] * R2 + led.slack[2] < 1
    assert retrained_margin(problem, 2) == pytest.approx(-0.06)
    assert led.loo[2] == "undecided"


def test_loo_needs_a_proof_of_convexity_and_finite_prices():
    gram = MatrixGram(np.diag([1.0, 1.0, 1.0, 1.0]), convex=None)
    led = kept(soft_margin(gram, [1, -1, 1, -1]), [1.0, -1.0, 1.0, -1.0])
    assert set(led.loo) == {"undecided"}
    led = kept(soft_margin(MatrixGram(np.eye(2)), [1, -1], C=np.inf), [1.0, -1.0])
    assert set(led.loo) == {"undecided"}


# ---- the table itself -------------------------------------------------------------------------


def test_frame_html_copy_pickle():
    problem = soft_margin(MatrixGram(np.eye(30)), np.tile([1, -1], 15))
    led = kept(problem, np.tile([1.0, -1.0], 15))
    frame = led.as_frame()
    assert list(frame.columns) == list(led)
    assert len(frame) == 30
    html = led._repr_html_()
    assert "10 more rows" in html
    assert html.count("<tr>") == 21
    for other in (copy.deepcopy(led), pickle.loads(pickle.dumps(led))):
        np.testing.assert_array_equal(other.alpha, led.alpha)
    assert list(dict(led)) == list(led)
    assert "case" in dir(led)
    assert "case" in led
    with pytest.raises(AttributeError, match="no column 'beta'; there are alpha, state"):
        led.beta  # noqa: B018
    with pytest.raises(KeyError):
        led["beta"]


@pytest.mark.parametrize("tau", [-1e-3, 1.0, np.nan])
def test_tau_is_checked(tau):
    problem = soft_margin(MatrixGram(np.eye(2)), [1, -1])
    with pytest.raises(ValueError, match="must be in"):
        kept(problem, [0.0, 0.0], tau=tau)
