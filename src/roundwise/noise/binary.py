"""0/1 outcomes: likelihood ratios of binomials, which know how small the variance of a rare event is.

Propositions 6 (two rates) and 7 (a level); for other forms Lemma 1 with sigma 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, sum_rows, total, zeros
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past, arm_of
from roundwise.noise.base import Needs, Outcome, Scale, Steady
from roundwise.noise.bet_forms import (
    centre,
    of_arm,
    pairs_among,
    parted,
    placed,
    singles_among,
)
from roundwise.noise.bounded import Bounded
from roundwise.noise.budget_bets import binomial_horizon_bet, hypergeometric_horizon_bet
from roundwise.noise.mixture import EDGE
from roundwise.noise.parts import (
    ArmPlaces,
    GaussianPartBets,
    Index,
    PartBets,
    PartForm,
    PartsData,
    Tilt,
    either,
    product_of,
    sums_at,
)
from roundwise.questions.base import Halfspaces
from roundwise.solvers.families import BinaryFamily, Family


@dataclass(frozen=True)
class Binary:
    """Outcomes that are 0 or 1.

    >>> Binary().sigma
    0.5
    """

    name: ClassVar[str] = "binary"
    needs: ClassVar[Needs] = "sums"
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
    law: ClassVar[str] = "binary"
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

    def scale(self, counts: Floats, totals: Floats) -> Scale:
        """Log odds."""
        yes, no = totals + 0.5, counts - totals + 0.5
        return Scale(np.log(yes / no), 1 / yes + 1 / no, lambda odds: np.asarray(1 / (1 + np.exp(-odds))), 2.0)

    def dealt(self, rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
        """Totals of parts given the total of all rows: how many ones fall in each is hypergeometric."""
        return hypergeometric(rng, counts, totals, dealings)

    def tilts(self, seen: PartsData) -> PartBets:
        """Bets of one size on parts."""
        return BinaryPartBets(seen)

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """As values in [0, 1], of which only two occur."""
        table = ValueTable(np.array([0.0, 1.0]), np.stack([batch.counts - batch.totals, batch.totals], axis=-1))
        return Bounded(0.0, 1.0).steady(past, batch._replace(table=table), pieces, units, drifts)

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Exact for two rates without a margin and for one rate; one drift for other forms (14b, 14c, 16)."""
        pair = pairs_among(pieces) & (pieces.offsets == 0)
        single, arm, factor = singles_among(pieces)
        level = pieces.offsets / np.where(single, factor, 1.0)
        single = single & (level > 0) & (level < 1)
        logs: Floats = zeros(need.shape)
        if pair.any():
            logs = self.odds_horizon(batch, pieces, np.where(pair, need, 0.0), rho, eta)
        if single.any():
            won, count = of_arm(batch.totals, arm), of_arm(batch.counts, arm)
            won, tau = np.where(factor > 0, won, count - won), np.where(factor > 0, level, 1.0 - level)
            odds = np.log(np.where(single, tau, 0.5)) - np.log1p(-np.where(single, tau, 0.5))
            logs = logs + placed(
                partial(binomial_horizon_bet, eta=eta),
                np.where(single, need, 0.0),
                won,
                count,
                odds,
                need,
                rho,
            )
        rest = np.where(pair | single, 0.0, need)
        if (rest > 0).any():
            table = ValueTable(np.array([0.0, 1.0]), np.stack([batch.counts - batch.totals, batch.totals], axis=-1))
            logs = logs + Bounded(0.0, 1.0).horizon(known, batch._replace(table=table), pieces, rest, rho, eta)
        return logs

    def odds_horizon(self, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float) -> Floats:
        """The log odds of the first arm exceed those of the second by the offset: exact (Proposition 14b). (P)"""
        pulls = np.broadcast_to(np.asarray(rho), need.shape)
        each = [arm_of(values, pieces, s) for s in (0, 1) for values in (batch.totals, batch.counts)]
        return placed(partial(hypergeometric_horizon_bet, eta=eta), need, *each, pieces.offsets, need, pulls)


@dataclass(frozen=True)
class BinaryPartBets:
    """Likelihood ratios of binomials: of two rates (Proposition 6), of one and a level (Proposition 7)."""

    seen: PartsData

    @cached_property
    def variances(self) -> Floats:
        """p (1 - p) at the smoothed rates."""
        rates = (self.seen.totals_so_far + 0.5) / (self.seen.so_far + 1.0)
        return rates * (1.0 - rates)

    def level_variances(self, level: float) -> Floats:
        """That of the level."""
        return np.full((1, 1, 1), level * (1.0 - level)) if 0 < level < 1 else np.full((1, 1, 1), 0.25)

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """Two rates, a margin apart."""
        (won_a, n_a, past_a, N_a), (won_b, n_b, past_b, N_b) = (sums_at(self.seen, each) for each in places())
        m = centre(past_a, N_a, past_b, N_b, n_a, n_b)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = parted(m, np.asarray(margin, dtype=np.float64), up, down)
        unit = np.sqrt(leverage / (m * (1.0 - m)))
        furthest = EDGE * np.minimum(1.0 / (up * m_a), 1.0 / (down * (1.0 - m_b)))
        terms = (
            (won_a, up * (1.0 - m_a)),
            (n_a - won_a, -up * m_a),
            (won_b, -down * (1.0 - m_b)),
            (n_b - won_b, down * m_b),
        )
        return product_of(unit, furthest, terms)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """A rate and a level; at 0 or 1, where there is no such bet, that of sub-Gaussian rewards."""
        if not 0 < level < 1:
            return GaussianPartBets(0.5).levels(arm, sign, distance, leverage, level)
        won, n = (each.reshape(-1).take(arm) for each in (self.seen.totals, self.seen.counts))
        above = sign > 0
        m = np.where(above, level, 1.0 - level)
        rest = 1.0 - m
        hits = np.where(above, won, n - won)
        unit = np.sqrt(level * (1.0 - level) * leverage)
        return product_of(unit, EDGE * rest, ((hits, 1.0 / m), (n - hits, -1.0 / rest)))

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """Two rates, an offset apart; for another form the sub-Gaussian bet."""
        return either(
            form.pair & (np.abs(form.offsets) < 1),
            lambda: self.pairs(lambda: (form.places[0], form.places[1]), value, leverage, form.offsets),
            lambda: GaussianPartBets(0.5).forms(form, value.copy(), leverage),
        )


def hypergeometric(rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
    """The same for 0/1 results: how many ones are in each part of a random order of the rows."""
    shape = (counts.shape[1], dealings, *counts.shape[3:])
    ones, rows = (
        np.broadcast_to(totals, shape).astype(np.int64),
        np.broadcast_to(sum_rows(counts), shape).astype(np.int64),
    )
    found = np.empty((counts.shape[0], *shape))
    for part, size in enumerate(np.broadcast_to(counts, found.shape).astype(np.int64)):
        drawn = rng.hypergeometric(ones, rows - ones, size)
        found[part] = drawn
        ones, rows = ones - drawn, rows - size
    return found
