"""Worlds to plan in besides those of one law: results go missing, several metrics, shared items, a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.noise import Needs, Noise
from roundwise.simulation.environments import Environment, Generator, limited_world
from roundwise.simulation.items import ItemEnvironment

ITEM_STEPS = 4  # of that scale for shared items: differences are tabulated one by one
ITEM_CORRELATION = 0.3  # of two equally good arms on one item, unless given
ZERO_ONE = np.array([0.0, 1.0])


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
        _ = self._distributions

    @property
    def arms(self) -> int:
        return int(self.rows.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ItemsNow:
        which, (_, below) = np.arange(runs) % len(self.rows), self._distributions
        return ItemsNow(self.rows[which], None if below is None else below[which])

    @property
    def values(self) -> Floats | None:
        values, _ = self._distributions
        return None if values is ZERO_ONE else values  # sums say everything about 0/1 results

    def draw_items(self, rng: Generator, state: ItemsNow, run: int, items: int) -> Floats:
        from scipy.special import ndtri

        values, _ = self._distributions
        luck = rng.random((items, self.arms))
        same = rng.random(items) < self.correlation
        luck[same] = luck[same, :1]
        if values is None or state.below is None:
            return np.asarray(state.means[run] + (1.0 if self.deviation is None else self.deviation) * ndtri(luck))
        return np.asarray(values[(luck[..., None] >= state.below[run]).sum(axis=-1)])

    @cached_property
    def _distributions(self) -> tuple[Floats | None, Floats | None]:
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
    """The state of `AlikeList`."""

    means: Floats  # (K), the true means
    below: Floats | None  # (K, V - 1)
    place: Floats  # (K), items so far


@dataclass(frozen=True, eq=False)
class AlikeList(AlikeItems):
    """The same on the items of a finite list: each comes once, by its place."""

    size: int = 1

    def initial_state(self, rng: Generator, runs: int) -> ListNow:  # type: ignore[override]
        means, below = super().initial_state(rng, runs)
        return ListNow(means, below, np.zeros((runs, self.arms)))

    def pull(self, rng: Generator, state: ListNow, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, ListNow]:  # type: ignore[override]
        rows, ends = np.full((len(pulls), self.size, self.arms), np.nan), state.place + pulls
        for run, (start, end) in enumerate(zip(state.place.astype(int), ends.astype(int), strict=True)):
            first, last = int(start[end > start].min(initial=self.size)), int(end.max())
            items = self.draw_items(rng, ItemsNow(state.means, state.below), run, max(last - first, 0))
            at = np.arange(first, last)[:, None]
            rows[run, first:last] = np.where((at >= start) & (at < end), items, np.nan)
        there = ~np.isnan(rows)
        totals = np.where(there, rows, 0.0).sum(axis=1)
        return Batch(there.sum(axis=1, dtype=np.float64), totals, rows=rows), state._replace(place=ends)
