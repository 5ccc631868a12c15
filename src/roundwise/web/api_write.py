"""The REST API, as far as it records: create, ask, tell, change and end. Names, not indices, everywhere.

Every request may have an `Idempotency-Key`: sent again, it records nothing, and is answered as before; with
another request the key is refused. Each has threads of its own, so that nobody who looks holds up a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, File, Form, Header, Request, UploadFile
from fastapi.responses import Response

from roundwise.arrays import Plain
from roundwise.errors import DataError
from roundwise.formats.readers import COLUMNS
from roundwise.ingest import Results
from roundwise.messages import Remedy
from roundwise.report import Report
from roundwise.store.log import parsed
from roundwise.store.remote import segment
from roundwise.study import Round, Study
from roundwise.study.audit import imported
from roundwise.study.study import create_from_spec
from roundwise.web.api import SAID
from roundwise.web.bodies import (
    MANAGE,
    UPLOAD,
    AmendBody,
    ArmBody,
    Body,
    BudgetBody,
    EmptyBody,
    Name,
    NewStudy,
    NoteBody,
    ReasonBody,
    RowsBody,
    Table,
    TellBody,
    from_text,
    table_from,
)
from roundwise.web.security import study_of
from roundwise.web.uploads import Upload, ending
from roundwise.web.workers import WRITERS, by


async def _repeatable(
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="Drawn anew for each request; the same one is recorded once.")
    ] = None,
    if_match: Annotated[
        str | None, Header(max_length=200, description="The ETag last seen: refused if the study has moved on.")
    ] = None,
) -> None:
    """Headers that every verb has; `study_of` reads them."""


router = APIRouter(prefix="/api/v1", responses=SAID)
verbs = APIRouter(prefix="/api/v1/studies/{name}", responses=SAID, dependencies=[Depends(_repeatable)])

Files = Annotated[list[UploadFile], File(alias="file", description="CSV, Excel, Parquet, JSON; also compressed.")]
OneFile = Annotated[UploadFile, File(description="CSV, Excel, Parquet, JSON; also compressed.")]
MaybeFile = Annotated[UploadFile | None, File(description="The corrected file; without it the old one is withdrawn.")]
Options = Annotated[str, Form(max_length=100_000, description="What is said of the files: options of `tell` as JSON.")]


@router.post("/studies", status_code=201, dependencies=[MANAGE], tags=["studies"])
@by(WRITERS)
def create(request: Request, response: Response, body: NewStudy) -> Plain:
    """A new study."""
    with create_from_spec(body.name, body.spec(), request.app.state.storage) as study:
        response.headers["location"] = f"/api/v1/studies/{segment(body.name)}"
        return _stands(study, study.status())


@router.post(
    "/records",
    status_code=201,
    dependencies=[MANAGE],
    tags=["record"],
    openapi_extra={"requestBody": {"required": True, "content": {"application/jsonl": {"schema": {"type": "string"}}}}},
)
async def take_in(request: Request) -> Plain:
    """Take in a whole record, as `roundwise export` wrote it; its chain of digests is checked, and it is replayed."""
    content = await request.body()

    @by(WRITERS)
    def taken() -> Plain:
        try:
            lines = content.decode("utf-8-sig").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise DataError("The request is not text.", Remedy("Send what {@export} wrote.")) from None
        listing = imported(parsed("The request", lines)[1], request.app.state.storage)
        return {"study": listing.name, "entries": listing.entries}

    return await taken()


@verbs.delete("", status_code=204, dependencies=[MANAGE], tags=["changes"])
@by(WRITERS)
def remove(request: Request, name: Name) -> None:
    """Forget a study that has no results; its name is free again."""
    with study_of(request, name) as study:
        study.remove()


@verbs.post("/ask", dependencies=[UPLOAD], tags=["rounds"])
@by(WRITERS)
def ask(request: Request, name: Name, body: EmptyBody | None = None) -> Plain:
    """The round to do next: the same one until it is complete or closed; `round` is null once the study is over."""
    with study_of(request, name) as study:
        return round_of(study.ask()) | _stands(study, study.status())


@verbs.post("/results", dependencies=[UPLOAD], tags=["rounds"])
@by(WRITERS)
def tell(request: Request, name: Name, body: RowsBody) -> Plain:
    """Record results that are in the request."""
    with study_of(request, name) as study:
        return _stands(study, study.tell(body.table(), round_over=body.round_over, **body.words()))


@verbs.post("/files", dependencies=[UPLOAD], tags=["rounds"])
@by(WRITERS)
def tell_files(request: Request, name: Name, files: Files = [], options: Options = "{}") -> Plain:  # noqa: B006
    """Record results in files: all of them, or none."""
    said = from_text(TellBody, options)
    with _uploaded(name, files) as sources, study_of(request, name) as study:
        return _stands(study, study.tell(*sources, round_over=said.round_over, **said.words()))


@verbs.post("/results/preview", dependencies=[UPLOAD], tags=["rounds"])
@by(WRITERS)
def preview(request: Request, name: Name, body: RowsBody) -> Plain:
    """What recording results that are in the request would bring and change; nothing is recorded."""
    with study_of(request, name) as study:
        return _previewed(study, [body.table()], body)


@verbs.post("/files/preview", dependencies=[UPLOAD], tags=["rounds"])
@by(WRITERS)
def preview_files(request: Request, name: Name, files: Files, options: Options = "{}") -> Plain:
    """What recording files would bring and change; nothing is recorded."""
    said = from_text(TellBody, options)
    with _uploaded(name, files) as sources, study_of(request, name) as study:
        return _previewed(study, sources, said)


@verbs.post("/amend", dependencies=[MANAGE], tags=["changes"])
@by(WRITERS)
def amend(
    request: Request,
    name: Name,
    options: Annotated[str, Form(max_length=100_000, description='JSON: {"file": ..., "why": ...}.')],
    file: MaybeFile = None,
) -> Plain:
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    said = from_text(AmendBody, options)
    with _uploaded(name, [] if file is None else [file]) as sources, study_of(request, name) as study:
        source = sources[0] if sources else None
        return _stands(study, study.amend(said.file, source, said.why, **said.words()))


@verbs.post("/import-past", dependencies=[MANAGE], tags=["changes"])
@by(WRITERS)
def import_past(request: Request, name: Name, file: OneFile) -> Plain:
    """Import earlier data before the first results: they guide the allocation, and are not evidence."""
    with _uploaded(name, [file]) as sources, study_of(request, name) as study:
        return _stands(study, study.import_past(sources[0]))


class Verb(NamedTuple):
    """A method of a study whose arguments are the fields of a request."""

    does: Callable[..., Report]
    body: type[Body]
    role: Any  # who may
    group: str
    words: str

    def add_to(self, router: APIRouter) -> None:
        """Put it under its name."""

        def handler(request: Request, name: Name, body: Body) -> Plain:
            with study_of(request, name) as study:
                return _stands(study, self.does(study, **body.model_dump()))

        handler.__name__, handler.__doc__ = self.does.__name__, self.words
        handler.__annotations__["body"] = self.body
        path = f"/{self.does.__name__.replace('_', '-')}"
        router.post(path, dependencies=[self.role], tags=[self.group])(by(WRITERS)(handler))


for verb in (
    Verb(
        Study.close_round, ReasonBody, UPLOAD, "rounds", "Count the open round although results are missing for good."
    ),
    Verb(Study.drop, ArmBody, MANAGE, "changes", "Leave an arm out from here on."),
    Verb(Study.add, ArmBody, MANAGE, "changes", "Take in one more arm."),
    Verb(Study.extend, BudgetBody, MANAGE, "changes", "Allow more results (or fewer) than were planned."),
    Verb(Study.note, NoteBody, UPLOAD, "changes", "Record a remark; it does nothing to the guarantee."),
    Verb(Study.end, ReasonBody, MANAGE, "changes", "End it before it is decided; what was not ruled out is reported."),
    Verb(Study.reopen, ReasonBody, MANAGE, "changes", "Go on with a study that was closed undecided."),
):
    verb.add_to(verbs)


def round_of(asked: Round | None) -> Plain:
    """A round by the names of its arms: what is asked for, what is still to come, and its shares."""
    if asked is None:
        return {"round": None, "asked": {}, "shares": {}}
    wanted, to_come = asked.pulls.tolist(), asked.outstanding.tolist()
    left = sum(to_come) or 1.0
    return {
        "round": asked.number,
        "asked": {arm: int(n) for arm, n in zip(asked.arms, wanted, strict=True)},
        "shares": {arm: n / left for arm, n in zip(asked.arms, to_come, strict=True)},
    }


def brought(results: Results, arms: Sequence[str]) -> Plain:
    """What a file brings, by arm."""
    missing = [0] * len(arms) if results.missing is None else results.missing.tolist()
    return {
        "name": results.name,
        "rows": results.rows,
        "results": {arm: int(n) for arm, n in zip(arms, results.counts.tolist(), strict=True)},
        "missing": {arm: int(n) for arm, n in zip(arms, missing, strict=True)},
        "skipped": results.skipped,
        "contradicts": None if results.contradicted is None else results.contradicted.plain(),
        "notes": [each.plain() for each in results.notes],
        "sha256": results.digest,
    }


def _previewed(study: Study, sources: Sequence[Upload | Table], said: TellBody) -> Plain:
    """What telling something would bring and change."""
    read, after = study.preview(*sources, round_over=said.round_over, **said.words())
    files = [brought(each, study.state.spec.arms) for each in read]
    return {"study": study.name, "files": files, "after": after.plain()}


def _stands(study: Study, report: Report) -> Plain:
    """Where a study stands after a request."""
    return report.plain() | {"digest": study.store.head(study.name).digest}


@contextmanager
def _uploaded(study: str, files: Sequence[UploadFile]) -> Iterator[list[Upload | Table]]:
    """Files that were sent, as `tell` takes them: on disk for a while, and called as they were sent."""
    with TemporaryDirectory(prefix="roundwise-") as folder:
        found: list[Upload | Table] = []
        for i, each in enumerate(files):
            name = PurePath((each.filename or "upload").replace("\\", "/")).name or "upload"
            path = Path(folder) / f"{i}{ending(name)}"
            content = each.file.read()
            if each.content_type == COLUMNS:
                found.append(table_from(name, content))
                continue
            path.write_bytes(content)
            found.append(Upload(path, name, study, len(content)))
        yield found
