"""Heavy-tailed rewards: any law whose variance is at most a known number (Proposition 40).

Bets use groups of rows: if the rows of each arm are put into G groups at random, the forms of the group means are
independent, and Delyon's inequality gives a bet on each. The mean of the log wealth over all ways to form groups is a
function of counts, sums and sums of squares and, by Jensen's inequality, the log of an e-value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, Past, all_arms, form_values, form_variances
from roundwise.noise.base import UNTRUE, FixedSizeBet, Needs, Noise
from roundwise.noise.bets import (
    HUGE,
    NO_ROWS,
    Index,
    LogFactor,
    PartBets,
    PartForm,
    PartsData,
    bet_where_needed,
    where_sized,
)
from roundwise.solvers.halfspaces import Halfspaces

FURTHEST = 3.0  # where y - y^2/6 is largest: the values of groups are clipped here
SIZES = (1, 2, 3, 4)  # rows of the smallest arm per group; with fewer groups unequal counts divide more evenly


@dataclass(frozen=True)
class BoundedVariance(Noise):
    """Rewards of any law with a variance of at most `max_variance`: heavy tails, with an exact guarantee.

    It needs 10 to 20 % more results than the sub-Gaussian model with that variance, but 20 % fewer if the true variance
    is a quarter of the limit. Results reported as sums need sums of squares.

    Args:
        max_variance: An upper bound on the variance of one result, for every arm.

    >>> BoundedVariance(4.0).words
    'Results follow any law with a variance of at most 4.'
    """

    max_variance: float
    name: ClassVar[str] = "bounded-variance"
    needs: ClassVar[Needs] = "squares"

    def __post_init__(self) -> None:
        if not 1e-200 < self.max_variance < 1e200:
            raise InputError(
                f"`max_variance` is {self.max_variance:g}, but must be a positive number (between 1e-200 and 1e200)."
            )

    @property
    def largest_deviation(self) -> float:
        return math.sqrt(self.max_variance)

    @property
    def estimates_variance(self) -> bool:
        """False: the bound is known, and the observed variance only sizes bets."""
        return False

    @property
    def flags(self) -> tuple[str, ...]:
        return "--max-variance", f"{self.max_variance:g}"

    @property
    def words(self) -> str:
        return f"Results follow any law with a variance of at most {self.max_variance:g}."

    def doubt(self, true: Noise) -> Reason | None:
        largest = true.largest_deviation  # a sub-Gaussian constant bounds the variance
        if largest is None:
            return UNTRUE
        return None if largest <= self.largest_deviation * (1 + 1e-12) else Reason("sigma_too_small")

    def variance(self, past: Past) -> Floats:
        return self.variances(past).mean(axis=-1)

    def variances(self, past: Past) -> Floats:
        return self.guess(past.scatter, past.freedom)

    def guess(self, scatter: Floats, freedom: Floats) -> Floats:
        """The equivalent variance of normal results: two thirds of the bound plus a third of the true variance.

        The latter is estimated from earlier results, with one result of the largest variance added.
        """
        own = np.minimum((scatter + self.max_variance) / (freedom + 1.0), self.max_variance)
        return (2.0 * self.max_variance + own) / 3.0

    def part_bets(self, data: PartsData) -> PartBets:
        return _BoundedVariancePartBets(data, self)

    @quiet
    def fixed_size_bet(
        self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats
    ) -> FixedSizeBet:
        new, error, groups = self._bet(past, batch, pieces)
        sizes = np.where(groups.number > 0, drifts * np.sqrt(form_variances(self.variances(past) / units, pieces)), 0.0)
        return lambda offsets: where_sized(
            sizes / error, lambda q: groups.log_factor(q / error, np.clip(new - offsets, -HUGE * error, HUGE * error))
        )

    @quiet
    def budget_bet(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """A bet on one drift, which reaches the bar at the budget, as for sub-Gaussian rewards (Proposition 15)."""
        new, error, groups = self._bet(known.past, batch, pieces)

        def bet(value: Floats, error: Floats, number: Floats, loss: Floats, need: Floats, rho: Floats) -> Floats:
            size = np.where(number > 0, np.sqrt(2.0 * np.clip(need * rho, 0.0, HUGE)), 0.0)
            value = np.clip(value, -HUGE * error, HUGE * error)
            return where_sized(size / error, lambda slope: Groups(number, loss).log_factor(slope, value))

        return bet_where_needed(bet, need, new - pieces.offsets, error, groups.number, groups.loss, need, rho)

    def _bet(self, past: Past, batch: Batch, pieces: Halfspaces) -> tuple[Floats, Floats, Groups]:
        """Each form of the batch's means, its error as estimated from the past, and its groups of rows. (P) each"""
        n = batch.counts
        error = np.sqrt(form_variances(self.variances(past) / np.maximum(n, NO_ROWS), pieces))
        counts = np.moveaxis(all_arms(n, pieces), -1, 0)
        squares = np.moveaxis(np.broadcast_to(pieces.coefficients**2, (*n.shape[:-1], *pieces.arms.shape[-2:])), -1, 0)
        scatter = None if batch.scatter is None else np.moveaxis(all_arms(batch.scatter, pieces), -1, 0)
        groups = form_groups(squares, counts, scatter, self)
        return form_values(batch.totals / np.maximum(n, 1.0), pieces), error, groups


class Groups(NamedTuple):
    """The groups of rows of each form, and the loss term of a bet."""

    number: Floats  # G, (P); 0 if an arm has no rows, which means no bet
    loss: Floats  # (P), for a bet of slope 1

    def log_factor(self, slope: Floats, value: Floats) -> Floats:
        """G (y - y^2/6) - slope^2 loss with y = slope value/G, clipped at 3. (P)"""
        y = np.minimum(slope * value / np.maximum(self.number, 1.0), FURTHEST)
        return self.number * (y - y * y / 6.0) - slope * slope * self.loss


@quiet
def form_groups(squares: Floats, counts: Floats, scatter: Floats | None, noise: BoundedVariance) -> Groups:
    """As many groups as the smallest arm has rows, or fewer if counts then divide more evenly.

    Without sums of squares there is one group of all rows.

    Args:
        squares: Squared coefficients of the arms of each form. (A, P)
        counts: Their rows. (A, P)
        scatter: sum (x - mean)^2 of these. (A, P)
        noise: The noise model.
    """
    n = np.where(squares > 0, counts, np.inf)
    fewest, n = n.min(axis=0), np.where(squares > 0, np.maximum(counts, 1.0), 1.0)
    even = (squares / n).sum(axis=0)
    number, inverse, least = np.ones_like(even), 1.0 / n, np.full_like(even, np.inf)
    for size in SIZES if scatter is not None else ():
        some = np.maximum(np.floor(fewest / size), 1.0)
        rows = np.floor(n / some)
        rest = n - rows * some
        each = ((some - rest) / rows + rest / (rows + 1.0)) / some  # mean of 1/rows over the groups
        cost = (squares * each).sum(axis=0) / some / even + 1.0 / (3.0 * some)
        better = cost < least
        number, inverse, least = (
            np.where(better, new, old) for new, old in ((some, number), (each, inverse), (cost, least))
        )
    between = 0.0 if scatter is None else scatter * (n * inverse - 1.0) / (n * np.maximum(n - 1.0, 1.0))
    loss = (squares * (between / 6.0 + noise.max_variance * inverse / 3.0)).sum(axis=0) / number
    return Groups(np.where((fewest >= 1) & np.isfinite(fewest), number, 0.0), loss)


@dataclass(frozen=True)
class _BoundedVariancePartBets(PartBets):
    """Bets on the parts of a batch, from groups of their rows."""

    data: PartsData
    noise: BoundedVariance

    @cached_property
    def variances(self) -> Floats:
        return self.noise.guess(*self.data.scatter_so_far)

    @cached_property
    def _spread(self) -> Floats:
        return self.variances / np.maximum(self.data.counts, NO_ROWS)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        factors = [1.0, -1.0] if form.factors is None else form.factors
        squares = np.stack([np.broadcast_to(np.square(each), value.shape) for each in factors])
        return self._factor(squares, np.stack(form.places), value, form.squares(self._spread))

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        return self._factor(np.ones((1, *arm.shape)), arm[None], distance, self._spread.reshape(-1).take(arm))

    def _factor(self, squares: Floats, places: Index, value: Floats, spread: Floats) -> LogFactor:
        """G (y - y^2/6) - q^2 loss/spread, y = q value/(G sqrt(spread)). (P, c)"""
        scatter = None if self.data.scatter is None else self.data.scatter.reshape(-1).take(places)
        groups = form_groups(squares, self.data.counts.reshape(-1).take(places), scatter, self.noise)
        z, loss = np.clip(value / np.sqrt(spread), -HUGE, HUGE), groups.loss / spread

        def log_factor(p: int, q: Floats) -> Floats:
            return Groups(groups.number[p], loss[p]).log_factor(np.where(groups.number[p] > 0, q, 0.0), z[p])

        return log_factor
