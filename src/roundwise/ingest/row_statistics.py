"""Streaming statistics of single rows, a few numbers per arm, that the checks of the noise model use.

Moments of files and rounds are combined by the pairwise formulas (Pebay 2008), so nothing grows with the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats, quiet
from roundwise.ingest.columns import Index

FIRST = 20  # rows of an arm from which the value is taken whose repetitions are counted, and rows of the first check


class Moments(NamedTuple):
    """Sums of powers about the mean of each arm, and its extremes. (K) each"""

    counts: Floats
    means: Floats
    second: Floats  # sum (x - mean)^2
    third: Floats
    fourth: Floats
    groups: Floats  # means that were taken off: of all rows, or of each large round
    low: Floats  # the smallest value; inf without rows
    at_low: Floats  # how often it came
    high: Floats
    at_high: Floats
    capped: Floats  # rows beyond the cap, or below the floor
    cut: Floats  # how far beyond, in all

    @classmethod
    def none(cls, arms: int) -> Moments:
        """Before the first row."""
        no, inf = np.zeros(arms), np.full(arms, np.inf)
        return cls(no, no, no, no, no, no, inf, no, -inf, no, no, no)

    @quiet
    def plus(self, other: Moments, own_means: Bools | bool = False) -> Moments:
        """With more rows; arms with `own_means` leave out how far their means lie from those before. (K)

        Rounds may differ by a shift of all arms, which the noise models allow and these checks must not see.
        """
        n, m = self.counts, other.counts
        size = np.maximum(n + m, 1.0)
        off, shared = other.means - self.means, (n > 0) & (m > 0) & ~np.asarray(own_means)
        apart = np.where(shared, off, 0.0)
        second = self.second + other.second + apart**2 * n * m / size
        third = self.third + other.third + apart**3 * n * m * (n - m) / size**2
        third += 3 * apart * (n * other.second - m * self.second) / size
        fourth = self.fourth + other.fourth + apart**4 * n * m * (n * n - n * m + m * m) / size**3
        fourth += 6 * apart**2 * (n * n * other.second + m * m * self.second) / size**2
        fourth += 4 * apart * (n * other.third - m * self.third) / size
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(
            n + m,
            self.means + off * m / size,
            second,
            third,
            fourth,
            self.groups + other.groups - shared,
            low,
            self.at_low * (self.low == low) + other.at_low * (other.low == low),
            high,
            self.at_high * (self.high == high) + other.at_high * (other.high == high),
            self.capped + other.capped,
            self.cut + other.cut,
        )

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of `second`."""
        return self.counts - self.groups

    @property
    @quiet
    def skewness(self) -> Floats:
        """g1 of each arm; nan where all values are equal."""
        return np.sqrt(self.counts) * self.third / self.second**1.5

    @property
    @quiet
    def kurtosis(self) -> Floats:
        """b2 of each arm, 3 for normal rows; nan where all values are equal."""
        return self.counts * self.fourth / self.second**2


class Repetition(NamedTuple):
    """How often one value comes again: the commonest of the first rows of an arm, counted in the rows after them."""

    first: Floats  # (K, up to 20), rows before the value was chosen; nan where there are fewer
    value: Floats  # (K), nan until there are 20 rows
    rows: Floats  # (K), those after
    hits: Floats  # (K), those of them with a value that was chosen before

    @classmethod
    def none(cls, arms: int) -> Repetition:
        """Before the first row."""
        no = np.zeros(arms)
        return cls(np.zeros((arms, 0)), np.full(arms, np.nan), no, no)

    def plus(self, file: Repetition) -> Repetition:
        """With the rows of a file; whichever value each is compared with, it was chosen before."""
        both = np.concatenate([self.first, file.first], axis=1)
        both = np.take_along_axis(both, np.argsort(np.isnan(both), axis=1, kind="stable"), axis=1)
        there, chosen = ~np.isnan(both), ~np.isnan(self.value)
        new = ~chosen & (there.sum(axis=1) >= FIRST)
        value = self.value.copy()
        value[new] = _commonest(both[new, :FIRST])
        later = there & (chosen | new)[:, None]
        later[:, :FIRST] &= ~new[:, None]
        hits = (later & (both == value[:, None])).sum(axis=1)
        first = np.where((chosen | new)[:, None], np.nan, both)
        width = int((~np.isnan(first)).sum(axis=1).max(initial=0))
        rows = self.rows + file.rows + later.sum(axis=1)
        return Repetition(first[:, :width], value, rows, self.hits + file.hits + hits)


class RowStatistics(NamedTuple):
    """What is kept of the rows of a file, or of all files of a study."""

    moments: Moments
    repetition: Repetition

    @classmethod
    def none(cls, arms: int) -> RowStatistics:
        """Before the first row."""
        return cls(Moments.none(arms), Repetition.none(arms))

    def fits(self, arms: int) -> bool:
        """Whether every array is there, for so many arms: a record may have been changed by hand."""
        arrays = (*self.moments, *self.repetition)
        return all(isinstance(each, np.ndarray) and each.shape[:1] == (arms,) for each in arrays)

    def of_arms(self, names: Sequence[str], wanted: Sequence[str]) -> RowStatistics:
        """The statistics of the arms `names` for the arms `wanted`, with none for an arm that is new."""
        if tuple(names) == tuple(wanted):
            return self
        place = {name: i for i, name in enumerate(names)}
        at = np.array([place.get(name, len(names)) for name in wanted], dtype=np.int64)
        nothing = RowStatistics.none(1)
        width = self.repetition.first.shape[1]
        repetition = nothing.repetition._replace(first=np.full((1, width), np.nan))

        def taken(own: Any, none: Any) -> Any:
            return type(own)(*(np.concatenate([one, other])[at] for one, other in zip(own, none, strict=True)))

        return RowStatistics(taken(self.moments, nothing.moments), taken(self.repetition, repetition))


class RowCounter:
    """Rows on their way to statistics: each added in turn, so that the bits do not depend on how a file is cut up."""

    def __init__(self, counts: Floats, totals: Floats, repetition: bool = True) -> None:
        size = len(counts)
        self._first_rows = FIRST if repetition else 0
        self._found = Moments.none(size)._replace(
            counts=counts, means=totals / np.maximum(counts, 1.0), groups=(counts > 0).astype(np.float64)
        )
        self._powers = np.zeros((3, size))
        self._low, self._high = np.full(size, np.inf), np.full(size, -np.inf)
        self._at_low, self._at_high = np.zeros(size), np.zeros(size)
        self._capped, self._cut = np.zeros(size), np.zeros(size)
        self._first = np.full((size, self._first_rows), np.nan)
        self._rows, self._hits = np.zeros(size), np.zeros(size)
        self._value = np.full(size, np.nan)
        self._filled = np.zeros(size, dtype=np.int64)

    @quiet
    def add(self, arms: Index, values: Floats, places: Index, beyond: Floats | None = None) -> None:
        """Rows with the arm of each, its place among the rows of that arm, and how far beyond a cap it was."""
        if beyond is not None:
            np.add.at(self._capped, arms, (beyond != 0).astype(np.float64))
            np.add.at(self._cut, arms, np.abs(beyond))
        off = values - self._found.means[arms]
        for k, power in enumerate((off**2, off**3, off**4)):
            np.add.at(self._powers[k], arms, power)
        self._low, self._at_low = _extreme(np.minimum, self._low, self._at_low, arms, values)
        self._high, self._at_high = _extreme(np.maximum, self._high, self._at_high, arms, values)
        if not self._first_rows:
            return
        early = places < FIRST
        self._first[arms[early], places[early]] = values[early]
        np.add.at(self._filled, arms[early], 1)
        ready = np.isnan(self._value) & (self._filled == FIRST)
        self._value[ready] = _commonest(self._first[ready])
        np.add.at(self._rows, arms[~early], 1.0)
        np.add.at(self._hits, arms[~early], (values == self._value[arms])[~early].astype(np.float64))

    def statistics(self) -> RowStatistics:
        """The statistics of all rows that were added."""
        second, third, fourth = self._powers
        found = self._found._replace(second=second, third=third, fourth=fourth)
        found = found._replace(low=self._low, at_low=self._at_low, high=self._high, at_high=self._at_high)
        found = found._replace(capped=self._capped, cut=self._cut)
        width = int(self._filled.max(initial=0))
        return RowStatistics(found, Repetition(self._first[:, :width], self._value, self._rows, self._hits))


def _extreme(which: np.ufunc, known: Floats, often: Floats, arms: Index, values: Floats) -> tuple[Floats, Floats]:
    """The extreme value of each arm with some rows more, and how often it came."""
    found = known.copy()
    which.at(found, arms, values)
    again = np.where(found == known, often, 0.0)
    np.add.at(again, arms, (values == found[arms]).astype(np.float64))
    return found, again


def _commonest(first: Floats) -> Floats:
    """The value that came most often in each line, the first of several. (n, 20) -> (n)"""
    if not first.size:
        return np.zeros(len(first))
    often = (first[:, :, None] == first[:, None, :]).sum(axis=-1)
    return np.take_along_axis(first, often.argmax(axis=1)[:, None], axis=1)[:, 0]
