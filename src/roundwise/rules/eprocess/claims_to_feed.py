"""How many claims around one arm to feed: which numbers could be the best, found with rough chances.

Every claim compares an arm of its own with the centre (a control). If the first k, in some order, are fed, the centre
has sqrt(k) times the results of each other arm, so the information of every claim is known for every k without counting
arms. Chances in single precision from a table are good to `_OFF`; a number whose sum of chances is further below the
largest than these errors allow is not the best, and only the others are looked at with all digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, zeros
from roundwise.solvers.shared_arm import SharedArm

Index = NDArray[np.intp]
Singles = NDArray[np.float32]

_STEPS, _LEAST = 4096, 6  # entries of the table of Phi per unit, from -_LEAST to _LEAST
_OFF = 1e-4  # of one chance, at most: 0.4 times half a step, single precision, and Phi(-_LEAST) = 1e-9
_MOST = 1e15  # values beyond it, in deviations, are as good as that


@dataclass(frozen=True)
class Around:
    """Claims around one arm, in an order of each run, of which so many are open."""

    centre: SharedArm
    forms: Floats  # (J, K)
    squares: Floats  # (J, K), of the coefficients, each form in units of its largest
    order: Index  # (n, J)
    rank: Index  # (n, J)
    many: Index  # (n)

    def likely(self, variances: Floats, left: Floats, value: Floats, score: Floats, square: Floats) -> Bools:
        """Which numbers of claims could have the largest sum of chances. (K),(),(D, J),(D, J),(D, J)->(J)

        Arms have these variances, and `left` results are shared among those of the first k. Runs come first in the
        former, and last in the latter and in what is returned.
        """
        rows, spread = self.order.transpose(), variances.transpose()
        unit = spread[self.centre.arm]
        good = np.isfinite(spread).all(axis=0) & (unit > 0) & np.isfinite(left)
        unit = np.where(good, unit, 1.0)
        own = np.sqrt(self.squares[np.arange(len(self.forms)), self.centre.others])  # its share
        central = np.sqrt(self._central())
        results = (central + own[rows].cumsum(axis=0)) / np.maximum(left, 1e-300)  # one per unit of a share
        a = self._alike(self.forms[:, self.centre.arm, None] ** 2 * (spread[self.centre.arm] / unit))
        other = self.forms[np.arange(len(self.forms)), self.centre.others] ** 2 / own
        b = self._alike(other[:, None] * (spread[self.centre.others] / unit))
        u, w = (each.astype(np.float32) for each in (results / central, results))
        value, square = value / np.sqrt(unit), square / unit
        sides = [
            [np.take_along_axis(np.clip(each, -_MOST, _MOST), rows, axis=0).astype(np.float32) for each in side]
            for side in zip(value, score, square, strict=True)
        ]
        table, sums = _phi(), np.full(rows.shape, -1.0)
        for k in range(1, int(self.many.max(initial=0)) + 1):
            information = 1.0 / (a[:k] * u[k - 1] + b[:k] * w[k - 1])
            root = np.sqrt(information)
            away = _away(sides[0], k, root, information)
            for side in sides[1:]:
                np.maximum(away, _away(side, k, root, information), out=away)
            away *= np.float32(_STEPS)
            away += np.float32(_LEAST * _STEPS + 0.5)
            np.maximum(away, np.float32(0.0), out=away)
            np.minimum(away, np.float32(table.size - 1), out=away)
            sums[k - 1] = np.add.reduce(table.take(away.astype(np.int32), mode="clip"), axis=0)
        number = np.arange(1.0, len(rows) + 1.0)[:, None]
        possible = number <= self.many
        enough = np.where(possible, sums - _OFF * number, -np.inf).max(axis=0)
        return np.asarray(possible & ((sums + _OFF * number >= enough) | ~good))

    def lots(self, numbers: Bools) -> Iterator[tuple[Index, Index, Floats]]:
        """Some runs with one of these numbers each, and how often each arm is in so many. (J)->(),(),(K)"""
        central, others = self._central(), self.squares[np.arange(len(self.forms)), self.centre.others]
        nth = numbers.cumsum(axis=0)
        for number in range(1, int(nth.max(initial=0)) + 1):
            k, here = np.nonzero(numbers & (nth == number))
            counted = zeros((here.size, self.squares.shape[-1]))
            rows = counted.transpose()
            rows[self.centre.others] = others[:, None] * (self.rank.transpose().take(here, axis=1) <= k)
            rows[self.centre.arm] = central[k, here]
            yield here, k + 1, counted

    def _central(self) -> Floats:
        """How often the centre is in the first k. (J, n)"""
        return np.asarray(self.squares[:, self.centre.arm][self.order.transpose()].cumsum(axis=0))

    def _alike(self, factors: Floats) -> Singles:
        """In the order of each run, (J, n); one row where all claims have the same."""
        if (factors == factors[:1]).all():
            return np.asarray(factors[:1], dtype=np.float32)
        return np.take_along_axis(factors, self.order.transpose(), axis=0).astype(np.float32)


def _away(side: list[Singles], k: int, root: Singles, information: Singles) -> Singles:
    value, score, square = (each[:k] for each in side)
    away = value * root
    away -= score
    wide = square * information
    wide += np.float32(1.0)
    away /= np.sqrt(wide, out=wide)
    return away


@lru_cache(maxsize=1)
def _phi() -> Singles:
    from scipy.special import ndtr

    return np.asarray(ndtr(np.arange(-_LEAST * _STEPS, _LEAST * _STEPS + 1) / _STEPS), dtype=np.float32)
