"""The page of a study, what is loaded into it later, its report and its record."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from roundwise.arrays import Plain
from roundwise.messages import day
from roundwise.policies import usual_policy
from roundwise.policies.base import apportion_pulls
from roundwise.render.svg import Svg, escape
from roundwise.report import Report
from roundwise.report.charts import draw_means_by_round
from roundwise.report.export import ReportView, render_csv
from roundwise.report.model import ClaimRow, ReportData, list_events, odds, progress
from roundwise.report.text import (
    Column,
    Table,
    arm_table,
    as_rows,
    claim_table,
    describe_odds_of_error,
    describe_proviso,
    has_claim_table,
)
from roundwise.store.remote import segment
from roundwise.study import Study
from roundwise.study.state import State
from roundwise.web.rendering import ENVIRONMENT, page, respond, texts
from roundwise.web.reports import FORMATS, attach_file, reports_of
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import UPLOAD, VIEW, link_of, link_store, linked_study, study_of
from roundwise.web.workers import SLOW

MARK = 80.0  # where the required odds stand on a bar of 100
router = Pages()


class Bar(NamedTuple):
    """The evidence for a claim as a bar of 100 units."""

    filled: float
    kind: str  # done, open, given-up: its color
    words: str


class ArmLine(NamedTuple):
    """An arm: its cells in the table, and its bar, or its place in words where there is none."""

    name: str
    cells: list[str]
    place: str
    bar: Bar | None
    out: bool
    leads: bool


class NextRound(NamedTuple):
    """The next round: one that is open, or one that can begin."""

    number: int
    open: bool
    told: int  # its recorded results
    total: int
    to_come: int
    rows: list[tuple[str, str, int, int]]  # arm, share, results, to come
    by_number: bool
    fixed: bool  # whether the study has a fixed split
    equal: int  # results of each arm in an equal split


class StudyView(ReportView):
    """The view of a study page.

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
        self.wrong = f"wrong at most {describe_odds_of_error(report.delta)}{describe_proviso(report.guarantee)}"
        self.bar_title, self.bar_legend = _describe_bars(report)
        self.heads, self.lines = _list_arms(report, ("place", "lift"))  # the bar and the difference say more
        self.claim_table: Table = as_rows(claim_table(report)) if report.claim_rows else []
        self.waiting = [str(each) for each in report.waiting]
        self.next = next_round(state)
        question, arms = state.spec.question, len(state.spec.arms)
        self.redesigns = state.spec.list is None and usual_policy(question, True, arms).plans_budget

    @cached_property
    def whole_table(self) -> tuple[list[str], list[ArmLine]]:
        """The arms as the report shows them, with their lifts."""
        return _list_arms(self.report, ("place",))

    @cached_property
    def claim_bars(self) -> list[tuple[str, Bar, str]]:
        """The claims with their bars and sizes, where they are not about one arm each."""
        if not has_claim_table(self.report) or self.bar_title:
            return []
        claims, *others = claim_table(self.report)
        sizes = dict(zip(claims.cells, _find_cells(others, "size") or [""] * len(claims.cells), strict=True))
        ordered = sorted(self.report.claim_rows, key=lambda each: (each.shown, -each.log_evidence))
        decided = self.report.status == "decided"
        return [(each.claim, _draw_bar(each, "shown", decided), sizes.get(each.claim, "")) for each in ordered]

    @cached_property
    def by_round(self) -> Svg:
        return draw_means_by_round(self.report)


def _list_arms(report: ReportData, hidden: Sequence[str]) -> tuple[list[str], list[ArmLine]]:
    """The heads and rows of the table of arms, the best first, without columns of the hidden kinds."""
    _, *columns = arm_table(report, most=len(report.arm_rows))
    places = _find_cells(columns, "place") or [each.place for each in report.ranked]
    shown = [each for each in columns if each.kind not in hidden]
    answer = report.answer if isinstance(report.answer, list) else [report.answer]
    bars: dict[str, Bar] = {}  # of two claims about an arm the first that is shown, else the first
    for each in sorted(report.claim_rows, key=lambda claim: (not claim.shown, claim.below)):
        name, done = (each.arm, "out") if each.arm is not None else (each.compares, "shown")
        done = "shown not to" if each.below and each.arm is None else done
        if name is not None:
            bars.setdefault(name, _draw_bar(each, done, report.status == "decided"))
    lines = []
    for arm, row, place in zip(report.ranked, as_rows(shown)[1:], places, strict=True):
        leads = arm.name in answer or (report.answer is None and arm.gap_to_leader_upper == 0.0)
        cells = [_typeset(each) for each in row]
        lines.append(ArmLine(arm.name, cells, place, bars.get(arm.name), arm.place == "out", leads))
    return [each.title for each in shown], lines


def _find_cells(columns: Sequence[Column], kind: str) -> list[str]:
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
    part = 0.0 if claim.log_threshold <= 0 else claim.log_evidence / claim.log_threshold
    filled, words = round(min(max(part, 0.0), 1.0) * MARK, 1), progress(claim.log_evidence, claim.log_threshold)
    return Bar(filled, "given-up", f"given up, {words}") if claim.given_up else Bar(filled, "open", words)


def _describe_bars(report: Report) -> tuple[str, str]:
    """The head of the column of bars, empty where claims are not about one arm each, and how to read them."""
    if not report.claim_rows:
        return "", ""
    first = report.claim_rows[0]
    needed = list(dict.fromkeys(odds(each.log_threshold) for each in report.claim_rows if not each.shown))
    mark = f": {needed[0]} won in bets" if len(needed) == 1 else ""
    moves = f"at the mark{mark}. It moves when a round is complete."
    if first.arm is not None:
        return "is it out?", f"The bar is the evidence that this arm is not the best, which is out {moves}"
    title = "is it shown?" if first.compares is not None else ""
    return title, f"The bar is the evidence for a claim, which is shown {moves}"


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
    return NextRound(
        number=state.number + (asked is None),
        open=asked is not None,
        told=0 if asked is None else int((asked.counts + asked.lost).sum()),
        total=total,
        to_come=int(to_come.sum()),
        rows=[(names[i], format_share(pulls[i] / total), int(pulls[i]), int(to_come[i])) for i in order],
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


@router.get("/studies/{name}", VIEW)
def study(request: Request, name: str) -> Response:
    """A study."""
    with study_of(request, name) as found:

        def render(basics: Plain) -> str:
            report, bounded = reports_of(request).best_available(found)

            def text() -> str:
                view = StudyView(found.state, report, bounded)
                given = {"view": view, "study": name, "at": address_of(name), "digest": report.digest}
                return ENVIRONMENT.get_template("study.html").render(basics | given)

            key = (name, "page", bounded, basics["role"], basics["me"])
            return reports_of(request).share(key, lambda: str(report.digest), text)

        return respond(request, render)


@router.get("/studies/{name}/stands", VIEW, by=SLOW)
def stands(request: Request, name: str) -> Response:
    """Where it stands, with intervals: a part of the page."""
    with study_of(request, name) as found:
        view = _view(request, found, forecast=False)
    return page(request, "stands.html", view=view, study=name, at=address_of(name))


def _view(request: Request, study: Study, forecast: bool = True) -> StudyView:
    reports = reports_of(request)

    def make() -> StudyView:
        report = reports.with_forecast(study) if forecast else reports.whole(study)
        return StudyView(study.state, report, True)

    return reports.compute_once(study, ("view", forecast), make)


@router.get("/studies/{name}/forecast", VIEW, by=SLOW)
def forecast(request: Request, name: str) -> Response:
    """The forecast as a page fragment."""
    with study_of(request, name) as found:
        line = reports_of(request).forecast(found)
    return HTMLResponse(escape(line) or "no forecast yet")


@router.post("/studies/{name}/ask", UPLOAD)
def ask(request: Request, name: str, sent: FormData) -> Response:
    """Begin the next round."""
    with study_of(request, name) as found:
        found.ask()
    return RedirectResponse(address_of(name), status_code=303)


@router.get("/studies/{name}/next.csv", VIEW)
def next_csv(request: Request, name: str) -> Response:
    """The next round as a table."""
    with study_of(request, name) as found:
        round_ = next_round(found.state)
    if round_ is None:
        raise HTTPException(404, "Nothing more is asked for in this study.")
    text = render_csv(("arm", "share", "results", "remaining"), round_.rows)
    return attach_file(text, f"{name} round {round_.number}", "csv")


@router.get("/studies/{name}/record", VIEW)
def record(request: Request, name: str) -> Response:
    """Every entry of the record."""
    with study_of(request, name) as found:
        events = list_events(found.entries())
    return page(request, "record.html", events=list(reversed(events)), study=name, at=address_of(name))


@router.get("/studies/{name}/verify", VIEW, by=SLOW)
def verify(request: Request, name: str) -> Response:
    """Everything computed again: a part of the page of the record."""
    with study_of(request, name) as found:
        audit = reports_of(request).audit(found)
    return page(request, "verified.html", audit=audit)


@router.get("/studies/{name}/report", VIEW, by=SLOW)
def report(request: Request, name: str) -> Response:
    """The report, its summary first."""
    with study_of(request, name) as found:
        return _show_report(request, found, address_of(name), link_of(found))


@router.get("/shared/{name}/{key}", by=SLOW)
def shared(request: Request, name: str, key: str) -> Response:
    """The report for holders of the link, who can only read it."""
    with linked_study(request, name, key) as found:
        return _show_report(request, found, f"/shared/{segment(name)}/{segment(key)}", shared=True)


def _show_report(request: Request, study: Study, at: str, link: str = "", shared: bool = False) -> Response:
    view = _view(request, study)
    return page(request, "report.html", view=view, study=study.name, at=at, link=link, shared=shared)


@router.get("/studies/{name}/report.{form}", VIEW, by=SLOW)
def report_file(request: Request, name: str, form: str) -> Response:
    """The report as a file."""
    if form not in FORMATS:
        raise HTTPException(404, f"A report is written as {', '.join(FORMATS)}.")
    with study_of(request, name) as found:
        content = reports_of(request).file(found, form, forecast=True)
    return attach_file(content, name, form)


@router.get("/shared/{name}/{key}/report.{form}", by=SLOW)
def shared_file(request: Request, name: str, key: str, form: str) -> Response:
    """The report of a link as a file."""
    linked_study(request, name, key).close()
    return report_file(request, name, form)


@router.post("/studies/{name}/link", UPLOAD)
def share(request: Request, name: str, sent: FormData) -> Response:
    """Make a link to the report, unless there is one; or withdraw it."""
    with study_of(request, name) as found:
        if texts(sent).get("what") == "withdraw":
            link_store(found).withdraw_link(name)
        else:
            link_store(found).make_link(name)
    return RedirectResponse(f"{address_of(name)}/report#share-title", status_code=303)
