"""Rows, Gram entries and products: against NumPy, in every storage, without needless copies."""

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import _core, kernels, problems, solvers
from maxmargin.grams import Gram, as_rows, check_data, default_cache_size, evaluate, expand

RNG = np.random.default_rng(0)
X = RNG.random((37, 11)) * (RNG.random((37, 11)) < 0.6)
Z = RNG.random((23, 11)) * (RNG.random((23, 11)) < 0.6)

KERNELS = [
    kernels.Linear(),
    kernels.Polynomial(3, gamma=0.5, coef0=1.0),
    kernels.RBF(gamma=0.7),
    kernels.Laplacian(gamma=0.3),
    kernels.Sigmoid(0.5, coef0=-0.2),
    kernels.Matern(0.5),
    kernels.Matern(1.5),
    kernels.Matern(2.5, length_scale=0.8),
    kernels.Chi2(gamma=0.4),
    kernels.HistogramIntersection(),
    kernels.RBF(gamma=0.7) + 0.1 * kernels.Linear() ** 2,
    (kernels.Linear() + kernels.Laplacian(gamma=1.0)) * (kernels.RBF(gamma=0.2) + kernels.Chi2()),
]


def reference(kernel, A, B):
    """Entry by entry, from the formula's own words."""
    ops = {
        "linear": lambda u, v: u @ v,
        "poly": lambda u, v, g, c, d: (g * (u @ v) + c) ** d,
        "rbf": lambda u, v, g: np.exp(-g * ((u - v) ** 2).sum()),
        "laplacian": lambda u, v, g: np.exp(-g * np.abs(u - v).sum()),
        "sigmoid": lambda u, v, g, c: np.tanh(g * (u @ v) + c),
        "intersection": lambda u, v: np.minimum(u, v).sum(),
    }

    def chi2(u, v, g):
        total = np.where(u + v > 0, u + v, 1.0)
        return np.exp(-g * ((u - v) ** 2 / total).sum())

    def matern(u, v, nu, scale):
        r = np.sqrt(2 * nu * ((u - v) ** 2).sum()) / scale
        return {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[nu] * np.exp(-r)

    ops |= {"chi2": chi2, "matern": matern}
    counts = {"poly": 3, "rbf": 1, "laplacian": 1, "sigmoid": 2, "chi2": 1, "matern": 2}
    out = np.empty((len(A), len(B)))
    for i, u in enumerate(A):
        for j, v in enumerate(B):
            stack = []
            for op, *numbers in kernel.program():
                if op in ops:
                    stack.append(ops[op](u, v, *numbers[: counts.get(op, 0)]))
                elif op in ("add", "mul"):
                    b, a = stack.pop(), stack.pop()
                    stack.append(a + b if op == "add" else a * b)
                else:
                    a = stack.pop()
                    stack.append(a * numbers[0] if op == "scale" else a ** numbers[0])
            (out[i, j],) = stack
    return out


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_entries_in_every_storage(kernel, make):
    expected = reference(kernel, X, Z)
    np.testing.assert_allclose(kernel(make(X), make(Z)), expected, rtol=1e-12, atol=1e-13)
    gram = kernel.gram(make(X))
    whole = reference(kernel, X, X)
    np.testing.assert_allclose(gram.diag, np.diag(whole), rtol=1e-12)
    np.testing.assert_allclose(gram.rows([3, 0]), whole[[3, 0]], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gram.tile([5], [1, 2]), whole[[5]][:, [1, 2]], rtol=1e-12)
    beta = RNG.normal(size=37) * (RNG.random(37) < 0.5)
    np.testing.assert_allclose(gram.matvec(beta), whole @ beta, rtol=1e-11, atol=1e-11)
    several = RNG.normal(size=(37, 3))
    np.testing.assert_allclose(gram.matvec(several), whole @ several, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 600])
def test_a_matrix_with_itself_is_symmetric_to_the_bit(n):
    A = np.random.default_rng(n).normal(size=(n, 5))
    kernel = kernels.RBF(gamma=0.2) + kernels.Laplacian(gamma=0.1)
    K = kernel(A)
    assert (K == K.T).all()
    np.testing.assert_allclose(K, kernel(A, A.copy()), rtol=1e-13)
    assert (kernel.gram(A).rows(np.arange(n)) == K).all()


def test_float32_rows_are_read_where_they_lie():
    single = X.astype(np.float32)
    single.flags.writeable = False
    np.testing.assert_allclose(
        kernels.RBF(gamma=0.7)(single, Z), reference(kernels.RBF(gamma=0.7), single, Z), rtol=1e-12
    )
    strided = RNG.random((20, 30))[::2, ::3]
    np.testing.assert_allclose(kernels.Linear()(strided), strided @ strided.T, rtol=1e-13)
    swapped = X.astype(">f8")
    np.testing.assert_allclose(kernels.Linear()(swapped), X @ X.T, rtol=1e-12, atol=1e-14)


def test_csr_with_int64_indices_and_duplicate_entries():
    csr = sp.csr_array(X)
    wide = sp.csr_array(
        (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=csr.shape
    )
    kernel = kernels.Laplacian(gamma=0.3)
    np.testing.assert_allclose(kernel(wide, Z), reference(kernel, X, Z), rtol=1e-12)
    doubled = sp.csr_array(([0.5, 0.5], [1, 1], [0, 2]), shape=(1, 3))
    assert kernel(doubled, [[0.0, 1.0, 0.0]])[0, 0] == 1.0
    assert doubled.nnz == 2  # the caller's matrix is untouched


CLUSTERS = np.vstack([RNG.normal(size=(20, 3)) - 1e8, RNG.normal(size=(20, 3)) + 1e8])
RADIAL = [
    kernels.RBF(gamma=1.0),
    kernels.Matern(0.5),
    kernels.Matern(1.5),
    kernels.Matern(2.5, length_scale=2.0),
    0.5 * kernels.RBF(gamma=0.1) ** 3 + kernels.Laplacian(gamma=0.2) * kernels.Matern(1.5),
    kernels.RBF(gamma=1.0) + 1e-20 * kernels.Linear(),
]


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_distances_between_long_rows_keep_their_digits(kernel, make):
    data = make(CLUSTERS)
    expected = reference(kernel, CLUSTERS, CLUSTERS)
    np.testing.assert_allclose(kernel(data), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(kernel(data, make(CLUSTERS[:7])), expected[:, :7], rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(data).matvec(np.ones(40)), expected.sum(axis=1))


def test_a_matern_of_close_rows_sees_their_distance():
    rows = np.array([[1.0, 2.0], [1.0, 2.0 + 1e-9]])
    for kernel in (kernels.Matern(0.5), kernels.Matern(0.5) + kernels.Linear()):
        expected = reference(kernel, rows, rows)
        np.testing.assert_allclose(kernel(rows), expected, rtol=0, atol=2e-15)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_far_from_the_basis_keep_their_digits(make):
    near, far = RNG.normal(size=(30, 4)), RNG.normal(size=(8, 4)) * 10.0 ** np.arange(8)[:, None]
    for kernel in (kernels.RBF(gamma=0.3), kernels.Matern(1.5)):
        K = kernel(make(far), make(near))
        np.testing.assert_allclose(K, reference(kernel, far, near), rtol=0, atol=1e-13)
        for i in range(8):  # alone as in the batch
            np.testing.assert_allclose(kernel(make(far[[i]]), make(near)), K[[i]], atol=1e-15)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_large_offset_does_not_change_the_gram(make):
    kernel = kernels.RBF(gamma=0.25)
    rows = np.round(RNG.normal(size=(50, 4)) * 2**10) / 2**10  # exact after the shift
    np.testing.assert_allclose(kernel(make(rows + 2.0**23)), kernel(rows), rtol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", [kernels.RBF(gamma=1.0), kernels.Matern(), kernels.Sigmoid(1.0)])
def test_norms_that_overflow_are_refused(kernel, make):
    huge = make(np.array([[1e160, 0.0], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="overflows on these data; scale the features first"):
        kernel.gram(huge)
    with pytest.raises(ValueError, match="overflows on these data; scale the features first"):
        kernel(huge, make(np.eye(2)))


def test_rows_to_predict_on_are_checked_in_the_core():
    basis = _core.Basis(as_rows(np.eye(2)), None, kernels.RBF(gamma=1.0).program())
    for make in (np.asarray, sp.csr_array):
        with pytest.raises(ValueError, match="overflows"):
            expand(basis, as_rows(make(np.array([[1e160, 0.0]]))), np.ones((2, 1)))


@pytest.mark.parametrize("kernel", [kernels.Chi2(), 2.0 * kernels.HistogramIntersection()])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array])
def test_histograms_to_predict_on_must_be_nonnegative(kernel, make):
    bad = make(np.array([[1.0, 0.0], [0.5, -1e-3]]))
    basis = _core.Basis(as_rows(make(np.eye(2))), None, kernel.program())
    with pytest.raises(ValueError, match="non-negative"):
        expand(basis, as_rows(bad), np.ones((2, 1)), n_threads=2)
    with pytest.raises(ValueError, match="non-negative"):
        kernel(np.eye(2), bad)
    with pytest.raises(ValueError, match=r"non-negative data; the smallest cell is -0\.001"):
        check_data(kernel, bad)


def test_no_norm_no_overflow():
    rows = np.array([[1e300, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(kernels.Laplacian(gamma=1.0)(rows), np.eye(2))
    np.testing.assert_array_equal(kernels.Chi2(gamma=1.0)(rows), [[1, 0], [0, 1]])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_dense_rows_against_sparse_ones(kernel):
    expected = reference(kernel, X, Z)
    np.testing.assert_allclose(kernel(X, sp.csr_array(Z)), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(kernel(sp.csr_array(X), Z), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("width", [2**22 + 1, 2**31 - 1])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sparse_rows_of_any_width(kernel, width):
    columns = np.sort(np.random.default_rng(0).choice(width, size=11, replace=False))
    A, B = (
        sp.csr_array((M.data, columns[M.indices], M.indptr), shape=(M.shape[0], width))
        for M in (sp.csr_array(X), sp.csr_array(Z))
    )
    np.testing.assert_allclose(kernel(A, B), reference(kernel, X, Z), rtol=1e-12, atol=1e-13)
    gram, whole = kernel.gram(A), reference(kernel, X, X)
    np.testing.assert_allclose(gram.diag, np.diag(whole), rtol=1e-12)
    np.testing.assert_allclose(gram.matvec(np.ones(37)), whole.sum(axis=1), rtol=1e-11)


def test_more_columns_than_32_bits_count_are_refused():
    wide = sp.csr_array(([1.0], [2**31], [0, 1]), shape=(1, 2**31 + 1))
    with pytest.raises(ValueError, match=r"2147483649 columns; at most 2\*\*31 - 1"):
        kernels.Linear().gram(wide)


@pytest.mark.parametrize("types", [(np.int32, np.int64), (np.int64, np.int32)])
def test_indices_and_offsets_of_different_types(types):
    csr = sp.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(types[0]), csr.indptr.astype(types[1])
    np.testing.assert_allclose(kernels.Linear()(csr), X @ X.T, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(kernels.Linear().gram(csr).rows([3]), X[[3]] @ X.T, atol=1e-15)
    assert (csr.indices.dtype, csr.indptr.dtype) == types  # the caller's matrix is untouched


def test_columns_out_of_order_are_put_in_order():
    csr = sp.csr_array(X)
    assert csr.has_canonical_format  # SciPy remembers this, right or wrong
    for a, b in zip(csr.indptr, csr.indptr[1:], strict=False):
        csr.indices[a:b] = csr.indices[a:b][::-1].copy()
        csr.data[a:b] = csr.data[a:b][::-1].copy()
    kernel = kernels.Laplacian(gamma=0.3)
    np.testing.assert_allclose(kernel(csr, sp.csr_array(Z)), reference(kernel, X, Z), rtol=1e-12)


@pytest.mark.parametrize("form", ["lil", "dok", "coo", "dia", "bsr", "csc"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_every_sparse_format(form, dtype):
    cells = (4 * X).astype(dtype)
    given = sp.coo_array(cells).asformat(form)
    plain = cells.astype(np.float64)
    kernel = kernels.RBF()
    gram = kernel.gram(given)
    np.testing.assert_allclose(gram.rows([3, 0]), kernel.gram(plain).rows([3, 0]), rtol=1e-6)
    np.testing.assert_allclose(kernel(given, given), kernel(plain), rtol=1e-6)
    np.testing.assert_allclose(kernels.Linear()(given), plain @ plain.T, rtol=1e-6)


def test_half_precision():
    half = X.astype(np.float16)
    expected = half.astype(np.float64) @ half.T.astype(np.float64)
    np.testing.assert_allclose(kernels.Linear()(half), expected)


@pytest.mark.parametrize("exponent", [-300, -12, -8, -4, -2, -1, -0.21, -0.2, 0, 1, 2, 150])
def test_tanh_is_relatively_accurate(exponent):
    rows = np.linspace(1.0, 1.5, 101)[:, None] * 10.0**exponent
    K = kernels.Sigmoid(1.0)(np.vstack([rows, -rows]), [[1.0]])[:, 0]
    expected = np.tanh(np.vstack([rows, -rows]))[:, 0]
    np.testing.assert_allclose(K, expected, rtol=1e-14)


def test_unscaled_rows_keep_their_distances():
    far = RNG.normal(size=(30, 4)) + 1e7
    centred = far - far[0]
    np.testing.assert_allclose(
        kernels.RBF(gamma=0.1)(far), reference(kernels.RBF(gamma=0.1), centred, centred), rtol=1e-7
    )


def test_coinciding_rows_have_equal_kernel_values():
    rows = RNG.normal(size=(50, 33)) * 1e3
    K = kernels.RBF(gamma=1e-6)(np.vstack([rows, rows]))
    assert (np.diag(K[:50, 50:]) == 1.0).all()


def test_product_is_remembered_only_for_equal_vectors():
    gram = kernels.RBF(gamma=1.0).gram(X)
    beta = np.zeros(37)
    beta[3] = 1.0
    first = gram.matvec(beta)
    first[:] = np.nan  # what is handed out is the caller's
    assert np.isfinite(gram.matvec(beta)).all()
    beta[3] = 2.0
    np.testing.assert_allclose(gram.matvec(beta)[3], 2.0)


def by_its_storage(K, storage):
    """The same matrix with rows side by side, columns side by side, or neither."""
    if storage == "strided":
        wide = np.zeros((2 * len(K), 2 * len(K)), dtype=K.dtype)
        wide[::2, ::2] = K
        return wide[::2, ::2]
    return np.asarray(K, order=storage)


@pytest.mark.parametrize("storage", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_part_of_a_stored_gram_is_that_of_its_rows(dtype, storage):
    K = by_its_storage(kernels.RBF(gamma=0.7)(X).astype(dtype), storage)
    gram, rows = kernels.Precomputed().gram(K), RNG.permutation(37)[:20]
    part, few = gram.subset(rows), np.array([5, 0, 11])
    for g, at in ((part, rows), (part.subset(few), rows[few])):
        whole = K[np.ix_(at, at)]
        beta = RNG.random(g.n) * (RNG.random(g.n) < 0.5)
        np.testing.assert_array_equal(g.diag, np.diag(whole))
        before = g.matvec(beta)
        np.testing.assert_allclose(before, whole.astype(float) @ beta, rtol=1e-14)
        several = RNG.random((g.n, 3))
        np.testing.assert_allclose(g.matvec(several), whole.astype(float) @ several, rtol=1e-13)
        np.testing.assert_array_equal(g.tile([0, 2], [1]), whole[np.ix_([0, 2], [1])])
        np.testing.assert_array_equal(g.rows([1]), whole[[1]])
        np.testing.assert_array_equal(g.square(np.array([2, 1])), whole[np.ix_([2, 1], [2, 1])])
        np.testing.assert_array_equal(g.matrix, whole)
        np.testing.assert_array_equal(g.matvec(beta), before)  # the same bits, copied or not
    assert gram.subset(rows).convex is True


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_solving_on_a_part_is_solving_on_its_copy(dtype):
    rng = np.random.default_rng(8)
    rows = rng.random((700, 5))
    y = np.where(rows[:, 0] + 0.3 * rng.normal(size=700) > 0.5, 1.0, -1.0)
    gram = kernels.Precomputed().gram(kernels.RBF(gamma=2.0)(rows).astype(dtype))
    chosen = rng.permutation(700)[:600]
    part, copied = gram.subset(chosen), gram.subset(chosen).stored()
    assert part.chosen is not None
    assert copied.chosen is None
    on_part, on_copy = (
        solvers.solve(problems.soft_margin(g, y[chosen], C=10.0), solvers.SMO(), tol=1e-7)
        for g in (part, copied)
    )
    assert on_part.status == on_copy.status == "optimal"
    np.testing.assert_allclose(on_part.beta, on_copy.beta, atol=1e-4)
    assert on_part.certificate.dual == pytest.approx(on_copy.certificate.dual, rel=1e-9)


def test_a_product_reads_only_what_is_there():
    K = kernels.RBF(gamma=0.7)(X)
    stored, one = as_rows(K), np.ones(1)
    for of, column in ((None, 37), (None, -1), (np.array([37]), 0), (np.array([3]), 1)):
        with pytest.raises(IndexError):
            stored.product(of, np.array([column]), one)
    for rows, coef in ((as_rows(X), one), (stored, np.ones(2)), (as_rows(sp.csr_array(K)), one)):
        with pytest.raises(ValueError, match="a square of K"):
            rows.product(None, np.array([0]), coef)


@given(st.integers(1, 5), st.integers(1, 3))
def test_any_number_of_threads_gives_the_same_bits(threads, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(300, 7))
    rows = as_rows(A)
    basis = _core.Basis(rows, None, kernels.RBF(gamma=0.3).program())
    coef = rng.normal(size=(300, 2))
    one, many = (basis.combine(rows, 0, 300, coef, t) for t in (1, threads))
    assert (one == many).all()
    assert (basis.matrix(rows, 0, 300, 1) == basis.matrix(rows, 0, 300, threads)).all()


def test_precomputed_and_callable():
    K = X @ X.T
    gram = kernels.Precomputed().gram(K)
    np.testing.assert_allclose(gram.matvec(np.ones(37)), K.sum(axis=1))
    np.testing.assert_allclose(gram.tile([1], [2]), K[1, 2])
    assert kernels.Precomputed().gram(K.astype(np.float32)).matrix.dtype == np.float32
    function = kernels.Callable(lambda A, B: A @ B.T)
    np.testing.assert_allclose(function.gram(X).rows([0]), K[[0]])
    mixed = 2.0 * function + kernels.RBF(gamma=0.7)
    np.testing.assert_allclose(mixed(X, Z), 2 * X @ Z.T + kernels.RBF(gamma=0.7)(X, Z))


def test_rounding_in_a_precomputed_matrix_is_averaged():
    K = X @ X.T
    K[1, 2] += 1e-15
    gram = kernels.Precomputed().gram(K)
    assert (gram.matrix == gram.matrix.T).all()
    np.testing.assert_allclose(gram.matrix, K, rtol=0, atol=1e-15)
    exact = (K + K.T) / 2
    assert kernels.Precomputed().gram(exact).matrix is exact  # not copied


def test_a_function_of_two_rows_is_told_what_to_return():
    with pytest.raises(
        ValueError, match=r"must return a matrix of shape \(37, 37\).*not with two rows"
    ):
        kernels.Callable(lambda A, B: A).gram(X)


def test_convexity_is_known_or_tested():
    assert kernels.RBF(gamma=1.0).gram(X).convex is True
    assert kernels.Precomputed().gram(X @ X.T).convex is True
    assert kernels.Precomputed().gram(-np.eye(4)).convex is False
    assert kernels.Sigmoid(1.0, coef0=-1.0).gram(RNG.normal(size=(40, 2))).convex is False
    assert kernels.Precomputed().gram((X @ X.T).astype(np.float32)).convex is True


def rotated(eigenvalues, dtype):
    n = len(eigenvalues)
    Q, _ = np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))
    K = (Q * eigenvalues) @ Q.T
    return ((K + K.T) / 2).astype(dtype)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_float32_rows_of_data_beyond_the_range_of_float32(scale):
    rows = np.random.default_rng(0).uniform(-1, 1, size=(2100, 2))  # enough for float32 rows
    y = np.where(np.linalg.norm(rows, axis=1) > 0.7, 1.0, -1.0)
    problem = problems.soft_margin(kernels.RBF().gram(scale * rows), y)
    assert solvers.solve(problem, max_iter=5000).status == "optimal"


def test_a_small_negative_eigenvalue_is_seen():
    eigenvalues = np.linspace(0.0, 1.0, 500)
    assert kernels.Precomputed().gram(rotated(eigenvalues, np.float32)).convex is True
    eigenvalues[0] = -4e-4
    assert kernels.Precomputed().gram(rotated(eigenvalues, np.float32)).convex is False
    eigenvalues[0] = -1e-12
    assert kernels.Precomputed().gram(rotated(eigenvalues, np.float64)).convex is False


def test_large_entries_hide_no_indefinite_block():
    K = np.zeros((4, 4))
    K[[0, 1], [0, 1]], K[[2, 3], [3, 2]] = 1e15, 1.0
    assert kernels.Precomputed().gram(K).convex is False
    K[[2, 3], [2, 3]] = 0.5
    assert kernels.Precomputed().gram(K).convex is False
    K[[2, 3], [2, 3]] = 1.0
    assert kernels.Precomputed().gram(K).convex is True
    assert kernels.Precomputed().gram(np.diag([1.0, 0.0])).convex is True
    assert kernels.Precomputed().gram(np.zeros((2, 2))).convex is True
    assert kernels.Precomputed().gram([[1e-320, 1.0], [1.0, 1.0]]).convex is False


@pytest.mark.parametrize("rank", [1, 3, 50, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_of_any_rank_is_convex(rank, dtype):
    rows = np.random.default_rng(rank).normal(size=(300, rank)) * np.geomspace(1e-3, 1e3, rank)
    for shift in (0.0, 100.0):
        A = (rows + shift).astype(dtype)
        assert kernels.Precomputed().gram(A @ A.T).convex is True
        assert kernels.Callable(lambda A, B: A @ B.T).gram(A).convex is True


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_rounding_may_be_asymmetric(dtype):
    K = np.eye(500, dtype=dtype)
    K[1, 2] += 8 * np.finfo(dtype).eps
    assert kernels.Precomputed().gram(K).convex is True
    K[1, 2] = 100 * np.finfo(dtype).eps
    with pytest.raises(ValueError, match=r"symmetric; entries \(1, 2\)"):
        kernels.Precomputed().gram(K)


BAD = [
    (kernels.RBF(), [[np.nan]], "NaN or infinite"),
    (kernels.RBF(), [[np.inf]], "NaN or infinite"),
    (kernels.RBF(), np.empty((0, 3)), "at least one row"),
    (kernels.RBF(gamma=1.0), [1.0, 2.0], "2 dimensions"),
    (kernels.Chi2(), [[-1.0]], "non-negative"),
    (kernels.HistogramIntersection(), [[-1.0]], "non-negative"),
    (kernels.Polynomial(9, gamma=1.0), [[1e200]], "overflows"),
    (kernels.Precomputed(), np.ones((2, 3)), "square"),
    (kernels.Precomputed(), [[1.0, 2.0], [0.0, 1.0]], r"symmetric; entries \(0, 1\)"),
    (kernels.Precomputed(), [[np.nan, 0.0], [0.0, 1.0]], "NaN"),
]


@pytest.mark.parametrize(("kernel", "data", "message"), BAD)
def test_bad_data(kernel, data, message):
    with pytest.raises(ValueError, match=message):
        Gram(kernel, data)


def test_bad_indices_and_shapes():
    gram = kernels.Linear().gram(X)
    with pytest.raises(IndexError, match="row numbers"):
        gram.rows([37])
    with pytest.raises(ValueError, match="37 rows"):
        gram.matvec(np.ones(5))
    with pytest.raises(ValueError, match="features"):
        evaluate(kernels.Linear(), X, Z[:, :3])
    with pytest.raises(ValueError, match="pass the Gram matrix"):
        kernels.Precomputed()(X)
    with pytest.raises(TypeError, match="Sparse precomputed"):
        kernels.Precomputed().gram(sp.csr_array(np.eye(3)))


@pytest.mark.parametrize(("part", "at", "value"), [("indices", 5, 10**8), ("indptr", 3, 10**9)])
def test_a_damaged_sparse_matrix_is_refused(part, at, value):
    damaged = sp.csr_array(X)
    getattr(damaged, part)[at] = value
    with pytest.raises(ValueError, match="ind"):
        as_rows(damaged)


def test_core_refuses_what_would_read_beyond_memory():
    rows = as_rows(X)
    program = kernels.Linear().program()
    with pytest.raises(IndexError):
        _core.Basis(rows, np.array([99], dtype=np.int64), program)
    basis = _core.Basis(rows, None, program)
    with pytest.raises(IndexError):
        basis.matrix(rows, 30, 30, 1)
    with pytest.raises(ValueError, match="width"):
        basis.matrix(as_rows(Z[:, :3]), 0, 1, 1)
    with pytest.raises(ValueError, match="coefficients"):
        basis.combine(rows, 0, 1, np.ones((3, 1)), 1)
    for code in ([], [("add", 0.0, 0.0, 0.0)], [("nonsense", 0.0, 0.0, 0.0)], program * 2):
        with pytest.raises(ValueError, match="kernel"):
            _core.Basis(rows, None, code)


def test_default_cache_is_at_least_sklearns():
    assert default_cache_size() >= 200


def cache_in_a_worker(_):
    return default_cache_size()


def test_workers_share_the_default_cache(monkeypatch):
    monkeypatch.setattr("maxmargin.grams._available_bytes", lambda: 1 << 40)
    monkeypatch.setattr("maxmargin.grams.cpu_count", lambda: 4)
    assert default_cache_size() == 1 << 18
    parallel = joblib.Parallel(n_jobs=2, backend="threading")
    assert parallel(joblib.delayed(cache_in_a_worker)(k) for k in range(2)) == [1 << 16] * 2
    monkeypatch.setattr("maxmargin.grams.cpu_count", lambda: 10**6)
    assert parallel(joblib.delayed(cache_in_a_worker)(k) for k in range(2)) == [200] * 2
