"""The report for programs and as a file: JSON, data frames, CSV, Excel, Markdown, HTML, PDF. No cell is a formula."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from roundwise.arrays import Plain
from roundwise.errors import InputError, unknown
from roundwise.messages import GuaranteeStatus, visible
from roundwise.render.html import render_card, render_page
from roundwise.render.svg import flat_chart_style
from roundwise.report.charts import draw_evidence, draw_means
from roundwise.report.model import ReportData, sentence
from roundwise.report.text import (
    Column,
    arm_table,
    as_rows,
    claim_table,
    decision_table,
    describe_dates,
    describe_evidence,
    describe_extent,
    describe_guarantee,
    describe_places,
    describe_version,
    explain_meaning,
    file_table,
    has_claim_table,
    list_facts,
    metric_table,
    render_text,
    render_top,
    round_table,
    write_subheadline,
)

Records = list[tuple[object, ...]]
Frame = Any  # of pandas, which is imported only if it is asked for

BOUNDED = [f"{each}{end}" for each in ("difference", "lift") for end in ("", "_lower", "_upper")]
TABLES: dict[str, tuple[str, ...]] = {  # the columns of each table for programs
    "arms": (
        *("arm", "results", "missing", "pending", "mean", "lower", "upper"),
        *("gap_to_best_lower", "gap_to_leader_lower", "gap_to_leader_upper", *BOUNDED, "place"),
    ),
    "claims": (
        *("claim", "shown", "shown_at", "log_evidence", "log_threshold", "estimate", "lower", "upper", "scale"),
        *("power", "log_adjusted", "single_lower", "single_upper"),
    ),
    "metrics": (
        *("arm", "decision", "metric", "role", "claim", "shown", "shown_at", "refuted", "log_evidence"),
        *("log_threshold", "difference", "difference_lower", "difference_upper", "scale"),
    ),
    "rounds": ("round", "arm", "asked", "results", "mean", "counted"),
    "files": (
        *("file", "round", "results", "rows", "skipped", "contradicts", "at", "by", "first_time", "last_time"),
        "sha256",
    ),
}
SMALL = 1e-3  # below it four decimals say nothing
LONGEST = 32_000  # letters of a cell that Excel opens
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of a formula


def list_records(report: ReportData, table: str) -> Records:
    """All rows of a table for programs."""
    rows: Iterable[Plain]
    if table == "arms":
        rows = [vars(each) | {"arm": each.name, "place": each.place or None} for each in report.ranked]
    elif table == "files":
        rows = [
            vars(each)
            | {
                "file": each.name,
                "sha256": each.digest,
                "contradicts": 0 if each.contradicts is None else each.contradicts["rows"],
            }
            for each in report.files
        ]
    elif table == "metrics":
        decided = {each.arm: each.decision for each in report.decisions}
        rows = [vars(each) | {"decision": decided[each.arm]} for each in report.metric_rows]
    else:
        rows = map(vars, report.claim_rows if table == "claims" else report.round_rows)
    return [tuple(row[name] for name in TABLES[table]) for row in rows]


def make_frame(columns: Sequence[str], rows: Records) -> Frame:
    """Rows as a data frame."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("Data frames need the extra 'frames': pip install 'roundwise[frames]'.") from None
    return pd.DataFrame(rows, columns=list(columns))


def render_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV, in which no text can be taken for a formula."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([neutral(cell) for cell in row] for row in rows)
    return target.getvalue()


def neutral(cell: object) -> object:
    """A cell that a spreadsheet shows and never computes: text that looks like a formula gets an apostrophe.

    >>> neutral("=1+1"), neutral("-x"), neutral(-1.5), neutral("plain"), neutral(True), neutral(None)
    ("'=1+1", "'-x", -1.5, 'plain', 'true', None)
    """
    if isinstance(cell, bool):
        return str(cell).lower()
    if not isinstance(cell, str):
        return cell
    return visible(f"'{cell}" if cell.startswith(DANGEROUS) else cell, LONGEST)


def _fill_sheet(sheet: Any, columns: Sequence[str], rows: Records) -> None:
    """Write a table; text stays text, whatever it begins with."""
    for i, row in enumerate([tuple(columns), *rows], 1):
        for j, value in enumerate(row, 1):
            cell = sheet.cell(i, j)
            cell.value = visible(value, LONGEST) if isinstance(value, str) else value
            if isinstance(value, float):  # shown short, kept whole
                cell.number_format = "0.0000" if value == 0 or abs(value) >= SMALL else "0.00E+00"
            if isinstance(value, str):
                cell.data_type = "s"
                cell.quotePrefix = value.startswith(DANGEROUS)


def _pipe_table(columns: Sequence[Column]) -> list[str]:
    head, *rows = ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in as_rows(columns)]
    return [head, "|" + " --- |" * len(columns), *rows]


def _escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = re.sub(r"([\\|*`\[\]~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", visible(text).replace("\n", " "))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class ReportView:
    """The view of a report for templates: each part in words, rendered on demand."""

    def __init__(self, report: ReportData) -> None:
        self.report = report
        calm = report.guarantee.status is GuaranteeStatus.APPROXIMATE
        self.cautions = describe_guarantee(report) if calm else []
        self.dangers = [*([] if calm else describe_guarantee(report)), *map(str, report.dangers)]
        self.headline, self.under = sentence(report.headline), write_subheadline(report)
        self.kind = {"decided": "decided", "closed": "closed"}.get(report.status, "open")  # the headline's color
        self.extent = ", ".join(filter(None, (describe_extent(report), describe_dates(report))))
        self.meaning, self.facts = explain_meaning(report), list_facts(report)
        self.legend, self.foot = describe_places(report), describe_version(report)
        self.out = {visible(each.name) for each in report.arm_rows if each.place == "out"}

    arms = cached_property(lambda self: as_rows(arm_table(self.report)))
    claims = cached_property(lambda self: as_rows(claim_table(self.report)) if has_claim_table(self.report) else [])
    decisions = cached_property(lambda self: as_rows(decision_table(self.report)) if self.report.decisions else [])
    metrics = cached_property(lambda self: as_rows(metric_table(self.report)) if self.report.metric_rows else [])
    rounds = cached_property(lambda self: as_rows(round_table(self.report)))
    files = cached_property(lambda self: as_rows(file_table(self.report)))
    evidence_words = cached_property(lambda self: describe_evidence(self.report))
    means = cached_property(lambda self: draw_means(self.report))
    evidence = cached_property(lambda self: draw_evidence(self.report))


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(ReportData):
    """The full report of a study, for terminals, pages, notebooks, spreadsheets and programs.

    Attributes:
        study: The name of the study.
        status: "undecided", "decided" or "closed".
        answer: The answer by name; None while there is none.
        headline: The answer with its size, or what is open.
        results: The number of results that count.
        remaining: The results still missing in the open round, by arm.
        arm_rows, claim_rows, metric_rows: The rows of the tables.
        decisions: With several metrics, the decision on each arm.
        guarantee: The status of the guarantee, with its conditions and reasons.
        dangers, notes: What endangers the guarantee, and what is good to know.
        next: What to do next.
        forecast: The rest of the study in one line, where it was forecast.
        digest: The digest that identifies the record.
    """

    @property
    def arms(self) -> Frame:
        """The arms as a data frame, the best first (needs pandas)."""
        return make_frame(TABLES["arms"], list_records(self, "arms"))

    @property
    def claims(self) -> Frame:
        """The claims as a data frame (needs pandas)."""
        return make_frame(TABLES["claims"], list_records(self, "claims"))

    @property
    def by_round(self) -> Frame:
        """The results by round and arm as a data frame (needs pandas)."""
        return make_frame(TABLES["rounds"], list_records(self, "rounds"))

    def plain(self) -> Plain:
        """The report as JSON: names in place of indices, times as ISO 8601."""
        fields = vars(self)

        def records(table: str) -> list[Plain]:
            lost = (math.inf, -math.inf)  # a bet that lost all: JSON has no such number
            return [
                {name: None if each in lost else each for name, each in zip(TABLES[table], row, strict=True)}
                for row in list_records(self, table)
            ]

        def named(names: str) -> Plain:
            return {name: fields[name] for name in names.split()}

        files = zip(records("files"), self.files, strict=True)
        return {
            "roundwise": self.version,
            **named("study question question_text status answer headline"),
            "guarantee": self.guarantee.plain(),
            **named("delta assumptions"),
            "after_decision": self.late,
            **named("results pending budget rounds list_results remaining"),
            "tied_arms": list(self.tied_arms),
            **named("cost max_cost list_cost items items_cost cost_unit"),
            "arms": records("arms"),
            "claims": records("claims"),
            "decisions": [vars(each) for each in self.decisions],
            "metrics": records("metrics"),
            "by_round": records("rounds"),
            "files": [record | {"contradicts": each.contradicts} for record, each in files],
            "bounds_text": self.ends,
            **named("level control"),
            "dangers": [each.plain() for each in self.dangers],
            "notes": [each.plain() for each in self.notes],
            **named("sentence forecast next reproduce policy created changed waiting_since"),
            "by": list(self.by),
            "digest": self.digest,
        }

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.plain(), indent=2, allow_nan=False)

    def top(self) -> str:
        """The headline for a terminal, below the guarantee, unless it was kept, and all dangers."""
        return "\n".join(render_top(self))

    def text(self, width: int | None = None) -> str:
        """The report for a terminal; lines have at most `width` characters if it is given."""
        return render_text(self, width)

    def markdown(self) -> str:
        """The report as Markdown."""
        lines = ["[//]: # (a report of roundwise)", "", f"# {_escape(self.study)}", ""]
        lines += [line for each in describe_guarantee(self) for line in (f"> **{_escape(each)}**", "")]
        lines += [line for each in self.dangers for line in (f"> {_escape(str(each))}", "")]
        lines += [f"**{_escape(sentence(self.headline))}**", "", _escape(self.sentence), ""]
        lines += [f"- {name}: {_escape(value)}" for name, value in list_facts(self)]
        lines += ["", "## Arms", "", *_pipe_table(arm_table(self)), ""]
        lines += [_escape(legend), ""] if (legend := describe_places(self)) else []
        if self.decisions:
            lines += ["## Decision", "", *_pipe_table(decision_table(self)), "", *_pipe_table(metric_table(self)), ""]
        if has_claim_table(self):
            lines += ["## Evidence", "", describe_evidence(self), "", *_pipe_table(claim_table(self)), ""]
        if self.round_rows:
            lines += ["## Rounds", "", *_pipe_table(round_table(self)), ""]
        if self.files:
            lines += ["## Files", "", *_pipe_table(file_table(self)), ""]
        if self.notes:
            lines += ["## Notes", "", *(f"- {_escape(str(each))}" for each in self.notes), ""]
        commands = visible(self.reproduce)
        code = ["```", commands, "```"]
        if "<" in commands:  # a name in them may be taken for HTML
            code = [f"- {_escape(each)}" for each in commands.split("\n")]
        return "\n".join([*lines, "## To reproduce", "", *code, "", describe_version(self), ""])

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return render_page("report_page.html", view=ReportView(self))

    def _repr_html_(self) -> str:
        return render_card("report_card.html", view=ReportView(self))

    def pdf(self) -> bytes:
        """The report as a PDF, printed by a browser (Chromium, Chrome or Edge) without a window, or by WeasyPrint."""
        return print_pdf(self.html())

    def xlsx(self) -> bytes:
        """The report as an Excel workbook: summary, arms, claims, rounds, files (needs openpyxl)."""
        try:
            from openpyxl import Workbook
            from openpyxl.styles import Alignment, Font
        except ImportError:
            raise InputError("Excel files need the extra 'frames': pip install 'roundwise[frames]'.") from None
        book = Workbook()
        book.properties.creator = book.properties.lastModifiedBy = "roundwise"
        book.properties.title = visible(self.study)
        summary: Records = [
            ("guarantee", str(self.guarantee)),
            ("headline", self.headline),
            ("question", self.question_text),
        ]
        summary += [("study", self.study), ("status", self.status), ("error probability", self.delta)]
        summary += [("results", self.results), ("budget", self.budget), ("rounds", self.rounds)]
        summary += [("forecast", self.forecast)] if self.forecast is not None else []
        summary += [("assumptions", self.assumptions), ("bounds of means", self.ends), ("started", self.created)]
        summary += [("last change", self.changed), ("by", ", ".join(self.by)), ("for a paper", self.sentence)]
        summary += [("danger", str(each)) for each in self.dangers] + [("note", str(each)) for each in self.notes]
        summary += [("record ends with", self.digest), ("roundwise", self.version)]
        sheet = book.active
        sheet.title = "summary"
        _fill_sheet(sheet, ("", self.study), summary)
        for name, columns in TABLES.items():
            if name == "metrics" and not self.metric_rows:
                continue
            _fill_sheet(book.create_sheet(name), columns, list_records(self, name))
        for each in book.worksheets:
            for cell in each[1]:
                cell.font = Font(bold=True)
            each.freeze_panes = "A2"
            for column in each.columns:
                values = [cell.value for cell in column[:200]]
                width = max(len(f"{value:.4f}" if isinstance(value, float) else str(value or "")) for value in values)
                each.column_dimensions[column[0].column_letter].width = min(max(width + 2, 10), 80)
        for row in sheet.iter_rows():
            for cell in row:
                cell.alignment = Alignment(wrap_text=True, vertical="top")
        target = io.BytesIO()
        book.save(target)
        return target.getvalue()

    def csv(self, table: str = "arms") -> str:
        """One table as CSV: arms, claims, metrics, rounds or files."""
        if table not in TABLES:
            raise unknown("table", table, TABLES)
        return render_csv(TABLES[table], list_records(self, table))

    def __repr__(self) -> str:
        return f"<Report of '{self.study}', {self.status}: {self.headline}>"


BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
PATIENCE = 120  # seconds
MARK = b"% a report of roundwise\n"  # a comment behind the end, by which we know what we wrote


def find_printer() -> Callable[[str], bytes]:
    """A way to print an HTML page as a PDF: by a browser without a window, or where there is none by WeasyPrint."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name)) is not None), None)
    if browser is not None:
        return partial(_print_by_browser, browser)
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError):  # it needs Pango, a library of the system
        raise InputError(
            "A PDF is printed by a browser or by WeasyPrint, and neither Chromium, Chrome, Edge nor WeasyPrint was "
            "found on this machine. Install one (pip install 'roundwise[pdf]'), or write the report as .html and "
            "print that."
        ) from None
    return _print_by_weasyprint


def print_pdf(page: str) -> bytes:
    """Print an HTML page as a PDF."""
    return find_printer()(page).rstrip(b"\n") + b"\n" + MARK


def _print_by_browser(browser: str, page: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="roundwise-") as folder:
        source, target = Path(folder) / "page.html", Path(folder) / "page.pdf"
        source.write_text(page, encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/profile"]
        command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has no sandbox
        command += ["--no-pdf-header-footer", f"--print-to-pdf={target}", source.as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            kind = "did not end" if isinstance(error, subprocess.TimeoutExpired) else "failed"
            raise InputError(
                f"{browser} {kind} when it was to print the report. Write it as .html, and print that from a browser."
            ) from None


def _print_by_weasyprint(page: str) -> bytes:
    """WeasyPrint applies styles to a chart only if they are inside it, and knows no variables there."""
    from weasyprint import HTML

    style = f"<style>{flat_chart_style()}</style>"
    return HTML(string=re.sub(r"<svg[^>]*>", lambda start: start[0] + style, page)).write_pdf()
