"""The report as Markdown."""

from __future__ import annotations

import re

from roundwise.errors import visible
from roundwise.questions.claim_words import ODDS
from roundwise.studies.report.model import Facts
from roundwise.studies.report.tables import Table, arm_table, claim_table, file_table, round_table, waiting_words
from roundwise.studies.report.text import claims_apart, danger_of, extent_of, history_of, legend_of, promise_of
from roundwise.studies.report.words import capital, sentence

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


def markdown_of(report: Facts) -> str:
    """The report as Markdown."""
    lines = ["<!-- roundwise report -->", f"# {escaped(report.study)}", ""]
    lines += [line for each in danger_of(report) for line in (f"> **{escaped(each)}**", "")]
    lines += [line for each in report.dangers for line in (f"> {escaped(each)}", "")]
    lines += [f"**{escaped(sentence(report.headline))}**", "", escaped(report.sentence), ""]
    lines += [f"- {name}: {escaped(value)}" for name, value in facts_of(report)]
    lines += ["", "## Arms", "", *pipes(arm_table(report)), ""]
    lines += [escaped(legend), ""] if (legend := legend_of(report)) else []
    if claims_apart(report):
        lines += ["## Evidence", "", evidence_of(report), "", *pipes(claim_table(report)), ""]
    if report.cells:
        lines += ["## Rounds", "", *pipes(round_table(report)), ""]
    if report.files:
        lines += ["## Files", "", *pipes(file_table(report)), ""]
    if report.notes:
        lines += ["## Notes", "", *(f"- {escaped(each)}" for each in report.notes), ""]
    lines += ["## To reproduce", "", "```", visible(report.reproduce), "```", "", foot_of(report), ""]
    return "\n".join(lines)


def facts_of(report: Facts) -> list[tuple[str, str]]:
    """What was asked, how much came back, and what was promised."""
    found = [("Question", report.asks), ("Results", extent_of(report)), ("Error", capital(promise_of(report)))]
    found += [("Assumed", report.assumed), ("Allocation", capital(report.allocated))]
    found += [("History", history)] if (history := history_of(report)) else []
    found += [("Still to come", waiting_words(report))] if report.still_to_come else []
    found += [("Forecast", report.forecast)] if report.forecast is not None else []
    return [(name, visible(value)) for name, value in found]


def evidence_of(report: Facts) -> str:
    """How to read the table of claims."""
    rows = report.claim_rows
    bounded = any(each.lower is not None or each.upper is not None for each in rows)
    units = (
        "of rates in per cent, of differences in percentage points"
        if report.units.rates
        else "in the units of the results"
    )
    units = "as odds ratios" if any(each.scale == ODDS for each in rows) else units
    one_by_one = any(each.label is not None for each in rows)  # claims, each of which has a name
    said, bounds = (ONE_BY_ONE, ALL_BOUNDS) if one_by_one else (EVIDENCE, BOUNDS)
    settled = "of each claim one side is shown" if any(each.below for each in rows) else "all lines are shown"
    return said.format(settled=settled) + (bounds.format(units=units) if bounded else "")


def foot_of(report: Facts) -> str:
    """The version, and the last entry of the record."""
    digest = "" if report.digest is None else f"; the record ends with {report.digest}"
    return f"roundwise {report.version}{digest}"


def pipes(table: Table) -> list[str]:
    """A table in Markdown."""
    rows = ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in table]
    return [rows[0], "|" + " --- |" * len(table[0]), *rows[1:]]


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = visible(text).replace("\n", " ")
    return re.sub(r"([\\|*`\[\]])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")
