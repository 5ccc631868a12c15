"""Which arm is best on a list? One e-process against every arm, "no arm is better", with the leader as its witness."""

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
from roundwise.rules.finite.bets import EARLY, LEADS, ROUNDING, is_certain, left_mean, log_factors, log_wealth
from roundwise.rules.finite.process import FiniteProcess, ItemRow, Need


class BestArmPurses(NamedTuple):
    """Sums over the places so far, and the wealth against each arm."""

    low: Floats  # (K), sums of results, failed requests as 0
    high: Floats  # (K), the same with failed requests as 1
    apart: Floats  # (K, K), sums of squared differences on items with both results
    wealth: Floats  # (6, K), logs, one for each size of bets
    rejected: Bools  # (K), for good
    certain: Bools  # (K), by arithmetic


class BestArmProcess(FiniteProcess[BestArmPurses]):
    """Arm i is rejected once the bets on its witness, the best other arm so far, have won 1/delta (L1)."""

    tag = "list-best-arm"

    def start(self, runs: tuple[int, ...], arms: int) -> BestArmPurses:
        none = np.zeros((*runs, arms), dtype=np.bool_)
        nothing = zeros((*runs, arms))
        return BestArmPurses(
            nothing, nothing, np.zeros((*runs, arms, arms)), np.zeros((*runs, len(LEADS), arms)), none, none
        )

    def step(self, purses: BestArmPurses, row: ItemRow) -> BestArmPurses:
        witness = self._witnesses(purses)
        lead = np.take_along_axis(purses.low, witness, axis=-1) - purses.high
        place = row.place[..., None]
        mean = left_mean(self.size, place, 0.0, lead)
        y = np.take_along_axis(row.low, witness, axis=-1) - row.high
        variance = self._variance(purses, witness, place)
        stretch = np.broadcast_to(self.size / (self.size - place), y.shape)
        factors = log_factors(y, mean, -1.0, variance, stretch)
        bets = (place >= EARLY) & ~purses.rejected
        wealth = purses.wealth + np.where(bets[..., None, :], factors, 0.0)
        seen, x = row.seen, row.low
        both = seen[..., :, None] & seen[..., None, :]
        purses = purses._replace(
            low=purses.low + x,
            high=purses.high + row.high,
            apart=purses.apart + np.where(both, np.square(x[..., :, None] - x[..., None, :]), 0.0),
            wealth=wealth,
        )
        won = log_wealth(wealth) >= self.goal
        witness = self._witnesses(purses)  # of the arms that were open before this place
        lead = np.take_along_axis(purses.low, witness, axis=-1) - purses.high
        certain = is_certain(self.size, place + 1.0, 0.0, lead, -1.0) & ~purses.rejected
        return purses._replace(rejected=purses.rejected | won | certain, certain=purses.certain | certain)

    def conclude(self, purses: BestArmPurses, low: Floats, high: Floats) -> BestArmPurses:
        beaten = low.max(axis=-1, keepdims=True) > high + ROUNDING * self.size
        return purses._replace(low=low, high=high, rejected=beaten, certain=beaten)

    def _witnesses(self, purses: BestArmPurses) -> NDArray[np.intp]:
        """For each arm the other open one with the largest sum, the first in a tie. (K)"""
        sums = np.where(purses.rejected, -1.0, purses.low)
        first = sums.argmax(axis=-1)[..., None]
        arms = np.arange(sums.shape[-1])
        second = np.where(arms == first, -2.0, sums).argmax(axis=-1)[..., None]
        return np.asarray(np.where(arms == first, second, first))

    def _variance(self, purses: BestArmPurses, witness: NDArray[np.intp], place: Floats) -> Floats:
        squares = np.take_along_axis(purses.apart, witness[..., None], axis=-1)[..., 0]
        return np.asarray((0.5 + squares) / (place + 2.0))

    def needed(self, purses: BestArmPurses) -> Bools:
        return ~purses.rejected

    def settled(self, purses: BestArmPurses) -> Bools:
        return np.asarray((~purses.rejected).sum(axis=-1) <= 1)

    def open_at_end(self, purses: BestArmPurses) -> Bools:
        failed = ((purses.high > purses.low) & ~purses.rejected).any(axis=-1)
        return np.asarray(failed & ~self.settled(purses))

    def needs(self, purses: BestArmPurses, place: Floats) -> Need:
        witness, n = self._witnesses(purses), np.maximum(place, 1.0)[..., None]
        lead = (np.take_along_axis(purses.low, witness, axis=-1) - purses.high) / n
        leader = np.arange(lead.shape[-1]) == np.where(purses.rejected, -1.0, purses.low).argmax(axis=-1)[..., None]
        variance = self._variance(purses, witness, place[..., None])
        return Need(lead, variance, self.goal - log_wealth(purses.wealth), ~purses.rejected & ~leader)

    def answer(self, purses: BestArmPurses) -> Answer:
        """The first of the arms that are left; of all, if all were rejected, the one with the least evidence."""
        left = ~purses.rejected
        every = ~left.any(axis=-1, keepdims=True)
        sums = np.where(left, purses.low, -1.0)
        return np.asarray(np.where(every, -log_wealth(purses.wealth), sums).argmax(axis=-1))

    def answer_text(self, problem: Problem, purses: BestArmPurses, names: Sequence[str]) -> str:
        left = [name for name, out in zip(names, purses.rejected, strict=True) if not out]
        if len(left) < 2:
            return super().answer_text(problem, purses, names)
        return f"{few(left)} share the first place on this list"

    def claims(self, purses: BestArmPurses, names: Sequence[str]) -> list[ClaimStatus]:
        won = np.where(purses.certain, np.inf, log_wealth(purses.wealth))
        return [
            ClaimStatus(f"{name} is not the best", float(each), self.goal, bool(shown), left=name)
            for name, each, shown in zip(names, won, purses.rejected, strict=True)
        ]

    def wrong(self, purses: BestArmPurses, means: Floats) -> Bools:
        """Whether a given best arm, the first, is rejected."""
        best = means.argmax(axis=-1)[..., None]
        return np.asarray(np.take_along_axis(purses.rejected, best, axis=-1)[..., 0])
