"""Rewards in a known range: products over their values, which adapt to a small variance.

Propositions 6 (two arms) and 7 (a level); for other forms, and from sums alone, Lemma 1 with half the range as sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from roundwise.arrays import Bools, Floats, quiet, total, zeros
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past, all_arms, arm_of
from roundwise.noise.base import UNTRUE, FixedSizeBet, Needs, Noise, Outcome
from roundwise.noise.bets import (
    EDGE,
    common_mean,
    is_pair,
    single_arms,
    split_mean,
    take_arm,
    where_sized,
)
from roundwise.noise.budget_bets import product_budget_bet
from roundwise.noise.crossed import ITEMS, CrossedNoise
from roundwise.noise.parts import (
    GaussianPartBets,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    ValueRows,
    choose_factor,
)
from roundwise.solvers.halfspaces import Halfspaces

_OWN = 400.0  # degrees of freedom from which on an arm has a variance of its own; fewer scatter too much
_FEW = 64  # distinct values up to which a table is worked on for all elements at once
_DISCORDANT = np.array([-1.0, 0.0, 1.0])  # what 0/1 results of two arms on one item can differ by


@dataclass(frozen=True)
class Bounded(Noise):
    """Rewards that always lie in [low, high].

    >>> Bounded(1, 3).sigma
    1.0
    """

    low: float
    high: float
    name: ClassVar[str] = "bounded"
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
        """Anything in the range."""
        return Outcome(
            self.low,
            self.high,
            wrong=f"is outside [{self.low:g}, {self.high:g}], the range this study was created with.",
            remedy="{@range}: the error guarantee needs the true range.",
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """The range."""
        return "--range", f"{self.low:g}", f"{self.high:g}"

    @property
    def words(self) -> str:
        """The range."""
        return f"Every result lies between {self.low:g} and {self.high:g}."

    def doubt(self, true: Noise) -> Reason | None:
        """True of every model whose results lie in the range."""
        low, high = true.mean_range
        if math.isinf(low) or math.isinf(high):
            return UNTRUE
        return None if self.low <= low and high <= self.high else Reason("out_of_range")

    def variance(self, past: Past) -> Floats:
        """The variance within arms and batches, a few results of the largest variance added; from sums range^2/4."""
        most = (self.high - self.low) ** 2 / 4
        return (total(past.scatter) + most) / (total(past.freedom) + 1.0)

    def variances(self, past: Past) -> Floats:
        """Arms may differ; one with few values borrows from all."""
        pooled = self.variance(past)[..., None]
        return np.where(past.freedom >= _OWN, (past.scatter + pooled) / (past.freedom + 1.0), pooled)

    def part_bets(self, data: PartsData) -> PartBets:
        """Return products over the values of each part; from sums, sub-Gaussian bets."""
        return super().part_bets(data) if data.rows is None else _BoundedPartBets(data, self.low, self.high - self.low)

    def with_items(self) -> Noise:
        """Return the model for arms that are tried on the same items."""
        return PairedBounded(self.low, self.high)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """As `form`; single arms by a product over their values."""
        single, pair = single_arms(pieces)[0], is_pair(pieces)
        if batch.table is None or not (single | pair).any():
            return super().fixed_size_bet(past, batch, pieces, units, drifts)
        seen = self._values(batch.table), batch.table.counts, (*self._scaled(past), units)
        if single.all():
            return self._at_level(*seen, pieces, drifts)
        if pair.all():
            return self._at_margin(*seen, pieces, drifts)
        other = super().fixed_size_bet(past, batch, pieces, units, drifts)
        at_level = self._at_level(*seen, pieces, drifts) if single.any() else other
        at_margin = self._at_margin(*seen, pieces, drifts) if pair.any() else other

        def logs(offsets: Floats) -> Floats:
            return np.where(single, at_level(offsets), np.where(pair, at_margin(offsets), other(offsets)))

        return logs

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
        self, values: Floats, table: Floats, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> FixedSizeBet:
        """Single arms, which lie above (offset / factor), or below if the factor is negative."""
        _, arm, factor = single_arms(pieces)
        totals, squares, counts, units = (take_arm(each, arm) for each in sums)
        noise = (_scatter(totals, squares, counts) + 0.25) / (counts + 1.0)  # a row of the largest variance added
        drift = drifts * np.sqrt(noise / units)
        sizes, rows = drift / (noise + drift**2), np.take_along_axis(table, arm[..., None], axis=-2)
        width = self.high - self.low
        return lambda offsets: fixed_size_level_bet(
            sizes, values, rows, (offsets / factor - self.low) / width, factor > 0
        )

    def _at_margin(
        self, values: Floats, table: Floats, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> FixedSizeBet:
        """Two arms, an offset apart."""
        past_a, square_a, N_a, unit_a = (arm_of(each, pieces, 0) for each in sums)
        past_b, square_b, N_b, unit_b = (arm_of(each, pieces, 1) for each in sums)
        a, b = (np.take_along_axis(table, pieces.arms[..., s, None], axis=-2) for s in (0, 1))
        n_a, n_b = a.sum(axis=-1), b.sum(axis=-1)
        m = np.where((N_a > 0) & (N_b > 0), common_mean(past_a, N_a, past_b, N_b, n_a, n_b), 0.5)
        noise = _scatter(past_a, square_a, N_a) + _scatter(past_b, square_b, N_b) + m * (1.0 - m)
        noise = noise / (N_a + N_b + 1.0)
        drift = drifts * np.sqrt(noise * (1.0 / unit_a + 1.0 / unit_b))
        sizes = drift / (noise + drift**2 * n_a * n_b / (n_a + n_b) ** 2)
        return lambda offsets: fixed_size_difference_bet(sizes, m, values, a, b, offsets / (self.high - self.low))

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

    def part_bets(self, data: PartsData) -> PartBets:
        """Return products over -1, 0 and 1, of one size on parts."""
        if data.rows is None and data.scatter is not None:
            counts = zero_one_counts(data.counts, data.totals, data.scatter)
            data = replace(data, rows=ValueRows(_DISCORDANT, np.stack(counts)))
        return super().part_bets(data)

    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        """Return products whose sizes do not depend on the offset."""
        return super().fixed_size_bet(past, _with_table(batch), pieces, units, drifts)

    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """Return products bet towards a budget."""
        return super().budget_bet(known, _with_table(batch), pieces, need, rho, eta)


@dataclass(frozen=True)
class PairedBounded(CrossedNoise, Bounded):
    """Results in [low, high] on shared items."""

    name: ClassVar[str] = "paired-bounded"

    @property
    def words(self) -> str:
        """The range, and the design."""
        return f"{super().words} {ITEMS}"

    @property
    def differences(self) -> Noise:
        """Values in a range twice as wide."""
        return Bounded(self.low - self.high, self.high - self.low)

    def without_items(self) -> Noise:
        """Return the model for arms that have items of their own."""
        return Bounded(self.low, self.high)


def _scatter(totals: Floats, squares: Floats, counts: Floats) -> Floats:
    """The sum of squares about the mean; 0 of no values."""
    return np.where(counts > 0, scatter_of(totals, squares, counts), 0.0)


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
            found = self._growth(first[p], bold * up[p], m_a[p])
            found += self._growth(second[p], -bold * down[p], m_b[p])
            return found

        return log_factor

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: Floats | float) -> LogFactor:
        tau = np.broadcast_to((np.asarray(level, dtype=np.float64) - self.low) / self.width, arm.shape)
        inside = (tau > 0) & (tau < 1)
        return choose_factor(
            inside,
            lambda: self._level(arm, sign, leverage, np.where(inside, tau, 0.5)),
            lambda: GaussianPartBets(self.width / 2).levels(arm, sign, distance.copy(), leverage, 0.0),
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

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return choose_factor(
            form.pair & (np.abs(form.offsets) < self.width),
            lambda: self._pair(form, leverage),
            lambda: GaussianPartBets(self.width / 2).forms(form, value.copy(), leverage),
        )

    def _growth(self, arm: Index, slope: Floats, middle: Floats) -> Floats:
        """sum_v counts_v log(1 + slope (x_v - middle)), value by value."""
        rows = self.data.rows
        assert rows is not None
        found = np.zeros_like(slope)
        for value, counts in zip((rows.values - self.low) / self.width, rows.counts, strict=True):
            found += counts.reshape(-1).take(arm) * np.log1p(slope * (value - middle))
        return found


def scatter_of(total: Floats, squares: Floats, count: Floats) -> Floats:
    """The sum of squares about the mean, kept within what values in [0, 1] allow."""
    mean = total / count
    return np.clip(squares - total * mean, 0.0, np.maximum(total - total * mean, 0.0))


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
