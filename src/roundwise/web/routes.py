"""How the functions of pages are reached: plain Starlette, so that a server is up before what only the API needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roundwise.web.names import decoded
from roundwise.web.rendering import own_form
from roundwise.web.roles import check
from roundwise.web.threads import WRITERS, run_by

Page = Callable[..., Response]


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
                return await run_by(by, partial(page, request, **_parts(request)))

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
                    return await run_by(by, partial(page, request, sent=sent, **_parts(request)))

            self.routes.append(Route(path, answer, methods=["POST"]))
            return page

        return kept


def _parts(request: Request) -> dict[str, str]:
    return {key: decoded(value) if key == "name" else value for key, value in request.path_params.items()}
