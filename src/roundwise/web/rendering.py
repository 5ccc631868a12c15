"""How a page is made: templates with what every page needs, forms with their secret, errors as one sentence."""

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
from roundwise.render.html import build_environment
from roundwise.render.svg import Svg, escape
from roundwise.report.wording import count, day
from roundwise.web.auth import known_as, name_of
from roundwise.web.messages import of_options
from roundwise.web.names import segment
from roundwise.web.problems import TITLES, kind_of, problem_json, status_of
from roundwise.web.security import COOKIE, ROLES, Doors

HERE = Path(__file__).parent
ENVIRONMENT = build_environment(HERE / "templates")


def _basename(name: str) -> str:
    """The last part of a path, as it is written on any system."""
    return name.replace("\\", "/").rpartition("/")[2] or name


def _coded(text: str) -> Svg:
    """Escaped text in which `code` stands between backticks."""
    return Svg(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))


ENVIRONMENT.filters |= {
    "segment": segment,
    "count": count,
    "day": day,
    "basename": _basename,
    "of_options": of_options,
    "coded": _coded,
}
SECRET = secrets.token_hex(16)  # stands for the secret of a form until the page is sent


def page(request: Request, template: str, status: int = 200, **given: Any) -> HTMLResponse:
    """A page, with what every page needs; a browser without a session gets one, for the secret of its forms."""
    return shown(request, lambda basics: ENVIRONMENT.get_template(template).render(basics | given), status)


def shown(request: Request, made: Callable[[dict[str, Any]], str], status: int = 200) -> HTMLResponse:
    """A page that is made of what every page needs.

    Where its forms have a secret it has `SECRET`, so that the same text may be kept for everybody who may do the same.
    """
    doors: Doors = request.app.state.doors
    role = getattr(request.state, "role", None)
    key = doors.key_of(request.headers)
    fresh = not key and not doors.tokens
    if fresh:
        key = doors.session(ROLES[-1])
    basics = {
        "here": request.url.path,
        "version": __version__,
        "role": role,
        "may": lambda wanted: role is not None and ROLES.index(role) >= ROLES.index(wanted),
        "secret": SECRET,
        "guarded": bool(doors.tokens),
        "me": known_as(request.headers, doors, role),
        "me_given": name_of(request.headers),
    }
    text = made(basics).replace(SECRET, doors.form_secret(key) if key else "")
    response = HTMLResponse(text, status)
    if fresh:
        remember(request, response, key)
    return response


def sentence(request: Request, status: int, detail: str) -> Response:
    """One sentence, as a page; as a part of one where that was asked for."""
    if request.headers.get("hx-request"):
        return HTMLResponse(ENVIRONMENT.get_template("problem.html").render(detail=detail))
    title = TITLES.get(status, "refused").capitalize()
    return page(request, "sentence.html", status, title=title, detail=detail)


def remember(request: Request, response: Response, key: str) -> None:
    """Give a browser the key of its session."""
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=secure, path="/")


@asynccontextmanager
async def own_form(request: Request, secret: bool) -> AsyncIterator[FormData]:
    """What a form of this server's own pages sent: it must send back the `secret` of its session."""
    doors: Doors = request.app.state.doors
    async with request.form(max_files=1, max_fields=200, max_part_size=doors.most) as sent:
        given = str(sent.get("secret", "")) or request.headers.get("x-form-secret", "")
        key = doors.key_of(request.headers)
        if secret and not (key and hmac.compare_digest(given.encode(), doors.form_secret(key).encode())):
            raise HTTPException(403, "This form is too old, or comes from another site. Open the page again.")
        yield sent


def texts(sent: FormData) -> dict[str, str]:
    """The fields of a form that are text."""
    return {key: value for key, value in sent.items() if isinstance(value, str)}


WORDS = {  # what the frameworks say, as a sentence
    "Not Found": "There is nothing under this address; /api/v1/docs lists what there is.",
    "Method Not Allowed": "This address takes no such request; /api/v1/docs lists what there is.",
    "There was an error parsing the body": "The body of the request cannot be read.",
}
_LOG = logging.getLogger("roundwise.web")


def answered(request: Request, status: int, detail: str, error: str = "") -> Response:
    """One sentence."""
    if request.url.path.startswith("/api/"):
        return problem_json(status, detail, error)
    return sentence(request, status, detail)


async def _refused(request: Request, error: RoundwiseError) -> Response:
    return answered(request, status_of(error), str(error), kind_of(error))


async def _http(request: Request, error: HTTPException) -> Response:
    found = answered(request, error.status_code, WORDS.get(str(error.detail), str(error.detail)))
    found.headers.update(error.headers or {})
    return found


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=400)  # nobody reads it, and nothing of it belongs into the log


async def _unexpected(request: Request, error: Exception) -> Response:
    _LOG.exception("a request to %s failed", request.url.path)
    return answered(request, 500, "Something went wrong here, and was written to the server's log.")


HANDLERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RoundwiseError: _refused,
    HTTPException: _http,
    ClientDisconnect: _gone,
    Exception: _unexpected,
}
