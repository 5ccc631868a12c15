"""Bets on rewards in [0, 1] from the values themselves, which adapt to the variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .bets_counts import centre, parted
from .bets_mixture import DRIFTS, EDGE, Array, clipped_z, flat, log_mixture

_MOST = 1e100  # as in bets_counts
_FEW = 64  # distinct values up to which a table is worked on for all elements at once


def spread(total: Array, squares: Array, count: Array) -> Array:
    """The sum of squares about the mean, kept within what values in [0, 1] allow."""
    mean = total / count
    return np.clip(squares - total * mean, 0.0, np.maximum(total - total * mean, 0.0))


@np.errstate(all="ignore")
def bounded_difference_bet(
    past_totals_a: ArrayLike,
    past_squares_a: ArrayLike,
    past_counts_a: ArrayLike,
    past_totals_b: ArrayLike,
    past_squares_b: ArrayLike,
    past_counts_b: ArrayLike,
    values: ArrayLike,
    counts_a: ArrayLike,
    counts_b: ArrayLike,
    margin: ArrayLike = 0.0,
) -> Array:
    """The log e-value of one batch of values in [0, 1] against "the mean of a is at most that of b plus a margin".

    The batch is a table: `counts_a[..., v]` rows of arm a had the value `values[v]`; for raw rows see `row_table`.
    Past rows enter by their sums and sums of squares. 0.0 where either arm has no past or no new rows.
    `(),(),(),(),(),(),(V),(V),(V)->()`
    """
    outcome, table_a, table_b = _tables(values, counts_a, counts_b)
    rows_a, rows_b = _row_sum(table_a), _row_sum(table_b)
    shape, (past_a, square_a, N_a, past_b, square_b, N_b, n_a, n_b, apart) = flat(
        past_totals_a,
        past_squares_a,
        past_counts_a,
        past_totals_b,
        past_squares_b,
        past_counts_b,
        rows_a,
        rows_b,
        margin,
    )
    good = np.abs(apart) < 1
    apart = np.where(good, apart, 0.0)
    for n in (N_a, N_b, n_a, n_b):
        good &= (n > 1 / _MOST) & (n < _MOST)
    for total, count in ((past_a, N_a), (past_b, N_b), (square_a, N_a), (square_b, N_b)):
        good &= (total >= 0) & (total <= count)
    N_a, N_b, n_a, n_b = (np.where(good, n, 1.0) for n in (N_a, N_b, n_a, n_b))
    past_a, square_a, past_b, square_b = (np.where(good, s, 0.0) for s in (past_a, square_a, past_b, square_b))
    m = centre(past_a, N_a, past_b, N_b, n_a, n_b)
    # within-arm variance, with one row of the largest variance added
    noise = (spread(past_a, square_a, N_a) + spread(past_b, square_b, N_b) + m * (1.0 - m)) / (N_a + N_b + 1.0)
    variance = noise * (1.0 / N_a + 1.0 / N_b)
    z = clipped_z(past_a / N_a - past_b / N_b - apart, variance)
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m_a, m_b = parted(m, apart, up, down)
    furthest = EDGE * np.minimum(1.0 / (m_a * up), 1.0 / ((1.0 - m_b) * down))
    theta = DRIFTS[:, None] * np.sqrt(variance)
    # the boldness that grows fastest when the means lie up theta above and down theta below the centre
    bold = np.minimum(theta / (noise + up * down * theta * theta), furthest)
    factors = _log_growth(outcome, _columns(table_a, shape), bold * up, m_a)
    factors += _log_growth(outcome, _columns(table_b, shape), -bold * down, m_b)
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def bounded_level_bet(
    past_totals: ArrayLike,
    past_squares: ArrayLike,
    past_counts: ArrayLike,
    values: ArrayLike,
    counts: ArrayLike,
    level: ArrayLike,
    above: ArrayLike,
) -> Array:
    """The log e-value of one batch of values in [0, 1] for "the mean is above the level"; or below, where not `above`.

    0.0 where there is no past, no new row, or the level is not strictly between 0 and 1. `(),(),(),(V),(V),(),()->()`
    """
    outcome, table, _ = _tables(values, counts, counts)
    rows = _row_sum(table)
    shape, (past, square, N, n, tau, side) = flat(past_totals, past_squares, past_counts, rows, level, above)
    good = (N > 1 / _MOST) & (N < _MOST) & (n > 1 / _MOST) & (n < _MOST) & (tau > 1 / _MOST) & (tau < 1)
    good &= (past >= 0) & (past <= N) & (square >= 0) & (square <= N)
    N, tau = np.where(good, N, 1.0), np.where(good, tau, 0.5)
    past, square = np.where(good, past, 0.0), np.where(good, square, 0.0)
    sign = np.where(side == 0, -1.0, 1.0)
    noise = (spread(past, square, N) + tau * (1.0 - tau)) / (N + 1.0)
    variance = noise / N
    z = clipped_z(sign * (past / N - tau), variance)
    furthest = EDGE / np.where(side == 0, 1.0 - tau, tau)
    theta = DRIFTS[:, None] * np.sqrt(variance)
    bold = sign * np.minimum(theta / (noise + theta * theta), furthest)
    factors = _log_growth(outcome, _columns(table, shape), bold, tau)
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


def row_table(*rows: ArrayLike) -> tuple[Array, list[Array]]:
    """Distinct values of raw rows, and for each arm's rows how often each occurs: the table the bets ask for."""
    arms = [np.asarray(r, dtype=np.float64).reshape(-1) for r in rows]
    values = np.unique(np.concatenate(arms))
    return values, [np.bincount(np.searchsorted(values, r), minlength=values.size).astype(np.float64) for r in arms]


def _tables(values: ArrayLike, first: ArrayLike, second: ArrayLike) -> tuple[Array, Array, Array]:
    outcome = np.asarray(values, dtype=np.float64)
    if not np.all((outcome >= 0) & (outcome <= 1)):
        raise ValueError(
            "`values` must lie in [0, 1]: the bets on bounded rewards need the true range. Rescale the rewards first."
        )
    return outcome, np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)


def _row_sum(table: Array) -> Array:
    """Rows in all, added column by column so that the memory layout does not matter."""
    total = np.zeros(table.shape[:-1])
    for v in range(table.shape[-1]):
        total += table[..., v]
    return total


def _columns(table: Array, shape: tuple[int, ...]) -> Array:
    """The counts of each value as contiguous vectors over the elements."""
    spread = np.broadcast_to(table, (*shape, table.shape[-1]))
    return np.ascontiguousarray(np.moveaxis(spread, -1, 0)).reshape(table.shape[-1], -1)


def _log_growth(values: Array, columns: Array, slope: Array, middle: Array) -> Array:
    """sum_v columns[v] log(1 + slope (values[v] - middle)) for slopes with the drifts on the first axis.

    Few values: over all elements at once, value by value. Many: element by element. The order of the additions
    depends on the number of values alone, so that an element's result does not depend on the others.
    """
    if values.size <= _FEW:
        growth = np.zeros_like(slope)
        for value, column in zip(values, columns, strict=True):
            growth += column * np.log1p(slope * (value - middle))
        return growth
    growth = np.empty_like(slope)
    for i in range(slope.shape[1]):
        for k in range(slope.shape[0]):
            terms = np.log1p(slope[k, i] * (values - middle[i]))
            terms *= np.ascontiguousarray(columns[:, i])
            growth[k, i] = terms.sum()
    return growth
