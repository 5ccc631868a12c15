"""`roundwise arena, calibrate, paper`: every policy on the same work, error rates of every rule, and the paper."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from roundwise.arrays import Plain
from roundwise.cli import INTERRUPTED, RESEARCH, app
from roundwise.cli.options import AllWorkers, Delta, Json, Seed, option
from roundwise.cli.output import check_output, print_json, print_table, progress, say_text
from roundwise.cli.simulate import print_summaries
from roundwise.errors import InputError
from roundwise.messages import number
from roundwise.model.problem import check_whole_number


@app.command(rich_help_panel=RESEARCH)
def arena(
    data: Annotated[
        Path | None, option("--data", "Folder of real outcomes to replay: instances.csv and its tables.", "FOLDER")
    ] = None,
    policy: Annotated[
        list[str] | None,
        option("--policy", "Your own policy, in addition to the built-in ones; repeatable.", "MODULE:CLASS"),
    ] = None,
    contests: Annotated[
        Path | None, option("--contests", "TOML file of your own contests (see docs/arena.md).", "FILE")
    ] = None,
    runs: Annotated[int, option("--runs", "Runs of each method per contest; fewer with many arms.", "NUMBER")] = 100,
    delta: Delta = 0.05,
    max_arms: Annotated[int, option("--max-arms", "Largest number of arms in a contest of the data.", "NUMBER")] = 300,
    only: Annotated[str | None, option("--only", "Text that the names of contests must contain.", "TEXT")] = None,
    out: Annotated[Path, option("--out", "Folder for page, tables and runs; rerun to resume.", "FOLDER")] = Path(
        "results/arena"
    ),
    docs: Annotated[Path | None, option("--docs", "Folder to write arena.md and its figure to.", "FOLDER")] = None,
    workers: AllWorkers = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Compare all policies on fixed instances and, with --data, on replayed real outcomes.

    Writes a page with sortable tables (arena.html) and every row as Parquet, and says which algorithm to use.
    """
    from roundwise.arena.contests import entrants, fixed, own, replayed
    from roundwise.arena.page import docs_page, draw_arena, html_page
    from roundwise.arena.ranking import advice, standings
    from roundwise.arena.run import match_entrants, run_matches
    from roundwise.render.svg import render_file
    from roundwise.simulation.tables import write_parquet

    for folder, name in ((out, "arena.html"), (out, "arena.parquet"), (docs, "arena.md")):
        if folder is not None:
            check_output(folder / name, theirs=False)
    workers = (os.cpu_count() or 1) if workers is None else check_whole_number("workers", workers, 1)
    every = fixed(delta)
    every += [] if contests is None else own(contests, delta)
    every += [] if data is None else replayed(data, delta, check_whole_number("most-arms", max_arms, 2))
    every = [each for each in every if only is None or only in each.name]
    if not every:
        raise InputError(f"No contest has '{only}' in its name. `roundwise arena --json --runs 1` lists them.")
    draw = match_entrants(
        every, entrants(policy or ()), check_whole_number("runs", runs, 1), check_whole_number("seed", seed, 0)
    )
    try:
        with progress(sum(each.cell.runs for each in draw.entries), "in the arena") as advance:
            rows = run_matches(draw, out, workers=workers, progress=advance)
    except KeyboardInterrupt:
        print("Interrupted; run the same command to resume.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    found = standings(rows)
    words = _about(len(every), rows, data)
    write_parquet(out / "arena.parquet", [_columns(rows)])
    (out / "arena.html").write_text(html_page(rows, draw.refused, words), encoding="utf-8")
    if docs is not None:
        command = f"roundwise arena{' --data DIR' if data else ''} --runs {runs} --seed {seed}"
        (docs / "figures").mkdir(parents=True, exist_ok=True)
        charts = render_file(draw_arena(found), columns=3, width=1080, shared_legend=True)
        (docs / "figures" / "arena.svg").write_text(charts, encoding="utf-8")
        (docs / "arena.md").write_text(docs_page(rows, words, command, "figures/arena.svg"), encoding="utf-8")
    if as_json:
        print_json({"rows": rows, "standings": [each.plain() for each in found], "refused": draw.refused})
        return
    for kind in dict.fromkeys(each.kind for each in found):
        here = [each for each in found if each.kind == kind]
        columns = ("method", "× bound", "batches", "decided", "error", "ms a run")
        print_table(
            columns,
            [
                (
                    each.entrant + ("" if each.guarantee else " *"),
                    _format(each.over_bound, ".2f"),
                    _format(each.batches, ".1f"),
                    f"{each.decided} of {each.contests}",
                    f"{each.error:.4f}",
                    f"{each.ms_a_run:.2g}",
                )
                for each in here
            ],
        )
    for paragraph in advice(found):
        say_text(paragraph.replace("**", ""))
    say_text("* no guarantee.")
    say_text(f"Page: {out / 'arena.html'}; rows: {out / 'arena.parquet'}; every run: {out / 'cells'}.")


def _about(contests: int, rows: list[Plain], data: Path | None) -> str:
    real = "" if data is None else " Real outcomes are drawn with replacement, so the truth is known exactly."
    runs = sum(row["runs"] for row in rows)
    return (
        f"{contests} contests, {len({row['entrant'] for row in rows})} methods, {runs:,} runs at delta = "
        f"{rows[0]['delta']:g}.{real} Near-ties are reported as undecided within a budget."
    )


def _columns(rows: list[Plain]) -> dict[str, np.ndarray]:
    """The rows as columns; numbers that are not known are NaN."""
    found = {}
    for key in rows[0]:
        values = [row.get(key) for row in rows]
        words = any(isinstance(each, str) for each in values)
        unknown = "" if words else np.nan
        found[key] = np.array([unknown if each is None else each for each in values], dtype=object if words else None)
    return found


def _format(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


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

    wanted = None if runs is None else check_whole_number("runs", runs, 1)
    workers = (os.cpu_count() or 1) if workers is None else check_whole_number("workers", workers, 1)
    if out is not None:
        check_output(out / "calibration.md")
    cells, refused = select_cells(wanted, only)
    try:
        with progress(sum(sizes_of(cells, wanted).values()), "calibrating") as advance:
            counted = measure_cells(
                cells, wanted, out, seed=check_whole_number("seed", seed, 0), workers=workers, progress=advance
            )
    except KeyboardInterrupt:
        kept = "run the same command to resume" if out is not None else "with --out it can be resumed"
        print(f"Interrupted; {kept}.", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    found = counted.found
    if out is not None:
        command = f"roundwise calibrate --runs {wanted} --seed {seed}" if runs is not None else "roundwise calibrate"
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
