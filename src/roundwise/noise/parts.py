"""Bets of one size on the parts of a batch, and the data that they see.

Arrays have the parts first, then the arms, then runs with their random partitions as columns. A `LogFactor` is the log
of what bets of size q multiply their wealth by, for given parts: q D - q^2/2 for sub-Gaussian rewards. The size q is in
standard errors of the part, as the past knows them; q = 0 is no bet. Factors have mean at most 1 under their null for
every q >= 0 that is known before the part: each is the bet of the model's proposition with all its weight on one drift,
cut where it allows no more (docs/why-the-guarantee-holds.md, Proposition 20).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats
from roundwise.model.batch import Parts
from roundwise.model.estimates import Past
from roundwise.noise.bets import HUGE

Index = NDArray[np.intp]
LogFactor = Callable[[int, Floats], Floats]  # part, sizes (c) -> log factors (c)
NO_ROWS = 1e-18  # in place of a count of 0


class EarlierSums(NamedTuple):
    """Sums of all batches before, as columns. (K, n) each"""

    counts: Floats
    totals: Floats
    scatter: Floats
    freedom: Floats


class ValueRows(NamedTuple):
    """A table of the values in each part."""

    values: Floats  # (V)
    counts: Floats  # (V, P, K, n)


@dataclass(frozen=True)
class PartsData:
    """A batch in parts, and the sums before it."""

    before: EarlierSums
    counts: Floats  # (P, K, n)
    totals: Floats  # (P, K, n)
    scatter: Floats | None = None  # (P, K, n)
    rows: ValueRows | None = None
    jump: int = 0  # how bold the bets on it are (rules/eprocess/bet_sizes.py)
    pairs: PartsData | None = None  # of every two arms, (P, K^2, n)

    def at(self, columns: slice) -> PartsData:
        """Return some of the columns."""
        return PartsData(
            EarlierSums(*(each[:, columns] for each in self.before)),
            np.ascontiguousarray(self.counts[..., columns]),
            np.ascontiguousarray(self.totals[..., columns]),
            None if self.scatter is None else self.scatter[..., columns],
            None if self.rows is None else ValueRows(self.rows.values, self.rows.counts[..., columns]),
            self.jump,
            None if self.pairs is None else self.pairs.at(columns),
        )

    @cached_property
    def so_far(self) -> Floats:
        """Counts of all earlier batches, and of the parts before each. (P, K, n)"""
        return sums_before(self.counts, self.before.counts)

    @cached_property
    def totals_so_far(self) -> Floats:
        """Totals of the same."""
        return sums_before(self.totals, self.before.totals)

    @cached_property
    def scatter_so_far(self) -> tuple[Floats, Floats]:
        """Scatter within arms, batches and parts before each part, and its degrees of freedom."""
        if self.scatter is None:
            same = np.broadcast_to(self.before.scatter, self.counts.shape)
            return same, np.broadcast_to(self.before.freedom, self.counts.shape)
        freedom = np.maximum(self.counts - 1.0, 0.0)
        return sums_before(self.scatter, self.before.scatter), sums_before(freedom, self.before.freedom)


@dataclass(frozen=True)
class PartForm:
    """Forms of the means before each part, one for each bet: sum_s factors_s means[places_s] > offset."""

    found: list[Index] | Callable[[], list[Index]]  # the places, or how they are found
    factors: list[Floats] | None  # (P, c) each; None for pairs: 1 and -1
    offsets: Floats  # (P, c)

    @cached_property
    def places(self) -> list[Index]:
        """Of each arm in an array (P, K, n) as one row. (P, c) each"""
        return self.found() if callable(self.found) else self.found

    def of(self, values: Floats) -> Floats:
        """The form of values (P, K, n). (P, c)"""
        flat = values.reshape(-1)
        if self.factors is None:
            return flat.take(self.places[0]) - flat.take(self.places[1])
        return _add([f * flat.take(each) for f, each in zip(self.factors, self.places, strict=True)])

    def squares(self, values: Floats) -> Floats:
        """sum_s factors_s^2 values. (P, c)"""
        flat = values.reshape(-1)
        if self.factors is None:
            return flat.take(self.places[0]) + flat.take(self.places[1])
        return _add([f * f * flat.take(each) for f, each in zip(self.factors, self.places, strict=True)])

    def mean_of(self, values: Floats, weights: Floats) -> Floats:
        """The mean of values over the arms of a form, with these weights and the squares of the factors. (P, c)"""
        return self.squares(np.ascontiguousarray(values) * weights) / self.squares(weights)

    @cached_property
    def pair(self) -> Bools:
        """Which say that the first arm exceeds the second by the offset. (P, c)"""
        if self.factors is None:
            return np.ones(self.offsets.shape, dtype=np.bool_)
        if len(self.factors) < 2:
            return np.zeros(self.offsets.shape, dtype=np.bool_)
        rest = [each == 0 for each in self.factors[2:]]
        return np.logical_and.reduce([self.factors[0] == 1, self.factors[1] == -1, *rest])


def _add(arrays: list[Floats]) -> Floats:
    found = arrays[0]
    for each in arrays[1:]:
        found += each
    return found


class PartBets(ABC):
    """Bets of one size on the parts of a batch."""

    @property
    @abstractmethod
    def variances(self) -> Floats:
        """A guess at the variance of a result of each arm before each part, to compare arms. (P, K, n), or one."""

    def level_variances(self, level: float) -> Floats:
        """Return the same for bets on a level, from that arm alone."""
        return self.variances

    @abstractmethod
    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        """Return bets on a mean lying above a level (sign 1) or below it (-1).

        Args:
            arm: Places of the arms in an array (P, K, n) as one row. (P, c)
            sign: The direction of each bet. (P, c)
            distance: The mean in each part less the level, in the direction of the bet; it may be overwritten. (P, c)
            leverage: 1/n. (P, c)
            level: The level.
        """

    @abstractmethod
    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        """Return bets on forms of the means exceeding their offsets.

        Args:
            form: The forms. (P, c)
            value: The form of the means in each part less its offset; it may be overwritten. (P, c)
            leverage: sum_s f_s^2/n_s. (P, c)
        """

    def paired_statistics(self, form: PartForm) -> tuple[Floats, Floats, Floats] | None:
        """Return z and 1/items of the difference of two arms before each part, and 1/items in it; None without items.

        (P, c) each
        """
        return None


@dataclass(frozen=True)
class GaussianPartBets(PartBets):
    """exp(q D/sqrt v - q^2/2), for any form D of sub-Gaussian rewards (Lemma 1)."""

    sigma: float

    @property
    def variances(self) -> Floats:
        """The square of sigma."""
        return np.full((1, 1, 1), self.sigma**2)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        """Bet on the distance in each part."""
        return self._log_factor(distance, leverage)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        """Bet on the value of any form in each part."""
        return self._log_factor(value, leverage)

    def _log_factor(self, value: Floats, leverage: Floats) -> LogFactor:
        value /= np.sqrt(leverage) * self.sigma if self.sigma != 1.0 else np.sqrt(leverage)
        np.clip(value, -HUGE, HUGE, out=value)

        def log_factor(p: int, q: Floats) -> Floats:
            x = value[p]
            x -= 0.5 * q
            x *= q
            return x

        return log_factor


def sums_before(values: Floats, start: Floats | float = 0.0) -> Floats:
    """The start, plus the sum of all parts before each. (P, ...)"""
    found = np.empty_like(values)
    found[0] = start
    for p in range(1, len(values)):
        np.add(found[p - 1], values[p - 1], out=found[p])
    return found


def columns(array: Array, partitions: int) -> Array:
    """Runs (K) as columns (K, n), once for every random partition."""
    rows = array.transpose()
    if partitions > 1:
        rows = np.broadcast_to(rows[:, None], (rows.shape[0], partitions, *rows.shape[1:]))
    return np.ascontiguousarray(rows).reshape(rows.shape[0], -1)


def part_columns(array: Floats, partitions: int) -> Floats:
    """An array of parts (1 or M, K, P) with the parts first, a column for each partition of each run. (P, K, n)"""
    rows = array.transpose()
    if rows.shape[2] != partitions:
        rows = np.broadcast_to(rows, (*rows.shape[:2], partitions, *rows.shape[3:]))
    return np.ascontiguousarray(rows).reshape(*rows.shape[:2], -1)


def parts_data(past: Past, parts: Parts) -> PartsData:
    """Arrange the past and a batch in parts for the bets of a model."""
    partitions, table = parts.partitions, parts.table
    rows = None
    if table is not None:
        values = table.values.reshape(-1, table.values.shape[-1])[0]
        rows = ValueRows(values, np.stack([part_columns(table.counts[..., v], partitions) for v in range(values.size)]))
    return PartsData(
        EarlierSums(*(columns(each, partitions) for each in past[:4])),
        part_columns(parts.counts, partitions),
        part_columns(parts.totals, partitions),
        None if parts.scatter is None else part_columns(parts.scatter, partitions),
        rows,
        parts.jump,
        None if parts.pairs is None else parts_data(past.of_pairs, parts.pairs),
    )


def choose_factor(where: Bools, one: Callable[[], LogFactor], other: Callable[[], LogFactor]) -> LogFactor:
    """Combine two bets, building only those that are needed. (P, c)"""
    if where.all():
        return one()
    if not where.any():
        return other()
    first, second = one(), other()
    return lambda p, q: np.where(where[p], first(p, np.where(where[p], q, 0.0)), second(p, np.where(where[p], 0.0, q)))


def arm_sums(data: PartsData, arm: Index) -> tuple[Floats, Floats, Floats, Floats]:
    """Total and count of an arm in each part, and before it; counts are positive, to divide by. (P, c)"""
    won, n, past, N = (
        each.reshape(-1).take(arm) for each in (data.totals, data.counts, data.totals_so_far, data.so_far)
    )
    return won, np.maximum(n, 1e-9), past, np.maximum(N, 1e-9)


def product_factor(
    unit: Floats, furthest: Floats, terms: tuple[tuple[Floats, Floats | float], ...], less: Floats | float = 0.0
) -> LogFactor:
    """sum of counts log(1 + t factor) - less t, t = min(q unit, furthest). (P, c)"""
    unit, furthest = np.broadcast_to(unit, unit.shape), np.broadcast_to(furthest, unit.shape)
    whole = [(counts, np.broadcast_to(factor, unit.shape)) for counts, factor in terms]
    less = np.broadcast_to(less, unit.shape)

    def log_factor(p: int, q: Floats) -> Floats:
        t = np.minimum(q * unit[p], furthest[p])
        found = -t * less[p]
        for counts, factor in whole:
            found += counts[p] * np.log1p(t * factor[p])
        return found

    return log_factor
