"""What the page of a study shows, from its state and its report: plain values for a template, no mathematics."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from roundwise.policies.base import limited
from roundwise.report import Report
from roundwise.report.claim_table import Table, claim_table
from roundwise.report.headline import in_a_hundred, meaning, under_the_headline
from roundwise.report.html import evidence_chart, means_chart
from roundwise.report.terminal import arm_table, claims_apart, danger_of, extent_of, facts_of, round_table
from roundwise.report.wording import day, sentence
from roundwise.study.state import State
from roundwise.web.charts import Bar, bar_of, bars_by_arm, legend_of, means_by_round, title_of

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


class View(NamedTuple):
    """A study."""

    report: Report
    bounded: bool  # whether bounds are there
    started: str
    wrong: str
    dangers: list[str]
    headline: str
    under: str
    kind: str  # decided, open, closed: the colour of the headline
    extent: str
    heads: list[str]
    options: list[Option]
    bar_title: str
    legend: str
    claims: list[ClaimLine]
    next: Next | None
    meaning: list[str]
    facts: list[tuple[str, str]]
    claim_table: Table
    rounds: Table
    evidence: str  # charts, as SVG
    means: str
    by_round: str


def view_of(state: State, report: Report, bounded: bool) -> View:
    """What the page of a study shows."""
    heads, options = _options(report)
    apart = claims_apart(report) and not title_of(report)
    by = f" by {report.by[0]}" if report.by else ""
    return View(
        report=report,
        bounded=bounded,
        started=f"started {day(report.created)}{by}" if report.created else "",
        wrong=f"wrong at most {in_a_hundred(report.delta)}",
        dangers=[*danger_of(report), *map(str, report.dangers)],
        headline=sentence(report.headline),
        under=under_the_headline(report),
        kind={"decided": "decided", "closed": "closed"}.get(report.status, "open"),
        extent=extent_of(report),
        heads=heads,
        options=options,
        bar_title=title_of(report),
        legend=legend_of(report),
        claims=_claims(report) if apart else [],
        next=next_of(state),
        meaning=meaning(report),
        facts=facts_of(report),
        claim_table=claim_table(report) if report.claim_rows else [],
        rounds=round_table(report),
        evidence=evidence_chart(report),
        means=means_chart(report) if bounded else "",
        by_round=means_by_round(report),
    )


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
