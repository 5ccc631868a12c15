"""`roundwise amend`: correct or withdraw a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.reading import file_words, with_files
from roundwise.cli.study.common import Name, Storage, Why, show, whole
from roundwise.errors import InputError

if TYPE_CHECKING:
    from roundwise.studies.results import Words


@app.command(rich_help_panel=STUDIES)
@with_files
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="The file that was told, by name or the start of its digest.")],
    why: Why,
    by: Annotated[
        Path | None, typer.Option("--by", help="The corrected file; without it the old one is withdrawn.")
    ] = None,
    *,
    words: Words,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    from roundwise.studies import load_study

    if by is None and words != file_words():
        raise InputError("Options of files go with --by FILE: without it the file is withdrawn. Nothing was changed.")
    with load_study(name, storage) as study:
        found = study.amend(file, by, why, **words)
        recorded(f"the amendment of {file} is recorded")
        found = whole(study, found)
    show(found.plain() if as_json else None, found.text())
