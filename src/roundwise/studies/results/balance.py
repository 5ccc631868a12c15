"""Do the arms differ in what is missing, or in how many there are, by more than chance? For warnings only.

Both are chi-squared tests; where few are expected the chance is found by drawing (with a fixed seed), which is exact up
to the number of draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.arrays import Floats
from roundwise.studies.tails import chi_squared_tail

EXPECTED = 5.0  # in every cell, for the chi-squared law to be near
DRAWS = 9999


def missing_differs(counts: Floats, missing: Floats) -> float:
    """How likely chance alone makes the shares of missing outcomes differ so much; 1 if none is missing.

    `counts` came back with an outcome, `missing` without one. (K), (K)

    >>> import numpy as np
    >>> missing_differs(np.array([90.0, 99.0]), np.array([10.0, 1.0])) < 0.01
    True
    >>> missing_differs(np.array([90.0, 93.0]), np.array([10.0, 7.0])) > 0.4
    True
    """
    counts, missing = counts[counts + missing > 0], missing[counts + missing > 0]
    sizes = counts + missing
    lost = missing.sum()
    if len(sizes) < 2 or not 0 < lost < sizes.sum():
        return 1.0
    expected = sizes * lost / sizes.sum()
    kept = sizes - expected

    def distance(drawn: Floats) -> Floats:
        return np.asarray(((drawn - expected) ** 2 * (1 / expected + 1 / kept)).sum(axis=-1))

    if min(expected.min(), kept.min()) >= EXPECTED or sizes.sum() > 10**9:
        return chi_squared_tail(len(sizes) - 1, float(distance(missing)))
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_hypergeometric(sizes.astype(np.int64), int(lost), DRAWS, method="marginals")
    return _share(distance(drawn.astype(np.float64)), float(distance(missing)))


def split_differs(shares: Floats, counts: Floats) -> float:
    """How likely chance alone splits the results so differently from what was asked (sample-ratio mismatch).

    `shares` are of any size, such as what was asked for; `counts` came, missing ones included. (K), (K)

    >>> import numpy as np
    >>> split_differs(np.array([1.0, 1.0]), np.array([5000.0, 5300.0])) < 0.01
    True
    >>> split_differs(np.array([2.0, 1.0, 0.0]), np.array([61.0, 33.0, 0.0])) > 0.5
    True
    """
    if (counts[shares <= 0] > 0).any():
        return 0.0
    wanted, came = shares[shares > 0], counts[shares > 0]
    total = came.sum()
    if len(wanted) < 2 or not total:
        return 1.0
    chances = wanted / wanted.sum()
    expected = total * chances

    def distance(drawn: Floats) -> Floats:
        return np.asarray(((drawn - expected) ** 2 / expected).sum(axis=-1))

    if expected.min() >= EXPECTED or total > 10**9:
        return chi_squared_tail(len(wanted) - 1, float(distance(came)))
    drawn = np.random.default_rng(0).multinomial(int(total), chances, DRAWS)
    return _share(distance(drawn.astype(np.float64)), float(distance(came)))


def splits_differ(rounds: Sequence[tuple[Floats, Floats]]) -> float:
    """The same of several rounds, each with the shares it was asked with: rounds too small for the law are left out.

    >>> import numpy as np
    >>> equal, other = np.array([1.0, 1.0]), np.array([3.0, 1.0])
    >>> splits_differ([(equal, np.array([520.0, 480.0])), (other, np.array([760.0, 240.0]))]) > 0.2
    True
    >>> splits_differ([(equal, np.array([560.0, 440.0])), (other, np.array([690.0, 310.0]))]) < 1e-6
    True
    """
    square, freedom = 0.0, 0
    for shares, counts in rounds:
        wanted, came = shares[shares > 0], counts[shares > 0]
        expected = came.sum() * wanted / max(wanted.sum(), 1e-300)
        if len(wanted) > 1 and expected.min() >= EXPECTED:
            square, freedom = square + float(((came - expected) ** 2 / expected).sum()), freedom + len(wanted) - 1
    return chi_squared_tail(freedom, square) if freedom else 1.0


def _share(drawn: Floats, seen: float) -> float:
    return float((1 + (drawn >= seen * (1 - 1e-9)).sum()) / (1 + len(drawn)))
