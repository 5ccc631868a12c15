"""`roundwise complexity, bounds`: how hard a question is, and what any algorithm and PET need for it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from roundwise.cli import PLANNING, RESEARCH, app
from roundwise.cli.options import (
    ClaimOptions,
    Delta,
    FeaturesFile,
    Json,
    Means,
    Prices,
    QuestionName,
    QuestionOptions,
    Seed,
    Sigma,
    Sigmas,
    grouped,
    numbers,
    option,
    question_from,
)
from roundwise.cli.output import check_output, print_json, print_table, progress, say_text
from roundwise.errors import InputError, unknown
from roundwise.messages import number
from roundwise.model.problem import Problem
from roundwise.noise import Gaussian, HeteroscedasticGaussian, SubGaussian
from roundwise.policies import PET
from roundwise.questions.lower_bounds import cost_lower_bound, lower_bound_at, own_lower_bound
from roundwise.simulation.environments import GaussianArms, numbered
from roundwise.simulation.run import simulate
from roundwise.simulation.summary import Summary
from roundwise.solvers.halfspaces import BinaryFamily, ExponentialFamily, Family, PoissonFamily
from roundwise.study.spec import one_for_each

if TYPE_CHECKING:
    from roundwise.theory.bounds import Overview

RADIUS = "Distance from --means over which to take the worst case."
GAMMA = "Sample budget gamma T* ln(1/delta) that the bound on batches assumes (default: PET's)."
FIGURES = ("batches", "trade-off", "sequence", "ball")


@app.command(rich_help_panel=PLANNING)
@grouped
def complexity(
    *,
    question: QuestionName,
    means: Means = None,
    asked: QuestionOptions,
    claims: ClaimOptions,
    sigma: Sigma = 1.0,
    radius: Annotated[float, option("--radius", RADIUS, "NUMBER")] = 0.0,
    delta: Delta = 0.05,
    binary: Annotated[bool, option("--binary", "Binary rewards; --means are rates.")] = False,
    poisson: Annotated[bool, option("--poisson", "Poisson counts; --means are rates.")] = False,
    exponential: Annotated[bool, option("--exponential", "Exponential waiting times.")] = False,
    sigmas: Sigmas = None,
    features: FeaturesFile = None,
    prices: Prices = None,
    as_json: Json = False,
) -> None:
    """Compute the complexity of a question at given means, and the optimal allocation.

    Example: roundwise complexity --question best-arm --means 1,0.9,0.8
    """
    values = numbers(means)
    goal = question_from(question, asked, claims, numbered(len(values)), features)
    if claims.margin_is == "odds-ratio":
        raise InputError("Odds ratios have no complexity; `roundwise simulate` and `roundwise plan` take them.")
    goal.check_means(values)
    if not (radius >= 0 and math.isfinite(radius)):
        raise InputError(f"--radius is {radius:g}, but must be a number of at least 0.")
    apart = None if sigmas is None else HeteroscedasticGaussian(tuple(numbers(sigmas, "--sigmas").tolist()))
    problem = Problem(goal, len(values), delta, SubGaussian(sigma) if apart is None else apart)
    family = _family(binary, poisson, exponential, apart, features is not None or radius > 0)
    found = problem.complexity(values, radius) if family is None else goal.family_complexity(values, family)
    answer = goal.answer(values)
    smallest = problem.sigma if apart is None else min(apart.sigmas)
    bound = float(lower_bound_at(goal, values, delta, smallest, problem.complexity(values).value))
    if family is not None and (own := own_lower_bound(goal, values, delta, family)) is not None:
        bound = float(own[1])
    cost, paid = None, None
    if prices is not None:
        if family is not None or radius or features is not None or goal.separate_claims:
            raise InputError("--prices are for questions with one answer, normal rewards and one --sigma for all arms.")
        each = one_for_each(prices, [str(i) for i in range(len(values))], "price")
        cost = float(cost_lower_bound(goal, values, delta, each, sigma))
        paid = goal.complexity_with_sigmas(values, 0.0, sigma * np.sqrt(each)).weights
    if as_json:
        print_json(
            {
                "question": question,
                "answer": goal.answer_to_json(answer),
                "complexity": found.value,
                "weights": found.weights,
                "sample_lower_bound": bound,
                "cost_lower_bound": cost,
                "cost_weights": paid,
                "delta": delta,
                "sigma": sigma if family is None else None,
                "rewards": "normal rewards" if family is None else family.name,
                "radius": radius,
                "tolerance": asked.tolerance or 0.0,
            }
        )
        return
    names = numbered(len(values))
    say_text(f"Answer: {goal.answer_text(answer, names)}.")
    if math.isinf(found.value):
        say_text(
            "The complexity is infinite: "
            + ("the ball contains means with different answers" if radius else "the means lie between two answers")
            + ", which no number of samples can tell apart."
        )
        return
    where = f" (worst case within {radius:g})" if radius else "" if family is None else f" for {family.name}"
    say_text(f"Complexity T*{where}: {number(float(found.value))}")
    where = " at these means" if radius else ""
    if goal.separate_claims:
        say_text(
            "T* is that of showing every true claim. There is no lower bound: a method that shows nothing is not wrong."
        )
    else:
        least = number(math.ceil(bound))
        say_text(f"No method with error at most {delta:g} needs fewer samples on average{where} than {least}.")
    if cost is not None:
        say_text(f"At these prices none spends less than {number(math.ceil(cost))} on average.")
    columns = {
        "arm": list(names),
        "mean": [f"{mean:g}" for mean in values],
        "share w*": [f"{weight:.4f}" for weight in found.weights],
    }
    if not (radius or bound == 0 or goal.count_right_answers(values) > 1):  # else the bound is not for sampling so
        columns["of the bound"] = [number(math.ceil(weight * bound)) for weight in found.weights]
    if paid is not None:
        columns["share of the cost"] = [f"{weight:.4f}" for weight in paid]
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    say_text("Next: `roundwise simulate` with the same question and means shows what the algorithms need.")


def _family(
    binary: bool, poisson: bool, exponential: bool, apart: HeteroscedasticGaussian | None, quadratic: bool
) -> Family | None:
    """The rewards whose own divergences are asked for; None for normal rewards, with features or over a ball."""
    if binary + poisson + exponential + (apart is not None) > 1:
        raise InputError("Give one of --binary, --poisson, --exponential and --sigmas: rewards are of one kind.")
    if not (binary or poisson or exponential):
        return None if apart is None or quadratic else apart.family
    if quadratic:
        raise InputError(
            "--radius and --features are for normal rewards, not for --binary, --poisson and --exponential."
        )
    return BinaryFamily() if binary else PoissonFamily() if poisson else ExponentialFamily()


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
    if runs < 0:
        raise InputError(f"--runs is {runs}, but must be at least 0.")
    if not (t_min > 0 and math.isfinite(t_min)):
        raise InputError(f"--t-min is {t_min:g}, but must be a positive number.")
    if figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"'{plot}' must end in .png, .svg or .pdf; call it for example {plot.stem}.svg.")
    check_output(plot)
    policy = PET(guess=max(1.0, t_min))
    found = overview(problem, values, policy, t_min, gamma, tail)
    seen = None
    if runs:
        world = GaussianArms(values, sigma)
        with progress(runs, "simulating PET") as advance:
            (simulated,) = simulate(
                problem.question, world, [policy], runs=runs, delta=delta, seed=seed, progress=advance
            )
        seen = simulated.summary
    each = None if prices is None else one_for_each(prices, [str(i) for i in range(len(values))], "price")
    cost = None if each is None else float(cost_lower_bound(problem.question, values, delta, each, sigma))
    if plot is not None:
        from roundwise.theory.figures.bounds import figure_for
        from roundwise.theory.figures.canvas import save

        with progress(1, "drawing"):
            save(figure_for(figure, problem, values, policy, runs or 300, seed), plot)
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
