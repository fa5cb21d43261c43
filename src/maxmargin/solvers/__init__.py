"""Solve the one QP: every solver takes the same Problem and gives the same Solution."""

from maxmargin.solvers.smo import SMO
from maxmargin.solvers.solve import Progress, Solution, Solver, solve

__all__ = ["SMO", "Progress", "Solution", "Solver", "solve"]
