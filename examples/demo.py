"""Train on three data sets, prove each answer, and compare with scikit-learn. Run by `make demo`.

Both libraries get the same problem and tolerance; seconds are the best of three quiet fits.
scikit-learn's answer gets the same certificate as ours, computed from its dual coefficients.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import sklearn.svm
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from maxmargin import SVC, certify, kernels, problems
from maxmargin.datasets import chessboard
from maxmargin.displays import MarginDisplay


def iris():
    """Setosa against the rest on the two petal features, with a hard margin (N3).

    Of the splits, this is one that keeps the two support vectors of the whole set in training.
    """
    X, y = load_iris(return_X_y=True)
    X, y = X[:, 2:], y == 0
    split = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return "Iris: Setosa against the rest", split, kernels.Linear(), np.inf


def noisy_chessboard():
    """An 8×8 board with one label in twenty flipped; tested on the true colours."""
    X, y = chessboard(3000, noise=0.05, random_state=0)
    X_test, y_test = chessboard(2000, random_state=1)
    return "Chessboard, 8×8, 5% noise", (X, X_test, y, y_test), kernels.RBF(gamma=2.0), 10.0


def digits():
    """Two digits that look alike."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (3, 8))] / 16, y[np.isin(y, (3, 8))]
    split = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return "Digits: 3 against 8", split, kernels.RBF(gamma="scale"), 10.0


def seconds_to_fit(clf, X, y, repeats=3):
    """Return the best time of a few fits."""

    def once():
        start = time.perf_counter()
        clf.fit(X, y)
        return time.perf_counter() - start

    return min(once() for _ in range(repeats))


def peer(kernel, C):
    """Return scikit-learn's SVC for the same problem."""
    if isinstance(kernel, kernels.RBF):
        return sklearn.svm.SVC(C=C, kernel="rbf", gamma=kernel.gamma)
    return sklearn.svm.SVC(C=C, kernel="linear")


def certificate_of_peer(clf, kernel, X, y):
    """Prove how good a foreign answer is: only its dual coefficients are asked for."""
    beta = np.zeros(len(y))
    beta[clf.support_] = clf.dual_coef_[0]
    problem = problems.soft_margin(kernel.gram(X), np.where(y == clf.classes_[1], 1, -1), C=clf.C)
    return certify(problem, problem.project(beta))


def column(clf, certificate, X_test, y_test, seconds):
    """Return the column of one library in the table."""
    return {
        "support vectors": f"{clf.n_support_.sum()}",
        "primal": f"{certificate.primal:.8g}",
        "dual (higher is better)": f"{certificate.dual:.8g}",
        "relative gap": f"{certificate.relative_gap:.1e}",
        "KKT violation": f"{certificate.kkt_violation:.1e}",
        "test accuracy": f"{clf.score(X_test, y_test):.2%}",
        "seconds": f"{seconds:.4f}",
    }


def print_table(title, columns):
    """Print columns side by side; in colour where rich is installed."""
    rows = [(name, *(column[name] for column in columns.values())) for name in columns["maxmargin"]]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(title)
        for row in [("", *columns), *rows]:
            print(f"  {row[0]:<24}" + "".join(f"{cell:>16}" for cell in row[1:]))
        return
    table = Table("", title=title, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name, justify="right", min_width=14)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def run(title, split, kernel, C):
    """Fit both libraries, print what each answer is worth, and return our machine."""
    X, X_test, y, y_test = split
    clf = SVC(C=C, kernel=kernel, verbose=1).fit(X, y)
    seconds = seconds_to_fit(clf.set_params(verbose=0), X, y)
    theirs = peer(kernel, C)
    their_seconds = seconds_to_fit(theirs, X, y)
    proof = certificate_of_peer(theirs, kernel, X, y)
    columns = {
        "maxmargin": column(clf, clf.certificate_, X_test, y_test, seconds),
        "scikit-learn": column(theirs, proof, X_test, y_test, their_seconds),
    }
    print_table(f"{title}   n = {len(y)}, {kernel}, C = {C:g}", columns)
    print()
    return clf


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(), help="file or folder of the picture")
    parser.add_argument("--no-picture", action="store_true", help="print the tables only")
    options = parser.parse_args()

    run(*iris())
    board = noisy_chessboard()
    clf = run(*board)
    run(*digits())
    if options.no_picture:
        return
    os.environ.setdefault("MPLBACKEND", "Agg")  # a file needs no window
    X, _, y, _ = board[1]
    path = options.output / "chessboard.png" if options.output.is_dir() else options.output
    MarginDisplay.from_estimator(clf, X, y).figure_.savefig(path, dpi=200)
    print(f"Regions, margin and support vectors of the chessboard: {path.resolve()}")


if __name__ == "__main__":
    main()
