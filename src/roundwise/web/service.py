"""The API as an application of its own: what looks, what records, events; and its description in words, as a page."""

from __future__ import annotations

import json
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import State
from starlette.responses import Response

from roundwise._version import __version__
from roundwise.arrays import Plain
from roundwise.web import api, api_write, events
from roundwise.web.bodies import VIEW, sentence_of
from roundwise.web.rendering import HANDLERS, page, respond_with_error

router = APIRouter(prefix="/api/v1", include_in_schema=False)

TITLES = {
    "studies": "Studies",
    "rounds": "Rounds: ask and tell",
    "changes": "Changes",
    "record": "The record",
    "events": "Events",
}


class FieldDoc(NamedTuple):
    """A field of a request."""

    name: str
    kind: str
    needed: bool
    words: str


class Operation(NamedTuple):
    """One thing that the API does."""

    method: str
    path: str
    summary: str
    words: str
    group: str
    parameters: list[FieldDoc]
    sends: str  # the kind of its body
    fields: list[FieldDoc]
    example: str


@router.get("/docs", dependencies=[VIEW])
def docs(request: Request) -> Response:
    """What the API does."""
    found = operations(request.app.openapi())
    groups = [(title, [each for each in found if each.group == group]) for group, title in TITLES.items()]
    return page(request, "api.html", groups=groups)


def operations(schema: Plain) -> list[Operation]:
    """Everything that the description of an API has."""
    found = []
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            kind, body = _body(about)
            model = resolved(schema, body.get("schema", {}))
            found.append(
                Operation(
                    method.upper(),
                    path,
                    about["description"].partition("\n\n")[0],
                    about["description"].partition("\n\n")[2],
                    about["tags"][0],
                    [_field(schema, each["name"], each["schema"], each) for each in about.get("parameters", [])],
                    kind,
                    [
                        _field(schema, name, each, {"required": name in model.get("required", ())})
                        for name, each in model.get("properties", {}).items()
                    ],
                    _example(schema, model) if kind == "application/json" else "",
                )
            )
    return found


def _body(about: Plain) -> tuple[str, Plain]:
    """The kind of what is sent, and its description."""
    content: dict[str, Plain] = about.get("requestBody", {}).get("content", {})
    return next(iter(content.items()), ("", {}))


def resolved(schema: Plain, model: Plain) -> Plain:
    """A part of a description, followed to where it is described."""
    for each in (model, *model.get("anyOf", ())):
        if "$ref" in each:
            found: Plain = schema["components"]["schemas"][each["$ref"].rpartition("/")[2]]
            return found
    return model


def _field(schema: Plain, name: str, about: Plain, more: Plain) -> FieldDoc:
    words = more.get("description") or about.get("description") or resolved(schema, about).get("description", "")
    return FieldDoc(name, _kind(schema, about), bool(more.get("required")), words)


def _kind(schema: Plain, about: Plain) -> str:
    if "anyOf" in about:
        kinds = dict.fromkeys(_kind(schema, each) for each in about["anyOf"] if each.get("type") != "null")
        return " or ".join(kinds)
    if "enum" in about:
        return ", ".join(map(str, about["enum"]))
    about = resolved(schema, about)
    if about.get("type") == "array":
        return f"list of {_kind(schema, about.get('items', {}))}"
    return "file" if about.get("contentMediaType") or about.get("format") == "binary" else str(about.get("type", "any"))


def _example(schema: Plain, model: Plain) -> str:
    """The fields that are needed, as an example."""
    shown = {
        name: about["examples"][0]
        for name, about in model.get("properties", {}).items()
        if about.get("examples") and (name in model.get("required", ()) or name == "rows")
    }
    return json.dumps(shown, indent=2) if shown else ""


def service(state: State) -> FastAPI:
    """The API over what the pages have, too."""
    app = FastAPI(
        title="roundwise",
        version=__version__,
        summary="Plan, run and watch studies whose results come in rounds.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        exception_handlers={**HANDLERS, RequestValidationError: _not_understood},
    )
    app.state = state
    state.changes = events.ChangeFeed(state.storage)
    for each in (api.router, api_write.router, api_write.verbs, events.router, router):
        app.include_router(each)
    return app


async def _not_understood(request: Request, error: RequestValidationError) -> Response:
    return respond_with_error(request, 422, sentence_of(error.errors()[0]))
