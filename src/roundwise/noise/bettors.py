"""Which bets a noise model allows, and what it says of the variance (docs/why-the-guarantee-holds.md).

A bettor sees what was known before a batch and the batch, and returns log e-values: that forms of the means exceed
their offsets, and that single means lie above (or below) a level. Each has expectation at most 1 under its null,
whatever was seen before (docs/why-the-guarantee-holds.md). `need` is what is still to be won; where it is not positive
nothing is bet, and log e is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, total, zeros
from roundwise.estimates import Forecast, Known, Past, all_arms, arm_of, at, squares_at
from roundwise.noise import bets
from roundwise.questions.base import Halfspaces, quiet
from roundwise.state import Batch, Table

Steady = Callable[[Floats], Floats]  # offsets (P) -> log e-values, one for each size, which fall in the offset (k, P)


class Bettor(Protocol):
    """The bets of one noise model."""

    def variance(self, past: Past) -> Floats:
        """A guess at the variance of one result, from the past: it sizes bets and batches, and proves nothing. ()"""

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """log e for each form exceeding its offset, from results of one batch. (P)"""

    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """log e for each arm's mean above the level, or below it. (K)"""

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """log e for each form exceeding given offsets, with sizes that do not depend on those. (k, P)

        The sizes stand for differences of `drifts` (k, 1) standard errors of the form after `units` results an arm (K).
        """


@dataclass(frozen=True)
class GaussianBettor:
    """Sub-Gaussian rewards with known sigma; `exact` if they are normal with just this sigma (capped bets)."""

    sigma: float
    exact: bool = False

    def variance(self, past: Past) -> Floats:
        """The square of sigma."""
        return np.full(past.counts.shape[:-1], self.sigma**2)

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """On the form of the batch's means."""
        pieces = forecast.pieces
        means, spread = _batch(batch)
        new = at(means, pieces) - pieces.offsets
        return self._bet(forecast.value, forecast.leverage, new, squares_at(spread, pieces), need)

    @quiet
    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """On the distance of each arm's mean in the batch from the level."""
        sign = np.where(above, 1.0, -1.0)
        means, spread = _batch(batch)
        return self._bet(
            sign * (known.past.means - level), 1.0 / known.past.counts, sign * (means - level), spread, need
        )

    @quiet
    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """On the form of the batch's means."""
        means, spread = _batch(batch)
        new, error = at(means, pieces), self.sigma * np.sqrt(squares_at(spread, pieces))
        sizes = drifts * self.sigma * np.sqrt(squares_at(1.0 / units, pieces)) / error
        return lambda offsets: bets.steady_gaussian_bet(sizes, new - offsets, error)

    def _bet(self, estimate: Floats, leverage: Floats, new: Floats, new_leverage: Floats, need: Floats) -> Floats:
        square = self.sigma**2
        if self.exact:
            return _placed(
                bets.capped_gaussian_bet, need, estimate, square * leverage, new, square * new_leverage, need
            )
        return _placed(bets.sub_gaussian_bet, need, estimate, square * leverage, new, square * new_leverage)


@dataclass(frozen=True)
class BinaryBettor:
    """0/1 outcomes: likelihood ratios of binomials, which know how small the variance of a rare event is."""

    def variance(self, past: Past) -> Floats:
        """p (1 - p) at the smoothed rates, averaged over all results."""
        rates = (past.totals + 0.5) / (past.counts + 1.0)
        weight = np.maximum(total(past.counts), 1.0)
        return np.maximum(total(past.counts * rates * (1.0 - rates)) / weight, 1e-12)

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """Two rates, an offset apart; for another form the sub-Gaussian bet (sigma 1/2)."""
        pieces = forecast.pieces
        pair = pairs_among(pieces) & (np.abs(pieces.offsets) < 1)
        logs = zeros(need.shape)
        if not pair.all():
            logs = GaussianBettor(0.5).form(known, batch, forecast, np.where(pair, 0.0, need))
        if pair.any():
            sums = (*_pair(known.past, pieces), *_pair(batch, pieces))
            logs = logs + _placed(bets.bernoulli_difference_bet, np.where(pair, need, 0.0), *sums, pieces.offsets)
        return logs

    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """A binomial against the level; at 0 or 1, where it has none, the sub-Gaussian bet (sigma 1/2)."""
        sums = (known.past.totals, known.past.counts, batch.totals, batch.counts)
        logs = _placed(bets.bernoulli_level_bet, need, *sums, np.asarray(level), np.asarray(above))
        edge = np.where((np.asarray(level) > 0) & (np.asarray(level) < 1), 0.0, need)
        return logs + GaussianBettor(0.5).level(known, batch, level, above, edge) if edge.any() else logs

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """As values in [0, 1], of which only two occur."""
        table = Table(np.array([0.0, 1.0]), np.stack([batch.counts - batch.totals, batch.totals], axis=-1))
        return BoundedBettor(0.0, 1.0).steady(past, batch._replace(table=table), pieces, units, drifts)


@dataclass(frozen=True)
class StudentBettor:
    """Normal rewards of unknown common variance: t statistics of the batch, weighed with the past variance.

    For forms of several arms the variance is pooled over all arms of the batch, which must have it in common. For a
    form of one arm, and against a level, it is that arm's own: variances may differ there, and what is won on different
    arms may be multiplied.
    """

    def variance(self, past: Past) -> Floats:
        """The pooled variance within arms and batches; 1 as long as there is none."""
        freedom = total(past.freedom)
        return np.where(freedom > 0, np.maximum(total(past.spreads), 1e-300) / np.maximum(freedom, 1.0), 1.0)

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """On the form of the batch's means, over the batch's pooled standard deviation, or the one arm's own."""
        pieces = forecast.pieces
        means, spread = _batch(batch)
        square, dof = self._squares(batch, pieces)
        new = at(means, pieces) - pieces.offsets
        before = (forecast.value, self._past_variance(known), forecast.leverage)
        return _placed(bets.student_bet, need, *before, new, square, squares_at(spread, pieces), dof)

    @quiet
    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """On the distance of each arm's mean from the level, over that arm's own standard deviation."""
        sign = np.where(above, 1.0, -1.0)
        means, spread = _batch(batch)
        dof = np.maximum(batch.counts - 1.0, 0.0)
        square = _spreads(batch) / np.maximum(dof, 1.0)
        before = (sign * (known.past.means - level), self._past_variance(known), 1.0 / known.past.counts)
        return _placed(bets.student_bet, need, *before, sign * (means - level), square, spread, dof)

    @quiet
    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """On the form of the batch's means, over the deviation that `form` has."""
        means, spread = _batch(batch)
        new, leverage = at(means, pieces), squares_at(spread, pieces)
        square, dof = self._squares(batch, pieces)
        possible = (square > 0) & (dof >= 1)
        sizes = np.where(possible, drifts * np.sqrt(squares_at(1.0 / units, pieces) / leverage), 0.0)
        error, dof = np.sqrt(np.where(possible, square * leverage, 1.0)), np.where(possible, dof, 1.0)
        return lambda offsets: bets.steady_student_bet(sizes, new - offsets, error, dof)

    def _squares(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """The variance within the arms of the batch that each form is measured with, and its degrees of freedom."""
        each, freedom = _spreads(batch), np.maximum(batch.counts - 1.0, 0.0)
        spreads, dof = total(each)[..., None], total(freedom)[..., None]
        if not pieces.pairs:
            single, arm, _ = singles_among(pieces)
            spreads, dof = np.where(single, _of(each, arm), spreads), np.where(single, _of(freedom, arm), dof)
        return spreads / np.maximum(dof, 1.0), dof

    def _past_variance(self, known: Known) -> Floats:
        """The guess at the variance, 0 (no bet) as long as there is none."""
        return np.where(total(known.past.freedom) > 0, known.variance, 0.0)[..., None]


@dataclass(frozen=True)
class PoissonBettor:
    """Counts of events: likelihood ratios of Poisson laws."""

    def variance(self, past: Past) -> Floats:
        """The smoothed rate, averaged over all pulls."""
        return (total(past.totals) + 0.5) / (total(past.counts) + 0.5)

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """Two rates, an offset apart; a single rate against a level; or any other form."""
        pieces, past = forecast.pieces, known.past
        pair = pairs_among(pieces)
        logs = zeros(need.shape)
        if pair.any():
            sums = (*_pair(past, pieces), *_pair(batch, pieces))
            logs = _placed(bets.poisson_difference_bet, np.where(pair, need, 0.0), *sums, pieces.offsets)
        if pair.all():
            return logs
        single, arm, factor = singles_among(pieces)
        level = pieces.offsets / factor
        single &= level > 0
        each = [_of(values, arm) for values in (past.totals, past.counts, batch.totals, batch.counts)]
        logs = logs + _placed(bets.poisson_level_bet, np.where(single, need, 0.0), *each, level, factor > 0)
        return logs + self._others(past, batch, pieces, np.where(pair | single, 0.0, need))

    def _others(self, past: Past, batch: Batch, pieces: Halfspaces, need: Floats) -> Floats:
        """The bet that there is for any form."""
        wanted = need > 0
        logs = zeros(need.shape)
        if wanted.any():
            shape = (*need.shape, pieces.arms.shape[-1])
            sums = [all_arms(each, pieces) for each in (past.totals, past.counts, batch.totals, batch.counts)]
            factors, *rest = (np.broadcast_to(each, shape)[wanted] for each in (pieces.coefficients, *sums))
            offsets = np.broadcast_to(pieces.offsets, need.shape)[wanted]
            past_events, past_exposure, events, exposure = rest
            logs[wanted] = bets.poisson_form_bet(factors, past_events, past_exposure, events, exposure, offsets)
        return logs

    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """A Poisson rate against the level; against 0, the bet that there is for any form."""
        sums = (known.past.totals, known.past.counts, batch.totals, batch.counts)
        logs = _placed(bets.poisson_level_bet, need, *sums, np.asarray(level), np.asarray(above))
        edge = np.where((np.asarray(level) > 0) | ~np.asarray(above), 0.0, need)
        if not edge.any():
            return logs
        arms = np.broadcast_to(np.arange(need.shape[-1])[:, None], (*need.shape, 1))
        offsets = np.broadcast_to(np.asarray(level, dtype=np.float64), need.shape)
        return logs + self._others(known.past, batch, Halfspaces(arms, np.ones(arms.shape), offsets, False), edge)

    @quiet
    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """The bet that there is for any form."""
        factors, squares = pieces.coefficients, pieces.coefficients**2
        totals, counts, unit, events, exposure = (
            all_arms(each, pieces) for each in (past.totals, past.counts, units, batch.totals, batch.counts)
        )
        noise = np.where(squares > 0, squares * (totals + 0.5) / counts, 0.0)  # half an event added
        spread, new = (total(np.where(squares > 0, noise / each, 0.0)) for each in (unit, exposure))
        sizes = drifts * np.sqrt(spread) / new
        return lambda offsets: bets.steady_poisson_bet(sizes, factors, events, exposure, offsets)


@dataclass(frozen=True)
class BoundedBettor:
    """Rewards in [low, high] from their values, which adapts to a small variance; from sums alone, sigma = range/2."""

    low: float
    high: float

    def variance(self, past: Past) -> Floats:
        """The variance within arms and batches, a few results of the largest variance added; from sums range^2/4."""
        most = (self.high - self.low) ** 2 / 4
        return (total(past.spreads) + most) / (total(past.freedom) + 1.0)

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """Products over the values of two arms, an offset apart; for other forms or from sums, sub-Gaussian."""
        pieces, width = forecast.pieces, self.high - self.low
        pair = pairs_among(pieces) & (np.abs(pieces.offsets) < width) & (batch.table is not None)
        logs = zeros(need.shape)
        if not pair.all():
            logs = GaussianBettor(width / 2).form(known, batch, forecast, np.where(pair, 0.0, need))
        if batch.table is None or not pair.any():
            return logs
        sums = [arm_of(each, pieces, s) for s in (0, 1) for each in self._scaled(known.past)]
        columns = np.moveaxis(batch.table.counts, -1, 0)
        rows = [np.stack([arm_of(column, pieces, s) for column in columns], axis=-1) for s in (0, 1)]
        needs = np.where(pair, need, 0.0)
        return logs + self._placed(
            bets.bounded_difference_bet, needs, batch.table, sums, rows, [pieces.offsets / width]
        )

    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """A product over the values of each arm; from sums, or at an end of the range, sub-Gaussian."""
        plain = GaussianBettor((self.high - self.low) / 2)
        if batch.table is None:
            return plain.level(known, batch, level, above, need)
        tau = (np.asarray(level) - self.low) / (self.high - self.low)
        edge = np.where((tau > 0) & (tau < 1), 0.0, need)
        logs = self._placed(
            bets.bounded_level_bet,
            need,
            batch.table,
            list(self._scaled(known.past)),
            [batch.table.counts],
            [tau, above],
        )
        return logs + plain.level(known, batch, level, above, edge) if edge.any() else logs

    @quiet
    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """As `form`; single arms by a product over their values."""
        single, pair = singles_among(pieces)[0], pairs_among(pieces)
        other = GaussianBettor((self.high - self.low) / 2).steady(past, batch, pieces, units, drifts)
        if batch.table is None or not (single | pair).any():
            return other
        values = (batch.table.values.reshape(-1, batch.table.values.shape[-1])[0] - self.low) / (self.high - self.low)
        seen = values, batch.table.counts, (*self._scaled(past), units)
        at_level = self._at_level(*seen, pieces, drifts) if single.any() else other
        at_margin = self._at_margin(*seen, pieces, drifts) if pair.any() else other

        def logs(offsets: Floats) -> Floats:
            return np.where(single, at_level(offsets), np.where(pair, at_margin(offsets), other(offsets)))

        return logs

    def _at_level(
        self, values: Floats, table: Floats, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> Steady:
        """Single arms, which lie above (offset / factor), or below if the factor is negative."""
        _, arm, factor = singles_among(pieces)
        totals, squares, counts, units = (_of(each, arm) for each in sums)
        noise = (bets.spread(totals, squares, counts) + 0.25) / (counts + 1.0)  # a row of the largest variance added
        drift = drifts * np.sqrt(noise / units)
        sizes, rows = drift / (noise + drift**2), np.take_along_axis(table, arm[..., None], axis=-2)
        width = self.high - self.low
        return lambda offsets: bets.steady_level_bet(
            sizes, values, rows, (offsets / factor - self.low) / width, factor > 0
        )

    def _at_margin(
        self, values: Floats, table: Floats, sums: tuple[Floats, ...], pieces: Halfspaces, drifts: Floats
    ) -> Steady:
        """Two arms, an offset apart."""
        (past_a, square_a, N_a, unit_a), (past_b, square_b, N_b, unit_b) = (
            [arm_of(each, pieces, s) for each in sums] for s in (0, 1)
        )
        a, b = (np.take_along_axis(table, pieces.arms[..., s, None], axis=-2) for s in (0, 1))
        n_a, n_b = a.sum(axis=-1), b.sum(axis=-1)
        m = bets.centre(past_a, N_a, past_b, N_b, n_a, n_b)
        noise = bets.spread(past_a, square_a, N_a) + bets.spread(past_b, square_b, N_b) + m * (1.0 - m)
        noise = noise / (N_a + N_b + 1.0)
        drift = drifts * np.sqrt(noise * (1.0 / unit_a + 1.0 / unit_b))
        sizes = drift / (noise + drift**2 * n_a * n_b / (n_a + n_b) ** 2)
        return lambda offsets: bets.steady_difference_bet(sizes, m, values, a, b, offsets / (self.high - self.low))

    def _scaled(self, past: Past) -> tuple[Floats, Floats, Floats]:
        """Totals, sums of squares and counts of the past, of values moved to [0, 1]; sums alone count as widest."""
        width = self.high - self.low
        counts = np.maximum(past.counts, 1.0)
        mean = np.clip((past.totals / counts - self.low) / width, 0.0, 1.0)
        unknown = past.counts - past.freedom  # results whose spread was not seen (at least one a batch)
        spread = past.spreads / width**2 + unknown * mean * (1.0 - mean)
        squares = np.minimum(spread + past.counts * mean**2, past.counts * mean)
        return past.counts * mean, squares, past.counts

    def _placed(
        self,
        bet: Callable[..., Floats],
        need: Floats,
        table: Table,
        sums: list[Floats],
        rows: list[Floats],
        others: list[Floats | Bools],
    ) -> Floats:
        """As `_placed`, with tables of values among the inputs."""
        wanted = need > 0
        logs = np.zeros(need.shape)
        if wanted.any():
            values = (table.values.reshape(-1, table.values.shape[-1])[0] - self.low) / (self.high - self.low)
            some = [np.broadcast_to(each, need.shape)[wanted] for each in sums]
            counted = [np.broadcast_to(each, (*need.shape, each.shape[-1]))[wanted] for each in rows]
            last = [np.broadcast_to(each, need.shape)[wanted] for each in others]
            logs[wanted] = bet(*some, values, *counted, *last)
        return logs


def pairs_among(pieces: Halfspaces) -> Bools:
    """Which pieces say that their first arm exceeds their second by the offset, and nothing else. (P)"""
    if pieces.pairs:
        return np.ones(pieces.offsets.shape, dtype=np.bool_)
    factors = pieces.coefficients
    if factors.shape[-1] < 2:
        return np.zeros(factors.shape[:-1], dtype=np.bool_)
    return (factors[..., 0] == 1) & (factors[..., 1] == -1) & (factors[..., 2:] == 0).all(axis=-1)


def singles_among(pieces: Halfspaces) -> tuple[Bools, NDArray[np.intp], Floats]:
    """Which pieces are about one arm only, and of each piece the arm that counts most and its factor. (P)"""
    factors = pieces.coefficients
    here = np.abs(factors).argmax(axis=-1)[..., None]
    arm = np.take_along_axis(pieces.arms, here, axis=-1)[..., 0]
    factor = np.take_along_axis(factors, here, axis=-1)[..., 0]
    return np.asarray((factors != 0).sum(axis=-1) == 1), arm, factor


def _spreads(batch: Batch) -> Floats:
    return np.zeros_like(batch.counts) if batch.spreads is None else batch.spreads


def _placed(bet: Callable[..., Floats], need: Floats, *inputs: Floats | Bools) -> Floats:
    """The bet where something is needed, 0 elsewhere: bets are elementwise, so only those are computed."""
    wanted = (need > 0).transpose()  # runs are contiguous, so the transpose is faster to pick from
    logs = zeros(need.shape)
    if wanted.any():
        logs.transpose()[wanted] = bet(*(np.broadcast_to(each, need.shape).transpose()[wanted] for each in inputs))
    return logs


def _batch(batch: Batch) -> tuple[Floats, Floats]:
    """Means of a batch, and 1/counts: infinite, hence no bet, for an arm without results."""
    with np.errstate(divide="ignore"):
        return batch.totals / np.maximum(batch.counts, 1.0), 1.0 / batch.counts


def _pair(sums: Past | Batch, pieces: Halfspaces) -> tuple[Floats, Floats, Floats, Floats]:
    """Total and count of the first arm of each piece, then of the second."""
    return (
        arm_of(sums.totals, pieces, 0),
        arm_of(sums.counts, pieces, 0),
        arm_of(sums.totals, pieces, 1),
        arm_of(sums.counts, pieces, 1),
    )


def _of(values: Floats, arm: NDArray[np.intp]) -> Floats:
    """The values of one arm of each piece. (K)->(P)"""
    runs = np.broadcast_shapes(values.shape[:-1], arm.shape[:-1])
    values, arm = np.broadcast_to(values, (*runs, values.shape[-1])), np.broadcast_to(arm, (*runs, arm.shape[-1]))
    return np.take_along_axis(values, arm, axis=-1)
