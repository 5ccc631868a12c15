"""The application: pages and API over one storage. `roundwise serve` runs it; nothing is loaded from elsewhere.

What lists and shows studies is imported at once. What the planner, the lab and the API need besides (FastAPI, models of
requests) is imported when it is first asked for, or when the server has nothing else to do.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Router
from starlette.staticfiles import StaticFiles

from roundwise.arrays import Plain
from roundwise.store import open_store
from roundwise.web import amend_pages, pages, study_pages, upload_pages
from roundwise.web.auth import Writers
from roundwise.web.names import Segments
from roundwise.web.rendering import ENVIRONMENT, HANDLERS
from roundwise.web.reports import Kept
from roundwise.web.routes import Later
from roundwise.web.security import Doors, Guard
from roundwise.web.uploads import Staged
from roundwise.web.workers import Jobs, few_lookers

if TYPE_CHECKING:
    from fastapi import FastAPI


HERE = Path(str(files("roundwise.web")))


class Application(Starlette):
    """Pages and API for the studies of a storage."""

    def __init__(self, storage: str | None, doors: Doors) -> None:
        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            few_lookers()
            with (
                open_store(storage) as store,
                store.pinned(),
                closing(self.state.staged),
                closing(self.state.jobs),
            ):  # one engine stays open for all requests, and its file is the only one
                yield

        self.planner = Later(("/plan", "/new"), self._planner)
        self.lab = Later(("/lab",), self._lab)
        self.api = Later(("/api",), self._api)
        now = [route for each in (pages, study_pages, upload_pages, amend_pages) for route in each.router.routes]
        checks = [
            Middleware(Segments),  # before the guard
            Middleware(Guard, doors=doors),
            Middleware(Writers, doors=doors),
        ]
        static = Mount("/static", StaticFiles(directory=HERE / "static", packages=[("roundwise", "render/static")]))
        super().__init__(
            routes=[static, *now, self.planner, self.lab, self.api],
            middleware=checks,
            exception_handlers=HANDLERS,
            lifespan=lifespan,
        )
        self.state.storage, self.state.doors = storage, doors
        self.state.kept, self.state.staged, self.state.jobs = Kept(), Staged(), Jobs()

    def openapi(self) -> Plain:
        """What the API says of itself."""
        return self.api.found().openapi()

    def _planner(self) -> Router:
        from roundwise.web import plan_pages

        self.state.forecasts = plan_pages.Forecasts()
        return Router(plan_pages.router.routes)

    def _lab(self) -> Router:
        from roundwise.web import lab

        return Router(lab.router.routes)

    def _api(self) -> FastAPI:
        from roundwise.web import service

        return service.service(self.state)


def application(storage: str | None, doors: Doors) -> Application:
    """Pages and API for the studies of a storage."""
    return Application(storage, doors)


QUIET = 0.3  # seconds without a request, before each step

PAGES = ("base", "shared", "macros", "option", "stands", "study")  # what a study is shown with
NEEDED = ("scipy.special", "roundwise.planning")  # by the first result, and by the first forecast


def ready() -> None:
    """What is done before a server listens, so that the first page is as quick as any."""
    for each in PAGES:
        ENVIRONMENT.get_template(f"{each}.html")


@contextmanager
def warmed(app: Application) -> Iterator[None]:
    """Get an application ready beside its work, a step at a time, each when it has been quiet for a while."""
    over = threading.Event()
    app.state.doors.answered = time.monotonic()  # it begins to listen
    thread = threading.Thread(target=_warm, args=(app, over), name="warming", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def steps(app: Application) -> Iterator[Callable[[], object]]:
    """What can be done beforehand, the most likely first."""
    yield from (partial(import_module, each) for each in NEEDED)
    yield from (app.planner.found, app.api.found, app.lab.found)
    yield from (partial(ENVIRONMENT.get_template, each) for each in ENVIRONMENT.list_templates(["html"]))


def _warm(app: Application, over: threading.Event) -> None:
    for step in steps(app):
        while not over.is_set() and (left := QUIET - app.state.doors.quiet()) > 0:
            over.wait(left)
        if over.is_set():
            return
        step()
    gc.freeze()  # none of it is ever rubbish
