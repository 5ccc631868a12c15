"""`roundwise amend, close, drop, add, ...`: changes of a study; each first says what it does to the guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Budget, Json, Lead, grouped, option, whole_option
from roundwise.cli.study.rounds import FileOptions, Name, Storage, Why, Yes, agreed, end_with_report, show, show_report
from roundwise.errors import InputError
from roundwise.messages import shell_command

Unrelated = Annotated[bool, option("--unrelated", "The reason is unrelated to any result; everything is recounted.")]


class ChangeOptions(NamedTuple):
    """The options of every change."""

    yes: Yes = False
    storage: Storage = None
    as_json: Json = False


def _change(name: str, options: ChangeOptions, method: str, done: str, **arguments: object) -> None:
    """Say what a change (a method of Study) does to the guarantee, ask, make it and show the report."""
    from roundwise.study import load_study

    with load_study(name, options.storage) as study:
        effect = agreed(study.effect(method, **arguments), options.yes)
        end_with_report(study, done)
        show_report(getattr(study, method)(**arguments), options.as_json, effect)


@app.command(rich_help_panel=STUDIES)
@grouped
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="Recorded file, by name or by the start of its digest.", metavar="FILE")],
    why: Why,
    by: Annotated[
        Path | None, option("--with", "Corrected file; without it the recorded one is withdrawn.", "FILE")
    ] = None,
    *,
    said: FileOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Correct or withdraw a recorded file; the record gets a new entry with the reason."""
    from roundwise.study import load_study

    if by is None and said != FileOptions():
        raise InputError("Options of files need --with FILE; without it the file is withdrawn. Nothing was changed.")
    with load_study(name, storage) as study:
        end_with_report(study, f"the amendment of {file} is recorded")
        show_report(study.amend(file, by, why, **said.words), as_json)


@app.command(rich_help_panel=STUDIES)
def close(name: Name, why: Why, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """End a study early and report what is still undecided."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        if study.state.partial_round is not None:
            agreed(study.effect("end"), yes)
        end_with_report(study, f"'{name}' is closed")
        show_report(study.end(why), as_json)


@app.command(rich_help_panel=STUDIES)
@grouped
def drop(
    *,
    name: Name,
    arm: Annotated[str, typer.Argument(help="Arm to drop.", metavar="ARM")],
    why: Why,
    unrelated: Unrelated = False,
    options: ChangeOptions,
) -> None:
    """Stop sampling an arm, after showing the effect on the guarantee."""
    _change(name, options, "drop", f"{arm} is left out", arm=arm, why=why, unrelated=unrelated)


@app.command(rich_help_panel=STUDIES)
@grouped
def add(
    *,
    name: Name,
    arm: Annotated[str, typer.Argument(help="Name of the new arm.", metavar="ARM")],
    why: Why = "",
    unrelated: Unrelated = False,
    options: ChangeOptions,
) -> None:
    """Add an arm, after showing the effect on the guarantee."""
    _change(name, options, "add", f"{arm} is added", arm=arm, why=why, unrelated=unrelated)


@app.command(rich_help_panel=STUDIES)
@grouped
def relax(name: Name, why: Why, options: ChangeOptions) -> None:
    """Continue with the large-sample model (once) after rows contradicted the noise model."""
    _change(name, options, "relax", f"'{name}' continues as large-sample", why=why)


@app.command(rich_help_panel=STUDIES)
@grouped
def extend(name: Name, budget: Annotated[int, whole_option("budget")], options: ChangeOptions) -> None:
    """Change the budget of a study."""
    _change(name, options, "extend", "the budget is recorded", budget=budget)


@app.command(rich_help_panel=STUDIES)
@grouped
def redesign(
    *,
    name: Name,
    budget: Budget = None,
    lead: Lead = None,
    looks: Annotated[int | None, option("--looks", "Number of rounds to plan the rest for.", "NUMBER")] = None,
    options: ChangeOptions,
) -> None:
    """Design the rest of a study for a budget and a lead; without --budget, remove its design."""
    _change(name, options, "redesign", "the design is recorded", budget=budget, lead=lead, looks=looks)


@app.command("import-past", rich_help_panel=STUDIES)
@grouped
def import_past(
    name: Name,
    file: Annotated[Path, typer.Argument(help="File of earlier results.", metavar="FILE")],
    options: ChangeOptions,
) -> None:
    """Use earlier data to plan the first rounds; it does not count as evidence."""
    _change(name, options, "import_past", f"{file} is recorded", source=file)


@app.command(rich_help_panel=STUDIES)
@grouped
def reopen(name: Name, why: Why, options: ChangeOptions) -> None:
    """Continue a study that was closed undecided."""
    _change(name, options, "reopen", f"'{name}' is open again", why=why)


@app.command(rich_help_panel=STUDIES)
def note(
    name: Name,
    text: Annotated[str, typer.Argument(help="Text of the note.", metavar="TEXT")],
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
    next_ = f"{shell_command('new NAME ...')} creates another."
    plain: dict[str, object] = {"study": name, "removed": True, "next": next_}
    show(plain if as_json else None, f"{effect}\nRemoved '{name}'.\nNext: {next_}")
