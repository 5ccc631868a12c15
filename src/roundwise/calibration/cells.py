"""Every shape of a question, every law, every rule with a guarantee: measured, or refused with a reason."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.calibration.laws import LAWS, Law
from roundwise.calibration.rules import RULES, Rule
from roundwise.calibration.shapes import DIFFERENCES, SHAPES, SINGLE, Shape
from roundwise.errors import InputError
from roundwise.model.batch import Batch
from roundwise.model.problem import Problem, Trial, advance, begin, final_answer
from roundwise.noise import Gaussian
from roundwise.policies import Policy
from roundwise.simulation.environments import Environment, Generator, draw_batch

DELTAS = {0.5: 0.5, 0.2: 1.0, 0.01: 2.0, 0.001: 3.0}  # in addition to .05, for one rule, with their share of the runs
MOST_OF_ITEMS, OF_ITEMS = 10, 0.2  # arms that share items, and the share of their runs: all pairs are counted
BATCHES_OF_ITEMS = 5  # items are drawn one by one, and batches grow
FEW_ARMS = 3  # up to which hundreds of batches are counted
UNCOMPARABLE = "Arms of different, unknown deviations cannot be compared: the model says that they have one."


class Experiment(ABC):
    """An experiment whose errors are counted: a true null rejected, a wrong answer given, or a true value excluded."""

    @abstractmethod
    def __call__(self, runs: int, rng: Generator) -> int:
        """Return the number of runs with an error."""

    def broken_copy(self, times: float, sigma: float) -> Experiment:
        """A broken copy: delta is `times` too large, or a wrong `sigma` is assumed where it is 1."""
        raise TypeError(f"{type(self).__name__} has no broken copy.")


@dataclass(frozen=True)
class CalibrationCell:
    """A combination that is measured."""

    part: str  # of the report
    row: str
    column: str
    delta: float
    weight: float  # share of the runs
    count: Experiment
    must_fail: bool = False  # a control: it must happen more often than delta
    chunk: int = 500  # runs at a time, so that a worker stays below 1 GB
    question: str = ""  # by its name, where there is one

    @property
    def name(self) -> str:
        """What it is, in one line."""
        return f"{self.part}: {self.row} / {self.column} / delta {self.delta:g}"

    @property
    def digest(self) -> str:
        """A name for its file and its random numbers."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Refused:
    """A combination that is not possible or has no guarantee; the sentence says why."""

    part: str
    row: str
    column: str
    sentence: str


class Case(NamedTuple):
    """One problem in one world."""

    problem: Problem
    environment: Environment
    means: Floats  # the truth

    def broken_copy(self, times: float, sigma: float) -> Case:
        """With a delta that is `times` too large, or with a wrong `sigma` assumed where it is 1."""
        noise = self.problem.noise if sigma == 1 else Gaussian(sigma)
        return self._replace(problem=replace(self.problem, delta=times * self.problem.delta, noise=noise))

    def simulate(self, policy: Policy, runs: int, batches: int, rng: Generator) -> Iterator[tuple[Batch, Trial]]:
        """Each batch and the trials after it, to the horizon, even past their end: promises hold at all times."""
        problem, environment, _ = self
        world, trial = environment.initial_state(rng, runs), begin(problem, policy, (runs,))
        for _ in range(batches):
            batch, world = draw_batch(problem, environment, rng, world, trial.plan)
            trial = advance(problem, policy, trial, batch)
            yield batch, trial


def case_of(shape: Shape, law: Law, delta: float) -> Case:
    """A shape in a law; an InputError where the noise cannot have such means."""
    question, means = shape.asked(law)
    return Case(Problem(question, shape.arms, delta, law.assumed(shape.arms)), law.world(means), means)


@dataclass(frozen=True)
class Simulated(Experiment):
    """A wrong answer, or a true null that is rejected, in runs of one policy."""

    case: Case
    policy: Policy
    batches: int

    def broken_copy(self, times: float, sigma: float) -> Simulated:
        return replace(self, case=self.case.broken_copy(times, sigma))

    def __call__(self, runs: int, rng: Generator) -> int:
        wrong = np.zeros(runs, dtype=np.bool_)
        for _, trial in self.case.simulate(self.policy, runs, self.batches, rng):
            wrong |= is_wrong(self.case.problem, self.policy, trial, self.case.means)
        return int(wrong.sum())


def is_wrong(problem: Problem, policy: Policy, trial: Trial, means: Floats) -> Bools:
    """Where a wrong answer would be given now, or a true null is rejected."""
    truth = np.broadcast_to(means, trial.record.counts.shape)
    wrong = trial.done & ~policy.stopping.correct(problem, final_answer(problem, policy, trial), truth)
    return np.asarray(wrong | policy.stopping.false_rejection(problem, trial, means))


def horizon(arms: int) -> int:
    """How many batches each run has."""
    return 12 if arms <= 10 else 6 if arms <= 100 else 4


def chunk_of(case: Case) -> int:
    """How many runs fit into memory together: of arms on shared items every pair is kept, in parts."""
    arms = case.problem.arms
    return max(1, min(500, 4000 // (2 * arms**2 if case.problem.noise.shares_items else arms)))


def product() -> Iterator[CalibrationCell | Refused]:
    """Every combination of shape, law and rule; other levels for one rule."""
    for shape in SHAPES:
        for law in LAWS:
            others = DELTAS if shape.arms <= 10 else ()
            for delta, rules in [(0.05, RULES), *((delta, RULES[:1]) for delta in others)]:
                try:
                    case = case_of(shape, law, delta)
                except InputError as error:
                    yield from (Refused("product", shape.name, f"{law.name}; {r.name}", str(error)) for r in rules)
                else:
                    yield from (_combine(shape, law, rule, case) for rule in rules)


def _combine(shape: Shape, law: Law, rule: Rule, case: Case) -> CalibrationCell | Refused:
    part, column, delta, arms = "product", f"{law.name}; {rule.name}", case.problem.delta, shape.arms
    try:
        rule.policy.check(case.problem)
        if rule.likelihood:
            case.problem.evidence(np.ones(arms), case.means)  # odds ratios have none
    except InputError as error:
        return Refused(part, shape.name, column, str(error))
    sentence = _why_unclaimed(shape, law, rule, case.problem)
    if sentence is not None:
        return Refused(part, shape.name, column, sentence)
    weight = DELTAS.get(delta, 1.0) * rule.weight * min(1.0, 20.0 / arms)
    batches = rule.batches or horizon(arms)
    if law.noise.shares_items:
        weight, batches = weight * (OF_ITEMS * min(1.0, 3.0 / arms)), BATCHES_OF_ITEMS
    found = Simulated(case, rule.policy, batches)
    question = case.problem.question.name
    return CalibrationCell(part, shape.name, column, delta, weight, found, chunk=chunk_of(case), question=question)


def _why_unclaimed(shape: Shape, law: Law, rule: Rule, problem: Problem) -> str | None:
    """Why there is no guarantee, or None."""
    if law.covers == SINGLE != shape.about:
        return UNCOMPARABLE
    if law.covers == DIFFERENCES != shape.about:
        return "A shift of all arms moves the answer itself: nothing is promised where means move."
    if law.covers == DIFFERENCES and not rule.shifts:
        return "Where all arms of a batch move together, only bets on differences within a batch promise anything."
    if rule.batches is not None and (shape.arms > FEW_ARMS or law.noise.shares_items):
        return f"Hundreds of batches are counted with up to {FEW_ARMS} arms, each with separate items: they take long."
    if shape.arms > rule.max_arms:
        return f"Counted with up to {rule.max_arms} arms only, for the time it takes."
    if law.noise.shares_items and shape.arms > MOST_OF_ITEMS:
        return f"Shared items are counted with up to {MOST_OF_ITEMS} arms only, for the time they take."
    doubt = rule.policy.stopping.doubt(problem)
    return None if doubt is None else f"{doubt.caveat}."
