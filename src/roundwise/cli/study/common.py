"""What the commands of studies share: their options, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.cli.output import print_json, say
from roundwise.errors import InputError, RoundwiseError, visible

if TYPE_CHECKING:
    from roundwise.studies import Study
    from roundwise.studies.report import Report
    from roundwise.studies.store import Entry

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


FEW = 100  # rounds up to which a command that records ends with the whole report; it takes longer with every round


def whole(study: Study, found: Report) -> Report:
    """The whole report after something was recorded, with intervals and dates, unless the study is long."""
    return study.report() if found.rounds <= FEW else found


def show(plain: dict[str, object] | None, text: str) -> None:
    """JSON where there is some, else text."""
    if plain is not None:
        print_json(plain)
    else:
        say(text)


def show_of(entries: Sequence[Entry], plain: dict[str, object] | None, text: str) -> None:
    """The same for a record, whose guarantee goes into the JSON."""
    show(None if plain is None else {**plain, "guarantee": guarantee(lambda: entries)}, text)


def guarantee(read: Callable[[], Sequence[Entry]]) -> str:
    """What became of the guarantee of a study; there is none where its record cannot be read or replayed."""
    from roundwise.studies import replayed
    from roundwise.studies.guarantee import VOID, guarantee_of

    try:
        return str(guarantee_of(replayed(read())))
    except RoundwiseError as error:
        return f"{VOID}the record cannot be replayed: {error}"
