"""0/1 outcomes: likelihood ratios of binomials, which know how small the variance of a rare event is.

Propositions 6 (two rates) and 7 (a level); for other forms Lemma 1 with sigma 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np

from roundwise.arrays import Floats, sum_rows, total, zeros
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past, arm_of
from roundwise.noise.base import FixedSizeBet, Noise, Outcome, Scale
from roundwise.noise.bets import (
    EDGE,
    bet_where_needed,
    common_mean,
    is_pair,
    single_arms,
    split_mean,
    take_arm,
)
from roundwise.noise.bounded import Bounded, ZeroOneDifferences, zero_one_counts
from roundwise.noise.budget_bets import binomial_budget_bet, hypergeometric_budget_bet
from roundwise.noise.crossed import ITEMS, CrossedNoise, at_pairs
from roundwise.noise.parts import (
    GaussianPartBets,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    arm_sums,
    choose_factor,
    product_factor,
)
from roundwise.solvers.families import BinaryFamily, Family
from roundwise.solvers.halfspaces import Halfspaces


@dataclass(frozen=True)
class Binary(Noise):
    """Outcomes that are 0 or 1.

    >>> Binary().sigma
    0.5
    """

    name: ClassVar[str] = "binary"
    sigma: ClassVar[float] = 0.5  # half the range (Hoeffding's lemma)
    outcome: ClassVar[Outcome] = Outcome(
        0.0,
        1.0,
        whole=True,
        wrong="is neither 0 nor 1, the outcomes this study was created for.",
        remedy="{@range_or_sigma}: the error guarantee needs 0 or 1.",
    )
    words: ClassVar[str] = "Results are 0 or 1."
    flags: ClassVar[tuple[str, ...]] = ("--binary",)
    law: ClassVar[Literal["binary", "poisson"] | None] = "binary"
    family: ClassVar[Family] = BinaryFamily()

    def variance(self, past: Past) -> Floats:
        """p (1 - p) at the smoothed rates, averaged over all results."""
        rates = (past.totals + 0.5) / (past.counts + 1.0)
        weight = np.maximum(total(past.counts), 1.0)
        return np.maximum(total(past.counts * rates * (1.0 - rates)) / weight, 1e-12)

    def variances(self, past: Past) -> Floats:
        """p (1 - p) at the smoothed rates."""
        rates = (past.totals + 0.5) / (past.counts + 1.0)
        return rates * (1.0 - rates)

    def with_items(self) -> Noise:
        """Return the model for arms that are tried on the same items."""
        return PairedBinary()

    def scale(self, counts: Floats, totals: Floats) -> Scale:
        """Log odds."""
        yes, no = totals + 0.5, counts - totals + 0.5
        return Scale(np.log(yes / no), 1 / yes + 1 / no, lambda odds: np.asarray(1 / (1 + np.exp(-odds))), 2.0)

    def draw_part_totals(self, rng: np.random.Generator, counts: Floats, totals: Floats, partitions: int) -> Floats:
        """Draw how many ones fall in each part of a random order of the rows: hypergeometric."""
        shape = (counts.shape[1], partitions, *counts.shape[3:])
        ones = np.broadcast_to(totals, shape).astype(np.int64)
        rows = np.broadcast_to(sum_rows(counts), shape).astype(np.int64)
        found = np.empty((counts.shape[0], *shape))
        for part, size in enumerate(np.broadcast_to(counts, found.shape).astype(np.int64)):
            drawn = rng.hypergeometric(ones, rows - ones, size)
            found[part] = drawn
            ones, rows = ones - drawn, rows - size
        return found

    def part_bets(self, data: PartsData) -> PartBets:
        """Return bets of one size on parts."""
        return _BinaryPartBets(data)

    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """As values in [0, 1], of which only two occur."""
        return Bounded(0.0, 1.0).fixed_size_bet(past, _with_table(batch), pieces, units, drifts)

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Exact for two rates without a margin and for one rate; one drift for other forms (14b, 14c, 16)."""
        pair = is_pair(pieces) & (pieces.offsets == 0)
        single, arm, factor = single_arms(pieces)
        level = pieces.offsets / np.where(single, factor, 1.0)
        single = single & (level > 0) & (level < 1)
        logs: Floats = zeros(need.shape)
        if pair.any():
            logs = self.odds_budget_bet(batch, pieces, np.where(pair, need, 0.0), rho, eta)
        if single.any():
            won, count = take_arm(batch.totals, arm), take_arm(batch.counts, arm)
            won, tau = np.where(factor > 0, won, count - won), np.where(factor > 0, level, 1.0 - level)
            odds = np.log(np.where(single, tau, 0.5)) - np.log1p(-np.where(single, tau, 0.5))
            logs = logs + bet_where_needed(
                partial(binomial_budget_bet, eta=eta),
                np.where(single, need, 0.0),
                won,
                count,
                odds,
                need,
                rho,
            )
        rest = np.where(pair | single, 0.0, need)
        if (rest > 0).any():
            logs = logs + Bounded(0.0, 1.0).budget_bet(known, _with_table(batch), pieces, rest, rho, eta)
        return logs

    def odds_budget_bet(self, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float) -> Floats:
        """The log odds of the first arm exceed those of the second by the offset: exact (Proposition 14b). (P)"""
        pulls = np.broadcast_to(np.asarray(rho), need.shape)
        each = [arm_of(values, pieces, s) for s in (0, 1) for values in (batch.totals, batch.counts)]
        return bet_where_needed(partial(hypergeometric_budget_bet, eta=eta), need, *each, pieces.offsets, need, pulls)


def _with_table(batch: Batch) -> Batch:
    """The batch with how often each of 0 and 1 occurred."""
    counts = np.stack([batch.counts - batch.totals, batch.totals], axis=-1)
    return batch._replace(table=ValueTable(np.array([0.0, 1.0]), counts))


@dataclass(frozen=True)
class PairedBinary(CrossedNoise, Binary):
    """0/1 results on shared items: between two arms only the items count that one got right and the other wrong."""

    name: ClassVar[str] = "paired-binary"
    words: ClassVar[str] = f"{Binary.words} {ITEMS}"
    differences: ClassVar[Noise] = ZeroOneDifferences()

    def without_items(self) -> Noise:
        """Return the model for arms that have items of their own."""
        return Binary()

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Exact for two arms without a margin: each wins half of the items that tell them apart (Proposition 26)."""
        exact = is_pair(pieces) & (pieces.offsets == 0) & (batch.pairs is not None)
        logs = super().budget_bet(known, batch, pieces, np.where(exact, 0.0, need), rho, eta)
        if batch.pairs is None or not exact.any():
            return logs
        between = at_pairs(batch.pairs, batch.counts.shape[-1], pieces)
        assert between.scatter is not None
        losses, _, wins = zero_one_counts(between.counts, between.totals, between.scatter)
        bet = partial(binomial_budget_bet, eta=eta)
        return logs + bet_where_needed(
            bet, np.where(exact, need, 0.0), wins, wins + losses, zeros(need.shape), need, rho
        )


@dataclass(frozen=True)
class _BinaryPartBets(PartBets):
    """Likelihood ratios of binomials: of two rates (Proposition 6), of one and a level (Proposition 7)."""

    data: PartsData

    @cached_property
    def variances(self) -> Floats:
        rates = (self.data.totals_so_far + 0.5) / (self.data.so_far + 1.0)
        return rates * (1.0 - rates)

    def level_variances(self, level: float) -> Floats:
        return np.full((1, 1, 1), level * (1.0 - level)) if 0 < level < 1 else np.full((1, 1, 1), 0.25)

    def _pair(self, form: PartForm, leverage: Floats) -> LogFactor:
        (won_a, n_a, past_a, N_a), (won_b, n_b, past_b, N_b) = (arm_sums(self.data, each) for each in form.places[:2])
        m = common_mean(past_a, N_a, past_b, N_b, n_a, n_b)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = split_mean(m, form.offsets, up, down)
        unit = np.sqrt(leverage / (m * (1.0 - m)))
        furthest = EDGE * np.minimum(1.0 / (up * m_a), 1.0 / (down * (1.0 - m_b)))
        terms = (
            (won_a, up * (1.0 - m_a)),
            (n_a - won_a, -up * m_a),
            (won_b, -down * (1.0 - m_b)),
            (n_b - won_b, down * m_b),
        )
        return product_factor(unit, furthest, terms)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        if not 0 < level < 1:
            return GaussianPartBets(0.5).levels(arm, sign, distance, leverage, level)
        won, n = (each.reshape(-1).take(arm) for each in (self.data.totals, self.data.counts))
        above = sign > 0
        m = np.where(above, level, 1.0 - level)
        rest = 1.0 - m
        hits = np.where(above, won, n - won)
        unit = np.sqrt(level * (1.0 - level) * leverage)
        return product_factor(unit, EDGE * rest, ((hits, 1.0 / m), (n - hits, -1.0 / rest)))

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return choose_factor(
            form.pair & (np.abs(form.offsets) < 1),
            lambda: self._pair(form, leverage),
            lambda: GaussianPartBets(0.5).forms(form, value.copy(), leverage),
        )
