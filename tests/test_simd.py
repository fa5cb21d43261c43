"""Every instruction set this CPU has gives the same certificates."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json
import numpy as np
from maxmargin import SVC, SVR, _core, datasets, kernels
X, y = datasets.chessboard(1200, noise=0.05, random_state=0)
wide = np.random.default_rng(0).normal(size=(600, 130))
found = [SVC(C=10.0, gamma=4.0, tol=1e-5).fit(X, y),
         SVR(C=10.0, gamma=4.0, tol=1e-5).fit(X, np.sin(3 * X[:, 0])),
         SVC(kernel="poly", degree=2, coef0=1.0, tol=1e-5).fit(wide, wide[:, 0] > 0),
         SVC(kernel=kernels.Matern(length_scale=9.0, nu=1.5), tol=1e-5).fit(wide, wide[:, 1] > 0)]
proofs = [m.certificate_ for m in found]
print(json.dumps([_core.instruction_set(), [[c.status, c.dual, c.relative_gap] for c in proofs],
                  found[1].predict(X[:50]).tolist()]))
"""


def run(asked):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"MAXMARGIN_ISA": asked},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_certificates_agree():
    best, proofs, predictions = run("")
    assert all(status == "optimal" for status, *_ in proofs)
    for asked in ("avx2", "baseline"):
        used, others, predicted = run(asked)
        assert used in ("baseline", asked if best != "baseline" else "baseline")
        for (status, dual, gap), (other_status, other_dual, other_gap) in zip(
            proofs, others, strict=True
        ):
            assert other_status == status
            assert other_dual == pytest.approx(dual, rel=2 * max(gap, other_gap) + 1e-12)
        assert predicted == pytest.approx(predictions, abs=1e-3)
