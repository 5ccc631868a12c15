"""Request bodies of the API. Unknown fields are refused, so that misspellings do not pass unnoticed."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from roundwise.arrays import Plain
from roundwise.errors import InputError
from roundwise.ingest import Columns
from roundwise.ingest.columns import TellKeywords
from roundwise.ingest.reading import Empty, MixedIds, UnitResult
from roundwise.planning.request import PlanRequest
from roundwise.study.item_list import Order
from roundwise.study.spec import SEED_BITS, StudySpec, ValueType, settings_of
from roundwise.web.routing import decode_name
from roundwise.web.uploads import Table

Given = TypeVar("Given", bound="Body")

Name = Annotated[str, AfterValidator(decode_name)]  # of a study, in an address
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
    """The base class of request bodies."""

    model_config = ConfigDict(extra="forbid")


TITLE: Any = (str | None, None)
Titles: Any = create_model("Titles", __base__=Body, **{each.name: TITLE for each in fields(Columns)})
Titles.__doc__ = "Column names, where they differ from the standard ones."


class Rules(Body):
    """Rules by which rows become results."""

    empty: Empty = "refused"
    id_result: UnitResult | None = None
    id_window: Annotated[str, Field(max_length=20, examples=["7d"])] | None = None
    mixed_ids: MixedIds = "refused"
    share_above: float | None = None
    share_below: float | None = None
    failed_is: float | None = None
    arm_names: dict[str, str] = Field(default={}, description="Names of arms in other tools.")


Entry = Annotated[str, Field(min_length=1, max_length=1000)]


class Items(Body):
    """A finite list of items: their ids or their number, how often each is tried, and in which order."""

    items: Annotated[list[Entry], Field(min_length=1, max_length=100_000)] | None = None
    size: Annotated[int, Field(ge=1, le=100_000)] | None = None
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1
    order: Order = "random"
    strict: bool = False
    known: dict[Entry, Annotated[list[float], Field(max_length=100_000)]] | None = Field(default=None, max_length=100)


JSON_TYPES: dict[ValueType, Any] = {  # what the API takes for each type of a setting
    "question": Thing,
    "noise": Thing,
    "policy": Thing,
    "names": Annotated[list[Arm], Field(min_length=2, max_length=10_000)],
    "columns": Titles,
    "reading": Rules,
    "metrics": Annotated[list[Thing], Field(max_length=100)],
    "list": Items,
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


def declared_by(kind: type) -> Any:
    """A body with the settings that a dataclass declares, except files of the server."""
    found: dict[str, Any] = {}
    for name, (about, default) in settings_of(kind).items():
        if about.type == "path":
            continue
        type_ = JSON_TYPES[about.type]
        examples = None if about.example is None else [about.example]
        usual = ... if default is MISSING else default
        found[name] = (
            type_ | None if usual is None else type_,
            Field(usual, description=about.help, examples=examples),
        )
    return create_model("Declared", __base__=Body, **found)


class NewStudy(declared_by(StudySpec)):  # type: ignore[misc]  # its fields are those of StudySpec
    """A new study: the settings of `create_study`."""

    name: str = Field(min_length=1, max_length=200, examples=["checkout"])

    def spec(self) -> StudySpec:
        return StudySpec.declare(**self.model_dump(exclude={"name"}))


class NewPlan(declared_by(PlanRequest)):  # type: ignore[misc]  # its fields are those of PlanRequest
    """A study to plan: the settings of `plan`."""

    name: str = Field(default="study", min_length=1, max_length=200)
    runs: int = Field(default=400, ge=1, le=2000, description=settings_of(PlanRequest)["runs"][0].help)
    quick: bool = Field(default=False, description="Stop after the first numbers.")

    def request(self, pilot: object = None) -> PlanRequest:
        """The plan that is requested, with what a file of past results says."""
        return PlanRequest.declare(**self.model_dump(exclude={"quick"}), pilot=pilot)


class FileBody(Body):
    """The options of `Study.tell`."""

    columns: Titles | None = Field(default=None, description="Names of the columns, by what they hold.")
    ignore_arms: str | Annotated[list[str], Field(max_length=10_000)] = Field(
        default=[], description="Arms whose rows are left out; * for all that are not in the study."
    )
    arm_names: dict[str, str] = Field(default={}, description="Other names of arms in it, where the study says none.")
    missing: str | None = Field(default=None, description="Why rows without an outcome have none; they then count.")
    empty: Empty | None = Field(
        default=None, description="What rows without an outcome are, where the study does not say it."
    )
    failed: bool = Field(default=False, description="On a list: whether requests without an outcome are given up.")
    cumulative: bool = Field(default=False, description="Whether it is a running total.")
    new: bool = Field(default=False, description="Whether all of it is new, even where it looks the same.")

    def words(self) -> TellKeywords:
        said = self.model_dump(include=set(FileBody.model_fields))
        columns = said.pop("columns")
        return TellKeywords(columns=None if columns is None else Columns(**columns), **said)  # type: ignore[typeddict-item]


class TellBody(FileBody):
    """The options for results in the request."""

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
        if (self.rows is None) == (self.columns_of is None):
            raise InputError("Give the results as `rows`, or as `columns_of`, one of the two.")
        if self.columns_of is not None:
            return Table(self.name, self.columns_of)
        rows = self.rows or []
        names = dict.fromkeys(key for row in rows for key in row)
        return Table(self.name, {name: [row.get(name) for row in rows] for name in names})


class ReasonBody(Body):
    """Why something is done."""

    why: Why


class ArmBody(Body):
    """A change of one arm."""

    arm: Arm
    why: Why = ""
    unrelated: bool = Field(default=False, description="The reason is unrelated to any result.")


class BudgetBody(Body):
    """A new budget."""

    budget: int = Field(ge=1, lt=2**53)


class DesignBody(Body):
    """The design of the rest of a study; none without a budget."""

    budget: int | None = Field(default=None, ge=1, lt=2**53)
    lead: float | str | None = Field(default=None, description="Smallest lead that matters: 0.02, 2%, 10%-of-30%.")
    looks: int | None = Field(default=None, ge=1, le=100, description="Number of rounds to plan the rest for.")


class NoteBody(Body):
    """A remark."""

    text: str = Field(max_length=2000)


class EmptyBody(Body):
    """A request without settings."""


def parse_options(kind: type[Given], text: str) -> Given:
    """The part of a form that is JSON."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"options: {describe_mistake(error.errors()[0])}") from None
    except (ValueError, RecursionError):
        raise InputError('options: this is not JSON such as {"cumulative": true}.') from None


def describe_mistake(found: Any) -> str:
    """What Pydantic found wrong with a request, as a sentence."""
    where = " ".join(str(each) for each in found["loc"][1:] if each != "body")
    said = str(found["msg"])
    return f"{where or 'the request'}: {said[:1].lower()}{said[1:]}."
