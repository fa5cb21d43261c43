"""Say in words what happened: how a run ended, and why there may be nothing to show."""

from __future__ import annotations

from typing import Any

from maxmargin.certificate import Status
from maxmargin.lab.document import ALONE, Document
from maxmargin.lab.run import Run
from maxmargin.problems import largest_nu

__all__ = ["about_solver", "explain", "refused", "unposed", "verdict"]

Note = dict[str, Any]

_ENDS = {
    Status.OPTIMAL: "Proven optimal: the KKT conditions hold within {tol:g}.",
    Status.STATIONARY: "Stationary: the KKT conditions hold, but this kernel is not known to be "
    "positive semi-definite, so the gap proves nothing.",
    Status.PRECISION_LIMIT: "As good as float64 allows; the gap says how far that is.",
    Status.ITERATION_LIMIT: "Stopped by its own rule; the gap says how far it is from the optimum.",
    Status.TIME_LIMIT: "Stopped after ten seconds; the gap says how far it is from the optimum.",
    Status.INTERRUPTED: "Interrupted; the gap says how far it is from the optimum.",
    Status.INFEASIBLE: "This problem has no solution, and that is proven.",
    Status.UNBOUNDED: "The dual grows without end: the kernel is not positive semi-definite.",
}
_WHY = {
    "TextbookSMO": "N0's Algorithm 1: sweeps over i, draws j at random.",
    "PlattSMO": "N1's heuristics: violators, alternately those on the margin; j by |Eᵢ − Eⱼ|.",
    "SMO": "The production solver: most violating i, the j of the largest second-order gain.",
    "ADMM": "N4's method: all α at once, two copies of them pulled together.",
    "Pegasos": "Stochastic subgradients of the primal (N2's last page): one point per step.",
    "DualCoordinate": "One α at a time, minimised exactly (N2's last page).",
}
_NO_BIAS = (
    " It moves one α alone, so Σ αy = 0 cannot be kept: a constant feature (kernel + 1) stands in "
    "for the bias and is part of ‖w‖."
)


def about_solver(name: str) -> str:
    """Say in a sentence what a solver does."""
    return _WHY[name] + (_NO_BIAS if name in ALONE else "")


def verdict(run: Run, status: Status | None) -> str:
    """Say how far the run is."""
    if status is not None:
        return _ENDS[status].format(tol=run.tol)
    if run.cursor == 0 and not run.forgotten:
        return "The start: nothing has moved yet."
    return "On its way; the optimum lies between dual and primal."


def fix(label: str, **settings: Any) -> Note:
    """Offer a change of the settings as a button."""
    return {"label": label, "settings": settings}


def unposed(document: Document, error: str) -> Note:
    """Explain why a problem cannot be posed on these points."""
    s, y = document.settings, document.labels
    if len(y) == 0:
        return {
            "title": "An empty canvas",
            "text": "Click to add a point of the chosen class, or choose a preset.",
            "fixes": [],
        }
    fixes = []
    if s.problem != "svr" and len(set(y.tolist())) < 2:
        title = "One class only"
        fixes = [fix("Use the one-class problem", problem="one_class")]
        error = f"{error} Click to add a point of the other class."
    elif s.problem == "nu" and "infeasible" in error:
        title = "ν is too large"
        most = largest_nu(int((y > 0).sum()), int((y < 0).sum()))
        error = (
            f"{error} Each class must supply half of K_m, and no α may exceed K_s: the smaller "
            "class cannot reach it."
        )
        fixes = [fix(f"Use ν = {most:g}", nu=most)]
    else:
        title = "This problem cannot be posed"
    return {"title": title, "text": error, "fixes": fixes}


def refused(document: Document, solver: str, error: str) -> Note:
    """Explain why a solver does not take a problem."""
    fixes = [fix("Use SMO", solver="SMO")]
    if document.settings.problem == "hard" and solver in ALONE:
        fixes.append(fix("Soft margin with C = 1000", problem="soft", C=1000.0))
    return {"title": f"{solver} cannot solve this", "text": error, "fixes": fixes}


def explain(document: Document, run: Run, proof: str) -> Note | None:
    """Explain a result that is no machine: infeasible, without a margin, or unbounded."""
    s, status = document.settings, run.record.status
    if proof:
        return {
            "title": "No hyperplane separates these classes",
            "text": "The convex hulls of the two classes meet in feature space; the marked points "
            "prove it. " + proof,
            "fixes": [
                fix("Allow slack: soft margin", problem="soft"),
                fix("Bend the line: Gaussian kernel", kernel=[{"kind": "rbf", "sigma": 0.7}]),
            ],
        }
    if status is Status.UNBOUNDED:
        return {
            "title": "The dual has no maximum",
            "text": "This kernel is not positive semi-definite, and without an upper bound the α "
            "grow for ever. Use a finite C or another kernel.",
            "fixes": [fix("Use the soft margin", problem="soft")],
        }
    certificate = run.record.certificate
    empty = s.problem == "nu" and status is not None
    if empty and not run.problem.has_margin(run.record.beta, certificate.primal):
        n, nu = len(document.labels), s.nu
        larger = max(_meeting(document, nu), min(1.0, 2 / n))
        return {
            "title": "ν is too small for these data",
            "text": f"At ν = {nu:g} each hull is reduced so little that the two still meet: the "
            "best answer is w = 0, η = 0, and there is no line to draw. On classes that overlap "
            "ν must leave room for the failures (N4: at least 2/(p+q) where they are not "
            "separable).",
            "fixes": [fix(f"Use ν = {larger:.3g}", nu=larger)],
        }
    return None


def _meeting(document: Document, nu: float) -> float:
    """Suggest a larger ν that exists."""
    y = document.labels
    return min(max(2 * nu, 0.3), largest_nu(int((y > 0).sum()), int((y < 0).sum())))
