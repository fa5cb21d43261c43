"""Solve the one QP: every solver takes the same Problem and gives the same Solution."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxmargin.solvers.smo import SMO
from maxmargin.solvers.solve import Progress, Solution, Solver, solve
from maxmargin.solvers.steps import Step, steps

if TYPE_CHECKING:
    from maxmargin.solvers.admm import ADMM
    from maxmargin.solvers.dual_coordinate import DualCoordinate
    from maxmargin.solvers.gradient_logistic import GradientLogistic
    from maxmargin.solvers.newton_logistic import NewtonLogistic
    from maxmargin.solvers.pegasos import Pegasos
    from maxmargin.solvers.platt import PlattSMO
    from maxmargin.solvers.qp import QP
    from maxmargin.solvers.textbook import TextbookSMO

__all__ = [
    "ADMM",
    "QP",
    "SMO",
    "DualCoordinate",
    "GradientLogistic",
    "NewtonLogistic",
    "Pegasos",
    "PlattSMO",
    "Progress",
    "Solution",
    "Solver",
    "Step",
    "TextbookSMO",
    "solve",
    "steps",
]

# Most estimators need none of these: they are loaded when they are first used.
_HOMES = {
    "ADMM": "admm",
    "DualCoordinate": "dual_coordinate",
    "GradientLogistic": "gradient_logistic",
    "NewtonLogistic": "newton_logistic",
    "Pegasos": "pegasos",
    "PlattSMO": "platt",
    "QP": "qp",
    "TextbookSMO": "textbook",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
