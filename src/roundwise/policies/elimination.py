"""A plain batched elimination with a short proof: rounds of growing size, and who is surely not wanted leaves.

In round r every arm still in has n_r pulls in all, and x_r = 2 sigma sqrt(ln(M r (r+1) / delta) / n_r), M the number of
pairs of a wanted and an unwanted arm (K - 1 for best arm). The difference of two means of n_r pulls deviates by more
than x_r, to one side, with probability at most exp(-n_r x_r^2 / (4 sigma^2)) = delta / (M r (r+1)); added up over pairs
and rounds that is delta. Unless it happens, nobody is placed wrongly (`racing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from roundwise.arrays import Floats, quiet
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked
from roundwise.policies.racing import Race, check_racing, first_round, leading, next_round, outcome, ranked, ranking
from roundwise.rules import Declared, StoppingRule

PROVED = Declared(proof="docs/baselines.md, elimination")


@dataclass(frozen=True)
class Elimination(Policy):
    """Best arm (also within a tolerance) or top-k by rounds of elimination.

    Args:
        first_pulls: n_1, pulls of each arm at the end of the first round.
        growth: By how much n_r grows from round to round.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> Elimination().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(5000.0)
    """

    first_pulls: float = 500.0
    growth: float = 4.0
    stopping: StoppingRule = PROVED
    name = "elimination"

    def __post_init__(self) -> None:
        checked(1 <= self.first_pulls <= 2**53, f"`first_pulls` is {self.first_pulls:g}, but must be at least 1.")
        checked(1 < self.growth < 1e6, f"`growth` is {self.growth:g}, but must be above 1 (below 1e6).")

    def check(self, problem: Problem) -> None:
        """For best arm and top-k."""
        check_racing(self.name, problem, tolerant=True)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """n_1 pulls of every arm."""
        return first_round(problem, runs, math.ceil(self.first_pulls))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Place who can be placed; pull the others up to the next round's number."""
        reach = self.reach(problem, trial.plan.memory.round)
        near = partial(self._near, problem, trial.record.means, reach)
        return next_round(problem, trial, reach, self._goal, near)

    def _goal(self, r: Floats) -> Floats:
        """n_r."""
        return np.asarray(np.ceil(self.first_pulls * self.growth ** (r - 1)))

    def reach(self, problem: Problem, r: Floats) -> Floats:
        """x_r."""
        places = ranking(problem).number_sought
        pairs = places * (problem.arms - places)
        return np.asarray(2 * problem.sigma * np.sqrt(np.log(pairs * r * (r + 1) / problem.delta) / self._goal(r)))

    @quiet
    def _near(self, problem: Problem, means: Floats, reach: Floats, race: Race) -> Declaration:
        """The outcome, or the leaders if by the same bounds nobody left is better by more than the tolerance."""
        found = outcome(problem, race)
        if not problem.question.tolerance:
            return found
        left = np.where(race.racing, means, -np.inf)
        accepted, sought = race.place > 0, ranking(problem)
        places = sought.number_sought - accepted.sum(axis=-1)
        ahead = ranked(left, places - 1) - ranked(left, places)
        near = ~found.made & (ahead > reach - problem.question.tolerance)
        mine = sought.answer_from_set(accepted | (race.racing & leading(left, places)))
        answer = np.where(near.reshape(near.shape + (1,) * (mine.ndim - near.ndim)), mine, found.answer)
        return Declaration(found.made | near, answer)
