"""`roundwise status`: where a study stands."""

from __future__ import annotations

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.study.common import Name, Storage, show


@app.command(rich_help_panel=STUDIES)
def status(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Where a study stands: what came back, what is still to come, what is open."""
    from roundwise.planning import report_ahead
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        report = report_ahead(study)
    show(report.plain() if as_json else None, report.text())
