"""Paired designs: arms tried on the same items, compared by their differences on common items.

Items are independent given the past; results on one item may depend on each other in any way. So the differences of two
arms are treated as results of one more arm, with twice the range or a normal deviation of its own, and "a exceeds b by
m" is a bet on their mean lying above m (Propositions 25 to 27). Bets on a single arm are those of the model without
items. There are no bets on forms of three or more arms.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, FormEstimate, Past, arm_of
from roundwise.noise.base import FixedSizeBet, Noise, RowCheck
from roundwise.noise.bets import (
    NO_ROWS,
    Index,
    LogFactor,
    PairedStatistics,
    PartBets,
    PartForm,
    PartsData,
    choose_factor,
    is_pair,
    single_arms,
    take_arm,
)
from roundwise.noise.payoffs import LookAim
from roundwise.solvers.halfspaces import Halfspaces

ITEMS = "Arms are tried on the same items: results on one item may depend on each other, different items do not."


def check_forms(pieces: Halfspaces) -> None:
    """Raise an InputError unless every piece is about one arm, or compares two."""
    if not (pieces.pairs or (is_pair(pieces) | single_arms(pieces)[0]).all()):
        raise InputError(
            "With items that several arms are tried on, a statement must be about one arm or the difference of two; "
            "for others try every arm on separate items."
        )


class PairedNoise(Noise):
    """Arms tried on the same items: bets on two arms use their differences, bets on one arm are those without items.

    A model derives from this class, then from the model without items.
    """

    shares_items: ClassVar[bool] = True
    merges_arms: ClassVar[bool] = False
    row_checks: ClassVar[tuple[RowCheck, ...]] = ()  # the model is about differences; rows may depend on their items

    @property
    @abstractmethod
    def differences(self) -> Noise:
        """The model of the difference of two arms on one item."""

    @abstractmethod
    def without_items(self) -> Noise: ...

    def with_items(self) -> Noise:
        return self

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        pair, alone, logs = is_pair(pieces), np.where(_about_one_arm(pieces), need, 0.0), zeros(need.shape)
        if (alone > 0).any():
            logs = super().budget_bet(known, batch, pieces, alone, rho, eta)
        if batch.pairs is None or not pair.any():
            return logs
        new, past = at_pairs(batch.pairs, batch.counts.shape[-1], pieces), self._past_differences(known.past, pieces)
        one, wanted = _as_single_arms(need, pieces.offsets), np.where(pair, need, 0.0)
        return logs + self.differences.budget_bet(past, new, one, wanted, rho, eta)

    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        """For two arms by their differences, whatever the dependence between results on one item."""
        if not pieces.pairs:
            return super().pay_look(known, batch, pieces, level, aim)
        if batch.pairs is None:
            return level
        new, past = at_pairs(batch.pairs, batch.counts.shape[-1], pieces), self._past_differences(known.past, pieces)
        return self.differences.pay_look(past, new, _as_single_arms(level, pieces.offsets), level, aim)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        pair, single = is_pair(pieces), _about_one_arm(pieces)

        def none(offsets: Floats) -> Floats:
            return np.zeros(np.broadcast_shapes(drifts.shape, offsets.shape))

        own = super().fixed_size_bet(past, batch, pieces, units, drifts) if single.any() else none
        between: FixedSizeBet = none
        if batch.pairs is not None and pair.any():
            known = self._past_differences(past, pieces).past
            new = at_pairs(batch.pairs, batch.counts.shape[-1], pieces)
            shared = np.minimum(arm_of(units, pieces, 0), arm_of(units, pieces, 1))
            one = _as_single_arms(known.counts, pieces.offsets)
            between = self.differences.fixed_size_bet(known, new, one, shared, drifts)
        return lambda offsets: np.where(single, own(offsets), np.where(pair, between(offsets), 0.0))

    def part_bets(self, data: PartsData) -> PartBets:
        own = super().part_bets(data)
        if data.pairs is None:
            return own
        return _PairedPartBets(own, self.differences.part_bets(data.pairs), data, data.pairs)

    @quiet
    def difference_variances(self, past: Past, pieces: Halfspaces) -> Floats:
        """The variance of all pairs pooled is weighted as one more difference."""
        own = self._past_differences(past, pieces).past
        return (own.scatter + self.differences.variance(own)[..., None]) / (own.freedom + 1.0)

    def variance_per_arm(self, past: Past, pieces: Halfspaces) -> Floats:
        """Return half the variance of the difference; for a piece with one arm, the variance of a result. (P)"""
        alone = self.without_items().variance(past)[..., None]
        return np.where(is_pair(pieces), self.difference_variances(past, pieces) / 2, alone)

    @quiet
    def estimate_forms(self, known: Estimates, pieces: Halfspaces) -> FormEstimate:
        """Estimate pairs with common items from their differences, other forms from the results of each arm."""
        usual, pair = known.forecast(pieces), is_pair(pieces)
        if known.past.pairs is None or not pair.any():
            return usual
        own = self._past_differences(known.past, pieces).past
        shared = pair & (own.counts > 0)
        leverage = self.difference_variances(known.past, pieces) / own.counts / known.variance[..., None]
        value = np.where(shared, own.means - pieces.offsets, usual.value)
        return FormEstimate(pieces, value, np.where(shared, leverage, usual.leverage))

    def _past_differences(self, past: Past, pieces: Halfspaces) -> Estimates:
        """The past of the differences of each piece, one arm per piece. (P)"""
        where = _pair_places(past.counts.shape[-1], pieces)
        own = past.of_pairs.map_sums(lambda each: take_arm(each, where))
        return Estimates(own, own.means, self.differences.variance(own))


def _about_one_arm(pieces: Halfspaces) -> Bools:
    return np.zeros(pieces.offsets.shape, dtype=np.bool_) if pieces.pairs else single_arms(pieces)[0]


def _pair_places(arms: int, pieces: Halfspaces) -> Index:
    """The index of each piece's pair of arms among all pairs. (P)"""
    return np.asarray(pieces.arms[..., 0] * arms + pieces.arms[..., min(1, pieces.arms.shape[-1] - 1)])


def at_pairs(batch: Batch, arms: int, pieces: Halfspaces) -> Batch:
    """The differences of the two arms of each piece, as results of one arm per piece. (P)"""
    where, table = _pair_places(arms, pieces), batch.table
    if table is not None:
        columns = [take_arm(table.counts[..., v], where) for v in range(table.counts.shape[-1])]
        table = ValueTable(table.values, np.stack(columns, axis=-1))
    scatter = None if batch.scatter is None else take_arm(batch.scatter, where)
    return Batch(take_arm(batch.counts, where), take_arm(batch.totals, where), scatter, table)


def _as_single_arms(need: Floats, offsets: Floats) -> Halfspaces:
    """Each difference as a form of a single arm."""
    arms = np.broadcast_to(np.arange(need.shape[-1])[:, None], (*need.shape, 1))
    return Halfspaces(arms, np.ones(arms.shape), np.broadcast_to(offsets, need.shape), False)


@dataclass(frozen=True)
class _PairedPartBets(PartBets):
    """Bets on two arms as bets on the level of their difference; bets on one arm as without items."""

    of_arms: PartBets
    of_pairs: PartBets
    data: PartsData
    pairs: PartsData

    @property
    def variances(self) -> Floats:
        return self.of_arms.variances

    def level_variances(self, level: float) -> Floats:
        return self.of_arms.level_variances(level)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        return self.of_arms.levels(arm, sign, distance, leverage, level)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return choose_factor(form.pair, lambda: self._pair(form), lambda: self.of_arms.forms(form, value, leverage))

    def _pair(self, form: PartForm) -> LogFactor:
        at, margin = self._place(form), form.offsets
        sums, rows = self.pairs.totals.reshape(-1).take(at), self.pairs.counts.reshape(-1).take(at)
        per_row = 1.0 / np.maximum(rows, NO_ROWS)
        return self.of_pairs.levels(at, np.ones(at.shape), sums * per_row - margin, per_row, margin)  # type: ignore[arg-type]

    @quiet
    def paired_statistics(self, form: PartForm) -> PairedStatistics | None:
        if len(form.places) < 2:
            return None
        at = self._place(form)
        before = 1.0 / np.maximum(self.pairs.so_far.reshape(-1).take(at), 1e-9)
        mean = self.pairs.totals_so_far.reshape(-1).take(at) * before - form.offsets
        per_row = 1.0 / np.maximum(self.pairs.counts.reshape(-1).take(at), NO_ROWS)
        variance = self._spread.take(at)
        return PairedStatistics(mean / np.sqrt(variance * before), before, per_row, variance)

    def _place(self, form: PartForm) -> Index:
        """From places in (P, K, n) to those of the pairs in (P, K^2, n)."""
        first, second = form.places[:2]
        _, arms, n = self.data.counts.shape
        part, rest = np.divmod(first, arms * n)
        a, column = np.divmod(rest, n)
        b = second % (arms * n) // n
        return np.asarray(((part * arms + a) * arms + b) * n + column)

    @cached_property
    def _spread(self) -> Floats:
        return np.broadcast_to(self.of_pairs.level_variances(0.0), self.pairs.counts.shape).reshape(-1)
