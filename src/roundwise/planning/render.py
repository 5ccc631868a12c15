"""A plan on the terminal, in a notebook, and as a page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Protocol

from roundwise.planning.alternatives import PlanAlternative
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.request import PlanRequest
from roundwise.planning.rows import PlanRow
from roundwise.planning.tradeoff import TradeoffPoint
from roundwise.planning.wording import what_if
from roundwise.render.html import render_card, render_page
from roundwise.render.svg import Svg
from roundwise.study.study import asked_in_words

Table = list[list[str]]
LINE = 80  # letters of a line on a terminal
KEPT = "\N{NO-BREAK SPACE}"
HEADS = {
    "lead": "if it is ahead by",
    "distance": "if they are off the level by",
    "largest effect": "if the largest effect is",
}


class PlanView(Protocol):
    """What a page or a figure shows of a plan."""

    @property
    def request(self) -> PlanRequest:
        """What is planned, with the recommended settings."""

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """What it takes."""

    @property
    def target(self) -> int:
        """The row that the settings are chosen for."""

    @property
    def row(self) -> PlanRow:
        """That row."""

    @property
    def front(self) -> tuple[TradeoffPoint, ...]:
        """Settings, and what they take."""

    @property
    def words(self) -> str:
        """What it means."""

    @property
    def alternatives(self) -> tuple[PlanAlternative, ...]:
        """Easier questions, or larger budgets."""

    @property
    def protocol(self) -> str:
        """A paragraph for a protocol."""

    @property
    def command(self) -> str:
        """The command that creates the study."""


def text_of(plan: PlanView) -> str:
    """The plan for a terminal."""
    blocks = [heading(plan) + "\n", *_aligned(row_table(plan)), ""]
    if any(row.claims for row in plan.rows):
        blocks += ["Power" + _within(plan) + ":", *_aligned(power_table(plan)), ""]
    blocks += [*_wrapped(f"In words. {plan.words}"), ""]
    if plan.alternatives:
        blocks += ["Alternatives:", *(f"- {each.words}" for each in plan.alternatives), ""]
    beside = beside_words(plan)
    blocks += [*_wrapped(f"Beside it. {beside}"), ""] if beside else []
    if len(plan.front) > 1:
        blocks += [f"Settings, for {what_if(plan.row)}:", *_aligned(front_table(plan)), ""]
    blocks += [*_wrapped(f"For a protocol. {plan.protocol}"), ""]
    return "\n".join([*blocks, f"Create it: {plan.command}"])


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(text.replace(" %", f"{KEPT}%"), LINE, break_on_hyphens=False, break_long_words=False)
    return [line.replace(f"{KEPT}%", " %") for line in lines]


def heading(plan: PlanView) -> str:
    """What is planned, in one line."""
    request = plan.request
    return f"Plan of '{request.name}': {asked_in_words(request)} Error at most {request.delta:g}."


def row_lines(plan: PlanView) -> list[str]:
    """The rows as lines of text: what is shown while the rest is computed."""
    return _aligned(row_table(plan))


def row_table(plan: PlanView) -> Table:
    """What it takes, a line for each row."""
    request, rows = plan.request, plan.rows
    days, cost = request.costs.days is not None, request.costs.known
    head = [
        HEADS[rows[0].expected.noun] if rows[0].expected.lead is not None else "if",
        "typical results",
        "19 in 20",
        "rounds",
        "19 in 20",
    ]
    head += ["days", "19 in 20"] if days else []
    head += ["cost", "19 in 20"] if cost else []
    what = "a true claim" if rows[0].claims else "answer"
    head += [] if request.budget is None else [f"{what} within {exact(request.budget)}"]
    head += ["a fixed design", "lower bound"]
    table = [head]
    for i, row in enumerate(rows):
        line = [("> " if i == plan.target and len(rows) > 1 else "") + row.expected.label]
        line += [
            whole(row.samples.typical),
            _or(row, row.samples.p95),
            _or(row, row.batches.typical),
            _or(row, row.batches.p95),
        ]
        line += [_or(row, row.days.typical), _or(row, row.days.p95)] if row.days is not None else []
        line += [_or(row, row.cost.typical), _or(row, row.cost.p95)] if row.cost is not None else []
        line += [] if row.within_budget is None else [_chance(row.at_least_one if row.claims else row.within_budget)]
        line += ["-" if row.fixed is None else whole(row.fixed.samples)]
        line += ["-" if row.lower_bound is None else whole(row.lower_bound)]
        table.append(line)
    return table


def power_table(plan: PlanView) -> Table:
    """How likely each claim is shown."""
    rows = [row for row in plan.rows if row.claims]
    claims = [each.claim for each in rows[0].claims]
    table = [["claim", *(row.expected.label for row in rows)]]
    for j, claim in enumerate(claims):
        table.append([claim, *(_power(row.claims[j].power, row.claims[j].true) for row in rows)])
    table.append(["at least one that is true", *(_chance(row.at_least_one) for row in rows)])
    table.append(["all that are true", *(_chance(row.all_true) for row in rows)])
    table.append(["any that is false", *(_chance(row.any_false) for row in rows)])
    return table


def front_table(plan: PlanView) -> Table:
    """What other settings take."""
    days = any(each.mean_days is not None for each in plan.front)
    cost = any(each.mean_cost is not None for each in plan.front)
    power = any(each.power is not None for each in plan.front)
    head = [
        "settings",
        "results on average",
        "rounds on average",
        *(["days"] if days else []),
        *(["cost"] if cost else []),
        *(["a true claim"] if power else []),
        "",
    ]
    table = [head]
    for each in plan.front:
        line = [each.words, whole(each.mean_samples), f"{each.mean_batches:.1f}"]
        line += [whole(each.mean_days or 0.0)] if days else []
        line += [whole(each.mean_cost or 0.0)] if cost else []
        line += [share(each.power or 0.0)] if power else []
        table.append([*line, "recommended" if each.recommended else ""])
    return table


def beside_words(plan: PlanView) -> str:
    """What others need in the row that matters: a fixed design, one with looks, and any method at all."""
    row = plan.row
    said = [] if row.fixed is None else [fixed_words(row)]
    if row.lower_bound is not None:
        said.append(f"No method with this error needs fewer than {whole(row.lower_bound)} on average.")
    return " ".join(said)


def fixed_words(row: PlanRow) -> str:
    """What a fixed design needs, in a sentence or two."""
    assert row.fixed is not None
    fixed, looks = row.fixed, row.fixed.sequential
    how = f"{fixed.method}, power {share(fixed.power)}"
    said = f"For {what_if(row)} a fixed design ({how}) needs {whole(fixed.samples)} results."
    if looks is not None:
        said += (
            f" With {looks.looks} looks (O'Brien-Fleming) it needs at most {whole(looks.most)}, and "
            f"{whole(looks.expected)} on average."
        )
    return said


def render_plan(plan: PlanView, charts: Sequence[Svg]) -> str:
    """Render a plan as a page of its own, with its charts."""
    return render_page("plan_page.html", **_parts(plan), charts=charts)


def render_plan_card(plan: PlanView) -> str:
    """Render a plan for a notebook."""
    return render_card("plan_parts.html", **_parts(plan))


def _parts(plan: PlanView) -> dict[str, Any]:
    return {
        "plan": plan,
        "title": heading(plan),
        "rows": [[cell.removeprefix("> ") for cell in row] for row in row_table(plan)],
        "within": _within(plan),
        "power": power_table(plan) if any(row.claims for row in plan.rows) else [],
        "beside": beside_words(plan),
        "settings": front_table(plan) if len(plan.front) > 1 else [],
        "what_if": what_if(plan.row),
    }


def _within(plan: PlanView) -> str:
    return "" if plan.request.budget is None else f" within {exact(plan.request.budget)} results"


def _power(power: float, true: bool) -> str:
    return share(power) + ("" if true else " (false)")


def _chance(value: float | None) -> str:
    return "-" if value is None else share(value)


def _or(row: PlanRow, value: float) -> str:
    return whole(value) if math.isfinite(value) or row.answerable else ""


def _aligned(table: Table) -> list[str]:
    """A table in columns; where it is too wide for a terminal, its head has several lines."""
    cells = [max(len(row[i]) for row in table[1:]) for i in range(len(table[0]))]
    widths = [max(len(title), width) for title, width in zip(table[0], cells, strict=True)]
    head = [[title] for title in table[0]]
    if sum(widths) + 2 * len(widths) - 2 > LINE:
        whole_ones = {"19 in 20": f"19{KEPT}in{KEPT}20", "a fixed design": f"a{KEPT}fixed design"}
        titles = [whole_ones.get(title, title) for title in table[0]]
        widths = [max(width, *map(len, title.split(" "))) for title, width in zip(titles, cells, strict=True)]
        head = [textwrap.wrap(title, width) for title, width in zip(titles, widths, strict=True)]
    tall = max(len(each) for each in head)
    rows = [[each[i - tall] if len(each) >= tall - i else "" for each in head] for i in range(tall)]
    lines = []
    for row in [*rows, *table[1:]]:
        put = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(put).rstrip())
    return lines
