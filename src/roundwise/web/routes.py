"""How the functions of pages are reached: plain Starlette, and what few need is imported when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from roundwise.web.auth import check
from roundwise.web.names import decoded
from roundwise.web.rendering import own_form
from roundwise.web.workers import WRITERS, run_by

Page = Callable[..., Response]
Made = TypeVar("Made", bound=ASGIApp)


class Pages:
    """The pages of a file. Each is a function of the request and of the parts of its address by name, run by a thread;
    one that a form is sent to also gets what was `sent`, once that was found to come from a page of this server."""

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def get(self, path: str, role: str | None = None, by: CapacityLimiter | None = None) -> Callable[[Page], Page]:
        """A page to look at, for whoever has this role (None: for everybody)."""

        def kept(page: Page) -> Page:
            async def answer(request: Request) -> Response:
                check(request, role)
                return await run_by(by, partial(page, request, **_parts(request)), request)

            self.routes.append(Route(path, answer, methods=["GET"]))
            return page

        return kept

    def post(
        self, path: str, role: str | None = None, by: CapacityLimiter | None = WRITERS, secret: bool = True
    ) -> Callable[[Page], Page]:
        """What a form is sent to; with the `secret` of its session, but for the form that begins one."""

        def kept(page: Page) -> Page:
            async def answer(request: Request) -> Response:
                check(request, role)
                async with own_form(request, secret) as sent:
                    return await run_by(by, partial(page, request, sent=sent, **_parts(request)), request)

            self.routes.append(Route(path, answer, methods=["POST"]))
            return page

        return kept


class Later(BaseRoute, Generic[Made]):
    """An application that is made when somebody first asks for what lies under its addresses; it gets whole paths."""

    def __init__(self, addresses: tuple[str, ...], make: Callable[[], Made]) -> None:
        self._addresses, self._make = addresses, make
        self._found: Made | None = None
        self._making = threading.Lock()

    def found(self) -> Made:
        """The application."""
        with self._making:
            self._found = self._make() if self._found is None else self._found
            return self._found

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for it."""
        under = (f"{scope['path']}/".startswith(f"{each}/") for each in self._addresses)
        return (Match.FULL if scope["type"] == "http" and any(under) else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on."""
        found = self._found
        await (await run_by(WRITERS, self.found) if found is None else found)(scope, receive, send)


def _parts(request: Request) -> dict[str, str]:
    return {key: decoded(value) if key == "name" else value for key, value in request.path_params.items()}
