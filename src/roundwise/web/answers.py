"""What is answered where something cannot be done: one sentence, as a page or for a program, never a stack trace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from roundwise.errors import RoundwiseError
from roundwise.web import rendering
from roundwise.web.problems import kind_of, problem, status_of

WORDS = {  # what the frameworks say, as a sentence
    "Not Found": "There is nothing under this address; /api/v1/docs lists what there is.",
    "Method Not Allowed": "This address takes no such request; /api/v1/docs lists what there is.",
    "There was an error parsing the body": "The body of the request cannot be read.",
}
_LOG = logging.getLogger("roundwise.web")


def answered(request: Request, status: int, detail: str, error: str = "") -> Response:
    """One sentence."""
    if request.url.path.startswith("/api/"):
        return problem(status, detail, error)
    return rendering.sentence(request, status, detail)


async def _refused(request: Request, error: RoundwiseError) -> Response:
    return answered(request, status_of(error), str(error), kind_of(error))


async def _http(request: Request, error: HTTPException) -> Response:
    found = answered(request, error.status_code, WORDS.get(str(error.detail), str(error.detail)))
    found.headers.update(error.headers or {})
    return found


async def _unexpected(request: Request, error: Exception) -> Response:
    _LOG.exception("a request to %s failed", request.url.path)
    return answered(request, 500, "Something went wrong here, and was written to the server's log.")


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RoundwiseError: _refused,
    HTTPException: _http,
    Exception: _unexpected,
}
