"""`roundwise sweep`: every combination that a file lists, resumed where it was interrupted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.arrays import Plain
from roundwise.cli import RESEARCH, app
from roundwise.cli.options import Json
from roundwise.cli.output import check_output, console_width, number, print_json, print_table, progress, ratio
from roundwise.cli.simulate import Cluster

if TYPE_CHECKING:
    from distributed import Client

    from roundwise.simulation.sweep import SweepCell, SweepGrid

LABELS = {
    "question": "question",
    "instance": "instance",
    "noise": "assumed",
    "delta": "δ",
    "seed": "seed",
    "runs": "runs",
}
PROBLEM = ("question", "instance", "assumed")
DISPENSABLE = ("≤ (95 %)", "± se")  # the first is the first to go where there is no room


@app.command(rich_help_panel=RESEARCH)
def sweep(
    file: Annotated[Path, typer.Argument(help="TOML file of questions, instances and policies (see docs/scale.md).")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for results (default results/NAME)."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Number of processes; results do not depend on it.")] = 1,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Simulate every combination in a file: a table, a figure, and every run as Parquet.

    Cells that are already in the folder are not run again, so an interrupted sweep goes on where it was.
    """
    from roundwise.simulation.run import check_place
    from roundwise.simulation.sweep import is_finished, read_grid

    grid = read_grid(file)
    check_place(workers, cluster)
    folder = Path("results") / file.stem if out is None else out
    check_output(folder / "summary.csv", theirs=False)
    missing = [cell for cell in grid.cells if not is_finished(cell, folder)]
    try:
        rows, files, left_out = _results(grid, missing, folder, workers, cluster)
    except KeyboardInterrupt:
        stored = sum(is_finished(cell, folder) for cell in grid.cells)
        print(
            f"Interrupted: {stored} of {len(grid.cells)} cells are stored; run the same command to go on.",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
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
        print(f"{'In the figure' if len(files) > 1 else 'No figure'}: {reason}.")
    print(f"{len(rows)} cells, {stored} of them from before; every run is in {folder / 'cells'}.")
    print(f"Summary{' and figure' if len(files) > 1 else ''}: {', '.join(str(path) for path in files)}.")


def _results(
    grid: SweepGrid, missing: Sequence[SweepCell], folder: Path, workers: int, cluster: str | None
) -> tuple[list[Plain], list[Path], list[str]]:
    """Compute the missing cells; return the rows of the summary, the files, and what the figure does not show."""
    from roundwise.simulation.sweep import run_sweep
    from roundwise.theory.figures.sweep import draw_sweep

    with (
        _place(cluster if missing else None) as place,
        progress(sum(cell.runs for cell in missing), "sweeping") as advance,
    ):
        rows = run_sweep(grid, folder, workers=workers, cluster=place, progress=advance).rows
    figures, left_out = draw_sweep(rows, folder)
    return rows, [folder / "summary.csv", *figures], left_out


def _place(cluster: str | None) -> AbstractContextManager[Client | None]:
    """One connection for the whole sweep, made before anything is computed."""
    if cluster is None:
        return nullcontext()
    from roundwise.simulation.workers import connected

    return connected(cluster)


def _print_rows(rows: list[Plain]) -> None:
    """The cells as a table, or as one for each problem where that is too wide; what all share is said once."""
    same = {key: word for key, word in LABELS.items() if len({row[key] for row in rows}) == 1}
    print("; ".join(f"{word} {_short(rows[0][key])}" for key, word in same.items()))
    columns = {word: [_short(row[key]) for row in rows] for key, word in LABELS.items() if key not in same}
    columns |= _numbers(rows)
    headings = [] if _width(columns) <= console_width() else [word for word in PROBLEM if word in columns]
    said = list(zip(*(columns.pop(word) for word in headings), strict=True)) or [()] * len(rows)
    dropped = _narrowed(columns, console_width())
    lines = list(zip(*columns.values(), strict=True))
    for problem in dict.fromkeys(said):
        if problem:
            print(
                "; ".join(
                    f"assumed {each}" if word == "assumed" else each
                    for word, each in zip(headings, problem, strict=True)
                )
            )
        print_table(tuple(columns), [line for line, one in zip(lines, said, strict=True) if one == problem])
    if dropped:
        print(f"Too wide for {console_width()} characters: {' and '.join(dropped)} can be seen in summary.csv only.")
    if any(row["undecided"] for row in rows):
        print("Undecided runs reached a limit or used up their data: a mean so cut off is not compared with the bound.")
    if other := sorted({row["lower_bound_for"] for row in rows} - {"these rewards"}):
        print(f"Where rewards are not normal the bound is that for {' or '.join(other)}; they may need fewer.")
    for policy, caveat in dict.fromkeys((row["policy"], row["caveat"]) for row in rows if row["caveat"]):
        print(f"* {policy}: {caveat}.")


def _numbers(rows: list[Plain]) -> dict[str, list[str]]:
    """The policies and what came out, as columns."""
    columns = {
        "policy": [row["policy"] + ("" if row["guarantee"] else "\N{NO-BREAK SPACE}*") for row in rows],
        "samples": [_count(row["samples_mean"]) for row in rows],
        "± se": [_count(row["samples_se"]) for row in rows],
        "× bound": [ratio(row["samples_over_lower_bound"]) for row in rows],
        "batches": [f"{row['batches_mean']:.2f}" for row in rows],
        "error": [f"{row['error']:.4f}" for row in rows],
        "≤ (95 %)": [f"{row['error_upper_95']:.4f}" for row in rows],
    }
    if any(row["undecided"] for row in rows):
        columns["undecided"] = [f"{row['undecided']:.4f}" for row in rows]
    return columns


def _narrowed(columns: dict[str, list[str]], room: int) -> list[str]:
    """Take columns away until the others have room; then settings of long policies get a line of their own."""
    dropped = []
    for word in DISPENSABLE:
        if _width(columns) > room:
            del columns[word]
            dropped.append(word)
    longest = max(map(len, columns["policy"])) - max(0, _width(columns) - room)
    columns["policy"] = [each if len(each) <= longest else each.replace(":", ":\n  ") for each in columns["policy"]]
    return dropped


def _width(columns: dict[str, list[str]]) -> int:
    """How many characters the table takes that `print_table` makes of these columns."""
    return sum(max(map(len, [word, *cells])) + 3 for word, cells in columns.items()) - 1


def _count(value: float) -> str:
    return number(round(value)) if value < 1e9 else f"{value:.3g}"


def _short(value: str | float) -> str:
    return value if isinstance(value, str) else number(value)
