"""The ids of the rows of one file: each may have one row, unless its rows are to be averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import said
from roundwise.studies.results.lots import Spool
from roundwise.studies.results.marks import outcome_codes
from roundwise.studies.results.names import Index
from roundwise.studies.results.packing import Hashes, packed, packed_hashes
from roundwise.studies.results.sheets import Sheet
from roundwise.studies.results.words import quoted

_LAST = np.iinfo(np.int64).max


class Rows(NamedTuple):
    """Rows with ids, an array of each."""

    ids: Hashes
    lines: Index
    arms: Index
    values: Floats  # nan where there is none


class Ids:
    """Hashes of the ids, with the line and arm of each."""

    def __init__(self, sheet: Sheet, arms: Sequence[str], what: str) -> None:
        self._sheet, self._arms, self._what = sheet, arms, what
        self._added: list[Rows] = []
        self._known: Rows | None = None

    def add(self, lines: Sequence[int], arms: Index, ids: Hashes, values: Floats) -> None:
        """Append rows; those without a value have nan."""
        self._added.append(Rows(ids, np.asarray(lines, dtype=np.int64), arms, values))
        self._known = None

    @property
    def repeated(self) -> bool:
        """Whether one id has several rows."""
        return bool(len(self._again()[0]))

    def refuse(self) -> None:
        """Put down ids that have several rows."""
        self.refuse_several_arms()
        rows, (first, second) = self._rows(), self._again()
        same = rows.arms[first] == rows.arms[second]
        if same.any():
            k = int(np.argmin(np.where(same, rows.lines[second], _LAST)))
            self._sheet.problems.one(
                "several rows of one id",
                int(rows.lines[second[k]]),
                f"{_rows_have(int(same.sum()))} the {self._what} of an earlier row and the same arm; this one that of "
                f"{self._sheet.unit} {int(rows.lines[first[k]])}.",
                "Results of one user or patient depend on each other: give one row for each, or say "
                f"{said('average_ids=True', '--average-ids')}.",
            )

    def refuse_several_arms(self) -> None:
        """Put down ids that are in several arms."""
        rows, (first, second) = self._rows(), self._again()
        other = rows.arms[first] != rows.arms[second]
        if other.any():
            k = int(np.argmin(np.where(other, rows.lines[second], _LAST)))
            names = " and ".join(quoted(self._arms[rows.arms[each[k]]]) for each in (first, second))
            self._sheet.problems.one(
                "one id in several arms",
                int(rows.lines[second[k]]),
                f"{_rows_have(int(other.sum()))} the id of a row of another arm; this one that of {self._sheet.unit} "
                f"{int(rows.lines[first[k]])} ({names}).",
                "Remove those ids: who was in several arms cannot tell them apart.",
            )

    def average(self, spool: Spool, found: Spool) -> None:
        """Put the rows into another spool, one for each id: the mean of its rows, where the first stood."""
        rows = self._rows()
        good = ~np.isnan(rows.values)
        ids, arms = rows.ids[good], rows.arms[good]
        values = np.concatenate([values for _, values, _ in spool.after()])
        items = [each for _, _, each in spool.after() if each is not None]
        _, first, which, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
        means = np.where(counts == 1, values[first], np.bincount(which, values) / counts)  # one row keeps its bits
        order = np.argsort(first, kind="stable")
        first = first[order]
        found.put(arms[first], means[order], np.concatenate(items)[first] if items else None)

    def packed(self) -> str:
        """All ids, each once, for the record."""
        return packed_hashes(np.unique(self._rows().ids))

    def packed_codes(self, seed: int) -> str | list[float | int]:
        """Of each of these ids, a hash of its arm and outcome."""
        rows = self.one_each()
        return packed(outcome_codes(self._arms, rows.arms, rows.values, seed).astype(np.float64))

    def one_each(self) -> Rows:
        """One row for each id, ascending: with the mean of its values, and the line of the first."""
        rows = self._rows()
        ids, first, which, counts = np.unique(rows.ids, return_index=True, return_inverse=True, return_counts=True)
        there = ~np.isnan(rows.values)
        some = np.bincount(which[there], minlength=len(ids))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            means = np.bincount(which[there], rows.values[there], minlength=len(ids)) / some
        values = np.where(counts == 1, rows.values[first], means)
        return Rows(ids, rows.lines[first], rows.arms[first], values)

    def _rows(self) -> Rows:
        if self._known is None:
            if len(self._added) != 1:
                none = np.zeros(0, dtype=np.int64)
                every = [Rows(none.astype(np.uint64), none, none, none.astype(np.float64)), *self._added]
                self._added = [Rows(*(np.concatenate(each) for each in zip(*every, strict=True)))]
            self._known = self._added[0]
        return self._known

    def _again(self) -> tuple[Index, Index]:
        """Places of the first row of an id, and of each row that repeats it."""
        ids = self._rows().ids
        order = np.argsort(ids, kind="stable")
        new = np.ones(len(ids), dtype=np.bool_)
        new[1:] = ids[order[1:]] != ids[order[:-1]]
        first = order[np.flatnonzero(new)][np.cumsum(new) - 1]
        return first[~new], order[~new]


def _rows_have(many: int) -> str:
    return "1 row has" if many == 1 else f"{many} rows have"
