"""The application: pages and API over one storage. `roundwise serve` runs it; nothing is loaded from elsewhere.

The list and the pages of studies are imported at once; the planner, the lab and the API (with FastAPI and its models)
on the first request to them, or when the server is idle.
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
from roundwise.web import changes, pages, study_pages, uploads
from roundwise.web.jobs import JobQueue
from roundwise.web.rendering import ENVIRONMENT, HANDLERS
from roundwise.web.reports import ReportCache
from roundwise.web.routing import LazyRoute
from roundwise.web.security import AccessControl, Guard
from roundwise.web.workers import limit_readers

if TYPE_CHECKING:
    from fastapi import FastAPI


HERE = Path(str(files("roundwise.web")))


class Application(Starlette):
    """Pages and API for the studies of a storage."""

    def __init__(self, storage: str | None, access: AccessControl) -> None:
        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            limit_readers()
            with (
                open_store(storage) as store,
                store.pinned(),
                closing(self.state.staged),
                closing(self.state.jobs),
            ):  # one engine stays open for all requests, and its file is the only one
                yield

        self.planner = LazyRoute(("/plan", "/new"), self._planner)
        self.lab = LazyRoute(("/lab",), self._lab)
        self.api = LazyRoute(("/api",), self._api)
        now = [route for each in (pages, study_pages, uploads, changes) for route in each.router.routes]
        static = Mount("/static", StaticFiles(directory=HERE / "static", packages=[("roundwise", "render/static")]))
        super().__init__(
            routes=[static, *now, self.planner, self.lab, self.api],
            middleware=[Middleware(Guard, access=access)],
            exception_handlers=HANDLERS,
            lifespan=lifespan,
        )
        self.state.storage, self.state.access = storage, access
        self.state.reports, self.state.staged, self.state.jobs = ReportCache(), uploads.StagedUploads(), JobQueue()

    def openapi(self) -> Plain:
        return self.api.found().openapi()

    def _planner(self) -> Router:
        from roundwise.web import plan_pages

        self.state.forecasts = plan_pages.Forecasts()
        return Router(plan_pages.router.routes)

    def _lab(self) -> Router:
        from roundwise.web import lab

        return Router(lab.router.routes)

    def _api(self) -> FastAPI:
        from roundwise.web.api import build_api

        return build_api(self.state)


QUIET = 0.3  # seconds without a request, before each step

PAGES = ("base", "shared", "macros", "option", "stands", "study")  # what a study is shown with
NEEDED = ("scipy.special", "roundwise.planning")  # by the first result, and by the first forecast


def ready() -> None:
    """Load what the first page needs, before the server listens."""
    for each in PAGES:
        ENVIRONMENT.get_template(f"{each}.html")


@contextmanager
def warmed(app: Application) -> Iterator[None]:
    """Load the rest of an application while it runs, a step at a time, whenever it has been idle for a while."""
    over = threading.Event()
    app.state.access.answered = time.monotonic()  # it begins to listen
    thread = threading.Thread(target=_warm, args=(app, over), name="warming", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def steps(app: Application) -> Iterator[Callable[[], object]]:
    """The steps of loading, the most likely needed first."""
    yield from (partial(import_module, each) for each in NEEDED)
    yield from (app.planner.found, app.api.found, app.lab.found)
    yield from (partial(ENVIRONMENT.get_template, each) for each in ENVIRONMENT.list_templates(["html"]))


def _warm(app: Application, over: threading.Event) -> None:
    for step in steps(app):
        while not over.is_set() and (left := QUIET - app.state.access.quiet()) > 0:
            over.wait(left)
        if over.is_set():
            return
        step()
    gc.freeze()  # none of it is ever rubbish
