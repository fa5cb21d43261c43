"""Read the geometry of a solution: margins, distances, w and b.

Margins and distances are those of a Solution or of an explicit hyperplane ``(w, b)``; those of a
kernel machine lie in feature space. The plane is w·x + b = 0 with N0's sign; N4 writes w·x − b,
so its b is minus ours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from maxmargin import grams
from maxmargin.problems import ROUNDING

if TYPE_CHECKING:
    from maxmargin.problems import Problem
    from maxmargin.solvers.solve import Solution

__all__ = [
    "Hyperplane",
    "bias",
    "confidence",
    "convert_C",
    "decision",
    "distance",
    "functional_margin",
    "geometric_margin",
    "hyperplane",
    "norm",
    "projection",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Strings = NDArray[np.str_]
Interval = tuple[float, float]


class Hyperplane(NamedTuple):
    """The set of all x with w·x + b = 0; at distance abs(b) / ‖w‖ from the origin (N0 §1).

    Examples
    --------
    >>> Hyperplane(np.array([3.0, 4.0]), -5.0).b
    -5.0
    >>> distance(Hyperplane(np.array([3.0, 4.0]), -5.0), [[0.0, 0.0]])
    array([1.])
    """

    w: Floats
    b: float


Plane: TypeAlias = "Solution | tuple[ArrayLike, float]"

# ---- margins and distances ---------------------------------------------------------------------


def decision(of: Plane, X: Any = None, *, points: str = "support") -> Floats:
    r"""Evaluate the decision function w·φ(x) + b.

    Parameters
    ----------
    of : Solution or (w, b)
    X : {array-like, sparse matrix} of shape (n_samples, n_features), optional
        None: the training points of the solution. Where the Gram was given as a matrix (or by a
        Python function) these are the kernel values with all training points.
    points : {"support", "all"}
        Whether to sum over the support vectors alone or over every training point: the same
        number, as N1 has it; only the time differs.

    Returns
    -------
    ndarray of shape (n_samples,)

    Notes
    -----
    N0 eq. (61), N1: :math:`h(x) = \sum_{i \in S} \alpha_i y_i k(x_i, x) + b`.

    Examples
    --------
    >>> decision(([1.0, 1.0], -1.0), [[0.0, 0.0], [2.0, 3.0]])
    array([-1.,  4.])
    """
    if points not in ("support", "all"):
        raise ValueError(f"points={points!r} is not one of 'support', 'all'.")
    if isinstance(of, tuple):
        w, b = of
        if X is None:
            raise ValueError("an explicit hyperplane (w, b) has no training points: give X.")
        X = X if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        return np.asarray(X @ np.asarray(w, dtype=np.float64) + float(b))
    problem, offset = of.problem, _offset(of.problem, of.parameters)
    coef = problem.by_row(of.beta)
    if X is None:
        return problem.gram.matvec(coef) + offset
    used = np.flatnonzero(coef) if points == "support" else np.arange(len(coef))
    if problem.gram.matrix is None:
        if not len(used):
            return np.full(X.shape[0] if hasattr(X, "tocsr") else len(X), offset)
        values = grams.evaluate(problem.gram.kernel, X, problem.gram.X[used])
    else:
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != problem.gram.n:
            raise ValueError(
                f"X has shape {values.shape}; this Gram is a matrix, so X must hold the kernel "
                f"values with all {problem.gram.n} training points."
            )
        values = values[:, used]
    return values @ coef[used] + offset


def norm(of: Plane) -> float:
    r"""Return ‖w‖, in feature space: :math:`\|w\|^2 = \beta^\top K \beta`.

    Raises
    ------
    ValueError
        If w = 0 up to rounding: then there is no hyperplane.

    Examples
    --------
    >>> norm(([3.0, 4.0], 1.0))
    5.0
    """
    if isinstance(of, tuple):
        square = float(np.square(np.asarray(of[0], dtype=np.float64)).sum())
        noise = 0.0
    else:
        square, noise = norm_squared(of)
    if square <= noise:
        raise ValueError("w = 0: there is no hyperplane, hence no distance to it.")
    return math.sqrt(square)


def functional_margin(of: Plane, X: Any = None, y: ArrayLike | None = None) -> Floats:
    r"""Return the functional margin of each point; its smallest is N0's :math:`\hat\gamma`.

    Parameters
    ----------
    of : Solution or (w, b)
    X : {array-like, sparse matrix} of shape (n_samples, n_features), optional
    y : array-like of shape (n_samples,), each -1 or +1, optional
        X and y are the training points of a solution by default.

    Notes
    -----
    N0 §2: :math:`\hat\gamma^{(i)} = y_i (w \cdot x_i + b)`. Scaling (w, b) by κ scales it by κ,
    so it means nothing without ‖w‖; the hard margin makes the smallest one 1, a ν-SVM makes it η
    where there is no slack.

    Examples
    --------
    >>> functional_margin(([1.0, 1.0], -1.0), [[0.0, 0.0], [2.0, 3.0]], [-1, 1])
    array([1., 4.])
    """
    if (X is None) != (y is None):
        raise ValueError("X and y belong together: give both or neither.")
    if y is None and not isinstance(of, tuple):
        y = of.problem.y
        if y is None:
            raise ValueError(f"{of.problem.name} has no labels y, hence no margins.")
    return np.asarray(y, dtype=np.float64) * decision(of, X)


def geometric_margin(of: Plane, X: Any = None, y: ArrayLike | None = None) -> Floats:
    r"""Return the geometric margin of each point; its smallest is N0's γ.

    Parameters
    ----------
    of : Solution or (w, b)
    X : {array-like, sparse matrix} of shape (n_samples, n_features), optional
    y : array-like of shape (n_samples,), each -1 or +1, optional

    Notes
    -----
    N0 eq. (3): :math:`\gamma^{(i)} = y_i (w \cdot x_i + b) / \|w\|`, the signed distance to the
    hyperplane; no scaling of (w, b) changes it.

    Examples
    --------
    >>> geometric_margin(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]], [-1, 1])
    array([1., 4.])
    """
    return functional_margin(of, X, y) / norm(of)


def distance(of: Plane, X: Any = None) -> Floats:
    """Return the distance of each point to the hyperplane, abs(w·x + b) / ‖w‖.

    Parameters
    ----------
    of : Solution or (w, b)
    X : {array-like, sparse matrix} of shape (n_samples, n_features), optional

    Examples
    --------
    The origin is abs(b) / ‖w‖ away (N0 §1 leaves out the absolute value).

    >>> distance(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]])
    array([1., 4.])
    """
    return np.abs(decision(of, X)) / norm(of)


def projection(of: Plane, X: Any = None) -> Floats:
    r"""Return the nearest point of the hyperplane to each point.

    Parameters
    ----------
    of : Solution or (w, b)
        A solution with a kernel that has a finite feature map: Linear, Polynomial.
    X : array-like of shape (n_samples, n_features), optional

    Returns
    -------
    ndarray of shape (n_samples, n_features_of_w)
        In the space of w: for a polynomial kernel these are features φ(x), and no input x need
        have them.

    Notes
    -----
    N0 Figure 2: :math:`\operatorname{proj}(x) + \gamma\, w / \|w\| = x` with
    :math:`\gamma = (w \cdot x + b) / \|w\|`.

    Examples
    --------
    >>> projection(([3.0, 4.0], -5.0), [[0.0, 0.0]])
    array([[0.6, 0.8]])
    """
    plane = of if isinstance(of, tuple) else hyperplane(of)
    if not isinstance(of, tuple):
        kernel = of.problem.gram.kernel
        X = kernel.feature_map(of.problem.gram.X if X is None else X)
    signed = decision(plane, X) / norm(plane) ** 2
    w = np.asarray(plane[0], dtype=np.float64)
    return np.asarray(X, dtype=np.float64) - np.multiply.outer(signed, w)


def confidence(of: Plane, X: Any = None) -> Floats:
    r"""Return N0's confidence that each point is of class +1.

    Parameters
    ----------
    of : Solution or (w, b)
    X : {array-like, sparse matrix} of shape (n_samples, n_features), optional

    Notes
    -----
    N0 §2: :math:`\sigma(w \cdot x + b)`, :math:`\sigma(t) = 1 / (1 + e^{-t})`. An SVM is not
    trained to make this a probability: it orders points, it is not calibrated.

    Examples
    --------
    >>> confidence(([1.0], 0.0), [[-50.0], [0.0], [50.0]]).round(6)
    array([0. , 0.5, 1. ])
    """
    return np.asarray(expit(decision(of, X)), dtype=np.float64)


# ---- w and b -----------------------------------------------------------------------------------


def hyperplane(solution: Solution) -> Hyperplane:
    r"""Return w and b as numbers.

    Parameters
    ----------
    solution : Solution
        Of a kernel with a finite feature map: Linear (φ is the identity) or Polynomial.

    Notes
    -----
    N0 eq. (49): :math:`w = \sum_i \beta_i \phi(x_i) = \sum_i \alpha_i y_i \phi(x_i)`. The plane
    of a one-class machine is w·φ(x) − ρ.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[1.0, 0.0], [-1.0, 0.0]])
    >>> hyperplane(solve(problems.hard_margin(gram, [1, -1])))
    Hyperplane(w=array([1., 0.]), b=0.0)
    """
    gram, offset = solution.problem.gram, _offset(solution.problem, solution.parameters)
    coef = solution.problem.by_row(solution.beta)
    support = np.flatnonzero(coef)
    if not len(support):
        return Hyperplane(np.zeros(gram.kernel.n_features(gram.X.shape[1])), offset)
    return Hyperplane(coef[support] @ gram.kernel.feature_map(gram.X[support]), offset)


def bias(solution: Solution, *, over: str = "margin", tol: float = 1e-6) -> float:
    r"""Average the bias over support vectors.

    Parameters
    ----------
    solution : Solution
    over : {"margin", "all"}
        The support vectors with 0 < α < C (N1's M, N0 after eq. (77)), or all of them (N1's S):
        right for the hard margin only, since at α = C there is slack.
    tol : float
        An α this close to a bound, relative to it, is at the bound.

    Raises
    ------
    ValueError
        If there is no such support vector: b is then any number of an interval, which is told.

    Notes
    -----
    N1, with M or S for the outer sum:

    .. math:: b = \frac1{N_M} \sum_{n \in M}
              \Bigl(y_n - \sum_{m \in S} \alpha_m y_m k(x_n, x_m)\Bigr)

    For every formulation it is the mean of :math:`s - K\beta - D\beta` in each group of the one
    QP; ``solution.b`` instead is the b that makes the primal smallest for this w.

    Examples
    --------
    >>> from maxmargin import kernels, problems
    >>> from maxmargin.solvers import solve
    >>> gram = kernels.Linear().gram([[0.0], [2.0], [3.0]])
    >>> solution = solve(problems.soft_margin(gram, [-1, 1, -1], C=0.25))
    >>> [round(bias(solution, over=over), 6) for over in ("margin", "all")]
    [-1.0, -0.333333]
    """
    if over not in ("margin", "all"):
        raise ValueError(f"over={over!r} is not one of 'margin', 'all'.")
    problem, (zero, bound) = solution.problem, states(solution, tol)
    kbeta = problem.kbeta(solution.beta)
    each = problem.s - kbeta - problem.D * solution.beta
    chosen = ~zero if over == "all" else ~(zero | bound)
    lam = np.zeros(problem.n_groups)
    for g in range(problem.n_groups):
        members = problem.group == g
        if not (members & chosen).any():
            raise ValueError(_no_average(problem, each, members, zero, bound))
        lam[g] = each[members & chosen].mean()
    return _offset(problem, problem.parameters(lam, solution.beta))


def _no_average(problem: Problem, each: Floats, members: Bools, zero: Bools, bound: Bools) -> str:
    """Say that no support vector of a group fixes its multiplier, and in what interval it lies."""
    up = problem.u > 0
    can_rise, can_fall = np.where(up, ~bound, ~zero), np.where(up, ~zero, ~bound)
    inside = members & (problem.l < problem.u)
    low, high = interval(each, inside & can_rise, inside & can_fall)
    what = {1: "b", 2: "b - eta of the positive or b + eta of the negative class"}[problem.n_groups]
    return (
        "there is no support vector with 0 < alpha < C to average over: "
        f"{described(what, (low, high))} is all that is known."
    )


def convert_C(C: float, *, from_: str, to: str, n: float | None = None) -> float:
    r"""Convert the price of slack between the notes' scalings of the soft margin.

    Parameters
    ----------
    C : float
        C, or λ where ``from_="lambda"``.
    from_, to : {"sum", "mean", "doubled", "lambda"}
        The first three are the ``scaling`` of `maxmargin.problems.soft_margin`.
    n : float
        Number of samples, or the sum of their weights; needed for "mean" and "lambda".

    Notes
    -----
    The machine is the same, up to a factor of the objective:

    - sum, N0 eq. (62): :math:`\tfrac12 \|w\|^2 + C \sum \xi_i`
    - mean, N2: :math:`\tfrac12 \|w\|^2 + \tfrac{C}{n} \sum \xi_i`, C is n times that of "sum"
    - doubled, N3: :math:`w \cdot w + C \sum \xi_i`, C is twice that of "sum"
    - lambda, Pegasos: :math:`\tfrac\lambda2 \|w\|^2 + \tfrac1n \sum \xi_i`, λ = 1/(nC)

    Examples
    --------
    >>> convert_C(10.0, from_="mean", to="sum", n=50)
    0.2
    >>> convert_C(0.2, from_="sum", to="lambda", n=50)
    0.1
    """
    for name in (from_, to):
        if name not in ("sum", "mean", "doubled", "lambda"):
            raise ValueError(f"{name!r} is not one of 'sum', 'mean', 'doubled', 'lambda'.")
        if name in ("mean", "lambda") and (n is None or not n > 0):
            raise ValueError(f"{name!r} needs n, the number of samples; got {n}.")
    if not C > 0:
        raise ValueError(f"C={C} must be positive.")
    count = 1.0 if n is None else float(n)
    times = {"sum": 1.0, "mean": count, "doubled": 2.0, "lambda": count}
    plain = 1 / (C * count) if from_ == "lambda" else C / times[from_]
    return float(1 / (plain * count) if to == "lambda" else plain * times[to])


# ---- what they share ---------------------------------------------------------------------------


def _offset(problem: Problem, found: dict[str, float]) -> float:
    """What stands beside w·φ(x): b, or −ρ of a one-class machine."""
    if problem.name == "svdd":
        raise ValueError("svdd has a ball, not a hyperplane.")
    if problem.block is not None:
        raise ValueError(f"{problem.name} has a hyperplane for each class, not one.")
    return found["b"] if "b" in found else -found["rho"]


def norm_squared(solution: Solution) -> tuple[float, float]:
    """‖w‖² = βᵀKβ, and what of it may be rounding."""
    problem, beta = solution.problem, solution.beta
    square = float((beta * problem.kbeta(beta)).sum())
    return square, ROUNDING * problem.length(beta) ** 2


def states(solution: Solution, tol: float) -> tuple[Bools, Bools]:
    """Whether each variable is zero, and whether it is at its bound C."""
    problem, size = solution.problem, np.abs(solution.beta)
    room = problem.u - problem.l
    zero = size <= tol * np.minimum(room, size.max())
    return zero, ~zero & (size >= (1 - tol) * room)


def interval(values: Floats, below: Bools, above: Bools) -> Interval:
    """From the largest value below to the smallest above; their middle where they cross."""
    low = float(values[below].max(initial=-math.inf)) + 0.0  # no minus zero
    high = float(values[above].min(initial=math.inf)) + 0.0
    return (low, high) if low <= high else ((low + high) / 2,) * 2


def described(name: str, interval: Interval) -> str:
    low, high = interval
    if low == high:
        return f"{name} = {low:g}"
    return f"{name} >= {low:g}" if math.isinf(high) else f"{low:g} <= {name} <= {high:g}"
