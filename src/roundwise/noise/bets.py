"""What the bets of all noise models share: the data that they see, forms of the means, bets on the parts of a batch.

The arrays of a batch in parts have the parts first, then the arms, then runs with their random partitions as columns. A
`LogFactor` is the log of what bets of size q multiply their wealth by, for given parts: q D - q^2/2 for sub-Gaussian
rewards. The size q is in standard errors of the part, as the past knows them; q = 0 is no bet. Factors have mean at
most 1 under their null for every q >= 0 that is known before the part: each is the bet of the model's proposition with
all its weight on one drift, cut where it allows no more (docs/why-the-guarantee-holds.md, Proposition 20).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roundwise.arrays import Array, Bools, Floats, zeros
from roundwise.model.batch import Batch, Parts, ValueTable
from roundwise.model.estimates import Past, cube_freedom
from roundwise.solvers.halfspaces import Halfspaces

EDGE = 0.95  # share of the way to a factor of 0 that a bet on counts or bounded values may go
HUGE = 1e150  # standardized values beyond this count as this; larger ones would overflow when multiplied
MOST = 1e100  # there is no bet on values above this, or below its inverse: products would overflow
NO_ROWS = 1e-18  # in place of a count of 0

Index = NDArray[np.intp]
LogFactor = Callable[[int, Floats], Floats]  # part, sizes (c) -> log factors (c)


def flatten(*inputs: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape of the inputs, and each of them broadcast to it as a contiguous vector."""
    arrays = np.broadcast_arrays(*[np.asarray(a, dtype=np.float64) for a in inputs])
    return arrays[0].shape, [np.ascontiguousarray(a).reshape(-1) for a in arrays]


def means_and_inverse_counts(batch: Batch) -> tuple[Floats, Floats]:
    """Means of a batch, and 1/counts: infinite, hence no bet, for an arm without results. (K), (K)"""
    with np.errstate(divide="ignore"):
        return batch.totals / np.maximum(batch.counts, 1.0), 1.0 / batch.counts


def is_pair(pieces: Halfspaces) -> Bools:
    """Which pieces say that their first arm exceeds their second by the offset, and nothing else. (P)"""
    if pieces.pairs:
        return np.ones(pieces.offsets.shape, dtype=np.bool_)
    factors = pieces.coefficients
    if factors.shape[-1] < 2:
        return np.zeros(factors.shape[:-1], dtype=np.bool_)
    return (factors[..., 0] == 1) & (factors[..., 1] == -1) & (factors[..., 2:] == 0).all(axis=-1)


def single_arms(pieces: Halfspaces) -> tuple[Bools, Index, Floats]:
    """Which pieces are about one arm only, and of each piece the arm that counts most and its factor. (P)"""
    factors = pieces.coefficients
    here = np.abs(factors).argmax(axis=-1)[..., None]
    arm = np.take_along_axis(pieces.arms, here, axis=-1)[..., 0]
    factor = np.take_along_axis(factors, here, axis=-1)[..., 0]
    return np.asarray((factors != 0).sum(axis=-1) == 1), arm, factor


def take_arm(values: Floats, arm: Index) -> Floats:
    """The values of one arm of each piece. (K)->(P)"""
    runs = np.broadcast_shapes(values.shape[:-1], arm.shape[:-1])
    values, arm = np.broadcast_to(values, (*runs, values.shape[-1])), np.broadcast_to(arm, (*runs, arm.shape[-1]))
    return np.take_along_axis(values, arm, axis=-1)


def bet_where_needed(bet: Callable[..., Floats], need: Floats, *inputs: Floats | Bools) -> Floats:
    """The bet where `need` is positive, 0 elsewhere: bets are elementwise, so only those are computed."""
    wanted = (need > 0).transpose()  # runs are contiguous, so the transpose is faster to pick from
    logs = zeros(need.shape)
    if wanted.any():
        logs.transpose()[wanted] = bet(*(np.broadcast_to(each, need.shape).transpose()[wanted] for each in inputs))
    return logs


def where_sized(sizes: Floats, logs: Callable[[Floats], Floats]) -> Floats:
    """The log factors of bets whose size is positive and finite, 0 elsewhere."""
    good = np.isfinite(sizes) & (sizes > 0)
    return np.where(good, logs(np.where(good, sizes, 0.0)), 0.0)


@np.errstate(all="ignore")
def log_factor_of_size(sizes: Floats, new: Floats, error: Floats) -> Floats:
    """exp(q z - q^2/2), z = new / error: `new` is sub-Gaussian, less the value. `(k),(),()->(k)`"""
    return where_sized(sizes, lambda q: q * (np.clip(new / error, -HUGE, HUGE) - q / 2))


def common_mean(past_a: Floats, n_past_a: Floats, past_b: Floats, n_past_b: Floats, n_a: Floats, n_b: Floats) -> Floats:
    """A guess at the common mean under the null: past means, half a success in all added, weighted as the new batch is.

    With these weights the drift that equals the true difference bets exactly on the true rates.
    """
    half = 0.5 / (n_past_a + n_past_b)
    mean_a = (past_a / n_past_a + half) / (1.0 + half + half)
    mean_b = (past_b / n_past_b + half) / (1.0 + half + half)
    return np.minimum(mean_a * (n_a / (n_a + n_b)) + mean_b * (n_b / (n_a + n_b)), 1.0 - 1e-12)


def split_mean(m: Floats, margin: Floats, up: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Centres of the two arms, the margin apart, whose average weighted as the new batch is stays near m."""
    m_b = np.clip(m - down * margin, np.maximum(0.0, -margin), np.minimum(1.0, 1.0 - margin))
    return m_b + margin, m_b


# --- a batch in parts


@dataclass(frozen=True)
class PartsData:
    """A batch in parts, and the sums before it."""

    before: Past  # sums of all earlier batches as columns, (K, n)
    counts: Floats  # (P, K, n)
    totals: Floats  # (P, K, n)
    scatter: Floats | None = None  # (P, K, n)
    rows: ValueTable | None = None  # how often each value (V) came in each part, (V, P, K, n)
    jump: int = 0  # how bold the bets on it are (rules/eprocess/bet_sizes.py)
    pairs: PartsData | None = None  # of every two arms, (P, K^2, n)
    cubes: Floats | None = None  # (P, K, n)
    joined: bool = False  # whether scatter so far includes that between the parts of the batch

    def at(self, columns: slice) -> PartsData:
        """Return some of the columns."""
        return PartsData(
            self.before.map_sums(lambda each: each[:, columns]),
            np.ascontiguousarray(self.counts[..., columns]),
            np.ascontiguousarray(self.totals[..., columns]),
            None if self.scatter is None else self.scatter[..., columns],
            None if self.rows is None else ValueTable(self.rows.values, self.rows.counts[..., columns]),
            self.jump,
            None if self.pairs is None else self.pairs.at(columns),
            None if self.cubes is None else self.cubes[..., columns],
            self.joined,
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
        """Scatter within arms, batches and (unless joined) parts before each part, and its degrees of freedom."""
        if self.scatter is None:
            same = np.broadcast_to(self.before.scatter, self.counts.shape)
            return same, np.broadcast_to(self.before.freedom, self.counts.shape)
        if self.joined:
            rows, sums = sums_before(self.counts), sums_before(self.totals)
            apart = self.totals / np.maximum(self.counts, 1.0) - sums / np.maximum(rows, 1.0)
            between = self.counts * rows / np.maximum(self.counts + rows, 1.0) * apart**2
            return sums_before(self.scatter + between, self.before.scatter), (
                np.maximum(rows - 1.0, 0.0) + self.before.freedom
            )
        freedom = np.maximum(self.counts - 1.0, 0.0)
        return sums_before(self.scatter, self.before.scatter), sums_before(freedom, self.before.freedom)

    @cached_property
    def cubes_so_far(self) -> tuple[Floats, Floats] | None:
        """Cubes within arms, batches and parts before each part, and their degrees of freedom; None if not known."""
        cubes, freedom = self.before.cubes, self.before.cube_freedom
        if cubes is None or freedom is None:
            if self.before.counts.any():
                return None
            cubes = freedom = np.zeros_like(self.before.counts)
        if self.cubes is None:
            same = np.broadcast_to(cubes, self.counts.shape)
            return same, np.broadcast_to(freedom, self.counts.shape)
        return sums_before(self.cubes, cubes), sums_before(cube_freedom(self.counts), freedom)

    @property
    def of_arms(self) -> PartsData:
        """The same of single arms, where several count as one (rules/eprocess/sets.py)."""
        return self

    def mean_of(self, variances: Floats) -> Floats:
        """The variance of a result, given that of each arm. (P, K, n)"""
        return variances

    def error_of(self, variances: Floats) -> Floats:
        """The variance of a mean in each part, given that of a result of each arm. (P, K, n)"""
        return variances / np.maximum(self.counts, NO_ROWS)

    def least(self, values: Floats) -> Floats:
        """The least value of an arm. (P, K, n)"""
        return values

    def column(self, place: Index) -> Index:
        """The column of arms, from a place in (K, n) as one row. (c)"""
        return np.asarray(place % self.counts.shape[-1])


def parts_data(past: Past, parts: Parts) -> PartsData:
    """Arrange the past and a batch in parts for the bets of a model."""
    several, table = parts.partitions, parts.table
    rows = None
    if table is not None:
        values = table.values.reshape(-1, table.values.shape[-1])[0]
        counts = np.stack([_part_columns(table.counts[..., v], several) for v in range(values.size)])
        rows = ValueTable(values, counts)
    return PartsData(
        past.map_sums(lambda each: columns(each, several)),
        _part_columns(parts.counts, several),
        _part_columns(parts.totals, several),
        None if parts.scatter is None else _part_columns(parts.scatter, several),
        rows,
        parts.jump,
        None if parts.pairs is None else parts_data(past.of_pairs, parts.pairs),
        None if parts.cubes is None else _part_columns(parts.cubes, several),
    )


def columns(array: Array, partitions: int) -> Array:
    """Runs (K) as columns (K, n), once for every random partition."""
    rows = array.transpose()
    if partitions > 1:
        rows = np.broadcast_to(rows[:, None], (rows.shape[0], partitions, *rows.shape[1:]))
    return np.ascontiguousarray(rows).reshape(rows.shape[0], -1)


def _part_columns(array: Floats, partitions: int) -> Floats:
    """An array of parts (1 or M, K, P) with the parts first, a column for each partition of each run. (P, K, n)"""
    rows = array.transpose()
    if rows.shape[2] != partitions:
        rows = np.broadcast_to(rows, (*rows.shape[:2], partitions, *rows.shape[3:]))
    return np.ascontiguousarray(rows).reshape(*rows.shape[:2], -1)


def sums_before(values: Floats, start: Floats | float = 0.0) -> Floats:
    """The start, plus the sum of all parts before each. (P, ...)"""
    found = np.empty_like(values)
    found[0] = start
    for p in range(1, len(values)):
        np.add(found[p - 1], values[p - 1], out=found[p])
    return found


def arm_sums(data: PartsData, arm: Index) -> tuple[Floats, Floats, Floats, Floats]:
    """Total and count of an arm in each part, and before it; counts are positive, to divide by. (P, c)"""
    sums = (data.totals, data.counts, data.totals_so_far, data.so_far)
    won, n, past, N = (each.reshape(-1).take(arm) for each in sums)
    return won, np.maximum(n, 1e-9), past, np.maximum(N, 1e-9)


@dataclass(frozen=True)
class PartForm:
    """Forms of the means before each part, one for each bet: sum_s factors_s means[places_s] > offset."""

    places: list[Index]  # of each arm in an array (P, K, n) as one row, (P, c) each
    factors: list[Floats] | None  # (P, c) each; None for pairs: 1 and -1
    offsets: Floats  # (P, c)

    def take(self, some: Index) -> PartForm:
        """Some of the forms."""
        factors = None if self.factors is None else [each.take(some, axis=1) for each in self.factors]
        return PartForm([each.take(some, axis=1) for each in self.places], factors, self.offsets.take(some, axis=1))

    def of(self, values: Floats) -> Floats:
        """The form of values (P, K, n). (P, c)"""
        flat = values.reshape(-1)
        if self.factors is None:
            return flat.take(self.places[0]) - flat.take(self.places[1])
        return reduce(add, [f * flat.take(each) for f, each in zip(self.factors, self.places, strict=True)])

    def squares(self, values: Floats) -> Floats:
        """sum_s factors_s^2 values. (P, c)"""
        flat = values.reshape(-1)
        if self.factors is None:
            return flat.take(self.places[0]) + flat.take(self.places[1])
        return reduce(add, [f * f * flat.take(each) for f, each in zip(self.factors, self.places, strict=True)])

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


class PairedStatistics(NamedTuple):
    """What the differences on items that two arms were both tried on tell of their means before each part."""

    z: Floats  # (P, c)
    inverse: Floats  # (P, c), 1/items before the part
    per_row: Floats  # (P, c), 1/items in it
    variance: Floats  # (P, c), a guess at that of one difference


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
            distance: The mean in each part less the level, in the direction of the bet. (P, c)
            leverage: 1/n. (P, c)
            level: The level.
        """

    @abstractmethod
    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        """Return bets on forms of the means exceeding their offsets.

        Args:
            form: The forms. (P, c)
            value: The form of the means in each part less its offset. (P, c)
            leverage: sum_s f_s^2/n_s. (P, c)
        """

    def paired_statistics(self, form: PartForm) -> PairedStatistics | None:
        """Return what items tell of the difference of two arms before each part; None without items."""
        return None


@dataclass(frozen=True)
class GaussianPartBets(PartBets):
    """Bets on any form of sub-Gaussian rewards (Lemma 1)."""

    sigma: float

    @property
    def variances(self) -> Floats:
        return np.full((1, 1, 1), self.sigma**2)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> LogFactor:
        return gaussian_factor(distance, np.sqrt(leverage) * self.sigma)

    def forms(self, form: PartForm, value: Floats, leverage: Floats) -> LogFactor:
        return gaussian_factor(value, np.sqrt(leverage) * self.sigma)


def gaussian_factor(value: Floats, error: Floats) -> LogFactor:
    """exp(q value/error - q^2/2). (P, c)"""
    z = np.clip(value / error, -HUGE, HUGE)
    return lambda p, q: q * (z[p] - 0.5 * q)


def product_factor(
    unit: Floats, furthest: Floats, terms: tuple[tuple[Floats, Floats | float], ...], less: Floats | float = 0.0
) -> LogFactor:
    """sum of counts log(1 + t factor) - less t, t = min(q unit, furthest). (P, c)"""
    furthest, less = np.broadcast_to(furthest, unit.shape), np.broadcast_to(less, unit.shape)
    whole = [(counts, np.broadcast_to(factor, unit.shape)) for counts, factor in terms]

    def log_factor(p: int, q: Floats) -> Floats:
        t = np.minimum(q * unit[p], furthest[p])
        found = -t * less[p]
        for counts, factor in whole:
            found += counts[p] * np.log1p(t * factor[p])
        return found

    return log_factor


def choose_factor(where: Bools, one: Callable[[], LogFactor], other: Callable[[], LogFactor]) -> LogFactor:
    """Combine two bets, building only those that are needed. (P, c)"""
    if where.all():
        return one()
    if not where.any():
        return other()
    first, second = one(), other()
    return lambda p, q: np.where(where[p], first(p, np.where(where[p], q, 0.0)), second(p, np.where(where[p], 0.0, q)))
