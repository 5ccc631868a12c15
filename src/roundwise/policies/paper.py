"""PET, and the algorithms that "The Batch Complexity of Bandit Pure Exploration" compares it with.

Round Robin and Track-and-Stop are tested at 900 2^r samples (Section 3.6). Of Tri-BBAI and Opt-BBAI (Jin et al. 2023,
arXiv 2310.14129) the quantities of Theorem 4.2, the constant c = 32 and the test of the check step are recalled and
taken from the authors' code, not read in print: c is a field, results are shown with a sweep over it, and the guarantee
is conditional at best.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from roundwise.arrays import Array, Bools, Floats, zeros
from roundwise.model.problem import BatchPlan, Declaration, Memory, Problem, Record, Trial
from roundwise.policies.base import (
    Policy,
    RankingPolicy,
    batch_merits,
    best_weights,
    checked,
    complexity_within,
    everywhere,
    filled,
    oriented,
    undeclared,
    whole,
)
from roundwise.rules import GLR, Declared, StoppingRule, Threshold


class Phase(NamedTuple):
    """Where PET stands."""

    phase: Floats  # r, from 0
    second: Bools  # whether the plan is the second batch of its phase
    tracked: Bools  # whether a second batch was ever entered


@dataclass(frozen=True)
class PET(Policy[Phase]):
    """Phased Explore then Track: sample uniformly until the complexity is known, then in its proportions.

    Phase r guesses the complexity T_r = T_0 2^r. Its first batch brings every arm to T_r 32 ln(2 sqrt(2K) T_r)
    pulls; if the worst case over the ball around the means is at most T_r, the second batch settles it (Algorithm 1).

    Args:
        stopping: The stopping rule; second batches are sized for its threshold (for that of Lemma 3.2 if it has none).
        guess: T_0, the complexity that phase 0 guesses.
        exploration: The constant 32 of the uniform batches.
        growth: By how much the guess grows from phase to phase, 2 in the paper.
        test_every_batch: Whether to test after first batches, too; the paper tests at the end of a phase only.
        kl_weights: Whether weights use the divergences of the noise model's own family, where it has one (0/1, counts).

    >>> from roundwise.questions import BestArm
    >>> PET().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(710.0)
    """

    stopping: StoppingRule = field(default_factory=GLR)
    guess: float = 1.0
    exploration: float = 32.0
    growth: float = 2.0
    test_every_batch: bool = False
    kl_weights: bool = False
    name = "pet"
    needs_sigma = True

    def __post_init__(self) -> None:
        checked(1 <= self.guess < 1e100, f"PET's guess T_0 is {self.guess:g}, but must be at least 1 (below 1e100).")
        checked(0 < self.exploration < 1e100, f"PET's exploration is {self.exploration:g}, but must be positive.")
        checked(1 < self.growth < 1e6, f"PET's growth is {self.growth:g}, but must be above 1 (below 1e6).")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Phase]:
        never = np.zeros(runs, dtype=np.bool_)
        pulls = everywhere(runs, problem.arms, math.ceil(self.explored(problem, 0.0)))
        return BatchPlan(pulls, never, Phase(np.zeros(runs), never, never))

    def next(self, problem: Problem, trial: Trial[Phase]) -> BatchPlan[Phase]:
        """Line 4 of the next phase, or line 7 of this one."""
        r, second, tracked = trial.plan.memory
        guess = self.guess * self.growth**r  # T_r
        means = problem.fitted(trial.record.counts, trial.record.means)
        worst = complexity_within(problem, means, self.radius(problem, r), guess, self.kl_weights)  # lines 5 and 6
        enter = ~second & (worst.value <= guess)
        pulls = np.maximum(np.ceil(self.explored(problem, r + 1))[..., None] - trial.record.counts, 0.0)
        if enter.any():
            evidence = np.empty(np.shape(r))  # gamma_r
            for each in np.unique(r):
                evidence[np.asarray(r == each)] = self.sufficient(problem, int(each))
            amount = evidence * np.where(enter, worst.value, 0.0)
            pulls = np.where(enter[..., None], whole(amount[..., None] * worst.weights), pulls)
        memory = Phase(np.where(enter, r, r + 1), enter, tracked | enter)
        return BatchPlan(pulls, ~enter | self.test_every_batch, memory)

    def explored(self, problem: Problem, r: Floats | float) -> Floats:
        """2^r l_{1,r}: pulls of each arm after the uniform batch of phase r.

        The 2 inside the logarithm is the growth: then radius(r)^2 = sigma^2 / (8 T_r) for every growth.
        """
        guess = self.guess * self.growth ** np.asarray(r)
        return np.asarray(self.exploration * guess * np.log(self.growth * math.sqrt(2 * problem.arms) * guess))

    def radius(self, problem: Problem, r: Floats | float) -> Floats:
        """eps_r = sqrt(2 sigma^2 / (2^r l_{1,r}) ln(2K/p_r)) with p_r = T_{r+1}^-2 (docs/paper.md, deviation 3)."""
        following = self.guess * self.growth ** (np.asarray(r) + 1)
        ratio = 2 * np.log(2 * problem.arms * following**2) / self.explored(problem, r)
        return np.asarray(problem.sigma * np.sqrt(ratio))

    def sufficient(self, problem: Problem, r: int) -> float:
        """gamma_r: evidence that exceeds the threshold at the end of phase r, however the pulls were spread.

        gamma = beta(tbar_r), tbar_r = K ceil(2^r l) + 2 gamma T_r + K (r+1), which bounds all pulls up to the end
        of phase r (docs/paper.md, deviation 1): second batches add up to at most growth/(growth-1) gamma T_r.
        """
        guess = self.guess * self.growth**r
        uniform = problem.arms * (math.ceil(self.explored(problem, float(r))) + r + 1)
        rate = self.growth / (self.growth - 1) * guess
        return _sufficient(self.stopping.sizing_threshold(), problem, uniform, rate)


@functools.lru_cache(maxsize=4096)
def _sufficient(threshold: Threshold, problem: Problem, uniform: float, rate: float) -> float:
    """The solution of gamma = beta(uniform + rate gamma), by iteration from below."""
    gamma = 0.0
    while (following := threshold.at(problem, uniform + rate * gamma)) > gamma * (1 + 1e-13):
        gamma = following
    return gamma * (1 + 1e-12)


# --- batches that end on a grid of times


class GridStep(NamedTuple):
    """Where on the grid of times the plan ends."""

    step: Floats  # r


class GridPolicy(Policy[GridStep]):
    """Batches that end at `first_time` samples, times `growth`, and so on; the first has every arm equally often."""

    first_time: float
    growth: float

    def __post_init__(self) -> None:
        checked(1 <= self.first_time < 1e100, f"The first time is {self.first_time:g}, but must be at least 1 sample.")
        checked(1 < self.growth < 1e6, f"The growth is {self.growth:g}, but must be above 1 (and below 1e6).")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[GridStep]:
        each = float(whole(np.asarray(self.first_time / problem.arms)))
        return BatchPlan(everywhere(runs, problem.arms, each), np.ones(runs, dtype=np.bool_), GridStep(np.zeros(runs)))

    def next(self, problem: Problem, trial: Trial[GridStep]) -> BatchPlan[GridStep]:
        """Up to the next time of the grid that lies beyond the samples so far."""
        passed = np.log(np.maximum(trial.record.samples / self.first_time, 1.0)) / np.log(self.growth)
        step = np.maximum(trial.plan.memory.step, np.floor(passed + 1e-9)) + 1
        goal = self._goal(problem, trial.record, self.first_time * self.growth**step)
        return BatchPlan(whole(goal - trial.record.counts), trial.plan.may_stop, GridStep(step))

    @abstractmethod
    def _goal(self, problem: Problem, record: Record, time: Floats) -> Floats:
        """Counts at the end of the batch. (K)"""


@dataclass(frozen=True)
class RoundRobin(GridPolicy):
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

    def _goal(self, problem: Problem, record: Record, time: Floats) -> Floats:
        return np.asarray((time / problem.arms)[..., None])


@dataclass(frozen=True)
class TrackAndStop(GridPolicy):
    """Sample in the proportions w* at the empirical means, updated between batches only (Garivier and Kaufmann 2016).

    The paper does not say which variant it ran; the heavy tail of its third figure is there in all of them
    (docs/reproducing.md).

    Args:
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.
        tracking: "D" steers all pulls so far towards w*, "C" only those of the batch.
        forced: Whether every arm is kept at sqrt(t) - K/2 pulls at least (forced exploration).
        first_time: Samples at the end of the first batch.
        growth: By how much the samples grow from batch to batch.
        kl_weights: Whether weights use the divergences of the noise model's own family, where it has one (0/1, counts).

    >>> from roundwise.questions import BestArm
    >>> TrackAndStop().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(900.0)
    """

    stopping: StoppingRule = field(default_factory=GLR)
    tracking: Literal["D", "C"] = "D"
    forced: bool = True
    first_time: float = 900.0
    growth: float = 2.0
    kl_weights: bool = False
    name = "track-and-stop"
    needs_sigma = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self.tracking in ("D", "C"), f"The tracking is '{self.tracking}', but must be 'D' or 'C'.")

    def _goal(self, problem: Problem, record: Record, time: Floats) -> Floats:
        """Without a loop over single pulls (docs/baselines.md)."""
        weights = best_weights(problem, problem.fitted(record.counts, record.means), self.kl_weights)
        floor = (np.sqrt(time) - problem.arms / 2)[..., None] if self.forced else 0.0
        least = np.maximum(record.counts, floor)
        if self.tracking == "D":
            return filled(least, time[..., None] * weights, time)
        return np.maximum(least, record.counts + (time - record.samples)[..., None] * weights)


# --- Tri-BBAI and Opt-BBAI


class BBAI(RankingPolicy[Memory]):
    """Stages I to III: a few pulls of each arm, then their proportions, then a test."""

    alpha: float
    sets = False

    def __post_init__(self) -> None:
        checked(self.alpha > 1, f"`alpha` is {self.alpha:g}, but must be above 1.")

    def _first_stage(self, problem: Problem, runs: tuple[int, ...], memory: Memory) -> BatchPlan[Memory]:
        """Stage I: L_1 = sqrt(L) pulls of each arm."""
        pulls = everywhere(runs, problem.arms, math.ceil(math.sqrt(problem.goal)))
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), memory, declared=undeclared(problem, runs))

    def _second_stage(self, problem: Problem, record: Record) -> tuple[Floats, Floats]:
        """Stage II: min(alpha w*(b) T*(b) L, L_2) pulls, b the means moved together by 1/ln L; L_2 = L ln(L)/K.

        Also w*(b).
        """
        goal = problem.goal  # L
        if goal <= 1:
            return np.ones(record.counts.shape), np.full(record.counts.shape, 1 / problem.arms)
        few = max(1.0, math.ceil(goal * math.log(goal) / problem.arms))
        eps = 1 / math.log(goal)
        leads = np.arange(problem.arms) == oriented(problem, record).means.argmax(axis=-1)[..., None]
        eps *= problem.question.sign
        found = problem.complexity(np.where(leads, record.means - eps, record.means + eps))
        pulls = whole(self.alpha * goal * np.minimum(found.value, 1e300)[..., None] * found.weights)
        return np.minimum(pulls, few), found.weights

    def _passes(self, problem: Problem, record: Record) -> Bools:
        """Stage III: whether the evidence is at least beta(t) = ln(L t^alpha / delta)."""
        bar = math.log(problem.goal / problem.delta) + self.alpha * np.log(np.maximum(record.samples, 1.0))
        return np.asarray(problem.evidence(record.counts, record.means) >= bar)


class Stage(NamedTuple):
    """Where the algorithm stands."""

    stage: Floats  # the stage whose pulls are planned: 1, 2 or 4


@dataclass(frozen=True)
class TriBBAI(BBAI[Stage]):
    """Stages I to III; if the test fails, L^2 pulls of each arm: best arm in at most three batches, as delta -> 0.

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

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Stage]:
        return self._first_stage(problem, runs, Stage(np.ones(runs)))

    def next(self, problem: Problem, trial: Trial[Stage]) -> BatchPlan[Stage]:
        """Stage II after stage I; the test of stage III; then stage IV or the answer."""
        stage = trial.plan.memory.stage
        passed = (stage == 2) & self._passes(problem, trial.record)
        declared = Declaration(np.asarray(passed | (stage == 4)), oriented(problem, trial.record).means.argmax(axis=-1))
        last = np.maximum(whole(np.asarray(problem.goal**2)) - trial.record.counts, 0.0)  # L_3
        pulls = np.where((stage == 1)[..., None], self._second_stage(problem, trial.record)[0], last)
        return BatchPlan(pulls, trial.plan.may_stop, Stage(np.where(stage == 1, 2.0, 4.0)), declared=declared)


RECALLED = 32.0  # the constant c of Opt-BBAI, from memory
OPT_BBAI = Declared(
    proof="Jin et al. 2023, arXiv 2310.14129",
    condition="the constants and the check step of opt-bbai are those of its proof (they are recalled, not read in "
    "print)",
)
ROUNDS = 30  # a round takes 4 times the pulls of the one before: no run gets past 30


class OptBBAIState(NamedTuple):
    """Where the algorithm stands; axis -1 of the last three is the round, from 1."""

    stage: Floats  # 1, 2, 3 (stage II, to be repeated), 4 (a round of elimination) or 5 (a check)
    round: Floats  # r
    left: Floats  # (K): the round in which the arm was eliminated, 0 if it is still in
    spent: Floats  # (ROUNDS): B_r, pulls of all rounds up to r
    doubted: Floats  # (ROUNDS): l_r, how often round r was checked; ln gamma_r = 2^l_r ln delta_r
    checking: Floats  # (ROUNDS): 1 if the plan checks round r
    weights: Floats = np.zeros(())  # (K): w*(b) of the last time in stage II, in the second version

    def was_in(self, r: int) -> Bools:
        """The arms that were in round r. (K)"""
        return np.asarray((self.left == 0) | (self.left >= r))


@dataclass(frozen=True)
class OptBBAI(BBAI[OptBBAIState]):
    """Stages I to III as Tri-BBAI; then rounds r = 1, 2, ... of elimination that halve the accuracy eps_r = 2^-r / 4.

    Args:
        alpha: The constant of stages II and III, above 1.
        c: The constant of the rounds. 32 is recalled from the paper; with less there is no guarantee.
        version: 2 repeats stage II until no weight w*(b) has changed by more than 1/sqrt(K), as the paper's second
            version does (recalled); 1 pulls once.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> float(OptBBAI().round_pulls(Problem(BestArm(), arms=10, delta=0.05), np.array(1.0), np.array(0.0)))
    24515.0
    """

    alpha: float = 1.05
    c: float = RECALLED
    version: int = 1
    stopping: StoppingRule = OPT_BBAI
    name = "opt-bbai"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(0 < self.c < math.inf, f"`c` is {self.c:g}, but must be a positive number.")
        checked(self.version in (1, 2), f"`version` is {self.version}, but must be 1 or 2.")
        if self.c < RECALLED and self.stopping == OPT_BBAI:
            caveat = f"no proof is known of opt-bbai with a constant tuned to c = {self.c:g}"
            object.__setattr__(self, "stopping", Declared(caveat))

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[OptBBAIState]:
        none = zeros((*runs, ROUNDS))
        nobody = zeros((*runs, problem.arms))
        weights = nobody if self.version == 2 else np.zeros(runs)
        memory = OptBBAIState(np.ones(runs), np.zeros(runs), nobody, none, none, none, weights)
        return self._first_stage(problem, runs, memory)

    def next(self, problem: Problem, trial: Trial[OptBBAIState]) -> BatchPlan[OptBBAIState]:
        """Stage II, the test of stage III, then rounds of elimination and their checks."""
        memory = trial.plan.memory
        stage = memory.stage
        means = batch_merits(problem, trial.batch)  # of this batch alone: fresh samples
        memory = self._eliminated(problem, memory, means)
        memory, found = self._checked(memory, means)
        second, weights = self._second_stage(problem, trial.record)
        again, settled = (stage == 1) | (stage == 3), np.ones(stage.shape, dtype=np.bool_)
        if self.version == 2:
            moved = (np.abs(weights - memory.weights) > 1 / math.sqrt(problem.arms)).any(axis=-1)
            settled = (stage == 3) & ~moved
            memory = memory._replace(weights=np.where(again[..., None], weights, memory.weights))
        passed = (stage == 2) & self._passes(problem, trial.record)
        alone = (stage >= 4) & ((memory.left == 0).sum(axis=-1) == 1)
        declared = np.where(passed, oriented(problem, trial.record).means.argmax(axis=-1), found)
        declared = np.where(alone & (declared < 0), (memory.left == 0).argmax(axis=-1), declared)

        checks = (stage == 4) & memory.checking.any(axis=-1)
        r = memory.round + (~again & ~checks)
        stages = np.where(again, np.where(settled, 2.0, 3.0), np.where(checks, 5.0, 4.0))
        memory = memory._replace(stage=stages, round=r)
        pulls = np.where(memory.left == 0, self.round_pulls(problem, r, np.zeros(r.shape))[..., None], 0.0)
        pulls = np.where(checks[..., None], self._check_pulls(problem, memory), pulls)
        pulls = np.where(again[..., None], second, pulls)
        answer = Declaration(np.asarray(declared >= 0), declared.astype(np.intp))
        return BatchPlan(pulls, trial.plan.may_stop, memory, declared=answer)

    def round_pulls(self, problem: Problem, r: Floats, doubted: Floats) -> Floats:
        """d_r = c/eps_r^2 ln(2/gamma_r), gamma_r = delta_r squared l_r times, delta_r = delta/(40 pi^2 K r^2)."""
        r = np.maximum(r, 1.0)
        scale = self.c * problem.sigma**2 / (2.0**-r / 4) ** 2
        return whole(scale * (math.log(2) - 2.0**doubted * self._log_delta(problem, r)))

    def _log_delta(self, problem: Problem, r: Array) -> Floats:
        """ln delta_r."""
        return np.asarray(np.log(problem.delta / (40 * math.pi**2 * problem.arms * r**2)))

    def _eliminated(self, problem: Problem, memory: OptBBAIState, means: Floats) -> OptBBAIState:
        """Step 2: drop arms that are eps_r behind; then note which earlier rounds are due for a check (step 3)."""
        now, r, inside = (memory.stage == 4)[..., None], memory.round[..., None], memory.left == 0
        best = np.where(inside, means, -np.inf).max(axis=-1, keepdims=True)
        behind = inside & (means < best - 2.0**-r / 4)
        rounds = np.arange(1, ROUNDS + 1)
        this = now & (rounds == r)
        pulls = self.round_pulls(problem, memory.round, np.zeros(memory.round.shape)) * inside.sum(axis=-1)
        before = np.where(rounds == r - 1, memory.spent, 0.0).max(axis=-1)
        spent = np.where(this, (before + pulls)[..., None], memory.spent)
        so_far = np.where(this, spent, 0.0).max(axis=-1, keepdims=True)
        log_gamma = 2.0**memory.doubted * self._log_delta(problem, rounds)
        log_ratio = np.log(np.maximum(so_far, 1.0)) + log_gamma + memory.doubted * math.log(2)
        due = now & (rounds < r) & (log_ratio > np.log(np.maximum(spent, 1.0)))
        return memory._replace(
            left=np.where(now & behind, r, memory.left),
            spent=spent,
            doubted=memory.doubted + due,
            checking=np.where(now, due, memory.checking),
        )

    def _check_pulls(self, problem: Problem, memory: OptBBAIState) -> Floats:
        """Step 3: fresh pulls of every arm of an earlier round, to the accuracy of the squared gamma."""
        pulls = np.zeros(memory.left.shape)
        for r in range(1, ROUNDS + 1):
            checking = memory.checking[..., r - 1]
            if checking.any():
                need = self.round_pulls(problem, np.full(memory.round.shape, float(r)), memory.doubted[..., r - 1])
                pulls = np.maximum(pulls, np.where(memory.was_in(r), (need * checking)[..., None], 0.0))
        return pulls

    def _checked(self, memory: OptBBAIState, means: Floats) -> tuple[OptBBAIState, Floats]:
        """What to declare, or -1: the best of a checked round if one it eliminated is within eps_r/2 of the best."""
        now = memory.stage == 5
        declared = np.full(memory.stage.shape, -1.0)
        for r in range(1, ROUNDS + 1):
            asked = now & (memory.checking[..., r - 1] > 0)
            if asked.any():
                mine = np.where(memory.was_in(r), means, -np.inf)
                wrong = ((memory.left == r) & (means > mine.max(axis=-1, keepdims=True) - 2.0**-r / 8)).any(axis=-1)
                declared = np.where(asked & wrong & (declared < 0), mine.argmax(axis=-1), declared)
        return memory._replace(checking=np.where(now[..., None], 0.0, memory.checking)), declared
