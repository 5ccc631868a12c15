"""Several files of one batch as one batch, and its parts: dealt at random from all rows, whatever file they came in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.state import Batch, Table, joined
from roundwise.studies.results.lots import Lots, dealt, pooled
from roundwise.studies.results.names import Index
from roundwise.studies.results.recorded import Results
from roundwise.studies.results.sums import Sums

_FEWEST, _MOST, _ROOM = 64, 4096, 1_000_000  # points of a table: at least, at most, and over all arms
_DRAWN = 10**9 - 1  # results of an arm from which NumPy draws without replacement
_WRITTEN_OUT = 1 << 20  # 0/1 results that are made rows again, to be dealt together with other rows


def batch_of(results: Sequence[Results]) -> Batch:
    """The files of one batch, joined: sums, scatter if all know it, values if all gave them, parts if all have them.

    >>> import numpy as np
    >>> one = Results("1.csv", "", "sums", 2, np.array([2.0, 1.0]), np.array([3.0, 1.0]))
    >>> batch_of([one, one]).counts
    array([4., 2.])
    """
    if not results:
        raise InputError("A batch needs at least one file of results.")
    known = all(each.scatter is not None for each in results)
    batches = [Batch(each.counts, each.totals, each.scatter if known else None) for each in results]
    whole = batches[0] if len(batches) == 1 else joined(batches)._replace(parts=())
    if _values_known(results):
        whole = whole._replace(table=_whole_table(results))
    parts = min(each.parts for each in results)
    return whole._replace(parts=parts_of(results, parts)) if parts > 1 else whole


def parts_of(results: Sequence[Results], parts: int, dealing: int = 0) -> tuple[Batch, ...]:
    """The batch in so many parts, by one random dealing of all its rows; none where sums alone are known.

    The same files give the same dealing each time, another number of the dealing gives another.
    """
    seed = results[0].seed
    nothing = np.zeros(len(results[0].counts))
    counts, totals = sum((each.counts for each in results), nothing), sum((each.totals for each in results), nothing)
    if not any(each.lots is not None for each in results):
        laws = {"binary" if each.form == "successes" and each.law is None else each.law for each in results}
        if laws == {"binary"} and (counts <= _DRAWN).all():
            return _binary(counts, totals, parts, seed, dealing, tables=results[0].tables)
        if laws == {"poisson"}:
            return _poisson(counts, totals, parts, seed, dealing)
    lots = lots_of(results)
    if lots is None:
        return ()
    size = len(counts)
    label = dealt(lots, size, parts, seed, dealing)
    tables = _part_tables(lots, size, label, parts) if _values_known(results) else [None] * parts
    found = []
    for part, table in enumerate(tables):
        mine, sums = label == part, Sums(size)
        sums.add(lots.arms[mine], lots.counts[mine], lots.totals[mine], lots.scatter[mine])
        found.append(Batch(sums.counts, sums.totals, sums.scatter, table))
    return tuple(found)


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


# --- sums whose law gives their parts


def _binary(counts: Floats, totals: Floats, parts: int, seed: int, dealing: int, tables: bool) -> tuple[Batch, ...]:
    """Parts of 0/1 results from their sums: drawn without replacement, as from a random order of the rows."""
    rng = np.random.default_rng([seed, dealing])
    sizes = _even(counts, parts)
    ones, left = totals.astype(np.int64), counts.astype(np.int64)
    found = []
    for size in sizes:
        drawn = rng.hypergeometric(ones, left - ones, size)
        ones, left = ones - drawn, left - size
        own, total = size.astype(np.float64), drawn.astype(np.float64)
        table = Table(np.array([0.0, 1.0]), np.stack([own - total, total], axis=-1)) if tables else None
        found.append(Batch(own, total, np.maximum(total - total * total / np.maximum(own, 1.0), 0.0), table))
    return tuple(found)


def _poisson(counts: Floats, totals: Floats, parts: int, seed: int, dealing: int) -> tuple[Batch, ...]:
    """Parts of Poisson counts from their sums: given the total, each event is in a part with the part's share."""
    rng = np.random.default_rng([seed, dealing])
    left, events = counts.copy(), totals.astype(np.int64)
    found = []
    for size in _even(counts, parts):
        share = np.divide(size, left, out=np.zeros_like(left), where=left > 0)
        drawn = rng.binomial(events, np.clip(share, 0.0, 1.0))
        events, left = events - drawn, left - size
        found.append(Batch(size.astype(np.float64), drawn.astype(np.float64)))
    return tuple(found)


def _even(counts: Floats, parts: int) -> NDArray[np.int64]:
    """The sizes of the parts, (parts, K): they differ by at most one."""
    whole = counts.astype(np.int64)
    edges = np.array([whole // parts * part + whole % parts * part // parts for part in range(parts + 1)])
    return np.diff(edges, axis=0)


# --- tables of values


def _values_known(results: Sequence[Results]) -> bool:
    """Whether the noise model asks for the values of all rows, and every file tells them."""
    return all(each.tables and (each.lots is not None or each.form == "successes") for each in results)


def _whole_table(results: Sequence[Results]) -> Table:
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


def _part_tables(lots: Lots, size: int, label: Index, parts: int) -> list[Table | None]:
    """The same in each part, all with one list of values."""
    points, columns, shares = _points(lots.totals, size)
    found: list[Table | None] = []
    for part in range(parts):
        mine = label == part
        found.append(_table(points, columns[mine], shares[mine], lots.arms[mine], lots.counts[mine], size))
    return found


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


def _table(points: Floats, columns: Index, shares: Floats, arms: Index, weights: Floats, size: int) -> Table:
    width = len(points)
    places = arms * width + columns
    counts = np.bincount(places, weights * (1.0 - shares), minlength=size * width)
    some = shares > 0
    if some.any():
        counts += np.bincount(places[some] + 1, weights[some] * shares[some], minlength=size * width)
    return Table(points, counts.astype(np.float64).reshape(size, width))
