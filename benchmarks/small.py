"""Promises in seconds, on this machine: `make bench-small`. Compare ratios, not seconds."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from statistics import median

import numpy as np
import sklearn
from sklearn.datasets import make_classification
from sklearn.svm import SVC as SklearnSVC
from websockets.sync.client import connect

import maxmargin
from maxmargin import SVC, _core, certify, kernels, problems
from maxmargin.lab import Session
from maxmargin.lab.protocol import encode


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


def lab_step():
    """What the page waits for between two of 60 steps a second, at 500 points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    labels = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=500) > 0, 1, -1)
    points = [[*x, int(label)] for x, label in zip(X.tolist(), labels, strict=True)]
    session = Session()
    settings = {"C": 10.0, "solver": "SMO"}
    session.handle({"type": "open", "document": {"points": points, "settings": settings}})
    session.handle({"type": "reset"})
    ours, _ = seconds(lambda: encode(session.handle({"type": "step", "n": 1})[0]), repeats=60)
    print(f"lab, a step at 500 points: {ours * 1e3:.1f} ms")


def lab_ctrl_c():
    """Ctrl-C with an open page whose training goes on."""
    command = [sys.executable, "-m", "maxmargin.lab", "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    place = re.search(r"http://(\S+)/", server.stdout.readline()).group(1)
    with connect(f"ws://{place}/ws", origin=f"http://{place}") as page:
        for settings in ({"problem": "soft", "C": 1e5}, {"solver": "TextbookSMO", "tol": 1e-8}):
            page.send(json.dumps({"type": "set", "settings": settings}))
        page.recv()
        server.send_signal(signal.SIGINT)
        ended, _ = seconds(server.wait, repeats=1)
    print(f"lab, Ctrl-C with an open page: ended in {ended:.2f} s")


if __name__ == "__main__":
    print(f"maxmargin {maxmargin.__version__} ({_core.instruction_set()}), scikit-learn", end=" ")
    print(f"{sklearn.__version__}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
    fit_20000()
    fit_100()
    ctrl_c()
    lab_step()
    lab_ctrl_c()
