"""Changing a study: the sentence about the guarantee first, then, if somebody agrees to it, the change."""

from __future__ import annotations

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.errors import RoundwiseError
from roundwise.studies import Study
from roundwise.web.changes import CHANGES, Change, File, Given
from roundwise.web.rendering import page, texts
from roundwise.web.roles import CHANGE, study_of
from roundwise.web.routes import Pages
from roundwise.web.said import on_the_page
from roundwise.web.staged import Staged
from roundwise.web.study_pages import address

router = Pages()


@router.get("/studies/{name}/change/{kind}", CHANGE)
def change(request: Request, name: str, kind: str) -> Response:
    """The form of a change, with what it does to the guarantee."""
    with study_of(request, name) as found:
        return _form(request, found, kind, dict(request.query_params))


@router.post("/studies/{name}/change/{kind}/effect", CHANGE)
def effect(request: Request, name: str, kind: str, sent: FormData) -> Response:
    """What a change would do to the guarantee as the form stands: a part of the page."""
    with study_of(request, name) as found:
        said, refused = _effect(found, _known(kind), texts(sent))
    return page(request, "effect.html", effect=said, refused=refused)


@router.post("/studies/{name}/change/{kind}", CHANGE)
def changed(request: Request, name: str, kind: str, sent: FormData) -> Response:
    """Do it; but first show the sentence, if what was agreed to is another one."""
    each, given = _known(kind), texts(sent)
    with study_of(request, name) as found:
        said, refused = _effect(found, each, given)
        if refused or given.get("agreed") != said:
            return _form(request, found, kind, given, refused)
        try:
            each.do(found, given, _upload(request, name, sent))
        except RoundwiseError as error:
            return _form(request, found, kind, given, on_the_page(str(error)))
    return RedirectResponse("/" if kind == "remove" else address(name), status_code=303)


def _known(kind: str) -> Change:
    if kind not in CHANGES:
        raise HTTPException(404, "There is no such change.")
    return CHANGES[kind]


def _effect(study: Study, each: Change, given: Given) -> tuple[str, str]:
    """What it does to the guarantee; or why it cannot be done."""
    try:
        return each.effect(study, given), ""
    except RoundwiseError as error:
        return "", on_the_page(str(error))


def _upload(request: Request, name: str, sent: FormData) -> File:
    file = sent.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        return None
    staged: Staged = request.app.state.staged
    return staged.get(staged.keep(file.filename, file.file.read(), name), name)


def _form(request: Request, study: Study, kind: str, given: Given, error: str = "") -> Response:
    each, state = _known(kind), study.state
    settings = state.settings
    arms = [arm for arm in settings.arms if arm not in settings.left_out]
    given = {**given, "arm": given.get("arm") or (arms[0] if kind == "drop" and arms else "")}
    said, refused = _effect(study, each, given)
    told = [] if kind != "amend" else [(asked.number, file) for asked in reversed(state.asked) for file in asked.files]
    return page(
        request,
        "change.html",
        422 if error else 200,
        change=each,
        kind=kind,
        study=study.name,
        at=address(study.name),
        effect=said,
        refused=refused if not error else "",
        arms=arms,
        told=told,
        given=given,
        error=error,
    )
