"""`roundwise paper`: the paper's experiments, its figures, and what reproduces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roundwise.cli import RESEARCH, app
from roundwise.cli.options import Json, Seed, option
from roundwise.cli.output import check_output, print_json, print_table, progress, say_text
from roundwise.cli.simulate import print_summaries
from roundwise.messages import number


@app.command(rich_help_panel=RESEARCH)
def paper(
    runs: Annotated[
        int, option("--runs", "Number of runs per policy (30 times as many for Figure 3c).", "NUMBER")
    ] = 1000,
    out: Annotated[Path, option("--out", "Folder for figures and tables.", "FOLDER")] = Path("results"),
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments, with Wager for comparison: figures, tables, and a verdict for each claim."""
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
        say_text(f"{name}, {number(len(next(iter(found.values())).samples))} runs")
        print_summaries([each.summary for each in found.values()], experiments.DELTA)
        say_text("")
    say_text("What the paper says, and what was measured")
    print_table(
        ("the paper", "measured", "verdict"),
        [(each.paper, each.measured, each.verdict) for each in claims],
        longest=2000,
    )
    say_text(f"Figures and tables are in {out}: {', '.join(path.name for path in files)}.")
