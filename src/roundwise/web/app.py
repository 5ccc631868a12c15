"""The application: pages and API over one storage. `roundwise serve` runs it; nothing is loaded from elsewhere.

What lists and shows studies is imported at once. What the planner, the lab and the API need besides (FastAPI, models of
requests) is imported when it is first asked for, or when the server has nothing else to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Router
from starlette.staticfiles import StaticFiles

from roundwise.arrays import Plain
from roundwise.studies.store import open_store
from roundwise.web import change_pages, hand_in, pages, study_pages
from roundwise.web.answers import HANDLERS
from roundwise.web.jobs import Jobs
from roundwise.web.names import Segments
from roundwise.web.reports import Kept
from roundwise.web.routes import Later
from roundwise.web.security import Doors, Guard
from roundwise.web.staged import Staged
from roundwise.web.threads import few_lookers
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

        self.planner = Later(("/plan", "/new"), self._planner)
        self.lab = Later(("/lab",), self._lab)
        self.api = Later(("/api",), self._api)
        now = [route for each in (pages, study_pages, hand_in, change_pages) for route in each.router.routes]
        checks = [
            Middleware(Segments),  # before the guard
            Middleware(Guard, doors=doors),
            Middleware(Writers, doors=doors),
        ]
        static = Mount("/static", StaticFiles(directory=HERE / "static"))
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
        from roundwise.web import forecasts, plan_pages

        self.state.forecasts = forecasts.Forecasts()
        return Router(plan_pages.router.routes)

    def _lab(self) -> Router:
        from roundwise.web import lab_pages

        return Router(lab_pages.router.routes)

    def _api(self) -> FastAPI:
        from roundwise.web import service

        return service.service(self.state)


def application(storage: str | None, doors: Doors) -> Application:
    """Pages and API for the studies of a storage."""
    return Application(storage, doors)
