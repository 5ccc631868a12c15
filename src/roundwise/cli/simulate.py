"""`roundwise simulate, sweep`: many runs of policies in simulated or replayed environments."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from roundwise.arrays import Plain
from roundwise.cli import INTERRUPTED, PLANNING, RESEARCH, app
from roundwise.cli.options import (
    Budget,
    ClaimOptions,
    Delta,
    FeaturesFile,
    Json,
    Lead,
    Means,
    QuestionName,
    QuestionOptions,
    RoundSize,
    Seed,
    Sigmas,
    Split,
    Workers,
    grouped,
    numbers,
    option,
    question_from,
    whole_option,
)
from roundwise.cli.output import check_output, console_width, print_json, print_table, progress, say_text
from roundwise.errors import InputError
from roundwise.messages import number
from roundwise.model.spec import from_spec, noise_from_spec, parse_quantity
from roundwise.noise import NOISES, HeteroscedasticGaussian, Noise, SubGaussian
from roundwise.policies import POLICIES, usual_policy
from roundwise.policies.base import shares
from roundwise.simulation.environments import BernoulliArms, Environment, FamilyArms, GaussianArms, PoissonArms
from roundwise.simulation.replay import Replay
from roundwise.simulation.run import simulate as run
from roundwise.simulation.summary import Summary

if TYPE_CHECKING:
    from distributed import Client

QUANTILES = {"median": "50%", "95 %": "95%"}
POLICY = f"Policy, repeatable: {', '.join(POLICIES)}, or your own module:Class."
NOISE = f"Noise model that policies assume: {', '.join(NOISES)}, or your own module:Class."
UNDECIDED = (
    "Undecided runs reached a limit (--max-samples, --max-batches, or 2^53 samples) or used up their data before they "
    "could stop. A mean that is cut off in this way is not compared with the bound."
)
LABELS = {"question": "question", "instance": "instance", "noise": "assumed", "delta": "δ", "seed": "seed"}
Cluster = Annotated[str | None, option("--cluster", "Address or scheduler file of a running dask cluster.", "ADDRESS")]


@app.command(rich_help_panel=PLANNING)
@grouped
def simulate(
    *,
    question: QuestionName,
    means: Means = None,
    data: Annotated[Path | None, option("--data", "Table arm,outcome,count to replay.", "FILE")] = None,
    instance: Annotated[str | None, option("--instance", "Instance of the table to use.", "NAME")] = None,
    without_replacement: Annotated[
        bool, option("--without-replacement", "Draw each outcome of the table at most once.")
    ] = False,
    binary: Annotated[bool, option("--binary", "Binary rewards; --means are rates.")] = False,
    noise: Annotated[str | None, option("--noise", NOISE, "NAME[:SETTINGS]")] = None,
    asked: QuestionOptions,
    features: FeaturesFile = None,
    claims: ClaimOptions,
    policy: Annotated[list[str] | None, option("--policy", POLICY, "NAME[:SETTINGS]")] = None,
    budget: Budget = None,
    lead: Lead = None,
    looks: Annotated[int | None, whole_option("looks")] = None,
    round_size: RoundSize = None,
    split: Split = None,
    runs: Annotated[int, option("--runs", "Number of runs per policy.", "NUMBER")] = 1000,
    delta: Delta = 0.05,
    sigma: Annotated[
        float | None, option("--sigma", "Standard deviation of the rewards (default 1).", "NUMBER")
    ] = None,
    sigmas: Sigmas = None,
    seed: Seed = 1,
    workers: Workers = 1,
    cluster: Cluster = None,
    max_samples: Annotated[
        float, option("--max-samples", "Number of samples after which a run ends undecided.", "NUMBER")
    ] = math.inf,
    max_batches: Annotated[
        float, option("--max-batches", "Number of batches after which a run ends undecided.", "NUMBER")
    ] = math.inf,
    out: Annotated[Path | None, option("--out", "Parquet file to write every run to.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Simulate policies: samples, batches and errors over many runs, with the lower bound.

    Example: roundwise simulate --question best-arm --means 1,0.9,0.8 --policy pet --policy track-and-stop
    """
    world, known = _world(means, data, instance, without_replacement, binary, noise, sigma, sigmas)
    goal = question_from(question, asked, claims, world.names, features)
    goal.check(world.arms)
    usual = usual_policy(goal, budget is not None, world.arms)
    chosen = {text: from_spec("policy", text, trusted=True) for text in policy or [usual.name]}
    check_output(out, theirs=False)
    with progress(runs * len(chosen), "simulating") as advance:
        results = run(
            goal,
            world,
            chosen,
            runs=runs,
            delta=delta,
            noise=known,
            seed=seed,
            workers=workers,
            cluster=cluster,
            max_samples=max_samples,
            max_batches=max_batches,
            budget=budget,
            lead=None if lead is None else parse_quantity(lead, "--lead"),
            looks=looks,
            round_size=round_size,
            split=shares(split, world.arms),
            progress=advance,
        )
    if out is not None:
        from roundwise.simulation.tables import write_parquet

        write_parquet(out, [each.columns() for each in results])
    summaries = [each.summary for each in results]
    if as_json:
        print_json([each.plain() for each in summaries])
        return
    truth = goal.answer(world.initial_state(np.random.default_rng(0), 1).means)[0]
    say_text(f"Truth: {goal.answer_text(truth, world.names)}.")
    print_summaries(summaries, delta)
    if goal.separate_claims:
        _print_claims(summaries, goal.claim_texts(world.names))
    if out is not None:
        say_text(f"Every run is in {out}.")


def print_summaries(summaries: list[Summary], delta: float) -> None:
    """A table of summaries, the lower bound below it, and a line for each policy without a guarantee."""
    rows, first = [each.row() for each in summaries], summaries[0]
    columns = summary_columns(rows)
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if first.true_shown_mean is None:  # else a method that shows nothing is not wrong: there is no lower bound
        least = number(math.ceil(first.lower_bound)) if math.isfinite(first.lower_bound) else "infinite"
        if first.bound_for is None:
            say_text(f"Lower bound on the mean samples of any method with error at most {delta:g}: {least}.")
        else:
            say_text(f"For comparison, the lower bound for {first.bound_for}: {least}; these rewards may need fewer.")
        if any(each.undecided for each in summaries):
            say_text(UNDECIDED)
    print_caveats(rows)


def summary_columns(rows: list[Plain]) -> dict[str, list[str]]:
    """The columns of a table of summaries, each given as `Summary.row`; more of them where there is room."""
    wide, columns = (console_width() or 160) >= 120, dict[str, list[str]]()
    columns["policy"] = [row["policy"] + ("" if row["guarantee"] else " *") for row in rows]
    columns["samples ± se"] = [f"{_count(row['samples_mean'])} ± {_count(row['samples_se'])}" for row in rows]
    if wide:
        columns |= {name: [_count(row[f"samples_{key}"]) for row in rows] for name, key in QUANTILES.items()}
    if not any("true_shown_mean" in row for row in rows):
        over = [row["samples_over_lower_bound"] for row in rows]
        columns["× bound"] = ["-" if each is None else number(each) for each in over]
    columns["batches"] = [f"{row['batches_mean']:.2f}" for row in rows]
    if wide:
        columns["± se"] = [f"{row['batches_se']:.2f}" for row in rows]
        columns["max"] = [str(row["batches_max"]) for row in rows]
    columns["error"] = [f"{row['error']:.4f}" for row in rows]
    columns["≤ (95 %)"] = [f"{row['error_upper_95']:.4f}" for row in rows]
    if any(row["undecided"] for row in rows):
        columns["undecided"] = [f"{row['undecided']:.4f}" for row in rows]
    return columns


def print_caveats(rows: list[Plain]) -> None:
    """A line for each policy without a guarantee."""
    for policy, caveat in dict.fromkeys((row["policy"], row["caveat"]) for row in rows if row["caveat"]):
        say_text(f"* {policy}: {caveat}.")


def _print_claims(summaries: list[Summary], words: Sequence[str]) -> None:
    print_table(
        ("share of runs that show", *(each.policy for each in summaries)),
        [(text, *(f"{each.each_shown[i]:.3f}" for each in summaries)) for i, text in enumerate(words)],
    )
    for each in summaries:
        say_text(f"{each.policy}: true claims shown {each.true_shown_mean:.2f} ± {each.true_shown_se:.2f} on average.")


def _count(value: float) -> str:
    return number(round(value)) if value < 1e9 else f"{value:.3g}"


def _world(
    means: str | None,
    data: Path | None,
    instance: str | None,
    without_replacement: bool,
    binary: bool,
    noise: str | None,
    sigma: float | None,
    sigmas: str | None = None,
) -> tuple[Environment, Noise | None]:
    """The environment that the options describe, and the noise model to assume where it differs."""
    if (means is None) == (data is None):
        raise InputError("Give either --means or --data.")
    for flag, given in (("--instance", instance is not None), ("--without-replacement", without_replacement)):
        if given and data is None:
            raise InputError(f"{flag} needs --data.")
    if binary and data is not None:
        raise InputError("--binary goes with --means; a table of --data says itself what its outcomes are.")
    if sigmas is not None:
        if data is not None or binary or noise is not None or sigma is not None:
            raise InputError("--sigmas goes with --means, and says all of the noise: leave out the other options.")
        return FamilyArms(numbers(means), HeteroscedasticGaussian(tuple(numbers(sigmas, "--sigmas").tolist()))), None
    if data is not None:
        world: Environment = Replay.from_csv(data, instance, not without_replacement)
    elif binary:
        world = BernoulliArms(numbers(means))
    elif noise == "poisson":
        world = PoissonArms(numbers(means))
    else:
        world = GaussianArms(numbers(means), 1.0 if sigma is None else sigma)
    if noise is not None:
        return world, noise_from_spec(noise, world.sigma if sigma is None else sigma)
    return world, SubGaussian(sigma) if sigma is not None and not world.noise.outcome.normal else None


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
        raise typer.Exit(INTERRUPTED) from None
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
