"""Threads of requests: recording never waits for reading, and reading has a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from anyio import CapacityLimiter, create_task_group, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request

from roundwise.deadline import CancelledError, Deadline, OverBudgetError

WRITERS = CapacityLimiter(8)
CLIENTS = CapacityLimiter(4)  # clients that read a record in order to write to it
FIRST = (WRITERS, CLIENTS)  # while one of these works, readers make room
SLOW = CapacityLimiter(2)  # work of seconds: reports with intervals, plans, audits
TYPING = CapacityLimiter(8)  # forecasts while a form is filled in: a new one cancels the old ones
READERS = 4  # all other requests: they share one processor, and more at once would only delay writers
BESIDE = 1  # readers while a writer works
# seconds of processor time of a thread (linear algebra may use as much again)
QUICK = 20.0  # for a page
LONG = 60.0  # for SLOW work, which depends on the study and not on the request
FORECAST = 12.0  # for a plan or a forecast

Made = TypeVar("Made")


def reader_limiter() -> CapacityLimiter:
    """The limiter of the reader threads of the running server."""
    return to_thread.current_default_thread_limiter()


def limit_readers() -> None:
    """Let `READERS` requests read at once; call it in the event loop of the server."""
    reader_limiter().total_tokens = READERS


_ARRIVED: ContextVar[float | None] = ContextVar("arrived", default=None)


def arrival() -> float:
    """When the current request came in (monotonic clock), before it waited for a thread; now, without a request."""
    found = _ARRIVED.get()
    return time.monotonic() if found is None else found


async def run_by(threads: CapacityLimiter | None, work: Callable[[], Made], request: Request | None = None) -> Made:
    """Run work in one of these threads (None: those of readers, who make room for writers).

    Work that only reads has a budget of time, and is cancelled when the client of the `request` disconnects or the
    server shuts down. Work that records runs to its end.
    """
    _ARRIVED.set(time.monotonic())
    if threads not in FIRST:
        return await _run_reader(threads, work, request)
    reader_limiter().total_tokens = BESIDE
    try:
        return await to_thread.run_sync(work, limiter=threads)
    finally:
        if not any(each.borrowed_tokens for each in FIRST):
            limit_readers()


async def _run_reader(threads: CapacityLimiter | None, work: Callable[[], Made], request: Request | None) -> Made:
    deadline = Deadline(LONG if threads is SLOW else QUICK)
    found: list[Made] = []
    failed: list[Exception] = []

    def within() -> Made:
        with deadline.applied():
            return work()

    async def left() -> None:
        """Wait until the client disconnects; then cancel the work, whether it waits for a thread or runs."""
        assert request is not None
        while (await request.receive())["type"] != "http.disconnect":
            pass
        deadline.cancelled.set()
        group.cancel_scope.cancel()

    try:
        async with create_task_group() as group:
            if request is not None:
                group.start_soon(left)
            try:
                found.append(await to_thread.run_sync(within, limiter=threads))
            except Exception as error:
                failed.append(error)
            group.cancel_scope.cancel()
    finally:
        deadline.cancelled.set()  # a server that shuts down waits for no reader
    if found:
        return found[0]
    if failed and isinstance(failed[0], OverBudgetError):
        raise HTTPException(503, f"{failed[0]} Ask for less, or use roundwise where the studies are kept.")
    if failed and not isinstance(failed[0], CancelledError):
        raise failed[0]
    raise HTTPException(503, "The request was cancelled.")
