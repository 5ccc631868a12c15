"""Options that say what the columns of a file are, and what to make of its rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from roundwise.studies.results import Columns, Words

FILES = "Files"

ArmColumn = Annotated[
    str | None, typer.Option("--arm-column", help="The column with the arms.", metavar="NAME", rich_help_panel=FILES)
]
OutcomeColumn = Annotated[
    str | None,
    typer.Option("--outcome-column", help="The column with the results.", metavar="NAME", rich_help_panel=FILES),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", help="Users, patients: no id counts twice.", metavar="NAME", rich_help_panel=FILES),
]
TimeColumn = Annotated[
    str | None, typer.Option("--time-column", help="When a result came.", metavar="NAME", rich_help_panel=FILES)
]
ItemColumn = Annotated[
    str | None,
    typer.Option(
        "--item-column", help="What several arms were tried on: a question, a plate.", metavar="NAME",
        rich_help_panel=FILES,
    ),
]  # fmt: skip
IgnoreArms = Annotated[
    str | None,
    typer.Option(
        "--ignore-arms", help="Leave out rows of these arms of other experiments; '*' for all.", metavar="LIST",
        rich_help_panel=FILES,
    ),
]  # fmt: skip
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing", help="Why some rows have no outcome: they count as missing.", metavar="REASON",
        rich_help_panel=FILES,
    ),
]  # fmt: skip
Cumulative = Annotated[
    bool,
    typer.Option(
        "--cumulative", help="Running totals since the study began: what is new counts.", rich_help_panel=FILES
    ),
]
New = Annotated[
    bool,
    typer.Option("--new", "--again", help="All of it is new, whatever it looks like.", rich_help_panel=FILES),
]
AverageIds = Annotated[
    bool,
    typer.Option("--average-ids", help="Several rows of one id are one result: their mean.", rich_help_panel=FILES),
]


def columns_of(
    arm: str | None, outcome: str | None, id_: str | None, time: str | None, item: str | None
) -> Columns | None:
    """The names of columns, if any were given."""
    from roundwise.studies.results import Columns

    found = Columns(arm, outcome, id_, time, item)
    return None if found == Columns() else found


def file_words(
    arm_column: ArmColumn = None,
    outcome_column: OutcomeColumn = None,
    id_column: IdColumn = None,
    time_column: TimeColumn = None,
    item_column: ItemColumn = None,
    ignore_arms: IgnoreArms = None,
    missing: Missing = None,
    cumulative: Cumulative = False,
    again: New = False,
    average_ids: AverageIds = False,
) -> Words:
    """What was said of the files, as `Study.tell` takes it."""
    return {
        "columns": columns_of(arm_column, outcome_column, id_column, time_column, item_column),
        "ignore_arms": ignore_arms or (),
        "missing": missing,
        "cumulative": cumulative,
        "again": again,
        "average_ids": average_ids,
    }


def with_files(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes `words`, with the options of files in their place."""
    named = {"Words": object}  # no type that a command line has
    options, own = (_parameters(each, named) for each in (file_words, command))
    places = [each for name in own for each in (options if name == "words" else (name,))]
    found = {name: (options | own)[name] for name in places}

    @wraps(command)
    def called(**given: Any) -> None:
        command(words=file_words(**{name: given.pop(name) for name in options}), **given)

    called.__signature__ = inspect.Signature(list(found.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: each.annotation for name, each in found.items()}
    return called


def _parameters(function: Callable[..., Any], named: dict[str, Any]) -> dict[str, inspect.Parameter]:
    """Those of a function by name, all to be given by name, their types evaluated."""
    hints = get_type_hints(function, localns=named, include_extras=True)
    return {
        name: each.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in inspect.signature(function).parameters.items()
    }
