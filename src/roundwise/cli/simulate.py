"""`roundwise simulate`: run policies many times in a fake or replayed world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from roundwise.cli import PLANNING, app
from roundwise.cli.options import (
    Budget,
    ClaimOptions,
    Delta,
    FeaturesFile,
    Json,
    Means,
    QuestionName,
    QuestionOptions,
    RoundSize,
    Seed,
    Sigmas,
    Split,
    grouped,
    numbers,
    question_from,
)
from roundwise.cli.output import check_output, console_width, number, print_json, print_table, progress, ratio
from roundwise.errors import InputError
from roundwise.model.spec import from_spec, noise_from_spec
from roundwise.noise import NOISES, HeteroscedasticGaussian, Noise, SubGaussian
from roundwise.policies import POLICIES, usual_policy
from roundwise.policies.base import shares
from roundwise.simulation.environments import BernoulliArms, Environment, FamilyArms, GaussianArms, PoissonArms
from roundwise.simulation.replay import Replay
from roundwise.simulation.run import simulate as run
from roundwise.simulation.summary import Summary

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"Policy, repeatable: {', '.join(POLICIES)}, or your own module:Class.",
        metavar="NAME[:SETTINGS]",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", help="Address or scheduler file of a running dask cluster.", metavar="ADDRESS"),
]


@app.command(rich_help_panel=PLANNING)
@grouped
def simulate(
    *,
    question: QuestionName,
    means: Means = None,
    data: Annotated[Path | None, typer.Option("--data", help="Table arm,outcome,count to replay.")] = None,
    instance: Annotated[str | None, typer.Option("--instance", help="Instance to use in the table.")] = None,
    without_replacement: Annotated[
        bool, typer.Option("--without-replacement", help="Draw each outcome of the table at most once.")
    ] = False,
    binary: Annotated[bool, typer.Option("--binary", help="Binary rewards; --means are rates.")] = False,
    noise: Annotated[
        str | None,
        typer.Option(
            "--noise",
            help=f"Noise model that policies assume: {', '.join(NOISES)}, or your own.",
            metavar="NAME[:SETTINGS]",
        ),
    ] = None,
    asked: QuestionOptions,
    features: FeaturesFile = None,
    claims: ClaimOptions,
    policy: Policies = None,
    budget: Budget = None,
    round_: RoundSize = None,
    split: Split = None,
    runs: Annotated[int, typer.Option("--runs", help="Number of runs of each policy.")] = 1000,
    delta: Delta = 0.05,
    sigma: Annotated[
        float | None,
        typer.Option("--sigma", help="Standard deviation of the rewards (default 1)."),
    ] = None,
    sigmas: Sigmas = None,
    seed: Seed = 1,
    workers: Annotated[int, typer.Option("--workers", help="Number of processes; results do not depend on it.")] = 1,
    cluster: Cluster = None,
    max_samples: Annotated[
        float, typer.Option("--max-samples", help="Number of samples after which a run ends undecided.")
    ] = math.inf,
    max_batches: Annotated[
        float, typer.Option("--max-batches", help="Number of batches after which a run ends undecided.")
    ] = math.inf,
    out: Annotated[Path | None, typer.Option("--out", help="Parquet file to write every run to.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate policies: samples, batches and errors over many runs, with the lower bound.

    Example: roundwise simulate --question best-arm --means 1,0.9,0.8 --policy pet --policy track-and-stop
    """
    world, known = _world(means, data, instance, without_replacement, binary, noise, sigma, sigmas)
    goal = question_from(question, asked, claims, world.names, features)
    goal.check(world.arms)
    chosen = {text: from_spec("policy", text, trusted=True) for text in policy or [usual_policy(goal).name]}
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
            round=round_,
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
    print(f"Truth: {goal.answer_text(truth, world.names)}.")
    print_summaries(summaries, delta)
    if goal.separate_claims:
        print_claims(summaries, goal.claim_texts(world.names))
    if out is not None:
        print(f"Every run is in {out}.")


def print_summaries(summaries: list[Summary], delta: float) -> None:
    """A table of summaries, the lower bound below it, and a line for each policy without a guarantee."""
    wide = console_width() >= 120
    undecided = any(each.undecided for each in summaries)
    columns = {"policy": [each.policy + (" *" if each.doubt else "") for each in summaries]}
    columns["samples ± se"] = [_plus_minus(each.samples_mean, each.samples_se) for each in summaries]
    if wide:
        columns["median"] = [number(round(each.samples_quantiles["50%"])) for each in summaries]
        columns["95 %"] = [number(round(each.samples_quantiles["95%"])) for each in summaries]
    if summaries[0].true_shown_mean is None:
        columns["× bound"] = [ratio(each.samples_over_lower_bound) for each in summaries]
    columns["batches"] = [f"{each.batches_mean:.2f}" for each in summaries]
    if wide:
        columns["± se"] = [f"{each.batches_se:.2f}" for each in summaries]
        columns["max"] = [str(each.batches_max) for each in summaries]
    columns["error"] = [f"{each.error:.4f}" for each in summaries]
    columns["≤ (95 %)"] = [f"{each.error_upper_95:.4f}" for each in summaries]
    if undecided:
        columns["undecided"] = [f"{each.undecided:.4f}" for each in summaries]
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if summaries[0].true_shown_mean is not None:  # who shows nothing is not wrong: there is no lower bound
        _caveats(summaries)
        return
    bound = summaries[0].lower_bound
    least = number(math.ceil(bound)) if math.isfinite(bound) else "infinite"
    if summaries[0].bound_for is None:
        print(f"Lower bound on the mean samples of any method with error at most {delta:g}: {least}.")
    else:
        print(f"For comparison, the lower bound for {summaries[0].bound_for}: {least}; these rewards may need fewer.")
    if undecided:
        print(
            "Undecided runs reached a limit (--max-samples, --max-batches, or 2^53 samples) or used up their data "
            "before they could stop: a mean so cut off is not compared with the bound."
        )
    _caveats(summaries)


def _caveats(summaries: list[Summary]) -> None:
    for each in summaries:
        if each.doubt:
            print(f"* {each.policy}: {each.doubt}.")


def print_claims(summaries: list[Summary], words: Sequence[str]) -> None:
    """How often each claim was shown, and how many true ones."""
    print_table(
        ("share of runs that show", *(each.policy for each in summaries)),
        [(text, *(f"{each.each_shown[i]:.3f}" for each in summaries)) for i, text in enumerate(words)],
    )
    for each in summaries:
        print(f"{each.policy}: true claims shown {each.true_shown_mean:.2f} ± {each.true_shown_se:.2f} on average.")


def _plus_minus(mean: float, error: float) -> str:
    space = "\N{NO-BREAK SPACE}"
    return f"{number(round(mean))}{space}±{space}{number(round(error))}"


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
    """The world that the options describe, and what is assumed of it unless that is all that is true."""
    if (means is None) == (data is None):
        raise InputError("Give either --means or --data.")
    for option, given in (("--instance", instance is not None), ("--without-replacement", without_replacement)):
        if given and data is None:
            raise InputError(f"{option} goes with --data.")
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
