"""What a search may choose by: for ``refit=`` and ``scoring=`` of ours and scikit-learn's alike."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["consistency", "one_standard_error"]


def one_standard_error(cv_results: dict[str, Any]) -> int:
    """Choose the simplest candidate within one standard error of the best: for ``refit=``.

    Parameters
    ----------
    cv_results : dict
        ``cv_results_`` of a search with one metric, of this package or of scikit-learn.

    Returns
    -------
    int
        Of the candidates whose mean score is at least that of the best minus its standard error,
        the one of fewest support vectors where they are counted (``mean_n_support``), else of the
        smallest C; of equals the best, then the first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVCCV, one_standard_error
    >>> X, y = load_iris(return_X_y=True)
    >>> SVCCV(refit=one_standard_error).fit(X, y).best_estimator_.score(X, y) > 0.95
    True
    """
    if "mean_test_score" not in cv_results:
        names = [n[10:] for n in cv_results if n.startswith("mean_test_")]
        raise ValueError(
            f"one_standard_error is for one metric; there are {', '.join(names)}. Pass one as "
            "scoring, or a function of cv_results_ as refit."
        )
    means = np.asarray(cv_results["mean_test_score"], dtype=np.float64)
    if not np.isfinite(means).any():
        raise ValueError("no candidate has a score on every split.")
    best = int(np.nanargmax(means))
    splits = sum(name.startswith("split") and name.endswith("_test_score") for name in cv_results)
    least = means[best] - cv_results["std_test_score"][best] / np.sqrt(max(splits - 1, 1))
    simple = cv_results.get("mean_n_support", cv_results.get("param_C"))
    if simple is None:
        return best
    good = np.flatnonzero(means >= least - 1e-12)
    size = np.ma.filled(np.ma.asarray(simple)[good].astype(np.float64), np.inf)
    return int(good[np.lexsort((good, -means[good], size))[0]])


def consistency(estimator: Any, X: Any, y: Any = None) -> float:
    r"""Score an outlier detector without labels: for ``scoring=`` of a search over OneClassSVM.

    Of fresh points of the same kind a fraction ν should be outliers, no more and no fewer: a kernel
    that is too narrow rejects many more than it did in training.

    Parameters
    ----------
    estimator : OneClassSVM or SVDD, or a pipeline that ends in one
        Fitted, on other rows.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : None

    Returns
    -------
    float
        :math:`-|\text{fraction of outliers} - \nu|`, at most 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from maxmargin import OneClassSVM, consistency, shared_gram
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> with shared_gram(X):
    ...     search = GridSearchCV(OneClassSVM(nu=0.1), {"gamma": [0.1, 100]}, scoring=consistency)
    ...     search = search.fit(X)
    >>> search.best_params_
    {'gamma': 0.1}
    """
    machine = estimator[-1] if hasattr(estimator, "steps") else estimator
    known = machine.get_params()
    if known.get("C") is not None:
        raise ValueError("consistency compares with nu; make the SVDD with nu in place of C.")
    if "nu" not in known:
        raise ValueError(f"consistency compares with nu; {type(machine).__name__} has none.")
    outside = float(np.mean(estimator.predict(X) < 0))
    return -abs(outside - float(known["nu"]))
