"""What the commands of studies share: options, also of what the columns and rows of files are, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from roundwise.cli.options import FILES, ColumnOptions
from roundwise.cli.output import print_json, recorded, say
from roundwise.errors import InputError, RoundwiseError, visible

if TYPE_CHECKING:
    from roundwise.ingest import TellKeywords
    from roundwise.store import Entry
    from roundwise.study import Study


def _about_files(flag: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, help=help, metavar=metavar, rich_help_panel=FILES)


class FileOptions(NamedTuple):
    """What the rows of result files are."""

    columns: ColumnOptions = ColumnOptions()
    ignore_arms: Annotated[
        str | None, _about_files("--ignore-arms", "Other arms whose rows to skip ('*' for all).", "LIST")
    ] = None
    missing: Annotated[
        str | None, _about_files("--missing", "Reason why rows have no outcome; they count as missing.", "REASON")
    ] = None
    cumulative: Annotated[
        bool, _about_files("--cumulative", "Running totals since the study began; the difference counts.")
    ] = False
    again: Annotated[bool, _about_files("--new", "Treat every row as new; skip the duplicate check.")] = False
    average_ids: Annotated[bool, _about_files("--average-ids", "Average the rows of one id to one result.")] = False

    @property
    def words(self) -> TellKeywords:
        """As `Study.tell` takes it."""
        given: TellKeywords = self._asdict() | {
            "columns": self.columns.columns(),
            "ignore_arms": self.ignore_arms or (),
        }  # type: ignore[assignment]
        return given


Name = Annotated[str, typer.Argument(help="Name of the study.", metavar="NAME")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Storage URL: sqlite:///, postgresql:// or http:// (default ROUNDWISE_STORAGE, else roundwise.db).",
    ),
]
Why = Annotated[str, typer.Option("--why", help="Reason for the record.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]


def agreed(effect: str, yes: bool) -> str:
    """Say what a change does to the guarantee and ask; without a terminal `--yes` is required.

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
    """As `show`, with the guarantee of the record in the JSON."""
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
