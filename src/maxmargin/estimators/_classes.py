"""Find the classes of a training set and what each of its rows weighs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

__all__ = ["ClassWeights"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ClassWeights:
    """Sets ``classes_`` and ``class_weight_`` for a classifier with a ``class_weight``."""

    class_weight: Any
    classes_: NDArray[Any]
    class_weight_: Floats

    def _classes(self, labels: NDArray[Any], weight: Floats | None) -> None:
        """Find the classes and their weights; rows without weight do not count."""
        counted = labels if weight is None else labels[weight > 0]
        classes = np.unique(counted)
        self._refuse_one_class(classes, whole=len(counted) == len(labels))
        weights = np.ones(len(classes))
        if self.class_weight is not None:
            weights = compute_class_weight(
                self.class_weight,
                classes=classes,
                y=counted,
                sample_weight=None if weight is None else weight[weight > 0],
            )
        if not (weights >= 0).all():
            raise ValueError(f"class_weight must be at least 0; got {self.class_weight!r}.")
        self.classes_, self.class_weight_ = classes[weights > 0], weights[weights > 0]
        self._refuse_one_class(self.classes_, whole=False)

    def _refuse_one_class(self, classes: NDArray[Any], *, whole: bool) -> None:
        if len(classes) > 1:
            return
        raise ValueError(
            "The number of classes has to be greater than one; got 1 class"
            if whole
            else "Invalid input - all samples with positive weights belong to the same class."
        )

    def _codes(self, labels: NDArray[Any], weight: Floats | None) -> tuple[Ints, Floats | None]:
        """Number the class of each row; return also sample weights times class weights.

        A weight of 0 leaves the row out, as for a label whose class has none.
        """
        codes = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        counted = self.classes_[codes] == labels
        if weight is None and counted.all() and (self.class_weight_ == 1).all():
            return codes, None
        both = self.class_weight_[codes] * (1.0 if weight is None else weight)
        return codes, np.where(counted, both, 0.0)
