"""`roundwise close`: end a study."""

from __future__ import annotations

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, Why, Yes, agreed, show, whole


@app.command(rich_help_panel=STUDIES)
def close(name: Name, why: Why, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """End a study before it is decided; what is not counted is said, and what has not been ruled out."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        if study.state.waiting is not None:
            agreed(study.effect("end"), yes)
        found = study.end(why)
        recorded(f"'{name}' is closed")
        found = whole(study, found)
    show(found.plain() if as_json else None, found.text())
