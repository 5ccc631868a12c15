"""Where studies are kept: an append-only log per study, in SQLite or PostgreSQL; no mathematics.

store = open_store("sqlite:///roundwise.db")            # or postgresql://user:password@host/database
store.create("checkout", {"arms": ["a", "b"]})          # entry 0
store.append("checkout", [("asked", {"a": 10, "b": 10})], expected=0)
store.read("checkout")                                  # every entry, in order; the study is what they say

An entry is never changed. Each carries the digest of the one before it, and every read checks them, so a log that was
edited, cut or damaged is noticed. SQLAlchemy is imported when a store is opened, not before.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roundwise.errors import InputError
from roundwise.studies.store.errors import Conflict, Damaged, StoreError, StudyExists, UnknownStudy
from roundwise.studies.store.files import lines, no_database, read_log, write_log
from roundwise.studies.store.log import Entry, Listing, check

if TYPE_CHECKING:
    from roundwise.studies.store.database import Store

DEFAULT = "sqlite:///roundwise.db"


def open_store(url: str | None = None, create: bool = True) -> Store:
    """The store at `url`, by default that of ROUNDWISE_STORAGE, else roundwise.db in the current folder.

    A store that is not there yet is made, or refused where `create` is false.
    """
    try:
        from roundwise.studies.store import address, database
    except ImportError:
        raise InputError("Studies need the extra 'store': pip install 'roundwise[store]'.") from None
    return database.opened(address.parsed(url or os.environ.get("ROUNDWISE_STORAGE") or DEFAULT), create)


__all__ = [
    "DEFAULT",
    "Conflict",
    "Damaged",
    "Entry",
    "Listing",
    "StoreError",
    "StudyExists",
    "UnknownStudy",
    "check",
    "lines",
    "no_database",
    "open_store",
    "read_log",
    "write_log",
]
