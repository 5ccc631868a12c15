"""Where studies are kept: an append-only log per study, in SQLite or PostgreSQL; no mathematics.

store = open_store("sqlite:///roundwise.db")            # or postgresql://user:password@host/database, http://host:8000
store.create("checkout", {"arms": ["a", "b"]})          # entry 0
store.append("checkout", [("asked", {"a": 10, "b": 10})], expected=0)
store.read("checkout")                                  # every entry, in order; the study is what they say

An entry is never changed. Each carries the digest of the one before it, and every read checks them, so a log that was
edited, cut or damaged is noticed. SQLAlchemy is imported when a store is opened, not before.
"""

from roundwise.errors import (
    ConflictError,
    DamagedError,
    StoreError,
    StudyExistsError,
    StudyStateError,
    UnknownStudyError,
)
from roundwise.store.log import (
    DEFAULT,
    Entry,
    EventKind,
    Listing,
    check_chain,
    log_lines,
    open_store,
    read_log,
    refuse_database,
    write_log,
)

__all__ = [
    "DEFAULT",
    "ConflictError",
    "DamagedError",
    "Entry",
    "EventKind",
    "Listing",
    "StoreError",
    "StudyExistsError",
    "StudyStateError",
    "UnknownStudyError",
    "check_chain",
    "log_lines",
    "open_store",
    "read_log",
    "refuse_database",
    "write_log",
]
