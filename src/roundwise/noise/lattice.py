"""Bets towards a budget where the statistic is a whole number whose law at the border of the null is known.

The payoff of Proposition 14 with the exact mean: y is found such that what is paid on average is the stake.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats

from .mixture import added

SLACK = 1e-12  # by how much the mean of a bet stays below 1, relative
WIDE = 3.0  # how far y may be above that of one look at the end
_LATTICE = 60_000  # values times elements that are computed at once: what fits the cache; at least so many elements
_FEWEST = 64
_GRID = (1.0 + WIDE) / 2**24  # to which y is found for a law on whole numbers, in at most so many steps of Newton's
_NEWTON = 60
_NEAR = 1e-9
_LONG = 200  # values from which on it pays to leave out those that never occur
_ROOT = float(np.sqrt(2 * np.pi))

Ratios = Callable[[Floats, NDArray[np.intp]], Floats]  # log P(x + 1)/P(x) of some elements


def lattice_bet(
    ratios: Ratios, x: Floats, low: Floats, high: Floats, need: Floats, rho: Floats, good: Bools, eta: float
) -> Floats:
    """The bet for a law on low..high with these log ratios of successive probabilities, in lots of similar length."""
    logs = np.zeros(x.shape)
    good = good & (high > low)
    where = np.flatnonzero(good)
    sizes = (high - low)[where]
    where = where[np.argsort(sizes, kind="stable")]
    start = 0
    while start < where.size:
        lengths = (high - low)[where[start:]] + 1.0
        stop = start + max(_FEWEST, int(np.searchsorted(lengths * np.arange(1, lengths.size + 1), _LATTICE)))
        lot = where[start:stop]
        logs[lot] = _lot(ratios, x[lot], low[lot], high[lot], need[lot], rho[lot], lot, eta)
        start = stop
    return logs


def _lot(
    ratios: Ratios, x: Floats, low: Floats, high: Floats, need: Floats, rho: Floats, lot: NDArray[np.intp], eta: float
) -> Floats:
    """Values on the first axis: sums run over it one by one, so zeros after the last value change nothing."""
    places = np.arange(int((high - low).max()) + 1.0)[:, None] + low
    inside = places <= high
    steps = np.where(inside[1:], ratios(np.where(inside[1:], places[:-1], low), lot), 0.0)
    logs = np.concatenate([np.zeros((1, x.size)), np.cumsum(steps, axis=0)])
    logs = np.where(inside, logs, -np.inf)
    logs -= logs.max(axis=0)
    if len(logs) > _LONG:  # what is left out, all values together, is less than 1e-13 of what a bet may lose
        likely = (logs > -need - 45.0) | (high - low < _LONG)
        logs[~likely] = -np.inf
        first, beyond = likely.argmax(axis=0), len(likely) - likely[::-1].argmax(axis=0)
        x = np.clip(x, low + first, low + beyond - 1)
        logs, places = logs[first.min() : beyond.max()], places[first.min() : beyond.max()]
    law = np.exp(logs)
    law /= added(law)
    mean = added(law * places)
    deviation = np.sqrt(added(law * (places - mean) ** 2))
    target = np.exp(-need) * (1.0 - SLACK)
    here = (x - places[0]).astype(np.intp)
    last = rho >= 1.0
    payoff = np.where(last, _at_the_end(law, target), 0.0)
    if not last.all():
        to_come = np.flatnonzero(~last)
        z = (places - mean) / deviation
        payoff[:, to_come] = _before_the_end(law[:, to_come], z[:, to_come], target[to_come], rho[to_come], eta)
    return np.asarray(need + np.log(np.take_along_axis(payoff, here[None], axis=0)[0]))


def _before_the_end(law: Floats, z: Floats, target: Floats, rho: Floats, eta: float) -> Floats:
    """What is paid, as a share of the bar, at each value: its mean is the target at most, exactly."""
    from scipy.special import ndtr, ndtri

    q, slope, width = ndtri(1.0 - eta), np.sqrt(rho), np.sqrt(1.0 - rho)
    a = (slope * z - _exact_critical(law, slope * z, target, width, eta)) / width
    found = np.where(a >= q, 1.0, ndtr(a))
    scale = target / added(law * found)
    more = np.minimum(found * scale, 1.0)  # where the scale is below 1, it is needed
    fits = (scale < 1) | (added(law * more) <= target)
    return np.where(fits, more, found)


def _exact_critical(law: Floats, moved: Floats, target: Floats, width: Floats, eta: float) -> Floats:
    """The least y, of a grid of steps of 2.4e-7 from a start below it, at which what is paid is the target at most.

    What is paid, F, falls in y, and jumps down where a value is no longer paid in full. Newton's steps on log F cross
    jumps with their mean slope; one that crosses a single jump is cut there, and both sides of it are tried.
    """
    from scipy.special import ndtr, ndtri

    q, start = ndtri(1.0 - eta), -ndtri(target) - 1.0
    low, high = start.copy(), start + 1.0 + WIDE  # more is paid than the target at the one, less at the other
    y = _guess(start, np.sqrt(1.0 - width * width), width, target, eta)
    at = np.arange(y.size)
    for _ in range(_NEWTON):
        place = y[at]
        a = (moved - place) / width
        full = a >= q
        paid = added(law * np.where(full, 1.0, ndtr(a)))
        fall = added(law * np.where(full, 0.0, np.exp(-0.5 * a * a))) / (width * _ROOT)
        first = np.minimum((~full).sum(axis=0), len(law) - 1)[None]  # the first value that is paid in full
        apart = moved[1] - moved[0]
        up = np.take_along_axis(moved, first, axis=0)[0] - width * q  # to here it is
        down = np.where(full[-1], up - apart, up)
        up = np.where(full[-1], up, np.inf)
        drop = np.take_along_axis(law, first, axis=0)[0] * eta / apart
        over = paid > target
        low[at], high[at] = np.where(over, place, low[at]), np.where(over, high[at], place)
        excess = (np.log(paid) - np.log(target)) * paid
        step, coarse = excess / fall, excess / (fall + drop)
        right = np.where(place >= up, place + _NEAR, np.minimum(place + step, up))
        left = np.where(place > down + _NEAR, np.maximum(place + step, down + _NEAR), down)
        after = np.where(np.abs(coarse) > apart, place + coarse, np.where(over, right, left))
        inside = (after > low[at]) & (after < high[at])
        y[at] = np.where(inside, after, (low[at] + high[at]) / 2)
        keep = np.flatnonzero((high[at] - low[at] > 2 * _NEAR) & (over | ~(np.abs(step) < _NEAR)))
        if not keep.size:
            break
        if keep.size < 0.8 * at.size:
            at, law, moved, target, width = at[keep], law[:, keep], moved[:, keep], target[keep], width[keep]
    return start + np.ceil((high - start) / _GRID) * _GRID


def _guess(start: Floats, slope: Floats, width: Floats, target: Floats, eta: float) -> Floats:
    """Where y would be for a normal law, roughly: two of Newton's steps."""
    from scipy.special import ndtr, ndtri

    q, y = ndtri(1.0 - eta), start + 1.2
    for _ in range(2):
        z = (y + width * q) / slope
        paid = ndtr(-y) + eta * ndtr(-z)
        fall = (np.exp(-0.5 * y * y) + eta / slope * np.exp(-0.5 * z * z)) / _ROOT
        y = y + (np.log(paid) - np.log(target)) * paid / fall
    return np.where((y > start + 0.5) & (y < start + 1.0 + WIDE), y, start + 1.2)


def _at_the_end(law: Floats, target: Floats) -> Floats:
    """The last bet: all beyond a value, and at the value below it what is left of the stake."""
    beyond = np.cumsum(law[::-1], axis=0)[::-1]  # P(X >= x)
    full = beyond <= target
    after = np.concatenate([beyond[1:], np.zeros((1, law.shape[1]))])
    edge = ~full & (after <= target)
    left = np.where(edge, (target - after) / np.maximum(law, 1e-300), 0.0)
    return np.where(full, 1.0, np.where(edge, np.clip(left, 0.0, 1.0), 0.0))
