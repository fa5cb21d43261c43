"""Solve the one QP: every solver takes the same Problem and gives the same Solution."""

from maxmargin.solvers.smo import SMO
from maxmargin.solvers.solve import Progress, Solution, Solver, solve
from maxmargin.solvers.steps import Step, steps

__all__ = ["SMO", "Progress", "Solution", "Solver", "Step", "solve", "steps"]
