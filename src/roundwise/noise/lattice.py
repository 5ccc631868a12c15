"""Bets towards a budget where the statistic is a whole number whose law at the border of the null is known.

The payoff of Proposition 14 with the exact mean: whatever is paid at each value, its mean is computed and made the
stake.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats

from .mixture import added

SLACK = 1e-12  # by how much the mean of a bet stays below 1, relative
WIDE = 3.0  # how far y may be above that of one look at the end
_LATTICE = 60_000  # values times elements that are computed at once: what fits the cache; at least so many elements
_FEWEST = 64
_LEFT_OUT = 14.0  # values whose probability, in logs, is so far below the stake and a central one are not looked at
_CLOSE = 4e-3  # how near the target, in logs, what is paid must come before it is scaled up to it
_NEWTON = 24  # steps in which it does; 1 or 2 are usual
_ROUGH = 3  # steps for the first guess
_NEAR = 1e-9  # how far from a jump its two sides are tried
_PHI_STEPS = 256  # entries of the table of Phi per unit, down to -_PHI_LEAST
_PHI_LEAST = 37
_ROOT = float(np.sqrt(2 * np.pi))

Index = NDArray[np.intp]
Ratios = Callable[[Floats, Index], Floats]  # P(x + 1)/P(x) of some elements; 0 at the highest value, infinite below all


class Shape(NamedTuple):
    """Mean, deviation and skewness of each element's law, roughly: what is paid is shaped by them."""

    mean: Floats
    deviation: Floats
    skew: Floats

    def at(self, elements: Index) -> Shape:
        """Of some elements."""
        return Shape(*(each[elements] for each in self))


def lattice_bet(
    ratios: Ratios,
    shape: Shape,
    x: Floats,
    low: Floats,
    high: Floats,
    need: Floats,
    rho: Floats,
    good: Bools,
    eta: float,
) -> Floats:
    """The bet for a law on low..high with these ratios of successive probabilities, in lots of similar length."""
    logs = np.zeros(x.shape)
    where = np.flatnonzero(good & (high > low))
    shape = shape.at(where)
    middle = np.clip(np.floor(shape.mean), low[where], high[where])
    reach = np.ceil(np.sqrt(2.0 * (need[where] + _LEFT_OUT)) * shape.deviation + 2.0)
    length = np.minimum(middle - low[where], reach) + np.minimum(high[where] - middle, reach) + 1.0
    order = np.argsort(length, kind="stable")
    start = 0
    while start < order.size:
        sizes = length[order[start:]] * np.arange(1, order.size - start + 1)
        lot = order[start : start + max(_FEWEST, int(np.searchsorted(sizes, _LATTICE)))]
        at = where[lot]
        law = _law(ratios, middle[lot], low[at], high[at], reach[lot], need[at], at)
        logs[at] = _paid(law, shape.at(lot), middle[lot], x[at], need[at], rho[at], eta)
        start += lot.size
    return logs


class Law(NamedTuple):
    """The law of each element; values on the first axis."""

    steps: Floats  # (V, 1), from the middle to each value
    weights: Floats  # (V, n), in proportion to the probabilities
    total: Floats  # (n), of the weights
    rest: Floats  # (n), the probability of all that is left out, at most

    def at(self, elements: Index) -> Law:
        """Of some elements."""
        return Law(self.steps, self.weights[:, elements], self.total[elements], self.rest[elements])


def _law(ratios: Ratios, middle: Floats, low: Floats, high: Floats, reach: Floats, need: Floats, at: Index) -> Law:
    """Products of the ratios up and down from the middle, where the weight is 1, as long as they are above a floor.

    Ratios fall, so a weight exp(-c) that is j from the middle is followed by others that fall by exp(-c/j) each at
    least: all beyond the floor have exp(-c) / (1 - exp(-c/j)) <= exp(-c) (1 + j/c) together, and j <= high - low.
    """
    floor = np.exp(-need - _LEFT_OUT)
    longer = 1.0
    while True:
        down = int(np.minimum(middle - low, np.ceil(longer * reach)).max())
        up = int(np.minimum(high - middle, np.ceil(longer * reach)).max())
        steps = np.arange(-down, up + 1.0)[:, None]
        weights = np.empty((down + up + 1, middle.size))
        weights[down] = 1.0
        each = ratios(steps[:-1] + middle, at)
        np.cumprod(each[down:], axis=0, out=weights[down + 1 :])
        np.divide(1.0, each[:down], out=each[:down])
        np.cumprod(each[:down][::-1], axis=0, out=weights[:down][::-1])
        np.copyto(weights, 0.0, where=~(weights >= floor))
        short = (weights[0] > 0) & (middle - down > low) | (weights[-1] > 0) & (middle + up < high)
        if not short.any():
            total = added(weights)
            return Law(steps, weights, total, 2.0 * floor * (1.0 + (high - low) / (need + _LEFT_OUT)) / total)
        longer *= 1.5


def _paid(law: Law, shape: Shape, middle: Floats, x: Floats, need: Floats, rho: Floats, eta: float) -> Floats:
    """log of what is paid at x."""
    target = np.exp(-need) * (1.0 - SLACK)
    paid, last = np.ones(x.size), rho >= 1.0
    if last.any():
        end = np.flatnonzero(last)
        here = np.clip(x - middle - law.steps[0], 0, len(law.steps) - 1).astype(np.intp)[None, end]
        chances = law.weights[:, end] / law.total[end]
        paid[end] = np.take_along_axis(_at_the_end(chances, target[end] - law.rest[end]), here, axis=0)[0]
    if not last.all():
        some = np.flatnonzero(~last)
        if some.size < last.size:
            law, shape = law.at(some), shape.at(some)
        paid[some] = _before_the_end(law, shape, middle[some], x[some], target[some], rho[some], eta)
    return np.asarray(need + np.log(paid))


class Test(NamedTuple):
    """The test at the budget: a = slope (x - middle) + start - y / width, and Phi(a) is what its chance is then."""

    slope: Floats  # (n)
    start: Floats  # (n)
    width: Floats  # (n)
    jump: Floats  # (n), how far apart in y two neighbours are

    def at(self, elements: Index) -> Test:
        """Of some elements."""
        return Test(*(each[elements] for each in self))

    def entries(self, steps: Floats, y: Floats, table: Floats) -> Index:
        """Where in the table of Phi each value is, so many steps from the middle: at the nearest entry."""
        a = steps * (self.slope * _PHI_STEPS)
        a += (self.start - y / self.width + _PHI_LEAST) * _PHI_STEPS + 0.5
        np.maximum(a, 0.0, out=a)
        np.minimum(a, table.size - 1.0, out=a)
        return a.astype(np.intp)


def _before_the_end(
    law: Law, shape: Shape, middle: Floats, x: Floats, target: Floats, rho: Floats, eta: float
) -> Floats:
    """What is paid at x, as a share of the bar: min(s f, 1), where s is the target over the mean of f.

    So its mean is the target at most, whatever f is. f is the test at the budget for a y at which its mean is near the
    target and not above it, so that s is near 1 and what f pays in full is paid in full. Phi is taken from a table, for
    the mean as for what is paid.
    """
    width, table = np.sqrt(1.0 - rho), _tests(eta)
    slope = np.sqrt(rho) / shape.deviation
    test = Test(slope / width, (middle - shape.mean) * (slope / width), width, slope)
    y, mean = _critical(law, test, shape.skew, np.sqrt(rho), target, eta, table)
    return np.minimum(table.take(test.entries(x - middle, y, table)) * (target / mean), 1.0)


@lru_cache(maxsize=64)
def _tests(eta: float) -> Floats:
    """Phi(a), and 1 from Phi(a) = 1 - eta on, at steps from -_PHI_LEAST to there."""
    from scipy.special import ndtr, ndtri

    most = int(np.ceil(ndtri(1.0 - eta) * _PHI_STEPS + 0.5))
    table = ndtr(np.arange(-_PHI_LEAST * _PHI_STEPS, most + 1) / _PHI_STEPS)
    table[-1] = 1.0
    return np.asarray(table)


def _critical(
    law: Law, test: Test, skew: Floats, slope: Floats, target: Floats, eta: float, table: Floats
) -> tuple[Floats, Floats]:
    """A y near the least at which what is paid, F, is the target at most, and F there.

    F falls in y, and jumps down where a value is no longer paid in full. Newton's steps on log F cross jumps with their
    mean slope; one that crosses a single jump is cut there, and both sides of it are tried.
    """
    from scipy.special import ndtri

    q, start = (table.size - 1.5) / _PHI_STEPS - _PHI_LEAST, -ndtri(target) - 1.0
    low, high = start.copy(), start + 1.0 + WIDE  # more is paid than the target at the one, less at the other
    at, aim = np.arange(start.size), np.log(target) - _CLOSE / 4
    y = _guess(start, skew, slope, test.width, aim, eta)
    found, means = np.full(y.size, np.nan), np.full(y.size, np.nan)
    steps = law.steps
    for number in range(_NEWTON):
        place = y[at]
        entries = test.entries(steps, place, table)
        share = table.take(entries, mode="clip")
        share *= law.weights
        paid = added(share) / law.total + law.rest
        over = paid > target
        low[at], high[at] = np.where(over, place, low[at]), np.where(over, high[at], place)
        better = at[~over]  # the later, the smaller
        found[better], means[better] = place[~over], paid[~over]
        excess = np.log(paid) - aim
        keep = (over | (excess < -_CLOSE)) & (high[at] - low[at] > 4 * _NEAR)
        if not keep.any():
            break
        if not keep.all():
            kept = np.flatnonzero(keep)
            at, law, test, entries = at[kept], law.at(kept), test.at(kept), entries[:, kept]
            target, aim, place = target[kept], aim[kept], place[kept]
            over, excess, paid = over[kept], excess[kept], paid[kept]
        a = steps * test.slope + (test.start - place / test.width)
        full = entries == table.size - 1
        dense = np.where(full, 0.0, np.exp(-0.5 * a * a))
        fall = added(law.weights * dense) / (law.total * test.width * _ROOT)
        last = len(steps) - 1 - (law.weights[::-1] > 0).argmax(axis=0)
        below = (~full).sum(axis=0)
        first, some = np.minimum(below, last), below <= last  # the first value that is paid in full
        up = (steps[first, 0] * test.slope + test.start - q) * test.width  # to here it is
        down, up = np.where(some, up - test.jump, up), np.where(some, up, np.inf)
        drop = np.take_along_axis(law.weights, first[None], axis=0)[0] / law.total * eta / test.jump
        excess *= paid
        step, coarse = excess / fall, excess / (fall + drop)
        right = np.where(place >= up - 2 * _NEAR, up + _NEAR, np.minimum(place + step, up - _NEAR))
        left = np.where(place > down + 2 * _NEAR, np.maximum(place + step, down + _NEAR), down - _NEAR)
        after = np.where(np.abs(coarse) > test.jump, place + coarse, np.where(over, right, left))
        inside = (after > low[at]) & (after < high[at])
        y[at] = np.where(inside & (number % 8 != 7), after, (low[at] + high[at]) / 2)
    none = np.isnan(found)  # nothing was found within the target: what is paid is then scaled down to it
    found[none], means[none] = high[none], 1.0
    return found, means


def _guess(start: Floats, skew: Floats, slope: Floats, width: Floats, aim: Floats, eta: float) -> Floats:
    """Where log F would be this for a law that is normal up to its skewness (Edgeworth): some of Newton's steps."""
    from scipy.special import ndtr, ndtri

    q, y = ndtri(1.0 - eta), start + 1.2
    for _ in range(_ROUGH):
        z = (y + width * q) / slope
        here, there = np.exp(-0.5 * y * y) / _ROOT, np.exp(-0.5 * z * z) * (eta / _ROOT)
        bent = skew / 6.0 * (slope**3 * (y * y - 1.0) * here + (z * z - 1.0) * there)
        paid = ndtr(-y) + eta * ndtr(-z) + bent
        y = y + (np.log(paid) - aim) * paid / (here + there / slope)
    return np.where((y > start + 0.5) & (y < start + 1.0 + WIDE), y, start + 1.2)


def _at_the_end(law: Floats, target: Floats) -> Floats:
    """The last bet: all beyond a value, and at the value below it what is left of the stake."""
    beyond = np.cumsum(law[::-1], axis=0)[::-1]  # P(X >= x)
    full = beyond <= target
    after = np.concatenate([beyond[1:], np.zeros((1, law.shape[1]))])
    edge = ~full & (after <= target)
    left = np.where(edge, (target - after) / np.maximum(law, 1e-300), 0.0)
    return np.where(full, 1.0, np.where(edge, np.clip(left, 0.0, 1.0), 0.0))
