"""One-parameter exponential families of rewards, by their means: what it costs to take one mean for another.

A family has a variance V(mu) as a function of the mean; KL(mu, lambda), the divergence of the law with mean mu from
that with mean lambda, has the derivative (lambda - mu) / V(lambda) in lambda. All is elementwise. A second mean is
given by the step lambda - mu, which may be far smaller than the rounding of the means.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.errors import InputError

MOST_EVENTS = 2.0**53  # beyond it not every whole number is a float, and sums of a few leave the 64 bits of an integer


def check_countable(events: Floats) -> Floats:
    """The numbers of events; an InputError where they are too large to be drawn and divided exactly."""
    largest = float(np.max(events, initial=0.0))
    if largest > MOST_EVENTS:
        raise InputError(
            f"An arm would have {largest:.1g} events in one batch, more than can be counted exactly. Give counts in "
            "larger units, such as thousands of events."
        )
    return events


class Family(ABC):
    """Laws of rewards, one for each mean in a range."""

    name: ClassVar[str]  # of rewards that are of this family
    low: ClassVar[float]  # all means are above this
    high: ClassVar[float]  # and below this
    convex: ClassVar[bool]  # whether KL(mu, .) is a convex function of the mean

    def clip_means(self, means: Floats) -> Floats:
        """The means, moved off the border of the range by next to nothing; an InputError for others."""
        array = np.asarray(means, dtype=np.float64)
        if not ((array >= self.low) & (array <= self.high) & np.isfinite(array)).all():
            raise InputError(f"Means of {self.name} must lie between {self.low:g} and {self.high:g}.")
        return np.maximum(array, 1e-12)

    @abstractmethod
    def variance(self, means: Floats) -> Floats:
        """V(mu). (K)->(K)"""

    @abstractmethod
    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """KL(mu, mu + step); infinity at the border of the range."""

    @abstractmethod
    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """First and second derivative of KL(mu, .) at mu + step; in the logarithm of the mean if it is not convex."""

    @abstractmethod
    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """The step to the lambda with lambda - mu = pull V(lambda): it rises with the pull. NaN past the range."""

    @abstractmethod
    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        """The totals of `counts` rewards with these means."""

    def select_arms(self, arms: NDArray[np.intp]) -> Family:
        """The family for these arms, where arms differ in more than their means: an index of the last axis."""
        return self

    def pooling_weights(self, weights: Floats) -> Floats:
        """The proportions in which means enter the common mean of arms with these weights. (K)->(K)"""
        return weights


@dataclass(frozen=True)
class BinaryFamily(Family):
    """0/1 rewards: V = mu (1 - mu).

    >>> float(BinaryFamily().divergence(np.array(0.5), np.array(0.25)).round(6))
    0.143841
    """

    name = "0/1 rewards"
    low, high, convex = 0.0, 1.0, True

    def clip_means(self, means: Floats) -> Floats:
        """Rates from 0 to 1."""
        return np.minimum(super().clip_means(means), 1 - 1e-12)

    def variance(self, means: Floats) -> Floats:
        """mu (1 - mu)."""
        return np.asarray(means * (1 - means))

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """mu ln(mu/lambda) + (1-mu) ln((1-mu)/(1-lambda))."""
        return np.asarray(_above_tangent(means, steps) + _above_tangent(1 - means, -steps))

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        """Binomial."""
        return rng.binomial(counts.astype(np.int64), means).astype(np.float64)

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """step/V and mu/lambda^2 + (1-mu)/(1-lambda)^2."""
        to, rest = means + steps, (1 - means) - steps
        return steps / (to * rest), means / to**2 + (1 - means) / rest**2

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """pull lambda (1 - lambda), lambda the root of pull lambda^2 + (1 - pull) lambda = mu."""
        size = np.abs(pull)
        near = np.where(pull > 0, means, 1 - means)  # the way to where it is pulled is as from 1 - near
        root = np.sqrt((1 - size) ** 2 + 4 * size * near)
        to = np.where(size < 1, 2 * near / (1 - size + root), (root - (1 - size)) / (2 * np.maximum(size, 1.0)))
        return np.asarray(pull * to * (2 * (1 - near) / (1 + size + root)))


@dataclass(frozen=True)
class PoissonFamily(Family):
    """Counts: V = mu.

    >>> float(PoissonFamily().divergence(np.array(2.0), np.array(1.0)).round(6))
    0.18907
    """

    name = "Poisson counts"
    low, high, convex = 0.0, math.inf, True

    def variance(self, means: Floats) -> Floats:
        """mu."""
        return means

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """mu ln(mu/lambda) + lambda - mu."""
        return _above_tangent(means, steps)

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        """Poisson."""
        return rng.poisson(check_countable(counts * means)).astype(np.float64)

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """step/lambda and mu/lambda^2."""
        return steps / (means + steps), means / (means + steps) ** 2

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """mu pull / (1 - pull), for a pull below 1."""
        return np.asarray(np.where(pull < 1, means * pull / (1 - pull), np.nan))


@dataclass(frozen=True)
class ExponentialFamily(Family):
    """Exponential waiting times: V = mu^2.

    >>> float(ExponentialFamily().divergence(np.array(2.0), np.array(2.0)).round(6))
    0.193147
    """

    name = "exponential rewards"
    low, high, convex = 0.0, math.inf, False

    def variance(self, means: Floats) -> Floats:
        """mu^2."""
        return np.asarray(means * means)

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """mu/lambda - 1 - ln(mu/lambda)."""
        x = -steps / (means + steps)
        series = x * x * (1 / 2 - x * (1 / 3 - x * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x / 7)))))
        return np.asarray(np.where(np.abs(x) < 1e-3, series, x - np.log1p(x)))

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        """Gamma."""
        return np.asarray(means * rng.standard_gamma(counts))

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """In ln lambda: step/lambda and mu/lambda."""
        return steps / (means + steps), means / (means + steps)

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """lambda - mu with lambda = 2 mu / (1 + sqrt(1 - 4 pull mu)), for a pull of at most 1/(4 mu)."""
        root = np.sqrt(1 - 4 * pull * means)
        return np.asarray(pull * (2 * means / (1 + root)) ** 2)


@dataclass(frozen=True, eq=False)
class NormalFamily(Family):
    """Normal rewards with known deviations, one for each arm or one for all: V = sigma_i^2."""

    sigmas: Floats

    name = "normal rewards with known deviations"
    low, high, convex = -math.inf, math.inf, True

    def __post_init__(self) -> None:
        sigmas = np.asarray(self.sigmas, dtype=np.float64)
        if not (np.isfinite(sigmas) & (sigmas > 0)).all():
            raise InputError("Deviations must be positive numbers.")
        object.__setattr__(self, "sigmas", sigmas)

    def clip_means(self, means: Floats) -> Floats:
        """Any finite means, as many as deviations."""
        if self.sigmas.ndim and self.sigmas.shape[-1] != means.shape[-1]:
            raise InputError(
                f"There are {means.shape[-1]} means but {self.sigmas.shape[-1]} deviations; give one each."
            )
        return means

    def variance(self, means: Floats) -> Floats:
        """sigma_i^2."""
        return np.broadcast_to(self.sigmas**2, means.shape)

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """(lambda - mu)^2 / (2 sigma_i^2)."""
        return np.asarray(steps * steps / (2 * self.sigmas**2))

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        """Normal."""
        return np.asarray(counts * means + np.sqrt(counts) * self.sigmas * rng.standard_normal(counts.shape))

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """step/sigma_i^2 and 1/sigma_i^2."""
        one = 1 / self.sigmas**2
        return steps * one, np.broadcast_to(one, steps.shape)

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """pull sigma_i^2."""
        return np.asarray(pull * self.sigmas**2)

    def select_arms(self, arms: NDArray[np.intp]) -> NormalFamily:
        """The deviations of these arms."""
        return self if not self.sigmas.ndim else NormalFamily(self.sigmas[arms])

    def pooling_weights(self, weights: Floats) -> Floats:
        """w_i / sigma_i^2."""
        return np.asarray(weights / self.sigmas**2)


def _above_tangent(means: Floats, steps: Floats) -> Floats:
    """mu ln(mu/lambda) + lambda - mu, without cancellation: lambda ((1+x) ln(1+x) - x), x = mu/lambda - 1."""
    to = means + steps
    x = -steps / to
    series = x * x * (1 / 2 - x * (1 / 6 - x * (1 / 12 - x * (1 / 20 - x * (1 / 30 - x / 42)))))
    exact = np.where(to > 0, means * np.log(means / np.where(to > 0, to, 1.0)) + steps, np.inf)
    return np.asarray(np.where(np.abs(x) < 1e-2, to * series, exact))
