"""The application: pages and API over one storage. `roundwise serve` runs it; nothing is loaded from elsewhere."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import Response

from roundwise._version import __version__
from roundwise.errors import RoundwiseError
from roundwise.studies.store import open_store
from roundwise.web import (
    api,
    change_pages,
    docs,
    events,
    hand_in,
    lab_pages,
    pages,
    plan_pages,
    rendering,
    study_pages,
    verbs,
)
from roundwise.web.bodies import sentence_of
from roundwise.web.forecasts import Forecasts
from roundwise.web.jobs import Jobs
from roundwise.web.names import Segments
from roundwise.web.problems import kind_of, problem, status_of
from roundwise.web.reports import Kept
from roundwise.web.security import Doors, Guard
from roundwise.web.staged import Staged
from roundwise.web.threads import few_lookers
from roundwise.web.who import Writers

HERE = Path(str(files("roundwise.web")))
WORDS = {  # what the frameworks say, as a sentence
    "Not Found": "There is nothing under this address; /api/v1/docs lists what there is.",
    "Method Not Allowed": "This address takes no such request; /api/v1/docs lists what there is.",
    "There was an error parsing the body": "The body of the request cannot be read.",
}
_LOG = logging.getLogger("roundwise.web")


def application(storage: str | None, doors: Doors) -> FastAPI:
    """Pages and API for the studies of a storage."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        few_lookers()
        with (
            open_store(storage),
            closing(app.state.staged),
            closing(app.state.jobs),
        ):  # one engine stays open for all requests
            yield

    app = FastAPI(
        title="roundwise",
        version=__version__,
        summary="Plan, run and watch studies whose results come in rounds.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.storage, app.state.doors = storage, doors
    app.state.kept, app.state.staged = Kept(), Staged()
    app.state.forecasts, app.state.jobs = Forecasts(), Jobs()
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.state.changes = events.Changes(storage)
    for router in (api.router, verbs.router, verbs.verbs, events.router, docs.router):
        app.include_router(router)
    for each in (pages, plan_pages, lab_pages, study_pages, hand_in, change_pages):
        app.include_router(each.router)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RoundwiseError)
        return _answered(request, status_of(error), str(error), kind_of(error))

    async def not_understood(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _answered(request, 422, sentence_of(error.errors()[0]))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        found = _answered(request, error.status_code, WORDS.get(str(error.detail), str(error.detail)))
        found.headers.update(error.headers or {})
        return found

    async def unexpected(request: Request, error: Exception) -> Response:
        _LOG.exception("a request to %s failed", request.url.path)
        return _answered(request, 500, "Something went wrong here, and was written to the server's log.")

    app.add_exception_handler(RoundwiseError, refused)
    app.add_exception_handler(RequestValidationError, not_understood)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
    app.add_middleware(Writers, doors=doors)
    app.add_middleware(Guard, doors=doors)
    app.add_middleware(Segments)  # before the guard
    return app


def _answered(request: Request, status: int, detail: str, error: str = "") -> Response:
    """One sentence, as a page or for a program."""
    if request.url.path.startswith("/api/"):
        return problem(status, detail, error)
    return rendering.sentence(request, status, detail)
