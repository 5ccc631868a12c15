"""`roundwise complexity`: how hard a question is, and in which proportions to sample."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from roundwise.cli import PLANNING, app
from roundwise.cli.options import (
    ClaimOptions,
    Delta,
    FeaturesFile,
    Json,
    Means,
    Prices,
    QuestionName,
    QuestionOptions,
    Sigma,
    Sigmas,
    grouped,
    numbers,
    option,
    question_from,
)
from roundwise.cli.output import print_json, print_table, say_text
from roundwise.errors import InputError
from roundwise.messages import number
from roundwise.model.problem import Problem
from roundwise.noise import HeteroscedasticGaussian, SubGaussian
from roundwise.questions.lower_bounds import cost_lower_bound, lower_bound_at, own_lower_bound
from roundwise.simulation.environments import numbered
from roundwise.solvers.halfspaces import BinaryFamily, ExponentialFamily, Family, PoissonFamily
from roundwise.study.spec import one_for_each

RADIUS = "Distance from --means over which to take the worst case."


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
