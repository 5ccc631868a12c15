"""A log as a file: JSON lines, first who it is and how long, then one line an entry."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from roundwise.arrays import Plain
from roundwise.errors import DataError, InputError
from roundwise.studies.store.errors import Damaged
from roundwise.studies.store.log import Entry, check, moment, stamp

FORMAT = 1
HEADER = b"SQLite format 3\0"
PAYLOAD = ', "payload": '  # what follows it is the payload as it was recorded; no string in JSON can hold it


def lines(entries: Sequence[Entry]) -> Iterator[str]:
    """The lines of a whole log. The first counts the others, so that a file that was cut is noticed."""
    yield first_line(entries[-1].study, len(entries))
    yield from entry_lines(entries)


def first_line(study: str, entries: int, **about: str) -> str:
    """The first line: what follows it."""
    return json.dumps({"roundwise": "study", "format": FORMAT, "study": study, "entries": entries, **about})


def entry_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """A line for each entry."""
    for entry in entries:
        about = {"seq": entry.seq, "kind": entry.kind, "at": stamp(entry.at), "by": entry.by, "version": entry.version}
        yield json.dumps({**about, "digest": entry.digest})[:-1] + PAYLOAD + entry.text + "}"


def not_open(path: Path) -> None:
    """Raise an error where a path is the file of a store that is open in this process (or SQLite's beside it).

    Reading it would drop the locks of SQLite, writing would destroy it: ask before a file is opened that a user named.
    """
    sharing = sys.modules.get("roundwise.studies.store.sharing")  # not imported: nothing is open
    if sharing is not None and sharing.registry().holds(path):
        raise InputError(
            f"{path} is the database in which the studies are kept. Nothing was changed; give another file."
        )


def no_database(path: Path) -> None:
    """Raise an error where a path is a database of SQLite, or a file of SQLite beside one: no place for an output."""
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
    no_database(path)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines(entries))
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
            _, entries = parsed(str(path), file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text. {EXPECTED}") from None
    check(entries)
    return entries


def parsed(path: str, source: Iterable[str]) -> tuple[Plain, list[Entry]]:
    """The first line and the entries of a log, or of a part of one; its chain is not checked."""
    rest = iter(source)
    first = _first(path, next(rest, ""))
    entries = [_entry(path, number, first["study"], line) for number, line in enumerate(rest, start=2)]
    if len(entries) != first["entries"]:
        raise Damaged(
            f"{path} holds {len(entries)} entries of study '{first['study']}', but its first line announces "
            f"{first['entries']!r}: the file was cut. Export the study again."
        )
    return first, entries


EXPECTED = "Give a file that `roundwise export` wrote."


def _first(path: str, line: str) -> Plain:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("roundwise") != "study" or not isinstance(found.get("study"), str):
        raise DataError(f"{path}, line 1: this is not the log of a study. {EXPECTED}")
    if found.get("format") != FORMAT:
        raise DataError(
            f"{path}, line 1: the file has format {found.get('format')!r}, this version of roundwise reads {FORMAT}. "
            "Upgrade with `pip install --upgrade roundwise`."
        )
    return found


def _entry(path: str, number: int, study: str, line: str) -> Entry:
    try:
        row = json.loads(line)
        strings = {name: row[name] for name in ("kind", "by", "version", "digest")}
        if not all(isinstance(each, str) and each.isprintable() for each in strings.values()):
            raise ValueError
        if type(row["seq"]) is not int or not isinstance(row["payload"], dict):
            raise ValueError
        text = line.rstrip()[:-1].partition(PAYLOAD)[2]
        return Entry(study, row["seq"], at=moment(row["at"]), text=text, **strings)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise Damaged(f"{path}, line {number}: this is not an entry; the file was cut or changed. {EXPECTED}") from None
