"""`roundwise ask, tell`: what to do next, and what came back."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Json, grouped
from roundwise.cli.output import ASKED, check_output, print_json, print_table, recorded, say, write_file
from roundwise.cli.study.common import FileOptions, Name, Storage, end_with_report, show


@app.command(rich_help_panel=STUDIES)
def ask(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write the round to.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Show the next round: how many results to collect for each arm."""
    from roundwise.report import build_report
    from roundwise.report.export import render_csv
    from roundwise.study import load_study
    from roundwise.study.guarantee import guarantee_of

    check_output(out, theirs=False)
    with load_study(name, storage) as study:
        asked, state = study.asking()
    if asked is None:
        report = build_report(state, intervals=False)
        show(report.plain() if as_json else None, f"{report.top()}\nNext: {report.next}")
        return
    recorded(f"round {asked.number} of '{name}' is asked for")
    wanted = {arm: int(n) for arm, n in zip(asked.arms, asked.pulls, strict=True)}
    missing = {arm: int(n) for arm, n in zip(asked.arms, asked.outstanding, strict=True)}
    if out is not None:
        write_file(out, render_csv(ASKED, [(arm, n) for arm, n in missing.items() if n]))
    if as_json:
        guarantee = guarantee_of(state).plain()
        plain = {"study": name, "round": asked.number, "results": wanted, "still_to_come": missing}
        print_json({**plain, "guarantee": guarantee})
        return
    so_far = f", {sum(missing.values())} of them still to come" if asked.files else ""
    many = sum(wanted.values())
    say(f"{name}, round {asked.number}: collect {many} result{'' if many == 1 else 's'}{so_far}.")
    rows = [(arm, wanted[arm], missing[arm]) for arm in asked.arms if wanted[arm]]
    if asked.files:
        print_table(("arm", "results", "still to come"), rows[:60])
    else:
        print_table(("arm", "results"), [row[:2] for row in rows[:60]])
    if len(rows) > 60:
        say(f"... and {len(rows) - 60} more arms; --out FILE writes them all.")
    if state.settings.noise.shares_items:
        say("On the same items, new to all arms: an arm that is asked for fewer is tried on the first of them.")
    where = f" (written to {out})" if out is not None else ""
    say(f"Next: do this round{where}, then `roundwise tell {quote(name)} FILE`.")


@app.command(rich_help_panel=STUDIES)
@grouped
def tell(
    name: Name,
    files: Annotated[list[Path] | None, typer.Argument(help="Result files: CSV, JSON, Excel or Parquet.")] = None,
    round_over: Annotated[
        str | None, typer.Option("--round-over", help="Reason to close the round although results are missing.")
    ] = None,
    *,
    said: FileOptions,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.study import load_study

    with load_study(name, storage) as study:
        told = ", ".join(str(each) for each in files or [])
        end_with_report(study, f"{told or 'that the rest will not come'} is recorded")
        report = study.tell(*(files or []), round_over=round_over, **said.words)
    show(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())
