"""`roundwise amend, close, drop, add, ...`: changes of a study; it is said first what each does to the guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Json, grouped, whole_number
from roundwise.cli.study.common import FileOptions, Name, Storage, Why, Yes, agreed, end_with_report, show
from roundwise.errors import InputError

Unrelated = Annotated[
    bool, typer.Option("--unrelated", help="The reason has nothing to do with any result: all is counted anew.")
]


class Way(NamedTuple):
    """How a change is made."""

    yes: Yes = False
    storage: Storage = None
    as_json: Json = False


def _changed(name: str, way: Way, what: str, done: str, **words: object) -> None:
    """Make a change, by the name of its method, once it was said what it does; `done` is what is recorded then."""
    from roundwise.study import load_study

    with load_study(name, way.storage) as study:
        effect = agreed(study.effect(what, **words), way.yes)
        end_with_report(study, done)
        found = getattr(study, what)(**words)
    show(found.plain() if way.as_json else None, f"{effect}\n{found.text()}")


@app.command(rich_help_panel=STUDIES)
@grouped
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="The file that was told, by name or the start of its digest.")],
    why: Why,
    by: Annotated[
        Path | None, typer.Option("--by", help="The corrected file; without it the old one is withdrawn.")
    ] = None,
    *,
    said: FileOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    from roundwise.study import load_study

    if by is None and said != FileOptions():
        raise InputError("Options of files go with --by FILE: without it the file is withdrawn. Nothing was changed.")
    with load_study(name, storage) as study:
        end_with_report(study, f"the amendment of {file} is recorded")
        found = study.amend(file, by, why, **said.words)
    show(found.plain() if as_json else None, found.text())


@app.command(rich_help_panel=STUDIES)
def close(name: Name, why: Why, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """End a study before it is decided; what is not counted is said, and what has not been ruled out."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        if study.state.waiting is not None:
            agreed(study.effect("end"), yes)
        end_with_report(study, f"'{name}' is closed")
        found = study.end(why)
    show(found.plain() if as_json else None, found.text())


@app.command(rich_help_panel=STUDIES)
@grouped
def drop(
    *,
    name: Name,
    arm: Annotated[str, typer.Argument(help="The arm to leave out.")],
    why: Why,
    unrelated: Unrelated = False,
    way: Way,
) -> None:
    """Leave an arm out from here on; it is said first what that does to the guarantee."""
    _changed(name, way, "drop", f"{arm} is left out", arm=arm, why=why, unrelated=unrelated)


@app.command(rich_help_panel=STUDIES)
@grouped
def add(
    *,
    name: Name,
    arm: Annotated[str, typer.Argument(help="The arm to take in.")],
    why: Why = "",
    unrelated: Unrelated = False,
    way: Way,
) -> None:
    """Take in one more arm; it is said first what that does to the guarantee."""
    _changed(name, way, "add", f"{arm} is added", arm=arm, why=why, unrelated=unrelated)


@app.command(rich_help_panel=STUDIES)
@grouped
def extend(
    name: Name,
    budget: Annotated[
        int, typer.Option("--budget", help="So many results in all.", parser=whole_number, metavar="NUMBER")
    ],
    way: Way,
) -> None:
    """Allow more results (or fewer) than were planned, for any reason."""
    _changed(name, way, "extend", "the budget is recorded", budget=budget)


@app.command("import-past", rich_help_panel=STUDIES)
@grouped
def import_past(
    name: Name, file: Annotated[Path, typer.Argument(help="A file with earlier results of these arms.")], way: Way
) -> None:
    """Let earlier data say where to look, before the first results; they are no evidence."""
    _changed(name, way, "import_past", f"{file} is recorded", source=file)


@app.command(rich_help_panel=STUDIES)
@grouped
def reopen(name: Name, why: Why, way: Way) -> None:
    """Go on with a study that was closed undecided."""
    _changed(name, way, "reopen", f"'{name}' is open again", why=why)


@app.command(rich_help_panel=STUDIES)
def note(
    name: Name,
    text: Annotated[str, typer.Argument(help="What is to be remembered.")],
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record a remark; it does nothing to the guarantee, so nothing is asked."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("note"), True)
        end_with_report(study, "the note is recorded")
        found = study.note(text)
    show(found.plain() if as_json else None, f"Noted. {effect}\nNext: {found.next}")


@app.command(rich_help_panel=STUDIES)
def remove(name: Name, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """Forget a study that has no results; its name is free again."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("remove"), yes)
        study.remove()
    next_ = "`roundwise new` creates another."
    show(
        {"study": name, "removed": True, "next": next_} if as_json else None,
        f"{effect}\nRemoved '{name}'.\nNext: {next_}",
    )
