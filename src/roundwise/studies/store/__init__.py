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
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from roundwise.arrays import Facts
from roundwise.errors import Conflict, Damaged, InputError, StoreError, StudyExists, UnknownStudy, Untimely
from roundwise.studies.store.log import Entry, Head, Listing, check, lines, no_database, read_log, write_log

if TYPE_CHECKING:
    from roundwise.studies.store.server import Server

DEFAULT = "sqlite:///roundwise.db"


class Records(Protocol):
    """What studies need of whatever keeps their logs: a database, or a server that has one."""

    @property
    def server(self) -> Server | None:
        """The server by which studies are told; None where they are written directly."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Give back files and connections."""

    def create(self, name: str, payload: Facts, kind: str = "created", overview: Facts | None = None) -> Entry:
        """Begin a study: its entry 0."""

    def put(self, entries: Sequence[Entry], overview: Facts | None = None) -> Listing:
        """Take in a whole log, as it was exported."""

    def append(
        self,
        name: str,
        new: Sequence[tuple[str, Facts]],
        expected: int,
        overview: Facts | None = None,
    ) -> list[Entry]:
        """Record each (kind, payload) after the entry `expected`: all, or none where the study has moved on since."""

    def remove(self, name: str, expected: int) -> None:
        """Forget a study altogether, unless it has moved on since the entry `expected`; its name is free again."""

    def read(self, name: str, after: int = -1) -> list[Entry]:
        """The entries of a study after number `after`, in order, each checked against the one before it."""

    def recent(self, name: str) -> list[Entry]:
        """The first entry, and those from the last checkpoint on (all, if there is none), each checked."""

    def head(self, name: str) -> Head:
        """Where the log of a study ends."""

    def known(self, name: str) -> None:
        """Raise `UnknownStudy` where there is no such study."""

    def find(self, name: str, key: str) -> list[Entry]:
        """The entries of a study that tell a file or answer a request (see `log.keys`)."""

    def studies(self) -> list[Listing]:
        """All studies, by name."""

    def ends(self) -> dict[str, tuple[int, str]]:
        """Of every study how many entries it has, and the digest of the last: cheap, to see what has changed."""


def open_store(url: str | None = None, create: bool = True) -> Records:
    """The store at `url`, by default that of ROUNDWISE_STORAGE, else roundwise.db in the current folder.

    A store that is not there yet is made, or refused where `create` is false. With `http://...` it is that of a server.
    """
    url = url or os.environ.get("ROUNDWISE_STORAGE") or DEFAULT
    if url.lower().startswith(("http://", "https://")):
        from roundwise.studies.store import remote, server

        return remote.RemoteStore(server.server_at(url))
    try:
        from roundwise.studies.store import database, location
    except ImportError:
        raise InputError("Studies need the extra 'store': pip install 'roundwise[store]'.") from None
    return database.opened(location.parsed(url), create)


__all__ = [
    "DEFAULT",
    "Conflict",
    "Damaged",
    "Entry",
    "Listing",
    "Records",
    "StoreError",
    "StudyExists",
    "UnknownStudy",
    "Untimely",
    "check",
    "lines",
    "no_database",
    "open_store",
    "read_log",
    "write_log",
]
