"""Addresses: names of studies in them, the functions behind them, and applications that are loaded on first use."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import unquote

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from roundwise.store.remote import segment
from roundwise.web.rendering import own_form
from roundwise.web.security import check_role
from roundwise.web.workers import WRITERS, run_by

Page = Callable[..., Response]
Made = TypeVar("Made", bound=ASGIApp)


def address_of(study: str) -> str:
    """The address of the page of a study; any text is one segment of a path, also with a slash in it."""
    return f"/studies/{segment(study)}"


def decode_name(text: str) -> str:
    """The name of a study, from a path that `security.Guard` passed on."""
    return unquote(text.removeprefix("~"))


class Pages:
    """The pages of a module: functions of the request and the named parts of its address, run in threads.

    A page that a form is sent to also gets what was `sent`, after a check that the form is one of this server's.
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def get(self, path: str, role: str | None = None, by: CapacityLimiter | None = None) -> Callable[[Page], Page]:
        """Register a page to look at, for requests with this role (None: for all)."""

        async def answer(request: Request, page: Page) -> Response:
            return await run_by(by, partial(page, request, **_parts(request)), request)

        return self._register("GET", path, role, answer)

    def post(
        self, path: str, role: str | None = None, by: CapacityLimiter | None = WRITERS, secret: bool = True
    ) -> Callable[[Page], Page]:
        """Register the target of a form, which must send the `secret` of its session (the login form has none)."""

        async def answer(request: Request, page: Page) -> Response:
            async with own_form(request, secret) as sent:
                return await run_by(by, partial(page, request, sent=sent, **_parts(request)), request)

        return self._register("POST", path, role, answer)

    def _register(
        self, method: str, path: str, role: str | None, answer: Callable[[Request, Page], Awaitable[Response]]
    ) -> Callable[[Page], Page]:
        def register(page: Page) -> Page:
            async def endpoint(request: Request) -> Response:
                check_role(request, role)
                return await answer(request, page)

            self.routes.append(Route(path, endpoint, methods=[method]))
            return page

        return register


class LazyRoute(BaseRoute, Generic[Made]):
    """An application that is built on the first request to one of its addresses; it gets whole paths."""

    def __init__(self, addresses: tuple[str, ...], make: Callable[[], Made]) -> None:
        self._addresses, self._make = addresses, make
        self._found: Made | None = None
        self._making = threading.Lock()

    def found(self) -> Made:
        with self._making:
            self._found = self._make() if self._found is None else self._found
            return self._found

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        under = (f"{scope['path']}/".startswith(f"{each}/") for each in self._addresses)
        return (Match.FULL if scope["type"] == "http" and any(under) else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._found
        await (await run_by(WRITERS, self.found) if found is None else found)(scope, receive, send)


def _parts(request: Request) -> dict[str, str]:
    return {key: decode_name(value) if key == "name" else value for key, value in request.path_params.items()}
