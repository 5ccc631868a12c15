"""A plan in tables and words: on the terminal, in a notebook, as a page and for a protocol."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roundwise.planning.forecast import exact, most_in_a_round, plural, share, whole
from roundwise.planning.rows import PlanRow
from roundwise.policies.base import as_rounds
from roundwise.render.html import render_card, render_page
from roundwise.render.svg import Svg
from roundwise.study.study import asked_in_words

if TYPE_CHECKING:
    from roundwise.planning.study_plan import StudyPlan

Table = list[list[str]]
LINE = 80  # letters of a line on a terminal
KEPT = "\N{NO-BREAK SPACE}"
HEADS = {
    "lead": "if it is ahead by",
    "distance": "if they are off the level by",
    "largest effect": "if the largest effect is",
}


def render_text(plan: StudyPlan) -> str:
    """Render a plan for a terminal."""
    blocks = [_heading(plan) + "\n", *row_lines(plan), ""]
    if any(row.claims for row in plan.rows):
        blocks += [f"Power{_within(plan)}:", *_align(power_table(plan)), ""]
    blocks += [*_wrap(f"In words. {plan.words}"), ""]
    if plan.alternatives:
        blocks += ["Alternatives:", *(f"- {each.words}" for each in plan.alternatives), ""]
    compared = _comparison(plan)
    blocks += [*_wrap(f"For comparison. {compared}"), ""] if compared else []
    if len(plan.front) > 1:
        blocks += [f"Settings, for {plan.row.expected.given}:", *_align(front_table(plan)), ""]
    blocks += [*_wrap(f"For a protocol. {plan.protocol}"), ""]
    return "\n".join([*blocks, f"Create it: {plan.command}"])


def render_plan(plan: StudyPlan, charts: Sequence[Svg]) -> str:
    """Render a plan as a page of its own, with its charts."""
    return render_page("plan_page.html", **_page_values(plan), charts=charts)


def render_plan_card(plan: StudyPlan) -> str:
    """Render a plan for a notebook."""
    return render_card("plan_parts.html", **_page_values(plan))


def _page_values(plan: StudyPlan) -> dict[str, Any]:
    return {
        "plan": plan,
        "title": _heading(plan),
        "rows": row_table(plan),
        "within": _within(plan),
        "power": power_table(plan) if any(row.claims for row in plan.rows) else [],
        "compared": _comparison(plan),
        "settings": front_table(plan) if len(plan.front) > 1 else [],
    }


def row_lines(plan: StudyPlan) -> list[str]:
    """The rows as lines of text, the target marked: also shown while the rest is computed."""
    table = row_table(plan)
    if len(plan.rows) > 1:
        table[1 + plan.target][0] = f"> {table[1 + plan.target][0]}"
    return _align(table)


# --- tables, the first row is the head


def row_table(plan: StudyPlan) -> Table:
    """What it takes, a line for each row."""
    request, rows = plan.request, plan.rows
    first = rows[0]
    head = [HEADS[first.expected.measure] if first.expected.lead is not None else "if", "typical results", "19 in 20"]
    head += ["rounds", "19 in 20"]
    head += [] if request.costs.days is None else ["days", "19 in 20"]
    head += ["cost", "19 in 20"] if request.costs.known else []
    what = "a true claim" if first.claims else "answer"
    head += [] if request.budget is None else [f"{what} within {exact(request.budget)}"]
    table = [[*head, "a fixed design", "lower bound"]]
    for row in rows:
        line = [row.expected.label]
        for amount in (row.samples, row.rounds, row.days, row.cost):
            if amount is not None:
                line += [whole(each) if math.isfinite(each) or row.answerable else "" for each in vars(amount).values()]
        line[1] = whole(row.samples.typical)
        line += [] if row.within_budget is None else [_chance(row.at_least_one if row.claims else row.within_budget)]
        line.append("-" if row.fixed is None else whole(row.fixed.samples))
        table.append([*line, "-" if row.lower_bound is None else whole(row.lower_bound)])
    return table


def power_table(plan: StudyPlan) -> Table:
    """How likely each claim is shown."""
    rows = [row for row in plan.rows if row.claims]
    table = [["claim", *(row.expected.label for row in rows)]]
    for of_rows in zip(*(row.claims for row in rows), strict=True):
        chances = [share(each.power) + ("" if each.true else " (false)") for each in of_rows]
        table.append([of_rows[0].claim, *chances])
    table.append(["at least one that is true", *(_chance(row.at_least_one) for row in rows)])
    table.append(["all that are true", *(_chance(row.all_true) for row in rows)])
    table.append(["any that is false", *(_chance(row.any_false) for row in rows)])
    return table


def front_table(plan: StudyPlan) -> Table:
    """What other settings take."""
    costs, power = plan.request.costs, any(each.power is not None for each in plan.front)
    head = ["settings", "results on average", "rounds on average"]
    head += [] if costs.days is None else ["days"]
    head += ["cost"] if costs.known else []
    table = [[*head, *(["a true claim"] if power else []), ""]]
    for each in plan.front:
        line = [each.words, whole(each.mean_samples), f"{each.mean_rounds:.1f}"]
        line += [] if each.mean_days is None else [whole(each.mean_days)]
        line += [] if each.mean_cost is None else [whole(each.mean_cost)]
        line += [share(each.power or 0.0)] if power else []
        table.append([*line, "recommended" if each.recommended else ""])
    return table


def _chance(value: float | None) -> str:
    return "-" if value is None else share(value)


def _align(table: Table) -> list[str]:
    """A table in columns; where it is too wide for a terminal, its head has several lines."""
    cells = [max(len(row[i]) for row in table[1:]) for i in range(len(table[0]))]
    widths = [max(len(title), width) for title, width in zip(table[0], cells, strict=True)]
    head = [[title] for title in table[0]]
    if sum(widths) + 2 * len(widths) - 2 > LINE:
        unbroken = {"19 in 20": f"19{KEPT}in{KEPT}20", "a fixed design": f"a{KEPT}fixed design"}
        titles = [unbroken.get(title, title) for title in table[0]]
        widths = [max(width, *map(len, title.split(" "))) for title, width in zip(titles, cells, strict=True)]
        head = [textwrap.wrap(title, width) for title, width in zip(titles, widths, strict=True)]
    tall = max(len(each) for each in head)
    rows = [[each[i - tall] if len(each) >= tall - i else "" for each in head] for i in range(tall)]
    lines = []
    for row in [*rows, *table[1:]]:
        put = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(put).rstrip())
    return lines


def _wrap(text: str) -> list[str]:
    lines = textwrap.wrap(text.replace(" %", f"{KEPT}%"), LINE, break_on_hyphens=False, break_long_words=False)
    return [line.replace(f"{KEPT}%", " %") for line in lines]


# --- sentences


def _heading(plan: StudyPlan) -> str:
    request = plan.request
    return f"Plan of '{request.name}': {asked_in_words(request)} Error at most {request.delta:g}."


def _within(plan: StudyPlan) -> str:
    return "" if plan.request.budget is None else f" within {exact(plan.request.budget)} results"


def _comparison(plan: StudyPlan) -> str:
    """What others need in the row that matters: a fixed design, one with looks, and any method at all."""
    row = plan.row
    said = [] if row.fixed is None else [describe_fixed_design(row)]
    if row.lower_bound is not None:
        said.append(f"No method with this error needs fewer than {whole(row.lower_bound)} on average.")
    return " ".join(said)


def describe_fixed_design(row: PlanRow) -> str:
    """What a fixed design needs, in a sentence or two; nothing where there is none."""
    if row.fixed is None:
        return ""
    fixed, looks = row.fixed, row.fixed.sequential
    how = f"{fixed.method}, power {share(fixed.power)}"
    said = f"For {row.expected.given} a fixed design ({how}) needs {whole(fixed.samples)} results."
    if looks is None:
        return said
    return (
        f"{said} With {looks.looks} looks (O'Brien-Fleming) it needs at most {whole(looks.most)}, and "
        f"{whole(looks.expected)} on average."
    )


def describe_plan(plan: StudyPlan) -> str:
    """What the table says, as one would tell it to a colleague."""
    budget, target = plan.request.budget, plan.row
    if target.claims and budget is not None:
        return _describe_claims(plan)
    said = "" if budget is None else _describe_budget(plan) + " "
    if not target.answerable:
        return f"{said}With {target.expected.given} no number of results is sure to give an answer."
    time = "" if target.days is None else f" ({plural(target.days.p95, 'day')})"
    money = "" if target.cost is None else f", at a cost of {whole(target.cost.p95)}"
    return (
        f"{said}For {target.expected.given} plan {whole(target.samples.p95)} results in "
        f"{plural(target.rounds.p95, 'round')}{time}{money}: 19 of 20 studies end by then, half of them with "
        f"{whole(target.samples.typical)} in {whole(target.rounds.typical)}."
    )


def _describe_claims(plan: StudyPlan) -> str:
    """The chance of claims within the budget."""
    rows, said, best = plan.rows, "", ""
    some = [row for row in rows if row.at_least_one is not None]
    if some:
        chances = [f"in {share(row.at_least_one or 0.0)} of studies with {row.expected.given}" for row in some]
        said = f"With {exact(plan.request.budget or 0)} results at least one true claim is shown {', '.join(chances)}. "
        row = some[-1] if some[-1].expected.lead else some[0]
        first = max(row.claims, key=lambda each: each.power if each.true else -1.0)
        best = f" The surest claim with {row.expected.given} is '{first.claim}': {share(first.power)}."
    worst = max(rows, key=lambda row: row.any_false or 0.0)
    often = f"in none of {worst.runs} simulated studies" if not worst.any_false else f"in {share(worst.any_false)}"
    at_most = " at most" if len(rows) > 1 and worst.any_false else ""
    return f"{said}A false one is shown {often}{at_most}.{best}"


def _describe_budget(plan: StudyPlan) -> str:
    """The chance of an answer within the budget, from easy rows to hard ones."""
    budget = exact(plan.request.budget or 0)
    chances = [(row.within_budget or 0.0, row) for row in plan.rows]
    sure = [row for chance, row in chances if chance >= 0.9 and row.answerable]
    rare = [row for chance, row in chances if chance <= 0.2 and row.answerable]
    some = sorted((each for each in chances if 0.2 < each[0] < 0.9), key=lambda each: -each[0])
    said = [f"almost surely for {min(sure, key=_lead).expected.given}"] if sure else []
    said += [f"in {share(chance)} of such studies for {row.expected.given}" for chance, row in some]
    said += [f"hardly ever for {max(rare, key=_lead).expected.given}"] if rare else []
    if not said:
        return f"With {budget} results there is no answer for anything in this table."
    return f"With {budget} results you will have an answer {', '.join(said)}."


def _lead(row: PlanRow) -> float:
    return row.expected.lead or 0.0


def describe_protocol(plan: StudyPlan) -> str:
    """A paragraph to copy into a protocol."""
    request, row, arms = plan.request, plan.row, plan.request.arms
    options = ", ".join(arms) if len(arms) <= 8 else f"{', '.join(arms[:3])}, ... ({len(arms)} in all)"
    first = int(request.acting.first(request.problem, ()).pulls.sum())
    most, fixed = most_in_a_round(request.acting), as_rounds(request.acting).size is not None
    limits = "" if most is None else f" of {'' if fixed else 'at most '}{exact(most)} results"
    how = "with more for the control" if request.question.separate_claims else "in equal shares"
    if request.split is not None:
        how = f"in the proportions {':'.join(f'{each:g}' for each in request.split)}"
    rule = request.policy.stopping.describe(request.delta)
    if not rule:
        rule = f"Rounds are planned and the end is decided by the rule of {request.policy.name}, fixed in advance."
    ends = "when every claim is shown or has no chance any more" if row.claims else "when everything is settled"
    if request.budget is not None:
        undecided = "shown" if row.claims else "ruled out"
        ends += f", or after {exact(request.budget)} results; what is not {undecided} by then is reported"
    power = ""
    if row.answerable:
        chance = ""
        if row.claims and row.at_least_one is not None:
            chance = f"; at least one true claim is shown with probability {share(row.at_least_one)}"
        elif request.budget is not None and row.within_budget is not None:
            chance = f"; an answer within {exact(request.budget)} results has probability {share(row.within_budget)}"
        power = (
            f" If {row.expected.condition}, simulation ({row.runs} runs) gives a median of "
            f"{whole(row.samples.typical)} results in {whole(row.rounds.typical)} rounds, and at most "
            f"{whole(row.samples.p95)} results in {whole(row.rounds.p95)} rounds in 19 of 20 studies{chance}."
        )
    missing = f" We expect {share(request.missing)} of the results to be missing." if request.missing else ""
    return (
        f"The study asks: {asked_in_words(request)} The arms are {options}. {request.noise.words} Results are "
        f"collected in rounds{limits}, the first of {exact(first)} results {how}; after each round the next "
        f"is planned from all results so far. {rule} The study ends {ends}. The probability of a wrong "
        f"{'claim, of any,' if row.claims else 'answer'} is at most {request.delta:g}, however often results are "
        f"looked at.{power}{missing}"
    )
