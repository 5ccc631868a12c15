"""Fake and replayed worlds: they return sums of rewards, never single rewards.

`world(rng, runs)` makes the state of the world for so many runs (its `means` are the truth); `pull(rng, world, pulls)`
returns what came back and the world after it. A world is a named tuple of arrays, so runs can be taken from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, sum_rows, zeros
from roundwise.contract import is_own, refuse
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import FIRST_PARTS, Batch, BatchPlan, Parts, join_parts, split_counts
from roundwise.model.problem import Problem
from roundwise.noise import Binary, Gaussian, Needs, Noise, Poisson
from roundwise.questions.base import finite
from roundwise.solvers.families import Family

if TYPE_CHECKING:  # the state of a world: a named tuple of arrays
    from typing_extensions import TypeVar

    Now = TypeVar("Now", default=Any)
else:
    from typing import TypeVar

    Now = TypeVar("Now")

Generator = np.random.Generator
FIRST_DEALINGS, DEALINGS = 4, 1  # of the first batch, and of later ones: live studies deal more often
_IN_PARTS = {"sums": "pull_parts", "squares": "pull_squares", "rows": "pull_rows"}  # ways of a world's own


class World(NamedTuple):
    """The state of a world: its true means, and what is left of the data if it is drawn without replacement."""

    means: Floats  # (K)
    left: tuple[Floats, ...] | None = None  # for each outcome, how many are left of it, (K)


class Environment(Protocol[Now]):
    """Where rewards come from; one of which no noise model holds says why in `doubt`."""

    @property
    def arms(self) -> int:
        """How many arms there are, K."""

    @property
    def noise(self) -> Noise:
        """What may rightly be assumed of the rewards."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the arms are called."""

    def world(self, rng: Generator, runs: int) -> Now:
        """The state of the world for so many runs; `.means` is the truth."""

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant that lower bounds are stated with."""

    def pull(self, rng: Generator, world: Now, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, Now]:
        """What comes back for these pulls, in as much detail as is needed, and the world after it."""


Means = ArrayLike | Callable[[Generator, int], Floats]


@dataclass(frozen=True, eq=False)
class Arms:
    """What worlds share whose `means` are K numbers, or a function (rng, runs) -> (runs, K) for random instances."""

    means: Means

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", _checked_means(self.means))

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return _arms(self.means)

    @property
    def names(self) -> tuple[str, ...]:
        """Arm 0, arm 1, ..."""
        return numbered(self.arms)

    def world(self, rng: Generator, runs: int) -> World:
        """The means of each run."""
        return World(_drawn(self.means, rng, runs))


@dataclass(frozen=True, eq=False)
class GaussianArms(Arms):
    """Normal rewards. `means` are K numbers, or a function (rng, runs) -> (runs, K).

    >>> GaussianArms([1.0, 0.5]).arms
    2
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        Gaussian(self.sigma)
        super().__post_init__()

    @property
    def noise(self) -> Noise:
        """Gaussian with this sigma."""
        return Gaussian(self.sigma)

    def pull(self, rng: Generator, world: World, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, World]:
        """One normal draw for the total of each arm; one chi-squared draw for its spread, if needed."""
        totals = rng.standard_normal(pulls.shape[::-1]).transpose()
        scale = np.sqrt(pulls)
        if self.sigma != 1.0:
            scale *= self.sigma
        totals *= scale
        totals += pulls * world.means
        if needs == "sums":
            return Batch(pulls, totals), world
        freedom = np.maximum(pulls - 1.0, 0.0).transpose()
        scatter = np.where(freedom > 0, rng.chisquare(np.maximum(freedom, 1.0)), 0.0) * self.sigma**2
        return Batch(pulls, totals, scatter.transpose()), world

    def pull_parts(self, rng: Generator, world: World, counts: Floats, dealings: int) -> tuple[Batch, World]:
        """One normal draw for each part of each arm; other dealings of the same rows are bridges to their total."""
        return _redealt(rng, self.noise, counts, self._totals(rng, world, counts), dealings), world

    def pull_squares(self, rng: Generator, world: World, counts: Floats, dealings: int) -> tuple[Batch, World]:
        """The same, and a chi-squared draw for the spread within each part."""
        totals, rows = self._totals(rng, world, counts), counts.transpose()
        within = _spreads(rng, rows, rows.shape)
        if self.sigma != 1.0:
            within *= self.sigma**2
        return _with_scatter(rng, counts, totals, within, dealings), world

    def _totals(self, rng: Generator, world: World, counts: Floats) -> Floats:
        """Of each part, with the parts first, runs contiguous."""
        rows = counts.transpose()
        totals = rng.standard_normal((*rows.shape[:2], 1, *rows.shape[3:]))
        totals *= np.sqrt(rows) if self.sigma == 1.0 else self.sigma * np.sqrt(rows)
        totals += rows * world.means.transpose()[:, None]
        return totals


@dataclass(frozen=True, eq=False)
class FamilyArms(Arms):
    """Rewards of the family that a noise model is: 0/1 outcomes, counts, or those of a model of your own."""

    noise: Noise

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.means):
            self.family.clip_means(np.asarray(self.means))

    @property
    def family(self) -> Family:
        """That of the noise model."""
        found = self.noise.family
        if found is None:
            raise InputError(f"Results of the noise model '{self.noise.name}' cannot be drawn: it has no `family`.")
        return found

    @property
    def sigma(self) -> float:
        """That of the noise model; if it has none the largest deviation: lower bounds with it are approximate."""
        found = self.noise.known_sigma
        if found is not None:
            return found
        return float(np.sqrt(self.family.variance(_drawn(self.means, np.random.default_rng(0), 1)).max()))

    def pull(self, rng: Generator, world: World, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, World]:
        """One draw for the total of each arm."""
        family = self.family.select_arms(np.arange(self.arms)[:, None])
        totals = family.draw_totals(rng, pulls.transpose(), world.means.transpose())
        return Batch(pulls, totals.transpose()), world

    def pull_parts(self, rng: Generator, world: World, counts: Floats, dealings: int) -> tuple[Batch, World]:
        """One draw for each part of each arm, and other dealings of the same rows."""
        family = self.family.select_arms(np.arange(self.arms).reshape(-1, *[1] * (counts.ndim - 2)))
        totals = family.draw_totals(rng, counts.transpose(), world.means.transpose()[:, None])
        return _redealt(rng, self.noise, counts, totals, dealings), world


@dataclass(frozen=True, eq=False)
class BernoulliArms(FamilyArms):
    """0/1 outcomes. `means` are K rates, or a function (rng, runs) -> (runs, K) for random instances.

    >>> BernoulliArms([0.02, 0.03]).noise.sigma
    0.5
    """

    noise: Noise = field(default_factory=Binary, init=False)


@dataclass(frozen=True, eq=False)
class PoissonArms(FamilyArms):
    """Counts of events. `means` are K rates per pull, or a function (rng, runs) -> (runs, K) for random instances."""

    noise: Noise = field(default_factory=Poisson, init=False)


def check_environment(environment: Environment, needs: Needs) -> None:
    """Raise an InputError where a world of the user's own gives what cannot come back."""
    if not is_own(environment):
        return
    what, arms = f"world '{type(environment).__name__}'", environment.arms
    if len(environment.names) != arms:
        refuse(what, f"`names` has {len(environment.names)} names for {arms} arms", "every arm has one")
    rng, outcome = np.random.default_rng(1), environment.noise.outcome
    world = environment.world(rng, 2)
    if np.shape(world.means) != (2, arms) or not np.isfinite(world.means).all():
        found = f"`world` has means of shape {np.shape(world.means)} for 2 runs"
        refuse(what, found, f"they must be finite numbers of shape {(2, arms)}")
    pulls = np.full((2, arms), 5.0)
    batch, _ = environment.pull(rng, world, pulls, needs)
    for name, values in (("counts", batch.counts), ("totals", batch.totals)):
        if np.shape(values) != pulls.shape or not np.isfinite(values).all():
            refuse(what, f"`pull` returns {name} of shape {np.shape(values)}", f"finite numbers of shape {pulls.shape}")
    if ((batch.counts < 0) | (batch.counts > pulls)).any():
        refuse(what, f"`pull` returns {batch.counts.max():g} results of an arm", f"only {pulls.max():g} were asked for")
    slack = 1e-9 * np.maximum(np.abs(batch.totals), 1.0)
    with np.errstate(invalid="ignore"):
        low, high = (np.where(batch.counts > 0, batch.counts * end, 0.0) for end in (outcome.low, outcome.high))
    whole = not outcome.whole or bool((batch.totals == np.floor(batch.totals)).all())
    if ((batch.totals < low - slack) | (batch.totals > high + slack)).any() or not whole:
        found = "`pull` returns results that its own `noise` says are impossible"
        refuse(what, found, f"they must lie between {outcome.low:g} and {outcome.high:g}")
    if needs == "squares" and batch.scatter is None:
        refuse(what, "`pull` returns no `scatter`", "the noise model needs the spread of the results")


def drawn(
    problem: Problem,
    environment: Environment[Now],
    rng: Generator,
    world: Now,
    plan: BatchPlan,
    dealings: int | None = None,
) -> tuple[Batch, Now]:
    """What comes back for a plan, in the detail and the parts that are asked for.

    It is dealt into parts so often; unless that is said, the first batch a few times (of rows once), later ones once.
    """
    needs = problem.noise.needs
    shared = problem.noise.shares_items
    if shared and not hasattr(environment, "pull_items"):
        raise InputError("Simulations of shared items need a world of items, such as ItemReplay(table).")
    if plan.parts == 1:
        return environment.pull(rng, world, plan.pulls, needs)
    if dealings is None:
        first = plan.parts == FIRST_PARTS and (needs == "sums" or shared)
        dealings = FIRST_DEALINGS if first else DEALINGS
    return pulled_in_parts(environment, rng, world, plan.pulls, plan.parts, dealings, needs)


def pulled_in_parts(
    environment: Environment[Now], rng: Generator, world: Now, pulls: Floats, parts: int, dealings: int, needs: Needs
) -> tuple[Batch, Now]:
    """A batch in parts, dealt so many times if rows can be dealt anew from their sums; in general, pull by pull."""
    found: tuple[Batch, Now]
    if (of_items := getattr(environment, "pull_items", None)) is not None:
        found = of_items(rng, world, pulls, parts, dealings)
        return found
    if (anyhow := getattr(environment, "pull_dealt", None)) is not None:
        found = anyhow(rng, world, pulls, parts, dealings, needs)
        return found
    own = getattr(environment, _IN_PARTS[needs], None)
    if own is not None and (dealings > 1 or needs != "rows"):  # rows in one order are drawn part by part
        found = own(rng, world, split_counts(pulls, parts), dealings)
        return found
    pulled = []
    counts = split_counts(pulls, parts)[..., 0, :, :]
    for p in range(parts):
        batch, world = environment.pull(rng, world, counts[..., p], needs)
        pulled.append(batch)
    return join_parts(pulled), world


def _redealt(rng: Generator, law: Noise, counts: Floats, totals: Floats, dealings: int) -> Batch:
    """A batch from totals of its parts, with the parts first, dealt anew by the law of parts given their sum."""
    rows, whole = counts.transpose(), sum_rows(totals)
    more = law.draw_part_totals(rng, rows, whole, dealings - 1) if dealings > 1 else None
    totals = totals if more is None else np.concatenate([totals, more], axis=2)
    return Batch(sum_rows(rows)[:, 0].transpose(), whole[:, 0].transpose(), parts=Parts(counts, totals.transpose()))


def _spreads(rng: Generator, rows: Floats, shape: tuple[int, ...]) -> Floats:
    """Sums of squares about their mean of so many normal rows with variance 1."""
    freedom = rows - 1.0
    found = np.asarray(rng.chisquare(np.maximum(freedom, 1.0), shape))
    found *= freedom > 0
    return found


def _with_scatter(rng: Generator, counts: Floats, totals: Floats, within: Floats, dealings: int) -> Batch:
    """A batch from totals and scatter of its parts, with the parts first.

    Other dealings are drawn from the law of the parts given total and scatter of the whole, which for normal rows is
    free of mean and deviation: parts of any normal rows, moved and stretched to have both.
    """
    rows = counts.transpose()
    number, whole = sum_rows(rows), sum_rows(totals)
    centre = whole / np.maximum(number, 1.0)
    scatter = sum_rows(within) + sum_rows(_off(rows, totals, centre))
    if dealings > 1:
        shape = (*totals.shape[:2], dealings - 1, *totals.shape[3:])
        again, spread = rng.standard_normal(shape) * np.sqrt(rows), _spreads(rng, rows, shape)
        again -= rows / np.maximum(number, 1.0) * sum_rows(again)
        raw = sum_rows(spread) + sum_rows(_off(rows, again, 0.0))
        stretch = scatter / np.where(raw > 0, raw, 1.0)
        totals = np.concatenate([totals, again * np.sqrt(stretch) + rows * centre], axis=2)
        within = np.concatenate([within, spread * stretch], axis=2)
    parts = Parts(counts, totals.transpose(), within.transpose())
    return Batch(number[:, 0].transpose(), whole[:, 0].transpose(), scatter[:, 0].transpose(), parts=parts)


def _off(rows: Floats, totals: Floats, centre: Floats | float) -> Floats:
    """What the means of parts add to the scatter."""
    off = totals / np.maximum(rows, 1.0) - centre
    off *= off
    off *= rows
    return off


def mismatch(assumed: Noise, environment: Environment) -> Reason | None:
    """Why what is assumed is not true of the environment, or None if it is."""
    own: Reason | None = getattr(environment, "doubt", None)
    return assumed.doubt(environment.noise) if own is None else own


def numbered(arms: int) -> tuple[str, ...]:
    """Names for arms that have none."""
    return tuple(f"arm {i}" for i in range(arms))


@dataclass(frozen=True)
class RandomGaps:
    """Random instances: the best arm at `best`, all others uniform in [low, high] (Section 3.6 of the paper)."""

    arms: int = 10
    best: float = 1.0
    low: float = 0.6
    high: float = 0.9

    def __post_init__(self) -> None:
        if self.arms < 2 or not self.low < self.high:
            raise InputError("Random gaps need at least two arms and a range whose low end is below its high end.")

    def __call__(self, rng: Generator, runs: int) -> Floats:
        """Means of shape (runs, K)."""
        means = rng.uniform(self.low, self.high, (self.arms, runs))
        means[0] = self.best
        return means.transpose()


def _checked_means(means: Means) -> Means:
    if callable(means):
        return means
    array = finite(means)
    if array.ndim != 1:
        raise InputError("Give the means of one instance: a list of numbers, one for each arm.")
    return array


def _arms(means: Means) -> int:
    if callable(means):
        return int(means(np.random.default_rng(0), 1).shape[-1])
    return int(np.asarray(means).shape[-1])


def _drawn(means: Means, rng: Generator, runs: int) -> Floats:
    if callable(means):
        return finite(means(rng, runs))
    array = np.asarray(means, dtype=np.float64)
    return zeros((runs, array.shape[-1])) + array
