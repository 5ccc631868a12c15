"""Columns that nobody named and that look like items several arms were tried on: a warning, and nothing more.

They are seen in one file that has several arms, and over several files, one an arm. For the latter a file leaves a
sketch of such a column: the smallest hashes of its values, and with which arm each came. Below the largest hash of both
sketches each holds all values of its file, so these can be compared, however long the files are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Plain
from roundwise.studies.packing import Hashes, packed_hashes, packed_numbers, unpacked_hashes, unpacked_numbers
from roundwise.studies.results.ids import hashes, whole
from roundwise.tables.cells import name_in
from roundwise.tables.words import quoted

WATCHED = 8  # columns that are looked at
_LONGEST = 200  # letters of a title
_KEPT = 64  # hashes of a sketch
_FEWEST = 10  # different values below which nothing is said
_SHARE = 0.5  # of the values that must come back with another arm
_TITLE = re.compile(
    r"(^|[^a-z])(items?|questions?|prompts?|tasks?|quer(y|ies)|examples?|problems?|cases?|images?|documents?|patients?"
    r"|subjects?|users?|plates?|ids?)([^a-z]|$)|id$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(row|line|result)?[^a-z]*ids?", re.IGNORECASE)


def could_be_items(title: str) -> bool:
    """Whether a column of this title may say on what an arm was tried.

    >>> [could_be_items(each) for each in ("question_id", "userid", "Prompt", "date", "side", "score")]
    [True, True, True, False, False, False]
    """
    if len(title) > _LONGEST:
        return False
    return _TITLE.search(title) is not None and title.lower() not in ("side", "paid", "valid", "bid", "mid", "grid")


def numbers_rows(title: str, cells: Sequence[object]) -> bool:
    """Whether a column may just number the rows of its file: another file then has the same numbers.

    >>> numbers_rows("id", range(1, 40)), numbers_rows("question_id", range(1, 40)), numbers_rows("id", [7, 3, 9])
    (True, False, False)
    """
    if _NUMBERED.fullmatch(title) is None:
        return False
    names = [name_in(cell) for cell in cells]
    start = int(names[0]) if names and names[0] in ("0", "1") else None
    return start is not None and names == [str(start + i) for i in range(len(names))]


def come_back(arms: Sequence[object], cells: Sequence[object]) -> bool:
    """Whether most values come back with another arm, and none with the same arm.

    >>> come_back(["a", "b"] * 20, [i // 2 for i in range(40)])
    True
    >>> come_back(["a", "b"] * 20, range(40))
    False
    """
    of: dict[str, set[str]] = {}
    for arm, cell in zip(arms, cells, strict=True):
        value, name = name_in(cell), name_in(arm)
        if not value:
            continue
        known = of.setdefault(value, set())
        if name in known:
            return False
        known.add(name)
    several = sum(len(each) > 1 for each in of.values())
    return len(of) >= _FEWEST and several >= _SHARE * len(of)


class Sketch(NamedTuple):
    """Some values of a column, as hashes in ascending order, and a hash of the arm that each first came with."""

    values: Hashes
    arms: Hashes

    @classmethod
    def of(cls, arms: Sequence[object], cells: Sequence[object], seed: int) -> Sketch:
        """The sketch of a column."""
        some = [(arm, cell) for arm, cell in zip(arms, cells, strict=True) if name_in(cell)]
        values, first = np.unique(hashes((whole(cell) for _, cell in some), seed), return_index=True)
        few = slice(_KEPT)
        codes = hashes((some[i][0] for i in first[few].tolist()), seed)
        return cls(values[few], codes >> np.uint64(32))

    def again(self, other: Sketch) -> bool:
        """Whether most values of the shorter of two files stand in the other, too, all with other arms.

        >>> items = range(500)
        >>> one, two = (Sketch.of([arm] * 500, items, 1) for arm in "ab")
        >>> one.again(two), one.again(one), one.again(Sketch.of(["b"] * 500, range(500, 1000), 1))
        (True, False, False)
        """
        full = [each.values[-1] for each in (self, other) if len(each.values) >= _KEPT]
        top = min(full, default=np.uint64(2**64 - 1))
        ours, theirs = (int(np.searchsorted(each.values, top, side="right")) for each in (self, other))
        _, here, there = np.intersect1d(
            self.values[:ours], other.values[:theirs], assume_unique=True, return_indices=True
        )
        least = min(ours, theirs)
        return (
            least >= _FEWEST and len(here) >= _SHARE * least and not bool((self.arms[here] == other.arms[there]).any())
        )

    def payload(self) -> list[object]:
        """As JSON has it."""
        return [packed_hashes(self.values), packed_numbers(self.arms.astype(np.float64))]


def sketches_from(payload: Mapping[str, Plain]) -> dict[str, Sketch]:
    """The sketches that were written down; a ValueError where they contradict themselves."""
    found = {}
    for title, (values, arms) in payload.items():
        each = Sketch(unpacked_hashes(values), unpacked_numbers(arms).astype(np.uint64))
        if len(each.values) != len(each.arms) or len(each.values) > _KEPT:
            raise ValueError("values and arms that are not as many as each other")
        found[str(title)] = each
    return found


def warning(file: str, title: str, other: str | None = None) -> str:
    """What is said of such a column, whose values came with other arms in this file, or in another one."""
    where = "come back with other arms" if other is None else f"stand in {other} too, with another arm"
    return (
        f"{file}: values of {quoted(title)} {where}. If arms were tried on the same items, their "
        "results are not independent, and the guarantee holds only if they are: start the study with "
        f"--item-column {title}."
    )
