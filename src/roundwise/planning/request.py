"""What is planned: a study as `new` would create it, what is expected of it, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import DataError, InputError
from roundwise.formats.small_table import read_rows
from roundwise.ingest.columns import NAMELESS, Columns
from roundwise.model.problem import Problem
from roundwise.model.spec import parse_quantity
from roundwise.noise import Noise
from roundwise.planning.items import SHARED, AlikeItems
from roundwise.planning.quantities import Costs, amount
from roundwise.planning.scenarios import Unreliable, deviations, world_of, worlds_of
from roundwise.policies import Policy
from roundwise.questions import Question
from roundwise.simulation.environments import Environment
from roundwise.study.spec import StudySpec

STEPS = (1.0, 2.0, 5.0)  # a ladder has round numbers


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One row of a plan: what the means might be."""

    label: str  # "ahead by 2 points", or the name of a scenario
    means: tuple[float, ...]
    lead: float | None = None  # by how much what is sought is ahead; None where means were given
    noun: str = "lead"  # what that number is: a lead, a distance from a level, the largest effect


def ladder(
    question: Question,
    names: Sequence[str],
    noise: Noise,
    around: float | None,
    leads: Sequence[float] | None,
    deviation: float | None = None,
) -> tuple[Expected, ...]:
    """Rows from the smallest lead to the largest, and last that there is nothing to find."""
    level = question.level
    if level is not None and around not in (None, level):
        raise InputError(
            f"Means are compared with the level {level:g}, and leads are distances from it: leave out `around`, "
            "or give the means that are expected."
        )
    centre = level if around is None else around
    if centre is None:
        raise InputError("Say what is expected: around=0.3 (`--around 30%`), means, or a table of scenarios.")
    low, high = noise.mean_range
    if not low < centre < high:
        raise InputError(f"`around` is {centre:g}, but must lie between {low:g} and {high:g}, as means do.")
    deviation_there = float(np.median(deviations(noise, np.full(len(names), centre), deviation)))
    found = sorted(chosen_leads(noise, deviation_there, question) if leads is None else {float(each) for each in leads})
    if not found or found[0] < 0:
        raise InputError("The leads must be positive numbers, for example 1%,2%,5%.")
    noun = "distance" if level is not None else "lead" if question.reference_arm is None else "largest effect"
    rows = []
    for lead in [*found, 0.0] if leads is None else found:
        means = question.means_with_lead(np.full(len(names), centre), lead)
        if low <= means.min() and means.max() <= high:
            rows.append(Expected(label=lead_words(lead, noise), means=tuple(means.tolist()), lead=lead, noun=noun))
    if not rows:
        raise InputError(f"With {centre:g} around and these leads the means leave their range, {low:g} to {high:g}.")
    return tuple(rows)


def chosen_leads(noise: Noise, deviation: float, question: Question) -> list[float]:
    """Three round numbers that follow each other, the middle one a small effect; with one that matters to the user."""
    many = noise.family is not None and not question.separate_claims  # results, as in a test on a page
    middle = deviation * (0.05 if many else 0.2)
    power = np.floor(np.log10(middle)) - 1
    numbers = np.array([step * 10.0 ** (power + i) for i in range(4) for step in STEPS])
    nearest = int(np.abs(np.log(numbers / middle)).argmin())
    found = {float(f"{each:.12g}") for each in numbers[nearest - 1 : nearest + 2]}
    matters = question.tolerance
    return sorted(found | ({matters} if matters else set()))


def scenarios(path: Path, names: Sequence[str]) -> tuple[Expected, ...]:
    """The rows of a table: a column for each arm, with its mean, and if wanted a column `name` (or `scenario`)."""
    head, rows = read_rows(path, names)
    label = next((word for word in head if word not in names and word.lower() in ("name", "scenario")), None)
    found = []
    for number, row in enumerate(rows, 1):
        try:
            means = tuple(parse_quantity(row.numeral(name), name) for name in names)
        except InputError as error:
            raise DataError(f"{row.where}: {error}") from None
        found.append(Expected(label=f"scenario {number}" if label is None else row.text(label), means=means))
    return tuple(found)


def given(means: Floats, names: Sequence[str]) -> tuple[Expected, ...]:
    """One row: these means."""
    if len(means) != len(names):
        raise InputError(f"There are {len(means)} means, but {len(names)} arms. Give one for each.")
    return (Expected(label="as expected", means=tuple(float(each) for each in means)),)


def lead_words(lead: float, noise: Noise) -> str:
    """The label of a row of a ladder."""
    return f"+{amount(lead, noise.outcome.rates)}" if lead else "nothing, all alike"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is planned: a study as `new` would create it, and what is expected and paid."""

    name: str
    question: Question
    names: tuple[str, ...]
    noise: Noise
    delta: float
    policy: Policy  # with its limits
    budget: int | None
    round: int | None  # results that make a round, if that is fixed
    split: tuple[float, ...] | None  # shares of the arms, if they are fixed
    costs: Costs
    missing: float
    deviation: float | None  # of one result, where the noise model does not say it
    power: float  # of the fixed design
    seed: int
    columns: Columns = NAMELESS  # what the columns of its files are called
    shared: float = SHARED  # how alike arms do on an item, where they are tried on the same

    @property
    def problem(self) -> Problem:
        """The problem in arrays."""
        return Problem(self.question, len(self.names), self.delta, self.noise)

    @property
    def of_items(self) -> bool:
        """Whether arms are tried on the same items."""
        return self.noise.shares_items

    @property
    def alone(self) -> Wish:
        """The same as if every arm had items of its own."""
        return replace(self, noise=self.noise.without_items())

    @property
    def settings(self) -> StudySpec:
        """What the study would be created with; its own seed is drawn then."""
        return StudySpec(
            question=self.question,
            arms=self.names,
            noise=self.noise,
            delta=self.delta,
            policy=self.policy,
            seed=0,
            budget=self.budget,
            round=self.round,
            split=self.split,
            columns=self.columns,
        )

    @property
    def acting(self) -> Policy:
        """The policy within budget, round and split, as the study would ask it."""
        return self.settings.acting

    def worlds(self, rows: Sequence[Sequence[float]]) -> Environment:
        """The worlds of several rows at once: run i is one of row i modulo their number."""
        means = np.asarray(rows, dtype=np.float64)
        if self.of_items:
            return AlikeItems(self.noise, means, self.shared, self.missing, self.deviation)
        world = worlds_of(self.noise, means, self.deviation)
        return Unreliable(world, self.missing) if self.missing else world

    def world(self, means: Sequence[float]) -> Environment:
        """Results as they would come back."""
        if self.of_items:
            return self.worlds([means])
        world = world_of(self.noise, np.asarray(means, dtype=np.float64), self.deviation)
        return Unreliable(world, self.missing) if self.missing else world
