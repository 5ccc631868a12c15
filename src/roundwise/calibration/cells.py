"""Every shape of a question, every law, every rule that claims a guarantee: measured, or refused with a sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from roundwise.arrays import Bools, Floats
from roundwise.calibration.laws import LAWS, Law
from roundwise.calibration.rules import RULES, Rule
from roundwise.calibration.shapes import SHAPES, Shape
from roundwise.errors import InputError
from roundwise.model.problem import Problem, Trial, advance, begin, final_answer
from roundwise.noise import Gaussian
from roundwise.policies import Policy
from roundwise.simulation.environments import Environment, draw_batch

DELTAS = {0.5: 0.5, 0.2: 1.0, 0.01: 2.0, 0.001: 3.0}  # besides .05, for one rule, with their share of the runs
MOST_OF_ITEMS, OF_ITEMS = 10, 0.2  # arms that share items, and the share of their runs: all pairs are counted
BATCHES_OF_ITEMS = 5  # items are drawn one by one, and batches grow
FEW_ARMS = 3  # up to which hundreds of batches are counted
UNCOMPARABLE = "Arms of different, unknown deviations cannot be compared: the model says that they have one."


Count = Callable[[int, np.random.Generator], int]


@dataclass(frozen=True)
class CalibrationCell:
    """A combination that is measured: how often a true null is struck off, or a wrong answer given."""

    part: str  # of the report
    row: str
    column: str
    delta: float
    weight: float  # share of the runs
    count: Count  # of so many runs, in how many it happened
    must_fail: bool = False  # a control: it must happen more often than delta
    chunk: int = 500  # runs at a time, so that a worker stays below 1 GB
    question: str = ""  # by its name, where there is one
    careless: Callable[[float, float], Count] | None = None  # the same with a bar so many times too low, and this sigma

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
    """A combination that cannot be asked for, or for which nothing is promised: the sentence says why."""

    part: str
    row: str
    column: str
    sentence: str


@dataclass(frozen=True)
class Simulated:
    """Runs of one policy in one law, each to the horizon, also past its end: what is promised holds at all times."""

    shape: Shape
    law: Law
    policy: Policy
    delta: float
    batches: int | None = None

    def problem(self) -> tuple[Problem, Floats]:
        """What is asked, and the true means."""
        question, means = self.shape.asked(self.law)
        problem = Problem(question, self.shape.arms, self.delta, self.law.assumed(self.shape.arms))
        self.policy.check(problem)
        self.law.made(means)  # refuses means that the noise cannot have
        return problem, means

    def careless(self, times: float, sigma: float) -> Simulated:
        """With a bar so many times too low; or with a deviation assumed that is not 1."""
        law = self.law if sigma == 1 else replace(self.law, noise=Gaussian(sigma))
        return replace(self, delta=times * self.delta, law=law)

    def __call__(self, runs: int, rng: np.random.Generator) -> int:
        """In how many of the runs it happened."""
        problem, means = self.problem()
        batches = self.batches or horizon(self.shape.arms)
        return times_harmed(problem, self.policy, self.law.made(means), means, runs, batches, rng)


def times_harmed(
    problem: Problem,
    policy: Policy,
    environment: Environment,
    means: Floats,
    runs: int,
    batches: int,
    rng: np.random.Generator,
) -> int:
    """In how many of the runs a wrong answer was given, or a true null struck off, at any time up to the horizon."""
    world, trial = environment.initial_state(rng, runs), begin(problem, policy, (runs,))
    happened = np.zeros(runs, dtype=np.bool_)
    for _ in range(batches):
        batch, world = draw_batch(problem, environment, rng, world, trial.plan)
        trial = advance(problem, policy, trial, batch)
        happened |= harmed(problem, policy, trial, means)
    return int(happened.sum())


def horizon(arms: int) -> int:
    """How many batches each run has."""
    return 12 if arms <= 10 else 6 if arms <= 100 else 4


def harmed(problem: Problem, policy: Policy, trial: Trial, means: Floats) -> Bools:
    """Where a wrong answer would be given now, or a true null is struck off."""
    truth = np.broadcast_to(means, trial.record.counts.shape)
    wrong = trial.done & ~problem.question.correct(final_answer(problem, policy, trial), truth)
    return np.asarray(wrong | policy.stopping.false_rejection(problem, trial, means))


def product() -> Iterator[CalibrationCell | Refused]:
    """Every combination of shape, law and rule; other levels for one rule."""
    for shape in SHAPES:
        for law in LAWS:
            for rule in RULES:
                yield combined(shape, law, rule, 0.05)
            if shape.arms <= 10:
                for delta in DELTAS:
                    yield combined(shape, law, RULES[0], delta)


def combined(shape: Shape, law: Law, rule: Rule, delta: float) -> CalibrationCell | Refused:
    """One combination."""
    part = "product"
    shared = law.noise.shares_items
    what = Simulated(shape, law, rule.policy, delta, BATCHES_OF_ITEMS if shared else rule.batches)
    column = f"{law.name}; {rule.name}"
    try:
        problem, means = what.problem()
        if rule.likelihood:
            problem.evidence(np.ones(shape.arms), means)  # odds ratios have none
    except InputError as error:
        return Refused(part, shape.name, column, str(error))
    sentence = _unclaimed(shape, law, rule, problem)
    if sentence is not None:
        return Refused(part, shape.name, column, sentence)
    share = DELTAS.get(delta, 1.0) * rule.weight * min(1.0, 20.0 / shape.arms)
    share *= OF_ITEMS * min(1.0, 3.0 / shape.arms) if shared else 1.0
    name = problem.question.name
    return CalibrationCell(part, shape.name, column, delta, share, what, chunk=chunk_of(shape, law), question=name)


def chunk_of(shape: Shape, law: Law) -> int:
    """How many runs fit into memory together: of arms on shared items every pair is kept, in parts."""
    numbers = shape.arms if not law.noise.shares_items else 2 * shape.arms**2
    return max(1, min(500, 4000 // numbers))


def _unclaimed(shape: Shape, law: Law, rule: Rule, problem: Problem) -> str | None:
    """Why nothing is promised, or None."""
    if law.covers == "one arm at a time" and not shape.separate:
        return UNCOMPARABLE
    if law.covers == "differences" and not shape.compares:
        return "A shift of all arms moves the answer itself: nothing is promised where means move."
    if law.covers == "differences" and not rule.shifts:
        return "Where all arms of a batch move together, only bets on differences within a batch promise anything."
    if rule.batches is not None and (shape.arms > FEW_ARMS or law.noise.shares_items):
        return (
            f"Hundreds of batches are counted with up to {FEW_ARMS} arms, each with items of its own: they take long."
        )
    if law.noise.shares_items and shape.arms > MOST_OF_ITEMS:
        return f"Shared items are counted with up to {MOST_OF_ITEMS} arms only, for the time they take."
    doubt = rule.policy.stopping.doubt(problem)
    return None if doubt is None else f"{doubt.caveat}."
