"""Jin, Shi, Xiao and Chen 2019, "Efficient pure exploration in adaptive round model": an arm within eps of the best.

Read in other authors' code, whose constants are tuned (a factor of 65 less than what is here); the original's exact
version for top-k was not at hand. Rewards are scaled to sigma = 1/2 (those in [0, 1]).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, everywhere
from roundwise.policies.racing import check_racing
from roundwise.rules import Declared, StoppingRule

ROUNDS = 60  # the pulls of an arm grow with every round: nobody gets that far

PROVED = Declared(
    proof="Jin, Shi, Xiao and Chen 2019, NeurIPS",
    condition="the constants of jin-2019 are those of its proof (they are read in other authors' code)",
)


class Sieve(NamedTuple):
    """Where the algorithm stands."""

    round: Floats  # r, from 1
    again: Bools  # whether the plan pulls the chosen arm again
    inside: Bools  # (K), S_r
    means: Floats  # (K), of the first batch of the round
    size: Floats  # beta_r
    chosen: Floats  # the arm chosen in this round
    best: Floats  # the best of the arms chosen so far, -1 before the first
    value: Floats  # and its mean, when it was pulled again


@dataclass(frozen=True)
class Jin2019(Policy):
    """Best arm within a tolerance eps, in two batches a round: all arms left, then one of the best of them again.

    The others must beat the arm that was pulled again to stay.

    Args:
        c: The constant of Q = c / eps^2.
        seed: Draws which of the best arms is pulled again; choose it without looking at the data.
        stopping: The stopping rule, by default that of its proof.
    """

    c: float = 8.0
    seed: int = 1
    stopping: StoppingRule = PROVED
    name = "jin-2019"

    def __post_init__(self) -> None:
        checked(0 < self.c < math.inf, f"`c` is {self.c:g}, but must be a positive number.")

    def check(self, problem: Problem) -> None:
        """For best arm with a tolerance."""
        check_racing(self.name, problem, sets=False, tolerant=True)
        checked(
            problem.question.tolerance > 0,
            f"The policy '{self.name}' needs a tolerance: ask for best-arm with one.",
        )

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        """The first batch of the first round."""
        none, nobody = np.zeros((*runs, problem.arms)), np.full(runs, -1.0)
        everyone, never = np.ones(none.shape, dtype=np.bool_), np.zeros(runs, dtype=np.bool_)
        memory = Sieve(np.ones(runs), never, everyone, none, np.ones(runs), nobody, nobody, np.full(runs, -np.inf))
        pulls = everywhere(runs, problem.arms, float(self.pulls(problem, np.array(1.0), np.array(1.0))))
        return BatchPlan(pulls, ~never, memory, declared=Declaration(never, np.zeros(runs, dtype=np.intp)))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """The second batch of the round, or the first of the next one."""
        now: Sieve = trial.plan.memory
        means = trial.batch.totals / np.maximum(trial.batch.counts, 1.0)
        arms = np.arange(problem.arms)
        # after the first batch: choose
        arm = self._choice(problem, now, np.where(now.inside, means, -np.inf))
        first = now._replace(again=np.ones_like(now.again), means=means, chosen=arm)
        # after the second: who beats the chosen arm stays
        mine = arms == now.chosen[..., None]
        value = np.where(mine, means, 0.0).sum(axis=-1)
        inside = now.inside & (now.means >= (value + 0.75 * problem.question.tolerance)[..., None])
        left = inside.sum(axis=-1)
        better = value > now.value
        second = now._replace(
            round=now.round + 1,
            again=np.zeros_like(now.again),
            inside=inside,
            size=now.size * now.inside.sum(axis=-1) / np.maximum(left, 1),
            best=np.where(better, now.chosen, now.best),
            value=np.where(better, value, now.value),
        )
        again = now.again
        memory = Sieve(
            *(np.where(again.reshape(again.shape + (1,) * (b.ndim - again.ndim)), b, a)
              for a, b in zip(first, second, strict=True))
        )  # fmt: skip
        each = self.pulls(problem, memory.round, memory.size)[..., None]
        done = np.asarray(~memory.inside.any(axis=-1))
        who = np.where(memory.again[..., None], arms == memory.chosen[..., None], memory.inside)
        pulls = np.where(done[..., None], 0.0, who * each)
        declared = Declaration(done, np.maximum(memory.best, 0.0).astype(np.intp))
        return BatchPlan(pulls, trial.plan.may_stop, memory, declared=declared)

    def pulls(self, problem: Problem, r: Floats, size: Floats) -> Floats:
        """Q_r = beta_r Q ln(1/delta_r), delta_r = delta / 2^(r+1)."""
        scale = self.c * (2 * problem.sigma / problem.question.tolerance) ** 2
        return np.ceil(size * scale * (math.log(1 / problem.delta) + (r + 1) * math.log(2)))

    def _choice(self, problem: Problem, now: Sieve, means: Floats) -> Floats:
        """One of the top delta_r^beta_r |S_r| / 2 (rounded up), as the seed says."""
        level = math.log(problem.delta) - (now.round + 1) * math.log(2)
        number = np.maximum(np.ceil(np.exp(now.size * level) * now.inside.sum(axis=-1) / 2), 1.0)
        draws = np.random.default_rng(self.seed).random(ROUNDS)
        rank = np.floor(number * draws[np.minimum(now.round, ROUNDS).astype(np.intp) - 1]).astype(np.intp)
        order = np.argsort(-means, axis=-1, kind="stable")
        return np.asarray(np.take_along_axis(order, rank[..., None], axis=-1)[..., 0], dtype=np.float64)
