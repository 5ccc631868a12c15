"""`roundwise import-past`: earlier data that teach and are no evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Yes, agreed, show, whole


@app.command("import-past", rich_help_panel=STUDIES)
def import_past(
    name: Name,
    file: Annotated[Path, typer.Argument(help="A file with earlier results of these arms.")],
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Let earlier data say where to look, before the first results; they are no evidence."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("import_past"), yes)
        found = study.import_past(file)
        recorded(f"{file} is recorded")
        found = whole(study, found)
    show(found.plain() if as_json else None, f"{effect}\n{found.text()}")
