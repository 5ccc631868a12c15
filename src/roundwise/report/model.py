"""The contents of a report: arms, claims, rounds, files and log entries; and the format of its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from roundwise.arrays import Plain, unpack_numbers
from roundwise.messages import Danger, Guarantee, Note, count, several, visible
from roundwise.noise import Noise
from roundwise.questions.base import CURRENCIES, RATE_WORDING, Wording, wording_in_unit, write_in_unit
from roundwise.store.log import Entry, EventKind, format_time

RATIO = "ratio"  # the scale of a claim about the ratio of two means
TINY = 1e-12  # a bound that is nearer than this just agrees with the decision: no number is worth saying
Side = Literal["near", "down", "up"]  # how to round: bounds are rounded away from what they bound


# --- numbers as people read them


TIMES = ("ns", "us", "µs", "ms", "s", "sec", "second", "seconds", "min", "minutes", "h", "hours", "days")


class Units(NamedTuple):
    """How values of a study are written: rates in per cent, everything else as numbers, in their unit if it has one."""

    rates: bool
    decimals: int | None = None  # None: as many as a number needs by itself
    unit: str = ""

    @property
    def wording(self) -> Wording:
        """The word for a mean, and the format of declared levels, margins and tolerances."""
        return RATE_WORDING if self.rates else wording_in_unit(self.unit)

    @property
    def sign_first(self) -> bool:
        """Whether the unit stands before a number: of two, it is written with the first."""
        return self.unit in CURRENCIES and bool(self.unit)

    @property
    def lowest(self) -> str:
        """The word for an arm with the lowest mean."""
        if self.rates or not self.unit:
            return f"has the lowest {self.wording.mean}"
        known = "is fastest" if self.unit in TIMES else "is cheapest" if self.unit in CURRENCIES else None
        return known or "has the lowest mean"

    def value(self, value: float, side: Side = "near", unit: bool = True) -> str:
        return per_cent(value, side, unit=unit) if self.rates else self._plain(value, side, unit)

    def gap(self, gap: float, side: Side = "near", unit: bool = True) -> str:
        """A difference of two values, with its `unit` if there is one."""
        return points(gap, side, unit) if self.rates else self._plain(gap, side, unit)

    def _plain(self, value: float, side: Side, unit: bool) -> str:
        if self.decimals is None and self.sign_first and 0.1 <= abs(value) < 1000:
            text = f"{rounded(value, 2, side):.2f}"
        elif self.decimals is None:
            text = number(value, side)
        elif (shown := rounded(value, self.decimals, side)) or abs(value) < TINY:
            text = f"{shown:.{self.decimals}f}"
        else:  # so small that it would be written as 0, which it is not
            text = number(value, side, digits=1)
        return write_in_unit(text, self.unit) if unit else text


def choose_units(noise: Noise, unit: str | None = None, width: float | None = None) -> Units:
    """Per cent and points for 0/1 results, numbers in their unit for others: as many digits as this `width` allows."""
    if noise.outcome.rates or not width or not math.isfinite(width) or not 1e-9 < width < 1e9:
        return Units(noise.outcome.rates, unit=unit or "")
    return Units(False, max(0, 1 - math.floor(math.log10(width))), unit or "")


def per_cent(share: float, side: Side = "near", digits: int | None = None, unit: bool = True) -> str:
    """A rate in per cent: a tenth of a point, finer near 0 and 100; or with this many decimals.

    >>> per_cent(0.3784), per_cent(0.03478), per_cent(0.0004321), per_cent(0.99952), per_cent(1.0), per_cent(-0.5)
    ('37.8 %', '3.48 %', '0.0432 %', '99.9520 %', '100 %', '-50.0 %')
    >>> per_cent(0.9), per_cent(0.4, digits=2), per_cent(0.99406, "up", 1), per_cent(0.0, digits=1)
    ('90.0 %', '40.00 %', '99.5 %', '0 %')
    """
    digits = decimals(share) if digits is None or not decimals(share) else digits
    return f"{rounded(100 * share, digits, side):.{digits}f}{' %' if unit else ''}"


def decimals(share: float) -> int:
    """The decimals of a rate in per cent."""
    near = 100 * min(abs(share), abs(1 - share))
    if near < 100 * TINY:
        return 0
    return 1 if near >= 10 * (1 - TINY) else max(2, 2 - math.floor(math.log10(near)))


def points(gap: float, side: Side = "near", unit: bool = True) -> str:
    """A difference of two rates in percentage points.

    >>> points(0.0214), points(0.1138), points(0.000321), points(0.01), points(0.0219, "down")
    ('2.1 points', '11.4 points', '0.032 points', '1.0 points', '2.1 points')
    """
    name = " points" if unit else ""
    if abs(gap) < TINY:
        return f"0{name}"
    decimals = 1 if abs(gap) >= 0.01 else 1 - math.floor(math.log10(100 * abs(gap)))
    return f"{rounded(100 * gap, decimals, side):.{decimals}f}{name}"


def number(value: float, side: Side = "near", digits: int = 4) -> str:
    """Four digits, or this many.

    >>> number(1234.56), number(0.012345, "down"), number(2.0), number(-0.4838, digits=1)
    ('1235', '0.01234', '2', '-0.5')
    """
    if not math.isfinite(value):
        return "?"
    if abs(value) < TINY:
        return "0"
    if side == "near":
        return f"{value:.{digits}g}"
    return f"{rounded(value, digits - 1 - math.floor(math.log10(abs(value))), side):.{digits}g}"


def rounded(value: float, decimals: int, side: Side) -> float:
    """Round to this many decimals, to the given side; a number that has no more decimals stays."""
    scaled = value * 10.0**decimals
    whole = round(scaled)
    if side != "near" and abs(scaled - whole) > 1e-6:
        whole = math.floor(scaled) if side == "down" else math.ceil(scaled)
    return whole / 10.0**decimals


def odds(log: float) -> str:
    """Evidence as odds.

    >>> [odds(log) for log in (3.0, -1.0, -12.0, 100.0, math.inf)]
    ['20 : 1', '0.37 : 1', 'below 0.01 : 1', '10^43 : 1', 'certain']
    """
    if math.isinf(log) and log > 0:
        return "certain"
    if log < math.log(0.01):
        return "below 0.01 : 1"
    if log > 30:
        return f"10^{log / math.log(10):.0f} : 1"
    value = math.exp(log)
    return (count(value + 0.5) if value >= 10 else f"{value:.2g}") + " : 1"


def progress(log_evidence: float, log_threshold: float) -> str:
    """How far evidence has come on the log scale, in words; never all the way, which is for what is shown.

    >>> [progress(log, 3.0) for log in (-1.0, 0.0, 0.93, 2.999, 3.1)]
    ['0 % of the way', '0 % of the way', '31 % of the way', '99 % of the way', '99 % of the way']
    """
    part = log_evidence / log_threshold if log_threshold > 0 else 0.0
    return f"{int(100 * min(max(part, 0.0), 0.99))} % of the way"


share = RATE_WORDING.value  # a probability in per cent, as short as possible


def sentence(text: str) -> str:
    """End a text with a full stop."""
    return text if text.endswith((".", "?", "!")) else text + "."


# --- the rows of a report


@dataclass(kw_only=True)
class ArmRow:
    """One arm: what came back, and bounds that hold at all times; None for what was not computed or is not known."""

    name: str
    index: int  # among the arms of the study
    results: int  # that count
    mean: float | None
    missing: int = 0  # outcomes that will never be known
    pending: int = 0  # results that are recorded, of a round that is still open
    pending_mean: float | None = None
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


@dataclass(kw_only=True)
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
    power: float | None = None  # a forecast that it is shown by the end, where a rule makes one
    log_adjusted: float | None = None  # of the e-value adjusted for all claims, whose bar is 1/delta
    single_lower: float | None = None  # single-step bounds, which do not affect the decision
    single_upper: float | None = None
    given_up: bool = False  # whether no more results go to it
    margins: float | None = None  # by how much it holds, at least
    arm: str | None = None  # that it would rule out, if it says so of one
    gap: bool = False  # whether what it is about is a difference of means
    below: bool = False  # whether it says that this lies below, not above
    compares: str | None = None  # the arm that is compared with the control
    label: str | None = None  # its shortest name


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """The claim about one arm in one of several metrics."""

    arm: str
    metric: str
    role: str  # primary, guardrail, secondary
    claim: str
    shown: bool
    shown_at: int | None  # the round from which on it was shown
    refuted: bool  # whether its opposite is shown
    refutation: str | None  # the opposite in words, where it can be shown
    log_evidence: float
    log_threshold: float
    difference: float | None  # from the control
    difference_lower: float | None
    difference_upper: float | None
    scale: str | None  # what these are of, where it is no difference of means
    units: Units


@dataclass(frozen=True, kw_only=True)
class ArmDecision:
    """The decision on one arm from all metrics."""

    arm: str
    decision: Literal["ship", "do not ship", "undecided"]
    why: str


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
    first_time: str | None = None  # of its results, where it has a column of times
    last_time: str | None = None


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """The results of one arm in one round."""

    round: int
    arm: str
    asked: int
    results: int
    mean: float | None
    counted: bool  # whether the decision has seen it


class EvidenceHistory(NamedTuple):
    """How the evidence for a claim went, round by round."""

    claim: str
    rounds: tuple[int, ...]
    log_evidence: tuple[float, ...]
    log_threshold: tuple[float, ...]  # what it had to reach then, or had reached
    shown: bool
    shown_at: int | None  # the round from which on it was shown


@dataclass(frozen=True, kw_only=True, repr=False)
class ReportData:
    """All data of a report."""

    study: str
    question: str  # its name
    question_text: str  # the question in words
    status: str  # decided, undecided, closed
    answer: Any  # names of arms or statements, or true/false; None if undecided
    headline: str  # the answer with its size, or what is shown and what is open
    delta: float
    results: int  # that count
    late: int  # of them, those that came after the decision
    pending: int  # that are recorded, of a round that is still open
    budget: int | None
    rounds: int  # that count
    list_results: int | None  # results of all arms on the whole list, of a study of one
    tied_arms: tuple[str, ...]  # arms that share the first place of a list
    cost: float | None  # of all results, by their prices or by what they cost on average
    max_cost: float | None  # that was allowed
    list_cost: float | None  # of the whole list
    items: int | None  # of the arm with the most, where arms share items without a list
    items_cost: float | None  # of all arms on as many items
    cost_unit: str  # of both: tokens, or empty
    remaining: dict[str, int]  # results of the open round
    arm_rows: tuple[ArmRow, ...]  # in the order of the study
    claim_rows: tuple[ClaimRow, ...]  # of the primary metric
    metric_rows: tuple[MetricRow, ...]  # of all, where there are several
    decisions: tuple[ArmDecision, ...]  # where there are several metrics
    round_rows: tuple[RoundRow, ...]
    files: tuple[FileRow, ...]
    courses: tuple[EvidenceHistory, ...]
    assumptions: str
    units: Units
    lower_is_better: bool  # whether the best arm is the one with the lowest mean
    level: float | None  # that means are compared with, if the question has one
    control: str | None
    ends: str  # what bounds of means are, with their probability, where they are shown
    differences: str  # the same of differences from the control
    dangers: tuple[Danger, ...]  # to the guarantee
    notes: tuple[Note, ...]
    guarantee: Guarantee
    sentence: str  # for a protocol or a paper
    next: str
    forecast: str | None = None  # the forecast, if one was made: "about 1 to 3 more rounds"
    reproduce: str
    policy: str
    allocated: str  # who chose the allocation
    created: str | None  # ISO 8601, UTC
    changed: str | None
    waiting_since: str | None  # the time from which results or a next step are waited for
    by: tuple[str, ...]  # who wrote to the record
    digest: str | None  # of the last entry
    version: str

    @property
    def waiting(self) -> tuple[Note, ...]:
        """Notes on what a conclusion waits for, shown next to the headline."""
        return tuple(each for each in self.notes if each.code in ("collecting", "few_rows"))

    @property
    def warnings(self) -> list[str]:
        """Dangers and notes."""
        return [str(each) for each in (*self.dangers, *self.notes)]

    @cached_property
    def ranked(self) -> tuple[ArmRow, ...]:
        """The arms, the best first; those without results last."""
        sign = 1.0 if self.lower_is_better else -1.0
        return tuple(sorted(self.arm_rows, key=lambda arm: (arm.mean is None, sign * (arm.mean or 0.0))))


# --- the entries of a record


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
    """Every entry of a record, also one of an unknown kind."""
    found, number = [], None
    for entry in entries:
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        number = payload.get("round", number if entry.kind == EventKind.DECIDED else None)
        told = payload.get("results")
        told = told if isinstance(told, dict) else None
        pulls = payload.get("pulls")
        asked = sum(each for each in pulls if isinstance(each, int | float)) if isinstance(pulls, list) else None
        found.append(
            Event(
                entry=entry.seq,
                at=format_time(entry.at),
                by=visible(entry.by),
                kind=visible(entry.kind),
                round=number if isinstance(number, int) else None,
                file=None if told is None else visible(str(told.get("name", "?")), 200),
                rows=None if told is None else _whole(told.get("rows")),
                results=_whole(asked) if entry.kind == "asked" else None if told is None else _results(told),
                what=visible(_describe_entry(entry.kind, payload, asked), 500),
                sha256=None if told is None else str(told.get("digest")),
                version=visible(entry.version),
                digest=entry.digest,
            )
        )
    return found


def _describe_entry(kind: str, payload: Plain, asked: float | None) -> str:
    arms, question, why = payload.get("arms"), payload.get("question"), payload.get("why", "")
    corrected = "withdrawn" if payload.get("results") is None else "corrected"
    known = {
        "created": f"created: {question.get('name', '?') if isinstance(question, dict) else question} "
        f"of {len(arms) if isinstance(arms, list) else 0} arms",
        "asked": f"asked for {several(asked or 0, 'result')}",
        "told": "recorded",
        EventKind.ROUND_CLOSED: f"the rest was given up: {why}",
        EventKind.CHECKPOINT: "counted",
        EventKind.TOLD_LATE: "recorded, after the decision",
        "decided": f"decided: {payload.get('answer_text', '?')}",
        "amended": f"{payload.get('name', '?')} {corrected}: {why}",
        "closed": f"closed: {why}",
    }
    about = [
        str(payload[each])
        for each in ("arm", "budget", "lead", "looks", "text", "why")
        if payload.get(each) not in (None, "")
    ]
    return known.get(kind, f"{kind.replace('_', ' ')}{': ' if about else ''}{', '.join(about)}")


def _results(told: Plain) -> int | None:
    try:
        return int(unpack_numbers(told["counts"]).sum())
    except (KeyError, TypeError, ValueError):
        return None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
