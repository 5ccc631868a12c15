"""Bounds of what claims are about: those that agree with what is shown, and others that hold by themselves.

(docs/why-the-guarantee-holds.md, Proposition 17.) All are of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats
from roundwise.deadline import check_deadline
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past
from roundwise.model.problem import Problem
from roundwise.noise.base import FixedSizeBet
from roundwise.questions.base import Halfspaces, range_of_forms
from roundwise.questions.claims import Claims
from roundwise.rules.eprocess.closed_testing import missing_wealth, wealth_in_goals

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
    parts: tuple[Batch, ...] = ()  # of a first batch, as it was dealt first, where bounds need them

    @property
    def batch(self) -> Batch:
        """What came back, as sums."""
        return Batch(self.counts, self.totals, self.scatter, pairs=self.pairs)


Towards = Callable[[Past, Batch, Halfspaces, Floats, Floats], Floats]  # past, batch, pieces, need, rho -> log e (L)


def single_step(
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
    """The bets of `single_step`, and the past after them, with the guess before it."""
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


def agreeing(
    problem: Problem, question: Claims, steps: Sequence[ClaimStep], towards: Towards, joined: NDArray[np.intp]
) -> Floats:
    """For each line that is open the largest value up to its level that the rule would have shown it to exceed. (L)

    The same bets with the level moved; what is won falls as it rises. At the level itself this is rule (R), so a line
    is shown just where its bound reaches the level. A claim that `joined` at a later step starts as it did there.
    """
    pieces, past = question.bets(()), Past.none(steps[0].counts.shape)
    for step in steps:
        past = past.plus(step.batch)
    won = purses_at(problem, question, steps, towards, joined)
    found = _ends(lambda values: won(values)[0], problem, past, pieces, question.odds)
    return np.minimum(found, pieces.offsets)


def purses_at(
    problem: Problem,
    question: Claims,
    steps: Sequence[ClaimStep],
    towards: Towards,
    joined: NDArray[np.intp],
    times: int = 1,
) -> Callable[[Floats], tuple[Bools, Floats]]:
    """For values in the place of levels, so many `times` each: which are exceeded at some time, and the purses. (L)"""
    pieces, weights = repeated(question.bets(()), times), np.asarray(question.weights, dtype=np.float64)
    sides = len(pieces.offsets) // (weights.size * times)

    def each(values: Array) -> Array:
        return np.repeat(np.tile(values, sides), times)

    lines, joining, shape = each(weights), each(joined), (-1, question.number)
    wanted, starts = [], []
    before = np.zeros(sides * weights.size, dtype=np.bool_)
    least = 0.0  # of the purses that are open, at most 1
    for s, step in enumerate(steps):  # what each had to have for (R): what others lack after it, before it shows more
        there = np.tile(joined, sides) <= s
        money = wealth_in_goals(step.gains, problem.goal).reshape(shape)
        lack = each(missing_wealth(money, (before | ~there).reshape(shape), weights))
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
            logs = logs + towards(past, step.batch, moved, need, step.rho)
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
