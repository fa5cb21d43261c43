"""Every solver on 200 random small problems: all formulations × the Mercer kernels, one oracle."""

import itertools

import numpy as np
import oracles
import pytest

from maxmargin import certify, kernels, problems
from maxmargin.solvers import ADMM, QP, SMO, DualCoordinate, Pegasos, PlattSMO, TextbookSMO, solve

KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(2),
    kernels.Polynomial(3, coef0=1.0),
    kernels.RBF(sigma=0.7),
    kernels.Laplacian(gamma=0.5),
    kernels.Matern(0.5),
    kernels.Matern(1.5),
    kernels.Matern(2.5),
    kernels.Chi2(),
    kernels.HistogramIntersection(),
    kernels.RBF(sigma=2.0) + 0.5 * kernels.Linear(),
    kernels.Laplacian(gamma=1.0) * kernels.Polynomial(1, coef0=1.0),
]
FORMULATIONS = [
    "hard_margin", "soft_margin", "mean", "doubled", "no bias", "squared_hinge",
    "squared no bias", "nu_svc", "svr", "svr no bias", "nu_svr", "one_class", "svdd",
]  # fmt: skip


def make(index):
    """Problem number ``index``; every pair of kernel and formulation comes up."""
    pairs = list(itertools.product(FORMULATIONS, KERNELS))
    name, kernel = pairs[index % len(pairs)]
    rng = np.random.default_rng(index)
    n = int(rng.integers(8, 21))
    X = rng.random((n, 3)) * 2
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 1, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if name == "hard_margin":  # mostly separable: pair by pair a small margin takes for ever
        X[:, 0] += 0.5 * (y + 1)
    z = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n)
    w = rng.random(n) + 0.5
    C = float(10.0 ** rng.uniform(-1, 1.5))
    gram = kernel.gram(X)
    nu = min(w[y > 0].sum(), w[y < 0].sum()) / w.sum()  # half the largest feasible one
    constructors = {
        "hard_margin": lambda: problems.hard_margin(gram, y),
        "soft_margin": lambda: problems.soft_margin(gram, y, C=C, sample_weight=w),
        "mean": lambda: problems.soft_margin(gram, y, C=n * C, scaling="mean"),
        "doubled": lambda: problems.soft_margin(gram, y, C=C, scaling="doubled"),
        "no bias": lambda: problems.soft_margin(gram, y, C=C, sample_weight=w, bias=False),
        "squared_hinge": lambda: problems.squared_hinge(gram, y, C=C, sample_weight=w),
        "squared no bias": lambda: problems.squared_hinge(gram, y, C=C, bias=False),
        "nu_svc": lambda: problems.nu_svc(gram, y, nu=nu, sample_weight=w),
        "svr": lambda: problems.svr(gram, z, C=C, epsilon=0.1, sample_weight=w),
        "svr no bias": lambda: problems.svr(gram, z, C=C, epsilon=0.1, bias=False),
        "nu_svr": lambda: problems.nu_svr(gram, z, C=C, nu=0.4, sample_weight=w),
        "one_class": lambda: problems.one_class(gram, nu=0.3, sample_weight=w),
        "svdd": lambda: problems.svdd(gram, nu=0.3, sample_weight=w),
    }
    return constructors[name]()


SOLVERS = {
    "SMO": SMO(),
    "TextbookSMO": TextbookSMO(max_passes=50),
    "PlattSMO": PlattSMO(),
    "ADMM": ADMM(),
    "QP": QP(),
    "DualCoordinate": DualCoordinate(),
}
LINEAR_ENDS = ("nu_svc", "one_class")  # w = 0 is possible: the optimum is 0, compare absolutely


def supports(name, problem):
    """Whether a solver is made for the problem; if not, it must refuse it by name."""
    alone = problem.n_groups == 0
    pairs = problem.name in ("hard_margin", "soft_margin") and not alone
    made_for = {"TextbookSMO": pairs, "PlattSMO": pairs, "DualCoordinate": alone}.get(name, True)
    if not made_for:
        with pytest.raises(ValueError, match=name):
            SOLVERS[name].init(problem, tol=1e-6, beta=None)
    return made_for


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_every_solver_reaches_the_oracle(start):
    tried = dict.fromkeys(SOLVERS, 0)
    for index in range(start, start + 20):
        problem = make(index)
        if problem.name == "hard_margin" and solve(problem, tol=1e-6).status == "infeasible":
            for name in ("ADMM", "QP"):
                assert solve(problem, SOLVERS[name], max_time=20).status == "infeasible", index
            continue
        best = certify(problem, oracles.solve(problem))
        size = max(abs(best.dual), 1e-3 if problem.name in LINEAR_ENDS else 0.0)
        for name, solver in SOLVERS.items():
            if not supports(name, problem):
                continue
            tried[name] += 1
            c = solve(problem, solver, tol=1e-6, max_time=30).certificate
            assert c.dual >= best.dual - 1e-4 * size, (index, name, problem, c)
            assert c.dual <= best.primal + 1e-6 * size, (index, name, problem, c)
    assert tried["SMO"] == tried["ADMM"] == tried["QP"] > 10
    assert tried["TextbookSMO"] == tried["PlattSMO"]


def test_every_pair_of_formulation_and_kernel_comes_up():
    assert len(FORMULATIONS) * len(KERNELS) <= 200


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("constant", [False, True])
def test_pegasos_in_the_mean_of_five_seeds(kernel, constant):
    rng = np.random.default_rng(0)
    X = rng.random((12, 3))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=12) > 0.5, 1.0, -1.0)
    kernel = kernel + kernels.Polynomial(0) if constant else kernel
    problem = problems.soft_margin(kernel.gram(X), y, C=1.0, bias=False)
    best = certify(problem, oracles.solve(problem)).primal
    found = [solve(problem, Pegasos(random_state=seed)).counters["primal"] for seed in range(5)]
    assert best * (1 - 1e-6) <= np.mean(found) <= best * 1.01
