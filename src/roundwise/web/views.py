"""What the page of a study shows, from its state and its report: plain values for a template, no mathematics."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from roundwise.messages import day
from roundwise.policies.base import apportion_pulls
from roundwise.render.svg import Svg
from roundwise.render.terminal import Table
from roundwise.report import Report
from roundwise.report.charts import draw_means_by_round
from roundwise.report.export import ReportView
from roundwise.report.model import ClaimRow, odds
from roundwise.report.text import (
    Column,
    arm_table,
    as_rows,
    claim_table,
    describe_odds_of_error,
    has_claim_table,
)
from roundwise.study.state import State

MARK = 80.0  # where the required odds stand on a bar of 100


class Bar(NamedTuple):
    """A bar of 100 units."""

    filled: float
    kind: str  # done, open, given-up: its color
    words: str


class Option(NamedTuple):
    """An option: its cells in the table, and its bar, or its place in words where there is none."""

    name: str
    cells: list[str]
    place: str
    bar: Bar | None
    out: bool
    leads: bool


class ClaimBar(NamedTuple):
    """A claim that is not about one option."""

    claim: str
    bar: Bar
    size: str


class OptionShare(NamedTuple):
    """An option in the next round."""

    name: str
    share: str
    results: int
    to_come: int


class NextRound(NamedTuple):
    """The next round: one that is open, or one that can begin."""

    number: int
    open: bool
    told: int  # its recorded results
    total: int
    to_come: int
    rows: list[OptionShare]
    by_number: bool
    fixed: bool  # whether the study has a split of its own
    equal: int  # results of each option in an equal split


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
        self.wrong = f"wrong at most {describe_odds_of_error(report.delta)}"
        self.bar_title, self.bar_legend = _describe_bars(report)
        self.heads, self.options = _list_options(report)
        self.claim_table: Table = as_rows(claim_table(report)) if report.claim_rows else []
        self.next = next_round(state)

    @cached_property
    def claim_bars(self) -> list[ClaimBar]:
        """The claims with their bars, where they are not about one option each."""
        if not has_claim_table(self.report) or self.bar_title:
            return []
        claims, *others = claim_table(self.report)
        sizes = dict(zip(claims.cells, _cells(others, "size") or [""] * len(claims.cells), strict=True))
        ordered = sorted(self.report.claim_rows, key=lambda each: (each.shown, -each.log_evidence))
        decided = self.report.status == "decided"
        return [ClaimBar(each.claim, _draw_bar(each, "shown", decided), sizes.get(each.claim, "")) for each in ordered]

    @cached_property
    def by_round(self) -> Svg:
        """The chart of means by round."""
        return draw_means_by_round(self.report)


def _list_options(report: Report) -> tuple[list[str], list[Option]]:
    """The heads and rows of the table of options, the best first."""
    _, *columns = arm_table(report, most=len(report.arm_rows))
    places = _cells(columns, "place") or [each.place for each in report.ranked]
    shown = [each for each in columns if each.kind not in ("place", "lift")]  # the bar says more, or the difference
    rows = as_rows(shown)[1:]
    answer = report.answer if isinstance(report.answer, list) else [report.answer]
    bars: dict[str, Bar] = {}  # of two claims about an option the first that is shown, else the first
    for each in sorted(report.claim_rows, key=lambda claim: (not claim.shown, claim.below)):
        name, done = (each.arm, "out") if each.arm is not None else (each.compares, "shown")
        done = "shown not to" if each.below and each.arm is None else done
        if name is not None:
            bars.setdefault(name, _draw_bar(each, done, report.status == "decided"))
    options = []
    for arm, row, place in zip(report.ranked, rows, places, strict=True):
        leads = arm.name in answer or (report.answer is None and arm.gap_to_leader_upper == 0.0)
        cells = [_typeset(each) for each in row]
        options.append(Option(arm.name, cells, place, bars.get(arm.name), arm.place == "out", leads))
    return [each.title for each in shown], options


def _cells(columns: Sequence[Column], kind: str) -> list[str]:
    return next((each.cells for each in columns if each.kind == kind), [])


def _typeset(cell: str) -> str:
    """A cell with true minus signs, and per cent signs that stay with their numbers.

    >>> _typeset("-4.4 points (-27.4 to +19.0)"), _typeset("28.3 to 47.3 %"), _typeset("well-known")
    ('−4.4 points (−27.4 to +19.0)', '28.3 to 47.3\xa0%', 'well-known')
    """
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", cell).replace(" %", "\N{NO-BREAK SPACE}%")


def _draw_bar(claim: ClaimRow, done: str, decided: bool) -> Bar:
    """The bar of a claim; `done` is the word for a claim that is shown."""
    if claim.shown:
        return Bar(100.0, "done", done + ("" if claim.shown_at is None else f", round {claim.shown_at}"))
    if claim.arm is not None and decided:
        return Bar(0.0, "open", "the only one left")
    won, needed = odds(claim.log_evidence), odds(claim.log_threshold)
    part = 0.0 if claim.log_threshold <= 0 else claim.log_evidence / claim.log_threshold
    filled = round(min(max(part, 0.0), 1.0) * MARK, 1)
    words = f"{'almost ' if won == needed else ''}{odds(claim.log_evidence, unit=False)} of {needed}"
    return Bar(filled, "given-up", f"given up at {words}") if claim.given_up else Bar(filled, "open", words)


def _describe_bars(report: Report) -> tuple[str, str]:
    """The head of the column of bars, empty where claims are not about one option each, and how to read them."""
    if not report.claim_rows:
        return "", ""
    first = report.claim_rows[0]
    open_ = {odds(each.log_threshold) for each in report.claim_rows if not each.shown}
    needed = odds(first.log_threshold) if not open_ else open_.pop() if len(open_) == 1 else "the odds below each bar"
    moves = f"at the mark ({needed}); evidence moves when a round is complete."
    if first.arm is not None:
        return "is it out?", f"The bar is the evidence that this option is not the best. It is out {moves}"
    return (
        "is it shown?" if first.compares is not None else "",
        f"The bar is the evidence for a claim. It is shown {moves}",
    )


def next_round(state: State) -> NextRound | None:
    """The next round; None once nothing more is asked for."""
    if state.closed is not None or state.decided is not None or state.over is not None:
        return None
    asked = state.open_round
    pulls = state.planned if asked is None else asked.pulls
    to_come = pulls if asked is None else asked.outstanding
    names, total = state.spec.arms, int(pulls.sum())
    if not total:
        return None
    order = [int(i) for i in np.argsort(-pulls, kind="stable") if pulls[i] > 0]
    rows = [OptionShare(names[i], format_share(pulls[i] / total), int(pulls[i]), int(to_come[i])) for i in order]
    return NextRound(
        number=state.number + (asked is None),
        open=asked is not None,
        told=0 if asked is None else int((asked.counts + asked.lost).sum()),
        total=total,
        to_come=int(to_come.sum()),
        rows=rows,
        by_number=state.spec.by_number if asked is None else asked.by_number,
        fixed=state.spec.split is not None,
        equal=int(apportion_pulls(np.ones(len(names)), float(total), 0.0).max()),
    )


def format_share(share: float) -> str:
    """A positive share of a round in per cent, with as few digits as possible.

    >>> format_share(0.42), format_share(0.005), format_share(0.00005)
    ('42 %', '0.5 %', '0.005 %')
    """
    return f"{100 * share:.{max(0, -math.floor(math.log10(100 * share) + 1e-9))}f} %"
