"""Errors over HTTP: problem+json with the sentences of the command line, never a stack trace."""

from __future__ import annotations

from starlette.responses import JSONResponse

from roundwise.errors import RoundwiseError
from roundwise.studies.store import Conflict, StoreError, StudyExists, UnknownStudy

TITLES = {
    400: "not understood",
    401: "a token is needed",
    403: "not allowed",
    404: "not there",
    405: "not done this way",
    409: "somebody else was first",
    413: "too large",
    415: "not understood",
    421: "another server",
    422: "not accepted",
    500: "something went wrong here",
    503: "the storage does not answer",
}


def problem(status: int, detail: str) -> JSONResponse:
    """One sentence, as RFC 9457 has it."""
    content = {"type": "about:blank", "title": TITLES.get(status, "refused"), "status": status, "detail": detail}
    return JSONResponse(content, status_code=status, media_type="application/problem+json")


def status_of(error: RoundwiseError) -> int:
    """The status of an error."""
    if isinstance(error, UnknownStudy):
        return 404
    if isinstance(error, (Conflict, StudyExists)):
        return 409
    if isinstance(error, StoreError):
        return 503
    return 422
