"""Lay the problems of a search out as chains: a pair of classes in a fold, along C or ν."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

    sums: Floats  # Kβ of the rows held, one chain after the other: (n_members, n_rows of all)
    ends: Ints  # of the chains, there
    lam: Floats  # (n_chains, n_members, n_groups)
    violation: Floats  # (n_chains, n_members); inf where there is none
    dual: Floats
    gap: Floats
    steps: Floats
    seconds: float
    beta: Floats = field(repr=False)  # (n_members, variables of all chains)
    core: Any = field(repr=False)  # whose memory these are

    @functools.cached_property
    def n_support(self) -> Floats:
        """On how many rows the machines of a fold stand, of shape (n_folds, n_members)."""
        counts: Floats = self.core.n_support
        return counts

    def held(self, k: int) -> Floats:
        """Kβ of the rows held for a chain, of shape (n_members, n_rows)."""
        return self.sums[:, self.ends[k] : self.ends[k + 1]]

    def of_fold(self, at: slice) -> Floats:
        """Kβ for chains of one fold that follow one another: (n_members, n_chains, n_rows)."""
        part = self.sums[:, self.ends[at.start] : self.ends[at.stop]]
        return part.reshape(len(part), at.stop - at.start, -1)


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
    core: Any = field(repr=False)

    @classmethod
    def of(cls, chains: Sequence[Chain], held: Sequence[Ints], fold: ArrayLike) -> Layout:
        names = {name: k for k, name in enumerate(dict.fromkeys(c.name for c in chains))}
        join: Callable[[str], Any] = lambda name: np.concatenate([getattr(c, name) for c in chains])  # noqa: E731
        first = np.cumsum([0] + [len(c.rows) for c in chains])
        fold = np.asarray(fold, dtype=np.int64)
        patch = np.array([names[c.name] for c in chains], dtype=np.int64)
        core = _core.Chains(
            first, join("s"), join("l"), join("u"), join("D"), join("rows"), join("group"),
            np.stack([c.m for c in chains]), fold, np.cumsum([0] + [len(h) for h in held]),
            np.concatenate(held), patch,
        )  # fmt: skip
        return cls(chains, held, first, fold, patch, core)

    def __len__(self) -> int:
        return len(self.chains)

    def part(self, k: int) -> slice:
        """The variables of a chain."""
        return slice(self.first[k], self.first[k + 1])


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
    abreast: bool = False,
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
    abreast : bool, default=False
        Solve the first member of all chains, then the second: what is solved when time runs out
        is then of all folds.
    stop : callable
        Told many times a second which share is done; True ends the work.

    Returns
    -------
    Found
    """
    began = time.perf_counter()
    count, length = len(layout), len(members)
    none: Ints = np.zeros(0, dtype=np.int64)
    family = _core.Family(
        as_rows(matrix), layout.core, diagonal, members.factors,
        *(start or (np.zeros(0), np.zeros((0, 0)))),
        none if skip is None else skip.ravel().astype(np.int64),
        tol=_DRIFT * tol, steps=max_steps, abreast=abreast,
    )  # fmt: skip
    with one_blas_thread():
        while not family.run(_SECONDS, threads()):
            if stop(family.done / (count * length)):
                family.put_down(threads())
                break
    return Found(
        sums=family.held,
        ends=np.cumsum([0] + [len(layout.held[f]) for f in layout.fold]),
        lam=family.multipliers.reshape(count, length, -1),
        violation=family.violations,
        dual=family.duals,
        gap=family.gaps,
        steps=family.steps,
        seconds=time.perf_counter() - began,
        beta=family.beta.T,
        core=family,
    )


@dataclass(frozen=True)
class Confirmed:
    """Solutions of the chains of one name, and Kβ in float64 on their rows."""

    rows: Ints
    cells: Ints  # chain and member of each
    kbeta: Floats  # (n_rows, n_cells)


def confirm(
    found: Found, exact: Exact, layout: Layout, members: Members, cells: NDArray[np.bool_]
) -> list[Confirmed]:
    """Judge solutions over rounded entries of K on float64 ones, all of a name at once.

    Sets the violations, duals and gaps of these cells, of shape (n_chains, n_members).
    """
    chains, out = layout.chains, []
    for name in np.unique(layout.patch[cells.any(axis=1)]):
        own = np.argwhere(cells & (layout.patch == name)[:, None])
        rows = np.unique(np.concatenate([chains[k].rows for k in np.unique(own[:, 0])]))
        coef = np.zeros((len(own), len(rows)))
        places = {k: np.searchsorted(rows, chains[k].rows) for k in np.unique(own[:, 0])}
        for column, (k, q) in zip(coef, own, strict=True):
            np.add.at(column, places[k], found.beta[q, layout.part(k)])
        kbeta = exact(np.ascontiguousarray(coef.T), rows)
        for j, (k, q) in enumerate(own):
            beta = found.beta[q, layout.part(k)]
            facts = _judged(chains[k], members.factors[q], beta, kbeta[places[k], j])
            found.violation[k, q], found.dual[k, q], found.gap[k, q] = facts
        out.append(Confirmed(rows, own, kbeta))
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
    known = confirm(found, exact, layout, members, np.isfinite(found.violation))
    for _ in range(_PASSES):
        failed = np.isfinite(found.violation) & (found.violation > tol)
        if not failed.any() or len(known) > 1 or len(known[0].rows) < len(matrix) or stop(1.0):
            return
        go_on = failed[tuple(known[0].cells.T)]
        cells = known[0].cells[go_on]
        again = [_member(layout.chains[k], members.factors[q]) for k, q in cells]
        parts = [found.beta[q, layout.part(k)] for k, q in cells]
        start = np.concatenate(parts), np.ascontiguousarray(known[0].kbeta[:, go_on].T)
        rest = Layout.of(again, layout.held, layout.fold[cells[:, 0]])
        more = solve_chains(
            matrix, diagonal, rest, Members(np.ones((1, 3))), tol=_CLOSER * tol, threads=threads,
            start=start, stop=stop,
        )  # fmt: skip
        for j, (k, q) in enumerate(cells):
            if np.isfinite(more.violation[j, 0]):
                found.beta[q, layout.part(k)] = more.beta[0, rest.part(j)]
                found.held(k)[q], found.lam[k, q] = more.held(j)[0], more.lam[j, 0]
                found.steps[k, q] += more.steps[j, 0]
        known = confirm(found, exact, layout, members, failed)


def _member(chain: Chain, factors: Floats) -> Chain:
    """The chain whose only member is this one."""
    box, diagonal, total = factors.tolist()
    return replace(chain, l=chain.l * box, u=chain.u * box, D=chain.D * diagonal, m=chain.m * total)


def _judged(
    chain: Chain, factors: Floats, beta: Floats, kbeta: Floats
) -> tuple[float, float, float]:
    """KKT violation, dual and gap of a member, as in DESIGN's certificate."""
    box, diagonal, _ = factors.tolist()
    s, D, low, up = chain.s, chain.D * diagonal, chain.l * box, chain.u * box
    r = s - kbeta - D * beta
    rise, fall = np.where(beta < up, r, -np.inf), np.where(beta > low, r, np.inf)
    violation, rest = 0.0, s - kbeta
    for g in range(len(chain.m)):
        own = chain.group == g
        most, least = float(rise[own].max()), float(fall[own].min())
        violation = max(violation, most - least)
        both = np.isfinite(most) and np.isfinite(least)
        rest[own] -= 0.5 * (most + least) if both else most if np.isfinite(most) else least
    free = chain.group < 0
    if free.any():
        violation = max(violation, float(rise[free].max()), -float(fall[free].min()))
    best = np.where(rest > 0, up, low)
    np.divide(rest, D, out=best, where=D > 0)
    best = np.clip(best, low, up)
    gap = ((best - beta) * (rest - 0.5 * D * (best + beta))).sum()
    return violation, float((beta * (s - 0.5 * kbeta - 0.5 * D * beta)).sum()), float(gap)


def pair_chains(
    rows: Ints, codes: Ints, weight: Floats, pairs: Sequence[tuple[int, int | None]], kind: str
) -> list[Chain]:
    """Chains of one fold: class i against class j, or against the rest where j is None.

    ``kind`` is the formulation: "soft_margin", "squared_hinge" or "nu_svc".
    """
    of = [np.flatnonzero(codes == c) for c in range(codes.max() + 1)]
    both = [
        np.arange(len(codes)) if j is None else np.sort(np.concatenate([of[i], of[j]]))
        for i, j in pairs
    ]
    sizes, chosen = [len(own) for own in both], np.concatenate(both)
    y = np.where(codes[chosen] == np.repeat([i for i, _ in pairs], sizes), 1.0, -1.0)
    w, where = weight[chosen], rows[chosen]
    zero, group = np.zeros(len(y)), np.zeros(len(y), dtype=np.int64)
    s, D, bound = y, zero, w
    if kind == "squared_hinge":
        D, bound = 0.5 / w, np.full(len(y), np.inf)
    if kind == "nu_svc":
        s, group = zero, (y < 0).astype(np.int64)
    lower, upper = np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0)
    chains, ends = [], np.cumsum([0, *sizes]).tolist()
    for name, own in zip(pairs, map(slice, ends, ends[1:]), strict=False):
        m = np.zeros(1)
        if kind == "nu_svc":  # N4: K_s = 1, K_m = ν Σw
            m = np.array([0.5, -0.5]) * w[own].sum()
        chains.append(
            Chain(where[own], s[own], lower[own], upper[own], D[own], group[own], m, name)
        )
    return chains


def tube_chain(rows: Ints, z: Floats, weight: Floats, epsilon: float) -> Chain:
    """The chain of a fold for ε-regression: two variables on each row."""
    zero = np.zeros(len(z))
    return Chain(
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
