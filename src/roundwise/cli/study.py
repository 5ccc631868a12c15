"""`roundwise new, ask, tell, import, verify, amend, close`: what is done to live studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.files import check_output, write_file
from roundwise.cli.options import Delta, FormsFile, Json, Level, Tolerance, TopSize, question_from
from roundwise.cli.output import print_json, print_table, recorded, say
from roundwise.errors import DataError, InputError
from roundwise.noise import Binary, Bounded, Gaussian, Noise, Poisson, SubGaussian, UnknownVariance
from roundwise.questions import Question, Statements
from roundwise.spec import made

if TYPE_CHECKING:
    from roundwise.studies.store import Entry

Name = Annotated[str, typer.Argument(help="The name of the study.", metavar="NAME")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage", help="sqlite:///file.db or postgresql://...; default ROUNDWISE_STORAGE, else roundwise.db."
    ),
]
Why = Annotated[str, typer.Option("--why", help="The reason, which is recorded.")]


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
    policy: Annotated[str, typer.Option("--policy", help="How to sample: wager (default), pet, ...")] = "wager",
    max_batch: Annotated[float | None, typer.Option("--max-batch", help="At most so many results in a batch.")] = None,
    min_per_arm: Annotated[float, typer.Option("--min-per-arm", help="At least so many of an arm that is used.")] = 0.0,
    budget: Annotated[int | None, typer.Option("--budget", help="Ask for no more than so many results in all.")] = None,
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
        policy=made("policy", policy, trusted=True),
        max_batch=max_batch,
        min_per_arm=min_per_arm,
        budget=budget,
        storage=storage,
    ) as study:
        recorded(f"'{name}' is created")
        guarantee = str(guarantee_of(study.state))
    promise = f"error at most {delta:g}" if guarantee == KEPT else f"error aimed at {delta:g}"
    stands = "" if guarantee == KEPT else f"The guarantee is {guarantee}.\n"
    next_ = f"`roundwise ask {quote(name)}` says what to do first."
    plain = {"study": name, "question": asked.name, "arms": names, "delta": delta, "guarantee": guarantee}
    text = f"Created '{name}': {asked.name} of {len(names)} arms, {promise}.\n{stands}Next: {next_}"
    _print({**plain, "next": next_} if as_json else None, text)


@app.command(rich_help_panel=STUDIES)
def ask(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="Write the round to this CSV file.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """What to do next: how many results of each arm. The same round until it is complete or closed."""
    from roundwise.studies import load_study
    from roundwise.studies.guarantee import guarantee_of
    from roundwise.studies.report import report_of
    from roundwise.studies.report.sheets import csv_text

    check_output(out, theirs=False)
    with load_study(name, storage) as study:
        asked = study.ask()
        state = study.state
    if asked is None:
        report = report_of(state, intervals=False)
        _print(report.plain() if as_json else None, f"{report.top()}\nNext: {report.next}")
        return
    recorded(f"round {asked.number} of '{name}' is asked for")
    wanted = {arm: int(n) for arm, n in zip(asked.arms, asked.pulls, strict=True)}
    missing = {arm: int(n) for arm, n in zip(asked.arms, asked.outstanding, strict=True)}
    if out is not None:
        write_file(out, csv_text(("arm", "still_to_come"), [(arm, n) for arm, n in missing.items() if n]))
    if as_json:
        guarantee = str(guarantee_of(state))
        plain = {"study": name, "round": asked.number, "results": wanted, "still_to_come": missing}
        print_json({**plain, "guarantee": guarantee})
        return
    came = sum(wanted.values()) - sum(missing.values())
    so_far = f", {sum(missing.values())} of them still to come" if came else ""
    say(f"{name}, round {asked.number}: collect {sum(wanted.values())} results{so_far}.")
    rows = [(arm, wanted[arm], missing[arm]) for arm in asked.arms if wanted[arm]]
    if came:
        print_table(("arm", "results", "still to come"), rows[:60])
    else:
        print_table(("arm", "results"), [row[:2] for row in rows[:60]])
    if len(rows) > 60:
        say(f"... and {len(rows) - 60} more arms; --out FILE writes them all.")
    where = f" (written to {out})" if out is not None else ""
    say(f"Next: do this round{where}, then `roundwise tell {quote(name)} FILE`.")


@app.command(rich_help_panel=STUDIES)
def tell(
    name: Name,
    files: Annotated[list[Path] | None, typer.Argument(help="CSV, Excel or Parquet files with results.")] = None,
    settle: Annotated[
        str | None, typer.Option("--settle", help="Close the batch although results are missing; say why.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="New results that came out the same as some that are recorded.")
    ] = False,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Record results: rows arm,outcome; sums arm,count,total; or 0/1 results arm,count,successes."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        study.tell(*(files or []), settle=settle, again=again)
        told = ", ".join(str(each) for each in files or [])
        recorded(f"{told or 'that the rest will not come'} is recorded")
        report = study.report()
    _print(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())


@app.command("import", rich_help_panel=STUDIES)
def import_study(
    file: Annotated[Path, typer.Argument(help="A file that `roundwise export` wrote.")],
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Bring a study that was exported into a storage; its chain of digests is checked."""
    from roundwise.studies.store import open_store, read_log

    entries = read_log(file)
    with open_store(storage) as store:
        listing = store.put(entries)
    recorded(f"'{listing.name}' is imported")
    next_ = f"`roundwise verify {quote(listing.name)}` recomputes it."
    plain = {"study": listing.name, "entries": listing.entries, "next": next_} if as_json else None
    _print_of(entries, plain, f"Imported '{listing.name}' with {listing.entries} entries.\nNext: {next_}")


@app.command(rich_help_panel=STUDIES)
def verify(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Recompute every plan and verdict of a study from its record, and check that nothing was changed."""
    from roundwise.studies import replayed
    from roundwise.studies.guarantee import guarantee_of
    from roundwise.studies.store import open_store

    with open_store(storage, create=False) as store:
        entries = store.read(name)
    state = replayed(entries)
    found = {
        "study": name,
        "entries": len(entries),
        "batches": len(state.asked),
        "decided": state.decided is not None,
        "guarantee": str(guarantee_of(state)),
    }
    text = (
        f"'{name}' is sound: {len(entries)} entries, unbroken chain; {len(state.asked)} plans and "
        f"{'the' if state.decided else 'no'} verdict recomputed and found the same.\n"
        f"Next: `roundwise report {quote(name)}` says what it shows."
    )
    _print(found if as_json else None, text)


@app.command(rich_help_panel=STUDIES)
def amend(
    name: Name,
    file: Annotated[str, typer.Argument(help="The file that was told, by name or the start of its digest.")],
    why: Why,
    by: Annotated[
        Path | None, typer.Option("--by", help="The corrected file; without it the old one is withdrawn.")
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Correct or withdraw what a file brought: a new entry with a reason, never an edit."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        study.amend(file, by, why)
        recorded(f"the amendment of {file} is recorded")
        found = study.report()
    _print(found.plain() if as_json else None, found.text())


@app.command(rich_help_panel=STUDIES)
def close(name: Name, why: Why, storage: Storage = None, as_json: Json = False) -> None:
    """End a study before it is decided; what has not been ruled out is reported."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        study.end(why)
        recorded(f"'{name}' is closed")
        found = study.report()
    _print(found.plain() if as_json else None, found.text())


def _print(plain: dict[str, object] | None, text: str) -> None:
    if plain is not None:
        print_json(plain)
    else:
        say(text)


def _print_of(entries: Sequence[Entry], plain: dict[str, object] | None, text: str) -> None:
    """The same for a record, whose guarantee goes into the JSON."""
    from roundwise.studies.keeping import guarantee_of_record

    _print(None if plain is None else {**plain, "guarantee": guarantee_of_record(entries)}, text)


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
    return Statements.against_control(names, control, margin)


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
