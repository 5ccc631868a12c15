"""Bounds of the mean of each arm on the whole list, from bets whose sizes do not depend on the mean that is tested."""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Floats, log_sum_exp
from roundwise.rules.base import Interval
from roundwise.rules.finite.bets import LEADS, RISK

STEPS = 20  # of bisection


def list_means(told: Floats, size: int, goal: float) -> Interval:
    """Bounds of the means of a list, each end wrong with probability at most exp(-goal).

    Args:
        told: Results in [0, 1] by place; an arm counts up to the first place that it lacks. (n, K)
        size: N.
        goal: log of the wealth at which a mean is ruled out.
    """
    ends = [_lower(told, size, goal), _lower(1.0 - told, size, goal)]
    return Interval(ends[0], 1.0 - ends[1])


def _lower(told: Floats, size: int, goal: float) -> Floats:
    """The lower bound of each arm: the least mean that the bets have not ruled out at any place. (n, K)->(K)"""
    there = np.logical_and.accumulate(~np.isnan(told), axis=0)
    x, counts = np.where(there, told, 0.0), there.sum(axis=0)
    n = np.arange(len(x))[:, None]
    before = np.cumsum(x, axis=0) - x
    squares = np.cumsum(x * x, axis=0) - x * x
    variance = np.maximum((0.5 + squares - before * before / np.maximum(n, 1)) / (n + 2.0), 0.01)
    left = size - n
    lead = LEADS[:, None, None] * (size / left)
    sizes = np.where(there, np.minimum(lead / (variance + lead * lead), RISK), 0.0)
    low = x.sum(axis=0) / size  # what is certain
    high = low + (size - counts) / size
    least, most = low.copy(), high
    for _ in range(STEPS if len(x) else 0):
        middle = (least + most) / 2
        means = np.where(there, (size * middle - before) / left, 0.0)
        wealth = np.cumsum(np.log1p(np.maximum(sizes * (x - means), -RISK)), axis=1)
        won = (log_sum_exp(wealth) - np.log(len(LEADS))).max(axis=0) >= goal
        least, most = np.where(won, middle, least), np.where(won, most, middle)
    return np.asarray(least)
