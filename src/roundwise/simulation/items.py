"""Environments in which several arms are tried on the same items: a prompt put to several models, a pair of eyes.

Of the items of a batch, in random order, arm i is tried on the first n_i (the nested plan of docs/wager.md). Of a
finite list (`ListReplay`), every run draws its own random order.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise import noise
from roundwise.arrays import Bools, Floats, zeros
from roundwise.errors import InputError
from roundwise.model.batch import Batch, Parts, ValueTable, join_parts, pair_sums, part_edges
from roundwise.noise import Needs
from roundwise.simulation.environments import Arms, ArmState, Environment, Generator, Now, numbered
from roundwise.simulation.tables import read_wide

_OUTCOMES = 5  # values up to which a table has each of them
_POINTS = 11  # of more: points between which results are shared


class ItemEnvironment(Environment[Now]):
    """Environments in which several arms are tried on the same items."""

    shares_items: ClassVar[bool] = True
    missing: float = 0.0  # the share of results that never come back

    @property
    def values(self) -> Floats | None:
        """The values that results may have, for tables of them; None where the sums are enough, as for 0/1 results."""
        return None

    @abstractmethod
    def draw_items(self, rng: Generator, state: Now, run: int, items: int) -> Floats:
        """The results of every arm on new items of a run, (items, K)."""

    def pull(self, rng: Generator, state: Now, pulls: Floats, needs: Needs = "sums") -> tuple[Batch, Now]:
        return self.pull_parts(rng, state, pulls, 1, 1)[0]._replace(parts=None), state

    def pull_parts(
        self, rng: Generator, state: Now, pulls: Floats, parts: int, partitions: int, needs: Needs = "sums"
    ) -> tuple[Batch, Now]:
        runs, arms = pulls.shape
        grades = None if self.values is None else _grades(self.values, arms)
        found = [[_empty_part(runs, arms, grades) for _ in range(parts)] for _ in range(partitions)]
        for run in range(runs):
            items = int(pulls[run].max(initial=0))
            rows = self.draw_items(rng, state, run, items)
            tried = rng.permutation(items)[:, None] < pulls[run]
            if self.missing:
                tried &= rng.random(tried.shape) >= self.missing
            ends = np.floor(items * part_edges(parts) + 1e-9).astype(int)
            for m in range(partitions):
                order = rng.permutation(items) if m else slice(None)
                x, used = rows[order], tried[order]
                for p in range(parts):
                    here = slice(ends[p], ends[p + 1])
                    _fill_part(found[m][p], run, x[here], used[here].astype(np.float64), grades)
        whole = [join_parts(each) for each in found]
        joined = _join_partitions([each.parts for each in whole if each.parts is not None])
        return whole[0]._replace(parts=joined), state


@dataclass(frozen=True, eq=False)
class ItemReplay(ItemEnvironment[ArmState]):
    """Items drawn, with replacement, from a table.

    Args:
        table: One row an item, one column an arm, (I, K).
        labels: The names of the arms.

    >>> ItemReplay([[1, 0], [1, 1], [0, 0], [1, 0]]).noise.name
    'paired-binary'
    """

    table: ArrayLike
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        table = np.asarray(self.table, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] < 2 or not len(table) or not np.isfinite(table).all():
            raise InputError("A table of items needs a number in every cell: one row per item, one column per arm.")
        if self.labels and len(self.labels) != table.shape[1]:
            raise InputError(f"There are {len(self.labels)} names for {table.shape[1]} arms: give one for each.")
        object.__setattr__(self, "table", table)

    @classmethod
    def from_csv(cls, path: str | Path) -> ItemReplay:
        """From a file with one row per item and one column per arm; rows with an empty cell are left out."""
        return cls(*read_wide(Path(path)))

    @property
    def arms(self) -> int:
        return int(np.asarray(self.table).shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        return self.labels or numbered(self.arms)

    @property
    def noise(self) -> noise.Noise:
        if self.values is None:
            return noise.PairedBinary()
        return noise.PairedBounded(float(self.values[0]), float(self.values[-1]))

    @property
    def values(self) -> Floats | None:
        found = np.unique(np.asarray(self.table))
        return None if set(found.tolist()) <= {0.0, 1.0} else found

    def initial_state(self, rng: Generator, runs: int) -> ArmState:
        return ArmState(zeros((runs, self.arms)) + np.asarray(self.table).mean(axis=0))

    def draw_items(self, rng: Generator, state: ArmState, run: int, items: int) -> Floats:
        table = np.asarray(self.table)
        return np.asarray(table[rng.integers(0, len(table), items)])


@dataclass(frozen=True, eq=False)
class NormalItems(ItemEnvironment[ArmState], Arms):
    """Normal results on shared items.

    Args:
        means: K numbers.
        sigmas: The standard deviation of each arm, or of all.
        shared: The share of each arm's variance that is common to all arms on an item.
    """

    sigmas: ArrayLike = 1.0
    shared: float = 0.5

    @property
    def noise(self) -> noise.Noise:
        return noise.PairedNormal()

    @property
    def sigma(self) -> float:
        return float(np.max(self.sigmas))

    def draw_items(self, rng: Generator, state: ArmState, run: int, items: int) -> Floats:
        common = np.sqrt(self.shared) * rng.standard_normal((items, 1))
        own = np.sqrt(1.0 - self.shared) * rng.standard_normal((items, self.arms))
        return np.asarray(state.means[run] + np.asarray(self.sigmas) * (common + own))


@dataclass(frozen=True, eq=False)
class StickItems(ItemEnvironment[ArmState], Arms):
    """0/1 results on shared items, or the mean of several: an arm is right on an item if its mean is above a stick.

    Args:
        means: K rates.
        shared: The probability that all arms of an item are measured with one stick, else each with its own; if
            negative, every second arm is measured with the rest of it, so that arms are negatively correlated.
        sticks: How many 0/1 results are averaged.
    """

    shared: float = 0.5
    sticks: int = 1

    @property
    def noise(self) -> noise.Noise:
        return noise.PairedBinary() if self.sticks == 1 else noise.PairedBounded(0.0, 1.0)

    @property
    def sigma(self) -> float:
        return 0.5

    @property
    def values(self) -> Floats | None:
        return None if self.sticks == 1 else np.arange(self.sticks + 1) / self.sticks

    def initial_state(self, rng: Generator, runs: int) -> ArmState:
        state = super().initial_state(rng, runs)
        if ((state.means < 0) | (state.means > 1)).any():
            raise InputError("The means of 0/1 results lie between 0 and 1.")
        return state

    def draw_items(self, rng: Generator, state: ArmState, run: int, items: int) -> Floats:
        turned = (np.arange(self.arms) % 2 == 1) & (self.shared < 0)
        size = (self.sticks, items, self.arms)
        common = rng.random((self.sticks, items, 1))
        own = rng.random(size) >= abs(self.shared)
        stick = np.where(own, rng.random(size), np.where(turned, 1.0 - common, common))
        return np.asarray((stick < state.means[run]).mean(axis=0))


class Grades(NamedTuple):
    """The values of tables: all that results may have, or points between which results are shared."""

    values: Floats  # (V)
    apart: Floats  # (D), what two of them differ by
    places: NDArray[np.intp]  # (K, V, K, V), where in a table of pairs each two of them are counted
    step: float  # between two points; 0 where results have these values

    def shares(self, x: Floats) -> Floats:
        """What each value has of each result, so that its mean stays: that can only lower what a bet wins. (V)

        (Live studies do the same, with more points.)
        """
        if not self.step:
            return np.asarray(x[..., None] == self.values, dtype=np.float64)
        return np.asarray(np.maximum(1.0 - np.abs(x[..., None] - self.values) / self.step, 0.0))


def _grades(values: Floats, arms: int) -> Grades:
    if len(values) > _OUTCOMES:
        values, step = np.linspace(values[0], values[-1], _POINTS, retstep=True)
        apart, number = np.arange(1 - _POINTS, _POINTS) * step, np.arange(_POINTS)
        place = number[:, None] - number + _POINTS - 1
    else:
        step, every = 0.0, values[:, None] - values
        apart = np.unique(every)
        place = np.searchsorted(apart, every)
    pair = np.arange(arms)[:, None, None, None] * arms + np.arange(arms)[:, None]
    return Grades(values, apart, pair * len(apart) + place[:, None], float(step))


def _empty_part(runs: int, arms: int, grades: Grades | None) -> Batch:
    def table(values: Floats, arms: int) -> ValueTable:
        return ValueTable(np.broadcast_to(values, (runs, len(values))), np.zeros((runs, arms, len(values))))

    two, one = (runs, arms * arms), (runs, arms)
    pairs = Batch(zeros(two), zeros(two), zeros(two), grades and table(grades.apart, arms * arms))
    return Batch(zeros(one), zeros(one), zeros(one), grades and table(grades.values, arms), pairs=pairs)


def _fill_part(batch: Batch, run: int, x: Floats, used: Floats, grades: Grades | None) -> None:
    """Put the items of a run, with which arms were tried on them, into its place."""
    pairs = batch.pairs
    assert pairs is not None
    assert pairs.scatter is not None
    assert batch.scatter is not None
    seen = x * used
    n, sums = used.sum(axis=0), seen.sum(axis=0)
    batch.counts[run], batch.totals[run] = n, sums
    batch.scatter[run] = np.maximum((seen * seen).sum(axis=0) - sums**2 / np.maximum(n, 1.0), 0.0)
    pairs.counts[run], pairs.totals[run], pairs.scatter[run] = pair_sums(x, used)
    if grades is None or batch.table is None or pairs.table is None:
        return
    shares = grades.shares(x) * used[..., None]
    batch.table.counts[run] = shares.sum(axis=0)
    flat = shares.reshape(len(x), x.shape[1] * len(grades.values))
    every = pairs.table.counts[run]
    every[:] = np.bincount(grades.places.reshape(-1), (flat.T @ flat).reshape(-1), every.size).reshape(every.shape)


def _join_partitions(partitions: list[Parts]) -> Parts:
    first = partitions[0]
    if len(partitions) == 1:
        return first
    tables = [each.table for each in partitions if each.table is not None]
    table = ValueTable(tables[0].values, np.concatenate([each.counts for each in tables], axis=-4)) if tables else None
    pairs = [each.pairs for each in partitions if each.pairs is not None]
    scatter = [each.scatter for each in partitions if each.scatter is not None]
    return Parts(
        np.concatenate([each.counts for each in partitions], axis=-3),
        np.concatenate([each.totals for each in partitions], axis=-3),
        np.concatenate(scatter, axis=-3) if scatter else None,
        table,
        pairs=_join_partitions(pairs) if pairs else None,
    )


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
