"""Whose probabilities are best, each machine tuned? `make bench-probabilities`; ONLY='german'."""

import os
import sys
import time
from collections import Counter
from re import search

import numpy as np
from datasets import SHARED, shared
from report import save, table
from side_by_side import RESULTS, machine_line
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, KernelLogisticRegression

OUTER = StratifiedKFold(5, shuffle=True, random_state=0)
INNER = StratifiedKFold(3, shuffle=True, random_state=1)
PRICES = np.logspace(-1, 4, 6)
WIDTHS = np.array([0.1, 0.3, 1.0, 3.0])  # of gamma times n_features, the features standardised
BINS = 10


def data():
    yield "breast_cancer", load_breast_cancer(return_X_y=True)
    yield "digits", load_digits(return_X_y=True)
    if SHARED.exists():
        yield "german.numer", shared().load("german.numer")[:2]
    else:
        print("german.numer left out: ../shared/data is not there", file=sys.stderr)


def machines():
    """A model, and how its parameters are reached."""
    return {
        "KernelLogisticRegression": (KernelLogisticRegression(), ""),
        "SVC(probability=True)": (SVC(probability=True), ""),
        "CalibratedClassifierCV(SVC())": (CalibratedClassifierCV(SVC()), "estimator__"),
    }


def tuned(model, where, d):
    search = {"C": PRICES, "gamma": WIDTHS / d}
    model = make_pipeline(StandardScaler(), model)
    grid = {f"{model.steps[-1][0]}__{where}{name}": values for name, values in search.items()}
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=INNER, n_jobs=-1)


def left_out(model, where, X, y):
    """The probabilities of all samples, of models that have not seen them; what was chosen."""
    P, chosen = np.empty((len(y), len(np.unique(y)))), []
    for train, test in OUTER.split(X, y):
        best = tuned(model, where, X.shape[1]).fit(X[train], y[train])
        P[test] = best.predict_proba(X[test])
        C, gamma = best.best_params_.values()
        chosen.append(f"{C:g}, {gamma * X.shape[1]:g}")
    return P, chosen


def calibration_error(P, right):
    """How far confidence and accuracy are apart, over bins of equally many samples."""
    sure = P.max(axis=1)
    parts = np.array_split(np.argsort(sure, kind="stable"), BINS)
    return sum(abs(sure[part].sum() - right[part].sum()) for part in parts) / len(P)


def compare(X, y):
    _, codes = np.unique(y, return_inverse=True)
    losses, lines = {}, []
    for name, (model, where) in machines().items():
        start = time.perf_counter()
        P, chosen = left_out(model, where, X, codes)
        seconds = time.perf_counter() - start
        losses[name] = -np.log(np.maximum(P[np.arange(len(y)), codes], 1e-15))
        right = P.argmax(axis=1) == codes
        brier = np.square(P - np.eye(P.shape[1])[codes]).sum(axis=1).mean()
        (common, _), *_ = Counter(chosen).most_common()
        lines.append([
            name, f"{losses[name].mean():.4f}", difference(losses, name), f"{brier:.4f}",
            f"{right.mean():.2%}", f"{calibration_error(P, right):.3f}", common, f"{seconds:.0f}",
        ])  # fmt: skip
    return lines


def difference(losses, name):
    """Of the mean log-loss from the first machine's, with the standard error of the pairs."""
    first, *_ = losses.values()
    if name == next(iter(losses)):
        return "–"
    d = losses[name] - first
    return f"{d.mean():+.4f} ± {d.std(ddof=1) / np.sqrt(len(d)):.4f}"


HEAD = ["machine", "log-loss", "more than the first", "Brier score", "accuracy",
        "calibration error", "C, d·gamma chosen most", "seconds"]  # fmt: skip
HOW = (
    "Nested cross-validation: every fold of five is predicted by a model whose C and gamma had "
    "the least log-loss in three folds of the other four. RBF kernel, standardised features, "
    f"C in {', '.join(f'{C:g}' for C in PRICES)}, gamma in "
    f"{', '.join(f'{g:g}' for g in WIDTHS)} over the number of features. All figures are of "
    "left-out samples; ± is a standard error of the differences sample by sample. The Brier score "
    "is summed over the classes; the calibration error is that of the likeliest class, over ten "
    "groups of equally many samples. Seconds are of the whole search."
)


if __name__ == "__main__":
    only = os.environ.get("ONLY", "")
    text = ["# Probabilities, each machine tuned", machine_line(), HOW]
    for name, (X, y) in data():
        if search(only, name):
            found = table([HEAD, *compare(np.asarray(X, dtype=float), y)])
            title = f"## {name}: {X.shape[0]} × {X.shape[1]}, {len(np.unique(y))} classes"
            print(f"{title}\n\n{found}\n", file=sys.stderr, flush=True)
            text += [title, found]
    save(RESULTS / ("probabilities-part.md" if only else "probabilities.md"), text)
