"""Differences of two arms on the items of both: bets on them (`noise.crossed`).

The difference is one more arm, with results in twice the range or normal with a deviation of its own; "a exceeds b by
m" is a bet on its mean lying above m, made by the model of the differences (Propositions 25 to 27).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, quiet, zeros
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, FormEstimate, Past, arm_of
from roundwise.noise.base import Noise, Steady
from roundwise.noise.bet_forms import of_arm, pairs_among, singles_among
from roundwise.noise.bounded import Bounded
from roundwise.noise.parts import (
    NONE,
    ArmPlaces,
    Index,
    PartBets,
    PartForm,
    PartsData,
    Tilt,
    ValueRows,
    either,
    part_bets_of,
)
from roundwise.solvers.halfspaces import Halfspaces

_DISCORDANT = np.array([-1.0, 0.0, 1.0])  # what 0/1 results of two arms on one item can differ by


def of_one(pieces: Halfspaces, need: Floats) -> Floats:
    """What is needed of pieces about one arm; nothing of others, which are bet on by items or not at all."""
    return zeros(need.shape) if pieces.pairs else np.where(singles_among(pieces)[0], need, 0.0)


def _place(arms: int, pieces: Halfspaces) -> Index:
    """Where the differences of the two arms of each piece are. (P)"""
    own = np.arange(arms)
    second = np.broadcast_to(own, pieces.arms.shape[:-1]) if pieces.each else pieces.arms[..., min(1, _last(pieces))]
    return np.asarray(pieces.arms[..., 0] * arms + second)


def _last(pieces: Halfspaces) -> int:
    return int(pieces.arms.shape[-1]) - 1


def at_pairs(batch: Batch, arms: int, pieces: Halfspaces) -> Batch:
    """The differences of the two arms of each piece, as results of an arm of its own. (P)"""
    where = _place(arms, pieces)
    table = batch.table
    if table is not None:
        columns = [of_arm(table.counts[..., v], where) for v in range(table.counts.shape[-1])]
        table = ValueTable(table.values, np.stack(columns, axis=-1))
    scatter = None if batch.scatter is None else of_arm(batch.scatter, where)
    return Batch(of_arm(batch.counts, where), of_arm(batch.totals, where), scatter, table)


def zero_one_counts(counts: Floats, totals: Floats, scatter: Floats) -> list[Floats]:
    """How often 0/1 results differed by -1, 0 and 1: their number, sum and sum of squares say it."""
    squares = np.rint(scatter + totals**2 / np.maximum(counts, 1.0))
    wins, losses = np.rint((squares + totals) / 2), np.rint((squares - totals) / 2)
    return [losses, counts - wins - losses, wins]


def _with_table(batch: Batch) -> Batch:
    """The batch of differences of 0/1 results with how often each was -1, 0 and 1, as far as its sums say it."""
    if batch.table is not None or batch.scatter is None:
        return batch
    counts = np.stack(zero_one_counts(batch.counts, batch.totals, batch.scatter), axis=-1)
    return batch._replace(table=ValueTable(np.broadcast_to(_DISCORDANT, (*counts.shape[:-2], 3)), counts))


@dataclass(frozen=True)
class ZeroOneDifferences(Bounded):
    """Differences of two 0/1 results: they are -1, 0 or 1, so that sums tell how often each came.

    Differences of graded results lie in the same range, and their sums do not: those are `Bounded(-1, 1)`.
    """

    low: float = field(default=-1.0, init=False)
    high: float = field(default=1.0, init=False)
    name: ClassVar[str] = "zero-one-differences"

    def tilts(self, seen: PartsData) -> PartBets:
        """Bets of one size on parts."""
        if seen.rows is None and seen.scatter is not None:
            counts = zero_one_counts(seen.counts, seen.totals, seen.scatter)
            seen = replace(seen, rows=ValueRows(_DISCORDANT, np.stack(counts)))
        return super().tilts(seen)

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """The same, with sizes that do not depend on the offset."""
        return super().steady(past, _with_table(batch), pieces, units, drifts)

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """The same, for a budget."""
        return super().horizon(known, _with_table(batch), pieces, need, rho, eta)


def _past_of(known: Estimates, pieces: Halfspaces, noise: Noise) -> Estimates:
    """What was known of the differences of each piece."""
    arms, past = known.past.counts.shape[-1], known.past.pairs
    if past is None:
        past = Past.none((*known.past.counts.shape[:-1], arms * arms))
    counts, totals, scatter, freedom = (of_arm(each, _place(arms, pieces)) for each in past[:4])
    own = Past(counts, totals, scatter, freedom, ())
    return Estimates(own, own.means, noise.variance(own))


def _alone(need: Floats, offsets: Floats) -> Halfspaces:
    """Each difference as a form of one arm."""
    arms = np.broadcast_to(np.arange(need.shape[-1])[:, None], (*need.shape, 1))
    return Halfspaces(arms, np.ones(arms.shape), np.broadcast_to(offsets, need.shape), False)


def difference_horizon_bet(
    noise: Noise, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
) -> Floats:
    """Bets on differences made for a budget."""
    pair = pairs_among(pieces)
    if batch.pairs is None or not pair.any():
        return zeros(need.shape)
    new = at_pairs(batch.pairs, batch.counts.shape[-1], pieces)
    alone, wanted = _alone(need, pieces.offsets), np.where(pair, need, 0.0)
    return noise.horizon(_past_of(known, pieces, noise), new, alone, wanted, rho, eta)


@quiet
def steady_difference(
    noise: Noise, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
) -> Steady:
    """Bets on differences whose sizes do not depend on the offset; none on other forms."""
    pair = pairs_among(pieces)
    if batch.pairs is None or not pair.any():
        return lambda offsets: np.zeros(np.broadcast_shapes(drifts.shape, offsets.shape))
    known = _past_of(Estimates(past, past.means, noise.variance(past)), pieces, noise)
    new = at_pairs(batch.pairs, batch.counts.shape[-1], pieces)
    shared = np.minimum(arm_of(units, pieces, 0), arm_of(units, pieces, 1))
    bet = noise.steady(known.past, new, _alone(known.past.counts, pieces.offsets), shared, drifts)
    return lambda offsets: np.where(pair, bet(offsets), 0.0)


@quiet
def spreads(noise: Noise, past: Past, pieces: Halfspaces) -> Floats:
    """A guess at the variance of the difference of the two arms of each piece on one item: as far as it was seen. (P)

    What all pairs have in common counts as one more difference.
    """
    own = _past_of(Estimates(past, past.means, np.ones(past.counts.shape[:-1])), pieces, noise).past
    return (own.scatter + noise.variance(own)[..., None]) / (own.freedom + 1.0)


def halves(noise: Noise, past: Past, pieces: Halfspaces, variance: Floats) -> Floats:
    """The variance that makes arms with items of their own as good for each piece: half that of the difference. (P)

    Of a piece that is no difference of two arms it is the variance of a result.
    """
    return np.where(pairs_among(pieces), spreads(noise, past, pieces) / 2, variance[..., None])


@quiet
def between(noise: Noise, known: Estimates, pieces: Halfspaces) -> FormEstimate:
    """Of pairs with items in common their differences; of others what the arms' own results say."""
    usual = known.forecast(pieces)
    pair = pairs_among(pieces)
    if known.past.pairs is None or not pair.any():
        return usual
    own = _past_of(known, pieces, noise).past
    shared = pair & (own.counts > 0)
    leverage = spreads(noise, known.past, pieces) / own.counts / known.variance[..., None]
    return FormEstimate(
        pieces,
        np.where(shared, own.means - pieces.offsets, usual.value),
        np.where(shared, leverage, usual.leverage),
    )


@dataclass(frozen=True)
class DifferencePartBets:
    """Two arms by their differences, as a level of one more arm; one arm as without items."""

    of_arms: PartBets
    seen: PartsData
    noise: Noise

    @property
    def variances(self) -> Floats:
        """Of arms."""
        return self.of_arms.variances

    def level_variances(self, level: float) -> Floats:
        """Of arms."""
        return self.of_arms.level_variances(level)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """Of arms."""
        return self.of_arms.levels(arm, sign, distance, leverage, level)

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """On the differences of the two arms in each part."""
        at = self._place(*places())
        sums, rows = self._pairs.totals.reshape(-1).take(at), self._pairs.counts.reshape(-1).take(at)
        per_row = 1.0 / np.maximum(rows, NONE)
        return self._of_pairs.levels(at, np.ones(at.shape), sums * per_row - margin, per_row, margin)  # type: ignore[arg-type]

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """Two arms by their differences, one as without items."""
        return either(
            form.pair,
            lambda: self.pairs(lambda: (form.places[0], form.places[1]), value, leverage, form.offsets),
            lambda: self.of_arms.forms(form, value, leverage),
        )

    @quiet
    def standing(self, first: Index, second: Index, margin: Floats | float) -> tuple[Floats, Floats, Floats]:
        """Of the difference of two arms before each part: z, and 1/items; and 1/items in the part. (P, c)"""
        at = self._place(first, second)
        before = 1.0 / np.maximum(self._pairs.so_far.reshape(-1).take(at), 1e-9)
        mean = self._pairs.totals_so_far.reshape(-1).take(at) * before - margin
        spread = self._spread.reshape(-1).take(at)
        per_row = 1.0 / np.maximum(self._pairs.counts.reshape(-1).take(at), NONE)
        return mean / np.sqrt(spread * before), before, per_row

    def _place(self, first: Index, second: Index) -> Index:
        """From places in (P, K, n) to those of the pair in (P, K^2, n)."""
        _, arms, n = self.seen.counts.shape
        part, rest = np.divmod(first, arms * n)
        a, column = np.divmod(rest, n)
        b = second % (arms * n) // n
        return np.asarray(((part * arms + a) * arms + b) * n + column)

    @cached_property
    def _pairs(self) -> PartsData:
        found = self.seen.pairs
        assert found is not None
        return found

    @cached_property
    def _of_pairs(self) -> PartBets:
        return part_bets_of(self.noise, self._pairs)

    @cached_property
    def _spread(self) -> Floats:
        return np.broadcast_to(self._of_pairs.level_variances(0.0), self._pairs.counts.shape)
