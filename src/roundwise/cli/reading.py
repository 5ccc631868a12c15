"""Options that say what the columns of a file are, and what to make of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

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


class ColumnNames(NamedTuple):
    """The names of columns that were given."""

    arm_column: ArmColumn = None
    outcome_column: OutcomeColumn = None
    id_column: IdColumn = None
    time_column: TimeColumn = None
    item_column: ItemColumn = None

    @property
    def columns(self) -> Columns | None:
        """As `create_study` takes them; None if none were given."""
        from roundwise.studies.results import Columns

        return Columns(*self) if any(each is not None for each in self) else None


class FileWords(NamedTuple):
    """What was said of files."""

    named: ColumnNames = ColumnNames()
    ignore_arms: IgnoreArms = None
    missing: Missing = None
    cumulative: Cumulative = False
    again: New = False
    average_ids: AverageIds = False

    @property
    def words(self) -> Words:
        """As `Study.tell` takes it."""
        return {
            "columns": self.named.columns,
            "ignore_arms": self.ignore_arms or (),
            "missing": self.missing,
            "cumulative": self.cumulative,
            "again": self.again,
            "average_ids": self.average_ids,
        }
