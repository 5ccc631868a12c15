"""Karpov, Zhang and Zhou 2020, "Collaborative top distribution identifications with limited interaction": top-k.

Fixed confidence, with one agent, whose rounds are batches; rewards are scaled to sigma = 1/2 (those in [0, 1]). The
numbers are read in other authors' code (which lowers k by all accepted arms in every round again: we do not). The proof
for these numbers is ours, and short (docs/baselines.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.policies.base import whole
from roundwise.policies.racing import Race, check_racing, first_round, outcome, placed
from roundwise.problem import Problem
from roundwise.state import Plan, Trial
from roundwise.stopping import Declared, Stopping

PROVED = Declared(proof="Karpov, Zhang and Zhou 2020, FOCS; for these constants docs/baselines.md, karpov")


@dataclass(frozen=True)
class Karpov:
    """In round r every arm left has (8/e_r^2) ln(4 K r^2 / delta) pulls in all, e_r = 2^-r.

    Who is more than e_r above the (k+1)-th mean is accepted, who is more than e_r below the k-th is rejected.

    >>> from roundwise.questions import TopK
    >>> float(Karpov().pulls(Problem(TopK(2), arms=10), np.array(1.0)))  # 32 ln(800) = 213.9
    214.0
    """

    stopping: Stopping = PROVED
    name = "karpov"

    def check(self, problem: Problem) -> None:
        """For top-k and best arm."""
        check_racing(self.name, problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> Plan:
        """The first round."""
        return first_round(problem, runs, float(self.pulls(problem, np.array(1.0))))

    def next(self, problem: Problem, trial: Trial) -> Plan:
        """Accept and reject; the others go on."""
        race: Race = trial.plan.memory
        means, accuracy = trial.record.means, self.accuracy(problem, race.round)
        after = placed(problem, race, means - accuracy[..., None] / 2, means + accuracy[..., None] / 2)
        after = after._replace(round=race.round + 1)
        goal = self.pulls(problem, after.round)[..., None]
        pulls = np.where(after.racing, np.maximum(goal - trial.record.counts, 1.0), 0.0)
        return Plan(pulls, trial.plan.may_stop, after, declared=outcome(problem, after))

    def accuracy(self, problem: Problem, r: Floats) -> Floats:
        """e_r, in the units of the rewards."""
        return np.asarray(2 * problem.sigma * 2.0**-r)

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        """Pulls of each arm up to the end of round r."""
        return whole(np.asarray(8 * 4.0**r * np.log(4 * problem.arms * r**2 / problem.delta)))
