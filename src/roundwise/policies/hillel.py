"""Hillel, Karnin, Koren, Lempel and Somekh 2013, "Distributed exploration in multi-armed bandits": halving accuracies.

Their algorithm for k players that meet in every round, with one player, whose meetings are batches. Rewards are scaled
to sigma = 1/2 (those in [0, 1]). The numbers are read in other authors' code, the end of it is recalled; the proof for
these very numbers is ours, and short (docs/baselines.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.policies.base import whole
from roundwise.policies.racing import Race, check_racing, first_round, outcome, placed, ranking
from roundwise.problem import Problem
from roundwise.questions.besides import tolerance_of
from roundwise.state import Declaration, Plan, Trial
from roundwise.stopping import Declared, Stopping

PROVED = Declared(proof="Hillel et al. 2013, NeurIPS; for these constants docs/baselines.md, hillel")


@dataclass(frozen=True)
class Hillel:
    """In round r every arm left has (2/e_r^2) ln(4 K r^2 / delta) pulls in all, e_r = 2^-r; who is e_r behind leaves.

    It ends when one arm is left, or with a tolerance when e_r is at most half of it.

    >>> from roundwise.questions import BestArm
    >>> float(Hillel().pulls(Problem(BestArm(), arms=10), np.array(1.0)))  # 8 ln(800) = 53.5
    54.0
    """

    stopping: Stopping = PROVED
    name = "hillel"

    def check(self, problem: Problem) -> None:
        """For best arm, with or without a tolerance."""
        check_racing(self.name, problem, sets=False, tolerant=True)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> Plan:
        """The first round."""
        return first_round(problem, runs, float(self.pulls(problem, np.array(1.0))))

    def next(self, problem: Problem, trial: Trial) -> Plan:
        """Who is e_r behind the best leaves; the others go on."""
        race: Race = trial.plan.memory
        means, accuracy = trial.record.means, self.accuracy(problem, race.round)
        after = placed(problem, race, means - accuracy[..., None] / 2, means + accuracy[..., None] / 2)
        found = outcome(problem, after)
        near = ~found.made & (accuracy <= tolerance_of(problem.question) / 2)
        best = np.where(after.place >= 0, means, -np.inf).argmax(axis=-1)
        mine = np.arange(problem.arms) == best[..., None]
        declared = Declaration(found.made | near, np.where(near, ranking(problem).of_set(mine), found.answer))
        after = after._replace(round=race.round + 1)
        goal = self.pulls(problem, after.round)[..., None]
        pulls = np.where(after.racing, np.maximum(goal - trial.record.counts, 1.0), 0.0)
        return Plan(pulls, trial.plan.may_stop, after, declared=declared)

    def accuracy(self, problem: Problem, r: Floats) -> Floats:
        """e_r, in the units of the rewards."""
        return np.asarray(2 * problem.sigma * 2.0**-r)

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        """Pulls of each arm up to the end of round r."""
        return whole(2 * 4.0**r * np.log(4 * problem.arms * r**2 / problem.delta) + math.ulp(1.0))
