"""Add a solver: settings, and init, step, done. Here: projected gradients with Nesterov's step."""

from dataclasses import dataclass

import numpy as np
import pytest

from maxmargin import certificate, kernels, problems, solvers


class State:
    def __init__(self, problem, tol, beta):
        self.problem, self.tol, self.iteration = problem, tol, 0
        self.beta = self.ahead = problem.start() if beta is None else beta
        self.t, self.violation, self.relative_gap = 1.0, np.inf, np.inf
        self.L = 2 * problem.gram.diag.sum() + problem.D.max()  # above the largest eigenvalue

    def move(self):
        p, old = self.problem, self.beta
        slope = p.kbeta(self.ahead) + p.D * self.ahead - p.s
        self.beta = p.project(self.ahead - slope / self.L)
        if slope @ (self.beta - old) > 0:  # it turns back: begin again
            self.t = 1.0
        t = (1 + (1 + 4 * self.t**2) ** 0.5) / 2
        self.ahead = self.beta + (self.t - 1) / t * (self.beta - old)
        self.t, self.iteration = t, self.iteration + 1


@dataclass(frozen=True)
class ProjectedGradient:
    record_every: int | None = None

    def init(self, problem, *, tol, beta):
        return State(problem, tol, beta)

    def step(self, state, chunk):
        for _ in range(min(chunk, 50)):
            state.move()
        proof = certificate.certify(state.problem, state.beta)
        state.violation, state.relative_gap = proof.kkt_violation, proof.relative_gap

    def done(self, state):
        return certificate.Status.OPTIMAL if state.violation <= state.tol else None


rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 2)), np.repeat([-1, 1], 20)
gram = kernels.RBF(gamma=0.5).gram(X + 0.5 * y[:, None])
PROBLEMS = [
    problems.soft_margin(gram, y), problems.squared_hinge(gram, y), problems.svr(gram, X[:, 0]),
    problems.nu_svc(gram, y, nu=0.5), problems.one_class(gram, nu=0.3),
]  # fmt: skip


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_it_solves_every_formulation(problem):
    solution = solvers.solve(problem, ProjectedGradient(), tol=1e-4)
    assert solution.status == "optimal"
    assert solution.certificate.relative_gap < 1e-3
