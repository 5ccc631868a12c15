"""Columns that are known for the whole list before its order is drawn, as control variates (Proposition 54).

A column has the results of an arm on every item, or a score of each item. Its mean over the items left is known
exactly, so y - beta (c - that mean) has the mean of y for any beta, and a smaller variance if c is correlated with y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.rules.finite.bounds import Stakes

PRIOR = 10.0  # prior weight, in items, that shrinks the slope towards half of the column's share in the value


class Control(NamedTuple):
    """The known columns before a place, and their values at it; centred."""

    now: Floats  # (Q)
    left: Floats  # (Q), mean over the items left, this one included
    past: Floats  # (Q), sum over earlier items
    cross: Floats  # (K, Q), sums over earlier items of products with the results of each arm


class KnownPart(NamedTuple):
    """The known part of a value: y = share of a column + rest, where the rest is at least `rest`. (J)"""

    column: NDArray[np.intp]  # -1 if there is none
    share: Floats
    rest: Floats


@dataclass(frozen=True)
class KnownColumns:
    """Known columns in the order of the list, in [0, 1], higher is better.

    Args:
        data: The columns of the known arms and a score of the items, float64 (N, Q), in the order of the list.
        arms: The known arms, in the order of the columns; the score is the last.
    """

    data: bytes
    arms: tuple[int, ...]

    @classmethod
    def of(cls, columns: Floats, arms: tuple[int, ...]) -> KnownColumns:
        """Build from the columns, (N, Q)."""
        return cls(np.ascontiguousarray(columns, dtype=np.float64).tobytes(), arms)

    @cached_property
    def columns(self) -> Floats:
        """(N, Q)"""
        return np.frombuffer(self.data).reshape(-1, len(self.arms) + 1)

    @cached_property
    def means(self) -> Floats:
        """(Q)"""
        return np.asarray(self.columns.mean(axis=0))

    @cached_property
    def _centred(self) -> Floats:
        return self.columns - self.means

    @cached_property
    def _past(self) -> Floats:
        return np.asarray(np.cumsum(self._centred, axis=0) - self._centred)

    def column_of(self, arms: int) -> NDArray[np.intp]:
        """The column of each arm; -1 for arms that are not known. (K)"""
        found = np.full(arms, -1)
        found[list(self.arms)] = np.arange(len(self.arms))
        return found

    def fill(self, told: Floats, flips: bool) -> Floats:
        """Results in [0, 1], including those of known arms; `flips` if lower is better. (N, K)"""
        told[..., list(self.arms)] = 1.0 - self.columns[:, :-1] if flips else self.columns[:, :-1]
        return told

    def cross_sums(self, x: Floats) -> Floats:
        """`Control.cross` after these results. (n, K)->(K, Q)"""
        return np.swapaxes(x, -1, -2) @ self._centred[: x.shape[-2]]

    def at(self, place: int, cross: Floats) -> Control:
        """The control variate before a place."""
        past = self._past[place]
        return Control(self._centred[place], -past / (len(self.columns) - place), past, cross)

    def adjust(self, stakes: Stakes, place: Floats, control: Control, cross: Floats, parts: KnownPart) -> Stakes:
        """Bets on the same means, each with its control variate. (J)

        Args:
            stakes: The bets without control variates.
            place: n, the number of earlier items.
            control: The known columns before this place.
            cross: Sums over earlier items of the products of y and its column. (J)
            parts: The known part of y.
        """
        column, share, rest = parts
        n, some = np.maximum(place, 1.0), column >= 0
        variance = np.where(some, self._centred.var(axis=0)[column], 0.0)
        slope = cross - stakes.total / n * control.past[column]
        guess = slope + PRIOR * variance * share / 2
        beta = np.where(variance > 0, guess / np.maximum((place + PRIOR) * variance, 1e-12), 0.0)
        ends = [(share - beta) * each[column] for each in (self._centred.min(axis=0), self._centred.max(axis=0))]
        low = rest + share * self.means[column] + np.minimum(*ends) + beta * control.left[column]
        explained = beta * (2.0 * slope - beta * place * variance) / (place + 2.0)
        spread = np.maximum(stakes.variance - explained, 0.5 / (place + 2.0))
        return stakes._replace(
            y=stakes.y - beta * (control.now - control.left)[column],
            low=np.where(some, low, stakes.low),
            variance=spread,
        )


def lead_parts(known: KnownColumns, arms: int, ahead: NDArray[np.intp], behind: NDArray[np.intp]) -> KnownPart:
    """The known part of the lead of one arm over another. (J)"""
    of_arms = known.column_of(arms)
    first, second = of_arms[ahead], of_arms[behind]
    share = np.where(first >= 0, 1.0, np.where(second >= 0, -1.0, 0.0))
    return KnownPart(np.where(first >= 0, first, second), share, np.where(share < 0, 0.0, -1.0))
