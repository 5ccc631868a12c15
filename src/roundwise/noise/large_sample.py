"""Rewards of any law with a finite variance: bets that need only the variance, estimated from earlier results.

Proposition 31: a bet is exact if its variance is. That variance is estimated from the earlier results of each arm, once
there are enough of them for their skewness. So the guarantee is approximate: it holds in large samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from roundwise.arrays import Bools, Floats, quiet
from roundwise.errors import InputError
from roundwise.messages import Approximation, Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, form_values, form_variances, skewness_of
from roundwise.noise.base import FixedSizeBet, Needs, Noise
from roundwise.noise.bets import (
    HUGE,
    NO_ROWS,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    bet_where_needed,
    where_sized,
)
from roundwise.solvers.halfspaces import Halfspaces

RARE = 20.0  # over delta: with this many results, a value of frequency delta/20 is unseen with probability 1/e
SKEWED = 32.0  # times the squared skewness: with this many results, the sample variance is close to the true one


@dataclass(frozen=True)
class LargeSample(Noise):
    """Rewards of any law with a finite variance: money, times, counts. The guarantee is approximate.

    The variance of each arm is estimated from its earlier results. An arm is bet on once these number at least
    `min_rows` and 32 times their squared skewness.

    Args:
        min_rows: Earlier results that an arm needs; by default 20/delta, which is 400 for a delta of 5 %.
    """

    min_rows: float | None = None
    name: ClassVar[str] = "large-sample"
    needs: ClassVar[Needs] = "cubes"
    most_parts: ClassVar[int] = 12
    words: ClassVar[str] = "Results follow any law with a finite variance, which is estimated from earlier results."

    def __post_init__(self) -> None:
        if self.min_rows is not None and not 2 <= self.min_rows < math.inf:
            raise InputError(f"`min_rows` is {self.min_rows:g}, but must be at least 2.")

    @property
    def flags(self) -> tuple[str, ...] | None:
        return ("--large-sample",) if self.min_rows is None else None

    @property
    def approximation(self) -> Approximation:
        return Approximation("large_sample", rows=math.ceil(self._least))

    @property
    def _least(self) -> float:
        return RARE / 0.05 if self.min_rows is None else self.min_rows

    def at_level(self, delta: float) -> Noise:
        return self if self.min_rows is not None else replace(self, min_rows=RARE / delta)

    def doubt(self, true: Noise) -> Reason | None:
        """None: every simulated law has a finite variance."""
        return None

    def rows_before_bets(self, past: Past) -> Floats:
        return self.rows_at_skewness(np.where(past.counts > 0, past.skewness, 0.0))

    def rows_at_skewness(self, skewness: Floats) -> Floats:
        """Return the larger of `min_rows` and 32 times the squared skewness. ()"""
        return np.maximum(self._least, SKEWED * skewness**2)

    def variance(self, past: Past) -> Floats:
        return past.pooled_variance

    def variances(self, past: Past) -> Floats:
        return past.own_variances

    def part_bets(self, data: PartsData) -> PartBets:
        return _LargeSamplePartBets(data, self)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        new, error, loss = self._bet(past, batch, pieces)
        sizes = drifts * np.sqrt(form_variances(self.variances(past) / units, pieces)) / error
        return lambda offsets: where_sized(
            sizes, lambda q: q * (np.clip((new - offsets) / error, -HUGE, HUGE) - q * loss)
        )

    @quiet
    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """A bet on one drift, which reaches the bar at the budget, as for sub-Gaussian rewards (Proposition 15)."""
        new, error, loss = self._bet(known.past, batch, pieces)

        def bet(value: Floats, loss: Floats, need: Floats, rho: Floats) -> Floats:
            size = np.sqrt(2.0 * np.clip(need * rho, 0.0, HUGE))
            return where_sized(
                np.where(np.isnan(value), 0.0, size), lambda q: q * (np.clip(value, -HUGE, HUGE) - q * loss)
            )

        value = np.where(np.isfinite(error), (new - pieces.offsets) / error, np.nan)
        return bet_where_needed(bet, need, value, loss, need, rho)

    def _bet(self, past: Past, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats, Floats]:
        """Each form of the batch's means, its error (infinite: no bet), and the loss of a bet of size 1. (P) each"""
        means, variance = past.means, past.scatter / np.maximum(past.freedom, 1.0)
        n = batch.counts
        open_ = (past.counts >= self.rows_before_bets(past)) & (variance > 0) & (n >= 1)
        spread = np.where(open_, variance / n, np.inf)
        loss = np.where(open_, _losses(n, batch.totals, batch.scatter, past.counts, means, variance), 0.0)
        error = np.sqrt(form_variances(spread, pieces))
        new = form_values(batch.totals / np.maximum(n, 1.0), pieces)
        return new, error, form_variances(loss, pieces) / error**2


def _losses(
    n: Floats, totals: Floats, scatter: Floats | None, before: Floats, means: Floats, variance: Floats
) -> Floats:
    """(Q/6 + n tau^2/3) / n^2 of each arm: Q about the past mean, tau^2 the past variance and that of the past mean."""
    size = np.maximum(n, 1.0)
    square = size * variance if scatter is None else scatter + size * (totals / size - means) ** 2
    return (square / 6 + size * variance * (1.0 + 1.0 / np.maximum(before, 1.0)) / 3) / size**2


@dataclass(frozen=True)
class _LargeSamplePartBets(PartBets):
    """Bets on the parts of a batch, scaled by the deviations of the results before each part (Proposition 31)."""

    data: PartsData
    noise: LargeSample

    @cached_property
    def variances(self) -> Floats:
        scatter, freedom = self.data.scatter_so_far
        return np.where(freedom > 0, np.maximum(scatter, 1e-300) / np.maximum(freedom, 1.0), np.inf)

    @cached_property
    def _open(self) -> Bools:
        """Whether an arm has enough results before a part to be bet on in it. (P, K, n)"""
        cubes = self.data.cubes_so_far
        if cubes is None or self.data.scatter is None:
            return np.zeros(self.data.counts.shape, dtype=np.bool_)
        skewness = skewness_of(*self.data.scatter_so_far, *cubes)
        enough = self.data.so_far >= self.noise.rows_at_skewness(skewness)
        return enough & (self.data.scatter_so_far[0] > 0) & (self.data.counts >= 1)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """The variance of each arm's mean in each part, as estimated from the past, and the loss of a bet. (P, K, n)"""
        data = self.data
        variance = np.where(self._open, self.variances, 1.0)
        means = data.totals_so_far / np.maximum(data.so_far, 1.0)
        loss = _losses(data.counts, data.totals, data.scatter, data.so_far, means, variance)
        return variance / np.maximum(data.counts, NO_ROWS), loss

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        spread, loss = (form.squares(each) for each in self._sums)
        shut = [~self._open.reshape(-1).take(each) for each in form.places]
        if form.factors is not None:
            shut = [each & (f != 0) for f, each in zip(form.factors, shut, strict=True)]
        return _factor(value, spread, loss, ~np.logical_or.reduce(shut))

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        spread, loss = (each.reshape(-1).take(arm) for each in self._sums)
        return _factor(distance, spread, loss, self._open.reshape(-1).take(arm))


def _factor(value: Floats, spread: Floats, loss: Floats, open_: Bools) -> LogFactor:
    """exp(q value/sqrt(spread) - q^2 loss/spread) where the gate is open. (P, c)"""
    z = np.where(open_, np.clip(value / np.sqrt(spread), -HUGE, HUGE), 0.0)
    lost = np.where(open_, loss / spread, 0.0)
    return lambda p, q: q * (z[p] - q * lost[p])
