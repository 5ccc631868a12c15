"""`roundwise amend, close, drop, add, ...`: changes of a study; it is said first what each does to the guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Json, grouped, whole_option
from roundwise.cli.study.rounds import FileOptions, Name, Storage, Why, Yes, agreed, end_with_report, show
from roundwise.errors import InputError

Unrelated = Annotated[
    bool, typer.Option("--unrelated", help="The reason is unrelated to any result; everything is recounted.")
]


class ChangeOptions(NamedTuple):
    """The options of every change."""

    yes: Yes = False
    storage: Storage = None
    as_json: Json = False


def _changed(name: str, options: ChangeOptions, what: str, done: str, **words: object) -> None:
    """Say what a change (a method of Study) does to the guarantee, ask, make it and show the report."""
    from roundwise.study import load_study

    with load_study(name, options.storage) as study:
        effect = agreed(study.effect(what, **words), options.yes)
        end_with_report(study, done)
        found = getattr(study, what)(**words)
    show(found.plain() if options.as_json else None, f"{effect}\n{found.text()}")


@app.command(rich_help_panel=STUDIES)
@grouped
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="Recorded file, by name or by the start of its digest.")],
    why: Why,
    by: Annotated[
        Path | None, typer.Option("--by", help="Corrected file (without it the recorded one is withdrawn).")
    ] = None,
    *,
    said: FileOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Correct or withdraw a recorded file; the record gets a new entry with the reason."""
    from roundwise.study import load_study

    if by is None and said != FileOptions():
        raise InputError("Options of files go with --by FILE: without it the file is withdrawn. Nothing was changed.")
    with load_study(name, storage) as study:
        end_with_report(study, f"the amendment of {file} is recorded")
        found = study.amend(file, by, why, **said.words)
    show(found.plain() if as_json else None, found.text())


@app.command(rich_help_panel=STUDIES)
def close(name: Name, why: Why, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """End a study early and report what is still undecided."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        if study.state.partial_round is not None:
            agreed(study.effect("end"), yes)
        end_with_report(study, f"'{name}' is closed")
        found = study.end(why)
    show(found.plain() if as_json else None, found.text())


@app.command(rich_help_panel=STUDIES)
@grouped
def drop(
    *,
    name: Name,
    arm: Annotated[str, typer.Argument(help="Arm to drop.")],
    why: Why,
    unrelated: Unrelated = False,
    options: ChangeOptions,
) -> None:
    """Stop sampling an arm, after showing the effect on the guarantee."""
    _changed(name, options, "drop", f"{arm} is left out", arm=arm, why=why, unrelated=unrelated)


@app.command(rich_help_panel=STUDIES)
@grouped
def add(
    *,
    name: Name,
    arm: Annotated[str, typer.Argument(help="Name of the new arm.")],
    why: Why = "",
    unrelated: Unrelated = False,
    options: ChangeOptions,
) -> None:
    """Add an arm, after showing the effect on the guarantee."""
    _changed(name, options, "add", f"{arm} is added", arm=arm, why=why, unrelated=unrelated)


@app.command(rich_help_panel=STUDIES)
@grouped
def extend(
    name: Name,
    budget: Annotated[int, whole_option("budget")],
    options: ChangeOptions,
) -> None:
    """Change the budget of a study."""
    _changed(name, options, "extend", "the budget is recorded", budget=budget)


@app.command("import-past", rich_help_panel=STUDIES)
@grouped
def import_past(
    name: Name,
    file: Annotated[Path, typer.Argument(help="File of earlier results.")],
    options: ChangeOptions,
) -> None:
    """Use earlier data to plan the first rounds; they do not count as evidence."""
    _changed(name, options, "import_past", f"{file} is recorded", source=file)


@app.command(rich_help_panel=STUDIES)
@grouped
def reopen(name: Name, why: Why, options: ChangeOptions) -> None:
    """Continue a study that was closed undecided."""
    _changed(name, options, "reopen", f"'{name}' is open again", why=why)


@app.command(rich_help_panel=STUDIES)
def note(
    name: Name,
    text: Annotated[str, typer.Argument(help="Text of the note.")],
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Add a note to the record; the guarantee is not affected."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("note"), True)
        end_with_report(study, "the note is recorded")
        found = study.note(text)
    show(found.plain() if as_json else None, f"Noted. {effect}\nNext: {found.next}")


@app.command(rich_help_panel=STUDIES)
def remove(name: Name, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """Delete a study that has no results."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("remove"), yes)
        study.remove()
    next_ = "`roundwise new` creates another."
    show(
        {"study": name, "removed": True, "next": next_} if as_json else None,
        f"{effect}\nRemoved '{name}'.\nNext: {next_}",
    )
