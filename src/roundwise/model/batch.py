"""Batches of results, the parts they are cut into, and random partitions of their rows.

A part is bet on with the parts before it as its past (docs/why-the-guarantee-holds.md, "Parts and random partitions").
All are named tuples of arrays with the arms on the last axis, so that runs can be taken from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats

FIRST_PARTS, PARTS = 4, 12  # of the first batch, and of every later one
LIVE_PARTS = 24  # of the later ones of a live study under Wager: it can take the time
FIRST_PARTITIONS, PARTITIONS, FEWEST = 2048, 256, 8  # of a live study's first batch, of a later one, and at the least
_ROOM = 1_000_000  # rows times partitions that are sorted at once, and entries of tables that are made
_AT_ONCE = 50_000  # rows times partitions that are worked on together
_COLUMNS = 64  # expected of a table of values
GRID = 121  # points of a range between which values are shared, equally far apart, and as many in geometric steps
_NEAREST = 1e-5  # of the range: where these begin
_PAIR_COLUMNS = 33  # expected of a table of differences
_PAIR_ROOM = 4_000_000  # numbers that the parts of all partitions may have
_FEWEST_OF_PAIRS, _MOST_OF_PAIRS = 4, 256  # partitions

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
        table: How often each arm had each value, for noise models that need it.
        parts: The batch cut into parts, where the rows came in an order that does not depend on their values.
        pairs: Where arms were tried on the same items, the differences of every two of them as results of K^2 arms:
            number a K + b is the result of a minus that of b, on each item that both were tried on.
        cubes: sum (x - mean)^3 within each arm, (K), for noise models that need it.
        metrics: The same rows by further metrics, one batch each.
        rows: For a finite list, the result of every arm on the item at each place, (places, K); nan where there is
            none.
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

    Runs come first, then partitions, arms and parts. All partitions may share their counts: then there is one of these.
    """

    counts: Floats  # (1 or M, K, P)
    totals: Floats  # (M, K, P)
    scatter: Floats | None = None  # (M, K, P)
    table: ValueTable | None = None  # counts (M, K, P, V)
    jump: int = 0  # how bold the bets on it are: 0 as usual, -1 less, 1 more; fixed before the first batch
    pairs: Parts | None = None  # of every two arms, (M, K^2, P)
    cubes: Floats | None = None  # (M, K, P)

    @property
    def number(self) -> int:
        """P, how many parts there are."""
        return int(self.totals.shape[-1])

    @property
    def partitions(self) -> int:
        """M, how many partitions there are."""
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
    """How often each arm had each value."""

    values: Floats  # (V)
    counts: Floats  # (K, V)

    def among(self, values: Floats) -> ValueTable:
        """The same table over a longer ordered list of values."""
        counts = np.zeros((*self.counts.shape[:-1], len(values)))
        places = np.broadcast_to(np.searchsorted(values, self.values)[..., None, :], self.counts.shape)
        np.put_along_axis(counts, places, self.counts, axis=-1)
        return ValueTable(np.broadcast_to(values, (*self.values.shape[:-1], len(values))), counts)


def part_edges(parts: int) -> Floats:
    """The share of an arm's rows before each part, and 1 after the last. (P + 1)

    Parts shrink towards the end of a batch, where a bet must be re-planned most often: after a share x of the parts a
    share h(x) = 1 - (1-x)^2 of an arm's rows has come.
    """
    left = np.arange(parts, -1, -1) / parts
    return 1.0 - left * left


def part_shares_of_rest(parts: int) -> Floats:
    """kappa: the share of each part in the rest of its batch, itself included. (P)"""
    left = np.arange(parts, -1, -1.0) ** 2
    return 1.0 - left[1:] / left[:-1]


def split_counts(counts: Floats, parts: int) -> Floats:
    """How many rows of each arm are in each part: one partition, runs contiguous. (K)->(1, K, P)"""
    ends = counts.transpose() * part_edges(parts).reshape(-1, *(1,) * counts.ndim)
    ends += 1e-9
    np.floor(ends, out=ends)
    return np.expand_dims(np.diff(ends, axis=0).transpose(), -3)


def _if_all(values: Sequence[_T | None]) -> list[_T] | None:
    known = [each for each in values if each is not None]
    return known if len(known) == len(values) else None


def stack_parts(parts: Sequence[Batch]) -> Parts:
    """Parts in one order of the rows; scatter and tables only where every part has them."""

    def stacked(arrays: Sequence[Floats], axis: int = 0) -> Floats:
        """Parts on a new axis, one partition before the arms, runs contiguous."""
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
    """One batch from its parts, in their order; scatter and tables only where every part has them."""
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
    """Rows, or strata of rows, of all arms, arm after arm."""

    arms: Index  # ascending
    counts: Floats  # 1 for a single row
    totals: Floats
    scatter: Floats  # sum (x - mean)^2 within the stratum: 0 for a single row
    items: Hashes | None = None  # rows of one item stay together, with all arms that were tried on it


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
    """Rows in random parts: the order is drawn from the seed, the number of the batch and that of the partition.

    The rows of each arm are permuted and cut at `part_edges`. With `limits`, between which all values lie, a table of
    values is made for each part. `cubes` are of single rows.
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
    """Partition sums at random, as `Noise.draw_part_totals` draws the totals of parts; None if it cannot."""
    rng = np.random.Generator(np.random.PCG64([seed, batch]))
    cuts = split_counts(counts, parts)
    several = _max_partitions(batch, len(counts) * parts * 2)
    found = draw_part_totals(rng, cuts.transpose(), totals[:, None], several)
    return None if found is None else Parts(cuts, found.transpose())


def _max_partitions(batch: int, size: int) -> int:
    """How many partitions of a batch are drawn, given how many numbers one takes: fewer where there are very many.

    Most depends on the order of the first one, in which leader and drift are learned from its own parts: with 256
    partitions of 1200 results an arm the evidence of one file was 17 to 21 : 1 under 40 seeds, around a bar of 20.
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
    # arm, random bits, place in one number: sorting it puts the rows of each arm in a random order
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
    """Partitions that are worked on together: what fits the cache."""
    step = max(1, _AT_ONCE // max(rows, 1))
    return (slice(start, min(start + step, partitions)) for start in range(0, partitions, step))


def _part_of(ranks: Index, sizes: Index, parts: int) -> Index:
    """The part that the row of each rank falls in, where an arm has this many rows."""
    label = np.zeros(len(ranks), dtype=np.int64)
    for edge in part_edges(parts)[1:-1]:
        label += ranks >= np.floor(sizes * edge + 1e-9)
    return label


def value_grid(low: float, high: float) -> Floats:
    """Points between which values are shared: halves, thirds, quarters, fifths, ... of the range are among them.

    So are points in geometric steps above the low end: of a wide range most results lie near it, and points far apart
    would make them vary more than they do.

    They are fixed before there are results. If they followed the values of all parts, what was won in the first parts
    would depend on results of later ones, and so would the size of the next bet.
    """
    near = low + (high - low) * np.geomspace(_NEAREST, 1.0, GRID)
    return np.unique(np.concatenate([np.linspace(low, high, GRID), near[:-1]]))


def neighbours(values: Floats, points: Floats) -> tuple[Index, Floats]:
    """The point at or below each value, and the value's share of the next one, so that its mean stays.

    The bets multiply 1 + slope (x - middle), whose logarithm is concave in x: sharing can only lower what a bet wins,
    so the guarantee stands.
    """
    left = np.clip(np.searchsorted(points, values, side="right") - 1, 0, len(points) - 2)
    gap = points[left + 1] - points[left]
    share = np.clip((values - points[left]) / np.where(gap > 0, gap, 1.0), 0.0, 1.0)
    nearest = np.rint(share)
    return left, np.where(np.abs(share - nearest) < 1e-9, nearest, share)  # on a point, but for the last digits


def _drop_unused(points: Floats, counts: Floats) -> ValueTable:
    """The table without points that no result is near. (..., V)"""
    there = counts.reshape(-1, counts.shape[-1]).any(axis=0)
    return ValueTable(points[there], counts[..., there])


def splitmix64(state: Hashes) -> Hashes:
    """One step of SplitMix64, which spreads whole numbers over all 64 bits; the same on every machine."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


# --- arms tried on the same items, two by two: sums of their differences on the items of both (`Batch.pairs`)


def sum_pairs(rows: PartitionRows, arms: int, limits: Limits | None = None) -> Batch:
    """The differences of all pairs in a batch; with `limits` of the values also how often each was what."""
    items = 0 if rows.items is None else len(np.unique(rows.items))
    label = np.zeros((1, items), dtype=np.int64)
    return _sum_pairs(rows, arms, label, 1, limits).batch(0)


def partition_pairs(
    rows: PartitionRows, arms: int, seed: int, batch: int, parts: int, several: int, limits: Limits | None
) -> Parts:
    """The same in parts, by the partitions of `partition_rows`."""
    assert rows.items is not None
    labels = _label_items(np.unique(rows.items), _partition_seeds(seed, batch, several), parts)
    return _sum_pairs(rows, arms, labels, parts, limits)


def max_pair_partitions(arms: int, parts: int, tables: bool) -> int:
    """How many partitions there is room for."""
    size = arms * arms * parts * (3 + (_PAIR_COLUMNS if tables else 0))
    return int(np.clip(_PAIR_ROOM // size, _FEWEST_OF_PAIRS, _MOST_OF_PAIRS))


def pair_sums(values: Floats, used: Floats) -> tuple[Floats, Floats, Floats]:
    """How many items both arms of a pair were tried on, the sum of their differences, and its scatter. (K^2) each

    `values` has what every arm had on every item, `used` 1 where it was tried on it. (I, K) each
    """
    seen = values * used
    both, cross, squares = used.T @ used, seen.T @ used, (seen * seen).T @ used
    apart = cross - cross.T
    scatter = squares + squares.T - 2.0 * (seen.T @ seen) - apart**2 / np.maximum(both, 1.0)
    return both.reshape(-1), apart.reshape(-1), np.maximum(scatter, 0.0).reshape(-1)


def _sum_pairs(rows: PartitionRows, arms: int, labels: Index, parts: int, limits: Limits | None) -> Parts:
    """The differences of all pairs in each part, which `labels` has for each item. (M, items)

    An item on which an arm was tried twice counts for no pair.
    """
    assert rows.items is not None
    items, which = np.unique(rows.items, return_inverse=True)
    values, times = np.zeros((len(items), arms)), np.zeros((len(items), arms))
    np.add.at(times, (which, rows.arms), 1.0)
    values[which, rows.arms] = rows.totals
    used = times * np.asarray((times <= 1).all(axis=1, keepdims=True))
    if np.any(values != np.floor(values)):  # sums of squares of whole numbers are exact, others are near their middle
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
    """How often each pair had each difference in each part, shared between points as values are. (K^2, P, V)"""
    arms, size = values.shape[1], len(points)
    counts = np.zeros((arms, arms * parts * size))
    for a in range(arms):
        left, share = neighbours(values[:, [a]] - values, points)
        weight = used[:, [a]] * used
        place = (np.arange(arms) * parts + label[:, None]) * size + left
        for at, part in ((place, 1.0 - share), (place + 1, share)):
            counts[a] += np.bincount(at.reshape(-1), (weight * part).reshape(-1), counts.shape[1])
    return counts.reshape(arms * arms, parts, size)
