"""The pages that are about no study: coming in, the list, help."""

from __future__ import annotations

import hashlib

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.arrays import Plain
from roundwise.store import open_store
from roundwise.study.audit import list_studies
from roundwise.web.auth import COOKIE as NAME
from roundwise.web.auth import LOOK, cookie_of
from roundwise.web.messages import listed
from roundwise.web.rendering import ENVIRONMENT, page, remember, shown, texts
from roundwise.web.reports import kept
from roundwise.web.routes import Pages
from roundwise.web.security import COOKIE, Doors

router = Pages()


@router.get("/health")
def health(request: Request) -> Response:
    """Whether the server answers."""
    return Response("ok", media_type="text/plain")


@router.get("/login")
def login(request: Request) -> Response:
    """Where a token is given."""
    return page(request, "login.html", wrong=False)


@router.post("/login", secret=False)
def logged_in(request: Request, sent: FormData) -> Response:
    """A token for a session."""
    doors: Doors = request.app.state.doors
    given = texts(sent)
    role = doors.role_of(given.get("token", ""))
    if role is None:
        return page(request, "login.html", 403, wrong=True)
    response = RedirectResponse("/", status_code=303)
    remember(request, response, doors.session(role))
    call(request, response, given.get("name", ""))
    return response


@router.get("/me", LOOK)
def me(request: Request) -> Response:
    """The name under which things are recorded."""
    return page(request, "me.html")


@router.post("/me", LOOK)
def me_named(request: Request, sent: FormData) -> Response:
    """Another name."""
    response = RedirectResponse("/", status_code=303)
    call(request, response, texts(sent).get("name", ""))
    return response


@router.post("/leave")
def leave(request: Request, sent: FormData) -> Response:
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


@router.get("/", LOOK)
def studies(request: Request) -> Response:
    """All studies."""
    storage = request.app.state.storage
    with open_store(storage, create=False) as store:
        ends = store.ends()

    def made(basics: Plain) -> str:
        def text() -> str:
            found = [listed(each) for each in list_studies(storage)]
            return ENVIRONMENT.get_template("studies.html").render(basics | {"studies": found})

        digest = hashlib.sha256(repr(sorted(ends.items())).encode()).hexdigest()
        return kept(request).page(digest, ("studies", basics["role"], basics["me"]), text)

    return shown(request, made)


@router.get("/help", LOOK)
def help_page(request: Request) -> Response:
    """What the page is, in a few words."""
    return page(request, "help.html")
