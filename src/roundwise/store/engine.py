"""An engine per kind of database, set so that what was acknowledged stays and readers never wait."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError

from roundwise.errors import DataError, InputError
from roundwise.store.address import Address
from roundwise.store.errors import StoreError
from roundwise.store.failures import PATIENCE, sentences

WRITING = "roundwise_writing"  # the execution option that tells the two kinds of transaction apart


def engine(address: Address) -> Engine:
    """The engine of an address; nothing is opened yet."""
    return _sqlite(address) if address.file else _postgresql(address)


@contextmanager
def reading(engine: Engine, address: Address) -> Iterator[Connection]:
    """A transaction that sees the store as of one moment, and blocks nobody."""
    options = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    with _transaction(engine, address, options) as connection:
        yield connection


@contextmanager
def writing(engine: Engine, address: Address) -> Iterator[Connection]:
    """A transaction that is durable once it is left, or leaves nothing behind."""
    with _transaction(engine, address, {WRITING: True}) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(_CAREFUL, {"patience": f"{PATIENCE}s"})
        yield connection


def use_wal(engine: Engine, address: Address) -> None:
    """SQLite's write-ahead log, in which a writer and readers do not meet; kept in the file once set."""
    with sentences(address):
        connection = engine.raw_connection()
        try:
            connection.cursor().execute("pragma journal_mode = wal")
        finally:
            connection.close()


# Where a server is told to acknowledge commits before they are on disk, not so for studies.
_CAREFUL = text(
    "select set_config('lock_timeout', :patience, true), set_config('synchronous_commit', "
    "replace(current_setting('synchronous_commit'), 'off', 'on'), true)"
)


@contextmanager
def _transaction(engine: Engine, address: Address, options: dict[str, Any]) -> Iterator[Connection]:
    with sentences(address, connecting=True):
        connection = engine.connect()
    with sentences(address), connection, connection.execution_options(**options).begin():
        yield connection


def _sqlite(address: Address) -> Engine:
    engine = create_engine(address.url, connect_args={"timeout": PATIENCE})

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not where the driver thinks they should
        for pragma in ("synchronous = full", "fullfsync = on", "foreign_keys = on"):
            connection.execute(f"pragma {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # a writer that begins as a reader fails at once when another one writes, whatever the timeout
        connection.exec_driver_sql("begin immediate" if connection.get_execution_options().get(WRITING) else "begin")

    return engine


def _postgresql(address: Address) -> Engine:
    try:
        return create_engine(
            address.url,
            pool_pre_ping=True,  # a server that was restarted is met again without an error
            connect_args={
                "connect_timeout": int(str(address.url.query.get("connect_timeout", PATIENCE))),
                "fallback_application_name": "roundwise",
                "prepare_threshold": None,  # poolers such as PgBouncer cannot keep prepared statements
            },
        )
    except ImportError:
        raise InputError("PostgreSQL needs the extra 'store': pip install 'roundwise[store]'.") from None
    except (ArgumentError, ValueError) as error:
        raise InputError(
            f"The storage URL of {address.place} cannot be used: {address.censored(str(error)).rstrip('.')}."
        ) from None


def room(address: Address, create: bool) -> None:
    """Raise an error where the file of a store cannot be, or is not there and may not be made."""
    file = address.file
    if file is None:
        return
    if file.is_dir():
        raise InputError(
            f"{address.place} is a folder. Give the name of a file in it: sqlite:///{address.place}/roundwise.db."
        )
    if not file.parent.is_dir():
        raise InputError(
            f"The folder {file.parent} does not exist, so {address.place} cannot be opened. "
            f"Create it (mkdir -p {file.parent}) or correct the storage URL."
        )
    if not file.exists():
        if not create:
            raise nothing_there(address)
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise StoreError(
                f"{address.place} cannot be created: you may not write to the folder {file.parent}. "
                "Give yourself that right, or choose another place."
            )
    elif _opening(file) not in (b"", b"SQLite format 3\0"):  # SQLite itself would overwrite a file of a few bytes
        raise DataError(f"{address.place} is not an SQLite database. Give another file for the studies of roundwise.")


def _opening(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(16)
    except OSError:
        return b""  # SQLite will say why


def nothing_there(address: Address) -> InputError:
    """The error for a store that was never made."""
    where = address.file or address.place
    return InputError(
        f"There are no studies in {where} yet. `roundwise new` begins the first; if there should be some, "
        "correct --storage or ROUNDWISE_STORAGE."
    )
