"""The API as an application of its own: what looks, what records, events, and its description in words."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import State
from starlette.responses import Response

from roundwise._version import __version__
from roundwise.web import api, docs, events, verbs
from roundwise.web.answers import HANDLERS, answered
from roundwise.web.bodies import sentence_of


def service(state: State) -> FastAPI:
    """The API over what the pages have, too."""
    app = FastAPI(
        title="roundwise",
        version=__version__,
        summary="Plan, run and watch studies whose results come in rounds.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        exception_handlers={**HANDLERS, RequestValidationError: _not_understood},
    )
    app.state = state
    state.changes = events.Changes(state.storage)
    for router in (api.router, verbs.router, verbs.verbs, events.router, docs.router):
        app.include_router(router)
    return app


async def _not_understood(request: Request, error: RequestValidationError) -> Response:
    return answered(request, 422, sentence_of(error.errors()[0]))
