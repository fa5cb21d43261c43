"""Solve the one QP: every solver takes the same Problem and gives the same Solution."""

from maxmargin.solvers.admm import ADMM
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.pegasos import Pegasos
from maxmargin.solvers.platt import PlattSMO
from maxmargin.solvers.qp import QP
from maxmargin.solvers.smo import SMO
from maxmargin.solvers.solve import Progress, Solution, Solver, solve
from maxmargin.solvers.steps import Step, steps
from maxmargin.solvers.textbook import TextbookSMO

__all__ = [
    "ADMM",
    "QP",
    "SMO",
    "DualCoordinate",
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
