"""`roundwise complexity`: how hard a question is, and in which proportions to sample."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from roundwise.cli.app import PLANNING, app
from roundwise.cli.options import (
    Against,
    Control,
    Delta,
    FormsFile,
    Futility,
    Json,
    Level,
    Margin,
    Means,
    QuestionName,
    Sigma,
    Tolerance,
    TopSize,
    TwoSided,
    numbers,
    question_from,
)
from roundwise.cli.output import number, print_json, print_table
from roundwise.errors import InputError
from roundwise.noise import SubGaussian
from roundwise.problem import Problem
from roundwise.questions import Claims
from roundwise.simulation.environments import numbered
from roundwise.simulation.summary import lower_bound_at, several_right

Radius = Annotated[float, typer.Option("--radius", help="Worst case over all means within this distance of --means.")]


@app.command(rich_help_panel=PLANNING)
def complexity(
    question: QuestionName,
    means: Means = None,
    k: TopSize = None,
    level: Level = None,
    file: FormsFile = None,
    tolerance: Tolerance = None,
    control: Control = None,
    margin: Margin = None,
    futility: Futility = None,
    two_sided: TwoSided = False,
    sigma: Sigma = 1.0,
    radius: Radius = 0.0,
    delta: Delta = 0.05,
    as_json: Json = False,
) -> None:
    """How hard a question is for given means, and in which proportions to sample.

    Example: roundwise complexity --question best-arm --means 1,0.9,0.8
    """
    values = numbers(means)
    against = Against(control, margin, futility, two_sided)
    asked = question_from(question, k, level, file, tolerance, against, numbered(len(values)))
    if not (radius >= 0 and math.isfinite(radius)):
        raise InputError(f"`radius` is {radius:g}, but must be a number of at least 0.")
    problem = Problem(asked, len(values), delta, SubGaussian(sigma))
    found = asked.complexity(values, radius, problem.sigma)
    answer = asked.answer(values)
    bound = float(lower_bound_at(asked, values, delta, problem.sigma))
    if as_json:
        print_json(
            {
                "question": question,
                "answer": asked.plain(answer),
                "complexity": found.value,
                "weights": found.weights,
                "sample_lower_bound": bound,
                "delta": delta,
                "sigma": sigma,
                "radius": radius,
                "tolerance": tolerance or 0.0,
            }
        )
        return
    names = numbered(len(values))
    print(f"Answer: {asked.words(answer, names)}.")
    if math.isinf(found.value):
        print(
            "The complexity is infinite: "
            + ("the ball holds means with two answers" if radius else "the means lie on the border of two answers")
            + ", so no number of samples tells them apart."
        )
        return
    where = f" (worst case within {radius:g})" if radius else ""
    print(f"Complexity T*{where}: {number(float(found.value))}")
    where = " at these means" if radius else ""
    if isinstance(asked, Claims):
        print("T* is of showing all that is true; there is no lower bound, because whoever shows nothing is not wrong.")
    else:
        least = number(math.ceil(bound))
        print(f"No method with error at most {delta:g} needs fewer samples on average{where} than {least}.")
    columns = {
        "arm": list(names),
        "mean": [f"{mean:g}" for mean in values],
        "share w*": [f"{weight:.4f}" for weight in found.weights],
    }
    if not (radius or bound == 0 or several_right(asked, values)):  # else the bound is not for sampling so
        columns["of the bound"] = [number(math.ceil(weight * bound)) for weight in found.weights]
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    print("Next: `roundwise simulate` with the same question and means shows what real algorithms need.")
