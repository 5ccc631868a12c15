"""Which arm is best on a list? One e-process per arm against "no arm is better", with the leader as its witness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roundwise.arrays import Bools, Floats, zeros
from roundwise.messages import few
from roundwise.model.problem import Problem
from roundwise.questions.base import Answer
from roundwise.rules.base import ClaimStatus
from roundwise.rules.eprocess.bounds import match_decision
from roundwise.rules.finite.bets import EARLY, LEADS, ROUNDING, is_certain, left_mean, log_factors, log_wealth
from roundwise.rules.finite.bounds import Stakes, lower_ends
from roundwise.rules.finite.known import lead_parts
from roundwise.rules.finite.process import FiniteProcess, ItemRow, Need


class ListBestArmWealth(NamedTuple):
    """Running sums over the places so far, and the wealth against each arm."""

    low: Floats  # (K), sums of results, failed requests as 0
    high: Floats  # (K), the same with failed requests as 1
    squared_differences: Floats  # (K, K), sums of squared differences on items with both results
    log_wealth: Floats  # (6, K), logs, one per bet size
    rejected: Bools  # (K), permanent
    certain: Bools  # (K), by arithmetic


class BestArmProcess(FiniteProcess[ListBestArmWealth]):
    """Arm i is rejected once bets on its witness, the best other arm so far, have multiplied wealth by 1/delta (L1)."""

    tag = "list-best-arm"

    def start(self, runs: tuple[int, ...], arms: int) -> ListBestArmWealth:
        none = np.zeros((*runs, arms), dtype=np.bool_)
        nothing = zeros((*runs, arms))
        wealth = ListBestArmWealth(
            nothing, nothing, np.zeros((*runs, arms, arms)), np.zeros((*runs, len(LEADS), arms)), none, none
        )
        out = self._beaten_by_known(wealth, np.zeros((*runs, 1)))
        return wealth._replace(rejected=out, certain=out)

    def _beaten_by_known(self, wealth: ListBestArmWealth, place: Floats) -> Bools:
        """The arms that are certain to end below one whose results on the whole list are known. (K)"""
        if self.known is None or not self.known.arms:
            return np.zeros_like(wealth.rejected)
        totals = self.size * self.known.means[:-1]
        most = wealth.high + (self.size - place)
        most[..., list(self.known.arms)] = totals
        return np.asarray(most < totals.max() - ROUNDING * self.size)

    def _stakes(self, wealth: ListBestArmWealth, row: ItemRow) -> Stakes:
        """The lead of its witness over each arm on this item, and what the earlier items say about it."""
        witness, place = self._witnesses(wealth), row.place[..., None]
        early = EARLY if self.known is None or witness.shape[-1] > 2 else 0  # with two arms each is the other's witness
        stakes = Stakes(
            np.take_along_axis(row.low, witness, axis=-1) - row.high,
            np.take_along_axis(wealth.low, witness, axis=-1) - wealth.high,
            self._variance(wealth, witness, place),
            (place >= early) & row.there,
            np.full(witness.shape, -1.0),
        )
        if self.known is None or row.control is None:
            return stakes
        arms = np.broadcast_to(np.arange(witness.shape[-1]), witness.shape)
        parts = lead_parts(self.known, witness.shape[-1], witness, arms)
        by_column = np.take_along_axis(row.control.cross, witness[..., None], axis=-2) - row.control.cross
        cross = np.take_along_axis(by_column, parts.column[..., None], axis=-1)[..., 0]
        return self.known.adjust(stakes, place, row.control, cross, parts)

    def step(self, wealth: ListBestArmWealth, row: ItemRow) -> ListBestArmWealth:
        place, stakes = row.place[..., None], self._stakes(wealth, row)
        mean = left_mean(self.size, place, 0.0, stakes.total)
        stretch = np.broadcast_to(self.size / (self.size - place), mean.shape)
        factors = log_factors(stakes.y, mean, stakes.low, stakes.variance, stretch)
        bets = stakes.bets & ~wealth.rejected
        logs = wealth.log_wealth + np.where(bets[..., None, :], factors, 0.0)
        seen, x = row.seen, row.low
        both = seen[..., :, None] & seen[..., None, :]
        wealth = wealth._replace(
            low=wealth.low + x,
            high=wealth.high + row.high,
            squared_differences=wealth.squared_differences
            + np.where(both, np.square(x[..., :, None] - x[..., None, :]), 0.0),
            log_wealth=logs,
        )
        won = log_wealth(logs) >= self.goal
        witness = self._witnesses(wealth)  # among the arms that were open before this place
        lead = np.take_along_axis(wealth.low, witness, axis=-1) - wealth.high
        certain = is_certain(self.size, place + 1.0, 0.0, lead, -1.0) & ~wealth.rejected
        certain |= self._beaten_by_known(wealth, place + 1.0) & ~wealth.rejected
        return wealth._replace(rejected=wealth.rejected | won | certain, certain=wealth.certain | certain)

    def conclude(self, wealth: ListBestArmWealth, low: Floats, high: Floats) -> ListBestArmWealth:
        beaten = low.max(axis=-1, keepdims=True) > high + ROUNDING * self.size
        return wealth._replace(low=low, high=high, rejected=beaten, certain=beaten)

    def _witnesses(self, wealth: ListBestArmWealth) -> NDArray[np.intp]:
        """For each arm the other open arm with the largest sum, the first in a tie. (K)"""
        sums = np.where(wealth.rejected, -1.0, wealth.low)
        first = sums.argmax(axis=-1)[..., None]
        arms = np.arange(sums.shape[-1])
        second = np.where(arms == first, -2.0, sums).argmax(axis=-1)[..., None]
        return np.asarray(np.where(arms == first, second, first))

    def _variance(self, wealth: ListBestArmWealth, witness: NDArray[np.intp], place: Floats) -> Floats:
        squares = np.take_along_axis(wealth.squared_differences, witness[..., None], axis=-1)[..., 0]
        return np.asarray((0.5 + squares) / (place + 2.0))

    def margins(self, wealth: ListBestArmWealth, rows: ItemRow) -> Floats:
        """Lower bounds on each arm's gap to the best; 0 if it may be the best. Rejected arms are bet on as well."""
        there = np.logical_and.accumulate(rows.there, axis=0)
        low, high = (np.where(there, each, 0.0).sum(axis=0) for each in (rows.low, rows.high))
        left = self.size - there.sum(axis=0)
        least, most = (
            np.maximum(each, 0.0) / self.size for each in (low.max() - high - left, (high + left).max() - low)
        )
        then, found = self.start((), len(low)), list[Stakes]()
        for at in range(len(there) if left.any() else 0):
            if not (there[at] | then.rejected).all():  # stop where a witness has no result
                break
            row = ItemRow(np.asarray(float(at)), rows.low[at], rows.high[at], rows.seen[at], there[at])
            found.append(self._stakes(then, row))
            then = self.step(then, row)
        if found:
            y, total, variance, bets, low = (np.array(each) for each in zip(*found, strict=True))
            least = lower_ends(Stakes(y, total, variance, bets, low), self.size, (least, most), self.goal)
        return np.where(wealth.rejected, match_decision(least, 0.0, wealth.rejected), 0.0)

    def needed(self, wealth: ListBestArmWealth) -> Bools:
        return ~wealth.rejected

    def settled(self, wealth: ListBestArmWealth) -> Bools:
        return np.asarray((~wealth.rejected).sum(axis=-1) <= 1)

    def open_at_end(self, wealth: ListBestArmWealth) -> Bools:
        failed = ((wealth.high > wealth.low) & ~wealth.rejected).any(axis=-1)
        return np.asarray(failed & ~self.settled(wealth))

    def needs(self, wealth: ListBestArmWealth, place: Floats) -> Need:
        witness, n = self._witnesses(wealth), np.maximum(place, 1.0)[..., None]
        lead = (np.take_along_axis(wealth.low, witness, axis=-1) - wealth.high) / n
        leader = np.arange(lead.shape[-1]) == np.where(wealth.rejected, -1.0, wealth.low).argmax(axis=-1)[..., None]
        variance = self._variance(wealth, witness, place[..., None])
        return Need(lead, variance, self.goal - log_wealth(wealth.log_wealth), ~wealth.rejected & ~leader)

    def answer(self, wealth: ListBestArmWealth) -> Answer:
        """The first arm that is not rejected; if all were, the one with the least evidence against it."""
        left = ~wealth.rejected
        every = ~left.any(axis=-1, keepdims=True)
        sums = np.where(left, wealth.low, -1.0)
        return np.asarray(np.where(every, -log_wealth(wealth.log_wealth), sums).argmax(axis=-1))

    def answer_text(self, problem: Problem, wealth: ListBestArmWealth, names: Sequence[str]) -> str:
        left = [name for name, out in zip(names, wealth.rejected, strict=True) if not out]
        if len(left) < 2:
            return super().answer_text(problem, wealth, names)
        return f"{few(left)} share the first place on this list"

    def claims(self, wealth: ListBestArmWealth, names: Sequence[str]) -> list[ClaimStatus]:
        won = np.where(wealth.certain, np.inf, log_wealth(wealth.log_wealth))
        return [
            ClaimStatus(f"{name} is not the best", float(each), self.goal, bool(shown), left=name)
            for name, each, shown in zip(names, won, wealth.rejected, strict=True)
        ]

    def wrong(self, wealth: ListBestArmWealth, means: Floats) -> Bools:
        """Whether a true best arm (the first of several) is rejected."""
        best = means.argmax(axis=-1)[..., None]
        return np.asarray(np.take_along_axis(wealth.rejected, best, axis=-1)[..., 0])
