"""`roundwise amend`: correct or withdraw a file."""

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
from roundwise.cli.study.common import Name, Storage, Why, show, whole
from roundwise.errors import InputError


@app.command(rich_help_panel=STUDIES)
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="The file that was told, by name or the start of its digest.")],
    why: Why,
    by: Annotated[
        Path | None, typer.Option("--by", help="The corrected file; without it the old one is withdrawn.")
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
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    from roundwise.studies import load_study

    columns = columns_of(arm_column, outcome_column, id_column, time_column, item_column)
    words = words_of(columns, ignore_arms, missing, cumulative, again, average_ids)
    if by is None and words != words_of(None, None, None, False, False, False):
        raise InputError("Options of files go with --by FILE: without it the file is withdrawn. Nothing was changed.")
    with load_study(name, storage) as study:
        found = study.amend(file, by, why, **words)
        recorded(f"the amendment of {file} is recorded")
        found = whole(study, found)
    show(found.plain() if as_json else None, found.text())
