"""The pages that are about no study: coming in, the list, help."""

from __future__ import annotations

import hashlib

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.arrays import Plain
from roundwise.store import open_store
from roundwise.study.audit import list_studies
from roundwise.web.rendering import ENVIRONMENT, page, respond, set_cookie, texts
from roundwise.web.reports import reports_of
from roundwise.web.routing import Pages
from roundwise.web.security import COOKIE, NAME_COOKIE, VIEW, AccessControl, name_cookie

router = Pages()


def describe_state(each: Plain) -> str:
    """Where a study of `list_studies` stands."""
    state, number = each["state"], each.get("round") or 0
    if state == "decided":
        return f"decided: {each['answer_text']}"
    if state == "waiting":
        return f"running, round {number}: waiting for {'the rest' if each['pending'] else 'results'}"
    words = {"open": f"running, round {number} can begin", "over": "ended, undecided", "closed": "closed"}
    return words.get(state, str(state))


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
    access: AccessControl = request.app.state.access
    given = texts(sent)
    role = access.role_of(given.get("token", ""))
    if role is None:
        return page(request, "login.html", 403, wrong=True)
    response = RedirectResponse("/", status_code=303)
    set_cookie(request, response, COOKIE, access.session(role))
    _keep_name(request, response, given.get("name", ""))
    return response


@router.get("/me", VIEW)
def me(request: Request) -> Response:
    """The name under which things are recorded."""
    return page(request, "me.html")


@router.post("/me", VIEW)
def me_named(request: Request, sent: FormData) -> Response:
    """Another name."""
    response = RedirectResponse("/", status_code=303)
    _keep_name(request, response, texts(sent).get("name", ""))
    return response


@router.post("/leave")
def leave(request: Request, sent: FormData) -> Response:
    """Forget the session of a browser."""
    access: AccessControl = request.app.state.access
    access.forget(access.key_of(request.headers))
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE, path="/")
    return response


def _keep_name(request: Request, response: Response, name: str) -> None:
    set_cookie(request, response, NAME_COOKIE, name_cookie(name), 31_536_000)


@router.get("/", VIEW)
def studies(request: Request) -> Response:
    """The list of studies."""
    storage = request.app.state.storage

    def read_digest() -> str:
        with open_store(storage, create=False) as store:
            return hashlib.sha256(repr(sorted(store.ends().items())).encode()).hexdigest()

    def render(basics: Plain) -> str:
        def text() -> str:
            found = [each | {"words": describe_state(each)} for each in list_studies(storage)]
            return ENVIRONMENT.get_template("studies.html").render(basics | {"studies": found})

        return reports_of(request).share(("", "list", basics["role"], basics["me"]), read_digest, text)

    return respond(request, render)


@router.get("/help", VIEW)
def help_page(request: Request) -> Response:
    """The help page."""
    return page(request, "help.html")
