"""The application: pages and API over one storage. `roundwise serve` runs it; nothing is loaded from elsewhere.

The pages are plain Starlette; what the API needs besides (FastAPI, the models of its requests) is imported when it is
first asked for something, or when the server has nothing else to do (`warming`).
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from roundwise.arrays import Plain
from roundwise.studies.store import open_store
from roundwise.web import change_pages, hand_in, lab_pages, pages, plan_pages, study_pages
from roundwise.web.answers import HANDLERS
from roundwise.web.forecasts import Forecasts
from roundwise.web.jobs import Jobs
from roundwise.web.names import Segments
from roundwise.web.reports import Kept
from roundwise.web.security import Doors, Guard
from roundwise.web.staged import Staged
from roundwise.web.threads import WRITERS, few_lookers, run_by
from roundwise.web.who import Writers

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
                open_store(storage),
                closing(self.state.staged),
                closing(self.state.jobs),
            ):  # one engine stays open for all requests
                yield

        routes = [
            Mount("/static", StaticFiles(directory=HERE / "static")),
            *(
                route
                for each in (pages, plan_pages, lab_pages, study_pages, hand_in, change_pages)
                for route in each.router.routes
            ),
            Service(self),
        ]
        checks = [
            Middleware(Segments),  # before the guard
            Middleware(Guard, doors=doors),
            Middleware(Writers, doors=doors),
        ]
        super().__init__(routes=routes, middleware=checks, exception_handlers=HANDLERS, lifespan=lifespan)
        self.state.storage, self.state.doors = storage, doors
        self.state.kept, self.state.staged = Kept(), Staged()
        self.state.forecasts, self.state.jobs = Forecasts(), Jobs()
        self.made: FastAPI | None = None
        self._making = threading.Lock()

    def api(self) -> FastAPI:
        """What answers under /api/v1; made when it is first wanted."""
        with self._making:
            if self.made is None:
                from roundwise.web.service import service

                self.made = service(self.state)
            return self.made

    def openapi(self) -> Plain:
        """What the API says of itself."""
        return self.api().openapi()


class Service(BaseRoute):
    """Everything under /api: the API has the whole path, as its description says it."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for the API."""
        found = scope["type"] == "http" and scope["path"].startswith("/api/")
        return (Match.FULL if found else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on."""
        api = self._app.made
        await (await run_by(WRITERS, self._app.api) if api is None else api)(scope, receive, send)


def application(storage: str | None, doors: Doors) -> Application:
    """Pages and API for the studies of a storage."""
    return Application(storage, doors)
