"""The report for a terminal."""

from __future__ import annotations

import re

from roundwise.errors import visible
from roundwise.studies.guarantee import CONDITIONAL, KEPT
from roundwise.studies.report.model import Facts
from roundwise.studies.report.tables import Table, arm_table, claim_table, waiting_words
from roundwise.studies.words import count, day, few, odds, rounds, sentence, share

NUMERIC = re.compile(r"(almost |below )?[-+]?[\d.,^\s]*( to [-+]?[\d.]+)?( %| : 1| \*)*|-")


def text_of(report: Facts) -> str:
    """The report for a terminal."""
    lines = [*top_of(report), "", f"{report.study}: {report.asks}", f"{extent_of(report)}; {promise_of(report)}."]
    lines += [f"{report.assumed} {history_of(report)}".strip(), ""]
    lines += [*aligned(arm_table(report)), ""]
    lines += [legend, ""] if (legend := legend_of(report)) else []
    lines += [*aligned(claim_table(report)), ""] if claims_apart(report) else []
    if report.still_to_come:
        lines += [f"Still to come: {waiting_words(report)}.", ""]
    lines += [f"Danger: {each}" for each in report.dangers] + [f"Note: {each}" for each in report.notes]
    lines += [] if report.forecast is None else [f"Forecast: {report.forecast}."]
    lines += [] if report.digest is None else [f"The record ends with {report.digest}."]
    return "\n".join(visible(line) for line in [*lines, f"Next: {report.next}"])


def top_of(report: Facts) -> list[str]:
    """What became of the guarantee, unless it was kept, and then the headline."""
    return [visible(each) for each in [*danger_of(report), sentence(report.headline)]]


def danger_of(report: Facts) -> list[str]:
    """What became of the guarantee, as a sentence, unless it was kept."""
    return [] if report.guarantee == KEPT else [f"The guarantee is {report.guarantee}."]


def extent_of(report: Facts) -> str:
    """How much came back: of the budget, in how many rounds."""
    of = "" if report.budget is None else f" of at most {count(report.budget)}"
    waiting = f", and {count(report.waiting)} of the open round, which do not count yet" if report.waiting else ""
    later = sum(each.results for each in report.files if each.round is None)
    if later:
        within = f"{count(report.results - later)} in {rounds(report.rounds)} and {count(later)} after the decision"
        return f"{count(report.results)} results, {within}"
    return f"{count(report.results)}{of} results in {rounds(report.rounds)}{waiting}"


def promise_of(report: Facts) -> str:
    """How likely an error is."""
    if report.guarantee == KEPT:
        return f"wrong with probability at most {share(report.delta)}"
    if report.guarantee.startswith(CONDITIONAL):
        return f"wrong with probability at most {share(report.delta)}, under the conditions above"
    return f"an error of {share(report.delta)} was aimed at, without a guarantee"


def history_of(report: Facts) -> str:
    """When, by whom, with how many files."""
    if report.created is None:
        return ""
    who = f" by {few(report.by, 4)}" if report.by else ""
    files = f", {count(len(report.files))} file{'' if len(report.files) == 1 else 's'}" if report.files else ""
    last = f", last change {day(report.changed)}" if report.changed not in (None, report.created) else ""
    return f"Started {day(report.created)}{last}{who}{files}."


def legend_of(report: Facts) -> str:
    """How to read the place of an arm."""
    if not report.claim_rows or report.claim_rows[0].arm is None:
        return ""
    bar = odds(report.claim_rows[0].log_bar)
    return f"An arm is out once the odds that it is not the best reach {bar}; the study stops when one is left."


def claims_apart(report: Facts) -> bool:
    """Whether claims have a table of their own; those that rule out arms stand with the arms."""
    return bool(report.claim_rows) and report.claim_rows[0].arm is None


def aligned(table: Table) -> list[str]:
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
