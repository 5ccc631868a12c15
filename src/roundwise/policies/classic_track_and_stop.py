"""Track-and-Stop as Garivier and Kaufmann 2016 have it, pull by pull: the sequential yardstick for every question.

`batch` pulls are planned at a time, each by the rule of a single pull with the weights at the last means. With 1 it is
the original; larger ones show what batches cost. (Batches that double are `track-and-stop`.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, best_weights, check_sigma, checked, everywhere
from roundwise.rules import GLR, StoppingRule


@dataclass(frozen=True)
class ClassicTrackAndStop(Policy):
    """D-tracking: an arm with fewer than sqrt(t) - K/2 pulls, if there is one, else the one farthest behind t w*.

    Args:
        batch: b, pulls that are planned at a time; 1 is the original.
        own: Whether weights use the divergences of the noise model's own family, where it has one (0/1, counts).
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.

    >>> from roundwise.questions import BestArm
    >>> ClassicTrackAndStop().first(Problem(BestArm(), arms=3), runs=()).pulls.tolist()
    [1.0, 1.0, 1.0]
    """

    batch: int = 1
    own: bool = False
    stopping: StoppingRule = field(default_factory=GLR)
    name = "classic-track-and-stop"

    def __post_init__(self) -> None:
        checked(1 <= self.batch <= 1e6, f"`batch` is {self.batch:g}, but must be from 1 to a million.")

    def check(self, problem: Problem) -> None:
        """Every question; it needs a sigma."""
        check_sigma(problem)
        self.stopping.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """Every arm, as often as a batch has room for, but once at least."""
        each = max(1.0, math.floor(self.batch / problem.arms))
        return BatchPlan(everywhere(runs, problem.arms, each), np.ones(runs, dtype=np.bool_))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """So many single pulls, one after the other, towards the same weights."""
        means = problem.fitted(trial.record.counts, trial.record.means)
        weights = best_weights(problem, means, self.own)
        counts = np.array(trial.record.counts)
        for _ in range(int(self.batch)):
            counts += _next_pull(counts, weights)
        return BatchPlan(counts - trial.record.counts, trial.plan.may_stop)


def _next_pull(counts: Floats, weights: Floats) -> Floats:
    """One pull: the arm with fewest, if it has fewer than sqrt(t) - K/2; else the largest t w_a - N_a. (K),(K)->(K)"""
    arms = counts.shape[-1]
    time = counts.sum(axis=-1)
    short = counts.min(axis=-1) < np.sqrt(time) - arms / 2
    behind = np.where(short[..., None], -counts, time[..., None] * weights - counts)
    return np.asarray(np.arange(arms) == behind.argmax(axis=-1)[..., None], dtype=np.float64)
