"""Connections of SQLite to a file: to write, to read, and where nothing can be written beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from roundwise.studies.store.failures import PATIENCE
from roundwise.studies.store.location import beside


class Opened(sqlite3.Connection):
    """A connection of SQLite that can be referred to weakly, so that it is known whether it is still there."""


def opened(file: Path, mode: str) -> Opened:
    """A connection of SQLite to a file, which is made in the mode 'rwc' alone."""
    return sqlite3.connect(
        f"{file.as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        factory=Opened,
    )


def takes_nothing(file: Path, error: str) -> bool:
    """Whether what SQLite complained of is that nothing can be written beside a file."""
    if error.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM", "SQLITE_IOERR_WRITE")):
        return True
    fixed = not os.access(file.parent, os.W_OK) or bool(os.statvfs(file.parent).f_flag & os.ST_RDONLY)
    return fixed and error.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))


def still_readable(file: Path) -> Callable[[], Opened]:
    """What opens a file beside which nothing can be written: as it is, or a copy where its log holds something.

    Nobody can write to it meanwhile; and every entry is checked against the one before it.
    """
    log = beside(file, "-wal")
    if not log.exists() or not log.stat().st_size:
        return lambda: opened(file, "ro&immutable=1")
    folder = Path(tempfile.mkdtemp(prefix="roundwise-"))
    copy = folder / "copy.db"
    shutil.copyfile(file, copy)
    shutil.copyfile(log, beside(copy, "-wal"))

    def connected() -> Opened:
        return opened(copy, "rw")

    weakref.finalize(connected, shutil.rmtree, folder, ignore_errors=True)  # goes with the last connection
    return connected
