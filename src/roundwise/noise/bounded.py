"""Rewards in a known range: products over their values, which adapt to a small variance.

Propositions 6 (two arms) and 7 (a level); for other forms, and from sums alone, Lemma 1 with half the range as sigma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from roundwise.arrays import Floats, total, zeros
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past, arm_of
from roundwise.noise.base import UNTRUE, Needs, Noise, Outcome, Steady, range_of_means
from roundwise.noise.bet_forms import centre, of_arm, pairs_among, parted, singles_among
from roundwise.noise.bounded_products import (
    scatter_of,
    steady_difference_bet,
    steady_level_bet,
)
from roundwise.noise.budget_bets import product_horizon_bet
from roundwise.noise.gaussian import sub_gaussian_horizon, sub_gaussian_steady
from roundwise.noise.mixture import EDGE
from roundwise.noise.parts import ArmPlaces, GaussianPartBets, Index, PartBets, PartForm, PartsData, Tilt, either
from roundwise.questions.base import Halfspaces, quiet

_OWN = 400.0  # degrees of freedom from which on an arm has a variance of its own; fewer scatter too much


@dataclass(frozen=True)
class Bounded:
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
            raise InputError(
                f"The range [{self.low:g}, {self.high:g}] is too small or too wide to reckon with; use other units."
            )

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
        low, high = range_of_means(true)
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

    def tilts(self, seen: PartsData) -> PartBets:
        """Bets of one size on parts."""
        return (
            GaussianPartBets(self.sigma) if seen.rows is None else BoundedPartBets(seen, self.low, self.high - self.low)
        )

    @quiet
    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """As `form`; single arms by a product over their values."""
        single, pair = singles_among(pieces)[0], pairs_among(pieces)
        if batch.table is None or not (single | pair).any():
            return sub_gaussian_steady(self.sigma, batch, pieces, units, drifts)
        seen = self._values(batch.table), batch.table.counts, (*self._scaled(past), units)
        if single.all():
            return self._at_level(*seen, pieces, drifts)
        if pair.all():
            return self._at_margin(*seen, pieces, drifts)
        other = sub_gaussian_steady(self.sigma, batch, pieces, units, drifts)
        at_level = self._at_level(*seen, pieces, drifts) if single.any() else other
        at_margin = self._at_margin(*seen, pieces, drifts) if pair.any() else other

        def logs(offsets: Floats) -> Floats:
            return np.where(single, at_level(offsets), np.where(pair, at_margin(offsets), other(offsets)))

        return logs

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """One drift: products over the values of all arms of the form (Proposition 16); from sums, sub-Gaussian."""
        if batch.table is None:
            return sub_gaussian_horizon(self.sigma, batch, pieces, need, rho)
        past, width = known.past, self.high - self.low
        seen = past.counts + 1.0  # a result in the middle, of the largest variance, added
        means = ((past.totals - self.low * past.counts) / width + 0.5) / seen
        spread = np.clip(past.scatter / width**2, 0.0, 0.25 * past.counts)
        noise = (spread + (past.counts - past.freedom) * means * (1.0 - means) + 0.25) / seen
        logs, wanted = zeros(need.shape), need > 0
        if wanted.any():
            factors = np.broadcast_to(pieces.coefficients, (*need.shape, pieces.arms.shape[-1]))
            offsets = (pieces.offsets - self.low * total(pieces.coefficients)) / width
            columns = np.moveaxis(batch.table.counts, -1, 0)
            tables = np.stack([_of_pieces(each, pieces, need.shape) for each in columns], axis=-1)
            logs[wanted] = product_horizon_bet(
                factors[wanted],
                _of_pieces(means, pieces, need.shape)[wanted],
                _of_pieces(noise, pieces, need.shape)[wanted],
                self._values(batch.table),
                tables[wanted],
                np.broadcast_to(offsets, need.shape)[wanted],
                need[wanted],
                np.broadcast_to(rho, need.shape)[wanted],
            )
        return logs

    def _at_level(
        self, values: Floats, table: Floats, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> Steady:
        """Single arms, which lie above (offset / factor), or below if the factor is negative."""
        _, arm, factor = singles_among(pieces)
        totals, squares, counts, units = (of_arm(each, arm) for each in sums)
        noise = (_scatter(totals, squares, counts) + 0.25) / (counts + 1.0)  # a row of the largest variance added
        drift = drifts * np.sqrt(noise / units)
        sizes, rows = drift / (noise + drift**2), np.take_along_axis(table, arm[..., None], axis=-2)
        width = self.high - self.low
        return lambda offsets: steady_level_bet(sizes, values, rows, (offsets / factor - self.low) / width, factor > 0)

    def _at_margin(
        self, values: Floats, table: Floats, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> Steady:
        """Two arms, an offset apart."""
        past_a, square_a, N_a, unit_a = (arm_of(each, pieces, 0) for each in sums)
        past_b, square_b, N_b, unit_b = (arm_of(each, pieces, 1) for each in sums)
        a, b = (np.take_along_axis(table, pieces.arms[..., s, None], axis=-2) for s in (0, 1))
        n_a, n_b = a.sum(axis=-1), b.sum(axis=-1)
        m = np.where((N_a > 0) & (N_b > 0), centre(past_a, N_a, past_b, N_b, n_a, n_b), 0.5)
        noise = _scatter(past_a, square_a, N_a) + _scatter(past_b, square_b, N_b) + m * (1.0 - m)
        noise = noise / (N_a + N_b + 1.0)
        drift = drifts * np.sqrt(noise * (1.0 / unit_a + 1.0 / unit_b))
        sizes = drift / (noise + drift**2 * n_a * n_b / (n_a + n_b) ** 2)
        return lambda offsets: steady_difference_bet(sizes, m, values, a, b, offsets / (self.high - self.low))

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
    """The sum of squares about the mean; 0 of no values."""
    return np.where(counts > 0, scatter_of(totals, squares, counts), 0.0)


def _of_pieces(values: Floats, pieces: Halfspaces, shape: tuple[int, ...]) -> Floats:
    """The values of all arms of each piece, in every run. (K)->(P, S)"""
    arms = np.broadcast_to(pieces.arms, (*shape, pieces.arms.shape[-1]))
    flat_arms = arms.reshape(*shape[:-1], -1)
    return np.take_along_axis(values, flat_arms, axis=-1).reshape(arms.shape)


@dataclass(frozen=True)
class BoundedPartBets:
    """Products over values in a range, moved to [0, 1]: of two arms (Proposition 6), of one and a level (7)."""

    seen: PartsData
    low: float
    width: float

    @cached_property
    def _past(self) -> tuple[Floats, Floats, Floats]:
        """Counts so far, means and scatter; results whose spread was not seen count as widest. (P, K, n)"""
        counts = self.seen.so_far
        mean = np.clip((self.seen.totals_so_far / np.maximum(counts, 1.0) - self.low) / self.width, 0.0, 1.0)
        scatter, freedom = self.seen.scatter_so_far
        most = mean * (1.0 - mean)
        return counts, mean, np.minimum(scatter / self.width**2 + (counts - freedom) * most, counts * most)

    @cached_property
    def variances(self) -> Floats:
        """Within the arm, a result of the largest variance added."""
        counts, _, scatter = self._past
        return (scatter + 0.25) / (counts + 1.0) * self.width**2

    def level_variances(self, level: float) -> Floats:
        """The same."""
        return self.variances

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """The means of two arms, a margin apart."""
        first, second = places()
        (N_a, mean_a, scatter_a), (N_b, mean_b, scatter_b) = (
            tuple(each.reshape(-1).take(arm) for each in self._past) for arm in (first, second)
        )
        n_a, n_b = (self.seen.counts.reshape(-1).take(arm) for arm in (first, second))
        m = centre(N_a * mean_a, N_a, N_b * mean_b, N_b, n_a, n_b)
        noise = (scatter_a + scatter_b + m * (1.0 - m)) / (N_a + N_b + 1.0)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = parted(m, np.asarray(margin, dtype=np.float64) / self.width, up, down)
        furthest = EDGE * np.minimum(1.0 / (m_a * up), 1.0 / ((1.0 - m_b) * down))
        unit = np.sqrt(noise * leverage)

        def tilt(p: int, q: Floats) -> Floats:
            theta = q * unit[p]
            bold = np.minimum(theta / (noise[p] + up[p] * down[p] * theta * theta), furthest[p])
            found = self._growth(first[p], bold * up[p], m_a[p])
            found += self._growth(second[p], -bold * down[p], m_b[p])
            return found

        return tilt

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: Floats | float) -> Tilt:
        """The mean of an arm and a level; at an end of the range the bet of sub-Gaussian rewards."""
        tau = np.broadcast_to((np.asarray(level, dtype=np.float64) - self.low) / self.width, arm.shape)
        inside = (tau > 0) & (tau < 1)
        return either(
            inside,
            lambda: self._level(arm, sign, leverage, np.where(inside, tau, 0.5)),
            lambda: GaussianPartBets(self.width / 2).levels(arm, sign, distance.copy(), leverage, 0.0),
        )

    def _level(self, arm: Index, sign: Floats, leverage: Floats, tau: Floats) -> Tilt:
        counts, _, scatter = (each.reshape(-1).take(arm) for each in self._past)
        noise = (scatter + tau * (1.0 - tau)) / (counts + 1.0)
        unit, furthest = np.sqrt(noise * leverage), EDGE / np.where(sign > 0, tau, 1.0 - tau)

        def tilt(p: int, q: Floats) -> Floats:
            theta = q * unit[p]
            bold = sign[p] * np.minimum(theta / (noise[p] + theta * theta), furthest[p])
            return self._growth(arm[p], bold, tau[p])

        return tilt

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """Two means, an offset apart; for another form the sub-Gaussian bet."""
        return either(
            form.pair & (np.abs(form.offsets) < self.width),
            lambda: self.pairs(lambda: (form.places[0], form.places[1]), value, leverage, form.offsets),
            lambda: GaussianPartBets(self.width / 2).forms(form, value.copy(), leverage),
        )

    def _growth(self, arm: Index, slope: Floats, middle: Floats) -> Floats:
        """sum_v counts_v log(1 + slope (x_v - middle)), value by value."""
        rows = self.seen.rows
        assert rows is not None
        found = np.zeros_like(slope)
        for value, counts in zip((rows.values - self.low) / self.width, rows.counts, strict=True):
            found += counts.reshape(-1).take(arm) * np.log1p(slope * (value - middle))
        return found
