"""The tables, their version, and how a store of an older version becomes one of this.

A list of steps, not Alembic: one small schema that only grows, two databases that both change tables inside a
transaction, and an import of 0.4 s saved. A step is written once and never edited; its SQL is literal, because the
tables below go on changing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Column, Connection, ForeignKey, Integer, MetaData, Table, Text, inspect, select, text

from roundwise.errors import DataError
from roundwise.studies.store.errors import Damaged
from roundwise.studies.store.log import digest

VERSION = 2

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
    Column("digest", Text, nullable=False, server_default=""),  # of the last entry: a log that lost its end is noticed
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
    Column("digest", Text, nullable=False, server_default=""),
)


def version(connection: Connection, place: str) -> int | None:
    """The version of the schema that is there, None where there is nothing yet."""
    tables = inspect(connection)
    if tables.has_table(schema.name):
        found = connection.scalar(select(schema.c.version))
        if not isinstance(found, int) or found < 1:
            raise Damaged(f"{place} does not say which version of roundwise wrote it. Restore it from a backup.")
        if found > VERSION:
            raise DataError(
                f"{place} was written by a newer roundwise (schema {found}, this version knows up to {VERSION}). "
                "Upgrade with `pip install --upgrade roundwise`."
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
    """Make the tables, or bring them to this version, inside the transaction of `connection`."""
    if connection.dialect.name == "postgresql":  # two who open a new store at once: the second waits, then finds it
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": 0x726F756E64})
    found = version(connection, place)
    if found is None:
        metadata.create_all(connection)
        connection.execute(schema.insert().values(version=VERSION))
        return
    for step in range(found, VERSION):
        UPGRADES[step](connection)
    connection.execute(schema.update().values(version=VERSION))


def _add_digests(connection: Connection) -> None:
    """1 to 2: entries are tied together by digests."""
    for table in ("roundwise_study", "roundwise_entry"):
        connection.execute(text(f"alter table {table} add column digest text not null default ''"))
    studies = connection.execute(text("select id, name, entries from roundwise_study order by id")).all()
    for number, name, entries in studies:
        previous = ""
        for seq in range(entries):  # one at a time: a payload may have many megabytes
            key: Mapping[str, Any] = {"study": number, "seq": seq}
            row = connection.execute(
                text(
                    "select kind, recorded_at, recorded_by, version, payload from roundwise_entry "
                    "where study_id = :study and seq = :seq"
                ),
                key,
            ).one()
            previous = digest(previous, name, seq, *row)
            connection.execute(
                text("update roundwise_entry set digest = :digest where study_id = :study and seq = :seq"),
                {**key, "digest": previous},
            )
        connection.execute(
            text("update roundwise_study set digest = :digest where id = :study"),
            {"digest": previous, "study": number},
        )


UPGRADES: Mapping[int, Callable[[Connection], None]] = {1: _add_digests}
