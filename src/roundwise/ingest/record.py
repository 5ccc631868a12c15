"""The results of a file as a study records them, and the files of a round as one batch in random parts.

Each part of a batch is bet on with the parts before it as its past, so parts must be independent: that needs an order
unrelated to the values (docs/why-the-guarantee-holds.md, "Parts and random partitions"), and files are often sorted. A
row therefore draws a number from the seed, the number of its file, its arm and its place among the arm's rows.

- Up to `width_for` rows of an arm are kept one by one, in the order of the numbers they drew: a random one.
- Of more, each row falls by its number into one of `width` strata, and each stratum is kept as count, total and
  scatter. A row draws its stratum by itself, whatever the order of rows and the way they were cut into files, and
  strata of the same number in several files are one stratum. So they are again random sets of the rows of the batch.

A random partition (`roundwise.model.batch`) permutes all rows (or strata) of an arm in the batch and cuts them. File
boundaries do not matter to it, so a sorted list cut into files does no harm. Rows with items are partitioned item by
item, with all arms that were tried on it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cached_property, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import (
    Bools,
    Floats,
    Hashes,
    Plain,
    Unreadable,
    pack,
    pack_hashes,
    pack_numbers,
    unpack,
    unpack_hashes,
    unpack_numbers,
)
from roundwise.errors import DataError, InputError
from roundwise.formats.sheet import hashes, no_value, whole
from roundwise.ingest.columns import Index
from roundwise.ingest.covariates import CovariateSums
from roundwise.ingest.ratios import Linearization, RatioSums
from roundwise.ingest.row_checks import Moments, RowStatistics
from roundwise.messages import FileNote, shown
from roundwise.model.batch import (
    Batch,
    PartitionRows,
    Parts,
    ValueTable,
    join_parts,
    max_pair_partitions,
    partition_pairs,
    partition_rows,
    partition_sums,
    splitmix64,
    sum_pairs,
)
from roundwise.noise import Binary, Gaussian, Poisson

# --- columns that may identify what a row is about

WATCHED = 8  # columns that are looked at
ROWS = 1_000_000  # of a file that are looked at
_UNNAMED_ROWS = 20_000  # the same where the title says nothing
_UNNAMED = 2  # of those columns, sketches that are kept of a file
_LONGEST = 200  # letters of a title
_KEPT = 256  # hashes of a sketch
_FEWEST_VALUES = 10  # values below which a column may be a category
_PER_VALUE = 20  # rows of a value in a file, on average, above which a column may be a category
_BY_CHANCE = 15.0  # values that chance alone would put into several arms, from which hardly any is a finding
_SEVERAL: np.uint64 = np.uint64(0)  # the mark of a value that stands in several arms

_ID = re.compile(r"ids?|uuid|guid|no|nr|num|number|hash|ref|reference|key")
_PEOPLE = re.compile(
    r"(user|patient|subject|participant|person|respondent|customer|visitor|member|player|student|employee|volunteer"
    r"|donor|subscriber|shopper|buyer|household|animal|mouse|rat|email|cookie)s?"
)
_THINGS = re.compile(
    r"(item|question|prompt|task|quer(y|ie)|example|problem|case|image|document|plate|session|subject|client|account"
    r"|id)s?"
)
_CATEGORIES = re.compile(
    r"arm|variant|variation|treatment|experiment|test|version|build|release|commit|country|region|state|county|city"
    r"|location|market|zip|postcode|postal|area|language|locale|currency|day|date|week|weekday|month|quarter|year|hour"
    r"|time|period|season|batch|round|run|wave|phase|fold|epoch|block|category|class|type|kind|group|segment|cohort"
    r"|campaign|channel|source|medium|browser|os|platform|model|brand|plan|tier|level|page|site|step|status|code"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_JOINED = re.compile(rf"({_PEOPLE.pattern}|{_THINGS.pattern}|{_CATEGORIES.pattern})(ids?|uuid|guid|name)")
_NUMBERED = re.compile(r"(row|line|result)?[^a-z]*ids?", re.IGNORECASE)


def unit_kind(title: str) -> Literal["person", "people", "thing"] | None:
    """What a column of this title may identify: a "person" for sure, "people" or a "thing" if its values look like it.

    >>> [unit_kind(each) for each in ("user_id", "PatientID", "userid", "patient", "question_id", "order_id")]
    ['person', 'person', 'person', 'people', 'thing', 'thing']
    >>> {unit_kind(each) for each in ("country", "country_id", "day", "device", "user_agent", "user_age", "paid")}
    {None}
    """
    words = [each.lower() for each in _WORD.findall(title)] if len(title) <= _LONGEST else []
    if not words:
        return None
    last, stem = words[-1], words[-2] if len(words) > 1 else ""
    if (joined := _JOINED.fullmatch(last)) is not None:
        stem, last = joined[1], joined.groups()[-1]
    person, thing = _PEOPLE.fullmatch(stem) is not None, _THINGS.fullmatch(stem) is not None
    named = _ID.fullmatch(last) is not None or (person and last == "name")
    if named and _CATEGORIES.fullmatch(stem):
        return None
    if (named and person) or last in ("uuid", "guid"):
        return "person"
    if _THINGS.fullmatch(last) or (named and thing):
        return "thing"
    return "people" if _PEOPLE.fullmatch(last) else None


def is_category(title: str) -> bool:
    """Whether the title says that values of this column belong to many units, or are times or measurements."""
    words = [each.lower() for each in _WORD.findall(title[:_LONGEST])]
    return not words or any(_CATEGORIES.fullmatch(each) for each in (words[-1], *words[-2:-1]))


class Repeats(NamedTuple):
    """How the values of a column of identifiers repeat."""

    title: str
    values: int
    repeated: int  # those with several rows
    several: int  # those in several arms
    exact: bool


class ValueSketch(NamedTuple):
    """Some values of a column, as hashes in ascending order, and what is known of each; merged, of several files."""

    values: Hashes
    counts: Index  # rows of each
    arms: Hashes  # a hash of the arm of each; 0 where there are several
    repeated: int  # values with several rows in one of the files, all of them
    several: int  # values in several arms in one of the files, all of them
    per_value: float  # rows of a value on average, in the file that has the fewest

    @classmethod
    def of(cls, values: Hashes, arms: Hashes) -> ValueSketch:
        """The sketch of a column: the hash of its value in each row, and of the arm."""
        found, which, counts = np.unique(values, return_inverse=True, return_counts=True)
        marks = _common_marks(which, (arms >> np.uint64(32)) | np.uint64(1), len(found))
        repeated, several = int((counts > 1).sum()), int((marks == _SEVERAL).sum())
        per_value = len(values) / max(len(found), 1)
        return cls(found[:_KEPT], counts[:_KEPT], marks[:_KEPT], repeated, several, per_value)

    def merged(self, other: ValueSketch) -> ValueSketch:
        """The sketch of both columns, one below the other."""
        full = [each.values[-1] for each in (self, other) if len(each.values) >= _KEPT]
        top = min(full, default=np.iinfo(np.uint64).max)
        values, which = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
        counts = np.bincount(which, np.concatenate([self.counts, other.counts])).astype(np.int64)
        marks = _common_marks(which, np.concatenate([self.arms, other.arms]), len(values))
        size = min(int(np.searchsorted(values, top, side="right")), _KEPT)
        repeated, several = max(self.repeated, other.repeated), max(self.several, other.several)
        per_value = min(self.per_value, other.per_value)
        return ValueSketch(values[:size], counts[:size], marks[:size], repeated, several, per_value)

    def repeats(self, title: str) -> Repeats | None:
        """How values of the column repeat, if it is one of identifiers, and they do.

        >>> users = np.repeat(np.arange(1, 61, dtype=np.uint64) * np.uint64(2**57), 10)
        >>> arms = np.tile(np.array([2**40, 2**41], dtype=np.uint64), 300)
        >>> ValueSketch.of(users, arms).repeats("user"), ValueSketch.of(users, users).repeats("country")
        (Repeats(title='user', values=60, repeated=60, several=60, exact=True), None)
        """
        kind, size = unit_kind(title), len(self.values)
        kind = "thing" if kind is None and not is_category(title) and self._stays_in_arms() else kind
        few = size < _FEWEST_VALUES and (kind != "people" or self._crosses_by_chance())
        category = kind != "person" and (few or (kind == "thing" and self.per_value > _PER_VALUE))
        repeated, several = int((self.counts > 1).sum()), int((self.arms == _SEVERAL).sum())
        if kind is None or category or size < 2 or not max(repeated, self.repeated):
            return None
        exact = size < _KEPT
        values = size if exact else round((size - 1) * (2.0**64 / float(self.values[-1])))
        repeated, several = (round(each * (values / size)) for each in (repeated, several))
        return Repeats(title, values, max(repeated, self.repeated), max(several, self.several), exact)

    def _stays_in_arms(self) -> bool:
        """Whether values repeat, but hardly any in several arms, as those of users who are assigned to one do."""
        chances = self._crossing_chances()
        return float(chances.sum()) >= _BY_CHANCE and 10 * (self.arms == _SEVERAL).sum() <= chances.sum()

    def _crosses_by_chance(self) -> bool:
        """Whether about as many values are in several arms as if rows had been assigned to arms at random.

        Or there is one value for each arm: the column describes the arms.
        """
        chances = self._crossing_chances()
        if len(self.values) <= len(np.unique(self.arms)):
            return True
        spread = float(np.sqrt((chances * (1.0 - chances)).sum()))
        return bool((self.arms == _SEVERAL).sum() >= chances.sum() - 1.0 - 4.0 * spread)

    def _crossing_chances(self) -> Floats:
        """By chance a value of c rows is in several arms with probability 1 - sum (share of an arm)^c."""
        alone = self.arms != _SEVERAL
        if not alone.any():
            return np.zeros(len(self.counts))
        shares = np.bincount(np.unique(self.arms[alone], return_inverse=True)[1], self.counts[alone])
        return np.asarray(1.0 - ((shares / shares.sum()) ** self.counts[:, None]).sum(axis=1))

    def payload(self) -> Plain:
        """The sketch as JSON."""
        return {
            "values": pack_hashes(self.values),
            "rows": pack_numbers(self.counts.astype(np.float64)),
            "arms": pack_numbers(self.arms.astype(np.float64)),
            "repeated": self.repeated,
            "in_several_arms": self.several,
            "rows_per_value": self.per_value,
        }

    @classmethod
    def from_payload(cls, payload: Plain) -> ValueSketch:
        """The sketch that `payload` was made of; a ValueError where it contradicts itself."""
        values = unpack_hashes(payload["values"])
        counts, arms = unpack_numbers(payload["rows"]), unpack_numbers(payload["arms"])
        repeated, several, per_value = (payload[name] for name in ("repeated", "in_several_arms", "rows_per_value"))
        if len({len(values), len(counts), len(arms)}) > 1 or len(values) > _KEPT:
            raise ValueError("values, rows and arms of different numbers")
        numbers = counts.astype(np.int64), arms.astype(np.uint64)
        return cls(values, *numbers, int(repeated), int(several), float(per_value))


def _common_marks(which: Index, marks: Hashes, size: int) -> Hashes:
    """Of each value the mark of all its rows; `_SEVERAL` where they have different ones."""
    first, last = np.full(size, np.iinfo(np.uint64).max), np.zeros(size, dtype=np.uint64)
    np.minimum.at(first, which, marks)
    np.maximum.at(last, which, marks)
    return np.where(first == last, first, _SEVERAL)


def merge_sketches(one: Mapping[str, ValueSketch], other: Mapping[str, ValueSketch]) -> dict[str, ValueSketch]:
    """The sketches of two files, or of several, by their titles; of too many the first stay."""
    found = dict(one)
    for title, each in other.items():
        if title in found:
            found[title] = found[title].merged(each)
        elif len(found) < 2 * WATCHED:
            found[title] = each
    return found


def sketches_payload(sketches: Mapping[str, ValueSketch]) -> Plain:
    """Sketches as JSON, by title."""
    return {title: each.payload() for title, each in sketches.items()}


def sketches_from(payload: Mapping[str, Plain]) -> dict[str, ValueSketch]:
    """The sketches that were written down; a ValueError where they contradict themselves."""
    return {str(title): ValueSketch.from_payload(each) for title, each in payload.items()}


class ColumnWatch:
    """One column on its way to a sketch: the hash of its value in each row that counts, and the arm."""

    def __init__(self, title: str, seed: int, skip: int) -> None:
        self.title, self._seed, self._named = title, seed, unit_kind(title) is not None
        self._most = ROWS if self._named else _UNNAMED_ROWS
        self._chunks: list[tuple[Hashes, Index, Bools]] = []  # values, arms, whether the row counts
        self._rows = -skip  # a running total begins with rows that are recorded already

    def add(self, cells: Sequence[object], arms: Index, good: Bools) -> None:
        """Append rows, of which the `good` ones count."""
        if self._rows >= self._most:
            return
        left = self._most - min(self._rows, 0)  # of a long piece
        cells, arms, good = cells[:left], arms[:left], good[:left]
        if not self._named and any(map(_is_measured, cells)):
            self._most, self._chunks = 0, []
            return
        some = good & ~np.array([no_value(cell) for cell in cells], dtype=np.bool_)
        if self._rows < 0:
            some &= np.cumsum(good) + self._rows > 0
        self._chunks.append((hashes((whole(cell) for cell in cells), self._seed), arms, some))
        self._rows += int(good.sum())

    def sketch(self, names: Sequence[str]) -> ValueSketch | None:
        """The sketch of the column; None where it is empty, or just numbers the rows."""
        if not self._chunks:
            return None
        values, arms, good = (np.concatenate(each) for each in zip(*self._chunks, strict=True))
        if not good.any() or self._numbers_rows(values, arms):
            return None
        found = ValueSketch.of(values[good], hashes(names, self._seed)[arms[good]])
        shared = 10 * int((found.arms == _SEVERAL).sum()) > len(found.values)
        return None if not self._named and (len(found.values) < _FEWEST_VALUES or shared) else found

    def _numbers_rows(self, values: Hashes, arms: Index) -> bool:
        """Whether the column counts the rows of the file, or of each arm, from 0 or 1: another file does the same."""
        if _NUMBERED.fullmatch(self.title) is None:
            return False
        numbers = hashes(range(len(values) + 1), self._seed)
        ends = np.cumsum(np.bincount(arms))[:-1]
        by_arm = [each for each in np.split(values[np.argsort(arms, kind="stable")], ends) if len(each)]
        return any(
            all(np.array_equal(each, numbers[start : start + len(each)]) for each in rows)
            for rows in ([values], by_arm)
            for start in (0, 1)
        )


def list_sketches(watches: Iterable[ColumnWatch], names: Sequence[str]) -> dict[str, ValueSketch]:
    """The sketches of columns that may identify units; of those whose titles say nothing, the first few."""
    found, unnamed = {}, 0
    for each in watches:
        sketch = each.sketch(names)
        unnamed += sketch is not None and unit_kind(each.title) is None
        if sketch is not None and (unit_kind(each.title) is not None or unnamed <= _UNNAMED):
            found[each.title] = sketch
    return found


_MEASURED = re.compile(r"[-+]?\d*[.,]\d+(e[-+]?\d+)?|\d{4}-\d\d-\d\d.*|\d\d?:\d\d.*", re.IGNORECASE)


def _is_measured(cell: object) -> bool:
    """Whether a cell has a number with a fraction, or a time."""
    if isinstance(cell, str):
        return _MEASURED.fullmatch(cell.strip()) is not None
    return isinstance(cell, date | np.datetime64) or (isinstance(cell, float) and 0 < cell % 1 < 1)


# --- sums and rows


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

MOST, FEWEST, ROOM = 4096, 64, 1 << 18  # strata of an arm: at most, at least, and of all arms together about
_NUMBERS = 1 << 32  # added to the number of a file, so that no two purposes draw the same numbers
_IN_MEMORY = 64 << 20  # bytes of rows kept in memory before they go to a temporary file


@dataclass(frozen=True, eq=False)
class Strata:
    """Rows, or strata of rows, arm after arm, in random order within each arm. All arrays have one number a stratum."""

    arms: Index  # ascending
    counts: Floats  # 1 for a single row
    totals: Floats
    scatter: Floats  # sum (x - mean)^2 within the stratum: 0 for a single row
    width: int  # an arm has either single rows or this many strata, of which the n-th has number n
    items: Hashes | None = None  # only of single rows

    @classmethod
    def of_values(cls, arms: Index, values: Floats, width: int, items: Hashes | None = None) -> Strata:
        """Single rows."""
        return cls(arms, np.ones(len(arms)), values, np.zeros(len(arms)), width, items)

    @property
    def of_rows(self) -> bool:
        """Whether every stratum is a single row."""
        return bool((self.counts == 1).all())

    def in_strata(self, size: int) -> Bools:
        """Which arms have strata of several rows."""
        return np.bincount(self.arms, self.counts, minlength=size) > np.bincount(self.arms, minlength=size)

    def with_strata(self, many: Bools, sums: Sums) -> Strata:
        """These rows, and the strata of the arms that have `many`, arm after arm."""
        every = np.concatenate([self.arms, np.repeat(np.flatnonzero(many), self.width)])
        order = np.argsort(every, kind="stable")
        return Strata(
            every[order],
            np.concatenate([self.counts, sums.counts])[order],
            np.concatenate([self.totals, sums.totals])[order],
            np.concatenate([self.scatter, sums.scatter])[order],
            self.width,
            None if self.items is None or many.any() else self.items[order],
        )

    def payload(self, size: int) -> Plain:
        """The strata of this many arms as JSON."""
        found: Plain = {
            "max_per_arm": self.width,
            "sizes": pack_numbers(np.bincount(self.arms, minlength=size).astype(np.float64)),
            "totals": pack_numbers(self.totals),
        }
        if not self.of_rows:
            found |= {"counts": pack_numbers(self.counts), "scatter": pack_numbers(self.scatter)}
        if self.items is not None:
            items, which = np.unique(self.items, return_inverse=True)
            found |= {"items": pack_hashes(items), "item_indices": pack_numbers(which.astype(np.float64))}
        return found

    @classmethod
    def from_payload(cls, payload: Plain) -> Strata:
        """The strata that `payload` was made of; a ValueError where it contradicts itself."""
        sizes, totals = unpack_numbers(payload["sizes"]).astype(np.int64), unpack_numbers(payload["totals"])
        if (sizes < 0).any() or int(sizes.sum()) != len(totals):
            raise ValueError("another number of rows than was counted")
        found = cls.of_values(np.repeat(np.arange(len(sizes)), sizes), totals, int(payload["max_per_arm"]))
        if payload.get("counts") is not None:
            counts, scatter = unpack_numbers(payload["counts"]), unpack_numbers(payload["scatter"])
            found = replace(found, counts=counts, scatter=scatter)
        if payload.get("items") is not None:
            places = unpack_numbers(payload["item_indices"]).astype(np.int64)
            found = replace(found, items=unpack_hashes(payload["items"])[places])
        columns = [found.counts, found.scatter, *([] if found.items is None else [found.items])]
        if {len(each) for each in columns} != {len(totals)} or (found.counts < 0).any():
            raise ValueError("rows whose numbers do not match")
        if found.width < 1 or found.width & (found.width - 1):
            raise ValueError("a number of strata that is not a power of 2")
        return found


def width_for(arms: int) -> int:
    """How many rows or strata of each arm are kept: a power of 2."""
    return int(np.clip(1 << (ROOM // max(arms, 1)).bit_length() - 1 if arms <= ROOM else 0, FEWEST, MOST))


def draw_keys(seed: int, arms: Index, places: Index, file: int = 0) -> Keys:
    """The number drawn by each row: the finaliser of SplitMix64 over seed, file, arm and place; the same everywhere."""
    state = splitmix64(np.full(1, seed % 2**64, dtype=np.uint64))
    if file:
        state = splitmix64(state + np.uint64(file))
    state = splitmix64(state ^ arms.astype(np.uint64))
    return splitmix64(state + places.astype(np.uint64))


def keep_rows(rows: Chunks, counts: Floats, seed: int, file: int, width: int | None) -> Strata:
    """The rows of a file, of which each arm has `counts`: in strata where they are more than `width` (None: never)."""
    size = len(counts)
    many = np.zeros(size, dtype=np.bool_) if width is None else counts > width
    strata = width or MOST
    compact = np.cumsum(many) - 1
    sums = Sums(int(many.sum()) * strata)
    seen = np.zeros(size, dtype=np.int64)
    single: list[tuple[Index, Keys, Floats, Hashes]] = []
    has_items = True
    for arms, values, items in rows:
        drawn = draw_keys(seed, arms, places_in_arm(arms, seen), file)
        few = ~many[arms]
        if not few.all():
            most = ~few
            number = (drawn[most] >> np.uint64(65 - strata.bit_length())).astype(np.int64)
            sums.add(compact[arms[most]] * strata + number, np.ones(int(most.sum())), values[most])
        has_items &= items is not None
        single.append((arms[few], drawn[few], values[few], drawn[:0] if items is None else items[few]))
    if not single:
        return Strata.of_values(np.zeros(0, dtype=np.int64), np.zeros(0), strata)
    arms, drawn, values, known_items = (np.concatenate(each) for each in zip(*single, strict=True))
    order = np.lexsort((drawn, arms))
    found = Strata.of_values(arms[order], values[order], strata, known_items[order] if has_items else None)
    return found.with_strata(many, sums)


def places_in_arm(arms: Index, seen: Index) -> Index:
    """The place of each row among those of its arm; `seen`, how many there were before, is updated."""
    order = np.argsort(arms, kind="stable")
    ordered = arms[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(starts, append=len(arms))
    places = np.empty(len(arms), dtype=np.int64)
    places[order] = np.arange(len(arms)) - np.repeat(starts, sizes)
    places += seen[arms]
    seen[ordered[starts]] += sizes
    return places


def pool_strata(files: Sequence[Strata], size: int, seed: int) -> Strata:
    """The rows of several files as those of one; an arm that has strata in one of them has strata."""
    if len(files) == 1:
        return files[0]
    width = min(each.width for each in files)
    in_strata = np.any([each.in_strata(size) for each in files], axis=0)
    numbers = []  # the stratum of each row: its place if there are strata, drawn if there are single rows
    for i, each in enumerate(files, 1):
        places = places_in_arm(each.arms, np.zeros(size, dtype=np.int64))
        drawn = draw_keys(seed, each.arms, places, _NUMBERS + i) >> np.uint64(65 - width.bit_length())
        own = places * width // each.width
        numbers.append(np.where(each.in_strata(size)[each.arms], own, drawn.astype(np.int64)))
    columns = zip(*((each.arms, each.counts, each.totals, each.scatter) for each in files), strict=True)
    arms, counts, totals, scatter = (np.concatenate(each) for each in columns)
    items = [each.items for each in files if each.items is not None]
    many = in_strata[arms]
    compact = np.cumsum(in_strata) - 1
    sums = Sums(int(in_strata.sum()) * width)
    sums.add(compact[arms[many]] * width + np.concatenate(numbers)[many], counts[many], totals[many], scatter[many])
    every = np.concatenate(items) if len(items) == len(files) and not many.any() else None
    return Strata(arms[~many], counts[~many], totals[~many], scatter[~many], width, every).with_strata(in_strata, sums)


class RowStore:
    """Rows kept for a second pass: few in memory, many in a temporary file."""

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
        """Release memory and file."""
        self._file.close()


# --- results as they are recorded

LINES = 20  # whose numbers are kept
_KINDS = ("outcome", "arm", "late", "gone")  # another outcome or arm, an outcome where there was none, none any more


class ContradictedFile(NamedTuple):
    """A file by which some of the ids were recorded."""

    digest: str
    name: str
    rows: int


@dataclass(frozen=True)
class Contradicted:
    """Rows with a recorded id that contradict the record; they were skipped."""

    kinds: dict[str, int]  # how many of each of the kinds above
    lines: tuple[int, ...]  # the first of them
    files: tuple[ContradictedFile, ...]

    def note(self, file: str, unit: str, key: str) -> FileNote:
        """The note on these rows of a file; a `unit` is a line or a row of the table, `key` an id or an item."""
        names = list(dict.fromkeys(source.name for source in self.files))
        where = {"lines": list(self.lines), "files": names, "unit": unit, "key": key}
        return FileNote("contradicts", file=file, kinds=self.kinds, **where)

    def payload(self) -> Plain:
        """As it is recorded."""
        return {"kinds": self.kinds, "lines": list(self.lines), "files": [each._asdict() for each in self.files]}

    @classmethod
    def from_payload(cls, payload: Plain) -> Contradicted:
        """What the payload was made of."""
        kinds = {str(kind): int(payload["kinds"][kind]) for kind in _KINDS if kind in payload["kinds"]}
        files = tuple(
            ContradictedFile(str(each["digest"]), str(each["name"]), int(each["rows"])) for each in payload["files"]
        )
        if not kinds or min(*kinds.values(), *(each.rows for each in files), 1) < 1:
            raise ValueError("rows that contradict nothing")
        return cls(kinds, tuple(int(line) for line in payload["lines"]), files)

    def plain(self) -> Plain:
        """For programs."""
        names = [source.name for source in self.files]
        return {"rows": sum(self.kinds.values()), **self.kinds, "lines": list(self.lines), "recorded_by": names}


class CostSums(NamedTuple):
    """The costs of each arm's results, where they were recorded. (K) each"""

    counts: Floats  # results whose cost is known
    totals: Floats
    unit: str = ""  # tokens; empty where the file does not say it

    def payload(self) -> Plain:
        """As it is recorded."""
        return {"counts": pack_numbers(self.counts), "totals": pack_numbers(self.totals), "unit": self.unit}

    @classmethod
    def from_payload(cls, payload: Plain) -> CostSums:
        """What the payload was made of."""
        return cls(unpack_numbers(payload["counts"]), unpack_numbers(payload["totals"]), payload["unit"])


class FailedRequests(NamedTuple):
    """Requests for results on items of a list that were given up: the arm and the item of each, items ascending."""

    arms: Index
    items: Hashes

    @classmethod
    def of(cls, some: Sequence[tuple[Index, Hashes]]) -> FailedRequests:
        """All of these."""
        arms, items = (np.concatenate(each) for each in zip(*some, strict=True))
        order = np.lexsort((arms, items))
        return cls(arms[order], items[order])

    def payload(self) -> Plain:
        """As it is recorded."""
        return {"arms": self.arms.tolist(), "items": pack_hashes(self.items)}

    @classmethod
    def from_payload(cls, payload: Plain) -> FailedRequests:
        """What the payload was made of."""
        return cls(np.array(payload["arms"], dtype=np.int64), unpack_hashes(payload["items"]))


FileForm = Literal["rows", "sums", "successes"]
SumLaw = Literal["binary", "poisson", "normal"]


class FileStart(NamedTuple):
    """The rows of a file, as marks by which they are known again in another: keyed 64-bit hashes."""

    rows: int
    in_order: str  # mark of the rows in their order, which may be the start of another file
    in_any_order: str = ""  # of the same rows in any order; empty where other rows could be the same by chance

    @classmethod
    def from_payload(cls, payload: Plain) -> FileStart:
        """The marks that were written down."""
        return cls(int(payload["rows"]), str(payload["in_order"]), str(payload["in_any_order"]))


@dataclass(frozen=True, eq=False)
class Results:
    """The results of one file or data frame."""

    name: str  # as the user gave it
    digest: str  # sha256 of the contents
    form: FileForm
    rows: int  # lines of data that count
    counts: Floats  # (K)
    totals: Floats  # (K)
    scatter: Floats | None = None  # (K), sum (x - mean)^2 within each arm, where it is known
    strata: Strata | None = None  # the rows, in random order; None of sums, and where sums say as much
    distribution: SumLaw | None = None  # what makes sums as good as rows: their parts can be drawn
    needs_values: bool = False  # the noise model asks for the values of all rows
    needs_cubes: bool = False  # it asks for their skewness
    limits: tuple[float, float] | None = None  # between which they lie, if it does
    paired: bool = False  # the noise model compares arms on the items of both
    parts: int = 1  # the number of random parts of the batch
    seed: int = 0  # of the random partition
    missing: Floats | None = None  # (K), rows without an outcome
    missing_reason: str | None = None  # in the user's words
    failed: FailedRequests | None = None  # of a list: requests given up
    skipped: int = 0  # rows that were recorded before
    contradicted: Contradicted | None = None  # those of them that say something else
    ids: str | None = None  # packed hashes of the ids of all rows
    id_outcomes: str | list[float | int | str] | None = None  # packed hashes of the arm and outcome of each id
    waiting_ids: str | None = None  # packed hashes of the ids whose windows are open, which are not counted yet
    waiting_since: str | list[float | int | str] | None = None  # the time of the first row of each
    start: FileStart | None = None
    sketches: Mapping[str, ValueSketch] = field(default_factory=dict)  # of columns that may identify units, by title
    same_call: bool = False  # recorded in one call with the file before it
    times: tuple[str, str] | None = None  # the first and the last, where they can be compared
    notes: tuple[FileNote, ...] = ()  # what the user should know: columns that were not used, a file that may be cut
    sigma: float | None = None  # the deviation of one result, where sums are of exactly normal ones
    costs: CostSums | None = None  # where the file tells them
    covariate: CovariateSums | None = None  # where results are adjusted for one
    ratio: RatioSums | None = None  # where results are ratios
    linearization: Linearization | None = None  # how ids became results then
    metrics: tuple[Results, ...] = ()  # the same rows by the further metrics of the study
    row_statistics: RowStatistics | None = None  # where the noise model says something of single rows that can be wrong

    @property
    def values(self) -> tuple[Floats, ...] | None:
        """All values of each arm, in random order, where the noise model asks for them and rows were told."""
        if self.strata is None or not self.needs_values:
            return None
        ends = np.cumsum(np.bincount(self.strata.arms, minlength=len(self.counts)))
        return tuple(np.split(self.strata.totals, ends[:-1]))

    def reconciled(self, digest: str) -> Results:
        """The same after the file of this digest, which some rows contradicted, was corrected or withdrawn."""
        if self.metrics:
            others = tuple(each.reconciled(digest) for each in self.metrics)
            return replace(replace(self, metrics=()).reconciled(digest), metrics=others)
        if self.contradicted is None or digest not in {each.digest for each in self.contradicted.files}:
            return self
        left = tuple(each for each in self.contradicted.files if each.digest != digest)
        if left:
            return replace(self, contradicted=replace(self.contradicted, files=left))
        notes = tuple(each for each in self.notes if each.code != "contradicts")
        return replace(self, contradicted=None, notes=notes)

    @cached_property
    def id_hashes(self) -> Hashes:
        """Of the ids of all rows, ascending."""
        return np.zeros(0, dtype=np.uint64) if self.ids is None else unpack_hashes(self.ids)

    @cached_property
    def outcome_hashes(self) -> Hashes:
        """Of each of these ids, a hash of its arm and outcome."""
        found = np.zeros(0) if self.id_outcomes is None else unpack_numbers(self.id_outcomes)
        return found.astype(np.uint64)

    def payload(self) -> Plain:
        """The results as JSON has them; `from_payload` brings back the same bits."""
        found: Plain = {}
        for each in fields(self):
            value = vars(self)[each.name]
            if each.name in _REQUIRED or isinstance(value, np.ndarray) or value not in (None, False, (), {}):
                found[each.name] = _TO_JSON.get(each.name, _unchanged)(value)
        return found if self.strata is None else found | {"strata": self.strata.payload(len(self.counts))}

    @classmethod
    def from_payload(cls, payload: Plain) -> Results:
        """The results that `payload` was made of."""
        try:
            given = {name: payload[name] for name in _REQUIRED}
            given |= {each.name: payload[each.name] for each in fields(cls) if payload.get(each.name) is not None}
            found = cls(**{name: _FROM_JSON.get(name, _unchanged)(value) for name, value in given.items()})
            _check(found)
        except _MALFORMED as error:
            raise DataError(f"These are not results as roundwise records them: {shown(repr(error), 200)}.") from None
        return found


def _unchanged(value: Any) -> Any:
    return value


_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, OverflowError, Unreadable)
_REQUIRED = ("name", "digest", "form", "rows", "counts", "totals", "parts", "seed")
_TO_JSON: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("counts", "totals", "scatter", "missing"), pack_numbers),
    **dict.fromkeys(("limits", "times"), list),
    "start": FileStart._asdict,
    "failed": FailedRequests.payload,
    "contradicted": Contradicted.payload,
    "sketches": sketches_payload,
    "notes": lambda notes: [each.values() for each in notes],
    "costs": CostSums.payload,
    **dict.fromkeys(("covariate", "ratio", "linearization"), pack),
    "metrics": lambda every: [each.payload() for each in every],
    "row_statistics": pack,
}
_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("counts", "totals", "scatter", "missing"), unpack_numbers),
    **dict.fromkeys(("needs_values", "needs_cubes", "paired", "same_call"), bool),
    "strata": Strata.from_payload,
    "sigma": float,
    "limits": lambda ends: (float(ends[0]), float(ends[1])),
    "contradicted": Contradicted.from_payload,
    "start": FileStart.from_payload,
    "failed": FailedRequests.from_payload,
    "sketches": sketches_from,
    "times": lambda times: (str(times[0]), str(times[1])),
    "notes": lambda notes: tuple(map(FileNote.from_values, notes)),
    "costs": CostSums.from_payload,
    "covariate": lambda written: unpack(CovariateSums, written),
    "ratio": lambda written: unpack(RatioSums, written),
    "linearization": lambda written: unpack(Linearization, written),
    "metrics": lambda every: tuple(map(Results.from_payload, every)),
    "row_statistics": lambda written: unpack(RowStatistics, written),
}


def _check(found: Results) -> None:
    """Raise a ValueError if numbers contradict each other: such a record was damaged, or made up."""

    def require(good: object, what: str) -> None:
        if not good:
            raise ValueError(what)

    size, strata = len(found.counts), found.strata
    known = found.distribution in (None, "binary", "poisson", "normal")
    require(found.form in ("rows", "sums", "successes") and known, "a form that is not known")
    normal = found.sigma is not None and 0 < found.sigma < np.inf
    require((found.distribution == "normal") == normal, "a deviation of what is not normal, or none")
    require(isinstance(found.parts, int) and 1 <= found.parts <= 255, "parts")
    require(isinstance(found.seed, int) and found.seed >= 0, "seed")
    require(isinstance(found.name, str) and isinstance(found.digest, str), "names that are no text")
    sums = {"counts": found.counts, "totals": found.totals, "scatter": found.scatter, "missing": found.missing}
    for name, each in sums.items():
        if each is None:
            continue
        least = -np.inf if name == "totals" else 0.0
        require(each.shape == (size,) and np.isfinite(each).all() and (each >= least).all(), name)
        whole_numbers = name in ("totals", "scatter") or (each == np.floor(each)).all()
        require(whole_numbers, f"{name} that are not whole numbers")
    same = found.id_outcomes is None or len(found.outcome_hashes) == len(found.id_hashes)
    require(same, "ids that are not as many as what is known of them")
    require((found.waiting_ids is None) == (found.waiting_since is None), "ids that wait, or since when, but not both")
    require(all(len(each.counts) == size for each in found.metrics), "metrics of other arms")
    if found.costs is not None:
        both = (found.costs.counts, found.costs.totals)
        require(all(each.shape == (size,) and np.isfinite(each).all() for each in both), "costs of other arms")
        require(all((each >= 0).all() for each in both) and isinstance(found.costs.unit, str), "costs below 0")
    if found.failed is not None:
        arms, items = found.failed
        require(arms.ndim == 1 and len(arms) == len(items) and ((arms >= 0) & (arms < size)).all(), "failed requests")
    if found.covariate is not None:
        require({each.shape for each in found.covariate[:6]} == {(size,)}, "covariates of other arms")
        require(np.isfinite([*found.covariate.adjustment]).all(), "an adjustment that is not finite")
    require((found.ratio is None) == (found.linearization is None), "a ratio that is not linearized")
    if found.ratio is not None and found.linearization is not None:
        every = (*found.ratio, found.linearization.ratios, found.linearization.scales)
        require(all(each.shape == (size,) and np.isfinite(each).all() for each in every), "ratios of other arms")
        require(found.parts == 1 or not found.linearization.from_own_rows, "bets on rows that say themselves how")
    if found.row_statistics is not None:
        require(found.row_statistics.fits(size), "statistics of other rows")
        require(np.array_equal(found.row_statistics.moments.counts, found.counts), "statistics of other rows")
    if strata is None:
        return
    require(strata.of_rows or not (found.needs_values or found.needs_cubes), "strata in place of rows")
    counted = np.bincount(strata.arms, strata.counts, minlength=size)
    require(np.array_equal(counted, found.counts), "another number of rows than was counted")
    if found.limits is not None and strata.totals.size:
        low, high = found.limits
        inside = low <= strata.totals.min() and strata.totals.max() <= high
        require(np.isfinite([low, high]).all() and inside, "values beyond their limits")


# --- the batch of a round

_FEWEST, _MOST, _ROOM = 64, 4096, 1_000_000  # points of a table: at least, at most, and over all arms
_DRAWN = 10**9 - 1  # results of an arm from which NumPy draws without replacement
_WRITTEN_OUT = 1 << 20  # 0/1 sums that become rows again, to be partitioned with other rows


def batch_of(results: Sequence[Results], number: int = 1) -> Batch:
    """The files of one batch, joined: sums, scatter if all know it, values if all gave them, parts if all have them.

    >>> import numpy as np
    >>> one = Results("1.csv", "", "sums", 2, np.array([2.0, 1.0]), np.array([3.0, 1.0]))
    >>> batch_of([one, one]).counts
    array([4., 2.])
    """
    whole, parts = whole_of(results), min(each.parts for each in results)
    whole = whole._replace(metrics=tuple(batch_of(each, number) for each in _by_metric(results)))
    return whole._replace(parts=parts_of(results, parts, number)) if parts > 1 else whole


def _by_metric(results: Sequence[Results]) -> list[tuple[Results, ...]]:
    """The same files by each further metric."""
    return list(zip(*(each.metrics for each in results), strict=True))


def whole_of(results: Sequence[Results]) -> Batch:
    """The same without its parts, which take longer than all the rest."""
    if not results:
        raise InputError("A round needs at least one file of results.")
    known = all(each.scatter is not None for each in results)
    batches = [Batch(each.counts, each.totals, each.scatter if known else None) for each in results]
    whole = batches[0] if len(batches) == 1 else join_parts(batches)._replace(parts=None)
    whole = whole._replace(metrics=tuple(map(whole_of, _by_metric(results))))
    if _values_known(results):
        whole = whole._replace(table=_value_table(results))
    if all(each.needs_cubes and each.strata is not None for each in results):
        whole = whole._replace(cubes=_sum_cubes(results, whole))
    strata = strata_of(results) if all(each.paired for each in results) else None
    if strata is None or strata.items is None:
        return whole
    return whole._replace(pairs=sum_pairs(_rows(strata), len(whole.counts), _limits(results, strata)))


def moments_of(results: Sequence[Results]) -> Batch | None:
    """The files of one batch with the cubes of all rows, whatever the noise model needs; None if some told sums."""
    told = [each for each in results if each.counts.any()]
    known = [each.row_statistics.moments for each in told if each.row_statistics is not None]
    if not known or len(known) < len(told):
        return None
    found = reduce(Moments.plus, known)
    return Batch(found.counts, found.counts * found.means, found.second, cubes=found.third)


def _sum_cubes(results: Sequence[Results], whole: Batch) -> Floats:
    """sum (x - mean)^3 within each arm of the batch."""
    means, found = whole.totals / np.maximum(whole.counts, 1.0), np.zeros(len(whole.counts))
    for each in results:
        assert each.strata is not None
        off = each.strata.totals - means[each.strata.arms]
        found += np.bincount(each.strata.arms, off**3, len(found))
    return found


def parts_of(results: Sequence[Results], parts: int, number: int = 1) -> Parts | None:
    """The batch of this number in this many parts, by random partitions of all its rows; None where only sums are
    known. The same files always give the same partitions.
    """
    seed = results[0].seed
    nothing = np.zeros(len(results[0].counts))
    counts, totals = sum((each.counts for each in results), nothing), sum((each.totals for each in results), nothing)
    if not any(each.strata is not None for each in results):
        how = counts, totals, seed, number, parts
        laws = {each.distribution or ("binary" if each.form == "successes" else None) for each in results}
        if laws == {"binary"} and (counts <= _DRAWN).all():
            return _zero_one(partition_sums(Binary().draw_part_totals, *how), results[0].needs_values)
        if laws == {"poisson"} and (totals <= _DRAWN).all():
            return partition_sums(Poisson().draw_part_totals, *how)
        deviations = {each.sigma for each in results}
        if laws == {"normal"} and len(deviations) == 1 and (sigma := deviations.pop()) is not None:
            return partition_sums(Gaussian(sigma).draw_part_totals, *how)
    strata = strata_of(results)
    if strata is None:
        return None
    rows, arms, limits = _rows(strata), len(counts), _limits(results, strata)
    if rows.items is None or not all(each.paired for each in results):
        cubes = all(each.needs_cubes for each in results)
        return partition_rows(rows, arms, seed, number, parts, limits, cubes=cubes)
    most = max_pair_partitions(arms, parts, limits is not None)
    found = partition_rows(rows, arms, seed, number, parts, limits, most)
    return found._replace(pairs=partition_pairs(rows, arms, seed, number, parts, found.partitions, limits))


def _limits(results: Sequence[Results], strata: Strata) -> tuple[float, float] | None:
    """Between which values lie: as the noise model says, else as they do themselves."""
    if not _values_known(results):
        return None
    said = next((each.limits for each in results if each.limits is not None), None)
    values = strata.totals / strata.counts
    return said or (float(values.min(initial=0.0)), float(values.max(initial=1.0)))


def _rows(strata: Strata) -> PartitionRows:
    return PartitionRows(strata.arms, strata.counts, strata.totals, strata.scatter, strata.items)


def _zero_one(parts: Parts | None, tables: bool) -> Parts | None:
    """Parts of 0/1 results with all that can be told of them."""
    if parts is None:
        return None
    scatter = np.maximum(parts.totals - parts.totals**2 / np.maximum(parts.counts, 1.0), 0.0)
    both = np.stack([parts.counts - parts.totals, parts.totals], axis=-1)
    return parts._replace(scatter=scatter, table=ValueTable(np.array([0.0, 1.0]), both) if tables else None)


def strata_of(results: Sequence[Results]) -> Strata | None:
    """All rows of a batch (or strata of them), arm after arm in random order; None if a file has sums only.

    Sums of 0/1 results are rows in arbitrary order: a partition permutes them.
    """
    found = []
    for each in results:
        strata = each.strata
        if strata is None:
            zero_one = each.form == "successes" or each.distribution == "binary"
            if not zero_one or each.counts.sum() > _WRITTEN_OUT:
                return None
            counts, ones = each.counts.astype(np.int64), each.totals.astype(np.int64)
            arms = np.repeat(np.arange(len(counts)), counts)
            places = np.arange(len(arms)) - np.repeat(np.cumsum(counts) - counts, counts)
            strata = Strata.of_values(arms, (places < ones[arms]).astype(np.float64), _MOST)
        found.append(strata)
    return pool_strata(found, len(results[0].counts), results[0].seed)


def _values_known(results: Sequence[Results]) -> bool:
    """Whether the noise model asks for the values of all rows, and every file tells them."""
    return all(each.needs_values and (each.strata is not None or each.form == "successes") for each in results)


def _value_table(results: Sequence[Results]) -> ValueTable:
    """How often each arm had each value.

    Up to some thousand distinct values the table is exact. Beyond, it has evenly spaced points and a row is shared
    between its two neighbours so that its mean stays. The bets multiply 1 + slope (x - middle), whose logarithm is
    concave in x: sharing can only lower what a bet wins, so the guarantee stands.
    """
    size = len(results[0].counts)
    rows: list[tuple[Index, Floats, Floats]] = []  # arm, value, how often
    for each in results:
        if each.strata is not None:
            rows.append((each.strata.arms, each.strata.totals, each.strata.counts))
        else:  # 0/1 outcomes: the sums are the values
            often = np.concatenate([each.counts - each.totals, each.totals])
            rows.append((np.tile(np.arange(size), 2), np.repeat([0.0, 1.0], size), often))
    arms, values, weights = (np.concatenate(each) for each in zip(*rows, strict=True))
    most = int(np.clip(_ROOM // size, _FEWEST, _MOST))
    if len(np.unique(values[: 4 * _MOST])) <= most and len(exact := np.unique(values)) <= most:
        points, columns, shares = exact, np.searchsorted(exact, values), np.zeros(len(values))
    else:
        points = np.linspace(values.min(), values.max(), most)
        columns = np.clip(np.searchsorted(points, values, side="right") - 1, 0, most - 2)
        shares = np.clip((values - points[columns]) / (points[columns + 1] - points[columns]), 0.0, 1.0)
    places, cells = arms * len(points) + columns, size * len(points)
    counts = np.bincount(places, weights * (1.0 - shares), minlength=cells)
    some = shares > 0
    if some.any():
        counts += np.bincount(places[some] + 1, weights[some] * shares[some], minlength=cells)
    return ValueTable(points, counts.astype(np.float64).reshape(size, len(points)))


def of_arms(batch: Batch, names: Sequence[str], wanted: Sequence[str]) -> Batch:
    """A batch of the arms `names` as one of the arms `wanted`: without those that left, with nothing of the others."""
    if tuple(names) == tuple(wanted):
        return batch
    at = np.array([names.index(name) if name in names else -1 for name in wanted])

    def taken(values: Any, axis: int = 0) -> Any:
        if values is None:
            return None
        found = np.moveaxis(values, axis, 0)[np.maximum(at, 0)]
        found = np.where((at >= 0).reshape(-1, *(1,) * (values.ndim - 1)), found, 0.0)
        return np.moveaxis(found, 0, axis)

    def taken_table(table: ValueTable | None, axis: int) -> ValueTable | None:
        return None if table is None else table._replace(counts=taken(table.counts, axis))

    inside = batch.parts
    parts = None
    if inside is not None:
        sums = (taken(inside.counts, 1), taken(inside.totals, 1), taken(inside.scatter, 1))
        parts = Parts(*sums, taken_table(inside.table, 1), cubes=taken(inside.cubes, 1))
    counts, totals, scatter = (taken(each) for each in batch[:3])
    table = taken_table(batch.table, 0)
    pairs = None
    if batch.pairs is not None:
        two, two_wanted = ([f"{one}\n{other}" for one in each for other in each] for each in (names, wanted))
        both = of_arms(batch.pairs._replace(parts=None if inside is None else inside.pairs), two, two_wanted)
        parts = None if parts is None else parts._replace(pairs=both.parts)
        pairs = both._replace(parts=None)
    metrics = tuple(of_arms(each, names, wanted) for each in batch.metrics)
    rows = None if batch.rows is None else np.where(at >= 0, batch.rows[..., np.maximum(at, 0)], np.nan)
    return Batch(counts, totals, scatter, table, parts, pairs, taken(batch.cubes), metrics, rows)
