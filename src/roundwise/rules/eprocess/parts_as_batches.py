"""A batch in parts and dealings as one array of batches: each with what was known before it, all at once.

Arms are the last axis as everywhere; dealings and parts are runs: (runs, dealings, parts, arms).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Floats
from roundwise.model.batch import Batch, Parts, ValueTable
from roundwise.model.estimates import Past
from roundwise.solvers.halfspaces import Halfspaces

DEALINGS, FEWEST = 16, 4  # at most, and for very many forms
_ROOM = 2000  # forms times dealings
PARTS = 6  # of each, at most: neighbours are put together


class PartBatches(NamedTuple):
    """The parts, what was known before each, and forms of their means."""

    past: Past  # (M, C, K)
    parts: Batch  # (M, C, K)
    pieces: Halfspaces  # (M, C, P, S)


def parts_to_batches(past: Past, parts: Parts, pieces: Halfspaces, shape: tuple[int, ...]) -> PartBatches:
    """A batch in parts, with forms of this shape."""
    some = int(np.clip(_ROOM // max(shape[-1], 1), FEWEST, DEALINGS))
    own = _batches(parts, some)
    known = _known(past, own)
    if parts.pairs is not None:
        own = own._replace(pairs=_batches(parts.pairs, some))
        before = Past.none((*past.counts.shape[:-1], past.counts.shape[-1] ** 2)) if past.pairs is None else past.pairs
        known = known._replace(pairs=_known(before, own.pairs or own))
    wide = (*shape[:-1], *own.totals.shape[-3:-1], shape[-1])

    def spread(array: Array) -> Array:
        """Forms (P, S) for every part."""
        return np.broadcast_to(array.reshape(*array.shape[:-2], 1, 1, *array.shape[-2:]), (*wide, array.shape[-1]))

    factors = None if pieces.factors is None else spread(pieces.factors)
    forms = pieces._replace(arms=spread(pieces.arms), factors=factors, offsets=np.broadcast_to(np.zeros(()), wide))
    return PartBatches(known, own, forms)


def _known(past: Past, parts: Batch) -> Past:
    """What was known before each part."""

    def before(start: Floats, each: Floats) -> Floats:
        return start[..., None, None, :] + np.cumsum(each, axis=-2) - each

    scatter, freedom = parts.scatter, np.maximum(parts.counts - 1.0, 0.0)
    if scatter is None:
        scatter = freedom = np.zeros(parts.totals.shape)
    return Past(
        before(past.counts, parts.counts),
        before(past.totals, parts.totals),
        before(past.scatter, scatter),
        before(past.freedom, freedom),
        (),
    )


def _batches(parts: Parts, dealings: int) -> Batch:
    """The first partitions, with neighbouring parts joined, so that they end where fewer parts end."""
    some = (..., slice(dealings), slice(None), slice(None))
    counts, totals = parts.counts[some], parts.totals[some]
    scatter = None if parts.scatter is None else parts.scatter[some]
    rows = None if parts.table is None else parts.table.counts[(*some, slice(None))]
    while totals.shape[-1] > PARTS and totals.shape[-1] % 2 == 0:
        if scatter is not None:
            scatter = _halved(scatter) + _between(counts, totals)
        counts, totals = _halved(counts), _halved(totals)
        rows = None if rows is None else rows[..., ::2, :] + rows[..., 1::2, :]
    totals = np.moveaxis(totals, -1, -2)
    return Batch(
        np.broadcast_to(np.moveaxis(counts, -1, -2), totals.shape),
        totals,
        None if scatter is None else np.moveaxis(scatter, -1, -2),
        None if parts.table is None or rows is None else ValueTable(parts.table.values, np.moveaxis(rows, -2, -3)),
    )


def _halved(values: Floats) -> Floats:
    """Neighbours added."""
    return values[..., ::2] + values[..., 1::2]


def _between(counts: Floats, totals: Floats) -> Floats:
    """What the difference of the means of two neighbours adds to their scatter."""
    means = totals / np.maximum(counts, 1.0)
    both = counts[..., ::2] * counts[..., 1::2] / np.maximum(_halved(counts), 1.0)
    return both * (means[..., ::2] - means[..., 1::2]) ** 2
