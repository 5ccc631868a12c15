"""Budget bets on an integer statistic whose law at the border of the null is known.

The payoff of Proposition 14 with the exact mean: the mean of the payoff over the law is computed and scaled to the
stake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, sum_rows
from roundwise.noise.payoffs import FULL, Payoff, payoffs_by_cell

SLACK = 1e-12  # relative margin by which the mean of a bet stays below 1
WIDE = 3.0  # how far y may exceed its value for a single look at the end
_LATTICE = 400_000  # values times elements computed at a time, so that they fit the cache,
_FEWEST = 64  # but at least this many elements
_LONGER = 1.1  # initial range of values, relative to that of a normal law: laws are skewed
_LEFT_OUT = 14.0  # values are left out if their log probability is this far below the stake and a central value
_CLOSE = 4e-3  # the log of the mean payoff must come this close to the target before it is scaled up to it
_LEAST_LEVEL = 1e-280  # no bet below this: such small numbers have too few digits
_NEWTON = 24  # most steps until it does; 1 or 2 are usual
_ROUGH = 3  # steps for the first guess
_NARROW = 0.01  # accuracy of the multiplier near a jump of the mean, in drifts
_NEAR = 1e-9  # distance from a jump at which its two sides are tried
_PHI_STEPS = 256  # entries of the table of Phi per unit, down to -_PHI_LEAST
_PHI_LEAST = 37
_ROOT = float(np.sqrt(2 * np.pi))

Index = NDArray[np.intp]
Ratios = Callable[[Floats, Index], Floats]  # P(x + 1)/P(x) of some elements; 0 at the highest, inf below the lowest


class LawShape(NamedTuple):
    """The approximate mean, standard deviation and skewness of each element's law, from which payoffs are shaped."""

    mean: Floats
    deviation: Floats
    skew: Floats

    def at(self, elements: Index) -> LawShape:
        return LawShape(*(each[elements] for each in self))


class LatticeLaw(NamedTuple):
    """The law of each element; values on the first axis."""

    steps: Floats  # (V, 1), from the middle to each value
    weights: Floats  # (V, n), in proportion to the probabilities
    total: Floats  # (n), of the weights
    rest: Floats  # (n), an upper bound on the probability of all values left out

    def at(self, elements: Index) -> LatticeLaw:
        return LatticeLaw(
            self.steps, self.weights.take(elements, axis=1, mode="clip"), self.total[elements], self.rest[elements]
        )


class Lattice(NamedTuple):
    """The observed value x, and its law on low..high at the border of the null. Vectors."""

    ratios: Ratios  # of successive probabilities
    settings: Sequence[Floats]  # elements with the same settings have the same law
    shape: LawShape
    x: Floats
    low: Floats
    high: Floats
    good: Bools  # where the law is valid

    def bets(self, at: Index, need: Floats, rho: Floats) -> LatticeBets:
        alike = _alike([each[at] for each in self.settings])
        return LatticeBets(self.ratios, at, alike, self.shape.at(at), self.low[at], self.high[at], need[at], rho[at])


def lattice_bet(law: Lattice, need: Floats, rho: Floats, eta: float) -> Floats:
    """The log e-value of the budget bet."""
    logs, at = np.zeros(law.x.shape), np.flatnonzero(law.good & (law.high > law.low))
    if not at.size:
        return logs
    bets, x = law.bets(at, need, rho), law.x[at]
    last = bets.rho >= 1.0
    paid = np.ones(at.size)
    for lot, found in bets.lots(np.flatnonzero(last)):
        paid[lot] = _at_the_end(found, bets.target[lot], x[lot] - bets.middle[lot])
    some = np.flatnonzero(~last)
    if some.size:
        paid[some] = _before_the_end(bets, some, x[some], eta)
    logs[at] = bets.need + np.log(paid)
    return logs


def pay_on_lattice(
    law: Lattice, level: Floats, drift: Floats, looks_left: Floats, price: float, extension_value: float
) -> Floats:
    """The level after a designed look (`payoffs.pay`) with an integer statistic; vectors.

    The payoff is that of the standardized statistic, but its mean is the exact sum over the law.
    """
    found, may = level.copy(), law.good & (law.high > law.low) & (level > _LEAST_LEVEL) & (level < FULL)
    at = np.flatnonzero(may)
    if not at.size:
        return found
    paid, x = level[at], law.x[at]
    alike = _alike([each[at] for each in (*law.settings, level, drift, looks_left)])
    for payoff, some in payoffs_by_cell(drift[at], looks_left[at], price, extension_value):
        if payoff is None:
            bets, seen = law.bets(at[some], -np.log(level), np.ones(level.shape)), x[some]
            for lot, weights in bets.lots(np.arange(some.size)):
                paid[some[lot]] = _at_the_end(weights, bets.target[lot], seen[lot] - bets.middle[lot])
            continue
        one, back = _distinct(alike[some])  # each law and level once
        bets = law.bets(at[some[one]], -np.log(level), np.ones(level.shape))
        steps = CornerSteps.empty(one.size)
        for lot, weights in bets.lots(np.arange(one.size)):
            steps.fill(lot, bets, weights, payoff)
        paid[some] = np.where(steps.found[back], steps.pay(x[some], back, payoff), paid[some])
    found[at] = paid
    return found


class CornerSteps(NamedTuple):
    """The values from which each corner of a payoff is paid, and the rest of the level, paid just before the last.

    The mean of the payoff is at most the level, and close to it: the multiplier is raised until the exact mean does not
    exceed the level, and the difference is paid at the highest value that is not paid in full.
    """

    multiplier: Floats  # (n), of the payoff
    law: Floats  # (5, n): start, slope and middle of the law, its lowest value and the one above its highest
    edge: Floats  # (n)
    extra: Floats  # (n)
    found: Bools  # (n); False means no bet, and does not depend on the observed value

    @classmethod
    def empty(cls, size: int) -> CornerSteps:
        """Room for this many elements."""
        return cls(np.zeros(size), np.zeros((5, size)), np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.bool_))

    def value(self, which: Index, corner: Index, payoff: Payoff) -> Floats:
        """The value from which element `which` is paid this corner; elementwise."""
        threshold = (self.multiplier[which] - payoff.log_slopes[corner]) / payoff.drift + payoff.drift / 2
        start, slope, middle, least, most = (each[which] for each in self.law)
        return np.clip(np.ceil((threshold - start) / slope) + middle, least, most)

    def pay(self, x: Floats, which: Index, payoff: Payoff) -> Floats:
        """The payoff of element `which` at x; elementwise."""
        number = payoff.log_slopes.size
        reached, step = np.zeros(x.size, dtype=np.intp), 1 << (number.bit_length() - 1)
        while step:  # bisection for the number of corners reached, whose values increase
            more = np.minimum(reached + step, number)
            reached, step = np.where(self.value(which, more - 1, payoff) <= x, more, reached), step // 2
        paid = payoff.corners[reached]
        return np.minimum(np.where(x >= self.edge[which], paid + self.extra[which], paid), 1.0)

    def fill(self, lot: Index, bets: LatticeBets, law: LatticeLaw, payoff: Payoff) -> None:
        """Find the steps of some elements.

        The mean decreases in the multiplier, in jumps: Newton steps on its log, as if the law were normal, and
        bisection between a multiplier that is too small and one that is not.
        """
        level, slope = bets.target[lot], 1.0 / bets.shape.deviation[lot]
        start = (bets.middle[lot] - bets.shape.mean[lot]) * slope
        above = np.cumsum(law.weights[::-1], axis=0)[::-1] / law.total  # P(X >= x)
        above = np.concatenate([above, np.zeros((1, level.size))])
        gains, first, last = np.diff(payoff.corners), law.steps[0, 0], len(law.steps)
        aim = np.log(level)
        at, multiplier = np.arange(level.size), np.interp(aim, payoff.log_levels, payoff.log_multipliers)
        low, high, mean = np.full(level.size, -np.inf), np.full(level.size, np.inf), np.full(level.size, np.nan)
        for number in range(_NEWTON):
            here = multiplier[at]
            thresholds = payoff.thresholds(here)
            place = thresholds - start[at, None]
            place /= slope[at, None]
            np.ceil(place, out=place)
            place -= first
            value = np.clip(place, 0, last, out=place).astype(np.intp)
            value *= level.size
            value += at[:, None]
            cost = (above.reshape(-1).take(value) * gains).sum(axis=-1) + law.rest[at]
            over = cost > level[at]
            low[at], high[at] = np.where(over, here, low[at]), np.where(over, high[at], here)
            mean[at[~over]] = cost[~over]  # later ones are closer
            excess = np.log(cost) - aim[at] + _CLOSE / 4
            keep = (over | (excess < -_CLOSE)) & (high[at] - low[at] > _NARROW * payoff.drift)
            if not keep.any():
                break
            at, here, excess, cost = at[keep], here[keep], excess[keep], cost[keep]
            fall = (np.exp(-0.5 * thresholds[keep] ** 2) * gains).sum(axis=-1) / (_ROOT * payoff.drift)
            step = np.clip(excess * cost / np.maximum(fall, 1e-300), -3 * payoff.drift, 3 * payoff.drift)
            after, middle = here + step, (low[at] + high[at]) / 2
            halve = np.isfinite(middle) & (~((after > low[at]) & (after < high[at])) | (number % 3 == 2))
            multiplier[at] = np.where(halve, middle, after)
        self.multiplier[lot] = high
        lowest = bets.middle[lot] + first
        self.law[:, lot] = start, slope, bets.middle[lot], lowest, lowest + last
        top = self.value(lot, np.full(lot.size, gains.size - 1), payoff) - lowest  # paid in full from here on
        highest = last - 1 - (law.weights[::-1] > 0).argmax(axis=0)
        edge = np.clip(top.astype(np.intp) - 1, 0, highest)
        chance = np.maximum(law.weights[edge, np.arange(edge.size)] / law.total, 1e-300)
        self.edge[lot] = edge + lowest
        self.extra[lot], self.found[lot] = (level - mean) / chance, ~np.isnan(mean)


def _alike(settings: Sequence[Floats]) -> Index:
    """A number for each element, equal for elements with equal settings."""
    mixed = np.zeros(settings[0].shape, dtype=np.uint64)
    for each in settings:
        mixed = (mixed ^ (each + 0.0).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)  # + 0.0 makes -0.0 and 0.0 equal
        mixed ^= mixed >> np.uint64(29)
    different, found = np.unique(mixed, return_inverse=True)
    one = np.empty(different.size, dtype=np.intp)
    one[found] = np.arange(found.size)
    alike = all((each == each[one][found]).all() for each in settings)
    return found if alike else np.arange(found.size)  # else there is a hash collision


def _distinct(numbers: Index) -> tuple[Index, Index]:
    """One index of each distinct number, and for each element which of these is its own."""
    one = np.full(int(numbers.max()) + 1, -1)
    one[numbers] = np.arange(numbers.size)
    found = one >= 0
    return one[found], (np.cumsum(found) - 1)[numbers]


class LatticeBets:
    """The elements that are bet on, their laws, and their targets."""

    def __init__(
        self,
        ratios: Ratios,
        at: Index,
        which: Index,
        shape: LawShape,
        low: Floats,
        high: Floats,
        need: Floats,
        rho: Floats,
    ) -> None:
        self.ratios, self.at, self.which, self.shape = ratios, at, which, shape
        self.low, self.high, self.need, self.rho = low, high, need, rho
        self.target = np.exp(-need) * (1.0 - SLACK)
        self.middle = np.clip(np.floor(shape.mean), low, high)
        self.reach = np.ceil(np.sqrt(2.0 * (need + _LEFT_OUT)) * shape.deviation + 2.0)

    def different(self, some: Index) -> tuple[Index, Index]:
        """One index for each distinct law and need, and for each element which of these is its own."""
        if (self.need[some] == self.need[some[0]]).all() and (self.rho[some] == self.rho[some[0]]).all():
            one, which = _distinct(self.which[some])
            return some[one], which
        return some, np.arange(some.size)

    def lots(self, some: Index) -> Iterator[tuple[Index, LatticeLaw]]:
        """Groups of elements with laws of similar length, and these laws."""
        middle, reach = self.middle[some], self.reach[some]
        length = np.minimum(middle - self.low[some], reach) + np.minimum(self.high[some] - middle, reach) + 1.0
        order = np.argsort(length)
        length, start = length[order], 0
        while start < order.size:
            sizes = length[start:] * np.arange(1, order.size - start + 1)
            lot = some[order[start : start + max(_FEWEST, int(np.searchsorted(sizes, _LATTICE)))]]
            yield lot, self.law(lot)
            start += lot.size

    def law(self, lot: Index) -> LatticeLaw:
        """Products of the ratios up and down from the middle, where the weight is 1, as long as they exceed a floor.

        Ratios decrease, so a weight exp(-c) at distance j from the middle is followed by others that fall by exp(-c/j)
        or more: all beyond the floor sum to at most exp(-c) / (1 - exp(-c/j)) <= exp(-c) (1 + j/c), and j <= high -
        low.
        """
        low, high, middle, need, reach = (
            each[lot] for each in (self.low, self.high, self.middle, self.need, self.reach)
        )
        floor = np.exp(-need - _LEFT_OUT)
        one, which = _distinct(self.which[lot])
        one = lot[one]
        longer = _LONGER
        while True:
            down = int(np.minimum(middle - low, np.ceil(longer * reach)).max())
            up = int(np.minimum(high - middle, np.ceil(longer * reach)).max())
            steps = np.arange(-down, up + 1.0)[:, None]
            weights = np.empty((down + up + 1, one.size))
            weights[down] = 1.0
            each = self.ratios(steps[:-1] + self.middle[one], self.at[one])
            for i in range(down, down + up):
                np.multiply(weights[i], each[i], out=weights[i + 1])
            np.divide(1.0, each[:down], out=each[:down])
            for i in range(down, 0, -1):
                np.multiply(weights[i], each[i - 1], out=weights[i - 1])
            weights = weights.take(which, axis=1, mode="clip")
            np.copyto(weights, 0.0, where=~(weights >= floor))  # also beyond the last value
            short = (weights[0] > 0) & (middle - down > low) | (weights[-1] > 0) & (middle + up < high)
            if not short.any():
                seen = np.flatnonzero(weights.any(axis=1))
                some = slice(max(int(seen[0]) - 1, 0), int(seen[-1]) + 2)  # keep one value of weight 0 on each side
                steps, weights = steps[some], weights[some]
                total = sum_rows(weights)
                return LatticeLaw(
                    steps, weights, total, 2.0 * floor * (1.0 + (high - low) / (need + _LEFT_OUT)) / total
                )
            longer *= 1.5


class Test(NamedTuple):
    """The test at the budget: its conditional power is Phi(a), a = slope (x - middle) + start - y / width."""

    slope: Floats  # (n)
    start: Floats  # (n)
    width: Floats  # (n)
    jump: Floats  # (n), the distance in y between neighbouring values

    def at(self, elements: Index) -> Test:
        return Test(*(each[elements] for each in self))

    def entries(self, steps: Floats, y: Floats) -> Index:
        """The nearest entry in the table of Phi for each value, in steps from the middle, if it is inside the table."""
        a = steps * (self.slope * _PHI_STEPS)
        a += (self.start - y / self.width + _PHI_LEAST) * _PHI_STEPS + 0.5
        return a.astype(np.intp)


def _before_the_end(bets: LatticeBets, some: Index, x: Floats, eta: float) -> Floats:
    """The payoff at x, as a share of the bar: min(s f, 1), where s is the target over the mean of f.

    So its mean is at most the target, whatever f is. f is the test at the budget for a y at which the mean is close to
    the target and not above it, so that s is close to 1 and a full payoff of f stays a full payoff. The mean and the
    payoff use the same table of Phi.
    """
    from scipy.special import ndtri

    one, back = bets.different(some)
    shape, rho, target, table = bets.shape.at(one), bets.rho[one], bets.target[one], _tests(eta)
    width, slope = np.sqrt(1.0 - rho), np.sqrt(rho) / shape.deviation
    test = Test(slope / width, (bets.middle[one] - shape.mean) * (slope / width), width, slope)
    start = -ndtri(target) - 1.0
    y = _guess(start, shape.skew, np.sqrt(rho), width, np.log(target) - _CLOSE / 4, eta)
    mean = np.empty(y.size)
    place = np.empty(bets.at.size, dtype=np.intp)
    place[one] = np.arange(one.size)
    for lot, law in bets.lots(one):
        here = place[lot]
        y[here], mean[here] = _critical(law, test.at(here), y[here], start[here], target[here], eta, table)
    test, y, share = test.at(back), y[back], (target / mean)[back]
    entries = test.entries(x - bets.middle[some], y)
    return np.minimum(table.take(entries, mode="clip") * share, 1.0)


@lru_cache(maxsize=64)
def _tests(eta: float) -> Floats:
    """Phi(a) on a grid from -_PHI_LEAST up to the first a with Phi(a) >= 1 - eta, which counts as 1."""
    from scipy.special import ndtr, ndtri

    most = int(np.ceil(-ndtri(eta) * _PHI_STEPS + 0.5))  # 1 - eta may be 1
    table = ndtr(np.arange(-_PHI_LEAST * _PHI_STEPS, most + 1) / _PHI_STEPS)
    table[-1] = 1.0
    return np.asarray(table)


def _critical(
    law: LatticeLaw, test: Test, y: Floats, start: Floats, target: Floats, eta: float, table: Floats
) -> tuple[Floats, Floats]:
    """A y close to the smallest at which the mean payoff F is at most the target, and F there, from an initial guess y.

    F decreases in y, and jumps down where a value is no longer paid in full. Newton steps on log F cross jumps with
    their average slope; a step across a single jump is cut there, and both sides of the jump are tried.
    """
    q = (table.size - 1.5) / _PHI_STEPS - _PHI_LEAST
    low, high = start.copy(), start + 1.0 + WIDE  # F is above the target at `low`, below it at `high`
    at, aim = np.arange(start.size), np.log(target) - _CLOSE / 4
    found, means = np.full(y.size, np.nan), np.full(y.size, np.nan)
    steps = law.steps
    for number in range(_NEWTON):
        place = y[at]
        entries = test.entries(steps, place)
        share = table.take(entries, mode="clip")
        share *= law.weights
        paid = sum_rows(share) / law.total + law.rest
        over = paid > target
        low[at], high[at] = np.where(over, place, low[at]), np.where(over, high[at], place)
        better = at[~over]  # later ones are smaller
        found[better], means[better] = place[~over], paid[~over]
        excess = np.log(paid) - aim
        keep = (over | (excess < -_CLOSE)) & (high[at] - low[at] > 4 * _NEAR)
        if not keep.any():
            break
        if not keep.all():
            kept = np.flatnonzero(keep)
            at, law, test, entries = at[kept], law.at(kept), test.at(kept), entries.take(kept, axis=1, mode="clip")
            target, aim, place = target[kept], aim[kept], place[kept]
            over, excess, paid = over[kept], excess[kept], paid[kept]
        last = len(steps) - 1 - (law.weights[::-1] > 0).argmax(axis=0)  # the highest value of the law
        a = steps * test.slope
        a += test.start - place / test.width
        dense = -0.5 * a
        dense *= a
        np.exp(dense, out=dense)
        below = np.full(at.size, len(steps))
        if entries[-1].max() >= table.size - 1:
            full = entries >= table.size - 1
            np.copyto(dense, 0.0, where=full)
            below = len(steps) - np.add.reduce(full, axis=0, dtype=np.intp)
        dense *= law.weights
        fall = sum_rows(dense) / (law.total * test.width * _ROOT)
        first, some = np.minimum(below, last), below <= last  # the first value that is paid in full
        up = (steps[first, 0] * test.slope + test.start - q) * test.width  # up to this y
        down, up = np.where(some, up - test.jump, up), np.where(some, up, np.inf)
        drop = law.weights[first, np.arange(at.size)] / law.total * eta / test.jump
        excess *= paid
        step, coarse = excess / fall, excess / (fall + drop)
        right = np.where(place >= up - 2 * _NEAR, up + _NEAR, np.minimum(place + step, up - _NEAR))
        left = np.where(place > down + 2 * _NEAR, np.maximum(place + step, down + _NEAR), down - _NEAR)
        after = np.where(np.abs(coarse) > test.jump, place + coarse, np.where(over, right, left))
        inside = (after > low[at]) & (after < high[at])
        y[at] = np.where(inside & (number % 8 != 7), after, (low[at] + high[at]) / 2)
    none = np.isnan(found)  # no y within the target was found: the payoff is then scaled down
    found[none], means[none] = high[none], 1.0
    return found, means


def _guess(start: Floats, skew: Floats, slope: Floats, width: Floats, aim: Floats, eta: float) -> Floats:
    """The y at which log F would be `aim` for a law that is normal up to its skewness (Edgeworth), by Newton steps."""
    from scipy.special import ndtr, ndtri

    q, y = ndtri(1.0 - eta), start + 1.2
    for _ in range(_ROUGH):
        z = (y + width * q) / slope
        here, there = np.exp(-0.5 * y * y) / _ROOT, np.exp(-0.5 * z * z) * (eta / _ROOT)
        bent = skew / 6.0 * (slope**3 * (y * y - 1.0) * here + (z * z - 1.0) * there)
        paid = ndtr(-y) + eta * ndtr(-z) + bent
        y = y + (np.log(paid) - aim) * paid / (here + there / slope)
    return np.where((y > start + 0.5) & (y < start + 1.0 + WIDE), y, start + 1.2)


def _at_the_end(law: LatticeLaw, target: Floats, away: Floats) -> Floats:
    """The last bet at this distance from the middle: 1 above a critical value, the rest of the stake at it."""
    chances, target = law.weights / law.total, target - law.rest
    beyond = np.cumsum(chances[::-1], axis=0)[::-1]  # P(X >= x)
    full = beyond <= target
    after = np.concatenate([beyond[1:], np.zeros((1, target.size))])
    edge = ~full & (after <= target)
    left = np.where(edge, (target - after) / np.maximum(chances, 1e-300), 0.0)
    paid = np.where(full, 1.0, np.where(edge, np.clip(left, 0.0, 1.0), 0.0))
    here = np.clip(away - law.steps[0], 0, len(law.steps) - 1).astype(np.intp)
    return np.asarray(paid[here, np.arange(here.size)])
