"""Arms tried on the same items, two by two: sums of their differences on the items of both, whole and in parts.

Number a K + b of a batch of pairs is what arm a had more than arm b (`state.Batch.pairs`). An item on which an arm was
tried twice counts for no pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.dealing import Index, Rows, labels_of_items, seeds
from roundwise.state import Batch, Parts, Table

_POINTS = 33  # of a table of differences, where there are more values than that
_ROOM = 4_000_000  # numbers that the parts of all dealings may have
FEWEST, MOST = 4, 256  # dealings


class Tried(NamedTuple):
    """What every arm had on every item, and whether it was tried on it."""

    values: Floats  # (I, K)
    used: Floats  # (I, K), 1 or 0


def tried(rows: Rows, arms: int) -> Tried:
    """The rows as a table, one line an item."""
    assert rows.items is not None
    items, which = np.unique(rows.items, return_inverse=True)
    values, times = np.zeros((len(items), arms)), np.zeros((len(items), arms))
    np.add.at(times, (which, rows.arms), 1.0)
    values[which, rows.arms] = rows.totals
    used = times * np.asarray((times <= 1).all(axis=1, keepdims=True))
    if np.any(values != np.floor(values)):  # sums of squares of whole numbers are exact, others are near their middle
        values = values - values[times > 0].mean()
    return Tried(values * used, used)


def pair_sums(values: Floats, used: Floats) -> tuple[Floats, Floats, Floats]:
    """How many items both arms of a pair were tried on, the sum of their differences, and its scatter. (K^2) each"""
    seen = values * used
    both, cross, squares = used.T @ used, seen.T @ used, (seen * seen).T @ used
    apart = cross - cross.T
    scatter = squares + squares.T - 2.0 * (seen.T @ seen) - apart**2 / np.maximum(both, 1.0)
    return both.reshape(-1), apart.reshape(-1), np.maximum(scatter, 0.0).reshape(-1)


def pairs_of(rows: Rows, arms: int, tables: bool = False) -> Batch:
    """The differences of all pairs in a batch; with `tables` also how often each was what."""
    found = tried(rows, arms)
    points = _points(found) if tables else None
    one = np.zeros(len(found.values), dtype=np.int64)
    table = None if points is None else Table(points, _counted(found, one, 1, points)[:, 0])
    return Batch(*pair_sums(*found), table)


def dealt_pairs(rows: Rows, arms: int, seed: int, batch: int, parts: int, several: int, tables: bool) -> Parts:
    """The same in parts, by the dealings of `dealing.dealt_rows`."""
    assert rows.items is not None
    found = tried(rows, arms)
    points = _points(found) if tables else None
    labels = labels_of_items(np.unique(rows.items), seeds(seed, batch, several), parts)
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
    table = None if counted is None or points is None else Table(points, counted)
    return Parts(counts, totals, scatter, table)


def dealings_for(arms: int, parts: int, tables: bool) -> int:
    """How many dealings there is room for."""
    return int(np.clip(_ROOM // (arms * arms * parts * (3 + (_POINTS if tables else 0))), FEWEST, MOST))


def _points(found: Tried) -> Floats:
    """The values that differences can have; some of them, if they are many."""
    values = np.unique(found.values[found.used > 0])
    if len(values) <= 9:
        points = np.unique(np.round(values[:, None] - values, 12))
        if len(points) <= _POINTS:
            return np.asarray(points)
    width = float(values[-1] - values[0])
    return np.linspace(-width, width, _POINTS)


def _counted(found: Tried, label: Index, parts: int, points: Floats) -> Floats:
    """How often each pair had each difference, in each part. (K^2, P, V)

    A difference between two points is shared by them so that its mean stays: that can only lower what a bet wins, as
    for tables of values (`dealing.dealt_rows`).
    """
    values, used = found
    arms, size = values.shape[1], len(points)
    counts = np.zeros((arms, arms * parts * size))
    for a in range(arms):
        apart = np.clip(values[:, [a]] - values, points[0], points[-1])
        left = np.clip(np.searchsorted(points, apart + 1e-12, side="right") - 1, 0, max(size - 2, 0))
        right = np.minimum(left + 1, size - 1)
        share = np.clip((apart - points[left]) / np.maximum(points[right] - points[left], 1e-300), 0.0, 1.0)
        weight = used[:, [a]] * used
        place = (np.arange(arms) * parts + label[:, None]) * size
        for at, part in ((left, 1.0 - share), (right, share)):
            counts[a] += np.bincount((place + at).reshape(-1), (weight * part).reshape(-1), counts.shape[1])
    return counts.reshape(arms * arms, parts, size)
