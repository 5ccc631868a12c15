"""Nothing is counted twice: what a study has recorded, as far as a new file must be compared with it.

What is told is new, with exceptions that are certain. The same contents are refused (`Study.tell`), ids that are
recorded are skipped, of a `cumulative` file the difference counts, and a file that begins with the rows of a recorded
one is refused until somebody says that it is new. A file whose sums could be a running total counts, with a warning.
Nothing is guessed about values that come as Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import DataError, said
from roundwise.formats.messages import refusal, spoken
from roundwise.ingest.record import Results, Start
from roundwise.ingest.row_ids import among, marks, with_outcome
from roundwise.ingest.row_store import Spool
from roundwise.noise import Noise
from roundwise.serialization import Hashes

_NONE: Hashes = np.zeros(0, dtype=np.uint64)
IN_ORDER = (
    "The rows of a running total must come in the order in which they were recorded; name a column of ids "
    "(--id-column) and any order will do."
)


@dataclass(frozen=True)
class Earlier:
    """All results that a study holds, and how many results it waits for."""

    told: Sequence[Results] = ()
    waiting: Floats | None = None  # (K)
    total: Amounts | None = None  # of all results, where not all files are here
    starts: Sequence[Start] = ()  # of files that are not here
    items: Hashes | None = None  # of earlier rounds, ascending; None where it does not matter
    past: Sequence[Results] = ()  # what was imported to teach: never evidence

    @classmethod
    def of(
        cls, files: Iterable[tuple[Sequence[str], Results]], arms: Sequence[str], waiting: Floats | None = None
    ) -> Earlier:
        """The files with the arms that each was told for, as results of the present arms."""
        return cls([_of_arms(each, names, arms) for names, each in files], waiting)

    @cached_property
    def ids(self) -> Hashes:
        """Of all rows, ascending."""
        found = [each.hashes for each in (*self.told, *self.past) if each.ids is not None]
        return np.unique(np.concatenate([_NONE, *found]))

    @cached_property
    def outcomes(self) -> tuple[Hashes, Hashes]:
        """Ids of which it is known what was recorded, and each of them with that."""
        some = [(each.hashes, each.outcomes) for each in self.told if each.codes is not None]
        ids = np.concatenate([_NONE, *(each for each, _ in some)])
        return ids, np.concatenate([_NONE, *(with_outcome(*each) for each in some)])

    def holds(self, digest: str) -> bool:
        """Whether a file of the same contents is among them."""
        return any(each.digest == digest for each in self.told)

    def has(self, ids: Hashes) -> Bools:
        """Which ids are among them."""
        return among(self.ids, ids)

    def known(self, items: Hashes) -> Bools:
        """Which items were used in an earlier round."""
        return among(_NONE if self.items is None else self.items, items)

    @cached_property
    def together(self) -> Amounts | None:
        """The sums of all results; None without any."""
        if self.total is not None:
            return self.total
        return reduce(Amounts.plus, [_amounts(each) for each in self.told]) if self.told else None

    # --- files

    def refuse_start(self, name: str, spool: Spool, arms: Sequence[str], seed: int) -> None:
        """Raise an error where a file begins with the rows of one that is recorded, or was imported to teach."""
        taught = {each.start: each for each in self.past if each.start is not None}
        starts = {*self.starts, *(each.start for each in self.told if each.start is not None)}
        found = marks(spool.after(), [each.rows for each in {*starts, *taught}], arms, seed)
        for start, each in taught.items():
            if found.get(start.rows) == start.mark:
                raise _imported(name, each)
        same = [each.rows for each in starts if found.get(each.rows) == each.mark]
        if same:
            difference, new = said("cumulative=True", "--cumulative"), said("again=True", "--new")
            raise refusal(
                name,
                f"it begins with the {max(same)} rows of a file that is recorded.",
                f"Say {difference} to count only what comes after them, or {new} if all of it is new.",
            )

    def refuse_taught(self, name: str, digest: str) -> None:
        """Raise an error where a file has the contents of one that was imported to teach."""
        for each in self.past:
            if each.digest == digest:
                raise _imported(name, each)

    def warning(self, name: str, file: Amounts, noise: Noise) -> str | None:
        """What is said of a file that could be a running total, with what it brings in either case; None if it cannot.

        Just what is waited for needs no word.
        """
        low, high, *_ = noise.outcome
        if self.together is None or not file.contains(self.together, low, high):
            return None
        if self.waiting is not None and np.array_equal(file.counts, self.waiting):
            return None
        new = int(file.counts.sum())
        more = new - int(self.together.counts.sum())
        return spoken(
            f"{name}: no arm has less than what is recorded, so this could be a running total. It counts as {new} new "
            f"results; as a running total (--cumulative) it would bring {more}."
        )

    # --- running totals

    def recorded_rows(self, name: str, spool: Spool, arms: Sequence[str], seed: int) -> int:
        """How many rows at the start of a running total are recorded; an error unless all that are recorded are."""
        if any(each.form != "rows" for each in self.told):
            raise refusal(name, "sums are recorded, which rows cannot be compared with.", "Give sums again, or --new.")
        skipped, left = 0, {each.start for each in self.told if each.start is not None}
        while left and skipped < spool.rows:
            found = marks(spool.after(skipped), [each.rows for each in left], arms, seed)
            same_starts = [each for each in left if found.get(each.rows) == each.mark]
            if not same_starts:
                break
            longest = max(same_starts, key=lambda start: start.rows)
            skipped += longest.rows
            left.remove(longest)
        recorded = sum(each.rows for each in self.told)
        if skipped != recorded:
            raise refusal(
                name,
                f"it begins with {skipped} of the {recorded} rows that are recorded, so it is no running total.",
                IN_ORDER,
            )
        return skipped

    def difference(self, name: str, file: Amounts, noise: Noise, zero_one: bool) -> Amounts:
        """What a running total brings beyond what is recorded; an error where it cannot be one."""
        if self.together is None or not self.together.counts.any():
            return file
        low, high = (0.0, 1.0) if zero_one else (noise.outcome.low, noise.outcome.high)
        if not file.contains(self.together, low, high):
            raise refusal(
                name,
                "this is no running total: some arm has less than what is recorded.",
                "Give the sums of everything since the study began, or leave --cumulative out.",
            )
        rest = file.minus(self.together)
        return rest._replace(scatter=None if rest.scatter is None else np.maximum(rest.scatter, 0.0))


class Amounts(NamedTuple):
    """Sums of results, (K) each."""

    counts: Floats
    totals: Floats
    scatter: Floats | None = None  # sum (x - mean)^2 within each arm

    def plus(self, other: Amounts) -> Amounts:
        """Both together."""
        both = Amounts(self.counts + other.counts, self.totals + other.totals)
        if self.scatter is None or other.scatter is None:
            return both
        return both._replace(scatter=self.scatter + other.scatter + self._between(other))

    def minus(self, part: Amounts) -> Amounts:
        """Without a part; the scatter is negative where it cannot have been a part."""
        rest = Amounts(self.counts - part.counts, self.totals - part.totals)
        if self.scatter is None or part.scatter is None:
            return rest
        return rest._replace(scatter=self.scatter - part.scatter - part._between(rest))

    def contains(self, part: Amounts, low: float, high: float) -> bool:
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

    def _between(self, other: Amounts) -> Floats:
        """What the scatter of both together has beyond theirs: n m / (n + m) (difference of the means)^2."""
        gap = self.totals / np.maximum(self.counts, 1.0) - other.totals / np.maximum(other.counts, 1.0)
        return self.counts * other.counts / np.maximum(self.counts + other.counts, 1.0) * gap * gap


def _imported(name: str, past: Results) -> DataError:
    held = f"it holds the results of {past.name}, which were imported as earlier data and cannot be evidence, too."
    return refusal(name, held, "Tell what came after them.")


def nothing_new(name: str, rows: int, but: str | None = None) -> DataError:
    """All that a file brings is recorded, `but` some of it otherwise."""
    otherwise = "" if but is None else f" {but}."
    return DataError(f"{name} brings nothing new: all of its {rows} rows are recorded.{otherwise} Nothing was changed.")


def _of_arms(each: Results, names: Sequence[str], wanted: Sequence[str]) -> Results:
    """The sums of the arms that are wanted; 0 of those that were not there."""
    if list(names) == list(wanted):
        return each
    place = {name: i for i, name in enumerate(names)}
    at = np.array([place.get(name, len(names)) for name in wanted], dtype=np.int64)

    def taken(values: Floats | None) -> Floats | None:
        return None if values is None else np.append(values, 0.0)[at]

    counts, totals = np.append(each.counts, 0.0)[at], np.append(each.totals, 0.0)[at]
    scatter, missing = taken(each.scatter), taken(each.missing)
    return replace(each, counts=counts, totals=totals, scatter=scatter, missing=missing, lots=None)


def _amounts(each: Results) -> Amounts:
    return Amounts(each.counts, each.totals, each.scatter)
