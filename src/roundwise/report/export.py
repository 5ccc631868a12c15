"""The report for programs and as a file: JSON, data frames, CSV, Excel, Markdown, PDF. No cell is ever a formula."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from roundwise.arrays import Plain
from roundwise.errors import InputError, unknown, visible
from roundwise.report.claim_table import Table, claim_table, describe_evidence
from roundwise.report.model import ReportData
from roundwise.report.terminal import (
    arm_table,
    describe_guarantee,
    describe_places,
    describe_version,
    file_table,
    has_claim_table,
    list_facts,
    round_table,
)
from roundwise.report.wording import sentence

Records = list[tuple[object, ...]]
Frame = Any  # of pandas, which is imported only if it is asked for

# the columns of each table, by what the rows of a report call them
ARM_COLUMNS = {
    "arm": "name",
    **{each: each for each in ("results", "missing", "waiting", "mean", "lower", "upper")},
    "gap_to_best_lower": "gap_to_best_lower",
    "gap_to_leader_lower": "gap_to_leader_lower",
    "gap_to_leader_upper": "gap_to_leader_upper",
    **{f"{each}{end}": f"{each}{end}" for each in ("difference", "lift") for end in ("", "_lower", "_upper")},
    "place": "place",
}
CLAIM_COLUMNS = (
    *("claim", "shown", "shown_at", "log_evidence", "log_threshold"),
    *("estimate", "lower", "upper", "scale", "chance"),
    *("log_adjusted", "single_lower", "single_upper"),
)
CELL_COLUMNS = ("round", "arm", "asked", "results", "mean", "counts")
FILE_COLUMNS = ("file", "round", "results", "rows", "skipped", "contradicts", "at", "by", "sha256")


def arm_records(report: ReportData) -> Records:
    """All arms, the best first."""
    texts = {"place"}  # null if empty
    return [
        tuple((getattr(each, name) or None) if name in texts else getattr(each, name) for name in ARM_COLUMNS.values())
        for each in report.ranked
    ]


def claim_records(report: ReportData) -> Records:
    """All that must be shown."""
    return [tuple(getattr(each, name) for name in CLAIM_COLUMNS) for each in report.claim_rows]


def cell_records(report: ReportData) -> Records:
    """What every round brought of every arm."""
    return [tuple(getattr(each, name) for name in CELL_COLUMNS) for each in report.cells]


def file_records(report: ReportData) -> Records:
    """Every file that counts or will."""
    found: Records = []
    for each in report.files:
        otherwise = 0 if each.contradicts is None else each.contradicts["rows"]
        about = (each.name, each.round, each.results, each.rows, each.skipped, otherwise)
        found.append((*about, each.at, each.by, each.digest))
    return found


TABLES = {
    "arms": (tuple(ARM_COLUMNS), arm_records),
    "claims": (CLAIM_COLUMNS, claim_records),
    "rounds": (CELL_COLUMNS, cell_records),
    "files": (FILE_COLUMNS, file_records),
}


def frame(report: ReportData, table: str) -> Frame:
    """One table as a data frame."""
    columns, records = TABLES[table]
    return make_frame(columns, records(report))


def make_frame(columns: Sequence[str], rows: Records) -> Frame:
    """Rows as a data frame."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("Data frames need the extra 'frames': pip install 'roundwise[frames]'.") from None
    return pd.DataFrame(rows, columns=list(columns))


def render_json(report: ReportData) -> Plain:
    """The report as JSON: names in place of indices, times as ISO 8601."""

    def records(columns: Sequence[str], rows: Records) -> list[Plain]:
        lost = (math.inf, -math.inf)  # a bet that lost all: JSON has no such number
        return [{name: None if each in lost else each for name, each in zip(columns, row, strict=True)} for row in rows]

    def named(*names: str) -> Plain:
        return {name: getattr(report, name) for name in names}

    files = zip(records(FILE_COLUMNS, file_records(report)), report.files, strict=True)
    return {
        "roundwise": report.version,
        **named("study", "question", "asks", "status", "answer", "headline"),
        "guarantee": report.guarantee.plain(),
        **named("delta", "assumed"),
        "after_decision": report.late,
        **named("results", "waiting", "budget", "rounds", "still_to_come"),
        "arms": records(tuple(ARM_COLUMNS), arm_records(report)),
        "claims": records(CLAIM_COLUMNS, claim_records(report)),
        "by_round": records(CELL_COLUMNS, cell_records(report)),
        "files": [record | {"contradicts": each.contradicts} for record, each in files],
        "bounds": report.ends,
        **named("level", "control"),
        "dangers": [each.plain() for each in report.dangers],
        "notes": [each.plain() for each in report.notes],
        **named("sentence", "forecast", "next", "reproduce", "policy", "created", "changed", "waiting_since"),
        "by": list(report.by),
        "digest": report.digest,
    }


SMALL = 1e-3  # below it four decimals say nothing
LONGEST = 32_000  # letters of a cell that Excel opens
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of a formula


def render_table_csv(report: ReportData, table: str) -> str:
    """One table as CSV."""
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    columns, records = TABLES[table]
    return render_csv(columns, records(report))


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
    text = f"'{cell}" if cell.startswith(DANGEROUS) else cell
    return visible(text, LONGEST)


def render_workbook(report: ReportData) -> bytes:
    """An Excel workbook with a summary and every table."""
    try:
        from openpyxl import Workbook
        from openpyxl.styles import Alignment, Font
    except ImportError:
        raise InputError("Excel files need the extra 'frames': pip install 'roundwise[frames]'.") from None
    book = Workbook()
    book.properties.creator = book.properties.lastModifiedBy = "roundwise"
    book.properties.title = visible(report.study)
    sheet = book.active
    sheet.title = "summary"
    summary: Records = [("guarantee", str(report.guarantee)), ("headline", report.headline), ("question", report.asks)]
    summary += [("study", report.study), ("status", report.status), ("error probability", report.delta)]
    summary += [("results", report.results), ("budget", report.budget), ("rounds", report.rounds)]
    summary += [("forecast", report.forecast)] if report.forecast is not None else []
    summary += [("assumed", report.assumed), ("bounds of means", report.ends), ("started", report.created)]
    summary += [("last change", report.changed), ("by", ", ".join(report.by)), ("for a paper", report.sentence)]
    summary += [("danger", str(each)) for each in report.dangers] + [("note", str(each)) for each in report.notes]
    summary += [("record ends with", report.digest), ("roundwise", report.version)]
    _fill(sheet, ("", report.study), summary)
    for name, (columns, records) in TABLES.items():
        _fill(book.create_sheet(name), columns, records(report))
    for each in book.worksheets:
        for cell in each[1]:
            cell.font = Font(bold=True)
        each.freeze_panes = "A2"
        widths = [max((len(_seen(cell.value)) for cell in column[:200]), default=0) for column in each.columns]
        for column, width in zip(each.columns, widths, strict=True):
            each.column_dimensions[column[0].column_letter].width = min(max(width + 2, 10), 80)
    for row in sheet.iter_rows():
        for cell in row:
            cell.alignment = Alignment(wrap_text=True, vertical="top")
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def _fill(sheet: Any, columns: Sequence[str], rows: Records) -> None:
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


def _seen(value: object) -> str:
    """A cell about as long as it is shown."""
    return f"{value:.4f}" if isinstance(value, float) else str(value or "")


def render_markdown(report: ReportData) -> str:
    """The report as Markdown."""
    lines = ["<!-- roundwise report -->", f"# {escaped(report.study)}", ""]
    lines += [line for each in describe_guarantee(report) for line in (f"> **{escaped(each)}**", "")]
    lines += [line for each in report.dangers for line in (f"> {escaped(str(each))}", "")]
    lines += [f"**{escaped(sentence(report.headline))}**", "", escaped(report.sentence), ""]
    lines += [f"- {name}: {escaped(value)}" for name, value in list_facts(report)]
    lines += ["", "## Arms", "", *pipes(arm_table(report)), ""]
    lines += [escaped(legend), ""] if (legend := describe_places(report)) else []
    if has_claim_table(report):
        lines += ["## Evidence", "", describe_evidence(report), "", *pipes(claim_table(report)), ""]
    if report.cells:
        lines += ["## Rounds", "", *pipes(round_table(report)), ""]
    if report.files:
        lines += ["## Files", "", *pipes(file_table(report)), ""]
    if report.notes:
        lines += ["## Notes", "", *(f"- {escaped(str(each))}" for each in report.notes), ""]
    lines += ["## To reproduce", "", *_commands(visible(report.reproduce)), "", describe_version(report), ""]
    return "\n".join(lines)


def _commands(text: str) -> list[str]:
    """Commands as a block of code; as escaped lines where a name in them may be taken for HTML."""
    return [f"- {escaped(each)}" for each in text.split("\n")] if "<" in text else ["```", text, "```"]


def pipes(table: Table) -> list[str]:
    """A table in Markdown."""
    rows = ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in table]
    return [rows[0], "|" + " --- |" * len(table[0]), *rows[1:]]


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = re.sub(r"([\\|*`\[\]~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", visible(text).replace("\n", " "))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
PATIENCE = 120  # seconds
MARK = b"% a report of roundwise\n"  # a comment behind the end, by which we know what we wrote


def print_pdf(page: str) -> bytes:
    """Print an HTML page as a PDF, by a browser without a window."""
    found = browser()
    with tempfile.TemporaryDirectory(prefix="roundwise-") as folder:
        source, target = Path(folder) / "page.html", Path(folder) / "page.pdf"
        source.write_text(page, encoding="utf-8")
        command = [found, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/profile"]
        command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has no sandbox
        command += ["--no-pdf-header-footer", f"--print-to-pdf={target}", source.as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
            return target.read_bytes().rstrip(b"\n") + b"\n" + MARK
        except (OSError, subprocess.SubprocessError) as error:
            kind = "did not end" if isinstance(error, subprocess.TimeoutExpired) else "failed"
            raise InputError(
                f"{found} {kind} when it was to print the report. Write it as .html, and print that from a browser."
            ) from None


def browser() -> str:
    """A browser that can print without a window."""
    for name in BROWSERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise InputError(
        "A PDF is printed by a browser, and neither Chromium, Chrome nor Edge was found on this machine. Install one, "
        "or write the report as .html and print that."
    )
