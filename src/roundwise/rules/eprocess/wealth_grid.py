"""Bounds of claims after many batches: what was won against some values, carried on from batch to batch.

The first batches are kept one by one, and bounds are sought among all values. Later ones are bet on against values
between two ends alone, and forgotten: so a batch costs the same however many there were. What is won falls in the
value, so a value that is new may begin with what a larger one has (docs/why-the-guarantee-holds.md, Proposition 17d).
All are of one run.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, log_sum_exp
from roundwise.model.batch import Batch
from roundwise.model.estimates import Past, form_values, form_variances
from roundwise.model.problem import Problem
from roundwise.questions.base import Halfspaces, quiet, range_of_forms
from roundwise.rules.eprocess.claim_bounds import repeated
from roundwise.rules.eprocess.padded_claims import select_pieces

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
    purses: WealthGrid | None = None  # (L), those of the rule itself, at levels up to what is claimed

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
