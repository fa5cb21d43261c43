"""Ten stops through the notes: look, predict, then see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["STOPS", "Stop"]


@dataclass(frozen=True)
class Stop:
    """One stop of the tour.

    Parameters
    ----------
    title, notes : str
        What it is about, and where the notes tell it.
    text : str
        What to look at.
    question : str
        To be answered before anything moves.
    choices : tuple of str
    right : int
        Which of them.
    answer : str
    document : dict
        What the lab opens, as in a message.
    then : dict
        The settings that show the answer; may be empty.
    action : str
        "", "step", "reset" or "play": what else shows it.
    """

    title: str
    notes: str
    text: str
    question: str
    choices: tuple[str, ...]
    right: int
    answer: str
    document: dict[str, Any]
    then: dict[str, Any] = field(default_factory=dict)
    action: str = ""


def _open(preset: str, **settings: Any) -> dict[str, Any]:
    return {"preset": preset, "settings": settings}


_LINEAR = [{"kind": "linear"}]

STOPS: tuple[Stop, ...] = (
    Stop(
        "The widest street",
        "N0 §2, eqs. (2)–(5)",
        "Many lines separate these two clouds. The solid line is the one whose margins, the dashed "
        "lines, are farthest apart; the ringed points hold them in place.",
        "Delete a point far from the street. What happens to the line?",
        ("It moves a little.", "It moves a lot.", "Nothing."),
        2,
        "Nothing: its α is 0, so w = Σ αᵢyᵢxᵢ does not contain it. Only the points on the margin "
        "are support vectors (N0 eq. (45): complementary slackness). Try it.",
        _open("separable", problem="hard", kernel=_LINEAR),
    ),
    Stop(
        "Two values that meet",
        "N0 §3.1.2, eqs. (28)–(29)",
        "The curves on the right are the primal and the dual objective. Every dual value is a "
        "lower bound of every primal value; their difference is the gap.",
        "As the solver works, what will the two curves do?",
        (
            "The primal falls onto a fixed dual.",
            "They close in on each other until they meet.",
            "They cross and come apart again.",
        ),
        1,
        "They meet: this problem is convex with affine constraints, so strong duality holds (N0 "
        "eq. (29), N2). That is why the gap is a proof: it bounds what any solver could still "
        "gain.",
        _open("overlapping", problem="soft", C=1.0, kernel=_LINEAR, solver="SMO"),
        action="reset",
    ),
    Stop(
        "When no line exists",
        "N0 §3.4",
        "The same problem, a hard margin, on clouds that overlap.",
        "What can a correct solver answer here?",
        ("The line with the fewest errors.", "That there is no answer.", "A very narrow street."),
        1,
        "That there is none. The dual grows without end, and the direction in which it grows is a "
        "proof: weights of both classes with the same mean, a point that both hulls share (the "
        "star). Slack variables are the way out.",
        _open("overlapping", problem="hard", kernel=_LINEAR),
    ),
    Stop(
        "What C buys",
        "N0 eq. (62), §3.4.1",
        "Soft margin: each point may fail at a price of C per unit of slack. One outlier sits on "
        "the wrong side. C is 0.05 now.",
        "C grows to 1000. What becomes of the street?",
        ("It narrows around the outlier.", "It widens.", "It stays: one point cannot matter."),
        0,
        "It narrows: at C = 1000 the outlier's slack costs more than a narrow street does, "
        "½‖w‖² grows instead. As C → ∞ the soft margin becomes the hard one (N3).",
        _open("outlier", problem="soft", C=0.05, kernel=_LINEAR),
        {"C": 1000.0},
    ),
    Stop(
        "Three kinds of points",
        "N0 eqs. (71)–(76); N1",
        "The KKT conditions sort the points: α = 0 beyond the margin, 0 < α < C exactly on it, "
        "α = C inside or on the wrong side. Hover the points to see their rows.",
        "Which points determine the bias b?",
        ("All support vectors.", "Those with 0 < α < C.", "The misclassified ones."),
        1,
        "Those with 0 < α < C: there ξ = 0, so y·h(x) = 1 exactly, and b = y − w·x (N0 eq. (77); "
        "N1 averages over them). A point at α = C only says y·h(x) ≤ 1.",
        _open("overlapping", problem="soft", C=0.3, kernel=_LINEAR),
    ),
    Stop(
        "One step of SMO",
        "N0 eqs. (79)–(98), Figure 7",
        "Two α move, all others are held. Σ αy = 0 leaves a line through the box [0, C]², and on "
        "it the dual is a parabola: its top is the unclipped optimum.",
        "The top lies outside the box. Where does the step end?",
        ("At the nearest end, L or H.", "Outside the box.", "Half way."),
        0,
        "At L or H, N0 eq. (97): the parabola has one top, so the nearest end is the best point of "
        "the segment. αᵢ then follows from eq. (98).",
        _open("overlapping", problem="soft", C=0.1, kernel=_LINEAR, solver="TextbookSMO"),
        action="step",
    ),
    Stop(
        "Choosing the pair",
        "N0 §3.5.2, N1",
        "The textbook draws j at random. Platt takes the largest |E_i − E_j|; the production "
        "solver the partner with the largest gain.",
        "In a race by updates, who closes the gap first?",
        ("The random one.", "The one that chooses by gain.", "They tie."),
        1,
        "The one that chooses. Each update costs about the same; a good pair gains more. The race "
        "shows both gaps on the same log scale.",
        _open(
            "moons", problem="soft", C=10.0, kernel=[{"kind": "rbf", "sigma": 0.7}],
            solver="SMO", rival="TextbookSMO",
        ),
        action="play",
    ),
    Stop(
        "The kernel trick",
        "N0 §3.3, N3",
        "No line separates XOR. But the dual needs inner products only, and (u·v + 1)² is one, in "
        "a space where x₁x₂ is a coordinate.",
        "What will the decision line of (u·v + 1)² be in the plane?",
        ("Two straight lines.", "A hyperbola or another conic.", "A circle around each cloud."),
        1,
        "A conic: the function is a polynomial of degree two in x₁ and x₂. For XOR it is close to "
        "x₁x₂ = 0. Nothing else changed: the same dual with K in place of inner products.",
        _open("xor", problem="soft", C=1.0, kernel=_LINEAR),
        {"kernel": [{"kind": "poly", "degree": 2, "coef0": 1.0}], "C": 10.0},
    ),
    Stop(
        "How far a point reaches",
        "N0 Example 3.9; N3, the chessboard",
        "A Gaussian kernel: σ is how far a point's influence reaches. N3 shows it on this board; "
        "σ is 2 squares now.",
        "σ shrinks to 0.08. What will the line do?",
        (
            "It follows the squares exactly.",
            "It closes around single points.",
            "It becomes straight.",
        ),
        1,
        "It closes around single points: every training point is right, and nearly all are support "
        "vectors. Between them the function is nearly constant: it has learned the points, not "
        "the board. About half a square works well here.",
        _open("chessboard", problem="soft", C=100.0, kernel=[{"kind": "rbf", "sigma": 2.0}]),
        {"kernel": [{"kind": "rbf", "sigma": 0.08}]},
    ),
    Stop(
        "ν counts the failures",
        "N4, (SVM_s2′) and Figure 1",
        "ν-SVM: the width of the street is free, and ν = K_m/((p+q)K_s) says how many points may "
        "fail. Two sets of six at ν = 0.6, as in N4's Figure 1.",
        "ν(p+q)/2 is 3.6. How many points of each class can fail the margin?",
        ("At most 3.", "Exactly 3.6 on average.", "At least 4."),
        0,
        "At most 3: failures ≤ ν(p+q)/2 ≤ support vectors, in each class. Count them: two of one "
        "class, three of the other. Then set ν to 0.2: too small, the hulls still meet and w = 0. "
        "Above 2·min(p, q)/(p+q) = 1 there is no solution.",
        _open("six", problem="nu", nu=0.6, kernel=_LINEAR, solver="ADMM"),
    ),
)  # fmt: skip
