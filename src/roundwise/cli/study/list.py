"""`roundwise list`: all studies."""

from __future__ import annotations

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import print_json, print_table, say
from roundwise.cli.study.common import Storage


@app.command("list", rich_help_panel=STUDIES)
def list_studies(storage: Storage = None, as_json: Json = False) -> None:
    """All studies of the storage: their state, answer, and results of their budget."""
    from roundwise.studies import keeping
    from roundwise.studies.words import count

    found = keeping.list_studies(storage)
    if as_json:
        print_json(found)
        return
    if not found:
        say("There are no studies. Next: `roundwise new NAME --question best-arm --arms a,b,c --binary` creates one.")
        return
    rows = []
    for each in found:
        came = count(each["results"]) + ("" if each["budget"] is None else f" of {count(each['budget'])}")
        waiting = "" if each["since"] is None else f"since {each['since'][:16]}"
        stands = each["answer"] or each["state"]
        rows.append((each["name"], stands, came, waiting, each["changed"][:16], each["by"]))
    print_table(("study", "state or answer", "results", "waiting", "last change (UTC)", "by"), rows)
    say("Next: `roundwise status NAME` shows where one stands.")
