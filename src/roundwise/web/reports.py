"""Reports and pages of studies, kept as long as nothing was recorded, and as files in all their forms."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from roundwise.deadline import Deadline, OverBudgetError, held
from roundwise.report import Report, report_of
from roundwise.study import Study, replay
from roundwise.study.audit import Audit, verified
from roundwise.web.workers import FORECAST, arrival

KINDS = {  # of files, by their endings
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
}


def written(report: Report, form: str, table: str = "arms") -> str | bytes:
    """A report in one of its forms; `table` says which one a CSV file has."""
    forms: dict[str, Callable[[], str | bytes]] = {
        "json": report.json,
        "html": report.html,
        "md": report.markdown,
        "txt": report.text,
        "pdf": report.pdf,
        "xlsx": report.xlsx,
        "csv": lambda: report.csv(table),
    }
    return forms[form]()


def attached(content: str | bytes, name: str, ending: str) -> Response:
    """A file to keep, under a name that any system takes."""
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_ ") else "_" for letter in name)
    disposition = f'attachment; filename="{plain.strip()[:80] or "study"}.{ending}"'
    return Response(content, media_type=KINDS[ending], headers={"content-disposition": disposition})


Made = TypeVar("Made")
Key = tuple[object, ...]  # a digest, and what is kept of it
MOST = 100  # reports, files and pages that are kept
MANY = 40  # arms from which on a forecast takes so long that it is made only when somebody asks for it


class Latest(NamedTuple):
    """The last of a kind that was made of a study."""

    begun: float  # when the record was looked at for it
    digest: str
    value: object


class Turn:
    """A lock that one reader of a study has at a time, and the others wait for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.readers = 0


class Kept:
    """What readers of a study get, worked out once for all of them, and pages by the digest of what they are of."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, str] = OrderedDict()  # pages
        self._latest: OrderedDict[Key, Latest] = OrderedDict()
        self._turns: dict[Key, Turn] = {}
        self._lock = threading.Lock()
        self._slow = threading.Semaphore(1)  # what takes seconds is done one at a time

    def shared(self, study: Study, kind: Key, make: Callable[[], Made]) -> Made:
        """What is made of a study, as it stood at some time after the request came in.

        A request that waits for another one's turn takes its result if that turn began after the request came in, even
        if the study has moved on meanwhile. However many read and however often results come, each waits for at most
        two turns.
        """
        key = (study.name, *kind)
        with self._turn(key):
            with self._lock:
                last = self._latest.get(key)
                if last is not None and last.begun >= arrival():
                    return last.value  # type: ignore[return-value]
            begun, digest = time.monotonic(), _digest(study)
            value = make() if last is None or last.digest != digest else last.value
            with self._lock:
                self._latest[key] = Latest(begun, digest, value)
                self._latest.move_to_end(key)
                while len(self._latest) > MOST:
                    self._latest.popitem(last=False)
            return value  # type: ignore[return-value]

    def brief(self, study: Study) -> Report:
        """Everything but bounds."""

        def made() -> Report:
            entries = study.entries()
            return report_of(replay(entries), intervals=False, entries=entries)

        return self.shared(study, ("brief",), made)

    def whole(self, study: Study) -> Report:
        """Everything, with bounds."""

        def made() -> Report:
            with self._one_at_a_time():
                return study.report()

        return self.shared(study, ("whole",), made)

    def audit(self, study: Study) -> Audit:
        """Everything computed again from the record."""

        def made() -> Audit:
            entries = study.entries()
            with self._one_at_a_time():
                return verified(entries)._replace(state=replay(entries[:1]))  # the end of it is large

        return self.shared(study, ("audit",), made)

    def file(self, study: Study, form: str, table: str = "arms", ahead: bool = False) -> str | bytes:
        """The report in one of its forms, with what is still to come where that is asked for."""

        def made() -> str | bytes:
            return written(self.ahead(study) if ahead else self.whole(study), form, table)

        return self.shared(study, ("file", form, table, ahead), made)

    def ahead(self, study: Study) -> Report:
        """Everything, with bounds and what is still to come: what is kept and shown to others."""
        found = self.whole(study)
        return found if len(found.arm_rows) > MANY else replace(found, forecast=self.forecast(study) or None)

    def best(self, study: Study) -> tuple[Report, bool]:
        """The report with bounds where it is at hand, else the brief one; and whether it has bounds."""
        digest = _digest(study)
        with self._lock:
            found = self._latest.get((study.name, "whole"))
        if found is not None and found.digest == digest and isinstance(found.value, Report):
            return found.value, True
        return self.brief(study), False

    def forecast(self, study: Study) -> str:
        """What it will still take, in one line; empty where nothing can be said."""

        def made() -> str:
            from roundwise.planning import outlook_line  # it takes a while, and the server should be up soon

            deadline = Deadline(FORECAST)
            with self._one_at_a_time():
                try:
                    with deadline.applied():
                        return outlook_line(study.state) or ""
                except OverBudgetError:
                    if deadline.over:
                        return ""
                    raise

        return self.shared(study, ("forecast",), made)

    def page(self, digest: str, kind: Key, make: Callable[[], str]) -> str:
        """The text of a page about what has this digest, which is the same for everybody of a kind."""
        key = (digest, "page", *kind)
        with self._turn(key):
            with self._lock:
                if key in self._found:
                    self._found.move_to_end(key)
                    return self._found[key]
            found = make()
            with self._lock:
                self._found[key] = found
                while len(self._found) > MOST:
                    self._found.popitem(last=False)
            return found

    @contextmanager
    def _turn(self, key: Key) -> Iterator[None]:
        """One reader at a time for each key; the wait ends when the reader leaves."""
        with self._lock:
            turn = self._turns.setdefault(key, Turn())
            turn.readers += 1
        try:
            with held(turn.lock):
                yield
        finally:
            with self._lock:
                turn.readers -= 1
                if not turn.readers:
                    self._turns.pop(key, None)

    def _one_at_a_time(self) -> AbstractContextManager[None]:
        return held(self._slow)


def kept(request: Request) -> Kept:
    """What the server of a request keeps."""
    found: Kept = request.app.state.kept
    return found


def _digest(study: Study) -> str:
    return study.store.head(study.name).digest
