"""Every policy and stopping rule that claims a guarantee, and rules that must be caught."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roundwise.arrays import Floats
from roundwise.messages import Doubt, Reason
from roundwise.model.problem import Problem
from roundwise.policies import (
    LUCB,
    PET,
    BatchRacing,
    ClassicTrackAndStop,
    ConditionalPower,
    Designed,
    Elimination,
    Hillel,
    Karpov,
    Policy,
    Rage,
    RoundRobin,
    Rounds,
    StickyTrackAndStop,
    TopTwo,
    TrackAndStop,
    Wager,
)
from roundwise.policies.base import Limited
from roundwise.questions import BestArm
from roundwise.rules import GLR, KaufmannKoolenPairwise, Threshold
from roundwise.rules.eprocess.rule import EProcessRule
from roundwise.rules.thresholds import THRESHOLDS


@dataclass(frozen=True)
class Rule:
    """A policy with its stopping rule, by name."""

    name: str
    policy: Policy
    shifts: bool = False  # also where all arms of a batch move together, if differences are asked for
    weight: float = 1.0  # its share of the runs
    batches: int | None = None  # its horizon, if not that of the others; then for few arms only
    max_arms: int = 1000  # up to which it is counted
    likelihood: bool = False  # whether it stops by the likelihood ratio, which not every question has


@dataclass(frozen=True)
class RepeatedTest(Threshold):
    """Two arms: stop as soon as a z test at the level delta is significant. A common mistake."""

    name = "repeated-test"

    def value(self, problem: Problem, counts: Floats) -> Floats:
        """z^2/2: the likelihood ratio of two normal arms is half the square of their z statistic."""
        return np.full(counts.shape[:-1], self.at(problem, 1.0))

    def at(self, problem: Problem, samples: float) -> float:
        from scipy.special import ndtri

        return float(ndtri(problem.delta / 2)) ** 2 / 2

    def doubt(self, problem: Problem) -> Doubt:
        return Reason("rule", text="a z test repeated at every look")


def _glr(threshold: Threshold) -> tuple[Rule, ...]:
    name, rule = threshold.name, GLR(threshold)
    return (
        Rule(f"PET, {name}", PET(stopping=rule), weight=0.3, likelihood=True),
        Rule(f"Round Robin, {name}", RoundRobin(stopping=rule, first_time=200.0), weight=0.3, likelihood=True),
        Rule(f"Track-and-Stop, {name}", TrackAndStop(stopping=rule, first_time=200.0), weight=0.3, likelihood=True),
    )


PROVED = [each for each in THRESHOLDS.values() if each.doubt(Problem(BestArm(), arms=2)) is None]

RULES: tuple[Rule, ...] = (
    Rule("Wager", Wager(first_pulls=10, growth=1.0), shifts=True, weight=2.0),
    Rule("Wager, first 30", Wager(), shifts=True),
    Rule("Wager, first 4", Wager(first_pulls=4, growth=0.6), shifts=True),
    Rule("Wager, no shifts", Wager(stopping=EProcessRule(shifts=False), first_pulls=10)),
    Rule("Wager, batches at a price", Wager(batch_price=200.0), shifts=True, weight=0.5),
    Rule("Wager, limited", Wager(first_pulls=10, max_batch=4000, min_per_arm=2), shifts=True, weight=0.5),
    Rule("Wager, 300 small batches", Wager(first_pulls=4, max_batch=12), shifts=True, weight=0.5, batches=300),
    Rule("Conditional power", ConditionalPower(first_pulls=10), shifts=True),
    Rule("Conditional power, budget", Rounds(ConditionalPower(), budget=1200), shifts=True, weight=2.0),
    Rule("Conditional power, short budget", Rounds(ConditionalPower(eta=0.5), budget=220, round_size=70), shifts=True),
    Rule("Designed, budget", Designed(budget=1200), shifts=True, max_arms=30),
    Rule("Designed, lead", Designed(budget=600, lead=0.5), shifts=True, weight=2.0, max_arms=30),
    Rule(
        "Designed, short budget", Designed(budget=150, lead=0.1, looks=2, extension_value=0.0), shifts=True, max_arms=30
    ),
    *(rule for threshold in PROVED for rule in _glr(threshold)),
    Rule("Elimination", Elimination(first_pulls=50.0, growth=2.0), weight=0.3),
    Rule("Hillel", Hillel(), weight=0.3),
    Rule("Karpov", Karpov(), weight=0.3),
    Rule("BatchRacing", BatchRacing(batch=1000.0), weight=0.3),
    Rule("Rage", Rage(first_pulls=50.0), weight=0.3),
    Rule("LUCB", LUCB(batch=200.0), weight=0.3),
    Rule(
        "Classic Track-and-Stop",
        ClassicTrackAndStop(batch=50, stopping=GLR(KaufmannKoolenPairwise())),
        weight=0.1,
        likelihood=True,
    ),
    Rule(
        "Sticky Track-and-Stop",
        StickyTrackAndStop(batch=50, stopping=GLR(KaufmannKoolenPairwise())),
        weight=0.1,
        likelihood=True,
        max_arms=30,
    ),
    Rule("Top two", TopTwo(batch=50, stopping=GLR(KaufmannKoolenPairwise())), weight=0.1, likelihood=True),
    Rule("PET, limited", Limited(PET(), max_batch=4000, min_per_arm=1), weight=0.3, likelihood=True),
)
