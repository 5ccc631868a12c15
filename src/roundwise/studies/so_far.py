"""What a study keeps of its batches besides the mathematics: few facts, however many batches there were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from roundwise.problem import Problem
from roundwise.studies.drift import Agreement, agreement
from roundwise.studies.packing import Unreadable, packed, unpacked
from roundwise.studies.rounds import Asked, of_arms

MOST = 30  # notes, and batches closed early, that are kept word by word


@dataclass(frozen=True)
class SoFar:
    """Facts about the batches that count."""

    batches: int = 0  # the number of the last one that was folded
    files: int = 0  # ever recorded, also those that were corrected or withdrawn
    short: tuple[Mapping[str, Any], ...] = ()  # batches closed although results were missing
    more_short: int = 0  # and so many more
    notes: tuple[str, ...] = ()  # what was said about files
    sums_only: bool = False  # whether a file told no rows where the noise model has use for them
    other: str | None = None  # how a batch first came back otherwise than it was planned
    agreement: Agreement | None = None  # None if it cannot be read
    refolded: bool = False  # whether what earlier rules had won could not be read, and all was counted anew

    def plus(self, problem: Problem, names: tuple[str, ...], asked: Asked) -> SoFar:
        """With one more batch."""
        found = replace(
            self,
            batches=asked.number,
            notes=with_notes(self.notes, asked),
            sums_only=self.sums_only or sums_only(asked),
            other=self.other or other_than_planned(asked),
        )
        if self.agreement is not None:
            batch = of_arms(asked.batch, asked.arms, names)
            found = replace(found, agreement=agreement(problem, self.agreement, batch, asked.number))
        if not asked.short:
            return found
        if len(self.short) >= MOST:
            return replace(found, more_short=self.more_short + 1)
        return replace(found, short=(*self.short, shortfall(asked)))

    def payload(self) -> dict[str, Any]:
        """The facts as JSON."""
        return {
            "batches": self.batches,
            "files": self.files,
            "short": [dict(each) for each in self.short],
            "more_short": self.more_short,
            "notes": list(self.notes),
            "sums_only": self.sums_only,
            "other": self.other,
            "agreement": packed(self.agreement),
            "refolded": self.refolded,
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> SoFar:
        """The facts that `payload` was made of."""
        try:
            kept = unpacked(payload["agreement"])
        except Unreadable:
            kept = None
        return cls(
            int(payload["batches"]),
            int(payload["files"]),
            tuple(payload["short"]),
            int(payload["more_short"]),
            tuple(payload["notes"]),
            bool(payload["sums_only"]),
            payload["other"],
            kept if isinstance(kept, Agreement) else None,
            bool(payload["refolded"]),
        )


def shortfall(asked: Asked) -> dict[str, Any]:
    """How short a batch was closed."""
    return {
        "batch": asked.number,
        "came": int(asked.counts.sum()),
        "asked": int(asked.pulls.sum()),
        "missing": asked.missing,
        "why": asked.closed_early,
    }


def with_notes(notes: tuple[str, ...], asked: Asked) -> tuple[str, ...]:
    """The notes with those of the files of a batch, each once."""
    new = [note for each in asked.files for note in each.notes]
    return tuple(dict.fromkeys((*notes, *new)))[: MOST + 1]


def sums_only(asked: Asked) -> bool:
    """Whether some file told no rows."""
    return any(each.values is None for each in asked.files)


def other_than_planned(asked: Asked) -> str | None:
    """How a batch came back otherwise than it was planned, in words; None if it did not."""
    planned, came = asked.pulls if asked.planned is None else asked.planned, asked.counts
    if (planned == came).all():
        return None
    how = "less" if (came <= planned).all() else "more" if (came >= planned).all() else "other results"
    return f"batch {asked.number} brought {how} than was planned"
