"""Add a solver: settings, and init, step, done. Here: projected gradients."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from maxmargin import certificate, kernels, problems, solvers


@dataclass(frozen=True)
class ProjectedGradient:
    record_every: int | None = None

    def init(self, problem, *, tol, beta):
        beta = problem.start() if beta is None else beta
        L = 2 * problem.gram.diag.sum() + problem.D.max()  # above the largest eigenvalue
        state = {"problem": problem, "tol": tol, "beta": beta, "L": L, "iteration": 0}
        return SimpleNamespace(**state, violation=np.inf, relative_gap=np.inf)

    def step(self, state, chunk):
        p = state.problem
        for _ in range(min(chunk, 50)):
            slope = p.kbeta(state.beta) + p.D * state.beta - p.s
            state.beta = p.project(state.beta - slope / state.L)
            state.iteration += 1
        proof = certificate.certify(p, state.beta)
        state.violation, state.relative_gap = proof.kkt_violation, proof.relative_gap

    def done(self, state):
        return certificate.Status.OPTIMAL if state.violation <= state.tol else None


y = np.repeat([-1, 1], 8)
X = np.random.default_rng(0).normal(size=(16, 2)) + 0.5 * y[:, None]
gram = kernels.RBF(gamma=0.5).gram(X)


@pytest.mark.parametrize("problem", [
    problems.soft_margin(gram, y), problems.squared_hinge(gram, y), problems.svr(gram, X[:, 0]),
    problems.nu_svc(gram, y, nu=0.5), problems.one_class(gram, nu=0.3),
], ids=lambda problem: problem.name)  # fmt: skip
def test_it_solves_every_formulation(problem):
    solution = solvers.solve(problem, ProjectedGradient(), tol=1e-4)
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap < 1e-3
