"""`roundwise complexity`: how hard a question is, and in which proportions to sample."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from roundwise.arrays import Floats
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
    Sigma,
    Sigmas,
    Split,
    grouped,
    numbers,
    question_from,
)
from roundwise.cli.output import number, print_json, print_table
from roundwise.errors import InputError
from roundwise.model.problem import Problem
from roundwise.noise import HeteroscedasticGaussian, SubGaussian
from roundwise.policies.base import shares
from roundwise.questions import Complexity, Question
from roundwise.questions.lower_bounds import lower_bound_at, own_lower_bound
from roundwise.simulation.environments import numbered
from roundwise.solvers.halfspaces import BinaryFamily, ExponentialFamily, Family, PoissonFamily

Radius = Annotated[float, typer.Option("--radius", help="Distance from --means over which to take the worst case.")]


@app.command(rich_help_panel=PLANNING)
@grouped
def complexity(
    *,
    question: QuestionName,
    means: Means = None,
    asked: QuestionOptions,
    claims: ClaimOptions,
    sigma: Sigma = 1.0,
    radius: Radius = 0.0,
    delta: Delta = 0.05,
    binary: Annotated[bool, typer.Option("--binary", help="Binary rewards; --means are rates.")] = False,
    poisson: Annotated[bool, typer.Option("--poisson", help="Poisson counts; --means are rates.")] = False,
    exponential: Annotated[bool, typer.Option("--exponential", help="Exponential waiting times.")] = False,
    sigmas: Sigmas = None,
    features: FeaturesFile = None,
    budget: Budget = None,
    round_: RoundSize = None,
    split: Split = None,
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
    found = problem.complexity(values, radius) if family is None else _own(goal, values, family)
    answer = goal.answer(values)
    smallest = problem.sigma if apart is None else min(apart.sigmas)
    bound = float(lower_bound_at(goal, values, delta, smallest, problem.complexity(values).value))
    if family is not None and (own := own_lower_bound(goal, values, delta, family)) is not None:
        bound = float(own[1])
    if as_json:
        print_json(
            {
                "question": question,
                "answer": goal.answer_to_json(answer),
                "complexity": found.value,
                "weights": found.weights,
                "sample_lower_bound": bound,
                "delta": delta,
                "sigma": sigma if family is None else None,
                "rewards": "normal rewards" if family is None else family.name,
                "radius": radius,
                "tolerance": asked.tolerance or 0.0,
            }
        )
        return
    names = numbered(len(values))
    print(f"Answer: {goal.answer_text(answer, names)}.")
    if math.isinf(found.value):
        print(
            "The complexity is infinite: "
            + ("the ball holds means with two answers" if radius else "the means lie on the border of two answers")
            + ", so no number of samples tells them apart."
        )
        return
    where = f" (worst case within {radius:g})" if radius else "" if family is None else f" for {family.name}"
    print(f"Complexity T*{where}: {number(float(found.value))}")
    where = " at these means" if radius else ""
    if goal.separate_claims:
        print("T* is of showing all that is true; there is no lower bound, because whoever shows nothing is not wrong.")
    else:
        least = number(math.ceil(bound))
        print(f"No method with error at most {delta:g} needs fewer samples on average{where} than {least}.")
    columns = {
        "arm": list(names),
        "mean": [f"{mean:g}" for mean in values],
        "share w*": [f"{weight:.4f}" for weight in found.weights],
    }
    if not (radius or bound == 0 or goal.count_right_answers(values) > 1):  # else the bound is not for sampling so
        columns["of the bound"] = [number(math.ceil(weight * bound)) for weight in found.weights]
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if budget or round_ or shares(split, len(values)):
        print("T* knows no budget, rounds or split: `roundwise plan` with the same words says what they allow.")
    print("Next: `roundwise simulate` with the same question and means shows what real algorithms need.")


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


def _own(question: Question, means: Floats, family: Family) -> Complexity:
    return question.family_complexity(means, family)
