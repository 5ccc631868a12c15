"""Server-sent events: listeners learn when a record grows, also through another process.

The storage is polled once a second for all listeners together, and not at all without listeners.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from roundwise.errors import RoundwiseError
from roundwise.store import open_store

PAUSE = 1.0  # seconds between polls
QUIET = 15.0  # seconds between signs of life, by which a lost listener is noticed
MOST = 500  # listeners at once
BEHIND = 100  # events that wait for a slow listener; then the oldest are dropped

Ends = dict[str, tuple[int, str]]  # by study: how many entries, and the digest of the last


class RecordChange(NamedTuple):
    """A record as it ends now; one without entries was removed."""

    study: str
    entries: int
    digest: str

    def text(self) -> str:
        return f"event: changed\ndata: {json.dumps(self._asdict())}\n\n"


Queue = asyncio.Queue[RecordChange]


class ChangeFeed:
    """The changes of a storage, for all listeners."""

    def __init__(self, storage: str | None, pause: float = PAUSE) -> None:
        self._storage, self._pause = storage, pause
        self._listening: dict[Queue, str | None] = {}  # and to which study; None: to all
        self._looking: asyncio.Task[None] | None = None
        self.looks = 0

    def listen(self, first: RecordChange | None = None) -> AsyncIterator[str]:
        """The text of events: `first`, and the changes of its study from now on; of all studies without it."""
        if len(self._listening) >= MOST:
            raise HTTPException(503, f"{MOST} others are listening already. Try again later.")
        return self._events(first)

    async def _events(self, first: RecordChange | None) -> AsyncIterator[str]:
        async with self.queue(None if first is None else first.study) as queue:
            if first is not None:
                yield first.text()
            while True:
                try:
                    yield (await asyncio.wait_for(queue.get(), QUIET)).text()
                except TimeoutError:
                    yield ": still here\n\n"

    @asynccontextmanager
    async def queue(self, study: str | None) -> AsyncIterator[Queue]:
        """A queue of the changes of a study, or of all, from now on."""
        queue: Queue = asyncio.Queue(BEHIND)
        self._listening[queue] = study
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield queue
        finally:
            del self._listening[queue]
            if not self._listening and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        before: Ends | None = None
        while True:
            with suppress(RoundwiseError):  # the storage does not answer: look again
                now: Ends = await run_in_threadpool(self._ends)
                self.looks += 1
                for change in () if before is None else compare_ends(before, now):
                    self._tell(change)
                before = now
            await asyncio.sleep(self._pause)

    def _ends(self) -> Ends:
        with open_store(self._storage, create=False) as store:
            return store.ends()

    def _tell(self, change: RecordChange) -> None:
        for queue, study in self._listening.items():
            if study in (None, change.study):
                if queue.full():
                    queue.get_nowait()
                queue.put_nowait(change)


def compare_ends(before: Ends, now: Ends) -> list[RecordChange]:
    """The studies that changed or were removed.

    >>> [each[:2] for each in compare_ends({"a": (1, "x"), "b": (2, "y")}, {"a": (3, "z"), "c": (1, "w")})]
    [('a', 3), ('c', 1), ('b', 0)]
    """
    grown = [RecordChange(name, *each) for name, each in now.items() if before.get(name) != each]
    return [*grown, *(RecordChange(name, 0, "") for name in before if name not in now)]
