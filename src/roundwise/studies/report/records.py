"""The tables of a report for programs: JSON, data frames, CSV, an Excel workbook. No cell is ever a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from roundwise.arrays import Plain
from roundwise.errors import InputError, unknown, visible
from roundwise.studies.report.model import Facts

Records = list[tuple[object, ...]]
Frame = Any  # of pandas, which is imported only if it is asked for

ARM_COLUMNS = (
    "arm",
    "results",
    "missing",
    "waiting",
    "mean",
    "lower",
    "upper",
    "behind_best_at_least",
    "behind_leader_at_least",
    "behind_leader_at_most",
    "difference",
    "difference_lower",
    "difference_upper",
    "lift",
    "lift_lower",
    "lift_upper",
    "place",
)
CLAIM_COLUMNS = ("claim", "shown", "shown_at", "log_evidence", "log_bar", "estimate", "lower", "upper", "chance")
CELL_COLUMNS = ("round", "arm", "asked", "results", "mean", "counts")
FILE_COLUMNS = ("file", "round", "results", "rows", "skipped", "contradicts", "at", "by", "sha256")


def arm_records(report: Facts) -> Records:
    """All arms, the best first."""
    return [
        (
            each.name,
            each.results,
            each.missing,
            each.waiting,
            each.mean,
            each.lower,
            each.upper,
            each.behind,
            each.trails_least,
            each.trails_most,
            each.difference,
            each.difference_lower,
            each.difference_upper,
            each.lift,
            each.lift_lower,
            each.lift_upper,
            each.place or None,
        )
        for each in report.ranked
    ]


def claim_records(report: Facts) -> Records:
    """All that must be shown."""
    return [tuple(getattr(each, name) for name in CLAIM_COLUMNS) for each in report.claim_rows]


def cell_records(report: Facts) -> Records:
    """What every round brought of every arm."""
    return [tuple(getattr(each, name) for name in CELL_COLUMNS) for each in report.cells]


def file_records(report: Facts) -> Records:
    """Every file that counts or will."""
    return [
        (
            each.name,
            each.round,
            each.results,
            each.rows,
            each.skipped,
            0 if each.contradicts is None else each.contradicts["rows"],
            each.at,
            each.by,
            each.digest,
        )
        for each in report.files
    ]


def frame(columns: Sequence[str], records: Records) -> Frame:
    """Records as a data frame."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("Data frames need the extra 'frames': pip install 'roundwise[frames]'.") from None
    return pd.DataFrame(records, columns=list(columns))


def plain_of(report: Facts) -> Plain:
    """The report as JSON: names in place of indices, times as ISO 8601."""

    def records(columns: Sequence[str], rows: Records) -> list[Plain]:
        return [dict(zip(columns, row, strict=True)) for row in rows]

    return {
        "roundwise": report.version,
        "study": report.study,
        "question": report.question,
        "asks": report.asks,
        "status": report.status,
        "answer": report.answer,
        "headline": report.headline,
        "guarantee": report.guarantee,
        "delta": report.delta,
        "assumed": report.assumed,
        "results": report.results,
        "waiting": report.waiting,
        "budget": report.budget,
        "rounds": report.rounds,
        "still_to_come": report.still_to_come,
        "arms": records(ARM_COLUMNS, arm_records(report)),
        "claims": records(CLAIM_COLUMNS, claim_records(report)),
        "by_round": records(CELL_COLUMNS, cell_records(report)),
        "files": [
            record | {"contradicts": each.contradicts}
            for record, each in zip(records(FILE_COLUMNS, file_records(report)), report.files, strict=True)
        ],
        "bounds": report.ends,
        "level": report.level,
        "control": report.control,
        "dangers": list(report.dangers),
        "notes": list(report.notes),
        "sentence": report.sentence,
        "forecast": report.forecast,
        "next": report.next,
        "reproduce": report.reproduce,
        "policy": report.policy,
        "created": report.created,
        "changed": report.changed,
        "waiting_since": report.waiting_since,
        "by": list(report.by),
        "digest": report.digest,
    }


TABLES = {
    "arms": (ARM_COLUMNS, arm_records),
    "claims": (CLAIM_COLUMNS, claim_records),
    "rounds": (CELL_COLUMNS, cell_records),
    "files": (FILE_COLUMNS, file_records),
}
SMALL = 1e-3  # below it four decimals say nothing
LONGEST = 32_000  # letters of a cell that Excel opens
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of a formula


def csv_of(report: Facts, table: str) -> str:
    """One table as CSV."""
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    columns, records = TABLES[table]
    return csv_text(columns, records(report))


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
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


def workbook_of(report: Facts) -> bytes:
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
    summary: Records = [("headline", report.headline), ("guarantee", report.guarantee), ("question", report.asks)]
    summary += [("study", report.study), ("status", report.status), ("error probability", report.delta)]
    summary += [("results", report.results), ("budget", report.budget), ("rounds", report.rounds)]
    summary += [("forecast", report.forecast)] if report.forecast is not None else []
    summary += [("assumed", report.assumed), ("bounds of means", report.ends), ("started", report.created)]
    summary += [("last change", report.changed), ("by", ", ".join(report.by)), ("for a paper", report.sentence)]
    summary += [("danger", each) for each in report.dangers] + [("note", each) for each in report.notes]
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
