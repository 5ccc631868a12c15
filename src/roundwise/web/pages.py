"""The pages that are about no study: coming in, the list, help."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from roundwise.studies.listing import list_studies
from roundwise.web.api import LOOK
from roundwise.web.listed import listed
from roundwise.web.rendering import page, remember
from roundwise.web.security import Doors

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
def logged_in(request: Request, token: Annotated[str, Form(max_length=1000)]) -> Response:
    """A token for a session."""
    doors: Doors = request.app.state.doors
    role = doors.role_of(token)
    if role is None:
        return page(request, "login.html", 403, wrong=True)
    response = RedirectResponse("/", status_code=303)
    remember(request, response, doors.session(role))
    return response


@router.get("/", dependencies=[LOOK])
def studies(request: Request) -> Response:
    """All studies."""
    found = [listed(each) for each in list_studies(request.app.state.storage)]
    return page(request, "studies.html", studies=found)


@router.get("/help", dependencies=[LOOK])
def help_page(request: Request) -> Response:
    """What the page is, in a few words."""
    return page(request, "help.html")
