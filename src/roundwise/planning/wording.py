"""A plan in words: what it means, and a paragraph for a protocol."""

from __future__ import annotations

from collections.abc import Sequence

from roundwise.planning.forecast import most_in_a_round
from roundwise.planning.quantities import exact, share, whole
from roundwise.planning.request import PlanRequest
from roundwise.planning.rows import PlanRow
from roundwise.study.study import asked_in_words


def in_words(request: PlanRequest, rows: Sequence[PlanRow], target: PlanRow) -> str:
    """What the table says, as one would tell it to a colleague."""
    if target.claims and request.budget is not None:
        said = [_of_claims(request, rows)]
    else:
        said = [] if request.budget is None else [_with_budget(request, rows)]
        said.append(_to_plan(target))
    return " ".join(said)


def _to_plan(target: PlanRow) -> str:
    if not target.answerable:
        return f"With {what_if(target)} no number of results is sure to give an answer."
    time = f" ({_days(target.days.p95)})" if target.days is not None else ""
    money = f", at a cost of {whole(target.cost.p95)}" if target.cost is not None else ""
    return (
        f"For {what_if(target)} plan {whole(target.samples.p95)} results in {whole(target.batches.p95)} "
        f"{_rounds(target.batches.p95)}{time}{money}: 19 of 20 studies end by then, half of them with "
        f"{whole(target.samples.typical)} in {whole(target.batches.typical)}."
    )


def _of_claims(request: PlanRequest, rows: Sequence[PlanRow]) -> str:
    """What claims can be hoped for within the budget."""
    some = [row for row in rows if row.at_least_one is not None]
    chances = ", ".join(f"in {share(row.at_least_one or 0.0)} of studies with {what_if(row)}" for row in some)
    worst = max(rows, key=lambda row: row.any_false or 0.0)
    often = f"in none of {worst.runs} simulated studies" if not worst.any_false else f"in {share(worst.any_false)}"
    best = ""
    if some:
        row = some[-1] if some[-1].expected.lead else some[0]
        first = max(row.claims, key=lambda each: each.power if each.true else -1.0)
        best = f" The surest claim with {what_if(row)} is '{first.claim}': {share(first.power)}."
    said = f"With {exact(request.budget or 0)} results at least one true claim is shown {chances}. " if some else ""
    at_most = " at most" if len(rows) > 1 and worst.any_false else ""
    return f"{said}A false one is shown {often}{at_most}.{best}"


def _with_budget(request: PlanRequest, rows: Sequence[PlanRow]) -> str:
    """The chance of an answer: from what is easy to what is hard."""
    assert request.budget is not None
    chances = [(row, row.within_budget or 0.0) for row in rows]
    sure = [row for row, chance in chances if chance >= 0.9 and row.answerable]
    rare = [row for row, chance in chances if chance <= 0.2 and row.answerable]
    some = sorted(((row, chance) for row, chance in chances if 0.2 < chance < 0.9), key=lambda each: -each[1])
    said = []
    if sure:
        said.append(f"almost surely for {what_if(min(sure, key=_lead))}")
    said += [f"in {share(chance)} of such studies for {what_if(row)}" for row, chance in some]
    if rare:
        said.append(f"hardly ever for {what_if(max(rare, key=_lead))}")
    if not said:
        return f"With {exact(request.budget)} results there is no answer for anything in this table."
    return f"With {exact(request.budget)} results you will have an answer {', '.join(said)}."


def _lead(row: PlanRow) -> float:
    return row.expected.lead or 0.0


def what_if(row: PlanRow) -> str:
    """The row in words: a lead of 2 points."""
    expected = row.expected
    if expected.lead is None:
        return "these means" if expected.label == "as expected" else f"'{expected.label}'"
    if not expected.lead:
        return "options that are all on the level" if expected.noun == "distance" else "options that are all alike"
    return f"a {expected.noun} of {expected.label.removeprefix('+')}"


def _days(days: float) -> str:
    return f"{whole(days)} {'day' if days == 1 else 'days'}"


def _rounds(number: float) -> str:
    return "round" if number == 1 else "rounds"


def protocol(request: PlanRequest, target: PlanRow) -> str:
    """A paragraph to copy into a protocol."""
    options = (
        ", ".join(request.arms)
        if len(request.arms) <= 8
        else f"{', '.join(request.arms[:3])}, ... ({len(request.arms)} in all)"
    )
    first = int(request.acting.first(request.problem, ()).pulls.sum())
    most, fixed = most_in_a_round(request.acting), getattr(request.acting, "size", None) is not None
    limits = "" if most is None else f" of {'' if fixed else 'at most '}{exact(most)} results"
    how = "in equal shares"
    if request.split is not None:
        how = f"in the proportions {':'.join(f'{each:g}' for each in request.split)}"
    elif request.question.separate_claims:
        how = "with more for the control"
    share_missing = f" We expect {share(request.missing)} of the results to be missing." if request.missing else ""
    ends = "when every claim is shown or has no chance any more" if target.claims else "when everything is settled"
    if request.budget is not None:
        open_ = "shown" if target.claims else "ruled out"
        ends += f", or after {exact(request.budget)} results; what is not {open_} by then is reported"
    said = "claim, of any," if target.claims else "answer"
    power = ""
    if target.answerable:
        chance = ""
        if target.claims and target.at_least_one is not None:
            chance = f"; at least one true claim is shown with probability {share(target.at_least_one)}"
        elif request.budget is not None and target.within_budget is not None:
            chance = f"; an answer within {exact(request.budget)} results has probability {share(target.within_budget)}"
        power = (
            f" If {_if(target)}, simulation ({target.runs} runs) gives a median of {whole(target.samples.typical)} "
            f"results in {whole(target.batches.typical)} rounds, and at most {whole(target.samples.p95)} results in "
            f"{whole(target.batches.p95)} rounds in 19 of 20 studies{chance}."
        )
    return (
        f"The study asks: {asked_in_words(request)} The arms are {options}. {request.noise.words} Results are "
        f"collected in rounds{limits}, the first of {exact(first)} results {how}; after each round the next "
        f"is planned from all results so far. {_rule(request)} The study ends {ends}. The probability of a wrong "
        f"{said} is at most {request.delta:g}, however often results are looked at.{power}{share_missing}"
    )


def _if(row: PlanRow) -> str:
    if row.expected.lead is None:
        return f"the means are {', '.join(f'{each:g}' for each in row.expected.means)}"
    if not row.expected.lead:
        return "all options are on the level" if row.expected.noun == "distance" else "all options are alike"
    return f"the {row.expected.noun} is {row.expected.label.removeprefix('+')}"


def _rule(request: PlanRequest) -> str:
    said = request.policy.stopping.describe(request.delta)
    return said or f"Rounds are planned and the end is decided by the rule of {request.policy.name}, fixed in advance."
