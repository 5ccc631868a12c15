"""The pages that are about no study: coming in, the list, help."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from roundwise.studies.listing import list_studies
from roundwise.web.listed import listed
from roundwise.web.rendering import Sent, page, remember, texts
from roundwise.web.roles import LOOK
from roundwise.web.security import COOKIE, Doors
from roundwise.web.who import COOKIE as NAME
from roundwise.web.who import cookie_of

router = APIRouter(include_in_schema=False)


@router.get("/health")
def health() -> Response:
    """Whether the server answers."""
    return Response("ok", media_type="text/plain")


@router.get("/login")
def login(request: Request) -> Response:
    """Where a token is given."""
    return page(request, "login.html", wrong=False)


@router.post("/login")
def logged_in(
    request: Request, token: Annotated[str, Form(max_length=1000)], name: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """A token for a session."""
    doors: Doors = request.app.state.doors
    role = doors.role_of(token)
    if role is None:
        return page(request, "login.html", 403, wrong=True)
    response = RedirectResponse("/", status_code=303)
    remember(request, response, doors.session(role))
    call(request, response, name)
    return response


@router.get("/me", dependencies=[LOOK])
def me(request: Request) -> Response:
    """The name under which things are recorded."""
    return page(request, "me.html")


@router.post("/me", dependencies=[LOOK])
def me_named(request: Request, sent: Sent) -> Response:
    """Another name."""
    response = RedirectResponse("/", status_code=303)
    call(request, response, texts(sent).get("name", ""))
    return response


@router.post("/leave")
def leave(request: Request, sent: Sent) -> Response:
    """Forget the session of a browser."""
    doors: Doors = request.app.state.doors
    doors.forget(doors.key_of(request.headers))
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE, path="/")
    return response


def call(request: Request, response: Response, name: str) -> None:
    """Keep a name in the browser."""
    secure = request.url.scheme == "https"
    response.set_cookie(NAME, cookie_of(name), httponly=True, samesite="strict", secure=secure, max_age=31_536_000)


@router.get("/", dependencies=[LOOK])
def studies(request: Request) -> Response:
    """All studies."""
    found = [listed(each) for each in list_studies(request.app.state.storage)]
    return page(request, "studies.html", studies=found)


@router.get("/help", dependencies=[LOOK])
def help_page(request: Request) -> Response:
    """What the page is, in a few words."""
    return page(request, "help.html")
