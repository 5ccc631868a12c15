"""Arms tried on the same items: two of them are compared by their difference on each item that both were tried on.

What is assumed: items are independent of each other given the past; on one item everything may depend on everything.
So the differences of two arms are results of one more arm, which lie in twice the range, or are normal with a deviation
of their own, and "a exceeds b by m" is a bet on their mean lying above m (Propositions 25 to 27). Bets on one arm are
those of the model without items. Forms of three arms and more have no bet here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, FormEstimate, Past
from roundwise.noise.base import Noise, Steady, items_of
from roundwise.noise.bet_forms import pairs_among, placed, singles_among
from roundwise.noise.binary import Binary
from roundwise.noise.bounded import Bounded
from roundwise.noise.budget_bets import binomial_horizon_bet
from roundwise.noise.differences import (
    DifferencePartBets,
    ZeroOneDifferences,
    at_pairs,
    between,
    difference_horizon_bet,
    halves,
    of_one,
    spreads,
    steady_difference,
    zero_one_counts,
)
from roundwise.noise.parts import PartBets, PartsData
from roundwise.noise.unknown_variance import UnknownVariance
from roundwise.solvers.halfspaces import Halfspaces

ITEMS = "Arms are tried on the same items: results on one item may depend on each other, different items do not."


def check_forms(pieces: Halfspaces) -> None:
    """Raise an InputError unless every piece is about one arm, or compares two."""
    if not (pieces.pairs or (pairs_among(pieces) | singles_among(pieces)[0]).all()):
        raise InputError(
            "With items that several arms are tried on, a statement must be about one arm or the difference of two; "
            "for others try every arm on items of its own."
        )


def refused(noise: Noise) -> InputError:
    """Why a noise model knows of no items."""
    return InputError(
        f"The noise model '{noise.name}' has no bets on items that several arms are tried on: use 0/1 results, "
        "a range, or normal results of unknown deviation; or try every arm on items of its own."
    )


def with_items(noise: Noise) -> Noise:
    """The same model for arms that are tried on the same items; an InputError where there is none.

    >>> with_items(Bounded(1, 5))
    PairedBounded(low=1, high=5)
    """
    own = getattr(noise, "with_items", None)
    if own is not None:
        found: Noise = own()
        return found
    kinds: dict[type, Noise] = {Binary: PairedBinary(), UnknownVariance: PairedNormal()}
    if type(noise) in kinds:
        return kinds[type(noise)]
    if type(noise) is Bounded:
        return PairedBounded(noise.low, noise.high)
    if items_of(noise) is not None:
        return noise
    raise refused(noise)


class CrossedMixin(ABC):
    """What the models of shared items have in common: two arms by their differences, one as without items."""

    @property
    @abstractmethod
    def differences(self) -> Noise:
        """What is assumed of the difference of two arms on one item."""

    @property
    @abstractmethod
    def alone(self) -> Noise:
        """The same model for arms that have items of their own."""

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """The same for a budget."""
        alone, logs = of_one(pieces, need), zeros(need.shape)
        if (alone > 0).any():
            logs = super().horizon(known, batch, pieces, alone, rho, eta)  # type: ignore[misc]
        return logs + difference_horizon_bet(self.differences, known, batch, pieces, need, rho, eta)

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """The same with sizes that do not depend on the offset."""
        single = of_one(pieces, np.ones(pieces.offsets.shape)) > 0
        if not single.any():
            return steady_difference(self.differences, past, batch, pieces, units, drifts)
        own: Steady = super().steady(past, batch, pieces, units, drifts)  # type: ignore[misc]
        both = steady_difference(self.differences, past, batch, pieces, units, drifts)
        return lambda offsets: np.where(single, own(offsets), both(offsets))

    def tilts(self, seen: PartsData) -> PartBets:
        """Bets of one size on parts."""
        own: PartBets = super().tilts(seen)  # type: ignore[misc]
        return own if seen.pairs is None else DifferencePartBets(own, seen, self.differences)

    def spreads(self, past: Past, pieces: Halfspaces) -> Floats:
        """A guess at the variance of the difference of the two arms of each piece on one item. (P)"""
        return spreads(self.differences, past, pieces)

    def halves(self, past: Past, pieces: Halfspaces) -> Floats:
        """Half of that variance; of a piece about one arm the variance of a result. (P)"""
        return halves(self.differences, past, pieces, self.alone.variance(past))

    def between(self, known: Estimates, pieces: Halfspaces) -> FormEstimate:
        """What the past says of these pieces, from items of both arms where there are any."""
        return between(self.differences, known, pieces)


@dataclass(frozen=True)
class PairedBinary(CrossedMixin, Binary):
    """0/1 results on shared items: of two arms only the items count that one had right and the other wrong."""

    name: ClassVar[str] = "paired-binary"
    words: ClassVar[str] = f"{Binary.words} {ITEMS}"
    differences: ClassVar[Noise] = ZeroOneDifferences()
    alone: ClassVar[Noise] = Binary()

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Exact for two arms without a margin: of the items that tell them apart half are won (Proposition 26)."""
        exact = pairs_among(pieces) & (pieces.offsets == 0) & (batch.pairs is not None)
        logs = super().horizon(known, batch, pieces, np.where(exact, 0.0, need), rho, eta)
        if batch.pairs is None or not exact.any():
            return logs
        apart = at_pairs(batch.pairs, batch.counts.shape[-1], pieces)
        assert apart.scatter is not None
        losses, _, wins = zero_one_counts(apart.counts, apart.totals, apart.scatter)
        bet = partial(binomial_horizon_bet, eta=eta)
        return logs + placed(bet, np.where(exact, need, 0.0), wins, wins + losses, zeros(need.shape), need, rho)


@dataclass(frozen=True)
class PairedBounded(CrossedMixin, Bounded):
    """Results in [low, high] on shared items."""

    name: ClassVar[str] = "paired-bounded"

    @property
    def words(self) -> str:
        """The range, and what items are."""
        return f"{Bounded(self.low, self.high).words} {ITEMS}"

    @property
    def differences(self) -> Noise:
        """Values in a range twice as wide."""
        return Bounded(self.low - self.high, self.high - self.low)

    @property
    def alone(self) -> Noise:
        """Results in the same range."""
        return Bounded(self.low, self.high)


@dataclass(frozen=True)
class PairedNormal(CrossedMixin, UnknownVariance):
    """Normal results on shared items: differences of two arms are normal with an unknown deviation of their own."""

    name: ClassVar[str] = "paired-normal"
    words: ClassVar[str] = f"Differences of two arms on one item are normal, their deviation unknown. {ITEMS}"
    differences: ClassVar[Noise] = UnknownVariance()
    alone: ClassVar[Noise] = UnknownVariance()
