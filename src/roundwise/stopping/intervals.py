"""Bounds that agree with the decision: made from the very bets that stop a study, at every time at once.

The bets against "the mean is at most m" are those against the level m; a value m is outside once they have won
1/delta, for a bound, or 2/delta, for an interval with two ends. Questions about a level are decided by bounds, so
bounds are shown for them: a study that says which arms are above has the level outside the bounds of each (with exactly
Gaussian bets, whose cap depends on what is needed, nearly always). The bound on how far an arm is behind the best one
is made from the bets that rule it out as best: it is positive just when it has been ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.noise import range_of_means
from roundwise.problem import Problem
from roundwise.questions import Above, AnyAbove, BestArm, MinimumBelow
from roundwise.questions.base import Halfspaces, pairs
from roundwise.record import Batch
from roundwise.runs import Bools, Floats
from roundwise.stopping.betting import Betting, bettor_of

_STEPS = 26  # of bisection: the bounds are exact to about a millionth of a standard error
_NEAR = 8.0  # standard errors of the past within which a level is bet on as it is
_WIDE = 60.0  # standard errors around the estimate in which a bound is looked for


class Interval(NamedTuple):
    """Bounds for each arm; infinite where the data say nothing."""

    lower: Floats  # (K)
    upper: Floats  # (K)


def mean_intervals(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Interval:
    """For each arm an interval that holds its mean with probability at least 1 - delta, at all times. One run only.

    For a question about a level each end holds with this probability, as its decision does.
    """
    bettor = bettor_of(problem)
    placed, last = rule.replayed(problem, batches)
    need = math.log((1 if about_level(problem) else 2) / problem.delta)

    def won(side: bool) -> Callable[[Floats], Floats]:
        above = np.asarray(side)

        def most(level: Floats) -> Floats:
            """The most ever won against the mean being on the other side of the level."""
            gains, best = np.zeros(problem.arms), np.zeros(problem.arms)
            for bet in placed:
                past = bet.known.past.means
                toward = ((past > level) == side) & bet.live
                with np.errstate(divide="ignore"):
                    near = _NEAR * np.sqrt(bet.known.variance / bet.known.past.counts)
                # what is won against a nearer level counts against one beyond it; on far ones bets would be too bold
                at = np.maximum(level, past - near) if side else np.minimum(level, past + near)
                step = bettor.level(bet.known, bet.part, at, above, np.where(toward, need - gains, 0.0))
                gains = gains + step
                best = np.maximum(best, gains)
            return best

        return most

    means = last.past.means
    with np.errstate(divide="ignore"):
        error = np.sqrt(last.variance / last.past.counts)
    low, high = range_of_means(problem.noise)
    return Interval(_edge(won(True), means, error, need, -1.0, low), _edge(won(False), means, error, need, 1.0, high))


def about_level(problem: Problem) -> bool:
    """Whether the question is on which side of a level means lie."""
    return isinstance(problem.question, Above | AnyAbove | MinimumBelow)


def leader_differences(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Interval:
    """Leader minus arm, for the arm that leads now; each holds with probability at least 1 - delta at all times.

    From the bets on pairs of arms within a batch, so a shift of a whole batch cancels; 0 for the leader. Whichever of
    the K - 1 others leads, the bound must hold: that is paid for. One run only.
    """
    bettor = bettor_of(problem)
    placed, last = rule.replayed(problem, batches)
    need = math.log(2 * (problem.arms - 1) / problem.delta)
    leader = np.full(problem.arms, int(last.means.argmax()))
    ahead, behind = pairs(leader, None), pairs(np.arange(problem.arms), leader)

    def won(pieces: Halfspaces, sign: float) -> Callable[[Floats], Floats]:
        def most(distance: Floats) -> Floats:
            gains, best = np.zeros(problem.arms), np.zeros(problem.arms)
            for bet in placed:
                forecast = bet.known.forecast(pieces).moved(sign * distance)
                left = np.where(forecast.value > 0, need - gains, 0.0)
                gains = gains + bettor.form(bet.known, bet.part, forecast, left)
                best = np.maximum(best, gains)
            return best

        return most

    final = last.forecast(ahead)
    error, itself = last.error(final), leader == np.arange(problem.arms)
    low, high = range_of_means(problem.noise)
    lower = _edge(won(ahead, 1.0), final.value, error, need, -1.0, low - high)
    upper = _edge(won(behind, -1.0), final.value, error, need, 1.0, high - low)
    return Interval(np.where(itself, 0.0, lower), np.where(itself, 0.0, upper))


def behind_best(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Floats:
    """How far each arm is behind the best one, at least: 0 if it may be the best. For best arm, one run only. (K)

    Each bound holds with probability at least 1 - delta at all times; it is positive if and only if the arm is out.
    """
    if not isinstance(problem.question, BestArm) or problem.question.tolerance:
        raise TypeError("`behind_best` is for best arm without a tolerance.")
    bettor = bettor_of(problem)
    placed, last = rule.replayed(problem, batches)
    need = math.log(1 / problem.delta)

    def most(distance: Floats) -> Floats:
        gains, best = np.zeros(problem.arms), np.zeros(problem.arms)
        for bet in placed:
            rivals = bet.choice.rivals.moved(distance)
            left = np.where(bet.live & (best < need), need - gains, 0.0)
            step = bettor.form(bet.known, bet.part, rivals, left)
            # what is still needed may be won exactly, and lost again by rounding
            best = np.where((left > 0) & (step >= left), need, np.maximum(best, gains + step))
            gains = gains + step
        return best

    out = most(np.zeros(problem.arms)) >= need
    pieces = placed[-1].choice.rivals.pieces if placed else None
    if pieces is None or not out.any():
        return np.zeros(problem.arms)
    final = last.forecast(pieces)
    guess = np.maximum(final.value, 0.0)
    return np.where(out, _edge(most, guess, last.error(final), need, -1.0, 0.0), 0.0)


def _edge(
    most: Callable[[Floats], Floats], start: Floats, error: Floats, need: float, side: float, limit: float
) -> Floats:
    """The end of what is not ruled out, on one side of the estimate, by bisection; the limit if nothing is."""
    error = np.where(np.isfinite(error), error, 1.0)
    far = start + side * _WIDE * error
    far = np.maximum(far, limit) if side < 0 else np.minimum(far, limit)
    inside, outside = start, far
    found: Bools = (most(far) >= need) | (far == limit)
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        out = most(middle) >= need
        inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
    return np.where(found, outside, limit)
