"""Kernel principal component analysis, with scikit-learn's interface and a residual to show."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import (
    _check_psd_eigenvalues,
    check_array,
    check_is_fitted,
    validate_data,
)

from maxmargin.estimators._eigen import SOLVERS, Centred, Free, Task, centred
from maxmargin.estimators._pairwise import NAMES, combine, compiled, pairwise, prepare, threads_of
from maxmargin.estimators._typed import typed
from maxmargin.grams import Gram, check_data, default_cache_size
from maxmargin.kernels import Kernel, Linear, Precomputed

__all__ = ["KernelPCA"]

Array = NDArray[Any]

_FEW = 20  # rows for each component: with fewer, a Krylov space is as large as the matrix


class _NoSparsePreImages(NotImplementedError, TypeError):
    """What scikit-learn's KernelPCA raises, and what its checks of an estimator ask for."""


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Find the directions of largest variance in a kernel's feature space.

    A drop-in for :class:`sklearn.decomposition.KernelPCA` that also says how exact each component
    is (``residuals_``), and that does without the kernel matrix where that does not fit in memory.

    Parameters
    ----------
    n_components : int or None, default=None
        None, or more than there are samples: all; None leaves out those of eigenvalue 0.
    kernel : str, Kernel or callable, default="linear"
        "linear", "poly", "rbf", "sigmoid", "cosine", "laplacian", "chi2", "additive_chi2" or
        "precomputed"; a kernel of :mod:`maxmargin.kernels`; or, as in scikit-learn, a function of
        two rows that returns a number.
    gamma : float or None, default=None
        Of a kernel given by name; None is 1 / n_features.
    degree : float, default=3
        Of "poly".
    coef0 : float, default=1
        Of "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Keywords of a callable.
    alpha : float, default=1.0
        Ridge penalty of the pre-images.
    fit_inverse_transform : bool, default=False
        Whether to learn pre-images.
    eigen_solver : {"auto", "dense", "arpack", "randomized", "krylov"}, default="auto"
        LAPACK, Lanczos, a random projection (approximate), or block Krylov, which needs the fewest
        products with the matrix. "auto" is "krylov" where the matrix is not held, else "arpack" for
        fewer than 10 components of more than 200 samples, else "dense".
    tol : float, default=0
        Of "arpack", where 0 is the precision of the machine, and of "krylov": the largest of
        ``residuals_`` over the largest eigenvalue, where 0 is 1e-10.
    max_iter : int or None, default=None
        Of "arpack", and products with the matrix of "krylov", where None is 200.
    iterated_power : int or "auto", default="auto"
        Power iterations of "randomized".
    remove_zero_eig : bool, default=False
        Whether to leave out components of eigenvalue 0.
    random_state : int, RandomState instance or None, default=None
        Of all solvers but "dense".
    copy_X : bool, default=True
        Whether ``X_fit_`` is a copy of X. X itself is never written to.
    n_jobs : int or None, default=None
        Threads for kernel values; None and -1 are all CPUs.
    cache_size : float or None, default=None
        MB that the kernel matrix may take. A larger one is not held: its entries are computed for
        each product, unless the solver is "dense" ("auto" and more than n_samples / 20 components
        too) or the kernel is not compiled. None is a quarter of the free memory.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        In decreasing order.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Of unit length; the entry of largest modulus is positive.
    residuals_ : ndarray of shape (n_components,)
        :math:`\|\tilde K v - \lambda v\|`, recomputed after the solver is done: the matrix has an
        eigenvalue within that distance of each of ``eigenvalues_``.
    dual_coef_ : ndarray of shape (n_samples, n_features)
        Coefficients of the pre-images.
    X_transformed_fit_ : ndarray of shape (n_samples, n_components)
        Projections of the training rows, for the pre-images.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        What was given to fit.
    gamma_ : float
    kernel_ : str, Kernel or callable
        The kernel with all parameters numbers, if it is a Kernel.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Notes
    -----
    The components are the k orthonormal directions :math:`w_j` of the feature space that keep most
    of the variance of the images of the samples about their mean :math:`\bar\phi`:

    .. math:: \max_{w_1, \dots, w_k} \sum_{j=1}^{k} \sum_{i=1}^{n}
       \langle w_j, \phi(x_i) - \bar\phi \rangle^2
       \quad\text{s.t.}\quad \langle w_j, w_l \rangle = \delta_{jl}

    They are :math:`w_j = \lambda_j^{-1/2} \sum_i v_{ij} (\phi(x_i) - \bar\phi)` with
    :math:`\tilde K v_j = \lambda_j v_j`, where :math:`\tilde K = H K H` and
    :math:`H = I - 11^\top / n` (Schölkopf, Smola & Müller 1998). The pre-image of a projection z is
    a kernel ridge regression of x on z, :math:`(K_z + \alpha I)^{-1} X` (Bakır, Weston & Schölkopf
    2004).

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from maxmargin import KernelPCA
    >>> X, y = make_circles(300, factor=0.3, noise=0.05, random_state=0)
    >>> model = KernelPCA(n_components=2, kernel="rbf", gamma=2.0, random_state=0)
    >>> Z = model.fit_transform(X)
    >>> model.eigenvalues_.round(1)
    array([45.1, 36.9])
    >>> bool(model.residuals_.max() < 1e-10)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({*NAMES, "precomputed"}), Kernel, callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions({*SOLVERS})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
        "cache_size": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: int | str = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        cache_size: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.cache_size = cache_size

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed()
        tags.input_tags.sparse = not (self._precomputed() or self.fit_inverse_transform)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _precomputed(self) -> bool:
        if isinstance(self.kernel, str):
            return self.kernel == "precomputed"
        return isinstance(self.kernel, Precomputed)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    # ---- fitting ------------------------------------------------------------------------------

    @typed(_fit_context(prefer_skip_nested_validation=True))
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The symmetric matrix of shape (n_samples, n_samples) for ``kernel="precomputed"``.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        X = self._validate_fit(X)
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        self.kernel_ = self.kernel.resolve(X) if isinstance(self.kernel, Kernel) else self.kernel
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        self._origin = self._find_origin(X)
        matrix = self._matrix(self._rows(X), dtype)
        values, V = SOLVERS[self.eigen_solver](matrix, self._task(matrix.n))
        values = _check_psd_eigenvalues(values, enable_warnings=False)
        order = values.argsort()[::-1]
        if self.remove_zero_eig or self.n_components is None:
            order = order[values[order] > 0]
        values, V = values[order], svd_flip(V[:, order], None)[0]
        self.residuals_, means = matrix.judge(values, V)
        del matrix
        self._set_projection(values, V, means)
        self.eigenvalues_ = values.astype(dtype, copy=False)
        self.eigenvectors_ = V.astype(dtype, copy=False)
        self.X_fit_ = X
        if self.fit_inverse_transform:
            self._fit_pre_images(X)
        return self

    def _validate_fit(self, X: Any) -> Any:
        if self._precomputed():
            if self.fit_inverse_transform:
                raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")
            if sp.issparse(X):
                raise TypeError("Sparse precomputed kernels are not supported.")
        X = validate_data(self, X, accept_sparse="csr", copy=self.copy_X)
        if self._precomputed() and X.shape[0] != X.shape[1]:
            shape = "x".join(map(str, X.shape))
            raise ValueError(f"Kernel matrix must be a square matrix. Input is a {shape} matrix.")
        if self.fit_inverse_transform and sp.issparse(X):
            raise _NoSparsePreImages(
                "Inverse transform not implemented for sparse matrices! Pre-images would be dense."
            )
        return X

    def _task(self, n: int) -> Task:
        k = n if self.n_components is None else min(n, self.n_components)
        return Task(k, self.tol, self.max_iter, self.iterated_power, self.random_state)

    def _settings(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel_,
            "gamma": self.gamma_,
            "degree": self.degree,
            "coef0": self.coef0,
            "kernel_params": self.kernel_params,
            "n_threads": threads_of(self.n_jobs),
        }

    def _find_origin(self, X: Any) -> Array | None:
        """Return the mean of dense rows for "linear": far from 0, centring K would lose digits."""
        named = isinstance(self.kernel_, str) and self.kernel_ == "linear"
        if sp.issparse(X) or not (named or isinstance(self.kernel_, Linear)):
            return None
        check_data(Linear(), X)
        first = X[0].astype(np.float64)  # what is constant is then exactly so
        return np.asarray(first + (X - first).mean(axis=0))

    def _rows(self, X: Any) -> Any:
        if self._origin is None:
            return X
        return (X.toarray() if sp.issparse(X) else X) - self._origin

    def _matrix(self, X: Any, dtype: Any) -> Centred:
        """Choose whether the matrix is held, and make it."""
        n, solver = X.shape[0], self.eigen_solver
        most = {"dense": 0, "auto": n // _FEW}.get(solver, n - 1)
        known = compiled(self.kernel_, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)
        threads = threads_of(self.n_jobs)
        if known is not None and self._task(n).k <= most and not self._fits(n, dtype):
            return Free(Gram(known, prepare(X, self.kernel_), n_threads=threads))
        if self._precomputed():
            return centred(X, dtype=dtype, symmetric=False, own=False)
        K = pairwise(X, **self._settings())
        return centred(K, dtype=dtype, symmetric=known is not None, own=True)

    def _fits(self, n: int, dtype: Any) -> bool:
        need = (8 if dtype == np.float64 else 12) * n**2 / 2**20  # float32 comes from float64
        return need <= (default_cache_size() if self.cache_size is None else self.cache_size)

    def _set_projection(self, values: Array, V: Array, means: Array) -> None:
        """Keep what a projection k(x, X) C − c needs; a component of eigenvalue 0 gives 0."""
        scale = np.zeros(len(values))
        np.divide(1.0, np.sqrt(values, dtype=np.float64), out=scale, where=values > 0)
        self._coef = (V - V.mean(axis=0, dtype=np.float64)) * scale
        self._shift = means * scale

    def _fit_pre_images(self, X: Any) -> None:
        Z = self._projections()
        K = pairwise(Z, **self._settings()).astype(Z.dtype, copy=False)
        K.flat[:: len(K) + 1] += self.alpha
        try:
            self.dual_coef_ = sl.solve(K, X, assume_a="pos", overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                f"The kernel matrix of the projections with alpha={self.alpha:g} on its diagonal "
                "is not positive definite, so the pre-images have no ridge regression; raise alpha."
            ) from error
        self.X_transformed_fit_ = Z

    def _projections(self) -> Array:
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    # ---- projecting ---------------------------------------------------------------------------

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Array:
        """Find the components of the rows of X and project these rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : None
            Ignored.
        **params : dict
            Of ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self.fit(X, **params)
        return self._projections()

    def transform(self, X: Any) -> Array:
        """Project rows on the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            ``k(X, X_fit_)`` of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=not self._precomputed() and "csr", reset=False)
        return self._rounded(self._project(X), X, self.X_fit_)

    def _project(self, X: Any) -> Array:
        if self._precomputed():
            return np.asarray(X @ self._coef - self._shift)
        rows = self._rows(self.X_fit_)
        return combine(self._rows(X), rows, self._coef, **self._settings()) - self._shift

    def inverse_transform(self, X: Any) -> Array:
        """Return the pre-images of projections, by the ridge regression learnt in fit.

        The mean of the features is lost by centring: for the linear kernel, pre-images are about
        that mean (:class:`sklearn.decomposition.PCA` adds it back).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        if not self.fit_inverse_transform:
            raise NotFittedError(
                "The fit_inverse_transform parameter was not set to True when instantiating and "
                "hence the inverse transform is not available."
            )
        check_is_fitted(self, "dual_coef_")
        X = check_array(X, accept_sparse="csr")
        found = combine(X, self.X_transformed_fit_, self.dual_coef_, **self._settings())
        return self._rounded(found, X, self.X_transformed_fit_)

    @staticmethod
    def _rounded(values: Array, *inputs: Any) -> Array:
        """As scikit-learn: float32 if both sets of rows are."""
        single = all(rows.dtype == np.float32 for rows in inputs)
        return values.astype(np.float32 if single else np.float64, copy=False)
