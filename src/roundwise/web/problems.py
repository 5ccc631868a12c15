"""Errors over HTTP: one sentence as problem+json (RFC 9457), never a stack trace."""

from __future__ import annotations

from starlette.responses import JSONResponse

from roundwise.errors import (
    ConflictError,
    DamagedError,
    DataError,
    InputError,
    RoundwiseError,
    StoreError,
    StudyExistsError,
    StudyStateError,
    UnknownStudyError,
)

TITLES = {
    400: "not understood",
    401: "a token is needed",
    403: "not allowed",
    404: "not there",
    405: "not done this way",
    409: "someone else was first",
    411: "how long is it?",
    413: "too large",
    415: "not understood",
    421: "another server",
    422: "not accepted",
    500: "something went wrong here",
    503: "the storage does not answer",
}
STATUSES: dict[type[RoundwiseError], int] = {  # of each kind of error
    UnknownStudyError: 404,
    StudyExistsError: 409,
    StudyStateError: 409,
    ConflictError: 409,
    DamagedError: 503,
    StoreError: 503,
    InputError: 422,
    DataError: 422,
}


def problem_json(status: int, detail: str, error: str = "") -> JSONResponse:
    """One sentence, as RFC 9457 has it; `error` is what it is called in Python."""
    detail = detail.encode("utf-8", "replace").decode()
    content = {"type": "about:blank", "title": TITLES.get(status, "refused"), "status": status, "detail": detail}
    more = {"error": error} if error else {}
    return JSONResponse(content | more, status_code=status, media_type="application/problem+json")


def classify(error: RoundwiseError) -> tuple[int, str]:
    """The status of an error, and what it is called in Python, for a client to raise it again."""
    known = next((each for each in type(error).__mro__ if each in STATUSES), None)
    return (422, "") if known is None else (STATUSES[known], known.__name__)
