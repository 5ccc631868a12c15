"""Nothing is counted twice: what a study has recorded, as far as a new file must be compared with it.

New results, or a running total of what is recorded? Let m results with total S be recorded of an arm, and a file have
n >= m with total T. A running total has r = n - m results that are not recorded, with total t = T - S. Both stories
predict their total from what is recorded, t by the law of r results and T by that of n. With L the likelihood of a
running total over that of new results, the true story makes L misleading by a factor c with probability at most 1/c
(Markov), whichever of the two it is. Where somebody said that files are new, or a file has just what was asked for
(`fits`), it is taken for a running total if L is above `RARE`: new results are so at most once in `RARE` times. L rests
on a rate that stays the same, so it is never a reason to let pass what nobody spoke for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.errors import DataError, said
from roundwise.estimates import Past
from roundwise.noise import Noise, variances
from roundwise.state import Batch
from roundwise.studies.packing import Hashes
from roundwise.studies.results.ids import among, marks, mostly_among, with_outcome
from roundwise.studies.results.lots import Spool
from roundwise.studies.results.recorded import Results, Start
from roundwise.tables.words import refusal

_NONE: Hashes = np.zeros(0, dtype=np.uint64)
RARE = 1000.0
_EQUAL = math.log(RARE)  # what it says that as many results have the same sum: much, if not everything


def log_ratio(noise: Noise, zero_one: bool, recorded: Batch, file: Batch) -> float:
    """The logarithm of L, over all arms; every arm of the file has at least as many results as are recorded.

    1010 results, 101 of them ones, hold 1000 with 100 only too well; 105 ones are just what new results look like.

    >>> import numpy as np
    >>> from roundwise.noise import Binary
    >>> old = Batch(np.array([1000.0]), np.array([100.0]))
    >>> [round(log_ratio(Binary(), True, old, Batch(np.array([1010.0]), np.array([t]))), 1) for t in (101.0, 105.0)]
    [2.6, -2.8]
    """
    some = recorded.counts > 0
    m, s = recorded.counts[some], recorded.totals[some]
    n, whole = file.counts[some], file.totals[some]
    r, t = n - m, whole - s
    if zero_one:
        logs = _beta_binomial(t, r, s, m) - _beta_binomial(whole, n, s, m)
    else:
        v = np.maximum(variances(noise, Past.none(recorded.counts.shape).plus(recorded)), 1e-300)[some]
        gap = t - r * (s / m)  # the same for both stories
        narrow, wide = v * r * n / m, v * n * (m + n) / m  # its variance if t, or T, is predicted
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = 0.5 * (np.log(wide / narrow) - gap**2 * (1.0 / narrow - 1.0 / wide))
        logs = np.where(r > 0, logs, _EQUAL)
    return float(logs.sum())


def fits(counts: Floats, asked: Floats | None, first: bool) -> bool:
    """Whether counts are just as many as were asked for; of the `first` file of a round, as a random split has them."""
    if asked is None:
        return True
    some = counts > 0
    if np.array_equal(counts[some], asked[some]):
        return True
    if not first or (counts[asked <= 0] > 0).any() or not asked.any():
        return False
    from scipy.special import chdtri

    wanted, came = asked[asked > 0], counts[asked > 0]
    return bool(((came - wanted) ** 2 / wanted).sum() <= chdtri(len(wanted), 1.0 / RARE))


def _beta_binomial(ones: Floats, of: Floats, seen: Floats, among: Floats) -> Floats:
    """The chance of so many ones among so many, after `seen` ones among others (a uniform prior of the rate)."""
    from scipy.special import betaln, gammaln

    ways = gammaln(of + 1) - gammaln(ones + 1) - gammaln(of - ones + 1)
    a, b = seen + 1.0, among - seen + 1.0
    return np.asarray(ways + betaln(a + ones, b + of - ones) - betaln(a, b))


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
    fresh: bool = False  # whether nothing was told of the open round yet
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

    @property
    def believed(self) -> bool:
        """Whether somebody said that files bring new results."""
        return bool(self.told) and self.told[-1].new

    @property
    def running(self) -> bool:
        """Whether files were running totals so far."""
        return bool(self.told) and self.told[-1].running

    def not_said(self, name: str) -> None:
        """Raise an error where files were running totals so far, and nobody said what this one is."""
        if self.running and self.waiting is not None:
            raise refusal(name, "the files before it were running totals: is this one, too?", _which())

    def has(self, ids: Hashes) -> Bools:
        """Which ids are among them."""
        return among(self.ids, ids)

    def known(self, items: Hashes) -> Bools:
        """Which items were used in an earlier round."""
        return among(_NONE if self.items is None else self.items, items)

    @cached_property
    def together(self) -> Amounts:
        """The sums of all results."""
        return self.total if self.total is not None else reduce(Amounts.plus, [_amounts(each) for each in self.told])

    # --- rows

    def repeated_rows(self, name: str, spool: Spool, arms: Sequence[str], seed: int, cumulative: bool) -> int:
        """How many rows at the start of a file are recorded; an error if that is so and nobody said what it means."""
        starts = {each.start for each in self.told if each.start is not None}
        if not cumulative:
            asked = {each for each in (*starts, *self.starts) if each.telling or not self.believed}
            found = marks(spool.after(), [each.rows for each in asked], arms, seed)
            same = [each.rows for each in asked if found.get(each.rows) == each.mark]
            if same:
                raise refusal(
                    name,
                    f"this looks like a running total: it begins with the {max(same)} rows of a file that is recorded.",
                    _which(),
                )
            return 0
        if not self.told:
            return 0
        if any(each.form != "rows" for each in self.told):
            raise refusal(name, "sums are recorded, which rows cannot be compared with.", "Give sums again, or --new.")
        skipped, left = 0, set(starts)
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

    def mixed_in(self, name: str, spool: Spool, arms: Sequence[str], seed: int) -> None:
        """Raise an error where most rows of a file that is recorded stand among those of another, in any order."""
        for each in self.told:
            if mostly_among(each.some, spool.after(), arms, seed):
                what = f"this looks like a running total: most rows of {each.name}, which is recorded, stand in it."
                raise refusal(name, what, _which())

    def reordered(self, name: str, file: Amounts, noise: Noise) -> None:
        """Raise an error where rows may be all that is recorded in another order, and more.

        0 and 1 are counted by arm and outcome, as sums are. Other values are asked about where that is far likelier, or
        where all that is recorded and just what was asked for would make as many.
        """
        low, high, whole, *_ = noise.outcome
        if not self.told or not file.contains(self.together, low, high):
            return
        zero_one = whole and (low, high) == (0.0, 1.0)
        rest, asked = file.counts - self.together.counts, self.waiting
        new = fits(file.counts, asked, self.fresh) if zero_one else asked is None or not np.array_equal(rest, asked)
        if not ((self.believed or new) and self._new(file, [self.together], noise, zero_one)):
            raise refusal(name, "this looks like a running total: it could hold all rows that are recorded.", _which())

    # --- sums

    def new_sums(self, name: str, file: Amounts, noise: Noise, zero_one: bool, cumulative: bool) -> Amounts:
        """What sums bring beyond what is recorded; an error if that is not clear."""
        if not self.told:
            return file
        low, high = (0.0, 1.0) if zero_one else (noise.outcome.low, noise.outcome.high)
        zero_one = zero_one or (noise.outcome.whole and (low, high) == (0.0, 1.0))
        if not cumulative:
            parts = [each for each in (_amounts(self.told[-1]), self.together) if file.contains(each, low, high)]
            as_asked = self.believed or fits(file.counts, self.waiting, self.fresh)
            if parts and not (as_asked and self._new(file, parts, noise, zero_one)):
                raise refusal(name, "this looks like a running total: no arm has less than what is recorded.", _which())
            return file
        if not file.contains(self.together, low, high):
            raise refusal(
                name,
                "this is no running total: some arm has less than what is recorded.",
                "Give the sums of everything since the study began, or leave --cumulative out.",
            )
        rest = file.minus(self.together)
        return rest._replace(scatter=None if rest.scatter is None else np.maximum(rest.scatter, 0.0))

    # --- earlier data

    def not_past(self, name: str, digest: str, file: Amounts, noise: Noise) -> None:
        """Raise an error where a file holds data that were imported to teach, by its contents or its sums."""
        low, high, whole, *_ = noise.outcome
        zero_one = whole and (low, high) == (0.0, 1.0)
        for each in self.past:
            sums = _amounts(each)
            likely = each.ids is None and file.contains(sums, low, high)
            if likely and not np.array_equal(file.counts, sums.counts):
                likely = log_ratio(noise, zero_one, Batch(*sums), Batch(*file)) > math.log(RARE)
            if likely or each.digest == digest:
                raise _imported(name, each)

    def not_past_rows(self, name: str, spool: Spool, arms: Sequence[str], seed: int, telling: bool) -> None:
        """Raise an error where a file begins with rows that were imported to teach, or has most of `telling` ones."""
        starts = {each.start: each for each in self.past if each.start is not None}
        found = marks(spool.after(), [each.rows for each in starts], arms, seed)
        for start, each in starts.items():
            begins = start.telling and found.get(start.rows) == start.mark
            if begins or (telling and mostly_among(each.some, spool.after(), arms, seed)):
                raise _imported(name, each)

    def _new(self, file: Amounts, parts: Sequence[Amounts], noise: Noise, zero_one: bool) -> bool:
        """Whether sums that could hold these parts may be new: not the same, and not far likelier to hold them."""
        if not self.believed and any(np.array_equal(file.counts, each.counts) for each in parts):
            return False
        return all(log_ratio(noise, zero_one, Batch(*each), Batch(*file)) <= math.log(RARE) for each in parts)


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


def _which() -> str:
    difference, new = said("cumulative=True", "--cumulative"), said("again=True", "--new")
    return f"Say {difference} to take the difference, or {new} if all of it is new (and later files are believed)."


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
