"""Price an error: the losses of N0 eq. (64) and of N3's comparison, with their derivatives.

Classification losses are functions of the margin m = y (w·x + b); N0's plot of the hinge has y·z
on its axis. The ε-insensitive loss is a function of the residual r = z − w·x − b. At a kink a
derivative is one of the subgradients: the one of least size.

>>> {name: float(loss(0.0)) for name, loss in LOSSES.items() if name != "log"}
{'0-1': 1.0, 'hinge': 1.0, 'squared hinge': 1.0, 'log / log 2': 1.0}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

__all__ = [
    "DERIVATIVES",
    "LOSSES",
    "epsilon_insensitive",
    "epsilon_insensitive_derivative",
    "hinge",
    "hinge_derivative",
    "log_loss",
    "log_loss_derivative",
    "log_loss_scaled",
    "log_loss_scaled_derivative",
    "squared_hinge",
    "squared_hinge_derivative",
    "zero_one",
    "zero_one_derivative",
]

Floats = NDArray[np.float64]
Loss = Callable[..., Any]


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def zero_one(margin: ArrayLike) -> Floats:
    """Count an error: 1 where m ≤ 0 (on the hyperplane neither class is predicted), else 0.

    Examples
    --------
    >>> zero_one([-1.0, 0.0, 1.0])
    array([1., 1., 0.])
    """
    return np.where(_floats(margin) <= 0, 1.0, 0.0)


def zero_one_derivative(margin: ArrayLike) -> Floats:
    """Return 0: the derivative wherever there is one, which is why nobody descends on it.

    Examples
    --------
    >>> zero_one_derivative([-1.0, 1.0])
    array([0., 0.])
    """
    return np.zeros_like(_floats(margin))


def hinge(margin: ArrayLike) -> Floats:
    r"""Charge what is missing to a margin of 1: the slack ξ of the soft margin.

    Notes
    -----
    N0 eqs. (63), (64): :math:`\max\{0, 1 - y (w \cdot x + b)\}`.

    Examples
    --------
    >>> hinge([-1.0, 0.0, 1.0, 2.0])
    array([2., 1., 0., 0.])
    """
    return np.maximum(0.0, 1.0 - _floats(margin))


def hinge_derivative(margin: ArrayLike) -> Floats:
    """Return −1 below the margin 1, else 0; at 1 all of [−1, 0] are subgradients.

    Examples
    --------
    >>> hinge_derivative([0.0, 1.0, 2.0])
    array([-1.,  0.,  0.])
    """
    return np.where(_floats(margin) < 1, -1.0, 0.0)


def squared_hinge(margin: ArrayLike) -> Floats:
    r"""Charge the square of the slack, :math:`\max\{0, 1 - m\}^2`.

    Examples
    --------
    >>> squared_hinge([-1.0, 0.0, 2.0])
    array([4., 1., 0.])
    """
    return np.square(hinge(margin))


def squared_hinge_derivative(margin: ArrayLike) -> Floats:
    """Return −2 max(0, 1 − m).

    Examples
    --------
    >>> squared_hinge_derivative([-1.0, 0.0, 2.0])
    array([-4., -2.,  0.])
    """
    return -2.0 * hinge(margin) + 0.0  # no minus zeros


def log_loss(margin: ArrayLike) -> Floats:
    r"""Charge minus the logarithm of the probability σ(m) given to the true class.

    Notes
    -----
    N3, logistic regression: :math:`\log(1 + e^{-m})`, without overflow for any m.

    Examples
    --------
    >>> log_loss([-1000.0, 0.0]).round(4)
    array([1.000e+03, 6.931e-01])
    """
    return np.asarray(np.logaddexp(0.0, -_floats(margin)), dtype=np.float64)


def log_loss_derivative(margin: ArrayLike) -> Floats:
    """Return −σ(−m): minus the probability given to the wrong class.

    Examples
    --------
    >>> log_loss_derivative([0.0, 1000.0])
    array([-0.5, -0. ])
    """
    return np.asarray(-expit(-_floats(margin)), dtype=np.float64)


def log_loss_scaled(margin: ArrayLike) -> Floats:
    """Divide the log loss by log 2: like the hinge it is 1 at m = 0 and never below 0-1 (N3).

    Examples
    --------
    >>> log_loss_scaled([0.0])
    array([1.])
    """
    return log_loss(margin) / math.log(2.0)


def log_loss_scaled_derivative(margin: ArrayLike) -> Floats:
    """Return −σ(−m) / log 2.

    Examples
    --------
    >>> log_loss_scaled_derivative([0.0]).round(4)
    array([-0.7213])
    """
    return log_loss_derivative(margin) / math.log(2.0)


def epsilon_insensitive(residual: ArrayLike, *, epsilon: float = 0.1) -> Floats:
    r"""Charge a residual for what lies outside the tube, :math:`\max\{0, |r| - \varepsilon\}`.

    Examples
    --------
    >>> epsilon_insensitive([-2.0, 0.5, 1.5], epsilon=1.0)
    array([1. , 0. , 0.5])
    """
    return np.maximum(0.0, np.abs(_floats(residual)) - epsilon)


def epsilon_insensitive_derivative(residual: ArrayLike, *, epsilon: float = 0.1) -> Floats:
    """Return the sign of r outside the tube, 0 in it and on it.

    Examples
    --------
    >>> epsilon_insensitive_derivative([-2.0, 0.5, 1.5], epsilon=1.0)
    array([-1.,  0.,  1.])
    """
    r = _floats(residual)
    return np.where(np.abs(r) > epsilon, np.sign(r), 0.0)


# Functions of the margin, to be drawn over one axis; the same names in both.
LOSSES: dict[str, Loss] = {
    "0-1": zero_one,
    "hinge": hinge,
    "squared hinge": squared_hinge,
    "log": log_loss,
    "log / log 2": log_loss_scaled,
}
DERIVATIVES: dict[str, Loss] = {
    "0-1": zero_one_derivative,
    "hinge": hinge_derivative,
    "squared hinge": squared_hinge_derivative,
    "log": log_loss_derivative,
    "log / log 2": log_loss_scaled_derivative,
}
