"""Several files of one batch as one batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.state import Batch, Table, joined, one_dealing
from roundwise.studies.results.told import Part, Results

_FEWEST, _MOST, _ROOM = 64, 4096, 1_000_000  # points of a table: at least, at most, and over all arms


def batch_of(results: Sequence[Results]) -> Batch:
    """The files of one batch, joined: sums, scatter if all know them, values if all gave them, parts if all have them.

    Parts of several files are joined only if every row drew its part by itself ("apart"). Files of old records, which
    were all dealt "alike", are joined as they were then: their parts are batches only if the rows of each came in an
    order that has nothing to do with their values.

    >>> import numpy as np
    >>> one = Results("1.csv", "", "sums", 2, np.array([2.0, 1.0]), np.array([3.0, 1.0]))
    >>> batch_of([one, one]).counts
    array([4., 2.])
    """
    if not results:
        raise InputError("A batch needs at least one file of results.")
    whole = _joined([Part(each.counts, each.totals, each.scatter) for each in results])
    sizes, ways = {len(each.parts) for each in results}, {each.dealt for each in results}
    dealt = len(results) == 1 or ways in ({"apart"}, {"alike"})
    parts = (
        [_joined([each.parts[p] for each in results]) for p in range(len(results[0].parts))]
        if dealt and len(sizes) == 1
        else []
    )
    tables = _tables(results, len(parts))
    if tables is not None:
        whole = whole._replace(table=tables[0])
        parts = [part._replace(table=table) for part, table in zip(parts, tables[1:], strict=True)]
    return whole._replace(parts=one_dealing(parts)) if parts else whole


def _joined(sums: Sequence[Part]) -> Batch:
    known = all(each.scatter is not None for each in sums)
    batches = [Batch(each.counts, each.totals, each.scatter if known else None) for each in sums]
    return batches[0] if len(batches) == 1 else joined(batches)._replace(parts=None)


def _tables(results: Sequence[Results], parts: int) -> list[Table] | None:
    """How often each arm had each value, in all and in each part; None unless every file tells the values."""
    if not all(each.values is not None or each.form == "successes" for each in results):
        return None
    size = len(results[0].counts)
    arms: list[NDArray[np.int64]] = []
    values: list[Floats] = []
    weights: list[Floats] = []
    labels: list[NDArray[np.uint8]] = []
    for each in results:
        if each.values is not None:
            arms.append(np.repeat(np.arange(size), each.counts.astype(np.int64)))
            values.append(np.concatenate(each.values))
            weights.append(np.ones(len(values[-1])))
            labels.append(np.zeros(len(values[-1]), dtype=np.uint8) if each.labels is None else each.labels)
        else:  # 0/1 outcomes: the sums are the values
            arms.append(np.tile(np.arange(size), 2))
            values.append(np.repeat([0.0, 1.0], size))
            weights.append(np.concatenate([each.counts - each.totals, each.totals]))
            labels.append(np.zeros(2 * size, dtype=np.uint8))
    arm, weight, label = np.concatenate(arms), np.concatenate(weights), np.concatenate(labels)
    points, columns, shares = _points(np.concatenate(values), size)
    found = [_table(points, columns, shares, arm, weight, size)]
    for part in range(parts):
        mine = label == part
        found.append(_table(points, columns[mine], shares[mine], arm[mine], weight[mine], size))
    return found


def _points(values: Floats, arms: int) -> tuple[Floats, NDArray[np.int64], Floats]:
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


def _table(
    points: Floats, columns: NDArray[np.int64], shares: Floats, arms: NDArray[np.int64], weights: Floats, size: int
) -> Table:
    width = len(points)
    places = arms * width + columns
    counts = np.bincount(places, weights * (1.0 - shares), minlength=size * width)
    some = shares > 0
    if some.any():
        counts += np.bincount(places[some] + 1, weights[some] * shares[some], minlength=size * width)
    return Table(points, counts.astype(np.float64).reshape(size, width))
