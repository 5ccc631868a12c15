"""One bet on the next item of a list (Proposition 50): about what is left of the list if the null is true.

A null says that the values y of all N items have a mean of at most b. Before place n + 1, with the sum S of the n
values seen, the N - n others then have a mean of at most m = (N b - S)/(N - n). The wealth is multiplied by
1 + lambda (y - m), where lambda depends on earlier places only and keeps the factor positive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, log_sum_exp

LEADS = np.array([0.015, 0.03, 0.06, 0.12, 0.25, 0.5])  # that the shares of the money expect, in units of the range
RISK = 0.5  # the most of its wealth that a bet may lose
NEAREST = 1e-6  # of m to the least value, for the size of a bet
ROUNDING = 1e-9  # of sums, by which nothing is certain
LEAST = 0.01  # of a variance of values that do not compare arms
EARLY = 8  # places before which it is too early to tell which arms lead


def left_mean(size: int, place: Floats, bound: ArrayLike, total: Floats) -> Floats:
    """The mean of the items that are left, at most, if that of the whole list is at most `bound`."""
    return np.asarray((size * np.asarray(bound) - total) / (size - place))


def log_factors(y: Floats, mean: Floats, low: ArrayLike, variance: Floats, stretch: Floats) -> Floats:
    """log of the pay-off for each of the sizes. (J)->(6, J)

    Args:
        y: The value at this place.
        mean: What it is on average at most, if the null is true.
        low: The least that it can be.
        variance: Of y, as far as it is known.
        stretch: N over the number of items left.
    """
    lead = LEADS[:, None] * stretch[..., None, :]
    most = RISK / np.maximum(mean - np.asarray(low), NEAREST)
    size = np.minimum(lead / (variance[..., None, :] + lead * lead), most[..., None, :])
    return np.asarray(np.log1p(size * (y - mean)[..., None, :]))


def log_wealth(wealth: Floats) -> Floats:
    """log of the mean over the sizes. (6, J)->(J)"""
    return np.asarray(log_sum_exp(np.moveaxis(wealth, -2, 0).copy()) - np.log(len(LEADS)))


def is_certain(size: int, place: Floats, bound: ArrayLike, total: Floats, low: ArrayLike) -> Bools:
    """Whether the mean of the whole list is above `bound` even if every item that is left has the least value.

    Strictly above: where the two are equal the null may still be true.
    """
    least = total + (size - place) * np.asarray(low)
    return np.asarray(least > size * np.asarray(bound) + ROUNDING * size)
