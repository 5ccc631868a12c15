"""Wager: our own policy. Sample where the bets of its stopping rule need it (docs/wager.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from roundwise.arrays import Floats, total
from roundwise.betting.rule import Betting, ledger_of
from roundwise.dealing import FIRST_PARTS, PARTS
from roundwise.policies.base import checked, everywhere, whole
from roundwise.policies.limited import check_room, limited
from roundwise.problem import Problem
from roundwise.questions.base import quiet
from roundwise.state import Plan, Record, Trial

UNIFORM = 0.3  # alpha: share of a batch that goes to all unfinished arms alike
FLOOR = 0.05  # eps: share of all samples that every arm gets part of, also one that has lost; less of many arms
AIM = 0.65  # m: a batch is so much of what would settle everything that is open
FIRST_AIM, WIDER = 1.4, 2.0  # after the first batch: an easy problem is over by then, a hard one makes up for it
UNSURE = 1.4  # beta: a batch is at least this share of all samples so far, times the chance that the choice is wrong
SMALLEST = 0.1  # xmin: a batch is at least this share of all samples so far


class Fixed(NamedTuple):
    """What the bets on the planned batch will be, fixed before it."""

    choice: Any  # of the ledger


@dataclass(frozen=True)
class Wager:
    """Batches sized so that the open bets are won, if the estimates are right.

    `growth` bounds a batch by so many times the samples so far. With `batch_price` (what a batch is worth to you in
    samples) the first batch and the growth follow from it: nothing else needs tuning. `max_batch` and `min_per_arm`
    limit every batch; an arm that is pulled at all is pulled at least `min_per_arm` times.

    >>> from roundwise.questions import BestArm
    >>> Wager().first(Problem(BestArm(), arms=10), runs=()).pulls.sum()
    np.float64(300.0)
    """

    stopping: Betting = field(default_factory=Betting)
    first_pulls: float = 30.0  # n0, of each arm
    growth: float = 2.0  # g
    batch_price: float | None = None  # lambda
    max_batch: float | None = None
    min_per_arm: float = 0.0
    name = "wager"

    def __post_init__(self) -> None:
        checked(1 <= self.first_pulls <= 2**53, f"`first_pulls` is {self.first_pulls:g}, but must be at least 1.")
        checked(0 < self.growth < 1e6, f"`growth` is {self.growth:g}, but must be positive (and below 1e6).")
        price = self.batch_price
        checked(
            price is None or 0 < price <= 2**53, f"`batch_price` is {price}, but must be a positive number of samples."
        )

    def check(self, problem: Problem) -> None:
        """Every question has bets in every noise model; a batch must have room for every arm."""
        self.stopping.check(problem)
        check_room(problem, self.max_batch, self.min_per_arm)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> Plan:
        """The same for every arm."""
        each = self.first_pulls if self.batch_price is None else max(10.0, self.batch_price / problem.arms)
        if self.max_batch is not None:
            each = min(math.ceil(each), self.max_batch // problem.arms)
        pulls = limited(everywhere(runs, problem.arms, math.ceil(each)), None, self.min_per_arm)
        return Plan(pulls, np.ones(runs, dtype=np.bool_), Fixed(None), parts=FIRST_PARTS)

    @quiet
    def next(self, problem: Problem, trial: Trial) -> Plan:
        """Most of the batch in the proportions that settle what is open, the rest alike, and a floor for everyone."""
        kept, counts = trial.kept, trial.record.counts
        wanted = ledger_of(problem).wanted(problem, kept.won, kept.choice, kept.known)
        samples = np.maximum(trial.record.samples, 1.0)
        need = total(wanted.pulls)
        doubt = -np.expm1(ledger_of(problem).confidence(problem, kept.choice, kept.known))
        aim, least, growth = self._sizes(trial.record, doubt)
        size = np.clip(aim * need, np.minimum(least, growth) * samples, growth * samples)
        unfinished = wanted.unfinished / np.maximum(wanted.unfinished.sum(axis=-1), 1.0)[..., None]
        share = np.where(need[..., None] > 0, wanted.pulls / np.maximum(need, 1e-300)[..., None], unfinished)
        pulls = whole(size[..., None] * ((1 - UNIFORM) * share + UNIFORM * unfinished))
        after = samples + (size if self.max_batch is None else np.minimum(size, self.max_batch))
        share_of_all = FLOOR * min(1.0, math.sqrt(10 / problem.arms))
        floor = whole((share_of_all * after / problem.arms)[..., None] - counts)
        pulls = limited(np.maximum(pulls, floor), self.max_batch, self.min_per_arm, floor, trial.record)
        return Plan(pulls, trial.plan.may_stop, Fixed(kept.choice), parts=PARTS)

    def _sizes(self, record: Record, doubt: Floats) -> tuple[Floats, Floats, Floats]:
        """How much of what is needed a batch aims at, and its least and largest size in samples so far."""
        if self.batch_price is not None:
            price = self.batch_price / np.maximum(record.samples, 1.0)
            growth = np.clip(3.0 * np.sqrt(price), 0.25, 20.0)
            return (1 + growth) / 3, np.full(growth.shape, SMALLEST), growth
        first = record.batches <= 1
        growth = np.where(first, WIDER * self.growth, self.growth)
        return np.where(first, FIRST_AIM, AIM), np.maximum(SMALLEST, UNSURE * doubt), growth
