"""Above a level when arms share items: the closed test with averages, which needs no independence of arms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.problem import Problem
from roundwise.rules.eprocess.above import AboveEProcess, AboveWealth, LevelBets
from roundwise.rules.eprocess.closed_testing import missing_wealth, reject_closed, wealth_in_goals


@dataclass(frozen=True)
class CrossedAboveEProcess(AboveEProcess):
    """One purse for each side of each arm; a side is shown by rule (R) of claims, with weights of 1 (Proposition 13).

    The error, that any arm is ever settled on a wrong side, is at most delta whatever the dependence between arms.
    """

    independent: ClassVar[bool] = False
    dropping = (
        ", at a price: what was won on each side of the other arms is cut to the least of {arm}, and what was shown of "
        "the others stays shown."
    )
    adding = ": {arm} starts with the least that any arm has on a side, and nothing else changes."

    def bars(self, problem: Problem, won: AboveWealth) -> Floats:
        """What settles an arm whatever the others do."""
        return np.full(won.above.shape, problem.goal + math.log(problem.arms))

    def decided(self, problem: Problem, won: AboveWealth) -> Bools:
        """Which arms have a side that is shown."""
        money, shown = _sides(problem, won)
        now = reject_closed(money, shown, np.ones(problem.arms))
        return np.asarray(won.settled | now.any(axis=-2))

    def claimed(self, problem: Problem, won: AboveWealth, choice: LevelBets) -> tuple[Bools, Floats]:
        """The side each arm is settled on, or else bet on, and what was won for it, less what it needs beyond delta."""
        above = np.where(won.settled, won.above > won.below, choice.above)
        lack = np.log1p(missing_wealth(*_sides(problem, won), np.ones(problem.arms)))
        return above, np.where(above, won.above, won.below) - lack

    def false_rejection(self, problem: Problem, won: AboveWealth, means: Floats) -> Bools:
        """Some arm is settled on the wrong side."""
        low, high = means < self.level - self.tolerance, means > self.level + self.tolerance
        return np.asarray((won.settled & np.where(won.above > won.below, low, high)).any(axis=-1))

    def without(self, problem: Problem, won: AboveWealth, arm: int) -> AboveWealth:
        """Open sides are cut to the least of the arm that leaves, so that the mean over true nulls does not rise."""
        lost, higher = np.minimum(won.above, won.below)[arm], won.above > won.below
        above = np.where(won.settled & higher, won.above, np.minimum(won.above, lost))
        below = np.where(won.settled & ~higher, won.below, np.minimum(won.below, lost))
        above, below, settled = np.delete(above, arm), np.delete(below, arm), np.delete(won.settled, arm)
        return AboveWealth(above, below, settled, np.minimum(won.gone, lost))

    def with_arm(self, won: AboveWealth) -> AboveWealth:
        """It starts with the smallest purse there is, at most 1 and what any arm had that left (Proposition 18)."""
        least = min(float(np.minimum(won.above, won.below).min()), float(won.gone))
        return AboveWealth(
            np.append(won.above, least), np.append(won.below, least), np.append(won.settled, False), won.gone
        )

    def all_rejected(self, problem: Problem, won: AboveWealth) -> bool:
        """Never: no arm has both sides shown."""
        return False


def _sides(problem: Problem, won: AboveWealth) -> tuple[Floats, Bools]:
    """Money on both sides of each arm, and which are shown. (2, K) each"""
    higher = won.above > won.below
    shown = np.stack([won.settled & higher, won.settled & ~higher], axis=-2)
    return wealth_in_goals(np.stack([won.above, won.below], axis=-2), problem.goal), shown
