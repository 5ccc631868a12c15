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
from typing import Literal, NamedTuple, Protocol, cast

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import Batch
from roundwise.model.estimates import Estimates, FormEstimate, Past
from roundwise.questions.base import Halfspaces
from roundwise.solvers.families import Family

Needs = Literal["sums", "squares", "rows"]
Steady = Callable[[Floats], Floats]  # offsets (P) -> log e-values, one for each size, which fall in the offset (k, P)

OddsBet = Callable[[Batch, Halfspaces, Floats, Floats, float], Floats]  # batch, pieces, need, rho, eta -> log e (P)

UNTRUE = Reason("wrong_noise_model")


class Outcome(NamedTuple):
    """What one result may be; and what to say of one that cannot be, and to start a new study with instead."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False  # only whole numbers
    normal: bool = False  # normal, with just the sigma that is assumed
    wrong: str = "is impossible under the noise model this study was created with."
    remedy: str = "another noise model."  # a template of `Remedy` with the fields low and high, which hold the result

    @property
    def rates(self) -> bool:
        """Whether results are 0 or 1, so that means are rates."""
        return self.whole and (self.low, self.high) == (0.0, 1.0)

    @property
    def counts(self) -> bool:
        """Whether results are whole numbers from 0 on."""
        return self.whole and (self.low, self.high) == (0.0, math.inf)

    @property
    def limited(self) -> bool:
        """Whether results lie between two limits."""
        return math.isfinite(self.low) and math.isfinite(self.high)


class Scale(NamedTuple):
    """Estimates where they are nearly normal: their values and variances, the way back, and what a small effect is."""

    estimate: Floats  # (K)
    variance: Floats  # (K)
    back: Callable[[Floats], Floats]
    unit: float  # a deviation of one result, there


class Noise(Protocol):
    """What is assumed of the rewards, and the bets that it allows.

    A model may have more, as the functions below say that ask for it: `doubt(true)`, `variances(past)`, `family`,
    `scale(counts, totals)` (forecasts draw means there), `flags` (how it is named on the command line),
    `law` (where sums are as good as rows, because `dealt` can draw their parts: the name that records have for that).
    """

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

    def variance(self, past: Past) -> Floats:
        """A guess at the variance of one result, from the past: it sizes bets and batches, and proves nothing. ()"""

    def steady(self, past: Past, batch: Batch, pieces: Halfspaces, units: Floats, drifts: Floats) -> Steady:
        """log e for each form exceeding given offsets, with sizes that do not depend on those. (k, P)

        The sizes stand for differences of `drifts` (k, 1) standard errors of the form after `units` results an arm (K).
        """

    def horizon(
        self, known: Estimates, batch: Batch, pieces: Halfspaces, need: Floats, rho: Floats, eta: float
    ) -> Floats:
        """log e for each form exceeding its offset, made for a budget: `horizon` says what need and rho are. (P)"""


def doubt(assumed: Noise, true: Noise) -> Reason | None:
    """Why what is assumed does not follow from what is true, None if it does: in general, if it is the same."""
    own: Callable[[Noise], Reason | None] = getattr(assumed, "doubt", lambda true: UNTRUE)
    return None if assumed == true else own(true)


def variances(noise: Noise, past: Past) -> Floats:
    """The variance of one result of each arm, as well as it is known: in general, the same for all. (K)"""
    own: Callable[[Past], Floats] = getattr(noise, "variances", lambda past: noise.variance(past)[..., None])
    return np.broadcast_to(own(past), past.counts.shape)


def family_of(noise: Noise) -> Family | None:
    """The one-parameter family of these rewards; None where means do not say all, and for normal rewards.

    Those have the complexities that the questions give themselves.
    """
    found: Family | None = getattr(noise, "family", None)
    return found


def scale_of(noise: Noise, counts: Floats, totals: Floats) -> Scale | None:
    """The scale on which estimates of means are nearly normal; None where that is their own."""
    own: Callable[[Floats, Floats], Scale] | None = getattr(noise, "scale", None)
    return None if own is None else own(counts, totals)


def odds_bet(noise: Noise) -> OddsBet:
    """The bet towards a budget on an odds ratio of two rates (`Binary.odds_horizon`); an InputError without one."""
    own: OddsBet | None = getattr(noise, "odds_horizon", None)
    if own is None:
        raise InputError("Odds ratios are of rates: they need 0/1 results.")
    return own


def deviations_of(noise: Noise) -> tuple[float, ...] | None:
    """The known deviation of each arm, where they differ."""
    found: tuple[float, ...] | None = getattr(noise, "sigmas", None)
    return found


def check_arms(noise: Noise, arms: int) -> None:
    """Raise an InputError if the model does not fit so many arms."""
    if hasattr(noise, "check_arms"):
        noise.check_arms(arms)


def known_sigma(noise: Noise) -> float | None:
    """The sigma of a noise model, None where there is none."""
    try:
        return noise.sigma
    except InputError:
        return None


def range_of_means(noise: Noise) -> tuple[float, float]:
    """Where means can lie at all."""
    return noise.outcome.low, noise.outcome.high


class CrossedNoise(Protocol):
    """A noise model of arms that are tried on the same items."""

    @property
    def differences(self) -> Noise:
        """What is assumed of the difference of two arms on one item."""

    @property
    def alone(self) -> Noise:
        """The same model for arms that have items of their own."""

    def spreads(self, past: Past, pieces: Halfspaces) -> Floats:
        """A guess at the variance of the difference of the two arms of each piece on one item. (P)"""

    def halves(self, past: Past, pieces: Halfspaces) -> Floats:
        """Half of that variance; of a piece about one arm the variance of a result. (P)"""

    def between(self, known: Estimates, pieces: Halfspaces) -> FormEstimate:
        """What the past says of these pieces, from items of both arms where there are any."""


def items_of(noise: Noise) -> CrossedNoise | None:
    """The model, if its arms are tried on the same items."""
    return cast(CrossedNoise, noise) if callable(getattr(noise, "between", None)) else None


def without_items(noise: Noise) -> Noise:
    """The same model for arms that have items of their own."""
    found = items_of(noise)
    return noise if found is None else found.alone
