"""What several commands ask for in the same words, and how the words become objects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from roundwise.arrays import Floats
from roundwise.errors import InputError
from roundwise.questions import Question
from roundwise.simulation.tables import read_forms
from roundwise.spec import QUESTIONS, made, worded

FORMS = {"statements": ("above", "levels"), "largest": ("plus", "offsets")}  # column of the --file, and what it sets

QuestionName = Annotated[
    str,
    typer.Option(
        "--question",
        "-q",
        help=f"What to find out: {', '.join(QUESTIONS)}, or your own module:Class.",
        metavar="NAME[:SETTINGS]",
    ),
]
TopSize = Annotated[int | None, typer.Option("--k", help="How many arms top-k looks for.")]
Level = Annotated[float | None, typer.Option("--level", help="The level of above, minimum-below and any-above.")]
FormsFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="CSV of statements or scores: a column `name`, one column of coefficients for each arm, and a column "
        "`above` (statements: the level) or, if wanted, `plus` (largest: an offset).",
    ),
]
Tolerance = Annotated[
    float | None, typer.Option("--tolerance", help="best-arm: any arm this close to the best will do.")
]
Means = Annotated[str | None, typer.Option("--means", help="The true means, for example 1,0.9,0.8.", metavar="LIST")]
Sigma = Annotated[float, typer.Option("--sigma", help="The sub-Gaussian constant of the rewards.")]
Delta = Annotated[float, typer.Option("--delta", help="The error probability that is allowed.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (infinite numbers as null).")]


def question_from(
    text: str, k: int | None, level: float | None, file: Path | None, tolerance: float | None = None
) -> Question:
    """The question that the words and the options describe."""
    said = worded("question", text)
    name, options = said["name"], {"k": k, "level": level, "tolerance": tolerance}
    fields: dict[str, object] = {**said, **{key: value for key, value in options.items() if value is not None}}
    if (name in FORMS) != (file is not None):
        raise InputError(f"The question '{name}' {'needs' if file is None else 'does not take'} --file.")
    if file is not None:
        column, key = FORMS[name]
        fields["names"], fields["forms"], fields[key] = read_forms(file, column, needed=key == "levels")
    return made("question", fields, trusted=True)


def numbers(text: str | None, what: str = "--means") -> Floats:
    """A list of numbers such as 1,0.9,0.8."""
    if not text:
        raise InputError(f"Give {what} as a list of numbers, for example {what} 1,0.9,0.8.")
    values = []
    for word in text.replace(";", ",").split(","):
        try:
            values.append(float(word))
        except ValueError:
            raise InputError(
                f"'{word.strip()}' in {what} is not a number; write for example {what} 1,0.9,0.8."
            ) from None
        if not np.isfinite(values[-1]):
            raise InputError(f"'{word.strip()}' in {what} is not a finite number.")
    return np.array(values)
