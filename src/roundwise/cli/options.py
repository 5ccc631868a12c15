"""What several commands ask for in the same words, and how the words become objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from roundwise.arrays import Floats
from roundwise.errors import InputError, unknown
from roundwise.model.spec import find_class, from_spec, list_parameters, parse_quantity, parse_spec
from roundwise.noise import (
    Binary,
    Bounded,
    Gaussian,
    HeteroscedasticGaussian,
    Noise,
    Poisson,
    SubGaussian,
    UnknownVariance,
)
from roundwise.questions import QUESTIONS, Claims, Linear, Question, Statements
from roundwise.questions.claims import SCALES, Scale
from roundwise.simulation.tables import read_features, read_forms

FORMS = {"statements": ("above", "levels"), "largest": ("plus", "offsets")}  # column of the --file, and what it sets

WHAT = f"What to find out: {', '.join(QUESTIONS)}, or your own module:Class."
QuestionName = Annotated[str, typer.Option("--question", "-q", help=WHAT, metavar="NAME[:SETTINGS]")]


def per_cent(text: str | float) -> float:
    """A number, also in per cent or points: the parser of options."""
    try:
        return parse_quantity(text)
    except InputError:
        raise typer.BadParameter(f"{text!r} is no number such as 0.3, 30% or 2 points.") from None


def whole_number(text: str | int) -> int:
    """A whole number as people write it, also 20 000 or 20,000: the parser of options."""
    value = per_cent(text)
    if value != int(value):
        raise typer.BadParameter(f"{text!r} is no whole number such as 500 or 20000.")
    return int(value)


TopSize = Annotated[int | None, typer.Option("--k", help="How many arms top-k looks for.")]
Level = Annotated[
    float | None,
    typer.Option("--level", help="Of above, minimum-below, any-above or claims.", parser=per_cent, metavar="NUMBER"),
]
FormsFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="Table of statements, claims or scores: a column `name`, one of coefficients for each arm, and a column "
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
        help="Table of features that means are linear in: a row for each arm, in their order (or a column `arm`).",
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
    tuple[float, float] | None,
    typer.Option("--range", help="Noise: results always lie between these two.", metavar="LOW HIGH"),
]
ZeroOne = Annotated[bool, typer.Option("--binary", help="Noise: results are 0 or 1.")]
EventCounts = Annotated[bool, typer.Option("--counts", help="Noise: results are Poisson counts.")]
NoiseName = Annotated[str | None, typer.Option("--noise", help="Noise: a model by its name, or your own module:Class.")]
Control = Annotated[
    str | None,
    typer.Option(
        "--control", help="claims (of a study also statements): who beats this arm? Of claims also several: a,b."
    ),
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
Budget = Annotated[
    int | None,
    typer.Option("--budget", help="No more than so many results in all.", parser=whole_number, metavar="NUMBER"),
]
RoundSize = Annotated[
    int | None, typer.Option("--round", help="So many results at a time.", parser=whole_number, metavar="NUMBER")
]
Split = Annotated[
    str | None, typer.Option("--split", help="Shares of the arms, in their order: 2:1:1, or equal.", metavar="LIST")
]

AnyQuestion = Annotated[str | None, typer.Option("--question", "-q", help=WHAT, metavar="NAME[:SETTINGS]")]
ArmNames = Annotated[str | None, typer.Option("--arms", help="Names of the arms: a,b,c.", metavar="LIST")]
ArmsFile = Annotated[Path | None, typer.Option("--arms-file", help="A file with one name a line.")]
MaxRound = Annotated[int | None, typer.Option("--max-round", help="Largest number of results in a round.")]
MinPerArm = Annotated[int, typer.Option("--min-per-arm", help="Smallest number of results of an arm in a round.")]
WholeRound = Annotated[
    int | None, typer.Option("--round", help="So many results make a round.", parser=whole_number, metavar="NUMBER")
]
Shares = Annotated[str | None, typer.Option("--split", help="Fixed shares of the arms: 2:1:1, or equal.")]
SameItems = Annotated[
    bool, typer.Option("--items", help="Arms are tried on the same items; files have one column an arm.")
]


class Asked(NamedTuple):
    """What the options say of a question, besides its name."""

    k: TopSize = None
    level: Level = None
    file: FormsFile = None
    tolerance: Tolerance = None


class Against(NamedTuple):
    """What the options of claims say."""

    control: Control = None
    margin: Margin = None
    futility: Futility = None
    two_sided: TwoSided = False
    margin_is: MarginIs = "difference"

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


def question_from(
    text: str,
    asked: Asked,
    against: Against | None = None,
    arms: Sequence[str] = (),
    features: Path | None = None,
) -> Question:
    """The question that the words and the options describe."""
    if features is not None:
        return Linear(question_from(text, asked, against, arms), read_features(features, arms))
    said = parse_spec("question", text)
    if against is not None and against.given and said["name"] != Claims.name:
        raise InputError(f"--control, --margin, --futility and --two-sided go with --question claims, not '{text}'.")
    if said["name"] == Claims.name and against is None:
        raise InputError(
            "There are no such bounds for 'claims'; `roundwise complexity` has the lower bound on samples."
        )
    if text == Claims.name and against is not None:
        return claims_from(against, arms, asked.level, asked.file)
    name, options = said["name"], {"k": asked.k, "level": asked.level, "tolerance": asked.tolerance}
    fields: dict[str, object] = {**said, **{key: value for key, value in options.items() if value is not None}}
    if (name in FORMS) != (asked.file is not None):
        raise InputError(f"The question '{name}' {'needs' if asked.file is None else 'does not take'} --file.")
    known = list_parameters(find_class("question", name, trusted=True))
    for key in options:
        if key in known and known[key].default is MISSING and key not in fields:
            raise InputError(f"The question '{name}' cannot be made without `{key}`: give --{key}.")
    if asked.file is not None:
        column, key = FORMS[name]
        fields["names"], fields["forms"], fields[key] = read_forms(asked.file, column, key == "levels", arms)
    return from_spec("question", fields, trusted=True)


def study_question(text: str, asked: Asked, against: Against, arms: Sequence[str], features: Path | None) -> Question:
    """The same of a study, where statements may be against a control."""
    if text != Statements.name or against.control is None or asked.file is not None:
        return question_from(text, asked, against, arms, features)
    if against != Against(against.control, against.margin):
        raise InputError("--futility, --two-sided and --margin-is go with --question claims.")
    found = Statements.against_control(arms, against.control, against.margin or 0.0, asked.tolerance or 0.0)
    return found if features is None else Linear(found, read_features(features, arms))


class Assumed(NamedTuple):
    """What the options say of the noise of a study."""

    sigma: NoiseSigma = None
    sigmas: Sigmas = None
    normal: Normal = False
    value_range: ValueRange = None
    binary: ZeroOne = False
    counts: EventCounts = False
    noise: NoiseName = None

    @property
    def model(self) -> Noise:
        """The noise model: exactly one must be described."""
        unknown_variance = self.normal and self.sigma is None
        named = (each is not None for each in (self.sigma, self.sigmas, self.value_range, self.noise))
        if sum((*named, self.binary, self.counts, unknown_variance)) != 1:
            raise InputError(
                "Say what results look like with one of --binary, --range LOW HIGH, --sigma S, --sigma S --normal, "
                "--sigmas LIST, --normal (deviation unknown), --counts, --noise NAME."
            )
        if self.sigmas is not None:
            return deviations_from(self.sigmas)
        if self.noise is not None:
            return from_spec("noise", self.noise, trusted=True)
        if self.sigma is not None:
            return Gaussian(self.sigma) if self.normal else SubGaussian(self.sigma)
        if self.value_range is not None:
            return Bounded(*self.value_range)
        return Binary() if self.binary else Poisson() if self.counts else UnknownVariance()


def deviations_from(sigmas: str) -> HeteroscedasticGaussian:
    """Normal rewards with a deviation for each arm."""
    return HeteroscedasticGaussian(tuple(numbers(sigmas, "--sigmas").tolist()))


def numbers(text: str | None, what: str = "--means") -> Floats:
    """A list of numbers such as 1,0.9,0.8."""
    if not text:
        raise InputError(f"Give {what} as a list of numbers, for example {what} 1,0.9,0.8.")
    values = []
    for word in text.replace(";", ",").split(","):
        try:
            values.append(parse_quantity(word) if "%" in word else float(word))
        except ValueError:
            raise InputError(
                f"'{word.strip()}' in {what} is not a number; write for example {what} 1,0.9,0.8."
            ) from None
        if not np.isfinite(values[-1]):
            raise InputError(f"'{word.strip()}' in {what} is not a finite number.")
    return np.array(values)
