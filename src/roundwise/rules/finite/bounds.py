"""Bounds on means and leads over the whole list: the values that the bets do not reject (Proposition 53).

The wealth against "the mean of y is at most b" decreases in b, as each payoff does: rejected values are a half-line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats
from roundwise.rules.finite.bets import LEAST, left_mean, log_factors, log_wealth

STEPS = 25  # bisection steps
CELLS = 500_000  # places times values processed at a time


class Stakes(NamedTuple):
    """The values bet on at each place, and the quantities known before it. (n, J)"""

    y: Floats
    total: Floats  # sum of y over earlier places
    variance: Floats
    bets: Bools
    low: Floats  # the smallest possible value of y


def stakes_on(y: Floats, there: Bools, seen: Bools, low: ArrayLike, centred: ArrayLike) -> Stakes:
    """Bets on the same quantities from the first place to the last.

    Args:
        y: The value at each place. (n, J)
        there: Where values are known; they count up to the first gap. (n, J)
        seen: Where values come from results rather than failed requests. (n, J)
        low: The smallest possible values. (J)
        centred: Whether variances are about the mean; otherwise about 0, as for differences of arms. (J)
    """
    there = np.logical_and.accumulate(there, axis=0)
    y, n = np.where(there, y, 0.0), np.arange(len(y))[:, None]
    total, squares = (np.cumsum(each, axis=0) - each for each in (y, np.where(seen, y * y, 0.0)))
    about = (0.5 + np.maximum(squares - total * total / np.maximum(n, 1), 0.0)) / (n + 2.0)
    variance = np.where(centred, np.maximum(about, LEAST), (0.5 + squares) / (n + 2.0))
    return Stakes(y, total, variance, there, np.broadcast_to(np.asarray(low, dtype=np.float64), y.shape))


def lower_ends(stakes: Stakes, size: int, known: tuple[Floats, Floats], goal: ArrayLike) -> Floats:
    """The smallest mean over the whole list that was not rejected at any place, by bisection. (J)

    Args:
        stakes: The bets.
        size: N.
        known: Values between which the mean is certain to lie. (J)
        goal: The log wealth at which a value is rejected. (J)
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
    """As `lower_ends`, for the same quantities at all places, between these `ends`. (n, J)->(J)"""
    stakes = stakes_on(y, there, seen, ends[0], centred)
    total, left = stakes.y.sum(axis=0), size - stakes.bets.sum(axis=0)
    certain = [(total + left * np.asarray(each)) / size for each in ends]
    return lower_ends(stakes, size, (certain[0], certain[1]), goal)
