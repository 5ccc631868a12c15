"""`roundwise paper`: the paper's experiments, its figures, and what reproduces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roundwise.cli import RESEARCH, app
from roundwise.cli.options import Json, Seed
from roundwise.cli.output import check_output, number, print_json, print_table, progress
from roundwise.cli.simulate import print_summaries


@app.command(rich_help_panel=RESEARCH)
def paper(
    runs: Annotated[
        int, typer.Option("--runs", help="Number of runs of each policy (Figure 3c: 30 times as many).")
    ] = 1000,
    out: Annotated[Path, typer.Option("--out", help="Folder for figures and tables.")] = Path("results"),
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments, with Wager for comparison: figures, tables and a verdict per claim."""
    from roundwise.simulation.tables import write_csv, write_parquet
    from roundwise.theory import paper as experiments
    from roundwise.theory.figures.paper import draw

    check_output(out / "summary.csv")
    with progress(experiments.number_of_runs(runs), "the paper's experiments") as advance:
        results = experiments.reproduced(runs, seed, advance)
    claims = experiments.claims(results)
    figures = draw(results, out)
    write_parquet(out / "runs.parquet", experiments.columns(results))
    write_csv(out / "summary.csv", experiments.summary_rows(results))
    files = [*figures, out / "runs.parquet", out / "summary.csv"]
    if as_json:
        print_json(
            {
                "summary": experiments.summary_rows(results),
                "claims": [vars(claim) for claim in claims],
                "files": [str(path) for path in files],
            }
        )
        return
    for name, found in results.items():
        print(f"{name}, {number(len(next(iter(found.values())).samples))} runs")
        print_summaries([each.summary for each in found.values()], experiments.DELTA)
        print()
    print("What the paper says, and what was measured")
    print_table(
        ("the paper", "measured", "verdict"),
        [(each.paper, each.measured, each.verdict) for each in claims],
        lines=True,
        longest=2000,
    )
    print(f"Figures and tables are in {out}: {', '.join(path.name for path in files)}.")
