"""A plan: forecasts and settings in numbers, words, a page and a figure, and the command that creates the study."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote

from roundwise.arrays import Plain, plain_json
from roundwise.errors import DataError, InputError, RoundwiseError
from roundwise.messages import Remedy
from roundwise.model.spec import Thing, class_name, to_spec
from roundwise.planning.alternatives import CapEffect, PlanAlternative
from roundwise.planning.budgets import BudgetProposal, MetricNeed
from roundwise.planning.charts import draw_plan
from roundwise.planning.comparison import ComparedDesign, StoppingLeads
from roundwise.planning.fixed_designs import FixedDesign
from roundwise.planning.forecast import takes_line
from roundwise.planning.render import describe_plan, describe_protocol, plan_parts, render_text
from roundwise.planning.request import PlanRequest, Scenario, measure_of
from roundwise.planning.rows import PlanRow
from roundwise.planning.tradeoff import TradeoffPoint, policy_words
from roundwise.policies import usual_policy
from roundwise.render.html import render_card, render_page
from roundwise.render.svg import render_file
from roundwise.study.spec import StudySpec

PLAN_FORMAT = "roundwise plan 1"


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """The forecast of a study: a row per scenario, recommended settings, and text for a protocol.

    Attributes:
        request: The planned study, expected means and costs.
        rows: The forecast of each scenario.
        target: The index of the row that the settings are chosen for.
        front: Settings with their results and rounds, the recommended one marked.
        alternatives: Easier questions, where the target is out of reach.
        budgets: The budget for each power.
        compared: Textbook designs with the same budget.
        caps: The effect of caps, for a pilot of any shape.
        metrics: The results that each metric needs.
        runs: The number of simulated studies per row.
        boundary: The lead that ends a designed study at each look.
    """

    request: PlanRequest  # with the recommended settings
    rows: tuple[PlanRow, ...]
    target: int  # the row that the settings are chosen for
    front: tuple[TradeoffPoint, ...]
    alternatives: tuple[PlanAlternative, ...] = ()
    budgets: tuple[BudgetProposal, ...]  # by power, for a lead without a budget
    compared: tuple[ComparedDesign, ...] = ()  # textbook designs with the same budget, and ours last
    caps: tuple[CapEffect, ...] = ()  # what a cap changes, from a pilot; the first is without one
    metrics: tuple[MetricNeed, ...] = ()  # what each needs, the main one first, where there are several
    runs: int  # of each row, unless its rounds are many
    boundary: tuple[StoppingLeads, ...] = ()  # of a designed study, and of textbook designs

    @property
    def row(self) -> PlanRow:
        """The row that the settings are chosen for."""
        return self.rows[self.target]

    @property
    def recommended(self) -> TradeoffPoint | None:
        """The recommended settings."""
        return next((each for each in self.front if each.recommended), None)

    @property
    def fixed_design(self) -> FixedDesign | None:
        """The sample size of a fixed design in that row."""
        return self.row.fixed

    @property
    def lower_bound(self) -> float | None:
        """The lower bound on results in that row."""
        return self.row.lower_bound

    @cached_property
    def words(self) -> str:
        """The plan in a few sentences."""
        return describe_plan(self)

    @property
    def protocol(self) -> str:
        """A paragraph for a protocol."""
        return describe_protocol(self)

    @property
    def command(self) -> str:
        """The command that creates the study."""
        return _new_command(self.request) or f"roundwise new {quote(self.request.name)} --from-plan FILE"

    def _settings(self) -> Plain:
        """The settings of the study as JSON, without its seed, which is drawn later, and what follows from it."""
        found = {key: value for key, value in self.request.to_json().items() if key[:4] != "seed"}
        if self.request.list is not None:
            found["list"] = {key: value for key, value in found["list"].items() if key != "digest"}
        return found

    def plain(self) -> Plain:
        """The plan as JSON; `settings` is what `new --from-plan` reads."""
        return {
            "format": PLAN_FORMAT,
            "name": self.request.name,
            "rows": [row.plain() for row in self.rows],
            "target": self.target,
            "recommended": {
                "policy": policy_words(self.request.policy, self.request),
                "tradeoff": [each.plain() for each in self.front],
                "settings": self._settings(),
            },
            "fixed_design": None if self.fixed_design is None else dataclasses.asdict(self.fixed_design),
            "lower_bound": self.lower_bound,
            "alternatives": [dataclasses.asdict(each) for each in self.alternatives],
            "compared": [dataclasses.asdict(each) for each in self.compared],
            "budgets": [vars(each) for each in self.budgets],
            "boundary": [dataclasses.asdict(each) for each in self.boundary],
            "pilot": None if self.request.past is None else self.request.past.plain(self.request.noise),
            "caps": [each.plain() for each in self.caps],
            "metrics": [dataclasses.asdict(each) for each in self.metrics],
            "words": self.words,
            "protocol": self.protocol,
            "command": self.command,
            "seed": self.request.seed,
            "runs": self.runs,
        }

    def json(self) -> str:
        """The plan as JSON text; infinite numbers are null."""
        return json.dumps(plain_json(self.plain()), indent=2, allow_nan=False)

    def text(self) -> str:
        """The plan for a terminal."""
        return render_text(self)

    def html(self) -> str:
        """The plan as a self-contained page."""
        return render_page("plan_page.html", **plan_parts(self), charts=[chart.render() for chart in draw_plan(self)])

    def _repr_html_(self) -> str | None:
        """The plan in a notebook; None, for plain text, without Jinja2."""
        try:
            return render_card("plan_parts.html", **plan_parts(self))
        except InputError:
            return None

    def figure(self) -> str:
        """A figure for a protocol, as SVG: trade-off, results, rounds, power by lead, boundary."""
        return render_file(draw_plan(self))


def read_plan(path: Path) -> tuple[StudySpec, str]:
    """The settings that a plan recommends, from the file that it was written to, and its forecast in a line."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != PLAN_FORMAT:
            raise KeyError
        settings = StudySpec.from_json(found["recommended"]["settings"])
        row = found["rows"][found["target"]]
        lead, amounts = row["lead"], (row["samples"]["typical"], row["rounds"]["typical"])
        scenario = Scenario(
            means=tuple(row["means"]),
            lead=None if lead is None else float(lead),
            measure=measure_of(settings.question),
            rates=settings.noise.outcome.rates,
            unit=settings.unit or "",
        )
        forecast = takes_line(scenario.condition, *(math.inf if each is None else each for each in amounts))
    except RoundwiseError as error:
        raise DataError(f"{path}: the settings of this plan cannot be used: {error}") from None
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.", Remedy("Write a plan with {@plan_file}.")) from None
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError):
        raise DataError(f"{path} is not a plan.", Remedy("Write one with {@plan_file}.")) from None
    return settings, forecast


def _new_command(request: PlanRequest) -> str | None:
    """The `roundwise new` command that creates the study; None where it needs a file."""
    try:
        question, noise = _question_options(request), _noise_options(request)
    except InputError:  # a class that cannot be found again
        return None
    others = request.reading.arm_names
    if question is None or request.metrics or any("," in name for name in (*request.arms, *others)):
        return None
    words = ["roundwise", "new", request.name, *question, "--arms", ",".join(request.arms), *noise]
    words += ["--delta", f"{request.delta:.12g}"]
    policy = policy_words(request.policy, request)
    if request.list is not None:
        words += request.list.flags
    elif policy != usual_policy(request.question, request.budget is not None, len(request.arms)).name:
        words += ["--policy", policy]
    most, least = request.limited_policy.max_batch, request.limited_policy.min_per_arm
    words += [] if most is None else ["--max-round-size", f"{most:g}"]
    words += ["--min-per-arm", f"{least:g}"] if least else []
    words += [] if request.round_size is None else ["--round-size", str(request.round_size)]
    words += [] if request.split is None else ["--split", ":".join(f"{each:g}" for each in request.split)]
    words += [] if request.budget is None else ["--budget", str(int(request.budget))]
    words += [] if request.lead is None else ["--lead", f"{request.lead:.12g}"]
    words += [] if request.looks is None else ["--looks", str(request.looks)]
    words += [] if request.prices is None else ["--prices", ",".join(f"{each:.12g}" for each in request.prices)]
    for what, column in request.columns.payload().items():
        words += [f"--{what}-column", column] if request.list is None or (what, column) != ("item", "item") else []
    said = request.reading.payload() | ({"arm_names": ",".join(map("=".join, others.items()))} if others else {})
    for rule, value in said.items():
        words += [f"--{rule.replace('_', '-')}", str(value)]
    words += [] if request.unit is None else ["--unit", request.unit]
    return " ".join(quote(each) for each in words)


def _noise_options(request: PlanRequest) -> Sequence[str]:
    noise = request.noise
    if noise.flags is None:
        return ["--noise", _named(noise)]
    return [*noise.flags, *(["--items"] if noise.shares_items else [])]


def _question_options(request: PlanRequest) -> Sequence[str] | None:
    question = request.question
    if ":" in class_name(question):
        return ["--question", _named(question)]
    found = question.cli_options(request.arms)
    return None if found is None else ["--question", question.name, *found]


def _named(thing: Thing) -> str:
    settings = ",".join(f"{key}={value}" for key, value in to_spec(thing).items() if key != "name")
    return class_name(thing) + (f":{settings}" if settings else "")
