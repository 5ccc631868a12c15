"""Bounds that hold at every time at once and agree with the decision.

For a quantity (a mean, a difference, a form of the means) and every number m, money is bet on its exceeding m. The
sizes of these bets do not depend on m, so what is won falls in m: the numbers that are ruled out are a half-line, and
the bound is its end. Whether what is asked, m0, is among them is left to the bets of the decision: a bound passes m0
just when those say that it is shown (docs/why-the-guarantee-holds.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.betting.above import AboveLedger
from roundwise.betting.best_arm import BestArmLedger
from roundwise.betting.candidates import CandidateLedger
from roundwise.betting.extreme import ExtremeLedger
from roundwise.betting.rule import Betting, Kept, Placed, ledger_of
from roundwise.estimates import at, squares_at
from roundwise.noise import range_of_forms
from roundwise.noise.mixture import log_total
from roundwise.problem import Problem
from roundwise.questions import Above, AnyAbove, MinimumBelow
from roundwise.questions.base import Halfspaces, pairs
from roundwise.state import Batch

_STEP = 0.4  # log of the ratio of one drift to the next
_DRIFTS = 30  # the smallest is the best one once there are 1e10 times as many results as at first
_TAIL = 5.0  # drifts after which their weight has fallen to a quarter
_BOLDEST = 1.2  # the largest drift, in those that would be best if the first results were the last
_HALVINGS = 44  # of the bracket of a bound: to 1e-13 of a few standard errors
_WIDER = 8.0  # by how much the bracket grows as long as it is too small
_WIDEST = 24  # times


class Interval(NamedTuple):
    """Bounds for each arm; infinite where the data say nothing."""

    lower: Floats  # (K)
    upper: Floats  # (K)


Forms = Halfspaces | Sequence[Halfspaces]  # the same for all bets, or one for each
Exceeded = Callable[[Floats], Bools]  # (P): of values, which are ruled out; a half-line


def about_level(problem: Problem) -> bool:
    """Whether the question is on which side of a level means lie."""
    return isinstance(problem.question, Above | AnyAbove | MinimumBelow)


def mean_intervals(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Interval:
    """For each arm an interval that holds its mean with probability at least 1 - delta, at all times. One run only.

    For a question about a level each end holds with probability at least 1 - 2 delta: delta for the bound itself, and
    delta for the decision, with which it agrees. If any arm above (or the smallest below) is asked for, no arm's bound
    passes the level before that is shown of some arm.
    """
    placed, end = rule.replayed(problem, batches)
    ledger, bar = ledger_of(problem), problem.goal + (0.0 if about_level(problem) else math.log(2))
    lower, minus = (_bounds(problem, placed, end, means_of(problem.arms, sign), bar) for sign in (1.0, -1.0))
    if isinstance(ledger, AboveLedger):
        above, _ = ledger.claimed(end.won, end.choice)
        lower = _agreed(lower, ledger.level, end.won.settled & above)
        minus = _agreed(minus, -ledger.level, end.won.settled & ~above)
    elif isinstance(ledger, ExtremeLedger):
        sign = 1.0 if ledger.beyond_is_above else -1.0
        beyond, inner = (lower, minus) if ledger.beyond_is_above else (minus, lower)
        beyond = beyond if end.won.none_lost else np.minimum(beyond, sign * ledger.level)
        inner = _agreed(inner, -sign * ledger.level, end.won.arms_lost)
        lower, minus = (beyond, inner) if ledger.beyond_is_above else (inner, beyond)
    return Interval(lower, np.maximum(lower, -minus))


def to_spare(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Floats:
    """By how much each claim of the decision holds, at least: positive just where it is shown. One run only.

    In the order of `claims`. For best arm: how far each arm is behind the best one, 0 if it may be the best; else
    negative for what is not shown. Each is a bound on one side, which holds with probability at least 1 - 2 delta at
    all times: delta for the bound itself, and delta for the decision, with which it agrees.
    """
    placed, end = rule.replayed(problem, batches)
    ledger = ledger_of(problem)
    if isinstance(ledger, BestArmLedger):
        rivals = [pairs(bet.choice.rivals.pieces.arms[..., 0], np.arange(problem.arms)) for bet in placed]
        behind = _bounds(problem, placed, end, rivals, problem.goal)
        return np.where(end.won.lost, _agreed(behind, 0.0, end.won.lost), 0.0)
    if isinstance(ledger, AboveLedger):
        lower, upper = mean_intervals(problem, rule, batches)
        return np.where(ledger.claimed(end.won, end.choice)[0], lower - ledger.level, ledger.level - upper)
    if isinstance(ledger, ExtremeLedger):
        sign = 1.0 if ledger.beyond_is_above else -1.0
        chosen = [means_of(problem.arms, sign, bet.choice.arm) for bet in placed]
        some = _agreed(_bounds(problem, placed, end, chosen, problem.goal), sign * ledger.level, end.won.none_lost)
        every = _bounds(problem, placed, end, means_of(problem.arms, -sign), problem.goal)
        arms = _agreed(every, -sign * ledger.level, end.won.arms_lost)
        return np.append(some - sign * ledger.level, arms + sign * ledger.level)
    assert isinstance(ledger, CandidateLedger)
    number = ledger.number(end.won, end.choice)
    first = next((i for i, bet in enumerate(placed) if bet.live and bet.choice.number == number), len(placed))
    choice = placed[first].choice if first < len(placed) else end.choice
    pieces, bar = choice.pieces.pieces, float(ledger.goal(problem, choice._replace(number=np.asarray(number))))
    shown = end.won.lost[number] if number < len(end.won.lost) else np.zeros(pieces.offsets.shape, dtype=np.bool_)
    return _agreed(_bounds(problem, placed[first:], end, pieces, bar), pieces.offsets, shown) - pieces.offsets


def behind_leader(problem: Problem, rule: Betting, batches: Sequence[Batch], leader: int) -> Floats:
    """How far each arm is behind the leader, at most; each holds with probability at least 1 - delta at all times. (K)

    From bets on pairs of arms within a batch, so a shift of a whole batch cancels; 0 for the leader. Whichever of the
    K - 1 others leads, the bound must hold: that is paid for. One run only.
    """
    placed, end = rule.replayed(problem, batches)
    every = np.arange(problem.arms)
    bar = math.log((problem.arms - 1) / problem.delta)
    found = _bounds(problem, placed, end, pairs(every, np.full(problem.arms, leader)), bar)
    return np.where(every == leader, 0.0, -found)


def _agreed(bound: Floats, asked: Floats | float, shown: Bools) -> Floats:
    """The bound, moved to the side of what is asked on which the decision sees it."""
    return np.where(shown, np.maximum(bound, np.nextafter(asked, np.inf)), np.minimum(bound, asked))


def means_of(arms: int, sign: float, arm: Any = slice(None)) -> Halfspaces:
    """The means of all arms or one, or their negatives, as forms."""
    which = np.arange(arms)[arm].reshape(-1, 1)
    return Halfspaces(which, np.full(which.shape, sign), np.zeros(len(which)), False)


def _bounds(problem: Problem, placed: list[Placed], end: Kept, forms: Forms, bar: float) -> Floats:
    """The end of what is ruled out below each form: the largest value that it exceeds, or the least there is. (P)"""
    known, last = end.known, forms if isinstance(forms, Halfspaces) else forms[-1]
    with np.errstate(divide="ignore"):
        error = np.sqrt(known.variance[..., None] * squares_at(1.0 / known.past.counts, last))
    limits = range_of_forms(problem.noise, last.coefficients)
    return _end(ruled_out(problem, placed, end, forms, bar), at(known.past.means, last), error, limits)


def ruled_out(problem: Problem, placed: list[Placed], end: Kept, forms: Forms, bar: float) -> Exceeded:
    """Which values the forms have been shown to exceed: bets on each drift from the first batch to the last.

    Forms may change from bet to bet, if what is bounded is at least as large as each of them.
    """
    bettor, fixed = problem.noise, isinstance(forms, Halfspaces)
    each = [forms] * len(placed) if isinstance(forms, Halfspaces) else forms
    units = np.zeros_like(end.known.past.counts)
    for counts, _ in end.known.past.history:
        units = np.where(units > 0, units, counts)
    drifts, log_weights = (rungs.reshape(-1, *(1,) * units.ndim) for rungs in _ladder(bar))
    steady = [
        bettor.steady(bet.known.past, bet.part, pieces, units, drifts)
        for bet, pieces in zip(placed, each, strict=True)
        if fixed or bet.known.past.history  # what forms change to comes from the past
    ]

    def exceeded(values: Floats) -> Bools:
        logs = log_weights + np.zeros(values.shape)
        ever = np.zeros(values.shape, dtype=np.bool_)
        for bet in steady:
            logs = logs + bet(values)
            ever |= log_total(logs.copy()) >= bar
        return ever

    return exceeded


def _ladder(bar: float) -> tuple[Floats, Floats]:
    """Drifts in standard errors of the first results, and the log of their share of the stake. (k)"""
    place = np.arange(_DRIFTS)
    weights = (1.0 + place / _TAIL) ** -2.0
    return _BOLDEST * math.sqrt(2 * bar) * np.exp(-_STEP * place), np.log(weights / weights.sum())


def _end(exceeded: Exceeded, start: Floats, error: Floats, limits: tuple[Floats, Floats]) -> Floats:
    """The end of the values that are exceeded, a half-line; the least value if there are none."""
    step = np.where(np.isfinite(error), error, 1.0)
    low, high = (np.clip(start + side * step, *limits) for side in (-4.0, 1.0))
    for _ in range(_WIDEST):
        out, into = ~exceeded(low) & (low > limits[0]), exceeded(high) & (high < limits[1])
        if not (out | into).any():
            break
        step = step * _WIDER
        low = np.where(out, np.clip(start - step, *limits), low)
        high = np.where(into, np.clip(start + step, *limits), high)
    found = exceeded(low)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        below = exceeded(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(found, low, limits[0])
