"""Changes of a study from its page: first the effect on the guarantee, then, once agreed to, the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.errors import InputError, RoundwiseError
from roundwise.study import Study
from roundwise.web.forms import whole
from roundwise.web.rendering import page, texts
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import MANAGE, study_of
from roundwise.web.uploads import StagedUploads

Given = Mapping[str, str]
File = PathLike[str] | None


@dataclass(frozen=True)
class FormField:
    """A field of a form."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"  # text, long, box, arm, told, file
    required: bool = True


FILE_HINT, WHY_HINT = "CSV, Excel, Parquet or JSON.", "It is recorded, and stands in the report."
WHY = FormField("why", "Why?", WHY_HINT, "long")
UNRELATED = FormField(
    "unrelated",
    "The reason does not depend on any result",
    "For example: it is sold out, or breaks the law. All rounds are then counted anew.",
    "box",
    False,
)


@dataclass(frozen=True)
class ChangeForm:
    """The form of a change: its words and fields, and what it calls."""

    title: str
    lead: str  # when to make this change
    button: str
    do: Callable[[Study, Given, File], object]
    fields: tuple[FormField, ...] = (WHY,)
    serious: bool = False


def _amend(study: Study, given: Given, file: File) -> object:
    if file is None and "withdraw" not in given:
        raise InputError("Choose the corrected file, or tick “take it back”. Nothing was changed.")
    return study.amend(given["file_told"], None if "withdraw" in given else file, given["why"])


def _import_past(study: Study, given: Given, file: File) -> object:
    if file is None:
        raise InputError("Choose a file first. Nothing was changed.")
    return study.import_past(file)


CHANGES = {
    "drop": ChangeForm(
        "Take an option out",
        "For an option that can no longer be offered, or that nobody wants to wait for.",
        "Take it out",
        lambda study, given, file: study.drop(given["arm"], given["why"], "unrelated" in given),
        (FormField("arm", "Option", kind="arm"), WHY, UNRELATED),
        serious=True,
    ),
    "add": ChangeForm(
        "Add an option",
        "For an option that turned up later.",
        "Add it",
        lambda study, given, file: study.add(given["arm"], given["why"], "unrelated" in given),
        (FormField("arm", "Name of the new option", "As it will stand in the files."), WHY, UNRELATED),
    ),
    "close-round": ChangeForm(
        "Close the round",
        "For a round whose missing results will not come.",
        "Close the round",
        lambda study, given, file: study.close_round(given["why"]),
        (FormField("why", "Why will the rest not come?", WHY_HINT, "long"),),
        serious=True,
    ),
    "end": ChangeForm(
        "End the study",
        "For a study that nobody continues. What has not been ruled out is reported; it can be reopened.",
        "End the study",
        lambda study, given, file: study.end(given["why"]),
        serious=True,
    ),
    "reopen": ChangeForm(
        "Reopen the study",
        "For a study that was ended undecided.",
        "Reopen it",
        lambda study, given, file: study.reopen(given["why"]),
    ),
    "extend": ChangeForm(
        "Change the budget",
        "For a study that may take more results, or fewer, than its budget.",
        "Change the budget",
        lambda study, given, file: study.extend(whole("The new budget", given["budget"])),
        (FormField("budget", "Results in all, at most", "Those already recorded count, too."),),
    ),
    "amend": ChangeForm(
        "Correct a file",
        "For a file with wrong rows: a corrected one takes its place, or it is taken back. Nothing is erased.",
        "Correct it",
        _amend,
        (
            FormField("file_told", "Which file", kind="told"),
            FormField("file", "The corrected file", FILE_HINT, "file", False),
            FormField("withdraw", "Take it back, nothing in its place", "", "box", False),
            WHY,
        ),
        serious=True,
    ),
    "import-past": ChangeForm(
        "Import earlier data",
        "For results from before the study: they guide the first rounds, and are not evidence.",
        "Import it",
        _import_past,
        (FormField("file", "The earlier results", FILE_HINT, "file"),),
    ),
    "note": ChangeForm(
        "Write a note",
        "For a remark that should stand in the record.",
        "Write it",
        lambda study, given, file: study.note(given["text"]),
        (FormField("text", "Note", kind="long"),),
    ),
    "remove": ChangeForm(
        "Remove the study",
        "For a study that was created by mistake and has no results.",
        "Remove it",
        lambda study, given, file: study.remove(),
        (),
        serious=True,
    ),
}
router = Pages()


@router.get("/studies/{name}/change/{kind}", MANAGE)
def change(request: Request, name: str, kind: str) -> Response:
    """The form of a change, with what it does to the guarantee."""
    with study_of(request, name) as found:
        return _form(request, found, kind, dict(request.query_params))


@router.post("/studies/{name}/change/{kind}/effect", MANAGE)
def effect(request: Request, name: str, kind: str, sent: FormData) -> Response:
    """What a change would do to the guarantee as the form stands: a part of the page."""
    _known(kind)
    with study_of(request, name) as found:
        said, refused = _effect(found, kind, texts(sent))
    return page(request, "effect.html", effect=said, refused=refused)


@router.post("/studies/{name}/change/{kind}", MANAGE)
def changed(request: Request, name: str, kind: str, sent: FormData) -> Response:
    """Do it; but first show the sentence, if what was agreed to is another one."""
    each, given = _known(kind), texts(sent)
    with study_of(request, name) as found:
        said, refused = _effect(found, kind, given)
        if refused or given.get("agreed") != said:
            return _form(request, found, kind, given, refused)
        try:
            each.do(found, given, _upload(request, name, sent))
        except RoundwiseError as error:
            return _form(request, found, kind, given, str(error))
    return RedirectResponse("/" if kind == "remove" else address_of(name), status_code=303)


def _known(kind: str) -> ChangeForm:
    if kind not in CHANGES:
        raise HTTPException(404, "There is no such change.")
    return CHANGES[kind]


def _effect(study: Study, kind: str, given: Given) -> tuple[str, str]:
    """What a change does to the guarantee, or why it is refused; neither while a field is empty that it depends on."""
    words: dict[str, Any] = {}
    try:
        if kind in ("drop", "add", "extend") and not given.get("budget" if kind == "extend" else "arm", "").strip():
            return "", ""
        if kind in ("drop", "add"):
            why = given.get("why", "").strip() or "?"  # the effect does not depend on it
            words = {"arm": given["arm"], "why": why, "unrelated": "unrelated" in given}
        if kind == "extend":
            words = {"budget": whole("The new budget", given["budget"])}
        return study.effect(kind.replace("-", "_"), **words), ""
    except RoundwiseError as error:
        return "", str(error)


def _upload(request: Request, name: str, sent: FormData) -> File:
    file = sent.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        return None
    staged: StagedUploads = request.app.state.staged
    return staged.get(staged.keep(file.filename, file.file.read(), name), name)


def _form(request: Request, study: Study, kind: str, given: Given, error: str = "") -> Response:
    each, state = _known(kind), study.state
    settings = state.spec
    arms = [arm for arm in settings.arms if arm not in settings.left_out]
    given = {**given, "arm": given.get("arm") or (arms[0] if kind == "drop" and arms else "")}
    said, refused = _effect(study, kind, given)
    told = [] if kind != "amend" else [(asked.number, file) for asked in reversed(state.rounds) for file in asked.files]
    return page(
        request,
        "change.html",
        422 if error else 200,
        change=each,
        kind=kind,
        study=study.name,
        at=address_of(study.name),
        effect=said,
        refused=refused if not error else "",
        arms=arms,
        told=told,
        given=given,
        error=error,
    )
