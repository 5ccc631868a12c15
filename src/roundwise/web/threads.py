"""Who works when many ask: what records has threads of its own, so that it never waits for those who look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

WRITERS = CapacityLimiter(8)
CLIENTS = CapacityLimiter(4)  # records for studies elsewhere, which record by what they read
SLOW = CapacityLimiter(2)  # what takes seconds: reports with bounds, plans, audits
TYPING = CapacityLimiter(8)  # forecasts as one types: a new one must begin for the old ones to be given up
LOOKERS = 6  # all the others: they share one processor, and more of them at once would only slow down who records

Given = ParamSpec("Given")
Made = TypeVar("Made")


def few_lookers() -> None:
    """Let so many look at once; the others wait for a moment. To be called where the server runs."""
    to_thread.current_default_thread_limiter().total_tokens = LOOKERS


def by(threads: CapacityLimiter) -> Callable[[Callable[Given, Made]], Callable[Given, Awaitable[Made]]]:
    """A handler that is run by these threads."""

    def run_by(handler: Callable[Given, Made]) -> Callable[Given, Awaitable[Made]]:
        @wraps(handler)
        async def run(*args: Given.args, **words: Given.kwargs) -> Made:
            return await to_thread.run_sync(partial(handler, *args, **words), limiter=threads)

        return run

    return run_by
