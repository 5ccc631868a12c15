"""Round Robin: every arm equally often, tested at 900 2^r samples for r >= 1 (Section 3.6 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, everywhere, grid_step, whole
from roundwise.rules import GLR, StoppingRule


class Step(NamedTuple):
    """Where on the grid of times the plan ends."""

    step: Floats  # r


@dataclass(frozen=True)
class RoundRobin(Policy):
    """Every arm equally often, in batches that end at `first_time` samples, times `growth`, and so on.

    Args:
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.
        first_time: Samples at the end of the first batch.
        growth: By how much the samples grow from batch to batch.

    >>> from roundwise.questions import BestArm
    >>> RoundRobin().first(Problem(BestArm(), arms=10), runs=()).pulls.tolist()[:2]
    [180.0, 180.0]
    """

    stopping: StoppingRule = field(default_factory=GLR)
    first_time: float = 1800.0
    growth: float = 2.0
    name = "round-robin"

    def __post_init__(self) -> None:
        checked_grid(self.first_time, self.growth)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Step]:
        """Up to the first time."""
        each = float(whole(np.asarray(self.first_time / problem.arms)))
        return BatchPlan(everywhere(runs, problem.arms, each), np.ones(runs, dtype=np.bool_), Step(np.zeros(runs)))

    def next(self, problem: Problem, trial: Trial[Step]) -> BatchPlan[Step]:
        """Up to the next time."""
        step = grid_step(self.first_time, self.growth, trial.plan.memory.step, trial.record.samples)
        each = self.first_time * self.growth**step / problem.arms
        return BatchPlan(whole(each[..., None] - trial.record.counts), trial.plan.may_stop, Step(step))


def checked_grid(first_time: float, growth: float) -> None:
    """Raise an InputError unless the times form a growing grid."""
    checked(1 <= first_time < 1e100, f"The first time is {first_time:g}, but must be at least 1 sample.")
    checked(1 < growth < 1e6, f"The growth is {growth:g}, but must be above 1 (and below 1e6).")
