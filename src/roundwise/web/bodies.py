"""What requests to the API hold and depend on. What is not known is refused, so that no misspelt word goes unheard."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import MISSING
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from roundwise.arrays import Plain
from roundwise.errors import DataError, InputError
from roundwise.formats.messages import shown
from roundwise.ingest import Columns
from roundwise.ingest.columns import TellKeywords
from roundwise.planning.request import PlanRequest
from roundwise.study.spec import SEED_BITS, StudySpec, ValueType, settings_of
from roundwise.web.routing import decode_name
from roundwise.web.security import ROLES, check_role

Given = TypeVar("Given", bound="Body")

Why = Annotated[str, Field(max_length=2000, description="The reason, which is recorded.", examples=["out of stock"])]
Arm = Annotated[str, Field(min_length=1, max_length=1000, examples=["Big button"])]
Cell = str | float | int | bool | None
Thing = Annotated[Plain, Field(max_length=50)]


class ProblemDetails(BaseModel):
    """An error (RFC 9457): `detail` is what is wrong and what to do, `error` its kind."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(examples=["There is no study called 'chekout'. Did you mean 'checkout'?"])
    error: str = Field(default="", examples=["UnknownStudyError"])


class Body(BaseModel):
    """What a request may hold."""

    model_config = ConfigDict(extra="forbid")


class Titles(Body):
    """What columns are called, where they have names of their own."""

    arm: str | None = None
    outcome: str | None = None
    id: str | None = None
    time: str | None = None
    item: str | None = None


JSON_TYPES: dict[ValueType, Any] = {  # what the API takes for each type of a setting
    "question": Thing,
    "noise": Thing,
    "policy": Thing,
    "names": Annotated[list[Arm], Field(min_length=2, max_length=10_000)],
    "columns": Titles,
    "number": float | Annotated[str, Field(max_length=100)],
    "numbers": float
    | Annotated[str, Field(max_length=100_000)]
    | Annotated[list[float | Annotated[str, Field(max_length=100)]], Field(max_length=10_000)],
    "whole": Annotated[int, Field(lt=2**SEED_BITS)],
    "shares": Annotated[str, Field(max_length=100_000)] | Annotated[list[float], Field(max_length=10_000)],
    "prices": float
    | Annotated[str, Field(max_length=100_000)]
    | Annotated[list[float], Field(max_length=10_000)]
    | Annotated[dict[str, float], Field(max_length=10_000)],
    "label": Annotated[str, Field(max_length=1000)] | float,
}


def declared_by(*kinds: type) -> Any:
    """A body with the settings that dataclasses declare, except files of the server."""
    fields: dict[str, Any] = {}
    for name, (about, default) in (item for kind in kinds for item in settings_of(kind).items()):
        if about.type == "path":
            continue
        kind = JSON_TYPES[about.type]
        examples = None if about.example is None else [about.example]
        usual = ... if default is MISSING else default
        fields[name] = (kind | None if usual is None else kind, Field(usual, description=about.help, examples=examples))
    return create_model("Declared", __base__=Body, **fields)


class NewStudy(declared_by(StudySpec)):  # type: ignore[misc]  # its fields are those of StudySpec
    """A new study: the settings of `create_study`."""

    name: str = Field(min_length=1, max_length=200, examples=["checkout"])

    def spec(self) -> StudySpec:
        """The study that is declared."""
        return StudySpec.declare(**self.model_dump(exclude={"name"}))


class NewPlan(declared_by(PlanRequest)):  # type: ignore[misc]  # its fields are those of PlanRequest
    """A study to plan: the settings of `plan`."""

    name: str = Field(default="study", min_length=1, max_length=200)
    runs: int = Field(default=400, ge=1, le=2000, description=settings_of(PlanRequest)["runs"][0].help)
    quick: bool = Field(default=False, description="Stop after the first numbers.")

    def request(self) -> PlanRequest:
        """The plan that is requested."""
        return PlanRequest.declare(**self.model_dump(exclude={"quick"}))


class FileBody(Body):
    """What is said of results: the options of `roundwise tell`."""

    columns: Titles | None = None
    ignore_arms: str | Annotated[list[str], Field(max_length=10_000)] = ()  # type: ignore[assignment]  # as `TellKeywords` has it
    missing: str | None = None
    cumulative: bool = False
    new: bool = False
    average_ids: bool = False

    def words(self) -> TellKeywords:
        """The same as `Study.tell` takes it."""
        return TellKeywords(
            columns=None if self.columns is None else Columns(**self.columns.model_dump()),
            ignore_arms=self.ignore_arms,
            missing=self.missing,
            cumulative=self.cumulative,
            new=self.new,
            average_ids=self.average_ids,
        )


class TellBody(FileBody):
    """What is said of the results that are told."""

    round_over: Why | None = None


class AmendBody(FileBody):
    """Which file is corrected (or withdrawn, where no other is sent), and why."""

    file: str = Field(min_length=1, max_length=1000, description="Its name, or the start of its digest.")
    why: Why


class RowsBody(TellBody):
    """Results in the request itself: rows, or columns, under the study's names of columns."""

    rows: list[dict[str, Cell]] | None = Field(default=None, examples=[[{"arm": "Control", "outcome": 1}]])
    columns_of: dict[str, list[Cell]] | None = Field(default=None, description="Instead of rows: lists by column.")
    name: str = Field(default="rows", min_length=1, max_length=200, description="What the record calls them.")

    def table(self) -> Table:
        """The rows as a table."""
        if (self.rows is None) == (self.columns_of is None):
            raise InputError("Give the results as `rows`, or as `columns_of`, one of the two.")
        if self.columns_of is not None:
            return Table(self.name, self.columns_of)
        rows = self.rows or []
        names = dict.fromkeys(key for row in rows for key in row)
        return Table(self.name, {name: [row.get(name) for row in rows] for name in names})


class Table(dict[str, list[Any]]):
    """Columns by name, and what the record calls them."""

    def __init__(self, name: str, columns: dict[str, list[Any]]) -> None:
        super().__init__(columns)
        self.shown_as = name


def table_from(name: str, content: bytes) -> Table:
    """A data frame that was sent."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise DataError(f"{shown(name)} is no data frame as it is sent: lists by column, as JSON.")
    return Table(shown(name, 200), found)


class ReasonBody(Body):
    """Why something is done."""

    why: Why


class ArmBody(Body):
    """A change of one arm."""

    arm: Arm
    why: Why = ""
    unrelated: bool = Field(default=False, description="The reason has nothing to do with any result.")


class BudgetBody(Body):
    """A new budget."""

    budget: int = Field(ge=1, lt=2**53)


class NoteBody(Body):
    """A remark."""

    text: str = Field(max_length=2000)


class EmptyBody(Body):
    """A request without settings."""


def from_text(kind: type[Given], text: str) -> Given:
    """A part of a form that is JSON."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"options: {sentence_of(error.errors()[0])}") from None
    except (ValueError, RecursionError):
        raise InputError('options: this is not JSON such as {"cumulative": true}.') from None


def sentence_of(found: Any) -> str:
    """What is wrong with a request, in a sentence."""
    where = " ".join(str(each) for each in found["loc"][1:] if each != "body")
    said = str(found["msg"])
    return f"{where or 'the request'}: {said[:1].lower()}{said[1:]}."


Name = Annotated[str, AfterValidator(decode_name)]  # of a study


def allowed(role: str) -> Callable[[Request], Awaitable[None]]:
    """A dependency: the request must have this role at least."""

    async def checked(request: Request) -> None:
        check_role(request, role)

    return checked


VIEW, UPLOAD, MANAGE = (Depends(allowed(role)) for role in ROLES)
