"""How long work may go on: the caller sets a budget, and loops that may take long check whether to continue.

The budget is time of the processor, not of the clock: a busy machine makes nobody give up. Where nobody set one, as on
the command line, there is none. Neither error is a `RoundwiseError`: nothing was wrong with what was asked, and nobody
who has something else to say in that case may catch them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CancelledError(Exception):
    """Nobody waits for the result any more."""


class OverBudgetError(Exception):
    """The work took more processor time than its budget."""


class Deadline:
    """A budget of processor time for one piece of work, and whether somebody still waits for it."""

    def __init__(self, seconds: float, cancelled: threading.Event | None = None) -> None:
        self.seconds = seconds
        self.cancelled = cancelled or threading.Event()
        self._end: float | None = None
        self._around: Deadline | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """What this thread does meanwhile is done within the budget, and within that of the work it is a part of."""
        self._end, self._around = time.thread_time() + self.seconds, _CURRENT.get()
        before = _CURRENT.set(self)
        try:
            self.check()
            yield
        finally:
            _CURRENT.reset(before)

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self._end is not None and time.thread_time() > self._end

    def check(self) -> None:
        """Raise an error where nobody waits any more, or the time is used up."""
        if self._around is not None:
            self._around.check()
        if self.cancelled.is_set():
            raise CancelledError
        if self.over:
            raise OverBudgetError(f"This takes more than {self.seconds:g} s of the server's processor.")


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise an error where the work at hand should not go on; to be called in every loop that may take seconds."""
    deadline = _CURRENT.get()
    if deadline is not None:
        deadline.check()


@contextmanager
def held(lock: threading.Lock | threading.Semaphore) -> Iterator[None]:
    """Hold a lock; waiting for it ends when the work is cancelled."""
    while not lock.acquire(timeout=0.1):
        check_deadline()
    try:
        yield
    finally:
        lock.release()
