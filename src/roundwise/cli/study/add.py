"""`roundwise add`: one more arm."""

from __future__ import annotations

from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Unrelated, Yes, agreed, show, whole


@app.command(rich_help_panel=STUDIES)
def add(
    name: Name,
    arm: Annotated[str, typer.Argument(help="The arm to take in.")],
    why: Annotated[str, typer.Option("--why", help="The reason, which is recorded.")] = "",
    unrelated: Unrelated = False,
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Take in one more arm; it is said first what that does to the guarantee."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("add", arm=arm, why=why, unrelated=unrelated), yes)
        found = study.add(arm, why, unrelated)
        recorded(f"{arm} is added")
        found = whole(study, found)
    show(found.plain() if as_json else None, f"{effect}\n{found.text()}")
