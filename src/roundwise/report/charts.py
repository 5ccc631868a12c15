"""The charts of a report: means with their intervals, the evidence by round, and the means by round."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from roundwise.messages import count
from roundwise.render.svg import SERIES, Axis, Chart, IntervalRow, Svg, draw_intervals, shorten
from roundwise.report.model import EvidenceHistory, ReportData, odds

MOST_ARMS = 60  # in a chart of intervals
MOST_CLAIMS = 12  # in a chart of evidence
MOST_LINES = 8  # arms whose means are followed


def draw_means(report: ReportData) -> Svg:
    """Draw the mean of each arm with its interval, and the level if there is one; empty without intervals."""
    arms = [each for each in report.ranked if None not in (each.mean, each.lower, each.upper)]
    if not arms or len(arms) > MOST_ARMS:
        return Svg()
    units, levels = report.units, [] if report.level is None else [report.level]
    out = {each.arm for each in report.claim_rows if each.arm is not None and each.shown}
    shown = {each.compares for each in report.claim_rows if each.compares is not None and each.shown and not each.below}
    rows = [
        IntervalRow(
            f"{shorten(each.name)}  {units.value(each.mean or 0.0, 'near')}{', shown' if each.name in shown else ''}",
            each.lower or 0.0,
            each.mean or 0.0,
            each.upper or 0.0,
            "out" if each.name in out else "s2" if each.name in shown else "s0",
        )
        for each in arms
    ]
    axis = Axis.linear([*levels, *(value for row in rows for value in row[1:4])])
    chart = draw_intervals(rows, axis, units.wording.value, levels)
    return chart.render(f"{units.wording.mean} of each arm with its interval ({report.ends})")


def draw_evidence(report: ReportData) -> Svg:
    """Draw the evidence for each claim by round against its threshold, on a log scale, with a legend."""
    courses = [each for each in report.courses if each.rounds]
    if not courses:
        return Svg()
    bars, drawn = thresholds_by_round(courses), choose_courses(report)
    highest, rounds = max(bars.values()), sorted({number for each in drawn for number in each.rounds})
    lowest = max(min([0.0, *(value for each in drawn for value in each.log_evidence)]), -highest)
    start = rounds[0] - 1
    y = Axis(lowest, 1.25 * highest, tuple(dict.fromkeys([0.0, bars[rounds[0]]])))
    chart = Chart(Axis.whole(start, rounds[-1]), y, left=13.0)
    chart.draw_ticks(lambda tick: f"{tick:g}" if tick > start else "", odds, grid="")
    chart.draw_level(0.0, across=True, kind="axis")
    steps = [(start, bars[rounds[0]]), *((number, bars[number]) for number in rounds)]
    for (begin, before), (end, bar) in itertools.pairwise(steps):  # the threshold that held in each round
        chart.draw_line([(begin, bar), (end, bar)], "threshold")
        if before != bar:
            chart.draw_line([(begin, before), (begin, bar)], "threshold")
    for i, each in enumerate(drawn):
        kind = f"s{i % SERIES}" + ("" if each.shown else " wide")
        points = [(float(start), 0.0), *zip(map(float, each.rounds), each.log_evidence, strict=True)]
        chart.draw_line(points, kind)
        chart.draw_point(*points[-1], kind)
        status = f"shown in round {each.shown_at}" if each.shown else odds(each.log_evidence[-1])
        chart.explain(
            f"{shorten(each.claim, 60)}: {status}".replace(" : ", "\N{NO-BREAK SPACE}:\N{NO-BREAK SPACE}"), kind
        )
    if more := len(courses) - len(drawn):
        side = "nearer to" if _rules_out_arms(report) else "farther from"
        chart.explain(f"and {count(more)} more, {side} the threshold", "threshold")
    first, last = odds(bars[rounds[0]]), odds(bars[rounds[-1]])
    same = len({odds(each.log_threshold) for each in report.claim_rows}) == 1
    which = "bar" if same else "highest bar of what was open"
    moved = f", {first} in the first round and {last} now" if first != last else f": {last}"
    caption = f"Odds won for each claim, by round (log scale). The dashed line is the {which}{moved}."
    return chart.render("Evidence for each claim, round by round, against the bar it must pass", caption)


def draw_means_by_round(report: ReportData) -> Svg:
    """Draw the mean of each leading arm over all rounds up to each, with a legend; empty before the second round."""
    ranked = [each for each in report.ranked if each.mean is not None][:MOST_LINES]
    # the color of an arm is that of the claim about it in the chart of evidence, else one that is free
    claims = {each.claim: each.arm or each.compares for each in report.claim_rows}
    drawn, rejects = choose_courses(report), _rules_out_arms(report)
    taken = {claims.get(each.claim): i for i, each in enumerate(drawn) if not (rejects and each.shown)}
    free = iter([i for i in range(len(drawn) + len(ranked)) if i not in taken.values()])
    colors = {each.name: (taken[each.name] if each.name in taken else next(free)) % SERIES for each in ranked}
    lines: list[tuple[str, list[tuple[float, float]], str]] = []
    for arm in ranked:
        results, total, points = 0, 0.0, []
        for cell in report.round_rows:
            if cell.arm == arm.name and cell.counted and cell.mean is not None:
                results, total = results + cell.results, total + cell.results * cell.mean
                points.append((float(cell.round), total / results))
        if points:
            lines.append((arm.name, points, "out" if arm.place == "out" else f"s{colors[arm.name]}"))
    if not lines or max(len(points) for _, points, _ in lines) < 2:
        return Svg()
    rounds = [at for _, points, _ in lines for at, _ in points]
    y = Axis.linear(value for _, points, _ in lines for _, value in points)
    chart = Chart(Axis.whole(int(min(rounds)), int(max(rounds))), y)
    chart.draw_ticks(lambda tick: f"{tick:g}", report.units.wording.value, grid="y")
    for _, points, kind in reversed(lines):
        chart.draw_line(points, kind)
        chart.draw_point(*points[-1], kind)
    for name, points, kind in lines:
        chart.explain(f"{shorten(name)}: {report.units.value(points[-1][1], 'near')}", kind)
    more = len({each.arm for each in report.round_rows}) - len(lines)
    if more > 0:
        chart.explain(f"{more} more are not drawn", "out")
    return chart.render(f"{report.units.wording.mean} of each arm by round")


def thresholds_by_round(courses: Sequence[EvidenceHistory]) -> dict[int, float]:
    """By round, the highest threshold of a claim not yet shown; if all were shown, the highest that was reached."""
    found: dict[int, tuple[bool, float]] = {}
    for each in courses:
        for number, won, bar in zip(each.rounds, each.log_evidence, each.log_threshold, strict=True):
            found[number] = max(found.get(number, (False, -math.inf)), (won < bar, bar))
    return {number: bar for number, (_, bar) in found.items()}


def choose_courses(report: ReportData) -> list[EvidenceHistory]:
    """The courses to draw: of arms that may still be the best before others, of claims that are shown before others."""
    sign = 1.0 if _rules_out_arms(report) else -1.0
    courses = [each for each in report.courses if each.rounds]
    return sorted(courses, key=lambda each: (sign * each.shown, sign * each.log_evidence[-1]))[:MOST_CLAIMS]


def _rules_out_arms(report: ReportData) -> bool:
    return bool(report.claim_rows) and report.claim_rows[0].arm is not None
