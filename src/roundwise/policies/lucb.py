"""LUCB of Kalyanakrishnan, Tewari, Auer and Stone 2012, "PAC subset selection in stochastic multi-armed bandits".

The sequential yardstick for the best k arms: it pulls the weakest arm of the current top k and the strongest one
outside, half a batch each. With `batch` 2 it is the original; larger ones show what batches cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, everywhere, undeclared
from roundwise.policies.racing import check_racing, leading, ranking
from roundwise.rules import Declared, StoppingRule

PROVED = Declared(proof="Kalyanakrishnan et al. 2012, ICML; also docs/baselines.md, lucb")


@dataclass(frozen=True)
class LUCB(Policy):
    """Best arm (also within a tolerance) or top-k; after every arm was pulled once, two arms at a time.

    Args:
        batch: Pulls of a batch, half for each of the two arms; 2 is the original.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> round(float(LUCB().radius(Problem(BestArm(), arms=10), np.array([50.0]), np.array(100.0))[0]), 4)
    0.9786
    """

    batch: float = 2.0
    stopping: StoppingRule = PROVED
    name = "lucb"

    def __post_init__(self) -> None:
        checked(2 <= self.batch <= 2**53, f"`batch` is {self.batch:g}, but must be at least 2.")

    def check(self, problem: Problem) -> None:
        """For best arm and top-k."""
        check_racing(self.name, problem, tolerant=True)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """Every arm, as often as a batch has room for, but once at least."""
        each = max(1.0, math.floor(self.batch / problem.arms))
        always = np.ones(runs, dtype=np.bool_)
        return BatchPlan(everywhere(runs, problem.arms, each), always, declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """The weakest of the top and the strongest of the others; done when their intervals are apart."""
        means, counts = trial.record.means, trial.record.counts
        radius = self.radius(problem, counts, trial.record.samples)
        top = leading(means, np.array(ranking(problem).number_sought))
        lower = np.where(top, means - radius, np.inf)
        upper = np.where(top, -np.inf, means + radius)
        weakest, strongest = lower.argmin(axis=-1), upper.argmax(axis=-1)
        done = upper.max(axis=-1) - lower.min(axis=-1) < problem.question.tolerance
        arms = np.arange(problem.arms)
        pair = (arms == weakest[..., None]) | (arms == strongest[..., None])
        pulls = np.where(pair, math.floor(self.batch / 2), 0.0)
        return BatchPlan(
            pulls, trial.plan.may_stop, declared=Declaration(np.asarray(done), ranking(problem).answer_from_set(top))
        )

    def radius(self, problem: Problem, counts: Floats, samples: Floats) -> Floats:
        """2 sigma sqrt(ln(5 K t^4 / (4 delta)) / (2 u)) after u pulls of an arm, and t of all. (K),()->(K)"""
        level = np.log(1.25 * problem.arms / problem.delta) + 4 * np.log(np.maximum(samples, 1.0))
        return np.asarray(2 * problem.sigma * np.sqrt(level[..., None] / (2 * np.maximum(counts, 0.5))))
