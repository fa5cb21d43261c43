"""Kernels: formulas, parameters, algebra, gamma rules, feature maps and Mercer's condition."""

import copy
import math
import pickle
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.gaussian_process.kernels import Matern as GaussianProcessMatern
from sklearn.metrics import pairwise
from sklearn.model_selection import GridSearchCV

from maxmargin import kernels
from maxmargin.kernels import (
    RBF,
    Callable,
    Chi2,
    HistogramIntersection,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Power,
    Precomputed,
    Product,
    Scaled,
    Sigmoid,
    Sum,
    as_kernel,
)

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 1.0, size=(9, 4))
Z = rng.uniform(0.0, 1.0, size=(6, 4))

LEAVES = [
    (Linear(), pairwise.linear_kernel),
    (Polynomial(), lambda X, Z: pairwise.polynomial_kernel(X, Z, degree=3, gamma=1, coef0=0)),
    (
        Polynomial(2, gamma=0.5, coef0=1),
        lambda X, Z: pairwise.polynomial_kernel(X, Z, degree=2, gamma=0.5, coef0=1),
    ),
    (Polynomial(0), lambda X, Z: np.ones((len(X), len(Z)))),
    (RBF(gamma=0.7), lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.7)),
    (RBF(sigma=2), lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.125)),
    (Laplacian(gamma=0.7), lambda X, Z: pairwise.laplacian_kernel(X, Z, gamma=0.7)),
    (Laplacian(), pairwise.laplacian_kernel),
    (
        Sigmoid(gamma=0.3, coef0=-0.2),
        lambda X, Z: pairwise.sigmoid_kernel(X, Z, gamma=0.3, coef0=-0.2),
    ),
    (Matern(nu=0.5, length_scale=0.8), GaussianProcessMatern(0.8, nu=0.5)),
    (Matern(), GaussianProcessMatern(1.0, nu=1.5)),
    (Matern(nu=2.5, length_scale=3), GaussianProcessMatern(3.0, nu=2.5)),
    (Chi2(gamma=0.4), lambda X, Z: pairwise.chi2_kernel(X, Z, gamma=0.4)),
    (HistogramIntersection(), lambda X, Z: np.minimum(X[:, None], Z[None]).sum(axis=2)),
]
IDS = [repr(kernel) for kernel, _ in LEAVES]
CONCRETE = [kernel for kernel, _ in LEAVES if kernel != Laplacian()]
MERCER = [kernel for kernel in CONCRETE if not isinstance(kernel, Sigmoid)]


def squared(u, v):
    return np.sum((u - v) ** 2, axis=-1)


def chi2(u, v):
    return np.sum((u - v) ** 2 / np.where(u + v == 0, 1, u + v), axis=-1)


def matern(r, nu):
    if nu == 0.5:
        return np.exp(-r)
    r = math.sqrt(2 * nu) * r
    return (1 + r + (r**2 / 3 if nu == 2.5 else 0)) * np.exp(-r)


LINES = {
    "linear": lambda u, v, a, b, c: np.sum(u * v, axis=-1),
    "poly": lambda u, v, a, b, c: (a * np.sum(u * v, axis=-1) + b) ** c,
    "rbf": lambda u, v, a, b, c: np.exp(-a * squared(u, v)),
    "laplacian": lambda u, v, a, b, c: np.exp(-a * np.sum(np.abs(u - v), axis=-1)),
    "sigmoid": lambda u, v, a, b, c: np.tanh(a * np.sum(u * v, axis=-1) + b),
    "matern": lambda u, v, a, b, c: matern(np.sqrt(squared(u, v)) / b, a),
    "chi2": lambda u, v, a, b, c: np.exp(-a * chi2(u, v)),
    "intersection": lambda u, v, a, b, c: np.sum(np.minimum(u, v), axis=-1),
}


def interpret(kernel, X, Z):
    """Evaluate kernel.program() entry by entry: the slow reference of the C++ core."""
    stack = []
    for op, a, b, c in kernel.program():
        assert all(type(value) is float for value in (a, b, c))
        if op in LINES:
            stack.append(LINES[op](X[:, None], Z[None], a, b, c))
        elif op in ("add", "mul"):
            right, left = stack.pop(), stack.pop()
            stack.append(left + right if op == "add" else left * right)
        else:
            stack.append(stack.pop() * a if op == "scale" else stack.pop() ** a)
    (matrix,) = stack
    return matrix


SCALES = st.sampled_from([-2, -0.5, 0.0, 0.1, 1, 3.5])


def compositions(scales=SCALES, leaves=CONCRETE):
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.builds(Sum, inner, inner),
            st.builds(Product, inner, inner),
            st.builds(Scaled, inner, scales),
            st.builds(Power, inner, st.integers(1, 3)),
        ),
        max_leaves=4,
    )


# ---- formulas ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "reference"), LEAVES, ids=IDS)
def test_the_program_is_the_formula(kernel, reference):
    assert_allclose(interpret(kernel.resolve(X), X, Z), reference(X, Z), rtol=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, np.asfortranarray, np.float32])
@pytest.mark.parametrize(("kernel", "reference"), LEAVES, ids=IDS)
def test_the_core_agrees(kernel, reference, layout):
    K = kernel(layout(X), layout(Z))
    assert K.dtype == np.float64
    data = [np.float32(X).astype(float), np.float32(Z).astype(float)]
    expected = reference(*(data if layout is np.float32 else [X, Z]))
    assert_allclose(K, expected, rtol=1e-5 if layout is np.float32 else 1e-10)
    K = kernel(layout(X))
    assert_allclose(K, K.T, rtol=1e-12)


@given(compositions())
def test_the_core_agrees_on_compositions(kernel):
    expected = interpret(kernel, X, Z)
    assert_allclose(kernel(X, Z), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_programs_are_postfix():
    kernel = RBF(sigma=1) + 0.1 * Linear() * Polynomial(2, gamma=3, coef0=1) ** 4
    assert kernel.program() == [
        ("rbf", 0.5, 0.0, 0.0),
        ("linear", 0.0, 0.0, 0.0),
        ("scale", 0.1, 0.0, 0.0),
        ("poly", 3.0, 1.0, 2.0),
        ("pow", 4.0, 0.0, 0.0),
        ("mul", 0.0, 0.0, 0.0),
        ("add", 0.0, 0.0, 0.0),
    ]
    assert Matern(2.5, length_scale=3).program() == [("matern", 2.5, 3.0, 0.0)]
    assert Sigmoid(0.3, coef0=-1).program() == [("sigmoid", 0.3, -1.0, 0.0)]


def test_example_3_9_of_N0():
    assert_allclose(
        interpret(RBF(sigma=1), np.array([[1, 1]]), np.array([[2, -3]])), math.exp(-8.5)
    )


# ---- algebra ----------------------------------------------------------------------------------


@given(compositions(), compositions(), compositions(), st.integers(1, 3))
def test_algebra_laws(a, b, c, p):
    def same(left, right):
        right = interpret(right, X, Z)
        assert_allclose(interpret(left, X, Z), right, rtol=1e-9, atol=1e-9 * np.abs(right).max())

    same(a + b, b + a)
    same(a * b, b * a)
    same((a + b) + c, a + (b + c))
    same(a * (b + c), a * b + a * c)
    same(2 * (a + b), a * 2 + b * 2)
    same(a**p * b**p, (a * b) ** p)
    same(a ** (p + 1), a**p * a)


@given(compositions())
def test_repr_reads_back(kernel):
    assert eval(repr(kernel), vars(kernels)) == kernel


@given(compositions())
def test_printed_formula_is_the_formula(kernel):
    text = kernel.formula()
    for written, code in [
        ("^", "**"),
        ("u·v", "(u @ v)"),
        ("||u - v||_1", "abs(u - v).sum()"),
        ("||u - v||", "norm(u - v)"),
        ("sum_k (u_k - v_k)**2 / (u_k + v_k)", "chi2(u, v)"),
        ("sum_k min(u_k, v_k)", "minimum(u, v).sum()"),
    ]:
        text = text.replace(written, code)
    text = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text)
    names = {"chi2": chi2, "norm": np.linalg.norm, "u": X[0], "v": Z[0]}
    value = eval(text, {**vars(np), **names})
    expected = interpret(kernel, X[:1], Z[:1])[0, 0]
    assert_allclose(value, expected, rtol=1e-3, atol=1e-4)


def test_printing():
    kernel = RBF(sigma=1) + 0.1 * Linear()
    assert repr(kernel) == "RBF(sigma=1) + 0.1 * Linear()"
    assert repr(RBF(sigma=1.0)) == "RBF(sigma=1.0)"
    assert repr(RBF(gamma=np.float64(0.5))) == "RBF(gamma=0.5)"
    assert repr((Linear() + RBF()) * RBF() ** 2) == "(Linear() + RBF()) * RBF() ** 2"
    assert (Fraction(1, 3) * Linear() ** 2).formula() == "0.333333 * (u·v)^2"
    assert repr(2 * (3 * Linear())) == "2 * (3 * Linear())"
    assert RBF().formula() == "exp(-gamma_scale ||u - v||^2)"
    assert Polynomial(2).formula() == "(u·v)^2"
    assert Polynomial(2, coef0=1).formula() == "(u·v + 1)^2"
    assert Sigmoid(2, coef0=-1).formula() == "tanh(2 u·v - 1)"
    assert (Linear() + -2 * RBF(1)).formula() == "u·v - 2 * exp(-||u - v||^2)"
    assert Callable(pairwise.linear_kernel).formula() == "linear_kernel(u, v)"


def test_latex():
    assert RBF(sigma=1)._repr_latex_() == r"$\exp\left(-0.5 \lVert u - v \rVert^{2}\right)$"
    assert r"\frac{" in Chi2()._repr_latex_()
    assert r"10^{-7}" in RBF(gamma=1e-7)._repr_latex_()
    assert r"\operatorname{linear\_kernel}" in Callable(pairwise.linear_kernel)._repr_latex_()
    for kernel, _ in LEAVES:
        text = ((kernel + Linear()) * RBF() ** 12)._repr_latex_()
        assert text[0] == text[-1] == "$"
        assert text.count("{") == text.count("}")
        assert text.count(r"\left(") == text.count(r"\right)") == text.count("(")


@pytest.mark.parametrize("scalar", [2, 0.5, -1.0, np.float64(2), np.float32(2), np.int64(3)])
def test_scalars_on_both_sides(scalar):
    assert scalar * RBF(1) == RBF(1) * scalar == Scaled(RBF(1), float(scalar))
    assert_allclose(interpret(scalar * RBF(1), X, Z), float(scalar) * interpret(RBF(1), X, Z))


def test_fractions_scale_too():
    assert (Fraction(1, 2) * Linear()).program()[-1] == ("scale", 0.5, 0.0, 0.0)


@pytest.mark.parametrize("wrong", [True, "linear", None, [1], np.ones(3), 1j, np.bool_(True), RBF])
def test_wrong_operands_say_what_is_allowed(wrong):
    for combine in (
        lambda: RBF() + wrong,
        lambda: wrong + RBF(),
        lambda: RBF() * wrong,
        lambda: wrong * RBF(),
    ):
        with pytest.raises(TypeError, match="Kernels combine with kernels and, by \\*, real"):
            combine()
    with pytest.raises(TypeError, match="positive integer; got"):
        RBF() ** wrong


def test_sums_with_numbers_are_refused():
    for combine in (lambda: RBF() + 1, lambda: 1 + RBF(), lambda: RBF() + 0):
        with pytest.raises(TypeError, match="got int"):
            combine()
    assert sum([RBF(gamma=1.0), Linear()]) == RBF(gamma=1.0) + Linear()


def test_a_function_composes_as_it_is():
    kernel = RBF(gamma=1.0) + np.inner
    assert kernel == RBF(gamma=1.0) + Callable(np.inner)
    np.testing.assert_allclose(kernel(np.eye(2)), RBF(gamma=1.0)(np.eye(2)) + np.eye(2))


@pytest.mark.parametrize("exponent", [0, -1, 2.0, 0.5, np.float64(2)])
def test_exponents_are_positive_integers(exponent):
    with pytest.raises(TypeError, match="positive integer"):
        RBF() ** exponent
    with pytest.raises(ValueError, match="exponent must be an integer >= 1"):
        Power(RBF(1), exponent).program()


def test_precomputed_does_not_compose():
    for combine in (
        lambda: Precomputed() + RBF(),
        lambda: RBF() + Precomputed(),
        lambda: RBF() * Precomputed(),
        lambda: 2 * Precomputed(),
        lambda: Precomputed() ** 2,
        lambda: Sum(RBF(1), Precomputed()).program(),
        lambda: Sum(RBF(1), Linear()).set_params(right=Precomputed()).resolve(X),
    ):
        with pytest.raises(TypeError, match=r"Precomputed\(\) does not compose"):
            combine()


def test_what_is_not_compiled_has_no_program():
    function = Callable(pairwise.rbf_kernel, gamma=0.5)
    for kernel in (function, Precomputed(), function + RBF(1), 2 * function, RBF(1) * function**2):
        assert not kernel.compiled
        with pytest.raises(TypeError, match="has no program"):
            kernel.program()
    assert (RBF() + Linear()).compiled


def test_combine_makes_the_matrix_of_a_composition():
    for kernel in (RBF(1) + Linear(), RBF(1) * Linear(), -2 * RBF(1), RBF(1) ** 3):
        matrix = kernel.combine(*(interpret(part, X, Z) for part in kernel.parts))
        assert_allclose(matrix, interpret(kernel, X, Z))
    assert RBF().parts == ()


def test_callables_compose():
    kernel = 0.5 * Callable(pairwise.rbf_kernel, gamma=0.5) + Linear() ** 2
    expected = 0.5 * pairwise.rbf_kernel(X, Z, gamma=0.5) + (X @ Z.T) ** 2
    assert_allclose(kernel(X, Z), expected, rtol=1e-12)


# ---- parameters -------------------------------------------------------------------------------


@given(compositions())
def test_clone_copy_pickle_and_hash(kernel):
    for twin in (clone(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert twin == kernel
        assert twin is not kernel
        assert hash(twin) == hash(kernel)
        assert repr(twin) == repr(kernel)


def test_equality_is_equality_of_parameters():
    assert RBF(1) == RBF(1.0) == RBF(np.float64(1))
    assert hash(RBF(1)) == hash(RBF(1.0))
    assert RBF(0.5) != RBF(sigma=1)
    assert RBF(1) != Laplacian(1)
    assert RBF() != "rbf"
    assert RBF(1) + Linear() != Linear() + RBF(1)
    assert len({RBF(1) + Linear(), RBF(1) + Linear(), RBF(1) * Linear()}) == 2
    nan = RBF(math.nan)
    assert nan == nan


def test_params_reach_into_compositions():
    kernel = RBF(gamma=1.0) + 0.5 * Polynomial(2) ** 3
    params = kernel.get_params()
    assert params["left__gamma"] == 1.0
    assert params["right__scale"] == 0.5
    assert params["right__kernel__exponent"] == 3
    assert params["right__kernel__kernel__degree"] == 2
    assert set(kernel.get_params(deep=False)) == {"left", "right"}
    assert kernel.set_params(left__gamma=7, right__kernel__kernel__degree=5) is kernel
    assert kernel == RBF(gamma=7) + 0.5 * Polynomial(5) ** 3
    assert kernel.set_params(left=Laplacian(), left__gamma=3).left == Laplacian(3)


def test_set_params_changes_only_the_part_it_names():
    shared = RBF(1)
    kernel = shared + shared
    kernel.set_params(left__gamma=5)
    assert kernel == RBF(5) + RBF(1)
    assert shared == RBF(1)


@pytest.mark.parametrize("name", ["wrong", "gamma__x", "left__gamma", "sigma__"])
def test_unknown_parameters_are_named(name):
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}' for RBF.*gamma, sigma"):
        RBF().set_params(**{name: 1})


def test_callable_keeps_its_keywords():
    kernel = Callable(pairwise.polynomial_kernel, degree=2, coef0=1)
    assert kernel.get_params() == {
        "function": pairwise.polynomial_kernel,
        "degree": 2,
        "coef0": 1,
    }
    assert clone(kernel) == kernel
    assert copy.copy(kernel).set_params(degree=3) == Callable(
        pairwise.polynomial_kernel, degree=3, coef0=1
    )
    assert kernel.kw["degree"] == 2
    assert repr(kernel) == "Callable(polynomial_kernel, degree=2, coef0=1)"
    assert kernel.resolve(X) is kernel
    assert Callable(max).set_params(function=min) == Callable(min)
    with pytest.raises(ValueError, match="Invalid parameter 'other'"):
        kernel.set_params(other=1)
    with pytest.raises(TypeError, match=r"needs a function f\(X, Z\); got 3"):
        Callable(3).resolve(X)


def test_callables_with_arrays_compare():
    one, two = (Callable(max, scale=np.ones(n)) for n in (2, 3))
    assert one == clone(one)
    assert one != two
    assert hash(one) == hash(clone(one))
    assert one != Callable(max, scale=1.0)


def test_the_repr_of_a_callable_object():
    assert repr(Callable(GaussianProcessMatern())) == "Callable(Matern)"
    assert Callable(lambda X, Z: X @ Z.T).formula() == "f(u, v)"


class Centroids(ClassifierMixin, BaseEstimator):
    """The smallest classifier with a kernel: the class of larger mean similarity."""

    def __init__(self, kernel=None):
        self.kernel = kernel

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        K = interpret(self.kernel.resolve(self.X_), X, self.X_)
        return self.classes_[np.argmax([K[:, self.y_ == c].mean(axis=1) for c in self.classes_], 0)]


def test_grid_search_reaches_into_kernels():
    kernel = RBF() + 0.1 * Linear()
    grid = {"kernel__left__gamma": [0.1, 1.0], "kernel__right__scale": [0.0, 1.0]}
    data = rng.normal(size=(40, 2))
    search = GridSearchCV(Centroids(kernel), grid, cv=2).fit(data, data[:, 0] > 0)
    assert search.best_estimator_.kernel.left.gamma == search.best_params_["kernel__left__gamma"]
    assert kernel == RBF() + 0.1 * Linear()


# ---- values that are not allowed --------------------------------------------------------------

BAD = [
    (RBF(gamma=-1), r"RBF\(gamma=-1\): gamma must be a finite number >= 0, .*; got -1"),
    (RBF(gamma=math.nan), "gamma must be"),
    (RBF(gamma=math.inf), "gamma must be"),
    (RBF(gamma="wide"), "gamma must be a finite number >= 0, 'scale' or 'auto'; got 'wide'"),
    (RBF(gamma=True), "gamma must be"),
    (RBF(gamma=1.0, sigma=1.0), "give gamma or sigma, not both"),
    (RBF(sigma=0), r"RBF\(sigma=0\): sigma must be a finite number > 0"),
    (RBF(sigma=-1), "sigma must be"),
    (RBF(sigma=1e-200), "sigma must be"),
    (RBF(sigma="scale"), "sigma must be"),
    (Laplacian(gamma=-1), "gamma must be"),
    (Laplacian(gamma=None), "gamma must be"),
    (Chi2(gamma=-1), "gamma must be"),
    (Sigmoid(gamma=1, coef0=math.inf), "coef0 must be a finite number; got inf"),
    (Polynomial(gamma=-0.5), "gamma must be"),
    (Polynomial(-1), "degree must be an integer >= 0, below .*; got -1"),
    (Polynomial(2.5), "degree must be"),
    (Polynomial(2**31), "degree must be"),
    (Polynomial(True), "degree must be"),
    (Polynomial("3"), "degree must be"),
    (Polynomial(coef0="1"), "coef0 must be"),
    (Matern(nu=1), "nu must be 0.5, 1.5 or 2.5; got 1"),
    (Matern(length_scale=0), "length_scale must be a finite number > 0; got 0"),
    (Scaled(Linear(), math.nan), "scale must be a finite number; got nan"),
    (Scaled(Linear(), "2"), "scale must be"),
]


@pytest.mark.parametrize(("kernel", "message"), BAD, ids=lambda value: repr(value)[:40])
def test_bad_values_are_refused_by_resolve_and_program(kernel, message):
    assert clone(kernel).get_params().keys() == kernel.get_params().keys()
    for wrapped in (kernel, 2 * kernel + Linear()):
        for use in (wrapped.program, lambda wrapped=wrapped: wrapped.resolve(X)):
            with pytest.raises(ValueError, match=message):
                use()


def test_parts_must_be_kernels():
    for wrong in (Sum(RBF(1), 3), Sum("rbf", RBF(1)), Power(None, 2), Scaled(RBF, 2)):
        for use in (wrong.program, lambda wrong=wrong: wrong.resolve(X)):
            with pytest.raises(TypeError, match="Kernels combine with kernels"):
                use()


@pytest.mark.parametrize("kernel", [RBF(), RBF("auto"), Sigmoid(), Polynomial(gamma="scale")])
def test_programs_need_numbers(kernel):
    with pytest.raises(ValueError, match=r"has no number for gamma yet: call resolve\(X\)"):
        (kernel + Linear()).program()


# ---- gamma ------------------------------------------------------------------------------------

FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def gamma(X, sample_weight=None, rule="scale"):
    return RBF(gamma=rule).resolve(X, sample_weight).gamma


def test_scale_and_auto_are_those_of_sklearn():
    assert_allclose(gamma(X), 1 / (4 * X.var()), rtol=1e-14)
    assert gamma(X, rule="auto") == 0.25
    assert gamma(sparse.csr_array(X), rule="auto") == 0.25
    assert RBF().resolve(X) == RBF(gamma="scale").resolve(X)
    assert type(gamma(X)) is float
    assert type(gamma(X, rule="auto")) is float


def test_numbers_resolve_to_themselves():
    for kernel in CONCRETE:
        assert kernel.resolve(X) is kernel
        composed = kernel + 2 * Linear()
        assert composed.resolve(None) is composed
    kernel = Linear() + RBF()
    resolved = kernel.resolve(X)
    assert resolved == Linear() + RBF(gamma(X))
    assert resolved.left is kernel.left
    assert kernel == Linear() + RBF()


def test_gamma_resolves_inside_compositions():
    kernel = 2 * RBF() ** 2 + Polynomial(2, gamma="scale") * Laplacian()
    value = gamma(X)
    expected = 2 * RBF(value) ** 2 + Polynomial(2, gamma=value) * Laplacian(0.25)
    assert kernel.resolve(X) == expected
    assert (RBF() + Callable(max)).resolve(X) == RBF(value) + Callable(max)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
def test_sparse_gamma_is_dense_gamma(form, kind):
    data = np.where(X > 0.6, X - 0.9, 0.0)
    rows = kind(data).asformat(form)
    weight = np.arange(9.0)
    assert_allclose(gamma(rows), gamma(data), rtol=1e-13)
    assert_allclose(gamma(rows, weight), gamma(data, weight), rtol=1e-13)


def test_sparse_gamma_never_densifies():
    rows = sparse.random_array((200_000, 3_000_000), density=1e-9, rng=0, format="csr")
    mean = rows.sum() / np.prod([200_000.0, 3_000_000.0])
    expected = (rows.data**2).sum() / 6e11 - mean**2
    assert rows.nnz > 100
    assert_allclose(gamma(rows), 1 / (3_000_000 * expected), rtol=1e-10)


def test_entries_stored_twice_count_as_their_sum():
    data, at = np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1])
    rows = sparse.csr_array((data, at, np.array([0, 2, 3])), shape=(2, 2))
    assert gamma(rows) == gamma(np.array([[3.0, 0.0], [0.0, 4.0]]))
    assert_array_equal(rows.data, data)
    rows = sparse.csr_array((data, at.astype(np.int64), np.array([0, 2, 3])), shape=(2, 2))
    assert gamma(rows) == gamma(np.array([[3.0, 0.0], [0.0, 4.0]]))


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array, np.float32])
@given(weights=st.lists(st.integers(0, 4), min_size=9, max_size=9).filter(any))
def test_weight_is_repetition(layout, weights):
    repeated = layout(np.repeat(X, weights, axis=0))
    assert_allclose(gamma(layout(X), weights), gamma(repeated), rtol=1e-13)
    assert_allclose(gamma(layout(X), 0.1 * np.array(weights)), gamma(repeated), rtol=1e-13)


def test_float32_accumulates_in_float64():
    data = (1000 + rng.normal(size=(5000, 3))).astype(np.float32)
    expected = 1 / (3 * data.astype(np.float64).var())
    assert_allclose(gamma(data), expected, rtol=1e-12)
    assert_allclose(gamma(sparse.csr_array(data)), expected, rtol=1e-12)
    data.flags.writeable = False
    assert_allclose(gamma(data), expected, rtol=1e-12)


def test_many_rows_go_through_blocks():
    data = rng.normal(size=(70_000, 3))
    assert_allclose(gamma(data), 1 / (3 * data.var()), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e30, 1e-300])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_zero_variance_gives_one(value, layout):
    rows = layout(np.full((7, 3), value))
    assert gamma(rows) == 1.0
    assert gamma(rows, np.arange(7.0) / 3) == 1.0


def test_an_outlier_of_weight_zero_vanishes():
    data = np.vstack([np.full((1, 4), 1e30), X])
    assert_allclose(gamma(data, [0.0] + [1.0] * 9), gamma(X), rtol=1e-13)


def test_extreme_sigma():
    assert RBF(sigma=1e200).program() == [("rbf", 0.0, 0.0, 0.0)]
    assert_allclose(RBF(sigma=1e-150).program()[0][1], 5e299)


def test_gamma_of_one_row():
    assert gamma([[1.0, 3.0]]) == 0.5
    assert gamma([[5.0]]) == 1.0
    assert gamma(np.array([[1, 3]])) == 0.5
    assert gamma([[True, False]]) == 2.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_gamma_needs_finite_data(bad):
    data = X.copy()
    data[3, 2] = bad
    for rows in (data, sparse.csr_array(data)):
        with pytest.raises(ValueError, match="variance of X, which is not finite"):
            gamma(rows)
        assert gamma(rows, rule="auto") == 0.25
        assert RBF(1).resolve(rows) == RBF(1)


@pytest.mark.parametrize("shape", [(3,), (0, 3), (3, 0), (2, 2, 2)])
def test_gamma_needs_a_table(shape):
    for rule in ("scale", "auto"):
        with pytest.raises(ValueError, match="two dimensions, rows and features; got shape"):
            gamma(np.ones(shape), rule=rule)


@pytest.mark.parametrize("weight", [[1.0] * 8, [0.0] * 9, [-1.0] + [1.0] * 8, [math.nan] * 9, 1.0])
def test_bad_weights(weight):
    with pytest.raises(ValueError, match="sample_weight needs 9 finite numbers >= 0"):
        gamma(X, weight)


# ---- what is true by construction -------------------------------------------------------------


@given(compositions(leaves=CONCRETE))
def test_promises_hold_on_data(kernel):
    K = interpret(kernel, X, X)
    assert kernel.mercer in (True, None)
    if kernel.mercer:
        assert kernels.mercer(K).smallest_eigenvalue >= -1e-10 * max(1, np.abs(K).max())
    if kernel.nonnegative:
        assert K.min() >= 0
    if kernel.stationary:
        assert_allclose(interpret(kernel, X + 0.5, X + 0.5), K, rtol=1e-9, atol=1e-12)
    if not kernel.needs_nonnegative:
        assert np.isfinite(interpret(kernel, X - 0.5, X - 0.5)).all()


@given(compositions(scales=st.sampled_from([0.0, 0.5, 3]), leaves=MERCER))
def test_mercer_kernels_are_closed_under_the_algebra(kernel):
    assert kernel.mercer is True
    assert (-1 * kernel).mercer is None
    assert (kernel + Sigmoid(1)).mercer is None


def test_traits():
    for kernel in (RBF(), Laplacian(), Matern()):
        assert (kernel.mercer, kernel.nonnegative, kernel.stationary) == (True, True, True)
    for kernel in (Chi2(), HistogramIntersection()):
        assert (kernel.mercer, kernel.nonnegative, kernel.stationary) == (True, True, False)
        assert kernel.needs_nonnegative
        assert (kernel + RBF()).needs_nonnegative
    for kernel in (Sigmoid(), Callable(max), Precomputed(), Polynomial(coef0=-1), -1 * RBF()):
        assert kernel.mercer is None
        assert not kernel.nonnegative
    assert Polynomial(gamma="scale", coef0=1).mercer is True
    assert Polynomial(2, coef0=-1).nonnegative
    assert (Linear() ** 2).nonnegative
    assert not (Linear() ** 3).nonnegative
    assert (RBF() * Matern() + 2 * Laplacian() ** 2).stationary
    assert (-1 * RBF()).stationary
    assert not (RBF() + Linear()).stationary


# ---- Mercer's condition -----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", MERCER, ids=repr)
def test_mercer_kernels_pass(kernel):
    report = kernels.mercer(kernel, X)
    assert report.psd
    assert report.symmetric
    assert report.verdict == "positive semi-definite"
    assert report.by_construction is True
    assert_allclose(report.nearest, interpret(kernel, X, X), rtol=1e-9)


def test_sigmoid_is_told_apart():
    report = kernels.mercer(Sigmoid(gamma=1, coef0=-1), X)
    assert report.verdict == "indefinite"
    assert report.smallest_eigenvalue < 0
    assert report.by_construction is None
    assert kernels.mercer("sigmoid", X).by_construction is None
    assert kernels.mercer(report.nearest).psd


def test_the_nearest_matrix_is_the_nearest():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    report = kernels.mercer(K)
    assert_allclose([report.smallest_eigenvalue, report.largest_eigenvalue], [-1, 3])
    assert_allclose(report.nearest, np.full((2, 2), 1.5))
    assert repr(report) == "indefinite, eigenvalues -1 to 3"
    assert "indefinite" in report._repr_html_()
    for _ in range(100):
        B = rng.normal(size=(2, 2))
        B = report.nearest + 0.1 * (B @ B.T) - 0.05 * report.nearest
        assert np.linalg.norm(K - B) >= np.linalg.norm(K - report.nearest)


def test_a_matrix_that_is_not_symmetric():
    K = np.array([[2.0, 1.0], [0.0, 2.0]])
    report = kernels.mercer(K)
    assert not report.symmetric
    assert not report.psd
    assert report.verdict == "not symmetric"
    assert report.asymmetry == 1.0
    assert_allclose(report.nearest, [[2.0, 0.5], [0.5, 2.0]])
    assert kernels.mercer([[0.0, 1.0], [-1.0, 0.0]]).verdict == "not symmetric"
    assert_array_equal(K, [[2.0, 1.0], [0.0, 2.0]])


def test_rounding_is_forgiven_in_the_precision_of_the_input():
    A = rng.normal(size=(40, 3))
    K = (A @ A.T).astype(np.float32)
    assert kernels.mercer(K).psd
    assert kernels.mercer(A @ A.T).psd
    assert not kernels.mercer(K.astype(np.float64)).psd
    assert kernels.mercer(np.eye(3, dtype=int)).psd


def test_mercer_of_small_matrices():
    assert kernels.mercer([[0.0]]).psd
    assert kernels.mercer([[2.0]]).psd
    assert kernels.mercer([[-1.0]]).verdict == "indefinite"
    assert kernels.mercer(np.zeros((3, 3))).psd
    assert kernels.mercer(sparse.eye_array(3)).psd
    assert kernels.mercer(RBF(), X[:1]).psd


@pytest.mark.parametrize("K", [np.ones((2, 3)), [[math.nan]], [[math.inf, 0], [0, 1]]])
def test_mercer_refuses_what_is_no_kernel_matrix(K):
    with pytest.raises(ValueError, match="square and finite"):
        kernels.mercer(K)
    with pytest.raises(ValueError, match="two dimensions"):
        kernels.mercer([1.0, 2.0])


def test_mercer_needs_rows_for_a_kernel():
    for arguments in ((RBF(),), (np.eye(2), X)):
        with pytest.raises(TypeError, match="a kernel and rows X, or a matrix alone"):
            kernels.mercer(*arguments)


def test_mercer_of_callables():
    assert kernels.mercer(pairwise.rbf_kernel, X).psd
    assert kernels.mercer(lambda X, Z: X[:, :1] - Z[:, :1].T, X).verdict == "not symmetric"


# ---- feature maps -----------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("coef0", [0, 1, 0.3])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
def test_feature_map_is_the_kernel(degree, coef0, m):
    kernel = Polynomial(degree, gamma=0.7, coef0=coef0)
    U, V = kernel.feature_map(X[:, :m]), kernel.feature_map(Z[:, :m] - 0.5)
    assert U.shape == (9, kernel.n_features(m))
    assert_allclose(U @ V.T, interpret(kernel, X[:, :m], Z[:, :m] - 0.5), rtol=1e-10, atol=1e-13)


def test_feature_map_of_N3():
    root = math.sqrt(2)
    x = np.array([[3.0, 5.0]])
    assert_allclose(Polynomial(2).feature_map(x), [[9, root * 15, 25]])
    assert_allclose(
        Polynomial(2, coef0=1).feature_map(x), [[9, root * 15, root * 3, 25, root * 5, 1]]
    )
    assert_array_equal(Linear().feature_map(x), x)
    assert Linear().n_features(7) == 7
    assert_allclose(Polynomial(2).feature_map(sparse.csr_array(x)), [[9, root * 15, 25]])


def test_the_feature_map_that_is_too_large_says_so():
    kernel = Polynomial(6)
    assert kernel.n_features(100) == math.comb(105, 6) == 1_609_344_100  # N3: about 1.6 billion
    assert Polynomial(6, coef0=1).n_features(100) == math.comb(106, 6)
    with pytest.raises(ValueError, match="100 features has 1,609,344,100 terms"):
        kernel.feature_map(np.ones((2, 100)))
    with pytest.raises(ValueError, match="has 3 terms, more than max_features=2"):
        Polynomial(2).feature_map([[1.0, 2.0]], max_features=2)


def test_kernels_without_feature_map():
    with pytest.raises(TypeError, match=r"RBF\(\) has no finite feature map"):
        RBF().feature_map(X)
    with pytest.raises(ValueError, match="coef0 must be >= 0"):
        Polynomial(coef0=-1).feature_map(X)
    with pytest.raises(ValueError, match="call resolve"):
        Polynomial(gamma="scale").feature_map(X)


# ---- names ------------------------------------------------------------------------------------


def test_as_kernel():
    options = {"degree": 2, "gamma": 0.5, "coef0": 1.0}
    assert as_kernel("linear", **options) == Linear()
    assert as_kernel("poly", **options) == Polynomial(2, gamma=0.5, coef0=1.0)
    assert as_kernel("poly") == Polynomial(3, gamma="scale", coef0=0.0)
    assert as_kernel("rbf", **options) == RBF(gamma=0.5)
    assert as_kernel("rbf").resolve(X) == RBF().resolve(X)
    assert as_kernel("sigmoid", **options) == Sigmoid(0.5, coef0=1.0)
    assert as_kernel("precomputed") == Precomputed()
    assert as_kernel(pairwise.rbf_kernel) == Callable(pairwise.rbf_kernel)
    kernel = RBF() + Linear()
    assert as_kernel(kernel) is kernel


@pytest.mark.parametrize("wrong", ["RBF", "", None, 3, RBF, [], np.eye(2)])
def test_as_kernel_lists_what_is_allowed(wrong):
    allowed = "'linear', 'poly', 'rbf', 'sigmoid', 'precomputed', a Kernel"
    with pytest.raises(ValueError, match=f"is not known; allowed are {allowed}"):
        as_kernel(wrong)


def test_importing_kernels_is_light():
    code = "import sys, maxmargin.kernels; print('sklearn' in sys.modules, 'scipy' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]
