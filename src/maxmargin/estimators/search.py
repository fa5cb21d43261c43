"""Choose C, γ and the kernel at about the price of a few fits."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets

from maxmargin.estimators._cells import Split
from maxmargin.estimators._chains import Chain, Members, all_pairs, pair_chains, tube_chain
from maxmargin.estimators._docs import documented
from maxmargin.estimators._search import Search, pieces_of
from maxmargin.estimators._task import Task
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, targets
from maxmargin.problems import ROUNDING, largest_nu, round_down

__all__ = ["SVCCV", "SVRCV", "NuSVCCV"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CLEAR = 100.0  # times tol: decision values are divided by the margin, and b known to tol / 2


def _numbers(name: str, values: Any, kind: str, allowed: Callable[[float], bool]) -> list[float]:
    """A list of numbers, all of a kind."""
    found = pieces_of(list(values))
    bad = [v for v in found if not (isinstance(v, Real) and allowed(float(v)))]
    if bad or not found:
        raise ValueError(f"{name} must be {kind}; got {repr(bad[0]) if bad else 'none'}.")
    return found


def _Cs(values: Any) -> list[float]:
    """The C to try: so many between 0.01 and 10000, or these."""
    if isinstance(values, Integral):
        return [float(C) for C in np.logspace(-2, 4, int(values))]
    return _numbers("Cs", values, "positive numbers", lambda C: C > 0)


def _flat(y: Any) -> NDArray[Any]:
    """Targets as most often they are already; with the rows of a function anything may come."""
    known = isinstance(y, np.ndarray) and y.ndim == 1
    return y if known else np.asarray(column_or_1d(y, warn=True))


class _Classification(Search):
    """Classes to pairs, decision values of held-out rows to votes."""

    _kind: ClassVar[str]

    def _codes(self, machine: Any, y: Any) -> tuple[Ints, Any]:
        labels = _flat(y)
        if labels.dtype.kind not in "biuSU":
            check_classification_targets(labels)
        return np.unique(labels, return_inverse=True)[1], labels

    def _in_one(self, machine: Any, settings: list[dict[str, Any]]) -> bool:
        usual = machine.multi_class != "crammer_singer" and machine.probability is not True
        plain = machine.max_iter == -1 and machine.gap_tol is None
        return usual and plain and all(np.isfinite(s.get("C", 1.0)) for s in settings)

    def _prepare(self, task: Task, split: Split) -> None:
        machine = copy.copy(task.machine)
        labels = task.labels[split.train]
        weight = None if task.weight is None else task.weight[split.train]
        machine._classes(labels, weight)
        codes, both = machine._codes(labels, weight)
        both = np.ones(len(codes)) if both is None else both
        place = task.place[split.train]
        order = np.argsort(place, kind="stable")
        order = order[both[order] > 0]
        pairs = all_pairs(len(machine.classes_), rest=machine.multi_class == "ovr")
        split.chains = pair_chains(
            place[order], codes[order], both[order], pairs, self._kind_of(machine)
        )
        split.machine = machine
        told = task.labels[split.test[split.turn]]
        split.truth = np.minimum(np.searchsorted(machine.classes_, told), len(machine.classes_) - 1)
        split.truth[machine.classes_[split.truth] != told] = -1  # not among those it was fitted to

    def _kind_of(self, machine: Any) -> str:
        return self._kind

    def _copies(self, task: Task) -> int:
        count = len(np.unique(task.labels))
        return max(count - int(task.machine.multi_class != "ovr"), 1)

    def _chains(self, task: Task, split: Split, setting: dict[str, Any]) -> list[Chain]:
        return split.chains

    def _shift(self, lam: Floats) -> tuple[Floats, Floats]:
        """B and η of each chain and member."""
        return lam[:, :, 0], np.ones(lam.shape[:2])

    def _scored(
        self, task: Task, split: Split, settings: list[dict[str, Any]], held: Floats, lam: Floats
    ) -> list[Any]:
        b, eta = self._shift(lam)
        b, eta = b.T[:, :, None], eta.T[:, :, None]
        if task.plain(split) and not split.machine.break_ties:
            return self._accuracies(task, split, held, b, eta)
        values = (held + b) / eta
        return task.score_values(split, settings, list(values.transpose(0, 2, 1)))

    def _accuracies(
        self, task: Task, split: Split, held: Floats, b: Floats, eta: Floats
    ) -> list[float]:
        """Shares of right answers, by the votes that `predict` counts.

        The decision values are (held + b) / eta, of shape (n_members, n_pairs, n_rows).
        """
        machine = split.machine
        count = len(machine.classes_)
        if machine.multi_class == "ovr" and count > 2:
            winners = ((held + b) / eta).argmax(axis=1)
        elif count == 2:
            winners = (held > -b)[:, 0].astype(np.intp)
        else:  # a vote for the first of a pair, else one for the second
            gain, second = np.zeros((2, count, held.shape[1]), dtype=np.float32)
            for k, (i, j) in enumerate(itertools.combinations(range(count), 2)):
                gain[i, k], gain[j, k], second[j, k] = 1.0, -1.0, 1.0
            won = np.greater(held, -b, out=np.empty(held.shape, dtype=np.float32), casting="unsafe")
            winners = (gain @ won + second.sum(axis=1)[:, None]).argmax(axis=1)
        right, weight = winners == split.truth, task.passed.get("sample_weight")
        if weight is not None:
            weight = weight[split.test[split.turn]]
        shares: list[float] = np.average(right, axis=1, weights=weight).tolist()
        return shares


@documented
class SVCCV(_Classification):
    r"""Search C, γ and the kernel of an SVC by cross-validation, as one computation.

    The scores of ``GridSearchCV(SVC(), ...)``, and its attributes, in a fraction of its time: dot
    products are computed once, a Gram matrix serves all folds, all C and all pairs of classes, and
    each solution starts the next.

    Parameters
    ----------
    Cs : int or array-like, default=10
        The C to try; so many between 0.01 and 10000.
    gammas : int or array-like, default=10
        The γ to try for the kernels "rbf", "poly" and "sigmoid"; so many between 1/1000 and 10
        times ``"scale"``. May hold ``"scale"`` and ``"auto"``, those of each training set.
    kernels : list or None, default=None
        Kernels to try in place of ``kernel``: names, kernel objects, functions.
    cv : int, splitter or iterable, default=None
        None: five stratified folds.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in GridSearchCV; several at once are possible.
    refit : bool, str or callable, default=True
        As in GridSearchCV; :func:`~maxmargin.one_standard_error` chooses the simplest model that
        is as good.
    refine : bool, default=False
        After the grid, search at half and at quarter of its spacing about the best cell.
    discard : bool, default=False
        Leave the remaining folds of cells out that the best one beats, on the first half of the
        folds, by more than four standard errors; their scores are NaN.
    max_time : float or None, default=None
        Limit of seconds for the search: a coarse grid first, then finer ones, small C before
        large; what was not reached has NaN. The refit comes after it.
    <kernel_of_search>
    <of_classes>
    <solver_of_search>
    multi_class : {"ovo", "ovr", "crammer_singer"}, default="ovo"
    loss : {"hinge", "squared_hinge"}, default="hinge"

    Attributes
    ----------
    <found>

    See Also
    --------
    maxmargin.shared_gram : What GridSearchCV, HalvingGridSearchCV or Optuna gain by the same idea.

    Notes
    -----
    A search holds at most three Gram matrices (``report_["memory_bytes"]``) within ``cache_size``;
    where they do not fit, cells are solved one by one with cached rows, each from the solution
    before it. Beyond 2048 rows a Gaussian Gram is float32 as long as C 2⁻²⁴ <= ``tol``; solutions
    are then judged on float64 entries and taken further where these show a violation above
    ``tol``. To scale features, put the search behind a scaler in a pipeline.

    The best score is that of the luckiest cell: to know what the whole procedure achieves, search
    again within each fold, ``cross_val_score(SVCCV(), X, y)``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SVCCV(Cs=[0.1, 1, 10], gammas=[0.01, 0.1, 1]).fit(X, y)
    >>> search.best_params_, round(float(search.best_score_), 2)
    ({'C': 1, 'gamma': 0.1}, 0.98)
    """

    best_estimator_: SVC

    _machine = SVC
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Search._parameter_constraints,
        "Cs": ["array-like", Interval(Integral, 2, None, closed="left")],
        **{
            k: v
            for k, v in SVC._parameter_constraints.items()
            if k not in ("C", "gamma", "record_every", "warm_start")
        },
    }

    def __init__(
        self,
        *,
        Cs: Any = 10,
        gammas: Any = 10,
        kernels: Any = None,
        cv: Any = None,
        scoring: Any = None,
        refit: Any = True,
        refine: bool = False,
        discard: bool = False,
        max_time: float | None = None,
        kernel: Any = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        gap_tol: float | None = None,
        n_threads: int | None = None,
        multi_class: str = "ovo",
        loss: str = "hinge",
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.kernels = kernels
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.refine = refine
        self.discard = discard
        self.max_time = max_time
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.gap_tol = gap_tol
        self.n_threads = n_threads
        self.multi_class = multi_class
        self.loss = loss

    def _kind_of(self, machine: Any) -> str:
        return "squared_hinge" if machine.loss == "squared_hinge" else "soft_margin"

    def _values(self, X: Any, y: Any, weight: Floats | None) -> dict[str, list[Any]]:
        return {"C": _Cs(self.Cs)}

    def _largest(self, settings: list[dict[str, Any]], weight: Floats | None) -> float:
        largest = float(max(s["C"] for s in settings))
        return largest * (1.0 if weight is None else float(weight.max()))

    def _members(self, settings: list[dict[str, Any]]) -> Iterator[tuple[list[int], Members]]:
        order = sorted(range(len(settings)), key=lambda k: settings[k]["C"])
        yield order, Members.along_C(np.array([settings[k]["C"] for k in order], dtype=np.float64))


@documented
class NuSVCCV(_Classification):
    r"""Search ν, γ and the kernel of a NuSVC by cross-validation, as one computation.

    Parameters
    ----------
    nus : int or array-like, default=10
        The ν to try; so many between 0.05 and 0.8 times the largest that all data allow. Where a
        training set allows less, the score is NaN, as in GridSearchCV. Where the margin is small
        beside ``tol``, a cell is a fit of its own.
    gammas, kernels, cv, scoring, refit, refine, discard, max_time
        As in :class:`SVCCV`.
    <kernel_of_search>
    <of_classes>
    <solver_of_search>
    multi_class : {"ovo", "ovr"}, default="ovo"

    Attributes
    ----------
    <found>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import NuSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = NuSVCCV(nus=[0.1, 0.3], gammas=[0.1, 1]).fit(X, y)
    >>> round(float(search.best_score_), 2)
    0.98
    """

    best_estimator_: NuSVC

    _machine = NuSVC
    _along = "nu"
    _refuses = True
    _closer = 0.01  # decision values are divided by the margin
    _kind = "nu_svc"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Search._parameter_constraints,
        "nus": ["array-like", Interval(Integral, 2, None, closed="left")],
        **{
            k: v
            for k, v in NuSVC._parameter_constraints.items()
            if k not in ("nu", "gamma", "record_every", "warm_start")
        },
    }

    def __init__(
        self,
        *,
        nus: Any = 10,
        gammas: Any = 10,
        kernels: Any = None,
        cv: Any = None,
        scoring: Any = None,
        refit: Any = True,
        refine: bool = False,
        discard: bool = False,
        max_time: float | None = None,
        kernel: Any = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = False,
        tol: float = 1e-3,
        cache_size: float | None = None,
        class_weight: Any = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        gap_tol: float | None = None,
        n_threads: int | None = None,
        multi_class: str = "ovo",
    ) -> None:
        self.nus = nus
        self.gammas = gammas
        self.kernels = kernels
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.refine = refine
        self.discard = discard
        self.max_time = max_time
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.gap_tol = gap_tol
        self.n_threads = n_threads
        self.multi_class = multi_class

    def _values(self, X: Any, y: Any, weight: Floats | None) -> dict[str, list[Any]]:
        if not isinstance(self.nus, Integral):
            return {"nu": pieces_of(list(self.nus))}
        counts = np.sort(np.unique(y, return_counts=True)[1])
        most = largest_nu(float(counts[0]), float(counts[-1]))
        return {"nu": [float(nu) for nu in most * np.geomspace(0.05, 0.8, int(self.nus))]}

    def _largest(self, settings: list[dict[str, Any]], weight: Floats | None) -> float:
        return 1.0 if weight is None else float(weight.max())

    def _members(self, settings: list[dict[str, Any]]) -> Iterator[tuple[list[int], Members]]:
        order = sorted(range(len(settings)), key=lambda k: settings[k]["nu"])
        nus = np.array([settings[k]["nu"] for k in order], dtype=np.float64)
        yield order, Members.along_nu(nus)

    def _refused(self, chain: Chain, settings: list[dict[str, Any]]) -> list[str]:
        weight = np.abs(chain.l + chain.u)
        first = float(weight[chain.group == 0].sum())
        most = largest_nu(first, float(weight.sum()) - first)
        return [
            ""
            if s["nu"] <= most * (1 + ROUNDING)
            else f"specified nu is infeasible: nu={s['nu']:g}; on this training set it must be at "
            f"most {round_down(most)} (N4, existence condition)."
            for s in settings
        ]

    def _shift(self, lam: Floats) -> tuple[Floats, Floats]:
        return (lam[:, :, 0] + lam[:, :, 1]) / 2, (lam[:, :, 1] - lam[:, :, 0]) / 2

    def _clear(self, lam: Floats, primal: Floats, tol: float) -> NDArray[np.bool_]:
        _, eta = self._shift(lam)
        proven = primal < 0  # see Problem.has_margin
        return np.asarray(proven & (eta > _CLEAR * tol))


@documented
class SVRCV(Search):
    r"""Search C, ε, γ and the kernel of an SVR by cross-validation, as one computation.

    Parameters
    ----------
    Cs : int or array-like, default=10
        The C to try; so many between 0.01 and 10000.
    epsilons : array-like or None, default=None
        The ε to try in place of ``epsilon``.
    gammas, kernels, cv, scoring, refit, refine, discard, max_time
        As in :class:`SVCCV`.
    <kernel_of_search>
    epsilon : float, default=0.1
        Half-width of the tube.
    <solver_of_search>

    Attributes
    ----------
    <found>

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVRCV
    >>> x = np.random.default_rng(0).uniform(0, 6, (80, 1))
    >>> search = SVRCV(Cs=[1, 10, 100], gammas=[0.1, 1], epsilon=0.05).fit(x, np.sin(x[:, 0]))
    >>> bool(search.best_score_ > 0.99)
    True
    """

    best_estimator_: SVR

    _machine = SVR
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Search._parameter_constraints,
        "Cs": ["array-like", Interval(Integral, 2, None, closed="left")],
        "epsilons": ["array-like", None],
        **{
            k: v
            for k, v in SVR._parameter_constraints.items()
            if k not in ("C", "gamma", "record_every", "warm_start")
        },
    }

    def __init__(
        self,
        *,
        Cs: Any = 10,
        epsilons: Any = None,
        gammas: Any = 10,
        kernels: Any = None,
        cv: Any = None,
        scoring: Any = None,
        refit: Any = True,
        refine: bool = False,
        discard: bool = False,
        max_time: float | None = None,
        kernel: Any = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float | None = None,
        verbose: bool | int = False,
        max_iter: int = -1,
        gap_tol: float | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.Cs = Cs
        self.epsilons = epsilons
        self.gammas = gammas
        self.kernels = kernels
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.refine = refine
        self.discard = discard
        self.max_time = max_time
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.n_threads = n_threads

    def _values(self, X: Any, y: Any, weight: Floats | None) -> dict[str, list[Any]]:
        values: dict[str, list[Any]] = {"C": _Cs(self.Cs)}
        if self.epsilons is not None:
            values["epsilon"] = _numbers(
                "epsilons", self.epsilons, "finite and at least 0", lambda e: 0 <= e < np.inf
            )
        return values

    def _largest(self, settings: list[dict[str, Any]], weight: Floats | None) -> float:
        largest = float(max(s["C"] for s in settings))
        return largest * (1.0 if weight is None else float(weight.max()))

    def _codes(self, machine: Any, y: Any) -> tuple[Ints, Any]:
        z = targets(_flat(y))
        return np.zeros(len(z), dtype=np.int64), z

    def _in_one(self, machine: Any, settings: list[dict[str, Any]]) -> bool:
        plain = machine.max_iter == -1 and machine.gap_tol is None
        return plain and all(np.isfinite(s["C"]) for s in settings)

    def _members(self, settings: list[dict[str, Any]]) -> Iterator[tuple[list[int], Members]]:
        by_width: dict[float, list[int]] = {}
        for k, setting in enumerate(settings):
            by_width.setdefault(setting.get("epsilon", self.epsilon), []).append(k)
        for part in by_width.values():
            order = sorted(part, key=lambda k: settings[k]["C"])
            Cs = np.array([settings[k]["C"] for k in order], dtype=np.float64)
            yield order, Members.along_C(Cs)

    def _prepare(self, task: Task, split: Split) -> None:
        weight = np.ones(len(split.train)) if task.weight is None else task.weight[split.train]
        if not (weight > 0).any():
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        split.machine = task.machine

    def _chains(self, task: Task, split: Split, setting: dict[str, Any]) -> list[Chain]:
        weight = np.ones(task.n) if task.weight is None else task.weight
        train = split.train[weight[split.train] > 0]
        epsilon = setting.get("epsilon", self.epsilon)
        return [tube_chain(task.place[train], task.labels[train], weight[train], epsilon)]

    def _scored(
        self, task: Task, split: Split, settings: list[dict[str, Any]], held: Floats, lam: Floats
    ) -> list[Any]:
        return task.score_values(split, settings, list(held[:, 0] + lam[0, :, :1]))
