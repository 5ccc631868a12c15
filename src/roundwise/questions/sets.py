"""The k arms that have most evidence for them, where several sets may be right: an exact search.

A set S has as much evidence as its weakest pair, min over a in S and b not of cost(a, b). It beats a value L just if
no pair with a cost of at most L is split so: whoever takes in such an a must take in its b ("a needs b"). So a better
set is a set of k arms that is closed under needs; the search decides arms one by one and follows their needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats

NODES = 2000  # steps of one search at most: one that gives up keeps the best set it found, which is on the safe side
_ENTRIES = 2**20  # of matrices of pairs that are looked at together


def weakest_pair(inside: Bools, costs: Floats) -> Floats:
    """min over a in the set and b not of cost(a, b). (K),(K,K)->()"""
    split = inside[..., :, None] & ~inside[..., None, :]
    return np.asarray(np.where(split, costs, np.inf).min(axis=(-2, -1)))


def strongest_set(means: Floats, counts: Floats, first: Bools, tolerance: float) -> tuple[Bools, Floats]:
    """The set of as many arms as in `first` with the most evidence, for 2 sigma^2 = 1. (R,K)->(R,K),(R)

    cost(a, b) = (mu_a - mu_b + tolerance)_+^2 / (1/N_a + 1/N_b). Most runs have `first`, and a glance shows it.
    """
    inside, most = first.copy(), np.empty(len(means))
    arms = means.shape[-1]
    step = max(1, _ENTRIES // arms**2)
    for start in range(0, len(means), step):
        rows = slice(start, start + step)
        costs = pair_costs(means[rows], counts[rows], tolerance)
        found = weakest_pair(first[rows], costs)
        for run in np.flatnonzero(_improvable(costs <= found[:, None, None], int(first[0].sum()))):
            inside[start + run], found[run] = _improved(costs[run], inside[start + run], float(found[run]))
        most[rows] = found
    return inside, most


def pair_costs(means: Floats, counts: Floats, tolerance: float) -> Floats:
    """(mu_a - mu_b + tolerance)_+^2 / (1/N_a + 1/N_b); 0 without pulls. (K),(K)->(K,K)"""
    both = counts[..., :, None] + counts[..., None, :]
    harmonic = counts[..., :, None] * counts[..., None, :] / np.where(both > 0, both, 1.0)
    return np.asarray(np.maximum(means[..., :, None] - means[..., None, :] + tolerance, 0.0) ** 2 * harmonic)


def _improvable(needs: Bools, k: int) -> Bools:
    """Whether a closed set of k arms is not ruled out by who needs too many, or is needed by too many. (R,K,K)->(R)"""
    arms = needs.shape[-1]
    needs = needs & ~np.eye(arms, dtype=np.bool_)
    out, inside = needs.sum(axis=-1) > k - 1, needs.sum(axis=-2) > arms - k - 1
    for _ in range(2):
        out = out | (needs & out[:, None, :]).any(axis=-1)
        inside = inside | (needs & inside[:, :, None]).any(axis=-2)
    return np.asarray(~(out & inside).any(axis=-1) & (out.sum(axis=-1) <= arms - k) & (inside.sum(axis=-1) <= k))


def _improved(costs: Floats, inside: Bools, most: float) -> tuple[Bools, float]:
    """Better and better sets until there is none. (K,K),(K)"""
    k = int(inside.sum())
    while (better := _closed(costs <= most, k)) is not None:
        inside, most = better, float(weakest_pair(better, costs))
    return inside, most


def _closed(needs: Bools, k: int) -> Bools | None:
    """A set of k arms that has with every arm those that it needs, or None. (K,K)->(K)"""
    ahead, behind = _reached(needs), _reached(needs.T)  # as bits: all that an arm needs, all that need it
    arms = len(ahead)
    everyone = (1 << arms) - 1
    order = sorted(range(arms), key=lambda arm: ahead[arm].bit_count())
    stack, nodes = [(0, 0)], 0
    while stack and nodes < NODES:
        inside, out = stack.pop()
        nodes += 1
        if inside & out or inside.bit_count() > k or out.bit_count() > arms - k:
            continue
        if inside.bit_count() == k or out.bit_count() == arms - k:
            chosen = inside if inside.bit_count() == k else everyone & ~out
            return np.array([bool(chosen >> arm & 1) for arm in range(arms)])
        arm = next(each for each in order if not (inside | out) >> each & 1)
        stack += [(inside, out | behind[arm]), (inside | ahead[arm], out)]
    return None


def _reached(needs: NDArray[np.bool_]) -> list[int]:
    """For each arm itself and all that it needs, and what these need, as bits of a number."""
    reached = [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in needs]
    for via in range(len(reached)):
        bit = 1 << via
        reached[via] |= bit
        onwards = reached[via]
        reached = [each | onwards if each & bit else each for each in reached]
    return reached
