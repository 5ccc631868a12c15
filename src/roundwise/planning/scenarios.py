"""Worlds to plan in that have more than one law of results: missing results, several metrics, shared items, a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.noise import Needs, Noise
from roundwise.simulation.environments import Environment, Generator, limited_world
from roundwise.simulation.items import ItemEnvironment, batch_of_entries

ITEM_STEPS = 4  # of that scale for shared items: differences are tabulated one by one
ITEM_CORRELATION = 0.3  # of two equally good arms on one item, unless given
LIST_CELLS = 10_000_000  # entries of all lists that are simulated together,
FEWEST_LISTS = 5  # and how many lists there are at least
ZERO_ONE = np.array([0.0, 1.0])


@dataclass(frozen=True, eq=False)
class WrappedWorld(Environment):
    """An environment with the arms and the results of another one."""

    world: Environment

    @property
    def arms(self) -> int:
        return self.world.arms

    @property
    def noise(self) -> Noise:
        return self.world.noise


@dataclass(frozen=True, eq=False)
class IncompleteResults(WrappedWorld):
    """Another world, in which each result is missing with the same probability, whatever it is."""

    missing: float

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


class RatioState(NamedTuple):
    """The state of the world of linearized ratios."""

    world: Any
    before: Floats  # (K), results so far

    @property
    def means(self) -> Floats:
        """The true ratios. (K)"""
        return np.asarray(self.world.means)


@dataclass(frozen=True, eq=False)
class RatioArms(WrappedWorld):
    """Linearized ratios: a round of an arm that has no earlier results sets the scale, and stays in one part."""

    def initial_state(self, rng: Generator, runs: int) -> RatioState:
        return RatioState(self.world.initial_state(rng, runs), np.zeros((runs, self.arms)))

    def pull(self, rng: Generator, state: RatioState, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, RatioState]:
        batch, after = self.world.pull(rng, state.world, pulls, needs)
        return batch, RatioState(after, state.before + batch.counts)

    def pull_parts(
        self, rng: Generator, state: RatioState, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, RatioState]:
        if ((state.before == 0) & (pulls > 0)).any():
            return self.pull(rng, state, pulls, needs)
        batch, after = self.world.pull_parts(rng, state.world, pulls, parts, partitions, needs)
        return batch, RatioState(after, state.before + batch.counts)


class MetricsState(NamedTuple):
    """The state of the world of each metric; `means` are those of the main one."""

    main: Any
    others: tuple[Any, ...]

    @property
    def means(self) -> Floats:
        """The true means of the main metric. (K)"""
        return np.asarray(self.main.means)


@dataclass(frozen=True, eq=False)
class SeveralMetrics(WrappedWorld):
    """The world of the main metric, and one for each other metric of the same rows, as if they were independent."""

    others: tuple[Environment, ...]
    needs: tuple[Needs, ...]  # of the noise models of the others

    def initial_state(self, rng: Generator, runs: int) -> MetricsState:
        return MetricsState(self.world.initial_state(rng, runs), tuple(e.initial_state(rng, runs) for e in self.others))

    def pull(
        self, rng: Generator, state: MetricsState, pulls: Floats, needs: Needs = "sums"
    ) -> tuple[Batch, MetricsState]:
        return self._join(state, lambda world, now, own: world.pull(rng, now, pulls, own), needs)

    def pull_parts(
        self, rng: Generator, state: MetricsState, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, MetricsState]:
        return self._join(
            state, lambda world, now, own: world.pull_parts(rng, now, pulls, parts, partitions, own), needs
        )

    def _join(
        self, state: MetricsState, pull: Callable[[Environment, Any, Needs], tuple[Batch, Any]], needs: Needs
    ) -> tuple[Batch, MetricsState]:
        batch, main = pull(self.world, state.main, needs)
        others = [pull(*each) for each in zip(self.others, state.others, self.needs, strict=True)]
        now = MetricsState(main, tuple(after for _, after in others))
        return batch._replace(metrics=tuple(found for found, _ in others)), now


class ItemsState(NamedTuple):
    """True means, and, where results take few values, their distribution function."""

    means: Floats  # (K)
    below: Floats | None  # (K, V - 1)


@dataclass(frozen=True, eq=False)
class ExchangeableItems(ItemEnvironment[ItemsState]):
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

    def initial_state(self, rng: Generator, runs: int) -> ItemsState:
        which, (_, below) = np.arange(runs) % len(self.rows), self.distributions
        return ItemsState(self.rows[which], None if below is None else below[which])

    @property
    def values(self) -> Floats | None:
        values, _ = self.distributions
        return None if values is ZERO_ONE else values  # sums say everything about 0/1 results

    def draw_items(self, rng: Generator, state: ItemsState, run: int, items: int) -> Floats:
        from scipy.special import ndtri

        values, _ = self.distributions
        luck = rng.random((items, self.arms))
        same = rng.random(items) < self.correlation
        luck[same] = luck[same, :1]
        if values is None or state.below is None:
            return np.asarray(state.means[run] + self._sigma * ndtri(luck))
        return np.asarray(values[(luck[..., None] >= state.below[run]).sum(axis=-1)])

    @property
    def _sigma(self) -> float:
        found = self.noise.without_items().largest_deviation if self.deviation is None else self.deviation
        if found is None:
            raise InputError("Normal results on shared items need a standard deviation to be drawn.")
        return found

    @cached_property
    def distributions(self) -> tuple[Floats | None, Floats | None]:
        """The values of results, and P(result <= value) but for the last, (R, K, V - 1); nothing if they are normal."""
        alone, rows = self.noise.without_items(), self.rows
        if not alone.outcome.limited:
            _ = self._sigma
            return None, None
        if alone.outcome.rates:
            if ((rows < 0) | (rows > 1)).any():
                raise InputError("The means of 0/1 results lie between 0 and 1.")
            return ZERO_ONE, 1.0 - rows[..., None]
        world = limited_world(alone, rows, self.deviation, ITEM_STEPS)
        return world.values, world.shares.cumsum(axis=-1)[..., :-1]


class ListWorldState(NamedTuple):
    """The whole list of each run, in its order, and what was recorded of it."""

    means: Floats  # (K), of the list
    table: Floats  # (N, K)
    given: Bools  # (N, K)


class ListWorld(Environment[ListWorldState]):
    """Finite lists: each entry comes once, to each arm the first that it lacks."""

    def pull(
        self, rng: Generator, state: ListWorldState, pulls: Floats, needs: Needs = "sums"
    ) -> tuple[Batch, ListWorldState]:
        lacking = ~state.given
        now = lacking & (lacking.cumsum(axis=1) <= pulls[:, None, :])
        return batch_of_entries(state.table, now), state._replace(given=state.given | now)


@dataclass(frozen=True, eq=False)
class ExchangeableList(ListWorld):
    """Lists of such items on which the arms have just their means, up to half an item: arms of one mean tie.

    Over the whole list the luck of every arm is 1/(2 N), 3/(2 N), ..., in the order of the item or in an independent
    one.
    """

    items: ExchangeableItems
    size: int

    @property
    def arms(self) -> int:
        return self.items.arms

    @property
    def noise(self) -> Noise:
        return self.items.noise

    def initial_state(self, rng: Generator, runs: int) -> ListWorldState:
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
        return ListWorldState(table.mean(axis=1), table, np.zeros(table.shape, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class RestOfList(ListWorld):
    """The rest of a list given its recorded entries: items like those seen (the Polya posterior).

    The seen rows have weights drawn from a flat Dirichlet law, and the others are drawn with these. An arm that lacks a
    result there gets an independent one.
    """

    noise: Noise
    told: Floats  # (n, K), by place; nan where nothing is recorded
    size: int

    def __post_init__(self) -> None:
        if not np.isfinite(self.told).any(axis=0).all():
            raise InputError("A forecast needs results of every arm.")

    @property
    def arms(self) -> int:
        return int(self.told.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ListWorldState:
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
        return ListWorldState(table.mean(axis=1), table, np.broadcast_to(given, table.shape))


def runs_of_list(size: int, arms: int, runs: int) -> int:
    """As many runs as fit into memory: each has its whole list."""
    return min(runs, max(LIST_CELLS // (size * arms), FEWEST_LISTS))
