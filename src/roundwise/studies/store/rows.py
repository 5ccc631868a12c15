"""Entries and lines about studies as rows of the database, and back."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, select

from roundwise.arrays import Facts, Plain
from roundwise.errors import InputError
from roundwise.studies.store import schema
from roundwise.studies.store.address import Address
from roundwise.studies.store.errors import Damaged
from roundwise.studies.store.log import RESTORE, Entry, Listing, moment, stamp

LONGEST = 200  # letters in the name of a study


def row_of(number: int, entry: Entry) -> Plain:
    """An entry of the study with this number, as a row."""
    return {
        "study_id": number,
        "seq": entry.seq,
        "kind": entry.kind,
        "recorded_at": stamp(entry.at),
        "recorded_by": entry.by,
        "version": entry.version,
        "payload": entry.text,
        "digest": entry.digest,
    }


def entry_of(name: str, place: int, row: Row[Any]) -> Entry:
    """The entry in a row; an error if it was changed."""
    try:
        at = moment(row.recorded_at)
        entry = Entry(name, row.seq, row.kind, at, row.recorded_by, row.version, row.payload, row.digest)
        if not all(isinstance(each, str) for each in (entry.kind, entry.by, entry.version, entry.text, entry.digest)):
            raise TypeError
    except (TypeError, ValueError):
        raise Damaged(f"The log of study '{name}' was changed: entry {place} cannot be read. {RESTORE}") from None
    return entry


def with_file(connection: Connection, number: int, overview: Facts) -> Plain:
    """A line about a study, in which the last file stays where no other came."""
    if overview.get("file") is not None:
        return dict(overview)
    old = connection.execute(select(schema.study.c.overview).where(schema.study.c.id == number)).scalar_one()
    try:
        return {**overview, "file": json.loads(old)["file"]}
    except (ValueError, TypeError, KeyError):  # nobody wrote one, or it says nothing
        return dict(overview)


def listing_of(address: Address, name: str, created: str, changed: str, entries: int, overview: str) -> Listing:
    """A study in the list of all."""
    try:
        about = json.loads(overview) if overview else {}
        return Listing(str(name), moment(created), moment(changed), int(entries), about)
    except (TypeError, ValueError):
        raise Damaged(f"{address.place} is damaged: the list of studies cannot be read. {RESTORE}") from None


def named(name: str) -> str:
    """A name that a study may have."""
    if not name or len(name) > LONGEST or not name.isprintable() or name != name.strip():
        raise InputError(
            f"A study cannot be called {name[:50]!r}: give a name of 1 to {LONGEST} printable letters, "
            "without blanks at its ends."
        )
    return name
