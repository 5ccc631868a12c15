"""How the rows of a batch are cut into parts, and dealt: orders of the rows that have nothing to do with their values.

A part is bet on with what the parts before it showed (docs/why-the-guarantee-holds.md, "Parts and dealings"). Parts
shrink towards the end of a batch, where a bet must be re-planned most often: after a share x of the parts a share
h(x) = 1 - (1-x)^2 of an arm's rows has come.
"""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Floats

FIRST_PARTS, PARTS = 4, 12  # of the first batch, and of every later one


def edges(parts: int) -> Floats:
    """The share of an arm's rows before each part, and 1 after the last. (P + 1)"""
    left = np.arange(parts, -1, -1) / parts
    return 1.0 - left * left


def shares_of_rest(parts: int) -> Floats:
    """kappa: what share each part has of what is left of its batch, itself included. (P)"""
    left = np.arange(parts, -1, -1.0) ** 2
    return 1.0 - left[1:] / left[:-1]


def cut(counts: Floats, parts: int) -> Floats:
    """How many rows of each arm are in each part: one dealing, runs contiguous. (K)->(1, K, P)"""
    ends = np.floor(counts.transpose() * edges(parts).reshape(-1, *(1,) * counts.ndim) + 1e-9)
    return np.expand_dims(np.diff(ends, axis=0).transpose(), -3)


def bridged(rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int, sigma: float) -> Floats:
    """Totals of parts of normal rows given the total of all, dealt so many times: a law free of the means.

    Counts of the parts with the parts first, (P, K, 1, ...), totals (K, 1, ...) -> (P, K, M, ...).
    """
    parts = rng.standard_normal((*counts.shape[:2], dealings, *counts.shape[3:]))
    parts *= sigma * np.sqrt(counts)
    found = totals - added(parts)
    parts += counts / np.maximum(added(counts), 1.0) * found
    return parts


def hypergeometric(rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
    """The same for 0/1 results: how many ones are in each part of a random order of the rows."""
    shape = (counts.shape[1], dealings, *counts.shape[3:])
    ones, rows = np.broadcast_to(totals, shape).astype(np.int64), np.broadcast_to(added(counts), shape).astype(np.int64)
    found = np.empty((counts.shape[0], *shape))
    for part, size in enumerate(np.broadcast_to(counts, found.shape).astype(np.int64)):
        drawn = rng.hypergeometric(ones, rows - ones, size)
        found[part] = drawn
        ones, rows = ones - drawn, rows - size
    return found


def multinomial(rng: np.random.Generator, counts: Floats, totals: Floats, dealings: int) -> Floats:
    """The same for events of Poisson processes: each falls in a part with the part's share of the time."""
    shape = (counts.shape[1], dealings, *counts.shape[3:])
    events, left = np.broadcast_to(totals, shape).astype(np.int64), added(counts)
    found = np.empty((counts.shape[0], *shape))
    for part, time in enumerate(counts):
        drawn = rng.binomial(events, np.clip(time / np.maximum(left, 1e-300), 0.0, 1.0))
        found[part] = drawn
        events, left = events - drawn, left - time
    return found


def added(rows: Floats) -> Floats:
    """The sum over the first axis, in the same order however many elements there are."""
    found: Floats = rows[0].copy()
    for row in rows[1:]:
        found += row
    return found
