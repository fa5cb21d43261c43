r"""
Handwritten digits
==================

Ten machines, one for each digit against the other nine, read scikit-learn's small digits almost
without error. Where the USPS digits are at hand (``shared/data`` beside the repository), N3's demo
is repeated: 1000 images to learn from, 1000 to read, raw pixels, "about 97%".
"""

import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier

from maxmargin import SVC

BLUE, RED = "#0072B2", "#D55E00"

# %%
# Ten machines, one vote
# ----------------------
#
# Each machine separates one digit from the rest; the one that is most certain, by its decision
# function, names the digit. Every machine carries its own certificate.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=1)
reader = OneVsRestClassifier(SVC(C=10)).fit(X_train, y_train)
accuracy = reader.score(X_test, y_test)
assert accuracy > 0.97
assert all(machine.certificate_.status == "optimal" for machine in reader.estimators_)
print(f"scikit-learn's digits: {accuracy:.1%} of {len(y_test)} read correctly")

# %%
# The digits that hold the machines
# ---------------------------------
#
# A machine is a weighted sum of support vectors. These have the largest multipliers: in
# blue the strangest examples of the digit itself, in red others that look like it.

fig, axes = plt.subplots(10, 12, figsize=(8.4, 7.4), layout="constrained")
for digit, machine in enumerate(reader.estimators_):
    coef = machine.dual_coef_[0]
    order = coef.argsort()
    chosen = machine.support_[np.concatenate([order[::-1][:6], order[:6]])]
    assert (y_train[chosen[:6]] == digit).all()
    assert (y_train[chosen[6:]] != digit).all()
    for ax, i in zip(axes[digit], chosen, strict=True):
        ax.imshow(X_train[i].reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set(color=BLUE if y_train[i] == digit else RED, linewidth=1.6)
    axes[digit, 0].set_ylabel(digit, rotation=0, va="center", labelpad=12, fontsize=14)
fig.suptitle(
    "The support vectors with the largest multipliers: for the digit (blue), against it (red)"
)
plt.show()

# %%
# What goes wrong
# ---------------

read = reader.predict(X_test)
wrong = np.flatnonzero(read != y_test)
assert 0 < len(wrong) <= 16
fig, axes = plt.subplots(1, len(wrong), figsize=(8.4, 2.0), layout="constrained")
for ax, i in zip(np.atleast_1d(axes), wrong, strict=True):
    ax.imshow(X_test[i].reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"{y_test[i]} read\nas {read[i]}", fontsize="small")
fig.suptitle(f"All {len(wrong)} errors among {len(y_test)} digits")
plt.show()

# %%
# USPS: 1000 to learn, 1000 to read
# ---------------------------------
#
# N3 does not say which of the 9298 images it took. Five random draws from the training part read
# between 94% and 97% correctly. The official test part was written by other hands and is harder.

around = [folder / "shared" / "data" / "load.py" for folder in (Path.cwd(), *Path.cwd().parents)]
loader = next((path for path in around if path.exists()), None)
if loader is not None:
    spec = importlib.util.spec_from_file_location("load", loader)
    data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(data)
    images, labels, others, other_labels = data.load("usps")

    machine = OneVsRestClassifier(SVC(C=10, gamma=1 / 128))
    scores = []
    for seed in range(5):
        drawn = np.random.default_rng(seed).permutation(len(labels))[:2000]
        machine.fit(images[drawn[:1000]], labels[drawn[:1000]])
        scores.append(machine.score(images[drawn[1000:]], labels[drawn[1000:]]))
    harder = machine.score(others[:1000], other_labels[:1000])
    print("USPS:", ", ".join(f"{score:.1%}" for score in scores), f"; official test: {harder:.1%}")
    assert np.mean(scores) > 0.95
    assert max(scores) > 0.965  # N3: about 97%
    assert harder < np.mean(scores)
else:
    print("USPS is skipped: there is no shared/data/load.py here or in a folder above.")
