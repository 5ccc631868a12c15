"""What the commands of studies share: options, also of what the columns and rows of files are, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from roundwise.cli.output import print_json, recorded, say
from roundwise.errors import InputError, RoundwiseError, visible

if TYPE_CHECKING:
    from roundwise.ingest import Columns, TellKeywords
    from roundwise.store import Entry
    from roundwise.study import Study


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
    typer.Option("--new", "--again", help="Treat all of it as new, but for recorded ids.", rich_help_panel=FILES),
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
        from roundwise.ingest import Columns

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
    def words(self) -> TellKeywords:
        """As `Study.tell` takes it."""
        return {
            "columns": self.named.columns,
            "ignore_arms": self.ignore_arms or (),
            "missing": self.missing,
            "cumulative": self.cumulative,
            "again": self.again,
            "average_ids": self.average_ids,
        }


Name = Annotated[str, typer.Argument(help="The name of the study.", metavar="NAME")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="sqlite:///file.db, postgresql://... or http://server:8000; default ROUNDWISE_STORAGE, else roundwise.db.",
    ),
]
Why = Annotated[str, typer.Option("--why", help="The reason, which is recorded.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def agreed(effect: str, yes: bool) -> str:
    """Say what something does to the guarantee, and ask; where nobody can answer, `--yes` must be said.

    Returns what is left to be said once it is done: the same, if nobody was asked.
    """
    if yes:
        return effect
    if not sys.stdin.isatty():
        raise InputError(f"{effect} Nothing was changed; to do it, say --yes.")
    sys.stderr.write(f"{visible(effect)}\n")
    if not typer.confirm("Do it?", err=True):
        raise InputError("Nothing was changed.")
    return "Done."


def end_with_report(study: Study, done: str) -> None:
    """Make the report after recording the full one; from then on `done` is recorded, whatever happens."""
    study.full_reports, study.on_recorded = True, lambda: recorded(done)


def show(plain: dict[str, object] | None, text: str) -> None:
    """JSON where there is some, else text."""
    if plain is not None:
        print_json(plain)
    else:
        say(text)


def show_of(entries: Sequence[Entry], plain: dict[str, object] | None, text: str) -> None:
    """The same for a record, whose guarantee goes into the JSON."""
    show(None if plain is None else {**plain, "guarantee": guarantee(lambda: entries)}, text)


def guarantee(read: Callable[[], Sequence[Entry]]) -> dict[str, object]:
    """What became of the guarantee of a study; there is none where its record cannot be read or replayed."""
    from roundwise.messages import Guarantee, Reason
    from roundwise.study import replay
    from roundwise.study.guarantee import guarantee_of

    try:
        return guarantee_of(replay(read())).plain()
    except RoundwiseError as error:
        return Guarantee.of([Reason("unreadable", error=str(error))]).plain()
