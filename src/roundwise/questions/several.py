"""Several right answers: what questions with a tolerance share.

With a tolerance an answer is right unless some half-space of it is missed by more than that. The evidence for an answer
i is that against all means at which i is wrong, and the rule stops on the largest over i; T_i, what it takes to show
that i is right, is the complexity of the half-spaces of i (docs/bounds.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

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
