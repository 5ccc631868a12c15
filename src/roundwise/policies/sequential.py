"""Sequential baselines: algorithms that decide pull by pull, or `batch` pulls at a time.

With the smallest batch they are the originals; larger ones show the cost of batching.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Floats, quiet, total, zeros
from roundwise.model.problem import BatchPlan, Declaration, Problem, Record, Trial
from roundwise.policies.base import (
    Policy,
    RankingPolicy,
    best_weights,
    checked,
    everywhere,
    oriented,
    ranking,
    undeclared,
)
from roundwise.questions import AnyAbove, BestArm, MinimumBelow
from roundwise.questions.base import largest_mask
from roundwise.questions.best_arm import complexity_of_gaps, cost_of_leading
from roundwise.rules import GLR, Declared, StoppingRule


def first_pulls(problem: Problem, runs: tuple[int, ...], batch: float) -> Floats:
    """Every arm, as often as a batch has room for, but once at least."""
    return everywhere(runs, problem.arms, max(1.0, math.floor(batch / problem.arms)))


def check_batch(batch: int) -> None:
    """Raise an InputError unless a loop over the pulls of a batch ends soon."""
    checked(1 <= batch <= 1e6, f"`batch` is {batch:g}, but must be from 1 to a million.")


@dataclass(frozen=True)
class ClassicTrackAndStop(Policy):
    """D-tracking: an arm with fewer than sqrt(t) - K/2 pulls, if there is one, else the one farthest behind t w*.

    Track-and-Stop as Garivier and Kaufmann 2016 have it, for every question. (Batches that double: `TrackAndStop`.)

    Args:
        batch: b, pulls that are planned at a time, with the weights at the last means; 1 is the original.
        kl_weights: Whether weights use the divergences of the noise model's own family, where it has one (0/1, counts).
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.

    >>> from roundwise.questions import BestArm
    >>> ClassicTrackAndStop().first(Problem(BestArm(), arms=3), runs=()).pulls.tolist()
    [1.0, 1.0, 1.0]
    """

    batch: int = 1
    kl_weights: bool = False
    stopping: StoppingRule = field(default_factory=GLR)
    name = "classic-track-and-stop"
    needs_sigma = True

    def __post_init__(self) -> None:
        check_batch(self.batch)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        return BatchPlan(first_pulls(problem, runs, self.batch), np.ones(runs, dtype=np.bool_))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        weights = best_weights(problem, problem.fitted(trial.record.counts, trial.record.means), self.kl_weights)
        counts, arms = np.array(trial.record.counts), np.arange(problem.arms)
        for _ in range(int(self.batch)):
            time = counts.sum(axis=-1)
            short = counts.min(axis=-1) < np.sqrt(time) - problem.arms / 2
            behind = np.where(short[..., None], -counts, time[..., None] * weights - counts)
            counts += arms == behind.argmax(axis=-1)[..., None]
        return BatchPlan(counts - trial.record.counts, trial.plan.may_stop)


@dataclass(frozen=True)
class LUCB(RankingPolicy):
    """Best arm (also within a tolerance) or top-k: the weakest arm of the top and the strongest of the others.

    Every arm is pulled once, then these two, half a batch each. After Kalyanakrishnan, Tewari, Auer and Stone 2012,
    "PAC subset selection in stochastic multi-armed bandits".

    Args:
        batch: Pulls of a batch, half for each of the two arms; 2 is the original.
        stopping: The stopping rule, by default that of its proof.

    >>> from roundwise.questions import BestArm
    >>> round(float(LUCB().radius(Problem(BestArm(), arms=10), np.array([50.0]), np.array(100.0))[0]), 4)
    0.9786
    """

    batch: float = 2.0
    stopping: StoppingRule = field(
        default=Declared(proof="Kalyanakrishnan et al. 2012, ICML; also docs/baselines.md, lucb")
    )
    name = "lucb"
    tolerant = True

    def __post_init__(self) -> None:
        checked(2 <= self.batch <= 2**53, f"`batch` is {self.batch:g}, but must be at least 2.")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan:
        pulls = first_pulls(problem, runs, self.batch)
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), declared=undeclared(problem, runs))

    def next(self, problem: Problem, trial: Trial) -> BatchPlan:
        """Done when the intervals of the two are apart."""
        means, sought = oriented(problem, trial.record).means, ranking(problem)
        radius = self.radius(problem, trial.record.counts, trial.record.samples)
        top = largest_mask(means, sought.number_sought)
        lower = np.where(top, means - radius, np.inf)
        upper = np.where(top, -np.inf, means + radius)
        done = upper.max(axis=-1) - lower.min(axis=-1) < problem.question.tolerance
        arms, weakest, strongest = np.arange(problem.arms), lower.argmin(axis=-1), upper.argmax(axis=-1)
        pair = (arms == weakest[..., None]) | (arms == strongest[..., None])
        declared = Declaration(np.asarray(done), sought.answer_from_set(top))
        return BatchPlan(np.where(pair, math.floor(self.batch / 2), 0.0), trial.plan.may_stop, declared=declared)

    def radius(self, problem: Problem, counts: Floats, samples: Floats) -> Floats:
        """2 sigma sqrt(ln(5 K t^4 / (4 delta)) / (2 u)) after u pulls of an arm, and t of all. (K),()->(K)"""
        level = np.log(1.25 * problem.arms / problem.delta) + 4 * np.log(np.maximum(samples, 1.0))
        return np.asarray(2 * problem.sigma * np.sqrt(level[..., None] / (2 * np.maximum(counts, 0.5))))


class LeaderState(NamedTuple):
    """How often each arm has led, and how often it was pulled then."""

    led: Floats  # (K)
    pulled: Floats  # (K)


@dataclass(frozen=True)
class TopTwo(RankingPolicy[LeaderState]):
    """Best arm (also within a tolerance): the leader or its most dangerous challenger; it needs no weights.

    EB-TCI of Jourdan, Degenne, Baudry, de Heide and Kaufmann 2022, "Top two algorithms revisited", recalled, not read
    in print: the leader has the largest mean, the challenger the least transport cost W(leader, j) + ln N_j. The
    guarantee rests on the stopping rule alone.

    Args:
        batch: b, pulls that are planned at a time, with the means as they were before; 1 is the original.
        share: beta, the leader's share of the pulls that it leads.
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.

    >>> from roundwise.questions import BestArm
    >>> TopTwo(batch=30).first(Problem(BestArm(), arms=3), runs=()).pulls.tolist()
    [10.0, 10.0, 10.0]
    """

    batch: int = 1
    share: float = 0.5
    stopping: StoppingRule = field(default_factory=GLR)
    name = "top-two"
    sets = False
    tolerant = True

    def __post_init__(self) -> None:
        check_batch(self.batch)
        checked(0 < self.share < 1, f"`share` is {self.share:g}, but must lie strictly between 0 and 1.")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[LeaderState]:
        none = zeros((*runs, problem.arms))
        return BatchPlan(first_pulls(problem, runs, self.batch), np.ones(runs, dtype=np.bool_), LeaderState(none, none))

    def next(self, problem: Problem, trial: Trial[LeaderState]) -> BatchPlan[LeaderState]:
        led, pulled = trial.plan.memory
        counts, means = np.array(trial.record.counts), oriented(problem, trial.record).means
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
        return BatchPlan(counts - trial.record.counts, trial.plan.may_stop, LeaderState(led, pulled))


BEYOND = (AnyAbove.name, MinimumBelow.name)


class Weighed(NamedTuple):
    """The weights that pulls were tracked by, added up."""

    weights: Floats  # (K)


@dataclass(frozen=True)
class StickyTrackAndStop(Policy[Weighed]):
    """Track-and-Stop where several answers may be right: it sticks to one of those that may be the easiest to show.

    Degenne and Koolen 2019, "Pure exploration with multiple correct answers". Of the answers that are easiest at some
    means of a confidence region, the first in a fixed order is tracked, with its weights at the estimates. The easiest
    answer is the arm with the largest mean; for "is any mean above the level?" it is yes with that arm as witness, or
    no. Track-and-Stop wavers between answers that are as easy, and so samples by a mixture of their weights.

    Args:
        batch: b, pulls that are planned at a time, with the weights at the last means; 1 is the original.
        region: The region has the means that cost at most this times ln t.
        stopping: The stopping rule; any rule keeps its guarantee under this sampling.

    >>> from roundwise.questions import BestArm
    >>> StickyTrackAndStop().first(Problem(BestArm(tolerance=0.1), arms=3), runs=()).pulls.tolist()
    [1.0, 1.0, 1.0]
    """

    batch: int = 1
    region: float = 10.0
    stopping: StoppingRule = field(default_factory=GLR)
    name = "sticky-track-and-stop"
    needs_sigma = True

    def __post_init__(self) -> None:
        check_batch(self.batch)
        checked(0 < self.region < 1e6, f"`region` is {self.region:g}, but must be positive (and below a million).")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        question = problem.question
        fits = question.name == BestArm.name or (question.name in BEYOND and not question.tolerance)
        answers = "'best-arm', and 'any-above' or 'minimum-below' without a tolerance"
        checked(fits, f"The policy '{self.name}' answers {answers} only.")

    def first(self, problem: Problem, runs: tuple[int, ...]) -> BatchPlan[Weighed]:
        pulls = first_pulls(problem, runs, self.batch)
        return BatchPlan(pulls, np.ones(runs, dtype=np.bool_), Weighed(pulls))

    def next(self, problem: Problem, trial: Trial[Weighed]) -> BatchPlan[Weighed]:
        """C-tracking: the arm farthest behind the weights so far, each of which is at least 1/(2 sqrt(K^2 + t))."""
        weights, tracked = self.weights(problem, trial.record), trial.plan.memory.weights
        counts, arms = np.array(trial.record.counts), np.arange(problem.arms)
        for _ in range(int(self.batch)):
            least = 0.5 / np.sqrt(problem.arms**2 + counts.sum(axis=-1))[..., None]
            tracked = tracked + least + (1 - problem.arms * least) * weights
            counts += arms == (tracked - counts).argmax(axis=-1)[..., None]
        return BatchPlan(counts - trial.record.counts, trial.plan.may_stop, Weighed(tracked))

    @quiet
    def weights(self, problem: Problem, record: Record) -> Floats:
        """w* of the first answer in the region, at the estimates; alike if it is wrong there. (K)"""
        question, counts, arms = problem.question, record.counts, np.arange(problem.arms)
        room = 2 * problem.sigma**2 * self.region * np.log(np.maximum(record.samples, 1.0))[..., None]
        if question.name not in BEYOND:
            means = oriented(problem, record).means
            leads = arms == (_costs_of_leading(counts, means) <= room).argmax(axis=-1)[..., None]
            gaps = np.where(leads, means, 0.0).sum(axis=-1, keepdims=True) - means + question.tolerance
            return complexity_of_gaps(gaps, leads, np.ones(leads.shape[:-1], dtype=np.bool_), 1.0).weights
        beyond = question.merits(record.means - (question.level or 0.0))
        witness = _costs_of_leading(counts, beyond, least=0.0) <= room
        first = arms == witness.argmax(axis=-1)[..., None]
        shown = (first & (beyond > 0)).any(axis=-1, keepdims=True)  # with no witness in the region, it is no
        needs = np.where(beyond < 0, beyond, np.nan) ** -2.0
        no = needs / total(needs)[..., None]
        yes = np.where(shown, first, 1.0 / problem.arms)
        found = np.where(witness.any(axis=-1, keepdims=True), yes, no)
        return np.where(np.isfinite(found), found, 1.0 / problem.arms)


def _costs_of_leading(counts: Floats, values: Floats, least: float = -math.inf) -> Floats:
    """What it costs to make each arm the largest. (K),(K)->(K)"""
    order = np.argsort(-values, axis=-1, kind="stable")
    own, high = (np.take_along_axis(each, order, axis=-1)[..., None, :] for each in (counts, values))
    return cost_of_leading(counts, values, own, high, least)
