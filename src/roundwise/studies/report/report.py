"""A report: the facts about a study, and the same in every form; Markdown and PDF are made here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from roundwise.arrays import Plain
from roundwise.errors import InputError, visible
from roundwise.studies.report.model import Facts
from roundwise.studies.report.page import card_of, page_of
from roundwise.studies.report.records import (
    ARM_COLUMNS,
    CELL_COLUMNS,
    CLAIM_COLUMNS,
    Frame,
    arm_records,
    cell_records,
    claim_records,
    csv_of,
    frame,
    plain_of,
    workbook_of,
)
from roundwise.studies.report.text import (
    Table,
    arm_table,
    claim_table,
    claims_apart,
    danger_of,
    evidence_of,
    facts_of,
    file_table,
    foot_of,
    legend_of,
    round_table,
    text_of,
    top_of,
)
from roundwise.studies.words import sentence


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


def markdown_of(report: Facts) -> str:
    """The report as Markdown."""
    lines = ["<!-- roundwise report -->", f"# {escaped(report.study)}", ""]
    lines += [line for each in danger_of(report) for line in (f"> **{escaped(each)}**", "")]
    lines += [line for each in report.dangers for line in (f"> {escaped(each)}", "")]
    lines += [f"**{escaped(sentence(report.headline))}**", "", escaped(report.sentence), ""]
    lines += [f"- {name}: {escaped(value)}" for name, value in facts_of(report)]
    lines += ["", "## Arms", "", *pipes(arm_table(report)), ""]
    lines += [escaped(legend), ""] if (legend := legend_of(report)) else []
    if claims_apart(report):
        lines += ["## Evidence", "", evidence_of(report), "", *pipes(claim_table(report)), ""]
    if report.cells:
        lines += ["## Rounds", "", *pipes(round_table(report)), ""]
    if report.files:
        lines += ["## Files", "", *pipes(file_table(report)), ""]
    if report.notes:
        lines += ["## Notes", "", *(f"- {escaped(each)}" for each in report.notes), ""]
    lines += ["## To reproduce", "", "```", visible(report.reproduce), "```", "", foot_of(report), ""]
    return "\n".join(lines)


def pipes(table: Table) -> list[str]:
    """A table in Markdown."""
    rows = ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in table]
    return [rows[0], "|" + " --- |" * len(table[0]), *rows[1:]]


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = visible(text).replace("\n", " ")
    return re.sub(r"([\\|*`\[\]])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


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


def pdf_of(report: Facts) -> bytes:
    """The page of a report as a PDF."""
    found = browser()
    with tempfile.TemporaryDirectory(prefix="roundwise-") as folder:
        page, target = Path(folder) / "report.html", Path(folder) / "report.pdf"
        page.write_text(page_of(report), encoding="utf-8")
        command = [found, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}/profile"]
        command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has no sandbox
        command += ["--no-pdf-header-footer", f"--print-to-pdf={target}", page.as_uri()]
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
