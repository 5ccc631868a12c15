"""What a report holds, whatever it is shown on: the numbers are those that stop the study."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from roundwise.betting.claims import Claim
from roundwise.studies.report import layout


@dataclass(frozen=True)
class Arm:
    """One arm: what came back, and bounds that hold at all times."""

    name: str
    count: int
    mean: float | None
    lower: float | None  # None where it was not computed or nothing is known
    upper: float | None
    behind: float | None  # how far behind the best, at least
    trails_least: float | None = None  # how far behind the arm that leads, at least, if a tolerance is allowed
    trails_most: float | None = None  # how far behind the arm that leads, at most; 0 for itself


@dataclass(frozen=True)
class Report:
    """Everything there is to say about a study."""

    study: str
    question: str
    status: str  # decided, undecided, closed
    answer: Any  # as in JSON, None if undecided
    headline: str
    delta: float
    samples: int
    batches: int
    outstanding: dict[str, int]
    arms: list[Arm]
    claims: list[Claim]
    assumed: str
    level: float | None  # that means are compared with, if the question has one
    ends: str  # what bounds of means are, with their probability, where they are shown
    warnings: list[str]
    guarantee: str  # "kept", "conditional on the assumption that ..." or "void because ..."
    sentence: str  # for a protocol or a paper
    next: str
    reproduce: str
    version: str

    def plain(self) -> dict[str, Any]:
        """The report as JSON."""
        found = asdict(self)
        found["claims"] = [
            {
                "claim": each.words,
                "log_evidence": each.evidence,
                "log_bar": each.bar,
                "shown": each.shown,
                "spare": each.spare,
            }
            for each in self.claims
        ]
        return found

    def top(self) -> str:
        """The headline for a terminal; above it what became of the guarantee, unless it was kept."""
        return "\n".join(layout.top(self))

    def text(self) -> str:
        """The report for a terminal."""
        return layout.text(self)

    def markdown(self) -> str:
        """The report as Markdown."""
        return layout.markdown(self)

    def html(self) -> str:
        """The report as one HTML page that needs nothing else."""
        return layout.page(self)

    def json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.plain(), indent=2, allow_nan=False)
