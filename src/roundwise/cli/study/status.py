"""`roundwise status, list, report`: where studies stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import check_output, print_json, print_table, say, write_file
from roundwise.cli.study.common import Name, Storage, show
from roundwise.errors import InputError

ENDINGS = (".html", ".md", ".pdf", ".xlsx", ".csv", ".json", ".txt")


@app.command(rich_help_panel=STUDIES)
def status(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Show where a study stands: results so far, results to come, what is undecided."""
    from roundwise.planning import report_ahead
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        report = report_ahead(study)
    show(report.plain() if as_json else None, report.text())


@app.command("list", rich_help_panel=STUDIES)
def list_studies(storage: Storage = None, as_json: Json = False) -> None:
    """List the studies of the storage with their state, answer and budget."""
    from roundwise.report.wording import count
    from roundwise.study import audit

    found = audit.list_studies(storage)
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
        mark = each["guarantee"]["status"]
        stands = (each["answer"] or each["state"]) + ("" if mark == "kept" else f" ({mark})")
        rows.append((each["name"], stands, came, waiting, each["changed"][:16], each["by"]))
    print_table(("study", "state or answer", "results", "waiting", "last change (UTC)", "by"), rows)
    say("Next: `roundwise status NAME` shows where one stands.")


@app.command(rich_help_panel=STUDIES)
def report(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"Output file: {', '.join(ENDINGS)}.", show_default=False)
    ] = None,
    table: Annotated[
        str, typer.Option("--table", help="Table to write as .csv: arms, claims, rounds or files.")
    ] = "arms",
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Print the full report of a study, or write it as a page, PDF, Excel workbook or CSV."""
    from roundwise.planning import report_ahead
    from roundwise.report.export import TABLES, browser
    from roundwise.study import load_study

    kind = "" if out is None else out.suffix.lower()
    if out is not None and kind not in ENDINGS:
        raise InputError(f"'{out}' must end in {', '.join(ENDINGS)}.")
    if table not in TABLES:
        raise InputError(f"There is no table '{table}'. Give --table {', '.join(TABLES)}.")
    check_output(out, theirs=False)
    if kind == ".pdf":
        browser()
    with load_study(name, storage) as study:
        found = report_ahead(study)
    if out is None:
        if as_json:
            print_json(found.plain())
        else:
            say(found.text())
        return
    forms: dict[str, Callable[[], str | bytes]] = {
        ".html": found.html,
        ".md": found.markdown,
        ".pdf": found.pdf,
        ".xlsx": found.xlsx,
        ".csv": lambda: found.csv(table),
        ".json": found.json,
        ".txt": lambda: f"A report of roundwise\n\n{found.text()}\n",
    }
    write_file(out, forms[kind]())
    next_ = found.next
    if found.status != "undecided":
        next_ = f"keep it with the record, which `roundwise export {quote(name)}` writes."
    if as_json:
        print_json(found.plain())
    else:
        say(f"{found.top()}\nThe report is in {out}.\nNext: {next_}")
