"""`roundwise import`: a record that was exported."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import progress, recorded
from roundwise.cli.study.common import Storage, show_of


@app.command("import", rich_help_panel=STUDIES)
def import_study(
    file: Annotated[Path, typer.Argument(help="A file that `roundwise export` wrote.")],
    unsound: Annotated[
        bool, typer.Option("--unsound", help="Take it in although this version computes something otherwise.")
    ] = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Bring a study that was exported into a storage; its chain is checked, and all of it is computed again."""
    from roundwise.studies.keeping import imported
    from roundwise.studies.store import read_log

    entries = read_log(file)
    with progress(len(entries) - 1, "computing it again") as advance:
        listing = imported(entries, storage, unsound, advance)
    recorded(f"'{listing.name}' is imported")
    next_ = f"`roundwise verify {quote(listing.name)}` recomputes it."
    plain = {"study": listing.name, "entries": listing.entries, "next": next_} if as_json else None
    show_of(entries, plain, f"Imported '{listing.name}' with {listing.entries} entries.\nNext: {next_}")
