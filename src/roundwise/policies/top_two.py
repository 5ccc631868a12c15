"""A top-two rule, EB-TCI of Jourdan, Degenne, Baudry, de Heide and Kaufmann 2022, "Top two algorithms revisited".

The sequential yardstick for best arm that needs no weights: the leader is the arm with the largest mean, the challenger
the one with the least transport cost W(leader, j) + ln N_j, and the leader gets `share` of the pulls that it leads.
`batch` pulls are planned at a time, with the means as they were before. Recalled, not read in print; the guarantee
rests on the stopping rule alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, zeros
from roundwise.model.batch import BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, everywhere
from roundwise.policies.racing import check_racing
from roundwise.rules import GLR, StoppingRule


class Led(NamedTuple):
    """How often each arm has led, and how often it was pulled then."""

    led: Floats  # (K)
    pulled: Floats  # (K)


@dataclass(frozen=True)
class TopTwo(Policy):
    """Best arm (also within a tolerance): the leader or its most dangerous challenger.

    Args:
        batch: b, pulls that are planned at a time; 1 is the original.
        share: beta, the leader's share of the pulls.
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.

    >>> from roundwise.questions import BestArm
    >>> TopTwo(batch=30).first(Problem(BestArm(), arms=3), runs=()).pulls.tolist()
    [10.0, 10.0, 10.0]
    """

    batch: int = 1
    share: float = 0.5
    stopping: StoppingRule = field(default_factory=GLR)
    name = "top-two"

    def __post_init__(self) -> None:
        checked(1 <= self.batch <= 1e6, f"`batch` is {self.batch:g}, but must be from 1 to a million.")
        checked(0 < self.share < 1, f"`share` is {self.share:g}, but must lie strictly between 0 and 1.")

    def check(self, problem: Problem) -> None:
        """For best arm; it needs a sigma."""
        check_racing(self.name, problem, sets=False, tolerant=True)
        self.stopping.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """Every arm, as often as a batch has room for, but once at least."""
        each = max(1.0, math.floor(self.batch / problem.arms))
        none = zeros((*runs, problem.arms))
        return BatchPlan(everywhere(runs, problem.arms, each), np.ones(runs, dtype=np.bool_), Led(none, none))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """So many single pulls, one after the other, with the same means."""
        led, pulled = trial.plan.memory
        counts, means = np.array(trial.record.counts), trial.record.means
        leads = np.arange(problem.arms) == means.argmax(axis=-1)[..., None]
        gaps = (means.max(axis=-1, keepdims=True) - means + problem.question.tolerance) ** 2 / (2 * problem.sigma**2)
        for _ in range(int(self.batch)):
            led = led + leads
            keeps = ((pulled <= self.share * led) & leads).any(axis=-1)[..., None]
            many = np.maximum(counts, 1.0)
            best = np.where(leads, many, 0.0).sum(axis=-1, keepdims=True)
            costs = np.where(leads, np.inf, gaps * (best * many / (best + many)) + np.log(many))
            rival = np.arange(problem.arms) == costs.argmin(axis=-1)[..., None]
            counts += np.where(keeps, leads, rival)
            pulled = pulled + (leads & keeps)
        return BatchPlan(counts - trial.record.counts, trial.plan.may_stop, Led(led, pulled))
