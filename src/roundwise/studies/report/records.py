"""The tables of a report for programs: plain records, JSON, data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roundwise.arrays import Plain
from roundwise.errors import InputError
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
CLAIM_COLUMNS = (
    "claim",
    "shown",
    "shown_at",
    "log_evidence",
    "log_bar",
    "estimate",
    "lower",
    "upper",
    "scale",
    "chance",
)
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
