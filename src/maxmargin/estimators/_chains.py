"""Lay the problems of a search out as chains: a pair of classes in a fold, along C or ν."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.grams import as_rows
from maxmargin.threads import one_blas_thread

__all__ = ["Chain", "Found", "Layout", "Members", "confirm", "refine", "solve_chains"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Exact = Callable[[Floats, Ints], Floats]  # K of these rows times coefficients, in float64

_SECONDS = 0.05  # between two looks at `stop`
_DRIFT = 0.9  # of tol: the fresh gradient confirms it
_PASSES = 3  # over rounded entries, before the ordinary solver takes over
_CLOSER = 0.5  # of tol: such a pass had better be the last
_STEPS = 2_000_000  # pair steps of one problem, before the ordinary solver takes it over


@dataclass(frozen=True)
class Chain:
    """Problems of one fold that differ in C or ν alone: the data of DESIGN's table at C = 1."""

    fold: int
    rows: Ints  # of the square
    s: Floats
    l: Floats  # noqa: E741
    u: Floats
    D: Floats
    group: Ints
    m: Floats
    name: Any = None


@dataclass(frozen=True)
class Members:
    """What each member of every chain multiplies: box, diagonal and sums."""

    factors: Floats  # (n_members, 3)

    @classmethod
    def along_C(cls, Cs: Floats) -> Members:
        return cls(np.stack([Cs, 1.0 / Cs, Cs], axis=1))

    @classmethod
    def along_nu(cls, nus: Floats) -> Members:
        ones = np.ones_like(nus)
        return cls(np.stack([ones, ones, nus], axis=1))

    def __len__(self) -> int:
        return len(self.factors)


@dataclass
class Found:
    """Solutions of all chains over one Gram."""

    held: list[Floats]  # per chain: Kβ of the held-out rows, (n_members, n_rows)
    lam: Floats  # (n_chains, n_members, n_groups)
    violation: Floats  # (n_chains, n_members); inf where there is none
    dual: Floats
    gap: Floats
    steps: Floats
    n_support: Floats  # (n_folds, n_members)
    seconds: float
    beta: Floats = field(repr=False)  # (n_members, variables of all chains)


@dataclass(frozen=True)
class Layout:
    """Chains one after the other, as the core reads them; the same for all kernels.

    ``held`` are, of each fold, the rows to predict.
    """

    chains: Sequence[Chain]
    held: Sequence[Ints]
    first: Ints  # variable of each chain
    fold: Ints
    patch: Ints  # of each chain: chains of one name live on the same rows
    parts: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, chains: Sequence[Chain], held: Sequence[Ints]) -> Layout:
        names = {name: k for k, name in enumerate(dict.fromkeys(c.name for c in chains))}
        parts = {
            name: np.concatenate([getattr(c, name) for c in chains])
            for name in ("s", "l", "u", "D", "rows", "group")
        }
        return cls(
            chains,
            held,
            first=np.cumsum([0] + [len(c.rows) for c in chains]),
            fold=np.array([c.fold for c in chains], dtype=np.int64),
            patch=np.array([names[c.name] for c in chains], dtype=np.int64),
            parts=parts
            | {
                "m": np.stack([c.m for c in chains]),
                "first_held": np.cumsum([0] + [len(h) for h in held]),
                "held": np.concatenate(held),
            },
        )

    def __len__(self) -> int:
        return len(self.chains)


def solve_chains(
    matrix: NDArray[Any],
    diagonal: Floats,
    layout: Layout,
    members: Members,
    *,
    tol: float,
    threads: Callable[[], int],
    skip: NDArray[np.bool_] | None = None,
    start: tuple[Floats, Floats] | None = None,
    max_steps: int = _STEPS,
    stop: Callable[[float], bool] = lambda done: False,
) -> Found:
    """Solve all members of all chains over one square of K.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_rows)
    diagonal : ndarray of shape (n_rows,)
    layout : Layout
    members : Members
    tol : float
    threads : callable
        Told before each chunk of work how many there may be.
    skip : ndarray of bool of shape (n_chains, n_members), optional
        What not to solve.
    start : tuple of ndarray, optional
        β of all chains, and Kβ of shape (n_chains, n_rows), where they start; else at 0.
    max_steps : int
    stop : callable
        Told every tenth of a second which share is done; True ends the work.

    Returns
    -------
    Found
    """
    began = time.perf_counter()
    count, length, p = len(layout), len(members), layout.parts
    none: Ints = np.zeros(0, dtype=np.int64)
    family = _core.Family(
        as_rows(matrix), layout.first, p["s"], p["l"], p["u"], p["D"], p["rows"], p["group"],
        p["m"], diagonal, members.factors, layout.fold, p["first_held"], p["held"],
        *(start or (np.zeros(0), np.zeros((0, 0)))),
        none if skip is None else skip.ravel().astype(np.int64), layout.patch,
        tol=_DRIFT * tol, steps=max_steps,
    )  # fmt: skip
    with one_blas_thread():
        while not family.run(_SECONDS, threads()):
            if stop(family.done / (count * length)):
                break
    sizes = np.diff(p["first_held"])[layout.fold]
    return Found(
        held=np.split(family.held, np.cumsum(sizes)[:-1], axis=1),
        lam=family.multipliers.reshape(count, length, -1),
        violation=family.violations,
        dual=family.duals,
        gap=family.gaps,
        steps=family.steps,
        n_support=family.n_support,
        seconds=time.perf_counter() - began,
        beta=family.beta,
    )


def confirm(
    found: Found, exact: Exact, layout: Layout, members: Members
) -> dict[Any, tuple[Ints, Floats]]:
    """Judge solutions over rounded entries of K on float64 ones, all of a kind of chain at once.

    Sets their violations, duals and gaps.

    Returns
    -------
    dict
        For each name of chains, the rows that they have and Kβ there, of shape (n_chains, n_rows,
        n_members).
    """
    chains, first = layout.chains, layout.first
    kinds: dict[Any, list[int]] = {}
    for k, chain in enumerate(chains):
        kinds.setdefault(chain.name, []).append(k)
    out = {}
    for name, own in kinds.items():
        rows = np.unique(np.concatenate([chains[k].rows for k in own]))
        coef = np.zeros((len(rows), len(own), len(members)))
        for j, k in enumerate(own):
            place = np.searchsorted(rows, chains[k].rows)
            np.add.at(coef[:, j], place, found.beta[:, first[k] : first[k + 1]].T)
        kbeta = exact(coef.reshape(len(rows), -1), rows).reshape(coef.shape).transpose(1, 0, 2)
        for j, k in enumerate(own):
            place = np.searchsorted(rows, chains[k].rows)
            beta = found.beta[:, first[k] : first[k + 1]].T
            told = np.isfinite(found.violation[k])
            facts = _judged(chains[k], members, beta, kbeta[j][place])
            for values, fact in zip((found.violation, found.dual, found.gap), facts, strict=True):
                values[k] = np.where(told, fact, values[k])
        out[name] = rows, kbeta
    return out


def refine(
    found: Found,
    matrix: NDArray[Any],
    diagonal: Floats,
    exact: Exact,
    layout: Layout,
    members: Members,
    *,
    tol: float,
    threads: Callable[[], int],
    stop: Callable[[float], bool],
) -> None:
    """Judge solutions over a rounded square of K on float64 entries; go on with those that fail.

    The rest of the way is short, so what its steps add in rounding is small: a few passes do.
    Chains of several names are judged alone.
    """
    sums, chains, first = confirm(found, exact, layout, members), layout.chains, layout.first
    for _ in range(_PASSES):
        failed = np.argwhere(np.isfinite(found.violation) & (found.violation > tol))
        if not len(failed) or len(sums) > 1 or stop(1.0):
            return
        ((rows, kbeta),) = sums.values()
        if len(rows) < len(matrix):
            return
        again = [_member(chains[k], members.factors[q]) for k, q in failed]
        beta = [found.beta[q, first[k] : first[k + 1]] for k, q in failed]
        start = np.concatenate(beta), np.stack([kbeta[k][:, q] for k, q in failed])
        one = Members(np.ones((1, 3)))
        more = solve_chains(
            matrix, diagonal, Layout.of(again, layout.held), one, tol=_CLOSER * tol,
            threads=threads, start=start, stop=stop,
        )  # fmt: skip
        ends = np.cumsum([0] + [len(c.rows) for c in again])
        for j, (k, q) in enumerate(failed):
            if np.isfinite(more.violation[j, 0]):
                found.beta[q, first[k] : first[k + 1]] = more.beta[0, ends[j] : ends[j + 1]]
                found.held[k][q], found.lam[k, q] = more.held[j][0], more.lam[j, 0]
                found.steps[k, q] += more.steps[j, 0]
        sums = confirm(found, exact, layout, members)


def _member(chain: Chain, factors: Floats) -> Chain:
    """The chain whose only member is this one."""
    box, diagonal, total = factors.tolist()
    return replace(chain, l=chain.l * box, u=chain.u * box, D=chain.D * diagonal, m=chain.m * total)


def _judged(
    chain: Chain, members: Members, beta: Floats, kbeta: Floats
) -> tuple[Floats, Floats, Floats]:
    """KKT violation, dual and gap of each member, as in DESIGN's certificate."""
    box, diagonal, _ = members.factors.T
    s, D = chain.s[:, None], chain.D[:, None] * diagonal
    low, up = chain.l[:, None] * box, chain.u[:, None] * box
    r = s - kbeta - D * beta
    rise, fall = np.where(beta < up, r, -np.inf), np.where(beta > low, r, np.inf)
    violation, rest = np.zeros(len(members)), s - kbeta
    for g in range(len(chain.m)):
        own = chain.group == g
        most, least = rise[own].max(axis=0), fall[own].min(axis=0)
        violation = np.maximum(violation, most - least)
        both = np.isfinite(most) & np.isfinite(least)
        rest[own] -= np.where(both, 0.5 * (most + least), np.where(np.isfinite(most), most, least))
    free = chain.group < 0
    if free.any():
        each = np.maximum(rise[free].max(axis=0), -fall[free].min(axis=0))
        violation = np.maximum(violation, each)
    best = np.where(rest > 0, up, low)
    np.divide(rest, D, out=best, where=D > 0)
    best = np.clip(best, low, up)
    gap = ((best - beta) * (rest - 0.5 * D * (best + beta))).sum(axis=0)
    return violation, (beta * (s - 0.5 * kbeta - 0.5 * D * beta)).sum(axis=0), gap


def pair_chains(
    fold: int,
    rows: Ints,
    codes: Ints,
    weight: Floats,
    pairs: Sequence[tuple[int, int | None]],
    kind: str,
) -> list[Chain]:
    """Chains of one fold: class i against class j, or against the rest where j is None.

    ``kind`` is the formulation: "soft_margin", "squared_hinge" or "nu_svc".
    """
    chains = []
    for i, j in pairs:
        own = np.ones(len(rows), bool) if j is None else (codes == i) | (codes == j)
        y = np.where(codes[own] == i, 1.0, -1.0)
        w, where = weight[own], rows[own]
        zero, group = np.zeros(len(y)), np.zeros(len(y), dtype=np.int64)
        s, m, D, bound = y, np.zeros(1), zero, w
        if kind == "squared_hinge":
            D, bound = 0.5 / w, np.full(len(y), np.inf)
        if kind == "nu_svc":  # N4: K_s = 1, K_m = ν Σw
            s, group, m = zero, (y < 0).astype(np.int64), np.array([0.5, -0.5]) * w.sum()
        lower, upper = np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0)
        chains.append(Chain(fold, where, s, lower, upper, D, group, m, (i, j)))
    return chains


def tube_chain(fold: int, rows: Ints, z: Floats, weight: Floats, epsilon: float) -> Chain:
    """The chain of a fold for ε-regression: two variables on each row."""
    zero = np.zeros(len(z))
    return Chain(
        fold,
        np.concatenate([rows, rows]),
        np.concatenate([z - epsilon, z + epsilon]),
        np.concatenate([zero, -weight]),
        np.concatenate([weight, zero]),
        np.zeros(2 * len(z)),
        np.zeros(2 * len(z), dtype=np.int64),
        np.zeros(1),
        epsilon,
    )


def all_pairs(count: int, *, rest: bool) -> list[tuple[int, int | None]]:
    """Which classes are set against which: for two the second against the first."""
    if count == 2:
        return [(1, 0)]
    if rest:
        return [(k, None) for k in range(count)]
    return list(itertools.combinations(range(count), 2))
