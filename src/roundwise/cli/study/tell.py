"""`roundwise tell`: record results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.reading import (
    ArmColumn,
    AverageIds,
    Cumulative,
    IdColumn,
    IgnoreArms,
    ItemColumn,
    Missing,
    New,
    OutcomeColumn,
    TimeColumn,
    columns_of,
    words_of,
)
from roundwise.cli.study.common import Name, Storage, show, whole


@app.command(rich_help_panel=STUDIES)
def tell(
    name: Name,
    files: Annotated[list[Path] | None, typer.Argument(help="CSV, JSON, Excel or Parquet files with results.")] = None,
    round_over: Annotated[
        str | None, typer.Option("--round-over", help="Close the round although results are missing; say why.")
    ] = None,
    arm_column: ArmColumn = None,
    outcome_column: OutcomeColumn = None,
    id_column: IdColumn = None,
    time_column: TimeColumn = None,
    item_column: ItemColumn = None,
    ignore_arms: IgnoreArms = None,
    missing: Missing = None,
    cumulative: Cumulative = False,
    again: New = False,
    average_ids: AverageIds = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.studies import load_study

    columns = columns_of(arm_column, outcome_column, id_column, time_column, item_column)
    words = words_of(columns, ignore_arms, missing, cumulative, again, average_ids)
    with load_study(name, storage) as study:
        found = study.tell(*(files or []), round_over=round_over, **words)
        told = ", ".join(str(each) for each in files or [])
        recorded(f"{told or 'that the rest will not come'} is recorded")
        report = whole(study, found)
    show(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())
