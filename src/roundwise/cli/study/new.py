"""`roundwise new`: create a study."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Delta, FormsFile, Json, Level, Tolerance, TopSize, question_from
from roundwise.cli.study.common import Name, Storage, show
from roundwise.errors import DataError, InputError, unknown
from roundwise.noise import Binary, Bounded, Gaussian, Noise, Poisson, SubGaussian, UnknownVariance
from roundwise.questions import Question, Statements
from roundwise.spec import made


@app.command(rich_help_panel=STUDIES)
def new(
    name: Name,
    question: Annotated[str, typer.Option("--question", "-q", help="What to find out; see `roundwise complexity -h`.")],
    arms: Annotated[str | None, typer.Option("--arms", help="Names of the arms: a,b,c.", metavar="LIST")] = None,
    arms_file: Annotated[Path | None, typer.Option("--arms-file", help="A file with one name a line.")] = None,
    k: TopSize = None,
    level: Level = None,
    file: FormsFile = None,
    tolerance: Tolerance = None,
    control: Annotated[
        str | None, typer.Option("--control", help="statements: which arms beat this one? (instead of --file)")
    ] = None,
    margin: Annotated[float, typer.Option("--margin", help="By more than this, with --control.")] = 0.0,
    sigma: Annotated[float | None, typer.Option("--sigma", help="Noise: tails as normal with this deviation.")] = None,
    normal: Annotated[
        bool, typer.Option("--normal", help="With --sigma: exactly normal. Alone: deviation unknown.")
    ] = False,
    value_range: Annotated[
        tuple[float, float] | None, typer.Option("--range", help="Noise: results always lie in LOW HIGH.")
    ] = None,
    binary: Annotated[bool, typer.Option("--binary", help="Noise: results are 0 or 1.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Noise: results are Poisson counts.")] = False,
    noise: Annotated[
        str | None, typer.Option("--noise", help="Noise: a model by its name, or your own module:Class.")
    ] = None,
    delta: Delta = 0.05,
    policy: Annotated[str | None, typer.Option("--policy", help="How to sample: wager (default), pet, ...")] = None,
    max_batch: Annotated[float | None, typer.Option("--max-batch", help="At most so many results in a batch.")] = None,
    min_per_arm: Annotated[float, typer.Option("--min-per-arm", help="At least so many of an arm that is used.")] = 0.0,
    budget: Annotated[int | None, typer.Option("--budget", help="Ask for no more than so many results in all.")] = None,
    round_: Annotated[int | None, typer.Option("--round", help="So many results make a batch.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="Fixed shares of the arms: 2:1:1, or equal.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Create a study.

    Example: roundwise new checkout --question best-arm --arms red,green,blue --binary
    """
    from roundwise.studies import create_study
    from roundwise.studies.guarantee import KEPT, guarantee_of
    from roundwise.studies.settings import arm_names

    names = arm_names(_arm_list(arms, arms_file))
    asked = _question(question, names, k, level, file, tolerance, control, margin)
    found = _noise(sigma, normal, value_range, binary, counts, noise)
    with create_study(
        name,
        question=asked,
        arms=names,
        noise=found,
        delta=delta,
        policy=None if policy is None else made("policy", policy, trusted=True),
        max_batch=max_batch,
        min_per_arm=min_per_arm,
        budget=budget,
        round=round_,
        split=split,
        storage=storage,
    ) as study:
        guarantee = str(guarantee_of(study.state))
    promise = f"error at most {delta:g}" if guarantee == KEPT else f"error aimed at {delta:g}"
    stands = "" if guarantee == KEPT else f"The guarantee is {guarantee}.\n"
    next_ = f"`roundwise ask {quote(name)}` says what to do first."
    plain = {"study": name, "question": asked.name, "arms": names, "delta": delta, "guarantee": guarantee}
    text = f"Created '{name}': {asked.name} of {len(names)} arms, {promise}.\n{stands}Next: {next_}"
    show({**plain, "next": next_} if as_json else None, text)


def _arm_list(arms: str | None, path: Path | None) -> list[str]:
    if (arms is None) == (path is None):
        raise InputError("Give either --arms a,b,c or --arms-file FILE.")
    if arms is not None:
        return arms.split(",")
    assert path is not None
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as a list of names ({error}).") from None
    return [line for line in lines if line.strip()]


def _question(
    name: str,
    names: tuple[str, ...],
    k: int | None,
    level: float | None,
    file: Path | None,
    tolerance: float | None,
    control: str | None,
    margin: float,
) -> Question:
    if control is None:
        if margin:
            raise InputError("--margin goes with --control.")
        return question_from(name, k, level, file, tolerance)
    if name != "statements" or file is not None:
        raise InputError("--control goes with --question statements, in the place of --file.")
    if control not in names:
        raise unknown("arm", control, names)
    by = f" by more than {margin:g}" if margin else ""
    statements = Statements.against_control(len(names), names.index(control), margin)
    return dataclasses.replace(statements, names=tuple(f"{arm} beats {control}{by}" for arm in names if arm != control))


def _noise(
    sigma: float | None,
    normal: bool,
    value_range: tuple[float, float] | None,
    binary: bool,
    counts: bool,
    named: str | None,
) -> Noise:
    chosen = [sigma is not None, value_range is not None, binary, counts, normal and sigma is None, named is not None]
    if sum(chosen) != 1 or (named is not None and normal):
        raise InputError(
            "Say what results look like with one of --binary, --range LOW HIGH, --sigma S, --sigma S --normal, "
            "--normal (deviation unknown), --counts, --noise NAME."
        )
    if named is not None:
        return made("noise", named, trusted=True)
    if sigma is not None:
        return Gaussian(sigma) if normal else SubGaussian(sigma)
    if value_range is not None:
        return Bounded(*value_range)
    if binary:
        return Binary()
    return Poisson() if counts else UnknownVariance()
