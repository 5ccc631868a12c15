"""Bets on the parts of a batch, all parts at once: parts first, then arms, then runs (with their dealings) as columns.

Estimates, leaders and variances before each part do not depend on what is won in the batch, so they are computed for
all parts at once; only need -> table -> bet -> need goes part by part (`settled`). What is estimated within a batch:
with N, mu from before it, c and t the counts and sums of its parts so far,

    i = 1/(N+c), f = c i, y = t i - f mu, shift = sum_j N_j y_j / sum_j N_j f_j, means = mu + y - f shift;

the shifts of earlier batches stay as they were estimated before the batch (docs/wager.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.deadline import check_deadline
from roundwise.model.batch import part_shares_of_rest
from roundwise.noise.parts import NO_ROWS, Index, LogFactor, PartsData, sums_before
from roundwise.rules.eprocess.bet_sizes import (
    BOLDEST_PART,
    LEAST_RATIO,
    NEED_STEPS,
    RATIO_STEPS,
    SHAPE,
    Z_STEPS,
    slopes,
)

CHUNK = 240_000  # parts times arms times columns that are computed at once: what fits the cache
_FEWEST = 1e-9  # in place of no results
_FEW = 32  # arms up to which, and columns from which on, arms are compared one after the other
_UNKNOWN, _NOTHING = 1e8, 1e17  # a variance beyond these is that of no results before a part, or in it

Switch = Callable[[int, Floats], None]  # before a part: what was won, changed in place where the null is another now


def can_bet(before: Floats, leverage: Floats, live: Bools | None = None) -> Bools | None:
    """Where there are results before each part and in it, and the bet is `live`; None if that is everywhere. (P, c)"""
    good = (leverage < _NOTHING) & (before < _UNKNOWN)
    if live is not None:
        good &= live
    return None if good.all() else good


@dataclass(frozen=True)
class PartsView:
    """What is known before each part, and what came in it, per unit of the variance of one result."""

    means: Floats  # (P, K, n), before each part
    inverse: Floats  # (P, K, n), 1/(N + c)
    share: Floats | None  # (P, K, n), f: of this batch in what is known; None if its shift is not estimated
    weight: Floats | None  # (P, n), 1 / sum_j N_j f_j
    seen: PartsData

    @cached_property
    def per_row(self) -> Floats:
        """1 / rows of the part. (P, K, n)"""
        return per_row(self.seen.counts)

    @cached_property
    def new(self) -> Floats:
        """Means of the part. (P, K, n)"""
        return self.seen.totals * self.per_row


def per_row(counts: Floats) -> Floats:
    """1 / rows."""
    found = np.maximum(counts, NO_ROWS)
    return np.divide(1.0, found, out=found)


def average_partitions(logs: Floats, runs: tuple[int, ...], dealings: int) -> Floats:
    """log of the average over dealings of what was won: columns (K, n) back to runs (K)."""
    found = logs.reshape(-1, dealings, *runs[::-1])
    if dealings == 1:
        return found[:, 0].transpose()
    top = found.max(axis=1, keepdims=True)
    sums = np.zeros_like(top[:, 0])
    for m in range(dealings):  # in the same order however many runs there are
        sums += np.exp(found[:, m] - top[:, 0])
    return (np.log(sums / dealings) + top[:, 0]).transpose()


def chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Columns that are worked on together."""
    parts, arms, size = shape
    step = max(1, CHUNK // (parts * arms))
    for start in range(0, size, step):
        check_deadline()
        yield slice(start, min(start + step, size))


def sum_arms(values: Floats) -> Floats:
    """Sum over the arms, (P, K, n)->(P, n): in the same order however many columns there are."""
    while (length := values.shape[1]) > 64:  # halves are added until few are left
        half = (length + 1) // 2
        rest = values[:, half:]
        values = values[:, :half].copy()
        values[:, : length - half] += rest
    if values.shape[-1] == 1:  # NumPy would add in pairs
        return np.asarray(values.cumsum(axis=1)[:, -1])
    return np.asarray(np.add.reduce(values, axis=1))


def first_largest(values: Floats) -> Index:
    """The first arm with the largest value. (P, K, n)->(P, n)"""
    arms, size = values.shape[1:]
    if arms > _FEW or size < _FEW:
        return values.argmax(axis=1)
    top, found = values.max(axis=1), np.zeros((len(values), size), dtype=np.intp)
    for arm in range(arms - 1, 0, -1):  # faster than NumPy, which looks at one column after the other
        found = np.where(values[:, arm] == top, arm, found)
    return np.where(values[:, 0] == top, 0, found)


def view_parts(seen: PartsData, mu: Floats | None, shifts: bool) -> PartsView:
    """What is known before each part, after earlier batches with means mu (K, n), or in a first batch (None)."""
    counts, N = seen.counts, seen.before.counts
    c, t = sums_before(counts), sums_before(seen.totals)
    if mu is None:
        inverse = 1.0 / np.maximum(c, _FEWEST)
        t *= inverse
        return PartsView(t, inverse, None, None, seen)
    inverse = N + c
    np.maximum(inverse, _FEWEST, out=inverse)
    np.divide(1.0, inverse, out=inverse)
    f = c
    f *= inverse
    t *= inverse
    x = f * mu
    t -= x
    weight = None
    if shifts:
        np.multiply(f, N, out=x)
        weight = 1.0 / np.maximum(sum_arms(x), _FEWEST)
        np.multiply(t, N, out=x)
        shift = sum_arms(x) * weight
        np.multiply(f, shift[:, None], out=x)
        t -= x
    t += mu
    return PartsView(t, inverse, f if shifts else None, weight, seen)


def table_cells(z: Floats, ratio: Floats) -> Index:
    """The place in the table of past z and past variance over that of the rest, up to the need. Both are used up."""
    z *= Z_STEPS
    z += 3.0 * Z_STEPS + 0.5
    np.maximum(z, 0.0, out=z)
    np.minimum(z, SHAPE[0] - 0.5, out=z)
    place = z.astype(np.int64)
    bits = ratio.view(np.int64)  # exponent and two bits of the fraction: 4 log2, piecewise linear
    bits += 1 << 49
    bits >>= 50
    bits -= RATIO_STEPS * (1023 - 8)
    np.maximum(bits, 0, out=bits)
    np.minimum(bits, SHAPE[1] - 1, out=bits)
    place *= SHAPE[1]
    place += bits
    place *= SHAPE[2]
    return place


def settle_parts(
    goal: Floats | float,
    gains: Floats,
    z: Floats,
    ratio: Floats,
    tilt: LogFactor,
    live: Bools | None,
    switch: Switch | None = None,
    jump: int = 0,
) -> Floats:
    """log of what is won against each null after all parts, (c): the one loop over parts.

    z and past variance over that of the part are (P, c), and are used up. A null that has lost is not bet on further;
    `live` says where there is something to bet on, and `jump` how bold bets are (`slopes.JUMPS`).
    """
    table, kappa = slopes(jump), part_shares_of_rest(len(z))
    ratio *= (1.0 / kappa)[:, None]
    few = None
    if ratio.min(initial=1.0) < LEAST_RATIO:  # below the table slopes fall with the square root
        few = ratio * (1.0 / LEAST_RATIO)
        np.minimum(few, 1.0, out=few)
        np.sqrt(few, out=few)
    place, wider = table_cells(z, ratio), np.sqrt(kappa)
    gains = gains.copy()
    mixed = [False] * len(place) if live is None else np.logical_not(live.all(axis=1)).tolist()
    for p in range(len(place)):
        if switch is not None:
            switch(p, gains)
        need = goal - gains
        bet = need > 0
        if live is not None and mixed[p]:
            bet &= live[p]
        if not bet.any():
            continue
        need *= float(NEED_STEPS**2)
        np.maximum(need, 0.25, out=need)
        np.sqrt(need, out=need)
        need += 0.5
        np.minimum(need, SHAPE[2] - 0.5, out=need)
        at = need.astype(np.int64)
        at += place[p]
        q = table.slope.take(at, mode="clip") * wider[p]  # float32 times a NumPy float64: float64
        if few is not None:
            q *= few[p]
        np.minimum(q, BOLDEST_PART, out=q)
        q *= bet
        x = tilt(p, q)
        if mixed[p]:
            x = np.where(bet, x, 0.0)  # where there is nothing to bet on, it may be anything
        np.minimum(x, 600.0, out=x)
        np.exp(x, out=x)
        x -= 1.0
        x *= table.stake.take(at, mode="clip")
        x += 1.0
        gains += np.log(x, out=x)
    return gains


_PHI_STEPS = 512
_log_phi: Floats | None = None


def log_phi(z: Floats) -> Floats:
    """log Phi from a table, good to 1e-6: it gates bets, and proves nothing."""
    global _log_phi
    if _log_phi is None:
        from scipy.special import log_ndtr

        _log_phi = log_ndtr(np.arange(-8 * _PHI_STEPS, 8 * _PHI_STEPS + 1) / _PHI_STEPS)
    place = np.clip(z, -8.0, 8.0)
    place *= _PHI_STEPS
    place += 8 * _PHI_STEPS + 0.5
    return _log_phi.take(place.astype(np.int64), mode="clip")
