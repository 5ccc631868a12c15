"""Who works when many ask: threads for what records, so that it never waits; long work, one at a time, off the loop."""

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
CLIENTS = CapacityLimiter(4)  # records for studies elsewhere, which record by what they read
FIRST = (WRITERS, CLIENTS)  # while one of these works, those who look make room
SLOW = CapacityLimiter(2)  # what takes seconds: reports with bounds, plans, audits
TYPING = CapacityLimiter(8)  # forecasts as one types: a new one must begin for the old ones to be given up
READERS = 4  # all the others: they share one processor, and more of them at once would only slow down who records
BESIDE = 1  # of them while one works who goes first
QUICK = 20.0  # seconds of processor time of its thread that a page may take (linear algebra may use as much again),
LONG = 60.0  # what is known to take seconds: it depends on the study, not on the request,
FORECAST = 12.0  # and a plan or a forecast

Given = ParamSpec("Given")
Made = TypeVar("Made")


def reader_limiter() -> CapacityLimiter:
    """The threads of those who look, of the server that runs here."""
    return to_thread.current_default_thread_limiter()


def limit_readers() -> None:
    """Let so many look at once; the others wait for a moment. To be called where the server runs."""
    reader_limiter().total_tokens = READERS


_ARRIVED: ContextVar[float | None] = ContextVar("arrived", default=None)


def arrival() -> float:
    """When the request at hand came in (on the monotonic clock), before it stood in line; now, where there is none."""
    found = _ARRIVED.get()
    return time.monotonic() if found is None else found


async def run_by(threads: CapacityLimiter | None, work: Callable[[], Made], request: Request | None = None) -> Made:
    """What is worked out by one of these threads (None: of those who look), who make room for what records.

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
        """Wait until the caller is gone; then what stands in line is taken out, and what is begun ends soon."""
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
        deadline.cancelled.set()  # the server ends, and waits for nobody
    if found:
        return found[0]
    if failed and isinstance(failed[0], OverBudgetError):
        raise HTTPException(503, f"{failed[0]} Ask for less, or use roundwise where the studies are kept.")
    if failed and not isinstance(failed[0], CancelledError):
        raise failed[0]
    raise HTTPException(503, "This was given up: nobody waits for it any more.")


def by(threads: CapacityLimiter | None) -> Callable[[Callable[Given, Made]], Callable[Given, Awaitable[Made]]]:
    """A handler that is run by these threads (None: of those who look)."""

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
WAITING = 5  # jobs that may stand in line
JOB = 600.0  # seconds of processor time that one may take
_LOG = logging.getLogger("roundwise.web")


@dataclass
class LabJob(Generic[Made]):
    """A piece of work."""

    title: str
    total: int
    work: Callable[[Callable[[int], None]], Made]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    done: int = 0
    state: str = "waiting"  # running, done, cancelled, failed
    result: Made | None = None
    error: str = ""
    unwanted: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        """Whether nothing more happens."""
        return self.state in ("done", "cancelled", "failed")

    @property
    def share(self) -> int:
        """How much is done, of 100."""
        return min(100, round(100 * self.done / max(self.total, 1)))

    def advance(self, number: int) -> None:
        """Add to what is done; here the work ends if it is not wanted any more, or takes too long."""
        check_deadline()
        self.done += number

    def run(self) -> None:
        """Do it."""
        try:
            with Deadline(JOB, self.unwanted).applied():
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
    """JobQueue by a random key; one is worked on at a time."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, LabJob[Made]] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")

    def start(self, job: LabJob[Made]) -> str:
        """Put a job in line; its key."""
        with self._lock:
            if sum(not each.over for each in self._jobs.values()) >= WAITING:
                raise InputError("Other runs are in line already. Wait until they are done, or cancel one.")
            self._jobs[job.key] = job
            for old in [key for key, each in self._jobs.items() if each.over][: max(len(self._jobs) - MOST, 0)]:
                del self._jobs[old]
        self._pool.submit(job.run)
        return job.key

    def get(self, key: str) -> LabJob[Made] | None:
        """A job that is still kept."""
        with self._lock:
            return self._jobs.get(key)

    @property
    def every(self) -> list[LabJob[Made]]:
        """All that are kept, the last first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def close(self) -> None:
        """Give all of them up."""
        for each in self.every:
            each.unwanted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
