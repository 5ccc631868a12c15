"""A report: the facts about a study, and the same in every form."""

from __future__ import annotations

import json
from dataclasses import dataclass

from roundwise.arrays import Plain
from roundwise.studies.report.markdown import markdown_of
from roundwise.studies.report.model import Facts
from roundwise.studies.report.page import card_of, page_of
from roundwise.studies.report.pdf import pdf_of
from roundwise.studies.report.records import (
    ARM_COLUMNS,
    CELL_COLUMNS,
    CLAIM_COLUMNS,
    Frame,
    arm_records,
    cell_records,
    claim_records,
    frame,
    plain_of,
)
from roundwise.studies.report.sheets import csv_of, workbook_of
from roundwise.studies.report.text import text_of, top_of


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(Facts):
    """Everything there is to say about a study, for a screen, a page, a notebook, a spreadsheet or a program."""

    @property
    def arms(self) -> Frame:
        """The arms as a data frame, the best first (needs pandas)."""
        return frame(ARM_COLUMNS, arm_records(self))

    @property
    def claims(self) -> Frame:
        """What must be shown as a data frame (needs pandas)."""
        return frame(CLAIM_COLUMNS, claim_records(self))

    @property
    def by_round(self) -> Frame:
        """What every round brought of every arm as a data frame (needs pandas)."""
        return frame(CELL_COLUMNS, cell_records(self))

    def plain(self) -> Plain:
        """The report as JSON."""
        return plain_of(self)

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.plain(), indent=2, allow_nan=False)

    def top(self) -> str:
        """The headline for a terminal; above it what became of the guarantee, unless it was kept."""
        return "\n".join(top_of(self))

    def text(self) -> str:
        """The report for a terminal."""
        return text_of(self)

    def markdown(self) -> str:
        """The report as Markdown."""
        return markdown_of(self)

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return page_of(self)

    def pdf(self) -> bytes:
        """The report as a PDF, printed by a browser (Chromium, Chrome or Edge) without a window."""
        return pdf_of(self)

    def xlsx(self) -> bytes:
        """The report as an Excel workbook: summary, arms, claims, rounds, files (needs openpyxl)."""
        return workbook_of(self)

    def csv(self, table: str = "arms") -> str:
        """One table as CSV: arms, claims, rounds or files."""
        return csv_of(self, table)

    def _repr_html_(self) -> str:
        """For a notebook."""
        return card_of(self)

    def __repr__(self) -> str:
        return f"<Report of '{self.study}', {self.status}: {self.headline}>"
