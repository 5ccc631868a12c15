"""Bets of one size on the parts of a batch: what a noise model offers for them, and what it sees.

Arrays have the parts first, then the arms, then runs with their dealings as columns. A `Tilt` is a bet of one size, as
a log factor, for given parts: exp(q D - q^2/2) for sub-Gaussian rewards. Its size q is in standard errors of the part,
as the past knows them; q = 0 is no bet. Factors have mean at most 1 under their null for every q >= 0 that is known
before the part: each is the bet of the model's proposition with all its weight on one drift, cut where it
allows no more (docs/why-the-guarantee-holds.md, Proposition 20).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Array, Bools, Floats
from roundwise.model.batch import Parts
from roundwise.model.estimates import Past
from roundwise.noise.base import Noise
from roundwise.noise.mixture import HUGE

Index = NDArray[np.intp]
Tilt = Callable[[int, Floats], Floats]  # part, sizes (c) -> log factors (c)
NONE = 1e-18  # in place of no rows


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
    """What a model sees of a batch in parts."""

    before: EarlierSums
    counts: Floats  # (P, K, n)
    totals: Floats  # (P, K, n)
    scatter: Floats | None = None  # (P, K, n)
    rows: ValueRows | None = None
    jump: int = 0  # how bold the bets on it are
    pairs: PartsData | None = None  # of every two arms, (P, K^2, n)

    def at(self, columns: slice) -> PartsData:
        """Some columns of it."""
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
        return _added([f * flat.take(each) for f, each in zip(self.factors, self.places, strict=True)])

    def squares(self, values: Floats) -> Floats:
        """sum_s factors_s^2 values. (P, c)"""
        flat = values.reshape(-1)
        if self.factors is None:
            return flat.take(self.places[0]) + flat.take(self.places[1])
        return _added([f * f * flat.take(each) for f, each in zip(self.factors, self.places, strict=True)])

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


def _added(arrays: list[Floats]) -> Floats:
    found = arrays[0]
    for each in arrays[1:]:
        found += each
    return found


class ArmPlaces(Protocol):
    """Where arms of bets are found: places in an array (P, K, n) as one row. It may know their columns (`runs`)."""

    def __call__(self) -> tuple[Index, Index]:
        """Of the first arm of each bet and of its second. (P, c)"""


def runs_of(places: ArmPlaces, size: int) -> Index:
    """Which of so many columns each bet is about, the same in all parts. (c)"""
    own: Callable[[], Index] | None = getattr(places, "runs", None)
    return places()[0][0] % size if own is None else own()


class PartBets(Protocol):
    """What a model offers for the parts of a batch."""

    @property
    def variances(self) -> Floats:
        """A guess at the variance of a result of each arm before each part, to compare arms. (P, K, n), or one."""

    def level_variances(self, level: float) -> Floats:
        """The same for bets on a level, from that arm alone."""

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """Bets on the first arm's mean exceeding the second's by the margin.

        Given are the difference of their means in each part less the margin, and 1/n_a + 1/n_b. (P, c)
        """

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """Bets on a mean lying above a level (sign 1) or below it (-1).

        Given are the distance of its mean in each part from the level, in the direction of the bet, and 1/n. (P, c)
        """

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """Bets on forms of the means exceeding their offsets.

        Given are the form of the means in each part less its offset, and sum_s f_s^2/n_s. (P, c)
        """


class PairedPartBets(Protocol):
    """Tilts that know two arms by their differences on the items of both."""

    def standing(self, first: Index, second: Index, margin: Floats | float) -> tuple[Floats, Floats, Floats]:
        """Of the difference of two arms before each part: z, and 1/items; and 1/items in the part. (P, c)

        The arms are given as places in an array (P, K, n) as one row.
        """


class PartBettingNoise(Protocol):
    """A noise model that has bets on parts; the batches of one that has not are bet on as a whole."""

    def tilts(self, seen: PartsData) -> PartBets:
        """Bets of one size on the parts of a batch."""


def of_pairs(tilts: PartBets) -> PairedPartBets | None:
    """The bets, if they know how two arms stand on the items of both."""
    return cast(PairedPartBets, tilts) if callable(getattr(tilts, "standing", None)) else None


def part_betting(noise: object) -> PartBettingNoise | None:
    """The model, if it has bets on parts."""
    return cast(PartBettingNoise, noise) if callable(getattr(noise, "tilts", None)) else None


def most_parts(noise: object, usual: int) -> int:
    """Into how many parts a batch is cut: fewer than usual where the model says so."""
    return min(usual, int(getattr(noise, "most_parts", usual)))


@dataclass(frozen=True)
class GaussianPartBets:
    """exp(q D/sqrt v - q^2/2), for any form D of sub-Gaussian rewards (Lemma 1)."""

    sigma: float

    @property
    def variances(self) -> Floats:
        """The square of sigma."""
        return np.full((1, 1, 1), self.sigma**2)

    def level_variances(self, level: float) -> Floats:
        """The same."""
        return self.variances

    def pairs(self, places: ArmPlaces, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """From the difference in each part; it is used up."""
        return self._tilt(difference, leverage)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """From the distance in each part; it is used up."""
        return self._tilt(distance, leverage)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> Tilt:
        """From the value of any form of the means of each part, less its offset; it is used up. (P, c)"""
        return self._tilt(value, leverage)

    def _tilt(self, value: Floats, leverage: Floats) -> Tilt:
        value /= np.sqrt(leverage) * self.sigma if self.sigma != 1.0 else np.sqrt(leverage)
        np.clip(value, -HUGE, HUGE, out=value)

        def tilt(p: int, q: Floats) -> Floats:
            x = value[p]
            x -= 0.5 * q
            x *= q
            return x

        return tilt


def part_bets_of(noise: Noise, seen: PartsData) -> PartBets:
    """What a model offers for the parts of a batch: its own bets, or those that its sigma allows."""
    found = part_betting(noise)
    return GaussianPartBets(noise.sigma) if found is None else found.tilts(seen)


def sums_before(values: Floats, start: Floats | float = 0.0) -> Floats:
    """What there was at the start, and the sum of all parts before each. (P, ...)"""
    found = np.empty_like(values)
    found[0] = start
    for p in range(1, len(values)):
        np.add(found[p - 1], values[p - 1], out=found[p])
    return found


def columns(array: Array, dealings: int) -> Array:
    """Runs (K) as columns (K, n), once for every dealing."""
    rows = array.transpose()
    if dealings > 1:
        rows = np.broadcast_to(rows[:, None], (rows.shape[0], dealings, *rows.shape[1:]))
    return np.ascontiguousarray(rows).reshape(rows.shape[0], -1)


def part_columns(array: Floats, dealings: int) -> Floats:
    """An array of parts (1 or M, K, P) with the parts first, a column for each dealing of each run. (P, K, n)"""
    rows = array.transpose()
    if rows.shape[2] != dealings:
        rows = np.broadcast_to(rows, (*rows.shape[:2], dealings, *rows.shape[3:]))
    return np.ascontiguousarray(rows).reshape(*rows.shape[:2], -1)


def parts_data(past: Past, parts: Parts) -> PartsData:
    """What a model sees, from the past and a batch in parts."""
    dealings, table = parts.partitions, parts.table
    rows = None
    if table is not None:
        values = table.values.reshape(-1, table.values.shape[-1])[0]
        rows = ValueRows(values, np.stack([part_columns(table.counts[..., v], dealings) for v in range(values.size)]))
    return PartsData(
        EarlierSums(*(columns(each, dealings) for each in past[:4])),
        part_columns(parts.counts, dealings),
        part_columns(parts.totals, dealings),
        None if parts.scatter is None else part_columns(parts.scatter, dealings),
        rows,
        parts.jump,
        None if parts.pairs is None else parts_data(past.pairs or Past.none(_pairs_of(past.counts.shape)), parts.pairs),
    )


def _pairs_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of arrays for every two arms."""
    return (*shape[:-1], shape[-1] ** 2)


def either(where: Bools, one: Callable[[], Tilt], other: Callable[[], Tilt]) -> Tilt:
    """One bet or the other, of which only those are made that are needed. (P, c)"""
    if where.all():
        return one()
    if not where.any():
        return other()
    first, second = one(), other()
    return lambda p, q: np.where(where[p], first(p, np.where(where[p], q, 0.0)), second(p, np.where(where[p], 0.0, q)))


def sums_at(seen: PartsData, arm: Index) -> tuple[Floats, Floats, Floats, Floats]:
    """Total and count of an arm in each part, and before it; at least a little, so that no bet divides by 0. (P, c)"""
    won, n, past, N = (
        each.reshape(-1).take(arm) for each in (seen.totals, seen.counts, seen.totals_so_far, seen.so_far)
    )
    return won, np.maximum(n, 1e-9), past, np.maximum(N, 1e-9)


def product_of(
    unit: Floats, furthest: Floats, terms: tuple[tuple[Floats, Floats | float], ...], less: Floats | float = 0.0
) -> Tilt:
    """sum of counts log(1 + t factor) - less t, t = min(q unit, furthest). (P, c)"""
    unit, furthest = np.broadcast_to(unit, unit.shape), np.broadcast_to(furthest, unit.shape)
    whole = [(counts, np.broadcast_to(factor, unit.shape)) for counts, factor in terms]
    less = np.broadcast_to(less, unit.shape)

    def tilt(p: int, q: Floats) -> Floats:
        t = np.minimum(q * unit[p], furthest[p])
        found = -t * less[p]
        for counts, factor in whole:
            found += counts[p] * np.log1p(t * factor[p])
        return found

    return tilt
