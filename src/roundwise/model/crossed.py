"""Arms tried on the same items, two by two: sums of their differences on the items of both, whole and in parts.

Number a K + b of a batch of pairs is what arm a had more than arm b (`model.batch.Batch.pairs`). An item on which an
arm was tried twice counts for no pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import Batch, Parts
from roundwise.model.random_partition import (
    Index,
    PartitionRows,
    drop_unused,
    label_items,
    neighbours,
    partition_seeds,
    value_grid,
)

_POINTS = 33  # columns that are reckoned with for a table of differences
_ROOM = 4_000_000  # numbers that the parts of all dealings may have
FEWEST, MOST = 4, 256  # dealings


class ItemTable(NamedTuple):
    """What every arm had on every item, and whether it was tried on it."""

    values: Floats  # (I, K)
    used: Floats  # (I, K), 1 or 0


def build_item_table(rows: PartitionRows, arms: int) -> ItemTable:
    """The rows as a table, one line an item."""
    assert rows.items is not None
    items, which = np.unique(rows.items, return_inverse=True)
    values, times = np.zeros((len(items), arms)), np.zeros((len(items), arms))
    np.add.at(times, (which, rows.arms), 1.0)
    values[which, rows.arms] = rows.totals
    used = times * np.asarray((times <= 1).all(axis=1, keepdims=True))
    if np.any(values != np.floor(values)):  # sums of squares of whole numbers are exact, others are near their middle
        values = values - values[times > 0].mean()
    return ItemTable(values * used, used)


def pair_sums(values: Floats, used: Floats) -> tuple[Floats, Floats, Floats]:
    """How many items both arms of a pair were tried on, the sum of their differences, and its scatter. (K^2) each"""
    seen = values * used
    both, cross, squares = used.T @ used, seen.T @ used, (seen * seen).T @ used
    apart = cross - cross.T
    scatter = squares + squares.T - 2.0 * (seen.T @ seen) - apart**2 / np.maximum(both, 1.0)
    return both.reshape(-1), apart.reshape(-1), np.maximum(scatter, 0.0).reshape(-1)


def sum_pairs(rows: PartitionRows, arms: int, limits: tuple[float, float] | None = None) -> Batch:
    """The differences of all pairs in a batch; with `limits` of the values also how often each was what."""
    found = build_item_table(rows, arms)
    table, one = None, np.zeros(len(found.values), dtype=np.int64)
    if limits is not None:
        points = _points(limits)
        table = drop_unused(points, _counted(found, one, 1, points)[:, 0])
    return Batch(*pair_sums(*found), table)


def partition_pairs(
    rows: PartitionRows, arms: int, seed: int, batch: int, parts: int, several: int, limits: tuple[float, float] | None
) -> Parts:
    """The same in parts, by the dealings of `dealing.dealt_rows`."""
    assert rows.items is not None
    found = build_item_table(rows, arms)
    points = None if limits is None else _points(limits)
    labels = label_items(np.unique(rows.items), partition_seeds(seed, batch, several), parts)
    shape = (several, arms * arms, parts)
    counts, totals, scatter = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    counted = None if points is None else np.zeros((*shape, len(points)))
    for m, label in enumerate(labels):
        order = np.argsort(label, kind="stable")
        ends = np.searchsorted(label[order], np.arange(parts + 1))
        for p in range(parts):
            here = order[ends[p] : ends[p + 1]]
            counts[m, :, p], totals[m, :, p], scatter[m, :, p] = pair_sums(found.values[here], found.used[here])
        if counted is not None and points is not None:
            counted[m] = _counted(found, label, parts, points)
    table = None if counted is None or points is None else drop_unused(points, counted)
    return Parts(counts, totals, scatter, table)


def max_pair_partitions(arms: int, parts: int, tables: bool) -> int:
    """How many dealings there is room for."""
    return int(np.clip(_ROOM // (arms * arms * parts * (3 + (_POINTS if tables else 0))), FEWEST, MOST))


def _points(limits: tuple[float, float]) -> Floats:
    """Those of differences, whose limits are the width of the range of values."""
    width = limits[1] - limits[0]
    return value_grid(-width, width)


def _counted(found: ItemTable, label: Index, parts: int, points: Floats) -> Floats:
    """How often each pair had each difference, in each part. (K^2, P, V)

    A difference between two points is shared by them so that its mean stays: that can only lower what a bet wins, as
    for tables of values (`dealing.dealt_rows`).
    """
    values, both = found
    arms, size = values.shape[1], len(points)
    counts = np.zeros((arms, arms * parts * size))
    for a in range(arms):
        left, share = neighbours(values[:, [a]] - values, points)
        weight = both[:, [a]] * both
        place = (np.arange(arms) * parts + label[:, None]) * size + left
        for at, part in ((place, 1.0 - share), (place + 1, share)):
            counts[a] += np.bincount(at.reshape(-1), (weight * part).reshape(-1), counts.shape[1])
    return counts.reshape(arms * arms, parts, size)
