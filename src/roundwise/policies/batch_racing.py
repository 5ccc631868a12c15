"""BatchRacing: Jun, Jamieson, Nowak and Zhu 2016, "Top arm identification in multi-armed bandits with batch arm pulls".

Batches of a given size b, with at most so many pulls of an arm in each; intervals that hold at all times. Numbers read
in two programs; general sigma by scaling to rewards in [0, 1]. The proof for sub-Gaussian ones is in docs/baselines.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.model.batch import BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, apportion_pulls, checked, filled, undeclared
from roundwise.policies.racing import Race, check_racing, outcome, placed, started
from roundwise.rules import Declared, StoppingRule

PROVED = Declared(proof="Jun et al. 2016, AISTATS; for sub-Gaussian rewards docs/baselines.md")


@dataclass(frozen=True)
class BatchRacing(Policy):
    """Top-k or best arm in batches of equal size, which go to the arms left that have fewest pulls.

    A batch may lack a few pulls where arms are alike and their number does not divide it.

    Args:
        batch: b, the pulls of a batch.
        most: The most pulls of one arm in a batch.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import TopK
    >>> BatchRacing(batch=100).first(Problem(TopK(2), arms=10), runs=()).pulls.tolist()[:2]
    [10.0, 10.0]
    """

    batch: float = 1000.0
    most: float | None = None
    stopping: StoppingRule = PROVED
    name = "batch-racing"

    def __post_init__(self) -> None:
        checked(1 <= self.batch <= 2**53, f"`batch` is {self.batch:g}, but must be at least 1.")
        checked(self.most is None or self.most >= 1, f"`most` is {self.most}, but must be at least 1.")

    def check(self, problem: Problem) -> None:
        """For top-k and best arm; a batch has room for every arm."""
        check_racing(self.name, problem)
        checked(
            self.batch >= problem.arms,
            f"`batch` is {self.batch:g}, but {problem.arms} arms need at least {problem.arms} pulls a batch.",
        )

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The same for every arm."""
        race = started(problem, runs)
        pulls = self._shared(race, np.zeros_like(race.place), None)
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), race, declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Accept and reject; the next batch goes to the others."""
        race: Race = trial.plan.memory
        means, radius = trial.record.means, self.radius(problem, trial.record.counts)
        after = placed(problem, race, means - radius, means + radius)._replace(round=race.round + 1)
        pulls = self._shared(after, trial.record.counts, trial)
        return BatchPlan(pulls, trial.plan.may_stop, after, declared=outcome(problem, after))

    def radius(self, problem: Problem, counts: Floats) -> Floats:
        """D(t, w) = 4 sigma sqrt(ln(log2(2t) / w) / t), w = sqrt(delta / (6 K))."""
        share = math.sqrt(problem.delta / (6 * problem.arms))
        pulls = np.maximum(counts, 1.0)
        return np.asarray(4 * problem.sigma * np.sqrt(np.log(np.log2(2 * pulls) / share) / pulls))

    def _shared(self, race: Race, counts: Floats, trial: Trial | None) -> Floats:
        """So many pulls that those left become as equal as they can, within the limits."""
        have = np.where(race.racing, counts, 0.0)
        equal = np.where(race.racing, have.max(axis=-1, keepdims=True) + self.batch, -(2.0**60))  # nobody else gets any
        goal = filled(have, equal, have.sum(axis=-1) + math.floor(self.batch))
        more = np.where(race.racing, np.ceil(goal - have - 1e-9), 0.0)
        pulls = apportion_pulls(more, math.floor(self.batch), 0.0, so_far=None if trial is None else trial.record)
        return pulls if self.most is None else np.minimum(pulls, math.floor(self.most))
