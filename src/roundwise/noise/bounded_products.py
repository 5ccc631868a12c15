"""Bets on values in [0, 1]: products over the values of a batch, which adapt to small variances (Propositions 6, 7)."""

from __future__ import annotations

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.noise.bet_forms import parted, sized
from roundwise.noise.mixture import EDGE

_FEW = 64  # distinct values up to which a table is worked on for all elements at once


def scatter_of(total: Floats, squares: Floats, count: Floats) -> Floats:
    """The sum of squares about the mean, kept within what values in [0, 1] allow."""
    mean = total / count
    return np.clip(squares - total * mean, 0.0, np.maximum(total - total * mean, 0.0))


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
