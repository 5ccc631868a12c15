"""Who works when many ask: what records has threads of its own, so that it never waits for those who look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

WRITERS = CapacityLimiter(8)
CLIENTS = CapacityLimiter(4)  # records for studies elsewhere, which record by what they read
FIRST = (WRITERS, CLIENTS)  # while one of these works, those who look make room
SLOW = CapacityLimiter(2)  # what takes seconds: reports with bounds, plans, audits
TYPING = CapacityLimiter(8)  # forecasts as one types: a new one must begin for the old ones to be given up
LOOKERS = 4  # all the others: they share one processor, and more of them at once would only slow down who records
BESIDE = 1  # of them while one works who goes first

Given = ParamSpec("Given")
Made = TypeVar("Made")


def lookers() -> CapacityLimiter:
    """The threads of those who look, of the server that runs here."""
    return to_thread.current_default_thread_limiter()


def few_lookers() -> None:
    """Let so many look at once; the others wait for a moment. To be called where the server runs."""
    lookers().total_tokens = LOOKERS


async def run_by(threads: CapacityLimiter | None, work: Callable[[], Made]) -> Made:
    """What is worked out by one of these threads (None: of those who look), who make room for what records."""
    if threads not in FIRST:
        return await to_thread.run_sync(work, limiter=threads)
    lookers().total_tokens = BESIDE
    try:
        return await to_thread.run_sync(work, limiter=threads)
    finally:
        if not any(each.borrowed_tokens for each in FIRST):
            few_lookers()


def by(threads: CapacityLimiter) -> Callable[[Callable[Given, Made]], Callable[Given, Awaitable[Made]]]:
    """A handler that is run by these threads."""

    def run(handler: Callable[Given, Made]) -> Callable[Given, Awaitable[Made]]:
        @wraps(handler)
        async def ran(*args: Given.args, **words: Given.kwargs) -> Made:
            return await run_by(threads, partial(handler, *args, **words))

        return ran

    return run
