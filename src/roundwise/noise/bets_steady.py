"""Steady bets: their sizes do not depend on the value they are placed against, so what they win falls as it rises.

Each function gives log e-values against "the mean (the difference, the form) is at most a value", one for each size.
The sizes are on the first axis, predictable, and the same for every value, which enters in `new` or as `value`,
`margin` or `offset`. Where a size is 0 or not finite nothing is bet. Proofs in docs/why-the-guarantee-holds.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .bets_counts import parted
from .bets_gaussian import BOLD, NODES, chi_rule
from .bets_mixture import EDGE, Array, Mask, log_total

_FEW = 64  # values up to which a table is worked on for all elements at once
_FAR = 1e150  # standardised values beyond this count as this: larger ones would overflow when multiplied


@np.errstate(all="ignore")
def steady_gaussian_bet(sizes: Array, new: Array, error: Array) -> Array:
    """exp(q z - q^2/2), z = new / error: `new` is sub-Gaussian, less the value. `(k),(),()->(k)`"""
    return _placed(sizes, lambda q: q * (np.clip(new / error, -_FAR, _FAR) - q / 2))


@np.errstate(all="ignore")
def steady_student_bet(sizes: Array, new: Array, error: Array, dof: Array) -> Array:
    """The same for Gaussian rewards, `error` being estimated with `dof` degrees of freedom. `(k),(),(),()->(k)`"""
    t = np.clip(new / error, -_FAR, _FAR)
    rho = t / np.hypot(np.sqrt(dof), t)
    nodes, log_weights = (each.reshape(NODES, 1, *dof.shape) for each in _rule(tuple(dof.reshape(-1).tolist())))

    def logs(q: Array) -> Array:
        q = np.minimum(q, BOLD * np.sqrt(dof + 1.0))
        return log_total(log_weights + q * (rho * nodes - q / 2))

    return _placed(sizes, logs)


@functools.lru_cache(maxsize=256)
def _rule(dof: tuple[float, ...]) -> tuple[Array, Array]:
    """Nodes and log weights of the quadrature on the first axis; bets are looked at again for many values."""
    distinct, which = np.unique(dof, return_inverse=True)
    nodes, log_weights = chi_rule(distinct)
    return nodes[which].T, log_weights[which].T


@np.errstate(all="ignore")
def steady_poisson_bet(sizes: Array, factors: Array, events: Array, exposure: Array, offset: Array) -> Array:
    """prod_s (1 + t f_s/n_s)^X_s exp(-t offset), arms on the last axis. `(k),(S),(S),(S),()->(k)`"""
    share = np.where(factors != 0, factors / exposure, 0.0)
    most = EDGE / np.maximum(-share, 0.0).max(axis=-1)

    def logs(t: Array) -> Array:
        t = np.minimum(t, most)
        found = np.asarray(-t * offset)
        for s in range(share.shape[-1]):
            found = found + events[..., s] * np.log1p(t * share[..., s])
        return found

    return _placed(sizes, logs)


@np.errstate(all="ignore")
def steady_level_bet(sizes: Array, values: Array, counts: Array, value: Array, above: Mask) -> Array:
    """prod (1 + b (x - value)) over outcomes x in [0, 1], b = min(size, EDGE / value). `(k),(V),(V),(),()->(k)`

    Where not `above`, both are turned round: 1 - x and 1 - value, against "the mean is at least the value".
    """
    turned = np.where(above, value, 1.0 - value)
    most = np.where(turned > 0, EDGE / turned, np.inf)
    sign = np.where(above, 1.0, -1.0)
    return _placed(sizes, lambda b: _growth(values, counts, sign * np.minimum(b, most), value))


@np.errstate(all="ignore")
def steady_difference_bet(
    sizes: Array, middle: Array, values: Array, counts_a: Array, counts_b: Array, margin: Array
) -> Array:
    """prod (1 + up t (x - m_a)) prod (1 - down t (x - m_b)) over the outcomes of two arms, m_a and m_b a margin apart.

    `(k),(),(V),(V),(V),()->(k)`
    """
    n_a, n_b = counts_a.sum(axis=-1), counts_b.sum(axis=-1)
    up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
    m_a, m_b = parted(middle, np.clip(margin, -1.0, 1.0), up, down)
    most = EDGE / np.maximum(up, down)  # allowed whatever the margin

    def logs(t: Array) -> Array:
        t = np.minimum(t, most)
        return _growth(values, counts_a, up * t, m_a) + _growth(values, counts_b, -down * t, m_b)

    return _placed(sizes, logs)


def _placed(sizes: Array, logs: Callable[[Array], Array]) -> Array:
    """The log factors where there is something to bet on, 0 elsewhere."""
    good = np.isfinite(sizes) & (sizes > 0)
    return np.where(good, logs(np.where(good, sizes, 0.0)), 0.0)


def _growth(values: Array, counts: Array, slope: Array, middle: Array) -> Array:
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
