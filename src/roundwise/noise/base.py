"""What a noise model owes: what is assumed of the rewards, and the bets that it allows; and what the models share.

A bet sees what was known before a batch and the batch, and returns log e-values: that forms of the means exceed their
offsets, or that single means lie above (or below) a level. The e-value's expectation is at most 1 under every law of
its null, whatever the past (docs/why-the-guarantee-holds.md has the proof of each). `need` is what is still to be won;
where it is not positive nothing is bet, and log e is 0.

The functions `..._bet` are elementwise over any shape, never NaN, and 0.0 (no bet) where a bet is impossible. Their
arguments `past_...` may depend on everything seen before the batch, and on nothing in it.

The bets named `steady_..._bet` serve the bounds of a report: log e-values against "the mean (the difference, the form)
is at most a value", one for each size. Sizes are on the first axis, predictable, and the same for every value, so what
is won falls as the value rises (Proposition 11).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, total, zeros
from roundwise.errors import InputError
from roundwise.estimates import Forecast, Known, Past, arm_of, at, squares_at
from roundwise.questions.base import Halfspaces, quiet
from roundwise.state import Batch

Needs = Literal["sums", "squares", "rows"]
Steady = Callable[[Floats], Floats]  # offsets (P) -> log e-values, one for each size, which fall in the offset (k, P)

UNTRUE = "no guarantee: what is assumed of the rewards is not true here"
MOST = 1e100  # above this, or below its inverse, nothing is bet on: products would overflow


class Outcome(NamedTuple):
    """What one result may be; and what to say of one that cannot be, and to start a new study with instead."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False  # only whole numbers
    normal: bool = False  # normal, with just the sigma that is assumed
    wrong: str = "is impossible under the noise model this study was created with."
    remedy: str = "another noise model."  # {low:g} and {high:g} are a range that the result lies in


class Noise(Protocol):
    """What is assumed of the rewards, and the bets that it allows."""

    @property
    def name(self) -> str:
        """Its name in plain data."""

    @property
    def needs(self) -> Needs:
        """What it wants to see of the data: "sums" (count and total), "squares" or "rows".

        With "squares" the variance is estimated, within each batch, from the sum of squares. With "rows" every value is
        wanted, and without them its sigma is enough.
        """

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant, E exp(s (X - mu)) <= exp(sigma^2 s^2 / 2); an InputError where there is none."""

    @property
    def outcome(self) -> Outcome:
        """What one result may be."""

    @property
    def words(self) -> str:
        """What is assumed, as a sentence."""

    def doubt(self, true: Noise) -> str | None:
        """Why it is not true where another model is; None if it is."""

    def variance(self, past: Past) -> Floats:
        """A guess at the variance of one result, from the past: it sizes bets and batches, and proves nothing. ()"""

    def variances(self, past: Past) -> Floats:
        """The same for each arm, as well as it is known: it tells whether batches agree. (K)"""

    def form(self, known: Known, batch: Batch, forecast: Forecast, need: Floats) -> Floats:
        """log e for each form exceeding its offset, from results of one batch. (P)"""

    def level(self, known: Known, batch: Batch, level: Floats | float, above: Bools, need: Floats) -> Floats:
        """log e for each arm's mean above the level, or below it. (K)"""

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """log e for each form exceeding given offsets, with sizes that do not depend on those. (k, P)

        The sizes stand for differences of `drifts` (k, 1) standard errors of the form after `units` results an arm (K).
        """


def known_sigma(noise: Noise) -> float | None:
    """The sigma of a noise model, None where there is none."""
    try:
        return noise.sigma
    except InputError:
        return None


def range_of_means(noise: Noise) -> tuple[float, float]:
    """Where means can lie at all."""
    return noise.outcome.low, noise.outcome.high


def range_of_forms(noise: Noise, factors: Floats) -> tuple[Floats, Floats]:
    """Where sums of means with these factors can lie at all. (P, S)->(P)"""
    low, high = range_of_means(noise)
    with np.errstate(invalid="ignore"):
        least = np.where(factors == 0, 0.0, np.where(factors > 0, factors * low, factors * high))
        most = np.where(factors == 0, 0.0, np.where(factors > 0, factors * high, factors * low))
    return total(least), total(most)


# ------------------------------------------------------------------------------------------------ what is bet on


def alike(variance: Floats, past: Past) -> Floats:
    """One variance for every arm. ()->(K)"""
    return np.broadcast_to(variance[..., None], past.counts.shape)


def means_of(batch: Batch) -> tuple[Floats, Floats]:
    """Means of a batch, and 1/counts: infinite, hence no bet, for an arm without results. (K), (K)"""
    with np.errstate(divide="ignore"):
        return batch.totals / np.maximum(batch.counts, 1.0), 1.0 / batch.counts


def on_forms(batch: Batch, forecast: Forecast) -> tuple[Floats, Floats, Floats, Floats]:
    """Each form less its offset and its variance per unit of sigma^2, in the past; the same in the batch. (P) each"""
    means, spread = means_of(batch)
    pieces = forecast.pieces
    return forecast.value, forecast.leverage, at(means, pieces) - pieces.offsets, squares_at(spread, pieces)


@quiet
def on_levels(known: Known, batch: Batch, level: Floats | float, above: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """The same for the distance of each arm's mean from a level. (K) each"""
    sign = np.where(above, 1.0, -1.0)
    means, spread = means_of(batch)
    return sign * (known.past.means - level), 1.0 / known.past.counts, sign * (means - level), spread


def pairs_among(pieces: Halfspaces) -> Bools:
    """Which pieces say that their first arm exceeds their second by the offset, and nothing else. (P)"""
    if pieces.pairs:
        return np.ones(pieces.offsets.shape, dtype=np.bool_)
    factors = pieces.coefficients
    if factors.shape[-1] < 2:
        return np.zeros(factors.shape[:-1], dtype=np.bool_)
    return (factors[..., 0] == 1) & (factors[..., 1] == -1) & (factors[..., 2:] == 0).all(axis=-1)


def singles_among(pieces: Halfspaces) -> tuple[Bools, NDArray[np.intp], Floats]:
    """Which pieces are about one arm only, and of each piece the arm that counts most and its factor. (P)"""
    factors = pieces.coefficients
    here = np.abs(factors).argmax(axis=-1)[..., None]
    arm = np.take_along_axis(pieces.arms, here, axis=-1)[..., 0]
    factor = np.take_along_axis(factors, here, axis=-1)[..., 0]
    return np.asarray((factors != 0).sum(axis=-1) == 1), arm, factor


def pair_sums(past: Past, batch: Batch, pieces: Halfspaces) -> list[Floats]:
    """Total and count of the first arm of each piece, then of the second: of the past, then of the batch. (P) each"""
    each = (past.totals, past.counts), (batch.totals, batch.counts)
    return [arm_of(values, pieces, s) for sums in each for s in (0, 1) for values in sums]


def of_arm(values: Floats, arm: NDArray[np.intp]) -> Floats:
    """The values of one arm of each piece. (K)->(P)"""
    runs = np.broadcast_shapes(values.shape[:-1], arm.shape[:-1])
    values, arm = np.broadcast_to(values, (*runs, values.shape[-1])), np.broadcast_to(arm, (*runs, arm.shape[-1]))
    return np.take_along_axis(values, arm, axis=-1)


# ------------------------------------------------------------------------------------------------ where bets are placed


def placed(bet: Callable[..., Floats], need: Floats, *inputs: Floats | Bools) -> Floats:
    """The bet where something is needed, 0 elsewhere: bets are elementwise, so only those are computed."""
    wanted = (need > 0).transpose()  # runs are contiguous, so the transpose is faster to pick from
    logs = zeros(need.shape)
    if wanted.any():
        logs.transpose()[wanted] = bet(*(np.broadcast_to(each, need.shape).transpose()[wanted] for each in inputs))
    return logs


def sized(sizes: Floats, logs: Callable[[Floats], Floats]) -> Floats:
    """The log factors of a steady bet where its size is positive and finite, 0 elsewhere."""
    good = np.isfinite(sizes) & (sizes > 0)
    return np.where(good, logs(np.where(good, sizes, 0.0)), 0.0)


def counted(*counts: Floats) -> Bools:
    """Where all counts (exposures, levels) are positive and can be reckoned with."""
    good = np.ones(counts[0].shape, dtype=np.bool_)
    for count in counts:
        good &= (count > 1 / MOST) & (count < MOST)
    return good


def totalled(good: Bools, *totals: Floats) -> Bools:
    """Where, beside, no total is negative or too large to be reckoned with."""
    for each in totals:
        good = good & (each >= 0) & (each < MOST)
    return good
