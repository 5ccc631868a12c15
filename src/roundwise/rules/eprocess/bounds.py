"""Bounds that hold at every time at once and agree with the decision.

For a quantity (a mean, a difference, a form of the means) and every number m there are bets on its exceeding m. Their
sizes do not depend on m, so what is won falls in m: the numbers that are ruled out are a half-line, and the bound is
its end. In the first batch the stake is spread over many drifts; from then on more and more of it is bet where the
bound will end (`BoundBetSchedule`). Whether the value m0 that is asked about is ruled out is left to the bets of the
decision: a bound passes m0 just when those say that it is shown (docs/why-the-guarantee-holds.md, Proposition 11).

Where a bound will end: of all values m, the one matters that would just be ruled out at the end of the batch if the
estimate were true. With z the estimate's distance from m in standard errors of the rest of the batch, and need(m) the
log of what must still be won against m, that is where z^2/2 is about need(m). The bets on the next part have stake and
slope that suit this m (`bet_sizes`), and are placed against every m alike. The wealth against each m is approximated
here as if results were normal, at points of a grid: it sizes bets, and proves nothing. The bets themselves are those of
the noise model (`Noise.fixed_size_bet`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, log_sum_exp, quiet, total
from roundwise.deadline import check_deadline
from roundwise.model.batch import Batch, Parts, ValueTable, part_shares_of_rest
from roundwise.model.estimates import Estimates, Past, arm_of, cube_freedom, form_values, form_variances
from roundwise.model.problem import Problem
from roundwise.noise import Noise
from roundwise.noise.base import FixedSizeBet
from roundwise.noise.bets import is_pair, means_and_inverse_counts, single_arms, take_arm
from roundwise.noise.paired import at_pairs
from roundwise.rules.base import Interval
from roundwise.rules.eprocess.bet_sizes import BOLDEST_PART, LEAST_RATIO, NEED_STEPS, SHAPE, slopes
from roundwise.rules.eprocess.engine import RuleState, table_cells
from roundwise.solvers.halfspaces import Halfspaces, pairs, range_of_forms

MOST_PARTITIONS, FEWEST_PARTITIONS = 16, 4  # at most, and for very many forms
_ROOM = 2000  # forms times partitions
PARTS = 6  # of each, at most: neighbours are put together


class PartBatches(NamedTuple):
    """The parts, what was known before each, and forms of their means."""

    past: Past  # (M, C, K)
    parts: Batch  # (M, C, K)
    pieces: Halfspaces  # (M, C, P, S)


def parts_to_batches(past: Past, parts: Parts, pieces: Halfspaces, shape: tuple[int, ...]) -> PartBatches:
    """A batch in parts, with forms of this shape."""
    some = int(np.clip(_ROOM // max(shape[-1], 1), FEWEST_PARTITIONS, MOST_PARTITIONS))
    own = _batches(parts, some)
    known = _known(past, own)
    if parts.pairs is not None:
        own = own._replace(pairs=_batches(parts.pairs, some))
        before = Past.none((*past.counts.shape[:-1], past.counts.shape[-1] ** 2)) if past.pairs is None else past.pairs
        known = known._replace(pairs=_known(before, own.pairs or own))
    wide = (*shape[:-1], *own.totals.shape[-3:-1], shape[-1])

    def spread(array: Array) -> Array:
        """Forms (P, S) for every part."""
        return np.broadcast_to(array.reshape(*array.shape[:-2], 1, 1, *array.shape[-2:]), (*wide, array.shape[-1]))

    factors = None if pieces.factors is None else spread(pieces.factors)
    forms = pieces._replace(arms=spread(pieces.arms), factors=factors, offsets=np.broadcast_to(np.zeros(()), wide))
    return PartBatches(known, own, forms)


def _known(past: Past, parts: Batch) -> Past:
    """The estimates before each part."""

    def before(start: Floats, each: Floats) -> Floats:
        return start[..., None, None, :] + np.cumsum(each, axis=-2) - each

    scatter, freedom = parts.scatter, np.maximum(parts.counts - 1.0, 0.0)
    if scatter is None:
        scatter = freedom = np.zeros(parts.totals.shape)
    return Past(
        before(past.counts, parts.counts),
        before(past.totals, parts.totals),
        before(past.scatter, scatter),
        before(past.freedom, freedom),
        (),
        cubes=None if past.cubes is None or parts.cubes is None else before(past.cubes, parts.cubes),
        cube_freedom=None if past.cube_freedom is None else before(past.cube_freedom, cube_freedom(parts.counts)),
    )


def _batches(parts: Parts, partitions: int) -> Batch:
    """The first partitions, with neighbouring parts joined, so that they end where fewer parts end."""
    some = (..., slice(partitions), slice(None), slice(None))
    counts, totals = parts.counts[some], parts.totals[some]
    scatter = None if parts.scatter is None else parts.scatter[some]
    cubes = None if parts.cubes is None else parts.cubes[some]
    rows = None if parts.table is None else parts.table.counts[(*some, slice(None))]
    while totals.shape[-1] > PARTS and totals.shape[-1] % 2 == 0:
        if scatter is not None:
            cubes = None if cubes is None else _joined_cubes(counts, totals, scatter, cubes)
            scatter = _halved(scatter) + _between(counts, totals)
        counts, totals = _halved(counts), _halved(totals)
        rows = None if rows is None else rows[..., ::2, :] + rows[..., 1::2, :]
    totals = np.moveaxis(totals, -1, -2)
    return Batch(
        np.broadcast_to(np.moveaxis(counts, -1, -2), totals.shape),
        totals,
        None if scatter is None else np.moveaxis(scatter, -1, -2),
        None if parts.table is None or rows is None else ValueTable(parts.table.values, np.moveaxis(rows, -2, -3)),
        cubes=None if cubes is None else np.moveaxis(cubes, -1, -2),
    )


def _halved(values: Floats) -> Floats:
    """Neighbours added."""
    return values[..., ::2] + values[..., 1::2]


def _between(counts: Floats, totals: Floats) -> Floats:
    """The scatter between the means of two neighbors."""
    means = totals / np.maximum(counts, 1.0)
    both = counts[..., ::2] * counts[..., 1::2] / np.maximum(_halved(counts), 1.0)
    return both * (means[..., ::2] - means[..., 1::2]) ** 2


def _joined_cubes(counts: Floats, totals: Floats, scatter: Floats, cubes: Floats) -> Floats:
    """The cubes of neighbours about their common mean."""
    mean = _halved(totals) / np.maximum(_halved(counts), 1.0)
    off = totals / np.maximum(counts, 1.0) - np.repeat(mean, 2, axis=-1)
    return _halved(cubes + 3 * off * scatter + counts * off**3)


SMALL = 0.15  # a batch that adds no more than this share to what is known of any form is bet on as a whole
VALUES = 32  # and so is one of rows, if those before had more distinct values than this: it takes too long otherwise
SOONER, BOLD = 0.05, 0.3  # one that adds no more to a form than this times the batches before it, and this at most,
# is bet on with less to jump for (`bet_sizes.TABLES`)
SHORT = 0.4  # standard errors by which the aim falls short of what the estimate promises
RESERVE = 0.0004  # times bar^3: how far ahead of the results drifts join what is aimed
_POINTS = 16  # of the grid
_ABOVE, _BELOW = 2.5, 3.0  # where it ends: standard errors above the estimate, and beyond sqrt(2 bar) below it
_NOTHING = -1e4  # log of no wealth
_MOST = 600.0  # log of what a bet multiplies, at most

Gain = Callable[[Floats], Floats]  # values (P) -> log of what the batch multiplies, which falls in the value (P)


class ScheduledBets(NamedTuple):
    """One batch: which drifts join the wealth that is aimed before it, and what it multiplies that wealth with."""

    joins: Bools  # (k, P)
    moved: int  # this many drifts, the first ones, have joined for every form
    gain: Gain


class _Stand(NamedTuple):
    """The estimates of the forms before a batch, and its information. (P) each"""

    estimate: Floats
    past: Floats  # variance of the estimate
    new: Floats  # and of the form of the batch's means
    live: Bools  # where both are positive and finite
    batches: int  # before it


class BoundBetSchedule:
    """The batches one after the other: what is known and was won, as far as sizes need it."""

    def __init__(self, noise: Noise, bar: Floats | float, units: Floats, drifts: Floats, log_weights: Floats) -> None:
        self.noise, self.bar, self.units = noise, bar, units
        self.drifts, self.log_weights = drifts, log_weights  # (k, 1, ...)
        self.joined: Bools | None = None  # (k, P)
        self.moved = 0
        self.values = 0  # distinct values of rows that were seen in a batch, at most
        self.low = self.step = self.wealth = np.zeros(0)  # of the grid: (P), (P), (G, P)

    @quiet
    def batch(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, earlier: Sequence[FixedSizeBet]
    ) -> ScheduledBets | None:
        """The bets on one more batch; None if it has no past. `earlier` are the bets of all drifts before."""
        past, shared = known.past, self.noise.shares_items
        spread = Spread(_variances(self.noise, past), self.noise.difference_variances(past, pieces) if shared else None)
        before = Batch(past.counts, past.totals, pairs=None if past.pairs is None else Batch(*past.pairs[:2]))
        mean, variance = spread.statistics(before, pieces)
        new = spread.statistics(batch, pieces)[1]
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
        return ScheduledBets(joins, self.moved, self._played(past, batch, pieces, parts, stand, spread))

    def seen(self, batch: Batch) -> None:
        """Keep of a batch that was bet on what the next ones need."""
        tables = [each.table for each in (batch, batch.pairs) if each is not None and each.table is not None]
        self.values = max([self.values, *(int(table.values.shape[-1]) for table in tables)])

    def _joining(self, stand: _Stand, units: Floats, earlier: Sequence[FixedSizeBet]) -> Bools:
        """Which drifts join now, and their wealth with what is aimed."""
        estimate, past, new, live, _ = stand
        drift = self.drifts * np.sqrt(units)
        reach = RESERVE * self.bar**3 * np.sqrt(2 * self.bar)
        ready = live & (drift >= reach / np.sqrt(1.0 / past + 1.0 / new))
        ready[-1] = False
        joins = ready if self.joined is None else ready & ~self.joined
        self.joined = ready if self.joined is None else self.joined | ready
        self.moved = int(np.argmin(self.joined.reshape(len(ready), -1).all(axis=1)))
        first = not self.wealth.size
        points = self._moved_to(estimate, past)
        some = np.flatnonzero(joins.reshape(len(joins), -1).any(axis=1))
        if some.size:
            if first:
                won = np.stack([sum((bet(each) for bet in earlier), self.log_weights)[some] for each in points], axis=1)
            else:
                size = drift[some, None]
                won = self.log_weights[some, None] + size * (estimate - points - size / 2) / past
            self.wealth = np.logaddexp(self.wealth, log_sum_exp(np.where(joins[some, None], won, _NOTHING)))
        return joins

    def _moved_to(self, estimate: Floats, past: Floats) -> Floats:
        """The grid where the bound may end after this batch, with what was won there. (G, P)"""
        error, below = np.sqrt(past), np.sqrt(2 * self.bar) + _BELOW
        low, step = estimate - below * error, (below + _ABOVE) / (_POINTS - 1) * error
        points = low + np.arange(_POINTS).reshape(-1, *(1,) * low.ndim) * step
        if self.wealth.size:
            place = (points - self.low) / self.step
            left = np.clip(place.astype(np.intp), 0, _POINTS - 2)
            one, other = (np.take_along_axis(self.wealth, left + i, axis=0) for i in (0, 1))
            self.wealth = one + (place - left) * (other - one)
        else:
            self.wealth = np.full(points.shape, _NOTHING)
        self.low, self.step = low, step
        return points

    def _played(
        self, past: Past, batch: Batch, pieces: Halfspaces, lined: PartBatches | None, stand: _Stand, spread: Spread
    ) -> Gain:
        """The sizes of all parts, one after the other, and the bets of these sizes."""
        if lined is None:
            value, variance = (each[..., None, None, :] for each in spread.statistics(batch, pieces))
        else:
            value, variance = spread.of_parts.statistics(lined.parts, lined.pieces)
        sizes, stakes = self._sizes(value, 1.0 / variance, stand, _under(self.noise, spread.own, pieces))
        if lined is None:
            sizes, stakes = sizes[..., 0, 0, :], stakes[..., 0, 0, :]
            whole = self.noise.fixed_size_bet(past, batch, pieces, batch.counts, sizes[None])
            return lambda values: _won(whole(values)[0], stakes)
        each = self.noise.fixed_size_bet(lined.past, lined.parts, lined.pieces, lined.parts.counts, sizes[None])
        return lambda values: _average_partitions(_won(each(values[..., None, None, :])[0], stakes).sum(axis=-2))

    def _sizes(
        self, value: Floats, ahead: Floats, stand: _Stand, under: Callable[[Floats], Floats | float]
    ) -> tuple[Floats, Floats]:
        """Slopes and stakes of all parts, from the form in each and its precision. (M, C, P)"""
        wealth = np.repeat(self.wealth[..., None, :], value.shape[-3], axis=-2)  # (G, M, P)
        low, step, estimate, past, new = (each[..., None, :] for each in (self.low, self.step, *stand[:3]))
        live = stand.live[..., None, :]
        points = low + np.arange(_POINTS).reshape(-1, *(1,) * low.ndim) * step
        bold = past > min(BOLD, SOONER * stand.batches) * (past + new)
        kappa = part_shares_of_rest(value.shape[-2])
        precision, mean = (np.broadcast_to(each, wealth.shape[1:]) for each in (1.0 / past, estimate))
        sizes, stakes = np.zeros(value.shape), np.zeros(value.shape)
        for p, share in enumerate(kappa):
            here = live & (ahead[..., p, :] > 0)
            seen, at_part = np.where(here, ahead[..., p, :], 0.0), np.where(here, value[..., p, :], 0.0)
            rest = seen / share
            needs = np.maximum(self.bar - wealth, 0.0)
            spare = (mean - points) * np.sqrt(rest) + SHORT - np.sqrt(2.0 * needs)  # it falls along the grid
            place = np.clip((spare >= 0).sum(axis=0) - 1, 0, _POINTS - 2)
            one, other = _around(spare, place)
            part = np.clip(one / np.where(one > other, one - other, 1.0), 0.0, 1.0)
            need, more = _around(needs, place)
            aim = low + (place + part) * step
            q, stake = _sized((mean - aim) * np.sqrt(precision), rest / precision, need + part * (more - need), bold)
            q = np.where(here, np.minimum(q * (math.sqrt(share) * under(aim)), BOLDEST_PART), 0.0)
            sizes[..., p, :], stakes[..., p, :] = q, stake
            wealth += _won(q * ((at_part - points) * np.sqrt(seen) - q / 2), stake)
            mean = (precision * mean + seen * at_part) / (precision + seen)
            precision = precision + seen
        self.wealth = _average_partitions(wealth)
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
        """Return the same for the parts of random partitions."""
        apart = self.apart
        return Spread(self.own[..., None, None, :], None if apart is None else apart[..., None, None, :])

    def statistics(self, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats]:
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
        """The variance of the forms after this many results an arm. (P)"""
        found = form_variances(self.own / counts, pieces)
        if self.apart is None or pieces.arms.shape[-1] < 2:
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
    """Return what corrects slopes at values of single rates, where results have another variance. (M, P)"""
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


def _average_partitions(logs: Floats) -> Floats:
    """log of the average over the partitions. (M, P)->(P)"""
    if logs.shape[-2] == 1:
        return np.asarray(logs[..., 0, :])
    top = logs.max(axis=-2)
    return np.log(np.exp(logs - top[..., None, :]).mean(axis=-2)) + top


_STEP = 0.4  # log of the ratio of one drift to the next
_DRIFTS = 30  # the smallest is the best one once there are 1e10 times as many results as at first
_TAIL = 5.0  # drifts after which their weight has fallen to a quarter
_BOLDEST = 1.2  # the largest drift, in those that would be best if the first results were the last
_HALVINGS = 40  # of the bracket of a bound: to 1e-12 of a few standard errors
_MORE = 4  # steps that may be wasted on the way
_WIDER = 8.0  # by how much the bracket grows as long as it is too small
_WIDEST = 24  # times

WealthAgainst = Callable[[Floats], Iterator[Floats]]  # (P): of values, the log of the wealth after every bet
Excess = Callable[[Floats], Floats]  # (P): of values, which are ruled out where it is at least 0; it falls in them
_GONE = -1e300  # log of the wealth of a drift that was moved


class PlacedBet(NamedTuple):
    """Results to bet on, with wealth, estimates and alternative before them."""

    wealth: Any
    known: Estimates
    alternative: Any
    part: Batch
    first: bool = False  # whether it is the first batch, or a part of it


@dataclass(frozen=True)
class BetHistory:
    """All bets on some batches with what was fixed before each, and what is kept after them."""

    problem: Problem
    placed: list[PlacedBet]
    end: RuleState

    def since(self, first: int) -> BetHistory:
        """Without those before the first."""
        return BetHistory(self.problem, self.placed[first:], self.end)

    def of_means(self, bar: float) -> tuple[Floats, Floats]:
        """The bounds of all means from below, and of their negatives. One run only."""
        arms = self.problem.arms
        return self.bound(means_of(arms, 1.0), bar), self.bound(means_of(arms, -1.0), bar)

    def intervals(self) -> Interval:
        """For each arm one that holds its mean with probability at least 1 - delta, at all times. One run only."""
        return interval(*self.of_means(self.problem.goal + math.log(2)))

    def gap_to_leader(self, leader: int, left: float = 0.0) -> Floats:
        """How far each arm is behind the leader, at most; each holds with probability at least 1 - delta at all times.

        From bets on pairs of arms within a batch, so a shift of a whole batch cancels; 0 for the leader. Whichever of
        the others leads, the bound must hold: that is paid for. One run only. (K)
        """
        every, bar = np.arange(self.problem.arms), self.bar_of_leader(left)
        better, worse = np.full(every.shape, leader), every
        if self.problem.question.lower_is_better:
            better, worse = worse, better
        return np.where(every == leader, 0.0, -self.bound(pairs(worse, better), bar))

    @property
    def leader(self) -> int:
        """The arm that looks best. One run only."""
        return int(self.problem.question.merits(self.end.known.means).argmax())

    def bar_of_leader(self, left: float = 0.0) -> float:
        """log of what must be won against any of the K - 1 others, and those that left because of results."""
        return math.log((self.problem.arms - 1 + left) / self.problem.delta)

    def against(self, control: int) -> Interval:
        """How far each arm is above the control; each holds with probability at least 1 - delta, both ends together.

        From bets on pairs of arms within a batch, as `behind`; the control was named before. One run only. (K)
        """
        every = np.arange(self.problem.arms)
        same, bar = np.full(every.shape, control), self.problem.goal + math.log(2)
        found = interval(self.bound(pairs(every, same), bar), self.bound(pairs(same, every), bar))
        return Interval(*(np.where(every == control, 0.0, each) for each in found))

    def bound(self, forms: Halfspaces, bar: Floats | float, changing: Sequence[Halfspaces] = ()) -> Floats:
        """The end of what is ruled out below each form: the largest value it exceeds, or the least there is. (P)

        Forms may be `changing` from bet to bet to the last, if what is bounded is at least as large as each of them.
        """
        return find_end(self.excess(forms, bar, changing), *locate_forms(self.problem, self.end.known.past, forms))

    def excess(self, forms: Halfspaces, bar: Floats | float, changing: Sequence[Halfspaces] = ()) -> Excess:
        """log of the most that was ever won against each value, less the bar: bets from the first batch to the last."""
        return excess_over(self.wealth_against(forms, bar, changing), bar)

    def wealth_against(
        self, forms: Halfspaces, bar: Floats | float, changing: Sequence[Halfspaces] = ()
    ) -> WealthAgainst:
        """log of what there is against each value after every bet. (P)"""
        drifts, log_weights = drift_ladder(bar, self.end.known.past.first.ndim)
        stages = list(self._stages(changing or [forms] * len(self.placed), bool(changing), bar, drifts, log_weights))

        def wealth(values: Floats) -> Iterator[Floats]:
            logs, aimed = log_weights + np.zeros(values.shape), np.full(values.shape, _GONE)
            for fixed_size, aim in stages:
                if aim is not None:
                    if aim.joins.any():
                        joins = aim.joins[len(log_weights) - len(logs) :]
                        aimed = np.logaddexp(aimed, log_sum_exp(np.where(joins, logs, _GONE)))
                        logs = np.where(joins, _GONE, logs)[aim.moved - (len(log_weights) - len(logs)) :]
                    aimed = aimed + aim.gain(values)
                logs = logs + fixed_size(values)
                yield np.logaddexp(aimed, log_sum_exp(logs.copy()))

        return wealth

    def _stages(
        self, forms: Sequence[Halfspaces], changing: bool, bar: Floats | float, drifts: Floats, log_weights: Floats
    ) -> Iterator[tuple[FixedSizeBet, ScheduledBets | None]]:
        """The bets of each drift on each batch, and those that are aimed."""
        bettor, units = self.problem.noise, self.end.known.past.first
        schedule = BoundBetSchedule(bettor, bar, units, drifts, log_weights)
        earlier: list[FixedSizeBet] = []
        for bet, pieces in zip(self.placed, forms, strict=True):
            if changing and not bet.known.past.history:  # what forms change to comes from the past
                continue
            aim = None if bet.first else schedule.batch(bet.known, bet.part, pieces, earlier)
            earlier.append(bettor.fixed_size_bet(bet.known.past, bet.part, pieces, units, drifts[schedule.moved :]))
            schedule.seen(bet.part)
            yield earlier[-1], aim


def interval(lower: Floats, minus: Floats) -> Interval:
    """The intervals between lower bounds on values and on their negatives."""
    return Interval(lower, np.maximum(lower, -minus))


def match_decision(bound: Floats, asked: Floats | float, shown: Bools) -> Floats:
    """The bound, moved to the side of what is asked on which the decision sees it."""
    return np.where(shown, np.maximum(bound, np.nextafter(asked, np.inf)), np.minimum(bound, asked))


def means_of(arms: int, sign: float, arm: int | slice = slice(None)) -> Halfspaces:
    """The means of all arms or one, or their negatives, as forms."""
    which = np.arange(arms)[arm].reshape(-1, 1)
    return Halfspaces(which, np.full(which.shape, sign), np.zeros(len(which)), False)


def drift_ladder(
    bar: Floats | float, axes: int = 0, number: int = _DRIFTS, step: float = _STEP, tail: float = _TAIL
) -> tuple[Floats, Floats]:
    """Drifts in standard errors of the first results, and the log of their share of the stake. (k), then `axes`"""
    place = np.arange(float(number)).reshape(-1, *(1,) * axes)
    weights = (1.0 + place / tail) ** -2.0
    return _BOLDEST * np.sqrt(2 * np.asarray(bar)) * np.exp(-step * place), np.log(weights / weights.sum())


def excess_over(wealth: WealthAgainst, bar: Floats | float) -> Excess:
    """log of the most that was ever won against each value, less the bar."""

    def most(values: Floats) -> Floats:
        ever = np.full(values.shape, -np.inf)
        for now in wealth(values):
            np.maximum(ever, now, out=ever)
        return ever - bar

    return most


@quiet
def locate_forms(problem: Problem, past: Past, forms: Halfspaces) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """The estimate of each form, its standard error, and the range of its values: where ends are sought. (P) each"""
    variance = np.maximum(problem.noise.variance(past), 1e-300)[..., None]
    error = np.sqrt(variance * form_variances(1.0 / past.counts, forms))
    return form_values(past.means, forms), error, range_of_forms(forms.coefficients, *problem.noise.mean_range)


@quiet
def find_end(excess: Excess, start: Floats, error: Floats, limits: tuple[Floats, Floats]) -> Floats:
    """The end of the values at which the excess is at least 0, a half-line; the least value if there are none."""
    step = np.where(np.isfinite(error), error, 1.0)
    low, high = (np.clip(start + side * step, *limits) for side in (-4.0, 1.0))
    for _ in range(_WIDEST):
        check_deadline()
        more, less = excess(low), excess(high)
        out, into = (more < 0) & (low > limits[0]), (less >= 0) & (high < limits[1])
        if not (out | into).any():
            break
        step = step * _WIDER
        low = np.where(out, np.clip(start - step, *limits), low)
        high = np.where(into, np.clip(start + step, *limits), high)
    else:
        more, less = excess(low), excess(high)
    found, inside = more >= 0, (more >= 0) & (less < 0)
    width = np.where(inside, high - low, 1.0)
    for turn in range(_HALVINGS + _MORE):
        check_deadline()
        share = np.where(inside, (high - low) / width, 0.0)  # of the bracket that is left
        if not (share > 2.0**-_HALVINGS).any():
            break
        # Oliveira and Takahashi (2020): between regula falsi and the middle, never more than a few steps over halving
        straight = np.where(inside, np.minimum(more, 1e300) / (np.minimum(more, 1e300) - less), 0.5) - 0.5
        least = 2.0**-_HALVINGS / np.maximum(share, 2.0**-_HALVINGS)
        nearer = np.sign(straight) * np.maximum(np.abs(straight) - np.maximum(0.2 * share, 0.9 * least), 0.0)
        room = np.maximum(least * 2.0 ** (_HALVINGS + _MORE - 1 - turn) - 0.5, 0.0)
        middle = low + (high - low) * (0.5 + np.clip(nearer, -room, room))
        here = excess(middle)
        below = here >= 0
        more, less = np.where(below, here, more), np.where(below, less, here)
        low, high = np.where(inside & below, middle, low), np.where(inside & ~below, middle, high)
    return np.where(found, np.where(inside, low, high), limits[0])
