"""`roundwise calibrate`: is the guarantee kept, in every combination?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli import RESEARCH, app
from roundwise.cli.options import Json
from roundwise.cli.output import check_output, print_json, print_table, progress
from roundwise.errors import InputError
from roundwise.problem import whole_number


@app.command(rich_help_panel=RESEARCH)
def calibrate(
    runs: Annotated[
        int | None,
        typer.Option("--runs", help="Runs of a typical cell; 25 of a choice of cells if not given (a minute or two)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for counts, page and picture; the same command goes on where it was."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Processes to use, all cores if not given; the counts stay the same."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random numbers.")] = 1,
    only: Annotated[
        str | None, typer.Option("--only", help="Count only cells whose name contains this text.", metavar="TEXT")
    ] = None,
    as_json: Json = False,
) -> None:
    """Count errors in every combination of question, noise, rule and live path, where they are most likely.

    Prints the matrix. Exit code 1 if a rule that claims the guarantee breaks it, or a control is not caught.
    """
    from roundwise.theory.calibration.measure import grid, measured, quick, runs_of
    from roundwise.theory.calibration.page import draw, matrix, overview, page, plain, wrong

    number = 25 if runs is None else whole_number("runs", runs, 1)
    workers = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, 1)
    if out is not None:
        check_output(out / "calibration.md")
    cells, refused = grid()
    cells = quick(cells) if runs is None else cells
    if only is not None:
        cells = [each for each in cells if only in each.name]
        refused = [each for each in refused if only in f"{each.part}: {each.row} / {each.column}"]
        if not cells:
            raise InputError(f"No cell has '{only}' in its name. `roundwise calibrate --json` lists them.")
    try:
        with progress(sum(runs_of(cell, number) for cell in cells), "calibrating") as advance:
            found = measured(cells, number, out, seed=whole_number("seed", seed, 0), workers=workers, progress=advance)
    except KeyboardInterrupt:
        kept = "run the same command to go on" if out is not None else "with --out it could go on where it was"
        print(f"Interrupted; {kept}.", file=sys.stderr)
        raise typer.Exit(130) from None
    if out is not None:
        command = f"roundwise calibrate --runs {number} --seed {seed}" if runs is not None else "roundwise calibrate"
        draw(found, out / "figures" / "calibration.svg")
        (out / "calibration.md").write_text(page(found, refused, command, "figures/calibration.svg"), encoding="utf-8")
    sentences = wrong(found)
    if as_json:
        print_json(plain(found, refused))
    else:
        for part in ("product", "live"):
            if any(each.cell.part == part for each in found):
                titles, rows = matrix(found, refused, part)
                print("The largest rate over delta of any rule (- : refused), by noise model:")
                print("\n".join(f"  {i}  {title}" for i, title in enumerate(titles[1:], 1)))
                print_table([titles[0], *map(str, range(1, len(titles)))], rows)
        print_table(*overview(found, refused))
        for sentence in sentences:
            print(f"Not as it should be: {sentence}")
        if not sentences:
            print("Every rule that claims the guarantee keeps it, and every control was caught.")
        if out is not None:
            print(f"Page and picture: {out / 'calibration.md'}, {out / 'figures' / 'calibration.svg'}.")
    if sentences:
        raise typer.Exit(1)
