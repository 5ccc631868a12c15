"""CPU budgets: the caller sets one, and long loops check whether to continue.

The budget is CPU time, not wall time, so a busy machine causes no timeouts. Without one, as on the command line, there
is no limit. Neither error is a `RoundwiseError`: the request was valid, and handlers of user mistakes must not catch
them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CancelledError(Exception):
    """The caller no longer waits for the result."""


class OverBudgetError(Exception):
    """The work took more processor time than its budget."""


class Deadline:
    """A CPU budget for one piece of work, which its caller may also cancel."""

    def __init__(self, seconds: float, cancelled: threading.Event | None = None) -> None:
        self.seconds = seconds
        self.cancelled = cancelled or threading.Event()
        self._end: float | None = None
        self._around: Deadline | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the budget to this thread within the block, nested in that of the surrounding work."""
        self._end, self._around = time.thread_time() + self.seconds, _CURRENT.get()
        before = _CURRENT.set(self)
        try:
            self.check()
            yield
        finally:
            _CURRENT.reset(before)

    @property
    def over(self) -> bool:
        return self._end is not None and time.thread_time() > self._end

    def check(self) -> None:
        """Raise an error if the work was cancelled or the budget is used up."""
        if self._around is not None:
            self._around.check()
        if self.cancelled.is_set():
            raise CancelledError
        if self.over:
            raise OverBudgetError(f"This takes more than {self.seconds:g} s of the server's processor.")


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_deadline() -> None:
    """Raise an error if the current work should stop; called in every loop that may take seconds."""
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
