"""Best arm within a fixed budget: baselines that promise no error probability, only to end."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.problem import BatchPlan, Declaration, Problem, Trial
from roundwise.policies.base import RankingPolicy, batch_merits, checked, everywhere, oriented, ranking, undeclared
from roundwise.questions.base import largest_mask
from roundwise.rules import Declared, StoppingRule

NO_PROMISE = "a fixed budget is spent whatever the results: no error probability is promised"


class Knockout(NamedTuple):
    """How many rounds are over, and the arms still in."""

    over: Floats  # ()
    inside: Bools  # (K)


class KnockoutRound(NamedTuple):
    """One round: fresh pulls of each arm that is in, and how many arms stay."""

    pulls: int
    stay: int


class FixedBudgetPolicy(RankingPolicy[Knockout]):
    """Rounds in which the arms with the smallest means leave, until one is left."""

    sets = False
    tolerant = True
    needs_sigma = False
    budget: float

    @abstractmethod
    def schedule(self, problem: Problem) -> list[KnockoutRound]:
        """Return all rounds."""

    @abstractmethod
    def merits(self, problem: Problem, trial: Trial[Knockout]) -> Floats:
        """Return the means by which arms stay after a round. (K)"""

    def check(self, problem: Problem) -> None:
        super().check(problem)
        few = f"A budget of {self.budget:g} is too small for {problem.arms} arms: some round would pull nothing."
        checked(min(each.pulls for each in self.schedule(problem)) >= 1, few)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Knockout]:
        pulls = everywhere(runs, problem.arms, float(self.schedule(problem)[0].pulls))
        memory = Knockout(np.zeros(runs), np.ones(pulls.shape, dtype=np.bool_))
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), memory, declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial[Knockout]) -> BatchPlan[Knockout]:
        """The arms with the largest means stay; after the last round the one that is left is the answer."""
        over, inside = trial.plan.memory
        means = np.where(inside, self.merits(problem, trial), -np.inf)
        rounds = self.schedule(problem)
        stay, pulls = inside & (over >= len(rounds))[..., None], np.zeros(means.shape)
        for number, each in enumerate(rounds):
            now = (over == number)[..., None]
            if now.any():
                stay |= now & largest_mask(means, each.stay)
                pulls += np.where(now & stay, float(rounds[number + 1].pulls) if number + 1 < len(rounds) else 0.0, 0.0)
        declared = Declaration(np.asarray(over + 1 >= len(rounds)), ranking(problem).answer_from_set(stay))
        return BatchPlan(pulls, trial.plan.may_stop, Knockout(over + 1, stay), declared=declared)


@dataclass(frozen=True)
class SequentialHalving(FixedBudgetPolicy):
    """Best arm with a fixed budget: equal rounds, after each of which the better half stays.

    Karnin, Koren and Somekh 2013, "Almost optimal exploration in multi-armed bandits": ceil(log2 K) rounds, each with
    an equal share of the budget and fresh means. With `rounds` R it is batched: K^(1 - r/R) arms stay after round r.

    Args:
        budget: Samples in all.
        rounds: How many batches; by default ceil(log2 K).
        stopping: The stopping rule: it declares the arm that is left.

    >>> from roundwise.questions import BestArm
    >>> SequentialHalving(budget=1200).schedule(Problem(BestArm(), arms=8))
    [KnockoutRound(pulls=50, stay=4), KnockoutRound(pulls=100, stay=2), KnockoutRound(pulls=200, stay=1)]
    """

    budget: float = 10_000.0
    rounds: int | None = None
    stopping: StoppingRule = field(default=Declared(caveat=NO_PROMISE))
    name = "sequential-halving"

    def __post_init__(self) -> None:
        checked(1 <= self.budget <= 2**53, f"`budget` is {self.budget:g}, but must be a number of samples.")
        checked(self.rounds is None or 1 <= self.rounds <= 60, f"`rounds` is {self.rounds}, but must be from 1 to 60.")

    def schedule(self, problem: Problem) -> list[KnockoutRound]:
        arms = problem.arms
        number = self.rounds or math.ceil(math.log2(arms))
        found, inside = [], arms
        for r in range(1, number + 1):
            stay = math.ceil(inside / 2) if self.rounds is None else math.ceil(arms ** (1 - r / number) - 1e-9)
            found.append(KnockoutRound(math.floor(self.budget / (inside * number)), min(stay, inside)))
            inside = found[-1].stay
        return found

    def merits(self, problem: Problem, trial: Trial[Knockout]) -> Floats:
        return batch_merits(problem, trial.batch)


@dataclass(frozen=True)
class SuccessiveRejects(FixedBudgetPolicy):
    """Best arm with a fixed budget: K - 1 rounds, after each of which the worst arm leaves.

    Audibert, Bubeck and Munos 2010, "Best arm identification in multi-armed bandits": after round k an arm that is in
    has n_k = ceil((n - K)/(log K (K + 1 - k))) pulls, log K = 1/2 + sum_{i=2}^K 1/i; means are of all pulls.

    Args:
        budget: n, samples in all.
        stopping: The stopping rule: it declares the arm that is left.

    >>> from roundwise.questions import BestArm
    >>> SuccessiveRejects(budget=1000).schedule(Problem(BestArm(), arms=3))
    [KnockoutRound(pulls=250, stay=2), KnockoutRound(pulls=124, stay=1)]
    """

    budget: float = 10_000.0
    stopping: StoppingRule = field(default=Declared(caveat=NO_PROMISE))
    name = "successive-rejects"

    def __post_init__(self) -> None:
        checked(1 <= self.budget <= 2**53, f"`budget` is {self.budget:g}, but must be a number of samples.")

    def schedule(self, problem: Problem) -> list[KnockoutRound]:
        arms = problem.arms
        scale = 0.5 + sum(1 / i for i in range(2, arms + 1))
        pulls = [math.ceil((self.budget - arms) / (scale * (arms + 1 - k))) for k in range(1, arms)]
        before = [0, *pulls]
        return [KnockoutRound(pulls[k] - before[k], arms - 1 - k) for k in range(arms - 1)]

    def merits(self, problem: Problem, trial: Trial[Knockout]) -> Floats:
        return oriented(problem, trial.record).means
