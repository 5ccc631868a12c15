"""Rewards in a known range, and 0/1 outcomes: products over their values, which adapt to a small variance.

Propositions 6 (two arms) and 7 (a level); for other forms, and from sums alone, Lemma 1 with half the range as sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, sum_rows, total, zeros
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past, all_arms, arm_of
from roundwise.noise.base import UNTRUE, FixedSizeBet, Needs, Noise, Outcome, RowCheck, Scale
from roundwise.noise.bets import (
    EDGE,
    GaussianPartBets,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    arm_sums,
    bet_where_needed,
    choose_factor,
    common_mean,
    flatten,
    is_pair,
    product_factor,
    single_arms,
    split_mean,
    take_arm,
    where_sized,
)
from roundwise.noise.budget_bets import (
    binomial_budget_bet,
    binomial_law,
    hypergeometric_budget_bet,
    hypergeometric_law,
    product_budget_bet,
)
from roundwise.noise.lattice import pay_on_lattice
from roundwise.noise.paired import ITEMS, PairedNoise, at_pairs
from roundwise.noise.payoffs import LookAim
from roundwise.solvers.halfspaces import BinaryFamily, Family, Halfspaces

_OWN = 400.0  # degrees of freedom from which an arm's own variance is used; with fewer it is too noisy
_FEW = 64  # distinct values up to which a table is worked on for all elements at once
_DISCORDANT = np.array([-1.0, 0.0, 1.0])  # what 0/1 results of two arms on one item can differ by


@dataclass(frozen=True)
class Bounded(Noise):
    """Rewards that always lie in [low, high].

    Args:
        low: The smallest possible result.
        high: The largest possible result.

    >>> Bounded(1, 3).sigma
    1.0
    """

    low: float
    high: float
    name: ClassVar[str] = "bounded"
    merges_arms: ClassVar[bool] = True
    row_checks: ClassVar[tuple[RowCheck, ...]] = ("ends",)
    needs: ClassVar[Needs] = "rows"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"The range [{self.low:g}, {self.high:g}] is empty: the first number must be below the second."
            )
        if not 1e-100 < self.high / 2 - self.low / 2 < 1e100:
            raise InputError(f"The range [{self.low:g}, {self.high:g}] is too narrow or too wide. Use other units.")

    @property
    def sigma(self) -> float:
        """Half the range (Hoeffding's lemma)."""
        return (self.high - self.low) / 2

    @property
    def outcome(self) -> Outcome:
        return Outcome(
            self.low,
            self.high,
            wrong=f"is outside [{self.low:g}, {self.high:g}], the range this study was created with.",
            remedy="{@range}: the error guarantee needs the true range.",
        )

    @property
    def flags(self) -> tuple[str, ...]:
        return "--range", f"{self.low:g}", f"{self.high:g}"

    @property
    def words(self) -> str:
        return f"Every result lies between {self.low:g} and {self.high:g}."

    def doubt(self, true: Noise) -> Reason | None:
        low, high = true.mean_range
        if math.isinf(low) or math.isinf(high):
            return UNTRUE
        return None if self.low <= low and high <= self.high else Reason("out_of_range")

    def with_items(self) -> Noise:
        return PairedBounded(self.low, self.high)

    def variance(self, past: Past) -> Floats:
        """The variance within arms and batches, a few results of the largest variance added; from sums range^2/4."""
        most = (self.high - self.low) ** 2 / 4
        return (total(past.scatter) + most) / (total(past.freedom) + 1.0)

    def variances(self, past: Past) -> Floats:
        """Arms may differ; one with few values borrows from all."""
        pooled = self.variance(past)[..., None]
        return np.where(past.freedom >= _OWN, (past.scatter + pooled) / (past.freedom + 1.0), pooled)

    def part_bets(self, data: PartsData) -> PartBets:
        return super().part_bets(data) if data.rows is None else _BoundedPartBets(data, self.low, self.high - self.low)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """Products over values for single arms and for pairs."""
        single, pair = single_arms(pieces)[0], is_pair(pieces)
        if batch.table is None or not (single | pair).any():
            return super().fixed_size_bet(past, batch, pieces, units, drifts)
        seen = batch.table, (*self._scaled(past), units), pieces, drifts
        if single.all():
            return self._at_level(*seen)
        if pair.all():
            return self._at_margin(*seen)
        other = super().fixed_size_bet(past, batch, pieces, units, drifts)
        at_level = self._at_level(*seen) if single.any() else other
        at_margin = self._at_margin(*seen) if pair.any() else other
        return lambda offsets: np.where(single, at_level(offsets), np.where(pair, at_margin(offsets), other(offsets)))

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """One drift: products over the values of all arms of the form (Proposition 16); from sums, sub-Gaussian."""
        if batch.table is None:
            return super().budget_bet(known, batch, pieces, need, rho, eta)
        past, width = known.past, self.high - self.low
        seen = past.counts + 1.0  # a result in the middle, of the largest variance, added
        means = ((past.totals - self.low * past.counts) / width + 0.5) / seen
        spread = np.clip(past.scatter / width**2, 0.0, 0.25 * past.counts)
        noise = (spread + (past.counts - past.freedom) * means * (1.0 - means) + 0.25) / seen
        logs, wanted = zeros(need.shape), need > 0
        if wanted.any():
            factors = np.broadcast_to(pieces.coefficients, (*need.shape, pieces.arms.shape[-1]))
            offsets = (pieces.offsets - self.low * total(pieces.coefficients)) / width

            def of_arms(values: Floats) -> Floats:
                return np.broadcast_to(all_arms(values, pieces), factors.shape)[wanted]

            logs[wanted] = product_budget_bet(
                factors[wanted],
                of_arms(means),
                of_arms(noise),
                self._values(batch.table),
                np.stack([of_arms(each) for each in np.moveaxis(batch.table.counts, -1, 0)], axis=-1),
                np.broadcast_to(offsets, need.shape)[wanted],
                need[wanted],
                np.broadcast_to(rho, need.shape)[wanted],
            )
        return logs

    def _at_level(
        self, table: ValueTable, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> FixedSizeBet:
        """Single arms, which lie above (offset / factor), or below if the factor is negative."""
        _, arm, factor = single_arms(pieces)
        totals, squares, counts, units = (take_arm(each, arm) for each in sums)
        noise = (_scatter(totals, squares, counts) + 0.25) / (counts + 1.0)  # a row of the largest variance added
        drift = drifts * np.sqrt(noise / units)
        sizes, rows = drift / (noise + drift**2), np.take_along_axis(table.counts, arm[..., None], axis=-2)
        values, width = self._values(table), self.high - self.low
        return lambda offsets: fixed_size_level_bet(
            sizes, values, rows, (offsets / factor - self.low) / width, factor > 0
        )

    def _at_margin(
        self, table: ValueTable, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> FixedSizeBet:
        """Two arms, an offset apart."""
        past_a, square_a, N_a, unit_a = (arm_of(each, pieces, 0) for each in sums)
        past_b, square_b, N_b, unit_b = (arm_of(each, pieces, 1) for each in sums)
        a, b = (np.take_along_axis(table.counts, pieces.arms[..., s, None], axis=-2) for s in (0, 1))
        n_a, n_b = a.sum(axis=-1), b.sum(axis=-1)
        m = np.where((N_a > 0) & (N_b > 0), common_mean(past_a, N_a, past_b, N_b, n_a, n_b), 0.5)
        noise = _scatter(past_a, square_a, N_a) + _scatter(past_b, square_b, N_b) + m * (1.0 - m)
        noise = noise / (N_a + N_b + 1.0)
        drift = drifts * np.sqrt(noise * (1.0 / unit_a + 1.0 / unit_b))
        sizes = drift / (noise + drift**2 * n_a * n_b / (n_a + n_b) ** 2)
        values, width = self._values(table), self.high - self.low
        return lambda offsets: fixed_size_difference_bet(sizes, m, values, a, b, offsets / width)

    def _scaled(self, past: Past) -> tuple[Floats, Floats, Floats]:
        """Totals, sums of squares and counts of the past, of values moved to [0, 1]; sums alone count as widest."""
        width = self.high - self.low
        counts = np.maximum(past.counts, 1.0)
        mean = np.clip((past.totals / counts - self.low) / width, 0.0, 1.0)
        unknown = past.counts - past.freedom  # results whose spread was not seen (at least one a batch)
        within = past.scatter / width**2 + unknown * mean * (1.0 - mean)
        squares = np.minimum(within + past.counts * mean**2, past.counts * mean)
        return past.counts * mean, squares, past.counts

    def _values(self, table: ValueTable) -> Floats:
        """The values of a table, moved to [0, 1]. (V)"""
        return (table.values.reshape(-1, table.values.shape[-1])[0] - self.low) / (self.high - self.low)


def _scatter(totals: Floats, squares: Floats, counts: Floats) -> Floats:
    """The sum of squares about the mean, kept within what values in [0, 1] allow; 0 of no values."""
    mean = totals / counts
    scatter = np.clip(squares - totals * mean, 0.0, np.maximum(totals - totals * mean, 0.0))
    return np.where(counts > 0, scatter, 0.0)


@np.errstate(all="ignore")
def fixed_size_level_bet(sizes: Floats, values: Floats, counts: Floats, value: Floats, above: Bools) -> Floats:
    """prod (1 + b (x - value)) over outcomes x in [0, 1], b = min(size, EDGE / value). `(k),(V),(V),(),()->(k)`

    Where not `above`, both are turned round: 1 - x and 1 - value, against "the mean is at least the value".
    """
    turned = np.where(above, value, 1.0 - value)
    most = np.where(turned > 0, EDGE / turned, np.inf)
    sign = np.where(above, 1.0, -1.0)
    return where_sized(sizes, lambda b: _growth(values, counts, sign * np.minimum(b, most), value))


@np.errstate(all="ignore")
def fixed_size_difference_bet(
    sizes: Floats, middle: Floats, values: Floats, counts_a: Floats, counts_b: Floats, margin: Floats
) -> Floats:
    """prod (1 + up t (x - m_a)) prod (1 - down t (x - m_b)) over the outcomes of two arms, m_a and m_b a margin apart.

    `(k),(),(V),(V),(V),()->(k)`
    """
    n_a, n_b = counts_a.sum(axis=-1), counts_b.sum(axis=-1)
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m_a, m_b = split_mean(middle, np.clip(margin, -1.0, 1.0), up, down)
    most = EDGE / np.maximum(up, down)  # allowed whatever the margin

    def logs(t: Floats) -> Floats:
        t = np.minimum(t, most)
        return _growth(values, counts_a, up * t, m_a) + _growth(values, counts_b, -down * t, m_b)

    return where_sized(sizes, logs)


def _growth(values: Floats, counts: Floats, slope: Floats, middle: Floats) -> Floats:
    """sum_v counts_v log(1 + slope (values_v - middle)): all at once for few values, else only those that occurred."""
    found = np.zeros(slope.shape)
    if values.size <= _FEW:
        for v, value in enumerate(values):
            found += counts[..., v] * np.log1p(slope * (value - middle))
        return found
    for place in np.ndindex(middle.shape):
        here, many = (slice(None), *place), counts[place]
        seen = many > 0
        terms = np.log1p(slope[here][:, None] * (values[seen] - middle[place]))
        found[here] = (terms * many[seen]).sum(axis=-1)
    return found


@dataclass(frozen=True)
class Capped(Bounded):
    """Results of any size, of which those above the cap count as the cap, and those below the floor as the floor.

    The guarantee is that of the capped means, exactly. Fix the cap before the first result, from earlier data for
    example, and high: at the quantile .999 or .9999 of results.

    Args:
        cap: The most that a result counts.
        floor: The least that a result counts.

    >>> Capped(200.0).words
    'Results above 200 count as 200, and those below 0 as 0.'
    """

    low: float = field(init=False, repr=False)
    high: float = field(init=False, repr=False)
    cap: float
    floor: float = 0.0
    name: ClassVar[str] = "capped"
    row_checks: ClassVar[tuple[RowCheck, ...]] = ("cut",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", self.floor)
        object.__setattr__(self, "high", self.cap)
        super().__post_init__()

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.low, self.high, clip=True)

    @property
    def flags(self) -> tuple[str, ...]:
        return "--cap", f"{self.cap:g}", *(("--floor", f"{self.floor:g}") if self.floor else ())

    @property
    def words(self) -> str:
        return f"Results above {self.cap:g} count as {self.cap:g}, and those below {self.floor:g} as {self.floor:g}."

    def doubt(self, true: Noise) -> Reason | None:
        """None: what counts lies in the range by definition."""
        return None

    def with_items(self) -> Noise:
        return Noise.with_items(self)


@dataclass(frozen=True)
class _BoundedPartBets(PartBets):
    """Products over values in a range, moved to [0, 1]: of two arms (Proposition 6), of one and a level (7)."""

    data: PartsData
    low: float
    width: float

    @cached_property
    def _past(self) -> tuple[Floats, Floats, Floats]:
        """Counts so far, means and scatter; results whose spread was not seen count as widest. (P, K, n)"""
        counts = self.data.so_far
        mean = np.clip((self.data.totals_so_far / np.maximum(counts, 1.0) - self.low) / self.width, 0.0, 1.0)
        scatter, freedom = self.data.scatter_so_far
        most = mean * (1.0 - mean)
        return counts, mean, np.minimum(scatter / self.width**2 + (counts - freedom) * most, counts * most)

    @cached_property
    def variances(self) -> Floats:
        counts, _, scatter = self._past
        return (scatter + 0.25) / (counts + 1.0) * self.width**2

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return choose_factor(
            form.pair & (np.abs(form.offsets) < self.width),
            lambda: self._pair(form, leverage),
            lambda: GaussianPartBets(self.width / 2).forms(form, value, leverage),
        )

    def _pair(self, form: PartForm, leverage: Floats) -> LogFactor:
        first, second = form.places[:2]
        (N_a, mean_a, scatter_a), (N_b, mean_b, scatter_b) = (
            tuple(each.reshape(-1).take(arm) for each in self._past) for arm in (first, second)
        )
        n_a, n_b = (self.data.counts.reshape(-1).take(arm) for arm in (first, second))
        m = common_mean(N_a * mean_a, N_a, N_b * mean_b, N_b, n_a, n_b)
        noise = (scatter_a + scatter_b + m * (1.0 - m)) / (N_a + N_b + 1.0)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = split_mean(m, form.offsets / self.width, up, down)
        furthest = EDGE * np.minimum(1.0 / (m_a * up), 1.0 / ((1.0 - m_b) * down))
        unit = np.sqrt(noise * leverage)

        def log_factor(p: int, q: Floats) -> Floats:
            theta = q * unit[p]
            bold = np.minimum(theta / (noise[p] + up[p] * down[p] * theta * theta), furthest[p])
            return self._growth(first[p], bold * up[p], m_a[p]) + self._growth(second[p], -bold * down[p], m_b[p])

        return log_factor

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: Floats | float) -> LogFactor:
        tau = np.broadcast_to((np.asarray(level, dtype=np.float64) - self.low) / self.width, arm.shape)
        inside = (tau > 0) & (tau < 1)
        return choose_factor(
            inside,
            lambda: self._level(arm, sign, leverage, np.where(inside, tau, 0.5)),
            lambda: GaussianPartBets(self.width / 2).levels(arm, sign, distance, leverage, 0.0),
        )

    def _level(self, arm: Index, sign: Floats, leverage: Floats, tau: Floats) -> LogFactor:
        counts, _, scatter = (each.reshape(-1).take(arm) for each in self._past)
        noise = (scatter + tau * (1.0 - tau)) / (counts + 1.0)
        unit, furthest = np.sqrt(noise * leverage), EDGE / np.where(sign > 0, tau, 1.0 - tau)

        def log_factor(p: int, q: Floats) -> Floats:
            theta = q * unit[p]
            bold = sign[p] * np.minimum(theta / (noise[p] + theta * theta), furthest[p])
            return self._growth(arm[p], bold, tau[p])

        return log_factor

    def _growth(self, arm: Index, slope: Floats, middle: Floats) -> Floats:
        """sum_v counts_v log(1 + slope (x_v - middle)), value by value."""
        assert self.data.rows is not None
        found = np.zeros_like(slope)
        values, tables = self.data.rows
        for value, counts in zip((values - self.low) / self.width, tables, strict=True):
            found += counts.reshape(-1).take(arm) * np.log1p(slope * (value - middle))
        return found


@dataclass(frozen=True)
class PairedBounded(PairedNoise, Bounded):
    """Results in [low, high] on shared items."""

    name: ClassVar[str] = "paired-bounded"

    @property
    def words(self) -> str:
        return f"{super().words} {ITEMS}"

    @property
    def differences(self) -> Noise:
        return Bounded(self.low - self.high, self.high - self.low)

    def without_items(self) -> Noise:
        return Bounded(self.low, self.high)


# --- 0/1 outcomes: likelihood ratios of binomials, which know how small the variance of a rare event is


@dataclass(frozen=True)
class Binary(Noise):
    """Outcomes that are 0 or 1.

    >>> Binary().sigma
    0.5
    """

    looks_in_parts: ClassVar[bool] = False
    name: ClassVar[str] = "binary"
    merges_arms: ClassVar[bool] = True
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
        rates = (past.totals + 0.5) / (past.counts + 1.0)
        return rates * (1.0 - rates)

    def with_items(self) -> Noise:
        return PairedBinary()

    def scale(self, counts: Floats, totals: Floats) -> Scale:
        """Log odds."""
        yes, no = totals + 0.5, counts - totals + 0.5
        return Scale(
            np.log(yes / no),
            1 / yes + 1 / no,
            lambda rate: math.log(rate / (1 - rate)),
            lambda odds: np.asarray(1 / (1 + np.exp(-odds))),
            2.0,
        )

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
        return _BinaryPartBets(data)

    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        return Bounded(0.0, 1.0).fixed_size_bet(past, _zero_one_table(batch), pieces, units, drifts)

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
            bet, wanted = partial(binomial_budget_bet, eta=eta), np.where(single, need, 0.0)
            logs = logs + bet_where_needed(bet, wanted, won, count, odds, need, rho)
        rest = np.where(pair | single, 0.0, need)
        if (rest > 0).any():
            logs = logs + Bounded(0.0, 1.0).budget_bet(known, _zero_one_table(batch), pieces, rest, rho, eta)
        return logs

    @quiet
    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        """By the exact law for two rates and for one; the rate that sizes the bet may be that of both (14b, 14c)."""
        single, arm, factor = single_arms(pieces)
        tau = pieces.offsets / np.where(single, factor, 1.0)
        if pieces.pairs and not pieces.offsets.any():
            seen = [arm_of(values, pieces, s) for s in (0, 1) for values in (batch.totals, batch.counts)]
            rate = (seen[0] + seen[2]) / (seen[1] + seen[3])
            drift = aim.drift(np.sqrt(rate * (1.0 - rate) * (1.0 / seen[1] + 1.0 / seen[3])), level)
            shape, (won_a, n_a, won_b, n_b, level, drift, looks) = flatten(*seen, level, drift, aim.looks_left)
            law = hypergeometric_law(won_a, n_a, won_b, n_b, np.zeros(level.shape))
        elif (single & (tau > 0) & (tau < 1)).all():
            won, n = take_arm(batch.totals, arm), take_arm(batch.counts, arm)
            won, tau = np.where(factor > 0, won, n - won), np.where(factor > 0, tau, 1.0 - tau)
            drift = aim.drift(np.sqrt(tau * (1.0 - tau) / n), level)
            shape, (won, n, odds, level, drift, looks) = flatten(
                won, n, np.log(tau) - np.log1p(-tau), level, drift, aim.looks_left
            )
            law = binomial_law(won, n, odds)
        else:
            return super().pay_look(known, batch, pieces, level, aim)
        return pay_on_lattice(law, level, drift, looks, aim.price, aim.extension_value).reshape(shape)

    def odds_budget_bet(self, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float) -> Floats:
        """The log odds of the first arm exceed those of the second by the offset: exact (Proposition 14b). (P)"""
        each = [arm_of(values, pieces, s) for s in (0, 1) for values in (batch.totals, batch.counts)]
        return bet_where_needed(partial(hypergeometric_budget_bet, eta=eta), need, *each, pieces.offsets, need, rho)


def _zero_one_table(batch: Batch) -> Batch:
    """The batch with how often each of 0 and 1 occurred."""
    counts = np.stack([batch.counts - batch.totals, batch.totals], axis=-1)
    return batch._replace(table=ValueTable(np.array([0.0, 1.0]), counts))


@dataclass(frozen=True)
class _BinaryPartBets(PartBets):
    """Likelihood ratios of binomials: of two rates (Proposition 6), of one and a level (Proposition 7)."""

    data: PartsData

    @cached_property
    def variances(self) -> Floats:
        rates = (self.data.totals_so_far + 0.5) / (self.data.so_far + 1.0)
        return rates * (1.0 - rates)

    def level_variances(self, level: float) -> Floats:
        return np.full((1, 1, 1), level * (1.0 - level) if 0 < level < 1 else 0.25)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return choose_factor(
            form.pair & (np.abs(form.offsets) < 1),
            lambda: self._pair(form, leverage),
            lambda: GaussianPartBets(0.5).forms(form, value, leverage),
        )

    def _pair(self, form: PartForm, leverage: Floats) -> LogFactor:
        (won_a, n_a, past_a, N_a), (won_b, n_b, past_b, N_b) = (arm_sums(self.data, each) for each in form.places[:2])
        m = common_mean(past_a, N_a, past_b, N_b, n_a, n_b)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = split_mean(m, form.offsets, up, down)
        unit = np.sqrt(leverage / (m * (1.0 - m)))
        furthest = EDGE * np.minimum(1.0 / (up * m_a), 1.0 / (down * (1.0 - m_b)))
        terms_a = (won_a, up * (1.0 - m_a)), (n_a - won_a, -up * m_a)
        terms_b = (won_b, -down * (1.0 - m_b)), (n_b - won_b, down * m_b)
        return product_factor(unit, furthest, (*terms_a, *terms_b))

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


@dataclass(frozen=True)
class ZeroOneDifferences(Bounded):
    """Differences of two 0/1 results: they are -1, 0 or 1, so that sums tell how often each came.

    Differences of graded results lie in the same range, and their sums do not: those are `Bounded(-1, 1)`.
    """

    low: float = field(default=-1.0, init=False)
    high: float = field(default=1.0, init=False)
    name: ClassVar[str] = "zero-one-differences"

    def part_bets(self, data: PartsData) -> PartBets:
        if data.rows is None and data.scatter is not None:
            counts = zero_one_counts(data.counts, data.totals, data.scatter)
            data = replace(data, rows=ValueTable(_DISCORDANT, np.stack(counts)))
        return super().part_bets(data)

    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        return super().fixed_size_bet(past, _discordance_table(batch), pieces, units, drifts)

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        return super().budget_bet(known, _discordance_table(batch), pieces, need, rho, eta)


def zero_one_counts(counts: Floats, totals: Floats, scatter: Floats) -> list[Floats]:
    """How often 0/1 results differed by -1, 0 and 1: their number, sum and sum of squares say it."""
    squares = np.rint(scatter + totals**2 / np.maximum(counts, 1.0))
    wins, losses = np.rint((squares + totals) / 2), np.rint((squares - totals) / 2)
    return [losses, counts - wins - losses, wins]


def _discordance_table(batch: Batch) -> Batch:
    """The batch of differences of 0/1 results with how often each was -1, 0 and 1, as far as its sums say it."""
    if batch.table is not None or batch.scatter is None:
        return batch
    counts = np.stack(zero_one_counts(batch.counts, batch.totals, batch.scatter), axis=-1)
    return batch._replace(table=ValueTable(np.broadcast_to(_DISCORDANT, (*counts.shape[:-2], 3)), counts))


@dataclass(frozen=True)
class PairedBinary(PairedNoise, Binary):
    """0/1 results on shared items: between two arms only the items count that one got right and the other wrong."""

    name: ClassVar[str] = "paired-binary"
    words: ClassVar[str] = f"{Binary.words} {ITEMS}"
    differences: ClassVar[Noise] = ZeroOneDifferences()

    def without_items(self) -> Noise:
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
        bet, wanted = partial(binomial_budget_bet, eta=eta), np.where(exact, need, 0.0)
        return logs + bet_where_needed(bet, wanted, wins, wins + losses, zeros(need.shape), need, rho)

    @quiet
    def pay_look(self, known: Estimates, batch: Batch, pieces: Halfspaces, level: Floats, aim: LookAim) -> Floats:
        """By the exact law of two arms without a margin (Proposition 26), for which items of both count, not rows."""
        if not pieces.pairs or pieces.offsets.any() or batch.pairs is None:
            return super().pay_look(known, batch, pieces, level, aim)
        between = at_pairs(batch.pairs, batch.counts.shape[-1], pieces)
        assert between.scatter is not None
        losses, _, wins = zero_one_counts(between.counts, between.totals, between.scatter)
        drift = aim.drift(np.sqrt(wins + losses) / between.counts, level)
        shape, (won, n, level, drift, looks) = flatten(wins, wins + losses, level, drift, aim.looks_left)
        law = binomial_law(won, n, np.zeros(n.shape))
        return pay_on_lattice(law, level, drift, looks, aim.price, aim.extension_value).reshape(shape)
