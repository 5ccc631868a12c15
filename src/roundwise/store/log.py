"""The log of a study: its entries, the chain of digests that ties each to the one before, and the same as a file."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from roundwise._version import __version__
from roundwise.arrays import Facts, Plain
from roundwise.errors import DamagedError, DataError, InputError
from roundwise.formats.sheet import not_open
from roundwise.messages import option


class EventKind(StrEnum):
    """The kinds of entries in a study's log. Payloads are plain JSON objects and never name Python classes."""

    CREATED = "created"  # the settings
    ASKED = "asked"  # round, pulls, planned, by_number, rules: the plan of a round
    TOLD = "told"  # round, results: what one file brought for the open round
    ROUND_CLOSED = "round_closed"  # round, why: closed although results are missing
    CHECKPOINT = "checkpoint"  # after a fold: the wealth, the state of policy and rule, the next plan, a summary
    DECIDED = "decided"  # answer, answer_text, rounds, samples
    TOLD_LATE = "told_late"  # results: what one file brought after the decision
    AMENDED = "amended"  # replaces, name, round, results, why: one file, corrected or (results null) withdrawn
    DROPPED = "dropped"  # arm, why, unrelated, after: an arm left after that round
    ADDED = "added"  # arm, why, unrelated, after: an arm joined
    RELAXED = "relaxed"  # why, after: the study continues as large-sample after that round
    EXTENDED = "extended"  # budget
    REDESIGNED = "redesigned"  # policy, budget, lead, looks: of every round whose results come after it
    PAST_IMPORTED = "past_imported"  # results: earlier data, which guide the allocation and are no evidence
    NOTED = "noted"  # text
    CLOSED = "closed"  # why
    REOPENED = "reopened"  # why


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
        """The JSON object that was recorded."""
        return json.loads(self.text)

    @property
    def legible(self) -> Plain:
        """The same with question marks in place of letters that are none.

        A shell hands over bytes that are not UTF-8 as halves of surrogate pairs, which no answer of a server can hold.
        """
        if _HALF.search(self.text) is None:
            return self.payload
        return json.loads(json.dumps(self.payload, ensure_ascii=False).encode("utf-8", "replace"))

    def keep_payload(self, payload: Facts) -> Entry:
        """Set the payload where it is at hand, so that its text is not parsed."""
        vars(self)["payload"] = payload  # where `cached_property` keeps it
        return self

    def digest_after(self, previous: str) -> str:
        """SHA-256 over the entry and the digest of the one before it."""
        about = [previous, self.study, self.seq, self.kind, format_time(self.at), self.by, self.version]
        return hashlib.sha256(f"{_json(about)}\n{self.text}".encode()).hexdigest()


def pending_entry(study: str, seq: int, kind: str, payload: Plain) -> Entry:
    """An event that is about to be recorded, to be applied to a state before it is written."""
    return Entry(study, seq, kind, datetime.now(UTC), current_user(), __version__, "", "").keep_payload(payload)


@dataclass(frozen=True)
class Listing:
    """A study among the others of a store."""

    name: str
    created: datetime
    changed: datetime
    entries: int
    overview: Plain = field(default_factory=dict)  # what is known of it without reading its log


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Head:
    """Where a log ends: what the next entry is tied to."""

    entries: int = 0
    digest: str = ""
    changed: datetime = LONG_AGO
    checkpoint: int = 0  # the last entry that holds all of the state


def encode_payload(payload: Facts) -> str:
    """The text of a payload: JSON, one line, ASCII, keys in the order given."""
    try:
        return _json(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The payload of an entry cannot be kept as JSON ({error}). "
            "Use dicts, lists, strings, plain numbers that are finite, true, false and null."
        ) from None


def format_time(at: datetime) -> str:
    """A time as it is kept: UTC, of fixed width, so that it sorts as text."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """The time that a stamp means."""
    return datetime.fromisoformat(text).astimezone(UTC)


def chain_entries(study: str, head: Head, new: Iterable[tuple[str, str]], now: datetime) -> list[Entry]:
    """The entries that record each (kind, text) after `head`; where the clock went back, the time stands still."""
    at, by, previous = max(now, head.changed), current_user(), head.digest
    entries = []
    for seq, (kind, text) in enumerate(new, start=head.entries):
        entry = Entry(study, seq, kind, at, by, __version__, text, "")
        previous = entry.digest_after(previous)
        entries.append(replace(entry, digest=previous))
    return entries


def check_chain(entries: Sequence[Entry], after: Head | None = None) -> None:
    """Raise `DamagedError` with the first entry that does not follow from the one before it."""
    seq, previous = (after.entries, after.digest) if after else (0, "")
    for entry in entries:
        if entry.seq != seq:
            raise DamagedError(
                f"The log of study '{entry.study}' was changed: entry {seq} is missing (entry {entry.seq} is in its "
                f"place). {restore_advice()}"
            )
        if entry.digest != entry.digest_after(previous):
            raise DamagedError(
                f"The log of study '{entry.study}' was changed: entry {seq} ('{entry.kind}', {entry.at:%Y-%m-%d %H:%M} "
                f"UTC, by {entry.by}) is not what was recorded. {restore_advice()}"
            )
        seq, previous = seq + 1, entry.digest


def search_keys(kind: str, payload: Plain) -> list[str]:
    """The search keys of an entry: the contents of its file, and the key of the request that recorded it."""
    if kind in (EventKind.CREATED, EventKind.CHECKPOINT):  # not made by separate requests
        return []
    try:
        results = payload.get("results") if kind in (EventKind.TOLD, EventKind.AMENDED, EventKind.TOLD_LATE) else None
        found = [] if results is None else [f"file {results['digest']}"]
        return found if payload.get("key") is None else [*found, f"request {payload['key']}"]
    except (AttributeError, KeyError, TypeError):  # replaying says what is wrong with it
        return []


_WRITER: ContextVar[str | None] = ContextVar("writer", default=None)


@contextmanager
def written_by(name: str | None) -> Iterator[None]:
    """Within the block, entries are recorded under this author instead of the account; None changes nothing."""
    before = _WRITER.set(name or _WRITER.get())
    try:
        yield
    finally:
        _WRITER.reset(before)


def current_user() -> str:
    """Who is writing: as `written_by` says, else ROUNDWISE_USER, else the name of the account."""
    try:
        name = _WRITER.get() or os.environ.get("ROUNDWISE_USER") or getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        name = f"uid {os.getuid()}"
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def restore_advice(what: str = "Restore it") -> str:
    """The remedy for a log or file that changed after it was written."""
    return f"{what} from a backup or an export ({option('import')})."


def retry_advice() -> str:
    """How to see whether something was recorded."""
    return f"look with {option('status')}, then repeat."


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


FORMAT = 1
HEADER = b"SQLite format 3\0"
PAYLOAD = ', "payload": '  # what follows it is the payload as it was recorded; no string in JSON can hold it


def log_lines(entries: Sequence[Entry], study: str | None = None) -> Iterator[str]:
    """The lines of a log, or of a part of one, each with its line end. The first counts the others.

    So a file that was cut is noticed.
    """
    study = entries[-1].study if study is None else study
    yield json.dumps({"roundwise": "log", "format": FORMAT, "study": study, "entries": len(entries)}) + "\n"
    for entry in entries:
        about = {
            "seq": entry.seq,
            "kind": entry.kind,
            "at": format_time(entry.at),
            "by": entry.by,
            "version": entry.version,
        }
        yield json.dumps({**about, "digest": entry.digest})[:-1] + PAYLOAD + entry.text + "}\n"


def refuse_database(path: Path) -> None:
    """Raise an error where a path is an SQLite database, or one of SQLite's files next to it, which must not be
    overwritten.
    """
    ends = [end for end in ("-wal", "-shm", "-journal") if path.name.endswith(end)]
    for each in (path, *(path.with_name(path.name.removesuffix(end)) for end in ends)):
        not_open(each)  # then it may be looked at: this process has no locks on it
        if not each.is_file():
            continue
        try:
            with each.open("rb") as file:
                start = file.read(len(HEADER))
        except OSError:
            continue
        if start == HEADER:
            raise InputError(f"{path} belongs to an SQLite database. Nothing was changed; give another file.")


def write_log(path: Path, entries: Sequence[Entry]) -> None:
    """Write a whole log to a file, which appears complete or not at all."""
    refuse_database(path)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(log_lines(entries))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written: {error.strerror}. Give another place.") from None


def read_log(path: Path) -> list[Entry]:
    """The log in a file, its chain checked."""
    not_open(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            _, entries = parse_log(str(path), file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text. {_expected()}") from None
    check_chain(entries)
    return entries


def parse_log(path: str, source: Iterable[str]) -> tuple[str, list[Entry]]:
    """The study and the entries of a log, or of a part of one; its chain is not checked."""
    rest = iter(source)
    try:
        first = json.loads(next(rest, ""))
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, dict) and first.get("roundwise") == "study":
        raise DataError(f"{path} was exported before the first release of roundwise, and is not read any more.")
    if not isinstance(first, dict) or first.get("roundwise") != "log" or not isinstance(first.get("study"), str):
        raise DataError(f"{path}, line 1: this is not the log of a study. {_expected()}")
    if "entries" not in first:
        raise DataError(f"{path}, line 1: it does not say how many entries follow; it was changed. {_expected()}")
    if first.get("format") != FORMAT:
        raise DataError(
            f"{path}, line 1: the file has format {first.get('format')!r}, this version of roundwise reads {FORMAT}. "
            "Upgrade with `pip install --upgrade roundwise`."
        )
    study: str = first["study"]
    entries = [_entry(path, number, study, line) for number, line in enumerate(rest, start=2)]
    if len(entries) != first["entries"]:
        raise DamagedError(
            f"{path} holds {len(entries)} entries of study '{study}', but its first line announces "
            f"{first['entries']!r}: the file was cut. Export the study again."
        )
    return study, entries


def _expected() -> str:
    return f"Give a file that {option('export')} wrote."


def _entry(path: str, number: int, study: str, line: str) -> Entry:
    try:
        row = json.loads(line)
        strings = {name: row[name] for name in ("kind", "by", "version", "digest")}
        if not all(isinstance(each, str) and each.isprintable() for each in strings.values()):
            raise ValueError
        if type(row["seq"]) is not int or not isinstance(row["payload"], dict):
            raise ValueError
        text = line.rstrip()[:-1].partition(PAYLOAD)[2]
        return Entry(study, row["seq"], at=parse_time(row["at"]), text=text, **strings)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise DamagedError(
            f"{path}, line {number}: this is not an entry; the file was cut or changed. {_expected()}"
        ) from None
