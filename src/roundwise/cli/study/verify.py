"""`roundwise verify`: everything is computed again."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import progress
from roundwise.cli.study.common import Name, Storage, show


@app.command(rich_help_panel=STUDIES)
def verify(
    name: Name,
    digest: Annotated[
        str | None, typer.Option("--digest", help="The digest in a report that you keep: is this still that record?")
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Compute a study again from its record, and list what this version finds otherwise than it was recorded."""
    from roundwise._version import __version__
    from roundwise.studies.guarantee import guarantee_of
    from roundwise.studies.keeping import entry_of, verified
    from roundwise.studies.store import open_store

    with open_store(storage, create=False) as store:
        entries = store.read(name)
    known = None if digest is None else entry_of(entries, digest)
    with progress(len(entries) - 1, "computing it again") as advance:
        audit = verified(entries, advance)
    found = {
        "study": name,
        "entries": len(entries),
        "digest": entries[-1].digest,
        **({} if known is None else {"known": known.seq}),
        "batches": audit.counts,
        "decided": audit.state.decided is not None,
        "sound": audit.sound,
        "differences": [each._asdict() for each in audit.differences],
        "guarantee": str(guarantee_of(audit.state)),
    }
    what = f"{audit.plans} plans, {audit.counts} counts and {'the' if audit.verdicts else 'no'} verdict"
    lines = [f"'{name}' is {'sound' if audit.sound else 'NOT sound'}: {len(entries)} entries, unbroken chain."]
    if audit.differences:
        lines.append(f"{what} were computed again; {len(audit.differences)} came out otherwise:")
        lines += [
            f"- entry {each.entry} (roundwise {each.version}, rules {each.rules}): {each.words}"
            for each in audit.differences
        ]
        if audit.sound:
            lines.append(
                f"All of these were recorded by other rules than those of roundwise {__version__}. What was won by "
                "them is carried on, and the guarantee is not touched."
            )
        else:
            lines.append("What was recorded by the rules of this very version should not differ: ask who changed it.")
    else:
        lines.append(f"{what} were computed again and found the same.")
    if known is not None:
        later = len(entries) - 1 - known.seq
        since = "is its last one" if not later else f"is that of entry {known.seq}, and {later} came after it"
        lines.append(f"It is the record whose digest you kept: the digest {since}.")
    lines.append(f"The last digest is {entries[-1].digest}.")
    lines.append(f"Next: `roundwise report {quote(name)}` says what it shows.")
    show(found if as_json else None, "\n".join(lines))
    if not audit.sound:
        raise typer.Exit(2)
