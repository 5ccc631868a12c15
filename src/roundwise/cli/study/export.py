"""`roundwise export`: the whole record as a file."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.files import check_output, file_name
from roundwise.cli.options import Json
from roundwise.cli.study.common import Name, Storage, show_of


@app.command(rich_help_panel=STUDIES)
def export(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; default NAME.jsonl.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Write the whole record of a study to a file, for an archive or another machine."""
    from roundwise.studies.store import open_store, write_log

    target = file_name(name, ".jsonl") if out is None else out
    check_output(target, theirs=False)
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(target, entries)
    next_ = f"`roundwise import {quote(str(target))}` brings it into another storage."
    plain = {"study": name, "file": str(target), "entries": len(entries), "next": next_} if as_json else None
    show_of(entries, plain, f"The record of '{name}' is in {target}.\nNext: {next_}")
