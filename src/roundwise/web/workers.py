"""Threads: recording never waits for reading, reading has a budget of time, and jobs of the lab run one at a time."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Generic, ParamSpec, TypeVar

from anyio import CapacityLimiter, create_task_group, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request

from roundwise.deadline import CancelledError, Deadline, OverBudgetError, check_deadline
from roundwise.errors import InputError, RoundwiseError

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

Given = ParamSpec("Given")
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


def by(threads: CapacityLimiter | None) -> Callable[[Callable[Given, Made]], Callable[Given, Awaitable[Made]]]:
    """Decorate a handler to run in these threads (None: those of readers)."""

    def run(handler: Callable[Given, Made]) -> Callable[Given, Awaitable[Made]]:
        @wraps(handler)
        async def ran(*args: Given.args, **words: Given.kwargs) -> Made:
            request = words.get("request")
            return await run_by(
                threads, partial(handler, *args, **words), request if isinstance(request, Request) else None
            )

        return ran

    return run


MOST = 20  # jobs that are kept
WAITING = 5  # unfinished jobs
JOB = 600.0  # seconds of processor time of a job
_LOG = logging.getLogger("roundwise.web")


@dataclass
class LabJob(Generic[Made]):
    """A simulation that runs in the background."""

    title: str
    total: int
    work: Callable[[Callable[[int], None]], Made]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    done: int = 0
    state: str = "waiting"  # running, done, cancelled, failed
    result: Made | None = None
    error: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.state in ("done", "cancelled", "failed")

    @property
    def share(self) -> int:
        """Progress in per cent."""
        return min(100, round(100 * self.done / max(self.total, 1)))

    def advance(self, number: int) -> None:
        """Report progress; a cancelled or too expensive job ends here."""
        check_deadline()
        self.done += number

    def run(self) -> None:
        """Run the job to its end."""
        try:
            with Deadline(JOB, self.cancelled).applied():
                self.state = "running"
                self.result = self.work(self.advance)
            self.state = "done"
        except CancelledError:
            self.state = "cancelled"
        except OverBudgetError as error:
            self.state, self.error = "failed", f"{error} Take fewer runs or policies."
        except RoundwiseError as error:
            self.state, self.error = "failed", str(error)
        except Exception:
            _LOG.exception("the job %s failed", self.title)
            self.state, self.error = "failed", "Something went wrong here, and was written to the server's log."


class JobQueue(Generic[Made]):
    """Jobs by a random key; one runs at a time."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, LabJob[Made]] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")

    def start(self, job: LabJob[Made]) -> str:
        """Add a job and return its key."""
        with self._lock:
            if sum(not each.over for each in self._jobs.values()) >= WAITING:
                raise InputError(f"{WAITING} jobs are waiting or running. Wait until one is done, or cancel one.")
            self._jobs[job.key] = job
            for old in [key for key, each in self._jobs.items() if each.over][: max(len(self._jobs) - MOST, 0)]:
                del self._jobs[old]
        self._pool.submit(job.run)
        return job.key

    def get(self, key: str) -> LabJob[Made] | None:
        """A job, unless it has been dropped."""
        with self._lock:
            return self._jobs.get(key)

    @property
    def every(self) -> list[LabJob[Made]]:
        """All jobs, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def close(self) -> None:
        """Cancel all jobs."""
        for each in self.every:
            each.cancelled.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
