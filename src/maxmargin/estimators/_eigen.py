r"""Leading eigenvectors of a centred Gram matrix :math:`\tilde K = H K H`, held or not.

A solver sees :math:`\tilde K` through ``product`` alone; ``Stored`` has it in memory, ``Free``
computes kernel values anew for each product. With :math:`H = I - 11^\top/n`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from maxmargin.grams import Gram
from maxmargin.kernels import Linear

__all__ = ["SOLVERS", "Centred", "Free", "Stored", "Task", "centred"]

Array = NDArray[Any]
Pair = tuple[Array, Array]

_MORE = 10  # random columns besides those asked for (Halko, Martinsson & Tropp 2011)
_BLOCKS = 8  # of columns in a Krylov space before it is restarted
_GOAL = 1e-10  # residual of the Krylov solver where tol is 0
_PRODUCTS = 200  # of the Krylov solver where max_iter is None
_SMALL = 200  # rows: up to here all eigenvalues cost nothing
_ROWS = 256  # centred at a time: they stay in cache


@dataclass(frozen=True)
class Task:
    """What is asked of a solver; the fields are those of KernelPCA."""

    k: int
    tol: float = 0.0
    max_iter: int | None = None
    iterated_power: int | str = "auto"
    random_state: Any = None


def times(A: Array, B: Array) -> Array:
    """A B by SciPy's BLAS: NumPy's has threads of its own, and spinning ones hinder the others.

    >>> times(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    turned, across = A.flags.c_contiguous, B.flags.c_contiguous
    gemm = sl.get_blas_funcs("gemm", (A, B))  # reads by columns, and would copy
    a, b = A.T if turned else A, B.T if across else B
    return np.asarray(gemm(1.0, a, b, trans_a=turned, trans_b=across))


class Centred:
    """A centred Gram matrix of n rows, as the solvers see it."""

    n: int
    dtype: Any = np.dtype(np.float64)

    def product(self, V: Array) -> Array:
        """Return K̃ V, for one vector or several as columns."""
        return self.image(V)[0]

    def image(self, V: Array) -> Pair:
        """Return K̃ V and the column means of K H V, which a projection of new rows subtracts."""
        raise NotImplementedError

    def judge(self, values: Array, V: Array) -> Pair:
        """Return ‖K̃v − λv‖ of each pair by a product of its own, and the means of K H V."""
        image, means = self.image(V)
        image -= V * values
        return np.linalg.norm(image, axis=0), means


class Stored(Centred):
    """The centred matrix itself; ``means`` are those of the columns of K."""

    def __init__(self, matrix: Array, means: Array) -> None:
        self.matrix, self.means = matrix, means.astype(matrix.dtype)
        self.n, self.dtype = len(matrix), matrix.dtype

    def image(self, V: Array) -> Pair:
        """Return K̃ V and the column means of K H V, which a projection of new rows subtracts."""
        means = times((V - V.mean(axis=0)).T, self.means[:, None])[:, 0]
        return times(self.matrix, V), means

    def product(self, V: Array) -> Array:
        """Return K̃ V, for one vector or several as columns."""
        if V.ndim == 2 and V.shape[1] > 1:
            return times(self.matrix, V)
        symv = sl.get_blas_funcs("symv", (self.matrix, V))  # reads one triangle: half the memory
        return np.asarray(symv(1.0, self.matrix.T, V.ravel())).reshape(V.shape)

    def eigh(self, k: int) -> Pair:
        """Return the k largest by LAPACK."""
        if 3 * k > self.n:  # divide and conquer finds all in less time than MRRR finds most
            values, V = sl.eigh(self.matrix.T, driver="evd", check_finite=False)
            return values[-k:], V[:, -k:]
        few = (self.n - k, self.n - 1)
        found: Pair = sl.eigh(self.matrix.T, subset_by_index=few, driver="evr", check_finite=False)
        return found


class Free(Centred):
    """The centred matrix of a Gram whose entries are computed for each product and forgotten."""

    def __init__(self, gram: Gram) -> None:
        self.gram, self.n = gram, gram.n
        self.X = None
        if isinstance(gram.kernel, Linear):  # X (Xᵀ V): no entry of K is needed at all
            self.X = gram.X.astype(np.float64, copy=False)

    def image(self, V: Array) -> Pair:
        """Return K̃ V and the column means of K H V, which a projection of new rows subtracts."""
        V = V - V.mean(axis=0)
        image = self.gram.matvec(V) if self.X is None else self.X @ (self.X.T @ V)
        means = image.mean(axis=0)
        return image - means, means


def centred(K: Array, *, dtype: Any, symmetric: bool, own: bool) -> Stored:
    """Centre a matrix, in place if it is our own; one that is not symmetric then is refused."""
    rows = K.mean(axis=1, dtype=np.float64)
    columns = rows if symmetric else K.mean(axis=0, dtype=np.float64)
    middle = rows.mean()
    if not np.isfinite(middle):
        raise ValueError(
            "The kernel matrix contains NaN or infinity; scale the features first, or choose other "
            "kernel parameters."
        )
    out = K if own and K.dtype == dtype else np.empty(K.shape, dtype=dtype)
    for a in range(0, len(K), _ROWS):
        part = slice(a, a + _ROWS)
        np.subtract(
            K[part], columns + (rows[part, None] - middle), out=out[part], casting="same_kind"
        )
    if not symmetric:
        _check_symmetric(out)
    return Stored(out, columns)


def _check_symmetric(K: Array) -> None:
    slack = 16 * np.sqrt(np.finfo(K.dtype).eps) * max(float(K.max()), -float(K.min()))
    for a in range(0, len(K), _ROWS):
        block = np.abs(K[a : a + _ROWS] - K[:, a : a + _ROWS].T)
        if block.max() > slack:
            i, j = (int(q) for q in np.unravel_index(int(block.argmax()), block.shape))
            raise ValueError(
                f"The kernel matrix is not symmetric, not even once it is centred: entries "
                f"({a + i}, {j}) and ({j}, {a + i}) then are {K[a + i, j]} and {K[j, a + i]}. "
                "Use (K + K.T) / 2 if that is what you mean."
            )


def auto(A: Centred, task: Task) -> Pair:
    """Choose as scikit-learn does where the matrix is held."""
    if isinstance(A, Free):
        return krylov(A, task)
    if A.n <= _SMALL or task.k >= 10:
        return dense(A, task)
    try:
        return arpack(A, task)
    except ArpackNoConvergence:  # eigenvalues that are all but 0, to a relative precision
        if task.max_iter is not None:
            raise
        return dense(A, task)


def dense(A: Centred, task: Task) -> Pair:
    """Find the largest eigenvalues by LAPACK."""
    assert isinstance(A, Stored)
    return A.eigh(task.k)


def arpack(A: Centred, task: Task) -> Pair:
    """Find the largest eigenvalues by ARPACK's implicitly restarted Lanczos method."""
    if isinstance(A, Stored) and task.k == A.n:  # ARPACK finds n - 1 at most
        return A.eigh(task.k)
    v0 = check_random_state(task.random_state).uniform(-1, 1, A.n)  # the draw of scikit-learn's
    operator = LinearOperator((A.n, A.n), matvec=A.product, dtype=A.dtype)
    try:
        found: Pair = eigsh(
            operator, task.k, which="LA", tol=task.tol, maxiter=task.max_iter, v0=v0
        )
    except ArpackError as error:  # it takes a zero matrix for a zero starting vector
        if "Starting vector is zero" not in str(error):
            raise
        return krylov(A, task)
    return found


def randomized(A: Centred, task: Task) -> Pair:
    """Find those of the largest modulus by a random projection (Halko et al. 2011, alg. 4.4, 5.1).

    Draws, powers and normalisation are those of scikit-learn, so the approximation is the same.
    """
    power = task.iterated_power
    n_iter = (7 if task.k < 0.1 * A.n else 4) if isinstance(power, str) else power
    Q = check_random_state(task.random_state).normal(size=(A.n, task.k + _MORE))
    Q = Q.astype(A.dtype, copy=False)
    for _ in range(2 * n_iter):
        Q = A.product(Q)
        if n_iter > 2:  # a few powers do not drown the small eigenvalues yet
            Q = sl.lu(Q, permute_l=True, check_finite=False)[0]
    Q = sl.qr(A.product(Q), mode="economic", check_finite=False)[0]
    U, size, Vt = sl.svd(A.product(Q).T, full_matrices=False, check_finite=False)
    V = times(Q, U)[:, : task.k]
    # |λ| is a singular value; the two vectors point apart where λ < 0.
    sign = np.sign(np.einsum("ij,ji->j", V, Vt[: task.k]))
    return sign * size[: task.k], V


def krylov(A: Centred, task: Task) -> Pair:
    """Find the largest eigenvalues by a restarted block Krylov method: few products, many columns.

    The space grows by the residuals of its leading Ritz pairs (block Davidson without
    preconditioner); images of the whole basis are kept, so every residual is an honest one.
    """
    eps, most = float(np.finfo(A.dtype).eps), task.max_iter or _PRODUCTS
    goal = max(task.tol or _GOAL, 8 * eps)
    width = min(task.k + _MORE, A.n)
    Q = check_random_state(task.random_state).normal(size=(A.n, width))
    Q = _orthonormal(Q.astype(A.dtype, copy=False), None)
    image = A.product(Q)
    for done in range(1, most + 1):
        T = times(Q.T, image)
        values, Y = sl.eigh((T + T.T) / 2, driver="evd", check_finite=False)
        values, Y = values[: -width - 1 : -1], Y[:, : -width - 1 : -1]
        V, KV = times(Q, Y), times(image, Y)
        R = KV - V * values
        norms = np.linalg.norm(R, axis=0) / (float(np.abs(values).max()) or 1.0)
        worst = float(norms[: task.k].max())
        if worst <= goal or done == most:
            break
        if Q.shape[1] + width > min(_BLOCKS * width, A.n):
            Q, image = V, KV
        more = _orthonormal(R[:, norms > 0.1 * goal], Q)  # what has converged has only noise left
        if more.shape[1] == 0:  # the space is invariant
            break
        Q, image = np.hstack([Q, more]), np.hstack([image, A.product(more)])
    if worst > goal and done == most:
        warnings.warn(
            f"stopped at max_iter={most} products with residual {worst:.1e} (asked tol={goal:g}); "
            "raise max_iter or tol, or ask for fewer components.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return values[: task.k], V[:, : task.k]


def _orthonormal(R: Array, Q: Array | None) -> Array:
    """An orthonormal basis of R's columns outside the span of Q, without their dependent part.

    Projecting twice is enough (Parlett), given that what is left of a column is not tiny: dividing
    by its length would blow up the part in Q that rounding leaves.
    """
    least = float(np.sqrt(np.finfo(R.dtype).eps))
    R = R / np.linalg.norm(R, axis=0)
    for _ in range(2):
        if Q is not None:
            R = R - times(Q, times(Q.T, R))
        if R.shape[1] == 0:
            return R
        R, triangle, _ = sl.qr(R, mode="economic", pivoting=True, check_finite=False)
        R = R[:, np.abs(triangle.diagonal()) > least]
    return R


SOLVERS: dict[str, Callable[[Centred, Task], Pair]] = {
    "auto": auto,
    "dense": dense,
    "arpack": arpack,
    "randomized": randomized,
    "krylov": krylov,
}
