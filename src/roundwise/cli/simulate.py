"""`roundwise simulate`: run policies many times in a fake or replayed world."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from roundwise.cli import app
from roundwise.cli.options import (
    Delta,
    FormsFile,
    Json,
    Level,
    Means,
    QuestionName,
    Tolerance,
    TopSize,
    numbers,
    policy_from,
    question_from,
)
from roundwise.cli.output import number, print_json, print_table, progress
from roundwise.environments import BernoulliArms, Environment, GaussianArms, PoissonArms, Replay
from roundwise.errors import InputError, unknown
from roundwise.noise import Noise, SubGaussian, UnknownVariance
from roundwise.policies import POLICIES
from roundwise.simulate import simulate as run
from roundwise.summary import Summary

NOISES = ("gaussian", "sub-gaussian", "unknown-variance", "poisson")

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"A policy, repeatable: {', '.join(POLICIES)}. Settings follow a colon: pet:guess=4,threshold=pairwise.",
        metavar="NAME[:SETTINGS]",
    ),
]


@app.command()
def simulate(
    question: QuestionName,
    means: Means = None,
    data: Annotated[Path | None, typer.Option("--data", help="Replay a table arm,outcome,count instead.")] = None,
    instance: Annotated[str | None, typer.Option("--instance", help="The instance in the table.")] = None,
    without_replacement: Annotated[
        bool, typer.Option("--without-replacement", help="Draw each outcome of the table at most once.")
    ] = False,
    binary: Annotated[bool, typer.Option("--binary", help="0/1 outcomes; --means are rates.")] = False,
    noise: Annotated[
        str | None,
        typer.Option("--noise", help=f"What the policies may assume: {', '.join(NOISES)}.", metavar="NAME"),
    ] = None,
    k: TopSize = None,
    level: Level = None,
    file: FormsFile = None,
    tolerance: Tolerance = None,
    policy: Policies = None,
    runs: Annotated[int, typer.Option("--runs", help="How often each policy is run.")] = 1000,
    delta: Delta = 0.05,
    sigma: Annotated[
        float | None,
        typer.Option("--sigma", help="Standard deviation of normal rewards (1), or what is assumed of other data."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same numbers.")] = 1,
    workers: Annotated[int, typer.Option("--workers", help="Processes to use; the numbers stay the same.")] = 1,
    max_samples: Annotated[
        float, typer.Option("--max-samples", help="End a run undecided after so many samples.")
    ] = math.inf,
    out: Annotated[Path | None, typer.Option("--out", help="Write every run to this Parquet file.")] = None,
    as_json: Json = False,
) -> None:
    """What policies need: samples, batches and errors over many runs, beside the lower bound.

    Example: roundwise simulate --question best-arm --means 1,0.9,0.8 --policy pet --policy track-and-stop
    """
    asked = question_from(question, k, level, file, tolerance)
    world, assumed = _world(means, data, instance, without_replacement, binary, noise, sigma)
    asked.check(world.arms)
    chosen = {text: policy_from(text) for text in policy or ["wager"]}
    with progress(runs * len(chosen), "simulating") as advance:
        results = run(
            asked,
            world,
            chosen,
            runs=runs,
            delta=delta,
            noise=assumed,
            seed=seed,
            workers=workers,
            max_samples=max_samples,
            progress=advance,
        )
    if out is not None:
        from roundwise.tables import write_parquet

        write_parquet(out, [each.columns() for each in results])
    summaries = [each.summary for each in results]
    if as_json:
        print_json([each.plain() for each in summaries])
        return
    truth = asked.answer(world.world(np.random.default_rng(0), 1).means)[0]
    print(f"Truth: {asked.words(truth, world.names)}.")
    print_summaries(summaries, delta)
    if out is not None:
        print(f"Every run is in {out}.")


def print_summaries(summaries: list[Summary], delta: float) -> None:
    """A table of summaries, the lower bound below it, and a line for each policy without a guarantee."""
    rows = [
        (
            each.policy + (" *" if each.doubt else ""),
            f"{number(round(each.samples_mean))} ± {number(round(each.samples_se))}",
            number(round(each.samples_quantiles["50%"])),
            number(round(each.samples_quantiles["95%"])),
            number(each.samples_over_lower_bound),
            f"{each.batches_mean:.2f} ± {each.batches_se:.2f}",
            str(each.batches_max),
            f"{each.error:.4f}",
            f"{each.error_upper_95:.4f}",
            f"{each.undecided:.4f}",
        )
        for each in summaries
    ]
    print_table(
        (
            "policy",
            "samples ± se",
            "median",
            "95 %",
            "× bound",
            "batches ± se",
            "max",
            "error",
            "error ≤ (95 %)",
            "undecided",
        ),
        rows,
    )
    bound = summaries[0].lower_bound
    least = number(math.ceil(bound)) if math.isfinite(bound) else "infinite"
    print(f"Lower bound on the mean samples of any method with error at most {delta:g}: {least}.")
    for each in summaries:
        if each.doubt:
            print(f"* {each.policy}: {each.doubt}.")


def _world(
    means: str | None,
    data: Path | None,
    instance: str | None,
    without_replacement: bool,
    binary: bool,
    noise: str | None,
    sigma: float | None,
) -> tuple[Environment, Noise | None]:
    """The world that the options describe, and what is assumed of it unless that is all that is true."""
    if (means is None) == (data is None):
        raise InputError("Give either --means or --data.")
    if noise is not None and noise not in NOISES:
        raise unknown("noise model", noise, NOISES)
    assumed = None if sigma is None else SubGaussian(sigma)
    if data is not None:
        replay = Replay.from_csv(data, instance, not without_replacement)
        return replay, SubGaussian(replay.sigma) if noise == "sub-gaussian" and sigma is None else assumed
    if binary:
        return BernoulliArms(numbers(means)), SubGaussian(0.5) if noise == "sub-gaussian" else assumed
    if noise == "poisson":
        return PoissonArms(numbers(means)), None
    world = GaussianArms(numbers(means), 1.0 if sigma is None else sigma)
    if noise == "unknown-variance":
        return world, UnknownVariance()
    return world, SubGaussian(world.sigma) if noise == "sub-gaussian" else None
