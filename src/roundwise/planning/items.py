"""A world for assumed means in which several arms are tried on the same items, and do alike on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.noise import Needs, Noise
from roundwise.planning.scenarios import limited_world
from roundwise.simulation.environments import Generator
from roundwise.simulation.items import ItemEnvironment, draw_items

ITEM_CORRELATION = 0.3  # of two equally good arms on one item, unless given
STEPS = 4  # of the scale that results between two limits are put on: differences are told one by one
ZERO_ONE = np.array([0.0, 1.0])


class ItemsNow(NamedTuple):
    """True means, and, where results take few values, how likely each is not passed."""

    means: Floats  # (K)
    below: Floats | None  # (K, V - 1)


@dataclass(frozen=True, eq=False)
class AlikeItems(ItemEnvironment[ItemsNow]):
    """Run i has the means of row i modulo their number. All arms may have the same luck on an item.

    They do with probability `correlation`, so two arms of the same mean have that correlation: the result of an arm is
    that whose rank among all its results is the luck. A share of the results never comes back.
    """

    noise: Noise
    rows: Floats  # (R, K)
    correlation: float = ITEM_CORRELATION
    missing: float = 0.0
    deviation: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.correlation <= 1:
            raise InputError(f"`item_correlation` must be between 0 and 1; got {self.correlation:g}.")
        _ = self._tables

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return int(self.rows.shape[-1])

    def initial_state(self, rng: Generator, runs: int) -> ItemsNow:
        """The means of each run."""
        which, (_, below) = np.arange(runs) % len(self.rows), self._tables
        return ItemsNow(self.rows[which], None if below is None else below[which])

    def pull_parts(
        self, rng: Generator, state: ItemsNow, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, ItemsNow]:
        """Items in parts, in several random partitions."""
        values, _ = self._tables

        def drawn(run: int, items: int) -> Floats:
            luck = rng.random((items, self.arms))
            same = rng.random(items) < self.correlation
            luck[same] = luck[same, :1]
            if values is None or state.below is None:
                return self._normal(state.means[run], luck)
            return np.asarray(values[(luck[..., None] >= state.below[run]).sum(axis=-1)])

        told = None if values is ZERO_ONE else values  # of 0/1 results the sums say all
        return draw_items(rng, drawn, pulls, parts, partitions, told, self.missing), state

    def _normal(self, means: Floats, luck: Floats) -> Floats:
        from scipy.special import ndtri

        return np.asarray(means + (1.0 if self.deviation is None else self.deviation) * ndtri(luck))

    @property
    def _tables(self) -> tuple[Floats | None, Floats | None]:
        """The values of results, and how likely each is not passed, (R, K, V - 1); nothing where they are normal."""
        alone, rows = self.noise.without_items(), self.rows
        if not alone.outcome.limited:
            return None, None
        if alone.outcome.rates:
            if ((rows < 0) | (rows > 1)).any():
                raise InputError("The means of 0/1 results lie between 0 and 1.")
            return ZERO_ONE, 1.0 - rows[..., None]
        world = limited_world(alone, rows.reshape(-1), self.deviation, STEPS)
        return world.values, world.shares.cumsum(axis=-1)[:, :-1].reshape(*rows.shape, -1)
