"""Phased Explore then Track: Algorithm 1 of "The Batch Complexity of Bandit Pure Exploration"."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.model.batch import BatchPlan, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, check_sigma, checked, complexity_within, everywhere, whole, within_by_own
from roundwise.rules import GLR, StoppingRule, Threshold


class Phase(NamedTuple):
    """Where PET stands."""

    phase: Floats  # r, from 0
    second: Bools  # whether the plan is the second batch of its phase
    tracked: Bools  # whether a second batch was ever entered


@dataclass(frozen=True)
class PET(Policy):
    """Phased Explore then Track: sample uniformly until the complexity is known, then in its proportions.

    Phase r guesses the complexity T_r = T_0 2^r. Its first batch brings every arm to T_r 32 ln(2 sqrt(2K) T_r)
    pulls; if the worst case over the ball around the means is at most T_r, the second batch settles it.

    Args:
        stopping: The stopping rule; second batches are sized for its threshold (for that of Lemma 3.2 if it has none).
        guess: T_0, the complexity that phase 0 guesses.
        exploration: The constant 32 of the uniform batches.
        growth: By how much the guess grows from phase to phase, 2 in the paper.
        test_every_batch: Whether to test after first batches, too; the paper tests at the end of a phase only.
        own: Whether weights use the divergences of the noise model's own family, where it has one (0/1, counts).

    >>> from roundwise.questions import BestArm
    >>> PET().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(710.0)
    """

    stopping: StoppingRule = field(default_factory=GLR)
    guess: float = 1.0
    exploration: float = 32.0
    growth: float = 2.0
    test_every_batch: bool = False
    own: bool = False
    name = "pet"

    def __post_init__(self) -> None:
        checked(1 <= self.guess < 1e100, f"PET's guess T_0 is {self.guess:g}, but must be at least 1 (below 1e100).")
        checked(0 < self.exploration < 1e100, f"PET's exploration is {self.exploration:g}, but must be positive.")
        checked(1 < self.growth < 1e6, f"PET's growth is {self.growth:g}, but must be above 1 (below 1e6).")

    def check(self, problem: Problem) -> None:
        """PET fits every question; it needs a sigma."""
        check_sigma(problem)
        self.stopping.check(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Phase]:
        """The uniform batch of phase 0."""
        never = np.zeros(runs, dtype=np.bool_)
        return BatchPlan(
            everywhere(runs, problem.arms, math.ceil(self.explored(problem, 0.0))),
            never,
            Phase(np.zeros(runs), never, never),
        )

    def next(self, problem: Problem, trial: Trial[Phase]) -> BatchPlan[Phase]:
        """Line 4 of the next phase, or line 7 of this one."""
        r, second, tracked = trial.plan.memory
        guess = self.guess * self.growth**r  # T_r
        within = within_by_own if self.own else complexity_within
        means = problem.fitted(trial.record.counts, trial.record.means)
        worst = within(problem, means, self.radius(problem, r), guess)  # lines 5 and 6
        enter = ~second & (worst.value <= guess)
        pulls = np.maximum(np.ceil(self.explored(problem, r + 1))[..., None] - trial.record.counts, 0.0)
        if enter.any():
            amount = self._evidence(problem, r) * np.where(enter, worst.value, 0.0)
            pulls = np.where(enter[..., None], whole(amount[..., None] * worst.weights), pulls)
        return BatchPlan(
            pulls,
            ~enter | self.test_every_batch,
            Phase(np.where(enter, r, r + 1), enter, tracked | enter),
        )

    def explored(self, problem: Problem, r: Floats | float) -> Floats:
        """2^r l_{1,r}: pulls of each arm after the uniform batch of phase r.

        The 2 inside the logarithm is the growth: then radius(r)^2 = sigma^2 / (8 T_r) for every growth.
        """
        guess = self.guess * self.growth ** np.asarray(r)
        return np.asarray(self.exploration * guess * np.log(self.growth * math.sqrt(2 * problem.arms) * guess))

    def radius(self, problem: Problem, r: Floats | float) -> Floats:
        """eps_r = sqrt(2 sigma^2 / (2^r l_{1,r}) ln(2K/p_r)) with p_r = T_{r+1}^-2 (docs/paper.md, deviation 3)."""
        following = self.guess * self.growth ** (np.asarray(r) + 1)
        return np.asarray(
            problem.sigma * np.sqrt(2 * np.log(2 * problem.arms * following**2) / self.explored(problem, r))
        )

    def sufficient(self, problem: Problem, r: int) -> float:
        """gamma_r: evidence that exceeds the threshold at the end of phase r, however the pulls were spread.

        gamma = beta(tbar_r), tbar_r = K ceil(2^r l) + 2 gamma T_r + K (r+1), which bounds all pulls up to the end
        of phase r (docs/paper.md, deviation 1): second batches add up to at most growth/(growth-1) gamma T_r.
        """
        guess = self.guess * self.growth**r
        uniform = problem.arms * (math.ceil(self.explored(problem, float(r))) + r + 1)
        rate = self.growth / (self.growth - 1) * guess
        return _sufficient(self.stopping.sizing_threshold(), problem, uniform, rate)

    def _evidence(self, problem: Problem, r: Floats) -> Floats:
        values = np.empty(np.shape(r))
        for each in np.unique(r):
            values[np.asarray(r == each)] = self.sufficient(problem, int(each))
        return values


@functools.lru_cache(maxsize=4096)
def _sufficient(threshold: Threshold, problem: Problem, uniform: float, rate: float) -> float:
    """The solution of gamma = beta(uniform + rate gamma), by iteration from below."""
    gamma = 0.0
    while (following := threshold.at(problem, uniform + rate * gamma)) > gamma * (1 + 1e-13):
        gamma = following
    return gamma * (1 + 1e-12)
