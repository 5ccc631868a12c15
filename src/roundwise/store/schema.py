"""The tables and their version, and entries as rows of them.

The log is the truth; what stands beside it makes reading cheap and can be made again from it: where a study may be read
from on (`checkpoint`), a line about it (`overview`), and in which entries a file or a key of a request is (`key`).
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Column, Connection, ForeignKey, Integer, MetaData, Row, Table, Text, inspect, select, text

from roundwise.arrays import Facts, Plain
from roundwise.errors import DamagedError, DataError, InputError
from roundwise.store.log import Entry, Listing, moment, restore, stamp
from roundwise.store.storage_url import Address

UNREADABLE = (TypeError, ValueError, OverflowError)  # what comes of a cell that is not of its type any more
VERSION = 3  # 1 and 2 were never released

metadata = MetaData()
schema = Table("roundwise_schema", metadata, Column("version", Integer, nullable=False))
study = Table(
    "roundwise_study",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("digest", Text, nullable=False),  # of the last entry: a log that lost its end is noticed
    Column("checkpoint", Integer, nullable=False),  # the last entry that holds all of the state; 0 if there is none
    Column("overview", Text, nullable=False),  # JSON, for lists of studies; empty if nobody wrote one
)
entry = Table(
    "roundwise_entry",
    metadata,
    Column("study_id", ForeignKey(study.c.id), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("recorded_at", Text, nullable=False),
    Column("recorded_by", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("digest", Text, nullable=False),
)
key = Table(
    "roundwise_key",
    metadata,
    Column("study_id", ForeignKey(study.c.id), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
)

link = Table(  # made when the first link is: stores of earlier versions do not have it
    "roundwise_link",
    metadata,
    Column("study_id", ForeignKey(study.c.id, ondelete="CASCADE"), primary_key=True),
    Column("begins", Text, nullable=False),  # the digest of its first entry: numbers of studies are used again
    Column("secret", Text, nullable=False),
)


def version(connection: Connection, place: str) -> int | None:
    """The version of the schema that is there, None where there is nothing yet."""
    tables = inspect(connection)
    if tables.has_table(schema.name):
        found = connection.scalar(select(schema.c.version))
        if not isinstance(found, int) or found < 1:
            raise DamagedError(f"{place} does not say which version of roundwise wrote it. Restore it from a backup.")
        if found > VERSION:
            raise DataError(
                f"{place} was written by a newer roundwise (schema {found}, this version knows up to {VERSION}). "
                "Upgrade with `pip install --upgrade roundwise`."
            )
        if found < VERSION:
            raise DataError(
                f"{place} was written before the first release of roundwise (schema {found}), and is not read any "
                "more. Give another place for the studies."
            )
        return found
    # a PostgreSQL database may be shared with other programs, a file may not
    others = tables.get_table_names() if connection.dialect.name == "sqlite" else []
    if others:
        raise DataError(
            f"{place} is the database of another program (it holds the table '{others[0]}'). "
            "Give another file for the studies of roundwise."
        )
    return None


def install(connection: Connection, place: str) -> None:
    """Make the tables, inside the transaction of `connection`, unless somebody else just did."""
    _alone(connection)
    if version(connection, place) is None:
        metadata.create_all(connection)
        connection.execute(schema.insert().values(version=VERSION))


def install_links(connection: Connection) -> None:
    """Make the table of links, where it is not there."""
    _alone(connection)
    metadata.create_all(connection, tables=[link])


def _alone(connection: Connection) -> None:
    """Of two who make tables at once the second waits, then finds them; of SQLite there is one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": 0x726F756E64})


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
    except UNREADABLE:
        raise DamagedError(
            f"The log of study '{name}' was changed: entry {place} cannot be read. {restore()}"
        ) from None
    return entry


def with_file(connection: Connection, number: int, overview: Facts) -> Plain:
    """A line about a study, in which the last file stays where no other came."""
    if overview.get("file") is not None:
        return dict(overview)
    old = connection.execute(select(study.c.overview).where(study.c.id == number)).scalar_one()
    try:
        return {**overview, "file": json.loads(old)["file"]}
    except (ValueError, TypeError, KeyError):  # nobody wrote one, or it says nothing
        return dict(overview)


def listing_of(address: Address, name: str, created: str, changed: str, entries: int, overview: str) -> Listing:
    """A study in the list of all."""
    try:
        about = json.loads(overview) if overview else {}
        if not isinstance(about, dict):
            raise TypeError
        return Listing(str(name), moment(created), moment(changed), int(entries), about)
    except UNREADABLE:
        raise unreadable_list(address) from None


def unreadable_list(address: Address) -> DamagedError:
    """The error where a line about a study is not as it was written."""
    return DamagedError(f"{address.place} is damaged: the list of studies cannot be read. {restore()}")


def named(name: str) -> str:
    """A name that a study may have."""
    if not name or len(name) > LONGEST or not name.isprintable() or name != name.strip():
        raise InputError(
            f"A study cannot be called {name[:50]!r}: give a name of 1 to {LONGEST} printable letters, "
            "without blanks at its ends."
        )
    return name
