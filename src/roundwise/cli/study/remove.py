"""`roundwise remove`: forget a study that has no results."""

from __future__ import annotations

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.study.common import Name, Storage, Yes, agreed, show


@app.command(rich_help_panel=STUDIES)
def remove(name: Name, yes: Yes = False, storage: Storage = None, as_json: Json = False) -> None:
    """Forget a study that has no results; its name is free again."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        effect = agreed(study.effect("remove"), yes)
        study.remove()
    next_ = "`roundwise new` creates another."
    show(
        {"study": name, "removed": True, "next": next_} if as_json else None,
        f"{effect}\nRemoved '{name}'.\nNext: {next_}",
    )
