"""`roundwise new`: create a study."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.cli import STUDIES, app
from roundwise.cli.options import Json, StudyOptions, StudySettings, grouped
from roundwise.cli.output import recorded
from roundwise.cli.study.common import Name, Storage, show
from roundwise.errors import InputError
from roundwise.model.spec import Kind, parse_spec
from roundwise.study.spec import StudySpec


@app.command(rich_help_panel=STUDIES)
@grouped
def new(
    *,
    name: Name,
    study: StudyOptions,
    settings: StudySettings,
    from_plan: Annotated[
        Path | None,
        typer.Option("--from-plan", help="File of a plan whose recommended settings to use (`plan --out`)."),
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Create a study.

    Example: roundwise new checkout --question best-arm --arms red,green,blue --binary
    """
    from roundwise.planning import first_line, read_plan
    from roundwise.study.api import create_from_spec
    from roundwise.study.guarantee import guarantee_of
    from roundwise.study.study import asked_in_words

    forecast = None
    if from_plan is None:
        if study.question is None:
            raise InputError("Give --question, or --from-plan FILE.")
        spec = study.declare(StudySpec, settings)
    else:
        if study.question is not None or study.arms is not None or study.arms_file is not None:
            raise InputError("Give either --from-plan FILE or the settings of a study: a plan has all of them.")
        spec, forecast = read_plan(from_plan)
        if settings["seed"] is not None:
            spec = replace(spec, seed=settings["seed"], seed_given=True)
        if (columns := study.columns.columns()) is not None:
            spec = replace(spec, columns=columns)
        if study.noise.items:
            spec = replace(spec, noise=spec.noise.with_items())
    with create_from_spec(name, spec, storage) as created:
        recorded(f"'{name}' is created")
        guarantee = guarantee_of(created.state)
    if forecast is None:
        forecast = first_line(spec)
    promise = f"Error at most {spec.delta:g}" if guarantee.kept else f"Error aimed at {spec.delta:g}"
    stands = "" if guarantee.kept else f"The guarantee is {guarantee}.\n"
    own = _own({"question": study.question, "noise": study.noise.noise, "policy": settings["policy"]})
    next_ = f"`roundwise {own}ask {quote(name)}` says what to do first."
    plain = {
        "study": name,
        "question": spec.question.name,
        "arms": spec.arms,
        "delta": spec.delta,
        "guarantee": guarantee.plain(),
        "forecast": forecast,
        "next": next_,
    }
    ahead = "" if forecast is None else f"Forecast: {forecast}; see `roundwise plan -h` for more.\n"
    text = f"Created '{name}': {asked_in_words(spec)} {promise}.\n{stands}{ahead}Next: {next_}"
    show(plain if as_json else None, text)


def _own(said: dict[Kind, str | None]) -> str:
    """The options that import the user's own classes, unless ROUNDWISE_OWN does."""
    found = []
    for kind, text in said.items():
        fields = {"name": ""} if text is None else parse_spec(kind, text)
        threshold = parse_spec("threshold", fields["threshold"]) if "threshold" in fields else {"name": ""}
        found += [each["name"].partition(":")[0] for each in (fields, threshold) if ":" in each["name"]]
    known = os.environ.get("ROUNDWISE_OWN", "").split()
    return "".join(f"--own {module} " for module in dict.fromkeys(found) if module not in known)
