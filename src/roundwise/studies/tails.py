"""Tails of distributions that every look at a study needs, without a library whose import takes longer than that."""

from __future__ import annotations

import math

import numpy as np


def chi_squared_tail(freedom: int, square: float) -> float:
    """The chance that chi-squared with so many degrees of freedom is at least `square`.

    With h = square/2 it is exp(-h) (1 + h + ... + h^(m-1)/(m-1)!) for 2m degrees of freedom, and erfc(sqrt h) +
    exp(-h) (h^(1/2)/Gamma(3/2) + ... + h^(m-1/2)/Gamma(m+1/2)) for 2m + 1 (Abramowitz & Stegun, 26.4.4 and 26.4.5).

    >>> round(chi_squared_tail(1, 3.841458820694124), 12), round(chi_squared_tail(2, 5.991464547107979), 12)
    (0.05, 0.05)
    """
    if not square > 0:
        return 1.0 if square <= 0 else math.nan
    if math.isinf(square):
        return 0.0
    h, odd = 0.5 * square, freedom % 2
    first = -h + (0.5 * math.log(h) - math.lgamma(1.5) if odd else 0.0)  # the logarithm of the first term
    steps = math.log(h) - np.log(np.arange(1, freedom // 2) + 0.5 * odd)  # from each term to the next
    terms = np.exp(np.concatenate([[first], first + np.cumsum(steps)])[: freedom // 2])
    return min(1.0, float(terms.sum()) + (math.erfc(math.sqrt(h)) if odd else 0.0))
