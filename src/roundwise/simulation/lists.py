"""A finite list of items as an environment: every run draws its own random order of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import Batch
from roundwise.noise import Needs
from roundwise.simulation.environments import Generator
from roundwise.simulation.items import ItemReplay


class ListOrder(NamedTuple):
    """The orders of the runs, and how far each is."""

    means: Floats  # (K), of the whole list
    order: NDArray[np.intp]  # (N)
    place: NDArray[np.intp]  # (K), of each arm


@dataclass(frozen=True, eq=False)
class ListReplay(ItemReplay):
    """The items of a table without replacement, in a random order, for policies such as `Lockstep`.

    Args:
        table: One row an item, one column an arm, (N, K).
        labels: The names of the arms.

    >>> ListReplay([[1, 0], [1, 1], [0, 0], [1, 0]]).items
    4
    """

    @property
    def items(self) -> int:
        """N."""
        return len(np.asarray(self.table))

    def initial_state(self, rng: Generator, runs: int) -> ListOrder:  # type: ignore[override]
        table = np.asarray(self.table)
        order = rng.permuted(np.broadcast_to(np.arange(self.items), (runs, self.items)), axis=1)
        return ListOrder(
            np.broadcast_to(table.mean(axis=0), (runs, self.arms)), order, np.zeros((runs, self.arms), dtype=np.intp)
        )

    def pull(  # type: ignore[override]
        self, rng: Generator, state: ListOrder, pulls: Floats, needs: Needs = "sums"
    ) -> tuple[Batch, ListOrder]:
        """The next items of each arm of each run."""
        ends = state.place + pulls.astype(np.intp)
        places = np.arange(self.items)[:, None]
        there = (places >= state.place[:, None, :]) & (places < ends[:, None, :])
        return batch_of_entries(np.asarray(self.table)[state.order], there), state._replace(place=ends)

    def pull_parts(  # type: ignore[override]
        self, rng: Generator, state: ListOrder, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, ListOrder]:
        return self.pull(rng, state, pulls, needs)


def batch_of_entries(table: Floats, chosen: Bools) -> Batch:
    """The chosen entries of the tables of some runs as a batch, by place. (N, K),(N, K)"""
    some = np.flatnonzero(chosen.any(axis=(0, 2)))
    last = int(some[-1]) + 1 if some.size else 0
    table, chosen = table[:, :last], chosen[:, :last]
    counts, totals = chosen.sum(axis=1, dtype=np.float64), np.where(chosen, table, 0.0).sum(axis=1)
    return Batch(counts, totals, rows=np.where(chosen, table, np.nan))
