"""`roundwise new, ask, tell, status, list, report, export, import, verify, amend, close`: live studies."""

from __future__ import annotations

import csv
import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from roundwise.cli.app import STUDIES, app
from roundwise.cli.options import Delta, FormsFile, Json, Level, Tolerance, TopSize, question_from
from roundwise.cli.output import check_output, print_json, print_table
from roundwise.errors import DataError, InputError, RoundwiseError, unknown
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

    forecast = None
    if from_plan is not None:
        from roundwise.planning import read_plan

        if question is not None or arms is not None or arms_file is not None:
            raise InputError("Give either --from-plan FILE, or the words of a study; a plan has them all.")
        planned, forecast = read_plan(from_plan)
        names, asked, found, delta, budget = (
            planned.arms,
            planned.question,
            planned.noise,
            planned.delta,
            planned.budget,
        )
        sampling = planned.policy
    else:
        if question is None:
            raise InputError("Give --question, or --from-plan FILE.")
        names = arm_names(_arm_list(arms, arms_file))
        asked = _question(question, names, k, level, file, tolerance, control, margin)
        found = _noise(sigma, normal, value_range, binary, counts, noise)
        sampling = made("policy", policy, trusted=True)
    with create_study(
        name,
        question=asked,
        arms=names,
        noise=found,
        delta=delta,
        policy=sampling,
        max_batch=max_batch,
        min_per_arm=min_per_arm,
        budget=budget,
        storage=storage,
    ) as study:
        guarantee = str(guarantee_of(study.state))
        if forecast is None:
            from roundwise.planning import first_line

            forecast = first_line(study.state.settings)
    promise = f"error at most {delta:g}" if guarantee == KEPT else f"error aimed at {delta:g}"
    stands = "" if guarantee == KEPT else f"The guarantee is {guarantee}.\n"
    next_ = f"`roundwise ask {quote(name)}` says what to do first."
    plain = {"study": name, "question": asked.name, "arms": names, "delta": delta, "guarantee": guarantee}
    plain["forecast"] = forecast
    ahead = "" if forecast is None else f"Forecast: {forecast}; `roundwise plan -h` says how to ask for more.\n"
    text = f"Created '{name}': {asked.name} of {len(names)} arms, {promise}.\n{stands}{ahead}Next: {next_}"
    _print({**plain, "next": next_} if as_json else None, text)


@app.command(rich_help_panel=STUDIES)
def ask(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="Write the batch to this CSV file.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """What to do next: how many results of each arm. The same batch until it is complete or settled."""
    from roundwise.studies import load_study
    from roundwise.studies.guarantee import guarantee_of
    from roundwise.studies.report import report_of

    check_output(out)
    with load_study(name, storage) as study:
        asked = study.ask()
        state = study.state
    if asked is None:
        report = report_of(state, intervals=False)
        _print(report.plain() if as_json else None, f"{report.top()}.\nNext: {report.next}")
        return
    pulls = {arm: int(n) for arm, n in zip(asked.arms, asked.pulls, strict=True)}
    missing = {arm: int(n) for arm, n in zip(asked.arms, asked.outstanding, strict=True)}
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as target:
            writer = csv.writer(target)
            writer.writerow(("arm", "pulls"))
            writer.writerows((arm, n) for arm, n in missing.items() if n)
    if as_json:
        guarantee = str(guarantee_of(state))
        plain = {"study": name, "batch": asked.number, "pulls": pulls, "outstanding": missing, "guarantee": guarantee}
        print_json(plain)
        return
    print(f"{name}, batch {asked.number}: {sum(pulls.values())} results, {sum(missing.values())} of them outstanding.")
    rows = [(arm, pulls[arm], missing[arm]) for arm in asked.arms if pulls[arm]]
    print_table(("arm", "results", "outstanding"), rows[:60])
    if len(rows) > 60:
        print(f"... and {len(rows) - 60} more arms; --out FILE writes them all.")
    where = f" (written to {out})" if out is not None else ""
    print(f"Next: do this batch{where}, then `roundwise tell {quote(name)} FILE`.")


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
        report = study.tell(*(files or []), settle=settle, again=again)
    told = ", ".join(str(each) for each in files or [])
    _print(report.plain() if as_json else None, (f"Recorded {told}.\n" if told else "") + report.text())


@app.command(rich_help_panel=STUDIES)
def status(name: Name, storage: Storage = None, as_json: Json = False) -> None:
    """Where a study stands: what came back, what is outstanding, what is still open."""
    from roundwise.studies import load_study
    from roundwise.studies.report import report_of

    with load_study(name, storage) as study:
        report = report_of(study.state, intervals=False)
    _print(report.plain() if as_json else None, report.text())


@app.command("list", rich_help_panel=STUDIES)
def list_studies(storage: Storage = None, as_json: Json = False) -> None:
    """All studies of the storage."""
    from roundwise.studies.store import open_store

    with open_store(storage, create=False) as store:
        found = store.studies()
        if as_json:
            plain = [
                {
                    "name": each.name,
                    "created": str(each.created),
                    "changed": str(each.changed),
                    "guarantee": _guarantee(functools.partial(store.read, each.name)),
                }
                for each in found
            ]
    if as_json:
        print_json(plain)
    elif found:
        rows = [(each.name, str(each.created)[:16], str(each.changed)[:16]) for each in found]
        print_table(("study", "created (UTC)", "last change"), rows)
        print("Next: `roundwise status NAME` shows where one stands.")
    else:
        print("There are no studies. Next: `roundwise new NAME --question best-arm --arms a,b,c --binary` creates one.")


@app.command(rich_help_panel=STUDIES)
def report(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="Write it: .html, .md or .json.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Everything there is to say about a study, with intervals."""
    from roundwise.studies import load_study

    endings = (".html", ".md", ".json")
    if out is not None and out.suffix.lower() not in endings:
        raise InputError(f"'{out}' must end in {', '.join(endings)}.")
    check_output(out)
    with load_study(name, storage) as study:
        found = study.report()
    if out is None:
        _print(found.plain() if as_json else None, found.text())
        return
    kind = out.suffix.lower()
    text = found.html() if kind == ".html" else found.markdown() if kind == ".md" else found.json()
    out.write_text(text, encoding="utf-8")
    next_ = found.next
    if found.status != "undecided":
        next_ = f"keep it with the record, which `roundwise export {quote(name)}` writes."
    _print(found.plain() if as_json else None, f"{found.top()}.\nThe report is in {out}.\nNext: {next_}")


@app.command(rich_help_panel=STUDIES)
def export(
    name: Name,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write; default NAME.jsonl.")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Write the whole record of a study to a file, for an archive or another machine."""
    from roundwise.studies.store import open_store, write_log

    target = Path(f"{name}.jsonl") if out is None else out
    check_output(target)
    with open_store(storage, create=False) as store:
        entries = store.read(name)
    write_log(target, entries)
    next_ = f"`roundwise import {quote(str(target))}` brings it into another storage."
    plain = {"study": name, "file": str(target), "entries": len(entries), "next": next_} if as_json else None
    _print_of(entries, plain, f"The record of '{name}' is in {target}.\nNext: {next_}")


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
        found = study.amend(file, by, why)
    _print(found.plain() if as_json else None, found.text())


@app.command(rich_help_panel=STUDIES)
def close(name: Name, why: Why, storage: Storage = None, as_json: Json = False) -> None:
    """End a study before it is decided; what has not been ruled out is reported."""
    from roundwise.studies import load_study

    with load_study(name, storage) as study:
        found = study.end(why)
    _print(found.plain() if as_json else None, found.text())


def _print(plain: dict[str, object] | None, text: str) -> None:
    if plain is not None:
        print_json(plain)
    else:
        sys.stdout.write(text + "\n")


def _print_of(entries: Sequence[Entry], plain: dict[str, object] | None, text: str) -> None:
    """The same for a record, whose guarantee goes into the JSON."""
    _print(None if plain is None else {**plain, "guarantee": _guarantee(lambda: entries)}, text)


def _guarantee(read: Callable[[], Sequence[Entry]]) -> str:
    """What became of the guarantee of a study; there is none where its record cannot be read or replayed."""
    from roundwise.studies import replayed
    from roundwise.studies.guarantee import VOID, guarantee_of

    try:
        return str(guarantee_of(replayed(read())))
    except RoundwiseError as error:
        return f"{VOID}the record cannot be replayed: {error}"


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
