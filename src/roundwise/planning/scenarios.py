"""Worlds to plan in: of assumed means under the noise model of a study, and of means that its data allow.

The data allow draws around the estimates. Arms come from one normal law of unknown mean and deviation (a hierarchy), so
estimates of arms with few results are drawn towards the others, and the luckiest of many does not look like a leader.
Rates are drawn on the scale of log odds, counts on that of logarithms. A prior: nothing but forecasts rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch, Parts, ValueTable, split_counts
from roundwise.noise import Needs, Noise
from roundwise.noise.base import Scale
from roundwise.simulation.environments import ArmState, Environment, FamilyArms, GaussianArms, Generator, Means
from roundwise.simulation.items import ItemEnvironment
from roundwise.simulation.lists import batch_of_entries

POINTS = 20  # steps of the scale for results between two limits
ITEM_STEPS = 4  # of that scale for shared items: differences are tabulated one by one
ITEM_CORRELATION = 0.3  # of two equally good arms on one item, unless given
LIST_CELLS = 10_000_000  # entries of all lists that are simulated together,
FEWEST_LISTS = 5  # and how many lists there are at least
ZERO_ONE = np.array([0.0, 1.0])
WORLDS = 400  # draws of means between two limits
SMALL = 0.3  # prior scale of differences between arms, in deviations of a result
AHEAD = np.linspace(0.0, 4.0, 41)  # leads by which one arm may be ahead, in those a study is designed for,
USUAL_LEAD = 1.5  # and the prior scale of them


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
        if needs == "sums":
            return Batch(pulls, drawn @ self.values), state
        table = self._table(drawn) if needs == "rows" else None
        return Batch(pulls, *self._moments(drawn, pulls), table), state

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
            taken = _draw_without_replacement(rng, left, sizes[..., part])
            left = left - taken
            found.append(taken)
        table = np.stack(found, axis=-2)  # (runs, M, K, P, V)
        return batch._replace(parts=Parts(counts, *self._moments(table, counts), self._table(table))), state

    def _moments(self, drawn: Floats, counts: Floats) -> tuple[Floats, Floats]:
        totals = drawn @ self.values
        return totals, np.maximum(drawn @ self.values**2 - totals**2 / np.maximum(counts, 1.0), 0.0)

    def _table(self, counts: Floats) -> ValueTable:
        return ValueTable(np.broadcast_to(self.values, (len(counts), self.values.size)), counts)


def _draw_without_replacement(rng: Generator, left: Floats, sizes: Floats) -> Floats:
    """How often each value is among `sizes` rows, drawn from those that are left. (..., V), ()->(..., V)"""
    rows, rest = left.sum(axis=-1).astype(np.int64), sizes.astype(np.int64)
    found = np.empty_like(left)
    for value in range(left.shape[-1]):
        here = left[..., value].astype(np.int64)
        taken = rng.hypergeometric(here, rows - here, rest)
        rows, rest = rows - here, rest - taken
        found[..., value] = taken
    return found


@dataclass(frozen=True, eq=False)
class Unreliable(Environment[object]):
    """Another world, in which each result is missing with the same probability, whatever it is."""

    world: Environment
    missing: float

    @property
    def arms(self) -> int:
        return self.world.arms

    @property
    def noise(self) -> Noise:
        return self.world.noise

    def initial_state(self, rng: Generator, runs: int) -> object:
        return self.world.initial_state(rng, runs)

    def pull(self, rng: Generator, state: object, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, object]:
        return self.world.pull(rng, state, self._returned(rng, pulls), needs)

    def pull_parts(
        self, rng: Generator, state: object, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, object]:
        return self.world.pull_parts(rng, state, self._returned(rng, pulls), parts, partitions, needs)

    def _returned(self, rng: Generator, pulls: Floats) -> Floats:
        kept = rng.binomial(pulls.transpose().astype(np.int64), 1 - self.missing)
        return np.asarray(kept.transpose().astype(np.float64))


class SeveralNow(NamedTuple):
    """The state of the world of each metric; `means` are those of the main one."""

    main: Any
    others: tuple[Any, ...]

    @property
    def means(self) -> Floats:
        """The true means of the main metric. (K)"""
        return np.asarray(self.main.means)


@dataclass(frozen=True, eq=False)
class SeveralMetrics(Environment[SeveralNow]):
    """A world for each metric of the same rows, as if metrics were independent of each other."""

    main: Environment
    others: tuple[Environment, ...]
    needs: tuple[Needs, ...]  # of the noise models of the others

    @property
    def arms(self) -> int:
        return self.main.arms

    @property
    def noise(self) -> Noise:
        return self.main.noise

    def initial_state(self, rng: Generator, runs: int) -> SeveralNow:
        return SeveralNow(self.main.initial_state(rng, runs), tuple(e.initial_state(rng, runs) for e in self.others))

    def pull(self, rng: Generator, state: SeveralNow, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, SeveralNow]:
        return self._join(state, lambda world, now, own: world.pull(rng, now, pulls, own), needs)

    def pull_parts(
        self, rng: Generator, state: SeveralNow, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, SeveralNow]:
        return self._join(
            state, lambda world, now, own: world.pull_parts(rng, now, pulls, parts, partitions, own), needs
        )

    def _join(
        self, state: SeveralNow, pull: Callable[[Environment, Any, Needs], tuple[Batch, Any]], needs: Needs
    ) -> tuple[Batch, SeveralNow]:
        batch, main = pull(self.main, state.main, needs)
        others = [pull(*each) for each in zip(self.others, state.others, self.needs, strict=True)]
        now = SeveralNow(main, tuple(after for _, after in others))
        return batch._replace(metrics=tuple(found for found, _ in others)), now


class ItemsNow(NamedTuple):
    """True means, and, where results take few values, their distribution function."""

    means: Floats  # (K)
    below: Floats | None  # (K, V - 1)


@dataclass(frozen=True, eq=False)
class AlikeItems(ItemEnvironment[ItemsNow]):
    """Arms on shared items: with probability `correlation` all arms have the same luck on an item.

    The result of an arm is its quantile at that luck, so two arms of the same mean have that correlation. Run i has the
    means of row i modulo their number.
    """

    noise: Noise
    rows: Floats  # (R, K)
    correlation: float = ITEM_CORRELATION
    missing: float = 0.0
    deviation: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.correlation <= 1:
            raise InputError(f"`item_correlation` must be between 0 and 1; got {self.correlation:g}.")
        _ = self.distributions

    @property
    def arms(self) -> int:
        return int(self.rows.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ItemsNow:
        which, (_, below) = np.arange(runs) % len(self.rows), self.distributions
        return ItemsNow(self.rows[which], None if below is None else below[which])

    @property
    def values(self) -> Floats | None:
        values, _ = self.distributions
        return None if values is ZERO_ONE else values  # sums say everything about 0/1 results

    def draw_items(self, rng: Generator, state: ItemsNow, run: int, items: int) -> Floats:
        from scipy.special import ndtri

        values, _ = self.distributions
        luck = rng.random((items, self.arms))
        same = rng.random(items) < self.correlation
        luck[same] = luck[same, :1]
        if values is None or state.below is None:
            return np.asarray(state.means[run] + (1.0 if self.deviation is None else self.deviation) * ndtri(luck))
        return np.asarray(values[(luck[..., None] >= state.below[run]).sum(axis=-1)])

    @cached_property
    def distributions(self) -> tuple[Floats | None, Floats | None]:
        """The values of results, and P(result <= value) but for the last, (R, K, V - 1); nothing if they are normal."""
        alone, rows = self.noise.without_items(), self.rows
        if not alone.outcome.limited:
            return None, None
        if alone.outcome.rates:
            if ((rows < 0) | (rows > 1)).any():
                raise InputError("The means of 0/1 results lie between 0 and 1.")
            return ZERO_ONE, 1.0 - rows[..., None]
        world = limited_world(alone, rows, self.deviation, ITEM_STEPS)
        return world.values, world.shares.cumsum(axis=-1)[..., :-1]


class ListNow(NamedTuple):
    """The whole list of each run, in its order, and what was told of it."""

    means: Floats  # (K), of the list
    table: Floats  # (N, K)
    given: Bools  # (N, K)


class ListWorld(Environment[ListNow]):
    """Finite lists: each entry comes once, to each arm the first that it lacks."""

    def pull(self, rng: Generator, state: ListNow, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ListNow]:
        lacking = ~state.given
        now = lacking & (lacking.cumsum(axis=1) <= pulls[:, None, :])
        return batch_of_entries(state.table, now), state._replace(given=state.given | now)


@dataclass(frozen=True, eq=False)
class AlikeList(ListWorld):
    """Lists of such items on which the arms have just their means, up to half an item: arms of one mean tie.

    Over the whole list the luck of every arm is 1/(2 N), 3/(2 N), ..., in the order of the item or in one of its own.
    """

    items: AlikeItems
    size: int

    @property
    def arms(self) -> int:
        return self.items.arms

    @property
    def noise(self) -> Noise:
        return self.items.noise

    def initial_state(self, rng: Generator, runs: int) -> ListNow:
        (values, below), size = self.items.distributions, self.size
        assert values is not None  # results of a list lie in a range
        assert below is not None
        which = np.arange(runs) % len(below)
        common = rng.permuted(np.broadcast_to((np.arange(size) + 0.5) / size, (runs, size)), axis=1)
        same = rng.random((runs, size)) < self.items.correlation
        places = np.argsort(same, axis=1, kind="stable")  # those on which each arm has its own luck come first
        table = np.empty((runs, size, self.arms))
        for arm in range(self.arms):
            keys = np.where(np.take_along_axis(same, places, axis=1), 1.0, rng.random((runs, size)))
            shuffled = np.take_along_axis(places, np.argsort(keys, axis=1, kind="stable"), axis=1)
            luck = np.empty((runs, size))
            np.put_along_axis(luck, places, np.take_along_axis(common, shuffled, axis=1), axis=1)
            table[..., arm] = values[(luck[..., None] >= below[which, None, arm]).sum(axis=-1)]
        return ListNow(table.mean(axis=1), table, np.zeros(table.shape, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class RestOfList(ListWorld):
    """What a list may still hold, given what was told of it: items like those seen (the Polya posterior).

    The seen rows have weights drawn from a flat Dirichlet law, and the others are drawn with these. An arm that lacks
    a result there gets one of its own.
    """

    noise: Noise
    told: Floats  # (n, K), by place; nan where nothing was told
    size: int

    def __post_init__(self) -> None:
        if not np.isfinite(self.told).any(axis=0).all():
            raise InputError("A forecast needs results of every arm.")

    @property
    def arms(self) -> int:
        return int(self.told.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ListNow:
        seen = self.told[np.isfinite(self.told).any(axis=-1)]
        weights = rng.dirichlet(np.ones(len(seen)), runs).cumsum(axis=1)
        luck = rng.random((runs, self.size))
        drawn = [seen[np.searchsorted(each[:-1], of)] for each, of in zip(weights, luck, strict=True)]
        table, given = np.stack(drawn), np.zeros((self.size, self.arms), dtype=np.bool_)
        for arm in range(self.arms):
            own = self.told[np.isfinite(self.told[:, arm]), arm]
            lacking = ~np.isfinite(table[..., arm])
            table[lacking, arm] = own[rng.integers(0, len(own), lacking.sum())]
        given[: len(self.told)] = ~np.isnan(self.told)
        whole = np.full((self.size, self.arms), np.nan)
        whole[: len(self.told)] = np.where(np.isfinite(self.told), self.told, np.nan)
        table = np.where(np.isnan(whole), table, whole)
        return ListNow(table.mean(axis=1), table, np.broadcast_to(given, table.shape))


def runs_of_list(size: int, arms: int, runs: int) -> int:
    """As many runs as fit into memory: each has its whole list."""
    return min(runs, max(LIST_CELLS // (size * arms), FEWEST_LISTS))


@dataclass(frozen=True, eq=False)
class SkewedNormal(GaussianArms):
    """Normal rewards whose sums of cubes say that they are skewed: a noise model that waits for rows waits for them."""

    skewness: float = 0.0

    def pull(self, rng: Generator, state: ArmState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ArmState]:
        batch, state = super().pull(rng, state, pulls, needs)
        return batch._replace(cubes=self._skewed(batch.counts, batch.scatter, batch.cubes)), state

    def pull_parts(
        self, rng: Generator, state: ArmState, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, ArmState]:
        batch, state = super().pull_parts(rng, state, pulls, parts, partitions, needs)
        batch, cut = batch._replace(cubes=self._skewed(batch.counts, batch.scatter, batch.cubes)), batch.parts
        if cut is None:
            return batch, state
        return batch._replace(parts=cut._replace(cubes=self._skewed(cut.counts, cut.scatter, cut.cubes))), state

    def _skewed(self, counts: Floats, scatter: Floats | None, cubes: Floats | None) -> Floats | None:
        """Sums of cubes about the mean with this skewness more."""
        if scatter is None or cubes is None:
            return None
        return cubes + self.skewness * np.maximum(scatter, 0.0) ** 1.5 / np.sqrt(np.maximum(counts, 1.0))


def world_of(noise: Noise, means: Means, deviation: float | None = None, skewness: float = 0.0) -> Environment:
    """A world with these means in which the noise model holds.

    Args:
        noise: The noise model.
        means: K numbers, rows (R, K) of which run i has that of i modulo R, or a function (rng, runs) -> (runs, K).
        deviation: Standard deviation of one result where the model does not say it: by default 1, and between two
            limits a quarter of their distance.
        skewness: Of one result, as the noise model sees it.

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
    sigma = noise.known_sigma if deviation is None else deviation
    if sigma is None and noise.estimates_variance:  # it is not known beforehand
        sigma = 1.0
    if sigma is None:
        raise InputError(f"There is no world to plan in for the noise model '{noise.name}'.")
    return SkewedNormal(means, sigma, skewness) if skewness else GaussianArms(means, sigma)


def deviations(noise: Noise, means: Floats, deviation: float | None = None) -> Floats:
    """The standard deviation of one result of each arm in that world. (K)"""
    family = noise.family
    if family is not None:
        return np.sqrt(family.variance(means))
    if noise.outcome.limited:
        world = limited_world(noise, means, deviation)
        return np.sqrt(np.maximum(world.shares @ world.values**2 - means**2, 0.0))
    sigma = noise.known_sigma if deviation is None else deviation
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


@dataclass(frozen=True, kw_only=True)
class Data:
    """The results so far, arm by arm."""

    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum of squares about the means of rounds
    freedom: Floats | None = None  # (K)

    @property
    def deviation(self) -> float | None:
        """Of one result, if squares are known."""
        if self.scatter is None or self.freedom is None or self.freedom.sum() <= 0:
            return None
        return float(np.sqrt(self.scatter.sum() / self.freedom.sum()))


def allowed_world(noise: Noise, data: Data, seed: int, lead: float | None = None) -> Environment:
    """A world whose means are drawn anew in each run from what these data allow.

    Args:
        noise: The noise model.
        data: The results so far.
        seed: Seed of the draws, where those are made beforehand.
        lead: By which one arm may be ahead of all others (negative: below), where a study is designed for that.
    """
    if not (data.counts > 0).any():
        raise InputError("There are no results yet. Plan it as a new study, with expected means.")
    estimate, variance, back, unit = _estimates(noise, data)

    if lead is not None:  # on the scale of the estimates
        middle = np.asarray([np.average(estimate, weights=1 / variance)])
        step = 1e-4 * unit
        lead *= 2 * step / float((back(middle + step) - back(middle - step))[0])

    def means(rng: Generator, runs: int) -> Floats:
        return back(draws(rng, runs, estimate, variance, SMALL * unit, lead))

    if noise.family is not None:
        return world_of(noise, means)
    if noise.outcome.limited:
        rows = means(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(99,))), WORLDS)
        return world_of(noise, rows, data.deviation)
    return world_of(noise, means, _deviation(noise, data))


def draws(
    rng: Generator, runs: int, estimate: Floats, variance: Floats, effects: float, lead: float | None = None
) -> Floats:
    """Means from the posterior of the hierarchy, on a grid of deviations between arms. (K)->(runs, K)

    For a deviation t between arms the estimates are independent normal with variances v_i + t^2 about one mean, which
    has a flat prior; t has a half-Cauchy prior of scale `effects`. With a `lead` this has probability 1/2; else one
    arm, any of them, is ahead of the others, which are alike, by g leads, with a half-normal prior for g.
    """
    arms = len(estimate)
    grid = effects * np.concatenate([[0.0], np.geomspace(0.02, 50.0, 80)])
    log_prior = np.log(np.gradient(grid)) - np.log1p((grid / effects) ** 2)
    ahead = np.zeros((len(grid), arms))  # of the common mean, beside what t says
    if lead is not None:
        ahead = np.concatenate([ahead, *(lead * AHEAD[:, None] * each for each in np.eye(arms))])
        log_prior -= np.logaddexp.reduce(log_prior)
        own = -0.5 * (AHEAD / USUAL_LEAD) ** 2
        log_prior = np.concatenate([log_prior, np.tile(own - np.logaddexp.reduce(own) - np.log(arms), arms)])
        grid = np.concatenate([grid, np.zeros(arms * len(AHEAD))])
    apart = estimate - ahead
    spread = variance + grid[:, None] ** 2  # (grid, K)
    weights = 1 / spread
    centre = (weights * apart).sum(axis=-1) / weights.sum(axis=-1)
    fit = -0.5 * (np.log(spread) + (apart - centre[:, None]) ** 2 / spread).sum(axis=-1)
    log_weight = fit - 0.5 * np.log(weights.sum(axis=-1)) + log_prior
    chances = np.exp(log_weight - log_weight.max())
    which = rng.choice(len(grid), size=runs, p=chances / chances.sum())
    middle = centre[which] + rng.standard_normal(runs) / np.sqrt(weights.sum(axis=-1)[which])
    between = grid[which, None] ** 2
    pull = variance / (variance + between)  # towards the others
    mean = (1 - pull) * apart[which] + pull * middle[:, None] + ahead[which]
    return np.asarray(mean + np.sqrt((1 - pull) * variance) * rng.standard_normal((runs, arms)))


def _estimates(noise: Noise, data: Data) -> Scale:
    """Estimates on the scale of the noise model, or as they are, within their limits."""
    counts, totals = data.counts, data.totals
    own = noise.scale(counts, totals)
    if own is not None:
        return own
    sigma, (low, high) = _deviation(noise, data), noise.mean_range
    estimate = np.where(counts > 0, totals / np.maximum(counts, 1.0), totals.sum() / counts.sum())
    return Scale(estimate, sigma**2 / np.maximum(counts, 1e-3), lambda drawn: np.clip(drawn, low, high), sigma)


def _deviation(noise: Noise, data: Data) -> float:
    if noise.outcome.limited:
        low, high = noise.mean_range
        return data.deviation or 0.25 * (high - low)
    sigma = noise.known_sigma if noise.known_sigma is not None else data.deviation
    if sigma is None or sigma <= 0:
        raise InputError(
            "The standard deviation of the results is not known yet. Record rows, or sums with their squares."
        )
    return sigma
