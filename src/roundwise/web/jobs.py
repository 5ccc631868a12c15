"""Simulations that run in the background, one at a time."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from roundwise.deadline import CancelledError, Deadline, OverBudgetError
from roundwise.errors import InputError, RoundwiseError

JOBS_KEPT = 20  # jobs that are kept
WAITING = 5  # unfinished jobs
JOB = 600.0  # seconds of processor time of a job
_LOG = logging.getLogger("roundwise.web")


@dataclass
class Job:
    """A simulation, which is called with a function that counts finished runs."""

    title: str
    total: int  # runs
    work: Callable[[Callable[[int], None]], Any]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    done: int = 0
    state: str = "waiting"  # running, done, cancelled, failed
    result: Any = None
    error: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        return self.state in ("done", "cancelled", "failed")

    @property
    def share(self) -> int:
        """Progress in per cent."""
        return min(100, round(100 * self.done / max(self.total, 1)))

    def _advance(self, number: int) -> None:
        self.done += number

    def run(self) -> None:
        try:
            with Deadline(JOB, self.cancelled).applied():
                self.state = "running"
                self.result = self.work(self._advance)
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


class JobQueue:
    """Jobs by a random key; one runs at a time."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")

    def start(self, job: Job) -> str:
        with self._lock:
            if sum(not each.over for each in self._jobs.values()) >= WAITING:
                raise InputError(f"{WAITING} jobs are waiting or running. Wait until one is done, or cancel one.")
            self._jobs[job.key] = job
            for old in [key for key, each in self._jobs.items() if each.over][: max(len(self._jobs) - JOBS_KEPT, 0)]:
                del self._jobs[old]
        self._pool.submit(job.run)
        return job.key

    def get(self, key: str) -> Job | None:
        return self._jobs.get(key)

    @property
    def every(self) -> list[Job]:
        """All jobs, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def close(self) -> None:
        for each in self.every:
            each.cancelled.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
