"""What studies need of whatever keeps their records: a database, or a server that has one."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from roundwise.arrays import Facts
from roundwise.studies.store.log import Entry, Head, Listing

if TYPE_CHECKING:
    from roundwise.studies.store.server import Server


class Records(Protocol):
    """Studies and their logs."""

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
