"""`roundwise log`: every entry of a record."""

from __future__ import annotations

from shlex import quote

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import number, print_json, print_table, say
from roundwise.cli.study.common import Name, Storage, guarantee


@app.command(rich_help_panel=STUDIES)
def log(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """The record of a study: every entry, when, by whom, which file, how many rows."""
    from roundwise.studies.report import events_of
    from roundwise.studies.store import open_store
    from roundwise.studies.words import day

    with open_store(storage, create=False) as store:
        entries = store.read(name)
    found = events_of(entries)
    if as_json:
        plain = {"study": name, "entries": [each.plain() for each in found], "digest": found[-1].digest}
        print_json({**plain, "guarantee": guarantee(lambda: entries)})
        return
    rows = [
        (
            str(each.entry),
            day(each.at),
            each.by,
            "" if each.round is None else str(each.round),
            each.what,
            each.file or "",
            "" if each.rows is None else number(each.rows),
        )
        for each in found
    ]
    print_table(("entry", "when", "who", "round", "what", "file", "rows"), rows)
    say(f"The record ends with {found[-1].digest}.\nNext: `roundwise verify {quote(name)}` recomputes it.")
