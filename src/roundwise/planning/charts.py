"""The charts of a plan: settings and what they trade off, results, rounds, the chance by lead, the boundary by look."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from roundwise.messages import number
from roundwise.planning.forecast import share
from roundwise.planning.tradeoff import LESS, TradeoffPoint
from roundwise.render.svg import CIRCLE, CROSS, SERIES, SHAPES, Axis, Chart

if TYPE_CHECKING:
    from roundwise.planning.study_plan import StudyPlan

PER_CENT = Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0))


def draw_plan(plan: StudyPlan) -> list[Chart]:
    """Draw up to five charts; one that has nothing to show is left out."""
    charts = [_draw_trade_off(plan)] if len(plan.front) > 1 else []
    charts += [_draw_results(plan), _draw_rounds(plan)]
    charts += [_draw_by_lead(plan)] if len(plan.rows) > 1 else []
    return [*charts, _draw_boundary(plan)] if plan.boundary else charts


def _new_chart(x: Axis, y: Axis, names: tuple[str, str, str]) -> Chart:
    chart = Chart(x, y, top=46.0, left=14.0)
    chart.draw_names(*names)
    return chart


def _draw_trade_off(plan: StudyPlan) -> Chart:
    """Results against rounds; for claims, which end with the budget, the chance that a true one is shown."""
    power = bool(plan.row.claims) and plan.front[0].power is not None
    enough = max(((each.power or 0.0) - LESS for each in plan.front if each.recommended), default=0.0)

    def point(each: TradeoffPoint) -> tuple[float, float]:
        return each.mean_rounds, 100 * (each.power or 0.0) if power else each.mean_samples

    def good(each: TradeoffPoint) -> bool:
        return each.front and (power or (each.power or 0.0) >= enough)

    points = [point(each) for each in plan.front]
    y = PER_CENT if power else Axis.linear([0.0, *(height for _, height in points)])
    what = "a true claim is shown, %" if power else "results, on average"
    names = ("rounds, on average", what, f"Settings, for {plan.row.expected.given}")
    chart = _new_chart(Axis.linear([0.0, *(at for at, _ in points)]), y, names)
    chart.draw_ticks(lambda tick: f"{tick:g}", number, grid="y")
    best = sorted(point(each) for each in plan.front if good(each))
    chart.draw_line(best, "s0")
    for each in plan.front:
        chart.draw_point(*point(each), *(("s0", CIRCLE) if good(each) else ("mute", CROSS)), title=each.words)
        if each.recommended:
            chart.draw_point(*point(each), "red chosen")
    if not power:
        chart.explain("nothing needs fewer of both", "s0", CIRCLE)
    if not all(map(good, plan.front)) and enough > 0:
        chart.explain(f"answered in less than {share(enough)}, or more of both", "mute", CROSS)
    chart.explain("recommended", "red hollow", CIRCLE)
    if plan.row.lower_bound is not None and not power:
        chart.draw_level(plan.row.lower_bound, across=True, kind="threshold")
        chart.explain("lower bound of any method", "mute dash")
    return chart


def _draw_results(plan: StudyPlan) -> Chart:
    """How many studies have an answer (or have ended, for claims) by a number of results."""
    ends = "end" if plan.row.claims else "answer"
    lost = ", including those that never come back" if plan.request.missing else ""
    seen = [value for row in plan.rows for value in row.quantiles if math.isfinite(value)] or [1.0]
    limit = [] if plan.request.budget is None else [plan.request.budget]
    x = Axis.logarithmic([*seen, *limit]) if max(seen) > 6 * min(seen) else Axis.linear([*seen, *limit])
    what = f"studies {'that ended' if plan.row.claims else 'with an answer'}, %"
    chart = _new_chart(x, PER_CENT, (f"results asked for{lost}", what, f"Results until the {ends}"))
    chart.draw_ticks(number, number, grid="y")
    for i, row in enumerate(plan.rows):
        values = [value for value in row.quantiles if math.isfinite(value)]
        kind = "s0 wide" if i == plan.target else f"s{1 + i % (SERIES - 1)}"
        if values:
            chart.draw_line([(value, level + 1.0) for level, value in enumerate(values)], kind, step=True)
            chart.explain(row.expected.label, kind)
    for budget in limit:
        chart.draw_level(budget, kind="limit")
        chart.explain(f"budget {number(budget)}", "red dash")
    return chart


def _draw_rounds(plan: StudyPlan) -> Chart:
    row = plan.row
    numbers = [rounds for rounds, _ in row.rounds_distribution] or [1]
    first, last = numbers[0], numbers[-1]
    step = math.ceil((last - first + 1) / 20)  # rounds a bar
    shares: dict[int, float] = {}
    for rounds, each in row.rounds_distribution:
        place = first + (rounds - first) // step * step
        shares[place] = shares.get(place, 0.0) + 100 * each
    end = "answer" if plan.request.budget is None else "end"
    title = f"Rounds until the {end}, for {row.expected.given}"
    x = Axis(first - 0.6 * step, last + 0.6 * step, Axis.whole(first, last).ticks)
    chart = _new_chart(x, Axis.linear([0.0, *shares.values()]), ("rounds", "studies, %", title))
    chart.draw_ticks(number, number, grid="y")
    for place, value in shares.items():
        chart.draw_bar(place - 0.42, place + step - 0.58, value, "column s0")
    return chart


def _draw_by_lead(plan: StudyPlan) -> Chart:
    """The chance of an answer within the budget, with textbook designs, or of each claim; else the results by lead."""
    order = sorted(range(len(plan.rows)), key=lambda i: plan.rows[i].expected.lead or 0.0)
    rows = [plan.rows[i] for i in order]
    labels = ["all alike" if row.expected.lead == 0 else row.expected.label for row in rows]
    name = ""
    if rows[0].expected.rates and all(row.expected.lead is not None for row in rows):  # the unit once
        name = f"{rows[0].expected.measure}, points"
        labels = [each.removesuffix("s").removesuffix(" point") for each in labels]
    x = Axis(-0.4, len(rows) - 0.6, tuple(float(i) for i in range(len(rows))))
    lines: list[tuple[str, str, list[float]]]
    if rows[0].claims:
        names, y = ("chance to be shown, %", "Power of each claim"), PER_CENT
        powers = [[100 * row.claims[j].power for row in rows] for j in range(len(rows[0].claims))]
        lines = [(claim.claim, f"s{j % SERIES}", powers[j]) for j, claim in enumerate(rows[0].claims)]
        lines.append(("at least one true", "mute dash", [100 * (row.at_least_one or 0.0) for row in rows]))
    elif plan.request.budget is not None:
        title = f"Chance of an answer within {number(plan.request.budget)}"
        names, y = ("answer within the budget, %", title), PER_CENT
        designs = [each for each in plan.compared if each.by_row]
        designs = designs[1:] + designs[:1]  # the fixed one last: colours are those of the boundaries
        lines = [("roundwise" if designs else "", "s0", [100 * (row.within_budget or 0.0) for row in rows])]
        for i, design in enumerate(designs, 1):
            lines.append((design.name.split(",")[0], f"s{i}", [100 * design.by_row[place] for place in order]))
    else:
        names, known = ("results", "Results by lead"), [row for row in rows if row.ends]
        ends = {"typical": "s0", "19 in 20": "mute"}
        values = [(row.samples.typical, row.samples.p95) for row in rows]
        lines = [(name, kind, [each[i] for each in values]) for i, (name, kind) in enumerate(ends.items())]
        fixed = [math.inf if row.fixed is None else row.fixed.samples for row in rows]
        lines += [("a fixed design", "red", fixed)] if any(map(math.isfinite, fixed)) else []
        y = Axis.logarithmic(
            value for _, _, each in lines for value, row in zip(each, rows, strict=True) if row in known
        )
    chart = _new_chart(x, y, (name, *names))
    chart.draw_ticks(lambda tick: labels[round(tick)], number, grid="y")
    for i, (name, kind, heights) in enumerate(lines):
        points = [(float(at), each) for at, each in enumerate(heights) if math.isfinite(each)]
        chart.draw_line(points, kind)
        shape = SHAPES[i // SERIES % len(SHAPES)]
        for point in points:
            chart.draw_point(*point, kind, shape)
        if name:
            chart.explain(name, kind, shape)
    return chart


def _draw_boundary(plan: StudyPlan) -> Chart:
    """The lead that ends the study at each look, if every look shows it; and those of textbook designs."""
    scale = 100.0 if plan.request.noise.outcome.rates else 1.0
    lines = [[(k + 1.0, scale * each) for k, each in enumerate(one.leads) if each is not None] for one in plan.boundary]
    measure = plan.row.expected.measure
    title = f"The {measure} that ends the study, if every look shows it"
    looks = max(len(one.leads) for one in plan.boundary)
    x = Axis(0.6, looks + 0.4, Axis.whole(1, looks).ticks)
    y = Axis.linear([0.0, *(lead for line in lines for _, lead in line)])
    chart = _new_chart(x, y, ("look", f"{measure}, points" if scale > 1 else measure, title))
    chart.draw_ticks(number, lambda tick: f"{tick:g}", grid="y")
    for i, (one, line) in enumerate(zip(plan.boundary, lines, strict=True)):
        kind = "s0 wide" if i == 0 else f"s{i}"
        chart.draw_line(line, kind)
        for point in line:
            chart.draw_point(*point, kind.split()[0], SHAPES[i % len(SHAPES)])
        chart.explain(one.name, kind, SHAPES[i % len(SHAPES)])
    chart.draw_level(scale * float(plan.row.expected.lead or 0.0), across=True, kind="threshold")
    chart.explain("planned for", "mute dash")
    return chart
