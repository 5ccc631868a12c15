"""A bet on the next item of a list (Proposition 50), against the mean of the remaining items under the null.

A null says that the values y of all N items have a mean of at most b. Before place n + 1, if the n values so far sum to
S, the other N - n have a mean of at most m = (N b - S)/(N - n). The wealth is multiplied by 1 + lambda (y - m), where
lambda depends on earlier places only and keeps the factor positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, log_sum_exp

LEADS = np.array([0.015, 0.03, 0.06, 0.12, 0.25, 0.5])  # leads bet on by shares of the wealth, in units of the range
RISK = 0.5  # the largest share of its wealth that a bet may lose
NEAREST = 1e-6  # the least distance of m from the smallest value, for sizing bets
ROUNDING = 1e-9  # rounding error of sums, within which nothing is certain
LEAST = 0.01  # lower limit on the variance of values that do not compare arms
EARLY = 8  # before this many places it is too early to tell which arms lead


def left_mean(size: int, place: Floats, bound: ArrayLike, total: Floats) -> Floats:
    """An upper bound on the mean of the items left, if that of the whole list is at most `bound`."""
    return np.asarray((size * np.asarray(bound) - total) / (size - place))


def log_factors(y: Floats, mean: Floats, low: ArrayLike, variance: Floats, stretch: Floats) -> Floats:
    """The log payoff for each bet size. (J)->(6, J)

    Args:
        y: The value at this place.
        mean: An upper bound on its expectation under the null.
        low: Its smallest possible value.
        variance: The estimated variance of y.
        stretch: N over the number of items left.
    """
    lead = LEADS[:, None] * stretch[..., None, :]
    most = RISK / np.maximum(mean - np.asarray(low), NEAREST)
    size = np.minimum(lead / (variance[..., None, :] + lead * lead), most[..., None, :])
    return np.asarray(np.log1p(size * (y - mean)[..., None, :]))


def log_wealth(wealth: Floats) -> Floats:
    """log of the mean wealth over the bet sizes. (6, J)->(J)"""
    return np.asarray(log_sum_exp(np.moveaxis(wealth, -2, 0).copy()) - np.log(len(LEADS)))


def is_certain(size: int, place: Floats, bound: ArrayLike, total: Floats, low: ArrayLike) -> Bools:
    """Whether the mean of the whole list exceeds `bound` even if every item left has the smallest value.

    Strictly: if the two are equal, the null may still be true.
    """
    least = total + (size - place) * np.asarray(low)
    return np.asarray(least > size * np.asarray(bound) + ROUNDING * size)
