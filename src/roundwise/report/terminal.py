"""The tables of a report as cells for people, and the report for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from roundwise.errors import visible
from roundwise.messages import GuaranteeStatus
from roundwise.report.claim_table import MOST, Table, at_least, claim_table
from roundwise.report.model import ArmRow, ReportData
from roundwise.report.wording import (
    TINY,
    Side,
    alike,
    capital,
    count,
    day,
    decimals,
    few,
    odds,
    per_cent,
    rounds,
    sentence,
    several,
    share,
)


def arm_table(report: ReportData, most: int = MOST) -> Table:
    """The arms for people, the best first: only the columns that have something to say."""
    arms, units = report.ranked, report.units

    def any_of(name: str) -> bool:
        return any(getattr(each, name) is not None for each in arms)

    bounds, behind, trails = (
        any_of("lower") or any_of("upper"),
        any_of("gap_to_best_lower"),
        any_of("gap_to_leader_upper"),
    )
    places, waiting, compared = any(each.place for each in arms), report.waiting > 0, any_of("difference")
    head = ["arm", "results", units.mean]
    head += [report.ends] if bounds else []
    head += [f"against {report.control}"] if compared else []
    head += [f"lift over {report.control}"] if compared and any_of("lift") else []
    head += ["behind the leader by"] if trails else []
    head += [""] if places or behind else []
    lost = any(each.missing for each in arms)
    head += ["missing"] if lost else []
    head += ["waiting"] if waiting else []
    table = [head]
    least = alike([each.mean for each in arms[:most] if each.mean is not None])
    for each in arms[:most]:
        digits = max(decimals(each.mean or 0.0), least) if units.rates else None  # the bounds have those of the mean
        say = partial(per_cent, digits=digits) if units.rates else units.value
        bare = partial(per_cent, digits=digits, unit=False) if units.rates else units.value
        row = [each.name, count(each.results), "-" if each.mean is None else say(each.mean, "near")]
        row[-1] += " *" if each.widened else ""
        row += [_between(say, bare, each.lower, each.upper)] if bounds else []
        row += [_against(report, each)] if compared else []
        row += [_lift(each)] if compared and any_of("lift") else []
        row += [_trailing(report, each)] if trails else []
        row += [_place(report, each)] if places or behind else []
        row += [count(each.missing)] if lost else []
        row += [_waiting(report, each)] if waiting else []
        table.append([visible(cell) for cell in row])
    return table


def file_table(report: ReportData) -> Table:
    """The files, the last first."""
    rows = [["file", "round", "results", "recorded", "by"]]
    for each in reversed(report.files[-MOST:]):
        when = "" if each.at is None else day(each.at)
        batch = "after the decision" if each.round is None else str(each.round)
        rows.append([visible(each.name, 80), batch, count(each.results), when, each.by or ""])
    return rows


def round_table(report: ReportData) -> Table:
    """The rounds: what was asked, what came."""
    rows = [["round", "asked", "results", "arms", ""]]
    found: dict[int, tuple[int, int, int, bool]] = {}
    for each in report.cells:
        asked, came, arms, counts = found.get(each.round, (0, 0, 0, True))
        found[each.round] = (asked + each.asked, came + each.results, arms + bool(each.results), each.counts)
    for batch, (asked, came, arms, counts) in list(found.items())[-MOST:]:
        open_ = "after the decision" if report.status == "decided" else "still open"
        rows.append([str(batch), count(asked), count(came), str(arms), "" if counts else open_])
    return rows


Say = Callable[[float, Side], str]


def _between(value: Say, bare: Say, lower: float | None, upper: float | None) -> str:
    if lower is None:
        return "no bound yet" if upper is None else f"at most {value(upper, 'up')}"
    if upper is None:
        return f"at least {value(lower, 'down')}"
    return f"{bare(lower, 'down')} to {value(upper, 'up')}"


def _against(report: ReportData, arm: ArmRow) -> str:
    if arm.name == report.control:
        return "-"
    if arm.difference is None:
        return "?"
    gap = report.units.gap
    text = signed(arm.difference, gap(abs(arm.difference), "near"))
    if arm.difference_lower is None and arm.difference_upper is None:
        return text

    def end(value: float | None, side: Side) -> str:
        return "?" if value is None else signed(value, gap(value, side, unit=False).lstrip("-"))

    return f"{text} ({end(arm.difference_lower, 'down')} to {end(arm.difference_upper, 'up')})"


def _lift(arm: ArmRow) -> str:
    if arm.lift is None:
        return "-"
    text = f"{100 * arm.lift:+.1f} %"
    if arm.lift_lower is None or arm.lift_upper is None:
        return text
    return f"{text} ({100 * arm.lift_lower:+.1f} to {100 * arm.lift_upper:+.1f})"


def signed(value: float, text: str) -> str:
    """A number with its sign; text is its size."""
    return text if abs(value) < TINY else f"-{text}" if value < 0 else f"+{text}"


def _trailing(report: ReportData, arm: ArmRow) -> str:
    """How far behind the leader: from what is shown to the bound."""
    if arm.gap_to_leader_upper == 0.0:
        return "leads"
    gap, least = (
        report.units.gap,
        arm.gap_to_leader_lower if arm.gap_to_leader_lower is not None else arm.gap_to_best_lower,
    )
    most = None if arm.gap_to_leader_upper is None else gap(arm.gap_to_leader_upper, "up")
    if least is not None and least > 0:
        return f"{gap(least, 'down', unit=False)} to {most}" if most is not None else f"at least {gap(least, 'down')}"
    return "no bound yet" if most is None else f"at most {most}"


def _place(report: ReportData, arm: ArmRow) -> str:
    row = next((each for each in report.claim_rows if each.arm == arm.name), None)
    if row is None or (not row.shown and report.status == "decided"):
        return arm.place
    if row.shown:
        at = "" if row.shown_at is None else f", round {row.shown_at}"
        by = (
            ""
            if arm.gap_to_best_lower is None or arm.gap_to_leader_upper is not None
            else f"; behind by {at_least(report, arm.gap_to_best_lower)}"
        )
        return f"out{at}{by}"
    return f"{arm.place} ({odds(row.log_evidence, unit=False)} of {odds(row.log_threshold)})"


def _waiting(report: ReportData, arm: ArmRow) -> str:
    if not arm.waiting:
        return "-"
    mean = "" if arm.waiting_mean is None else f", {report.units.value(arm.waiting_mean, 'near')}"
    return f"{count(arm.waiting)}{mean}"


def describe_outstanding(report: ReportData) -> str:
    """What is still to come of the open round."""
    names = [f"{arm} {count(n)}" for arm, n in report.still_to_come.items()]
    return f"{', '.join(names[:30])}{', ...' if len(names) > 30 else ''}"


NUMERIC = re.compile(r"(almost |below )?[-+]?[\d.,^\s]*( to [-+]?[\d.]+)?( %| : 1| \*)*|-")


def render_text(report: ReportData) -> str:
    """The report for a terminal."""
    lines = [
        *render_top(report),
        "",
        f"{report.study}: {report.asks}",
        f"{describe_extent(report)}; {describe_error(report)}.",
    ]
    lines += [f"{report.assumed} {describe_history(report)}".strip(), ""]
    lines += [*align_columns(arm_table(report)), ""]
    lines += [legend, ""] if (legend := describe_places(report)) else []
    lines += [*align_columns(claim_table(report)), ""] if has_claim_table(report) else []
    if report.still_to_come:
        lines += [f"Still to come: {describe_outstanding(report)}.", ""]
    lines += [f"Note: {each}" for each in report.notes]
    lines += [] if report.forecast is None else [f"Forecast: {report.forecast}."]
    lines += [] if report.digest is None else [f"The record ends with {report.digest}."]
    return "\n".join(visible(line) for line in [*lines, f"Next: {report.next}"])


def render_top(report: ReportData) -> list[str]:
    """What became of the guarantee, unless it was kept, what endangers it, and then the headline."""
    dangers = [f"Danger: {each}" for each in report.dangers]
    return [visible(each) for each in [*describe_guarantee(report), *dangers, sentence(report.headline)]]


def describe_guarantee(report: ReportData) -> list[str]:
    """What became of the guarantee, as a sentence, unless it was kept."""
    return [] if report.guarantee.kept else [f"The guarantee is {report.guarantee}."]


def describe_extent(report: ReportData) -> str:
    """How much came back: of the budget, in how many rounds."""
    of = "" if report.budget is None else f" of at most {count(report.budget)}"
    waiting = f", and {count(report.waiting)} of the open round, which do not count yet" if report.waiting else ""
    if report.late:
        before = count(report.results - report.late)
        within = f"{before} in {rounds(report.rounds)} and {count(report.late)} after the decision"
        return f"{several(report.results, 'result')}, {within}"
    came = f"{count(report.results)}{of} results" if of else several(report.results, "result")
    return f"{came} in {rounds(report.rounds)}{waiting}"


def describe_error(report: ReportData) -> str:
    """How likely an error is."""
    if report.guarantee.kept:
        return f"wrong with probability at most {share(report.delta)}"
    if report.guarantee.status is GuaranteeStatus.CONDITIONAL:
        return f"wrong with probability at most {share(report.delta)}, under the conditions above"
    return f"an error of {share(report.delta)} was aimed at, without a guarantee"


def describe_history(report: ReportData) -> str:
    """When, by whom, with how many files."""
    if report.created is None:
        return ""
    who = f" by {few(report.by, 4)}" if report.by else ""
    files = f", {count(len(report.files))} file{'' if len(report.files) == 1 else 's'}" if report.files else ""
    last = f", last change {day(report.changed)}" if report.changed not in (None, report.created) else ""
    return f"Started {day(report.created)}{last}{who}{files}."


def describe_places(report: ReportData) -> str:
    """How to read the place of an arm."""
    if not report.claim_rows or report.claim_rows[0].arm is None:
        return ""
    bar = odds(report.claim_rows[0].log_threshold)
    return f"An arm is out once the odds that it is not the best reach {bar}; the study stops when one is left."


def has_claim_table(report: ReportData) -> bool:
    """Whether claims have a table of their own; those that rule out arms stand with the arms."""
    return bool(report.claim_rows) and report.claim_rows[0].arm is None


def list_facts(report: ReportData) -> list[tuple[str, str]]:
    """What was asked, how much came back, and what was promised."""
    found = [
        ("Question", report.asks),
        ("Results", describe_extent(report)),
        ("Error", capital(describe_error(report))),
    ]
    found += [("Assumed", report.assumed), ("Allocation", capital(report.allocated))]
    found += [("History", history)] if (history := describe_history(report)) else []
    found += [("Still to come", describe_outstanding(report))] if report.still_to_come else []
    found += [("Forecast", report.forecast)] if report.forecast is not None else []
    return [(name, visible(value)) for name, value in found]


def describe_version(report: ReportData) -> str:
    """The version, and the last entry of the record."""
    digest = "" if report.digest is None else f"; the record ends with {report.digest}"
    return f"roundwise {report.version}{digest}"


def align_columns(table: Table) -> list[str]:
    """A table in columns; numbers to the right."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    right = [i > 0 and all(NUMERIC.fullmatch(row[i]) for row in table[1:]) for i in range(len(widths))]
    return [
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in table
    ]
