"""The pages: server-made HTML, usable without a script but for the live forecast."""

from __future__ import annotations

import hmac
from pathlib import Path, PurePath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form as Field, HTTPException, Request, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.templating import Jinja2Templates

from roundwise._version import __version__
from roundwise.errors import InputError, RoundwiseError
from roundwise.studies import list_studies
from roundwise.web import views
from roundwise.web.api import CHANGE, HAND_IN, LOOK, study_of
from roundwise.web.changes import CHANGES
from roundwise.web.forms import QUESTIONS, RESULTS, Form
from roundwise.web.problems import TITLES
from roundwise.web.security import COOKIE, Doors
from roundwise.web.staged import Staged, Upload

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(Path(__file__).parent / "templates")
staged = Staged()


def page(request: Request, template: str, status: int = 200, **given: Any) -> HTMLResponse:
    """A page, with what every page needs; a browser without a session gets one, for the secret of its forms."""
    doors: Doors = request.app.state.doors
    key = doors.key_of(request.headers)
    fresh = not key
    if fresh:
        key = doors.session(request.state.role) if not doors.tokens else ""
    basics = {
        "here": request.url.path,
        "version": __version__,
        "role": getattr(request.state, "role", None) or "do nothing before you come in",
        "secret": doors.form_secret(key) if key else "",
    }
    response = templates.TemplateResponse(request, template, basics | given, status_code=status)
    if fresh and key:
        _remember(request, response, key)
    return response


def sentence(request: Request, status: int, detail: str) -> Response:
    """One sentence, as a page; as a fragment where a part of a page was asked for."""
    if request.headers.get("hx-request"):
        return templates.TemplateResponse(request, "problem.html", {"detail": detail}, status_code=200)
    title = TITLES.get(status, "Refused").capitalize()
    back = "/" if request.method == "GET" else request.url.path
    return page(request, "sentence.html", status, title=title, detail=detail, back=back)


async def own_form(request: Request) -> None:
    """A form must send back the secret of its session."""
    doors: Doors = request.app.state.doors
    sent = request.headers.get("x-form-secret") or str((await request.form()).get("secret", ""))
    key = doors.key_of(request.headers)
    if not key or not hmac.compare_digest(sent.encode(), doors.form_secret(key).encode()):
        raise HTTPException(403, "This form is too old, or comes from another site. Open the page again.")


OWN = Depends(own_form)


@router.get("/health")
def health() -> Response:
    """Whether the server answers."""
    return Response("ok", media_type="text/plain")


@router.get("/login")
def login(request: Request) -> Response:
    """Where a token is given."""
    return page(request, "login.html", wrong=False)


@router.post("/login")
def logged_in(request: Request, token: Annotated[str, Field(max_length=1000)]) -> Response:
    """A token for a session."""
    doors: Doors = request.app.state.doors
    role = doors.role_of(token)
    if role is None:
        return page(request, "login.html", 403, wrong=True)
    response = RedirectResponse("/", status_code=303)
    _remember(request, response, doors.session(role))
    return response


@router.get("/", dependencies=[LOOK])
def studies(request: Request) -> Response:
    """All studies."""
    found = list_studies(request.app.state.storage)
    return page(request, "studies.html", studies=[views.listed(each) for each in found])


@router.get("/new", dependencies=[CHANGE])
def new(request: Request) -> Response:
    """The form for a new study."""
    return page(request, "new.html", form=Form.of(request.query_params), questions=QUESTIONS, results=RESULTS, error="")


@router.post("/new", dependencies=[CHANGE, OWN])
async def created(request: Request) -> Response:
    """A new study, or the form again with what is wrong."""
    form = Form.of(await request.form())
    try:
        views.create(form, request.app.state.storage)
    except RoundwiseError as error:
        given = {"form": form, "questions": QUESTIONS, "results": RESULTS, "error": str(error)}
        return page(request, "new.html", 422, **given)
    return RedirectResponse(_address(form.name.strip()), status_code=303)


@router.get("/plan", dependencies=[LOOK])
def plan(request: Request) -> Response:
    """The planner."""
    return page(request, "plan.html", form=Form.of(request.query_params), questions=QUESTIONS, results=RESULTS)


@router.post("/plan/start", dependencies=[CHANGE, OWN])
async def start(request: Request) -> Response:
    """From the plan to the form for the study, with its fields filled in."""
    form = Form.of(await request.form())
    return page(request, "new.html", form=form, questions=QUESTIONS, results=RESULTS, error="")


@router.post("/plan/forecast", dependencies=[LOOK, OWN])
def forecast(request: Request, form: Annotated[Form, Depends(lambda: None)] = None) -> Response:  # type: ignore[assignment]
    """What it will take: a part of a page."""
    raise HTTPException(501, "not yet")


@router.get("/studies/{name}", dependencies=[LOOK])
def study(request: Request, name: str) -> Response:
    """A study."""
    with study_of(request, name) as found:
        return page(request, "study.html", view=views.study(found), events=f"/api/v1/studies/{quote(name, '')}/events")


@router.post("/studies/{name}/ask", dependencies=[HAND_IN, OWN])
def ask(request: Request, name: str) -> Response:
    """Begin the next round."""
    with study_of(request, name) as found:
        found.ask()
    return RedirectResponse(_address(name), status_code=303)


@router.get("/studies/{name}/next.csv", dependencies=[LOOK])
def next_csv(request: Request, name: str) -> Response:
    """What to do next, as a file."""
    with study_of(request, name) as found:
        text = views.next_csv(found)
    return Response(text, media_type="text/csv", headers={"content-disposition": 'attachment; filename="next.csv"'})


@router.post("/studies/{name}/check", dependencies=[HAND_IN, OWN])
async def check(request: Request, name: str) -> Response:
    """Look at a file or a pasted table: what was found in it and what would change. Nothing is recorded."""
    sent = await request.form()
    file, pasted, key = sent.get("file"), str(sent.get("pasted", "")), str(sent.get("key", ""))
    upload = staged.get(key, name)
    if isinstance(file, UploadFile) and file.filename:
        plain = PurePath(file.filename.replace("\\", "/")).name
        upload = Upload(plain or "upload", await file.read(), name)
        key = staged.keep(upload)
    elif pasted.strip():
        upload = Upload("pasted table.csv", pasted.encode(), name)
        key = staged.keep(upload)
    if upload is None:
        raise InputError("Choose a file or paste a table first.")
    options = views.tell_options(sent)
    with study_of(request, name) as found:
        seen = views.preview(found, upload, options)
    return page(request, "preview.html", study=name, key=key, seen=seen, address=_address(name))


@router.post("/studies/{name}/record", dependencies=[HAND_IN, OWN])
async def record(request: Request, name: str) -> Response:
    """Record what was looked at."""
    sent = await request.form()
    key = str(sent.get("key", ""))
    upload = staged.get(key, name)
    if upload is None:
        raise InputError("The file is not here any more. Choose it again; nothing was recorded.")
    with study_of(request, name) as found:
        found.tell(upload.opened(), key=key, **views.tell_options(sent))
    staged.forget(key)
    return RedirectResponse(_address(name), status_code=303)


@router.get("/studies/{name}/change/{kind}", dependencies=[CHANGE])
def change(request: Request, name: str, kind: str) -> Response:
    """What a change does to the guarantee, before it is done."""
    return _change(request, name, kind, {})


@router.post("/studies/{name}/change/{kind}", dependencies=[CHANGE, OWN])
async def changed(request: Request, name: str, kind: str) -> Response:
    """Do it, or say why not."""
    sent = {key: str(value) for key, value in (await request.form()).items()}
    try:
        with study_of(request, name) as found:
            CHANGES[kind].do(found, sent)
    except RoundwiseError as error:
        return _change(request, name, kind, sent, str(error))
    return RedirectResponse("/" if kind == "remove" else _address(name), status_code=303)


def _change(request: Request, name: str, kind: str, given: dict[str, str], error: str = "") -> Response:
    if kind not in CHANGES:
        raise HTTPException(404, "There is no such change.")
    each = CHANGES[kind]
    with study_of(request, name) as found:
        arms = views.arms(found) if each.arms else []
        effect = each.effect(found)
    address = _address(name)
    return page(
        request,
        "change.html",
        422 if error else 200,
        title=each.title,
        study=name,
        effect=effect,
        action=f"{address}/change/{kind}",
        arms=arms,
        fields=each.fields,
        given=given | dict(request.query_params),
        serious=each.serious,
        button=each.button,
        back=address,
        error=error,
    )


@router.get("/studies/{name}/report.{form}", dependencies=[LOOK])
def report(request: Request, name: str, form: str) -> Response:
    """The report in some form."""
    with study_of(request, name) as found:
        return views.report(found, form)


@router.get("/help", dependencies=[LOOK])
def help_page(request: Request) -> Response:
    """What the page is, in a few words."""
    return page(request, "help.html")


def _address(name: str) -> str:
    return f"/studies/{quote(name, safe='')}"


def _remember(request: Request, response: Response, key: str) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, key, httponly=True, samesite="strict", secure=secure, path="/")
