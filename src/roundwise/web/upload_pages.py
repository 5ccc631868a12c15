"""Uploading results: first a preview of a file and its effects, then the record."""

from __future__ import annotations

from typing import NamedTuple

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from roundwise.errors import InputError, RoundwiseError
from roundwise.ingest import Columns, Results, TellOptions
from roundwise.ingest.columns import TellKeywords
from roundwise.ingest.rows import ColumnPreview, preview_columns
from roundwise.messages import count
from roundwise.report import Report
from roundwise.report.model import sentence
from roundwise.store import ConflictError
from roundwise.study import Study
from roundwise.web.rendering import page, texts
from roundwise.web.routing import Pages, address_of
from roundwise.web.security import UPLOAD, study_of
from roundwise.web.uploads import StagedUploads, Upload

router = Pages()

ROLES = {  # what a column may be, in words
    "arm": "option",
    "outcome": "result",
    "id": "id",
    "time": "time",
    "item": "item",
}


class ArmPreview(NamedTuple):
    """What a file adds to one option."""

    name: str
    new: int
    mean: str
    missing: int
    to_come: int  # of the open round, after it


class UploadPreview(NamedTuple):
    """A file, how it is read, and what it would change."""

    file: str
    looked: ColumnPreview
    chosen: dict[str, str]  # columns by what they are
    error: str
    rows: list[ArmPreview]
    total: int
    skipped: int
    missing: int
    notes: list[str]
    changes: list[str]  # what would change
    complete: bool


@router.post("/studies/{name}/check", UPLOAD)
def check(request: Request, name: str, sent: FormData) -> Response:
    """Preview a file or a pasted table: its contents, and what would change. Nothing is recorded."""
    staged: StagedUploads = request.app.state.staged
    given, key = texts(sent), texts(sent).get("key", "")
    file, pasted = sent.get("file"), given.get("pasted", "")
    if isinstance(file, UploadFile) and file.filename:
        key = staged.keep(file.filename, file.file.read(), name)
    elif pasted.strip() and not key:
        key = staged.keep("pasted table.csv", pasted.encode(), name)
    upload = staged.get(key, name)
    if upload is None:
        raise InputError("Choose a file or paste a table first.")
    with study_of(request, name) as found:
        seen = preview_upload(found, upload, given)
        before = found.store.head(name).digest
    part = "preview.html" if request.headers.get("hx-request") else "preview_page.html"
    return page(
        request, part, study=name, at=address_of(name), key=key, seen=seen, given=given, roles=ROLES, before=before
    )


@router.post("/studies/{name}/record", UPLOAD)
def record(request: Request, name: str, sent: FormData) -> Response:
    """Record a previewed file, unless the study has changed since."""
    staged: StagedUploads = request.app.state.staged
    given = texts(sent)
    key = given.get("key", "")
    upload = staged.get(key, name)
    if upload is None:
        raise InputError("The file is not here any more, or it is recorded already. Nothing was recorded now.")
    with study_of(request, name) as found:
        found.key, found.expected = key, given.get("before", "")
        try:
            found.tell(upload, round_over=given.get("round_over", "").strip() or None, **read_options(given))
        except ConflictError:
            found.expected = None
            last = found.store.recent(name)[-1]
            seen = preview_upload(found, upload, given)
            moved = f"Meanwhile {last.by} wrote to this study. Nothing of yours was recorded"
            if seen.error:  # it cannot be recorded any more: one sentence says all
                seen, moved = seen._replace(error=f"{moved}. {seen.error.removesuffix(' Nothing was changed.')}"), ""
            else:
                moved += ": look at it again."
            more = {"key": key, "seen": seen, "given": given, "roles": ROLES, "before": last.digest, "moved": moved}
            return page(request, "preview_page.html", 409, study=name, at=address_of(name), **more)
    staged.forget(key)
    return RedirectResponse(f"{address_of(name)}?recorded=1", status_code=303)


def read_options(given: dict[str, str]) -> TellKeywords:
    """The options of `tell` that a form gives."""
    named = {role: given[f"column_{role}"] for role in ROLES if given.get(f"column_{role}")}
    return TellKeywords(
        columns=Columns(**named) if named else None,
        ignore_arms="*" if given.get("others") else (),
        missing=given.get("missing", "").strip() or None,
        cumulative=given.get("counts_as") == "cumulative",
        new=given.get("counts_as") == "new",
        average_ids=bool(given.get("average_ids")),
    )


def preview_upload(study: Study, upload: Upload, given: dict[str, str]) -> UploadPreview:
    """Preview a file; an error is part of the preview."""
    state = study.state
    settings, error = state.spec, ""
    read: list[Results] = []
    after: Report | None = None
    try:
        words = read_options(given)
        looked = preview_columns(upload, settings.arms, settings.noise, settings.columns, TellOptions(**words))
        read, after = study.preview(upload, round_over=given.get("round_over", "").strip() or None, **words)
    except RoundwiseError as refused:
        error = str(refused)
        looked = preview_columns(upload, settings.arms, settings.noise, settings.columns, TellOptions())
    chosen = {role: given.get(f"column_{role}") or looked.taken.get(role, "") for role in ROLES}
    if not read or after is None:
        return UploadPreview(upload.shown_as, looked, chosen, error, [], 0, 0, 0, [], [], False)
    (results,) = read
    asked = state.open_round
    rows = []
    for i, name in enumerate(settings.arms):
        n, lost = int(results.counts[i]), 0 if results.missing is None else int(results.missing[i])
        if n or lost:
            mean = after.units.value(results.totals[i] / n, "near") if n else "-"
            to_come = 0 if asked is None else after.remaining.get(name, 0)
            rows.append(ArmPreview(name, n, mean, lost, to_come))
    return UploadPreview(
        file=upload.shown_as,
        looked=looked,
        chosen=chosen,
        error="",
        rows=rows,
        total=int(results.counts.sum()),
        skipped=results.skipped,
        missing=0 if results.missing is None else int(results.missing.sum()),
        notes=[each.text for each in results.notes],
        changes=_changes(study, after),
        complete=not after.remaining,
    )


def _changes(study: Study, after: Report) -> list[str]:
    """What would change, in sentences."""
    before = study.status()
    was = {each.name: each.place for each in before.arm_rows}
    shown = {each.claim for each in before.claim_rows if each.shown}
    said = []
    if after.remaining:
        left = sum(after.remaining.values())
        said.append(
            f"{count(left)} results of the open round would still be to come; evidence moves when they are here."
        )
    elif before.remaining:
        said.append(f"Round {after.rounds} would be complete, and count.")
    out = [each.name for each in after.arm_rows if each.place == "out" and was.get(each.name) != "out"]
    if out:
        said.append(f"Out from then on: {', '.join(out)}.")
    new = [each.claim for each in after.claim_rows if each.shown and each.claim not in shown and each.arm is None]
    said += [f"Shown from then on: {each}." for each in new[:5]]
    if after.status != before.status or after.headline != before.headline:
        said.append(f"The headline would be: {sentence(after.headline)}")
    said += [f"Red: {each}" for each in after.dangers if each not in before.dangers]
    return said or ["Nothing else would change."]
