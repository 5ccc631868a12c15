"""A plan in tables and words: on the terminal, in a notebook, as a page and for a protocol."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roundwise.messages import number, option
from roundwise.noise import Noise
from roundwise.planning.forecast import most_in_a_round, planned_looks, plural, share, starts_small, whole
from roundwise.planning.pilot import Pilot
from roundwise.planning.rows import PlanRow
from roundwise.policies.base import as_rounds
from roundwise.policies.designed import OPEN
from roundwise.report.text import Table, align_table, wrap_text
from roundwise.study.study import asked_in_words

if TYPE_CHECKING:
    from roundwise.planning.study_plan import StudyPlan

LINE = 80  # letters of a line on a terminal
FUTILITY = (
    "Futility is non-binding: the study, or an arm, may be stopped at any look because success has become unlikely; "
    "the bound on the error holds whether or not that is done."
)
HEADS = {
    "lead": "if it is ahead by",
    "distance": "if they are off the level by",
    "largest effect": "if the largest effect is",
}


def row_lines(plan: StudyPlan) -> list[str]:
    """The rows as lines of text, the target marked: also shown while the rest is computed."""
    table = row_table(plan)
    if len(plan.rows) > 1:
        table[1 + plan.target][0] = f"> {table[1 + plan.target][0]}"
    return align(table)


def plan_parts(plan: StudyPlan) -> dict[str, Any]:
    """The texts and tables of a plan, by their names in `plan_parts.html`; empty where there is nothing to show."""
    request, given = plan.request, plan.row.expected.given
    limit = "at most" if request.noise.approximation is None else "in large samples at most"
    return {
        "plan": plan,
        "title": f"Plan of '{request.name}': {asked_in_words(request)} Error {limit} {request.delta:g}.",
        "pilot": "" if request.past is None else describe_past(request.past, request.noise),
        "rows": row_table(plan),
        "within": "" if request.budget is None else f" within {number(request.budget)} results",
        "power": power_table(plan),
        "metrics_title": describe_metrics(plan),
        "metrics": metric_table(plan),
        "designs_title": f"Designs with {number(request.budget or 0)} results, for {given}",
        "designs": comparison_table(plan),
        "compared": describe_comparison(plan),
        "caps_title": f"What a cap changes, for {given} without it and the same share of the mean with it:",
        "caps": cap_table(plan),
        "settings_title": f"Settings, for {given}",
        "settings": front_table(plan),
    }


def render_text(plan: StudyPlan) -> str:
    """The plan for a terminal."""
    parts, lines = plan_parts(plan), list[str]()

    def say(text: str) -> None:
        lines.extend([wrap_text(text, LINE), ""])

    def show(heading: str, table: Table) -> None:
        if table:
            lines.extend([wrap_text(heading, LINE), *align(table), ""])

    say(parts["title"])
    if parts["pilot"]:
        say(parts["pilot"])
    lines += [*row_lines(plan), ""]
    show(f"Power{parts['within']}:", parts["power"])
    say(f"In words. {plan.words}")
    show(parts["metrics_title"], parts["metrics"])
    if plan.alternatives:
        say("\n".join(["Alternatives:", *(f"- {each.words}" for each in plan.alternatives)]))
    show(f"{parts['designs_title']}:", parts["designs"])
    if parts["compared"]:
        say(f"For comparison. {parts['compared']}")
    show(parts["caps_title"], parts["caps"])
    show(f"{parts['settings_title']}:", parts["settings"])
    say(f"For a protocol. {plan.protocol}")
    return "\n".join([*lines, f"Create it: {plan.command}"])


# --- tables, the first row is the head


def row_table(plan: StudyPlan) -> Table:
    """The forecast table, one line per row."""
    costs, first, budget = plan.request.costs, plan.rows[0], plan.request.budget
    head = [HEADS[first.expected.measure] if first.expected.lead is not None else "if"]
    if budget is None:
        amounts = ["typical results", "19 in 20", "rounds", "19 in 20"]
    else:
        head.append(f"{'a true claim' if first.claims else 'answer'} within {number(budget)}")
        amounts = ["results on average", "19 in 20", "rounds on average", "19 in 20"]
    amounts += ["days", "19 in 20"] if costs.timed else []
    amounts += ["cost", "19 in 20"] if costs.known else []
    listed = _whole_list(plan)
    compared = ["a fixed design", "lower bound"] if listed is None else ["of the list"]
    table = [[*head, *amounts, *compared]]
    for row in plan.rows:
        known = [each for each in (row.samples, row.rounds, row.days, row.cost) if each is not None]
        line = [
            whole(value) if math.isfinite(value) or row.ends else "" for each in known for value in vars(each).values()
        ]
        line[0] = _results(plan, row.samples.typical)
        if listed is not None:
            line[1] = _results(plan, row.samples.p95)
        if budget is not None:
            line[0], line[2] = whole(row.mean_samples), f"{row.mean_rounds:.1f}"
            line.insert(0, _chance(row.at_least_one if row.claims else row.within_budget))
        if listed is None:
            line.append("-" if row.fixed is None else whole(row.fixed.samples))
            line.append("-" if row.lower_bound is None else whole(row.lower_bound))
        else:
            line.append(share(row.samples.typical / listed))
        table.append([row.expected.both_leads, *line])
    return table


def power_table(plan: StudyPlan) -> Table:
    """How likely each claim is shown; empty without claims, as all tables are where there is nothing to show."""
    rows = [row for row in plan.rows if row.claims]
    if not rows:
        return []
    table = [["claim", *(row.expected.label for row in rows)]]
    for of_rows in zip(*(row.claims for row in rows), strict=True):
        chances = [share(each.power) + ("" if each.true else " (false)") for each in of_rows]
        table.append([of_rows[0].claim, *chances])
    table.append(["at least one that is true", *(_chance(row.at_least_one) for row in rows)])
    table.append(["all that are true", *(_chance(row.all_true) for row in rows)])
    table.append(["any that is false", *(_chance(row.any_false) for row in rows)])
    return table


def front_table(plan: StudyPlan) -> Table:
    """The table of other settings."""
    if len(plan.front) < 2:
        return []
    costs, power = plan.request.costs, any(each.power is not None for each in plan.front)
    head = ["settings", "results on average", "rounds on average"]
    head += ["days"] if costs.timed else []
    head += ["cost"] if costs.known else []
    chance = "a true claim" if plan.row.claims else "answer"
    table = [[*head, *([chance] if power else []), ""]]
    for each in plan.front:
        line = [each.words, whole(each.mean_samples), f"{each.mean_rounds:.1f}"]
        line += [] if each.mean_days is None else [whole(each.mean_days)]
        line += [] if each.mean_cost is None else [whole(each.mean_cost)]
        line += [share(each.power or 0.0)] if power else []
        table.append([*line, "recommended" if each.recommended else ""])
    return table


def comparison_table(plan: StudyPlan) -> Table:
    """Textbook designs and this one, with the same budget: for claims a column each, else a line each."""
    if not plan.compared:
        return []
    if plan.row.claims:
        names = [each.claim for each in plan.row.claims]
        table = [["power", *(each.name for each in plan.compared)]]
        for claim, powers in zip(names, zip(*(each.claims for each in plan.compared), strict=True), strict=False):
            table.append([claim, *map(share, powers)])
        table.append(["at least one that is true", *(share(each.power) for each in plan.compared)])
        table.append(["all that are true", *(_chance(each.all_true) for each in plan.compared)])
        return [*table, ["results on average", *(whole(each.mean_samples) for each in plan.compared)]]
    needs = any(each.budget_needed is not None for each in plan.compared)
    head = ["design", "answer", "results on average"]
    table = [[*head, *([f"needs for {share(plan.request.power)}"] if needs else [])]]
    for each in plan.compared:
        enough = ["-" if each.budget_needed is None else whole(each.budget_needed)] if needs else []
        table.append([each.name, share(each.power), whole(each.mean_samples), *enough])
    return table


def cap_table(plan: StudyPlan) -> Table:
    """The table of caps."""
    if not plan.caps:
        return []
    budget = plan.request.budget
    needed = ["typical results", "19 in 20"] if budget is None else [f"answer within {number(budget)}"]
    table = [["cap", "mean", "spread", "cut from the total", *needed]]
    for each in plan.caps:
        takes = [whole(each.samples.typical), whole(each.samples.p95)]
        takes = takes if each.within_budget is None else [share(each.within_budget)]
        cap, cut = ("none", "-") if each.cap is None else (f"{each.cap:g}", share(each.spread.cut))
        table.append([cap, f"{each.spread.mean:.4g}", f"{each.spread.deviation:.4g}", cut, *takes])
    return table


def metric_table(plan: StudyPlan) -> Table:
    """The table of metrics."""
    if not plan.metrics:
        return []
    request = plan.request
    head = ["metric", "role", "assumed gain", f"needs for {share(request.power)}"]
    table = [[*head, *([] if request.budget is None else [f"a true claim within {number(request.budget)}"])]]
    for each in plan.metrics:
        needs = "-" if each.budget is None else whole(each.budget)
        line = [each.name or "main metric", each.role if each.name else "", f"{each.lead:.4g}" if each.lead else "none"]
        table.append([*line, needs, *([] if each.within_budget is None else [share(each.within_budget)])])
    return table


def _chance(value: float | None) -> str:
    return "-" if value is None else share(value)


def align(table: Table) -> list[str]:
    """A table for a terminal: names to the left, numbers to the right."""
    return align_table(table, [i > 0 for i in range(len(table[0]))], LINE)


# --- sentences


def describe_past(past: Pilot, noise: Noise) -> str:
    """What was taken from a past file, and the noise model that it leads to."""
    spread, (proposed, why) = past.spread(noise), past.proposed
    said = [f"mean {spread.mean:.4g}", f"standard deviation {spread.deviation:.4g}", f"skewness {spread.skewness:.1f}"]
    said.append(f"{share(past.missing)} missing" if past.missing else "none missing")
    if past.per_day is not None:
        said.append(f"{whole(past.per_day)} a day, all arms together, in {plural(past.days or 0.0, 'day')}")
    whose = ", estimates from those of the control" if past.of_control else ""
    whose += f" of {len(past.names)} arms, each about its own mean" if len(past.names) > 1 else ""
    model = f"Noise model: {noise.name}"
    if noise == proposed:
        model += f", because {why}."
    elif doubt := past.doubt(noise):
        model += f", as you chose, but it assumes that {doubt}; the file would lead to {proposed.name}."
    else:
        model += ", as you chose."
    found = f"From {past.file} ({number(past.results)} results{whose}): {', '.join(said)}. {model}"
    if past.repeats is not None:
        about = "" if past.repeats.exact else "about "
        have = "has" if past.repeats.repeated == 1 else "have"
        found += (
            f" '{past.repeats.title}' looks like an identifier, and {about}{plural(past.repeats.repeated, 'value')} "
            f"{have} several rows: so that these are one result, give "
            f"{option('id_column')} and {option('id_result')}."
        )
    return found


def describe_caps(past: Pilot, noise: Noise) -> str:
    """What caps would remove from results of any shape, and the spread that they leave; empty for other models."""
    if noise.needs != "cubes":
        return ""
    found = [(each.cap, past.spread(each)) for each in past.caps()]
    each = [
        f"{cap:g} removes {share(left.cut)} of the total and leaves a spread of {left.deviation:.4g}"
        for cap, left in found
    ]
    return f"A cap of {'; one of '.join(each)}." if each else ""


def describe_metrics(plan: StudyPlan) -> str:
    """Which metric needs most, and how that was found; nothing where there is one."""
    if not plan.metrics:
        return ""
    slowest = max(plan.metrics, key=lambda each: math.inf if each.budget is None else each.budget)
    name = f"'{slowest.name}' ({slowest.role})" if slowest.name else "the main metric"
    most = "more than was tried" if slowest.budget is None else f"{whole(slowest.budget)} results"
    return (
        f"Of {len(plan.metrics)} metrics, {name} needs most: {most} for a power of {share(plan.request.power)}. "
        "Each is planned alone with its share of delta; guardrails as if no arm differed from the control, secondary "
        "metrics with the gain of the main one, relative to the baseline:"
    )


def describe_comparison(plan: StudyPlan) -> str:
    """Sample sizes for the target row: a fixed design, a group-sequential one, and the lower bound."""
    row = plan.row
    said = [] if row.fixed is None or plan.compared else [describe_fixed_design(row)]
    if plan.row.claims and plan.compared:
        fixed, *_, own = plan.compared
        if own.power > fixed.power:
            said.append(
                f"With as many results, roundwise with its own shares shows a true claim in {share(own.power)} of "
                f"studies, the fixed design ({fixed.name}) in {share(fixed.power)}."
            )
        said.append(FUTILITY)
    if row.lower_bound is not None:
        said.append(f"No method with this error needs fewer than {whole(row.lower_bound)} on average.")
    return " ".join(said)


def describe_fixed_design(row: PlanRow) -> str:
    """What a fixed design needs, in a sentence or two; nothing where there is none."""
    if row.fixed is None:
        return ""
    fixed, looks = row.fixed, row.fixed.sequential
    how = f"{fixed.method}, power {share(fixed.power)}"
    what = " to show the surest claim" if row.claims else ""
    said = f"For {row.expected.given}, a fixed design ({how}) needs {whole(fixed.samples)} results{what}."
    if looks is not None:
        said += (
            f" With {looks.looks} looks (O'Brien-Fleming) it needs at most {whole(looks.max_samples)}, and "
            f"{whole(looks.mean_samples)} on average."
        )
    if row.claims and row.within_budget is None:
        said += f" The results above settle every claim; with {option('budget')} both are compared at the same number."
    return said


def describe_plan(plan: StudyPlan) -> str:
    """The table in plain sentences."""
    missing = plan.request.missing
    part = f" Of the results asked for, {share(missing)} go missing; they are counted here." if missing else ""
    return f"{_describe_rows(plan)}{part} {_describe_wait(plan)}".rstrip()


def _describe_wait(plan: StudyPlan) -> str:
    """The results that each arm needs before it is bet on; empty where the model has no gate."""
    skewness = plan.request.skewness
    needed = plan.request.problem.noise.rows_at_skewness(np.asarray(skewness))
    if needed is None:
        return ""
    said = f"Nothing is concluded about an arm before it has about {whole(float(needed))} results"
    if not skewness:
        return (
            f"{said}, and if results are skewed, 32 times the squared skewness: plan with {option('skewness')}, or "
            f"with {option('pilot')}."
        )
    return f"{said}, since their skewness is {skewness:.3g} (32 times its square); with a cap it need not wait."


def _describe_rows(plan: StudyPlan) -> str:
    budget, target = plan.request.budget, plan.row
    if target.claims and budget is not None:
        return _describe_claims(plan)
    if budget is not None:
        return f"{_describe_proposals(plan)}{_describe_budget(plan)} {_describe_use(plan)}{_describe_lead(plan)}"
    if not target.ends:
        return f"With {target.expected.given} no number of results is sure to give an answer."
    most = _whole_list(plan)
    end = "" if most is None else f" The whole list is {number(most)} results: with them there always is an answer."
    return (
        f"For {target.expected.given}, plan for {_results(plan, target.samples.p95)} results in "
        f"{_rounds_and_cost(target)}: 19 of 20 studies end by then, half of them with "
        f"{_results(plan, target.samples.typical)} in {whole(target.rounds.typical)}.{end}"
    )


def _whole_list(plan: StudyPlan) -> int | None:
    return None if plan.request.list is None else len(plan.request.list) * len(plan.request.arms)


def _results(plan: StudyPlan, value: float) -> str:
    """A number of results as a forecast deserves; that of a whole list is known exactly."""
    return number(value) if value == _whole_list(plan) else whole(value)


def _describe_claims(plan: StudyPlan) -> str:
    rows, said, best = plan.rows, _describe_proposals(plan), ""
    some = [row for row in rows if row.at_least_one is not None]
    if some:
        chances = [f"in {share(row.at_least_one or 0.0)} of studies with {row.expected.given}" for row in some]
        said += (
            f"With {number(plan.request.budget or 0)} results at least one true claim is shown {', '.join(chances)}. "
        )
        row = some[-1] if some[-1].expected.lead else some[0]
        first = max(row.claims, key=lambda each: each.power if each.true else -1.0)
        best = f" The surest claim with {row.expected.given} is '{first.claim}': {share(first.power)}."
    worst = max(rows, key=lambda row: row.any_false or 0.0)
    often = f"in none of {worst.runs} simulated studies" if not worst.any_false else f"in {share(worst.any_false)}"
    at_most = " at most" if len(rows) > 1 and worst.any_false else ""
    return f"{said}A false one is shown {often}{at_most}.{best}"


def _describe_budget(plan: StudyPlan) -> str:
    """The chance of an answer within the budget, from easy rows to hard ones."""
    budget = number(plan.request.budget or 0)
    chances = [(row.within_budget or 0.0, row) for row in plan.rows]
    sure = [row for chance, row in chances if chance >= 0.99]
    rare = [row for chance, row in chances if chance <= 0.2 and row.expected.lead != 0]
    some = sorted((each for each in chances if 0.2 < each[0] < 0.99), key=lambda each: -each[0])
    said = [f"almost surely for {min(sure, key=_lead).expected.given}"] if sure else []
    said += [f"in {share(chance)} of such studies for {row.expected.given}" for chance, row in some]
    said += [f"hardly ever for {max(rare, key=_lead).expected.given}"] if rare else []
    if not said:
        return f"With {budget} results there is no answer for anything in this table."
    return f"With {budget} results you will have an answer {', '.join(said)}."


def _describe_proposals(plan: StudyPlan) -> str:
    """The budget that is proposed, and others; nothing where the budget was said."""
    if not plan.budgets:
        return ""
    said = [f"{number(each.budget)} for {share(each.power)}" for each in plan.budgets]
    return (
        f"Budgets for {plan.row.expected.given}: {', '.join(said)}; this plan has {number(plan.request.budget or 0)}. "
    )


def _describe_use(plan: StudyPlan) -> str:
    row = plan.row
    percent = 100 * (row.within_budget or 0.0)
    undecided = 1 - round(percent, 0 if 1 <= percent <= 99 else 1) / 100  # both are shown, and add up
    rest = f"; {share(undecided)} are undecided at the budget" if undecided else ""
    return (
        f"For {row.expected.given}, a study uses {whole(row.mean_samples)} results in {row.mean_rounds:.1f} rounds on "
        f"average, and 19 of 20 studies at most {whole(row.samples.p95)} in {_rounds_and_cost(row)}{rest}."
    )


def _rounds_and_cost(row: PlanRow) -> str:
    time = "" if row.days is None else f" ({plural(row.days.p95, 'day')})"
    money = "" if row.cost is None else f", at a cost of {whole(row.cost.p95)}"
    return f"{plural(row.rounds.p95, 'round')}{time}{money}"


def _describe_lead(plan: StudyPlan) -> str:
    """What a design does that is told the lead of this row; nothing where it was said."""
    told = next((each for each in plan.front if each.designed_for is not None), None)
    if told is None:
        return ""
    return (
        f" A study that is designed for that lead ({option('lead')}) has an answer in {share(told.power or 0.0)}, with "
        f"{whole(told.mean_samples)} results in {told.mean_rounds:.1f} rounds on average."
    )


def _lead(row: PlanRow) -> float:
    return row.expected.lead or 0.0


def describe_protocol(plan: StudyPlan) -> str:
    """A paragraph to copy into a protocol: question, data, looks, rule, end, error, what may change, power."""
    request, row, arms = plan.request, plan.row, plan.request.arms
    options = ", ".join(arms) if len(arms) <= 8 else f"{', '.join(arms[:3])}, ... ({len(arms)} in all)"
    rule = request.policy.stopping.describe(request.delta)
    if not rule:
        rule = f"Rounds are planned and the end is decided by the rule of {request.policy.name}, fixed in advance."
    ends = "when every claim is shown or has no chance left" if row.claims else "when everything is settled"
    if request.budget is not None:
        undecided = "shown" if row.claims else "ruled out"
        ends += f", or after {number(request.budget)} results; what is not {undecided} by then is reported"
    large = "" if request.noise.approximation is None else "in large samples "
    missing = f" We expect {share(request.missing)} of the results to be missing." if request.missing else ""
    sides = " (one-sided, for either arm)" if request.question.name == "best-arm" and len(arms) == 2 else ""
    return (
        f"The study asks: {asked_in_words(request)} The arms are {options}. {request.assumed} "
        f"{_describe_looks(plan)} {rule} The study ends {ends}. The probability of a wrong "
        f"{'claim, of any,' if row.claims else 'answer'} is {large}at most {request.delta:g}{sides}, however often "
        f"results are looked at.{_describe_changes(plan)}{_describe_power(plan)}{missing}"
    )


def _describe_looks(plan: StudyPlan) -> str:
    request = plan.request
    first = int(request.acting.first(request.problem, ()).pulls.sum())
    most, fixed = most_in_a_round(request.acting), as_rounds(request.acting).size is not None
    limits = "" if most is None else f" of {'' if fixed else 'at most '}{number(most)} results"
    if request.policy.plans_budget and request.round_size is None:
        limits = f" (looks), {planned_looks(request)} of them if none is decisive,"
        if starts_small(request):
            more = planned_looks(request) - 1
            limits = f" (looks), small ones for {share(OPEN)} of the budget and {more} more if none is decisive,"
    how = "with more for the control" if request.question.separate_claims else "in equal shares"
    if request.list is not None:
        how = "in equal shares"
    elif request.split is not None:
        how = f"in the proportions {':'.join(f'{each:g}' for each in request.split)}"
    return (
        f"Results are collected in rounds{limits}{'' if limits[-1:] == ',' else ','} the first of {number(first)} "
        f"results {how}; after each round the next is planned from all results so far."
    )


def _describe_changes(plan: StudyPlan) -> str:
    """What a study that is designed for a budget may change on its way."""
    if plan.request.budget is None or not plan.request.policy.stopping.uses_budget:
        return ""
    if plan.row.claims:
        return f" {FUTILITY}"
    return (
        " Between looks the budget (also after it is used: an extension), the number and size of looks, the lead that "
        "the study is designed for, the allocation and the set of arms may be changed, also because of results; every "
        "change is recorded before the results of the next look, and leaves the bound on the error as it is. "
        f"{FUTILITY}"
    )


def _describe_power(plan: StudyPlan) -> str:
    """Simulated power in the target row; empty where studies do not end."""
    request, row = plan.request, plan.row
    if not row.ends:
        return ""
    chance, usual = "", f"a median of {whole(row.samples.typical)} results in {plural(row.rounds.typical, 'round')}"
    if row.claims and row.at_least_one is not None:
        chance = f"; at least one true claim is shown with probability {share(row.at_least_one)}"
    elif request.budget is not None and row.within_budget is not None:
        chance = f"; an answer within {number(request.budget)} results has probability {share(row.within_budget)}"
    if request.budget is not None:
        usual = f"{whole(row.mean_samples)} results in {row.mean_rounds:.1f} rounds on average"
    return (
        f" If {row.expected.condition}, simulation ({row.runs} runs) gives {usual}, and at most "
        f"{whole(row.samples.p95)} results in {plural(row.rounds.p95, 'round')} in 19 of 20 studies{chance}."
    )
