"""The workloads: what ANCHORS.md measures, and the formulations and sparse data it leaves out."""

from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_classification, make_friedman1
from sklearn.preprocessing import scale

from maxmargin.datasets import chessboard as board

SHARED = Path(__file__).parents[2] / "shared" / "data"
GROWTH = {"full": (1000, 2000, 5000, 10000, 20000, 50000), "quick": (500, 1000, 2000)}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Data and the problem posed on them; gamma="scale" becomes a number, the same for all."""

    name: str
    section: str
    load: Any  # () -> X, y
    estimator: str = "SVC"
    params: dict = field(default_factory=dict)


def workloads(*, quick):
    if quick:
        return generated(2000, section="quick")
    return (real() if SHARED.exists() else []) + generated(20000, section="synthetic")


def growth(*, quick):
    """ANCHORS' first synthetic row and the chessboard, at growing n."""
    sizes = GROWTH["quick" if quick else "full"]
    return [
        Workload(name=f"{name} {n}", section=name, load=partial(load, n), params=params)
        for name, load, params in (
            ("classification", classification, {"C": 1.0, "gamma": "scale"}),
            ("chessboard", chessboard, {"C": 100.0, "gamma": 2.0}),
        )
        for n in sizes
    ]


# ---- generated ----------------------------------------------------------------------------------


def generated(n, *, section):
    """The synthetic rows of ANCHORS.md at n = 20000, and a problem of every other kind."""
    scaled = {"C": 1.0, "gamma": "scale"}
    regression = {"C": 10.0, "gamma": "scale"}
    table = (
        ("classification", partial(classification, n), "SVC", scaled),
        ("chessboard", partial(chessboard, n), "SVC", {"C": 100.0, "gamma": 2.0}),
        ("wide", partial(wide, n // 2), "SVC", scaled),
        ("sparse", partial(sparse, n // 2), "SVC", {"C": 10.0, "gamma": 1.0}),
        ("nu-svc", partial(classification, n), "NuSVC", {"nu": 0.2, "gamma": "scale"}),
        ("svr", partial(friedman, n // 2), "SVR", {**regression, "epsilon": 0.1}),
        ("nu-svr", partial(friedman, n // 2), "NuSVR", {**regression, "nu": 0.3}),
        ("one-class", partial(blobs, n), "OneClassSVM", {"nu": 0.1, "gamma": "scale"}),
    )
    return [
        Workload(name=name, section=section, load=load, estimator=estimator, params=params)
        for name, load, estimator, params in table
    ]


def classification(n):
    return make_classification(
        n, 40, n_informative=20, n_redundant=5, class_sep=0.8, flip_y=0.05, random_state=0
    )


def wide(n):
    return make_classification(
        n, 500, n_informative=100, n_redundant=100, flip_y=0.05, random_state=1
    )


def chessboard(n):
    return board(n, noise=0.02, random_state=0)


def friedman(n):
    X, y = make_friedman1(n, 10, noise=1.0, random_state=0)
    return X, scale(y)


def blobs(n):
    X, _ = make_blobs(n, 10, centers=5, random_state=0)
    return X, np.zeros(n)


def sparse(n, d=5000, in_a_row=50):
    """Rows of unit length like short texts: word frequencies of two topics, 1% full."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    words = np.minimum(rng.zipf(1.3, (n, in_a_row)) - 1, d - 1)
    words = (words + y[:, None] * (rng.random((n, in_a_row)) < 0.2)) % d
    X = sp.csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, in_a_row)))
    X.resize(n, d)
    X.sum_duplicates()
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags_array(1 / lengths) @ X), y


# ---- real ---------------------------------------------------------------------------------------


def real():
    """The real rows of ANCHORS.md; w8a and reuters stay sparse."""
    table = (
        ("usps", {}, "SVC", {"C": 10.0, "gamma": 1 / 128}),
        ("letter", {}, "SVC", {"C": 10.0, "gamma": 5.0}),
        ("cod-rna", {"rows": 20000}, "SVC", {"C": 10.0, "gamma": 0.5}),
        ("mnist", {"rows": 15000, "scale": True}, "SVC", {"C": 10.0, "gamma": 0.02}),
        ("a9a", {"sparse": False}, "SVC", {"C": 1.0, "gamma": 0.05}),
        ("ijcnn1", {}, "SVC", {"C": 32.0, "gamma": 2.0}),
        ("cadata", {"standard": True}, "SVR", {"C": 10.0, "gamma": 0.2, "epsilon": 0.1}),
        ("w8a", {}, "SVC", {"C": 10.0, "gamma": 0.05}),
        ("reuters", {}, "SVC", {"C": 1.0, "kernel": "linear"}),
    )
    return [
        Workload(
            name=name,
            section="real",
            load=partial(stored, name, **how),
            estimator=estimator,
            params=params,
        )
        for name, how, estimator, params in table
    ]


def stored(name, *, rows=None, standard=False, **options):
    """Rows from the front; cod-rna is stored standardised."""
    X, y, *_ = shared().load(name, **options)
    X, y = X[:rows], y[:rows]
    return (scale(X), scale(y)) if standard else (X, y)


@cache
def shared():
    """The loader that lies with the data; a folder is no package."""
    spec = spec_from_file_location("shared_data", SHARED / "load.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
