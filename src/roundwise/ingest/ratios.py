"""Ratios of two sums over ids, such as revenue per session: numerator and denominator of an id become one result.

An id of arm j with numerator x and denominator y counts as r_j + c_j (x - r_j y), where r_j is the ratio of the arm and
1/c_j its mean denominator, both from earlier rounds. The mean of that is the true ratio of the arm, up to the product
of two errors that vanish as rounds add up (docs/why-the-guarantee-holds.md, Proposition 35). One ratio of all arms in
place of r_j would not do: where arms differ, the first error alone would remain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.ingest.columns import Index


class Linearization(NamedTuple):
    """How numerators and denominators become results."""

    ratios: Floats  # r_j (K)
    scales: Floats  # c_j (K)
    from_own_rows: bool = False  # whether some of it is taken from the rows it is applied to, which are then not bet on

    def linearize(self, arms: Index, numerators: Floats, denominators: Floats) -> Floats:
        """The results of ids."""
        ratios = self.ratios[arms]
        return ratios + self.scales[arms] * (numerators - ratios * denominators)

    def linearization(self, told: RatioSums) -> Linearization:
        """The same, whatever is told."""
        return self


class RatioSums(NamedTuple):
    """The ids of each arm, and the sums of their numerators and denominators. (K) each"""

    counts: Floats
    numerators: Floats
    denominators: Floats

    @classmethod
    def of(cls, arms: Index, numerators: Floats, denominators: Floats, size: int) -> RatioSums:
        """The sums of ids."""
        numbers = np.ones(len(arms)), numerators, denominators
        return cls(*(np.bincount(arms, each, size).astype(np.float64) for each in numbers))

    @quiet
    def linearization(self, told: RatioSums) -> Linearization:
        """How ids that are `told` after these become results; not finite where neither have denominators.

        An arm that has no denominators yet is read by those that are told, and without any as all arms together.
        """
        own = (self.denominators == 0) & (told.counts > 0)
        counts, tops, totals = (np.where(own, new, old) for old, new in zip(self, told, strict=True))
        some = totals > 0
        counts, tops, totals = (np.where(some, each, each.sum()) for each in (counts, tops, totals))
        return Linearization(tops / totals, counts / totals, bool(own.any()))


class ArmRatio(NamedTuple):
    """The ids of one arm so far, and the sums of their numerators and denominators."""

    ids: float = 0.0
    numerator: float = 0.0
    denominator: float = 0.0


Ratios = Mapping[str, ArmRatio]  # by the name of the arm


def add_ratios(known: Ratios, names: Sequence[str], sums: RatioSums) -> Ratios:
    """Add the sums of a file, told for the arms `names`."""
    every = np.array(ratio_sums(known, names)) + np.array(sums)
    return {**known, **{name: ArmRatio(*each) for name, each in zip(names, every.T.tolist(), strict=True)}}


def ratio_sums(known: Ratios, names: Sequence[str]) -> RatioSums:
    """The sums of these arms."""
    return RatioSums(*np.array([known.get(name, ArmRatio()) for name in names], dtype=np.float64).T)
