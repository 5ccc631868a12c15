"""Half-spaces of the means: where an answer is right, the cost of showing it, and the nearest point on all borders.

The alternatives of an answer are unions of half-spaces `a.lambda <= b`. With counts N, moving the means into one costs
(a.mu - b)^2 / (2 sigma^2 sum_i a_i^2/N_i); over a ball of radius eps the distance shrinks by eps |a|_1, whatever N is
(docs/paper.md). Hence one function serves T* and Tbar*.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, total, zeros
from roundwise.errors import InputError
from roundwise.solvers import program


class Complexity(NamedTuple):
    """T*, the samples per ln(1/delta) that the best fixed allocation needs, and w*, that allocation."""

    value: Floats
    weights: Floats


class Pieces(NamedTuple):
    """The half-spaces that cover the alternatives of an answer: at most `number`, each of `support` arms."""

    number: int
    support: int


class Halfspaces(NamedTuple):
    """The half-spaces on whose intersection an answer is right: sum_s factors[p, s] means[arms[p, s]] > offsets[p] for
    every piece p.
    """

    arms: NDArray[np.intp]  # (P, S)
    factors: Floats | None  # (P, S); None for pairs, whose factors are 1 and -1
    offsets: Floats  # (P)
    pairs: bool  # whether every piece is "the first arm exceeds the second by the offset"
    grid: int = 0  # k, if the pairs are k better arms times all others, in the order of rows and columns

    @property
    def coefficients(self) -> Floats:
        """The factors, for pairs too. (P, S)"""
        return np.broadcast_to(np.array([1.0, -1.0]), self.arms.shape) if self.factors is None else self.factors

    def dense(self, arms: int) -> Floats:
        """The coefficient of every arm. (P, K)"""
        return self.spread(self.coefficients, arms)

    def spread(self, values: Floats, arms: int) -> Floats:
        """Values of the arms of each piece, spread over all arms. (P, S)->(P, K)"""
        found = np.zeros((*self.arms.shape[:-1], arms))
        np.put_along_axis(found, self.arms, values, axis=-1)
        return found


def pairs(first: NDArray[np.intp], second: NDArray[np.intp], offset: float = 0.0, grid: int = 0) -> Halfspaces:
    """Half-spaces in which each arm of `first` exceeds its partner in `second` by the offset. (P),(P)"""
    arms = np.stack(np.broadcast_arrays(first, second), axis=-1)
    return Halfspaces(arms, None, zeros(arms.shape[:-1]) + offset, True, grid)


def pack_forms(forms: Floats, offsets: Floats, width: int) -> Halfspaces:
    """Half-spaces from dense forms (P, K), keeping `width` arms of each, largest factors first and zeros last.

    The width must not depend on the answer, so that a run gives the same numbers alone and among others.
    """
    arms = np.argsort(np.where(forms == 0, np.inf, -forms), axis=-1, kind="stable")[..., :width]
    return Halfspaces(arms, np.take_along_axis(forms, arms, axis=-1), offsets, False)


def range_of_forms(factors: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """The smallest and largest value of each form over means between `low` and `high`. (P, S)->(P),(P)"""
    with np.errstate(invalid="ignore"):
        least = np.where(factors == 0, 0.0, np.where(factors > 0, factors * low, factors * high))
        most = np.where(factors == 0, 0.0, np.where(factors > 0, factors * high, factors * low))
    return total(least), total(most)


def complexity_where(possible: Bools, value: Floats, weights: Floats) -> Complexity:
    """The complexity where it is possible; elsewhere infinity and equal weights."""
    possible = possible & np.isfinite(value)
    if possible.all():
        return Complexity(value, weights)
    return Complexity(
        np.where(possible, value, np.inf), np.where(possible[..., None], weights, 1.0 / weights.shape[-1])
    )


def halfspace_complexity(forms: Floats, distances: Floats, radii: Floats, sigma: float) -> Complexity:
    """T* and w* of a union of half-spaces with these normals, (m, K) or (..., m, K), at these distances.

    T* = min sum_i n_i subject to sum_i a_ji^2 / n_i <= distance_j^2 / (2 sigma^2) (docs/paper.md).
    """
    runs, arms = distances.shape[:-1], forms.shape[-1]
    scales = np.abs(forms).max(axis=-1)  # a form and its distance may both be tiny or both be huge
    forms, distances = forms / scales[..., None], distances / scales
    distances = distances - radii * np.abs(forms).sum(axis=-1)
    smallest = distances.min(axis=-1)
    possible = np.asarray(smallest > 0)
    unit = np.where(possible, smallest, 1.0)  # squares of tiny distances would underflow
    limits = np.maximum(distances / unit[..., None], 0.0) ** 2 / 2
    squares = (forms**2).reshape((-1, *forms.shape[-2:])) if forms.ndim > 2 else forms**2
    found = program.check_certificate(program.solve_general(squares, limits.reshape(-1, limits.shape[-1])))
    value = np.where(possible, found.total.reshape(runs), 1.0)
    weights = found.pulls.reshape((*runs, arms)) / value[..., None]
    return complexity_where(possible, value * (sigma**2 / unit / unit), weights)


def midrange(means: Floats) -> Floats:
    """The midpoint between the smallest and the largest mean, for every arm."""
    return np.full(means.shape, (means.max() + means.min()) / 2)


def nearest_border_point(means: Floats, forms: Floats, levels: Floats, constant: bool) -> Floats | None:
    """The nearest point (in the sup norm) on all hyperplanes a.y = b, or None; `constant`: all y_i equal."""
    lengths = np.abs(forms).sum(axis=1, keepdims=True)
    forms, levels = forms / lengths, levels / lengths[:, 0]
    size = max(1.0, float(np.abs(levels).max()), float(np.abs(means).max()))
    if constant:
        sums = forms.sum(axis=1)
        sums[np.abs(sums) < 1e-12] = 0.0
        values = np.full(means.shape, levels @ sums / (sums @ sums)) if sums.any() else midrange(means)
    else:
        from scipy.optimize import linprog

        # min t subject to |means - y| <= t and forms y = levels: a linear programme in (y, t)
        arms = len(means)
        found = linprog(
            np.append(np.zeros(arms), 1.0),
            A_ub=np.hstack([np.vstack([np.eye(arms), -np.eye(arms)]), -np.ones((2 * arms, 1))]),
            b_ub=np.concatenate([means, -means]),
            A_eq=np.hstack([forms, np.zeros((len(forms), 1))]),
            b_eq=levels,
            bounds=(None, None),
        )
        if found.x is None:
            return None
        values = np.asarray(found.x[:arms])
        # the programme is solved to 1e-7; one projection brings the point onto the hyperplanes
        values = np.asarray(values + np.linalg.lstsq(forms, levels - forms @ values, rcond=None)[0])
    return values if np.abs(forms @ values - levels).max() <= 1e-9 * size else None


MOST_EVENTS = 2.0**53  # not every whole number above it is a float, and sums of a few leave 64-bit integers


def check_countable(events: Floats) -> Floats:
    """The numbers of events; an InputError if they are too large to be drawn and divided exactly."""
    largest = float(np.max(events, initial=0.0))
    if largest > MOST_EVENTS:
        raise InputError(
            f"An arm would have {largest:.1g} events in one batch, more than can be counted exactly. Give counts in "
            "larger units, such as thousands of events."
        )
    return events


class Family(ABC):
    """A family of reward distributions, one for each mean in a range."""

    name: ClassVar[str]  # of the family, as in reports
    low: ClassVar[float]  # means are above this
    high: ClassVar[float]  # and below this
    convex: ClassVar[bool]  # whether KL(mu, .) is a convex function of the mean

    def clip_means(self, means: Floats) -> Floats:
        """The means, moved off the boundary of the range by a negligible step; an InputError outside it."""
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
        """First and second derivative of KL(mu, .) at mu + step; in the logarithm of the mean if not `convex`."""

    @abstractmethod
    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """The step to the lambda with lambda - mu = pull V(lambda), increasing in the pull. NaN beyond the range."""

    @abstractmethod
    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        """The totals of `counts` rewards with these means, drawn at random."""

    def select_arms(self, arms: NDArray[np.intp]) -> Family:
        """The family for these arms (an index of the last axis), if arms differ in more than their means."""
        return self

    def pooling_weights(self, weights: Floats) -> Floats:
        """The weights of the arms' means in their common mean, for arms with these weights. (K)->(K)"""
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
        return np.minimum(super().clip_means(means), 1 - 1e-12)

    def variance(self, means: Floats) -> Floats:
        return np.asarray(means * (1 - means))

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """mu ln(mu/lambda) + (1-mu) ln((1-mu)/(1-lambda))."""
        return np.asarray(_above_tangent(means, steps) + _above_tangent(1 - means, -steps))

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        return rng.binomial(counts.astype(np.int64), means).astype(np.float64)

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """step/V and mu/lambda^2 + (1-mu)/(1-lambda)^2."""
        to, rest = means + steps, (1 - means) - steps
        return steps / (to * rest), means / to**2 + (1 - means) / rest**2

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """pull lambda (1 - lambda), where lambda is the root of pull lambda^2 + (1 - pull) lambda = mu."""
        size = np.abs(pull)
        near = np.where(pull > 0, means, 1 - means)  # as seen from the end that it is pulled to
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
        return means

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """mu ln(mu/lambda) + lambda - mu."""
        return _above_tangent(means, steps)

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
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
        return np.asarray(means * means)

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        """mu/lambda - 1 - ln(mu/lambda)."""
        x = -steps / (means + steps)
        series = x * x * (1 / 2 - x * (1 / 3 - x * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x / 7)))))
        return np.asarray(np.where(np.abs(x) < 1e-3, series, x - np.log1p(x)))

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        return np.asarray(means * rng.standard_gamma(counts))

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """With respect to ln lambda: step/lambda and mu/lambda."""
        return steps / (means + steps), means / (means + steps)

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        """lambda - mu with lambda = 2 mu / (1 + sqrt(1 - 4 pull mu)), for a pull of at most 1/(4 mu)."""
        root = np.sqrt(1 - 4 * pull * means)
        return np.asarray(pull * (2 * means / (1 + root)) ** 2)


@dataclass(frozen=True, eq=False)
class NormalFamily(Family):
    """Normal rewards with known standard deviations, one per arm or one for all: V = sigma_i^2."""

    sigmas: Floats

    name = "normal rewards with known deviations"
    low, high, convex = -math.inf, math.inf, True

    def __post_init__(self) -> None:
        sigmas = np.asarray(self.sigmas, dtype=np.float64)
        if not (np.isfinite(sigmas) & (sigmas > 0)).all():
            raise InputError("Deviations must be positive numbers.")
        object.__setattr__(self, "sigmas", sigmas)

    def clip_means(self, means: Floats) -> Floats:
        if self.sigmas.ndim and self.sigmas.shape[-1] != means.shape[-1]:
            raise InputError(
                f"There are {means.shape[-1]} means but {self.sigmas.shape[-1]} deviations; give one each."
            )
        return means

    def variance(self, means: Floats) -> Floats:
        return np.broadcast_to(self.sigmas**2, means.shape)

    def divergence(self, means: Floats, steps: Floats) -> Floats:
        return np.asarray(steps * steps / (2 * self.sigmas**2))

    def draw_totals(self, rng: np.random.Generator, counts: Floats, means: Floats) -> Floats:
        return np.asarray(counts * means + np.sqrt(counts) * self.sigmas * rng.standard_normal(counts.shape))

    def derivatives(self, means: Floats, steps: Floats) -> tuple[Floats, Floats]:
        one = 1 / self.sigmas**2
        return steps * one, np.broadcast_to(one, steps.shape)

    def solve_steps(self, means: Floats, pull: Floats) -> Floats:
        return np.asarray(pull * self.sigmas**2)

    def select_arms(self, arms: NDArray[np.intp]) -> NormalFamily:
        return self if not self.sigmas.ndim else NormalFamily(self.sigmas[arms])

    def pooling_weights(self, weights: Floats) -> Floats:
        return np.asarray(weights / self.sigmas**2)


def _above_tangent(means: Floats, steps: Floats) -> Floats:
    """mu ln(mu/lambda) + lambda - mu, without cancellation: lambda ((1+x) ln(1+x) - x), x = mu/lambda - 1."""
    to = means + steps
    x = -steps / to
    series = x * x * (1 / 2 - x * (1 / 6 - x * (1 / 12 - x * (1 / 20 - x * (1 / 30 - x / 42)))))
    exact = np.where(to > 0, means * np.log(means / np.where(to > 0, to, 1.0)) + steps, np.inf)
    return np.asarray(np.where(np.abs(x) < 1e-2, to * series, exact))
