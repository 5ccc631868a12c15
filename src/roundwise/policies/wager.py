"""Wager: our own policy. Sample where the bets of its stopping rule need it (WAGER.md, section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from roundwise.policies.base import checked, everywhere, whole
from roundwise.problem import Problem
from roundwise.questions.base import quiet
from roundwise.record import Plan, Trial
from roundwise.runs import total
from roundwise.stopping.betting import Betting, bettor_of, ledger_of

UNIFORM = 0.3  # alpha: share of a batch that goes to all unfinished arms alike
FLOOR = 0.05  # eps: share of all samples that every arm gets part of, also one that has lost
SMALLEST = 0.2  # xmin: a batch is at least this share of all samples so far
PARTS = 4  # of the first batch


class Fixed(NamedTuple):
    """What the bets on the planned batch will be, fixed before it."""

    choice: Any  # of the ledger


@dataclass(frozen=True)
class Wager:
    """Batches sized so that the open bets are won, if the estimates are right.

    `growth` bounds a batch by so many times the samples so far. With `batch_price` (what a batch is worth to you in
    samples) the first batch and the growth follow from it.
    """

    stopping: Betting = field(default_factory=Betting)
    first_pulls: float = 30.0  # n0, of each arm
    growth: float = 2.0
    batch_price: float | None = None  # lambda
    name = "wager"

    def __post_init__(self) -> None:
        checked(self.first_pulls >= 1, f"The first pulls are {self.first_pulls:g}, but must be at least 1.")
        checked(self.growth > 0, f"The growth is {self.growth:g}, but must be positive.")

    def check(self, problem: Problem) -> None:
        """Every question that has a ledger."""
        ledger_of(problem)

    def first(self, problem: Problem, runs: tuple[int, ...]) -> Plan:
        """The same for every arm."""
        each = self.first_pulls if self.batch_price is None else max(10.0, self.batch_price / problem.arms)
        pulls = everywhere(runs, problem.arms, math.ceil(each))
        return Plan(pulls, np.ones(runs, dtype=np.bool_), Fixed(None), parts=PARTS)

    @quiet
    def next(self, problem: Problem, trial: Trial) -> Plan:
        """Most of the batch in the proportions that settle what is open, the rest alike, and a floor for everyone."""
        kept = trial.kept
        variance = bettor_of(problem).variance(kept.past)
        wanted = ledger_of(problem).wanted(problem, kept.won, kept.choice, kept.past, kept.known, variance)
        samples = np.maximum(trial.record.samples, 1.0)
        growth = self.growth
        if self.batch_price is not None:
            growth = np.clip(3 * np.sqrt(self.batch_price / samples), 0.25, 20.0)
        need = total(wanted.pulls)
        size = np.clip((1 + growth) / 3 * need, np.minimum(SMALLEST, growth) * samples, growth * samples)
        unfinished = wanted.unfinished / np.maximum(wanted.unfinished.sum(axis=-1), 1.0)[..., None]
        share = np.where(need[..., None] > 0, wanted.pulls / np.maximum(need, 1e-300)[..., None], unfinished)
        pulls = whole(size[..., None] * ((1 - UNIFORM) * share + UNIFORM * unfinished))
        floor = whole((FLOOR * (samples + size) / problem.arms)[..., None] - trial.record.counts)
        return Plan(np.maximum(pulls, floor), trial.plan.may_stop, Fixed(kept.choice))
