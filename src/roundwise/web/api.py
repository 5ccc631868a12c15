"""The REST API, `/api/v1`: create, ask, tell, look, change and end studies. Names, not indices, everywhere."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Header, HTTPException, Query, Request, UploadFile
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from roundwise.errors import InputError
from roundwise.spec import made
from roundwise.studies import Study, create_study, load_study
from roundwise.studies.listing import list_studies
from roundwise.web.problems import problem
from roundwise.web.security import ROLES

_PROBLEM: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {"application/problem+json": {}}}
    for status, words in {
        400: "The request was not understood.",
        401: "A token is needed.",
        403: "The token does not allow this.",
        404: "There is no such study.",
        409: "Somebody else was first, or the name is taken.",
        413: "The request is too large.",
        422: "It was not accepted; the sentence says why. Nothing was changed.",
        503: "The storage does not answer.",
    }.items()
}
router = APIRouter(prefix="/api/v1", responses=_PROBLEM)

Plain = dict[str, Any]


def allowed(role: str) -> Callable[[Request], None]:
    """A dependency: the request must have this role at least."""

    def check(request: Request) -> None:
        mine = request.state.role
        if mine is None or ROLES.index(mine) < ROLES.index(role):
            raise HTTPException(403, f"This needs a token that may {role}; yours may {mine or 'do nothing'}.")

    return check


LOOK, HAND_IN, CHANGE = (Depends(allowed(role)) for role in ROLES)


def study_of(request: Request, name: str) -> Study:
    """A study of the server's storage."""
    return load_study(name, request.app.state.storage)


class Body(BaseModel):
    """A request body: what is not known is refused, so that a misspelt word does not go unheard."""

    model_config = ConfigDict(extra="forbid")


class NewStudy(Body):
    """What is fixed when a study is created: the words of `roundwise new`."""

    name: str = Field(min_length=1, max_length=200, examples=["checkout"])
    question: Plain = Field(examples=[{"name": "best-arm"}])
    arms: list[str] = Field(min_length=2, examples=[["Control", "Big button", "Guest checkout"]])
    noise: Plain = Field(examples=[{"name": "binary"}])
    delta: float = 0.05
    policy: Plain = Field(default_factory=lambda: {"name": "wager"})
    max_batch: float | None = None
    min_per_arm: float = 0.0
    budget: int | None = None


class Rows(Body):
    """Results in a request: rows of a table by column, under the study's names of columns."""

    rows: list[dict[str, str | float | int | bool | None]] = Field(
        min_length=1, examples=[[{"arm": "Control", "outcome": 1}]]
    )
    name: str = Field(default="rows of the API", max_length=200)


class Reason(Body):
    """Why something is done; it is recorded."""

    why: str = Field(min_length=1, max_length=2000)


class OneArm(Body):
    """A change of one arm."""

    arm: str
    why: str = Field(default="", max_length=2000)


class Budget(Body):
    """A new budget."""

    budget: int = Field(ge=1)


class Text(Body):
    """A note."""

    text: str = Field(min_length=1, max_length=2000)


class Correction(Body):
    """A file that was told, withdrawn; or corrected, with its rows."""

    file: str
    why: str = Field(min_length=1, max_length=2000)
    rows: list[dict[str, str | float | int | bool | None]] | None = None


@router.get("/studies", dependencies=[LOOK])
def studies(request: Request) -> list[Plain]:
    """All studies, where each stands."""
    return list_studies(request.app.state.storage)


@router.post("/studies", status_code=201, dependencies=[CHANGE])
def create(request: Request, body: NewStudy) -> Plain:
    """A new study."""
    with create_study(
        body.name,
        question=made("question", body.question),
        arms=body.arms,
        noise=made("noise", body.noise),
        delta=body.delta,
        policy=made("policy", body.policy),
        max_batch=body.max_batch,
        min_per_arm=body.min_per_arm,
        budget=body.budget,
        storage=request.app.state.storage,
    ) as study:
        return study.status().plain()


@router.get("/studies/{name}", dependencies=[LOOK])
def status(request: Request, name: str) -> Plain:
    """Where a study stands."""
    with study_of(request, name) as study:
        return study.status().plain()


@router.get("/studies/{name}/report", dependencies=[LOOK], response_class=Response)
def report(
    request: Request,
    name: str,
    form: Annotated[str, Query(alias="format", pattern="^(json|html|md|txt|pdf|xlsx|csv)$")] = "json",
) -> Response:
    """Everything there is to say, with intervals."""
    with study_of(request, name) as study:
        content, kind = study.report().written(form)
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
    shown = {"content-disposition": f'attachment; filename="{safe}.{form}"'} if form not in ("json", "html") else {}
    return Response(content, media_type=kind, headers=shown)


@router.post("/studies/{name}/ask", dependencies=[HAND_IN])
def ask(request: Request, name: str) -> Plain:
    """The round to do next: the same one until its results are there; `round` is null once the study is over."""
    with study_of(request, name) as study:
        asked = study.ask()
        if asked is None:
            return {"study": name, "round": None, "status": study.status().plain()}
        return {"study": name, **asked.plain()}


@router.post("/studies/{name}/results", dependencies=[HAND_IN])
def tell(
    request: Request,
    name: str,
    body: Rows,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Plain:
    """Record rows. The same `Idempotency-Key` again records nothing and gives the same answer."""
    with study_of(request, name) as study:
        return study.tell(columns_of(body.rows), key=idempotency_key).plain()


@router.post("/studies/{name}/files", dependencies=[HAND_IN])
def tell_file(
    request: Request,
    name: str,
    file: Annotated[UploadFile, File()],
    options: Annotated[str, Form(description="Options of `tell` as JSON.")] = "{}",
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Plain:
    """Record a file (CSV, Excel, Parquet, JSON lines)."""
    with study_of(request, name) as study:
        return study.tell(upload(file), key=idempotency_key, **told_options(options)).plain()


@router.post("/studies/{name}/preview", dependencies=[HAND_IN])
def preview(
    request: Request, name: str, file: Annotated[UploadFile, File()], options: Annotated[str, Form()] = "{}"
) -> Plain:
    """What recording a file would do; nothing is recorded."""
    with study_of(request, name) as study:
        read, after = study.preview(upload(file), **told_options(options))
    return {"files": [each.summary() for each in read], "status": after.plain()}


@router.post("/studies/{name}/amend", dependencies=[CHANGE])
def amend(request: Request, name: str, body: Correction) -> Plain:
    """Correct or withdraw what a file brought, with a reason."""
    with study_of(request, name) as study:
        rows = None if body.rows is None else columns_of(body.rows)
        return study.amend(body.file, rows, body.why).plain()


@router.post("/studies/{name}/close-round", dependencies=[HAND_IN])
def close_round(request: Request, name: str, body: Reason) -> Plain:
    """Count the open round although results are missing."""
    with study_of(request, name) as study:
        return study.close_round(body.why).plain()


@router.post("/studies/{name}/end", dependencies=[CHANGE])
def end(request: Request, name: str, body: Reason) -> Plain:
    """End the study; what has not been ruled out is reported."""
    with study_of(request, name) as study:
        return study.end(body.why).plain()


@router.post("/studies/{name}/reopen", dependencies=[CHANGE])
def reopen(request: Request, name: str, body: Reason) -> Plain:
    """Go on with a study that was ended undecided."""
    with study_of(request, name) as study:
        return study.reopen(body.why).plain()


@router.post("/studies/{name}/drop", dependencies=[CHANGE])
def drop(request: Request, name: str, body: OneArm) -> Plain:
    """Take an option out."""
    with study_of(request, name) as study:
        return study.drop(body.arm, body.why).plain()


@router.post("/studies/{name}/add", dependencies=[CHANGE])
def add(request: Request, name: str, body: OneArm) -> Plain:
    """Add an option."""
    with study_of(request, name) as study:
        return study.add(body.arm, body.why).plain()


@router.post("/studies/{name}/budget", dependencies=[CHANGE])
def extend(request: Request, name: str, body: Budget) -> Plain:
    """Change the budget."""
    with study_of(request, name) as study:
        return study.extend(body.budget).plain()


@router.post("/studies/{name}/note", dependencies=[HAND_IN])
def note(request: Request, name: str, body: Text) -> Plain:
    """Write a note into the record."""
    with study_of(request, name) as study:
        return study.note(body.text).plain()


@router.get("/studies/{name}/log", dependencies=[LOOK])
def log(request: Request, name: str) -> list[Plain]:
    """Every entry of the record."""
    with study_of(request, name) as study:
        return [each.plain() for each in study.log()]


@router.get("/studies/{name}/verify", dependencies=[LOOK])
def verify(request: Request, name: str) -> Plain:
    """Recompute everything from the record."""
    with study_of(request, name) as study:
        return study.verify().plain()


@router.get("/studies/{name}/events", dependencies=[LOOK], response_class=StreamingResponse)
async def events(request: Request, name: str) -> Response:
    """Server-sent events: one at once, and one whenever the record grows."""

    def head() -> int:
        with study_of(request, name) as study:
            return study.store.head(name)

    first = await run_in_threadpool(head)

    async def stream() -> AsyncIterator[str]:
        last = first
        yield f"event: changed\ndata: {json.dumps({'entries': last})}\n\n"
        while not await request.is_disconnected():
            await asyncio.sleep(1.0)
            now = await run_in_threadpool(head)
            if now != last:
                last = now
                yield f"event: changed\ndata: {json.dumps({'entries': now})}\n\n"
            else:
                yield ": still here\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"], include_in_schema=False)
def nothing(rest: str) -> JSONResponse:
    """What is not there."""
    return problem(404, f"There is no /api/v1/{rest[:100]}. See /api/v1/openapi.json.")


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; what a row does not have is missing."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    return {name: [row.get(name) for row in rows] for name in names}


def upload(file: UploadFile) -> io.BytesIO:
    """An uploaded file as `tell` takes it: its bytes, and its name without folders."""
    content = io.BytesIO(file.file.read())
    content.name = PurePath((file.filename or "upload").replace("\\", "/")).name or "upload"
    return content


def told_options(text: str) -> dict[str, Any]:
    """The options of `tell` from JSON."""
    try:
        options = json.loads(text)
    except ValueError:
        raise InputError('`options` is not JSON. Send an object such as {"cumulative": true}.') from None
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise InputError('`options` must be an object such as {"cumulative": true}.')
    return options
