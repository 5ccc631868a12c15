"""`roundwise amend`: correct or withdraw a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Why, show, whole


@app.command(rich_help_panel=STUDIES)
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="The file that was told, by name or the start of its digest.")],
    why: Why,
    by: Annotated[
        Path | None, typer.Option("--by", help="The corrected file; without it the old one is withdrawn.")
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        found = study.amend(file, by, why)
        recorded(f"the amendment of {file} is recorded")
        found = whole(study, found)
    show(found.plain() if as_json else None, found.text())
