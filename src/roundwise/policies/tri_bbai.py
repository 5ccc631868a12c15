"""Tri-BBAI (Jin et al. 2023, arXiv 2310.14129, first version): best arm in at most three batches, as delta -> 0.

The quantities of the authors' Theorem 4.2 are recalled, not read in print.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import BatchPlan, Declaration, Memory, Record, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, everywhere, undeclared, whole
from roundwise.policies.racing import check_racing
from roundwise.rules import Declared, StoppingRule


class Stage(NamedTuple):
    """Where the algorithm stands."""

    stage: Floats  # the stage whose pulls are planned: 1, 2 or 4


@dataclass(frozen=True)
class TriBBAI(Policy):
    """A few pulls of each arm, then their proportions, then a test; if it fails, L^2 pulls of each arm.

    Asymptotic only: the last stage returns the best-looking arm without a test, so for a delta such as 0.05 the
    error exceeds delta by far.

    Args:
        alpha: The constant of stages II and III, above 1.
        stopping: The stopping rule, by default its own, without a guarantee.
    """

    alpha: float = 1.05
    stopping: StoppingRule = field(
        default=Declared(
            "tri-bbai is correct as delta tends to 0 only, and its quantities are recalled, not read in print; its "
            "last stage does not test"
        )
    )
    name = "tri-bbai"

    def __post_init__(self) -> None:
        checked(self.alpha > 1, f"`alpha` is {self.alpha:g}, but must be above 1.")

    def check(self, problem: Problem) -> None:
        """For best arm only."""
        check_racing(self.name, problem, sets=False)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Stage]:
        """Stage I: L_1 pulls of each arm."""
        return first_stage(problem, runs, Stage(np.ones(runs)))

    def next(self, problem: Problem, trial: Trial[Stage]) -> BatchPlan[Stage]:
        """Stage II after stage I; the test of stage III; then stage IV or the answer."""
        stage = trial.plan.memory.stage
        passed = (stage == 2) & passes(problem, trial.record, self.alpha)
        declared = Declaration(np.asarray(passed | (stage == 4)), trial.record.means.argmax(axis=-1))
        last = np.maximum(whole(np.asarray(problem.goal**2)) - trial.record.counts, 0.0)  # L_3
        pulls = np.where((stage == 1)[..., None], second_stage(problem, trial.record, self.alpha), last)
        return BatchPlan(pulls, trial.plan.may_stop, Stage(np.where(stage == 1, 2.0, 4.0)), declared=declared)


def first_stage(problem: Problem, runs: tuple[int, ...], memory: Memory) -> BatchPlan[Memory]:
    """Stage I: L_1 = sqrt(L) pulls of each arm."""
    each = math.ceil(math.sqrt(problem.goal))
    pulls = everywhere(runs, problem.arms, each)
    return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), memory, declared=undeclared(problem, runs))


def second_stage(problem: Problem, record: Record, alpha: float) -> Floats:
    """Stage II: min(alpha w*(b) T*(b) L, L_2) pulls, b the means moved together by eps = 1/ln L; L_2 = L ln(L)/K."""
    goal = problem.goal  # L
    few = max(1.0, math.ceil(goal * math.log(goal) / problem.arms)) if goal > 1 else 1.0
    eps = 1 / math.log(goal) if goal > 1 else math.inf
    if math.isinf(eps):
        return np.full(record.counts.shape, few)
    leads = np.arange(problem.arms) == record.means.argmax(axis=-1)[..., None]
    moved = np.where(leads, record.means - eps, record.means + eps)
    found = problem.complexity(moved)
    return np.minimum(whole(alpha * goal * np.minimum(found.value, 1e300)[..., None] * found.weights), few)


def passes(problem: Problem, record: Record, alpha: float) -> Bools:
    """Stage III: whether the evidence is at least beta(t) = ln(L t^alpha / delta)."""
    evidence = problem.evidence(record.counts, record.means)
    bar = math.log(problem.goal / problem.delta) + alpha * np.log(np.maximum(record.samples, 1.0))
    return np.asarray(evidence >= bar)
