"""Who a request is from, in the record: the name that somebody gave, else the account or the kind of token."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, unquote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from roundwise.studies.store.log import user, written_by
from roundwise.web.security import Doors

COOKIE = "roundwise-name"
HEADER = "x-roundwise-user"  # for programs
LONGEST = 60


def name_of(headers: Headers) -> str:
    """The name that came with a request, or an empty text."""
    given = headers.get(HEADER, "")
    if not given:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            morsel = None
        given = "" if morsel is None else morsel.value
    return cleaned(unquote(given))


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
