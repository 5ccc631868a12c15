"""0/1 outcomes: likelihood ratios of binomials, which know how small the variance of a rare event is.

Propositions 6 (two rates) and 7 (a level); for other forms Lemma 1 with sigma 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats, total, zeros
from roundwise.dealing import hypergeometric
from roundwise.estimates import Forecast, Known, Past, arm_of
from roundwise.questions.base import Halfspaces
from roundwise.questions.families import BinaryFamily, Family
from roundwise.state import Batch, Table

from .base import Needs, Outcome, Scale, Steady
from .bounded import Bounded
from .forms import (
    MOST,
    centre,
    counted,
    of_arm,
    pair_sums,
    pairs_among,
    parted,
    placed,
    singles_among,
    totalled,
)
from .gaussian import sub_gaussian_form, sub_gaussian_level
from .horizon import binomial_horizon_bet, hypergeometric_horizon_bet
from .mixture import DRIFTS, EDGE, clipped_z, flat, log_mixture
from .parts import Seen, Tilts
from .tilts import BinaryTilts


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
        remedy="--range or --sigma: the error guarantee needs 0 or 1.",
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

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """Two rates, an offset apart; for another form the sub-Gaussian bet."""
        pieces = forecast.pieces
        pair = pairs_among(pieces) & (np.abs(pieces.offsets) < 1)
        logs = zeros(need.shape)
        if not pair.all():
            logs = sub_gaussian_form(self.sigma, batch, forecast, np.where(pair, 0.0, need))
        if pair.any():
            sums = pair_sums(known.past, batch, pieces)
            logs = logs + placed(bernoulli_difference_bet, np.where(pair, need, 0.0), *sums, pieces.offsets)
        return logs

    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """A binomial against the level; at 0 or 1, where it has none, the sub-Gaussian bet."""
        sums = (known.past.totals, known.past.counts, batch.totals, batch.counts)
        logs = placed(bernoulli_level_bet, need, *sums, np.asarray(level), np.asarray(above))
        edge = np.where((np.asarray(level) > 0) & (np.asarray(level) < 1), 0.0, need)
        return logs + sub_gaussian_level(self.sigma, known, batch, level, above, edge) if edge.any() else logs

    def scale(self, counts: Floats, totals: Floats) -> Scale:
        """Log odds."""
        yes, no = totals + 0.5, counts - totals + 0.5
        return Scale(np.log(yes / no), 1 / yes + 1 / no, lambda odds: np.asarray(1 / (1 + np.exp(-odds))), 2.0)

    def dealt(self, rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
        """Totals of parts given the total of all rows: how many ones fall in each is hypergeometric."""
        return hypergeometric(rng, counts, totals, dealings)

    def tilts(self, seen: Seen) -> Tilts:
        """Bets of one size on parts."""
        return BinaryTilts(seen)

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """As values in [0, 1], of which only two occur."""
        table = Table(np.array([0.0, 1.0]), np.stack([batch.counts - batch.totals, batch.totals], axis=-1))
        return Bounded(0.0, 1.0).steady(past, batch._replace(table=table), pieces, units, drifts)

    def horizon(self, known: Known, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float) -> Floats:
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
            table = Table(np.array([0.0, 1.0]), np.stack([batch.counts - batch.totals, batch.totals], axis=-1))
            logs = logs + Bounded(0.0, 1.0).horizon(known, batch._replace(table=table), pieces, rest, rho, eta)
        return logs

    def odds_horizon(self, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float) -> Floats:
        """The log odds of the first arm exceed those of the second by the offset: exact (Proposition 14b). (P)"""
        pulls = np.broadcast_to(np.asarray(rho), need.shape)
        each = [arm_of(values, pieces, s) for s in (0, 1) for values in (batch.totals, batch.counts)]
        return placed(partial(hypergeometric_horizon_bet, eta=eta), need, *each, pieces.offsets, need, pulls)


@np.errstate(all="ignore")
def bernoulli_difference_bet(
    past_successes_a: ArrayLike,
    past_counts_a: ArrayLike,
    past_successes_b: ArrayLike,
    past_counts_b: ArrayLike,
    successes_a: ArrayLike,
    counts_a: ArrayLike,
    successes_b: ArrayLike,
    counts_b: ArrayLike,
    margin: ArrayLike = 0.0,
) -> Floats:
    """The log e-value of one batch of 0/1 outcomes against "the rate of a is at most that of b plus a margin".

    Proposition 6. 0.0 where either arm has no past or no new rows. `(),...->()`
    """
    shape, (past_a, N_a, past_b, N_b, won_a, n_a, won_b, n_b, apart) = flat(
        past_successes_a, past_counts_a, past_successes_b, past_counts_b, successes_a, counts_a, successes_b, counts_b,
        margin,
    )  # fmt: skip
    good = totalled(counted(N_a, N_b, n_a, n_b), past_a, past_b, won_a, won_b)
    good &= (past_a <= N_a) & (past_b <= N_b) & (won_a <= n_a) & (won_b <= n_b) & (np.abs(apart) < 1)
    N_a, N_b, n_a, n_b = (np.where(good, n, 1.0) for n in (N_a, N_b, n_a, n_b))
    past_a, past_b, won_a, won_b = (np.where(good, s, 0.0) for s in (past_a, past_b, won_a, won_b))
    apart = np.where(good, apart, 0.0)
    m = centre(past_a, N_a, past_b, N_b, n_a, n_b)
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m_a, m_b = parted(m, apart, up, down)
    noise = m * (1.0 - m)
    variance = noise * (1.0 / N_a + 1.0 / N_b)
    z = clipped_z(past_a / N_a - past_b / N_b - apart, variance)
    # the factors are 1 + up t (x - m_a) and 1 - down t (x - m_b): without a margin the likelihood ratio of the rates
    # m + up theta and m - down theta, t = theta / noise
    furthest = EDGE * np.minimum(1.0 / (up * m_a), 1.0 / (down * (1.0 - m_b)))
    factors = np.empty((DRIFTS.size, z.size))
    for k, u in enumerate(DRIFTS):
        t = np.minimum(u * np.sqrt(variance) / noise, furthest)
        factors[k] = (
            won_a * np.log1p(up * t * (1.0 - m_a))
            + (n_a - won_a) * np.log1p(-up * t * m_a)
            + won_b * np.log1p(-down * t * (1.0 - m_b))
            + (n_b - won_b) * np.log1p(down * t * m_b)
        )
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def bernoulli_level_bet(
    past_successes: ArrayLike,
    past_counts: ArrayLike,
    successes: ArrayLike,
    counts: ArrayLike,
    level: ArrayLike,
    above: ArrayLike,
) -> Floats:
    """The log e-value of one batch of 0/1 outcomes for "the rate is above the level"; or below, where not `above`.

    The null is rate <= level (or >=): binomial likelihood ratio against the level (Proposition 7). 0.0 where there is
    no past, no new row, or the level is not strictly between 0 and 1. `(),...->()`
    """
    shape, (past, N, won, n, tau, side) = flat(past_successes, past_counts, successes, counts, level, above)
    good = totalled(counted(N, n), past, won) & (tau > 1 / MOST) & (tau < 1) & (past <= N) & (won <= n)
    N, n, tau = np.where(good, N, 1.0), np.where(good, n, 1.0), np.where(good, tau, 0.5)
    past, won = np.where(good, past, 0.0), np.where(good, won, 0.0)
    low = side == 0  # below: count failures against 1 - level instead
    m, rest = np.where(low, 1.0 - tau, tau), np.where(low, tau, 1.0 - tau)
    past, won = np.where(low, N - past, past), np.where(low, n - won, won)
    variance = m * rest / N
    z = clipped_z(past / N - m, variance)
    factors = np.empty((DRIFTS.size, z.size))
    for k, u in enumerate(DRIFTS):
        theta = np.minimum(u * np.sqrt(variance), EDGE * rest)
        factors[k] = won * np.log1p(theta / m) + (n - won) * np.log1p(-theta / rest)
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)
