"""What a notebook shows: small, well-formed, escaped, and in the colours of the page."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxmargin import SVC, kernels, problems, solvers
from maxmargin.certificate import Certificate
from maxmargin.tables import Table, facts_html

NASTY = "<script>alert('x')</script> & \"y\""


def read(thing):
    """The text of a repr, after the checks that all of them must pass."""
    html = thing._repr_html_()
    tree = ET.fromstring(html)
    assert not re.search(r"\b(color|background|script|src|href)\b", html)
    assert len(html) < 20_000
    return re.sub(r"\s+", " ", " ".join(tree.itertext()))


def rows(thing):
    """The names and texts of a table of facts."""
    tree = ET.fromstring(thing._repr_html_())
    return {tr.findtext("th"): tr.findtext("td") for tr in tree.iter("tr")}


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    return X[50:], np.where(y[50:] == 1, 1, -1)


@pytest.fixture(scope="module")
def gram(data):
    return kernels.RBF(sigma=1.0).gram(data[0])


def test_a_solution_shows_its_proof_and_its_parameters(data, gram):
    solution = solvers.solve(problems.soft_margin(gram, data[1], C=1.0))
    assert "Solution of soft_margin, 100 variables" in read(solution)
    facts = rows(solution)
    assert facts["status"] == "optimal"
    assert float(facts["primal"]) == pytest.approx(solution.certificate.primal)
    assert float(facts["b"]) == pytest.approx(solution.b)
    assert facts["support vectors"] == str(np.count_nonzero(solution.alpha))
    assert facts["iterations"].startswith(f"{solution.n_iter}, in ")
    proof = rows(solution.certificate)
    assert {k: v for k, v in facts.items() if k in proof} == {
        k: v for k, v in proof.items() if k != "multipliers"
    }


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda g, y: problems.nu_svc(g, y, nu=0.3), {"b", "eta"}),
        (lambda g, y: problems.nu_svr(g, y * 1.0, C=1.0, nu=0.3), {"b", "epsilon"}),
        (lambda g, y: problems.one_class(g, nu=0.3), {"rho"}),
        (lambda g, y: problems.svdd(g, nu=0.3), {"R2"}),
        (lambda g, y: problems.crammer_singer(g, (y + 1) // 2, C=1.0), set()),
    ],
)
def test_each_formulation_names_what_it_found(data, gram, make, names):
    solution = solvers.solve(make(gram, data[1]))
    assert solution.problem.name in read(solution)
    assert {"b", "eta", "epsilon", "rho", "R2"} & set(rows(solution)) == names


def test_an_infeasible_solution_shows_the_proof_and_no_bias(data):
    gram = kernels.Linear().gram(data[0])
    solution = solvers.solve(problems.hard_margin(gram, data[1]))
    facts = rows(solution)
    assert facts["status"] == "infeasible"
    assert "has no solution" in facts["proof"]
    assert "b" not in facts


def test_what_others_wrote_is_escaped():
    proof = Certificate(
        primal=1.0,
        dual=1.0,
        gap=0.0,
        relative_gap=0.0,
        kkt_violation=0.0,
        lam=np.zeros(7),
        convex=None,
        distance=0.0,
        status=None,
        proof=NASTY,
    )
    assert "<script" not in proof._repr_html_()
    assert rows(proof)["proof"] == NASTY
    table = Table({NASTY: np.array([NASTY, "b"])})
    assert "<script" not in table._repr_html_()
    cells = [cell.text for cell in ET.fromstring(table._repr_html_()).iter("td")]
    assert cells == [NASTY, "b"]

    def kernel(X, Z, **kw):
        return X @ Z.T

    kernel.__name__ = NASTY
    html = kernels.Callable(kernel, text=NASTY)._repr_html_()
    assert "<script" not in html
    ET.fromstring(html)
    assert "<script" not in facts_html(NASTY, {NASTY: NASTY})


def test_a_long_table_is_cut(data):
    X, y = data
    ledger = SVC().fit(X, y).ledger(X, y)
    text = read(ledger)
    assert "Ledger of 100 points" in text
    assert "80 more rows" in text
    heads = [th.text for th in ET.fromstring(ledger._repr_html_()).iter("th")]
    assert heads[1:10] == list(ledger)
    assert "0 rows" in read(Table({}))


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (kernels.RBF(sigma=1), "exp(−0.5 ‖u − v‖^2)"),
        (kernels.RBF(), "exp(−γ_scale ‖u − v‖^2)"),
        (kernels.RBF(gamma=1e-7), "exp(−1·10^−7 ‖u − v‖^2)"),
        (kernels.RBF(sigma=1) + 0.1 * kernels.Linear(), "exp(−0.5 ‖u − v‖^2) + 0.1 × (u·v)"),
        (kernels.Polynomial(2, coef0=1) ** 3, "((u·v + 1)^2)^3"),
        (kernels.Laplacian(gamma=2), "exp(−2 ‖u − v‖_1)"),
        (kernels.Chi2(), "exp(−Σ_k (u_k − v_k)^2 / (u_k + v_k))"),
        (kernels.HistogramIntersection(), "Σ_k min(u_k, v_k)"),
        (kernels.Matern(), "(1 + √3 ‖u − v‖/1) exp(−√3 ‖u − v‖/1)"),
        (kernels.Sigmoid(1, coef0=-2), "tanh(u·v − 2)"),
        (kernels.Callable(np.dot), "dot(u, v)"),
    ],
)
def test_a_kernel_shows_its_formula(kernel, formula):
    html = kernel._repr_html_().replace("<sup>", "^").replace("<sub>", "_")
    html = re.sub(r"</su[pb]>", "", html)
    text = "".join(ET.fromstring(html).itertext())
    shown = formula.replace("/1", "") if "Matern" in repr(kernel) else formula
    assert text == f"{kernel!r}k(u, v) = {shown}"
    read(kernel)


def test_a_long_constructor_is_cut():
    kernel = kernels.Callable(np.dot, weights=list(range(1000)))
    assert len(kernel._repr_html_()) < 600


def test_a_report_on_mercer_s_condition_is_well_formed(data):
    report = kernels.mercer(kernels.RBF(), data[0])
    assert "positive semi-definite by construction" in read(report)
    assert set(rows(report)) == {"asymmetry", "smallest eigenvalue", "largest eigenvalue"}


def test_an_estimator_shows_its_certificate(data):
    clf = SVC().fit(*data)
    assert clf.certificate_._repr_html_() in clf._repr_html_()
