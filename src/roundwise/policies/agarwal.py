"""Agarwal, Agarwal, Assadi and Khanna 2017, "Learning with limited rounds of adaptivity": so many batches, gap known.

Aggressive elimination: with r rounds to go, every arm left is pulled so often that only |S| / ilog^(r-1)(|S|/k) arms
can pass for one of the best k by chance, and all others leave. The algorithm is recalled, its constants are those with
which the proof works out (docs/baselines.md). It must be told the gap between the k-th and the next mean; rewards are
scaled to sigma = 1/2 (those in [0, 1]).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, everywhere, undeclared
from roundwise.policies.racing import check_racing, ranking
from roundwise.rules import Declared, StoppingRule

UNSAID = Declared()  # what is proved depends on the gap


class Left(NamedTuple):
    """How many rounds are to go, and who is still in."""

    rounds: Floats  # r
    inside: Bools  # (K)


@dataclass(frozen=True)
class Agarwal(Policy):
    """Best arm or top-k in exactly `rounds` batches, if the k-th mean leads the next by `gap` or more.

    Args:
        gap: Delta, the smallest lead, in the units of the rewards.
        rounds: How many batches.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> Agarwal(gap=0.1, rounds=2).sizes(Problem(BestArm(), arms=1000))
    [1000, 145]
    """

    gap: float = 0.1
    rounds: int = 2
    stopping: StoppingRule = UNSAID
    name = "agarwal"

    def __post_init__(self) -> None:
        checked(0 < self.gap < math.inf, f"`gap` is {self.gap:g}, but must be a positive number.")
        checked(1 <= self.rounds <= 20, f"`rounds` is {self.rounds:g}, but must be from 1 to 20.")
        if self.stopping == UNSAID:
            rule = Declared(
                proof="Agarwal et al. 2017, COLT; for these constants docs/baselines.md, agarwal",
                condition=f"the arms looked for lead all others by {self.gap:g} or more",
            )
            object.__setattr__(self, "stopping", rule)

    def check(self, problem: Problem) -> None:
        """For best arm and top-k."""
        check_racing(self.name, problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The first round."""
        everyone = np.ones((*runs, problem.arms), dtype=np.bool_)
        return BatchPlan(
            everywhere(runs, problem.arms, self.pulls(problem, self.rounds)),
            np.ones(runs, dtype=np.bool_),
            Left(np.full(runs, float(self.rounds)), everyone),
            declared=undeclared(problem, runs),
        )

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Keep the arms with the largest means of this round; fresh pulls of them in the next."""
        rounds, inside = trial.plan.memory
        means = np.where(inside, trial.batch.totals / np.maximum(trial.batch.counts, 1.0), -np.inf)
        kept, pulls = np.zeros_like(inside), np.zeros(means.shape)
        for r in range(1, self.rounds + 1):
            now = rounds == r
            if now.any():
                kept |= now[..., None] & _largest(
                    means, self.sizes(problem)[self.rounds - r + 1 :] or [ranking(problem).number_sought]
                )
                pulls += np.where(now[..., None] & kept, self.pulls(problem, max(r - 1, 1)), 0.0)
        done = rounds <= 1
        kept = np.where(done[..., None] & (rounds < 1)[..., None], inside, kept)
        declared = Declaration(np.asarray(done), ranking(problem).answer_from_set(kept))
        return BatchPlan(pulls, trial.plan.may_stop, Left(rounds - 1, kept), declared=declared)

    def sizes(self, problem: Problem) -> list[int]:
        """How many arms are in at the beginning of each round."""
        sizes, k = [problem.arms], ranking(problem).number_sought
        for r in range(self.rounds, 1, -1):
            most = k + math.floor(sizes[-1] / repeated_log(sizes[-1] / k, r - 1))
            sizes.append(min(sizes[-1], most))
        return sizes

    def pulls(self, problem: Problem, r: int) -> float:
        """Pulls of each arm left, with r rounds to go: (2/gap^2) (ilog^(r)(|S|/k) + ln(8 k / delta_r))."""
        k = ranking(problem).number_sought
        size = self.sizes(problem)[self.rounds - r]
        level = problem.delta * 2.0 ** -(self.rounds - r)
        need = repeated_log(size / k, r) + math.log(8 * k / level)
        return float(math.ceil(2 * (2 * problem.sigma / self.gap) ** 2 * need))


def repeated_log(value: float, times: int) -> float:
    """ilog^(r): the logarithm taken r times, never below 1."""
    for _ in range(times):
        value = max(math.log(value), 1.0)
    return value


def _largest(means: Floats, sizes: list[int]) -> Bools:
    """The arms with the so many largest means; in a tie the first ones."""
    order = np.argsort(-means, axis=-1, kind="stable")
    found = np.zeros(means.shape, dtype=np.bool_)
    np.put_along_axis(found, order[..., : sizes[0]], True, axis=-1)
    return found
