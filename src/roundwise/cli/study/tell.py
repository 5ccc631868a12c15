"""`roundwise tell`: record results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.study.common import Name, Storage, show


@app.command(rich_help_panel=STUDIES)
def tell(
    name: Name,
    files: Annotated[list[Path] | None, typer.Argument(help="CSV, Excel or Parquet files with results.")] = None,
    round_over: Annotated[
        str | None, typer.Option("--round-over", help="Close the batch although results are missing; say why.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="New results that came out the same as some that are recorded.")
    ] = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        report = study.tell(*(files or []), round_over=round_over, again=again)
    told = ", ".join(str(each) for each in files or [])
    show(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())
