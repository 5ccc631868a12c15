"""Environments of a simulation: they return sums of rewards, never single rewards.

`initial_state(rng, runs)` makes the state of the environment for a number of runs (its `means` are the truth);
`pull(rng, state, pulls)` returns what came back and the state after it. A state is a named tuple of arrays, so runs can
be taken from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Floats, sum_rows, total, zeros
from roundwise.contract import is_user_defined, refuse
from roundwise.errors import InputError
from roundwise.messages import Reason
from roundwise.model.batch import FIRST_PARTS, Batch, Parts, ValueTable, join_parts, split_counts
from roundwise.model.problem import BatchPlan, Problem
from roundwise.noise import Binary, Gaussian, Needs, Noise, Poisson
from roundwise.questions.base import finite
from roundwise.solvers.halfspaces import Family

if TYPE_CHECKING:  # the state of an environment: a named tuple of arrays
    from typing_extensions import TypeVar

    Now = TypeVar("Now", default=Any)
else:
    from typing import TypeVar

    Now = TypeVar("Now")

Generator = np.random.Generator
POINTS = 20  # steps of the scale for results between two limits
FIRST_PARTITIONS, PARTITIONS = 4, 1  # of the first batch, and of later ones; live studies draw more


class ArmState(NamedTuple):
    """The state of an environment.

    Attributes:
        means: The true means, (K).
        left: How often each value is left, (K, V), if results are drawn without replacement.
    """

    means: Floats
    left: Floats | None = None


class Environment(ABC, Generic[Now]):
    """Where rewards come from.

    An environment of your own has `arms` (how many there are), `noise` (what holds of the rewards), `initial_state` and
    `pull`; the rest has defaults. `docs/own.md` shows one.
    """

    if TYPE_CHECKING:  # fields or properties of each class

        @property
        def arms(self) -> int:
            """How many arms there are, K."""

        @property
        def noise(self) -> Noise:
            """The noise model that is true of the rewards."""

    shares_items: ClassVar[bool] = False  # whether several arms are tried on the same items

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms: arm 0, arm 1, ..."""
        return numbered(self.arms)

    @property
    def sigma(self) -> float:
        """The sub-Gaussian constant that lower bounds are stated with: that of the noise model."""
        return self.noise.sigma

    @property
    def doubt(self) -> Reason | None:
        """Why no noise model holds of the rewards, or None."""
        return None

    def clipped(self, low: float, high: float) -> Environment[Now]:
        """Return the environment whose results beyond low and high are these."""
        outcome = self.noise.outcome
        if low <= outcome.low and outcome.high <= high:
            return self
        raise InputError(
            "Single results of this environment cannot be capped. Simulate a cap with a table of outcomes."
        )

    @abstractmethod
    def initial_state(self, rng: Generator, runs: int) -> Now:
        """Return the state for a number of runs, a named tuple of arrays; `.means` is the truth, (runs, K).

        Args:
            rng: The generator of random numbers of these runs.
            runs: The number of runs.
        """

    @abstractmethod
    def pull(self, rng: Generator, state: Now, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, Now]:
        """Return what comes back for these pulls, (runs, K), in the detail that is needed, and the state after it.

        Args:
            rng: The generator of random numbers of these runs.
            state: The state of each run.
            pulls: How often to pull each arm, (runs, K).
            needs: The detail that the noise model needs: "sums", "squares", "cubes" or "rows".

        Returns:
            The batch, and the state after it.
        """

    def pull_parts(
        self, rng: Generator, state: Now, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, Now]:
        """Return a batch cut into parts, in several random partitions if rows can be drawn anew from their sums.

        By default, parts are pulled one after the other: one partition.
        """
        pulled = []
        counts = split_counts(pulls, parts)[..., 0, :, :]
        for p in range(parts):
            batch, state = self.pull(rng, state, counts[..., p], needs)
            pulled.append(batch)
        return join_parts(pulled), state


Means = ArrayLike | Callable[[Generator, int], Floats]


@dataclass(frozen=True, eq=False)
class Arms(Environment[ArmState]):
    """Environments whose `means` are K numbers, or a function (rng, runs) -> (runs, K) for random instances."""

    means: Means

    def __post_init__(self) -> None:
        if callable(self.means):
            return
        means = finite(self.means)
        if means.ndim != 1:
            raise InputError("Give the means of one instance: a list of numbers, one for each arm.")
        object.__setattr__(self, "means", means)

    @property
    def arms(self) -> int:
        means = self.means(np.random.default_rng(0), 1) if callable(self.means) else np.asarray(self.means)
        return int(means.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ArmState:
        if callable(self.means):
            return ArmState(finite(self.means(rng, runs)))
        return ArmState(zeros((runs, self.arms)) + np.asarray(self.means, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class GaussianArms(Arms):
    """Normal rewards.

    Args:
        means: K numbers, or a function (rng, runs) -> (runs, K) for random instances.
        sigma: The standard deviation of a reward.

    >>> GaussianArms([1.0, 0.5]).arms
    2
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        Gaussian(self.sigma)
        super().__post_init__()

    @property
    def noise(self) -> Noise:
        return Gaussian(self.sigma)

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        totals = rng.standard_normal(pulls.shape[::-1]).transpose()
        scale = np.sqrt(pulls)
        if self.sigma != 1.0:
            scale *= self.sigma
        totals *= scale
        totals += pulls * state.means
        if needs == "sums":
            return Batch(pulls, totals), state
        rows = pulls.transpose()
        scatter = (_draw_scatter(rng, rows, rows.shape) * self.sigma**2).transpose()
        cubes = self._draw_cubes(rng, pulls, scatter) if needs == "cubes" else None
        return Batch(pulls, totals, scatter, cubes=cubes), state

    def pull_parts(
        self, rng: Generator, state: ArmState, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, ArmState]:
        if needs == "rows":
            return super().pull_parts(rng, state, pulls, parts, partitions, needs)
        counts = split_counts(pulls, parts)
        rows = counts.transpose()
        totals = rng.standard_normal((*rows.shape[:2], 1, *rows.shape[3:]))  # parts first, runs contiguous
        totals *= np.sqrt(rows) if self.sigma == 1.0 else self.sigma * np.sqrt(rows)
        totals += rows * state.means.transpose()[:, None]
        if needs == "sums":
            return _repartition_totals(rng, self.noise, counts, totals, partitions), state
        within = _draw_scatter(rng, rows, rows.shape)
        if self.sigma != 1.0:
            within *= self.sigma**2
        batch = _repartition_scatter(rng, counts, totals, within, partitions)
        cut = batch.parts
        if needs == "cubes" and cut is not None and cut.scatter is not None and batch.scatter is not None:
            thirds = self._draw_cubes(rng, np.broadcast_to(counts, cut.totals.shape), cut.scatter)
            cubes = self._draw_cubes(rng, batch.counts, batch.scatter)
            batch = batch._replace(parts=cut._replace(cubes=thirds), cubes=cubes)
        return batch, state

    def _draw_cubes(self, rng: Generator, counts: Floats, scatter: Floats) -> Floats:
        """Draw sums of cubes about the mean of normal results with this scatter: the first moments are exact."""
        spread = np.sqrt(6 * np.maximum(counts - 2.0, 0.0) / ((counts + 1.0) * (counts + 3.0)))
        skewness = rng.standard_normal(counts.shape) * spread
        return skewness * np.maximum(scatter, 0.0) ** 1.5 / np.sqrt(np.maximum(counts, 1.0))


@dataclass(frozen=True, eq=False)
class FamilyArms(Arms):
    """Rewards of a noise model's one-parameter family: 0/1 outcomes, counts, or a model of your own.

    Args:
        means: K numbers, or a function (rng, runs) -> (runs, K) for random instances.
        noise: The noise model, which has a `family`.
    """

    noise: Noise

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.means):
            self.family.clip_means(np.asarray(self.means))

    @property
    def family(self) -> Family:
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
        return float(np.sqrt(self.family.variance(self.initial_state(np.random.default_rng(0), 1).means).max()))

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        family = self.family.select_arms(np.arange(self.arms)[:, None])
        totals = family.draw_totals(rng, pulls.transpose(), state.means.transpose())
        return Batch(pulls, totals.transpose()), state

    def pull_parts(
        self, rng: Generator, state: ArmState, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, ArmState]:
        if needs != "sums":
            return super().pull_parts(rng, state, pulls, parts, partitions, needs)
        counts = split_counts(pulls, parts)
        family = self.family.select_arms(np.arange(self.arms).reshape(-1, *[1] * (counts.ndim - 2)))
        totals = family.draw_totals(rng, counts.transpose(), state.means.transpose()[:, None])
        return _repartition_totals(rng, self.noise, counts, totals, partitions), state


@dataclass(frozen=True, eq=False)
class BernoulliArms(FamilyArms):
    """0/1 outcomes. `means` are K rates, or a function (rng, runs) -> (runs, K) for random instances.

    Args:
        means: The rate of each arm, (K), or of each arm and run, (runs, K).

    >>> BernoulliArms([0.02, 0.03]).noise.sigma
    0.5
    """

    noise: Noise = field(default_factory=Binary, init=False)

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        """Return sums, and what else is needed: how many ones there were says what every row was."""
        batch, state = super().pull(rng, state, pulls, needs)
        if needs == "sums":
            return batch, state
        ones, rate = batch.totals, batch.totals / np.maximum(pulls, 1.0)
        table = ValueTable(np.broadcast_to([0.0, 1.0], (*pulls.shape[:-1], 2)), np.stack([pulls - ones, ones], axis=-1))
        scatter = ones * (1.0 - rate)
        return Batch(pulls, ones, scatter, table, cubes=scatter * (1.0 - 2.0 * rate)), state


@dataclass(frozen=True, eq=False)
class PoissonArms(FamilyArms):
    """Counts of events. `means` are K rates per pull, or a function (rng, runs) -> (runs, K) for random instances.

    Args:
        means: The mean count of each arm, (K), or of each arm and run, (runs, K).
    """

    noise: Noise = field(default_factory=Poisson, init=False)


@dataclass(frozen=True, eq=False)
class SkewedNormal(GaussianArms):
    """Normal rewards whose sums of cubes say that they are skewed: a noise model that waits for rows waits for them."""

    skewness: float | Floats = 0.0  # of all arms, or of each (K)

    def _draw_cubes(self, rng: Generator, counts: Floats, scatter: Floats) -> Floats:
        skewness = np.asarray(self.skewness)
        if counts.ndim > 2:  # parts come after the arms
            skewness = skewness[..., None]
        cubes = super()._draw_cubes(rng, counts, scatter)
        return cubes + skewness * np.maximum(scatter, 0.0) ** 1.5 / np.sqrt(np.maximum(counts, 1.0))


class TableWorld(NamedTuple):
    """True means, and the probability of each value."""

    means: Floats  # (K)
    shares: Floats  # (K, V)


@dataclass(frozen=True, eq=False)
class TableArms(Environment[TableWorld]):
    """Results with a few values, each with its own probability; run i has world i modulo their number."""

    values: Floats  # (V)
    shares: Floats  # (K, V) or (worlds, K, V)
    noise: Noise

    @property
    def arms(self) -> int:
        return int(self.shares.shape[-2])

    def initial_state(self, rng: Generator, runs: int) -> TableWorld:
        known = self.shares if self.shares.ndim == 3 else self.shares[None]
        shares = known[np.arange(runs) % len(known)]
        return TableWorld(shares @ self.values, shares)

    def pull(self, rng: Generator, state: TableWorld, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, TableWorld]:
        drawn = rng.multinomial(pulls.astype(np.int64), state.shares).astype(np.float64)  # (runs, K, V)
        return batch_of_values(self.values, drawn, needs), state

    def pull_parts(
        self, rng: Generator, state: TableWorld, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, TableWorld]:
        """Rows are drawn once and put in several random orders; a single partition is drawn part by part."""
        if needs != "rows" or partitions == 1:
            return super().pull_parts(rng, state, pulls, parts, partitions, needs)
        counts = split_counts(pulls, parts)
        batch, state = self.pull(rng, state, counts[..., 0, :, :].sum(axis=-1), "rows")
        assert batch.table is not None
        sizes = np.broadcast_to(counts, (*counts.shape[:-3], partitions, *counts.shape[-2:]))  # (runs, M, K, P)
        left, found = np.repeat(batch.table.counts[..., None, :, :], partitions, axis=-3), []
        for part in range(counts.shape[-1]):
            taken = draw_without_replacement(rng, left, sizes[..., part])
            left = left - taken
            found.append(taken)
        cut = batch_of_values(self.values, np.stack(found, axis=-2), "rows")  # (runs, M, K, P)
        return batch._replace(parts=Parts(counts, cut.totals, cut.scatter, cut.table)), state


def batch_of_values(values: Floats, drawn: Floats, needs: Needs) -> Batch:
    """A batch from how often each arm had each value. (V), (runs, ..., V)"""
    counts, totals = drawn.sum(axis=-1), drawn @ values
    if needs == "sums":
        return Batch(counts, totals)
    scatter = np.maximum(drawn @ values**2 - totals**2 / np.maximum(counts, 1.0), 0.0)
    table = ValueTable(np.broadcast_to(values, (len(drawn), values.size)), drawn) if needs == "rows" else None
    cubes = None
    if needs == "cubes":
        means = totals / np.maximum(counts, 1.0)
        cubes = total(drawn * (values - means[..., None]) ** 3)
    return Batch(counts, totals, scatter, table, cubes=cubes)


def draw_without_replacement(rng: Generator, left: Floats, sizes: Floats) -> Floats:
    """How often each value is among `sizes` rows, drawn from those that are left. (..., V), ()->(..., V)"""
    rows, rest = left.sum(axis=-1).astype(np.int64), sizes.astype(np.int64)
    found = np.empty_like(left)
    for value in range(left.shape[-1]):
        here = left[..., value].astype(np.int64)
        taken = rng.hypergeometric(here, rows - here, rest)
        rows, rest = rows - here, rest - taken
        found[..., value] = taken
    return found


def world_of(noise: Noise, means: Means, deviation: float | None = None, skewness: float | Floats = 0.0) -> Environment:
    """A world with these means in which the noise model holds.

    Args:
        noise: The noise model.
        means: K numbers, rows (R, K) of which run i has that of i modulo R, or a function (rng, runs) -> (runs, K).
        deviation: Standard deviation of one result where the model does not say it: by default 1, and between two
            limits a quarter of their distance.
        skewness: Of one result, as the noise model sees it: of all arms, or of each (K).

    >>> from roundwise.noise import Binary
    >>> world_of(Binary(), [0.3, 0.31]).noise.name
    'binary'
    """
    if noise.family is None and noise.outcome.limited:
        assert not callable(means)
        return limited_world(noise, np.asarray(means, dtype=np.float64), deviation)
    if not callable(means) and (rows := np.asarray(means, dtype=np.float64)).ndim > 1:
        means = lambda _, runs: zeros((runs, rows.shape[-1])) + rows[np.arange(runs) % len(rows)]  # noqa: E731
    if noise.family is not None:
        return FamilyArms(means, noise)
    sigma = noise.largest_deviation if deviation is None else deviation
    if sigma is None and noise.estimates_variance:  # it is not known beforehand
        sigma = 1.0
    if sigma is None:
        raise InputError(f"There is no world to plan in for the noise model '{noise.name}'.")
    return SkewedNormal(means, sigma, skewness) if np.any(skewness) else GaussianArms(means, sigma)


def deviations(noise: Noise, means: Floats, deviation: float | None = None) -> Floats:
    """The standard deviation of one result of each arm in that world. (K)"""
    family = noise.family
    if family is not None:
        return np.sqrt(family.variance(means))
    if noise.outcome.limited:
        world = limited_world(noise, means, deviation)
        return np.sqrt(np.maximum(world.shares @ world.values**2 - means**2, 0.0))
    sigma = noise.largest_deviation if deviation is None else deviation
    return np.full(means.shape, 1.0 if sigma is None else sigma)


def limited_world(noise: Noise, means: Floats, deviation: float | None, steps: int | None = None) -> TableArms:
    """Beta-binomial results on a scale between two limits, with these means and as nearly as possible this deviation.

    The scale has `steps` steps, or as many as the deviation needs. (..., K)
    """
    from scipy.special import betaln, gammaln

    low, high = noise.mean_range
    span = high - low
    middle = np.clip((means - low) / span, 1e-9, 1 - 1e-9)[..., None]
    if ((means < low) | (means > high)).any():
        raise InputError(f"The means must lie between {low:g} and {high:g}, as the results do.")
    wanted = (0.25 if deviation is None else deviation / span) ** 2
    if steps is None:
        steps = int(np.clip(np.ceil((middle * (1 - middle)).max() / wanted), POINTS, 200))
    excess = (wanted / (middle * (1 - middle)) * steps - 1) / (steps - 1)  # 1 + (n - 1) rho is n var/(m (1 - m))
    rho = np.clip(excess, 1e-6, 0.999)
    a, b = middle * (1 / rho - 1), (1 - middle) * (1 / rho - 1)
    k = np.arange(steps + 1.0)
    ways = gammaln(steps + 1) - gammaln(k + 1) - gammaln(steps - k + 1)
    shares = np.exp(ways + betaln(k + a, steps - k + b) - betaln(a, b))
    return TableArms(low + span * k / steps, shares / shares.sum(axis=-1, keepdims=True), noise)


def check_environment(environment: Environment, needs: Needs) -> None:
    """Raise an InputError where an environment of the user's own returns what cannot come back."""
    if not is_user_defined(environment):
        return
    if Environment not in type(environment).mro():
        raise InputError(f"Derive the class '{type(environment).__name__}' from roundwise.environments.Environment.")
    what, arms = f"environment '{type(environment).__name__}'", environment.arms
    if len(environment.names) != arms:
        refuse(what, f"`names` has {len(environment.names)} names for {arms} arms", "every arm has one")
    rng, outcome = np.random.default_rng(1), environment.noise.outcome
    state = environment.initial_state(rng, 2)
    if np.shape(state.means) != (2, arms) or not np.isfinite(state.means).all():
        found = f"`initial_state` has means of shape {np.shape(state.means)} for 2 runs"
        refuse(what, found, f"they must be finite numbers of shape {(2, arms)}")
    pulls = np.full((2, arms), 5.0)
    batch, _ = environment.pull(rng, state, pulls, needs)
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
    if needs in ("squares", "cubes") and batch.scatter is None:
        refuse(what, "`pull` returns no `scatter`", "the noise model needs the spread of the results")
    if needs == "cubes" and batch.cubes is None:
        refuse(what, "`pull` returns no `cubes`", "the noise model needs the skewness of the results")


def draw_batch(
    problem: Problem,
    environment: Environment[Now],
    rng: Generator,
    state: Now,
    plan: BatchPlan,
    partitions: int | None = None,
) -> tuple[Batch, Now]:
    """Return what comes back for a plan, in the detail and the parts that it asks for, and the state after it.

    By default the first batch has a few random partitions (one, if rows are needed) and later ones have one.
    """
    needs = problem.noise.needs
    shared = problem.noise.shares_items
    if shared and not environment.shares_items:
        raise InputError("Simulations of shared items need an environment of items, such as ItemReplay(table).")
    if plan.parts == 1:
        return environment.pull(rng, state, plan.pulls, needs)
    if partitions is None:
        first = plan.parts == FIRST_PARTS and (needs == "sums" or shared)
        partitions = FIRST_PARTITIONS if first else PARTITIONS
    return environment.pull_parts(rng, state, plan.pulls, plan.parts, partitions, needs)


def _repartition_totals(rng: Generator, law: Noise, counts: Floats, totals: Floats, partitions: int) -> Batch:
    """A batch from totals of its parts, parts first; other partitions by the law of the parts given their sum."""
    rows, whole = counts.transpose(), sum_rows(totals)
    more = law.draw_part_totals(rng, rows, whole, partitions - 1) if partitions > 1 else None
    totals = totals if more is None else np.concatenate([totals, more], axis=2)
    return Batch(sum_rows(rows)[:, 0].transpose(), whole[:, 0].transpose(), parts=Parts(counts, totals.transpose()))


def _draw_scatter(rng: Generator, rows: Floats, shape: tuple[int, ...]) -> Floats:
    """Sums of squares about their mean of `rows` normal results with variance 1."""
    freedom = rows - 1.0
    found = np.asarray(rng.chisquare(np.maximum(freedom, 1.0), shape))
    found *= freedom > 0
    return found


def _repartition_scatter(rng: Generator, counts: Floats, totals: Floats, within: Floats, partitions: int) -> Batch:
    """A batch from totals and scatter of its parts, parts first.

    Other partitions are drawn from the law of the parts given total and scatter of the whole, which for normal rows is
    free of mean and deviation: parts of any normal rows, moved and stretched to have both.
    """
    rows = counts.transpose()
    number, whole = sum_rows(rows), sum_rows(totals)
    centre = whole / np.maximum(number, 1.0)
    scatter = sum_rows(within) + sum_rows(_between(rows, totals, centre))
    if partitions > 1:
        shape = (*totals.shape[:2], partitions - 1, *totals.shape[3:])
        again, spread = rng.standard_normal(shape) * np.sqrt(rows), _draw_scatter(rng, rows, shape)
        again -= rows / np.maximum(number, 1.0) * sum_rows(again)
        raw = sum_rows(spread) + sum_rows(_between(rows, again, 0.0))
        stretch = scatter / np.where(raw > 0, raw, 1.0)
        totals = np.concatenate([totals, again * np.sqrt(stretch) + rows * centre], axis=2)
        within = np.concatenate([within, spread * stretch], axis=2)
    parts = Parts(counts, totals.transpose(), within.transpose())
    return Batch(number[:, 0].transpose(), whole[:, 0].transpose(), scatter[:, 0].transpose(), parts=parts)


def _between(rows: Floats, totals: Floats, centre: Floats | float) -> Floats:
    """The scatter between parts."""
    off = totals / np.maximum(rows, 1.0) - centre
    off *= off
    off *= rows
    return off


def numbered(arms: int) -> tuple[str, ...]:
    """Names for arms that have none."""
    return tuple(f"arm {i}" for i in range(arms))


@dataclass(frozen=True)
class RandomGaps:
    """Means of random instances: the best arm at `best`, all others uniform (Section 3.6 of the paper).

    Args:
        arms: How many arms.
        best: The mean of the best arm, the first.
        low: The lower end of the range of all others.
        high: The upper end.
    """

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
