"""Bets of one size on the parts of a batch, for each noise model (`parts.Tilts`).

Each is the bet of the model's proposition (docs/why-the-guarantee-holds.md) with all its weight on one drift, q
standard errors of the part: Lemma 1, Proposition 5 (t), Propositions 6 and 7 (values in a range, 0/1), Proposition 8
(counts). Sizes beyond what a proposition allows are cut. All but the results of the part itself is known before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roundwise.arrays import Bools, Floats

from .forms import MOST, centre, parted
from .mixture import EDGE, HUGE
from .parts import Form, Index, Places, Seen, Tilt, Tilts


def either(where: Bools, one: Callable[[], Tilt], other: Callable[[], Tilt]) -> Tilt:
    """One bet or the other, of which only those are made that are needed. (P, c)"""
    if where.all():
        return one()
    if not where.any():
        return other()
    first, second = one(), other()
    return lambda p, q: np.where(where[p], first(p, np.where(where[p], q, 0.0)), second(p, np.where(where[p], 0.0, q)))


def levels_apart(
    tilts: Tilts, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float, apart: float
) -> Tilt:
    """Bets that means lie above a level (sign 1), raised by `apart`, or below it (-1), lowered by as much. (P, c)

    The distance is that from the level that is meant; it is used up.
    """
    if not apart:
        return tilts.levels(arm, sign, distance, leverage, level)
    return either(
        sign > 0,
        lambda: tilts.levels(arm, sign, distance.copy(), leverage, level + apart),
        lambda: tilts.levels(arm, sign, distance.copy(), leverage, level - apart),
    )


@dataclass(frozen=True)
class GaussianTilts:
    """exp(q D/sqrt v - q^2/2), for any form D of sub-Gaussian rewards (Lemma 1)."""

    sigma: float

    @property
    def variances(self) -> Floats:
        """The square of sigma."""
        return np.full((1, 1, 1), self.sigma**2)

    def level_variances(self, level: float) -> Floats:
        """The same."""
        return self.variances

    def pairs(self, places: Places, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """From the difference in each part; it is used up."""
        return self._tilt(difference, leverage)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """From the distance in each part; it is used up."""
        return self._tilt(distance, leverage)

    def forms(self, form: Form, value: Floats, leverage: Floats) -> Tilt:
        """From the value of any form of the means of each part, less its offset; it is used up. (P, c)"""
        return self._tilt(value, leverage)

    def _tilt(self, value: Floats, leverage: Floats) -> Tilt:
        value /= np.sqrt(leverage) * self.sigma if self.sigma != 1.0 else np.sqrt(leverage)
        np.clip(value, -HUGE, HUGE, out=value)

        def tilt(p: int, q: Floats) -> Floats:
            x = value[p]
            x -= 0.5 * q
            x *= q
            return x

        return tilt


@dataclass(frozen=True)
class BinaryTilts:
    """Likelihood ratios of binomials: of two rates (Proposition 6), of one and a level (Proposition 7)."""

    seen: Seen

    @cached_property
    def variances(self) -> Floats:
        """p (1 - p) at the smoothed rates."""
        rates = (self.seen.totals_so_far + 0.5) / (self.seen.so_far + 1.0)
        return rates * (1.0 - rates)

    def level_variances(self, level: float) -> Floats:
        """That of the level."""
        return np.full((1, 1, 1), level * (1.0 - level)) if 0 < level < 1 else np.full((1, 1, 1), 0.25)

    def pairs(self, places: Places, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """Two rates, a margin apart."""
        (won_a, n_a, past_a, N_a), (won_b, n_b, past_b, N_b) = (_sums(self.seen, each) for each in places())
        m = centre(past_a, N_a, past_b, N_b, n_a, n_b)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = parted(m, np.asarray(margin, dtype=np.float64), up, down)
        unit = np.sqrt(leverage / (m * (1.0 - m)))
        furthest = EDGE * np.minimum(1.0 / (up * m_a), 1.0 / (down * (1.0 - m_b)))
        terms = (
            (won_a, up * (1.0 - m_a)),
            (n_a - won_a, -up * m_a),
            (won_b, -down * (1.0 - m_b)),
            (n_b - won_b, down * m_b),
        )
        return _product(unit, furthest, terms)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """A rate and a level; at 0 or 1, where there is no such bet, that of sub-Gaussian rewards."""
        if not 0 < level < 1:
            return GaussianTilts(0.5).levels(arm, sign, distance, leverage, level)
        won, n = (each.reshape(-1).take(arm) for each in (self.seen.totals, self.seen.counts))
        above = sign > 0
        m = np.where(above, level, 1.0 - level)
        rest = 1.0 - m
        hits = np.where(above, won, n - won)
        unit = np.sqrt(level * (1.0 - level) * leverage)
        return _product(unit, EDGE * rest, ((hits, 1.0 / m), (n - hits, -1.0 / rest)))

    def forms(self, form: Form, value: Floats, leverage: Floats) -> Tilt:
        """Two rates, an offset apart; for another form the sub-Gaussian bet."""
        return either(
            form.pair & (np.abs(form.offsets) < 1),
            lambda: self.pairs(lambda: (form.places[0], form.places[1]), value, leverage, form.offsets),
            lambda: GaussianTilts(0.5).forms(form, value.copy(), leverage),
        )


@dataclass(frozen=True)
class PoissonTilts:
    """Likelihood ratios of Poisson laws: of two rates (Proposition 8a), of one and a level (8b)."""

    seen: Seen

    @cached_property
    def variances(self) -> Floats:
        """The smoothed rates."""
        return (self.seen.totals_so_far + 0.5) / (self.seen.so_far + 1.0)

    def level_variances(self, level: float) -> Floats:
        """That of the level."""
        return np.full((1, 1, 1), level) if level > 0 else self.variances

    def pairs(self, places: Places, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """Two rates, a margin apart."""
        (won_a, n_a, past_a, N_a), (won_b, n_b, past_b, N_b) = (_sums(self.seen, each) for each in places())
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m = down * (past_a / N_a) + up * (past_b / N_b) + 0.5 / (N_a + N_b)  # half an event in all added
        less = n_a * up * np.asarray(margin, dtype=np.float64)
        return _product(np.sqrt(leverage / m), EDGE / down, ((won_a, up), (won_b, -down)), less)

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: float) -> Tilt:
        """A rate and a level; at 0 the bet that there is for any form (8c)."""
        won, n, past, N = _sums(self.seen, arm)
        if level > 0:
            furthest = np.where(sign > 0, np.inf, EDGE)
            return _product(np.sqrt(leverage / level), furthest, ((won, sign),), n * level * sign)
        rate = (past + 0.5) / N
        furthest = np.where(sign > 0, np.inf, EDGE)
        return _product(np.sqrt(leverage / rate), furthest, ((won, sign),), n * level * sign)

    def forms(self, form: Form, value: Floats, leverage: Floats) -> Tilt:
        """Two rates, an offset apart; else prod_s (1 + t f_s/n_s)^X_s exp(-t offset) (8c)."""
        return either(
            form.pair,
            lambda: self.pairs(lambda: (form.places[0], form.places[1]), value, leverage, form.offsets),
            lambda: self._any(form),
        )

    def _any(self, form: Form) -> Tilt:
        assert form.factors is not None
        terms: list[tuple[Floats, Floats | float]] = []
        noise, furthest = np.zeros(form.offsets.shape), np.full(form.offsets.shape, np.inf)
        for f, place in zip(form.factors, form.places, strict=True):
            won, n, past, N = _sums(self.seen, place)
            share = np.where(f != 0, f / n, 0.0)
            noise = noise + np.where(f != 0, f * share * (past + 0.5) / N, 0.0)
            furthest = np.minimum(furthest, np.where(f < 0, EDGE / np.maximum(-share, 1e-300), np.inf))
            terms.append((won, share))
        return _product(1.0 / np.sqrt(noise), np.minimum(furthest, MOST), tuple(terms), form.offsets)


@dataclass(frozen=True)
class BoundedTilts:
    """Products over values in a range, moved to [0, 1]: of two arms (Proposition 6), of one and a level (7)."""

    seen: Seen
    low: float
    width: float

    @cached_property
    def _past(self) -> tuple[Floats, Floats, Floats]:
        """Counts so far, means and scatter; results whose spread was not seen count as widest. (P, K, n)"""
        counts = self.seen.so_far
        mean = np.clip((self.seen.totals_so_far / np.maximum(counts, 1.0) - self.low) / self.width, 0.0, 1.0)
        scatter, freedom = self.seen.scatter_so_far
        most = mean * (1.0 - mean)
        return counts, mean, np.minimum(scatter / self.width**2 + (counts - freedom) * most, counts * most)

    @cached_property
    def variances(self) -> Floats:
        """Within the arm, a result of the largest variance added."""
        counts, _, scatter = self._past
        return (scatter + 0.25) / (counts + 1.0) * self.width**2

    def level_variances(self, level: float) -> Floats:
        """The same."""
        return self.variances

    def pairs(self, places: Places, difference: Floats, leverage: Floats, margin: Floats | float) -> Tilt:
        """The means of two arms, a margin apart."""
        first, second = places()
        (N_a, mean_a, scatter_a), (N_b, mean_b, scatter_b) = (
            tuple(each.reshape(-1).take(arm) for each in self._past) for arm in (first, second)
        )
        n_a, n_b = (self.seen.counts.reshape(-1).take(arm) for arm in (first, second))
        m = centre(N_a * mean_a, N_a, N_b * mean_b, N_b, n_a, n_b)
        noise = (scatter_a + scatter_b + m * (1.0 - m)) / (N_a + N_b + 1.0)
        up, down = n_b / (n_a + n_b), n_a / (n_a + n_b)
        m_a, m_b = parted(m, np.asarray(margin, dtype=np.float64) / self.width, up, down)
        furthest = EDGE * np.minimum(1.0 / (m_a * up), 1.0 / ((1.0 - m_b) * down))
        unit = np.sqrt(noise * leverage)

        def tilt(p: int, q: Floats) -> Floats:
            theta = q * unit[p]
            bold = np.minimum(theta / (noise[p] + up[p] * down[p] * theta * theta), furthest[p])
            found = self._growth(first[p], bold * up[p], m_a[p])
            found += self._growth(second[p], -bold * down[p], m_b[p])
            return found

        return tilt

    def levels(self, arm: Index, sign: Floats, distance: Floats, leverage: Floats, level: Floats | float) -> Tilt:
        """The mean of an arm and a level; at an end of the range the bet of sub-Gaussian rewards."""
        tau = np.broadcast_to((np.asarray(level, dtype=np.float64) - self.low) / self.width, arm.shape)
        inside = (tau > 0) & (tau < 1)
        return either(
            inside,
            lambda: self._level(arm, sign, leverage, np.where(inside, tau, 0.5)),
            lambda: GaussianTilts(self.width / 2).levels(arm, sign, distance.copy(), leverage, 0.0),
        )

    def _level(self, arm: Index, sign: Floats, leverage: Floats, tau: Floats) -> Tilt:
        counts, _, scatter = (each.reshape(-1).take(arm) for each in self._past)
        noise = (scatter + tau * (1.0 - tau)) / (counts + 1.0)
        unit, furthest = np.sqrt(noise * leverage), EDGE / np.where(sign > 0, tau, 1.0 - tau)

        def tilt(p: int, q: Floats) -> Floats:
            theta = q * unit[p]
            bold = sign[p] * np.minimum(theta / (noise[p] + theta * theta), furthest[p])
            return self._growth(arm[p], bold, tau[p])

        return tilt

    def forms(self, form: Form, value: Floats, leverage: Floats) -> Tilt:
        """Two means, an offset apart; for another form the sub-Gaussian bet."""
        return either(
            form.pair & (np.abs(form.offsets) < self.width),
            lambda: self.pairs(lambda: (form.places[0], form.places[1]), value, leverage, form.offsets),
            lambda: GaussianTilts(self.width / 2).forms(form, value.copy(), leverage),
        )

    def _growth(self, arm: Index, slope: Floats, middle: Floats) -> Floats:
        """sum_v counts_v log(1 + slope (x_v - middle)), value by value."""
        rows = self.seen.rows
        assert rows is not None
        found = np.zeros_like(slope)
        for value, counts in zip((rows.values - self.low) / self.width, rows.counts, strict=True):
            found += counts.reshape(-1).take(arm) * np.log1p(slope * (value - middle))
        return found


def _sums(seen: Seen, arm: Index) -> tuple[Floats, Floats, Floats, Floats]:
    """Total and count of an arm in each part, and before it; at least a little, so that no bet divides by 0. (P, c)"""
    won, n, past, N = (
        each.reshape(-1).take(arm) for each in (seen.totals, seen.counts, seen.totals_so_far, seen.so_far)
    )
    return won, np.maximum(n, 1e-9), past, np.maximum(N, 1e-9)


def _product(
    unit: Floats, furthest: Floats, terms: tuple[tuple[Floats, Floats | float], ...], less: Floats | float = 0.0
) -> Tilt:
    """sum of counts log(1 + t factor) - less t, t = min(q unit, furthest). (P, c)"""
    unit, furthest = np.broadcast_to(unit, unit.shape), np.broadcast_to(furthest, unit.shape)
    whole = [(counts, np.broadcast_to(factor, unit.shape)) for counts, factor in terms]
    less = np.broadcast_to(less, unit.shape)

    def tilt(p: int, q: Floats) -> Floats:
        t = np.minimum(q * unit[p], furthest[p])
        found = -t * less[p]
        for counts, factor in whole:
            found += counts[p] * np.log1p(t * factor[p])
        return found

    return tilt
