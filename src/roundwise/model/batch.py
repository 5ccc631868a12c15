"""Batches of results, the parts they are cut into, and random partitions of their rows.

Bets on a part are chosen from the parts before it (docs/why-the-guarantee-holds.md, "Parts and random partitions"). The
classes are named tuples of arrays with the arms on the last axis, so that runs can be selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats

FIRST_PARTS, PARTS = 4, 12  # parts of the first batch, and of each later one
LIVE_PARTS = 24  # parts of each later batch of a live study under Wager, which can afford the time
FIRST_PARTITIONS, PARTITIONS, FEWEST = 2048, 256, 8  # of a live study's first batch, of later ones, and the minimum
_ROOM = 1_000_000  # rows times partitions that are sorted at once; table entries built at once
_AT_ONCE = 50_000  # rows times partitions that are processed together
_COLUMNS = 64  # columns expected in a table of values
GRID = 121  # points of the value grid at equal distances, and as many in geometric steps
_NEAREST = 1e-5  # where the geometric steps begin, relative to the range
_PAIR_COLUMNS = 33  # columns expected in a table of differences
_PAIR_ROOM = 4_000_000  # numbers that the parts of all partitions may hold
_FEWEST_OF_PAIRS, _MOST_OF_PAIRS = 4, 256  # partitions, when there are pairs

Index = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Limits = tuple[float, float]
DrawPartTotals = Callable[[np.random.Generator, Floats, Floats, int], Floats | None]
_T = TypeVar("_T")


class Batch(NamedTuple):
    """The results of a batch: how often each arm was pulled, and the sum of its rewards.

    Attributes:
        counts: Results of each arm, (K).
        totals: The sum of the results of each arm, (K).
        scatter: sum (x - mean)^2 within each arm, (K), for noise models that need it.
        table: The number of times each arm had each value, for noise models that need it.
        parts: The batch cut into parts, if the order of its rows does not depend on their values.
        pairs: For arms tried on the same items, their differences as results of K^2 arms: number a K + b is the result
            of a minus the result of b, on each item that both were tried on.
        cubes: sum (x - mean)^3 within each arm, (K), for noise models that need it.
        metrics: The values of further metrics in the same rows, one batch per metric.
        rows: For a finite list, the result of each arm on the item at each place, (places, K); nan if missing.
    """

    counts: Floats
    totals: Floats
    scatter: Floats | None = None
    table: ValueTable | None = None
    parts: Parts | None = None
    pairs: Batch | None = None
    cubes: Floats | None = None
    metrics: tuple[Batch, ...] = ()
    rows: Floats | None = None


class Parts(NamedTuple):
    """A batch cut into parts, in one or several random orders of its rows ("partitions") independent of their values.

    Axes are runs, partitions, arms and parts. Counts that all partitions share are stored once.
    """

    counts: Floats  # (1 or M, K, P)
    totals: Floats  # (M, K, P)
    scatter: Floats | None = None  # (M, K, P)
    table: ValueTable | None = None  # counts (M, K, P, V)
    jump: int = 0  # boldness of the bets on it: 0 usual, -1 less, 1 more; fixed before the first batch
    pairs: Parts | None = None  # of every two arms, (M, K^2, P)
    cubes: Floats | None = None  # (M, K, P)

    @property
    def number(self) -> int:
        """P, the number of parts."""
        return int(self.totals.shape[-1])

    @property
    def partitions(self) -> int:
        """M, the number of partitions."""
        return int(self.totals.shape[-3])

    def batch(self, part: int) -> Batch:
        """One part of the first partition."""
        at, table = (..., 0, slice(None), part), self.table
        return Batch(
            self.counts[at],
            self.totals[at],
            None if self.scatter is None else self.scatter[at],
            None if table is None else ValueTable(table.values, table.counts[..., 0, :, part, :]),
            pairs=None if self.pairs is None else self.pairs.batch(part),
            cubes=None if self.cubes is None else self.cubes[at],
        )


class ValueTable(NamedTuple):
    """The number of times each arm had each value."""

    values: Floats  # (V)
    counts: Floats  # (K, V)

    def among(self, values: Floats) -> ValueTable:
        """The same table with the columns of a longer ordered list of values."""
        counts = np.zeros((*self.counts.shape[:-1], len(values)))
        places = np.broadcast_to(np.searchsorted(values, self.values)[..., None, :], self.counts.shape)
        np.put_along_axis(counts, places, self.counts, axis=-1)
        return ValueTable(np.broadcast_to(values, (*self.values.shape[:-1], len(values))), counts)


def part_edges(parts: int) -> Floats:
    """The share of an arm's rows before each part, and 1 after the last. (P + 1)

    Parts shrink towards the end of a batch, where bets must be revised most often: after a share x of the parts, a
    share h(x) = 1 - (1-x)^2 of an arm's rows has been used.
    """
    left = np.arange(parts, -1, -1) / parts
    return 1.0 - left * left


def part_shares_of_rest(parts: int) -> Floats:
    """kappa: each part as a share of the rest of its batch, itself included. (P)"""
    left = np.arange(parts, -1, -1.0) ** 2
    return 1.0 - left[1:] / left[:-1]


def split_counts(counts: Floats, parts: int) -> Floats:
    """The number of rows of each arm in each part: one partition, runs contiguous. (K)->(1, K, P)"""
    ends = counts.transpose() * part_edges(parts).reshape(-1, *(1,) * counts.ndim)
    ends += 1e-9
    np.floor(ends, out=ends)
    return np.expand_dims(np.diff(ends, axis=0).transpose(), -3)


def _if_all(values: Sequence[_T | None]) -> list[_T] | None:
    known = [each for each in values if each is not None]
    return known if len(known) == len(values) else None


def stack_parts(parts: Sequence[Batch]) -> Parts:
    """Parts in one order of the rows; scatter and tables only if every part has them."""

    def stacked(arrays: Sequence[Floats], axis: int = 0) -> Floats:
        """Stack parts on a new axis, with one partition before the arms, runs contiguous."""
        last = np.stack([each.transpose() for each in arrays], axis=axis)
        return np.expand_dims(last.transpose(), -2 - axis - 1)

    scatter, tables = _if_all([part.scatter for part in parts]), _if_all([part.table for part in parts])
    pairs, cubes = _if_all([part.pairs for part in parts]), _if_all([part.cubes for part in parts])
    return Parts(
        stacked([part.counts for part in parts]),
        stacked([part.totals for part in parts]),
        None if scatter is None else stacked(scatter),
        None if tables is None else ValueTable(tables[0].values, stacked([table.counts for table in tables], 1)),
        pairs=None if pairs is None else stack_parts(pairs),
        cubes=None if cubes is None else stacked(cubes),
    )


def join_parts(parts: Sequence[Batch]) -> Batch:
    """One batch from its parts, in their order; scatter and tables only if every part has them."""
    counts = np.asarray(sum(part.counts for part in parts))
    totals = np.asarray(sum(part.totals for part in parts))
    scatter, tables = _if_all([part.scatter for part in parts]), _if_all([part.table for part in parts])
    pairs, thirds = _if_all([part.pairs for part in parts]), _if_all([part.cubes for part in parts])
    spread, cubes, table = None, None, None
    if scatter is not None:
        means = totals / np.maximum(counts, 1.0)
        spread = np.zeros_like(totals)
        for part, within in zip(parts, scatter, strict=True):
            own = part.totals / np.maximum(part.counts, 1.0)
            spread = spread + within + part.counts * (own - means) ** 2
        if thirds is not None:
            cubes = np.zeros_like(totals)
            for part, within, third in zip(parts, scatter, thirds, strict=True):
                off = part.totals / np.maximum(part.counts, 1.0) - means
                cubes = cubes + third + 3 * off * within + part.counts * off**3
    if tables is not None:
        if any(not np.array_equal(each.values, tables[0].values) for each in tables):
            every = np.unique(np.concatenate([each.values.ravel() for each in tables]))
            return join_parts([part._replace(table=own.among(every)) for part, own in zip(parts, tables, strict=True)])
        table = ValueTable(tables[0].values, np.asarray(sum(each.counts for each in tables)))
    both = None if pairs is None else join_parts(pairs)._replace(parts=None)
    return Batch(counts, totals, spread, table, stack_parts(parts), both, cubes)


# --- random partitions of the rows of a live study


class PartitionRows(NamedTuple):
    """Rows, or strata of rows, sorted by arm."""

    arms: Index  # ascending
    counts: Floats  # 1 for a single row
    totals: Floats
    scatter: Floats  # sum (x - mean)^2 within the stratum: 0 for a single row
    items: Hashes | None = None  # rows of one item stay together, for all arms tried on it


def partition_rows(
    rows: PartitionRows,
    arms: int,
    seed: int,
    batch: int,
    parts: int,
    limits: Limits | None = None,
    most: int = FIRST_PARTITIONS,
    cubes: bool = False,
) -> Parts:
    """Rows in random parts: the order is drawn from the seed, the batch number and the partition number.

    The rows of each arm are permuted and cut at `part_edges`. With `limits`, between which all values lie, each part
    has a table of values. `cubes` requires single rows.
    """
    size = max(len(rows.arms), arms * parts * (1 if limits is None else _COLUMNS))
    states = _partition_seeds(seed, batch, min(_max_partitions(batch, size), most))
    if rows.items is None:
        labels = _label_rows(rows, arms, states, parts)
    else:
        items, which = np.unique(rows.items, return_inverse=True)
        labels = _label_items(items, states, parts)[:, which]
    place = rows.arms * parts + labels
    mean = np.bincount(rows.arms, rows.totals, arms) / np.maximum(np.bincount(rows.arms, rows.counts, arms), 1.0)
    off = rows.totals - rows.counts * mean[rows.arms]

    def summed(values: Floats) -> Floats:
        """(M, K, P)"""
        found = np.empty((len(place), arms * parts))
        for here in _partition_chunks(len(place), len(values)):
            labels = place[here] + (np.arange(len(place[here])) * (arms * parts))[:, None]
            weights = np.broadcast_to(values, labels.shape).reshape(-1)
            found[here] = np.bincount(labels.reshape(-1), weights, found[here].size).reshape(len(labels), -1)
        return found.reshape(-1, arms, parts)

    counts, moved = summed(rows.counts), summed(off)
    squares = summed(rows.scatter + off * off / np.maximum(rows.counts, 1e-300))
    scatter = np.maximum(squares - moved * moved / np.maximum(counts, 1.0), 0.0)
    totals = moved + counts * mean[:, None]
    if limits is None:
        shift = moved / np.maximum(counts, 1.0)
        thirds = summed(off**3) - 3 * shift * squares + 2 * shift**2 * moved if cubes else None
        return Parts(counts, totals, scatter, cubes=thirds)
    points = value_grid(*limits)
    left, share = neighbours(rows.totals / rows.counts, points)
    table = np.empty((len(place), arms * parts * len(points)))
    for m, each in enumerate(place):
        here = each * len(points) + left
        table[m] = np.bincount(here, rows.counts * (1.0 - share), table.shape[1])
        table[m] += np.bincount(here + 1, rows.counts * share, table.shape[1])
    return Parts(counts, totals, scatter, _drop_unused(points, table.reshape(len(place), arms, parts, len(points))))


def partition_sums(
    draw_part_totals: DrawPartTotals, counts: Floats, totals: Floats, seed: int, batch: int, parts: int
) -> Parts | None:
    """Random partitions of sums, with totals drawn by `Noise.draw_part_totals`; None if it cannot draw them."""
    rng = np.random.Generator(np.random.PCG64([seed, batch]))
    cuts = split_counts(counts, parts)
    several = _max_partitions(batch, len(counts) * parts * 2)
    found = draw_part_totals(rng, cuts.transpose(), totals[:, None], several)
    return None if found is None else Parts(cuts, found.transpose())


def _max_partitions(batch: int, size: int) -> int:
    """The number of partitions of a batch to draw, given the size of one; fewer for very large batches.

    The order matters most in the first batch, whose own parts show leader and drift: with 256 partitions of 1200
    results an arm, the evidence of one file was 17 to 21 : 1 over 40 seeds, around a threshold of 20.
    """
    most = FIRST_PARTITIONS if batch == 1 else PARTITIONS
    return int(np.clip(_ROOM // max(size, 1), FEWEST, most))


def _partition_seeds(seed: int, batch: int, several: int) -> Hashes:
    start = splitmix64(splitmix64(np.full(1, seed % 2**64, dtype=np.uint64)) + np.uint64(batch))
    return splitmix64(start + np.arange(several).astype(np.uint64))


def _label_items(items: Hashes, states: Hashes, parts: int) -> Index:
    """The part of each item in each partition: items in a random order, cut at the edges. (M, items)"""
    part = _part_of(np.arange(len(items)), np.full(len(items), len(items)), parts)
    found = np.empty((len(states), len(items)), dtype=np.int64)
    for m, state in enumerate(states):
        found[m, np.argsort(splitmix64(items ^ state), kind="stable")] = part
    return found


def _label_rows(rows: PartitionRows, arms: int, states: Hashes, parts: int) -> Index:
    """The part of each row in each partition: the rows of each arm in a random order, cut at the edges. (M, rows)"""
    sizes = np.bincount(rows.arms, minlength=arms)
    starts = (np.cumsum(sizes) - sizes)[rows.arms]
    places = np.arange(len(rows.arms)) - starts
    part = _part_of(places, sizes[rows.arms], parts)
    bits, above = int(sizes.max(initial=1)).bit_length(), arms.bit_length()
    # arm, random bits and place in one number: sorting these puts the rows of each arm in random order
    arm, place = rows.arms.astype(np.uint64), places.astype(np.uint64)
    first, low = arm << np.uint64(64 - above), np.uint64((1 << bits) - 1)
    found = np.empty((len(states), len(rows.arms)), dtype=np.int64)
    for here in _partition_chunks(len(states), len(rows.arms)):
        own = splitmix64(states[here, None] ^ np.arange(arms, dtype=np.uint64)).take(rows.arms, axis=1)
        number = first | (splitmix64(own + place) >> np.uint64(above) & ~low) | place
        number.sort(axis=1)
        at = (number & low).astype(np.int64) + starts
        np.put_along_axis(found[here], at, np.broadcast_to(part, at.shape), axis=1)
    return found


def _partition_chunks(partitions: int, rows: int) -> Iterator[slice]:
    """Slices of partitions that are processed together, small enough for the cache."""
    step = max(1, _AT_ONCE // max(rows, 1))
    return (slice(start, min(start + step, partitions)) for start in range(0, partitions, step))


def _part_of(ranks: Index, sizes: Index, parts: int) -> Index:
    """The part of the row with each rank, for an arm with this many rows."""
    label = np.zeros(len(ranks), dtype=np.int64)
    for edge in part_edges(parts)[1:-1]:
        label += ranks >= np.floor(sizes * edge + 1e-9)
    return label


def value_grid(low: float, high: float) -> Floats:
    """The grid on which values are rounded, keeping means: it includes halves, thirds, quarters, fifths, ... of the
    range.

    It also has points in geometric steps above the low end: in a wide range most results lie near it, and a coarse grid
    would inflate their variance.

    The grid is fixed before there are results. If it followed the values of all parts, the wealth after the first parts
    would depend on later results, and so would the next stake.
    """
    near = low + (high - low) * np.geomspace(_NEAREST, 1.0, GRID)
    return np.unique(np.concatenate([np.linspace(low, high, GRID), near[:-1]]))


def neighbours(values: Floats, points: Floats) -> tuple[Index, Floats]:
    """The grid point at or below each value, and the weight of the next one, such that the mean is kept.

    A bet multiplies factors 1 + slope (x - middle), whose logarithm is concave in x: splitting a value between two
    points can only lower the wealth, so the guarantee stands.
    """
    left = np.clip(np.searchsorted(points, values, side="right") - 1, 0, len(points) - 2)
    gap = points[left + 1] - points[left]
    share = np.clip((values - points[left]) / np.where(gap > 0, gap, 1.0), 0.0, 1.0)
    nearest = np.rint(share)
    return left, np.where(np.abs(share - nearest) < 1e-9, nearest, share)  # on a point up to rounding


def _drop_unused(points: Floats, counts: Floats) -> ValueTable:
    """The table without the points that have no results. (..., V)"""
    there = counts.reshape(-1, counts.shape[-1]).any(axis=0)
    return ValueTable(points[there], counts[..., there])


def splitmix64(state: Hashes) -> Hashes:
    """One step of SplitMix64, which spreads integers over all 64 bits; the same on every machine."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


# --- arms tried on the same items, two by two: sums of their differences over common items (`Batch.pairs`)


def sum_pairs(rows: PartitionRows, arms: int, limits: Limits | None = None) -> Batch:
    """The differences of all pairs in a batch; with `limits` of the values, also tables of them."""
    items = 0 if rows.items is None else len(np.unique(rows.items))
    label = np.zeros((1, items), dtype=np.int64)
    return _sum_pairs(rows, arms, label, 1, limits).batch(0)


def partition_pairs(
    rows: PartitionRows, arms: int, seed: int, batch: int, parts: int, several: int, limits: Limits | None
) -> Parts:
    """As `sum_pairs`, in parts, by the partitions of `partition_rows`."""
    assert rows.items is not None
    labels = _label_items(np.unique(rows.items), _partition_seeds(seed, batch, several), parts)
    return _sum_pairs(rows, arms, labels, parts, limits)


def max_pair_partitions(arms: int, parts: int, tables: bool) -> int:
    """The number of partitions that the memory allows."""
    size = arms * arms * parts * (3 + (_PAIR_COLUMNS if tables else 0))
    return int(np.clip(_PAIR_ROOM // size, _FEWEST_OF_PAIRS, _MOST_OF_PAIRS))


def pair_sums(values: Floats, used: Floats) -> tuple[Floats, Floats, Floats]:
    """The number of common items of each pair, the sum of the differences on them, and its scatter. (K^2) each

    `values` has the result of each arm on each item, `used` is 1 where it was tried. (I, K) each
    """
    seen = values * used
    both, cross, squares = used.T @ used, seen.T @ used, (seen * seen).T @ used
    apart = cross - cross.T
    scatter = squares + squares.T - 2.0 * (seen.T @ seen) - apart**2 / np.maximum(both, 1.0)
    return both.reshape(-1), apart.reshape(-1), np.maximum(scatter, 0.0).reshape(-1)


def _sum_pairs(rows: PartitionRows, arms: int, labels: Index, parts: int, limits: Limits | None) -> Parts:
    """The differences of all pairs in each part; `labels` has the part of each item. (M, items)

    An item on which an arm was tried twice counts for no pair.
    """
    assert rows.items is not None
    items, which = np.unique(rows.items, return_inverse=True)
    values, times = np.zeros((len(items), arms)), np.zeros((len(items), arms))
    np.add.at(times, (which, rows.arms), 1.0)
    values[which, rows.arms] = rows.totals
    used = times * np.asarray((times <= 1).all(axis=1, keepdims=True))
    if np.any(values != np.floor(values)):  # sums of squares of integers are exact; other values are first centered
        values = values - values[times > 0].mean()
    values = values * used
    counts, totals, scatter = (np.zeros((len(labels), arms * arms, parts)) for _ in range(3))
    for m, label in enumerate(labels):
        order = np.argsort(label, kind="stable")
        ends = np.searchsorted(label[order], np.arange(parts + 1))
        for p in range(parts):
            here = order[ends[p] : ends[p + 1]]
            counts[m, :, p], totals[m, :, p], scatter[m, :, p] = pair_sums(values[here], used[here])
    if limits is None:
        return Parts(counts, totals, scatter)
    points = np.linspace(limits[0] - limits[1], limits[1] - limits[0], GRID)
    tables = np.stack([_count_differences(values, used, label, parts, points) for label in labels])
    return Parts(counts, totals, scatter, _drop_unused(points, tables))


def _count_differences(values: Floats, used: Floats, label: Index, parts: int, points: Floats) -> Floats:
    """A table of differences for each pair and part, split between grid points as values are. (K^2, P, V)"""
    arms, size = values.shape[1], len(points)
    counts = np.zeros((arms, arms * parts * size))
    for a in range(arms):
        left, share = neighbours(values[:, [a]] - values, points)
        weight = used[:, [a]] * used
        place = (np.arange(arms) * parts + label[:, None]) * size + left
        for at, part in ((place, 1.0 - share), (place + 1, share)):
            counts[a] += np.bincount(at.reshape(-1), (weight * part).reshape(-1), counts.shape[1])
    return counts.reshape(arms * arms, parts, size)
