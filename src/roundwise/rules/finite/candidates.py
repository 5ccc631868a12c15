"""Which k arms are the best of a list, or which arm is within a tolerance of the best? Candidates (Proposition 3).

A candidate is a set of arms. For each pair of an arm inside and an arm outside there is an e-process against "the arm
outside is better by more than the tolerance", which starts when the candidate is named. The candidate is the answer
once all of these reject. Arms that no open pair needs are paused; an arm that comes back catches up first, and no bet
is placed on the items it missed (Proposition 52).
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

CANDIDATES = 6  # the most candidates named before the end of the list
SHARE = 0.8  # the share of the remaining stake that each of them takes
FIRST, AGAIN = 16, 1.5  # the first place at which one is named, and the ratio of successive places


class ListCandidateWealth(NamedTuple):
    """Running sums over the places of each arm, the candidates, and the wealth for each of their pairs."""

    low: Floats  # (K), sums of results, failed requests as 0
    high: Floats  # (K), the same with failed requests as 1
    squared_differences: Floats  # (K, K), sums of squared differences on items with both results
    items: Floats  # (K), the number of items counted for each arm
    candidates: Bools  # (C, K), sets of arms
    number: Floats  # (), the number of candidates
    current: Floats  # (), the index of the current one; -1 before the first
    log_wealth: Floats  # (C, 6, K, K), logs, for "inside is not worse than outside"
    shown: Bools  # (C, K, K), permanent
    by_arithmetic: Bools  # (), whether only arithmetic on all arms is left


class CandidateProcess(FiniteProcess[ListCandidateWealth]):
    """The arms with the largest means of a list, up to a tolerance."""

    tag = "list-candidates"

    def __init__(self, size: int, goal: float, question: RankingQuestion, tolerance: float) -> None:
        super().__init__(size, goal, question.lower_is_better)
        self.question, self.number, self.bound = question, question.number_sought, -tolerance
        places = [math.ceil(FIRST * AGAIN**k) for k in range(60) if FIRST * AGAIN**k < size]
        self.places = np.array(places, dtype=np.float64)

    def start(self, runs: tuple[int, ...], arms: int) -> ListCandidateWealth:
        nothing, pair = zeros((*runs, arms)), (*runs, CANDIDATES, arms, arms)
        logs = np.zeros((*runs, CANDIDATES, len(LEADS), arms, arms))
        sets = np.zeros((*runs, CANDIDATES, arms), dtype=np.bool_)
        one = np.zeros(runs)
        none, exact = np.zeros(pair, dtype=np.bool_), np.zeros(runs, dtype=np.bool_)
        apart = np.zeros((*runs, arms, arms))
        return ListCandidateWealth(nothing, nothing, apart, nothing, sets, one, one - 1.0, logs, none, exact)

    def _pairs(self, wealth: ListCandidateWealth) -> Bools:
        """The pairs of the current candidate: the first arm inside, the second outside. (K, K)"""
        inside = self._take(wealth.candidates, wealth)
        return inside[..., :, None] & ~inside[..., None, :] & (wealth.current >= 0)[..., None, None]

    def _take(self, values: Array, wealth: ListCandidateWealth) -> Array:
        """The entry of the current candidate. (C, ...)->(...)"""
        at = np.maximum(wealth.current, 0.0).astype(np.intp)
        places = at.reshape(*at.shape, *(1,) * (values.ndim - at.ndim))
        return np.take_along_axis(values, places, axis=at.ndim).squeeze(axis=at.ndim)

    def _put(self, values: Array, new: Array, wealth: ListCandidateWealth) -> Array:
        """The array with the entry of the current candidate replaced. (C, ...),(...)->(C, ...)"""
        at = np.arange(CANDIDATES) == wealth.current[..., None]
        at = at.reshape(*at.shape, *(1,) * (values.ndim - at.ndim))
        return np.where(at, np.expand_dims(new, wealth.current.ndim), values)

    def _open(self, wealth: ListCandidateWealth) -> Bools:
        return self._pairs(wealth) & ~self._take(wealth.shown, wealth)

    def _name(self, wealth: ListCandidateWealth, due: Bools) -> ListCandidateWealth:
        """Where it is due, make the best-looking arms the current candidate, if it exists or there is room for it."""
        means = wealth.low / np.maximum(wealth.items, 1.0)
        wanted = largest_mask(means, np.full(means.shape[:-1], self.number))
        known = (wealth.candidates == wanted[..., None, :]).all(axis=-1)
        known &= np.arange(CANDIDATES) < wealth.number[..., None]
        there = known.any(axis=-1)
        now = np.where(there, known.argmax(axis=-1), wealth.number)
        new = due & ~there & (wealth.number < CANDIDATES)
        wealth = wealth._replace(current=np.where(due & (there | new), now, wealth.current))
        sets = np.where(new[..., None, None], self._put(wealth.candidates, wanted, wealth), wealth.candidates)
        return wealth._replace(candidates=sets, number=wealth.number + new)

    def step(self, wealth: ListCandidateWealth, row: ItemRow) -> ListCandidateWealth:
        place = row.place
        wealth = self._name(wealth, np.isin(place, self.places))
        # other results must not be used: which ones exist may depend on results at later places
        present = self.needed(wealth) & row.there & (wealth.items == place[..., None])
        both = present[..., :, None] & present[..., None, :]
        shape = both.shape
        flat = (*shape[:-2], shape[-1] ** 2)
        total = wealth.low[..., :, None] - wealth.high[..., None, :]
        n = place[..., None, None]
        mean = left_mean(self.size, n, self.bound, total)
        variance = (0.5 + wealth.squared_differences) / (n + 2.0)
        y = row.low[..., :, None] - row.high[..., None, :]
        stretch = np.broadcast_to(self.size / (self.size - n), shape)
        y, mean, variance, stretch = (each.reshape(flat) for each in (y, mean, variance, stretch))
        factors = log_factors(y, mean, -1.0, variance, stretch)
        bets = (self._open(wealth) & both)[..., None, :, :]
        logs = self._take(wealth.log_wealth, wealth) + np.where(
            bets, factors.reshape(*bets.shape[:-3], -1, *shape[-2:]), 0.0
        )
        seen = row.seen[..., :, None] & row.seen[..., None, :] & both
        wealth = wealth._replace(
            low=wealth.low + np.where(present, row.low, 0.0),
            high=wealth.high + np.where(present, row.high, 0.0),
            squared_differences=wealth.squared_differences
            + np.where(seen, np.square(row.low[..., :, None] - row.low[..., None, :]), 0.0),
            items=wealth.items + present,
            log_wealth=self._put(wealth.log_wealth, logs, wealth),
        )
        return self._meet(wealth)

    def _meet(self, wealth: ListCandidateWealth) -> ListCandidateWealth:
        """Mark the pairs of the current candidate that have reached their threshold or are certain."""
        logs = self._take(wealth.log_wealth, wealth)
        flat = logs.reshape(*logs.shape[:-2], -1)
        won = log_wealth(flat).reshape(*logs.shape[:-3], *logs.shape[-2:])
        share = math.log(SHARE) + math.log(1 - SHARE) * np.maximum(wealth.current, 0.0)
        met = won + share[..., None, None] >= self.goal
        left = np.maximum(self.size - wealth.items, 0.0)
        least = (wealth.low[..., :, None] - wealth.high[..., None, :]) - left[..., None, :]
        certain = least >= self.size * self.bound - ROUNDING * self.size
        now = self._take(wealth.shown, wealth) | ((met | certain) & self._pairs(wealth))
        return wealth._replace(shown=self._put(wealth.shown, now, wealth))

    def close(self, wealth: ListCandidateWealth) -> ListCandidateWealth:
        """Make the set found by arithmetic current at the end of the list, or all arms if there is no room for it."""
        complete = (wealth.items >= self.size).all(axis=-1)
        after = self._meet(self._name(wealth, ~self.settled(wealth) & ~wealth.by_arithmetic))
        means = after.low / np.maximum(after.items, 1.0)
        wanted = largest_mask(means, np.full(means.shape[:-1], self.number))
        same = np.asarray((self._take(after.candidates, after) == wanted).all(axis=-1))
        lost = ~same & ~self.settled(after)
        return after._replace(by_arithmetic=after.by_arithmetic | lost | complete)

    def conclude(self, wealth: ListCandidateWealth, low: Floats, high: Floats) -> ListCandidateWealth:
        full = np.full_like(wealth.items, float(self.size))
        return wealth._replace(low=low, high=high, items=full, by_arithmetic=np.ones_like(wealth.by_arithmetic))

    def recount(self, wealth: ListCandidateWealth, rows: ItemRow) -> ListCandidateWealth:
        """Recompute the sums of the needed arms over all places so far: arms that came back missed some."""
        x, seen = np.where(rows.seen, rows.low, 0.0), rows.seen.astype(np.float64)
        squares = np.swapaxes(x * x, -1, -2) @ seen
        apart = squares + np.swapaxes(squares, -1, -2) - 2 * np.swapaxes(x, -1, -2) @ x
        whole = np.asarray(rows.there.all(axis=-2)) & self.needed(wealth)
        pair = whole[..., :, None] & whole[..., None, :]
        return wealth._replace(
            low=np.where(whole, rows.low.sum(axis=-2), wealth.low),
            high=np.where(whole, rows.high.sum(axis=-2), wealth.high),
            squared_differences=np.where(pair, np.maximum(apart, 0.0), wealth.squared_differences),
            items=np.where(whole, rows.place[..., None], wealth.items),
        )

    def lags(self, wealth: ListCandidateWealth, place: Floats) -> Bools:
        return np.asarray(self.needed(wealth) & (wealth.items < place[..., None]))

    def needed(self, wealth: ListCandidateWealth) -> Bools:
        open_ = self._open(wealth)
        arms = open_.any(axis=-1) | open_.any(axis=-2)
        return np.asarray(arms | (wealth.current < 0)[..., None] | wealth.by_arithmetic[..., None])

    def settled(self, wealth: ListCandidateWealth) -> Bools:
        shown = (wealth.current >= 0) & ~self._open(wealth).any(axis=(-1, -2)) & ~wealth.by_arithmetic
        return np.asarray(shown | (wealth.by_arithmetic & (wealth.items >= self.size).all(axis=-1)))

    def ended(self, wealth: ListCandidateWealth, place: Floats) -> Bools:
        return self.settled(wealth)

    def _exact_set(self, wealth: ListCandidateWealth) -> Bools:
        """The best arms of the whole list, by the midpoint of the possible values, which finds a certain set."""
        return largest_mask(wealth.low + wealth.high, np.full(wealth.low.shape[:-1], self.number))

    def open_at_end(self, wealth: ListCandidateWealth) -> Bools:
        inside = self._exact_set(wealth)
        worst = np.where(inside, wealth.low, np.inf).min(axis=-1) - np.where(inside, -np.inf, wealth.high).max(axis=-1)
        return np.asarray(wealth.by_arithmetic & (worst < self.size * self.bound - ROUNDING * self.size))

    def needs(self, wealth: ListCandidateWealth, place: Floats) -> Need:
        n, flat = np.maximum(place, 1.0)[..., None, None], (*place.shape, -1)
        lead = (wealth.low[..., :, None] - wealth.high[..., None, :]) / n - self.bound
        logs = self._take(wealth.log_wealth, wealth)
        won = log_wealth(logs.reshape(*logs.shape[:-2], -1))
        share = math.log(SHARE) + math.log(1 - SHARE) * np.maximum(wealth.current, 0.0)
        variance = (0.5 + wealth.squared_differences) / (place[..., None, None] + 2.0)
        open_ = self._open(wealth).reshape(flat)
        some = np.asarray(open_.any(axis=-1))[..., None]
        return Need(
            lead.reshape(flat),
            variance.reshape(flat),
            self.goal - share[..., None] - won,
            np.where(some, open_, (lead < np.inf).reshape(flat)),
        )

    def answer(self, wealth: ListCandidateWealth) -> Answer:
        chosen = self._exact_set(wealth)
        exact = wealth.by_arithmetic[..., None]
        return self.question.answer_from_set(np.where(exact, chosen, self._take(wealth.candidates, wealth)))

    def claims(self, wealth: ListCandidateWealth, names: Sequence[str]) -> list[ClaimStatus]:
        """For each pair of the current candidate, that the arm outside is not better than the one inside."""
        inside = self._take(wealth.candidates, wealth) if wealth.current >= 0 else np.zeros(len(names), dtype=np.bool_)
        logs = self._take(wealth.log_wealth, wealth)
        won = log_wealth(logs.reshape(len(LEADS), -1)).reshape(len(names), len(names))
        met = self._take(wealth.shown, wealth) | (bool(wealth.by_arithmetic) and bool(self.settled(wealth)))
        share = math.log(SHARE) + math.log(1 - SHARE) * max(float(wealth.current), 0.0)
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
