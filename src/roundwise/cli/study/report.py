"""`roundwise report`: everything there is to say."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import check_output
from roundwise.cli.study.common import Name, Storage, show
from roundwise.errors import InputError


@app.command(rich_help_panel=STUDIES)
def report(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="Write it: .html, .md or .json.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Everything there is to say about a study, with intervals."""
    from roundwise.studies import load_study

    endings = (".html", ".md", ".json")
    if out is not None and out.suffix.lower() not in endings:
        raise InputError(f"'{out}' must end in {', '.join(endings)}.")
    check_output(out)
    with load_study(name, storage) as study:
        found = study.report()
    if out is None:
        show(found.plain() if as_json else None, found.text())
        return
    kind = out.suffix.lower()
    text = found.html() if kind == ".html" else found.markdown() if kind == ".md" else found.json()
    out.write_text(text, encoding="utf-8")
    next_ = found.next
    if found.status != "undecided":
        next_ = f"keep it with the record, which `roundwise export {quote(name)}` writes."
    show(found.plain() if as_json else None, f"{found.top()}.\nThe report is in {out}.\nNext: {next_}")
