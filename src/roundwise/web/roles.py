"""What a request may do, and the study that it is about."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from roundwise.errors import InputError
from roundwise.studies import Study, load_study
from roundwise.web.security import ROLES

LOOK, HAND_IN, CHANGE = ROLES
LONGEST = 200  # letters of an idempotency key


def check(request: Request, role: str | None) -> None:
    """Refuse a request that does not have this role at least."""
    mine = request.state.role
    if role is not None and (mine is None or ROLES.index(mine) < ROLES.index(role)):
        raise HTTPException(403, f"This needs a token that may {role}; yours may {mine or 'do nothing'}.")


def study_of(request: Request, name: str) -> Study:
    """A study of the server's storage, which records what this request says once, and only if it may."""
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= LONGEST and key.isprintable()):
        raise InputError(f"The idempotency key must have 1 to {LONGEST} printable letters. Draw one for each request.")
    study = load_study(name, request.app.state.storage)
    study.key = key
    study.expected = expected(request)
    return study


def expected(request: Request) -> str | None:
    """How the record must end for the request to be carried out, if it says so."""
    given = request.headers.get("if-match")
    return None if given is None or given.strip() == "*" else given.strip().removeprefix("W/").strip('"')
