"""The REST API, `/api/v1`: read and write endpoints, and their OpenAPI description. Studies and arms are named, never
numbered. Every request that records may have an `Idempotency-Key`: sent again, it records nothing and is answered as
before; with another request the key is refused. What records has threads of its own, so that nobody who looks holds up
a result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, FastAPI, File, Form, Header, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.datastructures import State

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.deadline import Deadline
from roundwise.errors import DataError
from roundwise.ingest import Results
from roundwise.messages import Remedy
from roundwise.report import Report
from roundwise.report.export import TABLES
from roundwise.report.model import list_events
from roundwise.store.log import format_time, log_lines, parse_log
from roundwise.store.remote import segment
from roundwise.study import Round, Study
from roundwise.study.audit import import_entries, list_studies
from roundwise.study.study import create_from_spec
from roundwise.web.bodies import (
    AmendBody,
    ArmBody,
    Body,
    BudgetBody,
    DesignBody,
    EmptyBody,
    Name,
    NewPlan,
    NewStudy,
    NoteBody,
    ProblemDetails,
    ReasonBody,
    RowsBody,
    TellBody,
    describe_mistake,
    parse_options,
)
from roundwise.web.events import ChangeFeed, RecordChange
from roundwise.web.rendering import HANDLERS, page, respond_with_error
from roundwise.web.reports import FORMATS, attach_file, reports_of
from roundwise.web.security import MANAGE, UPLOAD, VIEW, check_role, study_of
from roundwise.web.uploads import Table, Upload, on_disk
from roundwise.web.workers import CLIENTS, FORECAST, SLOW, WRITERS, run_by

PROBLEMS = {
    400: "The request was not understood.",
    401: "A token is needed.",
    403: "The token does not allow this, or the request comes from another site.",
    404: "There is no such study.",
    409: "Someone else was first, the name is taken, or no round is open. Nothing was changed.",
    413: "The request is too large.",
    421: "The server has another name.",
    422: "It was not accepted; the sentence says why. Nothing was changed.",
    503: "The storage does not answer.",
}
PROBLEM = {"application/problem+json": {"schema": ProblemDetails.model_json_schema()}}
GROUPS = {
    "studies": "Studies",
    "rounds": "Rounds: ask and tell",
    "changes": "Changes",
    "record": "The record",
    "events": "Events",
}
ONE = "/studies/{name}"
router = APIRouter(prefix="/api/v1")
Handler = Callable[..., Any]


async def _repeatable(
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="Drawn anew for each request; the same one is recorded once.")
    ] = None,
    if_match: Annotated[
        str | None, Header(max_length=200, description="The ETag last seen: refused if the study has moved on.")
    ] = None,
) -> None:
    """Headers of everything that records in a study; `study_of` reads them."""


def endpoint(
    method: str, path: str, role: str, group: str, by: CapacityLimiter | None = None, **more: Any
) -> Callable[[Handler], Handler]:
    """Register a handler for requests with this role.

    Args:
        method: GET, POST or DELETE.
        path: Its address below `/api/v1`.
        role: The role that is needed.
        group: The heading of `GROUPS` under which it is described.
        by: The threads in which it runs (None: those of readers); coroutines run in the event loop.
        more: Settings of `APIRouter.add_api_route`.
    """

    async def allowed(request: Request) -> None:
        check_role(request, role)

    def register(handler: Handler) -> Handler:
        async def run(**words: Any) -> Any:
            return await run_by(by, partial(handler, **words), words["request"])

        run.__signature__ = inspect.signature(handler, eval_str=True)  # type: ignore[attr-defined]
        run.__name__, run.__doc__ = handler.__name__, handler.__doc__
        headers = [Depends(_repeatable)] if by is WRITERS and path.startswith(ONE) else []
        router.add_api_route(
            path,
            handler if inspect.iscoroutinefunction(handler) else run,
            methods=[method],
            tags=[group],
            dependencies=[Depends(allowed), *headers],
            **more,
        )
        return handler

    return register


get, post = partial(endpoint, "GET"), partial(endpoint, "POST")


def answers(kind: str | Iterable[str], words: str) -> Plain:
    """The settings of an endpoint that answers with something else than JSON."""
    kinds = [kind] if isinstance(kind, str) else kind
    described = {200: {"content": {each.partition(";")[0]: {} for each in kinds}, "description": words}}
    return {"response_class": Response, "responses": described}


# --- what looks


@get("/studies", VIEW, "studies")
def studies(request: Request) -> list[Plain]:
    """All studies: where each stands."""
    return list_studies(request.app.state.storage)


@get(ONE, VIEW, "studies")
def status(request: Request, response: Response, name: Name) -> Plain:
    """Where a study stands, without bounds: the answer or the shortlist, what is still to come, what is open.

    `ETag` is the digest of its last entry: sent back as `If-Match`, a request is refused if the study has moved on.
    """
    with study_of(request, name) as study:
        report = reports_of(request).brief(study)
    response.headers["etag"] = f'"{report.digest}"'
    return report.plain()


@get(f"{ONE}/forecast", VIEW, "studies", SLOW)
def forecast(request: Request, name: Name) -> Plain:
    """The forecast of the rest in one line; null where there is none."""
    with study_of(request, name) as study:
        return {"study": name, "forecast": reports_of(request).forecast(study) or None}


@get(f"{ONE}/report", VIEW, "studies", SLOW, **answers(FORMATS.values(), "The report."))
def report(
    request: Request,
    name: Name,
    form: Annotated[Literal["json", "html", "md", "txt", "pdf", "xlsx", "csv"], Query(alias="format")] = "json",
    table: Annotated[str, Query(description=f"Of a CSV file: {', '.join(TABLES)}.")] = "arms",
) -> Response:
    """Everything there is to say, with bounds: as JSON, a page, PDF, Excel, CSV, Markdown or text."""
    with study_of(request, name) as study:
        content = reports_of(request).file(study, form, table)
    return Response(content, media_type=FORMATS[form]) if form in ("json", "html") else attach_file(content, name, form)


@get(f"{ONE}/log", VIEW, "record")
def log(request: Request, name: Name) -> list[Plain]:
    """The log: every entry of the record with time, author, file and rows."""
    with study_of(request, name) as study:
        return [each.plain() for each in list_events(study.entries())]


@get(f"{ONE}/verify", VIEW, "record", SLOW)
def verify(request: Request, name: Name) -> Plain:
    """Compute everything again from the record, and list where the outcome differs from what was recorded."""
    with study_of(request, name) as study:
        return reports_of(request).audit(study).plain()


@get(f"{ONE}/head", VIEW, "record", CLIENTS)
def head(request: Request, name: Name) -> Plain:
    """Where the record ends."""
    with study_of(request, name) as study:
        found = study.store.head(name)
    return {"study": name, **vars(found), "changed": format_time(found.changed)}


@get(f"{ONE}/record", VIEW, "record", CLIENTS, **answers("application/jsonl", "JSON lines."))
def record(
    request: Request,
    name: Name,
    after: Annotated[int, Query(ge=-1, description="Only what follows this entry.")] = -1,
    recent: Annotated[bool, Query(description="The first entry, and those from the last checkpoint on.")] = False,
    key: Annotated[str | None, Query(max_length=300, description="What has this key.", include_in_schema=False)] = None,
) -> Response:
    """The record itself, as `roundwise export` writes it: with it, anyone can check and recompute everything."""
    with study_of(request, name) as study:
        store = study.store
        found = store.find(name, key) if key else store.recent(name) if recent else store.read(name, after)
    return Response("".join(log_lines(found, name)), media_type="application/jsonl")


@get(f"{ONE}/effect", VIEW, "changes")
def effect(
    request: Request,
    name: Name,
    what: Literal[
        "drop",
        "add",
        "relax",
        "extend",
        "redesign",
        "import_past",
        "reopen",
        "remove",
        "note",
        "end",
        "close_round",
        "amend",
    ],
    arm: Annotated[str, Query(max_length=1000)] = "",
    unrelated: bool = False,
    budget: Annotated[int | None, Query(ge=1, lt=2**53)] = None,
    lead: Annotated[str | None, Query(max_length=100)] = None,
    looks: Annotated[int | None, Query(ge=1, le=100)] = None,
) -> Plain:
    """The effect of a change on the guarantee, in one sentence; an error if it is impossible."""
    words: Plain = {}
    if what in ("drop", "add"):
        words = {"arm": arm, "why": "asked beforehand", "unrelated": unrelated}
    elif what == "extend":
        words = {"budget": budget or 1}
    elif what == "redesign":
        words = {"budget": budget, "lead": lead, "looks": looks}
    with study_of(request, name) as study:
        return {"study": name, "what": what, "effect": study.effect(what, **words)}


FILE = "CSV, Excel, Parquet, JSON; also compressed."
PlanOptions = Annotated[str, Form(max_length=1_000_000, description="The settings of `POST /plan` as JSON.")]


@post("/plan", UPLOAD, "studies", SLOW)
def planned(request: Request, body: NewPlan) -> Response:
    """A plan: results, rounds, days, cost and recommended settings. Nothing is recorded."""
    return _plan(body)


@post("/plan/pilot", UPLOAD, "studies", SLOW)
def planned_from_past(
    request: Request, file: Annotated[UploadFile, File(description=FILE)], options: PlanOptions = "{}"
) -> Response:
    """The same from past results, which say what the settings leave open. Nothing is kept of them."""
    with on_disk("", [file]) as (source,):
        return _plan(parse_options(NewPlan, options), source)


def _plan(body: NewPlan, pilot: object = None) -> Response:
    from roundwise.planning.fixed_designs import check_size
    from roundwise.planning.planner import plan_request  # it takes a while, and the server should be up soon

    with Deadline(FORECAST).applied():
        wanted = body.request(pilot)
        check_size(wanted.question, len(wanted.arms))
        found = plan_request(wanted, body.quick)
    return Response(found.json(), media_type="application/json")


STREAM = answers("text/event-stream", "Events `changed`: a study, its entries, its digest.")


@get("/events", VIEW, "events", **STREAM)
async def every(request: Request) -> Response:
    """A stream of changes in all studies."""
    return StreamingResponse(request.app.state.changes.listen(), media_type="text/event-stream")


@get(f"{ONE}/events", VIEW, "events", **STREAM)
async def one(request: Request, name: Name) -> Response:
    """A stream of one study: its state now, and an event whenever its record grows."""

    def stands() -> RecordChange:
        with study_of(request, name) as study:
            end = study.store.head(name)
        return RecordChange(name, end.entries, end.digest)

    first = await run_by(None, stands)
    return StreamingResponse(request.app.state.changes.listen(first), media_type="text/event-stream")


# --- what records

Files = Annotated[list[UploadFile], File(alias="file", description=FILE)]
Options = Annotated[str, Form(max_length=100_000, description="Options of `tell` for the files, as JSON.")]


@post("/studies", MANAGE, "studies", WRITERS, status_code=201)
def create(request: Request, response: Response, body: NewStudy) -> Plain:
    """A new study."""
    with create_from_spec(body.name, body.spec(), request.app.state.storage) as study:
        response.headers["location"] = f"/api/v1/studies/{segment(body.name)}"
        return _stands(study, study.status())


JSON_LINES = {"required": True, "content": {"application/jsonl": {"schema": {"type": "string"}}}}


@post("/records", MANAGE, "record", status_code=201, openapi_extra={"requestBody": JSON_LINES})
async def take_in(request: Request) -> Plain:
    """Take in a whole record, as `roundwise export` wrote it; its chain of digests is checked, and it is replayed."""
    content = await request.body()

    def take() -> Plain:
        try:
            text = content.decode("utf-8-sig").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise DataError("The request is not text.", Remedy("Send what {@export} wrote.")) from None
        listing = import_entries(parse_log("The request", text)[1], request.app.state.storage)
        return {"study": listing.name, "entries": listing.entries}

    return await run_by(WRITERS, take)


@endpoint("DELETE", ONE, MANAGE, "changes", WRITERS, status_code=204)
def remove(request: Request, name: Name) -> None:
    """Forget a study that has no results; its name is free again."""
    with study_of(request, name) as study:
        study.remove()


@post(f"{ONE}/ask", UPLOAD, "rounds", WRITERS)
def ask(request: Request, name: Name, body: EmptyBody | None = None) -> Plain:
    """The round to do next: the same one until it is complete or closed; `round` is null once the study is over."""
    with study_of(request, name) as study:
        return _describe_round(study.ask()) | _stands(study, study.status())


@post(f"{ONE}/results", UPLOAD, "rounds", WRITERS)
def tell(request: Request, name: Name, body: RowsBody) -> Plain:
    """Record results that are in the request."""
    with study_of(request, name) as study:
        return _stands(study, study.tell(body.table(), round_over=body.round_over, **body.words()))


@post(f"{ONE}/files", UPLOAD, "rounds", WRITERS)
def tell_files(request: Request, name: Name, files: Files = [], options: Options = "{}") -> Plain:  # noqa: B006
    """Record results in files: all of them, or none."""
    said = parse_options(TellBody, options)
    with on_disk(name, files) as sources, study_of(request, name) as study:
        return _stands(study, study.tell(*sources, round_over=said.round_over, **said.words()))


@post(f"{ONE}/results/preview", UPLOAD, "rounds", WRITERS)
def preview(request: Request, name: Name, body: RowsBody) -> Plain:
    """Preview the effect of recording results in the request; nothing is recorded."""
    with study_of(request, name) as study:
        return _preview(study, [body.table()], body)


@post(f"{ONE}/files/preview", UPLOAD, "rounds", WRITERS)
def preview_files(request: Request, name: Name, files: Files, options: Options = "{}") -> Plain:
    """Preview the effect of recording files; nothing is recorded."""
    said = parse_options(TellBody, options)
    with on_disk(name, files) as sources, study_of(request, name) as study:
        return _preview(study, sources, said)


@post(f"{ONE}/amend", MANAGE, "changes", WRITERS)
def amend(
    request: Request,
    name: Name,
    options: Annotated[str, Form(max_length=100_000, description='JSON: {"file": ..., "why": ...}.')],
    file: Annotated[
        UploadFile | None, File(description="The corrected file; without it the old one is withdrawn.")
    ] = None,
) -> Plain:
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    said = parse_options(AmendBody, options)
    with on_disk(name, [] if file is None else [file]) as sources, study_of(request, name) as study:
        return _stands(study, study.amend(said.file, sources[0] if sources else None, said.why, **said.words()))


@post(f"{ONE}/import-past", MANAGE, "changes", WRITERS)
def import_past(request: Request, name: Name, file: Annotated[UploadFile, File(description=FILE)]) -> Plain:
    """Import earlier data before the first results: they guide the allocation, and are not evidence."""
    with on_disk(name, [file]) as sources, study_of(request, name) as study:
        return _stands(study, study.import_past(sources[0]))


def _add_verb(verb: Callable[..., Report], body_type: type[Body], role: str, group: str, words: str) -> None:
    """Register a method of a study whose arguments are the fields of a request."""

    def handler(request: Request, name: Name, body: Body) -> Plain:
        with study_of(request, name) as study:
            return _stands(study, verb(study, **body.model_dump()))

    handler.__name__, handler.__doc__ = verb.__name__, words
    handler.__annotations__["body"] = body_type
    post(f"{ONE}/{verb.__name__.replace('_', '-')}", role, group, WRITERS)(handler)


for verb in (
    (Study.close_round, ReasonBody, UPLOAD, "rounds", "Count the open round although results are missing."),
    (Study.drop, ArmBody, MANAGE, "changes", "Leave an arm out from here on."),
    (Study.add, ArmBody, MANAGE, "changes", "Take in one more arm."),
    (
        Study.relax,
        ReasonBody,
        MANAGE,
        "changes",
        "Continue with the large-sample model (once) after rows contradicted the noise model.",
    ),
    (Study.extend, BudgetBody, MANAGE, "changes", "Allow more results (or fewer) than were planned."),
    (
        Study.redesign,
        DesignBody,
        MANAGE,
        "changes",
        "Design it anew from here on: for a budget and a lead, or for none.",
    ),
    (Study.note, NoteBody, UPLOAD, "changes", "Record a remark; it does not affect the guarantee."),
    (Study.end, ReasonBody, MANAGE, "changes", "End it before it is decided; what was not ruled out is reported."),
    (Study.reopen, ReasonBody, MANAGE, "changes", "Go on with a study that was closed undecided."),
):
    _add_verb(*verb)


def _stands(study: Study, report: Report) -> Plain:
    return report.plain() | {"digest": study.store.head(study.name).digest}


def _by_arm(arms: Sequence[str], numbers: Iterable[float]) -> dict[str, int]:
    return {arm: int(n) for arm, n in zip(arms, numbers, strict=True)}


def _describe_round(asked: Round | None) -> Plain:
    """A round by the names of its arms: what is asked for, and the shares of what is still to come."""
    if asked is None:
        return {"round": None, "asked": {}, "shares": {}}
    to_come = asked.outstanding / (asked.outstanding.sum() or 1.0)
    shares = dict(zip(asked.arms, to_come.tolist(), strict=True))
    return {"round": asked.number, "asked": _by_arm(asked.arms, asked.pulls), "shares": shares}


def _preview(study: Study, sources: Sequence[Upload | Table], said: TellBody) -> Plain:
    read, after = study.preview(*sources, round_over=said.round_over, **said.words())
    files = [_describe_results(each, study.state.spec.arms) for each in read]
    return {"study": study.name, "files": files, "after": after.plain()}


def _describe_results(results: Results, arms: Sequence[str]) -> Plain:
    return {
        "name": results.name,
        "rows": results.rows,
        "results": _by_arm(arms, results.counts),
        "missing": _by_arm(arms, [0] * len(arms) if results.missing is None else results.missing),
        "skipped": results.skipped,
        "contradicts": None if results.contradicted is None else results.contradicted.plain(),
        "notes": [each.plain() for each in results.notes],
        "sha256": results.digest,
    }


# --- the application, and its description


def build_api(state: State) -> FastAPI:
    """The API over what the pages have, too."""
    app = FastAPI(
        title="roundwise",
        version=__version__,
        summary="Plan, run and watch studies whose results come in rounds.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses={status: {"description": words, "content": PROBLEM} for status, words in PROBLEMS.items()},
        exception_handlers={**HANDLERS, RequestValidationError: _not_understood},
    )
    app.state = state
    state.changes = ChangeFeed(state.storage)
    app.include_router(router)
    return app


async def _not_understood(request: Request, error: RequestValidationError) -> Response:
    return respond_with_error(request, 422, describe_mistake(error.errors()[0]))


@get("/docs", VIEW, "studies", include_in_schema=False)
def docs(request: Request) -> Response:
    """The API documentation as a page."""
    return page(request, "api.html", schema=request.app.openapi(), groups=GROUPS)
