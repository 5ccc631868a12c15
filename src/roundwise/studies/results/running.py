"""New results, or a running total of what is recorded? How much likelier the numbers are under the one than the other.

Let m results with total S be recorded of an arm, and a file have n >= m with total T. A running total has r = n - m
results that are not recorded, with total t = T - S. Both stories predict their total from what is recorded, t by the
law of r results and T by that of n. With L the likelihood of a running total over that of new results, the true story
makes L misleading by a factor c with probability at most 1/c (Markov), whichever of the two it is. Where somebody said
that files are new, or a file has just what was asked for (`fits`), it is taken for a running total if L is above
`RARE`: new results are so at most once in `RARE` times. L rests on a rate that stays the same, so it is never a reason
to let pass what nobody spoke for.
"""

from __future__ import annotations

import math

import numpy as np

from roundwise.arrays import Floats
from roundwise.estimates import Past
from roundwise.noise import Noise, variances
from roundwise.state import Batch

RARE = 1000.0
_EQUAL = math.log(RARE)  # what it says that as many results have the same sum: much, if not everything


def log_ratio(noise: Noise, zero_one: bool, recorded: Batch, file: Batch) -> float:
    """The logarithm of L, over all arms; every arm of the file has at least as many results as are recorded.

    1010 results, 101 of them ones, hold 1000 with 100 only too well; 105 ones are just what new results look like.

    >>> import numpy as np
    >>> from roundwise.noise import Binary
    >>> old = Batch(np.array([1000.0]), np.array([100.0]))
    >>> [round(log_ratio(Binary(), True, old, Batch(np.array([1010.0]), np.array([t]))), 1) for t in (101.0, 105.0)]
    [2.6, -2.8]
    """
    some = recorded.counts > 0
    m, s = recorded.counts[some], recorded.totals[some]
    n, whole = file.counts[some], file.totals[some]
    r, t = n - m, whole - s
    if zero_one:
        logs = _beta_binomial(t, r, s, m) - _beta_binomial(whole, n, s, m)
    else:
        v = np.maximum(variances(noise, Past.none(recorded.counts.shape).plus(recorded)), 1e-300)[some]
        gap = t - r * (s / m)  # the same for both stories
        narrow, wide = v * r * n / m, v * n * (m + n) / m  # its variance if t, or T, is predicted
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = 0.5 * (np.log(wide / narrow) - gap**2 * (1.0 / narrow - 1.0 / wide))
        logs = np.where(r > 0, logs, _EQUAL)
    return float(logs.sum())


def fits(counts: Floats, asked: Floats | None, first: bool) -> bool:
    """Whether counts are just as many as were asked for; of the `first` file of a round, as a random split has them."""
    if asked is None:
        return True
    some = counts > 0
    if np.array_equal(counts[some], asked[some]):
        return True
    if not first or (counts[asked <= 0] > 0).any() or not asked.any():
        return False
    from scipy.special import chdtri

    wanted, came = asked[asked > 0], counts[asked > 0]
    return bool(((came - wanted) ** 2 / wanted).sum() <= chdtri(len(wanted), 1.0 / RARE))


def _beta_binomial(ones: Floats, of: Floats, seen: Floats, among: Floats) -> Floats:
    """The chance of so many ones among so many, after `seen` ones among others (a uniform prior of the rate)."""
    from scipy.special import betaln, gammaln

    ways = gammaln(of + 1) - gammaln(ones + 1) - gammaln(of - ones + 1)
    a, b = seen + 1.0, among - seen + 1.0
    return np.asarray(ways + betaln(a + ones, b + of - ones) - betaln(a, b))
