"""Changes of a study from its page: first the effect on the guarantee, then, once agreed to, the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
from roundwise.web.uploads import Table, Upload, on_disk

Given = Mapping[str, str]
Source = Upload | Table | None


class FormField(NamedTuple):
    """A field of a form, named as the argument that it gives."""

    name: str
    label: str
    hint: str = ""
    kind: str = "text"  # text, long, number, quantity, box, arm, told, file
    required: bool = True


class ChangeForm(NamedTuple):
    """A change: the method of a study that makes it, and the fields of its form, whose words are in `change.html`."""

    method: Callable[..., object]
    fields: tuple[FormField, ...]
    serious: bool = False

    def arguments(self, given: Given, source: Source) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in self.fields:
            found[field.name] = given.get(field.name, "")
            if field.kind in ("number", "quantity") and not field.required and not found[field.name].strip():
                found[field.name] = None
            elif field.kind == "number":
                found[field.name] = whole(field.label, found[field.name])
            elif field.kind == "box":
                found[field.name] = field.name in given
            elif field.kind == "file":
                if field.required and source is None:
                    raise InputError("Choose a file first. Nothing was changed.")
                found[field.name] = source
        return found


def _amend(study: Study, file: str, source: Source, withdraw: bool, why: str) -> None:
    if source is None and not withdraw:
        raise InputError("Choose the corrected file, or tick “take it back”. Nothing was changed.")
    study.amend(file, None if withdraw else source, why)


FILE_HINT, WHY_HINT = "CSV, Excel, Parquet or JSON.", "It is recorded, and stands in the report."
WHY = FormField("why", "Why?", WHY_HINT, "long")
UNRELATED = FormField(
    "unrelated",
    "The reason does not depend on any result",
    "For example: it is sold out, or breaks the law. All rounds are then recounted.",
    "box",
)
ARM = FormField("arm", "Arm", kind="arm")
NEW_ARM = FormField("arm", "Name of the new arm", "As it will stand in the files.")
FILE = FormField("file", "Which file", kind="told")
CORRECTED = FormField("source", "The corrected file", FILE_HINT, "file", False)
WITHDRAW = FormField("withdraw", "Take it back, nothing in its place", kind="box")
EARLIER = FormField("source", "The earlier results", FILE_HINT, "file")
BUDGET = FormField("budget", "Results in all, at most", "Those already recorded count, too.", "number")
MOST = BUDGET._replace(hint="Those already recorded count, too. Empty: until it is decided.", required=False)
LEAD = FormField("lead", "The smallest lead that matters", "Such as 2 points, 0.5, or 10 % of 30 %.", "quantity", False)
LOOKS = FormField("looks", "Number of rounds to plan the rest for", "5 if empty.", "number", False)
CHANGES = {
    "drop": ChangeForm(Study.drop, (ARM, WHY, UNRELATED), serious=True),
    "add": ChangeForm(Study.add, (NEW_ARM, WHY, UNRELATED)),
    "close-round": ChangeForm(Study.close_round, (WHY._replace(label="Why will the rest not come?"),), serious=True),
    "end": ChangeForm(Study.end, (WHY,), serious=True),
    "reopen": ChangeForm(Study.reopen, (WHY,)),
    "relax": ChangeForm(Study.relax, (WHY,), serious=True),
    "extend": ChangeForm(Study.extend, (BUDGET,)),
    "redesign": ChangeForm(Study.redesign, (MOST, LEAD, LOOKS)),
    "amend": ChangeForm(_amend, (FILE, CORRECTED, WITHDRAW, WHY), serious=True),
    "import-past": ChangeForm(Study.import_past, (EARLIER,)),
    "note": ChangeForm(Study.note, (FormField("text", "Note", kind="long"),)),
    "remove": ChangeForm(Study.remove, (), serious=True),
}
router = Pages()


@router.get("/studies/{name}/change/{kind}", MANAGE)
def change(request: Request, name: str, kind: str) -> Response:
    """The form of a change, with what it does to the guarantee."""
    with study_of(request, name) as found:
        return _form(request, found, kind, dict(request.query_params))


@router.post("/studies/{name}/change/{kind}/effect", MANAGE)
def effect(request: Request, name: str, kind: str, sent: FormData) -> Response:
    """The effect of a change as filled in, as a page fragment."""
    with study_of(request, name) as found:
        said, refused = _effect(found, kind, texts(sent))
    return page(request, "effect.html", effect=said, refused=refused)


@router.post("/studies/{name}/change/{kind}", MANAGE)
def changed(request: Request, name: str, kind: str, sent: FormData) -> Response:
    """Do it; but first show the sentence, if what was agreed to is another one."""
    each, given, file = _known(kind), texts(sent), sent.get("source")
    files = [file] if isinstance(file, UploadFile) and file.filename else []
    with study_of(request, name) as found, on_disk(name, files) as sources:
        said, refused = _effect(found, kind, given)
        if refused or given.get("agreed") != said:
            return _form(request, found, kind, given, refused)
        try:
            each.method(found, **each.arguments(given, sources[0] if sources else None))
        except RoundwiseError as error:
            return _form(request, found, kind, given, str(error))
    return RedirectResponse("/" if kind == "remove" else address_of(name), status_code=303)


def _known(kind: str) -> ChangeForm:
    if kind not in CHANGES:
        raise HTTPException(404, "There is no such change.")
    return CHANGES[kind]


def _effect(study: Study, kind: str, given: Given) -> tuple[str, str]:
    """The effect of a change, or why it is refused; empty while a required field is empty."""
    each = _known(kind)
    depends = next((field for field in each.fields if field.name in ("arm", "budget")), None)
    if depends is not None and depends.required and not given.get(depends.name, "").strip():
        return "", ""
    try:
        reason = given.get("why", "").strip() or "?"  # the effect does not depend on it
        words = {} if depends is None else each.arguments({**given, "why": reason}, None)
        return study.effect(kind.replace("-", "_"), **words), ""
    except RoundwiseError as error:
        return "", str(error)


def _form(request: Request, study: Study, kind: str, given: Given, error: str = "") -> Response:
    each, state = _known(kind), study.state
    arms = [arm for arm in state.spec.arms if arm not in state.spec.left_out]
    given = {**given, "arm": given.get("arm") or (arms[0] if kind == "drop" and arms else "")}
    said, refused = _effect(study, kind, given)
    return page(
        request,
        "change.html",
        422 if error else 200,
        change=each,
        kind=kind,
        study=study.name,
        at=address_of(study.name),
        effect=said,
        refused="" if error else refused,
        arms=arms,
        told=[(asked.number, file) for asked in reversed(state.rounds) for file in asked.files],
        given=given,
        error=error,
    )
