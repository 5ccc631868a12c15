"""The rows of a file as they are kept, so that any number of random dealings into parts can be made of them later.

Each part of a batch is bet on with what the parts before it showed, so parts must be independent: that needs an order
unrelated to the values (docs/why-the-guarantee-holds.md, "Parts and dealings"), and files often come sorted. A
row therefore draws a number from the seed, the number of its file, its arm and its place among the arm's rows.

- Up to so many rows of an arm (`width_for`) are kept one by one, in the order of the numbers they drew: a random one.
- Of more, each row falls by its number into one of `width` lots, and each lot is kept as count, total and scatter. A
  row draws its lot by itself, whatever the order of rows and the way they were cut into files, and the lots of the same
  number in several files are one lot. So the lots are again random sets of the rows of the whole batch.

A random partition (`roundwise.model.random_partition`) permutes all rows (or lots) of an arm in the batch and cuts
them. File boundaries do not matter to it, so a sorted list cut into files does no harm: parts that took a share of
every file would, because they repeat each other. Rows with items are partitioned item by item, with all arms that were
tried on it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.ingest.arm_names import Index
from roundwise.model.random_partition import splitmix64
from roundwise.serialization import Hashes


class Sums:
    """Sums of lines for `size` arms. A line stands for `counts` results with their total and their own spread.

    Every addition is made in the order of the lines (`np.add.at`), so the bits do not depend on how a file is cut up.
    Spreads are taken about the first mean of each arm, so that a large common value does not eat the digits.
    """

    def __init__(self, size: int) -> None:
        self.counts, self.totals, self.within = np.zeros(size), np.zeros(size), np.zeros(size)
        self._origin = np.zeros(size)
        self._off, self._off_squared = np.zeros(size), np.zeros(size)

    def add(self, arms: Index, counts: Floats, totals: Floats, scatter: Floats | None = None) -> None:
        """Add lines; those without results say nothing."""
        some = counts > 0
        if not some.all():
            arms, counts, totals = arms[some], counts[some], totals[some]
            scatter = None if scatter is None else scatter[some]
        means = totals / counts
        new = self.counts[arms] == 0
        if new.any():  # in reverse, so that of several lines of one arm the first stays
            self._origin[arms[new][::-1]] = means[new][::-1]
        off = means - self._origin[arms]
        np.add.at(self.counts, arms, counts)
        np.add.at(self.totals, arms, totals)
        np.add.at(self._off, arms, counts * off)
        np.add.at(self._off_squared, arms, counts * off * off)
        if scatter is not None:
            np.add.at(self.within, arms, scatter)

    @property
    def scatter(self) -> Floats:
        """sum (x - mean)^2 within each arm."""
        between = self._off_squared - self._off**2 / np.maximum(self.counts, 1.0)
        return self.within + np.maximum(between, 0.0)


Keys = NDArray[np.uint64]
Chunks = Iterable[tuple[Index, Floats, Hashes | None]]  # rows: arm, value, item

MOST, FEWEST, ROOM = 4096, 64, 1 << 18  # lots of an arm: at most, at least, and of all arms together about
_NUMBERS = 1 << 32  # added to the number of a file, so that no two purposes draw the same numbers
_IN_MEMORY = 64 << 20  # bytes of rows kept in memory before they go to a temporary file


@dataclass(frozen=True, eq=False)
class Lots:
    """Rows, or lots of rows, arm after arm, in random order within each arm. All arrays have one number a lot."""

    arms: Index  # ascending
    counts: Floats  # 1 for a single row
    totals: Floats
    scatter: Floats  # sum (x - mean)^2 within the lot: 0 for a single row
    width: int  # an arm has either single rows or just so many lots, of which the n-th has number n
    items: Hashes | None = None  # only of single rows

    @property
    def of_rows(self) -> bool:
        """Whether every lot is a single row."""
        return bool((self.counts == 1).all())

    def sums(self, size: int) -> Sums:
        """Counts, totals and scatter of all lots, for so many arms."""
        found = Sums(size)
        found.add(self.arms, self.counts, self.totals, self.scatter)
        return found


def width_for(arms: int) -> int:
    """How many rows or lots of each arm are kept: a power of 2."""
    return int(np.clip(1 << (ROOM // max(arms, 1)).bit_length() - 1 if arms <= ROOM else 0, FEWEST, MOST))


def keys(seed: int, arms: Index, places: Index, file: int = 0) -> Keys:
    """The number drawn by each row: the finaliser of SplitMix64 over seed, file, arm and place; the same everywhere."""
    state = splitmix64(np.full(1, seed % 2**64, dtype=np.uint64))
    if file:
        state = splitmix64(state + np.uint64(file))
    state = splitmix64(state ^ arms.astype(np.uint64))
    return splitmix64(state + places.astype(np.uint64))


def kept(rows: Chunks, counts: Floats, seed: int, file: int, width: int | None) -> Lots:
    """The rows of a file, of which each arm has `counts`: in lots where they are more than `width` (None: never)."""
    size = len(counts)
    many = np.zeros(size, dtype=np.bool_) if width is None else counts > width
    lots = 0 if width is None else width
    compact = np.cumsum(many) - 1
    sums = Sums(int(many.sum()) * lots)
    seen = np.zeros(size, dtype=np.int64)
    single: list[tuple[Index, Keys, Floats, Hashes | None]] = []
    for arms, values, items in rows:
        drawn = keys(seed, arms, places_of(arms, seen), file)
        few = ~many[arms]
        if not few.all():
            most = ~few
            number = (drawn[most] >> np.uint64(65 - lots.bit_length())).astype(np.int64)
            sums.add(compact[arms[most]] * lots + number, np.ones(int(most.sum())), values[most])
        if few.any():
            single.append((arms[few], drawn[few], values[few], None if items is None else items[few]))
    arms = np.concatenate([each[0] for each in single]) if single else np.zeros(0, dtype=np.int64)
    drawn = np.concatenate([each[1] for each in single]) if single else np.zeros(0, dtype=np.uint64)
    values = np.concatenate([each[2] for each in single]) if single else np.zeros(0)
    of_items = [each[3] for each in single if each[3] is not None]
    order = np.lexsort((drawn, arms))
    arms, values = arms[order], values[order]
    found = (np.concatenate(of_items)[order] if of_items else None) if len(of_items) == len(single) else None
    every = np.concatenate([arms, np.repeat(np.flatnonzero(many), lots)])
    by_arm = np.argsort(every, kind="stable")
    return Lots(
        every[by_arm],
        np.concatenate([np.ones(len(arms)), sums.counts])[by_arm],
        np.concatenate([values, sums.totals])[by_arm],
        np.concatenate([np.zeros(len(arms)), sums.scatter])[by_arm],
        width or MOST,
        found,
    )


def places_of(arms: Index, seen: Index) -> Index:
    """The place of each row among those of its arm; `seen`, how many there were before, is brought up to date."""
    order = np.argsort(arms, kind="stable")
    ordered = arms[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(starts, append=len(arms))
    places = np.empty(len(arms), dtype=np.int64)
    places[order] = np.arange(len(arms)) - np.repeat(starts, sizes)
    places += seen[arms]
    seen[ordered[starts]] += sizes
    return places


def pooled(files: Sequence[Lots], size: int, seed: int) -> Lots:
    """The rows of several files as those of one; an arm that has lots in one of them has lots."""
    if len(files) == 1:
        return files[0]
    width = min(each.width for each in files)
    joined = [
        np.concatenate([getattr(each, name) for each in files]) for name in ("arms", "counts", "totals", "scatter")
    ]
    arms, counts, totals, scatter = joined
    items = [each.items for each in files if each.items is not None]
    numbers = np.concatenate([_numbers(each, size, seed, i, width) for i, each in enumerate(files, 1)])
    in_lots = np.zeros(size, dtype=np.bool_)
    for each in files:
        in_lots |= _in_lots(each, size)
    many = in_lots[arms]
    compact = np.cumsum(in_lots) - 1
    sums = Sums(int(in_lots.sum()) * width)
    sums.add(compact[arms[many]] * width + numbers[many], counts[many], totals[many], scatter[many])
    every = np.concatenate([arms[~many], np.repeat(np.flatnonzero(in_lots), width)])
    order = np.argsort(every, kind="stable")
    return Lots(
        every[order],
        np.concatenate([counts[~many], sums.counts])[order],
        np.concatenate([totals[~many], sums.totals])[order],
        np.concatenate([scatter[~many], sums.scatter])[order],
        width,
        np.concatenate(items)[order] if len(items) == len(files) and not many.any() else None,
    )


def _in_lots(lots: Lots, size: int) -> NDArray[np.bool_]:
    """Which arms have lots of several rows."""
    return np.bincount(lots.arms, lots.counts, minlength=size) > np.bincount(lots.arms, minlength=size)


def _numbers(lots: Lots, size: int, seed: int, file: int, width: int) -> Index:
    """The number of the lot of each: its place if there are lots, and drawn if there are single rows."""
    places = places_of(lots.arms, np.zeros(size, dtype=np.int64))
    drawn = (keys(seed, lots.arms, places, _NUMBERS + file) >> np.uint64(65 - width.bit_length())).astype(np.int64)
    return np.where(_in_lots(lots, size)[lots.arms], places * width // lots.width, drawn)


class Spool:
    """Rows put aside to be gone through once more: few in memory, many in a temporary file."""

    def __init__(self) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by `close`
        self._sizes: list[int] = []
        self._items = False
        self.rows = 0

    def put(self, arms: Index, values: Floats, items: Hashes | None = None) -> None:
        """Append rows, all of them with items, or none."""
        self._items = items is not None
        for each in (arms, values, items):
            if each is not None:
                self._file.write(each.tobytes())
        self._sizes.append(len(arms))
        self.rows += len(arms)

    def after(self, skipped: int = 0) -> Iterator[tuple[Index, Floats, Hashes | None]]:
        """The rows in their order, without the first of them."""
        self._file.seek(0)
        for size in self._sizes:
            arms = np.frombuffer(self._file.read(8 * size), dtype=np.int64)
            values = np.frombuffer(self._file.read(8 * size), dtype=np.float64)
            items = np.frombuffer(self._file.read(8 * size), dtype=np.uint64) if self._items else None
            if skipped < size:
                yield arms[skipped:], values[skipped:], None if items is None else items[skipped:]
            skipped = max(skipped - size, 0)

    def close(self) -> None:
        """Give memory and file back."""
        self._file.close()
