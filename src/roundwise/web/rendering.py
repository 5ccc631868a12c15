"""Responses for browsers: pages from templates, forms with their secret, errors as one sentence."""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response

from roundwise._version import __version__
from roundwise.errors import RoundwiseError
from roundwise.messages import count, day
from roundwise.render.html import build_environment
from roundwise.render.svg import Svg, escape
from roundwise.store.remote import segment
from roundwise.web.problems import TITLES, classify, problem_json
from roundwise.web.security import COOKIE, ROLES, AccessControl, author_of, given_name

HERE = Path(__file__).parent
ENVIRONMENT = build_environment(HERE / "templates")


ENVIRONMENT.filters |= {
    "segment": segment,
    "count": count,
    "day": day,
    "basename": lambda name: name.replace("\\", "/").rpartition("/")[2] or name,  # as it is written on any system
    "coded": lambda text: Svg(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))),  # what stands in backticks
}
SECRET = secrets.token_hex(16)  # stands for the secret of a form until the page is sent


def page(request: Request, template: str, status: int = 200, **given: Any) -> HTMLResponse:
    """Respond with a template; a browser without a session gets one, for the secret of its forms."""
    return respond(request, lambda basics: ENVIRONMENT.get_template(template).render(basics | given), status)


def respond(request: Request, render: Callable[[dict[str, Any]], str], status: int = 200) -> HTMLResponse:
    """Respond with a text that is rendered from the values every page needs.

    `SECRET` in the text is replaced by the secret of the session's forms, so the text may be cached for all sessions.
    """
    access: AccessControl = request.app.state.access
    role = getattr(request.state, "role", None)
    key = access.key_of(request.headers)
    fresh = not key and not access.tokens
    if fresh:
        key = access.session(ROLES[-1])
    basics = {
        "here": request.url.path,
        "version": __version__,
        "role": role,
        "may": lambda wanted: role is not None and ROLES.index(role) >= ROLES.index(wanted),
        "secret": SECRET,
        "guarded": bool(access.tokens),
        "me": author_of(request.headers, access, role),
        "me_given": given_name(request.headers),
    }
    text = render(basics).replace(SECRET, access.form_secret(key) if key else "")
    response = HTMLResponse(text, status)
    if fresh:
        set_cookie(request, response, COOKIE, key)
    return response


def set_cookie(
    request: Request, response: Response, name: str, value: str, max_age: int | None = None, path: str = "/"
) -> None:
    """Set a cookie that only this server gets, for addresses that begin with the path."""
    secure = request.url.scheme == "https"
    response.set_cookie(name, value, max_age, httponly=True, samesite="strict", secure=secure, path=path)


@asynccontextmanager
async def own_form(request: Request, secret: bool) -> AsyncIterator[FormData]:
    """The fields of a form of this server's pages, which must send back the `secret` of its session."""
    access: AccessControl = request.app.state.access
    async with request.form(max_files=1, max_fields=200, max_part_size=access.most) as sent:
        given = str(sent.get("secret", "")) or request.headers.get("x-form-secret", "")
        key = access.key_of(request.headers)
        if secret and not (key and hmac.compare_digest(given.encode(), access.form_secret(key).encode())):
            raise HTTPException(403, "This form is too old, or comes from another site. Open the page again.")
        yield sent


def texts(sent: FormData) -> dict[str, str]:
    """The fields of a form that are text; browsers end lines with two characters."""
    return {key: value.replace("\r\n", "\n") for key, value in sent.items() if isinstance(value, str)}


WORDS = {  # what the frameworks say, as a sentence
    "Not Found": "There is nothing under this address; /api/v1/docs lists what there is.",
    "Method Not Allowed": "This address takes no such request; /api/v1/docs lists what there is.",
    "There was an error parsing the body": "The body of the request cannot be read.",
}
_LOG = logging.getLogger("roundwise.web")


def respond_with_error(request: Request, status: int, detail: str, error: str = "") -> Response:
    """Respond with one sentence: as JSON to a program, as part of a page to htmx, else as a page."""
    if request.url.path.startswith("/api/"):
        return problem_json(status, detail, error)
    if request.headers.get("hx-request"):
        return HTMLResponse(ENVIRONMENT.get_template("problem.html").render(detail=detail))
    title = TITLES.get(status, "refused").capitalize()
    return page(request, "sentence.html", status, title=title, detail=detail)


async def _refused(request: Request, error: RoundwiseError) -> Response:
    status, kind = classify(error)
    return respond_with_error(request, status, str(error), kind)


async def _http(request: Request, error: HTTPException) -> Response:
    found = respond_with_error(request, error.status_code, WORDS.get(str(error.detail), str(error.detail)))
    found.headers.update(error.headers or {})
    return found


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=400)  # the client is gone; nothing to log


async def _unexpected(request: Request, error: Exception) -> Response:
    _LOG.exception("a request to %s failed", request.url.path)
    return respond_with_error(request, 500, "Something went wrong here, and was written to the server's log.")


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RoundwiseError: _refused,
    HTTPException: _http,
    ClientDisconnect: _gone,
    Exception: _unexpected,
}
