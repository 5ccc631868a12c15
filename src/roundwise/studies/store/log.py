"""The log of a study: its entries and the chain of digests that ties each to the one before. Pure functions."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from roundwise.arrays import Facts, Plain
from roundwise.errors import InputError
from roundwise.studies.store.errors import Damaged


@dataclass(frozen=True)
class Entry:
    """One thing that happened to a study."""

    study: str
    seq: int  # 0, 1, 2, ...: the order; the clock has no say in it
    kind: str
    at: datetime  # UTC, a note
    by: str
    version: str  # of roundwise
    text: str = field(repr=False)  # the payload as it is kept: what the digest covers
    digest: str

    @cached_property
    def payload(self) -> Plain:
        """What was recorded."""
        found: Plain = json.loads(self.text)
        return found


@dataclass(frozen=True)
class Listing:
    """A study among the others of a store."""

    name: str
    created: datetime
    changed: datetime
    entries: int
    overview: Plain = field(default_factory=dict)  # what is known of it without reading its log


LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Head:
    """Where a log ends: what the next entry is tied to."""

    entries: int = 0
    digest: str = ""
    changed: datetime = LONG_AGO
    checkpoint: int = 0  # the last entry that holds all of the state


def written(payload: Facts) -> str:
    """The text of a payload: JSON, one line, ASCII, keys in the order given."""
    try:
        return _json(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The payload of an entry cannot be kept as JSON ({error}). "
            "Use dicts, lists, strings, plain numbers that are finite, true, false and null."
        ) from None


def stamp(at: datetime) -> str:
    """A time as it is kept: UTC, of fixed width, so that it sorts as text."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def moment(text: str) -> datetime:
    """The time that a stamp means."""
    return datetime.fromisoformat(text).astimezone(UTC)


def extended(study: str, head: Head, new: Iterable[tuple[str, str]], now: datetime) -> list[Entry]:
    """The entries that record each (kind, text) after `head`; where the clock went back, the time stands still."""
    from roundwise._version import __version__

    at, by, previous = max(now, head.changed), user(), head.digest
    entries = []
    for seq, (kind, text) in enumerate(new, start=head.entries):
        previous = digest(previous, study, seq, kind, stamp(at), by, __version__, text)
        entries.append(Entry(study, seq, kind, at, by, __version__, text, previous))
    return entries


def digest(previous: str, study: str, seq: int, kind: str, at: str, by: str, version: str, text: str) -> str:
    """SHA-256 over an entry and the digest of the one before it."""
    return hashlib.sha256(f"{_json([previous, study, seq, kind, at, by, version])}\n{text}".encode()).hexdigest()


def check(entries: Sequence[Entry], after: Head | None = None) -> None:
    """Raise `Damaged` with the first entry that does not follow from the one before it."""
    seq, previous = (after.entries, after.digest) if after else (0, "")
    for entry in entries:
        if entry.seq != seq:
            raise Damaged(
                f"The log of study '{entry.study}' was changed: entry {seq} is missing (entry {entry.seq} is in its "
                f"place). {RESTORE}"
            )
        fits = digest(
            previous, entry.study, entry.seq, entry.kind, stamp(entry.at), entry.by, entry.version, entry.text
        )
        if entry.digest != fits:
            raise Damaged(
                f"The log of study '{entry.study}' was changed: entry {seq} ('{entry.kind}', {entry.at:%Y-%m-%d %H:%M} "
                f"UTC, by {entry.by}) is not what was recorded. {RESTORE}"
            )
        seq, previous = seq + 1, entry.digest


CHECKPOINT = "counted"  # the kind of entry that holds all of the state: a study may be read from it on


def keys(entry: Entry) -> list[str]:
    """What an entry can be found by: the contents of a file it tells, and the key of the request that recorded it."""
    if entry.kind in ("created", CHECKPOINT):  # made by no request of their own, and large
        return []
    try:
        payload = entry.payload
        results = payload.get("results") if entry.kind in ("told", "amended", "later") else None
        request = payload.get("key")
        found = [] if results is None else [f"file {results['digest']}"]
    except (AttributeError, KeyError, TypeError, ValueError):  # replaying says what is wrong with it
        return []
    return found if request is None else [*found, f"request {request}"]


_WRITER: ContextVar[str | None] = ContextVar("writer", default=None)


@contextmanager
def written_by(name: str | None) -> Iterator[None]:
    """What is recorded meanwhile is recorded as written by somebody else than the account; None changes nothing."""
    before = _WRITER.set(name or _WRITER.get())
    try:
        yield
    finally:
        _WRITER.reset(before)


def user() -> str:
    """Who is writing: as `written_by` says, else ROUNDWISE_USER, else the name of the account."""
    try:
        name = _WRITER.get() or os.environ.get("ROUNDWISE_USER") or getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        name = f"uid {os.getuid()}"
    return "".join(letter if letter.isprintable() else "?" for letter in name)


RESTORE = "Restore it from a backup or an export (`roundwise import`)."


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
