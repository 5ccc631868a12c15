"""`roundwise calibrate`: is the guarantee kept, in every combination?"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli import RESEARCH, app
from roundwise.cli.options import Json, Seed
from roundwise.cli.output import check_output, print_json, print_table, progress
from roundwise.model.problem import check_whole_number


@app.command(rich_help_panel=RESEARCH)
def calibrate(
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            help="Number of runs of a typical cell of the full grid (default: the short calibration).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for counts, page and figure; rerun to resume."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Number of processes (default: all cores); results do not depend on it."),
    ] = None,
    seed: Seed = 1,
    only: Annotated[
        str | None, typer.Option("--only", help="Text that the names of cells must contain.", metavar="TEXT")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure the error of every rule where errors are most likely.

    The short calibration (a minute on two cores) has each rule where its error is nearest to delta, with runs enough to
    catch twice that with probability .99. With --runs every combination of question, noise, rule and live path is
    counted, too. Exit code 1 if a rule breaks its promise, a broken copy is not caught, or a cell cannot be counted.
    """
    from roundwise.calibration.measure import measure_cells, select_cells, sizes_of
    from roundwise.calibration.page import draw, list_problems, overview, page, plain, rule_rows

    number = None if runs is None else check_whole_number("runs", runs, 1)
    workers = (os.cpu_count() or 1) if workers is None else check_whole_number("workers", workers, 1)
    if out is not None:
        check_output(out / "calibration.md")
    cells, refused = select_cells(number, only)
    try:
        with progress(sum(sizes_of(cells, number).values()), "calibrating") as advance:
            counted = measure_cells(
                cells, number, out, seed=check_whole_number("seed", seed, 0), workers=workers, progress=advance
            )
    except KeyboardInterrupt:
        kept = "run the same command to go on" if out is not None else "with --out it could go on where it was"
        print(f"Interrupted; {kept}.", file=sys.stderr)
        raise typer.Exit(130) from None
    found = counted.found
    if out is not None:
        command = f"roundwise calibrate --runs {number} --seed {seed}" if runs is not None else "roundwise calibrate"
        draw(found, out / "figures" / "calibration.svg")
        text = page(counted, refused, command, "figures/calibration.svg")
        (out / "calibration.md").write_text(text, encoding="utf-8")
        (out / "calibration.json").write_text(json.dumps(plain(counted, refused)), encoding="utf-8")
    sentences = list_problems(counted)
    if as_json:
        print_json(plain(counted, refused))
    else:
        print_table(*rule_rows(found))
        print_table(*overview(found, refused))
        for sentence in sentences:
            print(f"Not as it should be: {sentence}")
        if not sentences:
            print("Every rule that claims the guarantee keeps it, and every broken copy was caught.")
        if out is not None:
            print(f"Page, picture and counts: {out / 'calibration.md'}, {out / 'figures' / 'calibration.svg'}.")
    if sentences:
        raise typer.Exit(1)
