"""What is planned: a study, what is expected of its arms, and what it costs."""

from __future__ import annotations

# ruff: noqa: RUF009 - `setting` returns a field
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roundwise.errors import DataError, InputError
from roundwise.formats.small_table import read_rows
from roundwise.messages import Remedy
from roundwise.model.spec import parse_quantity
from roundwise.noise import Noise
from roundwise.planning.items import ITEM_CORRELATION, AlikeItems
from roundwise.planning.quantities import Costs, amount, one_for_each
from roundwise.planning.scenarios import Unreliable, deviations, world_of, worlds_of
from roundwise.questions import Question
from roundwise.simulation.environments import Environment
from roundwise.study.spec import StudySpec, setting

STEPS = (1.0, 2.0, 5.0)  # a ladder has round numbers


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of a plan: what the means might be."""

    label: str  # "ahead by 2 points", or the name of a scenario
    means: tuple[float, ...]
    lead: float | None = None  # by how much what is sought is ahead; None where means were given
    noun: str = "lead"  # what that number is: a lead, a distance from a level, the largest effect


def build_ladder(
    question: Question,
    arms: Sequence[str],
    noise: Noise,
    baseline: float | None,
    leads: Sequence[float] | None,
    deviation: float | None = None,
) -> tuple[Scenario, ...]:
    """Rows from the smallest lead to the largest, and last that there is nothing to find."""
    level = question.level
    if level is not None and baseline not in (None, level):
        raise InputError(
            f"Means are compared with the level {level:g}, and leads are distances from it. Leave out the baseline, "
            "or give the expected means."
        )
    centre = level if baseline is None else baseline
    if centre is None:
        raise InputError(
            "What is expected is missing.", Remedy("Give {@baseline_example}, the means, or a file of scenarios.")
        )
    low, high = noise.mean_range
    if not low < centre < high:
        raise InputError(f"The baseline is {centre:g}, but must lie between {low:g} and {high:g}, as means do.")
    deviation_there = float(np.median(deviations(noise, np.full(len(arms), centre), deviation)))
    found = sorted(chosen_leads(noise, deviation_there, question) if leads is None else {float(each) for each in leads})
    if not found or found[0] < 0:
        raise InputError("The leads must be positive numbers, for example 1%,2%,5%.")
    noun = "distance" if level is not None else "lead" if question.reference_arm is None else "largest effect"
    rows = []
    for lead in [*found, 0.0] if leads is None else found:
        means = question.means_with_lead(np.full(len(arms), centre), lead)
        if low <= means.min() and means.max() <= high:
            rows.append(Scenario(label=lead_words(lead, noise), means=tuple(means.tolist()), lead=lead, noun=noun))
    if not rows:
        raise InputError(
            f"With the baseline {centre:g} and these leads the means leave their range, {low:g} to {high:g}."
        )
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


def read_scenarios(path: Path, names: Sequence[str]) -> tuple[Scenario, ...]:
    """The rows of a table: a column for each arm, with its mean, and if wanted a column `name` (or `scenario`)."""
    head, rows = read_rows(path, names)
    label = next((word for word in head if word not in names and word.lower() in ("name", "scenario")), None)
    found = []
    for number, row in enumerate(rows, 1):
        try:
            means = tuple(parse_quantity(row.numeral(name), name) for name in names)
        except InputError as error:
            raise DataError(f"{row.where}: {error}") from None
        found.append(Scenario(label=f"scenario {number}" if label is None else row.text(label), means=means))
    return tuple(found)


def lead_words(lead: float, noise: Noise) -> str:
    """The label of a row of a ladder."""
    return f"+{amount(lead, noise.outcome.rates)}" if lead else "nothing, all alike"


@dataclass(frozen=True, kw_only=True)
class PlanRequest(StudySpec):
    """A study as `create_study` would make it, with what is expected of its arms and what results and rounds cost."""

    name: str = "study"
    baseline: float | None = setting("number", "Scenario baseline rate or mean, e.g. 30%.", None)
    leads: tuple[float, ...] | None = setting(
        "numbers", "Leads of the best arm to plan for, e.g. 1%,2%,5% (chosen if omitted).", None
    )
    means: tuple[float, ...] | None = setting("numbers", "Scenario mean of every arm, e.g. 30%,31%,35%.", None)
    scenario: Path | None = setting("path", "CSV file of scenarios: one column per arm, one row per scenario.", None)
    target: str | float | None = setting("label", "Lead or scenario that the settings are optimized for.", None)
    sample_cost: tuple[float, ...] | None = setting("prices", "Price of a result: one number, or one per arm.", None)
    round_cost: float = setting("number", "Price of a round.", 0.0)
    round_days: float | None = setting("number", "Days that a round takes.", None)
    missing: float = setting("number", "Scenario share of missing results, e.g. 10%.", 0.0)
    deviation: float | None = setting(
        "number", "Standard deviation of one result, where the noise model leaves it open.", None
    )
    item_correlation: float = setting(
        "number", "Correlation of two equally good arms on the same item, e.g. 30%.", ITEM_CORRELATION
    )
    power: float = setting("number", "Power of the fixed design shown for comparison.", 0.9)
    runs: int = setting("whole", "Number of simulated studies per row.", 2000)
    seed: int = setting("whole", "Seed of the simulations: the same seed gives the same plan.", 1, least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample_cost is not None:
            prices = one_for_each(self.sample_cost, self.arms, "sample cost")
            object.__setattr__(self, "sample_cost", tuple(prices.tolist()))
        if not 0 <= self.missing < 1:
            raise InputError(f"`missing` must be a share of the results, at least 0 and below 1; got {self.missing:g}.")
        if not 0 < self.power < 1:
            raise InputError(f"`power` must be between 0 and 1 (exclusive); got {self.power:g}.")
        if sum(each is not None for each in (self.baseline, self.means, self.scenario)) > 1:
            raise InputError("Give one of baseline (with leads), means and scenario.")
        if self.leads is not None and (self.means is not None or self.scenario is not None):
            raise InputError("Leads go with a baseline, not with means or scenarios.")
        _ = self.costs  # checked

    @property
    def costs(self) -> Costs:
        """What results, rounds and days cost."""
        return Costs(sample=self.sample_cost, round=self.round_cost, days=self.round_days)

    @property
    def of_items(self) -> bool:
        """Whether arms are tried on the same items."""
        return self.noise.shares_items

    def rows(self) -> tuple[Scenario, ...]:
        """The rows of the plan: the scenarios of a file, the given means, or a ladder of leads."""
        if self.means is not None:
            if len(self.means) != len(self.arms):
                raise InputError(f"There are {len(self.means)} means, but {len(self.arms)} arms. Give one for each.")
            found: tuple[Scenario, ...] = (Scenario(label="as expected", means=self.means),)
        elif self.scenario is not None:
            found = read_scenarios(Path(self.scenario), self.arms)
        else:
            found = build_ladder(self.question, self.arms, self.noise, self.baseline, self.leads, self.deviation)
        for each in found:
            self.world(each.means)  # means that cannot be are refused
        return found

    def worlds(self, rows: Sequence[Sequence[float]]) -> Environment:
        """The worlds of several rows at once: run i is one of row i modulo their number."""
        means = np.asarray(rows, dtype=np.float64)
        if self.of_items:
            return AlikeItems(self.noise, means, self.item_correlation, self.missing, self.deviation)
        world = worlds_of(self.noise, means, self.deviation)
        return Unreliable(world, self.missing) if self.missing else world

    def world(self, means: Sequence[float]) -> Environment:
        """Results as they would come back."""
        if self.of_items:
            return self.worlds([means])
        world = world_of(self.noise, np.asarray(means, dtype=np.float64), self.deviation)
        return Unreliable(world, self.missing) if self.missing else world
