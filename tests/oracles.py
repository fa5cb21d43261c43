"""Slow references: a Gram that is a matrix, Clarabel on the one QP, random problems."""

from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog, minimize_scalar

from maxmargin import problems


@dataclass
class MatrixGram:
    """A Gram held as a NumPy matrix; counts how often its entries are asked for."""

    K: np.ndarray
    convex: bool | None = True
    kernel: object = None
    touched: int = 0

    @property
    def n(self):
        return len(self.K)

    @property
    def nonnegative(self):
        return bool((self.K >= 0).all())

    @property
    def diag(self):
        self.touched += 1
        return np.diag(self.K).copy()

    def matvec(self, beta):
        self.touched += 1
        return self.K @ beta

    def rows(self, indices):
        self.touched += 1
        return self.K[indices]

    def tile(self, rows, columns):
        self.touched += 1
        return self.K[np.ix_(rows, columns)]


def matrix(problem):
    """K over variables, without D."""
    rows = problem.gram.rows(np.arange(problem.gram.n))
    return rows[np.ix_(problem.row, problem.row)]


FIXED = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12) | {"verbose": False}
LADDER = (
    {},
    {"max_step_fraction": 0.9},
    {"max_step_fraction": 0.9, "equilibrate_enable": False},
    {"max_step_fraction": 0.8, "static_regularization_constant": 1e-12},
    {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10},
)


def clarabel_qp(P, q, A, b, lower, upper):
    """Solve min ½xᵀPx + qᵀx, Ax = b, lower ≤ x ≤ upper; fixed variables are taken out first."""
    free = lower < upper
    x = np.where(free, 0.0, np.where(np.isfinite(lower), lower, 0.0))
    if not free.any():
        return x
    q = (q + P @ x)[free]
    b = b - A @ x
    P, A = P[np.ix_(free, free)], A[:, free]
    used = np.abs(A).sum(axis=1) > 0
    A, b = A[used], b[used]
    lower, upper = lower[free], upper[free]
    eye = np.eye(len(q))
    below, above = np.isfinite(lower), np.isfinite(upper)
    G = np.vstack([A, -eye[below], eye[above]])
    h = np.concatenate([b, -lower[below], upper[above]])
    cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(h) - len(b))]
    size = max(1.0, np.abs(h).max(initial=0.0))  # x / size: C = 1000 is hard on an interior point
    best = None
    for options in LADDER:
        settings = clarabel.DefaultSettings()
        for name, value in (FIXED | options).items():
            setattr(settings, name, value)
        found = clarabel.DefaultSolver(
            sparse.csc_matrix(np.triu(P) * size), q, sparse.csc_matrix(G), h / size, cones, settings
        ).solve()
        gap = abs(found.obj_val - found.obj_val_dual) + found.r_prim + found.r_dual
        if best is None or gap < best[0]:
            best = gap, np.array(found.x) * size
        if found.status == clarabel.SolverStatus.Solved:
            break
    x[free] = best[1]
    return x


def solve(problem):
    """Clarabel's β for any Problem, as it comes: not projected."""
    A = (problem.group == np.arange(problem.n_groups)[:, None]).astype(float)
    P = matrix(problem) + np.diag(problem.D)
    return clarabel_qp(P, -problem.s, A, problem.m, problem.l, problem.u)


def nearest(problem, beta):
    """Clarabel's projection of β onto the feasible set."""
    A = (problem.group == np.arange(problem.n_groups)[:, None]).astype(float)
    return clarabel_qp(np.eye(len(beta)), -beta, A, problem.m, problem.l, problem.u)


FORMULATIONS = (
    "hard_margin",
    "hard_margin without bias",
    "soft_margin",
    "soft_margin, mean",
    "soft_margin, doubled",
    "soft_margin without bias",
    "squared_hinge",
    "squared_hinge without bias",
    "nu_svc",
    "svr",
    "svr without bias",
    "nu_svr",
    "one_class",
    "svdd",
)


def random_data(rng, n):
    """A kernel matrix (low-rank linear or RBF, half of them with duplicate rows) and its X."""
    X = rng.normal(size=(n, 3))
    if rng.random() < 0.5:
        X[n // 2 :] = X[: n - n // 2]
    if rng.random() < 0.4:
        return X[:, :2] @ X[:, :2].T, X
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return np.exp(-rng.uniform(0.1, 2.0) * squares), X


def random_problem(kind, rng, *, n=None):
    """A random small problem of a formulation: weights with zeros, C from 1e-2 to 1e3."""
    n = int(rng.integers(4, 31)) if n is None else n
    K, X = random_data(rng, n)
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    w = np.ones(n) if rng.random() < 0.3 else rng.uniform(0.2, 3.0, n)
    w[2:] *= rng.random(n - 2) > 0.15
    C, nu = 10 ** rng.uniform(-2, 3), rng.uniform(0.05, 1.0)
    name, _, variant = kind.replace(" without", ", without").partition(", ")
    make, given = getattr(problems, name), {"sample_weight": w}
    if "bias" in variant:
        given["bias"] = False
    elif variant:
        given["scaling"] = variant
    if name in ("one_class", "svdd"):
        return make(MatrixGram(K), nu=nu, **given)
    if name == "hard_margin":  # a ridge makes every labelling separable
        return make(MatrixGram(K + 0.1 * np.eye(n)), y, **given)
    if name == "nu_svc":
        most = 2 * min(w[y > 0].sum(), w[y < 0].sum()) / w.sum()
        return make(MatrixGram(K), y, nu=nu * most, **given)
    z = X[:, 0] + rng.normal(size=n)
    if name == "svr":
        return make(MatrixGram(K), z, C=C, epsilon=rng.uniform(0, 0.5), **given)
    if name == "nu_svr":
        return make(MatrixGram(K), z, C=C, nu=nu, **given)
    return make(MatrixGram(K), y, C=C, **given)


def random_feasible(problem, rng):
    """A random feasible β: anything, projected."""
    size = np.where(np.isfinite(problem.u - problem.l), problem.u - problem.l, 1.0)
    return problem.project(rng.normal(size=problem.n_variables) * size)


# ---- the notes' own primals at fixed w, minimised over what is left; slow and explicit --------


def lp(c, A, b, bounds):
    """min cᵀx, Ax ≥ b."""
    found = linprog(c, A_ub=-np.array(A), b_ub=-np.array(b), bounds=bounds)
    return found.fun if found.status == 0 else np.inf


def fixed_w_primal(problem, beta):
    """½‖w‖² + loss, the loss with its slacks as an LP (or a scalar search) over the rest."""
    C, n, name = problem.C, problem.gram.n, problem.name
    coef = problem.by_row(beta)
    f = problem.gram.K @ coef
    w2, eye, one = coef @ f, np.eye(n), np.ones((n, 1))
    kept = C > 0
    free, pos = (None, None), (0, None)
    b_range = free if problem.n_groups else (0, 0)
    y = problem.y
    if name == "hard_margin":  # smallest t with y (t f + b) ≥ 1
        A = np.column_stack([y * f, y])[kept]
        t = lp([1, 0], A, np.ones(len(A)), [pos, b_range])
        return 0.5 * w2 * t * t if np.isfinite(t) else np.inf
    if name == "soft_margin":  # N0 eq. (62)
        A = np.hstack([y[:, None], eye])
        return 0.5 * w2 + lp([0, *C], A, 1 - y * f, [b_range] + [pos] * n)
    if name == "squared_hinge":

        def loss(b):
            return (C * np.maximum(0, 1 - y * (f + b)) ** 2).sum()

        reach = 3 + np.abs(f).max()
        best = minimize_scalar(loss, bounds=(-reach, reach), options={"xatol": 1e-12}).fun
        return 0.5 * w2 + (best if problem.n_groups else loss(0.0))
    if name == "nu_svc":  # N4 (SVM_s2')
        A = np.hstack([y[:, None], -one, eye])
        K_m = problem.nu * C.sum()
        return 0.5 * w2 + lp([0, -K_m, *C], A, -y * f, [free, pos] + [pos] * n)
    if name == "one_class":
        A = np.hstack([-one, eye])
        return 0.5 * w2 + lp([-problem.nu * C.sum(), *C], A, -f, [free] + [pos] * n)
    if name == "svdd":
        d2 = problem.gram.diag - 2 * f + w2
        A = np.hstack([one, eye])
        return lp([1, *C], A, d2, [pos] + [pos] * n)
    tube = (0, None) if name == "nu_svr" else (problem.epsilon,) * 2
    price = problem.nu * C.sum() if name == "nu_svr" else 0.0
    above, below = np.hstack([one, one, eye]), np.hstack([-one, one, eye])
    b = np.concatenate([problem.z - f, f - problem.z])
    return 0.5 * w2 + lp([0, price, *C], np.vstack([above, below]), b, [b_range, tube] + [pos] * n)
