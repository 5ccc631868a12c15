"""The ids of the rows of one file: each may have one row, unless its rows are to be averaged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools
from roundwise.studies.results.lots import Spool
from roundwise.studies.results.names import Index
from roundwise.studies.results.packing import Hashes, packed_hashes
from roundwise.studies.results.sheets import Sheet
from roundwise.studies.results.words import quoted


class Ids:
    """Hashes of the ids, with the line and arm of each."""

    def __init__(self, sheet: Sheet, arms: Sequence[str], what: str) -> None:
        self._sheet, self._arms, self._what = sheet, arms, what
        self._hashes: list[Hashes] = []
        self._lines: list[NDArray[np.int64]] = []
        self._index: list[NDArray[np.int32]] = []
        self._good: list[Bools] = []
        self._order: NDArray[np.int64] | None = None

    def add(self, lines: Sequence[int], index: Index, ids: Hashes, good: Bools) -> None:
        """Append rows; those that are not `good` have no value."""
        self._hashes.append(ids)
        self._lines.append(np.asarray(lines, dtype=np.int64))
        self._index.append(index.astype(np.int32))
        self._good.append(good)

    @property
    def repeated(self) -> bool:
        """Whether one id has several rows."""
        return bool(len(self._again()[0]))

    def refuse(self) -> None:
        """Put down ids that have several rows."""
        first, second = self._again()
        if not len(first):
            return
        self.refuse_several_arms()
        arms, lines = self._joined(self._index), self._joined(self._lines)
        same = arms[first] == arms[second]
        if same.any():
            k = int(np.argmin(np.where(same, lines[second], np.iinfo(np.int64).max)))
            self._sheet.problems.one(
                "several rows of one id",
                int(lines[second[k]]),
                f"{int(same.sum())} rows have the {self._what} of an earlier row and the same arm; this one that of "
                f"{self._sheet.unit} {int(lines[first[k]])}.",
                "Results of one user or patient depend on each other: give one row for each, or say --average-ids (in "
                "Python average_ids=True).",
            )

    def refuse_several_arms(self) -> None:
        """Put down ids that are in several arms."""
        first, second = self._again()
        arms, lines = self._joined(self._index), self._joined(self._lines)
        other = arms[first] != arms[second] if len(first) else np.zeros(0, dtype=np.bool_)
        if other.any():
            k = int(np.argmin(np.where(other, lines[second], np.iinfo(np.int64).max)))
            names = " and ".join(quoted(self._arms[arms[each[k]]]) for each in (first, second))
            self._sheet.problems.one(
                "one id in several arms",
                int(lines[second[k]]),
                f"{int(other.sum())} rows have the id of a row of another arm; this one that of {self._sheet.unit} "
                f"{int(lines[first[k]])} ({names}).",
                "Remove those ids: who was in several arms cannot tell them apart.",
            )

    def averaged(self, spool: Spool) -> Spool:
        """The rows with one for each id: the mean of its rows, where the first of them stood."""
        good = np.concatenate(self._good)
        ids = self._joined(self._hashes)[good]
        arms = self._joined(self._index)[good].astype(np.int64)
        values = np.concatenate([values for _, values, _ in spool.after()])
        of_items = [items for _, _, items in spool.after() if items is not None]
        _, first, which, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
        means = np.bincount(which, values) / counts
        order = np.argsort(first, kind="stable")
        first = first[order]
        single = counts[order] == 1
        found = Spool()
        mean = np.where(single, values[first], means[order])  # one row keeps its bits
        found.put(arms[first], mean, np.concatenate(of_items)[first] if of_items else None)
        return found

    def packed(self) -> str:
        """All ids, each once, for the record."""
        every = np.unique(self._joined(self._hashes)) if self._hashes else np.zeros(0, dtype=np.uint64)
        return packed_hashes(every)

    def _again(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the first row of an id, and of each row that repeats it."""
        if not self._hashes:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        ids = self._joined(self._hashes)
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        firsts = order[np.flatnonzero(new)][np.cumsum(new) - 1]
        return firsts[~new], order[~new]

    @staticmethod
    def _joined(arrays: list[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
