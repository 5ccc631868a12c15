"""Nothing is counted twice: how a new file is compared with the recorded ones.

Every row is new, with certain exceptions. Identical contents are refused (`Study.tell`), recorded ids are skipped, a
`cumulative` file counts by its difference, and a file that begins with the rows of a recorded one is refused until the
user declares it new. Sums that could be a running total count, with a warning. There are no guesses about Python
objects.

Rows are recognised by keyed 64-bit hashes, so that neither files nor ids are kept: among a million ids two different
ones collide with probability 3e-8, and a row is then skipped.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, Hashes, unpack_hashes, unpack_numbers
from roundwise.errors import DataError, refusal
from roundwise.formats.sheet import Sheet, hashes, key_of, whole
from roundwise.ingest.columns import Index
from roundwise.ingest.reading import Reading
from roundwise.ingest.record import LINES, Chunks, Contradicted, ContradictedFile, FileStart, Results, RowStore
from roundwise.messages import FileNote, Remedy, option, quoted
from roundwise.model.batch import splitmix64
from roundwise.noise import Noise

_CERTAIN = 40  # bits of values from which the same rows are no chance
DISTINCT = 30  # arms and values: the chance that others occur just as often is below 0.3^30 (Stirling)
_ROW = np.dtype([("arm", "<u8"), ("value", "<f8")])


def hash_ids(cells: Sequence[object], seed: int) -> Hashes:
    """Hashes of ids; '7.0' is '7': so a column of whole numbers is written once a cell of it was empty."""
    return hashes((whole(cell) for cell in cells), seed)


def with_arm(items: Hashes, arms: Hashes) -> Hashes:
    """The hash of an item together with the arm that was tried on it, whose name is hashed, too."""
    return splitmix64(items ^ splitmix64(arms))


def with_outcome(ids: Hashes, codes: Hashes) -> Hashes:
    """The hash of an id together with what was recorded of it."""
    return splitmix64(ids ^ splitmix64(codes))


def outcome_codes(names: Sequence[str], rows: IdRows, seed: int) -> Hashes:
    """A 32-bit hash of each row's arm, by its name, and value, to seven digits; nan is a value, too."""
    with np.errstate(over="ignore"):
        small = np.where(np.isnan(rows.values), np.nan, rows.values).astype(np.float32) + np.float32(
            0.0
        )  # one nan, no -0
    codes = hashes(names, seed)[rows.arms] ^ splitmix64(small.view(np.uint32).astype(np.uint64))
    if not np.isnan(rows.denominators).all():
        codes ^= splitmix64(~rows.denominators.astype(np.float32).view(np.uint32).astype(np.uint64))
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


class RowBag(NamedTuple):
    """Rows in any order."""

    mark: str  # a keyed hash; empty if fewer than `DISTINCT` arms and values tell the rows from others
    times: int  # how often each row comes, at least; 1 if that may be chance

    @classmethod
    def of(cls, rows: Chunks, arms: Sequence[str], seed: int) -> RowBag:
        codes, sum_, distinct, times = hashes(arms, seed), 0, 0, []
        for index, values, _ in rows:
            mixed = splitmix64(codes[index] ^ splitmix64((values + 0.0).view(np.uint64)))
            often = np.unique(mixed, return_counts=True)[1]
            sum_, distinct = sum_ + int(mixed.sum(dtype=np.uint64)), max(distinct, len(often))
            times.append(int(np.gcd.reduce(often)))
        if distinct < DISTINCT:
            return cls("", 1)
        return cls(f"{sum_ % 2**64:016x}", times[0] if len(times) == 1 else 1)


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
    """A separate digest for a file whose contents are recorded, or could recur by chance."""
    return hashlib.sha256(f"{digest}, file {file}".encode()).hexdigest()


class FrameDigest:
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
_NONE: Hashes = np.zeros(0, dtype=np.uint64)


class IdRows(NamedTuple):
    """Rows with ids, an array of each."""

    ids: Hashes
    lines: Index
    arms: Index
    values: Floats  # nan where there is none
    items: Hashes  # 0 where there are none
    times: Floats  # in seconds; nan where they do not matter
    covariates: Floats  # nan where there are none
    denominators: Floats  # likewise

    def only(self, some: Bools | Index) -> IdRows:
        """Some of the rows."""
        return IdRows._make(each[some] for each in self)


class IdResults(NamedTuple):
    """One row for each id, ascending, with the result that its rows lead to; and what became of the others."""

    rows: IdRows  # with the first line and time of each; no value where rows lack one, or are of several arms
    sizes: Index  # rows of each that count
    first: Index  # the place of the first row of each
    closed: Bools  # whether no row that counts can come any more
    several_arms: Bools
    after_window: int  # rows

    @property
    def waiting(self) -> IdRows:
        """The ids that are not told yet."""
        return self.rows.only(~self.closed)


class Ids:
    """Hashes of the ids of a table, with the line, arm and value of each."""

    def __init__(self, sheet: Sheet, arms: Sequence[str], key: str) -> None:
        self._sheet, self._arms, self._key = sheet, arms, key  # an "id" or an "item"
        self._chunks: list[IdRows] = []

    def add(
        self,
        lines: Sequence[int],
        arms: Index,
        ids: Hashes,
        values: Floats,
        items: Hashes | None = None,
        times: Floats | None = None,
        covariates: Floats | None = None,
        denominators: Floats | None = None,
    ) -> None:
        """Append rows; those without a value have nan."""
        known_items = np.zeros(len(ids), dtype=np.uint64) if items is None else items
        numbers = (np.full(len(ids), np.nan) if each is None else each for each in (times, covariates, denominators))
        self._chunks.append(IdRows(ids, np.asarray(lines, dtype=np.int64), arms, values, known_items, *numbers))

    @property
    def rows(self) -> IdRows:
        """All rows."""
        if len(self._chunks) != 1:
            places, numbers = np.zeros(0, dtype=np.int64), np.zeros(0)
            every = [IdRows(_NONE, places, places, numbers, _NONE, numbers, numbers, numbers), *self._chunks]
            self._chunks = [IdRows(*(np.concatenate(each) for each in zip(*every, strict=True)))]
        return self._chunks[0]

    def refuse(self, reading: Reading) -> None:
        """Record ids in several arms, and several rows of one id, as problems, unless the study has a rule for them."""
        rows = self.rows
        order = np.argsort(rows.ids, kind="stable")
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = rows.ids[order[1:]] != rows.ids[order[:-1]]
        first, second = order[np.flatnonzero(new)][np.cumsum(new) - 1][~new], order[~new]
        other = rows.arms[first] != rows.arms[second]
        if reading.id_window is not None:
            other &= np.abs(rows.times[second] - rows.times[first]) < reading.window
        kinds = [] if reading.mixed_ids == "left-out" else [("one id in several arms", other)]
        kinds += [] if reading.id_result is not None else [("several rows of one id", ~other)]
        for kind, wrong in kinds:
            if not wrong.any():
                continue
            many, k = int(wrong.sum()), int(np.argmin(np.where(wrong, rows.lines[second], _LAST)))
            have, before = "1 row has" if many == 1 else f"{many} rows have", int(rows.lines[first[k]])
            if wrong is other:
                names = " and ".join(quoted(self._arms[rows.arms[each[k]]]) for each in (first, second))
                whose = f"the id of a row of another arm; this one that of {self._sheet.unit} {before} ({names})."
                remedy = (
                    "Remove those ids, because their results cannot tell the arms apart; or create the study with "
                    f"{option('mixed_ids')}."
                )
            else:
                same = f"the {self._key} of an earlier row and the same arm"
                whose = f"{same}; this one that of {self._sheet.unit} {before}."
                remedy = (
                    "Results of one user or patient depend on each other: give one row for each, or create the study "
                    f"with {option('id_result')}."
                )
            self._sheet.problems.one(kind, int(rows.lines[second[k]]), f"{have} {whose}", remedy)

    def combine(self, reading: Reading, latest: float = math.inf) -> IdResults:
        """One result for each id by the rules of the study; windows count as closed up to the time `latest`."""
        rows = self.rows
        ids, first, which = np.unique(rows.ids, return_index=True, return_inverse=True)
        size, start, inside = len(ids), np.full(len(ids), -math.inf), np.ones(len(rows.ids), dtype=np.bool_)
        if reading.id_window is not None:
            start = np.full(size, math.inf)
            np.fmin.at(start, which, rows.times)
            inside = rows.times < start[which] + reading.window
        low, high = np.full(size, len(self._arms)), np.full(size, -1)
        np.minimum.at(low, which[inside], rows.arms[inside])
        np.maximum.at(high, which[inside], rows.arms[inside])
        there = inside & ~np.isnan(rows.values)
        at, values = which[there], rows.values[there]
        many = np.bincount(at, minlength=size)
        if reading.id_result in ("max", "any"):
            found = np.full(size, -math.inf)
            np.maximum.at(found, at, (values != 0).astype(np.float64) if reading.id_result == "any" else values)
        else:
            found = np.zeros(size)
            with np.errstate(over="ignore", invalid="ignore"):
                np.add.at(found, at, values)
                found = found if reading.id_result == "sum" else found / np.maximum(many, 1)
        lacking = np.bincount(which[inside & ~there], minlength=size) > 0  # what all rows lead to is not known
        lacking &= (reading.id_result != "any") | (found != 1)
        found = reading.results(np.where((many == 0) | lacking | (low != high), math.nan, found))
        divisors = np.bincount(which[inside], rows.denominators[inside], size).astype(np.float64)
        one = IdRows(
            ids, rows.lines[first], rows.arms[first], found, rows.items[first], start, rows.covariates[first], divisors
        )
        closed = start + reading.window <= latest if reading.id_window is not None else np.ones(size, dtype=np.bool_)
        return IdResults(
            one, np.bincount(which[inside], minlength=size), first, closed, low != high, int((~inside).sum())
        )


def contradictions(rows: IdRows, recorded: RecordedFiles, arms: Sequence[str], seed: int) -> Contradicted | None:
    """The recorded ids whose rows disagree with the record; None if there are none."""
    ids, known = recorded.outcomes
    if not len(ids) or not len(rows.ids):
        return None

    def is_recorded(which: IdRows) -> Bools:
        return np.isin(with_outcome(which.ids, outcome_codes(arms, which, seed)), known)

    wrong = rows.only(np.isin(rows.ids, ids) & ~is_recorded(rows))
    by_arm = (is_recorded(wrong._replace(arms=np.full(len(wrong.ids), arm))) for arm in range(len(arms)))
    elsewhere, gone = np.logical_or.reduce([*by_arm]), np.isnan(wrong.values)
    differs = ~(gone & elsewhere)  # an id of several arms has no result, whichever of them comes first
    if not differs.any():
        return None
    other, moved, gone = wrong.only(differs), elsewhere[differs], gone[differs]
    late = is_recorded(other._replace(values=np.full(len(gone), np.nan))) & ~gone
    kinds = {"outcome": ~(moved | late | gone), "arm": moved, "late": late & ~moved, "gone": gone}
    files = [
        ContradictedFile(each.digest, each.name, int(np.isin(other.ids, each.id_hashes).sum()))
        for each in recorded.told
        if each.id_outcomes is not None
    ]
    return Contradicted(
        {kind: int(which.sum()) for kind, which in kinds.items() if which.any()},
        tuple(sorted(other.lines.tolist())[:LINES]),
        tuple(each for each in files if each.rows),
    )


@dataclass(frozen=True)
class RecordedFiles:
    """The recorded results of a study, and the number of results it waits for."""

    told: Sequence[Results] = ()
    waiting: Floats | None = None  # (K)
    total: ArmSums | None = None  # of all results, where not all files are here
    starts: Sequence[FileStart] = ()  # of files that are not here
    items: Hashes | None = None  # of earlier rounds, ascending; None where it does not matter
    listed: Hashes | None = None  # items that there may be, ascending; None where there may be any
    repeats: bool = False  # whether an item may have several, by their number
    past: Sequence[Results] = ()  # imported past files: never evidence
    is_recorded: Callable[[str], bool] = lambda digest: False  # whether a file that is not here has these contents

    @cached_property
    def ids(self) -> Hashes:
        """Of all rows, ascending."""
        found = [each.id_hashes for each in (*self.told, *self.past) if each.ids is not None]
        return np.unique(np.concatenate([_NONE, *found]))

    @cached_property
    def outcomes(self) -> tuple[Hashes, Hashes]:
        """Ids of which it is known what was recorded, and each of them with that."""
        some = [(each.id_hashes, each.outcome_hashes) for each in self.told if each.id_outcomes is not None]
        ids = np.concatenate([_NONE, *(each for each, _ in some)])
        return ids, np.concatenate([_NONE, *(with_outcome(*each) for each in some)])

    @property
    def waiting_units(self) -> tuple[Hashes, Floats]:
        """The ids whose windows were open in the last file, ascending, and the time of the first row of each."""
        last = next((each for each in reversed(self.told) if each.ids is not None), None)
        if last is None or last.waiting_ids is None or last.waiting_since is None:
            return _NONE, np.zeros(0)
        return unpack_hashes(last.waiting_ids), unpack_numbers(last.waiting_since)

    @cached_property
    def sums(self) -> ArmSums | None:
        """Of all results; None without any."""
        if self.total is not None or not self.told:
            return self.total
        return reduce(ArmSums.plus, map(ArmSums.of, self.told))

    def holds(self, digest: str) -> bool:
        """Whether a file of the same contents is recorded."""
        return any(each.digest == digest for each in self.told) or self.is_recorded(digest)

    def has(self, ids: Hashes) -> Bools:
        return among(self.ids, ids)

    def has_item(self, items: Hashes) -> Bools:
        """Which items were used in an earlier round."""
        return among(_NONE if self.items is None else self.items, items)

    def refuse_start(self, name: str, row_store: RowStore, arms: Sequence[str], seed: int) -> None:
        """Raise an error if a file begins with the rows of a recorded or imported file."""
        imported = {each.start: each for each in self.past if each.start is not None}
        starts = {*self.starts, *(each.start for each in self.told if each.start is not None)}
        found = marks(row_store.after(), [each.rows for each in {*starts, *imported}], arms, seed)
        for start, each in imported.items():
            if found.get(start.rows) == start.in_order:
                raise _imported(name, each)
        same = [each.rows for each in starts if found.get(each.rows) == each.in_order]
        if same:
            raise refusal(
                name,
                f"it begins with the {max(same)} rows of a file that is recorded.",
                Remedy("Use {@cumulative} to count only what comes after them, or {@new} if all of it is new."),
            )
        bag = RowBag.of(row_store.after(), arms, seed)
        if bag.mark and any(each.in_any_order == bag.mark for each in {*starts, *imported}):
            raise refusal(
                name,
                f"it has the {row_store.rows} rows of a file that is recorded, in another order.",
                Remedy("Use {@new} if all of it is new."),
            )
        if bag.times > 1:
            raise refusal(
                name,
                f"every row comes {'twice' if bag.times == 2 else f'{bag.times} times'}, as after a join.",
                Remedy("Give each result once, or use {@new} if all of them are results."),
            )

    def refuse_taught(self, name: str, digest: str) -> None:
        """Raise an error if a file has the contents of an imported past file."""
        for each in self.past:
            if each.digest == digest:
                raise _imported(name, each)

    def possible_total(self, file: ArmSums, noise: Noise) -> tuple[int, int] | None:
        """How many results a file brings as it is, and as the running total that it could be; None if it cannot be one.

        Exactly the awaited results need no warning.
        """
        if self.sums is None or not file.contains(self.sums, noise.outcome.low, noise.outcome.high):
            return None
        if self.waiting is not None and np.array_equal(file.counts, self.waiting):
            return None
        results = int(file.counts.sum())
        return results, results - int(self.sums.counts.sum())

    def recorded_rows(self, name: str, row_store: RowStore, arms: Sequence[str], seed: int) -> int:
        """How many rows at the start of a running total are recorded; an error unless all that are recorded are."""
        if any(each.form != "rows" for each in self.told):
            found = "sums are recorded, which rows cannot be compared with."
            raise refusal(name, found, Remedy("Give sums again, or use {@new}."))
        skipped, left = 0, {each.start for each in self.told if each.start is not None}
        while left and skipped < row_store.rows:
            known = marks(row_store.after(skipped), [each.rows for each in left], arms, seed)
            same = [each for each in left if known.get(each.rows) == each.in_order]
            if not same:
                break
            longest = max(same, key=lambda start: start.rows)
            skipped += longest.rows
            left.remove(longest)
        recorded = sum(each.rows for each in self.told)
        if skipped != recorded:
            raise refusal(
                name,
                f"it begins with {skipped} of the {recorded} rows that are recorded, so it is not a running total.",
                Remedy(
                    "The rows of a running total must come in the order in which they were recorded; with a column of "
                    "ids ({@id_column}) any order will do."
                ),
            )
        return skipped

    def difference(self, name: str, file: ArmSums, noise: Noise, zero_one: bool) -> ArmSums:
        """The difference of a running total to the record; an error if it cannot be one."""
        if self.sums is None or not self.sums.counts.any():
            return file
        low, high = (0.0, 1.0) if zero_one else (noise.outcome.low, noise.outcome.high)
        if not file.contains(self.sums, low, high):
            raise refusal(
                name,
                "this is not a running total: some arm has less than what is recorded.",
                Remedy("Give the sums of everything since the study began, or leave out {@cumulative}."),
            )
        rest = file.minus(self.sums)
        return rest._replace(scatter=None if rest.scatter is None else np.maximum(rest.scatter, 0.0))


class ArmSums(NamedTuple):
    """Sums of results, (K) each."""

    counts: Floats
    totals: Floats
    scatter: Floats | None = None  # sum (x - mean)^2 within each arm

    @classmethod
    def of(cls, results: Results) -> ArmSums:
        return cls(results.counts, results.totals, results.scatter)

    def plus(self, other: ArmSums) -> ArmSums:
        both = ArmSums(self.counts + other.counts, self.totals + other.totals)
        if self.scatter is None or other.scatter is None:
            return both
        return both._replace(scatter=self.scatter + other.scatter + self._between(other))

    def minus(self, part: ArmSums) -> ArmSums:
        """Without a part; the scatter is negative where it cannot have been a part."""
        rest = ArmSums(self.counts - part.counts, self.totals - part.totals)
        if self.scatter is None or part.scatter is None:
            return rest
        return rest._replace(scatter=self.scatter - part.scatter - part._between(rest))

    def contains(self, part: ArmSums, low: float, high: float) -> bool:
        """Whether these could be all results of the other, and more, each of them between low and high."""
        rest = self.minus(part)
        if not part.counts.any() or (rest.counts < 0).any():
            return False
        slack = 1e-9 * (1.0 + np.abs(self.totals))
        with np.errstate(invalid="ignore"):
            least, most = (np.where(rest.counts > 0, rest.counts * end, 0.0) for end in (low, high))
        if ((rest.totals < least - slack) | (rest.totals > most + slack)).any():
            return False
        return (
            rest.scatter is None or self.scatter is None or bool((rest.scatter >= -1e-6 * (1.0 + self.scatter)).all())
        )

    def _between(self, other: ArmSums) -> Floats:
        """What the scatter of both together has beyond theirs: n m / (n + m) (difference of the means)^2."""
        gap = self.totals / np.maximum(self.counts, 1.0) - other.totals / np.maximum(other.counts, 1.0)
        return self.counts * other.counts / np.maximum(self.counts + other.counts, 1.0) * gap * gap


def _imported(name: str, past: Results) -> DataError:
    held = f"it holds the results of {past.name}, which were imported as earlier data and cannot be evidence, too."
    return refusal(name, held, "Tell what came after them.")


def nothing_new(name: str, rows: int, but: FileNote | None = None) -> DataError:
    """The error for a file without new rows, some of which (`but`) differ from the record."""
    differs = "" if but is None else f" {but.text}"
    return DataError(f"{name} brings nothing new: all of its {rows} rows are recorded.{differs} Nothing was changed.")


def sums_of_arms(files: Iterable[tuple[Sequence[str], Results]], wanted: Sequence[str]) -> list[Results]:
    """The files, each with its own list of arms, as sums for the arms `wanted`."""
    return [each if list(names) == list(wanted) else _sums_of_arms(each, names, wanted) for names, each in files]


def _sums_of_arms(each: Results, names: Sequence[str], wanted: Sequence[str]) -> Results:
    place = {name: i for i, name in enumerate(names)}
    at = np.array([place.get(name, len(names)) for name in wanted], dtype=np.int64)  # the last is 0

    def taken(values: Floats) -> Floats:
        return np.append(values, 0.0)[at]

    scatter = None if each.scatter is None else taken(each.scatter)
    missing = None if each.missing is None else taken(each.missing)
    sums = replace(each, counts=taken(each.counts), totals=taken(each.totals), scatter=scatter, missing=missing)
    return replace(sums, strata=None)
