"""`roundwise new`: create a study."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.arrays import Plain
from roundwise.cli import STUDIES, app, grouped, options
from roundwise.cli.output import recorded
from roundwise.cli.study.common import ColumnNames, Name, Storage, show
from roundwise.errors import DataError, InputError
from roundwise.model.spec import Kind, from_spec, parse_spec


@app.command(rich_help_panel=STUDIES)
@grouped
def new(
    *,
    name: Name,
    question: options.AnyQuestion = None,
    from_plan: Annotated[
        Path | None, typer.Option("--from-plan", help="As a plan recommends, in place of all that follows.")
    ] = None,
    arms: options.ArmNames = None,
    arms_file: options.ArmsFile = None,
    asked: options.Asked,
    features: options.FeaturesFile = None,
    against: options.Against,
    assumed: options.Assumed,
    delta: options.Delta = 0.05,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="Policy (default: conditional-power for claims, else wager; pet, ...)."),
    ] = None,
    max_round: options.MaxRound = None,
    min_per_arm: options.MinPerArm = 0,
    budget: options.Budget = None,
    round_: options.WholeRound = None,
    split: options.Shares = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Reproduce a study; row order must then be unrelated to values.")
    ] = None,
    named: ColumnNames,
    items: options.SameItems = False,
    storage: Storage = None,
    as_json: options.Json = False,
) -> None:
    """Create a study.

    Example: roundwise new checkout --question best-arm --arms red,green,blue --binary
    """
    from roundwise.study import create_study
    from roundwise.study.guarantee import guarantee_of
    from roundwise.study.spec import arm_names
    from roundwise.study.study import asked_in_words

    if from_plan is not None:
        if question is not None or arms is not None or arms_file is not None:
            raise InputError("Give either --from-plan FILE, or the words of a study; a plan has them all.")
        words, forecast = _planned(from_plan)
    elif question is None:
        raise InputError("Give --question, or --from-plan FILE.")
    else:
        names = arm_names(arm_list(arms, arms_file))
        forecast = None
        words = {
            "question": options.study_question(question, asked, against, names, features),
            "arms": names,
            "noise": assumed.model,
            "delta": delta,
            "policy": None if policy is None else from_spec("policy", policy, trusted=True),
            "max_round": max_round,
            "min_per_arm": min_per_arm,
            "budget": budget,
            "round": round_,
            "split": split,
        }
    columns = named.columns or words.pop("columns", None)
    if items:
        words["noise"] = words["noise"].with_items()
    with create_study(name, storage=storage, columns=columns, seed=seed, **words) as study:
        recorded(f"'{name}' is created")
        guarantee = guarantee_of(study.state)
        settings = study.state.settings
    if forecast is None:
        from roundwise.planning import first_line

        forecast = first_line(settings)
    promise = f"Error at most {settings.delta:g}" if guarantee.kept else f"Error aimed at {settings.delta:g}"
    stands = "" if guarantee.kept else f"The guarantee is {guarantee}.\n"
    own = _own({"question": question, "noise": assumed.noise, "policy": policy})
    next_ = f"`roundwise {own}ask {quote(name)}` says what to do first."
    plain = {
        "study": name,
        "question": settings.question.name,
        "arms": settings.arms,
        "delta": settings.delta,
        "guarantee": guarantee.plain(),
        "forecast": forecast,
        "next": next_,
    }
    ahead = "" if forecast is None else f"Forecast: {forecast}; `roundwise plan -h` says how to ask for more.\n"
    text = f"Created '{name}': {asked_in_words(settings)} {promise}.\n{stands}{ahead}Next: {next_}"
    show(plain if as_json else None, text)


def _own(said: dict[Kind, str | None]) -> str:
    """What every command on this study needs for classes of the user's own, unless ROUNDWISE_OWN has them."""
    found = []
    for kind, text in said.items():
        fields = {"name": ""} if text is None else parse_spec(kind, text)
        threshold = parse_spec("threshold", fields["threshold"]) if "threshold" in fields else {"name": ""}
        found += [each["name"].partition(":")[0] for each in (fields, threshold) if ":" in each["name"]]
    known = os.environ.get("ROUNDWISE_OWN", "").split()
    return "".join(f"--own {module} " for module in dict.fromkeys(found) if module not in known)


def _planned(path: Path) -> tuple[Plain, str]:
    """What a plan recommends, in the words of `create_study`, and its forecast."""
    from roundwise.planning import read_plan
    from roundwise.study.spec import StudySpec, settings_of

    found, forecast = read_plan(path)
    return {name: getattr(found, name) for name in settings_of(StudySpec) if name != "seed"}, forecast


def arm_list(arms: str | None, path: Path | None) -> list[str]:
    """The names of the arms, given one way or the other."""
    if (arms is None) == (path is None):
        raise InputError("Give either --arms a,b,c or --arms-file FILE.")
    if arms is not None:
        return arms.split(",")
    assert path is not None
    return listed_in(path)


def listed_in(path: Path) -> list[str]:
    """The names in a file, one a line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as a list of names ({error}).") from None
    return [line for line in lines if line.strip()]
