"""Track-and-Stop (Garivier and Kaufmann 2016) in batches that end at 900 2^r samples (Section 3.6 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, best_weights, check_sigma, checked, everywhere, filled, grid_step, whole
from roundwise.policies.round_robin import Step, checked_grid
from roundwise.rules import GLR, StoppingRule


@dataclass(frozen=True)
class TrackAndStop(Policy):
    """Sample in the proportions w* at the empirical means, updated between batches only.

    The paper does not say which variant it ran; the heavy tail of its third figure is there in all of them
    (docs/reproducing.md).

    Args:
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.
        tracking: "D" steers all pulls so far towards w*, "C" only those of the batch.
        forced: Whether every arm is kept at sqrt(t) - K/2 pulls at least (forced exploration).
        first_time: Samples at the end of the first batch.
        growth: By how much the samples grow from batch to batch.
        own: Whether weights use the divergences of the noise model's own family, where it has one (0/1, counts).

    >>> from roundwise.questions import BestArm
    >>> TrackAndStop().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(900.0)
    """

    stopping: StoppingRule = field(default_factory=GLR)
    tracking: Literal["D", "C"] = "D"
    forced: bool = True
    first_time: float = 900.0
    growth: float = 2.0
    own: bool = False
    name = "track-and-stop"

    def __post_init__(self) -> None:
        checked_grid(self.first_time, self.growth)
        checked(self.tracking in ("D", "C"), f"The tracking is '{self.tracking}', but must be 'D' or 'C'.")

    def check(self, problem: Problem) -> None:
        """Track-and-Stop fits every question; it needs a sigma."""
        check_sigma(problem)
        self.stopping.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Step]:
        """Every arm equally often, up to the first time."""
        each = float(whole(np.asarray(self.first_time / problem.arms)))
        return BatchPlan(everywhere(runs, problem.arms, each), np.ones(runs, dtype=np.bool_), Step(np.zeros(runs)))

    def next(self, problem: Problem, trial: Trial[Step]) -> BatchPlan[Step]:
        """Towards w* at the empirical means, up to the next time."""
        record = trial.record
        step = grid_step(self.first_time, self.growth, trial.plan.memory.step, record.samples)
        time = self.first_time * self.growth**step
        weights = best_weights(problem, problem.fitted(record.counts, record.means), self.own)
        goal = self._goal(problem, record.counts, weights, time)
        return BatchPlan(whole(goal - record.counts), trial.plan.may_stop, Step(step))

    def _goal(self, problem: Problem, counts: Floats, weights: Floats, time: Floats) -> Floats:
        """Counts at the end of the batch, without a loop over single pulls (docs/baselines.md)."""
        floor = (np.sqrt(time) - problem.arms / 2)[..., None] if self.forced else 0.0
        least = np.maximum(counts, floor)
        if self.tracking == "D":
            return filled(least, time[..., None] * weights, time)
        return np.maximum(least, counts + (time - counts.sum(axis=-1))[..., None] * weights)
