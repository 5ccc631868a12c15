"""How large the bets of bounds are once there is a past: one size for all values, aimed at where the bound will end.

Of all values m, the one matters that would just be ruled out at the end of the batch if the estimate were true: with z
the estimate's distance from m in standard errors of the rest of the batch, and need(m) what is still to be won against
m, that is where z^2/2 is about need(m). The bets on the next part have stake and slope that suit this m (`slopes`), and
are placed against every m alike. So what is won falls in m, as with any sizes that do not depend on it, and what is
ruled out is a half-line (docs/why-the-guarantee-holds.md, Proposition 11).

What was won against each m is reckoned here as if results were normal, at points of a grid: it sizes bets, and proves
nothing. The bets themselves are those of the noise model (`Noise.steady`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, log_sum_exp, total
from roundwise.model.batch import Batch, part_shares_of_rest
from roundwise.model.estimates import Estimates, Past, arm_of, form_values, form_variances
from roundwise.noise import Noise
from roundwise.noise.base import FixedSizeBet
from roundwise.noise.bets import is_pair, means_and_inverse_counts, single_arms, take_arm
from roundwise.noise.crossed import at_pairs
from roundwise.questions.base import Halfspaces, quiet
from roundwise.rules.eprocess.bet_sizes import BOLDEST_PART, LEAST_RATIO, NEED_STEPS, SHAPE, slopes
from roundwise.rules.eprocess.part_bets import table_cells
from roundwise.rules.eprocess.parts_as_batches import PartBatches, parts_to_batches

SMALL = 0.15  # a batch that adds no more than this share to what is known of any form is bet on as a whole
VALUES = 32  # and so is one of rows, if those before had more distinct values than this: it takes too long otherwise
SOONER, BOLD = 0.05, 0.3  # one that adds no more to a form than this times the batches before it, and this at most,
# is bet on with less to jump for (`slopes.JUMPS`)
SHORT = 0.4  # standard errors by which the aim falls short of what the estimate promises
RESERVE = 0.0004  # times bar^3: how far ahead of the results drifts join what is aimed
_POINTS = 16  # of the grid
_ABOVE, _BELOW = 2.5, 3.0  # where it ends: standard errors above the estimate, and beyond sqrt(2 bar) below it
_NOTHING = -1e4  # log of no money
_MOST = 600.0  # log of what a bet multiplies, at most

Gain = Callable[[Floats], Floats]  # values (P) -> log of what the batch multiplies, which falls in the value (P)


class Aimed(NamedTuple):
    """One batch: which drifts join the money that is aimed before it, and what it multiplies that money with."""

    joins: Bools  # (k, P)
    moved: int  # so many drifts, the first ones, have joined for every form
    gain: Gain


class _Stand(NamedTuple):
    """What is known of the forms before a batch, and how much it will tell. (P) each"""

    estimate: Floats
    past: Floats  # variance of the estimate
    new: Floats  # and of the form of the batch's means
    live: Bools  # where both can be reckoned with
    batches: int  # before it


class Course:
    """The batches one after the other: what is known and was won, as far as sizes need it."""

    def __init__(self, noise: Noise, bar: float, units: Floats, drifts: Floats, log_weights: Floats) -> None:
        self.noise, self.bar, self.units = noise, bar, units
        self.drifts, self.log_weights = drifts, log_weights  # (k, 1, ...)
        self.joined: Bools | None = None  # (k, P)
        self.moved = 0
        self.values = 0  # distinct values of rows that were seen in a batch, at most
        self.low = self.step = self.money = np.zeros(0)  # of the grid: (P), (P), (G, P)

    @quiet
    def batch(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, earlier: Sequence[FixedSizeBet]
    ) -> Aimed | None:
        """The bets on one more batch; None if it has no past. `earlier` are the bets of all drifts before."""
        past, shared = known.past, self.noise.shares_items
        spread = Spread(_variances(self.noise, past), self.noise.difference_variances(past, pieces) if shared else None)
        before = Batch(past.counts, past.totals, pairs=None if past.pairs is None else Batch(*past.pairs[:2]))
        mean, variance = spread.told(before, pieces)
        new = spread.told(batch, pieces)[1]
        live = np.isfinite(variance) & np.isfinite(new) & (variance > 0) & (new > 0)
        if not live.any():
            return None
        mean = mean if shared else _without_shifts(known, pieces, mean)
        mean, variance, new = (np.where(live, each, 1.0) for each in (mean, variance, new))
        stand = _Stand(mean, variance, new, live, past.batches)
        joins = self._joining(stand, np.where(live, spread.units(self.units, pieces), 1.0), earlier)
        small = (stand.past <= SMALL * (stand.past + stand.new)).all()
        whole = small or batch.parts is None or self.values > VALUES
        parts = None if whole or batch.parts is None else parts_to_batches(past, batch.parts, pieces, live.shape)
        return Aimed(joins, self.moved, self._played(past, batch, pieces, parts, stand, spread))

    def seen(self, batch: Batch) -> None:
        """Keep of a batch that was bet on what the next ones need."""
        tables = [each.table for each in (batch, batch.pairs) if each is not None and each.table is not None]
        self.values = max([self.values, *(int(table.values.shape[-1]) for table in tables)])

    def _joining(self, stand: _Stand, units: Floats, earlier: Sequence[FixedSizeBet]) -> Bools:
        """Which drifts join now, and their money with what is aimed."""
        estimate, past, new, live, _ = stand
        drift = self.drifts * np.sqrt(units)
        reach = RESERVE * self.bar**3 * math.sqrt(2 * self.bar)
        ready = live & (drift >= reach / np.sqrt(1.0 / past + 1.0 / new))
        ready[-1] = False
        joins = ready if self.joined is None else ready & ~self.joined
        self.joined = ready if self.joined is None else self.joined | ready
        self.moved = int(np.argmin(self.joined.reshape(len(ready), -1).all(axis=1)))
        first = not self.money.size
        points = self._moved_to(estimate, past)
        some = np.flatnonzero(joins.reshape(len(joins), -1).any(axis=1))
        if some.size:
            if first:
                won = np.stack([sum((bet(each) for bet in earlier), self.log_weights)[some] for each in points], axis=1)
            else:
                size = drift[some, None]
                won = self.log_weights[some, None] + size * (estimate - points - size / 2) / past
            self.money = np.logaddexp(self.money, log_sum_exp(np.where(joins[some, None], won, _NOTHING)))
        return joins

    def _moved_to(self, estimate: Floats, past: Floats) -> Floats:
        """The grid where the bound may end after this batch, with what was won there. (G, P)"""
        error, below = np.sqrt(past), math.sqrt(2 * self.bar) + _BELOW
        low, step = estimate - below * error, (below + _ABOVE) / (_POINTS - 1) * error
        points = low + np.arange(_POINTS).reshape(-1, *(1,) * low.ndim) * step
        if self.money.size:
            place = (points - self.low) / self.step
            left = np.clip(place.astype(np.intp), 0, _POINTS - 2)
            one, other = (np.take_along_axis(self.money, left + i, axis=0) for i in (0, 1))
            self.money = one + (place - left) * (other - one)
        else:
            self.money = np.full(points.shape, _NOTHING)
        self.low, self.step = low, step
        return points

    def _played(
        self, past: Past, batch: Batch, pieces: Halfspaces, lined: PartBatches | None, stand: _Stand, spread: Spread
    ) -> Gain:
        """The sizes of all parts, one after the other, and the bets of these sizes."""
        if lined is None:
            value, variance = (each[..., None, None, :] for each in spread.told(batch, pieces))
        else:
            value, variance = spread.of_parts.told(lined.parts, lined.pieces)
        sizes, stakes = self._sizes(value, 1.0 / variance, stand, _under(self.noise, spread.own, pieces))
        if lined is None:
            sizes, stakes = sizes[..., 0, 0, :], stakes[..., 0, 0, :]
            whole = self.noise.fixed_size_bet(past, batch, pieces, batch.counts, sizes[None])
            return lambda values: _won(whole(values)[0], stakes)
        each = self.noise.fixed_size_bet(lined.past, lined.parts, lined.pieces, lined.parts.counts, sizes[None])
        return lambda values: _average(_won(each(values[..., None, None, :])[0], stakes).sum(axis=-2))

    def _sizes(
        self, value: Floats, ahead: Floats, stand: _Stand, under: Callable[[Floats], Floats | float]
    ) -> tuple[Floats, Floats]:
        """Slopes and stakes of all parts, from the form in each and its precision. (M, C, P)"""
        money = np.repeat(self.money[..., None, :], value.shape[-3], axis=-2)  # (G, M, P)
        low, step, estimate, past, new = (each[..., None, :] for each in (self.low, self.step, *stand[:3]))
        live = stand.live[..., None, :]
        points = low + np.arange(_POINTS).reshape(-1, *(1,) * low.ndim) * step
        bold = past > min(BOLD, SOONER * stand.batches) * (past + new)
        kappa = part_shares_of_rest(value.shape[-2])
        precision, mean = (np.broadcast_to(each, money.shape[1:]) for each in (1.0 / past, estimate))
        sizes, stakes = np.zeros(value.shape), np.zeros(value.shape)
        for p, share in enumerate(kappa):
            here = live & (ahead[..., p, :] > 0)
            seen, at_part = np.where(here, ahead[..., p, :], 0.0), np.where(here, value[..., p, :], 0.0)
            rest = seen / share
            needs = np.maximum(self.bar - money, 0.0)
            spare = (mean - points) * np.sqrt(rest) + SHORT - np.sqrt(2.0 * needs)  # it falls along the grid
            place = np.clip((spare >= 0).sum(axis=0) - 1, 0, _POINTS - 2)
            one, other = _around(spare, place)
            part = np.clip(one / np.where(one > other, one - other, 1.0), 0.0, 1.0)
            need, more = _around(needs, place)
            aim = low + (place + part) * step
            q, stake = _sized((mean - aim) * np.sqrt(precision), rest / precision, need + part * (more - need), bold)
            q = np.where(here, np.minimum(q * (math.sqrt(share) * under(aim)), BOLDEST_PART), 0.0)
            sizes[..., p, :], stakes[..., p, :] = q, stake
            money += _won(q * ((at_part - points) * np.sqrt(seen) - q / 2), stake)
            mean = (precision * mean + seen * at_part) / (precision + seen)
            precision = precision + seen
        self.money = _average(money)
        return sizes, stakes


def _around(values: Floats, place: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """At a place of the grid and at the next one. (G, M, P)->(M, P)"""
    one, other = (np.take_along_axis(values, place[None] + i, axis=0)[0] for i in (0, 1))
    return one, other


class Spread(NamedTuple):
    """A guess at the variance of one result of each arm, and of the difference of two arms on an item."""

    own: Floats  # (K)
    apart: Floats | None  # (P), where arms are tried on the same items

    @property
    def of_parts(self) -> Spread:
        """The same for parts of dealings."""
        apart = self.apart
        return Spread(self.own[..., None, None, :], None if apart is None else apart[..., None, None, :])

    def told(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
        """Forms of the means of results, and their variance; two arms by their items, if they have any. (P), (P)"""
        means, per_row = means_and_inverse_counts(batch)
        value, variance = form_values(means, pieces), form_variances(self.own * per_row, pieces)
        if self.apart is None:
            return value, variance
        pair = is_pair(pieces)
        if batch.pairs is None:
            return value, np.where(pair, np.inf, variance)
        between, per_item = means_and_inverse_counts(at_pairs(batch.pairs, batch.counts.shape[-1], pieces))
        return np.where(pair, between, value), np.where(pair, self.apart * per_item, variance)

    def units(self, counts: Floats, pieces: Halfspaces) -> Floats:
        """The variance of the forms after so many results an arm. (P)"""
        found = form_variances(self.own / counts, pieces)
        if self.apart is None or (pieces.arms.shape[-1] < 2 and not pieces.each):
            return found
        items = np.minimum(arm_of(counts, pieces, 0), arm_of(counts, pieces, 1))
        return np.where(is_pair(pieces), self.apart / items, found)


def _without_shifts(known: Estimates, pieces: Halfspaces, pooled: Floats) -> Floats:
    """The estimate of each form: of one that compares arms from differences within batches. (P)"""
    factors = pieces.coefficients
    compares = pieces.pairs or np.abs(total(factors)) <= 1e-12 * total(np.abs(factors))
    return np.where(compares, form_values(known.means, pieces), pooled)


def _variances(noise: Noise, past: Past) -> Floats:
    """A guess at the variance of one result of each arm. (K)"""
    family = noise.family
    if family is None or not noise.outcome.whole:
        return noise.variances(past)
    return family.variance((past.totals + 0.5) / (past.counts + 1.0))


def _under(noise: Noise, own: Floats, pieces: Halfspaces) -> Callable[[Floats], Floats | float]:
    """What makes slopes right at values of single rates, where results vary otherwise than they do. (M, P)"""
    family, (single, arm, factor) = noise.family, single_arms(pieces)
    if family is None or not noise.outcome.whole or not single.any():
        return lambda values: 1.0
    usual, factor = take_arm(own, arm)[..., None, :], np.where(single, factor, 1.0)[..., None, :]

    def ratio(values: Floats) -> Floats:
        inside = np.clip(values / factor, family.low + 1e-9, family.high - 1e-9)
        return np.where(single[..., None, :], np.sqrt(np.clip(usual / family.variance(inside), 0.1, 10.0)), 1.0)

    return ratio


def _sized(z: Floats, ratio: Floats, need: Floats, bold: Bools) -> tuple[Floats, Floats]:
    """Slope and stake for a past z, past variance over that of the rest, and a need."""
    few = np.sqrt(np.minimum(ratio / LEAST_RATIO, 1.0))
    root = np.minimum(np.sqrt(np.maximum(need * float(NEED_STEPS**2), 0.25)) + 0.5, SHAPE[2] - 0.5)
    place = table_cells(np.array(z), np.array(ratio)) + root.astype(np.int64)
    slope, stake = (each.take(place, mode="clip") for each in slopes(0))
    if not bold.all():
        other, less = (each.take(place, mode="clip") for each in slopes(-1))
        slope, stake = np.where(bold, slope, other), np.where(bold, stake, less)
    return slope.astype(np.float64) * few, stake.astype(np.float64)


def _won(logs: Floats, stakes: Floats) -> Floats:
    """log of what bets with these log factors and stakes multiply."""
    return np.log1p(stakes * np.expm1(np.minimum(logs, _MOST)))


def _average(logs: Floats) -> Floats:
    """log of the average over the dealings. (M, P)->(P)"""
    if logs.shape[-2] == 1:
        return np.asarray(logs[..., 0, :])
    top = logs.max(axis=-2)
    return np.log(np.exp(logs - top[..., None, :]).mean(axis=-2)) + top
