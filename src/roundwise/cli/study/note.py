"""`roundwise note`: a remark for the record."""

from __future__ import annotations

from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Yes, agreed, show, whole


@app.command(rich_help_panel=STUDIES)
def note(
    name: Name,
    text: Annotated[str, typer.Argument(help="What is to be remembered.")],
    yes: Yes = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record a remark; it does nothing to the guarantee, so nothing is asked."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("note"), True)
        found = study.note(text)
        recorded("the note is recorded")
        found = whole(study, found)
    show(found.plain() if as_json else None, f"Noted. {effect}\nNext: {found.next}")
