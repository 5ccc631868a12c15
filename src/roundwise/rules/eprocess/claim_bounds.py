"""The state of the rule of claims, the bounds of their sizes, and what a report says of them.

Bounds agree with what is shown, or hold by themselves (docs/why-the-guarantee-holds.md, Proposition 17). The first
batches are kept one by one, and bounds are sought among all values. Later ones are bet on against values between two
ends alone, and forgotten (`WealthGrid`): so a batch costs the same however many there were. What is won falls in the
value, so a new value may begin with the wealth of a larger one (17d). Bounds are of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats, log_sum_exp, quiet, sum_rows, total, tree_map
from roundwise.errors import InputError
from roundwise.messages import Note
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past
from roundwise.model.problem import Problem, Trial
from roundwise.noise.base import FixedSizeBet
from roundwise.questions.claims import Claims, describe_scale
from roundwise.rules.base import ClaimStatus, LinearForm
from roundwise.rules.eprocess.bounds import (
    BetHistory,
    PlacedBet,
    WealthAgainst,
    drift_ladder,
    excess_over,
    find_end,
    locate_forms,
)
from roundwise.rules.eprocess.closed_testing import (
    adjusted_e_values,
    least_of,
    lost_by_others,
    missing_wealth,
    open_weight,
    wealth_in_goals,
)
from roundwise.rules.eprocess.engine import RuleState
from roundwise.solvers.halfspaces import Halfspaces

MOST_STEPS = 12  # batches that are kept one by one for bounds
BELOW, ABOVE = 6.0, 4.0  # standard errors about the estimate between which values are followed
FINE, COARSE = 256, 96  # values of a line whose bets have one drift, and of one whose bets have several or are exact
GONE = -1e30  # log of nothing
_STALE = 21.0  # the grid is refined once all values are this many standard errors apart
_LATER = (6, 0.9, 3.0)  # drifts, step and tail of the ladder for the results after the first batches
ODDS_BELOW, ODDS_STEPS = 4.0, 256  # how far below its level a log odds ratio is followed, and in how many steps
_SLACK = 1e-12  # a bet that pays just what was needed must count

BudgetBets = Callable[[Past, Batch, Halfspaces, Floats, Floats], Floats]  # past, batch, pieces, need, rho -> log e (L)


class OtherMetrics(NamedTuple):
    """The part of the closed test that belongs to claims about other metrics (Proposition 32)."""

    weight: Floats  # (), of all of them
    unsettled: Floats  # (), of those of which something is not shown
    shortfall: Floats  # (), what these lack, in units of 1/delta


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
    cubes: Floats | None = None  # (K)
    shortfall: Floats | None = None  # (), of claims about other metrics after it, with those open that were before it
    least: Floats | None = None  # (), the log of what any open claim has after it, at most 0; None with one metric

    def fits(self, arms: int, lines: int) -> bool:
        """Whether its arrays belong together, of at most so many arms and lines: a record may be changed by hand."""
        size, line = self.counts.shape, self.bars.shape
        of_arms = [self.totals, self.scatter, self.cubes, *(each.counts for each in self.parts)]
        of_arms += [each.totals for each in self.parts]
        pairs = () if self.pairs is None else (self.pairs.counts, self.pairs.totals)
        return (
            len(size) == len(line) == 1
            and size[0] <= arms
            and line[0] <= lines
            and all(each is None or each.shape == size for each in of_arms)
            and self.gains.shape == self.shown.shape == line
            and all(each.shape == (size[0] ** 2,) for each in pairs)
            and all(np.ndim(each) == 0 for each in (self.rho, self.shortfall, self.least) if each is not None)
        )

    @property
    def batch(self) -> Batch:
        """The results as sums."""
        return Batch(self.counts, self.totals, self.scatter, pairs=self.pairs, cubes=self.cubes)


class WealthGrid(NamedTuple):
    """Wealth against values at equal distances, and the largest value up to which all were once exceeded."""

    low: Floats  # (P)
    high: Floats  # (P)
    logs: Floats  # (k, P, G), one for each drift
    ends: Floats  # (P), -inf if there is none

    @classmethod
    def between(cls, low: Floats, high: Floats, size: int) -> WealthGrid:
        """So many values between these ends, and nothing won."""
        return cls(low, high, np.full((1, low.size, size), GONE), np.full(low.size, -np.inf))

    @property
    def values(self) -> Floats:
        """(P, G), rising."""
        share = np.linspace(0.0, 1.0, self.logs.shape[-1])
        return np.minimum(self.low[:, None] + (self.high - self.low)[:, None] * share, self.high[:, None])

    def laid(self, low: Floats, high: Floats, error: Floats) -> WealthGrid:
        """Refine the grid between other ends: each new value starts with the wealth of the next one above it."""
        apart = self.high - self.low
        anew = (apart > _STALE * error) & (high > low)
        found = self._replace(low=np.where(anew, low, self.low), high=np.where(anew, high, self.high))
        logs, size = self.logs.copy(), self.logs.shape[-1]
        for line in np.flatnonzero(anew):
            above = np.searchsorted(self.values[line], found.values[line])
            logs[:, line] = np.where(above < size, self.logs[:, line, np.minimum(above, size - 1)], GONE)
        return found._replace(logs=logs)

    def reached(self, exceeded: Bools, logs: Floats) -> WealthGrid:
        """With what was won after one more batch, rounded down to few digits, and the values exceeded by it. (P, G)"""
        most = largest_exceeded(exceeded, self.values)
        with np.errstate(over="ignore"):
            near = logs.astype(np.float32)
            lower = np.nextafter(near, np.float32(-math.inf))
        short = np.where(near > logs, lower, near).astype(np.float64)
        return self._replace(logs=short, ends=np.maximum(self.ends, most))

    def padded(self, before: int, number: int) -> WealthGrid:
        """With lines for all claims there are now, of which nothing is followed."""
        logs = pad_lines(np.moveaxis(self.logs, 1, -1), before, number, GONE)
        low, high = (pad_lines(each, before, number) for each in self[:2])
        return WealthGrid(low, high, np.moveaxis(logs, -1, 1), pad_lines(self.ends, before, number, -np.inf))


def largest_exceeded(exceeded: Bools, values: Floats) -> Floats:
    """The largest of rising values up to which all are exceeded, -inf if there is none. (P, G)->(P)"""
    return np.where(np.logical_and.accumulate(exceeded, axis=-1), values, -np.inf).max(axis=-1)


class ClaimTail(NamedTuple):
    """The state of bounds after the first batches, for claims that existed by then: lower bounds, then upper ones."""

    track: WealthGrid | None  # (2J) lines; None where there are no such bounds
    bars: Floats  # (2J)
    drifts: Floats  # (k, 2J)
    units: Floats  # (F, K), of each family of claims
    family: Floats  # (2J), -1 for claims that have no such bounds
    wealth: WealthGrid | None = None  # (L), those of the rule itself, at levels up to what is claimed

    def fits(self, arms: int, lines: int, number: int) -> bool:
        """Whether its arrays belong together, of as many arms, lines and claims: a record may be changed by hand."""
        grids = [(each, size) for each, size in ((self.track, 2 * number), (self.wealth, lines)) if each is not None]
        return (
            self.bars.shape == self.family.shape == (2 * number,)
            and self.drifts.shape[1:] == (2 * number,)
            and self.units.shape[1:] == (arms,)
            and bool((self.family < len(self.units)).all())
            and all(
                grid.low.shape == grid.high.shape == grid.ends.shape == (size,) and grid.logs.shape[1:2] == (size,)
                for grid, size in grids
            )
            and all(grid.logs.ndim == 3 for grid, _ in grids)
        )

    def padded(self, before: int, number: int, arms: int) -> ClaimTail:
        """With claims and arms that joined: they have no such bounds, and no claim there was is about them."""
        more = np.ones((len(self.units), arms - self.units.shape[-1]))
        return ClaimTail(
            None if self.track is None else self.track.padded(before, number),
            pad_lines(self.bars, before, number),
            pad_lines(self.drifts, before, number),
            np.concatenate([self.units, more], axis=-1),
            pad_lines(self.family, before, number, -1.0),
            None if self.wealth is None else self.wealth.padded(before, number),
        )


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
    targeted: Bools  # (J), which claims the next results should go to
    chances: Floats  # (J), that each is shown by the end; a forecast
    expected: Floats  # (), how many more will be; infinite without a budget
    last_bet_done: Bools  # (), the last batch was bet on
    rounds: Floats  # (), how many batches had any result
    steps: tuple[ClaimStep, ...] = ()  # of one run, the first `MOST_STEPS`, for bounds; as they were, without padding
    tail: ClaimTail | None = None  # the state of bounds after these steps
    left_out: Bools | None = None  # (J), claims about arms that were left out, which no more results go to
    means: Floats | None = None  # (K), the estimates that values are made of; None before a batch
    past_with_imported: Past | None = None  # with earlier data before it, which are no evidence (24), if there are any
    metrics: tuple[ClaimState, ...] = ()  # the claims about further metrics
    other_metrics: OtherMetrics | None = None  # None where there is one metric

    @property
    def seen(self) -> Past:
        """All that estimates and plans are made of: the past, and earlier data."""
        return self.past if self.past_with_imported is None else self.past_with_imported

    @property
    def had_budget(self) -> bool:
        """Whether there was a budget to bet towards, at all times."""
        return all(np.isfinite(step.rho).all() for step in self.steps)


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
    """The claims that may still be sampled: neither side is shown, and none of their arms was dropped. (J)"""
    unsettled = ~sides_of(problem, kept.shown).any(axis=-2)
    return np.asarray(unsettled if kept.left_out is None else unsettled & ~kept.left_out)


def compares(question: Claims) -> bool:
    """Whether every claim compares arms, so that a shift of a whole batch cancels."""
    forms = question.forms
    return bool((np.abs(forms.sum(axis=-1)) <= 1e-12 * np.abs(forms).sum(axis=-1)).all())


def sides_of(problem: Problem, lines: Array) -> Array:
    """Lines with an axis of sides. (L)->(D, J)"""
    return lines.reshape(*lines.shape[:-1], -1, claims_of(problem).number)


def metrics_of(problem: Problem) -> tuple[Problem, ...]:
    """The claims about each metric, the first one first."""
    return problem, *problem.metrics


def states_of(kept: ClaimState) -> tuple[ClaimState, ...]:
    """The state of the claims about each metric."""
    return kept, *kept.metrics


class JointClaims(NamedTuple):
    """The claims about all metrics side by side, as the closed test takes them; a side that one lacks is shown."""

    wealth: Floats  # (D, J), in units of 1/delta
    shown: Bools  # (D, J)
    weights: Floats  # (J)
    shapes: tuple[tuple[int, int], ...]  # (D, J) of each metric

    def split(self, lines: Array) -> list[Array]:
        """The lines of each metric. (D, J)->(L)"""
        each = np.split(lines, np.cumsum([number for _, number in self.shapes])[:-1], axis=-1)
        runs = lines.shape[:-2]
        own = zip(each, self.shapes, strict=True)
        return [np.asarray(one[..., :sides, :]).reshape(*runs, sides * number) for one, (sides, number) in own]


def join_claims(problem: Problem, gains: Sequence[Floats], shown: Sequence[Bools]) -> JointClaims:
    """Put the claims about all metrics side by side; `gains` and `shown` are those of each."""
    every = metrics_of(problem)
    sides = [sides_of(*each) for each in zip(every, shown, strict=True)]
    most = max(each.shape[-2] for each in sides)

    def joined(lines: Sequence[Array], fill: float) -> Array:
        rest = [np.full((*each.shape[:-2], most - each.shape[-2], each.shape[-1]), fill, each.dtype) for each in lines]
        return np.concatenate([np.concatenate(both, axis=-2) for both in zip(lines, rest, strict=True)], axis=-1)

    wealth = [wealth_in_goals(sides_of(*each), problem.goal) for each in zip(every, gains, strict=True)]
    weights = np.concatenate([weights_of(each) for each in every])
    return JointClaims(joined(wealth, np.inf), joined(sides, True), weights, tuple(each.shape[-2:] for each in sides))


def claims_elsewhere(problem: Problem, gains: Sequence[Floats], shown: Sequence[Bools]) -> list[OtherMetrics | None]:
    """For each metric what the claims about all others weigh and lack; None where there are no others."""
    every = metrics_of(problem)
    if len(every) == 1:
        return [None]
    weight, unsettled, shortfall = [], [], []
    for sub, own, known in zip(every, gains, shown, strict=True):
        weights, sides = weights_of(sub), sides_of(sub, known)
        least = least_of(wealth_in_goals(sides_of(sub, own), problem.goal), sides)
        weight.append(np.broadcast_to(total(weights), known.shape[:-1]))
        unsettled.append(open_weight(sides, weights))
        shortfall.append(total(weights * np.maximum(1.0 - least, 0.0)))
    others = [[i for i in range(len(every)) if i != m] for m in range(len(every))]
    return [
        OtherMetrics(*(sum_rows(np.array([each[i] for i in rest])) for each in (weight, unsettled, shortfall)))
        for rest in others
    ]


def closing_bars(problem: Problem, gains: Floats, shown: Bools, other_metrics: Floats | float = 0.0) -> Floats:
    """log of what each line must reach for the closed test, given what the other claims have. (L)

    Claims about other metrics lack `elsewhere`.
    """
    sides, own = sides_of(problem, shown), sides_of(problem, gains)
    if claims_of(problem).independent:
        bars = problem.goal + lost_by_others(own, sides)
    else:
        weights = weights_of(problem)
        shortfall = missing_wealth(wealth_in_goals(own, problem.goal), sides, weights) + other_metrics
        bars = problem.goal + np.log1p(shortfall / weights)
    return np.concatenate([bars] * sides.shape[-2], axis=-1)


def lines_of(problem: Problem, kept: ClaimState) -> tuple[Floats, Floats]:
    """log of what was won for each line, and of what it must reach now. (L) each"""
    bars = closing_bars(
        problem, kept.gains, kept.shown, 0.0 if kept.other_metrics is None else kept.other_metrics.shortfall
    )
    return kept.gains, np.where(kept.shown, np.minimum(bars, kept.gains), bars)


def adjusted_of(problem: Problem, kept: ClaimState) -> list[Floats]:
    """log of the adjusted e-value of each line: one that is open is shown where this reaches log 1/delta. (L)

    One array for each metric.
    """
    if claims_of(problem).independent:
        sides, gains = sides_of(problem, kept.shown), sides_of(problem, kept.gains)
        return [np.asarray(gains - lost_by_others(gains, sides)[..., None, :]).reshape(kept.gains.shape)]
    test = join_claims(problem, [each.gains for each in states_of(kept)], [each.shown for each in states_of(kept)])
    with np.errstate(divide="ignore"):
        return test.split(problem.goal + np.log(adjusted_e_values(test.wealth, test.shown, test.weights)))


# --- claims and arms that joined later


def least_wealth(states: Sequence[ClaimState]) -> Floats:
    """log of the least that any open claim has, of all metrics, at most 0: what one starts with that joins. ()"""
    every = [np.where(each.shown, np.inf, each.gains).min(axis=-1) for each in states]
    return np.minimum(np.minimum.reduce(every), 0.0)


def pad_lines(values: Array, before: int, number: int, fill: Floats | float = 0.0) -> Array:
    """Lines of the first `before` claims among those of all, side by side; the same for the last axis of arms."""
    runs = values.shape[:-1]
    found = np.empty((*runs, values.shape[-1] // before, number), dtype=values.dtype)
    found[...] = fill
    found[..., :before] = values.reshape(*runs, -1, before)
    return found.reshape(*runs, -1)


def _pad_pairs(values: Array, before: int, arms: int) -> Array:
    """The values of every two arms. (K^2)"""
    return pad_lines(pad_lines(values, before, arms), before * arms, arms * arms)


def pad_past(past: Past, arms: int) -> Past:
    """The past of more arms, of which the last have no results."""
    before = past.counts.shape[-1]
    if arms == before:
        return past
    if past.earlier is not None:
        raise InputError("After this many batches no arm can be added: start a new study.")
    pairs = None if past.pairs is None else past.pairs.map_sums(lambda each: _pad_pairs(each, before, arms))
    own: Past = tree_map(lambda each: pad_lines(each, before, arms), past._replace(pairs=None))
    return own._replace(pairs=pairs)


def _pad_batch(batch: Batch, arms: int) -> Batch:
    before, pairs = batch.counts.shape[-1], batch.pairs
    if pairs is not None:
        table = pairs.table
        pairs = tree_map(lambda each: _pad_pairs(each, before, arms), pairs._replace(table=None))
        if table is not None:
            columns = _pad_pairs(np.moveaxis(table.counts, -1, 0), before, arms)
            pairs = pairs._replace(table=table._replace(counts=np.moveaxis(columns, 0, -1)))
    own: Batch = tree_map(lambda each: pad_lines(each, before, arms), batch._replace(pairs=None))
    return own._replace(pairs=pairs)


class PaddedSteps(NamedTuple):
    """Batches with all arms and all lines there are now; what a line was not there for says nothing."""

    steps: tuple[ClaimStep, ...]
    joined: NDArray[np.intp]  # (J), at which of them each claim was first bet on; their number if at none yet

    @property
    def families(self) -> list[int]:
        """The steps at which claims joined, in their order."""
        return sorted(set(self.joined.tolist()))


def pad_steps(steps: Sequence[ClaimStep], arms: int, number: int, lines: int) -> PaddedSteps:
    """The batches of one run, with all arms and claims: these are added after those there are."""
    sides, found = lines // number, []
    joined = np.full(number, len(steps), dtype=np.intp)
    for s, step in reversed(list(enumerate(steps))):
        before = len(step.bars) // sides
        joined[:before] = s
        bars, gains, shown = (pad_lines(each, before, number) for each in (step.bars, step.gains, step.shown))
        batch, parts = _pad_batch(step.batch, arms), tuple(_pad_batch(each, arms) for each in step.parts)
        others = batch.cubes, step.shortfall, step.least
        found.append(ClaimStep(*batch[:3], step.rho, bars, gains, shown, batch.pairs, parts, *others))
    return PaddedSteps(tuple(found[::-1]), joined)


def _padded_steps(problem: Problem, kept: ClaimState) -> PaddedSteps:
    return pad_steps(kept.steps, problem.arms, claims_of(problem).number, len(kept.shown))


# --- bounds that hold by themselves (17a)


def guess(problem: Problem, shape: tuple[int, ...]) -> Past:
    """The prior past: one result in the middle of the range, if there is one."""
    nothing, (low, high) = Past.none(shape), problem.noise.mean_range
    if not (math.isfinite(low) and math.isfinite(high)):
        return nothing
    return nothing._replace(counts=np.ones(shape), totals=np.full(shape, (low + high) / 2))


def bets_of(problem: Problem, batches: Sequence[Batch], parts: Sequence[Batch], first: int = 0) -> BetHistory:
    """Bets with no budget in sight, from the `first` batch on: before any result there is a guess, the same always.

    The very first batch is bet on in `parts`, one after the other, if there are any.
    """
    shape = batches[0].counts.shape
    past, end, placed = guess(problem, shape), Past.none(shape), []

    def known(past: Past) -> Estimates:
        return Estimates(past, past.means, problem.noise.variance(past))

    for number, batch in enumerate(batches):
        before = past
        for p, part in enumerate(parts if parts and number == 0 else (batch,)):
            placed += [PlacedBet(None, known(before), None, part, number == 0)] if number >= first else []
            before = before.plus(part, same_batch=p > 0)
        past, end = past.plus(batch), end.plus(batch)
    return BetHistory(problem, placed, RuleState(None, known(end), None))


def parts_of(batch: Batch) -> tuple[Batch, ...]:
    """The parts of a batch as it was partitioned first, if it was."""
    parts = batch.parts
    return () if parts is None else tuple(parts.batch(p) for p in range(parts.number))


def _units_of(step: ClaimStep) -> Floats:
    """The counts at the budget if shares stayed the same; an arm without results gets an equal share. (K)"""
    share = np.where(step.counts > 0, step.counts, step.counts.mean())
    return np.maximum(share / max(float(step.rho), 1e-300), 1e-300)


def _wealth_towards_budget(
    problem: Problem, steps: Sequence[ClaimStep], pieces: Halfspaces, bars: Floats, first: int
) -> WealthAgainst:
    """Bets with one drift that reaches the bar at the budget; they continue whatever was shown."""
    past, units, drifts = guess(problem, steps[first].counts.shape), _units_of(steps[first]), np.sqrt(2 * bars)[None]
    bets: list[FixedSizeBet] = []
    for number, step in enumerate(steps):
        if number >= first:
            bet = problem.noise.fixed_size_bet(past, step.batch, pieces, units, drifts)
            if step.parts and not any(bet(np.full(bars.shape, value)).any() for value in (0.0, 1.0)):
                # on counts there is no bet before an event was seen, as sizes are made of rates: the parts see some
                before = Past.none(step.counts.shape)
                for p, part in enumerate(step.parts):
                    bets.append(problem.noise.fixed_size_bet(before, part, pieces, units, drifts))
                    before = before.plus(part, same_batch=p > 0)
            else:
                bets.append(bet)
        past = past.plus(step.batch)

    def wealth(values: Floats) -> Iterator[Floats]:
        logs = np.zeros(values.shape)
        for bet in bets:
            logs = logs + bet(values)[0]
            yield logs

    return wealth


class ClaimFamily(NamedTuple):
    """Claims that joined between the same two batches, and the bets that bound their forms on both sides."""

    first: int  # the step that they were first bet on
    lines: Bools  # (2J), theirs
    pieces: Halfspaces  # (F), from below, then from above
    bars: Floats  # (F)
    wealth: WealthAgainst  # (F)


def _families(problem: Problem, kept: ClaimState, every: PaddedSteps) -> Iterator[ClaimFamily]:
    """delta is shared among the claims there were at first, delta/2^k among those added k-th (Proposition 17c)."""
    question, weights = claims_of(problem), weights_of(problem)
    both = _both_sides(question)
    for k, first in enumerate(each for each in every.families if each < len(every.steps)):
        own = every.joined == first
        heavy = total(weights[own]) + (0.0 if kept.other_metrics is None else kept.other_metrics.weight)
        bars = np.tile(problem.goal + k * math.log(2) + np.log(heavy / weights[own]), 2)
        lines = np.tile(own, 2)
        pieces = select_pieces(both, lines)
        if kept.had_budget:
            wealth = _wealth_towards_budget(problem, every.steps, pieces, bars, first)
        else:
            bets = bets_of(problem, [each.batch for each in every.steps], every.steps[0].parts, first)
            wealth = bets.wealth_against(pieces, bars)
        yield ClaimFamily(first, lines, pieces, bars, wealth)


def _both_sides(question: Claims) -> Halfspaces:
    """The forms of the claims, then their negatives. (2J)"""
    return (question if question.opposites else replace(question, sides="two", names=())).bets(())


def select_pieces(pieces: Halfspaces, lines: Bools) -> Halfspaces:
    """Some of the pieces, of one run."""
    factors = None if pieces.factors is None else pieces.factors[lines]
    return Halfspaces(pieces.arms[lines], factors, pieces.offsets[lines], pieces.pairs)


# --- bounds that agree with the decision (17b)


def _bounds_use_wealth(problem: Problem, kept: ClaimState) -> bool:
    """Whether bounds are made of the wealth of the rule, too: where it falls as the level rises, and of odds (17e)."""
    return kept.had_budget and _whole(kept) and (claims_of(problem).odds or problem.noise.monotone_budget_bets)


def _whole(kept: ClaimState) -> bool:
    """Whether what bounds are made of reaches back to the first batch: earlier versions began anew with a claim."""
    return len(kept.steps) >= min(float(kept.rounds), MOST_STEPS)


def _bet_on_values(
    problem: Problem, budget_bets: BudgetBets, past: Past, step: ClaimStep, closed: Bools, values: Floats, logs: Floats
) -> tuple[Floats, Floats]:
    """Bet again as in a step, with values in place of levels. (L), of odds (G, L)

    What is `closed` before the batch, shown or not there yet, is not bet on. Returned are the log of the wealth, and
    its excess over what rule (R) asked for after the batch: at the level itself this is rule (R). What is won on odds
    need not fall as the value rises: there the others have the least that they have at any value (17e).
    """
    question = claims_of(problem)
    need = np.where(closed | ~np.isfinite(logs), 0.0, step.bars - logs)
    logs = logs + budget_bets(past, step.batch, question.bets(())._replace(offsets=values), need, step.rho)
    gains = np.minimum(logs.min(axis=0), step.gains) if question.odds else step.gains
    bars = closing_bars(problem, gains, closed, 0.0 if step.shortfall is None else step.shortfall)
    return logs, np.where(closed, -np.inf, logs - bars + _SLACK)


def _replay_values(
    problem: Problem, every: PaddedSteps, budget_bets: BudgetBets, values: Floats
) -> Iterator[tuple[Floats, Floats]]:
    """The same after every step. A claim that joined later starts with the least of those open there, at most 1."""
    past, logs = Past.none(every.steps[0].counts.shape), np.zeros(values.shape)
    joined = np.tile(every.joined, values.shape[-1] // every.joined.size)
    shown, least = np.zeros(joined.shape, dtype=np.bool_), 0.0
    for s, step in enumerate(every.steps):
        closed = shown | (joined > s)
        logs, excess = _bet_on_values(
            problem, budget_bets, past, step, closed, values, np.where(joined == s, least, logs)
        )
        yield logs, excess
        past, shown = past.plus(step.batch), step.shown
        gains = np.minimum(logs, step.gains) if claims_of(problem).odds else step.gains
        other_metrics = 0.0 if step.least is None else float(step.least)
        least = float(np.where(shown | (joined > s), 0.0, gains).min(initial=other_metrics))


def _agreeing_bounds(problem: Problem, kept: ClaimState, every: PaddedSteps, budget_bets: BudgetBets) -> Floats:
    """For each line the largest value up to its level that the rule would have shown it to exceed. (L)"""

    def excess(values: Floats) -> Floats:
        return np.maximum.reduce([each for _, each in _replay_values(problem, every, budget_bets, values)])

    question = claims_of(problem)
    pieces = question.bets(())
    if not question.odds:
        estimate, error, (least, _) = locate_forms(problem, kept.past, pieces)
        return find_end(excess, estimate, error, (least, pieces.offsets))
    values = _odds_grid(pieces.offsets).values
    return np.maximum.reduce(
        [largest_exceeded(each.T >= 0, values) for _, each in _replay_values(problem, every, budget_bets, values.T)]
    )


def _odds_grid(level: Floats) -> WealthGrid:
    """The log odds ratios that bounds may be, fixed before the first result."""
    return WealthGrid.between(level - ODDS_BELOW, level, ODDS_STEPS + 1)


def _below(level: Floats, estimate: Floats, error: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Between which values up to the level the end of each line will lie."""
    wide = np.where(np.isfinite(error), error, 1.0)
    return np.minimum(np.maximum(estimate - BELOW * wide, ends), level - wide), level


# --- what bounds keep of batches, and the batches that are not kept (17d)


def update_history(
    problem: Problem, kept: ClaimState, step: ClaimStep, parts: Sequence[Batch], budget_bets: BudgetBets
) -> tuple[tuple[ClaimStep, ...], ClaimTail | None]:
    """The steps and the tail of one run after a batch; `kept` is before it, `parts` are those of the batch."""
    if len(kept.steps) >= MOST_STEPS:
        return kept.steps, _update_tail(problem, kept, step, budget_bets) if step.counts.any() else kept.tail
    if not kept.steps:
        step = step._replace(parts=tuple(part._replace(table=None) for part in parts))
    return (*kept.steps, step), None


def _around(problem: Problem, past: Past, pieces: Halfspaces, ends: Floats) -> tuple[Floats, Floats, Floats]:
    """Between which values the end of each form will lie, and its standard error. (P) each"""
    estimate, error, (least, most) = locate_forms(problem, past, pieces)
    with np.errstate(invalid="ignore"):
        low = np.clip(np.maximum(estimate - BELOW * error, ends), least, most)
        high = np.clip(estimate + ABOVE * error, least, most)
        none = ~np.isfinite(error) | ~(high > low)
    return np.where(none, 0.0, low), np.where(none, 0.0, high), np.where(none, np.inf, error)


@quiet
def _update_tail(problem: Problem, kept: ClaimState, step: ClaimStep, budget_bets: BudgetBets) -> ClaimTail:
    """Update the state of bounds after a batch that is not kept individually; `kept` is the state before it."""
    tail = _start_tail(problem, kept, budget_bets) if kept.tail is None else kept.tail
    if tail.track is not None:
        both = _both_sides(claims_of(problem))
        track = tail.track.laid(*_around(problem, kept.past.plus(step.batch), both, tail.track.ends))
        values, logs = track.values, track.logs.copy()
        first = guess(
            problem, kept.past.counts.shape
        )  # the past that sizes of bets are made of has the guess before it
        past = kept.past._replace(counts=kept.past.counts + first.counts, totals=kept.past.totals + first.totals)
        for family, units in enumerate(tail.units):
            here = tail.family == family
            pieces, drifts = select_pieces(both, here), tail.drifts[:, here]
            bet = problem.noise.fixed_size_bet(past, step.batch, pieces, units, drifts)
            logs[:, here] += np.stack([bet(each) for each in values[here].T], axis=-1)
        exceeded = (logs[0] if len(logs) == 1 else log_sum_exp(logs.copy())) >= tail.bars[:, None]
        tail = tail._replace(track=track.reached(exceeded, logs))
    if tail.wealth is None or not np.isfinite(step.rho):
        return tail
    level = claims_of(problem).bets(()).offsets
    grid = tail.wealth
    if not claims_of(problem).odds:
        grid = grid.laid(*_below(level, kept.value + level, kept.error, grid.ends), kept.error)
    logs, excess = _bet_on_values(problem, budget_bets, kept.past, step, kept.shown, grid.values.T, grid.logs[0].T)
    return tail._replace(wealth=grid.reached(excess.T >= 0, logs.T[None]))


def _start_tail(problem: Problem, kept: ClaimState, budget_bets: BudgetBets) -> ClaimTail:
    """Start the tail: wealth against values near the ends, from the batches that are kept."""
    question, every, budget = claims_of(problem), _padded_steps(problem, kept), kept.had_budget
    both, lines = _both_sides(question), 2 * question.number
    low, high, _ = _around(problem, kept.past, both, np.full(lines, -np.inf))
    track = WealthGrid.between(low, high, FINE if budget else COARSE)
    bars, family, units = np.zeros(lines), np.full(lines, -1.0), []
    for k, each in enumerate(_families(problem, kept, every)):
        bars[each.lines], family[each.lines] = each.bars, k
        units.append(_units_of(every.steps[each.first]) if budget else np.maximum(kept.past.counts, 1.0))
        for g, values in enumerate(track.values[each.lines].T):
            *_, track.logs[0, each.lines, g] = each.wealth(values)
    drifts = np.sqrt(2 * bars)[None]
    if not budget:
        drifts, shares = drift_ladder(bars, 1, *_LATER)
        track = track._replace(logs=track.logs + shares[..., None])
    wealth = None
    if _bounds_use_wealth(problem, kept):
        level = question.bets(()).offsets
        ends = _below(level, kept.value + level, kept.error, np.full(level.shape, -np.inf))
        wealth = _odds_grid(level) if question.odds else WealthGrid.between(*ends, COARSE)
        *_, (logs, _) = _replay_values(problem, every, budget_bets, wealth.values.T)
        wealth = wealth._replace(logs=logs.T[None])
    return ClaimTail(None if question.odds else track, bars, drifts, np.array(units), family, wealth)


# --- what a report says


def describe_claims(
    problem: Problem, trial: Trial, names: Sequence[str], budget_bets: BudgetBets, chances: Floats, adjusted: Floats
) -> list[ClaimStatus]:
    """Every claim, then every opposite: what was won for it, its size with bounds, and what can be expected of it.

    Once one side of a claim is shown there is no forecast for the other: no results are asked for its sake.
    """
    question, kept = claims_of(problem), trial.kept
    number = question.number
    evidence, bars = lines_of(problem, kept)
    lower, single = _lower_bounds(problem, kept, budget_bets)
    estimate = np.where(np.isfinite(kept.error[:number]), kept.value[:number] + question.levels, np.nan)
    settled = np.tile(sides_of(problem, kept.shown).any(axis=-2), len(kept.shown) // number)
    chances = np.where(kept.shown, 1.0, np.where(settled, np.nan, chances))
    last = kept.past.history
    pulls = last[-1][0] if last and not trial.plan.pulls.any() else trial.plan.pulls
    left_out = ((question.forms != 0) & (pulls == 0)).any(axis=-1)  # no results of this batch are for it
    left_out = left_out if kept.left_out is None else left_out | kept.left_out
    found = []
    for i, words in enumerate(question.claim_texts(names)):
        j, opposite = i % number, i >= number
        level = float(-question.lines.levels[i] if opposite else question.lines.levels[i])
        arms = np.flatnonzero(question.forms[j])
        form = LinearForm(tuple(arms.tolist()), tuple(question.forms[j][arms].tolist()), level, opposite)
        found.append(
            ClaimStatus(
                words,
                float(evidence[i]),
                float(bars[i]),
                bool(kept.shown[i]),
                about=None if question.odds else form,
                label=question.labels(names)[j],
                shown_at=int(kept.batch[i]) if kept.shown[i] else None,
                samples=int(kept.samples[i]) if kept.shown[i] else None,
                estimate=_finite(estimate[j]),
                lower=None if opposite else _finite(lower[j]),
                upper=_finite(-lower[number + j]),
                chance=_finite(chances[i]),
                margin=level,
                given_up=bool(not settled[i] and left_out[j]),
                opposite=opposite,
                scale=describe_scale(question.forms[j], question.levels[j], question.odds, names),
                adjusted=_finite(adjusted[i]),
                single_lower=None if opposite else _finite(single[j]),
                single_upper=_finite(-single[number + j]) if opposite or not question.opposites else None,
            )
        )
    return found


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _lower_bounds(problem: Problem, kept: ClaimState, budget_bets: BudgetBets) -> tuple[Floats, Floats]:
    """Of each line what it exceeds, at least, agreeing with what is shown; then of each opposite. (2J)

    Where there are no opposites, upper bounds of the claims take their place. Then the same by single steps alone.
    """
    question = claims_of(problem)
    single = np.full(2 * question.number, -np.inf)
    if not kept.steps or not kept.past.counts.any():
        return single, single
    every, tail = _padded_steps(problem, kept), kept.tail
    if not question.odds:
        for each in _families(problem, kept, every):
            place = locate_forms(problem, kept.past, each.pieces)
            single[each.lines] = find_end(excess_over(each.wealth, each.bars), *place)
    if tail is not None and tail.track is not None:
        single = np.maximum(single, tail.track.ends)
    found = single[: len(kept.shown)]
    if _bounds_use_wealth(problem, kept):
        found = np.maximum(found, _agreeing_bounds(problem, kept, every, budget_bets))
        if tail is not None and tail.wealth is not None:
            found = np.maximum(found, tail.wealth.ends)
    level = question.bets(()).offsets
    found = np.where(kept.shown, np.maximum(found, level), np.minimum(found, level))
    return np.append(found, single[len(found) :]), single


def note_joint_bounds(problem: Problem, kept: ClaimState) -> Note:
    """Return the note on what all bounds promise together.

    Bounds of odds ratios add one to what is shown, for each metric; others one, once claims were added two.
    """
    odds = [claims_of(each).odds for each in metrics_of(problem)]
    added = len(_padded_steps(problem, kept).families) > 1
    times = 1 + sum(odds) + (0 if all(odds) else 1 + added)
    return Note("joint_bounds", times=times, changed=not _whole(kept))
