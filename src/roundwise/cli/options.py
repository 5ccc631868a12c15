"""What several commands ask for in the same words, and how the words become objects."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from roundwise.arrays import Floats
from roundwise.errors import DataError, InputError, unknown
from roundwise.policies import POLICIES, Policy
from roundwise.questions import Above, AnyAbove, BestArm, Largest, MinimumBelow, Question, Statements, TopK
from roundwise.stopping import GLR, THRESHOLDS

QUESTIONS = ("best-arm", "top-k", "above", "minimum-below", "any-above", "statements", "largest")

QuestionName = Annotated[
    str, typer.Option("--question", "-q", help=f"What to find out: {', '.join(QUESTIONS)}.", metavar="NAME")
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
    name: str, k: int | None, level: float | None, file: Path | None, tolerance: float | None = None
) -> Question:
    """The question that the options describe."""
    if name not in QUESTIONS:
        raise unknown("question", name, QUESTIONS)
    for option, value, users in (
        ("--k", k, {"top-k"}),
        ("--level", level, {"above", "minimum-below", "any-above"}),
        ("--file", file, {"statements", "largest"}),
    ):
        if name in users and value is None:
            raise InputError(f"The question '{name}' needs {option}.")
        if name not in users and value is not None:
            raise InputError(f"The question '{name}' does not take {option}.")
    if tolerance is not None and name != "best-arm":
        raise InputError(f"The question '{name}' does not take --tolerance.")
    if name == "best-arm":
        return BestArm(tolerance or 0.0)
    if k is not None:
        return TopK(k)
    if level is not None:
        if name == "above":
            return Above(level)
        return MinimumBelow(level) if name == "minimum-below" else AnyAbove(level)
    assert file is not None
    names, forms, extra = _forms(file, "above" if name == "statements" else "plus", required=name == "statements")
    return Statements(forms, extra, names) if name == "statements" else Largest(forms, extra, names)


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


def policy_from(text: str) -> Policy:
    """A policy by name, with fields if wanted: `pet`, `pet:guess=4,threshold=pairwise`, `opt-bbai:c=8`."""
    name, _, settings = text.partition(":")
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    kind: Any = POLICIES[name]
    fields = {each.name: each for each in dataclasses.fields(kind) if each.name != "stopping"}
    takes_threshold = isinstance(kind().stopping, GLR)
    values: dict[str, Any] = {}
    for setting in filter(None, settings.split(",")):
        key, _, value = (part.strip() for part in setting.partition("="))
        if key == "threshold" and takes_threshold:
            if value not in THRESHOLDS:
                raise unknown("threshold", value, [name for name in THRESHOLDS if name != "heuristic"])
            values["stopping"] = GLR(THRESHOLDS[value])
        elif key in fields:
            values[key] = _typed(text, key, value, fields[key].default)
        else:
            raise unknown(f"setting of '{name}'", key, [*fields, *(["threshold"] if takes_threshold else [])])
    policy: Policy = kind(**values)
    return policy


def _typed(text: str, key: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        words = {"true": True, "yes": True, "false": False, "no": False}
        if value.lower() not in words:
            raise InputError(f"'{key}' in '{text}' must be true or false, not '{value}'.")
        return words[value.lower()]
    if isinstance(default, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise InputError(f"'{key}' in '{text}' must be a number, not '{value}'.") from None


def _forms(path: Path, extra: str, required: bool) -> tuple[tuple[str, ...], Floats, Floats]:
    """Names, coefficients and the extra column of a CSV of linear forms."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a CSV table ({error}).") from None
    if len(rows) < 2:
        raise DataError(f"{path}: the table is empty; it needs a line of column names and one line a form.")
    head = [word.strip() for word in rows[0]]
    for column in ["name", *([extra] if required else [])]:
        if column not in head:
            raise DataError(f"{path}, line 1: no column '{column}'.")
    other = {"above": "plus", "plus": "above"}[extra]
    if other in head:
        raise DataError(f"{path}, line 1: the column '{other}' belongs to the other question with a --file.")
    arms = [i for i, word in enumerate(head) if word not in ("name", extra)]
    names, forms, extras = [], [], []
    for line, row in enumerate(rows[1:], start=2):
        if not any(word.strip() for word in row):
            continue
        if len(row) != len(head):
            raise DataError(f"{path}, line {line}: {len(row)} values where line 1 names {len(head)} columns.")
        names.append(row[head.index("name")].strip())
        try:
            forms.append([float(row[i]) for i in arms])
            extras.append(float(row[head.index(extra)]) if extra in head else 0.0)
        except ValueError as error:
            raise DataError(f"{path}, line {line}: {error}; every coefficient must be a number.") from None
    return tuple(names), np.array(forms), np.array(extras)
