"""Worlds in which an error is most likely: for each noise model, laws at the edge of what it allows.

Some laws go to an edge that only some promises reach (`covers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from roundwise.arrays import Floats, zeros
from roundwise.model.batch import Batch
from roundwise.noise import (
    Binary,
    Bounded,
    BoundedVariance,
    EqualVariances,
    Gaussian,
    HeteroscedasticGaussian,
    LargeSample,
    Needs,
    Noise,
    Normal,
    PairedBinary,
    PairedBounded,
    PairedNormal,
    Poisson,
    SubGaussian,
)
from roundwise.simulation.environments import (
    Arms,
    ArmState,
    BernoulliArms,
    Environment,
    GaussianArms,
    Generator,
    PoissonArms,
    numbered,
)
from roundwise.simulation.items import ItemReplay, NormalItems, StickItems
from roundwise.simulation.replay import Replay


@dataclass(frozen=True)
class Setting:
    """The assumption about results, and the location of means: shapes place them in units about the center."""

    name: str
    noise: Noise
    centre: float
    unit: float

    def place(self, *offsets: float) -> Floats:
        """The means at these distances from the centre, in units."""
        return np.asarray(self.centre + self.unit * np.array(offsets))


@dataclass(frozen=True)
class Law(Setting):
    """A setting, and a world with given means at the edge of its assumption."""

    world: Callable[[Floats], Environment]
    each: Callable[[int], Noise] | None = None  # what is assumed of K arms, where arms differ
    covers: str = "everything"  # or "one arm at a time" (levels), or "differences" (with bets that cancel shifts)

    def assumed(self, arms: int) -> Noise:
        """What is assumed of this number of arms."""
        return self.noise if self.each is None else self.each(arms)


class Moved(NamedTuple):
    """The means, and how many results there were: a common shift follows from it."""

    means: Floats  # (K)
    seen: Floats  # ()


@dataclass(frozen=True, eq=False)
class NormalArms(Environment[Moved]):
    """Normal rewards with a deviation for each arm; with `shifts`, all arms of a batch are moved together."""

    means: Floats
    sigmas: Floats
    shifts: float = 0.0

    @property
    def arms(self) -> int:
        """How many there are."""
        return len(self.means)

    @property
    def noise(self) -> Noise:
        """Normal with the largest deviation."""
        return Gaussian(self.sigma)

    @property
    def sigma(self) -> float:
        """The largest deviation."""
        return float(np.max(self.sigmas))

    def initial_state(self, rng: Generator, runs: int) -> Moved:
        """The means of each run."""
        return Moved(zeros((runs, self.arms)) + self.means, np.zeros(runs))

    def pull(self, rng: Generator, world: Moved, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, Moved]:
        """One normal draw for the total of each arm, one chi-squared draw for its spread."""
        shift = (self.shifts * np.sin(world.seen))[:, None]
        totals = pulls * (world.means + shift) + np.sqrt(pulls) * self.sigmas * rng.standard_normal(pulls.shape)
        after = world._replace(seen=world.seen + pulls.sum(axis=-1))
        if needs == "sums":
            return Batch(pulls, totals), after
        freedom = np.maximum(pulls - 1.0, 0.0)
        scatter = np.where(freedom > 0, rng.chisquare(np.maximum(freedom, 1.0)), 0.0) * self.sigmas**2
        return Batch(pulls, totals, scatter), after


@dataclass(frozen=True, eq=False)
class TwoPoint(Arms):
    """The mean plus or minus 1, each with probability 1/2: sub-Gaussian with sigma 1, and extremal."""

    sigma: float = 1.0

    @property
    def noise(self) -> Noise:
        """Sub-Gaussian with sigma 1."""
        return SubGaussian(1.0)

    def pull(self, rng: Generator, world: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        """One binomial draw for the total of each arm."""
        heads = rng.binomial(pulls.astype(np.int64), 0.5)
        return Batch(pulls, pulls * world.means + 2.0 * heads - pulls), world


@dataclass(frozen=True, eq=False)
class RareValues(Arms):
    """Variance 1: 99 % of results lie a little below the mean, 1 % ten deviations above it."""

    sigma: float = 1.0
    rare: ClassVar[float] = 0.01

    @property
    def noise(self) -> Noise:
        """A variance of at most 1."""
        return BoundedVariance(1.0)

    def pull(self, rng: Generator, world: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        """One binomial draw for the large values of each arm."""
        large = rng.binomial(pulls.astype(np.int64), self.rare)
        jump = (self.rare * (1 - self.rare)) ** -0.5
        scatter = jump**2 * large * (pulls - large) / np.maximum(pulls, 1.0)
        return Batch(pulls, pulls * world.means + jump * (large - self.rare * pulls), scatter), world


def _normal(sigma: float, shifts: float = 0.0) -> Callable[[Floats], Environment]:
    return lambda means: NormalArms(means, np.full(len(means), sigma), shifts)


def _uneven(means: Floats) -> NormalArms:
    """One arm varies thirty times as much as the others."""
    return NormalArms(means, np.where(np.arange(len(means)) == 0, 3.0, 0.1))


def _deviations(arms: int) -> tuple[float, ...]:
    """Known ones, thirty times apart."""
    return tuple(3.0 if arm % 3 == 0 else 0.1 if arm % 3 == 1 else 1.0 for arm in range(arms))


def _items(means: Floats) -> NormalItems:
    """Normal results on shared items; one arm varies five times as much as the others."""
    return NormalItems(means, np.where(np.arange(len(means)) == 0, 2.5, 0.5), 0.6)


def _graded(means: Floats) -> ItemReplay:
    """Grades with many values in a narrow part of the range, independent between arms."""
    drawn = np.random.default_rng(3).choice(np.linspace(-0.15, 0.15, 7), (200, len(means)))
    return ItemReplay(means + drawn - drawn.mean(axis=0))


def _values(low: float, high: float, rare: float) -> Callable[[Floats], Environment]:
    """Values in [low, high]: often a small one, rarely the largest; the share of the largest makes the mean."""
    outcomes = np.array([low, low + 0.1 * (high - low), high])

    def world(means: Floats) -> Replay:
        top = (means - low) / (high - low) - 0.1 * rare
        shares = np.stack([1.0 - top - rare, np.full(len(means), rare), top], axis=-1)
        return Replay(numbered(len(means)), outcomes, shares)

    return world


LAWS: tuple[Law, ...] = (
    Law("normal, sigma known", Gaussian(1.0), 0.0, 0.5, _normal(1.0)),
    Law("normal, sigma 2.5", Gaussian(2.5), 10.0, 1.25, _normal(2.5)),
    Law(
        "normal, deviations known",
        HeteroscedasticGaussian(_deviations(3)),
        0.0,
        0.5,
        lambda means: NormalArms(means, np.array(_deviations(len(means)))),
        each=lambda arms: HeteroscedasticGaussian(_deviations(arms)),
    ),
    Law("sub-Gaussian: normal", SubGaussian(1.0), 0.0, 0.5, _normal(1.0)),
    Law("sub-Gaussian: two points", SubGaussian(1.0), 0.0, 0.5, TwoPoint),
    Law("normal, all arms move", SubGaussian(1.0), 0.0, 0.5, _normal(1.0, shifts=3.0), covers="differences"),
    Law("sigma unknown", Normal(), 0.0, 3.0, _normal(7.0)),
    Law("sigmas unknown, unequal", Normal(), 0.0, 0.5, _uneven),
    Law("one unknown sigma", EqualVariances(), 0.0, 3.0, _normal(7.0)),
    Law("one unknown sigma, unequal", EqualVariances(), 0.0, 0.5, _uneven, covers="one arm at a time"),
    Law("any law: normal", LargeSample(), 0.0, 0.5, GaussianArms),
    Law("variance at most 1: rare values", BoundedVariance(1.0), 0.0, 0.5, RareValues),
    Law("0/1, rate .5", Binary(), 0.5, 0.2, BernoulliArms),
    Law("0/1, rate .02", Binary(), 0.02, 0.01, BernoulliArms),
    Law("0/1, rate .001", Binary(), 0.001, 0.0005, BernoulliArms),
    Law("0/1, rate .999", Binary(), 0.999, 0.0005, BernoulliArms),
    Law("0/1, rate 0", Binary(), 0.0, 0.3, BernoulliArms),
    Law("values in [0, 1]", Bounded(0.0, 1.0), 0.3, 0.1, _values(0.0, 1.0, 0.5)),
    Law("values in [-2, 6]", Bounded(-2.0, 6.0), -1.0, 0.4, _values(-2.0, 6.0, 0.3)),
    Law("values, sums only", Bounded(0.0, 1.0), 0.5, 0.2, BernoulliArms),
    Law("counts, rate 5", Poisson(), 5.0, 1.0, PoissonArms),
    Law("counts, rate .05", Poisson(), 0.05, 0.02, PoissonArms),
    Law("counts, rate 0", Poisson(), 0.0, 0.3, PoissonArms),
    Law("shared items, 0/1", PairedBinary(), 0.5, 0.2, lambda means: StickItems(means, 0.8)),
    Law("shared items, against", PairedBinary(), 0.3, 0.1, lambda means: StickItems(means, -0.8)),
    Law("shared items, scores", PairedBounded(0.0, 1.0), 0.3, 0.1, lambda means: StickItems(means, 0.7, 2)),
    Law("shared items, graded", PairedBounded(0.0, 1.0), 0.5, 0.1, _graded),
    Law("shared items, normal", PairedNormal(), 0.0, 0.5, _items),
)
_BY_NAME = {each.name: each for each in LAWS}


def law_of(name: str) -> Law:
    """The law of this name."""
    return _BY_NAME[name]
