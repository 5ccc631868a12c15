"""`roundwise reopen`: go on with a study that was closed."""

from __future__ import annotations

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Why, Yes, agreed, show, whole


@app.command(rich_help_panel=STUDIES)
def reopen(name: Name, why: Why, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """Go on with a study that was closed undecided."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("reopen"), yes)
        found = study.reopen(why)
        recorded(f"'{name}' is open again")
        found = whole(study, found)
    show(found.plain() if as_json else None, f"{effect}\n{found.text()}")
