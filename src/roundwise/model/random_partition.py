"""How the rows of a batch are dealt into its parts: in orders that have nothing to do with their values.

A part is bet on with what the parts before it showed (docs/why-the-guarantee-holds.md, "Parts and dealings").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.model.batch import Parts, ValueTable, part_edges, split_counts

FIRST_DEALINGS, DEALINGS, FEWEST = 2048, 256, 8  # of a live study's first batch, of a later one, and at the least
_ROOM = 1_000_000  # rows times dealings that are sorted at once, and entries of tables that are made
_COLUMNS = 64  # that are reckoned with for a table of values
GRID = 121  # points of a range between which values are shared

Index = NDArray[np.int64]
DrawPartTotals = Callable[[np.random.Generator, Floats, Floats, int], Floats | None]


class PartitionRows(NamedTuple):
    """Rows, or lots of rows, of all arms, arm after arm."""

    arms: Index  # ascending
    counts: Floats  # 1 for a single row
    totals: Floats
    scatter: Floats  # sum (x - mean)^2 within the lot: 0 for a single row
    items: NDArray[np.uint64] | None = None  # rows of one item stay together, with all arms that were tried on it


def partition_rows(
    rows: PartitionRows,
    arms: int,
    seed: int,
    batch: int,
    parts: int,
    limits: tuple[float, float] | None = None,
    most: int = FIRST_DEALINGS,
) -> Parts:
    """Rows dealt into parts: their order is drawn from the seed, the number of the batch and that of the dealing.

    The rows of each arm are permuted and cut at `edges`. With `limits`, between which all values lie, a table of values
    is made for each part.
    """
    size = max(len(rows.arms), arms * parts * (1 if limits is None else _COLUMNS))
    several = min(max_partitions(batch, size), most)
    states = partition_seeds(seed, batch, several)
    place = rows.arms * parts + (_by_row if rows.items is None else _by_item)(rows, arms, states, parts)
    mean = np.bincount(rows.arms, rows.totals, arms) / np.maximum(np.bincount(rows.arms, rows.counts, arms), 1.0)
    off = rows.totals - rows.counts * mean[rows.arms]

    def summed(values: Floats) -> Floats:
        """(M, K, P)"""
        found = [np.bincount(each, values, arms * parts).reshape(arms, parts) for each in place]
        return np.stack(found)

    counts, moved = summed(rows.counts), summed(off)
    squares = summed(rows.scatter + off * off / np.maximum(rows.counts, 1e-300))
    scatter = np.maximum(squares - moved * moved / np.maximum(counts, 1.0), 0.0)
    totals = moved + counts * mean[:, None]
    return Parts(counts, totals, scatter, None if limits is None else _tables(rows, place, arms, parts, limits))


def partition_sums(
    draw_part_totals: DrawPartTotals, counts: Floats, totals: Floats, seed: int, batch: int, parts: int
) -> Parts | None:
    """Partition sums at random, as `Noise.draw_part_totals` draws the totals of parts; None if it cannot."""
    rng = np.random.Generator(np.random.PCG64([seed, batch]))
    cuts = split_counts(counts, parts)
    several = max_partitions(batch, len(counts) * parts * 2)
    found = draw_part_totals(rng, cuts.transpose(), totals[:, None], several)
    return None if found is None else Parts(cuts, found.transpose())


def max_partitions(batch: int, size: int) -> int:
    """How often a batch is dealt, if a dealing takes so many numbers: fewer times where there are very many.

    Most hangs on the order of the first one, in which leader and drift are learned from its own parts: with 256
    dealings of 1200 results an arm the evidence of one file was 17 to 21 : 1 under 40 seeds, around a bar of 20.
    """
    most = FIRST_DEALINGS if batch == 1 else DEALINGS
    return int(np.clip(_ROOM // max(size, 1), FEWEST, most))


def _start(seed: int, batch: int) -> NDArray[np.uint64]:
    return splitmix64(splitmix64(np.full(1, seed % 2**64, dtype=np.uint64)) + np.uint64(batch))


def partition_seeds(seed: int, batch: int, several: int) -> NDArray[np.uint64]:
    """What the order of each dealing of a batch is drawn from."""
    return splitmix64(_start(seed, batch) + np.arange(several).astype(np.uint64))


def label_items(items: NDArray[np.uint64], states: NDArray[np.uint64], parts: int) -> Index:
    """The part of each item in each dealing: items in a random order, cut at the edges. (M, items)"""
    part = _part_of(np.arange(len(items)), np.full(len(items), len(items)), parts)
    found = np.empty((len(states), len(items)), dtype=np.int64)
    for m, state in enumerate(states):
        found[m, np.argsort(splitmix64(items ^ state), kind="stable")] = part
    return found


def _by_item(rows: PartitionRows, arms: int, states: NDArray[np.uint64], parts: int) -> Index:
    """The part of each row in each dealing: that of its item. (M, rows)"""
    assert rows.items is not None
    items, which = np.unique(rows.items, return_inverse=True)
    return label_items(items, states, parts)[:, which]


def _by_row(rows: PartitionRows, arms: int, states: NDArray[np.uint64], parts: int) -> Index:
    """The same for the rows of each arm."""
    sizes = np.bincount(rows.arms, minlength=arms)
    starts = (np.cumsum(sizes) - sizes)[rows.arms]
    places = np.arange(len(rows.arms)) - starts
    part, bits, above = (
        _part_of(places, sizes[rows.arms], parts),
        int(sizes.max(initial=1)).bit_length(),
        arms.bit_length(),
    )
    # arm, random bits, place in one number: sorting it puts the rows of each arm in a random order
    arm, place = rows.arms.astype(np.uint64), places.astype(np.uint64)
    first, low = arm << np.uint64(64 - above), np.uint64((1 << bits) - 1)
    found = np.empty((len(states), len(rows.arms)), dtype=np.int64)
    for m, state in enumerate(states):
        number = first | (splitmix64(splitmix64(state ^ arm) + place) >> np.uint64(above) & ~low) | place
        number.sort()
        found[m, (number & low).astype(np.int64) + starts] = part
    return found


def _part_of(ranks: Index, sizes: Index, parts: int) -> Index:
    """In which part the row of each rank falls, of so many."""
    label = np.zeros(len(ranks), dtype=np.int64)
    for edge in part_edges(parts)[1:-1]:
        label += ranks >= np.floor(sizes * edge + 1e-9)
    return label


def _tables(rows: PartitionRows, place: Index, arms: int, parts: int, limits: tuple[float, float]) -> ValueTable:
    """How often each arm had each value, in each part of each dealing, at points of a grid. (M, K, P, V)"""
    points = value_grid(*limits)
    left, share = neighbours(rows.totals / rows.counts, points)
    size = len(points)
    found = np.empty((len(place), arms * parts * size))
    for m, each in enumerate(place):
        here = each * size + left
        found[m] = np.bincount(here, rows.counts * (1.0 - share), found.shape[1])
        found[m] += np.bincount(here + 1, rows.counts * share, found.shape[1])
    return drop_unused(points, found.reshape(len(place), arms, parts, size))


def value_grid(low: float, high: float) -> Floats:
    """Points between which values are shared: halves, thirds, quarters, fifths, ... of the range are among them.

    They are fixed before there are results. If they followed the values of all parts, what was won in the first parts
    would depend on results of later ones, and so would the size of the next bet.
    """
    return np.linspace(low, high, GRID)


def neighbours(values: Floats, points: Floats) -> tuple[Index, Floats]:
    """The point at or below each value, and the value's share of the next one, so that its mean stays.

    The bets multiply 1 + slope (x - middle), whose logarithm is concave in x: sharing can only lower what a bet wins,
    so the guarantee stands.
    """
    step = (points[-1] - points[0]) / (len(points) - 1)
    steps = (values - points[0]) / (step or 1.0)
    whole = np.rint(steps)
    steps = np.where(np.abs(steps - whole) < 1e-9, whole, steps)  # on a point, but for the last digits
    left = np.clip(np.floor(steps), 0, len(points) - 2).astype(np.int64)
    return left, np.clip(steps - left, 0.0, 1.0)


def drop_unused(points: Floats, counts: Floats) -> ValueTable:
    """The table without points that no result is near. (..., V)"""
    there = counts.reshape(-1, counts.shape[-1]).any(axis=0)
    return ValueTable(points[there], counts[..., there])


def splitmix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of SplitMix64, which spreads whole numbers over all 64 bits; the same on every machine."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
