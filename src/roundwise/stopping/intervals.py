"""Bounds that agree with the decision: made from the very bets that stop a study, at every time at once.

What a study must show is that some quantities (a mean, a difference) exceed what is asked, m0. The same bets placed
against "it is at most m" rule out other values m; the bound is where that ends. At m0 they are the bets of the ledger
itself, one for one, so a bound lies beyond m0 just when the ledger says that this is shown. What is not part of the
question (means when arms are compared, how far an arm trails the leader at most) is bet on in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from roundwise.noise import range_of_forms, range_of_means
from roundwise.problem import Problem
from roundwise.questions import Above, AnyAbove, MinimumBelow
from roundwise.questions.base import pairs
from roundwise.record import Batch
from roundwise.runs import Bools, Floats, mapped
from roundwise.stopping.betting import Betting, Kept, Placed, bettor_of, ledger_of
from roundwise.stopping.ledgers.above import ROOM, AboveLedger, Sides
from roundwise.stopping.ledgers.best_arm import BestArmLedger
from roundwise.stopping.ledgers.candidates import CandidateLedger
from roundwise.stopping.ledgers.minimum import ExtremeLedger
from roundwise.stopping.ledgers.minimum import Won as Extremes
from roundwise.stopping.past import Forecast, Known, known_from

_POINTS, _ROUNDS = 8, 8  # of the search: bounds are exact to a few millionths of a standard error
_WIDE = 60.0  # standard errors of a typical arm, outward from the estimate, in which a bound is looked for
_NEAR = 8.0  # the same on the other side of it
_TRIES = 4  # each ten times as far, if that is not enough


class Interval(NamedTuple):
    """Bounds for each arm; infinite where the data say nothing."""

    lower: Floats  # (K)
    upper: Floats  # (K)


Shown = Callable[[Floats], Bools]  # (G, P): of values to be exceeded, which of them have been


def about_level(problem: Problem) -> bool:
    """Whether the question is on which side of a level means lie."""
    return isinstance(problem.question, Above | AnyAbove | MinimumBelow)


def mean_intervals(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Interval:
    """For each arm an interval that holds its mean with probability at least 1 - delta, at all times. One run only.

    For a question about a level each end holds with this probability, as its decision does. If any arm above (or the
    smallest below) is asked for, no arm's bound passes the level before that is shown of some arm.
    """
    placed, end = rule.replayed(problem, batches)
    ledger = ledger_of(problem)
    if isinstance(ledger, AboveLedger):
        return Interval(_above(problem, ledger, placed, end, True), _above(problem, ledger, placed, end, False))
    if isinstance(ledger, ExtremeLedger):
        beyond = _own(problem, placed, end, ledger.beyond_is_above, problem.goal)
        inner = _not_beyond(problem, ledger, placed, end)
        if ledger.beyond_is_above:
            return Interval(beyond if end.won.none_lost else np.minimum(beyond, ledger.level), inner)
        return Interval(inner, beyond if end.won.none_lost else np.maximum(beyond, ledger.level))
    need = problem.goal + math.log(2)
    return Interval(_own(problem, placed, end, True, need), _own(problem, placed, end, False, need))


def to_spare(problem: Problem, rule: Betting, batches: Sequence[Batch]) -> Floats:
    """By how much each claim of the decision holds, at least: positive just where it is shown. One run only.

    In the order of `claims`. For best arm: how far each arm is behind the best one, 0 if it may be the best; else
    negative for what is not shown. Each is a bound on one side, which holds with probability at least 1 - delta at all
    times (which side of a level is looked at depends on the data: both hold with 1 - 2 delta).
    """
    placed, end = rule.replayed(problem, batches)
    ledger = ledger_of(problem)
    if isinstance(ledger, BestArmLedger):
        return _behind_best(problem, ledger, placed, end)
    if isinstance(ledger, AboveLedger):
        lower, upper = mean_intervals(problem, rule, batches)
        return np.where(ledger.claimed(end.won, end.choice)[0], lower - ledger.level, ledger.level - upper)
    if isinstance(ledger, ExtremeLedger):
        sign = 1.0 if ledger.beyond_is_above else -1.0
        arms = sign * (ledger.level - _not_beyond(problem, ledger, placed, end))
        return np.append(sign * (_extreme(problem, ledger, placed, end) - ledger.level), arms)
    assert isinstance(ledger, CandidateLedger)
    return _pieces(problem, ledger, placed, end)


def behind_leader(problem: Problem, rule: Betting, batches: Sequence[Batch], leader: int) -> Floats:
    """How far each arm is behind the leader, at most; each holds with probability at least 1 - delta at all times. (K)

    From bets on pairs of arms within a batch, so a shift of a whole batch cancels; 0 for the leader. Whichever of the
    K - 1 others leads, the bound must hold: that is paid for. One run only.
    """
    bettor = bettor_of(problem)
    placed, end = rule.replayed(problem, batches)
    need = math.log((problem.arms - 1) / problem.delta)
    pieces = pairs(np.arange(problem.arms), np.full(problem.arms, leader))

    def forecast(known: Known) -> Forecast:
        return known_from(known.past, known.variance, rule.shifts).forecast(pieces)

    bets = [(bet, forecast(bet.known)) for bet in placed]

    def shown(values: Floats) -> Bools:
        gains = np.zeros_like(values)
        ever = np.zeros(values.shape, dtype=np.bool_)
        for bet, past in _spread(bets, len(values)):
            moved = past.moved(values)
            left = np.where(bet.live[..., None] & (moved.value > 0) & ~ever, need - gains, 0.0)
            gain = bettor.form(bet.known, bet.part, moved, left)
            gains, ever = gains + gain, ever | ((left > 0) & (gain >= left))
        return ever

    last = forecast(end.known)
    low, high = range_of_means(problem.noise)
    found = -_bound(shown, last.value, end.known.error(last), low - high)
    return np.where(np.arange(problem.arms) == leader, 0.0, found)


def _behind_best(problem: Problem, ledger: BestArmLedger, placed: list[Placed], end: Kept) -> Floats:
    """How far each arm is behind the best, at least: it is compared with its rivals of the time, as in the ledger."""
    if not placed or not end.won.lost.any():
        return np.zeros(problem.arms)

    def moved(bet: Placed, values: Floats) -> Any:
        return bet.choice._replace(rivals=bet.choice.rivals.moved(values))

    def shown(values: Floats) -> Bools:
        return np.asarray(_replayed(problem, placed, values, moved).lost)

    last = end.known.forecast(placed[-1].choice.rivals.pieces)
    found = _bound(shown, last.value, end.known.error(last), 0.0, 0.0)
    return np.where(end.won.lost, found, 0.0)


def _pieces(problem: Problem, ledger: CandidateLedger, placed: list[Placed], end: Kept) -> Floats:
    """By how much each piece of a candidate holds: the one that won, or that of the estimates."""
    number = ledger.number(end.won, end.choice)
    mine = [bet for bet in placed if bet.live and bet.choice.number == number]
    pieces = mine[-1].choice.pieces.pieces if mine else end.choice.pieces.pieces

    def moved(bet: Placed, values: Floats) -> Any:
        return bet.choice._replace(pieces=bet.choice.pieces.moved(values))

    def shown(values: Floats) -> Bools:
        if not mine:
            return np.zeros(values.shape, dtype=np.bool_)
        return np.asarray(_replayed(problem, mine, values, moved).lost[..., number, :])

    last = end.known.forecast(pieces)
    start, (least, _) = last.value + pieces.offsets, range_of_forms(problem.noise, pieces.coefficients)
    return _bound(shown, start, end.known.error(last), least, pieces.offsets) - pieces.offsets


def _replayed(problem: Problem, placed: list[Placed], values: Floats, moved: Callable[[Placed, Floats], Any]) -> Any:
    """The money of the ledger if the same bets had been placed against other values. (G, P)"""
    ledger, bettor = ledger_of(problem), bettor_of(problem)
    won = ledger.start(problem, (len(values),))
    for bet in _spread(placed, len(values)):
        won = ledger.settled(problem, bettor, won, bet.known, moved(bet, values), bet.part, bet.live)
    return won


def _above(problem: Problem, ledger: AboveLedger, placed: list[Placed], end: Kept, above: bool) -> Floats:
    """Lower (or upper) bounds of the means: one arm's level is moved, what the others have won or lost stays."""
    bettor = bettor_of(problem)
    others = [ledger.others(won) for won in (*(bet.won for bet in placed), end.won)]

    def shown(levels: Floats) -> Bools:
        won = ledger.start(problem, (len(levels),))
        for bet, about in zip(_spread(placed, len(levels)), pairwise(others), strict=True):
            sides = bet.known.past.means > levels
            away = np.abs(levels - ledger.level) * np.sqrt(bet.known.past.counts / bet.known.variance[..., None])
            moved = AboveLedger(levels, ROOM + away)
            won = moved.settled(problem, bettor, won, bet.known, Sides(sides), bet.part, bet.live, about)
        return np.asarray(won.settled & ((won.above > won.below) == above))

    return _mean_bound(problem, end.known, shown, above, ledger.level)


def _not_beyond(problem: Problem, ledger: ExtremeLedger, placed: list[Placed], end: Kept) -> Floats:
    """The bound on each mean from the bets that it is not beyond the level."""

    def shown(levels: Floats) -> Bools:
        start = ledger.start(problem, (len(levels),))
        return _moved_level(problem, ledger, placed, start._replace(none_lost=~start.none_lost), levels).arms_lost

    return _mean_bound(problem, end.known, shown, not ledger.beyond_is_above, ledger.level)


def _extreme(problem: Problem, ledger: ExtremeLedger, placed: list[Placed], end: Kept) -> float:
    """The bound on the largest (smallest) mean, from the bets that one arm is beyond the level."""

    def shown(levels: Floats) -> Bools:
        start = ledger.start(problem, (len(levels),))
        won = _moved_level(problem, ledger, placed, start._replace(arms_lost=~start.arms_lost), levels)
        return won.none_lost[..., None]

    return float(_mean_bound(problem, end.known, shown, ledger.beyond_is_above, ledger.level, end.choice.arm)[0])


def _moved_level(
    problem: Problem, ledger: ExtremeLedger, placed: list[Placed], won: Extremes, levels: Floats
) -> Extremes:
    """The money if the same bets had been placed against other levels."""
    bettor, moved = bettor_of(problem), ExtremeLedger(levels, ledger.beyond_is_above)
    for bet in _spread(placed, len(levels)):
        won = moved.settled(problem, bettor, won, bet.known, bet.choice, bet.part, bet.live)
    return won


def _own(problem: Problem, placed: list[Placed], end: Kept, above: bool, need: float) -> Floats:
    """Lower (or upper) bounds of the means from bets on each mean by itself, while the past is on that side."""
    bettor, side = bettor_of(problem), np.asarray(above)

    def shown(levels: Floats) -> Bools:
        gains = np.zeros_like(levels)
        ever = np.zeros(levels.shape, dtype=np.bool_)
        for bet in _spread(placed, len(levels)):
            toward = ((bet.known.past.means > levels) == above) & bet.live[..., None] & ~ever
            left = np.where(toward, need - gains, 0.0)
            gain = bettor.level(bet.known, bet.part, levels, side, left)
            gains, ever = gains + gain, ever | ((left > 0) & (gain >= left))
        return ever

    return _mean_bound(problem, end.known, shown, above, None)


def _spread(bets: list[Any], size: int) -> list[Any]:
    """The same bets in so many runs."""
    return [mapped(lambda array: np.broadcast_to(array, (size, *np.shape(array))), bet) for bet in bets]


def _mean_bound(
    problem: Problem, known: Known, shown: Shown, above: bool, asked: Floats | float | None, arm: Any = slice(None)
) -> Floats:
    """Lower bounds of means (`above`), or upper ones, for all arms or one."""
    with np.errstate(divide="ignore"):
        error = np.atleast_1d(np.sqrt(known.variance / known.past.counts)[arm])
    sign, (low, high) = 1.0 if above else -1.0, range_of_means(problem.noise)
    start, limit = np.atleast_1d(sign * known.past.means[arm]), low if above else -high
    return sign * _bound(lambda v: shown(sign * v), start, error, limit, None if asked is None else sign * asked)


def _bound(
    shown: Shown, start: Floats, error: Floats, limit: Floats | float, asked: Floats | float | None = None
) -> Floats:
    """The least value that is not shown to be exceeded; the limit if nothing is. What is asked is looked at first.

    Each round looks at a grid between a value that is exceeded and one that is not, and goes on where it first is not.
    """
    error = np.where(np.isfinite(error), error, 1.0)
    low, high = start, start
    if asked is not None:
        low, high = np.minimum(start, asked), np.maximum(start, asked)
    out, found = _far(shown, low, -_WIDE * error, limit)
    into, _ = _far(lambda values: ~shown(values), high, _NEAR * error, np.inf)
    if asked is not None:
        now = shown(np.broadcast_to(asked, start.shape)[None])[0]
        out, into = np.where(now, asked, out), np.where(now, into, asked)
        found = found | now
    for _ in range(_ROUNDS):
        grid = out + (into - out) * (np.arange(1, _POINTS)[:, None] / _POINTS)
        points = np.concatenate([out[None], grid, into[None]])
        many = np.logical_and.accumulate(shown(grid), axis=0).sum(axis=0)[None]
        out, into = (np.take_along_axis(points, many + i, axis=0)[0] for i in (0, 1))
    return np.where(found, out, limit)


def _far(holds: Shown, start: Floats, step: Floats, limit: Floats | float) -> tuple[Floats, Bools]:
    """The first of start + step, start + 10 step, ... at which something holds (the limit is good enough), if any."""
    tries = start + step * 10.0 ** np.arange(_TRIES)[:, None]
    tries = np.where((tries - limit) * np.sign(step) > 0, limit, tries)
    good = holds(tries) | (tries == limit)
    first = good.argmax(axis=0)[None]
    return np.take_along_axis(tries, first, axis=0)[0], good.any(axis=0)
