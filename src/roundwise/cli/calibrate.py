"""`roundwise calibrate`: error rates of every rule."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli import RESEARCH, app
from roundwise.cli.options import AllWorkers, Json, Seed, option
from roundwise.cli.output import check_output, print_json, print_table, progress, say_text
from roundwise.model.problem import check_whole_number


@app.command(rich_help_panel=RESEARCH)
def calibrate(
    runs: Annotated[
        int | None,
        option("--runs", "Runs of a typical cell of the full grid (default: the short calibration).", "NUMBER"),
    ] = None,
    out: Annotated[
        Path | None, option("--out", "Folder for counts, page and figure; rerun to resume.", "FOLDER")
    ] = None,
    workers: AllWorkers = None,
    seed: Seed = 1,
    only: Annotated[str | None, option("--only", "Text that the names of cells must contain.", "TEXT")] = None,
    as_json: Json = False,
) -> None:
    """Measure the error of every rule where errors are most likely.

    The short calibration (a minute on two cores) tests each rule where its error is closest to delta, with enough runs
    to detect an error of twice delta with probability 0.99. With --runs, every combination of question, noise, rule and
    live path is tested as well. The exit code is 1 if a rule exceeds delta, a rule broken on purpose passes, or a cell
    cannot be run.
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
        kept = "run the same command to resume" if out is not None else "with --out it can be resumed"
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
            say_text(f"Failed: {sentence}")
        if not sentences:
            say_text("Every rule that claims the guarantee keeps it, and every rule broken on purpose was caught.")
        if out is not None:
            say_text(f"Page, figure and counts: {out / 'calibration.md'}, {out / 'figures' / 'calibration.svg'}.")
    if sentences:
        raise typer.Exit(1)
