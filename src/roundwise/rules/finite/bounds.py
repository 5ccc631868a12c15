"""Bounds of means and leads on the whole list: the values that the bets rule out (Proposition 53).

The wealth against "the mean of y is at most b" falls in b, as every pay-off does, so what is ruled out is a half-line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats
from roundwise.rules.finite.bets import LEAST, left_mean, log_factors, log_wealth

STEPS = 25  # of bisection
CELLS = 500_000  # places times values that are worked on together


class Stakes(NamedTuple):
    """The values bet on at each place, and the known quantities before it. (n, J)"""

    y: Floats
    total: Floats  # of y before
    variance: Floats
    bets: Bools
    low: Floats  # the least that y can be


def stakes_on(y: Floats, there: Bools, seen: Bools, low: ArrayLike, centred: ArrayLike) -> Stakes:
    """Bets on values that are the same from the first place to the last.

    Args:
        y: Their values at each place. (n, J)
        there: Where they are known; they count up to the first place at which they are not. (n, J)
        seen: Where they are results, not what failed requests are taken for. (n, J)
        low: The least that they can be. (J)
        centred: Whether they vary about their mean; else about 0, as differences of arms do. (J)
    """
    there = np.logical_and.accumulate(there, axis=0)
    y, n = np.where(there, y, 0.0), np.arange(len(y))[:, None]
    total, squares = (np.cumsum(each, axis=0) - each for each in (y, np.where(seen, y * y, 0.0)))
    about = (0.5 + np.maximum(squares - total * total / np.maximum(n, 1), 0.0)) / (n + 2.0)
    variance = np.where(centred, np.maximum(about, LEAST), (0.5 + squares) / (n + 2.0))
    return Stakes(y, total, variance, there, np.broadcast_to(np.asarray(low, dtype=np.float64), y.shape))


def lower_ends(stakes: Stakes, size: int, known: tuple[Floats, Floats], goal: ArrayLike) -> Floats:
    """The least mean over the whole list that was not ruled out at any place, by bisection. (J)

    Args:
        stakes: The bets.
        size: N.
        known: What is certain: the mean is between these. (J)
        goal: log of the wealth at which a value is ruled out. (J)
    """
    least, most = (np.array(each, dtype=np.float64) for each in known)
    goal = np.broadcast_to(goal, least.shape)
    places = max(len(stakes.y), 1)
    n = np.arange(len(stakes.y), dtype=np.float64)[:, None]
    for part in np.array_split(np.arange(len(least)), -(-places * len(least) // CELLS) or 1):
        y, total, variance = (each[:, part] for each in stakes[:3])
        stretch = np.broadcast_to(size / (size - n), y.shape)
        for _ in range(STEPS if len(y) else 0):
            middle = (least[part] + most[part]) / 2
            mean = left_mean(size, n, middle, total)
            factors = np.where(
                stakes.bets[:, None, part], log_factors(y, mean, stakes.low[:, part], variance, stretch), 0.0
            )
            won = log_wealth(np.cumsum(factors, axis=0)).max(axis=0) >= goal[part]
            least[part], most[part] = np.where(won, middle, least[part]), np.where(won, most[part], middle)
    return least


def fixed_ends(
    y: Floats,
    there: Bools,
    seen: Bools,
    size: int,
    ends: tuple[ArrayLike, ArrayLike],
    goal: ArrayLike,
    centred: ArrayLike,
) -> Floats:
    """The same for values that are the same from the first place to the last, between these `ends`. (n, J)->(J)"""
    stakes = stakes_on(y, there, seen, ends[0], centred)
    total, left = stakes.y.sum(axis=0), size - stakes.bets.sum(axis=0)
    certain = [(total + left * np.asarray(each)) / size for each in ends]
    return lower_ends(stakes, size, (certain[0], certain[1]), goal)
