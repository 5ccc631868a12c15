"""Several files of one batch as one batch, and its parts: dealt at random from all rows, whatever file they came in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.ingest.arm_names import Index
from roundwise.ingest.record import Results
from roundwise.ingest.row_store import Lots, pooled
from roundwise.model.batch import Batch, Parts, ValueTable, join_parts
from roundwise.model.crossed import max_pair_partitions, partition_pairs, sum_pairs
from roundwise.model.random_partition import PartitionRows, partition_rows, partition_sums
from roundwise.noise import Binary, Gaussian, Poisson

_FEWEST, _MOST, _ROOM = 64, 4096, 1_000_000  # points of a table: at least, at most, and over all arms
_DRAWN = 10**9 - 1  # results of an arm from which NumPy draws without replacement
_WRITTEN_OUT = 1 << 20  # 0/1 results that are made rows again, to be dealt together with other rows


def batch_of(results: Sequence[Results], number: int = 1) -> Batch:
    """The files of one batch, joined: sums, scatter if all know it, values if all gave them, parts if all have them.

    >>> import numpy as np
    >>> one = Results("1.csv", "", "sums", 2, np.array([2.0, 1.0]), np.array([3.0, 1.0]))
    >>> batch_of([one, one]).counts
    array([4., 2.])
    """
    whole, parts = whole_of(results), min(each.parts for each in results)
    return whole._replace(parts=parts_of(results, parts, number)) if parts > 1 else whole


def whole_of(results: Sequence[Results]) -> Batch:
    """The same without its parts, which take longer than all the rest."""
    if not results:
        raise InputError("A round needs at least one file of results.")
    known = all(each.scatter is not None for each in results)
    batches = [Batch(each.counts, each.totals, each.scatter if known else None) for each in results]
    whole = batches[0] if len(batches) == 1 else join_parts(batches)._replace(parts=None)
    if _values_known(results):
        whole = whole._replace(table=_whole_table(results))
    if not all(each.paired for each in results):
        return whole
    lots = lots_of(results)
    if lots is None or lots.items is None:
        return whole
    return whole._replace(pairs=sum_pairs(_rows(lots), len(whole.counts), _limits(results, lots)))


def parts_of(results: Sequence[Results], parts: int, number: int = 1) -> Parts | None:
    """The batch of this number in so many parts, by random dealings of all its rows; None where sums alone are known.

    The same files give the same dealings each time.
    """
    seed = results[0].seed
    nothing = np.zeros(len(results[0].counts))
    counts, totals = sum((each.counts for each in results), nothing), sum((each.totals for each in results), nothing)
    if not any(each.lots is not None for each in results):
        laws = {"binary" if each.form == "successes" and each.law is None else each.law for each in results}
        if laws == {"binary"} and (counts <= _DRAWN).all():
            return _zero_one(
                partition_sums(Binary().draw_part_totals, counts, totals, seed, number, parts), results[0].tables
            )
        if laws == {"poisson"} and (totals <= _DRAWN).all():
            return partition_sums(Poisson().draw_part_totals, counts, totals, seed, number, parts)
        deviations = {each.sigma for each in results}
        if laws == {"normal"} and len(deviations) == 1 and (sigma := deviations.pop()) is not None:
            return partition_sums(Gaussian(sigma).draw_part_totals, counts, totals, seed, number, parts)
    lots = lots_of(results)
    if lots is None:
        return None
    rows, arms, limits = _rows(lots), len(counts), _limits(results, lots)
    if rows.items is None or not all(each.paired for each in results):
        return partition_rows(rows, arms, seed, number, parts, limits)
    found = partition_rows(
        rows, arms, seed, number, parts, limits, max_pair_partitions(arms, parts, limits is not None)
    )
    return found._replace(pairs=partition_pairs(rows, arms, seed, number, parts, found.partitions, limits))


def _limits(results: Sequence[Results], lots: Lots) -> tuple[float, float] | None:
    """Between which values lie, as the noise model says; as they do themselves, in records of rules 1."""
    if not _values_known(results):
        return None
    said = next((each.limits for each in results if each.limits is not None), None)
    values = lots.totals / lots.counts
    return said or (float(values.min(initial=0.0)), float(values.max(initial=1.0)))


def _rows(lots: Lots) -> PartitionRows:
    return PartitionRows(lots.arms, lots.counts, lots.totals, lots.scatter, lots.items)


def _zero_one(parts: Parts | None, tables: bool) -> Parts | None:
    """Parts of 0/1 results with all that can be told of them."""
    if parts is None:
        return None
    scatter = np.maximum(parts.totals - parts.totals**2 / np.maximum(parts.counts, 1.0), 0.0)
    both = np.stack([parts.counts - parts.totals, parts.totals], axis=-1)
    table = ValueTable(np.array([0.0, 1.0]), both) if tables else None
    return parts._replace(scatter=scatter, table=table)


def lots_of(results: Sequence[Results]) -> Lots | None:
    """All rows of a batch (or lots of them), arm after arm in random order; None if a file has sums only.

    Sums of 0/1 results are rows: only their order is missing.
    """
    size = len(results[0].counts)
    found = [each.lots if each.lots is not None else _zeros_and_ones(each) for each in results]
    every = [each for each in found if each is not None]
    return pooled(every, size, results[0].seed) if len(every) == len(results) else None


def _zeros_and_ones(each: Results) -> Lots | None:
    """The rows of 0/1 sums, in no special order: a dealing permutes them."""
    zero_one = each.form == "successes" or each.law == "binary"
    if not zero_one or each.counts.sum() > _WRITTEN_OUT:
        return None
    counts, ones = each.counts.astype(np.int64), each.totals.astype(np.int64)
    arms = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(arms)) - np.repeat(np.cumsum(counts) - counts, counts)
    values = (places < ones[arms]).astype(np.float64)
    return Lots(arms, np.ones(len(arms)), values, np.zeros(len(arms)), _MOST)


# --- tables of values


def _values_known(results: Sequence[Results]) -> bool:
    """Whether the noise model asks for the values of all rows, and every file tells them."""
    return all(each.tables and (each.lots is not None or each.form == "successes") for each in results)


def _whole_table(results: Sequence[Results]) -> ValueTable:
    """How often each arm had each value."""
    size = len(results[0].counts)
    arms: list[Index] = []
    values: list[Floats] = []
    weights: list[Floats] = []
    for each in results:
        if each.lots is not None:
            arms.append(each.lots.arms)
            values.append(each.lots.totals)
            weights.append(each.lots.counts)
        else:  # 0/1 outcomes: the sums are the values
            arms.append(np.tile(np.arange(size), 2))
            values.append(np.repeat([0.0, 1.0], size))
            weights.append(np.concatenate([each.counts - each.totals, each.totals]))
    points, columns, shares = _points(np.concatenate(values), size)
    return _table(points, columns, shares, np.concatenate(arms), np.concatenate(weights), size)


def _points(values: Floats, arms: int) -> tuple[Floats, Index, Floats]:
    """The values of a table, the column each row falls in, and its share of the column after that.

    Up to some thousand distinct values the table is exact. Beyond, it has evenly spaced points and a row is shared
    between its two neighbours so that its mean stays. The bets multiply 1 + slope (x - middle), whose logarithm is
    concave in x: sharing can only lower what a bet wins, so the guarantee stands.
    """
    most = int(np.clip(_ROOM // arms, _FEWEST, _MOST))
    if len(np.unique(values[: 4 * _MOST])) <= most and len(exact := np.unique(values)) <= most:
        return exact, np.searchsorted(exact, values), np.zeros(len(values))
    points = np.linspace(values.min(), values.max(), most)
    columns = np.clip(np.searchsorted(points, values, side="right") - 1, 0, most - 2)
    shares = np.clip((values - points[columns]) / (points[columns + 1] - points[columns]), 0.0, 1.0)
    return points, columns, shares


def _table(points: Floats, columns: Index, shares: Floats, arms: Index, weights: Floats, size: int) -> ValueTable:
    width = len(points)
    places = arms * width + columns
    counts = np.bincount(places, weights * (1.0 - shares), minlength=size * width)
    some = shares > 0
    if some.any():
        counts += np.bincount(places[some] + 1, weights[some] * shares[some], minlength=size * width)
    return ValueTable(points, counts.astype(np.float64).reshape(size, width))
