"""Bets on values in [0, 1]: products over the values of a batch, which adapt to small variances (Propositions 6, 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roundwise.arrays import Bools, Floats
from roundwise.noise.bet_forms import MOST, centre, counted, parted, sized
from roundwise.noise.mixture import DRIFTS, EDGE, clipped_z, flat, log_mixture

_FEW = 64  # distinct values up to which a table is worked on for all elements at once


def scatter_of(total: Floats, squares: Floats, count: Floats) -> Floats:
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
) -> Floats:
    """The log e-value of one batch of values in [0, 1] against "the mean of a is at most that of b plus a margin".

    Proposition 6. The batch is a table: `counts_a[..., v]` rows of arm a had the value `values[v]`.
    Past rows enter by their sums and sums of squares. 0.0 where either arm has no past or no new rows.
    `(),(),(),(),(),(),(V),(V),(V)->()`
    """
    outcome, table_a, table_b = _tables(values, counts_a, counts_b)
    shape, (past_a, square_a, N_a, past_b, square_b, N_b, n_a, n_b, apart) = flat(
        past_totals_a, past_squares_a, past_counts_a, past_totals_b, past_squares_b, past_counts_b,
        _row_sum(table_a), _row_sum(table_b), margin,
    )  # fmt: skip
    good = counted(N_a, N_b, n_a, n_b) & (np.abs(apart) < 1)
    for added, count in ((past_a, N_a), (past_b, N_b), (square_a, N_a), (square_b, N_b)):
        good &= (added >= 0) & (added <= count)
    apart = np.where(good, apart, 0.0)
    N_a, N_b, n_a, n_b = (np.where(good, n, 1.0) for n in (N_a, N_b, n_a, n_b))
    past_a, square_a, past_b, square_b = (np.where(good, s, 0.0) for s in (past_a, square_a, past_b, square_b))
    m = centre(past_a, N_a, past_b, N_b, n_a, n_b)
    # within-arm variance, with one row of the largest variance added
    noise = (scatter_of(past_a, square_a, N_a) + scatter_of(past_b, square_b, N_b) + m * (1.0 - m)) / (N_a + N_b + 1.0)
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
) -> Floats:
    """The log e-value of one batch of values in [0, 1] for "the mean is above the level"; or below, where not `above`.

    Proposition 7. 0.0 where there is no past, no new row, or the level is not in (0, 1). `(),(),(),(V),(V),(),()->()`
    """
    outcome, table, _ = _tables(values, counts, counts)
    shape, (past, square, N, n, tau, side) = flat(past_totals, past_squares, past_counts, _row_sum(table), level, above)
    good = counted(N, n) & (tau > 1 / MOST) & (tau < 1)
    good &= (past >= 0) & (past <= N) & (square >= 0) & (square <= N)
    N, tau = np.where(good, N, 1.0), np.where(good, tau, 0.5)
    past, square = np.where(good, past, 0.0), np.where(good, square, 0.0)
    sign = np.where(side == 0, -1.0, 1.0)
    noise = (scatter_of(past, square, N) + tau * (1.0 - tau)) / (N + 1.0)
    variance = noise / N
    z = clipped_z(sign * (past / N - tau), variance)
    furthest = EDGE / np.where(side == 0, 1.0 - tau, tau)
    theta = DRIFTS[:, None] * np.sqrt(variance)
    bold = sign * np.minimum(theta / (noise + theta * theta), furthest)
    factors = _log_growth(outcome, _columns(table, shape), bold, tau)
    return np.where(good, log_mixture(z, factors), 0.0).reshape(shape)


@np.errstate(all="ignore")
def steady_level_bet(sizes: Floats, values: Floats, counts: Floats, value: Floats, above: Bools) -> Floats:
    """prod (1 + b (x - value)) over outcomes x in [0, 1], b = min(size, EDGE / value). `(k),(V),(V),(),()->(k)`

    Where not `above`, both are turned round: 1 - x and 1 - value, against "the mean is at least the value".
    """
    turned = np.where(above, value, 1.0 - value)
    most = np.where(turned > 0, EDGE / turned, np.inf)
    sign = np.where(above, 1.0, -1.0)
    return sized(sizes, lambda b: _growth(values, counts, sign * np.minimum(b, most), value))


@np.errstate(all="ignore")
def steady_difference_bet(
    sizes: Floats, middle: Floats, values: Floats, counts_a: Floats, counts_b: Floats, margin: Floats
) -> Floats:
    """prod (1 + up t (x - m_a)) prod (1 - down t (x - m_b)) over the outcomes of two arms, m_a and m_b a margin apart.

    `(k),(),(V),(V),(V),()->(k)`
    """
    n_a, n_b = counts_a.sum(axis=-1), counts_b.sum(axis=-1)
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m_a, m_b = parted(middle, np.clip(margin, -1.0, 1.0), up, down)
    most = EDGE / np.maximum(up, down)  # allowed whatever the margin

    def logs(t: Floats) -> Floats:
        t = np.minimum(t, most)
        return _growth(values, counts_a, up * t, m_a) + _growth(values, counts_b, -down * t, m_b)

    return sized(sizes, logs)


def _tables(values: ArrayLike, first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats, Floats]:
    outcome = np.asarray(values, dtype=np.float64)
    if not np.all((outcome >= 0) & (outcome <= 1)):
        raise ValueError(
            "`values` must lie in [0, 1]: the bets on bounded rewards need the true range. Rescale the rewards first."
        )
    return outcome, np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)


def _row_sum(table: Floats) -> Floats:
    """Rows in all, added column by column so that the memory layout does not matter."""
    total = np.zeros(table.shape[:-1])
    for v in range(table.shape[-1]):
        total += table[..., v]
    return total


def _columns(table: Floats, shape: tuple[int, ...]) -> Floats:
    """The counts of each value as contiguous vectors over the elements."""
    spread = np.broadcast_to(table, (*shape, table.shape[-1]))
    return np.ascontiguousarray(np.moveaxis(spread, -1, 0)).reshape(table.shape[-1], -1)


def _log_growth(values: Floats, columns: Floats, slope: Floats, middle: Floats) -> Floats:
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


def _growth(values: Floats, counts: Floats, slope: Floats, middle: Floats) -> Floats:
    """sum_v counts_v log(1 + slope (values_v - middle)): all at once for few values, else only those that occurred."""
    found = np.zeros(slope.shape)
    if values.size <= _FEW:
        for v, value in enumerate(values):
            found += counts[..., v] * np.log1p(slope * (value - middle))
        return found
    for place in np.ndindex(middle.shape):
        here, many = (slice(None), *place), counts[place]
        seen = many > 0
        terms = np.log1p(slope[here][:, None] * (values[seen] - middle[place]))
        found[here] = (terms * many[seen]).sum(axis=-1)
    return found
