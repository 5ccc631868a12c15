"""The REST API, `/api/v1`, as far as it looks: lists, reports, records, plans. `verbs` has what records."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from roundwise.arrays import Plain
from roundwise.deadline import Deadline
from roundwise.report.export import TABLES
from roundwise.report.model import list_events
from roundwise.store.log import lines, stamp
from roundwise.study.audit import list_studies
from roundwise.web.bodies import UPLOAD, VIEW, Name, NewPlan, ProblemDetails
from roundwise.web.reports import FORMATS, attach_file, reports_of
from roundwise.web.security import study_of
from roundwise.web.workers import CLIENTS, FORECAST, SLOW, by

SAID: dict[int | str, Plain] = {
    status: {
        "description": words,
        "content": {"application/problem+json": {"schema": ProblemDetails.model_json_schema()}},
    }
    for status, words in {
        400: "The request was not understood.",
        401: "A token is needed.",
        403: "The token does not allow this, or the request comes from another site.",
        404: "There is no such study.",
        409: "Somebody else was first, the name is taken, or no round is open. Nothing was changed.",
        413: "The request is too large.",
        421: "The server has another name.",
        422: "It was not accepted; the sentence says why. Nothing was changed.",
        503: "The storage does not answer.",
    }.items()
}
router = APIRouter(prefix="/api/v1", responses=SAID)

Form = Literal["json", "html", "md", "txt", "pdf", "xlsx", "csv"]
FILES: dict[int | str, Plain] = {
    200: {"content": {kind.partition(";")[0]: {} for kind in FORMATS.values()}, "description": "The report."}
}
LINES: dict[int | str, Plain] = {200: {"content": {"application/jsonl": {}}, "description": "JSON lines."}}


@router.get("/studies", dependencies=[VIEW], tags=["studies"])
@by(None)
def studies(request: Request) -> list[Plain]:
    """All studies: where each stands."""
    return list_studies(request.app.state.storage)


@router.get("/studies/{name}", dependencies=[VIEW], tags=["studies"])
@by(None)
def status(request: Request, response: Response, name: Name) -> Plain:
    """Where a study stands, without bounds: the answer or the shortlist, what is still to come, what is open.

    `ETag` is the digest of its last entry: sent back as `If-Match`, a request is refused if the study has moved on.
    """
    with study_of(request, name) as study:
        report = reports_of(request).brief(study)
    response.headers["etag"] = f'"{report.digest}"'
    return report.plain()


@router.get("/studies/{name}/forecast", dependencies=[VIEW], tags=["studies"])
@by(SLOW)
def forecast(request: Request, name: Name) -> Plain:
    """What it will still take, in one line; null where nothing can be said."""
    with study_of(request, name) as study:
        return {"study": name, "forecast": reports_of(request).forecast(study) or None}


@router.get(
    "/studies/{name}/report", dependencies=[VIEW], response_class=Response, responses=SAID | FILES, tags=["studies"]
)
@by(SLOW)
def report(
    request: Request,
    name: Name,
    form: Annotated[Form, Query(alias="format")] = "json",
    table: Annotated[str, Query(description=f"Of a CSV file: {', '.join(TABLES)}.")] = "arms",
) -> Response:
    """Everything there is to say, with bounds: as JSON, a page, PDF, Excel, CSV, Markdown or text."""
    with study_of(request, name) as study:
        content = reports_of(request).file(study, form, table)
    return Response(content, media_type=FORMATS[form]) if form in ("json", "html") else attach_file(content, name, form)


@router.get("/studies/{name}/log", dependencies=[VIEW], tags=["record"])
@by(None)
def log(request: Request, name: Name) -> list[Plain]:
    """What happened: every entry of the record, when, by whom, which file, how many rows."""
    with study_of(request, name) as study:
        return [each.plain() for each in list_events(study.entries())]


@router.get("/studies/{name}/verify", dependencies=[VIEW], tags=["record"])
@by(SLOW)
def verify(request: Request, name: Name) -> Plain:
    """Compute everything again from the record, and list what comes out otherwise than it was recorded."""
    with study_of(request, name) as study:
        audit = reports_of(request).audit(study)
    return {
        "study": name,
        "entries": audit.entries,
        "digest": audit.digest,
        "sound": audit.sound,
        "plans": audit.plans,
        "counts": audit.counts,
        "verdicts": audit.verdicts,
        "differences": [each._asdict() for each in audit.differences],
    }


@router.get("/studies/{name}/head", dependencies=[VIEW], tags=["record"])
@by(CLIENTS)
def head(request: Request, name: Name) -> Plain:
    """Where the record ends."""
    with study_of(request, name) as study:
        found = study.store.head(name)
    return {
        "study": name,
        "entries": found.entries,
        "digest": found.digest,
        "changed": stamp(found.changed),
        "checkpoint": found.checkpoint,
    }


@router.get(
    "/studies/{name}/record", dependencies=[VIEW], response_class=Response, responses=SAID | LINES, tags=["record"]
)
@by(CLIENTS)
def record(
    request: Request,
    name: Name,
    after: Annotated[int, Query(ge=-1, description="Only what follows this entry.")] = -1,
    recent: Annotated[bool, Query(description="The first entry, and those from the last checkpoint on.")] = False,
    key: Annotated[str | None, Query(max_length=300, description="What has this key.", include_in_schema=False)] = None,
) -> Response:
    """The record itself, as `roundwise export` writes it: whoever has it can check and compute everything again."""
    with study_of(request, name) as study:
        store = study.store
        found = store.find(name, key) if key else store.recent(name) if recent else store.read(name, after)
    return Response("".join(lines(found, name)), media_type="application/jsonl")


@router.get("/studies/{name}/effect", dependencies=[VIEW], tags=["changes"])
@by(None)
def effect(
    request: Request,
    name: Name,
    what: Literal["drop", "add", "extend", "import_past", "reopen", "remove", "note", "end", "close_round", "amend"],
    arm: Annotated[str, Query(max_length=1000)] = "",
    unrelated: bool = False,
    budget: Annotated[int, Query(ge=1, lt=2**53)] = 1,
) -> Plain:
    """What a change would do to the guarantee, in one sentence; an error where it cannot be done."""
    words: Plain = {}
    if what in ("drop", "add"):
        words = {"arm": arm, "why": "asked beforehand", "unrelated": unrelated}
    elif what == "extend":
        words = {"budget": budget}
    with study_of(request, name) as study:
        return {"study": name, "what": what, "effect": study.effect(what, **words)}


@router.post("/plan", dependencies=[UPLOAD], tags=["studies"])
@by(SLOW)
def planned(request: Request, body: NewPlan) -> Response:
    """What a study will take: results, rounds, days and cost, and the settings to use. Nothing is recorded."""
    from roundwise.planning.fixed_designs import check_size
    from roundwise.planning.planner import plan_request  # it takes a while, and the server should be up soon

    wanted = body.request()
    check_size(wanted.question, len(wanted.arms))
    with Deadline(FORECAST).applied():
        found = plan_request(wanted, body.quick)
    return Response(found.json(), media_type="application/json")
