"""`roundwise sweep`: every combination that a file lists, resumed where it was interrupted."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.arrays import Plain
from roundwise.cli import RESEARCH, app
from roundwise.cli.options import Json, Workers, option
from roundwise.cli.output import check_output, print_json, print_table, progress, say_text
from roundwise.cli.simulate import UNDECIDED, Cluster, print_caveats, summary_columns
from roundwise.messages import number

if TYPE_CHECKING:
    from distributed import Client

LABELS = {"question": "question", "instance": "instance", "noise": "assumed", "delta": "δ", "seed": "seed"}


@app.command(rich_help_panel=RESEARCH)
def sweep(
    file: Annotated[
        Path, typer.Argument(help="TOML file of questions, instances and policies (see docs/scale.md).", metavar="FILE")
    ],
    out: Annotated[Path | None, option("--out", "Folder for the results (default results/NAME).", "FOLDER")] = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Simulate every combination in a file: a table, a figure, and every run as Parquet.

    Cells that are already in the folder are not run again, so an interrupted sweep resumes.
    """
    from roundwise.simulation.run import check_place
    from roundwise.simulation.sweep import is_finished, read_grid, run_sweep
    from roundwise.theory.figures.sweep import draw_sweep

    grid = read_grid(file)
    check_place(workers, cluster)
    folder = Path("results") / file.stem if out is None else out
    check_output(folder / "summary.csv", theirs=False)
    missing = [cell for cell in grid.cells if not is_finished(cell, folder)]
    try:
        with (
            _connect(cluster if missing else None) as client,
            progress(sum(cell.runs for cell in missing), "sweeping") as advance,
        ):
            rows = run_sweep(grid, folder, workers=workers, cluster=client, progress=advance).rows
        figures, left_out = draw_sweep(rows, folder)
    except KeyboardInterrupt:
        stored = sum(is_finished(cell, folder) for cell in grid.cells)
        print(
            f"Interrupted: {stored} of {len(grid.cells)} cells are stored; run the same command to resume.",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
    files = [folder / "summary.csv", *figures]
    stored = len(grid.cells) - len(missing)
    if as_json:
        print_json(
            {
                "cells": rows,
                "computed": len(missing),
                "already_stored": stored,
                "impossible": grid.impossible,
                "not_in_the_figure": left_out,
                "files": [str(path) for path in files],
            }
        )
        return
    _print_rows(rows)
    for sentence in grid.impossible:
        print(f"Cannot be run, left out: {sentence}", file=sys.stderr)
    for reason in left_out:
        say_text(f"{'In the figure' if figures else 'No figure'}: {reason}.")
    say_text(f"{len(rows)} cells, {stored} of them from before; every run is in {folder / 'cells'}.")
    say_text(f"Summary{' and figure' if figures else ''}: {', '.join(str(path) for path in files)}.")


def _connect(cluster: str | None) -> AbstractContextManager[Client | None]:
    """One connection for the whole sweep, made before anything is computed."""
    if cluster is None:
        return nullcontext()
    from roundwise.simulation.workers import connected

    return connected(cluster)


def _print_rows(rows: list[Plain]) -> None:
    """A table of policies for each problem; settings that all problems share are printed once."""
    labels = {key: word for key, word in LABELS.items() if len({row[key] for row in rows}) > 1}
    runs = {row["runs"] for row in rows}
    same = [_label(LABELS, key, rows[0]) for key in LABELS if key not in labels]
    say_text("; ".join([*same, *(f"runs {number(each)}" for each in runs if len(runs) == 1)]))
    for _, group in groupby(rows, lambda row: [row[key] for key in labels]):
        cells = list(group)
        if labels:
            say_text("; ".join(_label(labels, key, cells[0]) for key in labels))
        columns = summary_columns(cells)
        print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if any(row["undecided"] for row in rows):
        say_text(UNDECIDED)
    if other := sorted({row["lower_bound_for"] for row in rows} - {"these rewards"}):
        say_text(
            f"For rewards that are not normal, the bound is the one for {' or '.join(other)}; they may need fewer."
        )
    print_caveats(rows)


def _label(words: dict[str, str], key: str, row: Plain) -> str:
    return f"{words[key]} {row[key] if isinstance(row[key], str) else number(row[key])}"
