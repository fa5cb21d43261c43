"""Promises in seconds, on this machine: `make bench-small`. Compare ratios, not seconds."""

import os
import platform
import signal
import threading
import time
from statistics import median

import numpy as np
import sklearn
from sklearn.datasets import make_classification
from sklearn.svm import SVC as SklearnSVC

import maxmargin
from maxmargin import SVC, _core, certify, kernels, problems


def seconds(work, repeats=3):
    """Median time of a call, and what the last one returned."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return median(times), result


def sklearn_certificate(model, X, y):
    gram = kernels.RBF(gamma=model._gamma).gram(X)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    return certify(problems.soft_margin(gram, np.where(y == 1, 1.0, -1.0)), beta)


def fit_20000():
    """ANCHORS' first synthetic row: RBF, C = 1, gamma = scale, tol = 1e-3."""
    X, y = make_classification(
        20000, 40, n_informative=20, n_redundant=5, class_sep=0.8, flip_y=0.05, random_state=0
    )
    SVC().fit(X[:300], y[:300])
    ours, model = seconds(lambda: SVC(cache_size=2000).fit(X, y))
    theirs, peer = seconds(lambda: SklearnSVC(cache_size=2000).fit(X, y), repeats=1)
    print(f"fit 20000 x 40: {ours:.2f} s, scikit-learn {theirs:.2f} s, ratio {theirs / ours:.1f}")
    print(f"  ours   {model.certificate_!r}, scikit-learn {sklearn_certificate(peer, X, y)!r}")
    ours, _ = seconds(lambda: model.predict(X[:5000]))
    theirs, _ = seconds(lambda: peer.predict(X[:5000]), repeats=1)
    print(f"predict 5000: {ours:.3f} s, scikit-learn {theirs:.3f} s, ratio {theirs / ours:.1f}")


def fit_100():
    X, y = make_classification(100, 5, random_state=0)
    ours, _ = seconds(lambda: SVC().fit(X, y), repeats=50)
    theirs, _ = seconds(lambda: SklearnSVC().fit(X, y), repeats=50)
    print(f"fit 100 x 5: {ours * 1e3:.2f} ms, scikit-learn {theirs * 1e3:.2f} ms")


def ctrl_c():
    X, y = make_classification(50000, 100, n_informative=60, flip_y=0.2, random_state=0)
    pressed = []

    def press():
        time.sleep(3)
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    model = SVC(C=100, tol=1e-6)
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        answered = time.perf_counter() - pressed[0]
        print(f"Ctrl-C at n = 50000: answered in {answered:.2f} s with {model.certificate_!r}")


if __name__ == "__main__":
    print(f"maxmargin {maxmargin.__version__} ({_core.instruction_set()}), scikit-learn", end=" ")
    print(f"{sklearn.__version__}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    fit_20000()
    fit_100()
    ctrl_c()
