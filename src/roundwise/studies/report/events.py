"""The record of a study as people read it: every entry, when, by whom, which file, how many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from roundwise.arrays import Plain
from roundwise.errors import visible
from roundwise.studies.store.log import Entry, stamp
from roundwise.studies.words import count


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


def events_of(entries: Sequence[Entry]) -> list[Event]:
    """Every entry of a record; one of a kind that is not known is listed, too."""
    found, batch = [], None
    for entry in entries:
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        batch = payload.get("batch", batch if entry.kind in ("told", "round_over", "counted", "decided") else None)
        told = payload.get("results") if isinstance(payload.get("results"), dict) else None
        found.append(
            Event(
                entry=entry.seq,
                at=stamp(entry.at),
                by=visible(entry.by),
                kind=visible(entry.kind),
                round=batch if isinstance(batch, int) else None,
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
        return f"asked for {count(_asked(payload) or 0)} results"
    if kind == "told":
        return "recorded"
    if kind == "round_over":
        return f"the rest was given up: {why}"
    if kind == "counted":
        return "counted"
    if kind == "later":
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
    from roundwise.studies.packing import unpacked_numbers

    try:
        return int(unpacked_numbers(told["counts"]).sum())
    except (KeyError, TypeError, ValueError):
        return None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
