"""`roundwise tell`: record results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.reading import with_files
from roundwise.cli.study.common import Name, Storage, show, whole

if TYPE_CHECKING:
    from roundwise.studies.results import Words


@app.command(rich_help_panel=STUDIES)
@with_files
def tell(
    name: Name,
    files: Annotated[list[Path] | None, typer.Argument(help="CSV, JSON, Excel or Parquet files with results.")] = None,
    round_over: Annotated[
        str | None, typer.Option("--round-over", help="Close the round although results are missing; say why.")
    ] = None,
    *,
    words: Words,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        found = study.tell(*(files or []), round_over=round_over, **words)
        told = ", ".join(str(each) for each in files or [])
        recorded(f"{told or 'that the rest will not come'} is recorded")
        report = whole(study, found)
    show(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())
