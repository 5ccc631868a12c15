"""`roundwise status, list, log, report, export`: what there is to see of studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.files import check_output, file_name, write_file
from roundwise.cli.options import Json
from roundwise.cli.output import number, print_json, print_table, say
from roundwise.cli.study import Name, Storage
from roundwise.errors import InputError

ENDINGS = (".html", ".md", ".pdf", ".xlsx", ".csv", ".json", ".txt")


@app.command(rich_help_panel=STUDIES)
def status(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Where a study stands: what is shown, what is open, what is still to come."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        found = study.report()
    if as_json:
        print_json(found.plain())
    else:
        say(found.text())


@app.command("list", rich_help_panel=STUDIES)
def list_all(storage: Storage = None, as_json: Json = False) -> None:
    """All studies of the storage: where each stands, and since when it waits."""
    from roundwise.studies.keeping import list_studies
    from roundwise.studies.report.words import day

    found = list_studies(storage)
    if as_json:
        print_json([each.plain() for each in found])
        return
    if not found:
        say("There are no studies. Next: `roundwise new NAME --question best-arm --arms a,b,c --binary` creates one.")
        return
    rows = [
        (
            each.study,
            each.status,
            each.headline if len(each.headline) <= 100 else each.headline[:97] + "...",
            number(each.results) + ("" if each.budget is None else f" of {number(each.budget)}"),
            "-" if each.waiting_since is None else day(each.waiting_since),
        )
        for each in found
    ]
    print_table(("study", "state", "answer, or what is open", "results", "waiting since"), rows, lines=True)
    say("Next: `roundwise status NAME` shows where one stands.")


@app.command(rich_help_panel=STUDIES)
def log(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """The record of a study: every entry, when, by whom, which file, how many rows."""
    from roundwise.studies.keeping import study_log
    from roundwise.studies.report.words import day

    found = study_log(name, storage)
    if as_json:
        print_json([each.plain() for each in found])
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


@app.command(rich_help_panel=STUDIES)
def report(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"Write it: {', '.join(ENDINGS)}.", show_default=False)
    ] = None,
    table: Annotated[
        str, typer.Option("--table", help="Which table a .csv file has: arms, claims, rounds or files.")
    ] = "arms",
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Everything there is to say about a study: on the screen, or as a page, PDF, Excel workbook, CSV, ..."""
    from roundwise.studies import load_study
    from roundwise.studies.report.pdf import browser
    from roundwise.studies.report.sheets import TABLES

    kind = "" if out is None else out.suffix.lower()
    if out is not None and kind not in ENDINGS:
        raise InputError(f"'{out}' must end in {', '.join(ENDINGS)}.")
    if table not in TABLES:
        raise InputError(f"There is no table '{table}'. Give --table {', '.join(TABLES)}.")
    check_output(out, theirs=False)
    if kind == ".pdf":
        browser()
    with load_study(name, storage) as study:
        found = study.report()
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


@app.command(rich_help_panel=STUDIES)
def export(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; default NAME.jsonl.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Write the whole record of a study to a file, for an archive or another machine."""
    from roundwise.studies.keeping import guarantee_of_record
    from roundwise.studies.store import open_store, write_log

    target = file_name(name, ".jsonl") if out is None else out
    check_output(target, theirs=False)
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(target, entries)
    next_ = f"`roundwise import {quote(str(target))}` brings it into another storage."
    plain = {"study": name, "file": str(target), "entries": len(entries), "next": next_}
    if as_json:
        print_json({**plain, "guarantee": guarantee_of_record(entries)})
    else:
        say(f"The record of '{name}' is in {target}.\nNext: {next_}")
