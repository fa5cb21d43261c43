"""Random families of problems over one square of K: what the core says of them is true."""

import numpy as np
import pytest

from maxmargin import _core
from maxmargin.grams import as_rows

TOL = 1e-4


def draw(seed):
    """Chains with repeated rows, up to two groups, sums, a diagonal; members in any order."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 90)) if rng.random() < 0.8 else int(rng.integers(600, 900))
    A = rng.normal(size=(n, 5))
    squares = (A**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * A @ A.T, 0)
    K = np.exp(-(10 ** rng.uniform(-3, 2)) * distances)
    K = ((K + K.T) / 2).astype(rng.choice([np.float32, np.float64]))
    groups, folds = int(rng.integers(0, 3)), int(rng.integers(1, 4))
    chains = [chain_of(rng, n, groups) for _ in range(int(rng.integers(1, 8)))]
    held = [np.sort(rng.integers(0, n, int(rng.integers(0, n + 3)))) for _ in range(folds)]
    Cs = np.sort(10 ** rng.uniform(-3, 4, int(rng.integers(1, 5))))
    if rng.random() < 0.3:
        Cs = rng.permutation(np.repeat(Cs, 2))[: len(Cs)]
    shape = len(chains), len(Cs)
    skip = rng.random(shape) < 0.3 if rng.random() < 0.5 else np.zeros(shape, bool)
    fold = rng.integers(0, folds, len(chains))
    patch = rng.integers(0, len(chains), len(chains))
    return K, chains, groups, held, fold, patch, Cs, skip


def chain_of(rng, n, groups):
    count = int(rng.integers(1, min(2 * n, 400) + 1))
    row = rng.integers(0, n, count) if rng.random() < 0.4 else rng.permutation(n)[:count]
    y = rng.choice([-1.0, 1.0], len(row))
    bound = rng.uniform(0, 2, len(row)) * (rng.random(len(row)) < 0.9)
    curved = rng.random() < 0.1
    bound = np.full(len(row), np.inf) if curved else bound
    return {
        "row": row.astype(np.int64),
        "s": y * rng.choice([1.0, 100.0]),
        "l": np.where(y > 0, 0.0, -bound),
        "u": np.where(y > 0, bound, 0.0),
        "D": np.full(len(row), 0.5 if curved else 0.0),
        "group": rng.integers(0, groups, len(row)) if groups else np.full(len(row), -1),
        "m": np.zeros(groups),
    }


def family_of(K, chains, groups, held, fold, patch, Cs, skip, **settings):
    def join(name):
        return np.concatenate([chain[name] for chain in chains])

    first = np.cumsum([0] + [len(chain["row"]) for chain in chains])
    core = _core.Chains(
        first, join("s"), join("l"), join("u"), join("D"), join("row"), join("group"),
        np.stack([chain["m"] for chain in chains]).reshape(len(chains), groups), fold,
        np.cumsum([0] + [len(h) for h in held]), np.concatenate(held).astype(np.int64), patch,
    )  # fmt: skip
    family = _core.Family(
        as_rows(K), core, np.ascontiguousarray(np.diag(K), dtype=np.float64),
        np.stack([Cs, 1 / Cs, Cs], axis=1), np.zeros(0), np.zeros((0, 0)),
        skip.ravel().astype(np.int64), **({"tol": TOL, "steps": 20000} | settings),
    )  # fmt: skip
    return family, first


def true_violation(chain, C, beta, kbeta):
    r = chain["s"] - kbeta - chain["D"] / C * beta
    rise = np.where(beta < chain["u"] * C, r, -np.inf)
    fall = np.where(beta > chain["l"] * C, r, np.inf)
    if len(chain["m"]) == 0:
        return max(rise.max(), -fall.min(), 0.0)
    own = [chain["group"] == g for g in range(len(chain["m"]))]
    return max([rise[o].max() - fall[o].min() for o in own if o.any()] + [0.0])


def check(family, first, K, chains, groups, held, fold, patch, Cs, skip):
    """Every member that has a violation: within its bounds, no worse, and summed up right."""
    K = K.astype(np.float64)
    ends = np.cumsum([0] + [len(held[f]) for f in fold])
    for c, chain in enumerate(chains):
        for q in np.flatnonzero(np.isfinite(family.violations[c])):
            beta, C = family.beta[first[c] : first[c + 1], q], Cs[q]
            low, up = chain["l"] * C, chain["u"] * C
            assert (beta >= low - 1e-12 * np.abs(np.nan_to_num(low, neginf=0))).all()
            assert (beta <= up + 1e-12 * np.abs(np.nan_to_num(up, posinf=0))).all()
            coef = np.bincount(chain["row"], weights=beta, minlength=len(K))
            kbeta, size = K @ coef, max(1.0, np.abs(coef).sum())
            np.testing.assert_allclose(
                family.held[q, ends[c] : ends[c + 1]], kbeta[held[fold[c]]], atol=1e-9 * size
            )
            kbeta = kbeta[chain["row"]]
            worst = true_violation(chain, C, beta, kbeta)
            assert worst <= family.violations[c, q] + 1e-9 * size
            assert family.violations[c, q] <= worst + 0.2 * TOL + 1e-9 * size
            dual = beta @ (chain["s"] - 0.5 * kbeta - 0.5 * chain["D"] / C * beta)
            np.testing.assert_allclose(
                family.duals[c, q], dual, atol=1e-9 * size * max(100.0, np.abs(kbeta).max())
            )
            assert np.isfinite(family.multipliers).all()


@pytest.mark.parametrize("abreast", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_what_a_family_says_of_its_members_is_true(seed, abreast):
    drawn = draw(seed)
    family, first = family_of(*drawn, abreast=abreast)
    while not family.run(0.01, 1):
        pass
    check(family, first, *drawn)
    assert np.isfinite(family.violations[~drawn[-1]]).all()
    twin, _ = family_of(*drawn, abreast=abreast)
    while not twin.run(1e-5, 3):
        pass
    for name in ("beta", "held", "violations", "duals", "gaps", "n_support"):
        np.testing.assert_array_equal(getattr(family, name), getattr(twin, name))


@pytest.mark.parametrize("seed", range(60, 90))
def test_what_was_put_down_is_true_too(seed):
    drawn = draw(seed)
    family, first = family_of(*drawn)
    for _ in range(seed - 58):
        if family.run(1e-5, 2):
            break
    else:
        family.put_down(2)
    check(family, first, *drawn)


def test_chains_abreast_are_solved_for_their_first_members_first():
    rng = np.random.default_rng(0)
    K, _, groups, held, *_ = draw(3)
    chains = [chain_of(rng, len(K), groups) for _ in range(12)]
    fold, patch = np.zeros(12, dtype=np.int64), np.zeros(12, dtype=np.int64)
    drawn = K, chains, groups, held, fold, patch, np.logspace(-2, 3, 8), np.zeros((12, 8), bool)
    family, first = family_of(*drawn, abreast=True)
    partly = 0
    while not family.run(1e-5, 2):
        if 0 < family.done < 96:
            partly += 1
            solved = np.isfinite(family.violations).sum(axis=1)
            assert solved.max() - solved.min() <= 2  # one ahead, and one that is at work
    check(family, first, *drawn)
    assert partly > 0


@pytest.mark.parametrize("stop", [False, True])
def test_rounding_of_the_last_member_is_not_that_of_the_first(stop):
    """K as of features that nobody scaled, and a last C for which 2^-52 C K is large."""
    rng = np.random.default_rng(0)
    A = 1e3 * rng.normal(size=(60, 4))
    K = A @ A.T
    chain = chain_of(rng, 60, 1) | {"D": np.zeros(60), "row": np.arange(60), "m": np.zeros(1)}
    y = np.where(A[:, 0] + 1e3 * rng.normal(size=60) > 0, 1.0, -1.0)
    chain |= {"s": y, "l": np.minimum(y, 0), "u": np.maximum(y, 0), "group": np.zeros(60, int)}
    one = np.zeros(1, dtype=np.int64)
    drawn = K, [chain], 1, [np.arange(60)], one, one, np.array([1e-8, 1e-4, 1e6])
    family, _ = family_of(*drawn, np.zeros((1, 3), bool))
    for _ in range(2000):
        if family.run(0.01, 1):
            break
        if stop and family.done > 1:
            family.put_down(1)
            break
    assert (family.violations[0, :2] <= TOL).all()
    beta = family.beta[:, 0]
    r = y - K @ beta
    rise = np.where(beta < chain["u"] * 1e-8, r, -np.inf)
    fall = np.where(beta > chain["l"] * 1e-8, r, np.inf)
    assert family.violations[0, 0] == pytest.approx(max(rise.max() - fall.min(), 0.0), abs=1e-6)


def test_a_member_after_one_left_out_is_solved():
    K = np.eye(4)
    chain = {
        "row": np.arange(4), "s": np.array([1.0, 1, -1, -1]), "l": np.array([0.0, 0, -1, -1]),
        "u": np.array([1.0, 1, 0, 0]), "D": np.zeros(4), "group": np.zeros(4, int),
        "m": np.zeros(1),
    }  # fmt: skip
    one = np.zeros(1, dtype=np.int64)
    Cs, skip = np.array([2.0, 3.0, 4.0]), np.array([[False, True, False]])
    family, _ = family_of(K, [chain], 1, [np.arange(4)], one, one, Cs, skip)
    assert family.run(1.0, 1)
    np.testing.assert_allclose(
        family.beta[:, [0, 2]], np.array([[1, 1], [1, 1], [-1, -1], [-1, -1]])
    )
    assert np.isinf(family.violations[0, 1])
    assert family.violations[0, 2] <= TOL
    np.testing.assert_allclose(family.duals[0, [0, 2]], 2.0)


def test_nothing_goes_on_after_the_end():
    drawn = draw(0)
    family, _ = family_of(*drawn)
    while not family.run(0.1, 1):
        pass
    with pytest.raises(RuntimeError, match="has ended"):
        family.run(0.1, 1)
    rest, _ = family_of(*drawn)
    rest.put_down(1)
    with pytest.raises(RuntimeError, match="has ended"):
        rest.run(0.1, 1)
