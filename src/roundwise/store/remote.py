"""Records behind a server: read whole, so that whoever reads can check and compute them; told by the server's verbs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from roundwise.arrays import Facts
from roundwise.errors import DamagedError, InputError, StudyExistsError, UnknownStudyError
from roundwise.store.client import Server, own_doing, segment
from roundwise.store.log import Entry, Head, Listing, check, lines, moment, parsed, stamp


@dataclass(frozen=True)
class RemoteStore:
    """The studies of a server."""

    server: Server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is kept open."""

    def pinned(self) -> AbstractContextManager[None]:
        """Nothing to be done: the server sees to it."""
        return nullcontext()

    def create(self, name: str, payload: Facts, kind: str = "created", overview: Facts | None = None) -> Entry:
        """Begin a study; the server makes it of the same words."""
        unsent = ("seed_given",) if payload.get("seed_given") else ("seed",)  # which the server draws, unless chosen
        body = {key: value for key, value in payload.items() if key not in unsent} | {"name": name}
        try:
            self.server.post("/studies", body)
        except StudyExistsError as error:
            if not own_doing(error) or {**self.recent(name)[0].payload, **_seed(payload)} != dict(payload):
                raise
        return self.recent(name)[0]

    def put(self, entries: Sequence[Entry], overview: Facts | None = None) -> Listing:
        """Take in a whole log, as it was exported."""
        last = entries[-1]
        try:
            self.server.text("/records", "".join(f"{line}\n" for line in lines(entries)))
        except StudyExistsError as error:
            if not own_doing(error) or self.head(last.study).digest != last.digest:
                raise
        return Listing(last.study, entries[0].at, last.at, len(entries), dict(overview or {}))

    def append(
        self,
        name: str,
        new: Sequence[tuple[str, Facts]],
        expected: int,
        overview: Facts | None = None,
    ) -> list[Entry]:
        """Refused: what is recorded is worked out by the server."""
        raise InputError(f"{self.server.place} takes no entries. Nothing was changed; use `load_study` and its verbs.")

    def remove(self, name: str, expected: int) -> None:
        """Forget a study without results, unless it has moved on since the entry `expected`."""
        digest = self.read(name, expected - 1)[0].digest
        try:
            self.server.delete(f"/studies/{segment(name)}", digest)
        except UnknownStudyError as error:
            if not own_doing(error):
                raise

    def read(self, name: str, after: int = -1) -> list[Entry]:
        """The entries of a study after number `after`, in order, each checked against the one before it."""
        entries = self._lines(name, after=after)
        _check(entries)
        return entries

    def recent(self, name: str) -> list[Entry]:
        """The first entry, and those from the last checkpoint on (all, if there is none), each checked."""
        entries = self._lines(name, recent="true")
        whole = [entry.seq for entry in entries[:2]] == [0, 1]
        for part in [entries] if whole else [entries[:1], entries[1:]]:
            _check(part)
        return entries

    def head(self, name: str) -> Head:
        """Where the log of a study ends."""
        found = self.server.json(self.server.get(f"/studies/{segment(name)}/head"))
        return Head(int(found["entries"]), str(found["digest"]), moment(found["changed"]), int(found["checkpoint"]))

    def known(self, name: str) -> None:
        """Raise `UnknownStudyError` where there is no such study."""
        self.head(name)

    def find(self, name: str, key: str) -> list[Entry]:
        """The entries of a study that tell a file or answer a request (see `log.search_keys`)."""
        return self._lines(name, key=key)

    def studies(self) -> list[Listing]:
        """All studies, by name."""
        found = self.server.json(self.server.get("/studies"))
        known = ("name", "created", "changed", "entries")
        return [
            Listing(
                str(each["name"]),
                moment(each["created"]),
                moment(each["changed"]),
                int(each["entries"]),
                {key: value for key, value in each.items() if key not in known},
            )
            for each in found
        ]

    def ends(self) -> dict[str, tuple[int, str]]:
        """Of every study how many entries it has, and what changes with the last of them: its time."""
        return {each.name: (each.entries, stamp(each.changed)) for each in self.studies()}

    def _lines(self, name: str, **query: str | int) -> list[Entry]:
        answer = self.server.get(f"/studies/{segment(name)}/record", **query)
        about, entries = parsed(self.server.place, answer.content.decode().removesuffix("\n").split("\n"))
        if about["study"] != name:
            raise DamagedError(f"{self.server.place} sent the record of another study than '{name}'.")
        return entries


def _seed(payload: Facts) -> Facts:
    """The seed of a study where nobody chose it: that of the server may be another one."""
    return {} if payload.get("seed_given") else {"seed": payload["seed"]}


def _check(entries: Sequence[Entry]) -> None:
    """Raise `DamagedError` where entries do not follow each other; the server has checked the first."""
    if entries and entries[0].seq > 0:
        check(entries[1:], Head(entries[0].seq + 1, entries[0].digest))
    else:
        check(entries)
