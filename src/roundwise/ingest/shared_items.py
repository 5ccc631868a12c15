"""Columns that nobody named and that look like identifiers of users, patients or items: do their values repeat?

Rows of one user depend on each other, whether they stand in one arm or in several, in one file or in many. Each file
therefore leaves a sketch of such a column: the smallest hashes of its values, with how many rows each has and in which
arm. Below the largest hash of a sketch all values of its file are there, so sketches of files can be merged, however
long the files are. A category (country, day, device) repeats too and says nothing: see `unit_kind`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Plain
from roundwise.formats.sheet import hashes, no_value, whole
from roundwise.ingest.columns import Index
from roundwise.serialization import Hashes, packed_hashes, packed_numbers, unpacked_hashes, unpacked_numbers

WATCHED = 8  # columns that are looked at
ROWS = 1_000_000  # of a file that are looked at
_LONGEST = 200  # letters of a title
_KEPT = 256  # hashes of a sketch
_FEWEST = 10  # values below which a column may be a category
_PER_VALUE = 20  # rows of a value in a file, on average, above which a column may be a category
_SEVERAL: np.uint64 = np.uint64(0)  # the mark of a value that stands in several arms

_ID = re.compile(r"ids?|uuid|guid|no|nr|num|number|hash")
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

Kind = Literal["person", "people", "thing"]


def unit_kind(title: str) -> Kind | None:
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


class Sketch(NamedTuple):
    """Some values of a column, as hashes in ascending order, and what is known of each; merged, of several files."""

    values: Hashes
    counts: Index  # rows of each
    arms: Hashes  # a hash of the arm of each; 0 where there are several
    repeated: int  # values with several rows in one of the files, all of them
    several: int  # values in several arms in one of the files, all of them
    per_value: float  # rows of a value on average, in the file that has the fewest

    @classmethod
    def of(cls, values: Hashes, arms: Hashes) -> Sketch:
        """The sketch of a column: the hash of its value in each row, and of the arm."""
        found, which, counts = np.unique(values, return_inverse=True, return_counts=True)
        first, last = np.full(len(found), np.iinfo(np.uint64).max), np.zeros(len(found), dtype=np.uint64)
        np.minimum.at(first, which, arms)
        np.maximum.at(last, which, arms)
        several = first != last
        marked = np.where(several, _SEVERAL, (first >> np.uint64(32)) | np.uint64(1))
        most = slice(_KEPT)
        per_value = len(values) / max(len(found), 1)
        return cls(
            found[most], counts[most], marked[most], int((counts > 1).sum()), int(several.sum()), float(per_value)
        )

    def merged(self, other: Sketch) -> Sketch:
        """The sketch of both columns, one below the other."""
        full = [each.values[-1] for each in (self, other) if len(each.values) >= _KEPT]
        top = min(full, default=np.iinfo(np.uint64).max)
        every = np.concatenate([self.values, other.values])
        values, which = np.unique(every, return_inverse=True)
        counts = np.bincount(which, np.concatenate([self.counts, other.counts])).astype(np.int64)
        marked = np.concatenate([self.arms, other.arms])
        first, last = np.full(len(values), np.iinfo(np.uint64).max), np.zeros(len(values), dtype=np.uint64)
        np.minimum.at(first, which, marked)
        np.maximum.at(last, which, marked)
        arms = np.where(first == last, first, _SEVERAL)
        some = slice(min(int(np.searchsorted(values, top, side="right")), _KEPT))
        return Sketch(
            values[some],
            counts[some],
            arms[some],
            max(self.repeated, other.repeated),
            max(self.several, other.several),
            min(self.per_value, other.per_value),
        )

    def repeats(self, title: str) -> Repeats | None:
        """How values of the column repeat, if it is one of identifiers, and they do.

        >>> users = np.repeat(np.arange(1, 61, dtype=np.uint64) * np.uint64(2**57), 10)
        >>> arms = np.tile(np.array([2**40, 2**41], dtype=np.uint64), 300)
        >>> Sketch.of(users, arms).repeats("user"), Sketch.of(users, users).repeats("country")
        (Repeats(title='user', values=60, repeated=60, several=60, exact=True), None)
        """
        kind, size = unit_kind(title), len(self.values)
        category = kind != "person" and (size < _FEWEST or (kind == "thing" and self.per_value > _PER_VALUE))
        repeated, several = int((self.counts > 1).sum()), int((self.arms == _SEVERAL).sum())
        if kind is None or category or size < 2 or not max(repeated, self.repeated):
            return None
        exact = size < _KEPT
        values = size if exact else round((size - 1) * (2.0**64 / float(self.values[-1])))
        share = values / size
        return Repeats(
            title, values, max(round(repeated * share), self.repeated), max(round(several * share), self.several), exact
        )

    def payload(self) -> list[object]:
        """As JSON has it."""
        numbers = (self.counts.astype(np.float64), self.arms.astype(np.float64))
        rest = [self.repeated, self.several, self.per_value]
        return [packed_hashes(self.values), *map(packed_numbers, numbers), *rest]


class Repeats(NamedTuple):
    """How the values of a column of identifiers repeat."""

    title: str
    values: int
    repeated: int  # those with several rows
    several: int  # those in several arms
    exact: bool


def merge_sketches(one: Mapping[str, Sketch], other: Mapping[str, Sketch]) -> dict[str, Sketch]:
    """The sketches of two files, or of several, by their titles; of too many the first stay."""
    found = dict(one)
    for title, each in other.items():
        if title in found:
            found[title] = found[title].merged(each)
        elif len(found) < 2 * WATCHED:
            found[title] = each
    return found


def sketches_from(payload: Mapping[str, Plain]) -> dict[str, Sketch]:
    """The sketches that were written down; a ValueError where they contradict themselves."""
    found = {}
    for title, each in payload.items():
        if len(each) == 2:  # of an earlier version, which counted no rows
            continue
        values, counts, arms, repeated, several, per_value = each
        sketch = Sketch(
            unpacked_hashes(values),
            unpacked_numbers(counts).astype(np.int64),
            unpacked_numbers(arms).astype(np.uint64),
            int(repeated),
            int(several),
            float(per_value),
        )
        if len({len(sketch.values), len(sketch.counts), len(sketch.arms)}) > 1 or len(sketch.values) > _KEPT:
            raise ValueError("values, rows and arms that are not as many as each other")
        found[str(title)] = sketch
    return found


class Watch:
    """One column on its way to a sketch: the hash of its value in each row that counts, and the arm."""

    def __init__(self, title: str, seed: int, skip: int) -> None:
        self.title, self._seed, self._skip = title, seed, skip
        self._values: list[Hashes] = []
        self._arms: list[Index] = []
        self._good: list[Bools] = []
        self._rows = -skip

    def add(self, cells: Sequence[object], arms: Index, good: Bools) -> None:
        """Append rows, of which the `good` ones count."""
        if self._rows >= ROWS:
            return
        self._values.append(hashes((whole(cell) for cell in cells), self._seed))
        self._arms.append(arms)
        some = good & ~np.array([no_value(cell) for cell in cells], dtype=np.bool_)
        if self._rows < 0:  # of a running total, what is recorded already
            places = np.cumsum(good) + self._rows
            some &= places > 0
        self._good.append(some)
        self._rows += int(good.sum())

    def sketch(self, names: Sequence[str]) -> Sketch | None:
        """The sketch of the column; None where it is empty, or just numbers the rows."""
        if not self._values:
            return None
        values, arms, good = np.concatenate(self._values), np.concatenate(self._arms), np.concatenate(self._good)
        if not good.any() or self._numbers_rows(values, arms):
            return None
        return Sketch.of(values[good], hashes(names, self._seed)[arms[good]])

    def _numbers_rows(self, values: Hashes, arms: Index) -> bool:
        """Whether the column counts the rows of the file, or of each arm, from 0 or 1: another file does the same."""
        if _NUMBERED.fullmatch(self.title) is None:
            return False
        numbers = hashes(range(len(values) + 1), self._seed)
        order = np.argsort(arms, kind="stable")
        ends = np.cumsum(np.bincount(arms))[:-1]
        by_arm = [each for each in np.split(values[order], ends) if len(each)]
        return any(
            all(np.array_equal(each, numbers[start : start + len(each)]) for each in rows)
            for rows in ([values], by_arm)
            for start in (0, 1)
        )
