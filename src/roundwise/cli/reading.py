"""Options that say what the columns of a file are, and what to make of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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


def words_of(
    columns: Columns | None,
    ignore_arms: str | None,
    missing: str | None,
    cumulative: bool,
    again: bool,
    average_ids: bool,
) -> Words:
    """What was said of the files, as `Study.tell` takes it."""
    return {
        "columns": columns,
        "ignore_arms": ignore_arms or (),
        "missing": missing,
        "cumulative": cumulative,
        "again": again,
        "average_ids": average_ids,
    }
