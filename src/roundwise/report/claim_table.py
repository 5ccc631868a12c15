"""The table of what must or can be shown, with the size of each, and how to read it."""

from __future__ import annotations

from roundwise.errors import visible
from roundwise.questions.claims import ODDS
from roundwise.report.model import RATIO, ClaimRow, ReportData
from roundwise.report.wording import TINY, number, odds

MOST = 60  # rows of a table; programs get all

Table = list[list[str]]

EVIDENCE = (
    "Each line is something that must be shown before the study may stop, with the odds won for it so far and the odds "
    "needed. The study stops when enough lines are shown: this table is the stopping rule."
)
BOUNDS = (
    " Bounds of what is claimed are on one side, {units}; each is wrong with at most twice the error probability of "
    "the study."
)
ONE_BY_ONE = (
    "Each line can be shown by itself: it is, and stays so, once the odds won for it reach the odds needed, which fall "
    "as others are shown. The study stops when {settled}, when its budget is used, or when nothing more is to be "
    "expected of what is left of it; what is open then was not shown, and nothing is said against it."
)
ALL_BOUNDS = " Bounds of what is claimed are on one side, {units}; what they promise is in the notes."


def claim_table(report: ReportData) -> Table:
    """What must be shown, for people."""
    rows = report.claim_rows
    rows = rows if len(rows) <= MOST else tuple(sorted(rows, key=lambda each: each.log_evidence)[:MOST])
    chances = any(each.chance is not None for each in rows)
    sizes = any(each.estimate is not None or _bounded(each) for each in rows)
    table = [
        ["to be shown", "evidence", "needed", "", *(["so far"] if sizes else []), *(["forecast"] if chances else [])]
    ]
    for each in rows:
        won, bar = odds(each.log_evidence), odds(each.log_threshold)
        if won == bar and not each.shown:
            won = f"almost {won}"
        row = [each.claim, won, bar, _stands(report, each)]
        row += [_size(report, each)] if sizes else []
        row += ["" if each.chance is None else f"{100 * each.chance:.0f} %"] if chances else []
        table.append([visible(cell) for cell in row])
    return table


def describe_evidence(report: ReportData) -> str:
    """How to read the table of claims."""
    rows = report.claim_rows
    bounded = any(each.lower is not None or each.upper is not None for each in rows)
    units = (
        "of rates in per cent, of differences in percentage points"
        if report.units.rates
        else "in the units of the results"
    )
    units = "as odds ratios" if any(each.scale == ODDS for each in rows) else units
    units = "as ratios" if any(each.scale == RATIO for each in rows) else units
    one_by_one = any(each.label is not None for each in rows)  # claims, each of which has a name
    said, bounds = (ONE_BY_ONE, ALL_BOUNDS) if one_by_one else (EVIDENCE, BOUNDS)
    settled = "of each claim one side is shown" if any(each.below for each in rows) else "all lines are shown"
    return said.format(settled=settled) + (bounds.format(units=units) if bounded else "")


def at_least(report: ReportData, bound: float) -> str:
    """A bound from below in words; nothing is said of a size that is next to none."""
    return "more than 0" if bound < TINY else f"at least {report.units.gap(bound, 'down')}"


def _stands(report: ReportData, claim: ClaimRow) -> str:
    if not claim.shown:
        if claim.arm is not None and report.status == "decided":
            return "the only one left"
        if claim.label is not None and any(each.shown and each.label == claim.label for each in report.claim_rows):
            return "other side shown"
        return "given up" if claim.given_up else "open"
    at = "" if claim.shown_at is None else f" in round {claim.shown_at}"
    return f"shown{at}"


def _bounded(claim: ClaimRow) -> bool:
    return claim.lower is not None or claim.upper is not None


def _size(report: ReportData, claim: ClaimRow) -> str:
    """The estimate of what a claim is about, with its bound."""
    units = report.units
    if claim.scale == RATIO:
        return _describe_ratio(claim)
    gap = claim.arm is not None or claim.gap
    say = units.gap if gap else units.value
    if claim.scale == ODDS:
        say = number
    if claim.arm is not None:  # how far the arm is behind the best
        if claim.lower is not None and claim.shown:
            return f"behind by {at_least(report, claim.lower)}"
        return (
            ""
            if claim.estimate is None
            else ("leads" if not claim.estimate else f"{say(claim.estimate, 'near')} behind")
        )
    parts = [] if claim.estimate is None else [say(claim.estimate, "near")]
    lower, upper = claim.lower, claim.upper
    parts += [] if lower is None else [f"{_strictly('at least', 'above', claim, lower)} {say(lower, 'down')}"]
    parts += [] if upper is None else [f"{_strictly('at most', 'below', claim, upper)} {say(upper, 'up')}"]
    of = "" if claim.scale is None or not parts else f"{claim.scale} " if claim.scale == ODDS else f"{claim.scale}: "
    return of + ", ".join(parts)


def _strictly(reached: str, passed: str, claim: ClaimRow, bound: float) -> str:
    """A bound that just agrees with the decision lies beyond what was asked, by an amount that no digit shows."""
    agrees = claim.shown and claim.compares is None and claim.margins is not None and claim.margins < TINY
    return passed if agrees or 0 < abs(bound) < TINY else reached


def _describe_ratio(claim: ClaimRow) -> str:
    """Its size, and what is shown of it."""
    shown, than = "shown" if claim.shown else "not shown", "be at most" if claim.below else "exceed"
    parts = [f"{shown} to {than} {claim.margin:g}"]
    if claim.estimate is not None:
        parts.insert(0, number(claim.estimate))
    if claim.lower is not None and claim.margin is not None and claim.lower > claim.margin + TINY:
        parts.append(f"at least {number(claim.lower, 'down')}")
    if claim.upper is not None and claim.margin is not None and claim.upper < claim.margin - TINY:
        parts.append(f"at most {number(claim.upper, 'up')}")
    return f"{RATIO} {', '.join(parts)}"
