"""What a database complains of, as one sentence that says what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from roundwise.errors import RoundwiseError
from roundwise.studies.store.address import Address
from roundwise.studies.store.errors import Conflict, Damaged, StoreError
from roundwise.studies.store.location import not_a_database

PATIENCE = 10  # seconds to wait for another writer, or for a server to answer


@contextmanager
def sentences(address: Address, connecting: bool = False) -> Iterator[None]:
    """Turn what the database raises into errors of roundwise."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # a driver that failed because of it
            raise error.__context__ from None
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        told = _sqlite(address, cause) if address.file else _postgresql(address, cause, connecting)
        raise told from None  # the driver's own error may hold the password and the whole payload


def _sqlite(address: Address, error: BaseException) -> RoundwiseError:
    place, name = address.place, str(getattr(error, "sqlite_errorname", ""))
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):
        return StoreError(
            f"The disk that holds {place} is full. Nothing of this was recorded, everything before is intact. "
            "Make room and repeat."
        )
    if name in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_LOCKED"):
        return StoreError(
            f"{place} was being written by another process for more than {PATIENCE} seconds. "
            "Nothing was changed; repeat when it is done."
        )
    if name == "SQLITE_NOTADB":
        return not_a_database(address)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreError(
            f"{place} cannot be opened for writing. Give yourself the right to write to the file and its folder "
            "(SQLite keeps its journal beside the file), or choose another place."
        )
    if name == "SQLITE_IOERR_SHORT_READ":
        return Damaged(
            f"{place} is shorter than it should be, perhaps because its log (-wal) was deleted. Keep a copy, and "
            "restore the studies from a backup or an export (`roundwise import`)."
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"The disk that holds {place} refused ({name}): a quota, a limit on the size of files, or broken hardware. "
            "All or nothing of this was recorded, everything before is intact. Look with `roundwise status`, "
            "then repeat."
        )
    garbled = isinstance(error, UnicodeDecodeError) or "Could not decode" in str(error)
    if garbled or name.startswith(("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT")):
        return Damaged(
            f"{place} is damaged: SQLite cannot read it as it was written. Keep a copy, and restore the studies from a "
            "backup or an export (`roundwise import`)."
        )
    return StoreError(f"SQLite failed on {place} ({_first_line(address, error)}). Nothing of this was recorded.")


def _postgresql(address: Address, error: BaseException, connecting: bool) -> RoundwiseError:
    place, state = address.place, str(getattr(error, "sqlstate", None) or "")
    detail = _first_line(address, error)
    if connecting:
        return StoreError(f"{place} cannot be reached ({detail}). Start the server, or correct the address.")
    if not state or state.startswith(("08", "57P")):
        return StoreError(
            f"The connection to {place} was lost ({detail}). All or nothing of this was recorded: when the server is "
            "back, look with `roundwise status`, then repeat."
        )
    if state == "40001":
        return Conflict(f"Another writer of {place} was first ({detail}). Nothing was changed; repeat.")
    if state == "53100":
        return StoreError(
            f"The disk of the server of {place} is full. Nothing of this was recorded, everything before is intact. "
            "Make room and repeat."
        )
    if state == "55P03":
        return StoreError(
            f"The study was being written by another process for more than {PATIENCE} seconds in {place}. "
            "Nothing was changed; repeat when it is done."
        )
    if state in ("57014", "25P03", "25P04"):
        return StoreError(
            f"The server of {place} stopped this because it took too long or somebody cancelled it ({detail}). Nothing "
            "of this was recorded, everything before is intact. Repeat, or ask for a longer time there."
        )
    if state in ("42501", "3F000"):
        return StoreError(
            f"The user of {place} may not do this ({detail}). Ask for the right to create and write tables there."
        )
    if state == "25006":
        return StoreError(f"{place} takes no writes ({detail}). Give the address of the primary server.")
    if state.startswith("42"):
        return Damaged(f"{place} does not hold the tables of roundwise as they were made ({detail}). Restore a backup.")
    return StoreError(f"PostgreSQL failed on {place} ({detail}). Nothing of this was recorded.")


def _first_line(address: Address, error: BaseException) -> str:
    text = address.censored(str(error)).strip().splitlines() or [type(error).__name__]
    return text[0].rstrip(".")
