"""How rows are known again: keyed hashes of ids, of rows and of data frames, so that no old file and no id is kept.

64 bits are enough: among a million ids two different ones collide with probability 3e-8, and a row is then skipped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import said
from roundwise.formats.cells import name_in
from roundwise.formats.messages import quoted
from roundwise.formats.sheet import Sheet
from roundwise.ingest.arm_names import Index
from roundwise.ingest.row_store import Chunks, Spool
from roundwise.model.random_partition import splitmix64
from roundwise.serialization import Hashes, packed_hashes, packed_numbers

_WHOLE = re.compile(r"[0-9]+\.0+")
_CERTAIN = 40  # bits of values from which the same rows are no chance
_ROW = np.dtype([("arm", "<u8"), ("value", "<f8")])


def key_of(seed: int) -> bytes:
    """The key of a study's hashes."""
    return (seed % 2**64).to_bytes(8, "little")


def hashes(cells: Iterable[object], seed: int) -> Hashes:
    """A 64-bit hash of each cell, read as a name: 3, 3.0 and '3' are the same."""
    key, blake = key_of(seed), hashlib.blake2b
    names = (cell.strip() if type(cell) is str else name_in(cell) for cell in cells)
    joined = b"".join(blake(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def hashes_read(cells: Sequence[object], seed: int, known: Callable[[Hashes], Bools]) -> Hashes:
    """Hashes of cells, '7.0' as '7' unless it is `known` as it is written, by an earlier version."""
    read = [whole(cell) for cell in cells]
    found = hashes(read, seed)
    if all(one is other for one, other in zip(read, cells, strict=True)):
        return found
    written = hashes(cells, seed)
    return np.where(known(written), written, found)


def whole(cell: object) -> object:
    """An id as it is, but '7.0' as '7': so a column of whole numbers is written once a cell of it was empty."""
    return cell.strip().rstrip("0")[:-1] if type(cell) is str and _WHOLE.fullmatch(cell.strip()) else cell


def with_arm(items: Hashes, arms: Index) -> Hashes:
    """The hash of an item together with the arm that was tried on it."""
    return splitmix64(items ^ splitmix64(arms.astype(np.uint64)))


def with_outcome(ids: Hashes, codes: Hashes) -> Hashes:
    """The hash of an id together with what was recorded of it."""
    return splitmix64(ids ^ splitmix64(codes))


def outcome_codes(names: Sequence[str], arms: Index, values: Floats, seed: int) -> Hashes:
    """A 32-bit hash of each row's arm, by its name, and value, to seven digits; nan is a value, too."""
    with np.errstate(over="ignore"):
        small = np.where(np.isnan(values), np.nan, values).astype(np.float32) + np.float32(0.0)  # one nan, no -0
    codes = hashes(names, seed)[arms] ^ splitmix64(small.view(np.uint32).astype(np.uint64))
    return codes >> np.uint64(32)


def marks(rows: Chunks, sizes: Sequence[int], arms: Sequence[str], seed: int) -> dict[int, str]:
    """The marks of the first rows, for each of the sizes that there are rows for; by the names of the arms."""
    codes = hashes(arms, seed)
    running = hashlib.blake2b(digest_size=8, key=key_of(seed))
    found: dict[int, str] = {}
    at, wanted = 0, iter(sorted(set(sizes)))
    size = next(wanted, None)
    for index, values, _ in rows:
        block = np.empty(len(index), dtype=_ROW)
        block["arm"], block["value"] = codes[index], values + 0.0
        start = 0
        while size is not None and size <= at + len(block):
            running.update(block[start : size - at].tobytes())
            start = size - at
            found[size] = running.hexdigest()
            size = next(wanted, None)
        if size is None:
            break
        running.update(block[start:].tobytes())
        at += len(block)
    return found


def among(known: Hashes, values: Hashes) -> Bools:
    """Which values are among the known ones, which are ascending, and may be many."""
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    return known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values


def could_repeat(rows: Chunks) -> bool:
    """Whether other rows could be the same, in the same order, by chance: at most 40 bits say what they are.

    >>> few, many = ([(np.zeros(n, dtype=np.int64), np.arange(float(n)) % 2, None)] for n in (40, 42))
    >>> could_repeat(few), could_repeat(many)
    (True, False)
    """
    bits = 0.0
    for arms, values, _ in rows:
        pairs = np.unique(arms + 1j * values, return_counts=True)[1]
        sizes = np.unique(arms, return_counts=True)[1]
        bits += float(np.sum(sizes * np.log2(sizes)) - np.sum(pairs * np.log2(pairs)))
        if bits > _CERTAIN:
            return False
    return True


def numbered_digest(digest: str, file: int) -> str:
    """A digest of its own for a file whose contents are recorded, or could come again."""
    return hashlib.sha256(f"{digest}, file {file}".encode()).hexdigest()


class Contents:
    """The digest of a data frame: of the arms, numbers and ids in it, whatever its other columns and types."""

    def __init__(self, form: str) -> None:
        self._names, self._numbers = hashlib.sha256(), [hashlib.sha256() for _ in range(4)]
        self._form = form

    def add(self, names: Sequence[str], *numbers: Floats | Hashes | None) -> None:
        """Lines in their order."""
        self._names.update(
            b"".join(len(name).to_bytes(4, "little") + name.encode("utf-8", "surrogatepass") for name in names)
        )
        for digest, column in zip(self._numbers, numbers, strict=True):
            if column is not None:
                whole = column.dtype.kind == "u"
                digest.update(column.astype("<u8").tobytes() if whole else (column + 0.0).astype("<f8").tobytes())

    def hex(self) -> str:
        """Of everything added."""
        every = [self._form.encode(), self._names.digest(), *(digest.digest() for digest in self._numbers)]
        return hashlib.sha256(b"".join(every)).hexdigest()


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
                f"{_blockhave(int(same.sum()))} the {self._what} of an earlier row and the same arm; this one that of "
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
                f"{_blockhave(int(other.sum()))} the id of a row of another arm; this one that of {self._sheet.unit} "
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
        return packed_numbers(outcome_codes(self._arms, rows.arms, rows.values, seed).astype(np.float64))

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


def _blockhave(many: int) -> str:
    return "1 row has" if many == 1 else f"{many} rows have"
