"""`roundwise extend`: another budget."""

from __future__ import annotations

from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Yes, agreed, show, whole


@app.command(rich_help_panel=STUDIES)
def extend(
    name: Name,
    budget: Annotated[int, typer.Option("--budget", help="So many results in all.")],
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Allow more results (or fewer) than were planned, for any reason."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("extend", budget=budget), yes)
        found = study.extend(budget)
        recorded("the budget is recorded")
        found = whole(study, found)
    show(found.plain() if as_json else None, f"{effect}\n{found.text()}")
