"""What several commands ask for in the same words, and how the words become objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from roundwise.arrays import Floats
from roundwise.errors import InputError, unknown
from roundwise.fields import quantity
from roundwise.questions import Claims, Linear, Question
from roundwise.questions.claim_words import SCALES, Scale
from roundwise.simulation.tables import read_features, read_forms
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


def per_cent(text: str | float) -> float:
    """A number, also in per cent or points: the parser of options."""
    try:
        return quantity(text)
    except InputError:
        raise typer.BadParameter(f"{text!r} is no number such as 0.3, 30% or 2 points.") from None


TopSize = Annotated[int | None, typer.Option("--k", help="How many arms top-k looks for.")]
Level = Annotated[
    float | None,
    typer.Option("--level", help="Of above, minimum-below, any-above or claims.", parser=per_cent, metavar="NUMBER"),
]
FormsFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="CSV of statements, claims or scores: a column `name`, one of coefficients for each arm, and a column "
        "`above` (the level) or, if wanted, `plus` (largest: an offset).",
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        help="How far off an answer may be: any arm this close to the best, or either side this close to a level.",
        parser=per_cent,
        metavar="NUMBER",
    ),
]
FeaturesFile = Annotated[
    Path | None,
    typer.Option(
        "--features",
        help="CSV of features that means are linear in: a row for each arm, in their order (or a column `arm`).",
    ),
]
Sigmas = Annotated[
    str | None, typer.Option("--sigmas", help="Noise: exactly normal, with a deviation for each arm.", metavar="LIST")
]
Means = Annotated[str | None, typer.Option("--means", help="The true means, for example 1,0.9,0.8.", metavar="LIST")]
Sigma = Annotated[float, typer.Option("--sigma", help="The sub-Gaussian constant of the rewards.")]
Delta = Annotated[
    float,
    typer.Option(
        "--delta", help="The error probability that is allowed: 0.05 or 5%.", parser=per_cent, metavar="NUMBER"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON (infinite numbers as null).")]


NoiseSigma = Annotated[float | None, typer.Option("--sigma", help="Noise: tails as normal with this deviation.")]
Normal = Annotated[bool, typer.Option("--normal", help="With --sigma: exactly normal. Alone: deviation unknown.")]
ValueRange = Annotated[
    tuple[float, float] | None, typer.Option("--range", help="Noise: results always lie in LOW HIGH.")
]
ZeroOne = Annotated[bool, typer.Option("--binary", help="Noise: results are 0 or 1.")]
EventCounts = Annotated[bool, typer.Option("--counts", help="Noise: results are Poisson counts.")]
NoiseName = Annotated[str | None, typer.Option("--noise", help="Noise: a model by its name, or your own module:Class.")]
Control = Annotated[
    str | None, typer.Option("--control", help="claims: the arm that all others are compared with, or several: a,b.")
]
Margin = Annotated[
    float | None,
    typer.Option("--margin", help="claims: by more than this (0; of a ratio 1).", parser=per_cent, metavar="NUMBER"),
]
Futility = Annotated[
    float | None,
    typer.Option(
        "--futility", help="claims: also show who is better by less than this.", parser=per_cent, metavar="NUMBER"
    ),
]
TwoSided = Annotated[bool, typer.Option("--two-sided", help="claims: also show who is not better.")]
MarginIs = Annotated[
    str, typer.Option("--margin-is", help=f"claims: what the margins are: {', '.join(SCALES)}.", metavar="NAME")
]
Budget = Annotated[int | None, typer.Option("--budget", help="No more than so many results in all.")]
RoundSize = Annotated[int | None, typer.Option("--round", help="So many results at a time.")]
Split = Annotated[
    str | None, typer.Option("--split", help="Shares of the arms, in their order: 2:1:1.", metavar="LIST")
]


class Against(NamedTuple):
    """What the options of claims say."""

    control: str | None = None
    margin: float | None = None
    futility: float | None = None
    two_sided: bool = False
    margin_is: str = "difference"

    @property
    def given(self) -> bool:
        """Whether any of them was."""
        return self != Against()


def claims_from(against: Against, arms: Sequence[str], level: float | None = None, file: Path | None = None) -> Claims:
    """The claims that the options describe, of these arms."""
    if sum(each is not None for each in (against.control, level, file)) != 1:
        raise InputError(
            "The question 'claims' needs --control, the arm that all others are compared with (or several: a,b), or "
            "--level, that every arm is above, or a --file of linear claims: one of these."
        )
    sides = "two" if against.two_sided else "one"
    if against.control is None:
        if against.margin is not None or against.margin_is != "difference":
            raise InputError("--margin and --margin-is go with --control.")
        if level is not None:
            return Claims.above(list(arms), level, futility=against.futility, sides=sides)
        assert file is not None
        column, _ = FORMS["statements"]
        names, forms, levels = read_forms(file, column, needed=True, wanted=arms)
        return Claims(np.array(forms), np.array(levels), 1.0, against.futility, sides, names=tuple(names))
    if against.margin_is not in SCALES:
        raise unknown("kind of margin", against.margin_is, SCALES)
    scale: Scale = next(each for each in SCALES if each == against.margin_is)
    usual = 0.0 if scale == "difference" else 1.0
    return Claims.against_control(
        list(arms),
        _controls(against.control, arms),
        usual if against.margin is None else against.margin,
        futility=against.futility,
        sides=sides,
        scale=scale,
    )


def _controls(text: str, arms: Sequence[str]) -> str | list[int | str]:
    """One control or several, by name or by number."""
    if text in arms:
        return text
    several = [each.strip() for each in text.split(",")]
    return [int(each) if each not in arms and each.isdigit() and int(each) < len(arms) else each for each in several]


def shares_from(split: str | None) -> list[float] | None:
    """The shares of the arms, as in 2:1:1."""
    return None if split is None else numbers(split.replace(":", ","), "--split").tolist()


def question_from(
    text: str,
    k: int | None,
    level: float | None,
    file: Path | None,
    tolerance: float | None = None,
    against: Against | None = None,
    arms: Sequence[str] = (),
    features: Path | None = None,
) -> Question:
    """The question that the words and the options describe."""
    if features is not None:
        asked = question_from(text, k, level, file, tolerance, against, arms)
        return Linear(asked, read_features(features, arms))
    said = worded("question", text)
    if against is not None and against.given and said["name"] != Claims.name:
        raise InputError(f"--control, --margin, --futility and --two-sided go with --question claims, not '{text}'.")
    if text == Claims.name and against is not None:
        return claims_from(against, arms, level, file)
    name, options = said["name"], {"k": k, "level": level, "tolerance": tolerance}
    fields: dict[str, object] = {**said, **{key: value for key, value in options.items() if value is not None}}
    if (name in FORMS) != (file is not None):
        raise InputError(f"The question '{name}' {'needs' if file is None else 'does not take'} --file.")
    if file is not None:
        column, key = FORMS[name]
        fields["names"], fields["forms"], fields[key] = read_forms(file, column, key == "levels", arms)
    return made("question", fields, trusted=True)


def numbers(text: str | None, what: str = "--means") -> Floats:
    """A list of numbers such as 1,0.9,0.8."""
    if not text:
        raise InputError(f"Give {what} as a list of numbers, for example {what} 1,0.9,0.8.")
    values = []
    for word in text.replace(";", ",").split(","):
        try:
            values.append(quantity(word) if "%" in word else float(word))
        except ValueError:
            raise InputError(
                f"'{word.strip()}' in {what} is not a number; write for example {what} 1,0.9,0.8."
            ) from None
        if not np.isfinite(values[-1]):
            raise InputError(f"'{word.strip()}' in {what} is not a finite number.")
    return np.array(values)
