"""Probabilities of a classifier: sigmoids of decision values that no training has touched."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.calibration import clipped, couple, fit_sigmoids
from maxmargin.certificate import Status
from maxmargin.estimators._parts import HeldOut, Part, Piece
from maxmargin.folds import out_of_fold, stratified
from maxmargin.solvers import SMO, Solution

if TYPE_CHECKING:
    from maxmargin.estimators.svc import _SupportVectorClassifier

__all__ = ["Probabilities"]

Floats = NDArray[np.float64]


def _wanted(machine: Any) -> bool:
    if machine.probability is True:
        return True
    raise AttributeError(
        f"predict_proba is not available when probability={machine.probability!r}: make the "
        f"{type(machine).__name__} with probability=True, or wrap it in "
        "sklearn.calibration.CalibratedClassifierCV."
    )


class Probabilities:
    """What ``probability=True`` adds to a classifier."""

    probA_: Floats
    probB_: Floats

    def _held_out(
        self: Any, part: Part, solution: Solution, solver: SMO, stop: Callable[[], bool]
    ) -> HeldOut | None:
        signs = solution.problem.y
        if self.probability is not True or signs is None or solution.status is Status.INTERRUPTED:
            return None
        scores = out_of_fold(solution, stratified(signs), tol=self.tol, solver=solver, stop=stop)
        if scores is None:
            return None
        return HeldOut(scores, signs, np.ones(len(signs)) if part.weight is None else part.weight)

    def _store_sigmoids(self, pieces: list[Piece]) -> None:
        """Fit P(+1 | f) of each problem; none if the fit was stopped before all had their folds."""
        for name in ("probA_", "probB_"):
            self.__dict__.pop(name, None)
        held = [piece.held_out for piece in pieces if piece.held_out is not None]
        if len(held) < len(pieces):
            return
        machine = np.repeat(np.arange(len(held)), [len(one.scores) for one in held])
        scores, signs, weight = (
            np.concatenate([getattr(one, name) for one in held])
            for name in ("scores", "signs", "weight")
        )
        self.probA_, self.probB_ = fit_sigmoids(scores, signs, weight, machine, len(held))

    @available_if(_wanted)
    def predict_proba(self: Any, X: Any) -> Floats:
        """Predict the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Of shape (n_samples, n_samples_fit) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``; between 1e-7 and 1 - 1e-7.
        """
        check_is_fitted(self)
        if "probA_" not in vars(self):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False, or when the "
                "fit was stopped before its folds were done; fit again."
            )
        probabilities: Floats = self._distribution(self._scores(X))
        return probabilities

    def _distribution(self: Any, scores: Floats) -> Floats:
        """Probabilities of the classes from the decision values of all problems."""
        wins = expit(-(self.probA_ * scores + self.probB_))
        count = len(self.classes_)
        if count == 2:
            return clipped(np.hstack([1 - wins, wins]))
        if self.multi_class == "ovr":
            return clipped(wins / np.maximum(wins.sum(axis=1, keepdims=True), 1e-300))
        first, second = np.array(list(itertools.combinations(range(count), 2))).T
        wins[:, self._silent()] = 0.5
        return clipped(couple(first, second, wins, count))

    @available_if(_wanted)
    def predict_log_proba(self: _SupportVectorClassifier, X: Any) -> Floats:
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        logarithm: Floats = np.log(self.predict_proba(X))
        return logarithm
