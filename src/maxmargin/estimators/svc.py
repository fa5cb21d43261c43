"""Support vector classification, for two classes and more."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from maxmargin import problems
from maxmargin.estimators._base import FINE, SupportVectorMachine
from maxmargin.estimators._classes import ClassWeights
from maxmargin.estimators._docs import documented
from maxmargin.estimators._parts import Part, Piece, columns_of, placed, support_of
from maxmargin.estimators._probability import Probabilities
from maxmargin.grams import Gram
from maxmargin.problems import (
    ROUNDING,
    Problem,
    hard_margin,
    largest_nu,
    nu_svc,
    round_down,
    soft_margin,
    squared_hinge,
)
from maxmargin.solvers import Solution

__all__ = ["SVC", "NuSVC"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _SupportVectorClassifier(Probabilities, ClassWeights, ClassifierMixin, SupportVectorMachine):
    """Classes to pairs, pairs to problems, decision values to votes."""

    if TYPE_CHECKING:  # scikit-learn has no types

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "probability": ["boolean", StrOptions({"deprecated"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": ["random_state"],
        "multi_class": [StrOptions({"ovo", "ovr"})],
    }

    def _problem(self, gram: Gram, signs: Floats, weight: Floats | None) -> Problem:
        """The problem of two classes."""
        raise NotImplementedError

    def _check_classes(self, codes: Ints, weight: Floats | None) -> None:
        """Refuse what the weights of the classes alone make infeasible."""

    # ---- fitting ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        if self.probability is True and self.multi_class == "crammer_singer":
            raise ValueError(
                "multi_class='crammer_singer' has no probabilities of its own; wrap the SVC in "
                "sklearn.calibration.CalibratedClassifierCV instead."
            )
        if self.multi_class != "ovo" and self.decision_function_shape == "ovo":
            raise ValueError(
                f"multi_class={self.multi_class!r} has no decision value per pair of classes; "
                "decision_function_shape must be 'ovr'."
            )

    def _parts(self, X: Any, y: Any, weight: Floats | None) -> list[Part]:
        self._check_settings()
        labels = y if self._mode() != "function" else column_or_1d(y, warn=True)
        check_classification_targets(labels)
        self._classes(labels, weight)
        codes, both = self._codes(labels, weight)
        kept, X, both = self._keep(X, both)
        codes = codes[kept]
        self._check_classes(codes, both)
        gram = self._gram(X, weight if weight is None else weight[kept])
        parts = self._cut(gram, kept, codes, both)
        if weight is None or self.probability is not True:
            return parts
        return [replace(part, weight=weight[part.rows]) for part in parts]

    def _cut(self, gram: Gram, kept: Ints, codes: Ints, weight: Floats | None) -> list[Part]:
        """One problem for two classes, else one per pair or per class."""
        count = len(self.classes_)
        if count == 2:
            signs = np.where(codes == 1, 1.0, -1.0)
            return [Part(kept, partial(self._problem, gram, signs, weight))]
        order = np.argsort(codes, kind="stable")  # pairs of classes are then runs of rows
        gram, kept, codes = self._shared(gram.subset(order)), kept[order], codes[order]
        weight = None if weight is None else weight[order]
        if self.multi_class == "ovr":
            return [
                Part(
                    kept,
                    partial(self._problem, gram, np.where(codes == k, 1.0, -1.0), weight),
                    f"{self.classes_[k]} / rest",
                )
                for k in range(count)
            ]
        ends = np.searchsorted(codes, np.arange(count + 1))
        runs = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
        return [
            self._pair(gram, kept, weight, runs, i, j)
            for i, j in itertools.combinations(range(count), 2)
        ]

    def _shared(self, gram: Gram) -> Gram:
        """Compute once what several problems need, if it fits into the cache."""
        return gram.stored() if self._fits(gram) else gram

    def _pair(
        self, gram: Gram, kept: Ints, weight: Floats | None, runs: list[Ints], i: int, j: int
    ) -> Part:
        rows = np.concatenate([runs[i], runs[j]])

        def make() -> Problem:
            signs = np.ones(len(rows))
            signs[len(runs[i]) :] = -1.0
            return self._problem(gram.subset(rows), signs, None if weight is None else weight[rows])

        return Part(kept[rows], make, f"{self.classes_[i]} / {self.classes_[j]}")

    def _store(self, X: Any, y: Any, pieces: list[Piece]) -> None:
        support = support_of(pieces)
        codes = np.searchsorted(self.classes_, np.ravel(y)[support])
        order = np.argsort(codes, kind="stable")  # scikit-learn's: by class
        support, codes = support[order], codes[order]
        self.n_support_ = np.bincount(codes, minlength=len(self.classes_)).astype(np.int32)
        pairs = len(pieces) > 1 and self.multi_class == "ovo"
        coef = self._layout(pieces, support, codes) if pairs else columns_of(pieces, support).T
        self._store_support(X, support, coef)
        self.intercept_ = np.array([piece.found["b"] for piece in pieces])
        self._scheme = self.multi_class
        self._store_sigmoids(pieces)
        counts = np.array([piece.n_iter for piece in pieces])
        self.n_iter_ = counts.astype(np.int32 if counts.max() < 2**31 else np.int64)

    def _slots(self) -> list[tuple[int, slice, int, slice]]:
        """For each pair i < j: where ``dual_coef_`` holds the coefficients of i and of j."""
        ends = np.concatenate([[0], np.cumsum(self.n_support_)])
        own = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        count = len(self.classes_)
        return [(j - 1, own[i], i, own[j]) for i, j in itertools.combinations(range(count), 2)]

    def _layout(self, pieces: list[Piece], support: Ints, codes: Ints) -> Floats:
        """Coefficients per pair as LIBSVM lays them out: (n_classes - 1, n_SV)."""
        coef = np.zeros((len(self.classes_) - 1, len(support)))
        pairs = itertools.combinations(range(len(self.classes_)), 2)
        for (i, j), (at, values) in zip(pairs, placed(pieces, support), strict=True):
            coef[np.where(codes[at] == i, j - 1, i), at] = values[:, 0]
        return coef

    def _columns(self) -> Floats:
        coef = self._dense_coef()
        if len(self.classes_) == 2 or self.multi_class != "ovo":
            return coef.T
        slots = self._slots()
        columns = np.zeros((coef.shape[1], len(slots)))
        for k, (a, first, b, second) in enumerate(slots):
            columns[first, k], columns[second, k] = coef[a, first], coef[b, second]
        return columns

    # ---- prediction ---------------------------------------------------------------------------

    def _scores(self, X: Any) -> Floats:
        """Decision values of each problem, (n_samples, n_problems)."""
        X = self._validate_predict(X)
        scores: Floats = self._kernel_sums(X) + self.intercept_
        return scores

    def decision_function(self, X: Any) -> Floats:
        """Evaluate the decision function.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            For two classes positive for ``classes_[1]``; otherwise one value per class, or with
            ``decision_function_shape="ovo"`` one per pair i < j, positive for i.
        """
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        if self.multi_class == "ovo" and self.decision_function_shape == "ovr":
            wins = np.where(self._silent(), 0.5, scores < 0)
            values: Floats = _ovr_decision_function(wins, -scores, len(self.classes_))
            return values
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples,)
            With ``probability=True`` the class that ``predict_proba`` says is the likeliest, which
            need not be the one of the decision function.
        """
        check_is_fitted(self)
        if self.probability is True and "probA_" in vars(self):
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        if len(self.classes_) == 2:
            winners = (self.decision_function(X) > 0).astype(np.intp)
        elif self.multi_class != "ovo" or self.break_ties:
            winners = np.argmax(self.decision_function(X), axis=1)
        else:
            winners = np.argmax(self._votes(self._scores(X)), axis=1)
        return np.asarray(self.classes_[winners])

    def _silent(self) -> NDArray[np.bool_]:
        """Which pairs have no machine (ν too small, or an interrupted fit) and do not vote."""
        return np.asarray(~self._columns().any(axis=0))

    def _votes(self, scores: Floats) -> Ints:
        """How many pairs each class wins; a tie goes to the later class, as in LIBSVM."""
        votes = np.zeros((len(scores), len(self.classes_)), dtype=np.int64)
        pairs = itertools.combinations(range(len(self.classes_)), 2)
        for (i, j), score, silent in zip(pairs, scores.T, self._silent(), strict=True):
            if not silent:
                votes[:, i] += score > 0
                votes[:, j] += score <= 0
        return votes


@documented
class SVC(_SupportVectorClassifier):
    r"""Classify with a maximal margin.

    A drop-in for :class:`sklearn.svm.SVC` that proves how good its answer is.

    Parameters
    ----------
    C : float, default=1.0
        Price of slack; infinity is the hard margin.
    <kernel>
    <of_classes>
    <solver>
    multi_class : {"ovo", "ovr", "crammer_singer"}, default="ovo"
        For more than two classes: a machine for each pair, which vote (scikit-learn's way); a
        machine for each class against the rest; or the single machine of Crammer & Singer (2001),
        without bias. The last two have ``dual_coef_`` of shape (n_classes, n_SV).
    loss : {"hinge", "squared_hinge"}, default="hinge"
        What slack costs: :math:`C \xi`, or :math:`C \xi^2`, which no bound limits.

    Attributes
    ----------
    <fitted_classes>
    <fitted>

    Notes
    -----
    N0 eq. (62), with :math:`C_i` the product of C, the sample's and the class's weight:

    .. math:: \min_{w, b, \xi} \tfrac12 \|w\|^2 + \sum_i C_i \xi_i \quad\text{s.t.}\quad
              y_i (w \cdot \phi(x_i) + b) \ge 1 - \xi_i,\ \xi_i \ge 0

    Growing data, where a library with ``partial_fit`` would be used: keep the rows so far in
    place, append the new ones, and fit again with ``warm_start=True``.

    Examples
    --------
    >>> from maxmargin import SVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SVC(C=10, gap_tol=1e-6).fit(scale(X), y)
    >>> clf.certificate_.status == "optimal", clf.certificate_.relative_gap <= 1e-6
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SupportVectorClassifier._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "multi_class": [StrOptions({"ovo", "ovr", "crammer_singer"})],
        "loss": [StrOptions({"hinge", "squared_hinge"})],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
        warm_start: bool = False,
        multi_class: str = "ovo",
        loss: str = "hinge",
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start
        self.multi_class = multi_class
        self.loss = loss

    def _problem(self, gram: Gram, signs: Floats, weight: Floats | None) -> Problem:
        if np.isinf(self.C):
            return hard_margin(gram, signs)
        kind = squared_hinge if self.loss == "squared_hinge" else soft_margin
        return kind(gram, signs, C=self.C, sample_weight=weight)

    def _cut(self, gram: Gram, kept: Ints, codes: Ints, weight: Floats | None) -> list[Part]:
        if self.multi_class != "crammer_singer":
            return super()._cut(gram, kept, codes, weight)
        make = partial(problems.crammer_singer, gram, codes, C=self.C, sample_weight=weight)
        return [Part(kept, make)]

    def _check_classes(self, codes: Ints, weight: Floats | None) -> None:
        if self.multi_class == "crammer_singer" and np.isinf(self.C):
            raise ValueError("multi_class='crammer_singer' needs a finite C; got C=inf.")
        if self.multi_class == "crammer_singer" and self.loss != "hinge":
            raise ValueError("multi_class='crammer_singer' has loss='hinge' only.")

    def _piece(self, part: Part, solution: Solution) -> Piece:
        coef = solution.problem.by_row(solution.beta)
        return self._made(part, solution, coef, {"b": 0.0, **solution.parameters})

    def _multipliers(self, problem: Problem, k: int) -> Floats:
        return np.zeros(0) if problem.block is not None else super()._multipliers(problem, k)

    def _scores(self, X: Any) -> Floats:
        scores = super()._scores(X)
        if self.multi_class == "crammer_singer" and len(self.classes_) == 2:
            return scores[:, 1:] - scores[:, :1]
        return scores


@documented
class NuSVC(_SupportVectorClassifier):
    r"""Classify with at most a fraction ν of margin failures, and at least that of support vectors.

    A drop-in for :class:`sklearn.svm.NuSVC` that proves how good its answer is, honours
    ``class_weight`` and names the largest feasible ν.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        At most 2 min(weight of one class, of the other) / (their sum), for each pair of classes.
    <kernel>
    <of_classes>
    <solver>
    multi_class : {"ovo", "ovr"}, default="ovo"
        For more than two classes: a machine for each pair, which vote (scikit-learn's way), or one
        for each class against the rest.

    Attributes
    ----------
    <fitted_classes>
    <fitted>

    Notes
    -----
    N4's (SVM_s2') with K_m = ν Σw, K_s = 1; ``dual_coef_`` and ``intercept_`` are divided by η, so
    that the margins lie at ±1, as in scikit-learn. If the reduced convex hulls of two classes meet,
    w = 0 and η = 0 is optimal and nothing can be divided: an error for two classes; with more, a
    warning, and that pair decides nothing.

    .. math:: \min \tfrac12 \|w\|^2 - \nu \textstyle\sum_i w_i \eta + \sum_i w_i \xi_i
              \quad\text{s.t.}\quad
              y_i (w \cdot \phi(x_i) + b) \ge \eta - \xi_i,\ \xi_i \ge 0,\ \eta \ge 0

    Examples
    --------
    >>> from maxmargin import NuSVC
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = NuSVC(nu=0.1).fit(X, y)
    >>> clf.certificate_.status == "optimal", clf.score(X, y) > 0.95
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SupportVectorClassifier._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        gap_tol: float | None = None,
        max_time: float | None = None,
        n_threads: int | None = None,
        record_every: int | None = None,
        warm_start: bool = False,
        multi_class: str = "ovo",
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.gap_tol = gap_tol
        self.max_time = max_time
        self.n_threads = n_threads
        self.record_every = record_every
        self.warm_start = warm_start
        self.multi_class = multi_class

    def _problem(self, gram: Gram, signs: Floats, weight: Floats | None) -> Problem:
        return nu_svc(gram, signs, nu=self.nu, sample_weight=weight)

    def _refuse_one_class(self, classes: NDArray[Any], *, whole: bool) -> None:
        if len(classes) < 2 and not whole:
            raise ValueError(
                "Invalid input - all samples with positive weights belong to the same class: the "
                "specified nu is infeasible."
            )
        super()._refuse_one_class(classes, whole=whole)

    def _check_classes(self, codes: Ints, weight: Floats | None) -> None:
        totals = np.bincount(codes, weights=weight, minlength=len(self.classes_))
        kind, names = (
            "samples" if weight is None else "weight",
            [f"class {c}" for c in self.classes_],
        )
        sides = [(i, totals[j], names[j]) for i, j in itertools.combinations(range(len(names)), 2)]
        if self.multi_class == "ovr" and len(names) > 2:
            sides = [(i, totals.sum() - totals[i], "the rest") for i in range(len(names))]
        found = [(largest_nu(float(totals[i]), float(t)), i, t, name) for i, t, name in sides]
        most, i, other, name = min(found, key=lambda one: one[0])
        if self.nu > most * (1 + ROUNDING):
            raise ValueError(
                f"specified nu is infeasible: nu={self.nu:g}, but with {totals[i]:g} {kind} of "
                f"{names[i]} and {other:g} of {name} nu must be at most {round_down(most)} "
                "(N4, existence condition)."
            )

    def _piece(self, part: Part, solution: Solution) -> Piece:
        problem, certificate, found = solution.problem, solution.certificate, solution.parameters
        beta, primal, eta = solution.beta, certificate.primal, found["eta"]
        early = certificate.status not in FINE  # stopped: what there is, and no verdict
        if early and not problem.has_margin(beta, primal):
            scale = 1 / eta if eta > 0 else 0.0
            found = {"b": found["b"] * scale, "eta": eta}
            return self._made(part, solution, problem.by_row(beta) * scale, found)
        if not part.name or problem.has_margin(beta, primal):
            coef, b = problem.unit_margin(beta, certificate.lam, primal)
            return self._made(part, solution, problem.by_row(coef), {"b": b, "eta": eta})
        warnings.warn(
            f"nu={self.nu:g} is too small for the classes {part.name}: their reduced convex hulls "
            "meet (N4), so there is no margin between them; their machine decides nothing. "
            "Raise nu.",
            stacklevel=9,
        )
        unproven = replace(solution, certificate=replace(certificate, status=None))
        return self._made(part, unproven, 0 * problem.by_row(beta), {"b": 0.0, "eta": 0.0})

    def _variables(self, problem: Problem, coef: Floats) -> Floats:
        return problem.lift(coef * problem.margin_divided_by(coef))

    def _multipliers(self, problem: Problem, k: int) -> Floats:
        b, columns = float(self.intercept_[k]), self._columns()
        if not columns[:, k].any():
            return np.zeros(2)  # no margin
        return problem.margin_divided_by(columns[:, k]) * np.array([b - 1.0, b + 1.0])
