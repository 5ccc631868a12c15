"""`roundwise bounds`: lower bounds for any algorithm on an instance, and upper bounds for PET."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roundwise.arrays import Floats
from roundwise.cli import RESEARCH, app
from roundwise.cli.options import (
    Delta,
    Json,
    Means,
    Prices,
    QuestionName,
    QuestionOptions,
    Seed,
    Sigma,
    grouped,
    numbers,
    option,
    question_from,
)
from roundwise.cli.output import check_output, print_json, print_table, progress, say_text
from roundwise.errors import InputError, unknown
from roundwise.messages import number
from roundwise.model.problem import Problem
from roundwise.noise import Gaussian
from roundwise.policies import PET
from roundwise.questions.lower_bounds import cost_lower_bound
from roundwise.simulation.environments import GaussianArms, numbered
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import Summary
from roundwise.study.spec import one_for_each

if TYPE_CHECKING:
    from roundwise.theory.bounds import Overview

GAMMA = "Sample budget gamma T* ln(1/delta) that the bound on batches assumes (default: PET's)."
FIGURES = ("batches", "trade-off", "sequence", "ball")


@app.command(rich_help_panel=RESEARCH)
@grouped
def bounds(
    *,
    question: QuestionName,
    means: Means = None,
    asked: QuestionOptions,
    sigma: Sigma = 1.0,
    delta: Delta = 0.05,
    t_min: Annotated[
        float, option("--t-min", "Smallest complexity considered (T_min), PET's first guess T_0.", "NUMBER")
    ] = 1.0,
    gamma: Annotated[float | None, option("--gamma", GAMMA, "NUMBER")] = None,
    tail: Annotated[float | None, option("--tail", "Probability with which --gamma may be exceeded.", "NUMBER")] = None,
    prices: Prices = None,
    runs: Annotated[int, option("--runs", "Number of simulated runs of PET.", "NUMBER")] = 0,
    seed: Seed = 1,
    plot: Annotated[Path | None, option("--plot", "Figure file (.png, .svg, .pdf).", "FILE")] = None,
    figure: Annotated[str, option("--figure", f"Figure to draw: {', '.join(FIGURES)}.", "NAME")] = "batches",
    as_json: Json = False,
) -> None:
    """Compute lower bounds for any algorithm and upper bounds for PET, in samples and batches.

    Example: roundwise bounds --question best-arm --means 0.01,0 --runs 1000
    """
    from roundwise.theory.bounds import overview

    values = numbers(means)
    problem = Problem(question_from(question, asked, arms=numbered(len(values))), len(values), delta, Gaussian(sigma))
    _check(runs, t_min, plot, figure)
    policy = PET(guess=max(1.0, t_min))
    found = overview(problem, values, policy, t_min, gamma, tail)
    seen = _simulated(problem, values, policy, runs, seed) if runs else None
    each = None if prices is None else one_for_each(prices, [str(i) for i in range(len(values))], "price")
    cost = None if each is None else float(cost_lower_bound(problem.question, values, delta, each, sigma))
    if plot is not None:
        _draw(plot, figure, problem, values, policy, runs or 300, seed)
    if as_json:
        measured = None if seen is None else seen.plain()
        asked_for = {"question": question, "tolerance": asked.tolerance or 0.0, "delta": delta, "sigma": sigma}
        print_json(
            {**asked_for, **found.plain(), "measured": measured, "cost_lower": cost, "figure": plot and str(plot)}
        )
        return
    _print(found, delta, seen, problem)
    if cost is not None:
        say_text(f"At these prices no algorithm spends less than {number(math.ceil(cost))} on average.")
    if plot is not None:
        say_text(f"The figure is in {plot}.")


def _print(found: Overview, delta: float, seen: Summary | None, problem: Problem) -> None:
    stated = found.stated_upper
    say_text(
        f"Complexity T* = {number(found.complexity)} (for estimating it, T*_b = {number(found.estimable_complexity)}), "
        f"delta = {delta:g}."
    )
    rows = [
        ("any algorithm, at least", number(math.ceil(found.sample_lower)), ""),
        ("any within the budget below, at least", "", f"{found.expected_batches:.2f}"),
    ]
    if found.stated is not None:
        rows.append((f"  as stated ({_theorem(found)})", "", f"{found.stated.expected:.2f}"))
    if seen is not None:
        rows.append(
            (
                f"PET in {seen.runs} runs",
                f"{number(round(seen.samples_mean))} ± {number(round(seen.samples_se))}",
                f"{seen.batches_mean:.2f} ± {seen.batches_se:.2f}",
            )
        )
    rows.append(("PET, at most", number(math.ceil(found.upper.samples)), f"{found.upper.batches:.2f}"))
    if stated is not None:
        rows.append(("  as stated (Theorem 3.11)", number(math.ceil(stated.samples)), f"{stated.batches:.2f}"))
    print_table(("", "mean samples", "mean batches"), rows)
    for sentence in _sentences(found, problem):
        say_text(sentence)
    if seen is not None:
        factor = seen.samples_mean / found.complexity / -math.log(delta)
        say_text(f"PET needed {factor:.3g} T* ln(1/delta) samples on average.")


def _sentences(found: Overview, problem: Problem) -> list[str]:
    """What the lower bound on batches applies to and says; why it, or a theorem as stated, says nothing."""
    from roundwise.theory.bounds import stated_for

    said = []
    promise = found.promise
    if promise is not None and promise.range > 1:
        kept = (
            f"{number(promise.gamma)} times T* ln(1/delta) samples "
            + ("on average" if promise.tail is None else f"with probability at least {1 - promise.tail:g}")
            + f", for every T* from {promise.easiest:g} to {number(promise.complexity)}"
        )
        source = "" if found.gamma_given else " (as PET is proved to; change it with --gamma)"
        said.append(f"The lower bound on batches is for algorithms that need at most {kept}{source}.")
        if not promise.possible:
            said.append(
                "No algorithm with this delta needs so few samples: the bound applies to none. Choose a larger --gamma."
            )
    shown = found.certificate if found.chain is None else found.chain
    if shown is not None:
        n, p = shown.batches, shown.probability
        said.append(f"They need {n + 1} batches or more with probability at least {p:.3f}.")
    if found.vacuous is not None:
        said.append(f"It says nothing here but 'at least one batch': {found.vacuous}.")
    if found.stated is not None and found.stated.expected < 1:
        reason = f": {found.stated.reason}" if found.stated.reason else ""
        said.append(f"{_theorem(found)} as stated says less than 'at least one batch' here{reason}.")
    if found.centre is not None and found.constant_centre is None:
        said.append("Assumption 2.2 fails for a constant y; the same proof works with a point y (docs/bounds.md).")
    if problem.question.tolerance:
        said.append("Theorem 3.11 as stated does not apply: it is for questions with one right answer.")
    elif not stated_for(problem.question):
        said.append(
            "The paper states Theorem 2.3, and shows Theorem 3.11 with T*_b = 8 T*, for best arm, top-k and above only."
        )
    elif found.stated_upper is None:
        said.append("Theorem 3.11 as stated does not apply: T_0 is above T*_b.")
    return said


def _theorem(found: Overview) -> str:
    return "Theorem 2.3" if found.promise is None or found.promise.tail is None else "Lemma A.7"


def _simulated(problem: Problem, means: Floats, policy: PET, runs: int, seed: int) -> Summary:
    world = GaussianArms(means, problem.sigma)
    with progress(runs, "simulating PET") as advance:
        (found,) = simulate(
            problem.question, world, [policy], runs=runs, delta=problem.delta, seed=seed, progress=advance
        )
    return found.summary


def _draw(path: Path, figure: str, problem: Problem, means: Floats, policy: PET, runs: int, seed: int) -> None:
    from roundwise.theory.figures.bounds import figure_for
    from roundwise.theory.figures.canvas import save

    with progress(1, "drawing"):
        save(figure_for(figure, problem, means, policy, runs, seed), path)


def _check(runs: int, t_min: float, plot: Path | None, figure: str) -> None:
    if runs < 0:
        raise InputError(f"--runs is {runs}, but must be at least 0.")
    if not (t_min > 0 and math.isfinite(t_min)):
        raise InputError(f"--t-min is {t_min:g}, but must be a positive number.")
    if figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"'{plot}' must end in .png, .svg or .pdf; call it for example {plot.stem}.svg.")
    check_output(plot)
