"""Opt-BBAI (Jin et al. 2023, arXiv 2310.14129): Tri-BBAI whose last stage eliminates arms in rounds.

The constant c = 32 and the test of the check step are recalled and taken from the authors' code, not read in print, so
c is a field, results are shown with a sweep over it, and the guarantee is conditional at best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Array, Floats, zeros
from roundwise.model.batch import BatchPlan, Declaration, Trial
from roundwise.model.problem import Problem
from roundwise.policies.base import Policy, checked, whole
from roundwise.policies.racing import check_racing
from roundwise.policies.tri_bbai import first_stage, passes, second_stage
from roundwise.rules import Declared, StoppingRule

RECALLED = 32.0  # the constant c, from memory
PROVED = Declared(
    proof="Jin et al. 2023, arXiv 2310.14129",
    condition="the constants and the check step of opt-bbai are those of its proof (they are recalled, not read in "
    "print)",
)
ROUNDS = 30  # a round takes 4 times the pulls of the one before: nobody gets past 30


class OptBBAIState(NamedTuple):
    """Where the algorithm stands; axis -1 of the last three is the round, from 1."""

    stage: Floats  # 1, 2, 4 (a round of elimination) or 5 (a check)
    round: Floats  # r
    left: Floats  # (K): the round in which the arm was eliminated, 0 if it is still in
    spent: Floats  # (ROUNDS): B_r, pulls of all rounds up to r
    doubted: Floats  # (ROUNDS): l_r, how often round r was checked; ln gamma_r = 2^l_r ln delta_r
    checking: Floats  # (ROUNDS): 1 if the plan checks round r


@dataclass(frozen=True)
class OptBBAI(Policy):
    """Stages I to III as Tri-BBAI; then rounds r = 1, 2, ... that halve the accuracy eps_r = 2^-r / 4.

    Args:
        alpha: The constant of stages II and III, above 1.
        c: The constant of the rounds. 32 is recalled from the paper; with less there is no guarantee.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> float(OptBBAI().round_pulls(Problem(BestArm(), arms=10, delta=0.05), np.array(1.0), np.array(0.0)))
    24515.0
    """

    alpha: float = 1.05
    c: float = RECALLED
    stopping: StoppingRule = PROVED
    name = "opt-bbai"

    def __post_init__(self) -> None:
        checked(self.alpha > 1, f"`alpha` is {self.alpha:g}, but must be above 1.")
        checked(0 < self.c < math.inf, f"`c` is {self.c:g}, but must be a positive number.")
        if self.c < RECALLED and self.stopping == PROVED:
            caveat = f"no proof is known of opt-bbai with a constant tuned to c = {self.c:g}"
            object.__setattr__(self, "stopping", Declared(caveat))

    def check(self, problem: Problem) -> None:
        """For best arm only."""
        check_racing(self.name, problem, sets=False)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[OptBBAIState]:
        """Stage I: L_1 pulls of each arm."""
        none = zeros((*runs, ROUNDS))
        memory = OptBBAIState(np.ones(runs), np.zeros(runs), zeros((*runs, problem.arms)), none, none, none)
        return first_stage(problem, runs, memory)

    def next(self, problem: Problem, trial: Trial[OptBBAIState]) -> BatchPlan[OptBBAIState]:
        """Stage II, the test of stage III, then rounds of elimination and their checks."""
        memory = trial.plan.memory
        stage = memory.stage
        means = trial.batch.totals / np.maximum(trial.batch.counts, 1.0)  # of this batch alone: fresh samples
        memory = self._eliminated(problem, memory, means)
        memory, found = self._checked(memory, means)
        passed = (stage == 2) & passes(problem, trial.record, self.alpha)
        alone = (stage >= 4) & ((memory.left == 0).sum(axis=-1) == 1)
        declared = np.where(passed, trial.record.means.argmax(axis=-1), found)
        declared = np.where(alone & (declared < 0), (memory.left == 0).argmax(axis=-1), declared)

        checks = (stage == 4) & memory.checking.any(axis=-1)
        starts = (stage >= 2) & ~checks
        r = memory.round + starts
        memory = memory._replace(stage=np.where(stage == 1, 2.0, np.where(checks, 5.0, 4.0)), round=r)
        pulls = np.where(
            (stage == 1)[..., None],
            second_stage(problem, trial.record, self.alpha),
            np.where(
                checks[..., None],
                self._check_pulls(problem, memory),
                np.where(memory.left == 0, self.round_pulls(problem, r, np.zeros(r.shape))[..., None], 0.0),
            ),
        )
        return BatchPlan(
            pulls,
            trial.plan.may_stop,
            memory,
            declared=Declaration(np.asarray(declared >= 0), declared.astype(np.intp)),
        )

    def round_pulls(self, problem: Problem, r: Floats, doubted: Floats) -> Floats:
        """d_r = c/eps_r^2 ln(2/gamma_r), gamma_r = delta_r squared l_r times, delta_r = delta/(40 pi^2 K r^2)."""
        r = np.maximum(r, 1.0)
        accuracy = 2.0**-r / 4  # eps_r
        scale = self.c * problem.sigma**2 / accuracy**2
        return whole(scale * (math.log(2) - 2.0**doubted * self._log_delta(problem, r)))

    def _log_delta(self, problem: Problem, r: Array) -> Floats:
        """ln delta_r."""
        return np.asarray(np.log(problem.delta / (40 * math.pi**2 * problem.arms * r**2)))

    def _eliminated(self, problem: Problem, memory: OptBBAIState, means: Floats) -> OptBBAIState:
        """Step 2: drop who is eps_r behind; then note which earlier rounds are due for a check (step 3)."""
        now = memory.stage == 4
        r = memory.round
        inside = memory.left == 0
        best = np.where(inside, means, -np.inf).max(axis=-1)
        behind = inside & (means < (best - 2.0**-r / 4)[..., None])
        rounds = np.arange(1, ROUNDS + 1)
        this = now[..., None] & (rounds == r[..., None])
        pulls = self.round_pulls(problem, r, np.zeros(r.shape)) * inside.sum(axis=-1)
        before = np.where(rounds == r[..., None] - 1, memory.spent, 0.0).max(axis=-1)
        spent = np.where(this, (before + pulls)[..., None], memory.spent)
        log_gamma = 2.0**memory.doubted * self._log_delta(problem, rounds)
        so_far = np.where(this, spent, 0.0).max(axis=-1)[..., None]
        earlier = now[..., None] & (rounds < r[..., None])
        due = earlier & (
            np.log(np.maximum(so_far, 1.0)) + log_gamma + memory.doubted * math.log(2) > np.log(np.maximum(spent, 1.0))
        )
        return memory._replace(
            left=np.where(now[..., None] & behind, r[..., None], memory.left),
            spent=spent,
            doubted=memory.doubted + due,
            checking=np.where(now[..., None], due, memory.checking),
        )

    def _check_pulls(self, problem: Problem, memory: OptBBAIState) -> Floats:
        """Step 3: fresh pulls of everyone who was in an earlier round, to the accuracy of the squared gamma."""
        pulls = np.zeros(memory.left.shape)
        for r in range(1, ROUNDS + 1):
            if not memory.checking[..., r - 1].any():
                continue
            need = self.round_pulls(problem, np.full(memory.round.shape, float(r)), memory.doubted[..., r - 1])
            was_in = (memory.left == 0) | (memory.left >= r)
            pulls = np.maximum(pulls, np.where(was_in, (need * memory.checking[..., r - 1])[..., None], 0.0))
        return pulls

    def _checked(self, memory: OptBBAIState, means: Floats) -> tuple[OptBBAIState, Floats]:
        """What to declare, or -1: the best of a checked round if one it eliminated is within eps_r/2 of the best."""
        now = memory.stage == 5
        declared = np.full(memory.stage.shape, -1.0)
        for r in range(1, ROUNDS + 1):
            asked = now & (memory.checking[..., r - 1] > 0)
            if not asked.any():
                continue
            was_in = (memory.left == 0) | (memory.left >= r)
            best = np.where(was_in, means, -np.inf).max(axis=-1, keepdims=True)
            wrong = ((memory.left == r) & (means > best - 2.0**-r / 8)).any(axis=-1)
            found = np.where(was_in, means, -np.inf).argmax(axis=-1)
            declared = np.where(asked & wrong & (declared < 0), found, declared)
        return memory._replace(checking=np.where(now[..., None], 0.0, memory.checking)), declared
