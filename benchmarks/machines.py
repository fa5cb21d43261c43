"""Promises of the other kernel machines, as ratios: `make bench-machines`; ONLY='ridge|pca'."""

import os
import sys
import time
import warnings
from functools import partial
from re import search
from statistics import median

import numpy as np
from datasets import classification
from report import save, table
from side_by_side import RESULTS, machine_line
from sklearn.datasets import load_breast_cancer, load_digits, make_classification, make_friedman1
from sklearn.decomposition import KernelPCA as TheirPCA
from sklearn.kernel_ridge import KernelRidge as TheirRidge
from sklearn.preprocessing import scale
from sklearn.svm import SVC as TheirSVC

from maxmargin import SVC, KernelLogisticRegression, KernelPCA, KernelRidge

SIZES = (500, 1000, 2000, 5000, 10000)
ENOUGH = 2.0  # seconds for one row of a table: two to nine rounds
PAUSE = 0.05  # seconds before each fit: until then the last one's BLAS threads spin


def beside(*works):
    """Median seconds of some calls, taken in turn, and what they returned last."""
    times, results, start = [[] for _ in works], [None] * len(works), time.perf_counter()
    for k in range(9):
        for j in np.roll(range(len(works)), k):
            time.sleep(PAUSE)
            begun = time.perf_counter()
            results[j] = works[j]()
            times[j].append(time.perf_counter() - begun)
        spent = time.perf_counter() - start
        if k and spent * (k + 2) / (k + 1) > ENOUGH:  # two rounds at least
            break
    return [median(each) for each in times], results


def off(ours, theirs):
    """The largest difference, relative to the largest value."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


# ---- against scikit-learn -----------------------------------------------------------------------


def ridge():
    lines = [["n", "kernel", "ours s", "scikit-learn s", "ratio", "coefficients", "predictions"]]
    for n in SIZES:
        X, y = make_friedman1(n, 10, noise=1.0, random_state=0)
        for params in ({"kernel": "rbf", "gamma": 0.5}, {"kernel": "linear"}):
            models = [kind(alpha=1.0, **params) for kind in (KernelRidge, TheirRidge)]
            (ours, theirs), (mine, peer) = beside(*(partial(m.fit, X, y) for m in models))
            few = X[:2000]
            lines.append(row(
                n, params["kernel"], ours, theirs, off(mine.dual_coef_, peer.dual_coef_),
                off(mine.predict(few), peer.predict(few)),
            ))  # fmt: skip
    return "KernelRidge, alpha = 1, 10 features", table(lines)


def pca():
    lines = [["n", "components", "ours s", "scikit-learn s", "ratio", "eigenvalues", "projections"]]
    for n in SIZES:
        X, _ = classification(n)
        X = scale(X)
        for count in (4, None) if n <= 2000 else (4,):
            params = {"n_components": count, "kernel": "rbf", "gamma": 0.01, "random_state": 0}
            models = [kind(**params) for kind in (KernelPCA, TheirPCA)]
            (ours, theirs), (mine, peer) = beside(*(partial(m.fit_transform, X) for m in models))
            values = [model.eigenvalues_[:4] for model in models]
            lines.append(row(
                n, count or "all", ours, theirs, off(*values), off(mine[:, :4], peer[:, :4])
            ))  # fmt: skip
    return "KernelPCA, RBF, 40 features", table(lines)


def row(n, what, ours, theirs, *errors):
    ratio = f"{theirs / ours:.2f}×"
    return [str(n), str(what), f"{ours:.3g}", f"{theirs:.3g}", ratio, *(f"{e:.0e}" for e in errors)]


# ---- against our own SVC ------------------------------------------------------------------------


def logistic():
    lines = [["n", "C", "KernelLogisticRegression s", "SVC s", "ratio", "relative gap"]]
    X, y = classification(5000)
    for C in (0.1, 1.0, 10.0):
        models = KernelLogisticRegression(C=C), SVC(C=C)
        (ours, svc), (model, _) = beside(*(partial(m.fit, X, y) for m in models))
        gap = model.certificate_.relative_gap
        lines.append(["5000", f"{C:g}", f"{ours:.3g}", f"{svc:.3g}", f"{ours / svc:.1f}×",
                      f"{gap:.0e}"])  # fmt: skip
    return "KernelLogisticRegression beside SVC, RBF, 40 features (at most 10×)", table(lines)


def probability():
    head = ["data", "n", "plain s", "probability=True s", "ratio"]
    lines = [[*head, "scikit-learn plain s", "scikit-learn's ratio"]]
    for name, (X, y) in probability_data():
        models = SVC(), SVC(probability=True)
        (plain, full), _ = beside(*(partial(m.fit, X, y) for m in models))
        cells = [name, str(len(y)), f"{plain:.3g}", f"{full:.3g}", f"{full / plain:.2f}×"]
        if len(y) < 5000:
            models = TheirSVC(), TheirSVC(probability=True, random_state=0)
            (plain, full), _ = beside(*(partial(m.fit, X, y) for m in models))
            cells += [f"{plain:.3g}", f"{full / plain:.2f}×"]
        lines.append(cells + ["–"] * (7 - len(cells)))
    return "SVC(probability=True) beside a plain fit (at most 2.5×)", table(lines)


def probability_data():
    X, y = load_digits(return_X_y=True)
    yield "digits", (X, y)
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast_cancer", (scale(X), y)
    yield (
        "classification",
        make_classification(6000, 20, n_informative=10, flip_y=0.05, random_state=0),
    )
    yield "classification", classification(6000)
    yield "classification", classification(20000)


PARTS = (ridge, pca, logistic, probability)
HOW = (
    "Median seconds of fits taken in turn in one process, float64, all CPUs, tol 1e-3. Ratios to "
    "scikit-learn are its time divided by ours: above 1× we are faster. The last two columns of "
    "its tables are largest differences, relative to the largest value."
)


if __name__ == "__main__":
    only = os.environ.get("ONLY", "")
    chosen = [part for part in PARTS if search(only, part.__name__)]
    text = ["# Other kernel machines", machine_line(), HOW]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn's probability
        for part in chosen:
            title, found = part()
            print(f"## {title}\n\n{found}\n", file=sys.stderr, flush=True)
            text += [f"## {title}", found]
    save(RESULTS / ("machines-part.md" if only else "machines.md"), text)
