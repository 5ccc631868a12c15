"""Who a request is from in the record, and what it may do."""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from roundwise.errors import InputError
from roundwise.store.log import user, written_by
from roundwise.study import Study, load_study
from roundwise.web.security import ROLES, Doors, cookie

LOOK, HAND_IN, CHANGE = ROLES
KEY_LENGTH = 200  # letters of an idempotency key


def check(request: Request, role: str | None) -> None:
    """Refuse a request that does not have this role at least."""
    mine = request.state.role
    if role is not None and (mine is None or ROLES.index(mine) < ROLES.index(role)):
        raise HTTPException(403, f"This needs a token that may {role}; yours may {mine or 'do nothing'}.")


def study_of(request: Request, name: str) -> Study:
    """A study of the server's storage, which records what this request says once, and only if it may."""
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= KEY_LENGTH and key.isprintable()):
        raise InputError(
            f"The idempotency key must have 1 to {KEY_LENGTH} printable letters. Draw one for each request."
        )
    study = load_study(name, request.app.state.storage)
    study.key = key
    study.expected = expected(request)
    return study


def expected(request: Request) -> str | None:
    """How the record must end for the request to be carried out, if it says so."""
    given = request.headers.get("if-match")
    return None if given is None or given.strip() == "*" else given.strip().removeprefix("W/").strip('"')


COOKIE = "roundwise-name"
HEADER = "x-roundwise-user"  # for programs
LONGEST = 60  # letters of a name


def name_of(headers: Headers) -> str:
    """The name that came with a request, or an empty text."""
    return cleaned(unquote(headers.get(HEADER, "") or cookie(headers, COOKIE)))


def cleaned(name: str) -> str:
    """A name as it may stand in a record.

    >>> cleaned("  Ada\\n<b>  ")
    'Ada <b>'
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(printable.split())[:LONGEST]


def cookie_of(name: str) -> str:
    """A name as the value of a cookie."""
    return quote(cleaned(name), safe="")


def known_as(headers: Headers, doors: Doors, role: str | None) -> str:
    """What stands in the record for a request: beside a name without proof the kind of token, where there are any."""
    name = name_of(headers)
    if not doors.tokens:
        return name or user()
    return f"{name} ({role})" if name else f"token to {role}"


class Writers:
    """ASGI middleware: what a request records is recorded under its name."""

    def __init__(self, app: ASGIApp, doors: Doors) -> None:
        self.app, self.doors = app, doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with written_by(known_as(Headers(scope=scope), self.doors, scope.get("state", {}).get("role"))):
            await self.app(scope, receive, send)
