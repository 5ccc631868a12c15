"""Results from a database: the rows of a query, written to a file that is read like any other. It is a file, not a data
frame, so that the same rows recorded twice are detected.
"""

from __future__ import annotations

import csv
import importlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roundwise.errors import DataError, InputError
from roundwise.formats.sheet import not_open, opened
from roundwise.messages import shown

FETCHED_ROWS = 2000  # fetched at once


@dataclass(frozen=True)
class QueryFile(os.PathLike[str]):
    """The rows of a query in a file."""

    path: Path
    shown_as: str = "the query"

    def __fspath__(self) -> str:
        return str(self.path)


@contextmanager
def query_file(sql: str, database: str | None) -> Iterator[QueryFile]:
    """Run a query, and yield a temporary file of its rows.

    Args:
        sql: The query.
        database: A file of SQLite or DuckDB, or the URL of a PostgreSQL database; None: DuckDB reads the files that
            the query names.
    """
    with tempfile.TemporaryDirectory(prefix="roundwise-") as folder:
        path = Path(folder) / "query.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(_rows(sql, database))  # None is an empty cell
        yield QueryFile(path)


def _rows(sql: str, database: str | None) -> Iterator[tuple[object, ...]]:
    """The header and the rows."""
    connect, failure = _connection(database)
    try:
        with closing(connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            if cursor.description is None:
                raise DataError("The query returns no rows. Give a select.")
            yield tuple(column[0] for column in cursor.description)
            while rows := cursor.fetchmany(FETCHED_ROWS):
                yield from rows
    except failure as error:
        reason = shown(str(error).strip().partition("\n")[0], 300)
        raise DataError(f"The query failed: {reason}. Nothing was recorded; correct it.") from None


def _connection(database: str | None) -> tuple[Callable[[], Any], type[Exception]]:
    """A read-only connection to a database, and its error class."""
    if database is not None and database.startswith(("postgresql://", "postgres://")):
        psycopg = _imported("psycopg", "PostgreSQL", "store")
        return lambda: psycopg.connect(database, options="-c default_transaction_read_only=on"), psycopg.Error
    if database is not None:
        not_open(Path(database))
        with opened(database) as file:
            start = file.read(16)
        if start == b"SQLite format 3\0":
            address = f"{Path(database).resolve().as_uri()}?mode=ro"
            return lambda: sqlite3.connect(address, uri=True), sqlite3.Error
    duckdb = _imported("duckdb", "DuckDB", "frames")
    own: dict[str, Any] = {} if database is None else {"database": database, "read_only": True}
    return lambda: duckdb.connect(**own, config={"autoinstall_known_extensions": "false"}), duckdb.Error


def _imported(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"This query needs {name}. Run `pip install 'roundwise[{extra}]'`.") from None
