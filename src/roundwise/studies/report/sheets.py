"""The tables of a report as files: an Excel workbook, or CSV. No cell is ever a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from roundwise.errors import InputError, unknown, visible
from roundwise.studies.report.model import Facts
from roundwise.studies.report.records import (
    ARM_COLUMNS,
    CELL_COLUMNS,
    CLAIM_COLUMNS,
    FILE_COLUMNS,
    Records,
    arm_records,
    cell_records,
    claim_records,
    file_records,
)

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
