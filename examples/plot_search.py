"""
Choosing C and γ
================

``SVCCV`` computes what ``GridSearchCV`` over ``SVC`` would, in a fraction of its time: every cell
of the grid carries the proof of its solutions.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVCCV, one_standard_error
from maxmargin.displays import SearchDisplay

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

# %%
# The grid
# --------
#
# The score and the number of support vectors of every cell.
search = SVCCV(Cs=12, gammas=10).fit(X, y)
print(search.best_params_, f"{search.best_score_:.3f}", search.report_)
SearchDisplay.from_estimator(search)
plt.show()

# %%
# The simplest that is as good
# ----------------------------
#
# Many cells are as good as the best: the one-standard-error rule takes the simplest of them.
simple = SVCCV(Cs=12, gammas=10, refit=one_standard_error).fit(X, y)
print(simple.best_params_, len(simple.best_estimator_.support_), "support vectors")
print("against", len(search.best_estimator_.support_), "of the best")

# %%
# What the procedure achieves
# ---------------------------
#
# The best score is that of the luckiest of many cells. To know what the whole procedure achieves,
# repeat it, scaling included, on training sets alone: nested cross-validation.
procedure = make_pipeline(StandardScaler(), SVCCV(Cs=12, gammas=10))
X, y = load_breast_cancer(return_X_y=True)
scores = cross_val_score(procedure, X, y, cv=5)
print(f"best cell {search.best_score_:.3f}, nested {scores.mean():.3f} ± {scores.std():.3f}")
