"""`roundwise log, export, import, verify`: the record of a study, kept, moved and computed again."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Json, option
from roundwise.cli.output import check_output, print_json, print_table, progress, record_name, recorded, say_text
from roundwise.cli.study.rounds import Name, Storage, guarantee, show
from roundwise.messages import day, number, several, shell_command


@app.command(rich_help_panel=STUDIES)
def log(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Show the record of a study: every entry with its time, author, file and rows."""
    from roundwise.report import list_events
    from roundwise.store import open_store

    with open_store(storage, create=False) as store:
        entries = store.read(name)
    found = list_events(entries)
    if as_json:
        plain = {"study": name, "entries": [each.plain() for each in found], "digest": found[-1].digest}
        print_json({**plain, "guarantee": guarantee(entries)})
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
    next_ = f"{shell_command(f'verify {quote(name)}')} recomputes it."
    say_text(f"The record ends with {found[-1].digest}.\nNext: {next_}")


@app.command(rich_help_panel=STUDIES)
def export(
    name: Name,
    out: Annotated[Path | None, option("--out", "Output file (default NAME.jsonl).", "FILE")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Write the record of a study to a file, for an archive or another storage."""
    from roundwise.store import open_store, write_log

    target = record_name(name) if out is None else out
    check_output(target, theirs=False)
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(target, entries)
    next_ = f"`roundwise import {quote(str(target))} --storage URL` copies it to another storage."
    plain = {"study": name, "file": str(target), "entries": len(entries), "next": next_}
    plain["guarantee"] = guarantee(entries)
    show(plain if as_json else None, f"The record of '{name}' is in {target}.\nNext: {next_}")


@app.command("import", rich_help_panel=STUDIES)
def import_study(
    file: Annotated[Path, typer.Argument(help="File written by `roundwise export`.", metavar="FILE")],
    unsound: Annotated[bool, option("--unsound", "Import even if recomputed results differ.")] = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Import an exported study; its hash chain is checked and everything is recomputed."""
    from roundwise.store import read_log
    from roundwise.study.audit import import_entries

    entries = read_log(file)
    with progress(len(entries) - 1, "recomputing") as advance:
        listing = import_entries(entries, storage, unsound, advance)
    recorded(f"'{listing.name}' is imported")
    next_ = f"{shell_command(f'verify {quote(listing.name)}')} recomputes it."
    plain = {"study": listing.name, "entries": listing.entries, "next": next_, "guarantee": guarantee(entries)}
    show(plain if as_json else None, f"Imported '{listing.name}' with {listing.entries} entries.\nNext: {next_}")


@app.command(rich_help_panel=STUDIES)
def verify(
    name: Name,
    digest: Annotated[str | None, option("--digest", "Digest from an earlier report, to find in this record.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Recompute a study from its record and list every difference."""
    from roundwise._version import __version__
    from roundwise.store import open_store
    from roundwise.study.audit import audit_entries, find_entry

    with open_store(storage, create=False) as store:
        entries = store.read(name)
    known = None if digest is None else find_entry(entries, digest)
    with progress(len(entries) - 1, "recomputing") as advance:
        audit = audit_entries(entries, advance)
    found = audit.plain() | ({} if known is None else {"digest_of_entry": known.seq})
    verdict = "the verdict" if audit.verdicts else "no verdict"
    what = f"{several(audit.plans, 'plan')}, {several(audit.checkpoints, 'checkpoint')} and {verdict}"
    lines = [f"'{name}' is {'sound' if audit.sound else 'NOT sound'}: {len(entries)} entries, unbroken chain."]
    if audit.differences:
        lines.append(f"{what} were recomputed; {len(audit.differences)} differ:")
        lines += [
            f"- entry {each.entry} (roundwise {each.version}, rules {each.rules}): {each.words}"
            for each in audit.differences
        ]
        if audit.sound:
            lines.append(
                f"All of them were recorded under other rules than those of roundwise {__version__}. The evidence "
                "won under those rules is carried on, and the guarantee is not affected."
            )
        else:
            lines.append("Entries recorded under the rules of this version must not differ: find out who changed them.")
    else:
        lines.append(f"{what} were recomputed without a difference.")
    if known is not None:
        later = len(entries) - 1 - known.seq
        since = "its last entry" if not later else f"entry {known.seq}, and {later} came after it"
        lines.append(f"The digest you gave belongs to this record: it is that of {since}.")
    lines.append(f"The last digest is {entries[-1].digest}.")
    lines.append(f"Next: {shell_command(f'report {quote(name)}')} shows its results.")
    show(found if as_json else None, "\n".join(lines))
    if not audit.sound:
        raise typer.Exit(2)
