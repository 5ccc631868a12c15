"""`roundwise drop`: leave an arm out."""

from __future__ import annotations

from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Unrelated, Why, Yes, agreed, show, whole


@app.command(rich_help_panel=STUDIES)
def drop(
    name: Name,
    arm: Annotated[str, typer.Argument(help="The arm to leave out.")],
    why: Why,
    unrelated: Unrelated = False,
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Leave an arm out from here on; it is said first what that does to the guarantee."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("drop", arm=arm, why=why, unrelated=unrelated), yes)
        found = study.drop(arm, why, unrelated)
        recorded(f"{arm} is left out")
        found = whole(study, found)
    show(found.plain() if as_json else None, f"{effect}\n{found.text()}")
