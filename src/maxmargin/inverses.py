"""Invert K + D: by a Cholesky factor, by eigenvalues, or for K = F Fᵀ in the primal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, blas, eigh, lapack, svd

from maxmargin.grams import Gram

__all__ = ["Decomposed", "Dense", "Features", "Inverse", "Spectrum", "System", "Woodbury"]

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 512  # rows handled at a time where a triangle is copied or summed


class Inverse(Protocol):
    """An approximate inverse of K + D."""

    @property
    def name(self) -> str:
        """The method."""

    @property
    def definite(self) -> bool:
        """Whether K + D was found positive definite."""

    def __call__(self, B: Floats) -> Floats:
        """Apply it to the columns of B."""

    def diagonal(self) -> Floats:
        """Return its diagonal."""


class System(Protocol):
    """A matrix K that can be multiplied, and inverted once a diagonal is added."""

    @property
    def n(self) -> int:
        """The number of rows."""

    def product(self, B: Floats) -> Floats:
        """Return K B in float64."""

    def inverse(self, D: Floats) -> Inverse:
        """Return the inverse of K + diag(D)."""


# ---- the whole matrix ----------------------------------------------------------------------------


class Dense:
    """Hold K once: its lower triangle stays, its upper one becomes the Cholesky factor.

    Parameters
    ----------
    gram : Gram

    Examples
    --------
    >>> from maxmargin.kernels import Linear
    >>> system = Dense(Linear().gram([[1.0], [2.0]]))
    >>> system.inverse(np.ones(2))(np.array([[1.0], [2.0]])).round(4)
    array([[0.1667],
           [0.3333]])
    """

    def __init__(self, gram: Gram) -> None:
        n = self.n = gram.n
        K = gram.rows(np.arange(n))
        self._matrix = K.T  # in Fortran's order, so that LAPACK works in place
        self._corner = K.reshape(-1)[:: n + 1]  # a view of the diagonal
        self._diag = self._corner.copy()
        self._whole = True  # both triangles hold K

    def product(self, B: Floats) -> Floats:
        """Return K B, from the lower triangle."""
        self._corner[:] = self._diag
        if B.shape[1] == 1:
            return np.asarray(blas.dsymv(1.0, self._matrix, B[:, 0], lower=1))[:, None]
        out = blas.dsymm(1.0, self._matrix, np.asfortranarray(B), side=0, lower=1)
        return np.asarray(out)

    def inverse(self, D: Floats) -> Inverse:
        """Factorise K + diag(D); where it is not positive definite, by its eigenvalues."""
        self._restore(self._diag + D)
        self._whole = False
        _, info = lapack.dpotrf(self._matrix, lower=0, clean=0, overwrite_a=1)
        if info == 0:
            return _Cholesky(self._matrix, self._corner)
        return self.by_eigenvalues(D)

    def by_eigenvalues(self, D: Floats) -> Inverse:
        """Invert K + diag(D) on the space where it is not numerically 0."""
        self._restore(self._diag + D)
        values, vectors = eigh(self._matrix, driver="evd", check_finite=False)
        return _Spectral.pseudo(values, vectors)

    def spectrum(self, root: Floats) -> Spectrum:
        """Decompose diag(root) K diag(root)."""
        self._restore(self._diag)
        scaled = root[:, None] * self._matrix * root
        values, vectors = eigh(scaled, driver="evd", overwrite_a=True, check_finite=False)
        values[np.abs(values) <= self.n * _EPS * np.abs(values).max()] = 0.0
        return Spectrum(values=values, vectors=vectors, root=root)

    def _restore(self, diagonal: Floats) -> None:
        """Let both triangles hold K again, with this diagonal."""
        M = self._matrix
        for a in range(0, 0 if self._whole else self.n, _BLOCK):
            e = min(a + _BLOCK, self.n)
            M[:a, a:e] = M[a:e, :a].T
            below = np.tril(M[a:e, a:e], -1)
            M[a:e, a:e] = below + below.T
        self._whole = True
        self._corner[:] = diagonal


class _Cholesky:
    """K + D = UᵀU, with U in the upper triangle of a matrix that others use too."""

    name, definite = "cholesky", True

    def __init__(self, matrix: Floats, corner: Floats) -> None:
        self._matrix, self._corner, self._pivots = matrix, corner, corner.copy()

    def __call__(self, B: Floats) -> Floats:
        self._corner[:] = self._pivots
        solution, _ = lapack.dpotrs(self._matrix, np.asfortranarray(B), lower=0)
        return np.asarray(solution)

    def diagonal(self) -> Floats:
        """Sum the squares of the rows of U⁻¹; the factor is used up."""
        self._corner[:] = self._pivots
        lapack.dtrtri(self._matrix, lower=0, overwrite_c=1)
        sums = np.zeros(len(self._pivots))
        for a in range(0, len(sums), _BLOCK):
            part = np.triu(self._matrix[:, a : a + _BLOCK], -a)
            sums += np.einsum("ij,ij->i", part, part)
        return sums


class _Spectral:
    """diag(root) (V diag(g − c) Vᵀ + c) diag(root): an inverse told by eigenvectors."""

    name = "eigen"

    def __init__(
        self, vectors: Floats, g: Floats, *, root: Floats | float, rest: float, definite: bool
    ) -> None:
        self._vectors, self._g, self._rest, self.definite = vectors, g, rest, definite
        self._root = np.broadcast_to(root, len(vectors))

    @classmethod
    def pseudo(cls, values: Floats, vectors: Floats) -> _Spectral:
        cut = len(values) * _EPS * float(np.abs(values).max())
        kept = np.abs(values) > cut
        g = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
        return cls(vectors, g, root=1.0, rest=0.0, definite=bool(values[0] > cut))

    def __call__(self, B: Floats) -> Floats:
        B = self._root[:, None] * B
        inner = (self._g - self._rest)[:, None] * (self._vectors.T @ B)
        out: Floats = self._root[:, None] * (self._vectors @ inner + self._rest * B)
        return out

    def diagonal(self) -> Floats:
        squares = _squares(self._vectors, (self._g - self._rest)[:, None])[:, 0]
        out: Floats = np.square(self._root) * (squares + self._rest)
        return out


def _squares(V: Floats, G: Floats) -> Floats:
    """(V ∘ V) G, a few rows at a time."""
    blocks = (np.square(V[a : a + _BLOCK]) @ G for a in range(0, len(V), _BLOCK))
    return np.concatenate(list(blocks))


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    r"""Hold an eigendecomposition of :math:`R K R`, R = diag(root): K + α R⁻² for every α at once.

    Parameters
    ----------
    values : ndarray of shape (k,)
        k < n: the other eigenvalues are 0.
    vectors : ndarray of shape (n, k)
    root : ndarray of shape (n,)
        Square roots of the weights.

    Examples
    --------
    >>> spectrum = Features(np.array([[3.0], [4.0]])).spectrum(np.ones(2))
    >>> spectrum.values.round(6), spectrum.degrees(np.array([25.0])).round(6)
    (array([25.]), array([0.5]))
    """

    values: Floats
    vectors: Floats
    root: Floats

    def _rest(self, alpha: Any) -> Any:
        """The inverse of what is outside the eigenvectors, where K is 0."""
        return 1.0 / alpha if len(self.values) < len(self.root) else 0.0 * alpha

    def inverse(self, alpha: float) -> Inverse:
        """Return the inverse of K + α R⁻²."""
        g, definite = 1.0 / (self.values + alpha), bool((self.values + alpha > 0).all())
        return _Spectral(self.vectors, g, root=self.root, rest=self._rest(alpha), definite=definite)

    def path(self, alphas: Floats, Y: Floats) -> Floats:
        """Return (K + α R⁻²)⁻¹ Y for each α: (n_alphas, n, n_targets)."""
        scaled = self.root[:, None] * Y
        inner = (self.vectors.T @ scaled)[:, None, :]  # (k, 1, n_targets)
        rest = self._rest(alphas)[:, None]
        factors = 1.0 / (self.values[:, None] + alphas) - rest.T  # (k, n_alphas)
        k, count = len(self.values), len(alphas)
        sums = self.vectors @ (factors[:, :, None] * inner).reshape(k, -1)
        out = sums.reshape(len(Y), count, -1) + rest * scaled[:, None, :]
        path: Floats = (self.root[:, None, None] * out).transpose(1, 0, 2)
        return path

    def diagonals(self, alphas: Floats) -> Floats:
        """Return the diagonal of (K + α R⁻²)⁻¹ for each α: (n_alphas, n)."""
        rest = self._rest(alphas)
        squares = _squares(self.vectors, 1.0 / (self.values[:, None] + alphas) - rest)
        out: Floats = (np.square(self.root)[:, None] * (squares + rest)).T
        return out

    def block(self, alpha: float, rows: NDArray[np.int64]) -> Floats:
        """Return rows and columns of (K + α R⁻²)⁻¹."""
        rest, root = self._rest(alpha), self.root[rows]
        part = self.vectors[rows]
        inner: Floats = (part / (self.values + alpha) - rest * part) @ part.T
        inner[np.diag_indices_from(inner)] += rest
        return root[:, None] * inner * root

    def degrees(self, alphas: Floats) -> Floats:
        """Return the degrees of freedom, the trace of K (K + α R⁻²)⁻¹, for each α."""
        out: Floats = (self.values[:, None] / (self.values[:, None] + alphas)).sum(axis=0)
        return out


@dataclass(frozen=True)
class Decomposed:
    """A system with its spectrum, so that every D = α R⁻² is inverted at the price of a product.

    Parameters
    ----------
    system : System
    spectrum : Spectrum
        Of this system.
    """

    system: System
    spectrum: Spectrum

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.system.n

    def product(self, B: Floats) -> Floats:
        """Return K B, from K itself."""
        return self.system.product(B)

    def inverse(self, D: Floats) -> Inverse:
        """Return the inverse of K + diag(D)."""
        return self.spectrum.inverse(float(D[0]) * float(self.spectrum.root[0]) ** 2)


# ---- K = F Fᵀ ------------------------------------------------------------------------------------


class Features:
    """K = F Fᵀ with fewer columns than rows: the linear kernel, solved in the primal.

    Parameters
    ----------
    F : {ndarray, sparse matrix} of shape (n, p)

    Examples
    --------
    >>> system = Features(np.array([[1.0], [2.0]]))
    >>> system.inverse(np.ones(2))(np.array([[1.0], [2.0]])).round(4)
    array([[0.1667],
           [0.3333]])
    """

    def __init__(self, F: Any) -> None:
        self.F, self.n = F.astype(np.float64, copy=False), int(F.shape[0])

    def product(self, B: Floats) -> Floats:
        """Return F (Fᵀ B)."""
        return np.asarray(self.F @ (self.F.T @ B))

    def inverse(self, D: Floats) -> Inverse:
        """Factorise the p x p matrix of N3's primal solution, AᵀA + λI."""
        return Woodbury(self.F, D)

    def spectrum(self, root: Floats) -> Spectrum:
        """Decompose diag(root) K diag(root)."""
        F = self.F.toarray() if sparse.issparse(self.F) else self.F
        vectors, singular, _ = svd(root[:, None] * F, full_matrices=False, check_finite=False)
        return Spectrum(values=np.square(singular), vectors=vectors, root=root)


class Woodbury:
    """(F Fᵀ + D)⁻¹ = D⁻¹ − D⁻¹ F (I + Fᵀ D⁻¹ F)⁻¹ Fᵀ D⁻¹.

    Parameters
    ----------
    F : {ndarray, sparse matrix} of shape (n, p)
    D : ndarray of shape (n,)
        Positive.
    """

    name, definite = "primal", True

    def __init__(self, F: Any, D: Floats) -> None:
        self._F, self._D = F, D[:, None]
        if not (D > 0).all():
            raise LinAlgError("the primal system needs a positive diagonal")
        with np.errstate(over="ignore", invalid="ignore"):
            inner = _scaled_rows(F, 1.0 / D).T @ F
        inner = np.asfortranarray(inner.toarray() if sparse.issparse(inner) else inner)
        if not np.isfinite(inner).all():
            raise LinAlgError("the primal system overflows")
        inner[np.diag_indices_from(inner)] += 1.0
        self._factor, info = lapack.dpotrf(inner, lower=0, clean=0, overwrite_a=1)
        if info != 0:  # rounding: I alone is positive definite
            raise LinAlgError("the primal system is singular in float64")

    def __call__(self, B: Floats) -> Floats:
        """Apply it to the columns of B."""
        w, _ = lapack.dpotrs(self._factor, np.asfortranarray(self._F.T @ (B / self._D)), lower=0)
        out: Floats = (B - self._F @ w) / self._D  # a = (y − Xw) / α
        return out

    def diagonal(self) -> Floats:
        """Return the diagonal."""
        F = self._F.toarray() if sparse.issparse(self._F) else self._F
        w, _ = lapack.dpotrs(self._factor, np.asfortranarray(F.T), lower=0)
        D = self._D[:, 0]
        out: Floats = (1.0 - np.einsum("ij,ji->i", F, w) / D) / D
        return out


def _scaled_rows(F: Any, scale: Floats) -> Any:
    return sparse.diags_array(scale).tocsr() @ F if sparse.issparse(F) else scale[:, None] * F
