"""Where studies are kept: an append-only log per study, in SQLite or PostgreSQL; no mathematics.

store = open_store("sqlite:///roundwise.db")            # or postgresql://user:password@host/database, http://host:8000
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
from roundwise.store.log import Entry, EventKind, Listing, check_chain, log_lines, read_log, refuse_database, write_log

if TYPE_CHECKING:
    from roundwise.store.database import Store
    from roundwise.store.remote import RemoteStore

    Records = Store | RemoteStore  # whatever keeps records: a database, or a server that has one

DEFAULT = "sqlite:///roundwise.db"


def open_store(url: str | None = None, create: bool = True) -> Records:
    """The store at `url`, by default that of ROUNDWISE_STORAGE, else roundwise.db in the current folder.

    A store that is not there yet is made, or refused where `create` is false. With `http://...` it is that of a server.
    """
    url = url or os.environ.get("ROUNDWISE_STORAGE") or DEFAULT
    if url.lower().startswith(("http://", "https://")):
        from roundwise.store.remote import RemoteStore, Server

        return RemoteStore(Server.at(url))
    try:
        from roundwise.store.database import open_database, parse_url
    except ImportError:
        raise InputError("Studies need the extra 'store': pip install 'roundwise[store]'.") from None
    return open_database(parse_url(url), create)


__all__ = [
    "DEFAULT",
    "Entry",
    "EventKind",
    "Listing",
    "check_chain",
    "log_lines",
    "open_store",
    "read_log",
    "refuse_database",
    "write_log",
]
