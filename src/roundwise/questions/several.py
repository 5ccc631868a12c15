"""Several right answers: what questions with a tolerance share, and of all sets of k arms the one with most evidence.

With a tolerance an answer is right unless some half-space of it is missed by more than that. The evidence for an answer
i is that against all means at which i is wrong, and the rule stops on the largest over i; T_i, what it takes to show
that i is right, is the complexity of the half-spaces of i (docs/bounds.md).

A set S has as much evidence as its weakest pair, min over a in S and b not of cost(a, b). It beats a value L just if
no pair with a cost of at most L is split so: whoever takes in such an a must take in its b ("a needs b"). So a better
set is a set of k arms that is closed under needs; the search decides arms one by one and follows their needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Array, Bools, Floats
from roundwise.questions.base import Answer, Question, finite
from roundwise.questions.halfspaces import halfspace_complexity

MOST = 200  # answers that are looked at one by one


def listed(means: ArrayLike, answers: Callable[[Floats], Iterable[Array]], most: int = MOST) -> tuple[Answer, Bools]:
    """The right answers of every run, on the first axis, and which of these there are. (K)->(A,...),(A)"""
    values = finite(means)
    runs = values.shape[:-1]
    found = [list(itertools.islice(answers(row), most)) for row in values.reshape(-1, values.shape[-1])]
    number = max((len(each) for each in found), default=0)
    filled = [[*each, *[each[0]] * (number - len(each))] for each in found]
    stacked = np.array(filled).swapaxes(0, 1)  # (A, runs, ...)
    there = np.array([[i < len(each) for each in found] for i in range(number)])
    return stacked.reshape((number, *runs, *stacked.shape[2:])), there.reshape((number, *runs))


def halfspace_complexities(question: Question, answers: Answer, there: Bools, means: ArrayLike, sigma: float) -> Floats:
    """T_i of answers that are intersections of half-spaces, nan where there is none. (A,...),(A),(K)->(A), last"""
    values = np.broadcast_to(finite(means), (*there.shape, np.shape(means)[-1]))
    pieces = question.halfspaces(answers, values.shape[-1])
    forms = np.broadcast_to(pieces.dense(values.shape[-1]), (*there.shape, *pieces.arms.shape[-2:-1], values.shape[-1]))
    distances = (forms @ values[..., None])[..., 0] - pieces.offsets
    found = np.full(there.shape, np.nan)
    if there.any():
        chosen = forms[there], np.maximum(distances[there], 0.0)
        found[there] = halfspace_complexity(*chosen, np.zeros((len(chosen[0]), 1)), sigma).value
    return np.moveaxis(found, 0, -1)


def sides(away: Floats, tolerance: float) -> Iterable[Bools]:
    """Every right set of those above, given how far each is above: the nearest first. (P)"""
    above = away > 0
    free = np.flatnonzero(np.abs(away) <= tolerance) if tolerance else np.empty(0, dtype=np.intp)
    for turned in itertools.product((False, True), repeat=len(free)):
        mask = above.copy()
        mask[free[list(turned)]] = ~mask[free[list(turned)]]
        yield mask


def ways_of_sides(away: Floats, tolerance: float) -> Floats:
    """How many there are: 2 to the number of those within the tolerance. (P)->()"""
    free = (np.abs(away) <= tolerance).sum(axis=-1) if tolerance else np.zeros(away.shape[:-1])
    return np.asarray(2.0 ** np.minimum(free, 1000.0))


def near_words(tolerance: float) -> str:
    """' (or is within 0.1)', nothing without a tolerance."""
    return f" (or is within {tolerance:g})" if tolerance else ""


def top_sets(means: Floats, k: int, tolerance: float) -> Iterable[Bools]:
    """Every set of k arms of which none is exceeded by an arm outside by more than the tolerance; the top first. (K)

    By the smallest mean of the set, at the place p in falling order: arms that exceed it by more must be in.
    """
    order = np.argsort(-means, kind="stable")
    for p, (forced, others) in enumerate(_places(means[order], k, tolerance), k - 1):
        for chosen in itertools.combinations(range(forced, p), others) if others >= 0 else ():
            mask = np.zeros(len(means), dtype=np.bool_)
            mask[order[[*range(forced), *chosen, p]]] = True
            yield mask
        if not tolerance:
            return


def ways_of_top(means: Floats, k: int, tolerance: float) -> float:
    """How many such sets there are. (K)->()"""
    from math import comb

    if not tolerance:
        return 1.0
    ranked = -np.sort(-means)
    ways = (
        comb(p - forced, others) if others >= 0 else 0
        for p, (forced, others) in enumerate(_places(ranked, k, tolerance), k - 1)
    )
    return float(min(sum(ways), 10**300))


def _places(ranked: Sequence[float] | Floats, k: int, tolerance: float) -> list[tuple[int, int]]:
    """For each place p from k - 1 on: how many exceed that mean by more, and how many of the rest the set has."""
    values = np.asarray(ranked)
    forced = (values[None, :] > values[k - 1 :, None] + tolerance).sum(axis=-1)
    return [(int(each), k - 1 - int(each)) for each in forced]


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
