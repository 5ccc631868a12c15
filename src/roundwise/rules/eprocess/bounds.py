"""Bounds that hold at every time at once and agree with the decision.

For a quantity (a mean, a difference, a form of the means) and every number m, money is bet on its exceeding m. The
sizes of these bets do not depend on m, so what is won falls in m: the numbers that are ruled out are a half-line, and
the bound is its end. In the first batch the money is spread over many drifts; from then on more and more of it is bet
where the bound will end (`aims`). Whether what is asked, m0, is ruled out is left to the bets of the decision: a bound
passes m0 just when those say that it is shown (docs/why-the-guarantee-holds.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, log_sum_exp
from roundwise.deadline import check_deadline
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, form_values, form_variances
from roundwise.model.problem import Problem
from roundwise.noise.base import FixedSizeBet
from roundwise.questions.base import Halfspaces, pairs, quiet, range_of_forms
from roundwise.rules.base import Interval
from roundwise.rules.eprocess.bound_bets import Aimed, Course

if TYPE_CHECKING:  # of a ledger: named tuples of arrays, of any kind where it is not said which
    from typing_extensions import TypeVar

    Wealth = TypeVar("Wealth", default=Any)
    Alternative = TypeVar("Alternative", default=Any)
else:
    from typing import TypeVar

    Wealth, Alternative = TypeVar("Wealth"), TypeVar("Alternative")

_STEP = 0.4  # log of the ratio of one drift to the next
_DRIFTS = 30  # the smallest is the best one once there are 1e10 times as many results as at first
_TAIL = 5.0  # drifts after which their weight has fallen to a quarter
_BOLDEST = 1.2  # the largest drift, in those that would be best if the first results were the last
_HALVINGS = 40  # of the bracket of a bound: to 1e-12 of a few standard errors
_MORE = 4  # steps that may be wasted on the way
_WIDER = 8.0  # by how much the bracket grows as long as it is too small
_WIDEST = 24  # times

Exceeded = Callable[[Floats], Bools]  # (P): of values, which are ruled out; a half-line
Excess = Callable[[Floats], Floats]  # (P): the same where it is at least 0; it falls in the values
_GONE = -1e300  # log of the money of a drift that was moved


class RuleState(NamedTuple, Generic[Wealth, Alternative]):
    """The money, what was seen, and what the next batch will be bet on."""

    won: Wealth
    known: Estimates
    choice: Alternative  # fixed before the next batch


class PlacedBet(NamedTuple, Generic[Wealth, Alternative]):
    """What may be bet on: results, and what was won, known and chosen before them."""

    won: Wealth
    known: Estimates
    choice: Alternative
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
        return np.where(every == leader, 0.0, -self.bound(pairs(every, np.full(every.shape, leader)), bar))

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

    def bound(self, forms: Halfspaces, bar: float, changing: Sequence[Halfspaces] = ()) -> Floats:
        """The end of what is ruled out below each form: the largest value it exceeds, or the least there is. (P)"""
        known = self.end.known
        with np.errstate(divide="ignore"):
            error = np.sqrt(known.variance[..., None] * form_variances(1.0 / known.past.counts, forms))
        limits = range_of_forms(forms.coefficients, *self.problem.noise.mean_range)
        return _end(self.excess(forms, bar, changing), form_values(known.past.means, forms), error, limits)

    def ruled_out(self, forms: Halfspaces, bar: float, changing: Sequence[Halfspaces] = ()) -> Exceeded:
        """Which values the forms have been shown to exceed.

        They may be `changing` from bet to bet to the last, if what is bounded is at least as large as each of them.
        """
        excess = self.excess(forms, bar, changing)
        return lambda values: excess(values) >= 0

    def excess(self, forms: Halfspaces, bar: float, changing: Sequence[Halfspaces] = ()) -> Excess:
        """log of the most that was ever won against each value, less the bar: bets from the first batch to the last."""
        won = self.won(forms, bar, changing)

        def most(values: Floats) -> Floats:
            ever = np.full(values.shape, -np.inf)
            for now in won(values):
                np.maximum(ever, now, out=ever)
            return ever - bar

        return most

    def won(
        self, forms: Halfspaces, bar: float, changing: Sequence[Halfspaces] = ()
    ) -> Callable[[Floats], Iterator[Floats]]:
        """log of what there is against each value after every bet. (P)"""
        units = self.end.known.past.first
        drifts, log_weights = (rungs.reshape(-1, *(1,) * units.ndim) for rungs in _ladder(bar))
        stages = list(self._stages(changing or [forms] * len(self.placed), bool(changing), bar, drifts, log_weights))

        def course(values: Floats) -> Iterator[Floats]:
            logs, aimed = log_weights + np.zeros(values.shape), np.full(values.shape, _GONE)
            for steady, aim in stages:
                if aim is not None:
                    if aim.joins.any():
                        joins = aim.joins[len(log_weights) - len(logs) :]
                        aimed = np.logaddexp(aimed, log_sum_exp(np.where(joins, logs, _GONE)))
                        logs = np.where(joins, _GONE, logs)[aim.moved - (len(log_weights) - len(logs)) :]
                    aimed = aimed + aim.gain(values)
                logs = logs + steady(values)
                yield np.logaddexp(aimed, log_sum_exp(logs.copy()))

        return course

    def _stages(
        self, forms: Sequence[Halfspaces], changing: bool, bar: float, drifts: Floats, log_weights: Floats
    ) -> Iterator[tuple[FixedSizeBet, Aimed | None]]:
        """The bets of each drift on each batch, and those that are aimed."""
        bettor, units = self.problem.noise, self.end.known.past.first
        course = Course(bettor, bar, units, drifts, log_weights)
        earlier: list[FixedSizeBet] = []
        for bet, pieces in zip(self.placed, forms, strict=True):
            if changing and not bet.known.past.history:  # what forms change to comes from the past
                continue
            aim = None if bet.first else course.batch(bet.known, bet.part, pieces, earlier)
            earlier.append(bettor.fixed_size_bet(bet.known.past, bet.part, pieces, units, drifts[course.moved :]))
            course.seen(bet.part)
            yield earlier[-1], aim


def interval(lower: Floats, minus: Floats) -> Interval:
    """What lies between bounds from below of values and of their negatives."""
    return Interval(lower, np.maximum(lower, -minus))


def agreed(bound: Floats, asked: Floats | float, shown: Bools) -> Floats:
    """The bound, moved to the side of what is asked on which the decision sees it."""
    return np.where(shown, np.maximum(bound, np.nextafter(asked, np.inf)), np.minimum(bound, asked))


def means_of(arms: int, sign: float, arm: int | slice = slice(None)) -> Halfspaces:
    """The means of all arms or one, or their negatives, as forms."""
    which = np.arange(arms)[arm].reshape(-1, 1)
    return Halfspaces(which, np.full(which.shape, sign), np.zeros(len(which)), False)


def _ladder(bar: float) -> tuple[Floats, Floats]:
    """Drifts in standard errors of the first results, and the log of their share of the stake. (k)"""
    place = np.arange(_DRIFTS)
    weights = (1.0 + place / _TAIL) ** -2.0
    return _BOLDEST * math.sqrt(2 * bar) * np.exp(-_STEP * place), np.log(weights / weights.sum())


@quiet
def _end(excess: Excess, start: Floats, error: Floats, limits: tuple[Floats, Floats]) -> Floats:
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
