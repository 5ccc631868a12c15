"""`roundwise new`: create a study."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from roundwise.arrays import Plain
from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import (
    Against,
    Delta,
    EventCounts,
    FeaturesFile,
    FormsFile,
    Futility,
    Json,
    Level,
    Margin,
    MarginIs,
    NoiseName,
    NoiseSigma,
    Normal,
    Sigmas,
    Tolerance,
    TopSize,
    TwoSided,
    ValueRange,
    ZeroOne,
    numbers,
    question_from,
)
from roundwise.cli.output import recorded
from roundwise.cli.reading import ArmColumn, IdColumn, ItemColumn, OutcomeColumn, TimeColumn, columns_of
from roundwise.cli.study.common import Name, Storage, show
from roundwise.errors import DataError, InputError
from roundwise.noise import (
    Binary,
    Bounded,
    Deviations,
    Gaussian,
    Noise,
    Poisson,
    SubGaussian,
    UnknownVariance,
    with_items,
)
from roundwise.questions import Linear, Question, Statements
from roundwise.simulation.tables import read_features
from roundwise.spec import made


@app.command(rich_help_panel=STUDIES)
def new(
    name: Name,
    question: Annotated[
        str | None, typer.Option("--question", "-q", help="What to find out; see `roundwise complexity -h`.")
    ] = None,
    from_plan: Annotated[
        Path | None, typer.Option("--from-plan", help="As a plan recommends, in place of all that follows.")
    ] = None,
    arms: Annotated[str | None, typer.Option("--arms", help="Names of the arms: a,b,c.", metavar="LIST")] = None,
    arms_file: Annotated[Path | None, typer.Option("--arms-file", help="A file with one name a line.")] = None,
    k: TopSize = None,
    level: Level = None,
    file: FormsFile = None,
    tolerance: Tolerance = None,
    features: FeaturesFile = None,
    control: Annotated[
        str | None,
        typer.Option("--control", help="claims (or statements): who beats this arm? Of claims also several: a,b."),
    ] = None,
    margin: Margin = None,
    futility: Futility = None,
    two_sided: TwoSided = False,
    margin_is: MarginIs = "difference",
    sigma: NoiseSigma = None,
    sigmas: Sigmas = None,
    normal: Normal = False,
    value_range: ValueRange = None,
    binary: ZeroOne = False,
    counts: EventCounts = False,
    noise: NoiseName = None,
    delta: Delta = 0.05,
    policy: Annotated[
        str | None, typer.Option("--policy", help="How to sample: chances for claims, else wager; pet, ...")
    ] = None,
    max_batch: Annotated[float | None, typer.Option("--max-batch", help="At most so many results in a round.")] = None,
    min_per_arm: Annotated[float, typer.Option("--min-per-arm", help="At least so many of an arm that is used.")] = 0.0,
    budget: Annotated[int | None, typer.Option("--budget", help="Ask for no more than so many results in all.")] = None,
    round_: Annotated[int | None, typer.Option("--round", help="So many results make a round.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="Fixed shares of the arms: 2:1:1, or equal.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Drawn, unless you want the same study again; choose it beforehand.")
    ] = None,
    arm_column: ArmColumn = None,
    outcome_column: OutcomeColumn = None,
    id_column: IdColumn = None,
    time_column: TimeColumn = None,
    item_column: ItemColumn = None,
    items: Annotated[
        bool, typer.Option("--items", help="Arms are tried on the same items; files have one column an arm.")
    ] = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Create a study.

    Example: roundwise new checkout --question best-arm --arms red,green,blue --binary
    """
    from roundwise.studies import create_study
    from roundwise.studies.guarantee import KEPT, guarantee_of
    from roundwise.studies.settings import arm_names
    from roundwise.studies.writing import asked_in_words

    if from_plan is not None:
        if question is not None or arms is not None or arms_file is not None:
            raise InputError("Give either --from-plan FILE, or the words of a study; a plan has them all.")
        words, forecast = _planned(from_plan)
    elif question is None:
        raise InputError("Give --question, or --from-plan FILE.")
    else:
        names = arm_names(_arm_list(arms, arms_file))
        forecast = None
        against = Against(control, margin, futility, two_sided, margin_is)
        words = {
            "question": _question(question, names, k, level, file, tolerance, against, features),
            "arms": names,
            "noise": _noise(sigma, normal, value_range, binary, counts, noise, sigmas),
            "delta": delta,
            "policy": None if policy is None else made("policy", policy, trusted=True),
            "max_batch": max_batch,
            "min_per_arm": min_per_arm,
            "budget": budget,
            "round": round_,
            "split": split,
        }
    columns = columns_of(arm_column, outcome_column, id_column, time_column, item_column) or words.pop("columns", None)
    if items:
        words["noise"] = with_items(words["noise"])
    with create_study(name, storage=storage, columns=columns, seed=seed, **words) as study:
        recorded(f"'{name}' is created")
        guarantee = str(guarantee_of(study.state))
        settings = study.state.settings
    asked, names, delta = settings.question, settings.arms, settings.delta
    if forecast is None:
        from roundwise.planning import first_line

        forecast = first_line(settings)
    promise = f"Error at most {delta:g}" if guarantee == KEPT else f"Error aimed at {delta:g}"
    stands = "" if guarantee == KEPT else f"The guarantee is {guarantee}.\n"
    next_ = f"`roundwise ask {quote(name)}` says what to do first."
    plain = {"study": name, "question": asked.name, "arms": names, "delta": delta, "guarantee": guarantee}
    plain["forecast"] = forecast
    ahead = "" if forecast is None else f"Forecast: {forecast}; `roundwise plan -h` says how to ask for more.\n"
    text = f"Created '{name}': {asked_in_words(settings)} {promise}.\n{stands}{ahead}Next: {next_}"
    show({**plain, "next": next_} if as_json else None, text)


def _planned(path: Path) -> tuple[Plain, str]:
    """What a plan recommends, in the words of `create_study`, and its forecast."""
    from roundwise.planning import read_plan

    found, forecast = read_plan(path)
    fields = ("question", "arms", "noise", "delta", "policy", "budget", "round", "split", "columns")
    return {each: getattr(found, each) for each in fields}, forecast


def _arm_list(arms: str | None, path: Path | None) -> list[str]:
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


def _question(
    name: str,
    names: tuple[str, ...],
    k: int | None,
    level: float | None,
    file: Path | None,
    tolerance: float | None,
    against: Against,
    features: Path | None = None,
) -> Question:
    if name == Statements.name and against.control is not None and file is None:
        if against != Against(against.control, against.margin):
            raise InputError("--futility, --two-sided and --margin-is go with --question claims.")
        asked = Statements.against_control(names, against.control, against.margin or 0.0, tolerance or 0.0)
        return asked if features is None else Linear(asked, read_features(features, names))
    return question_from(name, k, level, file, tolerance, against, names, features)


def _noise(
    sigma: float | None,
    normal: bool,
    value_range: tuple[float, float] | None,
    binary: bool,
    counts: bool,
    named: str | None,
    sigmas: str | None = None,
) -> Noise:
    chosen = [sigma is not None, value_range is not None, binary, counts, normal and sigma is None, named is not None]
    if sum(chosen) + (sigmas is not None) != 1 or (named is not None and normal):
        raise InputError(
            "Say what results look like with one of --binary, --range LOW HIGH, --sigma S, --sigma S --normal, "
            "--sigmas LIST, --normal (deviation unknown), --counts, --noise NAME."
        )
    if sigmas is not None:
        return Deviations(tuple(numbers(sigmas, "--sigmas").tolist()))
    if named is not None:
        return made("noise", named, trusted=True)
    if sigma is not None:
        return Gaussian(sigma) if normal else SubGaussian(sigma)
    if value_range is not None:
        return Bounded(*value_range)
    if binary:
        return Binary()
    return Poisson() if counts else UnknownVariance()
