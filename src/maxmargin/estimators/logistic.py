"""Kernel logistic regression: classification with probabilities."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.certificate import Certificate, certify
from maxmargin.estimators._base import SupportVectorMachine
from maxmargin.estimators._docs import documented
from maxmargin.estimators._parts import Part, Piece
from maxmargin.estimators.svc import _SupportVectorClassifier
from maxmargin.grams import Gram
from maxmargin.logistic import logistic
from maxmargin.solvers import GradientLogistic, NewtonLogistic, Solution

__all__ = ["KernelLogisticRegression"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@documented
class KernelLogisticRegression(_SupportVectorClassifier):
    r"""Classify with probabilities: logistic regression in the feature space of a kernel.

    Parameters
    ----------
    C : float, default=1.0
        Price of the loss, as in :class:`SVC`; finite.
    <kernel>
    class_weight : dict, "balanced" or None, default=None
        Multiplies the sample weights per class; without influence on ``gamma="scale"``.
    solver : {"newton", "gradient"}, default="newton"
        Newton's method with conjugate gradients, or the notes' gradient descent on α: thousands of
        steps, to be watched on small data.
    n_import_vectors : int or None, default=None
        Let w be a combination of at most so many rows, the import vectors, so that the model is as
        short as an SVM's. The certificate still compares with the best of all w: its gap says what
        the short model costs. For "newton" only.
    <solver_of_newton>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    dual_coef_ : {ndarray, sparse array} of shape (n_outputs, n_SV)
        :math:`\beta_i = y_i \alpha_i`, one row for two classes (positive for ``classes_[1]``), else
        one per class. Almost every row of X has one (N3: "almost always no" sparse solution).
    intercept_ : ndarray of shape (n_outputs,)
    n_iter_ : ndarray of shape (1,)
    n_support_ : ndarray of shape (n_classes,)
    <fitted>

    Notes
    -----
    N3, with :math:`C_i` the product of C, the sample's and the class's weight:

    .. math:: \min_{w, b} \tfrac12 \|w\|^2 + \sum_i C_i \log(1 + e^{-y_i (w \cdot \phi(x_i) + b)}),
              \qquad P(Y = 1 \mid x) = \sigma\bigl(\textstyle\sum_i \beta_i K(x_i, x) + b\bigr).

    For more than two classes one w and b each, :math:`\tfrac12 \sum_k \|w_k\|^2`, and the softmax
    of the scores. The dual has :math:`0 < \alpha_i < C_i` (a simplex of C_i per sample), sums of
    0 because b is free, and entropies in place of the SVM's linear term;
    :meth:`maxmargin.logistic.LogisticProblem.certificate` derives the gap.

    Import vectors are those of Zhu & Hastie (2005) in purpose, not in choice: rows are taken one
    by one, each the farthest in feature space from the span of those before it, whatever its
    label. Status ``stationary`` then means: the best w of that span.

    Examples
    --------
    >>> from maxmargin import KernelLogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = KernelLogisticRegression(C=10, gap_tol=1e-6).fit(X, y)
    >>> clf.certificate_.status == "optimal", clf.score(X, y) > 0.95
    (True, True)
    >>> clf.predict_proba(X[:1]).argmax() == y[0], round(float(clf.predict_proba(X[:1]).sum()), 9)
    (np.True_, 1.0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            k: v for k, v in SupportVectorMachine._parameter_constraints.items() if k != "shrinking"
        },
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "solver": [StrOptions({"newton", "gradient"})],
        "n_import_vectors": [None, Interval(Integral, 1, None, closed="left")],
    }

    # What the other classifiers let their users choose.
    multi_class = "softmax"
    decision_function_shape = "ovr"
    probability = break_ties = False

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        class_weight: Any = None,
        solver: str = "newton",
        n_import_vectors: int | None = None,
        tol: float = 1e-3,
        cache_size: float | None = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.solver = solver
        self.n_import_vectors = n_import_vectors
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start

    # ---- fitting ------------------------------------------------------------------------------

    def _cut(self, gram: Gram, kept: Ints, codes: Ints, weight: Floats | None) -> list[Part]:
        if self.n_import_vectors is not None and self.solver != "newton":
            raise ValueError("n_import_vectors needs solver='newton'.")
        make: Any = partial(logistic, gram, codes, C=self.C, sample_weight=weight)
        return [Part(kept, make)]

    def _solver(self) -> Any:
        if self.solver == "gradient":
            return GradientLogistic(record_every=self.record_every)
        return NewtonLogistic(
            gap_tol=self.gap_tol,
            n_import=self.n_import_vectors,
            cache_size=self.cache_size,
            n_threads=self.n_threads,
            record_every=self.record_every,
        )

    def _piece(self, part: Part, solution: Solution) -> Piece:
        piece = self._made(part, solution, solution.beta, {"b": 0.0})
        if self.n_import_vectors is None:
            return piece
        count = int(solution.beta.any(axis=1).sum())
        said = f"w is spanned by {count} import vectors; the gap is to the best of all w"
        return replace(piece, certificate=replace(piece.certificate, proof=said))

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        super()._store(X, y, pieces)
        self.intercept_ = pieces[0].certificate.lam.copy()

    # ---- prediction ---------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Floats:
        """Tell the probability of every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        f = self._scores(X)
        return np.hstack([expit(-f), expit(f)]) if f.shape[1] == 1 else softmax(f, axis=1)

    def predict_log_proba(self, X: Any) -> Floats:
        """Tell the logarithm of the probability of every class, also where that is below 1e-308.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        f = self._scores(X)
        return np.hstack([log_expit(-f), log_expit(f)]) if f.shape[1] == 1 else log_softmax(f, 1)

    # ---- proof --------------------------------------------------------------------------------

    def _proofs(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> list[Certificate]:
        proofs = []
        for _, problem, beta in self._fitted_points(X, y, sample_weight):
            proof = certify(problem, beta, tol=self.tol, gap_tol=self.gap_tol)
            off = float(np.abs(self.intercept_ - proof.lam).max())
            status = proof.status if off <= self.tol else None
            proofs.append(
                replace(proof, kkt_violation=max(proof.kkt_violation, off), status=status)
            )
        return proofs

    @property
    def ledger(self) -> Any:
        """Not available: without margins and bounds every sample has the same state."""
        raise AttributeError("KernelLogisticRegression has no ledger: no α is 0 and none is C.")
