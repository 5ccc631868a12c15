"""`roundwise ask`: what to do next."""

from __future__ import annotations

import csv
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Json
from roundwise.cli.output import check_output, print_json, print_table
from roundwise.cli.study.common import Name, Storage, show


@app.command(rich_help_panel=STUDIES)
def ask(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="Write the batch to this CSV file.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """What to do next: how many results of each arm. The same batch until it is complete or closed."""
    from roundwise.studies import load_study
    from roundwise.studies.guarantee import guarantee_of
    from roundwise.studies.report import report_of

    check_output(out)
    with load_study(name, storage) as study:
        asked, state = study.asking()
    if asked is None:
        report = report_of(state, intervals=False)
        show(report.plain() if as_json else None, f"{report.top()}.\nNext: {report.next}")
        return
    pulls = {arm: int(n) for arm, n in zip(asked.arms, asked.pulls, strict=True)}
    missing = {arm: int(n) for arm, n in zip(asked.arms, asked.outstanding, strict=True)}
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as target:
            writer = csv.writer(target)
            writer.writerow(("arm", "pulls"))
            writer.writerows((arm, n) for arm, n in missing.items() if n)
    if as_json:
        guarantee = str(guarantee_of(state))
        plain = {"study": name, "batch": asked.number, "pulls": pulls, "outstanding": missing, "guarantee": guarantee}
        print_json(plain)
        return
    print(
        f"{name}, batch {asked.number}: {sum(pulls.values())} results, {sum(missing.values())} of them still to come."
    )
    rows = [(arm, pulls[arm], missing[arm]) for arm in asked.arms if pulls[arm]]
    print_table(("arm", "results", "still to come"), rows[:60])
    if len(rows) > 60:
        print(f"... and {len(rows) - 60} more arms; --out FILE writes them all.")
    where = f" (written to {out})" if out is not None else ""
    print(f"Next: do this batch{where}, then `roundwise tell {quote(name)} FILE`.")
