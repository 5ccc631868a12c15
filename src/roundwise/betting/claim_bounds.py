"""Bounds of what claims are about: those that agree with what is shown, and others that hold by themselves.

(docs/why-the-guarantee-holds.md, Proposition 17.) All are of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.betting.closed import lacking, money_of
from roundwise.estimates import Past
from roundwise.noise import range_of_means
from roundwise.problem import Problem
from roundwise.questions.base import Halfspaces, range_of_forms
from roundwise.questions.claims import Claims
from roundwise.state import Batch

_HALVINGS = 32  # of 120 standard errors: to 1e-7 of one
_FAR = 60.0  # standard errors from the estimate within which bounds are sought


class Step(NamedTuple):
    """One batch as it was bet on, and what came of it."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None  # (K)
    rho: Floats  # (), nan where there was no budget
    bars: Floats  # (L), log of what each line had to reach
    gains: Floats  # (L), log E after it
    shown: Bools  # (L), after it
    pairs: Batch | None = None  # (K^2), of arms that share items

    @property
    def batch(self) -> Batch:
        """What came back, as sums."""
        return Batch(self.counts, self.totals, self.scatter, pairs=self.pairs)


Towards = Callable[[Past, Batch, Halfspaces, Floats, Floats], Floats]  # past, batch, pieces, need, rho -> log e (L)


def single_step(problem: Problem, steps: Sequence[Step], pieces: Halfspaces, bars: Floats) -> Floats:
    """The largest value that each form was shown to exceed by bets of its own, at all times and all forms together. (P)

    One drift that reaches the bar at the budget, the same for every value, so what is won falls as the value rises.
    Whatever the claims have shown, these bets go on.
    """
    first = steps[0]
    budget = first.counts / max(float(first.rho), 1e-300)  # what each arm would have, if shares stayed the same
    units, past, bets = np.maximum(budget, 1e-300), _guess(problem, first.counts.shape), []
    drifts = np.sqrt(2 * bars)[None]
    for step in steps:
        bets.append(problem.noise.steady(past, step.batch, pieces, units, drifts))
        past = past.plus(step.batch)

    def exceeded(values: Floats) -> Bools:
        logs, ever = np.zeros(values.shape), np.zeros(values.shape, dtype=np.bool_)
        for bet in bets:
            logs = logs + bet(values)[0]
            ever |= logs >= bars
        return ever

    return _ends(exceeded, problem, past, pieces)


def _guess(problem: Problem, shape: tuple[int, ...]) -> Past:
    """What is taken as the past before any: one result in the middle of the range, if there is one."""
    nothing, (low, high) = Past.none(shape), range_of_means(problem.noise)
    if not (math.isfinite(low) and math.isfinite(high)):
        return nothing
    return nothing._replace(counts=np.ones(shape), totals=np.full(shape, (low + high) / 2))


def agreeing(problem: Problem, question: Claims, steps: Sequence[Step], towards: Towards) -> Floats:
    """For each line that is open the largest value up to its level that the rule would have shown it to exceed. (L)

    The same bets with the level moved; what is won falls as it rises. At the level itself this is rule (R), so a line
    is shown just where its bound reaches the level.
    """
    pieces, weights = question.bets(()), np.asarray(question.weights, dtype=np.float64)
    lines = np.tile(weights, len(pieces.offsets) // weights.size)
    shape = (-1, question.number)
    wanted = []
    before = np.zeros(pieces.offsets.shape, dtype=np.bool_)
    for step in steps:  # what each line had to have for (R): what others lack after the batch, before it shows more
        money = money_of(step.gains, problem.goal).reshape(shape)
        lack = np.tile(lacking(money, before.reshape(shape), weights), len(money))
        wanted.append(problem.goal + np.log1p(lack / lines))
        before = step.shown

    def exceeded(values: Floats) -> Bools:
        moved = pieces._replace(offsets=values)
        past, logs = Past.none(steps[0].counts.shape), np.zeros(values.shape)
        ever, shown = np.zeros(values.shape, dtype=np.bool_), np.zeros(values.shape, dtype=np.bool_)
        for step, bar in zip(steps, wanted, strict=True):
            need = np.where(shown | ~np.isfinite(logs), 0.0, step.bars - logs)
            logs = logs + towards(past, step.batch, moved, need, step.rho)
            ever |= ~shown & (logs >= bar - 1e-12)
            past, shown = past.plus(step.batch), step.shown
        return ever

    past = Past.none(steps[0].counts.shape)
    for step in steps:
        past = past.plus(step.batch)
    return np.minimum(_ends(exceeded, problem, past, pieces, question.odds), pieces.offsets)


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
        limits, top = range_of_forms(factors, *range_of_means(problem.noise))
        low, high = np.maximum(estimate - _FAR * error, limits), np.minimum(estimate + _FAR * error, top)
    found = exceeded(low)
    least = np.where(found, low, limits if odds else np.where(np.isfinite(limits), limits, -np.inf))
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        below = exceeded(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(found, low, np.where(odds, -np.inf, least))
