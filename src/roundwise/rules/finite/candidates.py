"""Which k arms are the best of a list, or which is within a tolerance of the best? Candidates (Proposition 3).

A candidate is a set of arms. Against it are the pairs of an arm inside and an arm outside that may be better by more
than the tolerance; each has an e-process from the place on at which the candidate is named. It is the answer once all
of them have won. Arms that no pair needs any more pause; one that comes back first catches up, and no bet is made on
the places it missed (Proposition 52).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats, zeros
from roundwise.questions.base import Answer, RankingQuestion, largest_mask
from roundwise.rules.base import ClaimStatus, LinearForm
from roundwise.rules.finite.bets import LEADS, ROUNDING, left_mean, log_factors, log_wealth
from roundwise.rules.finite.process import FiniteProcess, ItemRow, Need

CANDIDATES = 6  # that may be named before the end of the list
SHARE = 0.8  # of what is left that each of them takes
FIRST, AGAIN = 16, 1.5  # the place at which one is named first, and the factor to the next


class CandidatePurses(NamedTuple):
    """Sums over the places that each arm has, the candidates, and the wealth against each pair of the present one."""

    low: Floats  # (K), sums of results, failed requests as 0
    high: Floats  # (K), the same with failed requests as 1
    apart: Floats  # (K, K), sums of squared differences on items with both results
    counted: Floats  # (K), places
    sets: Bools  # (C, K), the candidates
    named: Floats  # (), how many there are
    now: Floats  # (), the number of the present one; -1 before the first
    wealth: Floats  # (C, 6, K, K), logs, of the arm inside over the arm outside
    met: Bools  # (C, K, K), permanent
    exact: Bools  # (), whether only arithmetic on all arms is left


class CandidateProcess(FiniteProcess[CandidatePurses]):
    """The arms with the largest means of a list, up to a tolerance."""

    tag = "list-candidates"

    def __init__(self, size: int, goal: float, question: RankingQuestion, tolerance: float) -> None:
        super().__init__(size, goal, question.lower_is_better)
        self.question, self.number, self.bound = question, question.number_sought, -tolerance
        places = [math.ceil(FIRST * AGAIN**k) for k in range(60) if FIRST * AGAIN**k < size]
        self.places = np.array(places, dtype=np.float64)

    def start(self, runs: tuple[int, ...], arms: int) -> CandidatePurses:
        nothing, pair = zeros((*runs, arms)), (*runs, CANDIDATES, arms, arms)
        wealth = np.zeros((*runs, CANDIDATES, len(LEADS), arms, arms))
        sets = np.zeros((*runs, CANDIDATES, arms), dtype=np.bool_)
        one = np.zeros(runs)
        none, exact = np.zeros(pair, dtype=np.bool_), np.zeros(runs, dtype=np.bool_)
        apart = np.zeros((*runs, arms, arms))
        return CandidatePurses(nothing, nothing, apart, nothing, sets, one, one - 1.0, wealth, none, exact)

    def _pairs(self, purses: CandidatePurses) -> Bools:
        """The pairs of the present candidate, the first inside and the second outside. (K, K)"""
        inside = self._take(purses.sets, purses)
        return inside[..., :, None] & ~inside[..., None, :] & (purses.now >= 0)[..., None, None]

    def _take(self, values: Array, purses: CandidatePurses) -> Array:
        """What there is of the present candidate. (C, ...)->(...)"""
        at = np.maximum(purses.now, 0.0).astype(np.intp)
        places = at.reshape(*at.shape, *(1,) * (values.ndim - at.ndim))
        return np.take_along_axis(values, places, axis=at.ndim).squeeze(axis=at.ndim)

    def _put(self, values: Array, new: Array, purses: CandidatePurses) -> Array:
        """The same with something else of the present candidate. (C, ...),(...)->(C, ...)"""
        at = np.arange(CANDIDATES) == purses.now[..., None]
        at = at.reshape(*at.shape, *(1,) * (values.ndim - at.ndim))
        return np.where(at, np.expand_dims(new, purses.now.ndim), values)

    def _open(self, purses: CandidatePurses) -> Bools:
        return self._pairs(purses) & ~self._take(purses.met, purses)

    def _name(self, purses: CandidatePurses, due: Bools) -> CandidatePurses:
        """Make the arms that look best the candidate, where that is due and there is room for one more."""
        means = purses.low / np.maximum(purses.counted, 1.0)
        wanted = largest_mask(means, np.full(means.shape[:-1], self.number))
        known = (purses.sets == wanted[..., None, :]).all(axis=-1)
        known &= np.arange(CANDIDATES) < purses.named[..., None]
        there = known.any(axis=-1)
        now = np.where(there, known.argmax(axis=-1), purses.named)
        new = due & ~there & (purses.named < CANDIDATES)
        purses = purses._replace(now=np.where(due & (there | new), now, purses.now))
        sets = np.where(new[..., None, None], self._put(purses.sets, wanted, purses), purses.sets)
        return purses._replace(sets=sets, named=purses.named + new)

    def step(self, purses: CandidatePurses, row: ItemRow) -> CandidatePurses:
        place = row.place
        purses = self._name(purses, np.isin(place, self.places))
        # other results must not matter: they could depend on results at later places
        present = self.needed(purses) & row.there & (purses.counted == place[..., None])
        both = present[..., :, None] & present[..., None, :]
        shape = both.shape
        flat = (*shape[:-2], shape[-1] ** 2)
        total = purses.low[..., :, None] - purses.high[..., None, :]
        n = place[..., None, None]
        mean = left_mean(self.size, n, self.bound, total)
        variance = (0.5 + purses.apart) / (n + 2.0)
        y = row.low[..., :, None] - row.high[..., None, :]
        stretch = np.broadcast_to(self.size / (self.size - n), shape)
        y, mean, variance, stretch = (each.reshape(flat) for each in (y, mean, variance, stretch))
        factors = log_factors(y, mean, -1.0, variance, stretch)
        bets = (self._open(purses) & both)[..., None, :, :]
        wealth = self._take(purses.wealth, purses) + np.where(
            bets, factors.reshape(*bets.shape[:-3], -1, *shape[-2:]), 0.0
        )
        seen = row.seen[..., :, None] & row.seen[..., None, :] & both
        purses = purses._replace(
            low=purses.low + np.where(present, row.low, 0.0),
            high=purses.high + np.where(present, row.high, 0.0),
            apart=purses.apart + np.where(seen, np.square(row.low[..., :, None] - row.low[..., None, :]), 0.0),
            counted=purses.counted + present,
            wealth=self._put(purses.wealth, wealth, purses),
        )
        return self._meet(purses)

    def _meet(self, purses: CandidatePurses) -> CandidatePurses:
        """Which pairs of the present candidate have won by now, or are certain."""
        wealth = self._take(purses.wealth, purses)
        flat = wealth.reshape(*wealth.shape[:-2], -1)
        won = log_wealth(flat).reshape(*wealth.shape[:-3], *wealth.shape[-2:])
        share = math.log(SHARE) + math.log(1 - SHARE) * np.maximum(purses.now, 0.0)
        met = won + share[..., None, None] >= self.goal
        left = np.maximum(self.size - purses.counted, 0.0)
        least = (purses.low[..., :, None] - purses.high[..., None, :]) - left[..., None, :]
        certain = least >= self.size * self.bound - ROUNDING * self.size
        now = self._take(purses.met, purses) | ((met | certain) & self._pairs(purses))
        return purses._replace(met=self._put(purses.met, now, purses))

    def close(self, purses: CandidatePurses) -> CandidatePurses:
        """At the end of the list: the candidate of arithmetic, or all arms if there is no room for it."""
        complete = (purses.counted >= self.size).all(axis=-1)
        after = self._meet(self._name(purses, ~self.settled(purses) & ~purses.exact))
        means = after.low / np.maximum(after.counted, 1.0)
        wanted = largest_mask(means, np.full(means.shape[:-1], self.number))
        same = np.asarray((self._take(after.sets, after) == wanted).all(axis=-1))
        lost = ~same & ~self.settled(after)
        return after._replace(exact=after.exact | lost | complete)

    def conclude(self, purses: CandidatePurses, low: Floats, high: Floats) -> CandidatePurses:
        full = np.full_like(purses.counted, float(self.size))
        return purses._replace(low=low, high=high, counted=full, exact=np.ones_like(purses.exact))

    def recount(self, purses: CandidatePurses, rows: ItemRow) -> CandidatePurses:
        """With the sums of the needed arms over all places so far: those that came back were not counted on some."""
        x, seen = np.where(rows.seen, rows.low, 0.0), rows.seen.astype(np.float64)
        squares = np.swapaxes(x * x, -1, -2) @ seen
        apart = squares + np.swapaxes(squares, -1, -2) - 2 * np.swapaxes(x, -1, -2) @ x
        whole = np.asarray(rows.there.all(axis=-2)) & self.needed(purses)
        pair = whole[..., :, None] & whole[..., None, :]
        return purses._replace(
            low=np.where(whole, rows.low.sum(axis=-2), purses.low),
            high=np.where(whole, rows.high.sum(axis=-2), purses.high),
            apart=np.where(pair, np.maximum(apart, 0.0), purses.apart),
            counted=np.where(whole, rows.place[..., None], purses.counted),
        )

    def lags(self, purses: CandidatePurses, place: Floats) -> Bools:
        return np.asarray(self.needed(purses) & (purses.counted < place[..., None]))

    def needed(self, purses: CandidatePurses) -> Bools:
        open_ = self._open(purses)
        arms = open_.any(axis=-1) | open_.any(axis=-2)
        return np.asarray(arms | (purses.now < 0)[..., None] | purses.exact[..., None])

    def settled(self, purses: CandidatePurses) -> Bools:
        shown = (purses.now >= 0) & ~self._open(purses).any(axis=(-1, -2)) & ~purses.exact
        return np.asarray(shown | (purses.exact & (purses.counted >= self.size).all(axis=-1)))

    def ended(self, purses: CandidatePurses, place: Floats) -> Bools:
        return self.settled(purses)

    def _exact_set(self, purses: CandidatePurses) -> Bools:
        """The best arms of the whole list: by the middle of what each can be, which finds a certain set."""
        return largest_mask(purses.low + purses.high, np.full(purses.low.shape[:-1], self.number))

    def open_at_end(self, purses: CandidatePurses) -> Bools:
        inside = self._exact_set(purses)
        worst = np.where(inside, purses.low, np.inf).min(axis=-1) - np.where(inside, -np.inf, purses.high).max(axis=-1)
        return np.asarray(purses.exact & (worst < self.size * self.bound - ROUNDING * self.size))

    def needs(self, purses: CandidatePurses, place: Floats) -> Need:
        n, flat = np.maximum(place, 1.0)[..., None, None], (*place.shape, -1)
        lead = (purses.low[..., :, None] - purses.high[..., None, :]) / n - self.bound
        wealth = self._take(purses.wealth, purses)
        won = log_wealth(wealth.reshape(*wealth.shape[:-2], -1))
        share = math.log(SHARE) + math.log(1 - SHARE) * np.maximum(purses.now, 0.0)
        variance = (0.5 + purses.apart) / (place[..., None, None] + 2.0)
        open_ = self._open(purses).reshape(flat)
        some = np.asarray(open_.any(axis=-1))[..., None]
        return Need(
            lead.reshape(flat),
            variance.reshape(flat),
            self.goal - share[..., None] - won,
            np.where(some, open_, (lead < np.inf).reshape(flat)),
        )

    def answer(self, purses: CandidatePurses) -> Answer:
        chosen = self._exact_set(purses)
        exact = purses.exact[..., None]
        return self.question.answer_from_set(np.where(exact, chosen, self._take(purses.sets, purses)))

    def claims(self, purses: CandidatePurses, names: Sequence[str]) -> list[ClaimStatus]:
        """That no arm outside is better than one inside, for each pair of the present candidate."""
        inside = self._take(purses.sets, purses) if purses.now >= 0 else np.zeros(len(names), dtype=np.bool_)
        wealth = self._take(purses.wealth, purses)
        won = log_wealth(wealth.reshape(len(LEADS), -1)).reshape(len(names), len(names))
        met = self._take(purses.met, purses) | (bool(purses.exact) and bool(self.settled(purses)))
        share = math.log(SHARE) + math.log(1 - SHARE) * max(float(purses.now), 0.0)
        sign = -1.0 if self.flips else 1.0
        worse = "above" if self.flips else "below"
        return [
            ClaimStatus(
                f"{names[i]} is not {worse} {names[j]}",
                float(won[i, j] + share),
                self.goal,
                bool(met[i, j]),
                about=LinearForm((i, j), (sign, -sign), 0.0),
            )
            for i in np.flatnonzero(inside).tolist()
            for j in np.flatnonzero(~inside).tolist()
        ]
