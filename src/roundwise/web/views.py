"""What the page of a study shows, from its state and its report: plain values for a template, no mathematics."""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import NamedTuple

import numpy as np

from roundwise.policies.base import limited
from roundwise.render.svg import Svg
from roundwise.report import Report
from roundwise.report.charts import draw_means_by_round
from roundwise.report.claim_table import Table, claim_table
from roundwise.report.headline import in_a_hundred
from roundwise.report.html import ReportView
from roundwise.report.model import Contents, Shown
from roundwise.report.terminal import arm_table, claims_apart
from roundwise.report.wording import day, odds
from roundwise.study.state import State

SHOWN = 25  # options in the table; the rest is folded away
SPLIT = 12  # options in the table of the next round


class Option(NamedTuple):
    """An option: its name, what the table says of it, and its bar."""

    name: str
    cells: list[str]
    place: str
    bar: Bar | None
    out: bool
    leads: bool


class Share(NamedTuple):
    """An option in the next round."""

    name: str
    share: str
    results: int
    to_come: int


class Next(NamedTuple):
    """The round to do next: one that is open, or one that can be begun."""

    number: int
    open: bool
    told: int  # results of it that are recorded
    total: int
    to_come: int
    rows: list[Share]
    more: int  # options that are not listed
    by_number: bool
    fixed: bool  # whether the study has a split of its own
    equal: int  # of each option, if they were split equally
    since: str


class ClaimLine(NamedTuple):
    """Something that must be shown."""

    claim: str
    bar: Bar
    size: str


class StudyView(ReportView):
    """What the page of a study shows.

    Args:
        state: The study as it stands.
        report: Its report.
        bounded: Whether the report has intervals.
    """

    def __init__(self, state: State, report: Report, bounded: bool) -> None:
        super().__init__(report)
        by = f" by {report.by[0]}" if report.by else ""
        self.bounded = bounded
        self.started = f"started {day(report.created)}{by}" if report.created else ""
        self.wrong = f"wrong at most {in_a_hundred(report.delta)}"
        self.heads, self.options = _options(report)
        self.bar_title, self.bar_legend = title_of(report), legend_of(report)
        self.claim_bars = _claims(report) if claims_apart(report) and not self.bar_title else []
        self.next = next_of(state)
        self.claim_table: Table = claim_table(report) if report.claim_rows else []

    @cached_property
    def by_round(self) -> Svg:
        """The chart of means by round."""
        return draw_means_by_round(self.report)


def _options(report: Report) -> tuple[list[str], list[Option]]:
    """The options as a table, the best first; its place is told by the bar, or in words where there is none."""
    head, *rows = arm_table(report, most=len(report.arm_rows))
    at = head.index("") if "" in head else None
    left_out = {
        0,
        at,
        *(i for i, title in enumerate(head) if title.startswith("lift over ")),
    }  # it stands in the report
    bars, answer = bars_by_arm(report), report.answer if isinstance(report.answer, list) else [report.answer]
    found = []
    for arm, row in zip(report.ranked, rows, strict=True):
        cells = [_set(cell) for i, cell in enumerate(row) if i not in left_out]
        leads = arm.name in answer or (report.answer is None and arm.trails_most == 0.0)
        place = row[at] if at is not None else arm.place
        found.append(Option(arm.name, cells, place, bars.get(arm.name), arm.place == "out", leads))
    return [title for i, title in enumerate(head) if i not in left_out], found


def _set(cell: str) -> str:
    """A cell as it is set on a page: a true minus, and no per cent sign alone on a line.

    >>> _set("-4.4 points (-27.4 to +19.0)"), _set("28.3 to 47.3 %"), _set("well-known")
    ('−4.4 points (−27.4 to +19.0)', '28.3 to 47.3\xa0%', 'well-known')
    """
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", cell).replace(" %", "\N{NO-BREAK SPACE}%")


def _claims(report: Report) -> list[ClaimLine]:
    """What must be shown, where it is not about one option each."""
    sizes = claim_table(report)
    at = sizes[0].index("so far") if "so far" in sizes[0] else None
    said = {row[0]: row[at] for row in sizes[1:]} if at is not None else {}
    ordered = sorted(report.claim_rows, key=lambda each: (each.shown, -each.log_evidence))
    return [ClaimLine(each.claim, bar_of(report, each, "shown"), said.get(each.claim, "")) for each in ordered]


def next_of(state: State) -> Next | None:
    """The round to do next; None once nothing more is asked for."""
    if state.closed is not None or state.decided is not None or state.over is not None:
        return None
    asked = state.outstanding
    pulls = state.planned if asked is None else asked.pulls
    to_come = pulls if asked is None else asked.outstanding
    names, total = state.settings.arms, int(pulls.sum())
    if not total:
        return None
    order = np.argsort(-pulls, kind="stable")
    used = [int(i) for i in order if pulls[i] > 0]
    rows = [Share(names[i], per_cent(pulls[i] / total), int(pulls[i]), int(to_come[i])) for i in used]
    equal = limited(np.ones(len(names)), float(total), 0.0)
    return Next(
        number=state.number + (asked is None),
        open=asked is not None,
        told=0 if asked is None else int((asked.counts + asked.lost).sum()),
        total=total,
        to_come=int(to_come.sum()),
        rows=rows,
        more=max(len(rows) - SPLIT, 0),
        by_number=state.settings.by_number if asked is None else asked.by_number,
        fixed=state.settings.split is not None,
        equal=int(equal.max()),
        since="" if asked is None or not asked.since else asked.since,
    )


def per_cent(share: float) -> str:
    """A share of a round, as short as it can be said.

    >>> per_cent(0.42), per_cent(0.005), per_cent(0.00005)
    ('42 %', '0.5 %', '0.005 %')
    """
    if share <= 0:
        return "0 %"
    decimals = max(0, -math.floor(math.log10(100 * share) + 1e-9))
    return f"{100 * share:.{decimals}f} %"


MARK = 80.0  # where the odds that are needed stand, of 100


class Bar(NamedTuple):
    """A bar of 100 units."""

    filled: float
    kind: str  # done, open, given-up: its colour
    words: str


def bar_of(report: Contents, claim: Shown, done: str) -> Bar:
    """The bar of a claim; `done` is what a claim that is shown is called."""
    won, needed = odds(claim.log_evidence), odds(claim.log_bar)
    part = 0.0 if claim.log_bar <= 0 else claim.log_evidence / claim.log_bar
    if claim.shown:
        at = "" if claim.shown_at is None else f", round {claim.shown_at}"
        return Bar(100.0, "done", f"{done}{at}")
    if claim.arm is not None and report.status == "decided":
        return Bar(0.0, "open", "the only one left")
    filled = round(min(max(part, 0.0), 1.0) * MARK, 1)
    almost = "almost " if won == needed else ""
    words = f"{almost}{won.removesuffix(' : 1')} of {needed}"
    return Bar(filled, "given-up", f"given up at {words}") if claim.given_up else Bar(filled, "open", words)


def title_of(report: Contents) -> str:
    """The question that the bars beside the options answer; empty where what must be shown is not about one option."""
    if not report.claim_rows:
        return ""
    first = report.claim_rows[0]
    return "is it out?" if first.arm is not None else "is it shown?" if first.compares is not None else ""


def bars_by_arm(report: Contents) -> dict[str, Bar]:
    """The bar of each option; of two claims about one the first that is shown, else the first."""
    found: dict[str, Bar] = {}
    for each in sorted(report.claim_rows, key=lambda claim: (not claim.shown, claim.below)):
        name, done = (each.arm, "out") if each.arm is not None else (each.compares, "shown")
        if name is not None and name not in found:
            words = "shown not to" if each.below and each.arm is None else done
            found[name] = bar_of(report, each, words)
    return found


def legend_of(report: Contents) -> str:
    """How to read the bars."""
    if not report.claim_rows:
        return ""
    bars = {odds(each.log_bar) for each in report.claim_rows if not each.shown}
    needed = bars.pop() if len(bars) == 1 else "the odds below each bar" if bars else odds(report.claim_rows[0].log_bar)
    if report.claim_rows[0].arm is not None:
        return (
            f"The bar is the evidence that this option is not the best. It is out at the mark ({needed}); evidence "
            "moves when a round is complete."
        )
    return (
        f"The bar is the evidence for a claim. It is shown at the mark ({needed}); evidence moves when a round is "
        "complete."
    )
