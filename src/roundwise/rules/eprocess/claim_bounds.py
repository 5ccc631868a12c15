"""The state of the rule of claims, the bounds of their sizes, and what a report says of them.

Bounds agree with what is shown, or hold by themselves (docs/why-the-guarantee-holds.md, Proposition 17). The first
batches are kept one by one, and bounds are sought among all values. Later ones are bet on against values between two
ends alone, and forgotten (`WealthGrid`): so a batch costs the same however many there were. What is won falls in the
value, so a new value may begin with the wealth of a larger one (17d). Bounds are of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, log_sum_exp, quiet, total
from roundwise.deadline import check_deadline
from roundwise.errors import InputError
from roundwise.messages import Note
from roundwise.model.batch import Batch, ValueTable
from roundwise.model.estimates import Estimates, Past, form_values, form_variances
from roundwise.model.problem import Problem, Record, Trial
from roundwise.noise.base import FixedSizeBet
from roundwise.questions.claims import Claims, describe_scale
from roundwise.rules.base import Bounds, ClaimStatus, LinearForm
from roundwise.rules.eprocess.bounds import BetHistory, PlacedBet
from roundwise.rules.eprocess.closed_testing import adjusted_e_values, lost_by_others, missing_wealth, wealth_in_goals
from roundwise.rules.eprocess.engine import RuleState
from roundwise.solvers.halfspaces import Halfspaces, range_of_forms

_HALVINGS = 32  # of 120 standard errors: to 1e-7 of one
_FAR = 60.0  # standard errors from the estimate within which bounds are sought


def repeated(pieces: Halfspaces, times: int) -> Halfspaces:
    """Each piece of one run so many times."""
    factors = None if pieces.factors is None else np.repeat(pieces.factors, times, axis=0)
    return Halfspaces(np.repeat(pieces.arms, times, axis=0), factors, np.repeat(pieces.offsets, times), pieces.pairs)


class ClaimStep(NamedTuple):
    """One batch as it was bet on, and what came of it."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None  # (K)
    rho: Floats  # (), nan where there was no budget
    bars: Floats  # (L), log of what each line had to reach
    gains: Floats  # (L), log E after it
    shown: Bools  # (L), after it
    pairs: Batch | None = None  # (K^2), of arms that share items
    parts: tuple[Batch, ...] = ()  # of a first batch, as it was partitioned first, where bounds need them

    @property
    def batch(self) -> Batch:
        """What came back, as sums."""
        return Batch(self.counts, self.totals, self.scatter, pairs=self.pairs)


BudgetBets = Callable[[Past, Batch, Halfspaces, Floats, Floats], Floats]  # past, batch, pieces, need, rho -> log e (L)


def single_bounds(
    problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int = 0
) -> Floats:
    """The largest value that each form was shown to exceed by bets of its own, at all times and all forms together. (P)

    One drift that reaches the bar at the budget, the same for every value, so what is won falls as the value rises.
    Whatever the claims have shown, these bets go on. They begin with the `first` step that claims were there for.
    """
    bets, past = single_bets(problem, steps, pieces, bars, first)

    def exceeded(values: Floats) -> Bools:
        logs, ever = np.zeros(values.shape), np.zeros(values.shape, dtype=np.bool_)
        for bet in bets:
            logs = logs + bet(values)[0]
            ever |= logs >= bars
        return ever

    return _ends(exceeded, problem, past, pieces)


def single_bets(
    problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int
) -> tuple[list[FixedSizeBet], Past]:
    """The bets of `single_bounds`, and the past after them, with the guess before it."""
    past, bets, drifts = guess(problem, steps[first].counts.shape), list[FixedSizeBet](), np.sqrt(2 * bars)[None]
    units = units_of(steps[first])
    for number, step in enumerate(steps):
        if number >= first:
            bet = problem.noise.fixed_size_bet(past, step.batch, pieces, units, drifts)
            bets += _in_parts(problem, step, pieces, units, drifts) if step.parts and _none(bet, bars) else [bet]
        past = past.plus(step.batch)
    return bets, past


def units_of(step: ClaimStep) -> Floats:
    """What each arm would have at the budget, if shares stayed the same; an arm that has none yet, an equal one. (K)"""
    share = np.where(step.counts > 0, step.counts, step.counts.mean())
    return np.maximum(share / max(float(step.rho), 1e-300), 1e-300)


def _none(bet: FixedSizeBet, bars: Floats) -> bool:
    """Whether there is no bet: on counts there is none before an event could be seen, as sizes are made of rates."""
    return not any(bet(np.full(bars.shape, value)).any() for value in (0.0, 1.0))


def _in_parts(
    problem: Problem, step: ClaimStep, pieces: Halfspaces, units: Floats, drifts: Floats
) -> list[FixedSizeBet]:
    """The bets on the parts of a first batch, each with those before it as past."""
    past, found = Past.none(step.counts.shape), []
    for number, part in enumerate(step.parts):
        found.append(problem.noise.fixed_size_bet(past, part, pieces, units, drifts))
        past = past.plus(part, same_batch=number > 0)
    return found


def guess(problem: Problem, shape: tuple[int, ...]) -> Past:
    """What is taken as the past before any: one result in the middle of the range, if there is one."""
    nothing, (low, high) = Past.none(shape), problem.noise.mean_range
    if not (math.isfinite(low) and math.isfinite(high)):
        return nothing
    return nothing._replace(counts=np.ones(shape), totals=np.full(shape, (low + high) / 2))


def with_guess(problem: Problem, past: Past) -> Past:
    """A past with the guess before it."""
    first = guess(problem, past.counts.shape)
    return past._replace(counts=past.counts + first.counts, totals=past.totals + first.totals)


def bounds_matching_decision(
    problem: Problem, question: Claims, steps: Sequence[ClaimStep], budget_bets: BudgetBets, joined: NDArray[np.intp]
) -> Floats:
    """For each line that is open the largest value up to its level that the rule would have shown it to exceed. (L)

    The same bets with the level moved; what is won falls as it rises. At the level itself this is rule (R), so a line
    is shown just where its bound reaches the level. A claim that `joined` at a later step starts as it did there.
    """
    pieces, past = question.bets(()), Past.none(steps[0].counts.shape)
    for step in steps:
        past = past.plus(step.batch)
    won = wealth_at(problem, question, steps, budget_bets, joined)
    found = _ends(lambda values: won(values)[0], problem, past, pieces, question.odds)
    return np.minimum(found, pieces.offsets)


def wealth_at(
    problem: Problem,
    question: Claims,
    steps: Sequence[ClaimStep],
    budget_bets: BudgetBets,
    joined: NDArray[np.intp],
    times: int = 1,
) -> Callable[[Floats], tuple[Bools, Floats]]:
    """For values in the place of levels, `times` each: which are exceeded at some time, and the wealth. (L)"""
    pieces, weights = repeated(question.bets(()), times), np.asarray(question.weights, dtype=np.float64)
    sides = len(pieces.offsets) // (weights.size * times)

    def each(values: Array) -> Array:
        return np.repeat(np.tile(values, sides), times)

    lines, joining, shape = each(weights), each(joined), (-1, question.number)
    wanted, starts = [], []
    before = np.zeros(sides * weights.size, dtype=np.bool_)
    least = 0.0  # of the claims that are open, at most 1
    for s, step in enumerate(steps):  # what each had to have for (R): what others lack after it, before it shows more
        there = np.tile(joined, sides) <= s
        amounts = wealth_in_goals(step.gains, problem.goal).reshape(shape)
        lack = each(missing_wealth(amounts, (before | ~there).reshape(shape), weights))
        wanted.append(problem.goal + np.log1p(lack / lines))
        starts.append(least)
        before = step.shown
        least = float(np.where(before | ~there, 0.0, step.gains).min(initial=0.0))

    def won(values: Floats) -> tuple[Bools, Floats]:
        moved = pieces._replace(offsets=values)
        past, logs = Past.none(steps[0].counts.shape), np.zeros(values.shape)
        ever: Bools = np.zeros(values.shape, dtype=np.bool_)
        shown: Bools = np.zeros(values.shape, dtype=np.bool_)
        for s, (step, bar, start) in enumerate(zip(steps, wanted, starts, strict=True)):
            there, logs = joining <= s, np.where(joining == s, start, logs)
            need = np.where(shown | ~there | ~np.isfinite(logs), 0.0, np.repeat(step.bars, times) - logs)
            logs = logs + budget_bets(past, step.batch, moved, need, step.rho)
            ever |= there & ~shown & (logs >= bar - 1e-12)
            past, shown = past.plus(step.batch), np.repeat(step.shown, times)
        return ever, logs

    return won


def _ends(
    exceeded: Callable[[Floats], Bools], problem: Problem, past: Past, pieces: Halfspaces, odds: bool = False
) -> Floats:
    """The end of the values that are exceeded, a half-line; the least there is if there are none."""
    if odds:
        low, high = (np.full(pieces.offsets.shape, end) for end in (-30.0, 30.0))
        limits = low - 1.0
    else:
        factors = pieces.coefficients
        means = past.totals / np.maximum(past.counts, 1.0)
        variance = np.maximum(problem.noise.variance(past), 1e-300)
        estimate = (factors * means[pieces.arms]).sum(axis=-1)
        with np.errstate(divide="ignore"):
            spread = np.where(factors != 0, factors**2 / past.counts[pieces.arms], 0.0).sum(axis=-1)
        error = np.where(np.isfinite(spread), np.sqrt(variance * spread), math.sqrt(float(variance)))
        limits, top = range_of_forms(factors, *problem.noise.mean_range)
        low, high = np.maximum(estimate - _FAR * error, limits), np.minimum(estimate + _FAR * error, top)
    found = exceeded(low)
    least = np.where(found, low, limits if odds else np.where(np.isfinite(limits), limits, -np.inf))
    for _ in range(_HALVINGS):
        check_deadline()
        middle = low + (high - low) / 2
        below = exceeded(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(found, low, np.where(odds, -np.inf, least))


Index = NDArray[np.intp]


class PaddedClaims(NamedTuple):
    """Batches with all arms and all lines there are now; what a line was not there for says nothing."""

    steps: tuple[ClaimStep, ...]
    joined: Index  # (J), at which of them each claim was first bet on; their number if at none yet

    @property
    def families(self) -> list[int]:
        """The steps at which claims joined, in their order."""
        return sorted(set(self.joined.tolist()))


def pad_to_claims(steps: Sequence[ClaimStep], arms: int, number: int, lines: int) -> PaddedClaims:
    """The batches of one run, widened: arms and claims are added after those there are."""
    sides = lines // number
    joined = np.full(number, len(steps), dtype=np.intp)
    for s, step in reversed(list(enumerate(steps))):
        joined[: len(step.bars) // sides] = s
    return PaddedClaims(tuple(_widen_step(step, arms, number, sides) for step in steps), joined)


def select_pieces(pieces: Halfspaces, lines: Bools) -> Halfspaces:
    """Some of the pieces, of one run."""
    factors = None if pieces.factors is None else pieces.factors[lines]
    return Halfspaces(pieces.arms[lines], factors, pieces.offsets[lines], pieces.pairs)


def _widen_step(step: ClaimStep, arms: int, number: int, sides: int) -> ClaimStep:
    before = len(step.counts)
    if before == arms and len(step.bars) == number * sides:
        return step

    def of_arms(values: Floats) -> Floats:
        return np.concatenate([values, np.zeros(arms - before)])

    def of_pairs(values: Floats) -> Floats:
        found = np.zeros((arms, arms))
        found[:before, :before] = values.reshape(before, before)
        return found.reshape(-1)

    def of_lines(values: Floats | Bools) -> Floats:
        found = np.zeros((sides, number))
        found[:, : len(values) // sides] = values.reshape(sides, -1)
        return found.reshape(-1)

    def sums(batch: Batch) -> Batch:
        pairs = batch.pairs
        if pairs is not None:
            scatter = None if pairs.scatter is None else of_pairs(pairs.scatter)
            table = None
            if pairs.table is not None:
                columns = [of_pairs(each) for each in np.moveaxis(pairs.table.counts, -1, 0)]
                table = ValueTable(pairs.table.values, np.stack(columns, axis=-1))
            pairs = Batch(of_pairs(pairs.counts), of_pairs(pairs.totals), scatter, table)
        scatter = None if batch.scatter is None else of_arms(batch.scatter)
        return Batch(of_arms(batch.counts), of_arms(batch.totals), scatter, pairs=pairs)

    batch = sums(step.batch)
    return ClaimStep(
        batch.counts,
        batch.totals,
        batch.scatter,
        step.rho,
        of_lines(step.bars),
        of_lines(step.gains),
        of_lines(step.shown) > 0,
        batch.pairs,
        tuple(sums(each) for each in step.parts),
    )


BELOW, ABOVE = 6.0, 4.0  # standard errors about the estimate between which values are followed
FINE, COARSE = 256, 96  # values of a line whose bets have one drift, and of one whose bets have several or are exact
GONE = -1e30  # log of nothing
_STALE = 21.0  # so many standard errors were all values apart when they are laid anew
_DRIFTS, _STEP, _BOLDEST, _TAIL = 6, 0.9, 1.2, 3.0  # as in `bounds`, for the results after the first batches


class WealthGrid(NamedTuple):
    """What was won against values at equal distances, and the largest that was ever exceeded."""

    low: Floats  # (P)
    high: Floats  # (P)
    logs: Floats  # (k, P, G), one for each drift
    ends: Floats  # (P), -inf if there is none

    @property
    def values(self) -> Floats:
        """(P, G), rising."""
        share = np.linspace(0.0, 1.0, self.logs.shape[-1])
        return np.minimum(self.low[:, None] + (self.high - self.low)[:, None] * share, self.high[:, None])

    def laid(self, low: Floats, high: Floats, error: Floats) -> WealthGrid:
        """With values between other ends where those there are have become too few: each as the next one above it."""
        apart = self.high - self.low
        anew = (apart > _STALE * error) & (high > low)
        found = self._replace(low=np.where(anew, low, self.low), high=np.where(anew, high, self.high))
        logs, size = self.logs.copy(), self.logs.shape[-1]
        for line in np.flatnonzero(anew):
            above = np.searchsorted(self.values[line], found.values[line])
            logs[:, line] = np.where(above < size, self.logs[:, line, np.minimum(above, size - 1)], GONE)
        return found._replace(logs=logs)

    def reached(self, bars: Floats, logs: Floats, open_: Bools | None = None) -> WealthGrid:
        """With what was won after one more batch, rounded down to few digits."""
        hit = (logs[0] if len(logs) == 1 else log_sum_exp(logs.copy())) >= bars[:, None]
        hit &= True if open_ is None else open_[:, None]
        most = np.where(hit, self.values, -np.inf).max(axis=-1)
        return self._replace(logs=_short(logs), ends=np.maximum(self.ends, most))


class ClaimTail(NamedTuple):
    """What goes on after the first batches, of claims there were by then: from below, then from above."""

    track: WealthGrid | None  # (2J) lines; None where there are no such bounds
    bars: Floats  # (2J)
    drifts: Floats  # (k, 2J)
    units: Floats  # (F, K), of each family of claims
    family: Floats  # (2J)
    wealth: WealthGrid | None = None  # (L), those of the rule itself, at levels up to what is claimed

    @property
    def claims(self) -> int:
        """J, how many claims there were."""
        return len(self.bars) // 2

    def of_arms(self, number: int) -> ClaimTail:
        """With arms that joined: no claim there was is about them."""
        more = np.ones((len(self.units), number - self.units.shape[-1]))
        return self._replace(units=np.concatenate([self.units, more], axis=-1))


@quiet
def around(problem: Problem, past: Past, pieces: Halfspaces, ends: Floats) -> tuple[Floats, Floats, Floats]:
    """Between which values the end of each form will lie, and its standard error. (P) each"""
    estimate = form_values(past.totals / np.maximum(past.counts, 1.0), pieces)
    error = np.sqrt(
        np.maximum(problem.noise.variance(past), 1e-300)[..., None] * form_variances(1.0 / past.counts, pieces)
    )
    known = np.isfinite(error) & np.isfinite(estimate)
    least, most = range_of_forms(pieces.coefficients, *problem.noise.mean_range)
    low = np.clip(np.maximum(estimate - BELOW * error, ends), least, most)
    high = np.clip(estimate + ABOVE * error, least, most)
    none = ~known | (high <= low)
    return np.where(none, 0.0, low), np.where(none, 0.0, high), np.where(none, np.inf, error)


def start_drifts(bars: Floats) -> tuple[Floats, Floats]:
    """Drifts for what comes after the first batches, in standard errors of those, and log of their shares. (k, P)"""
    place = np.arange(float(_DRIFTS))[:, None]
    weights = (1.0 + place / _TAIL) ** -2.0
    drifts = _BOLDEST * np.sqrt(2 * bars) * np.exp(-_STEP * place)
    return drifts, np.broadcast_to(np.log(weights / weights.sum()), drifts.shape)


def update_grid(
    problem: Problem, tail: ClaimTail, pieces: Halfspaces, past: Past, before: Past, batch: Batch
) -> ClaimTail:
    """After one more batch; `before` is the past that sizes of bets are made of."""
    assert tail.track is not None
    track = tail.track.laid(*around(problem, past, pieces, tail.track.ends))
    values, logs, size = track.values, track.logs.copy(), track.logs.shape[-1]
    for family, units in enumerate(tail.units):
        here = tail.family == family
        own = select_pieces(pieces, here)
        drifts = np.repeat(tail.drifts[:, here], size, axis=-1)
        bet = problem.noise.fixed_size_bet(before, batch, repeated(own, size), units, drifts)
        logs[:, here] += bet(values[here].reshape(-1)).reshape(len(drifts), -1, size)
    return tail._replace(track=track.reached(tail.bars, logs))


def _short(logs: Floats) -> Floats:
    """Numbers of few digits, none above what it stands for."""
    with np.errstate(over="ignore"):
        near = logs.astype(np.float32)
        lower = np.nextafter(near, np.float32(-math.inf))
    return np.where(near > logs, lower, near).astype(np.float64)


MOST_STEPS = 12  # batches that are kept one by one for bounds


class ClaimState(NamedTuple):
    """The wealth, what was shown and when, what is known, and what can be expected. Lines: claims, then opposites."""

    gains: Floats  # (L), log E
    shown: Bools  # (L)
    batch: Floats  # (L), after which it was shown, 0 if it was not
    samples: Floats  # (L), after how many results, 0 if it was not
    past: Past
    value: Floats  # (L), what each line is estimated to hold by
    leverage: Floats  # (L), the variance of that, per unit of the variance of a result
    error: Floats  # (L), its standard error
    spread: Floats  # (K), a guess at the variance of one result, on the scale of the forms
    fed: Bools  # (J), which claims the next results should go to
    chances: Floats  # (J), that each is shown by the end; a forecast
    expected: Floats  # (), how many more will be; infinite without a budget
    over: Bools  # (), the last batch was bet on
    rounds: Floats  # (), how many batches had any result
    steps: tuple[
        ClaimStep, ...
    ] = ()  # of one run, at most `MOST_STEPS`, for bounds; without claims that were added later
    tail: ClaimTail | None = None  # what goes on after these, for bounds: claims that were added later have none of it
    out: Bools | None = None  # (J), claims about arms that were left out, which are not fed any more
    means: Floats | None = None  # (K), the estimates that values are made of; None before a batch, and in older records
    warm_started: Past | None = None  # the past with earlier data before it, if any were imported: no evidence (24)

    @property
    def seen(self) -> Past:
        """All that estimates and plans are made of: the past, and earlier data."""
        return self.past if self.warm_started is None else self.warm_started


def claims_of(problem: Problem) -> Claims:
    """The question, which is of claims."""
    question = problem.question
    if not isinstance(question, Claims):
        raise InputError(f"The rule of claims does not fit the question '{question.name}'.")
    return question


def weights_of(problem: Problem) -> Floats:
    """The weights of the claims. (J)"""
    return np.asarray(claims_of(problem).weights, dtype=np.float64)


def open_of(problem: Problem, kept: ClaimState) -> Bools:
    """The claims that may still be fed: neither side is shown, and no arm of theirs was left out. (J)"""
    unsettled = ~sides_of(problem, kept.shown).any(axis=-2)
    return np.asarray(unsettled if kept.out is None else unsettled & ~kept.out)


def compares(question: Claims) -> bool:
    """Whether every claim compares arms, so that a shift of a whole batch cancels."""
    forms = question.forms
    return bool((np.abs(forms.sum(axis=-1)) <= 1e-12 * np.abs(forms).sum(axis=-1)).all())


def sides_of(problem: Problem, lines: Array) -> Array:
    """Lines with an axis of sides. (L)->(D, J)"""
    return lines.reshape(*lines.shape[:-1], -1, claims_of(problem).number)


def lines_of(problem: Problem, kept: ClaimState) -> tuple[Floats, Floats]:
    """log of what was won for each line, and of what it must reach now. (L) each"""
    weights, sides, gains = weights_of(problem), sides_of(problem, kept.shown), sides_of(problem, kept.gains)
    if claims_of(problem).independent:
        bars = problem.goal + lost_by_others(gains, sides)
    else:
        bars = problem.goal + np.log1p(missing_wealth(wealth_in_goals(gains, problem.goal), sides, weights) / weights)
    bars = np.concatenate([bars] * sides.shape[-2], axis=-1)
    return kept.gains, np.where(kept.shown, np.minimum(bars, kept.gains), bars)


def adjusted_of(problem: Problem, kept: ClaimState) -> Floats:
    """log of the adjusted e-value of each line: one that is open is shown where this reaches log 1/delta. (L)"""
    sides, gains = sides_of(problem, kept.shown), sides_of(problem, kept.gains)
    if claims_of(problem).independent:
        found = gains - lost_by_others(gains, sides)[..., None, :]
    else:
        with np.errstate(divide="ignore"):
            found = problem.goal + np.log(
                adjusted_e_values(wealth_in_goals(gains, problem.goal), sides, weights_of(problem))
            )
    return np.asarray(found.reshape(kept.gains.shape))


class BatchWithParts(NamedTuple):
    """A batch, and the parts that it is bet on in, one after the other: itself, but for a first batch."""

    whole: Batch
    parts: Sequence[Batch]


def mean_bounds(problem: Problem, record: Record, batches: Sequence[Batch]) -> Bounds:
    """Of the means of all arms, from bets on each."""
    lots = [BatchWithParts(each, parts_of(each) if number == 0 else (each,)) for number, each in enumerate(batches)]
    return Bounds(bets_of(problem, record.counts.shape, lots).intervals)


def parts_of(batch: Batch) -> tuple[Batch, ...]:
    """The parts of a batch as it was partitioned first; itself if it was not."""
    parts = batch.parts
    return (batch,) if parts is None else tuple(parts.batch(p) for p in range(parts.number))


def bets_of(problem: Problem, shape: tuple[int, ...], lots: Sequence[BatchWithParts], first: int = 0) -> BetHistory:
    """Bets with no budget in sight, from the `first` batch on: before any result there is a guess, the same always."""
    past, end, placed = guess(problem, shape), Past.none(shape), []

    def known(past: Past) -> Estimates:
        return Estimates(past, past.means, problem.noise.variance(past))

    for number, (whole, parts) in enumerate(lots):
        before = past
        for p, part in enumerate(parts):
            placed += [PlacedBet(None, known(before), None, part, number == 0)] if number >= first else []
            before = before.plus(part, same_batch=p > 0)
        past, end = past.plus(whole), end.plus(whole)
    return BetHistory(problem, placed, RuleState(None, known(end), None))


def _open_ended(problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int) -> Floats:
    """The largest value that each form was shown to exceed by bets on many drifts, all forms together. (P)"""
    lots = [BatchWithParts(step.batch, step.parts or (step.batch,)) for step in steps]
    bets = bets_of(problem, steps[0].counts.shape, lots, first)
    moved = pieces._replace(offsets=np.zeros(pieces.offsets.shape))
    found = np.empty(pieces.offsets.shape)
    for bar in np.unique(bars):
        found = np.where(bars == bar, bets.bound(moved, float(bar)), found)
    return found


def describe_claims(
    problem: Problem, trial: Trial, names: Sequence[str], budget_bets: BudgetBets, chances: Floats
) -> list[ClaimStatus]:
    """Every claim, then every opposite: what was won for it, its size with bounds, and what can be expected of it.

    Once one side of a claim is shown there is no forecast for the other: no results are asked for its sake.
    """
    question, kept = claims_of(problem), trial.kept
    number = question.number
    evidence, bars = lines_of(problem, kept)
    against = adjusted_of(problem, kept)
    value, (lower, single) = _sizes(problem, kept), _lower(problem, kept, budget_bets)
    settled = np.tile(sides_of(problem, kept.shown).any(axis=-2), len(kept.shown) // number)
    chances = np.where(kept.shown, 1.0, np.where(settled, np.nan, chances))
    last = kept.past.history
    pulls = last[-1][0] if last and not trial.plan.pulls.any() else trial.plan.pulls
    left_out = ((question.forms != 0) & (pulls == 0)).any(axis=-1)  # no results of this batch are for it
    left_out = left_out if kept.out is None else left_out | kept.out
    found = []
    for i, words in enumerate(question.claim_texts(names)):
        j, opposite = i % number, i >= number
        low, high = (-np.inf, -lower[number + j]) if len(lower) > number else (-np.inf, np.inf)
        if not opposite:
            low = lower[j]
        found.append(
            ClaimStatus(
                words,
                float(evidence[i]),
                float(bars[i]),
                bool(kept.shown[i]),
                about=None if question.odds else _about(question.forms[j], question.lines.levels[i], opposite),
                label=question.labels(names)[j],
                shown_at=int(kept.batch[i]) if kept.shown[i] else None,
                samples=int(kept.samples[i]) if kept.shown[i] else None,
                estimate=_finite(value[j]),
                lower=_finite(low),
                upper=_finite(high),
                chance=_finite(chances[i]),
                margin=float(question.lines.levels[i] * (-1.0 if opposite else 1.0)),
                given_up=bool(not settled[i] and left_out[j]),
                opposite=opposite,
                scale=describe_scale(question.forms[j], question.levels[j], question.odds, names),
                adjusted=_finite(against[i]),
                single_lower=None if opposite else _finite(single[j]),
                single_upper=_finite(-single[number + j]) if opposite or len(evidence) == number else None,
            )
        )
    return found


def _sizes(problem: Problem, kept: ClaimState) -> Floats:
    """The estimate of what each claim is about; nan without results. (J)"""
    question = claims_of(problem)
    value = kept.value[: question.number] + question.levels
    return np.where(np.isfinite(kept.error[: question.number]), value, np.nan)


def _lower(problem: Problem, kept: ClaimState, budget_bets: BudgetBets) -> tuple[Floats, Floats]:
    """Of each line what it exceeds, at least, agreeing with what is shown; then of each opposite. (2J)

    Where there are no opposites, upper bounds of the claims take their place. Then the same by single steps alone.
    """
    question = claims_of(problem)
    pieces = question.bets(())
    lines = len(pieces.offsets)
    nothing = np.full(2 * question.number, -np.inf)
    if not kept.steps or not kept.past.counts.any():
        return nothing, nothing
    shown, level = kept.shown, pieces.offsets
    both = both_sides(question)
    every, ahead = padded_steps(problem, kept), had_budget(kept)
    single = nothing.copy()
    if not question.odds:
        for family, first in enumerate(each for each in every.families if each < len(every.steps)):
            own = every.joined == first
            bars, here = bars_of(problem, own, family), np.tile(own, 2)
            by = single_bounds if ahead else _open_ended
            single[here] = by(problem, every.steps, select_pieces(both.bets(()), here), np.tile(bars, 2), first)
    tail, number = kept.tail, question.number
    if tail is not None and tail.track is not None:
        single = np.maximum(single, _pad_ends(tail.track.ends, tail.claims, number))
    found = single[:lines]
    if bounds_use_wealth(problem, kept, ahead):
        found = np.maximum(found, bounds_matching_decision(problem, question, every.steps, budget_bets, every.joined))
        if tail is not None and tail.wealth is not None:
            found = np.maximum(found, _pad_ends(tail.wealth.ends, tail.claims, number))
    found = np.where(shown, np.maximum(found, level), np.minimum(found, level))
    return np.append(found, single[lines:]), single


def both_sides(question: Claims) -> Claims:
    """The question with the opposites of its claims."""
    return question if len(question.lines.forms) > question.number else replace(question, sides="two", names=())


def had_budget(kept: ClaimState) -> bool:
    """Whether there was a budget to bet towards, at all times."""
    return all(np.isfinite(step.rho).all() for step in kept.steps)


def bounds_use_wealth(problem: Problem, kept: ClaimState, ahead: bool) -> bool:
    """Whether bounds are made of the wealth of the rule, too: where what is won falls as the level rises."""
    return ahead and _whole(kept) and (claims_of(problem).odds or problem.noise.monotone_budget_bets)


def _pad_ends(ends: Floats, before: int, number: int) -> Floats:
    """The ends of the lines of so many claims, among those of all claims there are now."""
    found = np.full((len(ends) // before, number), -np.inf)
    found[:, :before] = ends.reshape(-1, before)
    return found.reshape(-1)


def padded_steps(problem: Problem, kept: ClaimState) -> PaddedClaims:
    """The batches that are kept, with all arms and lines there are now."""
    return pad_to_claims(kept.steps, problem.arms, claims_of(problem).number, len(kept.shown))


def bars_of(problem: Problem, own: Bools, family: int) -> Floats:
    """log of what bounds of the claims of one family must reach: those there were at first, or those added k-th. (F)

    delta is shared among the former, delta/2^k among the latter (Proposition 17).
    """
    weights = weights_of(problem)[own]
    return np.asarray(problem.goal + family * math.log(2) + np.log(total(weights) / weights))


def _whole(kept: ClaimState) -> bool:
    """Whether what bounds are made of reaches back to the first batch: earlier versions began anew with a claim."""
    return len(kept.steps) >= min(float(kept.rounds), MOST_STEPS)


def note_joint_bounds(problem: Problem, kept: ClaimState) -> Note:
    """Return the note on what all bounds promise together."""
    times = 2 if len(padded_steps(problem, kept).families) < 2 else 3
    return Note("joint_bounds", times=times, changed=not _whole(kept))


def _about(form: Floats, level: float, opposite: bool) -> LinearForm:
    """What a claim or its opposite is about."""
    arms = np.flatnonzero(form)
    end = -level if opposite else level
    return LinearForm(tuple(arms.tolist()), tuple(form[arms].tolist()), float(end), opposite)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


class BatchOutcome(NamedTuple):
    """How a batch was bet on, and what was won."""

    rho: Floats | None
    bars: Floats  # (L)
    gains: Floats  # (L)
    shown: Bools  # (L)


class ClaimHistory(TypedDict):
    """What is kept of batches."""

    steps: tuple[ClaimStep, ...]
    tail: ClaimTail | None


def update_history(
    problem: Problem, kept: ClaimState, batch: Batch, turn: BatchOutcome, budget_bets: BudgetBets
) -> ClaimHistory:
    """What bounds are made of after a batch; `kept` is before it. Of one run: of several it stays as it is."""
    steps = kept.steps
    if batch.counts.ndim > 1:
        return ClaimHistory(steps=steps, tail=kept.tail)
    if len(steps) >= MOST_STEPS:
        tail = carried_on(problem, kept, batch, turn, budget_bets) if batch.counts.any() else kept.tail
        return ClaimHistory(steps=steps, tail=tail)
    share = np.full(batch.counts.shape[:-1], np.nan) if turn.rho is None else turn.rho
    step = ClaimStep(batch.counts, batch.totals, batch.scatter, share, turn.bars, turn.gains, turn.shown, batch.pairs)
    if batch.parts is not None and not steps:
        step = step._replace(parts=tuple(part._replace(table=None) for part in parts_of(batch)))
    return ClaimHistory(steps=(*steps, step), tail=None)


@quiet
def carried_on(
    problem: Problem, kept: ClaimState, batch: Batch, turn: BatchOutcome, budget_bets: BudgetBets
) -> ClaimTail:
    """What bounds are made of after a batch that is not kept by itself; `kept` is before it. One run only."""
    question = claims_of(problem)
    tail = _tail(problem, kept, budget_bets) if kept.tail is None else kept.tail
    there = np.arange(question.number) < tail.claims
    if tail.track is not None:
        own = select_pieces(both_sides(question).bets(()), np.tile(there, 2))
        tail = update_grid(problem, tail, own, kept.past.plus(batch), with_guess(problem, kept.past), batch)
    if tail.wealth is None or turn.rho is None:
        return tail
    mine = np.tile(there, len(kept.shown) // question.number)
    pieces = select_pieces(question.bets(()), mine)
    level, error = pieces.offsets, kept.error[mine]
    track = tail.wealth.laid(*_below(level, kept.value[mine] + level, error, tail.wealth.ends), error)
    size = track.logs.shape[-1]
    values, logs = track.values.reshape(-1), track.logs.reshape(-1)
    still = np.repeat(~kept.shown[mine], size) & np.isfinite(logs)
    need = np.where(still, np.repeat(turn.bars[mine], size) - logs, 0.0)
    logs = logs + budget_bets(kept.past, batch, repeated(pieces, size)._replace(offsets=values), need, turn.rho)
    weights, amounts = weights_of(problem), sides_of(problem, wealth_in_goals(turn.gains, problem.goal))
    lack = missing_wealth(amounts, sides_of(problem, kept.shown), weights)
    bars = np.tile(problem.goal + np.log1p(lack / weights), len(amounts))[mine] - 1e-12
    return tail._replace(wealth=track.reached(bars, logs.reshape(track.logs.shape), ~kept.shown[mine]))


def _tail(problem: Problem, kept: ClaimState, budget_bets: BudgetBets) -> ClaimTail:
    """What was won against values about the ends in the batches that are kept, to go on with."""
    question, every, ahead = claims_of(problem), padded_steps(problem, kept), had_budget(kept)
    both, number, steps = both_sides(question).bets(()), question.number, every.steps
    families = [each for each in every.families if each < len(steps)]
    size, none = FINE if ahead else COARSE, np.zeros(2 * number)
    bars, family, units = none.copy(), np.full(2 * number, -1.0), np.ones((len(families), problem.arms))
    low, high, _ = around(problem, kept.past, both, np.full(2 * number, -np.inf))
    track = WealthGrid(low, high, np.full((1, 2 * number, size), GONE), np.full(2 * number, -np.inf))
    for k, first in enumerate(families):
        here = np.tile(every.joined == first, 2)
        bars[here], family[here] = np.tile(bars_of(problem, every.joined == first, k), 2), k
        own, values = select_pieces(both, here), track.values[here]
        if ahead:
            bets, _ = single_bets(problem, steps, repeated(own, size), np.repeat(bars[here], size), first)
            won = sum((bet(values.reshape(-1))[0] for bet in bets), np.zeros(values.size))
            track.logs[0, here], units[k] = won.reshape(values.shape), units_of(steps[first])
        else:
            track.logs[0, here] = _wealth_without_budget(problem, steps, own, bars[here], first, values)
            units[k] = np.maximum(kept.past.counts, 1.0)
    drifts = np.sqrt(2 * bars)[None]
    if not ahead:
        drifts, shares = start_drifts(bars)
        track = track._replace(logs=track.logs + shares[..., None])
    wealth = None
    if bounds_use_wealth(problem, kept, ahead):
        level = question.bets(()).offsets
        ends = _below(level, kept.value + level, kept.error, np.full(level.shape, -np.inf))
        wealth = WealthGrid(*ends, np.zeros((1, len(level), COARSE)), np.full(level.shape, -np.inf))
        won = wealth_at(problem, question, steps, budget_bets, every.joined, COARSE)(wealth.values.reshape(-1))[1]
        wealth = wealth._replace(logs=won.reshape(wealth.logs.shape))
    return ClaimTail(None if question.odds else track, bars, drifts, units, family, wealth)


def _below(level: Floats, estimate: Floats, error: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Between which values up to the level the end of each line will lie."""
    wide = np.where(np.isfinite(error), error, 1.0)
    return np.minimum(np.maximum(estimate - BELOW * wide, ends), level - wide), level


def _wealth_without_budget(
    problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int, values: Floats
) -> Floats:
    """log of what the bets that bounds without a budget are made of have won against values of each piece. (P, G)"""
    lots = [BatchWithParts(each.batch, each.parts or (each.batch,)) for each in steps]
    bets, found = bets_of(problem, steps[0].counts.shape, lots, first), np.empty(values.shape)
    moved = pieces._replace(offsets=np.zeros(pieces.offsets.shape))
    for bar in np.unique(bars):
        here, won = bars == bar, bets.wealth_against(moved, float(bar))
        for g in range(values.shape[-1]):
            *_, last = won(values[:, g])
            found[here, g] = last[here]
    return found
