"""Accuracies that are halved: Hillel et al. 2013 for the best arm, Karpov et al. 2020 for the best k.

Hillel, Karnin, Koren, Lempel and Somekh 2013, "Distributed exploration in multi-armed bandits", is for players that
meet in every round; Karpov, Zhang and Zhou 2020, "Collaborative top distribution identifications with limited
interaction", for agents in rounds. Here there is one of them, and meetings or rounds are batches. Rewards are scaled to
sigma = 1/2 (those in [0, 1]). The numbers are read in other authors' code (the second of which lowers k by all accepted
arms in every round again: we do not), the end of the first is recalled; the proofs for these very numbers are ours, and
short (docs/baselines.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, whole
from roundwise.policies.racing import Race, check_racing, first_round, next_round, outcome, ranking
from roundwise.rules import Declared, StoppingRule

HILLEL = Declared(proof="Hillel et al. 2013, NeurIPS; for these constants docs/baselines.md, hillel")
KARPOV = Declared(proof="Karpov, Zhang and Zhou 2020, FOCS; for these constants docs/baselines.md, karpov")


def accuracy(problem: Problem, r: Floats) -> Floats:
    """e_r = 2^-r, in the units of the rewards."""
    return np.asarray(2 * problem.sigma * 2.0**-r)


@dataclass(frozen=True)
class Hillel(Policy):
    """Best arm: in round r every arm left has (2/e_r^2) ln(4 K r^2 / delta) pulls in all, e_r = 2^-r.

    An arm e_r behind the best leaves. It ends when one arm is left, or with a tolerance when e_r is at most half of it.

    Args:
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> float(Hillel().pulls(Problem(BestArm(), arms=10), np.array(1.0)))  # 8 ln(800) = 53.5
    54.0
    """

    stopping: StoppingRule = HILLEL
    name = "hillel"

    def check(self, problem: Problem) -> None:
        """For best arm, with or without a tolerance."""
        check_racing(self.name, problem, sets=False, tolerant=True)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The first round."""
        return first_round(problem, runs, float(self.pulls(problem, np.array(1.0))))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Who is e_r behind the best leaves; the others go on."""
        means, reach = trial.record.means, accuracy(problem, trial.plan.memory.round)

        def declared(after: Race) -> Declaration:
            found = outcome(problem, after)
            near = ~found.made & (reach <= problem.question.tolerance / 2)
            best = np.where(after.place >= 0, means, -np.inf).argmax(axis=-1)
            mine = ranking(problem).answer_from_set(np.arange(problem.arms) == best[..., None])
            return Declaration(found.made | near, np.where(near, mine, found.answer))

        return next_round(problem, trial, reach, lambda r: self.pulls(problem, r), declared)

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        """Pulls of each arm up to the end of round r."""
        return whole(2 * 4.0**r * np.log(4 * problem.arms * r**2 / problem.delta) + math.ulp(1.0))


@dataclass(frozen=True)
class Karpov(Policy):
    """Top-k: in round r every arm left has (8/e_r^2) ln(4 K r^2 / delta) pulls in all, e_r = 2^-r.

    An arm more than e_r above the (k+1)-th mean is accepted, one more than e_r below the k-th is rejected.

    Args:
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import TopK
    >>> float(Karpov().pulls(Problem(TopK(2), arms=10), np.array(1.0)))  # 32 ln(800) = 213.9
    214.0
    """

    stopping: StoppingRule = KARPOV
    name = "karpov"

    def check(self, problem: Problem) -> None:
        """For top-k and best arm."""
        check_racing(self.name, problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The first round."""
        return first_round(problem, runs, float(self.pulls(problem, np.array(1.0))))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Accept and reject; the others go on."""
        reach = accuracy(problem, trial.plan.memory.round)
        return next_round(problem, trial, reach, lambda r: self.pulls(problem, r))

    def pulls(self, problem: Problem, r: Floats) -> Floats:
        """Pulls of each arm up to the end of round r."""
        return whole(np.asarray(8 * 4.0**r * np.log(4 * problem.arms * r**2 / problem.delta)))
