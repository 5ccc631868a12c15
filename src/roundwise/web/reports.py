"""Reports and pages of studies, kept as long as nothing was recorded, and as files in all their forms."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from roundwise.studies import Study, replayed
from roundwise.studies.report import Report, report_of

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
MOST = 200  # reports and pages that are kept
MANY = 40  # arms from which on a forecast takes so long that it is made only when somebody asks for it


class Kept:
    """Reports and pages by the digest of the record they are of."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, object] = OrderedDict()
        self._lock = threading.Lock()
        self._working: dict[Key, threading.Lock] = {}
        self._slow = threading.Semaphore(1)  # what takes seconds is done one at a time

    def brief(self, study: Study) -> Report:
        """Everything but bounds."""

        def made() -> Report:
            entries = study.entries()
            return report_of(replayed(entries), intervals=False, entries=entries)

        return self._kept((_digest(study), "brief"), made)

    def whole(self, study: Study) -> Report:
        """Everything, with bounds."""

        def made() -> Report:
            with self._slow:
                return study.report()

        return self._kept((_digest(study), "whole"), made)

    def ahead(self, study: Study) -> Report:
        """Everything, with bounds and what is still to come: what is kept and shown to others."""
        found = self.whole(study)
        return found if len(found.arm_rows) > MANY else replace(found, forecast=self.forecast(study) or None)

    def best(self, study: Study) -> tuple[Report, bool]:
        """The report with bounds where it is at hand, else the brief one; and whether it has bounds."""
        digest = _digest(study)
        with self._lock:
            found = self._found.get((digest, "whole"))
        return (found, True) if isinstance(found, Report) else (self.brief(study), False)

    def forecast(self, study: Study) -> str:
        """What it will still take, in one line; empty where nothing can be said."""

        def made() -> str:
            from roundwise.planning import outlook_line  # it takes a while, and the server should be up soon

            with self._slow:
                return outlook_line(study.state) or ""

        return self._kept((_digest(study), "forecast"), made)

    def page(self, digest: str, kind: Key, make: Callable[[], str]) -> str:
        """The text of a page about what has this digest, which is the same for everybody of a kind."""
        return self._kept((digest, "page", *kind), make)

    def _kept(self, key: Key, make: Callable[[], Made]) -> Made:
        with self._lock:
            working = self._working.setdefault(key, threading.Lock())
        try:
            with working:  # whoever comes second waits for the first
                with self._lock:
                    if key in self._found:
                        self._found.move_to_end(key)
                        return self._found[key]  # type: ignore[return-value]
                found = make()
                with self._lock:
                    self._found[key] = found
                    while len(self._found) > MOST:
                        self._found.popitem(last=False)
                return found
        finally:
            with self._lock:
                self._working.pop(key, None)


def kept(request: Request) -> Kept:
    """What the server of a request keeps."""
    found: Kept = request.app.state.kept
    return found


def _digest(study: Study) -> str:
    return study.store.head(study.name).digest
