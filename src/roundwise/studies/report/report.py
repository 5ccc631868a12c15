"""What a report holds. `facts` decides what it says; `text`, `markdown`, `page`, `sheets` and `pdf` how it looks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from roundwise.studies.report.words import Units


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm: what came back, and bounds that hold at all times; None for what was not computed or is not known."""

    name: str
    index: int  # among the arms of the study
    results: int  # that count
    mean: float | None
    waiting: int = 0  # results that are recorded, of a batch that does not count yet
    waiting_mean: float | None = None
    lower: float | None = None  # of the mean
    upper: float | None = None
    behind: float | None = None  # how far behind the best, at least; 0 as long as it may be the best
    trails_least: float | None = None  # how far behind the arm that leads, at least
    trails_most: float | None = None  # how far behind the arm that leads, at most; 0 for itself
    difference: float | None = None  # from the control
    difference_lower: float | None = None
    difference_upper: float | None = None
    lift: float | None = None  # the difference as a share of the control's mean
    lift_lower: float | None = None
    lift_upper: float | None = None
    place: str = ""  # "the only one left", "in the running", "out", ...; empty where arms have no place


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Something that must be shown, how much speaks for it, and how large what it is about is."""

    claim: str
    shown: bool
    shown_at: int | None  # the batch from which on it was shown
    log_evidence: float
    log_bar: float
    estimate: float | None = None  # of what the claim is about
    lower: float | None = None
    upper: float | None = None
    chance: float | None = None  # a forecast, where a rule makes one
    spare: float | None = None  # by how much it holds, at least
    arm: str | None = None  # that it would rule out, if it says so of one
    gap: bool = False  # whether what it is about is a difference of means
    below: bool = False  # whether it says that this lies below, not above
    compares: str | None = None  # the arm that is compared with the control


@dataclass(frozen=True, kw_only=True)
class Told:
    """A file that was recorded."""

    name: str
    batch: int
    results: int
    rows: int
    digest: str
    at: str | None = None  # ISO 8601, UTC
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one batch brought of one arm."""

    batch: int
    arm: str
    asked: int
    results: int
    mean: float | None
    counts: bool  # whether the decision has seen it


class Course(NamedTuple):
    """How the evidence for a claim went, batch by batch."""

    claim: str
    batches: tuple[int, ...]
    log_evidence: tuple[float, ...]
    shown: bool
    shown_at: int | None  # the batch from which on it was shown


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """Everything there is to say about a study."""

    study: str
    question: str  # its name
    asks: str  # the question in words
    status: str  # decided, undecided, closed
    answer: Any  # names of arms or statements, or true/false; None if undecided
    headline: str  # the answer with its size, or what is shown and what is open
    delta: float
    results: int  # that count
    waiting: int  # that are recorded, of a batch that does not count yet
    budget: int | None
    batches: int  # that count
    still_to_come: dict[str, int]  # results of the open batch
    arm_rows: tuple[Arm, ...]  # in the order of the study
    claim_rows: tuple[Shown, ...]
    cells: tuple[Cell, ...]
    files: tuple[Told, ...]
    courses: tuple[Course, ...]
    assumed: str
    units: Units
    rising: bool  # whether the best arm is the one with the highest mean
    level: float | None  # that means are compared with, if the question has one
    control: str | None
    ends: str  # what bounds of means are, with their probability, where they are shown
    differences: str  # the same of differences from the control
    dangers: tuple[str, ...]  # to the guarantee
    notes: tuple[str, ...]  # to know
    guarantee: str  # "kept", "conditional on the assumption that ..." or "void because ..."
    sentence: str  # for a protocol or a paper
    next: str
    reproduce: str
    policy: str
    created: str | None  # ISO 8601, UTC
    changed: str | None
    waiting_since: str | None  # the time from which results or a next step are waited for
    by: tuple[str, ...]  # who wrote to the record
    digest: str | None  # of the last entry
    version: str

    @property
    def warnings(self) -> list[str]:
        """Dangers and notes."""
        return [*self.dangers, *self.notes]

    @cached_property
    def ranked(self) -> tuple[Arm, ...]:
        """The arms, the best first; those without results last."""
        sign = -1.0 if self.rising else 1.0
        return tuple(sorted(self.arm_rows, key=lambda arm: (arm.mean is None, sign * (arm.mean or 0.0))))

    @property
    def arms(self) -> Any:
        """The arms as a data frame, the best first (needs pandas)."""
        from roundwise.studies.report.tables import ARM_COLUMNS, arm_records, frame

        return frame(ARM_COLUMNS, arm_records(self))

    @property
    def claims(self) -> Any:
        """What must be shown as a data frame (needs pandas)."""
        from roundwise.studies.report.tables import CLAIM_COLUMNS, claim_records, frame

        return frame(CLAIM_COLUMNS, claim_records(self))

    @property
    def by_batch(self) -> Any:
        """What every batch brought of every arm as a data frame (needs pandas)."""
        from roundwise.studies.report.tables import CELL_COLUMNS, cell_records, frame

        return frame(CELL_COLUMNS, cell_records(self))

    def plain(self) -> dict[str, Any]:
        """The report as JSON."""
        from roundwise.studies.report.tables import plain_of

        return plain_of(self)

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.plain(), indent=2, allow_nan=False)

    def top(self) -> str:
        """The headline for a terminal; above it what became of the guarantee, unless it was kept."""
        from roundwise.studies.report.text import top_of

        return "\n".join(top_of(self))

    def text(self) -> str:
        """The report for a terminal."""
        from roundwise.studies.report.text import text_of

        return text_of(self)

    def markdown(self) -> str:
        """The report as Markdown."""
        from roundwise.studies.report.markdown import markdown_of

        return markdown_of(self)

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        from roundwise.studies.report.page import page_of

        return page_of(self)

    def pdf(self) -> bytes:
        """The report as a PDF, printed by a browser (Chromium, Chrome or Edge) without a window."""
        from roundwise.studies.report.pdf import pdf_of

        return pdf_of(self)

    def xlsx(self) -> bytes:
        """The report as an Excel workbook: summary, arms, claims, batches, files (needs openpyxl)."""
        from roundwise.studies.report.sheets import workbook_of

        return workbook_of(self)

    def csv(self, table: str = "arms") -> str:
        """One table as CSV: arms, claims, batches or files."""
        from roundwise.studies.report.sheets import csv_of

        return csv_of(self, table)

    def _repr_html_(self) -> str:
        """For a notebook."""
        from roundwise.studies.report.page import card_of

        return card_of(self)

    def __repr__(self) -> str:
        return f"<Report of '{self.study}', {self.status}: {self.headline}>"
