"""What a report holds: plain facts, and the record of a study as people read it. `facts` gathers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from roundwise.arrays import Plain
from roundwise.errors import visible
from roundwise.messages import Danger, Guarantee, Note
from roundwise.report.wording import Units, several
from roundwise.store.log import Entry, EventKind, stamp

RATIO = "ratio"  # the scale of a claim about the ratio of two means


@dataclass(frozen=True, kw_only=True)
class ArmRow:
    """One arm: what came back, and bounds that hold at all times; None for what was not computed or is not known."""

    name: str
    index: int  # among the arms of the study
    results: int  # that count
    mean: float | None
    missing: int = 0  # outcomes that will never be known
    waiting: int = 0  # results that are recorded, of a round that is still open
    waiting_mean: float | None = None
    lower: float | None = None  # of the mean
    upper: float | None = None
    widened: bool = False  # whether these were extended to the mean, which they had left out
    gap_to_best_lower: float | None = None  # how far behind the best, at least; 0 as long as it may be the best
    gap_to_leader_lower: float | None = None  # how far behind the arm that leads, at least
    gap_to_leader_upper: float | None = None  # how far behind the arm that leads, at most; 0 for itself
    difference: float | None = None  # from the control
    difference_lower: float | None = None
    difference_upper: float | None = None
    lift: float | None = None  # the difference as a share of the control's mean
    lift_lower: float | None = None
    lift_upper: float | None = None
    place: str = ""  # "the only one left", "in the running", "out", ...; empty where arms have no place


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """Something that must be shown, how much speaks for it, and how large what it is about is."""

    claim: str
    shown: bool
    shown_at: int | None  # the round from which on it was shown
    log_evidence: float
    log_threshold: float
    estimate: float | None = None  # of what the claim is about
    lower: float | None = None
    upper: float | None = None
    scale: str | None = None  # what these are of, where it is neither a mean nor a difference of two
    margin: float | None = None  # that a ratio is claimed to exceed
    chance: float | None = None  # a forecast, where a rule makes one
    log_adjusted: float | None = None  # of the e-value adjusted for all claims, whose bar is 1/delta
    single_lower: float | None = None  # bounds of single steps, which have no part in what is shown
    single_upper: float | None = None
    given_up: bool = False  # whether no more results go to it
    margins: float | None = None  # by how much it holds, at least
    arm: str | None = None  # that it would rule out, if it says so of one
    gap: bool = False  # whether what it is about is a difference of means
    below: bool = False  # whether it says that this lies below, not above
    compares: str | None = None  # the arm that is compared with the control
    label: str | None = None  # its shortest name


@dataclass(frozen=True, kw_only=True)
class FileRow:
    """A file that was recorded."""

    name: str
    round: int | None  # None after the decision
    results: int
    rows: int
    digest: str
    skipped: int = 0  # rows that were recorded before
    contradicts: Plain | None = None  # those of them that say something else than is recorded
    at: str | None = None  # ISO 8601, UTC
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """What one round brought of one arm."""

    round: int
    arm: str
    asked: int
    results: int
    mean: float | None
    counts: bool  # whether the decision has seen it


class EvidenceHistory(NamedTuple):
    """How the evidence for a claim went, round by round."""

    claim: str
    rounds: tuple[int, ...]
    log_evidence: tuple[float, ...]
    log_threshold: tuple[float, ...]  # what it had to reach then, or had reached
    shown: bool
    shown_at: int | None  # the round from which on it was shown


class Point(NamedTuple):
    """How a claim stood after a round."""

    log_evidence: float
    log_threshold: float
    shown: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class ReportData:
    """Everything there is to say about a study."""

    study: str
    question: str  # its name
    asks: str  # the question in words
    status: str  # decided, undecided, closed
    answer: Any  # names of arms or statements, or true/false; None if undecided
    headline: str  # the answer with its size, or what is shown and what is open
    delta: float
    results: int  # that count
    late: int  # of them, those that came after the decision
    waiting: int  # that are recorded, of a round that is still open
    budget: int | None
    rounds: int  # that count
    still_to_come: dict[str, int]  # results of the open round
    arm_rows: tuple[ArmRow, ...]  # in the order of the study
    claim_rows: tuple[ClaimRow, ...]
    cells: tuple[RoundRow, ...]
    files: tuple[FileRow, ...]
    courses: tuple[EvidenceHistory, ...]
    assumed: str
    units: Units
    rising: bool  # whether the best arm is the one with the highest mean
    level: float | None  # that means are compared with, if the question has one
    control: str | None
    ends: str  # what bounds of means are, with their probability, where they are shown
    differences: str  # the same of differences from the control
    dangers: tuple[Danger, ...]  # to the guarantee
    notes: tuple[Note, ...]
    guarantee: Guarantee
    sentence: str  # for a protocol or a paper
    next: str
    forecast: str | None = None  # what is still to come, where somebody looked ahead: "about 1 to 3 more rounds"
    reproduce: str
    policy: str
    allocated: str  # who said how many results of each arm there are
    created: str | None  # ISO 8601, UTC
    changed: str | None
    waiting_since: str | None  # the time from which results or a next step are waited for
    by: tuple[str, ...]  # who wrote to the record
    digest: str | None  # of the last entry
    version: str

    @property
    def warnings(self) -> list[str]:
        """Dangers and notes."""
        return [str(each) for each in (*self.dangers, *self.notes)]

    @cached_property
    def ranked(self) -> tuple[ArmRow, ...]:
        """The arms, the best first; those without results last."""
        sign = -1.0 if self.rising else 1.0
        return tuple(sorted(self.arm_rows, key=lambda arm: (arm.mean is None, sign * (arm.mean or 0.0))))


# --- every entry of a record: when, by whom, which file, how many rows


@dataclass(frozen=True, kw_only=True)
class Event:
    """One entry of a record."""

    entry: int
    at: str  # ISO 8601, UTC
    by: str
    kind: str
    round: int | None
    file: str | None
    rows: int | None
    results: int | None
    what: str  # in words
    sha256: str | None  # of the file
    version: str
    digest: str

    def plain(self) -> Plain:
        """The event as JSON."""
        return asdict(self)


def list_events(entries: Sequence[Entry]) -> list[Event]:
    """Every entry of a record; one of a kind that is not known is listed, too."""
    found, number = [], None
    for entry in entries:
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        number = payload.get("round", number if entry.kind == EventKind.DECIDED else None)
        told = payload.get("results") if isinstance(payload.get("results"), dict) else None
        found.append(
            Event(
                entry=entry.seq,
                at=stamp(entry.at),
                by=visible(entry.by),
                kind=visible(entry.kind),
                round=number if isinstance(number, int) else None,
                file=None if told is None else visible(str(told.get("name", "?")), 200),
                rows=None if told is None else _whole(told.get("rows")),
                results=_asked(payload) if entry.kind == "asked" else None if told is None else _results(told),
                what=visible(_what(entry.kind, payload), 500),
                sha256=None if told is None else str(told.get("digest")),
                version=visible(entry.version),
                digest=entry.digest,
            )
        )
    return found


def _what(kind: str, payload: Plain) -> str:
    """An entry in words."""
    why = payload.get("why", "")
    if kind == "created":
        arms = payload.get("arms") or []
        question = payload.get("question")
        name = question.get("name", "?") if isinstance(question, dict) else question
        return f"created: {name} of {len(arms)} arms"
    if kind == "asked":
        return f"asked for {several(_asked(payload) or 0, 'result')}"
    if kind == "told":
        return "recorded"
    if kind == EventKind.ROUND_CLOSED:
        return f"the rest was given up: {why}"
    if kind == EventKind.CHECKPOINT:
        return "counted"
    if kind == EventKind.TOLD_LATE:
        return "recorded, after the decision"
    if kind == "decided":
        return f"decided: {payload.get('words', '?')}"
    if kind == "amended":
        what = "withdrawn" if payload.get("results") is None else "corrected"
        return f"{payload.get('name', '?')} {what}: {why}"
    if kind == "closed":
        return f"closed: {why}"
    about = [str(payload[each]) for each in ("arm", "budget", "text", "why") if payload.get(each) not in (None, "")]
    return f"{kind.replace('_', ' ')}{': ' if about else ''}{', '.join(about)}"


def _asked(payload: Plain) -> int | None:
    pulls = payload.get("pulls")
    return _whole(sum(each for each in pulls if isinstance(each, int | float))) if isinstance(pulls, list) else None


def _results(told: Plain) -> int | None:
    from roundwise.serialization import unpacked_numbers

    try:
        return int(unpacked_numbers(told["counts"]).sum())
    except (KeyError, TypeError, ValueError):
        return None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
