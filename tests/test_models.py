"""Other people's models: scikit-learn's estimators and LIBSVM's files, proven and refuted."""

from copy import deepcopy
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from libsvm import svm as libsvm
from libsvm import svmutil
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import scale
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import maxmargin
from maxmargin import kernels, problems
from maxmargin.certificate import Certificate, Status, combine
from maxmargin.estimators.models import certify
from maxmargin.io import load_libsvm_model

TOL = 1e-4
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
MODELS = {
    "SVC": SVC(C=2.0),
    "NuSVC": NuSVC(nu=0.2),
    "SVR": SVR(C=0.5, epsilon=0.3),
    "NuSVR": NuSVR(C=0.5, nu=0.4),
    "OneClassSVM": OneClassSVM(nu=0.3),
}
CLASSIFIERS = ("SVC", "NuSVC")
GAMMA = {"sigmoid": 0.05}  # else 0.3; there a ν-machine has a negative margin, see below


def data(name):
    """75 rows of iris: its three classes, or a target of unit size; off the origin."""
    X, y = load_iris(return_X_y=True)
    X = scale(X)[::2] + (2.0 if name == "OneClassSVM" else 0.0)
    z = scale(X[:, 0] + np.sin(3 * X[:, 1]))
    return X, y[::2] if name in CLASSIFIERS else z


def fitted(name, *, kernel="rbf", sparse=False, weight=None, **settings):
    X, y = data(name)
    numbers = {"kernel": kernel, "tol": TOL, "gamma": GAMMA.get(kernel, 0.3), "coef0": 0.1}
    model = deepcopy(MODELS[name]).set_params(**(numbers | settings))
    X = X @ X.T if kernel == "precomputed" else sp.csr_array(X) if sparse else X
    return model.fit(X, y, sample_weight=weight), X, y


def weights(n, seed=0):
    w = np.random.default_rng(seed).uniform(0.2, 3.0, n)
    w[::9] = 0.0
    return w


def gram(model, X):
    X = X.toarray() if sp.issparse(X) else X
    if model.kernel == "precomputed":
        return X
    numbers = {"gamma": model._gamma, "degree": model.degree, "coef0": model.coef0}
    return pairwise_kernels(X, metric=model.kernel, filter_params=True, **numbers)


def dense(coef):
    return coef.toarray() if sp.issparse(coef) else coef


def dual_of(model, name, X, y, weight):
    """LIBSVM's dual objective from dual_coef_ and K alone, pair by pair."""
    K, coef = gram(model, X), dense(model.dual_coef_)
    w = np.ones(len(y)) if weight is None else weight
    at = np.flatnonzero(w > 0)[model.support_]  # scikit-learn counts only these rows
    if name not in CLASSIFIERS:
        beta = np.zeros(len(y))
        beta[at] = coef[0]
        linear = y @ beta if name in ("SVR", "NuSVR") else 0.0
        tube = model.epsilon * np.abs(beta).sum() if name == "SVR" else 0.0
        return linear - tube - 0.5 * beta @ K @ beta
    total, of = 0.0, np.searchsorted(model.classes_, y[at])
    for i, j in combinations(range(len(model.classes_)), 2):
        beta = np.zeros(len(y))
        beta[at[of == i]] = coef[j - 1, of == i]
        beta[at[of == j]] = coef[i, of == j]
        if name == "NuSVC":
            pair = np.isin(y, model.classes_[[i, j]])
            beta *= model.nu * w[pair].sum() / np.abs(beta).sum()
        total += (np.abs(beta).sum() if name == "SVC" else 0.0) - 0.5 * beta @ K @ beta
    return total


def check(proof, model, name, X, y, weight=None, *, tol=2 * TOL):
    assert proof.dual == pytest.approx(dual_of(model, name, X, y, weight), rel=1e-7)
    assert proof.distance <= 1e-9 * np.abs(dense(model.dual_coef_)).sum()
    assert proof.kkt_violation <= tol
    if model.kernel == "sigmoid":
        assert proof.convex is False
        assert proof.status == "stationary"
    else:
        assert proof.relative_gap <= 1e-3
        assert proof.status == "optimal"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_sklearns_models_are_proven(name, kernel):
    model, X, y = fitted(name, kernel=kernel)
    check(certify(model, X, y, tol=2 * TOL), model, name, X, y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", MODELS)
def test_sparse_data(name, kernel):
    model, X, y = fitted(name, kernel=kernel, sparse=True)
    check(certify(model, X, y, tol=2 * TOL), model, name, X, y)
    check(certify(model, X.toarray(), y, tol=2 * TOL), model, name, X, y)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("name", MODELS)
def test_weights(name, kernel):
    w = weights(75)
    model, X, y = fitted(name, kernel=kernel, weight=w)
    check(certify(model, X, y, sample_weight=w, tol=2 * TOL), model, name, X, y, w)
    changed = w * np.random.default_rng(1).uniform(0.5, 2.0, len(w))
    assert certify(model, X, y, sample_weight=changed, tol=2 * TOL).status is None


@pytest.mark.parametrize("name", MODELS)
def test_a_support_vector_has_weight(name, tmp_path):
    model, X, y = fitted(name)
    w = np.where(np.arange(75) == model.support_[0], 0.0, 1.0)
    with pytest.raises(ValueError, match="pass the sample_weight of fit: row"):
        certify(model, X, y, sample_weight=w)
    path = model_file(tmp_path / "model", name, "rbf", X, y)
    with pytest.raises(ValueError, match=r"sample_weight of training: support vector \d+ has none"):
        certify(path, X, y, sample_weight=w, **GIVEN[name])


@pytest.mark.parametrize("class_weight", [{0: 0.5, 1: 3.0}, "balanced"])
def test_class_weights(class_weight):
    w = weights(75)
    model, X, y = fitted("SVC", class_weight=class_weight, weight=w)
    check(certify(model, X, y, sample_weight=w, tol=2 * TOL), model, "SVC", X, y, w)


def test_the_class_weight_that_nusvc_ignores():
    model, X, y = fitted("NuSVC", class_weight={0: 0.5, 1: 2.0})
    assert certify(model, X, y).status is None
    model.class_weight_ = np.ones(3)
    assert certify(model, X, y).status == "optimal"


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_two_classes_and_their_names(name):
    X, y = load_wine(return_X_y=True)
    X, y = scale(X[y < 2]), np.array(["red", "white"])[y[y < 2]]
    model = deepcopy(MODELS[name]).set_params(tol=TOL).fit(X, y)
    for labels in (y, y.tolist(), y[:, None][:, 0]):
        proof = certify(model, X, labels, tol=2 * TOL)
        assert proof.status == "optimal"
    assert len(proof.lam) == (1 if name == "SVC" else 2)
    with pytest.raises(ValueError, match="the model has no class 'rose'"):
        certify(model, X, np.where(y == "red", "rose", y))
    with pytest.raises(ValueError, match="y differs from it at the support vectors"):
        certify(model, X, np.where(y == "red", "white", "red"))


def test_callable_kernel():
    X, y = load_iris(return_X_y=True)
    model = SVC(kernel=lambda A, B: A @ B.T, tol=TOL).fit(X, y)
    proof = certify(model, X, y, tol=2 * TOL)
    assert proof.status == "optimal"
    words = ["a b", "b", "a a", "c", "c c", "b c"]

    def common(A, B):
        return np.array(
            [[sum(a.count(x) * b.count(x) for x in "abc") for b in B] for a in A], float
        )

    labels = [0, 1, 0, 2, 2, 1]
    assert certify(SVC(kernel=common).fit(words, labels), words, labels).status == "optimal"


def test_each_pair():
    model, X, y = fitted("SVC")
    proofs = certify(model, X, y, each=True, tol=2 * TOL)
    assert len(proofs) == 3
    whole = certify(model, X, y, tol=2 * TOL)
    assert whole.gap == pytest.approx(sum(p.gap for p in proofs))
    assert whole.kkt_violation == max(p.kkt_violation for p in proofs)
    for p, (i, j) in enumerate(combinations(range(3), 2)):
        pair = np.isin(y, [i, j])
        binary = SVC(C=2.0, gamma=0.3, coef0=0.1, tol=TOL).fit(X[pair], y[pair])
        one = certify(binary, X[pair], y[pair])
        assert one.dual == pytest.approx(proofs[p].dual, rel=1e-6)
        assert proofs[p].lam[0] == pytest.approx(model.intercept_[p], abs=1e-3)


# ---- what must not be proven ------------------------------------------------------------------


def tamper(model, **change):
    """A copy with other numbers in it; scikit-learn's are only attributes."""
    model = deepcopy(model)
    for name, value in change.items():
        setattr(model, name, value)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_tampered_models_are_refuted(name):
    model, X, y = fitted(name)
    coef, b = model.dual_coef_, model.intercept_
    rng = np.random.default_rng(0)
    changes = {
        "doubled": {"dual_coef_": 2 * coef},
        "doubled with the intercept": {"dual_coef_": 2 * coef, "intercept_": 2 * b},
        "halved": {"dual_coef_": coef / 2},
        "turned": {"dual_coef_": -coef},
        "noise": {"dual_coef_": coef * rng.uniform(0.9, 1.1, coef.shape)},
        "one changed": {"dual_coef_": np.where(np.arange(coef.shape[1]) == 0, 0.9 * coef, coef)},
        "nothing": {"dual_coef_": 0 * coef},
        "intercept": {"intercept_": b + 0.1},
        "kernel": {"_gamma": 0.5},
    }
    if hasattr(model, "C") and name != "NuSVC" and name != "OneClassSVM":
        changes |= {"larger C": {"C": 2 * model.C}, "smaller C": {"C": model.C / 2}}
    if name in ("NuSVC", "NuSVR", "OneClassSVM"):
        changes |= {"nu": {"nu": model.nu * 0.8}}
    if name == "SVR":
        changes |= {"epsilon": {"epsilon": 0.2}}
    for what, change in changes.items():
        proof = certify(tamper(model, **change), X, y)
        assert proof.status is None, what
        assert proof.kkt_violation > 1e-3 or proof.distance > 0, what
    assert certify(model, X, y).status == "optimal"


def test_all_at_the_bound_and_doubled():
    X, y = data("SVC")
    model = SVC(C=1e-3).fit(X, y)
    assert certify(model, X, y).status == "optimal"
    assert certify(tamper(model, dual_coef_=2 * model.dual_coef_), X, y).status is None


def test_a_negative_margin_is_refuted():
    """An indefinite kernel: LIBSVM divides by η < 0, and the decision of that pair is turned."""
    model, X, y = fitted("NuSVC", kernel="sigmoid", gamma=0.3)
    statuses = [p.status for p in certify(model, X, y, each=True)]
    assert statuses == ["stationary", "stationary", None]


def test_an_early_stop_is_refuted():
    X, y = data("SVC")
    with pytest.warns(UserWarning, match="Solver terminated early"):
        model = SVC(C=10.0, max_iter=5).fit(X, y)
    proof = certify(model, X, y)
    assert proof.status is None
    assert proof.relative_gap > 1e-2


def test_other_data_are_refused():
    model, X, y = fitted("SVC")
    with pytest.raises(ValueError, match="X had shape"):
        certify(model, X[:-1], y[:-1])
    with pytest.raises(ValueError, match="X differs from it at the support vectors"):
        certify(model, X + 1, y)
    with pytest.raises(ValueError, match="needs y"):
        certify(model, X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        certify(model, X, y[:-1])
    with pytest.raises(ValueError, match="c_svc has no nu; it has C"):
        certify(model, X, y, nu=0.5)
    with pytest.raises(ValueError, match="status is for a Problem"):
        certify(model, X, y, status="optimal")
    with pytest.raises(NotFittedError):
        certify(SVC(), X, y)
    with pytest.raises(TypeError, match=r"certify knows SVC, NuSVC, .*; got LogisticRegression"):
        certify(LogisticRegression().fit(X, y), X, y)


def test_problems():
    X, y = data("SVC")
    X, y = X[y < 2], y[y < 2]
    problem = problems.soft_margin(kernels.RBF(gamma=0.3).gram(X), 2.0 * y - 1, C=2.0)
    assert certify(problem, problem.start()).status is None
    assert certify(problem, problem.start(), status="interrupted").status == "interrupted"
    assert len(certify(problem, problem.start(), each=True)) == 1


@pytest.mark.parametrize("name", [*MODELS, "SVDD"])
def test_our_own_estimators(name):
    X, y = data(name)
    w = weights(len(X))
    settings = {} if name == "SVDD" else MODELS[name].get_params()
    settings = {key: settings[key] for key in ("C", "nu", "epsilon") if key in settings}
    model = getattr(maxmargin, name)(gamma=0.3, tol=1e-6, **settings).fit(X, y, sample_weight=w)
    proof = certify(model, X, y, sample_weight=w)
    assert proof.status == "optimal"
    assert proof.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    pairs = certify(model, X, y, sample_weight=w, each=True)
    assert [p.dual for p in pairs] == pytest.approx([c.dual for c in model.certificates_], rel=1e-9)
    with pytest.raises(ValueError, match=f"{name} has its own nu"):
        certify(model, X, y, nu=0.1)


def test_a_model_without_support_vectors():
    X, _ = data("SVR")
    z = np.full(len(X), 3.0)
    for kernel in ("rbf", "linear"):
        model = SVR(kernel=kernel).fit(X, z)
        assert not len(model.support_)
        assert certify(model, X, z).status == "optimal"


def test_nu_svr_with_a_tube_of_no_width():
    """Where ε = 0 is best, α and α* may both be positive and the model holds their difference."""
    X, _ = data("NuSVR")
    z = X[:, 0]
    model = NuSVR(kernel="linear", C=100.0, nu=1.0, tol=1e-6).fit(X, z)
    assert np.abs(model.dual_coef_).sum() < 0.9 * 100 * len(z)
    assert certify(model, X, z).status == "optimal"


# ---- LIBSVM's files ---------------------------------------------------------------------------

SVM_TYPES = {"SVC": 0, "NuSVC": 1, "OneClassSVM": 2, "SVR": 3, "NuSVR": 4}
GIVEN = {
    "SVC": {"C": 2.0},
    "NuSVC": {"nu": 0.2},
    "OneClassSVM": {"nu": 0.3},
    "SVR": {"C": 0.5, "epsilon": 0.3},
    "NuSVR": {"C": 0.5, "nu": 0.4},
}
FLAGS = {"C": "-c", "nu": "-n", "epsilon": "-p"}


def model_file(path, name, kernel, X, y):
    options = " ".join(f"{FLAGS[key]} {value}" for key, value in GIVEN[name].items())
    numbers = f"-s {SVM_TYPES[name]} -t {KERNELS.index(kernel)} -r 0.1 -e {TOL} -q"
    numbers += f" -g {GAMMA.get(kernel, 0.3)}"
    cells = np.hstack([np.arange(1, len(X) + 1)[:, None], X]) if kernel == "precomputed" else X
    problem = libsvm.svm_problem(y.astype(float), cells, isKernel=kernel == "precomputed")
    model = svmutil.svm_train(problem, libsvm.svm_parameter(f"{numbers} {options}"))
    svmutil.svm_save_model(str(path), model)
    return path


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_libsvms_files_are_proven(name, kernel, tmp_path):
    theirs, X, y = fitted(name, kernel=kernel)
    shuffled = np.random.default_rng(3).permutation(len(X))  # labels in another order than sorted
    X = X[np.ix_(shuffled, shuffled)] if kernel == "precomputed" else X[shuffled]
    y = y[shuffled]
    path = model_file(tmp_path / "model", name, kernel, X, y)
    for model in (path, str(path), load_libsvm_model(path)):
        proof = certify(model, X, y, **GIVEN[name], tol=2 * TOL)
    assert proof.kkt_violation <= 2 * TOL
    if kernel == "sigmoid":
        assert proof.status == "stationary"
        return
    assert proof.status == "optimal"
    assert proof.relative_gap <= 1e-3
    X, y = data(name)
    same = certify(theirs, X @ X.T if kernel == "precomputed" else X, y)
    assert proof.dual == pytest.approx(same.dual, rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_files_hold_no_settings(name, tmp_path):
    X, y = data(name)
    path = model_file(tmp_path / "model", name, "rbf", X, y)
    for missing in GIVEN[name]:
        rest = {key: value for key, value in GIVEN[name].items() if key != missing}
        with pytest.raises(ValueError, match=f"holds no {missing}: pass certify"):
            certify(path, X, y, **rest)
        wrong = GIVEN[name] | {missing: 0.8 * GIVEN[name][missing]}
        assert certify(path, X, y, **wrong).status is None


@pytest.mark.parametrize("name", MODELS)
def test_equal_rows_in_a_file(name, tmp_path):
    """A file does not tell which of several equal rows a coefficient belongs to."""
    X, y = data(name)
    rng = np.random.default_rng(5)
    pick = np.concatenate([np.arange(len(X)), rng.integers(0, len(X), 40)])
    X, y = X[pick], y[pick]
    y = y + rng.normal(size=len(y)) if name in ("SVR", "NuSVR") else y
    path = model_file(tmp_path / "model", name, "rbf", X, y)
    shuffled = rng.permutation(len(X))
    proof = certify(path, X[shuffled], y[shuffled], **GIVEN[name], tol=2 * TOL)
    assert proof.status == "optimal"
    assert proof.relative_gap <= 1e-3


def test_weighted_equal_rows_in_a_file(tmp_path):
    """C = 1 and C = 2 on two equal rows is the same machine as three rows with C = 1."""
    X, y = data("SVC")
    thrice = np.concatenate([np.arange(len(X))] * 3)
    path = model_file(tmp_path / "model", "SVC", "rbf", X[thrice], y[thrice])
    twice = np.concatenate([np.arange(len(X))] * 2)
    w = np.repeat([1.0, 2.0], len(X))
    proof = certify(path, X[twice], y[twice], C=2.0, sample_weight=w, tol=2 * TOL)
    assert proof.status == "optimal"
    assert certify(path, X[twice], y[twice], C=2.0, tol=2 * TOL).status is None


def test_files_of_other_data(tmp_path):
    X, y = data("SVC")
    path = model_file(tmp_path / "model", "SVC", "rbf", X, y)
    with pytest.raises(ValueError, match="support vector 0 of the file is no row of class 0 in X"):
        certify(path, X + 1, y, C=2.0)
    with pytest.raises(ValueError, match="is no row of class"):
        certify(path, X, (y + 1) % 3, C=2.0)
    with pytest.raises(ValueError, match="the model has no class"):
        certify(path, X, y + 7, C=2.0)
    path = model_file(tmp_path / "pre", "SVC", "precomputed", X @ X.T, y)
    with pytest.raises(ValueError, match=r"the file names row \d+, but X has 3 rows"):
        certify(path, np.eye(3), [0, 1, 2], C=2.0)
    with pytest.raises(ValueError, match="y differs from it at the support vectors"):
        certify(path, X @ X.T, (y + 1) % 3, C=2.0)
    with pytest.raises(ValueError, match="square training Gram matrix"):
        certify(path, X, y, C=2.0)


# ---- sums -------------------------------------------------------------------------------------


def proof(**change):
    numbers = {"primal": 1.0, "dual": 0.5, "gap": 0.5, "relative_gap": 0.5, "kkt_violation": 0.1}
    rest = {"lam": np.zeros(1), "convex": True, "distance": 3.0, "status": Status.OPTIMAL}
    return Certificate(**(numbers | rest | change))


def test_combine():
    both = combine([proof(), proof(primal=3.0, dual=3.0, gap=0.0, kkt_violation=0.2, distance=4.0)])
    assert (both.primal, both.dual, both.gap) == (4.0, 3.5, 0.5)
    assert both.relative_gap == 0.125
    assert (both.kkt_violation, both.distance, len(both.lam)) == (0.2, 5.0, 2)
    assert (both.convex, both.status) == (True, Status.OPTIMAL)
    assert combine([proof(convex=None), proof(convex=False)]).convex is False
    assert combine([proof(convex=None), proof()]).convex is None
    assert combine([proof(status=None), proof()]).status is None
    assert combine([proof(status=Status.STATIONARY), proof()]).status == "stationary"
    limit, broken = (
        proof(status=Status.ITERATION_LIMIT),
        proof(status=Status.INTERRUPTED, proof="why"),
    )
    assert combine([limit, broken, proof()]).status == "interrupted"
    assert combine([limit, broken, proof()]).proof == "why"
    assert combine([proof(gap=np.inf, primal=np.inf), proof()]).relative_gap == np.inf
    one = proof()
    assert combine([one]) is one
