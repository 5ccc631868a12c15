"""Who works when many ask: what records has threads of its own, so that it never waits for those who look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

WRITERS = CapacityLimiter(8)
PLANNERS = CapacityLimiter(1)  # what takes seconds is done one at a time

Given = ParamSpec("Given")
Made = TypeVar("Made")


def by(threads: CapacityLimiter) -> Callable[[Callable[Given, Made]], Callable[Given, Awaitable[Made]]]:
    """A handler that is run by these threads."""

    def run_by(handler: Callable[Given, Made]) -> Callable[Given, Awaitable[Made]]:
        @wraps(handler)
        async def run(*args: Given.args, **words: Given.kwargs) -> Made:
            return await to_thread.run_sync(partial(handler, *args, **words), limiter=threads)

        return run

    return run_by
