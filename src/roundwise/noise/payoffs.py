"""Payoffs of designed looks: how to stake the level of a null given a budget and a lead.

The level of a null is w = delta E, with E its wealth: delta at the start, and the null is rejected when w reaches 1. A
look pays the new level f(z) with E f <= w, where the statistic z is N(0, 1) at the border of the null and smaller
inside (docs/why-the-guarantee-holds.md, Proposition 41). If z is N(d, 1) in this look and all later ones, the best f
follows from a backward recursion (Proposition 42):

    A_0(w) = 1{w = 1}, or `extension_value` times the power of one more look if that is more;   A_t(1) = 1 + price t
    V_{t+1}(w) = max { E_d A_t(f(Z)) : E_0 f(Z) <= w, 0 <= f <= 1 },                 A_t = V_t below 1

By the Neyman-Pearson lemma f is a step function: its values are the corners of the concave envelope of A_t, each paid
once the likelihood ratio exp(d z - d^2/2) exceeds a multiplier over the slope before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Floats

LEVELS = np.concatenate([[0.0], np.exp(np.linspace(-14.0, 0.0, 141))])  # the levels at which A_t is tabulated
PER_UNIT = 10  # tabulated drifts per unit of log drift
LEAST_DRIFT, MOST_DRIFT = float(np.exp(-2.2)), float(np.exp(2.2))
SLACK = 1e-9  # relative margin by which the expectation of a payoff stays below its level
FULL = 1.0 - 1e-9  # levels from here on count as 1
POWER = 1.2815515655446004  # normal quantile of a power of 90 %, for which a budget is designed
DRIFTS = 1 + round(4.4 * PER_UNIT)  # number of tabulated drifts
_MULTIPLIERS = 801
_LOT = 4096  # elements processed at a time


class Payoff(NamedTuple):
    """The best payoffs of one look: their levels, and a multiplier, which gives their thresholds, for each level."""

    drift: float
    corners: Floats  # (m + 1), of the concave envelope of the value after the look, from 0 to 1
    log_slopes: Floats  # (m), falling
    log_levels: Floats  # (n), rising: log W of each multiplier
    log_multipliers: Floats  # (n)

    def thresholds(self, log_multiplier: Floats) -> Floats:
        """The z from which each corner is paid. ()->(m)"""
        return (log_multiplier[..., None] - self.log_slopes) / self.drift + self.drift / 2

    def cost(self, thresholds: Floats) -> Floats:
        """The expectation of the payoff at the border of the null. (m)->()"""
        from scipy.special import ndtr

        return np.asarray((ndtr(-thresholds) * np.diff(self.corners)).sum(axis=-1))


def pay(
    z: Floats,
    level: Floats,
    drift: Floats,
    looks_left: Floats,
    price: float,
    extension_value: float = 0.0,
) -> Floats:
    """Return the level after a look; a level of 0 or 1 stays. `(),(),(),()->()`

    Args:
        z: The statistic of the look, N(0, 1) at the border of the null and smaller inside; nan for no bet.
        level: The level before the look.
        drift: The mean of z for which the payoff is optimal, fixed before the look.
        looks_left: The number of looks after this one, as planned before it.
        price: The price of a look, as a share of the value of an answer.
        extension_value: The value of one more look after the last, relative to a planned one.
    """
    from scipy.special import ndtri

    found = np.array(level, dtype=np.float64)
    bet = np.flatnonzero(np.isfinite(z) & (level > 0) & (level < FULL))
    for payoff, some in payoffs_by_cell(drift[bet], looks_left[bet], price, extension_value):
        at = bet[some]
        if payoff is None:
            found[at] = z[at] >= -ndtri(level[at])
            continue
        for lot in (at[start : start + _LOT] for start in range(0, at.size, _LOT)):
            found[lot] = _pay(payoff, z[lot], level[lot])
    return found


def payoffs_by_cell(
    drift: Floats, looks_left: Floats, price: float, extension_value: float
) -> Iterator[tuple[Payoff | None, NDArray[np.intp]]]:
    """Each payoff in use and the elements that use it; None for a test, which makes the level 0 or 1. Vectors."""
    cells = drift_cell(drift) + DRIFTS * looks_left.astype(np.intp)
    for cell in np.unique(cells):
        looks, number = divmod(int(cell), DRIFTS)
        payoff = payoff_of(number, looks, price, extension_value)
        yield None if payoff.corners.size == 2 else payoff, np.flatnonzero(cells == cell)


class LookAim(NamedTuple):
    """The design of a look, fixed before its results."""

    gap: Floats | None  # (P), the lead of each form over its offset; None: the smallest that the rest can show
    looks_left: Floats  # (P), the looks after this one
    rho: Floats  # (P), the share of this look in all results still to come
    price: float
    extension_value: float

    def drift(self, error: Floats, level: Floats) -> Floats:
        """The mean of z to aim at; where the error is nan, the smallest that the rest of the study can show. (P)"""
        shown = shown_drift(level, self.looks_left)
        return np.asarray(shown if self.gap is None else np.where(np.isnan(error), shown, self.gap / error))

    def pay(self, z: Floats, error: Floats, level: Floats) -> Floats:
        """The new level, for a statistic that is N(0, 1) at the border of the null. (P)"""
        drift = np.broadcast_to(self.drift(error, level), level.shape)
        flat = [np.broadcast_to(each, level.shape).reshape(-1) for each in (z, level, drift, self.looks_left)]
        return pay(flat[0], flat[1], flat[2], flat[3], self.price, self.extension_value).reshape(level.shape)


def shown_drift(level: Floats, looks_left: Floats) -> Floats:
    """The drift per look at which a test of this level, over this look and those left, has a power of 90 %."""
    from scipy.special import ndtri

    return np.asarray(np.maximum(POWER - ndtri(level), 0.3) / np.sqrt(looks_left + 1))


def drift_cell(drift: Floats) -> NDArray[np.intp]:
    """The index of the nearest tabulated drift."""
    inside = np.clip(np.nan_to_num(drift, nan=LEAST_DRIFT), LEAST_DRIFT, MOST_DRIFT)
    return np.rint((np.log(inside) - np.log(LEAST_DRIFT)) * PER_UNIT).astype(np.intp)


def _pay(payoff: Payoff, z: Floats, level: Floats) -> Floats:
    """The payoff, with a multiplier at which the computed expectation is at most the level."""
    aim = np.log(level) + np.log1p(-SLACK)
    multiplier = np.interp(aim, payoff.log_levels, payoff.log_multipliers)
    steps = np.diff(payoff.corners)
    pending = np.ones(level.shape, dtype=np.bool_)
    for _ in range(30):  # Newton's method on log W, started from a table: one or two steps
        thresholds = payoff.thresholds(multiplier[pending])
        cost = payoff.cost(thresholds)
        over = cost > level[pending]
        if not over.any():
            break
        fall = (np.exp(-0.5 * thresholds**2) * steps).sum(axis=-1) / np.sqrt(2 * np.pi) / payoff.drift
        excess = np.log(np.maximum(cost, 1e-300)) - aim[pending]
        step = np.where(over, np.maximum(1.05 * excess * cost / np.maximum(fall, 1e-300), 1e-9), 0.0)
        multiplier[pending] += np.minimum(step, 1.0)
        pending[np.flatnonzero(pending)[~over]] = False
    else:
        multiplier[pending] = np.inf  # the whole level is lost, which is always valid
    thresholds = payoff.thresholds(multiplier)
    return np.asarray(payoff.corners[(z[:, None] >= thresholds).sum(axis=-1)])


@lru_cache(maxsize=4096)
def payoff_of(cell: int, looks_left: int, price: float, extension_value: float) -> Payoff:
    """Return the payoff for the tabulated drift with this index."""
    corners, slopes = _envelope(_values(cell, looks_left, price, extension_value))
    return tabulate_payoff(float(np.exp(np.log(LEAST_DRIFT) + cell / PER_UNIT)), corners, np.log(slopes))


def tabulate_payoff(drift: float, corners: Floats, log_slopes: Floats, multipliers: int = _MULTIPLIERS) -> Payoff:
    """Return the payoff for a drift, given its corners and slopes."""
    low, high = log_slopes.min() - 6.5 * drift - drift**2 / 2, log_slopes.max() + 8.5 * drift - drift**2 / 2
    logs = np.linspace(low, high, multipliers)
    empty = Payoff(drift, corners, log_slopes, logs, logs)
    costs = np.log(np.maximum(empty.cost(empty.thresholds(logs)), 1e-300))
    return empty._replace(log_levels=costs[::-1], log_multipliers=logs[::-1])


@lru_cache(maxsize=4096)
def _values(cell: int, looks: int, price: float, extension_value: float) -> Floats:
    """A_t on LEVELS, for t looks left."""
    from scipy.special import ndtr, ndtri

    drift = float(np.exp(np.log(LEAST_DRIFT) + cell / PER_UNIT))
    if not looks:
        found = extension_value * ndtr(drift + ndtri(LEVELS))
        found[-1] = 1.0
        return found
    payoff = payoff_of(cell, looks - 1, price, extension_value)
    after = _values(cell, looks - 1, price, extension_value)
    gains = np.diff(np.interp(payoff.corners, LEVELS, after))
    thresholds = payoff.thresholds(payoff.log_multipliers)
    values = after[0] + ndtr(drift - thresholds) @ gains
    found = np.interp(LEVELS, np.exp(payoff.log_levels), values)
    found[0] = 0.0
    found[-1] = 1.0 + price * looks
    return found


def _envelope(values: Floats) -> tuple[Floats, Floats]:
    """The corners of the concave envelope of values on LEVELS, and the slopes between them."""
    hull: list[int] = []
    for i in range(len(LEVELS)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            rise = (values[b] - values[a]) * (LEVELS[i] - LEVELS[a])
            if rise > (values[i] - values[a]) * (LEVELS[b] - LEVELS[a]):
                break
            hull.pop()
        hull.append(i)
    corners = LEVELS[hull]
    slopes = np.diff(values[hull]) / np.diff(corners)
    keep = slopes > 0
    last = int(keep.sum())  # where the envelope decreases, more level has no value
    return corners[: last + 1], slopes[:last]
