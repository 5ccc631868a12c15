"""The request for a plan: a study, expected means and costs."""

from __future__ import annotations

# ruff: noqa: RUF009 - `setting` returns a field
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from roundwise.arrays import Floats
from roundwise.errors import DataError, InputError
from roundwise.formats.small_table import read_rows
from roundwise.ingest.reading import Columns, Reading
from roundwise.messages import Remedy, option
from roundwise.model.spec import parse_quantity
from roundwise.noise import Noise
from roundwise.planning.pilot import Pilot, read_pilot
from roundwise.planning.scenarios import (
    ITEM_CORRELATION,
    ExchangeableItems,
    ExchangeableList,
    IncompleteResults,
    RatioArms,
)
from roundwise.questions import Question
from roundwise.questions.base import write_in_unit
from roundwise.simulation.environments import Environment, deviations, world_of
from roundwise.study.metrics import Metric
from roundwise.study.spec import StudySpec, one_for_each, setting, settings_of

STEPS = (1.0, 2.0, 5.0)  # a ladder has round numbers
OF_LEAD = (0.0, 0.5, 0.75, 1.0, 1.5, 2.0)  # rows of a plan, in units of the smallest lead that matters
OF_METRICS = ("metric_baseline", "metric_deviation", "metric_skewness")
PROVISIONAL = 1000  # results of each arm, until a budget is proposed
SHARE = re.compile(r".*(%|points?)\s*", re.IGNORECASE)  # of a lead: a difference of rates
OF_BASELINE = re.compile(r"(.+?)[\s-]*of[\s-]*(?:the[\s-]*)?baseline", re.IGNORECASE)

Measure = Literal["lead", "distance", "largest effect"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of a plan: what the means might be."""

    means: tuple[float, ...]
    lead: float | None = None  # the lead of the right answer; None where means were given
    measure: Measure = "lead"  # what that number is: a lead, a distance from a level, the largest effect
    rates: bool = False  # whether means are rates, so that leads are in points
    unit: str = ""  # of leads that are no points
    baseline: float | None = None  # that leads are relative to
    name: str = ""  # of a row of a file

    @property
    def label(self) -> str:
        """The row in a table: "+2 points"."""
        if self.lead is None:
            return self.name or "as expected"
        return f"+{self._lead}" if self.lead else "nothing, all alike"

    @property
    def relative_lead(self) -> float | None:
        """The lead as a share of a positive baseline; None without either."""
        return self.lead / self.baseline if self.lead and self.baseline and self.baseline > 0 else None

    @property
    def both_leads(self) -> str:
        """The row in a table with the lead relative to the baseline: "+2 points (10 %)"."""
        share = self.relative_lead
        return self.label if share is None else f"{self.label} ({100 * share:.3g} %)"

    @property
    def given(self) -> str:
        """The row after "for" or "with": "a lead of 2 points"."""
        if self.lead is None:
            return f"'{self.name}'" if self.name else "these means"
        return f"a {self.measure} of {self._lead}" if self.lead else f"arms that are all {self._alike}"

    @property
    def condition(self) -> str:
        """The row after "if": "the lead is 2 points"."""
        if self.lead is None:
            return f"the means are {', '.join(f'{each:g}' for each in self.means)}"
        return f"the {self.measure} is {self._lead}" if self.lead else f"all arms are {self._alike}"

    @property
    def _alike(self) -> str:
        return "on the level" if self.measure == "distance" else "alike"

    @property
    def _lead(self) -> str:
        lead = self.lead or 0.0
        if not self.rates:
            return write_in_unit(f"{lead:.4g}", self.unit)
        points = float(f"{100 * lead:.6g}")
        return f"{points:g} point" + ("" if points == 1 else "s")


def parse_lead(text: str, baseline: str | float | None, what: str = "lead", noise: Noise | None = None) -> float:
    """Convert a lead, absolute or relative to the baseline, to units of the results.

    A share alone is a difference of rates, so it is refused where the `noise` model has results without limits.

    >>> parse_lead("2 points", None), parse_lead("10%-of-baseline", "30%")
    (0.02, 0.03)
    """
    relative = OF_BASELINE.fullmatch(text.strip())
    if relative is None:
        check_share(text, noise)
        return parse_quantity(text, option(what).strip("`"))
    if baseline is None:
        raise InputError(f"The lead is '{text}', but there is no baseline.", Remedy("Give {@baseline_example}."))
    part = parse_quantity(relative[1], option(what).strip("`"))
    return float(f"{part * abs(parse_quantity(baseline, 'baseline')):.12g}")


def check_share(text: str, noise: Noise | None) -> None:
    """Raise an InputError if a lead is a share of nothing: that of seconds or dollars needs a baseline."""
    if noise is not None and not noise.outcome.limited and SHARE.fullmatch(text):
        raise InputError(
            f"The lead is '{text.strip()}', but results are not rates.",
            Remedy("Give it in their unit, or as '1% of baseline'."),
        )


def needs_deviation(noise: Noise) -> bool:
    """Whether a plan depends on a deviation that the noise model does not say; a cap lies far beyond usual results."""
    return noise.estimates_variance or noise.outcome.clip


def measure_of(question: Question) -> Measure:
    """The quantity that a lead means for this question."""
    if question.level is not None:
        return "distance"
    return "lead" if question.reference_arm is None else "largest effect"


def build_ladder(
    question: Question,
    arms: Sequence[str],
    noise: Noise,
    baseline: float | None,
    leads: Sequence[float] | None,
    deviation: float | None = None,
    unit: str = "",
) -> tuple[Scenario, ...]:
    """Rows from the smallest lead to the largest; if leads are chosen here, the last row has none."""
    level = question.level
    if level is not None and baseline not in (None, level):
        raise InputError(
            f"Means are compared with the level {level:g}, and leads are distances from it. Leave out the baseline, "
            "or give the expected means."
        )
    centre = level if baseline is None else baseline
    if centre is None:
        raise InputError(
            "The plan needs to know what to expect of the arms.",
            Remedy("Give {@baseline_example}, the means, or a file of scenarios."),
        )
    low, high = noise.mean_range
    if not low < centre < high:
        raise InputError(f"The baseline must lie between {low:g} and {high:g}, the range of means; got {centre:g}.")
    if leads is None:
        deviation = float(np.median(deviations(noise, np.full(len(arms), centre), deviation)))
        found = [*_choose_leads(noise, deviation, question), 0.0]
    else:
        found = sorted({float(f"{each:.12g}") for each in leads})
    if not found or found[0] < 0:
        raise InputError("The leads must be positive numbers, for example 1%,2%,5%.")
    rows, base = [], centre if level is None else None
    about = Scenario(means=(), measure=measure_of(question), rates=noise.outcome.rates, unit=unit, baseline=base)
    for lead in found:
        means = question.means_with_lead(np.full(len(arms), centre), lead)
        if low <= means.min() and means.max() <= high:
            rows.append(replace(about, means=tuple(means.tolist()), lead=lead))
    if not rows:
        raise InputError(
            f"With the baseline {centre:g} and these leads the means leave their range, {low:g} to {high:g}."
        )
    return tuple(rows)


def _choose_leads(noise: Noise, deviation: float, question: Question) -> list[float]:
    """Three successive round numbers, the middle one a small effect, and the tolerance of the question."""
    many = noise.family is not None and not question.separate_claims  # results, as in a test on a page
    middle = deviation * (0.05 if many else 0.2)
    power = np.floor(np.log10(middle)) - 1
    numbers = np.array([step * 10.0 ** (power + i) for i in range(4) for step in STEPS])
    nearest = int(np.abs(np.log(numbers / middle)).argmin())
    found = {float(f"{each:.12g}") for each in numbers[nearest - 1 : nearest + 2]}
    return sorted(found | ({question.tolerance} if question.tolerance else set()))


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
        found.append(Scenario(means=means, name=f"scenario {number}" if label is None else row.text(label)))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The price of a result of each arm, the price of a round, and the days that a round takes."""

    sample: tuple[float, ...] | None = None  # one for each arm
    round: float = 0.0
    days: float | None = None  # of a round
    per_day: float | None = None  # results; days follow from them

    def __post_init__(self) -> None:
        if self.per_day is not None and (self.per_day <= 0 or self.days is not None):
            raise InputError("Give days per round, or a positive number of results per day, not both.")
        numbers = [*(self.sample or ()), self.round, self.days or 0.0, self.per_day or 0.0]
        if not all(math.isfinite(each) and each >= 0 for each in numbers):
            raise InputError("Costs and days must be numbers of at least 0.")

    @property
    def known(self) -> bool:
        """Whether anything has a price."""
        return bool(self.sample and any(self.sample)) or self.round > 0

    @property
    def timed(self) -> bool:
        """Whether it is known how long results take."""
        return self.days is not None or self.per_day is not None

    def days_of(self, samples: Floats, rounds: Floats) -> Floats:
        """Days that these results and rounds take, from the results per day, or from the days per round. ()"""
        return np.asarray(samples / self.per_day if self.per_day is not None else rounds * (self.days or 0.0))

    def of(self, counts: Floats, rounds: Floats) -> Floats:
        """The cost of these results and rounds; infinite for runs that never end. (K)->()"""
        prices = np.zeros(counts.shape[-1]) if self.sample is None else np.asarray(self.sample)
        ends = np.isfinite(rounds)
        cost = np.where(ends[..., None], counts, 0.0) @ prices + self.round * np.where(ends, rounds, 0.0)
        return np.where(ends, cost, np.inf)

    @property
    def price_of_round(self) -> float | None:
        """A round in results of average price: how the policy weighs it."""
        mean = float(np.mean(self.sample)) if self.sample else 0.0
        return self.round / mean if mean > 0 and self.round > 0 else None


def _by_name(given: object, what: str) -> dict[str, float] | None:
    """Numbers by the names of metrics, also as text: `errors=2%,latency=300`."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else {key: parse_quantity(value, what) for key, value in given.items()}
    pairs = [each.partition("=") for each in str(given).split(",")]
    if not all(sign for _, sign, _ in pairs):
        raise InputError(f"`{option(what).strip('`')}` is '{given}': give numbers by name, such as latency=300.")
    return {name.strip(): parse_quantity(value, what) for name, _, value in pairs}


@dataclass(frozen=True, kw_only=True)
class PlanRequest(StudySpec):
    """A study as `create_study` would make it, with what is expected of its arms and what results and rounds cost."""

    name: str = "study"
    noise: Noise = setting("noise", "Noise model by name, or your own module:Class.", None, example={"name": "binary"})
    baseline: float | None = setting("number", "Expected baseline rate or mean, e.g. 30%.", None)
    leads: tuple[float, ...] | None = setting(
        "numbers", "True leads to forecast, one row each, e.g. 1%,2% or 10%-of-baseline (default: from the lead).", None
    )
    means: tuple[float, ...] | None = setting("numbers", "Expected mean of every arm, e.g. 30%,31%,35%.", None)
    scenario: Path | None = setting("path", "CSV file of scenarios: one column per arm, one row per scenario.", None)
    pilot: object = setting(
        "path", "Past results: baseline, spread, skewness, missing share and traffic are taken from them.", None
    )
    target: str | float | None = setting("label", "Lead or scenario that the settings are optimized for.", None)
    sample_cost: tuple[float, ...] | None = setting("prices", "Price of a result: one number, or one per arm.", None)
    round_cost: float = setting("number", "Price of a round.", 0.0)
    round_days: float | None = setting("number", "Days per round.", None)
    per_day: float | None = setting("number", "Results per day, of all arms together.", None)
    missing: float = setting("number", "Expected share of missing results, e.g. 10%.", 0.0)
    deviation: float | None = setting(
        "number", "Standard deviation of one result, where the noise model leaves it open.", None
    )
    skewness: float = setting(
        "number", "Skewness of one result, where the noise model waits for enough results of each arm.", 0.0
    )
    item_correlation: float = setting(
        "number", "Correlation of two equally good arms on the same item, e.g. 30%.", ITEM_CORRELATION
    )
    metric_baseline: dict[str, float] | None = setting(
        "prices", "Expected baseline of further metrics by name, e.g. errors=2%,latency=300.", None
    )
    metric_deviation: dict[str, float] | None = setting(
        "prices", "Standard deviation of further metrics by name, e.g. latency=120.", None
    )
    power: float = setting("number", "Power of the proposed budget, and of the designs shown for comparison.", 0.9)
    runs: int = setting("whole", "Number of simulated studies per row.", 2000)
    seed: int = setting("whole", "Seed of the simulations: the same seed gives the same plan.", 1, least=0)

    budget_open: bool = False  # a lead without a budget: the planner proposes one
    past: Pilot | None = None  # what was taken from the pilot
    metric_skewness: dict[str, float] | None = None  # of further metrics, from the pilot

    @classmethod
    def declare(cls, **settings: Any) -> Self:
        """Build the request from declared settings; those not given are taken from the pilot, if there is one."""
        source = settings.get("pilot")
        if source is None:
            return super().declare(**settings)
        known = settings_of(StudySpec)
        for name in ("question", "noise", "columns", "reading", "metrics"):  # plain data, if they come as JSON
            if settings.get(name) is not None:
                settings[name] = known[name][0].parse(name, settings[name])
        question, noise = settings["question"], settings.get("noise")
        arms, control = [str(each) for each in settings["arms"]], question.reference_arm or 0
        columns, reading = settings.get("columns") or Columns(), settings.get("reading") or Reading()
        past = read_pilot(source, arms, control, columns, reading, noise)
        noise = past.proposed[0] if noise is None else noise
        spread = past.spread(noise)
        taken: dict[str, Any] = {"noise": noise, "past": past, "missing": past.missing}
        for each in settings.get("metrics") or ():
            own = replace(columns, outcome=each.title, denominator=each.denominator, covariate=None)
            rules = replace(reading, share_above=None, share_below=None)
            other = read_pilot(source, arms, control, own, rules, each.noise)
            for what, value in zip(OF_METRICS, other.spread(each.noise)[:3], strict=True):
                settings[what] = {each.name: value} | (_by_name(settings.get(what), what) or {})
        if noise.estimates_variance or (noise.outcome.limited and noise.family is None):
            taken["deviation"] = spread.deviation
        if noise.needs == "cubes":
            taken["skewness"] = spread.skewness
        if settings.get("round_days") is None:
            taken["per_day"] = past.per_day
        if question.level is None and settings.get("means") is None and settings.get("scenario") is None:
            taken["baseline"] = float(f"{spread.mean:.4g}")
        usual = {"missing": 0.0, "skewness": 0.0}
        unsaid = {key: value for key, value in taken.items() if settings.get(key) in (None, usual.get(key))}
        return super().declare(**settings | unsaid)

    def __post_init__(self) -> None:
        if self.noise is None:
            raise InputError("The plan needs a noise model.", Remedy("Give one, or {@pilot}: they propose one."))
        noise = settings_of(StudySpec)["noise"][0].parse("noise", self.noise)
        if isinstance(self.lead, str):
            object.__setattr__(self, "lead", parse_lead(self.lead, self.baseline, noise=noise))
        if isinstance(self.leads, str | list | tuple):
            leads = self.leads.replace(";", ",").split(",") if isinstance(self.leads, str) else self.leads
            read = partial(parse_lead, baseline=self.baseline, what="leads", noise=noise)
            found = (read(each) if isinstance(each, str) else each for each in leads)
            object.__setattr__(self, "leads", tuple(found))
        question = settings_of(StudySpec)["question"][0].parse("question", self.question)
        if self.lead is not None and self.leads is None and self.policy is None and question.separate_claims:
            object.__setattr__(self, "leads", (self.lead,))  # claims are not designed for a lead: it is forecast
            object.__setattr__(self, "lead", None)
        if self.lead is not None and self.budget is None and self.policy is None:
            object.__setattr__(self, "budget", PROVISIONAL * len(self.arms))
            object.__setattr__(self, "budget_open", True)
        for what in ("metric_baseline", "metric_deviation"):
            object.__setattr__(self, what, _by_name(vars(self)[what], what))
        super().__post_init__()
        if needs_deviation(self.noise) and self.deviation is None:
            raise InputError(
                "The plan depends on the standard deviation of a result, which the noise model leaves open.",
                Remedy("Give {@deviation}, roughly, or {@pilot}."),
            )
        if self.sample_cost is not None:
            object.__setattr__(self, "sample_cost", one_for_each(self.sample_cost, self.arms, "sample cost"))
        if self.max_cost is not None:
            raise InputError("A plan says what a study costs, whatever it may: leave out the largest cost.")
        if self.list is not None and self.missing:
            raise InputError("Results of a list that are missing are asked for again: leave them out of the plan.")
        if not 0 <= self.missing < 1:
            raise InputError(f"`missing` must be a share of the results, at least 0 and below 1; got {self.missing:g}.")
        if not 0 < self.power < 1:
            raise InputError(f"`power` must be between 0 and 1 (exclusive); got {self.power:g}.")
        if sum(each is not None for each in (self.baseline, self.means, self.scenario)) > 1:
            raise InputError("Give one of baseline (with leads), means and scenario.")
        if self.leads is not None and (self.means is not None or self.scenario is not None):
            raise InputError("Leads need a baseline; leave them out with means or scenarios.")
        _ = self.costs  # checked

    def _of_metric(self, metric: Metric) -> dict[str, Any]:
        """With what is expected of this metric, and its share of delta: as high a bar as in the study.

        A guardrail is forecast if no arm differs from the control.
        """
        name, needed = metric.name, needs_deviation(metric.noise)
        baseline, deviation = (self.metric_baseline or {}).get(name), (self.metric_deviation or {}).get(name)
        if baseline is None or (needed and deviation is None):
            what = "metric_baseline" if baseline is None else "metric_deviation"
            raise InputError(
                f"The plan depends on the {'baseline' if baseline is None else 'standard deviation'} of '{name}'.",
                Remedy(f"Give {{@{what}}}, for example {{metric}}=300, or {{@pilot}}.", metric=name),
            )
        return super()._of_metric(metric) | {
            "delta": self.delta / (1 + len(self.metrics)),
            "deviation": deviation,
            "means": (baseline,) * len(self.arms),
            **dict.fromkeys(("baseline", "scenario", "leads", "lead", "target", "past", "pilot")),
            "skewness": (self.metric_skewness or {}).get(name, 0.0) if metric.noise.needs == "cubes" else 0.0,
        }

    @property
    def costs(self) -> Costs:
        sample = self.prices if self.sample_cost is None else self.sample_cost
        return Costs(sample=sample, round=self.round_cost, days=self.round_days, per_day=self.per_day)

    def rows(self) -> tuple[Scenario, ...]:
        """The rows of the plan: the scenarios of a file, the given means, or a ladder of leads."""
        if self.means is not None:
            if len(self.means) != len(self.arms):
                raise InputError(f"There are {len(self.means)} means, but {len(self.arms)} arms. Give one for each.")
            found: tuple[Scenario, ...] = (Scenario(means=self.means),)
        elif self.scenario is not None:
            found = read_scenarios(Path(self.scenario), self.arms)
        else:
            leads = self.leads
            if self.lead is not None:
                leads = tuple(each * self.lead for each in OF_LEAD) if leads is None else (*leads, self.lead)
            unit = self.unit or ""
            found = build_ladder(self.question, self.arms, self.noise, self.baseline, leads, self.deviation, unit)
        for each in found:
            self.world(each.means)  # refuses means that cannot be
        return found

    def world(self, means: Sequence[float] | Sequence[Sequence[float]]) -> Environment:
        """The simulated world; with several rows of means, run i has row i modulo their number."""
        rows = np.asarray(means, dtype=np.float64)
        if self.list is not None or self.noise.shares_items:
            items = ExchangeableItems(
                self.noise, np.atleast_2d(rows), self.item_correlation, self.missing, self.deviation
            )
            return items if self.list is None else ExchangeableList(items, len(self.list))
        world = world_of(self.noise, rows, self.deviation, self.skewness)
        world = world if self.columns.denominator is None else RatioArms(world)
        return IncompleteResults(world, self.missing) if self.missing else world
