"""Reports and pages of studies, kept until something new is recorded, and reports as files in all their formats."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from roundwise.deadline import Deadline, OverBudgetError, held
from roundwise.report import Report, build_report
from roundwise.study import Study, replay
from roundwise.study.audit import Audit, audit_entries
from roundwise.web.workers import FORECAST, arrival

FORMATS = {  # media types of files, by their endings
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
}
MOST = 200  # reports, files and pages in the cache
MANY = 40  # arms from which on a forecast is made only on request, because it takes long
Made = TypeVar("Made")
Key = tuple[Hashable, ...]


def attach_file(content: str | bytes, name: str, ending: str) -> Response:
    """A file to download, under a name that any system takes."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_ ") else "_" for letter in name)
    disposition = f'attachment; filename="{plain.strip()[:80] or "study"}.{ending}"'
    return Response(content, media_type=FORMATS[ending], headers={"content-disposition": disposition})


class _Latest(NamedTuple):
    begun: float  # when the record was looked at for it
    digest: str
    value: Any


class _Turn:
    def __init__(self) -> None:
        self.lock, self.readers = threading.Lock(), 0


class ReportCache:
    """Reports computed once for all readers."""

    def __init__(self) -> None:
        self._latest: OrderedDict[Key, _Latest] = OrderedDict()
        self._turns: dict[Key, _Turn] = {}
        self._lock = threading.Lock()
        self._slow = threading.Semaphore(1)  # work of seconds is done one at a time

    def compute_once(self, study: Study, kind: Key, make: Callable[[], Made]) -> Made:
        """A value of a study as it stood at some time after the request came in."""
        return self.share((study.name, *kind), lambda: _digest(study), make)

    def share(self, key: Key, read_digest: Callable[[], str], make: Callable[[], Made]) -> Made:
        """A value that depends on contents with a digest, made anew only if that has changed.

        A request that waits for another one's turn takes its result if that turn began after the request came in, even
        if the study has moved on meanwhile. However many read and however often results come, each waits for at most
        two turns.
        """
        with self._turn(key):
            with self._lock:
                last = self._latest.get(key)
            if last is not None and last.begun >= arrival():
                return last.value
            begun, digest = time.monotonic(), read_digest()
            value = make() if last is None or last.digest != digest else last.value
            with self._lock:
                self._latest[key] = _Latest(begun, digest, value)
                self._latest.move_to_end(key)
                while len(self._latest) > MOST:
                    self._latest.popitem(last=False)
            return value

    def brief(self, study: Study) -> Report:
        def make() -> Report:
            entries = study.entries()
            return build_report(replay(entries), intervals=False, entries=entries)

        return self.compute_once(study, ("brief",), make)

    def whole(self, study: Study) -> Report:
        def make() -> Report:
            with held(self._slow):
                return study.report()

        return self.compute_once(study, ("whole",), make)

    def with_forecast(self, study: Study) -> Report:
        """The report with intervals and, unless there are many arms, a forecast."""
        found = self.whole(study)
        return found if len(found.arm_rows) > MANY else replace(found, forecast=self.forecast(study) or None)

    def best_available(self, study: Study) -> tuple[Report, bool]:
        """The report with intervals if it is in the cache, else the brief one; and whether it has intervals."""
        digest = _digest(study)
        with self._lock:
            found = self._latest.get((study.name, "whole"))
        if found is not None and found.digest == digest:
            return found.value, True
        return self.brief(study), False

    def audit(self, study: Study) -> Audit:
        """Everything computed again from the record."""

        def make() -> Audit:
            entries = study.entries()
            with held(self._slow):
                return audit_entries(entries)._replace(state=replay(entries[:1]))  # the last state is large

        return self.compute_once(study, ("audit",), make)

    def file(self, study: Study, ending: str, table: str = "arms", forecast: bool = False) -> str | bytes:
        """The report as a file, with a forecast on request; `table` says which one a CSV file has."""

        def make() -> str | bytes:
            report = self.with_forecast(study) if forecast else self.whole(study)
            forms: dict[str, Callable[[], str | bytes]] = {
                "json": report.json,
                "html": report.html,
                "md": report.markdown,
                "txt": report.text,
                "pdf": report.pdf,
                "xlsx": report.xlsx,
                "csv": lambda: report.csv(table),
            }
            return forms[ending]()

        return self.compute_once(study, ("file", ending, table, forecast), make)

    def forecast(self, study: Study) -> str:
        """The forecast of the rest in one line; empty if it takes too long."""

        def make() -> str:
            from roundwise.planning import outlook_line  # slow to import, and the server should be up soon

            deadline = Deadline(FORECAST)
            with held(self._slow):
                try:
                    with deadline.applied():
                        return outlook_line(study.state) or ""
                except OverBudgetError:
                    if deadline.over:
                        return ""
                    raise

        return self.compute_once(study, ("forecast",), make)

    @contextmanager
    def _turn(self, key: Key) -> Iterator[None]:
        """One reader at a time for each key; the wait ends when the reader leaves."""
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.readers += 1
        try:
            with held(turn.lock):
                yield
        finally:
            with self._lock:
                turn.readers -= 1
                if not turn.readers:
                    self._turns.pop(key, None)


def reports_of(request: Request) -> ReportCache:
    """The cache of the server of a request."""
    return request.app.state.reports


def _digest(study: Study) -> str:
    return study.store.head(study.name).digest
