"""What may be changed in a study from its page: the sentence about the guarantee first, then, if agreed, the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.errors import InputError, RoundwiseError
from roundwise.study import Study
from roundwise.web.auth import CHANGE, study_of
from roundwise.web.forms import whole
from roundwise.web.messages import on_the_page
from roundwise.web.rendering import page, texts
from roundwise.web.routes import Pages
from roundwise.web.study_pages import address
from roundwise.web.uploads import Staged

Given = Mapping[str, str]
File = PathLike[str] | None


@dataclass(frozen=True)
class Field:
    """A field of a form."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"  # text, long, box, arm, told, file
    required: bool = True


@dataclass(frozen=True)
class Change:
    """A change: how its form looks, what it does to the guarantee, and how it is done."""

    title: str
    lead: str  # when one does this
    fields: tuple[Field, ...]
    effect: Callable[[Study, Given], str]
    do: Callable[[Study, Given, File], object]
    button: str
    serious: bool = False


WHY = Field("why", "Why?", "It is recorded, and stands in the report.", "long")
UNRELATED = Field(
    "unrelated",
    "The reason has nothing to do with any result",
    "For example: it is sold out, or breaks the law. All rounds are then counted anew.",
    "box",
    False,
)


def _fixed(kind: str) -> Callable[[Study, Given], str]:
    return lambda study, given: study.effect(kind)


def _of_arm(kind: str) -> Callable[[Study, Given], str]:
    def effect(study: Study, given: Given) -> str:
        if not given.get("arm", "").strip():
            return ""
        why = given.get("why", "").strip() or "?"  # the reason has no part in it
        return study.effect(kind, arm=given["arm"], why=why, unrelated="unrelated" in given)

    return effect


def _budget(study: Study, given: Given) -> str:
    if not given.get("budget", "").strip():
        return ""
    return study.effect("extend", budget=whole("The new budget", given["budget"]))


def _needs(file: File) -> File:
    if file is None:
        raise InputError("Choose a file first. Nothing was changed.")
    return file


def _amend(study: Study, given: Given, file: File) -> object:
    if file is None and "withdraw" not in given:
        raise InputError("Choose the corrected file, or tick “take it back”. Nothing was changed.")
    return study.amend(given["file_told"], None if "withdraw" in given else file, given["why"])


CHANGES = {
    "drop": Change(
        "Take an option out",
        "For an option that can no longer be offered, or that nobody wants to wait for.",
        (Field("arm", "Option", kind="arm"), WHY, UNRELATED),
        _of_arm("drop"),
        lambda study, given, file: study.drop(given["arm"], given["why"], "unrelated" in given),
        "Take it out",
        True,
    ),
    "add": Change(
        "Add an option",
        "For an option that turned up later.",
        (Field("arm", "Name of the new option", "As it will stand in the files."), WHY, UNRELATED),
        _of_arm("add"),
        lambda study, given, file: study.add(given["arm"], given["why"], "unrelated" in given),
        "Add it",
    ),
    "close-round": Change(
        "Close the round",
        "For a round of which the rest will not come.",
        (Field("why", "Why will the rest not come?", "It is recorded, and stands in the report.", "long"),),
        _fixed("close_round"),
        lambda study, given, file: study.close_round(given["why"]),
        "Close the round",
        True,
    ),
    "end": Change(
        "End the study",
        "For a study that nobody goes on with. What has not been ruled out is reported; it can be reopened.",
        (WHY,),
        _fixed("end"),
        lambda study, given, file: study.end(given["why"]),
        "End the study",
        True,
    ),
    "reopen": Change(
        "Reopen the study",
        "For a study that was ended undecided.",
        (WHY,),
        _fixed("reopen"),
        lambda study, given, file: study.reopen(given["why"]),
        "Reopen it",
    ),
    "extend": Change(
        "Change the budget",
        "For a study that may take more results, or fewer, than was said.",
        (Field("budget", "Results in all, at most", "Those that are there count, too."),),
        _budget,
        lambda study, given, file: study.extend(whole("The new budget", given["budget"])),
        "Change the budget",
    ),
    "amend": Change(
        "Correct a file",
        "For a file with wrong rows: a corrected one takes its place, or it is taken back. Nothing is erased.",
        (
            Field("file_told", "Which file", kind="told"),
            Field("file", "The corrected file", "CSV, Excel, Parquet or JSON.", "file", False),
            Field("withdraw", "Take it back, nothing in its place", "", "box", False),
            WHY,
        ),
        _fixed("amend"),
        _amend,
        "Correct it",
        True,
    ),
    "import-past": Change(
        "Teach it earlier data",
        "For results from before the study: they say where to look first, and are no evidence.",
        (Field("file", "The earlier results", "CSV, Excel, Parquet or JSON.", "file"),),
        _fixed("import_past"),
        lambda study, given, file: study.import_past(_needs(file)),
        "Teach it",
    ),
    "note": Change(
        "Write a note",
        "For whatever should stand in the record.",
        (Field("text", "Note", kind="long"),),
        _fixed("note"),
        lambda study, given, file: study.note(given["text"]),
        "Write it",
    ),
    "remove": Change(
        "Remove the study",
        "For a study that was created by mistake and has no results.",
        (),
        _fixed("remove"),
        lambda study, given, file: study.remove(),
        "Remove it",
        True,
    ),
}


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
    told = [] if kind != "amend" else [(asked.number, file) for asked in reversed(state.rounds) for file in asked.files]
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
