"""`roundwise sweep`: every combination that a file lists, resumed where it was interrupted."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from roundwise.cli import app
from roundwise.cli.options import Json
from roundwise.cli.output import check_output, number, print_json, print_table, progress
from roundwise.cli.simulate import Cluster


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="A TOML file: tables [[question]], [[instance]] and [[policy]].")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for results [results/ and the name of the file].")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes to use; the numbers stay the same.")] = 1,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Run every combination that a file lists: a table, a figure, and every run as Parquet.

    Cells that are already in the folder are not run again, so an interrupted sweep goes on where it was.
    """
    from roundwise.figures.sweep import draw
    from roundwise.simulate import check_place
    from roundwise.sweep import is_finished, read_grid, run_cells, summary_row
    from roundwise.tables import write_csv

    grid = read_grid(file)
    check_place(workers, cluster)
    folder = Path("results") / file.stem if out is None else out
    check_output(folder / "summary.csv")
    missing = [cell for cell in grid.cells if not is_finished(cell, folder)]
    stored = len(grid.cells) - len(missing)
    if missing:
        with _place(cluster) as place, progress(sum(cell.runs for cell in missing), "sweeping") as advance:
            run_cells(missing, folder, workers=workers, cluster=place, progress=advance)
    rows = [summary_row(cell, folder) for cell in grid.cells]
    write_csv(folder / "summary.csv", rows)
    files = [folder / "summary.csv", *draw(rows, folder)]
    if as_json:
        print_json(
            {
                "cells": rows,
                "computed": len(missing),
                "already_stored": stored,
                "impossible": grid.impossible,
                "files": [str(path) for path in files],
            }
        )
        return
    _print_rows(rows)
    for sentence in grid.impossible:
        print(f"Cannot be run, left out: {sentence}", file=sys.stderr)
    print(f"{len(rows)} cells, {stored} of them from before; every run is in {folder / 'cells'}.")
    print(f"Summary and figure: {', '.join(str(path) for path in files)}.")


def _place(cluster: str | None) -> Any:
    """One connection for the whole sweep, made before anything is computed."""
    if cluster is None:
        return nullcontext()
    from roundwise.cluster import connected

    return connected(cluster)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    """The cells as a table; a column that is the same everywhere is said once, above it."""
    names = {"question": "question", "instance": "instance", "noise": "assumed", "delta": "δ", "seed": "seed"}
    names["runs"] = "runs"
    same = {key: word for key, word in names.items() if len({row[key] for row in rows}) == 1}
    print("; ".join(f"{word} {_short(rows[0][key])}" for key, word in same.items()))
    columns = {word: [_short(row[key]) for row in rows] for key, word in names.items() if key not in same}
    columns["policy"] = [row["policy"] + ("" if row["guarantee"] else " *") for row in rows]
    columns["samples ± se"] = [
        f"{number(round(row['samples_mean']))} ± {number(round(row['samples_se']))}".replace(" ", "\N{NO-BREAK SPACE}")
        for row in rows
    ]
    columns["× bound"] = [number(row["samples_over_lower_bound"]) for row in rows]
    columns["batches"] = [f"{row['batches_mean']:.2f}" for row in rows]
    columns["error"] = [f"{row['error']:.4f}" for row in rows]
    columns["≤ (95 %)"] = [f"{row['error_upper_95']:.4f}" for row in rows]
    if any(row["undecided"] for row in rows):
        columns["undecided"] = [f"{row['undecided']:.4f}" for row in rows]
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if any(row["undecided"] for row in rows):
        print("Undecided runs reached a limit or used up their data; the figure leaves out cells that have any.")
    if other := sorted({row["lower_bound_for"] for row in rows} - {"these rewards"}):
        print(f"Where rewards are not normal the bound is that for {' or '.join(other)}; they may need fewer.")
    for policy, caveat in dict.fromkeys((row["policy"], row["caveat"]) for row in rows if row["caveat"]):
        print(f"* {policy}: {caveat}.")


def _short(value: Any) -> str:
    return value if isinstance(value, str) else number(value)
