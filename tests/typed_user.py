"""What a user with a type checker writes; `make lint` checks it, and nothing here is Any by chance.

Never run, only read by mypy.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import maxmargin
from maxmargin import (
    SVC,
    SVR,
    NuSVC,
    OneClassSVM,
    certificate,
    geometry,
    kernels,
    problems,
    solvers,
)
from maxmargin.certificate import Certificate, Status
from maxmargin.kernels import Kernel
from maxmargin.ledger import Ledger
from maxmargin.problems import Problem
from maxmargin.solvers import Solution, Solver
from maxmargin.tables import Table

Floats = NDArray[np.float64]

X: Floats = np.zeros((4, 2))
y = [-1, -1, 1, 1]

# estimators
clf = SVC(C=10, kernel=kernels.RBF(sigma=1.0) + 0.1 * kernels.Linear(), max_time=60).fit(X, y)
assert_type(clf, SVC)
assert_type(clf.certificate_, Certificate)
assert_type(clf.certificate_.relative_gap, float)
assert_type(clf.certificate_.status, Status | None)
assert_type(clf.history_, Table)
assert_type(clf.certify(X, y), Certificate)
assert_type(NuSVC(nu=0.5).fit(X, y), NuSVC)
assert_type(SVR(epsilon=0.2).fit(X, y), SVR)
assert_type(OneClassSVM(nu=0.1).fit(X), OneClassSVM)
search = maxmargin.SVCCV(Cs=[1, 10]).fit(X, y)
assert_type(search, maxmargin.SVCCV)
assert_type(search.best_estimator_, SVC)
assert_type(search.best_score_, float)
assert_type(search.best_params_, dict[str, Any])
assert_type(search.predict(X), NDArray[Any])
assert_type(search.score(X, y), float)
assert_type(clf.score(X, y), float)
assert_type(SVR().fit(X, y).score(X, y), float)
assert_type(maxmargin.doctor(X, y).ok, bool)
ledger: Ledger = clf.ledger(X, y)
predicted: NDArray[Any] = clf.predict(X)
scores: Floats = clf.decision_function(X)

# the path underneath
kernel = kernels.RBF(sigma=1.0)
assert_type(2 * kernel + kernel**2, Kernel)
problem = problems.soft_margin(kernel.gram(X), y, C=1.0)
assert_type(problem, Problem)
solution = solvers.solve(problem, solvers.SMO(), tol=1e-3)
assert_type(solution, Solution)
assert_type(solution.b, float)
assert_type(solution.alpha, Floats)
assert_type(certificate.certify(problem, solution.beta), Certificate)
assert_type(geometry.hyperplane(solution).b, float)
anyone: list[Solver] = [solvers.SMO(), solvers.PlattSMO(), solvers.ADMM(), solvers.Pegasos()]
version: str = maxmargin.__version__

# a type checker says no to these
SVC(C="ten")  # type: ignore[arg-type]
solvers.solve(problem, solvers.SMO(), 1e-3)  # type: ignore[call-arg]
solution.status = Status.OPTIMAL  # type: ignore[misc]
