"""The tables and their version.

The log is the truth; what stands beside it makes reading cheap and can be made again from it: where a study may be read
from on (`checkpoint`), a line about it (`overview`), and in which entries a file or a key of a request is (`key`).
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, ForeignKey, Integer, MetaData, Table, Text, inspect, select, text

from roundwise.errors import DataError
from roundwise.studies.store.errors import Damaged

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
    if connection.dialect.name == "postgresql":  # two who open a new store at once: the second waits, then finds it
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": 0x726F756E64})
    if version(connection, place) is None:
        metadata.create_all(connection)
        connection.execute(schema.insert().values(version=VERSION))
